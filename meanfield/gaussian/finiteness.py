"""Whether, and for which variances, expectations of products of atoms are finite."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import sympy as sp

from meanfield.gaussian.atoms import Atom, NotClosed
from meanfield.gaussian.moments import Weighted

__all__ = ["collide", "finite"]


def finite(weighted: Weighted) -> sp.Basic:
    r"""Where a sum of moments with growing Gaussians is finite: S^{-1} + A is positive definite. True where there are none.

    A half-plane holds one of u and -u, so that one gate changes nothing.

    Raises
    ------
    NotClosed
        Two gates stand beside a Gaussian that grows.
    """
    below: dict[sp.Expr, sp.Expr] = {}
    found: list[sp.Basic] = []
    for _, t in weighted:
        (s11, s12, s22), (first, second) = t.cov, t.A
        if not (first.is_negative or second.is_negative):
            continue
        if None not in t.G:
            raise NotClosed(f"{t.G[0]} and {t.G[1]} beside a Gaussian that grows: where the expectation is finite depends on them")
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


def collide(f: Iterable[Atom], g: Iterable[Atom]) -> bool:
    """Whether both have a delta at one place: the expectation of the product is infinite."""
    peaks = [[gate.a for t in atoms for gate in t.G if gate.density] for atoms in (f, g)]
    return any(sp.expand(a - b) == 0 for a, b in itertools.product(*peaks))
