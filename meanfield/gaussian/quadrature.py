r"""Gaussian expectations in float64 where no closed form exists, to machine precision for variances from 1e-12 to 1e12.

One primitive: nodes and weights for E f(Y), Y ~ N(mu, s^2). Smooth f, analytic in a strip of half-width d about the real axis: the
trapezoidal rule, plain where the strip is wide, after y = d sinh t where it is narrow. Any other f: Gauss-Legendre panels between
breaks, which are its kinks and points between which 20 nodes resolve it.

It is used twice for two variables: with u = a x + s xi_1, v = +-a x + s xi_2, a^2 = |p|, s^2 = q - |p|, g(x) = E_xi f(a x + s xi),

    E f(u) f(v) = E_x g(x) g(+-x),   E f(u)^2 - E f(u) f(v) = E_x [Var_xi f(a x + s xi) + (g(x) - g(+-x))^2 / 2],

sums of non-negative terms. Where s is small against the features of f, E f(u) f(v) is its Taylor series, and the gap half the mean
of (f(u) - f(v))^2 over (u + v)/2 and u - v, see `close_rules`. These functions use only `math` and `numpy`: the store compiles them
from their source.

What they know of a function is its shape, a row of numbers, laid out in `shape_rows`; see `meanfield.gaussian.singularities.Shape`.
"""

from __future__ import annotations

from typing import Final

from meanfield.gaussian import (
    blends,
    close_rules,
    fourier_rules,
    frozen_rules,
    hermite_rules,
    node_rules,
    panel_rules,
    power_sums,
    shape_rows,
    wave_rules,
)
from meanfield.gaussian.close_texts import CLOSE
from meanfield.gaussian.exchangeable_texts import EXCHANGEABLE
from meanfield.gaussian.family_texts import FAMILIES
from meanfield.gaussian.fourier_texts import FOURIER_SERIES, SERIES
from meanfield.gaussian.mean_texts import MEANS
from meanfield.gaussian.mehler_texts import MEHLER_SERIES
from meanfield.gaussian.pair_texts import PAIRS
from meanfield.gaussian.projection_texts import PROJECTIONS
from meanfield.gaussian.wave_texts import WAVES

__all__ = ["FUNCTIONS", "RULES", "SERIES"]

#: what kernels need: all that these modules list
RULES: Final = (
    shape_rows,
    panel_rules,
    node_rules,
    power_sums,
    wave_rules,
    close_rules,
    blends,
    hermite_rules,
    fourier_rules,
    frozen_rules,
)

#: The quadrature functions of integrand f_<i>, whose derivative is f_<j>, and of a pair f_<i>, f_<j>; <x> and <y> are further
#: parameters of the two, <both> of either; <rule> has <points> nodes and integrates f_<j> between breaks; <series> is what SERIES has of
#: that kind. Text, because no function is handed to another one: each integrand has its own copies.
FUNCTIONS: Final = {**MEANS, **PROJECTIONS, **MEHLER_SERIES, **FOURIER_SERIES, **PAIRS, **CLOSE, **WAVES, **EXCHANGEABLE, **FAMILIES}
