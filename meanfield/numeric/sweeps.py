"""Runs over a grid that are not in memory: lazy dask arrays, computed chunk by chunk wherever dask computes, or kept in a Zarr store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield import arguments, faces
from meanfield.blocks.algebra import Block
from meanfield.extras import install
from meanfield.numeric.chunks import BYTES, WORK, Chunks, Recipe, prepared
from meanfield.numeric.coefficients import not_known_yet
from meanfield.numeric.outlines import Axes, Outline, axes_of, is_lazy
from meanfield.symbols import TABLE

__all__ = ["Plan", "Sweep", "planned", "require_sweeps"]


@dataclass(frozen=True, repr=False, eq=False)
class Sweep(faces.Labelled):
    """A run over a grid whose numbers are dask arrays: read from a store, or computed when they are asked for.

    Every quantity of the run that `propagate` would return of the same network on numpy arrays is an attribute with the same bits, but
    for what such a run derives on demand (the gradient correlation of a `Run`): `sweep.q`, `sweep.gap`, `sweep.log_apjn`, `sweep.chi`,
    `sweep.status`. `sweep.q.compute()` is an array, `sweep.to_xarray()` a dataset that stays lazy.

    Attributes
    ----------
    net : Block
    parameters : mapping
        What each parameter was given as.
    depth, start
        As `propagate` took them.
    layers : whole numbers
        The repeats that were kept.
    arrays : mapping
        The dask array of each quantity, of shape (*grid, ...).
    store : Path or None
        Where the numbers are, if they are.

    Examples
    --------
    >>> import meanfield as mf, numpy as np, xarray as xr
    >>> weights = xr.DataArray(np.sqrt([1.0, 2.0, 4.0]), dims="weights").chunk(2)
    >>> sweep = mf.propagate(mf.mlp(mf.relu), 10, 1.0, record="last", sigma_w=weights, sigma_b=0.0)
    >>> sweep.q.shape, sweep.layers, sweep.store  # two chunks, not computed yet
    ((3, 1), array([10]), None)
    >>> [round(q, 4) for q in sweep.q[:, 0].compute().tolist()]  # (sigma_w^2/2)^10
    [0.001, 1.0, 1024.0]
    """

    net: Block
    parameters: Mapping[str, Any]
    depth: int
    start: str
    outline: Outline
    axes: Axes
    arrays: Mapping[str, Any]
    store: Path | None = None

    @property
    def layers(self) -> NDArray[np.int64]:
        return self.outline.coords["layer"]

    def __getattr__(self, name: str) -> Any:
        arrays = self.__dict__.get("arrays", {})
        if name in arrays:
            return arrays[name]
        raise AttributeError(f"{name}: this sweep has {', '.join(arrays)}")

    def _repr_html_(self) -> str:
        return str(self.to_xarray()._repr_html_())

    def __repr__(self) -> str:
        status = self.arrays["status"]
        grid = "x".join(map(str, status.shape)) or "one setting"
        kept = f"in {self.store}" if self.store else "not computed yet"
        return f"Sweep({self.depth} repeats, {grid}, {len(self.layers)} layers kept, {status.npartitions} chunks, {kept})"


def require_sweeps() -> None:
    """Raise ImportError with the command that installs dask, xarray and Zarr if one is missing."""
    try:
        import dask.array  # noqa: F401
        import xarray  # noqa: F401
        import zarr  # noqa: F401
    except ImportError as error:
        raise ImportError(f"sweeps need dask, xarray and Zarr: {install('zarr')}", name=error.name) from error


@dataclass(frozen=True)
class Plan:
    """A sweep that nothing speaks against: how to run a chunk, the arrays over the grid, and how it is cut."""

    recipe: Recipe
    arrays: tuple[Any, ...]
    chunks: Chunks
    outline: Outline
    axes: Axes
    parameters: Mapping[str, Any]

    @property
    def lazy(self) -> bool:
        return any(map(is_lazy, self.arrays))

    def cut(self, sizes: tuple[int, ...]) -> Plan:
        """The same in chunks of another size."""
        return replace(self, chunks=Chunks(self.chunks.grid, sizes))

    @property
    def blocks(self) -> list[Any]:
        """The arrays as dask arrays in these chunks."""
        import dask.array as da

        cut = [self.chunks.along(a) for a in self.arrays]
        return [a.rechunk(c) if is_lazy(a) else da.from_array(a, chunks=c) for a, c in zip(self.arrays, cut, strict=True)]

    def sweep(self) -> Sweep:
        """What comes out, not computed."""
        import dask.array as da

        grid = tuple(range(len(self.chunks.grid)))
        inputs = [part for block in self.blocks for part in (block, grid)]
        meta = np.empty((0,) * len(grid), dtype=object)
        if grid:
            cuts = dict(enumerate(self.chunks.cuts))  # the inputs are cut already, and some of their dimensions broadcast
            whole = da.blockwise(self.recipe, grid, *inputs, dtype=object, meta=meta, align_arrays=False, adjust_chunks=cuts)
        else:
            whole = da.from_delayed(_delayed(self.recipe), (), dtype=object)
        arrays = {}
        for name in self.outline.quantities:
            own = dict(enumerate(self.outline.shape(name), len(grid)))
            kind = self.outline.dtype(name)
            empty = np.empty((0,) * (len(grid) + len(own)), dtype=kind)
            arrays[name] = da.blockwise(getitem, (*grid, *own), whole, grid, name, None, new_axes=own, dtype=kind, meta=empty)
        recipe = self.recipe
        return Sweep(recipe.net, self.parameters, recipe.depth, recipe.start, self.outline, self.axes, arrays)


def _delayed(recipe: Recipe) -> Any:
    from dask.delayed import delayed

    return delayed(recipe, traverse=False)()


def planned(net: Block, depth: int, start: str, record: Any, device: str, axes: Axes | None, given: Mapping[str, Any]) -> Plan:
    """A sweep over whatever the arguments are: numbers, arrays and dask arrays, the latter of regular chunks.

    Everything is checked but the numbers in dask arrays, which each chunk checks for itself.
    """
    require_sweeps()
    given = {name: v for name, v in given.items() if v is not None}
    for name, v in given.items():
        if is_lazy(v) and v.dtype.kind not in "iuf":
            raise TypeError(f"{name}: expected real numbers, got a dask array of dtype {v.dtype}")
        if is_lazy(v) and (v.ndim == 0 or np.isnan(v.shape).any()):
            raise ValueError(f"{name} = {v}: a dask array needs at least one dimension, and sizes that are known (compute_chunk_sizes)")
    shown: dict[str, Any] = {name: _stand_in(name) if is_lazy(v) else v for name, v in given.items()}
    lazy = [name for name, v in given.items() if is_lazy(v)]
    with not_known_yet(lazy):
        ready = prepared(net, depth, start=start, record=record, device=device, points=1, **shown)
    known: dict[str, Any] = {name: v if is_lazy(v) else np.asarray(v, dtype=np.float64) for name, v in given.items()}
    grid = arguments.broadcast(known)
    if 0 in grid:
        raise ValueError(f"a grid of shape {grid} has no settings: a sweep needs one at least (numpy arrays without out= may be empty)")
    arrays = {name: v.reshape((1,) * (len(grid) - v.ndim) + v.shape) for name, v in known.items() if v.ndim}
    numbers = {name: float(v) for name, v in known.items() if not v.ndim}
    sizes: dict[int, int] = {}
    for v in filter(is_lazy, arrays.values()):
        for i, cut in enumerate(v.chunks):
            if v.shape[i] > 1:
                sizes[i] = min(max(cut), sizes.get(i, max(cut)))
    chunks = Chunks.of(grid, sizes, max(1, min(BYTES // ready.outline.size, WORK // ready.cost)))
    with not_known_yet(lazy):
        prepared(net, depth, start=start, record=record, device=device, points=math.prod(chunks.sizes), **shown)  # a chunk fits
    kept = record if isinstance(record, str) else int(record) if np.ndim(record) == 0 else tuple(map(int, record))
    recipe = Recipe(net, depth, start, kept, device, numbers, tuple(arrays), math.prod(grid), ready.source)
    parameters = {name: v for name, v in known.items() if name not in ("q", "q2", "p", "c", "gap")}
    return Plan(recipe, tuple(arrays.values()), chunks, ready.outline, axes or axes_of(known, grid), parameters)


def _stand_in(name: str) -> float:
    """A number that an argument may have, whatever the others are: for checks of all that does not depend on it."""
    if name in ("q", "q2", "gap"):
        return 1.0
    if name in ("p", "c"):
        return 0.0
    return 2.0 if name in TABLE and TABLE[name].integer else 0.5
