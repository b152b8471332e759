"""Expectations that are infinite: at every variance, beyond one, or where two inputs are one."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.coincidence import coincide, may_be_infinite
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.finiteness import refusal
from meanfield.gaussian.guards import is_guarded
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.numeric.digits import doubles, point
from meanfield.numeric.expanding import expanded

__all__ = ["at_coincidence", "refuse_divergent", "refuse_infinite", "refuse_infinite_at"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Order = tuple[sp.Symbol, ...]

#: rounding of a correlation
_NEAR = 1e-15


def refuse_divergent(e: sp.Expr) -> None:
    """Raises of expectations that are infinite at every variance."""
    node = next((t for t in e.atoms(Node) if t.closed() == sp.oo), None)
    if node is not None:
        raise ValueError(f"{node} diverges: it is infinite at every variance")


def refuse_infinite(e: sp.Expr, order: Order, table: Floats) -> None:
    """Raises of expectations of what grows like exp(a x^2), beyond the variances for which they are finite."""
    for column in table.T:
        refuse_infinite_at(e, point(order, column))


def refuse_infinite_at(e: sp.Expr, at: dict[sp.Symbol, sp.Expr]) -> None:
    """The same at exact values of the symbols."""
    for node in (e, *e.atoms(Node)):
        inert = isinstance(node, Node)
        here = node.subs(at) if inert else node
        beyond = here.infinite_beyond() if isinstance(here, Node) and inert else None
        if inert and beyond is None:
            continue
        conditions = [node.where_finite(), *_conditions(node.closed())] if inert else _conditions(node)
        where = next((c for c in conditions if c is not None and c.subs(at) == sp.false), beyond)
        if where is not None:
            values = ", ".join(f"{s} = {float(v):g}" for s, v in at.items())
            raise ValueError(f"{values}: {refusal(node, where)}" if values else refusal(node, where))


def _conditions(form: sp.Expr | None) -> list[sp.Basic]:
    """what the closed forms in an expression hold for"""
    return [] if form is None else [t.args[-1].cond for t in form.atoms(sp.Piecewise) if is_guarded(t)]


def at_coincidence(e: sp.Expr, order: Order, table: Floats, reasons: list[ArithmeticError]) -> tuple[Floats, Bools]:
    """What e is at the columns of a table where two of its inputs are one and deltas or roots may meet, and which these are: inf or -inf
    where they do, as E phi'(u)^2 of a function that jumps."""
    out, found = np.zeros(table.shape[1]), np.zeros(table.shape[1], dtype=bool)
    if e in (sp.oo, -sp.oo):
        return out + float(e), ~found
    for node in _singular(e):
        v1, cov, v2 = (np.broadcast_to(row, out.shape) for row in sp.lambdify(order, node.args[1:4], "numpy")(*table))
        with np.errstate(over="ignore", under="ignore"):
            rate = cov / v1 if node.args[1] == node.args[3] else cov / np.sqrt(v1) / np.sqrt(v2)
        apart = _apart(node)
        for side in (1, -1):
            known = side == 1 and apart is not None
            one = sp.lambdify(order, apart, "numpy")(*table) == 0 if known else side * rate >= 1 - _NEAR
            near = np.flatnonzero(np.broadcast_to(one, out.shape) & ~found)
            if len(near):
                out[near], found[near] = _at_end(e, node, side, order, table[:, near], reasons)
    return out, found


@lru_cache(maxsize=512)
def _singular(e: sp.Expr) -> list[PairExpectation]:
    """the kernels in an expression of functions that may not meet"""
    found = [(node, node.separated()) for node in e.atoms(PairExpectation)]
    return [node for node, parts in found if parts is not None and all(map(may_be_infinite, parts))]


@lru_cache(maxsize=512)
def _apart(node: PairExpectation) -> sp.Expr | None:
    """how far the covariance is from one variance of both, where that is known beside it and not by what rounding leaves of a difference"""
    _, v1, cov, v2, *_ = node.args
    apart = expanded(v1 - cov) if v1 == v2 else v1
    return None if apart.free_symbols & v1.free_symbols or not apart.free_symbols else apart


def _at_end(
    e: sp.Expr, node: PairExpectation, side: int, order: Order, table: Floats, reasons: list[ArithmeticError]
) -> tuple[Floats, Bools]:
    """e where a kernel in it is at correlation 1 or -1 or next to it, and whether that settles it"""
    f, v1, _, v2, *means = node.args
    if v1 == v2:
        whole = e.xreplace({node: PairExpectation(f, v1, side * v1, v2, *means).doit()})
        if whole in (sp.oo, -sp.oo):
            return np.full(table.shape[1], float(whole)), np.ones(table.shape[1], dtype=bool)
    out, found = np.zeros(table.shape[1]), np.zeros(table.shape[1], dtype=bool)
    for g, column in enumerate(table.T):
        at = point(order, column)
        here = node.subs(at)
        whole = e.xreplace({node: here.doit()}).subs(at)
        if whole in (sp.oo, -sp.oo):
            out[g], found[g] = float(whole), True
        elif f.has(sp.DiracDelta) and coincide(here.args[1:]):
            ((out[g],), _) = doubles(e, order, table[:, g : g + 1], reasons)
            found[g] = np.isfinite(out[g])
    return out, found
