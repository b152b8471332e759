"""The derivative of a large closed form, each part of it once."""

from __future__ import annotations

import sympy as sp
from sympy import S

__all__ = ["differentiated_once"]


def differentiated_once(e: sp.Expr, s: sp.Symbol) -> sp.Expr:
    """de/ds by the rules for sums, products, powers and functions: what sympy's diff is, which asks anew of a part wherever it stands.

    >>> from meanfield.symbols import known
    >>> p, q = known("p"), known("q")
    >>> differentiated_once(sp.asin(p / q) + p * sp.sqrt(q**2 - p**2), p)
    -p**2/sqrt(-p**2 + q**2) + sqrt(-p**2 + q**2) + 1/(q*sqrt(-p**2/q**2 + 1))
    """
    found: dict[sp.Expr, sp.Expr] = {}

    def rate(e: sp.Expr) -> sp.Expr:
        if e.is_Atom:
            return S.One if e == s else S.Zero
        if e not in found:
            found[e] = by_rule(e)
        return found[e]

    def by_rule(e: sp.Expr) -> sp.Expr:
        if e.is_Add:
            return sp.Add(*map(rate, e.args))
        if e.is_Mul:
            return sp.Add(*[sp.Mul(*e.args[:i], r, *e.args[i + 1 :]) for i, a in enumerate(e.args) if (r := rate(a)) != 0])
        if e.is_Pow and rate(e.exp) == 0:
            return sp.Mul(e.exp, e.base ** (e.exp - 1), rate(e.base))
        if isinstance(e, sp.Function) and not isinstance(e, (sp.Piecewise, sp.hyper)):
            return sp.Add(*[e.fdiff(i + 1) * r for i, a in enumerate(e.args) if (r := rate(a)) != 0])
        return e.diff(s)

    return rate(e)
