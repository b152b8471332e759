"""Gauss-Legendre panels between breaks, for Gaussian expectations: graded next to what is singular there, or blurred; along a period."""

from __future__ import annotations

import math

import numpy as np

from meanfield.gaussian.panels import legendre_rule

__all__ = [
    "FAR",
    "LEAST",
    "LEGENDRE_SLOPES",
    "LEGENDRE_W",
    "LEGENDRE_X",
    "SETTLED",
    "STEEP",
    "TOO_FAR",
    "UNIFORM",
    "along",
    "displaced",
    "first_length",
    "graded",
    "panels",
    "spanned",
    "wrapped",
]

UNIFORM = 1.5  # periods: a normal variable of that deviation has every phase alike, up to exp(-2 pi^2 1.5^2) = 1e-19
LEAST = 1e-18  # of a deviation: what is nearer to a break that is not blurred weighs nothing
SHARP = 1e-140  # of a deviation: a blur of kinks and jumps that is none, of variables that are one or opposite
SETTLED = 7.9  # deviations of a blur beyond which a kink or a jump leaves 1e-15 of itself: two graded panels
STEEP = 9.0  # deviations from where on panels are shorter
FAR, TOO_FAR = 100.0, 1e12  # half-lengths that a panel is away from 0, between which the rounding of its nodes is made up for
LEGENDRE_X, LEGENDRE_W = legendre_rule(20)


def _weighed_slopes(t: np.ndarray, w: np.ndarray) -> np.ndarray:
    """What the value at node j adds to w_g times the derivative at node g of the polynomial through all of them, for each g all j."""
    apart = t[:, None] - t + np.eye(t.size)
    ratio = np.prod(apart, axis=1)  # of barycentric weights: 1/prod (t_j - t_m)
    slopes = ratio[:, None] / ratio / apart
    np.fill_diagonal(slopes, np.sum(1.0 / apart, axis=1) - 1.0)
    return np.asarray((w[:, None] * slopes).ravel())


LEGENDRE_SLOPES = _weighed_slopes(LEGENDRE_X, LEGENDRE_W)


def panels(a: float, b: float, mu: float, s: float, window: float, longest: float, y: np.ndarray, w: np.ndarray, k: int) -> int:
    """Gauss-Legendre panels of length at most `longest` standard deviations on [a, b] within the window; -1 where they are too many."""
    a = max(a, mu - window * s)
    b = min(b, mu + window * s)
    if not a < b or k < 0:
        return k
    steep = max(1.0, max(a - mu, mu - b) / (STEEP * s))  # far out the density falls by as much on a shorter way
    parts = (b - a) / (longest * s) * steep
    if not parts < y.size:  # before it is a whole number: infinity is none
        return -1
    m = math.ceil(parts)
    if k + m * LEGENDRE_X.size > y.size:
        return -1
    start = (a - mu) / s
    r = (b - a) / (2 * m)
    far = max(abs(a), abs(b)) / r
    for i in range(m):
        if FAR < far < TOO_FAR:
            k = displaced(a, (2 * i + 1) * r, r, mu, s, y, w, k)
            continue
        c = a + (2 * i + 1) * r
        for g in range(LEGENDRE_X.size):
            z = start + (2 * i + 1 + LEGENDRE_X[g]) * r / s  # not from the node, whose rounding may be large against s
            y[k] = c + r * LEGENDRE_X[g]
            w[k] = r / s * LEGENDRE_W[g] * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
            k += 1
    return k


def displaced(a: float, offset: float, r: float, mu: float, s: float, y: np.ndarray, w: np.ndarray, k: int) -> int:
    """One panel a + offset + (-r, r), narrow against its place: its nodes are the doubles y next to Gauss's t, with the weights that
    integrate polynomials to first order in y - t; f(t) = f(y) - (y - t) f'(t), f' that of the polynomial through the nodes."""
    for g in range(LEGENDRE_X.size):
        w[k + g] = LEGENDRE_W[g]
    for g in range(LEGENDRE_X.size):
        t = offset + r * LEGENDRE_X[g]
        y[k + g] = a + t
        moved = ((y[k + g] - a) - t) / r
        for j in range(LEGENDRE_X.size):
            w[k + j] -= moved * LEGENDRE_SLOPES[g * LEGENDRE_X.size + j]
    for g in range(LEGENDRE_X.size):
        z = (y[k + g] - mu) / s
        w[k + g] *= r / s * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return k + LEGENDRE_X.size


def graded(
    start: float,
    stop: float,
    least: float,
    settled: float,
    mu: float,
    s: float,
    window: float,
    longest: float,
    y: np.ndarray,
    w: np.ndarray,
    k: int,
) -> int:
    """Panels from a blurred break at `start` towards `stop`, the first of length 2 least, each three times the one before.

    So far from the break as `settled` nothing is left of it. Where there is a long way to go they are eight times the one before: 20
    nodes see an algebraic singularity to 2^-40 then, and only that is left there.
    """
    if not least > 0.0:  # of a deviation that is next to nothing
        return -1
    direction = 1.0 if stop > start else -1.0
    x = start
    length = 2.0 * least
    long = math.inf if length > 1e-30 * s else 1e4 * length
    while direction * (stop - x) > 0.0:
        following = x + direction * length
        if direction * (x - start) >= settled or direction * (stop - following) < 0.3 * length:
            following = stop
        k = panels(min(x, following), max(x, following), mu, s, window, longest, y, w, k)
        x = following
        length *= 3.0 if length < long else 8.0
    return k


def first_length(blur: float, sharp: float, s: float) -> float:
    """From where on panels next to a break are graded: next to a blurred one all that is beyond the blur counts, as in a gap."""
    return blur if blur > (0.0 if sharp == 2.0 else SHARP * s) else LEAST * s


def spanned(mu: float, s: float, breaks: np.ndarray, window: float) -> bool:
    """Whether breaks go as far as the window."""
    return not (mu - window * s < breaks[0] or mu + window * s > breaks[-1])


def along(
    mu: float,
    s: float,
    breaks: np.ndarray,
    sharp: np.ndarray,
    blurs: np.ndarray,
    window: float,
    longest: float,
    y: np.ndarray,
    w: np.ndarray,
) -> int:
    """Panels between breaks; those that a blur bridges are passed over, and what it spreads beyond a break takes graded panels."""
    k = 0
    low = max(int(np.searchsorted(breaks, mu - window * s)) - 1, 0)
    spreads = False
    behind = math.inf
    for i in range(low + 1, breaks.size):
        if breaks[low] >= mu + window * s:
            break
        blur = blurs[i]
        inner = i < breaks.size - 1
        if inner and sharp[i] == 0.0 and breaks[i] - breaks[low] < blur:
            continue
        shortest = min(breaks[i] - breaks[i - 1], breaks[i + 1] - breaks[i]) if inner else math.inf
        wide = blur > 0.02 * shortest
        ahead = inner and 0.0 < blur < s and (sharp[i] > 0.0 or wide)
        settled = SETTLED * blur if ahead and sharp[i] == 1.0 and not wide else math.inf
        a = max(breaks[low], mu - window * s)
        b = min(breaks[i], mu + window * s)
        if a < b:
            steep = blur < s and b - a > max(LEAST * s, 1e-12 * max(abs(a), abs(b)))  # a singularity has no scale of its own
            from_left = (spreads or (steep and sharp[low] == 2.0)) and breaks[low] >= a
            from_right = (ahead or (steep and sharp[i] == 2.0)) and breaks[i] <= b
            middle = 0.5 * (a + b) if from_left and from_right else (b if from_left else a)
            if from_left:
                k = graded(a, middle, first_length(blurs[low], sharp[low], s), behind, mu, s, window, longest, y, w, k)
            if from_right:
                k = graded(b, middle, first_length(blur, sharp[i], s), settled, mu, s, window, longest, y, w, k)
            if not (from_left or from_right):
                k = panels(a, b, mu, s, window, longest, y, w, k)
        low = i
        spreads = ahead
        behind = settled
    return k


def wrapped(
    whole: float,
    mu: float,
    s: float,
    breaks: np.ndarray,
    sharp: np.ndarray,
    blurs: np.ndarray,
    window: float,
    longest: float,
    y: np.ndarray,
    w: np.ndarray,
) -> int:
    """The rule on one period, of the normal density summed over all of them, which is the same for all wide ones."""
    s = min(s, UNIFORM * whole)
    if not window * s / whole < y.size:
        return -1
    j = int(np.searchsorted(breaks, -0.5 * whole)) + 1
    if j >= breaks.size:
        return -1
    start = 0.5 * (breaks[j - 1] + breaks[j])
    last = int(np.searchsorted(breaks, start + whole))
    if last == breaks.size:
        return -1
    own, kinks, blurred = np.empty(last - j + 2), np.zeros(last - j + 2), np.zeros(last - j + 2)
    own[0] = start
    own[last - j + 1] = start + whole
    for i in range(j, last):
        own[i - j + 1] = breaks[i]
        kinks[i - j + 1] = sharp[i]
        blurred[i - j + 1] = blurs[i]
    centre = start + 0.5 * whole
    count = along(centre, s, own, kinks, blurred, whole / s, longest, y, w)
    images = math.ceil(window * s / whole)
    for i in range(count):
        near = (y[i] - centre) / s
        nearest = y[i] - mu - whole * math.floor((y[i] - mu) / whole + 0.5)
        density = 0.0
        for n in range(-images, images + 1):
            z = (nearest + n * whole) / s
            density += math.exp(0.5 * (near - z) * (near + z))
        w[i] *= density
    return count
