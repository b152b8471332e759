"""Pages written as plain Python in percent cells: cut into cells, run from top to bottom, with what each cell displays.

`# %%` starts a cell of code, `# %% [markdown]` one whose comment lines are markdown with $math$; editors and Jupyter (by jupytext) open
such a file as a notebook. The tag `hide-input` keeps the code of a cell off the printed page.
"""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from meanfield.progress import track
from meanfield.reproduction.display import Code, Part, Text, shown

__all__ = ["Cell", "Page", "PageFailed", "cells_of", "run_page", "title_of"]

_MARKER = re.compile(r"^# %%(?P<options>.*)$")


@dataclass(frozen=True)
class Cell:
    """One cell: its text (markdown, or code), the line of the file it starts on, and what its marker says."""

    text: str
    line: int
    markdown: bool = False
    hidden: bool = False


@dataclass(frozen=True)
class Page:
    """A page that has run: what a reader sees, in order."""

    name: str
    title: str
    parts: tuple[Part, ...]


class PageFailed(Exception):
    """A page did not run to its end: which, where and why."""

    def __init__(self, name: str, line: int, reason: str) -> None:
        super().__init__(f"{name}, line {line}: {reason}")
        self.name, self.line, self.reason = name, line, reason


def cells_of(text: str) -> tuple[Cell, ...]:
    """The cells of a file.

    Raises
    ------
    SyntaxError
        Text stands before the first marker, or a markdown cell has a line that is no comment.

    >>> [(c.markdown, c.text) for c in cells_of("# %% [markdown]\\n# # Title\\n# %%\\n1 + 1\\n")]
    [(True, '# Title'), (False, '1 + 1')]
    """
    found: list[tuple[str, int, list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        marker = _MARKER.match(line)
        if marker:
            found.append((marker["options"], number + 1, []))
        elif found:
            found[-1][2].append(line)
        elif line.strip():
            raise _bad("expected a cell marker, # %%, before anything else", number)
    return tuple(_cell(options, first, lines) for options, first, lines in found)


def _cell(options: str, first: int, lines: list[str]) -> Cell:
    if "[markdown]" not in options:
        return Cell("\n".join(lines).rstrip(), first, hidden="hide-input" in options)
    for number, line in enumerate(lines, first):
        if line.strip() and not line.startswith("#"):
            raise _bad("expected a comment in a markdown cell", number)
    return Cell("\n".join(line.removeprefix("#").removeprefix(" ") for line in lines).strip(), first, markdown=True)


def title_of(cells: tuple[Cell, ...]) -> str:
    """The first heading."""
    for cell in cells:
        if cell.markdown and (heading := re.search(r"^# (.+)$", cell.text, re.MULTILINE)):
            return heading[1].strip()
    raise _bad("no title: expected a markdown cell with a line that starts with # ", 1)


def _bad(reason: str, line: int) -> SyntaxError:
    return SyntaxError(reason, (None, line, None, None))


def run_page(path: Path, text: str) -> Page:
    """Run a page in a fresh namespace.

    Raises
    ------
    PageFailed
        It is not written in cells, or a cell raised: a failed check is an AssertionError.
    """
    name = path.stem
    try:
        cells = cells_of(text)
        title = title_of(cells)
        codes = [_compiled(cell, path) for cell in cells]
    except SyntaxError as error:
        raise PageFailed(name, error.lineno or 1, error.msg) from error
    namespace: dict[str, Any] = {"__name__": "__main__"}
    parts: list[Part] = []
    for cell, (body, last) in track(list(zip(cells, codes, strict=True)), name, len(cells)):
        try:
            parts += _run(cell, body, last, namespace)
        except Exception as error:
            raise PageFailed(name, _line(error, path, cell), _reason(error)) from error
    return Page(name, title, tuple(parts))


def _compiled(cell: Cell, path: Path) -> tuple[CodeType | None, CodeType | None]:
    """what a cell does, and its last expression"""
    if cell.markdown:
        return None, None
    tree = ast.parse("\n" * (cell.line - 1) + cell.text, str(path))
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return compile(tree, str(path), "exec"), None
    del tree.body[-1]
    return compile(tree, str(path), "exec"), compile(ast.Expression(last.value), str(path), "eval")


def _run(cell: Cell, body: CodeType | None, last: CodeType | None, namespace: dict[str, Any]) -> Iterator[Part]:
    if body is None:
        yield Text(cell.text)
        return
    if cell.text and not cell.hidden:
        yield Code(cell.text)
    exec(body, namespace)
    if last is not None:
        yield from shown(eval(last, namespace))


def _line(error: BaseException, path: Path, cell: Cell) -> int:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path) and frame.lineno]
    return lines[0] if lines else cell.line


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
