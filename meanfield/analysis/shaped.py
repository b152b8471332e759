"""What shaping makes of an activation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sympy as sp

from meanfield import faces
from meanfield.activation import Activation
from meanfield.faces import latex, worded
from meanfield.symbols import known

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["NoShape", "Shaped", "answered"]

x = known("x")


class NoShape(Exception):
    """Why no shape meets the conditions."""


@dataclass(frozen=True, repr=False)
class Shaped(faces.Labelled):
    """A shaped activation: output_scale (phi(input_scale x + input_shift) + output_shift).

    Attributes
    ----------
    phi : the activation it was made from.
    input_scale, input_shift, output_scale, output_shift : alpha, beta, gamma, delta.
    activation : the shaped one, its numbers to the last digit of a double.
    local : what each layer has been given: the slope C'(1), the curvature C''(1), or C(0).
    network : what the network then has, over its subnetworks.
    residuals : by how much each condition is missed, at 25 digits.
    status : "ok", "partial" (a condition could not be asked for), or "none" (no shape meets them: then all numbers are nan).
    reason : a sentence.
    parameters : what was solved for inside phi (the slope of a leaky ReLU).
    others : further solutions, by growing |input_shift|.

    Examples
    --------
    >>> import meanfield as mf
    >>> found = mf.tailored_leaky_relu(10, eta=0.5)
    >>> found.parameters, round(found.output_scale, 5), found.input_scale, round(found.network, 9), found.status
    ({'negative_slope': 0.45005...}, 1.28963, 1.0, 0.5, 'ok')
    """

    phi: Activation
    input_scale: float
    input_shift: float
    output_scale: float
    output_shift: float
    local: float
    network: float
    residuals: dict[str, float] = field(default_factory=dict)
    status: str = "ok"
    reason: str = "each condition holds"
    parameters: dict[str, float] = field(default_factory=dict)
    others: tuple[Shaped, ...] = ()

    @property
    def activation(self) -> Activation:
        """The shaped function; a ValueError with the reason where there is none."""
        if self.status == "none":
            raise ValueError(self.reason)
        a, b, c, d = map(sp.Rational, self._numbers)
        return Activation(c * (self.phi.expression.subs(x, a * x + b) + d), name=f"shaped {self.phi!r}")

    def __repr__(self) -> str:
        if self.status == "none":
            return f"Shaped(none: {self.reason})"
        inside = f"{_factor(self.input_scale)}x{_term(self.input_shift)}"
        outside = f"{_factor(self.output_scale)}({self.phi!r}({inside}){_term(self.output_shift)})"
        notes = [f"{name} = {value:.6g}" for name, value in self.parameters.items()]
        notes += [] if self.status == "ok" else [f"{self.status}: {self.reason}"]
        return f"Shaped({', '.join([outside, *notes])})"

    def latex(self) -> str:
        r"""The shaped function with six digits, or why there is none."""
        if self.status == "none":
            return f"{worded(self.reason)}."
        a, b, c, d = (sp.Float(v, 6) if v not in (0, 1) else sp.Integer(v) for v in self._numbers)
        inside = self.phi.expression.replace(lambda t: t.is_Rational and t.q > 10**9, lambda t: sp.Float(t, 6))  # a slope solved for
        formula = rf"\hat\phi(x) = {latex(c)} \left({latex(inside.subs(x, a * x + b) + d)}\right)"
        return f"\\begin{{align*}}\n& {formula}\n\\end{{align*}}"

    @property
    def _numbers(self) -> tuple[float, float, float, float]:
        return self.input_scale, self.input_shift, self.output_scale, self.output_shift

    def plot(self, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """The shaped function beside the one it was made from (extra `plot`)."""
        axes: matplotlib.axes.Axes = faces.plot(self, ax=ax)
        return axes

    def _repr_latex_(self) -> str:
        return self.latex()


def _factor(value: float) -> str:
    return "" if value == 1 else f"{value:.6g} "


def _term(value: float) -> str:
    return "" if value == 0 else f" {'-' if value < 0 else '+'} {abs(value):.6g}"


def answered(phi: Activation, network: float, solve: Callable[[], Shaped]) -> Shaped:
    """What was solved for, or that it has no solution."""
    try:
        return solve()
    except NoShape as why:
        return Shaped(phi, *(math.nan,) * 5, network, status="none", reason=str(why))
