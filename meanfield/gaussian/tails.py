"""E f(u) g(v) to any number of digits of functions that are 0 far around 0: a double sum next to where the density is largest."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import mpmath as mp

from meanfield.gaussian.arithmetic import Function, Number, Numbers
from meanfield.gaussian.landmarks import Landmarks
from meanfield.gaussian.lines import Line, breaks_between
from meanfield.gaussian.panels import CAP, resolved

__all__ = ["mean_of_tails"]

#: times the nats asked for that are counted, for what a function grows by from its kink on
_MORE = 1.4


@dataclass(frozen=True)
class _Arm:
    """What a function is on one side, t -> f(side t), and its kinks there; the first of which is where it begins."""

    side: int
    value: Function
    marks: Landmarks

    @property
    def start(self) -> mp.mpf:
        return self.marks.kinks[0]


def _arms(line: Line, reach: mp.mpf, numbers: Numbers) -> list[_Arm]:
    """the sides on which it is not 0 from some kink on"""
    found = []
    for side, seen in ((1, line), (-1, line.mirrored())):
        f, marks = seen.function(numbers), seen.marks(reach)
        kinks = [k for k in marks.kinks if k > 0]
        ends = [*kinks, *(k * 2 for k in kinks[-1:])]
        while len(ends) > 1 and _is_nothing(f, ends[0], ends[1], numbers):
            ends = ends[1:]
        if len(ends) > 1:
            found.append(_Arm(side, f, Landmarks(tuple(ends[:-1]), marks.features)))
    return found


def _is_nothing(f: Function, low: mp.mpf, high: mp.mpf, numbers: Numbers) -> bool:
    places = (low + (high - low) * mp.mpf(part) for part in ("1e-6", "0.01", "0.3", "0.7"))
    return all(numbers.log_size(f(numbers.of(t))) == -mp.inf for t in places)


@dataclass(frozen=True)
class _Corner:
    """The law of two arms that begin at a and b: exponents Q(s, t) = (s^2 + t^2 - 2 r s t)/(2 (1 - r^2)), of s >= a and t >= b."""

    r: mp.mpf
    rest: mp.mpf  # 1 - r^2, exactly
    a: mp.mpf
    b: mp.mpf

    def turned(self) -> _Corner:
        return _Corner(self.r, self.rest, self.b, self.a)

    def least(self) -> mp.mpf:
        """The smallest exponent: at the corner, or above where one of them begins."""
        return self.along(max(self.a, self.r * self.b))

    def along(self, s: mp.mpf) -> mp.mpf:
        """The smallest at this s."""
        t = max(self.b, self.r * s)
        return s * s / 2 + (t - self.r * s) ** 2 / (2 * self.rest)

    def within(self, nats: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
        """Between which s the smallest at s is at most so much above the smallest."""
        most = self.least() + nats
        low, high = max(self.a, self.r * self.b), mp.sqrt(2 * most)
        if self.r * high < self.b:  # t = b there, and the exponent above the most
            high = self.r * self.b + mp.sqrt(2 * self.rest * (most - self.b**2 / 2))
        spread = mp.sqrt(2 * self.rest * max(most - self.b**2 / 2, 0))
        return max(self.a, min(low, self.r * self.b - spread)), high


def mean_of_tails(first: Line, second: Line, eps: mp.mpf, nats: float, numbers: Numbers) -> Number:
    """E f(u) g(v) at the correlation 1 - eps: every pair of sides, each from its kink on, where the density counts."""
    reach, rest = mp.mpf(4 * nats) ** 0.5 * 2, eps * (2 - eps)
    pairs = [
        (f, g, _Corner(f.side * g.side * (1 - eps), rest, f.start, g.start))
        for f in _arms(first, reach, numbers)
        for g in _arms(second, reach, numbers)
    ]
    if not pairs:
        return numbers.of(0)
    least, more = min(corner.least() for *_, corner in pairs), _MORE * nats
    total = numbers.of(0)
    for f, g, corner in pairs:
        if corner.least() < least + more:
            total += _sum(f, g, corner, least, nats, numbers)
    return total * numbers.exp(-numbers.of(least)) / (2 * numbers.of(mp.pi) * numbers.of(mp.sqrt(rest)))


def _sum(f: _Arm, g: _Arm, corner: _Corner, least: mp.mpf, nats: float, numbers: Numbers) -> Number:
    """a double integral of e^(least - Q), 2 pi sqrt(1 - r^2) times the part of the mean"""
    spread = mp.sqrt(corner.rest)
    first, second = _nodes(f, corner, least, nats, numbers), _nodes(g, corner.turned(), least, nats, numbers)
    where = [numbers.middle(t) for t, _ in second]
    r, twice, low = numbers.of(corner.r), 2 * numbers.of(corner.rest), numbers.of(least)
    total, window = numbers.of(0), mp.sqrt(2 * _MORE * nats) * spread
    for s, weight in first:
        at, inner = corner.r * numbers.middle(s), numbers.of(0)
        middle = max(at, corner.b)
        for t, other in second[bisect.bisect_left(where, middle - window) : bisect.bisect_right(where, middle + window)]:
            inner += other * numbers.exp(low - s * s / 2 - (t - r * s) ** 2 / twice)
        total += weight * inner
    return total


def _nodes(f: _Arm, corner: _Corner, least: mp.mpf, nats: float, numbers: Numbers) -> list[tuple[Number, Number]]:
    """nodes on panels that resolve f under the largest density, and f there times their weights"""
    low, high = corner.within(least - corner.least() + _MORE * nats)
    b, r, twice = (numbers.of(v) for v in (corner.b, corner.r, 2 * corner.rest))
    turn = corner.b / corner.r if corner.r > 0 else mp.inf

    def weighted(s: Number) -> Number:
        beside = (b - r * s) ** 2 / twice if numbers.middle(s) < turn else numbers.of(0)
        return f.value(s) * numbers.exp(numbers.of(least) - s * s / 2 - beside)

    breaks = sorted({*breaks_between([f.marks], low, high), *([turn] if low < turn < high else [])})
    found = []
    for p in resolved([weighted], breaks, CAP * mp.sqrt(corner.rest), nats, numbers):
        found += [(t, w * f.value(t)) for t, w in zip(p.nodes, p.weights, strict=True)]
    return sorted(found, key=lambda pair: numbers.middle(pair[0]))
