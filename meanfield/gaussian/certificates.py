r"""Certificates: what proves a closed form without the way it was derived.

A kernel C(q, p) = E f(u) f(v) is determined by Price's identity dC/dp = E f'(u) f'(v) (Price 1958) and its value C(q, 0) = (E f)^2 at
independence; a single-variable moment M(q) = E f(u) by dM/dq = E[(u - m) f'(u)]/(2q), m the mean, and one value. Where the engine has no
rule for f', and for powers beside these, the moment is held against its integral.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield.gaussian import balls
from meanfield.gaussian.atoms import Atom, NotClosed, atoms_of, derivative, products
from meanfield.gaussian.differentials import differentiated_once
from meanfield.gaussian.either_sign import unsigned
from meanfield.gaussian.guards import unguarded
from meanfield.gaussian.moments import Covariance, cross, mean
from meanfield.gaussian.parameter_signs import Case, cases
from meanfield.gaussian.powers import powers
from meanfield.gaussian.precise import law_of, mean_of, product_mean_of
from meanfield.gaussian.zeros import in_normal_form
from meanfield.symbols import among_reals, known

__all__ = ["CENTRED", "Certificate", "Claim", "Law", "certify"]

x, q, p, q1, q2 = (known(name) for name in ("x", "q", "p", "q1", "q2"))

#: what is asked of: the variances and covariance, and the common mean
Law = tuple[Covariance, sp.Expr]
CENTRED: Law = ((q, p, q), S.Zero)


@dataclass(frozen=True)
class Claim:
    """An identity of the result, how it was checked, and what was left of it."""

    statement: str
    how: str
    holds: bool
    residual: float


@dataclass(frozen=True)
class Certificate:
    """A formula, and the claims about it that together determine it."""

    formula: sp.Expr
    claims: tuple[Claim, ...]

    @property
    def holds(self) -> bool:
        return all(c.holds for c in self.claims)

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        lines = [f"{'holds' if c.holds else 'FAILS'}: {c.statement} ({c.how})" for c in self.claims]
        return f"Certificate({self.formula}: {'; '.join(lines)})"


#: digits to which an identity that has no proof is settled, relative to 1 + its value
DIGITS = 30
_POINTS = 5
_VARIANCES = (q, p, q1, q2)


def certify(f: sp.Expr, moment: str, result: sp.Expr, law: Law = CENTRED) -> Certificate:
    """Check a closed form of a moment of f, "mean", "second_moment" or "kernel", in the symbols of a law, where it holds."""
    return Certificate(result, _claims(f, moment, result, law))


@among_reals
def _claims(f: sp.Expr, moment: str, result: sp.Expr, law: Law) -> tuple[Claim, ...]:
    a = unsigned((f,))
    if a is not None:
        return tuple(claim for case in cases(a) for claim in _in_case(case, *case.put((f, moment, result, law))))
    try:
        return _by_derivative(f, moment, *unguarded(result), law)
    except NotClosed:
        parts = powers(f)
    claims = [_evaluated(f, moment, result, law)]
    if parts is not None and moment == "kernel":
        v1, _, v2 = law[0]
        claims.insert(0, _independent(result, parts.mean(v1), parts.mean(v2)))
        if parts.degree.is_positive:
            claims.insert(0, _price(result, parts.derivative.cross(parts.derivative, *law[0])))
    return tuple(claims)


def _in_case(case: Case, f: sp.Expr, moment: str, result: sp.Expr, law: Law) -> tuple[Claim, ...]:
    return tuple(replace(claim, statement=f"{case.statement}: {claim.statement}") for claim in _claims(f, moment, result, law))


def _by_derivative(f: sp.Expr, moment: str, result: sp.Expr, where: sp.Basic, law: Law) -> tuple[Claim, ...]:
    """a closed form of a sum of atoms by its derivative and one value"""
    atoms, (cov, m) = atoms_of(f), law
    if moment == "kernel":
        slope = derivative(atoms)
        independent = _independent(result, mean(atoms, cov[0], m), mean(atoms, cov[2], m), where)
        return _price(result, cross(slope, slope, cov, (m, m)), where), independent
    if moment == "second_moment":
        f, atoms = f**2, products(atoms, atoms)
    slope = derivative(atoms)
    rate = mean((*(replace(t, k=t.k + 1) for t in slope), *(replace(t, c=-m * t.c) for t in slope if m != 0)), q, m) / (2 * q)
    claim = _Claimed(f"dM/dq = E[{'u' if m == 0 else '(u - m)'} g'(u)]/(2q)", differentiated_once(result, q), rate, where)
    if m != 0:
        f = f.xreplace({x: m + x})
        atoms = atoms_of(f)
    return claim.checked(), _integrated(f, atoms, result, where)


def _price(result: sp.Expr, slopes: sp.Expr, where: sp.Basic = sp.true) -> Claim:
    return _Claimed("dC/dp = E f'(u) f'(v)", differentiated_once(result, p), slopes, where).checked()


def _independent(result: sp.Expr, first: sp.Expr, second: sp.Expr, where: sp.Basic = sp.true) -> Claim:
    statement = "C(q, 0) = (E f(u))^2" if first == second else "C(q1, 0, q2) = E f(u) E f(v)"
    return _Claimed(statement, result.xreplace({p: S.Zero}), first * second, where).checked()


def _evaluated(f: sp.Expr, moment: str, result: sp.Expr, law: Law) -> Claim:
    """a moment against its integral, at the first of some random points at which that settles"""
    (v1, c, v2), m = law
    asked = ((v1, c) if v1 == v2 else (v1, c, v2)) if moment == "kernel" else (v1,)
    points = [_within(unguarded(result)[1], point) for point in _points("M", sp.Tuple(result, f), _POINTS)]
    for point in points:
        with mp.workdps(DIGITS + 10), suppress(ArithmeticError):
            at = {s: value for s, value in point.items() if s not in (*_VARIANCES, x)}
            expected = _integral(f.subs(at), moment, tuple(a.subs(point) for a in (v1, c, v2)), m.subs(point))
            left = float(abs(mp.mpf(sp.N(result.subs(point), DIGITS + 10)) - expected) / (1 + abs(expected)))
            statement = _is_the_integral(*(point[a] for a in asked))
            return Claim(statement, f"to {DIGITS} digits at a random point, within {left:.0e}", left < 10.0**-DIGITS, left)
    return Claim("M is the integral", f"which settles at none of {len(points)} random points", False, float("inf"))


def _integral(f: sp.Expr, moment: str, cov: Covariance, m: sp.Expr) -> mp.mpf:
    if moment == "kernel":
        return product_mean_of(f, f, law_of(*cov, m, m), mp.mp.prec)
    return mean_of(f if moment == "mean" else f**2, m, cov[0], mp.mp.prec)


def _is_the_integral(*law: sp.Rational) -> str:
    return f"M({', '.join(f'{float(v):g}' for v in law)}) is the integral"


@dataclass(frozen=True)
class _Claimed:
    """left = right, to be checked where they hold"""

    statement: str
    left: sp.Expr
    right: sp.Expr
    where: sp.Basic

    def checked(self) -> Claim:
        """identically, or by an enclosure of the difference at random points"""
        difference = self.left - self.right
        if difference.has(sp.oo, sp.zoo, sp.nan):
            return Claim(self.statement, "infinite on one side", False, float("inf"))
        if in_normal_form(difference):
            return Claim(self.statement, "identically", True, 0.0)
        points = [_within(self.where, point) for point in _points(self.statement, sp.Tuple(self.left, self.right), _POINTS)]
        return _settled(self.statement, [partial(_both, self.left, self.right, point) for point in points])


def _points(seed: str, e: sp.Basic, count: int) -> list[dict[sp.Basic, sp.Rational]]:
    """random points: variances from 1e-3 to 1e3, |p| below each, parameters of either sign unless declared, whole numbers from 1 to 5"""
    draw = random.Random(f"{seed}: {sorted(map(str, e.free_symbols))}")
    points = []
    for _ in range(count):
        point: dict[sp.Basic, sp.Rational] = {q: _rational(10 ** draw.uniform(-3, 3))}
        point |= {v: _rational(10 ** draw.uniform(-3, 3)) for v in sorted(e.free_symbols & {q1, q2}, key=str)}
        point[p] = _rational(draw.uniform(-0.999, 0.999) * float(min(v for s, v in point.items())))
        for s in sorted(e.free_symbols - set(_VARIANCES), key=str):
            size = _rational(10 ** draw.uniform(-0.7, 0.7))
            if s.is_integer:
                size = sp.ceiling(size) + (sp.ceiling(size) % 2 if s.is_even else 0)
            point[s] = size if s.is_nonnegative else -size if s.is_nonpositive else size * draw.choice((-1, 1))
        points.append(point)
    return points


def _within(where: sp.Basic, point: dict[sp.Basic, sp.Rational]) -> dict[sp.Basic, sp.Rational]:
    """a point at which a condition holds: at smaller q and p, at larger or smaller parameters"""
    nearby = ({s: v / 4**n if s in _VARIANCES else v * f for s, v in point.items()} for n in range(40) for f in (S(2) ** n, S(2) ** -n))
    return next((at for at in nearby if where.subs(at) != sp.false), point)


def _rational(value: float) -> sp.Rational:
    return sp.Rational(round(value * 10**6), 10**6)


def _both(left: sp.Expr, right: sp.Expr, point: dict[sp.Basic, sp.Rational]) -> tuple[Any, Any]:
    if balls.available():
        first, second = balls.enclosures((left, right), point)
        return first.real, second.real
    return tuple(mp.mpf(sp.N(e.subs(point), mp.mp.dps)._to_mpmath(mp.mp.prec)) for e in (left, right))


def _integrated(f: sp.Expr, atoms: tuple[Atom, ...], result: sp.Expr, where: sp.Basic) -> Claim:
    """the moment against its integral, at one random point"""
    point = _points("M", sp.Tuple(result, f), 1)[0]
    point = _within(where, {**point, q: _rational(random.Random(str(f)).uniform(0.5, 2))})
    variance = point[q]
    values = {s: v for s, v in point.items() if s not in (*_VARIANCES, x)}

    def sides() -> tuple[Any, Any]:
        if balls.available():
            return balls.enclosure(result, point).real, balls.mean_enclosure(f, atoms, variance, values)
        integral = mean_of(f.subs(values), S.Zero, variance, mp.mp.prec)
        return mp.mpf(sp.N(result.subs(point), mp.mp.dps)._to_mpmath(mp.mp.prec)), integral

    return _settled(_is_the_integral(variance), [sides])


def _settled(statement: str, cases: list[Callable[[], tuple[Any, Any]]]) -> Claim:
    """whether both sides of each case agree to DIGITS digits, relative to 1 + |right|: rigorously where there are balls"""
    worst, refuted, rigorous = 0.0, False, balls.available()
    for sides in cases:
        for digits in (3 * DIGITS // 2, 4 * DIGITS, 16 * DIGITS):
            with balls.precision(digits) if rigorous else mp.workdps(digits):
                left, right = sides()
                distance = abs(left - right)
                bound = float(distance.upper() if rigorous else distance) / (1 + abs(float(right)))
                refuted |= rigorous and bool(distance.lower() > 0)
            if bound < 10.0**-DIGITS or refuted:
                break
        worst = max(worst, bound)
    where = f"{len(cases)} random points" if len(cases) > 1 else "a random point"
    by = "in ball arithmetic" if rigorous else "in floating point, without python-flint,"
    return Claim(statement, f"{by} at {where}, within {worst:.0e}", worst < 10.0**-DIGITS and not refuted, worst)
