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
    """The expression with what multiplies infinite expectations as their weights.

    >>> import sympy as sp
    >>> a, b = sp.symbols("a b", positive=True)
    >>> weighed(a * (b + 4 * Unbounded(sp.S.One)))
    a*b + Unbounded(4*a)
    """
    if not holds(e, Unbounded):
        return e

    def term(t: sp.Expr) -> sp.Expr:
        infinite, rest = sp.sift(sp.Mul.make_args(t), lambda f: isinstance(f, Unbounded), binary=True)
        return Unbounded(sp.Mul(*rest, *[f.args[0] for f in infinite])) if infinite else t

    return sp.Add(*map(term, sp.Add.make_args(sp.expand_mul(e))))
