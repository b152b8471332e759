r"""Closed forms that cancel as the variance q -> 0, with a Taylor series in their place there.

With f(x) = \sum_n c_n x^n and D_n = E f^{(n)}(u)/\sqrt{n!} = \sum_k c_{n+2k} (n+2k)! q^k / (2^k k! \sqrt{n!}), u ~ N(0, q),

    E f(u) = D_0,    E f(u) g(v) = \sum_n D_n(f) D_n(g) p^n,    E f(u)^2 - E f(u) f(v) = \sum_n D_n(f)^2 (q^n - p^n),

where q^n - p^n is a sum of positive terms: what quadrature does without a closed form, written out. Where all that cancels are
exponentials, as in E sin^2 u = (1 - e^{-2q})/2, their difference needs no series.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath as mp
import sympy as sp
from sympy.codegen.cfunctions import expm1

from meanfield.gaussian import closed
from meanfield.gaussian.power_sums import QUIET
from meanfield.gaussian.shape_rows import ANALYTIC, RADIUS, TERMS, right_of
from meanfield.gaussian.smoothness import is_smooth
from meanfield.gaussian.special import AngleDifference, without_hints
from meanfield.numeric.integrands import shape_row
from meanfield.numeric.large_gaps import NUMBERS, far_gap
from meanfield.symbols import known

__all__ = ["small_cross", "small_gap", "small_mean"]

x, q, delta = known("x"), known("q"), known("delta")

#: relative loss from which on a closed form counts as cancelled
LOST = 1e-13
#: variances and relative gaps at which it is looked at
PROBED = tuple((v, r * v) for v in (1e-12, 1e-8, 1e-4) for r in (1.5, 0.3, 1e-10))
#: bits beyond those of a double that tell what is lost
_SPARE = 600
#: what does not count beside the first term of a series
_ROUNDING = 1e-18


@cache
def small_mean(f: sp.Expr) -> sp.Expr | None:
    """E f(u) in q with its series for small q; None where there is no closed form or it loses nothing."""
    return _with_series(closed.mean(f), (f,), lambda d: d[0])


@cache
def small_cross(f: sp.Expr, g: sp.Expr) -> sp.Expr | None:
    """The same of E f(u) g(v) in q and delta."""

    def series(d: list[sp.Expr], e: list[sp.Expr]) -> sp.Expr:
        return _nested([a * b for a, b in zip(d, e, strict=True)], q - delta)

    return _with_series(closed.stable_cross(f, g), (f, g), series)


@cache
def small_gap(f: sp.Expr) -> sp.Expr | None:
    """The same of a gap in q and delta, with another form at large delta where this one cancels there too."""
    form = closed.gap(f)
    far = None if form is None else far_gap(f, form)
    found = _with_series(
        form if far is None else far, (f,), lambda d: sp.Add(*[c**2 * _difference(n) for n, c in enumerate(d) if n and c != 0])
    )
    return far if found is None else found


def _with_series(form: sp.Expr | None, functions: tuple[sp.Expr, ...], series: Callable[..., sp.Expr]) -> sp.Expr | None:
    """the form, and for small q the series in the D_n of each function, if it takes one; None where the form loses nothing"""
    if form is None or not sp.Tuple(*functions).free_symbols.isdisjoint({q, delta}) or not _cancels(form, *functions):
        return None
    differences = _of_differences(form)
    if differences != form and not _cancels(differences, *functions):
        return differences
    if (near := _near(functions)) is None:
        return None
    rows, least = near
    return sp.Piecewise((series(*rows), q < least), (form, True))


def _cancels(form: sp.Expr, *functions: sp.Expr) -> bool:
    """whether a form loses digits at small variances, in floating point of 53 bits against many"""
    if any(f.free_symbols != {x} or not is_smooth(f) for f in functions) or not form.free_symbols <= {q, delta}:
        return False
    form = without_hints(form).replace(lambda t: isinstance(t, AngleDifference), AngleDifference.definition)
    value = sp.lambdify((q, delta), form, NUMBERS)
    try:
        return any(_lost(value, *point) > LOST for point in PROBED)
    except (NameError, TypeError, ZeroDivisionError):
        return False


def _of_differences(form: sp.Expr) -> sp.Expr:
    """c e^a - c e^b as c e^a (1 - e^{b - a}), the greater power taken out; e^b may be 1"""
    terms = sp.Add.make_args(sp.expand(form, power_exp=False))
    left = [t.as_independent(sp.exp, as_Add=False) for t in terms]
    found: list[sp.Expr] = []
    while left:
        c, wave = left.pop(0)
        other = next((pair for pair in left if pair[0] == -c and all(w == 1 or w.func is sp.exp for w in (wave, pair[1]))), None)
        if other is None:
            found.append(c * wave)
            continue
        left.remove(other)
        a, b = sp.log(wave), sp.log(other[1])
        apart = sp.expand(a - b)
        size = apart if apart.is_nonnegative else -apart if apart.is_nonpositive else sp.Abs(apart)
        found.append(-c * sp.sign(apart) * sp.exp(sp.expand((a + b + size) / 2)) * expm1(-size))
    return sp.Add(*found)


def _lost(value: Callable[..., Any], v: float, d: float) -> float:
    with mp.workprec(53):
        rounded = value(mp.mpf(v), mp.mpf(d))
    with mp.workprec(53 + _SPARE):
        exact = value(mp.mpf(v), mp.mpf(d))
        return float(abs(rounded - exact) / abs(exact)) if exact else 0.0


def _near(functions: tuple[sp.Expr, ...]) -> tuple[list[list[sp.Expr]], sp.Float] | None:
    """D_n of each function, and the variance up to which they hold"""
    try:
        rows = [shape_row(f) for f in functions]
    except ValueError:
        return None
    least = min(float(row[RADIUS]) for row in rows)
    if least <= 0.0 or any(row[ANALYTIC] <= 0.0 for row in rows):
        return None
    least = (QUIET * least) ** 2
    return [_derivatives([float(c) for c in right_of(row)], least) for row in rows], sp.Float(least)


def _derivatives(c: list[float], largest: float) -> list[sp.Expr]:
    """D_n as polynomials in q, without what is below rounding up to the largest q"""

    def coefficient(n: int, k: int) -> float:
        return c[n + 2 * k] * math.exp(math.lgamma(n + 2 * k + 1) - math.lgamma(k + 1) - math.lgamma(n + 1) / 2) / 2.0**k

    weights = {(n, k): abs(coefficient(n, k)) * largest ** (k + n / 2) for n in range(TERMS) for k in range((TERMS - n + 1) // 2)}
    leading = next((w for (n, k), w in weights.items() if n > 0 and k == 0 and w), 0.0)
    kept = [
        [sp.Float(coefficient(n, k)) if weights[n, k] > _ROUNDING * leading else sp.S.Zero for k in range((TERMS - n + 1) // 2)]
        for n in range(TERMS)
    ]
    return [_nested(c, q) for c in kept]


def _nested(c: list[sp.Expr], z: sp.Expr) -> sp.Expr:
    """c_0 + c_1 z + ..., four terms at a time, whose powers all have in common: of a sum of two sympy asks whether it is infinite before it
    squares it, for seconds if there is one in one in one"""
    return sp.Add(*[a * z**k for k, a in enumerate(c[:4])], z**4 * _nested(c[4:], z) if any(c[4:]) else sp.S.Zero)


def _difference(n: int) -> sp.Expr:
    """q^n - p^n as a sum of positive terms"""
    p = q - delta
    if n < 2:
        return n * delta
    even = n - n % 2
    pairs = delta * (2 * q - delta) * sp.Add(*[q ** (2 * i) * p ** (even - 2 - 2 * i) for i in range(even // 2)])
    return pairs if n == even else q * pairs + delta * p**even
