r"""Named functions that results are written in: each has a folded name, a definition, derivatives, digits and LaTeX.

The normal heads stay opaque while a derivation runs, so that coefficients remain rational functions. The angle heads are how
kernels are evaluated without cancellation; their definitions are elementary.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import sympy as sp
from sympy import Rational, S, asin, erfc, exp, pi, sqrt
from sympy.functions.elementary.hyperbolic import HyperbolicFunction

from meanfield import gaussian
from meanfield.gaussian.rewriting import rewritten

__all__ = [
    "FAR",
    "AngleDifference",
    "AngleMinusSine",
    "BivariateDensity",
    "BivariateNormalCDF",
    "Elementary",
    "NormalCDF",
    "NormalDensity",
    "Reciprocal",
    "ScaledErfc",
    "Whole",
    "exponentials",
    "is_linear",
    "without_hints",
    "written_out",
]

#: arguments from where on a hyperbolic tangent, and erf, is its limit to the last digit of a double
FAR = 20


class Elementary(sp.Function):
    """A named function with an elementary definition: digits and numbers come from the definition."""

    def definition(self) -> sp.Expr:
        raise TypeError(f"{type(self).__name__} has no elementary definition")

    def doit(self, **hints: Any) -> sp.Expr:
        return self.func(*[a.doit(**hints) for a in self.args])

    def _eval_rewrite(self, rule: Any, args: Any, **hints: Any) -> sp.Expr:
        return self.definition().rewrite(rule, **hints)

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        return self.definition()._eval_evalf(prec) if not self.free_symbols else None

    def _eval_is_real(self) -> bool:
        return True

    def _eval_nseries(self, s: sp.Symbol, n: int, logx: sp.Expr | None, cdir: Any = 0) -> sp.Expr:
        return self.definition().rewrite(sp.erf)._eval_nseries(s, n, logx, cdir)  # at infinity sympy knows erf of either sign

    def _eval_as_leading_term(self, s: sp.Symbol, logx: sp.Expr | None = None, cdir: Any = 0) -> sp.Expr:
        return self.definition().as_leading_term(s, logx=logx, cdir=cdir)


class NormalCDF(Elementary):
    r"""\Phi(z) = P(Z < z) for a standard normal Z."""

    nargs = 1

    @classmethod
    def eval(cls, z: sp.Expr) -> sp.Expr | None:
        return {S.Zero: Rational(1, 2), S.Infinity: S.One, S.NegativeInfinity: S.Zero}.get(z)

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return NormalDensity(self.args[0])

    def definition(self) -> sp.Expr:
        return erfc(-self.args[0] / sqrt(2), evaluate=False) / 2  # sympy makes 2 - erfc(z/sqrt(2)) of it, which loses a tail

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if self.free_symbols:
            return None
        z = self.args[0].evalf(15)
        if not z.is_Float:
            return self.definition()._eval_evalf(prec)
        with mp.workprec(prec + 10):
            beyond = 2 * max(0, mp.mag(mp.mpf(z._mpf_)))  # bits that the argument of a tail loses
        with mp.workprec(prec + 10 + beyond):
            value = mp.erfc(-self.args[0].evalf(mp.mp.dps + 2)._to_mpmath(mp.mp.prec) / mp.sqrt(2)) / 2
        return sp.Float._new(mp.libmp.mpf_pos(value._mpf_, prec, "n"), prec)

    def _eval_nseries(self, s: sp.Symbol, n: int, logx: sp.Expr | None, cdir: Any = 0) -> sp.Expr:
        if self.args[0].limit(s, 0) is S.NegativeInfinity:  # a tail, which an exponential may outweigh
            return erfc(-self.args[0] / sqrt(2))._eval_nseries(s, n, logx, cdir) / 2
        return super()._eval_nseries(s, n, logx, cdir)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        name = r"\Phi" if exp is None else rf"\Phi^{{{exp}}}"
        return rf"{name}\left({printer._print(self.args[0])}\right)"


class NormalDensity(Elementary):
    r"""\varphi(z) = e^{-z^2/2} / \sqrt{2\pi}."""

    nargs = 1

    @classmethod
    def eval(cls, z: sp.Expr) -> sp.Expr | None:
        if z is S.Zero:
            return 1 / sqrt(2 * pi)
        if z in (S.Infinity, S.NegativeInfinity):
            return S.Zero
        return cls(-z) if z.could_extract_minus_sign() else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return -self.args[0] * self

    def definition(self) -> sp.Expr:
        return exp(-(self.args[0] ** 2) / 2) / sqrt(2 * pi)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        name = r"\varphi" if exp is None else rf"\varphi^{{{exp}}}"
        return rf"{name}\left({printer._print(self.args[0])}\right)"


class ScaledErfc(Elementary):
    r"""e^{z^2} erfc(z): what is left of a tail beside the exponential that it outweighs; 1/(\sqrt{\pi} z) far out."""

    nargs = 1

    @classmethod
    def eval(cls, z: sp.Expr) -> sp.Expr | None:
        return {S.Zero: S.One, S.Infinity: S.Zero}.get(z)

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return 2 * self.args[0] * self - 2 / sqrt(pi)

    def definition(self) -> sp.Expr:
        return exp(self.args[0] ** 2) * erfc(self.args[0])


class BivariateDensity(Elementary):
    r"""exp(-(h^2 - 2 r h k + k^2) / (2 (1 - r^2))) / (2 \pi): the bivariate normal density without its 1/\sqrt{1 - r^2}."""

    nargs = 3

    @classmethod
    def eval(cls, h: sp.Expr, k: sp.Expr, r: sp.Expr) -> sp.Expr | None:
        if h is S.Zero and k is S.Zero:
            return 1 / (2 * pi)
        if r is S.Zero:
            return NormalDensity(h) * NormalDensity(k)
        if h.could_extract_minus_sign():
            return cls(-h, -k, r)
        if k.could_extract_minus_sign():
            return cls(h, -k, -r)
        return None

    def definition(self) -> sp.Expr:
        h, k, r = self.args
        return exp(-(h**2 - 2 * r * h * k + k**2) / (2 * (1 - r**2))) / (2 * pi)

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        h, k, r = self.args
        if argindex == 1:
            return -(h - r * k) / (1 - r**2) * self
        if argindex == 2:
            return -(k - r * h) / (1 - r**2) * self
        return (h * k * (1 + r**2) - r * (h**2 + k**2)) / (1 - r**2) ** 2 * self


class BivariateNormalCDF(sp.Function):
    r"""\Phi_2(h, k; r) = P(X < h, Y < k) for standard normals of correlation r."""

    nargs = 3

    @classmethod
    def eval(cls, h: sp.Expr, k: sp.Expr, r: sp.Expr) -> sp.Expr | None:
        if h is S.Zero and k is S.Zero:
            return Rational(1, 4) + asin(r) / (2 * pi)
        if r is S.Zero:
            return NormalCDF(h) * NormalCDF(k)
        for first, second in ((h, k), (k, h)):
            if first is S.Infinity:
                return NormalCDF(second)
            if first is S.NegativeInfinity:
                return S.Zero
        if r is S.One and (h - k).is_extended_real and ((h - k).is_nonpositive or (h - k).is_nonnegative):
            return NormalCDF(h if (h - k).is_nonpositive else k)
        if r is S.NegativeOne and ((h + k).is_nonpositive or (h + k).is_nonnegative):
            return S.Zero if (h + k).is_nonpositive else NormalCDF(h) - NormalCDF(-k)
        return cls(k, h, r) if sp.default_sort_key(h) > sp.default_sort_key(k) else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        h, k, r = self.args
        d = sqrt(1 - r**2)
        if argindex == 1:
            return NormalDensity(h) * NormalCDF((k - r * h) / d)
        if argindex == 2:
            return NormalDensity(k) * NormalCDF((h - r * k) / d)
        return BivariateDensity(h, k, r) / d

    def _eval_is_real(self) -> bool:
        return True

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if self.free_symbols:
            return None
        with mp.workprec(prec + 40):
            h, k, r = (sp.N(a, mp.mp.dps + 5)._to_mpmath(mp.mp.prec) for a in self.args)
            return sp.Float._new(gaussian.plackett.bivariate_normal(h, k, r)._mpf_, prec)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        h, k, r = (printer._print(a) for a in self.args)
        name = r"\Phi_2" if exp is None else rf"\Phi_2^{{{exp}}}"
        return rf"{name}\left({h}, {k}; {r}\right)"


class AngleDifference(Elementary):
    r"""\arcsin(a/m) - \arcsin(b/m) from a, \sqrt{m^2 - a^2}, b, \sqrt{m^2 - b^2} and a - b, each known without cancellation."""

    nargs = 5

    @classmethod
    def eval(cls, a: sp.Expr, ra: sp.Expr, b: sp.Expr, rb: sp.Expr, difference: sp.Expr) -> sp.Expr | None:
        return S.Zero if difference.is_zero else None

    def definition(self) -> sp.Expr:
        r"""The tangent of half of \alpha - \beta is (\sin\alpha - \sin\beta)/(\cos\alpha + \cos\beta)."""
        _, ra, _, rb, difference = self.args
        return 2 * sp.atan2(difference, ra + rb)

    def tangent(self) -> sp.Expr:
        """of half of it"""
        _, ra, _, rb, difference = self.args
        return difference / (ra + rb)

    def rise(self) -> sp.Expr:
        r"""\sqrt{m^2 - b^2} - \sqrt{m^2 - a^2}."""
        a, _, b, _, _ = self.args
        return Whole(sp.factor(a + b) * self.tangent())

    def sine(self) -> tuple[sp.Expr, sp.Expr]:
        r"""The terms of (a \sqrt{m^2 - b^2} - b \sqrt{m^2 - a^2})/m^2, which are not negative where |b| <= a."""
        a, ra, _, _, difference = self.args
        square = sp.factor(sp.expand(a**2 + ra**2))
        return Whole(difference * ra / square), Whole(a * self.rise() / square)

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        a, ra, b, rb, _ = self.args
        first, second = a**2 + ra**2, b**2 + rb**2
        return (ra / first, -a / first, -rb / second, b / second, S.Zero)[argindex - 1]


class AngleMinusSine(Elementary):
    r"""\theta - \sin\theta, for kernels beside \sin\theta where that is known without \theta."""

    nargs = (1, 2)

    @classmethod
    def eval(cls, theta: sp.Expr, sine: sp.Expr | None = None) -> sp.Expr | None:
        return theta - sp.sin(theta) if (theta / sp.pi).is_Rational else None

    def definition(self) -> sp.Expr:
        return self.args[0] - sp.sin(self.args[0])

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return 2 * sp.sin(self.args[0] / 2) ** 2 if argindex == 1 else S.Zero


class Reciprocal(Elementary):
    r"""1/c for a sum c, kept whole: expanded, the powers of a sum in the denominator would not merge."""

    nargs = 1

    def definition(self) -> sp.Expr:
        return 1 / self.args[0]


class Whole(Elementary):
    """An expression that stands in several places: kernels take it apart in none."""

    nargs = 1

    @classmethod
    def eval(cls, e: sp.Expr) -> sp.Expr | None:
        return S.Zero if e.is_zero else None

    def definition(self) -> sp.Expr:
        return self.args[0]

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return S.One


def without_hints(e: sp.Expr) -> sp.Expr:
    """What only kernels make use of left out: what stands in several places, sines beside angles."""
    return rewritten(
        e, lambda t: isinstance(t, (AngleMinusSine, Whole)), lambda t: t.args[0] if isinstance(t, Whole) else AngleMinusSine(t.args[0])
    )


def written_out(e: sp.Expr) -> sp.Expr:
    """Named functions and constants by their definitions, and those that stand in these by theirs."""
    plain = e.replace(lambda t: hasattr(t, "definition"), lambda t: t.definition())
    return plain if plain == e else written_out(plain)


def is_linear(e: sp.Expr, z: sp.Symbol) -> bool:
    """Whether an expression is a z + b, a not 0."""
    return bool(e.is_polynomial(z)) and sp.degree(e, z) == 1


def exponentials(f: sp.Expr) -> sp.Expr:
    """Hyperbolic functions and normal heads by their definitions."""
    f = f.replace(lambda e: isinstance(e, (NormalCDF, NormalDensity)), lambda e: e.definition())
    return f.replace(lambda e: isinstance(e, HyperbolicFunction), lambda e: e.rewrite(sp.exp))
