r"""Gaps whose closed form cancels far from delta = 0, with the difference of the two moments in its place there.

The gap of x \cos x holds -expm1(-delta) (delta^2 - delta + q)/2 + delta (1 - delta)/2: exact as delta -> 0, but for large delta the powers
of delta cancel. E f(u)^2 - E f(u) f(v) itself does not, once the second moment is the greater.
"""

from __future__ import annotations

import mpmath as mp
import sympy as sp
from sympy.codegen.cfunctions import expm1

from meanfield.gaussian import closed
from meanfield.gaussian.special import Elementary, without_hints
from meanfield.symbols import known

__all__ = ["NUMBERS", "far_gap"]

q, delta = known("q"), known("delta")


def _angle_minus_sine(theta: mp.mpf) -> mp.mpf:
    """to the precision asked for, as kernels have it"""
    with mp.workprec(mp.mp.prec + 2 * max(0, -mp.mag(theta))):
        return theta - mp.sin(theta)


#: what closed forms of kernels hold, in any number of digits
NUMBERS = [{"expm1": mp.expm1, "AngleMinusSine": _angle_minus_sine}, "mpmath"]
#: relative loss from which on a form counts as cancelled, and the variances and relative gaps at which that is looked at
LOST, PROBED = 1e-13, tuple((v, r * v) for v in (1e4, 1e10) for r in (1.5, 0.3))


def far_gap(f: sp.Expr, form: sp.Expr) -> sp.Piecewise | None:
    """The closed form of a gap with what takes its place at large delta; None where it loses nothing there, or that is not known."""
    rates = {-sp.expand(e.args[0]) / delta for e in form.atoms(expm1) if e.args[0].has(delta)}
    falling = [a for a in rates if a.is_number and a.is_positive]
    if not falling or not form.free_symbols <= {q, delta} or form.has(sp.Piecewise):
        return None
    second, cross = closed.product_mean(f, f), closed.stable_cross(f, f)
    if second is None or cross is None or sp.Tuple(second, cross).has(sp.Piecewise, sp.oo):
        return None
    far = second - sp.Add(*[_about_opposites(t) for t in sp.Add.make_args(cross)])
    value = [sp.lambdify((q, delta), without_hints(e).replace(_has_definition, lambda t: t.definition()), NUMBERS) for e in (form, far)]
    if not any(_lost(value[0], value[0], *point) > LOST for point in PROBED):
        return None
    if any(_lost(value[1], value[0], *point) > LOST for point in PROBED):
        return None
    return sp.Piecewise((far, delta > 1 / min(falling)), (form, True))


def _has_definition(t: sp.Basic) -> bool:
    return isinstance(t, Elementary) and type(t).__name__ not in NUMBERS[0]


def _about_opposites(term: sp.Expr) -> sp.Expr:
    """a polynomial times an exponential as a sum, that of delta - 2 q in powers of 2 q - delta, where u and v are nearly opposite"""
    factors, s = sp.Mul.make_args(term), sp.Dummy("s", positive=True)
    powers = [f.args[0] for f in factors if isinstance(f, sp.exp)]
    rest = sp.Mul(*[f for f in factors if not isinstance(f, sp.exp)])
    if len(powers) != 1 or not rest.is_polynomial(q, delta):
        return term
    rising = bool(sp.expand(powers[0]).coeff(delta).is_positive)
    parts = sp.Add.make_args(sp.expand(rest.xreplace({delta: 2 * q - s}) if rising else rest))
    return sp.Add(*[part * sp.exp(powers[0]) for part in parts]).xreplace({s: 2 * q - delta})


def _lost(form: sp.Expr, exact: sp.Expr, v: float, d: float) -> float:
    """the relative error of a form in floating point of 53 bits, against one in many"""
    with mp.workprec(53):
        rounded = form(mp.mpf(v), mp.mpf(d))
    with mp.workprec(600):
        true = exact(mp.mpf(v), mp.mpf(d))
        return float(abs(rounded - true) / abs(true)) if true else 0.0
