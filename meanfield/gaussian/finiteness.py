"""Whether, and for which variances, expectations of products of atoms are finite."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import sympy as sp

from meanfield.gaussian.atoms import Atom
from meanfield.gaussian.growth import left_at_bound, rates
from meanfield.gaussian.moments import Covariance, Weighted
from meanfield.symbols import known

__all__ = ["collide", "finite", "pair_falls", "refusal", "where_finite_pair"]

x = known("x")

#: denominators from which on a bound is shown as a decimal
_LONG = 10**6

#: a relation, its two sides, and whether it tells where these are equal
_Limit = tuple[type[sp.Basic], sp.Expr, sp.Expr, bool]


def finite(weighted: Weighted) -> sp.Basic:
    r"""Where the tilt of a sum of moments with growing Gaussians is one: S^{-1} + A is positive definite. True where there are none.

    A half-plane holds one of u and -u, so that one gate changes nothing, and this is where the sum is finite. Two gates leave a quadrant,
    or of one variable an interval, on which it may be finite beyond (`pair_falls`, `meanfield.gaussian.growth.falls`). An A of unknown
    sign may grow.
    """
    below: dict[sp.Expr, sp.Expr] = {}
    found: list[sp.Basic] = []
    for _, t in weighted:
        (s11, s12, s22), (first, second) = t.cov, (sp.re(a) for a in t.A)
        if first.is_nonnegative and second.is_nonnegative:
            continue
        if not all(a.is_nonnegative or a.is_negative for a in t.A):
            found += _definite(t.cov, first, second)
            continue
        if first == 0 or second == 0:
            size, bound = (s11, -1 / first) if second == 0 else (s22, -1 / second)
        elif first == second and s11 == s22:
            size, bound = s11 + sp.Abs(s12), -1 / first
        else:
            found.append(1 + first * s11 + second * s22 + first * second * (s11 * s22 - s12**2) > 0)
            if not (first.is_negative and second.is_negative):
                continue
            size, bound = s11, -1 / first
        below[size] = sp.Min(below.get(size, bound), bound)
    return sp.And(*found, *(size < bound for size, bound in below.items()))


def refusal(expectation: sp.Expr, where: sp.Basic) -> str:
    """The sentence for an expectation at a law for which a condition does not hold."""
    shown = where.replace(lambda t: t.is_Rational and t.q > _LONG, lambda t: sp.Float(t, 6))
    return f"{expectation} is infinite: it is finite only for {shown}"


def pair_falls(f: sp.Expr, g: sp.Expr, cov: Covariance) -> bool | None:
    """Whether f(u) g(v) times their density falls in every direction; None where it cannot be told."""
    found = _inequalities(f, g, cov)
    if found is None or all(_holds(*limit) for limit in found):
        return None if found is None else True
    return False if any(_holds(*limit) is False for limit in found) else None


def _holds(relation: type[sp.Basic], less: sp.Expr, more: sp.Expr, told: bool) -> bool | None:
    """whether an inequality does; None where that is not known, or both sides are equal and this is not told by them"""
    room = more - less
    if room.is_zero:
        return relation is sp.Le if told else None
    return True if room.is_positive else False if room.is_negative else None


def where_finite_pair(f: sp.Expr, g: sp.Expr, cov: Covariance) -> sp.Basic | None:
    """What must hold for E f(u) g(v) to be finite; None where it always is, or it cannot be told."""
    found = _inequalities(f, g, cov)
    return sp.And(*[relation(less, more) for relation, less, more, _ in found]) if found else None


def _inequalities(f: sp.Expr, g: sp.Expr, cov: Covariance) -> list[_Limit] | None:
    r"""What is less than what where E f(u) g(v) is finite, S^{-1} - 2 diag(a, b) positive on every quadrant that f and g leave: for their
    ends i and j and rates a and b, 2 a |S| <= S_22, 2 b |S| <= S_11 and i j S_12 < \sqrt{(S_22 - 2 a |S|) (S_11 - 2 b |S|)}; and whether
    it is told where both sides are equal."""
    (s11, s12, s22), first, second = cov, rates(f), rates(g)
    if first is None or second is None or any(not a.is_real for _, a in (*first, *second)):
        return None
    rest = (s11 - s12) * (s11 + s12) if s11 == s22 else s11 * s22 - s12**2
    quadrants = [(i * j * s12, a, b) for (i, a), (j, b) in itertools.product(first, second)]
    if rest == 0:  # v is a multiple of u
        relation = sp.Le if s11 == s22 and _met(f, g, s12) else sp.Lt
        return [(relation, 2 * (a * s11 + b * s22), sp.S.One, True) for towards, a, b in quadrants if towards.is_positive]
    # each grows beside whatever the other is where that is not large; if as fast as the density falls, the rest of them decides
    found = [(sp.Le, 2 * a * rest, size, False) for ends, size in ((first, s22), (second, s11)) for _, a in ends if not a.is_nonpositive]
    if all(len(ends) == 2 and ends[0][1] == ends[1][1] for ends in (first, second)):
        quadrants = [(sp.Abs(s12), *quadrants[0][1:])]
        if s11 == s22 and first[0][1] == second[0][1]:
            found = []  # s_11 + |s_12| < 1/(2 a) is more than that
    for towards, a, b in quadrants:
        if s11 == s22 and a == b and a.is_positive:
            found.append((sp.Le if _met(f, g, s12) else sp.Lt, s11 + towards, 1 / (2 * a), True))
        elif not (a.is_nonpositive and b.is_nonpositive):
            found.append((sp.Lt, towards, sp.sqrt((s22 - 2 * a * rest) * (s11 - 2 * b * rest)), True))
    return found


def _met(f: sp.Expr, g: sp.Expr, covariance: sp.Expr) -> bool:
    """whether f(u) g(v) has a mean where it grows along u = v, or along u = -v if their covariance may be negative, as fast as their
    density falls: what f(x) g(x) or f(x) g(-x) leaves of its exponential is integrable; what f and g leave of theirs, if u and v are
    independent"""
    if covariance == 0:
        return all(left_at_bound(h) is not None for h in (f, g))
    ways = [way for way, never in ((1, covariance.is_negative), (-1, covariance.is_positive)) if not never]
    return all(left_at_bound(f * g.xreplace({x: way * x})) is not None for way in ways)


def _definite(cov: Covariance, first: sp.Expr, second: sp.Expr) -> list[sp.Basic]:
    """S^{-1} + A is positive definite, whatever the signs in A"""
    s11, s12, s22 = cov
    if first == 0 or second == 0:
        return [1 + first * s11 + second * s22 > 0]
    if first == second and s11 == s22:
        return [1 + first * (s11 + sp.Abs(s12)) > 0]
    rest = s11 * s22 - s12**2
    return [1 + first * s11 + second * s22 + first * second * rest > 0, s22 + first * rest > 0]


def collide(f: Iterable[Atom], g: Iterable[Atom]) -> bool:
    """Whether both have a delta at one place: the expectation of the product is infinite."""
    peaks = [[gate.a for t in atoms for gate in t.G if gate.density] for atoms in (f, g)]
    return any(sp.expand(a - b) == 0 for a, b in itertools.product(*peaks))
