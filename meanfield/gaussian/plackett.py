r"""Digits of the bivariate normal distribution: Plackett's integral over the correlation, along r = \tanh s.

    \Phi_2(h, k; \tanh s) = \Phi_2(h, k; r_0)
        + \frac{1}{\pi} \int_{s_0}^s \frac{e^{-a (1 + e^{2 t}) - b (1 + e^{-2 t})}}{e^t + e^{-t}} dt,  a = (h - k)^2/8, b = (h + k)^2/8,

from r_0 = 0 where r > 0, and from -1 where not: positive terms, and no root or pole on the way. Panels are as long as the integrand lets
Gauss's rule resolve them, and end where it is nothing beside its largest value.
"""

from __future__ import annotations

import math
from functools import lru_cache

import mpmath as mp

from meanfield.gaussian.arithmetic import Number, Numbers, numbers_for
from meanfield.gaussian.panels import gauss_legendre

__all__ = ["bivariate_normal"]

#: longest half of a panel, between poles at i pi/2 and -i pi/2, and most that the exponent varies over it
_HALF, _RATE = mp.mpf("0.75"), 12.0
#: numbers of nodes
_NODES = [*range(4, 40, 4), *range(40, 100, 10), *range(100, 1000, 50), *range(1000, 10**5, 1000)]


def bivariate_normal(h: mp.mpf, k: mp.mpf, r: mp.mpf) -> mp.mpf:
    """P(X < h, Y < k) for standard normals of correlation r, to the precision less a few bits, also in the tails."""
    if r >= 1:
        return mp.ncdf(min(h, k))
    base = mp.ncdf(h) * mp.ncdf(k) if r > 0 else _between(-max(h, k), min(h, k)) if h + k > 0 else mp.mpf(0)
    if r <= -1:
        return base
    return base + _integral((h - k) ** 2 / 8, (h + k) ** 2 / 8, mp.mpf(0) if r > 0 else None, mp.atanh(r))


def _between(low: mp.mpf, high: mp.mpf) -> mp.mpf:
    """P(low < X < high), low < 0: two tails, with the digits that are lost in their difference"""
    near = max(mp.mpf(1), abs(low)) * (high - low)
    with mp.workprec(mp.mp.prec + max(0, -mp.mag(near))):
        return mp.ncdf(high) - mp.ncdf(low)


def _integral(a: mp.mpf, b: mp.mpf, start: mp.mpf | None, end: mp.mpf) -> mp.mpf:
    """from `start`, None for -infinity, to `end`"""

    def exponent(t: mp.mpf) -> mp.mpf:
        square = mp.exp(2 * t)
        return -a * (1 + square) - b * (1 + 1 / square) - abs(t)

    peak = min(end, _peak(a, b)) if start is None else min(end, max(start, _peak(a, b)))
    bits = mp.mp.prec + max(0, mp.mag(exponent(peak)))
    nats, numbers = mp.mp.prec * mp.ln2 + 10, numbers_for()
    with numbers.precision(bits):
        top, total = exponent(peak), mp.mpf(0)
        for side, last in ((1, end), (-1, start)):
            near = peak
            while near != last and exponent(near) > top - nats:
                half, nodes = _half(a, b, near, side, last)
                total += _panel(a, b, near + side * half, half, top, nodes, numbers)
                near = last if last is not None and abs(last - near) <= 2 * half else near + 2 * side * half
        return mp.exp(top) * total / mp.pi


def _panel(a: mp.mpf, b: mp.mpf, middle: mp.mpf, half: mp.mpf, top: mp.mpf, nodes: int, numbers: Numbers) -> mp.mpf:
    """the integral of the integrand over e^top"""
    first, second, above = numbers.of(a), numbers.of(b), numbers.of(a + b + top)
    centre, length, total = numbers.of(middle), numbers.of(half), numbers.of(0)
    for t, w in _rule(nodes, -(-mp.mp.prec // 64) * 64, numbers):
        rise = numbers.exp(centre + length * t)
        fall = 1 / rise
        total += w * numbers.exp(-first * rise * rise - second * fall * fall - above) / (rise + fall)
    return half * numbers.middle(total)


@lru_cache(maxsize=64)
def _rule(nodes: int, bits: int, numbers: Numbers) -> list[tuple[Number, Number]]:
    with numbers.precision(bits):
        return [(numbers.of(t), numbers.of(w)) for t, w in gauss_legendre(nodes, bits)]


def _peak(a: mp.mpf, b: mp.mpf) -> mp.mpf:
    """where a e^{2 t} + b e^{-2 t} + |t|, which is convex, is least"""
    if a > b:
        return -_peak(b, a)
    return max(mp.mpf(0), mp.log(4 * b / (1 + mp.sqrt(1 + 16 * a * b))) / 2) if b else mp.mpf(0)


def _half(a: mp.mpf, b: mp.mpf, near: mp.mpf, side: int, last: mp.mpf | None) -> tuple[mp.mpf, int]:
    """Half of the panel that begins there and goes away from the peak, and how many nodes resolve it: the integrand falls the fastest at
    its other end. m nodes of e^{z t} on [-1, 1] err by (e z/4 m)^{2 m}, and beside a pole at i d by (d + sqrt(1 + d^2))^{-2 m}."""
    half = _HALF if last is None else min(_HALF, abs(last - near) / 2)
    while True:
        square = mp.exp(2 * (near + 2 * side * half))
        rate = float(2 * half * abs(a * square - b / square) + 4 * half**2 * (a * square + b / square)) + 1e-3
        if rate <= _RATE:
            break
        half /= 2
    away = float(mp.pi / 2 / half)
    for nodes in _NODES:
        seen = min(math.log2(4 * nodes / (math.e * rate)), math.log2(away + math.hypot(1.0, away)))
        if 2 * nodes * seen > mp.mp.prec + 10:
            break
    return half, nodes
