"""Weight scales, skips and other coefficients of blocks that are expressions: real numbers within their range, or refused.

A law knows them by their squares, in which a negative sigma and an imaginary skip are no longer seen. Those in l tell whether anything
happens at one repeat that does not happen at its neighbours.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import arguments, symbols
from meanfield.blocks.algebra import Block, made_of
from meanfield.symbols import known

__all__ = ["changes_slowly", "check_coefficients"]


def check_coefficients(block: Block, values: Mapping[str, NDArray[np.float64]], depth: int = 0) -> None:
    """Refuse a coefficient that is no real number, or out of its range, at these parameters in the first two repeats or the last."""
    for name, e in dict.fromkeys(_coefficients(block)):
        if not _safe(name, e):
            _check(name, e, values, depth)


def changes_slowly(block: Block) -> bool:
    """Whether all that changes with l is made of sums of what is not negative, products and powers, so that it changes by a power of l at
    most where l is multiplied, and nowhere at once. What a user's own block does with l is not known."""
    return _is_library(block) and all(_is_slow(e) for _, e in _coefficients(block) if known("l") in e.free_symbols)


def _is_library(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_library, value))
    if not isinstance(value, Block):
        return True
    return _is_own(value) and all(map(_is_library, made_of(value).values()))


def _is_own(block: Block) -> bool:
    """of the library's own classes, not a user's"""
    return type(block).__module__.startswith("meanfield.")


def _is_slow(e: sp.Expr) -> bool:
    varying = [t for t in sp.preorder_traversal(e) if known("l") in t.free_symbols]
    return all(
        t.is_Symbol
        or t.is_Mul
        or (t.is_Pow and bool(t.exp.is_Rational))
        or (t.is_Add and all(bool(part.is_nonnegative) for part in t.args))
        for t in varying
    )


def _coefficients(value: Any) -> Iterator[tuple[str, sp.Expr]]:
    """each expression that a block was made of, with its name there, that of a user's own block before it, and those of its parts"""
    if isinstance(value, tuple):
        for part in value:
            yield from _coefficients(part)
    if isinstance(value, Block):
        own = "" if _is_own(value) else f"{type(value).__name__}."
        for name, entry in made_of(value).items():
            if isinstance(entry, sp.Expr) and entry.free_symbols:
                yield f"{own}{name}", entry
            else:
                yield from _coefficients(entry)


def _safe(name: str, e: sp.Expr) -> bool:
    """whether sympy knows all that is asked of it; a symbol of the library's own is held against its range where it is bound, and sizes are
    whole numbers where they are given"""
    entry = symbols.TABLE.get(name)
    bound = symbols.TABLE.get(e.name) if e.is_Symbol and e == symbols.parameter(e.name) else None
    if bound is not None and (entry is None or (bound.lowest, bound.below) == (entry.lowest, entry.below)):
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
