"""What runs a recursion without quadrature: a kernel in closed form, or one that reads tables, and these."""

from __future__ import annotations

from dataclasses import dataclass

from meanfield.numeric.tables import Table, table_of
from meanfield.numeric.trajectory import Kernel, kernel_of
from meanfield.recurrence import Recursion

__all__ = ["Reader", "reader_of"]


@dataclass(frozen=True)
class Reader:
    """A kernel, and the tables that it reads, none in closed form."""

    kernel: Kernel
    tables: tuple[Table, ...]


def reader_of(rec: Recursion, paired: bool) -> Reader | None:
    """What runs a recursion without quadrature, for two tokens or for one; None where tables do not hold what its kernel needs."""
    kernel = kernel_of(rec, paired)
    if not kernel.tabulated:
        return None if kernel.work else Reader(kernel, ())
    return Reader(kernel, tuple(table_of(f, slope) for f, slope in kernel.tabulated))
