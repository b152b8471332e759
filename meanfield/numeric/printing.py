"""Sympy expressions as Python source that means the same in the interpreter and compiled: one table, one printer."""

from __future__ import annotations

import math
from typing import Any, Final

import sympy as sp
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.pycode import PythonCodePrinter

from meanfield.numeric import primitives
from meanfield.numeric.arcs import size_of_difference
from meanfield.symbols import TABLE

__all__ = ["KernelPrinter", "Unsupported", "counted", "parameter_name", "product_roundings", "source_name"]


class Unsupported(ValueError):
    """A function that kernels do not know, by name."""


#: the largest numerator of powers that are printed as products
_MOST = 16

#: functions that print as a call of a primitive
PRIMITIVES: Final = {
    "AngleMinusSine": primitives.angle_minus_sine,
    "AcuteAngle": primitives.acute_angle,
    "FlatAngle": primitives.flat_angle,
    "Guarded": primitives.guarded,
    "InverseRoot": primitives.inverse_root,
    "Lowered": primitives.lowered_product,
    "RootAngle": primitives.root_angle,
    "ScaledErfc": primitives.scaled_erfc,
    "Segment": primitives.segment,
    "TangentSegment": primitives.tangent_segment,
    "sign": primitives.sign,
    "CosineNormalCDF": primitives.cosine_normal_cdf,
    "NormalCDF": primitives.normal_cdf,
    "SineNormalCDF": primitives.sine_normal_cdf,
    "NormalDensity": primitives.normal_density,
    "BivariateDensity": primitives.bivariate_density,
    "BivariateNormalCDF": primitives.bivariate_normal,
    "Heaviside": primitives.heaviside,
    "Unbounded": primitives.unbounded,
    **{f"Softmax{name.title()}": getattr(primitives, f"softmax_{name}") for name in ("exponent", "response", "slope", "triple")},
}


class KernelPrinter(PythonCodePrinter):
    """Prints with `math`, powers as products, and records which primitives were used. `calls` are functions that the caller
    defines, with their leading arguments."""

    def __init__(self, names: dict[sp.Symbol, str], calls: dict[str, list[str]] | None = None) -> None:
        super().__init__({"fully_qualified_modules": True})
        self._names = names
        self._calls = calls or {}
        self.used: set[str] = set()

    def _print(self, expr: sp.Basic, **kwargs: Any) -> str:
        if isinstance(expr, sp.Expr) and expr.is_number and not expr.is_Rational and expr.is_finite:
            return _double(sp.re(sp.N(expr, 25)))
        text: str = super()._print(expr, **kwargs)
        return text

    def _print_Symbol(self, expr: sp.Symbol) -> str:
        return self._names[expr]

    _print_Dummy = _print_Symbol

    def _print_Integer(self, expr: sp.Integer) -> str:
        return f"{int(expr)}.0" if abs(expr) < 2**53 else _double(expr)

    def _print_Rational(self, expr: sp.Rational) -> str:
        exact = expr.q & (expr.q - 1) and max(abs(expr.p), expr.q) < 2**53  # both are doubles: one rounding
        return f"({expr.p}.0/{expr.q}.0)" if exact else _double(expr)

    def _print_Float(self, expr: sp.Float) -> str:
        return _double(expr)

    def _print_NumberSymbol(self, expr: sp.Expr) -> str:
        return repr(float(expr))

    _print_Pi = _print_Exp1 = _print_NumberSymbol

    def _print_Infinity(self, expr: sp.Expr) -> str:
        return "math.inf"

    def _print_Mul(self, expr: sp.Mul) -> str:
        numbers, others = sp.sift(sp.Mul.make_args(expr), lambda e: e.is_number, binary=True)
        if not others or all(e.is_Rational or not e.is_finite for e in numbers):
            text: str = super()._print_Mul(expr)
            return text
        number = self._print(sp.Mul(*numbers))  # one: a quotient takes as long as many products
        if all(e.is_Pow and e.exp.is_Rational and e.exp.is_negative for e in others):
            return f"{number}/{self._bracket(sp.Mul(*(sp.Pow(e.base, -e.exp) for e in others)))}"
        if len(others) == 1:
            return f"{number}*{self.parenthesize(others[0], PRECEDENCE['Mul'])}"
        rest: str = super()._print_Mul(sp.Mul(*others, evaluate=False))
        return f"{number}*{rest}"  # from the left: what is large may have to become smaller first

    def _print_Pow(self, expr: sp.Pow, **kwargs: Any) -> str:
        base, k = expr.as_base_exp()
        if base is sp.S.Exp1:
            return f"math.exp({self._print(k)})"
        if k.is_Rational and k < 0:
            return f"(1.0/{self._print_Pow(sp.Pow(base, -k, evaluate=False)) if -k != 1 else self._bracket(base)})"
        if _is_product(k):
            factors = [self._bracket(base)] * (k.p // k.q)
            if k.q == 2:
                factors.append(self._root(base))
            return f"({'*'.join(factors)})" if len(factors) > 1 else factors[0]
        return f"{self._bracket(base)}**{self._bracket(k)}"

    def _root(self, base: sp.Expr) -> str:
        scale = size_of_difference(base)
        if scale is None:
            return f"math.sqrt({self._print(base)})"
        self.used.add("guarded_sqrt")
        return f"guarded_sqrt({self._print(base)}, {self._print(scale)})"

    def _bracket(self, e: sp.Expr) -> str:
        text = self._print(e)
        return text if e.is_Symbol else f"({text})"

    def _print_Abs(self, expr: sp.Abs) -> str:
        return f"abs({self._print(expr.args[0])})"

    def _print_Function(self, expr: sp.Function) -> str:
        name = type(expr).__name__
        if name in PRIMITIVES:
            primitive = PRIMITIVES[name].__name__
            self.used.add(primitive)
            return f"{primitive}({', '.join(self._print(a) for a in expr.args)})"
        if name in self._calls:
            return f"{name}({', '.join([*self._calls[name], *(self._print(a) for a in expr.args)])})"
        raise Unsupported(f"{name} has no numeric form: {expr}")

    def _print_factorial(self, expr: sp.Expr) -> str:
        return f"({self._print(counted(expr))})"  # in brackets: what a square is made of may overflow before it

    _print_binomial = _print_factorial

    def _print_Min(self, expr: sp.Min) -> str:
        if self._calls and len(expr.args) == 2:  # what a table or quadrature has no answer for must not become its bound
            self.used.add("smaller")
            return f"smaller({', '.join(map(self._print, expr.args))})"
        text: str = super()._print_Min(expr)
        return text

    def _print_Passed(self, expr: sp.Function) -> str:
        bound, relative = map(self._print, expr.args)
        return f"({relative} if {bound} != 0.0 else 0.0)"

    def _print_Chain(self, expr: sp.Function) -> str:
        text = self._bracket(expr.args[0])
        for factor in expr.args[1:]:
            below = factor.is_Pow and factor.exp == -1
            text += f"/{self._bracket(factor.base)}" if below else f"*{self._bracket(factor)}"
        return f"({text})"

    def _print_Root(self, expr: sp.Function) -> str:
        return f"math.sqrt({self._print(expr.args[0])})"

    def _print_Whole(self, expr: sp.Function) -> str:
        return f"({self._print(expr.args[0])})"

    def _print_Inverse(self, expr: sp.Function) -> str:
        return f"(1.0/{self._bracket(expr.args[0])})"

    _print_Heaviside = _print_sign = _print_AngleMinusSine = _print_Function

    def _print_not_supported(self, expr: sp.Basic) -> str:
        raise Unsupported(f"{type(expr).__name__} has no numeric form: {expr}")

    emptyPrinter = _print_not_supported


def counted(e: sp.Expr) -> sp.Expr:
    """A factorial or a binomial coefficient as a polynomial, if it is one, or in gamma functions."""
    form = sp.expand_func(e)
    return form.rewrite(sp.gamma) if form.has(sp.factorial, sp.binomial) else form


def _is_product(k: sp.Expr) -> bool:
    """whether a power is written as products of its base, and a root"""
    return bool(k.is_Rational and k.q in (1, 2) and abs(k.p) <= _MOST)


def product_roundings(k: sp.Expr) -> sp.Integer | None:
    """How many roundings x^k takes where it is printed as products, a root and a quotient; None of any other power."""
    return sp.Integer(abs(k.p) // k.q + (k.q - 1) * 2 - 1 + int(k.p < 0)) if _is_product(k) else None


def _double(number: sp.Number) -> str:
    """the nearest double, or an infinity where it is beyond them"""
    value = float(number)
    return repr(value) if math.isfinite(value) else f"math.{value}" if value > 0 else "-math.inf"


def source_name(name: str, taken: set[str]) -> str:
    """A Python identifier for a name, unused so far."""
    base = name if name.isidentifier() else "symbol"
    candidate, i = base, 0
    while candidate in taken:
        i += 1
        candidate = f"{base}_{i}"
    taken.add(candidate)
    return candidate


def parameter_name(name: str, taken: set[str]) -> str:
    """A Python identifier for a parameter; an underscore behind one that the library does not know keeps it from being a function."""
    return source_name(name if name in TABLE else f"{name}_", taken)
