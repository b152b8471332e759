"""Expectations without a closed form: float64 against certified integration and panels, arbitrary digits against flint and Hermite series.

Convention (api.md): a moment is right to 1e-12 of E|phi(u) phi(v)|; a gap, which has no sign to change, to 1e-11 of itself.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import (
    ACTIVATIONS,
    CORRELATIONS,
    QUADRATURE,
    VARIANCES,
    Pair,
    Phi,
    as_mpf,
    both,
    bound,
    certified_mean,
    pair_moments,
)
from sympy.integrals.quadrature import gauss_hermite

import meanfield as mf
from meanfield.gaussian.singularities import shape_of
from meanfield.numeric import asked

every = pytest.mark.parametrize("phi", QUADRATURE, ids=repr)

PAIRS = tuple((q, q * rho) for q in VARIANCES for rho in CORRELATIONS)
GAPS = tuple((q, q * ratio) for q in VARIANCES for ratio in (2.0, 1.9, 0.5, 1e-8, 1e-16, 1e-100))


@cache
def certified(name: str, q: float, power: int, slope: bool = False) -> mp.mpf:
    phi = ACTIVATIONS[name]
    return as_mpf(certified_mean(phi.df if slope else phi.f, power, q))


@cache
def panels(name: str, q: float, delta: float, slope: bool = False) -> Pair:
    phi = ACTIVATIONS[name]
    return pair_moments(phi.df, q, delta) if slope else pair_moments(phi.f, q, delta, phi.difference)


def distance(q: float, p: float) -> float:
    """q - p, rounded once"""
    return float(Fraction(q) - Fraction(p))


# -- the oracle itself ------------------------------------------------------------------------------------------------------------------


@every
def test_panels_agree_with_certified_integrals(phi: Phi) -> None:
    """E f(u) f(v) + gap = E f(u)^2 for every covariance, the right side certified"""
    for q in VARIANCES:
        second = certified(phi.name, q, 2)
        for ratio in (2.0, 1.9, 0.5, 1e-8):
            pair = panels(phi.name, q, q * ratio)
            assert abs(pair.product + pair.gap - second) <= 2e-14 * second, (q, ratio)


def hermite(phi: Phi, q: int, rho: mp.mpf, terms: int) -> mp.mpf:
    """sum_n a_n^2 rho^n, a_n = E phi(sqrt(q) z) He_n(z) / sqrt(n!), each a_n certified"""
    total = mp.mpf(0)
    for n in range(terms):
        coefficients = [int(c) for c in np.polynomial.hermite_e.herme2poly([0] * n + [1])]

        def weighted(piece, coefficients=coefficients):  # type: ignore[no-untyped-def]
            def f(m, x):  # type: ignore[no-untyped-def]
                z = x / m.sqrt(m.const(q))
                value = 0 * z
                for c in reversed(coefficients):
                    value = value * z + c
                return piece(m, x) * value

            return f

        a = certified_mean((weighted(phi.f[0]), weighted(phi.f[1])), 1, str(q), 45)
        with mp.workdps(45):
            total += mp.mpf(a.mid().str(42, radius=False)) ** 2 / mp.factorial(n) * rho**n
    return total


def test_panels_agree_with_a_hermite_series() -> None:
    with mp.workdps(40):
        for name in ("tanh", "silu", "softsign"):
            series = hermite(ACTIVATIONS[name], 1, mp.mpf(3) / 10, 30)
            assert abs(panels(name, 1.0, 0.7).product - series) <= 1e-14 * abs(series)


# -- float64 -----------------------------------------------------------------------------------------------------------------------------


@every
def test_one_variable(phi: Phi) -> None:
    q = np.array(VARIANCES)
    act = phi.activation
    mean, second = bound(act.mean(mf.q), q=q), bound(act.second_moment(mf.q), q=q)
    slope = bound(act.derivative.second_moment(mf.q), q=q)
    for i, v in enumerate(VARIANCES):
        truth = certified(phi.name, v, 2)
        assert abs(second[i] - truth) <= 1e-12 * truth, (v, "second moment")
        assert abs(mean[i] - certified(phi.name, v, 1)) <= 1e-12 * mp.sqrt(truth), (v, "mean")
        truth = certified(phi.name, v, 2, slope=True)
        assert abs(slope[i] - truth) <= 1e-12 * truth, (v, "slope")


@every
@pytest.mark.parametrize("slope", [False, True], ids=["phi", "slope"])
def test_kernel(phi: Phi, slope: bool) -> None:
    act = phi.activation.derivative if slope else phi.activation
    q, p = np.array(PAIRS).T
    found = mf.evaluate(act.kernel(mf.q, mf.p), q=q, p=p)
    wrong = []
    for v, cov, value in zip(q.tolist(), p.tolist(), found.tolist(), strict=True):
        truth = panels(phi.name, v, distance(v, cov), slope)
        if not abs(value - truth.product) <= 1e-12 * truth.size:
            wrong.append((v, cov / v, value, truth.product, truth.size))
    assert not wrong


@every
def test_gap(phi: Phi) -> None:
    q, delta = np.array(GAPS).T
    found = mf.evaluate(phi.activation.gap(mf.q, mf.delta), q=q, delta=delta)
    wrong = []
    for v, d, value in zip(q.tolist(), delta.tolist(), found.tolist(), strict=True):
        truth = panels(phi.name, v, d).gap
        if not abs(value - truth) <= 1e-11 * truth:
            wrong.append((v, d / v, value, truth))
    assert not wrong


@pytest.mark.parametrize("phi", [ACTIVATIONS[name] for name in ("tanh", "sigmoid", "silu")], ids=repr)
def test_a_scale_is_a_parameter(phi: Phi) -> None:
    """phi(alpha x) at q is phi at alpha^2 q: what DyT is made of"""
    a = sp.Symbol("alpha", positive=True)
    act = mf.Activation(phi.activation.expression.subs(mf.x, a * mf.x))
    alpha = np.array([0.1, 0.5, 2.0])
    second = mf.evaluate(act.second_moment(mf.q), q=3.0, alpha=alpha)
    slope = mf.evaluate(act.derivative.second_moment(mf.q), q=3.0, alpha=alpha)
    for i, v in enumerate(alpha.tolist()):
        assert abs(second[i] - certified(phi.name, v * v * 3.0, 2)) <= 1e-12 * second[i]
        assert abs(slope[i] - v * v * certified(phi.name, v * v * 3.0, 2, slope=True)) <= 1e-12 * slope[i]


def test_value_and_bound() -> None:
    value, bounds = mf.evaluate(mf.tanh.second_moment(mf.q), q=np.array([0.5, 40.0]), error=True)
    for v, b, q in zip(value, bounds, ("0.5", "40"), strict=True):
        truth = as_mpf(certified_mean(ACTIVATIONS["tanh"].f, 2, q))
        assert abs(float(v) - truth) <= b <= 1e-14


def test_values_beyond_the_doubles_are_refused_or_logged() -> None:
    act = mf.Activation(sp.exp(mf.x))
    with pytest.raises(OverflowError, match=r"log=True|digits"):
        mf.evaluate(act.second_moment(mf.q), q=400.0)
    assert mf.evaluate(act.second_moment(mf.q), q=400.0, log=True) == pytest.approx(800.0, rel=1e-14)
    digits = mf.evaluate(act.second_moment(mf.q), q=400, digits=20)
    with mp.workdps(25):
        assert abs(digits / mp.exp(800) - 1) < 1e-18


# -- features the rule must see ---------------------------------------------------------------------------------------------------------

HARD = {
    "transition away from 0": (sp.tanh(10 * (mf.x - 3)), both(lambda m, x: m.tanh(10 * (x - 3)))),
    "transition far away": (sp.tanh(mf.x - 30), both(lambda m, x: m.tanh(x - 30))),
    "transition out of sight": (sp.tanh(mf.x - 300), both(lambda m, x: m.tanh(x - 300))),
    "oscillation": (sp.sin(3 * mf.x) * sp.tanh(mf.x), both(lambda m, x: m.sin(3 * x) * m.tanh(x))),
    "two transitions": (sp.tanh(mf.x - 4) + sp.tanh(5 * (mf.x + 4)), both(lambda m, x: m.tanh(x - 4) + m.tanh(5 * (x + 4)))),
    "sharp": (sp.tanh(200 * mf.x), both(lambda m, x: m.tanh(200 * x))),
    "flat kink": (mf.x * sp.tanh(mf.x) * sp.Max(mf.x, 0), (lambda m, x: x * x * m.tanh(x), lambda m, x: 0 * x)),
}


@pytest.mark.parametrize("name", HARD)
def test_right_or_refused(name: str) -> None:
    """A number is right to 1e-11, or there is an exception; nothing in between."""
    expression, pieces = HARD[name]
    second = mf.Activation(expression).second_moment(mf.q)
    for q in (1.0, 100.0, 1e4):
        try:
            value = mf.evaluate(second, q=q)
        except (ValueError, ArithmeticError):
            continue
        truth = as_mpf(certified_mean(pieces, 2, q, 25), 20)
        assert abs(value - truth) <= 1e-11 * truth, q


@pytest.mark.parametrize("expression", [1 / (1 + mf.x), sp.tan(mf.x), 1 / mf.x, sp.exp(mf.x**2)], ids=str)
def test_divergent_expectations_are_refused(expression: sp.Expr) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        mf.evaluate(mf.Activation(expression).second_moment(mf.q), q=1.0)


def test_what_grows_like_a_gaussian_up_to_where_it_is_infinite() -> None:
    """E exp(u^2/4) |u|^{1/2} = (1 - q/2)^{-3/4} E |u|^{1/2} for q < 2, infinite beyond"""
    second = mf.Activation(sp.exp(mf.x**2 / 8) * sp.Abs(mf.x) ** sp.Rational(1, 4)).second_moment(mf.q)
    for q in ("0.001", "1", "1.9", "1.999"):
        v = mp.mpf(q)
        expected = (1 - v / 2) ** mp.mpf(-0.75) * (2 * v) ** mp.mpf(0.25) * mp.gamma(mp.mpf(3) / 4) / mp.sqrt(mp.pi)
        assert mf.evaluate(second, q=float(q)) == pytest.approx(float(expected), rel=2e-13)
    assert mf.evaluate(second, q=1, digits=25) == pytest.approx(2 * mp.gamma(mp.mpf(3) / 4) / mp.sqrt(mp.pi), rel=1e-15)
    for q in (2.0, 3.0):
        with pytest.raises(ValueError, match="is finite only for q < 2"):
            mf.evaluate(second, q=q)


def test_unequal_variances() -> None:
    """E tanh(u) tanh(v) with variances 1 and 2 and covariance 3/10 is the series sum_n a_n(1) a_n(2) (3/10/sqrt 2)^n"""
    phi, p = ACTIVATIONS["tanh"], mp.mpf(3) / 10
    with mp.workdps(30):
        # u = x, v = sqrt 2 y: polarise, E f g = (E (f + g)(f + g)' - E (f - g)(f - g)')/4 on unit normals of correlation rho
        scaled = Phi("sum", None, both(lambda m, x: m.tanh(x) + m.tanh(x * m.sqrt(m.const(2)))), None)
        other = Phi("difference", None, both(lambda m, x: m.tanh(x) - m.tanh(x * m.sqrt(m.const(2)))), None)
        truth = (hermite(scaled, 1, p / mp.sqrt(2), 30) - hermite(other, 1, p / mp.sqrt(2), 30)) / 4
    assert mf.evaluate(phi.activation.kernel(mf.q1, mf.p, mf.q2), q1=1.0, p=0.3, q2=2.0) == pytest.approx(float(truth), rel=1e-12)


def test_twenty_digits_of_a_kernel() -> None:
    with mp.workdps(35):
        truth = hermite(ACTIVATIONS["silu"], 1, mp.mpf(3) / 10, 48)
    found = mf.evaluate(mf.silu.kernel(mf.q, mf.p), q=1, p=sp.Rational(3, 10), digits=20)
    with mp.workdps(30):
        assert abs(found - truth) <= mp.mpf("1.1e-20") * truth


# -- names ---------------------------------------------------------------------------------------------------------------------------------


def test_an_expression_without_symbols() -> None:
    """nothing to bind: closed and by quadrature"""
    assert mf.evaluate(mf.erf.second_moment(0.7)) == pytest.approx(2 / math.pi * math.asin(1.4 / 2.4), rel=1e-15)
    assert mf.evaluate(mf.silu.second_moment(1)) == pytest.approx(0.355775519817352156, rel=1e-14)


def test_a_variance_may_be_called_p() -> None:
    """lowering must not read a variance p as a covariance"""
    assert mf.evaluate(mf.E(sp.erf(mf.x) ** 2, mf.p), p=0.7) == pytest.approx(2 / math.pi * math.asin(1.4 / 2.4), rel=1e-15)


def test_narrow_features_are_not_stepped_over() -> None:
    """a scale is not always a parameter: tanh(10^5 x) against tanh(x), and a narrow bump beside a wide function"""
    variance, apart = np.array([1e-12, 1e-7, 1.0, 1e4]), np.array([1e-13, 2e-7, 1e-20, 1e-3])
    steep, wide = mf.Activation(sp.tanh(10**5 * mf.x)), mf.tanh
    for moment, values in (("second_moment", {"q": variance}), ("gap", {"q": variance, "delta": apart})):
        scaled = {name: 1e10 * v for name, v in values.items()}
        symbols = [mf.q, mf.delta][: len(values)]
        found, true = (mf.evaluate(getattr(f, moment)(*symbols), **v) for f, v in ((steep, values), (wide, scaled)))
        assert np.abs(found / true - 1).max() <= 1e-12
    bump = mf.Activation(sp.exp(-((10**4 * (mf.x - 2)) ** 2)) + sp.tanh(mf.x))
    # E f^2 = E tanh^2 + 2 E bump tanh + E bump^2, the bump as wide as a delta of weight sqrt(pi)/10^4 up to 10^-8 of itself
    density, weight = np.exp(-2.0) / np.sqrt(2 * np.pi), np.sqrt(np.pi) * 1e-4
    added = mf.evaluate(bump.second_moment(mf.q), q=1.0) - mf.evaluate(wide.second_moment(mf.q), q=1.0)
    assert abs(added / (density * weight * (2 * np.tanh(2.0) + np.sqrt(0.5))) - 1) <= 1e-7


# -- beside a mean ----------------------------------------------------------------------------------------------------------------------

EDGE = sp.Rational(7, 10)
SHRUNK = mf.Activation(sp.Piecewise((mf.x, sp.Abs(mf.x) > EDGE), (0, True)))


def of_shrunk(q: float, rho: float, mean: Fraction) -> mp.mpf:
    """E u v 1(u > 7/10) 1(v > 7/10), means m and variances q: an integral over u of what is known of v given u"""
    with mp.workdps(25):
        s, r, m = mp.sqrt(mp.mpf(q)), mp.mpf(rho), mp.mpf(mean.numerator) / mean.denominator
        edge = (mp.mpf(7) / 10 - m) / s
        own = mp.sqrt(1 - r**2)

        def inner(z: mp.mpf) -> mp.mpf:
            shift = (r * z - edge) / own
            return (m + s * z) * mp.npdf(z) * ((m + s * r * z) * mp.ncdf(shift) + s * own * mp.npdf(shift))

        return mp.quad(inner, [edge, edge + 1, edge + 3, edge + 8, edge + 16], method="gauss-legendre")


@pytest.mark.parametrize("q", [1e-2, 1e-8, 1e-12, 1e-18])
@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.5])
def test_an_edge_at_the_mean(q: float, rho: float) -> None:
    """also where the deviation is far below the mean, which is a number of the expression or one that is put in"""
    p, m = q * rho, sp.Symbol("m", real=True)
    rho = p / q
    truth = of_shrunk(q, rho, Fraction(7, 10))
    value, error = mf.evaluate(SHRUNK.kernel(mf.q, mf.p, mean=EDGE), q=q, p=p, error=True)
    assert abs(value - truth) <= 1e-13 * truth
    assert error <= 1e-12 * truth
    for mean in (0.7, 0.7 + math.sqrt(q) / 3):
        truth = of_shrunk(q, rho, Fraction(mean))
        assert abs(mf.evaluate(SHRUNK.kernel(mf.q, mf.p, mean=m), q=q, p=p, m=mean) - truth) <= 1e-12 * truth


@pytest.mark.parametrize(
    "f", [sp.tanh(mf.x - EDGE), sp.Max(mf.x - EDGE, 0), sp.Max(sp.sin(mf.x + sp.pi / 6 - EDGE), sp.S.Half) - sp.S.Half]
)
def test_a_function_that_is_0_at_its_mean(f: sp.Expr) -> None:
    """E f(u)^2 = q E f'(u)^2 and its like to first order, the next being 1e-6 of it"""
    at = sp.lambdify(mf.x, f, "mpmath")
    with mp.workdps(60):
        m, s = mp.mpf(7) / 10, mp.sqrt(mp.mpf(1e-12))
        truth = mp.quad(lambda z: at(m + s * z) ** 2 * mp.npdf(z), [-14, -7, -2, 0, 2, 7, 14])
        value = mf.evaluate(mf.Activation(f).second_moment(mf.q, mean=EDGE), q=1e-12)
        assert abs(value - truth) <= 1e-13 * truth
    assert mf.Activation(sp.tanh(mf.x - EDGE)).mean(mf.q, mean=EDGE) == 0


@pytest.mark.parametrize("q1", [1e-4, 1e-12, 1e-20])
@pytest.mark.parametrize("r", [-1.0, -0.5, 0.99])
def test_steps_of_which_only_rounding_is_left(q1: float, r: float) -> None:
    """H(u + 1) + H(u - 1) - 1 + u/10 is u/10 for small u: E u phi(v)/10 = p E phi'(v)/10"""
    phi = mf.Activation(sp.Heaviside(mf.x + 1) + sp.Heaviside(mf.x - 1) - 1 + mf.x / 10)
    p = r * math.sqrt(q1)
    with mp.workdps(30):
        truth = mp.mpf(p) * (mp.mpf(1) / 10 + 2 * mp.npdf(1)) / 10
        assert abs(mf.evaluate(phi.kernel(mf.q1, mf.p, mf.q2), q1=q1, p=p, q2=1.0) - truth) <= 1e-13 * abs(truth)


def test_differences_of_absolute_values_keep_their_digits() -> None:
    """|u + 1| - |u - 1| is 2u for small u"""
    phi = mf.Activation(sp.Abs(mf.x + 1) - sp.Abs(mf.x - 1))
    assert mf.evaluate(phi.kernel(mf.q1, mf.p, mf.q2), q1=1e-16, p=-3e-17, q2=1e-16) == pytest.approx(-1.2e-16, rel=1e-13)


def test_steep_logistic_functions_away_from_zero() -> None:
    """e^{a (x + b)} is no double between 0 and -b; an array of a goes through"""
    a, b, q = sp.Symbol("a", positive=True), sp.Rational(17, 10), 0.7
    steep = [30.0, 500.0, 900.0, 3e4]
    soft = mf.Activation(sp.log(1 + sp.exp(-a * (mf.x - b))) / a)
    step = mf.Activation(1 / (1 + sp.exp(a * (mf.x + b))))
    for phi, f in (
        (
            soft,
            lambda z, s: (
                -(z - 1.7) + mp.log1p(mp.exp(s * (z - mp.mpf("1.7")))) / s if z < 1.7 else mp.log1p(mp.exp(-s * (z - mp.mpf("1.7")))) / s
            ),
        ),
        (step, lambda z, s: 1 / (1 + mp.exp(s * (z + mp.mpf("1.7"))))),
    ):
        found = mf.evaluate(phi.second_moment(mf.q), q=q, a=steep)
        turn = mp.mpf("1.7") * (1 if phi is soft else -1)
        for s, value in zip(steep, found, strict=True):
            with mp.workdps(30):
                near = [turn + k / s for k in (-60, -8, 0, 8, 60)]
                ends = [-12, *near, 12] if s > 30 else [-12, turn, 12]
                exact = mp.quad(lambda z, s=s, f=f: f(z, s) ** 2 * mp.npdf(z, 0, mp.sqrt(mp.mpf("0.7"))), sorted(ends))
            assert abs(value / exact - 1) < 2e-12, (phi, s)


def test_slopes_of_logistic_functions_at_large_variance() -> None:
    """e^x - 1 over powers of e^x + 1 is no quotient of infinities: two ways of writing one expectation"""
    q, p = 3e5, -1e5
    twice = mf.Activation(sp.log(1 + sp.exp(mf.x)))
    assert np.isclose(
        mf.evaluate(twice.kernel(mf.q, mf.p).diff(mf.p, 3), q=q, p=p),
        mf.evaluate(mf.sigmoid.derivative.derivative.kernel(mf.q, mf.p), q=q, p=p),
        rtol=1e-11,
    )


def slope_by_nodes(phi: mf.Activation, q1: float, p: float, q2: float) -> mp.mpf:
    """E phi''(u) phi(v) / 2 of a function that is analytic far beyond the deviations, by Gauss and Hermite"""
    f, bend = (sp.lambdify(mf.x, e, "mpmath") for e in (phi.expression, phi.expression.diff(mf.x, 2)))
    with mp.workdps(40):
        rule = [(mp.sqrt(2) * mp.mpf(z), mp.mpf(w)) for z, w in zip(*gauss_hermite(16, 40), strict=True)]
        s, r = mp.sqrt(q1), mp.mpf(p) / mp.mpf(q1)
        rest = mp.sqrt(q2 - r * p)
        return sum(w * bend(s * z) * sum(k * f(r * s * z + rest * y) for y, k in rule) for z, w in rule) / (2 * mp.pi)


@pytest.mark.parametrize("name", ["tanh", "mish", "softsign"])
def test_slopes_at_small_variances_are_right_without_digits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """where their terms cancel Stein's identity takes these away: no digits are asked for, and the bound says how good that is"""
    slope = mf.activations[name].kernel(mf.q1, mf.p, mf.q2).diff(mf.q1)
    laws = [{"q1": v, "p": r * v, "q2": 2 * v} for v, r in ((1e-12, -1.2), (1e-6, 0.3), (1e-2, 0.3))]
    kinked = name == "softsign"
    truths = [mf.evaluate(slope, digits=20, **law) if kinked else slope_by_nodes(mf.activations[name], **law) for law in laws]
    monkeypatch.setattr(asked, "doubles", lambda *args: pytest.fail("digits"))
    for law, truth in zip(laws, truths, strict=True):
        found, bound = mf.evaluate(slope, error=True, **law)
        assert abs(found - truth) < 1e-12 * abs(truth), law
        assert abs(found - truth) <= bound < 1e-11 * abs(truth), law
        assert abs(mf.evaluate(slope, **law) - truth) < 1e-12 * abs(truth), law


@pytest.mark.parametrize("name", ["atan", "silu"])
def test_slopes_in_q_do_not_cancel(name: str) -> None:
    """at fixed p, dK/dq = E phi''(u) phi(v), written otherwise"""
    phi = mf.activations[name].expression
    other = mf.E(phi.diff(mf.x, 2) * phi.xreplace({mf.x: mf.y}), mf.q, mf.p)
    slope = mf.activations[name].kernel(mf.q, mf.p).diff(mf.q)
    for q, p in ((1e-9, -2e-10), (0.3, 0.1)):
        assert np.isclose(mf.evaluate(slope, q=q, p=p), mf.evaluate(other, q=q, p=p), rtol=1e-11)


def test_what_grows_within_its_strip_takes_more_than_seven_nodes() -> None:
    """E tanh(u) He_7(u/s) = s^7 E tanh^(7)(u): He_7 is 0 at the seven nodes of Gauss and Hermite"""
    for v in (sp.Rational(1, 1000), sp.Rational(1, 700)):
        f = sp.tanh(mf.x) * sp.hermite_prob(7, mf.x / sp.sqrt(v))
        truth = mf.evaluate(v ** sp.Rational(7, 2) * mf.E(sp.tanh(mf.x).diff(mf.x, 7), v), digits=15)
        assert abs(mf.evaluate(mf.E(f, mf.q), q=v) - truth) < 1e-6 * abs(truth)


SOFT_CLIP = mf.Activation(sp.log((1 + sp.exp(5 * mf.x)) / (1 + sp.exp(5 * (mf.x - 1)))) / 5)


@pytest.mark.parametrize("phi", [mf.tanh_exp, SOFT_CLIP], ids=str)
def test_poles_along_a_line_leave_the_promise_where_a_strip_is_as_wide_as_the_gaussian(phi: mf.Activation) -> None:
    """tanh(e^x) and log(1 + e^{5 (x - 1)}) have poles beside others, which sinh t brings nearer: moments to 1e-12, gaps to 1e-11"""
    strip = shape_of(phi.expression).d
    at = np.array([0.8, 0.9, 1.0, 1.2, 1.5]) ** 2 * strip**2
    found, bounds = mf.evaluate(phi.second_moment(mf.q), q=at, error=True)
    true = np.array([float(mf.evaluate(phi.second_moment(mf.q), q=v, digits=18)) for v in at])
    assert (np.abs(found - true) <= 1e-13 * true).all()
    assert (bounds <= 1e-12 * true).all()
    gaps, bounds = mf.evaluate(phi.gap(mf.q, mf.delta), q=at, delta=1e-3 * at, error=True)
    assert (bounds <= 1e-12 * gaps).all()
