"""Closed expressions to any number of correct digits."""

from __future__ import annotations

import itertools
import operator

import mpmath as mp
import sympy as sp

from meanfield.gaussian.special import written_out
from meanfield.gaussian.zeros import is_zero

__all__ = ["settled"]

_MOST_DIGITS = 4_000


def settled(e: sp.Expr, prec: int) -> sp.Expr:
    """A closed expression to prec bits, relative to its value: evaluated with more and more digits until two in a row agree."""
    digits, before = mp.libmp.prec_to_dps(prec) + 2, None
    for more in itertools.accumulate(itertools.repeat(3), operator.mul, initial=12):
        if more > _MOST_DIGITS:
            break
        raw = e.evalf(digits + more, maxn=2 * (digits + more))
        if raw.has(sp.S.NaN, sp.S.ComplexInfinity):
            raise ArithmeticError(f"{e} is a quotient of zeros there: evaluate the moment itself, or the limit")
        value = _real(raw, digits)
        if not value.is_Float:
            return value
        if before is not None and _alike(before, value, prec):
            return sp.Float._new(mp.libmp.mpf_pos(value._mpf_, prec, "n"), prec)
        if before is not None and more > 900 and abs(value) < sp.Float(10) ** -900 and _is_zero(e):
            return sp.S.Zero
        before = value
    raise ArithmeticError(f"{e} could not be certified to {digits} digits: the value cannot be told from 0")


def _is_zero(e: sp.Expr) -> bool:
    """by algebra on closed forms, as for the gap of an even function at correlation -1"""
    return is_zero(written_out(e.doit()).rewrite(sp.exp))


def _real(value: sp.Expr, digits: int) -> sp.Expr:
    """without the rounding that complex intermediate values leave"""
    real, imaginary = value.as_real_imag()
    return real if abs(imaginary) <= abs(real) * sp.Float(10) ** -digits else value


def _alike(a: sp.Float, b: sp.Float, prec: int) -> bool:
    with mp.workprec(prec + 60):
        first, second = mp.mpf(a._mpf_), mp.mpf(b._mpf_)
        return bool(second != 0 and abs(first - second) <= mp.ldexp(abs(second), -prec - 2))
