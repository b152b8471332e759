"""The zeros of a polynomial with numbers for coefficients, each of them once."""

from __future__ import annotations

from functools import cache

import sympy as sp
from sympy.polys.domains import ComplexField, RealField

from meanfield.symbols import known

__all__ = ["zeros_of"]

x = known("x")
#: as many times the digits have coefficients, of which half tell 0 from what a division leaves
_MORE = 8


@cache
def zeros_of(e: sp.Expr, digits: int) -> tuple[sp.Expr, ...]:
    """Those of a polynomial in x, real and complex, to that many digits, which no search finds of one that is manifold.

    >>> zeros_of(sp.expand((x - sp.pi) ** 3 * (x + sp.sqrt(2)) ** 2), 6)
    (-1.41421, 3.14159)
    """
    f = sp.Poly(e, x)
    simple = f.sqf_part() if f.domain.is_ZZ or f.domain.is_QQ or f.degree() == 1 else _simple(f, _MORE * digits)
    return tuple(simple.nroots(n=digits, maxsteps=500))


def _simple(f: sp.Poly, digits: int) -> sp.Poly:
    """what has the same zeros, simple ones: over the greatest common divisor with the derivative, for which exact numbers may take for
    ever"""
    coefficients = [sp.N(c, digits) for c in f.all_coeffs()]
    field = RealField if all(c.is_real for c in coefficients) else ComplexField
    whole = sp.Poly(coefficients, x, domain=field(prec=sp.Float(0, digits)._prec))
    a, b = whole, whole.diff()
    while not b.is_zero:
        least = sp.Float(10) ** (-digits // 2) * max(map(abs, a.all_coeffs()))
        a, b = b, sp.Poly([c if abs(c) > least else 0 for c in a.rem(b).all_coeffs()], x, domain=whole.domain)
    return whole.quo(a)
