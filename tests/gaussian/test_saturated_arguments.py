"""Functions of functions that go to a limit: an arc of one next to 1, a modulus or a larger of two that is always the same."""

import time

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import x
from meanfield.gaussian.cancelling import in_lowest_terms
from meanfield.gaussian.zeros import is_zero

ARCS = [sp.asin(sp.tanh(x)), sp.acos(sp.tanh(x)), sp.asin(sp.erf(x)), sp.acos(-sp.erf(x)), sp.asin(sp.tanh(2 * x + 1))]
NEVER = sp.Max(sp.tanh(x), sp.erf(x) - sp.Rational(1, 2))  # the second is never larger


@pytest.mark.parametrize("f", ARCS, ids=str)
@pytest.mark.parametrize("variance", [1e-6, 1.0, 300.0])
def test_arcs_of_steps(f: sp.Expr, variance: float) -> None:
    """Next to 1 an arc sine has half the digits that its argument has."""
    phi, value = mf.Activation(f), sp.lambdify(x, f, "mpmath")
    with mp.workdps(30):
        s = mp.sqrt(variance)
        ends = [k / max(s, 1) for k in (-8, -2, 0, 2, 8)]
        true = mp.quad(lambda z: value(s * z) ** 2 * mp.npdf(z), sorted({*ends, mp.mpf(-13), mp.mpf(13)}))
    assert mf.evaluate(phi.second_moment(mf.q), q=variance) == pytest.approx(float(true), rel=1e-12)


@pytest.mark.parametrize("f", ARCS, ids=str)
def test_their_derivatives_are_activations(f: sp.Expr) -> None:
    """Far out they are 0/0, which tells nothing about where they are real."""
    gap = mf.evaluate(mf.Activation(f).gap(mf.q, mf.delta), q=1.0, delta=1e-14)
    assert gap == pytest.approx(1e-14 * mf.evaluate(mf.Activation(f).derivative.second_moment(mf.q), q=1.0), rel=1e-9)


def test_the_larger_of_two_of_which_one_never_is() -> None:
    phi = mf.Activation(NEVER)
    for own, known in ((phi, mf.tanh), (phi.derivative, mf.tanh.derivative)):
        assert mf.evaluate(own.gap(mf.q, mf.delta), q=1.5, delta=0.9) == pytest.approx(
            mf.evaluate(known.gap(mf.q, mf.delta), q=1.5, delta=0.9), rel=1e-12
        )
    assert mf.evaluate(phi.mean(mf.q), q=1.5) == pytest.approx(0, abs=1e-13)


def test_what_decides_stands_in_every_derivative() -> None:
    assert not is_zero(NEVER + NEVER.xreplace({x: -x}))  # which it is, but that is not proved


def test_functions_without_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="erfi of x has no numeric form"):
        mf.Activation(sp.erfi(x / 3))


TANGENTS = [
    sp.sinh(x) / sp.cosh(x),
    1 / sp.coth(x),
    sp.cosh(x) * sp.tanh(x) * sp.sech(x),
    (sp.exp(x) - sp.exp(-x)) / (sp.exp(x) + sp.exp(-x)),
    (sp.cosh(2 * x) - 1) / sp.sinh(2 * x),
]


@pytest.mark.parametrize("f", TANGENTS, ids=str)
def test_a_tangent_in_other_words(f: sp.Expr) -> None:
    """Far out its derivatives are sums whose terms cancel, each of them a ratio of what overflows."""
    variances = np.array([1e-6, 1.0, 2.0, 300.0])
    for k in range(4):
        mean, known = (mf.E(x**2 * g.diff(x, k) * g, mf.q) for g in (f, sp.tanh(x)))
        assert mf.evaluate(mean, q=variances) == pytest.approx(mf.evaluate(known, q=variances), rel=1e-13, abs=0)
        assert mp.almosteq(mf.evaluate(mean, q=2, digits=30), mf.evaluate(known, q=2, digits=30), rel_eps=1e-29)


@pytest.mark.parametrize("f", [sp.sech(x) ** 2 - sp.sech(x) ** 4, x * sp.csch(x), x * sp.coth(x) - 1], ids=str)
def test_reciprocals_of_hyperbolic_functions_have_means(f: sp.Expr) -> None:
    mean = mf.E(f, mf.q)
    for variance in (0.01, 30.0):
        assert mf.evaluate(mean, q=variance) == pytest.approx(float(mf.evaluate(mean, q=variance, digits=17)), rel=1e-13)


def test_a_logarithm_of_cosh_is_critical() -> None:
    found = mf.critical(mf.mlp(mf.log_cosh), sigma_b=0.3)
    assert (found["sigma_w"], found["q"]) == pytest.approx((1.9445231060667512, 0.472211986381593), rel=1e-12)
    other = mf.critical(mf.mlp(mf.Activation(TANGENTS[0])), sigma_b=0.2)
    assert other["sigma_w"] == pytest.approx(mf.critical(mf.mlp(mf.tanh), sigma_b=0.2)["sigma_w"], rel=1e-12)


@pytest.mark.parametrize("beta", [10**5, 10**6])
def test_a_steep_sigmoid_is_told_from_zero_at_once(beta: int) -> None:
    """exp(-beta 4/7) beside 1 takes hundreds of thousands of digits"""
    begin = time.process_time()
    swish = x / (1 + sp.exp(-beta * x))
    assert not is_zero(swish + swish.xreplace({x: -x}))
    zero = swish - swish.xreplace({x: -x}) - x
    assert is_zero(zero)
    gentle = 1 / (1 + sp.exp(-x)) + 1 / (1 + sp.exp(x)) - 1
    assert is_zero(zero * sp.tanh(x) + gentle)  # exp(beta x) is no power of exp(x) here
    assert not is_zero(zero * sp.tanh(x) + gentle / 2 + x)
    assert time.process_time() - begin < 5.0


def test_a_steep_bump_beside_a_gentle_function_is_told_from_zero_at_once() -> None:
    """whose values next to where it turns are exp(-10^9) and less"""
    begin = time.process_time()
    f = sp.exp(-((10**4 * (x - 2)) ** 2)) + sp.tanh(x)
    assert not is_zero(f**2 + f.xreplace({x: -x}) ** 2)
    assert is_zero((f - sp.tanh(x)) * (sp.tanh(x) ** 2 - 1 + sp.cosh(x) ** -2))
    assert time.process_time() - begin < 5.0


SOFTPLUS = sp.log(1 + sp.exp(x))
NOTHING = [
    SOFTPLUS - SOFTPLUS.xreplace({x: -x}) - x,
    sp.log(sp.cosh(x)) + sp.log(2) - sp.log(1 + sp.exp(2 * x)) + x,
    sp.atan(sp.exp(x)) + sp.atan(sp.exp(-x)) - sp.pi / 2,
]


@pytest.mark.parametrize("size", [sp.sin(60 * x), sp.cos(3 * x), x**3 * sp.sin(x), sp.exp(x), SOFTPLUS * sp.sin(3 * x)], ids=str)
def test_a_wave_of_which_the_size_vanishes_is_proved_to(size: sp.Expr) -> None:
    """No derivative is without the logarithms, but that of what stands beside the wave."""
    for nothing in NOTHING:
        assert is_zero(size * nothing)
        assert is_zero(sp.expand(size * nothing))
        assert not is_zero(size * (nothing - sp.Rational(1, 10**40)))
    assert is_zero(size * (sp.log(6) - sp.log(2) - sp.log(3)))


def test_a_constant_that_is_another_one_beyond_a_pole_is_not_the_same() -> None:
    for place in (0, 1, sp.sqrt(3)):
        z = x - place
        assert not is_zero(sp.atan(1 / z) + sp.atan(z) + sp.pi / 2)
        assert not is_zero((sp.atan(1 / z) + sp.atan(z) + sp.pi / 2) * sp.sin(x))
        assert not is_zero(sp.log(z**3) - 3 * sp.log(z))
    assert is_zero(sp.log(1 + x**2) - sp.log(3 + 3 * x**2) + sp.log(3))


def test_the_mean_of_an_odd_wave_of_logarithmic_size() -> None:
    for frequency in (3, 60):
        phi = mf.Activation((SOFTPLUS - x / 2) * sp.sin(frequency * x))
        assert mf.evaluate(phi.mean(mf.q), q=1.0, digits=20) == 0


def test_an_exponential_of_an_imaginary_argument_turns_nowhere() -> None:
    assert is_zero(sp.exp(1000 * sp.I * x) - sp.cos(1000 * x) - sp.I * sp.sin(1000 * x))
    assert not is_zero(sp.exp((50 + 60 * sp.I) * x) - 2 * sp.exp(50 * x))


def test_lowest_terms_of_exponentials_of_unlike_rates() -> None:
    steep = 10**8 + 1
    whole = (sp.exp(steep * x) + 1) * (sp.exp(x) - 1) / ((sp.exp(2 * x) - 1) * (sp.exp(2 * steep * x) - 1))
    lowest = in_lowest_terms(whole)
    assert sp.denom(sp.together(lowest)).subs(x, 0) == 0
    assert sp.simplify(lowest - 1 / ((sp.exp(x) + 1) * (sp.exp(steep * x) - 1))) == 0
    assert in_lowest_terms((sp.exp(2 * x) - 1) / (sp.exp(x) - 1)) == sp.exp(x) + 1
