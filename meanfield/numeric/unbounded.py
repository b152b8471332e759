r"""Infinite expectations with a weight, as \sigma_w^2 E \phi'(u)^2 where \phi jumps: infinite, but 0 at weights that are exactly 0."""

from __future__ import annotations

from typing import TypeVar

import sympy as sp

from meanfield.gaussian.rewriting import holds

__all__ = ["Unbounded", "bounded_or_weighed", "weighed"]

Form = TypeVar("Form")


class Unbounded(sp.Function):
    r"""w \infty, 0 at w = 0: what has no weight is not there. An infinity of sympy would take the weight into itself."""

    nargs = 1
    is_extended_real = True


def bounded_or_weighed(form: Form) -> Form:
    """A closed form or none, an infinite one with the weight 1."""
    return sp.sign(form) * Unbounded(sp.S.One) if form in (sp.oo, -sp.oo) else form


def weighed(e: sp.Expr) -> sp.Expr:
    """The expression with what multiplies infinite expectations as their weights. A weight that is a difference is one: two infinities have
    none.

    >>> import sympy as sp
    >>> a, b = sp.symbols("a b", positive=True)
    >>> weighed(a * (b + 4 * Unbounded(sp.S.One)))
    a*b + Unbounded(4*a)
    >>> weighed((a - b) * Unbounded(sp.S.One))
    Unbounded(a - b)
    """
    if not holds(e, Unbounded):
        return e
    if isinstance(e, sp.Add):
        return sp.Add(*map(weighed, e.args))
    factors = sp.Mul.make_args(e)
    infinite, rest = sp.sift(factors, lambda f: isinstance(f, Unbounded), binary=True)
    if infinite:
        return Unbounded(sp.Mul(*rest, *[f.args[0] for f in infinite]))
    parted = next((f for f in factors if isinstance(f, sp.Add) and holds(f, Unbounded)), None)
    if parted is None:
        return e
    others = sp.Mul(*[f for f in factors if f is not parted])
    return sp.Add(*[weighed(others * term) for term in parted.args])
