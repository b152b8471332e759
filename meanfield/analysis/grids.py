r"""Fixed points of many settings at once: the variance that q = 1 flows to, and the correlation that pairs flow to.

All settings take their steps together through the compiled map. From q = 1 a setting moves along the sign of ln q'/q, in steps that
grow, until the sign turns, and then by safeguarded Newton steps; what leaves the range of variances is divergent, or collapses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from meanfield.analysis.correlations import AT_JUMPS
from meanfield.analysis.exact_correlations import INDEPENDENT, exact_correlations
from meanfield.analysis.maps import StepMap
from meanfield.analysis.moved import Rate
from meanfield.analysis.ranges import HIGHEST, LOWEST
from meanfield.analysis.stepping import BESIDE
from meanfield.analysis.table_steps import TableSteps

__all__ = ["Grid", "Variances", "edged"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: where a flow that leaves the range of variances towards 0 has to go down still
LEAST = 1e-150
STEPS = 80
#: how exactly ln q'/q vanishes, and ln (1 - c')/(1 - c), against the terms of which they are the sum
ZERO = 1.5e-15
#: ln (1 - c') at c = 0 that may be nothing but the error of a table
SMALL = 1e-9
#: the least 1 - c, times q, that is a number
FAINTEST = 1e-300
#: how many times that a rate is when it has faded into rounding, the sign of which then tells nothing: a quadrature is right to 5e-15, and
#: its table again; how nearly in ln q its slope tells a root that is touched from that, and at how many places beyond it is looked for
FADED, NEAR, BEYOND = 4, 1e-2, 12
#: repeats after which a net that mixes tokens is near where it goes, and Newton steps that end there
REPEATS, NEWTON = 200, 30
#: the last Newton step, in logarithms
SETTLED = 1e-11
#: how far from where they start, in ln q, Newton steps look
WANDER = 6.0
#: settings one of which takes the long way, and by how much nearer neighbours are in each round
NEIGHBOURS, CLOSER = 64, 4


@dataclass(frozen=True)
class Variances:
    """q* (0 or infinite where there is none in range) with its slopes, a value for each setting."""

    q: Floats
    chi_parallel: Rate
    chi: Rate


def edged(at: Floats) -> Floats:
    """variances, and in the place of 0 and infinite ones the edges they leave by"""
    return np.where(at == 0, LOWEST, np.minimum(at, HIGHEST))


@dataclass(frozen=True)
class Grid:
    """A map at many settings: an array for each parameter, all of one length."""

    step: StepMap
    parameters: dict[str, Floats]

    def take(self, part: NDArray[np.int64] | Bools) -> Grid:
        return Grid(self.step, {name: v[part] for name, v in self.parameters.items()})

    @property
    def size(self) -> int:
        return next(iter(self.parameters.values())).size

    @cached_property
    def steps(self) -> TableSteps:
        """a repeat of the net"""
        return TableSteps(self.step, self.parameters)

    def variances(self, start: Floats) -> Variances:
        """The first fixed point in the direction of flow from each start."""
        with np.errstate(all="ignore"):
            at = self._roots(start)
            return Variances(at, *self.steps.identical(edged(at))[1:])

    def _roots(self, start: Floats) -> Floats:
        begin = np.log(start)
        u = begin.copy()
        low, high = np.full(u.size, -np.inf), np.full(u.size, np.inf)  # flow is up at low, down at high
        stride, last = np.full(u.size, 0.25), np.full(u.size, np.inf)
        result = np.full(u.size, np.nan)
        active = np.arange(u.size)
        for _ in range(STEPS):
            at = u[active]
            moved, along, _ = self.take(active).steps.identical(np.exp(at))
            value, slope = moved.growth, moved.growth_slope(along)
            up = value > 0
            low[active[up]], high[active[~up]] = at[up], at[~up]
            newton = at - value / slope
            bounded = np.isfinite(low[active]) & np.isfinite(high[active])
            inside = (newton > low[active]) & (newton < high[active])
            towards = (slope < 0) & (np.abs(newton - at) < stride[active])  # a short step down the slope needs no bracket
            middle = (low[active] + high[active]) / 2
            march = at + np.where(up, 1.0, -1.0) * stride[active]
            u[active] = np.where(bounded, np.where(inside, newton, middle), np.where(towards, newton, march))
            stride[active] = np.minimum(2 * stride[active], 4.0)
            level, away = ZERO * moved.noise, np.abs(newton - at)
            zero, told = np.abs(value) <= level, FADED * level < NEAR * np.abs(slope)
            rounding = (away < SETTLED) & (away > last[active] / 2)  # of a table, whose values are not as exact
            done = zero | (bounded & (rounding | (np.abs(u[active] - at) < 1e-15 * np.maximum(1, np.abs(at)))))
            last[active] = away
            flat = (np.abs(value) <= FADED * level) & ~bounded & ~told
            faded, begun = flat & (at != begin[active]), np.flatnonzero(flat & zero & (at == begin[active]))
            if begun.size:
                result[active[begun]] = self.take(active[begun])._faded_before(at[begun])
            above, below = at > np.log(HIGHEST), (at < np.log(LOWEST)) & ~np.isfinite(low[active])
            turns = np.flatnonzero(below & ~up)
            if turns.size:
                back = turns[self.take(active[turns])._grows_at_least()]
                low[active[back]], below[back] = np.log(LEAST), False
            done &= ~(faded & (above | below))
            faint = np.flatnonzero(faded & ~above & ~below)
            if faint.size:  # no root, but a rate that fades on the way
                at[faint], done[faint] = self.take(active[faint])._across(at[faint], begin[active[faint]])
                u[active[faint]] = at[faint]
            rests = done & np.isnan(result[active])
            result[active[rests]] = np.exp(at[rests])
            result[active[~done & (up | faded) & above]] = np.inf
            result[active[~done & (~up | faded) & below]] = 0.0
            result[active[np.isposinf(value)]] = np.inf
            active = active[np.isnan(result[active]) & ~np.isnan(value)]
            if not active.size:
                break
        return result

    def _grows_at_least(self) -> Bools:
        """Where next to 0 a variance is far more after a repeat: a bias, however small, or a mean keeps it from 0."""
        return self.steps.identical(np.full(self.size, LEAST))[0].growth > 1

    def _across(self, at: Floats, begin: Floats) -> tuple[Floats, Bools]:
        """Where flows go on from points at which their rate has faded into rounding, and whether they end there: at the edge if nothing
        more is seen of it, and where they are if it has turned round beyond."""
        up = at > begin
        edge = np.log(np.where(up, HIGHEST, LOWEST))
        on, ends = np.where(up, np.inf, -np.inf), np.ones(at.size, dtype=bool)
        for part in np.linspace(1, 0, BEYOND, endpoint=False):
            here = at + part * (edge - at)
            moved, *_ = self.steps.identical(np.exp(here))
            seen, turned = np.abs(moved.growth) > FADED * ZERO * moved.noise, (moved.growth > 0) != up
            on, ends = np.where(seen, np.where(turned, at, here), on), np.where(seen, turned, ends)
        return on, ends

    def _faded_before(self, at: Floats) -> Floats:
        """Where flows go whose rate is rounding where they start: to an edge if nothing is seen from there on and it is towards it that
        they go on the other side, wherever they start there; nan if they rest."""
        (above, _), (below, _) = self._across(at, at - 1), self._across(at, at + 1)
        return np.select([np.isinf(above) & (below == at), np.isinf(below) & (above == at)], [np.inf, 0.0], np.nan)

    def across(self, at: Floats, d: Floats) -> Rate:
        """dc'/dc at q* = at and 1 - c* = d/at"""
        with np.errstate(all="ignore"):
            jacobian = self.steps.pair(at, d)[2]
            turned = d / at * jacobian.value[0, 1]
            return Rate(jacobian.value[1, 1] - turned, jacobian.less_1[1, 1] - turned)

    # -- correlations -----------------------------------------------------------------------------------------------------
    def gaps(self, at: Floats, chi: Rate, parts: Bools) -> Floats:
        """1 - c* between c = 0 and 1 for settings with chi > 1, or which part, and q* = at, by regula falsi (Illinois) in ln (1 - c)"""
        result, active, jumps = np.full(at.size, np.nan), np.arange(at.size), np.isposinf(chi.value)
        asked = parts | jumps  # what is next to c = 1 is not chi
        low, high = np.full(at.size, np.log(1e-14)), np.zeros(at.size)
        low[parts], low[jumps] = np.log(BESIDE), np.log(np.maximum(AT_JUMPS, FAINTEST / at[jumps]))
        with np.errstate(all="ignore"):

            def rise(part: NDArray[np.int64], u: Floats) -> tuple[Floats, Floats]:
                moved = self.take(part).steps.spread(at[part], np.exp(u) * at[part])
                return moved.growth, ZERO * moved.noise

            (f_high, zero), f_low, side = rise(active, high), chi.log, np.zeros(at.size)
            f_low[asked] = rise(np.flatnonzero(asked), low[asked])[0]
            result[asked & (f_low <= 0)] = 0.0
            f_high[self._independent(np.abs(f_high) < SMALL)] = 0.0
            result[f_high >= -zero] = 1.0
            active = np.flatnonzero((f_high < -zero) & ~(asked & (f_low <= 0)))
            for _ in range(STEPS):
                a, b, fa, fb = low[active], high[active], f_low[active], f_high[active]
                u = (a * fb - b * fa) / (fb - fa)
                u = np.where((u > a) & (u < b), u, (a + b) / 2)
                value, zero = rise(active, u)
                up = value > 0
                f_high[active] = np.where(up & (side[active] > 0), fb / 2, np.where(up, fb, value))
                f_low[active] = np.where(~up & (side[active] < 0), fa / 2, np.where(up, value, fa))
                low[active], high[active] = np.where(up, u, a), np.where(up, b, u)
                side[active] = np.where(up, 1, -1)
                done = (np.abs(value) <= zero) | (high[active] - low[active] <= np.maximum(1e-13, 2 * np.spacing(np.abs(u))))
                result[active[done]] = np.exp(u[done])
                active = active[~done & ~np.isnan(value)]
                if not active.size:
                    break
        return result

    def _independent(self, asked: Bools) -> Bools:
        """which of some settings leave c = 0 as it is by the formulas: phi without mean, and no bias"""
        zeros, names = np.array([v == 0 for v in self.parameters.values()]), list(self.parameters)
        result = np.zeros(self.size, dtype=bool)
        for which in np.unique(zeros[:, asked], axis=1).T:
            own = {name: 0.0 for name, there in zip(names, which, strict=True) if there}
            if INDEPENDENT in exact_correlations(self.step, own):
                result |= asked & (zeros == which[:, None]).all(0)
        return result

    def jointly(self) -> tuple[Floats, Floats]:
        """q* and 1 - c* where q depends on c, nan where there is none in range.

        Some settings take many repeats from q = 1, c = 1/2, then Newton steps; those between start from their neighbour's point, nearer
        and nearer ones, and take the long way too where that leads to none that attracts though a neighbour has one.
        """
        at, d = np.full(self.size, np.nan), np.full(self.size, np.nan)
        stride = NEIGHBOURS
        with np.errstate(all="ignore"):
            known = np.arange(0, self.size, stride)
            at[known], d[known] = self.take(known)._repeated()
            while stride > 1:
                before, stride = known, stride // CLOSER
                known = np.arange(0, self.size, stride)
                new = np.setdiff1d(known, before)
                low = np.searchsorted(before, new) - 1
                begin, end = before[low], before[np.minimum(low + 1, before.size - 1)]
                at[new], d[new] = self.take(new)._newton(at[begin], d[begin])
                lost = new[np.isnan(at[new]) & ~(np.isnan(at[begin]) & np.isnan(at[end]))]
                at[lost], d[lost] = self.take(lost)._repeated()
        inside = (at > LOWEST) & (at < HIGHEST)
        return np.where(inside, at, np.nan), np.where(inside, d / at, np.nan)

    def _repeated(self) -> tuple[Floats, Floats]:
        at, d = np.ones(self.size), np.full(self.size, 0.5)
        for _ in range(REPEATS if self.size else 0):
            at, d = (moved.at for moved in self.steps.moved(at, d))
            d = np.clip(d, 1e-300, 2 * at)
        return self._newton(at, d)

    def _newton(self, at: Floats, d: Floats) -> tuple[Floats, Floats]:
        """Newton steps in the logarithms of q and delta; nan where they do not end at a point that attracts"""
        u = np.log(np.array([at, d]))
        begin = u[0].copy()
        found, active = np.full((2, self.size), np.nan), np.flatnonzero(np.isfinite(u).all(0))
        for _ in range(NEWTON):
            if not active.size:
                break
            own = np.exp(u[:, active])
            *moved, jacobian = self.take(active).steps.pair(*own)
            rows = np.array([m.growth for m in moved])
            added, new = (np.array([getattr(m, name) for m in moved])[:, None] for name in ("added", "at"))
            excess = (jacobian.less_1 * own - np.eye(2)[:, :, None] * added) / new  # of the slopes in logarithms, beside the identity
            slopes = excess + np.eye(2)[:, :, None]
            matrix, right = np.moveaxis(excess, 2, 0), rows.T[:, :, None]
            good = np.isfinite(matrix).all((1, 2)) & np.isfinite(right).all((1, 2))
            active, matrix, right, own, slopes = active[good], matrix[good], right[good], own[:, good], slopes[:, :, good]
            step = -_solved(matrix, right)[:, :, 0].T
            done = (np.abs(step) < SETTLED).all(0)
            trace, determinant = slopes[0, 0] + slopes[1, 1], slopes[0, 0] * slopes[1, 1] - slopes[0, 1] * slopes[1, 0]
            attracts = (np.abs(determinant) < 1) & (np.abs(trace) < 1 + determinant)
            ends = done & attracts
            u[:, active] += np.clip(step, -1, 1)
            u[1, active] = np.minimum(u[1, active], u[0, active] + np.log(2))
            found[:, active[ends]] = np.exp(u[:, active[ends]])
            active = active[~done & (np.abs(u[0, active] - begin[active]) < WANDER)]
        return found[0], found[1]


def _solved(matrix: Floats, right: Floats) -> Floats:
    """solutions of linear equations, nan where there is none"""
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:  # of one of them, which numpy does not say
        if len(matrix) == 1:
            return np.full_like(right, np.nan)
        half = len(matrix) // 2
        return np.concatenate([_solved(matrix[:half], right[:half]), _solved(matrix[half:], right[half:])])
