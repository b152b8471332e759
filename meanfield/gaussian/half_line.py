"""The positive half line between the kinks of a function, and its branches there."""

from __future__ import annotations

import itertools
from functools import cache

import sympy as sp
from sympy import S

from meanfield.gaussian.local_expansions import at_infinity
from meanfield.gaussian.pieces import NotClosed
from meanfield.gaussian.real_roots import RealRoot, located_roots
from meanfield.gaussian.series import NoExpansion
from meanfield.gaussian.smoothness import branch, edges
from meanfield.symbols import known

__all__ = ["breakpoints", "half", "pieces"]

x = known("x")


def breakpoints(f: sp.Expr) -> tuple[sp.Expr, ...]:
    """The points x > 0, in order, where f changes its branch: exact, or as constants of any number of digits."""
    found: set[sp.Expr] = set().union(*(_roots(edge, f) for edge in edges(f)))
    positive = [r for r in found if r.is_positive]
    if any(r.is_positive is None for r in found):
        raise NoExpansion("where ", f, " has its kinks depends on the sign of a parameter")
    try:
        ordered = sorted(positive, key=lambda r: sp.N(r, 30))
    except TypeError:
        raise NoExpansion("the order of the kinks of ", f, " depends on a parameter") from None
    same = {b for a, b in itertools.pairwise(ordered) if {type(a), type(b)} & {RealRoot} and abs(sp.N(b - a, 30)) < 1e-20 * sp.N(b, 30)}
    return tuple(r for r in ordered if r not in same)


def _roots(edge: sp.Expr, f: sp.Expr) -> set[sp.Expr]:
    if not edge.is_polynomial(x):
        at_infinity(edge, 1)  # which an edge has whose sign is settled far out
        try:
            return located_roots(edge, f)
        except NotClosed as reason:
            raise NoExpansion("the kinks of ", f, " lie at the roots of ", edge, ", which is not a polynomial: ", reason) from None
    polynomial = sp.Poly(edge, x)
    if polynomial.degree() == 1:
        return {-polynomial.nth(0) / polynomial.nth(1)}
    return {r for r in sp.roots(polynomial) if r.is_real} if edge.free_symbols - {x} else set(sp.real_roots(polynomial))


@cache
def pieces(g: sp.Expr) -> tuple[tuple[sp.Expr, sp.Expr, sp.Expr], ...]:
    """(from, to, branch) along the positive half line."""
    ends = (S.Zero, *breakpoints(g), S.Infinity)
    try:
        return tuple((a, b, branch(g, (a + b) / 2 if b is not S.Infinity else a + 1)) for a, b in itertools.pairwise(ends))
    except NotClosed as reason:
        raise NoExpansion(reason) from None


def half(f: sp.Expr) -> sp.Expr:
    """f on x > 0, without switches where it has no kinks there."""
    found = pieces(f)
    return found[0][2] if len(found) == 1 else f
