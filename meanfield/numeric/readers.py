"""What runs a recursion without quadrature: a kernel in closed form, or one that reads tables, and these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.numeric.tables import Table, table_of
from meanfield.numeric.trajectory import Kernel, kernel_of
from meanfield.recurrence import Recursion
from meanfield.symbols import known

__all__ = ["Reader", "reader_of", "tables_at"]

Floats = NDArray[np.float64]
#: functions, each with its derivative where that is needed
Pairs = tuple[tuple[sp.Expr, sp.Expr | None], ...]

#: what a layer costs where each value of a parameter has tables of its own
VARIED = 1000

x = known("x")


@dataclass(frozen=True)
class Reader:
    """A kernel, and the functions whose tables it reads, none in closed form."""

    kernel: Kernel
    functions: Pairs

    @property
    def parameters(self) -> tuple[str, ...]:
        """What these functions hang on: for each of its values there are other tables."""
        return tuple(sorted({s.name for f, _ in self.functions for s in f.free_symbols - {x}}))

    @property
    def weight(self) -> int:
        """What a layer costs beside one in closed form, roughly, with tables for each value of parameters."""
        return VARIED if self.parameters else self.kernel.weight

    def by_values(self, table: Floats) -> Iterator[tuple[NDArray[np.int64], tuple[Table, ...]]]:
        """The columns of a table of parameter values that have the same tables, and these."""
        rows = [self.kernel.parameters.index(name) for name in self.parameters]
        if not rows:
            yield np.arange(table.shape[1]), tables_at(self.functions, self.kernel.parameters, table[:, 0])
            return
        values, which = np.unique(table[rows], axis=1, return_inverse=True)
        for k in range(values.shape[1]):
            points = np.flatnonzero(which.ravel() == k)
            yield points, tables_at(self.functions, self.kernel.parameters, table[:, points[0]])


def tables_at(functions: Pairs, names: Sequence[str], column: Floats) -> tuple[Table, ...]:
    """The tables of functions at the values of parameters."""
    values = dict(zip(names, column, strict=True))
    put = {s: sp.Rational(float(values[s.name])) for f, _ in functions for s in f.free_symbols - {x}}
    return tuple(table_of(f.xreplace(put), None if slope is None else slope.xreplace(put)) for f, slope in functions)


def reader_of(rec: Recursion, paired: bool) -> Reader | None:
    """What runs a recursion without quadrature, for two tokens or for one; None where tables do not hold what its kernel needs."""
    kernel = kernel_of(rec, paired)
    if not kernel.tabulated:
        return None if kernel.work else Reader(kernel, ())
    return Reader(kernel, kernel.tabulated)
