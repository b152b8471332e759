r"""Expectations at the very variance at which the density falls as fast as a function grows: what is left of it decides.

With f(x) = r(x) e^{a x^2} and q = 1/(2 a) the integrand of E f(u) is r(x)/\sqrt{2 \pi q}, finite where r is integrable: |x|^{-k} for k > 1.
"""

from __future__ import annotations

from functools import cache

import sympy as sp
from sympy import S

from meanfield.gaussian.pieces import NotClosed, pieces_of
from meanfield.symbols import known

__all__ = ["left_at", "rest_of"]

x = known("x")

#: places far out between which it is read how fast a function falls, and digits for them
_FAR, _FARTHER, _DIGITS = 40, 160, 400
#: a power of x of which it is certain that it is integrable: 1/(x log x) looks like x^-1.005 there
_INTEGRABLE = -1.0075


@cache
def left_at(f: sp.Expr, a: sp.Expr) -> sp.Expr | None:
    """f(x) exp(-a x^2), a function without parameters, where it is integrable at both ends of the line; None where that is not known."""
    try:
        left = _rests(f, a)[1]
    except NotClosed:
        return None
    return rest_of(f, a) if _integrable(left[-1], 1) and _integrable(left[0], -1) else None


def rest_of(f: sp.Expr, a: sp.Expr) -> sp.Expr:
    """f(x) exp(-a x^2), the exponentials multiplied out. Raises NotClosed where f has no pieces."""
    cuts, left = _rests(f, a)
    return sp.Piecewise(*((value, x < cut) for value, cut in zip(left, cuts, strict=False)), (left[-1], True))


@cache
def _rests(f: sp.Expr, a: sp.Expr) -> tuple[tuple[sp.Expr, ...], tuple[sp.Expr, ...]]:
    """the cuts between the pieces, and each piece times the exponential"""
    cuts, values = pieces_of(f)
    return tuple(cuts), tuple(sp.expand_mul(_opened(value) * sp.exp(-a * x**2)) for value in values)


def _opened(f: sp.Expr) -> sp.Expr:
    """with hyperbolic functions as exponentials, and these of what is multiplied out"""
    f = f.replace(lambda t: isinstance(t, (sp.cosh, sp.sinh)), lambda t: t.rewrite(sp.exp))
    return f.replace(lambda t: isinstance(t, sp.exp), lambda t: sp.exp(sp.expand(t.args[0])))


def _integrable(r: sp.Expr, end: int) -> bool:
    """whether it falls fast enough towards an end of the line; not said of what oscillates, where two places tell nothing"""
    if r == 0:
        return True
    if r.has(sp.sin, sp.cos, sp.tan):
        return False
    try:
        near, far = (abs(r.xreplace({x: end * S(10) ** k}).evalf(15, maxn=_DIGITS)) for k in (_FAR, _FARTHER))
    except (OverflowError, MemoryError):
        return False
    if far == 0 or near == 0:
        return bool(near == far == 0)
    if not (near.is_Float and far.is_Float):
        return False
    return bool(sp.log(far / near, 10).evalf() / (_FARTHER - _FAR) < _INTEGRABLE)
