r"""E f(u) g(v) under many laws of any means, variances and covariance, E f(u) and gaps: sums over pairs of nodes, each function called once
at its own nodes.

    E f(u) g(v) = \sum_i w_i f(u_i) \sum_j w_j g(v_j) n(v_j | u_i)

Nodes of functions that are analytic in a strip are lattices, as wide as the strip and the density of v given u allow; any others are those
of panels between breaks, short against that density where v varies, and about the kinks of g as u sees them. Some laws of every part are
summed in more detail too: where these differ, no value of the part is taken. A gap is the difference of two moments, which is as exact as
these where inputs are well apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.mending import mended_function
from meanfield.gaussian.node_rules import distance
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.resolution import Real
from meanfield.gaussian.shape_rows import DETAIL, GROWTH, SMOOTH, STEEPENING, WIDTH, breaks_of, sharp_of
from meanfield.gaussian.singularities import shape_of
from meanfield.gaussian.smoothness import almost_everywhere, in_pieces
from meanfield.numeric.asked import Asked
from meanfield.numeric.hermite_pairs import NARROW, hermite_means
from meanfield.numeric.integrands import shape_row
from meanfield.numeric.law_rows import REACH, Rows, lattice_rows, panel_rows, steps_within
from meanfield.numeric.pair_sums import pair_sums
from meanfield.symbols import known

__all__ = ["under_many_laws"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: laws that are summed together, every one of so many also in more detail, and how much more that is
PART, CHECKED, FINER = 256, 16, 1.37
#: most by what exponent a function may grow over a deviation, and a mean in deviations
GROWN, FAR = 0.3, 1e3
#: least deviation of v given u, in its own: of functions in panels, and of what a lattice sees
NARROWEST, DENSE = 0.01, 0.004
#: the finest lattice, in deviations; below, panels take fewer nodes
FINE = 0.06
#: panels under a density, in its deviations, with and without another one beside it
LONG, LONGER = 4.0, 5.0
#: ends of panels about a blurred kink, in deviations of the blur, and from what blur on there is none to see
ABOUT, BLURRED = np.array([-9.5, -4.0, 0.0, 4.0, 9.5]), 1.0
#: deviations of a blur within which breaks crowd
CROWDED = 3.0
#: error of a value against E |f(u) g(v)|, and what this must be of the root of E f^2 E g^2
ROUNDING, SHARE = 48.0 * 2.0**-53, 1e-6
#: deviations beyond REACH at which a function is looked at too
OUTSIDE = np.array([side * z for z in (REACH, 11.5, 13.0, 15.0, 18.0, 22.0, 26.0, 32.0) for side in (-1.0, 1.0)])


@dataclass(frozen=True, eq=False)
class _Function:
    """A function without parameters as lattices and panels see it."""

    value: Real
    row: Floats

    @staticmethod
    @lru_cache(maxsize=256)
    def of(f: sp.Expr) -> _Function | None:
        """None for what has roots or cancels, or grows faster than an exponential function."""
        g = in_pieces(almost_everywhere(f))
        if g.free_symbols != {known("x")} or shape_of(g).noisy:
            return None
        row = shape_row(g)
        if row[STEEPENING] != 0.0 or (sharp_of(row) == 2.0).any():
            return None
        return _Function(mended_function(g), row)

    def reaches(self, mean: Floats, s: Floats) -> Bools:
        """where all that counts is known, of N(mean, s^2)"""
        breaks = breaks_of(self.row)
        spanned = (mean - REACH * s > breaks[0]) & (mean + REACH * s < breaks[-1])
        return np.asarray(spanned & (self.row[GROWTH] * s < GROWN) & (np.abs(mean) < FAR * s))

    def ends(self, mean: Floats, s: Floats) -> Floats:
        """its breaks that any of the laws reaches, in their deviations, a row for each law"""
        breaks = breaks_of(self.row)[1:-1]
        z = (breaks - mean[:, None]) / s[:, None]
        return np.asarray(z[:, (np.abs(z) < REACH).any(axis=0)])

    def blurred(self, mean: Floats, s: Floats, blur: Floats) -> Floats:
        """Where it looks singular if it is blurred by so much, in deviations, else infinite: kinks, and the ends of where breaks crowd."""
        breaks = breaks_of(self.row)
        near = np.diff(breaks) < CROWDED * (s * blur)[:, None]
        edge = near[:, 1:] != near[:, :-1]
        z = np.where(edge | (sharp_of(self.row)[1:-1] > 0.0), (breaks[1:-1] - mean[:, None]) / s[:, None], np.inf)
        return np.asarray(z[:, (np.abs(z) < REACH).any(axis=0)])

    def at(self, rows: Rows, mean: Floats, s: Floats) -> Floats:
        """its values at nodes"""
        law = rows.law
        with np.errstate(all="ignore"):
            return self.value(mean[law] + s[law] * rows.z)

    def beyond(self, mean: Floats, s: Floats) -> tuple[Floats, Floats]:
        """the most that it is beyond REACH, as it is and times what the normal density is there"""
        with np.errstate(all="ignore"):
            values = np.abs(self.value(mean[:, None] + s[:, None] * OUTSIDE))
            return np.asarray(values[:, :4].max(axis=1)), np.asarray((values * np.exp(-0.5 * OUTSIDE**2)).max(axis=1))


@dataclass(frozen=True)
class _Laws:
    """Means and deviations of u and v, their correlation, and the deviation of v given u in those of v."""

    m1: Floats
    s1: Floats
    m2: Floats
    s2: Floats
    rho: Floats
    tau: Floats

    def part(self, which: NDArray[np.int64] | slice) -> _Laws:
        return _Laws(*(np.ascontiguousarray(getattr(self, name)[which]) for name in self.__dataclass_fields__))


def under_many_laws(asked: Asked, table: Floats) -> tuple[Floats, Floats]:
    """Values and error bounds at the columns of a table, NaN where they are not to be had in this way."""
    out, bound = np.full((2, table.shape[1]), np.nan)
    c, node = asked.expression.as_coeff_Mul()
    if isinstance(node, Gap):
        f, v, d = node.args
        moments = c * Expectation(f * f, v), c * PairExpectation(f * f.xreplace({known("x"): known("y")}), v, v - d, v)
        (second, lost), (product, missed) = (under_many_laws(replace(asked, expression=e), table) for e in moments)
        (v, d), value = (_of(e, asked.order, table) for e in (v, d)), second - product
        with np.errstate(all="ignore"):  # v - d is rounded, and a product moves with it by no more than the gap over d
            return value, lost + missed + 2.0**-52 * (np.abs(v - d) / d * np.abs(value) + np.abs(second))
    found = _functions(node)
    if found is None or not c.is_number:
        return out, bound
    laws = _laws(node, asked.order, table)
    for which in _parts(found, laws):
        own = laws.part(which)
        value, error = _moment(found, own, 1.0)
        checked = slice(None, None, CHECKED)
        finer = _moment(found, own.part(checked), FINER)[0]
        if not (np.abs(finer - value[checked]) > 2.0 * error[checked]).any():
            out[which], bound[which] = value, error
    return float(c) * out, abs(float(c)) * bound


@lru_cache(maxsize=256)
def _functions(node: sp.Expr) -> tuple[_Function, ...] | None:
    """the functions of u and v, or of u alone"""
    parts: tuple[sp.Expr, ...] | None = (node.integrand,) if isinstance(node, Expectation) else None
    if isinstance(node, PairExpectation):
        parts = node.separated()
    if parts is None or any(f.has(sp.DiracDelta) for f in parts):
        return None
    found = [_Function.of(f) for f in parts]
    taken = tuple(f for f in found if f is not None)
    return taken if len(taken) == len(found) else None


def _of(e: sp.Expr, order: tuple[sp.Symbol, ...], table: Floats) -> Floats:
    """an argument at the columns of a table"""
    return np.broadcast_to(np.asarray(sp.lambdify(order, e, "numpy")(*table), dtype=np.float64), table.shape[1:])


def _laws(node: sp.Expr, order: tuple[sp.Symbol, ...], table: Floats) -> _Laws:
    of = partial(_of, order=order, table=table)
    with np.errstate(all="ignore"):
        if isinstance(node, Expectation):
            m1, s1 = of(node.mean), np.sqrt(of(node.variance))
            return _Laws(m1, s1, m1, s1, np.zeros_like(s1), np.ones_like(s1))
        v1, cov, v2, m1, m2 = map(of, node.args[1:])
        s1, s2 = np.sqrt(v1), np.sqrt(v2)
        scale = s1 * s2
        apart: Callable[[Floats, Floats, Floats], Floats] = distance  # type: ignore[assignment]  # arithmetic, of arrays as well
        tau = np.maximum(np.sqrt(np.maximum(apart(v1, cov, v2), 0.0)) / scale, 1e-150)
        return _Laws(m1, s1, m2, s2, cov / scale, tau)


def _parts(found: tuple[_Function, ...], laws: _Laws) -> Iterator[NDArray[np.int64]]:
    """the laws that can be taken, those together that are like each other"""
    with np.errstate(all="ignore"):
        taken = found[0].reaches(laws.m1, laws.s1) & found[-1].reaches(laws.m2, laws.s2) & (laws.s1 > 1e-70) & (laws.s2 > 1e-70)
        taken &= np.abs(laws.rho) <= 1.0
        kinds = np.zeros(laws.rho.size, dtype=np.int64)
        if len(found) == 2:
            kinds = _kinds(found, laws)
            taken &= kinds >= 0
        width = np.floor(np.log2(laws.tau))
    order = np.lexsort((laws.s1, width, kinds))
    order = order[taken[order]]
    for kind in np.unique(kinds[order]):
        own = order[kinds[order] == kind]
        for first in range(0, own.size, PART):
            yield own[first : first + PART]


def _kinds(found: tuple[_Function, ...], laws: _Laws) -> NDArray[np.int64]:
    """0 for panels, 1 for lattices, 2 for a lattice of u and a few nodes of v given u, -1 for none"""
    f, g = found
    panels = np.where(laws.tau >= NARROWEST, 0, -1)
    if not (f.row[SMOOTH] > 0.0 and g.row[SMOOTH] > 0.0):
        return panels
    lattice = (_outer_steps(f, g, laws) >= FINE) & (_inner_steps(g, laws) >= FINE * laws.tau)
    few = lattice & (laws.s2 * laws.tau * g.row[DETAIL] < NARROW * g.row[WIDTH])
    return np.where(few, 2, np.where(lattice & (laws.tau >= DENSE), 1, panels))


def _outer_steps(f: _Function, g: _Function, laws: _Laws) -> Floats:
    other = np.maximum(g.row[WIDTH] / laws.s2, laws.tau) / np.maximum(np.abs(laws.rho), 1e-300)
    return np.asarray(steps_within(np.minimum(f.row[WIDTH] / laws.s1, other)) / f.row[DETAIL])


def _inner_steps(g: _Function, laws: _Laws) -> Floats:
    return np.asarray(laws.tau * steps_within(g.row[WIDTH] / (laws.s2 * laws.tau)) / g.row[DETAIL])


def _moment(found: tuple[_Function, ...], laws: _Laws, detail: float) -> tuple[Floats, Floats]:
    """values and error bounds, NaN where they are not known to be good"""
    return _mean(found[0], laws, detail) if len(found) == 1 else _product(found[0], found[1], laws, detail)


def _mean(f: _Function, laws: _Laws, detail: float) -> tuple[Floats, Floats]:
    steps = steps_within(f.row[WIDTH] / laws.s1) / f.row[DETAIL]
    if f.row[SMOOTH] > 0.0 and steps.min() >= FINE:
        rows = lattice_rows(steps / detail)
    else:
        rows = panel_rows(f.ends(laws.m1, laws.s1), np.full_like(laws.s1, LONG / detail))
    values, weights = f.at(rows, laws.m1, laws.s1), rows.under_density()
    value, size = rows.sums(weights * values), rows.sums(weights * np.abs(values))
    good = (f.beyond(laws.m1, laws.s1)[1] <= ROUNDING * size) & (size > 0.0)
    return np.where(good, value, np.nan), np.where(good, ROUNDING * size, np.nan)


def _product(f: _Function, g: _Function, laws: _Laws, detail: float) -> tuple[Floats, Floats]:
    kind = int(_kinds((f, g), laws.part(slice(0, 1)))[0])
    first = _outer_rows(f, g, laws, detail, kind)
    fs = f.at(first, laws.m1, laws.s1)
    weighed = first.under_density() * fs
    most = np.maximum.reduceat(np.abs(fs), first.starts[:-1])
    if kind == 2:
        means, sizes, others = hermite_means(g.value, first, laws.m2, laws.s2, laws.rho, laws.tau, detail > 1.0)
        value, size = first.sums(weighed * means), first.sums(np.abs(weighed) * sizes)
        good = np.ones(value.size, dtype=bool)
    else:
        rows = _inner_rows(g, laws, detail, kind)
        gs = g.at(rows, laws.m2, laws.s2)
        counts = gs != 0.0
        value, size = pair_sums(first, weighed, rows.where(counts), (rows.weights * gs)[counts], laws.rho, laws.tau)
        scale = np.sqrt(first.sums(weighed * fs) * rows.sums(rows.under_density() * gs * gs))
        others = np.maximum.reduceat(np.abs(gs), rows.starts[:-1])
        good = size >= SHARE * scale
    (near, far), (close, apart) = f.beyond(laws.m1, laws.s1), g.beyond(laws.m2, laws.s2)
    left_out = far * np.maximum(others, close) + apart * np.maximum(most, near)
    good &= (left_out <= ROUNDING * size) & (size > 0.0)
    error = ROUNDING * (1.0 + 0.1 / laws.tau if kind != 2 else 1.0) * size
    return np.where(good, value, np.nan), np.where(good, error, np.nan)


def _outer_rows(f: _Function, g: _Function, laws: _Laws, detail: float, kind: int) -> Rows:
    if kind > 0:
        return lattice_rows(_outer_steps(f, g, laws) / detail)
    ends = [f.ends(laws.m1, laws.s1)]
    blur = laws.tau / np.maximum(np.abs(laws.rho), 1e-300)
    if blur.min() < BLURRED:
        with np.errstate(divide="ignore", invalid="ignore"):
            kinks = g.blurred(laws.m2, laws.s2, laws.tau) / laws.rho[:, None]
            about = kinks[:, :, None] + blur[:, None, None] * ABOUT / detail
            seen = np.concatenate([g.ends(laws.m2, laws.s2) / laws.rho[:, None], about.reshape(laws.rho.size, -1)], axis=1)
        ends.append(np.where((blur < BLURRED)[:, None], seen, REACH))
    return panel_rows(np.concatenate(ends, axis=1), LONG * np.maximum(laws.tau, 0.5**0.5) / detail)


def _inner_rows(g: _Function, laws: _Laws, detail: float, kind: int) -> Rows:
    if kind > 0:
        return lattice_rows(_inner_steps(g, laws) / detail)
    return panel_rows(g.ends(laws.m2, laws.s2), LONGER * laws.tau / detail)
