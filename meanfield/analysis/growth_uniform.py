r"""Whether the expansion at a fixed e = 1 - c still holds as e goes to 0 while X = q or 1/q grows: e ~ X^{-r}, q - p ~ X^{1 - r} far out.

A term X^{-k} whose coefficient goes as e^\mu is then of the size X^{-k - r \mu}, and can be as large as those kept. In

    de/d ln X = (h/\beta) e + (F/\beta) X^{-s} e^\mu,   \mu < 1,   s < r (1 - \mu),   r = -h/\beta,

it carries e:  e ~ C X^{-b},  b = s/(1 - \mu),  C^{1 - \mu} = F/(-h - b \beta). Where q - p stays finite (r = 1) all orders are of one size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import sympy as sp
from sympy import S

from meanfield.analysis.growth_modes import gap_steps
from meanfield.analysis.growth_rates import Approach, Motion, Undetermined, at_gap, tidied
from meanfield.analysis.limits import REST
from meanfield.analysis.repeats import Repeat, Terms, small
from meanfield.analysis.signs import GAP, sign
from meanfield.gaussian.harmonics import steady
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.recurrence import Stage

__all__ = ["carried", "check_fading", "check_steady", "check_uniform", "decay"]


def decay(approach: Approach, move: Motion) -> sp.Expr | None:
    """r of e ~ X^-r: 0 where e is slower than every power, oo where faster; None where e does not go to 0."""
    if approach.limit != 0:
        return None
    if approach.carried is not None:
        return approach.carried[0]
    if approach.fed is not None:
        return S.Zero
    theta, h = approach.theta, approach.h
    if move.slow and not approach.by_repeats:
        return tidied(-h / at_gap(move.beta, S.Zero)) if theta == 1 else S.Zero
    if theta != 1:
        return tidied(-(gap_steps(approach).exponent or S.Zero) * move.kappa) if move.slow else S.Zero
    return S.Infinity if move.slow or h == 0 else tidied(-sp.log(h) / sp.log(at_gap(move.factor, S.Zero)))


def carried(repeat: Repeat, move: Motion, approach: Approach) -> Approach:
    """The approach of e with what lower orders of the expansion add to it; Undetermined where all orders count."""
    r = decay(approach, move)
    if r is None or r == 0:
        return approach
    lower = [t for t in _orders(repeat.gap, -move.kappa) if move.direction > 0 or not t[2].has(REST)]  # near 0 what is left out is ~ e
    own = [(k, mu, c) for k, mu, c in lower if not _above(k + r * mu, move.kappa + r)]
    if not own:
        return approach
    if any(c.has(REST) for *_, c in own):
        raise Undetermined("what carries 1 - c is beyond the terms that the expansions give")
    if r is S.Infinity or not move.slow or move.logarithms or any(mu >= 1 for _, mu, _ in own):
        raise _apart(r)
    b, mu, strength = min(((k - move.kappa) / (1 - mu), mu, c) for k, mu, c in own)
    left = tidied(-approach.h - b * at_gap(move.beta, S.Zero))
    if [sign(strength), sign(left)] != [1, 1]:
        raise _apart(r)
    beside = [(k, m) for k, m, _ in lower if m < 1 and (k, m) != (move.kappa + b * (1 - mu), mu)]
    if any(not _above(k + b * m, move.kappa + b) for k, m in beside):
        raise _apart(b)
    return replace(approach, carried=(b, tidied((strength / left) ** (1 / (1 - mu)))))


def check_uniform(terms: Terms, leading: sp.Expr, r: sp.Expr | None) -> None:
    """Raise Undetermined where a term below X^leading is as large, once e ~ X^-r."""
    if r is None or r == 0:
        return
    if any(mu < 0 and not _above(k + r * mu, -leading) for k, mu, _ in _orders(terms, leading)):
        raise _apart(r)


def check_steady(stages: Sequence[Stage], r: sp.Expr | None) -> None:
    """Raise Undetermined where an activation oscillates and q - p does not leave its period behind."""
    if r is None or _above(S.One, r):
        return
    for stage in stages:
        kernels = [d.value if d.kernel is None else d.kernel for d in stage.law.definitions]
        for node in set().union(*(e.atoms(Gap, PairExpectation) for e in (*kernels, *stage.law.transfer))):
            parts = node.args[:1] if isinstance(node, Gap) else node.separated() or ()
            if any(steady(f)[0] != f for f in parts):
                raise _apart(r)


def check_fading(repeat: Repeat, r: sp.Expr | None) -> None:
    """Raise Undetermined where an exponential that vanishes far out at a fixed e need not, once e ~ X^-r."""
    for a, c in repeat.fading if r is not None else ():
        (mu, _), first = next(iter(small(c).items()), ((S.Infinity, 0), S.Zero))
        if first.has(REST) or not _above(a, r * mu if mu != 0 else S.Zero):
            raise Undetermined("as c goes to 1, the exponents of the attention weights stop growing with q: these stay on the way of c")


def _apart(r: sp.Expr) -> Undetermined:
    """why the limit at a fixed 1 - c is not the one on the way"""
    if _above(S.One, r):
        return Undetermined("as c goes to 1, lower orders of the expansion come up to the leading one")
    return Undetermined("q - p stays finite while q grows: what two tokens, or their gradients, share depends on it, and so on the start")


def _orders(terms: Terms, leading: sp.Expr) -> Iterator[tuple[sp.Expr, sp.Expr, sp.Expr]]:
    """(k, mu, F): the terms X^-k F e^mu below X^leading that depend on e, mu = 0 where they are not known; one by one as they are asked
    for, the largest first: their expansions take long"""
    for (a, _), c in terms.items():
        if a < leading and (GAP in c.free_symbols or c.has(REST)):
            (mu, _), first = next(iter(small(c).items()), ((S.Infinity, 0), S.Zero))
            yield -a, mu, first


def _above(a: sp.Expr, b: sp.Expr) -> bool:
    """a > b for certain"""
    return a is S.Infinity if S.Infinity in (a, b) else sign(tidied(a - b)) == 1
