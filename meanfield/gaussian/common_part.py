r"""E over what exchangeable Gaussians have in common of what their means given that make, to any number of digits.

With u_t = \sqrt{p} x + \sqrt{\delta} \xi_t the means E[g(u_t) | x] are analytic in x, whatever g is, and at x + i \eta at most
e^{p \eta^2/(2 \delta)} E[|g| | x]: the trapezoidal rule in x errs by exp(-2 \pi^2/(h^2 (1 + m p/\delta))) for products of m of them
(`correlated`). Each is summed once on the points of that rule, and serves all moments of the same law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import mpmath as mp
import numpy as np
import sympy as sp

from meanfield.gaussian.arithmetic import Number, Numbers, numbers_for, precise_number
from meanfield.gaussian.correlated import Points, points_within, sampled_on, smoothed
from meanfield.gaussian.lines import Line, extent_of, normal_density
from meanfield.gaussian.precise import certified
from meanfield.gaussian.slopes import deltas
from meanfield.gaussian.smoothness import almost_everywhere
from meanfield.gaussian.stable import complemented
from meanfield.symbols import known

__all__ = ["Common", "Given"]

x = known("x")

#: E[g(u) | x] for a function g of x
Given = Callable[[sp.Expr], Number]


@dataclass(frozen=True)
class Common:
    """The law of u_t, and what moments of it are made of: functions of which up to `degree` are multiplied, in `factors` means."""

    variance: sp.Expr
    gap: sp.Expr
    functions: tuple[sp.Expr, ...]
    degree: int
    factors: int

    def mean(self, combined: Callable[[Given, Number], Number], prec: int, what: object) -> mp.mpf:
        """E combined(E[. | x], sqrt(p) x), to prec bits."""
        numbers = numbers_for(*self.functions)

        def run(nats: float) -> Number:
            points, reach = _points(self, nats, mp.mp.prec, numbers)
            density, step = normal_density(numbers, numbers.of(1)), numbers.of(points.h)
            middle = numbers.of(mp.sqrt(precise_number(self.variance)) * points.step)
            total = numbers.of(0)
            for i in range(2 * points.count + 1):

                def given(g: sp.Expr, i: int = i) -> Number:
                    return _means(self.variance, g, points, reach, nats, mp.mp.prec, numbers)[i]

                away = i - points.count
                total += density(step * away) * combined(given, middle * away)
            return step * total

        return certified(run, numbers, prec, what)


@lru_cache(maxsize=64)
def _points(common: Common, nats: float, bits: int, numbers: Numbers) -> tuple[Points, mp.mpf]:
    """the rule in x, and how far out the variables matter"""
    lines = [Line(complemented(almost_everywhere(f)), sp.S.Zero, common.variance) for f in common.functions]
    marks = [line.marks(mp.mpf(4 * nats) ** 0.5 * 2) for line in lines]
    _, reach = extent_of([line.function(numbers) for line in lines], marks, common.degree, nats, numbers)
    eps = precise_number(common.gap / common.variance)
    count = points_within(reach, eps, nats, common.factors)
    return Points(reach / count, count, eps), reach


@lru_cache(maxsize=128)
def _means(variance: sp.Expr, g: sp.Expr, points: Points, reach: mp.mpf, nats: float, bits: int, numbers: Numbers) -> Sequence[Number]:
    """E[g(u) | x] at the points, each to its own last digits, deltas of g among it"""
    rest, found = deltas(g) if g.has(sp.DiracDelta) else (g, [])
    total = [numbers.of(0)] * (2 * points.count + 1)
    if rest != 0:
        line = Line(complemented(almost_everywhere(rest)), sp.S.Zero, variance)
        sampled = sampled_on(line.function(numbers), line.marks(mp.mpf(4 * nats) ** 0.5 * 2), points, reach, nats, numbers)
        if sampled.panels:
            terms = math.log(sum(len(p.nodes) for p in sampled.panels))
            each = np.negative(sampled.least + points.weights)
            total = [total[0] if m is None else m for m in smoothed(sampled, each, -nats - terms, points, numbers)]
    scale = mp.sqrt(precise_number(variance))
    density = normal_density(numbers, numbers.of(points.eps))
    for delta in found:
        if delta.order:
            raise ArithmeticError(f"E[{g}] of what several variables have in common holds the slope of a delta")
        place = precise_number(delta.place) / scale
        weight = numbers.of(precise_number(delta.factor.xreplace({x: delta.place})) / scale)
        total = [m + weight * density(numbers.of(place - points.step * (i - points.count))) for i, m in enumerate(total)]
    return total
