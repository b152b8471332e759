r"""Moments over a half line that need not converge: the finite part of \int_0^\infty x^n g(x) dx (Hadamard 1923).

With g(x) ~ sum of a_k x^{b_k} log(x)^j as x -> oo, the integral up to R is a sum of such terms in R, a constant, and what vanishes; the
constant is the finite part. It is linear, integrates by parts, and is the integral where that converges.
"""

from __future__ import annotations

import itertools
import math
from functools import cache, partial
from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S
from sympy.integrals.rationaltools import ratint
from sympy.printing.precedence import PRECEDENCE

from meanfield.gaussian.local_expansions import at_infinity, at_zero
from meanfield.gaussian.pieces import NotClosed, branch, edges
from meanfield.gaussian.series import LOG, NoExpansion
from meanfield.gaussian.special import exponentials
from meanfield.symbols import known

__all__ = ["FinitePart", "branch", "breakpoints", "finite_part"]

x = known("x")
_Z = sp.Dummy("z", positive=True)


def breakpoints(f: sp.Expr) -> tuple[sp.Expr, ...]:
    """The points x > 0, in order, where f changes its branch; exact."""
    found: set[sp.Expr] = set().union(*(_roots(edge, f) for edge in edges(f)))
    positive = [r for r in found if r.is_positive]
    if any(r.is_positive is None for r in found):
        raise NoExpansion(f"where {f} has its kinks depends on the sign of a parameter")
    try:
        return tuple(sorted(positive, key=lambda r: sp.N(r, 30)))
    except TypeError:
        raise NoExpansion(f"the order of the kinks of {f} depends on a parameter") from None


def _roots(edge: sp.Expr, f: sp.Expr) -> set[sp.Expr]:
    if not edge.is_polynomial(x):
        raise NoExpansion(f"the kinks of {f} lie at the roots of {edge}, which is not a polynomial")
    polynomial = sp.Poly(edge, x)
    if polynomial.degree() == 1:
        return {-polynomial.nth(0) / polynomial.nth(1)}
    return {r for r in sp.roots(polynomial) if r.is_real} if edge.free_symbols - {x} else set(sp.real_roots(polynomial))


@cache
def pieces(g: sp.Expr) -> tuple[tuple[sp.Expr, sp.Expr, sp.Expr], ...]:
    """(from, to, branch) along the positive half line."""
    ends = (S.Zero, *breakpoints(g), S.Infinity)
    try:
        return tuple((a, b, branch(g, (a + b) / 2 if b is not S.Infinity else a + 1)) for a, b in itertools.pairwise(ends))
    except NotClosed as reason:
        raise NoExpansion(str(reason)) from None


class FinitePart(sp.Expr):
    r"""The finite part of \int_0^\infty x^n g(x) dx where no closed form is known: a constant that evaluates to any number of digits."""

    is_commutative = True
    is_real = True
    precedence = PRECEDENCE["Mul"]  # a power of it is one of all of the integral

    def __new__(cls, g: sp.Expr, n: Any) -> sp.Expr:
        return sp.Expr.__new__(cls, sp.sympify(g), sp.sympify(n))

    @property
    def free_symbols(self) -> set[sp.Basic]:
        found: set[sp.Basic] = self.args[0].free_symbols - {x}
        return found

    @property
    def is_number(self) -> bool:
        return not self.free_symbols

    @property
    def bound_symbols(self) -> set[sp.Symbol]:
        return {x}

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> sp.Expr:
        return self if old == x else FinitePart(self.args[0]._subs(old, new), self.args[1])

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if self.free_symbols:
            return None
        return sp.Float._new(_known_to(self.args[0], int(self.args[1]), 64 << max(0, (prec + 9).bit_length() - 6))._mpf_, prec)

    def _sympystr(self, printer: Any) -> str:
        return f"FinitePart({printer._print(self.args[0] * x ** self.args[1])}, (x, 0, oo))"

    def _latex(self, printer: Any) -> str:
        t = sp.Symbol("t")
        inner = printer._print((self.args[0] * x ** self.args[1]).xreplace({x: t}))
        return rf"\mathrm{{f.p.}}\!\int_0^{{\infty}} {inner}\,dt"


def finite_part(g: sp.Expr, n: int) -> sp.Expr:
    r"""The finite part of \int_0^\infty x^n g(x) dx: closed where a rule applies, an unevaluated constant where not.

    Rules: piecewise polynomials; rational functions of x; polynomials in x times rational functions of e^{-cx}, by
    \int_0^\infty x^k \sum_m m^j z^m e^{-cmx} dx = k! c^{-k-1} Li_{k+1-j}(z); polynomials times e^{-a x^2}, by Euler's Gamma; powers of
    x^2 + b, by his beta function; and logarithms and arcus tangens of these, integrated by parts.
    """
    total = S.Zero
    for low, high, f in pieces(g):
        if f == 0:
            continue
        closed = _closed_piece(exponentials(f), n, low, high)
        if closed is None:
            return FinitePart(g, n)
        total += closed
    return sp.expand(total)


def _closed_piece(f: sp.Expr, n: int, low: sp.Expr, high: sp.Expr) -> sp.Expr | None:
    f = sp.expand(f) if f.is_polynomial(x) else f
    if f.is_polynomial(x):
        antiderivative = ratint(sp.expand(x**n * f), x)
        upper = antiderivative.subs(x, high) if high is not S.Infinity else S.Zero
        return sp.expand(upper - antiderivative.subs(x, low))
    if low != 0 or high is not S.Infinity:
        return None
    for rule in (_rational, _exponential, _gaussian, _quadratic, _by_parts):
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
    scales = [e.args[0].expand() for e in f.atoms(sp.exp)]
    if not scales or any(sp.expand(a / x).has(x) for a in scales):
        return None
    rates = [sp.expand(a / x) for a in scales]
    ratios = [sp.cancel(r / rates[0]) for r in rates]
    unit = sp.Abs(rates[0]) * sp.gcd_list([sp.Abs(r) for r in ratios]) if all(r.is_Rational for r in ratios) else None
    if unit is None or not unit.is_positive:
        return None
    inside = f.xreplace({e: _Z ** (-sp.cancel(sp.expand(e.args[0] / x) / unit)) for e in f.atoms(sp.exp)})
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
            a = sp.radsimp(sp.expand(a))
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


def _quadratic(f: sp.Expr, n: int) -> sp.Expr | None:
    """c x^k (x^2 + b)^s, by B(z/2, -s - z/2) at z = n + k + 1: the constant of its Laurent series"""
    total = S.Zero
    for term in sp.Add.make_args(sp.expand(f)):
        c, rest = term.as_independent(x)
        k, s, scale, b = S.Zero, None, S.One, S.Zero
        for factor in sp.Mul.make_args(rest):
            base, exponent = factor.as_base_exp()
            if base == x:
                k += exponent
                continue
            if s is not None or not base.is_polynomial(x) or not exponent.is_Rational:
                return None
            polynomial = sp.Poly(base, x)
            if polynomial.degree() != 2 or polynomial.nth(1) != 0 or not (polynomial.nth(0) / polynomial.nth(2)).is_positive:
                return None
            s, scale, b = exponent, polynomial.nth(2), polynomial.nth(0) / polynomial.nth(2)
        if s is None:
            if not k.is_nonnegative:
                return None
            continue
        z = n + k + 1
        if z <= 0:
            return None
        pole = -s - z / 2
        if pole.is_integer and pole <= 0:
            # Gamma(pole - e/2) = (-1)^j/j! (-2/e + psi(j + 1)) at pole = -j, e -> 0
            j = -pole
            head = b ** (z / 2 + s) * sp.gamma(z / 2) / sp.gamma(-s) / 2 * (-1) ** j / sp.factorial(j)
            slope = sp.log(b) / 2 + sp.digamma(z / 2) / 2
            total += c * scale**s * head * (sp.digamma(j + 1) - 2 * slope)
        else:
            total += c * scale**s * b ** (z / 2 + s) * sp.gamma(z / 2) * sp.gamma(pole) / sp.gamma(-s) / 2
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
            inner = next((found for rule in (_rational, _exponential, _quadratic) if (found := rule(slope, m)) is not None), None)
            if inner is None:
                return None
            try:
                edge = at_infinity(x**m * rest, 1).get(S.Zero, S.Zero)
            except NoExpansion:
                return None
            total += c * (edge.coeff(LOG, 0) - inner) / m
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


@cache
def _known_to(g: sp.Expr, n: int, precision: int) -> mp.mpf:
    """kept, at few precisions: these take seconds, and expansions ask for the same ones many times"""
    with mp.workprec(precision):
        return _numeric(g, n)


def _numeric(g: sp.Expr, n: int) -> mp.mpf:
    """the finite part at the current precision: of what is left of g beyond its tail, and of the tail itself"""
    digits = mp.mp.dps
    tail = {a + n: c for a, c in at_infinity(g, n + 12).items()}
    high = 3 * digits + 30  # x^n g and its tail agree to many digits far out
    with mp.workdps(high):
        start = _mpf(max([S.One, *breakpoints(g)], key=lambda r: sp.N(r, 30)))
        powers = [(mp.mpf(a.p) / a.q, [_mpf(c) for c in sp.Poly(b, LOG).all_coeffs()]) for a, b in tail.items()]
        lost = mp.fsum(_antiderivative(a, c[::-1], start) for a, c in powers)
        cuts = [(_mpf(low), start if end is S.Infinity else _mpf(end), sp.lambdify(x, f, "mpmath")) for low, end, f in pieces(g)]

    def inside(value: Any, t: mp.mpf) -> mp.mpf:
        with mp.workdps(high):
            return t**n * value(t)

    def beyond(t: mp.mpf) -> mp.mpf:
        with mp.workdps(high):
            log = mp.log(t)
            return inside(cuts[-1][2], t) - mp.fsum(t**a * mp.polyval(c, log) for a, c in powers)

    total = -lost
    with mp.workdps(digits + 10):
        for low, end, value in cuts:
            if low < end:
                total += _panel(partial(inside, value), low, end, digits)
        quiet, a = 0, start
        while quiet < 2:
            b = a + max(mp.mpf(2), a / 2)
            part = _panel(beyond, a, b, digits)
            total += part
            quiet = quiet + 1 if abs(part) <= mp.mpf(10) ** (-digits - 5) * (1 + abs(total)) else 0
            a = b
            if a > mp.mpf(10) ** 30:
                raise ArithmeticError(f"the finite part of x^{n} ({g}) does not settle")
    return total


def _mpf(e: sp.Expr) -> mp.mpf:
    return mp.mpf(sp.N(e, mp.mp.dps + 5)._to_mpmath(mp.mp.prec))


def _antiderivative(a: mp.mpf, c: list[mp.mpf], t: mp.mpf) -> mp.mpf:
    """of t^a (c_0 + c_1 log t + ...), without a constant at infinity"""
    log = mp.log(t)
    if a == -1:
        return mp.fsum(b * log ** (j + 1) / (j + 1) for j, b in enumerate(c))
    total = mp.mpf(0)
    for j, b in enumerate(c):
        inner, part = mp.mpf(1), mp.mpf(0)
        for i in range(j + 1):
            part += inner * log ** (j - i)
            inner *= -mp.mpf(j - i) / (a + 1)
        total += b * part * t ** (a + 1) / (a + 1)
    return total


def _panel(f: Any, low: mp.mpf, high: mp.mpf, digits: int) -> mp.mpf:
    """tanh-sinh, which does not mind a kink or a root at an end; cut into eight where one rule does not settle"""
    value, error = mp.quad(f, [low, high], error=True)
    if error > mp.mpf(10) ** (-digits - 5) * (1 + abs(value)):
        value, error = mp.quad(f, mp.linspace(low, high, 9), error=True)
    if error > mp.mpf(10) ** (-digits) * (1 + abs(value)):
        raise ArithmeticError(f"an integral did not settle at {digits} digits")
    return value
