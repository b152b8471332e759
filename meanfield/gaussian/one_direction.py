"""Functions of two Gaussians that are sums of functions of one direction alpha u + beta v each, means of one Gaussian, or of products of
two such functions: means of the two that their directions make."""

from __future__ import annotations

import sympy as sp
from sympy import S

from meanfield.symbols import known

__all__ = ["Directed", "apart", "in_one_direction", "in_two_directions"]

#: g, alpha and beta of g(alpha x + beta y), g as a function of x
Directed = tuple[sp.Expr, sp.Expr, sp.Expr]

x, y = known("x"), known("y")


def apart(f: sp.Expr) -> sp.Expr:
    """With (a + b + |a - b|)/2 for the larger of two linear forms, and likewise for the smaller one, multiplied out."""

    def both(t: sp.Basic) -> bool:
        mixed = isinstance(t, (sp.Max, sp.Min)) and len(t.args) == 2 and {x, y} <= t.free_symbols
        return mixed and all(a.is_polynomial(x, y) and sp.total_degree(a, x, y) <= 1 for a in t.args)

    def split(t: sp.Basic) -> sp.Expr:
        a, b = t.args
        return (a + b + (1 if isinstance(t, sp.Max) else -1) * sp.Abs(a - b)) / 2

    return sp.expand(f.replace(both, split))


def in_one_direction(f: sp.Expr) -> Directed | None:
    """g, alpha and beta where f(x, y) = g(alpha x + beta y), g as a function of x; None where f is no such function."""
    if not {x, y} <= f.free_symbols:
        return None
    for part in sp.preorder_traversal(f):
        if not isinstance(part, sp.Expr) or not {x, y} <= part.free_symbols or not part.is_polynomial(x, y):
            continue
        terms = sp.Poly(part, x, y)
        if terms.total_degree() != 1:
            continue
        alpha, beta = terms.coeff_monomial(x), terms.coeff_monomial(y)
        t = sp.Dummy(real=True)
        g = f.xreplace({y: (t - alpha * x) / beta}).replace(lambda e: e.is_polynomial(x) and e.has(x), sp.expand)
        if x not in g.free_symbols:
            return g.xreplace({t: x}), alpha, beta
    return None


def in_two_directions(f: sp.Expr) -> tuple[sp.Expr, tuple[sp.Expr, ...]] | None:
    """g, a sum of products of a function of x and one of y, and a, b, c, d where f(x, y) = g(a x + b y, c x + d y); None where f is no
    product of functions of two directions and a polynomial.

    >>> in_two_directions(y * sp.Abs(x - 2 * y))
    (-x*Abs(x)/2 + y*Abs(x)/2, (1, -2, 1, 0))
    """
    found: list[Directed] = []
    rest = S.One
    for factor in sp.Mul.make_args(f.replace(_is_split, _split)):
        if factor.is_polynomial(x, y):
            rest *= factor
            continue
        part = _directed(factor)
        if part is None:
            return None
        g, alpha, beta = part
        for i, (other, a, b) in enumerate(found):
            if sp.expand(alpha * b - beta * a) == 0:
                found[i] = (other * g.xreplace({x: (alpha / a if a != 0 else beta / b) * x}), a, b)
                break
        else:
            found.append(part)
    if len(found) == 1:
        found.append((S.One, S.One, S.Zero) if found[0][2] != 0 else (S.One, S.Zero, S.One))
    if len(found) != 2:
        return None
    (first, a, b), (second, c, d) = found
    size = a * d - b * c
    turned = rest.xreplace({x: (d * x - b * y) / size, y: (a * y - c * x) / size})
    return sp.expand_mul(sp.expand(turned) * first * second.xreplace({x: y}), deep=False), (a, b, c, d)


def _directed(f: sp.Expr) -> Directed | None:
    if y not in f.free_symbols:
        return f, S.One, S.Zero
    return in_one_direction(f) if x in f.free_symbols else (f.xreplace({y: x}), S.Zero, S.One)


def _is_split(t: sp.Basic) -> bool:
    """|x y|, as sympy writes |x| |y|"""
    return isinstance(t, sp.Abs) and isinstance(t.args[0], sp.Mul)


def _split(t: sp.Basic) -> sp.Expr:
    return sp.Mul(*map(sp.Abs, t.args[0].args))
