"""E f(u) g(u) - E f(u) g(v) to any number of digits, next to correlation 1: the covariance given what u and v share."""

from __future__ import annotations

import bisect
import math

import mpmath as mp

from meanfield.gaussian.arithmetic import Function, Number, Numbers
from meanfield.gaussian.correlated import mean_of_pair, points_within
from meanfield.gaussian.landmarks import Landmarks
from meanfield.gaussian.lines import Line, breaks_between, extent_of, fall, least_reach, mean_of_lines, normal_density
from meanfield.gaussian.panels import CAP, Unresolved, degree, gauss_hermite, panel, resolved

__all__ = ["mean_covariance"]

_LN2 = math.log(2)
#: nodes of panels, times points at which they are seen
_MOST_PAIRS = 2_000_000


def mean_covariance(first: Line, second: Line, eps: mp.mpf, nats: float, numbers: Numbers) -> Number:
    """E_x Cov_xi(f, g): smooth pieces, longer than the spread of xi, apart from the zones around kinks and narrow features.

    Where zones are most of the line the points of `mean_of_pair` are fewer, and it is the difference of two means.
    """
    lines = list(dict.fromkeys((first, second)))
    functions = [line.function(numbers) for line in lines]
    marks = [line.marks(mp.mpf(4 * nats) ** 0.5 * 2) for line in lines]
    s = mp.sqrt(eps)
    start, reach = extent_of(functions, marks, 2, nats, numbers)
    within = mp.sqrt(2 * nats) + reach - least_reach(start, nats) + start * s
    breaks = breaks_between(marks, -reach, reach)
    cap = CAP**2 / max(mp.mpf(CAP), 2 * start)  # on which the density falls no more than from 0 to CAP
    smooth = resolved(functions, breaks, mp.mpf(CAP), nats, numbers, fall)
    ends = [(numbers.middle(p.low), numbers.middle(p.high)) for p in smooth]
    zones = _zones(ends, [k for m in marks for k in m.kinks if -reach < k < reach], s, within)
    pieces, points = [_pieces(a, b, s) for a, b in zones], 2 * points_within(reach, eps, nats)
    if min(sum(pieces) * degree(nats), points) * degree(nats) > _MOST_PAIRS:
        raise Unresolved("the function varies everywhere on the scale of the difference of u and v")
    if sum(pieces) * degree(nats) > points:
        more = nats - math.log(eps)  # the difference is at least about eps of either
        return mean_of_lines((first, second), more, numbers) - mean_of_pair(first, second, eps, more, numbers)
    density = normal_density(numbers, numbers.of(1 - eps))
    total = numbers.of(0)
    lengths = [math.log(float((high - low) / s)) if high - low < s * mp.mpf(2) ** 900 else 900 * _LN2 for low, high in ends]
    for j, (low, high) in enumerate(ends):
        count = _hermite_count(min(lengths[max(0, j - 1) : j + 2]) - _LN2, nats)
        for a, b in _parts(_outside(low, high, zones), cap):
            total += _smooth_part(functions, a, b, s, count, density, nats, numbers)
    for (a, b), count in zip(zones, pieces, strict=True):
        total += _rough_part(functions, marks, (a, b), count, s, within, density, nats, numbers)
    return total


def _zones(ends: list[tuple[mp.mpf, mp.mpf]], kinks: list[mp.mpf], s: mp.mpf, within: mp.mpf) -> list[tuple[mp.mpf, mp.mpf]]:
    """where the spread of xi sees a kink or a panel that is short for it; the union as disjoint intervals"""
    margin = within * s
    rough = [(k, k) for k in kinks] + [(low, high) for low, high in ends if high - low < 4 * margin]
    zones: list[tuple[mp.mpf, mp.mpf]] = []
    for low, high in sorted((low - margin, high + margin) for low, high in rough):
        if zones and low <= zones[-1][1]:
            zones[-1] = (zones[-1][0], max(high, zones[-1][1]))
        else:
            zones.append((low, high))
    return zones


def _pieces(low: mp.mpf, high: mp.mpf, s: mp.mpf) -> int:
    """panels that resolve what the spread of xi makes of a function there"""
    length = CAP / mp.sqrt(1 + 2 / (s * s))
    return int(mp.ceil((high - low) / length))


def _outside(low: mp.mpf, high: mp.mpf, zones: list[tuple[mp.mpf, mp.mpf]]) -> list[tuple[mp.mpf, mp.mpf]]:
    """what of [low, high] lies in no zone"""
    parts = []
    for a, b in zones:
        if a < high and b > low:
            if a > low:
                parts.append((low, a))
            low = max(low, b)
    return [*parts, (low, high)] if low < high else parts


def _parts(intervals: list[tuple[mp.mpf, mp.mpf]], cap: mp.mpf) -> list[tuple[mp.mpf, mp.mpf]]:
    """the same, none longer than cap"""
    cut = [(low, high, max(1, int(mp.ceil((high - low) / cap)))) for low, high in intervals]
    return [(low + (high - low) * i / n, low + (high - low) * (i + 1) / n) for low, high, n in cut for i in range(n)]


def _hermite_count(log_room: float, nats: float) -> int:
    """Gauss-Hermite nodes for a function analytic e^log_room standard deviations around: error n! e^{-2 n log_room}"""
    n = 2
    while 2 * n * log_room - math.lgamma(n + 1) < nats + 8 and n < nats / 2:
        n += 1
    return n


def _smooth_part(
    functions: list[Function], low: mp.mpf, high: mp.mpf, s: mp.mpf, count: int, density: Function, nats: float, numbers: Numbers
) -> Number:
    bits = mp.mp.prec
    steps = [(numbers.of(s * t), numbers.of(w)) for t, w in gauss_hermite(count, bits)]
    outer = panel((), numbers.of(low), numbers.of(high), degree(nats), bits, numbers)
    total = numbers.of(0)
    for centre, weight in zip(outer.nodes, outer.weights, strict=True):
        here = [f(centre) for f in functions]
        moves = [[f(centre + step) - value for step, _ in steps] for f, value in zip(functions, here, strict=True)]
        total += weight * density(centre) * _covariance_of(moves, [w for _, w in steps], numbers)
    return total


def _covariance_of(values: list[list[Number]], weights: list[Number], numbers: Numbers) -> Number:
    f, g = values[0], values[-1]
    zero = numbers.of(0)
    weighted = [w * a for w, a in zip(weights, f, strict=True)]
    both = sum((a * b for a, b in zip(weighted, g, strict=True)), zero)
    mean_f = sum(weighted, zero)
    mean_g = mean_f if g is f else sum((w * b for w, b in zip(weights, g, strict=True)), zero)
    return both - mean_f * mean_g


def _rough_part(
    functions: list[Function],
    marks: list[Landmarks],
    zone: tuple[mp.mpf, mp.mpf],
    pieces: int,
    s: mp.mpf,
    within: mp.mpf,
    density: Function,
    nats: float,
    numbers: Numbers,
) -> Number:
    """a zone: one set of panels for y serves all x, each of which sees a window of it"""
    bits, m, (low, high) = mp.mp.prec, degree(nats), zone
    middle = numbers.of((low + high) / 2)
    shifted = [_shifted(f, _finite(f, middle, numbers.of(low + (high - low) / 3), numbers)) for f in functions]
    margin = within * s
    breaks = breaks_between(marks, low - margin, high + margin)
    inner = resolved(shifted, breaks, CAP * s, nats, numbers)
    where: list[float] = []
    nodes: list[Number] = []
    weights: list[Number] = []
    values: list[list[Number]] = [[] for _ in functions]
    unit, norm = numbers.of(s), 1 / numbers.table["sqrt"](2 * numbers.of(mp.pi))
    for p in sorted(inner, key=lambda p: numbers.middle(p.low)):
        scaled = [(t - middle) / unit for t in p.nodes]
        nodes += scaled
        where += [float(numbers.middle(t)) for t in scaled]
        weights += [w * norm / unit for w in p.weights]
        for kept, new in zip(values, p.values, strict=True):
            kept += new
    total, half = numbers.of(0), float(within)
    outer: list[tuple[Number, Number, Number]] = []
    for i in range(pieces):
        a, b = (low + (high - low) * j / pieces for j in (i, i + 1))
        here = panel((), numbers.of(a), numbers.of(b), m, bits, numbers)
        outer += [((t - middle) / unit, t, w) for t, w in zip(here.nodes, here.weights, strict=True)]
    with numbers.precision(int(nats / _LN2) + 64):  # the differences are taken
        for at, centre, weight in outer:
            position = float(numbers.middle(at))
            seen = slice(bisect.bisect_left(where, position - half), bisect.bisect_right(where, position + half))
            law = [w * numbers.exp(-((t - at) ** 2) / 2) for w, t in zip(weights[seen], nodes[seen], strict=True)]
            picked = [v[seen] for v in values]
            total += weight * density(centre) * _covariance_of(picked, law, numbers)
    return total


def _finite(f: Function, at: Number, else_at: Number, numbers: Numbers) -> Number:
    """the value at the one point, or where that is infinite, as next to a logarithm, at the other"""
    try:
        value = f(at)
        numbers.log_size(value)
    except (ArithmeticError, ValueError):
        return f(else_at)
    return value


def _shifted(f: Function, by: Number) -> Function:
    return lambda t: f(t) - by
