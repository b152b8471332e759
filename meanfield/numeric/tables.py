r"""Tables of the Gaussian moments of one integrand, filled panel by panel as kernels ask for them, and kept on disk."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, lru_cache
from types import ModuleType

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.quadrature import SMOOTH, jumps_of
from meanfield.gaussian.singularities import Shape, real_function, shape_of
from meanfield.numeric import lookup
from meanfield.numeric.fingerprint import fingerprint, makers
from meanfield.numeric.integrands import shape_row
from meanfield.numeric.lookup import CENTRES, CROSS, DIRECTORY, EVEN, FIRST, GAP, PANELS
from meanfield.numeric.lowering import Lowering
from meanfield.numeric.store import interpreted, keep, kept
from meanfield.numeric.tabulation import Impossible, Smooth, gap_panel, mean_panel, pair_panel

__all__ = ["Table", "table_of"]

Floats = NDArray[np.float64]

ASKED, NONE = -1.0, -2.0  # what the directory says of a panel that a kernel needs, and of one that there cannot be
#: relative difference from scalar quadrature at one point of a panel that counts as an error
AGREED = 1e-12


@lru_cache(maxsize=256)
def table_of(f: sp.Expr, slope: sp.Expr | None) -> Table:
    """The table of a function of x, whose derivative is needed for gaps."""
    return Table(f, slope)


class Table:
    """Chebyshev coefficients of the moments of f as `lookup` reads them."""

    def __init__(self, f: sp.Expr, slope: sp.Expr | None) -> None:
        self.f, self.slope = f, slope
        found = kept(self._name)
        self.numbers = _empty() if found is None else np.frombuffer(found).copy()

    @property
    def _name(self) -> str:
        return f"table_{fingerprint(f'{makers()} {sp.srepr(self.f)} {sp.srepr(self.slope)}')}"

    def extend(self) -> bool:
        """Add the panels that were asked for; whether there were any."""
        asked = np.flatnonzero(self.numbers[:CENTRES] == ASKED)
        for entry in asked:
            try:
                coefficients = self._panel(int(entry))
            except (Impossible, ValueError):
                self.numbers[entry] = NONE
                continue
            self.numbers[entry] = self.numbers.size
            self.numbers = np.concatenate([self.numbers, coefficients])
        if asked.size:
            keep(self._name, self.numbers.tobytes())
        return bool(asked.size)

    @property
    def promising(self) -> bool:
        """Whether there are panels, or can be: pairs take a function without kinks."""
        if self.numbers.size > DIRECTORY or self.slope is None:
            return True
        return bool(shape_row(self.slope)[SMOOTH]) and not jumps_of(shape_row(self.f)).any()

    def _panel(self, entry: int) -> Floats:
        part, k = entry // PANELS, entry % PANELS + FIRST
        if part == 0:
            return mean_panel(lambda v: float(self._scalar.mean_0(self._shape.row(), 0.0, v)), k)[0]
        mirrored = part in (CROSS // PANELS + 1, GAP // PANELS + 1)
        if entry < GAP:
            coefficients = pair_panel(_smooth(self.f, mirrored), k)[0]
        else:
            if any(self._shape.jumps) or self.slope is None:
                raise Impossible("a jump")
            self.numbers[EVEN] = float(self._shape.parity > 0)
            coefficients = gap_panel(_smooth(self.slope, mirrored), k)[0]
        self._verify(coefficients, entry, k, mirrored)
        return coefficients

    def _verify(self, coefficients: Floats, entry: int, k: int, mirrored: bool) -> None:
        """one point of the panel by scalar quadrature"""
        alone, scratch = _empty(), np.full(lookup.SCRATCH + lookup.KEPT, -1.0)
        alone[entry] = DIRECTORY
        v, near = 1.13 * 4.0**k, 0.2
        d = v * (2.0 - near if mirrored else near)
        table = np.concatenate([alone, coefficients])
        if entry < GAP:
            found = lookup.cross_in(table, v, d, 2.0 * v - d, scratch, lookup.SCRATCH)
            true = self._scalar.cross_0(self._shape.row(), 0.0, v, d, 2.0 * v - d)
            scale = self._scalar.cross_0(self._shape.row(), 0.0, v, 0.0, 2.0 * v)
        else:
            found = lookup.gap_in(table, v, d, scratch, lookup.SCRATCH)
            true = scale = self._scalar.gap_0(self._shape.row(), shape_of(self.slope).row(), v, d)
        if not abs(found - true) <= AGREED * scale:
            raise Impossible(f"quadrature says {true}, the table {found}")

    @property
    def _shape(self) -> Shape:
        return shape_of(self.f)

    @cached_property
    def _scalar(self) -> ModuleType:
        """the quadrature functions of f as plain Python"""
        lowering = Lowering()
        v, d, t = sp.symbols("v d t", positive=True)
        calls = [lowering.quadrature("mean", (self.f,), sp.S.Zero, v), lowering.quadrature("cross", (self.f,), sp.S.Zero, v, d, t)]
        if self.slope is not None:
            calls.append(lowering.quadrature("gap", (self.f, self.slope), v, d))
        lowering.body(calls, {v: "v", d: "d", t: "t"}, {}, set())
        return interpreted(f"import math\n\nimport numpy as np\n\n\n{lowering.helpers()}")


def _empty() -> Floats:
    numbers = np.zeros(DIRECTORY)
    numbers[CENTRES : CENTRES + PANELS] = 4.0 ** np.arange(FIRST, FIRST + PANELS)
    return numbers


@lru_cache(maxsize=256)
def _smooth(g: sp.Expr, mirrored: bool) -> Smooth:
    if mirrored:
        return replace(_smooth(g, False), mirrored=True)
    shape = shape_of(g)
    if not shape.smooth:
        raise Impossible("a kink")
    value = real_function(g)
    far = np.linspace(0.0, 200.0, 20001)
    size = np.maximum(np.abs(value(far)), np.abs(value(-far)))
    last = int(np.flatnonzero(size > 1e-19 * size.max())[-1])
    return Smooth(value, shape.d, shape.growth, math.inf if last > 19000 else float(far[last]) + 1.0)
