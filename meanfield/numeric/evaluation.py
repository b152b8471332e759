r"""Numbers from symbolic expressions: compiled float64 over arrays, or any number of correct digits."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import arguments
from meanfield.gaussian.expectation import stated
from meanfield.gaussian.guards import cases_of
from meanfield.numeric.abnormal import FAINT, abnormal, infinite, marked, refused, stood_for
from meanfield.numeric.asked import Asked
from meanfield.numeric.digits import digits_of, point
from meanfield.numeric.given import arranged, exact_values
from meanfield.numeric.infinite import refuse_divergent, refuse_infinite_at
from meanfield.numeric.methods import CANCELLED, answered
from meanfield.symbols import real

__all__ = ["entries", "evaluate", "summand"]

Floats = NDArray[np.float64]

#: digits that closed forms are evaluated to; quadrature ends before, and says where
MOST_DIGITS = 10**6


@np.errstate(under="ignore")
def evaluate(expression: sp.Expr, *, digits: int | None = None, error: bool = False, log: bool = False, **values: Any) -> Any:
    r"""The value of an expression: float64, compiled and broadcast over arrays, or an mpmath number of any precision.

    Parameters
    ----------
    expression : sympy expression
        For example an expectation, a kernel, or an entry of a recursion. Closed forms are lowered in a shape that does not cancel,
        expectations without one go to quadrature, in long arrays to Chebyshev tables of their moments, kept from call to call, where these
        hold the value to 1e-11, others to sums under all laws together, where these hold a gap to 1e-11 and any other value to 1e-10.
    digits : whole number, optional
        Return an mpmath number with that many correct digits; values must then be single numbers. They count exactly: an mpmath number
        as what it is, as does a Fraction or a Decimal, a float or a sympy Float of any precision as the decimal that it prints as.
    error : bool
        Return (value, bound), without such tables: a first-order bound on rounding, carried through the lowered expression and through
        the integrand of a quadrature (whose terms may cancel), and for quadrature the difference from others in more detail.
    log : bool
        Return ln of the value, also where the value itself is no normal double.
    **values : number or array
        One for each free symbol, by name; of a moment that does not depend on its law, as E tanh(u), q, p, q1, q2 and delta may be given.

    Returns
    -------
    float for scalars, float64 array otherwise; an mpmath number with `digits`. An expectation that is infinite since its two inputs are
    one, as that of phi'(u) phi'(v) where phi jumps, is inf with the bound 0.

    Raises
    ------
    ValueError
        Missing or unused names (both lists shown), values outside the range of a parameter or for which an expectation is infinite.
    ArithmeticError
        A value that quadrature cannot resolve in float64. At a large variance: of a function that oscillates for ever and is not slow in
        x and periodic in one or two phases, as tanh(sin(x^2)) or tanh(x sin x), or has kinks that move; the gap of one with jumps, as
        x sign(sin x), for tiny delta; kernels for two unequal variances with u so near a multiple of v that either tells the phase of the
        other, unless both functions are periodic (with kinks, or more than 512 harmonics, at variances of up to some 200 squared
        periods). The gap for tiny delta of one with roots or logarithms at places k without a closed form; of one that is finite and not
        0 there, as exp(-sqrt|x|), where sqrt(delta) is so small that f does not change by 3e-5 of itself.
    OverflowError
        A value is no normal double (0 < |v| < 2.2e-308 or |v| > 1.8e308): with what to pass instead.

    Warns
    -----
    RuntimeWarning
        Some values of an array are no normal doubles, or not to be had, and others are: inf or 0 stands for the former, nan for the
        latter, and the warning counts them. With `error` the bound is inf there, 2.2e-308 beside a 0.

    Examples
    --------
    >>> import meanfield as mf
    >>> mf.evaluate(mf.relu.kernel(mf.q, mf.p), q=2.0, p=1.0)
    0.608997...
    >>> import mpmath
    >>> print(mpmath.nstr(mf.evaluate(mf.silu.second_moment(1), digits=30), 30))
    0.355775519817352156230794292334
    >>> mf.evaluate(mf.tanh.second_moment(mf.q), q=[0.5, 1.0]).round(12)
    array([0.273676..., 0.394294...])
    """
    e = real(stated(_exact(expression) if isinstance(expression, sp.Expr) else arguments.expression(expression, "expression")))
    for flag, name in ((error, "error"), (log, "log")):
        arguments.check_flag(flag, name)
    if digits is not None:
        return _precise(e, digits, error, log, values)
    asked, table, grid = _laid_out(e, values, error)
    result, bound = answered(asked, table)
    if log:
        result, bound = _logs(asked, table, result, bound)
    nothing = np.isneginf(result) & log  # the logarithm of 0
    result, bound = marked(np.where(nothing, 0.0, result), np.where(nothing, 0.0, bound), asked.reasons)
    result = np.where(nothing, -np.inf, result)
    value = float(result[0]) if grid == () else result.reshape(grid)
    if not error:
        return value
    return value, float(bound[0]) if grid == () else bound.reshape(grid)


def summand(expression: sp.Expr, faint: float, values: dict[str, Any]) -> tuple[Floats, bool]:
    """The float64 values of what others are added to, `faint` where they underflow, and whether any does."""
    asked, table, grid = _laid_out(real(stated(expression)), values)
    result, _ = answered(asked, table)
    underflow = (result != 0) & (np.abs(result) < FAINT)
    refused(np.where(underflow, 0.0, result), asked.reasons)
    result[underflow] = faint
    return result.reshape(grid), bool(underflow.any())


def entries(expression: sp.Expr, values: dict[str, Any]) -> Floats:
    """The float64 values, inf, 0 or nan where one is no normal double or not to be had."""
    asked, table, grid = _laid_out(real(stated(expression)), values)
    return stood_for(answered(asked, table)[0]).reshape(grid)


@lru_cache(maxsize=512)
def _exact(expression: sp.Expr) -> sp.Expr:
    if expression in (sp.oo, -sp.oo):  # as E phi'(u)^2 is where phi jumps
        return expression
    cases = cases_of(expression)
    held = {t: letter for letter, t in cases.items()}
    return arguments.expression(expression.xreplace(held), "expression").xreplace(cases)


@lru_cache(maxsize=512)
def _order(e: sp.Expr) -> tuple[sp.Symbol, ...]:
    return tuple(sorted({s.name: s for s in e.free_symbols}.values(), key=lambda s: s.name))


def _laid_out(e: sp.Expr, values: dict[str, Any], bounds: bool = False) -> tuple[Asked, Floats, tuple[int, ...]]:
    """what is asked, the values of its symbols as the rows of a table, and the shape of the answer"""
    order = _order(e)
    arrays, grid = arranged(order, values)
    table = np.array([np.broadcast_to(a, grid).ravel() for a in arrays.values()]).reshape(len(arrays), math.prod(grid))
    return Asked(e, order, bounds), table, grid


def _precise(e: sp.Expr, digits: int, error: bool, log: bool, values: dict[str, Any]) -> mp.mpf:
    """the value to that many digits"""
    if error:
        raise ValueError("error = True and digits are given: with digits every digit is correct, ask for one of them")
    arguments.check_integer(digits, "digits", 1)
    if digits > MOST_DIGITS:
        raise ValueError(f"digits = {digits}: expected at most {MOST_DIGITS}")
    at = exact_values(_order(e), values)
    try:
        value = digits_of(e, at, digits, log)
    except (ArithmeticError, ValueError):
        refuse_infinite_at(e, at)
        raise
    if mp.isinf(value):
        refuse_divergent(e)
    return value


def _logs(asked: Asked, table: Floats, result: Floats, bound: Floats) -> tuple[Floats, Floats]:
    """logarithms, of values known to more digits where these are too small for a double or lose themselves in what cancels"""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.abs(result))
        known = bound <= CANCELLED * np.maximum(1.0, np.abs(logs)) * np.abs(result)
        bound = bound / np.abs(result)
    signs = np.sign(result)
    lost = (abnormal(result) | ~(bound < 1.0)) & ~infinite(result, bound)
    for g in np.flatnonzero((lost | ~known) & ~asked.vanishing(table, result == 0)):
        try:
            precise = digits_of(asked.expression, point(asked.order, table[:, g]), 20)
        except ArithmeticError as reason:
            if lost[g]:
                logs[g], signs[g] = np.nan, 1.0
                asked.reasons.append(reason)
            continue
        signs[g], logs[g] = int(mp.sign(precise)), float(mp.log(abs(precise))) if precise else -np.inf
        bound[g] = np.spacing(abs(logs[g]))
    if (signs < 0).any():
        raise ValueError("log=True: the expression is negative at some of these arguments")
    return logs, bound
