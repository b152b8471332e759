r"""E f(u) and E f(u) g(v) to any number of digits where a wave is too fast for panels: f and g in pieces, each a sum of p(x) e^{B x}.

A piece between two thresholds is a difference of half lines, that of two variables one of quadrants (`corners`), each above the threshold
to which the density times |e^{B u + C v}| rises in the rectangle: it is then no larger beyond. All that have a corner, rates and a
direction in common are one polynomial.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import mpmath as mp
import sympy as sp

from meanfield.gaussian.arithmetic import precise_number
from meanfield.gaussian.atoms import atoms_of
from meanfield.gaussian.corners import Bounded, corner, half_line, half_plane, line
from meanfield.gaussian.pieces import NotClosed, pieces_of
from meanfield.symbols import known

__all__ = ["Normal", "are_fast", "mean_of_waves", "product_mean_of_waves"]

x = known("x")

#: radians in a standard deviation from which on panels are too many for a wave
_FAST = 20
#: bits up to which more are taken where the terms cancel
_MOST_BITS = 6_000

#: coefficients of the powers of x by the rate B
Waves = dict[sp.Expr, dict[int, sp.Expr]]
#: low and high end of a piece, and what it is
Piece = tuple[sp.Expr, sp.Expr, Waves]
#: the threshold, the side beyond it and the rate of a wave; no threshold and side 1 for a whole line
Place = tuple[sp.Expr | None, int, sp.Expr]


@lru_cache(maxsize=256)
def _pieces(f: sp.Expr) -> tuple[Piece, ...] | None:
    try:
        cuts, values = pieces_of(f)
        parts = [atoms_of(value) for value in values]
    except NotClosed:
        return None
    if any(t.A != 0 or t.G for part in parts for t in part) or not all(cut.is_number for cut in cuts):
        return None
    found, ends = [], (sp.S.NegativeInfinity, *cuts, sp.S.Infinity)
    for part, low, high in zip(parts, ends, ends[1:], strict=False):
        waves: Waves = {}
        for t in part:
            waves.setdefault(t.B, {})[t.k] = t.c
        found.append((low, high, waves))
    return tuple(found)


def are_fast(*lines: tuple[sp.Expr, sp.Expr]) -> bool:
    """Whether functions are such pieces and, of variables of those variances, one of them oscillates too fast for panels."""
    parts = [_pieces(f) for f, _ in lines]
    if None in parts:
        return False
    rates = [sp.im(rate) ** 2 * v for part, (_, v) in zip(parts, lines, strict=True) for *_, waves in part or () for rate in waves]
    return any(rate.evalf(15) > _FAST**2 for rate in rates)


@dataclass(frozen=True)
class Normal:
    """A function of a normal variable."""

    f: sp.Expr
    mean: sp.Expr
    variance: sp.Expr

    def pieces(self) -> tuple[Piece, ...]:
        found = _pieces(self.f)
        assert found is not None
        return found

    def places(self) -> tuple[mp.mpf, mp.mpf]:
        return precise_number(self.mean), mp.sqrt(precise_number(self.variance))

    def lost(self) -> int:
        """Bits that an exponent loses, a product of two thresholds or rates."""
        with mp.workprec(60):
            mean, deviation = self.places()
            cuts = [abs(precise_number(low) - mean) / deviation for low, *_ in self.pieces()[1:]]
            rates = [abs(_number(rate)) * deviation for *_, waves in self.pieces() for rate in waves]
            return 2 * max(0, int(mp.mag(mp.fsum([*cuts, *rates]))))

    def standard(self, end: sp.Expr) -> mp.mpf:
        mean, deviation = self.places()
        return (precise_number(end) - mean) / deviation if end.is_finite else mp.inf if end is sp.S.Infinity else -mp.inf

    def at(self, place: Place, coefficients: dict[int, sp.Expr]) -> tuple[mp.mpf, mp.mpc, list[mp.mpc]]:
        """Threshold, rate and polynomial of a standard normal, its side turned to 1 and counted from the threshold."""
        cut, side, rate = place
        mean, deviation = self.places()
        start = mean if cut is None else precise_number(cut)
        slope, wave, step = _number(rate), mp.exp(_number(rate) * start), side * deviation
        found = [mp.mpc(0)] * (max(coefficients, default=0) + 1)
        for k, c in coefficients.items():
            for j in range(k + 1):
                found[j] += wave * _number(c) * math.comb(k, j) * start ** (k - j) * step**j
        return side * (start - mean) / deviation, slope * step, found


def _number(e: sp.Expr) -> mp.mpc:
    return mp.mpc(sp.N(e, mp.mp.dps + 5)._to_mpmath(mp.mp.prec))


def _half_lines(low: sp.Expr, high: sp.Expr, side: int) -> list[tuple[int, sp.Expr | None, int]]:
    """an interval as signs, thresholds and sides of half lines, all on that side; of a whole line, no threshold"""
    if low is sp.S.NegativeInfinity and high is sp.S.Infinity:
        return [(1, None, 1)]
    first, last = (low, high) if side > 0 else (high, low)
    return [(1, first, side), *([(-1, last, side)] if last.is_finite else [])]


def _side(best: mp.mpf, low: mp.mpf, high: mp.mpf) -> int:
    """above the end at which it is largest; any where that is within"""
    return -1 if best >= high or (low == -mp.inf and best > low) else 1


def mean_of_waves(u: Normal, prec: int) -> mp.mpf:
    """E f(u), to prec bits."""

    def run() -> Bounded:
        parts = []
        with mp.workprec(mp.mp.prec + u.lost()):
            for low, high, rate, coefficients in _waves(u):
                side = _side(mp.re(_number(rate)) * u.places()[1], u.standard(low), u.standard(high))
                for sign, cut, way in _half_lines(low, high, side):
                    h, s, c = u.at((cut, way, rate), coefficients)
                    value, error = line(c, h, s) if cut is None else half_line(c, h, s)
                    parts.append((sign * value, error))
        return _total(parts)

    return _told(run, prec, f"E[{u.f}]")


def product_mean_of_waves(u: Normal, v: Normal, eps: sp.Expr, sign: int, prec: int) -> mp.mpf:
    """E f(u) g(v) at the correlation sign (1 - eps), eps > 0, to prec bits."""

    with mp.workprec(60):
        spare = u.lost() + v.lost() + 2 * max(0, -int(mp.mag(precise_number(eps))))

    def run() -> Bounded:
        sums: dict[tuple[Place, Place], list[list[mp.mpc]]] = {}
        with mp.workprec(mp.mp.prec + spare):
            r = sign * (1 - precise_number(eps))
            for first, second in itertools.product(_waves(u), _waves(v)):
                for places, c in _corners(u, v, first, second, r):
                    _collect(sums, places, c, u == v)
            found = [_over(c, u, v, places, r, spare) for places, c in sums.items()]
        return _total(found)

    return _told(run, prec, f"E[{u.f * v.f.xreplace({x: known('y')})}]")


#: a wave of a piece: its ends, its rate and its coefficients
Wave = tuple[sp.Expr, sp.Expr, sp.Expr, dict[int, sp.Expr]]


def _waves(u: Normal) -> list[Wave]:
    return [(low, high, rate, coefficients) for low, high, waves in u.pieces() for rate, coefficients in waves.items()]


def _corners(u: Normal, v: Normal, first: Wave, second: Wave, r: mp.mpf) -> Iterator[tuple[tuple[Place, Place], list[list[mp.mpc]]]]:
    """a product of two waves on a rectangle as polynomials beyond its corners"""
    ends = [[n.standard(end) for end in wave[:2]] for n, wave in ((u, first), (v, second))]
    rises = [mp.re(_number(wave[2])) * n.places()[1] for n, wave in ((u, first), (v, second))]
    best = _largest(rises, ends, r)
    sides = [_side(at, *between) for at, between in zip(best, ends, strict=True)]
    lines = [_half_lines(*wave[:2], side) for wave, side in zip((first, second), sides, strict=True)]
    for (plus, cut, side), (minus, other, way) in itertools.product(*lines):
        places = (cut, side, first[2]), (other, way, second[2])
        rows, columns = u.at(places[0], first[3])[2], v.at(places[1], second[3])[2]
        yield places, [[plus * minus * a * b for b in columns] for a in rows]


def _largest(rises: list[mp.mpf], ends: list[list[mp.mpf]], r: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """where in a rectangle the normal density of correlation r times e^{b U + c V} is largest"""
    (b, c), square = rises, (1 - r) * (1 + r)
    free = (b + r * c, c + r * b)
    if all(low <= z <= high for z, (low, high) in zip(free, ends, strict=True)):
        return free
    found = []
    for i, (low, high) in enumerate(ends):
        for end in ends[1 - i]:
            if mp.isfinite(end):
                z = min(max(rises[i] * square + r * end, low), high)
                found.append((z, end) if i == 0 else (end, z))
    return max(found, key=lambda at: b * at[0] + c * at[1] - (at[0] ** 2 - 2 * r * at[0] * at[1] + at[1] ** 2) / (2 * square))


def _collect(sums: dict[tuple[Place, Place], list[list[mp.mpc]]], places: tuple[Place, Place], c: list[list[mp.mpc]], alike: bool) -> None:
    """one more polynomial, of which the real part counts: at its corner, or at one that is the same with u for v or i for -i"""
    for turned, swapped in itertools.product((False, True), (False, True) if alike else (False,)):
        key = tuple((cut, side, sp.conjugate(rate) if turned else rate) for cut, side, rate in places)
        same = [[mp.conj(value) for value in row] for row in c] if turned else c
        if swapped:
            key, same = key[::-1], [list(row) for row in zip(*same, strict=True)]
        if key in sums:
            sums[key] = [
                [a + b for a, b in itertools.zip_longest(*rows, fillvalue=mp.mpc(0))]
                for rows in itertools.zip_longest(sums[key], same, fillvalue=())
            ]
            return
    sums[places] = c


def _over(c: list[list[mp.mpc]], u: Normal, v: Normal, places: tuple[Place, Place], r: mp.mpf, spare: int) -> Bounded:
    (h, s, _), (k, t, _) = (n.at(place, {}) for n, place in zip((u, v), places, strict=True))
    (cut, side, _), (other, way, _) = places
    if cut is None:
        return half_plane(c, (h, k), (s, t), side * way * r, other is None)
    if other is None:
        return half_plane(list(zip(*c, strict=True)), (k, h), (t, s), side * way * r)
    return corner(c, (h, k), (s, t), side * way * r, spare)


def _total(parts: list[Bounded]) -> Bounded:
    values = [value.real for value, _ in parts]
    return mp.fsum(values), mp.fsum(error for _, error in parts) + 64 * mp.eps * mp.fsum(values, absolute=True)


def _told(run: Callable[[], Bounded], prec: int, what: str) -> mp.mpf:
    """a value to prec bits, in as many more as its terms lose"""
    more = 64
    while prec + more <= _MOST_BITS:
        with mp.workprec(prec + more):
            value, error = run()
            if value != 0 and error <= mp.ldexp(abs(value), -prec - 2):
                return value
            lost = int(mp.mag(error) - mp.mag(value)) + prec + 10 if value and error else more
        more += max(lost, more // 2)
    raise ArithmeticError(f"{what} cannot be told from 0 to {mp.libmp.prec_to_dps(prec)} digits: its waves cancel")
