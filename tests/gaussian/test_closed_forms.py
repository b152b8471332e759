"""What closes: a table of activations beyond the literature's, each against a quadrature that shares nothing with the engine."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import re

import flint
import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import panels
from scipy import special

import meanfield as mf
from meanfield.gaussian import balls
from meanfield.gaussian.atoms import NotClosed, atoms_of
from meanfield.gaussian.certificates import certify
from meanfield.gaussian.entire import has_a_pole
from meanfield.gaussian.growth import divergence
from meanfield.gaussian.pieces import stepped
from meanfield.gaussian.special import AngleDifference, BivariateNormalCDF, NormalCDF
from meanfield.gaussian.tidying import tidy
from meanfield.gaussian.zeros import in_normal_form
from meanfield.numeric.primitives import bivariate_normal

x, y, q, p, q1, q2 = mf.x, mf.y, mf.q, mf.p, mf.q1, mf.q2
R, H, sqrt, exp, erf = sp.Rational, sp.Heaviside, sp.sqrt, sp.exp, sp.erf
a, b, c = (sp.Symbol(name, positive=True) for name in "abc")
VALUES = {a: R(7, 10), b: R(13, 10), c: R(4, 5)}
PHI = (1 + erf(x / sqrt(2))) / 2

#: every kink of the table is one of these
CUTS = (-3, -1.3, -1, -0.8, -2 / 3, -0.7, 0, 0.5, 0.7, 0.8, 1, 1.3, 3, 4, 6)

CLOSED = {
    "snake": x + sp.sin(a * x) ** 2 / a,
    "gabor": exp(-a * x**2) * sp.sin(b * x),
    "morlet": exp(-(x**2) / 2) * sp.cos(5 * x),
    "x gauss": x * exp(-a * x**2),
    "mexican hat": (x**3 - 3 * x) * exp(-(x**2) / 2),
    "x^2 erf": x**2 * erf(x),
    "erf(ax + b)": erf(a * x + b),
    "x erfc(-ax)": x * sp.erfc(-a * x) / 2,
    "erf + erf": erf(x) + erf(3 * x) / 2,
    "gelu + sin": x * PHI + sp.sin(x),
    "erf + relu + sin": erf(x) + sp.Max(x, 0) + sp.sin(x),
    "shifted gelu": ((x - 1) * PHI.subs(x, x - 1)) + R(1, 2),
    "hard tanh": sp.Min(sp.Max(x, -c), c),
    "hard swish": x * sp.Min(sp.Max(x + 3, 0), 6) / 6,
    "clip(-a, b)": sp.Min(sp.Max(x, -a), b),
    "soft shrink": sp.Max(x - a, 0) - sp.Max(-x - a, 0),
    "elu": sp.Piecewise((x, x > 0), (a * (exp(x) - 1), True)),
    "celu": sp.Piecewise((x, x > 0), (a * (exp(x / a) - 1), True)),
    "serlu": sp.Piecewise((x, x > 0), (x * exp(x), True)),
    "triangle": sp.Max(0, 1 - sp.Abs(x)),
    "hat squared": sp.Max(0, 1 - sp.Abs(x)) ** 2,
    "epanechnikov": sp.Max(1 - x**2, 0),
    "spline": sp.Piecewise((0, x < -1), ((x + 1) ** 3 / 6, x < 0), (R(1, 6) + x / 2 + x**2 / 2 - x**3 / 3, x < 1), (x, True)),
    "nested": sp.Max(sp.Min(x, 1), sp.Abs(x) / 2 - 1),
    "max of lines": sp.Max(x, 2 * x - 1, -x / 3),
    "exp(-|x|)": exp(-sp.Abs(x)),
    "x exp(-|x|)": x * exp(-sp.Abs(x)),
    "relu exp": sp.Max(x, 0) * exp(-x),
    "|x|^3": sp.Abs(x) ** 3,
    "sign x^2": sp.sign(x) * x**2,
    "relu^5": sp.Max(x, 0) ** 5,
    "signs": sp.sign(x - 1) + sp.sign(x + 1),
    "sin^3": sp.sin(x) ** 3,
    "x sin": x * sp.sin(x),
    "exp sin": exp(-x) * sp.sin(x),
    "cosh gauss": sp.cosh(x) * exp(-(x**2)),
    "legendre": sp.legendre(5, x),
    "hermite gauss": sp.hermite(3, x) * exp(-(x**2) / 2),
    "bare slope": sp.Max(x, 0) - sp.Symbol("s") * sp.Max(-x, 0),
    "bare threshold": sp.Max(x - sp.Symbol("s"), 0),
}
every = pytest.mark.parametrize("name", CLOSED)


def values(f: sp.Expr) -> dict[sp.Symbol, sp.Rational]:
    return {s: VALUES.get(s, R(1, 2)) for s in f.free_symbols - {x}}


def on_grid(f: sp.Expr, law: tuple[float, float, float], mean: float) -> tuple[float, float]:
    """E f(u) f(v) and E |f(u) f(v)| by tensor Gauss-Legendre panels between the kinks: nodes of u, times the density, times nodes of v"""
    z = sp.Symbol("z", real=True)
    heads = {"erf": special.erf, "erfc": special.erfc, "Heaviside": lambda t, _=0.5: np.heaviside(t, 0.5)}
    g = sp.lambdify(z, f.xreplace(values(f)).xreplace({x: z}), [heads, "numpy"])
    v1, cov, v2 = law

    def nodes(s: float) -> tuple[np.ndarray, np.ndarray]:
        low, high = mean - 11 * s, mean + 11 * s
        edges = np.unique([low, high, *(k for k in CUTS if low < k < high), *np.linspace(low, high, 45)])
        return panels(edges)

    (u, wu), (v, wv) = nodes(math.sqrt(v1)), nodes(math.sqrt(v2))
    det = v1 * v2 - cov**2
    du, dv = (u - mean)[:, None], (v - mean)[None, :]
    density = np.exp(-(v2 * du**2 - 2 * cov * du * dv + v1 * dv**2) / (2 * det)) / (2 * math.pi * math.sqrt(det))
    fu, fv = wu * (g(u) + 0 * u), wv * (g(v) + 0 * v)
    return float(fu @ density @ fv), float(abs(fu) @ density @ abs(fv))


def number(e: sp.Expr, f: sp.Expr, **at: float) -> float:
    point = {**values(f), **{{"q": q, "p": p, "q1": q1, "q2": q2}[k]: R(v) for k, v in at.items()}}
    return float(sp.N(e.subs(point, simultaneous=True), 25))


@every
@pytest.mark.parametrize("mean", [0, R(3, 10)])
def test_moments(name: str, mean: sp.Expr) -> None:
    f = CLOSED[name]
    act = mf.Activation(f)
    kernel, equal = act.kernel(q1, p, q2, mean=mean), act.kernel(q, p, mean=mean)
    for rho in (0.6, -0.9):
        law = (0.7, rho * math.sqrt(0.7 * 1.9), 1.9)
        truth, size = on_grid(f, law, float(mean))
        assert abs(number(kernel, f, q1=law[0], p=law[1], q2=law[2]) - truth) < 1e-12 * size
    truth, size = on_grid(f, (0.7, 0.3, 0.7), float(mean))
    assert abs(number(equal, f, q=0.7, p=0.3) - truth) < 1e-12 * size
    first, second = number(act.mean(q, mean=mean), f, q=0.7), number(act.second_moment(q, mean=mean), f, q=0.7)
    assert abs(number(equal, f, q=0.7, p=2.0**-60) - first**2) < 1e-12 * second  # p -> 0
    assert abs(number(equal, f, q=0.7, p=0.7 - 2.0**-53) - second) < 1e-6 * second  # p -> q, a root of the distance for a jump
    assert abs(number(equal, f, q=0.7, p=-0.5)) < second  # Cauchy-Schwarz


@every
@pytest.mark.parametrize("moment", ["mean", "second_moment", "kernel"])
def test_certificates(name: str, moment: str) -> None:
    assert mf.Activation(CLOSED[name]).derive(moment).certificate.holds


WRONG = {
    "a coefficient": lambda e: e * (1 + R(1, 10**25)),
    "an addend": lambda e: e + R(1, 10**25) * p * q,
    "a variance": lambda e: e.subs(q, q * (1 + R(1, 10**20)), simultaneous=True),
    "a term": lambda e: sp.Add(*sp.Add.make_args(sp.expand(e))[1:]),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", ["gabor", "x^2 erf", "hard tanh", "elu", "relu^5", "erf + relu + sin", "bare threshold", "signs"])
def test_a_wrong_result_fails_its_certificate(name: str, wrong: str) -> None:
    act = mf.Activation(CLOSED[name])
    for moment, result in (("second_moment", act.second_moment(q)), ("kernel", act.kernel(q, p))):
        assert certify(act.expression, moment, result).holds
        assert not certify(act.expression, moment, WRONG[wrong](result)).holds, moment


@pytest.mark.parametrize("wrong", WRONG)
def test_a_certificate_is_of_the_formula_that_stands_in_the_derivation(wrong: str) -> None:
    """a wrong result planted in a derivation has a certificate that fails, also once that of the right one was read"""
    for moment in ("mean", "second_moment", "kernel"):
        d = mf.Activation(CLOSED["bare threshold"]).derive(moment)
        assert d.certificate.holds
        assert d.certificate.formula == d.result
        planted = dataclasses.replace(d, result=WRONG[wrong](d.result))
        assert planted.result != d.result
        assert planted.certificate.formula == planted.result
        assert not planted.certificate.holds, moment
        assert "FAILS" in repr(planted)
    other = dataclasses.replace(d, function=CLOSED["elu"])  # nor does it hold of another function
    assert other.quantity != d.quantity
    assert not other.certificate.holds


def test_a_certificate_of_an_odd_function_in_switches_that_switch_nothing() -> None:
    """tanh > erf - 1/2 everywhere; at random points a mean of 0 has no digits to be settled to"""
    d = mf.Activation(sp.Max(sp.tanh(mf.x), sp.erf(mf.x) - R(1, 2))).derive("mean")
    assert d.result == 0
    assert d.certificate.holds


def test_certificates_of_powers_and_of_what_cancels() -> None:
    """a wrong kernel of max(x, 0)^k fails in one of Price's identity, the value at p = 0 and the integral; symbols may cancel in a claim"""
    k = sp.Symbol("k", positive=True)
    act = mf.Activation(sp.Max(x, 0) ** k)
    right = certify(act.expression, "kernel", act.kernel(q, p))
    assert [c.statement[:2] for c in right.claims] == ["dC", "C(", "M("]
    assert right.holds
    for wrong, failing in ((act.kernel(q, p) + R(1, 10**20), 1), (act.kernel(q, p) + p**2 / 10**20, 0)):
        assert not certify(act.expression, "kernel", wrong).claims[failing].holds
    snake = mf.Activation(x + sp.sin(a * x) ** 2 / a)
    assert not certify(snake.expression, "mean", snake.mean(q) + q / 10**20).holds


def test_derivatives_of_powers_and_powers_about_a_mean() -> None:
    """E phi' phi' of a root is finite though E phi'^2 is not; with an open power the condition stands beside the form"""
    root, power = mf.Activation(sp.sqrt(sp.Abs(x))), mf.Activation(sp.Max(x, 0) ** sp.Symbol("k", positive=True))
    slopes = root.derivative.kernel(q, p)
    assert root.derivative.second_moment(q) == sp.oo
    assert root.derivative.derive("kernel").certificate.holds
    law = {"q": 1.3, "p": -0.4}
    assert mf.evaluate(slopes, **law) == pytest.approx(mf.evaluate(root.kernel(q, p).diff(p), **law), rel=1e-14)
    third = mf.Activation(sp.cbrt(sp.Max(x, 0)))
    assert mf.evaluate(third.derivative.kernel(q, p), **law) == pytest.approx(mf.evaluate(third.kernel(q, p).diff(p), **law), rel=1e-14)
    second = power.derivative.second_moment(q)
    assert second.args[0].cond == (sp.Symbol("k", positive=True) > R(1, 2))
    assert mf.evaluate(second, q=1.3, k=2.0) == pytest.approx(2 * 1.3, rel=1e-14)
    with pytest.raises(ValueError, match="finite only for k > 1/2"):
        mf.evaluate(second, q=1.3, k=0.4)
    about = float(sp.N(power.mean(q, mean=R(7, 10)).subs({q: R(13, 10), "k": 2, sp.Symbol("k", positive=True): 2}), 20))
    assert about == pytest.approx(number(mf.Activation(sp.Max(x, 0) ** 2).mean(q, mean=R(7, 10)), x, q=1.3), rel=1e-14)


def test_means_of_what_is_infinite_at_a_point_move_with_the_density() -> None:
    """E |u|^k, also about a mean, and E |u|^k |v|^k with and without signs, where the derivative of |x|^k is not integrable"""
    k, values = R(-2, 5), {q1: R(13, 10), p: R(2, 5), q2: R(7, 10)}
    j = mp.mpf(-2) / 5

    def about(m: mp.mpf, v: mp.mpf) -> mp.mpf:
        return (2 * v) ** (j / 2) * mp.gamma((j + 1) / 2) / mp.sqrt(mp.pi) * mp.hyp1f1(-j / 2, mp.mpf(1) / 2, -(m**2) / (2 * v))

    def even(v: mp.mpf, cov: mp.mpf, w: mp.mpf) -> mp.mpf:
        return (4 * v * w) ** (j / 2) / mp.pi * mp.gamma((j + 1) / 2) ** 2 * mp.hyp2f1(-j / 2, -j / 2, 0.5, cov**2 / (v * w))

    def odd(v: mp.mpf, cov: mp.mpf, w: mp.mpf) -> mp.mpf:
        of_both = mp.gamma(j / 2 + 1) ** 2 * mp.hyp2f1((1 - j) / 2, (1 - j) / 2, 1.5, cov**2 / (v * w))
        return (4 * v * w) ** (j / 2) / mp.pi * 2 * cov / mp.sqrt(v * w) * of_both

    with mp.workdps(30):
        at = [mp.mpf(v.p) / v.q for v in values.values()]
        j = mp.mpf(-2) / 5
        moved = mf.E(sp.Abs(x - 1) ** k, q).diff(q).subs(q, values[q1])
        assert float(moved.evalf(15)) == pytest.approx(float(mp.diff(lambda v: about(mp.mpf(1), v), at[0])), rel=1e-13)
        for sign, wanted in ((1, even), (sp.sign(x) * sp.sign(y), odd)):
            mean = mf.E(sign * sp.Abs(x) ** k * sp.Abs(y) ** k, q1, p, q2)
            for n, s in enumerate(values):
                rate = mp.diff(wanted, tuple(at), tuple(int(n == i) for i in range(3)))
                assert float(mean.diff(s).subs(values).evalf(15)) == pytest.approx(float(rate), rel=1e-12)


def test_each_step_is_an_equation_told_once() -> None:
    """relu's kernel: both sides of each step are equal numbers, and each step has a source"""
    steps = mf.Activation(sp.Max(x - 1, 0) - x / 3).derive("kernel").steps
    assert [s.rule for s in steps[:2]] == ["atoms", "linearity"]
    assert len(set(steps)) == len(steps)
    assert all(s.citation for s in steps)
    for s in steps[1:]:
        left, right = (e.subs({q: R(7, 5), p: R(3, 5)}).doit() for e in (s.before, s.after))
        assert abs(sp.N(left - right, 20)) < 1e-15, s


def test_certificates_say_how_they_know(monkeypatch: pytest.MonkeyPatch) -> None:
    relu = mf.relu.expression
    proved, integrated = certify(relu, "second_moment", q / 2).claims
    assert proved.how == "identically"
    assert "ball arithmetic" in integrated.how
    refuted = certify(relu, "second_moment", q / 2 + R(1, 10**40)).claims
    assert refuted[0].holds
    assert not certify(relu, "second_moment", q / 2 + R(1, 10**20)).holds
    monkeypatch.setattr(balls, "available", lambda: False)
    unproved = certify(relu, "second_moment", q / 2).claims[1]
    assert unproved.holds
    assert "floating point" in unproved.how
    assert not certify(relu, "second_moment", q / 2 + R(1, 10**20)).holds


# -- powers ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [7, 20, 30])
def test_arc_cosine_kernels_of_high_order(k: int) -> None:
    act = mf.Activation(sp.Max(x, 0) ** k)
    assert act.mean(q) == tidy(2 ** (R(k, 2) - 1) * q ** R(k, 2) * sp.gamma(R(k + 1, 2)) / sqrt(sp.pi))
    assert act.second_moment(q) == sp.factorial2(2 * k - 1) * q**k / 2
    kernel = act.kernel(q, p)
    assert sp.simplify(kernel.subs(p, q) - act.second_moment(q)) == 0
    assert in_normal_form(kernel.diff(p) - k**2 * mf.Activation(sp.Max(x, 0) ** (k - 1)).kernel(q, p))  # Cho & Saul's recursion


def test_monomials_of_high_order() -> None:
    assert mf.Activation(x**50).mean(q) == sp.factorial2(49) * q**25
    kernel = mf.Activation(x**24).kernel(q1, p, q2)
    isserlis = sum(  # choose 2j of each to pair across
        (sp.binomial(24, 2 * j) * sp.factorial2(23 - 2 * j)) ** 2 * sp.factorial(2 * j) * (q1 * q2) ** (12 - j) * p ** (2 * j)
        for j in range(13)
    )
    assert sp.expand(kernel - isserlis) == 0


# -- how results read --------------------------------------------------------------------------------------------------------------------

PRINTED = {
    "relu": (mf.relu.expression, "p*(pi - acos(p/q))/(2*pi) + sqrt(-p**2 + q**2)/(2*pi)"),
    "step": (H(x), "(pi - acos(p/q))/(2*pi)"),
    "relu^2": (sp.Max(x, 0) ** 2, "3*p*sqrt(-p**2 + q**2)/(2*pi) + (pi - acos(p/q))*(2*p**2 + q**2)/(2*pi)"),
    "erf": (erf(a * x), "2*asin(2*a**2*p/(2*a**2*q + 1))/pi"),
    "sin": (sp.sin(a * x), "exp(-a**2*q)*sinh(a**2*p)"),
    "cos": (sp.cos(x), "exp(-q)*cosh(p)"),
    "gauss": (exp(-a * x**2), "1/sqrt(-4*a**2*p**2 + (2*a*q + 1)**2)"),
    "leaky": (sp.Max(x, 0) - a * sp.Max(-x, 0), "a*p + p*(pi - acos(p/q))*(a - 1)**2/(2*pi) + (a - 1)**2*sqrt(-p**2 + q**2)/(2*pi)"),
    "threshold": (H(x - b), "BivariateNormalCDF(-b/sqrt(q), -b/sqrt(q), p/q)"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_results_are_in_the_form_of_the_literature(name: str) -> None:
    f, text = PRINTED[name]
    assert str(mf.Activation(f).kernel(q, p)) == text


# -- what does not close, and why --------------------------------------------------------------------------------------------------------

s, t = sp.symbols("s t")
REFUSED: dict[str, tuple[sp.Expr, str, str]] = {
    "cubic with unknown roots": (H(x**3 + s * x + t), "mean", r"which roots of .* are real is not known"),
    "steps whose order hangs on a product": (H(x - s**2 * t**2) * H(s + t - x), "mean", r"the sign of .* is unknown: write one parameter"),
    "cos relu erf": (sp.cos(x) * erf(x) * sp.Max(x, 0), "kernel", "orthant in more than two dimensions"),
    "erf^3": (erf(x) ** 3, "second_moment", "orthant in more than three dimensions"),
    "erf^3 beside 0": (erf(x) * erf(2 * x) * erf(x - 1), "mean", "orthant in more than two dimensions, not through 0"),
    "erf^2": (erf(x) ** 2, "kernel", "orthant in more than two dimensions"),
    "x erf step": (x * erf(x) * H(x), "kernel", "orthant in more than two dimensions"),
    "tanh": (sp.tanh(x), "kernel", r"tanh\(x\) is not made of"),
    "relu sin": (sp.Max(sp.sin(x), 0), "mean", "changes at points that have no closed form"),
    "chirp relu": (sp.cos(x**2) * sp.Max(x, 0), "kernel", "ever faster oscillation beside a gate"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_close_says_why(name: str) -> None:
    f, moment, message = REFUSED[name]
    act = mf.Activation(f)
    with pytest.raises(ValueError, match=f"no closed form to derive: .*({message})"):
        act.derive(moment)
    assert not act.is_closed(moment)


def test_quotients_that_cancel_close_and_those_with_poles_are_told_before_they_are_multiplied_out() -> None:
    """1/4, 1, 1, and a product that would be some 40,000 terms"""
    a, logistic = sp.Symbol("a", positive=True), 1 / (1 + exp(-x))
    for f in (x / ((1 + x) ** 2 - (1 - x) ** 2), 1 / (1 + exp(a * x)) + 1 / (1 + exp(-a * x)), sp.tanh(x) ** 2 + sp.sech(x) ** 2):
        assert mf.E(f, q).doit().is_Rational
    assert not has_a_pole((1 - exp(2 * x)) / (1 - exp(x)))
    assert not has_a_pole(exp(sp.tanh(x)))  # which is not known: it has something worse
    for f in (logistic, H(x - 1) * sp.tanh(a * x + 1), exp(x) / (2 - exp(x)) ** 2, sp.coth(x), sp.csch(x)):
        assert has_a_pole(f)
    u, w = sp.Symbol("u"), sp.tanh(x)
    for n in (4, 6):  # poles of high order that cancel
        assert mf.E(sp.Add((w + x) ** n, -sp.expand((u + x) ** n).xreplace({u: w}), x**2), q).doit() == q
    with pytest.raises(NotClosed, match="poles in the complex plane"):
        atoms_of((1 + x * logistic) ** 200 * (x - logistic) ** 200)


@pytest.mark.parametrize("f", [erf(x) ** 2, x * erf(x) * H(x)], ids=str)
def test_two_smooth_gates_close_in_one_variable(f: sp.Expr) -> None:
    act = mf.Activation(f)
    for mean in (0, R(3, 10)):
        truth, _ = on_grid(sp.sqrt(2 * sp.pi) * f, (0.7, 0, 0.7), float(mean))
        assert abs(number(act.mean(q, mean=mean), f, q=0.7) ** 2 * 2 * math.pi - truth) < 1e-12 * truth


@pytest.mark.parametrize("moment", ["mean", "second_moment", "kernel"])
@pytest.mark.parametrize("phi", [mf.selu, mf.star_relu], ids=repr)
def test_constants_with_a_definition_have_certificates(phi: mf.Activation, moment: str) -> None:
    for mean in (0, sp.Symbol("m", real=True)):
        assert phi.derive(moment, mean=mean).certificate.holds


BESIDE_GROWTH = {
    "step and error function": exp(x**2 / 10) * H(x) * erf(x),
    "square": exp(x**2 / 10) * erf(x) ** 2,
    "both tails": exp(x**2 / 10) * sp.erfc(x) * sp.erfc(-x),
    "interval": exp(x**2 / 10) * H(x + 1) * H(1 - x),
}


@pytest.mark.parametrize("name", BESIDE_GROWTH)
def test_two_gates_of_one_variable_beside_a_gaussian_that_grows(name: str) -> None:
    """closed below the variance at which the Gaussian alone is infinite; beyond, what gates make finite is evaluated, the rest refused"""
    f = BESIDE_GROWTH[name]
    moment, finite = mf.E(f, q), name in ("both tails", "interval")
    assert isinstance(moment.doit(), sp.Piecewise)
    ends = [-1, 0, 1] if name == "interval" else [-60, -8, 0, 8, 60]

    def true(v: float) -> float:
        return float(mp.quad(lambda u: sp.lambdify(x, f, "mpmath")(u) * mp.npdf(u, 0, mp.sqrt(v)), ends))

    for v in (0.3, 1.7, 3.5):
        assert mf.evaluate(moment, q=v) == pytest.approx(true(v), rel=1e-12)
    if finite:
        assert mf.evaluate(moment, q=9.0) == pytest.approx(true(9.0), rel=1e-12)
        return
    with pytest.raises(ValueError, match="is infinite: it is finite only for q < 5"):
        mf.evaluate(moment, q=9.0)


def one_sided(k: int, a: mp.mpf, v: mp.mpf, cov: mp.mpf) -> mp.mpf:
    """E (u v)^k exp(a u^2 + a v^2) over u, v > 0, in polar coordinates: int r^(2k+1) exp(-r^2 Q/2) dr = 2^k k!/Q^(k+1)"""
    rest = v**2 - cov**2

    def ray(t: mp.mpf) -> mp.mpf:
        form = (v - 2 * cov * mp.sin(t) * mp.cos(t)) / rest - 2 * a
        return (mp.sin(t) * mp.cos(t)) ** k * 2**k * mp.factorial(k) / form ** (k + 1)

    return mp.quad(ray, mp.linspace(0, mp.pi / 2, 9)) / (2 * mp.pi * mp.sqrt(rest))


@pytest.mark.parametrize("k", [0, 1, 2])
def test_a_growing_gaussian_on_a_half_line(k: int) -> None:
    """two gates beside a Gaussian that grows: the tilt leaves a quadrant"""
    rate = sp.Symbol("rate", positive=True)
    ramp = sp.Max(x, 0) ** k if k else H(x)
    phi, symbolic = mf.Activation(ramp * exp(x**2 / 7)), mf.Activation(ramp * exp(rate * x**2))
    assert all(act.is_closed(moment) for act in (phi, symbolic) for moment in ("kernel", "gap"))
    variances, covariances = [1.4, 0.2, 1.7, 1e-3], [0.9, -0.15, -1.2, 9e-4]
    with mp.workdps(30):
        truth = [float(one_sided(k, mp.mpf(1) / 7, mp.mpf(v), mp.mpf(c))) for v, c in zip(variances, covariances, strict=True)]
        half = float(one_sided(k, mp.mpf(0.3), mp.mpf(0.75), mp.mpf(0.4)))
        second = (1 - 4 * mp.mpf(1) / 7) ** (-k - mp.mpf(1) / 2) * mp.fac2(2 * k - 1) / 2
        near = float(second - one_sided(k, mp.mpf(1) / 7, mp.mpf(1), 1 - mp.mpf(2) ** -20))
    assert mf.evaluate(phi.kernel(q, p), q=variances, p=covariances) == pytest.approx(truth, rel=1e-12)
    assert mf.evaluate(phi.kernel(q, p), q=variances[0], p=covariances[0], digits=20) == pytest.approx(truth[0], rel=1e-14)
    assert mf.evaluate(symbolic.kernel(q, p), q=0.75, p=0.4, rate=0.3) == pytest.approx(half, rel=1e-12)
    few, many = (mf.evaluate(phi.gap(q, mf.delta), q=np.ones(n), delta=2.0**-20) for n in (1, 40))
    assert few[0] == many[-1] == pytest.approx(near, rel=1e-11)
    with pytest.raises(ValueError, match="is infinite: it is finite only for"):
        phi.kernel(2, R(17, 10))
    with mp.workdps(30):  # on its quadrant the form is positive for q > 2 (q^2 - p^2)/7 where p < 0
        beyond = one_sided(k, mp.mpf(1) / 7, mp.mpf(2), -mp.mpf(1.8))
    assert mf.evaluate(phi.kernel(q, p), q=2.0, p=-1.8) == pytest.approx(float(beyond), rel=1e-14)
    with pytest.raises(ValueError, match=r"finite only for \(p \+ q < 7/2\) & \(2\*\(-p \+ q\)\*\(p \+ q\)/7 <= q\)"):
        mf.evaluate(phi.kernel(q, p), q=20.0, p=-5.0)


def test_what_grows_on_an_interval_only_is_finite() -> None:
    """exp(x^2/4) for |x| < 3/2 has a mean at q = 5, which its closed form does not reach: once refused as infinite"""
    phi = mf.Activation(sp.Piecewise((exp(x**2 / 4), sp.Abs(x) < R(3, 2)), (0, True)))
    truth = mp.quad(lambda z: mp.exp(z**2 / 4) * mp.npdf(z, 0, mp.sqrt(5)), [-1.5, 0, 1.5])
    assert mf.evaluate(phi.mean(5)) == pytest.approx(float(truth), rel=1e-13)
    assert mf.evaluate(phi.mean(q), q=[1.0, 5.0])[1] == pytest.approx(float(truth), rel=1e-13)
    square = mp.quad(lambda z: mp.exp(z**2 / 2) * mp.npdf(z, 0, mp.sqrt(5)), [-1.5, 0, 1.5])
    assert mf.evaluate(phi.kernel(q, p), q=5.0, p=5.0) == pytest.approx(float(square), rel=1e-12)


THREE_GATES = {
    "relu erf": (sp.Max(x, 0) * erf(x), "second_moment", "4*q**2/(pi*(2*q + 1)*sqrt(4*q + 1)) + q*asin(2*q/(2*q + 1))/pi"),
    "Phi^3": (PHI**3, "mean", "3*asin(q/(q + 1))/(4*pi) + 1/8"),
    "x^3 erf step gauss": (x**3 * erf(a * x) ** 2 * H(x) * exp(-(x**2)), "mean", None),
    "odd powers of gates": (x**3 * PHI**2 * erf(2 * x), "mean", None),
}


@pytest.mark.parametrize("name", THREE_GATES)
def test_three_gates_at_the_origin_close_in_one_variable(name: str) -> None:
    f, moment, text = THREE_GATES[name]
    told = mf.Activation(f).derive(moment)
    assert told.certificate.holds
    assert text is None or str(told.result) == text
    assert "pairs" in [step.rule for step in told.steps]


def test_a_growing_gaussian_has_its_closed_form_where_it_is_finite() -> None:
    act = mf.Activation(exp(x**2 / 5))
    assert act.second_moment(q) == sp.Piecewise((sqrt(5) / sqrt(5 - 4 * q), q < R(5, 4)))
    assert act.kernel(q, p) == sp.Piecewise((5 / sqrt((5 - 2 * q) ** 2 - 4 * p**2), q + sp.Abs(p) < R(5, 2)))
    both = mf.Activation(sp.cos(a * x) * exp(x**2 / 9) + sp.Max(x, 0))
    for told in (act.derive("kernel"), both.derive("mean"), both.derive("second_moment"), both.derive("kernel")):
        assert told.certificate.holds
    assert not certify(both.expression, "kernel", both.kernel(q, p).args[0][0] + p / 10**20).holds
    assert mf.evaluate(act.gap(q, mf.delta), q=1.0, delta=1e-200) == pytest.approx(4 / math.sqrt(5) * 1e-200, rel=1e-14)
    for moment, at, bound in ((act.second_moment(q), {"q": [1.0, 1.3]}, "q < 5/4"), (act.kernel(q, p), {"q": 2.0, "p": -0.6}, r"q \+ Abs")):
        with pytest.raises(ValueError, match=f"finite only for {bound}"):
            mf.evaluate(moment, **at)


def test_growing_functions_answer_where_they_can() -> None:
    """an odd one has no mean where its integral diverges; q goes to a fixed point or to where E phi^2 is infinite"""
    odd = mf.Activation(x * exp(x**2 / 8))
    assert mf.evaluate(odd.mean(q), q=3.9) == 0
    with pytest.raises(ValueError, match="finite only for q < 4"):
        mf.evaluate(odd.mean(q), q=4.0)
    for f in (x * exp(x**4), 1 / x, sp.sinh(x**3)):
        assert mf.E(f, q).doit() != 0
    with pytest.raises(ValueError, match="infinite: it is finite only for q < 4"):
        odd.mean(7)
    net = mf.mlp(mf.Activation(exp(x**2 / 5)))
    points = mf.fixed_points(net, sigma_w=0.3, sigma_b=0.1)
    assert [f.stable for f in points] == [True, False, False]
    for fixed in points:
        assert 0.09 * math.sqrt(5 / (5 - 4 * fixed.q)) + 0.01 == pytest.approx(fixed.q, rel=1e-10)
    assert "infinite at q = 10" in str(mf.growth(mf.mlp(mf.Activation(exp(x**2 / 5)), 1, 0)))
    assert "grows exponentially" in str(mf.growth(net))


INFINITE = {
    exp(x**2): "q >= 1/4",
    x * exp(x**2 / 2): "q >= 1/2",
    sp.cosh(x**2): "q >= 1/4",
    exp(3 * x**2 / 8): "q >= 2/3",
    exp(x**3): "every variance",
    exp(x**4): "every variance",
    exp(exp(x)): "every variance",
    sp.erfi(x): "q >= 1/4",
    exp(x**2) * H(-x): "q >= 1/4",
    exp(x * sp.Abs(x)): "q >= 1/4",
    1 / x: "pole at x = 0",
    sp.factorial(x): "pole at x = -1",
    sp.Piecewise((0, x < 0), (1 / x, True)): "pole at x = 0",
    a / x: "pole at x = 0 for a = 3/7",
    sp.tan(a * x): "pole at x = 3.66519 for a = 3/7",
}
FINITE = (exp(-(x**4)), exp(x), sp.tanh(x**2), exp(x**2) / (1 + exp(x**2)), sp.exp(sp.Abs(x)), sp.log(1 + exp(x)), exp(-exp(x)),
          1 / (1 + x**2), sp.sin(x) / x, x / (1 + exp(-x)), exp(-a * x**2), sp.Max(x, 0) ** 20, 1 / sp.cosh(x),
          exp(a * x**2), exp(x**2 / 8), 1 / (x**2 + a), sp.tanh(a * x) / x)  # fmt: skip


@pytest.mark.parametrize("f", INFINITE, ids=str)
def test_infinite_second_moments_are_told(f: sp.Expr) -> None:
    reason = divergence(f)
    assert reason is not None
    assert reason.startswith(f"f = {f}: E f(u)^2 is infinite for ")
    assert re.search(INFINITE[f], reason)


@pytest.mark.parametrize("f", FINITE, ids=str)
def test_finite_second_moments_are_not_refused(f: sp.Expr) -> None:
    assert divergence(f) is None


# -- normal forms and pieces -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nested", "max of lines", "triangle", "spline", "clip(-a, b)", "epanechnikov", "x exp(-|x|)"])
def test_pieces_are_the_function(name: str) -> None:
    f = CLOSED[name].xreplace(VALUES)
    unfolded = stepped(f)
    assert not unfolded.has(sp.Max, sp.Min, sp.Abs, sp.Piecewise)
    for k in range(-43, 44, 3):
        assert sp.N(f.subs(x, R(k, 7)) - unfolded.subs(x, R(k, 7)), 20, chop=True) == 0


def test_normal_forms() -> None:
    draw = random.Random(1)
    e = sqrt(2) * sqrt(q) / sqrt(q**2 - p**2) + exp(-q) * sqrt(q - p) * sqrt(q + p) / (q * sqrt(sp.pi)) + sp.asin(p / q) / (a + sqrt(2))
    tidied = tidy(e)
    for _ in range(3):
        point = {q: R(draw.randint(50, 99), 10), p: R(draw.randint(-40, 40), 10), a: R(draw.randint(1, 30), 10)}
        assert abs(sp.N((e - tidied).subs(point), 40, chop=True)) < 1e-35
    assert in_normal_form(e - tidied)
    assert not in_normal_form(e - tidied * (1 + R(1, 10**30)))
    assert in_normal_form(NormalCDF(p) + NormalCDF(-p) - 1)
    assert in_normal_form(sp.sinh(p) ** 2 - sp.cosh(p) ** 2 + 1)
    assert not in_normal_form(NormalCDF(p) - NormalCDF(-p))


# -- the bivariate normal ----------------------------------------------------------------------------------------------------------------


def orthant(h: float, k: float, r: float, scale: str) -> flint.arb:
    """the integral over x < h of density(x) Phi((k - r x)/sqrt(1 - r^2)), in balls, panels about its peak"""
    with flint.ctx.workdps(60):
        H_, K_, R_ = (flint.arb(v) for v in (h, k, r))
        d = (1 - R_ * R_).sqrt()

        def integrand(z: flint.acb, _: bool) -> flint.acb:
            return (-(z * z) / 2).exp() * (-(K_ - R_ * z) / d / flint.arb(2).sqrt()).erfc() / 2

        edges = [H_ - 2 * flint.arb(j) ** 2 / 10 for j in range(40)]
        total = flint.acb(0)
        for high, low in itertools.pairwise(edges):
            total += flint.acb.integral(integrand, flint.acb(low), flint.acb(high), abs_tol=flint.arb(scale) * flint.arb(10) ** -45)
        return total.real / (2 * flint.arb.pi()).sqrt()


@pytest.mark.parametrize("r", [0.3, -0.3, 0.95, -0.9, 0.9999, 1e-9])
@pytest.mark.parametrize(("h", "k"), [(0.5, -0.3), (-3.0, -3.0), (-8.0, 2.0), (1.0, 1.0), (-30.0, 5.0), (-12.0, -11.5), (9.7, -9.5)])
def test_bivariate_normal_digits(h: float, k: float, r: float) -> None:
    found = sp.N(BivariateNormalCDF(sp.Rational(h), sp.Rational(k), sp.Rational(r)), 35)
    truth = orthant(h, k, r, str(found))
    with flint.ctx.workdps(60):
        assert truth.rel_accuracy_bits() > 110
        assert abs(flint.arb(str(found)) - truth) < truth * flint.arb(10) ** -31


def test_bivariate_normal_in_floats() -> None:
    """relative error, in the tails too"""
    grid = [-12.0, -6.0, -2.5, -1.0, -0.1, 0.0, 0.3, 1.0, 4.0, 9.0]
    for r in (-1.0, -0.9999, -0.93, -0.92, -0.5, 0.0, 0.2, 0.9, 0.93, 0.999999, 1.0):
        for h, k in itertools.product(grid, grid):
            truth = float(sp.N(BivariateNormalCDF(R(h), R(k), R(r)), 20))
            if truth > 1e-290:
                assert abs(bivariate_normal(h, k, r) / truth - 1) < 2e-15 * (1 - 0.5 * math.log(truth)), (h, k, r)


@pytest.mark.parametrize(("h", "k", "r"), [(-3.0, 2.5, -0.7), (-3.0, -3.0, -0.64), (-2.5, -0.8, -0.68), (-5.0, -4.0, 0.3)])
def test_tails_of_the_bivariate_normal_are_no_digits(h: float, k: float, r: float) -> None:
    """by arb; with a bound that holds and is a few units"""
    a, b, c = sp.symbols("a b c", real=True)
    value, bound = mf.evaluate(BivariateNormalCDF(a, b, c), a=h, b=k, c=r, error=True)
    truth = float(orthant(h, k, r, repr(value)).mid())
    assert abs(value - truth) <= bound < 5e-14 * truth


@pytest.mark.parametrize("r", [1, -1])
def test_bivariate_normal_at_full_correlation(r: int) -> None:
    for h, k in ((R(1, 2), R(-1, 3)), (R(1, 2), R(1, 2)), (R(-1, 2), R(1, 2)), (R(2), R(3))):
        limit = BivariateNormalCDF(h, k, r * (1 - R(1, 10**60)))
        assert abs(sp.N(BivariateNormalCDF(h, k, r), 25) - sp.N(limit, 25)) < 1e-24
    assert BivariateNormalCDF(sp.oo, p, R(1, 2)) == NormalCDF(p)
    assert BivariateNormalCDF(p, -sp.oo, R(1, 2)) == 0
    assert BivariateNormalCDF(p, q, 0) == NormalCDF(p) * NormalCDF(q)
    assert BivariateNormalCDF(0, 0, R(1, 2)) == R(1, 3)


def test_bivariate_normal_differentiates() -> None:
    h, k, r = sp.symbols("h k r", real=True)
    at = {h: R(-7, 10), k: R(2, 5), r: R(3, 5)}
    node = BivariateNormalCDF(h, k, r)
    for variable in (h, k, r):
        step = R(1, 10**8)
        difference = sum(w * node.subs({**at, variable: at[variable] + i * step}) for i, w in ((1, 8), (-1, -8), (2, -1), (-2, 1)))
        assert abs(sp.N(node.diff(variable).subs(at), 30) - sp.N(difference / (12 * step), 45)) < 1e-28
    assert sp.latex(node) == r"\Phi_2\left(h, k; r\right)"


def test_balls_hold_the_value(fresh: None) -> None:
    e: sp.Expr = mf.Activation(CLOSED["elu"]).kernel(q, p)
    point: dict[sp.Basic, sp.Rational] = {q: R(7, 5), p: R(-2, 3), a: R(7, 10)}
    with balls.precision(50):
        ball = balls.enclosure(e, point).real
        assert ball.overlaps(flint.arb(str(sp.N(e.subs(point), 45))) + flint.arb(0, "1e-42"))
        assert ball.rad() < flint.arb(10) ** -40


def test_derivative_of_a_difference_of_angles() -> None:
    t = sp.Symbol("t", positive=True)
    a, b, m = t, t**2 / 5, 3
    known = sp.asin(a / m) - sp.asin(b / m)
    angle = AngleDifference(a, sp.sqrt(m**2 - a**2), b, sp.sqrt(m**2 - b**2), a - b)
    for at in (sp.Rational(1, 3), sp.Rational(3, 2), sp.Rational(14, 5)):
        assert abs(sp.N((angle.diff(t) - known.diff(t)).subs(t, at), 30)) < 1e-25


@pytest.mark.parametrize("name", ["relu", "hard_tanh", "exp", "probit"])
def test_derivations_about_a_mean_and_for_unequal_variances(name: str) -> None:
    """each moment at a symbol for the mean: the result that the moment has, certified; a wrong one fails"""
    phi, m, q1, q2 = mf.activations[name], sp.Symbol("m", real=True), mf.q1, mf.q2
    assert phi.derive("mean", mean=m).certificate.holds
    for law in ((q, p), (q1, p, q2)):
        d = phi.derive("kernel", *law, mean=m)
        assert d.result == phi.kernel(*law, mean=m)
        assert d.certificate.holds
        asked = ((q1, p, q2) if len(law) == 3 else (q, p, q), m)
        assert not certify(phi.expression, "kernel", d.result + m * p / 10**20, asked).holds
    for bad in ({"mean": q}, {"mean": x}):
        with pytest.raises(ValueError, match="mean = "):
            phi.derive("kernel", **bad)
    with pytest.raises(ValueError, match="law = "):
        phi.derive("kernel", q)


def test_gaps_about_a_mean() -> None:
    """closed or not, what the second moment and the kernel leave, at mean 7/10"""
    for phi in (mf.hard_tanh, mf.sigmoid):
        gap = phi.gap(q, mf.delta, mean=0.7)
        apart = phi.second_moment(q, mean=0.7) - phi.kernel(q, q - mf.delta, mean=0.7)
        law = {"q": 1.3, "delta": 0.2}
        assert mf.evaluate(gap, **law) == pytest.approx(mf.evaluate(apart, **law), rel=1e-12)
        slope = phi.derivative.second_moment(q, mean=0.7)
        assert mf.evaluate(gap, q=1.3, delta=1e-30) == pytest.approx(1e-30 * mf.evaluate(slope, q=1.3), rel=1e-12)


def test_letters_of_the_law_in_what_is_averaged() -> None:
    """m, q and delta in an integrand are not the mean, the variance and the gap of the law"""
    m = sp.Symbol("m", real=True)
    assert mf.E(sp.exp(m * x), q).doit() == sp.exp(m**2 * q / 2)
    assert mf.Activation(sp.exp(m * x)).mean(q, mean=2).subs(m, 3) == sp.exp(6 + 9 * q / 2)
    node = mf.E(sp.exp(q * x), 2 * q)
    assert node.doit() == sp.exp(q**3)
    assert mf.evaluate(node, q=0.5) == pytest.approx(np.exp(0.125), rel=1e-15)


def test_a_kernel_of_seven_symbols() -> None:
    """E f(u) f(v) of x erf(b x) exp(-a x^2) at a mean, every variance its own, against the integral over u and v given u"""
    a, b, m = (sp.Symbol(name, positive=True) for name in ("a", "b", "m"))
    kernel = mf.Activation(mf.x * sp.erf(b * mf.x) * sp.exp(-a * mf.x**2)).kernel(mf.q1, mf.p, mf.q2, mean=m)
    values = {a: 1 / sp.Integer(3), b: sp.Rational(3, 4), m: sp.Rational(2, 5), mf.q1: 1, mf.p: sp.Rational(1, 2), mf.q2: 2}
    nodes, weights = np.polynomial.hermite_e.hermegauss(160)
    u, v = 0.4 + nodes[:, None], 0.4 + nodes[:, None] / 2 + math.sqrt(1.75) * nodes  # v given u
    f = lambda t: t * special.erf(t * 3 / 4) * np.exp(-t * t / 3)  # noqa: E731
    truth = float((f(u) * f(v) * weights[:, None] * weights).sum()) / (2 * math.pi)
    assert abs(sp.N(kernel.subs(values), 20) - truth) < 1e-13


@pytest.mark.parametrize("c", [0.5, -1 + 1e-9])
def test_a_closed_form_that_cancels_is_the_same_whichever_it_is_asked_with(c: float) -> None:
    e, v = mf.Activation(x * sp.sin(x)).kernel(q, p), np.geomspace(1e-9, 1e-3, 48)
    together = mf.evaluate(e, q=v, p=c * v)
    assert (together == np.concatenate([mf.evaluate(e, q=part, p=c * part) for part in np.split(v, 6)])).all()
