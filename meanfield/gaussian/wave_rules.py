r"""Nodes and weights for functions that oscillate for ever, under wide Gaussians: f itself near 0, far out its mean over all phases.

A node is a point y and how far x and the second phase are from it: f there is F(y + c, y, y + d).
"""

from __future__ import annotations

import math

import numpy as np

from meanfield.gaussian.panel_rules import UNIFORM, along, panels, wrapped
from meanfield.gaussian.shape_rows import COUNT, TERMS, breaks_of, jumps_of, sharp_of, voids_of

__all__ = [
    "BROAD",
    "CALM",
    "TOLD",
    "broad_nodes",
    "facing",
    "far_of",
    "harmonic_nodes",
    "near_of",
    "outside",
    "phase_nodes",
    "phases_of",
    "slow_nodes",
    "told",
    "turned",
    "wide_against",
]

CALM = 8.6  # nu w: a harmonic of frequency nu under a Gaussian or a step of width w is e^{-8.6^2/2} = 1e-16 of itself
STEP = 8.3  # widths of a step on either side
BROAD = 1 << 19  # most nodes of one rule
TOLD = 1e-7  # of the place of a jump: doubles that are so far from it know how far they are to 1e-9, and twenty of them to 1e-11

# where a row holds what; none of it exported, as generated sources import names of other rows beside it
FAR, NEAR, WIDTH, FIRST, SECOND, ONE, TWO, FINE, HEAD = range(9)


def far_of(row: np.ndarray) -> np.ndarray:
    """Ends of panels on which the amplitude is smooth, outward."""
    return row[HEAD : HEAD + int(row[FAR])]


def near_of(row: np.ndarray) -> np.ndarray:
    """The shape of f near 0."""
    return row[HEAD + int(row[FAR]) : HEAD + int(row[FAR]) + int(row[NEAR])]


def phases_of(row: np.ndarray) -> np.ndarray:
    """The shape of f in its phases, far out."""
    return row[HEAD + int(row[FAR]) + int(row[NEAR]) : row.size]


def wide_against(row: np.ndarray, s: float) -> bool:
    """Whether every phase is lost under a Gaussian of that deviation."""
    return bool(s >= row[WIDTH])


def told(shape: np.ndarray, s: float) -> bool:
    """Whether doubles next to a jump tell which side of it they are on, on the scale s."""
    breaks, jumps = breaks_of(shape), jumps_of(shape)
    near = False
    for j in range(breaks.size):
        near = near or (jumps[j] != 0.0 and s < TOLD * abs(breaks[j]))
    return not near


def facing(shape: np.ndarray, opposite: float, row: np.ndarray) -> None:
    """A shape, if opposite with its breaks on both sides of 0, for a product of f(x) and f(-x); in a row of twice its length."""
    breaks, sharp, jumps = breaks_of(shape), sharp_of(shape), jumps_of(shape)
    n = breaks.size
    every = np.empty(2 * n)
    for i in range(n):
        every[i] = breaks[i]
        every[n + i] = -breaks[i] if opposite > 0.0 else breaks[i]
    order = np.argsort(every)
    ends, kinks, heights = np.empty(2 * n), np.empty(2 * n), np.empty(2 * n)
    count = 0
    for i in range(2 * n):
        j = order[i]
        if count == 0 or every[j] - ends[count - 1] > 1e-12 * max(abs(every[j]), 1.0):
            ends[count] = every[j]
            kinks[count] = 0.0
            heights[count] = 0.0
            count += 1
        own = j if j < n else j - n
        kinks[count - 1] = max(kinks[count - 1], sharp[own])
        if j < n or opposite == 0.0:
            heights[count - 1] = jumps[own]
    for i in range(COUNT):
        row[i] = shape[i]
    row[COUNT] = count
    for i in range(count):
        row[COUNT + 1 + i] = ends[i]
        row[COUNT + 1 + count + i] = kinks[i]
        row[COUNT + 1 + 2 * count + i] = heights[i]
    voids = voids_of(shape)
    for i in range(voids.size):
        row[COUNT + 1 + 3 * count + 2 * TERMS + i] = voids[i]


def turned(row: np.ndarray, t: float) -> float:
    """A phase less whole turns."""
    return float(t - row[FIRST] * math.floor(t / row[FIRST] + 0.5))


def phase_nodes(row: np.ndarray, mirrored: float, blur: float, t: np.ndarray, w: np.ndarray) -> int:
    """The mean over the first phase, of a function smoothed by a normal of deviation `blur` and its square."""
    whole, fine = row[FIRST], row[FINE]
    if row[ONE] >= 0.0:
        return harmonic_nodes(whole, row[ONE], fine, blur, t, w)
    shape = np.empty(2 * phases_of(row).size)
    facing(phases_of(row), mirrored, shape)
    breaks = breaks_of(shape)
    if blur >= row[WIDTH]:
        t[0] = 0.0
        w[0] = 1.0
        return 1
    return wrapped(whole, 0.0, UNIFORM * whole, breaks, sharp_of(shape), np.full(breaks.size, blur), 11.0, 3.0 / fine, t, w)


def harmonic_nodes(whole: float, harmonics: float, fine: float, blur: float, t: np.ndarray, w: np.ndarray) -> int:
    """The trapezoidal rule over a period, for squares of what has so many harmonics; -1 where these are too many."""
    turns = CALM * whole / (2.0 * math.pi)
    left = harmonics if harmonics * blur <= turns else math.floor(turns / blur)
    if not (2.0 * left + 1.0) * fine <= t.size:
        return -1
    count = math.ceil((2.0 * left + 1.0) * fine)
    for i in range(count):
        t[i] = whole * (i + 0.382) / count  # on no break
        w[i] = 1.0 / count
    return count


def outside(row: np.ndarray, step: float, begin: float, mu: float, s: float, window: float, y: np.ndarray, w: np.ndarray, k: int) -> int:
    """Panels for what is slow, beyond `begin` on both sides; from there on in eight parts of a step, if it is not 0."""
    ends = far_of(row)
    for sign in (-1.0, 1.0):
        low = begin
        part = 0
        while low < abs(mu) + window * s:
            if step > 0.0 and part < 8:
                part += 1
                high = begin + part * step / 8.0
            else:
                j = int(np.searchsorted(ends, low * (1.0 + 1e-9)))
                while j < ends.size and ends[j] <= low * (1.0 + 1e-9):
                    j += 1
                if j == ends.size:
                    return -1
                high = ends[j]
            k = panels(min(sign * low, sign * high), max(sign * low, sign * high), mu, s, window, 3.0 / row[FINE], y, w, k)
            if k < 0:
                return -1
            low = high
    return k


def slow_nodes(row: np.ndarray, mu: float, s: float, blur: float, window: float, y: np.ndarray, w: np.ndarray) -> int:
    """The rule under N(mu, s^2) for f smoothed by a normal of deviation `blur` that leaves no phase."""
    begin = far_of(row)[0] + window * blur
    k = panels(-begin, begin, mu, s, window, min(3.0, 2.0 * blur / s) / row[FINE], y, w, 0)
    if k < 0:
        return -1
    return outside(row, 0.0, begin, mu, s, window, y, w, k)


def broad_nodes(
    row: np.ndarray,
    mirrored: float,
    mu: float,
    s: float,
    blur: float,
    window: float,
    y: np.ndarray,
    c: np.ndarray,
    d: np.ndarray,
    w: np.ndarray,
) -> int:
    """The rule for f, smoothed by a normal of deviation `blur`, under N(mu, s^2) up to `window` deviations; -1 where it is not resolved.

    c is 0 at the nodes near 0 alone.
    """
    if not abs(mu) + window * s + blur < math.inf:
        return -1
    near = np.empty(2 * near_of(row).size)
    facing(near_of(row), mirrored, near)
    breaks, sharp = breaks_of(near), sharp_of(near)
    begin = far_of(row)[0] + window * blur
    step = 2.0 * STEP * row[WIDTH]
    end = begin + step
    first, last = int(np.searchsorted(breaks, -end)), int(np.searchsorted(breaks, end))
    if first == 0 or last == breaks.size:
        return -1
    every, sharps = np.empty(last - first + 18), np.zeros(last - first + 18)
    for i in range(9):  # where the step is
        every[2 * i] = begin + i * step / 8.0
        every[2 * i + 1] = -every[2 * i]
    for i in range(first, last):
        every[i - first + 18] = breaks[i]
        sharps[i - first + 18] = sharp[i]
    order = np.argsort(every)
    own, kinks = np.empty(every.size), np.zeros(every.size)
    for i in range(every.size):
        own[i] = every[order[i]]
        kinks[i] = sharps[order[i]]
    k = along(mu, s, own, kinks, np.full(own.size, blur), window, 3.0 / row[FINE], y, w)
    if k < 0:
        return -1
    for i in range(k):
        z = (abs(y[i]) - begin - 0.5 * step) / row[WIDTH]
        w[i] *= 0.5 * math.erfc(z / math.sqrt(2.0))
        c[i] = 0.0
        d[i] = 0.0
    far_y, far_w = np.empty(8192), np.empty(8192)
    count = outside(row, step, begin, mu, s, window, far_y, far_w, 0)
    if count < 0:
        return -1
    one, one_w, two, two_w = np.empty(8192), np.empty(8192), np.zeros(8192), np.full(8192, 1.0)
    ones = phase_nodes(row, mirrored, blur, one, one_w)
    twos = harmonic_nodes(row[SECOND], row[TWO], row[FINE], blur, two, two_w) if row[SECOND] > 0.0 else 1
    if min(ones, twos) < 0 or k + count * ones * twos > y.size:
        return -1
    for i in range(count):
        z = (abs(far_y[i]) - begin - 0.5 * step) / row[WIDTH]
        weight = far_w[i] * 0.5 * math.erfc(-z / math.sqrt(2.0))
        if weight == 0.0:
            continue
        for j in range(ones):
            for n in range(twos):
                y[k] = one[j]
                c[k] = far_y[i] - one[j]
                d[k] = two[n] - one[j] if twos > 1 or row[SECOND] > 0.0 else 0.0
                w[k] = weight * one_w[j] * two_w[n]
                k += 1
    return k
