r"""`meanfield reproduce`: the tables, figures and LaTeX page of the normalisation-free transformer, from formula to figure, and the
derivations of the other results, executable pages (`derivations`).

The system is that of "Normalization-free transformers are subcritical", Part 2 (labofdoubt.github.io), with the toy network of Part 1;
what is compared with which published number is in `references`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from meanfield.extras import require
from meanfield.reporting.article import typeset
from meanfield.reporting.files import whole, write_text
from meanfield.reproduction import figures, tables
from meanfield.reproduction.cells import PageFailed
from meanfield.reproduction.derivations import Derivations
from meanfield.reproduction.markdown import LIBRARIES
from meanfield.reproduction.page import page
from meanfield.reproduction.references import Comparison, CurvePoint, compare_curves, compare_values
from meanfield.reproduction.systems import DEPTH, FEW_SIGMA_QK, FEW_TOKENS, NORMS, few_tokens, toy, transformer
from meanfield.reproduction.worker import building

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Reproduction", "reproduce"]

T = TypeVar("T")

#: file name of a figure -> its width on the page as a share of the line, and its caption
_CAPTIONS: Final = {
    "transformer_signal": (
        1.0,
        r"Variance, covariance and correlation over the blocks of the transformer, for Derf and DyT of slope $\alpha$ and for pre-LN.",
    ),
    "transformer_gradients": (
        1.0,
        r"Left, middle: $\ln \mathcal{J}^{L,l}$ by the two-component recursion with the derivative of the softmax. Right: what the plain "
        r"product of the $\chi$ leaves out, with (solid) and without (dashed) the derivative of the softmax.",
    ),
    "published_curves": (1.0, r"The published theory curves: points read off the figures (circles) on the curves computed here."),
    "toy": (0.8, r"Variance and gradient amplification in the toy network, one matrix behind Derf, DyT or LayerNorm in each branch."),
    "few_tokens": (
        0.75,
        r"$\ln \mathcal{J}^{L,l}$ with few tokens ($\sigma_{OV} = 1$): two components (solid), without the derivative of the softmax "
        r"(dashed), and the product of the $\chi$ (dotted).",
    ),
}


@dataclass(frozen=True, repr=False)
class Reproduction:
    """What `reproduce` wrote and found.

    Attributes
    ----------
    folder, files
        Where it is, and the files in the order they were written; those of the derivations are in its folder `derivations`.
    comparisons
        Reference numbers beside the computed ones.
    points
        Points of the published curves beside the computed ones.
    note
        Why there is no PDF, or an empty text.
    failures
        Derivations that did not run to their end: a check of theirs failed. The others are there.
    """

    folder: Path
    files: tuple[Path, ...]
    comparisons: tuple[Comparison, ...]
    points: tuple[CurvePoint, ...]
    note: str
    failures: tuple[PageFailed, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Reproduction({len(self.files)} files in {self.folder}; {len(self.comparisons)} reference numbers within "
            f"{tables.largest(c.deviation for c in self.comparisons):.1e} relative, {len(self.points)} published points within "
            f"{tables.largest(p.deviation for p in self.points):.1e}{''.join(f'; failed: {f}' for f in self.failures)})"
        )


def _folder(out: str | Path) -> Path:
    """the folder to write to, made and tried out before any work"""
    if not isinstance(out, (str, os.PathLike)):
        raise TypeError(f"out = {out!r}: expected the path of a folder")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out = {str(out)!r}: this is a file, expected a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"out = {str(out)!r}: cannot write to this folder ({error.strerror})") from None
    return folder


class _Steps:
    """Says on a terminal what is being done; silent elsewhere."""

    def __init__(self, total: int) -> None:
        self.total, self.count = total, 0

    def run(self, description: str, work: Callable[[], T]) -> T:
        self.count += 1
        if sys.stderr.isatty():
            print(f"[{self.count}/{self.total}] {description}", file=sys.stderr, flush=True)
        return work()


def _save(drawn: Callable[[], Figure], folder: Path, name: str) -> list[Path]:
    from matplotlib.style import context

    figure, paths = drawn(), []
    with context(["default", figures.STYLE]):
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            with whole(folder / f"{name}.{suffix}") as temporary:
                figure.savefig(temporary, format=suffix, metadata=metadata)
            paths.append(folder / f"{name}.{suffix}")
    return paths


def reproduce(out: str | Path = "results") -> Reproduction:
    """Regenerate the tables (CSV), figures (PNG, SVG) and LaTeX page (.tex, and PDF if pdflatex is there) into a folder, and in its folder
    `derivations` one LaTeX page for each derivation, all of them as one HTML page and, if pdflatex is there, one PDF.

    Every file is written whole or not at all; files of the same names are replaced; the same machine writes the same bytes again.

    Parameters
    ----------
    out : path of a folder
        Made if it does not exist.

    Raises
    ------
    TypeError, ValueError
        Before any work: `out` is no path, is a file, or cannot be written to.
    ImportError
        Before any work: a library of the extra `plot` is not installed.
    """
    require("figures need", "matplotlib")
    require("the derivations need", *LIBRARIES)
    folder = _folder(out)
    with building(_folder(folder / "derivations")) as wait:
        return _reproduced(folder, wait)


def _reproduced(folder: Path, derivations: Callable[[], Derivations]) -> Reproduction:
    steps = _Steps(2 * len(NORMS) + len(_CAPTIONS) + 4)
    pairs = {norm: steps.run(f"transformer with {norm}, {DEPTH} blocks", partial(transformer, norm)) for norm in NORMS}
    toys = {norm: steps.run(f"toy network with {norm}", partial(toy, norm)) for norm in NORMS}
    settings = list(product(NORMS, FEW_TOKENS, FEW_SIGMA_QK))
    few = steps.run("transformers with few tokens", lambda: {setting: few_tokens(*setting) for setting in settings})
    comparisons, points = compare_values(pairs, toys), compare_curves(pairs, toys)

    texts = {f"transformer_{norm.lower().replace('-', '_')}.csv": tables.transformer_table(pair) for norm, pair in pairs.items()}
    texts |= {
        "transformer_final.csv": tables.final_table(pairs),
        "toy.csv": tables.toy_table(toys),
        "few_tokens.csv": tables.few_token_table(few),
        "reference_numbers.csv": tables.comparison_table(comparisons),
        "published_curves.csv": tables.curve_table(points),
    }
    files = steps.run("tables", lambda: [write_text(folder / name, text) for name, text in texts.items()])

    draw: dict[str, tuple[Callable[[Figure], None], float, float]] = {
        "transformer_signal": (lambda f: figures.signal(f, pairs), 10.0, 5.6),
        "transformer_gradients": (lambda f: figures.gradients(f, pairs), 11.5, 3.8),
        "published_curves": (lambda f: figures.published(f, pairs, toys, points), 12.0, 3.7),
        "toy": (lambda f: figures.toys(f, toys), 8.0, 5.6),
        "few_tokens": (lambda f: figures.few_tokens(f, few), 7.5, 5.6),
    }
    for name, (figure, width, height) in draw.items():
        files += steps.run(f"figure {name}", partial(_save, partial(figures.drawn, figure, width, height), folder, name))

    source, pdf, note = steps.run("LaTeX page", lambda: _typeset(folder, page(pairs, comparisons, points, _CAPTIONS)))
    files += [source] if pdf is None else [source, pdf]
    built = steps.run("derivations", derivations)
    return Reproduction(folder, (*files, *built.files), comparisons, points, note or built.note, built.failures)


def _typeset(folder: Path, text: str) -> tuple[Path, Path | None, str]:
    """the page as .tex and, where it can be had, as PDF; else why not"""
    source = write_text(folder / "transformer.tex", text)
    try:
        pdf = typeset(source)
    except RuntimeError as error:
        return source, None, str(error)
    return source, pdf, "" if pdf is not None else "pdflatex is not installed: the LaTeX page was not typeset"
