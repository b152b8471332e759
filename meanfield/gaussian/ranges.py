r"""The range of a function over an interval, by interval arithmetic (Moore 1966) in numbers whose exponents have no end.

Every part is known up to a factor, however small it is: e^{-10^6} is no 0. A variable that occurs twice makes a range too wide, never too
narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mpmath as mp
import sympy as sp
from mpmath.ctx_iv import MPIntervalContext
from sympy.codegen.cfunctions import expm1, log1p
from sympy.core.relational import Relational

from meanfield.gaussian.arithmetic import precise_number
from meanfield.gaussian.special import NormalCDF
from meanfield.symbols import known

__all__ = ["NoRange", "Ranges", "ranges_of"]

x = known("x")

Interval = Any  # ivmpf
Map = Callable[[Interval], Interval]

#: an argument from where on nothing is asked of an exponential but that it is larger, or smaller, than there
_STEEP = 1e30
#: what is no steeper than its argument
_SLOW = ("log", "log1p", "asinh", "asin")
#: bits that functions of one number may be off by
_GUARD = 8


class NoRange(ArithmeticError):
    """A function whose range over an interval is not known here."""


class Ranges:
    """A parameter-free function of x over intervals, to some bits.

    >>> import sympy as sp
    >>> Ranges(1 / sp.cosh(1000 * (x - 3)), 64).log_largest(0.0, 1.0) < -1999
    True
    """

    def __init__(self, f: sp.Expr, bits: int) -> None:
        self.context = MPIntervalContext()
        self.context.prec = bits
        self.points = mp.mp.clone()
        self.points.prec = bits + 2 * _GUARD
        off = self.context.mpf(2) ** (_GUARD - bits)
        self.around_one = self.context.mpf([(1 - off).a, (1 + off).b])
        self.whole = self.context.mpf([-mp.inf, mp.inf])
        self.value = self._compiled(f)
        self.seen: dict[tuple[float, float], tuple[float, float]] = {}

    def log_largest(self, low: float, high: float) -> float:
        """ln of no less than the largest |f| between two numbers; inf where none is known."""
        return self._logs(low, high)[1]

    def log_least(self, low: float, high: float) -> float:
        """ln of no more than the least |f| between two numbers, or at one; -inf where it may be 0."""
        return self._logs(low, high)[0]

    def _logs(self, low: float, high: float) -> tuple[float, float]:
        if (low, high) not in self.seen:
            ends = self.value(self.context.mpf([low, high]))._mpi_
            logs = [_log_above(end) for end in ends]
            one_sign = mp.libmp.fnan not in ends and ends[0][0] == ends[1][0]
            self.seen[low, high] = min(logs) - math.log(2) if one_sign else -math.inf, max(logs)
        return self.seen[low, high]

    def _compiled(self, t: sp.Basic) -> Map:
        if t == x:
            return lambda v: v
        if isinstance(t, sp.Expr) and not t.has(x):
            constant = self._constant(t)
            return lambda v: constant
        if isinstance(t, sp.Piecewise):
            return self._piecewise(t)
        if t.is_Pow:
            return self._power(t)
        if t.func not in _RULES:
            raise NoRange(f"{t.func.__name__} has no ranges here")
        rule, parts = _RULES[t.func], [self._compiled(a) for a in (t.args[:1] if isinstance(t, sp.Heaviside) else t.args)]
        return lambda v: self._some(rule(self, *(part(v) for part in parts)))

    def _constant(self, e: sp.Expr) -> Interval:
        with mp.workprec(self.points.prec):
            value = precise_number(e)
        return self.context.mpf(value) if e.is_Integer else self.context.mpf(value) * self.around_one

    def _some(self, v: Interval) -> Interval:
        """what is no number may be any"""
        return self.whole if mp.libmp.fnan in v._mpi_ else v

    def _power(self, t: sp.Pow) -> Map:
        base, exponent = t.args
        if exponent.is_Integer:
            below = self._compiled(base)
            return lambda v: self._some(below(v) ** int(exponent))
        if (2 * exponent).is_Integer:
            below = self._compiled(base)
            return lambda v: self._some(self.context.sqrt(self.no_less(below(v), 0)) ** int(2 * exponent))
        inner = self._compiled(exponent * sp.log(base))
        return lambda v: self.exp(inner(v))

    def _piecewise(self, t: sp.Piecewise) -> Map:
        pieces = [(self._compiled(value), self._condition(condition)) for value, condition in t.args]

        def value(v: Interval) -> Interval:
            found = []
            for piece, condition in pieces:
                holds = condition(v)
                if holds is not False:
                    found.append(piece(v))
                if holds:
                    break
            return self.hull(*found) if found else self.whole

        return value

    def _condition(self, c: sp.Basic) -> Callable[[Interval], bool | None]:
        """whether it holds over all of an interval, None where it does so over a part of it"""
        if c in (sp.true, sp.false):
            return lambda v: bool(c)
        if isinstance(c, (sp.And, sp.Or)):
            parts, all_of = [self._condition(a) for a in c.args], isinstance(c, sp.And)

            def joined(v: Interval) -> bool | None:
                held = [part(v) for part in parts]
                return (not all_of) if (not all_of) in held else None if None in held else all_of

            return joined
        if isinstance(c, sp.Not):
            part = self._condition(c.args[0])
            return lambda v: None if part(v) is None else not part(v)
        if not isinstance(c, Relational):
            raise NoRange(f"{c} has no ranges here")
        difference = self._compiled(c.gts - c.lts) if isinstance(c, (sp.Gt, sp.Ge, sp.Lt, sp.Le)) else None

        def compared(v: Interval) -> bool | None:
            low, high = self.ends(difference(v)) if difference is not None else (-mp.inf, mp.inf)
            return True if low > 0 else False if high < 0 else None

        return compared

    def ends(self, v: Interval) -> tuple[mp.mpf, mp.mpf]:
        low, high = v._mpi_
        return self.points.make_mpf(low), self.points.make_mpf(high)

    def hull(self, *parts: Interval) -> Interval:
        lows, highs = zip(*map(self.ends, parts), strict=True)
        return self.context.mpf([min(lows), max(highs)])

    def no_less(self, v: Interval, least: int) -> Interval:
        low, high = self.ends(v)
        return self.context.mpf([max(low, least), max(high, least)])

    def rising(self, name: str, v: Interval, ends: tuple[Any, Any] = (-mp.inf, mp.inf)) -> Interval:
        """that of a rising function which is between two limits"""
        function, (low, high), steep = getattr(self.points, name), self.ends(v), self.points.mpf(_STEEP)
        slow = name in _SLOW
        below = ends[0] if low < -steep and not slow else function(low if slow else min(low, steep))
        above = ends[1] if high > steep and not slow else function(high if slow else max(high, -steep))
        least, most = self.ends(self.context.mpf([below, above]) * self.around_one)
        return self.context.mpf([max(least, ends[0]), min(most, ends[1])])

    def exp(self, v: Interval) -> Interval:
        return self.rising("exp", v, (0, mp.inf))

    def size(self, v: Interval) -> Interval:
        low, high = self.ends(v)
        least = 0 if low <= 0 <= high else min(abs(low), abs(high))
        return self.context.mpf([least, max(abs(low), abs(high))])

    def turning(self, name: str, v: Interval) -> Interval:
        low, high = self.ends(v)
        if not high - low < 7 or max(abs(low), abs(high)) > _STEEP:
            return self.context.mpf([-1, 1])
        return getattr(self.context, name)(v)


def _log_above(value: Any) -> float:
    """ln of the next power of 2 that is no smaller than a size"""
    if value == mp.libmp.fzero:
        return -math.inf
    _, man, exponent, count = value
    return (exponent + count) * math.log(2) if man else math.inf


def _sum(r: Ranges, *parts: Interval) -> Interval:
    return sum(parts[1:], parts[0])


def _product(r: Ranges, *parts: Interval) -> Interval:
    total = parts[0]
    for part in parts[1:]:
        total = total * part
    return total


def _cosh(r: Ranges, v: Interval) -> Interval:
    return r.rising("cosh", r.size(v), (1, mp.inf))


def _erfc(r: Ranges, v: Interval) -> Interval:
    low, high = r.ends(v)
    limits = [r.points.erfc(min(max(t, -r.points.mpf(_STEEP)), r.points.mpf(_STEEP))) for t in (high, low)]
    return r.context.mpf([0 if high > _STEEP else limits[0], limits[1]]) * r.around_one


def _largest(r: Ranges, *parts: Interval) -> Interval:
    lows, highs = zip(*map(r.ends, parts), strict=True)
    return r.context.mpf([max(lows), max(highs)])


def _sign(r: Ranges, v: Interval) -> Interval:
    low, high = r.ends(v)
    return r.context.mpf([1 if low > 0 else -1, -1 if high < 0 else 1])


def _rising(name: str, *ends: Any) -> Callable[..., Interval]:
    return lambda r, v: r.rising(name, v, ends or (-mp.inf, mp.inf))


def _bounded(name: str) -> Callable[..., Interval]:
    return lambda r, v: r.rising(name, r.hull(r.no_less(-r.no_less(-v, -1), -1)))


_HALF_TURN = mp.mpf("1.6")

_RULES: dict[Any, Callable[..., Interval]] = {
    sp.Add: _sum,
    sp.Mul: _product,
    sp.exp: lambda r, v: r.exp(v),
    sp.log: lambda r, v: r.rising("log", r.no_less(v, 0)),
    log1p: lambda r, v: r.rising("log1p", r.no_less(v, -1)),
    expm1: _rising("expm1", -1, mp.inf),
    sp.sinh: _rising("sinh"),
    sp.cosh: _cosh,
    sp.sech: lambda r, v: 1 / _cosh(r, v),
    sp.tanh: _rising("tanh", -1, 1),
    sp.coth: lambda r, v: 1 / r.rising("tanh", v, (-1, 1)),
    sp.csch: lambda r, v: 1 / r.rising("sinh", v),
    sp.asinh: _rising("asinh"),
    sp.atan: _rising("atan", -_HALF_TURN, _HALF_TURN),
    sp.erf: _rising("erf", -1, 1),
    sp.erfc: _erfc,
    NormalCDF: lambda r, v: _erfc(r, -v / r.context.sqrt(r.context.mpf(2))) / 2,
    sp.asin: _bounded("asin"),
    sp.sin: lambda r, v: r.turning("sin", v),
    sp.cos: lambda r, v: r.turning("cos", v),
    sp.tan: lambda r, v: r.turning("sin", v) / r.turning("cos", v),
    sp.Abs: lambda r, v: r.size(v),
    sp.sign: _sign,
    sp.Heaviside: lambda r, v: (1 + _sign(r, v)) / 2,
    sp.Max: _largest,
    sp.Min: lambda r, *parts: -_largest(r, *(-part for part in parts)),
}


@lru_cache(maxsize=128)
def ranges_of(f: sp.Expr, bits: int) -> Ranges:
    """Those of a function, which remember what they were asked."""
    return Ranges(f, bits)
