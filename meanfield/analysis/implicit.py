r"""Numbers that an equation defines: a fixed point of q or of c as a sympy expression that evaluates to any number of digits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar

import mpmath as mp
import sympy as sp

from meanfield.gaussian.expectation import Node

__all__ = ["CorrelationRoot", "Implicit", "VarianceRoot"]

_STEPS = 200


class Implicit(sp.Expr):  # type: ignore[misc]
    """The s at which equation(s) = 0, where it changes its sign first on the way from where the recursion starts.

    `Implicit(equation, s)`; s is bound. Free symbols are those of the equation: substitute numbers, then evaluate.
    """

    is_commutative = True
    is_real = True
    is_Atom = True  # opaque: nothing is expanded or collected inside the equation
    name: ClassVar[str]
    symbol_latex: ClassVar[str]
    directed: ClassVar[bool] = False

    def __new__(cls, equation: sp.Expr, s: sp.Symbol) -> sp.Expr:
        own = sp.Dummy(cls.name, positive=True)
        if s.name == cls.name and isinstance(s, sp.Dummy):
            own = s
        return sp.Expr.__new__(cls, equation.xreplace({s: own}), own)

    @property
    def equation(self) -> sp.Expr:
        return self.args[0]

    @property
    def variable(self) -> sp.Symbol:
        return self.args[1]

    @property
    def bound_symbols(self) -> set[sp.Symbol]:
        return {self.args[1]}

    @property
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
        digits = 20 * math.ceil((mp.libmp.prec_to_dps(prec) + 5) / 20)
        return sp.Float._new(_solved(self, digits)._mpf_, prec)

    @staticmethod
    def _path(drift: mp.mpf) -> Iterator[mp.mpf]:
        """where to look, in order; drift is the equation's value at 1"""
        raise NotImplementedError

    def _sympystr(self, printer: Any) -> str:
        return f"{self.name}_star"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        text = rf"{self.symbol_latex}_{{*}}"
        return text if exp is None else rf"{text}^{{{exp}}}"


@cache
def _solved(unknown: Implicit, digits: int) -> sp.Float:
    """the root, found in 15 digits, then refined"""

    plain = unknown.equation.replace(lambda t: isinstance(t, sp.Function) and hasattr(t, "definition"), lambda t: t.definition())
    direct = None if plain.has(Node) else sp.lambdify(unknown.variable, plain, "mpmath")

    def value(s: mp.mpf, places: int) -> mp.mpf:
        if direct is not None:
            return mp.re(direct(s))
        number = sp.N(unknown.equation.subs(unknown.variable, sp.Rational(mp.nstr(s, digits + 5))), places)
        return mp.mpf(number._to_mpmath(mp.mp.prec))

    with mp.workdps(digits + 10):
        previous = None
        for point in unknown._path(value(mp.mpf(1), 15) if unknown.directed else mp.mpf(0)):
            here = value(point, 15)
            if here == 0:
                return sp.Float(point, digits)
            if previous is not None and (here > 0) != (previous[1] > 0):
                rough = mp.findroot(lambda s: value(s, 20), (previous[0], point), solver="anderson", tol=1e-24, verify=False)
                ends = (rough * (1 - mp.mpf("1e-9")), rough * (1 + mp.mpf("1e-9")))
                root = mp.findroot(lambda s: value(s, digits), ends, solver="secant", tol=mp.mpf(10) ** (6 - 2 * digits), verify=False)
                return sp.Float(root, digits)
            previous = point, here
    raise ArithmeticError(f"{unknown.equation} = 0 has no root {unknown.name}")


class CorrelationRoot(Implicit):
    """A correlation rho* in [0, 1): the root nearest to 0, where a positive drift of the covariance carries a pair of tokens."""

    name = "rho"
    symbol_latex = r"\rho"
    is_nonnegative = True

    @staticmethod
    def _path(drift: mp.mpf) -> Iterator[mp.mpf]:
        yield mp.mpf(0)
        for k in range(1, 100):
            yield 1 - mp.mpf(2) ** -k


class VarianceRoot(Implicit):
    """A variance q*: the root nearest to 1 in the direction in which the recursion moves there."""

    name = "q"
    symbol_latex = "q"
    directed = True
    is_positive = True

    @staticmethod
    def _path(drift: mp.mpf) -> Iterator[mp.mpf]:
        return (mp.mpf(2) ** (k if drift >= 0 else -k) for k in range(_STEPS))
