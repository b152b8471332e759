"""Where the density falls as fast as a function grows, the algebraic rest decides: |x|^-a is integrable for a > 1."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.at_bound import left_at
from meanfield.gaussian.finiteness import pair_falls
from meanfield.gaussian.growth import divergence
from meanfield.gaussian.precise import law_of, product_mean_of

x, q, R = mf.x, mf.q, sp.Rational
BOUND = R(5, 2)

#: what is left of f exp(-x^2/5), and where it has a mean
FINITE = {
    "square": 1 / (1 + x**2),
    "three halves": (1 + x**2) ** R(-3, 4),
    "exponential": sp.exp(-sp.Abs(x)),
    "one half": sp.Piecewise((0, x < 1), (x**-2, True)),
    "one and a half, at one end": sp.Piecewise((sp.exp(x), x < 0), (1 / (1 + x ** R(3, 2)), True)),
}
INFINITE = {
    "constant": 1 + 1 / (1 + x**2),
    "first power": 1 / (1 + sp.Abs(x)),
    "logarithm": 1 / (sp.sqrt(1 + x**2) * sp.log(3 + x**2)),
    "at one end": sp.Piecewise((1 / (1 + x**2), x < 0), (1 / (1 + x), True)),
}


@pytest.mark.parametrize("name", FINITE)
def test_a_mean_at_the_bound_is_the_integral_of_the_rest(name: str) -> None:
    rest = FINITE[name]
    node = mf.E(rest * sp.exp(x**2 / 5), BOUND)
    ends = [-mp.inf, 0, 1, 30, mp.inf]
    integral = mp.quad(sp.lambdify(x, rest, "mpmath"), ends) / mp.sqrt(5 * mp.pi)
    assert abs(mp.mpf(sp.N(node, 20)) - integral) < 1e-9
    assert mf.evaluate(mf.E(rest * sp.exp(x**2 / 5), q), q=2.5) == pytest.approx(float(integral), rel=1e-8)


def test_beyond_the_bound_the_refusal_says_that_the_bound_is_allowed() -> None:
    with pytest.raises(ValueError, match=r"is infinite: it is finite only for q <= 5/2$"):
        mf.Activation(FINITE["square"] * sp.exp(x**2 / 5)).mean(R(51, 20))


@pytest.mark.parametrize("name", INFINITE)
def test_a_mean_at_the_bound_is_infinite_where_the_rest_is_not_integrable(name: str) -> None:
    with pytest.raises(ValueError, match=r"is infinite: it is finite only for q < 5/2$"):
        mf.Activation(INFINITE[name] * sp.exp(x**2 / 5)).mean(BOUND)


def test_the_mean_at_the_bound_is_the_limit_from_below() -> None:
    node = mf.E(sp.exp(x**2 / 5) / (1 + x**2), q)
    assert node.subs(q, BOUND).doit() == sp.sqrt(5 * sp.pi) / 5
    assert mf.evaluate(node, q=2.499999) == pytest.approx(mf.evaluate(node, q=2.5), rel=1e-3)


def test_beside_a_mean_the_rest_grows_at_the_bound() -> None:
    with pytest.raises(ValueError, match=r"is infinite: it is finite only for q < 5/2$"):
        mf.Activation(sp.exp(x**2 / 5) / (1 + x**2)).mean(BOUND, mean=R(1, 3))


def test_an_activation_may_be_square_integrable_at_the_bound_alone() -> None:
    assert mf.Activation(sp.exp(x**2 / 4) / (1 + x**2)).second_moment(1) == sp.sqrt(2 * sp.pi) / 4
    with pytest.raises(ValueError, match="infinite for variances q >= 1"):
        mf.Activation(sp.exp(x**2 / 4) * sp.tanh(x))


def ridge(r: Callable[[mp.mpf], mp.mpf], variance: float, covariance: float) -> mp.mpf:
    """E f(u) f(v), f = r e^{a x^2}, by the density itself along u + v and u - v, where it is 1 along the first of them"""
    across = mp.sqrt(variance - covariance)

    def along(s: mp.mpf) -> mp.mpf:
        def inner(t: mp.mpf) -> mp.mpf:
            return r((s + t) / 2) * r((s - t) / 2) * mp.exp(-(t**2) * covariance / (variance**2 - covariance**2) / 2)

        return mp.quad(inner, [-40 * across, -3 * across, 0, 3 * across, 40 * across])

    return mp.quad(along, [-mp.inf, -30, -3, 0, 3, 30, mp.inf]) / (4 * mp.pi * mp.sqrt(variance**2 - covariance**2))


def test_a_kernel_at_its_bound_is_the_integral_of_the_rest_along_the_flat_direction() -> None:
    phi = mf.Activation(sp.exp(x**2 / 5) / (1 + x**2))
    with mp.workdps(15):
        expected = float(ridge(lambda u: 1 / (1 + u**2), 2, 0.5))
    assert float(phi.kernel(sp.Integer(2), R(1, 2)).evalf(9)) == pytest.approx(expected, rel=1e-8)
    assert float(phi.kernel(sp.Integer(2), R(499999, 1000000)).evalf(9)) == pytest.approx(expected, rel=1e-6)


def test_beyond_its_bound_or_without_a_mean_there_a_kernel_is_refused_with_the_condition() -> None:
    with pytest.raises(ValueError, match=r"is infinite: it is finite only for q \+ Abs\(p\) <= 5/2$"):
        mf.Activation(sp.exp(x**2 / 5) / (1 + x**2)).kernel(R(3, 2), R(11, 10))
    with pytest.raises(ValueError, match=r"is infinite: it is finite only for q \+ Abs\(p\) < 5/2$"):
        mf.Activation(sp.exp(x**2 / 5) / (1 + x**2) ** R(1, 4)).kernel(R(3, 2), 1)


@pytest.mark.parametrize(("place", "width"), [(50, 100), (300, 1000)])
def test_a_narrow_bump_far_along_the_rest_counts(place: int, width: int) -> None:
    rest = sp.exp(-((x - place) ** 2) * width**2) + 1 / (1 + x**2)
    true = (sp.pi + sp.sqrt(sp.pi) / width) / sp.sqrt(5 * sp.pi)
    assert abs(mf.E(sp.exp(x**2 / 5) * rest, R(5, 2)).evalf(15) / true.evalf(20) - 1) < sp.Float("1e-14")


def test_a_bump_far_along_the_flat_direction_counts() -> None:
    """the density is flat there: each bump has the same share, the product of the two is below e^-70"""
    bump, law = sp.exp(x**2 / 4), law_of(R(3, 2), R(1, 2), R(3, 2), sp.S.Zero, sp.S.Zero)
    one, two = bump / sp.cosh(x), bump * (1 / sp.cosh(x) + 1 / sp.cosh(x - 70))
    assert float(product_mean_of(two, two, law, 20)) == pytest.approx(2 * float(product_mean_of(one, one, law, 20)), rel=1e-6)


def test_beside_means_a_kernel_is_infinite_at_its_bound() -> None:
    """what is left along the flat direction is exp(w) beside powers"""
    f = sp.exp(x**2 / 4) / (1 + x**2)
    assert sp.N(mf.E(f * f.xreplace({x: mf.y}), R(3, 2), R(1, 2))).is_finite
    with pytest.raises(ValueError, match=r"finite only for q \+ Abs\(p\) < 2"):
        sp.N(mf.E(f * f.xreplace({x: mf.y}), R(3, 2), R(1, 2), mean=R(1, 2)))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_kernel_of_equal_or_opposite_inputs_at_its_bound_is_the_second_moment(sign: int) -> None:
    phi = mf.Activation(sp.exp(x**2 / 5) / (1 + x**2))
    assert float(phi.kernel(R(5, 4), sign * R(5, 4)).evalf(15)) == pytest.approx(float(phi.second_moment(R(5, 4))), rel=1e-14)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_kernel_of_multiples_of_one_variable_at_its_bound_is_the_integral_of_the_rest(sign: int) -> None:
    f = sp.exp(x**2 / 5) / (1 + x**2)
    e = mf.E(f * f.xreplace({x: mf.y}), 1, sign * sp.sqrt(sp.Rational(3, 2)), sp.Rational(3, 2))
    true = sp.pi / (1 + sp.sqrt(sp.Rational(3, 2))) / sp.sqrt(2 * sp.pi)  # of 1/((1 + x^2) (1 + 3 x^2/2)), by residues
    value, bound = mf.evaluate(e, error=True)
    assert abs(value - float(true)) <= bound + 1e-16
    assert abs(mf.evaluate(e, digits=30) - sp.N(true, 35)._to_mpmath(120)) < 1e-29


def test_only_the_direction_in_which_a_kernel_is_flat_has_to_be_integrable() -> None:
    """what is left is 1 at one end of the line: its square is not integrable, its product with what is left at the other end is"""
    phi = mf.Activation(sp.exp(x**2 / 5) * sp.Piecewise((1, x < 0), (1 / (1 + x**2), True)))
    with pytest.raises(ValueError, match="is infinite"):
        phi.kernel(R(5, 4), R(5, 4))
    value = phi.kernel(R(5, 4), -R(5, 4)).evalf(20)  # the integral of 1/(1 + x^2) from 0 on, and the same again, over sqrt(2 pi q)
    assert abs(value / sp.sqrt(2 * sp.pi / 5).evalf(25) - 1) < sp.Float("1e-18")


def test_a_gap_whose_second_moment_is_at_the_bound_is_the_difference_of_the_two() -> None:
    phi = mf.Activation(sp.exp(x**2 / 5) / (1 + x**2))
    second, kernel = phi.second_moment(R(5, 4)).evalf(20), phi.kernel(R(5, 4), R(1, 2)).evalf(20)
    assert float(phi.gap(R(5, 4), R(3, 4)).evalf(12)) == pytest.approx(float(second - kernel), rel=1e-11)
    delta = mf.symbols.known("delta")
    assert mf.evaluate(phi.gap(q, delta), q=1.25, delta=0.75) == pytest.approx(float(second - kernel), rel=1e-9)


def test_a_gap_at_the_bound_is_linear_in_a_tiny_delta() -> None:
    """with what is left r = 1/(1 + w^2) it is the mean of r'^2 + r^2 (w^2/(4 q^2) - 1/(2 q)) over the line"""
    phi = mf.Activation(sp.exp(x**2 / 5) / (1 + x**2))
    rate = 0.13 * math.sqrt(math.pi / 2.5)
    for delta in (1e-30, 1e-300):
        found, bound = mf.evaluate(phi.gap(q, mf.delta), q=1.25, delta=delta, error=True)
        assert found == pytest.approx(delta * rate, rel=1e-14)
        assert 0 < bound < 1e-15 * found


def test_a_mean_at_the_bound_without_closed_form_is_a_number() -> None:
    rest = (2 + sp.tanh(x)) / (1 + x**2)
    assert float(mf.E(sp.exp(x**2 / 5) * rest, BOUND).evalf(15)) == pytest.approx(2 * math.sqrt(math.pi / 5), rel=1e-14)


def test_independent_factors_at_the_bound_have_a_mean_each_or_none() -> None:
    phi = mf.Activation(sp.exp(x**2 / 5) / (1 + x**2) ** R(3, 8))  # |x|^-3/4: two of them are integrable, one is not
    assert isinstance(phi.kernel(R(3, 2), 1), mf.gaussian.expectation.Node)
    with pytest.raises(ValueError, match="is infinite"):
        mf.evaluate(mf.E(phi.expression * phi.expression.xreplace({x: mf.y}), q, mf.p), q=2.5, p=0.0)


def test_a_float_at_the_bound_is_the_bound() -> None:
    f = sp.exp(x**2) / (1 + x**2)
    assert float(mf.E(f, sp.Float(0.5))) == pytest.approx(float(mf.E(f, R(1, 2))), rel=1e-14)


def test_what_oscillates_is_not_told_by_two_places() -> None:
    """cos(27 x)^2/|x| is not integrable"""
    assert left_at(sp.exp(x**2 / 2) * sp.cos(27 * x) ** 2 / sp.sqrt(1 + x**2), R(1, 2)) is None
    assert left_at(sp.exp(x**2 / 2) * sp.cos(27 * x) ** 2 / (1 + x**2), R(1, 2)) is not None


FAR = sp.Abs(x)
#: what e^{x^2/4} leaves of two functions, and whether their product has a mean along the ray of covariance 1/2 beside variances of 3/2
ON_A_RAY = {
    "exponentials": (sp.exp(-FAR), sp.exp(FAR) / (1 + x**2), True),
    "exponentials and a first power": (sp.exp(-FAR), sp.exp(FAR) / (1 + FAR), False),
    "logarithm and its square": (1 / sp.log(3 + x**2) ** 2, 1 / (1 + FAR), True),
    "logarithm": (1 / sp.log(3 + x**2), 1 / (1 + FAR), False),
    "between powers": (sp.exp(-(sp.log(1 + x**2) ** 2)), sp.exp(sp.log(1 + x**2) ** 2) / (1 + x**2), True),
    "steep falls": (sp.exp(-(FAR ** R(3, 2))), sp.S.One, True),
    "steep growth": (sp.exp(FAR ** R(3, 2)), sp.S.One, False),
    "steep growth beside as steep a fall": (sp.exp(-(FAR ** R(3, 2))), sp.exp(FAR ** R(3, 2)) / (1 + x**2), None),
    "wave": (sp.cos(x) / (1 + x**2), sp.S.One, True),
    "waves": (2 + sp.cos(x), sp.sin(3 * x), False),
    "chirp": (sp.cos(x**2), sp.S.One, None),
}


@pytest.mark.parametrize("name", ON_A_RAY)
def test_where_a_density_falls_as_fast_as_both_grow_a_mean_is_finite_infinite_or_not_told(name: str) -> None:
    r, s, met = ON_A_RAY[name]
    law = (R(3, 2), R(1, 2), R(3, 2))
    assert pair_falls(sp.exp(x**2 / 4) * r, sp.exp(x**2 / 4) * s, law) is met


def test_a_fall_and_a_growth_that_are_steep_need_not_balance() -> None:
    """at u = s + t, v = s - t they are e^{-3 t sqrt(s)}, of mean e^{9 s/(4 k)} under e^{-k t^2}: far out the mean over t grows"""
    with mp.workdps(30):

        def across(s: mp.mpf) -> mp.mpf:
            return mp.quad(lambda t: mp.exp(-(abs(s + t) ** 1.5) + abs(s - t) ** 1.5 - t * t / 2), [-200, -s / 2, 0, 30]) / (1 + s**2)

        assert across(mp.mpf(40)) > 1e20 * across(mp.mpf(20))
    f, g = sp.exp(x**2 / 4 - FAR ** R(3, 2)), sp.exp(x**2 / 4 + FAR ** R(3, 2)) / (1 + x**2)
    with pytest.raises(ArithmeticError, match="cannot be told"):
        mf.E(f * g.xreplace({x: mf.y}), R(3, 2), R(1, 2)).evalf(10)


def test_a_ray_between_unequal_variances_counts_the_slopes_of_both() -> None:
    """S^{-1} - 2 diag(1/4, 1/5) is flat along (2, 1) alone: e^{-2 w} beside e^{c w}"""
    law = (R(7, 4), R(5, 8), R(15, 16))
    for c, met in ((R(3, 2), True), (R(5, 2), False)):
        assert pair_falls(sp.exp(x**2 / 4 - FAR), sp.exp(x**2 / 5 + c * FAR), law) is met
    assert pair_falls(sp.exp(x**2 / 10) / (1 + x**2), sp.exp(x**2 / 10), (sp.S.One, sp.Integer(2), sp.Integer(4))) is True


def test_a_wave_at_the_bound_is_not_called_infinite() -> None:
    wave = sp.exp(x**2 / 4) * sp.cos(x) / (1 + x**2)
    assert divergence(wave) is None
    with pytest.raises(ValueError, match=r"is infinite: it is finite only for q <= 2$"):
        mf.E(wave, R(5, 2)).evalf(12)
    assert divergence(sp.exp(x**2 / 4) * sp.cos(x)) is not None
    for absolute_or_not in (wave, sp.exp(x**2 / 4) * sp.cos(x**2)):  # a wave without end in all that counts: there is no rule for it
        with pytest.raises(ArithmeticError, match=r"no rule is certain|cannot tell"):
            mf.E(absolute_or_not, 2).evalf(12)
