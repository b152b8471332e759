r"""Gaussian moments as balls: rigorous one-dimensional integrals, and what two-dimensional moments are known from.

- One variable: `acb.integral` between kinks; what lies beyond the cut is bounded by the growth of the function and added to the ball.
- Two variables, E phi(u) phi(v) with u = m + a x + s xi_1, v = m + a x + s xi_2 (a^2 = p, s^2 = q - p; -a for v where p < 0):
  given x they are independent, E_x g(x) g(+-x) with g(x) = E phi(m + a x + s xi). Where g is closed this is one rigorous integral:
  `certified`. Where not, g and the outer mean are Gauss panels and trapezoids, computed twice with different nodes: `agreed`.
- Gaps E phi(u)^2 - E phi(u) phi(v): that difference with as many digits more as it cancels; at the smallest delta their leading term.

A function that needs more digits than it was given raises `Inaccurate`; `settled` asks again with more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from flint import acb, arb, arb_mat, ctx

from oracle.functions import Exponentials, Function, Open, Piece, density, nothing, real

DIGITS = 26  # of every stored value that is certified
AGREED = 27  # of the rules that are made to agree


class Inaccurate(ArithmeticError):
    """the ball is too wide at this precision"""


def settled(compute: Callable[[int], arb], digits: int = DIGITS, first: int = 38, last: int = 900) -> arb:
    """compute(n) with n digits of working precision, n growing until the relative radius is below 10^-digits"""
    n = first
    while n <= last:
        with ctx.workdps(n):
            value = compute(n)
            if value.is_zero() or value.rel_accuracy_bits() > 3.33 * digits:
                return value
        n = 2 * n
    raise Inaccurate(f"{value} at {n // 2} digits")


def width(digits: int) -> float:
    """standard deviations beyond which a Gaussian is below 10^-digits"""
    return math.sqrt(2 * math.log(10) * digits) + 1


# -- one variable ----------------------------------------------------------------------------------------------------------------------


def _integral(f: Piece, lo: arb, hi: arb, centre: arb, q: arb, digits: int) -> arb:
    """integral of f n(.; centre, q) from lo to hi, in units of the largest weight there"""
    peak = lo if centre < lo else hi if centre > hi else centre
    top = (peak - centre) ** 2

    def integrand(y: acb, analytic: bool) -> acb:
        return f(y, analytic) * ((top - (y - centre) ** 2) / (2 * q)).exp()

    tolerance = arb(10) ** (-digits - 60)
    unit = (2 * arb.pi() * q).sqrt()
    found = acb.integral(integrand, acb(lo), acb(hi), abs_tol=tolerance * unit, eval_limit=10**7, depth_limit=10**5)
    return found.real * (-top / (2 * q)).exp() / unit


def one(pieces: Sequence[Piece], kinks: Sequence[Fraction], growth: tuple[int, int], q: float, mean: float, digits: int) -> arb:
    """E f(u), u ~ N(mean, q), |f| <= growth[0] (1 + |x|)^growth[1]"""
    v, m = arb(q), arb(mean)
    s, r = v.sqrt(), arb(width(digits + 10))
    inner = [real(k) for k in kinks]
    total = arb(0)
    for i, piece in enumerate(pieces):
        if piece is nothing:
            continue
        lo = inner[i - 1] if i else None
        hi = inner[i] if i < len(inner) else None
        # the cut: as far beyond the nearest point of the piece as beyond the mean
        low = (m - ((r * s) ** 2 + ((m - hi) ** 2 if hi is not None and hi < m else 0)).sqrt()).mid()
        high = (m + ((r * s) ** 2 + ((lo - m) ** 2 if lo is not None and lo > m else 0)).sqrt()).mid()
        a, b = low if lo is None or lo < low else lo, high if hi is None or hi > high else hi
        if a < b:
            split = m if a < m < b else None
            for x, y in ((a, b),) if split is None else ((a, split), (split, b)):
                total += _integral(piece, x, y, m, v, digits)
        # 2 int_r^oo c (1 + |m| + s z)^k n(z) dz; relative to the nearest point of the piece where that is further out
        c, k = growth
        edge = max((abs(float(e - m) / float(s)) for e in (lo, hi) if e is not None), default=0.0) if not a <= m <= b else 0.0
        far = (r * r + arb(edge) ** 2).sqrt()
        tail = 4 * c * (1 + abs(m) + s * far) ** k * density(far)
        total += arb(0, tail.upper())
    return total


def _squared(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    return tuple(f if f is nothing else (lambda z, a, f=f: f(z, a) ** 2) for f in pieces)


def mean(f: Function, q: float, m: float, digits: int) -> arb:
    if isinstance(f, Exponentials):
        return f.single(arb(m), arb(q))
    return one(f.values, f.kinks, f.growth, q, m, digits)


def second(f: Function, q: float, m: float, digits: int, slope: bool = False) -> arb:
    if isinstance(f, Exponentials):
        return f.pair(arb(m), arb(q), arb(q), arb(q), slope)
    c, k = f.growth
    return one(_squared(f.slopes if slope else f.values), f.kinks, (c * c, 2 * k), q, m, digits)


def _beside_its_mirror(f: Function, slope: bool) -> tuple[tuple[Piece, ...], list[Fraction]]:
    """phi(x) phi(-x) in pieces"""
    pieces = f.slopes if slope else f.values
    kinks = sorted({*f.kinks, *(-k for k in f.kinks)} | {Fraction(0)})
    inside = [kinks[0] - 1, *((a + b) / 2 for a, b in pairwise(kinks)), kinks[-1] + 1]

    def piece(x: Fraction) -> Piece:
        return pieces[sum(k < x for k in f.kinks)]

    def product(first: Piece, other: Piece) -> Piece:
        return nothing if nothing in (first, other) else lambda z, a: first(z, a) * other(-z, a)

    return tuple(product(piece(x), piece(-x)) for x in inside), kinks


def mirrored(f: Function, q: float, digits: int, slope: bool = False) -> arb:
    """E phi(u) phi(-u)"""
    if isinstance(f, Exponentials):
        return f.pair(arb(0), arb(q), arb(-q), arb(q), slope)
    if f.parity:
        return (-f.parity if slope else f.parity) * second(f, q, 0.0, digits, slope)
    c, k = f.growth
    return one(*_beside_its_mirror(f, slope), (c * c, 2 * k), q, 0.0, digits)


def mirrored_size(f: Function, q: float, slope: bool) -> float:
    """E |phi(u) phi(-u)| to about three digits"""
    pieces, kinks = _beside_its_mirror(f, slope)
    with ctx.workprec(53):
        return float(_inner([_modulus(pieces)], f, [real(t) for t in kinks], arb(0), arb(q).sqrt(), Rule(6, 0))[0])


# -- two variables, closed smoothing --------------------------------------------------------------------------------------------------


def smoothed(f: Function, q1: arb, p: arb, q2: arb, m: arb, slope: bool, digits: int) -> arb:
    """E_x g_1(x) g_2(+-x), rigorous; |rho| < 1, and g of at most polynomial growth"""
    g = f.smooth_slope if slope else f.smooth
    assert g is not None
    root = (q1 * q2).sqrt()
    share, sign = abs(p) / root, 1 if p >= 0 else -1
    scales = [((share * q).sqrt(), ((1 - share) * q).sqrt()) for q in (q1, q2)]
    if p.is_zero():
        return (g(m, scales[0][1]) * g(m, scales[1][1])).real if isinstance(g(m, scales[0][1]), acb) else g(m, q1.sqrt()) * g(m, q2.sqrt())
    same = sign > 0 and (q1 - q2).is_zero()

    def integrand(x: acb, _: bool) -> acb:
        first = g(m + scales[0][0] * x, scales[0][1])
        other = first if same else g(m + sign * scales[1][0] * x, scales[1][1])
        return first * other * (-x * x / 2).exp()

    reach = arb(width(digits + 10))
    cuts = sorted({0.0, *(t * float((real(k) - m) / a) for k in f.kinks for a, t in ((scales[0][0], 1), (scales[1][0], sign)))})
    edges = [-reach, *(arb(t) for t in cuts if abs(t) < float(reach)), reach]
    tolerance = arb(10) ** (-digits - 60)
    total = arb(0)
    if f.parity and m.is_zero():
        edges = [e for e in edges if not e < 0]
    for a, b in pairwise(edges):
        total += acb.integral(integrand, acb(a), acb(b), abs_tol=tolerance, eval_limit=10**7, depth_limit=10**5).real
    if f.parity and m.is_zero():
        total *= 2
    c, k = f.growth
    if slope and f.has_jumps:  # a density of height 1/s on top
        c = c + float(sum((abs(j) for j in f.jumps()), arb(0)) / scales[0][1]) + float(1 / scales[1][1])
    s = sum((a + b for a, b in scales), arb(0))
    tail = 4 * arb(c) ** 2 * (1 + abs(m) + s * (reach + 2 * k)) ** (2 * k) * density(reach)
    return total / (2 * arb.pi()).sqrt() + arb(0, tail.upper())


# -- two variables, panels -------------------------------------------------------------------------------------------------------------


@cache
def _legendre(n: int, precision: int) -> tuple[tuple[arb, arb], ...]:
    with ctx.workprec(precision):
        return tuple((x.mid(), w.mid()) for x, w in (arb.legendre_p_root(n, k, weight=True) for k in range(n)))


def _nodes(edges: Sequence[arb], n: int) -> list[tuple[arb, arb]]:
    rule = _legendre(n, ctx.prec)
    found = []
    for a, b in pairwise(edges):
        half, middle = ((b - a) / 2).mid(), ((a + b) / 2).mid()
        found += [(middle + half * x, half * w) for x, w in rule]
    return found


def _edges(lo: arb, hi: arb, kinks: Sequence[arb], grades: Sequence[tuple[arb, float, int]], longest: float, ratio: float) -> list[arb]:
    """panels from lo to hi: split at kinks, graded away from (centre, first length, even steps before growing), none too long"""
    marks = [lo, hi, *(k for k in kinks if lo < k < hi)]
    span = float(hi - lo)
    for centre, first, even in grades:
        if not first < longest:
            continue
        offsets, step = [0.0] if even else [], first
        for i in range(1, even):
            offsets.append(first * i)
            step = first * (i + 1)
        while step < 2 * span:
            offsets.append(step)
            step *= ratio
        marks += [e for t in offsets for e in (centre - t, centre + t) if lo < e < hi]
    marks = sorted((e.mid() for e in marks), key=lambda e: e)
    edges = [marks[0]]
    for e in marks[1:]:
        length = float(e - edges[-1])
        if length <= 0:
            continue
        parts = math.ceil(length / longest)
        start = edges[-1]
        edges += [(start + (e - start) * j / parts).mid() for j in range(1, parts)] + [e]
    return edges


def _pieces_at(pieces: Sequence[Piece], kinks: Sequence[arb], y: arb) -> Any:
    i = 0
    for k in kinks:
        if y > k:
            i += 1
    return pieces[i](y, False)


def _modulus(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    return tuple(lambda z, a, f=f: abs(f(z, a)) for f in pieces)


class Rule:
    """the numbers of one rule of so many digits; two variants share no node"""

    def __init__(self, digits: int, variant: int) -> None:
        self.reach = width(digits) + 0.3 * variant
        self.order = int(1.15 * digits) + 6 + 5 * variant
        self.step = math.pi * math.sqrt(2 / (math.log(10) * (digits + 2))) * (0.93 if variant else 1.0)
        self.shift = 0.37 * variant
        self.longest = 4.6 - 0.5 * variant
        self.ratio = 4.0 - 0.6 * variant
        count = int(self.reach / self.step) + 1
        grid = [(arb(j) + arb(self.shift)) * arb(self.step) for j in range(-count - 1, count + 1)]
        self.gauss = [(x, arb(self.step) * density(x)) for x in grid]


def _inner(sets: Sequence[Sequence[Piece]], f: Function, kinks: Sequence[arb], m: arb, s: arb, rule: Rule) -> list[arb]:
    """E f(m + s xi) for each f"""
    half = float(s) * rule.reach
    near = [(real(c), d) for c, d in f.features if abs(float(m - real(c))) < 1.05 * half and d < rule.reach * float(s)]
    cut = [k for k in kinks if abs(float(m - k)) < half]
    total = [arb(0)] * len(sets)
    if not near and not cut:
        for x, w in rule.gauss:
            y = (m + s * x).mid()
            for i, pieces in enumerate(sets):
                total[i] += w * _pieces_at(pieces, kinks, y)
        return [t.mid() for t in total]
    grades = [(c, 0.8 * d, 0) for c, d in near]
    norm = 1 / (s * (2 * arb.pi()).sqrt())
    scale = -1 / (2 * s * s)
    for y, w in _nodes(_edges(m - arb(half), m + arb(half), cut, grades, rule.longest * float(s), rule.ratio), rule.order):
        weight = (w * norm * ((y - m) ** 2 * scale).exp()).mid()
        for i, pieces in enumerate(sets):
            total[i] += weight * _pieces_at(pieces, kinks, y)
    return [t.mid() for t in total]


def _panels(sets: Sequence[Sequence[Piece]], f: Function, q1: arb, p: arb, q2: arb, m: arb, digits: int, variant: int) -> list[arb]:
    """E f(u) f(v) for each f, |p| < sqrt(q1 q2)"""
    rule = Rule(digits, variant)
    root = (q1 * q2).sqrt()
    share, sign = abs(p) / root, 1 if p >= 0 else -1
    (a1, s1), (a2, s2) = (((share * q).sqrt().mid(), ((1 - share) * q).sqrt().mid()) for q in (q1, q2))
    kinks = [real(k) for k in f.kinks]
    same = (q1 - q2).is_zero()
    if p.is_zero():
        first = _inner(sets, f, kinks, m, s1, rule)
        other = first if same else _inner(sets, f, kinks, m, s2, rule)
        return [(x * y).mid() for x, y in zip(first, other, strict=True)]
    grades = []
    for a, s, t in ((a1, s1, 1), (a2, s2, sign)):
        centres = [(k, 0.0) for k in kinks] + [(real(c), d) for c, d in f.features]
        grades += [(t * (c - m) / a, rule.longest * 0.9 * max(float(s), 0.25 * d) / float(a), 4) for c, d in centres]
        if same and t == sign:
            break
    reach = arb(rule.reach)
    edges = _edges(-reach, reach, [], grades, rule.longest, rule.ratio)
    even = bool(f.parity) and m.is_zero()
    if even:
        edges = [arb(0), *(e for e in edges if e > 0)]
    total = [arb(0)] * len(sets)
    for x, w in _nodes(edges, rule.order):
        weight = (w * density(x) * (2 if even else 1)).mid()
        first = _inner(sets, f, kinks, m + a1 * x, s1, rule)
        if same and sign > 0:
            other = first
        elif same and even:
            other = [_reflected(sets, i, f) * v for i, v in enumerate(first)]
        else:
            other = _inner(sets, f, kinks, m + sign * a2 * x, s2, rule)
        for i in range(len(sets)):
            total[i] = (total[i] + weight * first[i] * other[i]).mid()
    return total


def _reflected(sets: Sequence[Sequence[Piece]], i: int, f: Function) -> int:
    """the sign of f(-x)/f(x) of one of the functions"""
    kinks = [real(k) for k in f.kinks]
    x = arb(0.8125)
    return 1 if _pieces_at(sets[i], kinks, x) * _pieces_at(sets[i], kinks, -x) > 0 else -1


def agreed(f: Function, q1: arb, p: arb, q2: arb, m: arb, digits: int) -> list[arb]:
    """E phi(u) phi(v) and E phi'(u) phi'(v) by two rules of that many digits: their middle, the difference as radius"""
    found = []
    for variant in (0, 1):
        with ctx.workdps(digits + 12):
            found.append(_panels([f.values, f.slopes], f, q1, p, q2, m, digits, variant))
    return [a.union(b) for a, b in zip(*found, strict=True)]


def _product(functions: Sequence[Function], q1: arb, p: arb, q2: arb, m: arb, digits: int, variant: int) -> list[tuple[arb, arb]]:
    """E phi(u) phi(v), E phi'(u) phi'(v) for many functions on one grid of panels with the joint density: rho not near 1"""
    rule = Rule(digits, variant)
    det = q1 * q2 - p * p
    kinks = sorted({k for f in functions for k in f.kinks})
    finest = min(d for f in functions for _, d in f.features)
    grids = []
    for own, other in ((q1, q2), (q2, q1)):
        half = (own.sqrt() * rule.reach).mid()
        longest = rule.longest * float((det / other).sqrt())
        edges = _edges(m - half, m + half, [real(k) for k in kinks], [(arb(0), 0.8 * finest, 0)], longest, rule.ratio)
        grids.append(_nodes(edges, rule.order))
        if (q1 - q2).is_zero():
            grids.append(grids[0])
            break
    (us, vs), same = grids, grids[0] is grids[1]
    a, b, c = (t / (2 * det) for t in (q2, 2 * p, q1))
    front = 1 / (2 * arb.pi() * det.sqrt())
    left = [(front * w, (a * (u - m) ** 2).mid(), (b * (u - m)).mid()) for u, w in us]
    right = [(w, (c * (v - m) ** 2).mid(), (v - m).mid()) for v, w in vs]
    far = -math.log(10) * (digits + 5)
    coarse = [(float(x), float(y)) for _, x, y in right]
    rows = []
    for i, (_, x, y) in enumerate(left):
        fx, fy = float(x), float(y)
        row = [arb(0)] * len(right)
        for j in range(i if same else 0, len(right)):
            e, t = coarse[j]
            if fy * t - fx - e > far:
                row[j] = (y * right[j][2] - x - right[j][1]).exp()
        rows.append(row)
    if same:
        for i in range(len(left)):
            for j in range(i):
                rows[i][j] = rows[j][i]
    weights = arb_mat(rows)
    sets = [pieces for f in functions for pieces in (f.values, f.slopes)]
    at = [[real(k) for k in f.kinks] for f in functions for _ in range(2)]
    first = [[(w * _pieces_at(s, k, u)).mid() for (u, _), (w, _, _) in zip(us, left, strict=True)] for s, k in zip(sets, at, strict=True)]
    inner = (arb_mat(first) * weights).table()
    second = [[(w * _pieces_at(s, k, v)).mid() for (v, _), (w, _, _) in zip(vs, right, strict=True)] for s, k in zip(sets, at, strict=True)]
    found = [sum((x.mid() * y for x, y in zip(r, s, strict=True)), arb(0)).mid() for r, s in zip(inner, second, strict=True)]
    return list(zip(found[::2], found[1::2], strict=True))


def agreed_kernels(functions: Sequence[Function], q1: float, p: arb, q2: float, m: float, digits: int = AGREED) -> list[tuple[arb, arb]]:
    """the same for many functions at once, on two product grids"""
    with ctx.workdps(digits + 10):
        found = [_product(functions, arb(q1), arb(p), arb(q2), arb(m), digits, variant) for variant in (0, 1)]
        return [(a.union(c), b.union(d)) for (a, b), (c, d) in zip(*found, strict=True)]


def size(f: Function, q1: float, p: float, q2: float, m: float, slope: bool = False) -> float:
    """E |phi(u) phi(v)| to about three digits, |rho| < 1"""
    if isinstance(f, Exponentials):
        return _wave_size(f, q1, p, q2, m, slope)
    pieces = _modulus(f.slopes if slope else f.values)
    for precision in (53, 64, 80, 113, 128):
        with ctx.workprec(precision):
            found = _panels([pieces], f, arb(q1), arb(p), arb(q2), arb(m), 5, 0)[0]
        if found.is_finite():
            return float(found)
    raise Inaccurate("the size")


def _wave_size(f: Exponentials, q1: float, p: float, q2: float, m: float, slope: bool) -> float:
    """on a square grid, for at most some dozens of periods"""
    terms = [(complex(c), n, complex(b)) for c, n, b in (f._slope(f.terms()) if slope else f.terms())]

    def modulus(x: np.ndarray) -> np.ndarray:
        return np.abs(sum(c * x**n * np.exp(b * x) for c, n, b in terms).real)

    x = np.linspace(-8, 8, 641)
    weight = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    rho = p / math.sqrt(q1 * q2)
    v = m + math.sqrt(q2) * (rho * x[:, None] + math.sqrt(1 - rho * rho) * x)
    return float((weight * modulus(m + math.sqrt(q1) * x)) @ modulus(v) @ weight)


# -- what is stored --------------------------------------------------------------------------------------------------------------------


def kernel(f: Function, q1: float, p: float | arb, q2: float, m: float, slope: bool, first: int = 38) -> arb:
    """the moment of a pair with |rho| < 1, certified: for functions whose smoothing is closed"""
    if isinstance(f, Exponentials):
        return settled(lambda _: f.pair(arb(m), arb(q1), arb(p), arb(q2), slope), first=first)
    return settled(lambda n: smoothed(f, arb(q1), arb(p), arb(q2), arb(m), slope, n), first=first)


def gap(f: Function, q: float, delta: float) -> arb:
    """E phi(u)^2 - E phi(u) phi(v) for 0 < delta < 2 q, certified where the smoothing is closed, agreed where not"""
    lost = int(max(0.0, -math.log10(delta / q)))

    def difference(digits: int) -> arb:
        p = arb(q) - arb(delta)
        if isinstance(f, Exponentials):
            product = f.pair(arb(0), arb(q), p, arb(q))
        elif f.smooth is not None:
            product = smoothed(f, arb(q), p, arb(q), arb(0), False, digits)
        else:
            product = agreed(f, arb(q), p, arb(q), arb(0), AGREED + lost)[0]
        return second(f, q, 0.0, digits) - product

    if isinstance(f, Open):
        with ctx.workdps(AGREED + lost + 20):
            return difference(AGREED + lost + 20)
    return settled(difference, first=38 + lost)


def leading_gap(f: Function, q: float, delta: float) -> arb:
    """delta D, or sum J^2 sqrt(delta/pi) n(k; q) with jumps J at k

    The next term is, relatively, of order sqrt(delta/q) times ratios of slopes where there are kinks or jumps, and
    delta E phi''^2/(2 D), about delta/d^2, where the function is analytic at a distance d from the line.
    """

    def compute(digits: int) -> arb:
        if f.has_jumps:
            weights = (j * j * density(real(k) / arb(q).sqrt()) for j, k in zip(f.jumps(), f.kinks, strict=True))
            return (arb(delta) / arb.pi() / arb(q)).sqrt() * sum(weights, arb(0))
        return arb(delta) * second(f, q, 0.0, digits, slope=True)

    rest = 5 * delta / min(d for _, d in f.features) ** 2 if isinstance(f, Open) else 0.0
    return settled(compute) * arb(1, max(rest, 1e-30))
