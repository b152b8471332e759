"""A closed form that holds under a condition only: a Piecewise that ends before the line of its conditions does."""

from __future__ import annotations

import sympy as sp

__all__ = ["cases_of", "guarded", "is_guarded", "is_infinite", "unguarded"]


def is_guarded(form: sp.Basic) -> bool:
    """Whether a closed form holds under a condition only."""
    return isinstance(form, sp.Piecewise) and form.args[-1].cond != sp.true


def guarded(form: sp.Expr, where: sp.Basic) -> sp.Expr:
    """A closed form, with its condition where it has one: it is undefined elsewhere."""
    return form if where == sp.true else sp.Piecewise((form, where))


def unguarded(form: sp.Expr) -> tuple[sp.Expr, sp.Basic]:
    """A closed form and where it holds: one with a case for every parameter holds everywhere."""
    return form.args[0] if is_guarded(form) else (form, sp.true)


def is_infinite(form: sp.Expr) -> bool:
    """Whether an expression is infinite for all parameters, not for some of their signs alone."""
    return bool(form.xreplace({t: letter for letter, t in cases_of(form).items()}).has(sp.oo, sp.zoo))


def cases_of(form: sp.Expr) -> dict[sp.Symbol, sp.Expr]:
    """What is infinite in an expression for some signs of parameters, each under a letter that may stand for it."""
    partly = [t for t in form.atoms(sp.Piecewise) if t.has(sp.oo, sp.zoo) and any(value.is_finite is not False for value, _ in t.args)]
    outer = [t for t in partly if not any(t != other and other.has(t) for other in partly)]
    return {sp.Dummy("case", real=True): t for t in sorted(outer, key=sp.default_sort_key)}
