r"""A fixed point of a recursion with its certificate, and all of them together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from meanfield import faces
from meanfield.analysis.ranges import MARGINAL
from meanfield.analysis.roots import Root

if TYPE_CHECKING:
    import matplotlib.axes

    from meanfield.analysis.stepping import Steps

__all__ = ["OPEN", "FixedPoint", "FixedPoints", "attracts", "fixed_point"]

#: of points at which c can be anything, or is nothing
OPEN = ("every c", "no limit of c", "no correlation")


@dataclass(frozen=True, repr=False)
class FixedPoint(faces.Labelled):
    r"""A pair (q*, c*) that a repeat leaves as it is.

    Attributes
    ----------
    q, c, gap : variance, correlation, and 1 - c to full relative accuracy.
    chi : dc'/dc at c* (that of the point with c* = 1 is the chi of `mf.phase_diagram`); at q* = 0, where each c is p = 0, that of the limit
        of the map of c as q -> 0, whose fixed points c* are.
    chi_parallel : dq'/dq at q*, the correlation kept.
    stable : whether both multipliers are below 1 in modulus: the eigenvalues of the map, which without attention are the two chi; where
        one is 1, whether deviations shrink beside the point. Where each correlation is left as it is as q -> 0, whether q comes to 0.
    kind : "stable", "unstable", or "marginally stable" where the multiplier of a point that attracts is 1: slower than exponentially.
    xi_q, xi_c : depth scales -1/ln|multiplier| of q and c, infinite where the multiplier is 1.
    bracket : variances between which ln q'/q is certain to change its sign, or which enclose a root that only touches zero.
    gap_bracket : the same for 1 - c; (0, 0) where c = 1 is a fixed point identically.
    residual : |q'/q - 1| at the point.
    status : "isolated", "touching" (half-stable), "every c": each correlation is left as it is; at q* = 0 in the limit q -> 0, where
        pairs keep that which they come with; or "no limit of c": at q* = 0, where the map of c has no limit at the variances of float64
        (phi = x ln|x|): chi and xi_c are nan there, and pairs may come to any c; or "no correlation": at q* = 0, where weights and
        biases are 0 and q is so from the first repeat on: chi = 0, and c, gap and xi_c are nan.

    Examples
    --------
    >>> import meanfield as mf
    >>> alike, apart = mf.fixed_points(mf.mlp(mf.erf), sigma_w=1.3, sigma_b=0.05)
    >>> apart
    FixedPoint(q=0.647593, c=0.0619728, chi=0.93809, chi_parallel=0.494776, stable, xi_q=1.42116, xi_c=15.6472)
    >>> alike.stable, alike.gap, alike.status
    (False, 0.0, 'isolated')
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

    @property
    def kind(self) -> str:
        slopes = (self.chi_parallel,) if self.status in OPEN else (self.chi, self.chi_parallel)
        marginal = any(abs(abs(multiplier) - 1) <= MARGINAL for multiplier in slopes)
        return "unstable" if not self.stable else "marginally stable" if marginal else "stable"

    def __repr__(self) -> str:
        c = f"1 - {self.gap:.6g}" if 0 < self.gap <= 1e-5 else f"{self.c:.6g}"
        note = "" if self.status == "isolated" else f", {self.status}"
        scales = f"xi_q={self.xi_q:.6g}, xi_c={self.xi_c:.6g}"
        return f"FixedPoint(q={self.q:.6g}, c={c}, chi={self.chi:.6g}, chi_parallel={self.chi_parallel:.6g}, {self.kind}, {scales}{note})"

    def latex(self) -> str:
        """q*, c* and the slopes there, to six digits, with the kind of point; no c* or slope of c where it has none."""
        return faces.latex(self)

    def _repr_latex_(self) -> str:
        return self.latex()


class FixedPoints(tuple[FixedPoint, ...], faces.Labelled):
    """The fixed points in ascending order of q and descending order of c, a tuple, with what can be said of them together.

    Attributes
    ----------
    status : str
        "ok", "none" (no fixed point), "continuum" (every variance is one), "c open" (a point leaves each c as it is, or has no limit of
        c) or "unresolved" (there may be others where the step has no value).
    reason : str
        A sentence.
    steps : Steps
        The map itself.

    Examples
    --------
    >>> import meanfield as mf
    >>> points = mf.fixed_points(mf.mlp(mf.erf), sigma_w=1.3, sigma_b=0.05)
    >>> points.status, [(round(point.q, 4), round(point.c, 4)) for point in points if point.stable]
    ('ok', [(0.6476, 0.062)])
    >>> mf.fixed_points(mf.mlp(mf.relu), sigma_w=1.5, sigma_b=0.1)
    FixedPoints(none: q' > q for every variance up to 1e+12: q leaves that behind)
    """

    status: str
    reason: str
    steps: Steps

    def __new__(cls, points: Iterable[FixedPoint], status: str, reason: str, steps: Steps) -> FixedPoints:
        self = super().__new__(cls, points)
        self.status, self.reason, self.steps = status, reason, steps
        return self

    def __getnewargs__(self) -> tuple[tuple[FixedPoint, ...], str, str, Steps]:
        """How it is made, for copies and pickles."""
        return tuple(self), self.status, self.reason, self.steps

    def plot(self, ax: matplotlib.axes.Axes | None = None, quantity: str = "c") -> matplotlib.axes.Axes:
        """The map of "c" at each q*, or that of "q", with the diagonal, the points and the way of a pair (extra `plot`)."""
        axes: matplotlib.axes.Axes = faces.plot(self, ax=ax, quantity=quantity)
        return axes

    def __repr__(self) -> str:
        inside = ",\n ".join(map(repr, self))
        shown = f"[{inside}]" if self else ""
        return shown if self.status == "ok" else f"{shown}{' ' * bool(shown)}FixedPoints({self.status}: {self.reason})"

    def latex(self) -> str:
        """A line for each point, and a sentence for what else there is to say."""
        return faces.latex(self)

    def _repr_latex_(self) -> str:
        return self.latex()


def fixed_point(
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
    """The point at a root in q and 1 - c = gap; the multipliers are the two slopes unless others are given."""
    status = status or ("isolated" if root.crossing else "touching")
    in_q, in_c = multipliers or (abs(along), abs(chi))
    if stable is None:
        stable = max(in_q, in_c) < 1 - MARGINAL
    stable = stable and (status == "isolated" or root.at == 0)
    scales = _depth(in_q), _depth(in_c)
    return FixedPoint(root.at, 1 - gap, gap, chi, along, stable, *scales, (root.low, root.high), gap_bracket, root.residual, status)


def attracts(multiplier: float, nearby: int) -> bool:
    """below 1 in modulus; where it is 1, whether deviations shrink beside the point"""
    return abs(multiplier) < 1 - MARGINAL or (abs(multiplier - 1) <= MARGINAL and nearby < 0)


def _depth(multiplier: float) -> float:
    """-1/ln|multiplier|: over how many repeats a deviation changes by a factor e"""
    if abs(multiplier - 1) < 1e-15:
        return math.inf
    return 0.0 if multiplier == 0 or math.isinf(multiplier) else abs(1 / math.log(abs(multiplier)))
