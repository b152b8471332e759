"""Measurements, descriptions and initialisations as LaTeX, HTML and labelled arrays."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meanfield import faces
from meanfield.characters import escaped
from meanfield.reference.description import Description
from meanfield.reference.initialisation import Initialisation
from meanfield.reference.measurement import Measurement
from meanfield.reporting.quantities import RUNS, Quantity
from meanfield.reporting.tables import labelled
from meanfield.reporting.tabular import Table, number, picked

if TYPE_CHECKING:
    import xarray

__all__: list[str] = []


def _measured(seen: Measurement) -> Table:
    """means with their standard errors over some of the layers"""
    columns = {"$q_l$": (seen.q, seen.q_error), "$p_l$": (seen.p, seen.p_error), r"$\mathcal{J}^{\,L,l}$": (seen.apjn, seen.apjn_error)}
    rows = [
        [str(i), *(rf"{number(float(v[i]), 5)} $\pm$ {number(float(e[i]), 1)}" for v, e in columns.values())]
        for i in picked(len(seen.layers), 9)
    ]
    return Table(["$l$", *columns], rows, "rrrr")


def _changed(done: Initialisation) -> Table:
    rows = [
        [escaped(c.slot.name), "left" if c.asked is None else number(c.asked, 4), number(c.before, 4), number(c.after, 4)]
        for c in done.changes
    ]
    return Table(["tensor", "asked", "before", "after"], rows, "lrrr")


#: quantity of a measurement -> its meaning beside those of a run
_SEEN: Final = {
    "q": RUNS["q"],
    "p": RUNS["p"],
    "apjn": Quantity("J^{L,l}, the average squared norm of the partial Jacobian", r"\mathcal{J}^{\,L,l}"),
    "K": Quantity("covariance of the gradients of two tokens, over the variance of that at the output", r"K^{L,l}"),
}


@faces.dataset.register(Measurement)
def _(seen: Measurement) -> xarray.Dataset:
    """means and their standard errors over the layers"""
    data = {}
    for name, quantity in _SEEN.items():
        about = {"long_name": quantity.meaning, "units": "1", "latex": quantity.latex}
        data[name] = (("layer",), getattr(seen, name), about)
        error = {"long_name": f"standard error of {name}", "units": "1", "latex": rf"\Delta\left({quantity.latex}\right)"}
        data[f"{name}_error"] = (("layer",), getattr(seen, f"{name}_error"), error)
    latex = ", ".join(quantity.latex for quantity in _SEEN.values())
    setting: dict[str, Any] = {"width": seen.width, "n": seen.n, "samples": seen.samples, "start": seen.start, "latex": latex}
    return labelled(data, {"layer": seen.layers}, setting)


@faces.dataset.register(Initialisation)
def _(done: Initialisation) -> xarray.Dataset:
    """over the tensors of a model"""
    meanings = {"asked": "standard deviation that the rule asks for", "before": "that of the entries before", "after": "and after"}
    data: dict[str, Any] = {
        name: (
            ("tensor",),
            [np.nan if getattr(c, name) is None else getattr(c, name) for c in done.changes],
            {"long_name": m, "units": "1"},
        )
        for name, m in meanings.items()
    }
    data["part"] = (("tensor",), [c.slot.part for c in done.changes], {"long_name": "what the tensor is"})
    coords = {"tensor": [c.slot.name for c in done.changes]}
    return labelled(data, coords, {"latex": r"\sigma = \mathrm{std}\, W_{ij}"})


faces.latex.register(Measurement, lambda seen: _measured(seen).latex)
faces.html.register(Measurement, lambda seen: f"<p>{escape(repr(seen).splitlines()[0])}</p>\n{_measured(seen).html}")
faces.latex.register(Initialisation, lambda done: _changed(done).latex)
faces.html.register(Initialisation, lambda done: _changed(done).html)
faces.latex.register(Description, lambda found: faces.latex(found.net))
