r"""Expectations as sympy nodes: what they share, and E f(u) itself; those of two Gaussians are in `pair_expectation`.

Each node has three faces: the folded name (itself), the definition (`doit`, a closed form where the algebra reaches, itself where
not) and LaTeX. It differentiates by Price's theorem and evaluates to any number of digits. x and y are bound inside.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield import arguments, gaussian
from meanfield.gaussian.half_waves import CosineNormalCDF, SineNormalCDF
from meanfield.gaussian.quadrant_waves import BivariateCosineCDF, BivariateSineCDF
from meanfield.gaussian.special import BivariateDensity, BivariateNormalCDF, NormalCDF, NormalDensity
from meanfield.symbols import known

__all__ = ["BY_DIGITS", "FOR_READING", "Expectation", "Node", "density", "derived", "expansion_of", "moved", "stated"]

x, y, q, p, q1, q2, delta = (known(name) for name in ("x", "y", "q", "p", "q1", "q2", "delta"))


#: heads of closed forms that have digits and no kernel
BY_DIGITS = (sp.erfi, sp.hyper, BivariateCosineCDF, BivariateSineCDF)
#: closed forms in these heads are for reading: their numbers are safer by quadrature of what they state
FOR_READING = (*BY_DIGITS, NormalCDF, NormalDensity, CosineNormalCDF, SineNormalCDF, BivariateNormalCDF, BivariateDensity)

#: what the letters of a law are called where the integrand uses them too
_APART = {s: sp.Symbol(f"given {s.name}", **s._assumptions_orig) for s in (q, p, q1, q2, delta)}

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
    if result != e and result.free_symbols == e.free_symbols and not result.has(S.Infinity, S.NegativeInfinity):
        if len(_STATED) >= 4096:
            del _STATED[next(iter(_STATED))]
        _STATED[result] = e
    return result


def _is_for_numbers(form: sp.Expr) -> bool:
    """Whether a closed form is faster than its integral: sums of bivariate normals and of waves in quadrants cancel; at correlation 1 or -1
    a form may be 0/0."""
    return not form.has(BivariateNormalCDF, BivariateCosineCDF, BivariateSineCDF, S.NaN, S.ComplexInfinity)


class Node(sp.Expr):
    """An expectation: what the three nodes share."""

    name = "E"
    is_commutative = True
    is_real = True

    @property
    def integrand(self) -> sp.Expr:
        return self.args[0]

    @property
    def bound_symbols(self) -> set[sp.Symbol]:
        return {x, y}

    @property
    def canonical_variables(self) -> dict[sp.Basic, sp.Symbol]:
        return {s: s for s in self.bound_symbols}  # renamed they would be constants, and sympy, asking what is free, lose the law

    @property
    def free_symbols(self) -> set[sp.Basic]:
        found: set[sp.Basic] = self.integrand.free_symbols - {x, y}
        return found.union(*(a.free_symbols for a in self.args[1:]))

    @property
    def weighed_by_its_law(self) -> bool:
        """Whether what is integrated depends on the law that it is integrated under, so that its terms may cancel."""
        return not self.integrand.free_symbols.isdisjoint(set().union(*(a.free_symbols for a in self.args[1:])))

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> sp.Expr:
        if new.free_symbols & self.bound_symbols and self.has_free(old):
            raise ValueError(f"{new} in the place of {old} in {self}: x and y are bound by the expectation, whose own they would be")
        f = self.integrand if old.free_symbols & self.bound_symbols else self.integrand._subs(old, new)
        return self.func(f, *[a._subs(old, new) for a in self.args[1:]])

    def _eval_is_polynomial(self, syms: set[sp.Basic]) -> bool:
        return self.free_symbols.isdisjoint(syms)  # else sympy takes it as a constant, bound symbols hiding the others

    def _eval_nseries(self, s: sp.Symbol, n: sp.Expr, logx: sp.Expr | None, cdir: Any = 0) -> sp.Expr:
        return gaussian.node_series.terms_below(self, s, n, logx, cdir)

    def _eval_as_leading_term(self, s: sp.Symbol, logx: sp.Expr | None = None, cdir: Any = 0) -> sp.Expr:
        return gaussian.node_series.first_term(self, s, logx, cdir)

    def _eval_rewrite_as_tractable(self, *args: sp.Expr, limitvar: sp.Symbol | None = None, **hints: Any) -> sp.Expr:
        if limitvar in self.free_symbols:
            raise gaussian.node_series.no_limit(self, limitvar)
        return self

    _eval_is_rational_function = _eval_is_algebraic_expr = _eval_is_polynomial

    def form(self) -> tuple[sp.Expr | None, dict[sp.Symbol, sp.Expr]]:
        """The closed form in the library's own symbols, radicands factored, and what these symbols stand for; None if there is none."""
        raise TypeError(f"{type(self).__name__} states no closed form")

    def _apart(self) -> tuple[sp.Expr | None, dict[sp.Symbol, sp.Expr]]:
        """`form`, where the integrand may depend on the letters of its law: E exp(q u) at variance 2q"""
        shared = self.integrand.free_symbols & _APART.keys()
        if not shared:
            return self.form()
        form, values = self.func(self.integrand.xreplace({s: _APART[s] for s in shared}), *self.args[1:]).form()
        return form, values | {_APART[s]: s for s in shared}

    def closed(self) -> sp.Expr | None:
        """The closed form with factored radicands, or None."""
        form, values = self._apart()
        return None if form is None else _put(form, values)

    def _beyond_form(self) -> sp.Basic | None:
        """The condition under which the closed form holds, where that is known not to hold."""
        form, values = self._apart()
        where = sp.true if form is None else gaussian.guards.unguarded(form)[1]
        return where if where.subs(values, simultaneous=True) == sp.false else None

    def infinite_beyond(self) -> sp.Basic | None:
        """The condition under which the expectation is finite, where it is known not to hold."""
        where = self._beyond_form()
        if where is None or self._is_finite() is not False:
            return None
        whole = self.where_finite()
        return where if whole is None else whole

    def _is_finite(self) -> bool | None:
        """Whether it is known to be finite, where its closed form does not hold; None at a bound of which it is not known."""
        return False

    def where_finite(self) -> sp.Basic | None:
        """The condition under which it is finite, where its closed form holds for some of that only."""
        return None

    def doit(self, **hints: Any) -> sp.Expr:
        form, values = self._apart()
        if form is None:
            return self.conditioned().doit() if self.integrand.has(sp.DiracDelta) else self
        result = _put(gaussian.forms.literature(form), values)
        return self if result.has(S.NaN, S.ComplexInfinity) else _remembered(result, self)  # 0/0 at correlation 1 or -1

    def check_law(self) -> None:
        """Raises ValueError where there is no such law."""

    def at_rest(self) -> sp.Expr | None:
        """The value where nothing varies. Raises NoExpansion where it has none there."""
        return None

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if self.free_symbols:
            return None
        self.check_law()
        try:
            rest = self.at_rest()
        except gaussian.series.NoExpansion:
            raise ValueError(f"{self}: no value where nothing varies") from None
        if rest is not None:
            return rest.evalf(mp.libmp.prec_to_dps(prec))
        result = self.closed()
        if result in (S.Infinity, S.NegativeInfinity):
            return result
        if self.integrand.has(sp.DiracDelta):
            return self.conditioned().evalf(mp.libmp.prec_to_dps(prec))
        if result is not None and _is_for_numbers(result):
            with suppress(ArithmeticError, MemoryError):  # exp(2q) (Phi(a) - Phi(b)) at q = 1e12 may lose all digits that there are
                return gaussian.closed_digits.settled(result, prec)
        try:
            return sp.Float._new(self._integrate(prec + 10)._mpf_, prec)
        except ArithmeticError:
            if (finite := self.infinite_beyond()) is not None:
                raise ValueError(gaussian.finiteness.refusal(self, finite)) from None
            place, where = gaussian.domains.unreal_at(self.integrand), self._beyond_form()
            if where is not None and self._is_finite():
                raise ArithmeticError(f"{self} is finite, but its closed form holds only for {where}, and quadrature ends there") from None
            if place is None:
                raise
            raise ValueError(f"{self}: {self.integrand} is not real at x = {place}") from None

    def conditioned(self) -> sp.Expr:
        """The same without deltas: each fixes its variable."""
        raise TypeError(f"{type(self).__name__} holds no deltas")

    def taylor(self, order: int = 4) -> gaussian.expansions.Expansion:
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

    def asymptotic(self, terms: int = 3) -> gaussian.expansions.Expansion:
        r"""The first terms of the expansion in descending powers (and logarithms) of the variance as it grows.

        f is its tails, sums of powers and logarithms, and a rest of which a wide Gaussian sees the moments only: E r(u) =
        (2 \pi q)^{-1/2} \sum_k (-1)^k m_{2k} / (k! (2q)^k), m_j = \int y^j r(y) dy (Wong 1989, ch. III), Hadamard's finite part where the
        integral diverges. For two variables the tails are powers |x|^k, k > -1, or polynomials in ln|x|, and the correlation is fixed:
        q (1 - \rho^2) >> 1. The series diverges in the end, as such series do.

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
        return f"{self.name}({inner})"


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

    def check_law(self) -> None:
        if self.variance.is_nonnegative is False:
            raise ValueError(f"{self}: expected a variance of at least 0, got {self.variance}")

    def at_rest(self) -> sp.Expr | None:
        return gaussian.local_expansions.mean_near(self.integrand, self.mean)[0] if self.variance == 0 else None

    def form(self) -> tuple[sp.Expr | None, dict[sp.Symbol, sp.Expr]]:
        f, centred = self.integrand, self.mean == 0
        above = f.xreplace({x: self.mean + x})
        if above.xreplace({x: -x}) == -above:
            bound = gaussian.growth.finite_below(f)
            if bound is None:  # or it hangs on a parameter, where a mean in closed form tells
                form = gaussian.closed.mean(f) if f.free_symbols != {x} else None
                return gaussian.guards.guarded(S.Zero, sp.true if form is None else gaussian.guards.unguarded(form)[1]), {q: self.variance}
            within = q <= bound if gaussian.growth.met_at_bound(above) else q < bound
            return (gaussian.guards.guarded(S.Zero, within) if bound else None), {q: self.variance}
        result = gaussian.closed.mean(f, centred)
        if result is None:
            result = gaussian.closed.product_mean(*_halves(f), centred)
        left = gaussian.growth.left_of(f, self.mean, self.variance) if result is None else None
        whole = None if left is None else gaussian.finite_parts.over_the_line(left)
        if whole is not None:
            return whole / sp.sqrt(2 * sp.pi * self.variance), {}
        return result, {q: self.variance, gaussian.closed.M: self.mean}

    def _is_finite(self) -> bool | None:
        if (
            gaussian.growth.falls(self.integrand, self.variance) is True
            or gaussian.growth.left_of(self.integrand, self.mean, self.variance) is not None
        ):
            return True
        return None if gaussian.growth.untold(self.integrand.xreplace({x: self.mean + x}), self.variance) else False

    def infinite_beyond(self) -> sp.Basic | None:
        where = super().infinite_beyond()
        if where is not None or not self.variance.is_number:
            return where
        return gaussian.growth.beyond(self.integrand.xreplace({x: self.mean + x}), self.variance)

    def conditioned(self) -> sp.Expr:
        f, law = self.integrand, self.args[1:]
        cases = (t.args[0].cond for t in f.atoms(sp.Piecewise) if x not in t.free_symbols)
        case = min(cases, key=sp.default_sort_key, default=None)
        if case is not None:  # a delta that is there for some values of parameters
            first, last = (Expectation(f.xreplace({case: holds}), *law) for holds in (sp.true, sp.false))
            return sp.Piecewise((_without_deltas(first), case), (_without_deltas(last), True))
        rest, found = gaussian.slopes.deltas(f)
        if any(_meets(d) for d in found):
            return S.Infinity  # the square of a delta
        return Expectation(rest, *law) + sp.Add(*[self._at(d) for d in found if not d.factor.has(sp.DiracDelta)])

    def _at(self, d: gaussian.slopes.Delta) -> sp.Expr:
        """E[factor delta^(k)(u - place)] = (-1)^k (factor density)^(k) there"""
        return (-1) ** d.order * (d.factor * density(x, self.mean, self.variance)).diff(x, d.order).xreplace({x: d.place})

    def _eval_derivative(self, s: sp.Symbol) -> sp.Expr:
        f, v, m = self.integrand, self.variance, self.mean
        result = Expectation(gaussian.slopes.derivative_in(f, s), v, m) if s in f.free_symbols else S.Zero
        if v.diff(s) == m.diff(s) == 0:
            return result
        rate = None if gaussian.growth.unbounded(f) else gaussian.slopes.slope(f)
        if rate is None or not gaussian.slopes.has_places(
            rate
        ):  # not integrable, or jumps without end: the derivative of the density instead
            mean, first, second = (Expectation(x**k * f, v, m) for k in range(3))
            by_v = (second - 2 * m * first + (m**2 - v) * mean) / (2 * v**2)
            return result + v.diff(s) * by_v + m.diff(s) * (first - m * mean) / v
        # d/dv of f(m + sqrt(v) z): one derivative of f is enough
        result += v.diff(s) * Expectation((x - m) * gaussian.slopes.gathered(rate), v, m) / (2 * v)
        return result + m.diff(s) * Expectation(rate, v, m)

    def taylor(self, order: int = 4) -> gaussian.expansions.Expansion:
        order = arguments.check_integer(order, "order", 0)
        found = gaussian.expansions.taylor(moved(self.integrand, x, self.mean, self.variance), order)
        return expansion_of(self, (self.variance,), S.Zero, *found)

    def asymptotic(self, terms: int = 3) -> gaussian.expansions.Expansion:
        terms = arguments.check_integer(terms, "terms", 1)
        found = gaussian.expansions.asymptotic(moved(self.integrand, x, self.mean, self.variance), terms)
        return expansion_of(self, (self.variance,), S.Infinity, *found)

    def _integrate(self, prec: int) -> mp.mpf:
        return gaussian.precise.mean_of(self.integrand, self.mean, self.variance, prec)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        u = sp.Symbol("u")
        inner = printer._print(self.integrand.xreplace({x: u}))
        law = rf"{printer._print(self.mean)}, {printer._print(self.variance)}"
        text = rf"\mathbb{{E}}_{{u \sim \mathcal{{N}}({law})}}\left[{inner}\right]"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"


def moved(f: sp.Expr, variable: sp.Symbol, mean: sp.Expr, *variances: sp.Expr) -> sp.Expr:
    """f(mean + variable), for an expansion in the variances"""
    for v in variances:
        if v.is_number:
            raise ValueError(f"the variance {v} is a number: an expansion is made in a symbol, and evaluated at a number")
        if v.free_symbols & f.free_symbols:
            raise ValueError(f"{f} depends on the variance {v}")
    if f.has(sp.DiracDelta):
        raise ValueError(f"{f} contains a delta: its expectation is a density, in closed form")
    return f.xreplace({variable: variable + mean}) if mean != 0 else f


def expansion_of(
    node: sp.Expr, law: tuple[sp.Expr, ...], point: sp.Expr, terms: tuple[tuple[sp.Expr, sp.Expr], ...], remainder: sp.Expr
) -> gaussian.expansions.Expansion:
    """an expansion in the library's own symbols as one in those of a node"""
    if len(law) == 1:
        values, scale = {q: law[0]}, law[0]
    elif law[0] == law[2]:
        values, scale = {q: law[0], p: law[1]}, law[0]
    else:
        values, scale = {q1: law[0], p: law[1], q2: law[2]}, law[0] + law[2]
    own = tuple((c.subs(values, simultaneous=True), e) for c, e in terms)
    return gaussian.expansions.Expansion(node, law, point, own, remainder.subs(q, scale))


def _without_deltas(e: sp.Expr) -> sp.Expr:
    return e.replace(lambda t: isinstance(t, Expectation) and t.integrand.has(sp.DiracDelta), lambda t: t.conditioned())


def _meets(d: gaussian.slopes.Delta) -> bool:
    """whether another delta is at its place, whatever the parameters are"""
    there = d.factor.xreplace({x: d.place}).replace(sp.DiracDelta, lambda z, *_: S.Infinity if sp.expand(z) == 0 else S.Zero)
    return bool(there.has(S.Infinity, S.NaN))


def density(a: sp.Expr, mean: sp.Expr, variance: sp.Expr) -> sp.Expr:
    return NormalDensity((a - mean) / sp.sqrt(variance)) / sp.sqrt(variance)


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
