r"""The depth l_* at which a residual stream outgrows the linear part of its saturating norm phi(alpha x): alpha^2 q = 1.

l_* = \int_{q_0}^{1/\alpha^2} \frac{dq}{q'(q) - q} = \frac{\ln(1/\alpha^2 q_0) + C}{s},  q' - q = s q + ... as q -> 0,
C = \int_0^1 \Bigl[\frac{s}{q'(q) - q} - \frac1q\Bigr] dq  (at alpha = 1), up to O(alpha^2 q_0).
"""

from __future__ import annotations

from collections.abc import Sequence

import mpmath as mp
import sympy as sp

from meanfield.analysis.repeats import stepped
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.singularities import standardised
from meanfield.recurrence import Stage

__all__ = ["transition_depth"]


def transition_depth(stages: Sequence[Stage], q: float) -> float:
    """l_* of a recursion without free parameters that starts from q; 0 where q is beyond the transition already.

    Raises
    ------
    ValueError
        q' depends on a second token, no expectation acts on q itself (there is no norm to saturate), or q does not grow up to there.
    """
    v, d = sp.Symbol("v", positive=True), sp.Symbol("d", positive=True)
    after, _, _ = stepped(stages, v, d)
    if after.free_symbols - {v}:
        raise ValueError(f"q' depends on {', '.join(sorted(map(str, after.free_symbols - {v})))}: the transition depth is of q alone")
    scales = {sp.sqrt(t.variance / v) * _scale(t.integrand) for t in after.atoms(Expectation) if not (t.variance / v).has(v)}
    if not scales:
        raise ValueError("no activation acts on the residual stream itself: there is no transition")
    end = float(1 / sp.Max(*scales) ** 2)
    if end <= q:
        return 0.0

    def speed(t: mp.mpf) -> mp.mpf:
        at = sp.exp(sp.Float(t, 20))
        return mp.mpf(str(sp.N(after.subs(v, at) / at - 1, 17)))

    with mp.workdps(15):
        ends = [mp.log(q), mp.log(end)]
        if min(speed(t) for t in ends) <= 0:
            raise ValueError(f"q does not grow from {q:g} to {end:g}")
        return float(mp.quad(lambda t: 1 / speed(t), ends, maxdegree=4))


def _scale(f: sp.Expr) -> sp.Expr:
    """a with f(x) = c g(a x): the number that multiplies x inside, 1 where none does"""
    x = sp.Symbol("x", real=True)
    letter = sp.Dummy("alpha", positive=True)
    inside = {t.as_coeff_Mul()[0] for t in sp.preorder_traversal(f) if t.is_Mul and t.as_coeff_Mul()[1] == x}
    if len(inside) != 1:
        return sp.S.One
    (a,) = inside
    return a if standardised(f.xreplace({a * x: letter * x}))[2] == letter else sp.S.One
