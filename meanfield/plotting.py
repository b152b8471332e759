r"""Figures of runs: functions that take and return a matplotlib axes. matplotlib is imported inside them (extra `plot`).

Colours are safe for colour-blind readers: viridis without its palest end where a parameter varies, the palette of Okabe and Ito for
single curves.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sympy as sp

from meanfield import symbols
from meanfield.analysis.growth_check import Check
from meanfield.analysis.phases import PhaseDiagram
from meanfield.faces import plot
from meanfield.numeric.beside import Beside
from meanfield.numeric.gram_runs import GramRun, PairRun
from meanfield.numeric.runs import Run
from meanfield.scaling.gated_attention import GAUCurve

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.cm
    import matplotlib.colorbar

__all__ = [
    "DISTINCT",
    "LABELS",
    "PHASE_LABELS",
    "colour_bar",
    "colour_scale",
    "draw_grid",
    "plot_check",
    "plot_phases",
    "plot_run",
    "require_matplotlib",
]

#: what can be plotted, and how its axis is labelled
LABELS: Final = {
    "q": r"$q_l$",
    "p": r"$p_l$",
    "c": r"$c_l = p_l/q_l$",
    "gap": r"$1 - c_l$",
    "log_apjn": r"$\ln\,\mathcal{J}^{\,L,l}$",
    "log_apjn_forward": r"$\ln\,\mathcal{J}^{\,l,0}$",
    "log_chi_product": r"$\sum_{k \geq l} \ln\,\chi_k$",
}

#: what else two inputs have
PAIR_LABELS: Final = {
    "q2": r"$q_{2,l}$",
    "log_apjn_2": r"$\ln\,\mathcal{J}_2^{\,L,l}$",
    "ntk": r"$\Theta_l$",
    "ntk_2": r"$\Theta_{2,l}$",
    "ntk_pair": r"$\Theta_{12,l}$",
}

#: colours that stay apart for colour-blind readers (Okabe & Ito 2008), black first
DISTINCT: Final = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

#: curves up to which a legend names them; a colour bar beyond
LEGEND: Final = 7


def require_matplotlib() -> None:
    """Raise ImportError with the command that installs matplotlib if it is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError('figures need matplotlib: pip install "meanfield-nn[plot]"', name="matplotlib") from error


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
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")
    G = run.gram[layer]
    size = np.sqrt(np.diag(G))
    low = float((G / np.outer(size, size)).min())
    ends = (0.5, len(G) + 0.5, len(G) + 0.5, 0.5)
    image = ax.imshow(G / np.outer(size, size), cmap="viridis", vmin=min(low, 0.0), vmax=1.0, extent=ends)
    bar = ax.figure.colorbar(image, ax=ax)
    bar.set_label(r"$G_{ij}/\sqrt{G_{ii} G_{jj}}$")
    ax.set(xlabel="token $j$", ylabel="token $i$", title=f"layer {int(run.layers[layer])}")
    return ax


@plot.register(GAUCurve)
def plot_gau(curve: GAUCurve, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
    """The published estimate of a gated attention unit and its whole law, over tokens or gains; sizes on logarithmic axes."""
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")
    for values, label, colour in ((curve.diagonal, "diagonal", DISTINCT[1]), (curve.full, "full", DISTINCT[0])):
        ax.plot(curve.at, values, label=label, color=colour)
    ax.set(xlabel=LABELS.get(curve.over, symbols.TABLE[curve.over].latex.join("$$")), ylabel=curve.quantity, xscale="log")
    if curve.over == "n":
        ax.set_yscale("log")
    ax.legend()
    return ax


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
        An unknown quantity, one that a run of a single input does not have, a grid of more than one dimension, or a run with
        record="last".
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
    if len(run.layers) == 1 and run.depth > 0:
        raise ValueError("this run kept one layer and a figure is over depth: pass record='all' or a whole number to propagate")
    if not hasattr(run, quantity):
        raise ValueError(f"quantity = {quantity!r}: this run has a single input; give propagate one of p, c or gap")
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")
    values = np.asarray(getattr(run, quantity))
    if grid:
        name, settings = _varying(run)
        draw_grid(ax, run.layers, values, settings, name)
    else:
        ax.plot(run.layers, values, color=DISTINCT[0], **_style(run.layers))
    if quantity == "gap" and bool(np.nanmin(values) > 0):
        ax.set_yscale("log")
    ax.set_xlabel("$l$ (blocks)")
    ax.set_ylabel(labels[quantity])
    return ax


@plot.register(Check)
def plot_check(check: Check, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
    """ln J^{l, 0} of a run over l, and the predicted asymptote, whose free constant is set at the last layer."""
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")
    run, law = check.run, check.law.apjn
    later = run.layers[run.layers > 0]
    ax.plot(later, run.log_apjn_forward[run.layers > 0], color=DISTINCT[0], label="recursion", linewidth=1.4)
    if law.asymptote is not None:
        values = {s: sp.Float(check.parameters[s.name]) for s in law.asymptote.free_symbols if s.name in check.parameters}
        predicted = (
            sp.lambdify(sp.Symbol("l", positive=True), sp.N(law.asymptote.xreplace(values)), "numpy")(later.astype(float)) + 0.0 * later
        )
        shift = run.log_apjn_forward[-1] - predicted[-1]
        ax.plot(later, predicted + shift, color=DISTINCT[2], linestyle="--", label=f"predicted ({law.kind})", linewidth=1.4)
    ax.set_xscale("log")
    ax.set_xlabel("$l$ (blocks)")
    ax.set_ylabel(LABELS["log_apjn_forward"])
    ax.legend(frameon=False)
    return ax


@plot.register(Beside)
def plot_beside(beside: Beside, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
    """Theory as a line in the band of one standard deviation of a single draw, measurements as points with their standard errors."""
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")
    theory, band = beside.theory, beside.scatter
    ax.fill_between(beside.layers, theory - band, theory + band, color=DISTINCT[6], alpha=0.4, linewidth=0, label=beside.scatter_is)
    ax.plot(beside.layers, theory, color=DISTINCT[0], linewidth=1.4, label="theory")
    ax.errorbar(
        beside.layers, beside.measured, beside.error, color=DISTINCT[2], fmt="o", markersize=3.5, capsize=2, linewidth=1, label="measured"
    )
    ax.set_xlabel("$l$ (blocks)")
    ax.set_ylabel(LABELS[beside.quantity])
    ax.set_title(textwrap.fill(beside.title, 70), fontsize="small")
    ax.legend(frameon=False)
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


def colour_scale(settings: np.ndarray) -> matplotlib.cm.ScalarMappable:
    """Viridis from its dark end to a green that is still seen on white, over the range of `settings`."""
    import matplotlib
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.88, 256))
    return ScalarMappable(Normalize(float(np.min(settings)), float(np.max(settings))), ListedColormap(shades))


def colour_bar(axes: Any, scale: matplotlib.cm.ScalarMappable, name: str) -> matplotlib.colorbar.Colorbar:
    """A colour bar beside one or several axes of a figure."""
    bar: matplotlib.colorbar.Colorbar = np.ravel(axes)[0].figure.colorbar(scale, ax=axes, pad=0.02, label=name)
    return bar


def _style(layers: Any) -> dict[str, Any]:
    return {"linewidth": 1.4, "marker": "o" if len(layers) == 1 else None}


#: what a phase diagram can show, and how its colour bar is labelled
PHASE_LABELS: Final = {
    "chi": r"$\chi = \partial c'/\partial c$ at $c = 1$",
    "chi_parallel": r"$\chi_\parallel = \partial q'/\partial q$",
    "xi_c": r"$\xi_c$",
    "xi_q": r"$\xi_q$",
    "c": r"$c^*$",
    "gap": "$1 - c^*$",
    "q": "$q^*$",
}


@plot.register(PhaseDiagram)
def plot_phases(diagram: PhaseDiagram, ax: matplotlib.axes.Axes | None = None, quantity: str = "chi") -> matplotlib.axes.Axes:
    r"""A quantity over the two parameters, with the critical line; where q grows without bound the map is hatched.

    Raises
    ------
    ValueError
        An unknown quantity.
    ImportError
        matplotlib is not installed.
    """
    classes = {f"growth_{name}": words for name, words in diagram.growth.items()}
    if quantity not in PHASE_LABELS and quantity not in classes:
        raise ValueError(f"quantity = {quantity!r}: expected one of {', '.join([*PHASE_LABELS, *classes])}")
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")
    (first, x), (second, y) = diagram.axes.items()
    if quantity in classes:
        _draw_classes(ax, x, y, classes[quantity])
    else:
        _draw_quantity(ax, diagram, quantity)
    for i, line in enumerate(diagram.critical_lines):
        ax.plot(*line.T, color=DISTINCT[0], linewidth=1.8, label=None if i else r"$\chi = 1$")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="best")
    names = symbols.latex_names()
    for set_label, name in ((ax.set_xlabel, first), (ax.set_ylabel, second)):
        symbol = symbols.parameter(name)
        set_label(f"${names.get(symbol, sp.latex(symbol))}$")
    return ax


def _draw_classes(ax: matplotlib.axes.Axes, x: np.ndarray, y: np.ndarray, words: np.ndarray) -> None:
    from matplotlib.colors import ListedColormap, to_rgb

    for word, colour in zip(np.unique(words), DISTINCT[1:], strict=False):
        light = [0.45 + 0.55 * c for c in to_rgb(colour)]
        ax.pcolormesh(x, y, np.where(words == word, 1.0, np.nan).T, cmap=ListedColormap([light]), shading="nearest", rasterized=True)
        ax.plot([], [], linestyle="none", marker="s", color=light, label=str(word))


def _draw_quantity(ax: matplotlib.axes.Axes, diagram: PhaseDiagram, quantity: str) -> None:
    from matplotlib.colors import CenteredNorm, Colormap, LogNorm, Normalize

    x, y = diagram.axes.values()
    values = np.where(diagram.phase == "divergent", np.nan, getattr(diagram, quantity))
    seen = values[np.isfinite(values)]
    colours: str | Colormap = colour_scale(np.zeros(1)).get_cmap()
    norm = Normalize()
    if quantity == "chi" and seen.size and seen.min() < 1 < seen.max():
        colours, norm = "PuOr_r", CenteredNorm(1.0, float(max(1 - seen.min(), seen.max() - 1)))
    elif quantity in ("xi_c", "xi_q", "q") and seen.size and (seen > 0).all():
        norm = LogNorm(np.quantile(seen, 0.001), np.quantile(seen, 0.999))
    mesh = ax.pcolormesh(x, y, values.T, cmap=colours, norm=norm, shading="nearest", rasterized=True)
    ax.figure.colorbar(mesh, ax=ax, pad=0.02, label=PHASE_LABELS[quantity])
    if (diagram.phase == "divergent").any():
        ax.contourf(x, y, (diagram.phase == "divergent").T.astype(float), [0.5, 1.5], colors="none", hatches=["///"])
        ax.plot([], [], linestyle="none", marker="$///$", color=DISTINCT[0], label=r"$q \to \infty$")


def _varying(run: Run | PairRun) -> tuple[str, np.ndarray]:
    """the label and values of what varies along the grid: a parameter, else the variance or correlation at the start, else a count"""
    count = run.q.shape[0]
    names = symbols.latex_names()
    for letter, value in run.parameters.items():
        if value.ndim and (value.size > 1 or count == 1):
            symbol = symbols.parameter(letter)
            return f"${names.get(symbol, sp.latex(symbol))}$", np.broadcast_to(value, (count,))
    if run.layers[0] == 0:
        starts = {r"$q_0$": run.q[:, 0]}
        if hasattr(run, "gap"):
            starts["$1 - c_0$"] = run.gap[:, 0]
        for label, start in starts.items():
            if np.ptp(start) > 0:
                return label, start
    return "setting", np.arange(1, count + 1)
