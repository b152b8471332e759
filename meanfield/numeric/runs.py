r"""A recursion run over depth, for one setting or a grid of settings, and what comes out."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments, faces, symbols
from meanfield.numeric.gradients import gradient_correlations
from meanfield.numeric.store import execute, is_kept, ready
from meanfield.numeric.threads import share
from meanfield.numeric.trajectory import BLOCK, STATUS, Kernel, kernel_of
from meanfield.numeric.work import patient
from meanfield.recurrence import Recursion

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["Run", "available_memory", "bound_parameters", "check_gram", "every_of", "initial_moments", "run_moments"]

Floats = NDArray[np.float64]

#: layer-points that a thread does at a time
CHUNK = 250_000
#: points up to which a grid runs one after another rather than in a block that is mostly copies
FEW = 4
#: least number of layers whose transfers are kept for the backward pass at a time
SEGMENT = 4096


@dataclass(frozen=True, repr=False)
class Run(faces.Labelled):
    r"""What `propagate` found: arrays of shape (*grid, len(layers)), grid being the broadcast shape of the parameters.

    Attributes
    ----------
    layers : whole numbers
        The repeats that were kept, 0 the input and depth the output.
    q, p, c, gap : arrays
        Variance, covariance, correlation p/q, and 1 - c to full relative accuracy. The last three exist for two tokens only.
    log_apjn, log_apjn_forward : arrays
        ln J^{L,l}, the average squared partial Jacobian norm from layer l to the end by the (J, K) recursion, and ln J^{l,0}.
    chi : array, shape (*grid, len(layers) - 1)
        The same-token factor of the repeat that starts at each kept layer (the last repeat alone for record="last").
    log_chi_product : array
        Sum of ln chi from l to L: gradients of different tokens taken as independent.
    gradient_correlation : array
        K^{L,l}/J^{L,l}, the correlation of the gradients of two tokens (two tokens, record="all").
    status : str or array of str
        "ok" or what happened: overflow, underflow, invalid (values are NaN from there on), gap underflow (1 - c is below 1e-300 and
        no longer exact), negative APJN (the truncated softmax-derivative term outgrew its range), infinite APJN (an activation jumps;
        q and p are as they should be).
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

    def _two(self, name: str) -> Floats:
        if self._delta is None:
            raise AttributeError(f"{name}: this run has a single input; give propagate one of p, c or gap")
        return self._delta

    @property
    def p(self) -> Floats:
        return self.q - self._two("p")

    @property
    def gap(self) -> Floats:
        return np.asarray(self._two("gap") / self.q)

    @property
    def c(self) -> Floats:
        return np.asarray(1.0 - self.gap)

    @cached_property
    def gradient_correlation(self) -> Floats:
        """K^{L,l}/J^{L,l}: how alike the gradients of two tokens are, for record="all". Worked out on first use."""
        delta = self._two("gradient_correlation")
        if len(self.layers) != self.depth + 1:
            raise AttributeError("gradient_correlation: this run kept some of its layers; give propagate record='all'")
        return gradient_correlations(self.recursion, self.parameters, self.q, delta, self.start == "pooled")

    def __repr__(self) -> str:
        grid = "x".join(map(str, self.q.shape[:-1])) or "one setting"
        bad = "" if np.all(np.asarray(self.status) == "ok") else f", status {sorted(set(np.ravel(self.status).tolist()))}"
        last = self.q[..., -1]
        q = f"q_L = {last:.6g}" if last.ndim == 0 else f"q_L in [{np.nanmin(last):.6g}, {np.nanmax(last):.6g}]"
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
    values = {name: arguments.number_array(given[name], name, s) for name, s in names.items()}
    for name, s in names.items():
        if name not in symbols.TABLE and s.is_nonnegative and (values[name] < 0).any():
            raise ValueError(f"{name} = {values[name].min():g}: declared as {'positive' if s.is_positive else 'non-negative'}")
    return values


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
    arguments.broadcast({"q": q0, name: v})
    if name == "p":
        q_, v = np.broadcast_arrays(q0, v)
        if (np.abs(v) > q_).any():
            i = np.flatnonzero(np.abs(v) > q_)[0]
            raise ValueError(f"p = {v.flat[i]:g} with q = {q_.flat[i]:g}: |p| must be at most q")
        return q0, np.asarray(q_ - v)
    low, high = (-1.0, 1.0) if name == "c" else (0.0, 2.0)
    if (v < low).any() or (v > high).any():
        raise ValueError(f"{name} = {v[(v < low) | (v > high)].flat[0]:g}: must be between {low:g} and {high:g}")
    return q0, np.asarray(q0 * (1.0 - v) if name == "c" else q0 * v)


def available_memory() -> float:
    """bytes that can be had"""
    info = Path("/proc/meminfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("MemAvailable"):
                return float(line.split()[1]) * 1024
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return math.inf


def run_moments(
    rec: Recursion,
    depth: int,
    q: ArrayLike,
    p: ArrayLike | None,
    c: ArrayLike | None,
    gap: ArrayLike | None,
    start: str,
    record: str | int,
    parameters: Mapping[str, ArrayLike],
) -> Run:
    """The recursion in (q, p) over depth, as `propagate` describes."""
    every = every_of(record)
    values = bound_parameters(rec.parameters, parameters)
    q0, delta0 = initial_moments(q, p, c, gap)
    if delta0 is None and rec.couples(one_token="n" in values and bool((values["n"] == 1).all())):
        raise ValueError("this network mixes tokens: give the start of two tokens by exactly one of p, c and gap (or n = 1)")
    given = next((name for name, v in (("p", p), ("c", c), ("gap", gap)) if v is not None), "p")
    named = {"q": q0, given: np.zeros(()) if delta0 is None else delta0, **values}
    grid, arrays = arguments.broadcast(named), list(named.values())
    tokens = rec.block.tokens
    n = values.get("n", np.asarray(float(tokens)) if tokens is not None and tokens.is_number else None)
    if delta0 is not None and n is not None:
        check_gram(q0, delta0, n)
    count = math.prod(grid)
    kept = depth // every + 1 + (depth % every > 0) if every else 1
    need = 8.0 * count * (6 * kept + len(arrays))
    if need > 0.8 * available_memory():
        raise ValueError(
            f"the result needs {need / 2**30:.3g} GiB ({count} settings x {kept} layers), more than the "
            f"{available_memory() / 2**30:.3g} GiB there are: pass record='last' or record=k to keep fewer layers, or split the grid"
        )
    layers = np.minimum(np.arange(kept) * every, depth) if every else np.array([depth])
    flat = [np.array(np.broadcast_to(a, grid)).reshape(count) for a in arrays]  # copies: read-only ones compile a second kernel
    table = np.array(flat[2:]).reshape(len(values), count)
    out = _Output(count, len(layers), depth, every)
    kernel = kernel_of(rec, delta0 is not None)
    _fill(kernel, depth, every, start == "pooled", table, flat[0], flat[1], out)
    out.blank(every, kernel.layers)

    def shaped(a: np.ndarray) -> np.ndarray:
        return np.moveaxis(a.reshape(len(a), *grid), 0, -1)

    words = np.array(STATUS)[out.status].reshape(grid)
    return Run(
        rec,
        values,
        depth,
        start,
        layers.astype(np.int64),
        shaped(out.q),
        shaped(out.backward),
        shaped(out.forward),
        shaped(out.chi),
        shaped(out.chi_sum),
        words if grid else str(words),
        None if delta0 is None else shaped(out.delta),
    )


def every_of(record: str | int) -> int:
    """Which layers `record` keeps: every k-th, or 0 for the last alone."""
    if record == "all":
        return 1
    if record == "last":
        return 0
    if isinstance(record, str):
        raise ValueError(f"record = {record!r}: expected 'all', 'last' or a whole number k >= 1 (every k-th layer)")
    return arguments.check_integer(record, "record", 1)


def check_gram(q0: Floats, delta0: Floats, n: Floats) -> None:
    """Refuse a negative covariance that n tokens cannot all have with each other."""
    q_, d, n_ = np.broadcast_arrays(q0, delta0, n)
    low = q_ * n_ - d * (n_ - 1)  # q + (n - 1) p, the smallest eigenvalue for p < 0
    if (low < -1e-12 * q_ * n_).any():
        i = np.flatnonzero(low < -1e-12 * q_ * n_)[0]
        raise ValueError(
            f"p = {(q_ - d).flat[i]:g} with q = {q_.flat[i]:g}: n = {n_.flat[i]:g} tokens cannot all have that covariance; "
            f"p must be at least -q/(n-1) = {-q_.flat[i] / (n_.flat[i] - 1):g}"
        )


class _Output:
    """Arrays of one row for each kept layer: a grid is written row by row."""

    def __init__(self, count: int, kept: int, depth: int, every: int) -> None:
        self.q, self.delta, self.backward, self.forward, self.chi_sum = (np.empty((kept, count)) for _ in range(5))
        self.chi = np.empty((kept - 1 if every else min(depth, 1), count))
        self.status, self.good = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return (self.q, self.delta, self.backward, self.forward, self.chi, self.chi_sum, self.status, self.good)

    def blank(self, every: int, layers: int) -> None:
        """NaN where a point has gone bad, after so many good ones of the layers of each repeat: from there on, and in sums to the end."""
        bad = np.flatnonzero((self.status > 0) & (self.status < 4))
        first = self.good[bad] // (every * layers) + 1 if every else np.zeros(len(bad), dtype=np.int64)
        for a in (self.q, self.delta, self.forward, self.chi):
            a[:, bad] = np.where(np.arange(len(a))[:, None] >= first, np.nan, a[:, bad])
        self.backward[:, bad] = self.chi_sum[:, bad] = np.nan


def _fill(kernel: Kernel, depth: int, every: int, pooled: bool, table: Floats, q0: Floats, delta0: Floats, out: _Output) -> None:
    count = q0.shape[0]
    layers = max(depth, 1) * kernel.layers
    shapes = [i.shapes(kernel.parameters, table) for i in kernel.integrands]
    small = count == 1 and patient(layers * kernel.work.milliseconds(shapes), is_kept(kernel.compiled(1), "trajectories"))
    lanes = BLOCK if kernel.vectorises and count > FEW else 1
    text = kernel.interpreted if small else kernel.compiled(lanes)
    halt = np.zeros(1, dtype=np.int64)
    rest = (float(pooled), table, q0, delta0, *out.arrays, *shapes)
    rest = (depth, every, min(layers, max(SEGMENT, math.isqrt(layers))), halt, *rest)
    if small:
        execute(text, "trajectories", (0, count, *rest), small)
        return
    run = ready(text, "trajectories", (0, 0, *rest))
    size = lanes * max(1, CHUNK // (lanes * layers * (1000 if kernel.work else 1)))
    parts = [(first, min(first + size, count)) for first in range(0, count, size)]
    share(lambda part: run(*part, *rest), parts, "propagate", lambda: halt.fill(1))
