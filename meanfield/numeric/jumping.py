r"""y E f'(u) f'(v) at c = 1 - y^2 for f that jumps by J_k at k, which brings what is singular as 1/y.

    E f'(u) f'(v) = E g(u) g(v) + 2 \sum_k J_k \varphi_v(k) E[g(v) | u = k] + \sum_{k,l} J_k J_l \varphi_2(k, l)

for g the derivative between jumps, \varphi_v and \varphi_2 the densities of u and of u and v, of variance v and correlation r = 1 - y^2, or
r = -(1 - y^2) of what is mirrored. With s the sign of r, 1 - r^2 = y^2 (2 - y^2) and

    (k^2 - 2 r k l + l^2)/2v(1 - r^2) = ((k - s l)^2/2y^2 + s k l)/v(2 - y^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.deviations import Products
from meanfield.numeric.law_rows import panel_rows
from meanfield.numeric.piecewise import Pieces

__all__ = ["Jumping"]

Floats = NDArray[np.float64]

LONG = 3.0  # of a panel under the density of v given u, in its deviations


@dataclass(frozen=True)
class Jumping:
    """A function by its derivative between jumps, and where it jumps by how much.

    Mirrored it stands for f(u) f(-v), whose correlation is the opposite. What is made is over e^{-taken/v}; alone, it is only the two
    sums that jumps bring.
    """

    slope: Pieces
    places: tuple[float, ...]
    jumps: tuple[float, ...]
    mirrored: bool = False
    alone: bool = False
    taken: float = 0.0

    @property
    def d(self) -> float:
        """what it is wide"""
        return self.slope.d

    def products(self, v: Floats) -> Products:
        """What maps values of y to what this file is of, at all pairs of a variance v, or some of them, and a y."""
        between = None if self.alone else replace(self.slope, mirrored=self.mirrored).products(v)

        def at(y: Floats, some: slice = slice(None)) -> Floats:
            own = v[some][:, None]
            sums = self._beside(own, y) + self._both(own, y)
            return sums if between is None else y * between(y, some) * np.exp((self.taken - 0.5 * self.slope.void**2) / own) + sums

        return at

    def limit(self, v: float) -> float:
        """What the jumps bring, over the root of v (v - p), as p goes to v."""
        sizes = (j * j * math.exp((self.taken - 0.5 * k * k) / v) for k, j in zip(self.places, self.jumps, strict=True))
        return float(sum(sizes)) / (2**0.5 * math.pi * v)

    def _beside(self, v: Floats, y: Floats) -> Floats:
        """the second sum, times y"""
        side = -1.0 if self.mirrored else 1.0
        shape = np.broadcast_shapes(v.shape, y.shape)
        s = np.broadcast_to(np.sqrt(v) * y * np.sqrt(2.0 - y * y), shape).ravel()
        total = np.zeros(shape)
        for place, jump in zip(self.places, self.jumps, strict=True):
            mean = np.broadcast_to(side * (1.0 - y * y) * place, shape).ravel()
            rows = panel_rows((np.array(self.slope.breaks) - mean[:, None]) / s[:, None], np.full(s.size, LONG))
            law = rows.law
            means = rows.sums(rows.under_density() * self.slope.value(mean[law] + s[law] * rows.z))
            total += 2.0 * jump * np.exp((self.taken - 0.5 * place**2) / v) / np.sqrt(2.0 * math.pi * v) * means.reshape(shape)
        return y * total

    def _both(self, v: Floats, y: Floats) -> Floats:
        """the third, times y"""
        side = -1.0 if self.mirrored else 1.0
        across, total = 2.0 - y * y, np.zeros(np.broadcast_shapes(v.shape, y.shape))
        for a, j in zip(self.places, self.jumps, strict=True):
            for b, k in zip(self.places, self.jumps, strict=True):
                apart = 0.5 * ((a - side * b) / y) ** 2
                total += j * k * np.exp((self.taken - (apart + side * a * b) / across) / v)
        return total / (2.0 * math.pi * v * np.sqrt(across))
