r"""Chebyshev coefficients of Gaussian moments over a panel of variances, each with a bound on its error.

E g(u) g(v) is computed at all nodes of a panel together. With X = (u + v)/2 and Z = (u - v)/2, independent of variances
\sigma^2 = v (1 + c)/2 and s^2 = v (1 - c)/2,

    E g(u) g(v) = E_X h_s(X),   h_s(X) = E_Z g(X + Z) g(X - Z).

Of g that is analytic in a strip both are trapezoidal sums, see `smooth`, under wide Gaussians where it is constant far out too, see
`stepped`, or oscillates about a constant, see `waving`; with kinks they are sums over panels, see `piecewise`. The gap of f with f' = g
follows by Price's identity, a mean with positive weights, which cancels nothing:

    (E f(u)^2 - E f(u) f(v))/(v - p) = \int_0^1 2 t W(y t) dt,   W(y) = E g(u) g(v) at c = 1 - y^2.

Where f jumps W ~ 1/y, see `jumping`: y W is what is made, and what the jumps bring to the gap is tabulated over the root of v (v - p).
Under Gaussians wide against all that f does W is small far from c = 1, by the signs of g, and lost in rounding: there a gap is the
difference of its moments, which is none of large numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.gaussian.panels import legendre_rule
from meanfield.numeric.deviations import Impossible, Products, chebyshev, polynomials, transform, wide_transform
from meanfield.numeric.jumping import Jumping
from meanfield.numeric.lookup import FIRST, LOW, X_TERMS, Y_TERMS
from meanfield.numeric.piecewise import Pieces
from meanfield.numeric.smooth import Smooth
from meanfield.numeric.stepped import Stepped
from meanfield.numeric.waving import Waving

__all__ = ["Function", "apart_panel", "faint_panel", "far_panel", "gap_panel", "mean_panel", "pair_panel", "variances"]

Floats = NDArray[np.float64]
Wide = NDArray[np.longdouble]
Sums = NDArray[np.floating[Any]]
Real = Callable[[Floats], Floats]

#: relative error allowed to a panel, read off its last coefficients, and to a part of one that gaps are made of
TOLERANCE, FINER = 1e-13, 2e-14
#: how much more is allowed to a part from y/2 to y, which is cut no further, than to one from 0 to y, which may be
UNCUT = TOLERANCE / FINER
#: most cuts of a panel in y
CUTS = 28
FALL = 3.0 + math.sqrt(8.0)  # of coefficients of functions that are analytic in |x| < 3
ROUNDING = 4e-15
#: how far from 0 inputs may be against what g is wide, for one sum in y from there to 0 to be tried
STEEP = 500.0
#: of a second moment, what a product is at most where their difference keeps its digits
APART = 0.75
#: of the largest y W of the same variance, what is left at 0 in the last part
LEAST = 0.05
#: of the largest value, last coefficients in y that are not given up at sight
MODEST = 1e-12

#: of the smallest variances, roots at which moments are made: over a power of \sqrt v these are series in it, at most 1e-6 here
NEAR_TERMS = 4
#: power of the variance by which a moment rises over a panel that is left in it, at most
RISING = 1.5
#: where in y that is looked at
_HALF, _CLOSE = np.array([0.5]), np.array([2.0**-8])
#: what panels are made of
Function = Smooth | Stepped | Waving | Pieces | Jumping
#: intervals of y, and values at nodes of it
Parts = tuple[tuple[tuple[float, float], Floats], ...]


def mean_panel(moment: Real, k: int) -> tuple[Floats, float]:
    """The power of v, or of its root below the panels, that E f(u) is over, and the coefficients of what is left, over the panel about
    4^k; and their relative error."""
    values = moment(variances(k))
    if not np.isfinite(values).all():
        raise Impossible("the moment is no double")
    factor = _factor(k)
    power = _power(values, factor, k)
    left = values / factor**power
    coefficients = _doubles(wide_transform(X_TERMS) @ left)
    return np.append(power, coefficients), _error(coefficients, _least(left))


def far_panel(moment: Real, power: int, left: float, right: float, first: float) -> tuple[Floats, float]:
    """The same of E f(u) (first/v)^{power/2} as a function of \\sqrt{first/v}, for all variances from there on, of what tends to a power
    times these on either side."""
    root = 0.5 * (1.0 + chebyshev(X_TERMS))
    values = moment(first / root**2) * root**power
    coefficients = _doubles(wide_transform(X_TERMS) @ values)
    size = first ** (0.5 * power) * (math.sqrt(2.0 / math.pi) if power == 1 else 1.0)
    end = float(coefficients[::2].sum() - coefficients[1::2].sum())
    if not abs(end - 0.5 * (left + right) * size) <= TOLERANCE * (abs(left) + abs(right)) * size:
        raise Impossible("far out it is not that power yet")
    return coefficients, _error(coefficients, _least(values), FINER)


def pair_panel(g: Function, k: int, tolerance: float = FINER) -> tuple[Floats, float]:
    """That power for E g(u) g(v), how many parts y is cut into, to resolve it to that tolerance, and the coefficients in each, over the
    panel about 4^k; and their relative error."""
    power, cut = _parts(g, k, tolerance)
    parts = [values for _, values in cut]
    return _packed(power, parts, [max(_foreseen(g, k, power), *map(_most, parts))] * len(parts))


def faint_panel(g: Function, square: Function, largest: float, k: int) -> tuple[Floats, float]:
    """The same where E g(u) g(v) is small by the signs of g, to a tolerance of E |g(u) g(v)|, of which E g(u)^2 g(v)^2 over the largest
    |g|^2 is a part."""
    power, products = _products(g, k)
    over = largest**-2.0 * variances(k)[:, None] ** -float(power)
    squares = square.products(variances(k))

    def sizes(y: Floats) -> Floats:
        return np.asarray(over * squares(y))

    parts = _cut(products, g, k, FINER, sizes=sizes)
    scale = max(max(_most(values), float(sizes(_between(*ends)).min())) for ends, values in parts)
    return _packed(power, [values for _, values in parts], [scale] * len(parts))


def gap_panel(g: Function, k: int, tolerance: float = FINER) -> tuple[Floats, float]:
    """The same of the gap over v - p, for f with f' = g; what jumps alone bring, over the root of v (v - p)."""
    power, found, above = _gaps_within(g, k, tolerance)
    if not g.mirrored:
        return _packed(power, found, [*map(_least, found)])
    m, found = _missing(g), []  # at c = 0, and from there on
    other, parts = _parts(g, k, tolerance)
    for (low, high), beside in parts:
        y, values = _between(low, high), beside * (_factor(k) ** (other - power))[:, None]  # over the power of the side c > 0
        integrals = (high - low) * ((2.0 * y**m * values) @ _integrals().T)
        above = above + integrals[:, -1]
        found.append((above[:, None] - integrals[:, :-1]) / (2.0 - y**2))
    return _packed(power, found, [*map(_least, found)])


def apart_panel(f: Function, squares: Real, g: Function, k: int) -> tuple[Floats, float]:
    """The same for f, whose square has those means, as the difference that a gap is where E f(u) f(v) has become less than E f(u)^2, which
    loses nothing; nearer to c = 1 by means of f' = g, which far from there may be as small as their rounding."""
    v = variances(k)
    second, cross = squares(v)[:, None], _made(f, k)

    def gaps(y: Floats, some: slice = slice(None)) -> Floats:
        return np.asarray((second[some] - cross(y, some)) / np.outer(v[some], 2.0 - y**2 if f.mirrored else y**2))

    def is_apart(y: Floats) -> bool:
        return bool((cross(y) <= APART * second).all())

    if f.mirrored:
        if not is_apart(_between(0.0, 1.0)):
            raise Impossible("u and -v are not apart")
        found = [values for _, values in _cut(gaps, f, k, FINER)]
    else:
        high, found = 1.0, []
        while high > 2.0**-CUTS and is_apart(np.array([0.5 * high])):
            found.append(gaps(_between(0.5 * high, high)))
            high *= 0.5
        if high == 1.0:
            raise Impossible("u and v are nowhere apart")
        power, near, _ = _gaps_within(g, k, FINER, high)
        found += [values * (v ** float(power))[:, None] for values in near]
    return _packed(0, found, [*map(_least, found)], TOLERANCE / (1.0 - APART))


def _gaps_within(g: Function, k: int, tolerance: float, high: float = 1.0) -> tuple[int, list[Sums], Sums]:
    """the power of a gap over v - p at c > 0, its values in each part from that y down, and the integral up to there"""
    m, found = _missing(g), []
    power, parts = _parts(replace(g, mirrored=False), k, tolerance, high)
    below = np.zeros(X_TERMS)
    for (low, up), values in reversed(parts):
        y = _between(low, up)
        if low == 0.0:
            found.append(values @ _averages(m).T)
        else:
            integrals = (up - low) * ((2.0 * y**m * values) @ _integrals().T)
            found.append((below[:, None] + integrals[:, :-1]) / y ** (m + 1))
        below = below + (up - low) * ((2.0 * y**m * values) @ _integrals()[-1])
    return power, found[::-1], below


def _missing(g: Function) -> int:
    """the power of y that W is without"""
    return 0 if isinstance(g, Jumping) else 1


def variances(k: int) -> Floats:
    """The nodes of the panel about 4^k, or of the first one, of all variances below the others."""
    x = chebyshev(X_TERMS)
    if k == FIRST:
        return np.asarray(LOW * (0.5 * (1.0 + x)) ** 2)
    return np.asarray(4.0**k * (3.0 + x) / (3.0 - x))


def _power(values: Floats, factor: Floats, k: int) -> int:
    """the power of a factor, the largest of which is the first, that values are nearest to; 0 where they hardly rise"""
    if not 0.0 < values[-1] / values[0] < math.inf:
        return 0
    rise = math.log(values[0] / values[-1]) / math.log(factor[0] / factor[-1])
    return round(rise) if rise > (RISING / 2 if k == FIRST else RISING) else 0


def _factor(k: int) -> Floats:
    """what powers are of"""
    return np.sqrt(variances(k)) if k == FIRST else variances(k)


def _packed(power: int, parts: list[Floats] | list[Sums], scales: list[float], tolerance: float = TOLERANCE) -> tuple[Floats, float]:
    """one after another, from y = 1 down"""
    coefficients = [_coefficients(values) for values in parts]
    error = max(_error(c, scale, tolerance) for c, scale in zip(coefficients, scales, strict=True))
    return np.concatenate([[float(power), float(len(parts))], *(c.ravel() for c in coefficients)]), error


@lru_cache(maxsize=16)
def _parts(g: Function, k: int, tolerance: float, high: float = 1.0) -> tuple[int, Parts]:
    """The power of v that W is over, intervals of y from there down to 0 in each of which what is left is resolved over the panel about
    4^k, and its values there: those of a derivative serve its own table and that of gaps"""
    power, products = _products(g, k) if k > FIRST else _near_products(g)
    return power, _cut(products, g, k, tolerance, high, _foreseen(g, k, power))


def _cut(
    products: Products,
    g: Function,
    k: int,
    tolerance: float,
    high: float = 1.0,
    foreseen: float = 0.0,
    sizes: Callable[[Floats], Floats] | None = None,
) -> Parts:
    """The intervals, in which errors count against what has been largest, or is foreseen, or these sizes."""
    parts: list[tuple[tuple[float, float], Floats]] = []
    largest, narrow = foreseen, STEEP * g.d / math.sqrt(variances(k).min())
    for _ in range(CUTS):
        for low in (0.0, 0.5 * high) if high <= narrow else (0.5 * high,):
            y = _between(low, high)
            if low == 0.0 and not _may_be_resolved(products(y, slice(1)), largest):
                continue
            values = products(y)
            scale = max(largest, _most(values), 0.0 if sizes is None else float(sizes(y).min()))
            if isinstance(g, Jumping) and not g.mirrored:  # y W may fall far towards 0, and a gap keeps its digits there
                if low == 0.0 and (values.min(axis=1) < LEAST * values.max(axis=1)).any():
                    continue
                scale = max(foreseen, _most(values))
            try:
                _error(_coefficients(values), scale, tolerance if low == 0.0 else UNCUT * tolerance, uncut=low > 0.0)
            except Impossible:
                continue
            parts.append(((low, high), values))
            largest = scale
            break
        else:
            raise Impossible("the correlation is not resolved")
        if low == 0.0:
            return tuple(parts)
        high = low
    raise Impossible("the correlation takes too many parts")


@lru_cache(maxsize=16)
def _foreseen(g: Function, k: int, power: int) -> float:
    """Of a function that is 0 about 0, whose moments fall fast as y rises, what errors on the way down count against: no more than a gap,
    and than a second moment."""
    if not _is_void(g, k):
        return 0.0
    y = 2.0 ** -np.arange(0.5, CUTS)
    found = np.abs(_made(replace(g, mirrored=False), k)(y)) * y ** (1.0 if isinstance(g, Jumping) else 2.0)
    return float((found.max(axis=1) / variances(k) ** power).min())


def _is_void(g: Function, k: int) -> bool:
    """whether a function is 0 as far as its variances, or some of them, reach"""
    pieces = g.slope if isinstance(g, Jumping) else g
    return isinstance(pieces, Pieces) and pieces.is_void(variances(k))


@lru_cache(maxsize=4)
def _made(g: Function, k: int) -> Products:
    """what maps y to E g(u) g(v) over the panel about 4^k"""
    return g.products(variances(k))


def _products(g: Function, k: int) -> tuple[int, Products]:
    """the power of v that E g(u) g(v) is nearest to over a panel, and what maps y to it over that"""
    found, v = _made(g, k), variances(k)
    near = _made(replace(g, mirrored=False), k)(_CLOSE) if _is_void(g, k) else found(_HALF)
    power = _power(near[:, 0], v, k)
    over = (v ** -float(power))[:, None]

    def products(y: Floats, some: slice = slice(None)) -> Floats:
        return np.asarray(found(y, some) * over[some])

    return power, products


def _near_products(g: Function) -> tuple[int, Products]:
    r"""The same at the smallest variances, each in its own panel: polynomials of little degree in \sqrt v."""
    roots, middle = math.sqrt(LOW) * 0.5 * (1.0 + chebyshev(NEAR_TERMS)), X_TERMS // 2
    own = [g.products(v * (variances(0) / variances(0)[middle])) for v in roots**2]
    between = polynomials(chebyshev(X_TERMS), NEAR_TERMS) @ wide_transform(NEAR_TERMS)

    def found(y: Floats) -> Floats:
        return np.stack([product(y, slice(middle, middle + 1))[0] for product in own])

    power = _power(found(_HALF)[:, 0], roots, FIRST)

    def products(y: Floats, some: slice = slice(None)) -> Floats:
        return _doubles(between[some] @ (found(y) / roots[:, None] ** power).astype(np.longdouble))

    return power, products


def _may_be_resolved(values: Floats, largest: float) -> bool:
    """whether the coefficients in y at the largest variance, sums of those of the panel, leave room for these to be small"""
    last = float(np.abs(values @ transform(Y_TERMS).T)[:, -2:].max())
    return last <= X_TERMS * MODEST * max(largest, _most(values))


def _most(values: Sums) -> float:
    """what an error of a product is relative to: the second moment is larger"""
    return float(np.abs(values).max())


def _least(values: Sums) -> float:
    """what an error is relative to where a moment keeps its sign: the smallest value"""
    return float(np.abs(values).min()) if (values > 0.0).all() or (values < 0.0).all() else _most(values)


def _error(coefficients: Floats, scale: float, tolerance: float = TOLERANCE, uncut: bool = False) -> float:
    """A bound on what was left out relative to the scale. From one coefficient to the next they fall by FALL in the variance, and in y
    by r, as the last two and the two before them show, 2 or more: all that follow are the last over r - 1. No r but 2 is counted on where
    the part can be cut further."""
    size = np.abs(coefficients)
    left_out = max(float(size[-1].max()), float(size[-2].max()) / FALL) / (FALL - 1.0)
    if size.ndim == 2:
        last, before = float(size[:, -2:].max()), float(size[:, -4:-2].max())
        if last > ROUNDING * max(scale, size.max()):
            r = math.sqrt(before / last)
            last = (last / (r - 1.0) if uncut else last) if r >= 2.0 else math.inf
        left_out += last
    error = left_out / scale if scale > 0.0 else (0.0 if left_out == 0.0 else math.inf)
    if not error <= tolerance:
        raise Impossible(f"what the last coefficients leave out may be {error:.1e} of the moment")
    return error


def _between(low: float, high: float) -> Floats:
    return low + 0.5 * (high - low) * (1.0 + chebyshev(Y_TERMS))


def _coefficients(values: Sums) -> Floats:
    return _doubles(wide_transform(X_TERMS) @ values @ wide_transform(Y_TERMS).T)


def _doubles(values: Wide) -> Floats:
    return values.astype(np.float64)


@lru_cache(maxsize=2)
def _averages(m: int) -> Wide:
    r"""from values at the nodes y of [0, high] to \int_0^1 2 t^m W(y t) dt at the nodes"""
    t, w = _legendre()
    rows = [(2.0 * t**m * w) @ polynomials((1.0 + a) * t - 1.0, Y_TERMS) for a in chebyshev(Y_TERMS)]
    return np.asarray(np.array(rows) @ wide_transform(Y_TERMS))


@lru_cache(maxsize=1)
def _integrals() -> Wide:
    """from values at the nodes of an interval of length 1 to integrals from its start to each node and, last, to its end"""
    t, w = _legendre()
    rows = [0.5 * (1.0 + a) * (w @ polynomials((1.0 + a) * t - 1.0, Y_TERMS)) for a in (*chebyshev(Y_TERMS), 1.0)]
    return np.asarray(np.array(rows) @ wide_transform(Y_TERMS))


def _legendre() -> tuple[Wide, Wide]:
    """nodes and weights on an interval of length 1"""
    t, w = (a.astype(np.longdouble) for a in legendre_rule(Y_TERMS))
    return (1 + t) / 2, w / 2
