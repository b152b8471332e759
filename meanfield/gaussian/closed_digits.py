"""Expressions to any number of correct digits, with no more than a hundred looked at where moments are integrals."""

from __future__ import annotations

import itertools
import operator

import mpmath as mp
import sympy as sp

from meanfield.gaussian.expectation import Node
from meanfield.gaussian.special import written_out
from meanfield.gaussian.zeros import is_zero

__all__ = ["Indistinguishable", "settled"]

_MOST_DIGITS = 4_000
#: digits of integrals, beyond those asked, that a sum of them is looked at to, if it may be 0
_ENOUGH = 100
#: of these, what they may be off by
_OFF = 8
#: the smallest double
_LEAST = 5e-324


class Indistinguishable(ArithmeticError):
    """A sum of integrals that is less than their digits show, and may be 0: `below` in size."""

    def __init__(self, e: sp.Expr, digits: int, below: float) -> None:
        super().__init__(f"{e} could not be certified to {digits} digits: it is less than {below:.0e}, and cannot be told from 0")
        self.below = below


def settled(e: sp.Expr, prec: int) -> sp.Expr:
    """An expression to prec bits, relative to its value: evaluated with more and more digits until two in a row agree.

    Raises Indistinguishable where integrals cancel in it to a hundred digits beyond those.
    """
    digits, before = mp.libmp.prec_to_dps(prec) + 2, None
    integrals = e.has(Node)
    for more in itertools.accumulate(itertools.repeat(3), operator.mul, initial=12):
        if more > _MOST_DIGITS:
            break
        raw = e.evalf(digits + more, maxn=(1 if integrals else 2) * (digits + more))
        if raw.has(sp.S.NaN, sp.S.ComplexInfinity):
            raise ArithmeticError(f"{e} is a quotient of zeros there: evaluate the moment itself, or the limit")
        value = _real(raw, digits)
        if not value.is_Float:
            return value
        if before is not None and _alike(before, value, prec):
            return sp.Float._new(mp.libmp.mpf_pos(value._mpf_, prec, "n"), prec)
        if before is not None and more > 900 and abs(value) < sp.Float(10) ** -900 and _is_zero(e):
            return sp.S.Zero
        if integrals and more > _ENOUGH and abs(value) <= (below := _scale(e) * sp.Float(10) ** (_OFF - digits - more)):
            if _is_zero(e):
                return sp.S.Zero
            raise Indistinguishable(e, digits, max(float(below), _LEAST))
        before = value
    raise ArithmeticError(f"{e} could not be certified to {digits} digits: the value cannot be told from 0")


def _is_zero(e: sp.Expr) -> bool:
    """by algebra on closed forms, as for the gap of an even function at correlation -1"""
    form = written_out(e.doit())
    return not form.has(Node) and is_zero(form.rewrite(sp.exp))


def _scale(e: sp.Expr) -> sp.Expr:
    """the size of an expression, were no term of a sum taken away from another"""
    if e.is_Add or e.is_Mul:
        return e.func(*map(_scale, e.args))
    if e.is_Pow and e.exp.is_Integer and e.exp.is_positive:
        return _scale(e.base) ** e.exp
    return abs(e.evalf(15))


def _real(value: sp.Expr, digits: int) -> sp.Expr:
    """without the rounding that complex intermediate values leave"""
    real, imaginary = value.as_real_imag()
    return real if abs(imaginary) <= abs(real) * sp.Float(10) ** -digits else value


def _alike(a: sp.Float, b: sp.Float, prec: int) -> bool:
    with mp.workprec(prec + 60):
        first, second = mp.mpf(a._mpf_), mp.mpf(b._mpf_)
        return bool(second != 0 and abs(first - second) <= mp.ldexp(abs(second), -prec - 2))
