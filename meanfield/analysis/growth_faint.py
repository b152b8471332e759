r"""The laws of a repeat that q = 1/X leaves by something exponentially small only, as X grows:

    dX/dl = \beta X^{1 - \kappa} e^{-b X^c},   de/dl = G(e) X^g e^{-b X^c},   d ln J/dl = m X^{-\eta} e^{-b X^c}.

The number of repeats is e^{b X^c} up to powers of X, so that  X ~ (ln l / b)^{1/c} (1 + O(ln ln l/ln l)),  and a repeat adds
1/(c l ln l) to ln X: what moves c by itself from repeat to repeat is faster. Where nothing does, e = 1 - c goes with
de/d ln X = G(e) X^{g + \kappa}/\beta:  where g < -\kappa it stops on the way, at a value that depends on the start, and J ~ X^{m/\beta} if
\eta = \kappa.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp
from sympy import S

from meanfield.analysis.growth_modes import as_undetermined, gap_steps, steps_law, unknown_law
from meanfield.analysis.growth_rates import Motion, Undetermined, at_gap, coefficient, coupled, gap_fixed, gap_slow, is_one, tidied
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.limits import REST, NoExpansion
from meanfield.analysis.repeats import Fading, Repeat, Terms
from meanfield.analysis.signs import GAP, sign, vanishes
from meanfield.gaussian.reasons import Reason

__all__ = ["faint_laws", "faint_motion"]


def faint_motion(repeat: Repeat) -> Motion | None:
    """How X = 1/q grows where q' is q but for what is exponentially small; None where it does not."""
    if repeat.missed:
        raise Undetermined(Reason("q' - q is exponentially small as q goes to 0, and not given: ", repeat.missed))
    first = _largest([own for own in repeat.faint if own.q])
    if first is None:
        return None
    (a, _), c = _leading(first.q, "the drift of q")
    side = sign(-c)
    if not side:
        raise Undetermined("the sign of the drift of q, which is exponentially small, depends on the parameters", -c)
    return Motion(-1, S.One, -1 - a, -c, faint=first) if side > 0 else None


def _largest(found: list[Fading]) -> Fading | None:
    """of several exponentials"""
    best: Fading | None = None
    for own in found:
        side = -1 if best is None else sign(own.power - best.power) or sign(own.rate - best.rate)
        if not side:
            raise Undetermined("which of two exponentials of q is larger depends on the parameters")
        best = own if side < 0 else best
    return best


def _leading(terms: Terms, what: str) -> tuple[tuple[sp.Expr, int], sp.Expr]:
    key, c = next(iter(terms.items()))
    if c.has(REST) or key[1]:
        raise Undetermined(f"{what} is exponentially small, and beyond the terms that the expansions give")
    return key, c


def faint_laws(repeat: Repeat, move: Motion) -> tuple[Growth, Growth, Growth]:
    """The laws of q, 1 - c and J where q goes to 0 like that."""
    own = move.faint
    assert own is not None
    q = Growth("q", "logarithmic", exponent=-1 / own.power, coefficient=tidied(own.rate ** (1 / own.power)))
    return q, _said("1 - c", _gap_law, repeat, move, own), _said("J", _apjn_law, repeat, move, own)


def _said(quantity: str, law: Callable[[Repeat, Motion, Fading], Growth], repeat: Repeat, move: Motion, own: Fading) -> Growth:
    try:
        return law(repeat, move, own)
    except (Undetermined, NoExpansion) as reason:
        return unknown_law(quantity, as_undetermined(reason))


def _gap_law(repeat: Repeat, move: Motion, own: Fading) -> Growth:
    image = coefficient(repeat.gap, 0)
    if not vanishes(image - GAP):
        approach = gap_fixed(image)
        if approach.limit != 0:
            return Growth("1 - c", "bounded", limit=approach.limit)
        if approach.theta != 1 and _exponent(own.transfer) > -move.kappa:  # of both ends, q'/q and the slope of delta, the larger
            raise Undetermined("what is exponentially small beside what carries c to 1 is no less than it over many repeats")
        return gap_steps(approach)
    if any(_largest([own, other]) is other for other in repeat.faint if other is not own and other.gap):
        raise Undetermined("1 - c moves faster than q")
    if _exponent(own.gap) < -move.kappa:
        return Growth("1 - c", "bounded", reason="1 - c goes to a value that depends on the start")
    _, drift = _leading(own.gap, "the drift of 1 - c")
    approach = gap_slow(drift)
    if not approach.limit:
        raise Undetermined("as c goes to 1, what the two tokens share of what is exponentially small comes up to all of it")
    return Growth("1 - c", "bounded", limit=approach.limit)


def _exponent(terms: Terms) -> sp.Expr:
    """of the largest power of X"""
    return next(iter(terms), (-S.Infinity, 0))[0]


def _apjn_law(repeat: Repeat, move: Motion, own: Fading) -> Growth:
    if coupled(repeat):
        raise Undetermined("q changes by what is exponentially small, and tokens mix: how their gradients do is not given")
    at_zero = repeat.transfer[0]
    if _exponent(at_zero) > 0:
        raise Undetermined("the transfer grows without bound: J grows faster than exponentially")
    factor = coefficient(at_zero, 0)
    if not is_one(factor):
        if GAP in factor.free_symbols:
            raise Undetermined("J depends on 1 - c, which stays where it starts")
        return steps_law(sp.diag(factor, S.Zero))
    if any(_largest([own, other]) is other for other in repeat.faint if other is not own and other.transfer):
        raise Undetermined("J moves faster than q")
    if _exponent(own.transfer) < -move.kappa:
        return Growth("J", "bounded", terms=((S.One, S.Zero),))
    (eta, _), m = _leading(own.transfer, "what a repeat adds to J")
    if eta > -move.kappa:
        raise Undetermined("ln J grows like a power of ln l that is not given")
    exponent = tidied(at_gap(m, None) / (move.beta * own.power))
    return Growth("J", "logarithmic", exponent=exponent)
