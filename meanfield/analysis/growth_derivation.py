r"""The laws of a repeat: where its q goes, the expansion there, and what follows for q, 1 - c and J."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy as sp
from sympy import S

from meanfield.analysis.growth_modes import as_undetermined, competing, fastest, gap_steps, steps_law, unknown, unknown_law
from meanfield.analysis.growth_rates import (
    Approach,
    Motion,
    Together,
    Undetermined,
    at_gap,
    coefficient,
    coupled,
    eigenvalues,
    gap_fixed,
    gap_slow,
    motion,
    slow_exponents,
    tidied,
)
from meanfield.analysis.growth_records import Growth, Reason
from meanfield.analysis.growth_settled import settled
from meanfield.analysis.growth_stretched import stretched
from meanfield.analysis.implicit import TOUCHING, VarianceRoot, valued
from meanfield.analysis.limits import REST, NoExpansion, check_expandable
from meanfield.analysis.repeats import Repeat, expanded, small, stepped
from meanfield.analysis.signs import GAP, closed, sign, vanishes
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.harmonics import steady
from meanfield.recurrence import Stage
from meanfield.symbols import known

__all__ = ["laws", "letters"]

x = known("x")

#: variances at which the direction of a recursion without free parameters is looked up, on the way from 1
_FAR = tuple(sp.Integer(10) ** k for k in (1, 2, 3, 4, 6, 8, 12, 16))
#: a variance from which on oscillations are averages over many periods
_PERIODS = 10**4
#: a change of q in a repeat, relative, that is none
_NONE = sp.Float("1e-28")


def letters(stage: Stage) -> set[sp.Basic]:
    """The symbols of a stage."""
    return set().union(*(e.free_symbols for e in _expressions(stage)))


def _expressions(stage: Stage) -> tuple[sp.Expr, ...]:
    law = stage.law
    return (law.output.q, law.output.delta, *law.transfer, *(d.value for d in law.definitions))


# -- where q goes ------------------------------------------------------------------------------------------------------


def laws(stages: Sequence[Stage]) -> tuple[Growth, Growth, Growth]:
    """The laws of q, 1 - c and J of a repeat that stays the same. Raises Together where they are of the joint map."""
    try:
        check_expandable(e for s in stages for e in _expressions(s))
        infinite = _infinite(stages)
        if infinite is not None:
            still = tuple(replace(s, law=replace(s.law, transfer=sp.eye(2))) for s in stages)
            return *laws(still)[:2], unknown_law("J", infinite)
        place = _place(stages)
        if isinstance(place, tuple):
            return _moving(*place)
        return settled(stages, place)
    except Together:
        raise
    except (Undetermined, NoExpansion) as reason:
        return unknown(reason)
    except ArithmeticError as reason:  # a number on the way has no rule that is certain
        return unknown(Undetermined(str(reason)))


def _infinite(stages: Sequence[Stage]) -> Undetermined | None:
    """why the transfer of a repeat has no value: the activation jumps, and the square of its slope has no mean"""
    for s in stages:
        for t in s.law.transfer.atoms(Expectation):
            if t.integrand.has(sp.DiracDelta) and t.conditioned().has(sp.oo, sp.zoo):
                return Undetermined(f"{t} is infinite: J is after one repeat")
    return None


def _far(stages: Sequence[Stage], direction: int) -> Repeat:
    return expanded(stages, x**direction, GAP * x**direction, 2 if direction > 0 else 4)


def _place(stages: Sequence[Stage]) -> tuple[Repeat, Motion] | sp.Expr:
    """the expansion of a repeat where q goes to infinity or to 0, or the fixed point q*"""
    numeric = not any(letters(s) - _own(s) for s in stages)
    variance = sp.Dummy("q", positive=True)
    probe = sp.Dummy("q", real=True)  # a positive one sends sympy looking for the signs of what it builds
    after, _, _ = stepped(stages, probe, probe * GAP)
    if not {probe, GAP} & after.free_symbols:
        return closed(after)  # a norm ends the repeat
    direction = _direction(after.xreplace({GAP: S.Half}), probe) if numeric else None
    for side in (1, -1):
        if direction in (None, side):
            repeat = _far(stages, side)
            move = motion(repeat, side)
            if move is not None and (move.slow or not vanishes(move.factor - 1)):
                return repeat, move
            if move is not None:
                return variance  # any variance stays
            if direction is not None:
                raise Undetermined("the recursion and its expansion disagree about where q goes")
    fixed = _fixed_variance(stages, variance)
    try:
        return sp.N(fixed, 30) if numeric and not fixed.is_Rational else fixed
    except ArithmeticError:
        raise Undetermined("q' - q neither crosses nor touches 0 on the way of q") from None


def _own(stage: Stage) -> set[sp.Basic]:
    return {known("q"), known("p"), known("delta"), *(d.symbol for d in stage.law.definitions)}


def _direction(after: sp.Expr, variance: sp.Expr) -> int:
    """1 or -1 where q leaves for infinity or 0 from 1, 0 where it meets a fixed point or stays"""

    step = closed(after)

    def drift(v: sp.Expr) -> sp.Expr:
        here = step.xreplace({variance: v})
        if v >= _PERIODS:
            here = here.replace(lambda t: isinstance(t, Expectation), lambda t: t.func(steady(t.integrand)[0], *t.args[1:]))
        value = valued(here, 35) / v - 1
        if value is S.NaN:
            raise Undetermined(f"E phi(u)^2 is infinite at q = {v}, and q comes there")
        return value if abs(value) > _NONE else S.Zero

    first = drift(S.One)
    if abs(first) < TOUCHING and all(abs(drift(v)) < TOUCHING for v in (sp.Integer(3), sp.Rational(1, 3))):
        return 1  # parameters are known as well as doubles
    side = int(sp.sign(first))
    return side if side and all(sp.sign(drift(v**side)) == side for v in _FAR) else 0


def _fixed_variance(stages: Sequence[Stage], variance: sp.Symbol) -> sp.Expr:
    """q* with c = 1"""
    repeat = expanded(stages, variance, variance / x, 2)
    after = closed(at_zero := repeat.q.get((S.Zero, 0), S.Zero))
    if variance not in at_zero.free_symbols:
        return after
    slope = after.diff(variance)
    if variance not in slope.free_symbols:
        return tidied(after.xreplace({variance: S.Zero}) / (1 - slope))
    return VarianceRoot(after - variance, variance)


# -- q far out or near 0 -----------------------------------------------------------------------------------------------


def _moving(repeat: Repeat, move: Motion) -> tuple[Growth, Growth, Growth]:
    try:
        approach: Approach | Undetermined = _approach(repeat, move)
    except (Undetermined, NoExpansion) as reason:
        approach = as_undetermined(reason)
    gap = approach.limit if isinstance(approach, Approach) else None
    try:
        q = _variance_law(move, gap if GAP in (move.beta + move.factor).free_symbols else S.Half)
    except Undetermined as reason:
        q = unknown_law("q", reason if isinstance(approach, Approach) else approach)
    law = _gap_law(move, approach, gap)
    try:
        return q, law, _apjn_law(repeat, move, approach)
    except (Undetermined, NoExpansion) as reason:
        return q, law, unknown_law("J", reason)


def _approach(repeat: Repeat, move: Motion) -> Approach:
    image = coefficient(repeat.gap, 0)
    if not move.slow:
        return gap_fixed(image)
    if not vanishes(image - GAP):
        found = gap_fixed(image)
        return found if found.limit != 0 or found.theta == 1 else replace(found, drift=_drift(repeat, move))
    faster = [key for key in repeat.gap if -move.kappa < key[0] < 0]
    if faster:
        raise Undetermined("1 - c moves faster than q")
    return gap_slow(coefficient(repeat.gap, -move.kappa))


def _drift(repeat: Repeat, move: Motion) -> sp.Expr:
    """what the moving q does to e: e' = ... + drift e/l, from the terms of e' beside those that stay"""
    first = max((a for a, _ in repeat.gap if a < 0), default=-move.kappa)
    (theta, j), h = next(iter(small(coefficient(repeat.gap, first)).items()), ((S.One, 0), S.Zero))
    if first < -move.kappa or h == 0:
        return S.Zero
    if first > -move.kappa or j or theta < 1 or h.has(REST):
        raise Undetermined("1 - c is moved by q faster than by itself")
    return tidied(h / (move.kappa * at_gap(move.beta, S.Zero))) if theta == 1 else S.Zero


def _variance_law(move: Motion, gap: sp.Expr | None) -> Growth:
    if gap is None:
        raise Undetermined("the growth of q depends on c, which stays where it starts")
    if move.slow:
        rate = tidied(move.kappa * at_gap(move.beta, gap))
        return Growth("q", "power", exponent=move.direction / move.kappa, rate=rate)
    return Growth("q", "exponential", rate=sp.log(tidied(at_gap(move.factor, gap))))


def _gap_law(move: Motion, approach: Approach | Undetermined, gap: sp.Expr | None) -> Growth:
    if isinstance(approach, Undetermined):
        return unknown_law("1 - c", approach)
    if gap is None:
        return Growth("1 - c", "bounded", reason="1 - c goes to a value that depends on the start")
    if gap != 0:
        return Growth("1 - c", "bounded", limit=gap)
    theta, h = approach.theta, approach.h
    if move.slow and not approach.by_repeats:
        beta = at_gap(move.beta, gap)
        if theta == 1:
            return Growth("1 - c", "power", exponent=tidied(h / (beta * move.kappa)))
        scale = tidied((theta - 1) * -h / (beta * move.kappa))
        return Growth("1 - c", "logarithmic", exponent=-1 / (theta - 1), coefficient=scale ** (-1 / (theta - 1)))
    return gap_steps(approach)


def _apjn_law(repeat: Repeat, move: Motion, approach: Approach | Undetermined) -> Growth:
    settled = approach if isinstance(approach, Approach) else Approach(None)
    needs = coupled(repeat) or GAP in repeat.transfer[0].get((S.Zero, 0), S.Zero).free_symbols
    if isinstance(approach, Undetermined) and needs:
        raise approach
    if not move.slow:
        return steps_law(_leading_transfer(repeat, settled.limit))
    try:
        eta, m = slow_exponents(repeat, settled.limit)
    except ValueError:
        return steps_law(_leading_transfer(repeat, settled.limit))
    gap = settled.limit if settled.limit is not None else S.Half if GAP not in move.beta.free_symbols else None
    if gap is None:
        raise approach if isinstance(approach, Undetermined) else Undetermined("J depends on c, which stays where it starts")
    beta, kappa = at_gap(move.beta, gap), move.kappa
    if eta > kappa:
        return Growth("J", "bounded")
    modes = [(share, tidied(mu / (beta * kappa))) for mu, share in eigenvalues(m)]
    if eta == kappa:
        return competing(modes, "power")
    s = kappa - eta
    top = modes[0] if len(modes) == 1 else fastest(modes)
    leading = tidied(top[1] * beta * kappa)
    side = sign(leading)
    if side is None or side < 0:
        raise Undetermined(Reason("the sign of ", leading, " decides whether J grows or decays"), leading)
    rate = tidied(closed(kappa * beta ** (1 - kappa / s) * (leading / s) ** (kappa / s)))
    try:
        one, two, settling = stretched(repeat, move, settled, eta, leading)
        one, two = (one + 2 * two * sp.log(kappa * beta) / kappa) / kappa, two / kappa**2
        beside = {
            "log_coefficient": tidied(closed(one)),
            "log_squared_coefficient": None if vanishes(two) else tidied(two),
            "settling": None if settling is None else tidied(settling / kappa),
        }
        reason = ""
    except (Undetermined, NoExpansion) as why:
        beside, reason = {}, f"the next term is not given: {why}"
    return Growth("J", "stretched", rate=rate, stretch=s / kappa, reason=reason, **beside)


def _leading_transfer(repeat: Repeat, gap: sp.Expr | None) -> sp.Matrix:
    both = coupled(repeat)
    entries = [coefficient(t, 0) if both or i == 0 else S.Zero for i, t in enumerate(repeat.transfer)]
    if any(key[0] > 0 for t in (repeat.transfer if both else repeat.transfer[:1]) for key in t):
        raise Undetermined("the transfer grows without bound: J grows faster than exponentially")
    if gap is None and any(GAP in e.free_symbols for e in entries):
        raise Undetermined("J depends on 1 - c, which stays where it starts")
    return sp.Matrix(2, 2, [at_gap(e, S.Half if gap is None else gap) for e in entries])
