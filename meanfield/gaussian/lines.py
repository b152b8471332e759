"""Functions of one standard normal variable, and their expectations to any number of digits: panels between what happens to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import mpmath as mp
import sympy as sp

from meanfield.gaussian.arithmetic import Function, Number, Numbers, precise_number
from meanfield.gaussian.landmarks import Landmarks, landmarks
from meanfield.gaussian.panels import CAP, Unresolved, resolved
from meanfield.symbols import known

__all__ = ["Line", "breaks_between", "extent_of", "fall", "least_reach", "mean_of_function", "mean_of_lines", "normal_density"]

x = known("x")

#: deviations below which functions may lose most of their digits next to the mean
NARROW = 2.0**-40


@dataclass(frozen=True)
class Line:
    """f on a standard normal variable: z -> f(mean + sign sqrt(variance) z)."""

    f: sp.Expr
    mean: sp.Expr
    variance: sp.Expr
    sign: int = 1

    def mirrored(self) -> Line:
        return replace(self, sign=-self.sign)

    def scale(self) -> mp.mpf:
        return self.sign * mp.sqrt(precise_number(self.variance))

    def function(self, numbers: Numbers) -> Function:
        mean, scale = numbers.of(precise_number(self.mean)), numbers.of(self.scale())
        f = numbers.function(self.f, (x,))
        return (lambda z: f(scale * z)) if self.mean == 0 else lambda z: f(mean + scale * z)

    def lost_bits(self, numbers: Numbers, prec: int) -> int:
        """What its terms lose under a narrow Gaussian, where they cancel next to the mean as those of 1/(1 + e^{-x}) - 1/2 do: as many bits
        more as its value at one point there takes to be seen to prec bits; 0 where no number of bits shows it."""
        if abs(self.scale()) > NARROW:
            return 0
        before, found = mp.nan, 0
        for more in (0, 256, 512, 1024, 2048, 4096):
            with numbers.precision(prec + 64 + more):
                value = numbers.middle(self.function(numbers)(numbers.of(mp.mpf("0.511"))))
            if value and abs(value - before) <= mp.ldexp(abs(value), -prec):
                return found
            before, found = value, more
        return 0

    def onset(self, nats: float, numbers: Numbers) -> mp.mpf:
        """Where it begins that is 0 far around 0; 0 for what is not."""
        return extent_of([self.function(numbers)], [self.marks(mp.mpf(4 * nats) ** 0.5 * 2)], 2, nats, numbers)[0]

    def marks(self, bound: mp.mpf) -> Landmarks:
        mean, scale = precise_number(self.mean), self.scale()
        ends = sorted((mean - scale * bound, mean + scale * bound))
        found = landmarks(self.f, *ends)
        kinks = tuple(sorted((k - mean) / scale for k in found.kinks))
        return Landmarks(kinks, tuple(((c - mean) / scale, w / abs(scale)) for c, w in found.features))


def breaks_between(marks: list[Landmarks], low: mp.mpf, high: mp.mpf) -> list[mp.mpf]:
    """ends, kinks, and points graded away from every feature"""
    kinks = {k for m in marks for k in m.kinks if low < k < high}
    points = {low, high} | kinks
    for centre, width in {feature for m in marks for feature in m.features}:
        if not any(abs(k - centre) <= width / 8 for k in points):
            points |= {centre} if low < centre < high else set()
        step = width
        while step < high - low:
            for point in (centre - step, centre + step):
                if low < point < high and not any(abs(k - point) <= step / 8 for k in points):
                    points.add(point)
            step *= 8
    return sorted(points)


def least_reach(start: mp.mpf, nats: float) -> mp.mpf:
    """how far from 0 the normal density of what is not 0 from `start` on matters"""
    return start + 2 * nats / (mp.sqrt(start**2 + 2 * nats) + start) + 1 / max(1, start)


def extent_of(functions: list[Function], marks: list[Landmarks], power: int, nats: float, numbers: Numbers) -> tuple[mp.mpf, mp.mpf]:
    """how far from 0 the largest |f|^power times the normal density still matters, after where all of that begins: 0, or where f is 0
    around 0 a kink far out"""
    near = mp.mpf(math.sqrt(2 * nats) + 1)
    spots = [t * side for t in (mp.mpf("0.103"), mp.mpf("0.511"), mp.mpf("1.027"), mp.mpf("3.041"), near / 2) for side in (-1, 1)]
    places = {k for m in marks for k in (*m.kinks, *(c for c, _ in m.features))}  # none of the spots is one of logarithms
    spots += [k + side * mp.mpf("0.01") / max(1, abs(k)) for k in places for side in (-1, 1)]

    def size(t: mp.mpf) -> mp.mpf:
        return power * mp.mpf(max(numbers.log_size(f(numbers.of(t))) for f in functions)) - t * t / 2

    sizes = [(size(t), abs(t)) for t in spots]
    largest, place = max(sizes)
    start = place if place > near else mp.mpf(0)
    dead = all(value == -mp.inf for value, t in sizes if t < near)
    beyond = least_reach(start, nats) - start
    for _ in range(100):
        largest = max(largest, size(start + beyond / 1.5), size(-start - beyond / 1.5))
        if all(size(side * (start + t * beyond)) <= largest - nats for t in (1, 1.1, 1.3, 1.7, 2.5) for side in (-1, 1)):
            return start if dead else mp.mpf(0), start + beyond
        beyond *= 1.2
    raise Unresolved("the function grows as fast as the normal density falls: the expectation diverges, or panels cannot tell")


def fall(t: mp.mpf) -> float:
    return -float(t * t) / 4


def normal_density(numbers: Numbers, variance: Number) -> Function:
    norm = 1 / numbers.table["sqrt"](2 * numbers.of(mp.pi) * variance)
    return lambda t: norm * numbers.exp(-t * t / (2 * variance))


def mean_of_lines(lines: tuple[Line, ...], nats: float, numbers: Numbers) -> Number:
    """E of the product of the lines, of one standard normal variable"""
    parts = [line.function(numbers) for line in lines]
    product = parts[0] if len(parts) == 1 else lambda z: parts[0](z) * parts[1](z)
    return mean_of_function(product, lambda b: [line.marks(b) for line in lines], nats, numbers)


def mean_of_function(f: Function, marks_within: Callable[[mp.mpf], list[Landmarks]], nats: float, numbers: Numbers) -> Number:
    marks = marks_within(mp.mpf(2 * nats) ** 0.5 * 2)
    _, bound = extent_of([f], marks, 1, nats, numbers)
    density, total = normal_density(numbers, numbers.of(1)), numbers.of(0)
    for p in resolved([lambda t: f(t) * density(t)], breaks_between(marks, -bound, bound), mp.mpf(CAP), nats, numbers):
        for w, value in zip(p.weights, p.values[0], strict=True):
            total += w * value
    return total
