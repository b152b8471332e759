"""Networks that say nothing, or the same of everything or of opposite inputs, or divide by nothing: weights, biases and skips that are
exactly 0, and functions that are even, as expressions tell and doubles do not."""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from meanfield.blocks.laws import Law
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.no_variance import still
from meanfield.gaussian.pair_expectation import Gap
from meanfield.gaussian.parities import is_odd
from meanfield.gaussian.series import NoExpansion
from meanfield.gaussian.shared_parts import parts_of, put_in
from meanfield.numeric.gram_laws import explicit
from meanfield.recurrence import Recursion
from meanfield.symbols import known

__all__ = ["deaf", "joins", "silent", "undefined"]

q, p, delta = known("q"), known("p"), known("delta")


@lru_cache(maxsize=256)
def silent(rec: Recursion, zero: frozenset[str]) -> bool:
    """Whether a repeat takes every signal to 0 where the parameters of these names are 0: one of its sublayers does, and those after it
    add nothing.

    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.mlp(mf.tanh))
    >>> silent(rec, frozenset({"sigma_w"})), silent(rec, frozenset({"sigma_w", "sigma_b"}))
    (False, True)
    """
    bound = _bound(rec, zero)
    nothing = dict.fromkeys((q, p, delta), sp.S.Zero)
    empty = [k for k, stage in enumerate(rec.stages) if _vanishes(stage.law, bound)]
    return bool(empty) and all(_vanishes(stage.law, bound | nothing) for stage in rec.stages[empty[-1] + 1 :])


@lru_cache(maxsize=256)
def deaf(rec: Recursion, zero: frozenset[str]) -> bool:
    """Whether a repeat says the same of every signal where the parameters of these names are 0: no gradient goes through one of its
    sublayers.

    >>> import meanfield as mf
    >>> deaf(mf.recursion(mf.mlp(mf.tanh)), frozenset({"sigma_w"}))
    True
    """
    return any(_vanishes(stage.law, _bound(rec, zero), *stage.law.transfer) for stage in rec.stages)


@lru_cache(maxsize=256)
def undefined(rec: Recursion, zero: frozenset[str]) -> bool:
    """Whether a repeat has no value where the parameters of these names are 0: a norm divides by a variance that is 0.

    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.Linear() >> mf.RMSNorm())
    >>> undefined(rec, frozenset({"sigma_w"})), undefined(rec, frozenset({"sigma_w", "sigma_b"}))
    (False, True)
    """

    def divides(law: Law) -> bool:
        put = _with_definitions(law, _bound(rec, zero))
        bases = {t.base for e in (law.output.delta, *law.transfer) for t in e.atoms(sp.Pow) if t.exp.is_negative}
        return any(_at(base, put) == 0 for base in bases)

    return any(divides(stage.law) for stage in rec.stages)


@lru_cache(maxsize=256)
def joins(rec: Recursion, zero: frozenset[str]) -> bool:
    """Whether a repeat takes opposite inputs, c = -1, to one, c = 1: a function of which is even"""
    opposite = {**_bound(rec, zero), p: -q, delta: 2 * q}

    def mirrored(t: sp.Expr) -> bool:
        return isinstance(t, Gap) and t.args[2] == 2 * t.args[1] and is_odd(t.integrand)

    for stage in rec.stages:
        after, gap = (_at(e, opposite) for e in explicit(stage.law, (stage.law.output.q, stage.law.output.delta)))
        gap = gap.replace(mirrored, lambda t: 2 * Expectation(t.integrand**2, t.args[1]))
        gap = _without_bounds(gap)
        if gap == 0:
            return True
        if sp.expand(gap - 2 * after) != 0:
            return False
    return False


def _without_bounds(gap: sp.Expr) -> sp.Expr:
    """A gap of which parts are no more than they can be, where one of the two is 0: neither is negative."""
    letters = {t: sp.Dummy() for t in parts_of(gap, Node)}
    found = put_in(gap, letters).replace(lambda t: isinstance(t, sp.Min) and 0 in t.args, lambda t: sp.S.Zero)
    return found.xreplace({letter: t for t, letter in letters.items()})


def _bound(rec: Recursion, zero: frozenset[str]) -> dict[sp.Expr, sp.Expr]:
    return {s: sp.S.Zero for s in rec.parameters if s.name in zero}


def _vanishes(law: Law, put: dict[sp.Expr, sp.Expr], *wanted: sp.Expr) -> bool:
    """whether q of a law, or all that is wanted, is 0 with these values put in, as far as that shows without sums"""
    put = _with_definitions(law, put)
    return all(_at(e, put) == 0 for e in wanted or (law.output.q,))


def _with_definitions(law: Law, put: dict[sp.Expr, sp.Expr]) -> dict[sp.Expr, sp.Expr]:
    """values, and with them 0 for what is named and 0 then"""
    put = dict(put)
    for d in law.definitions:  # each in terms of those before
        if _at(d.value, put) == 0:
            put[d.symbol] = sp.S.Zero
    return put


def _at(e: sp.Expr, put: dict[sp.Expr, sp.Expr]) -> sp.Expr:
    """an expression with values put in, where expectations over no variance are values; as it was where it has none there"""
    try:
        return still(e, put)
    except NoExpansion:
        return e
