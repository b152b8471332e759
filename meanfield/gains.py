r"""Gains: the factor on the weights after an activation that keeps a variance or a second moment, and whether depth keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp

from meanfield import arguments
from meanfield.activation import Activation, check_activation
from meanfield.faces import latex
from meanfield.gaussian.growth import beyond
from meanfield.symbols import known

__all__ = ["Gain", "gain"]

_LETTERS = {
    "second_moment": r"g_m",
    "second_moment_slope": r"Q'(q)",
    "second_moment_chi": r"\chi",
    "variance": r"g_v",
    "variance_slope": r"V'(q)",
    "variance_chi": r"\chi_v",
    "growth": r"Q_v(q)/q",
    "mean": r"\mathbb{E}\,\phi",
}


@dataclass(frozen=True, repr=False)
class Gain:
    r"""The gains of an activation at variance q, u ~ N(0, q), beside what each does over depth: see `gain`.

    Attributes
    ----------
    second_moment : g_m = sqrt(q / E phi(u)^2). With weights of variance g_m^2/fan_in the map  Q(v) = g_m^2 E phi(sqrt(v) z)^2  keeps q.
    second_moment_slope : Q'(q): a deviation of the second moment from q is multiplied by it in each layer; beyond 1 it grows.
    second_moment_chi : g_m^2 E phi'(u)^2, the factor on gradients, and the slope at c = 1 of the map of correlations.
    variance : g_v = sqrt(q / Var phi(u)), which keeps q where the mean of phi is taken off: by phi - E phi(u), or by weights whose rows
        sum to zero, for which the map is  V(v) = g_v^2 Var phi(sqrt(v) z).
    variance_slope : V'(q), the same for phi - E phi(u).
    variance_chi : g_v^2 E phi'(u)^2.
    growth : g_v^2 E phi(u)^2 / q, at least 1: what g_v makes of q in one layer where the mean is not taken off.
    mean : E phi(u).

    Examples
    --------
    >>> import meanfield as mf
    >>> found = mf.gain(mf.relu)
    >>> found.second_moment, found.mean, found.growth
    (sqrt(2), sqrt(2)/(2*sqrt(pi)), 1/(1 - 1/pi))
    """

    phi: Activation
    q: sp.Expr
    second_moment: sp.Expr
    second_moment_slope: sp.Expr
    second_moment_chi: sp.Expr
    variance: sp.Expr
    variance_slope: sp.Expr
    variance_chi: sp.Expr
    growth: sp.Expr
    mean: sp.Expr

    def __repr__(self) -> str:
        shown = "\n".join(f"    {name} = {_shown(getattr(self, name))}" for name in _LETTERS)
        return f"Gain of {self.phi!r} at q = {self.q}\n{shown}"

    def latex(self) -> str:
        """One line for each attribute."""
        rows = (rf"{letter} &= {latex(getattr(self, name))}" for name, letter in _LETTERS.items())
        return "\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}"

    def _repr_latex_(self) -> str:
        return self.latex()


def _shown(value: sp.Expr) -> str:
    """six digits of a number, 0 where none of them is certain; the expression of parameters"""
    if value.free_symbols:
        return str(value)
    try:
        number = value.evalf(15)
    except (ArithmeticError, ValueError):  # quadrature refuses the function
        return str(value)
    return f"{0.0 if number._prec == 1 else float(number):.6g}" if number.is_Float else str(number)


def gain(phi: Activation, q: Any = 1) -> Gain:
    r"""The gains that keep the variance or the second moment of phi(u), u ~ N(0, q), and the slopes that decide whether depth does.

    g_m = sqrt(q / E phi(u)^2) is He et al. 2015 (arXiv:1502.01852, eq. 10) for any activation, g_v = sqrt(q / Var phi(u)) is Brock et
    al. 2021 (arXiv:2101.08692), the slope Q'(q) is that of the maps of Martens et al. 2021 (arXiv:2110.01765). Preserving alone does not
    stabilise depth: either gain makes q a fixed point, and neighbours of q come back only where the slope is below 1. A repr shows
    numbers; the fields are exact, with expectation nodes where there is no closed form.

    Parameters
    ----------
    phi : Activation
    q : number or sympy expression
        The variance that is to be kept, positive; 1 by default.

    Raises
    ------
    TypeError
        phi is no activation, or q no number or expression.
    ValueError
        q is not positive, or E phi(u)^2 is infinite.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.gain(mf.relu).second_moment, mf.gain(mf.relu).second_moment_slope, mf.gain(mf.relu).variance
    (sqrt(2), 1, sqrt(2)/sqrt(1 - 1/pi))
    >>> mf.gain(mf.gelu)
    Gain of gelu at q = 1
        second_moment = 1.53353
        second_moment_slope = 1.14406
        second_moment_chi = 1.07203
        variance = 1.70093
        variance_slope = 1.06212
        variance_chi = 1.31884
        growth = 1.23023
        mean = 0.282095
    >>> mf.gain(mf.leaky_relu(None)).second_moment
    sqrt(2)/sqrt(negative_slope**2 + 1)

    torch.nn.init.calculate_gain has the same for relu and leaky_relu, sqrt(2/(1 + slope^2)); its 5/3 for tanh, 3/4 for selu and 1 for
    sigmoid are none of these two:

    >>> for phi in (mf.tanh, mf.selu, mf.sigmoid):
    ...     g = mf.gain(phi)
    ...     print(phi, *(f"{float(value):.4f}" for value in (g.second_moment, g.variance)))
    tanh 1.5925 1.5925
    selu 1.0000 1.0000
    sigmoid 1.8462 4.8013
    """
    check_activation(phi)
    at = arguments.expression(q, "q")
    arguments.check_variance(at, "q")
    v = known("q")
    mean, second = phi.mean(v), phi.second_moment(v)
    size = second.subs(v, at)
    if beyond(phi.expression**2, at) is not None or size.has(sp.oo, sp.zoo, sp.nan) or size.is_real is False:
        raise ValueError(f"phi = {phi!r}: E phi(u)^2 is infinite at q = {at}")
    variance = second - mean**2
    gradient = phi.derivative.second_moment(v)
    fields = {
        "second_moment": sp.sqrt(v) / sp.sqrt(second),
        "second_moment_slope": v * second.diff(v) / second,
        "second_moment_chi": v * gradient / second,
        "variance": sp.sqrt(v) / sp.sqrt(variance),
        "variance_slope": v * variance.diff(v) / variance,
        "variance_chi": v * gradient / variance,
        "growth": second / variance,
        "mean": mean,
    }
    return Gain(phi, at, **{name: sp.factor_terms(value.subs(v, at)) for name, value in fields.items()})
