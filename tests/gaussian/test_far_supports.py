"""Functions that are 0 but for an interval far from the mean: kernels against sums over that interval, the same on either side of it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import sympy as sp
from cases import panels
from numpy.typing import NDArray

import meanfield as mf
from meanfield.gaussian.node_rules import joint_window, meetings
from meanfield.gaussian.shape_rows import wider
from meanfield.gaussian.singularities import shape_of

x, q, p, q1, q2 = mf.x, mf.q, mf.p, mf.q1, mf.q2
Floats = NDArray[np.float64]

CORRELATIONS = (-0.99, -0.95, -0.5, -0.1, 0.1, 0.5, 0.9, 0.99)


def within(f: sp.Expr, low: sp.Expr | int, high: sp.Expr | int) -> sp.Expr:
    return sp.Piecewise((f, (x > low) & (x < high)), (0, True))


#: the function on its interval, 0 at no end, at one end, at both, in the middle; and the interval
BUMPS: dict[str, tuple[sp.Expr, Callable[[Floats], Floats], tuple[float, float]]] = {
    "step": (within(sp.S.One, 2, 4), np.ones_like, (2.0, 4.0)),
    "slope": (within(x - 2, 2, 4), lambda u: u - 2, (2.0, 4.0)),
    "arch": (sp.Max(0, 1 - (x - 3) ** 2), lambda u: 1 - (u - 3) ** 2, (2.0, 4.0)),
    "valley": (within(sp.atan(x - 3) ** 2, sp.Rational(29, 10), sp.Rational(31, 10)), lambda u: np.arctan(u - 3) ** 2, (2.9, 3.1)),
}


def points(value: Callable[[Floats], Floats], ends: tuple[float, float]) -> tuple[Floats, Floats]:
    """nodes on an interval, and a function there times their weights"""
    u, w = panels(np.linspace(*ends, 26))
    return u, value(u) * w


def summed(value: Callable[[Floats], Floats], ends: tuple[float, float], law: tuple[float, float, float], mean: float = 0.0) -> float:
    """ln E f(u) f(v) by panels on the square that is left, in long doubles where the exponent is large"""
    return log_of_sum(*points(value, ends), law, mean)


def log_of_sum(u: Floats, f: Floats, law: tuple[float, float, float], mean: float) -> float:
    first, covariance, second = map(np.longdouble, law)
    rho = covariance / np.sqrt(first * second)
    rest = (1 - rho) * (1 + rho)
    a, b = (u.astype(np.longdouble) - mean) / np.sqrt(first), (u.astype(np.longdouble) - mean) / np.sqrt(second)
    exponent = ((a**2)[:, None] + b**2 - 2 * rho * a[:, None] * b) / (2 * rest)
    least = exponent.min()
    total = f @ np.exp(-(exponent - least).astype(float)) @ f
    return math.log(total / (2 * math.pi * math.sqrt(float(rest * first * second)))) - float(least)


def check(kernel: sp.Expr, values: dict[str, Floats], logs: list[float]) -> None:
    """values and bounds, with and without these, where they are normal doubles"""
    seen = np.array(logs) > -690.0
    values, truth = {name: v[seen] for name, v in values.items()}, np.exp(np.array(logs)[seen])
    found, bound = mf.evaluate(kernel, error=True, **values)
    slack = 4e-13 + 1e-15 * np.abs(np.log(truth))  # of the sums
    assert (np.abs(found - truth) <= slack * truth).all(), np.abs(found / truth - 1).max()
    assert (np.abs(mf.evaluate(kernel, **values) - truth) <= slack * truth).all()
    assert (np.abs(found - truth) <= bound + 1e-13 * truth).all()
    assert (bound <= 1e-10 * truth).all(), (bound / truth).max()


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("name", BUMPS)
def test_kernels(name: str, side: int) -> None:
    f, value, ends = BUMPS[name]
    laws = [(v, rho * v, v) for v in (0.03, 0.1, 0.3, 1.0, 1e4) for rho in CORRELATIONS]
    table = np.array(laws)
    check(mf.Activation(f.subs(x, side * x)).kernel(q, p), {"q": table[:, 0], "p": table[:, 1]}, [summed(value, ends, law) for law in laws])


@pytest.mark.parametrize("side", [1, -1])
def test_kernels_beside_a_mean_and_at_unequal_variances(side: int) -> None:
    f, value, ends = BUMPS["arch"]
    phi = mf.Activation(f.subs(x, side * x))
    laws = [(v, rho * v, v) for v in (0.3, 1.0, 50.0) for rho in CORRELATIONS]
    table = np.array(laws)
    check(phi.kernel(q, p, mean=-side), {"q": table[:, 0], "p": table[:, 1]}, [summed(value, ends, law, -1.0) for law in laws])
    laws = [(v, rho * math.sqrt(v * w), w) for v, w in ((0.1, 0.2), (0.7, 30.0)) for rho in CORRELATIONS]
    table = np.array(laws)
    check(phi.kernel(q1, p, q2), dict(zip(("q1", "p", "q2"), table.T, strict=True)), [summed(value, ends, law) for law in laws])


#: functions on two intervals: on the one and on the other
TWO: dict[str, tuple[tuple[sp.Expr, Callable[[Floats], Floats], tuple[int, int]], ...]] = {
    "unlike": ((sp.tanh(x) + 2, lambda u: np.tanh(u) + 2, (-5, -4)), (sp.atan(x), np.arctan, (2, 3))),
    "far": ((1 + x**2, lambda u: 1 + u**2, (6, 7)), (sp.S.One, np.ones_like, (-3, -2))),
    "even": ((sp.exp(-x), lambda u: np.exp(-u), (3, 4)), (sp.exp(x), np.exp, (-4, -3))),
}


@pytest.mark.parametrize("mean", [0, sp.Rational(3, 2), -sp.Rational(3, 2)])
@pytest.mark.parametrize("name", TWO)
def test_kernels_of_two_bumps(name: str, mean: sp.Rational) -> None:
    """one far from the mean, of which what both inputs share sees the most where one is on the one and the other on the other"""
    (f, first, ends), (g, second, others) = TWO[name]
    u, weighed = map(np.concatenate, zip(points(first, ends), points(second, others), strict=True))
    laws = [(v, rho * v, v) for v in (0.03, 0.05, 0.2, 1.0, 5.0) for rho in (-0.99, -0.5, -0.1, 0.1, 0.5, 0.99)]
    table, phi = (
        np.array(laws),
        mf.Activation(sp.Piecewise((f, (x > ends[0]) & (x < ends[1])), (g, (x > others[0]) & (x < others[1])), (0, True))),
    )
    logs = [log_of_sum(u, weighed, law, float(mean)) for law in laws]
    check(phi.kernel(q, p, mean=mean), {"q": table[:, 0], "p": table[:, 1]}, logs)


def test_windows_are_wider_in_more_detail() -> None:
    shape = shape_of(BUMPS["arch"][0])
    assert [wider(shape.row(detail)) for detail in (1.0, 1.3, 2.0)] == [0.0, 1.3, 2.0]


def test_what_two_inputs_share_is_seen_where_either_is_on_its_own_bump() -> None:
    """at 8 and -6 deviations and a correlation of -1/2 it is at 14 sqrt(1/2)/(3/2); at 1/2 the two are on one bump"""
    places, sizes = np.array([8.0, -6.0]), np.zeros(2)
    assert joint_window(places[:1], sizes, places[1:], sizes, -0.5) == pytest.approx(14 * math.sqrt(0.5) / 1.5 + 8.6)
    assert joint_window(places, sizes, places, sizes, 0.5) == pytest.approx(16 * math.sqrt(0.5) / 1.5 + 8.6)


def test_no_value_is_called_an_underflow_that_is_none() -> None:
    """next to 0 and -u: of e^-117"""
    tent = mf.Activation(sp.Max(0, 1 - sp.Abs(x + 2))).kernel(q, p)
    truth = float(mf.evaluate(tent, q=0.1, p=-0.09, digits=17))
    value, bound = mf.evaluate(tent, q=0.1, p=-0.09, error=True)
    assert abs(value - truth) <= bound <= 1e-11 * truth


def test_every_interval_on_which_a_function_is_0_is_known() -> None:
    shape = shape_of(within(sp.S.One, -4, -2) + within(x, 1, 3))
    assert shape.voids == ((-math.inf, -4.0), (-2.0, 1.0), (3.0, math.inf))


def test_where_blurred_edges_meet_is_the_mirror_image_on_the_other_side() -> None:
    right, left = (shape_of(BUMPS["step"][0].subs(x, side * x)).row() for side in (1, -1))
    for row in (right, left):
        places = np.empty(4)
        assert meetings(row, row, 0.0, 0.9, 0.2, 0.0, -1.0, 0.2, places) == 1
        assert abs(places[0]) < 1e-15
