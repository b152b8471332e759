r"""Rewriting of large expressions, whose parts stand in many places."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

__all__ = ["holds", "rewritten"]


def rewritten(e: sp.Expr, which: Callable[[sp.Expr], bool], by: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
    """`e.replace(which, by)`, from the leaves upward, with a part that stands in several places looked at once, and minima of expressions
    left as they are.

    >>> x = sp.Symbol("x")
    >>> rewritten(sp.sin(sp.sin(x)), lambda t: isinstance(t, sp.sin), lambda t: sp.cos(t.args[0]))
    cos(cos(x))
    """
    seen: dict[sp.Expr, sp.Expr] = {}

    def walk(t: sp.Expr) -> sp.Expr:
        if t not in seen:
            parts = tuple(map(walk, t.args))
            whole = t if parts == t.args else _again(t, parts)
            seen[t] = by(whole) if which(whole) else whole
        return seen[t]

    return walk(e)


def _again(t: sp.Expr, parts: tuple[sp.Expr, ...]) -> sp.Expr:
    """the same of other parts; expressions in a minimum sympy would compare anew, which takes it long"""
    if isinstance(t, (sp.Min, sp.Max)) and not any(a.is_number or isinstance(a, type(t)) for a in parts):
        return t.func(*parts, evaluate=False)
    return t.func(*parts)


def holds(e: sp.Expr, kind: type[sp.Basic]) -> bool:
    """`e.has(kind)`, with a part that stands in several places looked at once."""
    seen, ahead = {e}, [e]
    while ahead:
        part = ahead.pop()
        if isinstance(part, kind):
            return True
        new = set(part.args) - seen
        seen |= new
        ahead += new
    return False
