"""Moments of several exchangeable Gaussians: against a sum over nodes, their reductions, and gaps that do not cancel."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.families import moments
from meanfield.gaussian import frozen_rules
from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.symbols import known

X, W = np.polynomial.hermite_e.hermegauss(120)
W = W / W.sum()
SILU = mf.silu.expression


def by_nodes(powers: list[tuple[int, int]], q: float, delta: float, spread: bool) -> float:
    u = np.sqrt(q - delta) * X[:, None] + np.sqrt(delta) * X[None, :]
    z = u / (1 + np.exp(-u))
    dz = 1 / (1 + np.exp(-u)) + u * np.exp(-u) / (1 + np.exp(-u)) ** 2
    given = [(z**i * dz**j) @ W for i, j in powers]
    if spread:
        (a, _), (b, _) = powers[-2:]
        given = [*given[:-2], (z ** (a + b)) @ W - given[-2] * given[-1]]
    return float(W @ np.prod(given, axis=0))


@pytest.mark.parametrize("spread", [False, True])
def test_against_a_sum_over_nodes(spread: bool) -> None:
    for powers in ([(2, 0), (1, 0), (1, 0)], [(0, 1), (0, 1), (1, 0), (2, 0)], [(4, 0), (2, 0)]):
        node = Exchangeable(SILU, powers, mf.q, mf.delta, spread=spread)
        for q, delta in ((1.0, 0.6), (2.0, 0.3)):
            assert mf.evaluate(node, q=q, delta=delta) == pytest.approx(by_nodes(powers, q, delta, spread), rel=1e-11)


def test_spread_is_what_a_change_of_one_token_takes_away() -> None:
    f = mf.relu.expression
    one = Exchangeable(f, [(1, 0), (3, 0)], mf.q, mf.delta)
    other = Exchangeable(f, [(1, 0), (2, 0), (1, 0)], mf.q, mf.delta)
    spread = Exchangeable(f, [(1, 0), (2, 0), (1, 0)], mf.q, mf.delta, spread=True)
    at = {"q": 1.0, "delta": 0.5}
    assert mf.evaluate(spread, **at) == pytest.approx(mf.evaluate(one, **at) - mf.evaluate(other, **at), rel=1e-12)


@pytest.mark.parametrize("phi", [mf.silu, mf.relu])
def test_a_small_gap_does_not_cancel(phi: mf.Activation) -> None:
    """delta E phi^2 phi'^2 to first order"""
    node = Exchangeable(phi.expression, [(2, 0), (1, 0), (1, 0)], mf.q, mf.delta, spread=True)
    slope = mf.evaluate(Expectation(phi.expression**2 * phi.derivative.expression**2, mf.q), q=1.0)
    for delta in (1e-30, 1e-12):
        assert mf.evaluate(node, q=1.0, delta=delta) / delta == pytest.approx(slope, rel=1e-11)


def test_reductions() -> None:
    q, f = mf.q, sp.tanh(mf.x)
    assert Exchangeable(f, [(1, 0), (0, 0), (3, 0)], q, 0) == Expectation(f**4, q)
    assert Exchangeable(f, [(2, 0), (2, 0)], q, q) == Expectation(f**2, q) ** 2
    assert Exchangeable(f, [(2, 0), (1, 0), (1, 0)], q, 0, spread=True) == 0
    assert Exchangeable(f, [(1, 0), (2, 0)], q, mf.delta) == Exchangeable(f, [(2, 0), (1, 0)], q, mf.delta)
    assert Exchangeable(mf.x, [(1, 0), (1, 0)], q, mf.delta).doit() == q - mf.delta
    with pytest.raises(ValueError, match="at most 4"):
        Exchangeable(f, [(1, 0)] * 5, q, mf.delta)


def test_polynomials_by_hand() -> None:
    """Isserlis: E u_1^2 u_2 u_3 = q p + 2 p^2, E u_1 u_2 u_3 u_4 = 3 p^2, at negative covariance the linear part"""
    q, p = 1.3, 0.4
    for powers, truth in (([(2, 0), (1, 0), (1, 0)], q * p + 2 * p * p), ([(1, 0)] * 4, 3 * p * p)):
        assert mf.evaluate(Exchangeable(mf.x, powers, mf.q, mf.delta), q=q, delta=q - p) == pytest.approx(truth, rel=1e-13)
    node = Exchangeable(mf.x, [(2, 0), (1, 0), (1, 0)], mf.q, mf.delta)
    assert mf.evaluate(node, q=1.0, delta=1.05) == pytest.approx(-0.05 - 2 * 0.05**2, rel=1e-12)


@pytest.mark.parametrize("f", [SILU, mf.relu.expression, sp.Max(mf.x - sp.Rational(1, 2), 0) + mf.x / 3], ids=str)
def test_two_factors_beyond_no_correlation(f: sp.Expr) -> None:
    """of two tokens a moment is what it is down to opposite ones, alone and in the pass, with its slopes"""
    q, gap, y = mf.q, mf.delta, known("y")
    at = {"q": np.full(4, 1.3), "delta": 1.3 * np.array([1 + 1e-6, 1.05, 1.5, 1.999])}
    for powers, spread in (([(1, 0), (2, 0)], False), ([(2, 0), (2, 0)], False), ([(1, 0), (1, 0)], True), ([(1, 0), (2, 0)], True)):
        node = Exchangeable(f, powers, q, gap, spread)
        one, other = (f**k for k, _ in powers)
        truth = PairExpectation(one * other.xreplace({mf.x: y}), q, q - gap, q)
        truth = Expectation(one * other, q) - truth if spread else truth
        table = moments([node], at["q"], at["delta"])[:, 0]
        slopes = [(node.diff(s), truth.diff(s)) for s in (q, gap)]
        for (e, target), row in zip(((node, truth), *slopes), table, strict=True):
            exact = mf.evaluate(target, **at)
            np.testing.assert_allclose(mf.evaluate(e, **at), exact, rtol=2e-12, atol=1e-14)
            np.testing.assert_allclose(row, exact, rtol=2e-12, atol=1e-14)
        opposite = moments([node], np.array([1.3]), np.array([2.6]))[0, 0, 0]
        assert opposite == pytest.approx(mf.evaluate(truth, q=1.3, delta=2.6), rel=1e-13, abs=1e-15)
        precise = mf.evaluate(node, q=1, delta=sp.Rational(3, 2), digits=15)
        assert float(precise) == pytest.approx(mf.evaluate(node, q=1, delta=1.5), rel=1e-13)


def test_two_factors_of_slopes_and_of_jumps_beyond_no_correlation() -> None:
    """among them f' f', f f' with f', and a function that jumps where its slope does not"""
    q, gap, y = mf.q, mf.delta, known("y")
    at = {"q": np.full(3, 1.0), "delta": np.array([1.5, 1.99, 2.0])}
    jumps = sp.Heaviside(mf.x - sp.Rational(1, 2)) + mf.x
    for f, powers in (
        (SILU, [(0, 1), (0, 1)]),
        (mf.relu.expression, [(1, 1), (0, 1)]),
        (SILU, [(2, 0), (0, 2)]),
        (jumps, [(1, 0), (1, 0)]),
    ):
        node = Exchangeable(f, powers, q, gap)
        one, other = (f**i * (sp.Heaviside(mf.x) if f == mf.relu.expression else f.diff(mf.x)) ** j if j else f**i for i, j in powers)
        truth = mf.evaluate(PairExpectation(one * other.xreplace({mf.x: y}), q, q - gap, q), **at)
        np.testing.assert_allclose(mf.evaluate(node, **at), truth, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(moments([node], at["q"], at["delta"])[0, 0], truth, rtol=1e-12, atol=1e-14)


def test_digits_of_what_opposite_tokens_have_nothing_of() -> None:
    node = Exchangeable(mf.relu.expression, [(1, 1), (0, 1)], mf.q, mf.delta)
    assert mf.evaluate(node, q=1, delta=2, digits=20) == 0


@pytest.mark.parametrize("f", [SILU, mf.relu.expression], ids=str)
def test_slopes_at_opposite_tokens(f: sp.Expr) -> None:
    node = Exchangeable(f, [(1, 0), (1, 0)], mf.q, mf.delta)
    table = moments([node], np.array([1.0]), np.array([2.0]))[:, 0, 0]
    for s, row in ((mf.q, table[1]), (mf.delta, table[2])):
        assert mf.evaluate(node.diff(s), q=1.0, delta=2.0) == pytest.approx(row, abs=1e-5)


def test_panels_of_a_variance_that_stays() -> None:
    """of what is analytic, to rounding; what is not is refused, and so is what has no value"""
    points = [np.array([frozen_rules.place_of(part, k) for k in range(frozen_rules.FROZEN)]) for part in (0, 1)]
    assert 0 < points[0].min() < points[0].max() < frozen_rules.HALF < points[1].min() < points[1].max() < 1
    for part, y in enumerate(points):
        panel, out = np.concatenate((np.exp(-y), 1 / (1 + y**2))), np.empty(2)
        assert frozen_rules.fitted(panel) == 1.0
        for at in (y.min(), y[5] + 0.01, frozen_rules.HALF):
            frozen_rules.filled(panel, part, at, out)
            assert out == pytest.approx([np.exp(-at), 1 / (1 + at**2)], rel=1e-14)
        for rough in (np.abs(y - y[10] - 0.01), np.where(y == y[3], np.nan, 1.0)):
            assert frozen_rules.fitted(np.concatenate((np.exp(-y), rough))) == 0.0


@pytest.mark.parametrize("spread", [False, True])
def test_digits_where_nothing_is_common(spread: bool) -> None:
    """beyond delta = q moments go on from there, in digits as in doubles"""
    node = Exchangeable(SILU, [(1, 0), (2, 0), (1, 0)], mf.q, mf.delta, spread=spread)
    for delta in (1.2, 2.0):
        assert float(mf.evaluate(node, q=1, delta=delta, digits=18)) == pytest.approx(mf.evaluate(node, q=1, delta=delta), rel=1e-13)


def test_digits() -> None:
    node = Exchangeable(SILU, [(2, 0), (1, 0), (1, 0)], mf.q, mf.delta)
    exact = mf.evaluate(node, q=1, delta=sp.Rational(3, 5), digits=16)
    assert mf.evaluate(node, q=1.0, delta=0.6) == pytest.approx(float(exact), rel=1e-14)


def test_the_conditional_covariance_of_a_step() -> None:
    """Var(sign u | x) on average is 1 - E sign sign"""
    value = mf.evaluate(Exchangeable(sp.sign(mf.x), [(2, 0), (1, 0), (1, 0)], mf.q, mf.delta, True), q=1.3, delta=0.7)
    assert abs(value - (1 - 2 / np.pi * np.arcsin(0.6 / 1.3))) < 1e-13


def test_slopes_count_the_jumps_of_slopes() -> None:
    """E theta(u) theta(v) = 1/2 - arccos(p/q)/(2 pi), E relu(u) relu(v) theta(u) theta(v) its kernel; a fixed second moment"""
    f, p = mf.relu.expression, mf.q - mf.delta
    kernels = {
        ((0, 1), (0, 1)): sp.Rational(1, 2) - sp.acos(p / mf.q) / (2 * sp.pi),
        ((1, 1), (1, 1)): mf.relu.kernel(mf.q, p),
        ((0, 2),): 0.5,
    }
    for powers, truth in kernels.items():
        moment = Exchangeable(f, powers, mf.q, mf.delta)
        for s in (mf.q, mf.delta):
            exact = sp.sympify(truth).diff(s).subs({mf.q: 1.3, mf.delta: 0.7})
            assert abs(mf.evaluate(moment.diff(s), q=1.3, delta=0.7) - float(exact)) < 1e-12


def test_slopes() -> None:
    """of a covariance by the variance, the gap and a parameter, against differences and conditional means in digits; none cancels"""
    s = sp.Symbol("s", positive=True)
    f = mf.x / (1 + sp.exp(-s * mf.x))
    covariance = Exchangeable(f, [(2, 0), (1, 0), (1, 0)], mf.q, mf.delta, spread=True)
    exact = mf.evaluate(covariance.diff(s), q=1, delta=sp.Rational(1, 2), s=sp.Rational(3, 2), digits=5)
    assert mf.evaluate(covariance.diff(s), q=1.0, delta=0.5, s=1.5) == pytest.approx(float(exact), rel=1e-5)
    weights = np.array([1, -8, 8, -1]) / 12
    for by, at in ((mf.q, 1.0), (mf.delta, 0.5), (s, 1.5)):
        given = {"q": 1.0, "delta": 0.5, "s": 1.5}
        moved = mf.evaluate(covariance, **{**given, by.name: at + 0.001 * np.array([-2, -1, 1, 2])})
        assert mf.evaluate(covariance.diff(by), **given) == pytest.approx(weights @ moved / 0.001, rel=1e-10)
        small = [mf.evaluate(covariance.diff(by), q=1.0, delta=gap, s=1.5) / (1 if by == mf.delta else gap) for gap in (1e-8, 1e-10)]
        assert small[0] == pytest.approx(small[1], rel=1e-6)
    with pytest.raises(ValueError, match=r"a kink of .* moves"):
        Exchangeable(sp.Max(mf.x - s, 0), [(1, 0), (2, 0)], mf.q, mf.delta).diff(s)


def test_digits_of_slopes_are_those_of_the_pass() -> None:
    """where f is odd or even at one value of its parameter alone, and where a power of a slope jumps"""
    a, apart = sp.Symbol("a", real=True), sp.Rational(1, 2)
    for f, powers, at in (
        (sp.tanh(mf.x - a), [(1, 0)] * 3, 0),
        (sp.Max(mf.x, 0) + a * sp.Min(mf.x, 0), [(1, 1), (1, 0), (1, 0)], -1),
    ):
        slope = Exchangeable(f, powers, mf.q, mf.delta).diff(a)
        exact = mf.evaluate(slope, q=1, delta=apart, a=at, digits=15)
        assert float(exact) == pytest.approx(mf.evaluate(slope, q=1.0, delta=0.5, a=at), rel=1e-12)
    leaky = mf.leaky_relu(sp.Rational(1, 10)).expression
    for s in (mf.q, mf.delta):
        slope = Exchangeable(leaky, [(0, 4), (1, 0), (1, 0)], mf.q, mf.delta).diff(s)
        exact = mf.evaluate(slope, q=1, delta=apart, digits=15)
        assert float(exact) == pytest.approx(mf.evaluate(slope, q=1.0, delta=0.5), rel=1e-12)


def test_digits_next_to_equal_tokens() -> None:
    """delta E phi^2 phi'^2 and on, on either side of where points of the common part are no more its own"""
    node = Exchangeable(mf.relu.expression, [(2, 0), (1, 0), (1, 0)], 1, mf.delta, True)
    for delta in (sp.Rational(1, 10**3), sp.Rational(1, 9_000)):
        exact = mf.evaluate(node, delta=delta, digits=16)
        assert float(exact) == pytest.approx(mf.evaluate(node, delta=float(delta)), rel=1e-12)
