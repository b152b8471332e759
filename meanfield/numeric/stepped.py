r"""E g(u) g(v) for g that is analytic in a strip about the real axis and constant far out on either side, under wide Gaussians.

With \Phi(x/w) for the step, whose means are known, what is left of g is local:

    g(x) = a_- + (a_+ - a_-) \Phi(x/w) + r(x),   E \Phi(u/w) \Phi(v/w) = 1/2 - \arcsin(\sqrt{(1 - \rho)/2})/\pi,  \rho = c v/(v + w^2),
    E \Phi(u/w) r(v) = E r(v) \Phi(\kappa v),    \kappa = c/\sqrt{v (1 - c^2) + w^2}.

Means of r are trapezoidal sums over one lattice, whatever the variance: r and its products are tabulated once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from meanfield.numeric.deviations import Deviations, Impossible, Products, chebyshev, density, polynomials, transform
from meanfield.numeric.elementary import ERF, ERFC
from meanfield.numeric.matrices import product
from meanfield.numeric.smooth import LATTICE, NATS, SHARE, Smooth, on_lattice, support_of, weights_of, within_steps

__all__ = ["Stepped", "normal_cdf"]

Floats = NDArray[np.float64]
Real = Callable[[Floats], Floats]

#: of the larger constant, what is nothing beside it; of the largest coefficient, what the last ones may be
NOTHING, LEFT = 4e-16, 1e-15
SLOPES = (48, 96, 192)  # nodes in \kappa
_GONE = 27.5  # beyond which e^{-z^2/2} is no double


def normal_cdf(z: Floats) -> Floats:
    """\\Phi(z), to the last bit of 1: library functions for arrays of it are of scipy, which is long to import"""
    t = np.asarray(z) / math.sqrt(2.0)
    out, middle, tails = (t > 0.0).astype(np.float64), np.abs(t) < 0.5, (np.abs(t) >= 0.5) & (np.abs(t) < _GONE)
    out[middle] = 0.5 + 0.5 * t[middle] * polyval(t[middle] ** 2, ERF)
    a = np.abs(t[tails])
    tail = 0.5 * np.exp(-a * a) * polyval((a - 3.0) / (a + 3.0), ERFC) / (1.0 + 2.0 * a)
    out[tails] = np.where(t[tails] > 0.0, 1.0 - tail, tail)
    return out


@dataclass(frozen=True)
class Stepped:
    """A function that is analytic in a strip of half-width d about the real axis, and constant to all digits on the left and on the right.

    Mirrored it stands for g(u) g(-v), whose correlation is the opposite.
    """

    value: Real
    d: float
    left: float
    right: float
    mirrored: bool = False
    width: float = 0.0  # of the step: 0 where it is d
    most: int = LATTICE  # lattice points on either side of 0

    def products(self, v: Floats) -> Products:
        """What maps values of y to E g(u) g(v) at all pairs of a variance v, or some of them, and a y."""
        if math.sqrt(0.5 * v.min()) < SHARE * self.d:
            raise Impossible("the variance is too small")
        return _Means(self, _Rest.of(self.value, self.d, self.left, self.right, self.width or self.d, self.most), v).at


@dataclass(frozen=True, eq=False)
class _Rest:
    """What is local, on its lattice."""

    value: Real
    d: float
    width: float
    h: float
    n: int

    @staticmethod
    @lru_cache(maxsize=64)
    def of(value: Real, d: float, left: float, right: float, width: float, most: int) -> _Rest:
        def rest(x: Floats) -> Floats:
            return np.asarray(value(x) - (left + (right - left) * normal_cdf(x / width)))

        h = 2.0 * math.pi * SHARE * d / (NATS + 0.5)
        support = support_of(rest, NOTHING * max(abs(left), abs(right)))
        if support > h * most:
            raise Impossible("too little is constant")
        return _Rest(rest, d, width, h, math.ceil(support / h))

    @cached_property
    def x(self) -> Floats:
        return np.asarray(self.h * np.arange(-self.n, self.n + 1.0))

    @cached_property
    def alone(self) -> Floats:
        return np.asarray(self.value(self.x))

    @cached_property
    def shares(self) -> Floats:
        r"""Chebyshev coefficients in \kappa w, which is between -1 and 1, of r(x) \Phi(\kappa x), a row for each"""
        for n in SLOPES:
            found = product(transform(n), normal_cdf(np.outer(chebyshev(n), self.x / self.width)) * self.alone)
            if np.abs(found[-2:]).max() <= LEFT * np.abs(found).max():
                return np.asarray(found)
        raise Impossible("too many slopes")

    @cached_property
    def products(self) -> tuple[Floats, Floats]:
        """Its products along z, in front the narrow ones: a row for each, not mirrored and mirrored"""
        own = [Smooth(self.value, self.d, 0.0, math.inf, mirrored) for mirrored in (False, True)]
        first, second = (np.concatenate([within_steps(g, self.x, self.h), on_lattice(g, self.h, self.n, self.n)]) for g in own)
        return first, second


class _Means:
    """The means over a range of variances."""

    def __init__(self, g: Stepped, rest: _Rest, v: Floats) -> None:
        self.g, self.v, self.rest, self.deviations = g, v, rest, Deviations(v)
        bells = rest.h * density(rest.x, self.deviations.sigma[:, None])
        self.series = self.deviations.series(product(bells, rest.products[g.mirrored].T))
        bells = rest.h * density(rest.x, np.sqrt(v)[:, None])
        self.alone = product(bells, rest.alone[:, None])[:, 0]
        self.shares = product(bells, rest.shares.T) if g.left != g.right else np.zeros((v.size, 1))  # without a step nothing

    def at(self, y: Floats, some: slice = slice(None)) -> Floats:
        """E g(u) g(v) at all pairs of a variance v, or some of them, and a y."""
        v, w, g = self.v[some][:, None], self.rest.width, self.g
        kappa = (1.0 - y**2) * w / np.sqrt(v * y**2 * (2.0 - y**2) + w * w)
        slopes = polynomials((-kappa if g.mirrored else kappa).ravel(), self.shares.shape[1]).reshape(*kappa.shape, -1)
        beside = np.einsum("ijk,ik->ij", slopes, self.shares[some])
        apart = np.arcsin(np.sqrt((v * y**2 + w * w) / (2.0 * (v + w * w)))) / math.pi
        step = g.right - g.left
        steps = g.left * (g.left + step) + step * step * (apart if g.mirrored else 0.5 - apart)
        local = self.deviations.at(y, some, self.series, lambda s: weights_of(s, self.rest.h, self.rest.n))
        return np.asarray(steps + 2.0 * (g.left * self.alone[some][:, None] + step * beside) + local)
