"""Weight scales, skips and other coefficients of blocks that are expressions: real numbers within their range, or refused.

A law knows them by their squares, in which a negative sigma and an imaginary skip are no longer seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import arguments, symbols
from meanfield.blocks.algebra import Block

__all__ = ["check_coefficients"]


def check_coefficients(block: Block, values: Mapping[str, NDArray[np.float64]], depth: int = 0) -> None:
    """Refuse a coefficient that is no real number, or out of its range, at these parameters in the first two repeats or the last."""
    for name, e in dict.fromkeys(_coefficients(block)):
        if not _safe(name, e):
            _check(name, e, values, depth)


def _coefficients(value: Any) -> Iterator[tuple[str, sp.Expr]]:
    """each expression that a block was made of, with its name there, and those of its parts"""
    if isinstance(value, tuple):
        for part in value:
            yield from _coefficients(part)
    if isinstance(value, Block):
        for name in getattr(type(value), "__dataclass_fields__", ()):
            entry = getattr(value, name)
            if isinstance(entry, sp.Expr) and entry.free_symbols:
                yield name, entry
            else:
                yield from _coefficients(entry)


def _safe(name: str, e: sp.Expr) -> bool:
    """whether sympy knows all that is asked of it; a symbol of the library's own is held against its range where it is bound, and sizes are
    whole numbers where they are given"""
    entry = symbols.TABLE.get(name)
    if e.is_Symbol and e == symbols.parameter(e.name) and (entry is None or e.name in symbols.TABLE):
        return True
    if entry is None or entry.lowest is None:
        return bool(e.is_real)
    return entry.integer or (bool(e.is_nonnegative) and entry.lowest == 0 and entry.below is None)


def _check(name: str, e: sp.Expr, values: Mapping[str, NDArray[np.float64]], depth: int) -> None:
    free = {s.name for s in e.free_symbols}
    if not free <= {*values, "L", "l"} or ("l" in free and not depth):
        return
    own: dict[str, Any] = {s: values[s] for s in free & values.keys()}
    rank = max((v.ndim for v in own.values()), default=0)
    repeats = np.unique(np.clip([0, 1, depth - 1], 0, depth - 1)) if "l" in free else np.zeros(1)
    own |= {"L": float(max(depth, 1))} if "L" in free else {}
    own |= {"l": repeats.astype(float).reshape(-1, *[1] * rank)} if "l" in free else {}
    arguments.broadcast({s: np.asarray(v) for s, v in own.items()})
    from meanfield.numeric.evaluation import evaluate

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = np.asarray(evaluate(e.xreplace({s: sp.Symbol(s.name, real=True) for s in e.free_symbols}), **own))
    except ArithmeticError:  # its status is told where it is met
        return
    except ValueError as wrong:
        raise ValueError(f"{name} = {e}: expected a real number, got none {_places(repeats, free)}") from wrong
    try:
        arguments.check_range(found[np.isfinite(found)], name)
    except ValueError as wrong:
        raise ValueError(f"{wrong}: {name} = {e} {_places(repeats, free)}") from None


def _places(repeats: NDArray[Any], free: set[str]) -> str:
    return f"in one of the repeats l = {', '.join(f'{r:g}' for r in repeats)}" if "l" in free else "at these parameters"
