"""Points of a grid run on a CUDA device: whether there is one, how much of the grid at a time, and what comes back."""

from __future__ import annotations

import importlib.util
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.extras import install
from meanfield.numeric.cuda_kernels import Program, numba_cuda, program_of
from meanfield.numeric.device_copies import bring
from meanfield.numeric.threads import share
from meanfield.numeric.trajectory import Kernel

__all__ = ["check_device", "run_on_device"]

Floats = NDArray[np.float64]

#: layer-points of a launch, and points that fill a large device
LAUNCH, FILL = 2_000_000_000, 1 << 17
#: part of the free memory of a device that a launch may take
SHARE = 0.5
#: blocks of threads that a launch has at least, and threads of a block at most
BLOCKS, THREADS = 128, 128

#: parts go to the device one after another, from threads so that an interrupt is heard while it works
_TURN = threading.Lock()


def check_device(device: str) -> None:
    """Refuse a device other than the processor that is unknown, or that this machine does not have.

    >>> check_device("gpu")
    Traceback (most recent call last):
        ...
    ValueError: device = 'gpu': expected 'cpu' or 'cuda'
    """
    if device != "cuda":
        raise ValueError(f"device = {device!r}: expected 'cpu' or 'cuda'")
    if importlib.util.find_spec("numba_cuda") is None:
        raise ImportError(f"device = 'cuda' needs numba-cuda: {install('numba_cuda')}", name="numba_cuda")
    cuda = numba_cuda()
    if not cuda.is_available():
        error = cuda.cuda_error() or "NVVM is missing: pip install 'numba-cuda[cu13]', or [cu12] for an older driver"
        reason = " ".join(str(error).split()).strip(" :.")
        raise ValueError(f"device = 'cuda': no CUDA device can be used on this machine ({reason}); leave device out")


def run_on_device(
    kernel: Kernel,
    depth: int,
    marks: NDArray[np.int64],
    segment: int,
    pooled: float,
    given: tuple[Floats, Floats, Floats],
    arrays: tuple[np.ndarray, ...],
    tables: list[Floats],
) -> None:
    """Fill the arrays of an output for the points given: parameters, q and delta. What tables were asked for is marked in them."""
    cuda, program, count = numba_cuda(), program_of(kernel), given[1].shape[0]
    layers = max(1, depth * kernel.layers)
    # where more than the last layer is kept, the way back reads the transfers of a segment, and the states that segments begin with
    segments = -(-layers // segment) if marks.size > 1 else 0
    work = (program.before + program.kept * (segment if segments else 1), segments * program.state)
    rows = sum(a.size // max(1, count) for a in (*given, *arrays))
    size = _points(layers, rows, sum(work))
    halt = cuda.mapped_array(1, dtype=np.int64)
    halt[0] = 0
    fixed = (depth, cuda.to_device(marks), segment, halt, pooled)
    reading = [cuda.to_device(t) for t in tables]
    own = {id(a): a for a in arrays}  # two may be one

    def task(part: slice) -> None:
        with _TURN:
            run(part)

    def run(part: slice) -> None:
        inputs = [cuda.to_device(np.ascontiguousarray(a[..., part])) for a in given]
        n = inputs[1].shape[0]
        held = {id(a): cuda.device_array((*(max(1, k) for k in a.shape[:-1]), n), dtype=a.dtype) for a in own.values()}
        outputs = [held[id(a)] for a in arrays]
        kept = [cuda.device_array((max(1, k), n), dtype=np.float64) for k in work]
        _launch(program, n, (*fixed, *inputs, *outputs, *kept, *reading))
        cuda.synchronize()
        bring([(a[..., part], held[key]) for key, a in own.items()], lambda: halt[0] > 0)

    share(task, [slice(k, min(count, k + size)) for k in range(0, count, size)], "propagate", lambda: halt.fill(1))
    for t, read in zip(tables, reading, strict=True):
        t[:] = read.copy_to_host()


def _launch(program: Program, n: int, arguments: tuple[Any, ...]) -> None:
    """as many threads as points, few to a block where there are few: that many blocks keep every multiprocessor of a device busy"""
    threads = min(THREADS, -(-n // BLOCKS))
    program.points[max(BLOCKS, -(-n // threads)), threads](*arguments)


def _points(layers: int, rows: int, work: int) -> int:
    """how many points go to the device at a time, each of so many numbers kept and in its workspace"""
    free = numba_cuda().current_context().get_memory_info()[0]
    need = 8.0 * (rows + work)
    if need > SHARE * free:
        raise ValueError(
            f"device = 'cuda': one setting needs {need / 2**30:.3g} GiB, more than half of the {free / 2**30:.3g} GiB that are free on the "
            "device: pass record='last', record=k or the layers to keep"
        )
    return int(min(SHARE * free / need, max(FILL, LAUNCH // layers)))
