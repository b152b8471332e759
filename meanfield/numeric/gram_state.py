r"""A Gram matrix of tokens or inputs, and beside it what its entries lack of their bound, \Lambda_ij = \sqrt{G_ii G_jj} - G_ij.

Where two merge G holds no digit of that, and where they are nearly orthogonal it holds none of G: both are carried. Half the squared
distance of two is D_ij = \Lambda_ij + (\sqrt{G_ii} - \sqrt{G_jj})^2/2, a sum of what is not negative. Sums of uncorrelated parts have

    \Lambda = \Lambda_1 + \Lambda_2 + (\sqrt{a_i b_j} - \sqrt{a_j b_i})^2/(\sqrt{(a_i + b_i)(a_j + b_j)} + \sqrt{a_i a_j} + \sqrt{b_i b_j}),

a and b the two diagonals (Lagrange), and A mixes G to A G A^T = (s (A q)^T + (A q) s^T)/2 - A D A^T, q the diagonal of G and s the sums of
the rows of A: for rows of one sum distances come from distances alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.duals import Varied, linearly, plain

__all__ = ["TINY", "Grams", "Start", "nearest"]

#: beside a sum of roots that may all be 0
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Grams:
    """`matrix` G and `lack` of shape (*grid, n, n)."""

    matrix: Varied
    lack: Varied

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.matrix.shape)

    @property
    def diagonal(self) -> Varied:
        return np.diagonal(self.matrix, axis1=-2, axis2=-1)

    @property
    def distance(self) -> Varied:
        """Half the squared distances."""
        roots = np.sqrt(self.diagonal)
        apart = roots[..., :, None] - roots[..., None, :]
        return self.lack + apart * apart / 2

    def where(self, good: NDArray[np.bool_], harmless: NDArray[np.float64]) -> Grams:
        """Another matrix, of orthogonal tokens, in the place of those that went wrong."""
        return Grams(np.where(good, self.matrix, harmless), np.where(good, self.lack, 1.0 - harmless))

    def gap(self, pair: bool) -> Varied:
        """1 - c: of two inputs 1 - p/sqrt(q q2), of tokens 1 - p/q with means over the tokens."""
        q = self.diagonal
        n = self.shape[-1]
        with np.errstate(invalid="ignore", divide="ignore"):
            if pair:
                roots = np.sqrt(q)
                return self.lack[..., 0, 1] / (roots[..., 0] * roots[..., 1])
            return self.distance.sum((-1, -2)) / ((max(n - 1, 1) * n) * (q.sum(-1) / n))

    def times(self, weight: Varied) -> Grams:
        """All of it times a number of each point that is not negative."""
        return Grams(weight * self.matrix, weight * self.lack)

    def plus(self, other: Grams) -> Grams:
        """The sum of uncorrelated parts."""
        a, b = np.sqrt(self.diagonal), np.sqrt(other.diagonal)
        matrix = self.matrix + other.matrix
        both = np.sqrt(np.diagonal(matrix, axis1=-2, axis2=-1))

        def times(one: Varied, two: Varied) -> Varied:
            return one[..., :, None] * two[..., None, :]

        mixed = times(a, b) - times(b, a)
        size = times(both, both) + times(a, a) + times(b, b) + TINY
        return Grams(matrix, self.lack + other.lack + mixed * (mixed / size))


@dataclass(frozen=True)
class Start:
    """n tokens or inputs before the first layer: the variance of the first and that of the others, their covariance and what it lacks,
    arrays that broadcast with the grid."""

    n: int
    q: NDArray[np.float64]
    q2: NDArray[np.float64]
    p: NDArray[np.float64]
    lack: NDArray[np.float64]

    @property
    def grams(self) -> Grams:
        own = np.eye(self.n, dtype=bool)
        first = np.arange(self.n) == 0
        q, q2, p, lack = (a[..., None, None] for a in (self.q, self.q2, self.p, self.lack))
        return Grams(np.where(own, np.where(first, q, q2), p), np.where(own, 0.0, lack))

    def of(self, points: slice, grid: tuple[int, ...]) -> Start:
        """Some points of a grid, which is gone through in order."""
        shape = grid or (1,)
        rows = np.unravel_index(np.arange(points.start, points.stop), shape)
        return Start(self.n, *(np.broadcast_to(a, shape)[rows] for a in (self.q, self.q2, self.p, self.lack)))


def nearest(matrix: Varied, lack: Varied) -> Grams:
    """Of entries and of what they lack each the one that has the digits, and the other from it."""
    roots = np.sqrt(np.diagonal(matrix, axis1=-2, axis2=-1))
    bound = roots[..., :, None] * roots[..., None, :]
    lack = np.clip(lack, 0.0, np.inf)
    near = plain(lack) < plain(bound) / 2
    apart = 1.0 - np.eye(matrix.shape[-1])

    def chosen(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(near & (apart > 0), a, b)

    return Grams(linearly(chosen, bound - lack, matrix), linearly(chosen, lack, bound - matrix) * apart)
