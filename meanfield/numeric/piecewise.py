r"""E g(u) g(v) for g that is analytic only piece by piece, with kinks and jumps, at many variances and correlations together.

With X = (u + v)/2 and Z = (u - v)/2, independent of variances \sigma^2 = v (1 + c)/2 and s^2 = v (1 - c)/2, and for c < 0 the names
exchanged, one is wide and one narrow. The inner mean

    I(z) = \int g(X + z) g(X - z) e^{-X^2/2\sigma^2} dX/\sqrt{2\pi\sigma^2}

does not depend on s: between the ends of panels of either factor it is a sum of integrals of analytic functions, whose ends move with z.
So I is analytic between the points where two kinks meet, z = (k_i - k_j)/2, and where c < 0 (k_i + k_j)/2. One set of panels in z serves
all correlations: only the outer mean sees s, down to s = 0. As a function of \sigma^2 it is analytic in the half-plane: the few nodes of
a Chebyshev sum serve all \sigma.

Of g that is 0 up to a distance k of 0, u and v on one side have |X| >= k + |z|, on opposite sides |z| >= k + |X|: two planes, in one of
which the density of the wide variable, in the other that of the narrow one is over what it is at k. With w the variance of that variable
over v/2, 2 - y^2 or y^2, they make up e^{k^2/2v} E g(u) g(v) with the weights e^{(k^2/2v)(1 - 2/w)}.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.gaussian.panels import legendre_rule
from meanfield.numeric.deviations import Deviations, Impossible, Products, chebyshev, density, polynomials
from meanfield.numeric.matrices import product

__all__ = ["FALLEN", "NODES", "REACH", "Pieces", "mean_of"]

Floats = NDArray[np.float64]
Real = Callable[[Floats], Floats]


REACH = 10.0  # standard deviations kept of two variables
FARTHEST = 38.0  # of one, beyond which the density underflows
LONGEST = 3.0  # of a panel under a Gaussian, in its deviations
STEEPEST = 16.0  # and by what exponent the density may fall along it
SLIGHT, FALLEN = 2.0, 41.0  # exponents of what is not far, and of what does not count
MOST, GRADED = 320, 4.0  # breaks within reach and panels in z, each of these that many times as long as the one nearer to where kinks meet
GAUSSIAN = (0.625, 0.4375, 0.15625, 0.109375)  # ends of panels about 0 over what varies as a Gaussian does, of the reach
RESOLVED = 1e-14  # of the largest inner mean
SAME = 1e-12  # of the distance of two breaks
BATCH = 1 << 15  # panels of inner means at a time, roughly: what they take of memory does not grow with how many there are
NOTHING = 1e-40  # of the largest product: where all of a panel is less, its integral is no part of a mean
FEWER = (6, 10)  # nodes of a density over short panels
NODES, WEIGHTS = legendre_rule(20)
LEGENDRE = np.polynomial.legendre.legvander(NODES, NODES.size - 1)
TO_LEGENDRE = np.linalg.inv(LEGENDRE).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Pieces:
    """A function that 20 nodes resolve between breaks, some of which are kinks and two of which are d or more apart, |g| ~ e^{growth |x|}.

    Mirrored it stands for g(u) g(-v), whose correlation is the opposite.
    """

    value: Real
    breaks: tuple[float, ...]
    kinks: tuple[float, ...]
    d: float
    growth: float
    mirrored: bool = False
    void: float = 0.0

    def is_void(self, v: Floats) -> bool:
        """Whether it is 0 as far as these variances, or some of them, reach."""
        return 0.5 * self.void**2 >= SLIGHT * float(v.min())

    def products(self, v: Floats) -> Products:
        """What maps values of y to E g(u) g(v) at all pairs of a variance v, or some of them, and a y, over e^{-void^2/2v}."""
        rate = 0.5 * self.void**2 / v[:, None]
        if not self.is_void(v):
            whole = _Plane(self, v)
            return whole.at if self.void == 0.0 else lambda y, some=slice(None): whole.at(y, some) * np.exp(rate[some])
        near = _Plane(self, v, wide_from=self.void)
        far = _Plane(self, v, narrow_from=self.void) if rate.min() < FALLEN else None

        def at(y: Floats, some: slice = slice(None)) -> Floats:
            found = near.at(y, some) * np.exp(rate[some] * (1.0 - 2.0 / (2.0 - y * y)))
            return found if far is None else found + far.at(y, some) * np.exp(rate[some] * (1.0 - 2.0 / (y * y)))

        return at


class _Plane:
    """The inner mean over a range of variances, of what is beyond a distance from 0 of the wide or of the narrow variable, whose density
    is over what it is there."""

    def __init__(self, g: Pieces, v: Floats, wide_from: float = 0.0, narrow_from: float = 0.0) -> None:
        self.g, self.deviations, self.wide_from, self.narrow_from = g, Deviations(v), wide_from, narrow_from
        self.sigma, self.narrow = self.deviations.sigma, self.deviations.narrow
        self.window = math.hypot(REACH * float(self.sigma.max()), wide_from)
        self.far = math.hypot(REACH * self.narrow, narrow_from)
        self.grid = self._grid()
        reached = self.window + self.far
        if not -g.breaks[0] >= reached <= g.breaks[-1] or 2.0 * g.growth * float(self.sigma.max()) > 1.0:
            raise Impossible("the variance is too large")
        self.breaks = np.array([b for b in g.breaks if abs(b) < reached])
        if self.breaks.size > MOST:
            raise Impossible("the function varies too fast")
        self.ends, series = self._resolved()
        self.series = series.reshape(self.sigma.size, -1)

    def _grid(self) -> Floats:
        """ends of panels of the wide variable, along none of which its density falls too far"""
        count = math.ceil((self.window - self.wide_from) / _step(float(self.sigma.min()), self.wide_from))
        beyond = self.wide_from + (self.window - self.wide_from) / count * np.arange(count + 1.0)
        return beyond if self.g.mirrored else np.concatenate([-beyond[::-1], beyond[1:] if self.wide_from == 0.0 else beyond])

    def at(self, y: Floats, some: slice = slice(None)) -> Floats:
        """E g(u) g(v) at all pairs of a variance v, or some of them, and a y."""
        return self.deviations.at(y, some, self.series, self._outer)

    def _outer(self, s: Floats) -> Floats:
        """the mean over z of each deviation s, of Legendre polynomials on each panel"""
        steps = self.narrow_from + _step(s[:, None], self.narrow_from) * np.arange(5.0)
        ends = np.sort(np.concatenate([np.tile(self.ends, (s.size, 1)), -steps, steps], axis=1), axis=1)
        low, high = ends[:, :-1], ends[:, 1:]
        reach = np.hypot(REACH * s[:, None], self.narrow_from)
        within = (high > low) & (high > -reach) & (low < reach) & (low >= self.ends[0]) & (high <= self.ends[-1])
        row, k = np.nonzero(within & (np.maximum(low, -high) >= self.narrow_from if self.narrow_from else True))
        low, high = low[row, k], high[row, k]
        panel = np.searchsorted(self.ends, 0.5 * (low + high)) - 1
        z = low[:, None] + (high - low)[:, None] * (0.5 + 0.5 * NODES)
        weights = 0.5 * (high - low)[:, None] * WEIGHTS * density(z, s[row][:, None], self.narrow_from)
        start, length = self.ends[panel][:, None], np.diff(self.ends)[panel][:, None]
        sums = _legendre_sums(2.0 * (z - start) / length - 1.0, weights)
        out = np.zeros((s.size, self.ends.size - 1, NODES.size))
        np.add.at(out, (row, panel), sums)
        return (out if self.g.mirrored else 2.0 * out).reshape(s.size, -1)  # even in z

    def _resolved(self) -> tuple[Floats, Floats]:
        """ends of panels in z that resolve the inner mean, and its coefficients: in sigma^2, panel and z"""
        far, sign = self.far, 1.0 if self.g.mirrored else -1.0
        meetings = self._apart(np.append(0.5 * np.add.outer(self.g.kinks, sign * np.array(self.g.kinks)).ravel(), 0.0)).tolist()
        first = -far if self.g.mirrored else self.narrow_from
        count = max(1, math.ceil(math.log(2.0 * far / self.g.d, GRADED)))
        lengths = far * GRADED ** -np.arange(1.0, count + 1.0)
        steps = [side * far * part for side in (-1.0, 1.0) for part in GAUSSIAN]
        steps += [m + side * length for m in meetings for side in (-1.0, 1.0) for length in lengths.tolist()]
        ends = np.unique([first, *(m for m in (*meetings, *steps, -self.narrow_from, self.narrow_from) if first < m < far), far])
        todo = list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
        done: dict[tuple[float, float], Floats] = {}
        largest, resolved = 0.0, RESOLVED + 2.0**-52 * (self.wide_from / float(self.sigma.min())) ** 2  # a rounded X
        while todo:
            if len(done) + len(todo) > MOST:
                raise Impossible("the inner mean varies too fast")
            bounds = np.array(todo)
            z = bounds[:, :1] + np.diff(bounds, axis=1) * (0.5 + 0.5 * NODES)
            inner = [self._inner(some) for some in np.array_split(z.ravel(), 1 + z.size * (self.breaks.size + 1) // BATCH)]
            values = np.concatenate(inner, axis=1).reshape(-1, NODES.size)
            series = product(values, TO_LEGENDRE.T).reshape(self.sigma.size, len(todo), NODES.size)
            largest = max(largest, float(np.abs(series).max()))
            nearest = np.abs(bounds).min(axis=1) * (bounds.prod(axis=1) > 0.0)
            allowed = resolved * largest * np.exp(0.5 * (nearest**2 - self.narrow_from**2) / self.narrow**2)
            fine = np.abs(series[:, :, -3:]).max(axis=(0, 2)) <= allowed
            done |= {ends: series[:, k] for k, ends in enumerate(todo) if fine[k]}
            todo = [part for k, (a, b) in enumerate(todo) if not fine[k] for part in ((a, 0.5 * (a + b)), (0.5 * (a + b), b))]
        order = sorted(done)
        found = np.stack([done[ends] for ends in order], axis=1)
        return np.array([order[0][0], *(b for _, b in order)]), self.deviations.series(found)

    def _apart(self, places: Floats) -> Floats:
        """these without what is next to another but for rounding: many kinks of a periodic function meet at once"""
        places = np.unique(places)
        return np.asarray(places[np.diff(places, prepend=-math.inf) > SAME * self.g.d])

    def _inner(self, z: Floats) -> Floats:
        """the inner mean at each sigma and z"""
        grid = np.tile(self.grid, (z.size, 1))
        shifted = self.breaks - z[:, None]
        ends = [np.abs(shifted)] if self.g.mirrored else [shifted, self.breaks + z[:, None]]
        bounds = np.sort(np.concatenate([*(np.clip(e, grid[0, 0], self.window) for e in ends), grid], axis=1), axis=1)
        low, high = bounds[:, :-1], bounds[:, 1:]
        row, k = np.nonzero((high > low) & self._of_plane(0.5 * np.abs(low + high), np.abs(z)[:, None]))
        low, high = low[row, k][:, None], high[row, k][:, None]
        X, at = low + (high - low) * (0.5 + 0.5 * NODES), z[row][:, None]
        values = self.g.value(at - X if self.g.mirrored else X - at)
        some = values.any(axis=1)  # of the other factor no more is wanted
        if some.all():
            values *= self.g.value(at + X)
        else:
            values[some] *= self.g.value((at + X)[some])
        weights = 0.5 * (high - low) * WEIGHTS * values * (2.0 if self.g.mirrored else 1.0)  # mirrored: even in X
        size = np.abs(values).max(axis=1)
        counts, starts = size > NOTHING * size.max(), np.flatnonzero(np.diff(row, prepend=-1))
        sums, weights, low, high = np.zeros((self.sigma.size, row.size)), weights[counts], low[counts], high[counts]
        first = np.minimum(np.searchsorted(grid[0], low[:, 0]), grid.shape[1] - 2)
        whole = (grid[0, first] == low[:, 0]) & (grid[0, first + 1] == high[:, 0])
        found = np.empty((self.sigma.size, len(weights)))
        found[:, ~whole] = self._under_densities(weights[~whole], low[~whole], high[~whole])
        for panel in range(grid.shape[1] - 1):  # many have the same nodes
            same = np.flatnonzero(whole & (first == panel))
            if not same.size:
                continue
            x = grid[0, panel] + (grid[0, panel + 1] - grid[0, panel]) * (0.5 + 0.5 * NODES)
            found[:, same] = product(density(x, self.sigma[:, None], self.wide_from), weights[same].T)
        sums[:, counts] = found
        return np.asarray(np.add.reduceat(sums, starts, axis=1))

    def _of_plane(self, X: Floats, z: Floats) -> NDArray[np.bool_]:
        """whether what is at |X| and |z| is of this plane, of those that a void makes two"""
        if self.narrow_from:
            return np.asarray(np.maximum(self.narrow_from, z) >= X)
        return np.asarray((np.maximum(self.wide_from, z) <= X) | (self.wide_from == 0.0))

    def _under_densities(self, weights: Floats, low: Floats, high: Floats) -> Floats:
        """Sums of weights at the nodes of each panel times the normal density there of each deviation sigma, which on short panels is a
        polynomial that fewer nodes know: on half a panel of length h about c it has m-th derivatives of (|c|/sigma + 4)^m sigma^-m of
        itself or less, so that a sum over m Chebyshev nodes is off by twice (h (|c|/sigma + 4)/2 sigma)^m/m! of itself."""
        s = float(self.sigma.min())
        steep = 0.5 * (high - low) / s * (np.maximum(np.abs(low), np.abs(high)) / s + 4.0)
        out, left = np.empty((self.sigma.size, len(weights))), np.ones(len(weights), dtype=bool)
        for m in (*FEWER, NODES.size):
            here = left & (steep[:, 0] <= 2.0 * (0.5e-17 * math.factorial(m)) ** (1.0 / m)) if m < NODES.size else left
            left = left & ~here
            nodes = chebyshev(m) if m < NODES.size else NODES
            own = weights[here] if m == NODES.size else product(weights[here], polynomials(NODES, m) @ np.linalg.inv(polynomials(nodes, m)))
            exponents = -0.5 * ((low[here] + (high - low)[here] * (0.5 + 0.5 * nodes)) ** 2 - self.wide_from**2)
            bell = np.empty_like(exponents)
            for j, sigma in enumerate(self.sigma):
                np.exp(np.multiply(exponents, sigma**-2.0, out=bell), out=bell)
                out[j, here] = np.einsum("ij,ij->i", own, bell)
        return out / (math.sqrt(2.0 * math.pi) * self.sigma[:, None])


def mean_of(f: Real, breaks: tuple[float, ...], v: Floats, void: float = 0.0) -> Floats:
    """E f(u) at each variance; of f that is 0 up to a distance from 0 over e^{-void^2/2v}."""
    s = np.sqrt(v)[:, None]
    inner, least = np.array(breaks) / s, void / s
    reach, farthest = np.hypot(REACH, least), np.hypot(FARTHEST, least)
    if not ((inner[:, :1] <= -reach).all() and (inner[:, -1:] >= reach).all()):
        raise Impossible("the variance is too large")
    far_left, far_right = np.maximum(inner[:, :1], -farthest), np.minimum(inner[:, -1:], farthest)
    steps = least + np.minimum(2.0, STEEPEST / np.maximum(least, 1.0)) * np.arange(FARTHEST / 2.0 + 1.0)
    bounds = np.sort(np.clip(np.concatenate([inner, -steps, steps], axis=1), far_left, far_right), axis=1)
    low, length = bounds[:, :-1, None], np.diff(bounds, axis=1)[:, :, None]
    z = low + length * (0.5 + 0.5 * NODES)
    beyond = np.abs(low + 0.5 * length) >= least[:, :, None]
    weights = np.where(beyond, 0.5 * length * WEIGHTS * density(np.where(beyond, z, least[:, :, None]), 1.0, least[:, :, None]), 0.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(weights > 0.0, weights * f(s[:, :, None] * z), 0.0).sum(axis=(1, 2)))


def _step(s: Any, least: float) -> Any:
    """the length of panels under the density of that deviation, at that distance from 0"""
    return LONGEST * s if least == 0.0 else np.minimum(LONGEST * s, STEEPEST / least * s**2)


def _legendre_sums(t: Floats, weights: Floats) -> Floats:
    """sums over the last axis of weights times each Legendre polynomial at t"""
    before, now = weights.copy(), t * weights
    work, sums = np.empty_like(t), np.empty((*t.shape[:-1], NODES.size))
    sums[..., 0], sums[..., 1] = before.sum(axis=-1), now.sum(axis=-1)
    for n in range(1, NODES.size - 1):
        np.multiply(t, now, out=work)
        work *= (2 * n + 1) / (n + 1)
        before *= -n / (n + 1)
        before += work
        before, now = now, before
        sums[..., n + 1] = now.sum(axis=-1)
    return sums
