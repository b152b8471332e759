"""Whether the trapezoidal rule does for a function without kinks what panels do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.gaussian.node_rules import CAPACITY, FAINT, nodes, nodes_of_two, straight_nodes, trapezoid
from meanfield.gaussian.panel_rules import LEGENDRE_W, LEGENDRE_X, STEEP
from meanfield.gaussian.resolution import Real
from meanfield.gaussian.shape_rows import STRAIGHT, WINDOW

__all__ = ["as_good_as_panels"]

Floats = NDArray[np.float64]

_TESTING = (0.8, 0.9, 1.0, 1.2, 1.5, 2.0)  # deviations in half-widths of the strip where the trapezoidal rule has least to spare
_AGREED = 1e-13  # of the rule with the panels, relative: gaps, of differences, ask for more than moments


def as_good_as_panels(f: Real, breaks: Floats, growth: float, row: Floats, d: float) -> bool:
    """Whether E f, E f^2 and E f(u) f(-u) by the trapezoidal rule of that row, in a strip of half-width d, are those by panels between
    breaks, from narrow to wide Gaussians; f grows like e^{growth |x|}."""
    y, w = np.empty(CAPACITY), np.empty(CAPACITY)
    both = np.unique(np.concatenate((breaks, -breaks)))
    both = both[np.abs(both) <= min(breaks[-1], -breaks[0])]

    def window(s: float) -> float:
        return FAINT + 2.0 * growth * s

    def agree(weights: Floats, v: Floats, weights_: Floats, v_: Floats) -> bool:
        """E v and E v_, next to the size of what is summed"""
        return bool(abs(float(weights_ @ v_) - float(weights @ v)) <= _AGREED * float(weights @ abs(v)))

    for s in (0.1, 0.3, 1.0, 3.0, 30.0, 1e3, 1e5, *(d * r for r in _TESTING)):
        for mu in (0.0, 0.7 * s, 4.0 * s):
            at, weights = _panel_nodes(breaks, mu, s, window(s))
            count = nodes(row, mu, s, 0.0, window(s), y, w)
            if not at.size or count <= 0:
                return False
            v, v_ = f(at), f(y[:count])
            if not (agree(weights, v, w[:count], v_) and agree(weights, v**2, w[:count], v_**2)):
                return False
        # E f(u) f(-u) may be far below E f(u)^2
        at, weights = _panel_nodes(both, 0.0, s, window(s))
        count = nodes_of_two(row, row, 0.0, s, 0.0, 0.0, -s, 0.0, window(s), y, w)
        if not at.size or count <= 0 or not agree(weights, f(at) * f(-at), w[:count], f(y[:count]) * f(-y[:count])):
            return False
    return _straightens(f, d, y, w)


def _panel_nodes(breaks: Floats, mu: float, s: float, window: float) -> tuple[Floats, Floats]:
    """nodes and weights of the panels between breaks that nothing is graded at; none where they do not go as far as the window"""
    low, high = mu - window * s, mu + window * s
    if low < breaks[0] or high > breaks[-1]:
        return np.empty(0), np.empty(0)
    ends = np.concatenate(([low], breaks[(breaks > low) & (breaks < high)], [high]))
    steep = np.maximum(1.0, np.maximum(ends[:-1] - mu, mu - ends[1:]) / (STEEP * s))
    parts = np.ceil(np.diff(ends) / (3.0 * s) * steep).astype(np.int64)
    half = np.repeat(np.diff(ends) / (2 * parts), parts)
    which = np.arange(half.size) - np.repeat(np.cumsum(parts) - parts, parts)
    at = (np.repeat(ends[:-1], parts) + (2 * which + 1) * half)[:, None] + half[:, None] * LEGENDRE_X
    weights = half[:, None] / s * LEGENDRE_W * np.exp(-0.5 * ((at - mu) / s) ** 2) / np.sqrt(2 * np.pi)
    return at.ravel(), weights.ravel()


def _straightens(f: Real, d: float, y: Floats, w: Floats) -> bool:
    """whether seven nodes do as well as the trapezoidal rule where they begin to be taken for it: not of what grows within its strip"""
    s = STRAIGHT * d
    many = trapezoid(0.0, s, d, WINDOW, 1.0, y, w)
    each = w[:many] * f(y[:many])
    few = straight_nodes(0.0, s, y, w)
    return bool(abs(float(w[:few] @ f(y[:few])) - each.sum()) <= 1e-12 * np.abs(each).sum())
