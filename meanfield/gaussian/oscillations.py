r"""Functions that oscillate for ever, under Gaussians that are wide against a period.

A function that is a polynomial in sines and cosines of linear arguments is, on either side, a sum of harmonics A_\nu(x) e^{i \nu x} with
coefficients that do not oscillate. Where A_\nu is analytic and a smooth step \Phi((|x| - R)/w) takes it away around its features, a
harmonic with \nu \neq 0 has an expectation of order e^{-\nu^2 w^2/2}: far out only the coefficient A_0, the mean over a period, is left.
So f has the expectations of a function that is f within |x| < R and A_0 beyond, which panels resolve for any variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import sympy as sp
from sympy import I, S

from meanfield.gaussian.pieces import NotClosed, branch, edges
from meanfield.gaussian.stable import side
from meanfield.symbols import known

__all__ = ["Tails", "product_mean", "steady", "tails"]

x, y = known("x"), known("y")

_FAR = 10**4  # beyond all kinks

#: frequency -> (function without oscillations -> its complex coefficient)
Harmonics = dict[sp.Expr, dict[sp.Expr, sp.Expr]]


class _NoHarmonics(Exception):
    """An oscillation inside another function."""


@dataclass(frozen=True)
class Tails:
    """What a function is far out on one side: its harmonics as (frequency, function, coefficient), their mean and variance over a period,
    the functions that they and those of the square are made of, and the ends of their frequencies."""

    harmonics: tuple[tuple[sp.Expr, sp.Expr, sp.Expr], ...]
    mean: sp.Expr
    variance: sp.Expr
    coefficients: tuple[sp.Expr, ...]
    slowest: float
    fastest: float


def _linear(argument: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    if not argument.is_polynomial(x) or sp.degree(argument, x) != 1:
        raise _NoHarmonics
    slope, offset = sp.Poly(argument, x).all_coeffs()
    return slope, offset


def _add(*parts: Harmonics) -> Harmonics:
    total: Harmonics = {}
    for part in parts:
        for frequency, terms in part.items():
            own = total.setdefault(frequency, {})
            for function, c in terms.items():
                own[function] = sp.expand(own.get(function, S.Zero) + c)
    return total


def _multiply(a: Harmonics, b: Harmonics) -> Harmonics:
    products = (
        {sp.expand(m + n): {g * h: sp.expand(c * d)}}
        for m, first in a.items()
        for n, second in b.items()
        for g, c in first.items()
        for h, d in second.items()
    )
    return _add(*products)


def harmonics(f: sp.Expr) -> Harmonics:
    """A smooth function as a sum of harmonics."""
    if not f.has(sp.sin, sp.cos) or not any(t.has(x) for t in f.atoms(sp.sin, sp.cos)):
        return {S.Zero: {f: S.One}}
    if isinstance(f, (sp.sin, sp.cos)):
        slope, offset = _linear(f.args[0])
        plus, minus = (S.Half, S.Half) if isinstance(f, sp.cos) else (-I / 2, I / 2)
        return _add({slope: {S.One: plus * sp.exp(I * offset)}}, {-slope: {S.One: minus * sp.exp(-I * offset)}})
    if f.is_Add:
        return _add(*map(harmonics, f.args))
    if f.is_Mul or (f.is_Pow and f.exp.is_Integer and f.exp > 0):
        factors = f.args if f.is_Mul else [f.base] * int(f.exp)
        total: Harmonics = {S.Zero: {S.One: S.One}}
        for factor in factors:
            total = _multiply(total, harmonics(factor))
        return total
    raise _NoHarmonics


def _real_part(terms: dict[sp.Expr, sp.Expr]) -> sp.Expr:
    return sp.Add(*[sp.re(c) * g for g, c in terms.items()])


def _split(h: Harmonics) -> tuple[dict[sp.Expr, sp.Expr], Harmonics]:
    """the mean over a period, and the rest"""
    still: dict[sp.Expr, sp.Expr] = {}
    moving: Harmonics = {}
    for frequency, terms in h.items():
        present = {g: c for g, c in terms.items() if c != 0}
        if frequency.is_number and abs(float(frequency)) < 1e-12:
            still |= present
        elif present:
            moving[frequency] = present
    return still, moving


@cache
def steady(f: sp.Expr) -> tuple[sp.Expr, bool]:
    r"""The part of f without oscillations, and whether the others have polynomials before them: then E f(u) is that part's but for
    O(e^{-\nu^2 q/2}), if not, but for O(q^{-1/2}). f itself where an oscillation is inside another function."""
    try:
        still, moving = _split(harmonics(f))
    except _NoHarmonics:
        return f, True
    return _real_part(still), all(g.is_polynomial(x) for terms in moving.values() for g in terms)


def _tail(f: sp.Expr) -> Tails:
    still, moving = _split(harmonics(f))
    level, squared = _split(_multiply(moving, moving))
    rest = {n: terms for h in (moving, squared, _multiply({S.Zero: still}, moving)) for n, terms in h.items()}
    frequencies = [abs(float(n)) for n in rest]
    coefficients = sorted({g for terms in (still, level, *rest.values()) for g in terms}, key=str)
    listed = tuple((n, g, c) for n, terms in {**moving, S.Zero: still}.items() for g, c in terms.items())
    return Tails(
        listed, _real_part(still), _real_part(level), tuple(coefficients), min(frequencies, default=math.inf), max(frequencies, default=0.0)
    )


def _returns(edge: sp.Expr) -> bool:
    """whether an edge that oscillates changes its sign far out, so that f has kinks without end"""
    value = sp.lambdify(x, edge, "math")
    return any(len({value(side * (_FAR - 0.37 * k)) > 0 for k in range(400)}) > 1 for side in (-1, 1))


@cache
def tails(f: sp.Expr) -> tuple[Tails, Tails] | None:
    """What f is far to the left and to the right, if it oscillates there and is free of parameters; None of any other function."""
    if f.free_symbols != {x} or not f.has(sp.sin, sp.cos) or any(edge.has(sp.sin, sp.cos) and _returns(edge) for edge in edges(f)):
        return None
    try:
        left, right = (_tail(branch(f, S(at)) if edges(f) else f) for at in (-_FAR, _FAR))
    except (_NoHarmonics, NotClosed):
        return None
    return (left, right) if max(left.fastest, right.fastest) > 0 else None


def product_mean(first: Tails, second: Tails, v: sp.Expr, sign: int) -> sp.Expr:
    """The mean over a period of x of f(u) g(v), u = x + y and v = +-(x - y), on the side of that sign."""
    u, turn = x + y, int(v.coeff(x))
    total = S.Zero
    for m, f, a in first.harmonics:
        for n, g, b in second.harmonics:
            if abs(float(m + turn * n)) < 1e-12:
                c, phase = sp.expand(a * b), (m - turn * n) * y
                parts = sp.re(c) * sp.cos(phase) - sp.im(c) * sp.sin(phase)
                total += parts * side(f, sign).xreplace({x: u}) * side(g, sign * turn).xreplace({x: v})
    return total
