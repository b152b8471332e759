"""Functions that are singular away from 0, about their singularities: a double tells points next to 0 apart, not so next to 1."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache

import sympy as sp
from sympy.core.relational import Relational

from meanfield.gaussian.growth import unbounded
from meanfield.gaussian.mending import keeps_digits
from meanfield.gaussian.singularities import shape_of
from meanfield.gaussian.smoothness import edges
from meanfield.symbols import known

__all__ = ["Cell", "about_poles", "cells", "from_zero", "narrowest"]

x = known("x")


@dataclass(frozen=True)
class Cell:
    """f at place + x, and from where to where x goes."""

    function: sp.Expr
    place: sp.Expr
    low: float
    high: float

    @property
    def alone(self) -> sp.Expr:
        """The function, 0 beyond."""
        ends = [edge for end, edge in ((self.low, x > self.low), (self.high, x < self.high)) if math.isfinite(end)]
        return sp.Piecewise((self.function, sp.And(*ends)), (0, True)) if ends else self.function


@cache
def about_poles(f: sp.Expr) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
    """f as a sum of functions of x - k for each k at which it is infinite, and these; itself and 0 where there is none but 0."""
    powers = [t.exp for t in f.atoms(sp.Pow) if t.has(x)]
    if not (unbounded(f) or any(e.free_symbols - {x} for e in powers) or any(not t.args[0].is_positive for t in f.atoms(sp.log))):
        return ((f, sp.S.Zero),)
    found = tuple((cell.alone, cell.place) for cell in cells(f)) if f.free_symbols == {x} else _about_moving(f)
    return found or ((f, sp.S.Zero),)


def _about_moving(f: sp.Expr) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
    """The same where parameters move the places, past one another too: about each what is nearer to it than to the others."""
    bases = {t.base for t in f.atoms(sp.Pow) if not t.exp.is_Integer} | {t.args[0] for t in f.atoms(sp.log)}
    places = sorted({k for base in bases for e in (base, *edges(base)) for k in _roots(e)}, key=sp.default_sort_key)
    if not any(places):
        return ()
    found = []
    for i, k in enumerate(places):
        others = ((j, other - k) for j, other in enumerate(places) if j != i)
        nearer = [apart * (apart - 2 * x) >= 0 if i < j else apart * (apart - 2 * x) > 0 for j, apart in others]
        moved = _moved(f, k)
        found.append((sp.Piecewise((moved, sp.And(*nearer)), (0, True)) if nearer else moved, k))
    return tuple(found)


@cache
def _roots(p: sp.Expr) -> dict[sp.Expr, sp.Expr]:
    """Real roots of a line or a parabola that move with its parameters, and what it is there: not 0 at the end of one that has none."""
    if not p.is_polynomial(x) or sp.degree(p, x) not in (1, 2) or not sp.Poly(p, x).LC().is_nonzero:
        return {}
    c, b, a = (sp.expand(p).coeff(x, n) for n in range(3))
    if a == 0:
        return {sp.expand(-c / b): sp.S.Zero}
    square = sp.expand(b**2 - 4 * a * c)
    if square.is_negative:
        return {}
    return {sp.expand((-b + side * sp.sqrt(sp.Max(0, square))) / (2 * a)): sp.Max(0, -square) / (4 * a) for side in (1, -1)}


@cache
def cells(f: sp.Expr) -> tuple[Cell, ...]:
    """f about each of its singularities, roots and logarithms, up to half way to the next; none where it has none away from 0, or they
    have no closed form."""
    shape = shape_of(f)
    singular = [b for b, sharp in zip(shape.breaks, shape.sharp, strict=True) if sharp == 2]
    if shape.period or singular in ([], [0.0]):
        return ()
    exact = [next((r for r in _places(f) if abs(float(r) - b) <= 1e-12 * max(1.0, abs(b))), None) for b in singular]
    if None in exact:
        return ()
    ends = [-float("inf"), *((a + b) / 2 for a, b in itertools.pairwise(singular)), float("inf")]
    return tuple(Cell(_moved(f, k), k, low - b, high - b) for k, b, low, high in zip(exact, singular, ends, ends[1:], strict=False))


@cache
def from_zero(f: sp.Expr) -> sp.Expr:
    """A function that is singular at 0, less its value there: what is small beside the value has its digits; any other function itself."""
    if f.free_symbols != {x} or not any(b == 0.0 and sharp == 2 for b, sharp in zip(shape_of(f).breaks, shape_of(f).sharp, strict=True)):
        return f
    value = f.xreplace({x: sp.S.Zero})
    return f - value if value.is_real and keeps_digits(f - value) else f


def narrowest(found: tuple[Cell, ...]) -> float:
    """The shortest distance from a singularity to the end of its cell."""
    return min(min(-cell.low, cell.high) for cell in found)


@cache
def _places(f: sp.Expr) -> tuple[sp.Expr, ...]:
    """exact roots of arguments of logarithms and of bases of powers"""
    inner = {a.args[0] for a in f.atoms(sp.log)} | {a.base for a in f.atoms(sp.Pow) if not a.exp.is_Integer}
    polynomials = {e for e in (*edges(f), *inner) if e.is_polynomial(x) and sp.degree(e, x) in (1, 2)}
    return tuple(r for e in polynomials for r in sp.roots(sp.Poly(e, x)) if r.is_real)


def _moved(f: sp.Expr, place: sp.Expr) -> sp.Expr:
    """f(place + x), polynomials multiplied out, so that they are exactly 0 at 0"""
    if f.is_polynomial(x):
        value = _roots(f).get(place)  # of what is left beside it rounding would tell otherwise
        terms = sp.Poly(sp.expand(f.xreplace({x: x + place})), x).terms()
        return sp.Add(*[(c if c.is_Rational else sp.N(c, 30)) * x**n for (n,), c in terms if n or value is None], value or 0)
    if isinstance(f, sp.Piecewise):
        apart = {r: r.func(_moved(r.lhs - r.rhs, place), 0) for _, where in f.args for r in where.atoms(Relational)}
        return sp.Piecewise(*((_moved(value, place), where.xreplace(apart)) for value, where in f.args))
    return f.func(*(_moved(a, place) if x in a.free_symbols else a for a in f.args))
