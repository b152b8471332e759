r"""Laws of pairs of tokens that rounding does not tell apart, and their derivatives.

In c a function with kinks has a slope \dot K' = E \phi''(u) \phi''(v) that grows as 1/\sqrt{1 - c}. What merges, 1 - c >= 0 at its least,
moves along the limit p^2 = q_1 q_2 alone, where the terms that grow cancel: they are taken next to it, as near as c is known.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.numeric.duals import Dual, Varied, plain
from meanfield.numeric.pointwise import number_at

__all__ = ["pair_at"]

#: how far from 1 a correlation may be by rounding, and how fast what stays there may seem to leave
ROUNDING, STILL = 2.0**-50, 1e-9


def pair_at(e: sp.Expr, pairs: Mapping[str, Varied]) -> Varied:
    """The law of a pair at arrays of values, q1, p and q2 among them."""
    found = number_at(e, pairs)
    if not isinstance(found, Dual) or np.isfinite(found.dots).all():
        return found
    along = _along_limit(*(pairs[name] for name in ("q1", "p", "q2")))
    if not along.any():
        return found
    p = pairs["p"]
    inside = number_at(e, {**pairs, "p": Dual(plain(p) * (1 - 2 * ROUNDING), p.dots)})
    return Dual(found.value, np.where(along & ~np.isfinite(found.dots), inside.dots, found.dots))


def _along_limit(q1: Varied, p: Varied, q2: Varied) -> NDArray[np.bool_]:
    """for each direction, which pairs are at the limit and stay there"""
    if not isinstance(p, Dual):
        return np.zeros(p.shape, dtype=bool)
    size = np.sqrt(plain(q1)) * np.sqrt(plain(q2))
    own = [a.dots / a.value if isinstance(a, Dual) else np.zeros(1) for a in (q1, q2)]
    leaves = p.dots / size - np.sign(p.value) * (own[0] + own[1]) / 2
    moves = 1 + np.abs(p.dots / size) + np.abs(own[0]) + np.abs(own[1])
    return np.asarray((np.abs(p.value) >= size * (1 - ROUNDING)) & (np.abs(leaves) <= STILL * moves))
