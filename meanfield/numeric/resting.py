"""Points that come to rest where no table reaches: the end of a very deep run, from some repeats one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.deep import CYCLE, NUDGE, SLOW
from meanfield.numeric.job import Job, Output

__all__ = ["kept_to_rest", "resting"]

Floats = NDArray[np.float64]
#: runs repeats, one by one
Run = Callable[[Job], Output]


def kept_to_rest(marks: NDArray[np.int64], repeats: int) -> NDArray[np.int64]:
    """What is kept of the first repeats where it may turn out that points come to rest in them."""
    return np.union1d(marks[marks < repeats], np.arange(repeats - CYCLE, repeats + 1))


@dataclass(frozen=True)
class _Cycle:
    """States that follow each other from some repeat on without end, and chi of the repeat that begins in each."""

    start: int
    q: Floats
    delta: Floats
    chi: Floats

    @cached_property
    def logs(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self.chi)

    def grown(self, since: int, until: int) -> float:
        """the logarithm of the product of chi between two repeats"""
        cycles, rest = divmod(until - since, self.logs.size)
        left = self.logs[(since - self.start + np.arange(rest)) % self.logs.size].sum()
        return float(cycles * self.logs.sum() + left if cycles else left)


def resting(job: Job, begun: Job, found: Output, out: Output, run: Run) -> NDArray[np.bool_]:
    """Whether the states of each point repeat themselves after the repeats that are begun, of which that is found: what they come to is
    written, beside what is kept of those. For recursions all whose repeats are the same, and their transfers a number."""
    still = np.zeros(job.q0.size, dtype=bool)
    for point in np.flatnonzero(~found.bad).tolist():
        cycle = _cycle(begun, found, point)
        if cycle is not None and abs(cycle.logs.sum()) > SLOW and _pulled(job, point, cycle, run):
            still[point] = True
            _write(job, begun, found, out, point, cycle)
    return still


def _cycle(begun: Job, found: Output, point: int) -> _Cycle | None:
    q, delta = found.q[-1 - CYCLE :, point], found.delta[-1 - CYCLE :, point]
    for period in range(1, CYCLE + 1):
        if (q[-1 - period], delta[-1 - period]) == (q[-1], delta[-1]):
            return _Cycle(begun.depth, q[-1 - period : -1], delta[-1 - period : -1], found.chi[-period:, point])
    return None


def _pulled(job: Job, point: int, cycle: _Cycle, run: Run) -> bool:
    """whether a cycle takes away enough of what a state is beside it: one that comes to rest slowly does so by rounding, a little off"""
    q, delta, period = cycle.q[0], cycle.delta[0], cycle.chi.size
    apart = delta * NUDGE > sys.float_info.min  # else it is 0, or on its way there
    nudges = np.array([[1.0 + NUDGE, 1.0 + NUDGE], [1.0, 1.0 + NUDGE]][: 2 if apart else 1])
    beside = job.of(np.full(len(nudges), point))
    moved = run(replace(beside, depth=period, marks=np.array([period]), q0=q * nudges[:, 0], delta0=delta * nudges[:, 1]))
    away = np.array([moved.q[-1] / q - 1.0, *([moved.delta[-1] / moved.q[-1] * (q / delta) - 1.0] if apart else [])])
    return bool(np.isfinite(away).all() and np.abs(np.linalg.eigvals(away)).max() < NUDGE * (1.0 - SLOW))


def _write(job: Job, begun: Job, found: Output, out: Output, point: int, cycle: _Cycle) -> None:
    """what the point comes to after the repeats that are begun, of which the kept ones are written"""
    start, end, period = begun.depth, job.depth, cycle.chi.size
    early = np.count_nonzero(job.marks < start)
    late = job.marks[early:]
    place = (late - start) % period
    out.q[early:, point], out.delta[early:, point] = cycle.q[place], cycle.delta[place]
    out.forward[early:, point] = found.forward[-1, point] + np.array([cycle.grown(start, l) for l in late])
    if late.size == job.marks.size == 1:
        out.backward[0, point], out.chi[0, point] = out.forward[0, point], cycle.chi[(end - 1 - start) % period]
    else:
        out.backward[:early, point] += cycle.grown(start, end)
        out.backward[early:, point] = [cycle.grown(l, end) for l in late]
        out.chi[early:, point] = cycle.chi[place[:-1]]
    out.good[point] = found.good[point] // start * end  # the layers of all repeats
