"""Whether, and for which variances, expectations of products of atoms are finite."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import sympy as sp
from sympy import S
from sympy.core.logic import fuzzy_and

from meanfield.gaussian.at_bound import integrable, integrable_across, integrable_along
from meanfield.gaussian.atoms import Atom
from meanfield.gaussian.growth import rates
from meanfield.gaussian.moments import Covariance, Weighted
from meanfield.symbols import known

__all__ = ["collide", "finite", "pair_falls", "refusal", "where_finite_pair"]

x = known("x")

#: denominators from which on a bound is shown as a decimal
_LONG = 10**6

#: a relation, its two sides, and whether it tells where these are equal
_Limit = tuple[type[sp.Basic], sp.Expr, sp.Expr, bool]

#: of the lines of u and of v
Ends = tuple[int, int]

#: whether what f and g leave is integrable on a ray: their rates, the ends and the slope of the ray
_Met = Callable[[sp.Expr, sp.Expr, tuple[sp.Expr, sp.Expr], Ends, sp.Expr], bool | None]


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


def where_finite_pair(f: sp.Expr, g: sp.Expr, cov: Covariance, sign: sp.Expr | None = None) -> sp.Basic | None:
    """What must hold for E f(u) g(v) to be finite, for a covariance of some sign if that is given; None where it always is, or it cannot be
    told."""
    found = _inequalities(f, g, cov, sign)
    return sp.And(*[relation(less, more) for relation, less, more, _ in found]) if found else None


def _inequalities(f: sp.Expr, g: sp.Expr, cov: Covariance, sign: sp.Expr | None = None) -> list[_Limit] | None:
    r"""What is less than what where E f(u) g(v) is finite, S^{-1} - 2 diag(a, b) positive on every quadrant that f and g leave: for their
    ends i and j and rates a and b, 2 a |S| <= S_22, 2 b |S| <= S_11 and i j S_12 < \sqrt{(S_22 - 2 a |S|) (S_11 - 2 b |S|)}; and whether
    it is told where both sides are equal."""
    (s11, s12, s22), first, second = cov, rates(f), rates(g)
    if first is None or second is None or any(not a.is_real for _, a in (*first, *second)):
        return None
    rest = (s11 - s12) * (s11 + s12) if s11 == s22 else s11 * s22 - s12**2
    if s12 == 0:
        return [limit for h, ends, size in ((f, first, s11), (g, second, s22)) for limit in _alone(h, ends, size)]
    quadrants = [(i * j * s12, a, b, [(i, j)]) for (i, a), (j, b) in itertools.product(first, second)]
    if rest == 0:  # v is a multiple of u
        along = S.One if s11 == s22 else sp.Abs(s12) / s11
        return [
            _limit(2 * (a * s11 + b * s22), S.One, _all_met(f, g, (a, b), rays, along, integrable_along))
            for towards, a, b, rays in quadrants
            if towards.is_positive
        ]
    # each grows beside whatever the other is where that is not large; if as fast as the density falls, the rest of them decides
    found = [(sp.Le, 2 * a * rest, size, False) for ends, size in ((first, s22), (second, s11)) for _, a in ends if not a.is_nonpositive]
    if all(len(ends) == 2 and ends[0][1] == ends[1][1] for ends in (first, second)):
        rays = [(i, j) for i, j in itertools.product((1, -1), repeat=2) if not (i * j * (s12 if sign is None else sign)).is_nonpositive]
        quadrants = [(sp.Abs(s12), *quadrants[0][1:3], rays)]
        if s11 == s22 and first[0][1] == second[0][1]:
            found = []  # s_11 + |s_12| < 1/(2 a) is more than that
    for towards, a, b, rays in quadrants:
        if s11 == s22 and a == b and a.is_positive:
            found.append(_limit(s11 + towards, 1 / (2 * a), _all_met(f, g, (a, b), rays, S.One, integrable_across)))
        elif not (a.is_nonpositive and b.is_nonpositive):
            slack = s22 - 2 * a * rest  # along the ray that is flat v is this, where u is |S_12|
            scale = slack / sp.Abs(s12) if slack.is_positive and s12.is_number else None
            limit = sp.sqrt(slack * (s11 - 2 * b * rest))
            found.append(_limit(towards, limit, _all_met(f, g, (a, b), rays, scale, integrable_across)))
    return found


def _limit(less: sp.Expr, more: sp.Expr, met: bool | None) -> _Limit:
    """an inequality that decides, and whether the mean is finite where both sides are equal"""
    return (sp.Lt if met is False else sp.Le, less, more, met is not None)


def _alone(f: sp.Expr, ends: tuple[tuple[int, sp.Expr], ...], size: sp.Expr) -> list[_Limit]:
    """what f(u) needs of its own variance where v is independent of it"""
    a = sp.Max(S.Zero, *[rate for _, rate in ends])
    if a.is_nonpositive:
        return []
    met = integrable(f, a)
    return [_limit(size, 1 / (2 * a), met) if a.is_positive else _limit(2 * a * size, S.One, met)]


def _all_met(f: sp.Expr, g: sp.Expr, rates: tuple[sp.Expr, sp.Expr], rays: list[Ends], scale: sp.Expr | None, met: _Met) -> bool | None:
    """whether what f and g leave on the rays along which their density falls as fast as they grow is integrable there; of rays that one
    sign of their covariance has and of those that the other has, where both agree"""
    ways = [[met(f, g, rates, ray, scale) for ray in rays if ray[0] * ray[1] == way] for way in (1, -1)]
    found = {fuzzy_and(way) for way in ways if way}
    return found.pop() if len(found) == 1 else None


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
