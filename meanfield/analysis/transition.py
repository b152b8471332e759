r"""The depth l_* at which a residual stream outgrows the linear part of its saturating norm phi(alpha x): alpha^2 q = 1.

l_* = \int_{q_0}^{1/\alpha^2} \frac{dq}{q'(q) - q} = \frac{\ln(1/\alpha^2 q_0) + C}{s},  q' - q = s q + ... as q -> 0,
C = \int_0^1 \Bigl[\frac{s}{q'(q) - q} - \frac1q\Bigr] dq  (at alpha = 1), up to O(alpha^2 q_0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy import S
from sympy.core.relational import Relational

from meanfield.analysis.limits import Limit, NoExpansion
from meanfield.analysis.moved import Moved
from meanfield.analysis.repeats import stepped
from meanfield.analysis.stepping import Steps
from meanfield.gaussian.expectation import Expectation
from meanfield.recurrence import Stage
from meanfield.symbols import known

__all__ = ["transition_depth"]

Floats = NDArray[np.float64]
x, q = known("x"), known("q")
#: relative error that is asked of the depth, in so many parts, and at which it is known
PRECISE, PARTS, TOLERANCE = 1e-10, 200, 1e-6


def transition_depth(stages: Sequence[Stage], steps: Steps, q: float, gap: float) -> float:
    """l_* of a recursion without free parameters that starts from q and 1 - c = gap; 0 where q is beyond the transition already.

    Raises
    ------
    ValueError
        No expectation that is bounded acts on q itself (there is no norm to saturate), or q does not grow up to there.
    """
    v, d = sp.Symbol("v", positive=True), sp.Symbol("d", positive=True)
    after, _, _ = stepped(stages, v, d)
    norms = {t for t in after.atoms(Expectation) if not (t.variance / v).has(v) and _saturates(t.integrand)}
    if not norms:
        raise ValueError("no activation that saturates acts on the residual stream itself: there is no transition")
    end = float(1 / sp.Max(*(sp.sqrt(t.variance / v) * _scale(t.integrand) for t in norms)) ** 2)
    if end <= q:
        return 0.0
    if after.free_symbols - {v}:
        return _with_gap(steps, q, gap, end)
    return _by_variance(steps, q, end)


def _by_variance(steps: Steps, q: float, end: float) -> float:
    """the integral of q/(q' - q) over ln q"""
    from scipy.integrate import quad

    def slowness(t: float) -> float:
        at = np.array([math.exp(t)])
        return 1 / _rise(steps.identical(at)[0], at, q, end)

    depth, error, _, *trouble = quad(slowness, math.log(q), math.log(end), epsabs=0.0, epsrel=PRECISE, limit=PARTS, full_output=True)
    if trouble and not error < TOLERANCE * depth:
        raise ValueError(f"q all but stands still on its way from {q:g} to {end:g}: no depth is known")
    return float(depth)


def _with_gap(steps: Steps, q: float, gap: float, end: float) -> float:
    """dl/d ln q = q/(q' - q) beside de/d ln q = (e' - e) q/(q' - q), e = 1 - c: where attention mixes tokens, c is on its way as well"""
    from scipy.integrate import solve_ivp

    def speeds(t: float, state: Floats) -> Floats:
        at = np.array([math.exp(t)])
        new, d, _ = steps.pair(at, at * state[1])
        rise = _rise(new, at, q, end)
        return np.array([1.0, float(d.at[0] / new.at[0]) - state[1]]) / rise

    path = solve_ivp(speeds, (math.log(q), math.log(end)), np.array([0.0, gap]), rtol=1e-8, atol=1e-10)
    return float(path.y[0, -1])


def _rise(new: Moved, at: Floats, q: float, end: float) -> float:
    """(q' - q)/q where q grows, or why there is no depth"""
    rate = float(new.added[0] / at[0])
    if rate <= 0:
        raise ValueError(f"q does not grow from {q:g} to {end:g}: not at {at[0]:g}")
    return rate


def _saturates(f: sp.Expr) -> bool:
    """whether E f(u) is not known to grow without bound with the variance of u"""
    limit = Limit({q: x})
    try:
        terms = limit.terms(limit.series(Expectation(f, q)))
    except NoExpansion:
        return True
    return next(iter(terms), (S.Zero, 0)) <= (S.Zero, 0)


def _scale(f: sp.Expr) -> sp.Expr:
    """a with f(x) = c g(a x), where no number but signs is in g; the largest of several, 1 where f has none"""
    found: set[sp.Expr] = set()
    for t in sp.preorder_traversal(f):
        if isinstance(t, (sp.Max, sp.Min, Relational)):
            found.update(*(_turns(a - b) for a, b in combinations(t.args, 2)))
        elif isinstance(t, (sp.Abs, sp.sign, sp.Heaviside)):
            found |= _turns(t.args[0])
        elif t.is_Pow and not t.base.is_number and not t.exp.has(x):
            found |= _turns(t.base)
        elif isinstance(t, sp.Function) and not isinstance(t, sp.Piecewise):
            found |= {sp.Abs(c) ** sp.Rational(1, n) for a in t.args for n, c in _powers(a).items() if n}
    return sp.Max(*found) if found else S.One


def _turns(e: sp.Expr) -> set[sp.Expr]:
    """1/|x| where a term of a sum of powers is as large as the lowest one"""
    powers = _powers(e)
    lowest = min(powers, default=0)
    return {sp.Abs(c / powers[lowest]) ** sp.Rational(1, n - lowest) for n, c in powers.items() if n > lowest}


def _powers(e: sp.Expr) -> dict[int, sp.Expr]:
    """the coefficients of a polynomial in |x| by exponent, none of anything else"""
    size = e.xreplace({sp.Abs(x): x})
    return {n: c for (n,), c in sp.Poly(size, x).terms() if c != 0} if size.is_polynomial(x) else {}
