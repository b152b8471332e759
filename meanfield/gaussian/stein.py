r"""Stein's identity for two Gaussians, put into sums of expectations that cancel.

    E[(u - m_1) h(u) g(v)] = v_1 E h'(u) g(v) + cov E h(u) g'(v)    (Stein 1981)

The rate of a kernel in a variance is the left side minus the last term, over 2 v_1: at small variances these are near equal, and E h' g is
what is left.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from meanfield.gaussian.expectation import Node
from meanfield.gaussian.growth import unbounded
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.gaussian.slopes import gathered, slope
from meanfield.symbols import known

__all__ = ["by_parts"]

x, y = known("x"), known("y")


@lru_cache(maxsize=512)
def by_parts(e: sp.Expr) -> sp.Expr:
    """A sum of expectations with the identity put in where it takes terms away; itself where it takes none.

    >>> import meanfield as mf
    >>> by_parts(mf.tanh.kernel(mf.q1, mf.p, mf.q2).diff(mf.q1))
    -E((2 - 2*tanh(x)**2)*tanh(x)*tanh(y), q1, p, q2)/2
    """
    for node in sorted(e.atoms(PairExpectation), key=sp.default_sort_key):
        for put in _identities(node):
            tried = _collected(e.xreplace({node: put}))
            if len(tried.atoms(Node)) <= len(e.atoms(Node)):
                e = tried
                break
    return e


def _identities(node: PairExpectation) -> list[sp.Expr]:
    """what E[(u - m1) h(u) g(v)] is otherwise, and the same of v; nothing where a slope in it may have no mean"""
    parts, (v1, cov, v2, m1, m2) = node.separated(), node.args[1:]
    if parts is None:
        return []

    def at(f: sp.Expr, g: sp.Expr) -> sp.Expr:
        return PairExpectation(f * g.xreplace({x: y}), v1, cov, v2, m1, m2)

    (f, g), found = parts, []
    if (h := _lowered(f, m1)) is not None and not (unbounded(h) or unbounded(g)):
        found.append(v1 * at(gathered(slope(h)), g) + cov * at(h, gathered(slope(g))))
    if (h := _lowered(g, m2)) is not None and not (unbounded(h) or unbounded(f)):
        found.append(v2 * at(f, gathered(slope(h))) + cov * at(gathered(slope(f)), h))
    return found


def _lowered(f: sp.Expr, mean: sp.Expr) -> sp.Expr | None:
    """h where f = (x - mean) h; None where that is no factor"""
    powers = f.as_powers_dict()
    return f / (x - mean) if (powers.get(x - mean, sp.S.Zero) - 1).is_nonnegative else None


def _collected(e: sp.Expr) -> sp.Expr:
    """multiplied out, the expectations as they are"""
    names = {node: sp.Dummy(real=True) for node in e.atoms(Node)}
    return sp.expand(e.xreplace(names)).xreplace({name: node for node, name in names.items()})
