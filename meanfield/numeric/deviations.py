r"""Means over a narrow and a wide variable at many variances v and correlations 1 - y^2 together, from few deviations of either.

With X = (u + v)/2 and Z = (u - v)/2, independent of variances \sigma^2 = v (2 - y^2)/2 and s^2 = v y^2/2, a mean is analytic in \sigma^2
and in s^2 where these have positive real parts: a Chebyshev sum in (\sigma^2 - m)/(\sigma^2 + m), m in the middle, has few terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.matrices import product

__all__ = ["Deviations", "Impossible", "Products", "chebyshev", "density", "polynomials", "transform", "wide_transform"]

Floats = NDArray[np.float64]
Wide = NDArray[np.longdouble]

NODES = 28  # in \sigma^2
#: nodes in s^2 over deviations of z within a factor W: analytic in |x| < R = (W + 1)/(W - 1), (R + \sqrt{R^2 - 1})^-36 = 2.78^-36 = 1e-16
WIDTHS, WIDEST = 36, 4.5


class Impossible(ArithmeticError):
    """Means that do not come out to the tolerance."""


class Products(Protocol):
    """E g(u) g(v) at all pairs of a variance, or some of them, and a y."""

    def __call__(self, y: Floats, some: slice = ...) -> Floats: ...


class Deviations:
    """Nodes in \\sigma^2 for a range of variances."""

    def __init__(self, v: Floats) -> None:
        least, most = 0.5 * float(v.min()), float(v.max())  # of sigma^2
        self.v, self.narrow = v, math.sqrt(0.5 * most)
        self._centre, self._ratio = math.sqrt(least * most), (math.sqrt(most / least) - 1.0) / (math.sqrt(most / least) + 1.0)
        x = chebyshev(NODES)
        self.sigma = np.sqrt(self._centre * (1.0 + self._ratio * x) / (1.0 - self._ratio * x))

    def series(self, values: Floats) -> Floats:
        """Coefficients in \\sigma^2 of what has these values at the nodes, along the first axis."""
        return product(transform(NODES), values.reshape(NODES, -1)).reshape(values.shape)

    def at(self, y: Floats, some: slice, series: Floats, outer: Callable[[Floats], Floats]) -> Floats:
        """The mean at all pairs of a variance, or some of them, and a y, from its coefficients in \\sigma^2 and along z and what maps
        deviations s to weights along z."""
        v = self.v[some]
        s, square = np.sqrt(0.5 * np.outer(v, y**2)).ravel(), (0.5 * np.outer(v, 2.0 - y**2)).ravel()
        across = polynomials((square - self._centre) / (square + self._centre) / self._ratio, NODES)
        least, most = float(s.min()), float(s.max())
        if s.size <= WIDTHS or most > WIDEST * least:
            values = np.einsum("ij,ij->i", product(across, series), outer(s))
        else:  # as a function of s^2 it is analytic in the half-plane too
            centre, ratio = least * most, (most - least) / (most + least)
            nodes = chebyshev(WIDTHS)
            weights = outer(np.sqrt(centre * (1.0 + ratio * nodes) / (1.0 - ratio * nodes)))
            narrow: Floats = np.linalg.solve(polynomials(nodes, WIDTHS), product(weights, series.T)).astype(np.float64, copy=False)
            wide = polynomials((s**2 - centre) / (s**2 + centre) / ratio, WIDTHS)
            values = np.einsum("ij,ij->i", product(wide, narrow), across)
        return np.asarray(values.reshape(v.size, y.size))


def density(z: Floats, s: Floats | float, void: Floats | float = 0.0) -> Floats:
    """Of a normal of deviation s, over e^{-void^2/2s^2}: at |z| >= void."""
    return np.asarray(np.exp(-0.5 * ((z / s) ** 2 - (void / s) ** 2)) / (math.sqrt(2.0 * math.pi) * s))


def chebyshev(n: int) -> Floats:
    """Where T_n is 0"""
    return np.asarray(np.cos((np.arange(n) + 0.5) * np.pi / n))


def polynomials(x: Floats, n: int) -> Floats:
    """Chebyshev polynomials, a row for each x: by their differences, from which less is lost next to the ends (Reinsch)"""
    a = np.minimum(np.abs(x), 1.0)
    out = np.empty((n, x.size))
    out[0], step, twice = 1.0, a - 1.0, 2.0 * (a - 1.0)
    for k in range(1, n):
        np.add(out[k - 1], step, out=out[k])
        step += twice * out[k]
    out[1::2] *= np.copysign(1.0, x)
    return out.T


@lru_cache(maxsize=16)
def wide_transform(n: int) -> Wide:
    """From values at these points to coefficients, in the widest numbers that the processor has: sums of 20 in doubles are 1e-15 off, in
    all variances alike, and that adds up from layer to layer."""
    step = 2 * np.arctan(np.longdouble(1)) / n
    matrix = np.longdouble(2) / n * np.cos(step * (np.outer(np.arange(n), 2 * np.arange(n) + 1) % (4 * n)))
    matrix[0] /= 2
    return np.asarray(matrix)


@lru_cache(maxsize=16)
def transform(n: int) -> Floats:
    """The same in doubles."""
    return wide_transform(n).astype(np.float64)
