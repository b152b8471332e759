"""The functions that a person may type, on expressions and on numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import sympy as sp

from meanfield import symbols
from meanfield.catalogue import activations
from meanfield.parsing.terms import Term, bounded, check_magnitude, out_of_range, raised

__all__ = ["EXTREMES", "FUNCTIONS", "ONE", "applied"]

MOST_ARGUMENTS: Final = 8  #: of Max and Min

x = symbols.known("x")


@dataclass(frozen=True)
class Function:
    """A function a person may type: its sympy form, its value on numbers, and how many arguments it takes."""

    form: Callable[..., sp.Expr]
    value: Callable[..., float]
    most: int = 1
    copies: Callable[[], int] = lambda: 1  #: how often its argument stands in its form


def _step(t: float) -> float:
    return 0.5 if t == 0 else float(t > 0)


def _activation(name: str) -> Function:
    """an activation of the catalogue, with its usual parameters"""

    def form(t: sp.Expr) -> sp.Expr:
        return activations[name].expression.xreplace({x: t})

    return Function(form, lambda t: float(form(sp.Float(t)).evalf()), copies=cache(lambda: max(1, int(form(x).count(x)))))


ONE: Final = {
    "erf": Function(sp.erf, math.erf),
    "erfc": Function(lambda t: 1 - sp.erf(t), math.erfc),
    "tanh": Function(sp.tanh, math.tanh),
    "sinh": Function(sp.sinh, math.sinh),
    "cosh": Function(sp.cosh, math.cosh),
    "exp": Function(lambda t: _exponential(t), math.exp),
    "log": Function(sp.log, math.log),
    "ln": Function(sp.log, math.log),
    "sqrt": Function(sp.sqrt, math.sqrt),
    "sin": Function(sp.sin, math.sin),
    "cos": Function(sp.cos, math.cos),
    "atan": Function(sp.atan, math.atan),
    "asinh": Function(sp.asinh, math.asinh),
    "Abs": Function(sp.Abs, abs),
    "abs": Function(sp.Abs, abs),
    "sign": Function(sp.sign, lambda t: 0.0 if t == 0 else math.copysign(1.0, t)),
    "Heaviside": Function(sp.Heaviside, _step),
    "step": Function(sp.Heaviside, _step),
}
EXTREMES: Final = {
    "Max": Function(sp.Max, max, MOST_ARGUMENTS),
    "max": Function(sp.Max, max, MOST_ARGUMENTS),
    "Min": Function(sp.Min, min, MOST_ARGUMENTS),
    "min": Function(sp.Min, min, MOST_ARGUMENTS),
}

#: name -> function, all a person may call
FUNCTIONS: Final = {**{name: _activation(name) for name in activations.definite}, **ONE, **EXTREMES}


def _exponential(e: sp.Expr) -> sp.Expr:
    """exp(e), with the powers that its logarithms stand for, as sympy would write them"""
    factors = []
    for t in sp.Add.make_args(e):
        coefficient, rest = t.as_coeff_Mul()
        power = isinstance(rest, sp.log) and coefficient != 0
        factors.append(raised(Term(rest.args[0], None), Term(coefficient, float(coefficient))).expression if power else sp.exp(t))
    return sp.Mul(*factors)


def applied(name: str, function: Function, arguments: list[Term]) -> Term:
    values = [a.value for a in arguments if a.value is not None]
    value: float | None = None
    if len(values) == len(arguments):
        try:
            value = float(function.value(*values))
        except ValueError:
            raise ValueError(f"{name}({', '.join(f'{v:g}' for v in values)}) is not a real number") from None
        except OverflowError:
            raise out_of_range(f"{name}({', '.join(f'{v:g}' for v in values)})") from None
        check_magnitude(value)
    return bounded(function.form(*[a.expression for a in arguments]), value, function.copies() * sum(a.parts for a in arguments))
