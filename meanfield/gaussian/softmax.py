r"""Averages over softmax weights A_b = e^{x_b} / \sum_c e^{x_c} of n independent Gaussian logits x_b ~ N(0, v).

With 1/Z^k = \int_0^\infty t^{k-1} e^{-tZ} dt / (k-1)! an average over n logits factorises into powers of the Laplace transform of one
lognormal variable and of its derivatives. At t = e^{-\tau}, with g_k(\tau) = E (t e^x)^k e^{-t e^x},

    E A_1^2 = \int g_2 g_0^{n-1} d\tau,   E A_1 A_2 = \int g_1^2 g_0^{n-2} d\tau,   E A_1 A_2 A_3 = (1/2) \int g_1^3 g_0^{n-3} d\tau,
    E A_1^2 A_2^2 = (1/6) \int g_2^2 g_0^{n-2} d\tau,   E A_1^2 A_2 A_3 = (1/6) \int g_2 g_1^2 g_0^{n-3} d\tau.

All integrands are positive, entire in x and analytic for |Im \tau| < \pi/2, so that the trapezoidal rule converges geometrically in 1/step.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S
from sympy.core.function import ArgumentIndexError

__all__ = [
    "SoftmaxExponent",
    "SoftmaxResponse",
    "SoftmaxSlope",
    "SoftmaxTriple",
    "softmax_exponent",
    "softmax_moments",
    "softmax_response",
    "softmax_triple",
]

#: below this v the exponent is its series, 1/(1 + 2 v/n) + O(v^2): the logarithm of a ratio near 1 has no digits left
SERIES = 1e-5


class _SoftmaxAverage(sp.Function):
    """An average in v and n that is 1 at v = 0."""

    nargs = 2
    sign: str

    @classmethod
    def eval(cls, v: sp.Expr, n: sp.Expr) -> sp.Expr | None:
        return S.One if v is S.Zero else None

    def _eval_is_real(self) -> bool:
        return True

    def _eval_is_positive(self) -> bool:
        return True

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if self.free_symbols:
            return None
        digits = 20 * math.ceil((prec / 3.3 + 1) / 20)  # few different ones: an expression asks for the same average many times
        return sp.Float(self.value(*_precise_moments(*self.args, digits), *self.args, digits), precision=prec)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        name = self.sign if exp is None else f"{self.sign}^{{{exp}}}"
        return rf"{name}\left({', '.join(printer._print(a) for a in self.args)}\right)"


class SoftmaxExponent(_SoftmaxAverage):
    r"""\omega(v, n) with E \sum_b A_b^2 = 1/(1 + (n-1) e^{-v \omega})."""

    sign = r"\omega"

    @staticmethod
    def value(pair: Any, same: Any, _triple: Any, _response: Any, v: Any, _n: Any, digits: int) -> Any:
        with mp.workdps(digits):
            return mp.log(same / pair) / mp.mpf(sp.Float(v, digits + 5))

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        r"""By the heat equation: d(v \omega)/dv = E[Y + 3 Y^2 - 4 \sum_b A_b^3]/(E Y (1 - E Y)) with Y = \sum_b A_b^2."""
        if argindex == 2:
            return SoftmaxSlope(*self.args, 0)
        if argindex != 1:
            raise ArgumentIndexError(self, argindex)
        v, n = self.args
        decay = sp.exp(-v * self)
        y = 1 / (1 + (n - 1) * decay)
        triple = (n - 1) * (n - 2) / n**2 * SoftmaxTriple(v, n)
        slope = 3 * SoftmaxResponse(v, n) - 1 / y + triple / (y**2 * (n - 1) * decay)
        return (slope - self) / v


class SoftmaxResponse(_SoftmaxAverage):
    r"""\mu(v, n) = E \sum_{bc} (\partial A_b/\partial x_c)^2 / (E Y (1 - E Y)), Y = \sum_b A_b^2."""

    sign = r"\mu"

    @staticmethod
    def value(_pair: Any, _same: Any, _triple: Any, response: Any, _v: Any, _n: Any, _digits: int) -> Any:
        return response

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return SoftmaxSlope(*self.args, argindex)


class SoftmaxTriple(_SoftmaxAverage):
    r"""\beta_3(v, n) = n^3 E A_1 A_2 A_3, continued to n < 3 by its integral."""

    sign = r"\beta_3"

    @staticmethod
    def value(_pair: Any, _same: Any, triple: Any, _response: Any, _v: Any, n: Any, _digits: int) -> Any:
        return triple

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return SoftmaxSlope(*self.args, 2 + argindex)


class SoftmaxSlope(sp.Function):
    r"""d\omega/dn, d\mu/dv, d\mu/dn, d\beta_3/dv, d\beta_3/dn by number: `SoftmaxSlope(v, n, which)`."""

    nargs = 3

    def _eval_is_real(self) -> bool:
        return True

    @property
    def average(self) -> tuple[type[_SoftmaxAverage], int]:
        """what is differentiated, in which argument"""
        which = int(self.args[2])
        return (SoftmaxExponent, SoftmaxResponse, SoftmaxTriple)[(which + 1) // 2], (which + 1) % 2

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if self.free_symbols:
            return None
        average, place = self.average
        digits = 20 * math.ceil((prec / 3.3 + 1) / 20)
        step, ends = sp.Rational(1, 10**digits), []
        for side in (1, -1):
            at = [a + side * step if i == place else a for i, a in enumerate(self.args[:2])]
            ends.append(average.value(*_precise_moments(*at, 3 * digits), *at, 3 * digits))
        with mp.workdps(3 * digits):
            return sp.Float((ends[0] - ends[1]) * mp.mpf(10) ** digits / 2, precision=prec)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        average, place = self.average
        name = rf"\partial_{'vn'[place]} {average.sign}"
        text = rf"{name}\left({', '.join(printer._print(a) for a in self.args[:2])}\right)"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"


@lru_cache(maxsize=256)
def _precise_moments(v: sp.Expr, n: sp.Expr, digits: int) -> tuple[Any, Any, Any, Any]:
    """the same sums as `softmax_moments`, to any number of digits"""
    with mp.workdps(digits + 15):
        v_, n_ = mp.mpf(sp.Float(v, digits + 15)), mp.mpf(sp.Float(n, digits + 15))
        deep = (digits + 8) * mp.log(10)
        step = mp.pi**2 / deep
        spacing = min(step, mp.sqrt(2 * mp.pi**2 * v_ / deep))
        reach = int(mp.sqrt(2 * v_ * deep) / spacing) + 1
        nodes = [(mp.exp(k * spacing), mp.exp(-((k * spacing) ** 2) / (2 * v_))) for k in range(-reach, reach + 1)]
        whole = mp.fsum(w for _, w in nodes)
        sums = [mp.mpf(0)] * 5
        far = deep + 2 * mp.log(n_)
        tau = v_ + far / 2 if far > 2 * v_ else mp.sqrt(2 * v_ * far)
        while True:
            t = mp.exp(-tau)
            g0 = g1 = g2 = mp.mpf(0)
            for e, w in nodes:
                y = t * e
                d = w * mp.exp(-y)
                g0, g1, g2 = g0 + d, g1 + d * y, g2 + d * y * y
            g0, g1, g2 = g0 / whole, g1 / whole, g2 / whole
            power = g0 ** (n_ - 3)
            terms = [g * power for g in (g2 * g0 * g0, g1 * g1 * g0, g1**3, g2 * g2 * g0, g2 * g1 * g1)]
            sums = [a + b for a, b in zip(sums, terms, strict=True)]
            if all(b < a * mp.mpf(10) ** (-digits - 5) for a, b in zip(sums, terms, strict=True)):
                break
            tau -= step
        same, pair, triple, twice, mixed = (step * a for a in sums)
        return pair, same, n_**3 * triple / 2, (2 * twice + (n_ - 2) * mixed) / (6 * n_ * same * pair)


def softmax_moments(v: float, n: float) -> tuple[float, float, float, float, float]:
    """E A1 A1, E A1 A2, 2 E A1 A2 A3, 6 E A1^2 A2^2, 6 E A1^2 A2 A3 to 1e-13, v > 0 and n >= 1."""
    step = 0.25
    spacing = min(0.35, 0.7 * math.sqrt(v))
    reach = int(8.5 * math.sqrt(v) / spacing) + 1
    whole = 0.0
    for k in range(-reach, reach + 1):
        x = k * spacing
        whole += math.exp(-0.5 * x * x / v)
    far = 42.0 + 2.0 * math.log(n)
    tau = v + 0.5 * far if far > 2.0 * v else math.sqrt(2.0 * v * far)
    same = pair = triple = twice = mixed = 0.0
    going = True
    while going:
        u = d0 = d1 = d2 = 0.0
        for k in range(-reach, reach + 1):
            x = k * spacing
            y = math.exp(x - tau)
            w = math.exp(-0.5 * x * x / v)
            lost = -math.expm1(-y)
            kept = 1.0 - lost if y < 1.0 else math.exp(-y)
            u += w * lost
            d0 += w * kept
            d1 += w * kept * y
            d2 += w * kept * y * y
        if d0 <= 1e-280 * whole:
            break
        # the logarithm of g_0 from the side that has the digits
        log0 = math.log1p(-u / whole) if u < 0.5 * whole else math.log(d0 / whole)
        g0, g1, g2 = d0 / whole, d1 / whole, d2 / whole
        power = math.exp((n - 1.0) * log0)
        r1, r2 = g1 / g0, g2 / g0
        a, b, c, d, e = g2 * power, g1 * r1 * power, g1 * r1 * r1 * power, g2 * r2 * power, g2 * r1 * r1 * power
        same += a
        pair += b
        triple += c
        twice += d
        mixed += e
        going = a > 1e-17 * same or b > 1e-17 * pair or c > 1e-17 * triple or d > 1e-17 * twice or e > 1e-17 * mixed
        tau -= step
    return step * same, step * pair, step * triple, step * twice, step * mixed


def softmax_exponent(v: float, n: float) -> float:
    """omega with E sum_b A_b^2 = 1/(1 + (n - 1) exp(-v omega)) for softmax weights of n logits of variance v."""
    if not (v < 1e4 and n >= 1.0):
        return math.nan
    if v < SERIES:
        return 1.0 / (1.0 + 2.0 * v / n)
    same, pair, _, _, _ = softmax_moments(v, n)
    return math.log(same / pair) / v


def softmax_response(v: float, n: float) -> float:
    """E sum_bc (dA_b/dx_c)^2 over E Y (1 - E Y), Y = sum_b A_b^2, for softmax weights of n logits of variance v."""
    if not (v < 1e4 and n >= 1.0):
        return math.nan
    if v < SERIES:
        return 1.0 / (1.0 + 2.0 * v / n)
    same, pair, _, twice, mixed = softmax_moments(v, n)
    return (2.0 * twice + (n - 2.0) * mixed) / (6.0 * n * same * pair)


def softmax_triple(v: float, n: float) -> float:
    """n^3 E A_1 A_2 A_3 for softmax weights of n logits of variance v."""
    if not (v < 1e4 and n >= 1.0):
        return math.nan
    if v < SERIES:
        return 1.0 / (1.0 + 3.0 * v / n)
    return 0.5 * n * n * n * softmax_moments(v, n)[2]
