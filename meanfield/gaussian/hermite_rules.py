"""Nodes for projections on Hermite polynomials, and these polynomials by their recurrence, which does not cancel."""

from __future__ import annotations

import math

import numpy as np

from meanfield.gaussian.node_rules import WIDEST
from meanfield.gaussian.panel_rules import along, spanned
from meanfield.gaussian.shape_rows import DETAIL, breaks_of, sharp_of

__all__ = ["nodes_of_degree", "normalised_hermite"]

#: radians of the fastest oscillation sqrt(n) z of h_n on one panel, of which 20 nodes leave 1e-17 beside a function that they resolve
RADIANS = 6.0


def normalised_hermite(n: float, z: float) -> float:
    """h_n(z) = He_n(z)/sqrt(n!), by z h_k = sqrt(k + 1) h_{k+1} + sqrt(k) h_{k-1}: each error counts beside exp(z^2/4), as h_n does."""
    before, now = 0.0, 1.0
    for k in range(int(n)):
        before, now = now, (z * now - math.sqrt(k) * before) / math.sqrt(k + 1.0)
    return now


def nodes_of_degree(shape: np.ndarray, n: float, s: float, window: float, y: np.ndarray, w: np.ndarray) -> int:
    """The rule for f(u) h_n(u/s) under N(0, s^2), f itself counting up to `window` deviations; -1 where it is not resolved.

    |h_n(z)| < 1.1 exp(z^2/4), which is half of what the density has: the window is sqrt(2) times that of f.
    """
    breaks = breaks_of(shape)
    far = math.sqrt(2.0) * window
    if far > WIDEST:
        far = WIDEST
    if not (far > 0.0 and 0.0 < far * s < math.inf) or not spanned(0.0, s, breaks, far):
        return -1
    longest = min(1.0, RADIANS / math.sqrt(n + 1.0)) / shape[DETAIL]
    return along(0.0, s, breaks, sharp_of(shape), np.zeros(breaks.size), far, longest, y, w)
