r"""Two Gaussians of unequal variance by what their covariance lacks of its bound: \lambda = \sqrt{q_1 q_2} - p >= 0.

Where they merge, p and the mean square of their difference, (q_1 + q_2)/2 - p, hold no digit of \lambda. An activation leaves

    \lambda' = \sqrt{E f(u)^2 E f(v)^2} - E f(u) f(v),

which is the gap of f where variances are equal, and (q_1 q_2)^{k/2} times that of f at variance 1 where f is homogeneous of degree k.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from meanfield import gaussian
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.pair_expectation import Gap
from meanfield.symbols import known

__all__ = ["Apart", "Joined", "Lack"]

x = known("x")


class Apart(sp.Function):
    """(sqrt(a) - sqrt(b))^2/2 + lack: half the mean square of a difference, of variances a and b."""

    nargs = 3

    @classmethod
    def eval(cls, a: sp.Expr, b: sp.Expr, lack: sp.Expr) -> sp.Expr | None:
        return lack if a == b else None

    @property
    def written(self) -> sp.Expr:
        """As what it is."""
        a, b, lack = self.args
        return (sp.sqrt(a) - sp.sqrt(b)) ** 2 / 2 + lack


class Joined(sp.Function):
    r"""\sqrt{(a + b)(a_2 + b_2)} - \sqrt{a a_2} - \sqrt{b b_2}, what a sum of uncorrelated terms lacks beyond them: by Lagrange's identity
    (\sqrt{a b_2} - \sqrt{a_2 b})^2 over the sum of these roots."""

    nargs = 4

    @classmethod
    def eval(cls, a: sp.Expr, a2: sp.Expr, b: sp.Expr, b2: sp.Expr) -> sp.Expr | None:
        return sp.S.Zero if 0 in (a, b) or (a, b) == (a2, b2) else None


class Lack(Node):
    r"""\sqrt{E f(u)^2 E f(v)^2} - E f(u) f(v) for variances v1 and v2 and covariance \sqrt{v_1 v_2} - lack: f an expression in mf.x."""

    name = "Lack"

    def __new__(cls, f: Any, v1: sp.Expr, v2: sp.Expr, lack: sp.Expr) -> sp.Expr:
        v1, v2, lack = sp.sympify(v1), sp.sympify(v2), sp.sympify(lack)
        constant, f = f.as_independent(x, as_Add=False)
        if v1 == v2:
            return constant**2 * Gap(f, v1, lack)
        found = gaussian.powers.powers(f)
        if found is None:
            return constant**2 * sp.Expr.__new__(cls, f, v1, v2, lack)
        root = sp.sqrt(v1) * sp.sqrt(v2)
        return constant**2 * root**found.degree * Gap(f, sp.S.One, lack / root)
