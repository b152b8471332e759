"""A closed form that holds under a condition only: a Piecewise that ends before the line of its conditions does."""

from __future__ import annotations

import sympy as sp

__all__ = ["endless", "guarded", "is_guarded", "unguarded"]


def is_guarded(form: sp.Basic) -> bool:
    """Whether a closed form holds under a condition only."""
    return isinstance(form, sp.Piecewise) and form.args[-1].cond != sp.true


def guarded(form: sp.Expr, where: sp.Basic) -> sp.Expr:
    """A closed form, with its condition where it has one: it is undefined elsewhere."""
    return form if where == sp.true else sp.Piecewise((form, where))


def unguarded(form: sp.Expr) -> tuple[sp.Expr, sp.Basic]:
    """A closed form and where it holds: one with a case for every parameter holds everywhere."""
    return form.args[0] if is_guarded(form) else (form, sp.true)


def endless(form: sp.Expr) -> bool:
    """Whether an expression is infinite for all parameters, not for some of their signs alone."""
    cases = {t: sp.Dummy("case", real=True) for t in form.atoms(sp.Piecewise) if any(value.is_finite is not False for value, _ in t.args)}
    return bool(form.xreplace(cases).has(sp.oo, sp.zoo))
