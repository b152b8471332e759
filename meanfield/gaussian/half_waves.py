r"""The normal CDF at complex arguments, in real terms: what a Gaussian sees of a wave up to a threshold.

    e^{-k^2/2} \Phi(h - i k) = \int_{-\infty}^h \varphi(z) e^{i k z} dz = C(h; k) + i S(h; k)

with the normal density \varphi; \Phi(z) = e^{-z^2/2} w(-i z/\sqrt 2)/2, w the Faddeeva function (Faddeyeva and
Terent'ev 1961). Both parts lie between -1 and 1, so that nothing overflows that is not large itself.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S, exp, sqrt

from meanfield import gaussian
from meanfield.gaussian.special import Elementary, NormalCDF, NormalDensity

__all__ = ["CosineNormalCDF", "SineNormalCDF"]


class _HalfWave(Elementary):
    """What the real and the imaginary part share."""

    nargs = 2
    name = ""

    def _conjugates(self) -> tuple[sp.Expr, sp.Expr]:
        r"""e^{-k^2/2} \Phi(h - i k)/2 and its complex conjugate"""
        h, k = self.args
        first, second = (exp(-(k**2) / 2) * sp.erfc((-h + sign * sp.I * k) / sqrt(2), evaluate=False) / 4 for sign in (1, -1))
        return first, second

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if self.free_symbols:
            return None
        sizes = [a.evalf(15) for a in self.args]
        if not all(a.is_Float or a.is_Integer for a in sizes):
            return self.definition()._eval_evalf(prec)
        with mp.workprec(prec + 10):
            large = max(0, *(mp.mag(mp.mpf(a._to_mpmath(53))) for a in sizes))
        for extra in (30, 300, 3000):  # bits that the parts lose against each other where one is small
            with mp.workprec(prec + 2 * large + extra):  # and those that an argument loses in an exponent
                h, k = (sp.N(a, mp.mp.dps + 5)._to_mpmath(mp.mp.prec) for a in self.args)
                whole, value = self._part(h, k)
                if value and mp.mag(whole) - mp.mag(value) <= extra - 10:
                    return sp.Float._new(mp.libmp.mpf_pos(value._mpf_, prec, "n"), prec)
        digits = mp.libmp.prec_to_dps(prec)
        raise ArithmeticError(f"{self} cannot be told from 0 to {digits} digits: it is less than 2^-{extra - 10} of the whole half wave")

    @staticmethod
    def _part(h: mp.mpf, k: mp.mpf) -> tuple[mp.mpc, mp.mpf]:
        """A half wave, and the part of it that is asked for."""
        raise TypeError("half a wave is a CosineNormalCDF or a SineNormalCDF: this one states no part")

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        h, k = (printer._print(a) for a in self.args)
        power = "" if exp is None else rf"^{{{exp}}}"
        return rf"\Phi_{{{self.name}}}{power}\left({h}; {k}\right)"


class CosineNormalCDF(_HalfWave):
    r"""C(h; k) = \int_{-\infty}^h \varphi(z) \cos(k z) dz = Re e^{-k^2/2} \Phi(h - i k): E cos(k Z) where Z < h."""

    name = r"\cos"

    @classmethod
    def eval(cls, h: sp.Expr, k: sp.Expr) -> sp.Expr | None:
        if k is S.Zero:
            return NormalCDF(h)
        if h in (S.Zero, S.Infinity, S.NegativeInfinity):
            return exp(-(k**2) / 2) * NormalCDF(h)
        return cls(h, -k) if k.could_extract_minus_sign() else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        h, k = self.args
        if argindex == 1:
            return NormalDensity(h) * sp.cos(h * k)
        return NormalDensity(h) * sp.sin(h * k) - k * self

    def definition(self) -> sp.Expr:
        return sp.Add(*self._conjugates())

    @staticmethod
    def _part(h: mp.mpf, k: mp.mpf) -> tuple[mp.mpc, mp.mpf]:
        found = gaussian.corners.half_wave(h, k)
        return found, found.real


class SineNormalCDF(_HalfWave):
    r"""S(h; k) = \int_{-\infty}^h \varphi(z) \sin(k z) dz = Im e^{-k^2/2} \Phi(h - i k): E sin(k Z) where Z < h; even in h."""

    name = r"\sin"

    @classmethod
    def eval(cls, h: sp.Expr, k: sp.Expr) -> sp.Expr | None:
        if k is S.Zero or h in (S.Infinity, S.NegativeInfinity):
            return S.Zero
        if h is S.Zero:
            return -exp(-(k**2) / 2) * sp.erfi(k / sqrt(2)) / 2
        if h.could_extract_minus_sign():
            return cls(-h, k)
        return -cls(h, -k) if k.could_extract_minus_sign() else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        h, k = self.args
        if argindex == 1:
            return NormalDensity(h) * sp.sin(h * k)
        return -NormalDensity(h) * sp.cos(h * k) - k * self

    def definition(self) -> sp.Expr:
        first, second = self._conjugates()
        return (first - second) / sp.I

    @staticmethod
    def _part(h: mp.mpf, k: mp.mpf) -> tuple[mp.mpc, mp.mpf]:
        found = gaussian.corners.half_wave(-abs(h), k)  # beside which the odd part of the wave is not small
        return found, found.imag
