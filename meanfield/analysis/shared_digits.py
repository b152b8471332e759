"""Long expressions as numbers: a part that occurs many times is computed once, with more and more digits until two in a row agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import sympy as sp

from meanfield.gaussian.special import Elementary

__all__ = ["numbered"]

#: functions of sympy and of mpmath that are alike, names and arguments
_ALIKE = (
    "exp",
    "log",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "atan2",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
)
_FUNCTIONS = {getattr(sp, name): getattr(mp, name) for name in _ALIKE}
#: digits beyond those asked for: so many may be lost on the way
_BEYOND = (12, 24, 48, 96, 192)
#: digits by which the value of a sum falls at least, with more in its terms each time, where it is 0
_FALLEN = 8


def numbered(e: sp.Expr, digits: int) -> sp.Expr:
    """A real expression without free symbols to that many digits, as `sympy.N` gives them.

    >>> import sympy as sp
    >>> numbered(sp.sqrt(2) * sp.exp(sp.pi), 20)
    32.725881363983605827
    """
    before, falls = None, True
    for beyond in _BEYOND:
        with mp.workdps(digits + beyond):
            cancelled: set[bool] = set()
            value = _part(e, {}, cancelled)
            if not isinstance(value, mp.mpf) or not mp.isfinite(value):
                return sp.N(e, digits)
            if before is not None:
                alike = abs(value - before) <= mp.mpf(10) ** (-digits - 4) * abs(value)
                if alike and (not cancelled or beyond == _BEYOND[-1]):
                    return _rounded(value, digits)
                falls &= abs(value) <= mp.mpf(10) ** -_FALLEN * abs(before)
            before = value
    return _rounded(before, digits) if falls else sp.N(e, digits)


def _rounded(value: mp.mpf, digits: int) -> sp.Float:
    prec = mp.libmp.dps_to_prec(digits)
    return sp.Float._new(mp.libmp.mpf_pos(value._mpf_, prec, "n"), prec)


def _part(e: Any, known: dict[Any, Any], cancelled: set[bool]) -> Any:
    """a part at the precision of mpmath, and of all its parts what is known by now; `cancelled` tells of sums that lost all digits"""
    if e not in known:
        known[e] = _computed(e, lambda a: _part(a, known, cancelled), cancelled)
    return known[e]


def _computed(e: Any, part: Callable[[Any], Any], cancelled: set[bool]) -> Any:
    if e.is_Rational:
        return mp.mpf(e.p) / e.q
    if e.is_Add:
        terms = [part(a) for a in e.args]
        total = mp.fsum(terms)
        if abs(total) <= mp.ldexp(max(map(abs, terms)), 8 - mp.mp.prec):
            cancelled.add(True)
        return total
    if e.is_Mul:
        return mp.fprod(map(part, e.args))
    if e.is_Pow and e.exp.is_Rational:
        return mp.power(part(e.base), mp.mpf(e.exp.p) / e.exp.q)
    if e.func in _FUNCTIONS:
        return _FUNCTIONS[e.func](*map(part, e.args))
    if isinstance(e, Elementary):
        e = e.func(*(sp.Float._new(mp.mpmathify(part(a))._mpf_, mp.mp.prec) for a in e.args))
    return mp.mpmathify(sp.N(e, mp.mp.dps + 2)._to_mpmath(mp.mp.prec))
