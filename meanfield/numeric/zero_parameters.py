"""Points of a grid where parameters are exactly 0, and what that makes of the network there."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from meanfield.keeping import remembered
from meanfield.recurrence import Recursion

__all__ = ["deaf_points", "joining_points", "silent_points", "undefined_points", "zeros_of"]


def silent_points(rec: Recursion, table: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which columns of a table of parameters, a row for each, are of a network that takes every signal to 0."""
    return _points("silent", rec, table)


def deaf_points(rec: Recursion, table: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which are of a network that says the same of every signal."""
    return _points("deaf", rec, table)


def undefined_points(rec: Recursion, table: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which are of a network that divides by nothing."""
    return _points("undefined", rec, table)


def joining_points(rec: Recursion, table: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which are of a network that takes opposite inputs to one, q - p = 2 q to 0."""
    return _points("joins", rec, table)


def _points(what: str, rec: Recursion, table: NDArray[np.float64]) -> NDArray[np.bool_]:
    found = np.zeros(table.shape[1], dtype=bool)
    for zero, points in zeros_of(rec, table):
        found[points] = _holds(what, rec, zero)
    return found


@lru_cache(maxsize=256)
def _holds(what: str, rec: Recursion, zero: frozenset[str]) -> bool:
    """what `silence` says, of an earlier process if it was asked before"""

    def asked() -> bool:
        from meanfield.numeric import silence

        return bool(getattr(silence, what)(rec, zero))

    return remembered(f"{what} {sorted(zero)} {rec.name}", asked)


def zeros_of(rec: Recursion, table: NDArray[np.float64]) -> list[tuple[frozenset[str], NDArray[np.int64]]]:
    """Names of parameters that are 0 together, and the columns of a table, a row for each parameter, where these and no others are."""
    if not table.shape[1]:
        return []
    names = np.array([s.name for s in rec.parameters], dtype=object)
    if (table != 0).all():  # or there are none
        return [(frozenset(), np.arange(table.shape[1]))]
    patterns, which = np.unique(table == 0, axis=1, return_inverse=True)
    return [(frozenset(names[pattern]), np.flatnonzero(which.ravel() == k)) for k, pattern in enumerate(patterns.T)]
