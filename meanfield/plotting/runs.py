r"""Figures of runs: functions that take and return a matplotlib axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meanfield.faces import plot
from meanfield.numeric.gram_runs import GramRun, PairRun
from meanfield.numeric.runs import Run
from meanfield.plotting.style import DISTINCT, LEGEND, colour_bar, colour_scale, given, letter, over_layers
from meanfield.reporting.quantities import PAIRS, RUNS

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["LABELS", "PAIR_LABELS", "draw_grid", "plot_gram", "plot_run"]

#: what can be plotted, and how its axis is labelled; what else two inputs have
LABELS: Final = {name: f"${quantity.latex}$" for name, quantity in RUNS.items()}
PAIR_LABELS: Final = {name: f"${quantity.latex}$" for name, quantity in PAIRS.items()}


@plot.register(PairRun)
@plot.register(Run)
def plot_run(run: Run | PairRun, ax: matplotlib.axes.Axes | None = None, quantity: str = "log_apjn") -> matplotlib.axes.Axes:
    r"""One quantity of a run over depth; one curve for each value of a parameter that was an array.

    Parameters
    ----------
    run : Run or PairRun
        One setting, or a grid of one dimension: up to seven curves get a legend, more a colour bar.
    ax : matplotlib Axes, optional
        Where to draw; a new pyplot figure if left out.
    quantity : str
        "q", "p", "c", "gap", "log_apjn", "log_apjn_forward" or "log_chi_product"; of two inputs also "q2", "log_apjn_2", "ntk",
        "ntk_2", "ntk_pair".

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        An unknown quantity, one that a run of a single input does not have, a grid of more than one dimension or without settings, or
        a run with record="last".
    ImportError
        matplotlib is not installed.
    """
    labels = LABELS | PAIR_LABELS if isinstance(run, PairRun) else LABELS
    if quantity not in labels:
        raise ValueError(f"quantity = {quantity!r}: expected one of {', '.join(labels)}")
    grid = run.q.shape[:-1]
    if len(grid) > 1:
        raise ValueError(
            f"a grid of shape {grid} has {len(grid)} dimensions and a figure shows one: pass one array to propagate, "
            "or select with run.to_xarray()"
        )
    if not run.q.size:
        raise ValueError(f"a grid of shape {grid} has no settings: there is no curve to draw")
    if len(run.layers) == 1 and run.depth > 0:
        raise ValueError("this run kept one layer and a figure is over depth: pass record='all' or a whole number to propagate")
    if not hasattr(run, quantity):
        raise ValueError(f"quantity = {quantity!r}: this run has a single input; give propagate one of p, c or gap")
    ax = given(ax)
    values = np.asarray(getattr(run, quantity))
    if grid:
        name, settings = _varying(run)
        draw_grid(ax, run.layers, values, settings, name)
    else:
        ax.plot(run.layers, values, color=DISTINCT[0], **_style(run.layers))
    if quantity == "gap" and bool(np.nanmin(values) > 0):
        ax.set_yscale("log")
    over_layers(ax)
    ax.set_ylabel(labels[quantity])
    return ax


@plot.register(GramRun)
def plot_gram(run: GramRun, ax: matplotlib.axes.Axes | None = None, layer: int = -1) -> matplotlib.axes.Axes:
    r"""The correlations G_ij / \sqrt{G_ii G_jj} of tokens at one kept layer.

    Parameters
    ----------
    run : GramRun
        One setting.
    ax : matplotlib Axes, optional
    layer : whole number
        Which of the kept layers, counted as an index.

    Raises
    ------
    ValueError
        The run is a grid.
    """
    if run.gram.ndim > 3:
        raise ValueError(f"the run is a grid of shape {run.gram.shape[:-3]}: plot one setting")
    from matplotlib.ticker import MaxNLocator

    ax = given(ax)
    G = run.gram[layer]
    size = np.sqrt(np.diag(G))
    low = float((G / np.outer(size, size)).min())
    ends = (0.5, len(G) + 0.5, len(G) + 0.5, 0.5)
    image = ax.imshow(G / np.outer(size, size), cmap="viridis", vmin=min(low, 0.0), vmax=1.0, extent=ends)
    bar = ax.figure.colorbar(image, ax=ax)
    bar.set_label(r"$G_{ij}/\sqrt{G_{ii} G_{jj}}$")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="token $j$", ylabel="token $i$", title=f"layer {int(run.layers[layer])}")
    return ax


def draw_grid(ax: matplotlib.axes.Axes, layers: Any, values: np.ndarray, settings: np.ndarray, name: str) -> None:
    """One curve for each row of `values`, coloured by `settings`, which the legend or colour bar calls `name`."""
    scale = colour_scale(settings)
    few = len(settings) <= LEGEND
    for setting, curve in zip(settings, values, strict=True):
        label = f"{name} = {setting:.4g}" if few else None
        ax.plot(layers, curve, color=scale.to_rgba(setting), label=label, **_style(layers))
    if few:
        ax.legend(frameon=False)
    else:
        colour_bar(ax, scale, name)


def _style(layers: Any) -> dict[str, Any]:
    return {"linewidth": 1.4, "marker": "o" if len(layers) == 1 else None}


def _varying(run: Run | PairRun) -> tuple[str, np.ndarray]:
    """the label and values of what varies along the grid: a parameter, else the variance or correlation at the start, else a count"""
    count = run.q.shape[0]
    for name, value in run.parameters.items():
        if value.ndim and (value.size > 1 or count == 1):
            return letter(name), np.broadcast_to(value, (count,))
    if run.layers[0] == 0:
        starts = {r"$q_0$": run.q[:, 0]}
        if hasattr(run, "gap"):
            starts["$1 - c_0$"] = run.gap[:, 0]
        for label, start in starts.items():
            if np.ptp(start) > 0:
                return label, start
    return "setting", np.arange(1, count + 1)
