"""What a growth law is compared with: a run as logarithms over layers, and one constant fitted to it by least squares.

Fits are over the later half of the decades of l, at points evenly spread in ln l.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import faces
from meanfield.analysis.implicit import Implicit
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.finite_parts import FinitePart
from meanfield.numeric.leaps import LEFT, LENIENT

__all__ = ["AGREES", "Columns", "Constant", "Curve", "Fit", "Floats", "Series", "as_it_is", "integrals", "number", "slope", "to_the"]

Floats = NDArray[np.float64]
Columns = list[Floats]

#: the verdict on a constant that is right
AGREES = "agrees"
#: points of a fit
POINTS = 60
#: how many errors a fit may be from what is predicted; how large these together, and how far it moved, may be where it tells, relative
ERRORS, STILL = 3, 0.02
#: to how many digits runs by leaps are known, relative
DIGITS = LEFT * LENIENT
#: by which factors a run is cut short, to see a fit move: where it settles as powers of l, and exponentially
SHORTER, SHORTER_STEEP = 4, 2


#: a constant of a law from the coefficient that is fitted
Constant = Callable[[float], float]


def as_it_is(fitted: float) -> float:
    """The coefficient is the constant."""
    return fitted


def to_the(power: float) -> Constant:
    """The constant is a power of the coefficient, above 0."""
    return lambda fitted: fitted**power if fitted > 0 else math.nan


@dataclass(frozen=True)
class Fit:
    """One constant of a law: predicted, fitted over the run, the error of that, and the verdict on the two.

    The error is how far the fit moved since the run was a quarter as long (half as long, where it settles exponentially), or more where
    that is little by chance, beside the move before it, or where much is left to go if both are of a geometric series; and the digits of
    the run. The verdict is "disagrees" where the prediction is more than three errors from the fit, and "agrees" where it is within them
    and they are less than 2 % of it: a constant that is wrong by more than twice that does not agree. Elsewhere, and where the fit moved
    by more than 2 %, it is "not settled at this depth".

    `depth` is that of the run, which can be deeper than what was asked for where that does not tell the constant.
    """

    quantity: str
    name: str
    predicted: float
    fitted: float
    error: float
    verdict: str
    depth: int

    def __repr__(self) -> str:
        return f"{self.quantity} {self.name}: predicted {self.predicted:.6g}, fitted {self.fitted:.6g} +- {self.error:.1g}, {self.verdict}"

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
    """ln y over l, and what corrects ln y and y: relative to 1, and relative to l; the power of 1/l of what is left out, at least; steep
    where it settles exponentially."""

    quantity: str
    l: Floats
    y: Floats
    small: Columns
    beside: Columns
    omitted: float = 0.0
    steep: bool = False

    def fit(
        self,
        name: str,
        predicted: float,
        y: Floats,
        columns: Columns,
        least: float = 1e-3,
        constant: Constant = as_it_is,
        shorter: Columns | None = None,
    ) -> Fit:
        """a constant of the first coefficient beside what is predicted of it; `shorter` are the columns less the last order of a series
        of what hardly falls, which a shorter run does not tell from the orders left out"""

        def found(beside: Columns, top: float) -> float:
            return constant(float(self._solve(y, beside, top)[0]))

        fitted = [found(columns, top) for top in self._tops]
        left_out = abs(fitted[0] - found(shorter, self.l[-1])) if shorter is not None else 0.0
        return self._judged(name, predicted, fitted, least, left_out)

    def end(self, name: str, predicted: float) -> Fit:
        """y where the run ends beside what is predicted"""
        return self._judged(name, predicted, [float(np.exp(self.y[np.searchsorted(self.l, top)])) for top in self._tops], 1e-3)

    @property
    def _tops(self) -> Floats:
        """where the run ends, and where shorter ones would"""
        return np.asarray(self.l[-1] / (SHORTER_STEEP if self.steep else SHORTER) ** np.arange(3.0))

    def _judged(self, name: str, predicted: float, fitted: Sequence[float], least: float, left_out: float = 0.0) -> Fit:
        """what was fitted to the run and to two shorter ones, beside what is predicted: a move that is small by chance counts as what the
        one before falls to, as the first power of l that is left out, and to its square where a run twice as long settles exponentially"""
        now, before, first = fitted
        size, change, earlier = max(abs(predicted), least), abs(now - before), abs(before - first)
        left = change**2 / (earlier - change) if change < earlier else 0.0
        fallen = earlier * min(1.0, earlier / size) if self.steep else earlier * SHORTER**-self.omitted
        error = max(change, min(math.sqrt(change * earlier), earlier), fallen, left, left_out) + DIGITS * size
        close = abs(now - predicted) <= ERRORS * error
        settled = change <= STILL * size and not (close and ERRORS * error > STILL * size)
        verdict = "not settled at this depth" if not settled else AGREES if close else "disagrees"
        return Fit(self.quantity, name, predicted, now, error, verdict, int(self.l[-1]))

    def _solve(self, y: Floats, columns: Columns, top: float) -> Floats:
        """least squares over the later half of the decades up to `top`, at points evenly spread in ln l; of what settles exponentially over
        the later half of the repeats"""
        low = max(self.l[0], top / 2 if self.steep else math.sqrt(top))
        at = np.unique(np.searchsorted(self.l, np.geomspace(low, top, POINTS)).clip(0, len(self.l) - 1))
        at = at[np.isfinite(y[at])]  # no logarithm of a slope that is still of the other sign
        matrix = np.array([c[at] for c in columns]).T
        scale = np.abs(matrix).max(axis=0)
        scale[scale == 0] = 1
        solution: Floats = np.linalg.lstsq(matrix / scale, y[at], rcond=None)[0] / scale
        return solution


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
