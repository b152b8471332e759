r"""Closed forms of Gaussian expectations, derived once per expression and cached: E f(u), E f(u)^2-like products, E f(u) g(v), gaps.

Everything here is a function of the library's own symbols q, p, q1, q2, delta (and m for a mean); callers put in their arguments.
`None` means that the expression leaves the algebra and an expectation stays unevaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import sympy as sp
from sympy import S

from meanfield.gaussian import moments
from meanfield.gaussian.atoms import Atom, NotClosed, atoms_of
from meanfield.gaussian.expansions import even_part
from meanfield.gaussian.forms import gap_of, shifted
from meanfield.gaussian.pieces import almost_everywhere
from meanfield.gaussian.powers import cross_of_powers, mean_of_powers
from meanfield.gaussian.series import NoExpansion
from meanfield.symbols import known

__all__ = ["M2", "M", "cross", "cross_unequal", "gap", "mean", "product_mean", "stable_cross"]

x, q, p, q1, q2 = known("x"), known("q"), known("p"), known("q1"), known("q2")

#: operations up to which a function is searched for symmetry
LONGEST = 40

#: the means of the Gaussian, where there are any
M, M2 = sp.symbols("m m2", real=True)
Means = tuple[sp.Expr, sp.Expr]


@cache
def _atoms(f: sp.Expr) -> tuple[Atom, ...] | None:
    try:
        return atoms_of(almost_everywhere(f))
    except NotClosed:
        return None


@cache
def mean(f: sp.Expr, centred: bool = True) -> sp.Expr | None:
    """E f(u), u ~ N(m, q): by the algebra of atoms, or where f is homogeneous or f(x) + f(-x) a polynomial of |x|."""
    result = _closed(lambda a: moments.mean(a, q, S.Zero if centred else M), f)
    if result is not None or not centred or f.has(sp.DiracDelta) or sp.count_ops(f) > LONGEST:
        return result
    found = mean_of_powers(f, q)
    return _even(f) if found is None else found


def _even(f: sp.Expr) -> sp.Expr | None:
    try:
        polynomial = sp.expand(even_part(f) / 2)
    except NoExpansion:
        return None
    return mean(polynomial.xreplace({x: sp.Abs(x)})) if polynomial.is_polynomial(x) else None


@cache
def product_mean(f: sp.Expr, g: sp.Expr, centred: bool = True) -> sp.Expr | None:
    """E f(u) g(u), u ~ N(m, q); infinite where both have a delta at one place."""
    return _closed(lambda a, b: moments.square(a, b, q, S.Zero if centred else M), f, g)


@cache
def cross(f: sp.Expr, g: sp.Expr, means: Means = (S.Zero, S.Zero)) -> sp.Expr | None:
    """E f(u) g(v), variances q, covariance p, radicands factored; means are 0, or M twice, or M and M2."""
    result = _closed(lambda a, b: moments.cross(a, b, (q, p, q), means), f, g)
    return cross_of_powers(f, g, q, p, q) if result is None and means == (S.Zero, S.Zero) else result


@cache
def cross_unequal(f: sp.Expr, g: sp.Expr, means: Means = (S.Zero, S.Zero)) -> sp.Expr | None:
    """E f(u) g(v), variances q1 and q2, covariance p."""
    result = _closed(lambda a, b: moments.cross(a, b, (q1, p, q2), means), f, g)
    return cross_of_powers(f, g, q1, p, q2) if result is None and means == (S.Zero, S.Zero) else result


def _closed(moment: Callable[..., sp.Expr], *functions: sp.Expr) -> sp.Expr | None:
    atoms = [_atoms(f) for f in functions]
    if None in atoms:
        return None
    try:
        return moment(*atoms)
    except NotClosed:
        return None


@cache
def gap(f: sp.Expr) -> sp.Expr | None:
    """E f(u)^2 - E f(u) f(v) as a function of q and delta = q - p, free of cancellation."""
    if product_mean(f, f) is S.Infinity:
        return S.Infinity
    kernel = cross(f, f)
    return None if kernel is None or kernel.has(sp.hyper) else gap_of(kernel)


@cache
def stable_cross(f: sp.Expr, g: sp.Expr) -> sp.Expr | None:
    """E f(u) g(v) as a function of q and delta = q - p."""
    kernel = cross(f, g)
    return None if kernel is None or kernel.has(sp.hyper) else shifted(kernel)
