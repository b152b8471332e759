r"""Hermite coefficients E[f(\sqrt v z) He_n(z)] = v^{n/2} E f^{(n)}(u), u ~ N(0, v): by the derivative, whose terms cancel at large
variances, as (\sqrt{v}/d)^n for poles at a distance d, and by the polynomial, whose terms cancel at small ones."""

from __future__ import annotations

import sympy as sp
from sympy import S

from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.singularities import shape_of
from meanfield.gaussian.slopes import gathered
from meanfield.gaussian.smoothness import is_smooth
from meanfield.gaussian.special import exponentials
from meanfield.gaussian.zeros import is_zero
from meanfield.symbols import known

__all__ = ["projection"]

x = known("x")

#: operations beyond which a derivative is not worth its length
_LONG = 1000
#: order from which on terms of E f^(n) cancel at large variances
_FEW = 3


def projection(f: sp.Expr, n: int, variance: sp.Expr) -> sp.Expr:
    """E[f(u) He_n(u/sqrt(v))], in closed form where it closes."""
    if not is_smooth(f):  # no n-th derivative to speak of
        return _by_polynomial(f, n, variance)
    if n > 0 and is_zero((f + (-1) ** n * f.xreplace({x: -x})).diff(x, min(n, 2))):
        return S.Zero  # the part of f of the parity of He_n is a polynomial of a lower degree
    rate = _derivative(f, n)
    moment = S.NaN if rate is None else variance ** sp.Rational(n, 2) * Expectation(rate, variance).doit()
    if rate is not None and (n < _FEW or not moment.has(Node)):
        return moment
    width = S.Zero if rate is None else _width(f, rate)
    by_polynomial = _by_polynomial(f, n, variance)
    return sp.Piecewise((moment, n * variance < width**2), (by_polynomial, True)) if width else by_polynomial


def _by_polynomial(f: sp.Expr, n: int, variance: sp.Expr) -> sp.Expr:
    return Expectation(f * sp.expand(sp.hermite_prob(n, x / sp.sqrt(variance))), variance).doit()


def _derivative(f: sp.Expr, n: int) -> sp.Expr | None:
    """the n-th one in its shortest form, None where all are long"""
    for _ in range(n):
        f = f.diff(x)
        f = min((f, gathered(f), gathered(exponentials(f))), key=sp.count_ops)
        if sp.count_ops(f) > _LONG:
            return None
    return f


def _width(f: sp.Expr, rate: sp.Expr) -> sp.Expr:
    """half the width of the strip in which f is analytic, 0 where that is not known, or a derivative to few digits"""
    if f.free_symbols != {x}:
        return S.Zero
    try:
        shape_of(rate)
        whole = shape_of(f)
    except ValueError:
        return S.Zero
    return sp.Rational(f"{whole.d:.2g}") if whole.smooth else S.Zero
