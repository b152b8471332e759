"""Expansions, Hermite coefficients and identities of expectations without a closed form.

An expansion is held against quadrature by its rate: the error must fall with the power of q that it declares, measured between two
variances. The reference is mpmath's tanh-sinh rule on dyadic panels of the function typed here, which shares nothing with the library.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import ACTIVATIONS, erf_kernel, erf_slope, pair_moments

import meanfield as mf
from meanfield.gaussian.finite_parts import FinitePart, finite_part
from meanfield.gaussian.identities import Identity
from meanfield.gaussian.local_expansions import at_infinity, at_zero
from meanfield.gaussian.logarithmic_moments import near_one
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.gaussian.series import NoExpansion

x, y, q, p, q1, q2 = mf.x, mf.y, mf.q, mf.p, mf.q1, mf.q2
alpha = sp.Symbol("alpha", positive=True)
sigmoid = 1 / (1 + sp.exp(-x))
GELU_TANH = x * (1 + sp.tanh(sp.sqrt(2 / sp.pi) * (x + sp.Rational(44715, 10**6) * x**3))) / 2

Real = Callable[[mp.mpf], mp.mpf]


def softplus(t: mp.mpf) -> mp.mpf:
    return max(t, mp.mpf(0)) + mp.log1p(mp.exp(-abs(t)))


def logistic(t: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(-t))


def gelu_tanh(t: mp.mpf) -> mp.mpf:
    return t * logistic(2 * mp.sqrt(2 / mp.pi) * (t + mp.mpf(44715) / 10**6 * t**3))


def squareplus(t: mp.mpf) -> mp.mpf:
    root = mp.sqrt(t * t + 4)
    return (t + root) / 2 if t > 0 else 2 / (root - t)


#: name -> the function for the library, and typed again
FUNCTIONS: dict[str, tuple[sp.Expr, Real]] = {
    "tanh": (sp.tanh(x), mp.tanh),
    "sigmoid": (sigmoid, logistic),
    "silu": (x * sigmoid, lambda t: t * logistic(t)),
    "softplus": (sp.log(1 + sp.exp(x)), softplus),
    "log-sigmoid": (sp.log(sigmoid), lambda t: -softplus(-t)),
    "mish": (x * sp.tanh(sp.log(1 + sp.exp(x))), lambda t: t * mp.tanh(softplus(t))),
    "tanh-GELU": (GELU_TANH, gelu_tanh),
    "squareplus": ((x + sp.sqrt(x**2 + 4)) / 2, squareplus),
    "atan": (sp.atan(x), mp.atan),
    "softsign": (x / (1 + sp.Abs(x)), lambda t: t / (1 + abs(t))),
    "isru": (x / sp.sqrt(1 + x**2), lambda t: t / mp.sqrt(1 + t * t)),
    "asinh": (sp.asinh(x), mp.asinh),
    "log cosh": (sp.log(sp.cosh(x)), lambda t: abs(t) + mp.log1p(mp.exp(-2 * abs(t))) - mp.log(2)),
    "hard tanh": (sp.Max(-1, sp.Min(x, 1)), lambda t: max(mp.mpf(-1), min(t, mp.mpf(1)))),
    "elu": (sp.Piecewise((x, x > 0), (sp.exp(x) - 1, True)), lambda t: t if t > 0 else mp.expm1(t)),
    "erf": (sp.erf(x), mp.erf),
    # not in any catalogue
    "x tanh(3x/2)": (x * sp.tanh(3 * x / 2), lambda t: t * mp.tanh(mp.mpf(3) / 2 * t)),
    "sech": (1 / sp.cosh(x), mp.sech),
    "x/(1+x^2)": (x / (1 + x**2), lambda t: t / (1 + t * t)),
    "log(1+|x|)": (sp.log(1 + sp.Abs(x)), lambda t: mp.log1p(abs(t))),
    "tanh of relu": (sp.tanh(sp.Max(x, 0)), lambda t: mp.tanh(max(t, mp.mpf(0)))),
    "shifted": (sp.tanh(x - 1), lambda t: mp.tanh(t - 1)),
    "atan(2x)+x/3": (sp.atan(2 * x) + x / 3, lambda t: mp.atan(2 * t) + t / 3),
}  # fmt: skip


@cache
def reference(name: str, power: int, v: str, digits: int = 30) -> mp.mpf:
    """E f(u)^power, u ~ N(0, v): panels of ratio 2 away from 0, which hold every kink (0 and 1) at an end"""
    f = FUNCTIONS[name][1]
    with mp.workdps(digits + 5):
        variance = mp.mpf(v)
        end = 17 * mp.sqrt(variance)
        steps = [mp.mpf(2) ** k for k in range(-6, 200) if mp.mpf(2) ** k < end]
        return mp.quad(lambda t: (f(t) ** power + f(-t) ** power) * mp.exp(-t * t / (2 * variance)), [0, *steps, end]) / mp.sqrt(
            2 * mp.pi * variance
        )


def number(e: sp.Expr, digits: int = 30, **values: Any) -> mp.mpf:
    with mp.workdps(digits + 5):
        bound = e.subs({s: sp.Rational(str(values[s.name])) for s in e.free_symbols})
        return +sp.N(bound, digits, maxn=1000)._to_mpmath(mp.mp.prec)


def moment(name: str, power: int, how: str, count: int) -> Any:
    return getattr(mf.Activation(FUNCTIONS[name][0]), how)({1: "mean", 2: "second_moment"}[power], count)


def rate_agrees(name: str, power: int, expansion: Any, variances: tuple[str, str]) -> None:
    """the error between two variances falls as the remainder does"""
    errors = [abs(number(expansion.expression, q=v) - reference(name, power, v)) for v in variances]
    if expansion.remainder == 0:
        assert max(errors) < mp.mpf("1e-25")
        return
    bounds = [abs(number(expansion.remainder, q=v)) for v in variances]
    if max(bounds) < mp.mpf("1e-25"):  # hard tanh at small q: beyond all powers
        assert max(errors) < mp.mpf("1e-24")
        return
    assert min(errors) > 0, "an error of exactly 0: the remainder is declared too large"
    step = mp.log(mp.mpf(variances[1]) / mp.mpf(variances[0]))
    measured, declared = (mp.log(e[1] / e[0]) / step for e in (errors, bounds))
    assert abs(measured - declared) < (0.3 if expansion.remainder.has(sp.log) else 0.08), (measured, declared, errors)
    assert errors[1] < 1e5 * bounds[1]


#: the mean of an odd function is 0
ODD = {"tanh", "atan", "softsign", "isru", "asinh", "hard tanh", "erf", "x/(1+x^2)", "atan(2x)+x/3"}
MOMENTS = [(name, power) for name in FUNCTIONS for power in (1, 2) if power == 2 or name not in ODD]


@pytest.mark.parametrize(("name", "power"), MOMENTS)
def test_taylor_series_have_their_rate(name: str, power: int) -> None:
    for order in (1, 3):
        rate_agrees(name, power, moment(name, power, "taylor", order), ("4e-4", "1e-4"))


@pytest.mark.parametrize(("name", "power"), MOMENTS)
def test_asymptotic_series_have_their_rate(name: str, power: int) -> None:
    for terms in (1, 3):
        rate_agrees(name, power, moment(name, power, "asymptotic", terms), ("4e5", "64e5"))


def test_more_terms_are_better() -> None:
    errors = []
    for terms in range(1, 6):
        errors.append(abs(number(moment("tanh", 2, "asymptotic", terms).expression, q=400) - reference("tanh", 2, "400")))
    assert all(b < a / 20 for a, b in itertools.pairwise(errors)), errors


def test_constants_of_the_literature() -> None:
    """1 - sqrt(2/(pi q))/alpha (1 - pi^2/(24 a^2 q) + 7 pi^4/(1920 a^4 q^2)): the moments of sech^2"""
    found = mf.dyt().asymptotic("second_moment", 4).expression
    Q = alpha**2 * q
    expected = 1 - sp.sqrt(2 / (sp.pi * Q)) * (1 - sp.pi**2 / (24 * Q) + 7 * sp.pi**4 / (1920 * Q**2))
    assert sp.simplify(found - expected) == 0
    D = mf.tanh.derivative.asymptotic("second_moment", 2).expression
    assert sp.simplify(D - sp.sqrt(2 / (sp.pi * q)) * (sp.Rational(2, 3) + (6 - sp.pi**2) / (36 * q))) == 0
    assert mf.tanh.taylor("second_moment", 3).terms == ((1, 1), (-2, 2), (sp.Rational(17, 3), 3))
    squared = mf.Activation(sp.log(1 + x**2)).asymptotic("mean", 1).expression  # E log u^2
    assert sp.simplify(squared - (sp.log(q) - sp.EulerGamma - sp.log(2))) == 0


def test_closed_forms_expand_the_same_way() -> None:
    """E erf(u)^2 = (2/pi) asin(2q/(1+2q)) against its Taylor series and the one from moments"""
    for how, points in (("taylor", ("1e-3", "1e-4")), ("asymptotic", ("1e3", "1e4"))):
        expansion = getattr(mf.erf, how)("second_moment", 3)
        with mp.workdps(40):
            exact = [2 / mp.pi * mp.asin(2 * mp.mpf(v) / (1 + 2 * mp.mpf(v))) for v in points]
        errors = [abs(number(expansion.expression, q=v) - e) for v, e in zip(points, exact, strict=True)]
        bounds = [number(expansion.remainder, q=v) for v in points]
        assert abs(mp.log(errors[1] / errors[0]) / mp.log(bounds[1] / bounds[0]) - 1) < 0.02
    relu = mf.relu.asymptotic("mean")
    assert relu.remainder == 0
    assert relu.expression == mf.relu.mean(q)


def test_exact_where_nothing_is_left() -> None:
    for how in ("taylor", "asymptotic"):
        for name, power, value in (("squareplus", 2, 1 + q / 2), ("sigmoid", 1, sp.Rational(1, 2)), ("isru", 1, sp.Integer(0))):
            found = moment(name, power, how, 3)
            assert found.remainder == 0
            assert found.expression == value


def test_parameters_stay_symbols() -> None:
    phi = mf.Activation(x / (1 + sp.exp(-alpha * x)))  # swish
    for how, point in (("taylor", "1e-3"), ("asymptotic", "4e4")):
        expansion = getattr(phi, how)("mean", 2)
        bound = getattr(mf.Activation(phi.expression.subs(alpha, sp.Rational(3, 2))), how)("mean", 2)
        assert abs(number(expansion.expression, q=point, alpha="1.5") - number(bound.expression, q=point)) < mp.mpf("1e-25")
        assert alpha in expansion.expression.free_symbols
    two = mf.Activation(sp.tanh(x) + alpha * sp.atan(x)).taylor("second_moment", 2)
    assert sp.expand(two.expression - ((1 + alpha) ** 2 * q - 2 * (1 + alpha) ** 2 * q**2)) == 0


def test_nodes_of_any_kind_expand() -> None:
    node = mf.E(x**2 * sp.tanh(x) ** 2, q)
    assert [c for c, _ in node.taylor(3).terms] == [3, -10]
    sigma = sp.Symbol("sigma_w", positive=True)
    wide = mf.E(sp.tanh(x) ** 2, sigma**2 * q).asymptotic(2)
    assert sp.simplify(wide.expression - (1 - sp.sqrt(2 / sp.pi) / (sigma * sp.sqrt(q)))) == 0
    about = mf.E(sp.tanh(x), q, mean=sp.Rational(1, 2)).taylor(2)
    t = sp.tanh(sp.Rational(1, 2))
    assert abs(number(about.terms[1][0] - t * (t**2 - 1))) < mp.mpf("1e-28")
    shifted = mf.E(sp.tanh(x), q, mean=1).asymptotic(1)
    assert abs(number(shifted.expression, q=10**6) - number(sp.sqrt(2 / sp.pi / q), q=10**6)) < 1e-12


# ---------------------------------------------------------------------------------------------------------------------------------
# two variables


@pytest.mark.parametrize("name", ["tanh", "silu", "softsign", "tanh*relu", "elu"])
def test_kernels_expand_at_small_variances(name: str) -> None:
    if name == "elu":
        f = (lambda m, x: x, lambda m, x: m.exp(x) - 1)
        act = mf.Activation(FUNCTIONS["elu"][0])
    else:
        f, act = ACTIVATIONS[name].f, ACTIVATIONS[name].activation
    expansion = act.taylor("kernel", 2)
    errors = []
    variances = (0.02, 0.005)
    for v in variances:
        truth = pair_moments(f, v, 0.6 * v).product
        errors.append(abs(float(number(expansion.expression, q=v, p=0.4 * v)) - truth))
    declared = sp.degree(expansion.remainder.subs(q, q**2), q) / 2
    assert abs(math.log(errors[0] / errors[1]) / math.log(4) - declared) < 0.25, (errors, declared)


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "silu", "tanh*relu"])
def test_kernels_expand_at_large_variances(name: str) -> None:
    act = ACTIVATIONS[name].activation
    expansion = act.asymptotic("kernel", 2)
    errors, bounds = [], []
    for v in (400.0, 3600.0):
        truth = pair_moments(ACTIVATIONS[name].f, v, 0.7 * v).product
        errors.append(abs(float(number(expansion.expression, q=v, p=sp.Rational(3, 10) * sp.Rational(v))) - truth))
        bounds.append(float(number(expansion.remainder, q=v)))
    assert abs(math.log(errors[0] / errors[1]) / math.log(bounds[0] / bounds[1]) - 1) < 0.1, (errors, bounds)


def test_unequal_variances() -> None:
    """the kernel of erf and of its derivative against Williams 1997, the first correction included"""
    node = mf.E(sp.erf(x) * sp.erf(y), q1, p, q2)
    slope = mf.E(sp.exp(-(x**2)) * sp.exp(-(y**2)), q1, p, q2)
    small = node.taylor(3)

    def error(e: sp.Expr, truth: Callable[..., mp.mpf], factor: mp.mpf, law: tuple[Any, ...]) -> mp.mpf:
        with mp.workdps(30):
            return abs(number(e, q1=law[0], p=law[1], q2=law[2]) - factor * truth(mp.mpf(1), *(mp.mpf(str(v)) for v in law)))

    for expansion, truth, factor, laws in (
        (node.asymptotic(2), erf_kernel, mp.mpf(1), ((300, 100, 700), (3000, 1000, 7000))),
        (slope.asymptotic(2), erf_slope, mp.pi / 4, ((300, 100, 700), (3000, 1000, 7000))),
        (small, erf_kernel, mp.mpf(1), (("0.003", "0.001", "0.007"), ("0.0003", "0.0001", "0.0007"))),
    ):
        errors = [error(expansion.expression, truth, factor, law) for law in laws]
        bounds = [number(expansion.remainder, q1=law[0], q2=law[2]) for law in laws]
        assert abs(mp.log(errors[1] / errors[0]) / mp.log(bounds[1] / bounds[0]) - 1) < 0.03, (errors, bounds)


def test_kernel_of_two_functions() -> None:
    """E tanh(u) atan(v) is no square; trapezoid in both variables"""
    expansion = mf.E(sp.tanh(x) * sp.atan(y), q1, p, q2).taylor(3)
    assert expansion.terms[0] == (p, 1)
    z = np.linspace(-9, 9, 1201)
    w = np.exp(-z * z / 2) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    errors = []
    for s in (0.02, 0.01):
        a, b, c = s, 0.3 * s, 0.5 * s
        u = math.sqrt(a) * z[:, None]
        v = b / a * u + math.sqrt(c - b * b / a) * z[None, :]
        truth = float(w @ (np.tanh(u) * np.arctan(v)) @ w)
        errors.append(abs(float(number(expansion.expression, q1=a, p=b, q2=c)) - truth))
    assert abs(math.log2(errors[0] / errors[1]) - 4) < 0.3


def test_saturated_kernels_lead_with_the_arcsine() -> None:
    """any odd function with limits +-c: c^2 (2/pi) asin(rho); any integrable slope: its mass squared over 2 pi sqrt(q1 q2 - p^2)"""
    gudermannian = sp.atan(sp.sinh(x))  # an inverse that is exponentially small
    for f, c in ((sp.atan(3 * x), sp.pi / 2), (x / sp.sqrt(1 + x**2), 1), (sp.tanh(x) + sp.erf(x), 2), (gudermannian, sp.pi / 2)):
        leading, degree = mf.Activation(f).asymptotic("kernel", 1).terms[0]
        assert degree == 0
        assert sp.simplify(leading - c**2 * 2 / sp.pi * sp.asin(p / q)) == 0
        leading, degree = mf.Activation(f).derivative.asymptotic("kernel", 1).terms[0]
        assert degree == -1
        assert abs(number(leading, q=2, p=1) - number(2 * c**2 / (sp.pi * sp.sqrt(3)))) < mp.mpf("1e-25")


# ---------------------------------------------------------------------------------------------------------------------------------
# constants


@pytest.mark.parametrize(
    ("g", "n", "value"),
    [
        (sp.tanh(x) ** 2, 0, -1),
        (1 / (1 + x), 0, 0),
        (1 / (1 + x), 1, 0),
        (sp.sqrt(x**2 + 4), 0, sp.Rational(1, 1)),
        (sp.log(1 + x**2), 0, sp.pi),
        (x**2 / (1 + x**2), 2, sp.pi / 2),
        (sp.exp(-3 * x), 4, sp.Rational(24, 243)),
        (sp.log(1 + sp.exp(-2 * x)), 2, sp.Rational(7, 8) * sp.pi**4 / 90 / 4),
        (sp.Min(x, 1), 1, sp.Rational(1, 3) - sp.Rational(1, 2)),
        (x**2 / sp.sqrt(x**4 + 1), 0, sp.gamma(sp.Rational(-1, 4)) * sp.gamma(sp.Rational(3, 4)) / (4 * sp.sqrt(sp.pi))),
        (x / sp.sqrt(2 * x**4 + 3), 0, sp.log(sp.Rational(8, 3)) / (4 * sp.sqrt(2))),
        ((x**3 + 2) ** sp.Rational(-1, 3), 0, sp.log(3) / 2 - sp.log(2) / 3 + sp.sqrt(3) * sp.pi / 18),
    ],
)
def test_finite_parts(g: sp.Expr, n: int, value: sp.Expr) -> None:
    """a rule, the integral itself at two precisions, and the value by hand"""
    closed = finite_part(g, n)
    assert not closed.has(FinitePart)
    for digits in (20, 45):
        assert abs(number(closed, digits) - number(sp.sympify(value), digits)) < mp.mpf(10) ** (3 - digits)
        node = number(FinitePart(g, n), digits)
        assert abs(node - number(sp.sympify(value), digits)) < mp.mpf(10) ** (3 - digits)


def test_open_constants_evaluate() -> None:
    """int_0^oo (tanh(t^2 + t) - 1) dt, and the finite part of int atan^2, by other means"""
    g = sp.tanh(x**2 + x)
    node = finite_part(g, 0)
    assert isinstance(node, FinitePart)
    with mp.workdps(40):
        truth = mp.quad(lambda t: mp.tanh(t * t + t) - 1, [0, 1, 2, 4, 8, 16])
        assert abs(number(node, 36) - truth) < mp.mpf("1e-34")
        # by parts [t atan^2] = t pi^2/4 - pi + ..., and int 2 t atan/(1 + t^2) = pi log R - pi log 2 + ... with t = cot(w)
        assert abs(number(FinitePart(sp.atan(x) ** 2, 0), 36) - mp.pi * (mp.log(2) - 1)) < mp.mpf("1e-33")


def test_moments_of_gaussians_over_half_a_line() -> None:
    found = finite_part((x**3 - x + 2) * sp.exp(-alpha * x**2) + x**2, 1)
    with mp.workdps(30):
        truth = mp.quad(lambda t: t * (t**3 - t + 2) * mp.exp(-3 * t**2), [0, 1, 3, 9])
        assert abs(number(found.subs(alpha, 3), 25) - truth) < mp.mpf("1e-22")
    assert str(sp.latex(FinitePart(sp.tanh(x) ** 3, 0) ** 2)).endswith(r"dt\right)^{2}")


def test_series_of_expressions() -> None:
    assert at_zero(sp.tanh(alpha * x), 4) == {1: alpha, 3: -(alpha**3) / 3}
    assert at_infinity(squareplus_ := (sp.sqrt(x**2 + 4) - x) / 2, 4) == {-1: 1, -3: -1}
    assert at_infinity(sp.log(sigmoid.subs(x, -x)), 3) == {1: -1}
    assert at_infinity(sp.log((1 - sp.tanh(x)) / 2), 3) == {1: -2}  # an exponentially small argument
    assert at_infinity((sp.exp(x) + 1) ** 2 / (sp.exp(2 * x) + 1), 3) == {0: 1}
    with pytest.raises(NoExpansion):
        at_infinity(((sp.exp(x) + 1) ** 2 - sp.exp(2 * x)) * (1 - sp.tanh(x)) ** sp.Rational(1, 3), 3)
    assert squareplus_.has(sp.sqrt(x**2 + 4))


# ---------------------------------------------------------------------------------------------------------------------------------
# refusals


@pytest.mark.parametrize(
    ("f", "how", "reason"),
    [
        (sp.sqrt(sp.Abs(x)), "taylor", r"no Taylor expansion at 0: it contains sqrt\(x\)"),
        (sp.log(sp.Abs(x)), "taylor", r"no Taylor expansion at 0: it contains log\(x\)"),
        (sp.sinh(x) / x, "asymptotic", "grows exponentially"),
        (sp.exp(x), "asymptotic", "grows exponentially"),
        (sp.cos(x) ** 2, "asymptotic", "oscillates"),
        (x + sp.sin(x) ** 2, "asymptotic", "oscillates"),
    ],
)
def test_what_has_no_expansion_is_refused(f: sp.Expr, how: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        getattr(mf.Activation(f), how)("mean")


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="moment = 'variance'"):
        mf.tanh.taylor("variance")
    with pytest.raises(ValueError, match="order = -1"):
        mf.tanh.taylor("mean", -1)
    with pytest.raises(TypeError, match=r"terms = 2\.5"):
        mf.tanh.asymptotic("second_moment", 2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="terms = 0"):
        mf.tanh.asymptotic("second_moment", 0)
    with pytest.raises(ValueError, match="the variance 2 is a number"):
        mf.E(sp.tanh(x) ** 2, 2).taylor()
    with pytest.raises(ValueError, match="contains a delta"):
        mf.activations["step"].derivative.taylor("mean")
    with pytest.raises(ValueError, match="no product"):
        mf.E(sp.tanh(x * y), q, p).taylor()
    with pytest.raises(TypeError, match="expand the second moment"):
        mf.tanh.gap(q, mf.delta).taylor()
    with pytest.raises(ValueError, match="which is no power"):
        mf.Activation(x * sp.asinh(x)).asymptotic("kernel")
    with pytest.raises(TypeError, match="n = True"):
        mf.tanh.hermite(True, q)
    with pytest.raises(ValueError, match="q = -1"):
        mf.tanh.hermite(2, -1)


def test_roots_of_quartics_have_closed_constants() -> None:
    """x/(1 + x^4)^(1/4) and its derivative: no open integral is left to read"""
    phi, wide = mf.Activation(x / (1 + x**4) ** sp.Rational(1, 4)), 10**6
    panels = [0, 1, 4, 20, 100, 500, 2000, 5000, 12000]
    for own, power, root in ((phi, 2, mp.mpf(1) / 2), (phi.derivative, 0, mp.mpf(5) / 2)):
        moment = own.asymptotic("second_moment", 4).expression
        assert not moment.has(FinitePart)
        truth = 2 * mp.quad(lambda t, k=power, s=root: t**k / (1 + t**4) ** s * mp.npdf(t, 0, mp.sqrt(wide)), panels)
        assert abs(number(moment, q=wide) - truth) < mp.mpf("1e-17")


def test_expansions_at_a_mean() -> None:
    """of the function with its argument moved, and refused at a mean that moves with the variance"""
    m = sp.Symbol("m", real=True)
    moved = mf.Activation(sp.tanh(x + 1))
    for how, order in (("taylor", 3), ("asymptotic", 2)):
        for moment in ("mean", "second_moment", "kernel"):
            found, plain = getattr(mf.tanh, how)(moment, order, mean=m), getattr(moved, how)(moment, order)
            assert abs(number(found.expression, m=1, q="0.7", p="0.3") - number(plain.expression, q="0.7", p="0.3")) < mp.mpf("1e-12")
        with pytest.raises(ValueError, match="does not depend on the variances"):
            getattr(mf.tanh, how)("mean", order, mean=2 * q)


def test_expansions_show_themselves() -> None:
    expansion = mf.tanh.asymptotic("second_moment", 2)
    assert repr(expansion) == "Expansion(E(tanh(x)**2, q) = 1 - sqrt(2)/(sqrt(pi)*sqrt(q)) + O(q**(-3/2)), q -> oo)"
    assert r"\to \infty" in expansion.latex()
    assert expansion._repr_latex_().startswith("$")
    open_constant = moment("softplus", 2, "asymptotic", 2)
    assert r"\mathrm{f.p.}" in open_constant.latex()
    assert "FinitePart" in repr(open_constant)
    assert expansion.terms[0] == (1, 0)


def test_constants_beside_a_logarithm_are_told_from_zero_by_few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """x tanh(x)/(1 + x^2): of integrals that have no closed form more than 30 digits take seconds, and none of these is asked for"""
    asked: list[int] = []
    numeric = FinitePart._eval_evalf

    def counted(part: FinitePart, prec: int) -> sp.Expr | None:
        asked.append(prec)
        return numeric(part, prec)

    monkeypatch.setattr(FinitePart, "_eval_evalf", counted)
    expansion = mf.Activation(x * sp.tanh(x) / (1 + x**2)).asymptotic("mean", 2)
    assert [e for _, e in expansion.terms] == [-sp.Rational(1, 2), -sp.Rational(3, 2)]
    assert expansion.terms[0][0].has(FinitePart)
    assert 0 < max(asked) < 110


# ---------------------------------------------------------------------------------------------------------------------------------
# Hermite coefficients


@pytest.mark.parametrize("name", ["tanh", "silu", "softsign", "elu", "atan"])
def test_hermite_coefficients_are_projections(name: str) -> None:
    f, typed = FUNCTIONS[name]
    v = mp.mpf(3) / 2
    for n in (0, 1, 2, 3, 5):
        found = number(mf.Activation(f).hermite(n, q), 25, q="1.5")
        with mp.workdps(30):
            he = sp.lambdify(x, sp.hermite_prob(n, x), "mpmath")
            value = mp.quad(lambda z: typed(mp.sqrt(v) * z) * he(z) * mp.npdf(z), [-14, -8, -4, -2, -1, 0, 1, 2, 4, 8, 14])  # noqa: B023
            assert abs(found - value / mp.sqrt(mp.factorial(n))) < mp.mpf("1e-22"), n


@pytest.mark.parametrize(("name", "n"), [("silu", 6), ("softplus", 10), ("atan", 9)])
def test_high_hermite_coefficients_at_small_and_large_variances(name: str, n: int) -> None:
    """in float64: next to 0 relative to themselves, at large variances, where terms of the derivative cancel, relative to phi"""
    f, typed = FUNCTIONS[name]
    for v in (0.02, 0.9, 40.0):
        found = mf.evaluate(mf.Activation(f).hermite(n, q), q=v)
        with mp.workdps(40):
            he = sp.lambdify(x, sp.hermite_prob(n, x), "mpmath")
            nodes = [mp.mpf(k) / 48 for k in range(-624, 625)]  # the trapezoidal rule, its error e^(-2 pi d 48/sqrt(v)) for poles at d
            truth = mp.fsum(typed(mp.sqrt(v) * z) * he(z) * mp.npdf(z) for z in nodes) / 48 / mp.sqrt(mp.factorial(n))
            assert abs(found - truth) < 1e-12 * (abs(truth) if v < 0.1 else 1), (v, found, truth)


@pytest.mark.parametrize(("name", "n"), [("silu", 16), ("softplus", 14), ("tanh-GELU", 8), ("softsign", 7)])
def test_hermite_coefficients_by_the_polynomial_are_right_relative_to_themselves(name: str, n: int) -> None:
    """where no derivative is at hand: f(u) He_n(u/s) cancels to s^n, 1e-65 of its terms, and says so with a bound"""
    f, typed = FUNCTIONS[name]
    for v in (1e-8, 1e-3, 0.3):
        found, bound = mf.evaluate(mf.Activation(f).hermite(n, q), q=v, error=True)
        with mp.workdps(120):
            he, s = sp.lambdify(x, sp.hermite_prob(n, x), "mpmath"), mp.sqrt(v)
            if name == "softsign":  # odd, with a kink at 0
                value = 2 * mp.quad(lambda z: typed(s * z) * he(z) * mp.npdf(z), [0, 1, 2, 4, 8, 16, 24])  # noqa: B023
            else:
                value = mp.fsum(typed(s * k / 16) * he(mp.mpf(k) / 16) * mp.npdf(mp.mpf(k) / 16) for k in range(-400, 401)) / 16
            truth = value / mp.sqrt(mp.factorial(n))
        assert abs(found - truth) < 1e-12 * abs(truth), (v, found, truth)
        assert abs(found - truth) <= bound + 1e-15 * abs(truth)


def test_a_series_whose_first_terms_are_faint_beside_its_last_keeps_them() -> None:
    """sigma(x) x^2 (1 + 10^56 x^16): on a circle of radius 1 the first terms are 1e-56 of the largest, at q = 1e-8 they are as large"""
    f = x**2 * (1 + sp.Integer(10) ** 56 * x**16) * sigmoid
    for v in (1e-9, 1e-8, 1e-7):
        truth = v / 2 * (1 + 1e56 * sp.factorial2(17) * v**8)
        assert abs(mf.evaluate(mf.E(f, q), q=v) - truth) < 1e-13 * truth


@pytest.mark.parametrize(("phi", "n"), [(mf.silu, 5), (mf.softplus, 9), (mf.sigmoid, 14), (mf.bentid, 3)], ids=repr)
def test_hermite_coefficients_of_a_polynomial_part_are_zero(phi: mf.Activation, n: int) -> None:
    """beside a line, or a constant, these are even or odd"""
    assert phi.hermite(n, q) == 0


def test_hermite_coefficients_sum_to_the_kernel() -> None:
    """Mehler: sum a_n^2 rho^n = C; relu by its closed forms, gelu too"""
    for phi in (mf.relu, mf.gelu):
        total = sum(number(phi.hermite(n, q), q=2) ** 2 * mp.mpf("0.25") ** n for n in range(16))
        assert abs(total - number(phi.kernel(q, p), q=2, p="0.5")) < mp.mpf("1e-10")
        assert phi.hermite(7, q) == 0


# ---------------------------------------------------------------------------------------------------------------------------------
# identities


def stated(name: str) -> set[tuple[sp.Expr, sp.Expr]]:
    return {i.statement.args for i in mf.Activation(FUNCTIONS[name][0]).identities()}


def test_identities_that_must_be_found() -> None:
    f = FUNCTIONS["sigmoid"][0]
    assert (mf.E(f, q), sp.Rational(1, 2)) in stated("sigmoid")
    assert (mf.E(f**2, q), mf.E(f, q) - mf.E(x * f, q) / q) in stated("sigmoid")  # sigma' = sigma - sigma^2, and Stein
    assert (mf.E(sp.tanh(x) ** 2, q), 1 - mf.E(x * sp.tanh(x), q) / q) in stated("tanh")
    assert (mf.E(x * f, q), q * mf.E(f.diff(x), q)) in stated("silu")  # E swish = q E sigma'
    for name in ("silu", "softplus", "squareplus", "tanh-GELU"):  # f(x) - f(-x) = x
        g = FUNCTIONS[name][0]
        assert (mf.E(x * g, q), q / 2) in stated(name)
        assert (mf.E(g.diff(x), q), sp.Rational(1, 2)) in stated(name)
    g = FUNCTIONS["squareplus"][0]
    assert (mf.E(g**2, q), 1 + q / 2) in stated("squareplus")
    assert (mf.E(sp.atan(x), q), sp.Integer(0)) in stated("atan")
    assert not any(right == q / 2 for _, right in stated("mish"))  # whose f(x) - f(-x) is not x


def test_identities_of_a_function_never_seen() -> None:
    """f = x + 1/2 - 2/(1 + e^(3x)): f(x) + f(-x) = -1, and a Riccati equation of its own"""
    f = sp.Rational(1, 2) - 2 / (1 + sp.exp(3 * x))
    found = mf.Activation(f).identities()
    assert {i.rule for i in found} >= {"even part", "relation", "Stein", "heat"}
    assert found[0].statement.rhs == -sp.Rational(1, 2)
    assert all(i.holds for i in found if i.rule != "heat")


@pytest.mark.parametrize("name", ["tanh", "silu", "softplus", "squareplus", "log-sigmoid"])
def test_identities_hold(name: str) -> None:
    found = mf.Activation(FUNCTIONS[name][0]).identities()
    assert len(found) >= 4
    for identity in found:
        assert identity.holds, (identity, identity.residual)
        assert identity.reason
        assert "=" in identity.latex()


def test_a_wrong_identity_does_not_hold() -> None:
    wrong = Identity(sp.Eq(mf.E(sp.tanh(x) ** 2, q), 1 - mf.E(x * sp.tanh(x), q) / q + sp.Rational(1, 10**25), evaluate=False), "relation")
    assert not wrong.holds
    assert 1e-26 < wrong.residual < 1e-24
    slope = Identity(sp.Eq(sp.Derivative(mf.E(sp.tanh(x) ** 2, q), q), mf.E(x * sp.tanh(x), q) / q, evaluate=False), "heat")
    assert not slope.holds


# ---------------------------------------------------------------------------------------------------------------------------------
# the nodes themselves

OPEN = ("tanh", "sigmoid", "silu", "softplus", "mish", "squareplus", "atan", "softsign", "log-sigmoid")


@pytest.mark.parametrize("name", OPEN)
def test_open_nodes_evaluate_differentiate_and_print(name: str) -> None:
    phi = mf.Activation(FUNCTIONS[name][0])
    second = phi.second_moment(q)
    assert abs(number(second, 40, q="1.4") - reference(name, 2, "1.4", 40)) < mp.mpf("1e-38")
    h = mp.mpf("1e-8")
    slope = (reference(name, 2, "1.40000001", 40) - reference(name, 2, "1.39999999", 40)) / (2 * h)
    assert abs(number(second.diff(q), 20, q="1.4") - slope) < 1e-14
    assert str(phi.kernel(q, p)).startswith("E(")
    assert (r"\mathbb{E}" in sp.latex(second)) == (name != "squareplus")  # whose E phi^2 closes by symmetry
    kernel = phi.kernel(q, p)
    (node,) = kernel.diff(p).atoms(PairExpectation)  # Price: E f'(u) f'(v)
    f = FUNCTIONS[name][0].diff(x)
    for a, b in ((sp.Rational(1, 3), sp.Rational(-7, 5)), (sp.Integer(2), sp.Rational(1, 9))):
        found = kernel.diff(p) / node * node.integrand.xreplace({x: a, y: b})
        assert abs(sp.N(found - f.xreplace({x: a}) * f.xreplace({x: b}), 20)) < 1e-18


@pytest.mark.parametrize(
    ("f", "n", "value"),
    [
        (2 * sp.atan(x) ** 2, 0, 2 * sp.pi * (sp.log(2) - 1)),
        (sp.atan(2 * x) ** 3, 1, sp.pi**3 / 64 + 9 * sp.pi / 16),
        (sp.tanh(x - 1) - sp.tanh(x + 1), 2, -(sp.pi**2) / 6 - sp.Rational(2, 3)),
    ],
)
def test_finite_parts_close_and_are_their_integrals(f: sp.Expr, n: int, value: sp.Expr) -> None:
    found = finite_part(f, n)
    assert sp.expand(found - value) == 0
    assert abs(sp.N(FinitePart(f, n), 8) - sp.N(found, 12)) < 1e-7


@pytest.mark.parametrize(
    ("f", "value", "edge", "near"),
    [
        (sp.Max(sp.tanh(x), x / 3), lambda u: max(mp.tanh(u), u / 3), lambda u: mp.tanh(u) - u / 3, (-2.98, 2.98)),
        (sp.Min(sp.exp(-(x**2)), x / 3), lambda u: min(mp.exp(-(u**2)), u / 3), lambda u: mp.exp(-(u**2)) - u / 3, (0.89,)),
        (sp.Abs(sp.tanh(x) - x / 2), lambda u: abs(mp.tanh(u) - u / 2), lambda u: mp.tanh(u) - u / 2, (-1.92, 1.92)),
    ],
    ids=["max", "min", "abs"],
)
def test_a_choice_that_is_settled_far_out_has_an_expansion(f: sp.Expr, value: Real, edge: Real, near: tuple[float, ...]) -> None:
    """where it changes has no closed form: the error falls as the remainder says"""
    found, errors = mf.Activation(f).asymptotic("mean", 3), []
    with mp.workdps(25):
        dyadic = [mp.mpf(2) ** k for k in range(-2, 11)]
        ends = sorted([0, *dyadic, *(-k for k in dyadic), *(mp.findroot(edge, k) for k in near)])
        for s in (20, 80):
            truth = mp.quad(lambda u, s=s: value(u) * mp.npdf(u, 0, s), ends)
            errors.append(abs(truth - mp.mpf(sp.N(found.expression.subs(q, s**2), 25))))
    power = -found.remainder.diff(q).subs(q, 1)
    assert math.log(errors[0] / errors[1], 16) == pytest.approx(float(power), abs=0.1)


@pytest.mark.parametrize("f", [sp.asinh(x), sp.log(1 + x**2)])
def test_kernels_of_logarithms_are_met_as_the_root_of_the_variance(f: sp.Expr) -> None:
    node = mf.E(f * f.xreplace({x: y}), q, p)
    expansion, errors = node.asymptotic(1), []
    for size in (10**4, 10**8):
        at = {q: size, p: sp.Rational(3, 10) * size}
        errors.append(abs(sp.N(node.xreplace(at), 10) - sp.N(expansion.expression.xreplace(at), 15)))
    assert errors[1] < errors[0] / 20 < 0.1


@pytest.mark.parametrize(("a", "m", "n"), [(0, 1, 1), (0, 2, 1), (0, 2, 2), (1, 1, 0), (1, 1, 1), (1, 2, 1)])
def test_moments_of_logarithms_leave_correlation_one_as_their_series_says(a: int, m: int, n: int) -> None:
    def moment(r: mp.mpf) -> mp.mpf:
        def of(s: mp.mpf, t: mp.mpf) -> mp.mpf:
            scale = 2 ** ((s + t) / 2) / mp.pi
            if a:
                return 2 * r * scale * mp.gamma(1 + s / 2) * mp.gamma(1 + t / 2) * mp.hyp2f1((1 - s) / 2, (1 - t) / 2, 1.5, r * r)
            return scale * mp.gamma((1 + s) / 2) * mp.gamma((1 + t) / 2) * mp.hyp2f1(-s / 2, -t / 2, 0.5, r * r)

        return mp.diff(of, (0, 0), (m, n))

    first, second = (sp.sign(x) ** a * sp.log(sp.Abs(x)) ** k for k in (m, n))
    d, errors = sp.Symbol("d", positive=True), []
    near = near_one(first, second, d)
    assert near is not None
    with mp.workdps(30):
        for power in (4, 8):
            value = mp.mpf(str(sp.N(near.subs(d, sp.Rational(1, 10**power)), 30)))
            errors.append(abs(moment(1 - mp.mpf(10) ** -power) - value) * mp.mpf(10) ** power)
    assert errors[1] < 3 * errors[0] + 1  # what is left out is O(d)
