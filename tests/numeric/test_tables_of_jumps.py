"""Tables of what jumps, and of what is 0 about 0: against quadrature and many digits, and what is left to these."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import sympy as sp
from from_tables import both_ways, read

import meanfield as mf
from meanfield.gaussian.pair_expectation import Gap
from meanfield.gaussian.singularities import regular
from meanfield.numeric import methods, trajectory
from meanfield.numeric.tables import Table


@pytest.mark.parametrize(
    "f",
    [
        mf.hardshrink(0.5).expression,
        sp.tanh(mf.x) + sp.Heaviside(mf.x - 1) / 3 - sp.Heaviside(mf.x + 2),
        sp.Piecewise((mf.x**2, mf.x < 1), (3 - mf.x, True)),
        sp.Heaviside(sp.Abs(mf.x) - 1) * sp.Abs(mf.x),
        sp.sign(mf.x) * (1 + sp.Abs(mf.x)),
    ],
    ids=["hardshrink", "up and down", "where it bends", "even", "at 0"],
)
def test_gaps_of_what_jumps(f: sp.Expr) -> None:
    """within what quadrature says of itself, from next to each other to opposite, or left to that; one by 25 digits"""
    table, node = Table(f, regular(f)), Gap(f, mf.q, mf.delta)
    for v in (0.3, 1.7, 5.0, 40.0):
        for e in (1e-200, 1e-20, 1e-6, 1e-3, 0.04, 0.3, 1.0, 1.3, 1.9, 1.9999, 2.0):
            found, (true, bound) = read(table, "gap", v, v * e), mf.evaluate(node, q=v, delta=v * e, error=True)
            assert abs(found - true) <= bound + 1e-13 * true or (math.isnan(found) and v != 5), (v, e)
    true = float(mf.evaluate(node, q=5.0, delta=0.2, digits=25))
    assert abs(read(table, "gap", 5.0, 0.2) / true - 1) < 1e-14


FAINT, WIDE = mf.x * sp.Heaviside(mf.x + 1) * sp.tanh(mf.x), (1e13, 1e40, 1e150)


@pytest.mark.parametrize(
    ("f", "variances"),
    [(FAINT, (0.02, 0.1, 0.3)), (mf.hardshrink(0.5).expression, WIDE), (mf.x + sp.Heaviside(mf.x - 1), WIDE)],
    ids=["next to no jump", "wide", "wide, of one sign"],
)
def test_jumps_are_told_from_the_rest(f: sp.Expr, variances: tuple[float, ...]) -> None:
    """where a jump is next to nothing of the function, and where the slope is next to all of it: no gap is left to quadrature"""
    table, node = Table(f, regular(f)), Gap(f, mf.q, mf.delta)
    for v in variances:
        for d in (v * 1e-200, v * 1e-20, v * 1e-6, 1e-9, 0.02, 1.0, 300.0, 1e5, 1e7, v / 1e3, v / 3, v):
            if d <= v:
                found, (true, bound) = read(table, "gap", v, d), mf.evaluate(node, q=v, delta=d, error=True)
                assert abs(found - true) <= bound + 1e-13 * true, (v, d)


@pytest.mark.parametrize("f", [mf.x + sp.Heaviside(mf.x - 1), sp.tanh(mf.x) + sp.Heaviside(mf.x - 1) / 10**6], ids=str)
def test_a_small_jump_is_all_that_is_left_of_a_gap(f: sp.Expr) -> None:
    """next to c = 1, where what else there is of it is far larger elsewhere: right or left to quadrature"""
    table, node = Table(f, regular(f)), Gap(f, mf.q, mf.delta)
    for v, e in ((1.0, 1e-20), (1.0, 1e-30), (1e6, 1e-26), (1e10, 1e-26)):
        found = read(table, "gap", v, v * e)
        assert math.isnan(found) or abs(found / mf.evaluate(node, q=v, delta=v * e) - 1) < 1e-12, (v, e)


def test_large_jumps_far_out_are_left_to_quadrature() -> None:
    """beside a small slope what jumps bring to a gap is no power of the distance yet at the last variance of tables"""
    f = mf.x / 1000 + 50 * sp.Heaviside(mf.x - 30) + 50 * sp.Heaviside(mf.x + 30)
    assert math.isnan(read(Table(f, regular(f)), "gap", 1e13, 1e7))
    run = mf.propagate(mf.mlp(mf.Activation(f)), 1, 1e13, gap=1e-6, record="last", sigma_w=1000, sigma_b=0)
    true = mf.evaluate(Gap(f, mf.q, mf.delta), q=10**13, delta=10**7, digits=20)
    assert run.gap[-1] * run.q[-1] == pytest.approx(1e6 * float(true), rel=1e-12)


def test_jumps_that_cancel_are_not_told_from_the_rest() -> None:
    """a bump so narrow that what its two jumps bring is next to nothing of either: the table has the gap as a whole"""
    f = sp.tanh(mf.x) + sp.Heaviside(mf.x - 1) - sp.Heaviside(mf.x - sp.Rational(101, 100))
    table, node = Table(f, regular(f)), Gap(f, mf.q, mf.delta)
    for v, d in ((256.0, 0.1), (256.0, 200.0), (65536.0, 3.0)):
        assert read(table, "gap", v, d) == pytest.approx(mf.evaluate(node, q=v, delta=d), rel=1e-12)


def test_jumps_take_no_leaps() -> None:
    """a depth that would take days is refused as such; one that comes to rest is not"""
    shrinking = mf.mlp(mf.hardshrink(0.5))
    with pytest.raises(ArithmeticError, match="pass a smaller depth"):
        mf.propagate(shrinking, 10**9, 1.0, p=0.3, record="last", sigma_w=1, sigma_b=0.3)
    assert mf.propagate(shrinking, 10**7, 1.0, p=0.3, record="last", sigma_w=1.5, sigma_b=0.3).status == "overflow"
    resting = mf.mlp(mf.Activation(sp.tanh(mf.x) + sp.sign(mf.x) / 2))
    assert mf.propagate(resting, 10**7, 1.0, p=0.3, record="last", sigma_w=0.9, sigma_b=0.3).status == "infinite APJN"


@pytest.mark.parametrize("phi", [sp.Max(sp.tanh(mf.x), -sp.Rational(1, 2)), sp.tanh(mf.x) * sp.Heaviside(mf.x)])
@pytest.mark.parametrize("sigma_w", [0.8, 1.6])
def test_kinks_come_to_rest(phi: sp.Expr, sigma_w: float) -> None:
    """the gap of phi' is of what jumps: after the repeats that are run one by one each adds the same"""
    ask = functools.partial(mf.propagate, mf.mlp(mf.Activation(phi)), q=1.0, p=0.3, sigma_w=sigma_w, sigma_b=0.2)
    before, deep = ask(20_000, record=10_000), ask(10**9, record="last")
    assert deep.q[0] == pytest.approx(before.q[-1], rel=1e-14)
    assert deep.gap[0] == pytest.approx(before.gap[-1], rel=1e-12, abs=1e-300)
    assert deep.log_apjn[0] == pytest.approx(before.log_apjn_forward[1] + (10**9 - 10**4) * math.log(before.chi[1]), rel=1e-9)


def test_gaps_of_what_jumps_are_read_in_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    q = np.linspace(0.5, 3.0, 300)
    summed: list[int] = []
    monkeypatch.setattr(
        methods, "by_quadrature", lambda asked, table: summed.append(table.shape[1]) or np.full((2, table.shape[1]), np.nan)
    )
    phi = mf.Activation(sp.tanh(mf.x) + sp.Heaviside(mf.x - 1) / 3)
    assert (mf.evaluate(phi.gap(mf.q, mf.delta), q=q, delta=q / 7) > 0).all()
    assert not summed


def test_networks_that_jump_run_from_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """infinite gradients are no gap of a table; as by quadrature"""
    true, found = both_ways(mf.mlp(mf.Activation(sp.tanh(mf.x) + sp.sign(mf.x) / 2)), 6, monkeypatch, sigma_w=0.9, sigma_b=0.3)
    assert (found.status == "infinite APJN").all()
    assert np.allclose(found.q, true.q, rtol=1e-13, atol=0)
    assert np.allclose(found.gap, true.gap, rtol=1e-12, atol=0)
    assert (np.isinf(found.log_apjn) == np.isinf(true.log_apjn)).all()


HALF = sp.Rational(1, 2)
VOIDS = {
    "soft": sp.Max(0, mf.x - HALF) - sp.Max(0, -mf.x - HALF),
    "hard": mf.x * (sp.Heaviside(mf.x - HALF, 0) + sp.Heaviside(-mf.x - HALF, 0)),
    "one side": sp.Max(0, mf.x - 1) / 2 + sp.Max(0, mf.x - 2),
    "uneven": sp.Heaviside(mf.x - HALF, 0) * sp.tanh(mf.x) + sp.Max(0, -mf.x - 2),
    "a step and a kink": sp.Heaviside(mf.x - HALF, 0) + sp.Max(0, mf.x - 1),
}


@pytest.mark.parametrize("name", VOIDS)
def test_what_is_0_about_0_is_tabulated_at_small_variances(name: str) -> None:
    """where all there is to a moment is e^{-k^2/2v}: relative to itself, as that is the gap a layer leaves"""
    f = VOIDS[name]
    phi, k = mf.Activation(f), 1.0 if name == "one side" else 0.5
    table, square = Table(f, regular(f)), Table(f**2, None)
    for exponent in (0.6, 3.0, 11.0, 30.0):
        v = 0.5 * k**2 / exponent
        assert read(square, "mean", v, 0.0) == pytest.approx(mf.evaluate(phi.second_moment(mf.q), q=v), rel=1e-13)
        for e in (1e-12, 0.02, 0.7, 1.3, 1.99):
            true = float(mf.evaluate(phi.gap(mf.q, mf.delta), q=v, delta=v * e))
            assert read(table, "gap", v, v * e) == pytest.approx(true, rel=1e-12), (exponent, e)


def test_variances_that_vanish_behind_a_void_leave_nothing() -> None:
    """e^{-k^2/2v} is no double, and neither is what is over it; of steps there is no slope between"""
    for f in (VOIDS["soft"], sp.Heaviside(mf.x - 1) - sp.Heaviside(-mf.x - 2)):
        table, square = Table(f, regular(f)), Table(f**2, None)
        for v in (1e-5, 1e-30, 1e-300):
            assert read(square, "mean", v, 0.0) == 0.0
            assert [read(table, "gap", v, v * e) for e in (1e-9, 0.3, 1.2)] == [0.0] * 3


@pytest.mark.parametrize("place", [2, 20])
def test_a_jump_beyond_a_kink(place: int) -> None:
    """what the jump brings is no double where a gap is one still"""
    f = sp.Max(0, mf.x - HALF) + sp.Heaviside(mf.x - place, 0)
    v = np.array([0.0015, 0.0019, 0.02, 0.1, 0.18, 0.5])
    run = mf.propagate(mf.mlp(mf.Activation(f)), 1, v, c=0.5, sigma_w=1, sigma_b=0)
    true = [float(mf.evaluate(Gap(f, mf.q, mf.delta), q=one, delta=one / 2)) for one in v.tolist()]
    np.testing.assert_allclose(run.gap[:, 1] * run.q[:, 1], true, rtol=1e-12)


def transformer(phi: mf.Activation) -> mf.Block:
    return mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(phi))


HEADS = {"n": 50, "sigma_1": 0.8, "sigma_K": 0.9, "sigma_Q": 0.8, "sigma_V": 0.8, "sigma_O": 0.7}


def test_a_transformer_of_what_jumps_runs_from_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """E phi'(u) phi'(v), which has deltas and no table, is not asked for beside an infinite E phi'^2"""
    net = transformer(mf.hardshrink(0.5))
    assert len(trajectory.kernel_of(mf.recursion(net), True).tabulated) > 1
    true, found = both_ways(net, 2, monkeypatch, **HEADS, sigma_2=0.7)
    assert (found.status == "infinite APJN").all()
    assert np.isinf(found.log_apjn[:, :-1]).all()
    for a, b in zip((found.q, found.gap), (true.q, true.gap), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_attention_without_a_skip_before_what_jumps() -> None:
    """the weights of an infinite E phi'^2 are sums, some terms of which are negative"""
    run = mf.propagate(mf.LayerNorm() >> mf.Attention() >> mf.MLP(mf.hardshrink(0.5)), 4, 1.0, p=0.1, sigma_2=0.7, **HEADS)
    assert run.status == "infinite APJN"
    assert np.isinf(run.chi).all()
    assert np.isinf(run.log_apjn[:-1]).all()
    assert np.isfinite(run.gap).all()


def test_a_transformer_whose_jumps_a_parameter_takes_away() -> None:
    """by its size or by the weight of the branch: what there is without them counts"""
    b = sp.Symbol("b", real=True)
    jumps, smooth = transformer(mf.Activation(sp.tanh(mf.x) + b * sp.Heaviside(mf.x))), transformer(mf.tanh)
    for own, weight in (({"b": 0}, 0.7), ({"b": 1}, 0.0), ({"b": 1}, 0.7)):
        run = mf.propagate(jumps, 3, 1.0, p=0.1, sigma_2=weight, **HEADS, **own)
        true = mf.propagate(smooth, 3, 1.0, p=0.1, sigma_2=weight, **HEADS)
        assert run.status == ("infinite APJN" if own["b"] and weight else "ok")
        np.testing.assert_allclose(run.log_apjn, np.where(run.log_apjn == np.inf, np.inf, true.log_apjn), rtol=1e-12)
