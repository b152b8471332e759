"""The law of 1 - c where slopes are infinite in a way that is no delta: roots, and other powers that are not whole."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import panels
from scipy.stats import norm
from sympy import Rational

import meanfield as mf
from meanfield.analysis.near_coincidence import small_gap

x, d = mf.x, sp.Symbol("d", positive=True)


def odd(a: sp.Expr) -> sp.Expr:
    return sp.sign(x) * sp.Abs(x) ** a


def graded(a: float, b: float) -> np.ndarray:
    """edges from a to b, ever closer to both"""
    steps = (b - a) / 2 * 0.5 ** np.arange(45)
    return np.concatenate([[a], a + steps[::-1], b - steps[1:], [b]])


def measured(f: sp.Expr, v: float, gap: float, corner: float) -> float:
    """E (f(m + s) - f(m - s))^2/2, m ~ N(0, v - gap/2) and s ~ N(0, gap/2)"""
    own, wide, narrow = sp.lambdify(x, f, "numpy"), np.sqrt(v - gap / 2), np.sqrt(gap / 2)

    def given(t: float) -> float:
        ends = [-9 * wide, corner - t, corner + t, 9 * wide]
        m, weights = panels(np.concatenate([graded(*pair)[:-1] for pair in itertools.pairwise(ends)] + [ends[-1:]]))
        return float(weights @ ((own(m + t) - own(m - t)) ** 2 * norm.pdf(m / wide) / wide))

    z, weights = panels(np.concatenate([[0.0], 8 * 0.5 ** np.arange(30)[::-1]]))
    return float(weights @ (np.array([given(narrow * v) for v in z]) * norm.pdf(z)))


@pytest.mark.parametrize(
    ("f", "corner", "left"),
    [
        (odd(Rational(2, 3)), 0, 1.0),  # D, D^(7/6) and then D^2
        (sp.Abs(x - 1) ** Rational(5, 4), 1, 1.0),
        (odd(Rational(1, 3)), 0, Rational(1, 6)),  # D^(5/6), then D
    ],
    ids=str,
)
def test_gaps_of_powers(f: sp.Expr, corner: float, left: float) -> None:
    near = -small_gap(f, f, sp.Integer(2), d).subs(sp.Symbol("unknown", real=True), 0)
    rest = [abs(measured(f, 2, gap, corner) / float(near.subs(d, gap)) - 1) for gap in (1e-3, 1e-5)]
    assert abs(np.log10(rest[0] / rest[1]) / 2 - left) < 0.05


def test_jumps_and_kinks_are_powers_too() -> None:
    """sign(x) + |x| + a root: the terms of the jump alone are those of the rule of jumps"""
    root = small_gap(sp.sign(x) + odd(Rational(5, 4)), sp.sign(x), sp.Integer(3), d)
    jump = small_gap(sp.sign(x), sp.sign(x), sp.Integer(3), d)
    assert sp.simplify((root - jump).subs(sp.Symbol("unknown", real=True), 0)) == 0


def test_a_logarithm_where_the_slope_just_has_no_square() -> None:
    """of sqrt(x), x > 0: E phi'^2 over x > D^(1/2) is n(0)/8 ln(1/D) and a constant"""
    near = small_gap(sp.sqrt(sp.Max(x, 0)), sp.sqrt(sp.Max(x, 0)), sp.Integer(2), d)
    near = near.subs(dict.fromkeys(near.free_symbols - {d}, 0))
    assert sp.simplify(near / (d * sp.log(d)) - 1 / (8 * sp.sqrt(4 * sp.pi))) == 0
    first, second = (measured(sp.sqrt(sp.Max(x, 0)), 2, gap, 0) / gap for gap in (1e-3, 1e-5))
    assert abs((second - first) / float((near / d).subs(d, 1e-5) - (near / d).subs(d, 1e-3)) + 1) < 5e-3


@pytest.mark.parametrize("a", [Rational(2, 3), Rational(1, 2), Rational(1, 3)])
def test_inputs_part_where_identical_ones_come_apart(a: sp.Expr) -> None:
    """c' is at most c, as all its Hermite coefficients are above 0 and add up to 1: c = 0 attracts"""
    law = mf.growth(mf.mlp(mf.Activation(odd(a))), sigma_w=1, sigma_b=0)
    assert law.gap.kind == "bounded"
    assert abs(sp.N(law.gap.limit, 20) - 1) < 1e-15
    share = (2 * mp.quad(lambda z: z ** (float(a) + 1) * mp.npdf(z), [0, 1, 9])) ** 2
    assert share / (2 * mp.quad(lambda z: z ** (2 * float(a)) * mp.npdf(z), [0, 1, 9])) < 1
