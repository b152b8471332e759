"""Scalar functions that generated kernels use beside `math`: copied into them by their source, so only `math` may appear here."""

from __future__ import annotations

import math

from meanfield.gaussian.softmax_sums import (
    SERIES,
    WIDE,
    softmax_average,
    softmax_drifts,
    softmax_exponent,
    softmax_rate,
    softmax_response,
    softmax_slope,
    softmax_sums,
    softmax_terms,
    softmax_triple,
    softmax_value,
    wide_factors,
)
from meanfield.numeric.elementary import ERFC

__all__ = [
    "SERIES",
    "WIDE",
    "COSTS",
    "ERFC",
    "acute_angle",
    "angle_minus_sine",
    "bivariate_density",
    "bivariate_normal",
    "cosine_normal_cdf",
    "faddeeva",
    "flat_angle",
    "guarded",
    "guarded_sqrt",
    "heaviside",
    "inverse_root",
    "lowered_product",
    "normal_cdf",
    "normal_density",
    "root_angle",
    "scaled_erfc",
    "segment",
    "sign",
    "sine_normal_cdf",
    "smaller",
    "softmax_average",
    "softmax_drifts",
    "softmax_exponent",
    "softmax_rate",
    "softmax_response",
    "softmax_slope",
    "softmax_sums",
    "softmax_terms",
    "softmax_triple",
    "softmax_value",
    "tangent_segment",
    "unbounded",
    "wide_factors",
]

#: positive nodes and weights of 20-point Gauss-Legendre quadrature
LEGENDRE_X = (
    0.993128599185095,
    0.9639719272779138,
    0.912234428251326,
    0.8391169718222188,
    0.7463319064601508,
    0.636053680726515,
    0.5108670019508271,
    0.37370608871541955,
    0.22778585114164507,
    0.07652652113349734,
)
LEGENDRE_W = (
    0.017614007139150893,
    0.040601429800386446,
    0.06267204833410879,
    0.08327674157670471,
    0.1019301198172407,
    0.1181945319615186,
    0.1316886384491769,
    0.1420961093183824,
    0.14917298647260424,
    0.15275338713072628,
)

#: the step of the trapezoidal sums for the Faddeeva function: sqrt(pi/12)
FADDEEVA_STEP = 0.5116633539732443

#: what the source of a primitive needs besides `math`
NEEDS = {
    "guarded_sqrt": ("guarded",),
    "scaled_erfc": ("ERFC",),
    "segment": ("angle_minus_sine",),
    "tangent_segment": ("angle_minus_sine",),
    "bivariate_normal": ("LEGENDRE_X", "LEGENDRE_W", "normal_cdf", "normal_density"),
    **dict.fromkeys(("cosine_normal_cdf", "sine_normal_cdf"), ("FADDEEVA_STEP", "faddeeva")),
    **dict.fromkeys(
        ("softmax_exponent", "softmax_response", "softmax_triple"),
        ("SERIES", "WIDE", "wide_factors", "softmax_average", "softmax_drifts", "softmax_terms", "softmax_sums", "softmax_value"),
    ),
    "softmax_slope": ("SERIES", "WIDE", "wide_factors", "softmax_rate", "softmax_drifts", "softmax_terms", "softmax_sums"),
}
#: what a call costs as plain Python, in milliseconds, where that is not nothing
COSTS = {"bivariate_normal": 0.03} | dict.fromkeys(("softmax_exponent", "softmax_response", "softmax_slope", "softmax_triple"), 40.0)


def angle_minus_sine(t: float) -> float:
    """t - sin t for 0 <= t <= pi without cancellation for small t: the quotient by t^3 as a polynomial of t^2, in pairs of pairs."""
    s = t * t
    u = s * s
    a = 0.16666666666666666 + s * -0.008333333333333333 + u * (0.00019841269841269817 + s * -2.7557319223982017e-06)
    b = 2.505210838512761e-08 + s * -1.605904382195064e-10 + u * (7.647163292687179e-13 + s * -2.8114489197231916e-15)
    c = 8.219617574391419e-18 + s * -1.9495555003914384e-20 + u * 3.533158292227539e-23
    return t * s * (a + u * u * (b + u * u * c))


def acute_angle(y: float, x: float) -> float:
    """atan2(y, x), x, y >= 0."""
    return math.atan2(y, x)


def flat_angle(y: float, x: float) -> float:
    """arctan y/x, |y| <= x."""
    return math.atan(y / x)


def root_angle(u: float, v: float) -> float:
    """arctan sqrt(u/v), u, v >= 0."""
    return math.atan2(math.sqrt(u), math.sqrt(v))


def segment(u: float, v: float) -> float:
    """2 t - sin 2 t for t = arctan sqrt(u/v): twice what a chord cuts off the unit disc."""
    return angle_minus_sine(2.0 * math.atan2(math.sqrt(u), math.sqrt(v)))


def tangent_segment(w: float, sine: float) -> float:
    """The same for t = arctan w, w >= 0, beside sin 2 t."""
    return 2.0 * math.atan(w) - sine if w > 1.0 else angle_minus_sine(2.0 * math.atan(w))


def smaller(a: float, b: float) -> float:
    """The smaller of two numbers, nan where one of them is."""
    return a if (a < b) | (a != a) else b


def guarded(x: float, scale: float) -> float:
    """A difference of numbers of size `scale`, 0 where rounding has made it negative; one that is negative remains so."""
    least = x + 1e-12 * scale
    least = least if least < 0.0 else 0.0
    return least if x < least else x


def guarded_sqrt(x: float, scale: float) -> float:
    """The square root of such a difference."""
    return math.sqrt(guarded(x, scale))


def inverse_root(x: float) -> float:
    """1/sqrt(x)."""
    return 1.0 / math.sqrt(x)


def lowered_product(a: float, b: float) -> float:
    """2^-1000 a b."""
    return a * 9.332636185032189e-302 * b


def unbounded(weight: float) -> float:
    """The product of a weight and of what is infinite, 0 where the weight is: no weight lets anything through."""
    return 0.0 if weight == 0.0 else weight * math.inf


def heaviside(x: float, at_zero: float) -> float:
    """The unit step with that value at 0."""
    return at_zero if x == 0.0 else (1.0 if x > 0.0 else 0.0)


def sign(x: float) -> float:
    """-1, 0 or 1."""
    return 0.0 if x == 0.0 else math.copysign(1.0, x)


def normal_cdf(z: float) -> float:
    """The standard normal distribution function."""
    return 0.5 * math.erfc(-z * 0.7071067811865476)


def normal_density(z: float) -> float:
    """The standard normal density."""
    return 0.3989422804014327 * math.exp(-0.5 * z * z)


def scaled_erfc(x: float) -> float:
    """exp(x^2) erfc(x), x >= 0."""
    t = (x - 3.0) / (x + 3.0)
    total = 0.0
    for i in range(25):
        total = total * t + ERFC[24 - i]
    return total / (1.0 + 2.0 * x)


def bivariate_density(h: float, k: float, r: float) -> float:
    """exp(-(h^2 - 2 r h k + k^2)/(2 (1 - r^2)))/(2 pi)."""
    return 0.15915494309189535 * math.exp(-0.5 * (h * h - 2.0 * r * h * k + k * k) / ((1.0 - r) * (1.0 + r)))


def bivariate_normal(h: float, k: float, r: float) -> float:
    """P(X < h, Y < k) for standard normals of correlation r, to 1e-15 relative, the tails too.

    Plackett's integral of the density over the correlation (1954, Biometrika 41, 351), in s with tanh s = r: with a = (h - k)^2/8 and
    b = (h + k)^2/8 it is 1/pi int ds exp(-a (1 + e^{2s}) - b (1 + e^{-2s}))/(e^s + e^{-s}) from -oo, where it began as
    max(0, P(-k < X < h)). No term is negative, and none of 38 or more in the exponent below the largest counts.
    """
    low, high = min(h, k), max(h, k)
    if r >= 1.0 or high > 1e100 or low < -1e100:
        return normal_cdf(low)
    total = 0.0
    both = low + high
    if both > 0.0:
        total = normal_cdf(low) - normal_cdf(-high)
        if both * (1.0 + abs(low)) < 1.0:
            total = 0.0
            for i in range(10):
                for side in (-0.5, 0.5):
                    total += 0.5 * both * LEGENDRE_W[i] * normal_density(0.5 * (low - high) + side * both * LEGENDRE_X[i])
    a = 0.125 * (h - k) * (h - k)
    b = 0.125 * both * both
    square = (1.0 + r) / (1.0 - r)  # e^{2s} at the end
    if r <= -1.0:
        return total
    rest = 2.0 * math.sqrt(a) * math.sqrt(b) if a * square * square > b else a * square + b / square
    if a + b + rest > 745.0:
        return total
    rest += 38.0
    wide = rest + math.sqrt(rest * rest - 4.0 * a * b)
    end = min(square, wide / max(2.0 * a, 1e-300), 1e35)
    begin = max(2.0 * b / wide, 1e-33 * min(end, 1.0))
    root = math.sqrt(end)
    length = 0.5 * math.log(end / begin)
    count = max(3, int(0.5 * length) + 1)
    half = 0.5 * length / count
    integral = 0.0
    for j in range(count):
        middle = (2.0 * j + 1.0) * half
        for i in range(10):
            for side in (-half, half):
                u = root * math.exp(side * LEGENDRE_X[i] - middle)
                integral += LEGENDRE_W[i] * math.exp(-a * (1.0 + u * u) - b * (1.0 + 1.0 / (u * u))) / (u + 1.0 / u)
    return total + integral * half / math.pi


def faddeeva(x: float, y: float) -> tuple[float, float]:
    """Real and imaginary part of w(x + i y) = exp(-z^2) erfc(-i z), x, y >= 0, to 1e-15 of its modulus.

    Trapezoidal sums of w(z) = 2 i z/pi int_0^oo exp(-t^2)/(z^2 - t^2) dt that keep away from the pole, which is put in where it counts
    (Al Azah and Chandler-Wilde 2021, SIAM J. Numer. Anal. 59, 2346).
    """
    longer = max(x, y)
    if longer > 1e8:  # i/(sqrt(pi) z) but for 1/(2 z^2)
        part = min(x, y) / longer
        one = 0.5641895835477563 / (longer + part * min(x, y))
        return (one, one * part) if y >= x else (one * part, one)
    size = x * x + y * y
    rate = 2.0 * math.pi / FADDEEVA_STEP
    turn = x / FADDEEVA_STEP - math.floor(x / FADDEEVA_STEP)
    far = y >= max(x, 0.5 * rate)
    middle = far or turn < 0.25 or turn > 0.75
    a, b = (x - y) * (x + y), 2.0 * x * y
    real = imaginary = 0.0
    for i in range(12):
        t = (i + (0.5 if middle else 1.0)) * FADDEEVA_STEP
        c = a - t * t
        scale = math.exp(-t * t) / (c * c + b * b)
        real += c * scale
        imaginary -= b * scale
    real, imaginary = -(y * real + x * imaginary) * 4.0 / rate, (x * real - y * imaginary) * 4.0 / rate
    if not middle:
        real += 2.0 / rate * y / size
        imaginary += 2.0 / rate * x / size
    if far or -a - rate * y < -60.0:
        return real, imaginary
    side = 1.0 if middle else -1.0  # 2 exp(-z^2)/(1 +- exp(-2 pi i z/h)), both sides times exp(-2 pi y/h)
    c, d = math.exp(-rate * y) + side * math.cos(rate * x), -side * math.sin(rate * x)
    scale = 2.0 * math.exp(-a - rate * y) / (c * c + d * d)
    return real + scale * (c * math.cos(b) - d * math.sin(b)), imaginary - scale * (c * math.sin(b) + d * math.cos(b))


def cosine_normal_cdf(h: float, k: float) -> float:
    """The integral of the standard normal density times cos(k z) up to h, to 1e-15 absolute."""
    turn, tail = abs(h * k), 0.0  # that of -|h| is exp(-h^2/2) times the real part of exp(i |h| |k|) conj w/2, 0 at either limit
    if math.isnan(h) or math.isnan(k):
        return math.nan
    if turn < math.inf:
        real, imaginary = faddeeva(abs(k) * 0.7071067811865476, abs(h) * 0.7071067811865476)
        tail = 0.5 * math.exp(-0.5 * h * h) * (math.cos(turn) * real - math.sin(turn) * imaginary)
    return tail if h <= 0.0 else math.exp(-0.5 * k * k) - tail


def sine_normal_cdf(h: float, k: float) -> float:
    """The integral of the standard normal density times sin(k z) up to h, to 1e-15 absolute."""
    turn = abs(h * k)
    if math.isnan(h) or math.isnan(k):
        return math.nan
    if not turn < math.inf:
        return 0.0
    real, imaginary = faddeeva(abs(k) * 0.7071067811865476, abs(h) * 0.7071067811865476)
    return -0.5 * math.copysign(math.exp(-0.5 * h * h), k) * (math.cos(turn) * imaginary + math.sin(turn) * real)
