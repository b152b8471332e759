"""Results as labelled arrays: an xarray dataset with units, meaning and LaTeX of each quantity, and the version that computed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield import __version__, symbols
from meanfield.analysis.growth_check import Check
from meanfield.analysis.phases import PhaseDiagram
from meanfield.analysis.sensitivities import Sensitivity
from meanfield.faces import dataset, latex
from meanfield.numeric.gram_runs import GramRun, PairRun
from meanfield.numeric.runs import Run
from meanfield.numeric.sweeps import Sweep
from meanfield.reporting.quantities import MAPS, PAIRS, RUNS, TOKENS, Quantity
from meanfield.scaling.gated_attention import GAUCurve

if TYPE_CHECKING:
    import xarray

__all__ = ["labelled", "require_xarray"]

_STATUS = {"long_name": "what happened"}


def require_xarray() -> None:
    """Raise ImportError with the command that installs xarray (and pandas) if it is missing."""
    try:
        import pandas  # noqa: F401
        import xarray  # noqa: F401
    except ImportError as error:
        raise ImportError('labelled arrays need xarray: pip install "meanfield-nn[xarray]"', name="xarray") from error


def labelled(data: Mapping[str, Any], coords: Mapping[str, Any], attrs: Mapping[str, Any]) -> xarray.Dataset:
    """A dataset that carries the version; the coordinates named as parameters carry what these mean."""
    require_xarray()
    import xarray

    result = xarray.Dataset(data, coords, {"meanfield_version": __version__, **attrs})
    for name in result.coords:
        entry = symbols.TABLE.get(str(name))
        if entry is not None:
            result[name].attrs |= {"long_name": entry.meaning, "units": "1", "latex": entry.latex}
    if "layer" in result.coords:
        result["layer"].attrs |= {"long_name": "repeats of the block", "units": "1", "latex": "l"}
    return result


def _attrs(quantity: Quantity) -> dict[str, str]:
    return {"long_name": quantity.meaning, "units": "1", "latex": quantity.latex}


def _numbers(parameters: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(v) for name, v in parameters.items() if np.ndim(v) == 0}


@dataset.register(GramRun)
@dataset.register(PairRun)
@dataset.register(Run)
@dataset.register(Sweep)
def _(run: Run | PairRun | GramRun | Sweep) -> xarray.Dataset:
    """over (grid dimensions, layer, ...); a parameter that varies along one grid dimension names it"""
    outline, axes = run.outline, run.axes
    known = RUNS | (TOKENS if "gram" in outline.quantities else PAIRS)
    data: dict[str, Any] = {
        name: ((*axes.dims, *own), getattr(run, name), _attrs(known[name]) if name in known else _STATUS)
        for name, own in outline.quantities.items()
    }
    used = {dim for own in outline.quantities.values() for dim in own}
    coords: dict[str, Any] = {**axes.coords, **{dim: values for dim, values in outline.coords.items() if dim in used}}
    attrs: dict[str, object] = {"network": str(run.net), "depth": run.depth, "latex": latex(run.net)}
    if not isinstance(run, PairRun):
        attrs["start"] = run.start
    return labelled(data, coords, attrs | _numbers(run.parameters))


@dataset.register(PhaseDiagram)
def _(diagram: PhaseDiagram) -> xarray.Dataset:
    """over the two parameters; each critical line is an attribute, its points (first, second) in a row"""
    names = tuple(diagram.axes)
    data: dict[str, Any] = {name: (names, getattr(diagram, name), _attrs(quantity)) for name, quantity in MAPS.items()}
    data["phase"] = (names, diagram.phase, {"long_name": "what signals do"})
    data |= {f"growth_{name}": (names, words, {"long_name": f"growth of {name} over depth"}) for name, words in diagram.growth.items()}
    attrs: dict[str, object] = {"network": str(diagram.recursion.block), "latex": diagram.recursion.latex(), "start": diagram.start}
    attrs |= diagram.parameters
    attrs |= {f"critical_line_{i}": line.ravel() for i, line in enumerate(diagram.critical_lines)}
    return labelled(data, dict(diagram.axes), attrs)


@dataset.register(Check)
def _(check: Check) -> xarray.Dataset:
    """over the constants of a growth law"""
    meanings = {"predicted": "by the law", "fitted": "over the run", "change": "of the fit from a run a quarter as long"}
    data: dict[str, Any] = {
        name: (("constant",), [getattr(f, name) for f in check.fits], {"long_name": meaning, "units": "1"})
        for name, meaning in meanings.items()
    }
    data["verdict"] = (("constant",), [f.verdict for f in check.fits], _STATUS)
    coords = {"constant": [f"{f.quantity} {f.name}" for f in check.fits]}
    return labelled(
        data, coords, {"network": str(check.law.block), "depth": check.run.depth, "latex": check.law.latex(), **check.parameters}
    )


@dataset.register(Sensitivity)
def _(found: Sensitivity) -> xarray.Dataset:
    """values over the grid, derivatives over (with_respect_to, grid)"""
    dims = tuple(f"grid_{i}" for i in range(np.ndim(found.q)))
    values = {"q": found.q, "log_apjn": found.log_apjn} | ({} if found.gap is None else {"gap": found.gap})
    slopes = {"dq": found.dq, "dlog_apjn": found.dlog_apjn} | ({} if found.dgap is None else {"dgap": found.dgap})
    data: dict[str, Any] = {
        name: (dims, v, {"long_name": f"{RUNS[name].meaning}, at the last layer", "units": "1"}) for name, v in values.items()
    }
    for name, by_name in slopes.items():
        meaning = f"derivative of {name[1:]} at the last layer"
        data[name] = (("with_respect_to", *dims), np.array(list(by_name.values())), {"long_name": meaning, "units": "1"})
    return labelled(data, {"with_respect_to": list(found.dq)}, {"depth": found.depth})


@dataset.register(GAUCurve)
def _(curve: GAUCurve) -> xarray.Dataset:
    data = {name: ((curve.over,), getattr(curve, name), {"long_name": curve.quantity, "units": "1"}) for name in ("diagonal", "full")}
    return labelled(data, {curve.over: curve.at}, {})
