r"""The panels of a table: coefficients of the Gaussian moments of one integrand, made in the first way that holds what it should."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.mending import mended_function
from meanfield.gaussian.power_sums import QUIET, series_mean
from meanfield.gaussian.shape_rows import (
    GROWTH,
    PARITY,
    PERIOD,
    RADIUS,
    REPEATS,
    SMOOTH,
    WIDTH,
    breaks_of,
    jumps_of,
    left_of,
    per_period,
    right_of,
    sharp_of,
    voids_of,
)
from meanfield.numeric import lookup
from meanfield.numeric.calming import Calmed, calmed
from meanfield.numeric.deviations import Impossible
from meanfield.numeric.far_powers import far_sides, power_and_limit, power_and_sides
from meanfield.numeric.far_waves import waves_of
from meanfield.numeric.hermite_sums import pair_of
from meanfield.numeric.integrands import shape_row
from meanfield.numeric.jumping import Jumping
from meanfield.numeric.lookup import CROSS, DIRECTORY, FIRST, GAP, HOME, JUMP, JUMP_FALLS, PANELS
from meanfield.numeric.piecewise import FALLEN, NODES, REACH, Pieces, mean_of
from meanfield.numeric.smooth import Smooth, support_of
from meanfield.numeric.stepped import Stepped
from meanfield.numeric.tables import blank
from meanfield.numeric.tabulation import Function, apart_panel, faint_panel, far_panel, gap_panel, mean_panel, pair_panel, variances
from meanfield.numeric.waving import Waving

__all__ = ["Impossible", "Panels"]

Floats = NDArray[np.float64]
Real = Callable[[Floats], Floats]

#: relative difference at one point of a panel from another method that counts as an error, and what rounding of f may make of it
AGREED, ROUNDED = 1e-12, 1e-15
#: the parts of the directory that are of c < 0
MIRRORED = (CROSS // PANELS + 1, GAP // PANELS + 1)
#: periods of a function on either side of those that its row has
FURTHER = 32
#: exponents of what is no double, unless it is times what is large
NO_DOUBLE = 800.0
#: 1 - c at which a gap is what its jumps bring
CLOSE = 1e-60
#: error allowed to what all variances beyond the panels share, of the largest value; Chebyshev polynomials in the middle of a panel
EXACT, _MIDDLE = 2e-15, np.cos(0.5 * np.pi * np.arange(lookup.X_TERMS))
#: a panel of 0
NOTHING = np.append([0.0, 1.0], np.zeros(lookup.X_TERMS * lookup.Y_TERMS))


@dataclass(frozen=True)
class Panels:
    """What the table of a function, whose derivative is needed for gaps, is made of."""

    f: sp.Expr
    slope: sp.Expr | None

    def coefficients(self, entry: int) -> Floats:
        """The numbers of the panel of that entry of the directory; Impossible where they are not what they should be."""
        if entry >= HOME:
            return self._home(entry - HOME)
        part, k = entry // PANELS, entry % PANELS + FIRST
        if self._is_nothing(entry, k):
            return np.zeros(1 + lookup.X_TERMS) if part == 0 else NOTHING
        if k == FIRST:
            self._check_near(of_slope=entry >= GAP)
        if part == 0:
            return mean_panel(lambda v: _Integrand.of(self.f).means(v, self._void(entry)), k)[0]
        mirrored = part in MIRRORED
        if entry < GAP:
            coefficients = self._pair(entry, k, mirrored)
        elif self.slope is None:
            raise Impossible("no slope")
        elif entry >= JUMP:
            return self._of_jumps(k, alone=self._is_divided(k))
        elif self._jumps and mirrored:
            coefficients = gap_panel(self._jumping(entry, mirrored=True), k)[0]
        elif self._jumps and not self._is_nothing(int(JUMP), k) and (self._is_faint(k) or not self._is_divided(k)):
            return NOTHING
        else:
            coefficients = self._gap(entry, k, mirrored)
        self._verify(coefficients, entry, k, mirrored)
        return coefficients

    def _pair(self, entry: int, k: int, mirrored: bool) -> Floats:
        """E f(u) f(v); where that is small by its signs alone, as good as E |f(u) f(v)| says"""
        f, void, least = _Integrand.of(self.f), self._void(entry), float(variances(k).min())
        try:
            return _first(pair_panel, f.ways(mirrored, void, least), k)
        except Impossible:
            if void:
                raise
            pairs = itertools.product(f.ways(mirrored, least=least), _Integrand.of(self.f**2).ways(mirrored, least=least))
            return _first(lambda pair, k: faint_panel(pair[0], pair[1], f.largest, k), pairs, k)

    def _gap(self, entry: int, k: int, mirrored: bool) -> Floats:
        """a gap, by its derivative; where that alone does not say it, by the function too"""
        assert self.slope is not None
        f, g, void, least = _Integrand.of(self.f), _Integrand.of(self.slope), self._void(entry), float(variances(k).min())
        try:
            return _first(gap_panel, g.ways(mirrored, void, least), k)
        except Impossible:
            if void or self._jumps:
                raise
            pairs = itertools.product(f.ways(mirrored, least=least), g.ways(mirrored=False, least=least))
            return _first(lambda pair, k: apart_panel(pair[0], f.squares, pair[1], k), pairs, k)

    @cached_property
    def _jumps(self) -> tuple[tuple[float, float], ...]:
        """where it jumps, and by how much"""
        row = shape_row(self.f)
        jumps = jumps_of(row)
        return tuple(zip(breaks_of(row)[jumps != 0.0].tolist(), jumps[jumps != 0.0].tolist(), strict=True))

    @property
    def jump_falls(self) -> float:
        """k^2/2 for the jump next to 0, -1 where there is none"""
        return min(0.5 * place**2 for place, _ in self._jumps) if self._jumps and self.slope is not None else -1.0

    @cached_property
    def falls(self) -> tuple[float, float, float]:
        """k^2/2 for the distances from 0 up to which there is nothing: of the function, of its derivative between jumps, and of that with
        them"""
        of_f, of_slope = _Integrand.of(self.f).void, 0.0 if self.slope is None else _Integrand.of(self.slope).void
        fall = 0.5 * of_slope**2
        return 0.5 * of_f**2, fall, min(fall, self.jump_falls) if self._jumps and self.slope is not None else fall

    def _fall(self, entry: int) -> float:
        """that of an entry"""
        if entry >= JUMP:
            return self.jump_falls
        return self.falls[0 if entry < GAP else 1 if entry < GAP + PANELS else 2]

    def _void(self, entry: int) -> float:
        """the k of it"""
        return math.sqrt(2.0 * self._fall(entry))

    def _is_nothing(self, entry: int, k: int) -> bool:
        return self._fall(entry) > NO_DOUBLE * float(variances(k).max())

    def _jumping(self, entry: int, mirrored: bool = False, alone: bool = False) -> Jumping:
        assert self.slope is not None
        places, sizes = zip(*self._jumps, strict=True)
        return Jumping(_Integrand.of(self.slope).pieces(False, self._slope_void), places, sizes, mirrored, alone, self._fall(entry))

    @property
    def _slope_void(self) -> float:
        """up to where there is nothing of the derivative between jumps; 0 of steps, of which there is nothing anywhere"""
        return math.sqrt(2.0 * self.falls[1]) if self.falls[1] < math.inf else 0.0

    def _is_faint(self, k: int) -> bool:
        """whether a gap less what its jumps bring is no part of it"""
        return self.falls[1] - self.jump_falls > FALLEN * float(variances(k).max())

    def _is_divided(self, k: int) -> bool:
        """whether a gap has a part that jumps bring, and not all of it is in the place of that, where these cancel what there is beside"""
        try:
            self._of_jumps(k, alone=True)
        except Impossible:
            return False
        return True

    def _of_jumps(self, k: int, alone: bool) -> Floats:
        """what jumps bring to gaps over the panel about 4^k, or all of a gap"""
        coefficients = gap_panel(self._jumping(int(JUMP), alone=alone), k)[0]
        self._verify(coefficients, int(JUMP) + k - FIRST, k, mirrored=False, whole=not alone)
        return coefficients

    def _check_near(self, of_slope: bool) -> None:
        """refuse what has no series on either side of 0, or is 0 about it"""
        f = self.slope if of_slope else self.f
        if f is None or _Integrand.of(f).least < 0 or (of_slope and self._jumps):
            raise Impossible("no series about 0")

    def _home(self, part: int) -> Floats:
        """What a part is beyond the panels, see `lookup`."""
        if part == 0:
            sides = far_sides(self.f)
            if sides is None:
                raise Impossible("no power far out")
            return np.append(float(sides[0]), far_panel(_Integrand.of(self.f).means, *sides, lookup.HIGH)[0])
        gap, mirrored = part >= GAP // PANELS, part in MIRRORED
        if part == JUMP // PANELS:
            return self._jumps_far_out()
        if gap and mirrored and self._jumps:
            raise Impossible("a jump")
        f = self.slope if gap else self.f
        found = None if f is None else power_and_limit(f)
        if f is None or found is None or found[0] != 0:
            raise Impossible("no constant far out")
        h, high = _Integrand.of(found[1]), np.array([lookup.HIGH])
        mean = float(h.means(high)[0])
        panel = (gap_panel if gap else pair_panel)(h.pieces(mirrored), PANELS - 1 + FIRST, EXACT)[0]
        rows = panel[2:].reshape(-1, lookup.X_TERMS, lookup.Y_TERMS)
        beside = 2.0 * mean * (float(_Integrand.of(f).means(high)[0]) - mean)
        return np.concatenate([[beside, panel[1]], np.einsum("j,pjk->pk", _MIDDLE, rows).ravel()])

    def _jumps_far_out(self) -> Floats:
        r"""What v J tends to over \eta."""
        found = None if self.slope is None else power_and_sides(self.slope)
        if found is None or found[0] != 0 or not self._is_divided(PANELS - 1 + FIRST):
            raise Impossible("no slope far out")
        slope, both = 0.5 * (found[1] + found[2]), [(a, b) for a in self._jumps for b in self._jumps]
        apart = sum(abs(j * i) * (k - l) ** 2 for (k, j), (l, i) in both)
        if not (sum(abs(j) for _, j in self._jumps) <= abs(slope) and apart <= slope**2):  # else what is left out counts
            raise Impossible("the jumps are large beside the slope far out")
        return np.array([2.0 * sum(j for _, j in self._jumps) * slope / math.sqrt(2.0 * math.pi)])

    def _verify(self, coefficients: Floats, entry: int, k: int, mirrored: bool, whole: bool = False) -> None:
        """one point of the panel by another method"""
        alone, scratch = blank(), np.full(lookup.SCRATCH + lookup.KEPT, -1.0)
        alone[entry] = DIRECTORY
        v, near = min(1.13 * 4.0**k, lookup.HIGH), 0.2
        d = v * (2.0 - near if mirrored else near)
        table, f = np.concatenate([alone, coefficients]), _Integrand.of(self.f)
        product, gap, second, variance = self._raised(f.moments(v, 1.0 - d / v), entry, f.void, v)
        if entry >= GAP and self._jumps and not mirrored:  # of both parts
            table[JUMP_FALLS] = 0.0  # all is over what it falls by
            void = self._slope_void
            steady = self._raised(pair_of(self._without_jumps, f.breaks, v, 1.0 - d / v, void), entry, void, v)[1]
        if entry < GAP:
            found, true, allowed = lookup.cross_in(table, v, d, 2.0 * v - d, scratch, lookup.SCRATCH), product, AGREED * second
        else:
            allowed = AGREED * gap + ROUNDED * math.sqrt(second * variance)
            if entry >= JUMP:
                found, true = lookup.jumps_in(table, v, d, scratch, lookup.SCRATCH), gap if whole else gap - steady
                self._verify_limit(lookup.jumps_in(table, v, v * CLOSE, scratch, lookup.SCRATCH) / (v * math.sqrt(CLOSE)), v)
            elif self._jumps and not mirrored:
                found, true = d * lookup.pair_in(table, GAP, v, d, scratch, lookup.SCRATCH), steady
            else:
                found, true = lookup.gap_in(table, v, d, scratch, lookup.SCRATCH), gap
        if not abs(found - true) <= allowed:
            raise Impossible(f"the table says {found}, a Hermite series {true}")

    def _raised(self, moments: tuple[float, ...], entry: int, void: float, v: float) -> tuple[float, ...]:
        """moments over e^{-void^2/2v} as they are over what that entry falls by"""
        return tuple((np.array(moments) * np.exp((self._fall(entry) - 0.5 * void**2) / v)).tolist())

    def _without_jumps(self, x: Floats) -> Floats:
        """the function less its jumps"""
        steps = sum(size * ((x > place) - float(place < 0.0)) for place, size in self._jumps)
        return np.asarray(_Integrand.of(self.f).value(x) - steps)  # what it is at 0

    def _verify_limit(self, found: float, v: float) -> None:
        """what is left of a gap next to c = 1, where the function jumps, by its jumps"""
        limit = self._jumping(int(JUMP)).limit(v)
        if not abs(found - limit) <= AGREED * limit:
            raise Impossible(f"next to c = 1 the table says {found}, the jumps {limit}")


@dataclass(frozen=True, eq=False)
class _Integrand:
    """A function as tables are made of it."""

    g: sp.Expr
    value: Real
    row: Floats

    @staticmethod
    @lru_cache(maxsize=256)
    def of(g: sp.Expr) -> _Integrand:
        return _Integrand(g, mended_function(g), shape_row(g))

    @cached_property
    def _places(self) -> tuple[Floats, Floats]:
        """its breaks, and which of them are kinks; of a periodic function those of more periods than its row has"""
        breaks, sharp, whole = breaks_of(self.row), sharp_of(self.row), self.row[PERIOD]
        if self.row[SMOOTH] or not whole > 0.0:
            return breaks, sharp
        one, turns = slice(per_period(self.row)), np.arange(-FURTHER, 2 * REPEATS + FURTHER)
        return np.add.outer(whole * turns, breaks[one]).ravel(), np.tile(sharp[one], turns.size)

    @property
    def breaks(self) -> tuple[float, ...]:
        return tuple(self._places[0].tolist())

    @property
    def least(self) -> int:
        """the power of |x| that it begins with on one side of 0, or on both; -1 where it has no series there, or is 0"""
        terms = np.flatnonzero(np.abs(right_of(self.row)) + np.abs(left_of(self.row)))
        return int(terms[0]) if terms.size and self.row[RADIUS] ** 2 > lookup.LOW else -1

    @cached_property
    def void(self) -> float:
        """the distance from 0 up to which it is 0"""
        voids = voids_of(self.row).reshape(-1, 2)
        return min((min(-low, high) for low, high in voids.tolist() if low < 0.0 < high), default=0.0)

    def means(self, v: Floats, void: float = 0.0) -> Floats:
        """E g(u) at each variance, over e^{-void^2/2v}"""
        if self.row[PARITY] < 0.0:
            return np.zeros(v.size)
        if void == 0.0 and math.sqrt(v.max()) < QUIET * self.row[RADIUS]:
            return np.array([series_mean(float(a), right_of(self.row), left_of(self.row)) for a in v])
        calm = self._calmed_under(float(v.min()), float(v.max()))
        return mean_of(self.value, self.breaks, v, void) if calm is None else mean_of(calm.value, calm.breaks, v)

    @cached_property
    def largest(self) -> float:
        """what |g| is at most, to a few percent"""
        ends = np.array(self.breaks)
        return float(np.nanmax(np.abs(self.value(ends[:-1, None] + np.diff(ends)[:, None] * (0.5 + 0.5 * NODES)))))

    def _calmed_under(self, least: float, most: float) -> Calmed | None:
        """what has its means under Gaussians beyond its breaks, if it oscillates for ever and no wave is left under these"""
        if min(-self.breaks[0], self.breaks[-1]) >= REACH * math.sqrt(most):
            return None
        found = calmed(self.g)
        return found if found is not None and math.sqrt(least) >= found.calm else None

    def squares(self, v: Floats) -> Floats:
        """E g(u)^2 at each variance"""
        return _Integrand.of(self.g**2).means(v)

    def moments(self, v: float, c: float) -> tuple[float, float, float, float]:
        """What `pair_of` says of it; where it oscillates for ever, of what has its means, its variance no more than roughly."""
        calm = self._calmed_under(v * (1.0 - c * c), v)
        if calm is None:
            return pair_of(self.value, self.breaks, v, c, self.void)
        second = float(self.squares(np.array([v]))[0])
        product = pair_of(calm.value, calm.breaks, v, c)[0]
        return product, second - product, second, second

    def pieces(self, mirrored: bool, void: float = 0.0) -> Pieces:
        breaks, sharp = self._places
        kinks = breaks[sharp > 0.0]
        d, growth = self.row[[WIDTH, GROWTH]].tolist()
        return Pieces(self.value, self.breaks, tuple(kinks.tolist()), d, growth, mirrored, void)

    def ways(self, mirrored: bool, void: float = 0.0, least: float = 0.0) -> Iterator[Function]:
        """What panels of variances from the least on can be made of, the cheapest first"""
        if self.row[SMOOTH]:
            d, growth = self.row[[WIDTH, GROWTH]].tolist()
            yield Smooth(self.value, d, growth, self.support, mirrored)
            found = power_and_sides(self.g)
            if found is not None and found[0] == 0:
                yield Stepped(self.value, d, found[1], found[2], mirrored)
        waves = waves_of(self.g)
        waving = None if waves is None else Waving(self.value, waves, mirrored)
        yield self.pieces(mirrored, void) if waving is None or least < waving.least else waving

    @cached_property
    def support(self) -> float:
        """beyond which it is 0 to all digits"""
        return support_of(self.value, 1e-19 * float(np.abs(self.value(np.linspace(-200.0, 200.0, 40001))).max()))


def _first(make: Callable[..., tuple[Floats, float]], ways: Iterator[Any], k: int) -> Floats:
    """the panel about 4^k in the first way that makes it"""
    for way in ways:
        try:
            return make(way, k)[0]
        except Impossible as reason:
            found = reason
    raise found
