"""Points of a grid run over depth in whatever way answers each: to the end at once, from tables, by quadrature; and what comes out."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.numeric.patience import DEEP, SECONDS, check_patience
from meanfield.numeric.readers import Reader, reader_of
from meanfield.numeric.store import compiled, execute, is_kept
from meanfield.numeric.tables import growing
from meanfield.numeric.threads import share
from meanfield.numeric.trajectory import BLOCK, BOUNDLESS, DEAF, JOINED, LOST, SILENT, Kernel, by_quadrature, kernel_of
from meanfield.numeric.work import patient
from meanfield.progress import track
from meanfield.recurrence import Recursion

__all__ = ["Job", "Output", "done", "lanes_of"]

Floats = NDArray[np.float64]

#: layer-points that a thread does at a time
CHUNK = 250_000
#: points that a thread does at least where they share the panels of passes
SHARED = 8
#: layers of one of many points that one costs alone
ALONE = 10
#: seconds from which on the layers of a point by quadrature are spared where they can be
SPARED = 10.0
#: repeats within which points are looked for that go bad, of which more repeats say nothing else
SOON = 1 << 14
#: kept layers of a very deep network up to which they are looked up along its leaps
SOME = 10_000
#: points of a grid that tables are made for first
PROBES = 16
#: repeats that tables are made for first: a run that outgrows them stops at one panel at a time
SHALLOW = (64, 512)
#: points up to which a grid runs one after another rather than in a block that is mostly copies
FEW = 4
#: a line of the cache; bytes of kept layers beyond which these go past it, and points in a block of a grid then: writing row after row in
#: pieces of 64 points costs up to twice as much as in longer ones
LINE, CACHE, LONG = 64, 1 << 21, 256
#: numbers of transfers that a block keeps for the backward pass at a time, at least: 8 MiB, beyond which memory is slower than to recompute
SEGMENT = 1 << 20


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

    def put(self, points: NDArray[np.int64], other: Output) -> None:
        """Those points from another output."""
        for mine, theirs in zip(self.arrays, other.arrays, strict=True):
            mine[..., points] = theirs

    def finish(self) -> None:
        """Nothing more is written: memory that was given for sums of ln chi holds them."""
        if self._given_sums is not self.chi_sum:
            np.copyto(self._given_sums, self.chi_sum)
            self.chi_sum = self._given_sums

    def flush(self) -> None:
        """Subnormal gaps, whose digits are lost, as 0: what they are where the compiled recursion runs to the end."""
        rows = max(1, SEGMENT // self.status.size)
        for start in range(0, len(self.delta), rows):
            part = self.delta[start : start + rows]
            np.copyto(part, 0.0, where=np.abs(part) < sys.float_info.min)

    def blank(self, marks: NDArray[np.int64], layers: int) -> None:
        """NaN where a point has gone bad, after so many good ones of the layers of each repeat: from there on, and in sums to the end."""
        bad = np.flatnonzero((self.status > 0) & (self.status < 4))
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
    memory = np.empty(size + LINE // 8)
    start = -memory.ctypes.data % LINE // 8
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


def done(job: Job, memory: Floats | None = None) -> Output:
    """What comes out of a job, NaN where a point has gone bad; in that memory if it is given."""
    _check_moments(job)
    out = job.output(memory)
    _fill(job, out)
    odd = np.flatnonzero((out.status >= JOINED) & (out.status < DEAF))
    if odd.size:
        _settle_odd(job, out, odd)
        out.outgrow()
    out.blank(job.marks, kernel_of(job.rec, job.paired).layers)
    bad = np.flatnonzero((out.status > 0) & (out.status < 4))
    if bad.size:
        from meanfield.numeric.zero_parameters import silent_points

        out.silence(bad[silent_points(job.rec, job.table[:, bad])], job.marks)
    out.finish()
    return out


def _settle_odd(job: Job, out: Output, points: NDArray[np.int64]) -> None:
    """What is 0/0 or 0 times infinity to a kernel, or 0 where it cannot tell why, by what expressions say of it."""
    if not job.depth:
        return
    from meanfield.numeric.zero_parameters import deaf_points, joining_points, undefined_points

    table = job.table[:, points]
    nothing = np.isnan(out.forward[-1, points]) & undefined_points(job.rec, table)
    out.deafen(points[deaf_points(job.rec, table)], job.marks)
    out.status[points[nothing]], out.good[points[nothing]] = LOST, 0
    opposite = points[(out.status[points] == JOINED) & (job.delta0[points] / 2 == job.q0[points])]
    out.status[opposite[joining_points(job.rec, job.table[:, opposite])]] = 0


def _check_moments(job: Job) -> None:
    """A device reads tables; quadrature is the processor's."""
    if job.device == "cpu" or not kernel_of(job.rec, job.paired).integrands:
        return
    reader = reader_of(job.rec, job.paired)
    if reader is None or not reader.tables:
        raise ValueError(
            f"device = {job.device!r}: this network takes quadrature at every layer, which tables cannot hold: leave device out"
        )


def _fill(job: Job, out: Output) -> None:
    """Run every point in the first way that answers it: without its layers one by one, from tables, by quadrature, which takes long."""
    _run_through((_ends, _from_tables, _ends_beyond_tables, _by_quadrature), job, out)


def _run_through(ways: Sequence[Callable[[Job, Output], NDArray[np.int64]]], job: Job, out: Output) -> None:
    """Each way is given the points that those before it leave unanswered."""
    left = np.arange(job.q0.shape[0])
    for way in ways:
        if not left.size:
            return
        part, found = (job, out) if left.size == job.q0.shape[0] else (job.of(left), job.of(left).output())
        unanswered = way(part, found)
        if part is not job:
            out.put(left, found)
        left = left[unanswered]


def _ends(job: Job, out: Output) -> NDArray[np.int64]:
    """The end of very deep networks, and some layers on the way, where they come to rest or are smooth in the logarithm of depth."""
    reader = _sparing(job) if job.depth * kernel_of(job.rec, job.paired).layers >= DEEP else None
    if reader is None:
        return np.arange(job.q0.shape[0])
    if job.device != "cpu":
        raise ValueError(
            f"device = {job.device!r}, depth = {job.depth}: a device goes layer by layer, the processor leaps: leave device out"
        )
    return _without_layers(job, out, reader)


def _ends_beyond_tables(job: Job, out: Output) -> NDArray[np.int64]:
    """The same of less deep networks that leave their tables, before their layers are done by quadrature."""
    kernel = by_quadrature(job.rec, job.paired)
    layers = job.depth * kernel.layers
    spared = layers < DEEP and layers * kernel.weight * SECONDS >= SPARED and kernel.work
    reader = _sparing(job) if spared else None
    return np.arange(job.q0.shape[0]) if reader is None else _without_layers(job, out, reader)


def _sparing(job: Job) -> Reader | None:
    """What spares layers, where few are kept, J is finite, and moments are in closed form or in tables."""
    from meanfield.numeric.coefficients import changes_slowly

    infinite = any(s.law.transfer.has(sp.oo, sp.DiracDelta) for s in job.rec.stages)
    if job.marks.size > SOME or infinite or (_holds(job.rec, "l") and not changes_slowly(job.rec.block)):
        return None
    return reader_of(job.rec, job.paired)


def _holds(rec: Recursion, letter: str) -> bool:
    from meanfield.numeric.increments import holds

    return holds(rec, letter)


def _without_layers(job: Job, out: Output, reader: Reader) -> NDArray[np.int64]:
    from meanfield.numeric.deep import Ends, end_of

    ends, count = Ends.of(job.rec, job.paired, reader), job.q0.shape[0]
    left = []
    for g in track(range(count), "propagate", count):
        found = end_of(ends, job.table[:, g], float(job.q0[g]), float(job.delta0[g]), float(job.pooled), job.marks)
        if found is None:
            left.append(g)
        else:
            for name, value in found.items():
                getattr(out, name)[..., g] = value
    out.flush()
    return _lasting(job, out, np.array(left, dtype=np.int64))


def _lasting(job: Job, out: Output, points: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the points that do not go bad soon; the others are answered by that."""
    if not points.size or _holds(job.rec, "L"):  # which would be another network
        return points
    soon = min(SOON, job.depth)
    before = job.marks[job.marks < soon]
    part = replace(job.of(points), depth=soon, marks=np.append(before, soon))
    found = part.output()
    _run_through((_from_tables, _by_quadrature), part, found)
    bad = (found.status > 0) & (found.status < 4)
    for mine, theirs in zip(out.arrays[:6], found.arrays[:6], strict=True):
        mine[: before.size, points[bad]] = theirs[: before.size, bad]
    out.status[points[bad]], out.good[points[bad]] = found.status[bad], found.good[bad]
    return points[~bad]


def _check_patience(job: Job, kernel: Kernel, how: str = "") -> None:
    """Refuse layers that take minutes or days one by one: those that were to be spared, and those of one point, during which no bar
    moves."""
    layers, count = job.depth * kernel.layers, job.q0.shape[0]
    unseen = float(layers * kernel.weight)
    if job.marks.size > SOME:
        who, how, cost = "each layer that is kept is run", f"{how} at one setting", unseen
    else:
        who = f"{count} of the settings neither come to rest nor are smooth in the logarithm of depth, as far as rounding shows"
        cost = layers * max(count * kernel.weight, ALONE)
    check_patience(job.depth, layers, cost, who, how, unseen)


def _by_quadrature(job: Job, out: Output) -> NDArray[np.int64]:
    kernel = by_quadrature(job.rec, job.paired)
    _check_patience(job, kernel)
    shapes = [i.shapes(kernel.parameters, job.table) for i in kernel.integrands]
    part = replace(job, device="cpu") if kernel.integrands else job  # quadrature is the processor's
    _run(part, kernel, out, shapes, kernel.work.milliseconds(shapes))
    return np.arange(0)


def _from_tables(job: Job, out: Output) -> NDArray[np.int64]:
    """Run every point from tables, which grow until they hold what they can; those that they do not answer are left."""
    kernel, count = kernel_of(job.rec, job.paired), job.q0.shape[0]
    worth = not job.alone or kernel.work.worth_tables(job.depth * kernel.layers)
    reader = reader_of(job.rec, job.paired) if worth else None
    if reader is None or not reader.tables:
        return np.arange(count)
    _check_patience(job, reader.kernel, " from tables, where these reach,")
    with growing(reader.tables):
        return _reading(job, out, reader)


def _reading(job: Job, out: Output, reader: Reader) -> NDArray[np.int64]:
    """the same with the tables that there are"""
    kernel, tables, count = reader.kernel, reader.tables, job.q0.shape[0]

    def run(part: Job, found: Output) -> bool:
        read = [t.numbers for t in tables]
        _run(part, kernel, found, [numbers[None] for numbers in read], kernel.work.looked_up)
        extended = [t.extend(numbers) for t, numbers in zip(tables, read, strict=True)]
        return any(extended)

    if count > PROBES:
        few = replace(job.of(np.linspace(0, count - 1, PROBES).astype(np.int64)), marks=job.marks[-1:])
        while run(few, few.output()):
            pass
    more = run(job, out)
    left = out.unanswered
    # a point alone stops where it is not answered; "L" would make fewer repeats another network
    if more and left.size > 1 and not _holds(job.rec, "L"):
        some = job.of(left[np.linspace(0, left.size - 1, min(PROBES, left.size)).astype(np.int64)])
        for depth in (d for d in SHALLOW if d < job.depth):
            few = replace(some, depth=depth, marks=np.array([depth]))
            while run(few, few.output()):
                pass
    while more and left.size:
        part = job.of(left)
        found = part.output()
        more = run(part, found)
        out.put(left, found)
        left = out.unanswered
    return left


def lanes_of(kernel: Kernel, count: int, kept: int, device: str = "cpu") -> int:
    """How many of so many points run at a time, where so many layers are kept."""
    if device == "cpu" and not (kernel.vectorises and count > FEW):
        return 1
    long = device == "cpu" and kept > 1 and 48 * kept * count > CACHE and 8 * (-count % LONG) <= count
    return LONG if long else BLOCK


def _run(job: Job, kernel: Kernel, out: Output, shapes: list[Floats], milliseconds: float) -> None:
    count = job.q0.shape[0]
    layers = max(job.depth, 1) * kernel.layers
    lanes = lanes_of(kernel, count, job.marks.size, job.device)
    segment = min(layers, max(SEGMENT // (lanes * kernel.kept), math.isqrt(layers)))
    if job.device == "cuda":
        given = (job.table, job.q0, job.delta0)
        from meanfield.numeric.cuda_runs import run_on_device

        run_on_device(kernel, job.depth, job.marks, segment, float(job.pooled), given, out.arrays, shapes)
        out.flush()
        return
    small = job.alone and patient(layers * milliseconds, is_kept(kernel.compiled(1), "trajectories"))
    text = kernel.interpreted if small else kernel.compiled(lanes)
    halt = np.zeros(1, dtype=np.int64)
    rest = (float(job.pooled), job.table, job.q0, job.delta0, *out.arrays, *shapes)
    rest = (job.depth, job.marks, segment, halt, *rest)
    if small:
        execute(text, "trajectories", (0, count, *rest), small)
        out.flush()
        return
    from meanfield.numeric.compilation.machine import flushes

    run = compiled(text, "trajectories").form((0, 0, *rest), free=2)
    size = lanes * max(SHARED if kernel.panelled else 1, CHUNK // (lanes * layers * kernel.weight))
    parts = [(first, min(first + size, count)) for first in range(0, count, size)]
    share(lambda part: run(*part), parts, "propagate", lambda: halt.fill(1))
    if kernel.work or not flushes():
        out.flush()
