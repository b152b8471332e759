r"""Least squares of a run on laws with powers of ln l beside those of l, which it reaches by a factor 1 + O(ln ln l/ln l) only.

What is slow is taken from the run itself: with Y = q^{1/exponent}, t = ln Y and j the power of t in dY/dl,

    exponent        ln y - log_exponent ln t   on  ln l, 1, 1/t, 1/t^2        (y = q, J, 1 - c),
    log_exponent    ln y - exponent ln l       on  ln t, 1, 1/t, 1/t^2        (y = J, 1 - c),
      of q, ln J    ln dY/dl, ln (Y^eta d ln J/dl)   on the same: the powers j and k of t,
    rate of q       Y                          on  \int t^i dl, i = j, ..., 0, 1, and l^{1/2}, l^{1/2} ln l,
    rate of ln J    ln J                       on  \int Y^{-eta} t^i dl, i = k, ..., 0, 1, ln l, ln^2 l,
    coefficient     (1 - c)^{1/exponent}       on  T e^{k j/b}, k = 0, 1, 2, l^{-1/2}, l^{-1/2} ln l,

eta = 1 - stretch, k = log_exponent + j eta. The integrals are exact to all orders in 1/ln l; the series in 1/t are not, and change slowly.
Where q itself goes as a power of ln l, X = 1/q ~ (ln l/b)^{1/c} (see `growth_faint`), the run tells

    coefficient of q       ln l                    on  X^c, ln X, 1, X^-c,
    exponent of J          ln J                    on  ln X, 1, X^-c, X^-2c,
    coefficient of 1 - c   Y = (1 - c)^{1/exponent}  on  Z \int dl/Z, Z \int dl/(Y Z), Z,

Z = X^k what the slope of delta, as that of J, and q'/q multiply Y by.
Where a constant is what carries e = 1 - c ~ t^-b to 0, F e^{1 - j/b} (1 + O(e^{j/b})), and it is in balance with e dY/dl that is lost as q
grows, T^j = (dY/dl) (1 + d ln e/d ln q)/rate of the run itself ~ t^j in the place of powers of t; where a power of t does, T, 1, 1/t.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from meanfield.analysis.growth_curves import Columns, Constant, Curve, Fit, Floats, Series, integrals, number, slope, to_the

if TYPE_CHECKING:
    from meanfield.analysis.growth_laws import GrowthLaw
    from meanfield.analysis.growth_records import Growth

__all__ = ["faint_fits", "logarithmic_fits"]

#: the layer and the t from which on the fits look at a run
FIRST, LEAST = 64, 1.0


def logarithmic_fits(law: GrowthLaw, series: Series, values: Mapping[str, float]) -> list[Fit]:
    """The constants of a law of which q or J has a power of ln l beside one of l."""
    inverse = 1 / number(law.q.exponent, values)
    t = inverse * series.logs["q"]
    kept = np.flatnonzero((series.layers >= FIRST) & np.isfinite(series.logs["J"]) & (t > LEAST))
    l, t, found = series.layers[kept].astype(float), t[kept], list[Fit]()
    for g in (law.q, law.gap, law.apjn):
        y = series.logs[g.quantity][kept]
        if g.kind in ("bounded", "infinite", "quasi-polynomial", "undetermined") or not np.isfinite(y).all() or len(l) < 100:
            continue
        slow = [np.ones_like(l), 1 / t, t**-2]
        curve = Curve(g.quantity, l, y, slow, [])
        if g.kind == "power":
            found.append(_exponent(g, curve, t, values))
            found += _variance(g, curve, t, values) if g.quantity == "q" else _beside(g, curve, t, values)
        elif g.kind == "stretched":
            found += _stretched(law, curve, t, values)
        elif g.quantity == "J":
            found.append(curve.fit("exponent", number(g.exponent, values), y, [np.log(t), *slow]))
        else:
            found.append(_carried(law, curve, t, series.logs["q"][kept], values))
    return found


def faint_fits(law: GrowthLaw, series: Series, values: Mapping[str, float]) -> list[Fit]:
    """The constants of a law of which q is a power of ln l."""
    kept = np.flatnonzero((series.layers >= FIRST) & np.isfinite(series.logs["J"]))
    l, t, found = series.layers[kept].astype(float), -series.logs["q"][kept], list[Fit]()
    power = -1 / number(law.q.exponent, values)
    one, falling = np.ones_like(l), np.exp(-power * t)
    along = number(law.apjn.exponent, values) * power if law.apjn.kind == "logarithmic" else 0.0  # d ln J/d ln X
    for g in (law.q, law.gap, law.apjn):
        curve = Curve(g.quantity, l, series.logs[g.quantity][kept], [], [])
        if g.quantity == "q":
            columns, constant = [1 / falling, t, one, falling], to_the(1 / power)
            found.append(curve.fit("coefficient", number(g.coefficient, values), np.log(l), columns, constant=constant))
        elif g.kind == "logarithmic":
            found.append(curve.fit("exponent", along / power, curve.y, [t, one, falling, falling**2], constant=_linear(1 / power)))
        elif g.kind == "power" and np.isfinite(curve.y).all():
            exponent = number(g.exponent, values)
            own, factor = np.exp(curve.y / exponent), np.exp((along + 1) / exponent * t)
            columns = [factor * c for c in (*integrals(l, [1 / factor, 1 / (own * factor)]), one)]
            found.append(curve.fit("coefficient", number(g.coefficient, values), own, columns, constant=to_the(exponent)))
    return found


def _carried(law: GrowthLaw, curve: Curve, t: Floats, log_q: Floats, values: Mapping[str, float]) -> Fit:
    """the factor of 1 - c, where that is a power of ln l"""
    g, l = law.gap, curve.l
    exponent, j = number(g.exponent, values), number(sp.sympify(law.q.log_exponent or 0) / law.q.exponent, values)
    columns: Columns = [t, curve.small[0], curve.small[1]]
    if g.feeding is not None:
        lost = slope(l, np.exp(t)) * (1 + slope(l, curve.y) / slope(l, log_q)) / number(law.q.rate, values)
        columns[0] = lost ** (1 / j)
        columns = columns if g.feeding else [columns[0] * np.exp(-k * j / exponent * curve.y) for k in range(3)]
    columns += [l**-0.5, np.log(l) * l**-0.5]
    return curve.fit("coefficient", number(g.coefficient, values), np.exp(curve.y / exponent), columns, constant=to_the(exponent))


def _exponent(g: Growth, curve: Curve, t: Floats, values: Mapping[str, float]) -> Fit:
    """of l, beside what the law says of ln l"""
    beside = number(g.log_exponent or sp.S.Zero, values) * np.log(t)
    return curve.fit("exponent", number(g.exponent, values), curve.y - beside, [np.log(curve.l), *curve.small])


def _beside(g: Growth, curve: Curve, t: Floats, values: Mapping[str, float]) -> list[Fit]:
    """the exponent of ln l, beside what the law says of l"""
    if g.log_exponent is None:
        return []
    left = curve.y - number(g.exponent, values) * np.log(curve.l)
    return [curve.fit("log_exponent", number(g.log_exponent, values), left, [np.log(t), *curve.small])]


def _variance(g: Growth, curve: Curve, t: Floats, values: Mapping[str, float]) -> list[Fit]:
    """the power of ln l in q, and its rate, from Y"""
    l, exponent, own = curve.l, number(g.exponent, values), np.exp(t)
    j = number(sp.sympify(g.log_exponent or 0) / g.exponent, values)
    shown = _linear(exponent)
    power = curve.fit("log_exponent", shown(j), np.log(slope(l, own)), [np.log(t), *curve.small], constant=shown)
    columns: Columns = integrals(l, [t**i for i in range(round(j), -1, -1)])
    rate = curve.fit("rate", number(g.rate, values), own, [*columns, np.ones_like(l), l**0.5, l**0.5 * np.log(l)])
    return [power, rate] if g.log_exponent is not None else [rate]


def _stretched(law: GrowthLaw, curve: Curve, t: Floats, values: Mapping[str, float]) -> list[Fit]:
    """the power of ln l in ln J, and its rate, given those of q"""
    g, l, s = law.apjn, curve.l, number(law.apjn.stretch, values)
    j = number(sp.sympify(law.q.log_exponent or 0) / law.q.exponent, values)
    k = number(sp.sympify(g.log_exponent or 0), values) + j * (1 - s)
    shown = _linear(1.0, -j * (1 - s))
    of_slope = np.log(g.sign * slope(l, curve.y)) + (1 - s) * t
    power = curve.fit("log_exponent", shown(k), of_slope, [np.log(t), *curve.small], 1.0, shown)
    columns = integrals(l, [np.exp((s - 1) * t) * t**i for i in range(round(k), -1, -1)])
    shown = _linear(1 / (s * number(law.q.rate, values) ** (1 - s)))  # of the slope, where the rate of ln J is 1
    columns += [np.ones_like(l), np.log(l), np.log(l) ** 2]
    rate = curve.fit("rate^stretch", g.sign * number(g.rate, values) ** s, curve.y, columns, constant=shown)
    return [power, rate]


def _linear(scale: float, shift: float = 0.0) -> Constant:
    """the constant scale * (what is fitted) + shift"""
    return lambda fitted: scale * fitted + shift
