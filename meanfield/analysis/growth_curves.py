"""What a growth law is compared with: a run as logarithms over layers, and one constant fitted to it by least squares.

Fits are over the later half of the decades of l, at points evenly spread in ln l.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import faces
from meanfield.analysis.implicit import Implicit
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.finite_parts import FinitePart

__all__ = ["AGREES", "Columns", "Curve", "Fit", "Floats", "Series", "integrals", "number", "raised", "slope"]

Floats = NDArray[np.float64]
Columns = list[Floats]

#: the verdict on a constant that is right
AGREES = "agrees"
#: points of a fit
POINTS = 60
#: how far a fit may move while the run grows by a factor of 4, relative, and how many such moves it may be from what is predicted
STILL, MOVES = 0.02, 3


@dataclass(frozen=True)
class Fit:
    """One constant of a law: predicted, fitted over the run, its change from a run a quarter as long, and the verdict on the two.

    `depth` is that of the run, which can be deeper than what was asked for where that does not tell the constant.
    """

    quantity: str
    name: str
    predicted: float
    fitted: float
    change: float
    verdict: str
    depth: int

    def __repr__(self) -> str:
        return f"{self.quantity} {self.name}: predicted {self.predicted:.6g}, fitted {self.fitted:.6g} +- {self.change:.1g}, {self.verdict}"

    def latex(self) -> str:
        """A row of the table of its check."""
        return faces.latex(self)

    def _repr_latex_(self) -> str:
        return self.latex()


@dataclass(frozen=True)
class Series:
    """A run: the numbers of layers, and there ln q, ln (1 - c) and ln J, nan where they are not asked for or not known."""

    layers: NDArray[np.int64]
    logs: Mapping[str, Floats]


def number(e: sp.Expr, values: Mapping[str, float]) -> float:
    """An expression at values of its symbols, by name."""
    e = sp.sympify(e)
    e = e.xreplace({s: sp.nsimplify(values[s.name]) for s in e.free_symbols if s.name in values})
    slow = {t: sp.N(t, 15) for t in e.atoms(Implicit, Node, FinitePart) if not t.free_symbols}  # once each, whatever cancels beside them
    return float(sp.N(e.xreplace(slow), 15))


@dataclass(frozen=True)
class Curve:
    """ln y over l, and what corrects ln y and y: relative to 1, and relative to l."""

    quantity: str
    l: Floats
    y: Floats
    small: Columns
    beside: Columns

    def fit(self, name: str, predicted: float, y: Floats, columns: Columns, least: float = 1e-3) -> Fit:
        """the first coefficient beside what is predicted"""
        whole, part = (_solve(self.l, y, columns, top) for top in (self.l[-1], self.l[-1] / 4))
        fitted, change = float(whole[0]), float(abs(whole[0] - part[0]))
        return Fit(self.quantity, name, predicted, fitted, change, _verdict(predicted, fitted, change, least), int(self.l[-1]))

    def end(self, name: str, predicted: float) -> Fit:
        """y where the run ends beside what is predicted, and its change from a run a quarter as long"""
        fitted, before = (float(np.exp(self.y[i])) for i in (-1, np.searchsorted(self.l, self.l[-1] / 4)))
        change = abs(fitted - before)
        return Fit(self.quantity, name, predicted, fitted, change, _verdict(predicted, fitted, change, 1e-3), int(self.l[-1]))


def raised(slope: Fit, power: float) -> Fit:
    """The constant that is a power of the slope that was fitted, and its error; the verdict on the slope stands"""
    if power == 1:
        return slope
    fitted = slope.fitted**power if slope.fitted > 0 else math.nan
    return replace(slope, predicted=slope.predicted**power, fitted=fitted, change=abs(power * fitted / slope.fitted) * slope.change)


def slope(l: Floats, y: Floats) -> Floats:
    """dy/dl of a run that is smooth in ln l."""
    from scipy.interpolate import make_interp_spline

    t = np.log(l)
    return np.asarray(make_interp_spline(t, y, k=5).derivative()(t) / l, dtype=np.float64)


def integrals(l: Floats, rates: Columns) -> Columns:
    r"""\int f dl of each of some rates of a run, 0 at its end."""
    from scipy.interpolate import make_interp_spline

    t = np.log(l)

    def integral(f: Floats) -> Floats:
        total = make_interp_spline(t, l * f, k=5).antiderivative()
        return np.asarray(total(t) - total(t[-1]), dtype=np.float64)

    return [integral(f) for f in rates]


def _solve(l: Floats, y: Floats, columns: Columns, top: float) -> Floats:
    """least squares over the later half of the decades up to `top`, at points evenly spread in ln l"""
    at = np.unique(np.searchsorted(l, np.geomspace(max(l[0], math.sqrt(top)), top, POINTS)).clip(0, len(l) - 1))
    matrix = np.array([c[at] for c in columns]).T
    scale = np.abs(matrix).max(axis=0)
    solution: Floats = np.linalg.lstsq(matrix / scale, y[at], rcond=None)[0] / scale
    return solution


def _verdict(predicted: float, fitted: float, change: float, least: float) -> str:
    """agrees: no farther from the prediction than the fit still moves, and not moving much"""
    size = max(abs(predicted), least)
    if change > STILL * size:
        return "not settled at this depth"
    return AGREES if abs(fitted - predicted) <= MOVES * change + 1e-3 * size else "disagrees"
