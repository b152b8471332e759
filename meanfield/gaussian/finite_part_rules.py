r"""Closed finite parts of \int x^n f(x) dx over a piece of the half line, a rule for each kind of f."""

from __future__ import annotations

import math
from functools import cache, reduce

import sympy as sp
from sympy import S
from sympy.integrals.rationaltools import ratint, ratint_ratpart

from meanfield.gaussian.binomial_powers import binomial_powers, without_roots_of_x
from meanfield.gaussian.finite_part_towers import towers
from meanfield.gaussian.local_expansions import at_infinity, at_zero
from meanfield.gaussian.series import LOG, NoExpansion
from meanfield.symbols import known

__all__ = ["closed_piece"]

x = known("x")
_Z = sp.Dummy("z", positive=True)


def closed_piece(f: sp.Expr, n: int, low: sp.Expr, high: sp.Expr) -> sp.Expr | None:
    f = sp.expand(f) if f.is_polynomial(x) else f
    if f.is_polynomial(x):
        antiderivative = ratint(sp.expand(x**n * f), x)
        upper = antiderivative.subs(x, high) if high is not S.Infinity else S.Zero
        return sp.expand(upper - antiderivative.subs(x, low))
    if low != 0 or high is not S.Infinity:
        return None
    f, n = without_roots_of_x(f, n)
    for rule in (_rational, _exponential, towers, _gaussian, _binomial, _arctangents, _by_parts):
        found = rule(f, n)
        if found is not None and not found.has(sp.oo, sp.zoo, sp.nan):
            return found
    return None


def _rational(f: sp.Expr, n: int) -> sp.Expr | None:
    if not f.is_rational_function(x):
        return None
    whole = sp.cancel(x**n * f)
    if any(sp.degree(d, x) > 2 for d, _ in sp.factor_list(sp.denom(whole), x)[1]):
        return None
    antiderivative = sp.Add(*[ratint(term, x) for term in sp.Add.make_args(sp.apart(whole, x))])
    antiderivative = antiderivative.replace(lambda e: isinstance(e, sp.log), lambda e: sp.log(sp.Abs(e.args[0])))
    return _constant_term(antiderivative)


def _constant_term(antiderivative: sp.Expr) -> sp.Expr | None:
    """the constant at infinity less the value at 0"""
    try:
        upper = at_infinity(antiderivative, 1).get(S.Zero, S.Zero)
        lower = at_zero(antiderivative, 1)
    except NoExpansion:
        return None
    if any(a < 0 or c.has(LOG) for a, c in lower.items()):
        return None
    return sp.expand(sp.expand(upper).coeff(LOG, 0) - lower.get(S.Zero, S.Zero))


def _exponential(f: sp.Expr, n: int) -> sp.Expr | None:
    f = f.replace(lambda e: isinstance(e, sp.exp), lambda e: _shifted(e.args[0]))
    scales = [e.args[0].expand() for e in f.atoms(sp.exp) if e.has(x)]
    if not scales or any(sp.expand(a / x).has(x) for a in scales):
        return None
    rates = sorted((sp.expand(a / x) for a in scales), key=str)
    ratios = [sp.cancel(r / rates[0]) for r in rates]
    if not all(r.is_Rational for r in ratios):
        return None
    unit = sp.Abs(rates[0]) * reduce(sp.gcd, ratios)  # sympy's gcd of a list ends at the first 1, before a fraction
    if not unit.is_positive:
        return None
    inside = f.xreplace({e: _Z ** (-sp.cancel(sp.expand(e.args[0] / x) / unit)) for e in f.atoms(sp.exp) if e.has(x)})
    if not inside.is_rational_function(x, _Z):
        return None
    top, bottom = sp.fraction(sp.cancel(sp.together(inside)))
    if x in bottom.free_symbols:
        return None
    total = S.Zero
    for (d,), coefficient in sp.Poly(top, x).terms():
        ratio, step = _thinned(sp.cancel(coefficient / bottom))
        parts = _power_sums(ratio)
        if parts is None:
            return None
        k = n + d
        value = sp.Add(*[a / sp.Integer(m) ** (k + 1) for m, a in parts[0]])
        value += sp.Add(*[_real_part(a * _polylog(k + 1 - j, w), w) for j, w, a in parts[1]])
        total += value * sp.factorial(k) / (step * unit) ** (k + 1)
    return sp.expand(total)


def _shifted(exponent: sp.Expr) -> sp.Expr:
    """e^{ax + b} as e^b e^{ax}"""
    b, rest = sp.expand(exponent).as_independent(x, as_Add=True)
    return sp.exp(b) * sp.exp(rest)


def _thinned(ratio: sp.Expr) -> tuple[sp.Expr, int]:
    """a function of z^step as one of z"""
    top, bottom = (sp.Poly(e, _Z) for e in sp.fraction(ratio))
    step = math.gcd(*(m for polynomial in (top, bottom) for (m,) in polynomial.monoms())) or 1
    thin = [sp.Poly({(m // step,): c for (m,), c in polynomial.terms()}, _Z).as_expr() for polynomial in (top, bottom)]
    return thin[0] / thin[1], step


def _real_part(value: sp.Expr, w: sp.Expr) -> sp.Expr:
    """the value, with that of the conjugate root"""
    return value if w.is_real else 2 * sp.re(value, evaluate=False)


def _polylog(s: int, w: sp.Expr) -> sp.Expr:
    if s <= 0:
        u = sp.Dummy()
        value = u / (1 - u)
        for _ in range(-s):
            value = sp.cancel(u * value.diff(u))
        return value.subs(u, w)
    if w == -1:
        return -sp.log(2) if s == 1 else -(1 - sp.Integer(2) ** (1 - s)) * sp.zeta(s)
    if w == 1:
        return sp.zeta(s)
    if w.is_real and (w + 1).is_negative:  # Jonquiere's inversion; Li_s(1/w) is near
        turn = 2 * sp.pi * sp.I
        return sp.expand((-1) ** (s + 1) * _polylog(s, 1 / w) - turn**s / sp.factorial(s) * sp.bernoulli(s, S.Half + sp.log(-w) / turn))
    return -sp.log(1 - w) if s == 1 else sp.polylog(s, w)


_Monomials = tuple[tuple[int, sp.Expr], ...]
_Sums = tuple[tuple[int, sp.Expr, sp.Expr], ...]


@cache
def _power_sums(ratio: sp.Expr) -> tuple[_Monomials, _Sums] | None:
    """ratio(z) - ratio(0) as sum over (m, a) of a z^m, and over (j, w, a) of a sum_{m >= 1} m^j (w z)^m, where a complex w stands for
    itself and its conjugate. None without exact roots, or if it grows."""
    top, bottom = (sp.Poly(e, _Z) for e in sp.fraction(ratio))
    if bottom.nth(0) == 0:
        return None
    exact = all(c.is_Rational for polynomial in (top, bottom) for c in polynomial.coeffs())
    if exact and len(bottom.factor_list()[1]) > 1:  # the roots of one factor after the other
        found = [_power_sums(part) for part in sp.Add.make_args(sp.apart(ratio, _Z))]
        if any(part is None for part in found):
            return None
        return tuple(m for part in found if part for m in part[0]), tuple(w for part in found if part for w in part[1])
    quotient, top = sp.div(top, bottom)
    roots = sp.roots(bottom) if bottom.degree() else {}
    if sum(roots.values()) < bottom.degree():
        return None
    sums: list[tuple[int, sp.Expr, sp.Expr]] = []
    m = sp.Dummy()
    for root, multiplicity in roots.items():
        if root.is_real is None:
            return None
        if sp.im(root).is_negative:
            continue
        rest = sp.quo(bottom.as_expr(), sp.expand((_Z - root) ** multiplicity), _Z)
        local = top.as_expr() / rest
        for k in range(1, multiplicity + 1):
            # a (z - r)^-k = a (-r)^-k sum_m binomial(m + k - 1, k - 1) (z/r)^m
            a = local.diff(_Z, multiplicity - k).subs(_Z, root) / sp.factorial(multiplicity - k) * (-root) ** (-k)
            a = sp.cancel(a) if a.has(sp.exp) else sp.radsimp(sp.expand(a))
            rising = sp.Poly(sp.prod([m + i for i in range(1, k)]) / sp.factorial(k - 1), m)
            sums += [(j, sp.radsimp(1 / root), a * b) for (j,), b in rising.terms() if a != 0]
    return tuple((m, a) for (m,), a in quotient.terms() if m > 0 and a != 0), tuple(sums)


def _gaussian(f: sp.Expr, n: int) -> sp.Expr | None:
    """c x^k e^{-a x^2}, by \\Gamma((n + k + 1)/2)"""
    total = S.Zero
    for rest, terms in _grouped(sp.expand(f)).items():
        a = -sp.expand(rest.args[0] / x**2) if isinstance(rest, sp.exp) else S.Zero
        if rest is not S.One and not (a.is_positive and x not in a.free_symbols):
            return None
        for k, c in terms.items():
            z = sp.Integer(n + k + 1)
            if z <= 0:
                return None
            total += c * sp.gamma(z / 2) / (2 * a ** (z / 2)) if rest is not S.One else S.Zero
    return total


def _binomial(f: sp.Expr, n: int) -> sp.Expr | None:
    """c x^k (x^m + b)^s, by B(z/m, -s - z/m)/m at z = n + k + 1: the constant of its Laurent series"""
    total = S.Zero
    if any(x in t.free_symbols for t in f.atoms(sp.Function)):
        return None
    for term in sp.Add.make_args(sp.expand(f)):
        found = binomial_powers(term)
        if found is None:
            return None
        (m, b), parts = found
        for c, k, s in parts:
            z = (n + k + 1) / S(m)
            if z <= 0:
                return None
            if s == 0:
                continue
            pole = -s - z
            head = c * b ** (z + s) * sp.gamma(z) / sp.gamma(-s) / m
            if pole.is_integer and pole <= 0:
                # Gamma(pole - e/m) = (-1)^j/j! (-m/e + psi(j + 1)) at pole = -j, e -> 0
                total += head * (-1) ** -pole / sp.factorial(-pole) * (sp.digamma(1 - pole) - sp.log(b) - sp.digamma(z))
            else:
                total += head * sp.gamma(pole)
    return sp.expand(sp.expand_func(total))


_TRANSCENDENTAL = (sp.log, sp.atan, sp.asinh)


def _by_parts(f: sp.Expr, n: int) -> sp.Expr | None:
    """x^n (polynomial times a logarithm or an arcus tangens): one derivative makes it rational"""
    f = sp.expand(f)
    total = S.Zero
    for rest, terms in _grouped(f).items():
        for k, c in terms.items():
            m = n + k + 1
            if m <= 0:
                return None
            if rest is S.One:
                continue
            slope = rest.diff(x)
            if slope.has(*_TRANSCENDENTAL) or not rest.has(*_TRANSCENDENTAL):
                return None
            inner = next((found for rule in (_rational, _exponential, _binomial) if (found := rule(slope, m)) is not None), None)
            if inner is None:
                return None
            try:
                edge = at_infinity(x**m * rest, 1).get(S.Zero, S.Zero)
            except NoExpansion:
                return None
            total += c * (edge.coeff(LOG, 0) - inner) / m
    return total


def _arctangents(f: sp.Expr, n: int) -> sp.Expr | None:
    """a polynomial in atan(cx) whose coefficients have no poles but those of its derivative"""
    angles = f.atoms(sp.atan)
    c = sp.cancel(min(angles, key=str).args[0] / x) if len(angles) == 1 else S.Zero
    if not (c.is_Rational and c.is_positive):
        return None
    (angle,) = angles
    if not f.is_polynomial(angle) or not f.xreplace({angle: sp.Dummy()}).is_rational_function(x):
        return None
    found = [_of_angle(sp.cancel(x**n * r), angle, k, c) for (k,), r in sp.Poly(f, angle).terms()]
    return None if None in found else sp.Add(*found)


def _of_angle(r: sp.Expr, angle: sp.Expr, k: int, c: sp.Expr) -> sp.Expr | None:
    """r atan(cx)^k by parts, one power after the other: r = R' + (a + bx)/(1 + c^2 x^2) (Hermite's reduction)"""
    bound = sp.Poly(1 + c**2 * x**2, x)
    top, bottom = (sp.Poly(e, x) for e in sp.fraction(r))
    if any(d.monic() != bound.monic() for d, _ in bottom.factor_list()[1]):
        return None
    whole, top = sp.div(top, bottom)
    rational, rest = ratint_ratpart(top, bottom, x) if top else (S.Zero, S.Zero)
    antiderivative = whole.integrate().as_expr() + rational
    b, a = (sp.Poly(sp.cancel(rest * bound.as_expr()), x).nth(i) for i in (1, 0))
    try:
        edge = at_infinity(antiderivative * angle**k, 1).get(S.Zero, S.Zero)
    except NoExpansion:
        return None
    right = sp.pi / 2
    total = edge + a / c * right ** (k + 1) / (k + 1) + b / c**2 * (right**k * sp.log(c) + (k * _log_cosine(k - 1) if k else 0))
    if not k:
        return sp.expand(total - antiderivative.subs(x, 0))
    inner = _of_angle(sp.cancel(antiderivative * c / bound.as_expr()), angle, k - 1, c)
    return None if inner is None else sp.expand(total - k * inner)


def _log_cosine(j: int) -> sp.Expr:
    r"""\int_0^{\pi/2} t^j \ln\cos t dt, by \ln\cos t = -\ln 2 - \sum_m (-1)^m \cos(2mt)/m and two parts at a time"""
    right, weight, s = sp.pi / 2, S.One, 3
    total = -sp.log(2) * right ** (j + 1) / (j + 1)
    while j > 0:
        alternating = (1 - sp.Integer(2) ** (1 - s)) * sp.zeta(s) if j == 1 else S.Zero
        total -= weight * j / 4 * (right ** (j - 1) * sp.zeta(s) + alternating)
        weight, j, s = -weight * j * (j - 1) / 4, j - 2, s + 2
    return total


def _grouped(f: sp.Expr) -> dict[sp.Expr, dict[int, sp.Expr]]:
    """f = sum of rest * c x^k, collected by the transcendental rest"""
    groups: dict[sp.Expr, dict[int, sp.Expr]] = {}
    for term in sp.Add.make_args(f):
        c, rest = term.as_independent(x)
        k = 0
        others = S.One
        for factor in sp.Mul.make_args(rest):
            base, exponent = factor.as_base_exp()
            if base == x and exponent.is_Integer:
                k += int(exponent)
            else:
                others *= factor
        group = groups.setdefault(others, {})
        group[k] = group.get(k, S.Zero) + c
    return groups
