"""A function of x without its factor and the scale of x."""

from __future__ import annotations

import sympy as sp
from sympy.core.relational import Relational

from meanfield.symbols import known

__all__ = ["standardised"]

x = known("x")


def standardised(f: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """(c, g, a) with f(x) = c g(a x), g free of parameters where they are a common scale of x; (c, g, 1) where they are not."""
    c, g = f.as_independent(x, as_Add=False)
    scales = {t.as_independent(x)[0] for t in sp.preorder_traversal(g) if isinstance(t, sp.Mul) and t.as_independent(x)[1] == x}
    scales |= {-a for a in scales} | {1 / t for t in g.free_symbols - {x}}
    for a in sorted(scales - {sp.S.One}, key=sp.count_ops):
        if a.is_positive is not True or not a.free_symbols:
            continue
        k, h = sp.factor_terms(_compared(g.xreplace({x: x / a}), 1 / a)).as_independent(x, as_Add=False)
        if h.free_symbols <= {x}:
            return c * k, h, a
    return c, g, sp.S.One


def _compared(f: sp.Expr, s: sp.Expr) -> sp.Expr:
    """f with a positive s taken out of what it compares: Max(s, s x) = s Max(1, x), and a step or a condition does without it"""
    if not s.is_Symbol:
        return f

    def apart(t: sp.Expr) -> sp.Expr:
        if isinstance(t, sp.Piecewise):
            for k in (1, 2):
                pieces = [(sp.cancel(value / s**k), condition) for value, condition in t.args]
                if not any(part.has(s) for pair in pieces for part in pair):
                    return s**k * sp.Piecewise(*pieces)
            return t
        count = 1 if isinstance(t, sp.Heaviside) else len(t.args)
        args = [sp.expand(a / s) for a in t.args[:count]]
        if any(a.has(s) for a in args):
            return t
        alone = t.func(*args, *t.args[count:])
        return s * alone if isinstance(t, (sp.Max, sp.Min, sp.Abs)) else alone

    return f.replace(lambda t: isinstance(t, (sp.Max, sp.Min, sp.Abs, sp.Heaviside, sp.sign, sp.Piecewise, Relational)) and t.has(s), apart)
