r"""E f(u) g(v) as two Gaussians of one variance q come to coincide, q - p = D -> 0: see `limits`, and beside powers of slopes

    f ~ ... + A |x - a|^\alpha (+ B sign(x - a) |x - a|^\alpha),    g ~ ... + A' |x - a|^\beta ...,

where u - v ~ N(0, 2 D) is felt by the correlation of the two powers, A A' \kappa |u - v|^\gamma, \gamma = \alpha + \beta + 1. Each a adds

    n_q(a) A A' \kappa \, E|u - v|^\gamma,   E|u - v|^\gamma = (4 D)^{\gamma/2} \Gamma((\gamma + 1)/2)/\sqrt{\pi},
    \kappa = c_\alpha c_\beta/c_\gamma,   c_\alpha = -2 sin(\pi\alpha/2) \Gamma(\alpha + 1)   the Fourier transform of |x|^\alpha at k = 1,

and 2 cos(\pi\alpha/2) \Gamma(\alpha + 1) in the place of c_\alpha, c_\beta with B B' of sign(x) |x|^\alpha. At \gamma = 2, where c_\gamma
vanishes and E f' g' diverges, it is n_q(a) c_\alpha c_\beta/(2 \pi) D ln D. Jumps and kinks are \alpha = 0 and 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

import sympy as sp
from sympy import Rational, S

from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.half_line import breakpoints
from meanfield.gaussian.local_expansions import at_zero
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.gaussian.series import LOG, REST, NoExpansion
from meanfield.gaussian.slopes import deltas, slope
from meanfield.gaussian.tameness import has_a_mean
from meanfield.symbols import known

__all__ = ["finite", "small_gap", "small_gap_of_several"]

x, y = known("x"), known("y")

#: powers of x - a from which on a singularity is beyond the second order in D, whatever it is beside
_LAST = 3


def small_gap(f: sp.Expr, g: sp.Expr, v: sp.Expr, d: sp.Expr) -> sp.Expr:
    """E f(u) g(v) - E f g to two orders in the gap d."""
    if _has_roots(f) or _has_roots(g):
        return _beside_roots(f, g, v, d)
    jump = _edges(f, g, v)
    if jump is None:
        return REST * sp.sqrt(d)
    if jump != 0:
        return -2 * jump * sp.sqrt(d / (4 * sp.pi)) + REST * d
    f1, g1 = slope(f), slope(g)
    if f1.has(sp.DiracDelta) or g1.has(sp.DiracDelta):
        return _beside_jumps(f1, g1, v, d)
    first = -finite(Expectation(f1 * g1, v)) * d
    kink = _edges(f1, g1, v)
    if kink is None:
        return first + REST * d ** Rational(3, 2)
    if kink != 0:
        return first + Rational(4, 3) * kink * d ** Rational(3, 2) / sp.sqrt(4 * sp.pi)
    f2, g2 = slope(f1), slope(g1)
    return first + finite(Expectation(f2 * g2, v)) * d**2 / 2


def _beside_jumps(f1: sp.Expr, g1: sp.Expr, v: sp.Expr, d: sp.Expr) -> sp.Expr:
    """the same where one function jumps and the other has a slope on either side, of which a delta sees the mean"""
    (f2, jumps), (g2, others) = deltas(f1), deltas(g1)
    seen = finite(Expectation(f2 * g2, v))
    for found, h in ((jumps, g2), (others, f2)):
        for jump in found:
            if jump.order or any(jump.place == other.place for other in (others if found is jumps else ())):
                raise NoExpansion(PairExpectation(f1 * g1.xreplace({x: y}), v, v, v), " near its diagonal")
            beside = [at_zero(h.xreplace({x: jump.place + side * x}), 1).get(S.Zero, S.Zero) for side in (1, -1)]
            density = sp.exp(-(jump.place**2) / (2 * v)) / sp.sqrt(2 * sp.pi * v)
            seen += jump.factor.xreplace({x: jump.place}) * density * sp.Add(*beside) / 2
    return -seen * d + REST * d ** Rational(3, 2)


def small_gap_of_several(factors: Sequence[sp.Expr], spread: bool, v: sp.Expr, d: sp.Expr) -> sp.Expr:
    r"""E \prod_t h_t(u_t) - E \prod_t h_t(u) of exchangeable variables to first order in the gap d, by Price's theorem

        -d \sum_{s < t} E h_s'(u) h_t'(u) \prod_{r \ne s, t} h_r(u);

    for a spread, the covariance of the last two given what is common, d E h_{m-1}' h_m' \prod h_r. Jumps are felt as sqrt(d), and roots no
    more than that.
    """
    slopes = [slope(h) for h in factors]
    if any(s.has(sp.DiracDelta) for s in slopes) or any(map(_has_roots, factors)):
        return REST * sp.sqrt(d)
    count = len(factors)
    pairs = [(count - 2, count - 1)] if spread else list(combinations(range(count), 2))
    rates = [sp.Mul(*[slopes[r] if r in pair else h for r, h in enumerate(factors)]) for pair in pairs]
    kinked = any(slope(s).has(sp.DiracDelta) for s in slopes)
    first = finite(Expectation(sp.Add(*rates), v)) * d
    return (first if spread else -first) + REST * d ** (Rational(3, 2) if kinked else 2)


def finite(e: sp.Expr) -> sp.Expr:
    """The same, if it is a number and none of the expectations in it is known to be infinite"""
    if e is S.NaN:
        raise NoExpansion("a slope is infinite in a way that is no delta")
    for node in e.atoms(Node):
        if isinstance(node, Expectation) and has_a_mean(node.integrand):
            continue
        form = node.closed()
        if form is not None and form.has(sp.oo, sp.zoo):
            raise NoExpansion("the mean of ", node.integrand, " is infinite")
    return e


def _edges(f: sp.Expr, g: sp.Expr, v: sp.Expr) -> sp.Expr | None:
    """sum over common jumps of the product of their heights and the density there; None where they are infinitely many, or not known"""
    heights: list[dict[sp.Expr, sp.Expr]] = []
    for h in (f, g):
        own: dict[sp.Expr, sp.Expr] = {}
        try:
            jumps = deltas(slope(h))[1]
        except ValueError:
            return None
        for jump in jumps:
            if jump.order == 0:
                own[jump.place] = own.get(jump.place, S.Zero) + jump.factor.xreplace({x: jump.place})
        heights.append(own)
    first, second = heights
    return sp.Add(*[c * second[at] * sp.exp(-(at**2) / (2 * v)) / sp.sqrt(2 * sp.pi * v) for at, c in first.items() if at in second])


# -- roots and other powers that are not whole -----------------------------------------------------------------------------


def _has_roots(f: sp.Expr) -> bool:
    """whether a power that is not whole has a place where its base vanishes, maybe"""
    return any(
        not t.exp.is_Integer and t.exp.is_number and t.base.has(x, sp.Abs) and t.base.is_positive is None
        for t in f.atoms(sp.Pow)
        if t.has(x)
    )


def _beside_roots(f: sp.Expr, g: sp.Expr, v: sp.Expr, d: sp.Expr) -> sp.Expr:
    """the same where slopes are powers"""
    orders: dict[sp.Expr, sp.Expr] = defaultdict(lambda: S.Zero)
    for place in sorted(_corners(f) & _corners(g), key=sp.default_sort_key):
        near = sp.exp(-(place**2) / (2 * v)) / sp.sqrt(2 * sp.pi * v)
        first, second = _powers_at(f, place), _powers_at(g, place)
        for (a, odd), c in first.items():
            for (b, other), e in second.items():
                if odd == other and a + b < _LAST:
                    orders[a + b + 1] += near * c * e * _transform(a, odd) * _transform(b, odd)
    found = {k: c for k, c in sorted(orders.items()) if c != 0}
    least, following = [*found, sp.Integer(4), sp.Integer(4)][:2]
    if least < 2:
        return _correlated(found[least], least, d) + REST * d ** min(following / 2, S.One)
    if least == 2:
        beside = sp.Dummy("beside", real=True)  # not known, and less than the logarithm: its sign is never said
        return found[least] / (2 * sp.pi) * d * sp.log(d) + beside * d
    linear = -finite(Expectation(slope(f) * slope(g), v)) * d
    if least == 4:
        return linear + REST * d**2 * (sp.log(d) if 4 in found else 1)
    return linear + _correlated(found[least], least, d) + REST * d ** min(following / 2, sp.Integer(2))


def _correlated(weight: sp.Expr, order: sp.Expr, d: sp.Expr) -> sp.Expr:
    """what two powers of orders that add up to `order` - 1 share at a difference of variance 2 d"""
    return weight / _transform(order, False) * (4 * d) ** (order / 2) * sp.gamma((order + 1) / 2) / sp.sqrt(sp.pi)


def _transform(a: sp.Expr, odd: bool) -> sp.Expr:
    return (2 * sp.cos(sp.pi * a / 2) if odd else -2 * sp.sin(sp.pi * a / 2)) * sp.gamma(a + 1)


def _corners(f: sp.Expr) -> set[sp.Expr]:
    """where f is not smooth, if anywhere"""
    return {S.Zero, *breakpoints(f), *(-a for a in breakpoints(f.xreplace({x: -x})))}


def _powers_at(f: sp.Expr, place: sp.Expr) -> dict[tuple[sp.Expr, bool], sp.Expr]:
    """f as powers |t|^a of the distance t to a place, and sign(t) |t|^a, those that are smooth left out"""
    right, left = (at_zero(f.xreplace({x: place + side * x}), _LAST) for side in (1, -1))
    found = {}
    for a in {*right, *left}:
        both = right.get(a, S.Zero), left.get(a, S.Zero)
        if any(c.has(LOG) for c in both) or a <= -S.Half:
            raise NoExpansion(f, " is no sum of powers at ", place)
        for odd, c in ((False, sp.expand((both[0] + both[1]) / 2)), (True, sp.expand((both[0] - both[1]) / 2))):
            if c != 0 and not (a.is_Integer and a % 2 == odd):
                found[a, odd] = c
    return found
