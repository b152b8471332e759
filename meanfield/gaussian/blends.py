"""A function smoothed by a wide Gaussian, interpolated between panels; and a wave beside it, as a factor."""

from __future__ import annotations

import numpy as np

from meanfield.gaussian.panel_rules import LEGENDRE_W, LEGENDRE_X
from meanfield.gaussian.shape_rows import COUNT, WINDOW, breaks_of, jumps_of, sharp_of
from meanfield.gaussian.wave_rules import FAR, HEAD, NEAR, WIDTH, far_of, near_of, phases_of

__all__ = ["BLENDS", "SMOOTHED", "beside", "blended", "smoothed_ends"]

BLENDS = np.sqrt((1.0 - LEGENDRE_X**2) * LEGENDRE_W) * (-1.0) ** np.arange(LEGENDRE_X.size)  # barycentric weights
SMOOTHED = 512  # most panels of a smoothed function


def smoothed_ends(row: np.ndarray, s: float, reach: float, ends: np.ndarray) -> int:
    """Ends of panels on [-reach, reach] that resolve y -> E f(y + s xi), s wide; return their number, -1 where they are too many."""
    far = far_of(row)
    half = np.zeros(ends.size // 2)
    n = 1
    while half[n - 1] < reach:
        low = half[n - 1]
        length = max(low - far[0], 0.0)
        j = int(np.searchsorted(far, low))
        if 0 < j < far.size:
            length = min(length, far[j] - far[j - 1])
        if n == half.size:
            return -1
        half[n] = low + max(2.0 * s, length)
        n += 1
    for i in range(n):
        ends[n - 1 - i] = -half[i]
        ends[n - 1 + i] = half[i]
    return 2 * n - 1


def blended(ends: np.ndarray, values: np.ndarray, at: float) -> float:
    """What a function with those values at the Gauss-Legendre nodes of panels is at a point."""
    k = min(max(int(np.searchsorted(ends, at)) - 1, 0), ends.size - 2)
    t = (2.0 * at - ends[k] - ends[k + 1]) / (ends[k + 1] - ends[k])
    top = 0.0
    bottom = 0.0
    for g in range(BLENDS.size):
        apart = t - LEGENDRE_X[g]
        if apart == 0.0:
            return float(values[k * BLENDS.size + g])
        top += BLENDS[g] / apart * values[k * BLENDS.size + g]
        bottom += BLENDS[g] / apart
    return top / bottom


def beside(row: np.ndarray, ends: np.ndarray, whole: np.ndarray) -> int:
    """A wave for a product with what panels between those ends resolve: its phases are lost where these are long; its size."""
    far, near, phases = far_of(row), near_of(row), phases_of(row)
    begin = far[0]
    for i in range(ends.size - 1):
        if ends[i + 1] - ends[i] < WINDOW * row[WIDTH]:
            begin = max(begin, abs(ends[i]), abs(ends[i + 1]))
    breaks, sharp, jumps = breaks_of(near), sharp_of(near), jumps_of(near)
    n, m = breaks.size, ends.size
    outward, every = np.empty(far.size + m), np.empty(n + m)
    for i in range(far.size):
        outward[i] = far[i]
    for i in range(m):
        outward[far.size + i] = abs(ends[i])
        every[n + i] = min(max(ends[i], breaks[0]), breaks[-1])
    for i in range(n):
        every[i] = breaks[i]
    k = HEAD
    order = np.argsort(outward)
    for i in range(outward.size):
        if outward[order[i]] >= begin:
            whole[k] = outward[order[i]]
            k += 1
    for i in range(HEAD):
        whole[i] = row[i]
    whole[FAR] = k - HEAD
    whole[NEAR] = near.size + 3 * m
    for i in range(COUNT):
        whole[k + i] = near[i]
    k += COUNT
    whole[k] = n + m
    k += 1
    order = np.argsort(every)
    for i in range(n + m):
        j = order[i]
        whole[k + i] = every[j]
        whole[k + n + m + i] = sharp[j] if j < n else 0.0
        whole[k + 2 * (n + m) + i] = jumps[j] if j < n else 0.0
    k += 3 * (n + m)
    for i in range(COUNT + 1 + 3 * n, near.size):
        whole[k] = near[i]
        k += 1
    for i in range(phases.size):
        whole[k + i] = phases[i]
    return k + phases.size
