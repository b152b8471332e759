"""Functions of two Gaussians that are sums of functions of one direction alpha u + beta v each: means of one Gaussian."""

from __future__ import annotations

import sympy as sp

from meanfield.symbols import known

__all__ = ["apart", "in_one_direction"]

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


def in_one_direction(f: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr] | None:
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
