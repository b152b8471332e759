r"""Results in numbers as tables, in LaTeX and in a notebook: runs, phase diagrams, checks, sensitivities, budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from html import escape
from typing import Any, Final

import numpy as np
import sympy as sp

from meanfield import symbols
from meanfield.analysis.critical_points import Critical
from meanfield.analysis.growth_check import Check, Fit
from meanfield.analysis.growth_laws import GrowthLaw
from meanfield.analysis.phases import PhaseDiagram
from meanfield.analysis.points import FixedPoint, FixedPoints
from meanfield.analysis.sensitivities import Sensitivity
from meanfield.analysis.shaped import Shaped
from meanfield.budgets import Budget, Cost
from meanfield.characters import escaped
from meanfield.faces import html, latex
from meanfield.numeric.gram_runs import GramRun, PairRun
from meanfield.numeric.runs import Run
from meanfield.reporting.growth_text import formula
from meanfield.reporting.quantities import MAPS, PAIRS, RUNS, SHAPES
from meanfield.reporting.tabular import Table, number, picked
from meanfield.scaling.conventions import ConventionTable
from meanfield.scaling.gated_attention import GAUCurve, GAUMagnitudes
from meanfield.scaling.gradients import GradientCheck

__all__ = ["STARTS", "letter", "tabulated"]

#: rows of a table over layers, or over a grid
LAYERS: Final = 9
SETTINGS: Final = 24
#: most quantities side by side; of more each has a row, over so many layers
COLUMNS: Final = 7
ACROSS: Final = 4
#: what a start is called in a formula
STARTS: Final = {"q": "q_0", "p": "p_0", "c": "c_0", "gap": "1 - c_0", "q2": "q_{2,0}"}
#: largest matrix that is written out
TOKENS: Final = 10


def letter(name: str) -> str:
    """A parameter, in math mode."""
    return f"${latex(symbols.parameter(name))}$"


@singledispatch
def tabulated(thing: Any) -> Table:
    """The table of a result."""
    raise TypeError(f"no table for {type(thing).__name__}")


def _over_layers(run: Run | PairRun, names: list[str]) -> Table:
    known = RUNS if isinstance(run, Run) else RUNS | PAIRS
    if len(names) > COLUMNS:
        at = picked(len(run.layers), ACROSS)
        lines = [[f"${known[name].latex}$", *(number(float(getattr(run, name)[i])) for i in at)] for name in names]
        return Table(["$l$", *(str(run.layers[i]) for i in at)], lines, "l" + "r" * len(at))
    rows = [[str(run.layers[i]), *(number(float(getattr(run, name)[i])) for name in names)] for i in picked(len(run.layers), LAYERS)]
    return Table(["$l$", *(f"${known[name].latex}$" for name in names)], rows, "r" * (1 + len(names)))


def _over_grid(run: Run | PairRun | GramRun, grid: tuple[int, ...], last: Mapping[str, np.ndarray]) -> Table:
    """a row for each setting: what varies, and the values at the end"""
    varied = {letter(name): np.broadcast_to(v, grid).ravel() for name, v in run.parameters.items() if np.ndim(v)}
    varied |= {} if isinstance(run, GramRun) else _varied_starts(run, grid)
    words = np.broadcast_to(np.asarray(run.status), grid).ravel()
    header = [*varied, *last, "status"]
    rows = [
        [*(number(float(v[i])) for v in varied.values()), *(number(float(v.ravel()[i])) for v in last.values()), escaped(str(words[i]))]
        for i in picked(words.size, SETTINGS)
    ]
    return Table(header, rows, "r" * (len(header) - 1) + "l")


def _varied_starts(run: Run | PairRun, grid: tuple[int, ...]) -> dict[str, np.ndarray]:
    """the start of each setting, where it varies: by the first layer, where that was kept, else by the coordinates of the grid"""
    if run.layers[0] == 0:
        first = {name: getattr(run, name)[..., 0].ravel() for name in ("q", "q2", "c", "gap") if name in run.outline.quantities}
        varied = {f"${STARTS[name]}$": v for name, v in first.items() if np.unique(v).size > 1}
        return {title: v for title, v in varied.items() if title != f"${STARTS['gap']}$" or f"${STARTS['c']}$" not in varied}
    found = {}
    for name, title in STARTS.items():
        if f"{name}_0" in run.axes.coords:
            own, values = run.axes.coords[f"{name}_0"]
            order = [own.index(dim) for dim in run.axes.dims if dim in own]
            shape = [size if dim in own else 1 for dim, size in zip(run.axes.dims, grid, strict=True)]
            found[f"${title}$"] = np.broadcast_to(np.transpose(values, order).reshape(shape), grid).ravel()
    return found


def _at_the_end(text: str) -> str:
    """a quantity over layers, at the last of them"""
    return text.replace("_l", "_L").replace(",l}", ",L}")


@tabulated.register(PairRun)
@tabulated.register(Run)
def _(run: Run | PairRun) -> Table:
    grid = run.q.shape[:-1]
    known = RUNS if isinstance(run, Run) else RUNS | PAIRS
    names = [name for name in (known if isinstance(run, Run) else run.outline.quantities) if hasattr(run, name)]
    names = [name for name in names if name not in ("log_apjn_forward", "status")]
    if not grid:
        return _over_layers(run, names)
    moments = [name for name in names if name in ("q", "q2", "p", "c")]
    last = {f"${_at_the_end(known[name].latex)}$": getattr(run, name)[..., -1] for name in moments} | {
        r"$\ln\,\mathcal{J}^{\,L,0}$": run.log_apjn[..., 0]
    }
    return _over_grid(run, grid, last)


@tabulated.register
def _(run: GramRun) -> Table:
    """the Gram matrix at the end, or over a grid its mean variance"""
    grid, n = run.gram.shape[:-3], run.gram.shape[-1]
    if grid:
        return _over_grid(run, grid, {"$q_L$": run.q[..., -1], r"$\ln\,\mathcal{J}^{\,L,0}$": run.log_apjn[..., 0]})
    at = picked(n, TOKENS)
    rows = [[f"${i + 1}$", *(number(float(run.gram[-1, i, j]), 5) for j in at)] for i in at]
    return Table([f"$G^{{({run.layers[-1]})}}_{{ij}}$", *(f"$j = {j + 1}$" for j in at)], rows, "r" * (len(at) + 1))


@tabulated.register
def _(diagram: PhaseDiagram) -> Table:
    """points of the critical lines"""
    points = [line[i] for line in diagram.critical_lines for i in picked(len(line), LAYERS)]
    rows = [[number(float(a)), number(float(b)), "$1$"] for a, b in points] or [["no line", "", ""]]
    return Table([*map(letter, diagram.axes), r"$\chi$"], rows, "rrr")


@tabulated.register
def _(check: Check) -> Table:
    return _compared(check.fits, check.not_compared)


@tabulated.register
def _(fit: Fit) -> Table:
    return _compared((fit,))


def _compared(fits: Sequence[Fit], not_compared: Sequence[str] = ()) -> Table:
    quantities = {"q": "$q$", "1 - c": "$1 - c$", "J": r"$\mathcal{J}$"}
    rows = [
        [quantities[f.quantity], escaped(f.name), number(f.predicted, 6), number(f.fitted, 6), number(f.error, 1), escaped(f.verdict)]
        for f in fits
    ]
    rows += [[quantities[name], "", "", "", "", "not compared"] for name in not_compared]
    return Table(["", "constant", "predicted", "fitted", "error", "verdict"], rows, "llrrrl")


@tabulated.register
def _(found: Sensitivity) -> Table:
    columns = {"q_L": found.dq, r"\ln \mathcal{J}^{\,L,0}": found.dlog_apjn} | ({} if found.dgap is None else {"(1 - c_L)": found.dgap})
    rows = [[_start(name), *(_range(by_name[name]) for by_name in columns.values())] for name in found.dq]
    words = sorted(set(np.ravel(found.status).tolist()) - {"ok"})
    rows += [[f"status: {escaped(', '.join(words))}", *[""] * len(columns)]] * bool(words)
    return Table([r"$\partial/\partial$", *(f"${c}$" for c in columns)], rows, "l" + "r" * len(columns))


def _range(values: Any) -> str:
    """a number, or over a grid the ends between which they are"""
    known = np.ravel(values)[~np.isnan(np.ravel(values))]
    low, high = (float(known.min()), float(known.max())) if known.size else (np.nan, np.nan)
    return number(low) if low == high or np.isnan(low) else rf"{number(low)} \dots\ {number(high)}"


def _start(name: str) -> str:
    return {"q": "$q_0$", "gap": "$1 - c_0$"}.get(name) or letter(name)


@latex.register
def _(found: Budget) -> str:
    return rf"\text{{parameters}} = {latex(found.parameters)},\qquad \text{{operations per token}} = {latex(found.flops)}"


@latex.register
def _(found: Cost) -> str:
    return latex(Budget(found.parameters, found.flops, found))


@tabulated.register
def _(curve: GAUCurve) -> Table:
    rows = [[number(float(a)), number(float(d)), number(float(f))] for a, d, f in zip(curve.at, curve.diagonal, curve.full, strict=True)]
    return Table([letter(curve.over), "diagonal", "full"], [rows[i] for i in picked(len(rows), SETTINGS)], "rrr")


@tabulated.register
def _(sizes: GAUMagnitudes) -> Table:
    rows = {"$A_{ii}$": sizes.A_ii, "$A_{ij}$": sizes.A_ij, r"$\mathrm{RMS}\,O$": sizes.rms, r"$\cos$": sizes.cosine}
    return Table(("", ""), [[name, number(v)] for name, v in rows.items()], "lr")


@tabulated.register
def _(found: FixedPoints) -> Table:
    return _points(found)


@tabulated.register
def _(found: FixedPoint) -> Table:
    return _points((found,))


def _points(found: Sequence[FixedPoint]) -> Table:
    names = ("q", "c", "chi", "chi_parallel", "xi_q", "xi_c")
    rows = [[*(number(float(getattr(f, name))) for name in names), f.kind + f", {f.status}" * (f.status != "isolated")] for f in found]
    return Table([*(f"${MAPS[name].latex.partition(' =')[0]}$" for name in names), ""], rows, "rrrrrrl")


@tabulated.register
def _(shaped: Shaped) -> Table:
    found = (shaped, *shaped.others)
    columns = [*(f"${quantity.latex}$" for quantity in SHAPES.values()), *map(letter, shaped.parameters), ""]
    rows = [[*(number(getattr(s, name)) for name in SHAPES), *map(number, s.parameters.values()), s.status] for s in found]
    return Table(columns, rows, "r" * (len(columns) - 1) + "l")


@tabulated.register
def _(check: GradientCheck) -> Table:
    columns = zip(check.N, check.alpha, check.lam, check.apjn, check.c, strict=True)
    rows = [[number(float(v)) for v in row] for row in columns]
    return Table(
        ["$N$", r"$\alpha$", r"$\lambda$", r"$\mathcal{J}^{\,L,0}$", "$c_L$"], [rows[i] for i in picked(len(rows), SETTINGS)], "rrrrr"
    )


@tabulated.register
def _(table: ConventionTable) -> Table:
    rows = [
        [f"{title}: {escaped(t.name)}", *(number(float(values[c.name][t.name])) for c in table.conventions)]
        for title, values in (("standard deviation", table.std), ("spectral norm", table.spectral_norm), ("update", table.update))
        for t in table.tensors
    ]
    return Table(["", *(c.name for c in table.conventions)], rows, "l" + "r" * len(table.conventions))


@tabulated.register
def _(found: Critical) -> Table:
    return Table(["", ""], [[letter(name), f"${latex(sp.sympify(value))}$"] for name, value in found.items()], "lr")


@tabulated.register
def _(law: GrowthLaw) -> Table:
    return Table(["", ""], [[g.kind, f"${formula(g)}$"] for g in (law.q, law.gap, law.apjn)], "ll")


html.register(GrowthLaw, lambda thing: tabulated(thing).html)

for _html_only in (Critical, FixedPoint, FixedPoints, Shaped, GradientCheck, ConventionTable):
    html.register(_html_only, lambda thing: f"<p>{escape(str(thing).splitlines()[0])}</p>\n{tabulated(thing).html}")

for _kind in (Run, PairRun, GramRun, PhaseDiagram, Check, Sensitivity, GAUCurve, GAUMagnitudes):
    latex.register(_kind, lambda thing: tabulated(thing).latex)
    html.register(_kind, lambda thing: f"<p>{escape(str(thing))}</p>\n{tabulated(thing).html}")

latex.register(Fit, lambda thing: tabulated(thing).latex)
