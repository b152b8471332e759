"""What nobody waits for, or has room for, is refused before it begins; what was begun ends when the user says so."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric import threads

CAUSAL = mf.CausalAttention(n=3, sigma_V=1, sigma_O=1)
SINE = sp.sin(mf.x)
TANH = {"q": 1.0, "c": 0.3, "sigma_w": 1.3, "sigma_b": 0.1}


@pytest.mark.parametrize(
    "call",
    [
        lambda depth: mf.propagate(CAUSAL, depth, 1.0, p=0.4, record="last"),
        lambda depth: mf.ntk(mf.mlp(mf.erf), depth, 1.0, c=0.5, record="last", sigma_w=1.3, sigma_b=0.1),
        lambda depth: mf.sensitivity(mf.mlp(mf.tanh), depth, with_respect_to="sigma_w", **TANH),
        lambda depth: mf.sensitivity(mf.mlp(mf.erf), depth, q2=2.0, with_respect_to="sigma_w", **TANH),
    ],
    ids=["Gram matrices", "tangent kernel", "derivatives", "derivatives of Gram matrices"],
)
def test_days_are_refused(call: object) -> None:
    began = time.perf_counter()
    with pytest.raises(ArithmeticError, match=r"depth = 1000000000: .* one by one would take some .* minutes: pass a smaller depth"):
        call(10**9)  # type: ignore[operator]
    assert time.perf_counter() - began < 60
    call(3)  # type: ignore[operator]


@pytest.mark.parametrize("depth", [10**6, 5 * 10**6])
def test_minutes_by_quadrature_are_refused_whatever_is_kept(depth: int) -> None:
    """of one point, during which no bar moves"""
    bump = mf.Residual(mf.Activate(mf.Activation(mf.x * sp.exp(-sp.sqrt(1 + mf.x**2)))) >> mf.Linear())
    begin = time.process_time()
    with pytest.raises(ArithmeticError, match=rf"depth = {depth}: each layer that is kept .* at one setting would take some .* minutes"):
        mf.propagate(bump, depth, 1e20, sigma_w=0.7, sigma_b=1e5)
    assert time.process_time() - begin < 60


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to a process on Windows")
def test_derivatives_hear_the_user() -> None:
    mf.sensitivity(mf.mlp(mf.tanh), 300, with_respect_to="sigma_w", **TANH)  # what is made first is there
    began = time.perf_counter()
    threading.Timer(1.0, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        mf.sensitivity(mf.mlp(mf.tanh), 10**5, with_respect_to="sigma_w", **TANH)
    assert time.perf_counter() - began < 60


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to a process on Windows")
def test_a_large_grid_hears_the_user() -> None:
    """within a second, wherever in some 30,000 parts of a grid that is"""
    weights = np.linspace(0.9, 2.0, 4_000_000)
    mf.propagate(mf.mlp(mf.tanh), 5, 1.0, c=0.6, sigma_w=weights[:100], sigma_b=0.1, record="last")  # what is made first is there
    for seconds in (0.3, 1.5):
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            mf.propagate(mf.mlp(mf.tanh), 1000, 1.0, c=0.6, sigma_w=weights, sigma_b=0.1, record="last")
        assert time.perf_counter() - begin < seconds + 10  # the machine may be busy


def _steep() -> mf.Block:
    """what tables do not hold"""
    return mf.mlp(mf.Activation(sp.exp(mf.x**2 / 50) * sp.tanh(mf.x)))


@pytest.mark.parametrize(
    "call",
    [
        lambda: mf.propagate(_steep(), 3000, 1.0, c=0.5, sigma_w=1.2, sigma_b=0.2, record="last"),
        lambda: mf.propagate(_steep(), 3000, 1.0, c=0.5, sigma_w=1.2, sigma_b=0.2, record=1000),
        lambda: mf.sensitivity(mf.mlp(mf.tanh), 700, with_respect_to="sigma_w", **TANH),
    ],
    ids=["to the end", "layers kept", "derivatives"],
)
def test_one_long_trajectory_shows_how_far_it_is(call: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []

    def tracked(items: Iterable[int], description: str, total: int) -> Iterator[int]:
        for item in items:
            if total == threads.MARKS:
                passed.append(item)
            yield item

    monkeypatch.setattr(threads, "track", tracked)
    monkeypatch.setattr(threads, "LOOK", 0.01)
    call()
    assert passed == list(range(1, len(passed) + 1))
    assert 50 < len(passed) <= threads.MARKS


def test_what_goes_wrong_in_a_part_ends_the_others() -> None:
    done: list[int] = []

    def task(part: int) -> None:
        if part == 3:
            raise OSError("no room")
        done.append(part)

    halted: list[bool] = []
    with pytest.raises(OSError, match="no room"):
        threads.share(task, range(10_000), "test", lambda: halted.append(True))
    assert halted == [True]
    assert len(done) < 10_000


def test_a_start_without_room() -> None:
    many = np.ones(10**6)
    with pytest.raises(ValueError, match=r"the start needs .* GiB .*: pass fewer values of q or of c"):
        mf.propagate(mf.mlp(mf.tanh), 10, many, c=many[:, None] / 2, sigma_w=1.3, sigma_b=0.1)


def test_a_sweep_is_a_zarr_store(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"run\.csv.*: a sweep is a folder in the Zarr format: pass one like .*run\.zarr"):
        mf.propagate(mf.mlp(mf.tanh), 10, sigma_w=1.3, sigma_b=0.1, q=1.0, c=0.5, out=tmp_path / "run.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("f", [sp.Max(mf.x, 0) + SINE, sp.Abs(mf.x) + SINE, sp.Max(mf.x, 0) - SINE.subs(mf.x, 2 * mf.x) / 3], ids=str)
def test_kinks_beside_sines(f: sp.Expr) -> None:
    """their closed forms hold an angle less its sine, also where it is told whether they cancel"""
    phi = mf.Activation(f)
    run = mf.propagate(mf.mlp(phi), 1, 1.0, c=0.5, sigma_w=1, sigma_b=0.1)
    assert run.q[1] == pytest.approx(mf.evaluate(phi.second_moment(mf.q), q=1.0) + 0.01, rel=1e-14)
    assert run.p[1] == pytest.approx(mf.evaluate(phi.kernel(mf.q, mf.p), q=1.0, p=0.5) + 0.01, rel=1e-13)
