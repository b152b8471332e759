"""Laws of 1 - c and J where a repeat stays the same, and which of two modes wins."""

from __future__ import annotations

import sympy as sp
from sympy import S

from meanfield.analysis.growth_rates import Approach, Undetermined, eigenvalues, is_one, tidied
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.limits import NoExpansion
from meanfield.analysis.signs import sign, vanishes
from meanfield.gaussian.reasons import Reason

__all__ = ["as_undetermined", "competing", "fastest", "gap_steps", "gone", "steps_law", "unknown", "unknown_law"]


def as_undetermined(reason: Undetermined | NoExpansion) -> Undetermined:
    return reason if isinstance(reason, Undetermined) else Undetermined(Reason(reason))


def unknown_law(quantity: str, reason: Undetermined | NoExpansion) -> Growth:
    return Growth(quantity, "undetermined", reason=as_undetermined(reason).reason, decides=as_undetermined(reason).decides)


def unknown(reason: Undetermined | NoExpansion) -> tuple[Growth, Growth, Growth]:
    """Nothing is known of q, 1 - c and J, for that reason."""
    return unknown_law("q", reason), unknown_law("1 - c", reason), unknown_law("J", reason)


def gone(quantity: str) -> Growth:
    """It is multiplied by less and less, or by 0."""
    return Growth(quantity, "exponential", rate=-S.Infinity, reason=f"{quantity} vanishes faster than any exponential")


def gap_steps(approach: Approach) -> Growth:
    """e <- h e, or e <- e + h e^theta + drift e/l"""
    theta, h, drift = approach.theta, approach.h, approach.drift
    if theta == 1:
        if h == 0:
            return gone("1 - c")
        return Growth("1 - c", "exponential", rate=sp.log(tidied(h)))
    balance = 1 + (theta - 1) * drift
    side = sign(balance)
    if not side:
        raise Undetermined(Reason("whether q or c itself carries 1 - c to 0 depends on the sign of ", tidied(balance)))
    if side < 0:
        return Growth("1 - c", "power", exponent=drift)
    scale = tidied((theta - 1) * -h / balance)
    return Growth("1 - c", "power", exponent=-1 / (theta - 1), coefficient=scale ** (-1 / (theta - 1)))


def steps_law(transfer: sp.Matrix) -> Growth:
    """J ~ powers of the eigenvalues of a transfer that stays the same"""
    modes = [(share, mu) for mu, share in eigenvalues(transfer) if not vanishes(mu)]
    if transfer.is_zero_matrix:
        return gone("J")
    if not modes:
        raise Undetermined("J vanishes to the order of the expansions")
    return competing([(share, S.Zero if is_one(mu) else sp.log(mu)) for share, mu in modes], "exponential")


def competing(modes: list[tuple[sp.Expr, sp.Expr]], kind: str) -> Growth:
    """a power of l, or an exponential, for each mode: the fastest wins in the end"""
    share, top = fastest(modes) if len(modes) > 1 else modes[0]
    field = {"exponent": top} if kind == "power" else {"rate": top}
    crossover = None
    if len(modes) == 2:
        other = next(e for _, e in modes if e is not top)
        modes = sorted(modes, key=lambda t: t[1] is top)
        crossover = share ** (-1 / tidied(top - other)) if kind == "power" else sp.log(1 / share) / (top - other)
    if vanishes(top):
        return Growth("J", "bounded", terms=tuple(modes), crossover=crossover, limit=None)
    return Growth("J", kind, terms=tuple(modes), crossover=crossover, **field)


def fastest(modes: list[tuple[sp.Expr, sp.Expr]]) -> tuple[sp.Expr, sp.Expr]:
    (_, a), (_, b) = modes
    difference = a - b
    if isinstance(a, sp.log) and isinstance(b, sp.log):
        difference = a.args[0] - b.args[0]
    side = sign(difference)
    if side is None:
        side = sign(sp.factor(sp.together(difference)))
    if side is None:
        raise Undetermined(Reason("which of the modes ", a, " and ", b, " is faster depends on the parameters"), difference)
    return modes[0] if side > 0 else modes[1]
