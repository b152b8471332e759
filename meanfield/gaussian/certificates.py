r"""Certificates: what proves a closed form without the way it was derived.

A kernel C(q, p) = E f(u) f(v) is determined by Price's identity dC/dp = E f'(u) f'(v) (Price 1958) and its value C(q, 0) = (E f)^2 at
independence; a single-variable moment M(q) = E f(u) by dM/dq = E[u f'(u)]/(2q) and one value. Where the engine has no rule for f', and for
powers beside these, the moment is held against its integral.
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
from meanfield.gaussian.closed import unguarded
from meanfield.gaussian.moments import cross, mean
from meanfield.gaussian.powers import powers
from meanfield.gaussian.precise import law_of, mean_of, product_mean_of
from meanfield.gaussian.zeros import in_normal_form
from meanfield.symbols import known

__all__ = ["Certificate", "Claim", "certify"]

x, q, p = known("x"), known("q"), known("p")


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


#: digits to which an identity that has no proof is settled, relative to 1 + its value
DIGITS = 30
_POINTS = 5


def certify(f: sp.Expr, moment: str, result: sp.Expr) -> Certificate:
    """Check a closed form of a moment of f, "mean", "second_moment" or "kernel", in mf.q and mf.p, where it holds."""
    try:
        return _by_derivative(f, moment, *unguarded(result))
    except NotClosed:
        parts = powers(f)
    claims = [_evaluated(f, moment, result)]
    if parts is not None and moment == "kernel":
        claims.insert(0, _independent(result, parts.mean(q)))
        if parts.degree.is_positive:
            claims.insert(0, _price(result, parts.derivative.cross(parts.derivative, q, p, q)))
    return Certificate(tuple(claims))


def _by_derivative(f: sp.Expr, moment: str, result: sp.Expr, where: sp.Basic) -> Certificate:
    """a closed form of a sum of atoms by its derivative and one value"""
    atoms = atoms_of(f)
    if moment == "kernel":
        slope = derivative(atoms)
        return Certificate((_price(result, cross(slope, slope, (q, p, q)), where), _independent(result, mean(atoms, q), where)))
    if moment == "second_moment":
        f, atoms = f**2, products(atoms, atoms)
    slope = tuple(replace(t, k=t.k + 1) for t in derivative(atoms))
    rate = _Claimed("dM/dq = E[u g'(u)]/(2q)", sp.diff(result, q), mean(slope, q) / (2 * q), where)
    return Certificate((rate.checked(), _integrated(f, atoms, result, where)))


def _price(result: sp.Expr, slopes: sp.Expr, where: sp.Basic = sp.true) -> Claim:
    return _Claimed("dC/dp = E f'(u) f'(v)", sp.diff(result, p), slopes, where).checked()


def _independent(result: sp.Expr, mean: sp.Expr, where: sp.Basic = sp.true) -> Claim:
    return _Claimed("C(q, 0) = (E f(u))^2", result.subs(p, 0), mean**2, where).checked()


def _evaluated(f: sp.Expr, moment: str, result: sp.Expr) -> Claim:
    """a moment against its integral, at the first of some random points at which that settles"""
    points = [_within(unguarded(result)[1], point) for point in _points("M", sp.Tuple(result, f), _POINTS)]
    for point in points:
        v, c = point[q], point[p]
        with mp.workdps(DIGITS + 10), suppress(ArithmeticError):
            expected = _integral(f.subs({s: value for s, value in point.items() if s not in (q, p, x)}), moment, v, c)
            left = float(abs(mp.mpf(sp.N(result.subs(point), DIGITS + 10)) - expected) / (1 + abs(expected)))
            statement = _is_the_integral(v, *((c,) if moment == "kernel" else ()))
            return Claim(statement, f"to {DIGITS} digits at a random point, within {left:.0e}", left < 10.0**-DIGITS, left)
    return Claim("M is the integral", f"which settles at none of {len(points)} random points", False, float("inf"))


def _integral(f: sp.Expr, moment: str, v: sp.Rational, c: sp.Rational) -> mp.mpf:
    if moment == "kernel":
        return product_mean_of(f, f, law_of(v, c, v, S.Zero, S.Zero), mp.mp.prec)
    return mean_of(f if moment == "mean" else f**2, S.Zero, v, mp.mp.prec)


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
    """random points: q from 1e-3 to 1e3, |p| < q, parameters of either sign unless declared, whole numbers from 1 to 5"""
    draw = random.Random(f"{seed}: {e}")
    points = []
    for _ in range(count):
        point: dict[sp.Basic, sp.Rational] = {q: _rational(10 ** draw.uniform(-3, 3))}
        point[p] = _rational(draw.uniform(-0.999, 0.999) * float(point[q]))
        for s in sorted(e.free_symbols - {q, p}, key=str):
            size = _rational(10 ** draw.uniform(-0.7, 0.7))
            if s.is_integer:
                size = sp.ceiling(size) + (sp.ceiling(size) % 2 if s.is_even else 0)
            point[s] = size if s.is_nonnegative else -size if s.is_nonpositive else size * draw.choice((-1, 1))
        points.append(point)
    return points


def _within(where: sp.Basic, point: dict[sp.Basic, sp.Rational]) -> dict[sp.Basic, sp.Rational]:
    """a point at which a condition holds: at smaller q and p, at larger or smaller parameters"""
    nearby = ({s: v / 4**n if s in (q, p) else v * f for s, v in point.items()} for n in range(40) for f in (S(2) ** n, S(2) ** -n))
    return next((at for at in nearby if where.subs(at) != sp.false), point)


def _rational(value: float) -> sp.Rational:
    return sp.Rational(round(value * 10**6), 10**6)


def _both(left: sp.Expr, right: sp.Expr, point: dict[sp.Basic, sp.Rational]) -> tuple[Any, Any]:
    if balls.available():
        return balls.enclosure(left, point).real, balls.enclosure(right, point).real
    return tuple(mp.mpf(sp.N(e.subs(point), mp.mp.dps)._to_mpmath(mp.mp.prec)) for e in (left, right))


def _integrated(f: sp.Expr, atoms: tuple[Atom, ...], result: sp.Expr, where: sp.Basic) -> Claim:
    """the moment against its integral, at one random point"""
    point = _points("M", sp.Tuple(result, f), 1)[0]
    point = _within(where, {**point, q: _rational(random.Random(str(f)).uniform(0.5, 2))})
    variance = point[q]
    values = {s: v for s, v in point.items() if s not in (q, p, x)}

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
        for digits in (2 * DIGITS, 4 * DIGITS, 16 * DIGITS):
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
