r"""E f(u) He_n(u/\sqrt v) to any number of correct digits, f analytic about the real line: by the trapezoidal rule.

With a strip of half-width d about the line in which f is analytic, b < d/\sqrt v, nodes at a distance of h in u/\sqrt v leave an error of
\exp(-2\pi b/h + b^2/2 + 2 b\sqrt n) of the terms, which themselves cancel to about \sqrt{n!} (\sqrt v/d)^n at small variances.
"""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield.gaussian.arithmetic import Number, Numbers, numbers_for, precise_number
from meanfield.gaussian.lines import normal_density
from meanfield.gaussian.precise import certified, mean_of
from meanfield.gaussian.singularities import Shape, shape_of
from meanfield.gaussian.smoothness import is_smooth
from meanfield.symbols import known

__all__ = ["hermite_mean"]

x = known("x")

#: share of a strip that is used: f may grow towards its edges
_SHARE = 0.9
#: half-widths of a strip in deviations below which panels take fewer nodes
_NARROW = 0.1


def hermite_mean(f: sp.Expr, n: int, variance: sp.Expr, prec: int) -> mp.mpf:
    """E f(u) He_n(u/sqrt(v)), u ~ N(0, v), to prec bits; ArithmeticError where two accuracies do not agree."""
    s = math.sqrt(float(variance))
    shape = _strip(f) or _disc(f, n, s, prec)
    if shape is None or not s or shape.d < _NARROW * s:
        lost = n * max(0.0, -math.log2(s)) if s and is_smooth(f) else 0.0  # where f is near a polynomial on the scale of s
        return mean_of(f * sp.expand(sp.hermite_prob(n, x / sp.sqrt(variance))), S.Zero, variance, prec, int(lost))
    if shape.parity == -((-1) ** n):
        return mp.mpf(0)
    lost = max(0.0, n * math.log(shape.d / s) - math.lgamma(n + 1) / 2)
    numbers = numbers_for(f)

    def run(nats: float) -> Number:
        return _trapezoid(f, n, variance, shape, nats + lost, numbers)

    return certified(run, numbers, prec, f"E[{f} He_{n}]", int(lost / math.log(2)))


def _strip(f: sp.Expr) -> Shape | None:
    """the shape of what is analytic in a strip and grows no faster than a power; None of what has none that is known"""
    if f.free_symbols != {x} or not is_smooth(f):
        return None
    try:
        shape = shape_of(f)
    except ValueError:
        return None
    return shape if shape.smooth and not shape.growth else None


def _disc(f: sp.Expr, n: int, s: float, prec: int) -> Shape | None:
    """the shape of what is analytic about 0 farther than it is looked at, whatever it is beyond: exponential growth counts for nothing"""
    if f.free_symbols != {x} or not s or not is_smooth(f):
        return None
    shape = shape_of(f)
    if not shape.analytic or not shape.radius > s or shape.steepening:
        return None
    counted = 2 * (prec + n * math.log(shape.radius / s))
    return replace(shape, smooth=True, d=shape.radius / 2) if 4 * (math.sqrt(n) + math.sqrt(counted)) * s < shape.radius / 2 else None


def _trapezoid(f: sp.Expr, n: int, variance: sp.Expr, shape: Shape, nats: float, numbers: Numbers) -> Number:
    """the mean within e^-nats of its terms"""
    s = math.sqrt(float(variance))
    b = min(_SHARE * shape.d / s, math.sqrt(2 * nats))
    h = mp.mpf(2 * math.pi * b / (nats + b**2 / 2 + 2 * b * math.sqrt(n))) / shape.detail
    # He_n(z) exp(-z^2/2)/sqrt(n!) falls below exp(-n - sqrt(n) t - t^2/2) at 2 sqrt(n) + t
    end = 2 * math.sqrt(n) + math.sqrt(2 * nats)
    scale, total = numbers.table["sqrt"](numbers.of(precise_number(variance))), numbers.of(0)
    function, density = numbers.function(f, (x,)), normal_density(numbers, numbers.of(1))
    for j in range(int(end / h) + 1):
        z = numbers.of(j * h)
        u = scale * z
        values = function(u) if j == 0 else 2 * function(u) if shape.parity else function(u) + (-1) ** n * function(-u)
        total += _hermite(n, z) * density(z) * values
    return total * numbers.of(h)


def _hermite(n: int, z: Number) -> Number:
    before, he = 0 * z, 0 * z + 1
    for k in range(n):
        before, he = he, z * he - k * before
    return he
