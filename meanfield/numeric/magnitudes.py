r"""Products of lowered expressions in an order in which no part of them leaves the doubles where the whole stays.

q^2/\sqrt{1 + 2 q}/(1 + q) is about \sqrt q/\sqrt 2, and q^2 e^{-2 q} nothing, but q^2 is no double from 1e154 on. What a factor grows by is
read off as a power of q as q and delta go to infinity together; factors that rise and that fall take turns, so that a product of some of
them is between 1/q and q. Where a sum among the factors rises faster than q it is factored, or multiplied out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import sympy as sp
from sympy.codegen.cfunctions import expm1

from meanfield.gaussian.half_waves import CosineNormalCDF, SineNormalCDF
from meanfield.gaussian.rewriting import rewritten
from meanfield.gaussian.special import NormalCDF, Whole
from meanfield.numeric.arcs import AcuteAngle, FlatAngle, Guarded, RootAngle, Segment, TangentSegment
from meanfield.numeric.radicals import Inverse, InverseRoot, Lowered, Root
from meanfield.symbols import known

__all__ = ["Chain", "chained", "within_range"]

q, delta = known("q"), known("delta")

_BOUNDED = (
    AcuteAngle,
    FlatAngle,
    RootAngle,
    Segment,
    TangentSegment,
    CosineNormalCDF,
    NormalCDF,
    SineNormalCDF,
    sp.atan2,
    sp.atan,
    sp.erf,
    sp.erfc,
    expm1,
)
_POWERS = {Root: 0.5, InverseRoot: -0.5, Inverse: -1.0}
#: so many factors of a power are written one by one
_MOST = 16
#: a number before a power from which on that may lose digits below the least double where their product does not
_LARGE = 2.0**20
#: how many more operations a product may become: beyond that it stays as it is
_LONGER = 10


class Chain(sp.Function):
    """A product from left to right."""

    is_real = True


class Unknown(Exception):
    """It is not known how fast an expression rises."""


def chained(values: list[sp.Expr], named: Mapping[sp.Symbol, sp.Expr]) -> list[sp.Expr]:
    """Expressions that mean the same; `named` symbols stand for others."""
    rise = _Rise(named)

    def ordered(e: sp.Mul) -> sp.Expr:
        try:
            found = _ordered(e, rise)
            return found if sp.count_ops(found) <= sp.count_ops(e) + _LONGER else e
        except Unknown:
            return e

    return [rewritten(e, lambda t: isinstance(t, sp.Mul) and bool(t.free_symbols & {q, delta}), ordered) for e in values]


def within_range(e: sp.Expr) -> sp.Expr:
    """An expression that means the same, with large numbers before high powers put into these by powers of 2, which do not round: 81!! q^41
    is a double from 1e-8 on, q^41 hardly one there."""

    def high(t: sp.Expr) -> bool:
        return bool(t.is_Pow and t.exp.is_Integer and t.exp > _MOST and t.base.free_symbols)

    def shared(t: sp.Mul) -> sp.Expr:
        numbers, others = sp.sift(t.args, lambda a: a.is_number, binary=True)
        number, powers = sp.Mul(*numbers), [a for a in others if high(a)]
        if not powers or not abs(number) > _LARGE:
            return t
        degree = sum(int(a.exp) for a in powers)
        factor = sp.Integer(2) ** round(float(sp.log(abs(number), 2)) / degree)
        rest = [a for a in others if a not in powers]
        return sp.Mul(number / factor**degree, *rest, *(Whole(factor * a.base) ** a.exp for a in powers))

    return rewritten(e, lambda t: isinstance(t, sp.Mul) and any(map(high, t.args)), shared)


class _Rise:
    """The power of q that an expression is at most of, -inf where it falls exponentially."""

    def __init__(self, named: Mapping[sp.Symbol, sp.Expr]) -> None:
        self.known: dict[sp.Expr, float] = {q: 1.0, delta: 1.0}
        self.named = named

    def __call__(self, e: sp.Expr) -> float:
        if e not in self.known:
            self.known[e] = self._of(e)
        return self.known[e]

    def _of(self, e: sp.Expr) -> float:
        if e in self.named:
            return self(self.named[e])
        if not e.free_symbols or e.is_Symbol or isinstance(e, _BOUNDED):
            return 0.0
        if isinstance(e, sp.exp):
            return -math.inf if self(e.args[0]) > 0.0 else 0.0
        if isinstance(e, (sp.Add, sp.Min, sp.Max)):
            return max(map(self, e.args))
        if isinstance(e, sp.Piecewise):
            return max(self(piece) for piece, _ in e.args)
        if isinstance(e, (sp.Mul, Lowered, Chain)):
            return math.fsum(map(self, e.args))
        if e.is_Pow and e.exp.is_Rational:
            return self(e.base) * float(e.exp)
        if type(e) in _POWERS:
            return self(e.args[0]) * _POWERS[type(e)]
        if isinstance(e, (Guarded, Whole, sp.Abs)):
            return self(e.args[0])
        raise Unknown(str(e.func))


def _ordered(e: sp.Mul, rise: _Rise) -> sp.Expr:
    """the product as a chain, or as a sum of them, where a part of it may be beyond what it is"""
    factors = _whole_roots([f for part in e.args for f in _single(part)])
    rises = [rise(f) for f in factors]
    if not _wild(rises) or sum(rises) > 1.0:
        return e
    steep = next((f for f, r in zip(factors, rises, strict=True) if r > 1.0 and not _is_lowered((f, r))), None)
    if steep is None:
        return Chain(*_in_turns(factors, rises))
    parts = sp.Mul.make_args(sp.factor(steep))
    if len([f for part in parts for f in _single(part)]) > 1 and all(rise(f) <= 1.0 for part in parts for f in _single(part)):
        return _ordered(sp.Mul(*factors, *parts) / steep, rise)
    if not isinstance(steep, sp.Add):
        return e
    factors.remove(steep)
    return sp.Add(*[_ordered(t, rise) if isinstance(t, sp.Mul) else t for t in (sp.Mul(*factors, a) for a in steep.args)])


def _whole_roots(factors: list[sp.Expr]) -> list[sp.Expr]:
    """with x and 1/sqrt(x) in one piece, which is a root that others need too; not where x is in units of its own"""
    for f in [f for f in factors if isinstance(f, InverseRoot) and not isinstance(f.args[0], Lowered)]:
        if factors.count(f) == factors.count(f.args[0]) == 1:
            factors = [g for g in factors if g not in (f, f.args[0])] + [f.args[0] * f]
    return factors


def _wild(rises: list[float]) -> bool:
    """whether some of them together rise faster than q, or fall as fast while others make up for it"""
    above, below = (math.fsum(r for r in rises if sign * r > 0.0) for sign in (1, -1))
    return above > 1.0 or (below < -1.0 and above > 0.0)


def _single(e: sp.Expr) -> list[sp.Expr]:
    """the factors of a power"""
    if isinstance(e, Chain):
        return list(e.args)
    if e.is_Pow and e.exp.is_Rational and 1 < abs(e.exp) <= _MOST:
        whole = int(abs(e.exp))
        rest = abs(e.exp) - whole
        sign = sp.sign(e.exp)
        return [e.base**sign] * whole + [e.base ** (sign * rest)] * bool(rest)
    return [e]


def _in_turns(factors: list[sp.Expr], rises: list[float]) -> list[sp.Expr]:
    """products in units of their own first, with the numbers that these are, and what falls exponentially; then what brings the power of q
    back to 0. delta, which may be next to nothing beside q, comes as late as it can."""
    rest = list(zip(factors, rises, strict=True))
    first = [part for early in (_is_lowered, _is_number, _falls) for part in rest if early(part)]
    rest = [part for part in rest if part not in first]
    power = math.fsum(r for _, r in first if r > -math.inf)
    constant = sp.Mul(*[f for f, _ in rest if not f.free_symbols & {q, delta}])
    rest = [part for part in rest if part[0].free_symbols & {q, delta}]
    chain = [*([constant] * (constant != 1)), *(f for f, _ in first)]
    while rest:
        within = [part for part in rest if part[0] != delta and abs(power + part[1]) <= 1.0]
        following = min(within or rest, key=lambda part: abs(power + part[1]))
        rest.remove(following)
        chain.append(following[0])
        power += following[1]
    return chain


def _is_number(part: tuple[sp.Expr, float]) -> bool:
    return bool(part[0].is_number)


def _is_lowered(part: tuple[sp.Expr, float]) -> bool:
    base = part[0].as_base_exp()[0]
    return isinstance(base, Lowered) or (isinstance(base, (Root, InverseRoot)) and isinstance(base.args[0], Lowered))


def _falls(part: tuple[sp.Expr, float]) -> bool:
    return part[1] == -math.inf
