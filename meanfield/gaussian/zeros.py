r"""Whether an expression is zero: `vanishes`, as a number to forty digits, and `is_zero`, by proof."""

from __future__ import annotations

from functools import cache, lru_cache
from zlib import crc32

import mpmath as mp
import sympy as sp
from sympy.functions.elementary.trigonometric import TrigonometricFunction

from meanfield.gaussian.cancelling import in_lowest_terms
from meanfield.gaussian.pieces import KINKED
from meanfield.gaussian.polynomial_zeros import zeros_of
from meanfield.gaussian.special import FAR, Reciprocal, exponentials, is_linear
from meanfield.gaussian.tidying import TURNED, NestedRoot, cancels, tidy, upright
from meanfield.symbols import known

__all__ = ["in_normal_form", "is_somewhere_nonzero", "is_zero", "vanishes"]

x = known("x")

#: functions that one derivative makes simpler
_INTEGRALS = (sp.log, sp.atan, sp.asinh, sp.erf, sp.erfc)

#: how far from a singularity a function is looked at
_BESIDE = sp.Rational(1, 10**4)
#: how many zeros at 0 a coefficient of one of them may have
_ORDERS = 20

#: how many places are looked at of those where functions turn that are saturated at any other, so that nothing happens there
_TURNS = 8


def vanishes(c: sp.Expr, digits: int = 40) -> bool:
    """Whether a coefficient is zero, to that many digits: as a number, or with random numbers for its symbols."""
    if c.is_Rational:
        return bool(c == 0)
    if c.is_Mul:
        return any(vanishes(a, digits) for a in c.args)
    if c.is_number:
        size = sum(abs(sp.N(a, 15)) for a in sp.Add.make_args(c))
        return bool(abs(sp.N(c, digits + 5, maxn=400)) <= sp.Float(10) ** -digits * (1 + size))
    if not c.is_Add:
        return bool(c == 0)
    with mp.workdps(60):
        parts = [_drawn(a) for a in c.args]
        return bool(abs(mp.fsum(parts)) <= mp.mpf(10) ** -digits * mp.fsum(parts, absolute=True))


_NAMES = "exp", "expm1", "log", "log1p", "asin", "acos", "atan", "asinh", "sinh", "cosh", "tanh", "erf", "erfc", "sin", "cos"
_FUNCTIONS = {name: getattr(mp, name) for name in _NAMES}


@lru_cache(maxsize=2**16)
def _drawn(e: sp.Expr) -> mp.mpc:
    """an expression with random values, to 60 digits, for symbols and for functions that are not elementary"""
    if e.is_Add:
        return mp.fsum(map(_drawn, e.args))
    if e.is_Mul:
        return mp.fprod(map(_drawn, e.args))
    if isinstance(e, Reciprocal):
        return 1 / _drawn(e.args[0])
    if e.is_Pow and e.exp.is_Rational:
        return mp.power(_drawn(e.base), mp.mpf(e.exp.p) / e.exp.q)
    if e.func.__name__ in _FUNCTIONS:
        return _FUNCTIONS[e.func.__name__](_drawn(e.args[0]))
    if e.is_number:
        return mp.mpmathify(sp.N(e, 70)._to_mpmath(mp.mp.prec))
    seed = crc32(sp.srepr(e).encode())
    # about 1/4: neither exp(-100 a) nor a^40 is 0 to 40 digits
    return (mp.sqrt(2 + mp.mpf(seed) / 2**32) - mp.mpf(seed % 9973) / 19997) / 4


def in_normal_form(e: sp.Expr) -> bool:
    """Whether an expression is 0 by its normal form; False may also mean that it has none."""
    e = e.replace(sp.acos, lambda z: sp.pi / 2 - sp.asin(z))
    try:
        return cancels(e) or (e.has(*TURNED) and cancels(upright(tidy(e))))
    except NestedRoot:
        return False


@cache
def is_zero(h: sp.Expr) -> bool:
    """Whether an expression, a function of x perhaps, is proved to vanish: by its normal form, as a rational function of x, roots and
    exponentials, or, with logarithms and their like, through the derivative."""
    if is_somewhere_nonzero(h):
        return False
    if in_normal_form(h):
        return True
    h = exponentials(h).replace(lambda e: isinstance(e, TrigonometricFunction), lambda e: e.rewrite(sp.exp))
    if sp.expand(h) == 0:
        return True
    if h.has(*_INTEGRALS):
        if any(a.has(*_INTEGRALS) for t in h.atoms(*KINKED) for a in t.args):
            return False  # they decide, and stand in every derivative
        return _is_zero_through_derivatives(h)
    return bool(in_lowest_terms(h) == 0 or sp.expand(sp.numer(sp.together(sp.expand(h)))) == 0)


def _is_zero_through_derivatives(h: sp.Expr) -> bool:
    """through that of h/c, where c is the coefficient of the leading power of a logarithm or its like, which is gone from there: so h = k c
    with a constant k, and the first derivative at 0 that c has tells whether k = 0"""
    if not h.has(x):
        return bool(h.equals(0))
    if any(_is_nonzero(h.xreplace(_point(h) | {x: place})) for place in _beside_singularities(h)):
        return False  # a constant may be another one there
    names = {t: sp.Dummy() for t in sorted(h.atoms(*_INTEGRALS), key=sp.count_ops, reverse=True)}
    try:
        polynomial = sp.Poly(sp.expand(sp.numer(sp.together(h.xreplace(names)))), *names.values())
    except sp.PolynomialError:
        return False
    terms = [(powers, c) for powers, c in polynomial.terms() if not is_zero(c)]
    if not terms:
        return True
    lead = terms[0][1]
    if lead.has(x) and h.has(*KINKED):
        return False  # k may change where c is 0
    ratio = sp.Add(*[in_lowest_terms(c / lead) * sp.Mul(*map(sp.Pow, names, powers)) for powers, c in terms])
    orders = (k for k in range(_ORDERS) if _is_nonzero(lead.diff(x, k).subs(x, 0).xreplace(_point(h))))
    order = next(orders, None)
    return order is not None and bool((lead * ratio).diff(x, order).subs(x, 0).equals(0)) and is_zero(ratio.diff(x))


def _beside_singularities(h: sp.Expr) -> list[sp.Rational]:
    """places on either side of the zeros and the poles of the arguments of logarithms and their like, which derivatives do not tell"""
    factors = {e for t in h.atoms(*_INTEGRALS) for e in sp.fraction(sp.together(t.args[0])) if e.is_polynomial(x) and e.free_symbols == {x}}
    real = {sp.Rational(sp.re(r)) for e in factors for r in zeros_of(e, 15) if abs(sp.im(r)) < 1e-9}
    return sorted({r + sign * _BESIDE for r in real for sign in (-1, 1)})


def is_somewhere_nonzero(h: sp.Expr) -> bool:
    """Whether it is something else at a point, or next to one at which something happens, all else being far away: a proof that it
    vanishes need not be looked for, and is long to fail"""
    point = _point(h)
    inner = {t.args[0] for t in h.atoms(sp.Function) if t.args and isinstance(t.args[0], sp.Expr) and is_linear(t.args[0], x)}
    slopes = {z: z.diff(x) for z in inner if z.free_symbols == {x} and abs(z.xreplace(point)) > FAR}
    turns = sorted(turn for z, slope in slopes.items() if (turn := (point[x] - z.xreplace({x: sp.S.Zero})) / slope).is_real)
    return any(_is_nonzero(h.xreplace(point | place)) for place in ({}, *({x: turn} for turn in turns[:_TURNS])))


def _point(h: sp.Expr) -> dict[sp.Symbol, sp.Rational]:
    """numbers for x and for parameters"""
    return {s: sp.Rational(3 * i + 4, 7) for i, s in enumerate(sorted(h.free_symbols, key=str))}


def _is_nonzero(number: sp.Expr) -> bool:
    """whether its digits, if there are any, say so"""
    try:
        with mp.workdps(50):
            value, error = _with_error(number)
            return bool(abs(value) > mp.mpf(10) ** 10 * error + mp.mpf(10) ** -25)
    except ValueError:
        return False


def _with_error(number: sp.Expr) -> tuple[mp.mpc, mp.mpf]:
    """a number to forty digits of the terms of its sums, of which sympy would look for more and more where one is 0"""
    if number.is_Add:
        values, errors = zip(*map(_with_error, number.args), strict=True)
        return mp.fsum(values), mp.fsum(errors)
    if number.is_Mul:
        value, least, most = mp.mpf(1), mp.mpf(1), mp.mpf(1)
        for factor, error in map(_with_error, number.args):
            value, least, most = value * factor, least * abs(factor), most * (abs(factor) + error)
        return value, most - least
    found = sp.N(number, 40)
    size = abs(found)
    if not size.is_Float or size._prec < 100:
        raise ValueError(f"{number} has no digits")
    return mp.mpmathify(found._to_mpmath(mp.mp.prec)), mp.mpf(10) ** -38 * abs(mp.mpmathify(size))
