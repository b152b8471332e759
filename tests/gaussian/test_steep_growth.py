"""Functions between exponentials and the Gaussian's fall: how they grow, their moments against more digits, and where these end."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from sympy import Abs, Rational, exp, log, sqrt, tanh

import meanfield as mf
from meanfield.gaussian.growth import divergence, rates
from meanfield.gaussian.singularities import regular, shape_of, steepens

x, q, p, delta = mf.x, mf.q, mf.p, mf.delta

#: the rates of x^2 at both ends
RATES = {
    exp(Abs(x) ** Rational(3, 2)): (0, 0),
    exp(Abs(x) ** Rational(4, 3) / 3): (0, 0),
    exp(x * log(1 + x**2) / 4): (0, 0),
    (1 + x**2) ** x: (0, 0),
    exp(x * sp.sin(x)): (0, 0),
    exp(sqrt(1 + x**4) / 8): (Rational(1, 8), Rational(1, 8)),
    exp(x**2 * tanh(x) / 10): (Rational(1, 10), -Rational(1, 10)),
    exp(x**2 * sp.atan(x) / 20): (sp.pi / 40, -sp.pi / 40),
    exp(log(1 + exp(x)) ** 2 / 8): (Rational(1, 8), 0),
    exp(x**2 / 8) * (1 - sp.erf(x)): (-Rational(7, 8), Rational(1, 8)),
    exp(x**2) * (1 - tanh(x**2)): (-1, -1),
    exp(Abs(x) ** Rational(5, 2)): (sp.oo, sp.oo),
    exp(x**2 * log(1 + x**2)): (sp.oo, sp.oo),
    (1 + x**2) ** (x**2): (sp.oo, sp.oo),
}
#: and variances at which E f^2 is finite, the last of them near the end where there is one
SQUARES = {
    exp(Abs(x) ** Rational(3, 2)): ("1e-12", "0.5", "3"),
    exp(Abs(x) ** Rational(4, 3) / 3): ("0.5", "3"),
    exp(Abs(x) ** Rational(3, 2) / 9): ("0.5", "20"),
    exp(x * log(1 + x**2) / 4): ("0.05", "0.5", "3"),
    exp(sqrt(1 + x**4) / 8): ("0.5", "1.1", "1.9"),
    exp(x**2 * tanh(x) / 10): ("0.5", "2.4"),
    exp(x**2 / 5) * tanh(x): ("1e-12", "0.5", "1.2"),
    exp(x**2 / 9) * tanh(x): ("0.5", "2.2"),
    exp(x**2) * (1 - sp.erf(Abs(x))): ("0.5", "9"),
}
#: function, variance, covariance: all below where E f^2 is infinite but the last
PAIRS = (
    (exp(x**2 / 5) * tanh(x), "0.5", "0.2"),
    (exp(x**2 / 5) * tanh(x), "1", "-0.9"),
    (exp(x**2 * tanh(x) / 10), "0.5", "-0.3"),
    (exp(x * log(1 + x**2) / 4), "1", "0.9"),
    (exp(sqrt(1 + x**4) / 8), "1.2", "0.3"),
    (exp(x**2 / 5) * tanh(x), "1.5", "-0.2"),
)


def mean_of_square(f: sp.Expr, v: mp.mpf) -> mp.mpf:
    """E f(u)^2 by mpmath's own rule, in pieces"""
    g, s = sp.lambdify(x, f, "mpmath"), mp.sqrt(v)
    ends = [side * mp.mpf(b) for b in ("1e-6", "1e-3", 0.1, 0.5, 1, 2, 4, 7, 11, 17, 25, 40, 60, 90, 140) for side in (-1, 1)]
    return mp.quad(lambda z: g(s * z) ** 2 * mp.npdf(z), sorted([*ends, mp.mpf(0)]))


def mean_of_pair(f: sp.Expr, v: str, c: str, m: int = 0, second: str | None = None) -> tuple[np.longdouble, np.longdouble]:
    """E f(u) f(v), and E (f(u) - f(v))^2 / 2, of an analytic f by the trapezoidal rule in two independent normals, to 15 digits"""
    own, p, other = (np.longdouble(n) for n in (v, c, second or v))
    g, h = sp.lambdify(x, f, "numpy"), np.longdouble(1) / 5
    z = h * np.arange(-80, 81)
    a, b = z[:, None], z[None]
    weight = np.where(a**2 + b**2 <= 256, h**2 * np.exp(-(a**2 + b**2) / 2), 0) / (2 * np.longdouble(np.pi))
    first, beside = g(m + np.sqrt(own) * a), g(m + p / np.sqrt(own) * a + np.sqrt(other - p**2 / own) * b)
    return (weight * first * beside).sum(), (weight * (first - beside) ** 2).sum() / 2


@pytest.mark.parametrize("f", RATES, ids=str)
def test_growth_is_told_at_each_end(f: sp.Expr) -> None:
    assert dict(rates(f) or ()) == dict(zip((1, -1), RATES[f], strict=True))
    assert (divergence(f) is None) == (max(RATES[f]) < Rational(1, 4))


def test_what_cancels_beyond_the_algebra_is_not_refused() -> None:
    """(sqrt(1 + e^{-4 x^2}) - 1) e^{x^2} falls like e^{-3 x^2}"""
    f = (sqrt(1 + exp(-4 * x**2)) - 1) * exp(x**2)
    assert divergence(f) is None
    assert mf.evaluate(mf.Activation(f).mean(q), q=0.5, digits=20) > 0


@pytest.mark.parametrize(("f", "v"), [(f, v) for f, at in SQUARES.items() for v in at], ids=str)
def test_second_moments_in_float64(f: sp.Expr, v: str) -> None:
    value, bound = mf.evaluate(mf.Activation(f).second_moment(q), q=float(v), error=True)
    with mp.workdps(30):
        truth = mean_of_square(f.subs(1 - sp.erf(Abs(x)), sp.erfc(Abs(x))), mp.mpf(float(v)))
    assert abs(value - truth) <= min(bound, 1e-12 * truth)
    assert bound <= 1e-11 * truth


@pytest.mark.parametrize(("f", "v", "c"), PAIRS, ids=str)
def test_kernels_and_gaps_in_float64(f: sp.Expr, v: str, c: str) -> None:
    phi, near = mf.Activation(f), f != PAIRS[-1][0] or v != PAIRS[-1][1]
    product, gap = mean_of_pair(f, v, c)
    value, bound = mf.evaluate(phi.kernel(q, p), q=float(v), p=float(c), error=True)
    assert abs(value - product) <= max(bound, 1e-12 * abs(product))
    if near:
        apart, bound = mf.evaluate(phi.gap(q, delta), q=float(v), delta=float(mp.mpf(v) - mp.mpf(c)), error=True)
        assert abs(apart - gap) <= 1e-11 * gap
        assert bound <= 1e-11 * gap


def test_about_a_mean_and_at_unequal_variances() -> None:
    f = exp(x**2 / 5) * tanh(x)
    phi = mf.Activation(f)
    about, _ = mean_of_pair(f, "0.5", "0.2", m=1)
    unequal, _ = mean_of_pair(f, "0.5", "0.2", second="0.9")
    assert mf.evaluate(phi.kernel(q, p, mean=1), q=0.5, p=0.2) == pytest.approx(float(about), rel=1e-13)
    assert mf.evaluate(phi.kernel(mf.q1, p, mf.q2), q1=0.5, p=0.2, q2=0.9) == pytest.approx(float(unequal), rel=1e-13)


def test_gaps_next_to_nothing() -> None:
    """delta E f'(u)^2 as delta goes to 0"""
    f = exp(x**2 / 5) * tanh(x)
    slope = mf.Activation(f).derivative.second_moment(q)
    value = mf.evaluate(mf.Activation(f).gap(q, delta), q=0.5, delta=1e-200)
    assert value == pytest.approx(1e-200 * mf.evaluate(slope, q=0.5), rel=1e-12)


def test_what_is_infinite_says_up_to_where_it_is_not() -> None:
    phi = mf.Activation(exp(x**2 / 5) * tanh(x))
    for moment, at, reason in (
        (phi.second_moment(q), {"q": 1.25}, "only for q < 5/4"),
        (phi.gap(q, delta), {"q": 1.25, "delta": 0.1}, "only for q < 5/4"),
        (phi.kernel(q, p), {"q": 2.0, "p": 0.6}, r"only for q \+ Abs\(p\) < 5/2"),
        (phi.kernel(q, p), {"q": 2.6, "p": 0.0}, r"only for q \+ Abs\(p\) < 5/2"),
        (phi.kernel(mf.q1, p, mf.q2), {"q1": 1.0, "p": 0.1, "q2": 2.5}, "is finite only for"),
    ):
        with pytest.raises(ValueError, match=reason):
            mf.evaluate(moment, **at)


@pytest.mark.parametrize("power", [Rational(3, 2), Rational(5, 2), Rational(7, 2)], ids=str)
def test_a_root_at_0_has_no_taylor_series(power: sp.Rational) -> None:
    """exp(-|x|^s) is 1 - |x|^s to all digits at q = 1e-12: on small circles it looks analytic"""
    phi = mf.E(exp(-(Abs(x) ** power)) - 1, q)
    s = mp.mpf(power.p) / power.q
    for v in (1e-12, 1e-8):
        absolute = (2 * mp.mpf(v)) ** (s / 2) * mp.gamma((s + 1) / 2) / mp.sqrt(mp.pi)
        twice = (2 * mp.mpf(v)) ** s * mp.gamma(s + mp.mpf(1) / 2) / mp.sqrt(mp.pi)
        assert mf.evaluate(phi, q=v) == pytest.approx(float(twice / 2 - absolute), rel=1e-10)


def test_the_parity_of_steep_kernels() -> None:
    """E f(u) f(v) of an odd f changes sign with p"""
    phi = mf.Activation(exp(x**2 / 9) * tanh(x))
    for v, c in itertools.product((0.3, 2.0), (0.1, 0.25)):
        there, back = mf.evaluate(phi.kernel(q, p), q=[v, v], p=[c, -c])
        assert there == pytest.approx(-back, rel=1e-14)


@pytest.mark.parametrize("f", [exp(x**2 / 50000) * tanh(x) ** 2, x**8 * exp(x**2 / 50000) * tanh(x) ** 2], ids=str)
def test_slow_growth_is_infinite_all_the_same(f: sp.Expr) -> None:
    """sqrt(1 - q/25000) E f(u) is E tanh(v)^2, v of variance q/(1 - q/25000), or that of v^8 tanh(v)^2"""
    moment, v = mf.E(f, q), 20_000.0
    rest = sp.expand(f * exp(-(x**2) / 50000))
    truth = 5**0.5 * mf.evaluate(mf.E(rest, q), q=5 * v)
    assert mf.evaluate(moment, q=v) == pytest.approx(truth, rel=1e-12)
    with pytest.raises(ValueError, match="only for q < 25000"):
        mf.evaluate(moment, q=30_000.0)


@pytest.mark.parametrize("variance", [Rational(1, 10), Rational(1, 2)])
@pytest.mark.parametrize("power", [Rational(8, 5), Rational(17, 10), Rational(7, 4), Rational(19, 10)])
def test_a_power_inside_what_grows_is_resolved_next_to_0(power: Rational, variance: Rational) -> None:
    """however large the function is elsewhere: E exp(|u|^a/2) = sum of E |u|^(a n)/(2^n n!)"""
    with mp.workdps(30):
        a, v = (mp.mpf(r.p) / r.q for r in (power, variance))
        terms = [(2 * v) ** (a * n / 2) * mp.gamma((a * n + 1) / 2) / mp.sqrt(mp.pi) / 2**n / mp.factorial(n) for n in range(200)]
        value, bound = mf.evaluate(mf.Activation(exp(Abs(x) ** power / 2)).mean(variance), error=True)
        assert abs(value - mp.fsum(terms)) <= bound <= 1e-12 * value


@pytest.mark.parametrize(("variance", "gap"), [(0.5, 0.3), (1.0, 0.1), (1.25, 0.3)])
def test_the_gap_of_a_quotient_that_grows(variance: float, gap: float) -> None:
    """whose slope is a difference of infinities far out, up to where E f^2 is an integral of (1 + x^2)^-2: by the trapezoidal rule, the
    last square by algebra"""
    phi, step = mf.Activation(exp(x**2 / 5) / (1 + x**2)), 0.05
    u = step * np.arange(-700.0, 701.0)
    middle, half = u[:, None], u[abs(u) < 9 * (gap / 2) ** 0.5]  # of u and v, and of their difference
    growth = np.exp(0.4 * (middle**2 + half**2) - middle**2 / (2 * variance - gap) - half**2 / gap)
    product = (
        step**2 * np.sum(growth / (1 + (middle + half) ** 2) / (1 + (middle - half) ** 2)) / (np.pi * np.sqrt((2 * variance - gap) * gap))
    )
    square = step * np.sum(np.exp(0.4 * u**2 - u**2 / (2 * variance)) / (1 + u**2) ** 2) / np.sqrt(2 * np.pi * variance)
    if variance == 1.25:
        square = np.sqrt(np.pi / 10)
    assert mf.evaluate(phi.gap(q, delta), q=variance, delta=gap) == pytest.approx(square - product, abs=1e-14)


def test_what_is_steep_is_told_without_its_shape() -> None:
    """of steep functions, those of the catalogue and some of their slopes; of what is too steep the same is said"""
    plain = [f for f in dict.fromkeys(phi.expression for phi in mf.activations.values()) if f.free_symbols == {x}]
    slopes = [regular(f) for f in plain[::5]]
    told = {f: steepens(f) for f in (*SQUARES, *plain, *slopes)}
    assert {f for f, steep in told.items() if steep} >= {exp(x**2 / 9) * tanh(x), exp(Abs(x) ** Rational(3, 2))}
    assert told == {f: shape_of(f).steepening > 0 for f in told}
    too_steep = exp(Abs(x) ** Rational(5, 2))
    for told_of in (shape_of, steepens):
        with pytest.raises(ValueError, match="grows faster than every exp"):
            told_of(too_steep)
