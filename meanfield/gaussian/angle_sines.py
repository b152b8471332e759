r"""Gaps whose angles and roots cancel where the variance is large, as sums whose terms do not outweigh them.

Of a kernel c \arcsin(a/m) + h R + ..., a = k p, R = \sqrt{m^2 - a^2}, as that of x \Phi(x), the gap holds c (\alpha - \beta), c at p, from
the angle \alpha of u with itself to the angle \beta of u and v. For large q that is \sqrt q times the gap; what is left of it beside the
difference of the roots is small. With a, r at p = q and b, R at p = q - \delta,

    c (\alpha - \beta) = c (\theta - \sin\theta) + c (a R - b r)/m^2,    \theta = \alpha - \beta,    R - r = (a^2 - b^2)/(R + r),

since \sin(\alpha - \beta) = \sin\alpha \cos\beta - \cos\alpha \sin\beta. Here a R - b r is (a - b) r + a (R - r), and what multiplies r and
R - r is rational: there nothing but polynomials cancels, and they do so in symbols.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp
from sympy import S, asin

from meanfield.gaussian.special import AngleDifference, AngleMinusSine
from meanfield.symbols import known

__all__ = ["Joined", "joined"]

q, p, delta = known("q"), known("p"), known("delta")


@dataclass(frozen=True)
class Joined:
    r"""Terms c \arcsin(k p/m) + \sum_j (h_j + l_j p) R^j of a kernel, j odd, over a number."""

    number: sp.Expr
    angle: sp.Expr
    coefficient: sp.Expr
    slope: sp.Expr
    powers: dict[int, tuple[sp.Expr, sp.Expr]]

    def difference(self, angle: AngleDifference) -> sp.Expr:
        """What they make of the gap, beside what comes of the change of c."""
        _, high, _, low, _ = angle.args
        rise, (along, across) = angle.rise(), angle.sine()
        of_rise, rest = self.coefficient * across.args[0] / rise, S.Zero
        for j, (h, l) in self.powers.items():
            value, change = h + l * p, l * delta
            if j == 1:
                of_rise, rest = of_rise - value, rest + change * high
            else:
                rest += change * high**j + sp.factor(value.xreplace({p: q - delta})) * rise * _quotient(high, low, j)
        for part in _in_degrees(of_rise):
            ratio = sp.cancel(part * rise / across.args[0])
            rest += ratio * across if ratio.is_polynomial(q, delta) else part * rise
        return self.number * (self.coefficient.xreplace({p: q - delta}) * (AngleMinusSine(angle, along + across) + along) + rest)


def joined(terms: list[sp.Expr]) -> tuple[list[Joined], list[sp.Expr]]:
    """The terms of a kernel, its radicands in one piece, that belong together, and the others."""
    found = []
    for angle in sorted(set().union(*(t.atoms(asin) for t in terms)), key=sp.default_sort_key):
        own = [t for t in terms if angle in sp.Mul.make_args(t)]
        a, m = sp.fraction(sp.together(angle.args[0]))
        c, slope, radicand = sp.Add(*[t / angle for t in own]), sp.cancel(a / p), sp.expand(m**2 - a**2)
        if slope.has(p) or m.has(p) or not c.has(p) or not c.is_polynomial(p) or radicand.xreplace({p: q}) == 0:
            continue
        beside = {t: powers for t in terms if (powers := _powers(t, slope, m))}
        if beside:
            number = sp.Mul(*[factor for factor in sp.Mul.make_args(sp.factor(c)) if factor.is_number])
            total: dict[int, tuple[sp.Expr, sp.Expr]] = {}
            for powers in beside.values():
                for j, (h, l) in powers.items():
                    before = total.get(j, (S.Zero, S.Zero))
                    total[j] = (before[0] + h / number, before[1] + l / number)
            found.append(Joined(number, angle, sp.cancel(c / number), slope, total))
            terms = [t for t in terms if t not in own and t not in beside]
    return found, terms


def _powers(term: sp.Expr, slope: sp.Expr, m: sp.Expr) -> dict[int, tuple[sp.Expr, sp.Expr]]:
    """j and (h, l) with the term the sum of (h + l p) R^j, R^2 = m^2 - (slope p)^2; none where it is no such sum"""
    for factor in sp.Mul.make_args(term):
        if factor.is_Pow and factor.exp.is_Rational and factor.exp.q == 2 and factor.base.has(p):
            ratio = sp.cancel(factor.base / (m**2 - slope**2 * p**2))
            rest = term / factor * ratio**factor.exp
            return {} if ratio.has(p) or not rest.is_polynomial(p) else _by_root(rest, factor.exp.p, slope, m)
    return {}


def _by_root(rest: sp.Expr, k: int, slope: sp.Expr, m: sp.Expr) -> dict[int, tuple[sp.Expr, sp.Expr]]:
    """a polynomial of p times R^k, with p^2 = (m^2 - R^2)/slope^2"""
    square = sp.Dummy("square")
    sides = [S.Zero, S.Zero]
    for (n,), coefficient in sp.Poly(rest, p).terms():
        sides[n % 2] += coefficient * ((m**2 - square) / slope**2) ** (n // 2)
    parts = [dict(enumerate(reversed(sp.Poly(side, square).all_coeffs()))) for side in sides]
    found = {k + 2 * j: tuple(sp.factor(part.get(j, S.Zero)) for part in parts) for j in sorted({*parts[0], *parts[1]})}
    return {j: (h, l) for j, (h, l) in found.items() if (h, l) != (0, 0)}


def _quotient(r: sp.Expr, R: sp.Expr, j: int) -> sp.Expr:
    """(r^j - R^j)/(R - r), j odd"""
    if j > 0:
        return -sp.Add(*[r**i * R ** (j - 1 - i) for i in range(j)])
    return sp.Add(*[r ** (i + j) * R ** (-1 - i) for i in range(-j)])


def _in_degrees(e: sp.Expr) -> list[sp.Expr]:
    """a rational function at p = q - delta, its numerator as terms of one degree in q and delta in factors each, which are small where it
    is: 2 q - delta is one of them where u and v are opposite"""
    numerator, denominator = sp.fraction(sp.cancel(sp.together(e.xreplace({p: q - delta}))))
    parts: dict[int, sp.Expr] = {}
    for powers, coefficient in sp.Poly(numerator, q, delta).terms():
        parts[sum(powers)] = parts.get(sum(powers), S.Zero) + coefficient * q ** powers[0] * delta ** powers[1]
    return [sp.factor(part) / sp.factor(denominator) for part in parts.values() if part != 0]
