"""Long expressions as numbers: a part that occurs many times is computed once, with more and more digits until two in a row agree."""

from __future__ import annotations

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
            value = _part(e, {})
            if not isinstance(value, mp.mpf) or not mp.isfinite(value):
                return sp.N(e, digits)
            if before is not None:
                if abs(value - before) <= mp.mpf(10) ** (-digits - 4) * abs(value):
                    return _rounded(value, digits)
                falls &= abs(value) <= mp.mpf(10) ** -_FALLEN * abs(before)
            before = value
    return _rounded(before, digits) if falls else sp.N(e, digits)


def _rounded(value: mp.mpf, digits: int) -> sp.Float:
    prec = mp.libmp.dps_to_prec(digits)
    return sp.Float._new(mp.libmp.mpf_pos(value._mpf_, prec, "n"), prec)


def _part(e: Any, known: dict[Any, Any]) -> Any:
    """a part at the precision of mpmath, and of all its parts what is known by now"""
    if e not in known:
        known[e] = _computed(e, known)
    return known[e]


def _computed(e: Any, known: dict[Any, Any]) -> Any:
    if e.is_Rational:
        return mp.mpf(e.p) / e.q
    if e.is_Add:
        return mp.fsum(_part(a, known) for a in e.args)
    if e.is_Mul:
        return mp.fprod(_part(a, known) for a in e.args)
    if e.is_Pow and e.exp.is_Rational:
        return mp.power(_part(e.base, known), mp.mpf(e.exp.p) / e.exp.q)
    if e.func in _FUNCTIONS:
        return _FUNCTIONS[e.func](*(_part(a, known) for a in e.args))
    if isinstance(e, Elementary):
        e = e.func(*(sp.Float._new(mp.mpmathify(_part(a, known))._mpf_, mp.mp.prec) for a in e.args))
    return mp.mpmathify(sp.N(e, mp.mp.dps + 2)._to_mpmath(mp.mp.prec))
