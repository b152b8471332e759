r"""The fixed points of c at a fixed variance, and in the limit q -> 0: all roots of ln (1 - c')/(1 - c), with dc'/dc at each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from meanfield.analysis.exact_correlations import OPPOSITE, exact_correlations
from meanfield.analysis.moved import Moved
from meanfield.analysis.ranges import HIGHEST, MARGINAL
from meanfield.analysis.roots import Root, Roots, positive_roots
from meanfield.analysis.stepping import Steps

__all__ = ["AT_JUMPS", "Correlations", "vanishing"]

Floats = NDArray[np.float64]

#: the least 1 - c that is told from c = 1
NARROWEST = 1e-40
#: and where phi jumps, so that chi is infinite and c* < 1 may be next to 1
AT_JUMPS = 1e-290
#: variances that stand for q -> 0, and by how much the map of c at two of them differs where it has a limit
VANISHING, LIMIT = (1e-100, 1e-24, 1e-12), 1e-5
#: the same where the variance has to be larger, since phi vanishes about 0: what is left falls like exp(-1/q^a)
FADING = 1e-3
#: a next variance from which on what it is made of has all digits
SURE = 1e-290
#: by how much a slope that goes to 0 or infinity changes there at least where the variance doubles
ENDING = 1.2
#: the larger of two variances that tell how q' vanishes with q
FURTHER = 1e6
#: how many times as large errors may be as where the exact value is known
BEYOND = 4
#: parts of the widest 1 - c at which the two are compared
INSIDE = (0.1, 0.4, 0.7, 0.95)


@dataclass(frozen=True)
class Correlations:
    """The map of 1 - c at a variance that stays (`origin`: at one on its way to 0), for 1 - c up to the widest.

    `further`: a larger variance on that way, where slopes are not yet what they end as, 0 or infinite.
    """

    steps: Steps
    at: float
    widest: float
    origin: bool = False
    further: float | None = None

    def rise(self, eps: Floats) -> tuple[Floats, Floats, Floats]:
        """ln (1 - c')/(1 - c), -inf where inputs become one, its slope in ln (1 - c) and a bound on its error"""
        value, slope, bound = self._rise(eps)
        return value, slope, np.maximum(bound, BEYOND * self._seen_error)

    def _rise(self, eps: Floats) -> tuple[Floats, Floats, Floats]:
        """with a bound on what rounding does, but not on how nearly the variance stays"""
        with np.errstate(all="ignore"):
            moved, gap, slope = self._moved(eps)
            return gap.growth - moved.growth, slope * moved.at * eps / gap.at - 1, gap.growth_error + moved.growth_error

    @cached_property
    def _exact(self) -> Floats:
        """the 1 - c that stay by the formulas"""
        return np.array([gap for gap in exact_correlations(self.steps.step, self.steps.parameters) if gap <= self.widest], dtype=np.float64)

    @cached_property
    def _seen_error(self) -> float:
        """what is left of zero there, where the map has a number"""
        left = np.abs(self._rise(self._exact)[0])
        return float(left.max(initial=0.0, where=~np.isnan(left)))

    def _moved(self, eps: Floats) -> tuple[Moved, Moved, Floats]:
        """q', delta' and dc'/dc"""
        at = np.full(eps.size, self.at)
        if self.origin and self.steps.step.coupled:
            moved, gap, jacobian = self.steps.pair(at, at * eps)
            return moved, gap, (jacobian.value[1, 1] - gap.at / moved.at * jacobian.value[0, 1]) * at / moved.at
        gap, across = self.steps.spread(at, at * eps)
        moved = self.steps.identical(at[:1])[0] if self.origin else Moved.unmoved(at)
        return moved, gap, across.value * at / moved.at

    @cached_property
    def found(self) -> Roots:
        least = AT_JUMPS if not self.origin and np.isposinf(self.chi) else NARROWEST
        return positive_roots(self.rise, least, self.widest, per_decade=2)

    @cached_property
    def kept(self) -> bool:
        """Whether each c stays."""
        if self.origin:
            return bool((np.abs(self._inside) <= MARGINAL).all())
        return self.found.everywhere

    @cached_property
    def _inside(self) -> Floats:
        return self.rise(self.widest * np.array(INSIDE))[0]

    @property
    def _in_range(self) -> bool:
        """Whether the map has numbers everywhere, or takes 1 - c to 0 everywhere."""
        rises = np.append(self._inside, self.rise(NARROWEST * np.ones(1))[0])
        return bool(np.isfinite(rises).all() or np.isneginf(rises).all())

    @property
    def _is_exact(self) -> bool:
        """The same, of a next variance that is far above the least double."""
        with np.errstate(all="ignore"):
            return bool(self.at * np.exp(self.steps.identical(np.array([self.at]))[0].growth[0]) > SURE) and self._in_range

    @cached_property
    def parts(self) -> bool:
        """Whether c = 1 does not stay."""
        with np.errstate(all="ignore"):
            return bool(self.steps.parts(np.array([self.at]))[0])

    @cached_property
    def chi(self) -> float:
        """dc'/dc at c = 1."""
        if self.origin and self.kept:
            return 1.0
        with np.errstate(all="ignore"):
            moved, _, chi = self.steps.identical(np.array([self.at]))
            slope = float(np.exp(chi.log - moved.growth)[0] if self.origin else chi.value[0])
        return slope if self._before is None else _ended(slope, self._before.chi)

    @cached_property
    def _before(self) -> Correlations | None:
        """the same at the larger variance"""
        return None if self.further is None else replace(self, at=self.further, further=None)

    def places(self) -> list[tuple[Root, float, float]]:
        """The roots with c < 1, each with its 1 - c and dc'/dc there."""
        error, exact = self._seen_error, self._exact
        roots = [r for r in self.found.roots if not ((r.low <= exact) & (exact <= r.high)).any()]
        roots += [Root(gap, gap, gap, True, error) for gap in map(float, exact)]
        with np.errstate(all="ignore"):
            return [(r, *self._place(r)) for r in sorted(roots, key=lambda r: r.at)]

    def _place(self, r: Root) -> tuple[float, float]:
        gap = 1.0 if r.low <= 1.0 <= r.high else r.at  # which of what rounding cannot tell apart, where formulas do not say either
        odd = gap == OPPOSITE and OPPOSITE in self._exact and not self.steps.step.coupled  # c'(-c) = -c'(c): alike at both ends
        return gap, self.chi if odd else self._slope(gap)

    def _slope(self, gap: float) -> float:
        slope = float(self._moved(np.array([gap]))[2][0])
        return slope if self._before is None else _ended(slope, self._before._slope(gap))

    def growth(self, gap: float) -> Floats:
        """q'/q at that 1 - c, at this variance and at a larger one"""
        at = np.array([self.at, self.further or FURTHER * self.at])
        with np.errstate(all="ignore"):
            return np.exp(self.steps.pair(at, at * gap)[0].growth)


def vanishing(steps: Steps, widest: float) -> Correlations | None:
    """The map of c as q -> 0, at about the least variance at which it is in the range of float64; None where it has no limit there.

    Where phi vanishes about 0 faster than any power, as softshrink, q' is soon no double: E phi(u) phi(v) is then of points ever further
    out, of which independent parts of u and v reach ever fewer, so that c' jumps at c = 1 (and at -1, if it stays) and is constant between.
    """
    tried = [Correlations(steps, at, widest, True) for at in VANISHING]
    known, error = [here for here in tried if here._in_range], LIMIT
    if len(known) < 2:
        least, error = _least(steps, widest), FADING
        known = [Correlations(steps, at, widest, True, further) for at, further in ((least, 2 * least), (2 * least, None))]
    alike = np.isclose(known[0]._inside, known[1]._inside, rtol=0, atol=error).all()
    return known[0] if alike else None


def _least(steps: Steps, widest: float) -> float:
    """the least variance beyond those at which the map of c has all digits of float64, to a factor of 1.2"""
    low, high = VANISHING[-1], HIGHEST
    while high > 1.2 * low:
        at = math.sqrt(low * high)
        low, high = (low, at) if Correlations(steps, at, widest, True)._is_exact else (at, high)
    return high


def _ended(nearer: float, further: float) -> float:
    """where a slope goes that changes as the variance vanishes"""
    if math.isclose(nearer, further, rel_tol=1e-6):
        return nearer
    if abs(nearer) > ENDING * abs(further):
        return math.copysign(math.inf, nearer)
    return 0.0 if abs(further) > ENDING * abs(nearer) else math.nan
