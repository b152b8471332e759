"""Gaussian expectations by Taylor series about 0, where the deviation is small."""

from __future__ import annotations

import math

import numpy as np

from meanfield.gaussian.shape_rows import TERMS

__all__ = ["QUIET", "exponents", "fill_column", "raised", "several", "series_derivatives", "series_mean", "series_size"]

QUIET = 0.05  # deviation, against the radius of the Taylor series, below which that is summed


def series_mean(q: float, right: np.ndarray, left: np.ndarray) -> float:
    r"""E f(u), u ~ N(0, q) from one-sided Taylor coefficients: \sum_n (r_n + (-1)^n l_n)/2 E|u|^n."""
    s = math.sqrt(q)
    total = 0.0
    even = 1.0
    odd = math.sqrt(2.0 / math.pi) * s
    for n in range(0, TERMS, 2):
        total += 0.5 * (right[n] + left[n]) * even + 0.5 * (right[n + 1] - left[n + 1]) * odd
        even *= (n + 1) * q
        odd *= (n + 2) * q
    return total


def series_size(q: float, right: np.ndarray, left: np.ndarray) -> float:
    r"""The sum of the sizes of these terms: what the series is good relative to, where they cancel."""
    first = np.empty(TERMS)
    second = np.empty(TERMS)
    sign = 1.0
    for n in range(TERMS):
        first[n] = 0.5 * abs(right[n] + sign * left[n])
        second[n] = sign * first[n]
        sign = -sign
    return series_mean(q, first, second)


def series_derivatives(q: float, c: np.ndarray, out: np.ndarray) -> None:
    r"""out[n] = E f^(n)(u)/\sqrt{n!} = \sum_k c_{n+2k} (n+2k)!/(2^k k!) q^k / \sqrt{n!}."""
    root = 1.0
    for n in range(TERMS):
        total = 0.0
        factor = 1.0
        for k in range((TERMS - n + 1) // 2):
            total += c[n + 2 * k] * factor
            factor *= (n + 2 * k + 1) * (n + 2 * k + 2) * q / (2.0 * (k + 1))
        out[n] = root * total
        root *= math.sqrt(n + 1.0)


def raised(z: float, k: float) -> float:
    """z^k for whole numbers k >= 0."""
    result = 1.0
    for _ in range(int(k)):
        result *= z
    return result


def exponents(code: float, first: np.ndarray, second: np.ndarray) -> None:
    r"""The digits of \sum_t (first_t + 16 second_t) 256^t."""
    for t in range(first.size):
        first[t] = code % 16.0
        code = (code - first[t]) / 16.0
        second[t] = code % 16.0
        code = (code - second[t]) / 16.0


def several(first: np.ndarray, second: np.ndarray) -> int:
    """How many factors with these exponents are not 1."""
    count = 0
    for t in range(first.size):
        count += 1 if first[t] + second[t] > 0.0 else 0
    return count


def fill_column(out: np.ndarray, g: int, stride: int, rows: int, value: float) -> None:
    """One value in column g of so many rows, which are `stride` long."""
    for r in range(rows):
        out[stride * r + g] = value
