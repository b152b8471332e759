"""What is given for the symbols of an expression: doubles over a grid, or exact numbers, held against their ranges before work starts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import arguments
from meanfield.memory import check_memory
from meanfield.symbols import known

__all__ = ["arranged", "exact_values"]

Floats = NDArray[np.float64]
Order = tuple[sp.Symbol, ...]

#: values from which on it is asked whether they fit into memory, and how many more numbers than its symbols each takes
_MANY, _ROWS = 1 << 20, 4

_VARIANCES = ("q", "q1", "q2")
_BEYOND = "p = {value}: |p| must be at most sqrt(q1 q2) = {limit}"


def arranged(order: Order, values: dict[str, Any]) -> tuple[dict[str, Floats], tuple[int, ...]]:
    """The values of symbols as checked arrays, and the shape these broadcast to."""
    arrays = {
        s.name: arguments.variance_array(values[s.name], s.name) if s.name in _VARIANCES else arguments.symbol_array(values[s.name], s)
        for s in _asked(order, values)
    }
    grid = arguments.broadcast(arrays)
    count = math.prod(grid)
    if count > _MANY:
        need = 8.0 * count * (len(arrays) + _ROWS)
        check_memory("the result", need, f" ({count:,} values)", "fewer values of some argument, or a part of the grid at a time")
    _settle_moments(arrays)
    return {s.name: arrays[s.name] for s in order}, grid


def exact_values(order: Order, values: dict[str, Any]) -> dict[sp.Symbol, sp.Expr]:
    """The values of symbols as checked exact numbers."""
    symbols = _asked(order, values)
    shaped = sorted(s.name for s in symbols if np.shape(values[s.name]))
    if shaped:
        raise ValueError(f"{', '.join(shaped)} = an array: digits takes single numbers, loop over them")
    given = {s.name: v.item() if isinstance(v, np.ndarray) else v for s, v in ((s, values[s.name]) for s in symbols)}
    found = {s.name: _exact(given[s.name], s) for s in symbols}
    first, second = (next((name for name in names if name in found), None) for names in (("q", "q1"), ("q2", "q", "q1")))
    if first is not None and second is not None:
        if "p" in found:
            found["p"] = arguments.covariance(given["p"], found[first], found[second], given[first], given[second])
        if "delta" in found:
            found["delta"] = arguments.gap_of(given["delta"], found[first], found[second], given[first], given[second])
    return {s: found[s.name] for s in order}


def _asked(order: Iterable[sp.Symbol], values: dict[str, Any]) -> list[sp.Symbol]:
    """the symbols that have values, none missing and none unused; letters a formula has lost are checked, and their shape counts"""
    names = {s.name: s for s in order}
    lost = arguments.lost_letters(names.keys(), values.keys())
    missing, unknown = sorted(names.keys() - values.keys()), sorted(values.keys() - names.keys() - lost)
    if missing or unknown:
        parts = [f"missing values: {', '.join(missing)}"] * bool(missing) + [f"unused names: {', '.join(unknown)}"] * bool(unknown)
        raise ValueError(f"{'; '.join(parts)}. The expression has the symbols: {', '.join(sorted(names)) or 'none'}")
    return [*names.values(), *map(known, sorted(lost))]


def _exact(value: Any, symbol: sp.Symbol) -> sp.Expr:
    found = arguments.expression(value, symbol.name)
    if not found.is_number:
        raise TypeError(f"{symbol.name} = {value}: expected a number, got an expression in {found.free_symbols}")
    if symbol.name in _VARIANCES:
        arguments.check_variance(found, symbol.name)
    arguments.check_symbol(np.array(found, dtype=object), symbol)
    return found


def _settle_moments(arrays: dict[str, Floats]) -> None:
    """p and delta, what it lacks of sqrt(q1 q2), go with the variances that are given: |p| <= sqrt(q1 q2), 0 <= delta <= 2 sqrt(q1 q2), at
    these ends where rounding brought them beyond"""
    first = arrays.get("q", arrays.get("q1"))
    if first is None:
        return
    most = arguments.geometric_mean(first, arrays.get("q2", first))
    if "p" in arrays:
        arrays["p"] = arguments.within(arrays["p"], most, _BEYOND)
    if "delta" in arrays:
        complaint = f"delta = {{value}}: expected 0 <= delta <= {'2 sqrt(q1 q2)' if 'q2' in arrays else '2 q'}"
        if (below := arrays["delta"] < 0).any():
            raise ValueError(complaint.format(value=arguments.shown(arrays["delta"][below].flat[0])))
        with np.errstate(over="ignore"):  # no double is beyond an infinite limit
            arrays["delta"] = arguments.within(arrays["delta"], 2 * most, complaint)
        if np.signbit(arrays["delta"]).any():
            arrays["delta"] = np.abs(arrays["delta"])  # -0.0
