r"""Gaussian expectations to any number of digits, in mpmath: the rules of `quadrature` with the step chosen for the precision.

Every value is computed twice, with 40 nats more accuracy asked the second time, and returned only if the two agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import mpmath as mp

__all__ = ["mean_of", "pair_mean_of"]

Function = Callable[..., mp.mpf]


class Shape(Protocol):
    """What the rules look at."""

    kinks: tuple[float, ...]
    d: float


@dataclass(frozen=True)
class _Outer:
    kinks: tuple[float, ...]
    d: float


def _step(nats: float, r: float) -> float:
    r"""The widest step of the sinh-trapezoid: error exp(-max_eta [2 pi eta/h - (r^2/2) sin^2 eta/cos 2 eta])."""
    best = 0.0
    for i in range(1, 40):
        eta = float(mp.pi) / 4 * i / 40
        loss = r * r / 2 * float(mp.sin(eta)) ** 2 / float(mp.cos(2 * eta))
        best = max(best, 2 * float(mp.pi) * eta / (nats + loss))
    return best


def _smooth_nodes(mu: mp.mpf, s: mp.mpf, d: float, nats: float) -> Iterator[tuple[mp.mpf, mp.mpf]]:
    reach = mp.sqrt(2 * nats)
    b = float(mp.mpf(0.8 * d) / s) if s < 1e300 else 0.0
    norm = 1 / mp.sqrt(2 * mp.pi)
    if b >= 1 or abs(mu) > reach * s + 4 * d:
        narrow = 2 * float(mp.pi) / float(mp.sqrt(2 * nats))
        h = narrow if b > 12 or abs(mu) > reach * s + 4 * d else min(narrow, 2 * float(mp.pi) * b / (nats + b * b / 2))
        h = mp.mpf(h)
        m = int(reach / h) + 1
        for j in range(-m, m + 1):
            xi = h * j
            yield mu + s * xi, h * norm * mp.exp(-xi * xi / 2)
        return
    scale = mp.mpf(0.9 * d)
    h = mp.mpf(min(_step(nats, float(abs(mu) / s)), 0.8 * 2 * float(mp.pi) / float(mp.sqrt(2 * nats)) * float(s / scale)))
    first = int(mp.floor(mp.asinh((mu - reach * s) / scale) / h))
    last = int(mp.ceil(mp.asinh((mu + reach * s) / scale) / h))
    for j in range(first, last + 1):
        e = mp.exp(h * j)
        node = scale * (e - 1 / e) / 2
        z = (node - mu) / s
        yield node, h * scale * norm / s * (e + 1 / e) / 2 * mp.exp(-z * z / 2)


@cache
def _legendre(degree: int, precision: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """3 * 2^(degree - 1) nodes and weights on [-1, 1]"""
    return list(mp.calculus.quadrature.GaussLegendre(mp.mp).calc_nodes(degree, precision))


def _kinked_nodes(mu: mp.mpf, s: mp.mpf, shape: Shape, nats: float) -> Iterator[tuple[mp.mpf, mp.mpf]]:
    reach = s * mp.sqrt(2 * nats)
    ends = [mu - reach, *(mp.mpf(k) for k in shape.kinks if mu - reach < k < mu + reach), mu + reach]
    cuts = set(ends)
    for k in ends[1:-1]:  # graded away from each kink
        for direction in (1, -1):
            length, point = 2 * mp.mpf(shape.d), k
            while length < 2 * reach and abs(point - mu) < reach:
                point += direction * length
                cuts.add(point)
                length *= 3
    inside = sorted(c for c in cuts if mu - reach <= c <= mu + reach)
    rule = _legendre(5 if nats < 75 else 6 if nats < 160 else 7, mp.mp.prec)
    norm = 1 / (s * mp.sqrt(2 * mp.pi))
    for low, high in itertools.pairwise(inside):
        count = int(mp.ceil((high - low) / (3 * s)))
        half = (high - low) / (2 * count)
        for i in range(count):
            centre = low + (2 * i + 1) * half
            for t, w in rule:
                node = centre + half * t
                yield node, half * w * norm * mp.exp(-(((node - mu) / s) ** 2) / 2)


def _mean(f: Function, mu: mp.mpf, s: mp.mpf, shape: Shape, nats: float) -> mp.mpf:
    nodes = _kinked_nodes(mu, s, shape, nats) if shape.kinks else _smooth_nodes(mu, s, shape.d, nats)
    return mp.fsum(w * f(node) for node, w in nodes)


def _certified(value: Callable[[float], mp.mpf], size: Callable[[float], mp.mpf]) -> mp.mpf:
    """The value at two accuracies; the first must agree with the second to the asked precision, relative to E |f|."""
    precision = mp.mp.prec
    bits = precision
    for _ in range(4):
        bits += 20
        with mp.workprec(bits + 20):
            nats = float(bits * mp.log(2))
            rough, fine = value(nats), value(nats + 40)
            if abs(rough - fine) <= mp.mpf(2) ** (-precision - 4) * max(abs(fine), mp.mpf(2) ** -precision * size(20.0)):
                return fine
        bits += precision // 2
    raise ArithmeticError(f"the expectation did not settle at {mp.mp.dps} digits: its integrand has features the rule does not see")


def mean_of(f: Function, mu: mp.mpf, variance: mp.mpf, shape: Shape) -> mp.mpf:
    """E f(u), u ~ N(mu, variance), at the current mpmath precision."""
    return _certified(
        lambda nats: _mean(f, mu, mp.sqrt(variance), shape, nats),
        lambda nats: _mean(lambda t: abs(f(t)), mu, mp.sqrt(variance), shape, nats),
    )


def pair_mean_of(f: Function, means: tuple[mp.mpf, mp.mpf], v1: mp.mpf, cov: mp.mpf, v2: mp.mpf, shapes: tuple[Shape, Shape]) -> mp.mpf:
    """E f(u, v) for variances v1, v2 and covariance cov and the given means."""
    mu, other = means
    slope = cov / v1
    rest = v2 - cov * slope
    stretch = float(1 / abs(slope)) if slope else 1e3

    def nested(g: Function, nats: float) -> mp.mpf:
        outer = _Outer(
            tuple(sorted({*shapes[0].kinks, *(float(mu + (k - other) / slope) for k in shapes[1].kinks if slope)})),
            min(shapes[0].d, shapes[1].d * stretch),
        )
        if rest <= 0:
            return _mean(lambda u: g(u, other + slope * (u - mu)), mu, mp.sqrt(v1), outer, nats)
        inner = lambda u: _mean(lambda v: g(u, v), other + slope * (u - mu), mp.sqrt(rest), shapes[1], nats)  # noqa: E731
        return _mean(inner, mu, mp.sqrt(v1), outer, nats)

    return _certified(lambda nats: nested(f, nats), lambda nats: nested(lambda u, v: abs(f(u, v)), nats))
