"""Figures of results: functions that take and return a matplotlib axes (extra `plot`).

Results draw themselves: `run.plot(ax, "q")`, `diagram.plot()`, `comparison.plot()`. The functions here are what these call.

plot_run, plot_gram     a quantity over the layers of a run, a curve for each setting; the Gram matrix of tokens
plot_phases             a phase diagram with its critical lines
plot_check, plot_beside what a law or theory predicts beside a run or random networks
plot_gau                a gated attention unit beside its published estimate

Colours are told apart by colour-blind readers; axes are labelled with the symbols of `mf.latex`.
"""

from meanfield.plotting.answers import PHASE_LABELS, plot_beside, plot_check, plot_gau, plot_phases
from meanfield.plotting.runs import LABELS, PAIR_LABELS, draw_grid, plot_gram, plot_run
from meanfield.plotting.style import DISTINCT, colour_bar, colour_scale, save_figure

__all__ = [
    "DISTINCT",
    "LABELS",
    "PAIR_LABELS",
    "PHASE_LABELS",
    "colour_bar",
    "colour_scale",
    "draw_grid",
    "plot_beside",
    "plot_check",
    "plot_gau",
    "plot_gram",
    "plot_phases",
    "plot_run",
    "save_figure",
]
