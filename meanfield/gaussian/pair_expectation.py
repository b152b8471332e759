r"""Expectations of two Gaussians as sympy nodes: E f(u, v), the gap E f(u)^2 - E f(u) f(v), and `E`, which makes a node of either kind."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield import arguments, gaussian
from meanfield.gaussian.expectation import Expectation, Node, density, expansion_of, moved
from meanfield.gaussian.special import without_hints
from meanfield.symbols import known

__all__ = ["E", "Gap", "PairExpectation"]

#: how far a covariance may be beyond its bound by rounding
BEYOND = sp.Rational(1, 2**40)

#: 1 - c^2 from which on moments of the density's derivative have digits left: 2e-16 over its square
_APART = sp.Rational(1, 1000)

x, y, q, p, q1, q2, delta = (known(name) for name in ("x", "y", "q", "p", "q1", "q2", "delta"))


def _closed_or_self(node: Node) -> sp.Expr:
    form = node.closed()
    return node if form is None else form


def _is_moment(e: sp.Expr) -> bool:
    return isinstance(e, (gaussian.logarithmic_moments.LogMoment, gaussian.power_moments.PowerMoment))


def _expected(moment: sp.Expr) -> sp.Expr:
    first, second = moment.factors
    return PairExpectation(first * second, S.One, moment.args[-1], S.One)


class PairExpectation(Node):
    r"""E f(u, v), variances q1 and q2, covariance p, means m1 and m2 (m1 if left out): f an expression in mf.x and mf.y."""

    def __new__(cls, f: Any, v1: sp.Expr, cov: sp.Expr, v2: sp.Expr, m1: sp.Expr = S.Zero, m2: sp.Expr | None = None) -> sp.Expr:
        v1, cov, v2, m1, m2 = (sp.sympify(a) for a in (v1, cov, v2, m1, m1 if m2 is None else m2))
        constant, f = f.as_independent(x, y, as_Add=False)
        free = f.free_symbols & {x, y}
        if free == {x} or not free:
            return constant * Expectation(f, v1, m1)
        if free == {y}:
            return constant * Expectation(f.xreplace({y: x}), v2, m2)
        return constant * sp.Expr.__new__(cls, f, v1, cov, v2, m1, m2)

    def separated(self) -> tuple[sp.Expr, sp.Expr] | None:
        """f and g where the integrand is f(x) g(y); both as functions of x."""
        first, second = S.One, S.One
        for factor in sp.Mul.make_args(self.integrand):
            free = factor.free_symbols & {x, y}
            if free == {x, y}:
                return None
            if free == {y}:
                second *= factor.xreplace({y: x})
            else:
                first *= factor
        return first, second

    def check_law(self) -> None:
        v1, cov, v2 = self.args[1:4]
        if False in (v1.is_nonnegative, v2.is_nonnegative, cov.is_real) or (cov**2 - v1 * v2 * (1 + BEYOND)).is_positive:
            raise ValueError(f"{self}: expected variances of at least 0 and a covariance of at most the root of their product")

    def at_rest(self) -> sp.Expr | None:
        _, v1, _, v2, m1, m2 = self.args
        parts = self.separated() if v1 == 0 or v2 == 0 else None
        if parts is None:
            return None
        means = [
            gaussian.local_expansions.mean_near(f, m)[0] if v == 0 else Expectation(f, v, m)
            for f, v, m in zip(parts, (v1, v2), (m1, m2), strict=True)
        ]
        return sp.Mul(*means)

    def parted(self) -> sp.Expr:
        """A sum over the terms of the integrand, those of one alpha u + beta v as means of that, products of two such as means of both;
        itself where it is no sum."""
        _, v1, cov, v2, m1, m2 = self.args

        def between(a: sp.Expr, b: sp.Expr, c: sp.Expr, d: sp.Expr) -> sp.Expr:
            """the covariance of a u + b v and c u + d v"""
            return sp.factor_terms(sp.expand(a * c * v1 + (a * d + b * c) * cov + b * d * v2))

        def mean(term: sp.Expr) -> sp.Expr:
            one = gaussian.one_direction.in_one_direction(term)
            if one is not None:
                g, a, b = one
                variance, centre = between(a, b, a, b), a * m1 + b * m2
                return Expectation(g, variance, centre) if variance != 0 else g.xreplace({x: centre})
            two = gaussian.one_direction.in_two_directions(term)
            if two is None:
                return PairExpectation(term, v1, cov, v2, m1, m2)
            g, (a, b, c, d) = two
            law = between(a, b, a, b), between(a, b, c, d), between(c, d, c, d), a * m1 + b * m2, c * m1 + d * m2
            return sp.Add(*[PairExpectation(t, *law) for t in sp.Add.make_args(g)])

        def split(term: sp.Expr) -> tuple[sp.Expr, ...]:
            whole = gaussian.one_direction.in_one_direction(term) is not None
            return (term,) if whole else sp.Add.make_args(gaussian.one_direction.apart(term))

        return sp.Add(*[mean(t) for term in sp.Add.make_args(self.integrand) for t in split(term)])

    def form(self) -> tuple[sp.Expr | None, dict[sp.Symbol, sp.Expr]]:
        _, v1, cov, v2, m1, m2 = self.args
        parts = self.separated()
        if parts is not None and (infinite := gaussian.coincidence.coincident(*parts, self.args[1:])) is not None:
            return infinite, {}
        if parts is None:
            done = self.parted()
            if done == self:
                return None, {}
            total = done.replace(lambda t: isinstance(t, Node), _closed_or_self)
            return None if total.has(Node) else total, {}
        means = (m1, m2) if m1 == m2 == 0 else (gaussian.closed.M, gaussian.closed.M if m1 == m2 else gaussian.closed.M2)
        values = dict(zip(means, (m1, m2), strict=True)) if m1 != 0 or m2 != 0 else {}
        if v1 == v2:
            return gaussian.closed.cross(*parts, means), {q: v1, p: cov, **values}
        return gaussian.closed.cross_unequal(*parts, means), {q1: v1, p: cov, q2: v2, **values}

    def doit(self, **hints: Any) -> sp.Expr:
        result, parts = super().doit(**hints), self.separated()
        if result != self or parts is None:
            return result
        _, v1, cov, v2, m1, m2 = self.args
        apart = Expectation(parts[0], v1, m1) * Expectation(parts[1], v2, m2) if cov == 0 else None
        less = gaussian.coincidence.as_one(*parts, self.args[1:]) if apart is None else apart
        return result if less is None else less.doit(**hints)

    def _is_finite(self) -> bool | None:
        parts = self._about_the_means()
        if parts is None:
            return False
        told = gaussian.finiteness.pair_falls(*parts, self.args[1:4])
        return False if told is None and gaussian.finiteness.where_finite_pair(*parts, self.args[1:4]) is None else told

    def _about_the_means(self) -> tuple[sp.Expr, sp.Expr] | None:
        """the two functions of what is left of the variables beside their means, where the integrand is a product of two"""
        parts, (m1, m2) = self.separated(), self.args[4:]
        return None if parts is None else (parts[0].xreplace({x: m1 + x}), parts[1].xreplace({x: m2 + x}))

    def where_finite(self) -> sp.Basic | None:
        parts, (v1, cov, v2) = self._about_the_means(), self.args[1:4]
        if parts is None:
            return None
        sign = cov
        if v1.is_number and cov.is_number and v2.is_number:  # in letters: of numbers it is true or false
            v1, cov, v2 = (q, p, q) if v1 == v2 else (q1, p, q2)
        return gaussian.finiteness.where_finite_pair(*parts, (v1, cov, v2), sign)

    def infinite_beyond(self) -> sp.Basic | None:
        where, parts = super().infinite_beyond(), self._about_the_means()
        if where is not None or parts is None or self.free_symbols or gaussian.finiteness.pair_falls(*parts, self.args[1:4]) is not False:
            return where
        return self.where_finite()

    def conditioned(self) -> sp.Expr:
        parts, (v1, cov, v2, m1, m2) = self.separated(), self.args[1:]
        if parts is None:
            terms = sp.Add.make_args(sp.expand(self.integrand))
            if len(terms) == 1:
                raise ValueError(f"{self.integrand}: a delta of both variables at once has no expectation here")
            return sp.Add(*[PairExpectation(t, *self.args[1:]) for t in terms])
        if (one := gaussian.coincidence.as_one(*parts, self.args[1:])) is not None:
            return one
        (f, first), (g, second) = (gaussian.slopes.deltas(part) for part in parts)
        rest = (v1 - cov) * (v1 + cov) if v1 == v2 else v1 * v2 - cov**2
        a, b = sp.Dummy("a", real=True), sp.Dummy("b", real=True)
        total = PairExpectation(f * g.xreplace({x: y}), v1, cov, v2, m1, m2)
        for d in first:
            here = d.factor.xreplace({x: a}) * density(a, m1, v1) * Expectation(g, rest / v1, m2 + cov / v1 * (a - m1))
            total += (-1) ** d.order * here.diff(a, d.order).subs(a, d.place)
        for d in second:
            here = d.factor.xreplace({x: b}) * density(b, m2, v2) * Expectation(f, rest / v2, m1 + cov / v2 * (b - m2))
            total += (-1) ** d.order * here.diff(b, d.order).subs(b, d.place)
        h, k = a - m1, b - m2
        if v1 == v2:  # no difference of near equal numbers as cov -> v1
            exponent = v1 * (h - k) ** 2 / (2 * rest) + h * k / (v1 + cov)
        else:
            exponent = (v2 * h**2 - 2 * cov * h * k + v1 * k**2) / (2 * rest)
        joint = sp.exp(-exponent) / (2 * sp.pi * sp.sqrt(rest))
        for d in first:
            for e in second:
                both = d.factor.xreplace({x: a}) * e.factor.xreplace({x: b}) * joint
                there = both.diff(a, d.order).diff(b, e.order).subs({a: d.place, b: e.place})
                total += (-1) ** (d.order + e.order) * there
        return total

    def _eval_derivative(self, s: sp.Symbol) -> sp.Expr:
        f, (v1, cov, v2, m1, m2) = self.integrand, self.args[1:]

        def at(g: sp.Expr) -> sp.Expr:
            return PairExpectation(g, v1, cov, v2, m1, m2)

        parts = self.separated()
        if parts is None:
            result = at(gaussian.slopes.derivative_in(f, s))
        else:  # products stay products
            g, h = parts[0], parts[1].xreplace({x: y})
            by_g, by_h = (gaussian.slopes.gathered(gaussian.slopes.derivative_in(part, s)) for part in (g, h))
            result = at(by_g * h) + at(g * by_h)
            if any(map(gaussian.growth.unbounded, parts)):
                return result + self._by_density(s)
        dx, dy, dxy = self._slopes()
        price = at(dxy)
        result += cov.diff(s) * price
        # d/dv1 at fixed covariance, through the scale of u: no second derivative of f
        result += v1.diff(s) * (at((x - m1) * dx) - cov * price) / (2 * v1)
        result += v2.diff(s) * (at((y - m2) * dy) - cov * price) / (2 * v2)
        return result + m1.diff(s) * at(dx) + m2.diff(s) * at(dy)

    def _by_density(self, s: sp.Symbol) -> sp.Expr:
        """what the derivative of the density leaves, that of f may not be integrable: terms of 1/(1 - c^2)^2, of which next to c = 1 only
        rounding is left"""
        f, (v1, cov, v2, m1, m2) = self.integrand, self.args[1:]
        rest = (v1 - cov) * (v1 + cov) if v1 == v2 else v1 * v2 - cov**2
        a, b, c = (sp.Dummy(real=True) for _ in range(3))  # the inverse of the covariance
        u, w = a * (x - m1) - b * (y - m2), c * (y - m2) - b * (x - m1)
        rates = ((v1, (u**2 - a) / 2), (cov, u * w + b), (v2, (w**2 - c) / 2), (m1, u), (m2, w))
        weight = sp.Poly(sp.Add(*[law.diff(s) * rate for law, rate in rates]), x, y)
        moments = [
            k.xreplace({a: v2 / rest, b: cov / rest, c: v1 / rest}) * self.func(x**i * y**j * f, *self.args[1:])
            for (i, j), k in weight.terms()
        ]
        return gaussian.guards.guarded(sp.Add(*moments), sp.sympify(rest > _APART * v1 * v2))

    def _slopes(self) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
        """df/dx, df/dy and d^2f/dxdy, products where f is one"""
        parts = self.separated()
        if parts is None:
            dx = gaussian.slopes.slope(self.integrand)
            return dx, gaussian.slopes.slope(self.integrand, y), gaussian.slopes.slope(dx, y)
        (g, h), (dg, dh) = parts, (gaussian.slopes.gathered(gaussian.slopes.slope(part)) for part in parts)
        h, dh = h.xreplace({x: y}), dh.xreplace({x: y})
        return dg * h, g * dh, dg * dh

    def _about(self) -> tuple[sp.Expr, sp.Expr]:
        parts = self.separated()
        if parts is None:
            raise ValueError(f"{self} is no product f(x) g(y); expand it into such products first")
        v1, _, v2, m1, m2 = self.args[1:]
        return moved(parts[0], x, m1, v1), moved(parts[1], x, m2, v2)

    def taylor(self, order: int = 4) -> gaussian.expansions.Expansion:
        order = arguments.check_integer(order, "order", 0)
        v1, cov, v2 = self.args[1:4]
        return expansion_of(self, (v1, cov, v2), S.Zero, *gaussian.pair_expansions.pair_taylor(*self._about(), order, v1 == v2))

    def asymptotic(self, terms: int = 3) -> gaussian.expansions.Expansion:
        terms = arguments.check_integer(terms, "terms", 1)
        v1, cov, v2 = self.args[1:4]
        parts, rest = gaussian.pair_expansions.pair_asymptotic(*self._about(), terms, v1 == v2)
        parts = tuple((c.replace(_is_moment, _expected), e) for c, e in parts)
        return expansion_of(self, (v1, cov, v2), S.Infinity, parts, rest)

    def _integrate(self, prec: int) -> mp.mpf:
        law, parts = gaussian.precise.law_of(*self.args[1:]), self.separated()
        if parts is not None:
            return gaussian.precise.product_mean_of(*parts, law, prec)
        if (parted := self.parted()) != self:
            with mp.workprec(prec + 17):
                return gaussian.arithmetic.precise_number(parted)
        return gaussian.precise.nested_mean(self.integrand, law, prec)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        inner = printer._print(self.integrand.xreplace({x: sp.Symbol("u"), y: sp.Symbol("v")}))
        v1, cov, v2, m1, m2 = (printer._print(a) for a in self.args[1:])
        law = v1 if v1 == v2 else rf"{v1}, {v2}"
        law = rf"{law}; {cov}"
        if self.args[4:] != (S.Zero, S.Zero):
            law += rf"; {m1}" if m1 == m2 else rf"; {m1}, {m2}"
        text = rf"\mathbb{{E}}_{{{law}}}\left[{inner}\right]"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"


class Gap(Node):
    r"""E f(u)^2 - E f(u) f(v) for variances q and covariance q - delta: f an expression in mf.x."""

    name = "Gap"

    def __new__(cls, f: Any, variance: sp.Expr, gap: sp.Expr) -> sp.Expr:
        variance, gap = sp.sympify(variance), sp.sympify(gap)
        constant, f = f.as_independent(x, as_Add=True)[1].as_independent(x, as_Add=False)
        even = gap == 2 * variance and f.xreplace({x: -x}) == f
        if f is S.One or f is S.Zero or gap == 0 or even:
            return S.Zero
        return constant**2 * sp.Expr.__new__(cls, f, variance, gap)

    def check_law(self) -> None:
        _, v, gap = self.args
        if False in (v.is_nonnegative, gap.is_nonnegative) or (gap - 2 * v * (1 + BEYOND)).is_positive:
            raise ValueError(f"{self}: expected a variance of at least 0 and a gap of 0 to twice that")

    def form(self) -> tuple[sp.Expr | None, dict[sp.Symbol, sp.Expr]]:
        # half the mean square of a difference
        infinite = gaussian.coincidence.coincident(self.integrand, self.integrand, (q, q, q, S.Zero, S.Zero))
        if infinite is not None:
            return infinite, {}
        return gaussian.closed.gap(self.integrand), {q: self.args[1], delta: self.args[2]}

    def doit(self, **hints: Any) -> sp.Expr:
        result = self.closed()
        return self if result is None or result is S.NaN else without_hints(result)

    def infinite_beyond(self) -> sp.Basic | None:
        where = super().infinite_beyond()
        return gaussian.growth.beyond(self.integrand**2, self.args[1]) if where is None and self.args[1].is_number else where

    def _is_finite(self) -> bool | None:
        second = Expectation(self.integrand**2, self.args[1])
        return second._is_finite() if isinstance(second, Expectation) else False

    def written_out(self) -> sp.Expr:
        """The difference that it is, in closed form where its parts have one."""
        return sp.Add(*(t.doit() for t in self._difference()))

    def _difference(self) -> tuple[sp.Expr, sp.Expr]:
        f, (v, d) = self.integrand, self.args[1:]
        return Expectation(f**2, v), -PairExpectation(f * f.xreplace({x: y}), v, v - d, v)

    def _eval_derivative(self, s: sp.Symbol) -> sp.Expr:
        return sp.Add(*(t.diff(s) for t in self._difference()))

    def _integrate(self, prec: int) -> mp.mpf:
        form = sp.Add(*self._difference()).replace(lambda t: isinstance(t, Node), _closed_or_self)
        if form.has(sp.hyper) and not form.has(Node):  # powers: next to the diagonal panels see little of a root
            with suppress(ArithmeticError), mp.workprec(prec):
                return gaussian.arithmetic.precise_number(gaussian.closed_digits.settled(form, prec))
        return gaussian.precise.gap_of_pair(self.integrand, self.args[1], self.args[2], prec)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        second, product = self._difference()
        text = rf"\left({printer._print(second)} - {printer._print(-product)}\right)"
        return text if exp is None else rf"{text}^{{{exp}}}"


def E(f: Any, *law: Any, mean: Any = 0) -> sp.Expr:
    r"""The expectation E f(u), u ~ N(mean, q), or E f(u, v) for variances q and covariance p: an inert node.

    Parameters
    ----------
    f : sympy expression
        In `mf.x`; with two variables in `mf.x` and `mf.y`, of which closed forms and kernels know sums of products of functions of two
        directions each, f(a x + b y) g(c x + d y), digits any. The result has no free x or y.
    *law : number or sympy expression
        `q`; or `q, p` (two variables of variance q > 0 and covariance |p| <= q); or `q1, p, q2` for unequal variances.
    mean : number or sympy expression
        The common mean, 0 by default.

    Raises
    ------
    TypeError
        f or an argument is no expression, or the number of arguments is not 1, 2 or 3.
    ValueError
        f depends on mf.y while only a variance is given.

    Examples
    --------
    >>> import sympy as sp, meanfield as mf
    >>> mf.E(mf.x**2 * sp.tanh(mf.x), mf.q)
    E(x**2*tanh(x), q)
    >>> mf.E(sp.Abs(mf.x), mf.q).doit()
    sqrt(2)*sqrt(q)/sqrt(pi)
    >>> mf.E(sp.sign(mf.x) * sp.sign(mf.y), mf.q, mf.p).doit()
    2*asin(p/q)/pi
    >>> mf.E(sp.Max(mf.x, mf.y) * sp.Min(mf.x, mf.y), mf.q, mf.p).doit()
    p
    """
    f = gaussian.domains.without_reciprocals(arguments.expression(f, "f"))
    m = arguments.law(mean, "mean")
    if not 1 <= len(law) <= 3:
        raise TypeError(f"mf.E takes f and q, or q, p, or q1, p, q2: got {len(law)} arguments after f")
    values = [arguments.law(a, name) for a, name in zip(law, ("q", "p", "q2"), strict=False)]
    for v, name in zip(values[::2], ("q", "q2"), strict=False):
        arguments.check_variance(v, name)
    if len(values) > 1:
        values[1] = arguments.covariance(law[1], values[0], values[-1] if len(values) == 3 else values[0], *law[::2])
    if len(law) == 1:
        if y in f.free_symbols:
            raise ValueError(f"f = {f} depends on y: give the covariance too, mf.E(f, q, p)")
        return Expectation(f, values[0], m)
    if len(law) == 2:
        return PairExpectation(f, values[0], values[1], values[0], m)
    return PairExpectation(f, values[0], values[1], values[2], m)
