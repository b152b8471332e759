"""The symbols that a network is described with, and those of them on which its law does not depend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sympy as sp

from meanfield import arguments
from meanfield.activation import Activation
from meanfield.blocks.algebra import Block, made_of
from meanfield.blocks.laws import TOKENS
from meanfield.symbols import reserved

__all__ = ["heeded", "spare"]


def spare(net: Block, parameters: Iterable[sp.Symbol]) -> dict[sp.Symbol, str]:
    """The symbols of the description that are no parameters of its law, each with a field it stands in: as \\sigma_K where \\sigma_Q is 0,
    or \\sigma_2 in front of a norm.

    >>> import meanfield as mf
    >>> net = mf.Attention(n=4, sigma_Q=0)
    >>> spare(net, mf.recursion(net).parameters)
    {sigma_K: 'sigma_K'}
    """
    law = {s.name for s in parameters}
    return {s: field for s, field in _letters(net, "") if s.name not in law}


def heeded(net: Block, parameters: Iterable[sp.Symbol], given: Mapping[str, Any]) -> dict[str, Any]:
    """Of the given values those that the law with these parameters may know of, without those of symbols that the description alone has:
    these may be given, one number or expression each, and change nothing."""
    law = tuple(parameters)
    left = {s.name for s in spare(net, law)} if given.keys() - {s.name for s in law} else set()
    for name in left & given.keys():
        try:
            arguments.scalar(arguments.coefficient(given[name], name), name)
        except TypeError:
            raise TypeError(f"{name} = {given[name]!r}: expected one number, of a symbol on which the law does not depend") from None
    return {name: value for name, value in given.items() if name not in left}


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
