r"""E g(u) g(v) for g that oscillates for ever about constants far out, under Gaussians that are wide against its waves.

With g = f + w, w its waves with amplitudes that change as slowly as these are long and f what is left of g, see `far_waves`, no wave is
left in a mean over X = (u + v)/2, and in one over Z = (u - v)/2 of deviation s none either, once s is long against the waves:

    E g(u) g(v) = E f(u) f(v) + E_X k_s(X),   k_s(X) = E_Z [g g - f f](X + Z, X - Z),

where k_s is 0 at larger s, and far out in X but for waves in it

    H_\pm(s) = \sum_\nu |a_\nu^\pm|^2/2 e^{-2 \nu^2 s^2},   of g(u) g(-v)   \sum_\nu Re(a_\nu^+ a_\nu^-)/2 e^{-2 \nu^2 s^2}.

So k_s times a smooth window is summed on a lattice, and beyond it H_\pm is all there is. Of g with kinks the lattice knows w beside a
smooth step h between the constants of f, k_s = E_Z [(h + w)(h + w) - h h], and what is left beside that,

    2 E (f - h)(u) w(v) = 2 E_Z \int (f - h)(x) w(x + 2 Z) \varphi_\sigma(x + Z) dx,

is local: summed over panels between kinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from meanfield.gaussian.wave_rules import STEP
from meanfield.numeric.deviations import Deviations, Impossible, Products, chebyshev, density, transform
from meanfield.numeric.far_waves import Waves
from meanfield.numeric.matrices import product
from meanfield.numeric.piecewise import NODES, WEIGHTS, Pieces
from meanfield.numeric.smooth import NARROW, NATS, SHARE, WIDE, Smooth, on_lattice, weights_of, within_steps
from meanfield.numeric.stepped import Stepped, normal_cdf

__all__ = ["Waving"]

Floats = NDArray[np.float64]
Real = Callable[[Floats], Floats]

#: lattice points of what is left of g on either side of 0; of waves in all, or pairs of a place and a distance
MOST, POINTS = 1500, 8_000_000
#: deviations of X, against the steps of amplitudes, under which no wave is left at these either
WIDE_AGAINST = 1.3
#: nodes and weights of a mean over Z that is narrow against waves
HERMITE, SHARES = np.polynomial.hermite_e.hermegauss(10)
SHARES /= SHARES.sum()


@dataclass(frozen=True)
class Waving:
    """A function with those waves.

    Mirrored it stands for g(u) g(-v), whose correlation is the opposite.
    """

    value: Real
    waves: Waves
    mirrored: bool = False

    @property
    def d(self) -> float:
        """The half-width of the strip about the real axis that is made use of."""
        return self.waves.d

    @property
    def least(self) -> float:
        """The smallest variance of u that is wide against the waves."""
        return 2.0 * (WIDE_AGAINST * self.waves.calm) ** 2

    def products(self, v: Floats) -> Products:
        """What maps values of y to E g(u) g(v) at all pairs of a variance v, or some of them, and a y."""
        if v.min() < self.least:
            raise Impossible("the variance is too small")
        parts = [self._slow().products(v), _Near(_Lattice.of(self), v).at]
        if self.waves.kinks:
            parts.append(_Beside(_Pairs.of(self), v).at)

        def products(y: Floats, some: slice = slice(None)) -> Floats:
            return np.asarray(sum(part(y, some) for part in parts))

        return products

    @property
    def smooth(self) -> tuple[Real, Real]:
        """What is analytic and differs by the waves: the function and what is left of it, without kinks beside a step."""
        if self.waves.kinks:
            return lambda z: self.waves.step(z) + self.waves.waving(z), self.waves.step
        return self.value, self.waves.slow

    def _slow(self) -> Stepped | Pieces:
        """what is left without the waves"""
        waves = self.waves
        if waves.kinks:
            return Pieces(waves.slow, waves.breaks, waves.kinks, float(np.diff(waves.breaks).min()), 0.0, self.mirrored)
        return Stepped(waves.slow, self.d, *waves.constants, self.mirrored, waves.calm, MOST)


@dataclass(frozen=True, eq=False)
class _Lattice:
    """k_s within its window, along x, a row for each z, in front those for narrow s: whatever the variance."""

    waves: Waves
    mirrored: bool
    h: float
    across: int
    begin: float
    X: Floats
    rows: Floats

    @staticmethod
    @lru_cache(maxsize=2)
    def of(g: Waving) -> _Lattice:
        waves, h = g.waves, 2.0 * math.pi * SHARE * g.d / (NATS + 0.5)
        across, begin = math.ceil(STEP * waves.gone / h), waves.reach + STEP * (waves.gone + waves.calm)
        along = math.ceil((begin + STEP * waves.calm) / h)
        if along * across > POINTS:
            raise Impossible("the waves are too long")
        X = h * np.arange(-along, along + 1.0)
        rows = np.empty((NARROW + across + 1, X.size))
        whole, slow = (Smooth(value, g.d, 0.0, math.inf, g.mirrored) for value in g.smooth)
        rows[:NARROW] = within_steps(whole, X, h) - within_steps(slow, X, h)
        rows[NARROW:] = on_lattice(whole, h, along, across)
        rows[NARROW:] -= on_lattice(slow, h, along, across)
        rows *= normal_cdf((X + begin) / waves.calm) - normal_cdf((X - begin) / waves.calm)
        return _Lattice(waves, g.mirrored, h, across, begin, X, rows)

    def outer(self, s: Floats) -> Floats:
        """Weights of each deviation s."""
        return _weights(s, self.h, self.across, self.waves.gone)

    def beyond(self, s: Floats, sigma: Floats) -> Floats:
        """H_- + H_+ over as much of X as is on either side of the window"""
        left, right = self.waves.amplitudes
        sizes = 2.0 * (left * right).real if self.mirrored else np.abs(left) ** 2 + np.abs(right) ** 2
        far = np.exp(-2.0 * np.multiply.outer(s**2, self.waves.frequencies**2)) @ (0.5 * sizes)
        return np.asarray(far * normal_cdf(-self.begin / np.hypot(sigma, self.waves.calm)))


class _Near:
    """What waves bring to the means over a range of variances."""

    def __init__(self, lattice: _Lattice, v: Floats) -> None:
        self.lattice, self.deviations = lattice, Deviations(v)
        bells = lattice.h * density(lattice.X, self.deviations.sigma[:, None])
        self.series = self.deviations.series(product(bells, lattice.rows.T))

    def at(self, y: Floats, some: slice = slice(None)) -> Floats:
        """E_X k_s(X) at all pairs of a variance v, or some of them, and a y."""
        v = self.deviations.v[some]
        s, sigma = np.sqrt(0.5 * np.outer(v, y**2)), np.sqrt(0.5 * np.outer(v, 2.0 - y**2))
        if s.min() >= self.lattice.waves.gone:
            return np.zeros(s.shape)
        within = self.deviations.at(y, some, self.series, self.lattice.outer)
        return np.asarray(within + self.lattice.beyond(s, sigma))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """What is left of g with kinks, at places x within a window, times waves at x + 2 z: a row for each z, in front those for narrow s."""

    gone: float
    h: float
    across: int
    x: Floats
    z: Floats
    rows: Floats

    @staticmethod
    @lru_cache(maxsize=2)
    def of(g: Waving) -> _Pairs:
        waves, h = g.waves, math.pi * SHARE * g.d / (NATS + 0.5)  # along z waves are twice as fast
        gone = waves.gone / math.sqrt(2.0)  # of x + 2 z under both densities the deviation is at least s times that
        across, end = math.ceil(STEP * gone / h), max(waves.reach, STEP * waves.calm)
        ends = np.unique(np.clip([*waves.breaks, *np.linspace(-end, end, 2 + math.ceil(end / g.d))], -end, end))
        x = (ends[:-1, None] + np.diff(ends)[:, None] * (0.5 + 0.5 * NODES)).ravel()
        z = np.append(np.multiply.outer(0.5 * WIDE * h * (1.0 + chebyshev(NARROW)), HERMITE), h * np.arange(-across, across + 1.0))
        if x.size * z.size > POINTS:
            raise Impossible("the waves are too long")
        local = (np.diff(ends)[:, None] * WEIGHTS).ravel() * (waves.slow(x) - waves.step(x))  # half the length, twice the product
        at = x + 2.0 * z[:, None]
        return _Pairs(gone, h, across, x, z, local * waves.waving(-at if g.mirrored else at))

    def under(self, sigma: float) -> Floats:
        """The sums over x with the density of x + z, a number for each row that there are weights of s for."""
        sums = np.einsum("ij,ij->i", self.rows, density(self.x + self.z[:, None], sigma))
        narrow, lattice = sums[: NARROW * HERMITE.size].reshape(NARROW, -1), sums[NARROW * HERMITE.size :]
        both = lattice[self.across :] + lattice[self.across :: -1]
        both[0] *= 0.5
        return np.append(transform(NARROW) @ (narrow @ SHARES), both)

    def outer(self, s: Floats) -> Floats:
        """Weights of each deviation s."""
        return _weights(s, self.h, self.across, self.gone)


class _Beside:
    """What waves bring beside what has kinks, to the means over a range of variances."""

    def __init__(self, pairs: _Pairs, v: Floats) -> None:
        self.pairs, self.deviations = pairs, Deviations(v)
        self.series = self.deviations.series(np.stack([pairs.under(sigma) for sigma in self.deviations.sigma.tolist()]))

    def at(self, y: Floats, some: slice = slice(None)) -> Floats:
        """Of all pairs of a variance v, or some of them, and a y."""
        return self.deviations.at(y, some, self.series, self.pairs.outer)


def _weights(s: Floats, h: float, across: int, gone: float) -> Floats:
    """weights of each deviation s on a lattice of z, under which no wave is left once it is wide"""
    out = weights_of(s, h, across)
    out[s >= gone] = 0.0
    return out
