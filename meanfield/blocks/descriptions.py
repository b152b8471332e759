"""Blocks as texts that say all of them, alike in every process: what follows from one is found once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import sympy as sp

from meanfield.activation import Activation
from meanfield.fingerprint import known_to_all, text
from meanfield.keeping import remembered

__all__ = ["found_once"]

Found = TypeVar("Found")


def found_once(what: str, block: Any, find: Callable[[], Found]) -> Found:
    """What is found of a block, of an earlier process if it was: not of a user's own class, whose law may have changed since."""
    try:
        description = _described(block)
    except _Open:
        return find()
    return remembered(f"{what} {description}", find)


class _Open(Exception):
    """Something that a text does not say all of."""


def _described(value: Any) -> str:
    if isinstance(value, sp.Basic) and known_to_all(value):
        return text(value, {})
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_described, value))})"
    if type(value).__module__.startswith("meanfield.") and is_dataclass(value):
        if isinstance(value, Activation):  # whatever its name
            return _described(value.expression)
        return f"{type(value).__qualname__}{_described(tuple(getattr(value, f.name) for f in fields(value)))}"
    raise _Open
