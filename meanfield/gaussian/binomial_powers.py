r"""Algebraic functions of x > 0 as sums of c x^k (x^m + b)^s, whatever way they are written."""

from __future__ import annotations

import math

import sympy as sp
from sympy import S

from meanfield.symbols import known

__all__ = ["binomial_powers", "without_roots_of_x"]

x = known("x")

#: m, b of x^m + b
Binomial = tuple[int, sp.Expr]
#: c, k, s of c x^k (x^m + b)^s
Parts = list[tuple[sp.Expr, sp.Expr, sp.Expr]]


def without_roots_of_x(f: sp.Expr, n: int) -> tuple[sp.Expr, int]:
    """(g, m) where x^n f(x) dx = t^m g(t) dt with x = t^d, which holds for finite parts too, d such that g has no roots of t."""
    d = math.lcm(*(int(t.exp.q) for t in f.atoms(sp.Pow) if t.base == x and t.exp.is_Rational))
    t = sp.Dummy("t", positive=True)
    return (d * f.xreplace({x: t**d}).xreplace({t: x}), d * (n + 1) - 1) if d > 1 else (f, n)


def binomial_powers(term: sp.Expr) -> tuple[Binomial, Parts] | None:
    """One binomial, and the term as powers of x and of it; None where it is no such sum."""
    roots = {t for t in term.atoms(sp.Pow) if x in t.free_symbols and not t.exp.is_Integer}
    if any(not (t.exp.is_Rational and t.base.is_polynomial(x)) for t in roots):
        return None
    found = {_binomial_of(sp.Poly(t.base, x)) for t in roots}
    if len(found) > 1 or None in found:
        return None
    root, order = sp.Dummy("root", positive=True), math.lcm(*(int(t.exp.q) for t in roots))
    put = {t: sp.Poly(t.base, x).LC() ** t.exp * root ** (t.exp * order) for t in roots}
    top, bottom = sp.fraction(sp.together(term.xreplace(put)))
    if not (top.is_polynomial(x, root) and bottom.is_polynomial(x, root)):
        return None
    below = sp.Poly(bottom, x, root)
    lowest = [min(powers) for powers in zip(*below.monoms(), strict=True)]
    rest = sp.Poly(sp.cancel(bottom / (x ** lowest[0] * root ** lowest[1])), x)
    if root in rest.free_symbols:
        return None
    if not roots:
        found = {_binomial_of(sp.sqf_part(rest)) if rest.degree() else (1, S.One)}
    (binomial,) = found
    divided = None if binomial is None else _divided(rest, binomial)
    if binomial is None or divided is None:
        return None
    constant, times = divided
    parts = [
        (c / constant, sp.Integer(k - lowest[0]), sp.Rational(j - lowest[1], order) - times) for (k, j), c in sp.Poly(top, x, root).terms()
    ]
    return binomial, parts


def _binomial_of(polynomial: sp.Poly) -> Binomial | None:
    """m, b > 0 of a multiple of x^m + b"""
    (degree, *others) = (power for (power,) in polynomial.monoms())
    offset = polynomial.nth(0) / polynomial.LC()
    return (degree, offset) if others == [0] and offset.is_positive else None


def _divided(polynomial: sp.Poly, binomial: Binomial) -> tuple[sp.Expr, int] | None:
    """c, d of c (x^m + b)^d"""
    (m, b), times = binomial, 0
    while polynomial.degree() > 0:
        polynomial, left = sp.div(polynomial, sp.Poly(x**m + b, x))
        if not left.is_zero:
            return None
        times += 1
    return polynomial.as_expr(), times
