"""Pages as one HTML file: mathematics as MathML and pictures inside it, so that it needs no network."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import singledispatch
from html import escape
from typing import Final

from meanfield.reproduction.cells import Page
from meanfield.reproduction.display import Code, Formula, Picture, Table, Text
from meanfield.reproduction.markdown import parser
from meanfield.reproduction.mathml import mathml

__all__ = ["webpage"]

_STYLE: Final = """
body { font-family: Georgia, "Times New Roman", serif; line-height: 1.45; color: #111; }
body { max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
header { font-size: 2rem; font-weight: bold; line-height: 1.2; }
h1 { font-size: 1.5rem; margin-top: 3rem; border-top: 1px solid #bbb; padding-top: 1.5rem; }
h2 { font-size: 1.15rem; margin-top: 1.8rem; }
pre { background: #f5f5f2; padding: 0.6rem 0.8rem; overflow-x: auto; font-size: 0.82rem; line-height: 1.35; }
code { font-family: monospace, monospace; font-size: 0.85em; }
pre code { font-size: 1em; }
li:has(math[display="inline"] mfrac) { margin: 0.45rem 0; }
table { border-collapse: collapse; margin: 1rem auto; font-size: 0.92rem; }
table.data th { border-bottom: 1px solid #111; text-align: left; }
table.data td, table.data th { padding: 0.15rem 0.8rem; }
table.data .number { text-align: right; }
img { display: block; margin: 1rem auto; max-width: 100%; }
.formula { overflow-x: auto; overflow-y: hidden; margin: 0.8rem 0; padding: 0.1rem 0; }
mtd[columnalign="left"] { text-align: left; padding-left: 0; }
mtd[columnalign="right"] { text-align: right; padding-right: 0; }
nav ol { padding-left: 1.5rem; }
"""


def webpage(pages: Sequence[Page], title: str, failures: Sequence[str] = ()) -> str:
    """A complete HTML document: contents, then the pages; `failures` are sentences about pages that are not there."""
    contents = "\n".join(f'<li><a href="#{page.name}">{_inline(page.title)}</a></li>' for page in pages)
    missing = "\n".join(f"<p><strong>{escape(sentence)}</strong></p>" for sentence in failures)
    articles = "\n".join(f'<article id="{page.name}">\n{_body(page)}\n</article>' for page in pages)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<header>{escape(title)}</header>\n{missing}\n<nav>\n<ol>\n{contents}\n</ol>\n</nav>\n"
        f"{articles}\n</body>\n</html>\n"
    )


def _body(page: Page) -> str:
    return "\n".join(_set(part) for part in page.parts)


def _math(latex: str, displayed: bool) -> str:
    element = mathml(latex, displayed)
    return f'<div class="formula">{element}</div>' if displayed else element


def _inline(markdown: str) -> str:
    return str(parser(_math).renderInline(markdown))


@singledispatch
def _set(part: object) -> str:
    raise TypeError(f"no HTML for {type(part).__name__}")


@_set.register
def _(part: Text) -> str:
    return str(parser(_math).render(part.markdown)).replace("<table>", '<table class="data">')


@_set.register
def _(part: Code) -> str:
    return f"<pre><code>{escape(part.source, quote=False)}</code></pre>"


@_set.register
def _(part: Formula) -> str:
    return _math(part.latex, True)


@_set.register
def _(part: Table) -> str:
    kinds = ['class="number"' if n else "" for n in part.numeric]
    head = "".join(f"<th {k}>{_inline(v)}</th>" for k, v in zip(kinds, part.header, strict=True))
    rows = ("".join(f"<td {k}>{_inline(v)}</td>" for k, v in zip(kinds, row, strict=True)) for row in part.rows)
    lines = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table class="data">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table>'


@_set.register
def _(part: Picture) -> str:
    data = base64.b64encode(part.svg).decode("ascii")
    return f'<img alt="figure" style="width: {part.width:g}in" src="data:image/svg+xml;base64,{data}"/>'
