"""Expectations as closed forms free of cancellation or as quadrature calls."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from meanfield.gaussian import closed
from meanfield.gaussian.cells import cells, narrowest
from meanfield.gaussian.exchangeable import MOST, Exchangeable, ExchangeableSlope
from meanfield.gaussian.expectation import FOR_READING, Expectation, Node
from meanfield.gaussian.finite_parts import FinitePart
from meanfield.gaussian.forms import angles
from meanfield.gaussian.node_rules import GAP_W, GAP_X
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.pieces import is_smooth
from meanfield.gaussian.powers import is_steep
from meanfield.gaussian.settling import Settled, lost, settled
from meanfield.gaussian.singularities import mended, regular, standardised
from meanfield.gaussian.special import AngleDifference
from meanfield.numeric.calls import Calls
from meanfield.numeric.integrands import Integrand
from meanfield.numeric.printing import Unsupported
from meanfield.numeric.small_variances import small_cross, small_gap, small_mean
from meanfield.symbols import known

__all__ = ["Expectations"]

#: against the fastest oscillation of a square, the deviation below which a gap is the integral of its slope
_CLOSE = 0.2
#: parts of a gap and their weights: Gauss-Legendre in the root of the part, in which a function with kinks is smooth, or in the part
_PARTS = tuple(((0.5 + 0.5 * a) ** 2, w * (0.5 + 0.5 * a)) for a, w in zip(GAP_X, GAP_W, strict=True))
_FEW_PARTS = ((0.5 - 0.5 * 0.6**0.5, 5 / 18), (0.5, 4 / 9), (0.5 + 0.5 * 0.6**0.5, 5 / 18))
#: against the square of half the distance of two singularities, the gap below which each is for itself
_NEAR = 1e-6


x, y, q, delta = known("x"), known("y"), known("q"), known("delta")


class Expectations(Calls):
    """Expressions with every expectation in a numeric form."""

    def numeric(self, e: sp.Expr) -> sp.Expr:
        """The expression with every expectation as a safe closed form or a quadrature call, and arcsines as angles."""
        constants = (FinitePart, sp.polylog, sp.zeta, sp.re, sp.im)
        e = e.replace(lambda t: isinstance(t, constants) and not t.free_symbols, lambda t: t.evalf(25))
        e = e.replace(lambda t: isinstance(t, Node), self._node)
        e = e.replace(lambda t: isinstance(t, sp.Piecewise) and t.args[-1].cond != sp.true, lambda t: t.func(*t.args, (sp.nan, True)))
        return angles(e).replace(lambda t: isinstance(t, AngleDifference), AngleDifference.definition)

    def _node(self, node: sp.Expr) -> sp.Expr:
        if isinstance(node, (Exchangeable, ExchangeableSlope)):
            return self._exchangeable(node)
        if node.integrand.has(sp.DiracDelta):
            form = self._safe(node.closed)
            return self.numeric(node.conditioned()) if form is None else form
        if isinstance(node, Expectation):
            return self._mean(node)
        if isinstance(node, Gap):
            return self._gap(node)
        return self._pair(node)

    def _safe(self, find: Callable[[], sp.Expr | None]) -> sp.Expr | None:
        """a closed form whose numbers are as good as quadrature's"""
        form = None if self.by_quadrature else find()
        return None if form is None or form.has(*FOR_READING) else form

    def _mean(self, node: Expectation) -> sp.Expr:
        c, g, a = standardised(node.integrand)
        small = self._safe(lambda: small_mean(g)) if self.unchecked and node.mean == 0 else None
        if small is not None:
            return c * small.xreplace({q: a**2 * node.variance})
        form = self._safe(node.closed)
        if form is not None:
            return form
        return c * self._mean_of(g, a * node.mean, a**2 * node.variance)

    def _mean_of(self, g: sp.Expr, mean: sp.Expr, variance: sp.Expr) -> sp.Expr:
        integrand, calm = self.integrand(g), settled(mended(g))
        if calm is None:
            return self.call("mean", (integrand,), mean, variance)
        near = self._reaches(g, mean, variance)
        far = self.call("mean", (self.integrand(calm.function),), mean, _where(sp.Not(near), variance))
        return sp.Piecewise((self.call("mean", (integrand,), mean, _where(near, variance)), near), (far, True))

    def _reaches(self, g: sp.Expr, mean: sp.Expr, variance: sp.Expr) -> sp.Expr:
        """whether g itself is resolved by panels as far as the Gaussian goes"""
        return self.call("reaches", (self.integrand(g),), mean, sp.sqrt(variance)) > 0

    def _gap(self, node: Gap) -> sp.Expr:
        f, (v, d) = node.integrand, node.args[1:]
        c, g, a = standardised(f)
        small = self._safe(lambda: small_gap(g)) if self.unchecked else None
        if small is not None:
            return c**2 * small.xreplace({q: a**2 * v, delta: a**2 * d})
        form = self._safe(lambda: closed.gap(f))
        if form is not None:
            return form.xreplace({q: v, delta: d})
        return c**2 * self._gap_of(g, a**2 * v, a**2 * d)

    def _gap_of(self, g: sp.Expr, v: sp.Expr, d: sp.Expr) -> sp.Expr:
        def gap(h: sp.Expr, case: sp.Basic) -> sp.Expr:
            return self.call("gap", (self.integrand(h), self.slope(h)), _where(case, v), d)

        calm = settled(mended(g))
        if calm is None:
            return self._gap_about(g, v, d)
        if g.xreplace({x: -x}) == g:
            d = sp.Min(d, 2 * v - d)
        near = sp.And(self._reaches(g, sp.S.Zero, v), self._reaches(regular(g), sp.S.Zero, v))
        wide = sp.Float(lost(calm) ** 2)
        apart = sp.And(sp.Not(near), sp.Min(d, 2 * v - d) >= wide)
        opposite = sp.And(sp.Not(near), d > v, 2 * v - d < wide)
        close = sp.And(sp.Not(near), d <= v, d < sp.Float(_CLOSE / calm.fastest) ** 2)
        beside = sp.And(sp.Not(near), d <= v, d < wide, sp.Not(close))
        far = gap(calm.function, apart) + self.call("mean", (self.integrand(calm.variance),), sp.S.Zero, _where(apart, v))
        return sp.Piecewise(
            (gap(g, near), near),
            (far, apart),
            (self._second_less(g, calm, v, d, opposite, mirrored=True), opposite),
            (self._second_less(g, calm, v, d, beside), beside),
            (self._slopes_near(g, v, d, close), True),
        )

    def _gap_about(self, g: sp.Expr, v: sp.Expr, d: sp.Expr) -> sp.Expr:
        """A gap in parts, each about a singularity of g, where its inputs are close against what these are apart."""
        found = () if g.free_symbols - {x} else cells(g)
        plain = (self.integrand(g), self.slope(g))
        if not found:
            return self.call("gap", plain, v, d)
        close = sp.And(d <= v, d < sp.Float(min(narrowest(found), 1e150) ** 2 * _NEAR)) if len(found) > 1 else d <= v
        parts = [self.call("gap", (self.written_about(cell), self.slope(cell.function)), _where(close, v), d) for cell in found]
        return sp.Piecewise((sp.Add(*parts), close), (self.call("gap", plain, _where(sp.Not(close), v), d), True))

    def _second_less(self, g: sp.Expr, calm: Settled, v: sp.Expr, d: sp.Expr, case: sp.Basic, mirrored: bool = False) -> sp.Expr:
        """a gap as the second moment less the product, where it is not small against them"""
        law = (sp.S.Zero, v, d, 2 * v - d)
        return self._mean_of(g**2, sp.S.Zero, _where(case, v)) - self._near(g, calm, tuple(_where(case, a) for a in law), mirrored)

    def _slopes_near(self, g: sp.Expr, v: sp.Expr, d: sp.Expr, case: sp.Basic) -> sp.Expr:
        r"""a gap as d \int_0^1 E g'(u) g'(v) dr, u and v a gap of d r apart"""
        slope, total = mended(regular(g)), sp.S.Zero
        calm = settled(slope)
        if calm is None:
            return sp.nan
        for part, weight in _FEW_PARTS if is_smooth(g) else _PARTS:
            law = (sp.S.Zero, _where(case, v), _where(case, d * part), _where(case, 2 * v - d * part))
            total += sp.Float(weight) * d * self._near(slope, calm, law)
        return total

    def _near(self, g: sp.Expr, calm: Settled, law: tuple[sp.Expr, ...], mirrored: bool = False) -> sp.Expr:
        """E g(u) g(v) where u and v, or u and -v, are near each other against a period"""
        if not self.patient:
            return sp.nan
        mean, _, d, total = law
        own = self.integrand(g)
        value, v = sp.Function(f"f_{own.index}", real=True), y - x if mirrored else x - y
        found = calm.pair(own.expression, v, value(x + y) * value(v))
        integrand = self.integrands.setdefault(sp.Tuple(*found), Integrand(found[0], len(self.integrands), found[1]))
        wide, narrow = (d, total) if mirrored else (total, d)
        return self.call("near", (integrand, self.integrand(calm.function)), sp.Integer(mirrored), mean, wide / 2, narrow / 2)

    def _pair(self, node: PairExpectation) -> sp.Expr:
        _, v1, cov, v2, m1, m2 = node.args
        parts = node.separated()
        if parts is None:
            terms = sp.Add.make_args(sp.expand(node.integrand))
            if len(terms) == 1:
                raise Unsupported(f"{node} is no product f(x) g(y): evaluate it with digits=")
            return sp.Add(*[self.numeric(PairExpectation(t, v1, cov, v2, m1, m2)) for t in terms])
        f, g = parts
        if is_steep(f) or is_steep(g):
            raise Unsupported(f"{node}: the integrand is too steep at 0 for quadrature; mf.evaluate takes its closed form")
        c, first, a = standardised(f)
        k, second, b = standardised(g)
        if v1 == v2 and m1 == m2 == 0:
            small = self._safe(lambda: small_cross(first, second)) if self.unchecked and a == b else None
            if small is not None:
                return c * k * small.xreplace({q: a**2 * v1, delta: a**2 * sp.expand(v1 - cov)})
            form = self._safe(lambda: closed.stable_cross(f, g))
            if form is not None:
                return form.xreplace({q: v1, delta: sp.expand(v1 - cov)})
        else:
            form = self._safe(node.closed)
            if form is not None:
                return form
        one, two = self.integrand(first), self.integrand(second)
        if one == two and a == b and v1 == v2 and m1 == m2:
            law = (a * m1, a**2 * v1, a**2 * sp.expand(v1 - cov), a**2 * sp.expand(v1 + cov))
            return c * k * self._cross_of(first, law)
        return c * k * self._two_of(first, second, (a * m1, b * m2, a**2 * v1, a * b * cov, b**2 * v2))

    def _cross_of(self, g: sp.Expr, law: tuple[sp.Expr, ...]) -> sp.Expr:
        calm = settled(mended(g))
        if calm is None:
            return self.call("cross", (self.integrand(g),), *law)
        mean, v, d, total = law
        near, wide = self._reaches(g, mean, v), sp.Min(d, total) >= lost(calm) ** 2

        def within(case: sp.Basic) -> tuple[sp.Expr, ...]:
            return (mean, *(_where(case, a) for a in law[1:]))

        apart, beside = sp.And(sp.Not(near), wide), sp.And(sp.Not(near), sp.Not(wide))
        opposite, same, equal = sp.And(beside, d > v), sp.And(beside, d > 0, d <= v), sp.And(beside, sp.Eq(d, 0))
        return sp.Piecewise(
            (self.call("cross", (self.integrand(g),), *within(near)), near),
            (self.call("cross", (self.integrand(calm.function),), *within(apart)), apart),
            (self._near(g, calm, within(opposite), mirrored=True), opposite),
            (self._near(g, calm, within(same)), same),
            (self._mean_of(g**2, mean, _where(equal, v)), True),
        )

    def _two_of(self, f: sp.Expr, g: sp.Expr, law: tuple[sp.Expr, ...]) -> sp.Expr:
        near, found = self.call("two", (self.integrand(f), self.integrand(g)), *law), [settled(mended(h)) for h in (f, g)]
        if found == [None, None]:
            return near
        m1, m2, v1, cov, v2 = law
        calm = [self.integrand(h if c is None else c.function) for h, c in zip((f, g), found, strict=True)]
        rest = sp.expand(v1 * v2 - cov**2) / 2
        lose = [rest >= v * sp.Float(lost(c) ** 2) for c, v in zip(found, (v2, v1), strict=True) if c is not None]
        reached = [self._reaches(h, m, v) for h, m, v, c in zip((f, g), (m1, m2), (v1, v2), found, strict=True) if c is not None]
        return sp.Piecewise((near, sp.And(*reached)), (self.call("two", tuple(calm), *law), sp.And(*lose)), (sp.nan, True))

    def _exchangeable(self, node: Exchangeable | ExchangeableSlope) -> sp.Expr:
        held, last = (node.powers[:-2], node.powers[-2:]) if node.spread else (node.powers, ())
        powers = (*held, *((0, 0),) * (MOST - len(node.powers)), *last)
        functions = [node.integrand, regular(node.integrand)]
        code = sum((i + 16 * j) * 256**t for t, (i, j) in enumerate(powers))
        kind: str = "exchangeable"
        along: tuple[sp.Expr, ...] = ()
        if isinstance(node, ExchangeableSlope):
            kind, along = "moved", node.along
            functions += [node.rate, regular(node.rate)]
        arguments = (node.variance, node.gap, *along, sp.Integer(node.spread), sp.Integer(code))
        self.moments.add((kind, *functions[::2], *arguments))
        return self.quadrature(kind, tuple(functions), *arguments)


def _where(case: sp.Basic, value: sp.Expr) -> sp.Expr:
    """A value in one case of several, 0 in the others: quadrature of the variance 0 costs nothing."""
    return value if case == sp.true else sp.Piecewise((value, case), (sp.S.Zero, True))
