r"""E g(u) g(v) for g that is analytic in a strip about the real axis, by trapezoidal sums over X = (u + v)/2 and Z = (u - v)/2.

Where the deviation s of Z is wide against the step of the sum over X, Z runs over the same lattice: g is called once at each lattice
point, and all pairs of a variance and a correlation are one product of matrices. Where it is narrow, the mean over Z is interpolated in s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.deviations import Impossible, Products, chebyshev, density, polynomials, transform
from meanfield.numeric.matrices import product

__all__ = ["LATTICE", "NARROW", "NATS", "SHARE", "WIDE", "Smooth", "on_lattice", "support_of", "weights_of", "within_steps"]

Floats = NDArray[np.float64]
Real = Callable[[Floats], Floats]

LATTICE = 300  # most lattice points on either side of 0
REACH, NATS = 10.0, 42.0  # standard deviations kept, accuracy of a trapezoidal sum
SHARE = 0.8  # of the strip that a trapezoidal sum makes use of
WIDE = 1.0 / 0.65  # steps of a lattice: deviations from there on
NARROW = 16  # nodes in s
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

    def product(self, plus: Floats, minus: Floats) -> Floats:
        """g(x + z) g(x - z) from these, or as the mean over z and -z of what it stands for; x about 0 along the last axis."""
        return np.asarray(0.5 * (plus * plus[..., ::-1] + minus * minus[..., ::-1]) if self.mirrored else plus * minus)


def on_lattice(g: Smooth, h: float, n: int, across: int) -> Floats:
    """The products at z = 0, h, ..., as many steps across, each of z > 0 counted for -z too, a row for each, and x = -n h, ..., n h."""
    values = g.value(h * np.arange(-n - across, n + across + 1.0))
    shifted = np.lib.stride_tricks.sliding_window_view(values, 2 * n + 1)
    table = g.product(shifted[across:], shifted[across::-1])
    table[1:] *= 2.0
    return table


def within_steps(g: Smooth, X: Floats, h: float) -> Floats:
    """Chebyshev coefficients in s, from 0 to where a lattice of step h is fine enough, of the mean of the products over z, at each X."""
    s, step = 0.5 * WIDE * h * (1.0 + chebyshev(NARROW)), 0.45
    z = step * np.arange(0, math.ceil(REACH / step))
    w = step / math.sqrt(2.0 * math.pi) * np.exp(-0.5 * z * z) * np.where(z > 0.0, 2.0, 1.0)
    means = [w @ g.product(g.value(X + b), g.value(X - b)) for b in np.multiply.outer(s, z)[:, :, None]]
    return product(transform(NARROW), np.array(means))


def weights_of(s: Floats, h: float, n: int) -> Floats:
    """Of each deviation s, polynomials where it is narrow, else weights of the lattice, in the order of these two."""
    out, wide = np.zeros((s.size, NARROW + n + 1)), s >= WIDE * h
    out[~wide, :NARROW] = polynomials(2.0 * s[~wide] / (WIDE * h) - 1.0, NARROW)
    out[wide, NARROW:] = h * density(h * np.arange(0, n + 1.0), s[wide][:, None])
    return out


def support_of(value: Real, least: float) -> float:
    """Beyond which it is less than that; infinite where it is no number."""
    if not math.isfinite(least):
        return math.inf
    far = np.linspace(0.0, 200.0, 20001)
    last = np.flatnonzero(~(np.maximum(np.abs(value(far)), np.abs(value(-far))) <= least))
    return 0.0 if not last.size else (math.inf if last[-1] > 19000 else float(far[last[-1]]) + 1.0)


def _products(g: Smooth, v: Floats, y: Floats) -> Floats:
    """E g(u) g(v) at all pairs of a variance and a y"""
    across, along = np.sqrt(0.5 * np.outer(v, y**2)), np.sqrt(0.5 * np.outer(v, 2.0 - y**2))
    narrowest = float(along.min())
    width = min(SHARE * g.d, 9.0 * narrowest)
    h = min(narrowest / WIDE, 2.0 * math.pi * width / (NATS + 0.5 * (width / narrowest) ** 2))
    n = math.ceil(min(REACH * float(along.max()), g.support) / h)
    if n > LATTICE or 2.0 * g.growth * float(along.max()) > 1.0:
        raise Impossible("the variance is too large")
    X = h * np.arange(-n, n + 1.0)
    result = np.empty_like(across)
    wide = across >= WIDE * h
    if wide.any():
        weights = h * density(h * np.arange(0, n + 1.0), across[wide][:, None])
        result[wide] = np.einsum("ij,ij->i", product(weights, on_lattice(g, h, n, n)), h * density(X, along[wide][:, None]))
    if not wide.all():
        weights = polynomials(2.0 * across[~wide] / (WIDE * h) - 1.0, NARROW)
        result[~wide] = np.einsum("ij,ij->i", product(weights, within_steps(g, X, h)), h * density(X, along[~wide][:, None]))
    return result
