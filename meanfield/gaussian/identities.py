r"""Exact equations between expectations that have no closed form, found from the function itself and checked by quadrature.

Three sources. The even part: E f(u) = E (f(u) + f(-u))/2, closed where that is a polynomial (E sigmoid = 1/2; E phi^2 = 1 + q/2
for squareplus). Gaussian calculus: Stein's identity and the heat equation. And relations: a quadratic polynomial in x, f, f', f''
and f''' that vanishes (tanh' = 1 - tanh^2), found by linear algebra on values of f and proved symbolically, holds in expectation term by
term.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield.faces import latex
from meanfield.gaussian.expansions import folded, scaled
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.half_line import half
from meanfield.gaussian.parities import is_odd
from meanfield.gaussian.series import NoExpansion
from meanfield.gaussian.smoothness import is_smooth
from meanfield.gaussian.special import exponentials
from meanfield.gaussian.zeros import is_zero
from meanfield.symbols import known

__all__ = ["RULES", "Identity", "identities"]

x, q = known("x"), known("q")

#: rule -> what it says, with its source
RULES = {
    "even part": r"only the even part of a function counts, and here it is a polynomial",
    "Stein": r"Stein's identity $E[u f(u)] = q \, E f'(u)$ (Stein 1981)",
    "heat": r"the heat equation $dE f(u)/dq = E[u f'(u)]/(2q) = E f''(u)/2$",
    "relation": r"the function satisfies this equation pointwise",
}

#: points at which an identity is checked, and to how many digits
_VARIANCES = (sp.Rational(3, 10), sp.Rational(7, 5), sp.Integer(5))
_DIGITS = 30


@dataclass(frozen=True, repr=False)
class Identity:
    """An equation between expectations, and the rule that gives it."""

    statement: sp.Eq
    rule: str

    @property
    def reason(self) -> str:
        return RULES[self.rule]

    @property
    def residual(self) -> float:
        """The largest difference of the two sides at three variances, relative to 1 + their size."""
        return _residual(self.statement)

    @property
    def holds(self) -> bool:
        """Whether the two sides agree to 30 digits at three variances: evaluated by quadrature, not by the rule."""
        return self.residual < 10.0 ** (2 - _DIGITS)

    def __repr__(self) -> str:
        return f"Identity({self.statement.lhs} = {self.statement.rhs}, {self.rule})"

    def latex(self) -> str:
        return rf"{latex(self.statement.lhs)} = {latex(self.statement.rhs)}"

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.latex()}$"


@cache
def _residual(statement: sp.Eq) -> float:
    worst = 0.0
    for i, v in enumerate(_VARIANCES):
        point = {s: sp.Rational(2 * i + 3 + j, 5) for j, s in enumerate(sorted(statement.free_symbols - {q}, key=str))}
        left, right = (_value(side.xreplace(point), v) for side in statement.args)
        worst = max(worst, float(abs(left - right) / (1 + abs(right))))
    return worst


def _value(side: sp.Expr, v: sp.Expr) -> sp.Expr:
    """one side at q = v"""
    slopes = {d: _slope(d.expr, v) for d in side.atoms(sp.Derivative)}
    return sp.N(side.xreplace(slopes).subs(q, v), _DIGITS + 6)


def _slope(e: sp.Expr, v: sp.Expr) -> sp.Expr:
    """de/dq by a central difference, extrapolated once: error h^4, with as many digits to spare"""
    h = sp.Rational(1, 10 ** (_DIGITS // 4 + 2))

    def difference(step: sp.Expr) -> sp.Expr:
        upper, lower = (sp.N(e.subs(q, v + side * step), 2 * _DIGITS) for side in (1, -1))
        return (upper - lower) / (2 * step)

    return (4 * difference(h / 2) - difference(h)) / 3


def identities(f: sp.Expr) -> tuple[Identity, ...]:
    """What is exactly true of E f(u), E f(u)^2 and their kin."""
    found: dict[sp.Eq, str] = {}
    for rule, left, right in (*_even_parts(f), *_relations(f), *_calculus(f)):
        if left != right and (rule == "even part" or not _says_nothing(left)):
            found.setdefault(sp.Eq(left, right, evaluate=False), rule)
    return tuple(Identity(statement, rule) for statement, rule in found.items())


def _says_nothing(side: sp.Expr) -> bool:
    """an expectation of an odd function: nothing but 0 = 0 follows"""
    nodes = side.atoms(Expectation)
    return bool(nodes) and all(is_odd(node.integrand) for node in nodes)


Claims = Iterator[tuple[str, sp.Expr, sp.Expr]]


def _even_parts(f: sp.Expr) -> Claims:
    for g in (f, f**2, x * f, f.diff(x)):
        if g.is_polynomial(x) or g.has(sp.DiracDelta):
            continue
        try:
            polynomial = folded(g) / 2
        except NoExpansion:
            continue
        if sp.expand(polynomial).is_polynomial(x):
            yield "even part", Expectation(g, q), Expectation(polynomial.xreplace({x: sp.Abs(x)}), q).doit()


def _calculus(f: sp.Expr) -> Claims:
    slope = f.diff(x)
    jumps = slope.has(sp.DiracDelta)
    if not jumps:
        yield "Stein", Expectation(x * f, q), q * Expectation(slope, q)
    rest = S.One
    for factor in sp.Mul.make_args(f):
        rest *= S.One if factor == x else factor
    if rest != f and x in rest.free_symbols and not rest.diff(x).has(sp.DiracDelta):
        yield "Stein", Expectation(f, q), q * Expectation(rest.diff(x), q)
    if jumps:
        return
    bent = Expectation(slope.diff(x), q) / 2 if not slope.diff(x).has(sp.DiracDelta) else Expectation(x * slope, q) / (2 * q)
    yield "heat", sp.Derivative(Expectation(f, q), q), bent
    yield "heat", sp.Derivative(Expectation(f**2, q), q), Expectation(x * f * slope, q) / q


def _relations(f: sp.Expr) -> Claims:
    scale, g, a = scaled(f)
    if g.free_symbols != {x} or g.is_polynomial(x):
        return
    order = 3 if is_smooth(g) else 1
    g = exponentials(g)
    slopes = [g]
    for _ in range(order):
        slopes.append(slopes[-1].diff(x))
    if slopes[-1].has(sp.DiracDelta):
        return
    # simplest first: what comes later is expressed by what comes before; own[i] is the factor that undoes the scale
    names = [sp.Dummy(f"f{i}") for i in range(order + 1)]
    monomials = [S.One, x, x**2, *names, x * names[0], x * names[1], names[0] ** 2, names[0] * names[1], names[1] ** 2]
    functions = [m.xreplace(dict(zip(names, slopes, strict=True))) for m in monomials]
    back = {x: a * x, **{name: f.diff(x, i) / (scale * a**i) for i, name in enumerate(names)}}
    # a derivative alone is one order lower by Stein's identity
    stein = {name: x * f.diff(x, i) / (scale * a ** (i + 1) * q) for i, name in enumerate(names[1:])}
    for lead, combination in _dependencies(tuple(functions)):
        if all(is_zero(half(side)) for side in _both_sides(functions[lead] - sp.Add(*[c * functions[i] for i, c in combination]))):
            stated = [m.subs({**back, **({m: stein[m]} if m in stein else {})}, simultaneous=True) for m in monomials]
            factor, left = stated[lead].as_independent(x, as_Add=False)
            yield "relation", Expectation(left, q), sp.Add(*[c / factor * _expectation(stated[i]) for i, c in combination])


def _both_sides(h: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    return h, h.xreplace({x: -x})


def _expectation(term: sp.Expr) -> sp.Expr:
    return Expectation(term, q).doit() if term.is_polynomial(x) else Expectation(term, q)


@cache
def _dependencies(functions: tuple[sp.Expr, ...]) -> tuple[tuple[int, tuple[tuple[int, sp.Rational], ...]], ...]:
    """Functions that are, at the points tried, rational combinations of earlier ones: (index, ((index, coefficient), ...))."""
    points = [sp.Rational(7 * k + 3, 50) * (-1) ** k for k in range(len(functions) + 4)]  # near 0: exp(-x^4) soon has no digits
    found = []
    with mp.workdps(60):
        compiled = [sp.lambdify(x, h, "mpmath") for h in functions]
        columns = [[mp.re(h(mp.mpf(t.p) / t.q)) for t in points] for h in compiled]  # mpmath has complex values of real functions
        basis: list[int] = []
        for i, column in enumerate(columns):
            if basis:
                solution, residual = mp.qr_solve(mp.matrix([[columns[b][k] for b in basis] for k in range(len(points))]), mp.matrix(column))
            if not basis or residual > mp.mpf(10) ** -40 * mp.norm(mp.matrix(column)):
                basis.append(i)
                continue
            rational = [Fraction(str(mp.nstr(s, 40))).limit_denominator(10**4) for s in solution]
            if all(abs(s - mp.mpf(r.numerator) / r.denominator) < mp.mpf(10) ** -30 for s, r in zip(solution, rational, strict=True)):
                combination = tuple((b, sp.Rational(r.numerator, r.denominator)) for b, r in zip(basis, rational, strict=True) if r)
                found.append((i, combination))
    return tuple(found)
