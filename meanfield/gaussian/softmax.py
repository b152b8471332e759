r"""Averages over softmax weights A_b = e^{x_b} / \sum_c e^{x_c} of n independent Gaussian logits x_b ~ N(0, v).

With 1/Z^k = \int_0^\infty t^{k-1} e^{-tZ} dt / (k-1)! an average over n logits factorises into powers of the Laplace transform of one
lognormal variable and of its derivatives. At t = e^{-\tau}, with g_k(\tau) = E (t e^x)^k e^{-t e^x},

    E A_1^2 = \int g_2 g_0^{n-1} d\tau,   E A_1 A_2 = \int g_1^2 g_0^{n-2} d\tau,   E A_1 A_2 A_3 = (1/2) \int g_1^3 g_0^{n-3} d\tau,
    E A_1^2 A_2^2 = (1/6) \int g_2^2 g_0^{n-2} d\tau,   E A_1^2 A_2 A_3 = (1/6) \int g_2 g_1^2 g_0^{n-3} d\tau.

All integrands are positive, entire in x and analytic for |Im \tau| < \pi/2, so that the trapezoidal rule converges geometrically in 1/step.
Derivatives are integrals of the same functions, in v by the heat equation dg_k/dv = (k^2 g_k - (2k+1) g_{k+1} + g_{k+2})/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from sympy import S

from meanfield import gaussian

__all__ = ["SoftmaxMean", "SoftmaxExponent", "SoftmaxResponse", "SoftmaxSlope", "SoftmaxTriple"]


class SoftmaxMean(sp.Function):
    """An average in v and n that is 1 at v = 0."""

    nargs = 2
    sign: str
    which: int

    @classmethod
    def eval(cls, v: sp.Expr, n: sp.Expr) -> sp.Expr | None:
        return S.One if v.is_Number and v.is_zero else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return SoftmaxSlope(*self.args, 2 * self.which + argindex - 1)

    def _eval_is_real(self) -> bool:
        return True

    def _eval_is_positive(self) -> bool:
        return True

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        return None if self.free_symbols else _number(self, prec, gaussian.softmax_sums.softmax_average, self.which)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        name = self.sign if exp is None else f"{self.sign}^{{{exp}}}"
        return rf"{name}\left({', '.join(printer._print(a) for a in self.args)}\right)"


class SoftmaxExponent(SoftmaxMean):
    r"""\omega(v, n) with E \sum_b A_b^2 = 1/(1 + (n-1) e^{-v \omega})."""

    sign, which = r"\omega", 0


class SoftmaxResponse(SoftmaxMean):
    r"""\mu(v, n) = E \sum_{bc} (\partial A_b/\partial x_c)^2 / (E Y (1 - E Y)), Y = \sum_b A_b^2."""

    sign, which = r"\mu", 1


class SoftmaxTriple(SoftmaxMean):
    r"""\beta_3(v, n) = n^3 E A_1 A_2 A_3, continued to n < 3 by its integral."""

    sign, which = r"\beta_3", 2


class SoftmaxSlope(sp.Function):
    r"""d\omega/dv, d\omega/dn, d\mu/dv, d\mu/dn, d\beta_3/dv, d\beta_3/dn by number: `SoftmaxSlope(v, n, which)`.

    At v = 0, where d E f/dv = E \Delta f/2 is of equal weights, -2/n, -2/n and -3/n along v, and 0 along n.
    """

    nargs = 3

    @classmethod
    def eval(cls, v: sp.Expr, n: sp.Expr, which: sp.Expr) -> sp.Expr | None:
        return (-2 / n, S.Zero, -2 / n, S.Zero, -3 / n, S.Zero)[int(which)] if v.is_Number and v.is_zero else None

    def _eval_is_real(self) -> bool:
        return True

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        return None if self.free_symbols else _number(self, prec, gaussian.softmax_sums.softmax_rate, int(self.args[2]))

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        average, place = divmod(int(self.args[2]), 2)
        sign = (SoftmaxExponent, SoftmaxResponse, SoftmaxTriple)[average].sign
        text = rf"\partial_{'vn'[place]} {sign}\left({', '.join(printer._print(a) for a in self.args[:2])}\right)"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"


def _number(e: sp.Expr, prec: int, formula: Callable[..., Any], which: int) -> sp.Float:
    digits = 20 * math.ceil((prec / 3.3 + 1) / 20)  # few different ones: an expression asks for the same average many times
    v, n = e.args[:2]
    sums = _precise_sums(v, n, digits)
    with mp.workdps(digits + 15):
        v_, n_ = (mp.mpf(sp.N(a, digits + 15)) for a in (v, n))
        return sp.Float(formula(which, v_, n_, sums, mp.log(sums[0] / sums[1])), precision=prec)


@lru_cache(maxsize=256)
def _precise_sums(v: sp.Expr, n: sp.Expr, digits: int) -> np.ndarray:
    """the same sums as `softmax_sums`, to any number of digits"""
    with mp.workdps(digits + 15):
        v_, n_ = mp.mpf(sp.N(v, digits + 15)), mp.mpf(sp.N(n, digits + 15))
        deep = (digits + 8) * mp.log(10)
        step = mp.pi**2 / deep
        finer = max(1, int(mp.ceil(step / mp.sqrt(2 * mp.pi**2 * v_ / deep))))
        spacing = step / finer
        reach = int(mp.sqrt(2 * v_ * deep) / spacing) + 1
        weights = [mp.exp(-((k * spacing) ** 2) / (2 * v_)) for k in range(-reach, reach + 1)]
        whole = mp.fsum(weights)
        sums, terms, drifts = np.zeros(15, dtype=object), np.empty(15, dtype=object), np.empty(3, dtype=object)
        far = deep + 2 * mp.log(n_)
        tau = v_ + far / 2 if far > 2 * v_ else mp.sqrt(2 * v_ * far)

        later, further = cache(lambda i: mp.exp(i * step - tau)), cache(lambda k: mp.exp(k * spacing))

        @cache
        def powers(j: int) -> tuple[mp.mpf, ...]:
            """y^k e^-y, k = 0 ... 4, of y = t e^x: the points in tau and the nodes x have most of these in common"""
            y = later(j // finer) * further(j % finer)
            a = mp.exp(-y)
            b = a * y
            c = b * y
            d = c * y
            return a, b, c, d, d * y

        i = 0
        while True:
            columns = zip(*(powers(i * finer + k) for k in range(-reach, reach + 1)), strict=True)
            g = [mp.fdot(weights, column) for column in columns]
            r1, r2, r3, r4 = (a / g[0] for a in g[1:])
            gaussian.softmax_sums.softmax_drifts(r1, r2, r3, r4, drifts)
            gaussian.softmax_sums.softmax_terms(n_, (g[0] / whole) ** n_, mp.log(g[0] / whole), r1, r2, drifts, terms)
            sums = sums + terms
            if all(abs(b) < abs(a) * mp.mpf(10) ** (-digits - 5) for a, b in zip(sums, terms, strict=True)):
                return np.asarray(sums * step)
            i += 1
