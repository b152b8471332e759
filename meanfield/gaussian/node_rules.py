"""Nodes and weights of Gaussian expectations of one variable and of two: the trapezoidal rule, or panels between breaks."""

from __future__ import annotations

import math

import numpy as np

from meanfield.gaussian.panel_rules import TOO_FAR, along, spanned, wrapped
from meanfield.gaussian.panels import hermite_rule, legendre_rule
from meanfield.gaussian.shape_rows import (
    DETAIL,
    PERIOD,
    SMOOTH,
    VOIDS,
    WIDTH,
    WINDOW,
    breaks_of,
    dead,
    jumps_of,
    per_period,
    sharp_of,
    straight,
    voids_of,
)

__all__ = [
    "APART",
    "CAPACITY",
    "FAINT",
    "GAP_W",
    "GAP_X",
    "STEP_W",
    "STEP_X",
    "HERMITE_W",
    "HERMITE_X",
    "NATS",
    "NOTHING",
    "PROBES",
    "UNIT",
    "UNROLLED",
    "WIDEST",
    "combined",
    "common_nodes",
    "distance",
    "joint_window",
    "lost_of",
    "meetings",
    "nodes",
    "nodes_about",
    "nodes_of_two",
    "opposite_nodes",
    "own_part",
    "pointlike",
    "spread_of",
    "straight_nodes",
    "trapezoid",
    "unroll",
    "unrolled_size",
    "vanishing",
]

POINT = 1e-9  # a law that is narrower than this, relative to its mean, is a point
FAINT = 11.0  # a function that needs more than this is faint around the mean: its other laws are looked at one by one
WIDEST = 38.0  # beyond, the density underflows
PROBES = np.array((0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 7.5, 8.6, 10.0, 13.0, 16.0, 20.0, 26.0, 32.0, 38.0, 42.0))
NATS = 40.0  # accuracy asked of the trapezoidal rule; second moments multiply its error by (2 pi / h)^2
CAPACITY = 8192  # most nodes of one rule
UNROLLED = 128  # most periods on either side of 0 with panels of their own
UNIT = 2.0**-53  # in which rounding is counted
APART, NOTHING = 5, 1e-30  # how many nodes of a panel to the next that is tried, and what counts for nothing there, of the largest term
HERMITE_X, HERMITE_W = hermite_rule(7)
GAP_X, GAP_W = (tuple(numbers.tolist()) for numbers in legendre_rule(5))
STEP_X, STEP_W = (0.0,), (2.0,)  # for what is constant between breaks


def trapezoid(mu: float, s: float, d: float, window: float, detail: float, y: np.ndarray, w: np.ndarray) -> int:
    """Fill nodes and weights for a function with a strip of half-width d about the real axis; return their number, -1 if too many."""
    most = min(y.size, CAPACITY) - 3.0  # less what is rounded
    b = 0.8 * d / s  # 0.8: the poles of squared derivatives are of high order
    widest = 2.0 * math.pi / math.sqrt(2.0 * NATS)
    far = abs(mu) > window * s + 4.0 * d
    if b >= 1.0 or far:
        h = widest if far or b > 9.0 else min(widest, 2.0 * math.pi * b / (NATS + 0.5 * b * b))
        h /= detail
        if not 2.0 * window / h <= most:
            return -1
        m = math.floor(window / h) + 1
        c = h / math.sqrt(2.0 * math.pi)
        for j in range(-m, m + 1):
            xi = h * j
            y[j + m] = mu + s * xi
            w[j + m] = c * math.exp(-0.5 * xi * xi)
        return 2 * m + 1
    scale = 0.9 * d
    h = min(0.13 / (1.0 + 0.14 * abs(mu) / s), 0.8 * widest * s / scale) / detail
    low, high = math.asinh((mu - window * s) / scale) / h, math.asinh((mu + window * s) / scale) / h
    if not high - low <= most:
        return -1
    first, last = math.floor(low), math.ceil(high)
    c = h * scale / (s * math.sqrt(2.0 * math.pi))
    k = 0
    for j in range(first, last + 1):
        t = h * j
        node = scale * math.sinh(t)
        z = (node - mu) / s
        y[k] = node
        w[k] = c * math.cosh(t) * math.exp(-0.5 * z * z)
        k += 1
    return k


def vanishing(shape: np.ndarray, mu: float, s: float, window: float) -> bool:
    """whether f is 0 up to `window` deviations s around mu"""
    return dead(shape, mu - window * s, mu + window * s)


def pointlike(mu: float, s: float) -> bool:
    """Whether N(mu, s^2) is so narrow that doubles do not tell its inputs apart: panels have no nodes there."""
    return TOO_FAR * s <= abs(mu)


def straight_nodes(mu: float, s: float, y: np.ndarray, w: np.ndarray) -> int:
    """Fill nodes and weights for a function that is nearly a polynomial."""
    for i in range(HERMITE_X.size):
        y[i] = mu + s * HERMITE_X[i]
        w[i] = HERMITE_W[i]
    return HERMITE_X.size


def nodes(shape: np.ndarray, mu: float, s: float, blur: float, window: float, y: np.ndarray, w: np.ndarray) -> int:
    """The rule for f, smoothed by a normal of deviation `blur`, under N(mu, s^2) up to `window` deviations; -1 where it is not resolved."""
    smooth, d, detail, breaks = shape[SMOOTH], shape[WIDTH], shape[DETAIL], breaks_of(shape)
    if not abs(mu) + window * s + blur < math.inf:
        return -1
    checked = smooth == 0.0 and detail > 1.0  # in more detail: by a rule that knows nothing of this
    near = window <= FAINT or window * s <= POINT * abs(mu)
    if near and not checked and straight(shape, mu, s, blur, window):
        return straight_nodes(mu, s, y, w)
    if blur == 0.0 and vanishing(shape, mu, s, window):
        return 0
    if mu + window * s == mu:  # a point, to doubles
        y[0] = mu
        w[0] = 1.0
        return 1
    if smooth > 0.0:
        return trapezoid(mu, s, max(d, blur), window, detail, y, w)
    if 0.0 < shape[PERIOD] < window * s:
        return wrapped(shape[PERIOD], mu, s, breaks, sharp_of(shape), np.full(breaks.size, blur), window, 3.0 / detail, y, w)
    if not spanned(mu, s, breaks, window):
        return -1
    return along(mu, s, breaks, sharp_of(shape), np.full(breaks.size, blur), window, 3.0 / detail, y, w)


def joint_window(one: np.ndarray, sizes: np.ndarray, other: np.ndarray, others: np.ndarray, rho: float) -> float:
    """How many deviations of what u and v share hold all that counts of f(u) g(v), ln |f| and ln |g| being known at some u and v.

    u and v, in deviations, leave exp(-(u + v)^2/(4 (1 + rho)) - (u - v)^2/(4 (1 - rho))), and most of it where the shared one is
    sqrt(rho) (u + v)/(1 + rho); around that it falls no slower than a normal density. At rho < 0 v is mirrored.
    """
    side, shared = math.copysign(1.0, rho), min(abs(rho), 1.0)
    apart = max(1.0 - shared, 1e-300)
    best = -math.inf
    far = 0.0
    for again in range(2):
        for i in range(one.size):
            for j in range(other.size):
                total = one[i] + side * other[j]
                gap = one[i] - side * other[j]
                size = sizes[i] + others[j] - total * total / (4.0 * (1.0 + shared)) - gap * gap / (4.0 * apart)
                if again == 0:
                    best = max(best, size)
                elif size > best - 2.0 * NATS:
                    far = max(far, abs(total))
    return min(math.sqrt(shared) * far / (1.0 + shared) + WINDOW, WIDEST)


def spread_of(a: float, s: float, ratio: float, t: float) -> float:
    """The deviation of exp(-Y^2/(2 a^2) - Y^2/(2 s^2) - Y^2/(2 (ratio t)^2))."""
    return a / math.sqrt(1.0 + (a / s) ** 2 + (a / (t * abs(ratio))) ** 2)


def meetings(
    first: np.ndarray, second: np.ndarray, mu: float, a: float, s: float, nu: float, ratio: float, t: float, places: np.ndarray
) -> int:
    """Where f(Y) smoothed by s times g(nu + (Y - mu)/ratio) smoothed by t is the largest between an edge of f and one of g, both of
    which are 0 from there on as far as the other one; return how many there are.

    Blurred edges of theirs, e and e', leave exp(-(Y - e)^2/(2 s^2) - (Y - e')^2/(2 t^2) - (Y - mu)^2/(2 a^2)) between them.
    """
    own, others = voids_of(first), voids_of(second)
    one, other = (a / s) ** 2, (a / (t * abs(ratio))) ** 2
    count = 0
    for i in range(0, own.size, 2):
        for j in range(0, others.size, 2):
            begin = mu + (others[j] - nu) * ratio
            end = mu + (others[j + 1] - nu) * ratio
            low, high = min(begin, end), max(begin, end)
            edge = across = math.nan
            if low < own[i] < high < own[i + 1]:
                edge = own[i]
                across = high
            elif own[i] < low < own[i + 1] < high:
                edge = own[i + 1]
                across = low
            place = (mu + one * edge + other * across) / (1.0 + one + other)
            if abs(place) < math.inf and count < places.size:
                places[count] = place
                count += 1
    return count


def unrolled_size(shape: np.ndarray, reach: float) -> int:
    """How many ends of panels there are as far as that from 0, of a periodic function, or else of what is known of it."""
    breaks, whole = breaks_of(shape), shape[PERIOD]
    if whole == 0.0 or reach <= min(-breaks[0], breaks[-1]) or not reach < UNROLLED * whole:
        return int(breaks.size)
    return int(2 * (math.ceil(reach / whole) + 1) * per_period(shape) + 1)


def unroll(shape: np.ndarray, known: np.ndarray, every: np.ndarray, values: np.ndarray) -> None:
    """Fill in so many ends of panels, and what is known at each of those in the row: which are kinks, or the heights of jumps."""
    breaks, whole = breaks_of(shape), shape[PERIOD]
    one = per_period(shape) if whole > 0.0 else breaks.size
    more = (every.size - breaks.size) // (2 * one)  # periods beyond these, on either side
    for i in range(every.size):
        every[i] = breaks[i % one] + whole * (i // one - more)
        values[i] = known[i % one]


def nodes_of_two(
    first: np.ndarray,
    second: np.ndarray,
    mu: float,
    a: float,
    s: float,
    nu: float,
    b: float,
    t: float,
    window: float,
    y: np.ndarray,
    w: np.ndarray,
) -> int:
    """The rule in Y = mu + a X for f(Y) smoothed by s times g(nu + b X) smoothed by t, X standard normal within the window."""
    if b == 0.0 or not abs(mu) + abs(nu) + window * (a + abs(b)) + s + t < math.inf:
        return -1
    ratio = a / b
    if first[SMOOTH] > 0.0 and second[SMOOTH] > 0.0 and mu == nu * ratio:
        return trapezoid(mu, a, min(max(first[WIDTH], s), abs(ratio) * max(second[WIDTH], t)), window, first[DETAIL], y, w)
    folded = 0.0 < first[PERIOD] < window * a and first[PERIOD] == second[PERIOD] and abs(ratio) == 1.0
    size = breaks_of(first).size if folded else unrolled_size(first, abs(mu) + window * a)
    others = breaks_of(second).size if folded else unrolled_size(second, abs(nu) + window * abs(b))
    breaks, sharp, breaks_, sharp_ = np.empty(size), np.empty(size), np.empty(others), np.empty(others)
    unroll(first, sharp_of(first), breaks, sharp)
    unroll(second, sharp_of(second), breaks_, sharp_)
    inner = breaks.size + breaks_.size - 4
    between = np.empty(int(first[VOIDS] + second[VOIDS]))
    blurred = a > 0.0 and s > 0.0 and t > 0.0
    met = meetings(first, second, mu, a, s, nu, ratio, t, between) if blurred else 0
    width = spread_of(a, s, ratio, t) if blurred else 0.0
    every = np.empty(inner + met)
    for i in range(inner):
        every[i] = breaks[i + 1] if i < breaks.size - 2 else mu + (breaks_[i - breaks.size + 3] - nu) * ratio
    for i in range(met):
        every[inner + i] = between[i]
    order = np.argsort(every)
    merged, kinks, blurs = np.empty(every.size + 2), np.zeros(every.size + 2), np.zeros(every.size + 2)
    ends = (mu + (breaks_[0] - nu) * ratio, mu + (breaks_[-1] - nu) * ratio)
    merged[0] = max(breaks[0], min(ends))
    last = min(breaks[-1], max(ends))
    k = 0
    for i in range(every.size):
        j = order[i]
        own = j < breaks.size - 2
        if every[j] <= merged[0] or every[j] >= last:
            continue
        if k == 0 or every[j] - merged[k] > 1e-12 * abs(every[j]):  # else the same break
            k += 1
            merged[k] = every[j]
        if j >= inner:
            kinks[k] = 2.0
            blurs[k] = max(blurs[k], width)
            continue
        kinks[k] = max(kinks[k], sharp[j + 1] if own else sharp_[j - breaks.size + 3])
        blurs[k] = max(blurs[k], s if own else t * abs(ratio))
    k += 1
    merged[k] = last
    merged, kinks, blurs = merged[: k + 1], kinks[: k + 1], blurs[: k + 1]
    if folded:
        return wrapped(first[PERIOD], mu, a, merged, kinks, blurs, window, 3.0 / first[DETAIL], y, w)
    if not spanned(mu, a, merged, window):
        return -1
    return along(mu, a, merged, kinks, blurs, window, 3.0 / first[DETAIL], y, w)


def nodes_about(first: np.ndarray, second: np.ndarray, mu: float, s: float, window: float, y: np.ndarray, w: np.ndarray) -> int:
    """The rule for products of powers of f and g under N(mu, s^2), which may be narrower than the rounding of mu."""
    known = straight(first, mu, s, 0.0, window) or vanishing(first, mu, s, window)
    if known and (straight(second, mu, s, 0.0, window) or vanishing(second, mu, s, window)):
        return straight_nodes(mu, s, y, w)
    return nodes_of_two(first, second, mu, s, 0.0, mu, s, 0.0, window, y, w)


def opposite_nodes(shape: np.ndarray, slope: np.ndarray, a: float, s: float, window: float, y: np.ndarray, w: np.ndarray) -> int:
    """The rule in Y = a X for what f and its slope, smoothed by s, make about Y and about -Y: a function that jumps has its own ends of
    panels there, any other those of its slope, which are no fewer."""
    steepest = 0.0
    jumps = jumps_of(shape)
    for j in range(jumps.size):
        steepest = max(steepest, abs(jumps[j]))
    row = shape if steepest > 0.0 else slope
    return nodes_of_two(row, row, 0.0, a, s, 0.0, -a, s, window, y, w)


def own_part(q: float, delta: float, total: float) -> float:
    """The deviation of what each of two variables has to itself: the root of q - |p|."""
    return math.sqrt(delta) if delta <= q else max(math.sqrt(max(total, 0.0)), 1e-150 * math.sqrt(q))


def common_nodes(shape: np.ndarray, mu: float, q: float, delta: float, s: float, window: float, y: np.ndarray, w: np.ndarray) -> int:
    """The rule in what two variables u and v share, for f(u) f(v) smoothed by s: u = Y + s xi, v = mu +- (Y - mu) + s xi'."""
    a = math.sqrt(abs(q - delta))
    if a <= 1e-8 * math.sqrt(q):
        y[0] = mu
        w[0] = 1.0
        return 1
    if delta <= q:
        return nodes(shape, mu, a, max(s, 1e-150 * math.sqrt(q)), window, y, w)
    return nodes_of_two(shape, shape, mu, a, s, mu, -a, s, window, y, w)


def lost_of(a: float, b: float) -> float:
    """What rounding takes from a b: the product is split exactly (Dekker 1971)."""
    split = 134217729.0
    t = split * a
    c = t - (t - a)
    t = split * b
    d = t - (t - b)
    return ((c * d - a * b) + c * (b - d) + (a - c) * d) + (a - c) * (b - d)


def combined(a: float, b: float, c: float, d: float) -> float:
    """a b + c d, the products to twice the digits."""
    return (a * b + c * d) + (lost_of(a, b) + lost_of(c, d))


def distance(q1: float, p: float, q2: float) -> float:
    """q1 q2 - p^2, the products to twice the digits."""
    return combined(q1, q2, -p, p)
