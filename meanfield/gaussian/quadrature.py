r"""Gaussian expectations in float64 where no closed form exists, to machine precision for variances from 1e-12 to 1e12.

One primitive: nodes and weights for E f(Y), Y ~ N(mu, s^2). Smooth f, analytic in a strip of half-width d about the real axis: the
trapezoidal rule, plain where the strip is wide, after y = d sinh t where it is narrow. Any other f: Gauss-Legendre panels between
breaks, which are its kinks and points between which 20 nodes resolve it.

It is used twice for two variables: with u = a x + s xi_1, v = +-a x + s xi_2, a^2 = |p|, s^2 = q - |p|, g(x) = E_xi f(a x + s xi),

    E f(u) f(v) = E_x g(x) g(+-x),   E f(u)^2 - E f(u) f(v) = E_x [Var_xi f(a x + s xi) + (g(x) - g(+-x))^2 / 2],

sums of non-negative terms. Where s is small against the features of f, E f(u) f(v) is its Taylor series, and the gap the integral
of Price's identity. These functions use only `math` and `numpy`: the store compiles them from their source.

What they know of a function is its shape, a row of numbers: scalars at the indices below, then the arrays that `breaks_of`, ... read;
see `meanfield.gaussian.singularities.Shape`.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["CONSTANTS", "FUNCTIONS", "RULES", "TERMS"]

# where a row holds what
SMOOTH, WIDTH, GROWTH, DETAIL, PARITY, RADIUS, ANALYTIC, LOW, HIGH, COUNT = range(10)

WINDOW = 8.6  # standard deviations kept: exp(-8.6^2 / 2) = 1e-16; more for functions that grow, or are faint where the density is not
FAINT = 11.0  # a function that needs more than this is faint around the mean: its other laws are looked at one by one
WIDEST = 38.0  # beyond, the density underflows
PROBES = np.array((0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 7.5, 8.6, 10.0, 13.0, 16.0, 20.0, 26.0, 32.0, 38.0, 42.0))
NATS = 40.0  # accuracy asked of the trapezoidal rule; second moments multiply its error by (2 pi / h)^2
CAPACITY = 8192  # most nodes of one rule
TERMS = 22  # Taylor coefficients kept
LEAST = 1e-18  # of a deviation: what is nearer to a break weighs nothing
QUIET = 0.05  # deviation, against the radius of the Taylor series, below which that is summed
LEGENDRE_X, LEGENDRE_W = np.polynomial.legendre.leggauss(20)
HERMITE_X, HERMITE_W = np.polynomial.hermite_e.hermegauss(7)
GAP_X = (-0.9061798459386640, -0.5384693101056831, 0.0, 0.5384693101056831, 0.9061798459386640)
GAP_W = (0.2369268850561891, 0.4786286704993665, 0.5688888888888889, 0.4786286704993665, 0.2369268850561891)


def breaks_of(shape: np.ndarray) -> np.ndarray:
    """Ends of panels."""
    return shape[COUNT + 1 : COUNT + 1 + int(shape[COUNT])]


def sharp_of(shape: np.ndarray) -> np.ndarray:
    """Which breaks are kinks: 1; 2 where f is singular there, like a root or a logarithm."""
    return shape[COUNT + 1 + int(shape[COUNT]) : COUNT + 1 + 2 * int(shape[COUNT])]


def jumps_of(shape: np.ndarray) -> np.ndarray:
    """Heights of jumps at the breaks."""
    return shape[COUNT + 1 + 2 * int(shape[COUNT]) : COUNT + 1 + 3 * int(shape[COUNT])]


def right_of(shape: np.ndarray) -> np.ndarray:
    """Taylor coefficients for x > 0."""
    return shape[COUNT + 1 + 3 * int(shape[COUNT]) : COUNT + 1 + 3 * int(shape[COUNT]) + TERMS]


def left_of(shape: np.ndarray) -> np.ndarray:
    """Taylor coefficients for x < 0."""
    return shape[COUNT + 1 + 3 * int(shape[COUNT]) + TERMS : COUNT + 1 + 3 * int(shape[COUNT]) + 2 * TERMS]


def trapezoid(mu: float, s: float, d: float, window: float, detail: float, y: np.ndarray, w: np.ndarray) -> int:
    """Fill nodes and weights for a function with a strip of half-width d about the real axis; return their number."""
    b = 0.8 * d / s  # 0.8: the poles of squared derivatives are of high order
    widest = 2.0 * math.pi / math.sqrt(2.0 * NATS)
    far = abs(mu) > window * s + 4.0 * d
    if b >= 1.0 or far:
        h = widest if far or b > 9.0 else min(widest, 2.0 * math.pi * b / (NATS + 0.5 * b * b))
        h /= detail
        m = math.floor(window / h) + 1
        if 2 * m + 1 > CAPACITY:
            return -1
        c = h / math.sqrt(2.0 * math.pi)
        for j in range(-m, m + 1):
            xi = h * j
            y[j + m] = mu + s * xi
            w[j + m] = c * math.exp(-0.5 * xi * xi)
        return 2 * m + 1
    scale = 0.9 * d
    h = min(0.13 / (1.0 + 0.14 * abs(mu) / s), 0.8 * widest * s / scale) / detail
    first = math.floor(math.asinh((mu - window * s) / scale) / h)
    last = math.ceil(math.asinh((mu + window * s) / scale) / h)
    if last - first + 1 > CAPACITY:
        return -1
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


def panels(a: float, b: float, mu: float, s: float, window: float, longest: float, y: np.ndarray, w: np.ndarray, k: int) -> int:
    """Gauss-Legendre panels of length at most `longest` standard deviations on [a, b] within the window."""
    a = max(a, mu - window * s)
    b = min(b, mu + window * s)
    if not a < b or k < 0:
        return k
    m = math.ceil((b - a) / (longest * s))
    if k + m * LEGENDRE_X.size > CAPACITY:
        return -1
    start = (a - mu) / s
    r = (b - a) / (2 * m)
    for i in range(m):
        c = a + (2 * i + 1) * r
        for g in range(LEGENDRE_X.size):
            z = start + (2 * i + 1 + LEGENDRE_X[g]) * r / s  # not from the node, whose rounding may be large against s
            y[k] = c + r * LEGENDRE_X[g]
            w[k] = r / s * LEGENDRE_W[g] * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
            k += 1
    return k


def graded(
    start: float, stop: float, least: float, mu: float, s: float, window: float, longest: float, y: np.ndarray, w: np.ndarray, k: int
) -> int:
    """Panels from a blurred break at `start` towards `stop`, the first of length 2 least, each three times the one before.

    Eight times where there is a long way to go: 20 nodes see an algebraic singularity to 2^-40 then, and only that is left there.
    """
    direction = 1.0 if stop > start else -1.0
    x = start
    length = 2.0 * least
    settled = math.inf if length > 1e-30 * s else 1e4 * length
    while direction * (stop - x) > 0.0:
        following = x + direction * length
        if direction * (stop - following) < 0.3 * length:
            following = stop
        k = panels(min(x, following), max(x, following), mu, s, window, longest, y, w, k)
        x = following
        length *= 3.0 if length < settled else 8.0
    return k


def first_length(blur: float, sharp: float, s: float) -> float:
    """From where on panels next to a break are graded: next to a blurred singularity all that is beyond the blur counts."""
    return blur if sharp == 2.0 and blur > 0.0 else max(blur, LEAST * s)


def between(
    mu: float,
    s: float,
    breaks: np.ndarray,
    sharp: np.ndarray,
    blurs: np.ndarray,
    window: float,
    longest: float,
    y: np.ndarray,
    w: np.ndarray,
) -> int:
    """Panels between breaks; those that a blur bridges are passed over, and what it spreads beyond a break takes graded panels."""
    if mu - window * s < breaks[0] or mu + window * s > breaks[-1]:
        return -1
    k = 0
    low = 0
    spreads = False
    for i in range(1, breaks.size):
        blur = blurs[i]
        inner = i < breaks.size - 1
        if inner and sharp[i] == 0.0 and breaks[i] - breaks[low] < blur:
            continue
        shortest = min(breaks[i] - breaks[i - 1], breaks[i + 1] - breaks[i]) if inner else math.inf
        ahead = inner and 0.0 < blur < s and (sharp[i] > 0.0 or blur > 0.02 * shortest)
        a = max(breaks[low], mu - window * s)
        b = min(breaks[i], mu + window * s)
        if a < b:
            steep = blur < s and b - a > max(LEAST * s, 1e-12 * max(abs(a), abs(b)))  # a singularity has no scale of its own
            from_left = (spreads or (steep and sharp[low] == 2.0)) and breaks[low] >= a
            from_right = (ahead or (steep and sharp[i] == 2.0)) and breaks[i] <= b
            middle = 0.5 * (a + b) if from_left and from_right else (b if from_left else a)
            if from_left:
                k = graded(a, middle, first_length(blurs[low], sharp[low], s), mu, s, window, longest, y, w, k)
            if from_right:
                k = graded(b, middle, first_length(blur, sharp[i], s), mu, s, window, longest, y, w, k)
            if not (from_left or from_right):
                k = panels(a, b, mu, s, window, longest, y, w, k)
        low = i
        spreads = ahead
    return k


def straight(shape: np.ndarray, mu: float, s: float) -> bool:
    """whether f is so nearly a polynomial around mu on the scale s that seven nodes do"""
    smooth, d, growth, breaks = shape[SMOOTH], shape[WIDTH], shape[GROWTH], breaks_of(shape)
    if growth * s > 0.03 or shape[LOW] < mu < shape[HIGH]:
        return False
    if smooth > 0.0:
        return bool(s < 0.03 * d)
    i = int(np.searchsorted(breaks, mu))
    if i == 0 or i == breaks.size:
        return False
    if s >= 0.02 * (breaks[i] - breaks[i - 1]):
        return False
    sharp = sharp_of(shape)
    before = 30.0 if sharp[i - 1] == 2.0 else WINDOW
    after = 30.0 if sharp[i] == 2.0 else WINDOW
    return bool(mu - breaks[i - 1] > before * s and breaks[i] - mu > after * s)


def nodes(shape: np.ndarray, mu: float, s: float, blur: float, window: float, y: np.ndarray, w: np.ndarray) -> int:
    """The rule for f, smoothed by a normal of deviation `blur`, under N(mu, s^2) up to `window` deviations; -1 where it is not resolved."""
    smooth, d, detail, breaks = shape[SMOOTH], shape[WIDTH], shape[DETAIL], breaks_of(shape)
    if math.isnan(window):
        return -1
    if straight(shape, mu, s):
        for i in range(HERMITE_X.size):
            y[i] = mu + s * HERMITE_X[i]
            w[i] = HERMITE_W[i] / math.sqrt(2.0 * math.pi)
        return HERMITE_X.size
    if blur == 0.0 and shape[LOW] < mu - window * s and mu + window * s < shape[HIGH]:  # f is 0 there
        return 0
    if smooth > 0.0:
        return trapezoid(mu, s, max(d, blur), window, detail, y, w)
    return between(mu, s, breaks, sharp_of(shape), np.full(breaks.size, blur), window, 3.0 / detail, y, w)


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
    if math.isnan(window):
        return -1
    breaks, sharp, breaks_, sharp_ = breaks_of(first), sharp_of(first), breaks_of(second), sharp_of(second)
    ratio = a / b
    if first[SMOOTH] > 0.0 and second[SMOOTH] > 0.0 and mu == nu * ratio:
        return trapezoid(mu, a, min(max(first[WIDTH], s), abs(ratio) * max(second[WIDTH], t)), window, first[DETAIL], y, w)
    every = np.empty(breaks.size + breaks_.size - 4)
    for i in range(every.size):
        every[i] = breaks[i + 1] if i < breaks.size - 2 else mu + (breaks_[i - breaks.size + 3] - nu) * ratio
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
        kinks[k] = max(kinks[k], sharp[j + 1] if own else sharp_[j - breaks.size + 3])
        blurs[k] = max(blurs[k], s if own else t * abs(ratio))
    k += 1
    merged[k] = last
    merged, kinks, blurs = merged[: k + 1], kinks[: k + 1], blurs[: k + 1]
    return between(mu, a, merged, kinks, blurs, window, 3.0 / first[DETAIL], y, w)


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


def sharp_near(shape: np.ndarray, mu: float, reach: float) -> int:
    """The index of the kink nearest to mu, -1 where none is within reach."""
    breaks, sharp = breaks_of(shape), sharp_of(shape)
    best = -1
    for j in range(breaks.size):
        if sharp[j] > 0.0 and abs(mu - breaks[j]) <= reach:
            reach = abs(mu - breaks[j])
            best = j
    return best


def features(shape: np.ndarray) -> float:
    """The shortest scale of f: of its smooth pieces, or the distance of two kinks."""
    breaks, sharp, shortest, last = breaks_of(shape), sharp_of(shape), shape[WIDTH], -math.inf
    for j in range(breaks.size):
        if sharp[j] > 0.0:
            shortest = min(shortest, breaks[j] - last)
            last = breaks[j]
    return float(shortest)


def singular(shape: np.ndarray, reach: float) -> float:
    """How far from 0 the farthest singularity within reach is, -1 where there is none."""
    breaks, sharp, farthest = breaks_of(shape), sharp_of(shape), -1.0
    for j in range(breaks.size):
        if sharp[j] == 2.0 and abs(breaks[j]) <= reach:
            farthest = max(farthest, abs(breaks[j]))
    return float(farthest)


def room(shape: np.ndarray, at: float, direction: float) -> float:
    """How far from a point five nodes integrate f, in that direction."""
    if shape[SMOOTH] > 0.0:
        return float(0.1 * max(shape[WIDTH], abs(at) - 4.0 * shape[WIDTH]))
    breaks, sharp = breaks_of(shape), sharp_of(shape)
    right = direction > 0.0
    i = 0  # between breaks i - 1 and i
    while i < breaks.size and (breaks[i] <= at if right else breaks[i] < at):
        i += 1
    if i == 0 or i == breaks.size:
        return 0.0
    length = breaks[i] - breaks[i - 1]
    end = i if right else i - 1
    if sharp[2 * i - 1 - end] == 2.0 and breaks[2 * i - 1 - end] == at:
        return 0.0
    if sharp[end] == 2.0:
        return float(0.1 * min(length, abs(breaks[end] - at)))
    if sharp[end] > 0.0:
        return float(min(0.1 * length, abs(breaks[end] - at)))
    if 0 < end < breaks.size - 1:
        length = min(length, breaks[end + 1] - breaks[end] if right else breaks[end] - breaks[end - 1])
    return float(0.1 * length)


def gentle(shape: np.ndarray, mu: float, s: float) -> bool:
    """Whether f is nearly a polynomial around mu on the scale s: also where a smooth f is far from what happens to it near 0."""
    far = shape[SMOOTH] > 0.0 and abs(mu) > 40.0 * s + 4.0 * shape[WIDTH] and shape[GROWTH] * s <= 0.03
    return straight(shape, mu, s) or far


def beyond(origin: float, step: float) -> float:
    """origin + step, on that side of the origin even where the step is rounding."""
    at = origin + step
    return at if at != origin else origin + math.copysign(4e-16 * abs(origin), step)


def series_mean(q: float, right: np.ndarray, left: np.ndarray) -> float:
    r"""E f(u), u ~ N(0, q) from one-sided Taylor coefficients: \sum_n (r_n + (-1)^n l_n)/2 E|u|^n."""
    s = math.sqrt(q)
    total = 0.0
    even = 1.0
    odd = math.sqrt(2.0 / math.pi) * s
    for n in range(0, TERMS, 2):
        total += 0.5 * (right[n] + left[n]) * even + 0.5 * (right[n + 1] - left[n + 1]) * odd
        even *= (n + 1) * q
        odd *= (n + 2) * q
    return total


def series_derivatives(q: float, c: np.ndarray, out: np.ndarray) -> None:
    r"""out[n] = E f^(n)(u)/\sqrt{n!} = \sum_k c_{n+2k} (n+2k)!/(2^k k!) q^k / \sqrt{n!}."""
    root = 1.0
    for n in range(TERMS):
        total = 0.0
        factor = 1.0
        for k in range((TERMS - n + 1) // 2):
            total += c[n + 2 * k] * factor
            factor *= (n + 2 * k + 1) * (n + 2 * k + 2) * q / (2.0 * (k + 1))
        out[n] = root * total
        root *= math.sqrt(n + 1.0)


def distance(q1: float, p: float, q2: float) -> float:
    """q1 q2 - p^2 with one rounding, its products split exactly (Dekker 1971)."""
    split = 134217729.0
    t = split * q1
    a = t - (t - q1)
    t = split * q2
    b = t - (t - q2)
    t = split * p
    c = t - (t - p)
    product = q1 * q2
    square = p * p
    low = ((a * b - product) + a * (q2 - b) + (q1 - a) * b) + (q1 - a) * (q2 - b)
    lower = ((c * c - square) + 2.0 * c * (p - c)) + (p - c) * (p - c)
    return (product - square) + (low - lower)


def raised(z: float, k: float) -> float:
    """z^k for whole numbers k >= 0."""
    result = 1.0
    for _ in range(int(k)):
        result *= z
    return result


def alone(shape: np.ndarray, slope: np.ndarray, mu: float, s: float) -> bool:
    """whether f and its derivative are nearly polynomials around mu on the scale s, kinks and jumps being far"""
    near = s < 0.05 * min(shape[WIDTH], slope[WIDTH])
    for row in (shape, slope):
        breaks, sharp = breaks_of(row), sharp_of(row)
        for j in range(breaks.size):
            near = near and (sharp[j] == 0.0 or abs(mu - breaks[j]) > WINDOW * s)
    return bool(near)


#: what kernels need, in an order in which a generated file may hold it
INDICES = ("SMOOTH", "WIDTH", "GROWTH", "DETAIL", "PARITY", "RADIUS", "ANALYTIC", "LOW", "HIGH", "COUNT")
RANGES = ("WINDOW", "FAINT", "WIDEST", "PROBES", "NATS", "CAPACITY", "TERMS", "LEAST")
CONSTANTS = (*INDICES, *RANGES, "QUIET", "LEGENDRE_X", "LEGENDRE_W", "HERMITE_X", "HERMITE_W", "GAP_X", "GAP_W")
RULES = (
    breaks_of,
    sharp_of,
    jumps_of,
    right_of,
    left_of,
    trapezoid,
    panels,
    graded,
    first_length,
    between,
    straight,
    nodes,
    nodes_of_two,
    own_part,
    common_nodes,
    sharp_near,
    features,
    singular,
    room,
    gentle,
    beyond,
    series_mean,
    series_derivatives,
    distance,
    raised,
    alone,
)

#: the sum that E f and E f^2 share
_SUM = r"""    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    count = nodes(shape, mu, math.sqrt(q), 0.0, reach_<i>(shape, mu, math.sqrt(q), y, w<x>), y, w)
    if count < 0:
        return math.nan
    total = 0.0
    for i in range(count):
        total += w[i] * f_<i>(y[i]<x>)<power>
    return total
"""

#: The quadrature functions of integrand f_<i>, whose derivative is f_<j>, and of a pair f_<i>, f_<j>; <x> and <y> are further
#: parameters of the two, <both> of either. Text, because no function is handed to another one: each integrand has its own
#: copies.
FUNCTIONS = {
    "reach": r'''
def reach_<i>(shape, mu, s, y, w<x>):
    """How many deviations s around mu hold all that counts of f_<i> and of its square; nan where the density underflows before."""
    breaks = breaks_of(shape)
    count = 0
    once = twice = -math.inf
    for j in range(2 * PROBES.size + breaks.size):
        z = PROBES[j // 2] * (1 - 2 * (j % 2)) if j < 2 * PROBES.size else (breaks[j - 2 * PROBES.size] - mu) / s
        if abs(z) > PROBES[-1]:
            continue
        size = abs(f_<i>(mu + s * z<x>))
        if 0.0 < size < math.inf:
            y[count] = z
            w[count] = math.log(size)
            once = max(once, w[count] - 0.5 * z * z)
            twice = max(twice, 2.0 * w[count] - 0.5 * z * z)
            count += 1
    far = WINDOW
    peak = 0.0
    for i in range(count):
        z = abs(y[i])
        if w[i] - 0.5 * z * z == once or 2.0 * w[i] - 0.5 * z * z == twice:
            peak = max(peak, z)
        if z > far and (w[i] - 0.5 * z * z > once - NATS or 2.0 * w[i] - 0.5 * z * z > twice - NATS):
            far = z
    if peak > 0.5 * WINDOW:  # the whole of it is out there
        far = max(far, peak + WINDOW, FAINT + 0.1)
    steps = True
    while steps and far < PROBES[-1]:
        steps = False
        z = far + 0.4
        for side in (-1.0, 1.0):
            size = abs(f_<i>(mu + side * s * z<x>))
            if 0.0 < size < math.inf:
                log = math.log(size)
                steps = steps or log - 0.5 * z * z > once - NATS or 2.0 * log - 0.5 * z * z > twice - NATS
        far = z if steps else far
    if far > WIDEST:
        return math.nan if twice > 0.0 else WIDEST
    return far
''',
    "mean": r'''
def mean_<i>(shape, mu, q<x>):
    """E f_<i>(u), u ~ N(mu, q)."""
    if not 0.0 < q < math.inf:
        return f_<i>(mu<x>) if q == 0.0 else math.nan
    if mu == 0.0 and shape[PARITY] < 0.0:
        return 0.0
    if mu == 0.0 and math.sqrt(q) < QUIET * shape[RADIUS]:
        return series_mean(q, right_of(shape), left_of(shape))
'''
    + _SUM.replace("<power>", ""),
    "square": r'''
def square_<i>(shape, mu, q<x>):
    """E f_<i>(u)^2, u ~ N(mu, q)."""
    if not 0.0 < q < math.inf:
        return f_<i>(mu<x>) ** 2 if q == 0.0 else math.nan
'''
    + _SUM.replace("<power>", " ** 2"),
    "noise": r'''
def noise_<i>(shape, mu, q<x>):
    """The root of E r_<i>(u)^2, u ~ N(mu, q), r_<i> the rounding error of f_<i>."""
    if not 0.0 < q < math.inf:
        return r_<i>(mu<x>) if q == 0.0 else math.nan
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    total = 0.0
    for i in range(nodes(shape, mu, math.sqrt(q), 0.0, reach_<i>(shape, mu, math.sqrt(q), y, w<x>), y, w)):
        if w[i] > 0.0:
            total += w[i] * r_<i>(y[i]<x>) ** 2
    return math.sqrt(total)
''',
    "quiet": r'''
def quiet_<i>(shape, mu, q<x>):
    """1 where f_<i> is summed by its Taylor series and never called, else 0."""
    return 1.0 if mu == 0.0 and shape[ANALYTIC] > 0.0 and math.sqrt(q) < QUIET * shape[RADIUS] else 0.0
''',
    "reaches": r'''
def reaches_<i>(shape, mu, s<x>):
    """1 where panels resolve f_<i> as far as N(mu, s^2) matters, else 0."""
    breaks = breaks_of(shape)
    return 1.0 if shape[SMOOTH] > 0.0 or (breaks[0] < mu - FAINT * s and mu + FAINT * s < breaks[-1]) else 0.0
''',
    "near": r'''
def near_<i>(shape, settled, mirrored, mu, wide, narrow<x>):
    """E h_<i>(X, Y) for independent X and Y of variances wide and narrow, the mean mu in X, or where mirrored in Y.

    The trapezoidal rule in Y, halved until it settles, or a Gauss rule where Y is narrow; h_<i> varies with X as shape does at X + Y and
    X - Y.
    """
    a = math.sqrt(wide)
    s = math.sqrt(narrow)
    if not (0.0 < a < math.inf and s < math.inf):
        return math.nan
    centre, start = (0.0, mu) if mirrored > 0.0 else (mu, 0.0)
    back = -a if mirrored > 0.0 else a
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    width = max(shape[WIDTH], settled[WIDTH])
    smooth = sharp_near(shape, 0.0, math.inf) < 0 and s < 0.02 * min(shape[WIDTH], settled[WIDTH])
    h = (0.5 if s < 8.0 * width else max(4.0 * width / s, 1e-3)) / shape[DETAIL]
    before = math.nan
    total = 0.0
    size = 0.0
    fresh = 1
    while WINDOW / h < CAPACITY:
        most = HERMITE_X.size // 2 if smooth else math.floor(WINDOW / h)
        for k in range(-most, most + 1):
            if k % fresh == 0 and fresh > 1:
                continue
            z = HERMITE_X[k + most] if smooth else h * k
            t = start + s * z
            first = centre + t
            second = t if mirrored > 0.0 else centre - t
            count = nodes_of_two(shape, shape, first, a, 0.0, second, back, 0.0, FAINT, y, w)
            if count < 0:
                return math.nan
            density = (HERMITE_W[k + most] if smooth else math.exp(-0.5 * z * z)) / math.sqrt(2.0 * math.pi)
            inner = 0.0  # sums of sums: millions of terms in a row round to 1e-12
            around = 0.0
            for i in range(count):
                term = w[i] * h_<i>(y[i] - t, t<x>)
                inner += term
                around += abs(term)
            total += density * inner
            size += density * around
        if smooth:
            return total
        if abs(total * h - before) <= 1e-12 * size * h:  # what is left is the square of that
            return total * h
        before = total * h
        h *= 0.5
        fresh = 2
    return math.nan
''',
    "smoothed": r'''
def smoothed_<i>(shape, mu, s, window, y, w<x>):
    """E f_<i>(mu + s xi)."""
    local = reach_<i>(shape, mu, s, y, w<x>) if window > FAINT else window  # two variables of opposite sign are larger than their sum
    count = nodes(shape, mu, s, 0.0, local if local > window else window, y, w)
    if count < 0:
        return math.nan
    reference = f_<i>(mu<x>) if s < shape[WIDTH] and sharp_near(shape, mu, WINDOW * s) < 0 else 0.0
    shift = 0.0
    for i in range(count):
        shift += w[i] * (f_<i>(y[i]<x>) - reference)
    return reference + shift
''',
    "variance": r'''
def variance_<i>(shape, slope, mu, s, window, y, w<x>):
    """Var f_<i>(mu + s xi), of differences from a point nearby: integrals of the slope f_<j> where they are short."""
    taken = 0.0
    if gentle(shape, mu, s) and gentle(slope, mu, s):
        count = HERMITE_X.size
        for i in range(count):
            step = s * HERMITE_X[i]
            w[i] = HERMITE_W[i] / math.sqrt(2.0 * math.pi)
            y[i] = 0.0
            for g in range(5):
                y[i] += 0.5 * GAP_W[g] * step * f_<j>(mu + 0.5 * (1.0 + GAP_X[g]) * step<y>)
    else:
        local = reach_<i>(shape, mu, s, y, w<x>) if window > FAINT else window
        count = nodes(shape, mu, s, 0.0, local if local > window else window, y, w)
        if count < 0:
            return math.nan
        j = sharp_near(shape, mu, WINDOW * s)
        origin = breaks_of(shape)[j] if j >= 0 else mu
        jump = jumps_of(shape)[j] if j >= 0 else 0.0
        reference = f_<i>(origin - max(1e-15 * abs(origin), 1e-300)<x>) if j >= 0 else f_<i>(mu<x>)
        finite = abs(reference) < math.inf
        taken = reference if finite and j >= 0 and sharp_of(shape)[j] == 2.0 else 0.0
        back = min(room(shape, origin, -1.0), room(slope, origin, -1.0)) if finite else 0.0
        ahead = min(room(shape, origin, 1.0), room(slope, origin, 1.0)) if finite else 0.0
        for i in range(count):
            step = y[i] - origin
            if -back < step < ahead:
                y[i] = jump if step > 0.0 else 0.0
                for g in range(5):
                    y[i] += 0.5 * GAP_W[g] * step * f_<j>(beyond(origin, 0.5 * (1.0 + GAP_X[g]) * step)<y>)
            else:
                y[i] = f_<i>(y[i]<x>) - (reference if finite else 0.0)
    shift = 0.0
    for i in range(count):
        shift += w[i] * y[i]
    variance = 0.0
    for i in range(count):
        z = y[i] - shift
        variance += w[i] * z * z
    if taken * taken > 1e9 * variance:
        return math.nan  # next to a root of a large function neither values nor slopes tell the difference
    return variance
''',
    "cross": r'''
def cross_<i>(shape, mu, q, delta, total<x>):
    """E f_<i>(u) f_<i>(v) for mean mu, variances q, delta = q - p and total = q + p."""
    if not (0.0 < q < math.inf and 0.0 <= delta <= 2.0 * q):
        return f_<i>(mu<x>) ** 2 if q == 0.0 else math.nan
    if delta == q:
        return mean_<i>(shape, mu, q<x>) ** 2
    if mu == 0.0 and shape[ANALYTIC] > 0.0 and math.sqrt(q) < QUIET * shape[RADIUS]:
        derivatives = np.empty(TERMS)
        series_derivatives(q, right_of(shape), derivatives)
        product = 0.0
        power = 1.0
        for n in range(TERMS):
            product += derivatives[n] ** 2 * power
            power *= q - delta
        return product
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    outer_y = np.empty(CAPACITY)
    outer_w = np.empty(CAPACITY)
    window = reach_<i>(shape, mu, math.sqrt(q), y, w<x>)
    s = own_part(q, delta, total)
    count = common_nodes(shape, mu, q, delta, s, window, outer_y, outer_w)
    if count < 0:
        return math.nan
    product = 0.0
    for i in range(count):
        value = smoothed_<i>(shape, outer_y[i], s, window, y, w<x>)
        mirrored = value if delta <= q else smoothed_<i>(shape, 2.0 * mu - outer_y[i], s, window, y, w<x>)
        product += outer_w[i] * value * mirrored
    return product
''',
    "gap": r'''
def gap_<i>(shape, slope, q, delta<x>):
    r"""E f_<i>(u)^2 - E f_<i>(u) f_<i>(v) to full relative accuracy.

    The mean of the variance given what u and v share; where both are near on the scale of f, \int_0^1 2 delta t E f'f'(delta t^2) dt.
    """
    if not (q > 0.0 and 0.0 < delta <= 2.0 * q):
        return 0.0 if delta == 0.0 or q == 0.0 else math.nan
    if shape[PARITY] > 0.0 and delta > q:  # f(v) = f(-v)
        delta = 2.0 * q - delta
        if delta == 0.0:
            return 0.0
    result = 0.0
    if shape[ANALYTIC] > 0.0 and math.sqrt(q) < QUIET * shape[RADIUS]:
        derivatives = np.empty(TERMS)
        series_derivatives(q, right_of(shape), derivatives)
        power = 1.0
        difference = 0.0  # q^n - p^n
        for n in range(1, TERMS):
            difference = q * difference + delta * power
            power *= q - delta
            result += derivatives[n] ** 2 * difference
        return result
    root = math.sqrt(q)
    farthest = singular(shape, WIDEST * root)
    if math.sqrt(min(delta, 2.0 * q - delta)) < 2e-5 * farthest:  # points next to a singularity are not told apart
        return math.nan
    if farthest < 0.0 and delta <= 1e-4 * q and math.sqrt(delta) < 0.05 * features(shape):
        for i in range(5):
            result += 0.5 * GAP_W[i] * rate_<i>(shape, slope, q, delta, 0.5 * (1.0 + GAP_X[i])<x>)
        return result
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    outer_y = np.empty(CAPACITY)
    outer_w = np.empty(CAPACITY)
    window = max(reach_<i>(shape, 0.0, root, y, w<x>), reach_<j>(slope, 0.0, root, y, w<y>))  # a constant part is no part of it
    s = own_part(q, delta, 2.0 * q - delta)
    count = common_nodes(shape, 0.0, q, delta, s, window, outer_y, outer_w)
    if count < 0:
        return math.nan
    for i in range(count):
        result += outer_w[i] * variance_<i>(shape, slope, outer_y[i], s, window, y, w<x>)
        if delta > q:
            value = smoothed_<i>(shape, outer_y[i], s, window, y, w<x>)
            mirrored = smoothed_<i>(shape, -outer_y[i], s, window, y, w<x>)
            result += outer_w[i] * 0.5 * (value - mirrored) ** 2
    return result
''',
    "rate": r'''
def rate_<i>(shape, slope, q, delta, t<x>):
    r"""2 delta t d/dp E f_<i>(u) f_<i>(v) at p = q - delta t^2, jumps of f_<i> included: Price's identity."""
    near = delta * t * t
    total = 2.0 * delta * t * cross_<j>(slope, 0.0, q, near, 2.0 * q - near<y>)
    breaks, jumps = breaks_of(shape), jumps_of(shape)
    root = math.sqrt(2.0 * q - near)
    for j in range(breaks.size):
        if jumps[j] == 0.0:
            continue
        k = breaks[j]
        density = math.exp(-0.5 * k * k / q) / math.sqrt(2.0 * math.pi * q)
        conditional = mean_<j>(slope, k * (1.0 - near / q), near * (2.0 * q - near) / q<y>)
        total += 4.0 * delta * t * jumps[j] * density * conditional
        for i in range(breaks.size):
            if jumps[i] != 0.0:
                exponent = q * (k - breaks[i]) ** 2 / (2.0 * near * (2.0 * q - near)) + k * breaks[i] / (2.0 * q - near)
                total += math.sqrt(delta) * jumps[i] * jumps[j] * math.exp(-exponent) / (math.pi * root)
    return total
''',
    "two": r'''
def two_<i>_<j>(first, second, m1, m2, q1, p, q2<both>):
    """E f_<i>(u) f_<j>(v) for means m1 and m2, variances q1 and q2 and covariance p."""
    if not (0.0 < q1 < math.inf and 0.0 < q2 < math.inf):
        return math.nan
    if p == 0.0:
        return mean_<i>(first, m1, q1<x>) * mean_<j>(second, m2, q2<y>)
    scale = math.sqrt(q1) * math.sqrt(q2)
    rho = min(abs(p) / scale, 1.0)
    rest = max(distance(q1, p, q2), 0.0) / (scale * scale * (1.0 + rho))
    if abs(p) > scale * (1.0 + 1e-15):
        return math.nan
    if m1 == 0.0 and m2 == 0.0:
        analytic = first[ANALYTIC] > 0.0 and second[ANALYTIC] > 0.0
        if analytic and math.sqrt(q1) < QUIET * first[RADIUS] and math.sqrt(q2) < QUIET * second[RADIUS]:
            derivatives = np.empty(TERMS)
            others = np.empty(TERMS)
            series_derivatives(q1, right_of(first), derivatives)
            series_derivatives(q2, right_of(second), others)
            product = 0.0
            power = 1.0
            for n in range(TERMS):
                product += derivatives[n] * others[n] * power
                power *= p
            return product
    a = math.sqrt(q1 * rho)
    b = math.copysign(math.sqrt(q2 * rho), p)
    s = max(math.sqrt(q1 * rest), 1e-150 * math.sqrt(q1))
    t = max(math.sqrt(q2 * rest), 1e-150 * math.sqrt(q2))
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    window = max(reach_<i>(first, m1, math.sqrt(q1), y, w<x>), reach_<j>(second, m2, math.sqrt(q2), y, w<y>))
    outer_y = np.empty(CAPACITY)
    outer_w = np.empty(CAPACITY)
    if rho < 1e-16:
        count = 1
        outer_y[0] = m1
        outer_w[0] = 1.0
    else:
        count = nodes_of_two(first, second, m1, a, s, m2, b, t, window, outer_y, outer_w)
    if count < 0:
        return math.nan
    total = 0.0
    for i in range(count):
        value = smoothed_<i>(first, outer_y[i], s, window, y, w<x>)
        other = smoothed_<j>(second, m2 + (outer_y[i] - m1) * (b / a), t, window, y, w<y>)
        total += outer_w[i] * value * other
    return total
''',
    "exchangeable": r'''
def exchangeable_<i>_<j>(shape, slope, q, delta, spread, code<both>):
    r"""E of a product over exchangeable u_t of f_<i>(u_t)^a_t f_<j>(u_t)^b_t u_t^c_t, their variances q and covariances q - delta.

    The exponents are the digits of `code`: \sum_t (a_t + 16 b_t + 128 c_t) 256^t. With `spread`, the covariance of the last two factors
    given the common part stands for them. For delta > q, where nothing is common, the moment is continued from delta = q, linear in
    the covariance.
    """
    if not (0.0 < q < math.inf and 0.0 <= delta <= 2.0 * q):
        return math.nan
    first = np.empty(4)
    second = np.empty(4)
    third = np.empty(4)
    for t in range(4):
        first[t] = code % 16.0
        code = (code - first[t]) / 16.0
        second[t] = code % 8.0
        code = (code - second[t]) / 8.0
        third[t] = code % 2.0
        code = (code - third[t]) / 2.0
    outer_y = np.empty(CAPACITY)
    outer_w = np.empty(CAPACITY)
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    one = np.empty(CAPACITY)
    other = np.empty(CAPACITY)
    means = np.empty(4)
    root = math.sqrt(q)
    window = max(reach_<i>(shape, 0.0, root, y, w<x>), reach_<j>(slope, 0.0, root, y, w<y>))
    window = math.sqrt(window * window + 16.0 * (first.sum() + second.sum() + third.sum()))  # powers reach farther
    factors = 2 if spread > 0.0 else 4
    bare = second[2] + third[2] + second[3] + third[3] == 0.0
    result = 0.0
    for turn in range(2 if delta > q else 1):
        apart = delta if delta <= q else (q if turn == 0 else 2.0 * q - delta)
        weight = 1.0 if delta <= q else (2.0 if turn == 0 else -1.0)
        a = math.sqrt(q - apart)
        s = max(math.sqrt(apart), 1e-150 * math.sqrt(q))
        outer = 1
        outer_y[0] = 0.0
        outer_w[0] = 1.0
        if a > 1e-8 * math.sqrt(q):
            outer = nodes_of_two(shape, slope, 0.0, a, s, 0.0, a, s, window, outer_y, outer_w)
        if outer < 0:
            return math.nan
        for k in range(outer):
            mu = outer_y[k]
            count = nodes_of_two(shape, slope, mu, s, 0.0, mu, s, 0.0, window, y, w)
            if count < 0:
                return math.nan
            means[:] = 0.0
            for i in range(count):
                value = f_<i>(y[i]<x>)
                derivative = f_<j>(y[i]<y>)
                for t in range(factors):
                    means[t] += w[i] * raised(value, first[t]) * raised(derivative, second[t]) * raised(y[i], third[t])
            term = weight * outer_w[k]
            for t in range(factors):
                if first[t] + second[t] + third[t] > 0.0:
                    term *= means[t]
            if spread > 0.0:
                at = f_<i>(mu<x>)
                rise = f_<j>(mu<y>)
                if bare and alone(shape, slope, mu, s):  # f^k(mu + s xi) - f^k(mu) as an integral of the slope: the values are too close
                    count = HERMITE_X.size
                    for i in range(count):
                        w[i] = HERMITE_W[i] / math.sqrt(2.0 * math.pi)
                        step = s * HERMITE_X[i]
                        one[i] = 0.0
                        other[i] = 0.0
                        for g in range(5):
                            z = mu + 0.5 * (1.0 + GAP_X[g]) * step
                            value = f_<i>(z<x>)
                            change = 0.5 * GAP_W[g] * step * f_<j>(z<y>)
                            one[i] += change * first[2] * raised(value, first[2] - 1.0)
                            other[i] += change * first[3] * raised(value, first[3] - 1.0)
                else:
                    origin = raised(at, first[2]) * raised(rise, second[2]) * raised(mu, third[2])
                    opposite = raised(at, first[3]) * raised(rise, second[3]) * raised(mu, third[3])
                    for i in range(count):
                        value = f_<i>(y[i]<x>)
                        derivative = f_<j>(y[i]<y>)
                        one[i] = raised(value, first[2]) * raised(derivative, second[2]) * raised(y[i], third[2]) - origin
                        other[i] = raised(value, first[3]) * raised(derivative, second[3]) * raised(y[i], third[3]) - opposite
                shift = 0.0
                drift = 0.0
                for i in range(count):
                    shift += w[i] * one[i]
                    drift += w[i] * other[i]
                covariance = 0.0
                for i in range(count):
                    covariance += w[i] * (one[i] - shift) * (other[i] - drift)
                term *= covariance
            result += term
    return result
''',
}
