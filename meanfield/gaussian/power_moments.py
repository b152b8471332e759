r"""How moments of powers of two standard Gaussians u, v leave correlation 1:  M = E s^a s'^a |u|^k |v|^j,  s = sign u, s' = sign v.

With \theta = (1 + k + j)/2, by the connection formula at 1 (DLMF 15.8.4) of the 2F1 in `powers`, at correlation 1 - d

    M = M(1) - k j E|z|^{k+j-2} d + C (2 d)^\theta + ...,
    C = \frac{2^{(k+j)/2}}{\sqrt\pi} \, \Gamma(-\theta) \,
        \frac{\Gamma(\frac{1+a+k}{2}) \Gamma(\frac{1+a+j}{2})}{\Gamma(\frac{a-k}{2}) \Gamma(\frac{a-j}{2})},

and where \theta = 1 both have a pole, the poles cancel, and d \ln d is left beside d.
"""

from __future__ import annotations

import sympy as sp
from sympy import S

from meanfield.gaussian.series import REST
from meanfield.symbols import known

__all__ = ["PowerMoment", "absolute_moment", "power_near_one"]

x, y = known("x"), known("y")


class PowerMoment(sp.Function):
    """E of both signs to the power a, |u|^k and |v|^j at correlation r: PowerMoment(a, k, j, r)."""

    nargs = 4

    @property
    def factors(self) -> tuple[sp.Expr, sp.Expr]:
        """The two functions whose product it is the mean of, in x and y."""
        a, k, j, _ = self.args
        first, second = (sp.sign(z) ** a * sp.Abs(z) ** e for z, e in ((x, k), (y, j)))
        return first, second


def power_near_one(f: sp.Expr, g: sp.Expr, d: sp.Expr) -> sp.Expr | None:
    """E f(u) g(v) at correlation 1 - d for powers of |x|, not both whole, with or without the sign of x; None of other functions."""
    first, second = _power(f), _power(g)
    if first is None or second is None or first[0] != second[0] or (first[1].is_Integer and second[1].is_Integer):
        return None
    a, k, j = first[0], first[1], second[1]
    theta = (1 + k + j) / 2
    if theta <= 0:
        return None
    value = absolute_moment(k + j)
    if theta < 1:
        return value + _singular(a, k, j) * sp.gamma(-theta) * (2 * d) ** theta + REST * d
    if theta == 1:
        return value + d * _colliding(a, k, j, d) + REST * d**2
    return value - k * j * absolute_moment(k + j - 2) * d + REST * d ** min(theta, sp.Integer(2))


def _singular(a: int, k: sp.Expr, j: sp.Expr) -> sp.Expr:
    """C/gamma(-theta)"""
    sides = [sp.gamma((1 + a + e) / 2) / sp.gamma((a - e) / 2) for e in (k, j)]
    return 2 ** ((k + j) / 2) / sp.sqrt(sp.pi) * sides[0] * sides[1]


def _colliding(a: int, k: sp.Expr, j: sp.Expr, d: sp.Expr) -> sp.Expr:
    """what both terms are beside d where k + j = 1: at k + 2 e each is 1/e times a function that is regular at e = 0"""
    e = sp.Dummy()
    regular = -(k + 2 * e) * j * 2 ** (e - S.Half) * sp.gamma(1 + e) / sp.sqrt(sp.pi)
    singular = _singular(a, k + 2 * e, j) * sp.gamma(1 - e) / (1 + e) * 2 * sp.exp(e * sp.log(2 * d))
    slope: sp.Expr = (regular + singular).diff(e).subs(e, 0)
    return sp.expand(sp.expand_log(sp.expand_func(slope)))


def absolute_moment(k: sp.Expr) -> sp.Expr:
    """E|u|^k."""
    return 2 ** (k / 2) * sp.gamma((k + 1) / 2) / sp.sqrt(sp.pi)


def _power(f: sp.Expr) -> tuple[int, sp.Expr] | None:
    """(a, k) where f is sign(x)^a |x|^k"""
    a = int(f.has(sp.sign))
    base, k = (f / sp.sign(x) ** a).as_base_exp()
    if base == sp.Abs(x) and k.is_Rational:
        return a, k
    if base == x and k.is_Integer and k > 0:
        return (a + int(k)) % 2, k
    return (a, S.Zero) if f in (S.One, sp.sign(x)) else None
