"""Long expressions have few distinct parts: what is asked of an expression, or put into it, part by part and each part once."""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

__all__ = ["parts_of", "put_in"]


def parts_of(e: sp.Basic, kind: type[sp.Basic] | tuple[type[sp.Basic], ...]) -> set[sp.Basic]:
    """All parts of a kind, as `e.atoms(kind)` has them.

    >>> import sympy as sp
    >>> x = sp.Symbol("x")
    >>> parts_of(sp.sin(x) * sp.exp(sp.sin(x)), sp.sin)
    {sin(x)}
    """
    seen, left = {e}, [e]
    while left:
        new = set(left.pop().args) - seen
        seen |= new
        left += new
    return {t for t in seen if isinstance(t, kind)}


def put_in(e: sp.Basic, values: Mapping[sp.Basic, sp.Basic]) -> sp.Basic:
    """Values in the place of parts, as `e.xreplace(values)` puts them.

    >>> import sympy as sp
    >>> x = sp.Symbol("x")
    >>> put_in(sp.sin(x) * sp.exp(sp.sin(x)), {sp.sin(x): x})
    x*exp(x)
    """
    return _put(e, dict(values)) if values else e


def _put(e: sp.Basic, done: dict[sp.Basic, sp.Basic]) -> sp.Basic:
    if e not in done:
        args = [_put(a, done) for a in e.args]
        done[e] = e if all(a is b for a, b in zip(args, e.args, strict=True)) else e.func(*args)
    return done[e]
