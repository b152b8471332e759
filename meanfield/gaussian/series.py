"""Truncated series in powers of t -> 0+ with logarithms, and exponentials of powers before them: their arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import sympy as sp
from sympy import S

from meanfield.gaussian.reasons import Reason
from meanfield.gaussian.special import Reciprocal
from meanfield.gaussian.zeros import vanishes

__all__ = [
    "LOG",
    "REST",
    "Arithmetic",
    "Faint",
    "Letter",
    "NoExpansion",
    "Overwhelming",
    "Series",
    "constant",
    "derivative",
    "integral",
    "leading_sign",
]

#: log(t) inside coefficients
LOG = sp.Dummy("log_t", negative=True)
#: what is not known of an expression but that it is O(1), up to logarithms: a coefficient of an expansion that ends there
REST = sp.Symbol("unknown", real=True)


class NoExpansion(ValueError):
    """The expression has no expansion in powers and logarithms there; why, in the parts of a `Reason`."""

    def __init__(self, *parts: str | sp.Basic | Exception) -> None:
        super().__init__(Reason(*parts))


class Overwhelming(NoExpansion):
    """It grows faster than every power, in no way that a series can hold."""


class Faint(Exception):
    """All that is left of an expression is exponentially small, and its size is needed."""


@dataclass(frozen=True)
class Series:
    """e^rate * (sum of terms[a] t^a + O(t^order)), t -> 0+; coefficients are polynomials in LOG."""

    terms: dict[sp.Rational, sp.Expr]
    order: sp.Expr = S.Infinity
    rate: dict[sp.Rational, sp.Expr] = field(default_factory=dict)
    faint: bool = False  # zero, but for something exponentially small

    @property
    def lowest(self) -> sp.Expr:
        return min(self.terms, default=self.order)


def leading_sign(terms: dict[sp.Rational, sp.Expr], f: sp.Expr) -> int:
    """sign of the leading term as t -> 0+"""
    if not terms:
        return 0
    c = terms[min(terms)]
    if c.has(LOG):
        polynomial = sp.Poly(c, LOG)
        c = polynomial.LC() * (-1) ** polynomial.degree()
    if c.is_positive or (c.is_number and sp.N(c, 20) > 0):
        return 1
    if c.is_negative or (c.is_number and sp.N(c, 20) < 0):
        return -1
    side = _side(c)
    if side:
        return side
    raise NoExpansion("the sign of ", c, " decides how ", f, " behaves: declare its symbols positive or bind them")


class Letter(sp.Dummy):
    """A symbol for a coefficient whose sign can be asked for."""

    sides: Callable[[], int | None]


def _side(c: sp.Expr) -> int:
    """the sign of a product of letters, 0 where it is not known"""
    if isinstance(c, Letter):
        return c.sides() or 0
    if c.is_Mul:
        return math.prod(map(_side, c.args))
    if c.is_Pow and _side(c.base) > 0:
        return 1
    return 1 if c.is_positive else -1 if c.is_negative else 0


class Arithmetic:
    """Operations on series, `depth` orders beyond the leading one."""

    def __init__(self, depth: int) -> None:
        self.depth = depth

    def split(self, s: Series) -> tuple[sp.Expr, Series]:
        return s.terms.get(S.Zero, S.Zero), Series({a: c for a, c in s.terms.items() if a != 0}, s.order)

    def composed(self, h: Series, coefficient: Callable[[int], sp.Expr]) -> Series:
        """sum of coefficient(j) h^j, h -> 0"""
        step = h.lowest
        total, power, j = constant(coefficient(0)), constant(S.One), 0
        if step is S.Infinity:
            return total
        if step <= 0:
            raise NoExpansion("a logarithm does not settle")
        while (j + 1) * step < self.depth and (j + 1) * step < h.order:
            j += 1
            power = self.mul(power, h)
            total = self.add(total, self.scaled(power, coefficient(j)), S.One)
        exact = min(h.order, (j + 1) * step)
        return Series({a: c for a, c in total.terms.items() if a < exact}, exact)

    def scaled(self, s: Series, c: sp.Expr) -> Series:
        if c == 0:
            return Series({}, s.order)
        return Series({a: sp.expand(c * b) for a, b in s.terms.items()}, s.order, s.rate, s.faint)

    def add(self, a: Series, b: Series, f: sp.Expr) -> Series:
        difference = _combined(a.rate, {k: -c for k, c in b.rate.items()})
        if difference:
            winner, loser = (a, b) if leading_sign(difference, f) > 0 else (b, a)
            if not winner.terms and winner.order is S.Infinity:
                winner = loser if not winner.faint else winner
            return winner
        order = min(a.order, b.order)
        terms = {k: c for k, c in _combined(a.terms, b.terms).items() if k < order}
        if terms or order is not S.Infinity:
            return Series(terms, order, a.rate)
        if a.rate and leading_sign(a.rate, f) > 0:
            raise Faint
        return Series({}, faint=a.faint or b.faint or bool(a.terms or b.terms))

    def mul(self, a: Series, b: Series) -> Series:
        rate = _combined(a.rate, b.rate)
        if a.faint or b.faint:
            if rate and leading_sign(rate, S.One) > 0:
                raise Faint
            return Series({}, faint=True)
        if (not a.terms and a.order is S.Infinity) or (not b.terms and b.order is S.Infinity):
            return Series({})
        low = a.lowest + b.lowest
        order = min(a.order + b.lowest, b.order + a.lowest)
        cut = min(order, low + self.depth)
        terms: dict[sp.Rational, list[sp.Expr]] = {}
        trimmed = False
        for i, c in a.terms.items():
            for j, d in b.terms.items():
                if i + j < cut:
                    terms.setdefault(i + j, []).append(c * d)
                else:
                    trimmed = True
        found = {k: sp.expand(sp.Add(*v)) for k, v in terms.items()}
        kept = {k: c for k, c in found.items() if not vanishes(c)}
        return Series(kept, cut if trimmed else order, rate)

    def normalised(self, s: Series, f: sp.Expr) -> tuple[sp.Expr, sp.Rational, Series]:
        """s = c t^a (1 + h) up to its rate"""
        if s.faint:
            raise Faint
        if not s.terms:
            if s.order is S.Infinity:
                raise NoExpansion(f, " is singular")
            raise NoExpansion("the leading term of a part of ", f, " cancels too far")
        a = s.lowest
        c = s.terms[a]
        if c.has(LOG):
            raise NoExpansion(f, " has powers of a logarithm that do not end")
        return c, a, Series({k - a: sp.expand(d * _reciprocal(c)) for k, d in s.terms.items() if k != a}, s.order - a)

    def power(self, s: Series, k: sp.Expr, f: sp.Expr) -> Series:
        if k.is_Integer and k >= 0:
            result = constant(S.One)
            for _ in range(int(k)):
                result = self.mul(result, s)
            return result
        if s.terms == {} and s.order is S.Infinity and not s.faint and k.is_positive:
            return s
        c, a, h = self.normalised(s, f)
        if not k.is_Integer and leading_sign({S.Zero: c}, f) < 0:
            raise NoExpansion(f, " is not real")
        if not (a * k).is_Rational:
            raise NoExpansion(f, " has a power that is not a rational number")
        body = self.composed(h, lambda j: sp.binomial(k, j) if k.is_Integer else sp.ff(k, j) / sp.factorial(j))
        rate = {i: sp.expand(k * d) for i, d in s.rate.items()}
        head = _reciprocal(c) ** (-k) if k.is_Integer else c**k
        lifted = {a * k + i: sp.expand(head * d) for i, d in body.terms.items()}
        return Series(lifted, a * k + body.order, rate)

    def exp(self, s: Series, f: sp.Expr) -> Series:
        if s.rate:
            if leading_sign(s.rate, f) > 0:
                return self._sunk(s, f)
            s = Series({})
        if s.order <= 0 and s.lowest < s.order:  # what is not known of it is less
            if leading_sign(s.terms, f) < 0:
                return Series({}, faint=True)
            raise Overwhelming(f, " grows faster than every power")
        if s.order <= 0:
            raise NoExpansion("the exponent of ", f, " cancels too far")
        rate = {a: c for a, c in s.terms.items() if a < 0}
        if any(c.has(LOG) for c in rate.values()):
            raise NoExpansion(f, " grows or decays like a power of a power of x")
        limit, rest = self.split(Series({a: c for a, c in s.terms.items() if a >= 0}, s.order))
        shift = limit.coeff(LOG, 1) if limit.has(LOG) else S.Zero
        limit = sp.expand(limit - shift * LOG)
        if limit.has(LOG) or not shift.is_Rational:
            raise NoExpansion(f, " has a power that is not a rational number")
        body = self.composed(rest, lambda j: 1 / sp.factorial(j))
        return Series({a + shift: sp.expand(sp.exp(limit) * c) for a, c in body.terms.items()}, body.order + shift, rate)

    def _sunk(self, s: Series, f: sp.Expr) -> Series:
        """e^s of an s that is exponentially large: nothing beside any exponential of a power, where it decays; how it compares with
        another such is not asked"""
        if s.faint or leading_sign(s.terms, f) >= 0:
            raise NoExpansion(f, " grows faster than any exponential of a power")
        return Series({S.Zero: S.One}, rate={S.NegativeInfinity: -sp.Dummy("sunk", positive=True)})

    def log(self, s: Series, f: sp.Expr) -> Series:
        if S.NegativeInfinity in s.rate:
            raise NoExpansion(f, " is the logarithm of what decays faster than any exponential of a power")
        c, a, h = self.normalised(s, f)
        if leading_sign({S.Zero: c}, f) < 0:
            raise NoExpansion(f, " is not real")
        body = self.composed(h, lambda j: sp.Rational((-1) ** (j + 1), j) if j else S.Zero)
        head = {S.Zero: sp.log(c) + a * LOG}
        terms = _combined(_combined(head, s.rate), body.terms)
        return Series(terms, body.order)


def _reciprocal(c: sp.Expr) -> sp.Expr:
    return Reciprocal(c) if c.is_Add else 1 / c


def constant(c: sp.Expr) -> Series:
    return Series({} if vanishes(c) else {S.Zero: c})


def _combined(a: dict[sp.Rational, sp.Expr], b: dict[sp.Rational, sp.Expr]) -> dict[sp.Rational, sp.Expr]:
    total = {k: sp.expand(a.get(k, S.Zero) + b.get(k, S.Zero)) for k in {**a, **b}}
    return {k: c for k, c in total.items() if not vanishes(c)}


def derivative(s: Series) -> Series:
    terms = {a - 1: sp.expand(a * c + c.diff(LOG)) for a, c in s.terms.items()}
    return Series({a: c for a, c in terms.items() if c != 0}, s.order - 1)


def integral(s: Series) -> Series:
    if any(a <= -1 for a in s.terms):
        raise NoExpansion("a function of what diverges at its limit")
    return Series({a + 1: _primitive(c, a) for a, c in s.terms.items()}, s.order + 1)


def _primitive(c: sp.Expr, a: sp.Rational) -> sp.Expr:
    """of c t^a beside t^(a + 1): by parts, each of which has a power of the logarithm less"""
    found: sp.Expr = c / (a + 1)
    return found if not c.has(LOG) else sp.expand(found - _primitive(sp.expand(c.diff(LOG)), a) / (a + 1))
