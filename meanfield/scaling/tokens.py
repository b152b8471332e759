"""Degrees of the moments of several exchangeable tokens."""

from __future__ import annotations

import sympy as sp
from sympy import S

from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.scaling.homogeneity import Inhomogeneous, of_expectation

__all__: list[str] = []


@of_expectation.register
def _(e: Exchangeable, law: list[sp.Expr]) -> sp.Expr:
    variance, gap = law
    if variance != gap:
        raise Inhomogeneous(f"variance and gap of {e} have the degrees {variance} and {gap}")
    k = homogeneous_degree(e.integrand)
    if k is None:
        raise Inhomogeneous(f"{e.integrand} is not homogeneous in x")
    return sp.Add(S.Zero, *[i * k + j * (k - 1) for i, j in e.powers]) * variance / 2
