"""Networks that say nothing, or the same of everything: weights, biases and skips that are exactly 0, as expressions tell and doubles
do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.blocks.laws import Law
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.local_expansions import mean_near
from meanfield.gaussian.series import NoExpansion
from meanfield.recurrence import Recursion
from meanfield.symbols import known

__all__ = ["deaf", "deaf_points", "silent", "silent_points", "zeros_of"]


@lru_cache(maxsize=256)
def silent(rec: Recursion, zero: frozenset[str]) -> bool:
    """Whether a repeat takes every signal to 0 where the parameters of these names are 0: one of its sublayers does, and those after it
    add nothing.

    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.mlp(mf.tanh))
    >>> silent(rec, frozenset({"sigma_w"})), silent(rec, frozenset({"sigma_w", "sigma_b"}))
    (False, True)
    """
    bound: dict[sp.Expr, sp.Expr] = {s: sp.S.Zero for s in rec.parameters if s.name in zero}
    nothing = {known(name): sp.S.Zero for name in ("q", "p", "delta")}
    empty = [k for k, stage in enumerate(rec.stages) if _vanishes(stage.law, bound)]
    return bool(empty) and all(_vanishes(stage.law, bound | nothing) for stage in rec.stages[empty[-1] + 1 :])


@lru_cache(maxsize=256)
def deaf(rec: Recursion, zero: frozenset[str]) -> bool:
    """Whether a repeat says the same of every signal where the parameters of these names are 0: no gradient goes through one of its
    sublayers.

    >>> import meanfield as mf
    >>> deaf(mf.recursion(mf.mlp(mf.tanh)), frozenset({"sigma_w"}))
    True
    """
    bound: dict[sp.Expr, sp.Expr] = {s: sp.S.Zero for s in rec.parameters if s.name in zero}
    return any(_vanishes(stage.law, bound, *stage.law.transfer) for stage in rec.stages)


def _vanishes(law: Law, put: dict[sp.Expr, sp.Expr], *wanted: sp.Expr) -> bool:
    """whether q of a law, or all that is wanted, is 0 with these values put in, as far as that shows without sums"""
    put = dict(put)
    for d in law.definitions:  # each in terms of those before
        if _at(d.value, put) == 0:
            put[d.symbol] = sp.S.Zero
    return all(_at(e, put) == 0 for e in wanted or (law.output.q,))


def _at(e: sp.Expr, put: dict[sp.Expr, sp.Expr]) -> sp.Expr:
    """an expression with values put in, where expectations over no variance are values; as it was where it has none there"""
    try:
        at = e.xreplace(put)
        return at.replace(lambda t: isinstance(t, Expectation) and t.variance == 0, lambda t: mean_near(t.integrand, t.mean)[0])
    except (NoExpansion, ValueError):  # the least of numbers of which one is 0/0
        return e


def silent_points(rec: Recursion, table: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which columns of a table of parameters, a row for each, are of a network that takes every signal to 0."""
    return _points(silent, rec, table)


def deaf_points(rec: Recursion, table: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which are of a network that says the same of every signal."""
    return _points(deaf, rec, table)


def _points(holds: Callable[[Recursion, frozenset[str]], bool], rec: Recursion, table: NDArray[np.float64]) -> NDArray[np.bool_]:
    found = np.zeros(table.shape[1], dtype=bool)
    for zero, points in zeros_of(rec, table):
        found[points] = holds(rec, zero)
    return found


def zeros_of(rec: Recursion, table: NDArray[np.float64]) -> list[tuple[frozenset[str], NDArray[np.int64]]]:
    """Names of parameters that are 0 together, and the columns of a table, a row for each parameter, where these and no others are."""
    names = np.array([s.name for s in rec.parameters], dtype=object)
    if (table != 0).all():  # or there are none
        return [(frozenset(), np.arange(table.shape[1]))]
    patterns, which = np.unique(table == 0, axis=1, return_inverse=True)
    return [(frozenset(names[pattern]), np.flatnonzero(which.ravel() == k)) for k, pattern in enumerate(patterns.T)]
