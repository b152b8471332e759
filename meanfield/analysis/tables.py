r"""Expectations as tables, for very many settings at once: piecewise Chebyshev interpolation in ln q, for gaps also in sqrt(1 - c).

Both are the variables in which moments of activations are smooth: ln q on panels of a factor 4, and gap/delta in sqrt(delta/q), whose
powers it starts with also where phi has kinks. Panels are made when they are first needed; the number of points in sqrt(1 - c) grows
until the last coefficients are negligible.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from meanfield.analysis.maps import values_of
from meanfield.gaussian.expectation import Expectation, Node
from meanfield.gaussian.pair_expectation import Gap
from meanfield.gaussian.singularities import standardised
from meanfield.symbols import known

__all__ = ["Table", "tabulated"]

Floats = NDArray[np.float64]
q, delta, x = known("q"), known("delta"), known("x")

#: width of a panel in ln q, points on it
WIDTH, POINTS = float(np.log(4.0)), 24
#: ratio of values on a panel beyond which their logarithm is interpolated
STEEP = 1e3
#: points in sqrt(1 - c): from, to; size of the last coefficients at which they are enough
FEWEST, MOST, NEGLIGIBLE = 33, 257, 1e-13


def _angles(n: int) -> Floats:
    return np.asarray(np.cos(np.pi * (np.arange(n) + 0.5) / n))


def _coefficients(values: Floats) -> Floats:
    """of the interpolant through values at Chebyshev points along the first axis"""
    n = values.shape[0]
    k = np.arange(n)
    transform = np.cos(np.pi * np.outer(k, np.arange(n) + 0.5) / n) * (2 / n)
    transform[0] /= 2
    return np.asarray(np.tensordot(transform, values, 1))


@dataclass(frozen=True, eq=False)
class Table:
    """E g(u) over variances, or the gap of g over variances and differences."""

    node: sp.Expr
    panels: dict[int, Floats | None] = field(default_factory=dict)
    steep: dict[int, bool] = field(default_factory=dict)  # panels of logarithms

    def __call__(self, v: Floats, d: Floats | None = None) -> Floats:
        v = np.asarray(v, dtype=np.float64)
        v, *rest = np.broadcast_arrays(v, *(() if d is None else (d,)))
        out = np.full(v.shape, np.nan)
        position = np.log(v) / WIDTH
        index = np.floor(position)
        for i in np.unique(index[np.isfinite(index)]):
            here = index == i
            panel = self._panel(int(i))
            if panel is None:
                out[here] = np.inf
                continue
            along = chebyshev.chebvander(2 * (position[here] - i) - 1, POINTS - 1)
            if rest:
                eps = rest[0][here] / v[here]
                across = chebyshev.chebvander(2 * np.sqrt(np.clip(eps, 0, 1)) - 1, panel.shape[1] - 1)
                out[here] = rest[0][here] * np.einsum("pi,pi->p", along @ panel, across)
            else:
                out[here] = np.exp(along @ panel) if self.steep.get(int(i)) else along @ panel
        return out

    def _panel(self, i: int) -> Floats | None:
        if i not in self.panels:
            self.panels[i] = self._made(np.exp(WIDTH * (i + (_angles(POINTS) + 1) / 2)))
        return self.panels[i]

    def _made(self, v: Floats) -> Floats | None:
        if isinstance(self.node, Expectation):
            (values,), _ = values_of((self.node,), {"q": v})
            if not np.isfinite(values).all():
                return None
            steep = bool(values.min() > 0 and values.max() > STEEP * values.min())
            self.steep[int(np.floor(np.log(v[0]) / WIDTH))] = steep
            return _coefficients(np.log(values) if steep else values)
        n = FEWEST
        while True:
            eps = ((_angles(n) + 1) / 2) ** 2
            grid, d = np.broadcast_arrays(v[:, None], v[:, None] * eps)
            (values,), _ = values_of((self.node,), {"q": grid, "delta": d})
            ratio = values.reshape(grid.shape) / d
            if not np.isfinite(ratio).all():
                return None
            coefficients = _coefficients(_coefficients(ratio).T).T
            tail = np.abs(coefficients[:, -3:]).max() / np.abs(coefficients).max()
            if tail < NEGLIGIBLE or n >= MOST:
                return coefficients
            n = 2 * n - 1


@lru_cache(maxsize=256)
def _table(node: sp.Expr) -> Table:
    return Table(node)


def tabulated(e: sp.Expr) -> tuple[sp.Expr, dict[str, Table]] | None:
    """The expression with tables for its expectations, and these by name; None where a parameter stays inside one."""
    tables: dict[str, Table] = {}

    def replaced(node: Node) -> sp.Expr:
        c, g, a = standardised(node.integrand)
        args: tuple[sp.Expr, ...]
        if g.free_symbols - {x} or g.has(sp.DiracDelta):
            raise _Parametric
        if isinstance(node, Gap):
            plain, factor, args = Gap(g, q, delta), c**2, (a**2 * node.args[1], a**2 * node.args[2])
        elif isinstance(node, Expectation) and node.mean == 0:
            plain, factor, args = Expectation(g, q), c, (a**2 * node.variance,)
        else:
            raise _Parametric
        coefficient, own = plain.as_independent(q, delta, as_Add=False)
        if not isinstance(own, Node):
            return factor * plain.xreplace(dict(zip((q, delta), args, strict=False)))
        name = next((n for n, t in tables.items() if t.node == own), f"table_{len(tables)}")
        tables[name] = _table(own)
        return factor * coefficient * sp.Function(name)(*args)

    try:
        return e.replace(lambda t: isinstance(t, Node), replaced), tables
    except _Parametric:
        return None


class _Parametric(Exception):
    """An expectation holds a parameter that varies over the grid, or is no plain mean or gap."""
