"""A network over depth: in (q, p) where that is enough, by Gram matrices where tokens or norms differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments
from meanfield.blocks.algebra import Block, checked_block
from meanfield.numeric.gram import parameters_of
from meanfield.numeric.gram_runs import GramRun, PairRun, run_pair, run_tokens
from meanfield.numeric.runs import Run, run_moments
from meanfield.recurrence import recursion

__all__ = ["parameters", "propagate"]


def parameters(net: Block) -> tuple[sp.Symbol, ...]:
    """What has to be bound before numbers come out, with or without a recursion in (q, p)."""
    return recursion(net).parameters if net.closes else parameters_of(net)


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
    out: NDArray[np.float64] | None = None,
    **values: ArrayLike,
) -> Run | GramRun | PairRun:
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
        a very deep network (beyond four million layers) take milliseconds where its state comes to rest or is smooth in the logarithm
        of depth.
    out : float64 array or np.memmap, optional
        Memory for the result, of shape (6, number of kept layers, *grid) in C order: q, q - p, log_apjn, log_apjn_forward,
        log_chi_product, chi. The arrays of the run are views of it; it may be larger than what fits into memory.
    **values : number or array
        A value for each of `mf.recursion(net).parameters`; arrays broadcast against each other, q and p.

    Returns
    -------
    Run
        In (q, p). Where tokens are told apart (a causal mask, fixed attention weights) a GramRun with their n x n Gram matrix, from
        tokens that start permutation-symmetric; with q2 a PairRun. These keep every layer's factors while they run, n^2 numbers each.

    Raises
    ------
    TypeError, ValueError
        Before any work: an argument out of range, missing or unknown parameters (with both lists), a result that would not fit in
        memory (with its size and what to pass instead).
    ArithmeticError
        A depth that would take hours layer by layer, of a network that is not smooth in the logarithm of depth.

    Examples
    --------
    >>> import meanfield as mf
    >>> run = mf.propagate(mf.mlp(mf.relu), depth=50, q=1.0, c=0.5, sigma_w=2**0.5, sigma_b=0)
    >>> run
    Run(50 repeats, one setting, 51 layers kept, q_L = 1)
    >>> float(run.gap[-1].round(6))
    0.011337
    """
    checked_block(net, "net")
    depth = arguments.check_integer(depth, "depth", 0)
    if start not in ("token", "pooled"):
        raise ValueError(f"start = {start!r}: expected 'token' or 'pooled'")
    if out is not None and (q2 is not None or not net.closes):
        raise ValueError("out is for runs in (q, p): this one keeps Gram matrices")
    if q2 is not None:
        return run_pair(net, depth, q, q2, p, c, gap, record, values)
    if not net.closes:
        return run_tokens(net, depth, q, p, c, gap, start, record, values)
    return run_moments(recursion(net), depth, q, p, c, gap, start, record, out, values)
