r"""What the quadrature needs to know of an arbitrary real function: its kinks and jumps, where it varies fast, how it starts and grows.

A smooth function with a wide strip of analyticity takes the trapezoidal rule; the half-width is found by the mean-value test: on a
circle |z - c| = r the negative Fourier modes of f vanish exactly when f is analytic inside. For every function the real line is cut
into panels on which 20 nodes resolve it, judged by its Chebyshev coefficients (Battles & Trefethen 2004, SIAM J. Sci. Comput. 25).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.analyticity import CENTRES, NARROWEST, analytic_radii, start_of
from meanfield.gaussian.domains import unreal_at
from meanfield.gaussian.essential import essential_places, is_essential
from meanfield.gaussian.growth import beside, places, unbounded_at
from meanfield.gaussian.kinks import FEW, branches, jump_between, kinks_of, midpoints
from meanfield.gaussian.landmarks import features
from meanfield.gaussian.mending import mended_function
from meanfield.gaussian.parities import parity_of
from meanfield.gaussian.periods import period, wave
from meanfield.gaussian.resolution import REACH, Real, graded_ends, panel_ends, rounding_shows
from meanfield.gaussian.shape_rows import REPEATS
from meanfield.gaussian.slopes import slope
from meanfield.gaussian.smoothness import branch, without_deltas
from meanfield.gaussian.steepening import growth_at
from meanfield.gaussian.trapezoids import as_good_as_panels
from meanfield.symbols import known

__all__ = ["Shape", "poles", "regular", "shape_of", "size_near", "steepens"]

x = known("x")

Floats = NDArray[np.float64]

_SLANTED = 1.5  # detail for poles that go to infinity at less than 45 degrees, as those of tanh(x + x^3): sinh t does not part them
_FAR = 20.0  # how far beyond its kinks a function must be known
_LARGE = 1e290  # what is larger next to the last panel overflows beyond it
_FAST = 1e4  # how much larger than within a distance of 1 of 0 what grows is further out
_NARROW = 0.05  # what a function does within so much of a point could lie between the points at which a panel looks at it


@dataclass(frozen=True)
class Shape:
    """A parameter-free function as the quadrature sees it.

    smooth: the trapezoidal rule applies; d: half-width of its strip, else the length of the shortest panel; growth, steepening: |f| is at
    most about e^{growth |x| + steepening x^2}; parity: 1 even, -1 odd, 0 neither; voids: where f is 0, as pieces of it are; breaks, sharp,
    jumps: ends of panels, which of them are kinks (1) and singularities (2), and heights of jumps there; radius, right, left: one-sided
    Taylor series about 0 and where they converge; analytic: whether the two are one.
    """

    smooth: bool
    d: float
    growth: float
    parity: int
    voids: tuple[tuple[float, float], ...]
    breaks: tuple[float, ...]
    sharp: tuple[int, ...]
    jumps: tuple[float, ...]
    radius: float
    analytic: bool
    right: tuple[float, ...]
    left: tuple[float, ...]
    noisy: bool = False  # terms of f cancel on a panel near 0, so that it is known to few digits there
    period: float = 0.0  # 0 where f has none
    detail: float = 1.0  # how many more nodes than the strip alone asks for
    mean: float = 0.0  # of the inputs, where f is written about another point than their mean
    steepening: float = 0.0  # 0 for what grows no faster than an exponential
    cell: tuple[float, float] = (-np.inf, np.inf)  # what is counted: the rest is, about other points

    @property
    def kinks(self) -> tuple[float, ...]:
        return tuple(b for b, sharp in zip(self.breaks, self.sharp, strict=True) if sharp)

    def about(self, mean: float, low: float, high: float) -> Shape:
        """That of f on the inputs of a mean, from low to high."""
        ends = [(b, 0, 0.0) for b in (low, high) if np.isfinite(b) and b not in self.breaks]
        every = sorted([*zip(self.breaks, self.sharp, self.jumps, strict=True), *ends])
        breaks, sharp, jumps = zip(*every, strict=True)
        panels = replace(self, breaks=breaks, sharp=sharp, jumps=jumps, smooth=False)
        return replace(panels, parity=0, radius=0.0, analytic=False, mean=mean, cell=(low, high))

    def row(self, detail: float = 1.0) -> Floats:
        """The numbers that `quadrature` reads; `detail` > 1 asks for more nodes."""
        head = (self.detail if self.smooth else 0.0, self.d, self.growth, self.steepening, detail * self.detail, self.parity)
        return np.array(
            [
                *head,
                self.radius,
                self.analytic,
                len(self.voids),
                self.period,
                self.mean,
                *self.cell,
                len(self.breaks),
                *self.breaks,
                *self.sharp,
                *self.jumps,
                *self.right,
                *self.left,
                *itertools.chain(*self.voids),
            ],
            dtype=np.float64,
        )


@cache
def regular(f: sp.Expr) -> sp.Expr:
    """The derivative of f away from its jumps."""
    return without_deltas(slope(f))


@cache
def poles(g: sp.Expr) -> tuple[float, ...]:
    """Where a function without parameters is infinite, not only a quotient of zeros."""
    if g.free_symbols != {x}:
        return ()
    near = {float(r): beside(g, r + sp.Rational(1, 10**12)) for r in places(g)}
    return tuple(r for r, value in near.items() if abs(sp.N(value, 30)) > 1e8)


def shape_of(g: sp.Expr, with_poles: bool = False) -> Shape:
    """The shape of a parameter-free function, without poles or only to be read beside them; ValueError where no rule can be trusted."""
    found = _found(g, with_poles)
    if isinstance(found, str):
        raise ValueError(found)
    return found


@cache
def _found(g: sp.Expr, with_poles: bool) -> Shape | str:
    """its shape, or why there is none: that takes as long to find, and may be asked for again"""
    try:
        return _sought(g, with_poles)
    except ValueError as why:
        return str(why)


def steepens(g: sp.Expr, with_poles: bool = False) -> bool:
    """Whether a parameter-free function grows faster than exponentials, without the rest of its shape, which it need not have."""
    if period(g) is not None:
        return False
    try:
        return _cut(g, with_poles).growth[1] > 0.0
    except ValueError:
        shape_of(g, with_poles)  # which says first what else is wrong with it
        raise


@dataclass(frozen=True)
class _Cut:
    """A function on either side of where it is cut: at kinks and poles as they are written, and around what is narrow."""

    g: sp.Expr
    written: tuple[float, ...]
    cuts: tuple[float, ...]
    pieces: tuple[sp.Expr, ...]
    functions: tuple[Real, ...]

    @cached_property
    def growth(self) -> tuple[float, float]:
        """Growth and steepening, at the end where each is larger."""
        left, right = growth_at(self.g, self.functions[0], -1.0), growth_at(self.g, self.functions[-1], 1.0)
        return max(left[0], right[0]), max(left[1], right[1])


@lru_cache(maxsize=64)
def _cut(g: sp.Expr, with_poles: bool) -> _Cut:
    written = tuple(sorted({*kinks_of(g), *(poles(g) if with_poles else ())}))
    # at those that are no kinks g may still have a value of its own: panels end there
    cuts = tuple(sorted({*written, *_narrow(g, written)}))
    pieces = tuple(branches(g, list(midpoints(cuts))))
    return _Cut(g, written, cuts, pieces, tuple(map(_within, pieces)))


def _sought(g: sp.Expr, with_poles: bool) -> Shape:
    whole = period(g)
    if whole is not None:
        return _repeated(g, float(whole))
    at = None if with_poles else unbounded_at(g)
    if at is not None:
        raise ValueError(f"E[{g}] diverges: {g} is not integrable next to x = {at if at.is_Rational else sp.N(at, 6)}")
    cut = _cut(g, with_poles)
    written, cuts, pieces, functions = cut.written, cut.cuts, list(cut.pieces), list(cut.functions)
    ends = (-np.inf, *cuts, np.inf)
    endless = len(written) > FEW
    found, size = _sized_panels(pieces, functions, ends)
    breaks = sorted({*found.coarse, *found.graded})
    if endless:
        breaks = [b for b in breaks if written[0] <= b <= written[-1]]
    noisy = rounding_shows(functions, cuts, breaks, found.graded | found.singular, size)
    sharp = found.singular | {k for i, k in enumerate(cuts) if any(is_essential(piece, k) for piece in pieces[i : i + 2])}
    real = [i for i in range(len(cuts)) if pieces[i] != pieces[i + 1] or cuts[i] in sharp]
    kinks, pieces = tuple(cuts[i] for i in real), [pieces[0], *(pieces[i + 1] for i in real)]
    known = _is_known(functions, breaks, 0.0 if endless else max(map(abs, kinks), default=0.0))
    if not known and wave(g) is None:
        place = unreal_at(g)
        if place is not None:
            raise ValueError(f"E[{g}]: {g} is not real at x = {place}: an expectation takes functions that are real on the whole real line")
        raise ValueError(
            f"E[{g}] has no closed form and cannot be resolved by quadrature in float64 at any variance: it oscillates or varies too fast. "
            "mf.evaluate with digits= may have it where the variance is small"
        )
    jumps = {k: jump_between(left, right, k) for k, (left, right) in zip(kinks, itertools.pairwise(pieces), strict=True)}
    growth, steepening = cut.growth
    shape = Shape(
        False,
        float(np.diff(found.coarse).min()) / 2,
        growth,
        parity_of(g),
        tuple(_voids(pieces, (-np.inf, *kinks, np.inf))),
        tuple(breaks),
        tuple((b in kinks) + (b in kinks and b in found.singular) for b in breaks),
        tuple(jumps.get(b, 0.0) for b in breaks),
        *start_of(pieces, kinks, found.singular),
        noisy,
        steepening=steepening,
    )
    return shape if written or steepening else _smooth_or(shape, g, functions[0])


def _within(piece: sp.Expr) -> Real:
    """a piece between its cuts, without a value at those where a function of what is infinite has one from either side"""
    f, places = mended_function(piece), np.array([float(r) for r in essential_places(piece)])
    return f if not places.size else lambda v: np.where(np.isin(v, places), np.nan, f(v))


@dataclass(frozen=True)
class _Panels:
    """Ends of panels; those that are next to a point at which f is singular; and these points."""

    coarse: list[float]
    graded: set[float]
    singular: set[float]


def _sized_panels(pieces: list[sp.Expr], functions: list[Real], ends: tuple[float, ...]) -> tuple[_Panels, float]:
    """the panels and what sizes are compared to: that of f, or where f is what its terms leave, so that no panel resolves more than the
    rounding of these, theirs"""
    around = list(itertools.pairwise(ends))
    size = max(itertools.starmap(size_near, zip(functions, *zip(*around, strict=True), strict=True)))
    found = _panels(functions, ends, size)
    if _is_known(functions, found.coarse, max(map(abs, ends[1:-1]), default=0.0)):
        return found, size
    terms = [(mended_function(t), *between) for piece, between in zip(pieces, around, strict=True) for t in sp.Add.make_args(piece)]
    size = max(size, *itertools.starmap(size_near, terms))
    return _panels(functions, ends, size), size


def _is_known(functions: list[Real], breaks: list[float], kinks: float) -> bool:
    """whether panels go far beyond the kinks, or as far as f is a double"""
    for f, end in ((functions[0], breaks[0]), (functions[-1], breaks[-1])):
        with np.errstate(all="ignore"):
            before, after = np.abs(f(end * np.array([1.0 - 1e-4, 1.0 + 1e-4])))
        if not (abs(end) >= _FAR + kinks or (before > _LARGE and not after <= 1.0 / _LARGE)):
            return False
    return True


def _panels(functions: list[Real], ends: tuple[float, ...], size: float) -> _Panels:
    breaks: set[float] = set()
    graded: set[float] = set()
    singular: set[float] = set()
    for f, (low, high) in zip(functions, itertools.pairwise(ends), strict=True):
        rising, falling = graded_ends(f, low, high), graded_ends(f, high, low)
        singular |= {end for end, grades in ((low, rising), (high, falling)) if grades}
        graded |= {*rising[:-1], *falling[:-1]}
        low, high = (rising or [low])[-1], (falling or [high])[-1]
        breaks |= {*panel_ends(f, size, low, high)}
    return _Panels(sorted(breaks | singular), graded, singular)


def _repeated(g: sp.Expr, length: float) -> Shape:
    """the shape of a function with a period, from one of them"""
    one = [k for k in kinks_of(g) if 0.0 <= k < length] or [0.0]
    cuts = (*one, one[0] + length)
    pieces = [branch(g, m) for m in midpoints((one[-1] - length, *cuts))][1:-1]
    functions = [mended_function(piece) for piece in pieces[1:]]
    size = max(size_near(f, *around) for f, around in zip(functions, itertools.pairwise(cuts), strict=True))
    found = _panels(functions, cuts, size)
    if not {*cuts[1:]} <= {*found.coarse}:
        raise ValueError(f"E[{g}] has no closed form and cannot be resolved by quadrature: it varies too fast within a period")
    singular = {one[0] if b == cuts[-1] else b for b in found.singular}
    jumps = {b: jump_between(*sides, b) for b, sides in zip(one, itertools.pairwise(pieces), strict=True) if sides[0] != sides[1]}
    sharp = {b: 2 if b in singular else 1 for b in {*jumps, *singular}}
    breaks = sorted({*found.coarse, *found.graded} - {cuts[-1]})
    turns = range(-REPEATS, REPEATS)
    around = tuple(sorted(b + n * length for b in sharp for n in (-1, 0, 1)))
    return Shape(
        False,
        float(np.diff(found.coarse).min()) / 2,
        0.0,
        parity_of(g),
        (),
        (*(b + n * length for n in turns for b in breaks), one[0] + REPEATS * length),
        (*(sharp.get(b, 0) for _ in turns for b in breaks), 0),
        (*(jumps.get(b, 0.0) for _ in turns for b in breaks), 0.0),
        *start_of([branch(g, m) for m in midpoints(around)], around, singular),
        rounding_shows(functions, cuts[1:-1], [*breaks, cuts[-1]], found.graded | found.singular, size),
        length,
    )


def _narrow(g: sp.Expr, kinks: tuple[float, ...]) -> set[float]:
    """points around what is too narrow for a panel to see that does not end there, kinks apart"""
    if g.free_symbols != {x}:
        return set()
    points = {float(c + k * width) for c, width in features(g) if width < _NARROW for k in (-30, -8, -2, 0, 2, 8, 30)}
    return {c for c in points if all(abs(c - k) > 1e-9 * max(1.0, abs(k)) for k in kinks)}


def _smooth_or(shape: Shape, g: sp.Expr, f: Real) -> Shape:
    """the shape for the trapezoidal rule, where that agrees with the panels from narrow to wide Gaussians"""
    if shape.breaks[-1] < REACH or -shape.breaks[0] < REACH or any(shape.sharp):
        return shape
    radii = analytic_radii(g, CENTRES)
    for detail, d in itertools.product((1.0, _SLANTED), (min(radii), radii[CENTRES.index(0.0)])):
        candidate = replace(shape, smooth=True, d=d, detail=detail)
        if d > NARROWEST and as_good_as_panels(f, np.array(shape.breaks), shape.growth, candidate.row(), d):
            return candidate
    return shape


_SIZED = np.concatenate([sign * np.concatenate((np.geomspace(1e-9, 0.1, 40), np.linspace(0.127, 8.0, 32))) for sign in (-1.0, 1.0)])


def size_near(f: Real, low: float = -np.inf, high: float = np.inf) -> float:
    """the largest of values between two ends next to 0, or next to either, on every scale; of what grows fast, next to 0 only: it may be
    asked for at a variance that sees no more"""
    beside = np.abs(_SIZED[np.abs(_SIZED) < _NARROW])
    points = np.concatenate([_SIZED, *([low + beside] if low > -np.inf else []), *([high - beside] if high < np.inf else [])])
    points = points[(low < points) & (points < high)]
    values = np.abs(f(points))
    if not np.isfinite(values).any():
        return 0.0
    largest, inner = float(np.nanmax(values)), values[np.abs(points) <= 1.0]
    near = float(np.nanmax(inner)) if np.isfinite(inner).any() else 0.0
    return near if near > 0.0 and largest > _FAST * near else largest


def _voids(pieces: list[sp.Expr], cuts: tuple[float, ...]) -> Iterator[tuple[float, float]]:
    """the intervals on which f is 0, those that meet at a cut as one"""
    for zero, run in itertools.groupby(zip(pieces, itertools.pairwise(cuts), strict=True), key=lambda part: part[0] == 0):
        ends = [ends for _, ends in run]
        if zero:
            yield ends[0][0], ends[-1][1]
