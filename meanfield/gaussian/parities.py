"""The even and the odd part of a function, what it has in common with its mirror image and what tells it from that."""

from __future__ import annotations

from functools import cache

import sympy as sp

from meanfield.gaussian.half_line import half
from meanfield.gaussian.pieces import KINKED, NotClosed, with_its_mirror
from meanfield.gaussian.series import NoExpansion
from meanfield.gaussian.zeros import is_somewhere_nonzero, is_zero
from meanfield.symbols import known

__all__ = ["even_part", "is_even", "is_odd", "odd_part", "parity_of"]

x = known("x")


@cache
def odd_part(f: sp.Expr) -> sp.Expr:
    """(f(x) - f(-x))/2 without what cancels in it by algebra, piece by piece where f has pieces: 0 of an even function.

    >>> odd_part(x**2 + sp.Heaviside(x - 3))
    Piecewise((-1/2, x < -3), (0, x < 3), (1/2, True))
    >>> odd_part(x * (sp.tanh(x) + sp.Rational(1, 10)))
    x/10
    """
    return _part(f, -1)


@cache
def even_part(f: sp.Expr) -> sp.Expr:
    """(f(x) + f(-x))/2, in the same way: 0 of an odd function.

    >>> even_part(sp.tanh(x) + sp.Heaviside(x))
    1/2
    """
    return _part(f, 1)


def is_odd(f: sp.Expr) -> bool:
    """f(-x) = -f(x)"""
    return not is_somewhere_nonzero(f + f.xreplace({x: -x})) and bool(even_part(f) == 0)


def is_even(f: sp.Expr) -> bool:
    """f(-x) = f(x)"""
    return not is_somewhere_nonzero(f - f.xreplace({x: -x})) and bool(odd_part(f) == 0)


def parity_of(f: sp.Expr) -> int:
    """1 of an even function, -1 of an odd one, 0 of neither, and of what is known to digits only, as a wave at one distance: of that
    nothing is proved, and its lowest terms have no end"""
    if f.has(sp.Float):
        return 0
    return 1 if is_even(f) else -1 if is_odd(f) else 0


def _part(f: sp.Expr, sign: int) -> sp.Expr:
    other = sign * f.xreplace({x: -x})
    if f.has(*KINKED) and not f.has(sp.DiracDelta):
        try:
            cuts, pairs = with_its_mirror(f)
        except NotClosed:
            return sp.S.Zero if _cancel_beyond_0(f, other) else _half(f, other)
        values = [_half(value, sign * other) for value, other in pairs]
        return sp.Piecewise(*((value, x < cut) for value, cut in zip(values, cuts, strict=False)), (values[-1], sp.true))
    return _half(f, other)


def _cancel_beyond_0(f: sp.Expr, other: sp.Expr) -> bool:
    """whether nothing of their sum is left on x > 0, of functions with switches that switch nothing there"""
    if is_somewhere_nonzero(f + other):
        return False
    try:
        return is_zero(half(f) + half(other))
    except NoExpansion:
        return False


def _half(value: sp.Expr, other: sp.Expr) -> sp.Expr:
    """of their sum, in products or in terms, whichever is shorter: what cancels is gone there"""
    half = (value + other) / 2
    shorter = min((half, sp.expand(half, power_base=False, power_exp=False, log=False)), key=sp.count_ops)
    return sp.S.Zero if is_zero(shorter) else shorter
