"""Values at many points at once: read from tables of moments where these hold them, in a thousandth of the time that a sum takes, or summed
under many laws together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.pair_expectation import Gap
from meanfield.numeric.asked import Asked
from meanfield.numeric.calls import NotTabulated
from meanfield.numeric.lookup import CENTRES, PANELS
from meanfield.numeric.lowering import Lowering
from meanfield.numeric.many_laws import under_many_laws
from meanfield.numeric.programs import is_part, over_grid, source_of
from meanfield.numeric.tables import ASKED, Table, growing, table_of

__all__ = ["are_many", "in_bulk", "together"]

Floats = NDArray[np.float64]

#: relative error that a value out of a table, or a gap, may have, and a sum under all laws together
TOLD, HELD = 1e-11, 1e-10
#: size from which down a moment may be that of the tails of densities, whose panels are flat
TAIL = 1e-100
#: points from which on there are many: fewer are each summed, as one is
MANY = 100
#: milliseconds that a panel of two inputs takes to make, beside which one of means takes none
PANEL = 100.0


@dataclass(frozen=True)
class _Reading:
    """The source of an expression that reads tables, these, and milliseconds of plain Python that a point takes."""

    source: str
    tables: tuple[Table, ...]
    each: float

    def __call__(self, table: Floats, otherwise: float) -> tuple[Floats, Floats]:
        """Values and error bounds, NaN where no table holds one; tables grow where that takes less than the milliseconds otherwise."""
        with growing(self.tables):
            while True:
                read = [t.numbers for t in self.tables]
                out, bound = over_grid(self.source, [numbers[None] for numbers in read], table, self.each)
                missing = sum(int((numbers[PANELS:CENTRES] == ASKED).sum()) for numbers in read)
                if missing and missing * PANEL > otherwise * np.isnan(out).mean():
                    return out, bound
                extended = [t.extend(numbers) for t, numbers in zip(self.tables, read, strict=True)]
                if not any(extended):
                    return out, bound


def are_many(asked: Asked, table: Floats) -> bool:
    """Whether values are for a long array, and no bounds on their errors are asked for."""
    return not (asked.bounds or is_part() or table.shape[1] < MANY)


def in_bulk(
    asked: Asked, table: Floats, milliseconds: Callable[[], float], others: Callable[[Floats], tuple[Floats, Floats]]
) -> tuple[Floats, Floats]:
    """Values and error bounds at the columns of a table: by `others`, which take so many milliseconds, where these are few or no table of
    moments and no sum under all laws together tells a value."""
    if not are_many(asked, table):
        return others(table)
    otherwise = milliseconds()
    if otherwise < PANEL:
        return others(table)
    out, bound = np.full((2, table.shape[1]), np.nan)
    reading = _reading(asked.expression, asked.order)
    held = TOLD if isinstance(asked.expression.as_coeff_Mul()[1], Gap) else HELD
    ways: list[tuple[float, Callable[[Floats], tuple[Floats, Floats]]]] = [(held, lambda rest: under_many_laws(asked, rest))]
    if reading is not None:
        ways.insert(0, (TOLD, lambda rest: reading(rest, otherwise)))
    left = np.ones(table.shape[1], dtype=bool)
    for allowed, way in ways:
        if left.any():
            out[left], bound[left] = way(table[:, left])
            left &= ~((bound <= allowed * np.abs(out)) & (np.abs(out) > TAIL))
    if left.any():
        out[left], bound[left] = others(table[:, left])
    return out, bound


def together(asked: Asked, table: Floats) -> tuple[Floats, Floats]:
    """Values and error bounds of a moment: gaps out of tables, whatever these take to make, others summed under all laws together; NaN
    where that tells none."""
    reading = _reading(asked.expression, asked.order) if isinstance(asked.expression, Gap) else None
    return under_many_laws(asked, table) if reading is None else reading(table, math.inf)


@lru_cache(maxsize=128)
def _reading(e: sp.Expr, order: tuple[sp.Symbol, ...]) -> _Reading | None:
    """What reads an expression from tables, None where these do not hold all that it calls to the digits it needs."""
    lowering = Lowering(by_quadrature=True, from_tables=True)
    try:
        source = source_of(lowering, e, order)
    except NotTabulated:
        return None
    if not lowering.tabulates or any(i.parameters for i in lowering.integrands.values()):
        return None
    shapes = [i.shape for i in lowering.integrands.values()]
    tables = tuple(table_of(f, slope) for f, slope in lowering.tabulated)
    if any(s.noisy or s.growth for s in shapes):
        return None
    return _Reading(source, tables, lowering.work.looked_up)
