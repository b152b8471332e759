r"""Closed forms for parameters of either sign: derived for a > 0, for a < 0 and at a = 0, and joined in one expression.

The kernel of max(0, a x) is a^2 \kappa(q, p) for a > 0; for a < 0 it is that of max(0, -|a| x), the same one since (-u, -v) has the law of
(u, v); at a = 0 it is 0. So it is a^2 \kappa(q, p) for every a. Nothing is taken from one case for another: each is derived. Where one
expression is not all three, E + sign(a) O with the half sum E and half difference O of the first two may be short, as for max(x, a x),
(1 + a)/2 x + |a - 1|/2 |x|; else the form is a Piecewise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import sympy as sp
from sympy import S

from meanfield.gaussian.atoms import NotClosed, atoms_of, products
from meanfield.gaussian.guards import guarded, unguarded
from meanfield.gaussian.parameter_signs import Case, cases, lowest, pivotal
from meanfield.gaussian.pieces import UnknownSign
from meanfield.gaussian.smoothness import almost_everywhere
from meanfield.gaussian.special import NormalCDF
from meanfield.gaussian.tidying import NestedRoot, tidy, upright
from meanfield.gaussian.zeros import in_normal_form
from meanfield.symbols import known

__all__ = ["in_either_sign", "unsigned"]

x = known("x")


def unsigned(functions: Sequence[sp.Expr]) -> sp.Expr | None:
    """A sum of parameters whose sign the algebra of atoms asks for; None where it asks for nothing, or for something else."""
    found = []
    for f in functions:
        if not f.free_symbols - {x}:
            continue
        try:
            found.append(atoms_of(almost_everywhere(f)))
            if len(found) == 2:
                products(*found)
        except UnknownSign as reason:
            return pivotal(reason.e)
        except NotClosed:
            pass
    return None


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
            found = {case: answer(*case.put(args)) for case in cases(a)}
            return None if None in found.values() else _joined(a, found, means)

        return answer

    return of


def _joined(a: sp.Expr, found: dict[Case, sp.Expr], means: Sequence[sp.Symbol]) -> sp.Expr | None:
    """one expression for all cases, None where they hold under different conditions"""
    parts = {case: unguarded(form) for case, form in found.items()}
    conditions = {where for case, (form, where) in parts.items() if case.sign != 0 or form != 0}
    (where,) = conditions if len(conditions) == 1 else (sp.false,)
    if any(case.size in where.free_symbols for case in found) or where == sp.false:
        return None
    forms = {case: form for case, (form, _) in parts.items()}
    if len(set(forms.values())) == 1 and (endless := next(iter(forms.values()))).has(S.Infinity, S.NegativeInfinity):
        return endless
    of = {case.sign: case for case in forms}
    sides, zero = _nonzero(a, forms, of, means), of.get(0)
    return guarded(_in_one(a, sides) if zero is None else _with_zero(a, sides, zero, forms[zero]), where)


def _nonzero(a: sp.Expr, forms: dict[Case, sp.Expr], of: dict[int, Case], means: Sequence[sp.Symbol]) -> tuple[sp.Expr, ...]:
    """an expression that is each of the two forms in its case; the two where there is none"""
    above, below = of[1], of.get(-1)
    first = above.restored(forms[above])
    if below is None:
        return (first,)
    last = below.restored(forms[below])
    mirrored = above.size is not None and below.back == -above.back
    whole = _for_both(a, above.size, forms[above], forms[below], means) if mirrored else None
    whole = _by_halves(a, first, last) if whole is None else whole
    return (first, last) if whole is None else (whole,)


def _in_one(a: sp.Expr, sides: tuple[sp.Expr, ...]) -> sp.Expr:
    """what holds above 0 and below in one expression"""
    return sides[0] if len(sides) == 1 else sp.Piecewise((sides[0], a > 0), (sides[1], True))


def _with_zero(a: sp.Expr, sides: tuple[sp.Expr, ...], zero: Case, there: sp.Expr) -> sp.Expr:
    """and its value where the parameter is 0"""
    if len(sides) == 2:
        first, last = sides
        if _continues(first, zero, there):
            return sp.Piecewise((first, a >= 0), (last, True))
        return _in_one(a, sides) if _continues(last, zero, there) else sp.Piecewise((first, a > 0), (last, a < 0), (there, True))
    (whole,) = sides
    if _continues(whole, zero, there):
        return whole
    if not _has_value(whole, zero):
        return sp.Piecewise((whole, sp.Ne(a, 0)), (there, True))
    return there + sp.sign(a) ** 2 * (whole - there)  # the function jumps there


def _continues(form: sp.Expr, zero: Case, there: sp.Expr) -> bool:
    return _has_value(form, zero) and _same(zero.put(form), there)


def _has_value(form: sp.Expr, zero: Case) -> bool:
    """whether it has a value where the parameter is zero: it is not divided by that, and no logarithm is of it"""
    if any(zero.put(t.base) == 0 for t in form.atoms(sp.Pow) if not t.exp.is_nonnegative):
        return False
    return not zero.put(form).has(S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity)


def _for_both(a: sp.Expr, size: sp.Symbol, above: sp.Expr, below: sp.Expr, means: Sequence[sp.Symbol]) -> sp.Expr | None:
    """an expression that is `above` for a = size and `below` for a = -size"""
    if _same(above.xreplace({size: -size}), below):
        return above.xreplace({size: a}) if a.is_Symbol else lowest(above.xreplace({size: a}), a.free_symbols)
    mirrored = {m: -m for m in means if m in above.free_symbols}
    for flips in ({}, mirrored) if mirrored else ({},):
        for sign in (1, -1):
            if _same(sign * above.xreplace(flips), below):
                form = above.xreplace({m: sp.sign(a) * m for m in flips}).xreplace({size: sp.Abs(a)}).xreplace({sp.sign(a) ** 2: S.One})
                form = form.replace(lambda t: t.is_Mul and {sp.sign(a), sp.Abs(a)} <= {*t.args}, lambda t: t * a / (sp.sign(a) * sp.Abs(a)))
                return form if sign > 0 else sp.sign(a) * form
    return None


def _by_halves(a: sp.Expr, above: sp.Expr, below: sp.Expr) -> sp.Expr | None:
    """half the sum and sign(a) times half the difference of the forms above 0 and below; None where that has not the factor a"""
    if sp.Tuple(above, below).has(S.NaN, S.ComplexInfinity, sp.Piecewise):
        return None
    try:
        even, odd = (tidy(upright(tidy((above + sign * below) / 2))) for sign in (1, -1))
    except NestedRoot:
        return None
    terms = []
    for t in sp.Add.make_args(odd) if odd != 0 else ():
        base = next((base for base, k in t.as_powers_dict().items() if base in (a, -a) and k.is_odd), None)
        if base is None:
            return None
        terms.append(t / base * sp.Abs(a) * (1 if base == a else -1))
    return even + sp.Add(*terms)


def _same(e: sp.Expr, other: sp.Expr) -> bool:
    if e == other:
        return True
    if sp.Tuple(e, other).has(S.NaN, S.Infinity, S.NegativeInfinity, S.ComplexInfinity):
        return False
    difference = (e - other).replace(sp.erf, lambda z: 2 * NormalCDF(sp.sqrt(2) * z) - 1)
    return in_normal_form(difference)
