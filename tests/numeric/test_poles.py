"""Functions that are infinite at places away from 0: their moments of one and two variables."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.gaussian.slopes import slope
from meanfield.symbols import known

x, y = known("x"), known("y")


def test_roots_away_from_0_have_slopes_with_means() -> None:
    """a double next to 1 does not tell how far it is from there: E (x - 1)^(-2/5) over x > 1, by x = 1 + s^(5/3)"""
    root = mf.Activation(sp.Max(mf.x - 1, 0) ** sp.Rational(4, 5))
    with mp.workdps(25):
        true = mp.quad(lambda s: mp.mpf(16) / 15 * mp.npdf(1 + s ** (mp.mpf(5) / 3)), [0, 1, 2, 6])
    run = mf.propagate(mf.mlp(root), 1, q=1.0, c=0.3, sigma_w=1, sigma_b=0.2)
    assert run.status == "ok"
    assert math.exp(run.log_apjn[0]) == pytest.approx(float(true), rel=1e-12)


@pytest.mark.parametrize("root", [sp.sqrt(sp.Abs(x + 1)), sp.sqrt(sp.Abs(x)), sp.log(sp.Abs(x + 2))], ids=str)
def test_what_has_a_kink_elsewhere_keeps_its_value_there(root: sp.Expr) -> None:
    pole = sp.Abs(x - 1) ** sp.Rational(-2, 5)
    whole = mf.evaluate(Expectation(pole + root, 1))
    assert whole == pytest.approx(mf.evaluate(Expectation(pole, 1)) + mf.evaluate(Expectation(root, 1)), rel=1e-12)


@pytest.mark.parametrize("c", [sp.Rational(3, 10), sp.Rational(-1, 2), sp.Rational(99, 100)])
@pytest.mark.parametrize("base", [sp.Max(x - 1, 0), sp.Abs(x**2 - 1)], ids=str)
def test_pairs_of_functions_that_are_infinite_away_from_0(base: sp.Expr, c: sp.Rational) -> None:
    f = slope(base ** sp.Rational(4, 5))
    node = PairExpectation(f * f.xreplace({x: y}), 1, c, 1)
    assert mf.evaluate(node) == pytest.approx(float(node.evalf(15)), rel=1e-12)


def test_what_has_no_value_at_a_point_alone_is_an_activation() -> None:
    third = sp.Rational(1, 3)
    assert mf.Activation(mf.x + sp.Max(mf.x - third, 0) ** sp.Rational(2, 3)).derivative
    assert mf.Activation(sp.sin(mf.x - third) / (mf.x - third)).derivative
    with pytest.raises(ValueError, match="pole at x = 1/3"):
        mf.Activation(1 / (mf.x - third))
