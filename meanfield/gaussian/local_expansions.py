r"""One-sided expansions of an expression at x = 0, point or infinity, as sums of c t^a log(t)^j with t -> 0+.

An expression is walked node by node; the value of a node is e^{P(1/t)} times a truncated series, P a sum of powers that diverge. What
is exponentially small beside something else is dropped: a power series does not see it. Signs, absolute values and branches are
decided by leading terms, so that Max, Abs and Piecewise need no special care.
"""

from __future__ import annotations

from functools import cache

import sympy as sp
from sympy import S
from sympy.core.function import ArgumentIndexError
from sympy.functions.elementary.hyperbolic import HyperbolicFunction

from meanfield.gaussian.cancelling import in_lowest_terms
from meanfield.gaussian.series import (
    LOG,
    REST,
    Arithmetic,
    Faint,
    NoExpansion,
    Overwhelming,
    Series,
    constant,
    derivative,
    integral,
    leading_sign,
)
from meanfield.gaussian.special import NormalCDF, NormalDensity, Reciprocal, exponentials
from meanfield.symbols import known

__all__ = ["at_infinity", "at_zero", "exponential_at_zero", "fades", "mean_near"]

x = known("x")

_DEEPEST = 96


@cache
def at_infinity(f: sp.Expr, order: int) -> dict[sp.Rational, sp.Expr]:
    """f(x) as x -> oo: exponent a of x^a -> coefficient, down to a > -order; LOG stands for log(x), REST ends what is known less far."""
    found = _expanded(f, 1, order)
    return {-a: sp.expand(c.xreplace({LOG: -LOG})) for a, c in found.items() if a < order}


@cache
def at_zero(f: sp.Expr, order: int) -> dict[sp.Rational, sp.Expr]:
    """f(x) as x -> 0+: exponent a of x^a -> coefficient, up to a < order; LOG stands for log(x)."""
    return {a: c for a, c in _expanded(f, -1, order).items() if a < order}


def mean_near(f: sp.Expr, mean: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """E f(u) = constant + rate * variance + ... of small variances about a mean, from the series of f on both sides of it; what diverges
    is infinite.

    >>> from sympy import Abs, cos
    >>> mean_near(cos(x), sp.S(0)), mean_near(Abs(x), sp.S(0))
    ((1, -1/2), (0, oo))
    >>> mean_near(sp.log(Abs(x)), sp.S(0))[0], mean_near(1 - x**2 * sp.log(Abs(x)), sp.S(0))
    (-oo, (1, oo))
    """
    shifted = f.xreplace({x: x + mean})
    sides = [at_zero(g, 3) for g in (shifted, shifted.xreplace({x: -x}))]
    means = {k: sp.Add(*[s.get(k, S.Zero) for s in sides]) / 2 for s in sides for k in s}
    means = {k: c for k, c in means.items() if c != 0}
    varying = {k: c for k, c in means.items() if k != 0 or c.has(LOG)}
    return _coefficient(means, S.Zero, f), _coefficient(varying, sp.Integer(2), f)


def _coefficient(terms: dict[sp.Rational, sp.Expr], power: sp.Rational, f: sp.Expr) -> sp.Expr:
    """of a power of x in a series at 0; infinite where a term before it is"""
    before = {k: c for k, c in terms.items() if k < power or (k == power and c.has(LOG))}
    return leading_sign(before, f) * S.Infinity if before else terms.get(power, S.Zero)


@cache
def fades(f: sp.Expr) -> bool:
    """Whether f(x) vanishes faster than every power as x -> oo; False where that is not known."""
    try:
        series = _Walk(2, Series({S.NegativeOne: S.One})).of(f)
        return bool(series.rate) and leading_sign(series.rate, f) < 0
    except NoExpansion:
        return False


@cache
def exponential_at_zero(f: sp.Expr) -> Series | None:
    """f(x) = e^P(1/x) (series in x) as x -> 0+; None where f is 0, NoExpansion where it is a series without an exponential.

    >>> exponential_at_zero(x * sp.exp(-2 / x**2) - x**2 * sp.exp(-3 / x**2)).rate
    {-2: -2}
    """
    for form in (sp.expand, lambda e: in_lowest_terms(exponentials(e))):
        g = form(f)
        if g == 0:
            return None
        series = _Walk(2, Series({S.One: S.One})).of(g)
        if series.rate:
            return series
        if not series.faint:
            break
    raise NoExpansion(f, " is not exponentially small or large at 0")


def _expanded(f: sp.Expr, direction: int, order: int) -> dict[sp.Rational, sp.Expr]:
    depth, known_to = order + 3, -S.Infinity
    while depth <= _DEEPEST + order:
        walk = _Walk(depth, Series({sp.Integer(-direction): S.One}))
        try:
            series = walk.of(f)
        except NoExpansion:
            walk.check_still()
            raise
        if series.rate and leading_sign(series.rate, f) > 0:
            raise NoExpansion(f, " grows exponentially")
        if series.rate:
            return {}
        ends = f.has(REST) and series.order == known_to
        if series.order >= order or ends:
            found = {a: c.replace(Reciprocal, lambda e: 1 / e) for a, c in series.terms.items()}
            return found | ({series.order: REST} if series.order < order else {})
        walk.check_still()
        depth, known_to = 2 * depth, series.order
    raise NoExpansion("the expansion of ", f, " cancels too far")


class _Walk(Arithmetic):
    """Values of the nodes of an expression in x, `depth` orders beyond the leading one."""

    def __init__(self, depth: int, value: Series) -> None:
        super().__init__(depth)
        self.value = value
        self._done: dict[sp.Expr, Series] = {}
        self.oscillation: sp.Expr | None = None  # a part of which no more is known than that it is bounded

    def check_still(self) -> None:
        if self.oscillation is not None:
            raise NoExpansion(self.oscillation, " oscillates")

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
            return constant(f)
        try:
            return self._rule(f)
        except Faint:
            better = in_lowest_terms(exponentials(f))
            inner = f.func(*[in_lowest_terms(exponentials(a)) for a in f.args])
            for other in (inner, better):
                if other != f:
                    try:
                        return self._rule(other)
                    except Faint:
                        continue
            raise NoExpansion("the exponentially small size of a part of ", f, " decides how it behaves") from None

    def _rule(self, f: sp.Expr) -> Series:
        if f.is_Add:
            total = self.of(f.args[0])
            for a in f.args[1:]:
                total = self.add(total, self.of(a), f)
            return total
        if f.is_Mul:
            total = constant(S.One)
            for a in f.args:
                total = self.mul(total, self.of(a))
            return total
        if isinstance(f, sp.exp):
            return self.exp(self.of(f.args[0]), f)
        if f.is_Pow:
            if x in f.exp.free_symbols:
                return self.of(sp.exp(f.exp * sp.log(f.base)))
            if f.base.is_Add and f.exp.is_negative and self.is_overwhelmed(f.base):
                return Series({}, faint=True)
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
            return constant(sp.Integer(self.signum(f.args[0], f)))
        if isinstance(f, sp.Heaviside):
            return constant(sp.Rational(1 + self.signum(f.args[0], f), 2))
        if isinstance(f, sp.DiracDelta):
            return constant(S.Zero)
        if isinstance(f, sp.tanh):
            return self.tanh(self.of(f.args[0]), f)
        if isinstance(f, (HyperbolicFunction, NormalCDF, NormalDensity)):
            return self.of(exponentials(f))
        if isinstance(f, sp.Piecewise):
            here = next((e for e, condition in f.args if self.holds(condition, f)), None)
            if here is None:
                raise NoExpansion(f, " is undefined there")
            return self.of(here)
        return self.function(f)

    def is_overwhelmed(self, total: sp.Expr) -> bool:
        """whether one term of a sum, and one only, grows faster than every power in a way that no series holds"""
        held, others = list[Series](), 0
        for a in total.args:
            try:
                held.append(self.of(a))
            except Overwhelming:
                others += 1
        return others == 1 and not any(s.rate for s in held)

    def holds(self, condition: sp.Basic, f: sp.Expr) -> bool:
        if condition in (sp.true, sp.false):
            return bool(condition)
        if isinstance(condition, sp.And):
            return all(self.holds(c, f) for c in condition.args)
        if isinstance(condition, sp.Or):
            return any(self.holds(c, f) for c in condition.args)
        if isinstance(condition, sp.Rel):
            return bool(condition.func(sp.Integer(self.signum(condition.lhs - condition.rhs, f)), 0))
        raise NoExpansion("the condition ", condition, " is not understood")

    def signum(self, f: sp.Expr, whole: sp.Expr) -> int:
        series = self.of(f)
        if series.faint:
            raise Faint
        if not series.terms:
            self.check_still()
        return leading_sign(series.terms, whole)

    def lasting(self, s: Series, f: sp.Expr) -> Series:
        """a series that is not exponentially small, which beside powers is nothing"""
        return Series({}, faint=True) if s.rate and leading_sign(s.rate, f) < 0 else s

    def function(self, f: sp.Expr) -> Series:
        """F(argument): by its limits at infinity, or by integrating F'(argument) argument'"""
        if len(f.args) != 1:
            raise NoExpansion("no rule for ", f.func.__name__)
        argument = self.lasting(self.of(f.args[0]), f)
        unbounded = bool(argument.rate) or argument.lowest < 0 or argument.terms.get(S.Zero, S.Zero).has(LOG)
        if isinstance(f, (sp.sin, sp.cos)):
            if unbounded:
                self.oscillation = f
                return Series({}, S.Zero)
            return self.circular(f, argument)
        if unbounded:
            side = leading_sign(argument.terms, f)
            if isinstance(f, (sp.erf, sp.erfc)):
                limit = sp.Integer(side if isinstance(f, sp.erf) else 1 - side)
                return Series({S.Zero: limit} if limit else {}, faint=not limit)
            if isinstance(f, sp.atan):
                inverse = self.function_at(sp.atan(x), self.lasting(self.power(argument, S.NegativeOne, f), f))
                return self.add(constant(side * sp.pi / 2), self.scaled(inverse, S.NegativeOne), f)
            if isinstance(f, sp.asinh):
                positive = self.scaled(argument, sp.Integer(side))
                return self.scaled(_Walk(self.depth, positive).of(sp.log(x + sp.sqrt(x**2 + 1))), sp.Integer(side))
            raise NoExpansion("no rule for ", f.func.__name__, " at infinity")
        return self.function_at(f.func(x), argument)

    def function_at(self, outer: sp.Expr, argument: Series) -> Series:
        """outer(argument) for an argument with a finite limit"""
        limit = argument.terms.get(S.Zero, S.Zero)
        try:
            slope = exponentials(outer.diff(x))
        except ArgumentIndexError:
            raise NoExpansion("no rule for ", outer) from None
        if slope.has(type(outer)) or slope.has(sp.Derivative, sp.Subs):
            raise NoExpansion("no rule for ", outer)
        inner = self.mul(_Walk(self.depth, argument).of(slope), derivative(argument))
        value = outer.xreplace({x: limit})
        if value.has(sp.oo, sp.zoo, sp.nan):
            raise NoExpansion(outer, " is singular at ", limit)
        return self.add(constant(value), integral(inner), outer)

    def tanh(self, s: Series, f: sp.Expr) -> Series:
        """by the addition theorem, so that coefficients are polynomials in tanh of the limit"""
        s = self.lasting(s, f)
        if s.rate or s.lowest < 0 or s.terms.get(S.Zero, S.Zero).has(LOG):
            return self.of(exponentials(f)) if not s.rate and s.lowest >= 0 else constant(sp.Integer(leading_sign(s.terms, f)))
        limit, rest = self.split(s)
        small = self.composed(rest, _tanh_coefficient)
        if limit == 0:
            return small
        value = sp.tanh(limit)
        if limit.has(sp.log):
            value = in_lowest_terms(value.rewrite(sp.exp))
        inverse = self.composed(self.scaled(small, value), lambda j: sp.Integer((-1) ** j))
        return self.mul(self.add(constant(value), small, f), inverse)

    def circular(self, f: sp.Expr, argument: Series) -> Series:
        limit, rest = self.split(argument)
        sine = self.composed(rest, lambda j: sp.Integer(0 if j % 2 == 0 else (-1) ** (j // 2)) / sp.factorial(j))
        cosine = self.composed(rest, lambda j: sp.Integer(0 if j % 2 else (-1) ** (j // 2)) / sp.factorial(j))
        a, b = (sp.sin(limit), sp.cos(limit)) if isinstance(f, sp.sin) else (sp.cos(limit), -sp.sin(limit))
        return self.add(self.scaled(cosine, a), self.scaled(sine, b), f)


def _tanh_coefficient(j: int) -> sp.Expr:
    return S.Zero if j % 2 == 0 else sp.Integer(2) ** (j + 1) * (2 ** (j + 1) - 1) * sp.bernoulli(j + 1) / sp.factorial(j + 1)
