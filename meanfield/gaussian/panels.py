r"""Gauss rules of any precision, and panels fine enough for a function: bisected until its Legendre coefficients die out.

Lengths are in standard deviations of a normal variable, accuracies in nats: an accuracy of a nats is a relative error e^{-a}.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from meanfield.gaussian.arithmetic import Number, Numbers

__all__ = ["Panel", "Unresolved", "degree", "gauss_hermite", "gauss_legendre", "hermite_rule", "legendre_rule", "resolved"]

Floats = NDArray[np.float64]

#: the length of a panel on which a standard normal density is resolved by `degree` nodes
CAP = 6.0
_PANELS = 20_000


class Unresolved(ArithmeticError):
    """No panel is short enough."""


@dataclass(frozen=True)
class Panel:
    """Nodes and weights between low and high, and the values of each function there."""

    low: Number
    high: Number
    nodes: list[Number]
    weights: list[Number]
    values: list[list[Number]]


@cache
def degree(nats: float) -> int:
    """Nodes that integrate a normal density over CAP standard deviations: min over ellipses of e^{b^2 r^2/2} (b + sqrt(1 + b^2))^{-2m}."""
    r, m = CAP / 2, 8
    while min(b * b * r * r / 2 - 2 * m * math.asinh(b) for b in np.linspace(0.5, 20, 200)) > -nats - 4:
        m += 4
    return m


def _recurrence(m: int, t: mp.mpf, hermite: bool) -> tuple[mp.mpf, mp.mpf]:
    """the orthogonal polynomials of degree m and m - 1 at t, in fixed point"""
    point = mp.mp.prec + 2 * m.bit_length()
    at = int(mp.ldexp(t, point))
    before, now = 1 << point, at
    for k in range(1, m):
        product = at * now >> point
        before, now = now, product - k * before if hermite else ((2 * k + 1) * product - k * before) // (k + 1)
    return mp.ldexp(mp.mpf(now), -point), mp.ldexp(mp.mpf(before), -point)


@cache
def _gauss(m: int, bits: int, hermite: bool) -> tuple[tuple[mp.mpf, mp.mpf], ...]:
    """the roots by Newton's method from float64, each step at twice the bits"""
    starts = np.polynomial.hermite_e.hermegauss(m)[0] if hermite else np.polynomial.legendre.leggauss(m)[0]
    rule = []
    for start in starts[m // 2 :]:
        t, good = mp.mpf(float(start)), 40
        while good < bits + 30:
            good = min(2 * good - 10, bits + 30)
            with mp.workprec(good + 20):
                now, before = _recurrence(m, t, hermite)
                t -= now / (m * before if hermite else m * (before - t * now) / (1 - t * t))
        with mp.workprec(bits + 30):
            _, before = _recurrence(m, t, hermite)
            w = mp.factorial(m - 1) / (m * before * before) if hermite else 2 * (1 - t * t) / (m * before) ** 2
        rule.append((t, w))
    return tuple([(-t, w) for t, w in reversed(rule) if t > 1e-9] + rule)


def gauss_legendre(m: int, bits: int) -> tuple[tuple[mp.mpf, mp.mpf], ...]:
    """m nodes and weights on [-1, 1]"""
    return _gauss(m, bits, False)


def gauss_hermite(m: int, bits: int) -> tuple[tuple[mp.mpf, mp.mpf], ...]:
    """m nodes and weights of a standard normal variable"""
    return _gauss(m, bits, True)


def legendre_rule(m: int) -> tuple[Floats, Floats]:
    """m nodes and weights on [-1, 1], each the nearest double: numpy is off by 7e-14 at the ends of 20."""
    return _rounded(gauss_legendre(m, 53))


def hermite_rule(m: int) -> tuple[Floats, Floats]:
    """m nodes and weights of a standard normal variable, each the nearest double"""
    return _rounded(gauss_hermite(m, 53))


def _rounded(rule: tuple[tuple[mp.mpf, mp.mpf], ...]) -> tuple[Floats, Floats]:
    nodes, weights = np.array(rule, dtype=float).T.copy()
    return nodes, weights


@cache
def _rule(m: int, bits: int, numbers: Numbers) -> tuple[list[Number], list[Number], list[list[Number]]]:
    """nodes, weights, and the functionals that give Legendre coefficients around degree m/2 and next to m"""
    rule = gauss_legendre(m, bits)
    with numbers.precision(bits):
        functionals: list[list[Number]] = []
        for k in (m // 2, m - 2):
            pairs = [_recurrence(k, t, False) for t, _ in rule]
            functionals += [[numbers.of((2 * k + 1) * w * now / 2) for (now, _), (_, w) in zip(pairs, rule, strict=True)]]
            functionals += [[numbers.of((2 * k - 1) * w * before / 2) for (_, before), (_, w) in zip(pairs, rule, strict=True)]]
        return [numbers.of(t) for t, _ in rule], [numbers.of(w) for _, w in rule], functionals


def panel(functions: Sequence[Callable[[Number], Number]], low: Number, high: Number, m: int, bits: int, numbers: Numbers) -> Panel:
    """A single panel."""
    t, w, _ = _rule(m, bits, numbers)
    half, centre = (high - low) / 2, (high + low) / 2
    nodes = [centre + half * a for a in t]
    return Panel(low, high, nodes, [half * a for a in w], [[f(node) for node in nodes] for f in functions])


def resolved(
    functions: Sequence[Callable[[Number], Number]],
    breaks: Sequence[mp.mpf],
    cap: mp.mpf,
    nats: float,
    numbers: Numbers,
    log_weight: Callable[[mp.mpf], float] = lambda t: 0.0,
) -> list[Panel]:
    """Panels no longer than cap between the breaks, on which all functions are resolved to e^{-nats} of the largest value.

    log_weight is the logarithm of a weight that falls away from 0: what counts is the function times the weight.
    """
    bits, m = mp.mp.prec, degree(nats)
    _, _, functionals = _rule(m, bits, numbers)
    todo: list[tuple[mp.mpf, mp.mpf]] = []
    for low, high in itertools.pairwise(breaks):
        pieces = max(1, int(mp.ceil((high - low) / cap)))
        if pieces > 1 and _is_nothing(panel(functions, numbers.of(low), numbers.of(high), m, bits, numbers), numbers):
            continue
        if len(todo) + pieces > _PANELS:
            raise Unresolved("too many panels")
        todo += [(low + (high - low) * i / pieces, low + (high - low) * (i + 1) / pieces) for i in range(pieces)]
    span = breaks[-1] - breaks[0]
    shortest = mp.ldexp(span, -bits)

    def tried(low: mp.mpf, high: mp.mpf) -> tuple[Panel, float, list[float]]:
        candidate = panel(functions, numbers.of(low), numbers.of(high), m, bits, numbers)
        weight = log_weight(mp.mpf(0) if low < 0 < high else min(abs(low), abs(high)))
        sizes = [weight + max(map(numbers.log_size, v[:: max(1, m // 8)])) for v in candidate.values]
        return candidate, weight, sizes

    first = [(low, high, *tried(low, high)) for low, high in todo]
    largest = [max(sizes) for sizes in zip(*(sizes for *_, sizes in first), strict=True)]
    done: list[Panel] = []
    stack, count = first[::-1], len(first)
    while stack:
        low, high, candidate, weight, sizes = stack.pop()
        largest = [max(a, b) for a, b in zip(largest, sizes, strict=True)]
        share = weight + math.log(float((high - low) / cap)) if high - low > mp.mpf(2) ** -1000 * cap else -math.inf
        if all(_dies_out(v, functionals, numbers, size - share - nats) for v, size in zip(candidate.values, largest, strict=True)):
            done.append(candidate)
            continue
        count += 2
        if count > _PANELS or high - low < shortest:
            raise Unresolved(f"the function is not smooth enough near {mp.nstr((low + high) / 2, 6)} standard deviations")
        middle = (low + high) / 2
        stack += [(a, b, *tried(a, b)) for a, b in ((middle, high), (low, middle))]
    return done


def _is_nothing(p: Panel, numbers: Numbers) -> bool:
    """whether the functions are exactly 0 at all nodes, as in a dead zone"""
    return all(numbers.log_size(value) == -math.inf for values in p.values for value in values)


def _dies_out(values: list[Number], functionals: list[list[Number]], numbers: Numbers, tolerance: float) -> bool:
    """whether the coefficients, extrapolated to twice the degree from their decay, lie below the tolerance"""
    sizes = [numbers.log_size(sum(map(_times, values, f), numbers.of(0))) for f in functionals]
    middle, last = max(sizes[:2]), max(sizes[2:])
    return last + min(0.0, 2 * (last - middle)) <= tolerance if last > -math.inf else True


def _times(a: Number, b: Number) -> Number:
    return a * b
