"""Means of a function of v given u where v varies little against its strip of analyticity: a few Gauss-Hermite nodes about each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.gaussian.panels import hermite_rule
from meanfield.gaussian.resolution import Real
from meanfield.numeric.law_rows import Rows

__all__ = ["NARROW", "hermite_means"]

Floats = NDArray[np.float64]

NARROW = 0.08  # deviation, against the strip, up to which these nodes do: 12! 0.08^24 = 2e-18
FEW, MORE = hermite_rule(12), hermite_rule(16)


def hermite_means(g: Real, first: Rows, mean: Floats, s: Floats, rho: Floats, tau: Floats, finer: bool) -> tuple[Floats, Floats, Floats]:
    """E g(v) and E |g(v)| given each u, and the largest |g| met with of each law."""
    z, w = MORE if finer else FEW
    law = first.law
    middle, across = mean[law] + s[law] * rho[law] * first.z, s[law] * tau[law]
    with np.errstate(all="ignore"):
        values = g(middle[:, None] + across[:, None] * z)
    sizes = np.abs(values)
    return values @ w, sizes @ w, np.asarray(np.maximum.reduceat(sizes.max(axis=1), first.starts[:-1]))
