"""Functions in the form in which floating point keeps their digits: by Taylor series where it finds 0/0, or loses what is left of terms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import mpmath as mp
import numpy as np
import sympy as sp

from meanfield.gaussian.analyticity import analytic_radius, reproduces, taylor
from meanfield.gaussian.growth import places
from meanfield.gaussian.kinks import kinks_of
from meanfield.gaussian.pieces import KINKED, NotClosed, in_pieces
from meanfield.gaussian.resolution import Real, on_both_sides, vectorised
from meanfield.gaussian.shape_rows import TERMS
from meanfield.gaussian.smoothness import branch, is_smooth
from meanfield.gaussian.stable import side
from meanfield.symbols import known

__all__ = ["keeps_digits", "mended", "mended_function"]

x = known("x")

#: distances from a place at which a function is looked at, and a relative error there that is more than rounding of a few operations
_LOOKED, _LOST = tuple(0.7 * 8.0**-k for k in range(7)), 1e-14
#: what a series lacks of its first term, in bits
_BITS = 54
#: how far a function must be analytic around a place
_NARROW = 1e-3
_DIGITS = 80
#: highest degree of a root in powers of which a series is taken; that of a decimal fraction, as 0.3 in binary, is 2^54
_DEGREE = 24
#: x next to a root is a power of it
_STEP = sp.Dummy("z", positive=True)


@dataclass(frozen=True)
class _Patch:
    """What stands for a function from `low` to `high`."""

    low: float
    high: float
    series: sp.Expr


@cache
def mended(g: sp.Expr, sign: int, written: sp.Expr | None = None) -> sp.Expr:
    """g for sign * x > 0, perhaps written in other symbols too: far out as it neither overflows nor cancels, and by Taylor series around
    where it has no digits."""
    far = side((g if written is None else written).replace(_is_kinked_sum, lambda t: in_pieces(t, sign)), sign)
    here = [p for p in _patches(g) if (p.high if sign > 0 else -p.low) > 0.0]
    return sp.Piecewise(*((p.series, (x > p.low) & (x < p.high)) for p in here), (far, True)) if here else far


def _is_kinked_sum(t: sp.Basic) -> bool:
    """of whose terms, as those of |x + 1| - |x - 1|, only rounding may be left"""
    return isinstance(t, sp.Add) and t.has(*KINKED)


@cache
def mended_function(piece: sp.Expr) -> Real:
    """A function over arrays, in that form."""
    return on_both_sides(*(vectorised(mended(piece, sign)) for sign in (1, -1)))


def keeps_digits(g: sp.Expr) -> bool:
    """Whether that form of a function that is 0 at 0 has digits next to 0, however near."""
    exact = sp.lambdify(x, g, "mpmath")
    for sign in (1, -1):
        points = [sign * 0.7 * 10.0**-k for k in (2, 5, 9, 14, 20, 28)]
        with np.errstate(all="ignore"), mp.workdps(_DIGITS):
            found = vectorised(mended(g, sign))(np.array(points)).tolist()
            true = [exact(mp.mpf(z)) for z in points]
        if not all(abs(v - t) <= 10 * _LOST * abs(t) for v, t in zip(found, true, strict=True)):
            return False
    return True


@cache
def _patches(g: sp.Expr) -> tuple[_Patch, ...]:
    """around 0, and where parts of g are infinite"""
    if g.free_symbols != {x}:
        return ()
    a = _scale(g)
    if float(a) != 1.0:  # distances are those of g(x/a); to sympy a float 1.0 is not 1
        unscaled = _patches(g.xreplace({x: x / a}))
        return tuple(_Patch(p.low / float(a), p.high / float(a), p.series.xreplace({x: a * x})) for p in unscaled)
    found = []
    for r in dict.fromkeys((sp.S.Zero, *places(g))):
        right, left = (_series(_beside(g, r, sign), r, sign) for sign in (1, -1))
        if right is None and left is None:
            continue
        kinks = () if is_smooth(g) else kinks_of(g)
        at = float(r)
        if right is not None:
            found.append(_Patch(at, min([at + right[1], *(k for k in kinks if k > at)]), right[0]))
        if left is not None:
            found.append(_Patch(max([at - left[1], *(k for k in kinks if k < at)]), at, left[0]))
        if right is not None and right == left:
            found[-2:] = [_Patch(found[-1].low, found[-2].high, right[0])]
    return tuple(found)


def _scale(g: sp.Expr) -> sp.Expr:
    """the one positive number by which x is multiplied wherever it stands in a function, 1 where there is none"""
    inside = {abs(t.as_coeff_Mul()[0]) for t in sp.preorder_traversal(g) if t.is_Mul and t.as_coeff_Mul()[1] == x}
    alone = any(x in t.args for t in sp.preorder_traversal(g) if not t.is_Mul)
    return inside.pop() if len(inside) == 1 and not alone else sp.S.One


def _beside(g: sp.Expr, r: sp.Expr, sign: int) -> sp.Expr:
    """what g is next to a place, written about it"""
    try:
        piece = g if is_smooth(g) else branch(g, r + sign * sp.Rational(1, 10**9))
    except NotClosed:
        return sp.S.Zero
    return piece.xreplace({x: x + r})


@cache
def _series(h: sp.Expr, r: sp.Expr, sign: int) -> tuple[sp.Expr, float] | None:
    """the Taylor series of h(x - r), or next to a root in powers of that, and from r how far it is taken; None where floating point keeps
    the digits, or h has no such series"""
    if x not in h.free_symbols:
        return None
    k, along = _along(h, sign)
    if not (lost := _lost(h, r, sign) if k == 1 else _lost(along, sp.S.Zero, 1)) or (radius := analytic_radius(along)) < _NARROW:
        return None
    terms = 2 * TERMS
    c = taylor(along, min(radius / 2, 1.0), terms)
    first = next((n for n, a in enumerate(c) if a), terms)
    if first == terms or not reproduces(c, along, radius, sign if k == 1 else 1):
        return None
    polynomial = sp.Poly([sp.Float(a) for a in reversed(c)], x).as_expr()
    away = x - r if k == 1 else (sign * (x - r)) ** sp.Rational(1, k)
    return sp.horner(polynomial).xreplace({x: away}), min(8.0 * lost, radius * 2.0 ** (-_BITS / (terms - first))) ** k


def _along(h: sp.Expr, sign: int) -> tuple[int, sp.Expr]:
    """k and h(sign x^k), k > 1 where only that is analytic next to 0: k is what the degrees of roots in h divide"""
    k = math.lcm(*(int(t.exp.q) for t in h.atoms(sp.Pow) if t.exp.is_Rational))
    if not 1 < k <= _DEGREE or analytic_radius(h) >= _NARROW:
        return 1, h
    along = h.xreplace({x: sign * _STEP**k}).xreplace({_STEP: x})  # sympy takes roots of powers of a positive symbol by itself
    real = sp.N(along.xreplace({x: sp.Rational(1, 100)})).is_real  # not so on the other side of a root
    return (k, along) if real and analytic_radius(along) >= _NARROW else (1, h)


def _lost(h: sp.Expr, r: sp.Expr, sign: int) -> float:
    """how far from r floating point finds few digits of h(x - r), or no number at r itself; at one point alone, that is next to a zero
    of h, and 0 then"""
    at = float(r)
    points = np.array([0.0, *(at + sign * d - at for d in _LOOKED)])
    g = h.xreplace({x: x - r})
    value = vectorised(side(g, (at > 0) - (at < 0) or sign))
    with np.errstate(all="ignore"):
        found = value(at + points)
    exact = sp.lambdify(x, h, "mpmath")
    lost: list[float] = []
    for z, v in zip(points[1:].tolist(), found[1:].tolist(), strict=True):
        with mp.workdps(_DIGITS):
            try:
                true = mp.re(exact(mp.mpf(z)))
            except (ArithmeticError, NameError, TypeError, ValueError):
                return 0.0
            moved = 1e-16 * abs(at) * abs(mp.diff(exact, z)) if at else 0
            if abs(true) > 1e-290 and not abs(v - true) <= _LOST * abs(true) + moved:
                lost.append(abs(z))
    if len(lost) > 1:
        return max(lost)
    return 0.0 if math.isfinite(found[0]) else min(_LOOKED)
