r"""All roots of a function of a positive variable over many decades, each with a bracket on which its sign is certain to change.

The function comes as ln-ratio values with their slope in the logarithm of the variable and a bound on their error, over arrays. A grid
is refined until cubic interpolation of values and slopes predicts the midpoints; where values approach zero and turn back, the turning
point is found from the slope, so that neither a pair of close roots nor a touching one falls between the points.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Root", "Roots", "positive_roots"]

Floats = NDArray[np.float64]
#: an array of points -> values, slopes in ln of the variable, error bounds
Function = Callable[[Floats], tuple[Floats, Floats, Floats]]

#: rounds in which intervals are halved
ROUNDS = 12
#: part of the smallest value nearby by which a midpoint may miss its prediction
MISSED = 0.1
#: a bound that says nothing of whether a value is 0
VAGUE = 1e-3
#: how near, in ln of the variable, the end of where the function has values is approached
END = 1e-3
#: steps of a bisection that starts from one decade
STEPS = 60


@dataclass(frozen=True)
class Root:
    """A root: where, between which points its sign is certain to change (crossing) or which points enclose it (touching)."""

    at: float
    low: float
    high: float
    crossing: bool
    residual: float


@dataclass(frozen=True)
class Roots:
    """What a search found: roots in ascending order; whether the function is zero throughout to rounding; its signs at both ends; between
    which points it has no value."""

    roots: tuple[Root, ...]
    everywhere: bool
    first: int
    last: int
    unresolved: tuple[tuple[float, float], ...]


@dataclass
class _Samples:
    f: Function
    at: Floats = field(default_factory=lambda: np.empty(0))
    value: Floats = field(default_factory=lambda: np.empty(0))
    slope: Floats = field(default_factory=lambda: np.empty(0))
    bound: Floats = field(default_factory=lambda: np.empty(0))

    def add(self, points: Floats) -> None:
        rows = (points, *self.f(points))
        at, value, slope, bound = (np.concatenate([a, b]) for a, b in zip((self.at, self.value, self.slope, self.bound), rows, strict=True))
        order = np.argsort(at)
        self.at, self.value, self.slope, self.bound = at[order], value[order], slope[order], bound[order]

    @property
    def sign(self) -> NDArray[np.int64]:
        return np.where(np.abs(self.value) > self.bound, np.sign(self.value), 0).astype(np.int64)


def positive_roots(f: Function, low: float, high: float, per_decade: int = 6) -> Roots:
    """All roots between low and high."""
    with np.errstate(all="ignore"):
        count = max(3, int(per_decade * np.log10(high / low)) + 1)
        s = _Samples(f)
        s.add(np.geomspace(low, high, count))
        _edges(s)
        _refine(s)
        _turning_points(s)
        keep = np.isfinite(s.at) & ~np.isnan(s.value)
        at, sign, unresolved = s.at[keep], s.sign[keep], _runs(s.at, ~keep)
        nonzero = np.flatnonzero(sign)
        if not nonzero.size:
            return Roots((), bool(at.size), 0, 0, unresolved)
        roots: list[Root] = []
        for i, j in itertools.pairwise(nonzero):
            if sign[i] != sign[j]:
                roots.append(_crossing(f, float(at[i]), float(at[j]), int(sign[i])))
            elif j > i + 1:
                inside = np.arange(i + 1, j)
                k = inside[np.argmin(np.abs(s.value[keep][inside]))]
                if s.bound[keep][k] > VAGUE:
                    unresolved = (*unresolved, (float(at[i + 1]), float(at[j - 1])))
                    continue
                roots.append(Root(float(at[k]), float(at[i]), float(at[j]), False, float(abs(s.value[keep][k]))))
        return Roots(tuple(roots), False, int(sign[nonzero[0]]), int(sign[nonzero[-1]]), unresolved)


def _edges(s: _Samples) -> None:
    """halve intervals between a value and none: what becomes infinite is followed up to there, other ends of its values are approached"""
    none = np.isnan(s.value)
    i = np.flatnonzero(none[:-1] != none[1:])
    ends, without = np.array([s.at[i], s.at[i + 1]]), none[i + 1].astype(int)
    for _ in range(STEPS):
        left = np.abs(np.log(ends[1] / ends[0]))
        inner = np.searchsorted(s.at, ends[1 - without, np.arange(without.size)])
        open_ = (left > END) | (np.abs(s.slope[inner]) * left > MISSED)
        if not open_.any():
            return
        ends, without = ends[:, open_], without[open_]
        middle = np.sqrt(ends[0]) * np.sqrt(ends[1])
        s.add(middle)
        empty = np.isnan(s.value[np.searchsorted(s.at, middle)])
        ends[np.where(empty, without, 1 - without), np.arange(without.size)] = middle


def _runs(at: Floats, lost: NDArray[np.bool_]) -> tuple[tuple[float, float], ...]:
    """the first and the last of points in a row"""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], lost, [False]])))
    return tuple((float(at[i]), float(at[j - 1])) for i, j in edges.reshape(-1, 2))


def _refine(s: _Samples) -> None:
    """halve intervals whose midpoint is not where the cubic through values and slopes at the ends has it; between three zeros to rounding
    slopes may be rounding only, as of E x^2 sin^2 x far out
    """
    doubtful = np.ones(len(s.at) - 1, dtype=bool)
    for _ in range(ROUNDS):
        left = np.flatnonzero(doubtful)
        if not left.size:
            return
        a, b = s.at[left], s.at[left + 1]
        middle = np.sqrt(a) * np.sqrt(b)
        h = np.log(b / a)
        predicted = (s.value[left] + s.value[left + 1]) / 2 + h / 8 * (s.slope[left] - s.slope[left + 1])
        near = np.minimum(np.abs(s.value[left]), np.abs(s.value[left + 1]))
        s.add(middle)
        position = np.searchsorted(s.at, middle)
        miss = np.abs(s.value[position] - predicted)
        level = (s.sign[position - 1] == 0) & (s.sign[position] == 0) & (s.sign[position + 1] == 0)
        allowed = MISSED * np.minimum(near, np.abs(s.value[position])) + 4 * s.bound[position]
        bad = (miss > allowed) & ~level & np.isfinite(predicted) & (h > 1e-6)
        doubtful = np.zeros(len(s.at) - 1, dtype=bool)
        doubtful[position[bad] - 1] = True
        doubtful[position[bad]] = True


def _turning_points(s: _Samples) -> None:
    """add the points where values of one sign turn back from zero, as long as slopes at both ends could take them there"""
    sign = s.sign
    same = (sign[:-1] == sign[1:]) & (sign[:-1] != 0)
    turning = same & (sign[:-1] * s.slope[:-1] < 0) & (sign[1:] * s.slope[1:] > 0)
    i = np.flatnonzero(turning)
    ends, slopes = np.array([s.at[i], s.at[i + 1]]), np.array([s.slope[i], s.slope[i + 1]])
    side, least = sign[i].astype(np.float64), np.minimum(np.abs(s.value[i]), np.abs(s.value[i + 1]))
    for _ in range(STEPS):
        dip = np.abs(slopes).max(0) * np.log(ends[1] / ends[0])
        open_ = (ends[1] / ends[0] > 1 + 1e-15) & (2 * dip > least)
        if not open_.any():
            return
        ends, slopes, side, least = ends[:, open_], slopes[:, open_], side[open_], least[open_]
        middle = np.sqrt(ends[0]) * np.sqrt(ends[1])
        value, slope, bound = s.f(middle)
        s.at, s.value, s.slope, s.bound = (
            np.concatenate(pair) for pair in ((s.at, middle), (s.value, value), (s.slope, slope), (s.bound, bound))
        )
        moved = (side * slope >= 0).astype(int), np.arange(middle.size)  # which end it replaces
        ends[moved], slopes[moved], least = middle, slope, np.minimum(least, np.abs(value))
        open_ = side * value >= -bound
        ends, slopes, side, least = ends[:, open_], slopes[:, open_], side[open_], least[open_]
        order = np.argsort(s.at)
        s.at, s.value, s.slope, s.bound = s.at[order], s.value[order], s.slope[order], s.bound[order]


def _crossing(f: Function, low: float, high: float, sign: int) -> Root:
    """a safeguarded Newton iteration, then the narrowest interval with a certain change of sign"""
    a, b = low, high
    at = np.sqrt(a) * np.sqrt(b)
    for _ in range(2 * STEPS):
        value, slope, bound = (float(v[0]) for v in f(np.array([at])))
        if abs(value) <= bound or b / a <= 1 + 4e-16:
            break
        if np.sign(value) == sign:
            a = at
        else:
            b = at
        step = at * np.exp(-value / slope) if slope else np.nan
        last, at = at, step if a < step < b else float(np.sqrt(a) * np.sqrt(b))
        if abs(at / last - 1) < 2e-16:
            break
    width = max(4e-16, 2 * bound / abs(slope)) if slope else 4e-16
    while True:
        ends = np.array([max(a, at * (1 - width)), min(b, at * (1 + width))])
        values, _, bounds = f(ends)
        certain = (np.abs(values) > bounds) | (ends == (a, b))
        if certain.all():
            return Root(float(at), float(ends[0]), float(ends[1]), True, float(abs(value)))
        width *= 2
