"""Products of matrices on one thread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["product"]

Floats = NDArray[np.float64]

#: multiplications up to which OpenBLAS keeps to one thread
LARGEST = 1 << 18
#: rows of a block, at least
_ROWS = 16


def product(a: Floats, b: Floats) -> Floats:
    """a @ b of two matrices in blocks for which BLAS starts no threads: these take some microseconds, threads wait for each other for
    longer where others work too, and bits would hang on how many there are."""
    (rows, inner), columns = a.shape, b.shape[1]
    wide = max(1, min(columns, LARGEST // max(1, _ROWS * inner)))
    high = max(1, LARGEST // max(1, inner * wide))
    out = np.empty((rows, columns))
    for i in range(0, rows, high):
        for j in range(0, columns, wide):
            out[i : i + high, j : j + wide] = a[i : i + high] @ b[:, j : j + wide]
    return out
