r"""Closed finite parts of \int_0^\infty e^{ksx} e^{-a e^{sx}} dx, a > 0, as of Gompertz' function e^{-e^{-x}}, by u = e^{sx}.

    \frac1s \int_1^\infty u^{k-1} e^{-au} du = \frac1s T_k(a), \qquad s > 0,
    \frac1{|s|} \mathrm{f.p.}\!\int_0^1 u^{k-1} e^{-au} du = \frac1{|s|} (G_k(a) - T_k(a)), \qquad s < 0,

T_k = (k-1)! a^{-k} e^{-a} \sum_{j<k} a^j/j!, T_0 = E_1(a), G_k = (k-1)! a^{-k}, G_0 = -\gamma - \ln a.
"""

from __future__ import annotations

import sympy as sp
from sympy import S

from meanfield.symbols import known

__all__ = ["towers"]

x = known("x")


def towers(f: sp.Expr, n: int) -> sp.Expr | None:
    """The finite part of a sum of such terms and constants; None of another, or where an exponential integral is left.

    >>> import sympy as sp, meanfield as mf
    >>> towers(sp.exp(-2 * mf.x - 2 * sp.exp(-mf.x)) + sp.exp(2 * mf.x - 2 * sp.exp(mf.x)), 0)
    1/4
    """
    if n or not any(e.args[0].has(sp.exp) for e in f.atoms(sp.exp)):
        return None
    found = [_term(t) for t in sp.Add.make_args(sp.expand(f))]
    if any(value is None for value in found):
        return None
    total = sp.expand(sp.Add(*found))
    return None if total.has(sp.expint) else total


def _term(t: sp.Expr) -> sp.Expr | None:
    c, rest = t.as_independent(x, as_Add=False)
    powers = [e.as_base_exp() for e in sp.Mul.make_args(rest)]
    if any(base is not S.Exp1 for base, _ in powers if base != 1):
        return None
    exponent = sp.expand(sp.Add(*[power for base, power in powers if base != 1]))
    tower = [e for e in sp.Add.make_args(exponent) if e.has(sp.exp)]
    plain = sp.expand(exponent - sp.Add(*tower))
    if exponent == 0:
        return S.Zero  # of a constant
    if len(tower) != 1:
        return None
    minus_a, inner = tower[0].as_independent(x, as_Add=False)
    s = inner.args[0] / x if isinstance(inner, sp.exp) else x
    if s.has(x) or not s.is_real or s == 0 or not (-minus_a).is_positive:
        return None
    slope, shift = plain.coeff(x, 1), plain.coeff(x, 0)
    k = sp.cancel(slope / s)
    if sp.expand(plain - slope * x - shift) != 0 or not (k.is_Integer and k >= 0):
        return None
    upper, whole = _parts(int(k), -minus_a)
    return c * sp.exp(shift) * (upper / s if s.is_positive else (whole - upper) / -s)


def _parts(k: int, a: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """T_k and G_k"""
    if k == 0:
        return sp.expint(1, a), -sp.EulerGamma - sp.log(a)
    whole = sp.factorial(k - 1) / a**k
    return whole * sp.exp(-a) * sp.Add(*[a**j / sp.factorial(j) for j in range(k)]), whole
