r"""Hermite coefficients at small variances, where they are v^{n/2} of the terms of their integrals, by Taylor series.

With f(x) = \sum_n c_n x^n, E f(u) He_n(u/\sqrt v) = v^{n/2} \sum_k (n + 2k)! c_{n+2k} v^k/(2^k k!), u ~ N(0, v), an asymptotic series where
f has poles: it ends before its terms count, at a variance up to which the first two that are left out are rounding.
"""

from __future__ import annotations

from functools import cache

import mpmath as mp
import sympy as sp

from meanfield.gaussian.singularities import shape_of
from meanfield.gaussian.smoothness import is_smooth
from meanfield.symbols import known

__all__ = ["small_projection"]

x, q = known("x"), known("q")

#: terms of a series, and what those left out may be beside the first
_TERMS, _REST = 8, mp.mpf("1e-17")
#: circles about 0 that must agree on a coefficient, relative to the radius of convergence; points on each beyond its order
_CIRCLES, _POINTS = (0.5, 0.4), 160
#: what they may differ by
_AGREED = mp.mpf("1e-25")


@cache
def small_projection(f: sp.Expr, n: int) -> tuple[sp.Expr, sp.Float] | None:
    """E f(u) He_n(u/sqrt(q))/sqrt(n!) in q, and the variance up to which it holds; None where f is not analytic about 0."""
    if f.free_symbols != {x} or not is_smooth(f) or not (shape := shape_of(f)).analytic or not shape.radius > 0:
        return None
    with mp.workdps(60 + n):
        c = _coefficients(f, [n + 2 * k for k in range(_TERMS + 2)], mp.mpf(shape.radius))
        if c is None:
            return None
        terms = [mp.factorial(n + 2 * k) / (mp.mpf(2) ** k * mp.factorial(k) * mp.sqrt(mp.factorial(n))) * c[k] for k in range(_TERMS + 2)]
        first = next((k for k, t in enumerate(terms) if t), _TERMS)
        if first >= _TERMS // 2:
            return None
        ends = [(_REST * abs(terms[first] / t)) ** (1 / mp.mpf(k - first)) for k, t in enumerate(terms) if k >= _TERMS and t]
        if not ends:  # no term that is left out says how large the rest is
            return None
        series = sp.horner(sp.Add(*[sp.Float(t, 17) * q**k for k, t in enumerate(terms[:_TERMS])]))
    return q ** sp.Rational(n, 2) * series, sp.Float(min(1, *ends), 17)


def _coefficients(f: sp.Expr, orders: list[int], radius: mp.mpf) -> list[mp.mpf] | None:
    """of the Taylor series of f, each as Cauchy's integral along two circles; None where these differ"""
    value, count = sp.lambdify(x, f, "mpmath"), orders[-1] + _POINTS
    turns = [mp.expjpi(mp.mpf(2 * j) / count) for j in range(count)]
    found = []
    for share in _CIRCLES:
        r = share * radius
        try:
            on = [mp.mpmathify(value(r * turn)) for turn in turns]
        except (ArithmeticError, NameError, TypeError, ValueError):
            return None
        sums = [mp.re(mp.fsum(on[j] * mp.conj(turns[m * j % count]) for j in range(count))) / count for m in orders]
        size = max(map(abs, on)) * mp.mpf(10) ** (-mp.mp.dps + 15)
        found.append([s / r**m if abs(s) > size else mp.mpf(0) for s, m in zip(sums, orders, strict=True)])
    return found[0] if all(abs(a - b) <= _AGREED * abs(a) for a, b in zip(*found, strict=True)) else None
