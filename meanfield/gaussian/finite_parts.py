r"""Moments over a half line that need not converge: the finite part of \int_0^\infty x^n g(x) dx (Hadamard 1923).

With g(x) ~ sum of a_k x^{b_k} log(x)^j as x -> oo, the integral up to R is a sum of such terms in R, a constant, and what vanishes; the
constant is the finite part. It is linear, integrates by parts, and is the integral where that converges.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache, partial
from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S
from sympy.printing.precedence import PRECEDENCE

from meanfield.gaussian.finite_part_rules import closed_piece
from meanfield.gaussian.half_line import breakpoints, pieces
from meanfield.gaussian.local_expansions import at_infinity
from meanfield.gaussian.series import LOG, NoExpansion
from meanfield.gaussian.special import exponentials
from meanfield.symbols import known

__all__ = ["FinitePart", "finite_part", "over_the_line"]

x = known("x")


class FinitePart(sp.Expr):
    r"""The finite part of \int_0^\infty x^n g(x) dx where no closed form is known: a constant that evaluates to any number of digits."""

    is_commutative = True
    is_real = True
    precedence = PRECEDENCE["Mul"]  # a power of it is one of all of the integral

    def __new__(cls, g: sp.Expr, n: Any) -> sp.Expr:
        return sp.Expr.__new__(cls, sp.sympify(g), sp.sympify(n))

    @property
    def free_symbols(self) -> set[sp.Basic]:
        found: set[sp.Basic] = self.args[0].free_symbols - {x}
        return found

    @property
    def is_number(self) -> bool:
        return not self.free_symbols

    @property
    def bound_symbols(self) -> set[sp.Symbol]:
        return {x}

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> sp.Expr:
        return self if old == x else FinitePart(self.args[0]._subs(old, new), self.args[1])

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if self.free_symbols:
            return None
        return sp.Float._new(_known_to(self.args[0], int(self.args[1]), 64 << max(0, (prec + 9).bit_length() - 6))._mpf_, prec)

    def _sympystr(self, printer: Any) -> str:
        return f"FinitePart({printer._print(self.args[0] * x ** self.args[1])}, (x, 0, oo))"

    def _latex(self, printer: Any) -> str:
        t = sp.Symbol("t")
        inner = printer._print((self.args[0] * x ** self.args[1]).xreplace({x: t}))
        return rf"\mathrm{{f.p.}}\!\int_0^{{\infty}} {inner}\,dt"


def finite_part(g: sp.Expr, n: int) -> sp.Expr:
    r"""The finite part of \int_0^\infty x^n g(x) dx: closed where a rule applies, an unevaluated constant where not.

    Rules: piecewise polynomials; rational functions of x; polynomials in x times rational functions of e^{-cx}, by \int_0^\infty x^k
    \sum_m m^j z^m e^{-cmx} dx = k! c^{-k-1} Li_{k+1-j}(z); exponentials of e^{sx}, by u = e^{sx}; polynomials times e^{-a x^2}, by
    Euler's Gamma; powers of x^m + b, by his beta function, \int_0^\infty x^{z-1} (x^m + b)^s dx = b^{z/m+s} B(z/m, -s - z/m)/m; powers
    of an arcus tangens over powers of 1 + c^2 x^2, by \int_0^{\pi/2} t^j \ln\cos t dt and Hermite's reduction; and logarithms, arcus
    tangens and areasinus of these, integrated by parts.
    """
    total = S.Zero
    for low, high, f in pieces(g):
        if f == 0:
            continue
        closed = closed_piece(exponentials(f), n, low, high)
        if closed is None:
            return FinitePart(g, n)
        total += closed
    return sp.expand(total)


def over_the_line(g: sp.Expr) -> sp.Expr | None:
    r"""\int g(x) dx over all x, where it converges; None where there is no closed form."""
    with suppress(NoExpansion):
        both = finite_part(g, 0) + finite_part(g.xreplace({x: -x}), 0)
        return None if both.has(FinitePart) else both
    return None


@cache
def _known_to(g: sp.Expr, n: int, precision: int) -> mp.mpf:
    """kept, at few precisions: these take seconds, and expansions ask for the same ones many times"""
    with mp.workprec(precision):
        return _numeric(g, n)


def _numeric(g: sp.Expr, n: int) -> mp.mpf:
    """the finite part at the current precision: of what is left of g beyond its tail, and of the tail itself"""
    digits = mp.mp.dps
    tail = {a + n: c for a, c in at_infinity(g, n + 12).items()}
    high = 3 * digits + 30  # x^n g and its tail agree to many digits far out
    with mp.workdps(high):
        start = _mpf(max([S.One, *breakpoints(g)], key=lambda r: sp.N(r, 30)))
        powers = [(mp.mpf(a.p) / a.q, [_mpf(c) for c in sp.Poly(b, LOG).all_coeffs()]) for a, b in tail.items()]
        lost = mp.fsum(_antiderivative(a, c[::-1], start) for a, c in powers)
        cuts = [(_mpf(low), start if end is S.Infinity else _mpf(end), sp.lambdify(x, f, "mpmath", cse=True)) for low, end, f in pieces(g)]

    def inside(value: Any, t: mp.mpf) -> mp.mpf:
        with mp.workdps(high):
            return t**n * value(t)

    def beyond(t: mp.mpf) -> mp.mpf:
        with mp.workdps(high):
            log = mp.log(t)
            return inside(cuts[-1][2], t) - mp.fsum(t**a * mp.polyval(c, log) for a, c in powers)

    total = -lost
    with mp.workdps(digits + 10):
        for low, end, value in cuts:
            if low < end:
                total += _panel(partial(inside, value), low, end, digits)
        quiet, a = 0, start
        while quiet < 2:
            b = a + max(mp.mpf(2), a / 2)
            part = _panel(beyond, a, b, digits)
            total += part
            quiet = quiet + 1 if abs(part) <= mp.mpf(10) ** (-digits - 5) * (1 + abs(total)) else 0
            a = b
            if a > mp.mpf(10) ** 30:
                raise ArithmeticError(f"the finite part of x^{n} ({g}) does not settle")
    return total


def _mpf(e: sp.Expr) -> mp.mpf:
    return mp.mpf(sp.N(e, mp.mp.dps + 5)._to_mpmath(mp.mp.prec))


def _antiderivative(a: mp.mpf, c: list[mp.mpf], t: mp.mpf) -> mp.mpf:
    """of t^a (c_0 + c_1 log t + ...), without a constant at infinity"""
    log = mp.log(t)
    if a == -1:
        return mp.fsum(b * log ** (j + 1) / (j + 1) for j, b in enumerate(c))
    total = mp.mpf(0)
    for j, b in enumerate(c):
        inner, part = mp.mpf(1), mp.mpf(0)
        for i in range(j + 1):
            part += inner * log ** (j - i)
            inner *= -mp.mpf(j - i) / (a + 1)
        total += b * part * t ** (a + 1) / (a + 1)
    return total


def _panel(f: Any, low: mp.mpf, high: mp.mpf, digits: int) -> mp.mpf:
    """tanh-sinh, which does not mind a kink or a root at an end; cut into eight where one rule does not settle"""
    value, error = mp.quad(f, [low, high], error=True)
    if error > mp.mpf(10) ** (-digits - 5) * (1 + abs(value)):
        value, error = mp.quad(f, mp.linspace(low, high, 9), error=True)
    if error > mp.mpf(10) ** (-digits) * (1 + abs(value)):
        raise ArithmeticError(f"an integral did not settle at {digits} digits")
    return value
