r"""A growth law beside a long run: the fitted constant, what a shorter run gives, and whether the two close in on the prediction.

Over the later half of the decades of l the run is fitted by least squares with what the law says and the corrections that come next:

    power of l          ln y   on  ln l, 1, l^-nu, l^-nu ln l   (nu: as local slopes converge; of two modes, one is taken out)
    logarithmic         y^{1/exponent}  on  ln l, 1, 1/ln l
    stretched           ln J   on  l^s, ln l, 1, l^-s    (and ln^2 l or powers between where the law has them; then what is left on ln l,
                                                         over a deeper run where such powers are slow)
    exponential         ln y   on  l, 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import arguments, faces
from meanfield.analysis.implicit import Implicit
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.finite_parts import FinitePart
from meanfield.numeric.long_runs import LongRun, long_run
from meanfield.numeric.propagation import propagate
from meanfield.numeric.runs import Run
from meanfield.recurrence import Recursion, recursion

if TYPE_CHECKING:
    import matplotlib.axes

    from meanfield.analysis.growth_laws import GrowthLaw
    from meanfield.analysis.growth_records import Growth

__all__ = ["Check", "Fit", "check"]

Floats = NDArray[np.float64]

#: what a symbol is taken as where check is given no value
DEFAULTS: dict[str, float] = {"n": 8}
#: terms between the stretched one and the logarithm that are fitted
BETWEEN = 3
#: repeats that are enough for an exponential, factors of e that it needs, and repeats that are run where leaps are not possible
STEEP, FOLDS, ONE_BY_ONE = 2000, 60, 20_000
#: factors of e in q after which what depends on it has settled
QUIET = 30
#: points of a fit
POINTS = 60
#: depth at which a logarithm is told from powers of l that are nearly as slow
FAR = 10**13


@dataclass(frozen=True)
class Fit:
    """One constant of a law: predicted, fitted over the run, its change from a run a quarter as long, and the verdict on the two.

    `depth` is that of the run, which for the logarithm beside a stretched exponential can be deeper than what was asked for.
    """

    quantity: str
    name: str
    predicted: float
    fitted: float
    change: float
    verdict: str
    depth: int

    def __repr__(self) -> str:
        return f"{self.quantity} {self.name}: predicted {self.predicted:.6g}, fitted {self.fitted:.6g} +- {self.change:.1g}, {self.verdict}"


@dataclass(frozen=True, repr=False)
class Check(faces.Labelled):
    """The fits of a law, at these parameters, and the run they were made on."""

    law: GrowthLaw
    parameters: dict[str, float]
    fits: tuple[Fit, ...]
    run: LongRun | Run

    @property
    def agrees(self) -> bool:
        """Whether every constant of the law that was fitted agrees."""
        return all(f.verdict == "agrees" for f in self.fits)

    def plot(self, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """ln J of the run beside the predicted asymptote (extra `plot`)."""
        axes: matplotlib.axes.Axes = faces.plot(self, ax=ax)
        return axes

    def __repr__(self) -> str:
        at = ", ".join(f"{k} = {v:g}" for k, v in self.parameters.items())
        deeper = {f: f" (depth {f.depth:.0e})" for f in self.fits if f.depth > self.run.depth}
        return "\n".join([f"Check(depth {self.run.depth}{', ' + at if at else ''})", *(f"  {f!r}{deeper.get(f, '')}" for f in self.fits)])


def check(law: GrowthLaw, depth: int, q: float, gap: float, **parameters: Any) -> Check:
    """Run the recursion of a law over `depth` repeats from q and 1 - c = gap, and fit its constants.

    Symbols of the law that are given no value are taken as 1 (n as 8).

    Raises
    ------
    ValueError
        A parameter is unknown, the depth is below 1000, or the run does not last.
    """
    depth = arguments.check_integer(depth, "depth", 1000)
    rec = recursion(law.block)
    unknown = sorted(parameters.keys() - ({s.name for s in rec.parameters} - law.parameters.keys()))
    if unknown:
        raise ValueError(f"unknown parameters: {', '.join(unknown)}. Free in this law: {', '.join(s.name for s in rec.parameters)}")
    given = {s.name: DEFAULTS.get(s.name, 1.0) for s in rec.parameters} | parameters
    free = {name: float(v) for name, v in given.items() if name not in law.parameters}
    fixed = {name: float(v.xreplace({s: sp.nsimplify(free[s.name]) for s in v.free_symbols})) for name, v in law.parameters.items()}
    rates = [abs(_number(g.rate, free)) for g in (law.q, law.gap, law.apjn) if g.kind == "exponential"]
    exponential, slowest = bool(rates), min((r for r in rates if 0 < r < math.inf), default=1.0)
    if exponential:
        depth = min(depth, max(STEEP, min(ONE_BY_ONE, math.ceil(FOLDS / slowest))))
    single = law.gap.kind in ("bounded", "undetermined") and not rec.couples()  # the second token is not asked for
    start = float(arguments.variance_array(q, "q")), None if single else float(arguments.number_array(gap, "gap"))
    run = _run(rec, depth, *start, {**given, **fixed}, exponential)
    lasts = np.isfinite(run.q) & (run.layers > 0)
    last = int(np.flatnonzero(lasts)[-1]) + 1 if lasts.any() else 0
    if last < 100:
        raise ValueError(f"the run ends after {last} layers: {run.status}")
    series = {"q": np.log(run.q), "1 - c": np.full_like(run.q, np.nan) if single else _log(run.gap), "J": run.log_apjn_forward}
    if exponential and law.gap.kind == "power":  # what q leaves at first is gone
        series["1 - c"][run.layers < min(QUIET / slowest, run.layers[last - 1] / 16)] = np.nan
    settling = min(0.5, -_number(law.gap.exponent, free) / 2) if law.gap.kind == "power" else 0.5
    if law.apjn.settling is not None:
        settling = min(settling, _number(law.apjn.settling, free))
    fits = [f for g in (law.q, law.gap, law.apjn) for f in _fits(g, run.layers, series[g.quantity], free, settling, law.q.kind == "power")]
    if law.apjn.log_coefficient is not None and not any(f.name == "log_coefficient" for f in fits):
        fits += _logarithm(law.apjn, rec, max(depth, FAR), *start, {**given, **fixed}, free)
    return Check(law, free, tuple(fits), run)


def _run(rec: Recursion, depth: int, q: float, gap: float | None, values: dict[str, Any], steep: bool) -> LongRun | Run:
    """by leaps where it is smooth in the logarithm of depth"""
    if not steep:
        try:
            return long_run(rec, depth, q, None if gap is None else q * gap, values)
        except ArithmeticError:
            depth = min(depth, ONE_BY_ONE)
    return cast(Run, propagate(rec.block, depth, q, gap=gap, record=max(1, depth // 50_000), **values))


def _logarithm(
    g: Growth, rec: Recursion, depth: int, q: float, gap: float | None, values: dict[str, Any], free: dict[str, float]
) -> list[Fit]:
    """the logarithm beside a stretched exponential, told from what the start leaves of c by a deeper run, where leaps can make it"""
    if g.settling is None or g.log_squared_coefficient is not None:
        return []
    try:
        run = long_run(rec, depth, q, None if gap is None else q * gap, values)
    except ArithmeticError:
        return []
    s, rate, predicted = (_number(e, free) for e in (g.stretch, g.rate, g.log_coefficient))
    l, powers = run.layers[1:].astype(float), _between(s, _number(g.settling, free))

    def columns(l: Floats) -> list[Floats]:
        return [np.log(l), np.ones_like(l), l**-s, np.log(l) * l**-s, *(l**a for a in powers)]

    return [_fit(g, "log_coefficient", predicted, (l, run.log_apjn_forward[1:] - (rate * l) ** s), columns, 0.1)]


def _between(stretch: float, slow: float) -> list[float]:
    """powers of l from what relaxes slowly: those that grow, the largest few of them, and the first that does not"""
    count = min(BETWEEN, math.floor(stretch / slow))
    return [stretch - k * slow for k in range(1, count + 2)]


def _log(values: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return np.asarray(np.log(values))


def _number(e: sp.Expr, values: dict[str, float]) -> float:
    e = sp.sympify(e)
    e = e.xreplace({s: sp.nsimplify(values[s.name]) for s in e.free_symbols if s.name in values})
    slow = {t: sp.N(t, 15) for t in e.atoms(Implicit, Node, FinitePart) if not t.free_symbols}  # once each, whatever cancels beside them
    return float(sp.N(e.xreplace(slow), 15))


def _fits(g: Growth, layers: NDArray[np.int64], logs: Floats, values: dict[str, float], settling: float, slow_q: bool) -> list[Fit]:
    """the constants of one quantity; corrections shrink with sqrt(1 - c), as l^-settling, if not with 1/sqrt(l)"""
    good = np.flatnonzero((layers > 0) & np.isfinite(logs) & ((g.quantity != "1 - c") | (logs > -600)))
    if g.kind in ("bounded", "infinite", "undetermined") or len(good) < 100:
        return []
    l, y = layers[good].astype(float), logs[good]
    found = []

    def fit(name: str, predicted: float, y: Floats, columns: Any, least: float = 1e-3, power: float = 1.0) -> None:
        found.append(_raised(_fit(g, name, predicted, (l, y), columns, least), power))

    if g.kind == "power":
        exponent = _number(g.exponent, values)
        nu = {"1 - c": min(1.0, -exponent / 2), "q": settling if settling > 0 else 0.5}.get(g.quantity, 0.5)

        second = [0, 1, 2] if g.coefficient is not None else []  # e' = e + h e^theta: ln l/l in all orders, which short runs see

        def columns_of_power(l: Floats) -> list[Floats]:
            beside = [np.log(l) ** j * l ** (-2 * nu) for j in second]
            return [np.log(l), np.ones_like(l), l**-nu, np.log(l) * l**-nu, *beside]

        def columns_of_q(l: Floats) -> list[Floats]:
            return [l, l ** (1 - nu), np.log(l) * l ** (1 - nu), np.log(l), np.ones_like(l)]

        def columns_of_gap(l: Floats) -> list[Floats]:
            return [l, np.log(l), np.ones_like(l), np.log(l) / l] if nu == 1 else [l, l ** (1 - nu), l ** (1 - 2 * nu), np.log(l)]

        if len(g.terms) == 2:
            nu = settling
            l, y = _without_mode(l, y, exponent, next(e for e in (_number(e, values) for _, e in g.terms) if e != exponent))
        fit("exponent", exponent, y, columns_of_power)
        for name in ("rate", "coefficient"):
            constant = getattr(g, name)
            if constant is not None:
                power = 1 if name == "rate" else exponent
                slope = _number(constant, values) ** (1 / power)
                fit(name, slope, np.exp(y / exponent), columns_of_q if name == "rate" else columns_of_gap, power=power)
    elif g.kind == "logarithmic":
        exponent, scale = _number(g.exponent, values), _number(g.coefficient, values)
        slope = scale ** (1 / exponent)
        fit("coefficient", slope, np.exp(y / exponent), lambda l: [np.log(l), np.ones_like(l), 1 / np.log(l + 2)], power=exponent)
    elif g.kind == "stretched":
        s, rate = _number(g.stretch, values), _number(g.rate, values)

        slow = math.inf if g.settling is None else _number(g.settling, values)
        powers = [s - k * slow for k in range(1, BETWEEN + 1) if s > k * slow] or [s - slow] * (slow < 1)
        powers += [s - k * (1 - s) for k in range(1, BETWEEN + 1) if s > k * (1 - s) + 1e-9]  # ln(1 + m X^-eta) beyond its first term

        def beside(l: Floats) -> list[Floats]:
            more = [np.log(l) ** 2] if g.log_squared_coefficient is not None else []
            return [np.log(l), np.ones_like(l), l**-s, np.log(l) * l**-s, *more, *(l**a for a in powers)]

        fit("rate^stretch", rate**s, y, lambda l: [l**s, *beside(l)])
        if g.log_coefficient is not None and g.log_squared_coefficient is None and slow > 1.5 * s:  # else it is not told from powers
            fit("log_coefficient", _number(g.log_coefficient, values), y - (rate * l) ** s, beside, least=0.1)
    elif g.kind == "exponential" and math.isfinite(predicted := _number(g.rate, values)):
        fit("rate", predicted, y, lambda l: [l, np.ones_like(l), *([np.sqrt(l), np.log(l)] if slow_q else [])])
    return found


def _fit(g: Growth, name: str, predicted: float, curve: tuple[Floats, Floats], columns: Any, least: float) -> Fit:
    (l, y) = curve
    whole, part = (_solve(l, y, columns, top) for top in (l[-1], l[-1] / 4))
    fitted, change = float(whole[0]), float(abs(whole[0] - part[0]))
    return Fit(g.quantity, name, predicted, fitted, change, _verdict(predicted, fitted, change, least), int(l[-1]))


def _raised(slope: Fit, power: float) -> Fit:
    """the constant that is a power of the slope that was fitted, and its error; the verdict on the slope stands"""
    fitted = slope.fitted**power if slope.fitted > 0 else math.nan
    change = abs(power * fitted / slope.fitted) * slope.change
    return slope if power == 1 else replace(slope, predicted=slope.predicted**power, fitted=fitted, change=change)


def _without_mode(l: Floats, y: Floats, own: float, other: float) -> tuple[Floats, Floats]:
    """ln of the part A l^own of e^y = A l^own + B l^other, from neighbours on a geometric grid"""
    at = np.unique(np.searchsorted(l, np.geomspace(l[0], l[-1], 4 * POINTS)).clip(0, len(l) - 1))
    ratio = np.log(l[at][1:] / l[at][:-1])
    both = np.expm1(np.diff(y[at]) - other * ratio) / np.expm1((own - other) * ratio)
    good = both > 0
    return l[at][:-1][good], (y[at][:-1] + np.log(both, where=good, out=np.zeros_like(both)))[good]


def _solve(l: Floats, y: Floats, columns: Any, top: float) -> Floats:
    """least squares over the later half of the decades up to `top`, at points evenly spread in ln l"""
    at = np.unique(np.searchsorted(l, np.geomspace(max(l[0], math.sqrt(top)), top, POINTS)).clip(0, len(l) - 1))
    matrix = np.array(columns(l[at])).T
    scale = np.abs(matrix).max(axis=0)
    solution: Floats = np.linalg.lstsq(matrix / scale, y[at], rcond=None)[0] / scale
    return solution


def _verdict(predicted: float, fitted: float, change: float, least: float) -> str:
    """agrees: no farther from the prediction than the fit still moves, and not moving much"""
    size = max(abs(predicted), least)
    if change > 0.1 * size:
        return "not settled at this depth"
    return "agrees" if abs(fitted - predicted) <= 5 * change + 1e-3 * size else "disagrees"
