r"""A function of x in a shape that neither overflows nor cancels for large |x|, one expression for each side of 0.

log(1 + e^x) is x + log(1 + e^{-x}) for x > 0; (1 + tanh x)/2 is 1/(1 + e^{-2x}) and 1 - tanh^2 x is 1/cosh^2 x; 1 + erf(x) is
2 \Phi(\sqrt{2} x); x + \sqrt{x^2 + 4} is 4/(\sqrt{x^2 + 4} - x) for x < 0; e^x erfc(x) is e^{x - x^2} times e^{x^2} erfc(x).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache

import sympy as sp
from sympy import S, exp
from sympy.codegen.cfunctions import expm1, log1p

from meanfield.gaussian.hyperbolic import in_tangents, lacking
from meanfield.gaussian.pieces import in_pieces
from meanfield.gaussian.special import NormalCDF, ScaledErfc, is_linear
from meanfield.gaussian.stretches import Stretch
from meanfield.symbols import known

__all__ = ["complemented", "side", "tamed"]

x = known("x")


@cache
def side(f: sp.Expr, sign: int) -> sp.Expr:
    """f for sign * x > 0."""
    return _in_pieces(f, Stretch(sign), _along)


@cache
def tamed(f: sp.Expr, sign: int) -> sp.Expr:
    """f for sign * x > 0, written by what neither overflows nor cancels there: in that form only where something in it grows."""
    return _in_pieces(f, Stretch(sign), lambda piece, way: _along(piece, way) if way.grows(piece) else piece)


@cache
def complemented(f: sp.Expr) -> sp.Expr:
    """f with what hyperbolic tangents lack of their limits written so that no digits are lost in it, however many these are."""
    f = in_tangents(f)
    if not f.has(sp.tanh):
        return f
    written = f.replace(lambda t: isinstance(t, sp.Add) and t.has(sp.tanh), _complement)
    return written if not written.has(expm1, NormalCDF, sp.Piecewise) or f.has(sp.Piecewise) else f


def _in_pieces(f: sp.Expr, way: Stretch, form: Callable[[sp.Expr, Stretch], sp.Expr]) -> sp.Expr:
    """the form of a function on a stretch, of one in pieces each where it is taken"""
    if not isinstance(f, sp.Piecewise):
        return form(f, way)
    pieces = []
    for value, condition in f.args:
        here, way = way.where(condition)
        pieces.append((_in_pieces(value, here, form), condition))
    return sp.Piecewise(*pieces)


def _along(f: sp.Expr, way: Stretch) -> sp.Expr:
    """f on a stretch, cut where steep exponents turn"""
    f = in_tangents(f)
    turns = way.turns(f.replace(lambda t: isinstance(t, sp.Add) and t.has(x), _complement) if f.has(sp.tanh) else f)
    inner, *outer = way.cut(turns)
    beyond = [(_outward(f, part), way.sign * x - part.low > 0) for part in reversed(outer)]
    return sp.Piecewise(*beyond, (_outward(f, inner), True)) if beyond else _outward(f, inner)


def _outward(f: sp.Expr, way: Stretch) -> sp.Expr:
    f = in_pieces(f, way.sign) if f.has(sp.Heaviside) and f.has(exp) else f  # where a step is 0 what is beside it may be infinite
    f = f.replace(lambda t: isinstance(t, (sp.asin, sp.acos)) and _is_step(t.args[0]), _arc_of_step)
    f = f.replace(lambda t: isinstance(t, sp.Add) and t.has(x), lambda t: _remainders(_complement(_one_arc(t)), way))
    f = f.replace(lambda t: isinstance(t, expm1) and way.rise(t.args[0]) > 0, lambda t: -exp(t.args[0]) * expm1(-t.args[0]))
    f = f.replace(lambda t: isinstance(t, (sp.cosh, sp.sinh)) and way.rise(t.args[0]) != 0, lambda t: _exponentials(t, way))
    f = f.replace(lambda t: isinstance(t, sp.Mul) and t.has(exp), lambda t: _outweighed(_one_power(t, way), way))
    return _Outward(way)(f)


def _is_step(e: sp.Expr) -> bool:
    sign, step = e.as_coeff_Mul()
    return sign in (1, -1) and isinstance(step, (sp.tanh, sp.erf))


def _arc_of_step(t: sp.Expr) -> sp.Expr:
    r"""asin and acos of a step w from -1 to 1 without 1 - w: \arcsin w = \arctan w/\sqrt{1 - w^2}, half of \arccos w is
    \arctan\sqrt{(1 - w)/(1 + w)}"""
    sign, step = t.args[0].as_coeff_Mul()
    z = sign * step.args[0]
    if isinstance(step, sp.tanh):
        return 2 * sp.atan(sp.tanh(z / 2)) if isinstance(t, sp.asin) else 2 * sp.atan(exp(-z))
    below, above = NormalCDF(sp.sqrt(2) * z), NormalCDF(-sp.sqrt(2) * z)
    return sp.atan(t.args[0] / (2 * sp.sqrt(below * above))) if isinstance(t, sp.asin) else 2 * sp.atan(sp.sqrt(above / below))


def _one_arc(e: sp.Add) -> sp.Expr:
    r"""\arctan A - \arctan B = \arctan (A - B)/(1 + A B) of lines beside each other and less than 2 apart, far out of which none has the
    digits of the other"""
    found = ((t, arc) for t in e.args for arc in sp.Mul.make_args(t) if isinstance(arc, sp.atan))
    arcs = [(t, t / arc, arc.args[0]) for t, arc in found if is_linear(arc.args[0], x)]
    for (t, c, z), (other, k, w) in itertools.combinations(arcs, 2):
        apart = sp.expand(z - w)
        if c == -k and apart.is_number and abs(apart) < 2:
            return e - t - other + c * sp.atan(apart / (1 + z * w))
    return e


def _one_power(e: sp.Mul, way: Stretch) -> sp.Expr:
    """e^x e^{-(x + 1)^2} as one exponential, where one of them rises outward and one is of a higher degree"""
    powers = [a.args[0] for a in e.args if isinstance(a, exp) and a.args[0].is_polynomial(x)]
    if not any(way.rise(z) > 0 for z in powers) or all(sp.degree(z, x) < 2 for z in powers):
        return e
    return sp.Mul(*[a for a in e.args if not isinstance(a, exp) or a.args[0] not in powers]) * exp(sp.expand(sp.Add(*powers)))


def _outweighed(e: sp.Expr, way: Stretch) -> sp.Expr:
    r"""e^P erfc(z) = e^{P - z^2} e^{z^2} erfc(z) where both P and z rise outward: infinite times 0"""
    growing = [a for a in e.args if isinstance(a, exp) and way.rise(a.args[0]) > 0]
    tails = {a: found for a in e.args if (found := _tail(a)) and way.rise(found[1]) > 0 and is_linear(found[1], x)}
    if not growing or not tails:
        return e
    rest = sp.Mul(*[a for a in e.args if a not in growing and a not in tails])
    power = sp.expand(sp.Add(*[a.args[0] for a in growing], *[-k * z**2 for _, z, k in tails.values()]))
    scaled = rest * exp(power) * sp.Mul(*[(c * ScaledErfc(z)) ** k for c, z, k in tails.values()])
    ends = [z for _, z, _ in tails.values()]
    if all(z.xreplace({x: S.Zero}).is_nonnegative for z in ends):
        return scaled
    return sp.Piecewise((scaled, sp.Min(*ends) > 0), (e, True))


def _tail(a: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr] | None:
    """(c, z, k) with a = (c erfc(z))^k"""
    head, k = a.as_base_exp()
    if isinstance(head, sp.erfc):
        return S.One, head.args[0], k
    return (S.Half, -head.args[0] / sp.sqrt(2), k) if isinstance(head, NormalCDF) else None


def _complement(e: sp.Add) -> sp.Expr:
    r"""c - c tanh^2 z = c/cosh^2 z, c + c tanh z = 2c/(1 + e^{-2z}), c + c erf z and 2c - c erfc z = 2c \Phi(\sqrt{2} z), c e^z - c ..."""
    constant, parts = e.as_independent(x)[0], [(term, *term.as_independent(x, as_Add=False)) for term in e.args]
    squares = [(term, c, head.base.args[0]) for term, c, head in parts if head.is_Pow and isinstance(head.base, sp.tanh) and head.exp == 2]
    if len(squares) > 1 and _nearly(constant, total := sp.Add(*[c for _, c, _ in squares])) == -total:
        return e + total - sp.Add(*[term + c / sp.cosh(z) ** 2 for term, c, z in squares])
    for term, c, head in parts:
        if isinstance(head, sp.atan) and (right := _nearly(constant, c * sp.pi / 2)) is not None:
            return e - term - right + c * _angle(head.args[0], right / c)
        if isinstance(head, sp.erfc) and _nearly(constant, 2 * c) == -2 * c:
            return e - term + 2 * c - 2 * c * NormalCDF(sp.sqrt(2) * head.args[0])
        whole = _nearly(constant, c)
        if whole is None or c == 0:
            continue
        if isinstance(head, exp) and whole == -c:
            return e - term - whole + c * expm1(head.args[0])
        step, n = head.as_base_exp()
        if isinstance(step, (sp.tanh, sp.erf)) and n.is_Integer and n > 0 and (n.is_odd or whole == -c):
            return e - term - whole + whole * _lacking(step, int(n), sp.Integer(c / whole))
    return e


def _lacking(step: sp.Expr, n: int, sign: sp.Integer) -> sp.Expr:
    """1 + sign s^n of a step s from -1 to 1, without a cancellation: of an even n the sign is -1"""
    (z,) = step.args
    if n % 2:
        end = lacking(z, int(sign)) if isinstance(step, sp.tanh) else 2 * NormalCDF(sp.sqrt(2) * sign * z)
        return end * sp.Add(*[(-sign * step) ** k for k in range(n)])
    both = 1 / sp.cosh(z) ** 2 if isinstance(step, sp.tanh) else 4 * NormalCDF(sp.sqrt(2) * z) * NormalCDF(-sp.sqrt(2) * z)
    return both * sp.Add(*[step**k for k in range(0, n, 2)])


def _angle(z: sp.Expr, right: sp.Expr) -> sp.Expr:
    r"""atan(z) + pi/2 = -atan(1/z) for z < 0, atan(z) - pi/2 the same for z > 0"""
    return sp.Piecewise((-sp.atan(1 / z), z < -1 if right.is_positive else z > 1), (sp.atan(z) + right, True))


def _nearly(constant: sp.Expr, c: sp.Expr) -> sp.Expr | None:
    """c or -c, whichever the constant is, or is beside something small: 10^4 + 10^-5 - 10^4 tanh^2 x holds its last term's complement"""
    for whole in (c, -c):
        apart = constant - whole
        if apart == 0 or (apart.is_number and whole.is_number and abs(apart.evalf()) < abs(whole.evalf()) / 100):
            return whole
    return None


def _remainders(e: sp.Expr, way: Stretch) -> sp.Expr:
    """c tanh z + d erf w + ..., whose limits cancel far out, by what each lacks of its limit there"""
    limit, rest, begins = S.Zero, S.Zero, []
    for term in sp.Add.make_args(e):
        head, lacking = next(((a, found) for a in sp.Mul.make_args(term) if (found := _lack(a, way))), (S.One, None))
        if lacking is None:
            limit += term.xreplace({sp.Abs(x): way.sign * x})
            continue
        z, end, lack = lacking
        begins.append(end * z - 1)
        limit += term / head * end
        rest += term / head * lack
    if not begins or sp.expand(limit) != 0 or any(b.free_symbols != {x} for b in begins):
        return e
    return sp.Piecewise((rest, sp.And(*[b > 0 for b in begins])), (e, True))


def _lack(head: sp.Expr, way: Stretch) -> tuple[sp.Expr, int, sp.Expr] | None:
    """z, the end 1 or -1 of tanh z or erf z far out, and what it lacks there"""
    if not isinstance(head, (sp.tanh, sp.erf)) or not (z := head.args[0]).is_polynomial(x) or sp.degree(z, x) != 1:
        return None
    end = way.rise(z)
    lack = 2 / (1 + exp(2 * end * z)) if isinstance(head, sp.tanh) else 2 * NormalCDF(-sp.sqrt(2) * end * z)
    return (z, end, -end * lack) if end else None


def _exponentials(t: sp.Expr, way: Stretch) -> sp.Expr:
    """cosh and sinh overflow where their logarithms and ratios do not"""
    z = t.args[0]
    far = z if way.rise(z) > 0 else -z
    if isinstance(t, sp.cosh):
        return (exp(far) + exp(-far)) / 2
    return -exp(far) * expm1(-2 * far) / 2 * (1 if far == z else -1)


def _towering(e: sp.Mul) -> sp.Expr:
    """e^x/cosh(e^x)^k, e^x exp(-e^x) as one exponential: its factors are infinite and 0"""
    steep = [f for f in e.args if f.is_Pow and isinstance(f.base, sp.cosh) and isinstance(f.base.args[0], exp) and f.exp.is_negative]
    growing = [f for f in e.args if isinstance(f, exp)]
    if not growing or not (steep or any(f.args[0].has(exp) for f in growing)) or len(growing) + len(steep) == 1:
        return e
    logs = [f.exp * (f.base.args[0] + log1p(exp(-2 * f.base.args[0])) - sp.log(2)) for f in steep]
    rest = sp.Mul(*[f for f in e.args if f not in steep and f not in growing])
    return rest * exp(sp.Add(*[f.args[0] for f in growing], *logs))


def _over_one(e: sp.Expr, sign: int) -> sp.Expr:
    """1/(1 + |x|) - |x|/(1 + |x|)^2 = 1/(1 + |x|)^2: a sum over the highest power of what it is divided by, where its numerator falls"""
    terms = sp.Add.make_args(e)
    for b in sorted(
        {t.base for t in e.atoms(sp.Pow) if t.exp.is_negative and t.exp.is_Rational and t.base.is_Add}, key=sp.default_sort_key
    ):
        k = min(t.as_powers_dict()[b] for t in terms)
        parts = [(t / b**k).xreplace({sp.Abs(x): sign * x, sp.sign(x): S(sign)}) for t in terms]
        if k < 0 and all(part.is_polynomial(x) for part in parts):
            rest = sp.expand(sp.Add(*parts))
            if sp.degree(rest, x) < max(sp.degree(part, x) for part in parts):
                return rest * b**k
    return e


class _Outward:
    """Growing exponentials as reciprocals of decaying ones, which then cancel; from the leaves upward."""

    def __init__(self, way: Stretch) -> None:
        self.way, self.sign = way, way.sign
        self.decaying: dict[sp.Symbol, sp.Expr] = {}
        self.other: dict[sp.Expr, sp.Symbol] = {}

    def __call__(self, f: sp.Expr) -> sp.Expr:
        f = self.walk(f)
        for a, e in reversed(self.other.items()):  # the inner ones were named first
            f = f.xreplace({e: exp(a)})
        return f.xreplace({d: exp(a) for d, a in self.decaying.items()})

    def walk(self, e: sp.Expr) -> sp.Expr:
        if not e.has(x) or not e.args:
            return e
        if isinstance(e, exp) and (rise := self.way.rise(e.args[0])):
            return 1 / self.named(-e.args[0]) if rise > 0 else self.named(e.args[0])
        if isinstance(e, sp.Add):
            e = _over_one(self.conjugate(e), self.sign)
        if isinstance(e, sp.Mul):
            e = _towering(e)
        if isinstance(e, sp.log):
            return self.logarithm(e.args[0])
        walked = [self.walk(a) for a in e.args]
        if isinstance(e, exp):  # of what is no polynomial: sums as fractions leave it alone
            return self.other.setdefault(walked[0], sp.Dummy("e", positive=True))
        if isinstance(e, sp.Add):
            return self.limitless(e.func(*walked))
        if isinstance(e, (sp.Mul, sp.Pow)):  # a growing sum as a fraction, so that what grows cancels
            walked = [sp.together(a) if isinstance(a, sp.Add) and self.grows(a) else a for a in walked]
        return e.func(*walked)

    def limitless(self, e: sp.Expr) -> sp.Expr:
        """a sum whose terms cancel where what decays is 0, as one fraction without them: 1 - 1/(1 + d) = d/(1 + d)"""
        ends = dict.fromkeys(e.free_symbols & self.decaying.keys(), S.Zero)
        if not ends or self.grows(e) or all(t.xreplace(ends) == 0 for t in sp.Add.make_args(e)) or sp.expand(e.xreplace(ends)) != 0:
            return e
        numerator, denominator = sp.fraction(sp.together(e))
        return sp.expand(numerator) / denominator

    def named(self, argument: sp.Expr) -> sp.Expr:
        """a decaying exponential as a symbol, or a power of one"""
        for d, a in self.decaying.items():
            ratio = sp.cancel(argument / a)
            if ratio.is_Integer and ratio > 0:
                return d ** int(ratio)
        d = sp.Dummy("d", positive=True)
        self.decaying[d] = argument
        return d

    def grows(self, e: sp.Expr) -> bool:
        return any(t.base in self.decaying and t.exp.is_negative for t in e.atoms(sp.Pow))

    def logarithm(self, argument: sp.Expr) -> sp.Expr:
        """log(1 + t) keeps the digits of small t; log(N/(d M)) = log(N/M) - log d"""
        if isinstance(argument, sp.Add) and S.One in argument.args:
            small = self.walk(argument - 1)
            if not self.grows(small):
                return log1p(small)
        rest, outside = sp.together(self.walk(argument)), S.Zero
        for factor in sp.Mul.make_args(rest):
            base, k = factor.as_base_exp()
            if base in self.decaying:
                outside += k * self.decaying[base]
                rest /= factor
        largest, rest = self.largest(rest)
        outside += largest
        inner = log1p(rest - 1) if isinstance(rest, sp.Add) and S.One in rest.args else sp.log(rest)
        return self.beyond(inner + outside, argument, outside)

    def largest(self, e: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        """the exponent of the largest term of a sum of which all terms decay, 0 where there is no such, and the sum over its exponential"""
        terms: dict[sp.Expr, sp.Expr] = {}
        for t in sp.Add.make_args(sp.expand(e)):
            powers = t.as_powers_dict()
            exponent = sp.expand(sp.Add(*[k * self.decaying[d] for d, k in powers.items() if d in self.decaying]))
            terms[exponent] = terms.get(exponent, S.Zero) + sp.Mul(*[d**k for d, k in powers.items() if d not in self.decaying])
        first = next((a for a in terms if all(a == b or self.way.rise(sp.expand(b - a)) < 0 for b in terms)), S.Zero)
        if first == 0 or len(terms) == 1 or S.Zero in terms:
            return S.Zero, e
        return first, sp.Add(*[c if a == first else c * self.named(sp.expand(a - first)) for a, c in terms.items()])

    def beyond(self, far: sp.Expr, argument: sp.Expr, outside: sp.Expr) -> sp.Expr:
        """what was taken out of a logarithm of the argument is small where it changes sign: nearer to 0 the form for the other side"""
        if not is_linear(outside, x) or not self.way.holds(turn := self.way.turn(outside)):
            return far
        near = side(sp.log(argument), -self.sign)
        return sp.Piecewise((far, self.sign * x - turn > 0), (near, True))

    def conjugate(self, e: sp.Add) -> sp.Expr:
        r"""P + k \sqrt{R} = (P^2 - k^2 R)/(P - k \sqrt{R}) where the two cancel far out on this side"""
        if any(t.base.has(x) and t.exp.is_Rational and t.exp.q == 2 and t.exp < 0 for t in e.atoms(sp.Pow)):
            numerator, denominator = sp.fraction(sp.together(e))
            if isinstance(numerator, sp.Add) and numerator != e:
                kept = self.conjugate(numerator)
                return e if kept == numerator else kept / denominator
        parts = [t.as_independent(x, as_Add=False) for t in e.args]
        roots = [(k, head) for k, head in parts if head.is_Pow and head.exp == S.Half and head.base.is_polynomial(x)]
        if len(roots) != 1:
            return e
        k, head = roots[0]
        rest = e - k * head
        if rest == 0 or not rest.is_polynomial(x):
            return e
        square = sp.expand(rest**2 - k**2 * head.base)
        cancels = sp.degree(square, x) < 2 * sp.degree(rest, x) == sp.degree(head.base, x)
        opposite = (sp.LC(rest, x) * self.sign ** sp.degree(rest, x) * k).is_negative
        return square / (rest - k * head) if cancels and opposite else e
