r"""What E f(u), u ~ N(0, q), has beside a Taylor series that ends, as q -> 0: something exponentially small,

    E f(u) = P(q) + A q^a e^{-b q^{-c}} (1 + O(q^s)).

f is a polynomial next to 0 on either side, but for a rest r that is 0 up to a kink k, r ~ A_m t^m with t = |x| - k (Watson's lemma), or
flat at 0, r ~ A_m |x|^m e^{-beta |x|^-gamma} (Laplace's method about |x| = w q^{1/(gamma + 2)}, w^{gamma + 2} = beta gamma):

    \frac{m!}{\sqrt{2 \pi}} \frac{A_m}{k^{m + 1}} q^{m + 1/2} e^{-k^2/(2 q)},
    \frac{A_m w^m}{\sqrt{\gamma + 2}} q^{m/(\gamma + 2)} e^{-w^2 (1/\gamma + 1/2) q^{-\gamma/(\gamma + 2)}}.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, reduce

import sympy as sp
from sympy import S

from meanfield.gaussian.half_line import pieces
from meanfield.gaussian.local_expansions import at_zero, exponential_at_zero
from meanfield.gaussian.series import LOG, REST, NoExpansion, leading_sign
from meanfield.symbols import known

__all__ = ["Faint", "faint_mean", "faint_pair", "one_sided"]

x = known("x")

#: degrees up to which a polynomial next to 0 is looked for
_DEGREE = 12


@dataclass(frozen=True)
class Faint:
    """coefficient q^exponent e^(-rate q^-power) (1 + O(q^step))"""

    rate: sp.Expr
    power: sp.Expr
    coefficient: sp.Expr
    exponent: sp.Expr
    step: sp.Expr


@cache
def _ended(f: sp.Expr) -> tuple[sp.Expr, tuple[sp.Expr, ...] | None]:
    """the polynomial that f is for small x > 0, and (A, m, beta, gamma, s) of what is flat beside it up to x^s"""
    first = pieces(f)[0][2]
    found = at_zero(first, _DEGREE + 1)
    if any(not a.is_Integer or a < 0 or c.has(LOG) or a > _DEGREE for a, c in found.items()):
        raise NoExpansion(f, " is no polynomial next to 0")
    polynomial = sp.Add(*[c * x**a for a, c in found.items()])
    flat = exponential_at_zero(first - polynomial)
    if flat is None:
        return polynomial, None
    if len(flat.rate) != 1 or flat.lowest is S.Infinity or flat.terms.get(flat.lowest, LOG).has(LOG):
        raise NoExpansion("what ", f, " is beside a polynomial next to 0 has no leading exponential of a power")
    (gamma, beta), m = next(iter(flat.rate.items())), flat.lowest
    if leading_sign(flat.rate, f) > 0:
        raise NoExpansion(f, " grows exponentially next to 0")
    following = min([a for a in flat.terms if a != m] + [flat.order])
    return polynomial, (flat.terms[m], m, -beta, -gamma, following - m)


@cache
def faint_mean(f: sp.Expr) -> tuple[Faint, ...]:
    """The exponentially small part of E f(u), none or one; NoExpansion where the Taylor series does not end.

    >>> faint_mean(sp.Max(0, x**2 - 1))
    (Faint(rate=1/2, power=1, coefficient=2*sqrt(2)/sqrt(pi), exponent=3/2, step=1),)
    """
    parts = _sides(f)
    return (reduce(_sum, parts),) if parts else ()


def faint_pair(f: sp.Expr, g: sp.Expr, rho: sp.Expr) -> tuple[Faint, ...]:
    r"""The same of E f(u) g(v) at a correlation rho, |rho| < 1, from the rests r and the polynomials P of f and g:

        E f(u) g(v) = E P_f(u) P_g(v) + E r_f(u) P_g(\rho u) + E r_g(u) P_f(\rho u),

    to leading order, as v - rho u is of the size q^{1/2}, and u of a larger one. E r_f(u) r_g(v) is less by an exponential: by the
    hypercontractive inequality it is at most (E |r_f|^{1 + |rho|} E |r_g|^{1 + |rho|})^{1/(1 + |rho|)}, of an exponent that is
    2 (1 + |rho|)^{gamma/(gamma + 2) - 1} > 1 times theirs (gamma = oo at a kink). Where P has a kink at 0 only the size is given.
    """
    found = list[Faint]()
    for own, other in ((f, g), (g, f)):
        if not (parts := _sides(own)):
            continue
        right, left = _polynomial(other), _polynomial(other.xreplace({x: -x})).xreplace({x: -x})
        if sp.expand(right - left) != 0:
            found += [replace(part, coefficient=REST) for part in parts]
            continue
        for (k,), c in sp.Poly(right, x).terms():
            found += [replace(part, coefficient=c * rho**k * part.coefficient) for part in faint_mean(own * x**k)]
    return tuple(found)


@cache
def _sides(f: sp.Expr) -> tuple[Faint, ...]:
    """of u > 0 and of u < 0"""
    return (*one_sided(f), *one_sided(f.xreplace({x: -x})))


def _polynomial(f: sp.Expr) -> sp.Expr:
    return _ended(f)[0]


def one_sided(f: sp.Expr) -> tuple[Faint, ...]:
    """That of E f(u) over u > 0."""
    polynomial, flat = _ended(f)
    if flat is not None:
        a, m, beta, gamma, following = flat
        place, wide = (beta * gamma) ** (1 / (gamma + 2)), gamma + 2
        rate = sp.expand(place**2 * (1 / gamma + S.Half))
        return (Faint(rate, gamma / wide, a * place**m / sp.sqrt(wide), m / wide, min(gamma, following) / wide),)
    for start, _, branch in pieces(f)[1:]:
        rest = sp.expand(branch - polynomial)
        if rest == 0:
            continue
        found = at_zero(rest.xreplace({x: x + start}), 3)
        if not found:
            raise NoExpansion(f, " leaves its polynomial next to 0 by less than every power")
        m, *more = sorted(found)
        if found[m].has(LOG) or m <= -1:
            raise NoExpansion(f, " leaves its polynomial next to 0 by no power")
        weight = sp.gamma(m + 1) * found[m] / start ** (m + 1) / sp.sqrt(2 * sp.pi)
        return (Faint(start**2 / 2, S.One, weight, m + S.Half, min([a - m for a in more] + [S.One])),)
    return ()


def _sum(a: Faint, b: Faint) -> Faint:
    """the larger of two, or both"""
    side = (
        leading_sign({S.Zero: d}, d)
        if (d := a.power - b.power) != 0
        else leading_sign({S.Zero: d}, d)
        if (d := a.rate - b.rate) != 0
        else 0
    )
    if side:
        return b if side > 0 else a
    if a.exponent != b.exponent:
        low, high = (a, b) if a.exponent < b.exponent else (b, a)
        return Faint(low.rate, low.power, low.coefficient, low.exponent, min(low.step, high.exponent - low.exponent))
    total = sp.expand(a.coefficient + b.coefficient)
    return Faint(a.rate, a.power, total, a.exponent, min(a.step, b.step))
