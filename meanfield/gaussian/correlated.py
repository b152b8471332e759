"""E f(u) g(v) to any number of digits, away from correlation 1: the trapezoidal rule in what u and v share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from meanfield.gaussian.arithmetic import Function, Number, Numbers
from meanfield.gaussian.landmarks import Landmarks
from meanfield.gaussian.lines import Line, breaks_between, extent_of, fall, normal_density
from meanfield.gaussian.panels import CAP, Panel, resolved
from meanfield.gaussian.tails import mean_of_tails

__all__ = ["Points", "mean_of_pair", "points_within", "sampled_on", "smoothed"]

Floats = NDArray[np.float64]


def points_within(reach: mp.mpf, eps: mp.mpf, nats: float, factors: int = 2) -> int:
    """On how many points in x on either side of 0 the product of so many conditional means is summed."""
    longest = 2 * mp.pi / mp.sqrt(2 * (nats + 4) * (1 + factors * (1 - eps) / eps))
    return int(mp.ceil(reach / longest))


def mean_of_pair(first: Line, second: Line, eps: mp.mpf, nats: float, numbers: Numbers) -> Number:
    r"""E f(u) g(v): x on equidistant points, where the normal density of y around sqrt(r) x is a power of the step.

    Whatever f is, |E_xi f(t + i eta)| <= e^{eta^2 / (2 eps)} E |f|: the trapezoidal rule in x errs by exp(-2 pi^2 / (h^2 g)),
    g = (1 + r)/(1 - r).
    """
    lines = list(dict.fromkeys((first, _unsigned(second, first))))
    functions = [line.function(numbers) for line in lines]
    marks = [line.marks(mp.mpf(4 * nats) ** 0.5 * 2) for line in lines]
    start, reach = extent_of(functions, marks, 2, nats, numbers)
    if start:
        return mean_of_tails(first, second, eps, nats, numbers)
    count = points_within(reach, eps, nats)
    h = reach / count
    points = Points(h, count, eps)
    sampled = [sampled_on(f, m, points, reach, nats, numbers) for f, m in zip(functions, marks, strict=True)]
    turn = slice(None) if _unsigned(second, first) == second else slice(None, None, -1)
    f, g = sampled[0], sampled[-1]
    floor = float((f.least + g.least[turn] + points.weights).max()) - nats - _terms(f, g, points)
    means = [smoothed(s, other.most[turn], floor, points, numbers) for s, other in ((f, g), (g, f))[: len(sampled)]]
    density, step, total = normal_density(numbers, numbers.of(1)), numbers.of(h), numbers.of(0)
    for i, (a, b) in enumerate(zip(means[0], means[-1][turn], strict=True)):
        if a is not None and b is not None:
            total += density(step * (i - points.count)) * a * b
    return step * total


def _unsigned(line: Line, like: Line) -> Line:
    """the line or its mirror image, whichever is the other line"""
    return like if line.mirrored() == like else line


@dataclass(frozen=True)
class Points:
    """x = h i, i = -count ... count, each the middle sqrt(r) x of a normal density of variance eps."""

    h: mp.mpf
    count: int
    eps: mp.mpf

    @cached_property
    def step(self) -> mp.mpf:
        """between middles"""
        return mp.sqrt(1 - self.eps) * self.h

    @cached_property
    def weights(self) -> Floats:
        """ln of the normal density of x, but for a constant"""
        x: Floats = float(self.h) * np.arange(-self.count, self.count + 1, dtype=np.float64)
        return -(x**2) / 2

    def sizes(self, size: float, low: float, high: float) -> Floats:
        """ln of e^size times the largest density at each point between low and high, but for the same constant"""
        middles = float(self.step) * np.arange(-self.count, self.count + 1)
        beside: Floats = np.maximum(np.maximum(low - middles, middles - high), 0.0)
        return size - beside**2 / (2 * float(self.eps))


@dataclass(frozen=True, eq=False)
class Sampled:
    """A function on panels, ln of its largest share on each, and of the shares at every point: none is more, and one is no less."""

    panels: list[Panel]
    sizes: list[float]
    most: Floats
    least: Floats


def sampled_on(f: Function, marks: Landmarks, points: Points, reach: mp.mpf, nats: float, numbers: Numbers) -> Sampled:
    s = mp.sqrt(points.eps)
    bound = (mp.sqrt(1 - points.eps) + s) * reach
    found = resolved([f], breaks_between([marks], -bound, bound), min(CAP * s, mp.mpf(CAP)), nats, numbers, fall)
    sizes, most, least = [], np.full(2 * points.count + 1, -math.inf), np.full(2 * points.count + 1, -math.inf)
    for p in found:
        size, place = max((numbers.log_size(w * v), k) for k, (w, v) in enumerate(zip(p.weights, p.values[0], strict=True)))
        where = float(numbers.middle(p.nodes[place]))
        sizes.append(size)
        most = np.maximum(most, points.sizes(size, *_ends(p, numbers)))
        least = np.maximum(least, points.sizes(size, where, where))
    return Sampled(found, sizes, most, least)


def _ends(p: Panel, numbers: Numbers) -> tuple[float, float]:
    return float(numbers.middle(p.low)), float(numbers.middle(p.high))


def _terms(f: Sampled, g: Sampled, points: Points) -> float:
    """ln of how many products there are of a node of each at a point"""
    return math.log(2 * points.count + 1) + sum(math.log(sum(len(p.nodes) for p in s.panels) or 1) for s in (f, g))


def smoothed(f: Sampled, other: Floats, floor: float, points: Points, numbers: Numbers) -> list[Number | None]:
    """E_xi f(sqrt(r) x + sqrt(eps) xi) at every point where its product with the other one, of at most those sizes, counts: is above the
    floor; of the nodes that count there"""
    ah, variance, count = numbers.of(points.step), numbers.of(points.eps), points.count
    sums: list[Number | None] = [None] * (2 * count + 1)
    for p, size in zip(f.panels, f.sizes, strict=True):
        counts = np.flatnonzero(points.sizes(size, *_ends(p, numbers)) + other + points.weights >= floor)
        if not counts.size:
            continue
        first, last = int(counts[0]), int(counts[-1])
        for t, w, value in zip(p.nodes, p.weights, p.values[0], strict=True):
            term = w * value * numbers.exp(((first - count) * ah - t / 2) * t / variance)
            ratio = numbers.exp(ah * t / variance)
            for i in range(first, last + 1):
                sums[i] = term if sums[i] is None else sums[i] + term
                term *= ratio
    norm = 1 / numbers.table["sqrt"](2 * numbers.of(mp.pi) * variance)
    return [
        None if total is None else norm * total * numbers.exp(-((ah * (i - count)) ** 2) / (2 * variance)) for i, total in enumerate(sums)
    ]
