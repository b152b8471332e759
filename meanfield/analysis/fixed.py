r"""Fixed points of a recursion in the variance q and the correlation c: all of them, each with a certificate.

Roots of ln q'(q)/q and, at each of them, of ln delta'(q, delta)/delta, delta = q (1 - c): near c = 1 a difference of correlations would
cancel. Where q' depends on the second input (attention) the roots in q are followed along delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.correlations import Correlations, vanishing
from meanfield.analysis.maps import StepMap, at_zero, map_of, slope_at_zero
from meanfield.analysis.moved import Rate
from meanfield.analysis.points import OPEN, FixedPoint, FixedPoints, attracts, fixed_point
from meanfield.analysis.ranges import HIGHEST, LOWEST, MARGINAL
from meanfield.analysis.roots import Root, Roots, positive_roots
from meanfield.analysis.stepping import Steps
from meanfield.blocks.algebra import Block
from meanfield.blocks.letters import heeded
from meanfield.numeric.coefficients import check_coefficients
from meanfield.numeric.runs import bound_parameters
from meanfield.numeric.silence import silent

__all__ = ["fixed_points"]

Floats = NDArray[np.float64]
#: a range of 1 - c
Ends = tuple[float, float]

#: the least 1 - c that is looked at where q depends on c, and at how many 1 - c all variances are looked for
COUPLED, SCANS = 1e-10, 9
#: Newton steps along a branch; a zero of ln (1 - c')/(1 - c) is one to this; how far from it its variance is bracketed
NEWTON, RESIDUAL, NEARBY = 30, 1e-9, 1.01


@np.errstate(under="ignore")
def fixed_points(net: Block, **parameters: Any) -> FixedPoints:
    r"""All fixed points of a network's recursion for variances from 1e-12 to 1e12, and q = 0 where it is one.

    At q = 0 they are those of the map of c in the limit q -> 0, each with its own chi = dc'/dc: of tanh^3, c' = (3 c + 2 c^3)/5, c = 0,
    which attracts, and c = 1 and -1, which repel; of softshrink, which is 0 about 0, c' = 0 for |c| < 1, so that chi is 0 at c = 0 and
    infinite at c = 1 and -1; one with status "every c" where each c stays (tanh). Where masks or batch
    statistics set identical inputs apart (`Dropout`, `BatchNorm`) c = 1 is a fixed point only if a gap that is next to nothing stays
    so; what a net makes of exactly equal inputs decides nothing.

    Parameters
    ----------
    net : Block
        One repeat of the network.
    **parameters : number
        A value for each of `mf.recursion(net).parameters`.

    Returns
    -------
    FixedPoints
        A tuple of FixedPoint, one for each pair (q*, c*); its `status` and `reason` say where there is none (q grows or shrinks
        without bound), where each variance is one (ReLU at sigma_w = sqrt(2), sigma_b = 0), at which point c can be anything, and
        between which 1 - c the step has no value, so that there may be others.

    Raises
    ------
    TypeError, ValueError
        Missing or unknown parameters (with both lists), a value out of range, an array, or a network that depends on l or L.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.fixed_points(mf.mlp(mf.erf), sigma_w=1.3, sigma_b=0.05)
    [FixedPoint(q=0.647593, c=1, chi=1.1356, chi_parallel=0.494776, unstable, xi_q=1.42116, xi_c=7.86381),
     FixedPoint(q=0.647593, c=0.0619728, chi=0.93809, chi_parallel=0.494776, stable, xi_q=1.42116, xi_c=15.6472)]
    >>> mf.fixed_points(mf.mlp(mf.relu), sigma_w=2**0.5, sigma_b=0)
    FixedPoints(continuum: q' = q for every variance)
    """
    step = map_of(net)
    given = bound_parameters(step.recursion.parameters, heeded(net, step.recursion.parameters, parameters))
    check_coefficients(net, given)
    for name, value in given.items():
        if value.ndim:
            raise ValueError(f"{name} = an array of shape {value.shape}: fixed_points takes one setting, mf.phase_diagram a grid of them")
    search = _Search(step.signed(given), {name: float(v) for name, v in given.items()})
    return search.result()


@dataclass(frozen=True)
class _Search:
    step: StepMap
    parameters: dict[str, float]

    # -- the functions whose roots are looked for -------------------------------------------------------------------------
    @cached_property
    def steps(self) -> Steps:
        return Steps(self.step, self.parameters)

    def growth(self, at: Floats) -> tuple[Floats, Floats, Floats]:
        """ln q'/q on identical inputs, over variances"""
        moved, along, _ = self.steps.identical(at)
        return moved.growth, moved.growth_slope(along), moved.growth_error

    def growth_at(self, eps: Floats, at: Floats) -> tuple[Floats, Floats, Floats]:
        """the same at 1 - c = eps"""
        moved, _, jacobian = self.steps.pair(at, eps * at)
        return moved.growth, moved.growth_slope(_along_both(jacobian, eps)), moved.growth_error

    @cached_property
    def widest(self) -> float:
        """the largest 1 - c: n tokens whose correlations are all the same have c >= -1/(n - 1)"""
        tokens = _number(self._with_parameters(sp.sympify(self.step.recursion.block.tokens or sp.oo)))
        return tokens / (tokens - 1) if 1 < tokens < math.inf else 2.0 if tokens > 1 else 1.0

    # -- fixed points -----------------------------------------------------------------------------------------------------
    def result(self) -> FixedPoints:
        if self.step.unresolved:
            return FixedPoints((), "unresolved", self.step.unresolved, self.steps)
        at_rest = _number(self._with_parameters(at_zero(self._with_parameters(self.step.q_identical))))
        low = min(LOWEST, at_rest / 1e3) if 0 < at_rest < math.inf else LOWEST
        found = positive_roots(self.growth, max(low, 1e-150), HIGHEST)
        if found.everywhere:
            with np.errstate(all="ignore"):
                known = np.isfinite(self.growth(np.array([low, HIGHEST]))[2]).all()
            if known:
                return FixedPoints((), "continuum", "q' = q for every variance", self.steps)
            found = replace(found, everywhere=False, unresolved=((low, HIGHEST),))  # weights beyond the doubles
        searches = [self._origin(found)] if at_rest == 0 else []
        if self.step.coupled:
            searches += [([one], []) for one in map(self._at_one, found.roots) if not self._parts(one.q)] + [self._coupled()]
        else:
            searches += [self._correlations(root) for root in found.roots]
        points = sorted((f for own, _ in searches for f in own), key=lambda f: (f.q, f.gap))
        skipped = [ends for _, ranges in searches for ends in ranges]
        if skipped:
            return FixedPoints(points, "unresolved", "; ".join(filter(None, [_skipped(skipped), _beyond(found)])), self.steps)
        open_c = [_OPEN[f.status].format(f.q) for f in points if f.status in OPEN]
        if points:
            return FixedPoints(points, "c open" if open_c else "ok", "; ".join(filter(None, [*open_c, _beyond(found)])), self.steps)
        return FixedPoints((), "none", _beyond(found) or "no variance is left as it is", self.steps)

    def _with_parameters(self, e: sp.Expr) -> sp.Expr:
        return e.subs({s: sp.Rational(self.parameters[s.name]) for s in e.free_symbols if s.name in self.parameters}, simultaneous=True)

    def _origin(self, found: Roots) -> tuple[list[FixedPoint], list[Ends]]:
        """the fixed points with q = 0, and where 1 - c has no next one: those of the map of c in the limit"""
        if silent(self.step.recursion, frozenset(name for name, v in self.parameters.items() if v == 0)):
            nothing = Root(0.0, 0.0, 0.0, True, 0.0)
            return [fixed_point(nothing, 0.0, 0.0, gap=math.nan, multipliers=(0.0, math.nan), stable=True, status="no correlation")], []
        if self.step.long:  # products of hundreds of formulas: where the least variance has them
            along = _limit(*self.steps.identical(np.array([LOWEST**2, LOWEST]))[1].value)
        else:
            along = _number(slope_at_zero(self._with_parameters(self.step.q_identical)))
        root, limit = Root(0.0, 0.0, 0.0, True, 0.0), vanishing(self.steps, self.widest)
        stays = attracts(along, found.first)
        if limit is None:
            return [fixed_point(root, math.nan, along, stable=stays, status="no limit of c")], []
        if limit.kept:
            return [fixed_point(root, 1.0, along, stable=stays, status="every c")], []
        one = fixed_point(root, limit.chi, along, stable=stays and attracts(limit.chi, limit.found.first))
        points = [] if limit.parts else [one]
        for r, gap, chi in limit.places():
            own = _limit(*limit.growth(gap)) if self.step.coupled else along
            stable = attracts(own, found.first) and attracts(chi, 0)
            points.append(fixed_point(root, chi, own, gap=gap, gap_bracket=(r.low, r.high), stable=stable))
        return points, list(limit.found.unresolved)

    def _parts(self, at: float) -> bool:
        with np.errstate(all="ignore"):
            return bool(self.steps.parts(np.array([at]))[0])

    def _at_one(self, root: Root, nearby: int = 0, status: str = "") -> FixedPoint:
        """c = 1; `nearby` is the sign of ln (1 - c')/(1 - c) beside it"""
        along, chi = (float(v.value[0]) for v in self.steps.identical(np.array([root.at]))[1:])
        stable = attracts(chi, nearby) and abs(along) < 1 - MARGINAL
        return fixed_point(root, chi, along, stable=stable, status=status)

    def _correlations(self, root: Root) -> tuple[list[FixedPoint], list[Ends]]:
        """the fixed points of c at a fixed point of q that does not depend on it, and where 1 - c has no next one"""
        here = Correlations(self.steps, root.at, self.widest)
        one = self._at_one(root, here.found.first, "every c" if here.kept else "")
        if here.kept:
            return [one], []
        points = [] if here.parts else [one]
        for r, gap, chi in here.places():
            touching = "" if r.crossing else "touching"
            points.append(fixed_point(root, chi, one.chi_parallel, gap=gap, gap_bracket=(r.low, r.high), status=touching))
        return points, list(here.found.unresolved)

    # -- where q' depends on c --------------------------------------------------------------------------------------------
    def _coupled(self) -> tuple[list[FixedPoint], list[Ends]]:
        """fixed points with c < 1: on each branch of q' = q, followed along 1 - c from where variances were looked for, those of c; and
        where 1 - c has no next one on a branch"""
        scanned = np.geomspace(COUPLED, self.widest, SCANS)
        scans = [self._variances(float(eps), LOWEST, HIGHEST, per_decade=2) for eps in scanned]
        points: list[FixedPoint] = []
        skipped: list[Ends] = []
        for k in range(max(len(found.roots) for found in scans)):
            found, ranges = self._on_branch(scanned, _branch(k, scans))
            skipped += ranges
            for point in found:
                points += [point] * (not any(math.isclose(point.q, f.q) and math.isclose(point.gap, f.gap) for f in points))
        return points, skipped

    def _on_branch(self, scanned: Floats, starts: Floats) -> tuple[list[FixedPoint], list[Ends]]:
        """those of one branch, and where 1 - c has no next one on it"""
        follow = partial(self._followed, scanned, starts)
        found = positive_roots(lambda eps: self._along(follow(eps), eps), COUPLED, self.widest, per_decade=2)
        points = []
        for r in found.roots:
            if r.residual > RESIDUAL:  # from one branch to another
                continue
            at = float(follow(np.array([r.at]))[0])
            root = min(self._variances(r.at, at / NEARBY, at * NEARBY).roots, key=lambda v: abs(v.at - at))
            points.append(self._joint(root, r))
        return points, [ends for lost in found.unresolved for ends in self._without_value(scanned, starts, lost)]

    def _without_value(self, scanned: Floats, starts: Floats, lost: Ends) -> list[Ends]:
        """in which part of what a branch does not reach the map has no value at the variance it had last: elsewhere the branch ends"""
        known = np.flatnonzero(np.isfinite(starts))
        if not known.size:
            return []
        eps = np.geomspace(*lost, SCANS)
        nearest = known[np.abs(np.log(eps[:, None] / scanned[known])).argmin(1)]
        missing = eps[np.isnan(self.growth_at(eps, starts[nearest])[0])]
        return [(float(missing.min()), float(missing.max()))] if missing.size else []

    def _variances(self, eps: float, low: float, high: float, per_decade: int = 6) -> Roots:
        return positive_roots(lambda at: self.growth_at(np.full(at.size, eps), at), low, high, per_decade)

    def _followed(self, scanned: Floats, starts: Floats, eps: Floats) -> Floats:
        """the variance that stays at each 1 - c, by Newton's method from where it is at the nearest one scanned; nan where that ends"""
        at: Floats = starts[np.abs(np.log(eps[:, None] / scanned)).argmin(1)]
        active = np.flatnonzero(np.isfinite(at))
        for _ in range(NEWTON):
            if not active.size:
                break
            value, slope, bound = self.growth_at(eps[active], at[active])
            step = -value / slope
            at[active] *= np.exp(np.clip(step, -1, 1))
            active = active[np.isfinite(step) & (np.abs(step) > 4e-16 + bound / np.abs(slope))]
        at[active] = np.nan
        return at

    def _along(self, at: Floats, eps: Floats) -> tuple[Floats, Floats, Floats]:
        """ln (1 - c')/(1 - c) where q' = q, and its slope along that curve"""
        moved, gap, jacobian = self.steps.pair(at, eps * at)
        (new, d), ((qq, qd), (dq, dd)) = (moved.at, gap.at), jacobian.value
        turn = -(eps * at * qd / new) / moved.growth_slope(_along_both(jacobian, eps))  # d ln q / d ln eps
        slope = eps * at * (dd / d - qd / new) + turn * at * ((dq + eps * dd) / d - (qq + eps * qd) / new)
        return gap.growth - moved.growth, slope, np.full(at.size, 1e-14)

    def _joint(self, root: Root, r: Root) -> FixedPoint:
        jacobian = self.steps.pair(np.array([root.at]), np.array([root.at * r.at]))[2].value[:, :, 0]
        qq, qd, dd = float(jacobian[0, 0]), float(jacobian[0, 1]), float(jacobian[1, 1])
        chi, along = dd - r.at * qd, qq + r.at * qd
        multipliers = np.linalg.eigvals(jacobian)
        nearer = abs(multipliers[0] - along) + abs(multipliers[1] - chi) <= abs(multipliers[1] - along) + abs(multipliers[0] - chi)
        own = tuple(abs(complex(m)) for m in (multipliers if nearer else multipliers[::-1]))
        return fixed_point(
            root, chi, along, gap=r.at, gap_bracket=(r.low, r.high), status="" if r.crossing else "touching", multipliers=own
        )


def _branch(k: int, scans: Sequence[Roots]) -> Floats:
    """the k-th variance of each scan, nan where there are fewer; of one that found values missing, that of the nearest which has it"""
    found = np.array([scan.roots[k].at if len(scan.roots) > k else np.nan for scan in scans])
    known = np.flatnonzero(np.isfinite(found))
    for i in map(int, np.flatnonzero(np.isnan(found))):
        if scans[i].unresolved:
            found[i] = found[known[np.abs(known - i).argmin()]]
    return found


def _along_both(jacobian: Rate, eps: Floats) -> Rate:
    """dq'/dq at a fixed 1 - c = eps"""
    return Rate(*(m[0, 0] + eps * m[0, 1] for m in (jacobian.value, jacobian.less_1)))


def _number(e: sp.Expr) -> float:
    """the value of an expression, nan where it has none"""
    try:
        return float(e)
    except (TypeError, ValueError, ArithmeticError):
        return math.nan


def _limit(nearer: float, near: float) -> float:
    """of a slope at two small variances as the variance vanishes: 0 where it falls with that"""
    return float(nearer) if math.isclose(nearer, near, rel_tol=1e-6) or not abs(nearer) < abs(near) else 0.0


#: what is said of a point at which c can be anything
_OPEN = {
    "every c": "each correlation stays as it is at q* = {:.6g}",
    "no limit of c": "the map of c has no limit as q goes to {:g}",
    "no correlation": "q is {:g} from the first repeat on: there is no correlation",
}


def _skipped(ranges: Sequence[Ends]) -> str:
    where = " and ".join(dict.fromkeys(f"from {low:.6g} to {high:.6g}" for low, high in ranges))
    return f"no fixed points are known with 1 - c {where}, where the step has no value in float64"


def _beyond(found: Roots) -> str:
    """what is known of the variances that are no fixed points"""
    parts = []
    if found.last > 0:
        where = "beyond the last fixed point" if found.roots else "for every variance"
        parts.append(f"q' > q {where} up to {HIGHEST:g}: q leaves that behind")
    if found.unresolved:
        ends = [(f"{low:.3g}", f"{high:.3g}") for low, high in sorted(found.unresolved)]
        where = " and ".join(low if low == high else f"from {low} to {high}" for low, high in ends)
        parts.append(f"variances {where} could not be resolved in float64")
    return "; ".join(parts)
