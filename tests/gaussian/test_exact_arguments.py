"""Arguments count as what they are: exact numbers to their last digit, and rounded ones at the end of their range as at that end."""

from __future__ import annotations

import decimal
import fractions
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf

q, p, delta, q1, q2 = mf.q, mf.p, mf.delta, mf.q1, mf.q2
TYPED = "0.7310585786300048792511592418218362743651446401650565192763659079"
OPEN = {"tanh": mf.tanh, "softplus": mf.softplus, "bump": mf.Activation(mf.x**2 * sp.atan(mf.x) / (2 + mf.x**4))}


@pytest.mark.parametrize("number", [sp.Float(TYPED, 64), decimal.Decimal(TYPED), fractions.Fraction(TYPED)])
@pytest.mark.parametrize("moment", [mf.erf.second_moment(q), mf.atan.second_moment(q)], ids=["closed", "open"])
def test_no_digit_of_an_argument_is_lost(moment: sp.Expr, number: Any) -> None:
    assert mf.evaluate(moment, q=number, digits=45) == mf.evaluate(moment, q=sp.Rational(TYPED), digits=45)
    assert mf.evaluate(moment, q=number, digits=45) != mf.evaluate(moment, q=float(number), digits=45)


def test_digits_chain() -> None:
    """What digits returns goes back in as it is: two halves of a depth are the depth."""
    step = mf.tanh.second_moment(q)
    first = mf.evaluate(step, q=2, digits=60)
    exactly = sp.Rational(int(first._mpf_[1]), 2 ** -first._mpf_[2])  # gmpy2, where mpmath has it, is no number of sympy with flint
    assert mf.evaluate(step, q=first, digits=50) == mf.evaluate(step, q=exactly, digits=50)
    assert mf.evaluate(step, q=first) == pytest.approx(float(mf.evaluate(step, q=exactly, digits=20)), rel=1e-15)


def test_floats_of_few_bits_are_the_decimal_they_print_as() -> None:
    for typed in ("0.3", "2.5e-7", "0.123456789012345", "7e300"):
        assert mf.E(mf.x**2, sp.Float(typed)).doit() == sp.Rational(typed) == mf.E(mf.x**2, float(typed)).doit()


def test_arguments_that_are_no_doubles() -> None:
    small, exactly = sp.Float("3e-700"), sp.Rational(3, 10**700)
    assert (
        mf.evaluate(mf.atan.gap(q, delta), q=2, delta=small, digits=20)
        == mf.evaluate(mf.atan.gap(q, delta), q=2, delta=exactly, digits=20)
        > 0
    )
    assert mf.evaluate(mf.atan.second_moment(q), q=small, digits=20) == mf.evaluate(q, q=exactly, digits=20)
    for given in ({"q": 1, "delta": exactly}, {"q": 1 / exactly, "delta": 1}, {"q": decimal.Decimal("1e-500"), "delta": 0}):
        with pytest.raises(ValueError, match=r"E[+-]\d+: no double is near it; mf.evaluate takes it with digits=n"):
            mf.evaluate(mf.atan.gap(q, delta), **given)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"q": 1, "p": 1 + sp.Rational(1, 10**25)}, r"p = 1\.0{24}1: \|p\| must be at most sqrt\(q1 q2\) = 1"),
        ({"q": sp.Float(2, 50), "p": -sp.Float("2." + "0" * 30 + "7", 50)}, r"p = -2\.0{30}7: \|p\| must be at most"),
        ({"q": mp.mpf(3), "delta": 6 + sp.Rational(1, 10**9)}, "expected 0 <= delta <= 2 q"),
        ({"q": 1, "delta": -sp.Rational(1, 10**600)}, "it must be at least 0"),
        ({"q": -sp.Rational(1, 10**600)}, "a variance must be positive"),
        ({"q": mp.inf}, "expected a finite number"),
        ({"q": decimal.Decimal("1e99999999")}, "expected a decimal exponent of at most 1000000"),
        ({"q": [1, 2]}, "q = an array: digits takes single numbers"),
    ],
    ids=lambda v: "" if isinstance(v, str) else ", ".join(v),
)
def test_ranges_of_exact_arguments_are_exact(given: dict[str, Any], complaint: str) -> None:
    moments = {"p": mf.tanh.kernel(q, p), "delta": mf.tanh.gap(q, delta), "q": mf.tanh.second_moment(q)}
    with pytest.raises(ValueError, match=complaint):
        mf.evaluate(moments[list(given)[-1]], digits=20, **given)


def test_arrays_of_exact_numbers() -> None:
    given = [sp.Rational(1, 3), fractions.Fraction(5, 2), decimal.Decimal("0.1"), mp.mpf(7), 10**25]
    assert np.array_equal(
        mf.evaluate(mf.relu.second_moment(q), q=given), mf.evaluate(mf.relu.second_moment(q), q=[float(v) for v in given])
    )
    assert mf.evaluate(mf.relu.second_moment(q), q=np.array([[sp.Integer(4)]], dtype=object)).tolist() == [[2.0]]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (np.array([True, False]), "q = True: expected a real number or an array of real numbers, got truth values"),
        ([1.0, 2j], "q = 2j: expected a real number or an array of real numbers, got complex numbers"),
        (np.array(["2"]), "q = '2': .* got text"),
        ([1, None], "q = None: expected a number"),
        ([1, mf.p], "q = p: .* got an expression in {p}"),
    ],
)
def test_arrays_of_other_things_say_what_is_allowed(given: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        mf.evaluate(mf.relu.second_moment(q), q=given)


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize(("variance", "cov"), [(0.7, 0.1 + 0.6), (0.6, 0.2 + 0.4), (2.0, 2 + 2e-15), (5e-6, 5e-6 * (1 + 4e-16))])
def test_a_covariance_beyond_the_variance_by_rounding_is_at_it(name: str, variance: float, cov: float) -> None:
    """In each way to a value: doubles, arrays, logarithms, digits, a kernel of numbers, unequal names, a network."""
    phi, over = OPEN[name], max(cov, np.nextafter(variance, 9))
    at = mf.evaluate(phi.second_moment(q), q=variance)
    for sign in (1, -1):
        end = mf.evaluate(phi.kernel(q, p), q=variance, p=sign * variance)
        assert mf.evaluate(phi.kernel(q, p), q=variance, p=sign * over) == end
        assert mf.evaluate(phi.kernel(q1, p, q2), q1=variance, p=sign * over, q2=variance) == pytest.approx(end, rel=1e-14, abs=1e-14 * at)
        assert mf.evaluate(phi.kernel(q, p), q=variance, p=[sign * over, 0.0])[0] == end
        exactly = mf.evaluate(phi.kernel(q, p), q=variance, p=sign * variance, digits=25)
        assert mf.evaluate(phi.kernel(q, p), q=variance, p=sign * over, digits=25) == exactly
        assert mf.evaluate(phi.kernel(variance, sign * over), digits=25) == exactly
    assert mf.evaluate(phi.kernel(q, p), q=variance, p=over, log=True) == mf.evaluate(phi.kernel(q, p), q=variance, p=variance, log=True)
    for other in ({}, {"q2": variance}):
        runs = [mf.propagate(mf.mlp(phi), 2, q=variance, p=at, sigma_w=1.0, sigma_b=0.0, **other) for at in (variance, over)]
        assert runs[1].p == pytest.approx(runs[0].p, rel=1e-14)


def test_a_gap_beyond_its_end_by_rounding_is_at_it() -> None:
    variance = 0.1 + 0.6
    end = mf.evaluate(mf.tanh.gap(q, delta), q=variance, delta=2 * variance)
    assert mf.evaluate(mf.tanh.gap(q, delta), q=variance, delta=np.nextafter(2 * variance, 9)) == end
    assert mf.evaluate(mf.tanh.gap(q, delta), q=variance, delta=2 * variance, digits=20) == pytest.approx(end, rel=1e-15)
    with pytest.raises(ValueError, match="expected 0 <= delta <= 2 q"):
        mf.evaluate(mf.tanh.gap(q, delta), q=variance, delta=2 * variance + 1e-12)


@pytest.mark.parametrize("beyond", [1 + 3e-15, 1 + 1e-9, -1 - 3e-15])
def test_a_covariance_beyond_by_more_is_refused(beyond: float) -> None:
    for more in ({}, {"digits": 20}):
        with pytest.raises(ValueError, match=r"p = -?1\.0+\d+: \|p\| must be at most sqrt\(q1 q2\) = 1$"):
            mf.evaluate(mf.tanh.kernel(q, p), q=1.0, p=beyond, **more)
    for other in ({}, {"q2": 1.0}):
        with pytest.raises(ValueError, match=r"\|p\| must be at most"):
            mf.propagate(mf.mlp(mf.tanh), 1, q=1.0, p=beyond, sigma_w=1.0, sigma_b=0.0, **other)
