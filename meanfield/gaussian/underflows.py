r"""Whether an expectation is smaller than a limit however many digits would tell it: bounds from above of ln E|f(u)| and ln E|f(u) g(v)|.

With d(I) the distance of an interval I from the mean, E|f(u)| <= sum_I sup_I |f| min(1, |I| / sqrt(2 pi q)) exp(-d(I)^2 / 2q), and over
boxes I x J alike, with the least exponent of the joint density on each. Intervals that count the most are halved until the sum is below
the limit, or the same from below, inf_I |f| and the largest exponent, is above it. A gap is at most 2 E(f(u) - c)^2 for every constant c,
and delta E f'(u)^2 where f does not jump: both bound the mean of the variance of f(u) given what u and v share.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sympy as sp

from meanfield.gaussian.centring import without_plateau
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.growth import rates
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.parities import is_even, is_odd
from meanfield.gaussian.ranges import NoRange, Ranges, ranges_of
from meanfield.gaussian.slopes import slope
from meanfield.gaussian.smoothness import almost_everywhere, without_deltas
from meanfield.gaussian.stable import complemented
from meanfield.symbols import known

__all__ = ["is_below", "is_zero_by_symmetry"]

x = known("x")

#: bits of ranges, and halvings after which nothing is said: those of a double; and so many that what cancels is seen to be smaller than
#: the smallest double
_TRIED = ((64, 500), (1400, 4_000))
#: deviations from the mean up to which intervals begin narrow, and halvings of these; then the factors of ever wider ones
_NEAR, _WIDER, _LEVELS = 64.0, 2.0**8, 8
#: exponent by which one value may be above the limit before it is not believed to be met
_SPARE = 40.0
#: relative rounding of distances, and rounding of logarithms
_ROUNDING, _SLACK = 1e-15, 1e-12
#: functions without jumps or poles on the line
_CONTINUOUS = (
    sp.Abs, sp.Max, sp.Min, sp.exp, sp.erf, sp.erfc, sp.sin, sp.cos, sp.sinh, sp.cosh, sp.tanh, sp.sech, sp.atan, sp.asinh,
)  # fmt: skip


def is_below(e: sp.Expr, limit: float) -> bool:
    """Whether a multiple of an expectation of numbers is established to be smaller than e^limit in size; False where it is not, or not
    known to be.

    >>> is_below(Expectation(1 / sp.cosh(1000 * x - 3000), sp.Rational(1, 1000)), -708.0)
    True
    >>> is_below(Expectation(1 / sp.cosh(1000 * x - 3000), sp.Rational(1, 100)), -708.0)
    False
    """
    c, node = e.as_coeff_Mul()
    if c == 0:
        return True
    if not isinstance(node, (Expectation, Gap, PairExpectation)) or node.free_symbols or node.integrand.has(sp.DiracDelta):
        return False
    left = limit - float(sp.log(abs(c), evaluate=False).evalf(15))
    node = node.func(node.integrand, *(a if a.is_Rational else sp.N(a, 30) for a in node.args[1:]))  # laws may hold expectations
    for bits, most in _TRIED:
        with suppress(NoRange):
            found = _is_below(node, left, _Search(bits, most))
            if found is not None:
                return found
    return False


def is_zero_by_symmetry(node: sp.Expr) -> bool:
    """Whether an expectation is 0 since its integrand is odd about the mean 0."""
    if isinstance(node, Expectation):
        return bool(node.mean == 0 and is_odd(node.integrand))
    parts = node.separated() if isinstance(node, PairExpectation) else None
    if parts is None or any(m != 0 for m in node.args[4:]):
        return False
    return any(is_odd(parts[i]) and is_even(parts[1 - i]) for i in (0, 1))


def _is_below(node: Node, limit: float, search: _Search) -> bool | None:
    if isinstance(node, Expectation):
        return _mean_below(node.integrand, node.mean, node.variance, limit, search)
    if isinstance(node, Gap):
        return _gap_below(node, limit, search)
    parts = node.separated() if isinstance(node, PairExpectation) else None
    return None if parts is None else _pair_below(*parts, node.args[1:], limit, search)


def _gap_below(gap: Gap, limit: float, search: _Search) -> bool | None:
    f, v, d = gap.args
    if _mean_below(without_plateau(f) ** 2, sp.S.Zero, v, limit - math.log(2), search):
        return True
    if not _is_continuous(f):
        return None
    steep = without_deltas(slope(f))
    return _mean_below(steep**2, sp.S.Zero, v, limit - float(sp.log(d).evalf(15)), search) or None


def _is_continuous(f: sp.Expr) -> bool:
    """whether that shows: functions that are continuous wherever they are real, and no powers or logarithms of what may be 0"""
    if not f.atoms(sp.Function) <= f.atoms(*_CONTINUOUS) | f.atoms(sp.log):
        return False
    bases = [t.base for t in f.atoms(sp.Pow) if not t.exp.is_nonnegative] + [t.args[0] for t in f.atoms(sp.log)]
    return not f.has(sp.Piecewise) and all(base.is_positive for base in bases)


def _mean_below(f: sp.Expr, mean: sp.Expr, variance: sp.Expr, limit: float, search: _Search) -> bool | None:
    if rates(f) is None:
        return None
    ranges, m, v = search.ranges(f), float(mean), float(variance)

    def exponent(away: float) -> float:
        return away / v * away / 2

    def most(a: float, b: float) -> float:
        away = max(0.0, a - m, m - b)
        nearest = max(0.0, away - _ROUNDING * (abs(m) + away))
        return ranges.log_largest(a, b) + min(0.0, _log_share(b - a, v) + _SLACK) - (1 - _ROUNDING) * exponent(nearest)

    def least(a: float, b: float) -> float:
        away = max(b - m, m - a)
        farthest = away + _ROUNDING * (abs(m) + away)
        return ranges.log_least(a, b) + _log_share(b - a, v) - _SLACK - (1 + _ROUNDING) * exponent(farthest)

    def value(a: float, b: float) -> float:
        place = a + (b - a) / 2
        return ranges.log_least(place, place) - exponent(place - m)

    return search(_parts(m, math.sqrt(v)), most, least, value, _halves, limit)


def _parts(mean: float, s: float) -> list[tuple[float, float]]:
    """intervals that together are the line, as far as f is not known to fall"""
    near = 2.0 ** math.ceil(math.log2(abs(mean) + _NEAR * s))
    ends = [near * _WIDER**k for k in range(_LEVELS + 1)]
    right = list(itertools.pairwise(ends))
    return [(-near, 0.0), (0.0, near), *right, *((-b, -a) for a, b in right)]


def _log_share(length: float, variance: float) -> float:
    """ln of the share of a normal law in an interval, were its density there the largest"""
    return math.log(length) - math.log(2 * math.pi * variance) / 2


def _halves(a: float, b: float) -> list[tuple[float, float]]:
    middle = a + (b - a) / 2
    return [(a, middle), (middle, b)] if a < middle < b else []


@dataclass(frozen=True)
class _Search:
    """Parts that are halved: with ranges to so many bits, so many times."""

    bits: int
    most: int

    def ranges(self, f: sp.Expr) -> Ranges:
        return ranges_of(complemented(almost_everywhere(f)), self.bits)

    def __call__(
        self,
        parts: list[Any],
        above: Callable[..., float],
        below: Callable[..., float],
        inside: Callable[..., float],
        halves: Callable[..., list[Any]],
        limit: float,
    ) -> bool | None:
        """whether parts, those that may count the most halved, sum to less than e^limit, with bounds of each from above and from below, and
        a value inside; False where they do not or one value is far above it, None where that is not told"""

        def bounded(part: Any) -> tuple[float, Any, float]:
            return -above(*part), part, math.exp(min(below(*part) - limit, 1.0))

        heap = list(map(bounded, parts))
        heapq.heapify(heap)
        reached = sum(certain for _, _, certain in heap)
        for _ in range(self.most):
            largest, part, certain = heap[0]
            if -largest + math.log(len(heap)) < limit:
                return True
            if reached > 1 + _SLACK or inside(*part) > limit + _SPARE:
                return False
            smaller = halves(*part)
            if not smaller:
                return None
            heapq.heappop(heap)
            reached -= certain
            for each in map(bounded, smaller):
                heapq.heappush(heap, each)
                reached += each[2]
        return None


def _pair_below(f: sp.Expr, g: sp.Expr, law: tuple[sp.Expr, ...], limit: float, search: _Search) -> bool | None:
    """by the mean of the square where that is enough; else over boxes"""
    v1, cov, v2, m1, m2 = law
    if f == g and v1 == v2 and m1 == m2 and _mean_below(f**2, m1, v1, limit, search):
        return True
    rest = v2 - cov**2 / v1
    if not rest.is_positive or rates(f) is None or rates(g) is None:
        return None
    first, second, density = search.ranges(f), search.ranges(g), _Density(*map(float, (v1, cov / v1, rest, m1, m2)))
    scales = math.sqrt(v1), math.sqrt(v2)

    def most(a: float, b: float, c: float, d: float) -> float:
        return first.log_largest(a, b) + second.log_largest(c, d) + density.log_share(b - a, d - c) - density.least(a, b, c, d)

    def least(a: float, b: float, c: float, d: float) -> float:
        return first.log_least(a, b) + second.log_least(c, d) + density.log_area(b - a, d - c) - density.most(a, b, c, d)

    def value(a: float, b: float, c: float, d: float) -> float:
        u, v = a + (b - a) / 2, c + (d - c) / 2
        return first.log_least(u, u) + second.log_least(v, v) - density.least(u, u, v, v)

    def halves(a: float, b: float, c: float, d: float) -> list[tuple[float, float, float, float]]:
        if (b - a) * scales[1] >= (d - c) * scales[0]:
            return [(*part, c, d) for part in _halves(a, b)]
        return [(a, b, *part) for part in _halves(c, d)]

    sides = _parts(float(m1), scales[0]), _parts(float(m2), scales[1])
    return search([(*one, *other) for one, other in itertools.product(*sides)], most, least, value, halves, limit)


class _Density:
    """The exponent of a normal density of two variables: u^2/(2 v) + (w - slope u)^2 / (2 rest), u and w less their means."""

    def __init__(self, variance: float, slope: float, rest: float, m1: float, m2: float) -> None:
        self.variance, self.slope, self.rest, self.m1, self.m2 = variance, slope, rest, m1, m2

    def log_share(self, length: float, other: float) -> float:
        """ln of what is left of no exponent at all in a box of these lengths, or no less."""
        both = self.rest + self.slope * self.variance * self.slope
        return min(0.0, _log_share(length, self.variance), _log_share(other, both), self._log_area(length, other)) + _SLACK

    def log_area(self, length: float, other: float) -> float:
        """ln of what every box of these lengths would be without an exponent, or no more."""
        return self._log_area(length, other) - _SLACK

    def _log_area(self, length: float, other: float) -> float:
        return _log_share(length, self.variance) + _log_share(other, self.rest)

    def least(self, a: float, b: float, c: float, d: float) -> float:
        """Not more than the least exponent on a box: convex along u, w the nearest one that is on the box."""
        a, b, c, d = a - self.m1, b - self.m1, c - self.m2, d - self.m2
        slope, variance, rest = self.slope, self.variance, self.rest

        def exponent(u: float) -> float:
            off = max(0.0, c - slope * u, slope * u - d)
            return self._exponent(u, max(0.0, off - self._rounding(u, min(abs(c), abs(d)))))

        pulled = slope / rest / (1 / variance + slope / rest * slope)
        places = [0.0, pulled * c, pulled * d] + ([c / slope, d / slope] if slope else [])
        return (1 - 1e-9) * min(exponent(min(max(u, a), b)) for u in places)

    def most(self, a: float, b: float, c: float, d: float) -> float:
        """Not less than the largest exponent on a box, which is that of a corner."""

        def exponent(u: float, w: float) -> float:
            return self._exponent(u, abs(w - self.slope * u) + self._rounding(u, abs(w)))

        return (1 + 1e-9) * max(exponent(u - self.m1, w - self.m2) for u in (a, b) for w in (c, d))

    def _exponent(self, u: float, off: float) -> float:
        return u / self.variance * u / 2 + off / self.rest * off / 2

    def _rounding(self, u: float, w: float) -> float:
        """of w less what u makes of it"""
        return 2 * _ROUNDING * (abs(self.slope * u) + w + abs(self.m2))
