"""Constants of activations that have a letter: solved for or fitted, with what they are defined by."""

from __future__ import annotations

from functools import cache
from typing import Any

import sympy as sp
from mpmath.libmp import prec_to_dps

__all__ = ["Constant"]


class Constant(sp.NumberSymbol):
    """A constant with a definition, which is worked out when a digit of it is first needed; it prints as its letter."""

    is_real, is_positive = True, True
    _letter, _written = "", ""  # in text and in LaTeX
    _floor = 1  # the largest whole number below it
    _instance: Any = None

    def __new__(cls) -> Any:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def definition(self) -> sp.Expr:
        raise TypeError(f"{type(self).__name__} has no definition")

    def _as_mpf_val(self, prec: int) -> Any:
        return _digits(self, prec)

    def approximation_interval(self, number_cls: type) -> tuple[sp.Number, sp.Number] | None:
        return (sp.Integer(self._floor), sp.Integer(self._floor + 1)) if issubclass(number_cls, sp.Integer) else None

    def _sympystr(self, printer: Any) -> str:
        return self._letter

    def _latex(self, printer: Any) -> str:
        return self._written

    def _mpmathcode(self, printer: Any) -> str:
        return f"({printer._print(self.definition().rewrite(sp.erfc))})"  # it may become a base


@cache
def _digits(constant: Constant, prec: int) -> Any:
    return sp.N(constant.definition(), prec_to_dps(prec) + 3)._as_mpf_val(prec)
