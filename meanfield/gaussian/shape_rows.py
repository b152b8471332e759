"""The shape of a function as a row of numbers: scalars at fixed indices, then arrays; and what is read off it at a place."""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "ANALYTIC",
    "COUNT",
    "DETAIL",
    "FROM",
    "GROWTH",
    "MEAN",
    "PARITY",
    "PERIOD",
    "RADIUS",
    "REPEATS",
    "SMOOTH",
    "STEEPENING",
    "STRAIGHT",
    "TERMS",
    "TO",
    "VOIDS",
    "WIDTH",
    "WINDOW",
    "alone",
    "beyond",
    "breaks_of",
    "dead",
    "features",
    "gentle",
    "jumps_of",
    "left_of",
    "local_window",
    "per_period",
    "phase",
    "probe",
    "right_of",
    "room",
    "sharp_near",
    "sharp_of",
    "singular",
    "steepness",
    "straight",
    "unsure",
    "voids_of",
    "wider",
    "widest",
    "within",
]

# where a row holds what
SMOOTH, WIDTH, GROWTH, STEEPENING, DETAIL, PARITY, RADIUS, ANALYTIC, VOIDS, PERIOD, MEAN, FROM, TO, COUNT = range(14)
TERMS = 22  # Taylor coefficients kept
STRAIGHT = 0.03  # deviation, against the strip of a smooth function, below which seven nodes do
REPEATS = 4  # periods on either side of 0 along which the panels of a periodic function go
WINDOW = 8.6  # standard deviations kept: exp(-8.6^2 / 2) = 1e-16; more for functions that grow, or are faint where the density is not


def breaks_of(shape: np.ndarray) -> np.ndarray:
    """Ends of panels."""
    return shape[COUNT + 1 : COUNT + 1 + int(shape[COUNT])]


def per_period(shape: np.ndarray) -> int:
    """How many ends of panels a period has."""
    return int((breaks_of(shape).size - 1) // (2 * REPEATS))


def sharp_of(shape: np.ndarray) -> np.ndarray:
    """Which breaks are kinks: 1; 2 where f is singular there, like a root or a logarithm."""
    return shape[COUNT + 1 + int(shape[COUNT]) : COUNT + 1 + 2 * int(shape[COUNT])]


def jumps_of(shape: np.ndarray) -> np.ndarray:
    """Heights of jumps at the breaks."""
    return shape[COUNT + 1 + 2 * int(shape[COUNT]) : COUNT + 1 + 3 * int(shape[COUNT])]


def right_of(shape: np.ndarray) -> np.ndarray:
    """Taylor coefficients for x > 0."""
    return shape[COUNT + 1 + 3 * int(shape[COUNT]) : COUNT + 1 + 3 * int(shape[COUNT]) + TERMS]


def left_of(shape: np.ndarray) -> np.ndarray:
    """Taylor coefficients for x < 0."""
    return shape[COUNT + 1 + 3 * int(shape[COUNT]) + TERMS : COUNT + 1 + 3 * int(shape[COUNT]) + 2 * TERMS]


def voids_of(shape: np.ndarray) -> np.ndarray:
    """Intervals on which f is 0: the ends of each in turn."""
    first = COUNT + 1 + 3 * int(shape[COUNT]) + 2 * TERMS
    return shape[first : first + 2 * int(shape[VOIDS])]


def dead(shape: np.ndarray, low: float, high: float) -> bool:
    """Whether f is 0 from low to high and a little beyond."""
    voids = voids_of(shape)
    found = False
    for j in range(0, voids.size, 2):
        found = found or (voids[j] < low and high < voids[j + 1])
    return bool(found)


def probe(breaks: np.ndarray, i: int, side: float, mu: float, s: float, steep: float) -> float:
    """Where f counts the most next to a break, on that side of it, under N(mu, s^2), in deviations: f itself may be 0 at the break. A
    density that falls faster than the normal one is as many times as `steep`."""
    z = (breaks[i] - mu) / s
    step = 1.0 / (1.0 + steep * abs(z))
    j = i + (1 if side > 0.0 else -1)
    if 0 <= j < breaks.size:
        step = min(step, 0.382 * abs(breaks[j] - breaks[i]) / s)  # in no middle, where f may be 0 too
    return float(z + side * step)


def phase(shape: np.ndarray, mu: float) -> float:
    """A mean less whole periods."""
    whole = shape[PERIOD]
    return float(mu - whole * math.floor(mu / whole + 0.5)) if whole > 0.0 else mu


def within(shape: np.ndarray, variance: float) -> float:
    """A variance, or one that is as wide against the period: of half a sum and half a difference of two variables it is enough."""
    return float(min(variance, 4.0 * shape[PERIOD] ** 2)) if shape[PERIOD] > 0.0 else variance


def steepness(shape: np.ndarray, mu: float, s: float) -> float:
    """By what exponent f grows over s around mu."""
    return float((shape[GROWTH] + 2.0 * shape[STEEPENING] * (abs(mu) + WINDOW * s)) * s)


def wider(shape: np.ndarray) -> float:
    """By how many deviations windows are wider in more detail: one that is too short is seen then."""
    more = shape[DETAIL] / max(shape[SMOOTH], 1.0)
    return float(more) if more > 1.0 else 0.0


def widest(window: float, other: float) -> float:
    """The larger of two windows, nan where one is not known."""
    return max(window, other) if window + other < math.inf else math.nan


def local_window(shape: np.ndarray, window: float, local: float) -> float:
    """The larger of the window of the whole and that of a part, whose own may be unknown where f does not grow like a Gaussian falls."""
    return window if local <= window or (math.isnan(local) and shape[STEEPENING] == 0.0) else local


def straight(shape: np.ndarray, mu: float, s: float, blur: float, window: float) -> bool:
    """whether f, smoothed by a normal of deviation `blur`, is so nearly a polynomial up to `window` deviations s around mu that seven
    nodes do: nothing else may count in the smoothed one either"""
    smooth, d, breaks = shape[SMOOTH], shape[WIDTH], breaks_of(shape)
    if steepness(shape, mu, s) > 0.03 or dead(shape, mu, mu):
        return False
    if smooth > 0.0:
        steepening = (1.0 + abs(mu) / d) ** 2 if smooth > 1.0 else 1.0  # as tanh(x + x^3) next to its limits
        return bool(s * steepening < STRAIGHT * d)
    i = int(np.searchsorted(breaks, mu))
    if i == 0 or i == breaks.size:
        return False
    if s >= 0.02 * (breaks[i] - breaks[i - 1]):
        return False
    sharp = sharp_of(shape)
    before = max(30.0 if sharp[i - 1] == 2.0 else WINDOW, window)
    after = max(30.0 if sharp[i] == 2.0 else WINDOW, window)
    whole = math.sqrt(s * s + blur * blur)
    return bool(mu - breaks[i - 1] > before * whole and breaks[i] - mu > after * whole)


def gentle(shape: np.ndarray, mu: float, s: float, window: float) -> bool:
    """Whether f is nearly a polynomial that far around mu: also where a smooth f is far from what happens to it near 0."""
    far = shape[SMOOTH] > 0.0 and abs(mu) > 40.0 * s + 4.0 * shape[WIDTH] and steepness(shape, mu, s) <= 0.03
    return straight(shape, mu, s, 0.0, window) or far


def alone(shape: np.ndarray, slope: np.ndarray, mu: float, s: float) -> bool:
    """whether f and its derivative are nearly polynomials around mu on the scale s, kinks and jumps being far"""
    near = s < 0.015 * min(shape[WIDTH], slope[WIDTH])
    for row in (shape, slope):
        breaks, sharp = breaks_of(row), sharp_of(row)
        for j in range(breaks.size):
            near = near and (sharp[j] == 0.0 or abs(mu - breaks[j]) > WINDOW * s)
    return bool(near)


def unsure(shape: np.ndarray, mu: float, s: float, power: float) -> float:
    """What the rounding of the places of jumps changes in the mean of f, or with power 2 of its square, in units of 2^-53."""
    breaks, jumps, total = breaks_of(shape), jumps_of(shape), 0.0
    for j in range(breaks.size):
        if jumps[j] != 0.0:
            z = (breaks[j] - mu) / s
            total += abs(jumps[j]) ** power * abs(breaks[j]) * math.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * s)
    return total


def sharp_near(shape: np.ndarray, mu: float, reach: float) -> int:
    """The index of the kink nearest to mu, -1 where none is within reach."""
    breaks, sharp = breaks_of(shape), sharp_of(shape)
    best = -1
    for j in range(breaks.size):
        if sharp[j] > 0.0 and abs(mu - breaks[j]) <= reach:
            reach = abs(mu - breaks[j])
            best = j
    return best


def features(shape: np.ndarray) -> float:
    """The shortest scale of f: of its smooth pieces, or the distance of two kinks."""
    breaks, sharp, shortest, last = breaks_of(shape), sharp_of(shape), shape[WIDTH], -math.inf
    for j in range(breaks.size):
        if sharp[j] > 0.0:
            shortest = min(shortest, breaks[j] - last)
            last = breaks[j]
    return float(shortest)


def singular(shape: np.ndarray, reach: float) -> float:
    """How far from 0 the farthest singularity is that is within reach of the mean and in the cell, -1 where there is none."""
    breaks, sharp, farthest = breaks_of(shape), sharp_of(shape), -1.0
    for j in range(breaks.size):
        if sharp[j] == 2.0 and abs(breaks[j] - shape[MEAN]) <= reach and shape[FROM] < breaks[j] < shape[TO]:
            farthest = max(farthest, abs(breaks[j]))
    return float(farthest)


def room(shape: np.ndarray, at: float, direction: float) -> float:
    """How far from a point five nodes integrate f, in that direction."""
    if shape[SMOOTH] > 0.0:
        return float(0.1 * max(shape[WIDTH], abs(at) - 4.0 * shape[WIDTH]))
    breaks, sharp = breaks_of(shape), sharp_of(shape)
    right = direction > 0.0
    i = 0  # between breaks i - 1 and i
    while i < breaks.size and (breaks[i] <= at if right else breaks[i] < at):
        i += 1
    if i == 0 or i == breaks.size:
        return 0.0
    length = breaks[i] - breaks[i - 1]
    end = i if right else i - 1
    if sharp[2 * i - 1 - end] == 2.0 and breaks[2 * i - 1 - end] == at:
        return 0.0
    if sharp[end] == 2.0:
        return float(0.1 * min(length, abs(breaks[end] - at)))
    if sharp[end] > 0.0:
        return float(min(0.1 * length, abs(breaks[end] - at)))
    if 0 < end < breaks.size - 1:
        length = min(length, breaks[end + 1] - breaks[end] if right else breaks[end] - breaks[end - 1])
    return float(0.1 * length)


def beyond(origin: float, step: float) -> float:
    """origin + step, on that side of the origin even where the step is rounding."""
    at = origin + step
    return at if at != origin else origin + math.copysign(4e-16 * abs(origin), step)
