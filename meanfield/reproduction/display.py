"""What a value looks like on a page: `shown(value)` is text, formulas, tables and pictures that every output format can set."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import mpmath as mp
import numpy as np
import sympy as sp

from meanfield.faces import latex
from meanfield.gaussian.certificates import Certificate
from meanfield.gaussian.derivation import Derivation
from meanfield.reporting.formulas import certified
from meanfield.scaling.rules import Rule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Code", "Formula", "Part", "Picture", "Table", "Text", "shown"]


@dataclass(frozen=True)
class Text:
    """Markdown with $math$."""

    markdown: str


@dataclass(frozen=True)
class Code:
    """Text as it was typed."""

    source: str


@dataclass(frozen=True)
class Formula:
    """Displayed mathematics in LaTeX: an align* environment, or what stands in one line."""

    latex: str


@dataclass(frozen=True)
class Table:
    """Cells of markdown; `numeric` says which columns are set to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]


@dataclass(frozen=True)
class Picture:
    """A figure in two formats, and its width in inches."""

    svg: bytes
    pdf: bytes
    width: float


Part = Text | Code | Formula | Table | Picture

_MARKS = re.compile(r"[\\`*_$\[\]<>|]")
_ENVIRONMENT = re.compile(r"(\\begin\{align\*\}.*?\\end\{align\*\})", re.DOTALL)


@singledispatch
def shown(value: Any) -> Iterator[Part]:
    """The parts of a page that show a value: by its kind, by its LaTeX, or as it prints."""
    picture = _picture(value)
    if picture is not None:
        yield picture
        return
    try:
        text = latex(value)
    except TypeError:
        yield Code(repr(value))
        return
    yield from _formulas(text)


def _formulas(text: str) -> Iterator[Part]:
    """LaTeX with words between its formulas"""
    if "\\begin{align*}" not in text:
        yield Formula(text)
        return
    for piece in _ENVIRONMENT.split(text):
        if piece.strip():
            yield Formula(piece) if piece.startswith("\\begin") else Text(piece.strip())


@shown.register
def _(value: None) -> Iterator[Part]:
    yield from ()


@shown.register
def _(value: str) -> Iterator[Part]:
    yield Text(value)


@shown.register(tuple)
def _(value: tuple[Any, ...]) -> Iterator[Part]:
    for one in value:
        yield from shown(one)


@shown.register(dict)
def _(value: dict[str, Any]) -> Iterator[Part]:
    """a table by its columns"""
    columns = [list(column) for column in value.values()]  # arrays too
    rows = tuple(tuple(map(_cell, row)) for row in zip(*columns, strict=True))
    numeric = tuple(not any(isinstance(entry, (str, sp.Basic)) for entry in column) for column in columns)
    yield Table(tuple(value), rows, numeric)


@shown.register(float)
@shown.register(int)
@shown.register(np.floating)
@shown.register(np.integer)
@shown.register(mp.mpf)
def _(value: Any) -> Iterator[Part]:
    yield Formula(_number(value))


@shown.register
def _(value: Certificate) -> Iterator[Part]:
    for claim in value.claims:
        yield Text(certified(claim, _markdown))


@shown.register
def _(value: Derivation) -> Iterator[Part]:
    """each rule once, over the equations it gives"""
    reason = ""
    for step in value.steps:
        if step.reason != reason:
            reason = step.reason
            yield Text(f"{reason[0].upper()}{reason[1:]}:")
        yield Formula(f"{latex(step.before)} = {latex(step.after)}")
    yield from shown(value.certificate)


@shown.register
def _(value: Rule) -> Iterator[Part]:
    steps = (rf"1. {step.reason}: $\displaystyle {latex(step.equation)}$" for step in value.steps)
    yield Text("\n".join((f"**{value.name}**, assuming: {'; '.join(value.assumptions)}.", "", *steps)))


def _markdown(text: str) -> str:
    """plain text as markdown"""
    return _MARKS.sub(r"\\\g<0>", text)


def _cell(entry: Any) -> str:
    """one entry of a table as markdown"""
    if isinstance(entry, str):
        return entry
    if isinstance(entry, (bool, np.bool_)):
        return "yes" if entry else "no"
    if isinstance(entry, (float, int, np.floating, np.integer, mp.mpf)):
        return f"${_number(entry)}$"
    return f"${latex(entry)}$"


def _number(value: Any) -> str:
    """six significant digits, thirty of a multiprecision number; powers of ten as such"""
    if isinstance(value, mp.mpf):
        return str(mp.nstr(value, 30))
    if isinstance(value, (int, np.integer)):
        return str(value)
    mantissa, e, exponent = f"{value:.6g}".partition("e")
    power = rf"10^{{{int(exponent)}}}" if e else ""
    return power if mantissa == "1" and e else rf"{mantissa} \cdot {power}" if e else mantissa


def _picture(value: Any) -> Picture | None:
    """a matplotlib figure, or that of an axes"""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    figure = value.figure if isinstance(value, Axes) else value
    if not isinstance(figure, Figure):
        return None
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout is found; saving need not look for it twice more
    return Picture(_saved(figure, "svg"), _saved(figure, "pdf"), float(figure.get_size_inches()[0]))


def _saved(figure: Figure, suffix: str) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format=suffix, metadata={"Date": None} if suffix == "svg" else {"CreationDate": None})
    return stream.getvalue()
