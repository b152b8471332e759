"""Gaps of functions with roots and logarithms away from 0, down to distances that no double next to them can tell."""

import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.cells import cells

x = mf.x


def test_a_logarithm_wherever_it_is() -> None:
    """u -> 1 + r is log r near 1: the gap goes as sqrt(delta), by the density there"""
    about, away = (mf.Activation(sp.log(sp.Abs(x - k))) for k in (0, 1))
    delta = 1e-200
    near, far = (mf.evaluate(phi.gap(mf.q, mf.delta), q=4.0, delta=delta) for phi in (about, away))
    assert far == pytest.approx(near * float(sp.exp(-sp.Rational(1, 8))), rel=1e-11)


def test_two_roots_are_two_cells() -> None:
    f = sp.sqrt(sp.Abs(x**2 - 2))
    first, second = cells(f)
    assert first.place == -second.place == -sp.sqrt(2)
    assert (first.low, second.high) == (-float("inf"), float("inf"))
    assert first.high == -second.low == pytest.approx(2**0.5)
    assert abs(second.function.xreplace({x: sp.Float("1e-30")}) / sp.sqrt(sp.Float("1e-30") * 2 * sp.sqrt(2)) - 1) < 1e-12
    assert cells(sp.sqrt(sp.Abs(x))) == () == cells(sp.tanh(x - 1))
