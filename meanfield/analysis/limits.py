r"""Expressions of a law as series in a variable x -> oo, q and delta given in x: x = q far out, 1/q near 0, q/delta near c = 1.

An expectation is replaced by what it is in that limit, judged by its variance V and gap D: the asymptotic or Taylor series where V grows
or vanishes; Price's theorem about the limit where V and D settle; and, where D vanishes beside V, the kernel near its diagonal,

    E f(u)^2 - E f(u) f(v) = 2 J \sqrt{D/(4 \pi)} + ...   if f jumps,   J = \sum_j (jump of f)^2 n_V(x_j),
                           = C D - (4/3) S D^{3/2}/\sqrt{4 \pi} + ...   if f' does,   C = E f'^2,  S = \sum_j (jump of f')^2 n_V(x_j),
                           = C D - E f''^2 D^2/2 + ...                  if neither does,

n_V the density of u (from d/dp E f(u) g(v) = E f'(u) g'(v), and u - v ~ N(0, 2D); of roots and of more variables see
`near_coincidence`). The sum of powers and logarithms that is left is expanded by `gaussian.local_expansions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import sympy as sp
from sympy import S

from meanfield.analysis.implicit import valued
from meanfield.analysis.near_coincidence import small_gap, small_gap_of_several
from meanfield.analysis.node_series import ORDER, narrow_terms, pair_terms, wide_terms
from meanfield.analysis.signs import sign
from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.faint_means import Faint, faint_mean, faint_pair
from meanfield.gaussian.finite_parts import FinitePart
from meanfield.gaussian.local_expansions import at_infinity
from meanfield.gaussian.logarithmic_moments import near_one
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.power_moments import power_near_one
from meanfield.gaussian.reasons import Reason
from meanfield.gaussian.rewriting import rewritten
from meanfield.gaussian.series import LOG, REST, Letter, NoExpansion
from meanfield.gaussian.shared_parts import put_in
from meanfield.symbols import known

__all__ = ["EXPANDED", "OTHER", "REST", "Limit", "NoExpansion"]

x, y, p, q, delta = (known(name) for name in ("x", "y", "p", "q", "delta"))

#: the expectations that have series, and why others have none
EXPANDED = Exchangeable, Expectation, Gap, PairExpectation
OTHER = "this expectation has no expansion here"

_V, _D = sp.Dummy("V", positive=True), sp.Dummy("D", positive=True)


class Limit:
    """Series in x of expressions in symbols whose own series are known.

    A coefficient that is more than a letter gets a letter of its own, which `whole` replaces by what it stands for: expressions stay
    small, and only what is asked for is written out.
    """

    def __init__(self, values: Mapping[sp.Expr, sp.Expr], order: int = 2, digits: int | None = None) -> None:
        self.values = dict(values)
        self.order = order
        self.digits = digits  # of which coefficients that are numbers are written, where they are many
        self.fading: list[tuple[sp.Expr, sp.Expr]] = []  # (a, c) of the exponentials e^(c x^a + ...), a > 0, that were met
        self.faint: dict[tuple[sp.Expr, sp.Expr], sp.Dummy] = {}  # letters for e^(-b x^c), by (b, c): all is linear in them
        self.missed = ""  # why such an exponential is not given, where one is not
        self._letters: dict[sp.Expr, sp.Dummy] = {}
        self._meaning: dict[sp.Expr, sp.Expr] = {}

    @property
    def _taylor(self) -> int:
        """the order of Taylor series about a vanishing variance"""
        return max(ORDER, self.order - 2)

    def define(self, symbol: sp.Expr, value: sp.Expr) -> None:
        """Give a symbol the first terms of the series of its value, and that there are more."""
        flat = self._laid_out(value)
        self.values[symbol] = self._first(self._expanded(self._plain(flat))) + self._faint_part(flat)

    def _first(self, terms: Mapping[tuple[sp.Expr, int], sp.Expr]) -> sp.Expr:
        """those of less than one power of x, or of more where the order is above 4"""
        least = next(iter(terms), (S.Zero, 0))[0] - max(1, self.order - 3)
        kept = {key: c for key, c in terms.items() if key[0] > least}
        return self._sum(kept) + (REST * x**least if len(kept) < len(terms) else 0)

    def series(self, e: sp.Expr) -> sp.Expr:
        """The terms of e that are above x^-order, and those that are exponentially small."""
        flat = self._laid_out(e)
        return self._sum(self._expanded(self._plain(flat))) + self._faint_part(flat)

    def _plain(self, e: sp.Expr) -> sp.Expr:
        """the expression without what is exponentially small"""
        return e.xreplace(dict.fromkeys(self.faint.values(), S.Zero)) if self.faint else e

    def _faint_part(self, flat: sp.Expr) -> sp.Expr:
        """what is exponentially small in it, to first order in that"""
        slopes = {letter: self._plain(flat.diff(letter)) for letter in self.faint.values() if letter in flat.free_symbols}
        return sp.Add(*[letter * self._sum(self._expanded(slope)) for letter, slope in slopes.items()])

    def faint_terms(self, e: sp.Expr, letter: sp.Dummy) -> dict[tuple[sp.Expr, int], sp.Expr]:
        """The terms of what stands before one of the exponentials in `faint`."""
        return self._expanded(self._plain(self._laid_out(e).diff(letter)))

    def _sum(self, terms: Mapping[tuple[sp.Expr, int], sp.Expr]) -> sp.Expr:
        return sp.Add(*[self.letter(c) * x**a * sp.log(x) ** j for (a, j), c in terms.items()])

    def terms(self, e: sp.Expr) -> dict[tuple[sp.Expr, int], sp.Expr]:
        """(exponent of x, power of log x) -> coefficient, the largest first."""
        return self._expanded(self._plain(self._laid_out(e)))

    def _laid_out(self, e: sp.Expr) -> sp.Expr:
        flat = self._flat(put_in(rewritten(e, lambda t: isinstance(t, Node), self._node), self.values))
        # functions of sums are functions of a series: coefficients that are letters do not swell
        wanted = _is_composed if self.digits is None else lambda t: _is_composed(t) or _is_root(t)
        return rewritten(flat, wanted, lambda t: t.func(self._argument(t.args[0]), *t.args[1:]))

    def _argument(self, e: sp.Expr) -> sp.Expr:
        try:
            terms = self._expanded(self._plain(e))
        except NoExpansion:  # it grows faster than every power, which what is made of it may not
            return e
        return (self._first(terms) if len(terms) > 3 else self._sum(terms)) + self._faint_part(e)

    def _expanded(self, flat: sp.Expr) -> dict[tuple[sp.Expr, int], sp.Expr]:
        for t in flat.atoms(sp.exp):
            a, c = next(iter(sorted(at_infinity(t.args[0], 0).items(), reverse=True)), (S.Zero, S.Zero)) if t.has(x) else (S.Zero, S.Zero)
            if a > 0:
                self.fading.append((a, c))
        found: dict[tuple[sp.Expr, int], sp.Expr] = {}
        for a, c in sorted(at_infinity(flat, self.order).items(), reverse=True):
            for j, b in reversed(list(enumerate(sp.Poly(c, LOG).all_coeffs()[::-1]))):
                if b != 0:
                    found[a, j] = b
        return found

    def quotient(self, a: sp.Expr, b: sp.Expr) -> dict[tuple[sp.Expr, int], sp.Expr]:
        """The terms of the quotient of two series."""
        return self._expanded(self._plain(a / b))

    def letter(self, c: sp.Expr) -> sp.Expr:
        """A letter for a coefficient."""
        if c.is_Rational or c.is_Symbol:
            return c
        if self.digits is not None and not c.free_symbols:
            return valued(c, self.digits)
        if c.is_Mul and c.args[0].is_Rational:
            return c.args[0] * self.letter(c / c.args[0])
        if c not in self._letters:
            sure = {"positive": True} if c.is_positive else {"negative": True} if c.is_negative else {"real": True}
            self._letters[c] = Letter("c", **sure)
            self._letters[c].sides = lambda: sign(self.whole(c))
            self._meaning[self._letters[c]] = c
        return self._letters[c]

    def whole(self, e: sp.Expr) -> sp.Expr:
        """The expression with all letters written out."""
        while found := {s: self._meaning[s] for s in e.free_symbols & self._meaning.keys()}:
            e = put_in(e, found)
        return e

    def _flat(self, e: sp.Expr) -> sp.Expr:
        """the expression with letters for expectations and integrals that do not depend on x"""
        return rewritten(e, lambda t: isinstance(t, (Node, FinitePart)), self.letter)

    # -- expectations ---------------------------------------------------------------------------------------------------
    def _node(self, node: sp.Expr) -> sp.Expr:
        if isinstance(node, Expectation):
            if node.mean != 0:
                raise NoExpansion(node, " is not centred")
            return self._single(node.integrand, node.variance)
        if isinstance(node, Gap):
            f, v, d = node.args
            return self._pair(f, f, v, d, gap=True)
        if isinstance(node, Exchangeable):
            return self._several(node)
        if not isinstance(node, PairExpectation):
            raise NoExpansion(OTHER)
        parts = node.separated()
        _, v1, cov, v2, m1, m2 = node.args
        if parts is None or v1 != v2 or m1 != 0 or m2 != 0:
            raise NoExpansion(node, " is no product of functions of two variables with one law")
        return self._pair(parts[0], parts[1], v1, sp.expand(v1 - cov), gap=False)

    def _leading(self, e: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
        """leading exponent and coefficient of an expression, and its series"""
        flat = self._laid_out(e)
        terms = self._expanded(self._plain(flat))
        series = self._sum(terms) + self._faint_part(flat)
        if not terms:
            return -S.Infinity, S.Zero, series
        (a, j), c = next(iter(terms.items()))
        if j:
            raise NoExpansion(e, " has a leading logarithm")
        if c == REST:
            raise NoExpansion("the size of ", e, " is beyond the terms that the expansions give")
        return a, self.letter(c), series

    def _single(self, f: sp.Expr, variance: sp.Expr) -> sp.Expr:
        if f.has(sp.DiracDelta):
            return self._conditioned(Expectation(f, variance))
        a, v0, v = self._leading(variance)
        if a == 0:
            if v == v0:
                return Expectation(f, v0)
            node = Expectation(f, _V)
            slopes = [node, node.diff(_V), node.diff(_V, 2)]
            return sp.Add(*[d.xreplace({_V: v0}) * (v - v0) ** k / sp.factorial(k) for k, d in enumerate(slopes)]) + REST * (v - v0) ** 3
        found, rest = wide_terms(f) if a > 0 else narrow_terms(f, self._taylor)
        value = sp.Add(*[self.letter(c) * v**e * sp.log(v) ** j for c, e, j in found]) + _left(v, rest)
        return value if rest.is_finite or a > 0 else value + self._faintly(v, lambda: faint_mean(f))

    def _faintly(self, v: sp.Expr, find: Callable[[], tuple[Faint, ...]]) -> sp.Expr:
        """what expectations have beside Taylor series that end, of a variance that is one power of x"""
        v0, power = self._plain(v).as_coeff_exponent(x)
        try:
            found = find()
        except NoExpansion as reason:
            self.missed, found = Reason(reason), ()
        if found and v0.has(x, REST):
            self.missed, found = "the exponent of what is exponentially small is a series", ()
        total = S.Zero
        for own in found:
            key = self.whole(own.rate * v0**-own.power), -power * own.power
            letter = self.faint.setdefault(key, sp.Dummy("faint", positive=True))
            total += letter * (self.letter(own.coefficient) * v**own.exponent + REST * v ** (own.exponent + own.step))
        return total

    def _conditioned(self, node: sp.Expr) -> sp.Expr:
        value = node.conditioned()
        if value.has(sp.oo, sp.zoo):
            raise NoExpansion(node, " is infinite")
        return rewritten(value, lambda t: isinstance(t, Node), self._node)

    def _pair(self, f: sp.Expr, g: sp.Expr, variance: sp.Expr, gap_: sp.Expr, gap: bool) -> sp.Expr:
        (a, v0, v), (b, d0, d) = self._leading(variance), self._leading(gap_)
        if b is -S.Infinity:
            return S.Zero if gap else self._single(f * g, variance)
        if b < a and v == 1:
            near = near_one(f, g, d)
            near = power_near_one(f, g, d) if near is None else near + REST * d
            if near is not None:
                return near
        if b < a:
            value = small_gap(f, g, v, d)
            return rewritten(-value if gap else self._single(f * g, variance) + value, lambda t: isinstance(t, Node), self._node)
        if a == 0:
            return self._settled(f, g, (v0, v), (d0, d), gap)
        rho, shift = 1 - d0 / v0, d0 / v0 - d / v
        found, rest = pair_terms(f, g, a > 0, self._taylor)
        put = {p: rho, q: S.One}
        terms = [(self.letter(c.xreplace(put)) + self._moved(c, put, shift, a * (rest - e))) * v**e * sp.log(v) ** j for c, e, j in found]
        value = sp.Add(*terms) + _left(v, rest)
        if a < 0 and not rest.is_finite:
            value += self._faintly(v, lambda: faint_pair(f, g, rho))
        return self._single(f * g, variance) - value if gap else value

    def _several(self, node: Exchangeable) -> sp.Expr:
        """a moment of exchangeable variables: one or two as what they are, more where their variance settles"""
        factors = node.products()[-1]
        if len(factors) == 1:
            return self._single(factors[0], node.variance)
        if len(factors) == 2:
            alike = node.spread and factors[0] == factors[1]
            pair = self._pair(*factors, node.variance, node.gap, gap=alike)
            return pair if alike or not node.spread else self._single(sp.Mul(*factors), node.variance) - pair
        (a, v0, v), (b, d0, d) = self._leading(node.variance), self._leading(node.gap)
        if a != 0:
            raise NoExpansion(node, " has no expansion as its variance grows or vanishes")
        if b < 0:
            same = S.Zero if node.spread else self._single(sp.Mul(*factors), node.variance)
            return same if b is -S.Infinity else same + small_gap_of_several(factors, node.spread, v, d)
        return self._about(node.func(node.integrand, node.powers, _V, _D, node.spread), (v0, v), (d0, d))

    def _moved(self, c: sp.Expr, put: dict[sp.Expr, sp.Expr], shift: sp.Expr, least: sp.Expr) -> sp.Expr:
        """what a small change of the correlation adds to a coefficient, where that is more than x^least"""
        if next(iter(self.terms(shift)), (-S.Infinity, 0))[0] <= least:
            return S.Zero
        if c.has(PairExpectation):  # its derivative is of functions that may be too steep to have an expectation
            return REST * shift
        slope = _slope_in_p(c)
        return self.letter(slope.xreplace(put)) * shift + (REST * shift**2 if p in slope.free_symbols else S.Zero)

    def _settled(self, f: sp.Expr, g: sp.Expr, vs: tuple[sp.Expr, sp.Expr], ds: tuple[sp.Expr, sp.Expr], gap: bool) -> sp.Expr:
        node = Gap(f, _V, _D) if gap else PairExpectation(f * g.xreplace({x: y}), _V, _V - _D, _V)
        return self._about(node, vs, ds)

    def _about(self, node: sp.Expr, vs: tuple[sp.Expr, sp.Expr], ds: tuple[sp.Expr, sp.Expr]) -> sp.Expr:
        """a node of variance V and gap D to first order about where these settle"""
        (v0, v), (d0, d) = vs, ds
        put = {_V: v0, _D: d0}
        if v == v0 and d == d0:
            return node.xreplace(put)
        second = (v - v0) ** 2 + (d - d0) ** 2
        return node.xreplace(put) + node.diff(_V).xreplace(put) * (v - v0) + node.diff(_D).xreplace(put) * (d - d0) + REST * second


def _is_composed(e: sp.Expr) -> bool:
    """a function or a power other than a polynomial, of a sum in x"""
    return (
        e.has(x)
        and (isinstance(e, sp.Function) or (e.is_Pow and not e.exp.is_positive))
        and not e.args[0].is_Symbol
        and not isinstance(e, sp.log)
    )


def _is_root(e: sp.Expr) -> bool:
    """a root of a sum in x, whose leading coefficient is to have a sign"""
    return bool(e.is_Pow and not e.exp.is_Integer and e.base.is_Add and e.has(x))


def _left(v: sp.Expr, rest: sp.Expr) -> sp.Expr:
    """what is left out of a series in v, if anything is"""
    return REST * v**rest if rest.is_finite else S.Zero


@cache
def _slope_in_p(c: sp.Expr) -> sp.Expr:
    return c.diff(p)
