"""Long expressions with names for their parts: what stands in several places, and what makes a line too long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

import sympy as sp

from meanfield.analysis.implicit import Implicit
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.finite_parts import FinitePart
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.reporting.breaking import WIDTH, width

__all__ = ["distinct", "replaced", "shortened"]

#: widths of a line up to which an expression is broken, and beyond which parts of it get names
LINES: Final = 2.0
#: in widths of the least part: a sum that stands in several places is worth a name if it is so long
SUMS: Final = 1.3
#: times from which a half or a third of that is enough
OFTEN: Final = ((6, 3), (4, 2))
#: letters, numbers and operations of a part that may get a name
LONGEST: Final = 500
#: what is opened no further
OPAQUE: Final = (Node, FinitePart, Implicit)


def shortened(
    expressions: Sequence[sp.Basic],
    text: Callable[[sp.Basic], str],
    names: dict[sp.Basic, str],
    letter: Callable[[sp.Expr], str],
    least: float,
    nodes: bool = True,
    own: Sequence[sp.Symbol] = (),
) -> tuple[list[sp.Basic], dict[sp.Symbol, sp.Expr]]:
    """The expressions with symbols for their parts, and what these symbols stand for; `letter` gives a part its name, `least` is the
    width in points that is worth one; expectations have names of their own where `nodes` says so. The first expressions are what the
    symbols `own` stand for: these are their names elsewhere.

    The laws of expectations stand in small print and are named first, parts from the inside out; what is named is shortened as well.
    """
    found = list(expressions)
    length = cache(lambda e: width(text(e)))
    parts: list[sp.Symbol] = []

    def name(part: sp.Expr) -> None:
        if part in found[: len(own)]:
            k = found.index(part)
            found[:] = [e if i == k else replaced(e, {part: own[k]}) for i, e in enumerate(found)]
            return
        symbol = sp.Dummy("common", **{"positive": True} if part.is_positive else {"real": True})
        names[symbol] = letter(part)
        parts.append(symbol)
        found[:] = [*map(_replacing({part: symbol}), found), part]

    while (part := _law(found, length)) is not None:
        name(part)
    while (part := _repeated(found, length, least, nodes)) is not None:
        name(part)
    while (part := _longest(found, length)) is not None:
        name(part)
    count = len(expressions)
    return found[:count], dict(zip(parts, found[count:], strict=True))


def _law(found: Sequence[sp.Basic], length: Callable[[sp.Basic], float]) -> sp.Expr | None:
    """a variance, covariance or mean that is too long for the small print below an expectation"""
    laws = (a for t in _sizes(found) if isinstance(t, (Expectation, PairExpectation)) for a in t.args[1:])
    return next((a for a in laws if length(a) > WIDTH / 3), None)


def _repeated(found: Sequence[sp.Basic], length: Callable[[sp.Basic], float], least: float, nodes: bool) -> sp.Expr | None:
    """the smallest part that is worth a name and stands in several places"""
    sizes = _sizes(found)
    counts = _counts(found, sizes)
    worth = []
    for part in _parts(sizes):
        count = counts[part]
        size = length(part) if count > 1 and (nodes or not part.has(Node)) else 0.0
        if size > least * (SUMS if isinstance(part, sp.Add) else 1.0) / next((part_of for times, part_of in OFTEN if count >= times), 1):
            worth.append((size, sp.default_sort_key(part), part))
    # of a chain of parts that always stand together the outermost gets the name
    worth.sort(key=lambda t: t[:2])
    for _, _, part in worth:
        outer = next((o for _, _, o in worth if o != part and counts[o] >= counts[part] and part in _sizes([o])), None)
        if outer is None:
            return part
    return None


def _longest(found: Sequence[sp.Basic], length: Callable[[sp.Basic], float]) -> sp.Expr | None:
    """an exponent that is too long for one, the widest part of about a line in an expression of many lines, or the narrowest sum that is
    wider"""
    for e in found:
        high = next((t.exp for t in _sizes([e]) if t.is_Pow and length(t.exp) > WIDTH / 3), None)
        if high is not None:
            return high
        if length(e) > LINES * WIDTH:
            widths = [(length(part), sp.default_sort_key(part), part) for part in _parts(_sizes([e])) if part != e]
            fitting = [t for t in widths if WIDTH / 4 < t[0] <= WIDTH]
            if fitting:
                return max(fitting, key=lambda t: t[:2])[2]
            wide = [t for t in widths if t[0] > WIDTH and isinstance(t[2], sp.Add)]
            if wide:
                return min(wide, key=lambda t: t[:2])[2]
    return None


def _inside(e: sp.Basic) -> tuple[sp.Basic, ...]:
    return () if isinstance(e, OPAQUE) else e.args


def _sizes(found: Sequence[sp.Basic]) -> dict[sp.Basic, int]:
    """everything in the expressions, each once and after what is in it, with its size written out: that can grow exponentially"""
    sizes: dict[sp.Basic, int] = {}

    def visit(e: sp.Basic) -> int:
        if e not in sizes:
            size = 1 + sum(visit(a) for a in _inside(e))
            sizes[e] = size
        return sizes[e]

    for e in found:
        visit(e)
    return sizes


def _counts(found: Sequence[sp.Basic], sizes: dict[sp.Basic, int]) -> dict[sp.Basic, int]:
    """in how many places everything stands, written out"""
    counts = dict.fromkeys(sizes, 0)
    for e in found:
        counts[e] += 1
    for e in reversed(sizes):
        for a in _inside(e):
            counts[a] += counts[e]
    return counts


def _parts(sizes: dict[sp.Basic, int]) -> Iterator[sp.Expr]:
    """sums, functions, roots and expectations, but what is too long to be read before parts of it have names"""
    for e, size in sizes.items():
        worth = isinstance(e, (sp.Add, sp.Function, Node, FinitePart)) or (e.is_Pow and not e.exp.is_Integer)
        if worth and size <= LONGEST and not e.is_number:
            yield e


def distinct(e: sp.Basic) -> set[sp.Basic]:
    """Everything in an expression, each once: sympy's own traversals take time that grows with the expression written out."""
    found: set[sp.Basic] = set()
    rest = [e]
    while rest:
        t = rest.pop()
        if t not in found:
            found.add(t)
            rest.extend(t.args)
    return found


def replaced(e: sp.Basic, by: Mapping[sp.Basic, sp.Basic]) -> sp.Basic:
    """As xreplace, but each thing once."""
    return _replacing(by)(e)


def _replacing(by: Mapping[sp.Basic, sp.Basic]) -> Callable[[sp.Basic], sp.Basic]:
    """The same of many expressions, what they share once."""
    done = dict(by)

    def visit(e: sp.Basic) -> sp.Basic:
        if e not in done:
            own = [visit(a) for a in e.args]
            done[e] = e if all(a is b for a, b in zip(own, e.args, strict=True)) else e.func(*own)
        return done[e]

    return visit
