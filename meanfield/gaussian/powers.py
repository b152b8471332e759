r"""Moments of homogeneous functions of any degree: f(x) = a |x|^k + b sign(x) |x|^k, so max(x, 0)^k with a symbol k.

For u and v of variances q1, q2 and correlation r (Nabeya 1951, Ann. Inst. Stat. Math. 3)

    E |u|^k = (2q)^{k/2} \Gamma((k+1)/2)/\sqrt\pi  (times 1F1(-k/2; 1/2; -m^2/2q) about a mean m: Winkelbauer 2012, arXiv:1209.4340),
    E |u|^j |v|^k = 2^{(j+k)/2}/\pi \Gamma((j+1)/2) \Gamma((k+1)/2) q1^{j/2} q2^{k/2} 2F1(-j/2, -k/2; 1/2; r^2),

and with the signs of both 2 r \Gamma(j/2+1) \Gamma(k/2+1) 2F1((1-j)/2, (1-k)/2; 3/2; r^2) in place of the last four factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import sympy as sp
from sympy import Rational, S

from meanfield.gaussian.guards import guarded
from meanfield.gaussian.pieces import NotClosed, homogeneous_degree, pieces_of
from meanfield.symbols import known

__all__ = ["Powers", "cross_of_powers", "is_steep", "mean_of_powers", "powers", "resolved"]

x = known("x")


@dataclass(frozen=True)
class Powers:
    """even |x|^degree + odd sign(x) |x|^degree."""

    degree: sp.Expr
    even: sp.Expr
    odd: sp.Expr

    @property
    def expression(self) -> sp.Expr:
        return self.even * sp.Abs(x) ** self.degree + self.odd * sp.sign(x) * sp.Abs(x) ** self.degree

    @property
    def derivative(self) -> Powers:
        """That of a positive degree: a delta has no power."""
        return Powers(self.degree - 1, self.degree * self.odd, self.degree * self.even)

    @property
    def is_never_negative(self) -> bool:
        return bool(self.even.is_nonnegative and (self.even**2 - self.odd**2).is_nonnegative)

    def mean(self, variance: sp.Expr, m: sp.Expr = S.Zero) -> sp.Expr:
        k, scale = self.degree, (2 * variance) ** (self.degree / 2) / sp.sqrt(sp.pi)
        if m == 0:
            return scale * self.even * sp.gamma((k + 1) / 2)
        far = -(m**2) / (2 * variance)
        even = sp.gamma((k + 1) / 2) * sp.hyper((-k / 2,), (S.Half,), far)
        odd = m * sp.sqrt(2 / variance) * sp.gamma(k / 2 + 1) * sp.hyper(((1 - k) / 2,), (Rational(3, 2),), far)
        return scale * (self.even * even + self.odd * odd)

    def cross(self, other: Powers, v1: sp.Expr, cov: sp.Expr, v2: sp.Expr) -> sp.Expr:
        j, k = self.degree, other.degree
        r = cov / v1 if v1 == v2 else cov / sp.sqrt(v1 * v2)
        scale = 2 ** ((j + k) / 2) / sp.pi * (v1 ** ((j + k) / 2) if v1 == v2 else v1 ** (j / 2) * v2 ** (k / 2))
        even = sp.gamma((j + 1) / 2) * sp.gamma((k + 1) / 2) * sp.hyper((-j / 2, -k / 2), (S.Half,), r**2)
        odd = 2 * r * sp.gamma(j / 2 + 1) * sp.gamma(k / 2 + 1) * sp.hyper(((1 - j) / 2, (1 - k) / 2), (Rational(3, 2),), r**2)
        return scale * (self.even * other.even * even + self.odd * other.odd * odd)


@cache
def powers(f: sp.Expr) -> Powers | None:
    """f as powers of |x| where it is homogeneous; None of any other function."""
    k = homogeneous_degree(f)
    if k is None:
        return None
    try:
        _, values = pieces_of(f)
    except NotClosed:
        return None
    right, left = (value.subs(x, at) for value, at in ((values[-1], 1), (values[0], -1)))
    return None if right.is_real is False or left.is_real is False else Powers(k, (right + left) / 2, (right - left) / 2)


def is_steep(f: sp.Expr) -> bool:
    """Whether f is a power of |x| whose square is not known to be integrable at 0: no panels resolve it."""
    return resolved(f) is not sp.true


def resolved(f: sp.Expr) -> sp.Basic:
    """The condition under which panels resolve f: that the square of a power of |x| is integrable at 0."""
    found = powers(f) if f.has(sp.Pow) else None
    return sp.true if found is None else sp.sympify(2 * found.degree + 1 >= 0)


def _guarded(form: sp.Expr, *factors: Powers) -> sp.Expr:
    """a form with the condition that each factor is integrable at 0, where it is not known to be"""
    where = sp.And(*[f.degree > -1 for f in factors])
    return guarded(form, where)


def mean_of_powers(f: sp.Expr, variance: sp.Expr, m: sp.Expr = S.Zero) -> sp.Expr | None:
    """E f(u), u ~ N(m, variance); infinite where a power of one sign is not integrable at 0."""
    found = powers(f)
    if found is None:
        return None
    if (found.degree + 1).is_nonpositive:
        return S.Infinity if found.even.is_positive and found.is_never_negative else None
    return _guarded(found.mean(variance, m), found)


def cross_of_powers(f: sp.Expr, g: sp.Expr, v1: sp.Expr, cov: sp.Expr, v2: sp.Expr) -> sp.Expr | None:
    """E f(u) g(v)."""
    first, second = powers(f), powers(g)
    if first is None or second is None or (first.degree + 1).is_nonpositive or (second.degree + 1).is_nonpositive:
        return None
    return _guarded(first.cross(second, v1, cov, v2), first, second)
