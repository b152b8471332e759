"""Functions under quadrature: an expression in x, and the rows of numbers that describe its shape to the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield import gaussian
from meanfield.keeping import remembered
from meanfield.symbols import known

__all__ = ["WAVED", "Integrand", "shape_row", "waving_row"]

Floats = NDArray[np.float64]

x = known("x")
#: how far x and the second phase of a wave are from the first
WAVED = ("c", "d")

_PANELS = 100


@dataclass(frozen=True)
class Integrand:
    """A function under quadrature: its expression in x, and further parameters, whose values its shape depends on."""

    expression: sp.Expr
    index: int
    wave: gaussian.periods.Wave | None = None  # how it oscillates, where it is read as slow in x and periodic in phases
    with_poles: bool = False  # a slope, that is no integrand itself
    about: tuple[float, float, float] | None = None  # the mean of its inputs and the cell that counts, where it is not written about 0

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        return tuple(sorted(self.expression.free_symbols - {x}, key=lambda s: s.name))

    @property
    def shape(self) -> gaussian.singularities.Shape:
        """How it looks, without parameters."""
        return gaussian.singularities.shape_of(self.expression, self.with_poles)

    @property
    def span(self) -> float:
        """How far from 0 it is known by so few panels that these are cheap."""
        breaks = np.array(self.shape.breaks)
        return float(min(-breaks[breaks < 0][::-1][:_PANELS][-1], breaks[breaks > 0][:_PANELS][-1]))

    @property
    def calm(self) -> float:
        """The deviation under which no phase of a wave is left."""
        return float(self.shapes((), np.empty((0, 1)))[0][gaussian.wave_rules.WIDTH])

    def shapes(self, names: Sequence[str], table: Floats, detail: float = 1.0) -> Floats:
        """The rows of numbers that describe it to the quadrature: one, or one for each column of the table of parameter values."""
        if self.wave is not None:
            row = waving_row(self.expression, self.wave, detail)
            assert row is not None
            return row[None]
        if not self.parameters:
            return shape_row(self.expression, detail, self.with_poles, self.about)[None]
        own = table[[list(names).index(s.name) for s in self.parameters]]
        values, which = np.unique(own, axis=1, return_inverse=True)
        rows = [self._with(column).row(detail) for column in values.T]
        padded = np.zeros((len(rows), max(map(len, rows))))
        for row, numbers in zip(padded, rows, strict=True):
            row[: len(numbers)] = numbers
        return padded[which.ravel()]

    def shape_at(self, names: Sequence[str], column: Floats) -> gaussian.singularities.Shape:
        """How it looks at one column of a table of parameter values."""
        return self._with(column[[list(names).index(s.name) for s in self.parameters]]) if self.parameters else self.shape

    def _with(self, values: Floats) -> gaussian.singularities.Shape:
        put = {s: sp.Rational(float(v)) for s, v in zip(self.parameters, values, strict=True)}
        return gaussian.singularities.shape_of(self.expression.xreplace(put), self.with_poles)


@lru_cache(maxsize=512)
def shape_row(
    expression: sp.Expr, detail: float = 1.0, with_poles: bool = False, about: tuple[float, float, float] | None = None
) -> Floats:
    """What the shape of an integrand without parameters is described by, found once for all processes."""

    def row() -> bytes:
        shape = gaussian.singularities.shape_of(expression, with_poles)
        return (shape if about is None else shape.about(*about)).row(detail).tobytes()

    return np.frombuffer(remembered(f"shape {detail!r} {with_poles} {about} {sp.srepr(expression)}", row)).copy()


@cache
def waving_row(expression: sp.Expr, found: gaussian.periods.Wave, detail: float = 1.0) -> Floats | None:
    """The same of a wave (`waves.wave_row`), None where it is not known."""
    pattern = found.pattern.xreplace({s: sp.Symbol(f"phase {i}") for i, s in enumerate(gaussian.periods.PHASES)})

    def row() -> bytes | None:
        numbers = gaussian.waves.wave_row(expression, found, detail)
        return None if numbers is None else numbers.tobytes()

    known_row = remembered(f"wave {detail!r} {sp.srepr((expression, pattern, found.periods))}", row)
    return None if known_row is None else np.frombuffer(known_row).copy()
