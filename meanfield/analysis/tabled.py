r"""One repeat in numbers for very many settings at once: as `Steps`, with expectations read from tables where they can be tabulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.maps import StepMap, identical, is_closed
from meanfield.analysis.stepping import Steps
from meanfield.analysis.tables import Table
from meanfield.analysis.tabulated import along, callables, tabulated
from meanfield.symbols import known

__all__ = ["Tabled"]

Floats = NDArray[np.float64]
#: (q, delta, *parameters) -> values of the expressions of a stage
Stage = Callable[..., Sequence[Any]]


@dataclass(frozen=True, eq=False)
class _Functions:
    """The expressions of a map, stage by stage, as functions; None where all are closed, or an expectation holds a parameter."""

    step: StepMap

    @cached_property
    def identical(self) -> list[Stage] | None:
        return self._functions(self.step.stages_identical)

    @cached_property
    def moved(self) -> list[Stage] | None:
        return self._functions([stage[:2] for stage in self.step.stages_pair])

    @cached_property
    def pair(self) -> list[Stage] | None:
        """q', delta' and their derivatives, those of the tables, which are not as exact"""
        return self._functions([stage[:2] for stage in self.step.stages_pair], differentiated=True)

    @cached_property
    def transfer(self) -> list[Stage] | None:
        return self._functions([(*a, *b) for a, b in zip(self.step.stages, self.step.stages_transfer, strict=True)])

    @cached_property
    def transfer_identical(self) -> list[Stage] | None:
        both = zip(self.step.stages, self.step.stages_transfer, strict=True)
        return self._functions([(identical(a[0]), sp.S.Zero, *map(identical, b)) for a, b in both])

    def _functions(self, stages: Sequence[tuple[sp.Expr, ...]], differentiated: bool = False) -> list[Stage] | None:
        if all(map(is_closed, stages)):  # formulas are faster
            return None
        tables: dict[str, Table] = {}
        through = [[tabulated(e, tables) for e in stage] for stage in stages]
        if any(e is None for stage in through for e in stage):
            return None
        q, delta = known("q"), known("delta")
        if differentiated:
            through = [[*stage, *(along(e, s) for e in stage for s in (q, delta))] for stage in through]
        arguments = [q, delta, *self.step.recursion.parameters]
        return [sp.lambdify(arguments, stage, modules=[callables(tables), "numpy"], cse=True) for stage in through]


@lru_cache(maxsize=64)
def _functions(step: StepMap) -> _Functions:
    return _Functions(step)


@dataclass(frozen=True)
class Tabled:
    """The map of a repeat at arrays of parameter values, over arrays of states."""

    step: StepMap
    parameters: Mapping[str, Floats]

    @cached_property
    def _plain(self) -> Steps:
        return Steps(self.step, self.parameters)

    def _rows(self, stage: Stage, at: Floats, d: Floats | None) -> list[Floats]:
        given = [self.parameters[s.name] for s in self.step.recursion.parameters]
        return [np.broadcast_to(np.asarray(v, dtype=np.float64), at.shape) for v in stage(at, d, *given)]

    def identical(self, at: Floats) -> tuple[Floats, Floats, Floats]:
        """q', dq'/dq and d delta'/d delta at delta = 0"""
        stages = _functions(self.step).identical
        if stages is None:
            return self._plain.identical(at)[:3]
        along, across = np.ones(at.size), np.ones(at.size)
        for stage in stages:
            at, slope, own = self._rows(stage, at, None)
            along, across = along * slope, across * own
        return at, along, across

    def spread(self, at: Floats, d: Floats) -> Floats:
        """delta' where q' does not depend on delta"""
        return self._plain.spread(at, d)[0] if _functions(self.step).moved is None else self.moved(at, d)[1]

    def moved(self, at: Floats, d: Floats) -> tuple[Floats, Floats]:
        """q' and delta'"""
        stages = _functions(self.step).moved
        if stages is None:
            return self._plain.pair(at, d)[:2]
        for stage in stages:
            at, d = self._rows(stage, at, d)
        return at, d

    def pair(self, at: Floats, d: Floats) -> tuple[Floats, Floats, Floats]:
        """q', delta' and the Jacobian (2, 2, points)"""
        stages = _functions(self.step).pair
        if stages is None:
            return self._plain.pair(at, d)[:3]
        jacobian = np.eye(2)[:, :, None] * np.ones(at.size)
        for stage in stages:
            at, d, *slopes = self._rows(stage, at, d)
            jacobian = np.einsum("ijg,jkg->ikg", np.array(slopes).reshape(2, 2, at.size), jacobian)
        return at, d, jacobian

    def transfer(self, at: Floats, d: Floats) -> Floats:
        """The transfer of the repeat (points, 2, 2) from those states; where d = 0 throughout, on identical inputs."""
        functions = _functions(self.step)
        stages = functions.transfer if d.any() else functions.transfer_identical
        if stages is None:
            return self._plain.transfer(at, d)
        product = np.eye(2) * np.ones((at.size, 1, 1))
        for stage in stages:
            at, d, *entries = self._rows(stage, at, d)
            product = product @ np.moveaxis(np.array(entries).reshape(2, 2, at.size), 2, 0)
        return product
