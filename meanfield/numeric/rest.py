"""What a repeat does to a state that stands still in doubles, to more digits than these have."""

from __future__ import annotations

from dataclasses import dataclass

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.numeric.digits import DIGITS, digits_of
from meanfield.recurrence import Recursion
from meanfield.symbols import known

__all__ = ["Rates", "precise_rates"]


@dataclass(frozen=True)
class Rates:
    """Of one repeat: the logarithm of the first entry of the row of the product, in a ratio that repeats keep, what is added to that of
    delta/q, and whether doubles hold the state of rest that the product is of."""

    log: float
    apart: float
    held: bool


def precise_rates(rec: Recursion, paired: bool, values: NDArray[np.float64], depth: int, state: tuple[float, float, float]) -> Rates:
    """The rates of the last repeat at q, delta and the ratio of the entries of the row; ArithmeticError where there are no such digits."""
    q, delta, ratio = map(sp.Rational, state)
    put = dict(zip(rec.parameters, map(sp.Rational, values.tolist()), strict=True))
    put |= {known("q"): q, known("p"): q - delta, known("L"): sp.Integer(depth), known("l"): sp.Integer(depth - 1)}

    def digits(e: sp.Expr) -> mp.mpf:
        return digits_of(e, {s: put[s] for s in e.free_symbols}, DIGITS)

    with mp.workdps(DIGITS):
        first = rec.transfer[0, 0]
        factor = digits(first)
        if paired and ratio:
            beside, mixed, second = (digits(rec.transfer[i, j]) for i, j in ((0, 1), (1, 0), (1, 1)))
            factor += mixed * _kept(factor, beside, mixed, second, mp.mpf(state[2]))
        after = digits(rec.q)
        held, apart = after == mp.mpf(state[0]), mp.mpf(0)
        if paired and delta:
            gap = after - digits(rec.p)
            apart = mp.log(gap / mp.mpf(state[1]) * mp.mpf(state[0]) / after)
        return Rates(float(mp.log(factor)), float(apart), held and (apart == 0 or not first.has(known("p"))))


def _kept(first: mp.mpf, beside: mp.mpf, mixed: mp.mpf, second: mp.mpf, ratio: mp.mpf) -> mp.mpf:
    """the ratio of the entries of a row that the matrix only scales, next to one that doubles know; that one where there is none"""
    half = (second - first) / 2
    square = half**2 + mixed * beside
    if mixed == 0 or square < 0:
        return ratio
    return min(((half + sign * mp.sqrt(square)) / mixed for sign in (1, -1)), key=lambda r: abs(r - ratio))
