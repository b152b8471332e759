r"""Any number of digits: against rigorous integrals (python-flint), the literature's kernels in mpmath, and each other."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache

import flint
import mpmath as mp
import pytest
import sympy as sp
from cases import ACTIVATIONS, CLOSED, QUADRATURE, Phi, as_mpf, certified_mean

import meanfield as mf
from meanfield.gaussian import arithmetic
from meanfield.gaussian.closed_digits import settled
from meanfield.gaussian.precise import gap_of_pair, law_of, product_mean_of

R, x = sp.Rational, mf.x
every = pytest.mark.parametrize("phi", QUADRATURE, ids=repr)


@pytest.fixture(params=["flint", "mpmath"])
def numbers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """with python-flint, and as if it were not installed"""
    if request.param == "mpmath":
        monkeypatch.setattr(arithmetic, "_flint", lambda: None)
    assert type(arithmetic.numbers_for(x)).__name__.lower().startswith(request.param)
    return str(request.param)


def test_flint_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    """an import that fails leaves mpmath"""
    monkeypatch.setitem(__import__("sys").modules, "flint", None)
    monkeypatch.setattr(arithmetic, "_flint", arithmetic._flint.__wrapped__)
    assert isinstance(arithmetic.numbers_for(x), arithmetic.MpmathNumbers)


def assert_digits(value: mp.mpf, truth: mp.mpf, digits: int) -> None:
    with mp.workdps(digits + 20):
        assert abs(value - truth) <= mp.mpf("1.1") * mp.mpf(10) ** -digits * abs(truth), (value, truth)


# -- one variable ------------------------------------------------------------------------------------------------------------------------

Analytic = Callable[[flint.acb, bool], flint.acb]


def _log(z: flint.acb, analytic: bool) -> flint.acb:
    return z.log(analytic=analytic)


def _sqrt(z: flint.acb, analytic: bool) -> flint.acb:
    return z.sqrt(analytic=analytic)


def _gelu_tanh(z: flint.acb, _: bool) -> flint.acb:
    return z * (1 + ((2 / flint.acb.pi()).sqrt() * (z + flint.acb(44715) / 10**6 * z**3)).tanh()) / 2


def _mish(z: flint.acb, _: bool) -> flint.acb:
    e = z.exp()
    return z * (e * e + 2 * e) / (e * e + 2 * e + 2)


#: name -> (expression, the same typed as analytic pieces between the kinks, kinks as balls)
LINES: dict[str, tuple[sp.Expr, Analytic, Analytic, Callable[[], flint.arb]]] = {}


def _line(
    name: str, f: sp.Expr, left: Analytic, right: Analytic | None = None, cut: Callable[[], flint.arb] = lambda: flint.arb(0)
) -> None:
    LINES[name] = f, left, right or left, cut


_line("tanh", sp.tanh(x), lambda z, _: z.tanh())
_line("sigmoid", 1 / (1 + sp.exp(-x)), lambda z, _: (1 + (z / 2).tanh()) / 2)
_line("silu", x / (1 + sp.exp(-x)), lambda z, _: z * (1 + (z / 2).tanh()) / 2)
_line("softplus", sp.log(1 + sp.exp(x)), lambda z, a: _log(1 + z.exp(), a))
_line("mish", x * sp.tanh(sp.log(1 + sp.exp(x))), _mish)
_line("gelu_tanh", x * (1 + sp.tanh(sp.sqrt(2 / sp.pi) * (x + R("0.044715") * x**3))) / 2, _gelu_tanh)
_line("squareplus", (x + sp.sqrt(x**2 + 4)) ** 3, lambda z, a: (z + _sqrt(z * z + 4, a)) ** 3)
_line("atan", sp.atan(x), lambda z, a: (_log(1 + 1j * z, a) - _log(1 - 1j * z, a)) / 2j)
_line("softsign", x / (1 + sp.Abs(x)), lambda z, _: z / (1 - z), lambda z, _: z / (1 + z))
_line("asinh", sp.asinh(x), lambda z, a: -_log(_sqrt(1 + z * z, a) - z, a), lambda z, a: _log(_sqrt(1 + z * z, a) + z, a))
_line(
    "kink away from 0",
    sp.Max(x - sp.sqrt(2), 0) * sp.tanh(x),
    lambda z, _: 0 * z,
    lambda z, _: (z - flint.acb(2).sqrt()) * z.tanh(),
    lambda: flint.arb(2).sqrt(),
)
_line(
    "kink at a third",
    sp.Max(x - R(1, 3), 0) * sp.tanh(x),
    lambda z, _: 0 * z,
    lambda z, _: (z - flint.acb(1) / 3) * z.tanh(),
    lambda: flint.arb(1) / 3,
)
_line("transition away from 0", sp.tanh(10 * (x - 3)), lambda z, _: (10 * (z - 3)).tanh())
_line("sharp", sp.tanh(100 * x), lambda z, _: (100 * z).tanh())
_line("logarithm", sp.log(1 + x**2), lambda z, a: _log(1 + z * z, a))
_line("root", (1 + x**2) ** R(3, 4), lambda z, a: _sqrt(_sqrt(1 + z * z, a), a) ** 3)
_line("entire", x * sp.exp(-(x**4)), lambda z, _: z * (-(z**4)).exp())
_line("wave", sp.sin(x) * sp.tanh(x), lambda z, _: z.sin() * z.tanh())
_line("bump", sp.exp(-(10**6) * (x - 7) ** 2) / 10 + sp.tanh(x), lambda z, _: (-(10**6) * (z - 7) ** 2).exp() / 10 + z.tanh())
_line("peak", 1 / (1 + 10**8 * (x - R(3, 7)) ** 2), lambda z, _: 1 / (1 + 10**8 * (z - flint.acb(3) / 7) ** 2))


@cache
def enclosed(name: str, power: int, q: sp.Rational, mean: sp.Rational, digits: int) -> mp.mpf:
    """E f(u)^power, u ~ N(mean, q), rigorously up to e^-400 beyond 30 standard deviations"""
    _, left, right, cut = LINES[name]
    with flint.ctx.workdps(digits + 20):
        s, m = (flint.arb(q.p) / q.q).sqrt(), flint.arb(mean.p) / mean.q
        total, middle = flint.acb(0), (cut() - m) / s
        ends = sorted([flint.arb(-30), flint.arb(30), *([middle] if abs(middle) < 30 else [])], key=float)
        for low, high in itertools.pairwise(ends):
            piece = right if (low + high) / 2 > middle else left
            total += flint.acb.integral(
                lambda z, a, f=piece: f(m + s * z, a) ** power * (-z * z / 2).exp(), low, high, eval_limit=10**6, depth_limit=10**4
            )
        return as_mpf((total / (2 * flint.acb.pi()).sqrt()).real, digits + 2)


@pytest.mark.parametrize("name", LINES)
def test_one_variable(name: str, numbers: str) -> None:
    f = LINES[name][0]
    for q, mean, power, digits in ((R(3, 10), R(0), 2, 50), (R(40), R(3, 10), 1, 30), (R(1), R(-1), 2, 15)):
        assert_digits(mf.evaluate(mf.E(f**power, q, mean=mean), digits=digits), enclosed(name, power, q, mean, digits), digits)


@pytest.mark.parametrize("name", ["tanh", "silu", "gelu_tanh", "atan", "softsign", "sharp", "entire"])
@pytest.mark.parametrize("q", [R(1, 10**12), R(10) ** 12], ids=["1e-12", "1e12"])
def test_extreme_variances(name: str, q: sp.Rational) -> None:
    assert_digits(mf.evaluate(mf.E(LINES[name][0] ** 2, q), digits=30), enclosed(name, 2, q, R(0), 30), 30)


def test_a_hundred_digits() -> None:
    for name in ("silu", "logarithm"):
        assert_digits(mf.evaluate(mf.E(LINES[name][0] ** 2, 1), digits=100), enclosed(name, 2, R(1), R(0), 100), 100)


def test_values_that_cancel(numbers: str) -> None:
    """relative digits of a value far below E |f|: E silu = q E sigmoid' at q = 1e-12, and an odd function with a touch of even"""
    q = R(1, 10**12)
    small = mf.evaluate(mf.E(x / (1 + sp.exp(-x)), q), digits=30)
    slope = mf.evaluate(mf.E((1 / (1 + sp.exp(-x))).diff(x), q), digits=30)
    with mp.workdps(40):
        assert_digits(small, slope / mp.mpf(10) ** 12, 30)
    touched = mf.evaluate(mf.E(sp.tanh(x) + sp.tanh(x) ** 2 / 10**40, R(1)), digits=20)
    with mp.workdps(40):
        assert_digits(touched * mp.mpf(10) ** 40, enclosed("tanh", 2, R(1), R(0), 30), 20)


def test_zero_by_symmetry_is_zero() -> None:
    assert mf.evaluate(mf.E(1 / (1 + sp.exp(-x)) - R(1, 2), 3), digits=30) == 0
    assert mf.evaluate(mf.E(sp.tanh(x) * sp.cos(mf.y) * sp.atan(mf.y) ** 2, 3, 1), digits=30) == 0
    assert mf.evaluate(mf.E(sp.tanh(x) * sp.tanh(mf.y), 3, 0), digits=30) == 0
    half = sp.Max(x, 0) * sp.tanh(x)
    assert mf.evaluate(mf.E(half * half.xreplace({x: mf.y}), 3, -3), digits=30) == 0


@pytest.mark.parametrize("f", [1 / x**2, sp.tan(x) ** 2, sp.exp(x**2), 1 / (1 + x), sp.besselj(0, x)], ids=str)
def test_refusals(f: sp.Expr) -> None:
    """poles, divergence, functions without a rule: a sentence, not a number"""
    with pytest.raises((ArithmeticError, ValueError), match=r"E\[|diverges|finite|no real value"):
        mf.evaluate(mf.E(f, 1), digits=20)


# -- pairs -------------------------------------------------------------------------------------------------------------------------------

PAIRS = [phi for phi in CLOSED if phi.name in ("relu", "step", "erf(ax)", "gelu", "abs", "relu^2")]
CORRELATIONS = (R(-1), -1 + R(1, 10**30), R(-9, 10), R(1, 10**10), R(3, 10), 1 - R(1, 10**30), R(1))


def number(e: sp.Expr) -> mp.mpf:
    return mp.mpf(sp.N(e, mp.mp.dps)._mpf_)


def function_of(phi: Phi) -> sp.Expr:
    return phi.activation.expression.xreplace({s: R(3, 2) for s in phi.activation.expression.free_symbols - {x}})


def kernel_digits(phi: Phi, q1: sp.Rational, q2: sp.Rational, rho: sp.Rational) -> None:
    """the rules, which know nothing of closed forms, against the literature's formula"""
    p = rho * sp.sqrt(q1 * q2)
    value = product_mean_of(function_of(phi), function_of(phi), law_of(q1, p, q2, sp.S.Zero, sp.S.Zero), 100)
    with mp.workdps(250):
        truth = mp.re(phi.kernel(number(q1), number(p), number(q2)))
        if abs(truth) < mp.mpf("1e-110"):  # relu and step at correlation -1
            assert value == 0
        else:
            assert_digits(value, truth, 30)


@pytest.mark.parametrize("phi", PAIRS, ids=repr)
def test_kernels(phi: Phi) -> None:
    for rho in CORRELATIONS:
        kernel_digits(phi, R(1), R(1), rho)
    for rho in (R(-9, 10), R(3, 10), 1 - R(1, 10**30)):
        kernel_digits(phi, R(1, 10**12), R(1, 10**12), rho)
        kernel_digits(phi, R(10) ** 12, R(10) ** 12, rho)
        kernel_digits(phi, R(1, 2), R(3), rho)


def test_kernels_in_mpmath(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "_flint", lambda: None)
    for name, rho in (("erf(ax)", R(3, 10)), ("relu", R(-1, 2)), ("relu", 1 - R(1, 10**30))):
        kernel_digits(ACTIVATIONS[name], R(1), R(1), rho)


@pytest.mark.parametrize("phi", [phi for phi in PAIRS if phi.name != "relu^2"], ids=repr)
def test_gaps(phi: Phi) -> None:
    for q in (R(1), R(10) ** 12):
        for ratio in (R(2), 2 - R(1, 10**30), R(1, 2), R(1, 500), R(1, 10**30), R(1, 10**300)):
            value = gap_of_pair(function_of(phi), q, q * ratio, 100)
            with mp.workdps(700):
                v = number(q)
                truth = mp.re(phi.kernel(v, v, v)) - mp.re(phi.kernel(v, v - number(q * ratio), v))
            if phi.name == "abs" and ratio == 2:
                assert value == 0
            else:
                assert_digits(value, truth, 30)


def test_smooth_gaps_agree_with_their_limit(numbers: str) -> None:
    """gap/delta -> E phi'^2, off by a part of order delta/q"""
    for f in (sp.tanh(x), x / (1 + sp.exp(-x)), LINES["gelu_tanh"][0]):
        act = mf.Activation(f)
        gap = mf.evaluate(act.gap(mf.q, mf.delta), q=1, delta=R(1, 10**300), digits=30)
        slope = mf.evaluate(act.derivative.second_moment(mf.q), q=1, digits=30)
        with mp.workdps(40):
            assert_digits(gap * mp.mpf(10) ** 300, slope, 29)


@every
def test_two_ways_to_a_kernel(phi: Phi) -> None:
    """next to correlation 1 and away from it other rules are at work: kernel + gap is the second moment on both sides of the border"""
    f = phi.activation.expression
    for ratio in (R(2, 1000), R(1, 2), R(3, 2)):
        second = mf.evaluate(mf.E(f**2, 2), digits=25)
        product = mf.evaluate(mf.E(f * f.xreplace({x: mf.y}), 2, 2 - 2 * ratio), digits=25)
        gap = mf.evaluate(phi.activation.gap(mf.q, mf.delta), q=2, delta=2 * ratio, digits=25)
        with mp.workdps(40):
            assert_digits(product + gap, second, 24)


def test_the_two_rules_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    from meanfield.gaussian import conditional_covariance, precise

    for f in (sp.tanh(x), x / (1 + sp.Abs(x)), LINES["kink at a third"][0]):
        law = law_of(R(1), 1 - R(1, 50), R(1), sp.S.Zero, sp.S.Zero)
        away = product_mean_of(f, f, law, 60)
        with monkeypatch.context() as patch:
            patch.setattr(precise, "NEAR", 0.1)
            patch.setattr(conditional_covariance, "points_within", lambda *_: 10**9)  # zones, however many
            assert_digits(product_mean_of(f, f, law, 60), away, 18)


def test_means_and_two_functions() -> None:
    """E erf(u) |v| with means and unequal variances by the engine, against the rules"""
    f, g = sp.erf(x), sp.Abs(x)
    law = (R(2), R(1, 2), R(1), R(1, 3), R(-1, 5))
    closed = mf.gaussian.pair_expectation.PairExpectation(f * g.xreplace({x: mf.y}), *law)
    with mp.workdps(40):
        assert_digits(product_mean_of(f, g, law_of(*law), 70), mp.mpf(settled(closed.closed(), 90)._mpf_), 20)


def test_no_product() -> None:
    """E exp(-(u v)^2 / 50) = E (1 + v^2 / 25)^(-1/2) at covariance 0, and a function that must be nested"""
    value = mf.evaluate(mf.E(sp.exp(-((x * mf.y) ** 2) / 50), R(1, 4), 0), digits=15)
    assert_digits(value, mf.evaluate(mf.E(1 / sp.sqrt(1 + x**2 / 100), R(1, 4)), digits=20), 15)
    with pytest.raises(ArithmeticError, match="kinks along curves"):
        mf.evaluate(mf.E(sp.Abs(x - mf.y) * sp.tanh(x * mf.y), 1, 0), digits=15)


# -- closed forms ------------------------------------------------------------------------------------------------------------------------


def test_closed_forms_that_cancel() -> None:
    """ELU at q = 1e-12 and 1e4 against its rigorous integral, gaps of closed kernels at delta/q = 1e-300"""
    elu = sp.Piecewise((x, x > 0), (sp.exp(x) - 1, True))
    LINES.setdefault("elu", (elu, lambda z, _: z.exp() - 1, lambda z, _: z, lambda: flint.arb(0)))
    for q in (R(1, 10**12), R(10**4)):
        assert_digits(mf.evaluate(mf.Activation(elu).second_moment(mf.q), q=q, digits=30), enclosed("elu", 2, q, R(0), 30), 30)
    for name in ("gelu", "erf(ax)", "relu"):
        phi = ACTIVATIONS[name]
        gap = mf.Activation(function_of(phi)).gap(mf.q, mf.delta)
        value = mf.evaluate(gap, q=1, delta=R(1, 10**300), digits=30)
        with mp.workdps(700):
            truth = phi.kernel(mp.mpf(1), mp.mpf(1), mp.mpf(1)) - phi.kernel(mp.mpf(1), 1 - mp.mpf(10) ** -300, mp.mpf(1))
        assert_digits(value, truth, 30)


@pytest.mark.parametrize("digits", [None, 30])
def test_expectations_that_cancel_exactly(digits: int | None) -> None:
    """m E delta(u) + E (u - m) delta(u) = 0 at every variance, though it is no 0 to algebra that leaves the expectations as they are"""
    v, m = sp.Symbol("v", positive=True), sp.Symbol("m", real=True)
    shifted = mf.E(sp.DiracDelta(x), v, m), mf.E((x - m) * sp.DiracDelta(x), v, m)
    for variance, mean in ((1.0, 0.5), (300910.55, 2037.25)):
        assert mf.evaluate(m * shifted[0] + shifted[1], v=variance, m=mean, digits=digits) == 0


def test_a_quotient_of_zeros_says_so() -> None:
    """a closed form into which a value was put by hand no longer knows its moment, which at correlation 1 is its limit"""
    a = sp.Symbol("a", positive=True)
    kernel = mf.Activation(sp.Min(sp.Max(a * x, 0), 1)).kernel(mf.q, mf.p)
    assert mf.evaluate(kernel, a=0.75, q=0.3, p=0.3, digits=18) > 0
    with pytest.raises(ArithmeticError, match="quotient of zeros"):
        mf.evaluate(kernel.subs(a, R(3, 4)), q=0.3, p=0.3, digits=18)


def test_a_closed_form_that_loses_all_digits_leaves_it_to_its_integral() -> None:
    """exp(2q) (Phi(2 sqrt q) - Phi((2q - 1)/sqrt q)) at q = 1e12 has terms of 10^868588963806"""
    bounded = mf.Activation(sp.Piecewise((sp.exp(x), (x > 0) & (x < 1)), (0, True)))
    with mp.workdps(40):
        truth = mp.quad(lambda z: mp.exp(2 * z) * mp.npdf(z, 0, 10**6), [0, 1])
    assert_digits(mf.evaluate(bounded.second_moment(mf.q), q=1e12, digits=20), truth, 20)


def test_a_closed_zero_is_zero_by_algebra() -> None:
    assert settled(sp.sin(sp.exp(1)) ** 2 + sp.cos(sp.exp(1)) ** 2 - 1, 60) == 0
    for name in ("abs", "cos"):
        assert mf.evaluate(mf.activations[name].gap(mf.q, mf.delta), q=R(3, 7), delta=R(6, 7), digits=20) == 0
    almost = sp.pi - sp.Rational(str(sp.pi.evalf(200)))
    assert 0 < abs(settled(almost, 60)) < sp.Rational(1, 10**198)


# -- published values -------------------------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("q", ["0.000000000001", "0.3", "40", "1000000000000"])
def test_thirty_digits(phi: Phi, q: str) -> None:
    for act, pieces in ((phi.activation, phi.f), (phi.activation.derivative, phi.df)):
        truth = as_mpf(certified_mean(pieces, 2, q))
        found = mf.evaluate(act.second_moment(mf.q), q=sp.Rational(q), digits=30)
        with mp.workdps(40):
            assert abs(found - truth) <= mp.mpf("1.1e-30") * truth


#: at z ~ N(0, 1), 30 digits: E phi, E phi^2, E phi'^2; theory.md 0.1 with the last digits of gelu, tanh, erf and sigmoid corrected
MOMENTS = {
    "silu": ("0.206620964141907037262350828718", "0.355775519817352156230794292334", "0.379482351632829308996280484737"),
    "gelu": ("0.282094791773878143474039725780", "0.425221482570298674918554416385", "0.455850865649287122113628110736"),
    "relu": ("0.398942280401432677939946059934", "0.5", "0.5"),
    "relu_squared": ("0.5", "1.5", "2"),
    "tanh": ("0", "0.394294490397841174416459772444", "0.464402902448268241972021461116"),
    "erf": ("0", "0.464559054397539978509532408118", "0.569410034733741646781410141123"),
    "sin": ("0", "0.432332358381693654053000252514", "0.567667641618306345946999747486"),
    "sigmoid": ("0.5", "0.293379035858092962737649171282", "0.0448362413501943717925826582950"),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_published_moments(name: str) -> None:
    act = mf.activations[name]
    found = (act.mean(1), act.second_moment(1), act.derivative.second_moment(1))
    for moment, digits in zip(found, MOMENTS[name], strict=True):
        value = mp.mpf(moment.p) / moment.q if moment.is_Rational else mf.evaluate(moment, digits=32)
        with mp.workdps(35):
            assert abs(value - mp.mpf(digits)) < mp.mpf("6e-31"), digits


def test_stein_identities() -> None:
    """E x phi = q E phi', E swish = E sigmoid', E softplus'^2 = E sigmoid^2, E swish' = E gelu' = 1/2"""
    with mp.workdps(32):
        assert abs(mf.evaluate(mf.silu.mean(1), digits=30) - mf.evaluate(mf.sigmoid.derivative.mean(1), digits=30)) < mp.mpf("1e-29")
        softplus = mf.Activation(sp.log(1 + sp.exp(mf.x)))
        left, right = softplus.derivative.second_moment(1), mf.sigmoid.second_moment(1)
        assert abs(mf.evaluate(left, digits=30) - mf.evaluate(right, digits=30)) < mp.mpf("1e-29")
        for act in (mf.silu, mf.gelu, mf.relu):
            half = act.derivative.mean(1)
            value = mp.mpf(half.p) / half.q if half.is_Rational else mf.evaluate(half, digits=30)
            assert abs(value - mp.mpf(1) / 2) < mp.mpf("1e-29")


def test_digits_of_gaps_of_roots() -> None:
    """a difference of hypergeometric functions that cancels to 60 digits, against quadrature"""
    k = sp.Symbol("k", positive=True)
    gap = mf.Activation(sp.Max(mf.x, 0) ** k).gap(mf.q, mf.delta)
    for power, delta in ((0.3, 1e-60), (2.7, 1e-30)):
        precise = mf.evaluate(gap, q=2.0, delta=delta, k=power, digits=14)
        assert mf.evaluate(gap, q=2.0, delta=delta, k=power) == pytest.approx(float(precise), rel=1e-12)


def test_constants_that_stand_in_constants_reach_a_quadrature() -> None:
    """lambda_01 of SELU holds a normal CDF: at the largest variances it has a value, digits and no NameError"""
    lead = mf.evaluate(mf.selu.mean(mf.q), q=1e300) / mf.evaluate(mf.elu.mean(mf.q), q=1e300)
    assert lead == pytest.approx(1.05070098735548, rel=1e-12)
    with mp.workdps(15):
        lead = mf.evaluate(mf.selu.mean(mf.q), q=1e60, digits=12) / mf.evaluate(mf.elu.mean(mf.q), q=1e60, digits=12)
        assert abs(lead - mp.mpf("1.05070098735548")) < 1e-12


@pytest.mark.parametrize("digits", [20, 45])
def test_the_gap_of_a_power_has_as_many_digits_as_its_difference(digits: int) -> None:
    """its closed form is hypergeometric, and is no double on the way"""
    phi = mf.Activation(sp.Abs(x) ** R(3, 2))
    found = mf.evaluate(phi.gap(mf.q, mf.delta), digits=digits, q=1, delta=R(3, 10))
    assert_digits(found, mf.evaluate(phi.second_moment(mf.q) - phi.kernel(mf.q, mf.p), digits=digits + 5, q=1, p=R(7, 10)), digits)


def test_a_sum_of_products_has_as_many_digits_as_its_terms() -> None:
    whole = mf.E(sp.tanh(x) * sp.tanh(mf.y) + sp.tanh(x) ** 2, mf.q, mf.p)
    terms = mf.E(sp.tanh(x) * sp.tanh(mf.y), mf.q, mf.p) + mf.tanh.second_moment(mf.q)
    assert_digits(*(mf.evaluate(e, digits=40, q=1, p=R(1, 2)) for e in (whole, terms)), 40)


def test_means_that_are_exactly_zero_have_digits() -> None:
    """of one direction u + v each, odd, or of no variance: no number of bits of a 0 is asked for"""
    for f, p in ((sp.tanh(mf.x + mf.y), sp.Rational(1, 3)), (sp.sin(mf.x - mf.y), 1), (sp.tanh(mf.x + mf.y) + sp.atan(mf.x - mf.y), 0)):
        assert mf.E(f, 1, p)._integrate(80) == 0


def test_a_function_that_varies_everywhere_on_the_scale_of_a_difference_has_digits() -> None:
    """E f(u) f(v) by Gauss-Legendre on graded panels of v given u, in balls of 64 digits"""
    phi, q = mf.Activation(1 / (1 + sp.exp(20 - 10 * x))), R(1, 2)
    with mp.workdps(50):
        wanted = mp.mpf("4.43793663528159701081669808825133452380e-18")
    assert_digits(mf.evaluate(phi.kernel(mf.q, mf.p), q=q, p=-R(999, 1000) * q, digits=30), wanted, 30)


@pytest.mark.parametrize(
    ("e", "at"),
    [
        (mf.silu.kernel(mf.q, mf.p) - mf.silu.mean(mf.q) ** 2, {"p": 0}),
        (mf.tanh.kernel(mf.q, mf.p) - mf.tanh.second_moment(mf.q), {"p": 1}),
    ],
    ids=["independent", "equal"],
)
@pytest.mark.parametrize("digits", [None, 25])
def test_kernels_of_independent_and_of_equal_inputs_are_known_by_one(e: sp.Expr, at: dict[str, int], digits: int | None) -> None:
    assert mf.evaluate(e, q=1, digits=digits, **at) == 0


def test_sums_of_integrals_that_may_be_0_come_to_an_end() -> None:
    """Price's and Stein's theorems hold to a hundred digits beyond a double's; no number of them is a proof"""
    stein = mf.E(x * sp.tanh(x), mf.q) - mf.q * mf.E(1 - sp.tanh(x) ** 2, mf.q)
    heat = 2 * mf.silu.mean(mf.q).diff(mf.q) - mf.silu.derivative.derivative.mean(mf.q)
    for e in (stein, heat):
        value, bound = mf.evaluate(e, q=[1.0, 2.5], error=True)
        assert (value == 0).all()
        assert (bound < 1e-100).all()
        with pytest.raises(ArithmeticError, match="cannot be told from 0"):
            mf.evaluate(e, q=1, digits=20)
    assert mf.evaluate(stein + sp.Rational(1, 10**60), q=1, digits=20) == pytest.approx(1e-60, rel=1e-15)


@pytest.mark.parametrize(
    ("f", "power", "first", "second"),
    [
        (1 / (1 + sp.exp(-mf.x)) - sp.Rational(1, 2), 1, sp.Rational(1, 16), -sp.Rational(1, 32)),
        (sp.log(1 + sp.exp(mf.x)) - sp.log(2), 1, sp.Rational(1, 4), sp.Rational(3, 64)),
        (mf.x / (1 + sp.exp(-mf.x)) - mf.x / 2, 2, sp.Rational(3, 16), -sp.Rational(15, 96)),
    ],
    ids=["sigmoid - 1/2", "softplus - ln 2", "silu - x/2"],
)
def test_terms_that_cancel_next_to_0_are_given_the_digits_they_lose(f: sp.Expr, power: int, first: sp.Expr, second: sp.Expr) -> None:
    """E f(u)^2 = a v^k + b v^{k + 1} + ..., of terms near 1/2: 150 digits and more are lost at v = 1e-300"""
    for exponent in (12, 100, 300):
        v = sp.Rational(1, 10**exponent)
        found = mf.evaluate(mf.E(f**2, mf.q), q=v, digits=25)
        expected = first * v**power + second * v ** (power + 1)
        assert abs(sp.Rational(mp.nstr(found, 25)) / expected - 1) < sp.Rational(1, 10**20), exponent
    if power == 1:
        assert mf.evaluate(mf.E(f**2, mf.q), q=1e-300) == pytest.approx(float(first) * 1e-300, rel=1e-12)
