r"""A recursion run over depth, for one setting or a grid of settings, and what comes out."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments, faces
from meanfield.blocks.algebra import Block
from meanfield.fingerprint import fingerprint
from meanfield.memory import check_memory
from meanfield.numeric.coefficients import check_coefficients
from meanfield.numeric.job import Job
from meanfield.numeric.outlines import Axes, Outline, axes_of, layers_of
from meanfield.numeric.readers import reader_of
from meanfield.numeric.trajectory import BOUNDLESS, LOST, STATUS, by_quadrature, kernel_of
from meanfield.numeric.ways import done
from meanfield.recurrence import Recursion

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = [
    "ALONE",
    "FEWER",
    "Moments",
    "Run",
    "bound_parameters",
    "check_angle",
    "check_gap",
    "check_gram",
    "check_tokens",
    "initial_moments",
    "prepared_moments",
]

Floats = NDArray[np.float64]

#: what is said of a single input where tokens are mixed
ALONE = "this network mixes tokens: give the start of two tokens by exactly one of p, c and gap (or n = 1)"

#: what to pass instead of layers that do not fit into memory, where more than one is kept
FEWER = "record='last', record=k or the layers to keep, "


@dataclass(frozen=True, repr=False, eq=False)
class Run(faces.Labelled):
    r"""What `propagate` found: arrays of shape (*grid, len(layers)), grid being the broadcast shape of the parameters.

    Attributes
    ----------
    layers : whole numbers
        The repeats that were kept, 0 the input and depth the output.
    q, p, c, gap : arrays
        Variance, covariance, correlation p/q, and 1 - c to full relative accuracy. The last three exist for two tokens only: of n = 1
        token they are nan.
    log_apjn, log_apjn_forward : arrays
        ln J^{L,l}, the average squared partial Jacobian norm from layer l to the end by the (J, K) recursion, and ln J^{l,0}.
    chi : array, shape (*grid, len(layers) - 1)
        The same-token factor of the repeat that starts at each kept layer (the last repeat alone for record="last").
    log_chi_product : array
        Sum of ln chi from l to L: gradients of different tokens taken as independent.
    gradient_correlation : array
        K^{L,l}/J^{L,l}, the correlation of the gradients of two tokens (two tokens, record="all").
    status : str or array of str
        "ok" or what happened: overflow, underflow (q is 1e300 or more, 1e-300 or less: eight decades of doubles are left to what a repeat
        is made of, as E phi^2 before sigma_w^2 multiplies it), invalid (a repeat makes no number, as of 0/0, or of the difference of two
        that are too large: values are NaN from there on after each of the three, J alone where q and p have theirs), gap underflow (1 - c
        is below 1e-300 and no longer exact), negative APJN (the truncated softmax-derivative term outgrew its range), infinite APJN (an
        activation jumps; q and p are as they should be), zero APJN (weights are 0, or a factor of J is below the range of doubles; the
        same), zero signal (weights, biases and skips are 0: q, p and J are 0 from the first repeat on, and c = 0/0 is nan, for want of a
        correlation).

    Examples
    --------
    >>> import meanfield as mf, numpy as np
    >>> run = mf.propagate(mf.mlp(mf.relu), depth=3, q=1.0, c=0.5, sigma_w=2**0.5, sigma_b=0)
    >>> run.layers, run.gap.round(4)
    (array([0, 1, 2, 3]), array([0.5   , 0.391 , 0.3161, 0.2619]))

    Over a grid, of a single input:

    >>> run = mf.propagate(mf.mlp(mf.relu), depth=3, q=1.0, sigma_w=np.array([1.0, 1.5, 2.0]), sigma_b=0)
    >>> run.q.shape, run.chi.shape, run.log_apjn[:, 0].round(3)
    ((3, 4), (3, 3), array([-2.079,  0.353,  2.079]))
    """

    recursion: Recursion
    parameters: Mapping[str, Floats]
    depth: int
    start: str
    layers: NDArray[np.int64]
    q: Floats
    log_apjn: Floats
    log_apjn_forward: Floats
    chi: Floats
    log_chi_product: Floats
    status: Any
    _delta: Floats | None
    axes: Axes = field(default_factory=Axes)

    @property
    def net(self) -> Block:
        return self.recursion.block

    @property
    def outline(self) -> Outline:
        return _outline(self.layers, self.depth, self._delta is not None)

    def _two(self, name: str) -> Floats:
        if self._delta is None:
            raise AttributeError(f"{name}: this run has a single input; give propagate one of p, c or gap")
        return self._delta

    @property
    def p(self) -> Floats:
        return self.q - self._two("p")

    @property
    def gap(self) -> Floats:
        with np.errstate(invalid="ignore"):
            return np.asarray(self._two("gap") / self.q)

    @property
    def c(self) -> Floats:
        self._two("c")
        return np.asarray(1.0 - self.gap)

    @cached_property
    def gradient_correlation(self) -> Floats:
        """K^{L,l}/J^{L,l}: how alike the gradients of two tokens are, for record="all". Worked out on first use."""
        delta = self._two("gradient_correlation")
        if len(self.layers) != self.depth + 1:
            raise AttributeError("gradient_correlation: this run kept some of its layers; give propagate record='all'")
        from meanfield.numeric.gradients import gradient_correlations

        return gradient_correlations(self.recursion, self.parameters, self.q, delta, self.start == "pooled")

    def __repr__(self) -> str:
        grid = "x".join(map(str, self.q.shape[:-1])) or "one setting"
        bad = "" if np.all(np.asarray(self.status) == "ok") else f", status {sorted(set(np.ravel(self.status).tolist()))}"
        last = self.q[..., -1]
        known = last[~np.isnan(last)]
        among = f"q_L in [{known.min():.6g}, {known.max():.6g}]" if known.size else "no q_L"
        q = f"q_L = {last:.6g}" if last.ndim == 0 else among
        return f"Run({self.depth} repeats, {grid}, {len(self.layers)} layers kept, {q}{bad})"

    def plot(self, ax: matplotlib.axes.Axes | None = None, quantity: str = "log_apjn") -> matplotlib.axes.Axes:
        """One quantity over depth (extra `plot`): "q", "p", "c", "gap", "log_apjn", "log_apjn_forward" or "log_chi_product"."""
        axes: matplotlib.axes.Axes = faces.plot(self, ax=ax, quantity=quantity)
        return axes


def bound_parameters(parameters: Iterable[sp.Symbol], given: Mapping[str, Any]) -> dict[str, Floats]:
    """The parameters of a network by name, within their range; missing and unknown names are refused with both lists."""
    names = {s.name: s for s in parameters}
    missing, unknown = sorted(names.keys() - given.keys()), sorted(given.keys() - names.keys())
    if missing or unknown:
        parts = [f"missing parameters: {', '.join(missing)}"] * bool(missing)
        parts += [f"unknown parameters: {', '.join(unknown)}"] * bool(unknown)
        raise ValueError(f"{'; '.join(parts)}. This network has the parameters: {', '.join(names) or 'none'}")
    return {name: arguments.number_array(given[name], name, s) for name, s in names.items()}


def initial_moments(q: Any, p: Any, c: Any, gap: Any) -> tuple[Floats, Floats | None]:
    """q and delta = q - p at the start, or None for a single input"""
    q0 = arguments.variance_array(q, "q")
    given = {name: v for name, v in (("p", p), ("c", c), ("gap", gap)) if v is not None}
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} are given: the start is set by exactly one of p, c and gap")
    if not given:
        return q0, None
    ((name, value),) = given.items()
    v = arguments.number_array(value, name)
    shape = arguments.broadcast({"q": q0, name: v})
    check_memory("the start", 8.0 * math.prod(shape), f" ({math.prod(shape)} settings)", "fewer values of q or of " + name)
    with np.errstate(over="ignore"):
        if name == "p":
            delta0 = q0 - arguments.within(v, q0, "p = {value} with q = {limit}: |p| must be at most q")
        else:
            check_angle(v, name)
            apart = 1.0 - v if name == "c" else v
            delta0 = np.maximum(q0 * apart, np.where(apart > 0.0, 5e-324, 0.0))  # inputs that differ are not one
    check_gap(np.asarray(delta0), {"q": q0, name: v}, " with ", "q - p")
    return q0, np.asarray(delta0)


def check_gap(gap: Floats, given: Mapping[str, Floats], between: str, what: str) -> None:
    """A gap that a double holds, of what was given."""
    beyond = np.isinf(gap)
    if beyond.any():
        at = between.join(f"{name} = {arguments.shown(np.broadcast_to(v, gap.shape)[beyond].flat[0])}" for name, v in given.items())
        raise ValueError(f"{at}: {what} must be below {sys.float_info.max:.4g}, the largest double")


def check_angle(v: Floats, name: str) -> None:
    """A correlation c of -1 to 1, a gap 1 - c of 0 to 2."""
    low, high = (-1.0, 1.0) if name == "c" else (0.0, 2.0)
    if (v < low).any() or (v > high).any():
        raise ValueError(f"{name} = {arguments.shown(v[(v < low) | (v > high)].flat[0])}: must be between {low:g} and {high:g}")


def _outline(layers: NDArray[np.int64], depth: int, paired: bool) -> Outline:
    names = ("q", *(("p", "c", "gap") * paired), "log_apjn", "log_apjn_forward", "log_chi_product")
    between: dict[str, tuple[str, ...]] = {"chi": ("repeat",)} if depth else {}
    repeats = layers[:-1] if layers.size > 1 else layers - 1
    return Outline({**dict.fromkeys(names, ("layer",)), **between, "status": ()}, {"layer": layers, "repeat": repeats})


@dataclass(frozen=True)
class Moments:
    """A run in (q, p) that nothing speaks against: parameters, start and the layers to keep, over a grid."""

    recursion: Recursion
    parameters: dict[str, Floats]
    depth: int
    start: str
    layers: NDArray[np.int64]
    begin: dict[str, Floats]
    q0: Floats
    delta0: Floats | None
    single: NDArray[np.bool_]  # where there is but one token, of which q and J are all there is
    grid: tuple[int, ...]
    device: str

    @property
    def net(self) -> Block:
        return self.recursion.block

    @property
    def outline(self) -> Outline:
        return _outline(self.layers, self.depth, self.delta0 is not None)

    @cached_property
    def source(self) -> str:
        """The fingerprint of the generated code that runs it; integrands without parameters that have no shape are refused."""
        kernel = kernel_of(self.recursion, self.delta0 is not None)
        for integrand in kernel.integrands:
            if not integrand.parameters:
                integrand.shapes((), np.empty((0, 0)))
        return fingerprint(kernel.text)

    @property
    def cost(self) -> int:
        """Of a point over all layers, a layer in closed form being 1."""
        reader = reader_of(self.recursion, self.delta0 is not None)
        kernel = by_quadrature(self.recursion, self.delta0 is not None) if reader is None else reader.kernel
        return max(self.depth, 1) * kernel.layers * (kernel.weight if reader is None else reader.weight)

    def run(self, points: int, out: Floats | None = None) -> Run:
        """Do it; `points` are in the whole grid, of which this may be a chunk."""
        values, count = self.parameters, math.prod(self.grid)
        arrays = [self.q0, np.zeros(()) if self.delta0 is None else self.delta0, *values.values()]
        flat = [np.array(np.broadcast_to(a, self.grid)).reshape(count) for a in arrays]  # copies: read-only ones compile a second kernel
        table = np.array(flat[2:]).reshape(len(values), count)
        alone, pooled = points == 1 and self.device == "cpu", self.start == "pooled"
        job = Job(self.recursion, self.delta0 is not None, self.depth, self.layers, pooled, table, flat[0], flat[1], alone, self.device)
        found = done(job, out)
        found.status[(found.status == BOUNDLESS) & np.isnan(found.forward[-1])] = LOST
        found.delta[:, np.broadcast_to(self.single, self.grid).reshape(count)] = np.nan

        def shaped(a: np.ndarray) -> np.ndarray:
            return np.moveaxis(a.reshape(len(a), *self.grid), 0, -1)

        words = np.array(STATUS)[found.status].reshape(self.grid)
        return Run(
            self.recursion,
            values,
            self.depth,
            self.start,
            self.layers,
            shaped(found.q),
            shaped(found.backward),
            shaped(found.forward),
            shaped(found.chi),
            shaped(found.chi_sum),
            words if self.grid else str(words),
            None if self.delta0 is None else shaped(found.delta),
            axes_of({**self.begin, **values}, self.grid),
        )


def prepared_moments(
    rec: Recursion,
    depth: int,
    q: ArrayLike,
    p: ArrayLike | None,
    c: ArrayLike | None,
    gap: ArrayLike | None,
    start: str,
    record: str | int | Sequence[int],
    device: str,
    out: Floats | None,
    parameters: Mapping[str, ArrayLike],
    points: int | None = None,
) -> Moments:
    """The recursion in (q, p) over depth, as `propagate` describes; `points` are in memory at a time, if not all."""
    values = bound_parameters(rec.parameters, parameters)
    q0, delta0 = initial_moments(q, p, c, gap)
    check_tokens(rec, values, delta0)
    given = {name: np.asarray(v, dtype=np.float64) for name, v in (("p", p), ("c", c), ("gap", gap)) if v is not None}
    begin = {"q": q0, **given}
    grid = arguments.broadcast({**begin, **values})
    tokens = rec.block.tokens
    n = values.get("n", np.asarray(float(tokens)) if tokens is not None and tokens.is_number else None)
    single = np.zeros((), dtype=bool)
    if delta0 is not None and n is not None:
        check_gram(q0, delta0, n)
        single = np.asarray(n == 1)
        delta0 = np.where(single, 0.0, delta0)
    count = math.prod(grid) if points is None else points

    def check_size(kept: int) -> None:
        need = 8.0 * (count * (6 * kept * (out is None) + 2 + len(values)) + kept)
        kinds = f"out='sweep.zarr' to keep it on disk, out=np.memmap(...) of shape {(6, kept, *grid)}, or split the grid"
        details = f" ({count} settings x {kept} layers)"
        what, instead = ("the result", kinds) if points is None else ("a chunk of the sweep", "or smaller chunks")
        check_memory(what, need, details, FEWER * (kept > 1) + instead)

    layers = layers_of(record, depth, check_size)
    check_coefficients(rec.block, values, depth)
    _check_out(out, (6, layers.size, *grid))
    return Moments(rec, values, depth, start, layers, begin, q0, delta0, single, grid, device)


def check_tokens(rec: Recursion, values: Mapping[str, Floats], delta0: Floats | None) -> None:
    """Refuse a single input of a network that mixes several."""
    if delta0 is None and rec.couples(one_token="n" in values and bool((values["n"] == 1).all())):
        raise ValueError(ALONE)


def _check_out(out: Any, shape: tuple[int, ...]) -> None:
    if out is None:
        return
    if not isinstance(out, np.ndarray) or out.dtype != np.float64:
        raise TypeError(f"out = {type(out).__name__} of {getattr(out, 'dtype', 'no dtype')}: expected a float64 array or np.memmap")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}: expected {shape}, (6, kept layers, *grid)")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError(f"out is {'not in C order' if out.flags.writeable else 'read-only'}: expected a writeable array in C order")


def check_gram(q0: Floats, delta0: Floats, n: Floats) -> None:
    """Refuse a negative covariance that n tokens cannot all have with each other."""
    q_, d, n_ = np.broadcast_arrays(q0, delta0, n)
    low = q_ * n_ - d * (n_ - 1)  # q + (n - 1) p, the smallest eigenvalue for p < 0
    if (low < -1e-12 * q_ * n_).any():
        i, shown = np.flatnonzero(low < -1e-12 * q_ * n_)[0], arguments.shown
        raise ValueError(
            f"p = {shown((q_ - d).flat[i])} with q = {shown(q_.flat[i])}: n = {n_.flat[i]:g} tokens cannot all have that covariance; "
            f"p must be at least -q/(n-1) = {shown(-q_.flat[i] / (n_.flat[i] - 1))}"
        )
