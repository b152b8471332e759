"""Functions written about the mean of their input and about their value there, where rounding beside either would show."""

from __future__ import annotations

import math
from functools import cache

import sympy as sp

from meanfield.gaussian.kinks import kinks_of
from meanfield.gaussian.pieces import KINKED, NotClosed, in_pieces, pieces_of
from meanfield.gaussian.special import FAR, is_linear
from meanfield.symbols import known

__all__ = ["about_its_mean", "without_plateau"]

x = known("x")


@cache
def about_its_mean(f: sp.Expr, mean: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    r"""f(m + x) and 0 for a number m at which f is 0 or not smooth, else f and m.

    What f is at m + y is known as well as y then, however small against m: x \theta(|x| - 1) at the mean 1 jumps at 0.

    >>> about_its_mean(sp.Max(x, 1), sp.Integer(1))
    (Piecewise((1, x < 0), (x + 1, True)), 0)
    >>> about_its_mean(sp.tanh(x), sp.Integer(1))
    (tanh(x), 1)
    """
    if not mean.is_number or mean == 0 or f.free_symbols != {x}:
        return f, mean
    sharp = any(math.isclose(k, float(mean), rel_tol=1e-12) for k in kinks_of(f))
    if not sharp and f.xreplace({x: mean}) != 0:
        return f, mean
    return in_pieces(f.xreplace({x: x + mean})), sp.S.Zero


@cache
def without_plateau(f: sp.Expr) -> sp.Expr:
    """A function that is constant around 0, or next to it, less that constant: it has the same gap, and is 0 around 0, or next to it; any
    other function itself.

    >>> without_plateau(sp.Max(1, x - 2))
    Piecewise((0, x < 3), (x - 3, True))
    >>> without_plateau(sp.tanh(100 * x - 300))
    tanh(100*x - 300) + 1
    """
    ends = [_end_at_zero(t) for t in sp.Add.make_args(f)]
    if None not in ends:
        return f - sp.Add(*ends)
    if not f.has(*KINKED) or f.has(sp.DiracDelta):
        return f
    try:
        cuts, values = pieces_of(f)
    except NotClosed:
        return f
    if not cuts or not all(cut.is_positive or cut.is_negative for cut in cuts):
        return f
    level = values[sum(bool(cut.is_negative) for cut in cuts)]
    if x in level.free_symbols or level == 0:
        return f
    return sp.Piecewise(*((value - level, x < cut) for value, cut in zip(values, cuts, strict=False)), (values[-1] - level, sp.true))


def _end_at_zero(term: sp.Expr) -> sp.Expr | None:
    """the limit of c tanh(a x + b) that it has at 0 up to rounding, a constant itself; None of any other term"""
    c, head = term.as_independent(x, as_Add=False)
    if head == 1:
        return c
    if not isinstance(head, sp.tanh) or not is_linear(head.args[0], x):
        return None
    at_zero = head.args[0].xreplace({x: sp.S.Zero})
    return c * sp.sign(at_zero) if (abs(at_zero) - FAR).is_positive else None
