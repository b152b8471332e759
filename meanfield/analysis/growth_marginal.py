r"""The laws at a fixed point q* > 0 that q approaches as a power of l: chi_parallel = 1, without and with chi = 1.

With u = q - q* a repeat takes u to u + A u^2, so that u ~ -1/(A l) from the side on which it comes nearer, and with it

    e' = e (1 + \chi' u) + h e^\theta = e + h e^\theta - (\chi'/A) e/l,    ln J' - ln J = \tau' u = -(\tau'/A)/l,

\chi' and \tau' the derivatives by q of e'/e at c = 1 and of the transfer: J is a power of l, and 1 - c another one, or the one that
its own map gives, whichever is slower.
"""

from __future__ import annotations

import sympy as sp
from sympy import S

from meanfield.analysis.growth_modes import gap_steps, steps_law, unknown_law
from meanfield.analysis.growth_rates import Approach, Undetermined, coupled
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.implicit import valued
from meanfield.analysis.limits import REST, NoExpansion
from meanfield.analysis.ranges import TOUCHED
from meanfield.analysis.repeats import Repeat, Terms
from meanfield.analysis.signs import closed

__all__ = ["is_marginal", "marginal"]


def is_marginal(near: Repeat, letter: sp.Symbol, variance: sp.Expr) -> bool:
    """Whether dq'/dq = 1 at a variance that is a number."""
    return not variance.free_symbols and abs(_rate(near.q, letter, variance, 1) - 1) < TOUCHED


def marginal(near: Repeat, letter: sp.Symbol, variance: sp.Expr) -> tuple[Growth, Growth, Growth]:
    """The laws of q, 1 - c and J from the expansion of a repeat about c = 1 at q = letter."""
    bend = _rate(near.q, letter, variance, 2) / 2
    if abs(bend) < TOUCHED:
        raise Undetermined("dq'/dq = 1 and the second derivative vanishes: how q comes to q* depends on higher ones")
    q = Growth("q", "bounded", limit=variance, reason=f"dq'/dq = 1: |q - q*| ~ 1/({sp.N(abs(bend), 6)} l)")
    if coupled(near):
        reason = Undetermined("dq'/dq = 1 and tokens mix: q and c come to the fixed point together, as powers of l")
        return q, unknown_law("1 - c", reason), unknown_law("J", reason)
    try:
        gap = _gap_law(near, letter, variance, bend)
    except (Undetermined, NoExpansion) as why:
        gap = unknown_law("1 - c", why)
    chi = _value(near.transfer[0], letter, variance)
    if abs(chi - 1) > TOUCHED:
        return q, gap, steps_law(sp.diag(chi, S.Zero))
    exponent = -_rate(near.transfer[0], letter, variance, 1) / bend
    if abs(exponent) < TOUCHED:
        return q, gap, Growth("J", "bounded", terms=((S.One, S.Zero),))
    return q, gap, Growth("J", "power", exponent=exponent, terms=((S.One, exponent),))


def _gap_law(near: Repeat, letter: sp.Symbol, variance: sp.Expr, bend: sp.Expr) -> Growth:
    terms = {(-a, j): c for (a, j), c in near.gap.items()}
    linear = {(S.Zero, 0): terms.pop((S.One, 0), S.Zero)}
    chi = _value(linear, letter, variance)
    if chi > 1 + TOUCHED:
        raise Undetermined("q touches its fixed point, and c = 1 repels: see fixed_points for c*")
    if chi < 1 - TOUCHED:
        return gap_steps(Approach(S.Zero, S.One, chi, by_repeats=True))
    (theta, j), h = next(iter(sorted(terms.items())), ((S.One, 0), S.Zero))
    if j or h.has(REST) or h == 0:
        raise Undetermined("the behaviour near c = 1 is beyond the terms that the expansions give")
    h = _number(h, letter, variance)
    if h > 0:
        raise Undetermined("chi = 1, and c = 1 repels beyond first order")
    return gap_steps(Approach(S.Zero, theta, h, by_repeats=True, drift=-_rate(linear, letter, variance, 1) / bend))


def _value(terms: Terms, letter: sp.Symbol, variance: sp.Expr) -> sp.Expr:
    """what is left at c = 1"""
    return _number(terms.get((S.Zero, 0), S.Zero), letter, variance)


def _rate(terms: Terms, letter: sp.Symbol, variance: sp.Expr, order: int) -> sp.Expr:
    """its derivative by q"""
    return _number(closed(terms.get((S.Zero, 0), S.Zero)).diff(letter, order), letter, variance)


def _number(e: sp.Expr, letter: sp.Symbol, variance: sp.Expr) -> sp.Expr:
    return sp.N(valued(e.xreplace({letter: variance}), 25), 20)
