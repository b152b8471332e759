r"""The input scale and shift of a shaped activation, followed from where it is nearly linear.

As the excess (the slope C'(1) - 1, or the curvature C''(1)) goes to 0, alpha does, and beta to a root of an equation in the derivatives
of phi: of (phi'')^2 + 2 phi' phi^(3) with deep kernel shaping, of (phi'')^2 +- sqrt(2) phi' phi^(3) with tailored transformations; alpha
is sqrt(2 excess) |phi'/phi''| and sqrt(excess) |phi'/phi''|. Each solution is followed to the excess asked for, in doubles, and then
polished. A kink in phi' or phi'' has a limit of its own, beta - kink ~ alpha: solutions are looked for around it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.activation import Activation
from meanfield.analysis.curves import DIGITS, precise
from meanfield.analysis.shaped import NoShape
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.landmarks import landmarks
from meanfield.gaussian.panels import legendre_rule
from meanfield.gaussian.slopes import slope
from meanfield.gaussian.smoothness import without_deltas
from meanfield.symbols import known

__all__ = ["DKS", "TAT", "Conditions", "alpha", "beta", "centre", "excess", "moment", "number", "solutions", "tilted"]

Floats = NDArray[np.float64]
x = known("x")
alpha, beta, excess = sp.Symbol("input_scale", positive=True), sp.Symbol("input_shift", real=True), sp.Symbol("excess", positive=True)
#: a constant taken off phi, which no condition depends on: phi(beta) keeps means of doubles from cancelling
centre = sp.Symbol("centre", real=True)

#: where shifts are looked for, and at how many points
WIDEST, POINTS = 6.0, 2401
#: the largest alpha that starts from the limit
SMALL = 0.3
#: starts next to a kink: alpha per root of the excess, beta per alpha
SCALES, SHIFTS = (1.0, 3.0, 0.3, 10.0), (0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0)
#: alpha elsewhere
ANYWHERE = (1.0, 0.3, 0.1)
#: how close, in ln alpha and in beta/alpha, two solutions are one
CLOSE = 1e-2
#: the first digits of a root are those of doubles: a longer step has left it
AWAY = 1.0
#: half the width of the rule for doubles, its nodes on each unit, and the step of differences
HALF, GAUSS, STEP = 10, legendre_rule(16), 1e-5


@dataclass(frozen=True)
class Conditions:
    """The r of (phi'')^2 + r phi' phi^(3) = 0 for the shift in the limit, and alpha^2 (phi''/phi')^2 per excess."""

    ratios: tuple[float, ...]
    scale: float


DKS = Conditions((2.0,), 2.0)
TAT = Conditions((2**0.5, -(2**0.5)), 1.0)


def moment(f: sp.Expr) -> sp.Expr:
    """E f(u), u ~ N(beta, alpha^2)."""
    return Expectation(f, alpha**2, beta)


def tilted(f: sp.Expr) -> sp.Expr:
    """E (u - beta) f(u)."""
    return Expectation((x - beta) * f, alpha**2, beta)


def number(e: sp.Expr, values: dict[sp.Symbol, mp.mpf]) -> mp.mpf:
    """The value of an expression in these expectations at 25 digits, each of a function without a parameter."""

    def plain(node: Expectation) -> sp.Expr:
        f = node.integrand.subs(centre, 0)
        return moment(f.subs(beta, 0)) + beta * moment(f.diff(beta)) if f.has(beta) else moment(f)

    return precise(e.replace(lambda t: isinstance(t, Expectation), plain), values)


def solutions(
    phi: Activation, equations: tuple[sp.Expr, sp.Expr], value: mp.mpf, how: Conditions
) -> list[tuple[mp.mpf, mp.mpf, list[float]]]:
    """alpha, beta and the residuals of the equations, which are in units of the excess, at 25 digits: the smallest shift first."""
    system = _System(phi, equations)
    points: list[Floats] = []
    for start in _starts(phi, float(value), how):
        point = system.followed(start, float(value))
        if point is not None and not any(_same(point, other) for other in points):
            points.append(point)
    points.sort(key=lambda point: (round(abs(point[1]), 6), -point[1]))
    found = [answer for point in points if (answer := system.polished(point, value)) is not None]
    if not found:
        raise NoShape(f"no input scale and shift of {phi!r} meet the conditions at an excess of {float(value):.6g} per layer")
    return found


def _same(point: Floats, other: Floats) -> bool:
    """one solution, to well beyond the steps of Newton's method and well below the scale of the function"""
    return bool(abs(point[0] - other[0]) < CLOSE and abs(point[1] - other[1]) < CLOSE * np.exp(point[0]))


def _starts(phi: Activation, value: float, how: Conditions) -> list[tuple[float, float]]:
    """(alpha, beta): from the limit; next to kinks; then anywhere"""
    f = phi.expression
    slopes = itertools.accumulate(range(3), lambda g, _: without_deltas(slope(g)), initial=f)
    first, second, third = (sp.lambdify(x, g, ["numpy", "scipy"]) for g in itertools.islice(slopes, 1, None))
    grid = np.linspace(-WIDEST, WIDEST, POINTS) + 1e-9
    size = float(np.sqrt(how.scale * value))
    starts = []
    with np.errstate(all="ignore"):
        for ratio in how.ratios:
            h = np.broadcast_to(second(grid) ** 2 + ratio * first(grid) * third(grid), grid.shape)
            for i in np.flatnonzero(h[:-1] * h[1:] < 0):
                b = float(grid[i] - h[i] * (grid[i + 1] - grid[i]) / (h[i + 1] - h[i]))
                a = size * float(abs(first(b) / second(b)))
                if np.isfinite(a) and a > 0:
                    starts.append((a, b))
    starts += [(size * a, k + b * size * a) for k in _kinks_of(phi) for b in SHIFTS for a in SCALES]
    return starts + [(a, b) for b in SHIFTS for a in ANYWHERE]


def _kinks_of(phi: Activation) -> list[float]:
    return [float(k) for k in landmarks(phi.expression, mp.mpf(-WIDEST), mp.mpf(WIDEST)).kinks]


@dataclass(frozen=True)
class _System:
    phi: Activation
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
                residual, jacobian = self._residuals(point, value), self._jacobian(point, value)
                if not (np.isfinite(residual).all() and np.isfinite(jacobian).all()) or np.linalg.det(jacobian) == 0:
                    return None
                step = -np.linalg.solve(jacobian, residual)
                longest = float(np.abs(step).max())
                point = point + step * min(1.0, 0.5 / longest if longest else 1.0)
                if longest < max(1e-6, 1e-12 / value):  # the last digits come with more precision
                    return point
        return None

    @cached_property
    def _kinks(self) -> list[float]:
        return _kinks_of(self.phi)

    @cached_property
    def _compiled(self) -> tuple[Callable[..., list[Floats]], Callable[..., list[float]], Callable[[float], float]]:
        """the integrands, the equations in their means, and phi"""
        nodes = sorted(set().union(*(e.atoms(Expectation) for e in self.equations)), key=sp.default_sort_key)
        means = {node: sp.Dummy("mean") for node in nodes}
        integrands = sp.lambdify((x, beta, centre), [node.integrand for node in nodes], ["numpy", "scipy"], cse=True)
        equations = sp.lambdify((alpha, beta, excess, *means.values()), [e.xreplace(means) for e in self.equations])
        return integrands, equations, sp.lambdify(x, self.phi.expression, ["numpy", "scipy"])

    def _residuals(self, point: Floats, value: float) -> Floats:
        """the equations in doubles"""
        integrands, equations, phi = self._compiled
        a, b = np.exp(point[0]), point[1]
        ends = np.unique(np.clip([*range(-HALF, HALF + 1), *((k - b) / a for k in self._kinks)], -HALF, HALF))
        width = np.diff(ends)[:, None] / 2
        z = ends[:-1, None] + width * (1 + GAUSS[0])
        weight = width * GAUSS[1] * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        means = [np.sum(weight * v) for v in integrands(b + a * z, b, phi(b))]
        return np.array(equations(a, b, np.float64(value), *means))

    def _jacobian(self, point: Floats, value: float) -> Floats:
        ends = ((self._residuals(point + s * h, value) for s in (1, -1)) for h in STEP * np.eye(2))
        return np.array([(up - down) / (2 * STEP) for up, down in ends]).T

    def polished(self, point: Floats, value: mp.mpf) -> tuple[mp.mpf, mp.mpf, list[float]] | None:
        """Broyden's steps with residuals in 25 digits; none from what is a root by rounding alone, which they lead away from"""
        jacobian = mp.matrix(self._jacobian(point, float(value)).tolist())
        with mp.workdps(DIGITS):
            at, step = mp.matrix([mp.mpf(v) for v in point]), mp.zeros(2, 1)
            for _ in range(12):
                values = {alpha: mp.exp(at[0]), beta: at[1], excess: value}
                residual = mp.matrix([number(e, values) for e in self.equations])
                if any(step):  # what is left is what the last step did not foresee
                    jacobian += residual * step.T / (step.T * step)[0]
                if mp.det(jacobian) == 0:
                    return None
                step = -mp.lu_solve(jacobian, residual)
                if max(map(abs, step)) > AWAY:
                    return None
                if max(map(abs, step)) < mp.mpf(10) ** -18:
                    return mp.exp(at[0]), at[1], [float(abs(r) * value) for r in residual]
                at += step
        return None
