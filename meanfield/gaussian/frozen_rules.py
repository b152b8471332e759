r"""Many moments under one law whose variance stays, as from LayerNorm on: panels in y = \sqrt{\delta/q}, in the language of node rules.

Between kinks activations are analytic, and so are their moments in y on [0, 1], those that vanish with the gap as it times such a
function. Two panels hold them to the rounding of the sums; one whose last coefficients do not say so is not used.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["FROZEN", "HALF", "filled", "fitted", "place_of"]

#: coefficients of a panel; where one panel ends and the other begins
FROZEN, HALF = 32, 0.7071067811865476
#: the last coefficients of a panel that is used, in units of the largest
_LASTING = 1e-13
_LAST = 3


def place_of(part: int, k: int) -> float:
    """y at a Chebyshev point of the panel on [0, HALF], or of that on [HALF, 1]."""
    t = 0.5 * (1.0 + math.cos(math.pi * (k + 0.5) / FROZEN))
    return HALF + (1.0 - HALF) * t if part > 0 else HALF * t


def fitted(panel: np.ndarray) -> float:
    """Values of each moment at these points become coefficients; 1 where the panel is to be used, 0 where not."""
    waves = np.empty(FROZEN * FROZEN)
    for j in range(FROZEN):
        for k in range(FROZEN):
            waves[FROZEN * j + k] = math.cos(math.pi * j * (k + 0.5) / FROZEN) * (1.0 if j == 0 else 2.0) / FROZEN
    values = np.empty(FROZEN)
    good = 1.0
    for r in range(panel.size // FROZEN):
        row = panel[FROZEN * r : FROZEN * r + FROZEN]
        largest = 0.0
        for k in range(FROZEN):
            values[k] = row[k]
            largest = max(largest, abs(values[k]))
        for j in range(FROZEN):
            row[j] = 0.0
            for k in range(FROZEN):
                row[j] += waves[FROZEN * j + k] * values[k]
        for j in range(FROZEN - _LAST, FROZEN):
            if not abs(row[j]) <= _LASTING * largest:
                good = 0.0
    return good


def filled(panel: np.ndarray, part: int, y: float, out: np.ndarray) -> None:
    """The sums of a panel at y, each in four chains that do not wait for each other."""
    t = 2.0 * ((y - HALF) / (1.0 - HALF) if part > 0 else y / HALF) - 1.0
    polynomials = np.empty(FROZEN)
    polynomials[0] = 1.0
    polynomials[1] = t
    for j in range(2, FROZEN):
        polynomials[j] = 2.0 * t * polynomials[j - 1] - polynomials[j - 2]
    for r in range(out.size):
        a = b = c = d = 0.0
        for j in range(0, FROZEN, 4):
            a += panel[FROZEN * r + j] * polynomials[j]
            b += panel[FROZEN * r + j + 1] * polynomials[j + 1]
            c += panel[FROZEN * r + j + 2] * polynomials[j + 2]
            d += panel[FROZEN * r + j + 3] * polynomials[j + 3]
        out[r] = (a + b) + (c + d)
