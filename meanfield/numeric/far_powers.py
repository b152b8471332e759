r"""Functions that are powers of |x| far out, and their moments under Gaussians so wide that nothing else of them is left.

Where f(x) = a_\pm |x|^k but for what is below rounding from some |x| on, E f(u) f(v) at variances beyond the square of that is
homogeneous of degree k: quadrature, whose own numbers would leave the doubles, is asked at a smaller variance.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import sympy as sp

from meanfield.gaussian.mending import mended_function

__all__ = ["FAR", "far_power"]

#: from this variance on nothing but the powers counts: what is bounded is 1e-57 of |x|, and |x|^k with k <= 2 is a double
FAR = sp.Integer(4) ** 190
#: distances at which a function is looked at, and how far the powers may be off there
_PROBES = np.array([3.7e40, 1.1e57, 6.3e66, 2.9e91, 8.3e113, 1.7e149])
_ROUNDING = 1e-14


@cache
def far_power(f: sp.Expr) -> int | None:
    """k <= 2, where f is a power on both sides; None where it is none."""
    if len(f.free_symbols) != 1:
        return None
    value = mended_function(f)
    with np.errstate(all="ignore"):
        sides = [np.asarray(value(sign * _PROBES)) for sign in (1.0, -1.0)]
    return next((k for k in (0, 1, 2) if all(map(_is_constant, (s / _PROBES**k for s in sides))) and _counts(sides, k)), None)


def _is_constant(ratios: np.ndarray) -> bool:
    return bool(np.isfinite(ratios).all() and np.ptp(ratios) <= _ROUNDING * max(np.abs(ratios).max(), _ROUNDING))


def _counts(sides: list[np.ndarray], k: int) -> bool:
    """whether one side is that power, and not less"""
    return any(bool((np.abs(s) > _ROUNDING * _PROBES**k).all()) for s in sides)
