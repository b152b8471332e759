"""What takes the place of functions of `lookup` in plain Python, where a loop over numbers costs more than calls of numpy."""

from __future__ import annotations

import math

import numpy as np

from meanfield.numeric.lookup import FIRST, HIGH, LOW, X_TERMS, Y_TERMS

__all__ = ["AT_ONCE"]

_ORDERS = np.arange(max(X_TERMS, Y_TERMS), dtype=np.float64)


def locate_at_once(_: np.ndarray, v: float, scratch: np.ndarray) -> None:
    """The panel of a variance, found from its exponent."""
    scratch[:2] = v, 0.0
    if 0.0 < v < LOW:
        scratch[1] = 1
        fill_at_once(scratch[2 : X_TERMS + 2], 2.0 * math.sqrt(v / LOW) - 1.0)
    elif LOW <= v <= HIGH:
        k = math.frexp(v)[1] // 2
        scratch[1] = 1 - FIRST + k
        fill_at_once(scratch[2 : X_TERMS + 2], 3.0 * ((v - 4.0**k) / (v + 4.0**k)))


def fill_at_once(polynomials: np.ndarray, t: float) -> None:
    polynomials[:] = _polynomials(t)[:X_TERMS]


def dot_at_once(coefficients: np.ndarray, polynomials: np.ndarray) -> float:
    return float(coefficients.dot(polynomials))


def summed_at_once(table: np.ndarray, at: int, polynomials: np.ndarray, row: np.ndarray) -> None:
    row[:] = polynomials.dot(table[at : at + X_TERMS * Y_TERMS].reshape(X_TERMS, Y_TERMS))


def series_at_once(coefficients: np.ndarray, t: float) -> float:
    return float(coefficients.dot(_polynomials(t)))


def weight_at_once(coefficients: np.ndarray) -> float:
    return float(np.abs(coefficients).sum())


def _polynomials(x: float) -> np.ndarray:
    return np.cos(math.acos(max(-1.0, min(1.0, x))) * _ORDERS)


#: by the name of what each is in place of
AT_ONCE = {
    "locate": locate_at_once,
    "fill": fill_at_once,
    "dot": dot_at_once,
    "summed": summed_at_once,
    "series": series_at_once,
    "series_in_fours": series_at_once,
    "weight": weight_at_once,
}
