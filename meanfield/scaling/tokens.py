"""Degrees and limits of the moments of several exchangeable tokens."""

from __future__ import annotations

import sympy as sp
from sympy import S

from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.numeric.evaluation import evaluate
from meanfield.scaling.homogeneity import Inhomogeneous, of_expectation
from meanfield.scaling.limits import Term, Undetermined, leading_power, of_node

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


@of_node.register
def _(e: Exchangeable, law: list[Term], point: sp.Expr) -> Term:
    (c, k), (gap, other) = law
    if k != other:
        raise Undetermined(f"variance and gap of {e} have the powers {k} and {other}")
    f, a = (e.integrand, S.Zero) if k == 0 else leading_power(e.integrand, k, point)
    if a == 0 and k != 0 and any(j for _, j in e.powers):
        raise Undetermined(f"the derivative of {e.integrand} where it is flat")
    power = sp.Add(S.Zero, *[i * a + j * (a - 1) for i, j in e.powers]) if k != 0 else S.Zero
    try:
        value = float(evaluate(Exchangeable(f, e.powers, sp.Float(c), sp.Float(gap), e.spread)))
    except ArithmeticError as reason:
        raise Undetermined(f"the leading term of {e}: {reason}") from None
    if value == 0:
        raise Undetermined(f"the leading term of {e} vanishes")
    return value, power * k / 2
