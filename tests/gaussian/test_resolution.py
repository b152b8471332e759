"""Panels on which 20 nodes resolve a function, and what is left over there: rounding, or a wave as small."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.resolution import resolves


def test_a_faint_wave_is_told_from_rounding_in_few_calls() -> None:
    """both are as small on the whole panel, and each of its 128 parts is looked at: a wave is resolved there, rounding is not"""
    calls = []

    def faint(wiggle: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        def f(v: np.ndarray) -> np.ndarray:
            calls.append(v.size)
            return np.asarray(1e-3 + 1e-15 * wiggle(v))

        return f

    assert not resolves(faint(lambda v: np.sin(300.0 * v)), 1.0, 0.1, 0.6)
    assert len(calls) < 12
    assert sum(calls) > 128 * 20
    assert resolves(faint(lambda v: np.sin(1e9 * v)), 1.0, 0.1, 0.6)


def test_a_part_without_a_value_is_no_rounding() -> None:
    def f(v: np.ndarray) -> np.ndarray:
        return np.where(np.abs(v - 0.45) < 1e-4, np.inf, 1e-3 + 1e-15 * np.sin(300.0 * v))

    assert not resolves(f, 1.0, 0.1, 0.6)


@pytest.mark.parametrize("q", [1e36, 1e40, 1e80, 1e120])
def test_logarithms_go_on_as_far_as_squares_are_doubles(q: float) -> None:
    """E ln^2(1 + |u|) by E ln|z| = -(gamma + ln 2)/2 and Var ln|z| = pi^2/8, z standard normal: the 1 counts for nothing"""
    phi, about = mf.Activation(sp.log(1 + sp.Abs(mf.x))), math.log(q) / 2 - (float(sp.EulerGamma) + math.log(2)) / 2
    assert mf.evaluate(phi.mean(mf.q), q=q) == pytest.approx(about, rel=1e-13)
    assert mf.evaluate(phi.second_moment(mf.q), q=q) == pytest.approx(about**2 + math.pi**2 / 8, rel=1e-13)
