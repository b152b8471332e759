r"""One repeat in numbers for very many settings at once: as `Steps`, with expectations read from tables where they can be tabulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.maps import StepMap, is_closed
from meanfield.analysis.moved import Moved, Rate, comes_apart, identical_through, pair_through, transfer_through
from meanfield.analysis.skips import identical_rows, moved_rows, transfer_rows
from meanfield.analysis.stepping import BESIDE, Steps
from meanfield.analysis.tables import Table
from meanfield.analysis.tabulated import along, callables, tabulated
from meanfield.symbols import known

__all__ = ["TableSteps"]

Floats = NDArray[np.float64]
#: (q, delta, *parameters) -> values of the expressions of a stage
Stage = Callable[..., Sequence[Any]]


@dataclass(frozen=True, eq=False)
class _Functions:
    """The rows of a map, stage by stage, as functions; None where all are closed, or an expectation holds a parameter."""

    step: StepMap

    @cached_property
    def identical(self) -> list[Stage] | None:
        return self._functions(identical_rows(self.step))

    @cached_property
    def moved(self) -> list[Stage] | None:
        return self._functions(moved_rows(self.step))

    @cached_property
    def pair(self) -> list[Stage] | None:
        """with derivatives, those of the tables, which are not as exact"""
        return self._functions(moved_rows(self.step), differentiated=True)

    @cached_property
    def transfer(self) -> list[Stage] | None:
        return self._functions(transfer_rows(self.step, same=False))

    @cached_property
    def transfer_identical(self) -> list[Stage] | None:
        return self._functions(transfer_rows(self.step, same=True))

    def _functions(self, stages: Sequence[tuple[sp.Expr, ...]], differentiated: bool = False) -> list[Stage] | None:
        if self.step.long or all(map(is_closed, stages)):  # moments of many tokens have no tables, formulas are faster
            return None
        tables: dict[str, Table] = {}
        through = [[tabulated(e, tables) for e in stage] for stage in stages]
        if any(e is None for stage in through for e in stage):
            return None
        q, delta = known("q"), known("delta")
        if differentiated:
            through = [[*stage, *(along(e, s) for e in stage[:2] for s in (q, delta))] for stage in through]
        arguments = [q, delta, *self.step.recursion.parameters]
        return [sp.lambdify(arguments, stage, modules=[callables(tables), "numpy"], cse=True) for stage in through]


@lru_cache(maxsize=64)
def _functions(step: StepMap) -> _Functions:
    return _Functions(step)


@dataclass(frozen=True)
class TableSteps:
    """The map of a repeat at arrays of parameter values, over arrays of states."""

    step: StepMap
    parameters: Mapping[str, Floats]

    @cached_property
    def _plain(self) -> Steps:
        return Steps(self.step, self.parameters)

    def _rows(self, stage: Stage, at: Floats, d: Floats | None = None) -> tuple[list[Floats], float]:
        given = [self.parameters[s.name] for s in self.step.recursion.parameters]
        return [np.broadcast_to(np.asarray(v, dtype=np.float64), at.shape) for v in stage(at, d, *given)], 0.0

    def identical(self, at: Floats) -> tuple[Moved, Rate, Rate]:
        """q', dq'/dq and d delta'/d delta at delta = 0"""
        stages = _functions(self.step).identical
        return self._plain.identical(at) if stages is None else identical_through(at, [partial(self._rows, stage) for stage in stages])

    def spread(self, at: Floats, d: Floats) -> Moved:
        """delta' where q' does not depend on delta"""
        return self._plain.spread(at, d)[0] if _functions(self.step).moved is None else self.moved(at, d)[1]

    def parts(self, at: Floats) -> NDArray[np.bool_]:
        """Whether c = 1 is no fixed point at these variances"""
        if not self.step.parted:
            return np.zeros(at.size, dtype=bool)
        return comes_apart(self.moved(at, BESIDE * at)[1], self.identical(at)[2])

    def moved(self, at: Floats, d: Floats) -> tuple[Moved, Moved]:
        """q' and delta'"""
        stages = _functions(self.step).moved
        return (self._plain.pair(at, d) if stages is None else pair_through(at, d, [partial(self._rows, stage) for stage in stages]))[:2]

    def pair(self, at: Floats, d: Floats) -> tuple[Moved, Moved, Rate]:
        """q', delta' and the Jacobian (2, 2, points)"""
        stages = _functions(self.step).pair
        return self._plain.pair(at, d) if stages is None else pair_through(at, d, [partial(self._rows, stage) for stage in stages])

    def transfer(self, at: Floats, d: Floats) -> Rate:
        """The transfer of the repeat (points, 2, 2) from those states, beside the identity; where d = 0 throughout, on identical inputs."""
        functions = _functions(self.step)
        stages = functions.transfer if d.any() else functions.transfer_identical
        return self._plain.transfer(at, d) if stages is None else transfer_through(at, d, [partial(self._rows, stage) for stage in stages])
