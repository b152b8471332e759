"""Runs as labelled arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meanfield.faces import dataset
from meanfield.numeric.runs import Run

if TYPE_CHECKING:
    import xarray

__all__ = ["to_xarray"]

_MEANING = {
    "q": "variance of a component of a token",
    "p": "covariance of a component between two tokens",
    "c": "correlation p/q",
    "gap": "1 - p/q",
    "log_apjn": "ln J^{L,l}",
    "log_apjn_forward": "ln J^{l,0}",
    "log_chi_product": "sum of ln chi from l to L",
}


@dataset.register(Run)
def to_xarray(run: Run) -> xarray.Dataset:
    """A dataset over (grid dimensions, layer); a parameter that varies along one grid dimension names it."""
    import xarray

    grid = run.q.shape[:-1]
    dims = [f"grid_{i}" for i in range(len(grid))]
    coords: dict[str, object] = {"layer": run.layers}
    for name, value in run.parameters.items():
        full = np.broadcast_to(value, grid) if value.ndim else value
        varying = [i for i in range(len(grid)) if value.ndim and full.shape[i] > 1 and np.ptp(full, axis=i).max() > 0]
        if len(varying) == 1 and dims[varying[0]].startswith("grid_"):
            i = varying[0]
            dims[i] = name
            coords[name] = np.moveaxis(full, i, 0).reshape(full.shape[i], -1)[:, 0]
    data = {}
    for name, meaning in _MEANING.items():
        if hasattr(run, name):
            data[name] = ((*dims, "layer"), getattr(run, name), {"long_name": meaning, "units": "1"})
    if grid:
        data["status"] = (tuple(dims), run.status, {"long_name": "what happened"})
    attrs = {"depth": run.depth, "start": run.start, "latex": run.recursion.latex()}
    attrs |= {name: float(v) for name, v in run.parameters.items() if v.ndim == 0}
    return xarray.Dataset(data, coords, attrs)
