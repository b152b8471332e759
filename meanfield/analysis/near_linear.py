r"""The input scale and shift of a shaped activation, followed from where it is nearly linear.

As the excess (the slope C'(1) - 1, or the curvature C''(1)) goes to 0, alpha does, and beta to a root of an equation in the derivatives
of phi: of (phi'')^2 + 2 phi' phi^(3) with deep kernel shaping, of (phi'')^2 +- sqrt(2) phi' phi^(3) with tailored transformations; alpha
is sqrt(2 excess) |phi'/phi''| and sqrt(excess) |phi'/phi''|. The solution with the smallest shift is followed to the excess asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.activation import Activation
from meanfield.analysis.curves import DIGITS, precise
from meanfield.analysis.maps import derivative, values_of
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.pieces import is_smooth
from meanfield.symbols import known

__all__ = ["DKS", "TAT", "Conditions", "alpha", "beta", "excess", "moment", "solved", "tilted"]

Floats = NDArray[np.float64]
x = known("x")
alpha, beta, excess = sp.Symbol("input_scale", positive=True), sp.Symbol("input_shift", real=True), sp.Symbol("excess", positive=True)

#: where shifts are looked for, and at how many points
WIDEST, POINTS = 6.0, 2401
#: the largest alpha that starts from the limit
SMALL = 0.3
#: starts where phi is not smooth
SCALES, SHIFTS = (1.0, 0.3, 0.1), (0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0)


@dataclass(frozen=True)
class Conditions:
    """The r of (phi'')^2 + r phi' phi^(3) = 0 for the shift in the limit, and alpha^2 (phi''/phi')^2 per excess."""

    ratios: tuple[float, ...]
    scale: float


DKS = Conditions((2.0,), 2.0)
TAT = Conditions((2**0.5, -(2**0.5)), 1.0)


def moment(f: sp.Expr) -> sp.Expr:
    """E f(u), u ~ N(beta, alpha^2), f in the shorter of its sum and its product: differences of derivatives cancel where u is large."""
    if not is_smooth(f):
        return Expectation(f, alpha**2, beta)
    return Expectation(min((f, sp.factor(f)), key=sp.count_ops), alpha**2, beta)


def tilted(f: sp.Expr) -> sp.Expr:
    """E (u - beta) f(u)."""
    return moment(f * x) - beta * moment(f)


def _split(e: sp.Expr) -> sp.Expr:
    """expectations of (u - beta) f(u), which a derivative by alpha leaves, as those of functions without a parameter"""

    def split(node: Expectation) -> sp.Expr:
        f = node.integrand
        return moment(f.subs(beta, 0)) + beta * moment(f.diff(beta))

    return e.replace(lambda t: isinstance(t, Expectation), split)


def solved(phi: Activation, equations: tuple[sp.Expr, sp.Expr], value: mp.mpf, how: Conditions) -> tuple[mp.mpf, mp.mpf, list[float]]:
    """alpha, beta and the residuals of the equations, which are in units of the excess, at 25 digits."""
    system = _System(equations)
    for start in _starts(phi, float(value), how):
        point = system.followed(start, float(value))
        if point is not None:
            return system.polished(point, value)
    raise ValueError(f"phi = {phi!r}: no input scale and shift meet the conditions at an excess of {float(value):.6g} per layer")


def _starts(phi: Activation, value: float, how: Conditions) -> list[tuple[float, float]]:
    """(alpha, beta), the smallest shift first"""
    f = phi.expression
    if not is_smooth(f):
        return [(a, b) for b in SHIFTS for a in SCALES]
    first, second, third = (sp.lambdify(x, f.diff(x, k), ["numpy", "scipy"]) for k in (1, 2, 3))
    grid = np.linspace(-WIDEST, WIDEST, POINTS) + 1e-9
    starts = []
    with np.errstate(all="ignore"):
        for ratio in how.ratios:
            h = np.broadcast_to(second(grid) ** 2 + ratio * first(grid) * third(grid), grid.shape)
            for i in np.flatnonzero(h[:-1] * h[1:] < 0):
                b = float(grid[i] - h[i] * (grid[i + 1] - grid[i]) / (h[i + 1] - h[i]))
                a = float(np.sqrt(how.scale * value) * abs(first(b) / second(b)))
                if np.isfinite(a) and a > 0:
                    starts.append((a, b))
    return sorted(starts, key=lambda start: (round(abs(start[1]), 6), -start[1]))


@dataclass(frozen=True)
class _System:
    equations: tuple[sp.Expr, sp.Expr]

    def followed(self, start: tuple[float, float], value: float) -> Floats | None:
        """(ln alpha, beta) at an excess, reached through smaller ones from where alpha is small"""
        half = np.array([np.log(2), 0.0])
        steps = int(max(0, np.ceil(np.log2(start[0] / SMALL))))
        point: Floats = np.array([np.log(start[0]), start[1]]) - (steps + 1) * half
        for k in range(steps, -1, -1):
            found = self._newton(point + half, value / 4.0**k)
            if found is None:
                return None
            point = found
        return point

    def _newton(self, point: Floats, value: float) -> Floats | None:
        with np.errstate(all="ignore"):
            for _ in range(40):
                residual, jacobian = self._rows(point, value)
                if not (np.isfinite(residual).all() and np.isfinite(jacobian).all()) or np.linalg.det(jacobian) == 0:
                    return None
                step = -np.linalg.solve(jacobian, residual)
                longest = float(np.abs(step).max())
                point = point + step * min(1.0, 0.5 / longest if longest else 1.0)
                if longest < 1e-6:  # the last digits come with more precision
                    return point
        return None

    def _rows(self, point: Floats, value: float) -> tuple[Floats, Floats]:
        a, b = self.equations
        slopes = (_split(derivative(e, s)) * w for e in (a, b) for s, w in ((alpha, alpha), (beta, sp.S.One)))
        expressions = (a, b, *slopes)
        given = {"input_scale": np.array([np.exp(point[0])]), "input_shift": point[1], "excess": value}
        rows = values_of(expressions, given, by_quadrature=True)[0][:, 0]
        return rows[:2], rows[2:].reshape(2, 2)

    def polished(self, point: Floats, value: mp.mpf) -> tuple[mp.mpf, mp.mpf, list[float]]:
        """chord steps with residuals in 25 digits"""
        _, jacobian = self._rows(point, float(value))
        inverse = mp.matrix(np.linalg.inv(jacobian).tolist())
        with mp.workdps(DIGITS):
            a, b = mp.exp(mp.mpf(point[0])), mp.mpf(point[1])
            for _ in range(8):
                residual = mp.matrix([precise(e, {alpha: a, beta: b, excess: value}) for e in self.equations])
                step = -inverse * residual
                if max(map(abs, step)) < mp.mpf(10) ** -18:
                    break
                a, b = a * mp.exp(step[0]), b + step[1]
            return a, b, [float(abs(r) * value) for r in residual]
