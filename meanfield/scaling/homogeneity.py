r"""The calculus of degrees: how an expression answers to a gain \lambda, rule by rule, exactly or as \lambda goes to 0 or infinity.

Exactly: f(\lambda) = \lambda^k f(1). In a product degrees add, a power multiplies, terms of a sum must agree, a transcendental function
takes arguments of degree 0 only, and the expectation of a homogeneous function of degree k has k/2 times the degree of its variance.
In a limit: f ~ c \lambda^k, where the largest (or smallest) terms of a sum win and expectations give their first term.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce, singledispatch

import sympy as sp
from sympy import S

from meanfield.gaussian.expectation import Expectation, Gap, Node, PairExpectation
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.symbols import known

__all__ = ["Inhomogeneous", "Undetermined", "exponent_of", "leading", "leading_expectation", "of_expectation"]

q, p, x, y = (known(name) for name in ("q", "p", "x", "y"))


_GAIN = sp.Dummy("gain", positive=True)


class Inhomogeneous(Exception):
    """The expression is no multiple of a power of the gain; the message says where it fails to be."""


class Undetermined(Exception):
    """The leading power does not follow from the rules; the message says where."""


#: the degrees of the gain and of named quantities
Degrees = Mapping[sp.Expr, sp.Expr]


def exponent_of(e: sp.Expr, degrees: Degrees) -> sp.Expr:
    """k with e -> t^k e when each symbol s of degree k_s is multiplied by t^{k_s}, for all t > 0; or `Inhomogeneous`."""
    if e.free_symbols.isdisjoint(degrees):
        return S.Zero
    if e in degrees:
        return degrees[e]
    if isinstance(e, Node):
        if not e.args[0].free_symbols.isdisjoint(degrees):
            raise Inhomogeneous(f"the function under {_short(e)} depends on the gain itself")
        law = [exponent_of(a, degrees) for a in e.args[1:] if isinstance(a, sp.Expr)]
        return of_expectation(e, law) if any(d != 0 for d in law) else S.Zero
    if isinstance(e, sp.Pow) and e.exp.free_symbols.isdisjoint(degrees):
        return sp.expand(e.exp * exponent_of(e.base, degrees))
    found = [exponent_of(a, degrees) for a in e.args]
    if isinstance(e, sp.Mul):
        return sp.Add(*found)
    if isinstance(e, (sp.Add, sp.Max, sp.Min)):
        if len(set(found)) > 1:
            raise Inhomogeneous(f"{_short(e)} has terms of the degrees {', '.join(map(str, sorted(set(found), key=str)))}")
        return found[0]
    if any(d != 0 for d in found):
        raise Inhomogeneous(f"{e.func.__name__} of an argument of degree {next(d for d in found if d != 0)}: {_short(e)}")
    return S.Zero


@singledispatch
def of_expectation(e: sp.Expr, law: list[sp.Expr]) -> sp.Expr:
    """The degree of an expectation whose law has these degrees, by kind of node."""
    raise Inhomogeneous(f"no rule for {type(e).__name__}")


@of_expectation.register
def _(e: Expectation, law: list[sp.Expr]) -> sp.Expr:
    variance, mean = law
    if e.mean != 0 and 2 * mean != variance:
        raise Inhomogeneous(f"mean and variance of {_short(e)} have the degrees {mean} and {variance}")
    return _function(e.args[0]) * variance / 2


@of_expectation.register
def _(e: Gap, law: list[sp.Expr]) -> sp.Expr:
    if law[0] != law[1]:
        raise Inhomogeneous(f"variance and gap of {_short(e)} have the degrees {law[0]} and {law[1]}")
    return _function(e.args[0]) * law[0]


@of_expectation.register
def _(e: PairExpectation, law: list[sp.Expr]) -> sp.Expr:
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


#: the leading terms, (coefficient, power), of the gain and of named quantities
Leading = Mapping[sp.Expr, tuple[sp.Expr, sp.Expr]]


def leading(e: sp.Expr, known: Leading, point: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """c and k with e ~ c gain^k as the gain goes to `point`, 0 or oo; k is infinite where e decays or grows exponentially."""
    if e.free_symbols.isdisjoint(known):
        return e, S.Zero
    if e in known:
        return known[e]
    if isinstance(e, Node) and not e.args[0].free_symbols.isdisjoint(known):
        raise Undetermined(f"the function under {_short(e)} depends on the gain itself")
    if isinstance(e, Node):
        return leading_expectation(e, [leading(a, known, point) if isinstance(a, sp.Expr) else (a, S.Zero) for a in e.args[1:]], point)
    if isinstance(e, sp.Pow) and e.exp.free_symbols.isdisjoint(known):
        c, k = leading(e.base, known, point)
        return c**e.exp, k * e.exp
    if isinstance(e, sp.Mul):
        return reduce(_product, [leading(a, known, point) for a in e.args])
    if isinstance(e, sp.Add):
        return _sum(e, [leading(a, known, point) for a in e.args], point)
    if len(e.args) == 1:
        return _of_function(e, *leading(e.args[0], known, point), point)
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


@singledispatch
def leading_expectation(e: sp.Expr, law: list[tuple[sp.Expr, sp.Expr]], point: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The leading term of an expectation whose law has these leading terms, by kind of node."""
    raise Undetermined(f"no rule for {type(e).__name__}")


@leading_expectation.register
def _(e: Expectation, law: list[tuple[sp.Expr, sp.Expr]], point: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    (c, k), (mean, slope) = law
    if e.mean != 0:
        degree = homogeneous_degree(e.args[0])
        if degree is None or k != 2 * slope:
            raise Undetermined(f"{_short(e)} with a mean and a deviation of unlike size")
        return Expectation(e.args[0], c, mean), degree * slope
    if k == 0:
        return Expectation(e.args[0], c), S.Zero
    terms = _first_terms(Expectation(e.args[0], q), k, point)
    if terms[0].has(sp.log):
        raise Undetermined(f"{_short(e)} has no leading power")
    return terms[0] * c ** terms[1], k * terms[1]


def _first_terms(node: sp.Expr, k: sp.Expr, point: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """coefficient and power of the first term of a node in its variance, which goes to 0 or to infinity"""
    constant, node = node.as_coeff_Mul()
    try:
        terms = node.taylor(4).terms if _vanishes(k, point) else node.asymptotic(2).terms
    except ValueError as reason:
        raise Undetermined(f"{_short(node)}: {reason}") from None
    if not terms:
        raise Undetermined(f"{_short(node)} has no leading power")
    return constant * terms[0][0], terms[0][1]


@leading_expectation.register
def _(e: PairExpectation, law: list[tuple[sp.Expr, sp.Expr]], point: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    (c1, k1), (c, k), (c2, k2) = law[:3]
    parts = e.separated()
    if e.args[4:] != (S.Zero, S.Zero):
        raise Undetermined(f"{_short(e)} has means")
    if e.args[2] == 0 and parts is not None:
        first, second = (Expectation(f, q) for f in parts)
        means = zip((first, second), (law[0], law[2]), strict=True)
        return _product(*[leading(m.xreplace({q: _GAIN}), {_GAIN: size}, point) for m, size in means])
    if k1 != k2 or c1 != c2 or k != k1:
        raise Undetermined(f"the moments of {_short(e)} have the degrees {k1}, {k} and {k2}")
    if k == 0:
        return PairExpectation(e.args[0], c1, c, c2), S.Zero
    term, power = _first_terms(PairExpectation(e.args[0], q, p, q), k, point)
    return term.subs({q: c1, p: c}, simultaneous=True), k * power


@leading_expectation.register
def _(e: Gap, law: list[tuple[sp.Expr, sp.Expr]], point: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    f, v, gap = e.args[0], sp.Dummy("v", positive=True), sp.Dummy("gap", positive=True)
    difference = Expectation(f**2, v) - PairExpectation(f * f.xreplace({x: y}), v, v - gap, v)
    k = leading(difference, {v: law[0], gap: law[1]}, point)[1]
    return sp.Dummy("c", positive=True), k  # E f^2 > E f f' (Cauchy-Schwarz)


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
