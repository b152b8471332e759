"""What a user may pass, turned into what the library works with, or refused in one sentence before any work starts."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Set
from typing import Any

import numpy as np
import sympy as sp

from meanfield import symbols

__all__ = [
    "broadcast",
    "check_bound",
    "check_covariance",
    "check_integer",
    "check_sign",
    "check_variance",
    "coefficient",
    "expression",
    "law",
    "lost_letters",
    "number_array",
    "scalar",
    "shown",
    "symbol_array",
    "variance_array",
]


def _exact(value: Any) -> sp.Rational:
    """The number a person typed: 0.64 is 16/25, whose nearest double is the 0.64 that was passed."""
    return sp.Integer(int(value)) if isinstance(value, numbers.Integral) else sp.Rational(repr(float(value)))


def expression(value: Any, name: str) -> sp.Expr:
    """A number or sympy expression as an exact sympy expression in the library's symbols."""
    if isinstance(value, (bool, str)):
        raise TypeError(f"{name} = {value!r}: expected a number or a sympy expression, got {type(value).__name__}")
    if isinstance(value, numbers.Real) and not isinstance(value, sp.Basic):
        if not math.isfinite(value):
            raise ValueError(f"{name} = {value}: expected a finite number")
        return _exact(value)
    if not isinstance(value, sp.Expr) or value.is_Matrix:
        raise TypeError(f"{name} = {value!r}: expected a number or a sympy expression, got {type(value).__name__}")
    if value.has(sp.nan, sp.oo, -sp.oo, sp.zoo):
        raise ValueError(f"{name} = {value}: expected a finite expression")
    if value.is_number and value.is_real is False:
        raise ValueError(f"{name} = {value}: expected a real number")
    floats = {f: _exact(float(f)) for f in value.atoms(sp.Float)}
    return symbols.canonical(value.xreplace(floats))


def law(value: Any, name: str) -> sp.Expr:
    """An argument of an expectation's law: an expression that does not hold the variables the expectation binds."""
    result = expression(value, name)
    if result.free_symbols & {symbols.known("x"), symbols.known("y")}:
        raise ValueError(f"{name} = {result}: x and y are bound by the expectation, its law may not depend on them")
    return result


def check_variance(value: sp.Expr, name: str) -> None:
    """A variance must be positive where sympy can tell."""
    if value.is_nonpositive or (value.is_number and not value.is_positive):
        raise ValueError(f"{name} = {value}: a variance must be positive")


def check_covariance(p: sp.Expr, q1: sp.Expr, q2: sp.Expr) -> None:
    """A covariance must be at most the geometric mean of the variances where sympy can tell."""
    if sp.expand(p**2 - q1 * q2).is_positive:
        largest = sp.sqrt(q1 * q2)
        raise ValueError(f"p = {p}: |p| must be at most sqrt(q1 q2) = {f'{float(largest):g}' if largest.is_number else largest}")


def coefficient(value: Any, name: str) -> sp.Expr:
    """A factor in a block, of any sign: a real number or an expression in parameters, L and l."""
    result = expression(value, name)
    taken = sorted({s.name for s in result.free_symbols} & (symbols.reserved - {"L", "l"}))
    if taken:
        raise ValueError(f"{name} = {result}: {', '.join(taken)} cannot be a parameter; it may depend on other parameters, L and l")
    if result.is_number and not result.is_real:
        raise ValueError(f"{name} = {result}: expected a real number")
    return result


def scalar(value: Any, name: str) -> sp.Expr:
    """A parameter of a block: left out (None) it is the symbol of that name; a number is held against its range."""
    if value is None:
        return symbols.parameter(name)
    result = coefficient(value, name)
    if result.is_number and name in symbols.TABLE:
        _check_range(np.asarray(float(result)), name)
    return result


def _check_range(values: np.ndarray, name: str, why: str = "") -> None:
    """against the range of the library's symbol of that name, for what it means if for nothing else"""
    entry = symbols.TABLE.get(name)
    if entry is None:
        return
    before = "" if why else f"{entry.meaning}; "
    for fine, bound in (
        (entry.lowest is None or values >= entry.lowest, f"at least {entry.lowest}"),
        (entry.below is None or values < entry.below, f"below {entry.below}"),
        (not entry.integer or values == np.round(values), "a whole number"),
    ):
        if not np.all(fine):
            raise ValueError(f"{name} = {values[~np.asarray(fine)].flat[0]:g}: {before}it must be {bound}{why}")


def check_sign(values: Any, name: str, symbol: sp.Symbol) -> None:
    """Numbers for a user's own symbol, which formulas were derived for with the sign it was declared with."""
    array = np.asarray(values, dtype=np.float64)
    for declared, allowed, word, bound in (
        (symbol.is_positive, array > 0, "positive", "above 0"),
        (symbol.is_negative, array < 0, "negative", "below 0"),
        (symbol.is_nonnegative, array >= 0, "non-negative", "at least 0"),
        (symbol.is_nonpositive, array <= 0, "non-positive", "at most 0"),
        (symbol.is_integer, array == np.round(array), "integer", "a whole number"),
    ):
        if declared and not allowed.all():
            raise ValueError(f"{name} = {array[~allowed].flat[0]:g}: declared as {word}, it must be {bound}")


def check_bound(value: sp.Expr, symbol: sp.Symbol) -> None:
    """The same of an expression, where it is a number and the symbol the user's own."""
    if value.is_number and symbol != symbols.parameter(symbol.name):
        check_sign(float(value), symbol.name, symbol)


def number_array(value: Any, name: str, symbol: sp.Symbol | None = None) -> np.ndarray:
    """A number or array of numbers as float64, finite and within the range of the parameter of that name.

    `symbol` is what the name stands for in a network: a user's own s is not the library's.
    """
    array = _finite_array(value, name)
    if symbol is None or name not in symbols.TABLE or symbol == symbols.known(name):
        _check_range(array, name)
    if symbol is not None and symbol != symbols.parameter(name):
        check_sign(array, name, symbol)
    return array


def symbol_array(value: Any, symbol: sp.Symbol) -> np.ndarray:
    """The same for a symbol of an expression, of which nobody says what it is a parameter of."""
    name = symbol.name
    array = _finite_array(value, name)
    if symbol != symbols.parameter(name):
        check_sign(array, name, symbol)
    elif name in symbols.reserved:
        _check_range(array, name)
    else:
        own = "one of your own, as sympy.Symbol('a', real=True), may be any number"
        _check_range(array, name, f" as the library's symbol {name} in the expression is: {own}")
    return array


def _finite_array(value: Any, name: str) -> np.ndarray:
    if isinstance(value, sp.Basic):
        if not value.is_number:
            raise TypeError(f"{name} = {value}: expected a number or an array of numbers, got an expression in {value.free_symbols}")
        if value.is_real is False:
            raise ValueError(f"{name} = {value}: expected a real number")
        value = float(value)
    if isinstance(value, (bool, str)) or value is None:
        raise TypeError(f"{name} = {value!r}: expected a number or an array of numbers")
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} = {value!r}: expected a number or an array of numbers, its rows of equal length") from None
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name}: expected real numbers, got an array of dtype {array.dtype}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} = {array[~np.isfinite(array)].flat[0]}: expected finite numbers")
    return array


def variance_array(value: Any, name: str) -> np.ndarray:
    """The same, of variances, which are positive."""
    array = number_array(value, name)
    if (array <= 0).any():
        raise ValueError(f"{name} = {array[array <= 0].flat[0]:g}: a variance must be positive")
    return array


#: the letters of the law of a moment
_LAWS = ({"q", "p"}, {"q", "delta"}, {"q1", "p", "q2"})


def lost_letters(own: Set[str], given: Set[str]) -> set[str]:
    """Letters of a moment's law that were given and that its formula, in the names `own`, has lost: E tanh(u) = 0 for every q, and a
    gap of delta. A formula in q alone has lost none: it is no function of p."""
    letters = set().union(*_LAWS)
    kept, extra = letters.intersection(own), letters.intersection(given).difference(own)
    lost = not kept or kept & {"p", "delta"}
    return extra if lost and any(kept | extra <= law for law in _LAWS) else set()


def shown(value: float) -> str:
    """A number in few digits where these are the number, else in all of them: 1.0000001 is not 1."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))


def broadcast(arrays: Mapping[str, np.ndarray]) -> tuple[int, ...]:
    """The common shape of named arrays, or a sentence with all their shapes."""
    try:
        return np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise ValueError(f"the shapes of the arguments do not broadcast: {shapes}") from None


def check_integer(value: Any, name: str, lowest: int) -> int:
    """A whole number of at least `lowest`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} = {value!r}: expected a whole number, at least {lowest}")
    if value < lowest:
        raise ValueError(f"{name} = {value}: expected a whole number, at least {lowest}")
    return int(value)
