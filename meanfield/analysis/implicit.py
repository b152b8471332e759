r"""Numbers that an equation defines: a fixed point of q or of c as a sympy expression that evaluates to any number of digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from typing import Any, ClassVar

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.derivatives import derivative, named, shortened
from meanfield.analysis.maps import values_of
from meanfield.analysis.roots import Root, positive_roots
from meanfield.analysis.shared_digits import numbered
from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.finite_parts import FinitePart
from meanfield.gaussian.shared_parts import parts_of, put_in
from meanfield.gaussian.special import written_out

__all__ = ["TOUCHING", "CorrelationRoot", "Implicit", "VarianceRoot", "valued", "valued_parts"]

Floats = NDArray[np.float64]

#: the largest variance, and the least 1 - rho, that is looked at
HIGHEST, NARROWEST = 1e60, 1e-14
#: the factor of q, or of 1 - rho, up to which is looked first
NEAR = 100.0
#: the least rho: at 0 itself rounding bounds of angles have no meaning
LEAST = 1e-9
#: digits that a root is first known to, twice as many of which do for both looks that `numbered` takes at what has 30; of its error, what
#: may stand before the product of two steps; secants at most
FIRST, SAFE, MOST = 31, 1000, 30
#: bits that expectations of few digits are taken to be exact to
PADDING = 100
#: how near to 0, relative to s, an equation comes that touches it: parameters are known as well as doubles
TOUCHING = 1e-14


def valued(e: sp.Expr, digits: int) -> sp.Expr:
    """A number, with each expectation computed once and those inside others first."""
    return valued_parts((e,), digits)[0]


def valued_parts(parts: Sequence[sp.Expr], digits: int) -> list[sp.Expr]:
    """Numbers, with each expectation that is in any of them computed once and those inside others first, and each other part once."""
    found = list(parts)
    while nodes := {t for e in found for t in parts_of(e, Node) if not any(a.has(Node) for a in t.args)}:
        numbers = {t: _digits(t, digits) for t in nodes}
        found = [put_in(e, numbers) for e in found]
    return [numbered(e, digits) for e in found]


@lru_cache(maxsize=2**14)  # signs are looked at at the same places again and again
def _digits(node: sp.Expr, digits: int) -> sp.Expr:
    return _padded(sp.N(node, digits))


def _padded(number: sp.Expr) -> sp.Expr:
    """the same number with more digits, for what cancels beside it"""
    return sp.Float._new(number._mpf_, number._prec + PADDING) if number.is_Float and number.is_finite else number


class Implicit(sp.Expr):
    """The s at which equation(s) = 0 first, touching or crossing zero, on the way from where the recursion starts.

    `Implicit(equation, s)`; s is bound. Free symbols are those of the equation: substitute numbers, then evaluate.
    """

    is_commutative = True
    is_real = True
    is_Atom = True  # opaque: nothing is expanded or collected inside the equation
    name: ClassVar[str]
    symbol_latex: ClassVar[str]

    def __new__(cls, equation: sp.Expr, s: sp.Symbol) -> sp.Expr:
        own = sp.Dummy(cls.name, positive=True)
        if s.name == cls.name and isinstance(s, sp.Dummy):
            own = s
        exact = {t: sp.Rational(t) for t in equation.atoms(sp.Float) if t.is_finite}  # a double is as many digits as are asked for
        return sp.Expr.__new__(cls, equation.xreplace({s: own, **exact}), own)

    @property
    def equation(self) -> sp.Expr:
        return self.args[0]

    @property
    def variable(self) -> sp.Symbol:
        return self.args[1]

    @property
    def bound_symbols(self) -> set[sp.Symbol]:
        return {self.args[1]}

    @cached_property
    def free_symbols(self) -> set[sp.Basic]:
        found: set[sp.Basic] = self.equation.free_symbols - {self.variable}
        return found

    @property
    def is_number(self) -> bool:
        return not self.free_symbols

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> sp.Expr:
        return self if old == self.variable else type(self)(self.equation._subs(old, new), self.variable)

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if self.free_symbols:
            return None
        digits = FIRST
        while digits < mp.libmp.prec_to_dps(prec) + 5:
            digits *= 2
        return sp.Float._new(_solved(self, digits)[0]._mpf_, prec)

    def _enclosed(self) -> Root:
        """the root in doubles; IndexError where there is none"""
        raise NotImplementedError

    def _roots(self, inside: sp.Expr, *spans: tuple[float, float]) -> tuple[Root, ...]:
        """the roots in the first of some spans of a variable, in which s is given, that has any"""
        numbers = {t: sp.N(t, 17) for t in self.equation.atoms(Node, FinitePart) if not t.free_symbols}
        e = put_in(self.equation, numbers | {self.variable: inside})
        e = (named(shortened(e)) if parts_of(e, Exchangeable) else e) / self.variable
        expressions = (e, self.variable * derivative(e, self.variable))

        def f(at: Floats) -> tuple[Floats, Floats, Floats]:
            (value, slope), bound = values_of(expressions, {self.name: at}, np.inf)
            return value, slope, bound

        return next((found for low, high in spans if (found := positive_roots(f, low, high, per_decade=4).roots)), ())

    def _sympystr(self, printer: Any) -> str:
        return f"{self.name}_star"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        text = rf"{self.symbol_latex}_{{*}}"
        return text if exp is None else rf"{text}^{{{exp}}}"


@cache
def _found(unknown: Implicit) -> Root:
    try:
        return unknown._enclosed()
    except IndexError:
        raise ArithmeticError(f"{unknown.equation} = 0 has no root {unknown.name}") from None


@cache
def _solved(unknown: Implicit, digits: int) -> tuple[mp.mpf, mp.mpf | None]:
    """the root, and the slope where it is crossed: found in doubles, then to twice as many digits from those known"""
    found = _found(unknown)
    if found.at == 0:
        return mp.mpf(0), None
    plain = written_out(unknown.equation)
    direct = sp.lambdify(unknown.variable, plain, "mpmath") if _of_mpmath(plain) else None

    @cache  # seconds each, where there are many digits
    def value(s: mp.mpf) -> mp.mpf:
        if direct is not None:
            return mp.re(direct(s))
        number = valued(put_in(unknown.equation, {unknown.variable: sp.Rational(mp.nstr(s, digits + 5))}), digits)
        return mp.mpf(number._to_mpmath(mp.mp.prec))

    with mp.workdps(digits + 10):
        if not found.crossing:
            return _touched(unknown, found, digits), None
        if digits > FIRST:
            at, slope = _solved(unknown, digits // 2)
        else:
            low, at = (mp.mpf(end) * (1 + mp.mpf(beyond)) for end, beyond in ((found.low, "-1e-14"), (found.high, "1e-14")))
            slope = (value(at) - value(low)) / (at - low)
        return _refined(value, at, slope, digits)


def _of_mpmath(plain: sp.Expr) -> bool:
    """whether it is written in functions that mpmath has: in none of the library's own"""
    return not plain.has(Node) and not any(type(t).__module__.startswith("meanfield.") for t in plain.atoms(sp.Function))


def _refined(value: Callable[[mp.mpf], mp.mpf], at: mp.mpf, slope: mp.mpf, digits: int) -> tuple[mp.mpf, mp.mpf]:
    """a root and its slope by secants, from a point near it: the error is about the product of the last two steps"""
    last = at
    for _ in range(MOST):
        step = value(at) / slope
        if abs(step * last) <= mp.mpf(10) ** (-digits) * at**2 / SAFE:
            return at - step, slope
        slope, at, last = (value(at) - value(at - step)) / step, at - step, step
    raise ArithmeticError(f"a root near {mp.nstr(at, 6)} does not settle at {digits} digits")


def _touched(unknown: Implicit, found: Root, digits: int) -> mp.mpf:
    """where the equation comes nearest to zero, if that is zero to the digits of the parameters"""
    s = unknown.variable
    slope = derivative(unknown.equation, s)

    def value(e: sp.Expr, at: mp.mpf) -> mp.mpf:
        return mp.mpf(sp.N(e.subs(s, sp.Rational(mp.nstr(at, digits + 5))), digits)._to_mpmath(mp.mp.prec))

    start = mp.mpf(found.at)
    at = mp.findroot(
        lambda t: value(slope, t), (start, start * (1 + mp.mpf("1e-6"))), solver="secant", tol=mp.mpf(10) ** (6 - 2 * digits), verify=False
    )
    if abs(value(unknown.equation, at)) > TOUCHING * at:
        raise ArithmeticError(f"{unknown.equation} comes near 0 at {mp.nstr(at, 6)} and turns back")
    return at


class CorrelationRoot(Implicit):
    """A correlation rho* in [0, 1): the root nearest to 0, where a positive drift of the covariance carries a pair of tokens."""

    name = "rho"
    symbol_latex = r"\rho"
    is_nonnegative = True

    def _enclosed(self) -> Root:
        start = float(valued(put_in(self.equation, {self.variable: sp.S.Zero}), 20))
        if abs(start) <= TOUCHING:
            return Root(0.0, 0.0, 0.0, False, start)
        found = self._roots(1 - self.variable, (1 / NEAR, 1 - LEAST), (NARROWEST, 1 - LEAST))[-1]
        return replace(found, at=1 - found.at, low=1 - found.high, high=1 - found.low)


class VarianceRoot(Implicit):
    """A variance q*: the root nearest to 1 in the direction in which the recursion moves there."""

    name = "q"
    symbol_latex = "q"
    is_positive = True

    def _enclosed(self) -> Root:
        drift = valued(self.equation.subs(self.variable, 1), 25)
        if abs(drift) < TOUCHING and sp.N(derivative(self.equation, self.variable).subs(self.variable, 1), 15) < math.sqrt(TOUCHING):
            here = self._roots(self.variable, (0.5, 2.0))  # it starts at a fixed point that attracts, or is touched
            if here:
                return min(here, key=lambda r: abs(r.at - 1))
        if drift > 0:
            return self._roots(self.variable, (1.0, NEAR), (1.0, HIGHEST))[0]
        return self._roots(self.variable, (1 / NEAR, 1.0), (1 / HIGHEST, 1.0))[-1]
