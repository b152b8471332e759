r"""Phase diagrams: over two parameters of a network, where signals order, where they decorrelate, and the critical line between."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments, faces
from meanfield.analysis.contours import ZERO, Steep, zero_curves
from meanfield.analysis.grids import Grid, Variances, edged
from meanfield.analysis.growth_classes import APART, growth_classes
from meanfield.analysis.maps import StepMap, map_of
from meanfield.analysis.moved import Rate
from meanfield.analysis.ranges import HIGHEST, LOWEST, MARGINAL
from meanfield.blocks.algebra import Block
from meanfield.blocks.letters import heeded
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.guards import cases_of
from meanfield.memory import MOST_MEMORY, available_memory, check_memory
from meanfield.numeric.coefficients import check_coefficients
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
#: a variance next to 0, and how nearly d ln q'/d ln q = 1 holds there where q' is proportional to q
VANISHING, PROPORTIONAL = LOWEST**2, 1e-2
#: what a setting can be, in the order of `phase_code`
PHASES = ("ordered", "critical", "chaotic", "divergent", "unresolved", "apart")


@dataclass(frozen=True, repr=False, eq=False)
class PhaseDiagram(faces.Labelled):
    r"""Fixed points over a grid of two parameters, arrays of shape (len(first axis), len(second axis)).

    Attributes
    ----------
    axes : the two parameters that vary, by name, and their values.
    parameters : the others.
    q, c, gap : q* that the variance `start` flows to (infinite where it leaves 1e12 behind, 0 where it goes below 1e-12 and no fixed point
        above 1e-150 holds it), c* that pairs flow to, 1 - c*; nan where each c is left as it is, and where q leaves the range and c does
        not go to 1: "bounded" in `growth` then, what it stays at is not looked for.
    chi, chi_parallel : dp'/dp at p = q, which is dc'/dc at c = 1 where q = q*, and dq'/dq; where q leaves the range those at its edge,
        infinite where they still grow there. So chi is that of the point (q*, c = 1) of `mf.fixed_points`, in the chaotic phase too,
        where pairs leave it for a c* < 1, which has a slope of its own there: its sign of chi - 1 is the phase. Where c = 1 is no fixed
        point (phase "apart") chi is dc'/dc at c*.
    xi_c, xi_q : depth scales -1/ln|chi|, -1/ln|chi_parallel| of that same point; where q leaves the range that of c is infinite if c
        goes to 1 as a power of l or of ln l, and there is none (nan) if not, nor one of q if it grows faster than exponentially: see
        `growth`.
    phase : "ordered" (chi < 1), "critical", "chaotic" (chi > 1), "divergent" (q grows without bound), "unresolved", or "apart": masks or
        batch statistics set identical inputs apart (`Dropout`, `BatchNorm`), so that c = 1 is no fixed point, and nothing is ordered.
    growth : "q", "gap" and "apjn": how each goes over depth, as a word for each setting: "bounded", "logarithmic" (gap), "power",
        "quasi-polynomial" (apjn), "stretched", "exponential", "faster", "infinite" (apjn: E phi'^2 is), or "unresolved"; the kinds of
        `mf.growth`, read off the map where the setting goes.
    apjn_sign : 1 where J grows, -1 where it decays, 0 where it is bounded or its word does not say.
    critical_lines : curves of chi = 1 at c = 1, each an array of points (first axis, second axis), to about 1e-12 along the edges of the
        grid; none where c = 1 is no fixed point.

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
    apjn_sign: NDArray[np.int8]
    critical_lines: tuple[Floats, ...]

    @property
    def status(self) -> NDArray[np.str_]:
        """For each setting "ok", or what it does not have: a fixed point ("divergent", "unresolved"), a finite J ("infinite APJN"), or a
        c* that is looked for: where q goes to 0, or each c stays ("c open")."""
        lacks = [np.isin(self.phase, ("divergent", "unresolved")), self.growth["apjn"] == "infinite", np.isnan(self.gap)]
        return np.select(lacks, [self.phase, "infinite APJN", "c open"], "ok")

    @property
    def c(self) -> Floats:
        return np.asarray(1.0 - self.gap)

    @property
    def xi_c(self) -> Floats:
        slowly = np.isin(self.growth["gap"], ("power", "logarithmic"))
        return np.where((self.q > 0) & np.isfinite(self.q), _scale(self.chi), np.where(slowly, np.inf, np.nan))

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


@np.errstate(under="ignore")
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
    given = bound_parameters(step.recursion.parameters, heeded(net, step.recursion.parameters, parameters))
    check_coefficients(net, given)
    names = [name for name in parameters if name in given and given[name].ndim]
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
    signed = step.signed(given)
    _check_signs(signed, given)
    fixed = {name: float(v) for name, v in given.items() if name not in names}

    def grid(a: Floats, b: Floats) -> Grid:
        own = {names[0]: a, names[1]: b, **{name: np.full(a.size, v) for name, v in fixed.items()}}
        return Grid(signed, own)

    first, second = (m.ravel() for m in np.meshgrid(x, y, indexing="ij"))
    everything = grid(first, second)
    begin = float(start)
    found = everything.variances(np.full(first.size, begin))

    def excess(a: Floats, b: Floats) -> Floats:
        here = grid(a, b)
        slopes = here.variances(np.full(a.size, begin))
        return np.where(_parts(here, slopes), np.nan, slopes.chi.less_1)

    shape = (x.size, y.size)
    parts = _parts(everything, found)
    origin = Steep(_at_origin(everything, found).reshape(shape), lambda a, b: _vanishing(grid(a, b))[0])
    lines = zero_curves(x, y, np.where(parts, np.nan, found.chi.less_1).reshape(shape), excess, origin)
    at, gap = _settled(everything, found, parts)
    found = _at_correlations(everything, found, at, gap, parts)
    chi, beyond = found.chi.value, found.chi.less_1
    phase = np.select(
        [np.isnan(at) | np.isnan(chi), np.isinf(at), parts, np.abs(beyond) <= MARGINAL, beyond > 0],
        [PHASES[4], PHASES[3], PHASES[5], PHASES[1], PHASES[2]],
        PHASES[0],
    )
    classes, signs = growth_classes(everything, found, at, gap, parts)
    growth = {name: words.reshape(shape) for name, words in classes.items()}
    merges = ~np.isin(growth["gap"].ravel(), ("bounded", "unresolved"))
    everywhere = (np.abs(beyond) <= MARGINAL) & ~merges & ~parts  # c' = c for each c
    gap = np.where(np.isinf(at) | (at == 0) | everywhere, np.where(merges, 0.0, np.nan), gap)
    axes = {name: given[name] for name in names}
    chi, along = _limits(everything, found)
    at, gap, chi, along, phase = (np.asarray(v).reshape(shape) for v in (at, gap, chi, along, phase))
    return PhaseDiagram(step.recursion, axes, fixed, begin, at, gap, chi, along, phase, growth, signs.reshape(shape), lines)


def _check_signs(step: StepMap, given: Mapping[str, Floats]) -> None:
    """Refuse values of both signs, or 0 among others, of what decides whether the activation jumps: each is a network of its own."""
    slopes = {node for stage in step.recursion.stages for e in stage.law.transfer for node in e.atoms(Expectation)}
    jumping = [node.conditioned() for node in slopes if node.integrand.has(sp.DiracDelta)]
    for s in sorted({s for e in jumping for case in cases_of(e).values() for s in case.free_symbols}, key=str):
        if s.name in given and np.unique(np.sign(given[s.name])).size > 1:
            raise ValueError(f"{s.name}: whether the activation jumps hangs on its sign: pass values of one sign in a diagram of its own")


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
                own[left] = np.select([grows, np.abs(own[left] - 1) <= MARGINAL], [np.inf, 1.0], own[left])
    return values[0], values[1]


def _vanishing(grid: Grid) -> tuple[Floats, NDArray[np.bool_]]:
    """chi - 1 as q -> 0 on identical inputs, and where q' is proportional to q there"""
    with np.errstate(all="ignore"):
        moved, along, chi = grid.steps.identical(np.full(grid.size, VANISHING))
        return chi.less_1, np.abs(moved.growth_slope(along)) < PROPORTIONAL


def _at_origin(grid: Grid, found: Variances) -> Floats:
    """chi - 1 as q -> 0 where q goes there, and where it would were it not for chi > 1: q* > 0 comes out of 0 as that grows beyond 1, and
    chi - 1 there can be of second order. Elsewhere nan"""
    if not (found.q == 0).any():
        return np.full(grid.size, np.nan)
    less_1, proportional = _vanishing(grid)
    tells = proportional & np.isfinite(found.q) & ((found.q == 0) | (less_1 > ZERO))
    return np.where(tells, less_1, np.nan)


def _parts(grid: Grid, found: Variances) -> NDArray[np.bool_]:
    """where c = 1 is no fixed point, at q* or the edge that q leaves by"""
    with np.errstate(all="ignore"):
        return grid.steps.parts(edged(found.q))


def _settled(grid: Grid, found: Variances, parts: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """q* and 1 - c* of each setting, nan where there are none"""
    at = found.q.copy()
    gap = np.where(np.isfinite(at), 0.0, np.nan)
    repelled = (found.chi.less_1 > MARGINAL) | parts
    if not grid.step.coupled:
        wanted = np.flatnonzero(repelled & np.isfinite(at) & (at > 0))
        if wanted.size:
            gap[wanted] = grid.take(wanted).gaps(at[wanted], found.chi.take(wanted), parts[wanted])
        return at, gap
    apart = np.flatnonzero(repelled)
    joint_q, joint_gap = grid.take(apart).jointly()
    gap[apart] = np.where(np.isfinite(at[apart]), np.nan, gap[apart])
    there = np.isfinite(joint_q)
    at[apart[there]], gap[apart[there]] = joint_q[there], joint_gap[there]
    return at, gap


def _at_correlations(grid: Grid, found: Variances, at: Floats, gap: Floats, parts: NDArray[np.bool_]) -> Variances:
    """with dc'/dc at c* where c = 1 is no fixed point"""
    there = np.flatnonzero(parts & np.isfinite(at) & (at > 0))
    if not there.size:
        return found
    value, less_1 = found.chi.value.copy(), found.chi.less_1.copy()
    own = grid.take(there).across(at[there], at[there] * gap[there])
    value[there], less_1[there] = own.value, own.less_1
    return Variances(found.q, found.chi_parallel, Rate(value, less_1))
