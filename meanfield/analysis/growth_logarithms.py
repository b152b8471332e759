r"""The laws of a repeat whose drift has logarithms: with u = ln X, and P, D, M polynomials in u,

    du/dl = X^{-\kappa} P(u),   de/du = D(e, u)/P(u),   d ln J/du = X^{\kappa - \eta} M(u)/P(u),   P ~ \beta u^j,   M ~ m u^k.

The leading powers of u decide where e = 1 - c goes. Where that is 0, D ~ h e^\theta u^j, and a lower power F e^\mu u^i, \mu < \theta,
feeds it: the two are in balance at

    e ~ C u^{-b},   b = (j - i)/(\theta - \mu),   C = (-F/h)^{1/(\theta - \mu)},

unless e by itself is slower (\theta > 1, 1/(\theta - 1) < b). What nothing feeds (\theta = 1) is a power of X with one of u beside it,

    e ~ X^{h/\beta} u^{(h' - h \beta'/\beta)/\beta},   ' the coefficients of u^{j - 1},

and so is J where \eta = \kappa and k = j, with m in the place of h; where k = j - 1 it is u^{m/\beta}, and where k = j + 1

    ln J ~ \frac{m}{2 \beta} u^2,   and \frac{m}{2 \beta} u^2 + \frac{m'}{\beta} u + O(1) if j = 0,   m' the coefficient of u^{k - 1}.

Where \eta < \kappa,

    ln J ~ \frac{m}{\beta s} X^s u^{k - j} (1 + O(1/u)),   s = \kappa - \eta.

In the number of repeats u ~ (ln l)/\kappa and X ~ (\kappa^{1 - j} \beta l ln^j l)^{1/\kappa} (1 + O(ln ln l/ln l)).
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp
from sympy import S

from meanfield.analysis.growth_modes import competing, fastest
from meanfield.analysis.growth_rates import Approach, Motion, Undetermined, at_gap, coefficient, coupled, tidied
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.limits import REST
from meanfield.analysis.repeats import Repeat, Terms, small
from meanfield.analysis.signs import GAP, sign

__all__ = ["fed", "power_beside_logarithms", "stretched_rate"]


def fed(repeat: Repeat, move: Motion, own: Approach) -> Approach:
    """What lower powers of the logarithm do to e, which goes where the leading one carries it."""
    j, kappa = move.logarithms, move.kappa
    lower = {i: near for i in reversed(range(j)) if (near := small(coefficient(repeat.gap, -kappa, i)))}
    if own.limit is None and lower:
        raise Undetermined("1 - c moves only with lower powers of the logarithm of q")
    if own.limit != 0 or not lower:
        return own
    if own.theta < 1:
        raise Undetermined("1 - c comes to 0 within finitely many repeats, but for lower powers of the logarithm of q")
    found = sorted(((j - i) / (own.theta - mu), i, mu, log) for i, (mu, log) in _below(lower, own.theta).items())
    slowest = 1 / (own.theta - 1) if own.theta > 1 else S.Infinity
    if not found or found[0][0] > slowest:
        shift = lower.get(j - 1, {}).get((own.theta, 0), S.Zero)
        return replace(own, beside=_beside(repeat, move, own.h, shift, S.Zero)) if own.theta == 1 else own
    b, i, mu, log = found[0]
    strength = lower[i][mu, log]
    if log or b in (slowest, *(f[0] for f in found[1:])) or sign(strength) != 1:
        raise Undetermined("what lower powers of the logarithm of q add to 1 - c near c = 1 is no single power of it")
    return replace(own, fed=(b, tidied((strength / -own.h) ** (1 / (own.theta - mu))), i))


def _below(lower: dict[int, Terms], theta: sp.Expr) -> dict[int, tuple[sp.Expr, int]]:
    """the leading exponent, and power of ln e, of what lies below e^theta as e goes to 0"""
    found = {}
    for i, near in lower.items():
        (mu, log), c = next(iter(near.items()))
        if c.has(REST):
            raise Undetermined("the behaviour near c = 1 is beyond the terms that the expansions give")
        if mu < theta:
            found[i] = (mu, log)
        elif log and mu == theta == 1:
            raise Undetermined("1 - c has a logarithm near c = 1")
    return found


def _beside(repeat: Repeat, move: Motion, leading: sp.Expr, following: sp.Expr, gap: sp.Expr) -> sp.Expr:
    """the power of u beside X^(leading/beta)"""
    beta = at_gap(move.beta, gap)
    after = at_gap(move.direction * coefficient(repeat.q, move.direction - move.kappa, move.logarithms - 1), gap)
    return tidied((following - leading * after / beta) / beta)


def power_beside_logarithms(repeat: Repeat, move: Motion, k: int, modes: list[tuple[sp.Expr, sp.Expr]], gap: sp.Expr) -> Growth:
    """J where eta = kappa, from the shares and exponents m/(kappa beta) of its modes."""
    j, kappa = move.logarithms, move.kappa
    if k == j + 1:
        return _quasi_polynomial(repeat, move, modes, gap)
    if k > j:
        raise Undetermined("ln J goes as a power of ln l above 1: J grows faster than every power of l, slower than its exponentials")
    if k == j - 1:
        _, top = fastest(modes) if len(modes) > 1 else modes[0]
        return Growth("J", "logarithmic", exponent=tidied(kappa * top))
    law = competing(modes, "power")
    leading, following = (coefficient(repeat.transfer[0], -kappa, i) for i in (k, k - 1))
    if law.exponent is None or len(modes) > 1 or GAP in leading.free_symbols | move.beta.free_symbols:
        return replace(law, reason="up to a power of ln l") if law.exponent is not None else law
    own = _beside(repeat, move, leading, at_gap(following, gap), gap)
    return replace(law, log_exponent=tidied(law.exponent * j + own) or None)


def _quasi_polynomial(repeat: Repeat, move: Motion, modes: list[tuple[sp.Expr, sp.Expr]], gap: sp.Expr) -> Growth:
    """J where ln J is a square of ln l: its coefficient, and that of ln l where nothing else goes as ln ln l"""
    kappa = move.kappa
    top = (fastest(modes) if len(modes) > 1 else modes[0])[1]
    law = Growth("J", "quasi-polynomial", log_squared_coefficient=tidied(top / (2 * kappa)))
    if move.logarithms or coupled(repeat):
        return replace(law, reason="the next term is not given: it has a power of ln ln l")
    after = at_gap(coefficient(repeat.transfer[0], -kappa), gap)
    beta = at_gap(move.beta, gap)
    return replace(law, log_coefficient=tidied((top * sp.log(kappa * beta) + after / beta) / kappa))


def stretched_rate(move: Motion, beta: sp.Expr, s: sp.Expr, k: int, leading: sp.Expr) -> tuple[sp.Expr, sp.Expr | None]:
    """Rate and exponent of ln l in ln J ~ (rate l)^(s/kappa) (ln l)^exponent."""
    kappa, j = move.kappa, move.logarithms
    rate = kappa ** (1 - j) * beta ** (1 - kappa / s) * (leading * kappa ** (j - k) / s) ** (kappa / s)
    return rate, (k - j * (kappa - s) / kappa) or None
