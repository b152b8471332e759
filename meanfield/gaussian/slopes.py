"""Derivatives as distributions: with a delta wherever a function jumps."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import reduce

import sympy as sp
from sympy import Heaviside, S

from meanfield.gaussian.essential import essential_places, jump_across
from meanfield.gaussian.parameter_signs import cases, pivotal
from meanfield.gaussian.pieces import KINKED, NotClosed, UnknownSign, pieces_of, stepped
from meanfield.gaussian.real_roots import located_pieces
from meanfield.gaussian.smoothness import branch, is_smooth, triangle_waves, without_deltas
from meanfield.gaussian.special import is_linear
from meanfield.gaussian.zeros import vanishes
from meanfield.symbols import among_reals, known

__all__ = ["Delta", "deltas", "derivative_in", "gathered", "has_places", "slope"]

x, y = known("x"), known("y")

#: of which a function may be 0 on an interval
_FLAT = sp.Max, sp.Min, sp.Piecewise, Heaviside
#: from a cut, where a piece has no value at the cut itself
_NEXT = sp.Rational(1, 10**40)
#: from a place at which a function within is infinite
_BESIDE = sp.Rational(1, 10**30)


@among_reals
def slope(e: sp.Expr, z: sp.Symbol = x) -> sp.Expr:
    """The derivative as a distribution: sympy's drops the delta where a Piecewise jumps, and leaves one of a function as it is.

    Next to a point at which the function is infinite it is the derivative on either side, which may have no mean though the function has.
    """
    if z != x:
        swap = {x: z, z: x}
        return slope(e.xreplace(swap)).xreplace(swap)
    e = e.replace(_is_root_of_product, lambda t: sp.Mul(*[sp.Abs(factor) ** t.exp for factor in t.base.args[0].args]))
    bends = enumerate(triangle_waves(e).items())
    waves = {t: (sp.Function(f"wave_{i}")(x), n * sp.sign(sp.cos(v)) * v.diff(x)) for i, (t, (v, n, _)) in bends}
    plain = e.xreplace({t: wave for t, (wave, _) in waves.items()}).diff(x)
    plain = plain.xreplace({wave.diff(x): rate for wave, rate in waves.values()}).xreplace({wave: t for t, (wave, _) in waves.items()})
    plain = plain.replace(_signs, _without_signs)
    if plain.has(sp.Subs, sp.Derivative):
        raise ValueError(
            f"{e} has no derivative here: write a function that jumps without end, like floor, in pieces, as far as it matters"
        )
    if not is_smooth(e) and any(_flat_root(t) for t in e.atoms(sp.Pow)):
        return _slope_of_powers(e, plain)
    if e.has(sp.Piecewise) or not has_places(plain):
        if not has_places(e):
            raise ValueError(f"{e} has deltas at infinitely many places, or at places that are not known: it has no derivative here")
        try:
            plain = without_deltas(plain) + _jumps(e)
        except NotClosed:
            return _by_place(plain)
    return _weighed(_across(e, plain), e)


def _by_place(e: sp.Expr) -> sp.Expr:
    """a function with each delta that a Piecewise holds beside it, weighed by the piece that is at its place"""

    def apart(t: sp.Piecewise) -> sp.Expr:
        places = {d.place for value, _ in t.args for d in deltas(value)[1]}
        weights = {place: sp.Piecewise(*[(_weight_at(value, place), c.xreplace({x: place})) for value, c in t.args]) for place in places}
        return without_deltas(t) + sp.Add(*[w * sp.DiracDelta(x - place) for place, w in weights.items()])

    return e.replace(lambda t: isinstance(t, sp.Piecewise) and t.has(sp.DiracDelta) and has_places(t), apart)


def _weight_at(e: sp.Expr, place: sp.Expr) -> sp.Expr:
    """what stands before the delta at a place"""
    found = [d for d in deltas(e)[1] if d.place == place]
    if any(d.order for d in found):
        raise ValueError(f"{e} holds the derivative of a delta in a piece that may not reach its place: write it outside of the pieces")
    return sp.Add(*[d.factor.xreplace({x: place}) for d in found])


def _signs(t: sp.Basic) -> list[sp.Expr]:
    """what a product holds, to a whole power, beside its sign"""
    if not t.is_Mul:
        return []
    powers = t.as_powers_dict()
    held = (a.args[0] for a in t.args if isinstance(a, sp.sign))
    return [u for u in held if u in powers and powers[u].is_Integer and powers[u].is_positive]


def _without_signs(t: sp.Mul) -> sp.Expr:
    """u sgn u = |u|, which with a power of |u| beside it is one power, and no 0/0"""
    return t * sp.Mul(*[sp.Abs(u) / (u * sp.sign(u)) for u in _signs(t)])


@among_reals
def derivative_in(f: sp.Expr, parameter: sp.Symbol) -> sp.Expr:
    """df/d(parameter), with a delta wherever a step of f moves: sympy's drops that of a Piecewise whose condition holds the parameter, and
    leaves that of Max(-a, Min(a, x)) at each root of what is compared.

    Raises
    ------
    ValueError
        Where such a function jumps is not known.
    """
    rate = f.diff(parameter)
    conditions = (condition for t in f.atoms(sp.Piecewise) for _, condition in t.args)
    if any(condition.has(parameter) and condition.has(x, y) for condition in conditions):
        return _moving(f, parameter, rate)
    if not (has_places(rate) and has_places(rate, y)):
        apart = f.replace(lambda t: isinstance(t, (Heaviside, sp.sign)) and t.has(*KINKED), _stepped)
        return _moving(f, parameter, rate) if apart == f else derivative_in(apart, parameter)
    if y not in f.free_symbols:
        return _weighed(_in_exponent(f, parameter, rate), f, parameter)
    return rate if x in f.free_symbols else _in_exponent(f.xreplace({y: x}), parameter, rate.xreplace({y: x})).xreplace({x: y})


def _in_exponent(f: sp.Expr, parameter: sp.Symbol, rate: sp.Expr) -> sp.Expr:
    """piece by piece, where a power of max(x, 0) has the parameter in its exponent: what is 0 there is 0 log 0 in the rate"""
    if rate.has(sp.DiracDelta) or not any(t.exp.has(parameter) and t.base.has(*_FLAT) for t in f.atoms(sp.Pow)):
        return rate
    try:
        cuts, values = pieces_of(f)
    except NotClosed:
        return rate
    slopes = [value.diff(parameter) for value in values]
    return sp.Piecewise(*[(s, x < cut) for s, cut in zip(slopes, cuts, strict=False)], (slopes[-1], True))


def _stepped(t: sp.Expr) -> sp.Expr:
    """a step of what has kinks itself as steps at its own cuts, which have an order though all cuts of a function may have none"""
    if x not in t.free_symbols:
        return _stepped(t.xreplace({y: x})).xreplace({x: y}) if y in t.free_symbols else t
    try:
        return stepped(t)
    except NotClosed:
        return t


def _moving(f: sp.Expr, parameter: sp.Symbol, rate: sp.Expr) -> sp.Expr:
    """the derivative of a function with cuts that move: each takes its jump along"""
    if x not in f.free_symbols:
        return derivative_in(f.xreplace({y: x}), parameter).xreplace({x: y})
    if y in f.free_symbols:
        return sp.Add(*[_of_product(term, parameter) for term in sp.Add.make_args(sp.expand(f))])
    rest, found = deltas(f)
    if found:
        if any(d.order for d in found):
            raise ValueError(f"{f} has no derivative in {parameter} here: it holds the derivative of a delta beside a cut that moves")
        kept = [d.factor.xreplace({x: d.place}) * sp.DiracDelta(x - d.place) for d in found]
        return derivative_in(rest, parameter) + sp.Add(*kept).diff(parameter)
    try:
        cuts, values = pieces_of(f)
    except NotClosed as reason:
        raise ValueError(f"{f} has no derivative in {parameter} here, where it jumps is not known: {reason}") from None
    rises = [(cut, sp.expand((high - low).xreplace({x: cut}))) for cut, (low, high) in zip(cuts, itertools.pairwise(values), strict=True)]
    return without_deltas(rate) - sp.Add(*[rise * cut.diff(parameter) * sp.DiracDelta(x - cut) for cut, rise in rises])


def _of_product(f: sp.Expr, parameter: sp.Symbol) -> sp.Expr:
    """the derivative of g(x) h(y)"""
    g, h = f.as_independent(y, as_Add=False)
    if x in h.free_symbols:
        raise ValueError(f"{f} has no derivative in {parameter} here: a cut that moves stands in a sum of products g(x) h(y) alone")
    return derivative_in(g, parameter) * h + g * derivative_in(h, parameter)


def has_places(e: sp.Expr, z: sp.Symbol = x) -> bool:
    """Whether each delta in x, or in z, is at one known place."""
    return all(is_linear(t.args[0], z) for t in e.atoms(sp.DiracDelta) if t.has(z))


def _jumps(e: sp.Expr) -> sp.Expr:
    """the deltas of the derivative of a function; where what comes first hangs on the sign of a parameter, those of each case"""
    try:
        cuts, values = pieces_of(e)
        located = False
    except UnknownSign as reason:
        a = pivotal(reason.e)
        if a is None:
            raise
        return _jumps_by_sign(e, a)
    except NotClosed:
        cuts, values = located_pieces(e)
        located = True
    total = S.Zero
    for cut, (low, high) in zip(cuts, itertools.pairwise(values), strict=True):
        jump = (high - low).xreplace({x: cut})
        if jump.has(S.NaN, S.ComplexInfinity):  # as at the end of a bump exp(-1/x^2)
            apart = high.xreplace({x: cut + _NEXT}) - low.xreplace({x: cut - _NEXT})
            if not apart.is_number or abs(sp.N(apart, 60)) > sp.sqrt(_NEXT):
                total += (_near(high, cut) - _near(low, cut, "-")) * sp.DiracDelta(x - cut)
        elif not (located and vanishes(jump)):
            total += (high - low) * sp.DiracDelta(x - cut)
    return total


def _jumps_by_sign(e: sp.Expr, a: sp.Expr) -> sp.Expr:
    """the same for either sign of an expression in parameters"""
    weights: dict[int, dict[sp.Expr, sp.Expr]] = {1: {}, -1: {}}
    for case in (case for case in cases(a) if case.sign):
        for d in deltas(_jumps(case.put(e)))[1]:
            place, own = case.restored(d.place), weights[case.sign]
            own[place] = own.get(place, S.Zero) + case.restored(d.factor.xreplace({x: d.place}))
    above, below = weights.values()
    pairs = {place: (above.get(place, S.Zero), below.get(place, S.Zero)) for place in {**above, **below}}
    return sp.Add(*[sp.Piecewise((first, a > 0), (last, True)) * sp.DiracDelta(x - place) for place, (first, last) in pairs.items()])


def _across(e: sp.Expr, plain: sp.Expr) -> sp.Expr:
    """A derivative with the deltas of the function where one within it is infinite, as 1/x in tanh(1/x), which its rules do not see."""
    places = essential_places(e)
    if not places:
        return plain
    rest, found = deltas(plain)
    total = rest + sp.Add(*[d.factor * sp.DiracDelta(x - d.place, d.order) for d in found if d.place not in places])
    for r in places:
        left, right = (branch(e, r + side * _BESIDE) for side in (-1, 1))
        if e.free_symbols != {x} or jump_across(left, right, float(r)):
            total += (sp.limit(right, x, r, "+") - sp.limit(left, x, r, "-")) * sp.DiracDelta(x - r)
    return total


def gathered(e: sp.Expr) -> sp.Expr:
    """Quotients of x and powers of one exponential over a common denominator where that is shorter: far out sums of them cancel."""
    scales = {t.args[0] / x for t in e.atoms(sp.exp)}
    if not scales or not all(k.is_Rational for k in scales):
        return e
    unit, power = sp.Rational(reduce(sp.gcd, sorted(scales))), sp.Dummy("power", positive=True)
    plain = e.xreplace({t: power ** (t.args[0] / x / unit) for t in e.atoms(sp.exp)})
    if not plain.is_rational_function(x, power):
        return e
    return min((e, sp.factor(plain).xreplace({power: sp.exp(unit * x)})), key=sp.count_ops)


def _is_root_of_product(t: sp.Expr) -> bool:
    """whether it is |a x|^k, whose derivative is 0/0 at a = 0 where that of |a|^k |x|^k is 0"""
    return bool(t.is_Pow and not t.exp.is_Integer and isinstance(t.base, sp.Abs) and t.base.args[0].is_Mul)


def _flat_root(t: sp.Pow) -> bool:
    """whether the derivative of a power may be 0/0 on an interval: its exponent is open, or it is a root of a function with flat pieces"""
    return not t.exp.is_number or (not t.exp.is_Integer and t.exp < 1 and t.base.has(*_FLAT))


def _slope_of_powers(e: sp.Expr, plain: sp.Expr) -> sp.Expr:
    """piece by piece: the derivative k z^k z'/z of a power of max(x, 0) is 0/0 where that is 0"""
    try:
        cuts, values = pieces_of(e)
    except NotClosed:
        return plain
    slopes = [sp.powsimp(value.diff(x)) for value in values]
    rises = [_near(high - low, cut) for cut, (low, high) in zip(cuts, itertools.pairwise(values), strict=True)]
    jumps = [rise.replace(_is_open, _by_exponent) * sp.DiracDelta(x - cut) for cut, rise in zip(cuts, rises, strict=True)]
    return sp.Piecewise(*[(s, x < cut) for s, cut in zip(slopes, cuts, strict=False)], (slopes[-1], True)) + sp.Add(*jumps)


def _is_open(t: sp.Basic) -> bool:
    """whether it is 0 to a power that may be 0"""
    return bool(t.is_Pow and t.base == 0)


def _by_exponent(t: sp.Pow) -> sp.Expr:
    """0 to a power as what it is for a positive one, and beside that as 1: the slope of a negative power has no delta, and no variance"""
    return sp.Piecewise((S.Zero, t.exp > 0), (S.One, True))


def _weighed(rate: sp.Expr, e: sp.Expr, along: sp.Symbol = x) -> sp.Expr:
    """What stands before a delta by its value there, (x - k) delta(x - k) is 0; where that jumps itself, as in the derivative of a product
    of steps, by the jump of the function, and by how fast its place moves with a parameter."""
    if not rate.has(sp.DiracDelta):
        return rate
    smooth, found = deltas(rate)
    weights: dict[sp.Expr, sp.Expr] = {}
    for d in found:
        if d.order or d.factor.has(sp.DiracDelta):
            return rate
        weights[d.place] = weights.get(d.place, S.Zero) + _near(d.factor, d.place)
    if not e.has(sp.DiracDelta):
        jumping = {d.place for d in found if _sided(d.factor, d.place, 1) != d.factor}
        weights |= {place: _jump_at(e, place) * (x - place).diff(along) for place in jumping}
    return smooth + sp.Add(*[sp.expand(c) * sp.DiracDelta(x - place) for place, c in weights.items()])


def _near(e: sp.Expr, place: sp.Expr, way: str = "+") -> sp.Expr:
    """what a function tends to at a place; 0 where it is infinite there: it is no jump, and has no delta"""
    value = e.xreplace({x: place})
    if value.has(S.NaN, S.ComplexInfinity, S.Infinity, S.NegativeInfinity):
        value = sp.limit(e, x, place, way)
    return S.Zero if value.is_infinite else value


def _jump_at(e: sp.Expr, place: sp.Expr) -> sp.Expr:
    """by how much a function of steps rises across one of them"""
    return _near(_sided(e, place, 1), place) - _near(_sided(e, place, -1), place, "-")


def _sided(e: sp.Expr, place: sp.Expr, side: int) -> sp.Expr:
    """a function with the values that its steps at a place have on one side of it"""

    def value(step: sp.Expr) -> sp.Expr:
        sign = side * sp.sign(step.args[0].diff(x).xreplace({x: place}))
        return step if sign == 0 else sign if isinstance(step, sp.sign) else (1 + sign) / 2

    def here(t: sp.Basic) -> bool:
        return isinstance(t, (Heaviside, sp.sign)) and t.has(x) and sp.expand(t.args[0].xreplace({x: place})) == 0

    return e.replace(here, value)


def _simple_roots(g: sp.Expr) -> list[sp.Expr] | None:
    """of a polynomial of degree two or more with rational coefficients, where all its real roots are"""
    if g.free_symbols != {x} or not g.is_polynomial(x) or sp.degree(g, x) < 2 or not all(c.is_Rational for c in sp.Poly(g, x).coeffs()):
        return None
    roots: list[sp.Expr] = sp.real_roots(g)
    return roots if len({*roots}) == len(roots) else None


@dataclass(frozen=True)
class Delta:
    """factor * delta^(order)(x - place), factor a function of x."""

    factor: sp.Expr
    place: sp.Expr
    order: int


def deltas(e: sp.Expr) -> tuple[sp.Expr, tuple[Delta, ...]]:
    """A sum of a function and deltas as the function, and the deltas."""
    found = []
    for term in sp.Add.make_args(sp.expand(e)):
        at = [t for t in term.atoms(sp.DiracDelta) if t.has(x)]
        if not at:
            continue
        argument, order = at[0].args[0], int(at[0].args[1]) if len(at[0].args) > 1 else 0
        if not order and (roots := _simple_roots(argument)) is not None:
            found += [Delta(term / at[0] / sp.Abs(argument.diff(x)), r, 0) for r in roots]
            continue
        if not is_linear(argument, x) or argument.free_symbols & {y}:
            raise ValueError(f"{at[0]} stands for a delta at each root of {argument}: they are infinitely many, or not known")
        rate, offset = sp.Poly(argument, x).all_coeffs()
        found.append(Delta(term / at[0] / (sp.Abs(rate) * rate**order), -offset / rate, order))
    return without_deltas(e), tuple(found)
