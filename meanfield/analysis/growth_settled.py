r"""The laws of a repeat whose q settles, and of repeats that all together move the state by O(1)."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp
from sympy import S

from meanfield.analysis.growth_marginal import is_marginal, marginal
from meanfield.analysis.growth_modes import as_undetermined, gap_steps, gone, steps_law, unknown, unknown_law
from meanfield.analysis.growth_rates import Approach, Together, Undetermined, at_gap, attractor, coupled
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.limits import NoExpansion
from meanfield.analysis.repeats import Repeat, expanded, stepped
from meanfield.analysis.signs import GAP, closed, vanishes
from meanfield.gaussian.shared_parts import put_in
from meanfield.recurrence import Stage
from meanfield.symbols import known

__all__ = ["joint_limit", "settled"]

x = known("x")

#: how near 1 a variance is that q starts at: a double root is known to half the digits
STARTS = 1e-7
#: from a whole number, what may be it
WHOLE = sp.Float("1e-25")


def settled(stages: Sequence[Stage], variance: sp.Expr) -> tuple[Growth, Growth, Growth]:
    """q goes to `variance` (a symbol where every variance stays)"""
    if variance == 0:  # the branches have no weight
        return gone("q"), unknown_law("1 - c", Undetermined("q is 0 from the first repeat on: there is no correlation")), gone("J")
    free = isinstance(variance, sp.Dummy)
    stays = not free and variance.is_Rational and _starts_at(variance)
    letter = variance if free or stays else sp.Dummy("q", positive=True)
    put: dict[sp.Expr, sp.Expr] = {} if free or stays else {letter: variance}
    probe = sp.Dummy("q", real=True)  # a positive one sends sympy looking for the signs of what it builds
    after, gap_after, transfer = stepped(stages, probe, probe * GAP)
    put[probe] = variance
    near = expanded(stages, letter, letter / x, 3)
    if not free and not _starts_at(variance) and is_marginal(near, letter, variance):
        return marginal(near, letter, variance)
    q = Growth("q", "bounded", reason="q stays where it starts") if free else Growth("q", "bounded", limit=_exact(near, letter, variance))
    image = closed(gap_after / probe)
    try:
        found = _settled_approach(near, image, after, put)
        approach: Approach | Undetermined = found
        law = _settled_gap(found)
    except Together:
        raise
    except (Undetermined, NoExpansion) as reason:
        approach = as_undetermined(reason)
        law = unknown_law("1 - c", reason)
    try:
        return q, law, _settled_apjn(near, transfer, approach, put)
    except (Undetermined, NoExpansion) as reason:
        return q, law, unknown_law("J", reason)


def _starts_at(variance: sp.Expr) -> bool:
    """whether q, which starts at 1, starts there, to the digits of parameters that are doubles: it stays, also where it would come there
    slowly"""
    return bool(variance.is_number and abs(sp.N(variance, 15) - 1) < STARTS)


def _exact(near: Repeat, letter: sp.Symbol, variance: sp.Expr) -> sp.Expr:
    """a variance in digits, but as a whole number where one stays"""
    whole = sp.Integer(round(variance)) if variance.is_Float else S.Zero
    stays = whole > 0 and abs(variance - whole) < WHOLE and vanishes(near.q[S.Zero, 0].xreplace({letter: whole}) - whole)
    return whole if stays else variance


def _settled_gap(approach: Approach) -> Growth:
    if approach.limit is None:
        return Growth("1 - c", "bounded", reason="1 - c goes to a value that depends on the start")
    return Growth("1 - c", "bounded", limit=approach.limit) if approach.limit != 0 else gap_steps(approach)


def _settled_approach(near: Repeat, image: sp.Expr, after: sp.Expr, put: dict[sp.Expr, sp.Expr]) -> Approach:
    terms = {(-a, j): c.xreplace(put) for (a, j), c in near.gap.items()}
    drift = None if GAP in closed(after).free_symbols else (image - GAP).xreplace(put)
    return attractor(drift, S.One, terms)


def _settled_apjn(near: Repeat, transfer: sp.Matrix, approach: Approach | Undetermined, put: dict[sp.Expr, sp.Expr]) -> Growth:
    at_one = sp.Matrix(2, 2, [t.get((S.Zero, 0), S.Zero) for t in near.transfer])
    both = coupled(near)
    if not both and GAP not in closed(transfer[0, 0]).free_symbols:
        return steps_law(sp.diag(closed(at_one[0, 0]).xreplace(put), S.Zero))
    if isinstance(approach, Undetermined):
        raise approach
    if approach.limit is None:
        raise Undetermined("J depends on 1 - c, which stays where it starts")
    if approach.limit == 0:
        if any(key[0] > 0 for t in near.transfer[:1] for key in t):
            raise Undetermined("the transfer is infinite at c = 1")
        return steps_law(at_one.applyfunc(closed).xreplace(put))
    return steps_law(transfer.applyfunc(lambda t: at_gap(put_in(closed(t), put), approach.limit)))


def joint_limit(stages: Sequence[Stage]) -> tuple[Growth, Growth, Growth]:
    """Every repeat is 1 + O(1/L): the state after t L repeats solves a differential equation, and J^{L, 0} with it"""
    last = stages[-1].law
    inner = {known("q"), known("p"), known("delta"), *(d.symbol for d in last.definitions)}
    variance = sp.Symbol("q", positive=True) if last.output.q.free_symbols & inner else closed(last.output.q)  # of a norm that ends it
    try:
        repeat = expanded(stages, variance, variance * GAP, 2)
        after = closed(repeat.q.get((S.Zero, 0), S.Zero))
        if after != 0 and after != variance and not after.free_symbols & {variance, GAP}:  # a norm begins it: where q is after one repeat
            variance = after
            repeat = expanded(stages, variance, variance * GAP, 2)
    except NoExpansion as why:
        return unknown(why)
    for terms, stays in ((repeat.q, variance), (repeat.gap, GAP), (repeat.transfer[0], S.One)):
        change = {**terms, (S.Zero, 0): terms.get((S.Zero, 0), S.Zero) - stays}
        order, logarithms = next((key for key, c in change.items() if key != (S.Zero, 0) or not vanishes(c)), (-S.One, 0))
        if order > -1 or (order == -1 and logarithms):
            raise ValueError("the repeats of this network change with L by more than O(1/L): it has no joint limit")
    reason = "in the joint limit L -> oo at l/L fixed: each repeat moves the state by O(1/L)"
    q, gap, apjn = (Growth(name, "bounded", reason=reason) for name in ("q", "1 - c", "J"))
    return q, gap, apjn
