"""Pages as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch
from itertools import groupby
from typing import TYPE_CHECKING, Final

from meanfield.characters import escaped
from meanfield.reporting.article import document, table
from meanfield.reproduction.cells import Page
from meanfield.reproduction.display import Code, Formula, Part, Picture, Table, Text
from meanfield.reproduction.markdown import parser

if TYPE_CHECKING:
    from markdown_it.token import Token

__all__ = ["body", "pages_document", "picture_names"]

#: inches of a line of text
LINE: Final = 6.5

#: what tokens open and close as
_SPANS: Final = {
    "em_open": r"\emph{", "em_close": "}", "strong_open": r"\textbf{", "strong_close": "}", "link_open": "", "link_close": "",
    "softbreak": "\n", "hardbreak": r"\\", "paragraph_open": "", "paragraph_close": "\n\n",
    "bullet_list_open": "\\begin{itemize}\n", "bullet_list_close": "\\end{itemize}\n\n",
    "ordered_list_open": "\\begin{enumerate}\n", "ordered_list_close": "\\end{enumerate}\n\n",
    "list_item_open": r"\item ", "list_item_close": "",
    "blockquote_open": "\\begin{quote}\n", "blockquote_close": "\\end{quote}\n\n",
    "heading_close": "}\n\n",
}  # fmt: skip

_HEADINGS: Final = {"h1": r"\section*{", "h2": r"\subsection*{", "h3": r"\subsubsection*{"}


def body(page: Page) -> str:
    """A page as a piece of LaTeX, its pictures by the names of `picture_names`."""
    names = iter(picture_names(page))
    lines: list[str] = []
    before: type[Part] | None = None
    for kind, group in groupby(page.parts, type):
        if kind is Formula:
            # with the words it ends; after a listing LaTeX would put an empty line in front of it
            lines += [] if before is Text else ["", r"\vspace{-1.5\baselineskip}"] if before is Code else [""]
            lines += _displays(group)
        else:
            for part in group:
                lines += ["", _included(next(names), part) if isinstance(part, Picture) else _set(part)]
        before = kind
    return "\n".join(lines).strip()


def _displays(formulas: Iterable[Part]) -> Iterator[str]:
    """formulas of one line each in one environment"""
    for aligned, group in groupby((f.latex for f in formulas if isinstance(f, Formula)), lambda text: text.startswith(r"\begin{align*}")):
        if aligned:
            yield from group
        else:
            yield "\\begin{gather*}\n" + " \\\\\n".join(group) + "\n\\end{gather*}"


def pages_document(pages: Sequence[Page]) -> str:
    """An article of these pages."""
    return document(r"\clearpage" + "\n" + body(page) if i else body(page) for i, page in enumerate(pages))


def picture_names(page: Page) -> list[str]:
    """File names without suffix of the pictures of a page, in order."""
    count = sum(isinstance(part, Picture) for part in page.parts)
    return [f"{page.name}_figure" if count == 1 else f"{page.name}_figure_{i}" for i in range(1, count + 1)]


@singledispatch
def _set(part: object) -> str:
    raise TypeError(f"no LaTeX for {type(part).__name__}")


@_set.register
def _(part: Text) -> str:
    return text(part.markdown)


@_set.register
def _(part: Code) -> str:
    return "\\begingroup\\footnotesize\n\\begin{verbatim}\n" + part.source + "\n\\end{verbatim}\n\\endgroup"


@_set.register
def _(part: Table) -> str:
    columns = "".join("r" if n else "l" for n in part.numeric)
    inner = table(tuple(map(inline, part.header)), [tuple(map(inline, row)) for row in part.rows], columns)
    tall = r"\renewcommand{\arraystretch}{1.6}" if any(r"\frac" in cell for row in part.rows for cell in row) else ""
    return rf"\begin{{center}}\small{tall}" + "\n" + inner + "\n\\end{center}"


def _included(name: str, part: Picture) -> str:
    share = min(1.0, part.width / LINE)
    return "\\begin{center}\n" + rf"\includegraphics[width={share:.3g}\linewidth]{{{name}.pdf}}" + "\n\\end{center}"


def inline(markdown: str) -> str:
    """A line of markdown."""
    return "".join(_walk(parser().parseInline(markdown))).strip()


def text(markdown: str) -> str:
    """Paragraphs, lists and tables of markdown."""
    return "".join(_walk(parser().parse(markdown))).strip()


def _walk(tokens: Sequence[Token]) -> Iterator[str]:
    rows: list[list[str]] = []
    for token in tokens:
        kind = token.type
        if kind == "inline" and rows:
            rows[-1].append("".join(_walk(token.children or [])))
        elif kind == "inline":
            yield from _walk(token.children or [])
        elif kind == "tr_open":
            rows.append([])
        elif kind == "table_close":
            yield _tabular(rows)
            rows = []
        elif re.match("(table|thead|tbody|tr|th|td)_", kind):
            continue
        else:
            yield _leaf(token)


def _leaf(token: Token) -> str:
    kind = token.type
    if kind == "text":
        return escaped(token.content)
    if kind in ("math_inline", "math_inline_double"):
        return f"${token.content}$" if kind == "math_inline" else rf"\[{token.content}\]"
    if kind == "math_block":
        return "\\[\n" + token.content.strip() + "\n\\]\n\n"
    if kind == "amsmath":
        return token.content.strip() + "\n\n"
    if kind == "code_inline":
        return rf"\texttt{{{escaped(token.content)}}}"
    if kind in ("fence", "code_block"):
        return "\\begin{verbatim}\n" + token.content.rstrip() + "\n\\end{verbatim}\n\n"
    if kind == "heading_open":
        return _HEADINGS[token.tag]
    if kind in _SPANS:
        return _SPANS[kind]
    raise ValueError(f"markdown that has no LaTeX here: {kind}")


def _tabular(rows: list[list[str]]) -> str:
    return "\\begin{center}\\small\n" + table(rows[0], rows[1:], "l" * len(rows[0])) + "\n\\end{center}\n\n"
