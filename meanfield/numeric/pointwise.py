"""Numbers of an expression at arrays of values, and with them those of its derivatives where values are `Dual`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.expectation import Node
from meanfield.gaussian.guards import is_infinite
from meanfield.gaussian.no_variance import still
from meanfield.gaussian.series import NoExpansion
from meanfield.gaussian.tangents import partial
from meanfield.numeric.duals import Dual, Varied, plain, times
from meanfield.numeric.evaluation import entries, evaluate

__all__ = ["Lasting", "number_at"]

Floats = NDArray[np.float64]


class Lasting:
    """An expression at the values of parameters, kept from layer to layer while those that it has stay the same."""

    def __init__(self, e: sp.Expr) -> None:
        self._expression = e
        self._names = {s.name for s in e.free_symbols}
        self._at: dict[str, Floats] | None = None
        self._value: Varied = np.empty(0)

    def __call__(self, values: Mapping[str, Varied]) -> Varied:
        given = {name: v for name, v in values.items() if name in self._names}
        at = {name: plain(v) for name, v in given.items()}
        before = self._at
        if before is None or any(v.shape != before[name].shape or (v != before[name]).any() for name, v in at.items()):
            self._at, self._value = at, number_at(self._expression, given)
        return self._value


def number_at(e: sp.Expr, values: Mapping[str, Varied]) -> Varied:
    """The expression at arrays of values; where it is no normal double, inf, 0 or NaN."""
    names, jumps = _letters(e)
    at = {name: plain(v).astype(np.float64) for name, v in values.items() if name in names}
    value = _floats(e, at, jumps)
    moved = {name: v for name, v in values.items() if name in names and isinstance(v, Dual) and v.dots.any()}
    if not moved:
        return value
    if value.size and not np.isfinite(value).any():  # E phi'^2 where phi jumps: nothing to differentiate
        return Dual(value, np.full((len(next(iter(moved.values())).dots), *value.shape), np.nan))
    dots = sum(times(_slope_at(e, name, at), v.dots_in(value.ndim)) for name, v in moved.items())
    return Dual(value, np.asarray(dots))


def _slope_at(e: sp.Expr, name: str, at: Mapping[str, Floats]) -> Floats:
    slope = _slope(e, name)
    return _floats(slope, {s: at[s] for s in _letters(slope)[0]})


def _floats(e: sp.Expr, given: Mapping[str, Any], jumps: bool = False) -> Floats:
    if not given:
        return np.asarray(float(e))
    if jumps:
        return np.full(np.broadcast_shapes(*(v.shape for v in given.values())), np.inf)
    shape = np.broadcast_shapes(*(v.shape for v in given.values()))
    full = {name: np.broadcast_to(v, shape).ravel() for name, v in given.items()}
    try:
        value = entries(e, full)
    except (ArithmeticError, ValueError, TypeError):  # the last of sympy, which compares no NaN: 0/0 in what does not vary
        alone = [float(_floats(e, {name: v[k] for name, v in full.items()})) for k in range(math.prod(shape))] if shape else [np.nan]
        value = np.array(alone)
    for k in np.flatnonzero(~np.isfinite(value)):
        value[k] = _beyond(e, {name: v[k] for name, v in full.items()})
    return value.reshape(shape)


@lru_cache(maxsize=2048)
def _letters(e: sp.Expr) -> tuple[frozenset[str], bool]:
    """the symbols of an expression by name, and whether it is infinite, for all parameters: an activation that jumps has no finite slope"""
    return frozenset(s.name for s in e.free_symbols), is_infinite(e)


@lru_cache(maxsize=2048)
def _slope(e: sp.Expr, name: str) -> sp.Expr:
    return partial(e, next(s for s in e.free_symbols if s.name == name))


def _beyond(e: sp.Expr, given: Mapping[str, Any]) -> float:
    """a positive value by its logarithm, inf for one that is infinite, NaN for one that is not to be had"""
    exact: dict[sp.Basic, sp.Expr] = {s: sp.Rational(float(given[s.name])) for s in e.free_symbols if math.isfinite(given[s.name])}
    with suppress(NoExpansion):
        value = still(e, exact)
        if not value.free_symbols and not value.has(Node):
            return float(value) if value.is_extended_real else math.nan
    try:
        with np.errstate(over="ignore"):
            return float(np.exp(evaluate(e, log=True, **given)))
    except (ArithmeticError, ValueError):
        return _infinite(e, given)


def _infinite(e: sp.Expr, given: Mapping[str, Any]) -> float:
    """inf where expectations that are infinite enter with no negative factor and with a positive one, NaN elsewhere"""
    factors = []
    for node in e.atoms(Node):
        if node.closed() == sp.oo:
            letter = sp.Dummy(positive=True)
            factors.append(float(_floats(e.xreplace({node: letter}).diff(letter), given)))
    return math.inf if factors and min(factors) >= 0 and max(factors) > 0 else math.nan
