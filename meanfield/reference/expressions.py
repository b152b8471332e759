"""A sympy expression in mf.x as a function of torch tensors, differentiable by torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

import sympy as sp
import torch
from torch import Tensor

from meanfield.symbols import known

__all__ = ["tensor_function"]

TensorFunction = Callable[[Tensor], Tensor]

x = known("x")


def _step(t: Tensor) -> Tensor:
    return (1 + torch.sign(t)) / 2  # 1/2 at 0, and differentiable: slope 0


#: sympy function -> torch function, of one argument; the second argument of Heaviside, its value at 0, is read as 1/2
_UNARY: Final[dict[str, TensorFunction]] = {
    "Abs": torch.abs,
    "Heaviside": _step,
    "acos": torch.acos,
    "acosh": torch.acosh,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atanh": torch.atanh,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "sign": torch.sign,
    "sin": torch.sin,
    "sinh": torch.sinh,
    "sinc": lambda t: torch.sinc(t / torch.pi),
    "tan": torch.tan,
    "tanh": torch.tanh,
}

_NARY: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "Add": torch.add,
    "And": torch.logical_and,
    "Max": torch.maximum,
    "Min": torch.minimum,
    "Mul": torch.mul,
    "Or": torch.logical_or,
}

_RELATION: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "Equality": torch.eq,
    "GreaterThan": torch.ge,
    "LessThan": torch.le,
    "StrictGreaterThan": torch.gt,
    "StrictLessThan": torch.lt,
    "Unequality": torch.ne,
}


def tensor_function(expression: sp.Expr) -> TensorFunction:
    """The function t -> expression at mf.x = t, elementwise, in the type of t.

    A piece of a Piecewise is evaluated only where it holds, so that an overflow elsewhere does not reach the gradient.

    Raises
    ------
    ValueError
        The expression has a free symbol other than mf.x, or a function that has no torch counterpart here, by name.

    Examples
    --------
    >>> import torch, meanfield as mf
    >>> f = tensor_function(mf.relu.expression)
    >>> f(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    free = expression.free_symbols - {x}
    if free:
        raise ValueError(f"{expression}: the parameters {sorted(map(str, free))} have no value")
    lowered = _lower(expression, expression)
    return lambda t: lowered(t).expand_as(t)


def _lower(e: sp.Basic, whole: sp.Expr) -> TensorFunction:
    """that part of the whole expression as a function of the tensor put in for x; constants come out as tensors of no dimension"""
    if e == x:
        return lambda t: t
    if e in (sp.true, sp.false):
        holds = bool(e)
        return lambda t: torch.tensor(holds, device=t.device)
    if isinstance(e, sp.Expr) and not e.free_symbols:
        return _constant(float(e))
    name = type(e).__name__
    if isinstance(e, sp.Piecewise):
        return _piecewise([(_lower(value, whole), _lower(condition, whole)) for value, condition in e.args])
    if isinstance(e, sp.Pow):
        return _power(e, whole)
    if name in _UNARY:
        outer, inner = _UNARY[name], _lower(e.args[0], whole)
        return lambda t: outer(inner(t))
    if name in _NARY or name in _RELATION:
        both, parts = (_NARY | _RELATION)[name], [_lower(a, whole) for a in e.args]
        return lambda t: reduce(both, [part(t) for part in parts])
    if isinstance(e, sp.Not):
        inner = _lower(e.args[0], whole)
        return lambda t: torch.logical_not(inner(t))
    known_names = ", ".join(sorted([*_UNARY, *_NARY, "Piecewise", "Pow"]))
    raise ValueError(f"{whole}: {name} has no torch counterpart in {__name__}; known are {known_names}")


def _constant(value: float) -> TensorFunction:
    return lambda t: t.new_tensor(value)


def _power(e: sp.Pow, whole: sp.Expr) -> TensorFunction:
    base = _lower(e.base, whole)
    if not e.exp.is_number:
        exponent = _lower(e.exp, whole)
        return lambda t: torch.pow(base(t), exponent(t))
    if e.exp == sp.S.Half:
        return lambda t: torch.sqrt(base(t))
    number = int(e.exp) if e.exp.is_Integer else float(e.exp)
    return lambda t: torch.pow(base(t), number)


def _piecewise(pieces: list[tuple[TensorFunction, TensorFunction]]) -> TensorFunction:
    def apply(t: Tensor) -> Tensor:
        out = torch.full_like(t, torch.nan)
        left = torch.ones_like(t, dtype=torch.bool)
        for value, condition in pieces:
            here = left & condition(t)
            part = t[here]
            out = out.masked_scatter(here, value(part).expand_as(part))
            left = left & ~here
        return out

    return apply
