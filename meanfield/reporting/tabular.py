"""Tables that read as LaTeX and as HTML."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Table", "number", "picked", "table"]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], columns: str) -> str:
    """A LaTeX tabular; `columns` is its alignment, as "lrr"."""
    lines = [" & ".join(row) + r" \\" for row in rows]
    head = [" & ".join(header) + r" \\[0.4ex] \hline \noalign{\vskip 0.6ex}"] if any(header) else []
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *head, *lines, r"\end{tabular}"])


@dataclass(frozen=True)
class Table:
    """Cells of LaTeX text, formulas between dollars; `columns` is their alignment, as "lrr"."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    columns: str

    @property
    def latex(self) -> str:
        return table(self.header, self.rows, self.columns)

    @property
    def html(self) -> str:
        """For a notebook, which typesets what stands between dollars."""
        sides = [f"text-align: {'left' if c == 'l' else 'right'}" for c in self.columns]

        def row(cells: Sequence[str], tag: str) -> str:
            inside = "".join(f'<{tag} style="{side}">{html.escape(cell)}</{tag}>' for cell, side in zip(cells, sides, strict=True))
            return f"<tr>{inside}</tr>"

        return "\n".join(
            ["<table>", *([row(self.header, "th")] if any(self.header) else []), *(row(r, "td") for r in self.rows), "</table>"]
        )


def number(value: float, digits: int = 7) -> str:
    """A number in LaTeX, powers of ten written out.

    >>> number(0.25), number(1.5e-20), number(float("inf"))
    ('$0.25$', '$1.5 \\\\cdot 10^{-20}$', '$\\\\infty$')
    """
    if math.isnan(value):
        return "---"
    if math.isinf(value):
        return r"$\infty$" if value > 0 else r"$-\infty$"
    mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
    return rf"${mantissa} \cdot 10^{{{int(exponent)}}}$" if exponent else f"${mantissa}$"


def picked(count: int, most: int) -> list[int]:
    """At most so many indices, evenly spread, both ends among them."""
    return [int(i) for i in np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))]
