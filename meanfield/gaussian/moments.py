r"""Expectations of products of atoms under a Gaussian: the derivation engine, a rewriting system of four rules.

A `Moment` is E[exp(B.x - x.A.x/2) u^j v^k G(u) H(v)] for a Gaussian (u, v). Each rule turns one moment into a sum of simpler ones:

1. *tilt*: exp(B.x - x.A.x/2) only changes mean, covariance and a factor:
   S' = (I + S A)^{-1} S,  m' = m + S'(B - A m),  factor det(I + S A)^{-1/2} exp(B.m - m.A.m/2 + (B - A m).S'.(B - A m)/2);
2. *Stein*: E[u f] = m_1 E f + S_11 E f_u + S_12 E f_v lowers a power by one;
3. *condition*: a delta fixes its variable; a smooth density is an exponential and goes to the tilt;
4. *orthant*: E[\Phi((u - a)/w) \Phi((v - b)/t)] is the bivariate normal CDF, 1/4 + asin(r)/(2\pi) at the origin.

Purely algebraic, any means, always terminating: powers fall, densities disappear, and what is left is an orthant. Values are kept
in normal form (`meanfield.gaussian.tidying`), each moment is rewritten once. What was rewritten into what can be recorded (`trace`),
one equation a step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

import sympy as sp
from sympy import S, exp, pi, sqrt

from meanfield.gaussian.atoms import Atom, Gate, NotClosed, derivative, product
from meanfield.gaussian.chirps import real_form
from meanfield.gaussian.half_waves import CosineNormalCDF, SineNormalCDF
from meanfield.gaussian.quadrant_waves import BivariateCosineCDF, BivariateSineCDF
from meanfield.gaussian.special import BivariateDensity, BivariateNormalCDF, NormalCDF, NormalDensity
from meanfield.gaussian.tidying import Algebra, NestedRoot, Terms

__all__ = ["Covariance", "Moment", "Step", "Trace", "Weighted", "cross", "cross_of", "mean", "mean_of", "pairs", "total"]

Pair = tuple[sp.Expr, sp.Expr]
Covariance = tuple[sp.Expr, sp.Expr, sp.Expr]


@dataclass(frozen=True)
class Moment:
    """E[exp(B.x - x.A.x/2) u^k_1 v^k_2 G_1(u) G_2(v)], (u, v) of means m and covariance (S_11, S_12, S_22)."""

    k: tuple[int, int]
    G: tuple[Gate | None, Gate | None]
    m: Pair
    cov: Covariance
    B: Pair = (S.Zero, S.Zero)
    A: Pair = (S.Zero, S.Zero)

    @property
    def swapped(self) -> Moment:
        k, G, m, cov, B, A = self.k, self.G, self.m, self.cov, self.B, self.A
        return Moment((k[1], k[0]), (G[1], G[0]), (m[1], m[0]), (cov[2], cov[1], cov[0]), (B[1], B[0]), (A[1], A[0]))

    def put(self, values: dict[sp.Expr, sp.Expr]) -> Moment:
        m, cov, B, A = (tuple(e.xreplace(values) for e in part) for part in (self.m, self.cov, self.B, self.A))
        return replace(self, m=m, cov=cov, B=B, A=A)


@dataclass(frozen=True)
class Step:
    """One equation: a moment and the sum it was rewritten into; `rest` is the part that is closed already."""

    rule: str
    before: Moment
    terms: tuple[tuple[sp.Expr, Moment], ...]
    rest: sp.Expr = S.Zero

    def put(self, values: dict[sp.Expr, sp.Expr]) -> Step:
        terms = tuple((c.xreplace(values), t.put(values)) for c, t in self.terms)
        return Step(self.rule, self.before.put(values), terms, self.rest.xreplace(values))


Trace = dict[Moment, Step]


def _density(a: sp.Expr, m: sp.Expr, variance: sp.Expr) -> sp.Expr:
    return NormalDensity((a - m) / sqrt(variance)) / sqrt(variance)


def _tilt(t: Moment) -> Step:
    s11, s12, s22 = t.cov
    m, cov, det = t.m, t.cov, S.One
    if any(t.A):
        d = sp.expand(s11 * s22 - s12**2)
        det = sp.expand(1 + t.A[0] * s11 + t.A[1] * s22 + t.A[0] * t.A[1] * d)
        cov = (sp.expand(s11 + t.A[1] * d) / det, s12 / det, sp.expand(s22 + t.A[0] * d) / det)
    b = (t.B[0] - t.A[0] * m[0], t.B[1] - t.A[1] * m[1])
    shifted = (m[0] + cov[0] * b[0] + cov[1] * b[1], m[1] + cov[1] * b[0] + cov[2] * b[1])
    exponent = t.B[0] * m[0] + t.B[1] * m[1] - (t.A[0] * m[0] ** 2 + t.A[1] * m[1] ** 2) / 2
    exponent += (cov[0] * b[0] ** 2 + 2 * cov[1] * b[0] * b[1] + cov[2] * b[1] ** 2) / 2
    return Step("tilt", t, ((exp(exponent) / sqrt(det), Moment(t.k, t.G, shifted, cov)),))


def _delta(t: Moment) -> Step:
    """condition on the first variable, whose gate is a delta"""
    g, h = t.G
    assert g is not None
    s11, s12, s22 = t.cov
    weight = g.a ** t.k[0] if t.k[0] else S.One
    if h is not None and h.density and h.sharp:
        weight *= h.a ** t.k[1] if t.k[1] else S.One
        if weight == 0:
            return Step("condition", t, ())
        r1, r2, root = sqrt(s11), sqrt(s22), sqrt(s11 * s22 - s12**2)
        return Step("condition", t, (), weight * BivariateDensity((g.a - t.m[0]) / r1, (h.a - t.m[1]) / r2, s12 / (r1 * r2)) / root)
    weight *= _density(g.a, t.m[0], s11)
    if weight == 0:
        return Step("condition", t, ())
    m, v = t.m[1] + s12 / s11 * (g.a - t.m[0]), s22 - s12**2 / s11
    return Step("condition", t, ((weight, Moment((t.k[1], 0), (h, None), (m, S.Zero), (v, S.Zero, S.One))),))


def _smooth(t: Moment) -> Step:
    """the smooth density of the first variable as an exponential"""
    g = t.G[0]
    assert g is not None
    c = exp(-(g.a**2) / (2 * g.w**2)) / (sqrt(2 * pi) * g.w)
    return Step("density", t, ((c, replace(t, G=(None, t.G[1]), B=(g.a / g.w**2, S.Zero), A=(1 / g.w**2, S.Zero))),))


def _stein(t: Moment) -> Step:
    (j, k), (g, h), (s11, s12, _) = (t.k[0] - 1, t.k[1]), t.G, t.cov
    terms = [(t.m[0], replace(t, k=(j, k)))] if t.m[0] != 0 else []
    if j:
        terms.append((s11 * j, replace(t, k=(j - 1, k))))
    if k and s12 != 0:
        terms.append((s12 * k, replace(t, k=(j, k - 1))))
    if g is not None:
        terms.append((s11 * g.sign, replace(t, k=(j, k), G=(Gate(g.a, g.w, density=True), h))))
    if h is not None and s12 != 0:
        terms.append((s12 * h.sign, replace(t, k=(j, k), G=(g, Gate(h.a, h.w, density=True)))))
    return Step("Stein", t, tuple(terms))


def _orthant(t: Moment) -> Step:
    g, h = t.G
    v1, v2 = (s + (gate.w**2 if gate is not None else 0) for s, gate in ((t.cov[0], g), (t.cov[2], h)))
    if g is None and h is None:
        return Step("orthant", t, (), S.One)
    if h is None and g is not None:
        return _half_line(t, g, v1)
    assert g is not None and h is not None  # noqa: PT018
    r = g.sign * h.sign * t.cov[1] / (sqrt(v1) * sqrt(v2))
    first, k = _standardised(t.m[0], g, v1)
    second, n = _standardised(t.m[1], h, v2)
    if k == n == 0:
        return Step("orthant", t, (), BivariateNormalCDF(first, second, r))
    a, b = ((r * y - x) / (1 - r**2) for x, y in ((k, n), (n, k)))
    wave = BivariateCosineCDF(first, second, a, b, r) + sp.I * BivariateSineCDF(first, second, a, b, r)
    return Step("half wave", t, (), exp((a**2 + 2 * r * a * b + b**2) / 2) * wave)


def _standardised(m: sp.Expr, g: Gate, variance: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """real and imaginary part of how far a mean is inside a gate, in deviations"""
    terms, scale = sp.Add.make_args(sp.expand(m - g.a)), g.sign / sqrt(variance)
    height = sp.Add(*[sp.expand(-sp.I * t) for t in terms if t.has(sp.I)])
    if height == 0:
        return scale * (m - g.a), S.Zero
    if height.has(sp.I):
        raise NotClosed(f"an oscillation times {g}: the expectation holds no real and imaginary part that can be told")
    return scale * sp.Add(*[t for t in terms if not t.has(sp.I)]), scale * height


def _half_line(t: Moment, g: Gate, variance: sp.Expr) -> Step:
    r"""E \Phi((u - a)/w) is \Phi at (m - a)/\sqrt{S_11 + w^2}, which a wave makes complex"""
    h, k = _standardised(t.m[0], g, variance)
    if k == 0:
        return Step("orthant", t, (), NormalCDF(h))
    if h == 0:
        return Step("half wave", t, (), S.Half + sp.I * sp.erfi(k / sqrt(2)) / 2)
    return Step("half wave", t, (), exp(k**2 / 2) * (CosineNormalCDF(h, -k) + sp.I * SineNormalCDF(h, -k)))


def _step(t: Moment) -> Step:
    """The rule that applies."""
    if any(t.B) or any(t.A):
        return _tilt(t)
    for moment in (t, t.swapped):
        g = moment.G[0]
        if g is not None and g.density:
            return replace(_delta(moment) if g.sharp else _smooth(moment), before=t)
    if t.k[0] == 0 and t.k[1] > 0:
        return replace(_stein(t.swapped), before=t)
    if t.k[0] > 0:
        return _stein(t)
    return _orthant(t.swapped if t.G[0] is None else t)


#: a sum of moments
Weighted = list[tuple[sp.Expr, Moment]]


class _Engine:
    """Rewrites moments to the end, each once, in the normal forms over the variables of the question."""

    def __init__(self, weighted: Weighted, trace: Trace) -> None:
        parts = (e for c, t in weighted for e in (c, *t.m, *t.cov, *t.B, *t.A, *(e for g in t.G if g is not None for e in (g.a, g.w))))
        self.algebra = Algebra(*dict.fromkeys(parts))
        self.weighted, self.trace = weighted, trace
        self._values: dict[Moment, Terms] = {}

    def _lowest(self, t: Moment) -> Moment:
        """with means and covariance in lowest terms, so that equal moments are equal"""
        tidy = lambda e: self.algebra.write(self.algebra.read(e))  # noqa: E731
        return replace(t, m=tuple(map(tidy, t.m)), cov=tuple(map(tidy, t.cov)))

    def value(self, t: Moment) -> Terms:
        waiting = [] if t in self._values else [t]  # and no recursion: x^1000 takes as many steps
        while waiting:
            last = waiting[-1]
            step = self.trace[last] if last in self.trace else self._rewritten(last)
            unknown = [u for _, u in step.terms if u not in self._values]
            waiting += unknown
            if not unknown:
                self._values[last] = self.algebra.add(self.algebra.read(step.rest), self.sum(step.terms))
                waiting.pop()
        return self._values[t]

    def _rewritten(self, t: Moment) -> Step:
        step = _step(t)
        if step.rule in ("tilt", "condition"):
            step = replace(step, terms=tuple((c, self._lowest(u)) for c, u in step.terms))
        self.trace[t] = step
        return step

    def sum(self, weighted: Iterable[tuple[sp.Expr, Moment]]) -> Terms:
        algebra = self.algebra
        return algebra.add(*[algebra.multiply(algebra.read(c), self.value(t)) for c, t in weighted])


def total(weighted: Weighted, trace: Trace | None = None) -> sp.Expr:
    """The value of a sum of moments, where it is `finite`; what was rewritten on the way is put into `trace`.

    A growing Gaussian, A < 0, or one that may grow, is the analytic continuation of a falling one, and so is one that oscillates: a symbol
    stands for its A until the end.
    """
    letters = {a: sp.Dummy("A", positive=True) for _, t in weighted for a in t.A if not a.is_nonnegative}
    back = {symbol: a for a, symbol in letters.items()}
    steps: Trace = {}
    engine = _Engine([(c, replace(t, A=(letters.get(t.A[0], t.A[0]), letters.get(t.A[1], t.A[1])))) for c, t in weighted], steps)
    try:
        result = engine.algebra.write(engine.sum(engine.weighted))
    except NestedRoot as reason:
        raise NotClosed(f"the result holds {reason}") from None
    if trace is not None:
        trace.update({t.put(back): step.put(back) for t, step in steps.items()})
    growing = {symbol: a for symbol, a in back.items() if not a.has(sp.I)}
    if growing:
        result = result.xreplace(growing).replace(lambda t: t.is_Pow and t.base.is_Add, _over_one)
    oscillating = {symbol: a for symbol, a in back.items() if a.has(sp.I)}
    return real_form(result, oscillating) if oscillating else result


def _over_one(t: sp.Pow) -> sp.Expr:
    """a power of 1 - 2 q/5 as one of (5 - 2 q)/5"""
    above, below = sp.fraction(sp.together(t.base))
    return above**t.exp / below**t.exp if below.is_positive else t


def pairs(t: Atom, q: sp.Expr, m: sp.Expr = S.Zero) -> list[Atom]:
    r"""A product of three gates at 0 by products of two, with one expectation under a centred Gaussian (David 1953).

    With x^k, k odd, Stein's identity takes one gate or lowers k; at even k the odd part of G_1 G_2 G_3, \prod (G_i - 1/2), has mean 0.
    """
    if len(t.G) < 3:
        return [t]
    if m != 0 or t.B != 0:
        raise NotClosed(f"the product of {', '.join(map(str, t.G))} is an orthant in three dimensions, not through the mean")
    if t.k % 2:
        bell = Atom(t.c * q / (1 + t.A * q), A=t.A)
        lower = derivative((Atom(k=t.k - 1, G=t.G),))
        return [pair for u in lower for v in product(bell, u) for pair in pairs(v, q)]
    two = [replace(t, c=t.c / 2, G=gates) for gates in itertools.combinations(t.G, 2)]
    return [*two, replace(t, c=-t.c / 4, G=())]


def mean_of(atoms: Iterable[Atom], q: sp.Expr, m: sp.Expr = S.Zero) -> Weighted:
    """E f(u), u ~ N(m, q), for f a sum of atoms; the second variable of a moment is u again where an atom has two gates."""
    weighted = []
    for t in (pair for atom in atoms for pair in pairs(atom, q, m)):
        first, second = (*t.G, None, None)[:2]
        law = ((m, m), (q, q, q)) if second is not None else ((m, S.Zero), (q, S.Zero, S.One))
        weighted.append((t.c, Moment((t.k, 0), (first, second), *law, (t.B, S.Zero), (t.A, S.Zero))))
    return weighted


def cross_of(f: Iterable[Atom], g: Iterable[Atom], cov: Covariance, m: Pair = (S.Zero, S.Zero)) -> Weighted:
    """E f(u) g(v) for Gaussian (u, v) of covariance [[S_11, S_12], [S_12, S_22]] = cov and means m."""
    for t in (*f, *g):
        if len(t.G) > 1:
            raise NotClosed(f"{t.G[0]} times {t.G[1]}: the kernel is the probability of an orthant in more than two dimensions")
    return [(sp.expand(a.c * b.c), Moment((a.k, b.k), (_only(a), _only(b)), m, cov, (a.B, b.B), (a.A, b.A))) for a in f for b in g]


def _only(t: Atom) -> Gate | None:
    return t.G[0] if t.G else None


def mean(atoms: Iterable[Atom], q: sp.Expr, m: sp.Expr = S.Zero) -> sp.Expr:
    return total(mean_of(atoms, q, m))


def cross(f: Iterable[Atom], g: Iterable[Atom], cov: Covariance, m: Pair = (S.Zero, S.Zero)) -> sp.Expr:
    return total(cross_of(f, g, cov, m))
