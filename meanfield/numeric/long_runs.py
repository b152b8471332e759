"""A setting of a network over very many repeats where moments may be quadrature: the first one by one, the rest by leaps.

What `propagate` does for networks in closed form or in tables, to fewer digits, and without the way back. Where a repeat depends on how
many there are, each number of them is another network: `ends_of` runs some of these.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.increments import added_by, holds, increments_of
from meanfield.numeric.leaps import LENIENT, Added, Leap, Rough, State, leap_to
from meanfield.numeric.propagation import propagate
from meanfield.numeric.runs import Run
from meanfield.recurrence import Recursion

__all__ = ["LongRun", "ends_of", "long_run"]

Floats = NDArray[np.float64]

#: repeats after which leaps are tried
TRIED = (512, 4096, 32768)
#: repeats to which a deeper run is one of so many: two of them share it
COMMON = 10**6
#: layers that are kept, for each factor of 10 in depth
KEPT = 100
#: networks of different depths that are run for each factor of 10, the first of so many repeats
DEPTHS, SHALLOW = 50, 8


@dataclass(frozen=True)
class LongRun:
    """q, 1 - c and ln J^{l, 0} after `layers` repeats."""

    layers: NDArray[np.int64]
    depth: int
    q: Floats
    gap: Floats
    log_apjn_forward: Floats
    status: str = "ok"


def long_run(rec: Recursion, depth: int, q: float, delta: float | None, values: Mapping[str, float]) -> LongRun:
    """A run from q and q (1 - c) = delta, None for a single token; Rough where the state is not smooth in the logarithm of depth."""
    way = _followed(rec, depth, q, delta, tuple(float(values[s.name]) for s in rec.parameters))
    if isinstance(way, str):
        raise Rough(way)
    return _run(way, depth)


def ends_of(rec: Recursion, depth: int, q: float, gap: float | None, values: Mapping[str, Any], seconds: float) -> LongRun:
    """Where networks of up to `depth` repeats end, in each of which a repeat is of that many: the state and J^{L, 0} over L; of fewer,
    where they take so many seconds, or deeper ones have no answer."""
    ends, begin = {}, time.process_time()
    for d in np.unique(np.geomspace(SHALLOW, depth, math.ceil(DEPTHS * math.log10(depth))).round().astype(np.int64)).tolist():
        try:
            ends[d] = cast(Run, propagate(rec.block, d, q, **{"gap": gap, "record": "last", **values}))
        except ArithmeticError:
            if not ends:
                raise
            break
        if time.process_time() - begin > seconds:
            break
    runs = ends.values()
    words = sorted({str(run.status) for run in runs} - {"ok"})
    q_of, log = (np.array([getattr(run, name)[-1] for run in runs]) for name in ("q", "log_apjn_forward"))
    gaps = np.array([math.nan if gap is None else run.gap[-1] for run in runs])
    return LongRun(np.array(list(ends)), max(ends), q_of, gaps, log, words[0] if words else "ok")


@dataclass(frozen=True)
class _Way:
    """The states one by one, the leaps from the last of them, and where these end."""

    first: tuple[State, ...]
    path: tuple[Leap, ...]
    end: State

    def on_to(self, depth: int, added: Added) -> _Way:
        """The same and what follows; Rough where that is not smooth."""
        path = list(self.path)
        end = leap_to(added, self.end, float(depth), path, LENIENT)
        return _Way(self.first, tuple(path), end)


@lru_cache(maxsize=32)
def _followed(rec: Recursion, depth: int, q: float, delta: float | None, values: tuple[float, ...]) -> _Way | str:
    """the way of a run, which does not depend on what law is asked of it; why there is none where it is not smooth"""
    added = _added(rec, delta is not None, depth, values)
    if depth > COMMON and not holds(rec, "L"):
        way = _followed(rec, COMMON, q, delta, values)
        if isinstance(way, str) or way.end.n < COMMON:  # it is not smooth, or leaves the range of states
            return way
        with suppress(Rough):  # which another beginning may not be
            return way.on_to(depth, added)
    state = State(0.0, q, 0.0 if delta is None else delta, 0.0, 0.0, 0.0)
    first, trouble = [state], ""
    for target in (n for n in TRIED if n < depth):
        path: list[Leap] = []
        try:
            while state.n < target:
                state = _stepped(added, state)
                first.append(state)
            end = leap_to(added, state, float(depth), path, LENIENT)
        except Rough as reason:
            trouble = str(reason)
            continue
        return _Way(tuple(first), tuple(path), end)
    return trouble


def _added(rec: Recursion, paired: bool, depth: int, values: tuple[float, ...]) -> Added:
    increments, table, names = increments_of(rec, paired, False), np.array(values), [s.name for s in rec.parameters]
    return added_by(increments, table, depth, [i.shapes(names, table[:, None])[0] for i in increments.integrands])


def _stepped(added: Added, state: State) -> State:
    rise, apart, dratio, log, chi_log = added(np.array([[state.q], [state.delta], [state.ratio], [state.n]]))[:, 0].tolist()
    if not math.isfinite(rise + apart):
        raise Rough(f"the recursion leaves the doubles after {state.n:.0f} repeats")
    q, delta = state.q * math.exp(rise), state.delta * math.exp(rise + apart)
    new = State(state.n + 1, q, delta, state.ratio + dratio, state.log + rise + log, state.chi_log + rise + chi_log)
    if not (0.0 < new.q < math.inf and new.delta >= 0.0 and math.isfinite(new.log)):
        raise Rough(f"the recursion leaves the doubles after {new.n:.0f} repeats")
    return new


def _row(s: State) -> tuple[float, float, float, float]:
    return s.n, s.q, s.delta, s.log


def _run(way: _Way, depth: int) -> LongRun:
    stepped = way.first[-1].n
    marks = np.geomspace(stepped, depth, max(2, math.ceil(KEPT * math.log10(depth / stepped))))
    rows = [_row(s) for s in way.first]
    for leap in way.path:
        at = marks[(marks > leap.start) & (marks < min(leap.start * leap.ratio, depth))].round()
        y, sums = (np.asarray(found, dtype=np.float64) for found in leap.at(at))
        rows += zip(at.tolist(), y[0].tolist(), y[1].tolist(), sums[0].tolist(), strict=True)
    if way.end.n == depth:  # else it leaves the range of states before
        rows.append(_row(way.end))
    n, q, delta, log = np.array(rows).T
    return LongRun(n.astype(np.int64), depth, q, delta / q, log)
