"""Whether, and for which variances, expectations of products of atoms are finite."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import sympy as sp

from meanfield.gaussian.atoms import Atom, NotClosed
from meanfield.gaussian.growth import rates
from meanfield.gaussian.moments import Covariance, Weighted

__all__ = ["collide", "finite", "is_finite", "is_finite_pair", "is_infinite_pair", "where_finite_pair"]


def finite(weighted: Weighted) -> sp.Basic:
    r"""Where the tilt of a sum of moments with growing Gaussians is one: S^{-1} + A is positive definite. True where there are none.

    A half-plane holds one of u and -u, so that one gate changes nothing, and this is where the sum is finite. Two gates leave a quadrant,
    on which it may be finite beyond (`is_finite_pair`). An A of unknown sign may grow.

    Raises
    ------
    NotClosed
        Two gates of one variable stand beside a Gaussian that grows: they may leave an interval.
    """
    below: dict[sp.Expr, sp.Expr] = {}
    found: list[sp.Basic] = []
    for _, t in weighted:
        (s11, s12, s22), (first, second) = t.cov, (sp.re(a) for a in t.A)
        if first.is_nonnegative and second.is_nonnegative:
            continue
        if None not in t.G and s11 == s12 == s22:
            raise NotClosed(f"{t.G[0]} and {t.G[1]} beside a Gaussian that grows: where the expectation is finite depends on them")
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


def is_finite(f: sp.Expr, variance: sp.Expr) -> bool:
    """Whether E f(u) is known not to grow beyond the normal density, at a number for a variance."""
    found = rates(f)
    return found is not None and all((1 - 2 * a * variance).is_positive for _, a in found)


def is_finite_pair(f: sp.Expr, g: sp.Expr, cov: Covariance) -> bool:
    r"""The same of E f(u) g(v): S^{-1} - 2 diag(a, b) is positive on each quadrant where neither vanishes from some point on."""
    found = _on_quadrants(f, g, cov)
    return found is not None and all(least.is_positive for least in found)


def is_infinite_pair(f: sp.Expr, g: sp.Expr, cov: Covariance) -> bool:
    """Whether E |f(u) g(v)| is known to be infinite: beyond that bound on a quadrant."""
    found = _on_quadrants(f, g, cov)
    return found is not None and any(least.is_negative for least in found)


def _on_quadrants(f: sp.Expr, g: sp.Expr, cov: Covariance) -> list[sp.Expr] | None:
    """for each quadrant what is positive where the product falls beside the density, and negative where it grows"""
    (s11, s12, s22), first, second = cov, rates(f), rates(g)
    rest = s11 * s22 - s12**2
    if first is None or second is None or any(a.is_infinite for _, a in (*first, *second)):
        return None
    if rest == 0:  # v is a multiple of u
        return [1 - 2 * (a * s11 + b * s22) for (i, a), (j, b) in itertools.product(first, second) if (i * j * s12).is_positive]
    if not rest.is_positive:
        return None
    found = []
    for (i, a), (j, b) in itertools.product(first, second):
        across, along = s22 - 2 * a * rest, s11 - 2 * b * rest
        least = sp.Min(across, along)
        found.append(-i * j * s12 + sp.sqrt(across * along) if least.is_positive else least)
    return found


def where_finite_pair(f: sp.Expr, g: sp.Expr, cov: Covariance) -> sp.Basic | None:
    r"""The condition for E f(u) g(v) to be finite, by their growth on each quadrant; None where it always is, or it cannot be told.
    Signs i and j, rates a and b: 2 a |S| < S_22, 2 b |S| < S_11 and i j S_12 < \sqrt{(S_22 - 2 a |S|) (S_11 - 2 b |S|)}."""
    (s11, s12, s22), first, second = cov, rates(f), rates(g)
    if first is None or second is None or any(not a.is_real for _, a in (*first, *second)):
        return None
    rest = (s11 - s12) * (s11 + s12) if s11 == s22 else s11 * s22 - s12**2
    quadrants = [(i * j * s12, a, b) for (i, a), (j, b) in itertools.product(first, second)]
    if all(len(found) == 2 and found[0][1] == found[1][1] for found in (first, second)):
        quadrants = [(sp.Abs(s12), *quadrants[0][1:])]
    found: list[sp.Basic] = []
    for towards, a, b in quadrants:
        if a.is_nonpositive and b.is_nonpositive:
            continue
        found += [2 * rate * rest < size for rate, size in ((a, s22), (b, s11)) if not rate.is_nonpositive]
        if a == b and s11 == s22:
            found.append(s11 + towards < 1 / (2 * a))
        else:
            found.append(towards < sp.sqrt((s22 - 2 * a * rest) * (s11 - 2 * b * rest)))
    return sp.And(*found) if found else None


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
