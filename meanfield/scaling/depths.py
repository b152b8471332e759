"""How deep a network may be before a quantity passes its bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from meanfield import arguments
from meanfield.blocks.algebra import Block, checked_block
from meanfield.recurrence import recursion
from meanfield.scaling.questions import Answer, observable_of, plain, ran
from meanfield.symbols import known

__all__ = ["largest_depth"]

Floats = NDArray[np.float64]
#: repeats of the first look
FIRST: Final = 64


def largest_depth(net: Block, observable: str, below: Any, *, q: Any, at_most: int = 100_000, **settings: Any) -> Answer:
    r"""The largest number of repeats up to which an observable stays at or below a bound.

    Scalings that depend on L are rerun at every depth that is tried, and the bound is taken to be passed once.

    Parameters
    ----------
    net : Block
    observable : "log_apjn", "log_q", "c" or "log_gap"
        ln J^{l,0}, ln q_l, c_l or ln(1 - c_l).
    below : number or array
    q, **settings
        As for `propagate`; arrays broadcast.
    at_most : whole number
        The largest depth to try; where the bound still holds there, the status is "more".

    Returns
    -------
    Answer
        `value` is a whole number (float array for a grid), `low` and `high` the last depth with the bound and the first without it; 0
        where the bound does not even hold at the input, with the status "never".

    Raises
    ------
    TypeError, ValueError
        Bad input.

    Examples
    --------
    >>> import meanfield as mf
    >>> answer = mf.scaling.largest_depth(mf.mlp(mf.relu), "log_apjn", 3.0, q=1.0, sigma_w=1.5, sigma_b=0)
    >>> int(answer.value), round(answer.achieved, 4)  # 1.5^2/2 = 1.125 a layer
    (25, 2.9446)
    """
    look, bound = observable_of(observable, settings), arguments.number_array(below, "below")
    limit = arguments.check_integer(at_most, "at_most", 1)
    checked_block(net, "net")

    def last(depth: int) -> Floats:
        return look(ran(net, depth, "last", {"q": q, **settings}))[..., -1]

    if _knows_depth(net):
        depth, achieved, more = _by_bisection(last, bound, limit)
    else:
        depth, achieved, more = _in_one_run(lambda d: look(ran(net, d, "all", {"q": q, **settings})), bound, limit)
    value = np.maximum(depth, 0).astype(float)
    status = np.where(depth < 0, "never", np.where(more, "more", "ok"))
    holds = np.full(depth.shape, "below")
    parts = (value, achieved, np.broadcast_to(bound, depth.shape), value, np.where(more, np.inf, np.maximum(depth + 1, 0)), holds, status)
    return Answer("depth", observable, *(plain(np.asarray(a)) for a in parts))


def _knows_depth(net: Block) -> bool:
    """whether the law of a repeat depends on L"""
    for stage in recursion(net).stages:
        out = stage.law.output
        values = (out.q, out.p, *stage.law.transfer, *(d.value for d in stage.law.definitions))
        if any(known("L") in e.free_symbols for e in values):
            return True
    return False


def _in_one_run(along: Callable[[int], Floats], bound: Floats, limit: int) -> tuple[NDArray[np.int64], Floats, NDArray[np.bool_]]:
    """depth, what is achieved there, and whether the bound holds to the end, from runs that keep every layer"""
    depth = min(FIRST, limit)
    while True:
        values = along(depth)
        within = values <= bound[..., None]
        if depth == limit or not within.all(axis=-1).any():
            break
        depth = min(8 * depth, limit)
    more = np.asarray(within.all(axis=-1))
    found = np.where(more, depth, within.argmin(axis=-1) - 1)
    layers = np.broadcast_to(values, within.shape)
    achieved = np.take_along_axis(layers, np.maximum(found, 0)[..., None], axis=-1)[..., 0]
    return found, achieved, more


def _by_bisection(last: Callable[[int], Floats], bound: Floats, limit: int) -> tuple[NDArray[np.int64], Floats, NDArray[np.bool_]]:
    """the same from one run for each depth that is tried"""
    at: dict[int, Floats] = {0: last(0)}
    depth = 1
    while True:
        at[depth] = last(depth)
        if depth == limit or not (at[depth] <= bound).any():
            break
        depth = min(2 * depth, limit)
    tried = np.array(sorted(at))
    within = np.array([at[d] <= bound for d in tried])
    more = np.asarray(within.all(axis=0))
    first = np.where(more, len(tried) - 1, within.argmin(axis=0))
    low, high = np.where(first > 0, tried[np.maximum(first - 1, 0)], -1), tried[first]
    low = np.where(more, tried[-1], low)
    while (open_ := ~more & (high - low > 1) & (low >= 0)).any():
        middle = (low + high) // 2
        for d in np.unique(middle[open_]):
            at.setdefault(int(d), last(int(d)))
            here = open_ & (middle == d)
            fits = at[int(d)] <= bound
            low, high = np.where(here & fits, d, low), np.where(here & ~fits, d, high)
    achieved = np.empty(low.shape)
    for d in np.unique(low):
        achieved = np.where(low == d, at[max(int(d), 0)], achieved)
    return low, achieved, more
