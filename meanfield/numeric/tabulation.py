r"""Chebyshev coefficients of Gaussian moments over a panel of variances, each with a bound on its error.

E g(u) g(v) is computed at all nodes of a panel together. With X = (u + v)/2 and Z = (u - v)/2, independent of variances
\sigma^2 = v (1 + c)/2 and s^2 = v (1 - c)/2,

    E g(u) g(v) = E_X h_s(X),   h_s(X) = E_Z g(X + Z) g(X - Z).

Of g that is analytic in a strip both means are trapezoidal sums. Where s is wide against the step of the sum over X, Z runs over the same
lattice: g is called once at each lattice point, and all nodes of the panel are one product of matrices. Where it is narrow, h_s is
interpolated in s. With kinks, or where the lattice is long, both means are sums over panels, see `piecewise`. The gap of f with f' = g
follows by Price's identity, a mean with positive weights, which cancels nothing:

    (E f(u)^2 - E f(u) f(v))/(v - p) = \int_0^1 2 t W(y t) dt,   W(y) = E g(u) g(v) at c = 1 - y^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from meanfield.gaussian.panels import legendre_rule
from meanfield.numeric.lookup import X_TERMS, Y_TERMS
from meanfield.numeric.piecewise import Impossible, Pieces, Products

__all__ = ["Impossible", "Smooth", "gap_panel", "mean_panel", "pair_panel", "variances"]

Floats = NDArray[np.float64]
Real = Callable[[Floats], Floats]

#: relative error allowed to a panel, read off its last coefficients, and to a part of one that gaps are made of
TOLERANCE, FINER = 1e-13, 2e-14
#: most cuts of a panel in y, most lattice points on either side of 0
CUTS, LATTICE = 28, 300
REACH, NATS = 10.0, 42.0  # standard deviations kept, accuracy of a trapezoidal sum
NARROW = 16  # nodes in s
FALL = 3.0 + math.sqrt(8.0)  # of coefficients of functions that are analytic in |x| < 3
ROUNDING = 4e-15
#: how far from 0 inputs may be against what g is wide, for one sum in y from there to 0 to be tried
STEEP = 500.0
#: of the largest value, last coefficients in y that are not given up at sight
MODEST = 1e-12
ALL = slice(None)


@dataclass(frozen=True)
class Smooth:
    """A function that is analytic in a strip of half-width d about the real axis, |g| ~ e^{growth |x|}, and 0 to all digits beyond its
    support.

    Mirrored it stands for g(u) g(-v), whose correlation is the opposite.
    """

    value: Real
    d: float
    growth: float
    support: float
    mirrored: bool = False

    def products(self, v: Floats) -> Products:
        """What maps values of y to E g(u) g(v) at all pairs of a variance v, or some of them, and a y."""
        return lambda y, some=ALL: _products(self, v[some], y)

    def product(self, x: Floats, z: Floats) -> Floats:
        """g(x + z) g(x - z), or as the mean over z and -z of what it stands for."""
        if self.mirrored:
            return np.asarray(0.5 * (self.value(x + z) * self.value(z - x) + self.value(x - z) * self.value(-x - z)))
        return self.value(x + z) * self.value(x - z)


def mean_panel(moment: Real, k: int, order: int = 0) -> tuple[Floats, float]:
    """Coefficients of E f(u)/v^order over the panel about 4^k, and their relative error."""
    values = moment(variances(k)) / variances(k) ** order
    if not np.isfinite(values).all():
        raise Impossible("the moment is no double")
    coefficients = _transform(X_TERMS) @ values
    return coefficients, _error(coefficients, _least(values))


def pair_panel(g: Smooth | Pieces, k: int, tolerance: float = FINER, order: int = 0) -> tuple[Floats, float]:
    """How many parts y is cut into, to resolve W to that tolerance, and coefficients of E g(u) g(v)/v^order in each, over the panel about
    4^k, and their relative error."""
    parts = [values for _, values in _scaled_parts(g, k, tolerance, order)]
    return _packed(parts, [max(map(_most, parts))] * len(parts))


def gap_panel(g: Smooth | Pieces, k: int, tolerance: float = FINER, order: int = 0) -> tuple[Floats, float]:
    """The same of the gap over v - p, for f with f' = g."""
    parts = _scaled_parts(replace(g, mirrored=False), k, tolerance, order)
    below, found = np.zeros(X_TERMS), []
    for (low, high), values in reversed(parts):
        y = _between(low, high)
        if low == 0.0:
            found.append(values @ _averages().T)
        else:
            integrals = (high - low) * ((2.0 * y * values) @ _integrals().T)
            found.append((below[:, None] + integrals[:, :-1]) / y**2)
        below = below + (high - low) * ((2.0 * y * values) @ _integrals()[-1])
    if not g.mirrored:
        return _packed(found[::-1], [*map(_least, found[::-1])])
    found, above = [], below  # at c = 0, and from there on
    for (low, high), values in _scaled_parts(g, k, tolerance, order):
        y = _between(low, high)
        integrals = (high - low) * ((2.0 * y * values) @ _integrals().T)
        above = above + integrals[:, -1]
        found.append((above[:, None] - integrals[:, :-1]) / (2.0 - y**2))
    return _packed(found, [*map(_least, found)])


def variances(k: int) -> Floats:
    """The nodes of the panel about 4^k."""
    x = _nodes(X_TERMS)
    return np.asarray(4.0**k * (3.0 + x) / (3.0 - x))


def _packed(parts: list[Floats], scales: list[float]) -> tuple[Floats, float]:
    """one after another, from y = 1 down"""
    coefficients = [_coefficients(values) for values in parts]
    error = max(map(_error, coefficients, scales))
    return np.concatenate([[float(len(parts))], *(c.ravel() for c in coefficients)]), error


def _scaled_parts(g: Smooth | Pieces, k: int, tolerance: float, order: int) -> list[tuple[tuple[float, float], Floats]]:
    return [(ends, values / variances(k)[:, None] ** order) for ends, values in _parts(g, k, tolerance)]


@lru_cache(maxsize=16)
def _parts(g: Smooth | Pieces, k: int, tolerance: float) -> tuple[tuple[tuple[float, float], Floats], ...]:
    """intervals of y from 1 down to 0 in each of which W is resolved over the panel about 4^k, and its values there: those of a
    derivative serve its own table and that of gaps"""
    parts: list[tuple[tuple[float, float], Floats]] = []
    products, high, largest = g.products(variances(k)), 1.0, 0.0
    narrow = STEEP * g.d / math.sqrt(variances(k).min())
    for _ in range(CUTS):
        for low in (0.0, 0.5 * high) if high <= narrow else (0.5 * high,):
            y = _between(low, high)
            if low == 0.0 and not _may_be_resolved(products(y, slice(1)), largest):
                continue
            values = products(y)
            scale = max(largest, _most(values))
            try:
                _error(_coefficients(values), scale, tolerance)
            except Impossible:
                continue
            parts.append(((low, high), values))
            largest = scale
            break
        else:
            raise Impossible("the correlation is not resolved")
        if low == 0.0:
            return tuple(parts)
        high = low
    raise Impossible("the correlation takes too many parts")


def _may_be_resolved(values: Floats, largest: float) -> bool:
    """whether the coefficients in y at the largest variance, sums of those of the panel, leave room for these to be small"""
    last = float(np.abs(values @ _transform(Y_TERMS).T)[:, -2:].max())
    return last <= X_TERMS * MODEST * max(largest, _most(values))


def _products(g: Smooth, v: Floats, y: Floats) -> Floats:
    """E g(u) g(v) at all pairs of a variance and a y"""
    across, along = np.sqrt(0.5 * np.outer(v, y**2)), np.sqrt(0.5 * np.outer(v, 2.0 - y**2))
    narrowest = float(along.min())
    width = min(0.8 * g.d, 9.0 * narrowest)  # of the strip that a trapezoidal sum makes use of
    h = min(0.65 * narrowest, 2.0 * math.pi * width / (NATS + 0.5 * (width / narrowest) ** 2))
    n = math.ceil(min(REACH * float(along.max()), g.support) / h)
    if n > LATTICE or 2.0 * g.growth * float(along.max()) > 1.0:
        raise Impossible("the variance is too large")
    X = h * np.arange(-n, n + 1.0)
    result = np.empty_like(across)
    wide = across >= h / 0.65
    if wide.any():
        Z = h * np.arange(0, n + 1.0)
        table = g.product(X[None, :], Z[:, None])
        table[1:] *= 2.0  # even in Z
        result[wide] = np.einsum("ij,ij->i", _weights(Z, across[wide], h) @ table, _weights(X, along[wide], h))
    if not wide.all():
        widest = h / 0.65
        s, step = 0.5 * widest * (1.0 + _nodes(NARROW)), 0.45
        z = step * np.arange(0, math.ceil(REACH / step))
        w = step / math.sqrt(2.0 * math.pi) * np.exp(-0.5 * z * z) * np.where(z > 0.0, 2.0, 1.0)
        table = _transform(NARROW) @ np.array([w @ g.product(X[None, :], (a * z)[:, None]) for a in s])
        polynomials = _polynomials(2.0 * across[~wide] / widest - 1.0, NARROW)
        result[~wide] = np.einsum("ij,ij->i", polynomials @ table, _weights(X, along[~wide], h))
    return result


def _weights(y: Floats, s: Floats, h: float) -> Floats:
    """the trapezoidal rule with step h at y for normals of deviations s"""
    return np.asarray(h / math.sqrt(2.0 * math.pi) / s[:, None] * np.exp(-0.5 * (y[None, :] / s[:, None]) ** 2))


def _most(values: Floats) -> float:
    """what an error of a product is relative to: the second moment is larger"""
    return float(np.abs(values).max())


def _least(values: Floats) -> float:
    """what an error is relative to where a moment keeps its sign: the smallest value"""
    return float(np.abs(values).min()) if (values > 0.0).all() or (values < 0.0).all() else _most(values)


def _error(coefficients: Floats, scale: float, tolerance: float = TOLERANCE) -> float:
    """A bound on what was left out relative to the scale. From one coefficient to the next they fall by FALL in the variance, and in y
    by as much as the last four show, a factor of 2 or more."""
    size = np.abs(coefficients)
    left_out = max(float(size[-1].max()), float(size[-2].max()) / FALL) / (FALL - 1.0)
    if size.ndim == 2:
        last, before = float(size[:, -2:].max()), float(size[:, -4:-2].max())
        left_out += last if before >= 4.0 * last or last <= ROUNDING * max(scale, size.max()) else math.inf
    error = left_out / scale if scale > 0.0 else (0.0 if left_out == 0.0 else math.inf)
    if not error <= tolerance:
        raise Impossible(f"what the last coefficients leave out may be {error:.1e} of the moment")
    return error


def _nodes(n: int) -> Floats:
    return np.asarray(np.cos((np.arange(n) + 0.5) * np.pi / n))


def _between(low: float, high: float) -> Floats:
    return low + 0.5 * (high - low) * (1.0 + _nodes(Y_TERMS))


def _polynomials(x: Floats, n: int) -> Floats:
    """Chebyshev polynomials, a row for each x"""
    return np.asarray(np.cos(np.outer(np.arccos(np.clip(x, -1.0, 1.0)), np.arange(n))))


@lru_cache(maxsize=8)
def _transform(n: int) -> Floats:
    """from values at the nodes to coefficients"""
    matrix = 2.0 / n * np.cos(np.outer(np.arange(n), (np.arange(n) + 0.5) * np.pi / n))
    matrix[0] /= 2.0
    return np.asarray(matrix)


def _coefficients(values: Floats) -> Floats:
    return _transform(X_TERMS) @ values @ _transform(Y_TERMS).T


@lru_cache(maxsize=1)
def _averages() -> Floats:
    r"""from values at the nodes y of [0, high] to \int_0^1 2 t W(y t) dt at the nodes"""
    t, w = legendre_rule(Y_TERMS)
    t, w = 0.5 * (1.0 + t), 0.5 * w
    rows = [(2.0 * t * w) @ _polynomials((1.0 + a) * t - 1.0, Y_TERMS) for a in _nodes(Y_TERMS)]
    return np.asarray(np.array(rows) @ _transform(Y_TERMS))


@lru_cache(maxsize=1)
def _integrals() -> Floats:
    """from values at the nodes of an interval of length 1 to integrals from its start to each node and, last, to its end"""
    t, w = legendre_rule(Y_TERMS)
    t, w = 0.5 * (1.0 + t), 0.5 * w
    rows = [0.5 * (1.0 + a) * (w @ _polynomials((1.0 + a) * t - 1.0, Y_TERMS)) for a in (*_nodes(Y_TERMS), 1.0)]
    return np.asarray(np.array(rows) @ _transform(Y_TERMS))
