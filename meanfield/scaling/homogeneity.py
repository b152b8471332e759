r"""The calculus of degrees: how an expression answers to a gain \lambda, f(\lambda) = \lambda^k f(1), rule by rule.

In a product degrees add, a power multiplies, terms of a sum must agree, a transcendental function takes arguments of degree 0 only, and
the expectation of a homogeneous function of degree k has k/2 times the degree of its variance.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch

import sympy as sp
from sympy import S

from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.symbols import known

__all__ = ["Inhomogeneous", "exponent_of", "of_expectation"]

q, p, x, y = (known(name) for name in ("q", "p", "x", "y"))


class Inhomogeneous(Exception):
    """The expression is no multiple of a power of the gain; the message says where it fails to be."""


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
    if e.args[0].has(sp.DiracDelta):
        v, m = sp.Dummy("v", positive=True), sp.Dummy("m", real=True) if e.mean != 0 else S.Zero
        return exponent_of(Expectation(e.args[0], v, m).conditioned(), {v: variance, m: mean})
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
