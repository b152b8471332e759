r"""What `critical` answers: a mapping of parameters that carries how it is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.faces import Labelled, latex, plot, worded
from meanfield.numeric.evaluation import evaluate
from meanfield.symbols import known, parameter

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["Critical"]

Floats = NDArray[np.float64]


class Critical(dict[str, Any], Labelled):
    """Parameters by name (and q, where it was solved for) at which a network is critical: the dict that `critical` returns.

    Attributes
    ----------
    status : str
        "ok"; "unstable": q* is a fixed point that q leaves (chi_parallel > 1, or 1 at q* = 0 with q' > q beside it); "every q": any
        variance will do; "line": one parameter in terms of the others; "everywhere": any parameters will do; "none": there is no such
        point, and the mapping is empty; "unresolved": none was looked for, and it is empty too.
    reason : str
        A sentence.
    q, chi, chi_parallel : number or expression
        The variance and both slopes there.
    residuals : dict
        By how much chi = 1 and q' = q (and chi_parallel = 1) are missed.
    bracket : pair of numbers or None
        Variances between which the eliminated equation is certain to change its sign, where there was one to solve.
    squares : dict
        What was derived for the squares of the parameters, as expressions in q.
    exact : expression or None
        q as an expression, where it is the root of a polynomial.
    others : tuple of Critical
        All further solutions, each a point of its own: those whose q* attracts come first, by growing q, then those that q leaves
        ("unstable"), and that at q = 0 last.

    Examples
    --------
    >>> import meanfield as mf
    >>> point = mf.critical(mf.mlp(mf.relu), q=1)
    >>> point.status, point.chi, point.squares
    ('ok', 1.0, {'sigma_w': 2, 'sigma_b': 0})
    >>> point["sigma_w"] == 2**0.5
    True
    """

    def __init__(self, values: Mapping[str, Any], status: str, reason: str, **rest: Any) -> None:
        super().__init__(values)
        self.status, self.reason = status, reason
        self.q: Any = rest.get("q", math.nan)
        self.chi: Any = rest.get("chi", math.nan)
        self.chi_parallel: Any = rest.get("chi_parallel", math.nan)
        self.residuals: dict[str, float] = rest.get("residuals", {})
        self.bracket: tuple[float, float] | None = rest.get("bracket")
        self.squares: dict[str, sp.Expr] = rest.get("squares", {})
        self.exact: sp.Expr | None = None
        self.others: tuple[Critical, ...] = rest.get("others", ())

    def __missing__(self, name: str) -> Any:
        raise KeyError(name if self else f"{name}: {self.reason}")

    def __repr__(self) -> str:
        inside, more = super().__repr__(), f"; {len(self.others)} more in others" if self.others else ""
        return inside if self.status == "ok" and not more else f"Critical({inside}, {self.status}: {self.reason}{more})"

    def latex(self) -> str:
        r"""Of each solution the squares of the parameters as expressions in q where they were derived, their values elsewhere; or why there
        is none."""
        if not self:
            return f"{worded(self.reason)}."
        lines = self._lines()
        for other in self.others:
            lines += [r"& \text{or}", *other._lines()]
        return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"

    def _lines(self) -> list[str]:
        """a line for each parameter, and what is to be said of them"""
        lines = [_line(rf"{latex(parameter(name))}^{{2}}", square, self[name]) for name, square in self.squares.items()]
        named = [name for name in self if name not in self.squares]
        lines += [_line(latex(parameter(name)), self.exact if name == "q" else None, self[name], square=False) for name in named]
        return lines if self.status == "ok" else [*lines, rf"& \text{{{worded(self.reason)}}}"]

    def _repr_latex_(self) -> str:
        return self.latex()

    def curve(self) -> tuple[str, Floats, dict[str, Floats]]:
        """A line as numbers: the name of its letter, values of that, and each parameter there, nan where a square is negative.

        The letter goes from 0 to 2; q from 1/100 to 10.

        Raises
        ------
        ValueError
            It is no line in one letter.
        """
        expressions = {name: self.squares.get(name, sp.sympify(value)) for name, value in self.items()}
        letters = sorted({s for e in expressions.values() for s in e.free_symbols}, key=str)
        if len(letters) != 1:
            names = ", ".join(map(str, letters))
            what = f"it depends on {names}: give values to all but one of them" if names else "this is no line: pass q=mf.q for that"
            raise ValueError(self.reason if not self else what)
        (letter,) = letters
        at = np.geomspace(1e-2, 10, 121) if letter == known("q") else (np.arange(200) + 0.5) / 100
        given: dict[str, Any] = {letter.name: at}
        found = {}
        for name, e in expressions.items():
            values = np.asarray(evaluate(e, **given)) if e.free_symbols else np.full(at.size, float(e))
            values = np.where(values < 0, np.nan, values)
            found[name] = np.sqrt(values) if name in self.squares else values
        real = np.isfinite(np.sum(list(found.values()), axis=0))
        return letter.name, at, {name: np.where(real, values, np.nan) for name, values in found.items()}

    def plot(self, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """A line: its two parameters for all q, or those solved for over the letter that is left (extra `plot`)."""
        axes: matplotlib.axes.Axes = plot(self, ax=ax)
        return axes


def _line(name: str, formula: sp.Expr | None, value: Any, square: bool = True) -> str:
    """a formula, its value where that is one more thing to know, or the value alone"""
    if formula is None:
        return rf"{name} &= {latex(_without_minus(sp.sympify(value)))}"
    formula = _without_minus(formula)
    known = not isinstance(value, float) or not formula.atoms(sp.Function, sp.Symbol, sp.Pow)
    return rf"{name} &= {latex(formula)}" + ("" if known else rf" \approx {latex(sp.Float(value**2 if square else value, 6))}")


def _without_minus(e: sp.Expr) -> sp.Expr:
    """-a (b - c)/d as a (c - b)/d"""
    sign, rest = e.as_coeff_Mul()
    factors = sp.Mul.make_args(rest)
    turned = next((f for f in factors if (f.base if f.is_Pow and f.exp == -1 else f).is_Add), None)
    if not sign.is_negative or turned is None:
        return e
    other = sp.Add(*[-t for t in (turned.base if turned.is_Pow else turned).args])
    return sp.Mul(-sign, *[f for f in factors if f is not turned], 1 / other if turned.is_Pow else other)
