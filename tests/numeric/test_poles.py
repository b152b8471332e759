"""Functions that are infinite at places away from 0: their moments of one and two variables."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.gaussian.slopes import slope
from meanfield.symbols import known

x, y = known("x"), known("y")
a, b, r = sp.symbols("a b r")

Phi = Callable[..., sp.Expr]


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


@pytest.mark.parametrize("c", [sp.Rational(-1, 2), sp.Rational(99, 100)])
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


def of_one_side(k: sp.Expr, e: sp.Expr) -> sp.Expr:
    return sp.Max(mf.x - k, 0) ** e


def odd_about_it(k: sp.Expr, e: sp.Expr) -> sp.Expr:
    return sp.Abs(mf.x - k) ** e * sp.sign(mf.x - k)


@pytest.mark.parametrize(("root", "power"), [(of_one_side, "3/5"), (of_one_side, "r"), (odd_about_it, "2/3"), (odd_about_it, "r")])
def test_a_place_with_a_name_is_one_with_its_number(root: Phi, power: str) -> None:
    """next to a place that a parameter moves a double tells as little how far it is from there as next to 1"""
    exponent = r if power == "r" else sp.Rational(power)
    open_ = mf.mlp(mf.Activation(root(a, exponent)))
    of_power = {"r": 0.7} if power == "r" else {}
    for place in (sp.Integer(1), sp.Rational(-7, 10), sp.S.Zero):
        told = mf.mlp(mf.Activation(root(place, sp.Rational(7, 10) if power == "r" else exponent)))
        given = {"q": 1.0, "c": 0.4, "sigma_w": 1.2, "sigma_b": 0.3}
        found, true = mf.propagate(open_, 2, a=float(place), **of_power, **given), mf.propagate(told, 2, **given)
        assert found.status == true.status == "ok"
        for one, other in ((found.q, true.q), (found.log_apjn, true.log_apjn), (found.chi, true.chi), (found.gap, true.gap)):
            assert np.allclose(one, other, rtol=1e-12, atol=1e-14)


#: functions of two parameters, and these: places in either order and as one, with roots and without
MOVING = {
    "two places": (
        lambda a, b: sp.Abs(x - a) ** sp.Rational(4, 5) * sp.Abs(x - b) ** sp.Rational(2, 3),
        ("1 -1/2", "-7/10 -7/10", "-1/3 2"),
    ),
    "a square": (lambda a, b: sp.Abs(x**2 - a) ** sp.Rational(4, 5) + b * x, ("1 -1/2", "-7/10 -7/10")),
    "a parabola": (lambda a, b: sp.Abs(3 * x**2 - a * x + b / 3) ** sp.Rational(3, 5), ("1 -1/2", "-1/3 2")),
    "a logarithm": (lambda a, b: (x - a) * sp.log(sp.Abs(x - a)) + sp.Max(x, b) ** 2, ("1 -1/2", "-7/10 -7/10", "-1/3 2")),
}


@pytest.mark.parametrize(("name", "values"), [(name, values) for name, (_, every) in MOVING.items() for values in every])
def test_places_that_parameters_move_past_one_another(name: str, values: str) -> None:
    """two that are one, and parabolas with and without roots, among them"""
    base, (k, m) = MOVING[name][0], map(sp.Rational, values.split())
    found, true = steep_moments(base(a, b), a=float(k), b=float(m)), steep_moments(base(k, m))
    assert found == pytest.approx(true, rel=1e-12)


def steep_moments(f: sp.Expr, **parameters: float) -> tuple[float, float]:
    """E f'(u)^2 and E f'(u) f'(v)"""
    steep = mf.Activation(f).derivative
    return mf.evaluate(steep.second_moment(1.2), **parameters), mf.evaluate(steep.kernel(1.2, 0.3), **parameters)


@pytest.mark.parametrize("power", ["1/2", "2/5"])
def test_a_slope_without_a_mean_square_at_a_place_with_a_name_is_refused(power: str) -> None:
    root = mf.Activation(sp.Max(mf.x - a, 0) ** sp.Rational(power))
    with pytest.raises(ValueError, match="infinite for every variance"):
        mf.mlp(root)
