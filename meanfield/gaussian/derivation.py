r"""A derivation that can be read and checked: each step an equation, and a certificate that does not use the engine's rules.

The certificate proves by differentiating. A kernel C(q, p) = E f(u) f(v) is determined by Price's identity dC/dp = E f'(u) f'(v) and
its value C(q, 0) = (E f)^2 at independence; a single-variable moment M(q) = E f(u) by dM/dq = E[u f'(u)]/(2q) and one value.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield.faces import latex
from meanfield.gaussian import balls
from meanfield.gaussian.atoms import Atom, Gate, NotClosed, atoms_of, derivative, product
from meanfield.gaussian.expansions import even_part
from meanfield.gaussian.expectation import Expectation, Node, PairExpectation
from meanfield.gaussian.moments import Moment, Trace, cross, mean, square
from meanfield.gaussian.powers import powers
from meanfield.gaussian.precise import law_of, mean_of, product_mean_of
from meanfield.gaussian.special import NormalCDF, NormalDensity
from meanfield.gaussian.tidying import vanishes
from meanfield.symbols import known

__all__ = ["Certificate", "Claim", "Derivation", "DerivationStep", "derivation"]

x, y, q, p = known("x"), known("y"), known("q"), known("p")

#: rule -> what it says, with its source
RULES = {
    "atoms": r"write the activation as a sum of $c\,x^k e^{Bx - Ax^2/2} G(x)$, $G$ a step, a normal distribution function or 1",
    "tilt": "complete the square: an exponential of a quadratic only changes means, covariance and a factor",
    "Stein": r"Stein's identity $E[u f] = m_1 E f + S_{11} E f_u + S_{12} E f_v$ (Stein 1981)",
    "condition": r"a delta fixes its variable: the density there times the conditional expectation",
    "density": "a normal density is the exponential of a quadratic",
    "orthant": r"$E[\Phi\Phi]$ is a bivariate normal probability; $1/4 + \arcsin(r)/2\pi$ at the origin (Sheppard 1899)",
    "symmetry": r"$u$ and $-u$ have one distribution: $E f(u) = E[f(u) + f(-u)]/2$",
    "powers": r"a homogeneous function is $a |x|^k + b \,\mathrm{sign}(x) |x|^k$",
    "absolute": r"absolute moments of two normal variables are hypergeometric functions of their correlation (Nabeya 1951)",
    "collect": "collect on transcendental functions, coefficients in lowest terms",
}


@dataclass(frozen=True)
class DerivationStep:
    """One equation before = after, by a rule of `RULES`."""

    rule: str
    before: sp.Expr
    after: sp.Expr

    @property
    def reason(self) -> str:
        return RULES[self.rule]


@dataclass(frozen=True)
class Claim:
    """An identity of the result, how it was checked, and what was left of it."""

    statement: str
    how: str
    holds: bool
    residual: float


@dataclass(frozen=True)
class Certificate:
    """The claims that together determine the result."""

    claims: tuple[Claim, ...]

    @property
    def holds(self) -> bool:
        return all(c.holds for c in self.claims)

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        lines = [f"{'holds' if c.holds else 'FAILS'}: {c.statement} ({c.how})" for c in self.claims]
        return "Certificate(" + "; ".join(lines) + ")"


@dataclass(frozen=True, repr=False)
class Derivation:
    """What was asked, what came out, how, and why it is right."""

    quantity: sp.Expr
    result: sp.Expr
    steps: tuple[DerivationStep, ...]
    certificate: Certificate

    def __repr__(self) -> str:
        return (
            f"Derivation({self.quantity} = {self.result}; {len(self.steps)} steps; certificate {'holds' if self.certificate else 'FAILS'})"
        )

    def latex(self) -> str:
        """The steps as an aligned list of equations with their reasons, for an appendix."""
        return latex(self)

    def _repr_latex_(self) -> str:
        return self.latex()


def _gate(g: Gate | None, z: sp.Symbol) -> sp.Expr:
    if g is None:
        return S.One
    if g.density:
        return sp.DiracDelta(z - g.a) if g.sharp else NormalDensity((z - g.a) / g.w) / g.w
    return sp.Heaviside(g.sign * (z - g.a), S.Half) if g.sharp else NormalCDF(g.sign * (z - g.a) / g.w)


def _expression(t: Moment) -> sp.Expr:
    """a moment as an expectation node"""
    f = x ** t.k[0] * y ** t.k[1] * _gate(t.G[0], x) * _gate(t.G[1], y)
    f *= sp.exp(t.B[0] * x + t.B[1] * y - t.A[0] * x**2 / 2 - t.A[1] * y**2 / 2)
    return PairExpectation(f, t.cov[0], t.cov[1], t.cov[2], *t.m)


def _atom(t: Atom) -> sp.Expr:
    return t.c * x**t.k * sp.exp(t.B * x - t.A * x**2 / 2) * sp.Mul(*[_gate(g, x) for g in t.G])


def derivation(f: sp.Expr, moment: str, result: sp.Expr, quantity: sp.Expr) -> Derivation:
    """Derive a moment of f again, recording each step: "mean", "second_moment" or "kernel", in mf.q and mf.p."""
    try:
        atoms = atoms_of(f)
        trace: Trace = {}
        {
            "mean": lambda: mean(atoms, q, trace=trace),
            "second_moment": lambda: square(atoms, atoms, q, trace=trace),
            "kernel": lambda: cross(atoms, atoms, (q, p, q), trace=trace),
        }[moment]()
        certificate = certify(f, moment, result)
    except NotClosed as reason:
        if result.has(Node):
            raise ValueError(f"{quantity} has no closed form to derive: {reason}") from None
        parts = powers(f)
        if parts is not None:
            return _by_powers(f, parts, moment, result, quantity)
        return _by_symmetry(f if moment == "mean" else f**2, result, quantity)
    steps = [DerivationStep("atoms", f, sp.Add(*[_atom(t) for t in atoms]))]
    for step in trace.values():
        after = sp.Add(step.rest, *[c * _expression(t) for c, t in step.terms])
        before = _expression(step.before)
        if before != after:
            steps.append(DerivationStep(step.rule, before, after))
    steps.append(DerivationStep("collect", quantity, result))
    return Derivation(quantity, result, tuple(steps), certificate)


def _by_powers(f: sp.Expr, parts: tuple[sp.Expr, sp.Expr, sp.Expr], moment: str, result: sp.Expr, quantity: sp.Expr) -> Derivation:
    """a moment of a homogeneous function; its certificate is its integral"""
    k, even, odd = parts
    steps = [
        DerivationStep("powers", f, even * sp.Abs(x) ** k + odd * sp.sign(x) * sp.Abs(x) ** k),
        DerivationStep("absolute", quantity, result),
    ]

    def integral(values: dict[sp.Basic, sp.Expr], point: dict[sp.Basic, sp.Rational]) -> mp.mpf:
        g = f.subs(values)
        if moment == "kernel":
            return product_mean_of(g, g, law_of(point[q], point[p], point[q], S.Zero, S.Zero), mp.mp.prec)
        return mean_of(g if moment == "mean" else g**2, S.Zero, point[q], mp.mp.prec)

    return Derivation(quantity, result, tuple(steps), _integral(moment, result, f, integral))


def _by_symmetry(g: sp.Expr, result: sp.Expr, quantity: sp.Expr) -> Derivation:
    """a moment that closes because g(x) + g(-x) is a polynomial of |x|; its certificate is its integral"""
    even = sp.expand(even_part(g) / 2).xreplace({x: sp.Abs(x)})
    steps = [DerivationStep("symmetry", quantity, Expectation(even, q))]
    if even.has(x):
        steps.append(DerivationStep("collect", Expectation(even, q), result))

    certificate = _integral("symmetry", result, g, lambda values, point: mean_of(g.subs(values), S.Zero, point[q], mp.mp.prec))
    return Derivation(quantity, result, tuple(steps), certificate)


def _integral(
    seed: str, result: sp.Expr, f: sp.Expr, integral: Callable[[dict[sp.Basic, sp.Expr], dict[sp.Basic, sp.Rational]], mp.mpf]
) -> Certificate:
    """a result against its integral at a random point"""
    point = _points(seed, result + f + q, 1)[0]
    point |= {s: sp.Integer(3) for s in point if s.is_integer}
    values = {s: v for s, v in point.items() if s not in (q, p, x)}
    with mp.workdps(DIGITS + 10):
        expected = integral(values, point)
        left = float(abs(mp.mpf(sp.N(result.subs(point), DIGITS + 10)) - expected) / (1 + abs(expected)))
    law = str(point[q]) if not result.has(p) else f"{point[q]}, {point[p]}"
    holds = left < 10.0**-DIGITS
    return Certificate((Claim(f"M({law}) is the integral", f"to {DIGITS} digits at a random point, residual {left:.0e}", holds, left),))


def certify(f: sp.Expr, moment: str, result: sp.Expr) -> Certificate:
    """Check a closed form by its derivative and one value."""
    atoms = atoms_of(f)
    if moment == "kernel":
        slope = derivative(atoms)
        price = _Claimed("dC/dp = E f'(u) f'(v)", sp.diff(result, p), cross(slope, slope, (q, p, q)))
        return Certificate((price.checked(), _Claimed("C(q, 0) = (E f(u))^2", result.subs(p, 0), mean(atoms, q) ** 2).checked()))
    if moment == "second_moment":
        f, atoms = f**2, tuple(t for a in atoms for b in atoms for t in product(a, b))
    slope = tuple(replace(t, k=t.k + 1) for t in derivative(atoms))
    rate = _Claimed("dM/dq = E[u g'(u)]/(2q)", sp.diff(result, q), mean(slope, q) / (2 * q))
    return Certificate((rate.checked(), _integrated(f, atoms, result)))


#: digits to which balls settle an identity that has no proof, relative to 1 + its value
DIGITS = 30
_POINTS = 5


@dataclass(frozen=True)
class _Claimed:
    """left = right, to be checked"""

    statement: str
    left: sp.Expr
    right: sp.Expr

    def checked(self) -> Claim:
        """identically, or by an enclosure of the difference at random points"""
        difference = self.left - self.right
        if difference.has(sp.oo, sp.zoo, sp.nan):
            return Claim(self.statement, "infinite on one side", False, float("inf"))
        if vanishes(difference):
            return Claim(self.statement, "identically", True, 0.0)
        points = _points(self.statement, difference, _POINTS)
        return _settled(self.statement, [partial(_both, self.left, self.right, point) for point in points])


def _points(seed: str, e: sp.Expr, count: int) -> list[dict[sp.Basic, sp.Rational]]:
    """random points: q from 1e-3 to 1e3, |p| < q, parameters of either sign unless declared"""
    draw = random.Random(f"{seed}: {e}")
    points = []
    for _ in range(count):
        point: dict[sp.Basic, sp.Rational] = {q: _rational(10 ** draw.uniform(-3, 3))}
        point[p] = _rational(draw.uniform(-1, 1)) * point[q]
        for s in sorted(e.free_symbols - {q, p}, key=str):
            size = _rational(10 ** draw.uniform(-0.7, 0.7))
            point[s] = size if s.is_nonnegative else -size if s.is_nonpositive else size * draw.choice((-1, 1))
        points.append(point)
    return points


def _rational(value: float) -> sp.Rational:
    return sp.Rational(round(value * 10**6), 10**6)


def _both(left: sp.Expr, right: sp.Expr, point: dict[sp.Basic, sp.Rational]) -> tuple[Any, Any]:
    if balls.available():
        return balls.enclosure(left, point).real, balls.enclosure(right, point).real
    return tuple(mp.mpf(sp.N(e.subs(point), mp.mp.dps)._to_mpmath(mp.mp.prec)) for e in (left, right))


def _integrated(f: sp.Expr, atoms: tuple[Atom, ...], result: sp.Expr) -> Claim:
    """the moment against its integral, at one random point"""
    point = _points("M", result + f, 1)[0]
    variance = point[q] = _rational(random.Random(str(f)).uniform(0.5, 2))
    values = {s: v for s, v in point.items() if s not in (q, p, x)}

    def sides() -> tuple[Any, Any]:
        if balls.available():
            return balls.enclosure(result, point).real, balls.mean_enclosure(f, atoms, variance, values)
        integral = mean_of(f.subs(values), S.Zero, variance, mp.mp.prec)
        return mp.mpf(sp.N(result.subs(point), mp.mp.dps)._to_mpmath(mp.mp.prec)), integral

    return _settled(f"M({variance}) is the integral", [sides])


def _settled(statement: str, cases: list[Callable[[], tuple[Any, Any]]]) -> Claim:
    """whether both sides of each case agree to DIGITS digits, relative to 1 + |right|: rigorously where there are balls"""
    worst = 0.0
    for sides in cases:
        for digits in (2 * DIGITS, 4 * DIGITS, 16 * DIGITS):
            with balls.precision(digits) if balls.available() else mp.workdps(digits):
                left, right = sides()
                distance = abs(left - right)
                bound = float(distance.upper() if balls.available() else distance) / (1 + abs(float(right)))
                refuted = bool(distance.lower() > 0) if balls.available() else False
            if bound < 10.0**-DIGITS or refuted:
                break
        worst = max(worst, bound)
    where = f"{len(cases)} random points" if len(cases) > 1 else "a random point"
    by = "in ball arithmetic" if balls.available() else "in floating point, without python-flint"
    return Claim(statement, f"{by} at {where}, the sides differ by less than {worst:.0e}", worst < 10.0**-DIGITS, worst)
