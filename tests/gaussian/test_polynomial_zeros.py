"""Polynomials of which zeros are manifold and coefficients are not rational, as denominators and as edges."""

from __future__ import annotations

import time

import mpmath as mp
import pytest
import sympy as sp
from sympy import E, pi, sqrt

import meanfield as mf
from meanfield.gaussian.growth import divergence
from meanfield.gaussian.kinks import kinks_of
from meanfield.gaussian.polynomial_zeros import zeros_of

x = mf.x
#: factors, and how often each is there
MANIFOLD = [
    {x - E: 2, x - pi: 2},
    {x - sqrt(2): 6},
    {x - pi: 3, x**2 + 1: 1},
    {x - sqrt(pi): 2, x - pi: 3},
    {x - sp.Rational(1, 3): 7, x + 2: 1},
    {x - sp.cbrt(2): 2, x - sqrt(3) - sqrt(5): 2, x - pi: 1},
    {x - 10**6 * sqrt(2): 4, x - sqrt(2) / 10**6: 3, x**2 + pi * x + 4: 2},
]


@pytest.mark.parametrize("factors", MANIFOLD, ids=str)
def test_each_zero_is_found_once_to_all_digits(factors: dict[sp.Expr, int]) -> None:
    found = zeros_of(sp.expand(sp.Mul(*[f**n for f, n in factors.items()])), 40)
    assert len(found) == sum(sp.degree(f, x) for f in factors)
    for r in found:
        assert min(abs(sp.N(f.subs(x, r), 40)) for f in factors) < 1e-34


def test_simple_zeros_of_unlike_coefficients_take_no_time() -> None:
    """for which exact division has no end"""
    f = x**6 + sqrt(2) * x**5 + sqrt(3) * x**4 + sqrt(5) * x**3 + pi * x**2 + E * x + sqrt(pi)
    begin = time.process_time()
    assert len(zeros_of(f, 40)) == 6
    found = mf.evaluate(mf.E(1 / f, 1), digits=20)
    assert time.process_time() - begin < 5.0
    value = sp.lambdify(x, f, "mpmath")
    with mp.workdps(25):
        true = mp.quad(lambda t: mp.npdf(t) / value(t), mp.linspace(-14, 14, 57))
    assert mp.almosteq(found, true, rel_eps=mp.mpf("1e-19"))


@pytest.mark.parametrize(
    "f",
    [1 / sp.expand((x - E) ** 2 * (x - pi) ** 2), 1 / sp.expand((x - sqrt(2)) ** 6), x / sp.expand((x - pi) ** 3 * (x**2 + 1))],
    ids=str,
)
def test_manifold_poles_are_refused(f: sp.Expr) -> None:
    with pytest.raises(ValueError, match=r"E f\(u\)\^2 is infinite for every variance, f has a pole at x = (2.71828|3.14159|1.41421)"):
        mf.Activation(f)


def test_powers_next_to_a_manifold_zero_are_told() -> None:
    distance = sp.expand((x - sqrt(2)) ** 6)
    assert divergence(distance ** -sp.Rational(1, 13)) is None  # 12/13 < 1
    assert "a singularity that is not square-integrable at x = 1.41421" in str(divergence(distance ** -sp.Rational(1, 11)))


@pytest.mark.parametrize(("place", "n"), [(pi, 3), (pi, 7), (sp.S.One, 7)])
def test_a_kink_at_a_manifold_zero_is_where_it_is(place: sp.Expr, n: int) -> None:
    assert kinks_of(sp.Max(0, sp.expand((x - place) ** n))) == pytest.approx((float(place),), rel=1e-14)
