r"""One repeat in numbers, stage by stage, with its derivatives: values multiply up where expressions would grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.maps import StepMap, values_of
from meanfield.analysis.moved import Moved, Rate, comes_apart, identical_through, pair_through, transfer_through
from meanfield.analysis.skips import identical_rows, pair_rows, transfer_rows

__all__ = ["BESIDE", "Steps"]

Floats = NDArray[np.float64]
#: 1 - c of what is nearly the same
BESIDE = 1e-30


@dataclass(frozen=True)
class Steps:
    """The map of a repeat at parameter values, over arrays of states."""

    step: StepMap
    parameters: Mapping[str, float | Floats]

    def _rows(self, expressions: tuple[sp.Expr, ...], at: Floats, d: Floats | None = None, scale: float = 0.0) -> tuple[Any, Any]:
        given = {"q": at} if d is None else {"q": at, "delta": np.minimum(d, 2 * at)}  # opposite inputs, but for rounding
        return values_of(expressions, {**given, **self.parameters}, scale)

    def identical(self, at: Floats) -> tuple[Moved, Rate, Rate]:
        """q', dq'/dq and d delta'/d delta at delta = 0"""
        return identical_through(at, [partial(self._rows, rows) for rows in identical_rows(self.step)])

    def spread(self, at: Floats, d: Floats) -> tuple[Moved, Rate]:
        """delta' and d delta'/d delta where q' does not depend on delta"""
        gap, across, last = Moved.unmoved(d), Rate(np.ones(d.size), np.zeros(d.size)), len(self.step.stages) - 1
        for i, (branch, other, a, _, c, c_less_1, *_, own) in enumerate(pair_rows(self.step)):
            (value, slope, skip, skip_less_1), bound = self._rows((other, own, c, c_less_1), at, gap.at)
            gap = gap.through(value, skip, skip_less_1, skip + slope, bound)
            across = across * Rate(skip + slope, skip_less_1 + slope)
            if i < last:
                value, skip = self._rows((branch, a), at)[0]
                at = skip * at + value
        return gap, across

    def parts(self, at: Floats) -> NDArray[np.bool_]:
        """Whether c = 1 is no fixed point at these variances: the repeat sets apart what is nearly the same."""
        if not self.step.parted:
            return np.zeros(at.size, dtype=bool)
        return comes_apart(self.pair(at, BESIDE * at)[1], self.identical(at)[2])

    def pair(self, at: Floats, d: Floats) -> tuple[Moved, Moved, Rate]:
        """q', delta' and the Jacobian (2, 2, points); where closed forms cancel the bound of q' says what is lost"""
        return pair_through(at, d, [partial(self._rows, rows, scale=np.inf) for rows in pair_rows(self.step)])

    def transfer(self, at: Floats, d: Floats) -> Rate:
        """The transfer of the repeat (points, 2, 2) from those states, beside the identity; where d = 0 throughout, on identical inputs."""
        return transfer_through(at, d, [partial(self._rows, rows, scale=np.inf) for rows in transfer_rows(self.step, not d.any())])
