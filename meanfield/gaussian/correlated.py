"""E f(u) g(v) to any number of digits, away from correlation 1: the trapezoidal rule in what u and v share."""

from __future__ import annotations

import math

import mpmath as mp

from meanfield.gaussian.arithmetic import Function, Number, Numbers
from meanfield.gaussian.landmarks import Landmarks
from meanfield.gaussian.lines import Line, breaks_between, extent_of, fall, normal_density
from meanfield.gaussian.panels import CAP, resolved
from meanfield.gaussian.tails import mean_of_tails

__all__ = ["mean_of_pair"]


def mean_of_pair(first: Line, second: Line, eps: mp.mpf, nats: float, numbers: Numbers) -> Number:
    r"""E f(u) g(v): x on equidistant points, where the normal density of y around sqrt(r) x is a power of the step.

    Whatever f is, |E_xi f(t + i eta)| <= e^{eta^2 / (2 eps)} E |f|: the trapezoidal rule in x errs by exp(-2 pi^2 / (h^2 g)),
    g = (1 + r)/(1 - r).
    """
    r = 1 - eps
    functions = [line.function(numbers) for line in dict.fromkeys((first, _unsigned(second, first)))]
    lines = list(dict.fromkeys((first, _unsigned(second, first))))
    marks = [line.marks(mp.mpf(4 * nats) ** 0.5 * 2) for line in lines]
    start, reach = extent_of(functions, marks, 2, nats, numbers)
    if start:
        return mean_of_tails(first, second, eps, nats, numbers)
    h = 2 * mp.pi / mp.sqrt(2 * (nats + 4) * (1 + r) / eps)
    h = reach / int(mp.ceil(reach / h))
    count = int(reach / h + 1)
    means = [_smoothed(f, m, eps, h, count, reach, nats, numbers) for f, m in zip(functions, marks, strict=True)]
    g = means[-1] if _unsigned(second, first) == second else means[-1][::-1]
    density, step, total = normal_density(numbers, numbers.of(1)), numbers.of(h), numbers.of(0)
    for i in range(-count, count + 1):
        total += density(step * i) * means[0][i + count] * g[i + count]
    return step * total


def _unsigned(line: Line, like: Line) -> Line:
    """the line or its mirror image, whichever is the other line"""
    return like if line.mirrored() == like else line


def _smoothed(
    f: Function, marks: Landmarks, eps: mp.mpf, h: mp.mpf, count: int, reach: mp.mpf, nats: float, numbers: Numbers
) -> list[Number]:
    """E_xi f(sqrt(r) x + sqrt(eps) xi) at x = h i, i = -count ... count"""
    a, s = mp.sqrt(1 - eps), mp.sqrt(eps)
    ah, variance = numbers.of(a * h), numbers.of(eps)
    window, per_step = float(reach * s), float(a * h)
    bound = (a + s) * reach
    sums = [numbers.of(0)] * (2 * count + 1)
    for p in resolved([f], breaks_between([marks], -bound, bound), min(CAP * s, mp.mpf(CAP)), nats, numbers, fall):
        for t, w, value in zip(p.nodes, p.weights, p.values[0], strict=True):
            where = float(numbers.middle(t))
            low = max(-count, math.ceil((where - window) / per_step)) if per_step else -count
            high = min(count, math.floor((where + window) / per_step)) if per_step else count
            if low > high:
                continue
            term = w * value * numbers.exp((low * ah - t / 2) * t / variance)
            ratio = numbers.exp(ah * t / variance)
            for i in range(low + count, high + count + 1):
                sums[i] += term
                term *= ratio
    norm = 1 / numbers.table["sqrt"](2 * numbers.of(mp.pi) * variance)
    return [norm * total * numbers.exp(-((ah * (i - count)) ** 2) / (2 * variance)) for i, total in enumerate(sums)]
