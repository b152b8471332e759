"""Figures of results: functions that take and return a matplotlib axes (extra `plot`)."""

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
