r"""Expansions of E f(u), u ~ N(0, q), in powers of q: at q = 0 by Taylor's theorem, at q = oo by the Mellin transform.

Only the even part counts: E f(u) = \int_0^\infty g(t) N(t; 0, q) dt with g(t) = f(t) + f(-t). As q -> 0 each c t^a of g at 0 gives
c E|u|^a / 2. As q -> oo (Wong 1989, ch. III; Bleistein & Handelsman 1975, ch. 4): each c t^a of g at infinity gives c E|u|^a / 2 too,
continued analytically in a, and each term of the density at 0 gives

    \frac{(-1)^m}{m! \, 2^m \sqrt{2\pi}} \, q^{-m-1/2} \; \mathrm{f.p.}\!\int_0^\infty t^{2m} g(t) \, dt;

where a = -(2m + 1) both have a pole, the poles cancel, and a logarithm of q is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import sympy as sp
from sympy import Rational, S

from meanfield.faces import latex
from meanfield.gaussian.faint_means import Faint, one_sided
from meanfield.gaussian.finite_parts import FinitePart, finite_part
from meanfield.gaussian.half_line import half, pieces
from meanfield.gaussian.local_expansions import at_infinity, at_zero
from meanfield.gaussian.reasons import Reason
from meanfield.gaussian.series import LOG, NoExpansion
from meanfield.gaussian.standardised import standardised
from meanfield.gaussian.zeros import is_zero, vanishes
from meanfield.symbols import among_reals, known

__all__ = ["Expansion", "asymptotic", "coefficients", "folded", "scaled", "taylor", "taylor_rest"]

x, q = known("x"), known("q")

#: orders of a Taylor series that have no term where it may end
_FLAT = 4
#: how many orders beyond the last term are searched for the one that states the remainder
_BEYOND = 12


@dataclass(frozen=True, repr=False)
class Expansion:
    r"""A sum of terms and the order of what is left: quantity = expression + O(remainder).

    For one variance the terms are (coefficient, exponent) of the variance v: expression = sum of c v^e; a coefficient may contain
    log(v). For two inputs they are (part, degree), each part homogeneous of that degree in (q1, p, q2) together. The remainder is 0 where
    the expansion is exact. Asymptotic expansions diverge: more terms help only up to a point that grows with the variance.
    """

    quantity: sp.Expr
    variables: tuple[sp.Expr, ...]
    point: sp.Expr  # 0 or oo
    terms: tuple[tuple[sp.Expr, sp.Expr], ...]
    remainder: sp.Expr

    @property
    def expression(self) -> sp.Expr:
        """The sum of the terms."""
        v = self.variables[0] if len(self.variables) == 1 else S.One
        return sp.Add(*[c * v**e for c, e in self.terms])

    def times(self, c: sp.Expr) -> Expansion:
        """The expansion of c times the quantity."""
        return replace(self, quantity=c * self.quantity, terms=tuple((c * a, e) for a, e in self.terms))

    def __repr__(self) -> str:
        left = f" + O({self.remainder})" if self.remainder != 0 else ""
        v = self.variables[0] if len(self.variables) == 1 else S.One
        parts = " + ".join(str(c * v**e) for c, e in self.terms) or "0"
        return f"Expansion({self.quantity} = {parts}{left}, {self.variables[0]} -> {self.point})".replace("+ -", "- ")

    def latex(self) -> str:
        """The equation, its remainder and the limit it holds in."""
        v = self.variables[0] if len(self.variables) == 1 else S.One
        parts = " + ".join(latex(c * v**e) for c, e in self.terms) or "0"
        left = rf" + O\left({latex(self.remainder)}\right)" if self.remainder != 0 else ""
        limit = rf"{latex(self.variables[0])} \to {sp.latex(self.point)}"
        return rf"{latex(self.quantity)} = {parts}{left}, \qquad {limit}".replace("+ -", "- ")

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.latex()}$"


@cache
def folded(f: sp.Expr) -> sp.Expr:
    """f(x) + f(-x) on x > 0: a polynomial wherever it is one, and without switches where f has its kinks at 0 only."""
    g = sp.expand(half(f) + half(f.xreplace({x: -x})))
    try:
        tail = at_infinity(g, 1)
    except NoExpansion:
        return g
    if any(not a.is_Integer or c.has(LOG) for a, c in tail.items()):
        return g
    polynomial = sp.Add(*[c * x**a for a, c in tail.items()])
    return polynomial if len(pieces(g)) == 1 and is_zero(g - polynomial) else g


def scaled(f: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """(c, g, a) with f(x) = c g(a x), g free of parameters where they are a common scale."""
    try:
        return standardised(f) if f.free_symbols - {x} else (S.One, f, S.One)
    except ValueError:
        return S.One, f, S.One


@cache
def coefficients(f: sp.Expr, order: int) -> tuple[tuple[sp.Expr, ...], tuple[sp.Expr, ...]]:
    """One-sided Taylor coefficients of f at 0, degree 0 to order: of f(x) and of f(-x), x > 0."""
    sides = []
    for side in (f, f.xreplace({x: -x})):
        try:
            found = at_zero(side, order + 1)
        except NoExpansion as reason:
            raise ValueError(Reason(f, " has no Taylor expansion at 0: ", reason)) from None
        wild = [a for a, c in found.items() if not a.is_Integer or a < 0 or c.has(LOG)]
        if wild:
            term = x ** wild[0] * found[wild[0]].xreplace({LOG: sp.log(x)})
            raise ValueError(f"{f} has no Taylor expansion at 0: it contains {term}")
        sides.append(tuple(found.get(sp.Integer(k), S.Zero) for k in range(order + 1)))
    return sides[0], sides[1]


def _half_moment(a: sp.Expr) -> sp.Expr:
    """E|z|^a / 2, z standard normal"""
    return 2 ** (a / 2) * sp.gamma((a + 1) / 2) / (2 * sp.sqrt(sp.pi))


@among_reals
def taylor(f: sp.Expr, order: int) -> tuple[tuple[tuple[sp.Expr, sp.Expr], ...], sp.Expr]:
    """Terms and remainder of E f(u) as q -> 0, up to q^order."""
    terms: tuple[tuple[sp.Expr, sp.Expr], ...] = ()
    for reach in (2 * order + 2, 2 * order + _BEYOND):
        found = []
        for k, (a, b) in enumerate(zip(*coefficients(f, reach), strict=True)):
            c = sp.expand(a + b)
            if not vanishes(c):
                found.append((sp.expand(c * _half_moment(sp.Integer(k))), Rational(k, 2)))
        terms = tuple(t for t in found if t[1] <= order)
        if len(found) > len(terms):
            return terms, q ** found[len(terms)][1]
    return terms, taylor_rest((folded(f),), 2 * order + _BEYOND)


def taylor_rest(sides: tuple[sp.Expr, ...], reach: int) -> sp.Expr:
    """What is left of E f(u) as q -> 0 where no power up to q^(reach/2) is, f given by its sides x > 0: nothing, or what happens beyond
    the first kink, or what is flat at 0."""
    kinks, flat = set[sp.Expr](), list[Faint]()
    for side in sides:
        try:
            first, *more = pieces(side)
            if not sp.expand(first[2]).is_polynomial(x):
                if any(a > reach - _FLAT for a in at_zero(side, reach + 1)):
                    raise NoExpansion("it does not end")
                flat += one_sided(side)
                continue
        except NoExpansion:
            return q ** Rational(reach + 1, 2)
        kinks |= {first[1]} if more else set()
    if flat:
        return sp.Add(*[sp.exp(-part.rate * q**-part.power) for part in flat])
    return sp.exp(-(sp.Min(*kinks) ** 2) / (2 * q)) if kinks else S.Zero


@among_reals
def asymptotic(f: sp.Expr, count: int) -> tuple[tuple[tuple[sp.Expr, sp.Expr], ...], sp.Expr]:
    """The first `count` terms and the remainder of E f(u) as q -> oo."""
    scale, g, a = scaled(f)
    try:
        g = folded(g)
        at_origin = at_zero(g, 1)
        if any(k <= -1 for k in at_origin):
            raise NoExpansion("it is not integrable at 0")
        found = []
        for e, c in _large(g, count):
            found.append((e, c))
            if len(found) > count:
                break
    except NoExpansion as reason:
        raise ValueError(Reason("E[", f, "] has no expansion in powers and logarithms of q as q -> oo: ", reason)) from None
    terms = []
    for e, c in found:
        c = sp.expand(sp.expand(c.xreplace({LOG: LOG + 2 * sp.log(a)}) * scale * a ** (2 * e)))
        terms.append((c.xreplace({LOG: sp.log(q)}), e))
    if len(found) > count:
        e, c = found[-1]
        return tuple(terms[:-1]), q**e * sp.log(q) ** (sp.degree(c, LOG) if c.has(LOG) else 0)
    return tuple(terms), S.Zero if _is_polynomial(g) else q ** -Rational(_reach(count), 2)


def _is_polynomial(g: sp.Expr) -> bool:
    found = pieces(g)
    return len(found) == 1 and found[0][2].is_polynomial(x)


def _reach(count: int) -> int:
    return 2 * count + _BEYOND


def _large(g: sp.Expr, count: int) -> Iterator[tuple[sp.Expr, sp.Expr]]:
    """exponent of q and coefficient, descending; LOG stands for log(q)"""
    reach = _reach(count)
    tail = at_infinity(g, reach)
    if _is_polynomial(g):
        moments: set[sp.Expr] = set()
    else:
        moments = {-sp.Integer(2 * m + 1) for m in range((reach + 1) // 2)}
    for a in sorted(moments | set(tail), reverse=True):
        c = S.Zero
        powers = sp.Poly(tail[a], LOG).all_coeffs()[::-1] if a in tail else []
        if a.is_Integer and a < 0 and a % 2 == 1:
            m = int(-a - 1) // 2
            c += Rational((-1) ** m, 2**m) / sp.factorial(m) / sp.sqrt(2 * sp.pi) * finite_part(g, 2 * m)
            c += sp.Add(*[b * _collision(m, j) for j, b in enumerate(powers) if b != 0])
        else:
            c += sp.Add(*[b * _power(a, j) for j, b in enumerate(powers) if b != 0])
        c = sp.expand(c)
        if not _is_zero(c):
            yield a / 2, c


def _is_zero(c: sp.Expr) -> bool:
    """zero, beside integrals to 20 digits: more of theirs take seconds"""
    integrals = {t: sp.N(t, 25) for t in c.atoms(FinitePart) if t.is_number}
    return vanishes(c.xreplace(integrals), 20) if integrals else vanishes(c)


@cache
def _power(a: sp.Expr, j: int) -> sp.Expr:
    """E |u|^a log^j |u| / 2 over q^(a/2)"""
    e = sp.Dummy()
    moment = 2 ** ((a + e) / 2) * sp.gamma((a + e + 1) / 2) / (2 * sp.sqrt(sp.pi)) * sp.exp(e * LOG / 2)
    return sp.expand(sp.expand_func(moment.diff(e, j).subs(e, 0).doit()))


@cache
def _collision(m: int, j: int) -> sp.Expr:
    """the same for a = -(2m + 1), where E|z|^a has a pole: the constant that is left beside the finite part of moment 2m"""
    e = sp.Dummy()
    # e E|z|^(e - 2m - 1) / 2, regular at e = 0
    regular = 2 ** (e / 2 - m) * sp.gamma(1 + e / 2) / sp.sqrt(2 * sp.pi) / sp.prod([e / 2 - i for i in range(1, m + 1)])
    residue = (regular * sp.exp(e * LOG / 2)).diff(e, j + 1).subs(e, 0).doit() / (j + 1)
    return sp.expand(sp.expand_func(residue))
