r"""Functions as sums of harmonics A_\nu(x) e^{i \nu x}, with coefficients that do not oscillate.

E A_\nu(u) e^{i \nu u}, \nu \neq 0, vanishes as the variance grows: only the coefficient A_0, the mean over a period, is left. What vanishes
exponentially by itself, A_\nu(x) ~ e^{-x^2}, is no oscillation far out: it stays as it is, and counts by its moments.
"""

from __future__ import annotations

from functools import cache

import sympy as sp
from sympy import I, S

from meanfield.gaussian.local_expansions import fades
from meanfield.symbols import known

__all__ = ["steady"]

x = known("x")

#: frequency -> (function without oscillations -> its complex coefficient)
Harmonics = dict[sp.Expr, dict[sp.Expr, sp.Expr]]


class _NoHarmonics(Exception):
    """An oscillation inside another function."""


def _linear(argument: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    if not argument.is_polynomial(x) or sp.degree(argument, x) != 1:
        raise _NoHarmonics
    slope, offset = sp.Poly(argument, x).all_coeffs()
    return slope, offset


def _add(*parts: Harmonics) -> Harmonics:
    total: Harmonics = {}
    for part in parts:
        for frequency, terms in part.items():
            own = total.setdefault(frequency, {})
            for function, c in terms.items():
                own[function] = sp.expand(own.get(function, S.Zero) + c)
    return total


def _multiply(a: Harmonics, b: Harmonics) -> Harmonics:
    products = (
        {sp.expand(m + n): {g * h: sp.expand(c * d)}}
        for m, first in a.items()
        for n, second in b.items()
        for g, c in first.items()
        for h, d in second.items()
    )
    return _add(*products)


def _harmonics(f: sp.Expr) -> Harmonics:
    """A smooth function as a sum of harmonics."""
    if not f.has(sp.sin, sp.cos) or not any(t.has(x) for t in f.atoms(sp.sin, sp.cos)):
        return {S.Zero: {f: S.One}}
    if isinstance(f, (sp.sin, sp.cos)):
        slope, offset = _linear(f.args[0])
        plus, minus = (S.Half, S.Half) if isinstance(f, sp.cos) else (-I / 2, I / 2)
        return _add({slope: {S.One: plus * sp.exp(I * offset)}}, {-slope: {S.One: minus * sp.exp(-I * offset)}})
    if f.is_Add:
        return _add(*map(_harmonics, f.args))
    if f.is_Mul or (f.is_Pow and f.exp.is_Integer and f.exp > 0):
        factors = f.args if f.is_Mul else [f.base] * int(f.exp)
        total: Harmonics = {S.Zero: {S.One: S.One}}
        for factor in factors:
            total = _multiply(total, _harmonics(factor))
        return total
    raise _NoHarmonics


def _split(h: Harmonics) -> tuple[sp.Expr, list[sp.Expr]]:
    """the mean over a period with what fades, and the functions before the other oscillations"""
    still: list[sp.Expr] = []
    moving: list[sp.Expr] = []
    for frequency, terms in h.items():
        present = {g: c for g, c in terms.items() if c != 0}
        if frequency.is_number and abs(float(frequency)) < 1e-12:
            still += [sp.re(c) * g for g, c in present.items()]
            continue
        for g, c in present.items():
            if fades(g) and fades(g.xreplace({x: -x})):
                still.append((sp.re(c) * sp.cos(frequency * x) - sp.im(c) * sp.sin(frequency * x)) * g)
            else:
                moving.append(g)
    return sp.Add(*still), moving


@cache
def steady(f: sp.Expr) -> tuple[sp.Expr, bool]:
    r"""The part of f without lasting oscillations, and whether the others have polynomials before them: then E f(u) is that part's but for
    O(e^{-\nu^2 q/2}), if not, but for O(q^{-1/2}). f itself where an oscillation is inside another function, or all of them fade."""
    try:
        still, moving = _split(_harmonics(f))
    except _NoHarmonics:
        return f, True
    return (still, all(g.is_polynomial(x) for g in moving)) if moving else (f, True)
