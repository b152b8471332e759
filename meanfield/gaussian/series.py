r"""One-sided expansions of an expression at x = 0, point or infinity, as sums of c t^a log(t)^j with t -> 0+.

An expression is walked node by node; the value of a node is e^{P(1/t)} times a truncated series, P a sum of powers that diverge. What
is exponentially small beside something else is dropped: a power series does not see it. Signs, absolute values and branches are
decided by leading terms, so that Max, Abs and Piecewise need no special care.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import sympy as sp
from sympy import S
from sympy.functions.elementary.hyperbolic import HyperbolicFunction

from meanfield.gaussian.special import NormalCDF, NormalDensity, Reciprocal, exponentials
from meanfield.gaussian.zeros import vanishes
from meanfield.symbols import known

__all__ = ["LOG", "REST", "Letter", "NoExpansion", "Series", "at_infinity", "at_zero"]

x = known("x")

#: log(t) inside coefficients
LOG = sp.Dummy("log_t", negative=True)
#: what is not known of an expression but that it is O(1), up to logarithms: a coefficient of an expansion that ends there
REST = sp.Symbol("unknown", real=True)

_DEEPEST = 96


class NoExpansion(ValueError):
    """The expression has no expansion in powers and logarithms there."""


class _Faint(Exception):
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


@cache
def at_infinity(f: sp.Expr, order: int) -> dict[sp.Rational, sp.Expr]:
    """f(x) as x -> oo: exponent a of x^a -> coefficient, down to a > -order; LOG stands for log(x), REST ends what is known less far."""
    found = _expanded(f, 1, order)
    return {-a: sp.expand(c.xreplace({LOG: -LOG})) for a, c in found.items() if a < order}


@cache
def at_zero(f: sp.Expr, order: int) -> dict[sp.Rational, sp.Expr]:
    """f(x) as x -> 0+: exponent a of x^a -> coefficient, up to a < order; LOG stands for log(x)."""
    return {a: c for a, c in _expanded(f, -1, order).items() if a < order}


def _expanded(f: sp.Expr, direction: int, order: int) -> dict[sp.Rational, sp.Expr]:
    depth, known_to = order + 3, -S.Infinity
    while depth <= _DEEPEST + order:
        series = _Walk(depth, Series({sp.Integer(-direction): S.One})).of(f)
        if series.rate and _sign(series.rate, f) > 0:
            raise NoExpansion(f"{f} grows exponentially")
        if series.rate:
            return {}
        ends = f.has(REST) and series.order == known_to
        if series.order >= order or ends:
            found = {a: c.replace(Reciprocal, lambda e: 1 / e) for a, c in series.terms.items()}
            return found | ({series.order: REST} if series.order < order else {})
        depth, known_to = 2 * depth, series.order
    raise NoExpansion(f"the expansion of {f} cancels too far")


def _sign(terms: dict[sp.Rational, sp.Expr], f: sp.Expr) -> int:
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
    raise NoExpansion(f"the sign of {c} decides how {f} behaves: declare its symbols positive or bind them")


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


class _Walk:
    """Values of the nodes of an expression in x, `depth` orders beyond the leading one."""

    def __init__(self, depth: int, value: Series) -> None:
        self.depth = depth
        self.value = value
        self._done: dict[sp.Expr, Series] = {}

    def of(self, f: sp.Expr) -> Series:
        if f not in self._done:
            self._done[f] = self._of(f)
        return self._done[f]

    def _of(self, f: sp.Expr) -> Series:
        if f == x:
            return self.value
        if f == REST:
            return Series({}, S.Zero)
        if f.free_symbols.isdisjoint((x, REST)):
            return _constant(f)
        try:
            return self._rule(f)
        except _Faint:
            better = sp.cancel(sp.together(exponentials(f)))
            inner = f.func(*[sp.cancel(sp.together(exponentials(a))) for a in f.args])
            for other in (inner, better):
                if other != f:
                    try:
                        return self._rule(other)
                    except _Faint:
                        continue
            raise NoExpansion(f"the exponentially small size of a part of {f} decides how it behaves") from None

    def _rule(self, f: sp.Expr) -> Series:
        if f.is_Add:
            total = self.of(f.args[0])
            for a in f.args[1:]:
                total = self.add(total, self.of(a), f)
            return total
        if f.is_Mul:
            total = _constant(S.One)
            for a in f.args:
                total = self.mul(total, self.of(a))
            return total
        if isinstance(f, sp.exp):
            return self.exp(self.of(f.args[0]), f)
        if f.is_Pow:
            if x in f.exp.free_symbols:
                return self.of(sp.exp(f.exp * sp.log(f.base)))
            return self.power(self.of(f.base), f.exp, f)
        if isinstance(f, sp.log):
            return self.log(self.of(f.args[0]), f)
        if isinstance(f, (sp.Max, sp.Min)):
            best = f.args[0]
            for a in f.args[1:]:
                difference = self.signum(a - best, f)
                best = a if difference * (1 if isinstance(f, sp.Max) else -1) > 0 else best
            return self.of(best)
        if isinstance(f, sp.Abs):
            return self.scaled(self.of(f.args[0]), sp.Integer(self.signum(f.args[0], f)))
        if isinstance(f, sp.sign):
            return _constant(sp.Integer(self.signum(f.args[0], f)))
        if isinstance(f, sp.Heaviside):
            return _constant(sp.Rational(1 + self.signum(f.args[0], f), 2))
        if isinstance(f, sp.DiracDelta):
            return _constant(S.Zero)
        if isinstance(f, sp.tanh):
            return self.tanh(self.of(f.args[0]), f)
        if isinstance(f, (HyperbolicFunction, NormalCDF, NormalDensity)):
            return self.of(exponentials(f))
        if isinstance(f, sp.Piecewise):
            return self.of(next(e for e, condition in f.args if self.holds(condition, f)))
        return self.function(f)

    def holds(self, condition: sp.Basic, f: sp.Expr) -> bool:
        if condition in (sp.true, sp.false):
            return bool(condition)
        if isinstance(condition, sp.And):
            return all(self.holds(c, f) for c in condition.args)
        if isinstance(condition, sp.Or):
            return any(self.holds(c, f) for c in condition.args)
        if isinstance(condition, sp.Rel):
            return bool(condition.func(sp.Integer(self.signum(condition.lhs - condition.rhs, f)), 0))
        raise NoExpansion(f"the condition {condition} is not understood")

    def signum(self, f: sp.Expr, whole: sp.Expr) -> int:
        series = self.of(f)
        if series.faint:
            raise _Faint
        return _sign(series.terms, whole)

    def function(self, f: sp.Expr) -> Series:
        """F(argument): by its limits at infinity, or by integrating F'(argument) argument'"""
        if len(f.args) != 1:
            raise NoExpansion(f"no rule for {f.func.__name__}")
        argument = self.of(f.args[0])
        if argument.rate and _sign(argument.rate, f) < 0:
            argument = Series({}, faint=True)
        unbounded = bool(argument.rate) or argument.lowest < 0 or argument.terms.get(S.Zero, S.Zero).has(LOG)
        if isinstance(f, (sp.sin, sp.cos)):
            if unbounded:
                raise NoExpansion(f"{f} oscillates")
            return self.circular(f, argument)
        if unbounded:
            side = _sign(argument.terms, f)
            if isinstance(f, (sp.erf, sp.erfc)):
                limit = sp.Integer(side if isinstance(f, sp.erf) else 1 - side)
                return Series({S.Zero: limit} if limit else {}, faint=not limit)
            if isinstance(f, sp.atan):
                inverse = self.function_at(sp.atan(x), self.power(argument, S.NegativeOne, f))
                return self.add(_constant(side * sp.pi / 2), self.scaled(inverse, S.NegativeOne), f)
            if isinstance(f, sp.asinh):
                positive = self.scaled(argument, sp.Integer(side))
                return self.scaled(_Walk(self.depth, positive).of(sp.log(x + sp.sqrt(x**2 + 1))), sp.Integer(side))
            raise NoExpansion(f"no rule for {f.func.__name__} at infinity")
        return self.function_at(f.func(x), argument)

    def function_at(self, outer: sp.Expr, argument: Series) -> Series:
        """outer(argument) for an argument with a finite limit"""
        limit = argument.terms.get(S.Zero, S.Zero)
        try:
            slope = exponentials(outer.diff(x))
        except sp.ArgumentIndexError:
            raise NoExpansion(f"no rule for {outer}") from None
        if slope.has(type(outer)) or slope.has(sp.Derivative, sp.Subs):
            raise NoExpansion(f"no rule for {outer}")
        inner = self.mul(_Walk(self.depth, argument).of(slope), _derivative(argument))
        value = outer.xreplace({x: limit})
        if value.has(sp.oo, sp.zoo, sp.nan):
            raise NoExpansion(f"{outer} is singular at {limit}")
        return self.add(_constant(value), _integral(inner), outer)

    def tanh(self, s: Series, f: sp.Expr) -> Series:
        """by the addition theorem, so that coefficients are polynomials in tanh of the limit"""
        if s.rate and _sign(s.rate, f) < 0:
            s = Series({}, faint=True)
        if s.rate or s.lowest < 0 or s.terms.get(S.Zero, S.Zero).has(LOG):
            return self.of(exponentials(f)) if not s.rate and s.lowest >= 0 else _constant(sp.Integer(_sign(s.terms, f)))
        limit, rest = self.split(s)
        small = self.composed(rest, _tanh_coefficient)
        if limit == 0:
            return small
        value = sp.tanh(limit)
        if limit.has(sp.log):
            value = sp.cancel(sp.together(value.rewrite(sp.exp)))
        inverse = self.composed(self.scaled(small, value), lambda j: sp.Integer((-1) ** j))
        return self.mul(self.add(_constant(value), small, f), inverse)

    def circular(self, f: sp.Expr, argument: Series) -> Series:
        limit, rest = self.split(argument)
        sine = self.composed(rest, lambda j: sp.Integer(0 if j % 2 == 0 else (-1) ** (j // 2)) / sp.factorial(j))
        cosine = self.composed(rest, lambda j: sp.Integer(0 if j % 2 else (-1) ** (j // 2)) / sp.factorial(j))
        a, b = (sp.sin(limit), sp.cos(limit)) if isinstance(f, sp.sin) else (sp.cos(limit), -sp.sin(limit))
        return self.add(self.scaled(cosine, a), self.scaled(sine, b), f)

    def split(self, s: Series) -> tuple[sp.Expr, Series]:
        return s.terms.get(S.Zero, S.Zero), Series({a: c for a, c in s.terms.items() if a != 0}, s.order)

    def composed(self, h: Series, coefficient: Callable[[int], sp.Expr]) -> Series:
        """sum of coefficient(j) h^j, h -> 0"""
        step = h.lowest
        total, power, j = _constant(coefficient(0)), _constant(S.One), 0
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
            winner, loser = (a, b) if _sign(difference, f) > 0 else (b, a)
            if not winner.terms and winner.order is S.Infinity:
                winner = loser if not winner.faint else winner
            return winner
        order = min(a.order, b.order)
        terms = {k: c for k, c in _combined(a.terms, b.terms).items() if k < order}
        if terms or order is not S.Infinity:
            return Series(terms, order, a.rate)
        if a.rate and _sign(a.rate, f) > 0:
            raise _Faint
        return Series({}, faint=a.faint or b.faint or bool(a.terms or b.terms))

    def mul(self, a: Series, b: Series) -> Series:
        rate = _combined(a.rate, b.rate)
        if a.faint or b.faint:
            if rate and _sign(rate, S.One) > 0:
                raise _Faint
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
            raise _Faint
        if not s.terms:
            if s.order is S.Infinity:
                raise NoExpansion(f"{f} is singular")
            raise NoExpansion(f"the leading term of a part of {f} cancels too far")
        a = s.lowest
        c = s.terms[a]
        if c.has(LOG):
            raise NoExpansion(f"{f} has powers of a logarithm that do not end")
        return c, a, Series({k - a: sp.expand(d * _reciprocal(c)) for k, d in s.terms.items() if k != a}, s.order - a)

    def power(self, s: Series, k: sp.Expr, f: sp.Expr) -> Series:
        if k.is_Integer and k >= 0:
            result = _constant(S.One)
            for _ in range(int(k)):
                result = self.mul(result, s)
            return result
        if s.terms == {} and s.order is S.Infinity and not s.faint and k.is_positive:
            return s
        c, a, h = self.normalised(s, f)
        if not k.is_Integer and _sign({S.Zero: c}, f) < 0:
            raise NoExpansion(f"{f} is not real")
        if not (a * k).is_Rational:
            raise NoExpansion(f"{f} has a power that is not a rational number")
        body = self.composed(h, lambda j: sp.binomial(k, j) if k.is_Integer else sp.ff(k, j) / sp.factorial(j))
        rate = {i: sp.expand(k * d) for i, d in s.rate.items()}
        head = _reciprocal(c) ** (-k) if k.is_Integer else c**k
        lifted = {a * k + i: sp.expand(head * d) for i, d in body.terms.items()}
        return Series(lifted, a * k + body.order, rate)

    def exp(self, s: Series, f: sp.Expr) -> Series:
        if s.rate:
            if _sign(s.rate, f) > 0:
                raise NoExpansion(f"{f} grows or decays faster than any exponential of a power")
            s = Series({})
        if s.order <= 0:
            raise NoExpansion(f"the exponent of {f} cancels too far")
        rate = {a: c for a, c in s.terms.items() if a < 0}
        if any(c.has(LOG) for c in rate.values()):
            raise NoExpansion(f"{f} grows or decays like a power of a power of x")
        limit, rest = self.split(Series({a: c for a, c in s.terms.items() if a >= 0}, s.order))
        shift = limit.coeff(LOG, 1) if limit.has(LOG) else S.Zero
        limit = sp.expand(limit - shift * LOG)
        if limit.has(LOG) or not shift.is_Rational:
            raise NoExpansion(f"{f} has a power that is not a rational number")
        body = self.composed(rest, lambda j: 1 / sp.factorial(j))
        return Series({a + shift: sp.expand(sp.exp(limit) * c) for a, c in body.terms.items()}, body.order + shift, rate)

    def log(self, s: Series, f: sp.Expr) -> Series:
        c, a, h = self.normalised(s, f)
        if _sign({S.Zero: c}, f) < 0:
            raise NoExpansion(f"{f} is not real")
        body = self.composed(h, lambda j: sp.Rational((-1) ** (j + 1), j) if j else S.Zero)
        head = {S.Zero: sp.log(c) + a * LOG}
        terms = _combined(_combined(head, s.rate), body.terms)
        return Series(terms, body.order)


def _reciprocal(c: sp.Expr) -> sp.Expr:
    return Reciprocal(c) if c.is_Add else 1 / c


def _tanh_coefficient(j: int) -> sp.Expr:
    return S.Zero if j % 2 == 0 else sp.Integer(2) ** (j + 1) * (2 ** (j + 1) - 1) * sp.bernoulli(j + 1) / sp.factorial(j + 1)


def _constant(c: sp.Expr) -> Series:
    return Series({} if vanishes(c) else {S.Zero: c})


def _combined(a: dict[sp.Rational, sp.Expr], b: dict[sp.Rational, sp.Expr]) -> dict[sp.Rational, sp.Expr]:
    total = {k: sp.expand(a.get(k, S.Zero) + b.get(k, S.Zero)) for k in {**a, **b}}
    return {k: c for k, c in total.items() if not vanishes(c)}


def _derivative(s: Series) -> Series:
    terms = {a - 1: sp.expand(a * c + c.diff(LOG)) for a, c in s.terms.items()}
    return Series({a: c for a, c in terms.items() if c != 0}, s.order - 1)


def _integral(s: Series) -> Series:
    if any(a <= -1 for a in s.terms):
        raise NoExpansion("a function of what diverges at its limit")
    return Series({a + 1: _primitive(c, a) for a, c in s.terms.items()}, s.order + 1)


def _primitive(c: sp.Expr, a: sp.Rational) -> sp.Expr:
    """of c t^a beside t^(a + 1): by parts, each of which has a power of the logarithm less"""
    found: sp.Expr = c / (a + 1)
    return found if not c.has(LOG) else sp.expand(found - _primitive(sp.expand(c.diff(LOG)), a) / (a + 1))
