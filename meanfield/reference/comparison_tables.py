"""A comparison as LaTeX, HTML and a labelled dataset."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from meanfield import faces
from meanfield.reference.comparison import Comparison
from meanfield.reporting.quantities import RUNS
from meanfield.reporting.tables import labelled
from meanfield.reporting.tabular import Table, number, picked

if TYPE_CHECKING:
    import xarray

__all__: list[str] = []


@faces.latex.register(Comparison)
def _(found: Comparison) -> str:
    return _table(found).latex


@faces.html.register(Comparison)
def _(found: Comparison) -> str:
    return f"<p>{escape(found.verdict)}</p>\n{_table(found).html}"


def _table(found: Comparison) -> Table:
    """theory, measurement with its standard error, and z, over some of the layers"""
    letters = {"q": "$q_l$", "p": "$p_l$", "ln J": f"${RUNS['log_apjn'].latex}$"}
    rows = []
    for i in picked(len(found.wide.layers), 9):
        row = [str(found.wide.layers[i])]
        for d in found.differences.values():
            row += [
                number(float(d.theory[i]), 5),
                rf"{number(float(d.measured[i]), 5)} $\pm$ {number(float(d.error[i]), 1)}",
                f"${d.z[i]:+.1f}$",
            ]
        rows.append(row)
    heads = [cell for name in found.differences for cell in (letters[name], "measured", "$z$")]
    return Table(["$l$", *heads], rows, "r" * (1 + len(heads)))


_PARTS = {
    "theory": "at infinite width",
    "measured": "mean over the networks",
    "error": "its standard error",
    "bias": "what the finite width adds",
    "z": "(measured - bias - theory) in standard errors",
}


@faces.dataset.register(Comparison)
def _(found: Comparison) -> xarray.Dataset:
    """over (quantity, layer)"""
    differences = {"q": found.q, "p": found.p, "log_apjn": found.log_apjn}
    kept = {name: d for name, d in differences.items() if d is not None}
    data = {
        part: (("quantity", "layer"), np.array([getattr(d, part) for d in kept.values()]), {"long_name": meaning, "units": "1"})
        for part, meaning in _PARTS.items()
    }
    coords = {"quantity": list(kept), "layer": found.wide.layers}
    latex = ", ".join(RUNS[name].latex for name in kept)
    about = {"width": found.wide.width, "samples": found.wide.samples, "start": found.wide.start, "verdict": found.verdict}
    return labelled(data, coords, {**about, "latex": latex})
