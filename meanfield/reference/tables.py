"""Measurements, descriptions and initialisations as LaTeX and HTML."""

from __future__ import annotations

from html import escape

from meanfield import faces
from meanfield.reference.description import Description
from meanfield.reference.initialisation import Initialisation
from meanfield.reference.measurement import Measurement
from meanfield.reporting.tabular import Table, escaped, number, picked

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


faces.latex.register(Measurement, lambda seen: _measured(seen).latex)
faces.html.register(Measurement, lambda seen: f"<p>{escape(repr(seen).splitlines()[0])}</p>\n{_measured(seen).html}")
faces.latex.register(Initialisation, lambda done: _changed(done).latex)
faces.html.register(Initialisation, lambda done: _changed(done).html)
faces.latex.register(Description, lambda found: faces.latex(found.net))
