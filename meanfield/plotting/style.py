r"""What figures share: colours that are safe for colour-blind readers, colour bars, and axes that are made where none are given.

Viridis without its palest end where a parameter varies, the palette of Okabe and Ito for single curves. matplotlib is imported inside
functions (extra `plot`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sympy as sp

from meanfield import symbols
from meanfield.extras import require
from meanfield.faces import plot

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.cm
    import matplotlib.colorbar

__all__ = ["DISTINCT", "LEGEND", "colour_bar", "colour_scale", "given", "letter", "over_layers", "save_figure"]

#: colours that stay apart for colour-blind readers (Okabe & Ito 2008), black first
DISTINCT: Final = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

#: curves up to which a legend names them; a colour bar beyond
LEGEND: Final = 7


def given(ax: matplotlib.axes.Axes | None) -> matplotlib.axes.Axes:
    """The axes, or those of a new pyplot figure."""
    require("figures need", "matplotlib")
    if ax is not None:
        return ax
    from matplotlib import pyplot

    _, new = pyplot.subplots(layout="constrained")
    return new


def over_layers(ax: matplotlib.axes.Axes) -> None:
    """Name the axis of the layers; ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    ax.set_xlabel("$l$ (blocks)")
    if ax.get_xscale() == "linear":
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def letter(name: str) -> str:
    """A parameter as a label."""
    symbol = symbols.parameter(name)
    return f"${symbols.latex_names().get(symbol, sp.latex(symbol))}$"


def save_figure(thing: Any, path: str | Path) -> None:
    """The figure of a result as a file, in the format that its name ends in."""
    require("figures need", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    plot(thing, ax=figure.subplots())
    figure.savefig(path, dpi=200)


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
