"""What a user may pass, turned into what the library works with, or refused in one sentence before any work starts."""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp

from meanfield import exact, symbols
from meanfield.memory import check_memory

__all__ = [
    "above_zero",
    "broadcast",
    "check_bound",
    "check_flag",
    "check_integer",
    "check_range",
    "check_symbol",
    "check_sign",
    "check_start",
    "check_variance",
    "coefficient",
    "covariance",
    "expression",
    "folded",
    "gap_of",
    "geometric_mean",
    "law",
    "lost_letters",
    "meant",
    "number",
    "number_array",
    "number_list",
    "outside",
    "scalar",
    "shown",
    "symbol_array",
    "variance_array",
    "whole",
    "within",
]

#: characters of a number that is shown in all its digits
_SHORT = 40
#: numbers of an argument from which on it is asked whether they fit into memory, and copies of them that are held at a time
_MANY, _COPIES = 1 << 20, 3
#: up to which whole numbers count something, as repeats, units or tokens: with room to spare in 64 bits
_MOST = 10**18


def meant(name: str, names: Iterable[str]) -> str:
    """ " (did you mean a or b?)" of the names that are near one that is none of them, capitals and underscores apart; "" of none."""
    import difflib

    own = {folded(n): n for n in names}
    near = difflib.get_close_matches(folded(name), own, n=3)
    return f" (did you mean {' or '.join(own[n] for n in near)}?)" if near else ""


def folded(name: str) -> str:
    """A name without its capitals and underscores."""
    return name.replace("_", "").casefold()


def expression(value: Any, name: str) -> sp.Expr:
    """A number or sympy expression as an exact sympy expression in the library's symbols."""
    if exact.is_number(value) and not isinstance(value, sp.Basic):
        return exact.rational(value, name)
    if not isinstance(value, sp.Expr) or value.is_Matrix:
        raise TypeError(f"{name} = {value!r}: expected a number or a sympy expression, got {type(value).__name__}")
    if value.has(sp.nan, sp.oo, -sp.oo, sp.zoo):
        raise ValueError(f"{name} = {value}: expected a finite expression")
    if value.is_number and value.is_real is False:
        raise ValueError(f"{name} = {value}: expected a real number")
    floats = {f: exact.rational(f, name) for f in value.atoms(sp.Float)}
    return symbols.canonical(value.xreplace(floats))


def law(value: Any, name: str) -> sp.Expr:
    """An argument of an expectation's law: an expression that does not hold the variables the expectation binds."""
    result = expression(value, name)
    if result.free_symbols & {symbols.known("x"), symbols.known("y")}:
        raise ValueError(f"{name} = {result}: x and y are bound by the expectation, its law may not depend on them")
    return result


def whole(value: Any, name: str, lowest: int = 1) -> sp.Expr:
    """A whole number of at least `lowest`, or an expression, which sympy must not know to be none."""
    result = expression(value, name)
    if result.is_integer is False or (result - lowest).is_negative or (result.is_number and not result.is_integer):
        raise ValueError(f"{name} = {shown(result)}: expected a whole number, at least {lowest}, or an expression")
    return result


def above_zero(value: Any, name: str) -> sp.Expr:
    """A number above 0, or an expression, which sympy must not know to be none."""
    result = expression(value, name)
    if _is_no_size(result):
        raise ValueError(f"{name} = {shown(result)}: expected a number above 0, or an expression")
    return result


def check_variance(value: sp.Expr, name: str) -> None:
    """A variance must be positive where sympy can tell."""
    if _is_no_size(value):
        raise ValueError(f"{name} = {value}: a variance must be positive")


def _is_no_size(value: sp.Expr) -> bool:
    return bool(value.is_nonpositive or (value.is_number and not value.is_positive))


def covariance(p: Any, q1: sp.Expr, q2: sp.Expr, *given: Any) -> sp.Expr:
    """A covariance of at most the geometric mean of the variances, where sympy can tell: at it, where rounding alone brought it beyond,
    of it or of the variances as these were `given`."""
    exactly, largest = law(p, "p"), sp.sqrt(q1 * q2)
    if not sp.expand(exactly**2 - q1 * q2).is_positive:
        return exactly
    at = exact.within(exactly, largest, max(map(exact.rounding, (p, *given)))) if (exactly / largest).is_number else None
    if at is None:
        raise ValueError(f"p = {shown(exactly)}: |p| must be at most sqrt(q1 q2) = {shown(largest)}")
    return at


def gap_of(delta: Any, q1: sp.Expr, q2: sp.Expr, *given: Any) -> sp.Expr:
    """sqrt(q1 q2) - p, of 0 to 2 sqrt(q1 q2), where sympy can tell: at that, where rounding alone brought it beyond."""
    exactly, largest = law(delta, "delta"), 2 * (q1 if q1 == q2 else sp.sqrt(q1 * q2))
    at = exactly
    if sp.expand(exactly**2 - largest**2).is_positive:
        at = exact.within(exactly, largest, max(map(exact.rounding, (delta, *given)))) if (exactly / largest).is_number else None
    if at is None or exactly.is_negative:
        raise ValueError(f"delta = {shown(exactly)}: expected 0 <= delta <= 2 {'q' if q1 == q2 else 'sqrt(q1 q2)'}")
    return at


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
        check_range(np.array(result, dtype=object), name)
    return result


def check_range(values: np.ndarray, name: str, why: str = "") -> None:
    """Numbers, doubles or exact ones, for the parameter of that name, for what it means if for nothing else."""
    entry = symbols.TABLE.get(name)
    if entry is None:
        return
    before = "" if why else f"{entry.meaning}; "
    for bad, bound in _bounds(values, entry):
        if bad.any():
            raise ValueError(f"{name} = {shown(values[bad].flat[0])}: {before}it must be {bound}{why}")


def outside(values: np.ndarray, name: str) -> np.ndarray:
    """Which numbers are out of the range of the parameter of that name."""
    entry = symbols.TABLE.get(name)
    found = [] if entry is None else [bad for bad, _ in _bounds(values, entry)]
    return np.asarray(np.any([np.zeros(values.shape, dtype=bool), *found], axis=0))


def _bounds(values: np.ndarray, entry: symbols.Entry) -> Iterator[tuple[np.ndarray, str]]:
    """which numbers are beyond each bound of a parameter, and what they must be"""
    if entry.lowest is not None:
        yield np.asarray(values < entry.lowest, dtype=bool), f"at least {entry.lowest}"
    if entry.below is not None:
        yield np.asarray(values >= entry.below, dtype=bool), f"below {entry.below}"
    if entry.integer:
        yield np.asarray(values % 1 != 0, dtype=bool), "a whole number"


def check_sign(values: Any, name: str, symbol: sp.Symbol) -> None:
    """Numbers for a user's own symbol, which formulas were derived for with the sign it was declared with."""
    array = np.asarray(values)
    for declared, allowed, word, bound in (
        (symbol.is_positive, array > 0, "positive", "above 0"),
        (symbol.is_negative, array < 0, "negative", "below 0"),
        (symbol.is_nonnegative, array >= 0, "non-negative", "at least 0"),
        (symbol.is_nonpositive, array <= 0, "non-positive", "at most 0"),
        (symbol.is_integer, array % 1 == 0, "integer", "a whole number"),
    ):
        if declared and not (good := np.asarray(allowed, dtype=bool)).all():
            raise ValueError(f"{name} = {shown(array[~good].flat[0])}: declared as {word}, it must be {bound}")


def check_bound(value: sp.Expr, symbol: sp.Symbol) -> None:
    """The same of an expression, where it is a number and the symbol the user's own."""
    if value.is_number and symbol != symbols.parameter(symbol.name):
        check_sign(np.array(value, dtype=object), symbol.name, symbol)


def number_array(value: Any, name: str, symbol: sp.Symbol | None = None) -> np.ndarray:
    """A number or array of numbers as float64, finite and within the range of the parameter of that name.

    `symbol` is what the name stands for in a network: a user's own s is not the library's.
    """
    array = _finite_array(value, name)
    if symbol is None or name not in symbols.TABLE or symbol == symbols.known(name):
        check_range(array, name)
    if symbol is not None and symbol != symbols.parameter(name):
        check_sign(array, name, symbol)
    return array


def symbol_array(value: Any, symbol: sp.Symbol) -> np.ndarray:
    """The same for a symbol of an expression, of which nobody says what it is a parameter of."""
    array = _finite_array(value, symbol.name)
    check_symbol(array, symbol)
    return array


def _finite_array(value: Any, name: str) -> np.ndarray:
    if isinstance(value, (bool, str)) or value is None:
        raise TypeError(f"{name} = {value!r}: expected a number or an array of numbers")
    if "numpy.ma" in sys.modules and np.ma.is_masked(value):  # what else takes a while to import
        raise TypeError(
            f"{name} is a masked array with masked entries, which have no numbers: pass {name}.compressed() or {name}.filled(...)"
        )
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} = {value!r}: expected a number or an array of numbers, its rows of equal length") from None
    if array.dtype.kind == "O":  # numbers of sympy, mpmath or the standard library
        array = np.array([_double(v, name) for v in array.flat], dtype=np.float64).reshape(array.shape)
    if array.dtype.kind not in "iuf":
        kind = {"b": "truth values", "c": "complex numbers", "U": "text"}.get(array.dtype.kind, f"entries of type {array.dtype}")
        first = f"{name} = {_misfit(value)!r}" if array.size else name
        raise TypeError(f"{first}: expected a real number or an array of real numbers, got {kind}")
    if array.size > _MANY:  # as a view of one number may have
        need = 8.0 * array.size * _COPIES
        check_memory(f"{name} of shape {array.shape}", need, f" ({array.size:,} numbers)", f"a smaller {name}, or a part of it at a time")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} = {array[~np.isfinite(array)].flat[0]}: expected finite numbers")
    return array


def _misfit(value: Any) -> Any:
    """the entry that makes of numbers what is none of them, the first if none does by itself"""
    if isinstance(value, np.ndarray) and value.dtype != object:  # of one kind, and a view of one number may have ever so many
        return value.flat[0].item()
    entries = np.asarray(value, dtype=object)
    return next((v for v in entries.flat if not exact.is_number(v)), entries.flat[0])


def _double(value: Any, name: str) -> float:
    """the double nearest to a number of any kind, none of which lies next to 0 or beyond all doubles"""
    exactly = expression(value, name)
    if not exactly.is_number:
        raise TypeError(f"{name} = {value}: expected a number or an array of numbers, got an expression in {exactly.free_symbols}")
    near = float(exactly)
    if math.isinf(near) or (near == 0 and exactly.is_nonzero):
        raise ValueError(f"{name} = {exactly.n(6)}: no double is near it; mf.evaluate takes it with digits=n")
    return near


def check_symbol(values: np.ndarray, symbol: sp.Symbol) -> None:
    """Numbers, doubles or exact ones, within the range of a symbol of an expression."""
    name = symbol.name
    if symbol != symbols.parameter(name):
        check_sign(values, name, symbol)
    elif name in symbols.reserved:
        check_range(values, name)
    else:
        own = "one of your own, as sympy.Symbol('a', real=True), may be any number"
        check_range(values, name, f" as the library's symbol {name} in the expression is: {own}")


def number(value: Any, name: str) -> float:
    """The same of one number."""
    array = number_array(value, name)
    if array.ndim:
        raise TypeError(f"{name} = {value!r}: expected one number")
    return float(array)


def number_list(value: Any, name: str) -> np.ndarray:
    """The same of one number or a list of them, as a list."""
    array = np.atleast_1d(number_array(value, name))
    if array.ndim > 1:
        raise ValueError(f"{name}: expected a number or a list of them, got an array of shape {array.shape}")
    return array


def variance_array(value: Any, name: str) -> np.ndarray:
    """The same, of variances, which are positive."""
    array = _finite_array(value, name)
    if (array <= 0).any():
        raise ValueError(f"{name} = {shown(array[array <= 0].flat[0])}: a variance must be positive")
    check_range(array, name)
    return array


def geometric_mean(q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
    """sqrt(q1 q2) of variances, that of equal ones exact."""
    return np.asarray(np.where(q1 == q2, q1, np.sqrt(q1) * np.sqrt(q2)))


def within(values: np.ndarray, limits: np.ndarray, complaint: str) -> np.ndarray:
    """Doubles of at most these sizes, at them where rounding alone brought one beyond; refused where one is beyond by more.

    `complaint` says so of the {value} and its {limit}.
    """
    if not (np.abs(values) > limits).any():
        return values
    v, most = np.broadcast_arrays(values, limits)
    bad = np.abs(v) > most * (1 + exact.ROUNDINGS * 2.0**-53)
    if bad.any():
        raise ValueError(complaint.format(value=shown(v[bad][0]), limit=shown(most[bad][0])))
    return np.asarray(np.clip(v, -most, most))


#: the letters of the law of a moment
_LAWS = ({"q", "p"}, {"q", "delta"}, {"q1", "p", "q2"})


def lost_letters(own: Set[str], given: Set[str]) -> set[str]:
    """Letters of a moment's law that were given and that its formula, in the names `own`, has lost: E tanh(u) = 0 for every q, and a
    gap of delta. A formula in q alone has lost none: it is no function of p."""
    letters = set().union(*_LAWS)
    kept, extra = letters.intersection(own), letters.intersection(given).difference(own)
    lost = not kept or kept & {"p", "delta"}
    return extra if lost and any(kept | extra <= law for law in _LAWS) else set()


def shown(value: Any) -> str:
    """A number in few digits where these are the number, else in all of them: 1.0000001 is not 1."""
    if isinstance(value, sp.Basic):
        if not value.is_number or (value.is_Integer and len(str(value)) <= _SHORT):
            return str(value)
        decimal = str(mp.libmp.to_str(sp.N(value, _SHORT)._mpf_, _SHORT))
        return str(value) if len(str(value)) <= _SHORT and sp.Rational(decimal) != value else decimal
    return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))


def broadcast(arrays: Mapping[str, np.ndarray]) -> tuple[int, ...]:
    """The common shape of named arrays, or a sentence with all their shapes."""
    try:
        return np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise ValueError(f"the shapes of the arguments do not broadcast: {shapes}") from None


def check_integer(value: Any, name: str, lowest: int, highest: int = _MOST) -> int:
    """A whole number of at least `lowest`, and at most `highest`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} = {value!r}: expected a whole number, at least {lowest}")
    if value < lowest:
        raise ValueError(f"{name} = {value}: expected a whole number, at least {lowest}")
    if int(value) > highest:
        raise ValueError(f"{name} = {shown(sp.Integer(int(value)))}: expected a whole number, at least {lowest} and at most {highest}")
    return int(value)


def check_flag(value: Any, name: str) -> None:
    """True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} = {value!r}: expected True or False")


def check_start(start: Any) -> None:
    """Which gradient at the output J^{L,l} begins with."""
    if not isinstance(start, str) or start not in ("token", "pooled"):
        raise ValueError(f"start = {start!r}: expected 'token' or 'pooled'")
