r"""E f(u) g(v) to any number of digits of functions that grow like exp(a x^2), also where neither square has a mean: quadrant by quadrant.

With f = e^{a x^2} F on one side of 0 and g = e^{b x^2} G on another, signs i and j, s = |u|, t = |v|, the integrand is

    F(i s) G(j t) e^{-(m_{11} s^2 + m_{22} t^2)/2 - c s t},    m = S^{-1} - 2 diag(a, b),  c = i j m_{12},

and m_{11}, m_{22} > 0. For c >= 0 it falls in s and t alone; e^{-c s t} is then resolved on panels that double away from 0. For c < 0 it
falls if m is positive definite, for which a may be any number below 0 of an f that falls faster than every exp(a x^2).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import mpmath as mp
import sympy as sp

from meanfield.gaussian.arithmetic import Number, Numbers, precise_number
from meanfield.gaussian.finiteness import pair_falls
from meanfield.gaussian.growth import rates
from meanfield.gaussian.lines import Line, breaks_between
from meanfield.gaussian.moments import Covariance
from meanfield.gaussian.panels import CAP, resolved
from meanfield.symbols import known

__all__ = ["mean_over_quadrants"]

x = known("x")

#: times the nats asked for that are counted, for what F and G grow by
_MORE = 1.4
_STEEP = "the function grows as fast as the normal density falls: the expectation diverges, or it cannot be told whether it does"


def _side(f: sp.Expr, i: int, a: sp.Expr) -> Line:
    """x -> f(i x) e^{-a x^2}, of which x > 0 counts"""
    return Line(f * sp.exp(-a * x**2), sp.S.Zero, sp.S.One, i)


def _growths(f: sp.Expr, g: sp.Expr, cov: Covariance, i: int, j: int) -> tuple[sp.Expr, sp.Expr]:
    """a and b on a quadrant: of what falls faster than every exp(-a x^2), or is 0 from some point on, so low that m is positive definite"""
    (s11, s12, s22), a, b = cov, dict(rates(f) or ()).get(i), dict(rates(g) or ()).get(j)
    rest = s11 * s22 - s12**2
    m, n, c = s22 / rest - 2 * (a or 0), s11 / rest - 2 * (b or 0), -i * j * s12 / rest
    if c.is_negative and not (m * n - c**2).is_positive:
        if a is None:
            a = -sp.ceiling(c**2 / n - m / 2)
        elif b is None:
            b = -sp.ceiling(c**2 / m - n / 2)
    return a or sp.S.Zero, b or sp.S.Zero


def mean_over_quadrants(f: sp.Expr, g: sp.Expr, cov: Covariance, means: tuple[sp.Expr, sp.Expr], nats: float, numbers: Numbers) -> Number:
    """E f(u) g(v), u and v of that covariance, not of correlation 1 or -1, where each quadrant has a mean."""
    if not pair_falls(f.xreplace({x: means[0] + x}), g.xreplace({x: means[1] + x}), cov):
        raise ArithmeticError(_STEEP)
    s11, s12, s22 = cov
    rest = s11 * s22 - s12**2
    drift = ((s22 * means[0] - s12 * means[1]) / rest, (s11 * means[1] - s12 * means[0]) / rest)
    level = precise_number((drift[0] * means[0] + drift[1] * means[1]) / 2)
    total = numbers.of(0)
    for i, j in itertools.product((1, -1), repeat=2):
        a, b = _growths(f, g, cov, i, j)
        m11, m22 = s22 / rest - 2 * a, s11 / rest - 2 * b
        corner = _Corner(*map(precise_number, (m11, -i * j * s12 / rest, m22, i * drift[0], j * drift[1])))
        total += _sum(_side(f, i, a), _side(g, j, b), corner, nats, numbers)
    norm = 2 * numbers.of(mp.pi) * numbers.of(mp.sqrt(precise_number(rest)))
    return total * numbers.exp(-numbers.of(level)) / norm


@dataclass(frozen=True)
class _Corner:
    """The exponent (m s^2 + n t^2)/2 + c s t - k s - h t, of s and t > 0."""

    m: mp.mpf
    c: mp.mpf
    n: mp.mpf
    k: mp.mpf
    h: mp.mpf

    def turned(self) -> _Corner:
        return _Corner(self.n, self.c, self.m, self.h, self.k)

    def along(self, s: mp.mpf) -> mp.mpf:
        """What is left of it at the best t for this s, without the drift of t."""
        return (self.m - (self.c**2 / self.n if self.c < 0 else 0)) * s * s / 2 - self.k * s


def _sum(first: Line, second: Line, corner: _Corner, nats: float, numbers: Numbers) -> Number:
    """the integral over one quadrant"""
    if _is_nothing(first, numbers) or _is_nothing(second, numbers):
        return numbers.of(0)
    ends = [_reach(line, side, nats, numbers) for line, side in ((first, corner), (second, corner.turned()))]
    rows = _nodes(first, corner, ends[0], ends[1], nats, numbers)
    columns = _nodes(second, corner.turned(), ends[1], ends[0], nats, numbers)
    m, c, n, k, h = (numbers.of(v) for v in (corner.m, corner.c, corner.n, corner.k, corner.h))
    along = [(t, w, n * t * t / 2 - h * t) for t, w in columns]
    total = numbers.of(0)
    for s, weight in rows:
        inner, before, slope = numbers.of(0), m * s * s / 2 - k * s, c * s
        for t, w, exponent in along:
            inner += w * numbers.exp(-before - exponent - slope * t)
        total += weight * inner
    return total


def _spots(line: Line) -> list[mp.mpf]:
    """points on both sides of every kink"""
    kinks = [mp.mpf(1), *(t for t in line.marks(mp.mpf(1)).kinks if t > 0)]
    return [k * mp.mpf(t) for k in kinks for t in ("0.513", "0.983", "1.013", "2.017")]


def _is_nothing(line: Line, numbers: Numbers) -> bool:
    f = line.function(numbers)
    return all(numbers.log_size(f(numbers.of(t))) == -mp.inf for t in _spots(line))


def _reach(line: Line, corner: _Corner, nats: float, numbers: Numbers) -> mp.mpf:
    """from where on nothing counts"""
    f, spots = line.function(numbers), _spots(line)

    def size(s: mp.mpf) -> mp.mpf:
        return numbers.log_size(f(numbers.of(s))) - corner.along(s)

    reach, largest = mp.mpf(2) ** -8 / mp.sqrt(corner.m), max(map(size, spots))
    for _ in range(200):
        sizes = [size(reach * mp.mpf(t)) for t in ("1.003", "1.11", "1.31", "1.73", "2.51")]
        largest = max(largest, *sizes)
        if max(sizes) <= largest - _MORE * nats:
            return reach
        reach *= mp.mpf("1.2")
    raise ArithmeticError(_STEEP)


def _nodes(line: Line, corner: _Corner, reach: mp.mpf, other: mp.mpf, nats: float, numbers: Numbers) -> list[tuple[Number, Number]]:
    """nodes on panels that resolve the function under the largest density, and the function there times their weights"""
    f = line.function(numbers)

    def weighted(s: Number) -> Number:
        return f(s) * numbers.exp(-numbers.of(corner.along(numbers.middle(s))))

    breaks = breaks_between([line.marks(reach)], mp.mpf(0), reach)
    step = 1 / (corner.c * other) if corner.c > 0 else reach
    while step < reach:
        breaks.append(step)
        step *= 2
    found = []
    for p in resolved([weighted], sorted(set(breaks)), CAP / mp.sqrt(corner.m), nats, numbers):
        found += [(t, w * f(t)) for t, w in zip(p.nodes, p.weights, strict=True)]
    return found
