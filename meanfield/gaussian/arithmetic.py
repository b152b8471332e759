r"""Real numbers of any precision: mpmath, or the balls of python-flint where it is installed; and sympy expressions as functions of them.

The rules above this module are written once, for numbers that add, multiply, compare and have an exponential. A ball carries its
rounding error with it, and is five to ten times faster.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import mpmath as mp
import sympy as sp
from sympy.printing.lambdarepr import LambdaPrinter

from meanfield.symbols import known

__all__ = ["Function", "Number", "Numbers", "complex_balls", "numbers_for", "precise_number"]

x, y = known("x"), known("y")

Number = Any  # mp.mpf or flint.arb
Function = Callable[..., Number]

_NAMES = (
    "exp",
    "log",
    "log1p",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "cot",
    "sec",
    "csc",
    "sinh",
    "cosh",
    "tanh",
    "coth",
    "sech",
    "csch",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "sinc",
    "gamma",
    "digamma",
)
#: sympy heads that lambdify writes in plain Python
_PLAIN = (sp.Abs, sp.sign, sp.Max, sp.Min, sp.Heaviside, sp.Piecewise)


class Numbers(ABC):
    """A kind of number: its functions, its precision and the way back to mpmath."""

    #: sympy's name of a function -> the function
    table: dict[str, Function]

    @abstractmethod
    def of(self, value: Any) -> Number:
        """An mpmath number, an integer or a number of this kind."""

    @abstractmethod
    def log_size(self, value: Number) -> float:
        """ln |value| within ln(2)/2; -inf at 0."""

    @abstractmethod
    def middle(self, value: Number) -> mp.mpf:
        """The value in mpmath."""

    @abstractmethod
    def error(self, value: Number) -> mp.mpf:
        """The rounding error that the value knows of."""

    @contextmanager
    def precision(self, bits: int) -> Iterator[None]:
        with mp.workprec(bits):
            yield

    def exp(self, value: Number) -> Number:
        return self.table["exp"](value)

    def function(self, f: sp.Expr, variables: tuple[sp.Symbol, ...]) -> Function:
        """f at the current precision; its constants are rounded now."""
        code, constants = _code(f, variables, type(self))
        fixed = [self.of(precise_number(c)) for c in constants]
        zero = self.of(0)

        def call(*args: Number) -> Number:
            value = code(*args, *fixed)
            if type(value) is not type(zero):
                if isinstance(value, (mp.mpc, complex)):
                    raise ArithmeticError(f"{f} is not real everywhere")
                value = zero + value
            return value

        return call


def _sign(one: int, value: Number) -> int:
    return 1 if value > 0 else -1 if value < 0 else 0


def _power(base: Number, n: int) -> Number:
    """a whole power of a ball, which flint's own refuses where the ball holds 0"""
    if n < 0:
        return 1 / _power(base, -n)
    if n < 2:
        return base if n else 1
    half = _power(base, n // 2)
    return half * half * base if n & 1 else half * half


class _Printer(LambdaPrinter):
    """roots and whole powers by name, log(1 + t) without cancellation"""

    def _print_Pow(self, expr: sp.Pow, **hints: Any) -> str:
        base, exponent = expr.args
        if exponent.is_Integer:
            return f"power({self._print(base)}, {int(exponent)})"
        if abs(exponent) == sp.S.Half:
            root = f"sqrt({self._print(base)})"
            return root if exponent.is_positive else f"(1/{root})"
        return f"({self._print(base)})**({self._print(exponent)})"

    def _print_log(self, expr: sp.log) -> str:
        rest = expr.args[0] - 1
        known = isinstance(expr.args[0], sp.Add) and not any(t.is_number for t in sp.Add.make_args(rest))
        return f"log1p({self._print(rest)})" if known else f"log({self._print(expr.args[0])})"


class MpmathNumbers(Numbers):
    def __init__(self) -> None:
        self.table = {name: getattr(mp, name) for name in _NAMES} | {"copysign": _sign, "power": operator.pow}

    def of(self, value: Any) -> mp.mpf:
        return mp.mpf(value)

    def log_size(self, value: mp.mpf) -> float:
        if not value:
            return -math.inf
        if not mp.isfinite(value):
            raise ArithmeticError("the function is not finite everywhere")
        _, _, exponent, count = value._mpf_
        return (int(exponent) + int(count) - 0.5) * math.log(2)

    def middle(self, value: mp.mpf) -> mp.mpf:
        return +value

    def error(self, value: mp.mpf) -> mp.mpf:
        return mp.mpf(0)


class FlintNumbers(Numbers):
    def __init__(self, flint: Any) -> None:
        self.flint, self.arb = flint, flint.arb
        self.table = {name: self._method(name) for name in _NAMES} | {"copysign": _sign, "power": _power}

    def _method(self, name: str) -> Function:
        method, arb = getattr(self.arb, name), self.arb
        return lambda value: method(value) if type(value) is arb else method(arb(value))

    @contextmanager
    def precision(self, bits: int) -> Iterator[None]:
        with mp.workprec(bits), self.flint.ctx.workprec(bits):
            yield

    def of(self, value: Any) -> Number:
        return self.arb(value)

    def log_size(self, value: Number) -> float:
        if not value.is_finite():
            raise ArithmeticError("the function is not finite everywhere, or lost all its digits")
        man, exponent = value.mid().man_exp()
        if not man:
            return -math.inf
        return (int(exponent) + int(man).bit_length() - 0.5) * math.log(2)

    def middle(self, value: Number) -> mp.mpf:
        man, exponent = value.mid().man_exp()
        return mp.ldexp(mp.mpf(int(man)), int(exponent))

    def error(self, value: Number) -> mp.mpf:
        if not value.is_finite():
            return mp.inf
        man, exponent = value.rad().man_exp()
        return mp.ldexp(mp.mpf(int(man)), int(exponent))

    def complex(self, value: mp.mpc) -> Any:
        return self.flint.acb(value.real, value.imag)


@cache
def _mpmath() -> Numbers:
    return MpmathNumbers()


@cache
def _flint() -> Numbers | None:
    try:
        import flint
    except ImportError:
        return None
    return FlintNumbers(flint)


def numbers_for(*functions: sp.Expr) -> Numbers:
    """Balls where python-flint is installed, else mpmath; ArithmeticError for functions that have no digits here."""
    numbers = _flint() or _mpmath()
    for f in functions:
        heads = {t for t in f.atoms(sp.Function, sp.Max, sp.Min) if t.free_symbols and not isinstance(t, _PLAIN)}
        foreign = sorted({type(t).__name__ for t in heads} - set(_NAMES))
        if foreign:
            raise ArithmeticError(f"E[{f}] has no closed form, and {', '.join(foreign)} no rule for any number of digits")
    return numbers


def complex_balls() -> FlintNumbers | None:
    """Complex numbers as balls, where python-flint is installed."""
    numbers = _flint()
    return numbers if isinstance(numbers, FlintNumbers) else None


def precise_number(e: Any) -> mp.mpf:
    """A real constant at the current mpmath precision, cancellation within it made good."""
    if isinstance(e, sp.Rational):
        return mp.mpf(e.p) / e.q
    value = sp.N(e, mp.mp.dps + 5, maxn=20 * mp.mp.dps + 2000)
    if value.is_Rational:
        return mp.mpf(value.p) / value.q
    if not value.is_Float:
        raise ArithmeticError(f"{e} is no real number")
    return mp.mpf(value._to_mpmath(mp.mp.prec))


@cache
def _code(f: sp.Expr, variables: tuple[sp.Symbol, ...], kind: type[Numbers]) -> tuple[Function, tuple[sp.Expr, ...]]:
    """f as code in which every constant that is no integer is an argument, and these constants"""
    constants: dict[sp.Expr, sp.Symbol] = {}

    def opened(e: sp.Basic) -> sp.Basic:
        if isinstance(e, sp.Integer) or e in variables or e in (sp.true, sp.false):
            return e
        if isinstance(e, sp.Expr) and not e.has(*variables):
            return constants.setdefault(e, sp.Dummy("c", real=True))
        if isinstance(e, sp.Pow) and e.exp in (sp.S.Half, -sp.S.Half):
            return opened(e.base) ** e.exp
        return e.func(*map(opened, e.args))

    body = opened(f)
    table = (_flint() if kind is FlintNumbers else _mpmath()).table  # type: ignore[union-attr]
    printer = _Printer({"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": True})
    return sp.lambdify((*variables, *constants.values()), body, [table], printer=printer, cse=True), tuple(constants)
