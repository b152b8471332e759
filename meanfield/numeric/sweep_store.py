"""A sweep in a Zarr store: written chunk by chunk, taken up again where it was left.

The store is what `to_xarray` of the sweep looks like, whole from the start, of NaN where nothing was computed yet. Its group `sweep` says
which sweep it is, and which chunks are finished: each has a file of its own there, written after its numbers. One whose numbers are gone
is computed again.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

import meanfield
from meanfield.fingerprint import fingerprint
from meanfield.numeric.chunks import Recipe
from meanfield.numeric.outlines import is_lazy
from meanfield.numeric.sweeps import Plan, Sweep
from meanfield.progress import track

__all__ = ["check_path", "stored"]

#: the group of a store that says which sweep it is, and its array of finished chunks
GROUP, FINISHED = "sweep", "sweep/finished"
#: the version that stays readable everywhere and has text
FORMAT: Literal[2] = 2

#: endings of files in other formats
_OTHERS = (".csv", ".nc", ".json", ".npy", ".npz", ".txt", ".parquet", ".h5", ".hdf5", ".zip")

#: what the group says of a sweep
KEYS = {"meanfield_version", "network", "kernel", "depth", "record", "start", "device", "grid", "chunks", "numbers", "arrays"}

Index = tuple[int, ...]


def check_path(out: str | Path) -> Path:
    """Where a store is or can be made.

    Raises
    ------
    ValueError
        It is something else, or there is no such folder.
    """
    path = Path(out)
    if path.suffix.lower() in _OTHERS:
        raise ValueError(f"out = {str(path)!r}: a sweep is a folder in the Zarr format: pass one like {str(path.with_suffix('.zarr'))!r}")
    if not path.parent.is_dir():
        raise ValueError(f"out = {str(path)!r}: there is no folder {str(path.parent)!r}")
    if os.path.lexists(path) and not (path / GROUP / ".zattrs").is_file():
        raise ValueError(f"out = {str(path)!r}: exists and is no sweep of meanfield's: pass another path")
    return path


def stored(plan: Plan, path: Path) -> Sweep:
    """The sweep with its numbers in a store at that path: what is there already is not computed again.

    Raises
    ------
    ValueError
        The store is of another sweep: with what differs.
    """
    if os.path.lexists(path):
        plan = plan.cut(tuple(_attributes(path)["chunks"])) if _attributes(path)["grid"] == list(plan.chunks.grid) else plan
    identity = _identity(plan)
    if not os.path.lexists(path):
        _create(plan, path, identity)
    _check_same(path, identity)  # also of one that another process has made meanwhile
    missing = _missing(plan, path)
    try:
        for _ in track(_written(plan, path, missing), "sweep", len(missing)):
            pass
    except KeyboardInterrupt as stop:
        stop.add_note(f"{path} keeps the chunks that were finished: the same call goes on from there")
        raise
    return _read(plan, path)


def _open(path: Path, mode: Any = "r") -> Any:
    import zarr

    return zarr.open_group(path, mode=mode, zarr_format=FORMAT, use_consolidated=False)


def _attributes(path: Path) -> dict[str, Any]:
    try:
        found = dict(_open(path)[GROUP].attrs)
    except (KeyError, TypeError, ValueError) as reason:
        raise _damaged(path, f"what its group {GROUP} says cannot be read: {reason}") from None
    if lacking := sorted(KEYS - found.keys()):
        raise _damaged(path, f"its group {GROUP} does not say {', '.join(lacking)}")
    return found


def _damaged(path: Path, reason: str) -> ValueError:
    return ValueError(f"out = {str(path)!r} is damaged, {reason}. Pass another path, or remove it")


# -- which sweep it is ------------------------------------------------------------------------------------------------------------------


def _identity(plan: Plan) -> dict[str, Any]:
    """What a sweep's numbers follow from, as a store keeps it; every argument is checked on the way."""
    recipe = plan.recipe
    every = list(plan.chunks)
    rows = dict(_each(plan, every, [recipe.digests] * len(every)))
    digests = {name: fingerprint("".join(rows[index][k] for index in every)) for k, name in enumerate(recipe.arrays)}
    return {
        "meanfield_version": meanfield.__version__,
        "network": str(recipe.net),
        "kernel": recipe.source,
        "depth": recipe.depth,
        "record": fingerprint(repr(plan.outline.coords["layer"].tolist())),
        "start": recipe.start,
        "device": recipe.device,
        "grid": list(plan.chunks.grid),
        "chunks": list(plan.chunks.sizes),
        "numbers": dict(recipe.numbers),
        "arrays": digests,
    }


def _check_same(path: Path, identity: Mapping[str, Any]) -> None:
    there = _attributes(path)
    named = ("meanfield_version", "network", "depth", "start", "device", "grid")
    differ = [f"{name} = {there[name]} there, {identity[name]} here" for name in named if there[name] != identity[name]]
    if there["record"] != identity["record"] and there["depth"] == identity["depth"]:
        differ.append("other layers recorded")
    if there["kernel"] != identity["kernel"] and not differ:
        differ.append("another kernel for the same network")
    here = {**identity["numbers"], **identity["arrays"]}
    was = {**there["numbers"], **there["arrays"]}
    for name in sorted(here.keys() & was.keys()):
        if here[name] != was[name]:
            plain = isinstance(here[name], float) and isinstance(was[name], float)
            differ.append(f"{name} = {was[name]} there, {here[name]} here" if plain else f"other values of {name}")
    differ += [f"{name} given {'here' if name in here else 'there'} only" for name in sorted(here.keys() ^ was.keys())]
    if differ:
        raise ValueError(f"out = {str(path)!r} holds another sweep: {'; '.join(differ)}. Pass another path, or remove it")


def _create(plan: Plan, path: Path, identity: Mapping[str, Any]) -> None:
    """An empty store, there at once or not at all."""
    import zarr

    data = plan.sweep().to_xarray()
    lazy = [name for name, v in data.coords.items() if is_lazy(v.data)]
    encoding: dict[Any, dict[str, Any]] = {
        name: {"chunks": (*plan.chunks.sizes, *plan.outline.shape(str(name)))} | ({"_FillValue": np.nan} if v.dtype.kind == "f" else {})
        for name, v in data.data_vars.items()
    }
    try:
        place = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except (OSError, ValueError) as reason:
        raise ValueError(f"out = {str(path)!r}: no folder can be made there: {getattr(reason, 'strerror', reason)}") from None
    try:
        data.drop_vars(lazy).to_zarr(place, mode="w", compute=False, consolidated=False, zarr_format=FORMAT, encoding=encoding)
        if lazy:
            data[lazy].drop_vars([c for c in data[lazy].coords if c not in lazy]).to_zarr(
                place, mode="a", consolidated=False, zarr_format=FORMAT
            )
        group = _open(place, "r+")
        group.create_group(GROUP).attrs.update(identity)
        shape = plan.chunks.shape
        group.create_array(FINISHED, shape=shape, chunks=(1,) * len(shape), dtype="uint8", fill_value=0)
        zarr.consolidate_metadata(place, zarr_format=FORMAT)
        os.chmod(place, 0o777 & ~_umask())
        try:
            os.rename(place, path)
        except OSError:
            if not os.path.lexists(path):  # else another process has made it meanwhile
                raise
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# -- chunks -------------------------------------------------------------------------------------------------------------------------------


def _missing(plan: Plan, path: Path) -> list[Index]:
    group = _open(path)
    if lacking := sorted({FINISHED, *plan.outline.quantities} - {name for name, _ in group.members(max_depth=None)}):
        raise _damaged(path, f"it has no {', '.join(lacking)}")
    finished = np.asarray(group[FINISHED][...])
    there = {name: set(os.listdir(path / name)) for name in plan.outline.quantities}
    files = {name: group[name].metadata.encode_chunk_key for name in there}

    def whole(index: Index) -> bool:
        """with a file in each array: to Zarr one that is gone is a chunk of NaN"""
        return all(files[name]((*index, *[0] * len(plan.outline.shape(name)))) in there[name] for name in there)

    return [index for index in plan.chunks if not (finished[index] and whole(index))]


def _write(recipe: Recipe, path: Path, where: tuple[slice, ...], index: Index, *blocks: Any) -> None:
    """Run a chunk and put it into the store, then say that it is there."""
    group = _open(path, "r+")
    for name, values in recipe(*blocks).items():
        group[name].with_config({"write_empty_chunks": True})[where] = values  # what is NaN throughout has a file too
    group[FINISHED][index] = 1


def _written(plan: Plan, path: Path, missing: list[Index]) -> Iterator[Any]:
    place = path.absolute()
    return _each(plan, missing, [partial(_write, plan.recipe, place, plan.chunks.slices(index), index) for index in missing])


def _each(plan: Plan, indices: list[Index], tasks: list[Callable[..., Any]]) -> Iterator[tuple[Index, Any]]:
    """Each chunk and what its task makes of its arrays: in turn, here; of dask arrays wherever dask's client is, as they are done."""
    client = _client() if plan.lazy else None
    return _here(plan, indices, tasks) if client is None else _there(client, plan, indices, tasks)


def _here(plan: Plan, indices: list[Index], tasks: list[Callable[..., Any]]) -> Iterator[tuple[Index, Any]]:
    from dask.base import compute

    sources = plan.blocks if plan.lazy else plan.arrays
    for index, task in zip(indices, tasks, strict=True):
        parts = [_block(a, index) if is_lazy(a) else plan.chunks.part(a, index) for a in sources]
        yield index, task(*(compute(*parts) if plan.lazy else parts))


def _there(client: Any, plan: Plan, indices: list[Index], tasks: list[Callable[..., Any]]) -> Iterator[tuple[Index, Any]]:
    from dask.delayed import delayed
    from distributed import as_completed

    sources = plan.blocks
    calls = [delayed(task, traverse=False)(*(_block(a, index) for a in sources)) for index, task in zip(indices, tasks, strict=True)]
    futures = dict(zip(client.compute(calls), indices, strict=True))
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        client.cancel(list(futures))
        raise


def _block(array: Any, index: Index) -> Any:
    """the dask block of a chunk of an array, some of whose dimensions broadcast"""
    return array.blocks[tuple(i if n > 1 else 0 for i, n in zip(index, array.numblocks, strict=True))]


def _client() -> Any:
    """dask's client, None where there is none"""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None


def _read(plan: Plan, path: Path) -> Sweep:
    import dask.array as da

    group = _open(path)
    arrays = {name: da.from_array(group[name], chunks=(*plan.chunks.sizes, *plan.outline.shape(name))) for name in plan.outline.quantities}
    return replace(plan.sweep(), arrays=arrays, store=path)
