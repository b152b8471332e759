r"""Gaussian expectations in float64 where no closed form exists, to machine precision for variances from 1e-12 to 1e12.

One primitive: nodes and weights for E f(Y), Y ~ N(mu, s^2), for f analytic except at real kinks and with complex singularities no
closer than `d` to the real axis. Smooth f: the trapezoidal rule, plain where the strip is wide, after y = L sinh t where it is
narrow. Kinked f: Gauss-Legendre panels split at the kinks and graded away from them.

It is used twice for two variables: with u = a x + s xi_1, v = +-a x + s xi_2, a^2 = |p|, s^2 = q - |p|,

    E f(u) f(v) = E_x g(x) g(+-x),   g(x) = E_xi f(a x + s xi),   and for p > 0   E f(u)^2 - E f(u) f(v) = E_x Var_xi f,

a sum of non-negative terms. These functions use only `math` and `numpy` and are copied into generated kernels by their source.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["CONSTANTS", "FUNCTIONS", "KINKED", "KINKED_RULES", "SMOOTH", "SMOOTH_RULES"]

WINDOW = 8.6  # standard deviations kept: exp(-8.6^2 / 2) = 1e-16
NATS = 40.0  # accuracy asked of the trapezoidal rule; second moments multiply its error by (2 pi / h)^2
CAPACITY = 8192  # most nodes of one rule
LEGENDRE_X, LEGENDRE_W = np.polynomial.legendre.leggauss(20)
GAP_X = (-0.9061798459386640, -0.5384693101056831, 0.0, 0.5384693101056831, 0.9061798459386640)
GAP_W = (0.2369268850561891, 0.4786286704993665, 0.5688888888888889, 0.4786286704993665, 0.2369268850561891)


def smooth_rule(mu: float, s: float, d: float, y: np.ndarray, w: np.ndarray) -> int:
    """Fill nodes and weights for a function with a strip of half-width d about the real axis; return their number."""
    b = 0.8 * d / s  # 0.8: the poles of squared derivatives are of high order
    widest = 2.0 * math.pi / math.sqrt(2.0 * NATS)
    far = abs(mu) > WINDOW * s + 4.0 * d
    if b >= 1.0 or far:
        h = widest if far or b > 9.0 else min(widest, 2.0 * math.pi * b / (NATS + 0.5 * b * b))
        m = math.floor(WINDOW / h) + 1
        c = h / math.sqrt(2.0 * math.pi)
        for j in range(-m, m + 1):
            xi = h * j
            y[j + m] = mu + s * xi
            w[j + m] = c * math.exp(-0.5 * xi * xi)
        return 2 * m + 1
    scale = 0.9 * d
    h = min(0.13 / (1.0 + 0.14 * abs(mu) / s), 0.8 * widest * s / scale)
    first = math.floor(math.asinh((mu - WINDOW * s) / scale) / h)
    last = math.ceil(math.asinh((mu + WINDOW * s) / scale) / h)
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


def panels(a: float, b: float, mu: float, s: float, y: np.ndarray, w: np.ndarray, k: int) -> int:
    """Gauss-Legendre panels of length at most 3 s on [a, b] within the window."""
    a = max(a, mu - WINDOW * s)
    b = min(b, mu + WINDOW * s)
    if not a < b:
        return k
    m = math.ceil((b - a) / (3.0 * s))
    r = (b - a) / (2 * m)
    for i in range(m):
        c = a + (2 * i + 1) * r
        for g in range(LEGENDRE_X.size):
            node = c + r * LEGENDRE_X[g]
            z = (node - mu) / s
            y[k] = node
            w[k] = r * LEGENDRE_W[g] * math.exp(-0.5 * z * z) / (s * math.sqrt(2.0 * math.pi))
            k += 1
    return k


def graded(start: float, stop: float, d: float, mu: float, s: float, y: np.ndarray, w: np.ndarray, k: int) -> int:
    """Panels from a kink at `start` towards `stop`, the first of length 2 d, each three times the one before."""
    direction = 1.0 if stop > start else -1.0
    x = start
    length = 2.0 * d
    while direction * (stop - x) > 0.0:
        following = x + direction * length
        if direction * (stop - following) < 0.3 * length:
            following = stop
        k = panels(min(x, following), max(x, following), mu, s, y, w, k)
        x = following
        length *= 3.0
    return k


def kinked_rule(mu: float, s: float, kinks: np.ndarray, d: float, y: np.ndarray, w: np.ndarray) -> int:
    """The same for a function with kinks, whose pieces vary on the scale d."""
    k = 0
    for i in range(kinks.size + 1):
        low = mu - WINDOW * s if i == 0 else max(kinks[i - 1], mu - WINDOW * s)
        high = mu + WINDOW * s if i == kinks.size else min(kinks[i], mu + WINDOW * s)
        if not low < high:
            continue
        from_left = i > 0 and kinks[i - 1] >= low
        from_right = i < kinks.size and kinks[i] <= high
        if s <= d or not (from_left or from_right):
            k = panels(low, high, mu, s, y, w, k)
            continue
        middle = 0.5 * (low + high) if from_left and from_right else (high if from_left else low)
        if from_left:
            k = graded(low, middle, d, mu, s, y, w, k)
        if from_right:
            k = graded(high, middle, d, mu, s, y, w, k)
    return k


#: what node rules need, in an order in which a generated file may hold it
CONSTANTS = ("WINDOW", "NATS", "CAPACITY", "LEGENDRE_X", "LEGENDRE_W", "GAP_X", "GAP_W")
SMOOTH_RULES = (smooth_rule,)
KINKED_RULES = (panels, graded, kinked_rule)

#: The node rule of a smooth integrand, and of one with kinks: itself, and smoothed at scale s by an inner expectation.
SMOOTH = """
def rule_<i>(mu: float, s: float, y: np.ndarray, w: np.ndarray) -> int:
    return smooth_rule(mu, s, D_<i>, y, w)


def outer_<i>(mu: float, a: float, s: float, y: np.ndarray, w: np.ndarray) -> int:
    return smooth_rule(mu, a, max(D_<i>, s), y, w)


def outer_two_<i>(a: float, s: float, b: float, t: float, y: np.ndarray, w: np.ndarray) -> int:
    return smooth_rule(0.0, a, min(max(D_<i>, s), a / abs(b) * max(D_<i>, t)), y, w)
"""
KINKED = """
def rule_<i>(mu: float, s: float, y: np.ndarray, w: np.ndarray) -> int:
    return kinked_rule(mu, s, KINKS_<i>, D_<i>, y, w)


def outer_<i>(mu: float, a: float, s: float, y: np.ndarray, w: np.ndarray) -> int:
    return kinked_rule(mu, a, KINKS_<i>, min(a, s), y, w)


def outer_two_<i>(a: float, s: float, b: float, t: float, y: np.ndarray, w: np.ndarray) -> int:
    kinks = np.sort(np.concatenate((KINKS_<i>, KINKS_<i> * (a / b))))
    return kinked_rule(0.0, a, kinks, min(a, s, a / abs(b) * t), y, w)
"""

#: The quadrature functions of integrand f_<i> with scale D_<i> and kinks KINKS_<i>; its derivative is f_<j>. Text, because numba can
#: cache no function that is handed another one: each integrand has its own copies.
FUNCTIONS = {
    "mean": r'''
def mean_<i>(mu: float, q: float) -> float:
    """E f_<i>(u), u ~ N(mu, q)."""
    if not 0.0 < q < math.inf:
        return f_<i>(mu) if q == 0.0 else math.nan
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    total = 0.0
    for i in range(rule_<i>(mu, math.sqrt(q), y, w)):
        total += w[i] * f_<i>(y[i])
    return total
''',
    "moments_at": r'''
def moments_at_<i>(mu: float, s: float, y: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    """Mean and variance of f_<i>(mu + s xi), the variance in two passes about a reference value where f is nearly constant."""
    count = rule_<i>(mu, s, y, w)
    plain = s < D_<i>
    for j in range(KINKS_<i>.size):
        plain = plain and abs(mu - KINKS_<i>[j]) > WINDOW * s
    reference = f_<i>(mu) if plain else 0.0
    shift = 0.0
    for i in range(count):
        shift += w[i] * (f_<i>(y[i]) - reference)
    variance = 0.0
    for i in range(count):
        z = f_<i>(y[i]) - reference - shift
        variance += w[i] * z * z
    return reference + shift, variance
''',
    "pair": r'''
def pair_<i>(mu: float, q: float, delta: float, reference: float) -> tuple[float, float]:
    """E g(u) g(v), g = f_<i> - reference, and where p > 0 its gap, for mean mu, variances q and covariance p = q - delta."""
    if not (0.0 < q < math.inf and 0.0 <= delta <= 2.0 * q):
        return ((f_<i>(mu) - reference) ** 2, 0.0) if q == 0.0 else (math.nan, math.nan)
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    outer_y = np.empty(CAPACITY)
    outer_w = np.empty(CAPACITY)
    positive = delta <= q
    a = math.sqrt(q - delta) if positive else math.sqrt(delta - q)
    s = math.sqrt(delta) if positive else math.sqrt(2.0 * q - delta)
    if a <= 1e-8 * math.sqrt(q):
        count = 1
        outer_y[0] = mu
        outer_w[0] = 1.0
    elif s <= 1e-150 * math.sqrt(q):
        s = 1e-150 * math.sqrt(q)
        count = rule_<i>(mu, a, outer_y, outer_w)
    else:
        count = outer_<i>(mu, a, s, outer_y, outer_w)
    product = 0.0
    difference = 0.0
    for i in range(count):
        value, variance = moments_at_<i>(outer_y[i], s, y, w)
        difference += outer_w[i] * variance
        if positive:
            product += outer_w[i] * (value - reference) ** 2
        else:
            mirrored, variance = moments_at_<i>(2.0 * mu - outer_y[i], s, y, w)
            product += outer_w[i] * (value - reference) * (mirrored - reference)
    return product, difference
''',
    "gap": r'''
def gap_<i>(q: float, delta: float) -> float:
    r"""E f_<i>(u)^2 - E f_<i>(u) f_<i>(v) to full relative accuracy: E Var, or for small delta \int_0^1 2 delta t E f'f'(delta t^2) dt."""
    if not (q > 0.0 and delta > 0.0):
        return 0.0 if delta == 0.0 or q == 0.0 else math.nan
    if delta > q:
        second = 0.0
        reference = f_<i>(0.0)  # a constant drops out of the gap, and would cancel in it at small q
        product, _ = pair_<i>(0.0, q, delta, reference)
        y = np.empty(CAPACITY)
        w = np.empty(CAPACITY)
        for i in range(rule_<i>(0.0, math.sqrt(q), y, w)):
            z = f_<i>(y[i]) - reference
            second += w[i] * z * z
        return second - product
    separation = D_<i>
    for j in range(1, KINKS_<i>.size):
        separation = min(separation, KINKS_<i>[j] - KINKS_<i>[j - 1])
    if math.sqrt(delta) > 0.05 * separation or (KINKS_<i>.size > 0 and delta > 1e-6 * q):
        _, difference = pair_<i>(0.0, q, delta, 0.0)
        return difference
    total = 0.0
    for i in range(5):
        t = 0.5 * (1.0 + GAP_X[i])
        product, _ = pair_<j>(0.0, q, delta * t * t, 0.0)
        total += GAP_W[i] * t * product
    return delta * total
''',
    "unequal": r'''
def unequal_<i>(q1: float, p: float, q2: float) -> float:
    """E f_<i>(u) f_<i>(v), both centred, for variances q1 and q2 and covariance p."""
    scale = math.sqrt(q1) * math.sqrt(q2)
    if not (q1 > 0.0 and q2 > 0.0 and abs(p) <= scale * (1.0 + 1e-15)):
        return math.nan
    rho, rest = abs(p) / scale, max(1.0 - abs(p) / scale, 1e-300)
    a = math.sqrt(q1 * max(rho, 1e-32))
    b = math.copysign(math.sqrt(q2 * max(rho, 1e-32)), p)
    s = math.sqrt(q1 * rest)
    t = math.sqrt(q2 * rest)
    y = np.empty(CAPACITY)
    w = np.empty(CAPACITY)
    outer_y = np.empty(CAPACITY)
    outer_w = np.empty(CAPACITY)
    total = 0.0
    for i in range(outer_two_<i>(a, s, b, t, outer_y, outer_w)):
        first, _ = moments_at_<i>(outer_y[i], s, y, w)
        second, _ = moments_at_<i>(outer_y[i] * (b / a), t, y, w)
        total += outer_w[i] * first * second
    return total
''',
    "cross": r'''
def cross_<i>(mu: float, q: float, delta: float) -> float:
    """E f(u) f(v) for mean mu, variances q and covariance p = q - delta."""
    return pair_<i>(mu, q, delta, 0.0)[0]
''',
}
