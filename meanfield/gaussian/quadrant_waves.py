r"""The bivariate normal CDF at complex arguments, in real terms: what two Gaussians see of a wave in a quadrant.

For standard normals X, Y of correlation r

    W(h, l; a, b; r) = E e^{i (a X + b Y)} 1[X < h, Y < l] = e^{-(a^2 + 2 r a b + b^2)/2} \Phi_2(h - i (a + r b), l - i (b + r a); r)

whose real and imaginary part lie between -1 and 1. With D_1, D_2 its slopes in h and l, which are half waves,

    W_a = -(a + r b) W - i (D_1 + r D_2),    W_r = -a b W - i (a D_2 + b D_1) + e^{i (a h + b l)} \varphi_2(h, l; r)

by Stein's identity and Plackett's (1954).
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S, sqrt

from meanfield import gaussian
from meanfield.gaussian.half_waves import CosineNormalCDF, SineNormalCDF
from meanfield.gaussian.special import BivariateDensity, BivariateNormalCDF, NormalDensity

__all__ = ["BivariateCosineCDF", "BivariateSineCDF"]

#: real and imaginary part
Complex = tuple[sp.Expr, sp.Expr]


def _times(z: Complex, w: Complex) -> Complex:
    return z[0] * w[0] - z[1] * w[1], z[0] * w[1] + z[1] * w[0]


def _wave(angle: sp.Expr) -> Complex:
    return sp.cos(angle), sp.sin(angle)


def _half_wave(h: sp.Expr, k: sp.Expr) -> Complex:
    return CosineNormalCDF(h, k), SineNormalCDF(h, k)


class _QuadrantWave(sp.Function):
    """What the real and the imaginary part share."""

    nargs = 5
    name = ""
    #: 0 for the real part, 1 for the imaginary one
    part = 0

    @classmethod
    def eval(cls, h: sp.Expr, k: sp.Expr, a: sp.Expr, b: sp.Expr, r: sp.Expr) -> sp.Expr | None:
        if a is S.Zero and b is S.Zero:
            return (BivariateNormalCDF(h, k, r), S.Zero)[cls.part]
        if r is S.Zero:
            return _times(_half_wave(h, a), _half_wave(k, b))[cls.part]
        if (at_end := _at_an_end(h, k, a, b, r)) is not None:
            return at_end[cls.part]
        if (h, a) == (k, -b) and cls.part:
            return S.Zero  # odd under the exchange of X and Y
        turned = -1 if cls.part else 1
        alike = ((1, h, k, a, b), (1, k, h, b, a), (turned, h, k, -a, -b), (turned, k, h, -b, -a))
        upright = [t for t in alike if not (t[3] if t[3] != 0 else t[4]).could_extract_minus_sign()]
        sign, *first = min(upright, key=lambda t: sp.default_sort_key(t[1:]))
        return None if tuple(first) == (h, k, a, b) else sign * cls(*first, r)

    def _eval_is_real(self) -> bool:
        return True

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return self._slope(argindex)[self.part]

    def _slope(self, argindex: int) -> Complex:
        """of the whole of it"""
        h, k, a, b, r = self.args
        d = sqrt(1 - r**2)
        value = (BivariateCosineCDF(*self.args), BivariateSineCDF(*self.args))
        by_h = _times(_wave((a + r * b) * h), _half_wave((k - r * h) / d, b * d))
        by_k = _times(_wave((b + r * a) * k), _half_wave((h - r * k) / d, a * d))
        by_h, by_k = (tuple(NormalDensity(z) * e for e in pair) for z, pair in ((h, by_h), (k, by_k)))
        if argindex < 3:
            return by_h if argindex == 1 else by_k
        if argindex < 5:
            rate, first, second = (a + r * b, by_h, by_k) if argindex == 3 else (b + r * a, by_k, by_h)
            return -rate * value[0] + first[1] + r * second[1], -rate * value[1] - first[0] - r * second[0]
        peak = tuple(BivariateDensity(h, k, r) / d * e for e in _wave(a * h + b * k))
        return -a * b * value[0] + a * by_k[1] + b * by_h[1] + peak[0], -a * b * value[1] - a * by_k[0] - b * by_h[0] + peak[1]

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if self.free_symbols:
            return None
        sizes = [mp.mag(sp.N(e, 15)._to_mpmath(53)) for e in (*self.args[:4], 1 / (1 - self.args[4] ** 2))]
        lost = 2 * max(0, *sizes[:4]) + max(0, sizes[4])  # bits of an exponent
        for more in (40, 160, 640):
            with mp.workprec(prec + more + lost):
                value, error = gaussian.corners.quadrant_wave(*(sp.N(e, mp.mp.dps + 5)._to_mpmath(mp.mp.prec) for e in self.args))
                found = (value.real, value.imag)[self.part]
                if found and mp.mag(error) < mp.mag(found) - prec - 4:
                    return sp.Float._new(mp.libmp.mpf_pos(found._mpf_, prec, "n"), prec)
        digits = mp.libmp.prec_to_dps(prec)
        raise ArithmeticError(f"{self} cannot be told from 0 to {digits} digits: it is less than 2^-{more} of the whole wave")

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        h, k, a, b, r = (printer._print(e) for e in self.args)
        power = "" if exp is None else rf"^{{{exp}}}"
        return rf"\Phi_{{2,{self.name}}}{power}\left({h}, {k}; {a}, {b}; {r}\right)"


class BivariateCosineCDF(_QuadrantWave):
    """E cos(a X + b Y) where X < h and Y < k, standard normals of correlation r: arguments h, k, a, b, r."""

    name = r"\cos"


class BivariateSineCDF(_QuadrantWave):
    """E sin(a X + b Y) where X < h and Y < k, standard normals of correlation r: arguments h, k, a, b, r."""

    name = r"\sin"
    part = 1


def _at_an_end(h: sp.Expr, k: sp.Expr, a: sp.Expr, b: sp.Expr, r: sp.Expr) -> Complex | None:
    """W where a threshold is infinite, and where Y is X, or -X; None elsewhere, and where it is not known which threshold is met first"""
    if S.NegativeInfinity in (h, k):
        return S.Zero, S.Zero
    if S.Infinity in (h, k):
        left, own, other = (k, b, a) if h is S.Infinity else (h, a, b)
        damped = sp.exp(-(other**2) * (1 - r**2) / 2)
        cosine, sine = _half_wave(left, own + r * other)
        return damped * cosine, damped * sine
    if r not in (S.One, S.NegativeOne):
        return None
    apart = h - r * k
    if not (apart.is_nonpositive or apart.is_nonnegative):
        return None
    if r is S.One:
        return _half_wave(h if apart.is_nonpositive else k, a + b)
    if apart.is_nonpositive:
        return S.Zero, S.Zero
    high, low = _half_wave(h, a - b), _half_wave(-k, a - b)
    return high[0] - low[0], high[1] - low[1]
