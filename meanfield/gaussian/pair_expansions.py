r"""Expansions of E f(u) g(v) in the overall scale of (q1, p, q2): each term is homogeneous, a function of the correlation times a power.

Small variances: f and g by their Taylor expansions at 0. Where both are analytic there (Price 1958, Mehler),

    E f(u) g(v) = \sum_n \frac{p^n}{n!} E f^{(n)}(u) \, E g^{(n)}(v);

at a kink the powers u^k and |u|^k (or sign(u) u^k) have closed forms of their own, arc-cosine kernels.

Large variances, at fixed correlation: f is its tails, polynomials on either half line, and a rest r, of which a wide Gaussian sees only the
moments: f = tails + \sum_i (-1)^i m_i \delta^{(i)} / i! with m_i = \int y^i r(y) dy. Where f ~ const + k/x on both sides, beside the
constants the principal value of k/x has

    E sign(u)/v = \sqrt{2/(\pi q_2)} \, artanh(p/\sqrt{q_1 q_2}),   E 1/(u v) = asin(p/\sqrt{q_1 q_2})/\sqrt{q_1 q_2 - p^2}.

Tails may be powers |x|^k as well, k > -1, with or without the sign of x, of which the moments are those of `powers`; or
polynomials in ln|x|, with or without the sign of x: of u = \sqrt{q_1} z they are polynomials in (ln q_1)/2 + ln|z|, and the
moments of ln|z| are those of `logarithmic_moments`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import sympy as sp
from sympy import Rational, S

from meanfield.gaussian import closed
from meanfield.gaussian.expansions import coefficients, folded, scaled, taylor_rest
from meanfield.gaussian.finite_parts import finite_part
from meanfield.gaussian.forms import literature
from meanfield.gaussian.local_expansions import at_infinity
from meanfield.gaussian.logarithmic_moments import log_moment
from meanfield.gaussian.power_moments import PowerMoment
from meanfield.gaussian.powers import Powers
from meanfield.gaussian.reasons import Reason
from meanfield.gaussian.series import LOG, NoExpansion
from meanfield.gaussian.zeros import vanishes
from meanfield.symbols import among_reals, known

__all__ = ["pair_asymptotic", "pair_taylor"]

x, y, p, q, q1, q2 = (known(name) for name in ("x", "y", "p", "q", "q1", "q2"))

Parts = tuple[tuple[sp.Expr, sp.Expr], ...]

#: beyond this degree of f and g together a kink's kernels are not derived
_HIGHEST = 12


def _powers(f: sp.Expr, order: int) -> tuple[list[sp.Expr], list[sp.Expr]]:
    """f = sum of even[k] x^k + odd[k] sign(x) x^k"""
    right, left = coefficients(f, order)
    even = [sp.expand((a + (-1) ** k * b) / 2) for k, (a, b) in enumerate(zip(right, left, strict=True))]
    odd = [sp.expand((a - (-1) ** k * b) / 2) for k, (a, b) in enumerate(zip(right, left, strict=True))]
    return even, [S.Zero if vanishes(c) else c for c in odd]


@cache
def _monomial(k: int, first: bool, j: int, second: bool) -> sp.Expr:
    """E u^k v^j, with sign(u) and sign(v) where asked for"""
    if first and second and k > j:
        return _monomial(j, True, k, True).xreplace({q1: q2, q2: q1})
    f = x**k * (sp.sign(x) if first else S.One)
    g = x**j * (sp.sign(x) if second else S.One)
    if f is S.One or g is S.One:
        return _mean(f * g, True).xreplace({q: q2 if f is S.One else q1})
    return closed.cross_unequal(f, g)


def _mean(f: sp.Expr, centred: bool) -> sp.Expr:
    """E of a monomial, which always closes"""
    value = closed.mean(f, centred) if x in f.free_symbols else f
    assert value is not None, f
    return value


@among_reals
def pair_taylor(f: sp.Expr, g: sp.Expr, order: int, equal: bool) -> tuple[Parts, sp.Expr]:
    """Homogeneous parts of E f(u) g(v) up to degree `order` in (q1, p, q2), and the order of what is left out in terms of q."""
    reach = 2 * order + 3
    (a, ka), (b, kb) = _powers(f, reach), _powers(g, reach)
    if (any(ka) or any(kb)) and 2 * order > _HIGHEST:
        raise ValueError(f"order = {order}: at most {_HIGHEST // 2} where the activation has a kink at 0")
    parts: dict[sp.Expr, list[sp.Expr]] = {}
    beyond: set[sp.Expr] = set()
    for k in range(reach + 1):
        for j in range(reach + 1 - k):
            degree = Rational(k + j, 2)
            for c, first in ((a[k], False), (ka[k], True)):
                for d, second in ((b[j], False), (kb[j], True)):
                    if c == 0 or d == 0 or (k + j + first + second) % 2:
                        continue
                    if degree > order:
                        beyond.add(degree)
                    else:
                        parts.setdefault(degree, []).append(c * d * _monomial(k, first, j, second))
    found = [(_collected(sp.Add(*parts[degree]), equal), degree) for degree in sorted(parts)]
    rests = {taylor_rest((h, h.xreplace({x: -x})), reach) for h in (f, g)}
    powers = [q ** min(beyond)] if beyond else [rest for rest in rests if rest != 0 and not rest.has(sp.exp)]
    remainder = powers[0] if powers else sp.Add(*rests)
    return tuple((c, e) for c, e in found if c != 0), remainder


def _collected(total: sp.Expr, equal: bool) -> sp.Expr:
    total = total.xreplace({q1: q, q2: q}) if equal else total
    if total.has(sp.asin):
        return literature(total)
    if total.has(PowerMoment):
        return total
    room, determinant = sp.Dummy(positive=True), (q if equal else q1) * (q if equal else q2) - p**2
    total = total.replace(lambda e: e.is_Pow and e.base == determinant, lambda e: room**e.exp)
    total = sp.expand(total)
    tidy = total if total.is_polynomial(p, q, q1, q2) else sp.factor(sp.together(total))
    return tidy.xreplace({room: determinant})


@dataclass(frozen=True)
class _Generalised:
    """tails[(k, odd)] x^k (sign(x)), |x|^k (sign(x)) if k is not whole, ln^k|x| (sign(x)) if they are logarithms, + pole/x
    + sum of weights[i] times the i-th derivative of a delta, down to the degree left out"""

    tails: dict[tuple[sp.Rational, bool], sp.Expr]
    weights: tuple[sp.Expr, ...]
    left_out: sp.Expr
    logarithmic: bool
    pole: sp.Expr
    logarithms: bool = False

    @property
    def highest(self) -> sp.Expr:
        here = [S.Zero if self.logarithms else k for k, _ in self.tails] + [-S.One] * (self.pole != 0)
        return max(here + [-sp.Integer(i + 1) for i, w in enumerate(self.weights) if w != 0], default=self.left_out)

    def as_logarithms(self) -> _Generalised:
        """the same, a constant being the power 0 of a logarithm, without what is local: that is O(1/x)"""
        if self.logarithms:
            return self
        if not all(k == 0 for k, _ in self.tails):
            raise NoExpansion("a logarithm beside powers")
        return _Generalised(self.tails, (), -S.One, True, S.Zero, True)


@cache
def _generalised(f: sp.Expr, order: int) -> _Generalised:
    sides = [at_infinity(side, order + 2) for side in (f, f.xreplace({x: -x}))]
    tails: dict[tuple[sp.Rational, bool], sp.Expr] = {}
    falling: list[sp.Expr] = []
    for a in sorted(set(sides[0]) | set(sides[1]), reverse=True):
        right, left = (s.get(a, S.Zero) for s in sides)
        logarithms = right.has(LOG) or left.has(LOG)
        if a <= -1 or (a < 0 and logarithms):
            falling.append(a)
        elif a == 0 and logarithms and not tails:
            return _Generalised(_parted(*(_powers_of_log(c) for c in (right, left))), (), -S.One, True, S.Zero, True)
        elif logarithms:
            term = x**a * (right if right != 0 else left).xreplace({LOG: sp.log(x)})
            raise NoExpansion("it grows like ", term, ", which is no power")
        else:
            tails |= _parted({a: right}, {a: (-1) ** a * left if a.is_Integer else left})
    pole: sp.Expr = S.Zero
    if falling and falling[0] == -1 and set(tails) <= {(0, False), (0, True)}:
        right, left = (s.get(falling[0], S.Zero) for s in sides)
        if not right.has(LOG) and not left.has(LOG) and vanishes(sp.expand(right + left)):
            pole, falling = right, [-sp.Integer(2)]
    count = order if not falling else max(0, min(order, int(sp.ceiling(-falling[0])) - 1))
    weights = []
    for i in range(count):
        weights.append(sp.expand((-1) ** i * finite_part(folded(x**i * f), 0) / sp.factorial(i)))
    left_out = falling[0] if falling else -sp.Integer(order + 1)
    return _Generalised(tails, tuple(weights), left_out, bool(falling) and falling[0].is_Integer, pole)


def _powers_of_log(c: sp.Expr) -> dict[sp.Rational, sp.Expr]:
    return {sp.Integer(k): b for k, b in enumerate(sp.Poly(c, LOG).all_coeffs()[::-1])}


def _parted(right: dict[sp.Rational, sp.Expr], mirrored: dict[sp.Rational, sp.Expr]) -> dict[tuple[sp.Rational, bool], sp.Expr]:
    """what is alike on both sides, and what changes its sign"""
    found: dict[tuple[sp.Rational, bool], sp.Expr] = {}
    for k in sorted(set(right) | set(mirrored), reverse=True):
        a, b = (side.get(k, S.Zero) for side in (right, mirrored))
        for c, odd in (((a + b) / 2, False), ((a - b) / 2, True)):
            if not vanishes(sp.expand(c)):
                found[k, odd] = sp.expand(c)
    return found


@among_reals
def pair_asymptotic(f: sp.Expr, g: sp.Expr, count: int, equal: bool) -> tuple[Parts, sp.Expr]:
    """The first `count` homogeneous parts of E f(u) g(v) for wide Gaussians at a fixed correlation, and what order is left out."""
    (c1, f1, a1), (c2, g1, a2) = scaled(f), scaled(g)
    if a1 != a2 or a1 == 1:
        return _wide(f, g, count, equal)
    parts, remainder = _wide(f1, g1, count, equal)
    scales = {sp.log(v): sp.log(v) + 2 * sp.log(a1) for v in (q, q1, q2)}
    return tuple((sp.expand(c1 * c2 * a1 ** (2 * e)) * c.xreplace(scales), e) for c, e in parts), remainder


def _wide(f: sp.Expr, g: sp.Expr, count: int, equal: bool) -> tuple[Parts, sp.Expr]:
    order = 2 * count + 2
    try:
        a, b = _generalised(f, order), _generalised(g, order)
        if a.logarithms or b.logarithms:
            return _wide_logarithms(a.as_logarithms(), b.as_logarithms(), equal)
    except NoExpansion as reason:
        raise ValueError(Reason("E[f(u) g(v)] of ", f, " and ", g, " has no expansion of this kind at large variances: ", reason)) from None
    limit = max(a.highest + b.left_out, a.left_out + b.highest)
    parts: dict[sp.Expr, list[sp.Expr]] = {}
    for (k, first), c in a.tails.items():
        for (j, second), d in b.tails.items():
            if _parity(k, first) == _parity(j, second):
                parts.setdefault(k + j, []).append(c * d * _tails(k, first, j, second))
        for i, w in enumerate(b.weights):
            if _parity(k, first) == i % 2 and w != 0:
                parts.setdefault(k - i - 1, []).append(c * w * _tail_delta(k, first, i))
    for (j, second), d in b.tails.items():
        for i, w in enumerate(a.weights):
            if _parity(j, second) == i % 2 and w != 0:
                parts.setdefault(j - i - 1, []).append(d * w * _tail_delta(j, second, i).xreplace({q1: q2, q2: q1}))
    for pole, tails, put in ((b.pole, a.tails, {}), (a.pole, b.tails, {q1: q2, q2: q1})):
        if pole != 0 and (0, True) in tails:
            parts.setdefault(-S.One, []).append(pole * tails[0, True] * _tail_pole().xreplace(put))
    if a.pole != 0 and b.pole != 0:
        parts.setdefault(-sp.Integer(2), []).append(a.pole * b.pole * sp.asin(p / sp.sqrt(q1 * q2)) / sp.sqrt(q1 * q2 - p**2))
    for i, w in enumerate(a.weights):
        for j, z in enumerate(b.weights):
            if (i + j) % 2 == 0 and w != 0 and z != 0:
                parts.setdefault(sp.Integer(-i - j - 2), []).append(w * z * _deltas(i, j))
    found = [(c, e / 2) for e in sorted(parts, reverse=True) if e > limit and (c := _collected(sp.Add(*parts[e]), equal)) != 0]
    if len(found) > count:
        return tuple(found[:count]), q ** found[count][1]
    if not found:
        slow = f"{f} decays" if f == g else f"{f} and {g} decay"
        raise ValueError(f"{slow} so slowly that the expansion has no local term: it is all of the order of what is left out")
    return tuple(found), q ** (limit / 2) * (sp.log(q) if a.logarithmic or b.logarithmic else S.One)


def _wide_logarithms(a: _Generalised, b: _Generalised, equal: bool) -> tuple[Parts, sp.Expr]:
    """the part of degree 0, a polynomial in the logarithms of the variances; what is local is O(q^-1/2) beside it"""
    v1, v2 = (q, q) if equal else (q1, q2)
    r, total = p / q if equal else p / sp.sqrt(q1 * q2), S.Zero
    for (m, first), c in a.tails.items():
        for (n, second), d in b.tails.items():
            for i, j in product(range(int(m) + 1), range(int(n) + 1)) if first == second else ():
                scales = (sp.log(v1) / 2) ** (m - i) * (sp.log(v2) / 2) ** (n - j) * sp.binomial(m, i) * sp.binomial(n, j)
                total += c * d * scales * log_moment(int(first), i, j, r)
    degree = max((m for m, _ in a.tails), default=0) + max((n for n, _ in b.tails), default=0)
    return ((sp.expand(total), S.Zero),), sp.log(q) ** degree / sp.sqrt(q)


@cache
def _tail_pole() -> sp.Expr:
    """E sign(u)/v, a principal value"""
    return sp.sqrt(2 / (sp.pi * q2)) * sp.atanh(p / sp.sqrt(q1 * q2))


def _parity(k: sp.Rational, odd: bool) -> int:
    """1 of a tail that changes its sign, 0 of one that does not"""
    return (int(odd) + int(k)) % 2 if k.is_Integer else int(odd)


def _tails(k: sp.Rational, first: bool, j: sp.Rational, second: bool) -> sp.Expr:
    if k.is_Integer and j.is_Integer:
        return _monomial(int(k), first, int(j), second)
    return q1 ** (k / 2) * q2 ** (j / 2) * PowerMoment(_parity(k, first), k, j, p / sp.sqrt(q1 * q2))


@cache
def _tail_delta(k: sp.Rational, odd: bool, i: int) -> sp.Expr:
    """E[u^k (sign u) delta^(i)(v)]: (-1)^i times the i-th derivative at v = 0 of density(v) E[... | v]"""
    variance, mean = q1 - p**2 / q2, p * y / q2
    if k.is_Integer:
        tail = x**k * (sp.sign(x) if odd else S.One)
        below = _mean(tail, False).xreplace({q: variance}).xreplace({closed.M: mean})
    else:
        below = Powers(k, sp.Integer(not odd), sp.Integer(odd)).mean(variance, mean)
    density = sp.exp(-(y**2) / (2 * q2)) / sp.sqrt(2 * sp.pi * q2)
    value = (density * below).diff(y, i).subs(y, 0).replace(sp.hyper, lambda *_: S.One)  # a hypergeometric function at 0
    return sp.factor(sp.powdenest(sp.together(value))) * (-1) ** i


@cache
def _deltas(i: int, j: int) -> sp.Expr:
    """the mixed derivative of the bivariate density at the origin, with its sign"""
    room = sp.Dummy(positive=True)  # q1 q2 - p^2
    value = sp.exp(-(q2 * x**2 - 2 * p * x * y + q1 * y**2) / (2 * room)).diff(x, i).diff(y, j).subs({x: 0, y: 0})
    return (-1) ** (i + j) * (sp.factor(value) / (2 * sp.pi * sp.sqrt(room))).xreplace({room: q1 * q2 - p**2})
