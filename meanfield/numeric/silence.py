"""Networks that say nothing, or the same of everything or of opposite inputs, or divide by nothing: weights, biases and skips that are
exactly 0, and functions that are even, as expressions tell and doubles do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.blocks.laws import Law
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.no_variance import still
from meanfield.gaussian.pair_expectation import Gap
from meanfield.gaussian.parities import odd_part
from meanfield.gaussian.series import NoExpansion
from meanfield.numeric.gram_laws import explicit
from meanfield.recurrence import Recursion
from meanfield.symbols import known

__all__ = ["deaf", "deaf_points", "joining_points", "silent", "silent_points", "undefined", "undefined_points", "zeros_of"]

q, p, delta = known("q"), known("p"), known("delta")


@lru_cache(maxsize=256)
def silent(rec: Recursion, zero: frozenset[str]) -> bool:
    """Whether a repeat takes every signal to 0 where the parameters of these names are 0: one of its sublayers does, and those after it
    add nothing.

    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.mlp(mf.tanh))
    >>> silent(rec, frozenset({"sigma_w"})), silent(rec, frozenset({"sigma_w", "sigma_b"}))
    (False, True)
    """
    bound = _bound(rec, zero)
    nothing = dict.fromkeys((q, p, delta), sp.S.Zero)
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
    return any(_vanishes(stage.law, _bound(rec, zero), *stage.law.transfer) for stage in rec.stages)


@lru_cache(maxsize=256)
def undefined(rec: Recursion, zero: frozenset[str]) -> bool:
    """Whether a repeat has no value where the parameters of these names are 0: a norm divides by a variance that is 0.

    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.Linear() >> mf.RMSNorm())
    >>> undefined(rec, frozenset({"sigma_w"})), undefined(rec, frozenset({"sigma_w", "sigma_b"}))
    (False, True)
    """

    def divides(law: Law) -> bool:
        put = _with_definitions(law, _bound(rec, zero))
        bases = {t.base for e in (law.output.delta, *law.transfer) for t in e.atoms(sp.Pow) if t.exp.is_negative}
        return any(_at(base, put) == 0 for base in bases)

    return any(divides(stage.law) for stage in rec.stages)


@lru_cache(maxsize=256)
def _joins(rec: Recursion, zero: frozenset[str]) -> bool:
    """whether a repeat takes opposite inputs, c = -1, to one, c = 1: a function of which is even"""
    opposite = {**_bound(rec, zero), p: -q, delta: 2 * q}

    def mirrored(t: sp.Expr) -> bool:
        return isinstance(t, Gap) and t.args[2] == 2 * t.args[1] and odd_part(t.integrand) == t.integrand

    for stage in rec.stages:
        after, gap = (_at(e, opposite) for e in explicit(stage.law, (stage.law.output.q, stage.law.output.delta)))
        gap = gap.replace(mirrored, lambda t: 2 * Expectation(t.integrand**2, t.args[1]))
        if gap == 0:
            return True
        if sp.expand(gap - 2 * after) != 0:
            return False
    return False


def _bound(rec: Recursion, zero: frozenset[str]) -> dict[sp.Expr, sp.Expr]:
    return {s: sp.S.Zero for s in rec.parameters if s.name in zero}


def _vanishes(law: Law, put: dict[sp.Expr, sp.Expr], *wanted: sp.Expr) -> bool:
    """whether q of a law, or all that is wanted, is 0 with these values put in, as far as that shows without sums"""
    put = _with_definitions(law, put)
    return all(_at(e, put) == 0 for e in wanted or (law.output.q,))


def _with_definitions(law: Law, put: dict[sp.Expr, sp.Expr]) -> dict[sp.Expr, sp.Expr]:
    """values, and with them 0 for what is named and 0 then"""
    put = dict(put)
    for d in law.definitions:  # each in terms of those before
        if _at(d.value, put) == 0:
            put[d.symbol] = sp.S.Zero
    return put


def _at(e: sp.Expr, put: dict[sp.Expr, sp.Expr]) -> sp.Expr:
    """an expression with values put in, where expectations over no variance are values; as it was where it has none there"""
    try:
        return still(e, put)
    except NoExpansion:
        return e


def silent_points(rec: Recursion, table: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which columns of a table of parameters, a row for each, are of a network that takes every signal to 0."""
    return _points(silent, rec, table)


def deaf_points(rec: Recursion, table: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which are of a network that says the same of every signal."""
    return _points(deaf, rec, table)


def undefined_points(rec: Recursion, table: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which are of a network that divides by nothing."""
    return _points(undefined, rec, table)


def joining_points(rec: Recursion, table: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which are of a network that takes opposite inputs to one, q - p = 2 q to 0."""
    return _points(_joins, rec, table)


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
