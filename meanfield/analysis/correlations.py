r"""The fixed points of c at a fixed variance, and in the limit q -> 0: all roots of ln (1 - c')/(1 - c), with dc'/dc at each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from meanfield.analysis.exact_correlations import OPPOSITE, exact_correlations
from meanfield.analysis.moved import Moved
from meanfield.analysis.ranges import MARGINAL
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
#: the larger of two variances that tell how q' vanishes with q
FURTHER = 1e6
#: how many times as large errors may be as where the exact value is known
BEYOND = 4
#: parts of the widest 1 - c at which the two are compared
INSIDE = (0.1, 0.4, 0.7, 0.95)


@dataclass(frozen=True)
class Correlations:
    """The map of 1 - c at a variance that stays (`origin`: at one on its way to 0), for 1 - c up to the widest."""

    steps: Steps
    at: float
    widest: float
    origin: bool = False

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
            return float(np.exp(chi.log - moved.growth)[0] if self.origin else chi.value[0])

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
        return gap, self.chi if odd else float(self._moved(np.array([gap]))[2][0])

    def growth(self, gap: float) -> Floats:
        """q'/q at that 1 - c, at this variance and at a larger one"""
        at = self.at * np.array([1.0, FURTHER])
        with np.errstate(all="ignore"):
            return np.exp(self.steps.pair(at, at * gap)[0].growth)


def vanishing(steps: Steps, widest: float) -> Correlations | None:
    """The map of c as q -> 0, at the least variance at which it is in the range of float64; None where it is not, or has no limit."""
    tried = [Correlations(steps, at, widest, True) for at in VANISHING]
    known = [here for here in tried if here._in_range]
    if len(known) < 2 or not np.isclose(known[0]._inside, known[1]._inside, rtol=0, atol=LIMIT).all():
        return None
    return known[0]
