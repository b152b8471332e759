r"""Expectations along directions in which the density falls just as fast as the functions grow, to any number of digits.

With f(x) = r(x) e^{a x^2}, g alike with s, and variances q + |p| = 1/(2 a), \sigma the sign of p, u = w + e and v = \sigma (w - e):

    E f(u) g(v) = \frac{1}{\sqrt{2 \pi |p|}} \int E_e[r(w + e) s(\sigma (w - e))] dw,   e ~ N(0, (q^2 - p^2)/(4 |p|)),

and E f(u) = \int r dx/\sqrt{2 \pi q} at q = 1/(2 a). At q = 1/(4 a), where E f(u)^2 is at its bound, and d = q - p, t = d/(2 q)

    E f(u)^2 - E f(u) f(v) = \frac{1}{\sqrt{2 \pi q}} \int E_e\left[\tfrac12 (r(w + e) - r(w - e))^2
        + r(w + e) r(w - e) \left(1 - \frac{e^{-t w^2/(2 q - d)}}{1 - t}\right)\right] dw,   e ~ N(0, q d/(2 q - d)),

of whose terms none is large against d as d -> 0. Integrals over the line are taken in z, w = sinh z, where powers of w fall
exponentially. The mean over e is analytic in w, so that the trapezoidal rule errs by the square of it with each half of its step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import sympy as sp

from meanfield.gaussian.arithmetic import Function, Number, Numbers, precise_number
from meanfield.gaussian.landmarks import Landmarks, landmarks
from meanfield.gaussian.lines import least_reach, mean_of_function, normal_density
from meanfield.gaussian.panels import Unresolved, gauss_hermite
from meanfield.symbols import known

__all__ = ["Brink", "Ridge", "along_the_line"]

x = known("x")

#: where a function changes, and over what width
Feature = tuple[mp.mpf, mp.mpf]

#: the first step of the trapezoidal rule, a binary number, how often it is halved, and steps to each side
FIRST, HALVES, MOST = mp.mpf(0.5), 8, 4000
#: values in a row that do not count, and by how many nats more
QUIET = 3
#: nodes of the rules that are tried across
RULES = (2, 3, 5, 8, 13, 21)


def along_the_line(rest: sp.Expr, variance: sp.Expr, nats: float, numbers: Numbers) -> Number:
    """The mean of a function of which the density of that variance leaves the rest."""

    def marks(bound: mp.mpf) -> list[Landmarks]:
        found = landmarks(rest, -mp.sinh(bound), mp.sinh(bound))
        return [Landmarks(tuple(map(mp.asinh, found.kinks)), tuple(map(_in_sinh, found.features)))]

    density, f = normal_density(numbers, numbers.of(1)), _stretched(numbers.function(rest, (x,)), numbers)
    return mean_of_function(lambda z: f(z) / density(z), marks, nats, numbers) / _root(variance, numbers)


def _in_sinh(feature: Feature) -> Feature:
    """the place and width in z of a feature in w = sinh z"""
    centre, width = feature
    return mp.asinh(centre), width / mp.hypot(1, centre)


def _stretched(f: Function, numbers: Numbers) -> Function:
    """z -> f(sinh z) cosh z"""

    def call(z: Number) -> Number:
        up, down = numbers.exp(z), numbers.exp(-z)
        return f((up - down) / 2) * (up + down) / 2

    return call


def _trapezoidal(f: Function, features: list[Feature], nats: float, numbers: Numbers) -> Number:
    """the integral over the line of an analytic function that falls exponentially beyond its features, none of which its nodes miss"""
    largest, reach, first = -mp.inf, [0, 0], FIRST
    while any(width < first for _, width in features):
        first /= 2
    values = list[Number]()
    for side in (1, -1):
        k, quiet = int(side < 0), 0
        least = max((side * centre + width for centre, width in features), default=mp.mpf(0))
        while quiet < QUIET or k * first < least:
            if k > MOST:
                raise Unresolved("it falls too slowly")
            value = f(numbers.of(side * first * k))
            values.append(value)
            size = numbers.log_size(value)
            largest = max(largest, size)
            k, quiet = k + 1, quiet + 1 if size < largest - nats - QUIET else 0
        reach[side < 0] = k
    total, step = sum(values, numbers.of(0)) * numbers.of(first), first
    for _ in range(HALVES):
        middles = [step * (2 * k + 1) / 2 for k in range(-int(reach[1] * first / step), int(reach[0] * first / step))]
        before, step = total, step / 2
        total = total / 2 + sum((f(numbers.of(t)) for t in middles), numbers.of(0)) * numbers.of(step)
        if numbers.log_size(total - before) <= numbers.log_size(total) - nats / 2 - QUIET / 2:
            return total
    raise Unresolved("it changes within steps that are too short")


def _root(variance: sp.Expr, numbers: Numbers) -> Number:
    return numbers.of(mp.sqrt(2 * mp.pi * precise_number(variance)))


@dataclass(frozen=True)
class Ridge:
    """What the density leaves of two functions along u = sign v, and the law: a variance and |covariance| > 0."""

    first: sp.Expr
    second: sp.Expr
    sign: int
    variance: sp.Expr
    covariance: sp.Expr

    def mean(self, nats: float, numbers: Numbers) -> Number:
        """E f(u) g(v)."""
        spread = self._across()
        across, sides = numbers.of(spread), ((self.first, 1, 1), (self.second, self.sign, -1))
        first, second = (numbers.function(r, (x,)) for r in (self.first, self.second))

        def beside(w: Number) -> Number:
            middle = numbers.middle(w)

            def product(t: Number) -> Number:
                return first(w + across * t) * second(self.sign * (w - across * t))

            return _across(product, lambda bound: _marks(sides, spread, middle, bound), nats, numbers)

        seen = [feature for r, sign, _ in sides for feature in _stretched_features(r, sign, spread)]
        return _trapezoidal(_stretched(beside, numbers), seen, nats, numbers) / _root(self.covariance, numbers)

    def _across(self) -> mp.mpf:
        q, p = precise_number(self.variance), precise_number(self.covariance)
        return mp.sqrt((q - p) * (q + p) / p) / 2


@dataclass(frozen=True)
class Brink:
    """What the root of the density leaves of a function, whose square grows as fast as that falls, and the law: q and 0 < q - p < 2 q."""

    rest: sp.Expr
    variance: sp.Expr
    gap: sp.Expr

    def difference(self, nats: float, numbers: Numbers) -> Number:
        """E f(u)^2 - E f(u) f(v)."""
        q, d = precise_number(self.variance), precise_number(self.gap)
        spread, share = mp.sqrt(q * d / (2 * q - d)), d / (2 * q)
        across, fall, whole = numbers.of(spread), numbers.of(share / (2 * q - d)), numbers.of(1 - share)
        r, sides = numbers.function(self.rest, (x,)), ((self.rest, 1, 1), (self.rest, 1, -1))

        def beside(w: Number) -> Number:
            middle, lost = numbers.middle(w), 1 - numbers.exp(-fall * w * w) / whole

            def both(t: Number) -> Number:
                right, left = r(w + across * t), r(w - across * t)
                apart = right - left  # a ball about 0, which has no power
                return apart * apart / 2 + right * left * lost

            return _across(both, lambda bound: _marks(sides, spread, middle, bound), nats, numbers)

        seen = _stretched_features(self.rest, 1, spread)
        return _trapezoidal(_stretched(beside, numbers), seen, nats, numbers) / _root(self.variance, numbers)


def _across(f: Function, marks: Callable[[mp.mpf], list[Landmarks]], nats: float, numbers: Numbers) -> Number:
    """the mean over a standard normal variable: by two Gauss-Hermite rules that agree, where no kink and nothing narrow is in reach"""
    reach = least_reach(mp.mpf(0), nats)
    near = [(abs(c), width) for m in marks(reach) for c, width in (*m.features, *((k, mp.mpf(0)) for k in m.kinks))]
    before = None
    for m in RULES if all(place > 2 * reach or width > 1 for place, width in near) else ():
        value = sum((numbers.of(w) * f(numbers.of(t)) for t, w in gauss_hermite(m, mp.mp.prec)), numbers.of(0))
        size = numbers.log_size(value)
        if before is not None and size > -mp.inf and numbers.log_size(value - before) <= size - nats - QUIET:
            return value
        before = value
    return mean_of_function(f, marks, nats, numbers)


def _stretched_features(rest: sp.Expr, sign: int, spread: mp.mpf) -> list[Feature]:
    """in z, w = sinh z, where E_e r(sign w + e) changes, and over what width, which is at least that of e"""
    own = landmarks(rest, mp.mpf(-1), mp.mpf(1))
    places = (*own.features, *((k, mp.mpf(0)) for k in own.kinks))
    return [_in_sinh((sign * c, mp.hypot(width, spread))) for c, width in places]


def _marks(sides: tuple[tuple[sp.Expr, int, int], ...], spread: mp.mpf, w: mp.mpf, bound: mp.mpf) -> list[Landmarks]:
    """where it happens that t -> r(sign (w + way s t)) changes, s the spread, for each r with its sign and way"""
    found = []
    for rest, sign, way in sides:
        centre, turn = sign * w, sign * way
        own = landmarks(rest, centre - spread * bound, centre + spread * bound)
        kinks = tuple(sorted(turn * (k - centre) / spread for k in own.kinks))
        features = tuple((turn * (c - centre) / spread, width / spread) for c, width in own.features)
        found.append(Landmarks(kinks, tuple(feature for feature in features if abs(feature[0]) < 2 * bound)))
    return found
