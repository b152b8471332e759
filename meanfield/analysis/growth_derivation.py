r"""The laws of a repeat: where its q goes, the expansion there, and what follows for q, 1 - c and J."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import sympy as sp
from sympy import S

from meanfield.analysis.derivatives import infinite
from meanfield.analysis.growth_faint import faint_laws
from meanfield.analysis.growth_logarithms import fed, power_beside_logarithms, stretched_rate
from meanfield.analysis.growth_merging import merging
from meanfield.analysis.growth_modes import as_undetermined, competing, fastest, gap_steps, steps_law, unknown, unknown_law
from meanfield.analysis.growth_place import check, place
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
    is_one,
    neutral_mode,
    slow_exponents,
    tidied,
)
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.growth_settled import settled
from meanfield.analysis.growth_stretched import stretched
from meanfield.analysis.growth_uniform import carried, check_fading, check_steady, check_uniform, decay
from meanfield.analysis.limits import REST, NoExpansion
from meanfield.analysis.repeats import Repeat, Terms, small
from meanfield.analysis.signs import GAP, closed, sign, vanishes
from meanfield.blocks.laws import Signal
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.reasons import Reason
from meanfield.recurrence import Stage
from meanfield.symbols import known

__all__ = ["laws"]


def laws(stages: Sequence[Stage]) -> tuple[Growth, Growth, Growth]:
    """The laws of q, 1 - c and J of a repeat that stays the same. Raises Together where they are of the joint map."""
    try:
        check(stages)
        infinite = _infinite(stages)
        if infinite is not None:
            return *laws([_with(s, s.law.output, sp.eye(2)) for s in stages])[:2], infinite
        return _followed(stages)
    except Together:
        raise
    except NoExpansion as reason:
        return _of_one_token(stages, reason)
    except Undetermined as reason:
        return unknown(reason)
    except ArithmeticError as reason:  # a number on the way has no rule that is certain
        return unknown(Undetermined(Reason(reason)))


def _followed(stages: Sequence[Stage]) -> tuple[Growth, Growth, Growth]:
    found = place(stages)
    return _moving(stages, *found) if isinstance(found, tuple) else settled(stages, found)


def _of_one_token(stages: Sequence[Stage], reason: NoExpansion) -> tuple[Growth, Growth, Growth]:
    """q and J where the laws of two tokens have no expansion, if they do without"""
    alone = tuple(map(_alone, stages))
    if any(s.law.transfer[0, 1] != 0 for s in stages) or alone == tuple(stages):
        return unknown(reason)
    q, _, apjn = laws(alone)
    return q, unknown_law("1 - c", reason), apjn


def _alone(stage: Stage) -> Stage:
    """a stage as one token sees it: another is independent of it"""
    law = stage.law
    return _with(stage, replace(law.output, delta=law.output.q), sp.diag(law.transfer[0, 0], 0))


def _merged(stage: Stage) -> Stage:
    """a stage as tokens see it that are one"""
    return replace(stage, law=stage.law.put({known("delta"): S.Zero, known("p"): known("q")}))


def _with(stage: Stage, output: Signal, transfer: sp.Matrix) -> Stage:
    """a stage of the same input, and of its definitions those that are still needed"""
    law = stage.law
    needed, kept = output.q.free_symbols | output.delta.free_symbols | transfer.free_symbols, []
    for d in reversed(law.definitions):
        if d.symbol in needed:
            needed |= (d.value if d.kernel is None else d.kernel).free_symbols
            kept.append(d)
    return replace(stage, law=replace(law, output=output, transfer=transfer, definitions=tuple(reversed(kept))))


def _infinite(stages: Sequence[Stage]) -> Growth | None:
    """the law of J where the square of a slope has no mean: that of a delta, or of a root too steep"""
    for s in stages:
        for t in sp.Tuple(*s.law.transfer, *(d.value for d in s.law.definitions)).atoms(Expectation):
            if (why := infinite(t)) is not None:
                return Growth("J", "infinite", reason=Reason(t, f" is infinite, as {why}: J is so from the first repeat on"))
    return None


# -- q far out or near 0 -----------------------------------------------------------------------------------------------


def _moving(stages: Sequence[Stage], repeat: Repeat, move: Motion) -> tuple[Growth, Growth, Growth]:
    if move.faint is not None:
        return faint_laws(repeat, move)
    try:
        approach: Approach | Undetermined = carried(repeat, move, _approach(repeat, move))
    except (Undetermined, NoExpansion) as reason:
        approach = as_undetermined(reason)
    gap = approach.limit if isinstance(approach, Approach) else None
    if isinstance(approach, Approach) and gap is not None and _is_slow_there(move, gap):
        if gap != 0 or approach.theta != 1:
            return unknown(Undetermined("where c goes to, q changes more slowly than by a factor"))
        q, _, apjn = laws(tuple(map(_merged, stages)))
        return q, _gap_law(move, approach, gap), apjn
    try:
        if isinstance(approach, Approach) and move.direction > 0:
            check_steady(stages, decay(approach, move))
            check_fading(repeat, decay(approach, move))
            check_uniform(repeat.q, move.direction - move.kappa, decay(approach, move))
    except (Undetermined, NoExpansion) as reason:
        return unknown(as_undetermined(reason))
    try:
        q = _variance_law(repeat, move, gap if GAP in (move.beta + move.factor).free_symbols else S.Half)
    except Undetermined as reason:
        q = unknown_law("q", reason if isinstance(approach, Approach) else approach)
    law = _gap_law(move, approach, gap)
    try:
        apjn = _apjn_law(repeat, move, approach)
    except (Undetermined, NoExpansion) as reason:
        return q, law, unknown_law("J", reason)
    return q, merging(stages, repeat, (q, law, apjn)), apjn


def _is_slow_there(move: Motion, gap: sp.Expr) -> bool:
    """whether q grows or falls by a factor that goes to 1 as 1 - c goes to its limit"""
    return not move.slow and GAP in move.factor.free_symbols and is_one(at_gap(move.factor, gap))


def _approach(repeat: Repeat, move: Motion) -> Approach:
    image = coefficient(repeat.gap, 0)
    if not move.slow:
        return gap_fixed(image)
    if not vanishes(image - GAP):
        found = gap_fixed(image)
        return found if found.limit != 0 or found.theta == 1 else replace(found, drift=_drift(repeat, move))
    if any((-move.kappa, move.logarithms) < key < (S.Zero, 0) for key in repeat.gap):
        raise Undetermined("1 - c moves faster than q")
    return fed(repeat, move, gap_slow(coefficient(repeat.gap, -move.kappa, move.logarithms)))


def _drift(repeat: Repeat, move: Motion) -> sp.Expr:
    """what the moving q does to e: e' = ... + drift e/l, from the terms of e' beside those that stay"""
    own = (-move.kappa, move.logarithms)
    first = max((key for key in repeat.gap if key[0] < 0), default=own)
    if first < own:
        return S.Zero
    (theta, j), h = next(iter(small(coefficient(repeat.gap, *first)).items()), ((S.One, 0), S.Zero))
    if h == 0:
        return S.Zero
    if first > own or j or theta < 1 or h.has(REST):
        raise Undetermined("1 - c is moved by q faster than by itself")
    return tidied(h / (move.kappa * at_gap(move.beta, S.Zero))) if theta == 1 else S.Zero


def _variance_law(repeat: Repeat, move: Motion, gap: sp.Expr | None) -> Growth:
    if gap is None:
        raise Undetermined("the growth of q depends on c, which stays where it starts")
    if move.slow:
        rate, exponent = tidied(move.kappa ** (1 - move.logarithms) * at_gap(move.beta, gap)), move.direction / move.kappa
        slowest = _correction(move, (repeat.q, move.direction - move.kappa))
        return Growth("q", "power", exponent=exponent, log_exponent=move.logarithms * exponent or None, rate=rate, correction=slowest)
    return Growth("q", "exponential", rate=sp.log(tidied(at_gap(move.factor, gap))))


def _correction(move: Motion, *leading: tuple[Terms, sp.Expr]) -> sp.Expr | None:
    """the power of 1/l, below 1, of what comes after the leading powers"""
    steps = [first - a for terms, first in leading for (a, _), c in terms.items() if a < first and not c.has(REST)]
    slowest = min(steps, default=move.kappa) / move.kappa
    return slowest if slowest < 1 and not move.logarithms else None


def _gap_law(move: Motion, approach: Approach | Undetermined, gap: sp.Expr | None) -> Growth:
    if isinstance(approach, Undetermined):
        return unknown_law("1 - c", approach)
    if gap is None:
        return Growth("1 - c", "bounded", reason="1 - c goes to a value that depends on the start")
    if gap != 0:
        return Growth("1 - c", "bounded", limit=gap)
    theta, h = approach.theta, approach.h
    beta = at_gap(move.beta, gap)
    if approach.carried is not None:
        b, factor = approach.carried[0] / move.kappa, approach.carried[1]
        return Growth("1 - c", "power", exponent=-b, coefficient=tidied(factor * (beta * move.kappa) ** -b))
    if approach.fed is not None:
        b, factor, power = approach.fed
        return Growth("1 - c", "logarithmic", exponent=-b, coefficient=tidied(factor * move.kappa**b), feeding=power)
    if move.slow and not approach.by_repeats:
        if theta == 1:
            exponent = tidied(h / (beta * move.kappa))
            return Growth("1 - c", "power", exponent=exponent, log_exponent=tidied(exponent * move.logarithms + approach.beside) or None)
        scale = tidied((theta - 1) * -h / (beta * move.kappa))
        return Growth("1 - c", "logarithmic", exponent=-1 / (theta - 1), coefficient=scale ** (-1 / (theta - 1)))
    return gap_steps(approach)


def _apjn_law(repeat: Repeat, move: Motion, approach: Approach | Undetermined) -> Growth:
    settled = approach if isinstance(approach, Approach) else Approach(None)
    needs = coupled(repeat) or repeat.fading or GAP in repeat.transfer[0].get((S.Zero, 0), S.Zero).free_symbols
    if isinstance(approach, Undetermined) and needs:
        raise approach
    uniform = partial(_check_transfer, repeat, decay(settled, move))
    if not move.slow:
        uniform(S.Zero)
        return steps_law(_leading_transfer(repeat, settled.limit))
    try:
        eta, k, m = slow_exponents(repeat, settled.limit)
    except ValueError:
        uniform(S.Zero)
        return _mixed_law(repeat, move, settled.limit)
    uniform(eta)
    gap = settled.limit if settled.limit is not None else S.Half if GAP not in move.beta.free_symbols else None
    if gap is None:
        raise approach if isinstance(approach, Undetermined) else Undetermined("J depends on c, which stays where it starts")
    beta, kappa = at_gap(move.beta, gap), move.kappa
    if (-eta, k) < (-kappa, move.logarithms - 1):
        return Growth("J", "bounded", terms=() if coupled(repeat) else ((S.One, S.Zero),))
    modes = [(share, tidied(mu / (beta * kappa))) for mu, share in eigenvalues(m)]
    if eta == kappa:
        return power_beside_logarithms(repeat, move, k, modes, gap) if k or move.logarithms else competing(modes, "power")
    top = modes[0] if len(modes) == 1 else fastest(modes)
    leading = tidied(top[1] * beta * kappa)
    law = _stretched_law(repeat, move, beta, eta, k, leading)
    if k or move.logarithms:
        return law
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
        beside, reason = {}, Reason("the next term is not given: ", why)
    return replace(law, reason=reason, **beside)


def _check_transfer(repeat: Repeat, r: sp.Expr | None, eta: sp.Expr) -> None:
    for t in repeat.transfer if coupled(repeat) else repeat.transfer[:1]:
        check_uniform(t, -eta, r)


def _mixed_law(repeat: Repeat, move: Motion, gap: sp.Expr | None) -> Growth:
    """J where a repeat mixes the gradients of tokens, and one of their mixtures is multiplied by what goes to 1"""
    leading = _leading_transfer(repeat, gap)
    neutral = neutral_mode(repeat, gap, leading)
    if neutral is None:
        return steps_law(leading)
    share, eta, k, m = neutral
    if (-eta, k) < (-move.kappa, move.logarithms - 1):
        return Growth("J", "bounded", terms=((share, S.Zero),))
    if gap is None and GAP in move.beta.free_symbols:
        raise Undetermined("J depends on c, which stays where it starts")
    beta = at_gap(move.beta, gap)
    if k or move.logarithms:
        raise Undetermined("what one repeat multiplies the mixture of gradients by that stays goes to 1 with logarithms")
    if eta == move.kappa:
        return competing([(share, tidied(m / (beta * move.kappa)))], "power")
    law = _stretched_law(repeat, move, beta, eta, k, tidied(m))
    return replace(law, reason="the next term is not given: gradients of tokens mix")


def _stretched_law(repeat: Repeat, move: Motion, beta: sp.Expr, eta: sp.Expr, k: int, leading: sp.Expr) -> Growth:
    """J where a repeat multiplies it by 1 + leading X^-eta ln^k X, eta < kappa"""
    side, s = sign(leading), move.kappa - eta
    if not side:
        raise Undetermined(Reason("the sign of ", leading, " decides whether J grows or decays"), leading)
    rate, log_exponent = stretched_rate(move, beta, s, k, side * leading)
    slowest = _correction(move, (repeat.q, move.direction - move.kappa), (repeat.transfer[0], -eta))
    return Growth(
        "J", "stretched", rate=tidied(closed(rate)), stretch=s / move.kappa, sign=side, log_exponent=log_exponent, correction=slowest
    )


def _leading_transfer(repeat: Repeat, gap: sp.Expr | None) -> sp.Matrix:
    both = coupled(repeat)
    entries = [coefficient(t, 0) if both or i == 0 else S.Zero for i, t in enumerate(repeat.transfer)]
    if any(key > (S.Zero, 0) for t in (repeat.transfer if both else repeat.transfer[:1]) for key in t):
        raise Undetermined("the transfer grows without bound: J grows faster than exponentially")
    if gap is None and any(GAP in e.free_symbols for e in entries):
        raise Undetermined("J depends on 1 - c, which stays where it starts")
    return sp.Matrix(2, 2, [at_gap(e, S.Half if gap is None else gap) for e in entries])
