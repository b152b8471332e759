r"""The elementary functions of compiled recursions without a branch or a library call, so that the compiler can make vector code of a
loop over grid points.

Each is written once, on traced values (`tracing`). An argument is reduced by exact steps and a polynomial does the rest; coefficients
are Chebyshev interpolants of the functions named beside them, found in 60 digits. Errors stay below 4 units in the
last place, 5 for `scaled_erfc` and 7 for `segment`. Every double is an argument like any other: infinite, not a number, subnormal.
"""

from __future__ import annotations

import math

from meanfield.numeric.tracing import Value, bits, copysign, double, fma, instruction, sqrt, where

__all__ = ["FUNCTIONS"]

HALF_PI, HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # small multiples of the first are exact
ROUNDER = 6755399441055744.0  # adding 1.5 * 2^52 rounds to a whole number and leaves it in the low bits
ONE, HALF = 0x3FF0000000000000, 0x3FE0000000000000  # the bits of 1 and 1/2
SMALLEST, TINY = 2.2250738585072014e-308, 5e-324
TAN_EIGHTH = 0.41421356237309503  # of a turn of pi

#: (e^r - 1 - r)/r^2, |r| <= ln(2)/2
EXP = (
    *(0.5000000000000001, 0.16666666666666669, 0.041666666666623824, 0.008333333333330039, 0.0013888888917367081),
    *(0.00019841269863171557, 2.4801521057868204e-05, 2.7557268276905696e-06, 2.7620201591031547e-07, 2.5100472505694996e-08),
)
#: the same, |r| <= ln(2)/32
SHORT_EXP = (0.5, 0.16666666665285237, 0.041666666664939886, 0.008333450400512872, 0.0013889035222671448)
#: (1/sqrt(1 - e) - 1)/e, |e| <= 2^-13
INVERSE_ROOT = (0.5, 0.37500000407, 0.3125)
#: (ln((1 + s)/(1 - s)) - 2 s)/s^3 in s^2, |s| <= (sqrt(2) - 1)/(sqrt(2) + 1)
LOG = (
    *(0.666666666666667, 0.39999999999899505, 0.28571428625975764, 0.22222211134749734),
    *(0.18182889128565508, 0.15331721490738642, 0.14616451042434167),
)
#: (arctan(t) - t)/t^3 in t^2, |t| <= tan(pi/8)
ATAN = (
    *(-0.3333333333333333, 0.1999999999999552, -0.14285714284666542, 0.11111111015256223, -0.09090904578118268, 0.07692183190695215),
    *(-0.0666451144553849, 0.05858148896788035, -0.050854496541382486, 0.039231655874580044, -0.019176884154115826),
)
TWICE_ATAN = tuple(2.0 * c for c in ATAN)
#: the same, |t| <= 1
WIDE_ATAN = (
    *(-0.3333333333333333, 0.1999999999999753, -0.14285714285384132, 0.11111111093490827, -0.09090908590891934, 0.07692298971033217),
    *(-0.06666564699289104, 0.05881506877793656, -0.052579733342841106, 0.04737749579527779, -0.04260356632601652, 0.03749486812535247),
    *(-0.031277189066996385, 0.023696731580048622, -0.015535152475414177, 0.008368931178450162, -0.0034958859739163094),
    *(0.0010496035084968515, -0.00019996189377901382, 1.806195461861215e-05),
)
#: erf(x)/x in x^2, |x| <= 1
ERF = (
    *(1.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792, 0.0052239776248180145, -0.000854832698083379),
    *(0.0001205533111164271, -1.4925595266831182e-05, 1.6461000484121368e-06, -1.6350312701054695e-07, 1.4659775274047436e-08),
    *(-1.1372848856791674e-09, 5.957176147748911e-11),
)
#: (1 + 2 x) e^(x^2) erfc(x) in (x - 3)/(x + 3), x >= 0 (Shepherd and Laframboise 1981)
ERFC = (
    *(1.2530080582697296, -0.13562110612458117, -0.04756229435345087, 0.1296451587027606, -0.11927366341530699, 0.06830802734397848),
    *(-0.023770514918645888, 0.002529391816066239, 0.0018886903591561553, -0.0007798322721083991, -0.00010515979981501177),
    *(0.00012509935235563107, 4.949484992570595e-06, -2.0100567931289227e-05, -7.315105164159062e-07, 3.472414602875686e-06),
    *(3.5683839153992204e-07, -6.166496077604353e-07, -1.4160064940265987e-07, 1.0187000600072885e-07, 4.180784698845582e-08),
    *(-1.3326364813003834e-08, -8.500397929772615e-09, 9.885798831139365e-10, 8.864219016427092e-10),
)


def polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """The sum of c_k x^k in pairs of pairs, so that few operations wait for each other (Estrin), down to three terms, which take no longer
    one by one."""
    terms: list[Value | float] = list(coefficients)
    while len(terms) > 3:
        pairs: list[Value | float] = [fma(b, x, a) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(terms) & ~1 :]
        x = x * x
    result = terms[-1]
    for term in reversed(terms[:-1]):
        result = fma(result, x, term)
    assert isinstance(result, Value)
    return result


def _with_first(x: Value, coefficients: tuple[float, ...]) -> Value:
    """the same where the first coefficient outweighs the others, and is rounded once"""
    return fma(x, polynomial(x, coefficients[1:]), coefficients[0])


def _whole(x: Value, rounder: float) -> tuple[Value, Value]:
    """a number with k in its last bits, and k: x/ln 2 to the unit that the rounder has"""
    t = fma(x, 1.4426950408889634, rounder)
    return t, t - rounder


def _growth(x: Value, k: Value, low: Value | None, coefficients: tuple[float, ...]) -> Value:
    """e^r - 1 with x + low = k ln 2 + r"""
    r = fma(-k, LN2_LOW, fma(-k, LN2_HIGH, x))
    r = r if low is None else r + low
    return fma(r * r, polynomial(r, coefficients), r)


def _exp(x: Value, low: Value | None = None) -> Value:
    x = where(x < -746.0, -746.0, where(x > 710.0, 710.0, x))
    t, k = _whole(x, ROUNDER / 16.0)
    root, rest = instruction("root", t), instruction("rest", t)
    if root is None or rest is None:
        return _exp_in_halves(x, low)
    return instruction("scaled", root + fma(root, _growth(x, k, low, SHORT_EXP), rest), k)  # type: ignore[return-value]


def _exp_in_halves(x: Value, low: Value | None) -> Value:
    """the same with two powers of two, the product of which may be subnormal or infinite"""
    t, k = _whole(x, ROUNDER)
    e, turns = _growth(x, k, low, EXP), bits(t)
    half = (turns >> 1) << 52
    scale = double(half + ONE)
    return fma(e, scale, scale) * double((turns << 52) - half + ONE)


def _inverse(x: Value) -> Value:
    """1/x for x that is neither 0, subnormal nor infinite"""
    guess = instruction("inverse_guess", x)
    if guess is None:
        return 1.0 / x
    e = fma(-x, guess, 1.0)
    return fma(guess * e, fma(e, 1.0 + e, 1.0), guess)


def inverse_root(x: Value) -> Value:
    guess = instruction("inverse_root_guess", x)
    if guess is None:
        return 1.0 / sqrt(x)
    e = fma(-x * guess, guess, 1.0)
    return where(e < 1.0, fma(guess * e, polynomial(e, INVERSE_ROOT), guess), guess)  # of 0 and infinity the guess is exact


def exp(x: Value) -> Value:
    return _exp(x)


def expm1(x: Value) -> Value:
    within = where(x < -40.0, -40.0, where(x > 710.0, 710.0, x))
    t, k = _whole(within, ROUNDER)
    e, half = _growth(within, k, None, EXP), double((bits(t) << 52) + HALF)
    return where(abs(x) < 2.0**-54, x, 2.0 * fma(half, e, half - 0.5))


def _logarithm(u: Value, correction: Value | float, shift: Value | float) -> Value:
    """ln(u) + correction + shift ln 2 for normal positive u"""
    i = bits(u) + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
    k = double((i >> 52) | 0x4330000000000000) - (2.0**52 + 1023.0) + shift
    f = double((i & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - 1.0
    s = f / (2.0 + f)
    z = s * s
    tail = fma(s * z, polynomial(z, LOG), fma(k, LN2_LOW, correction))
    return fma(k, LN2_HIGH, fma(2.0, s, tail))


def _with_edges(u: Value, result: Value) -> Value:
    return where(u == math.inf, math.inf, where(u > 0.0, result, where(u == 0.0, -math.inf, math.nan)))


def log(x: Value) -> Value:
    small = x < SMALLEST
    return _with_edges(x, _logarithm(where(small, x * 2.0**54, x), 0.0, where(small, -54.0, 0.0)))


def logarithm(mantissa: Value, exponent: Value) -> Value:
    """ln(mantissa 2^(500 exponent)) of a mantissa that is not subnormal"""
    return _with_edges(mantissa, _logarithm(mantissa, 0.0, 500.0 * exponent))


def _after_one(x: Value) -> tuple[Value, Value]:
    """1 + x, and what rounding took from it over it"""
    u = 1.0 + x
    lost = where(x >= 1.0, 1.0 - (u - x), x - (u - 1.0))
    return u, lost / u


def log1p(x: Value) -> Value:
    u, lost = _after_one(x)
    return where(abs(x) < 2.0**-54, x, _with_edges(u, _logarithm(u, lost, 0.0)))


def asinh(x: Value) -> Value:
    a = abs(x)
    far = a > 2.0**28  # ln(2 a) to all digits
    b = where(far, 0.0, a)
    u, lost = _after_one(b + b * b / (1.0 + sqrt(fma(b, b, 1.0))))
    root = where(far, a, u)
    return copysign(where(a < 2.0**-28, a, _with_edges(root, _logarithm(root, lost, where(far, 1.0, 0.0)))), x)


def _quotient(y: Value, x: Value | float) -> tuple[Value, Value]:
    """of y, x >= 0 the smaller over the larger, and whether that is x/y"""
    steep = y > x
    a, b = where(steep, x, y), where(steep, y, x)
    return where(a == b, where(b > 0.0, 1.0, b), a / b), steep  # also where both are 0 or infinite


def _turned(turn: Value, t: Value, z: Value) -> Value:
    """a multiple of a quarter turn and the arc tangent of t, whose square is z"""
    angle = turn + t
    return angle + fma(t * z, polynomial(z, WIDE_ATAN), fma(turn, HALF_PI_LOW / HALF_PI, t - (angle - turn)))


def atan2(y: Value, x: Value | float) -> Value:
    t, steep = _quotient(abs(y), abs(x) if isinstance(x, Value) else x)
    far = where(copysign(1.0, x) < 0.0, 2.0 * HALF_PI, 0.0) if isinstance(x, Value) else 0.0
    return copysign(_turned(where(steep, HALF_PI, far), copysign(t, where(steep, -x, x)), t * t), y)


def atan(x: Value) -> Value:
    return atan2(x, 1.0)


def _near(across: Value, along: Value, turn: Value) -> Value:
    """a turn and the arc tangent of a quotient of at most tan(pi/8)"""
    t = across / along
    z = t * t
    return turn + fma(t * z, polynomial(z, ATAN), t)


def acute_angle(y: Value, x: Value) -> Value:
    """atan2 of x, y >= 0: from the axis or the diagonal next to it"""
    half, steep = y > TAN_EIGHTH * x, TAN_EIGHTH * y > x
    across = where(steep, -x, where(half, y - x, y))
    along = where(steep, y, where(half, y + x, x))
    return _near(across, where(along < TINY, TINY, along), where(steep, HALF_PI, where(half, 0.5 * HALF_PI, 0.0)))  # also where both are 0


def flat_angle(y: Value, x: Value) -> Value:
    """arctan y/x, |y| <= x"""
    b = abs(y)
    half = b > TAN_EIGHTH * x
    return copysign(_near(where(half, b - x, b), where(half, b + x, x), where(half, 0.5 * HALF_PI, 0.0)), y)


def root_angle(u: Value, v: Value) -> Value:
    """arctan sqrt(u/v), u, v >= 0"""
    z, steep = _quotient(u, v)
    t = sqrt(z)
    return _turned(where(steep, HALF_PI, 0.0), where(steep, -t, t), z)


def segment(u: Value, v: Value) -> Value:
    """2 t - sin 2 t for t = arctan sqrt(u/v): twice what a chord cuts off the unit disc."""
    z, steep = _quotient(u, v)
    t, arc, chord = sqrt(z), polynomial(z, WIDE_ATAN), _inverse(1.0 + z)
    rest = fma(t, chord, fma(t * z, arc, t))
    return where(steep, 2.0 * HALF_PI - 2.0 * (rest - HALF_PI_LOW), 2.0 * t * z * (arc + chord))


def tangent_segment(w: Value, sine: Value) -> Value:
    """the same for t = arctan w, w >= 0, beside sin 2 t, from which a long arc is far"""
    half, steep = w > TAN_EIGHTH, w > 2.0 + TAN_EIGHTH
    t = where(steep, -1.0, where(half, w - 1.0, w)) / where(steep, w, where(half, w + 1.0, 1.0))
    z = t * t
    far = fma(2.0, t, where(steep, 2.0 * HALF_PI, HALF_PI) - sine)
    return fma(t * z, polynomial(z, TWICE_ATAN), where(half, far, z * sine))


def asin(x: Value) -> Value:
    return atan2(x, sqrt((1.0 - x) * (1.0 + x)))


def acos(x: Value) -> Value:
    return atan2(sqrt((1.0 - x) * (1.0 + x)), x)


def tanh(x: Value) -> Value:
    a = abs(x)
    m = expm1(2.0 * where(a > 22.0, 22.0, a))
    return copysign(m / (m + 2.0), x)


def sinh(x: Value) -> Value:
    a = abs(x)
    m = expm1(where(a > 22.0, 22.0, a))
    root = exp(0.5 * a)
    return copysign(where(a > 22.0, 0.5 * root * root, 0.5 * (m + m / (m + 1.0))), x)


def cosh(x: Value) -> Value:
    a = abs(x)
    e = exp(where(a > 22.0, 22.0, a))
    root = exp(0.5 * a)
    return where(a > 22.0, 0.5 * root * root, 0.5 * (e + 1.0 / e))


def scaled_erfc(x: Value) -> Value:
    return _with_first((x - 3.0) / (x + 3.0), ERFC) / (1.0 + 2.0 * x)


def _tail(a: Value) -> Value:
    """erfc(a), a >= 1/2"""
    a = where(a > 28.0, 28.0, a)
    short = double(bits(a) & ~0x7FFFFFF)  # its square is exact
    return _exp(-short * short, -(a - short) * (a + short)) * scaled_erfc(a)


def erfc(x: Value) -> Value:
    tail = _tail(abs(x))
    return where(abs(x) < 0.5, 1.0 - x * _with_first(x * x, ERF), where(x < 0.0, 2.0 - tail, tail))


def erf(x: Value) -> Value:
    return where(abs(x) < 1.0, x * _with_first(x * x, ERF), copysign(1.0 - _tail(abs(x)), x))


#: what takes the place of the functions of `math` and of primitives in compiled recursions
FUNCTIONS = (
    fma,
    inverse_root,
    exp,
    expm1,
    log,
    logarithm,
    log1p,
    asinh,
    atan,
    atan2,
    asin,
    acos,
    tanh,
    sinh,
    cosh,
    erf,
    erfc,
    scaled_erfc,
    acute_angle,
    flat_angle,
    root_angle,
    segment,
    tangent_segment,
)
