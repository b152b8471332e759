r"""Angles of lowered expressions as few different ones: an angle, its complement and its sine are one arc tangent for the compiler."""

from __future__ import annotations

from collections.abc import Set

import sympy as sp

from meanfield.gaussian.rewriting import rewritten
from meanfield.gaussian.special import AngleMinusSine

__all__ = ["AcuteAngle", "FlatAngle", "Guarded", "RootAngle", "Segment", "TangentSegment", "arcs", "guarded", "size_of_difference"]


class Guarded(sp.Function):
    """A difference that is not negative but by rounding, and the size of its terms."""

    nargs = 2
    is_real = True


class FlatAngle(sp.Function):
    r"""\arctan y/x of |y| <= x."""

    nargs = 2
    is_real = True


class AcuteAngle(sp.Function):
    r"""The angle of the point (x, y), x, y >= 0."""

    nargs = 2
    is_real = True


class RootAngle(sp.Function):
    r"""\arctan \sqrt{u/v} of u, v >= 0."""

    nargs = 2
    is_real = True


class Segment(sp.Function):
    r"""2 \theta - \sin 2 \theta of \theta = \arctan \sqrt{u/v}: twice what a chord cuts off the unit disc."""

    nargs = 2
    is_real = True


class TangentSegment(sp.Function):
    r"""The same of \theta = \arctan w, w >= 0, beside \sin 2 \theta."""

    nargs = 2
    is_real = True


def arcs(e: sp.Expr, nonnegative: Set[sp.Expr]) -> sp.Expr:
    r"""The expression with angles by what is known of their sides: those between roots as functions of the squares, \theta - \sin\theta of
    them as segments, twice the half of those in triangles of a simple hypotenuse. c + k \arcsin of a cosine is in terms of the angle where
    the constant is at least what the arcsine can be: nothing is lost that the sum had not lost.

    `nonnegative` are differences that rounding does not make negative.
    """
    if not e.has(sp.atan2, sp.atan):
        return e

    def of(head: type[sp.Function], angle: sp.Expr) -> sp.Expr:
        return head(*(_guarded_but(nonnegative, side**2) for side in angle.args))

    e = rewritten(e, lambda t: isinstance(t, AngleMinusSine) and _rooted(t.args[0] / 2), lambda t: of(Segment, t.args[0] / 2))
    e = rewritten(e, lambda t: isinstance(t, sp.Add) and any(a.has(sp.atan2) for a in t.args), _from_complement)
    e = rewritten(e, _rooted, lambda t: of(RootAngle, t))
    e = rewritten(e, lambda t: isinstance(t, sp.atan), _flat)
    return rewritten(e, lambda t: isinstance(t, sp.atan2) and all(map(_nonnegative, t.args)), lambda t: AcuteAngle(*t.args))


def size_of_difference(e: sp.Expr) -> sp.Expr | None:
    """The terms of a sum that are positive, where others are not."""
    positive = [t for t in e.args if not t.could_extract_minus_sign()] if isinstance(e, sp.Add) else []
    return sp.Add(*positive) if positive and len(positive) < len(e.args) else None


def guarded(e: sp.Expr) -> sp.Expr:
    """A difference with the size of its terms beside it; another expression as it is."""
    size = size_of_difference(e)
    return e if size is None else Guarded(e, size)


def _rooted(angle: sp.Basic) -> bool:
    """whether both sides of an angle are roots, and neither is negative"""
    if not isinstance(angle, sp.atan2):
        return False
    sides = [sp.Mul.make_args(side) for side in angle.args]
    return all(any(map(_is_root, side)) and all(_is_root(f) or f.is_nonnegative for f in side) for side in sides)


def _guarded_but(nonnegative: Set[sp.Expr], e: sp.Expr) -> sp.Expr:
    """the square of a side, guarded unless it is such a difference, or one times what is not negative"""
    factors = sp.Mul.make_args(sp.factor_terms(e))
    bounded = any(f in nonnegative for f in factors) and all(f in nonnegative or f.is_nonnegative for f in factors)
    return sp.Mul(*factors) if bounded else guarded(e)


def _nonnegative(e: sp.Expr) -> bool:
    return bool(e.is_nonnegative) or _is_root(e) or (isinstance(e, (sp.Add, sp.Mul)) and all(map(_nonnegative, e.args)))


def _flat(angle: sp.Expr) -> sp.Expr:
    """twice the half of an angle whose sides make a square without a root"""
    y, x = sp.fraction(sp.together(angle.args[0]))
    hypotenuse = sp.sqrt(sp.factor(sp.expand(x**2 + y**2)))
    if hypotenuse.is_number or hypotenuse.is_Pow or any(_is_root(f) for f in sp.Mul.make_args(hypotenuse)) or not _nonnegative(x):
        return angle
    return 2 * FlatAngle(y, hypotenuse + x)


def _is_root(e: sp.Expr) -> bool:
    return bool(e.is_Pow and e.exp == sp.Rational(1, 2) and e.free_symbols)


def _from_complement(total: sp.Expr) -> sp.Expr:
    constant = total.as_coeff_Add()[0]
    terms = []
    for term in total.args:
        k, angle = term.as_independent(sp.atan2, as_Add=False)
        half = _half(angle) if isinstance(angle, sp.atan2) and k.is_number and abs(constant / k) >= 1.57 else None
        terms.append(term if half is None else k * (sp.pi / 2 - 2 * half))
    return sp.Add(*terms)


def _half(angle: sp.Expr) -> sp.Expr | None:
    r"""half of \arccos of what the angle is the arcsine of: its sides are \sqrt{m - a}, \sqrt{m + a} where those of the angle are a and
    their product"""
    a, r = angle.args
    square = r**2
    for above in sp.Mul.make_args(square):
        below = square / above
        if above.is_Add and sp.expand(above - below - 2 * a) == 0:
            return sp.atan2(sp.sqrt(below), sp.sqrt(above))
    return None
