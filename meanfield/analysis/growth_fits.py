r"""Least squares of a run on a growth law: over the later half of the decades of l, on what the law says and the corrections to it.

    power of l, ln^k l    ln y (or y^{1/exponent})  on  ln l (or l, or ln l), 1, and corrections
    stretched             ln y   on  l^s, ln l, 1, l^-s, l^-s ln l (and ln^2 l or powers between where the law has them, l^-a where c
                                 settles as that)
    quasi-polynomial      ln J   on  ln^2 l, ln l, 1, and corrections
    exponential           ln y   on  l, 1 and corrections; where its rate is -oo, whether the run comes to y = 0
    bounded               y  on  1, corrections and powers of dy/d ln l where it still moves slowly, or at the end of a run that settles
                          exponentially; where the limit is not given, ln y  on  ln l, 1 and corrections: y is no power of l.

Where e = 1 - c goes to 0 exponentially and q settles, corrections are powers e^{k/2} of the run itself, and fits are over its later half.
Elsewhere they are powers l^-nu, l^-2nu, ... with their logarithms (of two modes, one is taken out). Where e = 1 - c goes to 0 by its own
motion, rates are series in sqrt(e), and ln y is their integral: then they are \int e^{k/2} d ln l of the run itself, which hold however
slowly e vanishes, and ln l/l, 1/l. Laws with powers of ln l beside those of l are fitted in `growth_fits_logarithms`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.growth_curves import AGREES, Columns, Curve, Fit, Floats, Series, integrals, number, slope, to_the
from meanfield.analysis.growth_fits_logarithms import faint_fits, logarithmic_fits

if TYPE_CHECKING:
    from meanfield.analysis.growth_laws import GrowthLaw
    from meanfield.analysis.growth_records import Growth

__all__ = ["fits"]

#: terms between the stretched one and the logarithm that are fitted
BETWEEN = 3
#: points at which two modes are told apart
NEIGHBOURS = 240
#: orders of corrections in powers of l^-nu (in 1/l), and in sqrt(1 - c)
ORDERS, WHOLE, ROOTS = 4, 2, 4
#: powers of dy/d ln l in which y is a series, where it settles slowly
FLOW = 5
#: layers before which corrections are no series, and logarithms of 1 - c that are still doubles
FIRST, LEAST = 8, -600


def fits(law: GrowthLaw, series: Series, values: Mapping[str, float], deep: bool) -> list[Fit]:
    """The constants of a law that a run tells; of a deep one, also the logarithm that is hidden beside slowly settling powers."""
    if law.q.kind == "logarithmic":
        return faint_fits(law, series, values)
    if any(g.log_exponent is not None for g in (law.q, law.apjn)):
        return logarithmic_fits(law, series, values)
    settling = 0.5
    if law.gap.kind == "power":
        settling = min(settling, -number(law.gap.exponent, values) / 2)
    for power in (law.apjn.settling, law.apjn.correction, law.q.correction):
        settling = settling if power is None else min(settling, number(power, values))
    by_itself = law.q.kind == "power" and (law.gap.kind == "logarithmic" or (law.gap.kind == "power" and law.gap.coefficient is None))
    steep = law.q.kind != "power" and any(g.kind == "exponential" for g in (law.q, law.gap, law.apjn))
    found = []
    for g in (law.q, law.gap, law.apjn):
        if g.rate == -sp.oo:
            found += _vanished(g, series)
            continue
        curve = _steep_curve(g, series, law.gap.kind == "exponential") if steep else _curve(g, series, by_itself, settling, values)
        if g.kind in ("infinite", "undetermined") or len(curve.l) < 100:
            continue
        if g.kind == "bounded":
            found.append(_bounded(g, curve, values))
        elif g.kind in ("power", "logarithmic"):
            found += _power(g, curve, values)
        elif g.kind == "stretched":
            found += _stretched(g, curve, values, deep)
        elif g.kind == "quasi-polynomial":
            found += _squared(g, curve, values)
        elif math.isfinite(predicted := number(g.rate, values)):
            beside = [np.sqrt(curve.l), np.log(curve.l)] if law.q.kind == "power" else []
            small = curve.small if steep else beside
            found.append(curve.fit("rate", predicted, curve.y, [curve.l, np.ones_like(curve.l), *small]))
    return found


def _vanished(g: Growth, series: Series) -> list[Fit]:
    """what is 0 in the run, faster than any exponential; where it is not 0 yet, that tells nothing"""
    nothing = series.logs[g.quantity][-1] == -np.inf
    return [Fit(g.quantity, "rate", -math.inf, -math.inf, 0.0, AGREES, int(series.layers[-1]))] if nothing else []


def _curve(g: Growth, series: Series, by_itself: bool, settling: float, values: Mapping[str, float]) -> Curve:
    first = FIRST if by_itself else 1
    y = series.logs[g.quantity]
    good = np.flatnonzero((series.layers >= first) & np.isfinite(y) & ((g.quantity != "1 - c") | (y > LEAST)))
    l, y = series.layers[good].astype(float), y[good]
    log_gap = series.logs["1 - c"][good]
    if by_itself and len(good) > FIRST and np.isfinite(log_gap).all():
        (small, beside), omitted = _integrals(l, log_gap), 0.0
    else:
        nu = settling if settling > 0 else 0.5
        if g.quantity == "1 - c" and g.kind == "power":
            nu = min(1.0, -number(g.exponent, values) / 2)
        elif g.quantity == "q" and g.kind == "power" and (exponent := number(g.exponent, values)) > 0:
            nu = min(nu, exponent / 2)
        small, omitted = _powers(l, nu)
        beside = [l * c for c in small]
    if len(g.terms) == 2 and g.kind == "power":
        own = number(g.exponent, values)
        kept, y = _without_mode(l, y, own, next(e for e in (number(e, values) for _, e in g.terms) if e != own))
        l, small, beside = l[kept], [c[kept] for c in small], [c[kept] for c in beside]
    return Curve(g.quantity, l, y, small, beside, omitted)


def _steep_curve(g: Growth, series: Series, merging: bool) -> Curve:
    """of a run that settles exponentially, beside powers of e where that merges all tokens"""
    y, log_gap = series.logs[g.quantity], series.logs["1 - c"]
    good = np.flatnonzero((series.layers >= 1) & np.isfinite(y) & ((g.quantity != "1 - c") | (y > LEAST)))
    near = np.where(np.isnan(log_gap[good]), -np.inf, log_gap[good])
    small = [np.exp(k / 2 * near) for k in range(1, ROOTS + 1)] if merging else []
    return Curve(g.quantity, series.layers[good].astype(float), y[good], small, [], steep=True)


def _powers(l: Floats, nu: float) -> tuple[Columns, float]:
    """l^-k nu with logarithms: one of them with each whole power of the 1/l of a repeat, or of l^-2 nu; and the power after them"""
    orders, every = (WHOLE, 1) if nu == 1 else (ORDERS, 2)
    return [np.log(l) ** j * l ** (-k * nu) for k in range(1, orders + 1) for j in range(k // every + 1)], (orders + 1) * nu


def _integrals(l: Floats, log_gap: Floats) -> tuple[Columns, Columns]:
    r"""\int e^{k/2} d ln l and \int e^{k/2} dl, beside what a repeat is of a differential equation"""
    t, roots = np.log(l), [np.exp(k / 2 * log_gap) for k in range(1, ROOTS + 1)]
    return [*integrals(l, [e / l for e in roots]), 1 / l, t / l], [*integrals(l, roots), t, np.ones_like(l)]


def _bounded(g: Growth, curve: Curve, values: Mapping[str, float]) -> Fit:
    y, corrections = curve.y, [np.ones_like(curve.l), *curve.small]
    if g.limit is None:
        return curve.fit("exponent", 0.0, y, [np.log(curve.l), *corrections], 0.1)
    limit = number(g.limit, values)
    if curve.steep:
        return curve.end("limit", limit)
    flow = _slowest(curve)
    columns = [*corrections, *flow]
    return curve.fit("limit", limit, np.exp(y), columns, shorter=columns[:-1] if flow else None)


def _slowest(curve: Curve) -> Columns:
    """powers of dy/d ln l, in which y is a series as of the flow y follows by itself, where it still moves at the end, as by three points
    evenly spread in ln l, and slower than l^-1/2"""
    ends = np.exp(curve.y[np.searchsorted(curve.l, curve.l[-1] ** np.array([0.5, 0.75, 1.0]))])
    first, second = np.diff(ends)
    if not (abs(second) > 1e-9 * abs(ends[-1]) and 1 < first / second < curve.l[-1] ** 0.125):
        return []
    moved = curve.l * slope(curve.l, np.exp(curve.y))
    return [moved**k for k in range(1, FLOW + 1)]


def _power(g: Growth, curve: Curve, values: Mapping[str, float]) -> list[Fit]:
    l, y = curve.l, curve.y
    exponent, one = number(g.exponent, values), np.ones_like(l)
    if g.kind == "logarithmic":
        columns = [np.log(l), one, *curve.small]
        return [curve.fit("coefficient", number(g.coefficient, values), np.exp(y / exponent), columns, constant=to_the(exponent))]
    found = [curve.fit("exponent", exponent, y, [np.log(l), one, *curve.small])]
    for name in ("rate", "coefficient"):
        constant = getattr(g, name)
        if constant is not None:
            own = to_the(1.0 if name == "rate" else exponent)
            found.append(curve.fit(name, number(constant, values), np.exp(y / exponent), [l, *curve.beside], constant=own))
    return found


def _stretched(g: Growth, curve: Curve, values: Mapping[str, float], deep: bool) -> list[Fit]:
    l, y = curve.l, curve.y
    s, rate, one = number(g.stretch, values), number(g.rate, values), np.ones_like(l)
    curve = replace(curve, omitted=2 * s)
    leading = g.sign * rate**s
    slow, between = (math.inf if power is None else number(power, values) for power in (g.settling, g.correction))
    square = [np.log(l) ** 2] if g.log_squared_coefficient is not None else []
    powers = [s - k * slow for k in range(1, BETWEEN + 1) if s > k * slow] or [s - slow] * (slow < 1)
    powers += [s - k * between for k in range(1, BETWEEN + 1) if s > k * between + 1e-9]
    powers += [s - k * (1 - s) for k in range(1, BETWEEN + 1) if s > k * (1 - s) + 1e-9]  # ln(1 + m X^-eta) beyond its first term
    beside = [np.log(l), one, l**-s, np.log(l) * l**-s, *square, *(l**a for a in powers)]
    found = [curve.fit("rate^stretch", leading, y, [l**s, *beside])]
    if g.log_coefficient is None or square:
        return found
    if slow <= 1.5 * s:  # what the start leaves of c is told from a logarithm far out only
        if not deep:
            return found
        count = min(BETWEEN, math.floor(s / slow))  # powers that grow, the largest few of them, and the first that does not
        beside = [np.log(l), one, l**-s, np.log(l) * l**-s, l**-slow, *(l ** (s - k * slow) for k in range(1, count + 2))]
    return [*found, curve.fit("log_coefficient", number(g.log_coefficient, values), y - leading * l**s, beside, 0.1)]


def _squared(g: Growth, curve: Curve, values: Mapping[str, float]) -> list[Fit]:
    """ln J on ln^2 l, and what is left of it on ln l"""
    t, one = np.log(curve.l), np.ones_like(curve.l)
    square = number(g.log_squared_coefficient, values)
    found = [curve.fit("log_squared_coefficient", square, curve.y, [t**2, t, one, *curve.small])]
    if g.log_coefficient is None:
        return found
    return [*found, curve.fit("log_coefficient", number(g.log_coefficient, values), curve.y - square * t**2, [t, one, *curve.small])]


def _without_mode(l: Floats, y: Floats, own: float, other: float) -> tuple[NDArray[np.int64], Floats]:
    """where, and ln of the part A l^own of e^y = A l^own + B l^other, from neighbours on a geometric grid"""
    at = np.unique(np.searchsorted(l, np.geomspace(l[0], l[-1], NEIGHBOURS)).clip(0, len(l) - 1))
    ratio = np.log(l[at][1:] / l[at][:-1])
    both = np.expm1(np.diff(y[at]) - other * ratio) / np.expm1((own - other) * ratio)
    good = both > 0
    return at[:-1][good], (y[at][:-1] + np.log(both, where=good, out=np.zeros_like(both)))[good]
