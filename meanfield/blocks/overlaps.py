r"""Joint moments of the overlaps S_ab = Z_a . Z_b of n exchangeable tokens with s features z = phi(h) each, and of relu^2 of them.

S is a sum over s independent features, so overlaps are jointly Gaussian up to third cumulants, which are kept to first order:

    E f(S_1) g(S_2) = \sum_k C^k/k! E f^{(k)} E g^{(k)} + third cumulants,   C = Cov(S_1, S_2), f = relu^2.

The sum over k (Mehler 1866) stops at k = 3: from there on the terms hold the density of S at 0 only. Overlaps of a token with itself are
not negative, there relu^2 is the square. What differs between two token patterns is a conditional covariance: it vanishes with q - p,
and is written so that it does not cancel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from meanfield.activation import Activation
from meanfield.blocks.laws import Definition
from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.expectation import Expectation, derived
from meanfield.gaussian.slopes import slope
from meanfield.symbols import known

__all__ = ["Kernel", "Names", "Overlaps", "Rectified", "pair"]

x = known("x")

#: what rounding leaves of a difference without digits, on its scale: a variance of overlaps that is less hardly counts beside their mean
FAINT = sp.Float(2.0**-56)


@dataclass
class Names:
    """Named quantities as they come up: each value that is no number gets a symbol of its own."""

    definitions: list[Definition] = field(default_factory=list)

    def __call__(
        self,
        label: str,
        value: sp.Expr,
        latex: str,
        kernel: sp.Expr | None = None,
        in_step: sp.Expr | None = None,
        **assumptions: Any,
    ) -> sp.Expr:
        if value.is_Number:
            return value
        symbol = sp.Dummy(label, **(assumptions or {"real": True}))
        self.definitions.append(Definition(symbol, value, latex, kernel, in_step=in_step))
        return symbol

    def variance(self, label: str, value: sp.Expr, latex: str, scale: sp.Expr) -> sp.Expr:
        """One that is a difference on a scale, of which rounding may leave less than nothing: features level off far out. A step takes it
        for no less than that rounding, written as a minimum, which keeps what is no number; maps of one repeat and digits do not."""
        return self(label, value, latex, in_step=-sp.Min(-value, -FAINT * scale, evaluate=False), positive=True)


@dataclass(frozen=True)
class Kernel:
    """E phi(u)^2, E phi(u) phi(v) and their difference for pre-activations of variance q and covariance q - delta."""

    q: sp.Expr
    p: sp.Expr
    gap: sp.Expr

    @classmethod
    def of(cls, names: Names, phi: Activation, q: sp.Expr, p: sp.Expr, delta: sp.Expr, index: str) -> Kernel:
        same = names(f"q_{index}", phi._second(q), f"q_{{{index}}}", positive=True)
        if p == 0:
            cross = names(f"p_{index}", pair(phi, q, p), f"p_{{{index}}}")
            return cls(same, cross, same - cross)
        gap = names(f"delta_{index}", phi._gap(q, delta), rf"\delta_{{{index}}}", nonnegative=True)
        return cls(same, names(f"p_{index}", pair(phi, q, p), f"p_{{{index}}}", kernel=same - gap), gap)


def pair(phi: Activation, q: sp.Expr, p: sp.Expr) -> sp.Expr:
    """E phi(u) phi(v), a square where u and v are independent"""
    return phi._mean(q) ** 2 if p == 0 else phi._kernel(q, p, q)


@dataclass(frozen=True)
class Rectified:
    """E f^{(k)}(S), k = 0 ... 3, of f = relu^2 for a Gaussian S: the coefficients of the sums over k, and E f^2."""

    values: tuple[sp.Expr, ...]
    square: sp.Expr

    @classmethod
    def of(cls, names: Names, mean: sp.Expr, variance: sp.Expr) -> Rectified:
        f = sp.Max(x, 0) ** 2
        square = names("f_f", derived(Expectation(f**2, variance, mean)), "F", positive=True)
        values = []
        for k in range(4):
            values.append(names(f"f_{k}", derived(Expectation(f, variance, mean)), f"f_{k}", nonnegative=True))
            f = slope(f)
        return cls(tuple(values), square)

    def product(self, covariance: sp.Expr, order: int = 0) -> sp.Expr:
        """E f^(order)(S_1) f^(order)(S_2) at that covariance"""
        found = self.values[order:]
        return sp.Add(*[a**2 * covariance**k / sp.factorial(k) for k, a in enumerate(found)])

    def rate(self, a: sp.Expr, b: sp.Expr) -> sp.Expr:
        """(E f f at covariance a - E f f at b)/(a - b)"""
        _, e1, e2, e3 = self.values
        return e1**2 + e2**2 * (a + b) / 2 + e3**2 * (a**2 + a * b + b**2) / 6


@dataclass(frozen=True)
class Overlaps:
    r"""Moments of relu(S_ab)^2 = n s A_ab by token pattern, without the factors 1/(n s).

    `first`: E A_aa, E A_ab; `same`: E A_aa^2, E A_aa A_ab, E A_ab^2, E A_ab A_ac.

    `change`, what a change of one token takes away: E A_aa^2 - E A_aa A_bb, E A_aa A_ab - E A_aa A_bc, E A_ab^2 - E A_ab A_ac,
    E A_ab A_ac - E A_ab A_cd.
    """

    first: tuple[sp.Expr, sp.Expr]
    same: tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]
    change: tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]
    mean_diagonal: sp.Expr
    variance_diagonal: sp.Expr
    off: Rectified
    mean: sp.Expr
    variance: sp.Expr

    @classmethod
    def of(cls, names: Names, phi: Activation, s: sp.Expr, z: Kernel, q: sp.Expr, delta: sp.Expr, extra: sp.Expr) -> Overlaps:
        """Features phi(h), h of variance q and covariance q - delta; `extra` is the variance that the overlaps of the inputs add."""
        f = phi.expression

        def moment(*powers: int) -> sp.Expr:
            return Exchangeable(f, [(i, 0) for i in powers], q, delta)

        def spread(*powers: int) -> sp.Expr:
            return Exchangeable(f, [(i, 0) for i in powers], q, delta, spread=True)

        a, b = z.q, z.p
        d = {
            key: names(f"spread_{key}", spread(*map(int, key)), rf"\Delta_{{{key}}}")
            for key in ("211", "1111", "121", "321", "2121", "22", "42", "222", "141")
        }
        m22, m4, m6 = (names(f"moment_{key}", moment(*map(int, key)), rf"\mu_{{{key}}}", positive=True) for key in ("22", "4", "6"))
        m31, m33 = (names(f"moment_{key}", moment(*map(int, key)), rf"\mu_{{{key}}}") for key in ("31", "33"))  # of any sign
        # S_aa, and S_aa with S_ab
        mean_q, var_q = s * a, s * (m4 - a**2)
        third_q = s * (m6 - 3 * m4 * a + 2 * a**3)
        cov = s * (m31 - a * b)
        third_qqp = s * (moment(5, 1) - 2 * m31 * a - m4 * b + 2 * a**2 * b)
        third_qpp = s * (moment(4, 2) - 2 * m31 * b - m22 * a + 2 * a * b**2)
        # S_ab, and S_ab with S_ac
        mean = names("mean_S", s * b, "m")
        joint = d["1111"] if delta == q else m22 - d["211"] - b**2  # independent tokens: a sum of positive terms
        variance = names.variance("variance_S", s * (joint + d["211"]) + extra, "v", s * a**2)
        shared = names("covariance_S", s * joint, "c")
        third = s * (m33 - 3 * m22 * b + 2 * b**3)
        third_shared = s * (m33 - d["321"] - 2 * (m22 - d["211"]) * b - m22 * b + 2 * b**3)
        off = Rectified.of(names, mean, variance)
        e0, e1, e2, e3 = off.values
        h = e1 * e2
        skewed = third * e3 / 3
        first = (mean_q**2 + var_q, e0 + skewed / 2)
        same = (
            mean_q**4 + 6 * mean_q**2 * var_q + 3 * var_q**2 + 4 * mean_q * third_q,
            first[0] * first[1] + 2 * mean_q * cov * e1 + cov**2 * e2 + third_qqp * e1 + third_qpp * mean_q * e2,
            off.square + third * h,
            off.product(shared) + third_shared * h + e0 * skewed,
        )
        near = s * d["121"]
        change = (
            s * d["22"] * (4 * mean_q**2 + 2 * (2 * var_q - s * d["22"])) + 4 * mean_q * s * (d["42"] - 2 * a * d["22"]),
            near * (2 * mean_q * e1 + (2 * cov - near) * e2)
            + s * (d["141"] - 2 * a * d["121"]) * e1
            + s * (d["222"] - 2 * b * d["121"]) * mean_q * e2,
            (s * d["211"] + extra) * off.rate(variance, shared) + s * (d["321"] - 2 * b * d["211"]) * h,
            s * d["1111"] * off.rate(shared, shared - s * d["1111"]) + s * (d["2121"] - 2 * b * d["1111"]) * h,
        )
        return cls(first, same, change, mean_q, var_q, off, mean, variance)
