r"""The last layer of a very deep recursion, point by point: the first repeats one by one, then to the end by a fixed point or by leaps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.increments import increments_of
from meanfield.numeric.leaps import Rough, State, leap_to
from meanfield.numeric.store import interpreted
from meanfield.numeric.tables import Table
from meanfield.numeric.trajectory import Kernel
from meanfield.recurrence import Recursion

__all__ = ["DEEP", "Ends", "end_of"]

Floats = NDArray[np.float64]

#: layers from which on this is faster than one by one, compiled
DEEP = 1 << 22
#: repeats after which a fixed point is looked for and leaps are tried
TRIED = (1024, 4096, 16384, 65536)
#: repeats between two looks at whether the state stands still
LOOK = 16
LN_BIG = 500 * math.log(2.0)


@dataclass(frozen=True)
class Ends:
    """A network as plain Python: its kernel of one point, what a repeat adds, and the tables they read."""

    module: ModuleType
    added: Callable[..., tuple[float, float, float, float, float]]
    tables: list[Table]

    @classmethod
    def of(cls, rec: Recursion, paired: bool, kernel: Kernel, tables: list[Table]) -> Ends:
        return cls(interpreted(kernel.interpreted), interpreted(increments_of(rec, paired, bool(tables))).added, tables)

    @property
    def reading(self) -> list[Floats]:
        """the tables as they are, and scratch"""
        return [*(t.numbers for t in self.tables), np.full(26 + 28 * len(self.tables), -1.0)] if self.tables else []

    def extended(self) -> bool:
        found = [t.extend() for t in self.tables]
        return any(found)


def end_of(ends: Ends, values: Floats, q: float, delta: float, pooled: float, depth: int) -> dict[str, Any] | None:
    """What a kernel keeps of the last layer, by name; None where the state neither comes to rest nor is smooth."""
    while True:
        try:
            return _end_of(ends, values, q, delta, pooled, depth)
        except (Rough, ZeroDivisionError, OverflowError, ValueError):
            if not ends.extended():
                return None


def _end_of(ends: Ends, values: Floats, q: float, delta: float, pooled: float, depth: int) -> dict[str, Any]:
    m, reading, L, last = ends.module, ends.reading, float(depth), np.array([depth])
    s = m.workspace(m.SIZE)
    m.load(s, 0, 0, values[:, None], np.array([q]), np.array([delta]), L)
    m.begin(s, 0, 0.0)

    def on(s: list[float], start: int, stop: int) -> None:
        m.sweep(s, [0.0], start * m.LAYERS, stop * m.LAYERS, last, False, L, 0, 1, pooled, None, None, None, None, *reading)

    n, trouble = 0, Rough("")
    for target in TRIED:
        while n < target:
            for period in (1, 2):
                before = (s[m.Q], s[m.DELTA])
                on(s, n, n + period)
                n += period
                if s[m.ALIVE] == 0.0:
                    return _dead(m, s, delta, depth, bool(ends.tables))
                if (s[m.Q], s[m.DELTA]) == before:
                    return _at_rest(m, s, on, n, period, delta, pooled, depth)
            on(s, n, n + LOOK)
            n += LOOK
        try:
            return _leapt(ends, m, s, values, n, delta, pooled, depth, reading)
        except Rough as reason:
            trouble = reason
            if any((t.numbers == -1.0).any() for t in ends.tables):
                raise
    raise trouble


def _logs(m: ModuleType, s: list[float]) -> tuple[float, float]:
    """of the first entry of the row, and of the product of chi"""
    log, chi_log = np.empty((1, 1)), np.empty((1, 1))
    m.keep_back(s, 0, 0, 1, log, chi_log)
    return float(log[0, 0]), float(chi_log[0, 0])


def _dead(m: ModuleType, s: list[float], delta: float, depth: int, tabled: bool) -> dict[str, Any]:
    layers = depth * m.LAYERS
    status = m.code(s[m.Q], delta, s[m.LEAST], s[m.A], s[m.LOWEST], s[m.GOOD], layers)
    if status == 3 and tabled:
        raise Rough("a table")
    nothing = dict.fromkeys(("q", "delta", "backward", "forward", "chi", "chi_sum"), math.nan)
    return {**nothing, "status": status, "good": int(s[m.GOOD])}


def _found(m: ModuleType, state: State, chi: float, least: float, delta: float, pooled: float, depth: int) -> dict[str, Any]:
    log = state.log + math.log1p(pooled * state.ratio)
    layers = depth * m.LAYERS
    status = m.code(state.q, delta, min(least, state.delta), 1.0, 1.0, layers, layers)
    out = {"q": state.q, "delta": state.delta, "backward": log, "forward": log, "chi": chi, "chi_sum": state.chi_log}
    return {**out, "status": status, "good": layers}


def _at_rest(
    m: ModuleType, s: list[float], on: Callable[..., None], n: int, period: int, delta: float, pooled: float, depth: int
) -> dict[str, Any]:
    """the state repeats itself: what is left of the product is a power of one matrix"""
    cycles, rest = divmod(depth - n, period)
    on(s, n, n + rest)
    rows = []
    for a, b in ((1.0, 0.0), (0.0, 1.0)):
        t = list(s)
        t[m.A], t[m.B], t[m.E], t[m.X], t[m.XE] = a, b, 0.0, 1.0, 0.0
        on(t, n, n + period)
        rows.append((t[m.A] * 2.0 ** (500 * t[m.E]), t[m.B] * 2.0 ** (500 * t[m.E])))
        if a == 1.0:
            chi_cycle = _logs(m, t)[1]
    if min(s[m.A], rows[0][0]) <= 0.0:
        raise Rough("no gradient comes through")
    row, log = _powered(np.array([s[m.A], s[m.B]]), np.array(rows), cycles)
    log += s[m.E] * LN_BIG + math.log(row[0])
    chi_log = _logs(m, s)[1] + cycles * chi_cycle
    state = State(depth, s[m.Q], s[m.DELTA], float(row[1] / row[0]), log, chi_log)
    return _found(m, state, t[m.WHOLE], s[m.LEAST], delta, pooled, depth)


def _powered(row: Floats, matrix: Floats, k: int) -> tuple[Floats, float]:
    """row matrix^k but for a factor, and the logarithm of that"""
    log, scale, power = 0.0, 0.0, matrix
    while k:
        if k & 1:
            row = row @ power
            log += scale + math.log(np.abs(row).max())
            row = row / np.abs(row).max()
        size = float(np.abs(power).max())
        power, scale = (power / size) @ (power / size), 2.0 * (scale + math.log(size))
        k >>= 1
    return row, log


def _leapt(
    ends: Ends, m: ModuleType, s: list[float], values: Floats, n: int, delta: float, pooled: float, depth: int, reading: list[Floats]
) -> dict[str, Any]:
    if s[m.A] <= 0.0 or (s[m.LOWEST] <= 0.0):
        raise Rough("the product of transfers changes sign")
    rest = (*map(float, values), float(depth), *reading)

    def added(q: float, delta: float, ratio: float) -> tuple[float, float, float, float, float]:
        return ends.added(q, delta, ratio, *rest)

    log, chi_log = _logs(m, s)
    state = leap_to(added, State(n, s[m.Q], s[m.DELTA], s[m.B] / s[m.A], log, chi_log), depth)
    q, d = state.q, state.delta
    for _ in range(3):  # the state before the last repeat
        dq, ddelta, *_ = added(q, d, state.ratio)
        q, d = state.q - dq, state.delta - ddelta
    chi = math.exp(added(q, d, state.ratio)[-1])
    return _found(m, state, chi, s[m.LEAST], delta, pooled, depth)
