"""Finite parts of elementary functions close, in whatever way the function is written."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.rational_forms import cancelled
from meanfield.gaussian.expansions import folded
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.finite_parts import FinitePart, finite_part
from meanfield.gaussian.slopes import gathered

x = mf.x
R = sp.Rational

SATURATING = {
    "logistic cubed": (1 + sp.exp(-x)) ** -3,
    "two logistics": 1 / (1 + sp.exp(-2 * x)) - 3 / (1 + sp.exp(-x)),
    "logistic of an irrational scale": 1 / (1 + sp.exp(-sp.sqrt(3) * x)),
    "tanh and a logistic": sp.tanh(x / 2) ** 3 - 2 / (1 + sp.exp(x)),
    "seventh roots": x / (1 + sp.Abs(x) ** 7) ** R(1, 7),
    "a sum of roots of one binomial": x / (3 + x**6) ** R(1, 6) + x**5 / (3 + x**6) ** R(5, 6),
    "a rational function of a high power": x**5 / (2 + sp.Abs(x) ** 5),
    "roots of x": x / (1 + sp.sqrt(sp.Abs(x))) ** 2,
    "a cube root of x": x * sp.Abs(x) ** R(2, 3) / (1 + sp.Abs(x) ** R(5, 3)),
}


@pytest.mark.parametrize("name", SATURATING)
def test_squares_of_slopes_close(name: str) -> None:
    """int phi'^2, of phi as it is and with all brackets multiplied out, against mpmath"""
    rate = SATURATING[name].diff(x)
    with mp.workdps(25):
        value = sp.lambdify(x, rate**2, "mpmath")
        truth = mp.quad(lambda t: value(t) + value(-t), [0, mp.mpf("0.1"), 1, 3, 10, 100, mp.inf])
    for square in (rate**2, sp.expand(rate**2), sp.expand(sp.factor(rate**2))):
        found = finite_part(folded(square), 0)
        assert not found.has(FinitePart)
        assert abs(mp.mpf(sp.N(found, 25)) - truth) < 1e-15


@pytest.mark.parametrize("orders", [(1, 1, 2), (2, 1, 1), (1, 2, 1), (1, -1, R(1, 2)), (R(3, 2), 1, -1), (-1, 1, R(-3, 2))])
def test_the_unit_of_exponentials(orders: tuple[sp.Expr, ...]) -> None:
    """a gcd of 1 is not the last word where a fraction follows"""
    rational = sp.Add(*[k * sp.exp(k * x) / (1 + sp.exp(k * x)) ** 2 for k in orders])
    assert finite_part(rational, 0) == sp.Add(*[sp.sign(k) for k in orders]) / 2
    assert abs(sp.N((gathered(rational) - rational).subs(x, R(1, 3)), 20)) < 1e-18


def test_one_integral_has_one_spelling() -> None:
    """an integral, and an expectation, stay as they are in what is cancelled around them"""
    integrals = (FinitePart(sp.exp(-x) / (x**3 + 1) ** R(2, 3), 0), Expectation(1 / (x**6 + 1) ** R(2, 3), mf.q))
    for t in integrals:
        assert cancelled((mf.q**2 - 1) * t / (mf.q + 1)) == (mf.q - 1) * t
