r"""The picture of the README: what a norm and attention do to a signal and its gradient over depth, at the setting of ViT-L.

python -c "from meanfield.overview import write; write('derivations/figures/readme.svg')"
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

import meanfield as mf
from meanfield.plotting import DISTINCT, LABELS
from meanfield.reporting.files import whole
from meanfield.reproduction.figures import STYLE, drawn
from meanfield.reproduction.systems import DEPTH, VIT, network

__all__ = ["curves", "draw", "write"]

#: norm, slope, colour
_NORMS: Final = (("pre-LN", None, DISTINCT[0]), ("Derf", 0.5, DISTINCT[1]), ("Derf", 1.1, DISTINCT[2]))
#: with attention, and the same block without it
_STYLES: Final = {True: {"linestyle": "-", "linewidth": 1.8}, False: {"linestyle": (0, (4, 2)), "linewidth": 1.2}}
_QUANTITIES: Final = ("q", "c", "log_apjn_forward")


def curves(norm: str, slope: float | None, attention: bool) -> Any:
    """The run of one curve."""
    net = network(norm)
    assert isinstance(net, mf.Serial)
    block = net if attention else net.blocks[-1]  # the MLP sublayer alone
    names = {s.name for s in mf.recursion(block).parameters} | {"q", "p"}
    values = {name: v for name, v in (VIT | {"alpha": slope}).items() if name in names}
    return mf.propagate(block, DEPTH, **values)


def draw(figure: Any) -> None:
    """Variance, correlation of two tokens, and the squared norm of the gradient over the blocks of a transformer."""
    axes = figure.subplots(1, 3)
    for norm, slope, colour in _NORMS:
        for attention, style in _STYLES.items():
            run = curves(norm, slope, attention)
            for ax, quantity in zip(axes, _QUANTITIES, strict=True):
                values = np.asarray(getattr(run, quantity))
                label = norm if slope is None else rf"{norm}, $\alpha = {slope:g}$"
                ax.plot(run.layers, np.exp(values) if quantity == "log_apjn_forward" else values, color=colour, label=label, **style)
    titles = ("variance of a token", "correlation of two tokens", "squared norm of the gradient")
    for ax, quantity, title in zip(axes, _QUANTITIES, titles, strict=True):
        label = r"$\mathcal{J}^{\,l,0}$" if quantity == "log_apjn_forward" else LABELS[quantity]
        ax.set(xlabel="$l$ (blocks)", title=f"{title}, {label}", xlim=(0, DEPTH))
        ax.set_xticks(range(0, DEPTH + 1, 32))
    axes[0].set_ylim(bottom=0)
    axes[1].set_ylim(0, 1)
    axes[2].set_yscale("log")
    handles = [axes[0].lines[2 * i] for i in range(len(_NORMS))]
    grey = [axes[0].plot([], [], color="#666666", **style)[0] for style in _STYLES.values()]
    names = [*(h.get_label() for h in handles), "with attention", "MLP alone"]
    figure.legend([*handles, *grey], names, loc="outside lower center", ncols=5, frameon=False)


def write(path: str | Path) -> Path:
    """The picture as an SVG file."""
    from matplotlib.style import context

    figure = drawn(draw, 11.0, 3.7)
    with context(["default", STYLE]), whole(Path(path)) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
    return Path(path)
