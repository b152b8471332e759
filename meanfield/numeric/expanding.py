"""Sums in the state of a recursion whose coefficients stay as they are written: (1 + (a - 1000)^4)^-1 multiplied out is rounding."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from meanfield.symbols import known

__all__ = ["cancelled", "expanded"]

#: beside the named quantities that are made of these, which are dummies
STATE = {known("q"), known("p"), known("delta")}


def expanded(e: sp.Expr) -> sp.Expr:
    """e multiplied out.

    >>> a = sp.Symbol("a")
    >>> expanded((known("q") - known("delta")) / (1 + (a - 1000) ** 4))
    -delta/((a - 1000)**4 + 1) + q/((a - 1000)**4 + 1)
    """
    return _beside(sp.expand, e)


def cancelled(e: sp.Expr) -> sp.Expr:
    """e as one quotient, of which what cancels is gone."""
    return _beside(sp.cancel, e)


def _beside(form: Callable[[sp.Expr], sp.Expr], e: sp.Expr) -> sp.Expr:
    """a form of e, its sums of other things as symbols"""
    held: dict[sp.Expr, sp.Symbol] = {}

    def hold(t: sp.Basic) -> sp.Basic:
        moving = any(s in STATE or isinstance(s, sp.Dummy) for s in t.free_symbols)
        if not moving and (t.is_Add or t.is_Function or (t.is_Pow and not t.exp.is_Integer)):
            return held.setdefault(t, sp.Dummy("c", positive=t.is_positive, nonnegative=t.is_nonnegative, real=t.is_real))
        return t.func(*map(hold, t.args)) if t.args else t

    result = form(hold(e))
    return result.xreplace({symbol: t for t, symbol in held.items()})
