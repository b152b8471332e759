"""What a run holds, before it has run: quantities by name, and what their axes are called."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield import arguments

__all__ = ["WORDS", "Axes", "Outline", "axes_of", "is_lazy", "layers_of", "unlabelled"]

#: the type of `status`: the longest word is "gap underflow"
WORDS = np.dtype("U13")
#: what no dimension of a grid may be called, nor an argument along one: quantities and dimensions of results
TAKEN = frozenset(
    [
        "q",
        "q2",
        "p",
        "c",
        "gap",
        "chi",
        "status",
        "layer",
        "repeat",
        "i",
        "j",
        "gram",
        "gradient_correlation",
        "log_chi_product",
        "log_apjn",
        "log_apjn_2",
        "log_apjn_forward",
        "log_apjn_tokens",
        "ntk",
        "ntk_2",
        "ntk_pair",
    ]
)


@dataclass(frozen=True)
class Outline:
    """Quantities and the dimensions that follow those of the grid, in order; the coordinates of these dimensions."""

    quantities: Mapping[str, tuple[str, ...]]
    coords: Mapping[str, NDArray[np.int64]]

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a quantity at one point of the grid."""
        return tuple(len(self.coords[dim]) for dim in self.quantities[name])

    def dtype(self, name: str) -> np.dtype[Any]:
        return WORDS if name == "status" else np.dtype(np.float64)

    @property
    def size(self) -> int:
        """Bytes of a point of the grid."""
        return sum(math.prod(self.shape(name)) * self.dtype(name).itemsize for name in self.quantities)


@dataclass(frozen=True)
class Axes:
    """What the dimensions of a grid are called, and coordinates by name: dimensions and values."""

    dims: tuple[str, ...] = ()
    coords: Mapping[str, tuple[tuple[str, ...], Any]] = field(default_factory=dict)


def _kind(module: str, name: str) -> tuple[type, ...]:
    """a class of a library that may not even be imported, as isinstance takes it"""
    home = sys.modules.get(module)
    return () if home is None else (getattr(home, name),)


def is_lazy(value: Any) -> bool:
    """Whether it is a dask array."""
    return isinstance(value, _kind("dask.array", "Array"))


def unlabelled(given: Mapping[str, Any]) -> tuple[dict[str, Any], Axes | None]:
    """Arguments by name, the xarray DataArrays among them as arrays that broadcast by position, and what their dimensions are called;
    None where there are no DataArrays.

    Raises
    ------
    ValueError
        Coordinates that differ, a plain array beside DataArrays, a dimension with the name of a quantity.
    """
    labelled: dict[str, Any] = {name: v for name, v in given.items() if isinstance(v, _kind("xarray", "DataArray"))}
    if not labelled:
        return dict(given), None
    import xarray

    plain = [name for name, v in given.items() if name not in labelled and np.ndim(v)]
    if plain:
        raise ValueError(
            f"{', '.join(plain)}: plain arrays beside DataArrays ({', '.join(labelled)}), whose dimensions have names: pass DataArrays"
        )
    try:
        xarray.align(*labelled.values(), join="exact", copy=False)
        coords = xarray.merge([v.coords for v in labelled.values()], compat="equals", join="exact").coords
    except ValueError as error:
        raise ValueError(f"the coordinates of {', '.join(labelled)} differ: {error}") from None
    dims = tuple(dict.fromkeys(d for v in labelled.values() for d in v.dims))
    clash = [d for d in dims if d in TAKEN]
    if clash:
        raise ValueError(f"a dimension called {clash[0]!r}: results have one of that name, or a quantity; rename yours")
    arrays = dict(given)
    for name, v in labelled.items():
        own = v.transpose(*(d for d in dims if d in v.dims))
        arrays[name] = own.data[tuple(slice(None) if d in v.dims else None for d in dims)]
    kept = {str(name): (tuple(map(str, c.dims)), c.data) for name, c in coords.items() if name not in TAKEN}
    for name, v in labelled.items():
        if v.ndim:
            kept.setdefault(_start_name(name), (tuple(map(str, v.dims)), v.data))
    return arrays, Axes(tuple(map(str, dims)), kept)


def _start_name(name: str) -> str:
    """What an argument is called as a coordinate: q and its like, and a parameter of such a name, are something else in results."""
    return f"{name}_0" if name in TAKEN else name


def axes_of(given: Mapping[str, Any], grid: tuple[int, ...]) -> Axes:
    """What to call the dimensions of a grid of plain arrays: an argument that varies along one of them names it, a lazy one is a
    coordinate along it."""
    dims = [f"grid_{i}" for i in range(len(grid))]
    coords: dict[str, tuple[tuple[str, ...], Any]] = {}
    for argument, value in given.items():
        name, first = _start_name(argument), len(grid) - np.ndim(value)
        long = [i for i, size in enumerate(np.shape(value)) if size > 1]
        if is_lazy(value):
            if len(long) == 1:
                coords[name] = ((f"grid_{first + long[0]}",), value.reshape(-1))
            continue
        varying = [i for i in long if np.ptp(value, axis=i).max(initial=0.0) > 0]
        if len(varying) == 1 and dims[first + varying[0]].startswith("grid_"):
            i = varying[0]
            dims[first + i] = name
            coords[name] = ((name,), np.moveaxis(value, i, 0).reshape(value.shape[i], -1)[:, 0])
    renamed = {f"grid_{i}": name for i, name in enumerate(dims)}
    return Axes(tuple(dims), {name: (tuple(renamed.get(d, d) for d in own), v) for name, (own, v) in coords.items()})


def layers_of(record: str | int | Sequence[int], depth: int, check_size: Callable[[int], None]) -> NDArray[np.int64]:
    """The repeats that `record` keeps, in order; the last is always one of them. Their number is checked first."""
    expected = "expected 'all', 'last', a whole number k from 1 to 10^18 (every k-th layer) or a sequence of layers"
    if isinstance(record, str):
        if record not in ("all", "last"):
            raise ValueError(f"record = {record!r}: {expected}")
        if record == "last":
            check_size(1)
            return np.array([depth])
        record = 1
    if isinstance(record, (range, list, tuple)):
        check_size(len(record) + 1)  # before it is an array
    if np.ndim(record) == 0:
        try:
            every = arguments.check_integer(record, "record", 1)
        except (TypeError, ValueError) as error:
            raise type(error)(f"record = {record!r}: {expected}") from None
        kept = -(-depth // every) + 1
        check_size(kept)
        return np.minimum(np.arange(kept) * every, depth)
    layers = np.asarray(record)
    check_size(layers.size + 1)
    if layers.ndim != 1 or (layers.size and layers.dtype.kind not in "iu"):
        raise TypeError(f"record = {record!r}: {expected}, whole numbers")
    outside = layers[(layers < 0) | (layers > depth)]
    if outside.size:
        raise ValueError(f"record holds {outside[0]}: layers are from 0 to depth = {depth}")
    return np.unique(np.append(layers, depth)).astype(np.int64)
