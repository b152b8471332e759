"""A grid cut into chunks, each of which is a run of its own: what it takes to run one anywhere."""

from __future__ import annotations

import hashlib
import itertools
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from meanfield.blocks.algebra import Block
from meanfield.numeric.runs import Moments, prepared_moments
from meanfield.numeric.threads import renewed_by_forks
from meanfield.recurrence import recursion

if TYPE_CHECKING:
    from meanfield.numeric.gram_march import Gram

__all__ = ["Chunks", "Recipe", "prepared"]

#: bytes of the results of a chunk, and points times layers times what one costs, both at most: some seconds
BYTES, WORK = 1 << 26, 200_000_000

#: dask may call from several threads; a run takes the processors it may have by itself, and its tables are no other's while they grow
_one_at_a_time = threading.Lock()


def _renew() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


renewed_by_forks(_renew)


def prepared(
    net: Block,
    depth: int,
    q: Any,
    *,
    p: Any = None,
    c: Any = None,
    gap: Any = None,
    q2: Any = None,
    start: str = "token",
    record: str | int | Sequence[int] = "all",
    device: str = "cpu",
    out: NDArray[np.float64] | None = None,
    points: int | None = None,
    **values: Any,
) -> Moments | Gram:
    """A run with every argument checked, in whichever way answers the network; `points` are in memory at a time, if not all."""
    if device != "cpu" and (q2 is not None or not net.closes):
        raise ValueError(f"device = {device!r} is for runs in (q, p): this one keeps Gram matrices, on the processor: leave device out")
    if q2 is None and net.closes:
        return prepared_moments(recursion(net), depth, q, p, c, gap, start, record, device, out, values, points)
    from meanfield.numeric.gram_march import prepared_pair, prepared_tokens

    if q2 is not None:
        return prepared_pair(net, depth, q, q2, p, c, gap, record, values, points)
    return prepared_tokens(net, depth, q, p, c, gap, start, record, values, points)


@dataclass(frozen=True)
class Chunks:
    """A grid and the size of its chunks along each dimension; the last of a dimension may be smaller."""

    grid: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, grid: tuple[int, ...], given: Mapping[int, int], points: int) -> Chunks:
        """The sizes given for some dimensions, and the others cut, the first of them first, until a chunk has at most so many points."""
        sizes = [given.get(i, size) for i, size in enumerate(grid)]
        for i in range(len(grid)):
            if i not in given:
                sizes[i] = max(1, min(sizes[i], points * sizes[i] // max(1, math.prod(sizes))))
        return cls(grid, tuple(sizes))

    @property
    def shape(self) -> tuple[int, ...]:
        """How many there are along each dimension."""
        return tuple(-(-size // step) for size, step in zip(self.grid, self.sizes, strict=True))

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*map(range, self.shape))

    def __len__(self) -> int:
        return math.prod(self.shape)

    @property
    def cuts(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of all chunks along each dimension."""
        return tuple(tuple(min(step, size - at) for at in range(0, size, step)) for step, size in zip(self.sizes, self.grid, strict=True))

    def slices(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        """Where a chunk lies."""
        return tuple(slice(i * step, min(size, (i + 1) * step)) for i, step, size in zip(index, self.sizes, self.grid, strict=True))

    def along(self, value: Any) -> tuple[int, ...]:
        """The same sizes for an argument of as many dimensions, some of which broadcast."""
        return tuple(step if long > 1 else 1 for step, long in zip(self.sizes, value.shape, strict=True))

    def part(self, value: Any, index: tuple[int, ...]) -> Any:
        """What a chunk needs of such an argument."""
        return value[tuple(s if long > 1 else slice(None) for s, long in zip(self.slices(index), value.shape, strict=True))]


@dataclass(frozen=True)
class Recipe:
    """How to run a chunk of a grid from its numbers: small, the same in every process, and all of it can be pickled.

    The generated code does not travel: it is made again from the network where it is not kept, and held against its fingerprint.
    """

    net: Block
    depth: int
    start: str
    record: str | int | tuple[int, ...]
    device: str
    numbers: Mapping[str, float]
    arrays: tuple[str, ...]
    points: int  # of the whole grid
    source: str = ""

    def prepared(self, *blocks: NDArray[Any], points: int | None = None) -> Moments | Gram:
        """The run of a chunk, its arguments checked; its arrays come in order."""
        given: dict[str, Any] = {**self.numbers, **dict(zip(self.arrays, blocks, strict=True))}
        return prepared(self.net, self.depth, start=self.start, record=self.record, device=self.device, points=points, **given)

    def __call__(self, *blocks: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Every quantity of a chunk, by name.

        Raises
        ------
        RuntimeError
            The code made here is not that of the process which planned the sweep.
        """
        with _one_at_a_time:
            ready = self.prepared(*blocks)
            if ready.source != self.source:
                raise RuntimeError(
                    f"the kernel of {self.net} made here ({ready.source}) is not the one that the sweep was planned with ({self.source}): "
                    "all processes of a sweep need the same versions of meanfield, sympy and numpy"
                )
            run = ready.run(self.points)
        return {name: np.asarray(getattr(run, name), ready.outline.dtype(name)) for name in ready.outline.quantities}

    def digests(self, *blocks: NDArray[Any]) -> list[str]:
        """A fingerprint of each array of a chunk, which passes every check."""
        with _one_at_a_time:
            self.prepared(*blocks)
        return [hashlib.sha256(np.ascontiguousarray(b, dtype=np.float64).tobytes()).hexdigest() for b in blocks]

    def __dask_tokenize__(self) -> str:
        settings = (self.depth, self.start, self.record, self.device, sorted(self.numbers.items()), self.arrays, self.points)
        return repr((self.source, repr(self.net), *settings))
