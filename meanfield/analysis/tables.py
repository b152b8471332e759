r"""Expectations as tables, for very many settings at once: piecewise Chebyshev interpolation in ln q, for two inputs also in sqrt(1 - c).

Both are the variables in which moments of activations are smooth, also where phi has kinks: gap/delta and E f(u) g(v) are series in
sqrt(1 - c) there, and gap/sqrt(q delta) is where phi jumps. Panels of a factor 4 in q are made when they are first needed; in sqrt(1 - c)
they are halved until the last coefficients are negligible, near c = 1 where q is large. Values of many decades are kept as logarithms.

`numeric/tabulation.py`, which runs over depth read from, holds what is as exact at both ends of a panel, with a bound; here anything is
tabulated that can be evaluated: products of different functions, moments that span many decades. Gaps are taken from there where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial

import numpy as np
import sympy as sp
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from meanfield.analysis.maps import values_of
from meanfield.fingerprint import fingerprint, makers
from meanfield.gaussian.pair_expectation import Gap
from meanfield.gaussian.slopes import slope
from meanfield.keeping import keep, kept
from meanfield.numeric.asked import Asked
from meanfield.numeric.bulk import together
from meanfield.numeric.evaluation import evaluate
from meanfield.symbols import known

__all__ = ["BY_DIFFERENCE", "BY_VARIANCE", "Table", "table_of"]

Floats = NDArray[np.float64]
q, delta, x, y = known("q"), known("delta"), known("x"), known("y")

#: width of a panel in ln q, points on it
WIDTH, POINTS = float(np.log(4.0)), 24
#: ratio of values on a panel beyond which their logarithm is interpolated
STEEP = 1e3
#: points in sqrt(1 - c) at most; at how many places of the other variable it is seen how many of a variable are needed
ACROSS, FEW = 40, 3
#: relative error of moments under all laws together
TOGETHER = 3e-14
#: how many coefficients are the last; their size at which points are enough, and at which it is rounding that keeps them up
LAST, NEGLIGIBLE, NOISE = 3, 1e-13, 1e-11
#: what the name of a table ends in where its derivative is meant
BY_VARIANCE, BY_DIFFERENCE = "_v", "_d"
#: the narrowest part in sqrt(1 - c)
NARROWEST = 2.0**-40


def _angles(n: int) -> Floats:
    return np.asarray(np.cos(np.pi * (np.arange(n) + 0.5) / n))


def _coefficients(values: Floats) -> Floats:
    """of the interpolant through values at Chebyshev points along the first axis"""
    n = values.shape[0]
    k = np.arange(n)
    transform = np.cos(np.pi * np.outer(k, np.arange(n) + 0.5) / n) * (2 / n)
    transform[0] /= 2
    return np.asarray(np.tensordot(transform, values, 1))


def _variances(i: int, n: int = POINTS) -> Floats:
    return np.ldexp(np.exp(WIDTH * (_angles(n) + 1) / 2), 2 * i)


def _tail(coefficients: Floats) -> float:
    """the last coefficients along the second axis beside the largest"""
    size = np.abs(coefficients).max()
    return float(np.abs(coefficients[:, -LAST:]).max() / size) if size else 0.0


def _needed(coefficients: Floats) -> int:
    """how many coefficients along the second axis there are to the last that is negligible"""
    sizes = np.abs(coefficients).max(0)
    counted = np.flatnonzero(~(sizes < NEGLIGIBLE * sizes.max()))
    return min(int(counted[-1]) + 1 + LAST, sizes.size) if counted.size else LAST


def _is_steep(values: Floats) -> bool:
    return bool(np.isfinite(values).all() and values.min() > 0 and values.max() > STEEP * values.min())


@dataclass(frozen=True, eq=False)
class Part:
    """Coefficients over a panel of variances and between two values of y, of logarithms where values span many decades."""

    coefficients: Floats
    steep: bool

    @classmethod
    def read(cls, content: bytes) -> Part | None:
        if not content:
            return None
        rows, steep, *numbers = np.frombuffer(content)
        return cls(np.array(numbers).reshape(int(rows), -1), bool(steep))

    def written(self) -> bytes:
        return np.append([self.coefficients.shape[0], self.steep], self.coefficients).tobytes()


@dataclass(frozen=True, eq=False)
class Table:
    """E g(u) over variances; or a gap, or E f(u) g(v), over variances and differences up to them; or at one variance, over differences."""

    node: sp.Expr
    panels: dict[int, Part | None] = field(default_factory=dict)  # None: infinite
    parts: dict[tuple[int, float, float], Part | None] = field(default_factory=dict)  # None: halved
    slopes: dict[tuple[int, float, float], tuple[Floats, Floats]] = field(default_factory=dict)

    def __call__(self, v: Floats, d: Floats | None = None) -> Floats:
        if d is None:
            return self._means(v, sloped=False)[0]
        return self._products(v, d, sloped=False)[0] * self._weight(v, d)

    def by_variance(self, v: Floats, d: Floats | None = None) -> Floats:
        """The derivative in v, at fixed d."""
        if d is None:
            return self._means(v)[1] / v
        value, along, across = self._products(v, d)
        return (along - across / 2 + self._powers[0] * value) * self._weight(v, d) / v

    def by_difference(self, v: Floats, d: Floats) -> Floats:
        """The derivative in d, at fixed v."""
        value, _, across = self._products(v, d)
        with np.errstate(divide="ignore"):
            return (across / 2 + self._powers[1] * value) * (self._weight(v, d) / d)

    @cached_property
    def _powers(self) -> tuple[float, float]:
        """those of the variance and of the difference with which what is tabulated is multiplied"""
        if not isinstance(self.node, Gap):
            return 0.0, 0.0
        return (0.5, 0.5) if slope(self.node.integrand).has(sp.DiracDelta) else (0.0, 1.0)

    def _weight(self, v: Floats, d: Floats) -> Floats:
        of_variance, of_difference = self._powers
        return np.asarray(v**of_variance * d**of_difference)

    def _means(self, v: Floats, sloped: bool = True) -> tuple[Floats, Floats]:
        """E g(u) and its derivative in ln v; behind a norm the variance is one number"""
        v = np.atleast_1d(np.asarray(v, dtype=np.float64))
        out, slope = np.full(np.shape(v), np.nan), np.full(np.shape(v), np.nan)
        for i, here, place in _places(v):
            panel = self._panel(i)
            if panel is None:
                out[here] = slope[here] = np.inf
                continue
            terms, coefficients = _polynomials(place, POINTS), panel.coefficients[:, 0]
            out[here] = np.exp(terms @ coefficients) if panel.steep else terms @ coefficients
            if sloped:
                slope[here] = terms[:, :-1] @ chebyshev.chebder(coefficients, scl=2 / WIDTH) * (out[here] if panel.steep else 1.0)
        return out, slope

    def _panel(self, i: int) -> Part | None:
        if i not in self.panels:
            self.panels[i] = self._once("means", f"{POINTS}", f"{i}", partial(self._means_made, i))
        return self.panels[i]

    def _means_made(self, i: int) -> Part | None:
        """means on a panel, None where one is infinite"""
        values = self._values(0.0, q=_variances(i))
        steep = _is_steep(values)
        if steep:
            values = np.log(values)
        elif values.min() >= 0 and values.max() > 0 and (values < np.finfo(float).tiny).any():  # it fades here into what is no double
            faint = values < np.finfo(float).tiny
            logs = [float(evaluate(self.node, digits=17, log=True, q=v)) for v in _variances(i)[faint].tolist()]
            steep, values[~faint], values[faint] = True, np.log(values[~faint]), logs
        return Part(_coefficients(values)[:, None], steep) if np.isfinite(values).all() else None

    def _values(self, scale: float, **law: Floats) -> Floats:
        """moments under each law, of all of them together where these are as exact"""
        order = tuple(sorted(self.node.free_symbols, key=lambda s: s.name))
        values, bound = together(Asked(self.node, order), np.array([law[s.name] for s in order]))
        left = ~(bound <= TOGETHER * np.abs(values))
        if left.any():
            values[left] = values_of((self.node,), {name: v[left] for name, v in law.items()}, scale)[0][0]
        return values

    def _once(self, kind: str, sizes: str, place: str, make: Callable[[], Part | None]) -> Part | None:
        """what is made of this node in that place, once for all processes"""
        name = f"{kind}_{fingerprint(f'{makers()} {sizes} {sp.srepr(self.node)} {place}')}"
        if (found := kept(name)) is not None:
            return Part.read(found)
        part = make()
        keep(name, b"" if part is None else part.written())
        return part

    def _products(self, v: Floats, d: Floats, sloped: bool = True) -> tuple[Floats, Floats, Floats]:
        """what is tabulated, and its derivatives in ln v and in ln y, y = sqrt(1 - c)"""
        v, d = np.broadcast_arrays(*(np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (v, d)))
        out = np.full((3, *v.shape), np.nan)
        root = np.sqrt(np.clip(d / v, 0, 1))
        for i, here, place in _places(v):
            terms = _polynomials(place, POINTS)
            for low, high, own in self._intervals(i, root[here]):
                part, y = self.parts[i, low, high], root[here[own]]
                assert part is not None
                across = _polynomials(2 * (y - low) / (high - low) - 1, part.coefficients.shape[1])
                rows = terms[own, : part.coefficients.shape[0]] @ part.coefficients
                value = np.einsum("pi,pi->p", rows, across)
                out[0, here[own]] = np.exp(value) if part.steep else value
                if not sloped:
                    continue
                by_v, by_y = self._slopes((i, low, high), part.coefficients)
                scale = out[0, here[own]] if part.steep else 1.0
                out[1, here[own]] = scale * np.einsum("pi,pi->p", terms[own, : by_v.shape[0]] @ by_v, across)
                out[2, here[own]] = scale * y * np.einsum("pi,pi->p", terms[own, : by_y.shape[0]] @ by_y, across[:, : by_y.shape[1]])
        return out[0], out[1], out[2]

    def _slopes(self, key: tuple[int, float, float], part: Floats) -> tuple[Floats, Floats]:
        """the coefficients of the derivatives of a part in ln v and in y"""
        if key not in self.slopes:
            across = 2 / (key[2] - key[1])
            by_v, by_y = chebyshev.chebder(part, scl=2 / WIDTH), chebyshev.chebder(part, scl=across, axis=1)
            self.slopes[key] = np.asarray(by_v), np.asarray(by_y)
        return self.slopes[key]

    def _intervals(self, i: int, root: Floats) -> list[tuple[float, float, NDArray[np.int64]]]:
        """intervals of y with what lies in each, halved as long as the table is not resolved"""
        narrowest = min(1.0, 2.0 ** -np.floor(WIDTH * i / (2 * np.log(2.0)) - 1))  # of functions that vary on a scale of 1
        edges = [0.0, *(float(narrowest) * 2.0**k for k in range(round(-np.log2(narrowest)) + 1))]
        which = np.clip(np.searchsorted(edges, root, side="right") - 1, 0, len(edges) - 2)
        left, found = [(edges[k], edges[k + 1], np.flatnonzero(which == k)) for k in np.unique(which)], []
        while left:
            low, high, own = left.pop()
            if (i, low, high) not in self.parts:
                self.parts[i, low, high] = self._part(i, low, high)
            if self.parts[i, low, high] is not None:
                found.append((low, high, own))
                continue
            middle = (low + high) / 2
            below = root[own] < middle
            left += [(a, b, own[side]) for a, b, side in ((low, middle, below), (middle, high, ~below)) if side.any()]
        return found

    def _part(self, i: int, low: float, high: float) -> Part | None:
        return self._once("table", f"{POINTS} {ACROSS}", f"{i} {low!r} {high!r}", partial(self._made, i, low, high))

    def _made(self, i: int, low: float, high: float) -> Part | None:
        """what is tabulated between two values of y; infinite where it is; None if there are too few coefficients"""
        alike = q not in self.node.free_symbols  # it is at variance 1
        values = self._at(i, 1 if alike else FEW, low, high, ACROSS)
        steep = _is_steep(values)
        shown = np.log if steep else np.asarray
        seen = _coefficients(shown(values).T).T
        if _tail(seen) >= NOISE and high - low > NARROWEST:
            return None
        along = 1 if alike else _needed(_coefficients(shown(self._at(i, POINTS, low, high, FEW))).T)
        for n in sorted({_needed(seen), ACROSS}):
            table = shown(self._at(i, along, low, high, n))
            if not np.isfinite(table).all():
                return Part(np.where(np.eye(POINTS, 2) > 0, np.inf, 0.0), False)
            coefficients = _coefficients(_coefficients(table).T).T
            if (tail := _tail(coefficients)) < NEGLIGIBLE:
                return Part(coefficients, steep)
        return Part(coefficients, steep) if tail < NOISE or high - low <= NARROWEST else None

    def _at(self, i: int, m: int, low: float, high: float, n: int) -> Floats:
        """what is tabulated at m variances of a panel and n places between two values of y"""
        eps = (low + (high - low) * (_angles(n) + 1) / 2) ** 2
        v = _variances(i, m)[:, None] if q in self.node.free_symbols else np.ones((1, 1))
        grid, d = np.broadcast_arrays(v, v * eps)
        values = self._values(np.inf, q=grid.ravel(), delta=d.ravel())
        return np.asarray(values.reshape(grid.shape) / self._weight(grid, d))


def _polynomials(t: Floats, n: int) -> Floats:
    """T_0 ... T_(n-1) at each t, as `chebvander`, which does the same with much ado"""
    rows = np.empty((n, t.size))
    rows[0], rows[1], twice = 1.0, t, 2 * t
    for k in range(2, n):
        np.multiply(twice, rows[k - 1], out=rows[k])
        rows[k] -= rows[k - 2]
    return rows.T


def _places(v: Floats) -> Iterator[tuple[int, NDArray[np.int64], Floats]]:
    """panels, which variances are on each, and where on it, from -1 to 1: by what is left of v beside 4^i, as ln v of many decades is off
    by its own rounding"""
    v = np.asarray(v, dtype=np.float64)
    there = np.isfinite(v) & (v > 0)
    index = (np.frexp(v)[1] - 1) // 2
    for i in np.unique(index[there]):
        here = np.flatnonzero(there & (index == i))
        yield int(i), here, 2 * np.log(np.ldexp(v[here], -2 * int(i))) / WIDTH - 1


@lru_cache(maxsize=256)
def table_of(node: sp.Expr) -> Table:
    """The table of a node without parameters, one in a process."""
    return Table(node)
