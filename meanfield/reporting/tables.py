"""Results as labelled arrays: an xarray dataset with units, meaning and LaTeX of each quantity, and the version that computed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sympy as sp

from meanfield import __version__, symbols
from meanfield.analysis.critical_points import Critical
from meanfield.analysis.growth_check import Check
from meanfield.analysis.growth_laws import GrowthLaw
from meanfield.analysis.phases import PhaseDiagram
from meanfield.analysis.points import FixedPoint, FixedPoints
from meanfield.analysis.sensitivities import Sensitivity
from meanfield.analysis.shaped import Shaped
from meanfield.extras import require
from meanfield.faces import dataset, latex
from meanfield.numeric.gram_runs import GramRun, PairRun
from meanfield.numeric.outlines import is_lazy
from meanfield.numeric.runs import Run
from meanfield.numeric.sweeps import Sweep
from meanfield.reporting.quantities import FACTORS, MAPS, PAIRS, RUNS, SHAPES, SLOPE_AT_POINT, TOKENS, Quantity, maps_where
from meanfield.scaling.conventions import ConventionTable
from meanfield.scaling.gated_attention import GAUCurve
from meanfield.scaling.gradients import GradientCheck

if TYPE_CHECKING:
    import xarray

__all__ = ["LIBRARIES", "labelled"]

#: what labelled arrays need
LIBRARIES: Final = ("xarray", "pandas")

_STATUS = {"long_name": "what happened"}


#: dimension -> meaning, LaTeX
_DIMENSIONS: Final = {
    "layer": ("repeats of the block", "l"),
    "i": ("first token", "i"),
    "j": ("second token", "j"),
    "point": ("number of the solution", "k"),
    "condition": ("what is asked of a shape", "i"),
}


def labelled(data: Mapping[str, Any], coords: Mapping[str, Any], attrs: Mapping[str, Any]) -> xarray.Dataset:
    """A dataset that carries the version; the coordinates named as parameters carry what these mean."""
    require("labelled arrays need", *LIBRARIES)
    import xarray

    # what names its dimension is an index, which is held in memory: not what is lazy
    lazy = {name: v for name, v in coords.items() if isinstance(v, tuple) and v[0] == (name,) and is_lazy(v[1])}
    held = {name: v for name, v in coords.items() if name not in lazy}
    result = xarray.Dataset(data, held, {"meanfield_version": __version__, **attrs})
    result = result.assign_coords(xarray.Coordinates(lazy, indexes={}))
    for name in result.coords:
        entry = symbols.TABLE.get(str(name))
        if entry is not None:
            result[name].attrs |= {"long_name": entry.meaning, "units": "1", "latex": entry.latex}
    for name in result.coords.keys() & _DIMENSIONS.keys():
        meaning, letter = _DIMENSIONS[str(name)]
        result[name].attrs |= {"long_name": meaning, "units": "1", "latex": letter}
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
    known = RUNS | FACTORS | (TOKENS if "gram" in outline.quantities else PAIRS)
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
    shown = maps_where(diagram.phase == "apart")
    quantities = {*shown, "status", "phase", "apjn_sign"}
    axes = {f"{name}_0" if name in quantities else name: values for name, values in diagram.axes.items()}
    names = tuple(axes)
    data: dict[str, Any] = {name: (names, getattr(diagram, name), _attrs(quantity)) for name, quantity in shown.items()}
    data["status"] = (names, diagram.status, _STATUS)
    data["phase"] = (names, diagram.phase, {"long_name": "what signals do"})
    data |= {f"growth_{name}": (names, words, {"long_name": f"growth of {name} over depth"}) for name, words in diagram.growth.items()}
    data["apjn_sign"] = (names, diagram.apjn_sign, {"long_name": "1 where J grows over depth, -1 where it decays", "units": "1"})
    attrs: dict[str, object] = {"network": str(diagram.recursion.block), "latex": diagram.recursion.latex(), "start": diagram.start}
    attrs |= diagram.parameters
    attrs |= {f"critical_line_{i}": line.ravel() for i, line in enumerate(diagram.critical_lines)}
    return labelled(data, axes, attrs)


@dataset.register(Check)
def _(check: Check) -> xarray.Dataset:
    """over the constants of a growth law"""
    meanings = {"predicted": "by the law", "fitted": "over the run", "error": "of the fit, from shorter runs"}
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
    data["status"] = (dims, np.broadcast_to(found.status, np.shape(found.q)), _STATUS)
    for name, by_name in slopes.items():
        meaning = f"derivative of {name[1:]} at the last layer"
        data[name] = (("with_respect_to", *dims), np.array(list(by_name.values())), {"long_name": meaning, "units": "1"})
    return labelled(data, {"with_respect_to": list(found.dq)}, {"depth": found.depth})


@dataset.register(Critical)
def _(found: Critical) -> xarray.Dataset:
    """a line over its letter, or points in their order"""
    attrs = {"latex": found.latex(), "status": found.status, "reason": found.reason}
    if any(sp.sympify(v).free_symbols for v in found.values()):
        letter, at, curves = found.curve()
        return labelled({name: ((letter,), values, {"units": "1"}) for name, values in curves.items()}, {letter: at}, attrs)
    points = [found, *found.others] if found else []
    data: dict[str, Any] = {name: (("point",), [float(o[name]) for o in points], {"units": "1"}) for name in found}
    data["chi_parallel"] = (("point",), [float(o.chi_parallel) for o in points], _attrs(MAPS["chi_parallel"]))
    data["status"] = (("point",), [o.status for o in points], _STATUS)
    return labelled(data, {"point": np.arange(len(points))}, attrs)


@dataset.register(GrowthLaw)
def _(law: GrowthLaw) -> xarray.Dataset:
    """over the three quantities; what is symbolic stands as its text, what does not apply as an empty one"""
    laws = {"q": law.q, "gap": law.gap, "apjn": law.apjn}
    texts = {f.name: [getattr(g, f.name) for g in laws.values()] for f in fields(law.q) if f.name != "quantity"}
    data: dict[str, Any] = {name: (("quantity",), ["" if v in (None, ()) else str(v) for v in row]) for name, row in texts.items()}
    bound = {name: str(value) for name, value in law.parameters.items()}
    return labelled(data, {"quantity": list(laws)}, {"network": str(law.block), "latex": law.latex(), **bound})


@dataset.register(FixedPoints)
def _(found: FixedPoints) -> xarray.Dataset:
    """over the points, in their order"""
    return _points(found, {"latex": found.latex(), "status": found.status, "reason": found.reason})


@dataset.register(FixedPoint)
def _(found: FixedPoint) -> xarray.Dataset:
    return _points((found,), {"latex": found.latex()})


def _points(found: Sequence[FixedPoint], attrs: Mapping[str, Any]) -> xarray.Dataset:
    shown = MAPS | {
        "chi": SLOPE_AT_POINT,
        "residual": Quantity("|q'/q - 1| at the point", r"|q'/q^* - 1|"),
    }
    data: dict[str, Any] = {
        name: (("point",), np.array([getattr(f, name) for f in found], dtype=float), _attrs(quantity)) for name, quantity in shown.items()
    }
    data["stable"] = (("point",), np.array([int(f.stable) for f in found]), {"long_name": "1 where it attracts", "units": "1"})
    data["status"] = (("point",), np.array([f.status for f in found], dtype=str), {"long_name": "what kind of root it is"})
    return labelled(data, {"point": np.arange(len(found))}, attrs)


@dataset.register(Shaped)
def _(shaped: Shaped) -> xarray.Dataset:
    """over the solutions, the first that which was answered"""
    found = [shaped, *shaped.others]
    data: dict[str, Any] = {name: (("point",), [getattr(s, name) for s in found], _attrs(quantity)) for name, quantity in SHAPES.items()}
    for name in shaped.parameters:
        data[name] = (("point",), [s.parameters[name] for s in found], {"long_name": "solved for inside the function", "units": "1"})
    data["status"] = (("point",), [s.status for s in found], _STATUS)
    coords: dict[str, Any] = {"point": np.arange(len(found))}
    if shaped.residuals:
        missed = {"long_name": "by how much the condition is missed", "units": "1"}
        data["residual"] = (("point", "condition"), [[float(s.residuals[name]) for name in shaped.residuals] for s in found], missed)
        coords["condition"] = list(shaped.residuals)
    return labelled(
        data, coords, {"activation": str(shaped.phi), "latex": shaped.latex(), "status": shaped.status, "reason": shaped.reason}
    )


@dataset.register(GradientCheck)
def _(check: GradientCheck) -> xarray.Dataset:
    """over the number of blocks"""
    apjn = Quantity("J^{L,0} through the stack", r"\mathcal{J}^{\,L,0}")
    shown = {"alpha": Quantity("weight of the skip", r"\alpha"), "lam": Quantity("gain of a branch", r"\lambda")}
    shown |= {"apjn": apjn, "c": Quantity("correlation of two tokens at the output", "c_L")}
    data: dict[str, Any] = {name: (("N",), np.asarray(getattr(check, name)), _attrs(quantity)) for name, quantity in shown.items()}
    data["holds"] = (("N",), check.holds.astype(int), {"long_name": "1 where J is within the factor of 1", "units": "1"})
    return labelled(data, {"N": check.N}, {"factor": check.factor, "latex": apjn.latex})


@dataset.register(ConventionTable)
def _(table: ConventionTable) -> xarray.Dataset:
    """over (convention, tensor)"""
    names, tensors = [c.name for c in table.conventions], [t.name for t in table.tensors]
    shown = {
        "std": Quantity("initial standard deviation", r"\sigma"),
        "spectral_norm": Quantity("its spectral norm", r"\|W\|_2"),
        "update": Quantity("size of an update", r"\|\Delta W\|"),
    }
    data: dict[str, Any] = {
        name: (("convention", "tensor"), [[float(getattr(table, name)[c][t]) for t in tensors] for c in names], _attrs(quantity))
        for name, quantity in shown.items()
    }
    rest = {"multiplier": Quantity("of a residual branch", "m"), "logit_scale": Quantity("of query times key", "s")}
    data |= {name: (("convention",), [float(getattr(table, name)[c]) for c in names], _attrs(quantity)) for name, quantity in rest.items()}
    return labelled(data, {"convention": names, "tensor": tensors}, {"latex": table.latex()})


@dataset.register(GAUCurve)
def _(curve: GAUCurve) -> xarray.Dataset:
    data = {name: ((curve.over,), getattr(curve, name), {"long_name": curve.quantity, "units": "1"}) for name in ("diagonal", "full")}
    return labelled(data, {curve.over: curve.at}, {"latex": curve.quantity})
