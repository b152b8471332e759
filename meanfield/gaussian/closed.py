r"""Closed forms of Gaussian expectations, derived once per expression and cached: E f(u), E f(u)^2-like products, E f(u) g(v), gaps.

Everything here is a function of the library's own symbols q, p, q1, q2, delta (and m for a mean); callers put in their arguments.
`None` means that the expression leaves the algebra and an expectation stays unevaluated.
"""

from __future__ import annotations

from functools import cache

import sympy as sp
from sympy import S, sqrt

from meanfield.gaussian import moments
from meanfield.gaussian.atoms import Atom, NotClosed, atoms_of
from meanfield.gaussian.forms import gap_of, shifted
from meanfield.gaussian.tidying import tidy
from meanfield.symbols import known

__all__ = ["M", "M2", "cross", "cross_unequal", "gap", "mean", "product_mean", "stable_cross"]

q, p, q1, q2 = known("q"), known("p"), known("q1"), known("q2")

#: the means of the Gaussian, where there are any
M, M2 = sp.symbols("m m2", real=True)

_S, _S1, _S2 = (sp.Dummy(name, positive=True) for name in ("s", "s1", "s2"))  # square roots of variances


@cache
def _atoms(f: sp.Expr) -> tuple[Atom, ...] | None:
    try:
        return atoms_of(f)
    except NotClosed:
        return None


@cache
def mean(f: sp.Expr, centred: bool = True) -> sp.Expr | None:
    """E f(u), u ~ N(m, q)."""
    atoms = _atoms(f)
    if atoms is None:
        return None
    return tidy(moments.mean(atoms, _S**2, S.Zero if centred else M)).xreplace({_S: sqrt(q)})


@cache
def product_mean(f: sp.Expr, g: sp.Expr, centred: bool = True) -> sp.Expr | None:
    """E f(u) g(u), u ~ N(m, q): also where the product itself has no atoms, as for two error functions."""
    a, b = _atoms(f), _atoms(g)
    if a is None or b is None:
        return None
    try:
        return tidy(moments.square(a, b, _S**2, S.Zero if centred else M)).xreplace({_S: sqrt(q)})
    except NotClosed:
        return None


@cache
def cross(f: sp.Expr, g: sp.Expr, centred: bool = True) -> sp.Expr | None:
    """E f(u) g(v), variances q, covariance p, radicands factored."""
    a, b = _atoms(f), _atoms(g)
    if a is None or b is None:
        return None
    m = (S.Zero, S.Zero) if centred else (M, M2)
    return tidy(moments.cross(a, b, (_S**2, p, _S**2), m)).xreplace({_S: sqrt(q)})


@cache
def cross_unequal(f: sp.Expr, g: sp.Expr, centred: bool = True) -> sp.Expr | None:
    """E f(u) g(v), variances q1 and q2, covariance p."""
    a, b = _atoms(f), _atoms(g)
    if a is None or b is None:
        return None
    m = (S.Zero, S.Zero) if centred else (M, M2)
    return tidy(moments.cross(a, b, (_S1**2, p, _S2**2), m)).xreplace({_S1: sqrt(q1), _S2: sqrt(q2)})


@cache
def gap(f: sp.Expr) -> sp.Expr | None:
    """E f(u)^2 - E f(u) f(v) as a function of q and delta = q - p, free of cancellation."""
    if product_mean(f, f) is S.Infinity:
        return S.Infinity
    kernel = cross(f, f)
    return None if kernel is None else gap_of(kernel)


@cache
def stable_cross(f: sp.Expr, g: sp.Expr) -> sp.Expr | None:
    """E f(u) g(v) as a function of q and delta = q - p."""
    kernel = cross(f, g)
    return None if kernel is None else shifted(kernel)
