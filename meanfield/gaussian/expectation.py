r"""Expectations as sympy nodes: E f(u), E f(u, v) and the gap E f(u)^2 - E f(u) f(v).

Each node has three faces: the folded name (itself), the definition (`doit`, a closed form where the algebra reaches, itself where
not) and LaTeX. It differentiates by Price's theorem and evaluates to any number of digits. x and y are bound inside.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield import arguments
from meanfield.gaussian import closed, expansions, pair_expansions
from meanfield.gaussian.expansions import Expansion
from meanfield.gaussian.forms import literature
from meanfield.gaussian.pieces import Delta, deltas, gathered, slope
from meanfield.gaussian.precise import gap_of_pair, law_of, mean_of, nested_mean, product_mean_of, settled
from meanfield.gaussian.special import BivariateDensity, BivariateNormalCDF, NormalCDF, NormalDensity
from meanfield.symbols import known

__all__ = ["FOR_READING", "E", "Expectation", "Gap", "Node", "PairExpectation", "derived", "stated"]

x, y, q, p, q1, q2, delta = (known(name) for name in ("x", "y", "q", "p", "q1", "q2", "delta"))


#: closed forms in these heads are for reading: their numbers are safer by quadrature of what they state
FOR_READING = (BivariateNormalCDF, BivariateDensity, NormalCDF, NormalDensity, sp.erfi, sp.hyper, sp.gamma)

_STATED: dict[sp.Expr, sp.Expr] = {}


def derived(e: sp.Expr) -> sp.Expr:
    """A multiple of an expectation in closed form, which remembers what it states; itself where there is none."""
    return _remembered(e.doit(), e)


def stated(e: sp.Expr) -> sp.Expr:
    """The expectation that a closed form was derived from; any other expression itself."""
    return _STATED.get(e, e)


def _put(form: sp.Expr, values: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    """a form with values for its symbols, those that change"""
    return form.xreplace({s: v for s, v in values.items() if s != v})


def _remembered(result: sp.Expr, e: sp.Expr) -> sp.Expr:
    if result != e and result.free_symbols == e.free_symbols:
        if len(_STATED) >= 4096:
            del _STATED[next(iter(_STATED))]
        _STATED[result] = e
    return result


class Node(sp.Expr):
    """An expectation: what the three nodes share."""

    is_commutative = True
    is_real = True

    @property
    def integrand(self) -> sp.Expr:
        return self.args[0]

    @property
    def bound_symbols(self) -> set[sp.Symbol]:
        return {x, y}

    @property
    def free_symbols(self) -> set[sp.Basic]:
        found: set[sp.Basic] = self.integrand.free_symbols - {x, y}
        return found.union(*(a.free_symbols for a in self.args[1:]))

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> sp.Expr:
        f = self.integrand if old in (x, y) else self.integrand._subs(old, new)
        return self.func(f, *[a._subs(old, new) for a in self.args[1:]])

    def form(self) -> tuple[sp.Expr | None, dict[sp.Symbol, sp.Expr]]:
        """The closed form in the library's own symbols, radicands factored, and what these symbols stand for; None if there is none."""
        raise TypeError(f"{type(self).__name__} states no closed form")

    def closed(self) -> sp.Expr | None:
        """The closed form with factored radicands, or None."""
        form, values = self.form()
        return None if form is None else _put(form, values)

    def doit(self, **hints: Any) -> sp.Expr:
        form, values = self.form()
        if form is None:
            return self.conditioned().doit() if self.integrand.has(sp.DiracDelta) else self
        result = _put(literature(form), values)
        return self if result.has(S.NaN, S.ComplexInfinity) else _remembered(result, self)  # 0/0 at correlation 1 or -1

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if self.free_symbols:
            return None
        if self.integrand.has(sp.DiracDelta):
            return self.conditioned().evalf(mp.libmp.prec_to_dps(prec))
        result = self.closed()
        # sums of bivariate normals cancel: the integral is faster; at correlation 1 or -1 a form may be 0/0
        if result is not None and not result.has(BivariateNormalCDF, S.NaN, S.ComplexInfinity):
            return settled(result, prec)
        return sp.Float._new(self._integrate(prec + 10)._mpf_, prec)

    def conditioned(self) -> sp.Expr:
        """The same without deltas: each fixes its variable."""
        raise TypeError(f"{type(self).__name__} holds no deltas")

    def taylor(self, order: int = 4) -> Expansion:
        r"""The expansion in powers of the variances, up to `order`, as they go to 0.

        E f(u) = \sum_k f^{(2k)}(m) q^k / (2^k k!), with E|z|^k for the one-sided derivatives of f where it has a kink at the mean m; for
        two variables \sum_n p^n/n! E f^{(n)}(u) E g^{(n)}(v) (Price 1958), whose terms have degree up to `order` in (q1, p, q2) together.

        Raises
        ------
        ValueError
            f has no Taylor expansion there (sqrt|x|, log|x|), or the variance is a number.

        >>> import sympy as sp, meanfield as mf
        >>> mf.E(mf.x**2 * sp.tanh(mf.x)**2, mf.q).taylor(3)
        Expansion(E(x**2*tanh(x)**2, q) = 3*q**2 - 10*q**3 + O(q**4), q -> 0)
        >>> mf.E(sp.tanh(mf.x) * sp.tanh(mf.y), mf.q, mf.p).taylor(2)
        Expansion(E(tanh(x)*tanh(y), q, p) = p - 2*p*q + O(q**3), q -> 0)
        """
        raise TypeError(f"{type(self).__name__} has no expansion of its own: expand the second moment and the kernel")

    def asymptotic(self, terms: int = 3) -> Expansion:
        r"""The first terms of the expansion in descending powers (and logarithms) of the variance as it grows.

        f is its tails, sums of powers and logarithms, and a rest of which a wide Gaussian sees the moments only: E r(u) =
        (2 \pi q)^{-1/2} \sum_k (-1)^k m_{2k} / (k! (2q)^k), m_j = \int y^j r(y) dy (Wong 1989, ch. III), Hadamard's finite part where the
        integral diverges. For two variables the tails must be polynomials, and the correlation is fixed: q (1 - \rho^2) >> 1. The series
        diverges in the end, as such series do.

        Raises
        ------
        ValueError
            f grows exponentially or oscillates, its tails are no powers and logarithms, or the variance is a number.

        >>> import sympy as sp, meanfield as mf
        >>> mf.E(sp.tanh(mf.x)**2, mf.q).asymptotic(2)
        Expansion(E(tanh(x)**2, q) = 1 - sqrt(2)/(sqrt(pi)*sqrt(q)) + O(q**(-3/2)), q -> oo)
        >>> mf.E(sp.tanh(mf.x) * sp.tanh(mf.y), mf.q, mf.p).asymptotic(2)
        Expansion(E(tanh(x)*tanh(y), q, p) = 2*asin(p/q)/pi - pi*p/(6*q*sqrt(-p**2 + q**2)) + O(q**(-2)), q -> oo)
        """
        raise TypeError(f"{type(self).__name__} has no expansion of its own: expand the second moment and the kernel")

    def _integrate(self, prec: int) -> mp.mpf:
        """The value to prec bits."""
        raise TypeError(f"{type(self).__name__} states no integral")

    def _sympystr(self, printer: Any) -> str:
        law = list(self.args[1:])
        while len(law) > 1 and law[-1] == 0:  # centred
            law.pop()
        if len(law) == 3 and law[0] == law[2]:  # equal variances
            law.pop()
        inner = ", ".join(printer._print(a) for a in (self.integrand, *law))
        return f"{'Gap' if isinstance(self, Gap) else 'E'}({inner})"


class Expectation(Node):
    r"""E f(u), u ~ N(mean, q): `Expectation(f, q, mean)` with f an expression in mf.x."""

    def __new__(cls, f: Any, variance: sp.Expr, mean: sp.Expr = S.Zero) -> sp.Expr:
        constant, f = f.as_independent(x, as_Add=False)
        if f is S.One:
            return constant
        return constant * sp.Expr.__new__(cls, f, sp.sympify(variance), sp.sympify(mean))

    @property
    def variance(self) -> sp.Expr:
        return self.args[1]

    @property
    def mean(self) -> sp.Expr:
        return self.args[2]

    def form(self) -> tuple[sp.Expr | None, dict[sp.Symbol, sp.Expr]]:
        f, centred = self.integrand, self.mean == 0
        if centred and f.xreplace({x: -x}) == -f:
            return S.Zero, {}
        result = closed.mean(f, centred)
        if result is None:
            result = closed.product_mean(*_halves(f), centred)
        return result, {q: self.variance, closed.M: self.mean}

    def conditioned(self) -> sp.Expr:
        rest, found = deltas(self.integrand)
        if any(d.factor.has(sp.DiracDelta) and d.factor.xreplace({x: d.place}) != 0 for d in found):
            return S.Infinity  # the square of a delta
        return Expectation(rest, self.variance, self.mean) + sp.Add(*[self._at(d) for d in found])

    def _at(self, d: Delta) -> sp.Expr:
        """E[factor delta^(k)(u - place)] = (-1)^k (factor density)^(k) there"""
        return (-1) ** d.order * (d.factor * _density(x, self.mean, self.variance)).diff(x, d.order).xreplace({x: d.place})

    def _eval_derivative(self, s: sp.Symbol) -> sp.Expr:
        f, v, m = self.integrand, self.variance, self.mean
        result = Expectation(f.diff(s), v, m) if s in f.free_symbols else S.Zero
        # d/dv of f(m + sqrt(v) z): one derivative of f is enough
        result += v.diff(s) * Expectation((x - m) * gathered(slope(f)), v, m) / (2 * v)
        return result + m.diff(s) * Expectation(slope(f), v, m)

    def taylor(self, order: int = 4) -> Expansion:
        order = arguments.check_integer(order, "order", 0)
        found = expansions.taylor(_about(self.integrand, x, self.mean, self.variance), order)
        return _expansion(self, (self.variance,), S.Zero, *found)

    def asymptotic(self, terms: int = 3) -> Expansion:
        terms = arguments.check_integer(terms, "terms", 1)
        found = expansions.asymptotic(_about(self.integrand, x, self.mean, self.variance), terms)
        return _expansion(self, (self.variance,), S.Infinity, *found)

    def _integrate(self, prec: int) -> mp.mpf:
        return mean_of(self.integrand, self.mean, self.variance, prec)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        u = sp.Symbol("u")
        inner = printer._print(self.integrand.xreplace({x: u}))
        law = rf"{printer._print(self.mean)}, {printer._print(self.variance)}"
        text = rf"\mathbb{{E}}_{{u \sim \mathcal{{N}}({law})}}\left[{inner}\right]"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"


def _about(f: sp.Expr, variable: sp.Symbol, mean: sp.Expr, *variances: sp.Expr) -> sp.Expr:
    """f(mean + variable), for an expansion in the variances"""
    for v in variances:
        if v.is_number:
            raise ValueError(f"the variance {v} is a number: an expansion is made in a symbol, and evaluated at a number")
        if v.free_symbols & f.free_symbols:
            raise ValueError(f"{f} depends on the variance {v}")
    if f.has(sp.DiracDelta):
        raise ValueError(f"{f} contains a delta: its expectation is a density, in closed form")
    return f.xreplace({variable: variable + mean}) if mean != 0 else f


def _expansion(
    node: sp.Expr, law: tuple[sp.Expr, ...], point: sp.Expr, terms: tuple[tuple[sp.Expr, sp.Expr], ...], remainder: sp.Expr
) -> Expansion:
    """an expansion in the library's own symbols as one in those of a node"""
    if len(law) == 1:
        values, scale = {q: law[0]}, law[0]
    elif law[0] == law[2]:
        values, scale = {q: law[0], p: law[1]}, law[0]
    else:
        values, scale = {q1: law[0], p: law[1], q2: law[2]}, law[0] + law[2]
    own = tuple((c.subs(values, simultaneous=True), e) for c, e in terms)
    return Expansion(node, law, point, own, remainder.subs(q, scale))


def _density(a: sp.Expr, mean: sp.Expr, variance: sp.Expr) -> sp.Expr:
    return NormalDensity((a - mean) / sp.sqrt(variance)) / sp.sqrt(variance)


def _closed_or_self(node: Node) -> sp.Expr:
    form = node.closed()
    return node if form is None else form


def _halves(f: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """f as a product of two functions, even powers halved: a square whose expansion has no atoms may have a root that has"""
    first, second = S.One, S.One
    for factor in sp.Mul.make_args(f):
        base, k = factor.as_base_exp()
        if k.is_Integer and k > 1:
            first, second = first * base ** (k - k // 2), second * base ** (k // 2)
        else:
            first *= factor
    return first, second


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

    def form(self) -> tuple[sp.Expr | None, dict[sp.Symbol, sp.Expr]]:
        _, v1, cov, v2, m1, m2 = self.args
        parts = self.separated()
        if parts is None:
            terms = sp.Add.make_args(sp.expand(self.integrand))
            if len(terms) == 1:
                return None, {}
            done = [PairExpectation(t, v1, cov, v2, m1, m2) for t in terms]
            total = sp.Add(*done).replace(lambda t: isinstance(t, Node), _closed_or_self)
            return None if total.has(Node) else total, {}
        means = (m1, m2) if m1 == m2 == 0 else (closed.M, closed.M if m1 == m2 else closed.M2)
        values = dict(zip(means, (m1, m2), strict=True)) if m1 != 0 or m2 != 0 else {}
        if v1 == v2:
            return closed.cross(*parts, means), {q: v1, p: cov, **values}
        return closed.cross_unequal(*parts, means), {q1: v1, p: cov, q2: v2, **values}

    def conditioned(self) -> sp.Expr:
        parts, (v1, cov, v2, m1, m2) = self.separated(), self.args[1:]
        if parts is None:
            terms = sp.Add.make_args(sp.expand(self.integrand))
            if len(terms) == 1:
                raise ValueError(f"{self.integrand}: a delta of both variables at once has no expectation here")
            return sp.Add(*[PairExpectation(t, *self.args[1:]) for t in terms])
        (f, first), (g, second) = (deltas(part) for part in parts)
        rest = (v1 - cov) * (v1 + cov) if v1 == v2 else v1 * v2 - cov**2
        a, b = sp.Dummy("a", real=True), sp.Dummy("b", real=True)
        total = PairExpectation(f * g.xreplace({x: y}), v1, cov, v2, m1, m2)
        for d in first:
            here = d.factor.xreplace({x: a}) * _density(a, m1, v1) * Expectation(g, rest / v1, m2 + cov / v1 * (a - m1))
            total += (-1) ** d.order * here.diff(a, d.order).subs(a, d.place)
        for d in second:
            here = d.factor.xreplace({x: b}) * _density(b, m2, v2) * Expectation(f, rest / v2, m1 + cov / v2 * (b - m2))
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

        result = at(f.diff(s)) if s in f.free_symbols else S.Zero
        dx, dy, dxy = self._slopes()
        price = at(dxy)
        result += cov.diff(s) * price
        # d/dv1 at fixed covariance, through the scale of u: no second derivative of f
        result += v1.diff(s) * (at((x - m1) * dx) - cov * price) / (2 * v1)
        result += v2.diff(s) * (at((y - m2) * dy) - cov * price) / (2 * v2)
        return result + m1.diff(s) * at(dx) + m2.diff(s) * at(dy)

    def _slopes(self) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
        """df/dx, df/dy and d^2f/dxdy, products where f is one"""
        parts = self.separated()
        if parts is None:
            dx = slope(self.integrand)
            return dx, slope(self.integrand, y), slope(dx, y)
        (g, h), (dg, dh) = parts, (gathered(slope(part)) for part in parts)
        h, dh = h.xreplace({x: y}), dh.xreplace({x: y})
        return dg * h, g * dh, dg * dh

    def _about(self) -> tuple[sp.Expr, sp.Expr]:
        parts = self.separated()
        if parts is None:
            raise ValueError(f"{self} is no product f(x) g(y); expand it into such products first")
        v1, _, v2, m1, m2 = self.args[1:]
        return _about(parts[0], x, m1, v1), _about(parts[1], x, m2, v2)

    def taylor(self, order: int = 4) -> Expansion:
        order = arguments.check_integer(order, "order", 0)
        v1, cov, v2 = self.args[1:4]
        return _expansion(self, (v1, cov, v2), S.Zero, *pair_expansions.pair_taylor(*self._about(), order, v1 == v2))

    def asymptotic(self, terms: int = 3) -> Expansion:
        terms = arguments.check_integer(terms, "terms", 1)
        v1, cov, v2 = self.args[1:4]
        return _expansion(self, (v1, cov, v2), S.Infinity, *pair_expansions.pair_asymptotic(*self._about(), terms, v1 == v2))

    def _integrate(self, prec: int) -> mp.mpf:
        law, parts = law_of(*self.args[1:]), self.separated()
        if parts is not None:
            return product_mean_of(*parts, law, prec)
        return nested_mean(self.integrand, law, prec)

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

    def __new__(cls, f: Any, variance: sp.Expr, gap: sp.Expr) -> sp.Expr:
        variance, gap = sp.sympify(variance), sp.sympify(gap)
        constant, f = f.as_independent(x, as_Add=True)[1].as_independent(x, as_Add=False)
        if f is S.One or f is S.Zero or gap == 0:
            return S.Zero
        return constant**2 * sp.Expr.__new__(cls, f, variance, gap)

    def form(self) -> tuple[sp.Expr | None, dict[sp.Symbol, sp.Expr]]:
        return closed.gap(self.integrand), {q: self.args[1], delta: self.args[2]}

    def doit(self, **hints: Any) -> sp.Expr:
        result = self.closed()
        return self if result is None else result

    def _difference(self) -> tuple[sp.Expr, sp.Expr]:
        f, (v, d) = self.integrand, self.args[1:]
        return Expectation(f**2, v), PairExpectation(f * f.xreplace({x: y}), v, v - d, v)

    def _eval_derivative(self, s: sp.Symbol) -> sp.Expr:
        second, product = self._difference()
        return second.diff(s) - product.diff(s)

    def _integrate(self, prec: int) -> mp.mpf:
        return gap_of_pair(self.integrand, self.args[1], self.args[2], prec)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        second, product = (printer._print(t) for t in self._difference())
        text = rf"\left({second} - {product}\right)"
        return text if exp is None else rf"{text}^{{{exp}}}"


def E(f: Any, *law: Any, mean: Any = 0) -> sp.Expr:
    r"""The expectation E f(u), u ~ N(mean, q), or E f(u, v) for variances q and covariance p: an inert node.

    Parameters
    ----------
    f : sympy expression
        In `mf.x`; with two variables in `mf.x` and `mf.y`. The result has no free x or y.
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
    """
    f = arguments.expression(f, "f")
    m = arguments.law(mean, "mean")
    if not 1 <= len(law) <= 3:
        raise TypeError(f"mf.E takes f and q, or q, p, or q1, p, q2: got {len(law)} arguments after f")
    values = [arguments.law(a, name) for a, name in zip(law, ("q", "p", "q2"), strict=False)]
    for v, name in zip(values[::2], ("q", "q2"), strict=False):
        arguments.check_variance(v, name)
    if len(values) > 1:
        arguments.check_covariance(values[1], values[0], values[-1] if len(values) == 3 else values[0])
    if len(law) == 1:
        if y in f.free_symbols:
            raise ValueError(f"f = {f} depends on y: give the covariance too, mf.E(f, q, p)")
        return Expectation(f, values[0], m)
    if len(law) == 2:
        return PairExpectation(f, values[0], values[1], values[0], m)
    return PairExpectation(f, values[0], values[1], values[2], m)
