r"""A derivation that can be read and checked: each step an equation by a rule with its source, and a certificate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import sympy as sp
from sympy import S

from meanfield.faces import latex
from meanfield.gaussian.atoms import Atom, Gate, NotClosed, atoms_of, products
from meanfield.gaussian.certificates import CENTRED, Certificate, Law, certify
from meanfield.gaussian.either_sign import unsigned
from meanfield.gaussian.expansions import folded
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.finiteness import finite
from meanfield.gaussian.moments import Moment, Trace, cross_of, mean_of, pairs, total
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.gaussian.parameter_signs import cases
from meanfield.gaussian.powers import Powers, powers
from meanfield.gaussian.special import NormalCDF, NormalDensity
from meanfield.symbols import among_reals, known

__all__ = ["Derivation", "DerivationStep", "derivation", "quantity"]

x, y, q, p = known("x"), known("y"), known("q"), known("p")

#: rule -> what it says, and its source
RULES = {
    "atoms": (r"write the activation as a sum of $c\,x^k e^{Bx - Ax^2/2} G(x)$, $G$ a step, a normal CDF or 1", "definition"),
    "linearity": ("an expectation of a sum is the sum of the expectations", "definition"),
    "tilt": ("complete the square: a Gaussian times an exponential of a quadratic is a Gaussian", "Owen 1980"),
    "Stein": (r"Stein's identity $\mathbb{E}[u f] = m_1 \mathbb{E} f + S_{11} \mathbb{E} f_u + S_{12} \mathbb{E} f_v$", "Stein 1981"),
    "condition": ("a delta fixes its variable: its density times the conditional expectation", "definition"),
    "density": ("a normal density is the exponential of a quadratic", "definition"),
    "orthant": (r"$\mathbb{E}[\Phi\Phi]$ is a bivariate normal probability; $1/4 + \arcsin(r)/2\pi$ at the origin", "Sheppard 1899"),
    "half wave": (
        r"at a complex mean $e^{-k^2/2}\Phi(h - ik) = \Phi_{\cos}(h; k) + i\Phi_{\sin}(h; k)$, and $\Phi_2$ likewise",
        "Faddeyeva and Terent'ev 1961",
    ),
    "pairs": (
        r"under a centred Gaussian $\prod_{i \leq 3} (G_i - 1/2)$, $G_i$ steps or normal CDFs through 0, is odd: what is left are pairs",
        "David 1953",
    ),
    "symmetry": (r"$u$ and $-u$ have one distribution: $\mathbb{E} f(u) = \mathbb{E}[f(u) + f(-u)]/2$", "definition"),
    "signs": (r"a real parameter $a$ is $|a|$ or $-|a|$, and one formula is what follows from either, and at $a = 0$", "definition"),
    "powers": (r"a homogeneous function is $a |x|^k + b \,\mathrm{sign}(x) |x|^k$", "definition"),
    "absolute": ("absolute moments of two normals are hypergeometric in their correlation", "Nabeya 1951"),
    "collect": ("collect on transcendental functions, coefficients in lowest terms", "algebra"),
}


@dataclass(frozen=True)
class DerivationStep:
    """One equation before = after, by a rule of `RULES`."""

    rule: str
    before: sp.Expr
    after: sp.Expr

    @property
    def citation(self) -> str:
        """Where the rule is from; "algebra" or "definition" where it is that."""
        return RULES[self.rule][1]

    @property
    def reason(self) -> str:
        """What the rule says, in LaTeX, with its source."""
        text, source = RULES[self.rule]
        return text if source in ("algebra", "definition") else f"{text} ({source})"


@dataclass(frozen=True, repr=False)
class Derivation:
    """What was asked, a moment of a function under a law; what came out, how, and why it is right."""

    function: sp.Expr
    moment: str
    law: Law
    result: sp.Expr
    steps: tuple[DerivationStep, ...]

    @property
    def quantity(self) -> sp.Expr:
        """The moment, unevaluated."""
        return quantity(self.function, self.moment, self.law)

    @cached_property
    def certificate(self) -> Certificate:
        """What proves the result that stands here, whichever way it came: of another result it is another certificate."""
        return certify(self.function, self.moment, self.result, self.law)

    def __repr__(self) -> str:
        return (
            f"Derivation({self.quantity} = {self.result}; {len(self.steps)} steps; certificate {'holds' if self.certificate else 'FAILS'})"
        )

    def latex(self) -> str:
        """The steps as sentences with their equations, for an appendix: no wider than the page of a plain article, and none higher."""
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


def quantity(f: sp.Expr, moment: str, law: Law) -> sp.Expr:
    """A moment of f, "mean", "second_moment" or "kernel", unevaluated."""
    (v, cov, v2), m = law
    if moment == "kernel":
        return PairExpectation(f * f.xreplace({x: y}), v, cov, v2, m)
    return Expectation(f if moment == "mean" else f**2, v, m)


def derivation(f: sp.Expr, moment: str, law: Law = CENTRED) -> Derivation:
    """Derive a moment of f, recording each step: "mean", "second_moment" or "kernel", in the symbols of the law."""
    asked = quantity(f, moment, law)
    result = asked.doit()
    steps = tuple(DerivationStep(*equation) for equation in _equations(f, moment, result, asked, law))
    return Derivation(f, moment, law, result, steps)


@among_reals
def _equations(f: sp.Expr, moment: str, result: sp.Expr, asked: sp.Expr, law: Law) -> tuple[tuple[str, sp.Expr, sp.Expr], ...]:
    """the steps: rule, before, after"""
    try:
        steps = _by_atoms(f, moment, result, asked, law)
    except NotClosed as reason:
        if result.has(Node):
            raise ValueError(f"{asked} has no closed form to derive: {reason}") from None
        parameter, parts = unsigned((f,)), powers(f)
        if parameter is not None:
            steps = _by_signs(f, moment, result, asked, law, parameter)
        else:
            steps = _by_symmetry(f, moment, result, asked) if parts is None else _by_powers(f, parts, result, asked)
    return tuple((step.rule, step.before, step.after) for step in steps)


def _by_signs(f: sp.Expr, moment: str, result: sp.Expr, asked: sp.Expr, law: Law, a: sp.Expr) -> Iterable[DerivationStep]:
    """a moment that depends on a parameter of either sign, derived for each"""
    steps, parts = [], []
    for case in cases(a):
        if case.sign == 0:
            continue
        g, its_law = case.put((f, law))
        part = quantity(g, moment, its_law)
        parts.append(case.anywhere(part))
        steps += [DerivationStep(*case.anywhere(equation)) for equation in _equations(g, moment, part.doit(), part, its_law)]
    first, last = parts[0], parts[-1]
    steps.insert(0, DerivationStep("signs", asked, (first + last) / 2 + sp.sign(a) * (first - last) / 2))
    steps.append(DerivationStep("signs", asked, result))
    return dict.fromkeys(s for s in steps if s.before != s.after)


def _by_atoms(f: sp.Expr, moment: str, result: sp.Expr, quantity: sp.Expr, law: Law) -> Iterable[DerivationStep]:
    """what the engine did, each equation once"""
    atoms, (cov, m) = atoms_of(f), law
    single = {"mean": lambda: atoms, "second_moment": lambda: products(atoms, atoms)}.get(moment, tuple)()
    asked = mean_of(single, q, m) if moment != "kernel" else cross_of(atoms, atoms, cov, (m, m))
    finite(asked)
    trace: Trace = {}
    total(asked, trace)
    steps = [
        DerivationStep("atoms", f, sp.Add(*[_atom(t) for t in atoms])),
        DerivationStep("linearity", quantity, sp.Add(*[c * _expression(t) for c, t in asked])),
    ]
    for t in single:
        steps.append(DerivationStep("pairs", Expectation(_atom(t), q, m), sp.Add(*[Expectation(_atom(u), q, m) for u in pairs(t, q, m)])))
    for step in trace.values():
        after = sp.Add(step.rest, *[c * _expression(t) for c, t in step.terms])
        steps.append(DerivationStep(step.rule, _expression(step.before), after))
    steps.append(DerivationStep("collect", quantity, result))
    return dict.fromkeys(s for s in steps if s.before != s.after)


def _by_powers(f: sp.Expr, parts: Powers, result: sp.Expr, quantity: sp.Expr) -> Iterable[DerivationStep]:
    """a moment of a homogeneous function"""
    return DerivationStep("powers", f, parts.expression), DerivationStep("absolute", quantity, result)


def _by_symmetry(f: sp.Expr, moment: str, result: sp.Expr, quantity: sp.Expr) -> Iterable[DerivationStep]:
    """a moment of one variable that closes because its even part is a polynomial of |x|"""
    g = f if moment == "mean" else f**2
    even = sp.expand(folded(g) / 2).xreplace({x: sp.Abs(x)})
    yield DerivationStep("symmetry", quantity, Expectation(even, q))
    if even.has(x):
        yield DerivationStep("collect", Expectation(even, q), result)
