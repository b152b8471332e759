r"""Hermite coefficients E[f(\sqrt v z) He_n(z)] = v^{n/2} E f^{(n)}(u), u ~ N(0, v): closed forms by the derivative, or, where f has
kinks, by the polynomial; else a node, which quadrature takes by the recurrence of He_n."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import sympy as sp
from sympy import S

from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.hermite_means import hermite_mean
from meanfield.gaussian.parities import even_part, odd_part
from meanfield.gaussian.pieces import KINKED
from meanfield.gaussian.slopes import derivative_in, gathered
from meanfield.gaussian.smoothness import is_smooth
from meanfield.gaussian.special import exponentials
from meanfield.gaussian.zeros import is_zero
from meanfield.symbols import known

__all__ = ["Projection", "projection"]

x = known("x")

#: operations beyond which a derivative is not worth its length
_LONG = 1000
#: order from which on terms of E f^(n) cancel at large variances
_FEW = 3


class Projection(Node):
    r"""E f(u) He_n(u/\sqrt v), u ~ N(0, v), which has no closed form: `Projection(f, v, n)` with f an expression in mf.x."""

    def __new__(cls, f: Any, variance: Any, degree: Any) -> sp.Expr:
        constant, f = f.as_independent(x, as_Add=False)
        return constant * sp.Expr.__new__(cls, f, sp.sympify(variance), sp.sympify(degree))

    @property
    def variance(self) -> sp.Expr:
        return self.args[1]

    @property
    def degree(self) -> sp.Integer:
        return self.args[2]

    @property
    def weighed_by_its_law(self) -> bool:
        """By the polynomial."""
        return True

    @property
    def bound_symbols(self) -> set[sp.Symbol]:
        return {x}

    def form(self) -> tuple[sp.Expr | None, dict[sp.Symbol, sp.Expr]]:
        return None, {}

    def _eval_derivative(self, s: sp.Symbol) -> sp.Expr:
        r"""by parts, dA_n/dv = (n A_n + A_{n+2})/(2 v)"""
        f, v, n = self.args
        result = Projection(derivative_in(f, s), v, n) if s in f.free_symbols else S.Zero
        return result + v.diff(s) * (n * self + Projection(f, v, n + 2)) / (2 * v)

    def _integrate(self, prec: int) -> mp.mpf:
        f, v, n = self.args
        try:
            return hermite_mean(f, int(n), v, prec)
        except ArithmeticError:  # which tells the polynomial at length
            why = "the integrand oscillates, is singular on the real line, or the value cannot be told from 0"
            raise ArithmeticError(f"{self} could not be certified to {mp.libmp.prec_to_dps(prec)} digits: {why}") from None

    def _sympystr(self, printer: Any) -> str:
        f, v, n = self.args
        return f"{self.name}({printer._print(f * sp.Function(f'He_{n}')(x / sp.sqrt(v)))}, {printer._print(v)})"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        f, v, n = self.args
        u = sp.Symbol("u")
        inner = printer._print(f.xreplace({x: u}) * sp.Function(f"He_{n}")(u / sp.sqrt(v)))
        text = rf"\mathbb{{E}}_{{u \sim \mathcal{{N}}(0, {printer._print(v)})}}\left[{inner}\right]"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"


def projection(f: sp.Expr, n: int, variance: sp.Expr) -> sp.Expr:
    """E[f(u) He_n(u/sqrt(v))], in closed form where it closes."""
    if n > 0 and _of_lower_degree(f, n):
        return S.Zero
    if not is_smooth(f):  # no n-th derivative to speak of
        if f.has(sp.DiracDelta) or n < _FEW or not Expectation(f * x ** (n % 2), variance).doit().has(Node):
            form = _by_polynomial(f, n, variance)
            return form if f.has(sp.DiracDelta) or not form.has(Node) else Projection(f, variance, n)
        return Projection(f, variance, n)
    if n < _FEW or not _by_derivative(f, 2 - n % 2, variance).has(Node):
        form = _by_derivative(f, n, variance)
        if not form.has(S.NaN) and (n < _FEW or not form.has(Node)):
            return form
    return Projection(f, variance, n)


def _of_lower_degree(f: sp.Expr, n: int) -> bool:
    """whether the part of f of the parity of He_n is 0, or constant or linear where He_n is of a higher degree"""
    part = odd_part(f) if n % 2 else even_part(f)
    return not part.has(*KINKED, sp.DiracDelta) and is_zero(part.diff(x, min(n, 2)))


def _by_polynomial(f: sp.Expr, n: int, variance: sp.Expr) -> sp.Expr:
    return Expectation(f * sp.expand(sp.hermite_prob(n, x / sp.sqrt(variance))), variance).doit()


def _by_derivative(f: sp.Expr, n: int, variance: sp.Expr) -> sp.Expr:
    """the derivative in its shortest form, nan where all are long"""
    for _ in range(n):
        f = f.diff(x)
        f = min((f, gathered(f), gathered(exponentials(f))), key=sp.count_ops)
        if sp.count_ops(f) > _LONG:
            return S.NaN
    return variance ** sp.Rational(n, 2) * Expectation(f, variance).doit()
