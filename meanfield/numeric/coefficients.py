"""Weight scales, skips and other coefficients of blocks that are expressions: real numbers within their range, or refused.

A law knows them by their squares, in which a negative sigma and an imaginary skip are no longer seen. Those in l tell whether anything
happens at one repeat that does not happen at its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import arguments, symbols
from meanfield.blocks.algebra import Block, made_of
from meanfield.gaussian.expectation import Node
from meanfield.numeric.abnormal import LARGEST
from meanfield.numeric.digits import digits_of, point
from meanfield.symbols import known

__all__ = ["changes_slowly", "check_coefficients", "not_known_yet"]

#: values that are worked out at a time
_AT_ONCE = 2**20
#: how many repeats are looked at, first ones and last ones, where there are more: some tenths of a second
_ENDS = 2**22
#: how many of those that may be wrong are looked at, which takes a millisecond each: where the first ones are only too large for doubles,
#: the others are too
_LOOKS = 50

#: parameters that a number stands in for
_UNKNOWN: ContextVar[frozenset[str]] = ContextVar("unknown", default=frozenset())


@contextmanager
def not_known_yet(names: Iterable[str]) -> Iterator[None]:
    """What depends on these parameters is not looked at meanwhile: their numbers stand in for those of dask arrays."""
    before = _UNKNOWN.set(frozenset(names))
    try:
        yield
    finally:
        _UNKNOWN.reset(before)


def check_coefficients(block: Block, values: Mapping[str, NDArray[np.float64]], depth: int = 0) -> None:
    """Refuse a coefficient that is no real number, infinite in one of the repeats, or out of its range, at these parameters."""
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
    whole numbers where they are given; of functions, as factorial(l), it does not know whether doubles hold them"""
    entry = symbols.TABLE.get(name)
    bound = symbols.TABLE.get(e.name) if e.is_Symbol and e == symbols.parameter(e.name) else None
    if bound is not None and (entry is None or (bound.lowest, bound.below) == (entry.lowest, entry.below)):
        return True
    if e.has(sp.Function):
        return False
    if entry is None or entry.lowest is None:
        return bool(e.is_real)
    return entry.integer or (bool(e.is_nonnegative) and entry.lowest == 0 and entry.below is None)


def _check(name: str, e: sp.Expr, values: Mapping[str, NDArray[np.float64]], depth: int) -> None:
    free = {s.name for s in e.free_symbols}
    if not free <= {*values, "L", "l"} or ("l" in free and not depth) or free & _UNKNOWN.get():
        return
    own: dict[str, Any] = {s: values[s] for s in sorted(free & values.keys())}
    grid = arguments.broadcast(own)
    own |= {"L": np.asarray(float(max(depth, 1)))} if "L" in free else {}
    plain = e.xreplace({s: sp.Symbol(s.name, real=True) for s in e.free_symbols})
    for repeats in _repeats(e, depth, math.prod(grid)) if "l" in free else [None]:
        table = own if repeats is None else {"l": repeats.reshape(-1, *[1] * len(grid)), **own}
        shape = np.broadcast_shapes(grid, *(v.shape for v in table.values()))
        _check_values(name, e, plain, list(table), np.array([np.broadcast_to(v, shape).ravel() for v in table.values()]))


def _repeats(e: sp.Expr, depth: int, settings: int) -> Iterator[NDArray[np.float64]]:
    """the repeats at which a coefficient is looked at, as many at a time as memory is to hold: what changes slowly has no poles between
    the first two and the last, and no sign that it does not have there; of very many others those at either end"""
    if _is_slow(e):
        yield np.unique(np.clip([0.0, 1.0, depth - 1.0], 0, depth - 1))
        return
    size, first, last = max(1, _AT_ONCE // max(1, settings)), min(depth, _ENDS), max(_ENDS, depth - _ENDS)
    for begin, end in ((0, first), (last, depth)):
        for l in range(begin, end, size):
            yield np.arange(l, min(l + size, end), dtype=np.float64)


def _check_values(name: str, e: sp.Expr, plain: sp.Expr, letters: list[str], table: NDArray[np.float64]) -> None:
    """A coefficient at the columns of a table: what is no number there or out of range is looked at again, exactly."""
    from meanfield.numeric.evaluation import entries
    from meanfield.numeric.printing import Unsupported
    from meanfield.numeric.programs import program_of

    order = tuple(sp.Symbol(letter, real=True) for letter in letters)
    try:
        values = entries(plain, dict(zip(letters, table, strict=True))) if plain.has(Node) else program_of(plain, order)(table)[0]
    except Unsupported as unknown:
        raise ValueError(f"{name} = {e}: {unknown}") from None
    beyond = np.isfinite(values)
    beyond[beyond] = arguments.outside(values[beyond], name)
    for g in np.concatenate([np.flatnonzero(kind)[:_LOOKS] for kind in (np.isnan(values), np.isinf(values), beyond)]):
        at = dict(zip(letters, table[:, g], strict=True))
        where = ", ".join(f"{letter} = {f'{v:.0f}' if letter in 'lL' else arguments.shown(v)}" for letter, v in at.items())
        _check_value(name, e, plain, point(order, table[:, g]), where, bool(np.isfinite(values[g])))


def _check_value(name: str, e: sp.Expr, plain: sp.Expr, at: dict[sp.Symbol, sp.Expr], where: str, held: bool) -> None:
    """The same at one place; `held` by a double as it is worked out. Settings at which nothing else is wrong have their status in a run,
    beside those of others: no setting helps where it is the repeat."""
    of_repeat = "l" in map(str, at)
    if plain.subs(at).has(sp.oo, -sp.oo, sp.zoo, sp.nan):
        if of_repeat:
            raise ValueError(f"{name} = {e}: expected a finite number, got none at {where} (the repeats are l = 0 ... L - 1)")
        return
    try:
        exactly = digits_of(plain, at, 20)
    except ArithmeticError:  # its status is told where it is met
        return
    except ValueError:
        raise ValueError(f"{name} = {e}: expected a real number, got none at {where}") from None
    if of_repeat and not held and abs(exactly) <= LARGEST:
        raise ValueError(f"{name} = {e}: parts of it are no doubles at {where}, where it is {mp.nstr(exactly, 6)}: write it without them")
    try:
        arguments.check_range(np.array([float(exactly)]), name)
    except ValueError as wrong:
        raise ValueError(f"{wrong}: {name} = {e} at {where}") from None
