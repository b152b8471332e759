r"""Rewriting of large expressions, whose parts stand in many places."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sympy as sp

__all__ = ["every_part", "holds", "put", "rewritten"]


def rewritten(e: sp.Expr, which: Callable[[sp.Expr], bool], by: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
    """`e.replace(which, by)`, from the leaves upward, with a part that stands in several places looked at once.

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


def put(e: sp.Expr, values: Mapping[sp.Expr, sp.Expr]) -> sp.Expr:
    """`e.xreplace(values)`, from the whole downward, with a part that stands in several places looked at once."""
    seen = dict(values)

    def walk(t: sp.Expr) -> sp.Expr:
        if t not in seen:
            parts = tuple(map(walk, t.args))
            seen[t] = t if parts == t.args else _again(t, parts)
        return seen[t]

    return walk(e)


def _again(t: sp.Expr, parts: tuple[sp.Expr, ...]) -> sp.Expr:
    """the same of other parts; those of a minimum sympy would compare anew, which takes it long"""
    return t.func(*parts, evaluate=False) if isinstance(t, (sp.Min, sp.Max)) else t.func(*parts)


def every_part(*expressions: sp.Basic) -> set[sp.Basic]:
    """The different parts of expressions, themselves among them: `sp.preorder_traversal` without those that it has been at."""
    seen, ahead = set(expressions), list(expressions)
    while ahead:
        new = set(ahead.pop().args) - seen
        seen |= new
        ahead += new
    return seen


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
