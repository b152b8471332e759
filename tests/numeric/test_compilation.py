"""Generated source as machine code: it means what Python means, is made once for each structure, and refuses what it does not know."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, active_count, current_thread, main_thread
from typing import Any

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import keeping
from meanfield.numeric import integrands, store, tables, trajectory, work
from meanfield.numeric.compilation import machine
from meanfield.numeric.compilation.operations import Untranslatable
from meanfield.numeric.integrands import shape_row

LANGUAGE = '''
import math

import numpy as np

ROW = (0.5, -1.5, 4.0)
LIMIT = 3


def sorted_part(row, count):
    """neighbours, and places counted from the end"""
    order = np.argsort(row)
    part = row[1:-1]
    total = 0.0
    for i in range(count):
        total += part[i] * (1.0 + order[i])
    return total + row[-1] * np.searchsorted(np.full(4, 0.25), row[0]) + part.size


def both(x):
    if x > 1.0:
        return 1, x
    return 0.5, -x


def ends(x):
    a, b = both(x)
    low = min((a, b, 2.0))
    high = max(b, a)
    return high - low


def first_above(row, bound):
    for i in range(row.size):
        if row[i] <= bound:
            continue
        if not row[i] < 40.0:
            break
        return i
    return -1


def total_of(row):
    kinds = 0
    for each, weight in ((ROW[0], 2), (ROW[1], 3)):
        if each < 0.0 and weight == 3:
            kinds += 1
            continue
        kinds += 10
    for k in range(row.size - 1, -1, -2):
        kinds = kinds + row[k]
    return kinds


def down(k, m):
    steps = 0
    while k > 0 and steps < 100:
        k = (k - 1) // 2
        steps += 1
    return steps + k % m + (-7) // m + (-7) % m


def table(values, out):
    scratch = np.zeros(5)
    scratch[:] = 0.25
    for g in range(out.shape[1]):
        x = values[0, g]
        row = values[1]
        out[0, g] = x**2 + x**3 / (1.0 + abs(x)) - 2.0**-x
        out[1, g] = ends(x)
        out[2, g] = x % 0.75 + (-x) % 0.75
        out[3, g] = down(g, LIMIT)
        out[4, g] = first_above(row, x)
        out[5, g] = sorted_part(row, 2) + total_of(row) + scratch.sum()
        out[6, g] = (1.0 if x != x else 2.0) if x == x or g > 1 else 3
        out[7, g] = math.floor(x) + math.ceil(x) + int(x) if abs(x) < 100.0 else -1.0
        out[8, g] = math.copysign(1.0, -x) + (0.0 < x <= 1.0 < LIMIT) + ROW[g % 3]
        out[9, g] = (x > 0.0) & (x < 2.0) | (g == 3)
        out[10, g] = math.tanh(x) + math.erf(x) + math.atan2(x, -1.0)
'''


def test_it_means_what_python_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    x = np.array([0.3, 1.0, -0.0, 1.5, -2.25, 7.0, -0.75, 99.5])
    values = np.array([x, [0.1, 3.0, 2.0, 0.2, -1.0, 0.7, 50.0, 4.0]])
    one, other = np.full((11, 8), -9.0), np.full((11, 8), -7.0)
    store.interpreted(LANGUAGE).table(values, one)
    store.compiled(LANGUAGE, "table")(values, other)
    assert np.abs(one - other).max() < 1e-14 * np.abs(one).max()
    assert (one[:10] == other[:10]).all()
    edges = np.array([[math.nan, math.inf, -math.inf, -0.0], [0.1, 0.2, 0.3, 0.4]])
    one, other = np.full((11, 4), -9.0), np.full((11, 4), -7.0)
    with np.errstate(all="ignore"):
        store.interpreted(LANGUAGE).table(edges, one)
    store.compiled(LANGUAGE, "table")(edges, other)
    assert np.array_equal(one, other, equal_nan=True)
    assert np.isnan(one).any()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("out[0] = sum([v for v in x])", r"f: 'sum\(\[v for v in x\]\)'|f: '\[v for v in x\]'"),
        ("out[0] = math.gamma", "is no number"),
        ("out[0] = y", "y has no value"),
        ("out[0.5] = 1.0", "0.5"),
        ("with x: pass", "with x"),
        ("a = np.empty((x.size, 4))", r"f: 'np\.empty\(\(x\.size, 4\)\)' is not translated"),
        ("a = np.zeros((2,))", r"np\.zeros\(\(2,\)\)"),
        ("a = np.full(x[0], 1.0)", r"np\.full"),
        ("a = x if out[0] > 0.0 else 1.0", "one name for"),
    ],
)
def test_what_is_not_translated_is_named(line: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    with pytest.raises(Untranslatable, match=named):
        store.compiled(f"import math\n\nimport numpy as np\n\n\ndef f(x, out):\n    {line}\n", "f")(np.ones(3), np.ones(3))


def test_arrays_that_code_is_not_made_for() -> None:
    run = store.compiled("def f(x):\n    x[0] = 1.0\n", "f")
    for wrong in (np.ones(4, dtype=np.float32), np.ones((4, 4)).T[1:], np.ones(8)[::2]):
        with pytest.raises(TypeError, match="float64 and int64 in C order"):
            run(wrong)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """what is compiled in a folder of its own"""
    monkeypatch.setenv("MEANFIELD_CACHE_DIR", str(tmp_path))
    forget()
    functions: list[str] = []
    right = machine.drafted
    monkeypatch.setattr(machine, "drafted", lambda f, types, thorough: functions.append(f.__name__) or right(f, types, thorough))
    yield functions
    forget()


def forget() -> None:
    """as a new process"""
    for kept in (store.compiled, store.interpreted, trajectory.kernel_of, tables.table_of):
        kept.cache_clear()


def test_once_for_each_structure_and_only_in_the_first_process(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """other values, depths, sizes of the grid, layers kept and parameters that are swept compile nothing; neither does a later process,
    which lowers nothing and derives no shape"""

    def run(net: mf.Block) -> list[float]:
        found = []
        for w, depth, record in ((np.linspace(1, 2, 9), 3, "all"), (np.linspace(0.5, 1.1, 70), 20, "last"), (1.2, 8, 2)):
            found += (
                mf.propagate(net, depth, np.full((5, 1), 0.7), c=0.3, sigma_w=w, sigma_b=0.1, record=record).q[..., -1].ravel().tolist()
            )
        return found

    networks = (mf.mlp(mf.erf), mf.mlp(mf.softplus))  # in closed form, from tables
    first = [run(net) for net in networks]
    assert made == ["trajectories"] * len(networks)
    forget()
    monkeypatch.setattr(trajectory, "_made", lambda *arguments: pytest.fail("lowered again"))
    assert [run(net) for net in networks] == first
    assert len(made) == len(networks)


def test_threads_that_compile_at_once(made: list[str]) -> None:
    texts = [f"def f(x):\n    x[0] = x[0] + {k}.0\n" for k in (1, 2, 1, 2)]
    rows = [np.zeros(2) for _ in texts]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda text, row: store.compiled(text, "f")(row), texts, rows))
    assert [row[0] for row in rows] == [1.0, 2.0, 1.0, 2.0]
    assert len(made) == 2


@pytest.mark.parametrize("net", [mf.mlp(mf.softplus), mf.Residual(mf.GAU(mf.relu))], ids=["tables", "quadrature"])
def test_machine_code_is_made_while_shapes_are_found(made: list[str], monkeypatch: pytest.MonkeyPatch, net: mf.Block) -> None:
    """of a grid, once, by a thread that ends with it, also where an integrand has no shape"""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    own = {"sigma_w": 1.3, "n": 5, "s": 4, "d": 3, "e": 2}
    given = {s.name: own.get(s.name, 0.7) for s in mf.recursion(net).parameters}
    begun, found, right = Event(), shape_row.__wrapped__, machine.assembled
    by_main: list[bool] = []
    threads = active_count()

    def shape(*what: Any, **how: Any) -> np.ndarray:
        assert begun.wait(60.0)
        return np.asarray(found(*what, **how))

    def assembled(draft: machine.Draft) -> bytes:
        by_main.append(current_thread() is main_thread())
        begun.set()
        return right(draft)

    def run() -> np.ndarray:
        return np.asarray(mf.propagate(net, 2, [1.0, 0.5, 2.0], p=0.3, record="last", **given).q)

    monkeypatch.setattr(machine, "assembled", assembled)
    with monkeypatch.context() as patch:
        patch.setattr(integrands, "shape_row", no_shape)
        with pytest.raises(ValueError, match="no shape"):
            run()
    assert active_count() == threads
    forget()
    monkeypatch.setattr(integrands, "shape_row", shape)
    first = run()
    assert by_main == [False, False]
    assert active_count() == threads
    forget()
    assert np.array_equal(run(), first)
    assert by_main == [False, False]
    assert made == ["trajectories"] * 2


def no_shape(*what: Any, **how: Any) -> np.ndarray:
    raise ValueError("no shape")


def test_what_llvm_refuses_meanwhile_is_said(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(draft: machine.Draft) -> bytes:
        raise RuntimeError("no such instruction")

    with monkeypatch.context() as patch:
        patch.setattr(machine, "assembled", refused)
        with pytest.raises(RuntimeError, match="no such instruction"):
            mf.propagate(mf.mlp(mf.softplus), 3, [1.0, 2.0], sigma_w=1.0, sigma_b=0.0)
    assert (mf.propagate(mf.mlp(mf.softplus), 3, [1.0, 2.0], sigma_w=1.0, sigma_b=0.0).status == "ok").all()
    assert made == ["trajectories"] * 2


def test_the_temporary_folder_of_another_user_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(keeping.tempfile, "gettempdir", lambda: str(tmp_path))
    mine = tmp_path / f"meanfield-{os.getuid()}"
    assert keeping.places()[1:] == [mine]
    mine.mkdir()
    assert keeping.places()[1:] == [mine]
    foreign = os.getuid() + 1
    (tmp_path / f"meanfield-{foreign}").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: foreign)
    assert keeping.places()[1:] == []


NOWHERE = """
import sys, tempfile
import numpy as np
import meanfield as mf
if len(sys.argv) > 1:
    tempfile._candidate_tempdir_list = lambda: [sys.argv[1]]
for net in (mf.mlp(mf.relu), mf.mlp(mf.tanh)):
    for weights in (1.2, np.linspace(1, 2, 50)):
        print(mf.propagate(net, 30, 1.0, c=0.5, sigma_w=weights, sigma_b=0.1).log_apjn.tobytes().hex())
"""


def test_where_nothing_can_be_written_the_numbers_are_the_same(tmp_path: Path) -> None:
    """neither in the cache folder nor in a temporary one, as in a container whose disk is read-only; no message"""
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "below")
    command = [sys.executable, "-W", "error", "-B", "-c", NOWHERE]
    found = [
        subprocess.run([*command, *more], env={**os.environ, "MEANFIELD_CACHE_DIR": place}, capture_output=True, text=True, check=True)
        for place, more in ((str(tmp_path / "kernels"), []), (nowhere, [nowhere]))
    ]
    assert found[0].stdout == found[1].stdout
    assert found[1].stderr == ""


SMALL = """
import sys
import warnings
import meanfield as mf
net = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))
mf.propagate(net, 1000, 1.0, p=0.5, n=197, **{s.name: 0.6 for s in mf.recursion(net).parameters if s.name != "n"})
print(*sorted({"numba", "llvmlite", "scipy", "concurrent"} & {m.split(".")[0] for m in sys.modules}))
mf.propagate(mf.mlp(mf.relu), 5, [1.0] * 9, c=0.5, sigma_w=1.4, sigma_b=0)
print("numba" in sys.modules)
"""


def test_a_small_job_loads_no_compiler_and_none_loads_numba() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", SMALL], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["", "False"]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="processors of other families do not wait for what underflows")
def test_what_underflows_in_a_kernel_is_zero_there_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def gaps(count: int) -> np.ndarray:
        run = mf.propagate(mf.mlp(mf.erf), 600, 1.0, gap=np.linspace(0.2, 0.5, 8)[:count], sigma_w=0.4, sigma_b=0.3)
        return np.asarray(run.gap)

    blocks, alone = gaps(8), gaps(3)
    assert np.array_equal(blocks[:3], alone)
    monkeypatch.setattr(work, "PATIENCE", 10**9)
    plain = np.asarray(mf.propagate(mf.mlp(mf.erf), 600, 1.0, gap=0.2, sigma_w=0.4, sigma_b=0.3).gap)
    assert plain[-1] == 0.0
    assert np.allclose(plain, alone[0], rtol=1e-12, atol=0.0)
    assert blocks[:, -1].tolist() == [0.0] * 8
    assert not ((blocks > 0) & (blocks < sys.float_info.min)).any()
    assert np.array([1e-300]) * np.array([1e-20]) > 0


def test_a_point_that_goes_the_rare_way_of_every_choice_has_the_bits_of_a_block(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """opposite and equal inputs, states within series, states that overflow and go to 0; choices are foreseen for a single point alone"""
    texts: list[str] = []
    seen: set[str] = set()
    right = machine.translated
    monkeypatch.setattr(machine, "translated", lambda *given: texts.append(right(*given)) or texts[-1])
    variances = np.array([1e-9, 0.03, 1.0, 1e3, 1e30, 2.0, 1e-250, 1e299])
    for net in (mf.mlp(mf.Activation(sp.sin(mf.x))), mf.mlp(mf.relu), mf.mlp(mf.gelu), mf.mlp(mf.Activation(mf.x * mf.erf.expression))):
        for gap in (1.0, 2.0, 0.0, 1e-12):

            def run(points: slice, net: mf.Block = net, gap: float = gap) -> list[np.ndarray]:
                found = mf.propagate(net, 150, variances[points], gap=gap, sigma_w=3.0, sigma_b=0.0)
                return [np.asarray(getattr(found, name)) for name in ("q", "gap", "log_apjn", "log_apjn_forward", "chi", "status")]

            with warnings.catch_warnings(action="ignore"):
                blocks, *alone = (run(points) for points in (slice(None), slice(0, 4), slice(4, 8)))
            for whole, *parts in zip(blocks, *alone, strict=True):
                assert np.array_equal(whole, np.concatenate(parts), equal_nan=whole.dtype.kind == "f"), net
            seen |= set(blocks[-1])
    assert {"ok", "overflow", "underflow"} <= seen
    assert len(texts) == 8
    assert ["branch_weights" in text for text in texts] == [False, True] * 4
