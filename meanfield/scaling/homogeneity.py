r"""The calculus of degrees: how an expression answers to a gain \lambda, rule by rule, exactly or as \lambda goes to 0 or infinity.

Exactly: f(\lambda) = \lambda^k f(1). In a product degrees add, a power multiplies, terms of a sum must agree, a transcendental function
takes arguments of degree 0 only, and the expectation of a homogeneous function of degree k has k/2 times the degree of its variance.
In a limit: f ~ c \lambda^k, where the largest (or smallest) terms of a sum win and expectations give their first term.
"""

from __future__ import annotations

from functools import reduce

import sympy as sp
from sympy import S

from meanfield.gaussian.expectation import Expectation, Gap, Node, PairExpectation
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.symbols import known

__all__ = ["Inhomogeneous", "Undetermined", "exponent_of", "leading"]

q, p, x, y = (known(name) for name in ("q", "p", "x", "y"))


class Inhomogeneous(Exception):
    """The expression is no multiple of a power of the gain; the message says where it fails to be."""


class Undetermined(Exception):
    """The leading power does not follow from the rules; the message says where."""


def exponent_of(e: sp.Expr, gain: sp.Symbol) -> sp.Expr:
    """k with e(t gain) = t^k e(gain) for all t > 0, or `Inhomogeneous`."""
    if gain not in e.free_symbols:
        return S.Zero
    if e == gain:
        return S.One
    if isinstance(e, Node):
        return _of_expectation(e, gain)
    if isinstance(e, sp.Pow) and gain not in e.exp.free_symbols:
        return sp.expand(e.exp * exponent_of(e.base, gain))
    degrees = [exponent_of(a, gain) for a in e.args]
    if isinstance(e, sp.Mul):
        return sp.Add(*degrees)
    if isinstance(e, (sp.Add, sp.Max, sp.Min)):
        if len(set(degrees)) > 1:
            raise Inhomogeneous(f"{_short(e)} has terms of the degrees {', '.join(map(str, sorted(set(degrees), key=str)))}")
        return degrees[0]
    if any(d != 0 for d in degrees):
        raise Inhomogeneous(f"{e.func.__name__} of an argument of degree {next(d for d in degrees if d != 0)}: {_short(e)}")
    return S.Zero


def _of_expectation(e: sp.Expr, gain: sp.Symbol) -> sp.Expr:
    law = [exponent_of(a, gain) for a in e.args[1:]]
    if gain in e.args[0].free_symbols:
        raise Inhomogeneous(f"the function under {_short(e)} depends on the gain itself")
    if all(d == 0 for d in law):
        return S.Zero
    if isinstance(e, Expectation):
        variance, mean = law
        if e.mean != 0 and 2 * mean != variance:
            raise Inhomogeneous(f"mean and variance of {_short(e)} have the degrees {mean} and {variance}")
        return _function(e.args[0]) * variance / 2
    if isinstance(e, Gap):
        if law[0] != law[1]:
            raise Inhomogeneous(f"variance and gap of {_short(e)} have the degrees {law[0]} and {law[1]}")
        return _function(e.args[0]) * law[0]
    assert isinstance(e, PairExpectation)
    first, covariance, second, *means = law
    fits = e.args[2] == 0 or 2 * covariance == first + second
    fits &= all(m == 0 or 2 * d == v for m, d, v in zip(e.args[4:], means, (first, second), strict=True))
    parts = e.separated()
    if not fits or parts is None:
        raise Inhomogeneous(f"the moments of {_short(e)} have the degrees {', '.join(map(str, law))}")
    return (_function(parts[0]) * first + _function(parts[1]) * second) / 2


def _function(f: sp.Expr) -> sp.Expr:
    k = homogeneous_degree(f)
    if k is None:
        raise Inhomogeneous(f"{_short(f)} is not homogeneous in x")
    return k


def _short(e: sp.Expr) -> str:
    text = str(e)
    return text if len(text) < 80 else text[:77] + "..."


def leading(e: sp.Expr, gain: sp.Symbol, point: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """c and k with e ~ c gain^k as the gain goes to `point`, 0 or oo; k is infinite where e decays or grows exponentially."""
    if gain not in e.free_symbols:
        return e, S.Zero
    if e == gain:
        return S.One, S.One
    if isinstance(e, Expectation) and e.mean == 0 and gain not in e.args[0].free_symbols:
        return _of_mean(e, *leading(e.variance, gain, point), point)
    if isinstance(e, PairExpectation) and e.args[4:] == (S.Zero, S.Zero) and gain not in e.args[0].free_symbols:
        return _of_pair(e, gain, point)
    if isinstance(e, Gap):
        f, v, gap = e.args
        difference = Expectation(f**2, v) - PairExpectation(f * f.xreplace({x: y}), v, v - gap, v)
        return sp.Dummy("c", positive=True), leading(difference, gain, point)[1]  # E f^2 > E f f' (Cauchy-Schwarz)
    if isinstance(e, sp.Pow) and gain not in e.exp.free_symbols:
        c, k = leading(e.base, gain, point)
        return c**e.exp, k * e.exp
    if isinstance(e, sp.Mul):
        return reduce(_product, [leading(a, gain, point) for a in e.args])
    if isinstance(e, sp.Add):
        return _sum(e, [leading(a, gain, point) for a in e.args], point)
    if len(e.args) == 1:
        return _of_function(e, *leading(e.args[0], gain, point), point)
    raise Undetermined(f"no rule for {_short(e)}")


def _product(a: tuple[sp.Expr, sp.Expr], b: tuple[sp.Expr, sp.Expr]) -> tuple[sp.Expr, sp.Expr]:
    if (a[1] + b[1]) is S.NaN:
        raise Undetermined("a product of what grows and what decays exponentially")
    return a[0] * b[0], a[1] + b[1]


def _sum(e: sp.Expr, terms: list[tuple[sp.Expr, sp.Expr]], point: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    ks = [k for _, k in terms]
    k = (sp.Min if point == 0 else sp.Max)(*ks)
    if not k.is_comparable and not k.is_infinite:
        raise Undetermined(f"the terms of {_short(e)} have symbolic degrees {', '.join(map(str, ks))}")
    c = sp.expand(sp.Add(*[c for c, other in terms if other == k]))
    if c == 0 or (c.is_number and abs(c.evalf(20)) < 1e-15):
        raise Undetermined(f"the leading terms of {_short(e)} cancel")
    return c, k


def _vanishes(k: sp.Expr, point: sp.Expr) -> bool:
    return bool(k > 0) if point == 0 else bool(k < 0)


def _of_mean(e: sp.Expr, c: sp.Expr, k: sp.Expr, point: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    if k == 0:
        return Expectation(e.args[0], c), S.Zero
    node = Expectation(e.args[0], q)
    constant, node = node.as_coeff_Mul()
    try:
        terms = node.taylor(4).terms if _vanishes(k, point) else node.asymptotic(2).terms
    except ValueError as reason:
        raise Undetermined(f"{_short(e)}: {reason}") from None
    if not terms or terms[0][0].has(sp.log):
        raise Undetermined(f"{_short(e)} has no leading power")
    return constant * terms[0][0] * c ** terms[0][1], k * terms[0][1]


def _of_pair(e: sp.Expr, gain: sp.Symbol, point: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    (c1, k1), (c, k), (c2, k2) = (leading(a, gain, point) if a != 0 else (S.Zero, S.Zero) for a in e.args[1:4])
    parts = e.separated()
    if e.args[2] == 0 and parts is not None:
        return _product(*[leading(Expectation(f, v), gain, point) for f, v in zip(parts, (e.args[1], e.args[3]), strict=True)])
    if k1 != k2 or c1 != c2 or k != k1:
        raise Undetermined(f"the moments of {_short(e)} have the degrees {k1}, {k} and {k2}")
    if k == 0:
        return PairExpectation(e.args[0], c1, c, c2), S.Zero
    node = PairExpectation(e.args[0], q, p, q)
    constant, node = node.as_coeff_Mul()
    try:
        terms = node.taylor(4).terms if _vanishes(k, point) else node.asymptotic(2).terms
    except ValueError as reason:
        raise Undetermined(f"{_short(e)}: {reason}") from None
    if not terms:
        raise Undetermined(f"{_short(e)} has no leading power")
    return constant * terms[0][0].subs({q: c1, p: c}, simultaneous=True), k * terms[0][1]


def _of_function(e: sp.Expr, c: sp.Expr, k: sp.Expr, point: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """of one argument: its value where the argument has a limit, its first derivative where that value is 0"""
    z = sp.Dummy("z", real=True)
    if k == 0:
        return e.func(c), S.Zero
    if _vanishes(k, point):
        value = e.func(S.Zero)
        if value != 0:
            return value, S.Zero
        slope = e.func(z).diff(z).subs(z, 0)
        if slope == 0 or not slope.is_finite:
            raise Undetermined(f"{e.func.__name__} near 0")
        return slope * c, k
    sign = 1 if c.is_positive else -1 if c.is_negative else 0
    if not sign:
        raise Undetermined(f"the sign of {_short(c)}, which goes to infinity in {e.func.__name__}")
    if isinstance(e, sp.exp):
        return S.One, sign * (S.Infinity if point == S.Infinity else S.NegativeInfinity)
    value = sp.limit(e.func(z), z, sign * S.Infinity)
    if value.is_finite and value != 0:
        return value, S.Zero
    raise Undetermined(f"{e.func.__name__} at infinity")
