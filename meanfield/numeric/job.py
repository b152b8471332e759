"""Points of a grid to run over depth, and the arrays that come out of them."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.trajectory import BOUNDLESS, DEAF, SILENT, kernel_of
from meanfield.recurrence import Recursion

__all__ = ["Job", "Output"]

Floats = NDArray[np.float64]

#: bytes of a line of the cache
_LINE = 64
#: numbers that are looked through at a time
AT_ONCE = 1 << 20


class Output:
    """Arrays of one row for each kept layer: a grid is written row by row; into given memory if there is any, of six such arrays. Where
    the transfer of a layer is its chi, sums of ln chi are the products backward, and memory that was given for them is filled last."""

    def __init__(self, count: int, kept: int, depth: int, split: bool, memory: Floats | None = None) -> None:
        size = 6 if split or memory is not None else 5
        rows = (_empty(size * kept * count) if memory is None else np.asarray(memory)).reshape(size, kept, count)  # at once: large pages
        self.q, self.delta, self.backward, self.forward = rows[:4]
        self.chi = rows[-1, : kept - 1 if kept > 1 else min(depth, 1)]
        self._given_sums = rows[4] if size == 6 else self.backward
        self.chi_sum = self._given_sums if split else self.backward
        self.status, self.good = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return (self.q, self.delta, self.backward, self.forward, self.chi, self.chi_sum, self.status, self.good)

    @property
    def unanswered(self) -> NDArray[np.int64]:
        """The points that a NaN of a table has gone through: that of an infinite J may be infinity less infinity."""
        lost = (np.isnan(self.forward[-1]) & ~np.isposinf(self.chi_sum[0])) | np.isnan(self.chi_sum[0])
        return np.flatnonzero((self.status == 3) | (np.isin(self.status, (0, 4, 6)) & lost))

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Which points have left the range of states, or a table."""
        return (self.status > 0) & (self.status < 4)

    def begin(self, begun: Output, rows: NDArray[np.int64]) -> None:
        """The first of the kept layers from an output of fewer, where they are those rows; what has become of the points there."""
        for mine, theirs in zip(self.arrays[:6], begun.arrays[:6], strict=True):
            mine[: rows.size] = theirs[rows]
        self.status[:], self.good[:] = begun.status, begun.good

    def put(self, points: NDArray[np.int64], other: Output, which: slice | NDArray[np.bool_] = slice(None)) -> None:
        """Those points from another output, which are all that it has, or some."""
        for mine, theirs in zip(self.arrays, other.arrays, strict=True):
            mine[..., points] = theirs[..., which]

    def finish(self) -> None:
        """Nothing more is written: memory that was given for sums of ln chi holds them."""
        if self._given_sums is not self.chi_sum:
            np.copyto(self._given_sums, self.chi_sum)
            self.chi_sum = self._given_sums

    def flush(self) -> None:
        """Subnormal gaps, whose digits are lost, as 0: what they are where the compiled recursion runs to the end."""
        rows = max(1, AT_ONCE // self.status.size)
        for start in range(0, len(self.delta), rows):
            part = self.delta[start : start + rows]
            np.copyto(part, 0.0, where=np.abs(part) < sys.float_info.min)

    def blank(self, marks: NDArray[np.int64], layers: int) -> None:
        """NaN where a point has gone bad, after so many good ones of the layers of each repeat: from there on, and in sums to the end."""
        bad = np.flatnonzero(self.bad)
        first = np.searchsorted(marks * layers, self.good[bad], side="right")
        for a in (self.q, self.delta, self.forward, self.chi):
            a[:, bad] = np.where(np.arange(len(a))[:, None] >= first, np.nan, a[:, bad])
        self.backward[:, bad] = self.chi_sum[:, bad] = np.nan

    def silence(self, points: NDArray[np.int64], marks: NDArray[np.int64]) -> None:
        """Those points as they are where a repeat takes everything to 0: nothing is left of q, and no gradient goes through it."""
        for rows in (self.q, self.delta):
            rows[np.ix_(marks > 0, points)] = 0.0
        self.deafen(points, marks)
        self.status[points] = SILENT

    def outgrow(self) -> None:
        """J is infinite where a chi is, though it may be infinity less infinity to a kernel."""
        infinite = np.flatnonzero((self.status == BOUNDLESS) & np.isposinf(self.chi_sum[0]))
        for rows in (self.forward, self.backward):
            rows[:, infinite] = np.where(np.isnan(rows[:, infinite]), math.inf, rows[:, infinite])

    def deafen(self, points: NDArray[np.int64], marks: NDArray[np.int64]) -> None:
        """Those points as they are where no gradient goes through a repeat."""
        self.forward[np.ix_(marks > 0, points)] = -math.inf
        for rows in (self.backward, self.chi_sum):
            rows[:, points] = -math.inf if len(marks) == 1 else np.where(marks < marks[-1], -math.inf, 0.0)[:, None]
        self.chi[:, points] = 0.0
        self.status[points] = DEAF


def _empty(size: int) -> Floats:
    """memory from the beginning of a line of the cache on, which vectors of rows are then written to whole"""
    memory = np.empty(size + _LINE // 8)
    start = -memory.ctypes.data % _LINE // 8
    return memory[start : start + size]


@dataclass(frozen=True)
class Job:
    """Points to run: the recursion, the repeats that are kept, of which the last is depth, parameters and start of each point, whether
    there is but one: points of a grid always run compiled, and so does any on a device other than the processor."""

    rec: Recursion
    paired: bool
    depth: int
    marks: NDArray[np.int64]
    pooled: bool
    table: Floats
    q0: Floats
    delta0: Floats
    alone: bool
    device: str = "cpu"

    def of(self, points: NDArray[np.int64]) -> Job:
        """Some of the points."""
        return replace(self, table=self.table[:, points].copy(), q0=self.q0[points], delta0=self.delta0[points])

    def output(self, memory: Floats | None = None) -> Output:
        return Output(self.q0.shape[0], self.marks.size, self.depth, kernel_of(self.rec, self.paired).split, memory)
