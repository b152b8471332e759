"""A job run by a kernel: as plain Python, compiled in parts on the processors there are, or on a device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.job import Job, Output
from meanfield.numeric.store import compiled, execute, is_kept
from meanfield.numeric.threads import share
from meanfield.numeric.trajectory import BLOCK, Kernel
from meanfield.numeric.work import patient

__all__ = ["lanes_of", "launch", "shapes_of"]

Floats = NDArray[np.float64]

#: layer-points that a thread does at a time, or where there are no more this one: some milliseconds, which an interrupt may wait for
CHUNK = 250_000
#: layer-points that are worth panels of their own, and points up to which a thread does so many at a time
PANELLED, SHARED = 500_000, 256
#: points up to which a grid runs one after another rather than in a block that is mostly copies
FEW = 4
#: bytes of kept layers that go past the cache, and points in a block of a grid then: writing row after row in pieces of 64 points costs up
#: to twice as much as in longer ones
CACHE, LONG = 1 << 21, 256
#: numbers of transfers that a block keeps for the backward pass at a time, at least: 8 MiB, beyond which memory is slower than to recompute
SEGMENT = 1 << 20
#: what the function is called that generated source is run by
_ENTRY = "trajectories"


def lanes_of(kernel: Kernel, count: int, kept: int, device: str = "cpu") -> int:
    """How many of so many points run at a time, where so many layers are kept."""
    if device == "cpu" and not (kernel.vectorises and count > FEW):
        return 1
    long = device == "cpu" and kept > 1 and 48 * kept * count > CACHE and 8 * (-count % LONG) <= count
    return LONG if long else BLOCK


def shapes_of(job: Job, kernel: Kernel, out: Output) -> list[Floats]:
    """How the integrands of a kernel look, which takes as long to find as LLVM takes for machine code; a grid runs compiled whatever they
    are, and its code is made meanwhile."""

    def found() -> list[Floats]:
        return [i.shapes(kernel.parameters, job.table) for i in kernel.integrands]

    if job.alone or job.device != "cpu" or not kernel.integrands:
        return found()
    rows = [np.empty((0, 0))] * len(kernel.integrands)
    code = compiled(kernel.compiled(lanes_of(kernel, job.q0.size, job.marks.size)), _ENTRY)
    with code.meanwhile((0, 0, *_arguments(job, out, 0, _unhalted(), rows))):
        return found()


def launch(job: Job, kernel: Kernel, out: Output, rows: list[Floats], milliseconds: float) -> None:
    """Fill the output of a job, given the rows that the kernel reads, shapes of its integrands or what tables hold, and what a layer takes
    in plain Python."""
    count = job.q0.size
    layers = max(job.depth, 1) * kernel.layers
    lanes = lanes_of(kernel, count, job.marks.size, job.device)
    segment = min(layers, max(SEGMENT // (lanes * kernel.kept), math.isqrt(layers)))
    if job.device == "cuda":
        given = (job.table, job.q0, job.delta0)
        from meanfield.numeric.cuda_runs import run_on_device

        run_on_device(kernel, job.depth, job.marks, segment, float(job.pooled), given, out.arrays, rows)
        out.flush()
        return
    halt = _unhalted()
    arguments = _arguments(job, out, segment, halt, rows)
    if job.alone and patient(max(layers, kernel.fewest) * milliseconds, is_kept(kernel.compiled(1), _ENTRY)):
        execute(kernel.interpreted, _ENTRY, (0, count, *arguments), small=True)
        out.flush()
        return
    from meanfield.numeric.compilation.machine import flushes

    run = compiled(kernel.compiled(lanes), _ENTRY).form((0, 0, *arguments), free=2)
    sharing = min(SHARED, PANELLED // layers) if kernel.panelled else 0
    size = lanes * max(1, sharing, CHUNK // (lanes * layers * kernel.weight))
    parts = [(first, min(first + size, count)) for first in range(0, count, size)]
    passes = layers if job.marks.size == 1 else max(layers, 2 * layers - segment)  # all but the last segment are gone through again
    halt[1] = 0 if len(parts) == 1 else -1  # which threads would write to in turn
    if max(count, lanes) * layers * kernel.weight <= CHUNK:
        run(0, count)
    else:
        share(lambda part: run(*part), parts, "propagate", lambda: halt.fill(1), lambda: halt[1] / passes)
    if kernel.work or not flushes():
        out.flush()


def _unhalted() -> NDArray[np.int64]:
    """what a run looks at after every layer, it ends where the first number is not 0, and the layers that it has done of a single point"""
    return np.zeros(2, dtype=np.int64)


def _arguments(job: Job, out: Output, segment: int, halt: NDArray[np.int64], rows: list[Floats]) -> tuple[Any, ...]:
    """of the kernel, after the points from one to another"""
    start = (float(job.pooled), job.table, job.q0, job.delta0)
    return (job.depth, job.marks, segment, halt, *start, *out.arrays, *rows)
