r"""Moments of logarithms of two standard Gaussians u, v of correlation r:  M = E s^a s'^a ln^m|u| ln^n|v|,  s = sign u, s' = sign v.

They are derivatives at s = t = 0 of E|u|^s |v|^t (a = 0), or of the same with both signs (a = 1):

    \frac{2^{(s+t)/2}}{\pi} \Gamma(\tfrac{1+s}{2}) \Gamma(\tfrac{1+t}{2}) \; {}_2F_1(-\tfrac s2, -\tfrac t2; \tfrac12; r^2),
    \frac{2^{(s+t)/2} \, 2r}{\pi} \Gamma(1+\tfrac s2) \Gamma(1+\tfrac t2) \; {}_2F_1(\tfrac{1-s}2, \tfrac{1-t}2; \tfrac32; r^2).

In closed form are those of one logarithm, E ln|u| ln|v| = (E ln|u|)^2 + asin(r)^2/2, and E s s' = (2/\pi) asin(r). How the others leave
r = 1 is read off the connection formula of 2F1 at 1 (DLMF 15.8.4): with g = 1 - r^2 the part that is no power series in g is

    \frac{2^{(s+t)/2}}{\sqrt\pi} \, \Gamma(-\tfrac{1+s+t}{2}) \, g^{(1+s+t)/2} \,
    \frac{\Gamma(\frac{1+a+s}{2}) \Gamma(\frac{1+a+t}{2})}{\Gamma(\frac{a-s}{2}) \Gamma(\frac{a-t}{2})} \, (1 + O(g)).
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from meanfield.gaussian.power_moments import absolute_moment
from meanfield.symbols import known

__all__ = ["LogMoment", "log_moment", "near_one"]

x, y = known("x"), known("y")


class LogMoment(sp.Function):
    """E of both signs to the power a, ln^m|u| and ln^n|v| at correlation r, where it has no closed form: LogMoment(a, m, n, r)."""

    nargs = 4

    @property
    def factors(self) -> tuple[sp.Expr, sp.Expr]:
        """The two functions whose product it is the mean of, in x and y."""
        a, m, n, _ = self.args
        first, second = (sp.sign(z) ** a * sp.log(sp.Abs(z)) ** k for z, k in ((x, m), (y, n)))
        return first, second


def log_moment(a: int, m: int, n: int, r: sp.Expr) -> sp.Expr:
    """E s^a s'^a ln^m|u| ln^n|v|: in closed form, or a LogMoment."""
    if a == 0 and (m == 0 or n == 0):
        return _one_moment(m + n)
    if a == m == n == 0 or (a, m, n) == (1, 0, 0):
        return 2 * sp.asin(r) / sp.pi
    if (a, m, n) == (0, 1, 1):
        return _one_moment(1) ** 2 + sp.asin(r) ** 2 / 2
    return LogMoment(a, max(m, n), min(m, n), r)


@cache
def _one_moment(m: int) -> sp.Expr:
    """E ln^m|u|"""
    s = sp.Dummy()
    return sp.expand(sp.expand_func(absolute_moment(s).diff(s, m).subs(s, 0).doit()))


def near_one(f: sp.Expr, g: sp.Expr, d: sp.Expr) -> sp.Expr | None:
    """E f(u) g(v) at correlation 1 - d, up to O(d), where f and g are such powers of ln|x| with the sign of x; None of other functions."""
    first, second = _logarithm(f), _logarithm(g)
    if first is None or second is None or first[0] != second[0] or first[1] + second[1] == 0:
        return None
    return _one_moment(first[1] + second[1]) + _leaving(first[0], first[1], second[1], d)


@cache
def _leaving(a: int, m: int, n: int, d: sp.Expr) -> sp.Expr:
    """The leading terms, of sqrt(d) with logarithms, of M(r) - M(1) at r = 1 - d; what is left out is O(d)."""
    s, t = sp.Dummy(), sp.Dummy()
    head = 2 ** ((s + t) / 2) / sp.sqrt(sp.pi) * sp.gamma(-(1 + s + t) / 2) * (2 * d) ** ((1 + s + t) / 2)

    def side(z: sp.Dummy) -> sp.Expr:
        # 1/gamma(-z/2) has a zero at z = 0
        own = -z / 2 / sp.gamma(1 - z / 2) if a == 0 else 1 / sp.gamma((1 - z) / 2)
        return sp.gamma((1 + a + z) / 2) * own

    value = (head * side(s) * side(t)).diff(s, m).diff(t, n).subs({s: 0, t: 0}).doit()
    return sp.expand(sp.expand_log(sp.expand_func(value)))


def _logarithm(f: sp.Expr) -> tuple[int, int] | None:
    """(a, m) where f is sign(x)^a ln^m|x|, not 1; None of any other function."""
    a = int(f.has(sp.sign))
    base, m = (f / sp.sign(x) ** a).as_base_exp()
    if base == sp.log(sp.Abs(x)) and m.is_Integer and m > 0:
        return a, int(m)
    return (1, 0) if f == sp.sign(x) else None
