r"""Tangents of expressions: the sum of partial derivatives times the tangents of what they are written in.

Price's theorem makes the derivative of an expectation expectations again,

    dE f(u)/dq = E[u f'(u)]/(2q),   dE f(u) g(v)/dp = E f'(u) g'(v),

and for the gap G[f](q, \delta) = E f(u)^2 - E f(u) f(v), free of cancellation,

    dG/d\delta = E f'(u) f'(v),   dG/dq at fixed \delta = G[f'] + (G[f + f''] - G[f - f''])/4,

or by the scale of u, with h = u f' and a number \lambda,

    q dG/dq = (G[h + \lambda f] - G[h - \lambda f])/(4 \lambda) - \delta dG/d\delta,

whose first term is E h f - E h(u) f(v), and written so where f jumps or h is infinite somewhere. The first form is to the last digits where
u is small beside the scale of f, the second to those of G/q anywhere: where f'' jumps or has no mean it is the second, elsewhere the one
whose terms are smaller.
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from meanfield.gaussian import closed
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.growth import unbounded
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.slopes import slope
from meanfield.symbols import known

__all__ = ["gap_by_gap", "gap_by_variance", "partial", "tangent"]

#: \lambda where h jumps: its gaps are of the order of \sqrt\delta, the derivative and \lambda G[f] are not
HEAVY = 32

x, y, q, delta = (known(name) for name in ("x", "y", "q", "delta"))


def tangent(e: sp.Expr, dots: Mapping[sp.Expr, sp.Expr]) -> sp.Expr:
    """the sum of partial derivatives times tangents"""
    if isinstance(e, sp.Min):  # the bound of a gap, which rounding alone can reach
        e = next(a for a in e.args if a.has(Gap) or not (a.is_Number or (a.is_Mul and a.args[0] == 2)))
    nodes = {node: sp.Dummy(str(i)) for i, node in enumerate(sorted(e.atoms(Node), key=sp.default_sort_key))}
    outer = e.xreplace(nodes)
    back = {letter: node for node, letter in nodes.items()}
    total = sp.Add(*[outer.diff(s) * dots[s] for s in outer.free_symbols & dots.keys()])
    inner = sp.Add(*[outer.diff(letter) * _node_tangent(node, dots) for node, letter in nodes.items()])
    return (total + inner).xreplace(back)


def partial(e: sp.Expr, s: sp.Symbol) -> sp.Expr:
    """The derivative of an expression by a symbol, in what numbers are computed of.

    Raises ValueError, with what has none.
    """
    found = tangent(e, {s: sp.S.One})
    if unknown := found.atoms(sp.Derivative, sp.Subs):
        raise ValueError(f"{min(map(str, unknown))} has no formula: no sensitivities of this network")
    return found


def _node_tangent(node: sp.Expr, dots: Mapping[sp.Expr, sp.Expr]) -> sp.Expr:
    if isinstance(node, Gap):
        f, v, d = node.args
        parameters = sp.Add(
            *[node.xreplace({v: _V, d: _D}).diff(s).xreplace({_V: v, _D: d}) * dots[s] for s in f.free_symbols & dots.keys()]
        )
        moves = ((gap_by_variance, _along(v, dots)), (gap_by_gap, _along(d, dots)))
        return sp.Add(parameters, *[rate(f, v, d) * move for rate, move in moves if move != 0])
    return _along(node, dots)


_V, _D = sp.Dummy("V", positive=True), sp.Dummy("D", positive=True)


def _along(e: sp.Expr, dots: Mapping[sp.Expr, sp.Expr]) -> sp.Expr:
    return sp.Add(*[e.diff(s) * dots[s] for s in e.free_symbols & dots.keys()])


def gap_by_gap(f: sp.Expr, v: sp.Expr, d: sp.Expr) -> sp.Expr:
    """The derivative of a gap in its gap."""
    return _of_slopes(slope(f), v, d)


def gap_by_variance(f: sp.Expr, v: sp.Expr, d: sp.Expr) -> sp.Expr:
    """The derivative of a gap in its variance."""
    f1 = slope(f)
    f2 = _smooth_slope(f1)
    if f2 is not None:
        first, (more, less) = Gap(f1, v, d), _product_of_gaps(f, f2, v, d, 1)
        if more == less:
            return first
    else:
        form = closed.gap(f)
        if form is not None:
            return form.diff(q).subs({q: v, delta: d}, simultaneous=True)
    scaled, by_delta = x * f1, _of_slopes(f1, v, d)
    if f1.has(sp.DiracDelta) or unbounded(scaled):
        own = Expectation(x * slope(f**2) / 2, v)  # a delta times f, which jumps there, is no product of the two
        return (own - PairExpectation(scaled * f.xreplace({x: y}), v, v - d, v) - d * by_delta) / v
    along, against = (t / v for t in _product_of_gaps(scaled, f, v, d, HEAVY if f2 is None else 1))
    turned = d * by_delta / v
    if f2 is None:
        return along - against - turned
    # gaps are positive; |turned| as sympy writes it holds another integrand, with the sign turned in its sums
    beyond = first + more + less - along - against
    near = sp.Or(beyond <= turned, beyond <= -turned)
    return sp.Piecewise((first + more - less, near), (along - against - turned, True))


def _of_slopes(f1: sp.Expr, v: sp.Expr, d: sp.Expr) -> sp.Expr:
    """E f'(u) f'(v)"""
    return PairExpectation(f1 * f1.xreplace({x: y}), v, v - d, v)


def _smooth_slope(f: sp.Expr) -> sp.Expr | None:
    """f' where it does not jump, so that f has no kinks; None where it does, may have no mean, or has kinks at places that are not known"""
    if unbounded(f):
        return None
    try:
        rate = slope(f)
        return None if slope(rate).has(sp.DiracDelta) else rate
    except ValueError:
        return None


def _product_of_gaps(f: sp.Expr, g: sp.Expr, v: sp.Expr, d: sp.Expr, weight: int) -> tuple[sp.Expr, sp.Expr]:
    """two terms of which E f(u) g(u) - E f(u) g(v) is the difference, of the gaps of f + weight g and f - weight g"""
    return Gap(f + weight * g, v, d) / (4 * weight), Gap(f - weight * g, v, d) / (4 * weight)
