"""Generated programs: the values of an expression over a grid, and how far rounding may have moved them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.shape_rows import COUNT
from meanfield.numeric.integrands import Integrand
from meanfield.numeric.lowering import Lowering
from meanfield.numeric.printing import parameter_name
from meanfield.numeric.rounding import rounding_bound
from meanfield.numeric.store import execute, is_kept
from meanfield.numeric.threads import share
from meanfield.numeric.work import Work, least, patient

__all__ = ["Program", "among", "is_part", "over_grid", "program_of", "source_of"]

Floats = NDArray[np.float64]

#: milliseconds of plain Python that compiled code does at a time, a hundredth of that or less: Ctrl-C is heard in between
PART = 20_000.0

#: how many values make up a whole of which those that are asked for are some; None where they are for themselves
_WHOLE: ContextVar[int | None] = ContextVar("whole", default=None)

_LOOP = '''

def grid(values, out, bound{shapes}):
    """Fill out[g] with the expression at values[:, g], bound[g] with its rounding error in units of 2^-53."""
    {held}for g in range(out.shape[0]):
        {unpack}
        out[g], bound[g] = expression({call})
'''


@contextmanager
def among(whole: int | None) -> Iterator[None]:
    """What is evaluated meanwhile is some of so many values, and has the same bits whichever it is evaluated with, and whatever was
    evaluated before. None: it is all there is."""
    before = _WHOLE.set(whole)
    try:
        yield
    finally:
        _WHOLE.reset(before)


def is_part() -> bool:
    """Whether what is evaluated is some of more values."""
    return _WHOLE.get() is not None


@dataclass(frozen=True)
class Program:
    """The source of an expression over a grid, its symbols in order, the integrands of its quadrature and the work these are."""

    source: str
    order: tuple[sp.Symbol, ...]
    integrands: tuple[Integrand, ...]
    work: Work
    centred: bool  # no quadrature call has a mean

    def __call__(self, table: Floats, detail: float = 1.0) -> tuple[Floats, Floats]:
        """Values and rounding bounds for the columns of a table."""
        shapes = self._shapes(table, detail)
        each, whole = self.work.milliseconds(shapes), _WHOLE.get()
        if whole is None:
            return over_grid(self.source, shapes, table, each)
        slow = [np.zeros((1, COUNT + 1))] * len(self.integrands)
        return over_grid(self.source, shapes, table, each, patient(whole * self.work.milliseconds(slow), False))

    def milliseconds(self, table: Floats) -> float:
        """What the columns of a table take."""
        return least(table.shape[1] * self.work.milliseconds(self._shapes(table, 1.0)))

    def _shapes(self, table: Floats, detail: float) -> list[Floats]:
        return [i.shapes([s.name for s in self.order], table, detail) for i in self.integrands]


def over_grid(source: str, rows: Sequence[Floats], table: Floats, each: float, alone: bool | None = None) -> tuple[Floats, Floats]:
    """What a program says of the columns of a table, each for so many milliseconds of plain Python, with the rows of numbers that its
    calls read, one or one for each column. `alone`: as plain Python or not, and each column as if it were the only one."""
    table, count = np.ascontiguousarray(table), table.shape[1]
    out, bound = np.empty(count), np.empty(count)
    small = patient(count * each, is_kept(source, "grid"), source) if alone is None else alone

    def run(part: slice) -> None:
        own = [r if len(r) == 1 else r[part] for r in rows]
        execute(source, "grid", (np.ascontiguousarray(table[:, part]), out[part], bound[part], *own), small)

    # a point at which the interpreter gives up is compiled, and of several it takes the others with it, by themselves or not
    size = (max(1, count) if alone is None else 1) if small else max(1, int(PART / each))
    parts = [slice(first, first + size) for first in range(0, count, size)]
    if small or len(parts) == 1:
        for part in parts:
            run(part)
    else:
        share(run, parts, "evaluate", lambda: None)
    return out, np.where((out != 0) & (bound > 0), np.maximum(bound * 2.0**-53, 5e-324), bound * 2.0**-53)


def program_of(
    e: sp.Expr, order: tuple[sp.Symbol, ...], by_quadrature: bool = False, careful: bool = False, widely: bool = False
) -> Program:
    """The program of an expression: `by_quadrature` also where there is a closed form, `careful` with the rounding of integrands counted,
    `widely` also of what oscillates for ever under Gaussians that are wide against a period."""
    return _program(e, order, by_quadrature, careful, widely)


@lru_cache(maxsize=512)
def _program(e: sp.Expr, order: tuple[sp.Symbol, ...], by_quadrature: bool, careful: bool, widely: bool) -> Program:
    lowering = Lowering(by_quadrature, careful, widely)
    source = source_of(lowering, e, order)
    return Program(source, order, tuple(lowering.integrands.values()), lowering.work, lowering.centred)


def source_of(lowering: Lowering, e: sp.Expr, order: tuple[sp.Symbol, ...]) -> str:
    """The source of an expression and its rounding bound over a grid."""
    taken = {"math", "np", "expression", "grid"}
    given = {s: parameter_name(s.name, taken) for s in order}
    lowered = lowering.numeric(e)
    body = lowering.body([lowered, rounding_bound(lowered, lowering.size, lowering.noise)], given, {}, taken)
    size = lowering.scratch
    own = [*lowering.shape_names, *["scratch"] * (size > 0)]
    lines = [*body.lines, f"return {body.results[0]}, {body.results[1]}"]
    function = f"def expression({', '.join([*given.values(), *own])}):\n    " + "\n    ".join(lines) + "\n"
    header = f'"""Generated by meanfield: {str(e)[:200]}"""\n\nimport math\n\nimport numpy as np\n'.replace("\\", "/")
    loop = _LOOP.format(
        shapes="".join(f", {name}s" for name in lowering.shape_names),
        held=f"scratch = np.full({size}, -1.0)\n    " if size else "",
        unpack="\n        ".join(lowering.unpacking()) or "pass",
        call=", ".join([*(f"float(values[{i}, g])" for i in range(len(order))), *own]),
    )
    return "\n\n".join([header, lowering.helpers(), function, loop])
