r"""Fixed points of a recursion in the variance q and the correlation c: all of them, each with a certificate.

Roots of ln q'(q)/q and, at each of them, of ln delta'(q, delta)/delta, delta = q (1 - c): near c = 1 a difference of correlations would
cancel. Where q' depends on the second input (attention) the roots in q are followed along delta.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.maps import StepMap, at_zero, map_of, slope_at_zero, values_of
from meanfield.analysis.roots import Root, Roots, positive_roots
from meanfield.blocks.algebra import Block
from meanfield.numeric.runs import bound_parameters

__all__ = ["FixedPoint", "FixedPoints", "fixed_points"]

Floats = NDArray[np.float64]

#: variances among which fixed points are looked for
LOWEST, HIGHEST = 1e-12, 1e12
#: the least 1 - c that is told from c = 1
NARROWEST = 1e-40
#: the same where q depends on c
COUPLED = 1e-10
#: a slope this near to 1 is 1
MARGINAL = 1e-10


@dataclass(frozen=True, repr=False)
class FixedPoint:
    r"""A pair (q*, c*) that a repeat leaves as it is.

    Attributes
    ----------
    q, c, gap : variance, correlation, and 1 - c to full relative accuracy.
    chi : dc'/dc at c*. At q* = 0, where c has no meaning, the limit of dp'/dp as q -> 0.
    chi_parallel : dq'/dq at q*, the correlation kept.
    stable : whether both multipliers are below 1 in modulus: the eigenvalues of the map, which without attention are the two chi.
    xi_q, xi_c : depth scales -1/ln|multiplier| of q and c, infinite where the multiplier is 1.
    bracket : variances between which ln q'/q is certain to change its sign, or which enclose a root that only touches zero.
    gap_bracket : the same for 1 - c; (0, 0) where c = 1 is a fixed point identically.
    residual : |q'/q - 1| at the point.
    status : "isolated", "touching" (half-stable), or "every c": each correlation is left as it is.
    """

    q: float
    c: float
    gap: float
    chi: float
    chi_parallel: float
    stable: bool
    xi_q: float
    xi_c: float
    bracket: tuple[float, float]
    gap_bracket: tuple[float, float]
    residual: float
    status: str

    def __repr__(self) -> str:
        c = f"{self.c:.6g}" if self.gap == 0 or self.gap > 1e-5 else f"1 - {self.gap:.6g}"
        note = "" if self.status == "isolated" else f", {self.status}"
        kind = "stable" if self.stable else "unstable"
        scales = f"xi_q={self.xi_q:.6g}, xi_c={self.xi_c:.6g}"
        return f"FixedPoint(q={self.q:.6g}, c={c}, chi={self.chi:.6g}, chi_parallel={self.chi_parallel:.6g}, {kind}, {scales}{note})"


class FixedPoints(tuple[FixedPoint, ...]):
    """The fixed points in ascending order of q and descending order of c, with what can be said of them together.

    status is "ok", "none" (no fixed point) or "continuum" (every variance is one), reason a sentence.
    """

    status: str
    reason: str

    def __new__(cls, points: Iterable[FixedPoint], status: str, reason: str) -> FixedPoints:
        self = super().__new__(cls, points)
        self.status, self.reason = status, reason
        return self

    def __repr__(self) -> str:
        inside = ",\n ".join(map(repr, self))
        return f"[{inside}]" if self.status == "ok" else f"FixedPoints({self.status}: {self.reason})"


def fixed_points(net: Block, **parameters: Any) -> FixedPoints:
    r"""All fixed points of a network's recursion for variances from 1e-12 to 1e12, and q = 0 where it is one.

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
        without bound) and where each variance is one (ReLU at sigma_w = sqrt(2), sigma_b = 0).

    Raises
    ------
    TypeError, ValueError
        Missing or unknown parameters (with both lists), a value out of range, an array, or a network that depends on l or L.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.fixed_points(mf.mlp(mf.erf), sigma_w=1.3, sigma_b=0.05)
    [FixedPoint(q=0.657966, c=1, chi=1.13008, chi_parallel=0.47963, unstable, xi_q=1.36096, xi_c=8.17716),
     FixedPoint(q=0.657966, c=0.134131, chi=0.872082, chi_parallel=0.47963, stable, xi_q=1.36096, xi_c=7.30619)]
    >>> mf.fixed_points(mf.mlp(mf.relu), sigma_w=2**0.5, sigma_b=0)
    FixedPoints(continuum: q' = q for every variance)
    """
    step = map_of(net)
    given = bound_parameters(step.recursion.parameters, parameters)
    for name, value in given.items():
        if value.ndim:
            raise ValueError(f"{name} = an array of shape {value.shape}: fixed_points takes one setting, mf.phase_diagram a grid of them")
    search = _Search(step, {name: float(v) for name, v in given.items()})
    return search.result()


@dataclass(frozen=True)
class _Search:
    step: StepMap
    parameters: dict[str, float]

    # -- the functions whose roots are looked for -------------------------------------------------------------------------
    def growth(self, at: Floats) -> tuple[Floats, Floats, Floats]:
        """ln q'/q on identical inputs, over variances"""
        (new, slope), bound = values_of((self.step.q_identical, self.step.chi_parallel), {"q": at, **self.parameters})
        return np.log(new / at), at * slope / new - 1, bound / new + 1e-15

    def growth_at(self, eps: float | Floats, at: Floats) -> tuple[Floats, Floats, Floats]:
        """the same at 1 - c = eps"""
        e = (self.step.q, *self.step.jacobian[0, :])
        (new, along, across), bound = values_of(e, {"q": at, "delta": eps * at, **self.parameters})
        return np.log(new / at), at * (along + eps * across) / new - 1, bound / new + 1e-15

    def spread(self, at: float | Floats, eps: Floats) -> tuple[Floats, Floats, Floats]:
        """ln of (1 - c')/(1 - c) at fixed variances"""
        d = at * eps
        (new, slope), bound = values_of((self.step.delta, self.step.jacobian[1, 1]), {"q": at, "delta": d, **self.parameters})
        return np.log(new / d), d * slope / new - 1, bound / new + 1e-15

    # -- fixed points -----------------------------------------------------------------------------------------------------
    def result(self) -> FixedPoints:
        at_rest = _number(at_zero(self._with_parameters(self.step.q_identical)))
        low = min(LOWEST, at_rest / 1e3) if 0 < at_rest < math.inf else LOWEST
        found = positive_roots(self.growth, max(low, 1e-150), HIGHEST)
        if found.everywhere:
            return FixedPoints((), "continuum", "q' = q for every variance")
        points = [self._origin(found)] if at_rest == 0 else []
        if self.step.coupled:
            points += [self._at_one(root, 0) for root in found.roots] + self._coupled()
        else:
            points += [point for root in found.roots for point in self._correlations(root)]
        points.sort(key=lambda f: (f.q, f.gap))
        if points:
            return FixedPoints(points, "ok", _beyond(found))
        return FixedPoints((), "none", _beyond(found) or "no variance is left as it is")

    def _with_parameters(self, e: sp.Expr) -> sp.Expr:
        return e.subs({s: sp.Rational(self.parameters[s.name]) for s in e.free_symbols if s.name in self.parameters}, simultaneous=True)

    def _origin(self, found: Roots) -> FixedPoint:
        """the fixed point q = 0, where p = 0 too"""
        chi = _number(at_zero(self._with_parameters(self.step.chi_one)))
        along = _number(slope_at_zero(self._with_parameters(self.step.q_identical)))
        stable = _attracts(along, found.first) and _attracts(chi, found.first)
        return _point(Root(0.0, 0.0, 0.0, True, 0.0), chi, along, stable=stable)

    def _at_one(self, root: Root, nearby: int, status: str = "") -> FixedPoint:
        """c = 1; `nearby` is the sign of ln (1 - c')/(1 - c) beside it"""
        at = np.array([root.at])
        values, _ = values_of((self.step.q_identical, self.step.chi_parallel, self.step.chi_one), {"q": at, **self.parameters})
        along, chi = float(values[1, 0]), float(values[2, 0])
        stable = _attracts(chi, nearby) and abs(along) < 1 - MARGINAL
        return _point(root, chi, along, stable=stable, status=status)

    def _correlations(self, root: Root) -> list[FixedPoint]:
        """the fixed points of c at a fixed point of q that does not depend on it"""
        found = positive_roots(lambda eps: self.spread(root.at, eps), NARROWEST, 2.0, per_decade=2)
        one = self._at_one(root, found.first, "every c" if found.everywhere else "")
        if found.everywhere:
            return [one]
        points = [one]
        for r in (*found.roots, *self._opposite(root)):
            gap = 1.0 if r.low <= 1.0 <= r.high else r.at  # phi without mean, no bias: c = 0
            at = {"q": np.array([root.at]), "delta": root.at * gap, **self.parameters}
            chi = float(values_of((self.step.jacobian[1, 1],), at)[0][0, 0])
            touching = "" if r.crossing else "touching"
            points.append(_point(root, chi, one.chi_parallel, gap=gap, gap_bracket=(r.low, r.high), status=touching))
        return points

    def _opposite(self, root: Root) -> list[Root]:
        """c = -1, where phi is odd and there is no bias"""
        value, _, bound = self.spread(root.at, np.array([2.0]))
        return [Root(2.0, 2.0, 2.0, True, float(abs(value[0])))] if abs(value[0]) <= bound[0] else []

    # -- where q' depends on c --------------------------------------------------------------------------------------------
    def _coupled(self) -> list[FixedPoint]:
        """fixed points with c < 1: along 1 - c the roots in q are followed, and on each branch those of c are found"""
        tokens = self.parameters.get("n", math.inf)
        widest = tokens / (tokens - 1) if 1 < tokens < math.inf else 2.0 if tokens > 1 else 1.0
        known_roots: dict[float, tuple[Root, ...]] = {}

        def variances(eps: float) -> tuple[Root, ...]:
            if eps not in known_roots:
                known_roots[eps] = positive_roots(lambda at: self.growth_at(eps, at), LOWEST, HIGHEST, per_decade=2).roots
            return known_roots[eps]

        def branch(k: int, eps: Floats) -> tuple[Floats, Floats, Floats]:
            at = np.array([roots[k].at if len(roots := variances(float(e))) > k else math.nan for e in eps])
            out = np.full((3, eps.size), math.nan)
            there = ~np.isnan(at)
            if there.any():
                out[:, there] = self._along(at[there], eps[there])
            return out[0], out[1], out[2]

        count = max(len(variances(float(e))) for e in np.geomspace(COUPLED, widest, 9))
        points = []
        for k in range(count):
            for r in positive_roots(lambda eps, k=k: branch(k, eps), COUPLED, widest, per_decade=2).roots:  # type: ignore[misc]
                points.append(self._joint(variances(r.at)[k], r))
        return points

    def _jacobian(self, at: Floats, eps: Floats) -> Floats:
        """q', delta', dq'/dq, dq'/d delta, d delta'/dq, d delta'/d delta, a row each"""
        e = (self.step.q, self.step.delta, *self.step.jacobian)
        return values_of(e, {"q": at, "delta": eps * at, **self.parameters})[0]

    def _along(self, at: Floats, eps: Floats) -> tuple[Floats, Floats, Floats]:
        """ln (1 - c')/(1 - c) where q' = q, and its slope along that curve"""
        new, d, qq, qd, dq, dd = self._jacobian(at, eps)
        turn = -(eps * at * qd / new) / (at * (qq + eps * qd) / new - 1)  # d ln q / d ln eps
        slope = eps * at * (dd / d - qd / new) + turn * at * ((dq + eps * dd) / d - (qq + eps * qd) / new)
        return np.log(d / new / eps), slope, np.full(at.size, 1e-14)

    def _joint(self, root: Root, r: Root) -> FixedPoint:
        _, _, qq, qd, dq, dd = (float(v[0]) for v in self._jacobian(np.array([root.at]), np.array([r.at])))
        chi, along = dd - r.at * qd, qq + r.at * qd
        multipliers = np.linalg.eigvals([[qq, qd], [dq, dd]])
        nearer = abs(multipliers[0] - along) + abs(multipliers[1] - chi) <= abs(multipliers[1] - along) + abs(multipliers[0] - chi)
        own = tuple(abs(complex(m)) for m in (multipliers if nearer else multipliers[::-1]))
        return _point(root, chi, along, gap=r.at, gap_bracket=(r.low, r.high), status="" if r.crossing else "touching", multipliers=own)


def _point(
    root: Root,
    chi: float,
    along: float,
    *,
    gap: float = 0.0,
    gap_bracket: tuple[float, float] = (0.0, 0.0),
    status: str = "",
    stable: bool | None = None,
    multipliers: tuple[float, ...] = (),
) -> FixedPoint:
    status = status or ("isolated" if root.crossing else "touching")
    in_q, in_c = multipliers or (abs(along), abs(chi))
    if stable is None:
        stable = max(in_q, in_c) < 1 - MARGINAL
    stable = stable and status == "isolated"
    scales = _depth(in_q), _depth(in_c)
    return FixedPoint(root.at, 1 - gap, gap, chi, along, stable, *scales, (root.low, root.high), gap_bracket, root.residual, status)


def _number(e: sp.Expr) -> float:
    """the value of an expression, nan where it has none"""
    try:
        return float(e)
    except (TypeError, ValueError, ArithmeticError):
        return math.nan


def _attracts(multiplier: float, nearby: int) -> bool:
    """below 1 in modulus; where it is 1, whether deviations shrink beside the point"""
    return abs(multiplier) < 1 - MARGINAL or (abs(multiplier - 1) <= MARGINAL and nearby < 0)


def _depth(multiplier: float) -> float:
    """-1/ln|multiplier|: over how many repeats a deviation changes by a factor e"""
    if abs(multiplier - 1) < 1e-15:
        return math.inf
    return 0.0 if multiplier == 0 or math.isinf(multiplier) else abs(1 / math.log(abs(multiplier)))


def _beyond(found: Roots) -> str:
    """what is known of the variances that are no fixed points"""
    parts = []
    if found.last > 0:
        where = "beyond the last fixed point" if found.roots else "for every variance"
        parts.append(f"q' > q {where}: q grows without bound")
    if found.unresolved:
        low, high = found.unresolved
        parts.append(f"variances from {low:.3g} to {high:.3g} could not be resolved in float64")
    return "; ".join(parts)
