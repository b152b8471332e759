r"""The depth l_* at which a residual stream outgrows the linear part of its saturating norm phi(alpha x): alpha^2 q = 1.

l_* = \int_{q_0}^{1/\alpha^2} \frac{dq}{q'(q) - q} = \frac{\ln(1/\alpha^2 q_0) + C}{s},  q' - q = s q + ... as q -> 0,
C = \int_0^1 \Bigl[\frac{s}{q'(q) - q} - \frac1q\Bigr] dq  (at alpha = 1), up to O(alpha^2 q_0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.repeats import stepped
from meanfield.analysis.stepping import Steps
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.singularities import standardised
from meanfield.recurrence import Stage

__all__ = ["transition_depth"]

Floats = NDArray[np.float64]
#: of the rule for the depth, and its relative error at which that is known
DEGREE, TOLERANCE = 6, 1e-6


def transition_depth(stages: Sequence[Stage], steps: Steps, q: float, gap: float) -> float:
    """l_* of a recursion without free parameters that starts from q and 1 - c = gap; 0 where q is beyond the transition already.

    Raises
    ------
    ValueError
        No expectation acts on q itself (there is no norm to saturate), or q does not grow up to there.
    """
    v, d = sp.Symbol("v", positive=True), sp.Symbol("d", positive=True)
    after, _, _ = stepped(stages, v, d)
    scales = {sp.sqrt(t.variance / v) * _scale(t.integrand) for t in after.atoms(Expectation) if not (t.variance / v).has(v)}
    if not scales:
        raise ValueError("no activation acts on the residual stream itself: there is no transition")
    end = float(1 / sp.Max(*map(sp.Abs, scales)) ** 2)
    if end <= q:
        return 0.0
    if after.free_symbols - {v}:
        return _with_gap(steps, q, gap, end)

    def speed(t: mp.mpf) -> mp.mpf:
        at = sp.exp(sp.Float(t, 20))
        return mp.mpf(str(sp.N(after.subs(v, at) / at - 1, 17)))

    def slowness(t: mp.mpf) -> mp.mpf:
        if (rate := speed(t)) <= 0:
            raise ValueError(f"q does not grow from {q:g} to {end:g}: not at {float(mp.exp(t)):g}")
        return 1 / rate

    with mp.workdps(15):
        depth, error = mp.quad(slowness, [mp.log(q), mp.log(end)], maxdegree=DEGREE, error=True)
        if not error < TOLERANCE * depth:
            raise ValueError(f"q all but stands still on its way from {q:g} to {end:g}: no depth is known")
        return float(depth)


def _with_gap(steps: Steps, q: float, gap: float, end: float) -> float:
    """dl/d ln q = q/(q' - q) beside de/d ln q = (e' - e) q/(q' - q), e = 1 - c: where attention mixes tokens, c is on its way as well"""
    from scipy.integrate import solve_ivp

    def speeds(t: float, state: Floats) -> Floats:
        at = np.array([math.exp(t)])
        new, d, _ = steps.pair(at, at * state[1])
        rise = float(new.added[0] / at[0])
        if rise <= 0:
            raise ValueError(f"q does not grow from {q:g} to {end:g}: not at {at[0]:g}")
        return np.array([1.0, float(d.at[0] / new.at[0]) - state[1]]) / rise

    path = solve_ivp(speeds, (math.log(q), math.log(end)), np.array([0.0, gap]), rtol=1e-8, atol=1e-10)
    return float(path.y[0, -1])


def _scale(f: sp.Expr) -> sp.Expr:
    """a with f(x) = c g(a x): the number that multiplies x inside, 1 where none does"""
    x = sp.Symbol("x", real=True)
    letter = sp.Dummy("alpha", positive=True)
    inside = {t.as_coeff_Mul()[0] for t in sp.preorder_traversal(f) if t.is_Mul and t.as_coeff_Mul()[1] == x}
    if len(inside) != 1:
        return sp.S.One
    (a,) = inside
    return a if standardised(f.xreplace({a * x: letter * x}))[2] == letter else sp.S.One
