"""The figures of the reproduction. Each function draws on a figure it is given and knows nothing of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meanfield.numeric.runs import Run
from meanfield.plotting import DISTINCT, LABELS, colour_bar, colour_scale
from meanfield.reproduction.references import CurvePoint
from meanfield.reproduction.systems import ALPHAS, FEW_ALPHA, FEW_SIGMA_QK, FEW_TOKENS, Pair

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STYLE", "drawn", "few_tokens", "gradients", "published", "signal", "toys"]

#: matplotlib settings of every figure; hashsalt makes the SVG files the same from run to run
STYLE: Final[dict[str, Any]] = {
    "font.size": 10.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "axes.labelsize": 11.0,
    "savefig.dpi": 160.0,
    "svg.hashsalt": "meanfield",
}

_CIRCLE: Final[dict[str, Any]] = {"marker": "o", "markersize": 3.2, "markerfacecolor": "white"}
_BASELINE: Final[dict[str, Any]] = {"color": "#000000", "linewidth": 2.0, "zorder": 5}


def drawn(draw: Callable[[Figure], None], width: float, height: float) -> Figure:
    """A new figure of that size in inches with `draw` applied to it, away from pyplot and from the reader's own matplotlib settings."""
    from matplotlib.figure import Figure
    from matplotlib.style import context

    with context(["default", STYLE]):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # the layout is found; saving need not look for it again
    return figure


def _curves(ax: Any, run: Run, quantity: str, **style: Any) -> None:
    """one thin curve for each slope"""
    scale = colour_scale(ALPHAS)
    for alpha, curve in zip(ALPHAS, getattr(run, quantity), strict=True):
        ax.plot(run.layers, curve, color=scale.to_rgba(alpha), **style)


def _slope_bar(axes: Any) -> None:
    colour_bar(axes, colour_scale(ALPHAS), r"$\alpha$").set_ticks([0.1, 0.5, 1.0, 1.5, 2.0])


def _depth_axis(axes: Any, unit: str, step: int) -> None:
    """label and ticks of the axes at the bottom of a figure"""
    from matplotlib.ticker import MultipleLocator

    for ax in np.ravel(axes):
        ax.set_xlabel(f"$l$ ({unit})")
        ax.xaxis.set_major_locator(MultipleLocator(step))


def _baseline(ax: Any, run: Run, quantity: str) -> None:
    ax.plot(run.layers, getattr(run, quantity), label="pre-LN", **_BASELINE)


def signal(figure: Figure, transformers: Mapping[str, Pair]) -> None:
    """q, p and p/q over depth for Derf (above) and DyT (below), pre-LN in black."""
    axes = figure.subplots(2, 3, sharex=True, sharey="col")
    for row, norm in zip(axes, ("Derf", "DyT"), strict=True):
        for ax, quantity in zip(row, ("q", "p", "c"), strict=True):
            _curves(ax, transformers[norm].full, quantity)
            _baseline(ax, transformers["pre-LN"].full, quantity)
            ax.set_ylabel(LABELS[quantity])
            ax.set_title(norm)
    _depth_axis(axes[1], "blocks", 32)
    axes[0, 0].legend()
    _slope_bar(axes)


def gradients(figure: Figure, transformers: Mapping[str, Pair]) -> None:
    r"""ln J for Derf and DyT, and what the coupling of tokens and the derivative of the softmax add to the chi product."""
    left, middle, right = figure.subplots(1, 3)
    middle.sharey(left)
    for ax, norm in ((left, "Derf"), (middle, "DyT")):
        _curves(ax, transformers[norm].full, "log_apjn")
        _baseline(ax, transformers["pre-LN"].full, "log_apjn")
        ax.set_ylabel(LABELS["log_apjn"])
        ax.set_title(norm)
    left.legend()
    _slope_bar([left, middle])
    shown = (("pre-LN", None), ("Derf", 0.5), ("Derf", 1.1), ("DyT", 1.1))
    for (norm, alpha), colour in zip(shown, DISTINCT, strict=False):
        pair = transformers[norm]
        i = () if alpha is None else int(np.flatnonzero(alpha == ALPHAS)[0])
        product = pair.value_path.log_chi_product[i]
        name = norm if alpha is None else rf"{norm}, $\alpha = {alpha}$"
        right.plot(pair.full.layers, 1e3 * (pair.full.log_apjn[i] - product), color=colour, label=name)
        right.plot(pair.full.layers, 1e3 * (pair.value_path.log_apjn[i] - product), color=colour, linestyle="--")
    right.plot([], [], color="#777777", linestyle="--", label="without softmax derivative")
    right.set_ylabel(r"$10^3\,(\ln\,\mathcal{J}^{\,L,l} - \Sigma\,\ln\,\chi)$")
    right.set_title(r"what the $\chi$ product leaves out")
    right.legend()
    _depth_axis((left, middle, right), "blocks", 32)


def published(figure: Figure, transformers: Mapping[str, Pair], toys_: Mapping[str, Run], points: Iterable[CurvePoint]) -> None:
    """The published theory curves: points read off the figures on the curves computed here."""
    axes = figure.subplots(1, 4)
    transformer = {norm: pair.value_path for norm, pair in transformers.items()}
    panels = {
        ("transformer", "q"): (axes[0], transformer),
        ("transformer", "log_chi_product"): (axes[1], transformer),
        ("toy", "q"): (axes[2], toys_),
        ("toy", "log_chi_product"): (axes[3], toys_),
    }
    shades = dict(zip(ALPHAS.tolist(), colour_scale(ALPHAS).to_rgba(ALPHAS), strict=True))
    for (system, quantity), (ax, runs) in panels.items():
        _curves(ax, runs["Derf"], quantity)
        _baseline(ax, runs["pre-LN"], quantity)
        ax.set_title("transformer" if system == "transformer" else "toy network")
        ax.set_ylabel(LABELS[quantity])
        _depth_axis(ax, "blocks" if system == "transformer" else "layers", 32)
    for point in points:
        ax, _ = panels[point.system, point.quantity]
        colour = "#000000" if point.alpha is None else shades[point.alpha]
        ax.plot(point.layer, point.published, color=colour, markeredgewidth=0.8, zorder=6, **_CIRCLE)
    axes[0].plot([], [], color="#777777", linestyle="none", label="published", **_CIRCLE)
    axes[0].legend()
    _slope_bar(axes)


def toys(figure: Figure, runs: Mapping[str, Run]) -> None:
    """q and ln J over depth in the toy network: Derf (above), DyT (below), LayerNorm in black."""
    axes = figure.subplots(2, 2, sharex=True, sharey="col")
    for row, norm in zip(axes, ("Derf", "DyT"), strict=True):
        for ax, quantity in zip(row, ("q", "log_apjn"), strict=True):
            _curves(ax, runs[norm], quantity)
            _baseline(ax, runs["pre-LN"], quantity)
            ax.set_ylabel(LABELS[quantity])
            ax.set_title(norm)
    _depth_axis(axes[1], "layers", 32)
    axes[0, 0].legend()
    _slope_bar(axes)


def few_tokens(figure: Figure, pairs: Mapping[tuple[str, int, float], Pair]) -> None:
    """ln J with few tokens against the chi product: rows of sigma_QK, columns of n; the keys are norm, n and sigma_QK."""
    norms = list(dict.fromkeys(norm for norm, _, _ in pairs))
    axes = figure.subplots(len(FEW_SIGMA_QK), len(FEW_TOKENS), sharex=True, sharey=True)
    for i, sigma in enumerate(FEW_SIGMA_QK):
        for j, n in enumerate(FEW_TOKENS):
            ax = axes[i, j]
            for norm, colour in zip(norms, DISTINCT, strict=False):
                pair = pairs[norm, n, sigma]
                layers = pair.full.layers
                name = norm if norm == "pre-LN" else rf"{norm}, $\alpha = {FEW_ALPHA:g}$"
                ax.plot(layers, pair.full.log_apjn, color=colour, linewidth=1.6, label=name)
                if sigma > 0:
                    ax.plot(layers, pair.value_path.log_apjn, color=colour, linestyle="--")
                ax.plot(layers, pair.value_path.log_chi_product, color=colour, linestyle=":")
            ax.set_title(rf"$n = {n}$, $\sigma_{{QK}} = {sigma:g}$")
    for ax in axes[:, 0]:
        ax.set_ylabel(LABELS["log_apjn"])
    _depth_axis(axes[-1], "blocks", 4)
    axes[0, 0].legend(loc="upper right")
    styles = (("-", "two components"), ("--", "without softmax derivative"), (":", r"$\chi$ product"))
    lines = [axes[0, 1].plot([], [], color="#777777", linestyle=style, label=label)[0] for style, label in styles]
    axes[0, 1].legend(handles=lines, loc="upper right")
