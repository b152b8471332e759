"""Arrays of a device into arrays of the host: through a few pieces of memory that the device writes to, copied on side by side.

What the device's driver copies into plain memory goes through one thread, which meets every page of a new array for the first time: on an
H100 beside 16 cores 1.3 GB/s in all, where four threads with pieces of their own take 9 GB/s (2026-11-26).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.cuda_kernels import numba_cuda

__all__ = ["bring"]

#: numbers of eight bytes in a piece, and pieces under way at a time
PIECE, PIECES = 1 << 20, 4


def bring(pairs: Sequence[tuple[NDArray[Any], Any]], halted: Callable[[], bool]) -> None:
    """Fill arrays of numbers of eight bytes from arrays of the device that have as many rows or more, until halted. The device's work on
    them must be done."""
    stages = _stages()

    def copy(piece: tuple[NDArray[Any], Any]) -> None:
        if halted():
            return
        mine, theirs = piece
        stage, stream = stages.get()
        try:
            through = stage[: mine.size].view(mine.dtype).reshape(mine.shape)
            theirs.copy_to_host(through, stream=stream)
            stream.synchronize()
            mine[...] = through
        finally:
            stages.put((stage, stream))

    with ThreadPoolExecutor(PIECES) as pool:
        for _ in pool.map(copy, [piece for pair in pairs for piece in _pieces(*pair)]):
            pass


@lru_cache(maxsize=1)
def _stages() -> SimpleQueue[tuple[NDArray[np.float64], Any]]:
    """memory that the device writes to by itself, each with a stream: made once, since that takes as long as copying it a few times"""
    cuda, free = numba_cuda(), SimpleQueue[tuple[NDArray[np.float64], Any]]()
    for _ in range(PIECES):
        free.put((cuda.pinned_array(PIECE), cuda.stream()))
    return free


def _pieces(mine: NDArray[Any], theirs: Any) -> Iterator[tuple[NDArray[Any], Any]]:
    """rows, or parts of a row where that is longer, which lie in one piece on the device"""
    if mine.ndim == 1:
        mine, theirs = mine[None], theirs.reshape(1, mine.size)
    rows, count = mine.shape
    some = max(1, PIECE // max(1, count))
    for row in range(0, rows, some):
        for first in range(0, count, PIECE):
            where = slice(row, min(rows, row + some)), slice(first, min(count, first + PIECE))
            yield mine[where], theirs[where]
