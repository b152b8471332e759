r"""Positive solutions of a few equations by Newton's method in logarithms, from a grid of starts at once."""

from __future__ import annotations

import itertools

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.maps import derivative, values_of

__all__ = ["solutions"]

Floats = NDArray[np.float64]

#: where each unknown starts
STARTS = (0.02, 0.3, 1.0, 3.0, 30.0)
STEPS = 60
#: the longest step in a logarithm
LONGEST = 1.0
#: residuals and last steps of what has converged
CONVERGED, SETTLED = 1e-11, 1e-9
#: singular values of the Jacobian in this ratio: the equations do not determine each unknown
SINGULAR = 1e-7


def solutions(
    system: tuple[sp.Expr, ...], unknown: tuple[sp.Symbol, ...], given: dict[str, float]
) -> list[tuple[tuple[float, ...], float, bool]]:
    """Distinct solutions, each with its residual and whether the Jacobian there determines every unknown."""
    names = [s.name for s in unknown]
    expressions = (*system, *(derivative(e, s) * s for e in system for s in unknown))
    at = np.array(list(itertools.product(STARTS, repeat=len(unknown)))).T
    m, k = len(system), len(unknown)

    def evaluated(points: Floats) -> tuple[Floats, Floats]:
        rows, _ = values_of(expressions, dict(zip(names, points, strict=True)) | given)
        return rows[:m], rows[m:].reshape(m, k, points.shape[1])

    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            value, jacobian = evaluated(at)
            good = np.isfinite(value).all(0) & np.isfinite(jacobian).all((0, 1))
            at, value, jacobian = at[:, good], value[:, good], jacobian[:, :, good]
            if not at.size:
                return []
            step = -(np.linalg.pinv(np.moveaxis(jacobian, 2, 0), rcond=1e-12) @ value.T[:, :, None])[:, :, 0].T
            at = at * np.exp(np.clip(step, -LONGEST, LONGEST))
            inside = ((at > 1e-12) & (at < 1e12)).all(0)
            at, step = at[:, inside], step[:, inside]
            if not at.size:
                return []
        at = at[:, np.abs(step).max(0) < SETTLED]  # what still moves goes to a limit that is no solution
        if not at.size:
            return []
        value, jacobian = evaluated(at)
    found: list[tuple[tuple[float, ...], float, bool]] = []
    for g in np.argsort(np.abs(value).max(0)):
        residual = float(np.abs(value[:, g]).max())
        if not residual <= CONVERGED:
            break
        point = at[:, g]
        if any(np.allclose(point, other, rtol=1e-6, atol=0) for other, _, _ in found):
            continue
        sizes = np.linalg.svd(jacobian[:, :, g], compute_uv=False)
        determined = m >= k and bool(sizes.min() > SINGULAR * sizes.max())
        if determined or not any(not d for _, _, d in found):
            found.append((tuple(map(float, point)), residual, determined))
    return found
