"""Where a function is smooth: whether it is everywhere, the edges at which it is not, and its analytic branches between these."""

from __future__ import annotations

import itertools
from functools import cache

import sympy as sp
from sympy import Heaviside, S

from meanfield.gaussian.essential import essential_places
from meanfield.gaussian.pieces import KINKED, NotClosed, declare, pieces_of
from meanfield.symbols import known

__all__ = ["almost_everywhere", "branch", "edges", "in_pieces", "is_smooth", "steps_only", "triangle_waves", "without_deltas"]

x = known("x")


def is_smooth(f: sp.Expr) -> bool:
    """Whether f is written without kinks, jumps, deltas, and functions of what is infinite."""
    return not f.has(*KINKED, sp.DiracDelta) and not triangle_waves(f) and not essential_places(f)


def triangle_waves(f: sp.Expr) -> dict[sp.Expr, tuple[sp.Expr, int, sp.Expr]]:
    """the triangle waves in f, asin(sin v) and its like, as (v, n, c) of n asin(sin v) + c"""
    found = {}
    for t in f.atoms(sp.asin, sp.acos):
        if isinstance(t.args[0], (sp.sin, sp.cos)) and t.has(x):
            v = t.args[0].args[0] + (sp.pi / 2 if isinstance(t.args[0], sp.cos) else 0)
            found[t] = (v, 1, S.Zero) if isinstance(t, sp.asin) else (v, -1, sp.pi / 2)
    return found


def without_deltas(f: sp.Expr) -> sp.Expr:
    """f away from its deltas in x."""
    return f.replace(lambda t: isinstance(t, sp.DiracDelta) and t.has(x), lambda _: S.Zero)


@cache
def almost_everywhere(f: sp.Expr) -> sp.Expr:
    """The one piece of a function whose pieces all agree, so that its value at single points is forgotten; any other function itself."""
    if is_smooth(f) or f.has(sp.DiracDelta):
        return f
    try:
        cuts, values = pieces_of(f)
    except NotClosed:
        return f
    return f if cuts else values[0]


@cache
def in_pieces(f: sp.Expr) -> sp.Expr:
    """A function with a product of an exponential and a function with kinks as its pieces: where one factor is 0 the other may overflow."""
    if not any(t.is_Mul and t.has(sp.exp, sp.sinh, sp.cosh) and any(a.has(*KINKED) for a in t.args) for t in sp.preorder_traversal(f)):
        return f
    try:
        cuts, values = pieces_of(f)
    except NotClosed:
        return f
    if S.Zero not in values:
        return f
    return sp.Piecewise(*((value, x < cut) for value, cut in zip(values, cuts, strict=False)), (values[-1], True))


def steps_only(f: sp.Expr) -> bool:
    """Whether a function of x is constant between the points where it jumps.

    >>> x = known("x")
    >>> steps_only(2 - 3 * Heaviside(x - 1)), steps_only((1 - Heaviside(x)) * sp.exp(x) + Heaviside(x))
    (True, False)
    """
    if not f.has(x) or isinstance(f, (Heaviside, sp.sign)):
        return True
    if isinstance(f, sp.Piecewise):
        return all(steps_only(value) for value, _ in f.args)
    return bool(f.args) and all(map(steps_only, f.args))


@cache
def edges(f: sp.Expr) -> tuple[sp.Expr, ...]:
    """Expressions whose zeros are the kinks of f."""
    found: list[sp.Expr] = []
    for t in f.atoms(sp.Max, sp.Min):
        found += [a - b for a, b in itertools.combinations(t.args, 2)]
    found += [t.args[0] for t in f.atoms(sp.Abs, sp.sign, Heaviside)]
    for t in f.atoms(sp.Piecewise):
        found += [r.lhs - r.rhs for _, condition in t.args for r in sp.sympify(condition).atoms(sp.Rel)]
    found += [sp.cos(v) for v, _, _ in triangle_waves(f).values()]
    smooth: dict[sp.Expr, None] = {}
    for edge in found:
        folded = sp.piecewise_fold(edge.rewrite(sp.Piecewise)) if edge.has(*KINKED) else edge
        for part in [value for value, _ in folded.args] if isinstance(folded, sp.Piecewise) else [folded]:
            if part.has(x):
                smooth[part] = None
    return tuple(smooth)


def branch(f: sp.Expr, at: sp.Expr) -> sp.Expr:
    """The analytic branch of f around a point that is no kink."""

    def chosen(t: sp.Basic) -> sp.Basic:
        here = t.xreplace({x: at})
        if isinstance(t, (sp.Max, sp.Min)):
            best = [a for a in t.args if a.xreplace({x: at}) == here] or [a for a in t.args if sp.expand(a.xreplace({x: at}) - here) == 0]
            return best[0] if best else t
        if isinstance(t, sp.Abs):
            return t.args[0] if _is_positive(t.args[0].xreplace({x: at})) else -t.args[0]
        if isinstance(t, sp.Piecewise):
            return next(e for e, condition in t.args if condition in (True, sp.true) or condition.xreplace({x: at}) == sp.true)
        return here

    while f.has(*KINKED):
        g = f.replace(lambda t: isinstance(t, KINKED) and not any(a.has(*KINKED) for a in t.args), chosen)
        if g == f:
            raise NotClosed(f"which branch of {f} holds at {at} depends on a parameter")
        f = g
    return without_deltas(f.xreplace({t: n * _straight(v, at) + c for t, (v, n, c) in triangle_waves(f).items()}))


def _straight(v: sp.Expr, at: sp.Expr) -> sp.Expr:
    """asin(sin v) on the side of its kinks on which a point is"""
    turn = sp.floor(v.xreplace({x: at}) / sp.pi + S.Half)
    return (-1) ** turn * (v - turn * sp.pi)


def _is_positive(e: sp.Expr) -> bool:
    if e.is_positive is None and not e.is_number:
        raise NotClosed(f"the sign of {e} is not known: {declare(e)}")
    return bool(e > 0)
