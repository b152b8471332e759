r"""Tables of the Gaussian moments of one integrand, filled panel by panel as kernels ask for them, and kept on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from threading import Lock

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.fingerprint import fingerprint, makers
from meanfield.gaussian.shape_rows import PARITY, jumps_of
from meanfield.keeping import keep, kept
from meanfield.numeric.integrands import shape_row
from meanfield.numeric.lookup import CENTRES, DIRECTORY, EVEN, FALLS, FIRST, JUMP_FALLS, PANELS
from meanfield.numeric.threads import renewed_by_forks

__all__ = ["ASKED", "Table", "blank", "growing", "table_of"]

Floats = NDArray[np.float64]

LINE = 8  # numbers of a line of the processor's cache, across which loads take twice as long
ASKED, NONE = -1.0, -2.0  # what the directory says of a panel that a kernel needs, and of one that there cannot be


@lru_cache(maxsize=1024)
def table_of(f: sp.Expr, slope: sp.Expr | None) -> Table:
    """The table of a function of x, whose derivative is needed for gaps."""
    return Table(f, slope)


renewed_by_forks(table_of.cache_clear)


@contextmanager
def growing(tables: Iterable[Table]) -> Iterator[None]:
    """What these tables grow by meanwhile is kept in the end, however that comes: once, not with every panel."""
    try:
        yield
    finally:
        for table in tables:
            table.keep()


class Table:
    """Chebyshev coefficients of the moments of f as `lookup` reads them."""

    def __init__(self, f: sp.Expr, slope: sp.Expr | None) -> None:
        self.f, self.slope = f, slope
        found = kept(self._name)
        self.numbers = blank() if found is None else _joined(np.frombuffer(found))
        self._lock, self._grown = Lock(), False

    @property
    def _name(self) -> str:
        return f"table_{fingerprint(f'{makers()} {sp.srepr(self.f)} {sp.srepr(self.slope)}')}"

    @property
    def begun(self) -> bool:
        """Whether it has panels."""
        return self.numbers.size > DIRECTORY

    @cached_property
    def jumps(self) -> bool:
        """Whether its function jumps."""
        return bool(jumps_of(shape_row(self.f)).any())

    def extend(self, read: Floats) -> bool:
        """Add the panels that were asked for where these numbers were read; whether there were any. Another thread may have added some
        of them meanwhile, and reads on in numbers that it was given before: those stay as they are but for what it asks for. See
        `growing`, which keeps them."""
        asked = np.flatnonzero(read[:CENTRES] == ASKED)
        with self._lock:
            missing = [int(entry) for entry in asked if self.numbers[entry] in (0.0, ASKED)]
            for entry in missing:
                self.numbers = self._with(entry)
            self._grown = self._grown or bool(missing)
        return bool(asked.size)

    def keep(self) -> None:
        """Leave the panels to later processes."""
        with self._lock:
            if self._grown:
                keep(self._name, self.numbers.tobytes())
            self._grown = False

    def _with(self, entry: int) -> Floats:
        """the numbers, one panel more, or without hope of it"""
        from meanfield.numeric.table_panels import Impossible, Panels

        numbers = self.numbers.copy()
        try:
            made = Panels(self.f, self.slope)
            numbers[EVEN], numbers[JUMP_FALLS] = float(shape_row(self.f)[PARITY] > 0), made.jump_falls
            numbers[FALLS : FALLS + 3] = made.falls
            with np.errstate(all="ignore"):  # no panel is made of what is no number
                coefficients = made.coefficients(entry)
        except (Impossible, ValueError):
            numbers[entry] = NONE
            return _joined(numbers)
        gap = np.zeros(-(numbers.size + 2) % LINE)  # so that coefficients in two variables begin a line
        numbers[entry] = numbers.size + gap.size
        return _joined(numbers, gap, coefficients)


def _joined(*parts: Floats) -> Floats:
    """one after another, from the beginning of a line of cache on"""
    size = sum(part.size for part in parts)
    memory = np.empty(size + LINE)
    first = -(memory.ctypes.data // memory.itemsize) % LINE
    return np.concatenate(parts, out=memory[first : first + size])


def blank() -> Floats:
    """The numbers of a table without panels."""
    numbers = np.zeros(DIRECTORY)
    numbers[JUMP_FALLS] = -1.0
    numbers[CENTRES : CENTRES + PANELS] = 4.0 ** np.arange(FIRST, FIRST + PANELS)
    return numbers
