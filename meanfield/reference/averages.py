r"""Averages over Gaussian coordinates for the scatter of finite networks, to three digits.

Its products of four activations would take a derivation each; a midpoint rule in one and two dimensions takes none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import sympy as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from meanfield.activation import Activation
from meanfield.reference.expressions import tensor_function
from meanfield.symbols import known

__all__ = ["Averages", "Moments"]

Floats = NDArray[np.float64]

#: nodes of the rule, symmetric about a kink at 0 and none on it, and the standard deviations they reach to
NODES: Final = 160
REACH: Final = 8.0
#: Hermite coefficients; those of a kink fall off as a power
TERMS: Final = 48


class Moments(NamedTuple):
    """Of an activation at a variance v: m = E phi^2, E phi(u) phi(w) with the other inputs, C = E phi'^2, d ln m/d ln v, d ln C/d ln v, and
    relative covariances of phi^2 and phi'^2 g^2 (g an independent unit Gaussian for each input) with those of the other inputs, the
    input itself first; Hermite coefficients, from the first on, of phi^2/m and phi'^2/C."""

    m: float
    kernel: Floats
    C: float
    slope: float
    slope_J: float
    ff: Floats
    fg: Floats
    gg: Floats
    f_hermite: Floats
    g_hermite: Floats


class Averages:
    """Moments of activations, whose parameters have the given values; each is computed once."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self.values = values
        self.found: dict[tuple[Activation, float, tuple[float, ...]], Moments] = {}
        z = (torch.arange(NODES, dtype=torch.float64) + 0.5) * (2 * REACH / NODES) - REACH
        weights = torch.exp(-z * z / 2)
        self.z, self.weights = z, weights / weights.sum()
        rows = [torch.ones_like(z), z]
        for k in range(1, TERMS):  # orthonormal
            rows.append((z * rows[k] - k**0.5 * rows[k - 1]) / (k + 1) ** 0.5)
        self.hermite = torch.stack(rows[1:]) * self.weights

    def __call__(self, phi: Activation, v: float, p: Floats) -> Moments:
        """At the variance v, of an input with covariances p with itself (first) and others."""
        key = (phi, v, tuple(p.tolist()))
        if key not in self.found:
            self.found[key] = self._moments(phi, v, p[1:] / v)
        return self.found[key]

    def _moments(self, phi: Activation, v: float, others: Floats) -> Moments:
        x = known("x")
        bound = Activation(phi.expression.subs({s: sp.Float(self.values[s.name]) for s in phi.expression.free_symbols - {x}}))
        value, slope = tensor_function(bound.expression), tensor_function(bound.derivative.expression)
        root, z = v**0.5, self.z
        h, f, g = value(root * z), value(root * z) ** 2, slope(root * z) ** 2
        m, C = self._mean(f), self._mean(g)
        kernel, ff, fg, gg = [m], [self._mean(f * f)], [self._mean(f * g)], [3 * self._mean(g * g)]
        for c in others:
            w = root * (c * z[:, None] + max(1 - c * c, 0.0) ** 0.5 * z)
            there = value(w)
            given_f, given_g = (there**2) @ self.weights, (slope(w) ** 2) @ self.weights
            kernel.append(self._mean(h * (there @ self.weights)))
            ff.append(self._mean(f * given_f))
            fg.append(self._mean(f * given_g))
            gg.append(self._mean(g * given_g))
        bend = (z * z - 1) / 2  # v d/dv E f = E f (z^2 - 1)/2
        slopes = self._mean(f * bend) / m, self._mean(g * bend) / C
        covariances = np.array(ff) / m**2 - 1, np.array(fg) / (m * C) - 1, np.array(gg) / C**2 - 1
        return Moments(m, np.array(kernel), C, *slopes, *covariances, (self.hermite @ f / m).numpy(), (self.hermite @ g / C).numpy())

    def _mean(self, values: Tensor) -> float:
        return float(self.weights @ values)
