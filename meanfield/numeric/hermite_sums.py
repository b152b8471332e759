r"""Moments of one function at a correlation |c| <= 0.8 by another method than tables are made by: sums of c^n a_n^2 over its Hermite
coefficients a_n."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from meanfield.gaussian.panels import legendre_rule

__all__ = ["pair_of"]

Floats = NDArray[np.float64]
Real = Callable[[Floats], Floats]

REACH, TERMS = 14.0, 160  # deviations kept of Hermite functions, and how many: 0.8^160 = 3e-16
NODES, WEIGHTS = legendre_rule(20)


def pair_of(f: Real, breaks: tuple[float, ...], v: float, c: float, void: float = 0.0) -> tuple[float, float, float, float]:
    """E f(u) f(v), E f(u)^2 - E f(u) f(v), E f(u)^2 and the variance of f(u), over e^{-void^2/2v} for f that is 0 up to there."""
    least = void / math.sqrt(v)
    z, weights = _nodes(breaks, v, least)
    values, roots = f(math.sqrt(v) * z), _root(z, least)
    a = _coefficients(z, values * weights * roots)
    mean = float(a[0])
    if void:  # where the function is 0 it is less than its mean, which is over the root of the same
        variance = float((values**2 * weights * roots**2).sum()) - mean**2
    else:
        variance = float(((values - mean) ** 2 * weights * roots**2).sum())
    product = float(a[1:] ** 2 @ c ** np.arange(1.0, TERMS))
    return mean**2 + product, variance - product, mean**2 + variance, variance


def _nodes(breaks: tuple[float, ...], v: float, least: float) -> tuple[Floats, Floats]:
    """places in deviations, and weights over the root of 2 pi, of integrals over what is further than that from 0"""
    inner = np.array(breaks) / math.sqrt(v)
    steps = least + min(1.0, REACH / max(least, 1.0)) * np.arange(REACH + 1.0)
    ends = np.unique([*-steps, *steps, *inner[np.abs(inner) < steps[-1]]])
    z = (ends[:-1, None] + np.diff(ends)[:, None] * (0.5 + 0.5 * NODES)).ravel()
    weights = (0.5 * np.diff(ends)[:, None] * WEIGHTS).ravel() / math.sqrt(2.0 * math.pi)
    return z[np.abs(z) >= least], weights[np.abs(z) >= least]


def _root(z: Floats, least: float) -> Floats:
    """of e^{-z^2/2} over what that is at the least"""
    return np.asarray(np.exp(-0.25 * (z * z - least * least)))


def _coefficients(z: Floats, weighted: Floats) -> Floats:
    """a_n, which are sums of what is weighted with the root of the density times normalised Hermite polynomials"""
    before, now, found = np.zeros(z.size), np.exp(-0.25 * z * z), []
    for n in range(TERMS):
        found.append(float(weighted @ now))
        before, now = now, (z * now - math.sqrt(n) * before) / math.sqrt(n + 1.0)
    return np.array(found)
