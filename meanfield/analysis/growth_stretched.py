r"""What ln J has beside its stretched term: the coefficients of ln X and ln^2 X in `meanfield.analysis.growth_rates`."""

from __future__ import annotations

import sympy as sp
from sympy import S

from meanfield.analysis.growth_rates import Approach, Motion, Undetermined, at_gap, coefficient, coupled, tidied
from meanfield.analysis.repeats import Repeat, Terms
from meanfield.analysis.signs import GAP, closed

__all__ = ["stretched"]


def stretched(repeat: Repeat, move: Motion, approach: Approach, eta: sp.Expr, m: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr | None]:
    """Coefficients of ln X and of ln^2 X in ln J, and a where 1 - c settles as X^-a; Undetermined where other terms come in between.

    What the start leaves of 1 - c adds X^(s - a), X^(s - 2a), ... to ln J: it does not change the coefficients, unless k a = s.
    """
    kappa, s, gap = move.kappa, move.kappa - eta, approach.limit
    if kappa <= s:
        raise Undetermined("the correction to ln J is not a logarithm")
    for terms, first in ((repeat.q, move.direction - kappa), (repeat.transfer[0], -eta)):
        between = [a for (a, _), c in terms.items() if first - s < a < first and a != 0]
        if between:
            raise Undetermined("powers between the leading one and the logarithm come in")

    def pair(terms: Terms, exponent: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        return coefficient(terms, exponent), coefficient(terms, exponent, 1)

    direction = move.direction
    (b1, b1_log), (m1, m1_log) = pair(repeat.q, direction - kappa - s), pair(repeat.transfer[0], -eta - s)
    b1, b1_log = direction * b1, direction * b1_log
    leading = coefficient(repeat.transfer[0], -eta)
    m1 -= leading**2 / 2 if s == eta else 0
    if s > eta:
        raise Undetermined("powers between the leading one and the logarithm come in")
    if coupled(repeat):
        lower = [repeat.transfer[i] for i in (2, 3)]
        if any(coefficient(t, -eta) != 0 for t in lower):
            raise Undetermined("both components of the gradient grow at the same rate")
        m1 += coefficient(repeat.transfer[1], -eta) * coefficient(lower[0], -eta - s) / leading
    shift, shift_log = S.Zero, S.Zero
    settling: sp.Expr | None = None
    if any(GAP in c.free_symbols for c in (move.beta, leading)):
        shift, shift_log, settling = _shift(repeat, move, approach, s)
    beta = move.beta

    def fixed(c: sp.Expr) -> sp.Expr:
        if gap is None and GAP in c.free_symbols:
            raise Undetermined("J depends on 1 - c, which stays where it starts")
        return tidied(at_gap(c, gap))

    bend, turn = fixed(beta.diff(GAP)), fixed(leading.diff(GAP))
    b1, m1 = fixed(b1) + shift * bend, fixed(m1) + shift * turn
    b1_log, m1_log, beta = fixed(b1_log) + shift_log * bend, fixed(m1_log) + shift_log * turn, fixed(beta)
    # in units of beta and m: b1/beta, m1/m
    first = m / beta * (b1_log / beta / (kappa - s) - b1 / beta) + m1 / beta
    second = (m1_log / m - b1_log / beta) * m / (2 * beta)
    return first, second, settling


def _shift(repeat: Repeat, move: Motion, approach: Approach, s: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """(A, A', a): e = e* + (A + A' ln X) X^-s + C X^-a, as e follows the root of its slowly changing drift, C from the start"""
    gap = approach.limit
    if gap is None or gap == 0:
        raise Undetermined("J depends on 1 - c, which is on its way")
    drift = coefficient(repeat.gap, -move.kappa)
    correction, logarithm = (coefficient(repeat.gap, -move.kappa - s, j) for j in (0, 1))
    beta, slope = (tidied(at_gap(c, gap)) for c in (move.beta, closed(drift).diff(GAP)))
    settling = -slope / beta
    if not settling.free_symbols:
        times = sp.N(s / settling, 20)
        if abs(times - sp.Integer(round(times))) < 1e-12 and times > 0.5:
            raise Undetermined("1 - c settles at a rate that makes the logarithm in ln J depend on the start")
    shift_log = -tidied(at_gap(closed(logarithm), gap)) / (slope + s * beta)
    shift = (beta * shift_log - tidied(at_gap(closed(correction), gap))) / (slope + s * beta)
    return shift, shift_log, settling
