"""What is asked of float64, and the values that are known to more digits than that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.expectation import Node
from meanfield.numeric.digits import doubles, vanishing
from meanfield.symbols import signed

__all__ = ["Asked", "rounding_of"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Asked:
    """An expression, its symbols in the order of the rows of tables, whether error bounds are wanted, and why there are no digits where
    there are none, in the order met."""

    expression: sp.Expr
    order: tuple[sp.Symbol, ...]
    bounds: bool = False
    reasons: list[ArithmeticError] = field(default_factory=list)

    def signed(self, signs: Mapping[str, int]) -> Asked:
        """The same where parameters are all positive, 1, or all negative, -1."""
        put = {s: signed(s, signs[s.name]) for s in self.order if signs.get(s.name)}
        if not put:
            return self
        e = self.expression.xreplace(put).replace(lambda t: isinstance(t, Node) and t.integrand.has(sp.DiracDelta), lambda t: t.doit())
        return replace(self, expression=e, order=tuple(put.get(s, s) for s in self.order))

    def by_digits(self, table: Floats) -> tuple[Floats, Floats]:
        """The doubles nearest to the values, and their error bounds."""
        out, below = doubles(self.expression, self.order, table, self.reasons)
        return out, rounding_of(out) + below

    def vanishing(self, table: Floats, where: Bools) -> Bools:
        """At which of the columns asked for the value is 0 by symbols."""
        return vanishing(self.expression, self.order, table, where)


def rounding_of(v: Floats) -> Floats:
    """The error bound of doubles that are the nearest ones to values."""
    return np.where(v == 0, 0.0, np.spacing(np.abs(v)))
