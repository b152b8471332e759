r"""Phase diagrams: over two parameters of a network, where signals order, where they decorrelate, and the critical line between."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments, faces
from meanfield.analysis.contours import zero_curves
from meanfield.analysis.grids import HIGHEST, LOWEST, Grid, Variances
from meanfield.analysis.growth_classes import APART, CRITICAL, growth_classes
from meanfield.analysis.maps import map_of
from meanfield.blocks.algebra import Block
from meanfield.numeric.outlines import MOST_MEMORY, available_memory, check_memory
from meanfield.numeric.runs import bound_parameters
from meanfield.recurrence import Recursion

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["PhaseDiagram", "phase_diagram"]

Floats = NDArray[np.float64]

#: bytes that a setting takes at the peak of the work
BYTES = 1000
#: over how many decades of q before the edge a slope is seen to grow
DECADES = 2
#: what a setting can be, in the order of `phase_code`
PHASES = ("ordered", "critical", "chaotic", "divergent", "unresolved")


@dataclass(frozen=True, repr=False)
class PhaseDiagram(faces.Labelled):
    r"""Fixed points over a grid of two parameters, arrays of shape (len(first axis), len(second axis)).

    Attributes
    ----------
    axes : the two parameters that vary, by name, and their values.
    parameters : the others.
    q, c, gap : q* that the variance `start` flows to (infinite or 0 where it leaves 1e-12 ... 1e12), c* that pairs flow to, 1 - c*; nan
        where q leaves the range and c does not go to 1: "bounded" in `growth` then, what it stays at is not looked for.
    chi, chi_parallel : dp'/dp at p = q, which is dc'/dc at c = 1 where q = q*, and dq'/dq; where q leaves the range those at its edge,
        infinite where they still grow there.
    xi_c, xi_q : depth scales -1/ln|chi|, -1/ln|chi_parallel|; where q leaves the range c has no such scale (nan), q none if it grows
        faster than exponentially: see `growth`.
    phase : "ordered" (chi < 1), "critical", "chaotic" (chi > 1), "divergent" (q grows without bound) or "unresolved".
    growth : "q", "gap" and "apjn": how each goes over depth, as a word for each setting: "bounded", "logarithmic" (gap), "power",
        "stretched", "exponential", "faster", or "unresolved"; the kinds of `mf.growth`, read off the map where the setting goes.
    critical_lines : curves of chi = 1, each an array of points (first axis, second axis), to about 1e-12 along the edges of the grid.

    Examples
    --------
    >>> import meanfield as mf
    >>> diagram = mf.phase_diagram(mf.mlp(mf.erf), sigma_w=[0.5, 1.0, 2.0], sigma_b=[0.05, 0.5])
    >>> diagram.phase.tolist()
    [['ordered', 'ordered'], ['chaotic', 'ordered'], ['chaotic', 'chaotic']]
    >>> diagram.critical_lines[0].round(2).tolist()
    [[0.99, 0.05], [1.0, 0.05], [1.37, 0.5]]
    """

    recursion: Recursion
    axes: Mapping[str, Floats]
    parameters: Mapping[str, float]
    start: float
    q: Floats
    gap: Floats
    chi: Floats
    chi_parallel: Floats
    phase: NDArray[np.str_]
    growth: Mapping[str, NDArray[np.str_]]
    critical_lines: tuple[Floats, ...]

    @property
    def status(self) -> NDArray[np.str_]:
        """For each setting "ok", or why it has no fixed point: "divergent", "unresolved"."""
        return np.where(np.isin(self.phase, ("divergent", "unresolved")), self.phase, "ok")

    @property
    def c(self) -> Floats:
        return np.asarray(1.0 - self.gap)

    @property
    def xi_c(self) -> Floats:
        return np.where((self.q > 0) & np.isfinite(self.q), _scale(self.chi), np.nan)

    @property
    def xi_q(self) -> Floats:
        return np.where(np.isinf(self.q) & np.isinf(self.chi_parallel), np.nan, _scale(self.chi_parallel))

    def __repr__(self) -> str:
        shape = " x ".join(f"{name} {v.min():g} ... {v.max():g} ({v.size})" for name, v in self.axes.items())
        names, counts = np.unique(self.phase, return_counts=True)
        parts = ", ".join(f"{count / self.phase.size:.1%} {name}" for name, count in zip(names, counts, strict=True))
        lines = len(self.critical_lines)
        return f"PhaseDiagram({shape}; {parts}; {lines} critical line{'s' * (lines != 1)})"

    def plot(self, ax: matplotlib.axes.Axes | None = None, quantity: str = "chi") -> matplotlib.axes.Axes:
        """A map of "chi", "chi_parallel", "xi_c", "xi_q", "c", "gap", "q", or "growth_q", "growth_gap", "growth_apjn" (extra `plot`)."""
        axes: matplotlib.axes.Axes = faces.plot(self, ax=ax, quantity=quantity)
        return axes


def _scale(multiplier: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(1 / np.log(np.abs(multiplier))))


def phase_diagram(net: Block, *, q: float = 1.0, **parameters: ArrayLike) -> PhaseDiagram:
    r"""The phases of a network over two of its parameters.

    Parameters
    ----------
    net : Block
        One repeat of the network.
    q : number > 0
        The variance the flow starts from; it matters where there are several fixed points.
    **parameters : numbers, and two arrays
        A value for each of `mf.recursion(net).parameters`; the two that are one-dimensional arrays in ascending order span the grid, in
        the order in which they are given.

    Returns
    -------
    PhaseDiagram

    Raises
    ------
    TypeError, ValueError
        Missing or unknown parameters (with both lists), a value out of range, not exactly two ascending arrays, more settings than fit
        into memory, or a network of gated attention units whose activation depends on a parameter.

    Examples
    --------
    >>> import meanfield as mf, numpy as np
    >>> mf.phase_diagram(mf.mlp(mf.erf), sigma_w=np.linspace(0.5, 2, 20), sigma_b=np.linspace(0.05, 0.5, 20))
    PhaseDiagram(sigma_w 0.5 ... 2 (20) x sigma_b 0.05 ... 0.5 (20); 52.8% chaotic, 47.2% ordered; 1 critical line)
    """
    step = map_of(net)
    given = bound_parameters(step.recursion.parameters, parameters)
    names = [name for name in parameters if given[name].ndim]
    if len(names) != 2 or any(given[name].ndim != 1 or given[name].size < 2 for name in names):
        shapes = ", ".join(f"{name} {given[name].shape}" for name in names) or "none"
        raise ValueError(f"a phase diagram is over two parameters, one-dimensional arrays of at least 2 values: got {shapes}")
    _check_size({name: given[name].size for name in names})
    for name in names:
        if (np.diff(given[name]) <= 0).any():
            raise ValueError(f"{name}: expected values in ascending order")
    start = arguments.variance_array(q, "q")
    if start.ndim:
        raise ValueError(f"q = an array of shape {start.shape}: expected one number")
    if step.unresolved:
        raise ValueError(f"net: {step.unresolved}")
    x, y = (given[name] for name in names)
    fixed = {name: float(v) for name, v in given.items() if name not in names}

    def grid(a: Floats, b: Floats) -> Grid:
        own = {names[0]: a, names[1]: b, **{name: np.full(a.size, v) for name, v in fixed.items()}}
        return Grid(step, own)

    first, second = (m.ravel() for m in np.meshgrid(x, y, indexing="ij"))
    everything = grid(first, second)
    begin = float(start)
    found = everything.variances(np.full(first.size, begin))

    def excess(a: Floats, b: Floats) -> Floats:
        return np.asarray(grid(a, b).variances(np.full(a.size, begin)).chi.less_1)

    shape = (x.size, y.size)
    lines = zero_curves(x, y, found.chi.less_1.reshape(shape), excess)
    at, chi, beyond = found.q, found.chi.value, found.chi.less_1
    gap = _correlations(everything, found)
    if step.coupled:
        apart = np.flatnonzero(beyond > CRITICAL)
        joint_q, joint_gap = everything.take(apart).jointly()
        gap[apart] = np.where(np.isfinite(at[apart]), np.nan, gap[apart])
        there = np.isfinite(joint_q)
        at, gap = at.copy(), gap.copy()
        at[apart[there]], gap[apart[there]] = joint_q[there], joint_gap[there]
    phase = np.select(
        [np.isnan(at) | np.isnan(chi), np.isinf(at), np.abs(beyond) <= CRITICAL, beyond > 0],
        [PHASES[4], PHASES[3], PHASES[1], PHASES[2]],
        PHASES[0],
    )
    growth = {name: words.reshape(shape) for name, words in growth_classes(everything, found, at, gap).items()}
    merges = ~np.isin(growth["gap"].ravel(), ("bounded", "unresolved"))
    gap = np.where(np.isinf(at) | (at == 0), np.where(merges, 0.0, np.nan), gap)
    axes = {name: given[name] for name in names}
    chi, along = _limits(everything, found)
    at, gap, chi, along, phase = (np.asarray(v).reshape(shape) for v in (at, gap, chi, along, phase))
    return PhaseDiagram(step.recursion, axes, fixed, begin, at, gap, chi, along, phase, growth, lines)


def _check_size(sizes: Mapping[str, int]) -> None:
    """Refuse a grid whose result and the work on it do not fit into memory."""
    names = " x ".join(f"{size:,} values of {name}" for name, size in sizes.items())
    room = math.isqrt(int(MOST_MEMORY * available_memory() / BYTES))
    instead = f"at most about {room:,} values of each, or a part of the plane at a time"
    check_memory(f"a phase diagram of {names}", float(BYTES) * math.prod(sizes.values()), "", instead)


def _limits(grid: Grid, found: Variances) -> tuple[Floats, Floats]:
    """chi and chi_parallel; where q leaves the range infinite if they still grow at its edge, 1 if that is what they are near"""
    values = [found.chi.value.copy(), found.chi_parallel.value.copy()]
    left = np.flatnonzero(np.isinf(found.q) | (found.q == 0))
    if left.size:
        edge = np.where(found.q[left] > 0, HIGHEST, LOWEST)
        with np.errstate(all="ignore"):
            _, along, chi = grid.take(left).steps.identical(edge ** (1 - DECADES / 12))
            for own, before in zip(values, (chi, along), strict=True):
                grows = np.log10(np.abs(own[left] / before.value)) > APART * DECADES
                own[left] = np.select([grows, np.abs(own[left] - 1) <= CRITICAL], [np.inf, 1.0], own[left])
    return values[0], values[1]


def _correlations(grid: Grid, found: Variances) -> Floats:
    """1 - c* of each setting, nan where there is no q*"""
    at = found.q
    gap = np.where(np.isfinite(at), 0.0, np.nan)
    wanted = np.flatnonzero((found.chi.less_1 > CRITICAL) & np.isfinite(at) & (at > 0))
    if not grid.step.coupled and wanted.size:
        gap[wanted] = grid.take(wanted).gaps(at[wanted], found.chi.take(wanted))
    return gap
