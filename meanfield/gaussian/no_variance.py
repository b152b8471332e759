"""Expressions with numbers put in, some of which leave nothing that varies."""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFunction

from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.pair_expectation import PairExpectation

__all__ = ["still", "valued"]

#: what is decided by comparisons of its arguments
_COMPARING = (sp.Min, sp.Max, Relational, BooleanFunction)


def valued(e: sp.Basic, values: Mapping[sp.Basic, sp.Expr]) -> sp.Basic:
    """The expression with values in the place of others; nan where it is decided by a comparison of 0/0, which sympy refuses to make.

    >>> from sympy.abc import a, b
    >>> valued(sp.Min(a / b, 1), {a: sp.S(0), b: sp.S(0)})
    nan
    >>> valued(sp.Piecewise((sp.sin(b) / b, sp.Ne(b, 0)), (1, True)), {b: sp.S(0)})
    1
    """
    if e in values:
        return values[e]
    if not e.args:
        return e
    if isinstance(e, sp.Piecewise):
        return _piecewise(e, values)
    args = [valued(a, values) for a in e.args]
    if isinstance(e, _COMPARING) and any(a in (sp.nan, sp.zoo) for a in args):
        return sp.nan
    return e if all(a is b for a, b in zip(args, e.args, strict=True)) else e.func(*args)


def _piecewise(e: sp.Piecewise, values: Mapping[sp.Basic, sp.Expr]) -> sp.Basic:
    """by its conditions one after the other, up to one that holds: what is not asked for may have no value"""
    pieces = []
    for branch, condition in e.args:
        own = valued(condition, values)
        if own is sp.nan:
            return sp.nan
        if own is not sp.false:
            pieces.append((valued(branch, values), own))
        if own is sp.true:
            break
    return sp.Piecewise(*pieces) if pieces else sp.nan


def still(e: sp.Expr, values: Mapping[sp.Basic, sp.Expr]) -> sp.Expr:
    """The same, with means of what does not vary then as values. Raises NoExpansion where a function has none there.

    >>> from meanfield.symbols import known
    >>> still(Expectation(sp.cos(known("x")), known("q")), {known("q"): sp.S(0)})
    1
    """

    def value(t: sp.Expr) -> sp.Expr:
        rest = t.at_rest()
        return t if rest is None else rest

    return valued(e, values).replace(lambda t: isinstance(t, (Expectation, PairExpectation)), value)
