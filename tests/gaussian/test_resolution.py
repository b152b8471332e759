"""Panels on which 20 nodes resolve a function, and what is left over there: rounding, or a wave as small."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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
