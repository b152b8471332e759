"""The derivations: executable pages, one result each, run and set as LaTeX (and PDF) and as one HTML page.

In a checkout they are the folder `derivations` beside the package, in an installed package they are inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meanfield.extras import require
from meanfield.reporting.article import typeset
from meanfield.reporting.files import whole, write_text
from meanfield.reproduction.cells import Page, PageFailed, run_page
from meanfield.reproduction.display import Picture
from meanfield.reproduction.figures import STYLE
from meanfield.reproduction.markdown import LIBRARIES
from meanfield.reproduction.tex import pages_document, picture_names
from meanfield.reproduction.webpage import webpage

__all__ = ["Derivations", "build", "sources"]

TITLE: Final = "Signal propagation at initialisation: derivations"
#: the file of all pages together, without its suffix
TOGETHER: Final = "derivations"


@dataclass(frozen=True)
class Derivations:
    """What was built: files in the order they were written, pages that failed, and why there is no PDF, or an empty text."""

    files: tuple[Path, ...]
    failures: tuple[PageFailed, ...]
    note: str


def sources() -> tuple[Path, ...]:
    """The pages, in order.

    Raises
    ------
    FileNotFoundError
        There are none: the package was not installed whole.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "derivations", package.parent / "derivations"):
        if pages := tuple(sorted(folder.glob("[0-9]*.py"))):
            return pages
    raise FileNotFoundError(f"the pages of the derivations are neither in {package} nor beside it")


def build(folder: Path, pages: Sequence[Path] | None = None, finished: Callable[[str], None] = lambda name: None) -> Derivations:
    """Run the pages and write, into an existing folder: NAME.tex with its figures for each, all in derivations.tex and derivations.html,
    and derivations.pdf if pdflatex is there. A page that fails is left out and reported; the others are built. `finished` is called with
    the name of each page that has run.

    Raises
    ------
    ImportError
        Before any work: a library of the extra `plot` is not installed.
    FileNotFoundError
        There are no pages.
    """
    require("figures need", "matplotlib")
    require("the derivations need", *LIBRARIES)
    done: list[Page] = []
    failures: list[PageFailed] = []
    with _drawing():
        for path in sources() if pages is None else pages:
            try:
                done.append(run_page(path, path.read_text(encoding="utf-8")))
            except PageFailed as failed:
                failures.append(failed)
            finished(path.stem)
    files = [file for page in done for file in _written(page, folder)]
    html = webpage(done, TITLE, [f"{failed.name} failed: {failed.reason}" for failed in failures])
    files.append(write_text(folder / f"{TOGETHER}.html", html))
    if not done:
        return Derivations(tuple(files), tuple(failures), "")
    source = write_text(folder / f"{TOGETHER}.tex", pages_document(done))
    try:
        pdf = typeset(source)
    except RuntimeError as error:
        return Derivations((*files, source), tuple(failures), str(error))
    note = "" if pdf else "pdflatex is not installed: the derivations were not typeset"
    return Derivations((*files, source, *([pdf] if pdf else [])), tuple(failures), note)


def _written(page: Page, folder: Path) -> Iterator[Path]:
    pictures = [part for part in page.parts if isinstance(part, Picture)]
    for name, picture in zip(picture_names(page), pictures, strict=True):
        target = folder / f"{name}.pdf"
        with whole(target) as temporary:
            temporary.write_bytes(picture.pdf)
        yield target
    yield write_text(folder / f"{page.name}.tex", pages_document([page]))


@contextmanager
def _drawing() -> Iterator[None]:
    """pyplot for pages: no windows, one style, and no figure left open"""
    from matplotlib import pyplot
    from matplotlib.style import context

    backend, before = pyplot.get_backend(), set(pyplot.get_fignums())
    pyplot.switch_backend("Agg")
    try:
        with context(["default", STYLE]):
            yield
    finally:
        for number in set(pyplot.get_fignums()) - before:
            pyplot.close(number)
        pyplot.switch_backend(backend)
