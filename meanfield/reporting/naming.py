"""Long expressions with names for their parts: what stands in several places, and what makes a line too long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import sympy as sp

from meanfield.analysis.implicit import Implicit
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.finite_parts import FinitePart
from meanfield.reporting.breaking import WIDTH, width

__all__ = ["shortened"]

#: widths of a line up to which an expression is broken, and beyond which parts of it get names
LINES: Final = 3.0
#: in widths of the least part: a sum that stands in several places is worth a name if it is so long
SUMS: Final = 1.3
#: times from which half of that is enough
OFTEN: Final = 5
#: what is opened no further
OPAQUE: Final = (Node, FinitePart, Implicit)


def shortened(
    expressions: Sequence[sp.Basic],
    text: Callable[[sp.Basic], str],
    names: dict[sp.Basic, str],
    letter: Callable[[sp.Expr], str],
    least: float,
    nodes: bool = True,
) -> list[sp.Basic]:
    """The expressions with symbols for their parts; `letter` gives a part its name, `least` is the width in points that is worth one;
    expectations have names of their own where `nodes` says so.

    Parts are named from the inside out, so that each name is defined before it is used.
    """
    found = list(expressions)

    def name(part: sp.Expr) -> None:
        symbol = sp.Dummy("common", **{"positive": True} if part.is_positive else {"real": True})
        names[symbol] = letter(part)
        found[:] = [_replaced(e, part, symbol) for e in found]

    while (part := _repeated(found, text, least, nodes)) is not None:
        name(part)
    while (part := _longest(found, text)) is not None:
        name(part)
    return found


def _repeated(found: Sequence[sp.Basic], text: Callable[[sp.Basic], str], least: float, nodes: bool) -> sp.Expr | None:
    """the smallest part that is worth a name and stands in several places"""
    counts: dict[sp.Basic, int] = {}
    for e in found:
        for part in _parts(e):
            counts[part] = counts.get(part, 0) + 1
    worth = []
    for part, count in counts.items():
        size = width(text(part)) if count > 1 and (nodes or not part.has(Node)) else 0.0
        if size > least * (SUMS if isinstance(part, sp.Add) else 1.0) / (2 if count >= OFTEN else 1):
            worth.append((size, sp.default_sort_key(part), part))
    # of a chain of parts that always stand together the outermost gets the name
    worth.sort(key=lambda t: t[:2])
    for _, _, part in worth:
        outer = next((o for _, _, o in worth if o != part and counts[o] >= counts[part] and part in set(_parts(o))), None)
        if outer is None:
            return part
    return None


def _longest(found: Sequence[sp.Basic], text: Callable[[sp.Basic], str]) -> sp.Expr | None:
    """the widest part of about a line in an expression of many lines"""
    for e in found:
        if width(text(e)) > LINES * WIDTH:
            sizes = [(width(text(part)), sp.default_sort_key(part), part) for part in _parts(e) if part != e]
            fitting = [t for t in sizes if WIDTH / 4 < t[0] <= WIDTH]
            if fitting:
                return max(fitting, key=lambda t: t[:2])[2]
    return None


def _parts(e: sp.Basic) -> Iterator[sp.Expr]:
    """sums, functions, roots and expectations in an expression"""
    worth = isinstance(e, (sp.Add, sp.Function, Node, FinitePart)) or (e.is_Pow and not e.exp.is_Integer)
    if worth and not e.is_number:
        yield e
    if not isinstance(e, OPAQUE):
        for a in e.args:
            yield from _parts(a)


def _replaced(e: sp.Basic, part: sp.Expr, symbol: sp.Symbol) -> sp.Basic:
    return symbol if e == part else e.xreplace({part: symbol})
