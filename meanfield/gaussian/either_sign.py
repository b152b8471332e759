r"""Closed forms for parameters of either sign: derived for a > 0, for a < 0 and at a = 0, and joined where one expression is all three.

The kernel of max(0, a x) is a^2 \kappa(q, p) for a > 0; for a < 0 it is that of max(0, -|a| x), the same one since (-u, -v) has the law of
(u, v); at a = 0 it is 0. So it is a^2 \kappa(q, p) for every a. Nothing is taken from one case for another: each is derived.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import sympy as sp
from sympy import S

from meanfield.gaussian.atoms import NotClosed, atoms_of
from meanfield.gaussian.pieces import UnknownSign, leading
from meanfield.gaussian.smoothness import almost_everywhere
from meanfield.gaussian.special import NormalCDF
from meanfield.gaussian.zeros import in_normal_form
from meanfield.symbols import known

__all__ = ["cases", "in_either_sign", "put", "unsigned"]

x = known("x")


def unsigned(functions: Sequence[sp.Expr]) -> sp.Expr | None:
    """A parameter, or a sum of such, whose sign the algebra of atoms asks for; None where it asks for nothing, or for something else."""
    for f in functions:
        if not any(s.is_real and not (s.is_positive or s.is_negative) for s in f.free_symbols - {x}):
            continue
        try:
            atoms_of(almost_everywhere(f))
        except UnknownSign as reason:
            return reason.parameter
        except NotClosed:
            pass
    return None


def cases(a: sp.Expr) -> dict[str, sp.Expr]:
    """What a real parameter may be, by the words for it: a positive symbol of its name, the negative of that, 0."""
    size = sp.Symbol(str(a), positive=True)
    found = {f"{a} > 0": size}
    if not a.is_nonnegative:
        found[f"{a} < 0"] = -size
    if not a.is_nonzero:
        found[f"{a} = 0"] = S.Zero
    return found


def put(e: Any, a: sp.Expr, value: sp.Expr) -> Any:
    """An expression, or a tuple of such, with a value for a parameter, or for a sum of parameters."""
    if isinstance(e, tuple):
        return tuple(put(part, a, value) for part in e)
    if not isinstance(e, sp.Basic):
        return e
    found = None if a.is_Symbol else leading(a)
    if found is None:
        return e.xreplace({a: value})
    s, c = found
    return e.xreplace({s: sp.expand(s + (value - a) / c)})


def in_either_sign(means: Sequence[sp.Symbol]) -> Callable[[Callable[..., sp.Expr | None]], Callable[..., sp.Expr | None]]:
    """A closed form as a function of functions, joined from its cases where the sign of a parameter of these is not known; `means` are
    the letters of the means in it."""

    def of(function: Callable[..., sp.Expr | None]) -> Callable[..., sp.Expr | None]:
        @wraps(function)
        def answer(*args: Any) -> sp.Expr | None:
            result = function(*args)
            a = unsigned([e for e in args if isinstance(e, sp.Expr)]) if result is None else None
            if a is None:
                return result
            found = {value: answer(*put(args, a, value)) for value in cases(a).values()}
            return None if None in found.values() else _joined(a, found, means)

        return answer

    return of


def _joined(a: sp.Expr, found: dict[sp.Expr, sp.Expr], means: Sequence[sp.Symbol]) -> sp.Expr | None:
    """one expression that is each of the cases, None where there is none that is found"""
    parts = {
        value: (form.args[0][0], form.args[0][1]) if isinstance(form, sp.Piecewise) else (form, sp.true) for value, form in found.items()
    }
    forms = {value: form for value, (form, _) in parts.items()}
    conditions = {where for value, (form, where) in parts.items() if value != 0 or form != 0}
    size, *others = forms
    (where,) = conditions if len(conditions) == 1 else (sp.false,)
    if size in where.free_symbols or where == sp.false:
        return None
    above, at_zero = forms[size], forms.get(S.Zero)
    whole = _for_both(a, size, above, forms[-size], means) if -size in others else above.xreplace({size: a})
    if whole is None:
        return None
    if at_zero is not None and not _same(put(whole, a, S.Zero), at_zero):
        if put(whole, a, S.Zero).has(S.NaN, S.ComplexInfinity, S.Infinity):
            return None
        whole = at_zero + sp.sign(a) ** 2 * (whole - at_zero)  # the function jumps there
    return whole if where == sp.true else sp.Piecewise((whole, where))


def _for_both(a: sp.Expr, size: sp.Symbol, above: sp.Expr, below: sp.Expr, means: Sequence[sp.Symbol]) -> sp.Expr | None:
    """an expression that is `above` for a = size and `below` for a = -size"""
    if _same(above.xreplace({size: -size}), below):
        return above.xreplace({size: a})
    mirrored = {m: -m for m in means if m in above.free_symbols}
    for flips in ({}, mirrored) if mirrored else ({},):
        for sign in (1, -1):
            if _same(sign * above.xreplace(flips), below):
                form = above.xreplace({m: sp.sign(a) * m for m in flips}).xreplace({size: sp.Abs(a)}).xreplace({sp.sign(a) ** 2: S.One})
                return form if sign > 0 else sp.sign(a) * form
    return None


def _same(e: sp.Expr, other: sp.Expr) -> bool:
    if e == other:
        return True
    if sp.Tuple(e, other).has(S.NaN, S.Infinity, S.NegativeInfinity, S.ComplexInfinity):
        return False
    difference = (e - other).replace(sp.erf, lambda z: 2 * NormalCDF(sp.sqrt(2) * z) - 1)
    return in_normal_form(difference)
