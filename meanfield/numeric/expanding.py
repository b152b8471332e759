"""Sums in the state of a recursion whose coefficients stay as they are written: (1 + (a - 1000)^4)^-1 multiplied out is rounding."""

from __future__ import annotations

from collections import defaultdict

import sympy as sp

from meanfield.symbols import known

__all__ = ["cancelled", "expanded"]

#: beside the named quantities that are made of these, which are dummies
STATE = {known("q"), known("p"), known("delta")}


def expanded(e: sp.Expr) -> sp.Expr:
    """e multiplied out; the coefficient of what stands in it more than once too, where it is shorter then.

    >>> a, q, delta = sp.Symbol("a"), known("q"), known("delta")
    >>> expanded((q - delta) / (1 + (a - 1000) ** 4))
    -delta/((a - 1000)**4 + 1) + q/((a - 1000)**4 + 1)
    >>> expanded((1 - a) ** 2 * q + a * (2 - a) * q)
    q
    """
    coefficients: dict[sp.Expr, sp.Symbol] = {}
    total = sp.expand(_held(e, coefficients))
    if not coefficients:
        return total
    written = {symbol: t for t, symbol in coefficients.items()}
    moving = [s for s in total.free_symbols if _moves(s) and s not in written]
    rows: dict[sp.Expr, list[sp.Expr]] = defaultdict(list)
    for term in sp.Add.make_args(total):
        coefficient, factor = term.as_independent(*moving, as_Add=False)
        rows[factor.xreplace(written)].append(coefficient.xreplace(written))
    return sp.Add(*[_summed(terms, factor) for factor, terms in rows.items()])


def cancelled(e: sp.Expr) -> sp.Expr:
    """e as one quotient, of which what of its state cancels is gone."""
    coefficients: dict[sp.Expr, sp.Symbol] = {}
    quotient = sp.cancel(_held(e, coefficients))
    return quotient.xreplace({symbol: t for t, symbol in coefficients.items()})


def _held(e: sp.Expr, coefficients: dict[sp.Expr, sp.Symbol]) -> sp.Expr:
    """e with symbols for what does not move and would be multiplied out: sums, functions and roots of parameters"""

    def hold(t: sp.Basic) -> sp.Basic:
        if not any(map(_moves, t.free_symbols)) and (t.is_Add or t.is_Function or (t.is_Pow and not t.exp.is_Integer)):
            return coefficients.setdefault(t, sp.Dummy("c", positive=t.is_positive, nonnegative=t.is_nonnegative, real=t.is_real))
        return t.func(*map(hold, t.args)) if t.args else t

    return hold(e)


def _moves(s: sp.Basic) -> bool:
    """whether a symbol is of the state"""
    return s in STATE or isinstance(s, sp.Dummy)


def _summed(terms: list[sp.Expr], factor: sp.Expr) -> sp.Expr:
    """the sum of terms of one factor"""
    total = sp.Add(*terms)
    plain = sp.expand(total) if len(terms) > 1 else total
    return sp.expand(plain * factor) if plain.count_ops() < total.count_ops() else sp.Add(*[term * factor for term in terms])
