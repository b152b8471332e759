r"""The terms of one expectation as its variance grows or vanishes, as powers of it: E f(u), and E f(u) g(v) of a fixed correlation.

Each is a tuple of (coefficient, exponent, power of the logarithm) and the exponent of what is left out, -oo or oo where nothing is.
"""

from __future__ import annotations

from functools import cache

import sympy as sp
from sympy import Rational, S

from meanfield.analysis.near_coincidence import finite
from meanfield.gaussian.expectation import FOR_READING, Expectation, Node
from meanfield.gaussian.harmonics import steady
from meanfield.gaussian.local_expansions import at_infinity
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.gaussian.series import LOG, NoExpansion
from meanfield.symbols import known

__all__ = ["ORDER", "Terms", "narrow_terms", "pair_terms", "wide_terms"]

x, y, p, q = (known(name) for name in ("x", "y", "p", "q"))

#: how far expansions go, in powers of the variance, at least
ORDER = 2

Terms = tuple[tuple[tuple[sp.Expr, sp.Expr, int], ...], sp.Expr]


@cache
def wide_terms(f: sp.Expr) -> Terms:
    """E f(u) as its variance grows."""
    node = Expectation(f, q)
    constant, node = node.as_independent(q) if not isinstance(node, Node) else (S.One, node)
    if not isinstance(node, Node):
        return ((constant * node, S.Zero, 0),), -S.Infinity
    form = finite(node).closed()
    if form is not None and not form.has(*FOR_READING):
        try:
            found = at_infinity(form.xreplace({q: x}), ORDER)
            return _unfolded([(constant * c, a) for a, c in found.items()], LOG), -sp.Integer(ORDER)
        except NoExpansion:
            pass
    still, exact = steady(f)
    if still != f:
        known_terms, rest = wide_terms(still)
        return known_terms, rest if exact else max(rest, -S.Half)
    for count in (2, 3, 4):
        try:
            expansion = node.asymptotic(count)
        except (ValueError, ArithmeticError) as reason:
            raise NoExpansion(reason) from None
        rest = _exponent(expansion.remainder, -S.Infinity)
        if rest <= -Rational(3, 2):
            break
    logarithm = sp.log(q)
    return _unfolded([(constant * c, e) for c, e in expansion.terms], logarithm), rest


@cache
def narrow_terms(f: sp.Expr, order: int) -> Terms:
    """E f(u) as its variance goes to 0, where the series goes on to this order."""
    try:
        expansion = Expectation(f, q).as_independent(q)[1].taylor(order)
    except (ValueError, AttributeError) as reason:
        raise NoExpansion(reason) from None
    constant = Expectation(f, q).as_independent(q)[0]
    return tuple((constant * c, e, 0) for c, e in expansion.terms), _beside(expansion.remainder, order)


@cache
def pair_terms(f: sp.Expr, g: sp.Expr, growing: bool, order: int) -> Terms:
    """E f(u) g(v) as the variances grow or vanish: the coefficients are functions of p at q = 1."""
    (still, exact), (other, exact_other) = steady(f), steady(g)
    if growing and (still, other) != (f, g):  # apart by many periods: what oscillates is independent
        found, rest = pair_terms(still, other, growing, order)
        sizes = [max((e for _, e, _ in wide_terms(h**2)[0]), default=S.Zero) / 2 for h in (still, other)]
        return found, rest if exact and exact_other else max(rest, max(S.Zero, *sizes) - S.Half)
    if growing and not (f.has(x) and g.has(x)):
        return wide_terms(f * g)
    node = PairExpectation(f * g.xreplace({x: y}), q, p, q)
    constant, node = node.as_independent(q, p)
    if not isinstance(node, PairExpectation):
        raise NoExpansion(f, " and ", g, " share no law")
    try:
        expansion = node.asymptotic(1) if growing else node.taylor(order)
        if growing and _exponent(expansion.remainder, -S.Infinity) > -1:
            expansion = node.asymptotic(2)
    except (ValueError, ArithmeticError) as reason:
        raise NoExpansion(reason) from None
    terms: list[tuple[sp.Expr, sp.Expr, int]] = []
    for c, e in expansion.terms:
        terms += _unfolded([(constant * c, e)], sp.log(q)) if c.has(sp.log(q)) else [(constant * c, e, 0)]
    return tuple(terms), _exponent(expansion.remainder, -S.Infinity) if growing else _beside(expansion.remainder, order)


def _unfolded(terms: list[tuple[sp.Expr, sp.Expr]], logarithm: sp.Expr) -> tuple[tuple[sp.Expr, sp.Expr, int], ...]:
    """coefficients by powers of the logarithm"""
    letter = sp.Dummy()
    found = []
    for c, e in terms:
        for j, b in enumerate(sp.Poly(sp.expand(c).xreplace({logarithm: letter}), letter).all_coeffs()[::-1]):
            if b != 0:
                found.append((b, e, j))
    return tuple(found)


def _exponent(remainder: sp.Expr, otherwise: sp.Expr) -> sp.Expr:
    """the power of q in the order of a remainder, `otherwise` where nothing or less than every power is left"""
    if remainder == 0 or remainder.has(sp.exp):
        return otherwise
    power = sp.Mul(*[t for t in sp.Mul.make_args(remainder) if not t.has(sp.log)])
    return power.as_base_exp()[1] if power.has(q) else S.Zero


def _beside(remainder: sp.Expr, order: int) -> sp.Expr:
    """the power of q in the order of what a Taylor series leaves out: the one next to it, where some power is left at all"""
    rest = _exponent(remainder, S.Infinity)
    return min(rest, sp.Integer(order + 1)) if rest.is_finite else rest
