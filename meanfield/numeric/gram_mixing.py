r"""Fixed weights on tokens: G' = A G A^T and what its entries lack of their bound, by whichever form cancels less.

With s the sums of the rows of A, q the diagonal of G and D half the squared distances, also G' = (s (A q)^T + (A q) s^T)/2 - A D A^T.
Where tokens are near each other and a row sums to 0 all digits are in the last term. Correlations do not depend on what rows sum to: for
rows w_i, w_j of sum 1 and e = w_i - w_j half the squared distance is -e D e/2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.duals import Varied, linearly, plain
from meanfield.numeric.gram_state import TINY, Grams, nearest

__all__ = ["mixed"]

Floats = NDArray[np.float64]

#: of the terms of a sum, beside which their rounding is no less
ROUNDING = 2.0**-53
#: part of the size of its weights that the sum of a row is at least, to be told from 0
TOLD = 1e-3


def mixed(G: Grams, A: Varied) -> Grams:
    """The tokens A x, of tokens x."""
    T, D, q = np.swapaxes(A, -1, -2), G.distance, G.diagonal
    s = A.sum(-1)
    carried = (A @ q[..., None])[..., 0]
    plainly, apart = A @ G.matrix @ T, _both(s, carried) - A @ D @ T
    size, back = np.abs(plain(A)), np.swapaxes(np.abs(plain(A)), -1, -2)
    sizes = size @ np.abs(plain(G.matrix)) @ back, np.abs(_both(plain(s), size @ plain(q)[..., None])) + size @ plain(D) @ back
    near = sizes[1] < sizes[0]
    matrix = _chosen(near, apart, plainly)
    lost = ROUNDING * 2 * A.shape[-1] * np.where(near, sizes[1], sizes[0])
    own = np.diagonal(plain(matrix), axis1=-2, axis2=-1)
    nothing = own <= np.diagonal(lost, axis1=-2, axis2=-1)  # as of opposite tokens whose mean is taken
    gone = nothing[..., :, None] | nothing[..., None, :]
    matrix = _chosen(gone, np.zeros(()), matrix)
    return nearest(matrix, _chosen(gone, np.zeros(()), _lack(matrix, A, D)))


def _lack(matrix: Varied, A: Varied, D: Varied) -> Varied:
    """what the entries of mixed tokens lack of their bound"""
    s = A.sum(-1)
    sums, sizes = plain(s), np.abs(plain(A)).sum(-1)
    told = np.abs(sums) > TOLD * sizes
    rows = A / _chosen(told, s, np.ones(()))[..., None]
    own = np.diagonal(matrix, axis1=-2, axis2=-1)
    roots = np.sqrt(own)
    bound = roots[..., :, None] * roots[..., None, :]
    alike = told[..., :, None] & told[..., None, :] & (sums[..., :, None] * sums[..., None, :] > 0)
    if not alike.any():
        return bound - matrix
    halves = rows @ D
    parts = []
    for i in range(matrix.shape[-1]):
        here = slice(i, i + 1)
        between = -((rows[..., here, :] - rows) * (halves[..., here, :] - halves)).sum(-1) / 2
        parts.append(between[..., None, :])
    distances = np.concatenate(parts, -2) * s[..., :, None] * s[..., None, :]
    unit = own / _chosen(told, s * s, np.ones(()))
    bounds = np.sqrt(unit)
    apart = (unit[..., :, None] - unit[..., None, :]) / (bounds[..., :, None] + bounds[..., None, :] + TINY)
    return _chosen(alike, distances - s[..., :, None] * s[..., None, :] * (apart * apart / 2), bound - matrix)


def _both(s: Varied, carried: Varied) -> Varied:
    carried = carried if carried.shape == s.shape else carried[..., 0]
    outer = s[..., :, None] * carried[..., None, :]
    return (outer + np.swapaxes(outer, -1, -2)) / 2


def _chosen(where: NDArray[np.bool_], one: Varied, other: Varied) -> Varied:
    def chosen(a: Floats, b: Floats) -> Floats:
        return np.where(where, a, b)

    return linearly(chosen, one, other)
