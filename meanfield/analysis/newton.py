r"""Positive solutions of a few equations by Newton's method in logarithms, from a grid of starts at once."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.elimination import shifted
from meanfield.analysis.maps import derivative, values_of
from meanfield.analysis.ranges import HIGHEST, LOWEST
from meanfield.gaussian.expectation import Expectation
from meanfield.symbols import known

__all__ = ["solutions"]

Floats = NDArray[np.float64]

x = known("x")

#: where each unknown starts
STARTS = (0.02, 0.3, 1.0, 3.0, 30.0)
STEPS = 60
#: the longest step in a logarithm
LONGEST = 1.0
#: residuals and last steps of what has converged
CONVERGED, SETTLED = 1e-11, 1e-9
#: singular values of the Jacobian in this ratio: the equations do not determine each unknown
SINGULAR = 1e-7
#: how far along its null direction a family of solutions is left and met again
ALONG, MET = 1.0, 0.5
#: of a way between two points, the part that may leave a family they are both of
ASIDE = 1e-2
#: the logarithm of unknowns that are out of the ordinary
FAR = 9.0


def solutions(
    system: tuple[sp.Expr, ...], unknown: tuple[sp.Symbol, ...], given: dict[str, float]
) -> list[tuple[tuple[float, ...], float, bool]]:
    """Distinct solutions of equations with terms of size 1, each with its residual and whether the Jacobian determines every unknown."""
    equations = _Equations(system, unknown, given)
    with np.errstate(all="ignore"):
        at = equations.iterated(np.array(list(itertools.product(STARTS, repeat=len(unknown)))).T)
        if not at.size:
            return []
        value, jacobian = equations(at)
        found: list[tuple[tuple[float, ...], float, bool]] = []
        limits: list[tuple[Floats, Floats]] = []
        for g in np.argsort(np.abs(value).max(0)):
            residual = float(np.abs(value[:, g]).max())
            if not residual <= CONVERGED:
                break
            if any(np.allclose(at[:, g], other, rtol=1e-6, atol=0) for other, _, _ in found):
                continue
            _, sizes, directions = np.linalg.svd(jacobian[:, :, g])
            rank = int((sizes > SINGULAR * sizes.max()).sum())
            determined = rank == len(unknown)
            if not determined and (not all(d for _, _, d in found) or any(_beside(at[:, g], *limit) for limit in limits)):
                continue
            if determined or equations.family(at[:, g], directions[-1]):
                found.append((tuple(map(float, at[:, g])), residual, determined))
            else:
                limits.append((at[:, g], directions[:rank]))
    return found


def _beside(point: Floats, other: Floats, across: Floats) -> bool:
    """whether a point lies along the family of another: not in the directions that the equations determine there"""
    apart = np.log(point / other)
    return bool(np.linalg.norm(across @ apart) < ASIDE * np.linalg.norm(apart))


@dataclass(frozen=True)
class _Equations:
    system: tuple[sp.Expr, ...]
    unknown: tuple[sp.Symbol, ...]
    given: dict[str, float]

    @cached_property
    def _expressions(self) -> tuple[sp.Expr, ...]:
        every = (*self.system, *(derivative(e, s) * s for e in self.system for s in self.unknown))
        return tuple(e.replace(lambda t: isinstance(t, Expectation), _apart) for e in every)

    def __call__(self, at: Floats) -> tuple[Floats, Floats]:
        """values (equations, points) and derivatives by the logarithms of the unknowns"""
        named = dict(zip((s.name for s in self.unknown), at, strict=True))
        rows, _ = values_of(self._expressions, named | self.given, 1.0)
        m = len(self.system)
        return rows[:m], rows[m:].reshape(m, len(self.unknown), at.shape[1])

    def iterated(self, at: Floats) -> Floats:
        """where Newton's steps of least size settle; what moves on goes to a limit that is no solution"""
        for _ in range(STEPS):
            value, jacobian = self(at)
            good = np.isfinite(value).all(0) & np.isfinite(jacobian).all((0, 1))
            at, value, jacobian = at[:, good], value[:, good], jacobian[:, :, good]
            if not at.size:
                return at
            step = -(np.linalg.pinv(np.moveaxis(jacobian, 2, 0), rcond=1e-12) @ value.T[:, :, None])[:, :, 0].T
            at = at * np.exp(np.clip(step, -LONGEST, LONGEST))
            inside = ((at > LOWEST) & (at < HIGHEST)).all(0)
            at, step = at[:, inside], step[:, inside]
            if not at.size:
                return at
        return at[:, np.abs(step).max(0) < SETTLED]

    def family(self, point: Floats, direction: Floats) -> bool:
        """Whether solutions go on to both sides: where the equations hold in a limit alone, steps from one side come back."""
        ends = self.iterated(point[:, None] * np.exp(np.outer(direction, [-ALONG, ALONG])))
        moved = direction @ np.log(ends / point[:, None])
        return bool(moved.size == 2 and moved[0] < -MET * ALONG and moved[1] > MET * ALONG) and self._comes_near(point, direction)

    def _comes_near(self, point: Floats, direction: Floats) -> bool:
        """Whether a family seen far out goes on to unknowns of ordinary size: to doubles a limit is solved by all that is near it."""
        far = np.abs(np.log(point)).max()
        while far > FAR:
            ahead = point[:, None] * np.exp(np.outer(direction, [-ALONG, ALONG]))
            ends = self.iterated(ahead[:, np.abs(np.log(ahead)).max(0).argmin()][:, None])
            if not ends.size or not np.abs(self(ends)[0]).max() <= CONVERGED:
                return False
            point, before = ends[:, 0], far
            far = np.abs(np.log(point)).max()
            if far > before - MET * ALONG / np.sqrt(point.size):
                return False
        return True


def _apart(node: Expectation) -> sp.Expr:
    """an expectation as a sum of such of functions without parameters, where it is one: their quadrature is prepared once"""
    for own in shifted(node):
        terms = [_powers(t) for t in sp.Add.make_args(own.integrand)]
        if all(terms):
            return sp.Add(*[c * Expectation(g, own.variance, own.mean) for term in terms for c, g in term])
    return node


def _powers(f: sp.Expr) -> list[tuple[sp.Expr, sp.Expr]]:
    """a product as a sum of c g(x), parameters in c only: those of its factors that hold them are polynomials; empty where they are not"""
    held, free = sp.sift(sp.Mul.make_args(f), lambda t: bool(t.free_symbols - {x}), binary=True)
    outer = sp.Mul(*held)
    if not outer.is_polynomial(x):
        return []
    return [(c, sp.Mul(x**k, *free)) for (k,), c in sp.Poly(outer, x).terms()]
