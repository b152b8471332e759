r"""Where q goes from 1 over many repeats: to infinity, to 0, or to a fixed point."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import sympy as sp
from sympy import S

from meanfield.analysis.growth_faint import faint_motion
from meanfield.analysis.growth_rates import Beyond, Motion, Undetermined, at_gap, motion, tidied
from meanfield.analysis.implicit import TOUCHING, VarianceRoot, valued_parts
from meanfield.analysis.limits import EXPANDED, OTHER, NoExpansion
from meanfield.analysis.repeats import Repeat, expanded, stepped
from meanfield.analysis.signs import GAP, closed, vanishes
from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.harmonics import steady
from meanfield.gaussian.reasons import Reason
from meanfield.gaussian.shared_parts import parts_of
from meanfield.recurrence import Stage
from meanfield.symbols import known

__all__ = ["check", "letters", "place"]

x = known("x")

#: variances at which the direction of a recursion without free parameters is looked up, on the way from 1
_FAR = tuple(sp.Integer(10) ** k for k in (1, 2, 3, 4, 6, 8, 12, 16))
#: powers of q that are looked at far out and near 0, the more the slower it drifts
_ORDERS = {1: (2,), -1: (4, 6, 10)}
_SLOWER = {
    1: "q' - q is less than every power of q above -2 as q goes to oo: slower than l^(1/3)",
    -1: "q' - q is less than every power of q as q goes to 0: slower than every power of l",
}
#: a variance from which on oscillations are averages over many periods
_PERIODS = 10**4
#: digits to which the change of q in a repeat is looked at, the fewest that show its sign; how many of them are in doubt
_DIGITS, _SURE = (7, 20, 35), 4
#: digits of a variance that stands for an exact one
_EXACT = 100
#: a change of q in a repeat, relative, that is none: parameters are known as well as doubles
_NONE = sp.Float("1e-15")


def letters(stage: Stage) -> set[sp.Basic]:
    """The symbols of a stage."""
    return set().union(*(e.free_symbols for e in _expressions(stage)))


def _expressions(stage: Stage) -> tuple[sp.Expr, ...]:
    """What the laws of a stage are written in."""
    law = stage.law
    return (law.output.q, law.output.delta, *law.transfer, *(d.value for d in law.definitions))


def check(stages: Sequence[Stage]) -> None:
    """Refuse what would take minutes to no end: expectations that have no series, and parameters beside moments of many tokens, whose
    formulas are endless in letters."""
    nodes = {stage: set().union(*(parts_of(e, Node) for e in _expressions(stage))) for stage in stages}
    if any(not isinstance(node, EXPANDED) for node in set().union(*nodes.values())):
        raise NoExpansion(OTHER)
    many = [stage for stage, found in nodes.items() if any(isinstance(node, Exchangeable) for node in found)]
    names = {s.name for stage in many for s in letters(stage) - _own(stage)} - {"L", "l"}
    if names:
        raise Undetermined(Reason("moments of many tokens are followed in numbers alone", bind=tuple(sorted(names))))


def _far(stages: Sequence[Stage], direction: int) -> tuple[Repeat, Motion | None]:
    """the expansion of a repeat far out or near 0, as far as its drift takes it, and how q moves there"""
    for order in _ORDERS[direction]:
        repeat = expanded(stages, x**direction, GAP * x**direction, order)
        try:
            return repeat, motion(repeat, direction)
        except Beyond as reason:
            beyond = reason
    raise beyond


def place(stages: Sequence[Stage]) -> tuple[Repeat, Motion] | sp.Expr:
    """The expansion of a repeat where q goes to infinity or to 0, or the fixed point q*, a symbol where any variance stays."""
    numeric = not any(letters(s) - _own(s) for s in stages)
    variance = sp.Dummy("q", positive=True)
    probe = sp.Dummy("q", real=True)  # a positive one sends sympy looking for the signs of what it builds
    after, _, _ = stepped(stages, probe, probe * GAP)
    if not {probe, GAP} & after.free_symbols:
        return closed(after)  # a norm ends the repeat
    if not numeric:
        _check_powers(closed(after), probe)
    apart = dict.fromkeys((after.xreplace({GAP: S.Half}), at_gap(after, S.Zero)))  # inputs half way apart, and merged
    directions = [_direction(at, probe) for at in apart] if numeric else [None]
    for direction in dict.fromkeys(directions):
        for side in (1, -1) if direction is None else (direction,) if direction else ():
            repeat, move = _far(stages, side)
            if side < 0 and move == Motion(side, S.One) and (repeat.faint or repeat.missed):
                move = faint_motion(repeat)
            if move is not None and (move.slow or not vanishes(move.factor - 1)):
                return repeat, move
            if direction is not None and GAP in after.free_symbols:
                break  # q goes there at that c, and not where c goes
            if direction is not None:
                raise Undetermined(_SLOWER[side] if move is not None else "the recursion and its expansion disagree about where q goes")
            if move is not None:
                return variance  # any variance stays
    fixed = _fixed_variance(stages, variance)
    try:
        return sp.N(fixed, 30) if numeric and not fixed.is_Rational else fixed
    except ArithmeticError:
        raise Undetermined("q' - q neither crosses nor touches 0 on the way of q") from None


def _check_powers(after: sp.Expr, variance: sp.Expr) -> None:
    """refuse q' = A q^k, k > 1, which has one fixed point, and that repels"""
    factor, power = after.as_independent(variance, as_Add=False)
    base, k = power.as_base_exp()
    if base == variance and k.is_number and k > 1:
        words = ": as it starts, q goes to 0, or to infinity, within a few repeats; what divides the starts is q = "
        raise Undetermined(Reason("q' = ", factor * known("q") ** k, words, tidied(factor ** (1 / (1 - k)))))


def _own(stage: Stage) -> set[sp.Basic]:
    return {known("q"), known("p"), known("delta"), *(d.symbol for d in stage.law.definitions)}


def _direction(after: sp.Expr, variance: sp.Expr) -> int | None:
    """1 or -1 where q leaves for infinity or 0 from 1, 0 where it meets a fixed point, None where it stays"""
    change = closed(after) - variance

    def moved(v: sp.Expr) -> sp.Expr:
        here = change.xreplace({variance: v})
        if v >= _PERIODS:
            here = here.replace(lambda t: isinstance(t, Expectation), lambda t: t.func(steady(t.integrand)[0], *t.args[1:]))
        return _seen(here)

    def drift(v: sp.Expr) -> sp.Expr:
        try:
            value = moved(v) / v
        except ValueError as reason:
            if not _is_of_sympy(reason):
                raise
            value = moved(sp.Float(v, _EXACT)) / v
        if value is S.NaN:
            raise Undetermined(f"E phi(u)^2 is infinite at q = {v}, and q comes there")
        return value if abs(value) > _NONE else S.Zero

    first = drift(S.One)
    if abs(first) < TOUCHING and all(abs(drift(v)) < TOUCHING for v in (sp.Integer(3), sp.Rational(1, 3))):
        return None  # parameters are known as well as doubles
    side = int(sp.sign(first)) if abs(first) >= TOUCHING else 0
    signs = [sp.sign(drift(v**side)) for v in _FAR] if side else []
    seen = list(itertools.takewhile(lambda s: s == side, signs))  # beyond, it may be too small to be seen
    return side if side and not any(signs[len(seen) :]) else 0


def _is_of_sympy(reason: Exception) -> bool:
    """whether sympy raised it: 1.14 fails to factor some large integers under roots, and nothing else is to be tried again in digits"""
    trace = reason.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith("sympy.")


def _seen(change: sp.Expr) -> sp.Expr:
    """a sum to as many digits as show its sign beside the largest of its terms: few, unless these cancel"""
    terms = sp.Add.make_args(change)
    for digits in _DIGITS:
        parts = valued_parts(terms, digits)
        total = sp.Add(*parts)
        if total is S.NaN or abs(total) > sp.Float(10) ** (_SURE - digits) * max(map(abs, parts)):
            break
    return total


def _fixed_variance(stages: Sequence[Stage], variance: sp.Symbol) -> sp.Expr:
    """q* with c = 1"""
    repeat = expanded(stages, variance, variance / x, 2)
    after = closed(at_zero := repeat.q.get((S.Zero, 0), S.Zero))
    if variance not in at_zero.free_symbols:
        return after
    slope = after.diff(variance)
    if variance not in slope.free_symbols:
        if (slope - 1).is_positive:
            raise Undetermined("q grows where all inputs are one, and does not where they are apart")
        return tidied(after.xreplace({variance: S.Zero}) / (1 - slope))
    return VarianceRoot(after - variance, variance)
