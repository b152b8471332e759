"""Very deep networks: the end without the layers between, and layers of a user's choice."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import VIT, transformer

import meanfield as mf
from meanfield.numeric import leaps, ways

NAMES = ("q", "gap", "log_apjn", "log_chi_product", "chi")


def close(a: mf.Run, b: mf.Run, tolerance: float) -> bool:
    return all(bool((np.abs(getattr(a, k) - getattr(b, k)) <= tolerance * np.abs(getattr(b, k))).all()) for k in NAMES)


@pytest.mark.parametrize("start", ["token", "pooled"])
@pytest.mark.parametrize(("norm", "settings"), [("layer", {}), ("derf", {"alpha": 0.6})])
def test_leaps_arrive_where_steps_do(norm: str, settings: dict[str, Any], start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {**VIT, **settings, "c": np.array([0.4, -0.004]), "sigma_V": np.array([0.64, 1.1])}
    steps = mf.propagate(transformer(norm, True), 20_000, 1.0, record="last", start=start, **values)
    monkeypatch.setattr(ways, "DEEP", 1)
    assert close(mf.propagate(transformer(norm, True), 20_000, 1.0, record="last", start=start, **values), steps, 1e-12)


@pytest.mark.parametrize("start", ["token", "pooled"])
@pytest.mark.parametrize(("norm", "settings"), [("layer", {}), ("derf", {"alpha": 0.6})])
def test_layers_on_the_way_of_leaps(norm: str, settings: dict[str, Any], start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """before the leaps, where they meet, inside them, and in the last layers, where the gradient forgets how it started"""
    kept = [0, 1, 5, 1023, 1024, 1040, 5000, 12_345, 19_900, 19_999]
    values = {**VIT, **settings, "c": np.array([0.4, -0.004]), "sigma_V": np.array([0.64, 1.1])}
    steps = mf.propagate(transformer(norm, True), 20_000, 1.0, record=kept, start=start, **values)
    monkeypatch.setattr(ways, "DEEP", 1)
    leapt = mf.propagate(transformer(norm, True), 20_000, 1.0, record=kept, start=start, **values)
    assert leapt.layers.tolist() == steps.layers.tolist()
    for name in (*NAMES, "log_apjn_forward"):
        a, b = getattr(leapt, name), getattr(steps, name)
        assert (np.abs(a - b) <= 1e-12 * np.abs(b) + 1e-13 * ("log" in name)).all(), name


def test_layers_on_the_way_to_a_billion(monkeypatch: pytest.MonkeyPatch) -> None:
    """q_l = 1 + l/2 and J^{L,l} = q_L/q_l exactly, decade by decade; all of it without a layer that was not needed"""
    monkeypatch.setattr(ways, "_by_quadrature", None)
    net = mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu))
    decades = [0, *(10**k for k in range(10))]
    run = mf.propagate(net, 10**9, 1.0, c=0.3, sigma_1=1.0, sigma_2=1.0, record=decades)
    q = 1 + 0.5 * np.array(decades)
    assert run.status == "ok"
    assert run.layers.tolist() == decades
    assert np.abs(run.q / q - 1).max() < 1e-13
    assert np.abs(run.log_apjn - np.log(q[-1] / q)).max() < 1e-12
    assert np.abs(run.log_apjn_forward - np.log(q)).max() < 1e-12
    assert np.abs(run.chi - (1 + 0.5 / q[:-1])).max() < 1e-15


@pytest.mark.parametrize("sigma_w", [2.0, 0.8, 3.0])
def test_layers_on_the_way_of_what_comes_to_rest(sigma_w: float, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [0, 3, 50, 400, 401, 19_999]
    settings = {"sigma_w": sigma_w, "sigma_b": 0.3, "c": 0.5, "record": kept}
    net = mf.mlp(mf.erf)
    steps = mf.propagate(net, 20_000, 1.0, **settings)
    monkeypatch.setattr(ways, "DEEP", 1)
    rest = mf.propagate(net, 20_000, 1.0, **settings)
    assert rest.status == steps.status
    for name in (*NAMES, "log_apjn_forward"):
        a, b = getattr(rest, name), getattr(steps, name)
        assert (np.abs(a - b) <= 1e-12 * np.abs(b)).all(), name


def test_layers_before_an_overflow() -> None:
    settings = {"c": 0.5, "sigma_w": 2.0, "sigma_b": 0.0}
    far = mf.propagate(mf.mlp(mf.relu), 10**9, 1.0, record=[0, 7, 300, 10**6], **settings)
    near = mf.propagate(mf.mlp(mf.relu), 400, 1.0, record=[0, 7, 300], **settings)
    assert far.status == "overflow"
    assert np.abs(far.q[:3] / near.q[:3] - 1).max() < 1e-13
    assert np.isnan(far.q[3:]).all()
    assert np.isnan(far.log_apjn).all()


def test_a_billion_blocks() -> None:
    """q_L = 1 + L/2 and J = q_L/q_0 exactly"""
    net = mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu))
    run = mf.propagate(net, 10**9, 1.0, c=0.3, sigma_1=1.0, sigma_2=1.0, record="last")
    assert run.status == "ok"
    assert run.q[0] == pytest.approx(5e8 + 1, rel=1e-14)
    assert run.log_apjn[0] == pytest.approx(math.log(5e8 + 1), rel=1e-14)
    assert run.log_chi_product[0] == run.log_apjn[0]


def test_a_billion_blocks_in_two_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    net = transformer("derf", True)
    one = mf.propagate(net, 10**9, 1.0, gap=1e-30, alpha=0.5, record="last", **VIT)
    monkeypatch.setattr(leaps, "RATIO", 1.9)
    monkeypatch.setattr(leaps, "LONGEST", 2.7)
    assert close(mf.propagate(net, 10**9, 1.0, gap=1e-30, alpha=0.5, record="last", **VIT), one, 1e-12)


@pytest.mark.parametrize("phi", [mf.erf, mf.tanh], ids=repr)
def test_a_network_that_comes_to_rest(phi: mf.Activation) -> None:
    """beyond the fixed point, to the bit, ln J is linear in depth"""
    settings = {"sigma_w": np.array([2.0, 0.8]), "sigma_b": 0.3, "c": 0.5}
    near = [mf.propagate(mf.mlp(phi), L, 1.0, record="last", **settings) for L in (4000, 5000)]
    far = mf.propagate(mf.mlp(phi), 10**9, 1.0, record="last", **settings)
    assert far.status.tolist() == ["ok", "gap underflow"]
    assert np.abs(far.q / near[0].q - 1).max() < 1e-14
    slope = (near[1].log_apjn - near[0].log_apjn) / 1000
    assert np.abs((far.log_apjn - near[0].log_apjn) / (slope * (10**9 - 4000)) - 1).max() < 1e-12


def test_a_product_that_is_marginal() -> None:
    """post-LN comes to rest where the gradient neither grows nor falls: an eigenvalue of 1 to a billion's power is 1"""
    net = mf.post_norm(norm=mf.LayerNorm(), attention=mf.Attention(64), mlp=mf.MLP(mf.relu))
    given = {s.name: 0.7 for s in mf.recursion(net).parameters}
    deep, less = (mf.propagate(net, depth, 1.0, c=0.4, record="last", **given) for depth in (10**9, 4000))
    assert abs(deep.log_apjn[0] - less.log_apjn[0]) < 1e-12


def test_a_product_that_stays_as_it_is_by_cancelling() -> None:
    """behind a post-norm what a repeat takes from one token the other gives back: in doubles what is left is rounding"""
    net = mf.post_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))
    values = {s.name: 0.7 for s in mf.recursion(net).parameters} | {"n": 197}
    run = mf.propagate(net, 10**9, 1.0, c=0.5, record=[0, 1000], **values)
    for layer in (0, 1):
        left = mf.propagate(net, 10**9 - run.layers[layer], run.q[layer], gap=run.gap[layer], record="last", **values)
        assert abs(run.log_apjn[layer] - left.log_apjn[0]) < 1e-12
        assert run.log_chi_product[layer] == pytest.approx(left.log_chi_product[0], rel=1e-12)
    soon = mf.propagate(net, 10**4, 1.0, c=0.5, record="last", **values)
    assert abs(run.log_apjn[0] - soon.log_apjn[0]) < 1e-12


def mixing(states: np.ndarray) -> np.ndarray:
    """what a repeat adds whose product is of the powers of ((3/4, 1/4), (1/4, 3/4)), at a state of rest"""
    ratio = states[2]
    first, second = 0.75 + ratio / 4, 0.25 + 0.75 * ratio
    return np.array([0 * ratio, 0 * ratio, second / first - ratio, np.log(first), 0 * ratio])


def test_a_column_that_is_damped_on_the_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """it comes to (1, 1)/2 within some repeats, next to which its equation, times so many as there are, is rounding"""
    path: list[leaps.Leap] = []
    leaps.leap_to(mixing, leaps.State(1024, 1.0, 0.0, 1.0, 0.0, 0.0), 10**7, path, 1.0)
    pieces, at_once = [], leaps._back_at_once
    monkeypatch.setattr(leaps, "_back_at_once", lambda *args: (pieces.append(args[2]), at_once(*args))[1])
    column = leaps.Column(10.0**7, 0.0, 0.0, 0.0)
    for leap in reversed(path):
        column, _ = leaps.back_over(leap, mixing, column, np.empty(0))
    assert abs(column.ratio - 1) < 1e-12
    assert abs(column.log - math.log(0.5)) < 1e-8  # 1e-15 of the ratio, times the repeats
    assert len(pieces) < 100


def test_a_way_back_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    path: list[leaps.Leap] = []
    leaps.leap_to(mixing, leaps.State(1024, 1.0, 0.0, 1.0, 0.0, 0.0), 10**9, path, 1.0)

    def rough(*args: object) -> None:
        raise leaps.Rough("no piece will do")

    monkeypatch.setattr(leaps, "_back_at_once", rough)
    with pytest.raises(leaps.Rough, match="pieces"):
        leaps.back_over(path[-1], mixing, leaps.Column(10.0**9, 0.0, 0.0, 0.0), np.empty(0))


def test_what_is_neither_smooth_nor_at_rest() -> None:
    """a gap at critical weights at q = 1, where a rounding of a layer counts a billion times: a depth that steps cannot reach is refused"""
    with pytest.raises(ArithmeticError, match="depth = 1000000000000: 1 of the settings"):
        mf.propagate(mf.mlp(mf.erf), 10**12, 1.0, c=0.5, sigma_w=1.3252183528612111, sigma_b=0.4291149936875345, record="last")


HALF = sp.Rational(1, 2)
CHANGING = {
    "LayerNorm": mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu, 1, 1), scale=(mf.l + 1) ** -HALF),
    "a sum that converges": mf.Residual(mf.MLP(mf.tanh, 1, 1), scale=1 / (mf.l + 1)),
    "attention, and tables": mf.pre_norm(
        norm=mf.Derf(1), attention=mf.Attention(9, 1, 1, 1, 1), mlp=mf.MLP(mf.silu, 1, 1), scale=sp.sqrt((mf.l + 1) / mf.L)
    ),
}


@pytest.mark.parametrize("name", CHANGING)
def test_leaps_of_laws_that_change_with_depth(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [0, 1, 5, 1023, 1024, 1040, 5000, 12_345, 19_900, 19_999]
    steps = mf.propagate(CHANGING[name], 20_000, 1.0, gap=0.7, record=kept)
    monkeypatch.setattr(ways, "DEEP", 1)
    leapt = mf.propagate(CHANGING[name], 20_000, 1.0, gap=0.7, record=kept)
    for k in (*NAMES, "log_apjn_forward"):
        a, b = getattr(leapt, k), getattr(steps, k)
        assert (np.abs(a - b) <= 1e-12 * np.abs(b) + 1e-12 * ("log" in k)).all(), k


def test_a_billion_blocks_of_falling_scales(monkeypatch: pytest.MonkeyPatch) -> None:
    """q is 1 and half the harmonic number, of which J is the same multiple"""
    monkeypatch.setattr(ways, "_by_quadrature", None)
    run = mf.propagate(CHANGING["LayerNorm"], 10**9, 1.0, gap=0.7, record="last")
    exact = 1 + float(mp.harmonic(10**9)) / 2
    assert run.status == "ok"
    assert run.q[0] == pytest.approx(exact, rel=1e-13)
    assert run.log_apjn[0] == pytest.approx(math.log(exact), rel=1e-12)


LAST, MIDDLE = sp.Eq(mf.l, mf.L - 1), sp.Eq(mf.l, 2000)
AT_ONCE = {
    "swings": sp.cos(mf.l),
    "another last layer": sp.Piecewise((2, LAST), (1, True)) / (mf.l + 1),
    "one layer in the middle": sp.Piecewise((5, MIDDLE), (1, True)) / (mf.l + 1),
    "a bump": sp.exp(-((mf.l - 2000) ** 2)) + 1 / (mf.l + 1),
    "a narrow quotient": 1 / ((mf.l - 2000) ** 2 + 1),
}


@pytest.mark.parametrize("name", AT_ONCE)
@pytest.mark.parametrize("start", [{}, {"gap": 0.3}], ids=str)
def test_what_happens_at_one_layer_takes_its_steps(name: str, start: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    net = mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu, 1, 1), scale=AT_ONCE[name])
    steps = mf.propagate(net, 3000, 1.0, record="last", **start)
    assert steps.status == "ok"
    monkeypatch.setattr(ways, "DEEP", 1)
    assert mf.propagate(net, 3000, 1.0, record="last", **start).q == steps.q


def test_a_wave_behind_a_norm_has_one_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    """where a series for small variances is not written beside the closed form: the norm leaves none"""
    net, given = mf.residual_mlp(mf.sin, norm=mf.LayerNorm()), {"gap": 0.3, "sigma_w": 0.7, "sigma_b": 0.1}
    steps = mf.propagate(net, 10**5, 1.0, record="last", **given)
    monkeypatch.setattr(ways, "DEEP", 1)
    leapt = mf.propagate(net, 10**5, 1.0, record="last", **given)
    for name in ("q", "gap", "log_apjn"):
        np.testing.assert_allclose(getattr(leapt, name), getattr(steps, name), rtol=1e-11)


def test_overflow_far_out() -> None:
    run = mf.propagate(mf.mlp(mf.relu), 10**9, 1.0, c=0.5, sigma_w=2, sigma_b=0, record="last")
    assert run.status == "overflow"
    assert np.isnan(run.q).all()


# -- layers of a user's choice ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.7, [0.4, 0.5, 0.6, 0.7, 0.8, 0.9]], ids=["point", "grid"])
def test_record_a_sequence(alpha: Any) -> None:
    net = transformer("derf", True)
    every = mf.propagate(net, 101, 1.0, p=0.4, alpha=alpha, **VIT)
    for record in ([0, 1, 10, 100], (50,), np.array([99, 3, 99]), [101], range(20, 30)):
        run = mf.propagate(net, 101, 1.0, p=0.4, alpha=alpha, record=record, **VIT)
        assert run.layers.tolist() == sorted({*map(int, record), 101})
        for name in ("q", "gap", "log_apjn_forward", "log_apjn", "log_chi_product"):
            if len(run.layers) > 1 or not name.endswith(("apjn", "product")):
                assert (getattr(run, name) == getattr(every, name)[..., run.layers]).all(), name
        if len(run.layers) > 1:
            assert (run.chi == every.chi[..., run.layers[:-1]]).all()


def test_record_a_sequence_of_gram_matrices() -> None:
    settings = {"n": 3, "p": 0.4, "sigma_V": 1, "sigma_O": 1}
    every = mf.propagate(mf.CausalAttention(), 9, 1.0, **settings)
    run = mf.propagate(mf.CausalAttention(), 9, 1.0, record=[2, 7], **settings)
    assert run.layers.tolist() == [2, 7, 9]
    assert (run.gram == every.gram[[2, 7, 9]]).all()


@pytest.mark.parametrize(
    ("record", "error", "words"),
    [
        ([-1], ValueError, "-1: layers are from 0 to depth = 5"),
        ([6], ValueError, "6"),
        ([0.5], TypeError, "0.5"),
        ("some", ValueError, "some"),
    ],
)
def test_layers_that_are_none(record: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        mf.propagate(mf.mlp(mf.relu), 5, 1.0, sigma_w=1, sigma_b=0, record=record)


def test_out(tmp_path: Path) -> None:
    """the result in the caller's memory, here a file; what does not fit names the shape of such a file; no mixing of tokens: one product"""
    settings = {"sigma_w": np.linspace(1, 1.4, 70), "sigma_b": 0, "c": 0.5}
    net = mf.mlp(mf.relu)
    plain = mf.propagate(net, 20, 1.0, record=5, **settings)
    assert np.shares_memory(plain.log_chi_product, plain.log_apjn)
    file = np.memmap(tmp_path / "run", dtype=np.float64, mode="w+", shape=(6, 5, 70))
    run = mf.propagate(net, 20, 1.0, record=5, out=file, **settings)
    for k, name in enumerate(("q", "gap", "log_apjn", "log_apjn_forward", "log_chi_product", "chi")):
        assert (getattr(run, name) == getattr(plain, name)).all()
        assert name == "gap" or np.shares_memory(getattr(run, name), file[k])
    with pytest.raises(ValueError, match=r"out has shape \(6, 4, 70\): expected \(6, 5, 70\)"):
        mf.propagate(net, 20, 1.0, record=5, out=np.empty((6, 4, 70)), **settings)
    with pytest.raises(TypeError, match="float32"):
        mf.propagate(net, 20, 1.0, record=5, out=np.empty((6, 5, 70), dtype=np.float32), **settings)
    with pytest.raises(ValueError, match=r"GiB .* out=np.memmap\(\.\.\.\) of shape \(6, 10000000001, 70\)"):
        mf.propagate(net, 10**10, 1.0, **settings)
    with pytest.raises(ValueError, match="Gram"):
        mf.propagate(net, 2, 1.0, q2=2.0, c=0.5, sigma_w=1, sigma_b=0, out=file)


def test_what_goes_bad_soon_is_not_run_to_the_end() -> None:
    """and what would take a quadrature at each of a billion layers is refused"""
    net, start = mf.residual_mlp(mf.gelu), {"p": 0.4, "sigma_w": np.array([1.1, 1.2]), "sigma_b": 0.2}
    few = mf.propagate(net, 2000, 1.0, record=[0, 64, 256, 2000], **start)
    deep = mf.propagate(net, 10**9, 1.0, record=[64, 256, 10**6], **start)
    assert few.status.tolist() == deep.status.tolist() == ["overflow", "overflow"]
    for name in ("q", "gap", "log_apjn_forward"):
        np.testing.assert_allclose(getattr(deep, name)[:, :2], getattr(few, name)[:, 1:3], rtol=1e-14)  # plain Python, compiled code
        assert np.isnan(getattr(deep, name)[:, 2:]).all()
    assert np.isnan(deep.log_apjn).all()
    turning = mf.Residual(mf.Activate(mf.activations["arctan"]) >> mf.Linear(1, 0), scale=sp.cos(mf.l))
    why = r"1 of the settings have no finite J, or neither .* 1000000000 layers one by one adds up: pass a smaller depth"
    with pytest.raises(ArithmeticError, match=why):
        mf.propagate(turning, 10**9, 1.0, record="last")


@pytest.mark.parametrize("start", [{}, {"c": 0.5}], ids=str)
def test_what_shrinks_beyond_its_tables(start: dict[str, float]) -> None:
    """q of elu leaves the tables before the second leap is tried; near 0 it falls by a constant factor"""
    run = mf.propagate(mf.mlp(mf.elu(1)), 10**8, 1.0, record=[0, 2000, 10**8], sigma_w=0.99, sigma_b=0, **start)
    few = mf.propagate(mf.mlp(mf.elu(1)), 2000, 1.0, record=[0, 1999, 2000], sigma_w=0.99, sigma_b=0, **start)
    assert run.status == "underflow"
    assert few.q[2] / few.q[1] == pytest.approx(0.99**2, rel=1e-8)
    assert run.q[1] == pytest.approx(few.q[2], rel=1e-11)


def test_what_shrinks_to_the_end_of_the_doubles() -> None:
    """leaps reach the layer at which q leaves them, and say of those before what one by one does"""
    net, start = mf.mlp(mf.activations["arctan"]), {"c": 0.5, "sigma_w": 0.9, "sigma_b": 0.0}
    kept = [100, 1500, *range(3255, 3280)]
    few, deep = mf.propagate(net, 3300, 1.0, record=kept, **start), mf.propagate(net, 10**9, 1.0, record=kept, **start)
    assert few.status == deep.status == "underflow"
    assert 3 < np.isfinite(deep.q).sum() < len(kept) - 3
    for name in ("q", "gap", "log_apjn_forward", "chi"):
        np.testing.assert_allclose(getattr(deep, name), getattr(few, name), rtol=2e-12)
    assert np.isnan(deep.log_apjn).all()


def test_what_shrinks_slowly_is_not_lost_on_the_way() -> None:
    """a layer next to criticality is linear once q is next to 0: sigma_w^2 a layer, also after ten million"""
    sigma = 0.99999
    run = mf.propagate(mf.mlp(mf.tanh), 10**7, 1.0, c=0.5, record=[8 * 10**6], sigma_w=sigma, sigma_b=0.0)
    assert run.status == "ok"
    lost = 2 * 10**6 * 2 * math.log1p(sigma - 1)
    assert math.log(run.q[1] / run.q[0]) == pytest.approx(lost, rel=1e-11)
    assert run.gap[1] == pytest.approx(run.gap[0], rel=1e-9)
    assert run.log_apjn_forward[1] - run.log_apjn_forward[0] == pytest.approx(lost, rel=1e-11)
    assert run.log_apjn + run.log_apjn_forward == pytest.approx(np.full(2, run.log_apjn_forward[-1]), rel=1e-11)


def test_a_law_that_holds_the_depth_is_not_judged_at_another() -> None:
    """a skip that overflows where 16,384 layers are all; at small variances an erf is linear"""
    depth, skip = 10**7, 0.9999 * (1 + 9 * 10**9 / mf.L**2)
    net = mf.Residual(mf.Linear(sigma_w=0.001, sigma_b=0) >> mf.Activate(mf.erf), skip=skip)
    run = mf.propagate(net, depth, 1.0, c=0.5, record="last")
    factor = skip.subs(mf.L, depth) ** 2 - 1 + 4e-6 / math.pi
    assert run.status == "ok"
    assert math.log(run.q[0]) == pytest.approx(depth * math.log1p(factor), rel=1e-6)
