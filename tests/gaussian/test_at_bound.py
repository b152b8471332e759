"""Where the density falls as fast as a function grows, the algebraic rest decides: |x|^-a is integrable for a > 1."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.at_bound import left_at

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


def test_a_kernel_at_its_bound_is_not_called_infinite_and_has_no_wrong_number() -> None:
    phi = mf.Activation(sp.exp(x**2 / 5) / (1 + x**2))
    kernel = phi.kernel(q, mf.p)
    assert isinstance(phi.kernel(R(3, 2), 1), mf.gaussian.expectation.Node)
    for p in (1.0, -1.0):
        with pytest.raises(ArithmeticError, match="it cannot be told"):
            mf.evaluate(kernel, q=1.5, p=p)
    with pytest.raises(ValueError, match=r"is infinite: it is finite only for q \+ Abs\(p\) <= 5/2$"):
        phi.kernel(R(3, 2), R(11, 10))
    with pytest.raises(ValueError, match=r"is infinite: it is finite only for q \+ Abs\(p\) < 5/2$"):
        mf.Activation(sp.exp(x**2 / 5) / (1 + x**2) ** R(1, 4)).kernel(R(3, 2), 1)


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
