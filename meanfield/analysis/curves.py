r"""The equations of criticality along the curve in q on which some of them hold, as numbers: fast ones, and ones with many digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.elimination import in_squares, squared
from meanfield.analysis.maps import derivative, values_of
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.precise import mean_of
from meanfield.symbols import known

__all__ = ["DIGITS", "Curve", "precise", "rational"]

Floats = NDArray[np.float64]
q = known("q")

#: digits of a value, and digits beyond them that may cancel
DIGITS, SPARE = 25, 12


@dataclass(frozen=True)
class Curve:
    """An equation along the curve in q on which as many equations, linear in the squares of the unknowns, hold."""

    solved: tuple[sp.Expr, ...]
    equation: sp.Expr
    unknown: tuple[sp.Symbol, ...]
    given: dict[str, float]

    @cached_property
    def _expressions(self) -> tuple[sp.Expr, ...]:
        """the equation, then the solved ones; of each its derivatives by q and by the squares"""
        own = [in_squares(e, self.unknown) for e in (self.equation, *self.solved)]
        return (*own, *(derivative(e, s) for e in own for s in (q, *map(squared, self.unknown))))

    def __call__(self, at: Floats) -> tuple[Floats, Floats, Floats]:
        """values, slopes in ln q and bounds"""
        k = len(self.unknown)
        names = [squared(s).name for s in self.unknown]
        size = np.maximum(1.0, at)  # of the terms that cancel
        value, bound, slopes = self._rows(at, dict.fromkeys(names, np.zeros(at.size)), size)
        right, matrix, parts = value[:, 1:], slopes[:, 1:, 1:], np.abs(value[:, 1:]) + np.abs(at[:, None] * slopes[:, 1:, 0])
        squares = _solved(matrix, -right[:, :, None])[:, :, 0]
        value, bound, slopes = self._rows(at, dict(zip(names, squares.T, strict=True)), size)
        moved = _solved(slopes[:, 1:, 1:], -slopes[:, 1:, :1])[:, :, 0]
        slope = slopes[:, 0, 0] + (slopes[:, 0, 1:] * moved).sum(1)
        # what is left of the solved equations by the rounding of their terms goes into the squares, and from there into the value
        passed = _solved(np.swapaxes(matrix, 1, 2), slopes[:, 0, 1:, None])[:, :, 0]
        left = parts + (np.abs(matrix) @ np.abs(squares)[:, :, None])[:, :, 0]
        terms = 1e-1 + np.abs(slopes[:, 0, 1:] * squares).sum(1) + np.abs(passed * left).sum(1)
        rounding = 8 * k * np.finfo(float).eps * terms
        return value[:, 0], at * slope, bound + rounding

    def _rows(self, at: Floats, squares: dict[str, Floats], size: Floats) -> tuple[Floats, Floats, Floats]:
        k = len(self.unknown) + 1
        rows, bound = values_of(self._expressions, {"q": at, **squares, **self.given}, size)
        return rows[:k].T, bound, np.moveaxis(rows[k:].reshape(k, k, at.size), 2, 0)


def _solved(matrix: Floats, right: Floats) -> Floats:
    """the solutions of linear systems, nan where one is singular"""
    singular = ~(np.abs(np.linalg.det(matrix)) > 0)
    safe = np.where(singular[:, None, None], np.eye(matrix.shape[-1]), matrix)
    return np.where(singular[:, None, None], np.nan, np.linalg.solve(safe, right))


def rational(value: mp.mpf) -> sp.Rational:
    """A binary number exactly."""
    sign, mantissa, exponent, _ = value._mpf_
    return sp.Rational((-1) ** sign * int(mantissa)) * sp.Integer(2) ** exponent


def precise(e: sp.Expr, values: Mapping[sp.Symbol, mp.mpf]) -> mp.mpf:
    """The value of an expression; each expectation is computed once, with digits for what cancels."""
    put = {s: rational(v) for s, v in values.items()}
    here = e.subs(put, simultaneous=True).replace(lambda t: isinstance(t, Node), _number)
    with mp.workdps(DIGITS):
        return +sp.N(here, DIGITS + SPARE)._to_mpmath(mp.mp.prec)


@lru_cache(maxsize=256)
def _number(node: Node) -> sp.Expr:
    if isinstance(node, Expectation) and node.mean != 0 and not node.integrand.has(sp.DiracDelta):  # closed forms are long
        bits = mp.libmp.dps_to_prec(DIGITS + SPARE)
        return sp.Float._new(mean_of(node.integrand, node.mean, node.variance, bits)._mpf_, bits)
    return sp.N(node, DIGITS + SPARE)
