"""What a repeat in closed form adds to a state, to more digits than doubles have: next to the edge of chaos what is left of it in doubles
is rounding, which adds up over as many repeats as it takes to settle."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.expectation import Node
from meanfield.gaussian.special import BivariateNormalCDF, written_out
from meanfield.numeric.leaps import WIDE, Added, Rough
from meanfield.recurrence import Recursion, Stage, explicit
from meanfield.symbols import known

__all__ = ["IS_WIDE", "wide_added"]

Numbers = NDArray[np.floating[Any]]
#: (parameters, L, l, q, p) -> q', p', the entries of the transfer and chi
Function = Callable[..., tuple[mp.mpf, ...]]

q, p, l, L = known("q"), known("p"), known("l"), known("L")

#: whether there are floats here with more digits than doubles
IS_WIDE = np.finfo(WIDE).nmant > np.finfo(np.float64).nmant
#: digits of a repeat, and those by which two in a row must agree, beside what a gap takes away
DIGITS, MORE, AGREED = 30, 15, 1e-24
#: layers of a repeat, of which a leap takes some hundred, 0.1 ms each
MOST = 20


def wide_added(rec: Recursion, paired: bool, values: NDArray[np.float64], depth: int) -> Added:
    """As `increments.added_by`, for rows of `WIDE`.

    Raises
    ------
    Rough
        A moment has no closed form, a repeat is of many layers, which take as long each, or this platform has no floats wider than
        doubles.
    """
    functions = None if sum(stage.times for stage in rec.stages) > MOST else _functions(rec, paired)
    if functions is None or not IS_WIDE:
        raise Rough("a repeat is known to doubles alone")
    given = (*map(mp.mpf, values.tolist()), mp.mpf(depth))

    def at(state: list[Any], digits: int) -> list[mp.mpf]:
        with mp.workdps(digits):
            return _added(functions, given, *map(_exact, state))

    def added(states: Numbers) -> Numbers:
        if not states.size:
            return np.empty((5, 0))
        digits = DIGITS + _lost(states)
        rows = [at(list(state), digits) for state in states.T]
        _check(rows[0], at(list(states[:, 0]), digits + MORE))
        return np.array([[_wide(x) for x in row] for row in rows], dtype=WIDE).T

    return added


@lru_cache(maxsize=64)
def _functions(rec: Recursion, paired: bool) -> tuple[tuple[Function, int], ...] | None:
    """the stages of a repeat, each with how often it is applied; None where a moment has no closed form"""
    order, found = (*rec.parameters, L, l, q, p), []
    for stage in rec.stages:
        forms = [written_out(e) for e in _formulas(stage, paired)]
        if any(e.has(Node, BivariateNormalCDF, sp.Integral, sp.hyper, sp.oo, sp.zoo) for e in forms):
            return None
        found.append((sp.lambdify(order, forms, "mpmath"), stage.times))
    return tuple(found)


def _formulas(stage: Stage, paired: bool) -> list[sp.Expr]:
    """q', p', the entries of the transfer and chi; of a single input p is q, and a gradient has no second part"""
    values, law = stage.values, stage.law
    if not paired:
        return [explicit(law.output.q, values)] * 2 + [explicit(law.transfer[0, 0], values), *[sp.S.Zero] * 3, explicit(law.chi, values)]
    return [explicit(e, values) for e in (law.output.q, law.output.p, *law.transfer, law.chi)]


def _added(functions: tuple[tuple[Function, int], ...], given: tuple[mp.mpf, ...], *state: mp.mpf) -> list[mp.mpf]:
    start, gap, before, number = state
    at, cov, row, chi = start, start - gap, (mp.mpf(1), before), mp.mpf(1)
    try:
        for function, times in functions:
            for _ in range(times):
                at, cov, t00, t01, t10, t11, own = function(*given, number, at, cov)
                row = (row[0] * t00 + row[1] * t10, row[0] * t01 + row[1] * t11)
                chi *= own
        rise, apart = mp.log(at / start), mp.log((at - cov) / at * start / gap) if gap else mp.mpf(0)
        log, chi_log = mp.log(row[0]), mp.log(chi)
    except (ArithmeticError, TypeError, ValueError) as reason:
        raise Rough(f"a repeat has no number: {reason}") from reason
    found = [rise, apart, row[1] / row[0] - before, log - rise, chi_log - rise]
    if any(mp.im(x) for x in found):
        raise Rough("a repeat is not real")
    return found


def _lost(states: Numbers) -> int:
    """digits that q - p loses"""
    with np.errstate(divide="ignore"):
        apart = np.where(states[1] > 0, np.log10(states[1] / states[0]), 0.0)
    return 2 * math.ceil(-float(apart.min()))


def _check(row: list[mp.mpf], again: list[mp.mpf]) -> None:
    """refuse what more digits change"""
    if any(abs(a - b) > AGREED * max(1, abs(b)) for a, b in zip(row, again, strict=True)):
        raise Rough("a repeat loses more digits than expected")


def _exact(x: Any) -> mp.mpf:
    first = float(x)
    return mp.mpf(first) + mp.mpf(float(x - first))


def _wide(x: mp.mpf) -> Any:
    first = float(x)
    return WIDE(first) + WIDE(float(x - first))
