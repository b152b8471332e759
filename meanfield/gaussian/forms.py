r"""Two shapes of one closed form: the literature's, for people, and one free of cancellation, for kernels.

A kernel C(q, p) comes from the engine with its radicands factored, (q - p)(q + p) and not q^2 - p^2. With p = q - delta put into
each factor the kernel loses no digits as delta -> 0, and the gap C(q, q) - C(q, q - delta) follows by a finite-difference
calculus: each rule below gives f(q) - f(q - delta) from the parts of f without subtracting near-equal numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import sympy as sp
from sympy import Rational, S, acos, asin, exp, pi, sqrt

from meanfield.gaussian.angle_sines import Joined, joined
from meanfield.gaussian.half_waves import CosineNormalCDF
from meanfield.gaussian.rewriting import rewritten
from meanfield.gaussian.special import AngleDifference, AngleMinusSine, BivariateNormalCDF, NormalCDF, is_linear
from meanfield.gaussian.tidying import HEADS, tidy, upright
from meanfield.symbols import among_reals, known

__all__ = ["angles", "gap_of", "literature", "shifted"]

q, p, delta = known("q"), known("p"), known("delta")

#: terms of a polynomial that factors are looked for in: longer ones, of laws put into one another, have none and take seconds
FACTORED = 60


def paired(e: sp.Expr) -> sp.Expr:
    r"""\sqrt{a - b} \sqrt{a + b} written \sqrt{a^2 - b^2}, as the literature does."""

    def merge(t: sp.Mul) -> sp.Expr:
        powers = {b: k for b, k in (f.as_base_exp() for f in t.args) if k.is_Rational and k.q == 2 and is_linear(b, p)}
        for base, k in powers.items():
            mirror = sp.expand(base.xreplace({p: -p}))
            partner = next((b for b in powers if b != base and sp.expand(b) == mirror), None)
            if partner is not None and powers[partner] == k:
                even = sp.expand((base + mirror) / 2)
                odd = sp.expand(base - even)
                root = sp.Mul(*[f**n for f, n in _positive_factors(even)])
                return merge(t / (base**k * partner**k) * (root**2 - odd**2) ** k)
        return t

    return e.replace(lambda t: isinstance(t, sp.Mul), merge)


@cache
@among_reals
def literature(e: sp.Expr) -> sp.Expr:
    r"""One normal CDF for z and -z, roots paired, each arcsine as the shorter of arcsin, \pi/2 - arccos and (\pi - arccos) - \pi/2,
    e^{z + pw} \pm e^{z - pw} as cosh and sinh.
    """
    if isinstance(e, sp.Piecewise):
        return e.func(*[(literature(value), where) for value, where in e.args])
    return paired(_hyperbolic(_arccosines(_folded(e))))


def _folded(e: sp.Expr) -> sp.Expr:
    r"""each normal CDF at z and -z as one of the two, where that is shorter"""
    if not e.has(NormalCDF, BivariateNormalCDF, CosineNormalCDF):
        return e
    return min((e, tidy(upright(e))), key=sp.count_ops)


def _arccosines(e: sp.Expr) -> sp.Expr:
    """c asin(z) + r as c (pi - acos(z)) + (r - c pi/2) or -c acos(z) + (r + c pi/2), where that is shorter; r is the rational part"""
    terms = sp.Add.make_args(e)
    angles_of: dict[sp.Expr, list[sp.Expr]] = {}
    for t in terms:
        for f in sp.Mul.make_args(t):
            if isinstance(f, asin):
                angles_of.setdefault(f, []).append(t)
    if not angles_of:
        return e
    plain = [t for t in terms if not t.has(asin, exp, *HEADS) and all(k.exp.is_Integer for k in t.atoms(sp.Pow) if k.free_symbols)]
    rest = sp.Add(*plain)
    total = e - rest
    for head, parts in angles_of.items():
        if any(t.has(*HEADS) and (t / head).has(*HEADS) for t in parts):
            continue
        c = sp.Add(*[t / head for t in parts])
        choices = [(c * head, rest)]
        for turn, sign in ((pi, 1), (S.Zero, -1)):
            choices.append((c * (turn - acos(head.args[0])), tidy(rest - sign * c * pi / 2)))
        arc, rest = min(choices, key=lambda pair: sp.count_ops(sp.Add(*pair)))
        total = total - sp.Add(*parts) + arc
    return total + rest


def _hyperbolic(e: sp.Expr) -> sp.Expr:
    """pairs of exponentials that differ by the sign of p"""
    of: dict[sp.Expr, sp.Expr] = {}
    others = []
    for t in sp.Add.make_args(e):
        c, waves = t.as_independent(exp, as_Add=False)
        if isinstance(waves, exp) and waves.has(p):
            of[waves.args[0]] = of.get(waves.args[0], S.Zero) + c
        else:
            others.append(t)
    for z in list(of):
        mirror = next((y for y in of if y != z and sp.expand(y - z.xreplace({p: -p})) == 0), None) if z in of else None
        if mirror is None or sp.count_ops(of[z]) > 60:
            continue
        half = tidy((z - mirror) / 2)
        if half.could_extract_minus_sign():
            z, mirror, half = mirror, z, -half
        even, odd = tidy(of[z] + of[mirror]), tidy(of[z] - of[mirror])
        paired_form = exp(tidy((z + mirror) / 2)) * (even * sp.cosh(half) + odd * sp.sinh(half))
        if sp.count_ops(paired_form) < sp.count_ops(of[z] * exp(z) + of[mirror] * exp(mirror)):
            del of[z], of[mirror]
            others.append(paired_form)
    return sp.Add(*others, *[c * exp(z) for z, c in of.items()])


def _positive_factors(e: sp.Expr, meant: Mapping[sp.Symbol, sp.Expr] = {}) -> list[tuple[sp.Expr, sp.Rational]]:
    """irreducible factors of a polynomial in symbols and in letters that are meant for functions of these, the constant among them, each
    with the sign it has at p = 0"""
    try:
        constant, factors = sp.factor_list(e) if len(sp.Add.make_args(e)) <= FACTORED else (S.One, [(e, 1)])
    except sp.PolynomialError:
        return [(e.xreplace(meant), S.One)]
    out = []
    for f, k in factors:
        f = f.xreplace(meant)
        probe = f.xreplace({t: S.Zero if t == p else Rational(1, 1000) for t in f.free_symbols})
        if not probe.is_number:  # a moment, of which no more is known than that the whole is not negative
            return [(e.xreplace(meant), S.One)]
        if probe.is_negative:
            f, constant = sp.expand(-f), constant * (-1) ** k
        out.append((f, S(k)))
    return [(constant, S.One), *out]


def _at(e: sp.Expr, value: sp.Expr) -> sp.Expr:
    """e with p = value: radicands factored, polynomials expanded so that q - p is delta itself, arcsines as angles"""

    @cache
    def rebuild(t: sp.Basic) -> sp.Basic:
        if t == p:
            return value
        if isinstance(t, asin):
            a, r, _ = _right_triangle(t.args[0], value)
            return sp.atan2(a, r)
        if isinstance(t, sp.Pow) and not t.exp.is_Integer and t.base.is_polynomial(p) and sp.degree(t.base, p) > 1:
            return sp.Mul(*[_radicand(f, value) ** (k * t.exp) for f, k in _positive_factors(t.base)])
        parts = tuple(map(rebuild, t.args))
        if parts == t.args:
            return t
        rebuilt = t.func(*parts)
        if not (isinstance(t, sp.Add) and t.is_polynomial(p)) or (value.has(delta) and _adds_up(t)):
            return rebuilt
        return sp.expand(rebuilt)

    return rebuild(e)


def _adds_up(e: sp.Expr) -> bool:
    """whether the terms of a polynomial in p have one sign, and are of such powers that those of q - delta, which alternate, lose digits"""
    found = sp.Poly(e, p)
    return found.degree() > 3 and (all(c.is_nonnegative for c in found.coeffs()) or all(c.is_nonpositive for c in found.coeffs()))


def _radicand(f: sp.Expr, value: sp.Expr) -> sp.Expr:
    """an irreducible factor of a radicand at p = value; one that is even in p by (q - p)(q + p), which is small at both ends"""
    if not (f.is_polynomial(p) and f.has(q) and sp.degree(f, p) == 2 and f.coeff(p, 1) == 0):
        return _at(f, value)
    c = f.coeff(p, 2)
    return -c * sp.expand(q - value) * sp.expand(q + value) + sp.expand(f + c * (q - p) * (q + p))


def _right_triangle(ratio: sp.Expr, value: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    r"""opposite, adjacent and hypotenuse of arcsin(a/m), the adjacent side as \sqrt{(m - a)(m + a)} in factors"""
    meant = {sp.Dummy(f"f{i}"): f for i, f in enumerate(sorted(_functions(ratio), key=sp.default_sort_key))}
    a, m = sp.fraction(sp.together(ratio.xreplace({f: letter for letter, f in meant.items()})))
    sides = (m - a, m + a) if m.is_polynomial() else (m**2 - a**2,)
    factors = [factor for side in sides for factor in _positive_factors(sp.expand(side), meant)]
    adjacent = sp.Mul(*[_radicand(f, value) ** (k / 2) for f, k in factors])
    return _at(a.xreplace(meant), value), adjacent, m.xreplace(meant)


def _functions(e: sp.Expr) -> set[sp.Expr]:
    """the outermost parts of an expression that are neither sums, products nor rational powers"""
    if e.is_Atom:
        return set()
    if e.is_Add or e.is_Mul or (e.is_Pow and e.exp.is_Rational):
        return set().union(*map(_functions, e.args))
    return {e}


def angles(e: sp.Expr) -> sp.Expr:
    r"""For kernels: arcsines and arccosines of ratios as angles of right triangles, whose sides lose no digits near a ratio of 1, and
    e^w \cosh z, e^w \sinh z as sums of exponentials, neither of which overflows where the product does not."""

    def triangle(ratio: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        a, r, _ = _right_triangle(ratio, p)
        return a, r

    def waved(t: sp.Basic) -> bool:
        return isinstance(t, sp.Mul) and any(isinstance(f, (sp.sinh, sp.cosh)) for f in t.args)

    def opened(t: sp.Expr) -> sp.Expr:
        wave = next(f for f in t.args if isinstance(f, (sp.sinh, sp.cosh)))
        z, sign = wave.args[0], 1 if isinstance(wave, sp.cosh) else -1
        rest, power = S.One, S.Zero
        for f in t.args:
            if isinstance(f, exp):
                power += f.args[0]
            elif f is not wave:
                rest *= f
        return rest * (exp(power + z) + sign * exp(power - z)) / 2

    def turned(t: sp.Basic) -> bool:
        return isinstance(t, (asin, acos)) and bool(t.free_symbols)

    def angle(t: sp.Expr) -> sp.Expr:
        sides = triangle(t.args[0])
        return sp.atan2(*sides) if isinstance(t, asin) else sp.atan2(*reversed(sides))

    return rewritten(rewritten(e, waved, opened), turned, angle)


def shifted(e: sp.Expr) -> sp.Expr:
    """A kernel C(q, p) as a function of q and delta = q - p, safe as delta -> 0."""
    return _at(e, q - delta)


class _Difference:
    """f(q) - f(q - delta), rule by rule."""

    def __init__(self) -> None:
        self.theta = sp.Dummy("theta", positive=True)

    def high(self, e: sp.Expr) -> sp.Expr:
        return _at(e, q)

    def low(self, e: sp.Expr) -> sp.Expr:
        return _at(e, q - delta)

    def __call__(self, e: sp.Expr) -> sp.Expr:
        if not e.has(p):
            return S.Zero
        if e == p:
            return delta
        if isinstance(e, sp.Add) and e.is_polynomial(p):
            return self._polynomial(e)
        if isinstance(e, sp.Add):
            return sp.Add(*[self(a) for a in e.args])
        if isinstance(e, sp.Mul):
            head, rest = e.as_two_terms()
            return self(head) * self.high(rest) + self.low(head) * self(rest)
        if isinstance(e, exp):
            rise = self(e.args[0])  # the greater power is taken out, as far as it is known which one is: expm1 does not overflow
            return -self.high(e) * _expm1(-rise) if rise.is_nonnegative else self.low(e) * _expm1(rise)
        if isinstance(e, asin):
            return self._angle(e)
        if isinstance(e, (sp.cos, sp.sin)):
            half, middle = self(e.args[0]) / 2, (self.high(e.args[0]) + self.low(e.args[0])) / 2
            return 2 * sp.sin(half) * (sp.cos(middle) if isinstance(e, sp.sin) else -sp.sin(middle))
        if isinstance(e, sp.Pow) and e.exp.is_Rational and e.exp.q in (1, 2):
            return self._power(e.base, e.exp)
        raise NoDifference(str(e.func))

    def _polynomial(self, e: sp.Expr) -> sp.Expr:
        if _adds_up(e):  # and so does what is left when q - p is divided out
            return delta * self.low(sp.quo(e.xreplace({p: q}) - e, q - p, p))
        # q^4 - 4 q^3 p + ... is delta^4: what cancels does so in symbols
        return sp.factor_terms(sp.expand(e.xreplace({p: q}) - e.xreplace({p: q - delta})))

    def _angle(self, e: sp.Expr) -> sp.Expr:
        a, ra, _ = _right_triangle(e.args[0], q)
        b, rb, _ = _right_triangle(e.args[0], q - delta)
        numerator, hypotenuse = sp.fraction(sp.together(e.args[0]))
        if ra == 0:
            if hypotenuse.has(p):  # not the angle of u and v: what it leaves of a root of delta is not known to cancel exactly
                raise NoDifference(f"{e} at correlation 1")
            return self.theta
        apart = self(numerator)
        if hypotenuse.has(p):  # the second triangle on the scale of the first
            m, n = self.high(hypotenuse), self.low(hypotenuse)
            b, rb, apart = b * m / n, rb * m / n, (m * apart - a * self(hypotenuse)) / n
        return AngleDifference(a, ra, b, rb, apart)

    def joined(self, terms: Joined) -> sp.Expr:
        """of terms with one angle and its root"""
        changed = terms.number * self(terms.coefficient) * self.high(terms.angle)
        return changed + terms.difference(self._angle(terms.angle))

    def _power(self, base: sp.Expr, k: sp.Rational) -> sp.Expr:
        power = base**k
        high, low = self.high(power), self.low(power)
        if self.high(base) == 0:
            return -low
        if k < 0:
            return -self._power(base, -k) * high * low
        if k == Rational(1, 2):
            return self(base) / (high + low)
        if k.q == 2:
            whole = base ** (k.p // 2)
            return self(whole) * self.high(sqrt(base)) + self.low(whole) * self._power(base, Rational(1, 2))
        high, low = self.high(base), self.low(base)
        return self(base) * sp.Add(*[high ** (k - 1 - i) * low**i for i in range(int(k))])


class NoDifference(Exception):
    """No rule of the finite-difference calculus fits; the gap is then evaluated by quadrature."""


def _expm1(z: sp.Expr) -> sp.Expr:
    from sympy.codegen.cfunctions import expm1

    return expm1(z)


@cache
def gap_of(kernel: sp.Expr) -> sp.Expr | None:
    r"""C(q, q) - C(q, q - delta) free of cancellation, or None where no rule fits.

    What is left of an arc-cosine kernel, A \theta + B \sin\theta + C with \theta = arccos(1 - delta/q), still cancels in
    A(0) (\theta - \sin\theta); that difference is a named function, of the angles of other kernels too.
    """
    angular = _Difference()
    together, others = joined(list(sp.Add.make_args(paired(kernel))))
    waves, others = _waves(others)
    plain = [*waves, *(angular.joined(terms) for terms in together)]
    arcs: list[sp.Expr] = []
    try:
        for term in others:
            difference = angular(term)
            (arcs if difference.has(angular.theta, sqrt(2 * q - delta)) else plain).append(difference)
    except NoDifference:
        return None
    return sp.Add(*plain, _arc_cosine(sp.Add(*arcs), angular.theta))


def _waves(terms: Sequence[sp.Expr]) -> tuple[list[sp.Expr], list[sp.Expr]]:
    r"""The differences of e^{w + k p} + e^{w - k p}, e^{w + k q} (1 - e^{-k (2 q - \delta)}) (1 - e^{-k \delta}), and the other terms:
    one by one these cancel where q is small, as in Var cos u."""
    found, left = [], list(terms)
    for t in terms:
        c, wave = t.as_independent(exp, as_Add=False)
        if t not in left or c.has(p) or not isinstance(wave, exp):
            continue
        exponent = sp.expand(wave.args[0])
        k = exponent.coeff(p, 1)
        mirror = c * exp(exponent - 2 * k * p)
        if k.is_positive and not (exponent - k * p).has(p) and mirror in left:
            left.remove(t)
            left.remove(mirror)
            found.append(c * exp(exponent.xreplace({p: q})) * _expm1(-k * (2 * q - delta)) * _expm1(-k * delta))
    return found, left


def _arc_cosine(e: sp.Expr, angle: sp.Symbol) -> sp.Expr:
    r"""A difference in \theta and \sin\theta, the part \theta - \sin\theta apart."""
    theta = 2 * sp.atan2(sqrt(delta), sqrt(2 * q - delta))
    if not e.has(angle):
        return e
    sine = sp.Dummy("sine", positive=True)  # q sin(theta) = sqrt(delta) sqrt(2 q - delta)
    poly = sp.expand(sp.expand(e).xreplace({sqrt(2 * q - delta): sine * q / sqrt(delta)}))
    a, b = poly.coeff(angle, 1), poly.coeff(sine, 1)
    rest = sp.expand(poly - a * angle - b * sine)
    if rest.has(sine, angle) or a.has(sine) or sp.expand(a.subs(delta, 0) + b.subs(delta, 0)) != 0:
        return e.xreplace({angle: theta})
    a0 = a.subs(delta, 0)
    sine_value = sqrt(delta) * sqrt(2 * q - delta) / q
    return sp.factor(rest) + a0 * AngleMinusSine(theta) + sp.factor(sp.expand(a - a0)) * theta + sp.factor(sp.expand(b + a0)) * sine_value
