r"""Expectations of two Gaussians where they are one: E f(u) g(v) at correlation 1 or -1, where deltas and roots may meet.

There v = m_2 \pm \sqrt{v_2/v_1} (u - m_1), and E f(u) g(v) is the expectation of one function of u: infinite where f and g have a delta
at one place of it, as E \phi'(u) \phi'(v) of a function that jumps, or where their product has a pole.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp
from sympy import S

from meanfield.gaussian.expectation import Expectation, density
from meanfield.gaussian.growth import places, pole_of
from meanfield.gaussian.pieces import NotClosed, pieces_of
from meanfield.gaussian.slopes import Delta, deltas
from meanfield.symbols import known

__all__ = ["as_one", "coincide", "coincident", "may_be_infinite"]

x = known("x")

#: variances, covariance and means: v1, cov, v2, m1, m2
Law = tuple[sp.Expr, ...]


@lru_cache(maxsize=512)
def may_be_infinite(f: sp.Expr) -> bool:
    """Whether f has what its own kind must not meet: deltas, or places where it is infinite."""
    return bool(f.has(sp.DiracDelta)) or (f.free_symbols == {x} and bool(places(f)))


@lru_cache(maxsize=512)
def coincident(f: sp.Expr, g: sp.Expr, law: Law) -> sp.Expr | None:
    """oo or -oo where E f(u) g(v) is infinite since u and v are one; None where it is finite, not known, or they are two."""
    if not (may_be_infinite(f) and may_be_infinite(g)):
        return None
    rate = _rate(law)
    if rate is None:
        return None
    (v1, *_, m1, m2) = law
    if f.has(sp.DiracDelta) and g.has(sp.DiracDelta):
        return _infinity(_met(deltas(f)[1], deltas(g)[1], law, rate), m1, v1)
    product = f * g.xreplace({x: m2 + rate * (x - m1)})
    return None if product.free_symbols != {x} or product.has(sp.DiracDelta) else pole_of(product)


def _met(first: tuple[Delta, ...], second: tuple[Delta, ...], law: Law, rate: sp.Expr) -> list[tuple[sp.Expr, sp.Expr]]:
    """the places of u at which a delta of f meets one of g, and the product of what stands before them"""
    pairs = ((d, e) for d in first for e in second if sp.expand(e.place - law[4] - rate * (d.place - law[3])) == 0)
    return [(d.place, d.factor.xreplace({x: d.place}) * e.factor.xreplace({x: e.place})) for d, e in pairs]


def _infinity(met: list[tuple[sp.Expr, sp.Expr]], mean: sp.Expr, variance: sp.Expr) -> sp.Expr | None:
    """which one products of deltas are: oo or -oo if they are of one sign, else by how likely their places are; None if it is unknown"""
    signs = {sp.sign(sp.N(weight)) for _, weight in met}
    if len(signs) > 1:
        signs = {sp.sign(sp.N(sp.Add(*[c * sp.exp(-((a - mean) ** 2) / (2 * variance)) for a, c in met])))}
    return {frozenset({S.One}): S.Infinity, frozenset({S.NegativeOne}): S.NegativeInfinity}.get(frozenset(signs))


def as_one(f: sp.Expr, g: sp.Expr, law: Law) -> sp.Expr | None:
    """E f(u) g(v) of functions with deltas where v is a function of u, as expectations of u alone; None where it is not, or not known.

    A delta sees the mean of both sides where the other function jumps: what correlations next to 1 and -1 tend to.
    """
    (v1, _, v2, m1, m2), rate = law, _rate(law)
    if rate is None:
        return None
    (smooth, first), (other, second) = deltas(f), deltas(g)
    if _met(first, second, law, rate):
        return None
    total = Expectation(smooth * other.xreplace({x: m2 + rate * (x - m1)}), v1, m1)
    try:
        for d in first:
            total += _weight(d) * density(d.place, m1, v1) * _between(other, m2 + rate * (d.place - m1))
        for e in second:
            total += _weight(e) * density(e.place, m2, v2) * _between(smooth, m1 + (e.place - m2) / rate)
    except NotClosed:
        return None
    return total


def _weight(d: Delta) -> sp.Expr:
    if d.order:
        raise NotClosed(f"a delta at {d.place} has a derivative")
    return d.factor.xreplace({x: d.place})


def _between(f: sp.Expr, place: sp.Expr) -> sp.Expr:
    """the mean of f on both sides of a place"""
    cuts, values = pieces_of(f)
    sides = [sp.expand(place - cut) for cut in cuts]
    below, above = (values[sum(bool(s.is_positive or (last and s == 0)) for s in sides)] for last in (False, True))
    return (below + above).xreplace({x: place}) / 2


def coincide(law: Law) -> bool:
    """Whether v is a function of u."""
    return _rate(law) is not None


def _rate(law: Law) -> sp.Expr | None:
    """dv/du where v is a function of u"""
    v1, cov, v2 = law[:3]
    for rate in (S.One, S.NegativeOne):
        if v1 == v2 and cov == rate * v1:
            return rate
    if v1 == v2 or sp.expand(cov**2 - v1 * v2) != 0:
        return None
    return cov / v1
