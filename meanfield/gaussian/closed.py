r"""Closed forms of Gaussian expectations, derived once per expression and cached: E f(u), E f(u)^2-like products, E f(u) g(v), gaps.

Everything here is a function of the library's own symbols q, p, q1, q2, delta (and m for a mean); callers put in their arguments.
A form that holds for some variances only is the one piece of a Piecewise. `None` means that the expression leaves the algebra and an
expectation stays unevaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import sympy as sp
from sympy import S

from meanfield.gaussian.atoms import Atom, NotClosed, atoms_of, products
from meanfield.gaussian.either_sign import in_either_sign
from meanfield.gaussian.expansions import folded
from meanfield.gaussian.finiteness import collide, finite
from meanfield.gaussian.forms import gap_of, shifted
from meanfield.gaussian.guards import guarded, unguarded
from meanfield.gaussian.moments import Weighted, cross_of, mean_of, total
from meanfield.gaussian.powers import cross_of_powers, mean_of_powers
from meanfield.gaussian.series import NoExpansion
from meanfield.gaussian.smoothness import almost_everywhere
from meanfield.symbols import among_reals, known

__all__ = ["M2", "M", "cross", "cross_unequal", "gap", "mean", "product_mean", "stable_cross"]

x, q, p, q1, q2, delta = (known(name) for name in ("x", "q", "p", "q1", "q2", "delta"))

#: operations up to which a function is searched for symmetry
LONGEST = 40

#: the means of the Gaussian, where there are any: no letters that an activation could use (sympy tells signs slowly of dummies)
M, M2 = sp.Symbol("E[u]", real=True), sp.Symbol("E[v]", real=True)
#: joined from its cases where the sign of a parameter is not known
_in_either_sign = in_either_sign((M, M2))
Means = tuple[sp.Expr, sp.Expr]


@cache
def _atoms(f: sp.Expr) -> tuple[Atom, ...] | None:
    try:
        return atoms_of(almost_everywhere(f))
    except NotClosed:
        return None


@cache
@among_reals
@_in_either_sign
def mean(f: sp.Expr, centred: bool = True) -> sp.Expr | None:
    """E f(u), u ~ N(m, q): by the algebra of atoms, or where f is homogeneous or f(x) + f(-x) a polynomial of |x|."""
    result = _closed(lambda a: mean_of(a, q, S.Zero if centred else M), f)
    if result is not None or f.has(sp.DiracDelta) or sp.count_ops(f) > LONGEST:
        return result
    found = mean_of_powers(f, q, S.Zero if centred else M)
    return _even(f) if found is None and centred else found


def _even(f: sp.Expr) -> sp.Expr | None:
    try:
        polynomial = sp.expand(folded(f) / 2)
    except NoExpansion:
        return None
    return mean(polynomial.xreplace({x: sp.Abs(x)})) if polynomial.is_polynomial(x) else None


@cache
@among_reals
@_in_either_sign
def product_mean(f: sp.Expr, g: sp.Expr, centred: bool = True) -> sp.Expr | None:
    """E f(u) g(u), u ~ N(m, q); infinite where both have a delta at one place."""
    first, second = _atoms(f), _atoms(g)
    if first is not None and second is not None and collide(first, second):
        return S.Infinity
    return _closed(lambda a, b: mean_of(products(a, b), q, S.Zero if centred else M), f, g)


@cache
@among_reals
@_in_either_sign
def cross(f: sp.Expr, g: sp.Expr, means: Means = (S.Zero, S.Zero)) -> sp.Expr | None:
    """E f(u) g(v), variances q, covariance p, radicands factored; means are 0, or M twice, or M and M2."""
    return _product(f, g, (q, p, q), means)


@cache
@among_reals
@_in_either_sign
def cross_unequal(f: sp.Expr, g: sp.Expr, means: Means = (S.Zero, S.Zero)) -> sp.Expr | None:
    """E f(u) g(v), variances q1 and q2, covariance p."""
    return _product(f, g, (q1, p, q2), means)


def _product(f: sp.Expr, g: sp.Expr, covariances: tuple[sp.Expr, sp.Expr, sp.Expr], means: Means) -> sp.Expr | None:
    """by the algebra of atoms, or where both are homogeneous"""
    result = _closed(lambda a, b: cross_of(a, b, covariances, means), f, g)
    return cross_of_powers(f, g, *covariances) if result is None and means == (S.Zero, S.Zero) else result


def _closed(question: Callable[..., Weighted], *functions: sp.Expr) -> sp.Expr | None:
    """the value of the moments asked for, under the condition that they are finite"""
    atoms = [_atoms(f) for f in functions]
    if None in atoms:
        return None
    try:
        weighted = question(*atoms)
        return guarded(total(weighted), finite(weighted))
    except NotClosed:
        return None


def _by_cases(form: sp.Expr) -> bool:
    """whether it is one form for each sign of a parameter, under a condition or not: what follows from it does so case by case"""
    return isinstance(unguarded(form)[0], sp.Piecewise)


@cache
@among_reals
@_in_either_sign
def gap(f: sp.Expr) -> sp.Expr | None:
    """E f(u)^2 - E f(u) f(v) as a function of q and delta = q - p, free of cancellation where f does not grow like exp(a x^2)."""
    second, kernel = product_mean(f, f), cross(f, f)
    if second is S.Infinity:
        return S.Infinity
    if kernel is None or kernel.has(sp.hyper) or _by_cases(kernel):
        return None
    form, where = unguarded(kernel)
    result = gap_of(form)
    if second is None:
        return result
    value, bound = unguarded(second)
    if result is None and where != sp.true:  # quadrature does not reach what grows: its digits are those of a difference
        result = value - shifted(form)
    return None if result is None else guarded(result, bound)


@cache
@among_reals
@_in_either_sign
def stable_cross(f: sp.Expr, g: sp.Expr) -> sp.Expr | None:
    """E f(u) g(v) as a function of q and delta = q - p."""
    kernel = cross(f, g)
    if kernel is None or kernel.has(sp.hyper) or _by_cases(kernel):
        return None
    form, where = unguarded(kernel)
    return guarded(shifted(form), where.xreplace({p: q - delta}))
