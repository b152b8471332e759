"""Where a function on a grid vanishes: its zeros on the edges of the grid, refined there, and joined to curves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ZERO", "Steep", "zero_curves"]

Floats = NDArray[np.float64]
#: both ends of an edge and the values there
_Edge = tuple[tuple[float, float], tuple[float, float], float, float]
#: of an edge: along which axis, and from which node
_Place = tuple[int, int, int]
Function = Callable[[Floats, Floats], Floats]

#: steps of the refinement along an edge, and the value that is 0
STEPS, ZERO = 20, 1e-14
#: where more than this is left, the function jumps and has no zero
JUMP = 1e-6
#: how far from a zero, in lengths of the edge, it is looked at whether the function jumps there
BESIDE = 1e-8


@dataclass(frozen=True)
class Steep:
    """A function that crosses zero where another one only leaves it as a power of the distance, and its values on the grid: nan where it
    does not tell."""

    value: Floats
    f: Function


def zero_curves(x: Floats, y: Floats, value: Floats, f: Function, steep: Steep) -> tuple[Floats, ...]:
    """Curves (points, 2) on which f is zero; `value` is f on the grid, shape (len(x), len(y)). Where `steep` changes its sign with f, and f
    does not jump there, its zero is taken."""
    crossings: dict[_Place, _Edge] = {}
    for axis, (di, dj) in enumerate(((1, 0), (0, 1))):
        a, b = value[: len(x) - di, : len(y) - dj], value[di:, dj:]
        for i, j in np.argwhere((a < 0) != (b < 0)):
            if np.isfinite(a[i, j]) and np.isfinite(b[i, j]):
                crossings[axis, int(i), int(j)] = ((x[i], y[j]), (x[i + di], y[j + dj]), a[i, j], b[i, j])
    points = _steep_zeros(crossings, f, steep)
    rest = {e: edge for e, edge in crossings.items() if e not in points}
    if rest:
        found, left = _refined(rest.values(), f)
        points |= {e: point for e, point, size in zip(rest, found, left, strict=True) if size < JUMP}
    if not points:
        return ()
    links: dict[_Place, list[_Place]] = defaultdict(list)
    for i in range(len(x) - 1):
        for j in range(len(y) - 1):
            around = [e for e in ((0, i, j), (1, i + 1, j), (0, i, j + 1), (1, i, j)) if e in points]
            for first, second in zip(around[::2], around[1::2], strict=False):
                links[first].append(second)
                links[second].append(first)
    return tuple(np.array([points[e] for e in chain]) for chain in _chains(links))


def _steep_zeros(crossings: Mapping[_Place, _Edge], f: Function, steep: Steep) -> dict[_Place, Floats]:
    """the zeros on edges along which the steep function crosses zero, or begins there, and f is continuous"""
    edges: dict[_Place, _Edge] = {}
    for (axis, i, j), (low, high, *_) in crossings.items():
        a, b = steep.value[i, j], steep.value[(i + 1, j) if axis == 0 else (i, j + 1)]
        if np.isfinite([a, b]).all() and (a * b < 0 or min(abs(a), abs(b)) < ZERO):
            edges[axis, i, j] = (low, high, a, b)
    if not edges:
        return {}
    found, _ = _refined(edges.values(), steep.f)
    begin, end = (np.array([edge[k] for edge in edges.values()]) for k in (0, 1))
    beside = [np.clip(found + side * BESIDE * (end - begin), begin, end) for side in (-1, 1)]
    left = np.max([np.abs(f(at[:, 0], at[:, 1])) for at in beside], axis=0)
    return {e: point for e, point, size in zip(edges, found, left, strict=True) if size < JUMP}


def _refined(crossings: Iterable[_Edge], f: Callable[[Floats, Floats], Floats]) -> tuple[Floats, Floats]:
    """the zeros on edges, and what is left of the function there, by regula falsi (Illinois), all together"""
    rows = list(crossings)
    a, b = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    fa, fb = np.array([r[2] for r in rows]), np.array([r[3] for r in rows])
    low, high, side = np.zeros(len(rows)), np.ones(len(rows)), np.zeros(len(rows))
    best, least = low, np.full(len(rows), np.inf)
    for _ in range(STEPS):
        t = (low * fb - high * fa) / (fb - fa)
        at = a + t[:, None] * (b - a)
        value = f(at[:, 0], at[:, 1])
        closer = np.abs(value) < least
        best, least = np.where(closer, t, best), np.where(closer, np.abs(value), least)
        if (least < ZERO).all():
            break
        near = (value < 0) == (fa < 0)  # the new point takes the place of the low end
        fa, fb = (
            np.where(near, value, np.where(side < 0, fa / 2, fa)),
            np.where(near, np.where(side > 0, fb / 2, fb), value),
        )
        low, high, side = np.where(near, t, low), np.where(near, high, t), np.where(near, 1.0, -1.0)
    return a + best[:, None] * (b - a), least


def _chains(links: dict[_Place, list[_Place]]) -> list[list[_Place]]:
    """walks through the links, open ones first"""
    left = {edge: list(ends) for edge, ends in links.items()}
    chains = []
    for start in sorted(left, key=lambda e: (len(left[e]) != 1, e)):
        if not left[start]:
            continue
        chain = [start]
        while left[chain[-1]]:
            here = chain[-1]
            there = left[here].pop()
            left[there].remove(here)
            chain.append(there)
        chains.append(chain)
    return chains
