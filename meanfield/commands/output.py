"""How answers are printed: strict JSON, or a table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import numpy as np
import sympy as sp
from rich import box
from rich.console import Console
from rich.table import Table

from meanfield.extras import require
from meanfield.faces import latex
from meanfield.plotting import save_figure
from meanfield.reporting.files import check_target
from meanfield.reporting.tables import LIBRARIES

__all__ = ["JSON", "LATEX", "OUT", "OUT_OR_STORE", "STORE", "formula", "print_json", "print_table", "written"]

Command = TypeVar("Command", bound=Callable[..., Any])

#: characters of a line where the output is no terminal
WIDTH: Final = 160

#: endings of figures
FIGURES: Final = (".png", ".svg", ".pdf")
#: ending -> method that writes numbers
NUMBERS: Final = {".csv": "to_csv", ".nc": "to_netcdf"}
#: ending of a store that a grid is written to while it is computed
STORE: Final = ".zarr"


def _writable(path: str | None, endings: tuple[str, ...]) -> str | None:
    """refuse a name before any work"""
    if path is None:
        return None
    suffix = Path(path).suffix
    if suffix not in endings:
        raise ValueError(f"out = {path!r}: expected a name that ends in {', '.join(endings)}")
    if suffix != STORE:  # which says itself where it can be made, before any work
        check_target(Path(path), "out")
    if suffix in FIGURES:
        require("figures need", "matplotlib")
    elif suffix in NUMBERS:
        require("labelled arrays need", *LIBRARIES)
    return path


def _out(help: str, *endings: str) -> Callable[[Command], Command]:
    return click.option("--out", metavar="FILE", callback=lambda context, option, path: _writable(path, endings), help=help)


OUT = _out("Also write a figure (.png, .svg, .pdf) or the numbers (.csv, .nc).", *FIGURES, *NUMBERS)
OUT_OR_STORE = _out(
    "Also write a figure (.png, .svg, .pdf) or the numbers (.csv, .nc). Or stream a grid of any size to a store (.zarr); the same command "
    "goes on with it after a break.", *FIGURES, *NUMBERS, STORE,
)  # fmt: skip
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
LATEX = click.option("--latex", "as_latex", is_flag=True, help="Print LaTeX.")


def print_json(value: Any) -> None:
    click.echo(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """what json knows; an expression is its text and LaTeX, what is no finite number becomes null"""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, sp.Basic):
        return formula(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def formula(e: sp.Basic) -> dict[str, str]:
    """An expression as text and as LaTeX."""
    return {"expression": str(e), "latex": latex(e)}


def written(thing: Any, path: str, quiet: bool) -> None:
    """An answer as a file: a figure, or its numbers; says so unless `quiet`."""
    suffix = Path(path).suffix
    if suffix in FIGURES:
        save_figure(thing, path)
    else:
        getattr(thing, NUMBERS[suffix])(path)
    if not quiet:
        click.echo(path)


def print_table(title: str, header: list[str], rows: list[list[str]], left: int = 0) -> None:
    """A table whose first `left` columns hold words; as wide as it needs to be where the output is no terminal."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(table)
