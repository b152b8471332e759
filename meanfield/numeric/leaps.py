r"""Very deep recursions without a step for each repeat: y(n + 1) - y(n) = f(y(n)) collocated in \log n.

Once its transient is over, the state of a residual network is a smooth function of \log n. From n to r n it is a polynomial in \log n
through Chebyshev points, at which, but for the first, the difference equation holds (at the last point, so that what relaxes fast is
damped): y(n + 1) - y(n) = (e^{h D} - 1) y, h = \log(1 + 1/n), a series in the matrix D of the derivative that cancels nothing however
large n is. Its last coefficients say how smooth the state is, and the equation between the points whether that is what it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rough", "State", "leap_to"]

Floats = NDArray[np.float64]
#: (q, delta, ratio) -> what a repeat adds to these, to the log of the row, to the log of chi
Added = Callable[[float, float, float], tuple[float, float, float, float, float]]

POINTS = 24
#: from which depth to which: first, at most, at least
RATIO, LONGEST, SHORTEST = 3.0, 8.0, 1.03
#: relative to the state: last coefficients, and what is left of the equation between the points
SMOOTH, LEFT = 3e-14, 1e-11
#: Newton steps: with a new Jacobian, at most, and the size of the last
FRESH, NEWTON, SETTLED = 2, 10, 1e-13


class Rough(ArithmeticError):
    """The state is not smooth in the logarithm of depth."""


@dataclass(frozen=True)
class State:
    """After n repeats: q, delta, and of the row of the product of transfers the ratio of its entries and the log of the first; the sum
    of the logs of chi."""

    n: float
    q: float
    delta: float
    ratio: float
    log: float
    chi_log: float


def leap_to(added: Added, state: State, depth: float) -> State:
    """The state after `depth` repeats; Rough where it cannot be had to the accuracy of the rest."""
    ratio = RATIO
    while state.n < depth:
        left = depth / state.n
        last = left <= ratio
        try:
            state = _leap(added, state, left if last else min(ratio, math.sqrt(left)))
            ratio = min(ratio**1.3, LONGEST)
        except Rough:
            ratio = min(ratio, left) ** 0.5
            if ratio < min(SHORTEST, left):
                raise
            continue
        if last:
            return replace(state, n=depth)
    return state


def _leap(added: Added, state: State, ratio: float) -> State:
    start = np.array([state.q, state.delta, state.ratio])
    moving = [i for i in range(3) if start[i] != 0.0]
    s = 0.5 * (1.0 - np.cos(np.pi * np.arange(POINTS) / (POINTS - 1)))
    n = state.n * np.exp(s * math.log(ratio))
    difference = _difference(np.log1p(1.0 / n) / math.log(ratio))
    inverse = np.linalg.inv(difference[1:, 1:])

    def rates(y: Floats) -> Floats:
        found = np.array([added(float(q), float(delta), float(row)) for q, delta, row in y.T]).T
        if not np.isfinite(found).all():
            raise Rough("the recursion leaves the doubles")
        return found

    def full(z: Floats) -> Floats:
        y = np.repeat(start[:, None], POINTS, 1)
        y[moving, 1:] += z
        return y

    first = np.array(added(state.q, state.delta, state.ratio))[:3]
    power = np.where(start != 0.0, state.n * first / np.where(start != 0.0, start, 1.0), 0.0)
    z = (start[:, None] * np.expm1(power[:, None] * np.log(n / state.n)))[moving, 1:]
    jacobian, size = np.empty(0), math.inf
    for turn in range(NEWTON):
        y = full(z)
        f = rates(y)
        rest = z @ difference[1:, 1:].T - f[moving, 1:]
        if turn < FRESH:
            jacobian = _jacobian(rates, y, f, moving, difference)
        step = np.linalg.solve(jacobian, -rest.ravel()).reshape(z.shape)
        z = z + step
        before, size = size, float(np.abs(step / full(z)[moving, 1:]).max())
        if size < 1e-15 or (size < SETTLED and size > 0.3 * before):
            break
    if not size < SETTLED:
        raise Rough(f"Newton's method does not converge on a leap from {state.n:.3g}")
    y = full(z)
    f = rates(y)
    sums = f[3:, 1:] @ inverse.T
    grown = np.concatenate([np.zeros((2, 1)), sums], 1)
    scale = np.concatenate([np.abs(start[moving]), np.maximum(1.0, [abs(state.log), abs(state.chi_log)])])
    moved = y[moving] - start[moving, None]
    _check_coefficients(np.concatenate([moved, grown]) / scale[:, None], state.n)
    _check_between(moved, moving, rates, y, state.n, ratio)
    q, delta, row = map(float, y[:, -1])
    return State(state.n * ratio, q, delta, row, state.log + float(sums[0, -1]), state.chi_log + float(sums[1, -1]))


def _jacobian(rates: Callable[[Floats], Floats], y: Floats, f: Floats, moving: list[int], difference: Floats) -> Floats:
    size, k = len(moving), POINTS - 1
    matrix = np.asarray(np.kron(np.eye(size), difference[1:, 1:]), dtype=np.float64)
    at = np.arange(k)
    for column, j in enumerate(moving):
        nudged = y.copy()
        nudged[j] *= 1.0 + 1e-7
        with np.errstate(all="ignore"):
            slopes = (rates(nudged) - f)[:3] / (nudged[j] - y[j])
        if not np.isfinite(slopes).all():
            raise Rough("the recursion leaves the doubles")
        for row, i in enumerate(moving):
            matrix[row * k + at, column * k + at] -= slopes[i, 1:]
    return matrix


def _check_coefficients(z: Floats, start: float) -> None:
    coefficients = np.abs(np.fft.rfft(np.concatenate([z, z[:, -2:0:-1]], 1), axis=1)) / (POINTS - 1)
    last = float(coefficients[:, -3:].max())
    if not last <= SMOOTH:
        raise Rough(f"the last coefficients of a leap from {start:.3g} are {last:.1e} of the state")


def _check_between(z: Floats, moving: list[int], rates: Callable[[Floats], Floats], y: Floats, start: float, ratio: float) -> None:
    """the equation between the points"""
    t = np.array([0.37, 0.71])
    weights = _between(t)
    at = start * np.exp(t * math.log(ratio))
    there = y @ weights.T
    found = (_powers(np.log1p(1.0 / at) / math.log(ratio), weights) @ z.T).T
    wrong = float((np.abs(found - rates(there)[moving]) * at / np.abs(there[moving])).max())
    if not wrong <= LEFT:
        raise Rough(f"the equation is off by {wrong:.1e} between the points of a leap from {start:.3g}")


@lru_cache(maxsize=1)
def _points() -> Floats:
    return np.asarray(0.5 * (1.0 - np.cos(np.pi * np.arange(POINTS) / (POINTS - 1))))


@lru_cache(maxsize=1)
def _derivatives() -> tuple[Floats, ...]:
    """powers of the matrix of the derivative at the points of [0, 1], whose rows sum to 0"""
    s, w = _points(), _barycentric()
    apart = s[:, None] - s[None, :] + np.eye(POINTS)
    D = w[None, :] / w[:, None] / apart
    np.fill_diagonal(D, 0.0)
    np.fill_diagonal(D, -D.sum(1))
    powers = [D]
    for _ in range(POINTS - 2):
        following = powers[-1] @ D
        powers.append(following - np.diag(following.sum(1)))
    return tuple(powers)


def _barycentric() -> Floats:
    w = (-1.0) ** np.arange(POINTS)
    w[[0, -1]] /= 2.0
    return np.asarray(w)


def _between(t: Floats) -> Floats:
    """interpolation from the points to others"""
    quotients = _barycentric() / (t[:, None] - _points()[None, :])
    return np.asarray(quotients / quotients.sum(1, keepdims=True))


def _powers(h: Floats, rows: Floats) -> Floats:
    """e^{h D} - 1 in those rows, h[i] in row i"""
    total, factor = np.zeros_like(rows), np.ones_like(h)
    for m, D in enumerate(_derivatives(), 1):
        factor = factor * h / m
        term = factor[:, None] * (rows @ D)
        total += term
        if np.abs(term).max() < 1e-17 * np.abs(total).max():
            break
    return total


def _difference(h: Floats) -> Floats:
    return _powers(h, np.eye(POINTS))
