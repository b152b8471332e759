r"""Whether E f(u)^2 is finite: the exponential growth of f at both ends of the real line.

|f(x)| is taken as exp(P(x)) up to less than exponential factors, P the fastest exponent found in f. Under a Gaussian of variance q
a P of degree above 2 is never integrable, and a x^2 in P only for q < 1/(4 a).
"""

from __future__ import annotations

import itertools
import sys
from functools import cache
from typing import Final

import mpmath as mp
import sympy as sp
from sympy import S
from sympy.codegen.cfunctions import expm1, log1p
from sympy.core.logic import fuzzy_and

from meanfield.gaussian.at_bound import integrable, left_at
from meanfield.gaussian.pieces import NotClosed, declare, pieces_of
from meanfield.gaussian.polynomial_zeros import zeros_of
from meanfield.gaussian.special import NormalCDF
from meanfield.gaussian.stable import side
from meanfield.gaussian.tameness import is_tame
from meanfield.symbols import among_reals, known

__all__ = [
    "beside",
    "beyond",
    "divergence",
    "falls",
    "finite_below",
    "grows",
    "left_at_bound",
    "left_of",
    "met_at_bound",
    "places",
    "pole_of",
    "rates",
    "sampled",
    "unbounded",
    "unbounded_at",
    "untold",
]

x = known("x")


class _Unknown(Exception):
    """The growth cannot be read off the expression."""


_DIGITS: Final = 40
#: times as many of a zero that is not rational: the polynomial is a power of the distance to it
_MANIFOLD: Final = 5
#: to which terms may cancel
_MOST_DIGITS: Final = 2_000
#: powers of the distance to a singularity below which a function, or its square, is not integrable there
_NOT_INTEGRABLE: Final = -0.999
_NOT_SQUARE_INTEGRABLE: Final = -0.499
#: faster than every exponential of a polynomial
_TOWER = sp.Dummy("tower")


def _leading(power: sp.Expr) -> tuple[int, sp.Expr]:
    """the degree at x -> +oo, 3 for all above that of x^2 and 1 for all below, and a coefficient, of whose sign the power is"""
    if power.is_polynomial(x):
        poly = sp.Poly(power, x)
        return poly.degree(), poly.LC()
    rate = _limit(power / x**2)
    if rate == 0:
        return 1, sp.sign(_limit(power))
    return (2, rate) if rate.is_finite else (3, sp.sign(rate))


def _limit(e: sp.Expr) -> sp.Expr:
    """at x -> +oo, the upper one where e oscillates"""
    value = sp.limit(e, x, sp.oo)
    value = value.max if isinstance(value, sp.AccumBounds) else value
    if value.has(sp.Limit, sp.AccumBounds, S.NaN, S.ComplexInfinity) or not value.is_extended_real:
        raise _Unknown(e)
    return value


def _faster(a: sp.Expr, b: sp.Expr) -> bool:
    """whether exp(a) outgrows exp(b) at +oo"""
    if _TOWER in (a, b):
        return bool(a == _TOWER)
    lead = _leading(a - b)[1]
    if lead.is_nonnegative or lead.is_nonpositive:
        return bool(lead.is_positive)
    raise _Unknown(declare(lead))


def _growth(e: sp.Expr) -> sp.Expr:
    """P with |e| = exp(P) at x -> +oo, up to less than exponential factors"""
    if x not in e.free_symbols:
        return S.Zero
    if e.is_Add:
        powers = [_growth(t) for t in e.args]
        best = powers[0]
        for t in powers[1:]:
            best = t if _faster(t, best) else best
        if _cancels(e, best):
            raise _Unknown(e)
        return best
    if e.is_Mul:
        parts = [_growth(a) for a in e.args]
        return _TOWER if _TOWER in parts else sp.Add(*parts)
    if isinstance(e, (sp.exp, sp.sinh, sp.cosh)) or (e.is_Pow and x in e.exp.free_symbols):
        power = e.exp * sp.log(e.base) if e.is_Pow else e.args[0]
        return _exponent(power, both=isinstance(e, (sp.sinh, sp.cosh)))
    if e.is_Pow and x not in e.exp.free_symbols:
        inner = _growth(e.base)
        return inner if inner == _TOWER and e.exp.is_positive else e.exp * inner if inner != _TOWER else S.Zero
    if isinstance(e, (expm1, log1p)):
        inner = _growth(e.args[0])
        if inner != 0 and _faster(S.Zero, inner):
            return inner
        return _growth(sp.exp(e.args[0]) + 1) if isinstance(e, expm1) else S.Zero
    if isinstance(e, sp.gamma) and e.args[0].is_polynomial(x) and sp.degree(e.args[0], x) > 1 and sp.LC(e.args[0], x).is_positive:
        return _TOWER
    if isinstance(e, sp.erfi) and e.args[0].is_polynomial(x):
        return e.args[0] ** 2
    falling = e.args[0] if isinstance(e, sp.erfc) else -e.args[0] / sp.sqrt(2) if isinstance(e, NormalCDF) else S.Zero
    if x in falling.free_symbols and falling.is_polynomial(x) and _leading(falling)[1].is_positive:
        return -sp.expand(falling**2)
    return S.Zero  # bounded or of polynomial growth: tanh, erf, log, atan, sin, ...


def _cancels(e: sp.Expr, power: sp.Expr) -> bool:
    """whether a sum is exponentially smaller than its terms, as 1 - erf(x)"""
    if power == _TOWER:
        return False
    size = e.xreplace(sampled(e)) * sp.exp(-power.xreplace(sampled(e)))
    left = [abs(size.xreplace({x: sp.Integer(n)}).evalf(5, maxn=_MOST_DIGITS)) for n in (20, 30)]
    return all(v.is_Float for v in left) and left[1] < left[0] * sp.exp(-1) < sp.exp(-9)


@cache
def _exponent(power: sp.Expr, both: bool) -> sp.Expr:
    """of exp(power), or of cosh(power): that of its multiple of x^2, which counts alone, where it is no polynomial"""
    if power.has(sp.I):
        return S.Zero
    if not power.is_polynomial(x):
        inner = _growth(power)
        if inner != 0 and _faster(inner, S.Zero):  # the exponent itself grows exponentially: which way?
            return S.Zero if not both and sp.limit(power, x, sp.oo) == -sp.oo else _TOWER
        rate = _limit((sp.Abs(power) if both else power) / x**2)
        return rate * x**2 if rate.is_finite else -power if both and _limit(power) == -sp.oo else power
    degree, lead = _leading(power)
    if degree == 0:
        return S.Zero
    if both or lead.is_positive:
        return power if lead.is_positive else -power if lead.is_negative else sp.Abs(lead) * x**degree
    if lead.is_nonpositive:
        return power
    raise _Unknown(declare(lead))


#: functions with real poles, and what is 0 there
_POLES = {
    sp.tan: (sp.cos,), sp.sec: (sp.cos,), sp.cot: (sp.sin,), sp.csc: (sp.sin,), sp.coth: (sp.sinh,), sp.csch: (sp.sinh,),
    sp.gamma: tuple(lambda a, k=k: a + k for k in range(4)),
    sp.factorial: tuple(lambda a, k=k: a + k for k in range(1, 5)),
}  # fmt: skip
_POLES[sp.polygamma] = _POLES[sp.loggamma] = _POLES[sp.gamma]
_POLES[sp.zeta] = (lambda a: a - 1,)


def _denominators(f: sp.Expr) -> set[sp.Expr]:
    """expressions at whose zeros a part of f is infinite"""
    found = {t.base for t in f.atoms(sp.Pow) if t.exp.is_number and t.exp.is_negative}
    for head, zeros in _POLES.items():
        found |= {zero(t.args[-1]) for t in f.atoms(head) for zero in zeros}
    return {inner for d in found for inner in ([a.args[0] for a in d.atoms(sp.Abs)] if isinstance(d, sp.Abs) else [d]) if inner.has(x)}


def places(f: sp.Expr) -> list[sp.Expr]:
    """Where a part of a function without parameters is infinite, nearest to 0 first."""
    return sorted({r for d in _denominators(f) for r in _zeros(d)}, key=lambda r: abs(float(r)))


@cache
def _zeros(e: sp.Expr) -> tuple[sp.Expr, ...]:
    """real zeros, exact for polynomials; for other functions those where the sign changes, between -10 and 10, and 0"""
    if e.is_polynomial(x):
        return tuple(_roots_of_polynomial(e)) if e.free_symbols == {x} else ()
    if e.is_positive or e.is_negative:
        return ()
    value = sp.lambdify(x, e, "mpmath")
    found = [S.Zero] if e.xreplace({x: S.Zero}) == 0 else []
    with mp.workdps(_DIGITS):
        grid = [mp.mpf(k) / 8 + mp.mpf("0.0137") for k in range(-80, 81)]
        values = [value(t) for t in grid]
        for (a, fa), (b, fb) in itertools.pairwise(zip(grid, values, strict=True)):
            if not (mp.im(fa) or mp.im(fb)) and fa * fb < 0:
                root = mp.findroot(value, (a, b), solver="anderson", tol=mp.mpf(10) ** -_DIGITS, verify=False)
                found.append(sp.Float(root, _DIGITS))
    return tuple(found)


def _roots_of_polynomial(e: sp.Expr) -> list[sp.Expr]:
    try:
        return list(sp.real_roots(sp.Poly(e, x)))
    except NotImplementedError:  # of coefficients that are not rational
        return [sp.re(r) for r in zeros_of(e, _MANIFOLD * _DIGITS) if abs(sp.im(r)) < sp.Float(10) ** (-_DIGITS // 2)]


def sampled(f: sp.Expr) -> dict[sp.Symbol, sp.Rational]:
    """Small values for the parameters of f, of the sign they are declared with, positive where none is."""
    parameters = sorted(f.free_symbols - {x}, key=str)
    return {
        s: (-1 if s.is_nonpositive else 1) * (sp.Integer(1 + bool(s.is_even)) if s.is_integer else sp.Rational(3, 7 + 2 * i))
        for i, s in enumerate(parameters)
    }


def beside(g: sp.Expr, at: sp.Expr) -> sp.Expr:
    """The value of a function without parameters next to a place: no number of digits may tell 1 - tanh(1/x)^2 from 0 as it is written."""
    return (side(g, 1 if at > 0 else -1) if g.has(sp.tanh) else g).xreplace({x: at})


def _tower_at(f: sp.Expr) -> sp.Expr | None:
    """A point next to which an exponential in f has a power beyond doubles, which takes more digits than there is room for."""
    g = f.xreplace(sampled(f))
    kinds = sp.exp, sp.cosh, sp.sinh
    powers = sorted({t.args[0] for t in g.atoms(*kinds) if t.args[0].has(*kinds)}, key=sp.count_ops)
    for e, r, way in itertools.product(powers, places(g) if powers else (), (1, -1)):
        size = abs(e.xreplace({x: r + way * sp.Rational(1, 10**14)}).evalf(_DIGITS))
        if size.is_Float and size > sys.float_info.max:
            return r
    return None


def _steepest(f: sp.Expr, values: dict[sp.Symbol, sp.Rational]) -> tuple[sp.Expr, float]:
    """the point next to which f grows fastest at these parameters, and the a of its growth |x - r|^a there, on one side or both"""
    g, worst = f.xreplace(values), (S.Zero, 0.0)
    for r in places(g):
        for way in (1, -1):
            near = [abs(beside(g, r + way * sp.Rational(1, 10**k)).evalf(_DIGITS)) for k in (10, 14)]
            if all(v.is_Float and v > 0 for v in near):
                worst = min(worst, (r, round(float(sp.log(near[0] / near[1], 10)) / 4, 4)), key=lambda found: found[1])
    return worst


@cache
@among_reals
def unbounded(f: sp.Expr) -> bool:
    """Whether a function goes to infinity like a power, of a number, next to a point: it may have a mean where its derivative has none."""
    return _steepest(f, sampled(f))[1] < 0


def unbounded_at(f: sp.Expr) -> sp.Expr | None:
    """A point next to which a function without parameters is not integrable; None if there is none."""
    r, power = _steepest(f, {})
    return r if power < _NOT_INTEGRABLE else None


def pole_of(f: sp.Expr) -> sp.Expr | None:
    """oo or -oo where a function without parameters is not integrable next to a point and of one sign there; None of any other."""
    r = unbounded_at(f)
    if r is None:
        return None
    signs = {sp.sign(f.xreplace({x: r + side * sp.Rational(1, 10**14)}).evalf(_DIGITS)) for side in (1, -1)}
    return {frozenset({S.One}): S.Infinity, frozenset({S.NegativeOne}): S.NegativeInfinity}.get(frozenset(signs))


def _pole(f: sp.Expr) -> str | None:
    """a point next to which the square of f is not integrable, at small parameters and at large ones"""
    values = sampled(f)
    r, power = _steepest(f, values)
    large = {s: v if s.is_integer else 8 * v for s, v in values.items()}
    if power >= _NOT_SQUARE_INTEGRABLE or (large and _steepest(f, large)[1] >= _NOT_SQUARE_INTEGRABLE):
        return None
    kind = "a pole" if power < _NOT_INTEGRABLE else "a singularity that is not square-integrable"
    given = f" for {', '.join(f'{s} = {v}' for s, v in values.items())}" if values else ""
    return f"f has {kind} at x = {r if r.is_Rational else sp.N(r, 6)}{given}"


def _ends(f: sp.Expr) -> list[tuple[int, sp.Expr]]:
    """the ends 1 and -1 of the line, where f is not 0 from some point on, and P with |f| = exp(P) there, as a function of the distance x"""
    _, pieces = pieces_of(f)
    return [(end, _outward(piece, end)) for end, piece in ((1, pieces[-1]), (-1, pieces[0])) if piece != 0]


def _outward(piece: sp.Expr, sign: int) -> sp.Expr:
    """P towards that end"""
    far = side(piece, sign).replace(lambda t: isinstance(t, sp.Piecewise), lambda t: t.args[0].expr)
    return _growth(far.xreplace({x: sign * x}))


@cache
@among_reals
def rates(f: sp.Expr) -> tuple[tuple[int, sp.Expr], ...] | None:
    """The a of exp(a x^2) that |f| is, up to less, at the ends 1 and -1 of the line; none where f is 0 from some point on or falls faster,
    oo where it grows faster. None where it cannot be told."""
    try:
        found = [(end, (3, S.One) if power == _TOWER else _leading(power)) for end, power in _ends(f)]
    except (NotClosed, _Unknown, NotImplementedError, sp.PolynomialError):
        return None
    if any(degree > 2 and not (lead.is_positive or lead.is_negative) for _, (degree, lead) in found):
        return None
    rate = {
        end: S.Infinity if degree > 2 else lead if degree == 2 else S.Zero
        for end, (degree, lead) in found
        if degree <= 2 or lead.is_positive
    }
    return tuple(rate.items())


def grows(f: sp.Expr) -> bool:
    """Whether |f| is known to grow like exp(a x^2), a > 0 and finite, at an end of the line, and nowhere faster."""
    found = [a for _, a in rates(f) or ()]
    return S.Infinity not in found and any(a.is_positive for a in found)


def falls(f: sp.Expr, variance: sp.Expr) -> bool | None:
    """Whether |f| times the normal density of that variance falls at both ends of the line, 2 a q < 1; None where it cannot be told."""
    found = rates(f)
    return None if found is None else fuzzy_and((1 - 2 * a * variance).is_positive for _, a in found)


@cache
@among_reals
def finite_below(f: sp.Expr) -> sp.Expr | None:
    """The variance from which on E f(u) is infinite or undefined: 1/(2 a) where f grows like exp(a x^2), 0 where it grows faster or has
    a pole; None where there is none, or it cannot be told."""
    if _steepest(f, sampled(f))[1] < _NOT_INTEGRABLE:
        return S.Zero
    growing = [] if is_tame(f) else [a for _, a in rates(f) or () if a.is_extended_positive]
    return 1 / (2 * sp.Max(*growing)) if growing else None


@cache
def met_at_bound(f: sp.Expr) -> bool | None:
    """Whether E f(u) is finite at `finite_below` itself; None where that is not known."""
    bound = finite_below(f)
    return integrable(f, 1 / (2 * bound)) if bound else None


@cache
def left_at_bound(f: sp.Expr) -> sp.Expr | None:
    """What a function without parameters leaves of its fastest exponential, where E f(u) is finite at `finite_below` itself; None else."""
    bound = finite_below(f) if f.free_symbols == {x} else None
    return left_at(f, 1 / (2 * bound)) if bound else None


def untold(f: sp.Expr, variance: sp.Expr) -> bool:
    """Whether a density of that variance falls just as fast as a function grows, and it is not known if E f(u) is finite."""
    bound = finite_below(f)
    return bool(bound and (bound - variance).is_zero and met_at_bound(f) is None)


def left_of(f: sp.Expr, mean: sp.Expr, variance: sp.Expr) -> sp.Expr | None:
    """What a density of that mean and variance leaves of a function, where it falls just as fast as that grows and E f(u) is finite; None
    else."""
    bound = finite_below(f) if variance.is_number else None
    return left_at_bound(f.xreplace({x: mean + x})) if bound is not None and (bound - variance).is_zero else None


def beyond(f: sp.Expr, variance: sp.Expr) -> sp.Basic | None:
    """What must hold of q for E f(u) to be finite, where the variance given is known not to."""
    bound = finite_below(f)
    if bound is None or not (variance - bound).is_nonnegative:
        return None
    if met_at_bound(f) is False or bound == 0:
        return known("q") < bound
    return None if (variance - bound).is_zero else known("q") <= bound


@among_reals
def divergence(f: sp.Expr) -> str | None:
    """Why E f(u)^2 is infinite at variance 1, and for which variances, or why it has no numbers; None where it is finite, or where the
    growth cannot be told."""
    tower = _tower_at(f)
    if tower is not None:
        return f"f = {f}: next to x = {tower} an exponential of an exponential has no value in any number of digits"
    pole = _pole(f)
    if pole is not None:
        return f"f = {f}: E f(u)^2 is infinite for every variance, {pole}"
    bounds = []
    try:
        for end, power in _ends(f):
            if power == _TOWER:
                return f"f = {f}: E f(u)^2 is infinite for every variance, f grows faster than exp(a x^2) for every a"
            degree, lead = _leading(power)
            if degree > 2 and lead.is_positive:
                return f"f = {f}: E f(u)^2 is infinite for every variance, f grows like exp({power.xreplace({x: end * x})})"
            if degree == 2 and lead.is_positive:
                bounds.append(lead)
    except (NotClosed, _Unknown, NotImplementedError, sp.PolynomialError):
        return None
    if not bounds:
        return None
    fastest = sp.Max(*bounds)
    if (
        (fastest - sp.Rational(1, 4)).is_negative
        or fastest.free_symbols
        or (fastest == sp.Rational(1, 4) and met_at_bound(f**2) is not False)
    ):
        return None
    grows = f"f grows like exp({fastest * x**2})"
    return f"f = {f}: E f(u)^2 is infinite for variances q >= {1 / (4 * fastest)} (E f(u) for q >= {1 / (2 * fastest)}), {grows}"
