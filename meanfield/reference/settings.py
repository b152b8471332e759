"""The numbers that a random network is drawn with: the parameters of its law, and what its modules use beside them.

A scale on which the law does not depend, as \\sigma_K where \\sigma_Q is 0 or \\sigma_2 in front of a norm, is no parameter of the theory,
but a matrix has to be drawn with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sympy as sp

from meanfield.activation import Activation
from meanfield.blocks.algebra import Block, made_of
from meanfield.blocks.laws import TOKENS
from meanfield.numeric.propagation import parameters as network_parameters
from meanfield.numeric.runs import bound_parameters
from meanfield.symbols import reserved

__all__ = ["settings", "theirs", "with_tokens"]


def settings(net: Block, given: Mapping[str, Any], sizes: Mapping[str, int | None]) -> dict[str, float]:
    """A value for every symbol of the description, by name. What the law does not depend on may be left out: it is one of `sizes` if it
    has their name, which has to be given where that is None, and 1 otherwise. Hidden units e of gated attention stay open.

    Raises ValueError for missing and unknown names, with both lists, and for an array.
    """
    law, spare = network_parameters(net), _spare(net)
    left_out = {s.name: sizes.get(s.name, 1) for s, field in spare.items() if field != "e"}
    known = {name: value for name, value in left_out.items() if value is not None} | dict(given)
    letters = [s for s in spare if s.name in known or s.name in left_out]
    values: dict[str, float] = {}
    for name, array in bound_parameters((*law, *letters), known).items():
        if array.ndim:
            raise ValueError(f"{name} has the shape {array.shape}: a network is drawn for one setting, not for a grid")
        values[name] = float(array)
    return values


def with_tokens(net: Block, given: Mapping[str, Any], n: int | None) -> dict[str, Any]:
    """The given numbers and, where it is given and the law depends on it, n."""
    return {**given, "n": n} if n is not None and "n" in {s.name for s in network_parameters(net)} else dict(given)


def theirs(net: Block, given: Mapping[str, Any]) -> dict[str, Any]:
    """Of the given numbers those that the law may know of: all but what only the modules use."""
    spare = {s.name for s in _spare(net)}
    return {name: value for name, value in given.items() if name not in spare}


def _spare(net: Block) -> dict[sp.Symbol, str]:
    """the symbols on which the law does not depend, each with a field it stands in"""
    law = {s.name for s in network_parameters(net)}
    return {s: field for s, field in _letters(net, "") if s.name not in law}


def _letters(value: Any, field: str) -> Iterator[tuple[sp.Symbol, str]]:
    """the symbols that a block was made with, and their fields"""
    if isinstance(value, sp.Expr):
        yield from ((s, field) for s in sorted(value.free_symbols - set(TOKENS), key=str) if s.name not in reserved)
    elif isinstance(value, Activation):
        yield from _letters(value.expression, field)
    elif isinstance(value, tuple):
        for part in value:
            yield from _letters(part, field)
    elif isinstance(value, Block):
        for name, entry in made_of(value).items():
            yield from _letters(entry, name)
