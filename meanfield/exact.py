"""Numbers of every kind as the rationals that they stand for, and how far rounding may have moved them."""

from __future__ import annotations

import decimal
import math
import numbers
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp

__all__ = ["ROUNDINGS", "is_number", "rational", "rounding", "within"]

#: roundings that computed arguments may be out of range by: p = 0.1 + 0.2 at q = 0.3
ROUNDINGS = 10
#: bits of a double
_DOUBLE = 53
#: decimal exponents up to which numbers are written out as fractions
_FARTHEST = 10**6


def is_number(value: Any) -> bool:
    """Whether it is a real number of one of the kinds known here: Python's, numpy's, mpmath's and sympy's Float."""
    known = isinstance(value, (numbers.Real, decimal.Decimal)) or hasattr(value, "_mpf_")
    return known and not isinstance(value, (bool, np.bool_))


def rational(value: Any, name: str) -> sp.Rational:
    """The number that was meant: a binary number that decimals are typed into (float, sympy's Float) is the shortest decimal that rounds
    to it, 0.64 being 16/25, one that is computed with (mpmath's mpf) is itself.

    >>> import decimal, fractions, mpmath, sympy as sp
    >>> [rational(v, "q") for v in (0.1, fractions.Fraction(1, 3), decimal.Decimal("1e-3"), mpmath.mpf(0.375), sp.Float("0.2", 40))]
    [1/10, 1/3, 1/1000, 3/8, 1/5]
    """
    if isinstance(value, numbers.Rational):
        return sp.Rational(int(value.numerator), int(value.denominator))
    if not _is_finite(value):
        raise ValueError(f"{name} = {value}: expected a finite number")
    if isinstance(value, decimal.Decimal):
        _check_exponent(value.adjusted(), value, name)
        return sp.Rational(*value.as_integer_ratio())
    if hasattr(value, "_mpf_"):
        sign, mantissa, exponent, bits = value._mpf_
        _check_exponent((exponent + bits) * math.log10(2), value, name)
        if isinstance(value, sp.Float):
            return sp.Rational(_shortest(value))
        return sp.Rational((-1) ** sign * int(mantissa) * 2 ** max(exponent, 0), 2 ** max(-exponent, 0))
    if isinstance(value, np.longdouble):
        return sp.Rational(np.format_float_scientific(value))
    return sp.Rational(repr(float(value)))


def _is_finite(value: Any) -> bool:
    return bool(value.is_finite() if isinstance(value, decimal.Decimal) else mp.isfinite(value))


def _check_exponent(exponent: float, value: Any, name: str) -> None:
    if abs(exponent) > _FARTHEST:
        raise ValueError(f"{name} = {value}: expected a decimal exponent of at most {_FARTHEST}")


def _shortest(value: sp.Float) -> str:
    """the fewest digits, of those a decimal keeps in that many bits or more, that round to the same bits"""
    digits, bits = mp.libmp.prec_to_dps(value._prec), value._prec
    texts = (mp.libmp.to_str(value._mpf_, digits + more) for more in range(mp.libmp.repr_dps(bits) - digits + 1))
    return str(next((t for t in texts if mp.libmp.from_str(t, bits, "n") == value._mpf_), mp.libmp.to_str(value._mpf_, bits)))


def rounding(value: Any) -> sp.Rational:
    """The relative distance at which numbers of the kind of a value lie, 0 of kinds that are exact."""
    if isinstance(value, sp.Basic):
        return max((sp.Rational(1, 2**f._prec) for f in value.atoms(sp.Float)), default=sp.S.Zero)
    if hasattr(value, "_mpf_"):
        return sp.Rational(1, 2 ** max(value._mpf_[3], _DOUBLE))
    if isinstance(value, (numbers.Rational, decimal.Decimal)):
        return sp.S.Zero
    return sp.Rational(1, 2**_DOUBLE)


def within(value: sp.Expr, limit: sp.Expr, roundings: sp.Rational) -> sp.Expr | None:
    """A number of at most a limit in size, which it is at where rounding alone brought it beyond; None where it is beyond by more."""
    if not sp.expand(value**2 - limit**2).is_positive:
        return value
    if not sp.expand(value**2 - (limit * (1 + ROUNDINGS * roundings)) ** 2).is_nonpositive:
        return None
    return -limit if value.is_negative else limit
