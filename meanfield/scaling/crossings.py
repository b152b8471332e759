"""Where functions of one variable cross zero, a whole grid of them at once: sampled for a change of sign, then closed in on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Crossing", "first_crossing"]

Floats = NDArray[np.float64]
#: an array whose last axes are the grid -> values of that shape
Function = Callable[[Floats], Floats]

#: most steps of the iteration, which takes about ten
STEPS = 80
#: relative width at which a bracket counts as closed
CLOSED = 4e-15


@dataclass(frozen=True)
class Crossing:
    """Per grid point: the place and the value there, the bracket, the number of sign changes, and the sign to the left of the first.

    Where the value is exactly 0, the bracket is the place itself. Where no sign changes, the place is the sample that comes closest to 0,
    the bracket is all that was searched and `first_sign` the sign throughout; they are NaN if nothing could be evaluated.
    """

    at: Floats
    value: Floats
    low: Floats
    high: Floats
    count: NDArray[np.int64]
    first_sign: Floats


def first_crossing(f: Function, low: float, high: float, grid: tuple[int, ...], points: int) -> Crossing:
    """The first change of sign of f between low and high; sampled geometrically where low is positive."""
    spaced = np.geomspace(low, high, points) if low > 0 else np.linspace(low, high, points)
    places = spaced.reshape(-1, *(1,) * len(grid))
    samples = np.broadcast_to(f(places), (points, *grid))
    signs = np.sign(samples)
    # a zero belongs to the interval on its right
    change = (signs[:-1] * signs[1:] < 0) | ((signs[:-1] == 0) & np.isfinite(samples[1:]))
    at_end = signs[-1] == 0
    count = change.sum(axis=0) + at_end
    index = np.where(change.any(axis=0), change.argmax(axis=0), points - 2)
    a, b = spaced[index], spaced[index + 1]
    fa = np.take_along_axis(samples, index[None], axis=0)[0]
    fb = np.take_along_axis(samples, index[None] + 1, axis=0)[0]
    there = count > 0
    at, value, left, right = _closed_in(f, a, b, fa, fb, there)
    known = np.isfinite(samples)
    first = np.take_along_axis(signs, known.argmax(axis=0)[None], axis=0)[0]
    nearest = np.where(known, np.abs(samples), np.inf).argmin(axis=0)
    best = np.take_along_axis(samples, nearest[None], axis=0)[0]
    blank = np.where(known.any(axis=0), 1.0, np.nan)
    return Crossing(
        np.where(there, at, spaced[nearest] * blank),
        np.where(there, value, best * blank),
        np.where(there, left, low * blank),
        np.where(there, right, high * blank),
        count,
        first,
    )


def _closed_in(
    f: Function, a: Floats, b: Floats, fa: Floats, fb: Floats, wanted: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Chandrupatla's iteration (1997): inverse quadratic interpolation where it is safe, bisection where not"""
    c, fc = a.copy(), fa.copy()
    t = np.full(a.shape, 0.5)
    for _ in range(STEPS):
        best = np.where(np.abs(fa) < np.abs(fb), a, b)
        least = np.where(np.abs(fa) < np.abs(fb), fa, fb)
        width = np.abs(b - a)
        smallest = CLOSED * np.abs(best) / np.where(width > 0, width, 1.0)
        done = (least == 0) | (smallest >= 0.5) | ~wanted
        if done.all():
            break
        t = np.clip(t, smallest, 1 - smallest)
        x = np.where(done, best, a + t * (b - a))
        fx = np.where(done, least, f(x))
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(done, c, np.where(same, a, b)), np.where(done, fc, np.where(same, fa, fb))
        b, fb = np.where(done | same, b, a), np.where(done | same, fb, fa)
        a, fa = np.where(done, a, x), np.where(done, fa, fx)
        with np.errstate(all="ignore"):
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            step = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        t = np.where(safe & np.isfinite(step), step, 0.5)
    hit = least == 0
    return best, least, np.where(hit, best, np.minimum(a, b)), np.where(hit, best, np.maximum(a, b))
