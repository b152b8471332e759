"""Nodes for projections on Hermite polynomials, and these polynomials by their recurrence, which does not cancel."""

from __future__ import annotations

import math

import numpy as np

from meanfield.gaussian.node_rules import WIDEST
from meanfield.gaussian.panel_rules import along, spanned
from meanfield.gaussian.shape_rows import DETAIL, PARITY, breaks_of, jumps_of, sharp_of

__all__ = [
    "MEHLER",
    "MEHLER_REST",
    "MEHLER_TERMS",
    "hermite_size",
    "hermite_sum",
    "nodes_of_degree",
    "normalised_hermite",
    "shape_sign",
    "unsure_of_degree",
]

#: radians of the fastest oscillation sqrt(n) z of h_n on one panel, of which 20 nodes leave 1e-17 beside a function that they resolve
RADIANS = 6.0
MEHLER = 1.0 / 32.0  # correlation up to which products of two inputs are summed by Mehler's series
MEHLER_TERMS = 24  # most of its terms: these leave 1e-36 of second moments
MEHLER_REST = 1e-17  # what may be left of it, relative to the sum


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


def shape_sign(shape: np.ndarray, mu: float) -> float:
    """1 where f is even about the mean, -1 where it is odd, else 0."""
    return float(shape[PARITY]) if mu == 0.0 else 0.0


def hermite_sum(sign: float, n: int, z: np.ndarray, values: np.ndarray, count: int) -> float:
    """The sum of values times h_n at z; 0 where a function of that sign has none."""
    total = 0.0
    if sign * (1.0 - 2.0 * (n % 2)) < 0.0:
        return total
    for i in range(count):
        total += values[i] * normalised_hermite(n, z[i])
    return total


def hermite_size(shape: np.ndarray, n: int, mu: float, s: float, z: np.ndarray, sizes: np.ndarray, count: int) -> float:
    """What rounding adds to that sum, sizes being those of f in units of 2^-53 (64 |f| or more): of f, of h_n at nodes that are rounded as
    they are beside the mean, h_n' = sqrt(n) h_{n-1}, and of jumps."""
    total = unsure_of_degree(shape, n, mu, s)
    if shape_sign(shape, mu) * (1.0 - 2.0 * (n % 2)) < 0.0:
        return 0.0
    beside = abs(mu) / s * math.sqrt(n) / 32.0
    for i in range(count):
        total += sizes[i] * ((1.0 + 0.125 * n) * abs(normalised_hermite(n, z[i])) + beside * abs(normalised_hermite(n - 1, z[i])))
    return total


def unsure_of_degree(shape: np.ndarray, n: float, mu: float, s: float) -> float:
    """What the rounding of the places of jumps changes in the mean of f h_n, in units of 2^-53."""
    breaks, jumps, total = breaks_of(shape), jumps_of(shape), 0.0
    for j in range(breaks.size):
        if jumps[j] != 0.0:
            z = (breaks[j] - mu) / s
            total += abs(jumps[j] * breaks[j] / s * normalised_hermite(n, z)) * math.exp(-0.5 * z * z)
    return total
