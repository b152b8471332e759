"""How far a function is analytic around a point, and its Taylor series there."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import cache, lru_cache
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.essential import essential_places, is_essential
from meanfield.gaussian.power_sums import QUIET
from meanfield.gaussian.resolution import vectorised
from meanfield.gaussian.shape_rows import TERMS
from meanfield.gaussian.stable import side
from meanfield.symbols import known

__all__ = ["CENTRES", "NARROWEST", "analytic_radii", "analytic_radius", "reproduces", "start_of", "taylor"]

x = known("x")

_WIDEST, NARROWEST = 8.0, 1e-6
#: places around which a function is looked at
CENTRES = tuple(i / 2 for i in range(-16, 17))
#: a radius that is of no use around 0
_NARROW = 1e-3
#: share of the largest term on a circle below which smaller circles are asked for the first ones, and how much smaller they are
_FAINT, _CLOSER, _LEAST = 1e-15, 256.0, 1e-40
#: halvings of a distance at which a series is compared with what it is of, and the error, next to all its terms but the constant
_SCALES, _REPRODUCED = (0, 1, 2, 3, 5, 8, 12, 17, 23, 30), 1e-12
#: halvings of the logarithm of a radius, to its last digit, and to 1 % of it where each takes thousands of numbers of many digits
_HALVINGS, _FEW = 30, 11
#: points on a circle that tell a plain singularity inside, and what the first negative modes are beside the largest value then
_GLANCE, _PLAIN = 32, 1e-2


def _radii(f: Callable[[NDArray[Any]], NDArray[Any]], centres: tuple[float, ...], least: float, halvings: int) -> list[float]:
    """Of each centre the largest r below _WIDEST for which f is analytic in |z - centre| < r, all of them halved together; 0 where f is
    not so for the least r that is of use."""
    count = 256
    circle = np.exp(2j * np.pi * (np.arange(count) + 0.37) / count)
    both = np.concatenate((circle, circle[:: count // 8]))
    middle = np.array(centres)

    def analytic(r: NDArray[np.float64]) -> NDArray[np.bool_]:
        with np.errstate(all="ignore"):
            values = f(middle[:, None] + np.where(np.arange(len(both)) < count, r[:, None], NARROWEST / 2) * both)
            values, inner = values[:, :count], values[:, count:]
            modes = np.abs(np.fft.fft(values)) / count
            size, apart = np.abs(values).max(axis=1), np.abs(values.mean(axis=1) - inner.mean(axis=1))
            # what is narrow against r, as tanh(10^5 x)^2, shows nothing on the circle but is not its mean inside
            same = ~np.isfinite(inner).all(axis=1) | (apart <= 1e-2 * np.maximum(size, np.abs(inner).max(axis=1)))
            decayed = modes[:, count // 2 + count // 4 :].max(axis=1) <= 1e-9 * size
        return np.asarray(np.isfinite(values).all(axis=1) & same & decayed)  # what overflows may have any singularity inside

    low, high = np.full(len(centres), least), np.full(len(centres), _WIDEST)
    if least > NARROWEST and not analytic(low).any():
        return [0.0] * len(centres)
    whole = analytic(high)
    for _ in range(0 if whole.all() else halvings):
        between = np.sqrt(low * high)
        good = analytic(between)
        low, high = np.where(good, between, low), np.where(good, high, between)
    return np.where(whole, _WIDEST, low).tolist()  # type: ignore[no-any-return]


def analytic_radii(g: sp.Expr, centres: tuple[float, ...]) -> list[float]:
    """how far g is analytic around each centre, where g is taken in its stable form: rounding is no singularity"""
    if x not in g.free_symbols:
        return [_WIDEST for _ in centres]
    radii: dict[float, float] = {}
    for sign in (-1, 0, 1):
        here = tuple(c for c in centres if (c > 0) - (c < 0) == sign)
        if here:
            radii |= zip(here, _on_one_side(g, sign, here), strict=True)
    # poles that gather at a point on the line may all lie between those of a circle
    singular = [float(r) for r in essential_places(g)]
    return [min([radii[c], *(abs(c - r) for r in singular)]) for c in centres]


@lru_cache(maxsize=64)
def _on_one_side(g: sp.Expr, sign: int, centres: tuple[float, ...]) -> tuple[float, ...]:
    """the same around centres of one sign, essential singularities apart"""
    return tuple(_radii(vectorised(side(g, sign) if sign else g), centres, NARROWEST / 2, _HALVINGS))


def start_of(
    pieces: list[sp.Expr], kinks: tuple[float, ...], singular: Collection[float] = ()
) -> tuple[float, bool, tuple[float, ...], tuple[float, ...]]:
    """where the Taylor series on both sides of 0 hold, whether they are one, and their coefficients; a root next to 0 has none, though
    on small circles exp(|x|^(3/2)) looks analytic"""
    below = sum(k < 0 for k in kinks)
    left, right = pieces[below], pieces[below + (0.0 in kinks)]
    nothing = (0.0,) * TERMS
    radius = min([analytic_radius(piece) for piece in {left, right}] + [abs(k) for k in kinks if k != 0])
    if radius <= _NARROW or 0.0 in singular:
        return 0.0, False, nothing, nothing
    try:
        forward = taylor(right, min(radius / 2, 1.0), 2 * TERMS)
        backward = forward if left == right else taylor(left, min(radius / 2, 1.0), 2 * TERMS)
        found = reproduces(forward, right, radius, 1) and reproduces(backward, left, radius, -1)
    except (ValueError, ZeroDivisionError, TypeError):
        return 0.0, False, nothing, nothing
    if not found:
        return 0.0, False, nothing, nothing
    if not any(forward[1:]) and not any(backward[1:]):  # all that varies is beyond
        return 0.0, False, nothing, nothing
    radius = min([radius] + [_summed(c) / QUIET for c in (forward, backward)])
    first, second = (c[:TERMS] for c in (forward, backward))
    return radius, first == second, first, second


def reproduces(c: tuple[float, ...], piece: sp.Expr, radius: float, sign: int) -> bool:
    """Whether a Taylor series is what it was found for, on that side of the real line at every scale up to a fourth of where it converges:
    on circles in the complex plane singularities may lie between the points, or be taken for values."""
    f = sp.lambdify(x, piece, "mpmath")
    with mp.workdps(60):
        for k in _SCALES:
            z = mp.mpf(sign * min(radius, 1.0) / 4) * mp.mpf(2) ** -k
            terms = [a * z**n for n, a in enumerate(c)]
            varied = mp.fsum(map(abs, terms[1:]))
            if not abs(mp.re(mp.mpmathify(f(z))) - mp.fsum(terms)) <= _REPRODUCED * varied + 2e-16 * abs(terms[0]):
                return False
    return True


def _summed(c: tuple[float, ...]) -> float:
    """the deviation up to which the terms of a Taylor series that are not kept are rounding, next to its first term but the constant"""
    weights = [0.0 if a == 0.0 else math.log(abs(a)) for a in c]
    first = next((n for n, a in enumerate(c) if n > 0 and a != 0.0), len(c))
    left = [n for n in range(TERMS, len(c)) if c[n] != 0.0]
    if first >= TERMS or not left:
        return math.inf
    # E |z|^(n + first) beside E |z|^(2 first): what a term weighs in a product with the first one
    moments = {n: math.lgamma((n + first + 1) / 2) + 0.5 * (n + first) * math.log(2.0) for n in (first, *left)}
    room = -37.0 - math.log(len(left))
    return math.exp(min((room + moments[first] - moments[n] + weights[first] - weights[n]) / (n - first) for n in left))


@cache
def analytic_radius(piece: sp.Expr) -> float:
    """How far a piece is analytic around 0, 0 if not so far as is of use; where float64 finds nothing, terms may cancel: again in more
    digits"""
    radius = analytic_radii(piece, (0.0,))[0]
    if radius > _NARROW or x not in piece.free_symbols or is_essential(piece, 0.0):
        return radius
    f = sp.lambdify(x, piece, "mpmath")

    def precise(z: NDArray[Any]) -> NDArray[Any]:
        """scaled, so that only the ratio of values is seen"""
        with mp.workdps(45):
            try:
                values = [mp.mpmathify(f(mp.mpmathify(complex(t)))) for t in z.ravel()]
            except (ValueError, ZeroDivisionError, TypeError):
                return np.full(z.shape, np.nan)
            size = max(map(abs, values)) or mp.mpf(1)
            return np.array([complex(v / size) for v in values]).reshape(z.shape)

    return 0.0 if _plainly_singular(precise) else _radii(precise, (0.0,), _NARROW, _FEW)[0]


def _plainly_singular(f: Callable[[NDArray[Any]], NDArray[Any]]) -> bool:
    """whether a pole or a branch at 0 shows on few points of the least circle of use: of a series the modes that those of z^-1 ... z^-8
    stand for are z^24 and beyond"""
    values = f(_NARROW * np.exp(2j * np.pi * (np.arange(_GLANCE) + 0.37) / _GLANCE))
    if not np.isfinite(values).all():
        return True
    return bool(np.abs(np.fft.fft(values)[-8:]).max() > _PLAIN * _GLANCE * np.abs(values).max())


@cache
def _roots_of_one(count: int, bits: int) -> tuple[list[mp.mpc], list[tuple[int, int]]]:
    """all the roots of one, and their parts as whole numbers"""
    roots = [mp.expjpi(mp.mpf(2 * i) / count) for i in range(count)]
    return roots, [(int(mp.nint(mp.ldexp(root.real, bits))), int(mp.nint(mp.ldexp(root.imag, bits)))) for root in roots]


@cache
def taylor(piece: sp.Expr, r: float, terms: int = TERMS) -> tuple[float, ...]:
    """Taylor coefficients at 0 by Cauchy's integral on |z| = r, and on smaller circles as long as its first terms are faint beside the
    largest on the one before, as those of x + 10^40 x^9 are: each where it is largest; what is rounding on all of them is zero"""
    found = [(0.0, 0.0)] * terms
    faint = True
    while faint and r > _LEAST:
        circle, r = _on_circle(piece, r, terms)
        found = [max(pair, key=lambda c: c[1]) for pair in zip(found, circle, strict=True)]
        shares = [share for _, share in circle[1:]]
        faint = 0.0 < next((share for share in shares if share), 0.0) < _FAINT * max(shares)
        r /= _CLOSER
    return tuple(c for c, _ in found)


def _on_circle(piece: sp.Expr, r: float, terms: int) -> tuple[list[tuple[float, float]], float]:
    """the coefficients on |z| = r, of which half is enough of a real function, in 45 digits and sums of whole numbers; beside each the
    share of its term in the largest value, 0 where it is rounding; and the radius, a smaller one next to a singularity"""
    f = sp.lambdify(x, piece, "mpmath")
    count, bits = 128, 150
    with mp.workdps(45):
        roots, around = _roots_of_one(count, bits)
        values = [mp.mpmathify(f(r * root)) for root in roots[: count // 2 + 1]]
        size = max(abs(v) for v in values)
        if not size or not mp.isfinite(size):
            return [(float(size), 1.0)] * terms, r
        unit = mp.ldexp(1, bits)
        whole = [(int(mp.nint(mp.re(v) / size * unit)), int(mp.nint(mp.im(v) / size * unit))) for v in values]
        twice = [(a, b) if i in (0, count // 2) else (2 * a, 2 * b) for i, (a, b) in enumerate(whole)]

        def share(n: int) -> mp.mpf:
            turned = (around[i * n % count] for i in range(len(twice)))
            return mp.ldexp(sum(a * cos + b * sin for (a, b), (cos, sin) in zip(twice, turned, strict=True)), -2 * bits) / count

        if r > 1e-3 and max(abs(share(count // 2 - k)) for k in (1, 2, 3, 4)) > mp.mpf(10) ** -16:
            return _on_circle(piece, r / 2, terms)  # nearer to a singularity than was thought: c_n holds c_{n + count} r^count too
        out = []
        for n in range(terms):
            c = share(n)
            faint = abs(c) < mp.mpf(10) ** -30
            out.append((0.0, 0.0) if faint else (float(c * size / mp.mpf(r) ** n), float(abs(c))))
    return out, r
