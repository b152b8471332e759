r"""A derivation that can be read and checked: each step an equation, and a certificate that does not use the engine's rules.

The certificate proves by differentiating. A kernel C(q, p) = E f(u) f(v) is determined by Price's identity dC/dp = E f'(u) f'(v) and
its value C(q, 0) = (E f)^2 at independence; a single-variable moment M(q) = E f(u) by dM/dq = E[u f'(u)]/(2q) and one value.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield.faces import latex
from meanfield.gaussian.atoms import Atom, Gate, NotClosed, atoms_of
from meanfield.gaussian.expectation import Expectation, Node, PairExpectation
from meanfield.gaussian.moments import Moment, Trace, cross, mean, square
from meanfield.gaussian.special import NormalCDF, NormalDensity
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
    except NotClosed as reason:
        raise ValueError(f"{quantity} has no closed form to derive: {reason}") from None
    trace: Trace = {}
    s = sp.Symbol("q", positive=True)
    raw = {
        "mean": lambda: mean(atoms, s, trace=trace),
        "second_moment": lambda: square(atoms, atoms, s, trace=trace),
        "kernel": lambda: cross(atoms, atoms, (s, p, s), trace=trace),
    }[moment]()
    steps = [DerivationStep("atoms", f, sp.Add(*[_atom(t) for t in atoms]))]
    for step in trace.values():
        after = sp.Add(step.rest, *[c * _expression(t) for c, t in step.terms])
        before = _expression(step.before)
        if before != after:
            steps.append(DerivationStep(step.rule, before, after))
    steps.append(DerivationStep("collect", raw, result))
    return Derivation(quantity, result, tuple(steps), certify(f, moment, result))


def certify(f: sp.Expr, moment: str, result: sp.Expr) -> Certificate:
    """Check a closed form by its derivative and one value."""
    if moment == "kernel":
        slope = f.diff(x)
        price = PairExpectation(slope * slope.xreplace({x: y}), q, p, q).doit()
        return Certificate(
            (
                _claim("dC/dp = E f'(u) f'(v)", sp.diff(result, p), price),
                _claim("C(q, 0) = (E f(u))^2", result.subs(p, 0), Expectation(f, q).doit() ** 2),
            )
        )
    g = f if moment == "mean" else f**2
    slope = Expectation(x * g.diff(x), q).doit() / (2 * q)
    return Certificate(
        (
            _claim("dM/dq = E[u g'(u)]/(2q)", sp.diff(result, q), slope),
            _claim("M(1) by quadrature", result.subs(q, 1), _Quadrature(g)),
        )
    )


class _Quadrature(Node):
    """E g(z), z ~ N(0, 1), always by quadrature and never by the engine."""

    def __new__(cls, g: sp.Expr) -> sp.Expr:
        return sp.Expr.__new__(cls, g)

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if self.free_symbols:
            return None
        with mp.workprec(prec + 10):
            return sp.Float._new(Expectation(self.integrand, S.One)._integrate()._mpf_, prec)


def _claim(statement: str, left: sp.Expr, right: sp.Expr) -> Claim:
    """left = right, identically or at three points to 30 digits"""
    if left == right or (not right.has(_Quadrature) and sp.expand(left - right) == 0):
        return Claim(statement, "identically", True, 0.0)
    if (left - right).has(sp.oo, sp.zoo, sp.nan):
        return Claim(statement, "infinite on one side", False, float("inf"))
    worst = 0.0
    for i in range(3):
        point: dict[sp.Basic, sp.Expr] = {}
        for j, s in enumerate(sorted(left.free_symbols | right.free_symbols, key=str)):
            fraction = sp.Rational((7919 * (i + 1) * (j + 3)) % 997 + 1, 1000)
            point[s] = fraction - sp.Rational(1, 2) if s == p else fraction + sp.Rational(1, 2)
        a, b = (sp.N(e.subs(point), 32) for e in (left, right))
        worst = max(worst, float(abs(a - b) / (1 + abs(b))))
    return Claim(statement, f"at 3 points to 30 digits, residual {worst:.1e}", worst < 1e-28, worst)
