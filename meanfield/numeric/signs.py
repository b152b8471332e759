"""Points of a grid by the signs of parameters that activations hang on: where these are known expressions are decided, as a jump at |x| = b
that is none for b > 0, and what overflows for one sign of an exponent is written otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import sympy as sp
from numpy.typing import NDArray

__all__ = ["by_sign"]

Floats = NDArray[np.float64]


def by_sign(unsigned: Iterable[sp.Symbol], order: Sequence[sp.Symbol], table: Floats) -> list[tuple[dict[str, int], NDArray[np.int64]]]:
    """The signs of parameters by name, 0 for a value of 0, and the columns of a table, a row for each symbol, that have them."""
    names = {s.name for s in unsigned}
    rows = [i for i, s in enumerate(order) if s.name in names]
    if not rows:
        return [({}, np.arange(table.shape[1]))]
    patterns, which = np.unique(np.sign(table[rows]), axis=1, return_inverse=True)
    own = [order[i].name for i in rows]
    return [(dict(zip(own, map(int, signs), strict=True)), np.flatnonzero(which.ravel() == k)) for k, signs in enumerate(patterns.T)]
