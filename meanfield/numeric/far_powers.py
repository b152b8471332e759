r"""Functions that are powers of |x| far out, and their moments under Gaussians so wide that nothing else of them is left.

Where f(x) = a_\pm |x|^k but for what is below rounding from some |x| on, E f(u) f(v) at variances beyond the square of that is
homogeneous of degree k: quadrature, whose own numbers would leave the doubles, is asked at a smaller variance.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.gaussian.mending import mended_function
from meanfield.symbols import known

__all__ = ["FAR", "WIDE", "far_power", "far_sides", "power_and_limit", "power_and_sides"]

x = known("x")

#: from this variance on nothing but the powers counts: what is bounded is 1e-36 of |x|, and squares of |x|^k with k <= 4 are doubles
FAR = sp.Integer(4) ** 120
#: the largest k, and how fine a fraction it may be
_STEEPEST, _FINEST = 4, 100
#: the same of products of many, of functions that are powers from near on: what is left is 1e-17 of |x|
WIDE = sp.Integer(4) ** 58
#: distances at which a function is looked at, and how far the powers may be off there
_PROBES = np.array([1.3e36, 3.7e40, 1.1e57, 6.3e66, 1.9e76, 2.9e91, 8.3e113, 1.7e149])
_ROUNDING = 1e-14
#: how many of the distances there must be at which the function is less than that
_FEWEST, _LARGEST = 4, 1e306
#: where the powers are read off, without rounding, and distances from the least of which on nothing else may be left beside them
_AT, _BEYOND = 2.0**200, 40.0 * 2.0 ** np.arange(17.0)
#: of the largest value there, or of what is a constant but for x^-3 and less, which counts as that moment does
_LEFT, _FALLING = 1e-15, 3.0
#: where what is left is looked at, and what its third moment may be: moments k count as V^{-k/2} at the largest variance V of tables
_NEAR, _NARROW = np.linspace(-40.0, 40.0, 8001), 500.0


@lru_cache(maxsize=512)
def far_power(f: sp.Expr) -> sp.Rational | None:
    """k, from 0 to 4, where f is a power on both sides, as far as it is a double; None where it is none."""
    if len(f.free_symbols) != 1:
        return sp.S.Zero if f.is_number and f != 0 else None
    value = mended_function(f)
    with np.errstate(all="ignore"):
        sides = np.array([value(sign * _PROBES) for sign in (1.0, -1.0)])
        doubles = (np.abs(sides) < _LARGEST).all(axis=0)
        sides, probes = sides[:, doubles], _PROBES[doubles]
        if probes.size < _FEWEST:
            return None
        larger = np.abs(sides[np.abs(sides[:, 0]).argmax()])
        slope = float(np.log(larger[1] / larger[0]) / np.log(probes[1] / probes[0]))
        k = sp.Rational(slope).limit_denominator(_FINEST) if 0.0 <= slope < math.inf else None
        ratios = sides / probes ** float(k or 0)
    return k if k is not None and k <= _STEEPEST and all(map(_is_constant, ratios)) and _counts(ratios) else None


def power_and_limit(f: sp.Expr) -> tuple[int, sp.Expr] | None:
    """k and a_+ x^k for x > 0, a_- |x|^k for x < 0, where what else f has is near 0; None where it is not."""
    found = power_and_sides(f)
    if found is None:
        return None
    k, left, right = found
    return k, sp.Piecewise((sp.Rational(right) * x**k, x > 0), (sp.Rational(left) * (-x) ** k, True))


def far_sides(f: sp.Expr) -> tuple[int, float, float] | None:
    """k <= 2, a_- and a_+ of what is such a power on both sides, whatever else it has; None where it is none."""
    power = far_power(f)
    if power not in (0, 1, 2):
        return None
    k = int(power)
    left, right = (float(mended_function(f)(np.array([sign * _AT]))[0]) / _AT**k for sign in (-1.0, 1.0))
    return k, left, right


@lru_cache(maxsize=512)
def power_and_sides(f: sp.Expr) -> tuple[int, float, float] | None:
    """k, a_- and a_+ of the same."""
    found = far_sides(f)
    if found is None:
        return None
    (k, left, right), value = found, mended_function(f)
    largest = max(abs(right), abs(left))
    rest = np.abs(value(_NEAR) - np.where(_NEAR > 0.0, right, left) * np.abs(_NEAR) ** k)
    if not float((rest * np.abs(_NEAR) ** 3).sum()) * (_NEAR[1] - _NEAR[0]) <= _NARROW * largest:
        return None
    for sign, a in ((1.0, right), (-1.0, left)):
        allowed = _LEFT * _BEYOND**k + (_FALLING * _BEYOND**-3.0 if k == 0 else 0.0)
        if not (np.abs(value(sign * _BEYOND) - a * _BEYOND**k) <= allowed * largest).all():
            return None
    return k, left, right


def _is_constant(ratios: np.ndarray) -> bool:
    return bool(np.isfinite(ratios).all() and np.ptp(ratios) <= _ROUNDING * max(np.abs(ratios).max(), _ROUNDING))


def _counts(ratios: np.ndarray) -> bool:
    """whether one side is that power, and not less"""
    return bool((np.abs(ratios) > _ROUNDING).all(axis=1).any())
