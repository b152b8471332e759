"""A network over depth: in (q, p) where that is enough, by Gram matrices where tokens or norms differ.

`propagate(net, depth, q, ...)` takes numbers or arrays for every parameter, broadcasts them to a grid and returns, by what it is asked:

Run         q, p, c, 1 - c and ln J at each recorded layer, for tokens that are alike
PairRun     two inputs of unequal variance (q2=...), and their neural tangent kernel
GramRun     tokens that are told apart, as under a causal mask
Sweep       a grid larger than memory, in a Zarr store (out="....zarr")

A run draws itself (`.plot()`), prints as a table, and is data: `.to_xarray()`, `.to_dataframe()`, `.to_csv(path)`. Where numbers leave the
range of doubles its `status` says so; nothing is a silent NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments
from meanfield.blocks.algebra import Block, checked_block
from meanfield.blocks.letters import heeded
from meanfield.numeric.chunks import prepared
from meanfield.numeric.outlines import Axes, is_lazy, unlabelled
from meanfield.numeric.runs import Moments, Run
from meanfield.recurrence import recursion

if TYPE_CHECKING:
    from meanfield.numeric.gram_runs import GramRun, PairRun
    from meanfield.numeric.sweeps import Sweep

__all__ = ["parameters", "propagate"]


def parameters(net: Block, unequal: bool = False) -> tuple[sp.Symbol, ...]:
    """What has to be bound before numbers come out, with or without a recursion in (q, p); of two inputs of unequal norm, if they are."""
    if net.closes and not (unequal and net.tokenwise):
        return recursion(net).parameters
    from meanfield.numeric.gram_laws import parameters_of

    return parameters_of(net)


@overload
def propagate(net: Block, depth: int, q: ArrayLike, *, out: str | Path, **values: Any) -> Sweep: ...


@overload
def propagate(
    net: Block, depth: int, q: ArrayLike, *, out: NDArray[np.float64] | None = None, **values: Any
) -> Run | GramRun | PairRun: ...


@np.errstate(under="ignore")
def propagate(
    net: Block,
    depth: int,
    q: ArrayLike,
    *,
    p: ArrayLike | None = None,
    c: ArrayLike | None = None,
    gap: ArrayLike | None = None,
    q2: ArrayLike | None = None,
    start: str = "token",
    record: str | int | Sequence[int] = "all",
    out: NDArray[np.float64] | str | Path | None = None,
    device: str = "cpu",
    **values: ArrayLike,
) -> Run | GramRun | PairRun | Sweep:
    r"""Run the mean-field recursion of a network over `depth` repeats.

    Parameters
    ----------
    net : Block
        One repeat of the network.
    depth : whole number >= 0
        Repeats of the block.
    q : number or array > 0
        Variance of a component of the input.
    p, c, gap : number or array
        At most one: covariance |p| <= q, correlation -1 <= c <= 1, or 0 <= 1 - c <= 2 (p = q (1 - 1e-30) is no double, gap = 1e-30 is).
        None of them: a single input. In a network with attention p is between two tokens of one sequence, and needed unless n = 1.
    q2 : number or array > 0, optional
        Variance of the second of two inputs of unequal norm, |p| <= sqrt(q q2), in a network that acts on each input by itself.
    start : "token" or "pooled"
        The gradient at the output: independent at each token (K_L = 0), or equal at all of them (K_L = J_L), as for mean pooling.
    record : "all", "last", whole number k >= 1 or sequence of whole numbers
        Which layers to keep: each; only the last; 0, k, 2k, ... and the last; or those and the last, as `[0, 10, 100, 1000]`. Few layers of
        a very deep network (beyond four million layers, or 20,000 that take quadrature) take milliseconds to a second where its state
        comes to rest or is smooth in the logarithm of depth.
    out : float64 array, np.memmap or path, optional
        Memory for the result, of shape (6, number of kept layers, *grid) in C order: q, q - p, log_apjn, log_apjn_forward,
        log_chi_product, chi; the arrays of the run are views of it. Or the path of a Zarr store (extra `sweep`), which is written chunk
        by chunk, in memory that does not grow with the grid, and opens with `xarray.open_zarr`. The same call takes a sweep up again that
        was killed or interrupted: chunks that are finished are not computed again.
    device : "cpu" or "cuda"
        Where layers are run: on the processor, or on a CUDA device (extra `cuda`), a point of the grid on each of its threads, to the same
        numbers. For runs in (q, p) of networks whose moments are closed forms or in tables; points that outgrow a table are finished on
        the processor.
    **values : number or array
        A value for each of `mf.recursion(net).parameters`; arrays broadcast against each other, q and p. Of xarray DataArrays the
        dimensions are aligned by name, and name those of the result. Of a dask array or a chunked DataArray, as of a start, nothing is
        computed before it is asked for: each chunk is a run of its own, wherever dask computes. Symbols of the description on which the
        law does not depend may be given too, one number each, and change nothing.

    Returns
    -------
    Run
        In (q, p). Where tokens are told apart (a causal mask, fixed attention weights) a GramRun with their n x n Gram matrix, from
        tokens that start permutation-symmetric; with q2 a PairRun.
    Sweep
        The same quantities as dask arrays, with the same bits: with the path of a store, or where an argument is lazy.

    Raises
    ------
    TypeError, ValueError
        Before any work: an argument out of range, missing or unknown parameters (with both lists), a result that would not fit in
        memory (with its size and what to pass instead), a store of another sweep (with what differs). Numbers in dask arrays are
        checked when they are known: before a store is made, else chunk by chunk.
    ImportError
        Before any work: device="cuda" without numba-cuda, a sweep without dask, xarray or Zarr.
    ArithmeticError
        A depth of a network that is neither at rest nor smooth in the logarithm of depth, or is not at rest and has no finite J, which
        layer by layer would take minutes to days or be off by more than 1e-10 through rounding.

    Examples
    --------
    >>> import meanfield as mf
    >>> run = mf.propagate(mf.mlp(mf.relu), depth=50, q=1.0, c=0.5, sigma_w=2**0.5, sigma_b=0)
    >>> run
    Run(50 repeats, one setting, 51 layers kept, q_L = 1)
    >>> float(run.gap[-1].round(6))
    0.011337

    A sweep that is too large for memory, or for one session:

    >>> import numpy as np, tempfile
    >>> path = tempfile.mkdtemp() + "/sweep.zarr"
    >>> grid = dict(sigma_w=np.linspace(1, 2, 300)[:, None], sigma_b=np.linspace(0, 1, 200))
    >>> sweep = mf.propagate(mf.mlp(mf.relu), 50, 1.0, c=0.5, record="last", out=path, **grid)  # and again after a break
    >>> sweep.gap.shape, float(sweep.gap[100, 0, 0].compute()) == float(mf.propagate(mf.mlp(mf.relu), 50, 1.0, c=0.5,
    ...     sigma_w=grid["sigma_w"][100:101], sigma_b=np.zeros(2)).gap[0, 0, -1])
    ((300, 200, 1), True)
    >>> import xarray as xr
    >>> xr.open_zarr(path).gap.sel(sigma_b=0, layer=50).dims
    ('sigma_w',)

    On a cluster (`distributed.Client`) the chunks go to its workers, here to the threads of this process:

    >>> weights = xr.DataArray(grid["sigma_w"][:, 0], dims="weights").chunk(100)
    >>> sweep = mf.propagate(mf.mlp(mf.relu), 50, 1.0, c=0.5, record="last", sigma_w=weights, sigma_b=0.0)
    >>> sweep.to_xarray().gap.max().compute().item() == float(sweep.gap.max().compute())
    True
    """
    checked_block(net, "net")
    depth = arguments.check_integer(depth, "depth", 0)
    arguments.check_start(start)
    begin = {"q": q, "p": p, "c": c, "gap": gap, "q2": q2}
    given, axes = unlabelled(begin | heeded(net, parameters(net, unequal=q2 is not None), values))
    if device != "cpu":
        from meanfield.numeric.cuda_runs import check_device

        check_device(device)
    if isinstance(out, (str, Path)) or any(map(is_lazy, given.values())):
        return _swept(net, depth, start, record, device, out, axes, given)
    if out is not None and (q2 is not None or not net.closes):
        raise ValueError("out is an array: that is for runs in (q, p), this one keeps Gram matrices; pass the path of a store")
    ready = prepared(net, depth, start=start, record=record, device=device, out=out, **given)
    points = math.prod(ready.grid)
    run = ready.run(points, out) if isinstance(ready, Moments) else ready.run(points)
    return run if axes is None else replace(run, axes=axes)


def _swept(net: Block, depth: int, start: str, record: Any, device: str, out: Any, axes: Axes | None, given: Mapping[str, Any]) -> Sweep:
    if out is not None and not isinstance(out, (str, Path)):
        raise TypeError(f"out = {type(out).__name__}: of dask arrays, expected the path of a Zarr store, or nothing for a lazy result")
    from meanfield.numeric.sweep_store import check_path, stored
    from meanfield.numeric.sweeps import planned

    path = None if out is None else check_path(out)
    plan = planned(net, depth, start, record, device, axes, given)
    return plan.sweep() if path is None else stored(plan, path)
