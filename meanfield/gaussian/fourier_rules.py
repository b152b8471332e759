r"""Two periodic functions of two Gaussians by their Fourier coefficients: exponents and how many of them count.

With f = \sum_n a_n e^{i n \omega x} and g = \sum_m b_m e^{i m \nu x},

    E f(u) g(v) = \sum_{n,m} a_n b_m e^{i (n \omega m_1 + m \nu m_2)} e^{-V/2},   V = Var(n \omega u + m \nu v),

of which little is left under wide Gaussians: what counts are combinations whose variance is small. All terms with n = 0 or m = 0 are
F G - (F - a_0) (G - b_0), F = E f(u) and G = E g(v): where one input is narrow nothing cancels but in the others.
"""

from __future__ import annotations

import math

import numpy as np

from meanfield.gaussian.node_rules import UNIT, UNROLLED, combined
from meanfield.gaussian.panel_rules import UNIFORM, wrapped
from meanfield.gaussian.shape_rows import DETAIL, PERIOD, WIDTH, WINDOW, breaks_of, sharp_near, sharp_of

__all__ = ["HARMONICS", "common_denominator", "frequency", "harmonics_kept", "period_nodes", "series_helps", "settled_at", "variance_of"]

HARMONICS = 512  # most harmonics of one function
WAVING = 10.0  # radians of the last harmonic that a panel holds
RESOLVED = 12.0  # radians of a harmonic on half a panel, beyond which its 20 nodes do not resolve it
SETTLING = 12  # so many harmonics in turn are rounding where f has no more of them
WIDE, NARROW = 0.5, 0.02  # radians: deviations of which a function has all its sizes, and so little that terms of order 1 leave 3e-13 of it
DENOMINATORS = 64  # of ratios of two periods


def frequency(shape: np.ndarray) -> float:
    """That of the first harmonic."""
    return float(2.0 * math.pi / shape[PERIOD])


def series_helps(first: np.ndarray, second: np.ndarray, q1: float, q2: float, apart: float) -> bool:
    """Whether the series is as good as panels, or these do not go as far; apart is q1 q2 - p^2."""
    one, other = frequency(first) * math.sqrt(q1), frequency(second) * math.sqrt(q2)
    if min(one, other) >= WIDE:
        return True
    far = WINDOW * max(one, other) >= 2.0 * math.pi * UNROLLED
    lost = max(frequency(first) * math.sqrt(apart / q2), frequency(second) * math.sqrt(apart / q1)) >= WINDOW
    return lost or (far and min(one, other) >= NARROW)


def common_denominator(ratio: float) -> float:
    """The least b for which ratio b is a whole number up to rounding; 0 where there is none among small ones."""
    for b in range(1, DENOMINATORS + 1):
        if abs(ratio * b - math.floor(ratio * b + 0.5)) <= 4.0 * UNIT * ratio * b:
            return float(b)
    return 0.0


def harmonics_kept(shape: np.ndarray, own: float) -> int:
    """How many harmonics are left of f smoothed by a normal of deviation `own`; -1 where they are too many, as next to kinks without it."""
    kept = WINDOW / max(frequency(shape) * own, 1e-300)
    if kept >= HARMONICS and sharp_near(shape, 0.0, math.inf) >= 0:
        return -1
    return math.floor(min(kept, float(HARMONICS)))


def period_nodes(shape: np.ndarray, harmonics: int, y: np.ndarray, w: np.ndarray) -> int:
    """The mean over a period of f times any of so many harmonics; -1 where it is not resolved."""
    whole, breaks = shape[PERIOD], breaks_of(shape)
    deviation = UNIFORM * whole
    longest = min(3.0, WAVING / (max(harmonics, 1) * frequency(shape) * deviation))
    return wrapped(whole, 0.0, deviation, breaks, sharp_of(shape), np.zeros(breaks.size), WINDOW, longest / shape[DETAIL], y, w)


def settled_at(shape: np.ndarray, real: np.ndarray, imaginary: np.ndarray, count: int, scale: float) -> bool:
    """Whether the last of so many harmonics are rounding against a scale, and faster than all that panels of f resolve."""
    if count <= SETTLING or count * frequency(shape) * shape[WIDTH] < RESOLVED:
        return False
    largest = 0.0
    for n in range(count - SETTLING, count):
        largest = max(largest, abs(real[n]), abs(imaginary[n]))
    return bool(largest <= 4.0 * UNIT * scale)


def variance_of(n: float, p: float, m: float, q2: float, rest: float) -> float:
    """Var(n u + m v) for a covariance p, a variance q2 of v and `rest` of u given v."""
    off = combined(n, p, m, q2) / math.sqrt(q2)
    return n * n * rest + off * off
