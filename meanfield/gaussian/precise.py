r"""Gaussian expectations to any number of correct digits: E f(u), E f(u) g(v) and E f(u)^2 - E f(u) f(v), relative to their value.

All functions are taken on standard normal variables, z -> f(m + s z), and resolved by panels. For a correlation r = 1 - eps

    u = sqrt(r) x + sqrt(eps) xi,    v = sqrt(r) x + sqrt(eps) xi'    with x, xi, xi' independent,
    E f(u) g(v) = E_x (E_xi f)(E_xi g),    E f(u) g(u) - E f(u) g(v) = E_x Cov_xi(f, g),

the first away from r = 1, the second, whose terms all have the size of the result, next to it; a negative correlation mirrors g.
Every value is computed again with more nodes, other panels and longer numbers, until two in a row agree to the digits asked.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace

import mpmath as mp
import sympy as sp

from meanfield.gaussian.arithmetic import Function, Number, Numbers, numbers_for, precise_number
from meanfield.gaussian.landmarks import Landmarks, landmarks
from meanfield.gaussian.panels import CAP, Unresolved, degree, gauss_hermite, panel, resolved
from meanfield.gaussian.pieces import almost_everywhere
from meanfield.gaussian.zeros import is_zero
from meanfield.symbols import known

__all__ = ["gap_of_pair", "mean_of", "nested_mean", "product_mean_of", "settled"]

x, y = known("x"), known("y")

#: 1 - |correlation| below which the covariance given x is what is summed
NEAR = 1e-3
_LN2 = math.log(2)
_MOST_BITS = 30_000
_MOST_DIGITS = 4_000
_MOST_PAIRS = 2_000_000


@dataclass(frozen=True)
class Line:
    """f on a standard normal variable: z -> f(mean + sign sqrt(variance) z)."""

    f: sp.Expr
    mean: sp.Expr
    variance: sp.Expr
    sign: int = 1

    def mirrored(self) -> Line:
        return replace(self, sign=-self.sign)

    def scale(self) -> mp.mpf:
        return self.sign * mp.sqrt(precise_number(self.variance))

    def function(self, numbers: Numbers) -> Function:
        mean, scale = numbers.of(precise_number(self.mean)), numbers.of(self.scale())
        f = numbers.function(self.f, (x,))
        return (lambda z: f(scale * z)) if self.mean == 0 else lambda z: f(mean + scale * z)

    def marks(self, bound: mp.mpf) -> Landmarks:
        mean, scale = precise_number(self.mean), self.scale()
        ends = sorted((mean - scale * bound, mean + scale * bound))
        found = landmarks(self.f, *ends)
        kinks = tuple(sorted((k - mean) / scale for k in found.kinks))
        return Landmarks(kinks, tuple(((c - mean) / scale, w / abs(scale)) for c, w in found.features))


def _breaks(marks: list[Landmarks], low: mp.mpf, high: mp.mpf) -> list[mp.mpf]:
    """ends, kinks, and points graded away from every feature"""
    kinks = {k for m in marks for k in m.kinks if low < k < high}
    points = {low, high} | kinks
    for centre, width in {feature for m in marks for feature in m.features}:
        if not any(abs(k - centre) <= width / 8 for k in points):
            points |= {centre} if low < centre < high else set()
        step = width
        while step < high - low:
            for point in (centre - step, centre + step):
                if low < point < high and not any(abs(k - point) <= step / 8 for k in points):
                    points.add(point)
            step *= 8
    return sorted(points)


def _reach(functions: list[Function], marks: list[Landmarks], power: int, nats: float, numbers: Numbers) -> mp.mpf:
    """how far from 0 the largest |f|^power times the normal density still matters"""
    bound = math.sqrt(2 * nats) + 1
    spots = [t * side for t in (0.103, 0.511, 1.027, 3.041, bound / 2) for side in (-1, 1)]  # no places of logarithms
    spots += [float(k + side * mp.mpf("0.01")) for m in marks for k in (*m.kinks, *(c for c, _ in m.features)) for side in (-1, 1)]

    def size(t: float) -> float:
        return power * max(numbers.log_size(f(numbers.of(t))) for f in functions) - t * t / 2

    largest = max(size(t) for t in spots)
    for _ in range(100):
        largest = max(largest, size(bound / 1.5), size(-bound / 1.5))
        if all(size(side * t * bound) <= largest - nats for t in (1.0, 1.1, 1.3, 1.7, 2.5) for side in (-1, 1)):
            return mp.mpf(bound)
        bound *= 1.2
    raise ArithmeticError("the expectation diverges: the function grows as fast as the normal density falls")


def _fall(t: mp.mpf) -> float:
    return -float(t * t) / 4


def _density(numbers: Numbers, variance: Number) -> Function:
    norm = 1 / numbers.table["sqrt"](2 * numbers.of(mp.pi) * variance)
    return lambda t: norm * numbers.exp(-t * t / (2 * variance))


def _mean(lines: tuple[Line, ...], nats: float, numbers: Numbers) -> Number:
    """E of the product of the lines, of one standard normal variable"""
    parts = [line.function(numbers) for line in lines]
    product = parts[0] if len(parts) == 1 else lambda z: parts[0](z) * parts[1](z)
    return _mean_of_function(product, lambda b: [line.marks(b) for line in lines], nats, numbers)


def _mean_of_function(f: Function, marks_within: Callable[[mp.mpf], list[Landmarks]], nats: float, numbers: Numbers) -> Number:
    marks = marks_within(mp.mpf(2 * nats) ** 0.5 * 2)
    bound = _reach([f], marks, 1, nats, numbers)
    density, total = _density(numbers, numbers.of(1)), numbers.of(0)
    for p in resolved([f], _breaks(marks, -bound, bound), mp.mpf(CAP), nats, numbers, _fall):
        for t, w, value in zip(p.nodes, p.weights, p.values[0], strict=True):
            total += w * value * density(t)
    return total


# -- a pair away from correlation 1 ----------------------------------------------------------------------------------------------------


def _product(first: Line, second: Line, eps: mp.mpf, nats: float, numbers: Numbers) -> Number:
    r"""E f(u) g(v): x on equidistant points, where the normal density of y around sqrt(r) x is a power of the step.

    Whatever f is, |E_xi f(t + i eta)| <= e^{eta^2 / (2 eps)} E |f|: the trapezoidal rule in x errs by exp(-2 pi^2 / (h^2 g)),
    g = (1 + r)/(1 - r).
    """
    r = 1 - eps
    functions = [line.function(numbers) for line in dict.fromkeys((first, _unsigned(second, first)))]
    lines = list(dict.fromkeys((first, _unsigned(second, first))))
    marks = [line.marks(mp.mpf(4 * nats) ** 0.5 * 2) for line in lines]
    reach = _reach(functions, marks, 2, nats, numbers)
    h = 2 * mp.pi / mp.sqrt(2 * (nats + 4) * (1 + r) / eps)
    h = reach / int(mp.ceil(reach / h))
    count = int(reach / h + 1)
    means = [_smoothed(f, m, eps, h, count, reach, nats, numbers) for f, m in zip(functions, marks, strict=True)]
    g = means[-1] if _unsigned(second, first) == second else means[-1][::-1]
    density, step, total = _density(numbers, numbers.of(1)), numbers.of(h), numbers.of(0)
    for i in range(-count, count + 1):
        total += density(step * i) * means[0][i + count] * g[i + count]
    return step * total


def _unsigned(line: Line, like: Line) -> Line:
    """the line or its mirror image, whichever is the other line"""
    return like if line.mirrored() == like else line


def _smoothed(
    f: Function, marks: Landmarks, eps: mp.mpf, h: mp.mpf, count: int, reach: mp.mpf, nats: float, numbers: Numbers
) -> list[Number]:
    """E_xi f(sqrt(r) x + sqrt(eps) xi) at x = h i, i = -count ... count"""
    a, s = mp.sqrt(1 - eps), mp.sqrt(eps)
    ah, variance = numbers.of(a * h), numbers.of(eps)
    window, per_step = float(reach * s), float(a * h)
    bound = (a + s) * reach
    sums = [numbers.of(0)] * (2 * count + 1)
    for p in resolved([f], _breaks([marks], -bound, bound), min(CAP * s, mp.mpf(CAP)), nats, numbers, _fall):
        for t, w, value in zip(p.nodes, p.weights, p.values[0], strict=True):
            where = float(numbers.middle(t))
            low = max(-count, math.ceil((where - window) / per_step)) if per_step else -count
            high = min(count, math.floor((where + window) / per_step)) if per_step else count
            if low > high:
                continue
            term = w * value * numbers.exp((low * ah - t / 2) * t / variance)
            ratio = numbers.exp(ah * t / variance)
            for i in range(low + count, high + count + 1):
                sums[i] += term
                term *= ratio
    norm = 1 / numbers.table["sqrt"](2 * numbers.of(mp.pi) * variance)
    return [norm * total * numbers.exp(-((ah * (i - count)) ** 2) / (2 * variance)) for i, total in enumerate(sums)]


# -- a pair next to correlation 1 ------------------------------------------------------------------------------------------------------


def _covariance(first: Line, second: Line, eps: mp.mpf, nats: float, numbers: Numbers) -> Number:
    """E_x Cov_xi(f, g): smooth pieces, longer than the spread of xi, apart from the zones around kinks and narrow features"""
    lines = list(dict.fromkeys((first, second)))
    functions = [line.function(numbers) for line in lines]
    marks = [line.marks(mp.mpf(4 * nats) ** 0.5 * 2) for line in lines]
    s = mp.sqrt(eps)
    reach = _reach(functions, marks, 2, nats, numbers)
    within = mp.sqrt(2 * nats) + reach - _reach_of_constant(nats)
    breaks = _breaks(marks, -reach, reach)
    smooth = resolved(functions, breaks, mp.mpf(CAP), nats, numbers, _fall)
    ends = [(numbers.middle(p.low), numbers.middle(p.high)) for p in smooth]
    zones = _zones(ends, [k for m in marks for k in m.kinks if -reach < k < reach], s, within)
    density = _density(numbers, numbers.of(1 - eps))
    total = numbers.of(0)
    lengths = [math.log(float((high - low) / s)) if high - low < s * mp.mpf(2) ** 900 else 900 * _LN2 for low, high in ends]
    for j, (low, high) in enumerate(ends):
        count = _hermite_count(min(lengths[max(0, j - 1) : j + 2]) - _LN2, nats)
        for a, b in _outside(low, high, zones):
            total += _smooth_part(functions, a, b, s, count, density, nats, numbers)
    for a, b in zones:
        total += _rough_part(functions, marks, a, b, s, within, density, nats, numbers)
    return total


def _reach_of_constant(nats: float) -> mp.mpf:
    return mp.mpf(math.sqrt(2 * nats) + 1)


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


def _outside(low: mp.mpf, high: mp.mpf, zones: list[tuple[mp.mpf, mp.mpf]]) -> list[tuple[mp.mpf, mp.mpf]]:
    """what of [low, high] lies in no zone"""
    parts = []
    for a, b in zones:
        if a < high and b > low:
            if a > low:
                parts.append((low, a))
            low = max(low, b)
    return [*parts, (low, high)] if low < high else parts


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
    low: mp.mpf,
    high: mp.mpf,
    s: mp.mpf,
    within: mp.mpf,
    density: Function,
    nats: float,
    numbers: Numbers,
) -> Number:
    """a zone: one set of panels for y serves all x, each of which sees a window of it"""
    bits, m = mp.mp.prec, degree(nats)
    length = CAP / mp.sqrt(1 + 2 / (s * s))
    pieces = int(mp.ceil((high - low) / length))
    if pieces > _MOST_PAIRS // (8 * m * m):
        raise Unresolved("the function varies everywhere on the scale of the difference of u and v")
    middle = numbers.of((low + high) / 2)
    shifted = [_shifted(f, _finite(f, middle, numbers.of(low + (high - low) / 3), numbers)) for f in functions]
    margin = within * s
    breaks = _breaks(marks, low - margin, high + margin)
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


# -- certificates ------------------------------------------------------------------------------------------------------------------------


def _certified(run: Callable[[float], Number], numbers: Numbers, prec: int, what: object, lost_bits: int = 0) -> mp.mpf:
    """run(accuracy in nats) twice in a row alike to prec bits, each time with more nodes and longer numbers"""
    nats, before, trouble, wild = prec * _LN2 + 6.0, None, "", 0
    for attempt in range(8):
        bits = -(-(int(nats / _LN2) + 40 + 30 * attempt + lost_bits) // 64) * 64
        if bits > _MOST_BITS:
            break
        step = 18.0
        with numbers.precision(bits):
            try:
                raw = run(nats)
            except Unresolved as error:
                if attempt == 1:
                    raise ArithmeticError(f"{what}: no rule is certain to {mp.mp.dps} digits: {error}") from None
                before, trouble = None, str(error)
            else:
                value, radius = numbers.middle(raw), numbers.error(raw)
                if before is not None and mp.isfinite(value):
                    off = abs(value - before) + radius
                    if value != 0 and off <= mp.ldexp(abs(value), -prec - 2):
                        return value
                    wild += bool(2 * off > abs(value))
                    if wild == 3:
                        break
                    lost = mp.log(off / abs(value)) + prec * _LN2 if value and mp.isfinite(off) and off else mp.mpf(60)
                    step += min(max(float(lost), 10.0), 2 * nats)
                before = value if mp.isfinite(value) else None
        nats += step
    raise ArithmeticError(
        f"{what} could not be certified to {round(prec * _LN2 / math.log(10))} digits: two accuracies do not agree {trouble}"
        "(the integrand oscillates, is singular on the real line, or the value cannot be told from 0)"
    )


def _odd(f: sp.Expr) -> bool:
    """f(-x) = -f(x): numerically, then by algebra"""
    total = f + f.xreplace({x: -x})
    if any(abs(sp.N(total.subs(x, sp.Rational(k, 7)), 30, chop=True)) > 1e-25 for k in (1, 5, 23)):
        return False
    return is_zero(total)


def _even(f: sp.Expr) -> bool:
    return bool(f == f.xreplace({x: -x}) or _odd(x * f))


def mean_of(f: sp.Expr, mean: sp.Expr, variance: sp.Expr, prec: int) -> mp.mpf:
    """E f(u), u ~ N(mean, variance), to prec bits."""
    f = almost_everywhere(f)
    numbers = numbers_for(f)
    if mean == 0 and _odd(f):
        return mp.mpf(0)
    line = Line(f, mean, variance)
    return _certified(lambda nats: _mean((line,), nats, numbers), numbers, prec, f"E[{f}]")


@dataclass(frozen=True)
class Law:
    """Variances, 1 - |correlation| and the sign of the correlation, and means."""

    v1: sp.Expr
    v2: sp.Expr
    eps: sp.Expr
    sign: int
    m1: sp.Expr
    m2: sp.Expr


def law_of(v1: sp.Expr, cov: sp.Expr, v2: sp.Expr, m1: sp.Expr, m2: sp.Expr) -> Law:
    sign = -1 if cov.is_negative else 1
    root = v1 if v1 == v2 else sp.sqrt(v1 * v2)
    return Law(v1, v2, 1 - sign * cov / root, sign, m1, m2)


def _vanishes(first: Line, second: Line, prec: int) -> bool:
    """whether the product is 0 between all kinks: exactly so, by algebra, at points of every piece"""
    with mp.workprec(prec):
        kinks = sorted({k for line in (first, second) for k in line.marks(mp.mpf(prec)).kinks})
    ends = [-mp.mpf(prec), *kinks, mp.mpf(prec)] if kinks else []
    return bool(ends) and all(
        any(sp.sympify(_at(line, low + (high - low) * sp.Rational(k, 7))).is_zero for line in (first, second))
        for low, high in itertools.pairwise(map(_rational, ends))
        for k in (2, 3, 5)
    )


def _rational(t: mp.mpf) -> sp.Rational:
    return sp.Rational(str(mp.nstr(t, 15)))


def _at(line: Line, z: sp.Rational) -> sp.Expr:
    scale = sp.Rational(str(mp.nstr(line.sign * mp.sqrt(precise_number(line.variance)), 15)))
    return line.f.xreplace({x: line.mean + scale * z})


def product_mean_of(f: sp.Expr, g: sp.Expr, law: Law, prec: int) -> mp.mpf:
    """E f(u) g(v), to prec bits."""
    f, g = almost_everywhere(f), almost_everywhere(g)
    numbers = numbers_for(f, g)
    if law.m1 == 0 and law.m2 == 0 and ((_odd(f) and _even(g)) or (_even(f) and _odd(g))):
        return mp.mpf(0)
    if law.eps == 1:
        with mp.workprec(prec + 10):
            return mean_of(f, law.m1, law.v1, prec + 10) * mean_of(g, law.m2, law.v2, prec + 10)
    first, second = Line(f, law.m1, law.v1), Line(g, law.m2, law.v2, law.sign)
    if law.eps == 0 and _vanishes(first, second, prec):
        return mp.mpf(0)

    def run(nats: float) -> Number:
        eps = precise_number(law.eps)
        if eps >= NEAR:
            return _product(first, second, eps, nats, numbers)
        value = _mean((first, second), nats, numbers)
        return value - _covariance(first, second, eps, nats, numbers) if eps > 0 else value

    return _certified(run, numbers, prec, f"E[{f * g.xreplace({x: y})}]", _small(law.eps))


def _small(eps: sp.Expr) -> int:
    """bits that a difference of values at a distance of sqrt(eps) loses"""
    with mp.workprec(60):
        value = precise_number(eps)
        return max(0, int(-mp.log(value, 2))) if 0 < value < NEAR else 0


def gap_of_pair(f: sp.Expr, variance: sp.Expr, delta: sp.Expr, prec: int) -> mp.mpf:
    """E f(u)^2 - E f(u) f(v) for covariance variance - delta, to prec bits of itself."""
    f = almost_everywhere(f)
    numbers = numbers_for(f)
    line = Line(f, sp.S.Zero, variance)
    ratio = delta / variance
    negative = bool(ratio > 1)
    eps_exact = 2 - ratio if negative else ratio
    other = line.mirrored() if negative else line
    if delta == 0 or (eps_exact == 0 and _even(f)):
        return mp.mpf(0)

    def run(nats: float) -> Number:
        eps = precise_number(eps_exact)
        if eps >= NEAR:
            # the panels of the second moment are good to e^-nats of it, of which the gap is at least about eps
            more = nats - 2 * math.log(NEAR) / 2
            return _mean((line, line), more, numbers) - _product(line, other, eps, more, numbers)
        if not negative:
            return _covariance(line, line, eps, nats, numbers)
        value = _half_square_of_odd_part(line, nats, numbers)
        return value + _covariance(line, other, eps, nats, numbers) if eps > 0 else value

    return _certified(run, numbers, prec, f"the gap of {f}", _small(eps_exact))


def _half_square_of_odd_part(line: Line, nats: float, numbers: Numbers) -> Number:
    """E f(u)^2 - E f(u) f(-u) = E (f(u) - f(-u))^2 / 2"""
    if _even(line.f):
        return numbers.of(0)
    f, g = line.function(numbers), line.mirrored().function(numbers)
    marks = lambda b: [line.marks(b), line.mirrored().marks(b)]  # noqa: E731
    return _mean_of_function(lambda z: (f(z) - g(z)) ** 2 / 2, marks, nats, numbers)


def nested_mean(f: sp.Expr, law: Law, prec: int) -> mp.mpf:
    """E f(u, v), f no product of functions of u and of v."""
    numbers = numbers_for(f)
    if f.has(sp.Max, sp.Min, sp.Abs, sp.sign, sp.Heaviside, sp.Piecewise):
        raise ArithmeticError(f"{f} has kinks along curves: its digits are known only for sums of products f(x) g(y)")

    def run(nats: float) -> Number:
        eps = precise_number(law.eps)
        s1, s2 = (mp.sqrt(precise_number(v)) for v in (law.v1, law.v2))
        m1, m2 = numbers.of(precise_number(law.m1)), numbers.of(precise_number(law.m2))
        a, b = numbers.of(s1), numbers.of(s2 * law.sign * (1 - eps))
        c = numbers.of(s2 * mp.sqrt(eps * (2 - eps)))
        function = numbers.function(f, (x, y))
        none = lambda bound: [Landmarks((), ((mp.mpf(0), mp.mpf(1)),))]  # noqa: E731

        def given(z: Number) -> Number:
            u, mean = m1 + a * z, m2 + b * z
            return function(u, mean) if eps == 0 else _mean_of_function(lambda t: function(u, mean + c * t), none, nats, numbers)

        return _mean_of_function(given, none, nats, numbers)

    return _certified(run, numbers, prec, f"E[{f}]")


def settled(e: sp.Expr, prec: int) -> sp.Expr:
    """A closed expression to prec bits, relative to its value: evaluated with more and more digits until two in a row agree."""
    digits, before = mp.libmp.prec_to_dps(prec) + 2, None
    for more in itertools.accumulate(itertools.repeat(3), operator.mul, initial=12):
        if more > _MOST_DIGITS:
            break
        raw = e.evalf(digits + more, maxn=2 * (digits + more))
        if raw.has(sp.S.NaN, sp.S.ComplexInfinity):
            raise ArithmeticError(f"{e} is a quotient of zeros there: evaluate the moment itself, or the limit")
        value = _real(raw, digits)
        if not value.is_Float:
            return value
        if before is not None and _alike(before, value, prec):
            return sp.Float._new(mp.libmp.mpf_pos(value._mpf_, prec, "n"), prec)
        if before is not None and more > 900 and abs(value) < sp.Float(10) ** -900 and _is_zero(e):
            return sp.S.Zero
        before = value
    raise ArithmeticError(f"{e} could not be certified to {digits} digits: the value cannot be told from 0")


def _is_zero(e: sp.Expr) -> bool:
    """by algebra, as for the gap of an even function at correlation -1"""
    return is_zero(e.replace(lambda t: hasattr(t, "definition"), lambda t: t.definition()).rewrite(sp.exp))


def _real(value: sp.Expr, digits: int) -> sp.Expr:
    """without the rounding that complex intermediate values leave"""
    real, imaginary = value.as_real_imag()
    return real if abs(imaginary) <= abs(real) * sp.Float(10) ** -digits else value


def _alike(a: sp.Float, b: sp.Float, prec: int) -> bool:
    with mp.workprec(prec + 60):
        first, second = mp.mpf(a._mpf_), mp.mpf(b._mpf_)
        return bool(second != 0 and abs(first - second) <= mp.ldexp(abs(second), -prec - 2))
