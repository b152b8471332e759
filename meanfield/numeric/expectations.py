"""Expectations as closed forms free of cancellation or as quadrature calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache

import sympy as sp
from sympy.core.function import AppliedUndef

from meanfield.gaussian import closed
from meanfield.gaussian.cells import about_poles, cells, from_zero, narrowest
from meanfield.gaussian.centring import about_its_mean, without_plateau
from meanfield.gaussian.exchangeable import MOST, Exchangeable, ExchangeableSlope, Power
from meanfield.gaussian.expectation import FOR_READING, Expectation, Node
from meanfield.gaussian.finite_parts import FinitePart
from meanfield.gaussian.forms import angles
from meanfield.gaussian.growth import finite_below
from meanfield.gaussian.guards import guarded, is_guarded, unguarded
from meanfield.gaussian.node_rules import FAINT
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.parities import is_even, is_odd, odd_part
from meanfield.gaussian.pieces import homogeneous_degree
from meanfield.gaussian.powers import powers, resolved
from meanfield.gaussian.projections import Projection
from meanfield.gaussian.reasons import Reason
from meanfield.gaussian.rewriting import rewritten
from meanfield.gaussian.singularities import regular
from meanfield.gaussian.special import AngleDifference, AngleMinusSine, without_hints
from meanfield.gaussian.standardised import standardised
from meanfield.numeric.arcs import TangentSegment
from meanfield.numeric.calls import Calls
from meanfield.numeric.expanding import expanded
from meanfield.numeric.far_powers import FAR, WIDE, far_power, power_and_limit
from meanfield.numeric.integrands import Integrand
from meanfield.numeric.members import TURNED, Members, few_of
from meanfield.numeric.printing import Unsupported
from meanfield.numeric.small_projections import small_projection
from meanfield.numeric.small_variances import small_cross, small_gap, small_mean
from meanfield.numeric.unbounded import bounded_or_weighed, weighed
from meanfield.symbols import known

__all__ = ["Expectations"]

#: against the square of half the distance of two singularities, the gap below which each is for itself
_NEAR = 1e-6
#: variance up to which a closed form that cancels at 0 still loses digits
_EVEN = 4.0


x, y, q, delta = known("x"), known("y"), known("q"), known("delta")


class Expectations(Calls):
    """Expressions with every expectation in a numeric form."""

    def numeric(self, e: sp.Expr) -> sp.Expr:
        """The expression with every expectation as a safe closed form or a quadrature call, and arcsines as angles."""
        constants = (FinitePart, sp.polylog, sp.zeta, sp.re, sp.im)
        e = rewritten(e, lambda t: isinstance(t, constants) and not t.free_symbols, lambda t: t.evalf(25))
        e = rewritten(e, lambda t: isinstance(t, Node), self._node)
        e = rewritten(e, is_guarded, lambda t: t.func(*t.args, (sp.nan, True)))
        e = rewritten(e, _is_arc, lambda t: TangentSegment(t.args[0].tangent(), t.args[1])) if self.stepping else without_hints(e)
        return weighed(rewritten(angles(e), lambda t: isinstance(t, AngleDifference), AngleDifference.definition))

    def _node(self, node: sp.Expr) -> sp.Expr:
        if isinstance(node, (Exchangeable, ExchangeableSlope)):
            return self._exchangeable(node)
        if isinstance(node, Projection):
            return self._projected(node)
        if node.integrand.has(sp.DiracDelta):
            form = self._safe(node.closed)
            return self.numeric(bounded_or_weighed(node.conditioned())) if form is None else form
        if isinstance(node, Expectation):
            f, mean = about_its_mean(node.integrand, node.mean)
            return self._mean(node) if mean == node.mean else self.numeric(Expectation(f, node.variance, mean))
        if isinstance(node, Gap):
            return self._gap(node)
        return self._pair(node)

    def _safe(self, find: Callable[[], sp.Expr | None]) -> sp.Expr | None:
        """a closed form whose numbers are as good as quadrature's"""
        form = None if self.by_quadrature else bounded_or_weighed(find())
        return None if form is None or form.has(*FOR_READING) else form

    def _mean(self, node: Expectation) -> sp.Expr:
        if (among := self._among_members(node, node.variance)) is not None:
            return among
        c, g, a = standardised(node.integrand)
        small = self._safe(lambda: small_mean(g)) if self.unchecked and node.mean == 0 else None
        if small is not None:
            return c * self._resolved(small, "mean", (g,), a**2 * node.variance)
        form = self._safe(node.closed)
        if form is None or _ends_early(form, node.integrand):
            return c * sp.Add(*[self._mean_of(h, a * node.mean - k, a**2 * node.variance) for h, k in about_poles(g)])
        if self.stepping and _is_never_negative(node.integrand):
            return rewritten(form, is_guarded, lambda t: t.func(*t.args, (sp.oo, True)))
        return form

    def _resolved(self, small: sp.Expr, kind: str, functions: tuple[sp.Expr, ...], v: sp.Expr, d: sp.Expr = sp.S.Zero) -> sp.Expr:
        """A closed form with its series for small variances, at v and d; between the two, where the form still loses digits, from tables
        if there are any: one step after another bears that, leaps next to criticality do not."""
        form = small.xreplace({q: v, delta: d})
        if not self.from_tables or self.stepping or not isinstance(form, sp.Piecewise) or functions[0] != functions[-1]:
            return form
        (series, near), *rest = form.args
        lost = sp.And(sp.Not(near), v < _EVEN)
        f = functions[0]
        v, d = _where(lost, v), _where(lost, d)
        if kind == "gap":
            called = self.call(kind, (self.integrand(from_zero(f)), self.slope(f)), v, d)
        else:
            called = self.call(kind, (self.integrand(f),), sp.S.Zero, v, *([d, 2 * v - d] if kind == "cross" else []))
        return sp.Piecewise((series, near), (called, lost), *rest)

    def _among_members(self, node: Node, v: sp.Expr, gap: sp.Expr | None = None) -> sp.Expr | None:
        """A moment of one or two variables, in the pass over those of several under its law, where a step makes one."""
        for law in self.members:
            powers = few_of(node, law[0])
            if powers is not None:
                near, grown = _homogeneous(law[0], powers, v)
                if near == law[1] and (gap is None or gap / (v / near) == law[2]):
                    return grown * self.member(law, powers, isinstance(node, Gap))
        return None

    def _mean_of(self, g: sp.Expr, mean: sp.Expr, variance: sp.Expr) -> sp.Expr:
        integrand, broad = self.integrand(g), self.broad(g)
        if broad is None:
            near, scale = self._scaled(integrand.expression, variance) if mean == 0 else (variance, sp.S.One)
            return scale ** sp.Rational(1, 2) * self.call("mean", (integrand,), mean, near)
        near = self._reaches(g, mean, variance)
        far = self._far("broadmean", (broad,), mean, _where(sp.Not(near), variance))
        return sp.Piecewise((self.call("mean", (integrand,), mean, _where(near, variance)), near), (far, True))

    def _projected(self, node: Projection) -> sp.Expr:
        c, g, a = standardised(node.integrand)
        n = node.degree
        v, scale, small = a**2 * node.variance, c * sp.sqrt(sp.factorial(n)), small_projection(g, int(n))
        near = sp.false if small is None else v < small[1]
        summed = self.call("projected", (self.integrand(g),), n, _where(sp.Not(near), v))
        return scale * (summed if small is None else sp.Piecewise((small[0].xreplace({q: v}), near), (summed, True)))

    def _scaled(self, g: sp.Expr, v: sp.Expr, gap: sp.Expr | None = None) -> tuple[sp.Expr, sp.Expr]:
        """A variance that stands for v, and by what products of two g, or what these lack, are greater at v: in tables of a homogeneous g
        it is 1, by quadrature of what is a power far out no larger than where that is all there is.

        A gap of a power below 1 is made near 0, where powers are not all that is left unless it is as large as such a variance itself.
        """
        if self.stepping and self.from_tables:
            degree = None if g.free_symbols - {x} else homogeneous_degree(g)
            return (v, sp.S.One) if degree is None else (sp.S.One, v**degree)
        power = far_power(g) if self.stepping else None
        if power is None:
            return v, sp.S.One
        far = sp.Float(FAR)
        if gap is None or power >= 1:
            return sp.Min(v, far), sp.Max(1, v / far) ** power
        lost = sp.Max(1, gap / far)
        return v / lost, lost**power

    def _reaches(self, g: sp.Expr, mean: sp.Expr, variance: sp.Expr) -> sp.Expr:
        """whether g itself is taken as far as the Gaussian goes"""
        return sp.Abs(mean) + FAINT * sp.sqrt(variance) < sp.Float(self.integrand(g).span)

    def _gap(self, node: Gap) -> sp.Expr:
        v, d = node.args[1:]
        if (among := self._among_members(node, v, d)) is not None:
            return among
        c, g, a = standardised(node.integrand)
        level = without_plateau(g)
        if level.as_independent(x, as_Add=True)[1] != g.as_independent(x, as_Add=True)[1]:
            return c**2 * self.numeric(Gap(level, a**2 * v, a**2 * d))
        small = self._safe(lambda: small_gap(g)) if self.unchecked else None
        if small is not None:
            return c**2 * self._resolved(small, "gap", (g,), a**2 * v, a**2 * d)
        form = self._safe(node.closed)
        if form is not None:  # which leaves a few units in the last place of what is 0 of opposite inputs
            return sp.Piecewise((form, d < 2 * v), (sp.S.Zero, True)) if self.stepping and is_even(g) else form
        if self.stepping and is_odd(g):
            return self._gap_of_odd(node, c**2 * self._gap_of(level, a**2 * v, a**2 * sp.Min(d, 2 * v - d)))
        if self.from_tables:  # which hold both sides of p = 0
            return c**2 * self._gap_of(level, a**2 * v, a**2 * d)
        near = _nearer(v, d)
        return c**2 * self._gap_of(level, a**2 * v, a**2 * near) + self._apart(node)

    def _gap_of_odd(self, node: Gap, near: sp.Expr) -> sp.Expr:
        """Beyond d = v a gap of an odd function is what that at 2 v - d, of u and -v, leaves of 2 E f^2: at p = -q all, to the bit."""
        v, d = node.args[1:]
        return sp.Piecewise((near, d <= v), (2 * self.numeric(Expectation(node.integrand**2, v)) - near, True))

    def _apart(self, node: Gap) -> sp.Expr:
        """What a gap beyond d = v is more than that of u and -v: 2 E o(u) o(-v), o the odd part of f. No term cancels, as f(u) - f(-u) does
        where f is nearly even."""
        odd, (v, d) = odd_part(node.integrand), node.args[1:]
        if odd == 0:
            return sp.S.Zero
        variance, left = sp.Dummy(positive=True), sp.Dummy(positive=True)
        product = self.numeric(PairExpectation(odd * odd.xreplace({x: y}), variance, variance - left, variance))
        beyond = d > v
        near = 2 * v - d if self.stepping else _nearer(v, d)  # one number in every sum; the arcs of a step are told in letters

        def called(t: sp.Expr) -> sp.Expr:
            return t.func(*[_where(beyond, a) if a.has(variance, left) else a for a in t.args])

        product = product.replace(lambda t: isinstance(t, AppliedUndef), called).xreplace({variance: v, left: near})
        return sp.Piecewise((2 * product, beyond), (0, True))

    def _gap_of(self, g: sp.Expr, v: sp.Expr, d: sp.Expr) -> sp.Expr:
        broad, sloped = self.broad(g), self.broad(g, derivative=True)
        if broad is None or sloped is None:
            return self._gap_about(g, v, d)
        near = sp.And(self._reaches(g, sp.S.Zero, v), self._reaches(regular(g), sp.S.Zero, v))
        plain = self.call("gap", (self.integrand(g), self.slope(g)), _where(near, v), d)
        return sp.Piecewise((plain, near), (self._far("broadgap", (broad, sloped), _where(sp.Not(near), v), d), True))

    def _far(self, kind: str, integrands: tuple[Integrand, ...], *args: sp.Expr) -> sp.Expr:
        """what only wide Gaussians ask for, where that is wanted"""
        return self.call(kind, integrands, *args) if self.widely else sp.nan

    def _gap_about(self, g: sp.Expr, v: sp.Expr, d: sp.Expr) -> sp.Expr:
        """A gap in parts, each about a singularity of g, where its inputs are close against what these are apart."""
        found = () if g.free_symbols - {x} else cells(g)
        if not found:
            return self._plain_gap(g, v, d)
        plain = (self.integrand(from_zero(g)), self.slope(g))
        close = sp.And(d <= v, d < sp.Float(min(narrowest(found), 1e150) ** 2 * _NEAR)) if len(found) > 1 else d <= v
        parts = [self.call("gap", (self.written_about(cell), self.slope(cell.function)), _where(close, v), d) for cell in found]
        return sp.Piecewise((sp.Add(*parts), close), (self.call("gap", plain, _where(sp.Not(close), v), d), True))

    def _plain_gap(self, g: sp.Expr, v: sp.Expr, d: sp.Expr) -> sp.Expr:
        f = self.integrand(from_zero(g))
        near, scale = self._scaled(f.expression, v, d)
        close = d / (v / near)
        if near != v or not self.from_tables:
            close = sp.Min(2 * near if self.from_tables else near, close)  # but for rounding it is no more
        return scale * self.call("gap", (f, self.slope(g)), near, close)

    def _pair(self, node: PairExpectation) -> sp.Expr:
        _, v1, cov, v2, m1, m2 = node.args
        parts = node.separated()
        if parts is None:
            if (parted := node.parted()) == node:
                kinked = node.integrand.has(sp.Max, sp.Min, sp.Abs, sp.sign, sp.Heaviside, sp.Piecewise)
                hint = "write it as a sum of such and of functions of one a x + b y" if kinked else "evaluate it with digits="
                raise Unsupported(f"{node} is no product f(x) g(y): {hint}")
            return self.numeric(parted)
        (f, first), (g, second) = (about_its_mean(h, m) for h, m in zip(parts, (m1, m2), strict=True))
        if (first, second) != (m1, m2):
            return self.numeric(PairExpectation(f * g.xreplace({x: y}), v1, cov, v2, first, second))
        apart = expanded(v1 - cov)
        if (among := self._among_members(node, v1, apart)) is not None:
            return among
        where = sp.And(resolved(f), resolved(g))
        if where is sp.false:
            raise Unsupported(Reason(node, ": the integrand is too steep at 0 for quadrature; mf.evaluate takes its closed form"))
        return guarded(self._of_two(node, f, g), where)

    def _of_two(self, node: PairExpectation, f: sp.Expr, g: sp.Expr) -> sp.Expr:
        """the mean of f(u) g(v), which quadrature resolves"""
        _, v1, cov, v2, m1, m2 = node.args
        apart = expanded(v1 - cov)
        c, first, a = standardised(f)
        k, second, b = standardised(g)
        if v1 == v2 and m1 == m2 == 0 and not node.integrand.free_symbols & {q, delta}:
            small = self._safe(lambda: small_cross(first, second)) if self.unchecked and a == b else None
            if small is not None:
                return c * k * self._resolved(small, "cross", (first, second), a**2 * v1, a**2 * apart)
            form = self._safe(lambda: closed.stable_cross(f, g))
            if form is not None:
                return form.xreplace({q: v1, delta: apart})
        else:
            form = self._safe(node.closed)
            if form is not None:
                return form
        poles = about_poles(first)
        if first == second and a == b and v1 == v2 and m1 == m2 and len(poles) == 1:
            ((g, place),) = poles
            law = (a * m1 - place, a**2 * v1, a**2 * apart, a**2 * expanded(v1 + cov))
            small = () if self.from_tables else (a**2 * cov,)  # a small covariance is no difference of the two
            return c * k * self._cross_of(g, (*law, *small))
        covariance = a**2 * v1, a * b * cov, b**2 * v2
        pairs = itertools.product(poles, about_poles(second))
        return c * k * sp.Add(*[self._two_of(g, h, (a * m1 - one, b * m2 - two, *covariance)) for (g, one), (h, two) in pairs])

    def _cross_of(self, g: sp.Expr, law: tuple[sp.Expr, ...]) -> sp.Expr:
        broad = self.broad(g)
        if broad is None:
            near, scale = self._scaled(self.integrand(g).expression, law[1]) if law[0] == 0 else (law[1], sp.S.One)
            return scale * self.call("cross", (self.integrand(g),), law[0], near, *(a / (law[1] / near) for a in law[2:]))
        near = self._reaches(g, law[0], law[1])

        def within(case: sp.Basic) -> tuple[sp.Expr, ...]:
            return (law[0], *(_where(case, a) for a in law[1:]))

        far = self._far("broadcross", (broad,), *within(sp.Not(near))[:4])
        return sp.Piecewise((self.call("cross", (self.integrand(g),), *within(near)), near), (far, True))

    def _two_of(self, f: sp.Expr, g: sp.Expr, law: tuple[sp.Expr, ...]) -> sp.Expr:
        functions, broad = (self.integrand(f), self.integrand(g)), self.broad_two(f, g)
        if broad is None:
            return self.call("two", functions, *law)
        m1, m2, v1, cov, v2 = law
        near = sp.And(self._reaches(f, m1, v1), self._reaches(g, m2, v2))
        lost = sp.Or(*[sp.sqrt(a - cov**2 / b) >= sp.Float(i.calm) for a, b, i in ((v1, v2, broad[0]), (v2, v1, broad[1]))])
        plain = sp.Or(near, sp.Not(lost))

        def within(case: sp.Basic) -> tuple[sp.Expr, ...]:
            return (m1, m2, *(_where(case, a) for a in (v1, cov, v2)))

        far = self._far("broadtwo", broad, *within(sp.Not(plain)))
        return sp.Piecewise((self.call("two", functions, *within(plain)), plain), (far, True))

    def gather(self, expressions: list[sp.Expr]) -> None:
        """Make room for the moments in these expressions that steps take together, whatever else asks for one of them before."""
        if self.stepping and not self.from_tables:
            for node in sorted({t for e in expressions for t in e.atoms(Exchangeable)}, key=sp.default_sort_key):
                if Members.answers(node):
                    self.together(self._law_of(node)[0])

    def _exchangeable(self, node: Exchangeable | ExchangeableSlope) -> sp.Expr:
        if self.stepping and isinstance(node, Exchangeable) and Members.answers(node):
            law, grown = self._law_of(node)
            return grown * self.member(law, node.powers, node.spread)
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

    def _law_of(self, node: Exchangeable) -> tuple[sp.Tuple, sp.Expr]:
        """The function, variance and gap of a moment that stands for it, and by what it is greater."""
        near, grown = _homogeneous(node.integrand, node.powers, node.variance)
        return sp.Tuple(node.integrand, near, node.gap / (node.variance / near)), grown


@lru_cache(maxsize=512)
def _homogeneous(f: sp.Expr, powers: tuple[Power, ...], v: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """A variance that stands for one however large, and by what moments are greater there, where the function is a power far out, but no
    constant, of which what a gap has is made near 0."""
    far = power_and_limit(f)
    if far is None or far[0] == 0 or (any(j for _, j in powers) and far_power(regular(f)) != far[0] - 1):
        return v, sp.S.One
    near = _within_powers(v)
    degree = sum(far[0] * i + (far[0] if j == TURNED else (far[0] - 1) * j) for i, j in powers)
    return near, (v / near) ** sp.Rational(degree, 2)


@lru_cache(maxsize=64)
def _within_powers(v: sp.Expr) -> sp.Expr:
    """a variance, no wider than where powers are all that is left; sympy takes long to see which of the two is less"""
    return sp.Min(v, sp.Float(WIDE))


def _nearer(v: sp.Expr, d: sp.Expr) -> sp.Expr:
    """of v - c and v + c, c = v - d, the one that is less; rounding may have brought d beyond 2 v"""
    return sp.Min(d, sp.Max(0, 2 * v - d))


def _is_arc(e: sp.Basic) -> bool:
    return isinstance(e, AngleMinusSine) and len(e.args) == 2


def _where(case: sp.Basic, value: sp.Expr) -> sp.Expr:
    """A value in one case of several, 0 in the others: quadrature of the variance 0 costs nothing."""
    return value if case == sp.true else sp.Piecewise((value, case), (sp.S.Zero, True))


def _is_never_negative(f: sp.Expr) -> bool:
    """whether a function is known to be: its mean is infinite where it is not finite"""
    if f.is_nonnegative or (f.is_Pow and f.exp.is_even) or ((p := powers(f)) and p.is_never_negative):
        return True
    parts = [value for value, _ in f.args] if isinstance(f, sp.Piecewise) else f.args if f.is_Mul else ()
    return bool(parts) and all(map(_is_never_negative, parts))


def _ends_early(form: sp.Expr, f: sp.Expr) -> bool:
    """whether a closed form of a mean holds up to some variance only, where the mean of a function without parameters has no such bound"""
    return bool(unguarded(form)[1] != sp.true and f.free_symbols == {x} and finite_below(f) is None)
