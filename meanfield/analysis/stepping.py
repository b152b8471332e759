r"""One repeat in numbers, stage by stage, with its derivatives: values multiply up where expressions would grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meanfield.analysis.maps import StepMap, values_of

__all__ = ["Steps"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Steps:
    """The map of a repeat at parameter values, over arrays of states."""

    step: StepMap
    parameters: Mapping[str, float | Floats]

    def identical(self, at: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """q', dq'/dq and d delta'/d delta at delta = 0, and a bound on the rounding of q'"""
        along, across, error = np.ones(at.size), np.ones(at.size), np.zeros(at.size)
        for expressions in self.step.stages_identical:
            (at, slope, own), bound = values_of(expressions, {"q": at, **self.parameters})
            along, across, error = along * slope, across * own, _passed_on(slope, error) + bound
        return at, along, across, error

    def spread(self, at: Floats, d: Floats) -> tuple[Floats, Floats, Floats]:
        """delta', d delta'/d delta and a bound on the rounding of delta', where q' does not depend on delta"""
        across, error = np.ones(at.size), np.zeros(at.size)
        last = len(self.step.stages) - 1
        for i, (new_q, new_d, *_, own) in enumerate(self.step.stages_pair):
            (after, slope), bound = values_of((new_d, own), {"q": at, "delta": d, **self.parameters})
            across, error = across * slope, _passed_on(slope, error) + bound
            if i < last:
                at = values_of((new_q,), {"q": at, **self.parameters})[0][0]
            d = after
        return d, across, error

    def pair(self, at: Floats, d: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """q', delta', the Jacobian (2, 2, points) and a bound on the rounding of q'"""
        jacobian, error = np.eye(2)[:, :, None] * np.ones(at.size), np.zeros(at.size)
        for expressions in self.step.stages_pair:
            rows, bound = values_of(expressions, {"q": at, "delta": d, **self.parameters}, np.inf)  # the bound says what is lost
            own = rows[2:].reshape(2, 2, at.size)
            at, d, jacobian = rows[0], rows[1], np.einsum("ijg,jkg->ikg", own, jacobian)
            error = _passed_on(own[0, 0], error) + bound
        return at, d, jacobian, error


def _passed_on(slope: Floats, error: Floats) -> Floats:
    """an error through a slope, which may be infinite where there is none"""
    return np.multiply(np.abs(slope), error, out=np.zeros_like(error), where=error > 0)
