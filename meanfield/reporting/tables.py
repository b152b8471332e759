"""Runs and phase diagrams as labelled arrays."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield.analysis.phases import PhaseDiagram
from meanfield.faces import dataset
from meanfield.numeric.gram_runs import GramRun, PairRun
from meanfield.numeric.runs import Run

if TYPE_CHECKING:
    import xarray

__all__ = ["phases_to_xarray", "to_xarray"]

_MEANING = {
    "q": "variance of a component of a token",
    "p": "covariance of a component between two tokens",
    "c": "correlation p/q",
    "gap": "1 - p/q",
    "log_apjn": "ln J^{L,l}",
    "log_apjn_forward": "ln J^{l,0}",
    "log_chi_product": "sum of ln chi from l to L",
}


_PAIR_MEANING = {
    "q2": "variance of the second input",
    "log_apjn_2": "ln J^{L,l} of the second input",
    "ntk": "neural tangent kernel of the first input",
    "ntk_2": "neural tangent kernel of the second input",
    "ntk_pair": "neural tangent kernel between the inputs",
}


def _xarray() -> Any:
    try:
        return importlib.import_module("xarray")
    except ImportError as error:
        raise ImportError('labelled arrays need xarray: pip install "meanfield-nn[xarray]"', name="xarray") from error


@dataset.register(GramRun)
def gram_dataset(run: GramRun) -> xarray.Dataset:
    """A dataset over (grid dimensions, layer, i, j)."""
    library = _xarray()
    dims, coords = _grid_dimensions(run.parameters, run.gram.shape[:-3])
    tokens = np.arange(1, run.gram.shape[-1] + 1)
    coords |= {"layer": run.layers, "i": tokens, "j": tokens}
    data = {
        "gram": ((*dims, "layer", "i", "j"), run.gram, {"long_name": "h_i . h_j / d", "units": "1"}),
        "log_apjn_tokens": ((*dims, "layer", "i"), run.log_apjn_tokens, {"long_name": "ln |g_i|^2/d", "units": "1"}),
        "log_apjn": ((*dims, "layer"), run.log_apjn, {"long_name": "ln J^{L,l}", "units": "1"}),
        "log_apjn_forward": ((*dims, "layer"), run.log_apjn_forward, {"long_name": "ln J^{l,0}", "units": "1"}),
    }
    if dims:
        data["status"] = (tuple(dims), run.status, {"long_name": "what happened"})
    attrs = {"depth": run.depth, "start": run.start} | {name: float(v) for name, v in run.parameters.items() if v.ndim == 0}
    result: xarray.Dataset = library.Dataset(data, coords, attrs)
    return result


@dataset.register(PairRun)
@dataset.register(Run)
def to_xarray(run: Run | PairRun) -> xarray.Dataset:
    """A dataset over (grid dimensions, layer); a parameter that varies along one grid dimension names it."""
    library = _xarray()
    grid = run.q.shape[:-1]
    dims, coords = _grid_dimensions(run.parameters, grid)
    coords["layer"] = run.layers
    data = {}
    for name, meaning in (_MEANING | _PAIR_MEANING).items():
        if hasattr(run, name):
            data[name] = ((*dims, "layer"), getattr(run, name), {"long_name": meaning, "units": "1"})
    if grid:
        data["status"] = (tuple(dims), run.status, {"long_name": "what happened"})
    attrs: dict[str, object] = {"depth": run.depth}
    if isinstance(run, Run):
        attrs |= {"start": run.start, "latex": run.recursion.latex()}
    attrs |= {name: float(v) for name, v in run.parameters.items() if v.ndim == 0}
    result: xarray.Dataset = library.Dataset(data, coords, attrs)
    return result


def _grid_dimensions(parameters: Mapping[str, np.ndarray], grid: tuple[int, ...]) -> tuple[list[str], dict[str, object]]:
    """names of the grid's dimensions, and coordinates for those along which one parameter varies"""
    dims, coords = [f"grid_{i}" for i in range(len(grid))], dict[str, object]()
    for name, value in parameters.items():
        full = np.broadcast_to(value, grid) if value.ndim else value
        varying = [i for i in range(len(grid)) if value.ndim and full.shape[i] > 1 and np.ptp(full, axis=i).max() > 0]
        if len(varying) == 1 and dims[varying[0]].startswith("grid_"):
            i = varying[0]
            dims[i] = name
            coords[name] = np.moveaxis(full, i, 0).reshape(full.shape[i], -1)[:, 0]
    return dims, coords


_PHASES = {
    "q": "fixed point of the variance",
    "c": "fixed point of the correlation",
    "gap": "1 - c*",
    "chi": "dc'/dc at c = 1",
    "chi_parallel": "dq'/dq",
    "xi_c": "depth scale of c",
    "xi_q": "depth scale of q",
    "phase": "what signals do",
}


@dataset.register(PhaseDiagram)
def phases_to_xarray(diagram: PhaseDiagram) -> xarray.Dataset:
    """A dataset over the two parameters; each critical line is an attribute, its points (first, second) in a row."""
    library = _xarray()
    names = tuple(diagram.axes)
    data = {name: (names, getattr(diagram, name), {"long_name": meaning, "units": "1"}) for name, meaning in _PHASES.items()}
    for name, words in diagram.growth.items():
        data[f"growth_{name}"] = (names, words, {"long_name": f"growth of {name} over depth", "units": "1"})
    attrs: dict[str, object] = {"latex": diagram.recursion.latex(), "start": diagram.start, **diagram.parameters}
    attrs |= {f"critical_line_{i}": line.ravel() for i, line in enumerate(diagram.critical_lines)}
    result: xarray.Dataset = library.Dataset(data, dict(diagram.axes), attrs)
    return result
