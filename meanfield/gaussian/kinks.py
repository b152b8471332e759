"""Where a function of a real variable has kinks and jumps, and how high these are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.essential import essential_places, is_essential, jump_across
from meanfield.gaussian.periods import period
from meanfield.gaussian.polynomial_zeros import zeros_of
from meanfield.gaussian.resolution import Real, real_function
from meanfield.gaussian.shape_rows import REPEATS
from meanfield.gaussian.smoothness import branch, edges, without_deltas
from meanfield.gaussian.special import written_out
from meanfield.symbols import known

__all__ = ["FEW", "branches", "is_pole", "jump_between", "kinks_of", "midpoints", "roots_of_edges", "zeros_near"]

x = known("x")

Floats = NDArray[np.float64]

_SCANNED = 40.0  # roots of kinks are all found up to here
FEW, _MANY = 12, 100  # roots that are all there are, and most that are split at
_AROUND = 200  # points of a grid that tell how large a function is next to one of them
_LASTING = 90  # periods of an edge on either side of 0 within which a function that has none itself is known


def kinks_of(f: sp.Expr) -> tuple[float, ...]:
    """where f changes its branch, and where a logarithm or a root in it is singular, or a function of what is infinite; where that is so
    without end, within some periods"""
    whole = period(f)
    if whole is not None:
        length = float(whole)
        one = _distinct(sorted(t % length for edge in _singular_edges(f) for t in _within(edge, length)), length)
        return tuple(t + n * length for n in range(-REPEATS, REPEATS) for t in one)
    found: set[float] = set().union(*roots_of_edges(f).values())
    beside = {float(r) for r in essential_places(f)}
    return tuple(sorted(found | {b for b in beside if all(abs(b - k) > 1e-12 * max(1.0, abs(k)) for k in found)}))


@cache
def roots_of_edges(f: sp.Expr) -> dict[sp.Expr, set[float]]:
    """The edges of a function without a period, and where they are 0."""
    return {edge: _along(edge, f) for edge in _singular_edges(f)}


def _singular_edges(f: sp.Expr) -> set[sp.Expr]:
    """expressions at whose zeros f changes its branch, or a logarithm or a root in it is singular"""
    inner = {a.args[0] for a in f.atoms(sp.log)} | {a.base for a in f.atoms(sp.Pow) if a.exp.is_number and not a.exp.is_Integer}
    return {*edges(f), *(a for a in inner if a.has(x) and not isinstance(a, sp.Abs))}  # where that is 0, it has an edge


def _along(edge: sp.Expr, f: sp.Expr) -> set[float]:
    """the roots of an edge of f, which has no period"""
    whole = period(edge)
    if whole is None:
        return _roots(edge, f)
    length = float(whole)
    return {
        t + n * length for t in _distinct(sorted(t % length for t in _within(edge, length)), length) for n in range(-_LASTING, _LASTING)
    }


def branches(f: sp.Expr, points: list[sp.Expr]) -> list[sp.Expr]:
    """The analytic branches of f around points that are no kinks, each found once: where no edge has another sign, it is the same."""
    if f.has(sp.asin, sp.acos, sp.atan):  # whose turns no edge counts
        return [branch(f, point) for point in points]
    at = np.array([float(point) for point in points])
    signs = np.array([np.sign(real_function(edge)(at)) for edge in edges(f)]).reshape(-1, len(points))
    found: dict[tuple[float, ...], sp.Expr] = {}
    for point, key in zip(points, map(tuple, signs.T), strict=True):
        if key not in found:
            found[key] = branch(f, point)
    return [found[key] for key in map(tuple, signs.T)]


def _distinct(roots: list[float], length: float) -> list[float]:
    """those of one period, without what is the same up to rounding"""
    near = 1e-12 * length
    roots = [0.0 if length - r < near or r < near else r for r in roots]
    return [r for r, before in zip(sorted(roots), [-1.0, *sorted(roots)], strict=False) if r - before > near]


def _within(edge: sp.Expr, length: float) -> set[float]:
    """the roots of an edge from 0 to a period of the function that it bounds; that of the edge may be a few times as long"""
    own = period(edge)
    grid = np.linspace(-0.013, 1.0, 4001) * max(length, float(own) if own is not None else length)
    return _found(edge, grid)


def _found(edge: sp.Expr, grid: Floats) -> set[float]:
    """roots between points of a grid: where the edge changes its sign, and where it touches 0"""
    value = real_function(edge)

    def at(f: Real, t: float) -> float:
        return float(f(np.array([t]))[0])

    def root(f: Real, low: float, high: float) -> float:
        from scipy.optimize import brentq  # as long to import as sympy, and few functions have a root that is no point of the grid

        return float(brentq(lambda t: at(f, t), low, high, xtol=1e-15))

    values = value(grid)
    signs = np.sign(values)
    changes = np.flatnonzero(signs[1:] * signs[:-1] < 0)
    roots = {root(value, grid[i], grid[i + 1]) for i in changes}
    roots |= {float(grid[i]) for i in np.flatnonzero(signs == 0) if 0 < i < len(grid) - 1 and signs[i - 1] * signs[i + 1] != 0}
    size = np.abs(values)
    touching = (size[1:-1] < 1e-3 * np.nanmax(size)) & (size[1:-1] < size[:-2]) & (size[1:-1] < size[2:])
    for i in np.flatnonzero(touching & (signs[1:-1] == signs[:-2]) & (signs[1:-1] == signs[2:])) + 1:
        slope = real_function(without_deltas(edge.diff(x)))
        if at(slope, grid[i - 1]) * at(slope, grid[i + 1]) < 0:
            t = root(slope, grid[i - 1], grid[i + 1])
            roots |= {t} if abs(at(value, t)) <= 1e-14 * np.nanmax(size[max(0, i - _AROUND) : i + _AROUND]) else set()
    return roots


@cache
def zeros_near(e: sp.Expr) -> tuple[float, ...]:
    """Where an expression in x is 0, not far from 0; none where that is at many points."""
    grid = np.linspace(-_SCANNED, _SCANNED, 16001)
    if not np.isfinite(real_function(e)(grid)).all():
        return ()
    roots = {t for t in _found(e, grid) if not is_pole(e, t)}
    return tuple(sorted(roots)) if len(roots) <= FEW else ()


def is_pole(edge: sp.Expr, at: float) -> bool:
    """whether a change of sign is one through infinity: nearer to the place it is no smaller"""
    here, *beside = np.abs(real_function(edge)(np.array([at, *_next_to(at)])))
    return not here <= 2.0 * max(beside)


def _next_to(place: float) -> tuple[float, float]:
    step = 1e-6 * max(1.0, abs(place))
    return place - step, place + step


def _roots(edge: sp.Expr, f: sp.Expr) -> set[float]:
    """the real roots of an edge, and its poles but for those outside the branch of f that it belongs to"""
    if edge.is_polynomial(x):
        return {float(sp.re(r)) for r in zeros_of(edge, 15) if abs(sp.im(r)) < 1e-12}
    outside = np.geomspace(_SCANNED, 1e3, 200)[1:]
    roots = _found(edge, np.concatenate((-outside[::-1], np.linspace(-_SCANNED, _SCANNED, 16001), outside)))
    roots = {t for t in roots if not is_pole(edge, t) or len(set(branches(f, list(map(sp.Float, _next_to(t)))))) > 1}
    if len(roots) > FEW:  # without end: f is known between the outermost ones that are not too far to be found
        roots = {r for r in roots if abs(r) < _SCANNED}
    if len(roots) > _MANY:
        raise ValueError(f"E[{f}] has no closed form and cannot be resolved by quadrature: it has a kink at each of many roots of {edge}")
    return roots


def midpoints(kinks: tuple[float, ...]) -> Iterator[sp.Expr]:
    """A point between each two kinks, and beyond them."""
    if not kinks:
        return iter((sp.Float(0.1234),))
    inner = [(a + b) / 2 for a, b in itertools.pairwise(kinks)]
    return iter([sp.Float(m) for m in (kinks[0] - 1.0, *inner, kinks[-1] + 1.0)])


@lru_cache(maxsize=512)
def _precise(piece: sp.Expr) -> Callable[[mp.mpf], mp.mpf]:
    numeric = sp.lambdify(x, written_out(piece), "mpmath")

    def value(z: mp.mpf) -> mp.mpf:
        try:
            return mp.mpmathify(numeric(z))
        except (ZeroDivisionError, ValueError):  # infinite there
            return mp.nan

    return value


def jump_between(left: sp.Expr, right: sp.Expr, at: float) -> float:
    """f(at+) - f(at-): 0 where that is the rounding of the place or of f"""
    if is_essential(left, at) or is_essential(right, at):
        return jump_across(left, right, at)
    step, rounding = 1e-6, 1e-15 * max(1.0, abs(at))

    def values(z: float) -> list[mp.mpf]:
        """real parts: next to a branch point that is not exactly there, a piece may not be real"""
        with mp.workdps(30):
            return [mp.re(_precise(piece)(mp.mpf(z))) for piece in (left, right)]

    def change(z: float) -> float:
        return float(sum(abs(b - a) for a, b in zip(values(at), values(z), strict=True)))

    low, high = values(at)
    moved = max(rounding / step * change(at + step), change(at + rounding), change(at - rounding))
    height = float(high - low)
    return height if abs(height) > 1e-13 * float(abs(high) + abs(low)) + 4.0 * moved else 0.0
