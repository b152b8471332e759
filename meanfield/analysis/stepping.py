r"""One repeat in numbers, stage by stage, with its derivatives: values multiply up where expressions would grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meanfield.analysis.maps import StepMap, identical, values_of

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

    def transfer(self, at: Floats, d: Floats) -> Floats:
        """The transfer of the repeat (points, 2, 2) from those states; where d = 0 throughout, on identical inputs."""
        same = not d.any()
        product = np.eye(2) * np.ones((at.size, 1, 1))
        for (new_q, new_d), entries in zip(self.step.stages, self.step.stages_transfer, strict=True):
            given = {"q": at, **self.parameters} if same else {"q": at, "delta": d, **self.parameters}
            rows = values_of(tuple(map(identical, entries)) if same else entries, given, np.inf)[0]
            product = product @ np.moveaxis(rows.reshape(2, 2, at.size), 2, 0)
            at = values_of((identical(new_q) if same else new_q,), given, np.inf)[0][0]
            d = d if same else values_of((new_d,), given, np.inf)[0][0]
        return product


def _passed_on(slope: Floats, error: Floats) -> Floats:
    """an error through a slope, which may be infinite where there is none"""
    return np.multiply(np.abs(slope), error, out=np.zeros_like(error), where=error > 0)
