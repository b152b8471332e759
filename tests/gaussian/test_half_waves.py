"""Waves beside gates: the normal CDFs of complex arguments as real functions, and the moments that they close."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.half_waves import CosineNormalCDF, SineNormalCDF
from meanfield.gaussian.quadrant_waves import BivariateCosineCDF, BivariateSineCDF
from meanfield.gaussian.special import BivariateNormalCDF, NormalCDF
from meanfield.numeric import primitives

x, q, p = mf.x, mf.q, mf.p
a = sp.Symbol("a", positive=True)
m = sp.Symbol("m", real=True)
R = sp.Rational
RELU, HARD_TANH = sp.Max(x, 0), sp.Min(sp.Max(x, -1), 1)
ELU, GELU = sp.Piecewise((x, x > 0), (sp.exp(x) - 1, True)), x * (1 + sp.erf(x / sp.sqrt(2))) / 2

HALF, QUADRANT = (CosineNormalCDF, SineNormalCDF), (BivariateCosineCDF, BivariateSineCDF)

#: activations: a gate and a wave
FUNCTIONS = (
    sp.Heaviside(x, R(1, 2)) * sp.cos(x),
    RELU * sp.sin(a * x),
    HARD_TANH * sp.sin(x),
    ELU * sp.cos(x),
    sp.erf(x) * sp.cos(a * x),
    GELU * sp.sin(x),
    x**2 * sp.sin(x) * sp.exp(-(x**2) / 2) * sp.erf(x),
    RELU + sp.cos(x) * sp.erf(2 * x),
)


@pytest.mark.parametrize("head", HALF)
def test_a_half_wave_is_the_integral_of_the_wave_up_to_the_threshold(head) -> None:  # type: ignore[no-untyped-def]
    wave = mp.cos if head is CosineNormalCDF else mp.sin
    for h, k in ((R(1, 3), R(3, 2)), (R(-2), R(5)), (R(4), R(-1, 7)), (R(-9), R(1, 10))):
        with mp.workdps(30):
            true = mp.quad(lambda z, k=k: mp.npdf(z) * wave(mp.mpf(k.p) / k.q * z), mp.linspace(-16, mp.mpf(h.p) / h.q, 12))
            assert abs(mp.mpf(sp.N(head(h, k), 30)) - true) < mp.mpf(10) ** -25


@pytest.mark.parametrize("head", HALF)
def test_digits_of_a_half_wave_hold_far_from_the_threshold_and_at_slow_waves(head) -> None:  # type: ignore[no-untyped-def]
    few, many = (sp.N(head(R(10**6), R(1, 10**6)), n) for n in (20, 40))
    assert abs(few / many - 1) < 1e-19
    slow = R(1, 10**30)
    if head is SineNormalCDF:
        assert abs(sp.N(head(2, slow) / slow, 20) + sp.N(sp.exp(-2) / sp.sqrt(2 * sp.pi), 20)) < 1e-18


@pytest.mark.parametrize("head", [*HALF, *QUADRANT])
def test_slopes_are_those_of_the_function(head) -> None:  # type: ignore[no-untyped-def]
    at, step = (R(1, 3), R(3, 2), R(4, 3), R(-2, 3), R(2, 5))[: head.nargs.args[0]], R(1, 10**6)
    e = head(*at)
    assert isinstance(e, head)  # and not by another name
    for i in range(len(at)):
        ahead, back = (head(*(z + side * step if j == i else z for j, z in enumerate(at))) for side in (1, -1))
        assert abs(sp.N(ahead - back, 20) / (2 * step) - sp.N(e.fdiff(i + 1), 20)) < 1e-11


def test_a_quadrant_wave_is_the_integral_of_the_wave_over_the_quadrant() -> None:
    h, k, c, d, r = R(1, 3), R(-1, 2), R(3, 2), R(-2, 3), R(2, 5)

    def inner(z: mp.mpf) -> mp.mpc:  # over Y given X = z
        rest = mp.sqrt(1 - mp.mpf(4) / 25)
        near, rate = (-mp.mpf(1) / 2 - 2 * z / 5) / rest, -2 * rest / 3
        return mp.expj(1.5 * z - 2 * (2 * z / 5) / 3) * mp.exp(-(rate**2) / 2) * mp.erfc(mp.mpc(-near, rate) / mp.sqrt(2)) / 2 * mp.npdf(z)

    true = mp.quad(inner, mp.linspace(-10, mp.mpf(1) / 3, 8))
    assert float(sp.N(BivariateCosineCDF(h, k, c, d, r), 20)) == pytest.approx(float(true.real), abs=1e-14)
    assert float(sp.N(BivariateSineCDF(h, k, c, d, r), 20)) == pytest.approx(float(true.imag), abs=1e-14)


@pytest.mark.parametrize(
    "at",
    [
        (R(1), R(2), R(8), R(9), R(99, 100)),
        (R(-6), R(63, 10), R(2), R(-3), R(-99, 100)),
        (R(2), R(-1), R(1, 7), R(4), R(-1, 2)),
        (R(1, 2), R(1, 3), R(12), R(-12), R(3, 10)),
    ],
    ids=str,
)
def test_digits_of_a_quadrant_wave_are_those_of_the_integral_of_half_waves(at: tuple[sp.Rational, ...]) -> None:
    with mp.workdps(30):
        h, k, c, d, r = (mp.mpf(e.p) / e.q for e in at)
        rest = mp.sqrt(1 - r * r)

        def inner(z: mp.mpf) -> mp.mpc:
            tail = mp.erfc(mp.mpc((r * z - k) / rest, d * rest) / mp.sqrt(2)) / 2
            return mp.npdf(z) * mp.expj((c + d * r) * z) * mp.exp(-((d * rest) ** 2) / 2) * tail

        true = mp.quad(inner, mp.linspace(min(h, mp.mpf(0)) - 13, h, 30))
        for head, part in ((BivariateCosineCDF, true.real), (BivariateSineCDF, true.imag)):
            assert abs(mp.mpf(sp.N(head(*at), 25)) - part) < mp.mpf(10) ** -20 * abs(true)


@pytest.mark.parametrize("sign", [1, -1])
def test_fast_quadrant_waves_are_those_of_the_corner(sign: int) -> None:
    """-e^{i (a h + b k)} phi_2(h, k)/(a b) up to the square of a wave length"""
    fast, r = 10**11, R(1, 3)
    at = (R(1, fast), R(2, fast), R(fast), R(sign * fast), r)
    with mp.workdps(40):
        peak = -sign / (2 * mp.pi * mp.sqrt(1 - mp.mpf(1) / 9) * mp.mpf(fast) ** 2)
        true = peak * mp.expj(1 + 2 * sign)
        for head, part in ((BivariateCosineCDF, true.real), (BivariateSineCDF, true.imag)):
            assert abs(mp.mpf(sp.N(head(*at), 30)) - part) < 1e-19 * abs(part)


def test_a_wave_that_cannot_be_told_from_nothing_is_an_error() -> None:
    with pytest.raises(ArithmeticError, match=r"cannot be told from 0 to 1\d digits"):
        SineNormalCDF(sp.Integer(2), sp.asin(R(1, 3)) - sp.atan(sp.sqrt(2) / 4)).evalf(15)
    one = sp.Integer(1)
    with pytest.raises(ArithmeticError, match=r"cannot be told from 0 to 1\d digits"):
        BivariateSineCDF(one, one, sp.asin(R(1, 3)), -sp.atan(sp.sqrt(2) / 4), R(1, 2)).evalf(15)


def test_limits_have_their_own_names() -> None:
    h, k, r = sp.symbols("h k r", real=True)
    assert CosineNormalCDF(h, 0) == NormalCDF(h)
    assert SineNormalCDF(-h, k) == SineNormalCDF(h, k) == -SineNormalCDF(h, -k)
    assert CosineNormalCDF(sp.oo, k) == sp.exp(-(k**2) / 2)
    assert BivariateCosineCDF(h, k, 0, 0, r) == BivariateNormalCDF(h, k, r)
    assert BivariateSineCDF(h, h, a, -a, r) == 0
    assert BivariateCosineCDF(1, 2, a, m, 1) == CosineNormalCDF(1, a + m)
    assert BivariateCosineCDF(1, 2, a, m, 0) == CosineNormalCDF(1, a) * CosineNormalCDF(2, m) - SineNormalCDF(1, a) * SineNormalCDF(2, m)
    assert BivariateCosineCDF(h, k, a, m, r) == BivariateCosineCDF(k, h, -m, -a, r)
    assert BivariateSineCDF(h, k, a, m, r) == -BivariateSineCDF(k, h, -m, -a, r)


@pytest.mark.parametrize("part", [BivariateCosineCDF, BivariateSineCDF])
def test_without_a_threshold_a_quadrant_is_a_half_plane(part) -> None:  # type: ignore[no-untyped-def]
    k, a, b, r = (sp.Rational(n, 10) for n in (7, 15, -5, 4))
    for at, far in (((sp.oo, k), (60, k)), ((k, sp.oo), (k, 60))):
        limit, value = part(*at, a, b, r).evalf(25), part(*far, a, b, r).evalf(25)
        assert abs(limit - value) <= sp.Float("1e-23") * abs(value)
    assert part(-sp.oo, k, a, b, r) == part(k, -sp.oo, a, b, r) == 0


def test_the_kernels_of_half_waves_are_right_to_rounding() -> None:
    draws = np.random.default_rng(5)
    for h, k in zip(draws.choice([-1, 1], 400) * 10 ** draws.uniform(-5, 1.2, 400), draws.normal(0, 6, 400), strict=True):
        with mp.workdps(120):
            true = mp.exp(-(mp.mpf(k) ** 2) / 2) * mp.erfc(mp.mpc(-h, k) / mp.sqrt(2)) / 2
            most = 10 * 2.0**-53 * (1 if h > 0 else 20 * math.exp(-0.5 * h * h))  # that of a tail relative to its density
            assert abs(primitives.cosine_normal_cdf(h, k) - true.real) <= most
            assert abs(primitives.sine_normal_cdf(h, k) - true.imag) <= most


def test_the_kernels_of_half_waves_have_their_limits() -> None:
    for k in (0.0, 1.0, -3.0):
        assert primitives.cosine_normal_cdf(math.inf, k) == math.exp(-0.5 * k * k)
        assert primitives.cosine_normal_cdf(-math.inf, k) == primitives.sine_normal_cdf(math.inf, k) == 0.0
    assert primitives.cosine_normal_cdf(1.0, math.inf) == primitives.sine_normal_cdf(1.0, -math.inf) == 0.0
    for h, k in ((math.nan, 1.0), (1.0, math.nan)):
        assert math.isnan(primitives.cosine_normal_cdf(h, k))
        assert math.isnan(primitives.sine_normal_cdf(h, k))


@pytest.mark.parametrize("f", FUNCTIONS)
def test_moments_of_gates_times_waves_close_with_the_numbers_of_their_integrals(f: sp.Expr) -> None:
    phi = mf.Activation(f)
    assert all(phi.is_closed(moment) for moment in ("mean", "second_moment", "kernel"))
    assert phi.derivative.is_closed("mean")
    g, v, cov, c = f.subs(a, 2), R(7, 5), R(-1, 2), R(1, 3)
    moments = ((phi.mean(q, mean=m), mf.E(g, v, mean=c)), (phi.second_moment(q, mean=m), mf.E(g**2, v, mean=c)))
    for form, asked in (*moments, (phi.kernel(q, p), mf.E(g * g.xreplace({x: mf.y}), v, cov))):
        assert not form.atoms(mf.gaussian.expectation.Node)
        true = sp.N(asked, 22)
        assert abs(sp.N(form.subs({q: v, p: cov, m: c, a: 2}), 22) - true) <= sp.Float("1e-19") * (1 + abs(true))


@pytest.mark.parametrize("f", [RELU * sp.sin(a * x), sp.erf(x) * sp.cos(x), HARD_TANH * sp.sin(x)])
def test_derivations_have_certificates_and_refute_what_is_wrong(f: sp.Expr) -> None:
    for moment in ("mean", "second_moment", "kernel") if not f.has(sp.Min) else ("mean", "second_moment"):
        d = mf.Activation(f).derive(moment)
        assert d.certificate.holds, d.certificate
        assert "half wave" in {step.rule for step in d.steps}
        assert r"\begin" in d.latex()
    wrong = d.result + sp.Rational(1, 10**9) * SineNormalCDF(1 / sp.sqrt(q), sp.sqrt(q))
    assert not mf.gaussian.certificates.certify(d.function, moment, wrong).holds


def test_a_kernel_whose_quadrant_waves_are_fast_has_a_certificate_that_holds() -> None:
    d = mf.Activation(HARD_TANH * sp.cos(a * x)).derive("kernel")
    assert d.certificate.holds, d.certificate


def test_numbers_of_half_waves_hold_at_small_and_at_large_variances() -> None:
    for form in (mf.Activation(HARD_TANH * sp.sin(x)).mean(q, mean=R(3, 10)), mf.Activation(RELU * sp.sin(2 * x)).second_moment(q)):
        for v in (1e-12, 0.3, 1e3, 1e12):
            true = float(mf.evaluate(form, q=R(v), digits=20))
            assert mf.evaluate(form, q=v) == pytest.approx(true, rel=1e-12)


def test_combinations_of_half_waves_have_numbers_of_their_own() -> None:
    form = mf.Activation(HARD_TANH * sp.sin(x)).mean(q, mean=R(3, 10)) ** 2 + 1
    assert mf.evaluate(form, q=2.0) == pytest.approx(float(mf.evaluate(form, q=2, digits=20)), rel=1e-14)
    kernel = mf.Activation(RELU * sp.sin(x)).kernel(q, p) + 1
    assert mf.evaluate(kernel, q=2.0, p=0.5) == pytest.approx(float(sp.N(kernel.subs({q: 2, p: R(1, 2)}), 20)), rel=1e-14)


def test_at_correlation_one_the_kernel_is_the_second_moment() -> None:
    phi = mf.Activation(RELU * sp.sin(a * x))
    assert sp.expand(phi.kernel(q, p).subs(p, q) - phi.second_moment(q)) == 0


def test_what_two_gates_of_one_input_leave_of_a_wave_in_a_kernel_is_refused_with_the_reason() -> None:
    phi = mf.Activation(sp.erf(x) ** 2 * sp.cos(x))
    assert phi.is_closed("mean")
    assert not phi.is_closed("kernel")
    with pytest.raises(ValueError, match="orthant in more than two dimensions"):
        phi.derive("kernel")


@pytest.mark.parametrize(("f", "moment"), [(RELU * sp.sin(x), -2), (sp.Heaviside(x, R(1, 2)) * sp.cos(x), -1)], ids=str)
def test_kernels_of_fast_waves_are_those_of_the_corner(f: sp.Expr, moment: int) -> None:
    """Abel's sums int_0^oo x f(x) dx, of u v in the exponential of the density; that of f itself is 0"""
    for variance, rho in ((10**12, R(1, 2)), (10**10, R(-9, 10))):
        kernel = sp.N(mf.E(f * f.xreplace({x: mf.y}), variance, rho * variance), 20)
        with mp.workdps(30):
            rest = 1 - mp.mpf(rho.p) ** 2 / rho.q**2
            true = moment**2 * mp.mpf(rho.p) / rho.q / (2 * mp.pi * mp.mpf(variance) ** 2 * mp.sqrt(rest) * rest)
            assert abs(mp.mpf(kernel) - true) < 1e-7 * abs(true)


def test_kernels_of_waves_that_panels_follow_have_the_digits_of_their_closed_forms() -> None:
    node = mf.E(RELU * sp.sin(x) * (RELU * sp.sin(x)).xreplace({x: mf.y}), 500, 300)
    with mp.workdps(25):
        assert abs(mp.mpf(sp.N(node, 20)) / node._integrate(70) - 1) < 1e-18
