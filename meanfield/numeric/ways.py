"""Points of a grid run over depth in whatever way answers each: to the end at once, from tables, by quadrature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.job import Job, Output
from meanfield.numeric.launch import launch, shapes_of
from meanfield.numeric.patience import DEEP, SECONDS, check_patience
from meanfield.numeric.readers import Reader, reader_of
from meanfield.numeric.signs import by_sign
from meanfield.numeric.tables import Table, growing
from meanfield.numeric.trajectory import DEAF, JOINED, LOST, Kernel, by_quadrature, kernel_of
from meanfield.progress import track
from meanfield.recurrence import Recursion

__all__ = ["done"]

Floats = NDArray[np.float64]

#: layers of one of many points that one costs alone
ALONE = 10
#: seconds from which on the layers of a point by quadrature are spared where they can be
SPARED = 10.0
#: repeats within which points are looked for that go bad, of which more repeats say nothing else, or come to rest
SOON = (1 << 10, 1 << 14)
#: kept layers of a very deep network up to which they are looked up along its leaps
SOME = 10_000
#: layers of which the rounding adds up to 1e-10 of a state that nothing pulls back, as a rule
EXACT = 1e8
#: numbers that come out of points of one sign before they are put beside those of another
APART = 1 << 25
#: points of a grid that tables are made for first
PROBES = 16
#: repeats that tables are made for first: a run that outgrows them stops at one panel at a time
SHALLOW = (64, 512)


def done(job: Job, memory: Floats | None = None) -> Output:
    """What comes out of a job, NaN where a point has gone bad; in that memory if it is given."""
    found = by_sign(job.rec.unsigned, job.rec.parameters, job.table)
    parts = [(replace(job if len(found) == 1 else job.of(points), rec=job.rec.signed(signs)), points) for signs, points in found]
    for part, _ in parts:
        _check_moments(part)
    if len(parts) == 1:
        return _of_one_sign(parts[0][0], memory)
    kinds = {kernel_of(part.rec, part.paired).split for part, _ in parts}
    assert len(kinds) == 1, "recursions that signs tell apart keep the same numbers"
    out = replace(job, rec=parts[0][0].rec).output(memory)
    for part, points in parts:
        for some in np.array_split(points, -(-6 * job.marks.size * points.size // APART)):
            out.put(some, _of_one_sign(replace(job.of(some), rec=part.rec)))
    out.finish()
    return out


def _of_one_sign(job: Job, memory: Floats | None = None) -> Output:
    """the same where the signs of parameters are known"""
    out = job.output(memory)
    _fill(job, out)
    odd = np.flatnonzero((out.status >= JOINED) & (out.status < DEAF))
    if odd.size:
        _settle_odd(job, out, odd)
        out.outgrow()
    out.blank(job.marks, kernel_of(job.rec, job.paired).layers)
    bad = np.flatnonzero(out.bad)
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
    if reader is None or not reader.functions:
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
    """What spares layers, where few are kept, and moments are in closed form or in tables."""
    from meanfield.numeric.coefficients import changes_slowly

    if job.marks.size > SOME or (_holds(job.rec, "l") and not changes_slowly(job.rec.block)):
        return None
    return reader_of(job.rec, job.paired)


def _holds(rec: Recursion, letter: str) -> bool:
    from meanfield.numeric.increments import holds

    return holds(rec, letter)


def _without_layers(job: Job, out: Output, reader: Reader) -> NDArray[np.int64]:
    from meanfield.numeric.deep import Ends, end_of

    count, left = job.q0.shape[0], []
    for g in track(range(count), "propagate", count):
        ends = Ends.of(job.rec, job.paired, reader, job.table[:, g])
        found = end_of(ends, job.table[:, g], float(job.q0[g]), float(job.delta0[g]), float(job.pooled), job.marks)
        if found is None:
            left.append(g)
        else:
            for name, value in found.items():
                getattr(out, name)[..., g] = value
    out.flush()
    return _lasting(job, out, np.array(left, dtype=np.int64))


def _lasting(job: Job, out: Output, points: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the points that neither go bad soon nor come to rest; the others are answered by that."""
    from meanfield.numeric.resting import kept_to_rest, resting

    if _holds(job.rec, "L"):  # fewer repeats of which would be another network
        return points
    rests = not (_holds(job.rec, "l") or kernel_of(job.rec, job.paired).split)
    for soon in SOON:
        if not points.size or job.depth <= soon:
            break
        whole, kept = job.of(points), kept_to_rest(job.marks, soon)
        part = replace(whole, depth=soon, marks=kept)
        found, ends = _one_by_one(part), whole.output()
        ends.begin(found, np.searchsorted(kept, job.marks[job.marks < soon]))
        answered = found.bad
        if rests:
            answered |= resting(whole, part, found, ends, _one_by_one)
        out.put(points[answered], ends, answered)
        points = points[~answered]
    return points


def _one_by_one(job: Job) -> Output:
    out = job.output()
    _run_through((_from_tables, _by_quadrature), job, out)
    return out


def _check_patience(job: Job, kernel: Kernel, how: str = "") -> None:
    """Refuse layers that take minutes or days one by one: those that were to be spared, and those of one point, during which no bar
    moves."""
    layers, count = job.depth * kernel.layers, job.q0.shape[0]
    unseen = float(layers * kernel.weight)
    if job.marks.size > SOME:
        who, how, cost = "each layer that is kept is run", f"{how} at one setting", unseen
    else:
        who = f"{count} of the settings have no finite J, or neither come to rest nor are smooth in log depth, as far as rounding shows"
        if layers > EXACT:
            raise ArithmeticError(f"depth = {job.depth}: {who}, and that of {layers} layers one by one adds up: pass a smaller depth")
        cost = layers * max(count * kernel.weight, ALONE)
    check_patience(job.depth, layers, cost, who, how, unseen)


def _by_quadrature(job: Job, out: Output) -> NDArray[np.int64]:
    kernel = by_quadrature(job.rec, job.paired)
    _check_patience(job, kernel)
    part = replace(job, device="cpu") if kernel.integrands else job  # quadrature is the processor's
    shapes = shapes_of(part, kernel, out)
    launch(part, kernel, out, shapes, kernel.work.milliseconds(shapes))
    return np.arange(0)


def _from_tables(job: Job, out: Output) -> NDArray[np.int64]:
    """Run every point from tables, which grow until they hold what they can; those that they do not answer are left."""
    kernel, count = kernel_of(job.rec, job.paired), job.q0.shape[0]
    worth = not job.alone or kernel.work.worth_tables(job.depth * kernel.layers)
    reader = reader_of(job.rec, job.paired) if worth else None
    if reader is None or not reader.functions:
        return np.arange(count)
    _check_patience(job, reader.kernel, " from tables, where these reach,")
    groups, left = list(reader.by_values(job.table)), []
    for points, tables in track(groups, "propagate", len(groups)):
        part, found = (job, out) if len(groups) == 1 else (job.of(points), job.of(points).output())
        with growing(() if reader.parameters else tables):
            left.append(points[_reading(part, found, reader.kernel, tables)])
        if part is not job:
            out.put(points, found)
    return np.sort(np.concatenate(left))


def _reading(job: Job, out: Output, kernel: Kernel, tables: tuple[Table, ...]) -> NDArray[np.int64]:
    """those that these tables do not answer"""
    count = job.q0.shape[0]
    if not all(table.begun for table in tables):
        shapes_of(job, kernel, out)  # panels follow from them

    def run(part: Job, found: Output) -> bool:
        read = [t.numbers for t in tables]
        launch(part, kernel, found, [numbers[None] for numbers in read], kernel.work.looked_up)
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
