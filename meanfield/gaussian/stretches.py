"""Stretches of one side of the line, between the places at which steep exponentials turn from next to nothing to large."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import sympy as sp
from sympy import S, exp
from sympy.core.relational import GreaterThan, LessThan, Relational, StrictGreaterThan, StrictLessThan

from meanfield.gaussian.special import is_linear
from meanfield.symbols import known

__all__ = ["Stretch"]

x = known("x")

#: exponents up to which e^z and its cube are doubles
_MODEST = 200
#: at most so many places cut a side of the line
_MOST = 12


@dataclass(frozen=True)
class Stretch:
    """low < sign x < high, low >= 0."""

    sign: int
    low: sp.Expr = S.Zero
    high: sp.Expr = S.Infinity

    def rise(self, z: sp.Expr) -> int:
        """1 where a polynomial rises all the way outward, -1 where it falls, 0 where neither is known; the same of one in x and 1/x that
        is positive or negative there, and infinite at 0. A linear one that changes its sign beyond the stretch is seen from there: what
        it rises from is far below 0."""
        if not z.is_polynomial(x):
            over, under = sp.fraction(sp.together(z)) if z.is_rational_function(x) else (z, z)
            c, power = under.as_independent(x, as_Add=False)
            if power.as_base_exp()[0] != x or not over.is_polynomial(x):
                return 0
            signs = {(v * self.sign ** (k - sp.degree(power, x)) / c).is_positive for (k,), v in sp.Poly(over, x).terms()}
            return 1 if signs == {True} else -1 if signs == {False} else 0
        if sp.degree(z, x) < 1:
            return 0
        poly = sp.Poly(z, x)
        if poly.degree() > 1 and poly.nth(0) != 0:
            return 0
        outward = [c * self.sign**k for (k,), c in poly.terms() if k]
        risen = 1 if all(c.is_positive for c in outward) else -1 if all(c.is_negative for c in outward) else 0
        return -risen if self.is_turned(z) else risen

    def grows(self, f: sp.Expr) -> bool:
        """Whether an exponential in f may rise."""
        return f.has(sp.cosh, sp.sinh) or any(self.rise(t.args[0]) >= 0 for t in f.atoms(exp))

    def is_turned(self, z: sp.Expr) -> bool:
        """Whether a linear exponent changes its sign only beyond the stretch."""
        return self.high != S.Infinity and is_linear(z, x) and bool((self.turn(z) - self.high).is_nonnegative)

    def turn(self, z: sp.Expr) -> sp.Expr:
        """Where, at which sign x, a linear exponent is 0."""
        return -self.sign * z.xreplace({x: S.Zero}) / sp.expand(z).coeff(x)

    def holds(self, place: sp.Expr) -> bool:
        """Whether a place may lie within."""
        return not ((place - self.low).is_nonpositive or (place - self.high).is_nonnegative)

    def turns(self, f: sp.Expr) -> list[sp.Expr]:
        """Where exponents that may be large on either side, those of cosh and sinh too and those of a logarithm beside each other, change
        their sign, and what may lack next to nothing of its limits on both; from 0 outward, none where these places have no order, or are
        many."""
        lines = [(t.args[0], _MODEST) for t in f.atoms(exp, sp.cosh, sp.sinh)]
        lines += [(sp.expand(a - b), _MODEST) for t in f.atoms(sp.log) for a, b in itertools.combinations(_powers(t.args[0]), 2)]
        lines += [(t.args[0], 1) for t in f.atoms(sp.tanh, sp.erf)] if f.has(sp.Add) else []
        steep = [z for z, modest in lines if is_linear(z, x) and not (sp.Abs(z.xreplace({x: S.Zero})) - modest).is_nonpositive]
        places = {turn for turn in map(self.turn, steep) if turn.is_positive and self.holds(turn)}
        ordered = len(places) == 1 or all(turn.is_number for turn in places)
        return sorted(places) if ordered and len(places) <= _MOST else []

    def cut(self, places: list[sp.Expr]) -> list[Stretch]:
        """What places leave of it, from 0 outward."""
        ends = [self.low, *places, self.high]
        return [replace(self, low=low, high=high) for low, high in itertools.pairwise(ends)]

    def where(self, condition: sp.Basic) -> tuple[Stretch, Stretch]:
        """What of it a condition may hold on, and what is left for those after it."""
        line = condition.lhs - condition.rhs if isinstance(condition, Relational) else S.Zero
        if not is_linear(line, x) or not isinstance(condition, (StrictGreaterThan, GreaterThan, StrictLessThan, LessThan)):
            return self, self
        place, rises = self.turn(line), bool((self.sign * sp.expand(line).coeff(x)).is_positive)
        if not self.holds(place):
            return self, self
        inner, outer = self.cut([place])
        return (outer, inner) if rises == isinstance(condition, (StrictGreaterThan, GreaterThan)) else (inner, outer)


def _powers(e: sp.Expr) -> list[sp.Expr]:
    """exponents of the terms of a sum"""
    return sorted({t.args[0] for t in e.atoms(exp)}, key=sp.default_sort_key) if isinstance(e, sp.Add) else []
