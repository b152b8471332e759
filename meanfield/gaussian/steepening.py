"""How fast a function of numbers grows at an end of the line."""

from __future__ import annotations

import numpy as np
import sympy as sp

from meanfield.gaussian.growth import finite_below
from meanfield.gaussian.resolution import Real

__all__ = ["growth_at"]

#: how far out it is looked at: the first of these at which it is a double
_RADII = 320.0 * 2.0 ** -np.arange(0.0, 12.0, 0.25)


def growth_at(g: sp.Expr, f: Real, direction: float) -> tuple[float, float]:
    """c and a where |f| grows at most like e^{c |x| + a x^2} at that end of the line, apart from powers"""
    with np.errstate(all="ignore"):
        far = next((r for r in _RADII if np.isfinite(f(np.array([direction * r]))[0])), 0.0)
        at = far * np.array([0.0625, 0.125, 0.25, 0.5, 1.0])
        logs = np.log(np.abs(f(direction * at)))
        slopes = np.diff(logs) / np.diff(at)
    known, bound = np.isfinite(slopes), finite_below(g)
    slopes, at = slopes[known], (at[1:] + at[:-1])[known] / 2
    told = 1 / (2 * float(bound)) if bound is not None and bound.is_positive else 0.0  # faint beside a power, it counts far out
    if not slopes.size or slopes[-1] < 0.06:
        return 0.0, told
    if slopes.size > 1 and slopes[-1] <= 1.1 * slopes[-2]:
        return float(slopes[-1]), told
    if bound == 0:
        raise ValueError(f"E[{g}] is finite for no variance: the function grows faster than every exp(c x^2), or is not integrable")
    if slopes.size < 2:
        raise ValueError(f"E[{g}] has no closed form and no quadrature: the function grows too fast")
    steepening = max(told, float((np.diff(slopes) / np.diff(at)).max()) / 2)
    return max(0.0, float((slopes - 2 * steepening * at).max())), steepening
