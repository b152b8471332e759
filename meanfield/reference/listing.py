"""A table of text in columns, the middle left out where it is long."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["listing"]

#: rows above which the middle is left out
SHOWN = 25


def listing(columns: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Right-aligned columns under their names.

    >>> print(listing([("layer", ["0", "1"]), ("q", ["1.5", "0.25"])]))
    layer     q
        0   1.5
        1  0.25
    """
    rows = list(zip(*(cells for _, cells in columns), strict=True))
    if len(rows) > SHOWN:
        half = SHOWN // 2
        rows = [*rows[:half], tuple("..." for _ in columns), *rows[-half:]]
    table = [tuple(name for name, _ in columns), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table)
