r"""Expectations at the very variance at which the density falls as fast as a function grows: what is left of it decides.

With f(x) = r(x) e^{a x^2} and q = 1/(2 a) the integrand of E f(u) is r(x)/\sqrt{2 \pi q}, finite where r is integrable: |x|^{-k} for k > 1.

Of two variables the density falls as fast as f(u) g(v) grows along one ray, u = c x and v = d x, and like a Gaussian across it:

    E f(u) g(v) = \int\int r(c x + t) s(d x - t) e^{-k t^2} dt dx   up to factors.

Where \ln|r| and \ln|s| have bounded slopes, r(c x + t) lies between r(c x) e^{-L|t|} and r(c x) e^{L|t|}, and it is finite where
r(c x) s(d x) is integrable. Slopes that both go to -oo leave less than every exponential, slopes that both go to oo more; of slopes
without a bound against each other, e^{-|x|^{3/2}} beside e^{|x|^{3/2}}, nothing is said: they move t, and the ray counts for little.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import sympy as sp
from sympy import S
from sympy.core.logic import fuzzy_and
from sympy.functions.elementary.trigonometric import TrigonometricFunction

from meanfield.gaussian.pieces import NotClosed, pieces_of
from meanfield.gaussian.stable import complemented
from meanfield.symbols import known

__all__ = ["integrable", "integrable_across", "integrable_along", "left_at", "rest_of"]

x = known("x")

#: powers of ten, each twice the last, at which it is read how a function falls, and digits for them
_PLACES, _DIGITS = (40, 80, 160, 320), 400
#: a power of x of which it is certain that it is integrable where it is of no one power and logarithm, and how near two of these are one
_INTEGRABLE, _EXACT = -1.0075, 1e-6
#: how much more a slope may be at the farthest place if it has a bound, and is there and half as far out if it has none
_BOUNDED, _STEEPER, _STEEP = 1.01, 1.5, 3.0
#: of these two places tell nothing
_OSCILLATING = (TrigonometricFunction, sp.sinc, sp.floor, sp.ceiling, sp.frac, sp.Mod, sp.besselj, sp.bessely, sp.airyai, sp.airybi)


@dataclass(frozen=True)
class _Tail:
    """What is left of a function towards an end of the line, as functions of the distance x that are at least and at most as large, up to
    constants, the second on average over any length; None where there is none that can be told."""

    above: sp.Expr | None
    below: sp.Expr | None

    def at(self, scale: sp.Expr) -> _Tail:
        return _Tail(*(None if r is None else r.xreplace({x: scale * x}) for r in (self.above, self.below)))

    def times(self, other: _Tail) -> _Tail:
        pairs = ((self.above, other.above), (self.below, other.below))
        return _Tail(*(None if r is None or s is None else r * s for r, s in pairs))

    def integrable(self) -> bool | None:
        """Whether it falls fast enough; None where that is not known."""
        if self.above is not None and _falls(self.above):
            return True
        return False if self.below is not None and _falls(self.below) is False else None


def left_at(f: sp.Expr, a: sp.Expr) -> sp.Expr | None:
    """f(x) exp(-a x^2) where it is integrable at both ends of the line; None where that is not known."""
    return rest_of(f, a) if integrable(f, a) else None


@cache
def integrable(f: sp.Expr, a: sp.Expr) -> bool | None:
    """Whether f(x) exp(-a x^2) is integrable at both ends of the line; None where that is not known."""
    try:
        found: bool | None = fuzzy_and(_tail(f, a, end).integrable() for end in (1, -1))
    except NotClosed:
        return None
    return found


@cache
def integrable_along(f: sp.Expr, g: sp.Expr, rates: tuple[sp.Expr, sp.Expr], ends: tuple[int, int], scale: sp.Expr) -> bool | None:
    """Whether f(i x) e^{-a x^2} g(j c x) e^{-b (c x)^2} is integrable as x -> oo, for rates a and b, ends i and j and a scale c > 0."""
    try:
        return _tail(f, rates[0], ends[0]).times(_tail(g, rates[1], ends[1]).at(scale)).integrable()
    except NotClosed:
        return None


@cache
def integrable_across(f: sp.Expr, g: sp.Expr, rates: tuple[sp.Expr, sp.Expr], ends: tuple[int, int], scale: sp.Expr | None) -> bool | None:
    """Whether the same is integrable with a Gaussian across the ray; a scale that is not known does not matter to powers and logarithms."""
    try:
        tails = _tail(f, rates[0], ends[0]), _tail(g, rates[1], ends[1])
    except NotClosed:
        return None
    if scale is None and not all(r is not None and _like_a_power(r) for t in tails for r in (t.above, t.below)):
        return None
    both = tails[0].times(tails[1].at(S.One if scale is None else scale))
    above, below = (
        [s for r in pair if r is not None and (s := _steepness(r)) is not None]
        for pair in zip(*((t.above, t.below) for t in tails), strict=True)
    )
    if len(above) == 2 and ((max(above) == 0 and (min(above) < 0 or both.integrable())) or max(above) < 0):
        return True
    if len(below) == 2 and ((min(below) == 0 and (max(below) > 0 or both.integrable() is False)) or min(below) > 0):
        return False
    return None


def rest_of(f: sp.Expr, a: sp.Expr) -> sp.Expr:
    """f(x) exp(-a x^2), the exponentials multiplied out. Raises NotClosed where f has no pieces."""
    cuts, left = _rests(f, a)
    return sp.Piecewise(*((value, x < cut) for value, cut in zip(left, cuts, strict=False)), (left[-1], True))


@cache
def _rests(f: sp.Expr, a: sp.Expr) -> tuple[tuple[sp.Expr, ...], tuple[sp.Expr, ...]]:
    """the cuts between the pieces, and each piece times the exponential"""
    cuts, values = pieces_of(f)
    return tuple(cuts), tuple(sp.expand_mul(_opened(value) * sp.exp(-a * x**2)) for value in values)


def _opened(f: sp.Expr) -> sp.Expr:
    """with hyperbolic functions as exponentials, and these of what is multiplied out"""
    f = f.replace(lambda t: isinstance(t, (sp.cosh, sp.sinh)), lambda t: t.rewrite(sp.exp))
    return f.replace(lambda t: isinstance(t, sp.exp), lambda t: sp.exp(sp.expand(t.args[0])))


@cache
def _tail(f: sp.Expr, a: sp.Expr, end: int) -> _Tail:
    rests = _rests(f, a)[1]
    r = rests[-1] if end > 0 else rests[0].xreplace({x: -x})
    return _Tail(r, r) if not r.has(*_OSCILLATING) else _of_waves(r)


def _of_waves(r: sp.Expr) -> _Tail:
    """of a sum of functions times sines and cosines: the sum of these functions; and the largest one, if its waves are almost periodic,
    since their mean size is that over some length about every place"""
    waves: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(r):
        number, factors = term.as_coeff_mul()
        turning = [e for e in factors if _is_wave(e)]
        rest = sp.Mul(*(e for e in factors if e not in turning))
        if rest.has(*_OSCILLATING):
            return _Tail(None, None)
        waves[rest] = waves.get(rest, S.Zero) + sp.Mul(number, *turning)
    sizes: dict[sp.Expr, list[Any]] = {rest: [_size(rest, k) for k in _PLACES[::2]] for rest in waves}
    above = sp.Add(*map(sp.Abs, waves))
    if any(size is None for both in sizes.values() for size in both):
        return _Tail(above, None)
    first, *others = sorted(waves, key=lambda rest: sizes[rest][1], reverse=True)
    alone = all(sizes[rest][k] < sizes[first][k] - 10 for rest in others for k in (0, 1))
    lines = all(w.args[0].is_polynomial(x) and sp.degree(w.args[0], x) == 1 for w in waves[first].atoms(sp.sin, sp.cos))
    there = any(abs(waves[first].xreplace({x: sp.Rational(k, 7)}).evalf(15)) > 1e-6 for k in (1, 4, 11, 30))
    return _Tail(above, first if alone and lines and there else None)


def _is_wave(e: sp.Expr) -> bool:
    """a power of a sine or a cosine, between -1 and 1"""
    base, k = e.as_base_exp()
    return isinstance(base, (sp.sin, sp.cos)) and k.is_Integer and k > 0 and bool(base.args[0].is_extended_real)


def _far(r: sp.Expr, decade: int) -> sp.Expr | None:
    """its value at 10^decade; None where not a digit of it is known"""
    try:
        value = r.xreplace({x: S(10) ** decade}).evalf(15, maxn=_DIGITS)
    except (OverflowError, MemoryError):
        return None
    return value if value == 0 or (value.is_Float and value._prec > 1) else None


def _size(r: sp.Expr, decade: int) -> sp.Expr | None:
    """its decimal logarithm there, -oo of 0: it may be no double"""
    value = _far(r, decade)
    return None if value is None else sp.log(abs(value), 10).evalf() if value != 0 else -S.Infinity


def _falls(r: sp.Expr) -> bool | None:
    """whether it falls fast enough to be integrable: x^a (ln x)^b does for a < -1, and for a = -1 and b < -1"""
    if r.is_polynomial(x):
        return bool(r == 0)
    sizes: list[Any] = [_size(r, k) for k in _PLACES]
    if all(size == -S.Infinity for size in sizes):
        return True
    if any(size is None or size == -S.Infinity for size in sizes):
        return None
    steps = [after - before for before, after in itertools.pairwise(sizes)]
    powers = [(steps[k + 1] - steps[k]) / _PLACES[k] for k in (0, 1)]
    logarithms = [(2 * steps[k] - steps[k + 1]) / math.log10(2) for k in (0, 1)]
    if abs(powers[1] - powers[0]) < _EXACT and abs(logarithms[1] - logarithms[0]) < _EXACT:
        return bool(powers[0] < -1 - _EXACT or (powers[0] < -1 + _EXACT and logarithms[0] < -1 - _EXACT))
    means = [step / place for step, place in zip(steps, _PLACES, strict=False)]
    return True if max(means) < _INTEGRABLE else False if min(means) > -1 else None


def _slope(r: sp.Expr) -> sp.Expr:
    """of ln|r|"""
    if r.is_Mul:
        return sp.Add(*map(_slope, r.args))
    if isinstance(r, sp.exp):
        return r.args[0].diff(x)
    if r.is_Pow and not r.exp.has(x):
        return r.exp * _slope(r.base)
    return complemented(r.diff(x)) / r if r != 0 else S.Zero


def _slopes(r: sp.Expr) -> list[sp.Expr] | None:
    if r.is_polynomial(x):
        return [sp.degree(r, x) / S(10) ** k for k in _PLACES[:3]]
    found = [_far(_slope(r), k) for k in _PLACES[:3]]
    return None if None in found else found


def _steepness(r: sp.Expr) -> int | None:
    """where the slope of ln|r| goes: 1 to oo, -1 to -oo, 0 to neither, which has a bound; None where that cannot be told"""
    found = _slopes(r)
    if found is None:
        return None
    near, between, far = map(abs, found)
    if far <= _BOUNDED * near:
        return 0
    return int(sp.sign(found[2])) if near > 0 and between > _STEEPER * near and far > _STEEP * near else None


def _like_a_power(r: sp.Expr) -> bool:
    """whether r(c x)/r(x) has a limit for every c"""
    found = _slopes(r)
    return found is not None and abs(found[2]) * S(10) ** (_PLACES[2] - _PLACES[0]) <= _BOUNDED * abs(found[0]) + S(10) ** -_DIGITS
