"""Each stage of a repeat as a skip and a branch, a s + b(s): a repeat adds (a - 1) s + b, which is no difference of large numbers."""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from meanfield.analysis.derivatives import Name, derivative, differentiated, identical
from meanfield.analysis.maps import StepMap
from meanfield.gaussian.expectation import Node
from meanfield.symbols import known

__all__ = ["identical_rows", "moved_rows", "pair_rows", "transfer_rows"]

q, delta = known("q"), known("delta")

Rows = tuple[tuple[sp.Expr, ...], ...]


def _split(e: sp.Expr, s: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """(a, b) with e = a s + b, where a holds neither the state nor an expectation"""
    parts = [_split(t, s) for t in e.args] if e.is_Add else []
    if parts:
        return sp.Add(*[a for a, _ in parts]), sp.Add(*[b for _, b in parts])
    factor, rest = e.as_independent(q, delta, Node, Name, as_Add=False)
    if rest == s:
        return factor, sp.S.Zero
    a, b = _split(rest, s) if rest.is_Add else (sp.S.Zero, rest)
    return (sp.S.Zero, e) if a == 0 else (factor * a, factor * b)


def _beside_one(a: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    return a, a - 1


@lru_cache(maxsize=64)
def identical_rows(step: StepMap) -> Rows:
    """For each stage at delta = 0: the branches of q', dq'/dq and d delta'/d delta; a and a - 1 of q, then of d delta'/d delta."""
    rows = []
    for new, _, across in step.stages_identical:
        (a, b), (c, other) = _split(new, q), _split(across, sp.S.One)
        rows.append((b, derivative(b, q), other, *_beside_one(a), *_beside_one(c)))
    return tuple(rows)


@lru_cache(maxsize=64)
def moved_rows(step: StepMap) -> Rows:
    """For each stage: the branches of q' and delta'; a and a - 1 of q, then of delta."""
    rows = []
    for new_q, new_delta in step.stages:
        (a, b), (c, g) = _split(new_q, q), _split(new_delta, delta)
        rows.append((b, g, *_beside_one(a), *_beside_one(c)))
    return tuple(rows)


@lru_cache(maxsize=64)
def pair_rows(step: StepMap) -> Rows:
    """The same with the derivatives of the branches by q and delta, row by row."""
    slopes = ([differentiated(e, s) for e in row[:2] for s in (q, delta)] for row in moved_rows(step))
    return tuple((*row, *own) for row, own in zip(moved_rows(step), slopes, strict=True))


@lru_cache(maxsize=64)
def transfer_rows(step: StepMap, same: bool) -> Rows:
    """For each stage: q' and delta', the entries of its transfer, less constants a on the diagonal, then a and a - 1 of the two."""
    rows = []
    for state, entries in zip(step.stages, step.stages_transfer, strict=True):
        new_q, new_delta = (identical(state[0]), sp.S.Zero) if same else state
        first, upper, lower, last = map(identical, entries) if same else entries
        (a, first), (c, last) = _split(first, sp.S.One), _split(last, sp.S.One)
        rows.append((new_q, new_delta, first, upper, lower, last, *_beside_one(a), *_beside_one(c)))
    return tuple(rows)
