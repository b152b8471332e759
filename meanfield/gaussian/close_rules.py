r"""Nodes for two Gaussians that are close against the features of f: apart from its kinks and jumps, and across each of them.

With u, v = M + h, M - h, M of variance q - \delta/2, h of variance \delta/2, the two independent,

    E f(u)^2 - E f(u) f(v) = E_h \int \rho(M) (f(M + h) - f(M - h))^2/2 dM.

Between two kinks a < b the square is smooth for a + |h| < M < b - |h|, and for a - |h| < M < a + |h| it is that of the jump at a and of
what f gains on either side; as a function of |h| all of it is as smooth as the pieces of f, so that few nodes do.
"""

from __future__ import annotations

import math

import numpy as np

from meanfield.gaussian.panel_rules import LEGENDRE_W, LEGENDRE_X, UNIFORM, panels
from meanfield.gaussian.panels import legendre_rule
from meanfield.gaussian.shape_rows import PARITY, WIDTH, breaks_of, features, jumps_of, sharp_of, singular
from meanfield.gaussian.wave_rules import FINE, FIRST, ONE, SECOND, STEP, TWO, far_of, harmonic_nodes, near_of, outside, phases_of
from meanfield.gaussian.wave_rules import WIDTH as CALMING

__all__ = [
    "SHARP",
    "apart_nodes",
    "bell",
    "close_to",
    "closely",
    "ended",
    "fading",
    "joined",
    "ladder",
    "phase_apart",
    "phase_kinks",
    "second_apart",
    "slow_apart",
    "step_of",
    "turn",
    "whole_of",
]

SHARP = 4e-15  # of the place of a kink and of a panel: so near to it f is what it tends to, and on the side it is said to be
CLOSE = 0.05  # of the shortest feature: a deviation of u - v that is small against it


def _half_normal(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss for E g(|xi|), xi standard normal: recurrence by Stieltjes' procedure, then Golub and Welsch (1969)."""
    y, w = legendre_rule(80)
    y = 6.5 * (y + 1.0)
    w = w * np.exp(-0.5 * y**2)
    w = w / w.sum()
    before, now = np.zeros_like(y), np.ones_like(y)
    centres, norms = np.empty(count), np.empty(count)
    for k in range(count):
        norms[k] = w @ now**2
        centres[k] = w @ (y * now**2) / norms[k]
        beside = norms[k] / norms[k - 1] if k else 0.0
        before, now = now, (y - centres[k]) * now - beside * before
    off = np.sqrt(norms[1:] / norms[:-1])
    places, vectors = np.linalg.eigh(np.diag(centres) + np.diag(off, 1) + np.diag(off, -1))
    return places, vectors[0] ** 2


MANY, FEW = (
    np.concatenate((*_half_normal(count), *legendre_rule(inner)))  # for |h|, and within 2 h
    for count, inner in ((8, 5), (3, 2))
)


def shortest(shape: np.ndarray, slope: np.ndarray) -> float:
    """The shortest feature of f and of its slope."""
    return float(min(features(shape), slope[WIDTH]))


def ladder(shape: np.ndarray, slope: np.ndarray, s: float, delta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Nodes and weights for |h| in deviations, and within h: errors of order (sqrt(delta)/feature)^14, or ^4 where that is rounding.

    The density of deviation s is a feature too.
    """
    few = math.sqrt(delta) < 5e-5 * min(shortest(shape, slope), 0.1 * s)
    rule, count, inner = (FEW, 3, 2) if few else (MANY, 8, 5)
    middle = 2 * count
    return rule[:count], rule[count:middle], rule[middle : middle + inner], rule[middle + inner :]


def closely(shape: np.ndarray, slope: np.ndarray, delta: float, reach: float) -> bool:
    """Whether two variables that are so far apart are close against all features of f, with no singularity within reach."""
    return bool(singular(shape, reach) < 0.0 and math.sqrt(delta) < CLOSE * shortest(shape, slope))


def close_to(row: np.ndarray, sloped: np.ndarray, q: float, delta: float) -> bool:
    """The same of what oscillates for ever."""
    near = closely(near_of(row), near_of(sloped), delta, math.inf)
    return bool(near and closely(phases_of(row), phases_of(sloped), delta, math.inf) and delta <= 1e-4 * q)


def joined(shape: np.ndarray, slope: np.ndarray, length: float, ends: np.ndarray, kinks: np.ndarray, heights: np.ndarray) -> int:
    """Ends of panels on which f and its slope are smooth, which of them are kinks, and the heights of jumps of f; return their number.

    What is 1e-12 apart, of a length or of where it is, is the same place.
    """
    breaks, sharp, jumps, others, bends = breaks_of(shape), sharp_of(shape), jumps_of(shape), breaks_of(slope), sharp_of(slope)
    last = min(breaks[-1], others[-1])
    i = j = k = 0
    while i < breaks.size or j < others.size:
        own = j == others.size or (i < breaks.size and breaks[i] <= others[j])
        at = breaks[i] if own else others[j]
        if at > last:
            break
        if k == 0 or at - ends[k - 1] > 1e-12 * max(abs(at), length):
            ends[k] = at
            kinks[k] = 0.0
            heights[k] = 0.0
            k += 1
        kinks[k - 1] = max(kinks[k - 1], sharp[i] if own else bends[j])
        if own:
            if jumps[i] != 0.0:
                heights[k - 1] = jumps[i]
            i += 1
        else:
            j += 1
    first = 0
    while ends[first] < max(breaks[0], others[0]):
        first += 1
    for n in range(first, k):
        ends[n - first] = ends[n]
        kinks[n - first] = kinks[n]
        heights[n - first] = heights[n]
    return k - first


def turn(ends: np.ndarray, whole: float) -> tuple[int, int]:
    """The first of the ends of one period, and what follows the last; equal where these do not go as far."""
    first = int(np.searchsorted(ends, -0.5 * whole))
    last = int(np.searchsorted(ends, ends[first] + whole * (1.0 - 1e-9))) if first < ends.size else first
    return (first, last) if last < ends.size else (0, 0)


def fading(at: float, begin: float, width: float) -> float:
    """The smooth step down from `begin` on, on both sides of 0; 1 where it begins nowhere."""
    return 0.5 * math.erfc(((abs(at) - begin) / width - STEP) / math.sqrt(2.0)) if begin < math.inf else 1.0


def ended(begin: float, width: float) -> float:
    """Where the step is over."""
    return begin + 2.0 * STEP * width


def bell(at: float, s: float, whole: float) -> float:
    """The density of N(0, s^2), summed over all periods if there is one."""
    if whole == 0.0:
        return math.exp(-0.5 * (at / s) ** 2) / (math.sqrt(2.0 * math.pi) * s)
    total = 0.0
    s = min(s, UNIFORM * whole)
    nearest = at - whole * math.floor(at / whole + 0.5)
    images = math.ceil(9.0 * s / whole) + 1
    for n in range(-images, images + 1):
        total += math.exp(-0.5 * ((nearest + n * whole) / s) ** 2)
    return total / (math.sqrt(2.0 * math.pi) * s)


def apart_nodes(
    ends: np.ndarray, kinks: np.ndarray, h: float, whole: float, s: float, window: float, detail: float, y: np.ndarray, w: np.ndarray
) -> int:
    """The rule under N(0, s^2) between kinks and so far from them as h, all periods in one if there is one; -1 where it is not resolved."""
    k = 0
    if whole == 0.0:
        if ends[0] > -window * s or ends[-1] < window * s:
            return -1
        for i in range(ends.size - 1):
            low = ends[i] + (h if kinks[i] > 0.0 else 0.0)
            k = panels(low, ends[i + 1] - (h if kinks[i + 1] > 0.0 else 0.0), 0.0, s, window, 3.0 / detail, y, w, k)
        return k
    k = uniform_nodes(ends, kinks, h, whole, 3.0 * min(s, UNIFORM * whole), detail, y, w)
    for i in range(k):
        w[i] *= whole * bell(y[i], s, whole)
    return k


def uniform_nodes(
    ends: np.ndarray, kinks: np.ndarray, h: float, whole: float, longest: float, detail: float, y: np.ndarray, w: np.ndarray
) -> int:
    """The mean over one period between kinks and so far from them as h."""
    k = 0
    first, last = turn(ends, whole)
    if first == last:
        return -1
    for i in range(first, last):
        low = ends[i] + (h if kinks[i] > 0.0 else 0.0)
        following = ends[i + 1] if i + 1 < last else ends[first] + whole
        high = following - (h if kinks[i + 1 if i + 1 < last else first] > 0.0 else 0.0)
        parts = math.ceil(detail * max((high - low) / longest, 1.0))
        if k + parts * LEGENDRE_X.size > y.size:
            return -1
        r = 0.5 * (high - low) / parts
        for part in range(parts):
            for g in range(LEGENDRE_X.size):
                y[k] = low + (2 * part + 1 + LEGENDRE_X[g]) * r
                w[k] = LEGENDRE_W[g] * r / whole
                k += 1
    return k


def step_of(row: np.ndarray, sloped: np.ndarray) -> tuple[float, float]:
    """From where on f and its slope are means over their phases, and the width of the step that leads there."""
    return max(far_of(row)[0], far_of(sloped)[0]), max(row[CALMING], sloped[CALMING])


def whole_of(row: np.ndarray) -> float:
    """The period of the first phase."""
    return float(row[FIRST])


def slow_apart(row: np.ndarray, sloped: np.ndarray, s: float, window: float, x: np.ndarray, w: np.ndarray) -> int:
    """The rule under N(0, s^2) for what is slow, beyond the step."""
    begin, width = step_of(row, sloped)
    count = outside(sloped, 2.0 * STEP * width, begin, 0.0, s, window, x, w, 0)
    mirrored = near_of(row)[PARITY] != 0.0  # either side is the other
    for i in range(count):
        w[i] *= (1.0 - fading(x[i], begin, width)) * ((0.0 if x[i] < 0.0 else 2.0) if mirrored else 1.0)
    return count


def phase_apart(row: np.ndarray, ends: np.ndarray, kinks: np.ndarray, h: float, t: np.ndarray, w: np.ndarray) -> int:
    """The mean over the first phase, between kinks if it has any."""
    if row[ONE] >= 0.0:
        return harmonic_nodes(row[FIRST], row[ONE], row[FINE], 0.0, t, w)
    return uniform_nodes(ends, kinks, h, row[FIRST], row[FIRST], row[FINE], t, w)


def phase_kinks(row: np.ndarray, ends: np.ndarray) -> tuple[int, int]:
    """The first of the kinks of the first phase, and what follows the last."""
    return turn(ends, row[FIRST]) if row[ONE] < 0.0 else (0, 0)


def second_apart(row: np.ndarray, t: np.ndarray, w: np.ndarray) -> int:
    """The mean over the second phase; one node where there is none."""
    t[0] = math.nan
    w[0] = 1.0
    return harmonic_nodes(row[SECOND], row[TWO], row[FINE], 0.0, t, w) if row[SECOND] > 0.0 else 1
