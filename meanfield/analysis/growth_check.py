"""A growth law beside a long run: the fitted constants, what a shorter run gives, and whether the two close in on the prediction.

Where a repeat depends on L, the number of repeats, constants are fitted to where networks of all depths end.

The fits are those of `meanfield.analysis.growth_fits`. What a run of the depth that was asked for does not tell, one to 10^13 repeats is
asked, where leaps can make it, or one of 20000 where they cannot and it takes no minutes.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import arguments, faces
from meanfield.analysis.growth_curves import AGREES, Fit, Series, number
from meanfield.analysis.growth_fits import fits
from meanfield.analysis.ranges import HIGHEST, LOWEST
from meanfield.blocks.letters import heeded
from meanfield.numeric.increments import holds
from meanfield.numeric.long_runs import LongRun, ends_of, long_run
from meanfield.numeric.printing import Unsupported
from meanfield.numeric.propagation import propagate
from meanfield.numeric.runs import Run
from meanfield.recurrence import Recursion, recursion

if TYPE_CHECKING:
    import matplotlib.axes

    from meanfield.analysis.growth_laws import GrowthLaw

__all__ = ["Check", "Fit", "check", "checked"]

Floats = NDArray[np.float64]

#: what a symbol is taken as where check is given no value
DEFAULTS: dict[str, float] = {"n": 8}
#: repeats that are enough for an exponential, factors of e that it needs, and repeats that are run at least where leaps are not possible
STEEP, FOLDS, ONE_BY_ONE = 2000, 60, 20_000
#: repeats by which it is seen what more of them cost, and for how many seconds they are run one by one, or deeper than was asked for
SEEN, PATIENCE = 50, 30.0
#: factors of e in q after which what depends on it has settled
QUIET = 30
#: depth at which what settles slowly has settled, and a logarithm is told from powers of l that are nearly as slow
FAR = 10**13


@dataclass(frozen=True, repr=False, eq=False)
class Check(faces.Labelled):
    """The fits of a law, at these parameters, and the run they were made on."""

    law: GrowthLaw
    parameters: dict[str, float]
    fits: tuple[Fit, ...]
    run: LongRun | Run

    @property
    def agrees(self) -> bool:
        """Whether constants of the law were compared with the run, and all of them agree; see `not_compared`."""
        return bool(self.fits) and all(f.verdict == AGREES for f in self.fits)

    @property
    def not_compared(self) -> tuple[str, ...]:
        """Those of "q", "1 - c" and "J" of which nothing was compared: the law does not say, or the run does not tell."""
        compared = {f.quantity for f in self.fits}
        return tuple(g.quantity for g in (self.law.q, self.law.gap, self.law.apjn) if g.quantity not in compared)

    def plot(self, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """ln J of the run beside the predicted asymptote (extra `plot`)."""
        axes: matplotlib.axes.Axes = faces.plot(self, ax=ax)
        return axes

    def __repr__(self) -> str:
        at = ", ".join(f"{k} = {v:g}" for k, v in self.parameters.items())
        deeper = {f: f" (depth {f.depth:.0e})" for f in self.fits if f.depth > self.run.depth}
        lines = [f"  {f!r}{deeper.get(f, '')}" for f in self.fits] + [f"  {name}: not compared" for name in self.not_compared]
        nothing = "" if self.fits else ", nothing could be compared"
        return "\n".join([f"Check(depth {self.run.depth}{', ' + at if at else ''}{nothing})", *lines])


def checked(law: GrowthLaw, depth: Any, q: Any, gap: Any, parameters: dict[str, Any]) -> tuple[int, float, float]:
    """What a check is asked with, or one sentence about what cannot be."""
    depth = arguments.check_integer(depth, "depth", 1000)
    start, apart = arguments.number(q, "q"), arguments.number(gap, "gap")
    if not LOWEST <= start <= HIGHEST:
        raise ValueError(f"q = {arguments.shown(start)}: a run starts from a variance of {LOWEST:g} to {HIGHEST:g}")
    if not 0 < apart <= 2:
        raise ValueError(f"gap = {arguments.shown(apart)}: a run starts from 1 - c above 0, where inputs differ, and at most 2")
    free = {s.name: s for s in recursion(law.block).parameters if s.name not in law.parameters}
    parameters = heeded(law.block, recursion(law.block).parameters, parameters)
    unknown = sorted(parameters.keys() - free.keys())
    if unknown:
        raise ValueError(f"unknown parameters: {', '.join(unknown)}. Free in this law: {', '.join(free) or 'none'}")
    for name, given in parameters.items():
        value = arguments.scalar(given, name)
        if not value.is_number:
            raise TypeError(f"{name} = {given!r}: expected a number")
        arguments.check_bound(value, free[name])
        if value == 0 and free[name].is_positive:
            raise ValueError(f"{name} = 0: this law is of positive parameters; mf.growth(net, {name}=0) has that without {name}")
    return depth, start, apart


def check(law: GrowthLaw, depth: int, q: float, gap: float, **parameters: Any) -> Check:
    """Run the recursion of a law over `depth` repeats from q and 1 - c = gap, and fit its constants: all of them as `checked`.

    Symbols of the law that are given no value are taken as 1 (n as 8).

    Raises
    ------
    ValueError
        The run does not last.
    """
    rec = recursion(law.block)
    given = {s.name: DEFAULTS.get(s.name, 1.0) for s in rec.parameters} | parameters
    free = {name: float(v) for name, v in given.items() if name not in law.parameters}
    fixed = {name: float(v.xreplace({s: sp.nsimplify(free[s.name]) for s in v.free_symbols})) for name, v in law.parameters.items()}
    rates = [abs(number(g.rate, free)) for g in (law.q, law.gap, law.apjn) if g.kind == "exponential"]
    exponential, slowest = bool(rates), min((r for r in rates if 0 < r < math.inf), default=1.0)
    if exponential:
        depth = min(depth, max(STEEP, min(ONE_BY_ONE, math.ceil(FOLDS / slowest))))
    single = law.gap.kind == "undetermined" and not rec.couples()  # the second token is not asked for
    start, values = (q, None if single else gap), {**given, **fixed}
    varies = holds(rec, "L")

    def run_from(q: float, gap: float | None) -> LongRun | Run:
        return ends_of(rec, depth, q, gap, values, PATIENCE) if varies else _run(rec, depth, q, gap, values, exponential)

    try:
        run = run_from(*start)
    except Unsupported:  # K alone may have no numbers
        if rec.couples() or single:
            raise
        single, start = True, (start[0], None)
        run = run_from(*start)
    lasts = np.isfinite(run.q) & (run.layers > 0)
    last = int(np.flatnonzero(lasts)[-1]) + 1 if lasts.any() else 0
    if last < 100:
        networks = f"networks of up to {run.depth} " if varies else ""
        known = f"; of the law of q, {law.q.reason}" if law.q.kind == "undetermined" else ""
        raise ValueError(f"the run ends after {last} {networks}repeats: {run.status}{known}")
    if varies:
        return Check(law, free, tuple(fits(law, _series(run, single), free, False)), run)
    series, carried = _series(run, single), exponential and law.gap.kind == "power"
    if carried:  # what q leaves at first is gone
        series.logs["1 - c"][run.layers < min(QUIET / slowest, run.layers[last - 1] / 16)] = np.nan
    found = fits(law, series, free, depth >= FAR)
    far = isinstance(run, LongRun)
    hidden = far and law.apjn.log_coefficient is not None and not any(f.name == "log_coefficient" for f in found)
    if depth < (FAR if far else ONE_BY_ONE) and not carried and (hidden or any(f.verdict != AGREES for f in found)):
        exponent = number(law.q.exponent, free) if law.q.kind == "power" else 0.0
        ahead = float(run.q[last - 1]) * (ONE_BY_ONE / run.layers[last - 1]) ** exponent  # where tables may have ended
        if far or _takes(rec, (ahead, None if single else float(run.gap[last - 1])), values) * ONE_BY_ONE / SEEN <= PATIENCE:
            found = _deeper(law, rec, start, values, free, found, far)
    return Check(law, free, tuple(found), run)


def _series(run: LongRun | Run, single: bool) -> Series:
    with np.errstate(all="ignore"):
        gap = np.full_like(run.q, np.nan) if single else np.log(run.gap)
        return Series(run.layers, {"q": np.log(run.q), "1 - c": gap, "J": np.asarray(run.log_apjn_forward)})


def _run(rec: Recursion, depth: int, q: float, gap: float | None, values: dict[str, Any], steep: bool) -> LongRun | Run:
    """by leaps where it is smooth in the logarithm of depth"""
    if not steep:
        try:
            return long_run(rec, depth, q, None if gap is None else q * gap, values)
        except ArithmeticError:
            if depth > ONE_BY_ONE:
                depth = min(depth, max(ONE_BY_ONE, int(PATIENCE / _takes(rec, (q, gap), values)) * SEEN))
    return cast(Run, propagate(rec.block, depth, q, gap=gap, record=max(1, depth // 50_000), **values))


def _deeper(
    law: GrowthLaw,
    rec: Recursion,
    start: tuple[float, float | None],
    values: dict[str, Any],
    free: dict[str, float],
    found: list[Fit],
    far: bool,
) -> list[Fit]:
    """the fits of a run to FAR, or to ONE_BY_ONE, in the place of those that do not agree, or are not made"""
    q, gap = start
    try:
        run = long_run(rec, FAR, q, None if gap is None else q * gap, values) if far else _run(rec, ONE_BY_ONE, q, gap, values, True)
    except ArithmeticError:
        return found
    settled = {(f.quantity, f.name): f for f in found if f.verdict == AGREES}
    return [settled.get((f.quantity, f.name), f) for f in fits(law, _series(run, gap is None), free, far)]


def _takes(rec: Recursion, state: tuple[float, float | None], values: dict[str, Any]) -> float:
    """seconds of work of SEEN more repeats from a state, of new kernels with what makes them"""
    begin = time.process_time()
    _run(rec, SEEN, *state, values, True)
    return max(time.process_time() - begin, 1e-6)
