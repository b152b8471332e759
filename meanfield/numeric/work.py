"""What generated code costs as plain Python, and when it is worth a wait for the compiler.

A compiled kernel costs 0.1 to 0.8 s of CPU before its first number when it is new, and 0.05 s, most of it llvmlite's import, when its
machine code is on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meanfield.gaussian.shape_rows import COUNT, PERIOD, SMOOTH

__all__ = ["FASTER", "Work", "least", "patient"]

#: milliseconds that a compiled kernel costs before its first number, new or on disk
NEW, KEPT = 600.0, 50.0
#: by how much a compiled kernel is faster
FASTER = 20.0
#: in these costs, how long a job may take as plain Python; -1 compiles everything
PATIENCE = 1.0
#: the panels of a function that these costs are of
PANELS = 130
#: straight-line code of a point or layer, in milliseconds
STEP = 0.01
#: quadrature calls in milliseconds, of functions that the trapezoid resolves and of those that take panels (2 vCPU AMD EPYC, 2026-11)
CALLS = {
    "mean": (0.4, 1.6), "square": (0.4, 1.6), "noise": (0.8, 3.2), "measured": (1.2, 4.8),
    "projected": (8.0, 8.0), "projectedsize": (8.0, 8.0), "measuredprojected": (12.0, 12.0),
    "quiet": (0.01, 0.01), "pointed": (0.01, 0.01), "edges": (0.02, 0.02),
    "cross": (12.0, 90.0), "two": (20.0, 180.0), "weighed": (60.0, 540.0), "gap": (15.0, 120.0), "exchangeable": (100.0, 1500.0),
    "member": (400.0, 6000.0), "moved": (200.0, 3000.0), "broadmean": (50.0, 50.0),
    "broadsquare": (50.0, 50.0), "broadcross": (2000.0, 2000.0), "broadgap": (2000.0, 2000.0),
    "broadtwo": (2000.0, 2000.0),
}  # fmt: skip

#: of two periodic functions of two variances, whose panels go far, by how much more
TURNS = 10.0
#: reading a table, and how long quadrature in plain Python must take for tables to be made
LOOKUPS = {"mean": 0.015, "cross": 0.1, "gap": 0.1, "gapweight": 0.01}
WORTH = 200.0

_spent: dict[str, float] = {}


@dataclass(frozen=True)
class Work:
    """The quadrature calls of a point or layer, each with the places of its integrands, and milliseconds of other slow functions."""

    calls: tuple[tuple[str, tuple[int, ...]], ...] = ()
    other: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.calls or self.other)

    def milliseconds(self, shapes: Sequence[NDArray[np.float64]]) -> float:
        """What a point costs where the integrands have these shapes."""
        panels = [0.0 if (rows[:, SMOOTH] > 0).all() else max(float(rows[:, COUNT].max()) / PANELS, 1.0) for rows in shapes]

        def cost(kind: str, which: tuple[int, ...]) -> float:
            most = max((panels[i] for i in which), default=0.0)
            turned = kind in ("two", "weighed") and all((shapes[i][:, PERIOD] > 0).any() for i in which)
            return CALLS[kind][most > 0.0] * max(most, 1.0) ** 2 * (TURNS if turned else 1.0)

        return STEP + self.other + sum(cost(*call) for call in self.calls)

    @property
    def looked_up(self) -> float:
        """What a point costs where tables answer its quadrature calls, all of which they must."""
        return STEP + self.other + sum(LOOKUPS[kind] for kind, _ in self.calls)

    def worth_tables(self, layers: int) -> bool:
        """Whether that many layers take longer than making tables."""
        return layers * sum(CALLS[kind][0] for kind, _ in self.calls) > WORTH


def least(milliseconds: float) -> float:
    """What a job takes that takes so many milliseconds as plain Python, compiled if that is quicker."""
    return min(milliseconds, NEW + milliseconds / FASTER)


def patient(milliseconds: float, kept: bool, program: str | None = None) -> bool:
    """Whether a job is done as plain Python, its machine code being kept from earlier or not.

    A named program that is called again and again is compiled once it has taken as long as the compiler does, which is never worse
    than twice the best.
    """
    spent = milliseconds + (_spent.get(program, 0.0) if program else 0.0)
    if spent > PATIENCE * (KEPT if kept else NEW):
        return False
    if program:
        _spent[program] = spent
    return True
