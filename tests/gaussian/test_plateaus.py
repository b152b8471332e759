"""Gaps of functions that are constant far around 0, or even there: tails of the normal distribution, whatever the function is near 0."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf

x, q, delta, R = mf.x, mf.q, mf.delta, sp.Rational


def exact(number: float) -> sp.Rational:
    return R(*number.as_integer_ratio())


def gap(f: sp.Expr, v: float, d: float, **asked: object) -> object:
    return mf.evaluate(mf.Activation(f).gap(q, delta), q=v, delta=d, **asked)


def tail(k: mp.mpf, v: mp.mpf) -> mp.mpf:
    return mp.erfc(k / mp.sqrt(2 * v)) / 2


def step_gap(k: mp.mpf, v: mp.mpf, d: mp.mpf) -> mp.mpf:
    """P(u > k) - P(u > k, v > k): twice Owen's T function of k/sqrt(v) and sqrt(d/(2 v - d))"""
    h = k / mp.sqrt(v)
    end = min(h * mp.sqrt(d / (2 * v - d)), mp.mpf(16))
    points = [end * i / 16 for i in range(17)]
    return mp.exp(-(h**2) / 2) * mp.quad(lambda z: mp.exp(-z * z / 2) * h / (h * h + z * z), points, method="gauss-legendre") / mp.pi


@pytest.mark.parametrize("ratio", [1.75, 1.0, 0.4, 1e-3, 1e-9])
@pytest.mark.parametrize("v", [0.1, 0.031, 0.007])
def test_one_jump(v: float, ratio: float) -> None:
    """level + height theta(x - k), up to 15 deviations away"""
    f, k, height = sp.Piecewise((R(5, 2), x < R(6, 5)), (-1, True)), R(6, 5), mp.mpf("3.5")
    d = v * ratio
    value, bound = gap(f, v, d, error=True)
    with mp.workdps(40):
        truth = height**2 * step_gap(mp.mpf(k.p) / k.q, mp.mpf(v), mp.mpf(d))
        assert abs(value - truth) <= 1e-11 * truth
        assert abs(value - truth) <= bound
        if ratio in (1.0, 0.4):
            assert abs(gap(f, exact(v), exact(d), digits=20) - truth) <= 1e-20 * truth


def test_two_jumps_on_either_side() -> None:
    """of uncorrelated inputs the gap is a variance: of what takes a value with a probability"""
    f = sp.Piecewise((7, x < -R(1, 2)), (1003, x < R(2, 5)), (1000, True))
    for v in (0.04, 0.01, 0.0025):
        value = gap(f, v, v)
        with mp.workdps(40):
            low, high = tail(mp.mpf("0.5"), mp.mpf(v)), tail(mp.mpf("0.4"), mp.mpf(v))
            truth = 996**2 * low + 9 * high - (996 * low + 3 * high) ** 2
            assert abs(value - truth) <= 1e-11 * truth, v


@pytest.mark.parametrize("v", [0.3, 0.05, 0.004])
def test_kinks(v: float) -> None:
    """of Max(c, x - k) the variance of what is above c"""
    value = gap(sp.Max(R(3, 2), x + R(1, 2)), v, v)
    with mp.workdps(60):
        s, z = mp.sqrt(mp.mpf(v)), 1 / mp.sqrt(mp.mpf(v))
        above = mp.erfc(z / mp.sqrt(2)) / 2
        mean, square = s * (mp.npdf(z) - z * above), s**2 * ((1 + z**2) * above - z * mp.npdf(z))
        truth = square - mean**2
        assert abs(value - truth) <= 1e-11 * truth


def test_symbols() -> None:
    """the level and the place may be parameters"""
    a, b = sp.Symbol("a", real=True), sp.Symbol("b", positive=True)
    f = sp.Piecewise((a, x < b), (2, True))
    value = mf.evaluate(mf.Activation(f).gap(q, delta), q=0.02, delta=0.02, a=0.75, b=0.8)
    with mp.workdps(40):
        above = tail(mp.mpf(0.8), mp.mpf(0.02))
        truth = mp.mpf("1.25") ** 2 * above * (1 - above)
    assert abs(value - truth) <= 1e-11 * truth


def test_a_network() -> None:
    """a layer from uncorrelated inputs, and one whose gap is read from a table"""
    f = sp.Piecewise((3, x < R(3, 5)), (1, True))
    run = mf.propagate(mf.mlp(mf.Activation(f)), 2, 0.016, p=0.0, sigma_w=0.04, sigma_b=0.0)
    with mp.workdps(40):
        v, d = mp.mpf(0.016), mp.mpf(0.016)
        for layer in (1, 2):
            d = mp.mpf(0.04) ** 2 * 4 * step_gap(mp.mpf("0.6"), v, d)
            v = mp.mpf(0.04) ** 2 * (9 - 8 * tail(mp.mpf("0.6"), v))
            assert abs(run.gap[layer] * run.q[layer] - d) <= 1e-10 * d, layer


HEIGHT, PLACE = R(1, 640), R(9, 4)
UNEVEN = x**2 + HEIGHT * sp.sign(x - PLACE)  # x^2 but for a tail


@pytest.mark.parametrize("short", [0.0, 1e-12, 1e-6, 0.01, 0.75])
@pytest.mark.parametrize("v", [0.7, 0.09])
def test_next_to_opposite_inputs_only_the_odd_part_counts(v: float, short: float) -> None:
    """x^2 + h sign(x - k) at delta = (2 - short) q: Stein's lemma for the product of the two parts"""
    d = (2.0 - short) * v
    value, bound = gap(UNEVEN, v, d, error=True)
    with mp.workdps(40):
        v_, d_, h, k = mp.mpf(v), mp.mpf(d), mp.mpf(1) / 640, mp.mpf("2.25")
        jump = tail(k, v_) if d_ == 2 * v_ else step_gap(k, v_, d_)
        apart, z = d_ * (2 * v_ - d_), k / mp.sqrt(v_)
        truth = 2 * apart + 4 * h * apart / v_ * z * mp.npdf(z) + 4 * h**2 * jump
        assert abs(value - truth) <= 1e-11 * truth
        assert abs(value - truth) <= bound
        assert abs(gap(UNEVEN, exact(v), exact(d), digits=20) - truth) <= 1e-19 * truth


def test_opposite_inputs_of_what_is_partly_even() -> None:
    """half the mean square of f(u) - f(-u), for every even part"""
    ramps = {sp.Abs(x): R(3, 2), x**4: R(7, 4), sp.log(2 + x**2): R(5, 4), sp.cosh(x) * x**2: R(2)}
    for even, k in ramps.items():
        f = even + sp.Max(x - k, 0)
        with mp.workdps(40):
            v = mp.mpf("0.5")
            s, z = mp.sqrt(v), mp.mpf(k.p) / k.q / mp.sqrt(v)
            truth = s**2 * ((1 + z**2) * tail(z, mp.mpf(1)) - z * mp.npdf(z))
            assert abs(gap(f, R(1, 2), 1, digits=17) - truth) <= 1e-16 * truth, f
            assert abs(gap(f, 0.5, 1.0) - truth) <= 1e-11 * truth, f


def test_a_layer_of_opposite_inputs() -> None:
    run = mf.propagate(mf.mlp(mf.Activation(UNEVEN)), 1, 0.4, c=-1.0, sigma_w=1.0, sigma_b=0.0)
    with mp.workdps(40):
        truth = 4 * mp.mpf(1) / 640**2 * tail(mp.mpf("2.25"), mp.mpf(0.4))
        assert abs(run.gap[1] * run.q[1] - truth) <= 1e-10 * truth
