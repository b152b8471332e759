"""Complete LaTeX documents: about one network, or put together from parts; and their PDF where pdflatex is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from meanfield import arguments
from meanfield.blocks.algebra import Block, checked_block
from meanfield.numeric.outlines import is_lazy, unlabelled
from meanfield.numeric.propagation import propagate
from meanfield.reporting.files import check_target, whole, write_text
from meanfield.reporting.sections import PREAMBLE_TEXT, sections
from meanfield.reporting.tabular import table

__all__ = ["PREAMBLE_TEXT", "document", "report", "table", "typeset"]

_DOCUMENT = r"""\documentclass[a4paper,fleqn]{article}
\usepackage{amsmath,amssymb,graphicx}
\usepackage[margin=2.2cm]{geometry}
\setlength{\mathindent}{1em}
\setlength{\parindent}{0pt}
\setlength{\emergencystretch}{3em}
\renewcommand{\arraystretch}{1.15}
\setlength{\parskip}{0.6em}
\allowdisplaybreaks[1]
\begin{document}
%s
\end{document}
"""

#: what `propagate` is told beside numbers
_HOW = ("start", "record", "device", "out")
#: seconds after which pdflatex is taken to hang
_PATIENCE = 120


def document(parts: Iterable[str]) -> str:
    """A LaTeX article with these parts as its body."""
    return _DOCUMENT % "\n\n".join(parts)


def report(net: Block, path: str | Path, *, depth: int | None = None, q: Any = None, patience: float = 60.0, **values: Any) -> Path:
    r"""Write a LaTeX article about a network that compiles with pdflatex; return its path.

    The network and its parts, the recursion, the transfer of gradients, the Gaussian expectations with the derivations of closed forms in
    an appendix, the growth law, a table of numbers where a depth is given, and the works that are cited.

    Parameters
    ----------
    net : Block
    path : file name that ends in .tex
    depth, q, **values
        As for `mf.propagate`, but for out, and with numbers that are known: a run whose numbers are shown, from q = 1 if left out.
    patience : seconds > 0
        After which a growth law that is not derived yet is left out; the article says so.

    Raises
    ------
    TypeError
        `net` is no block, or the path is none.
    ValueError
        The path does not end in .tex, is a folder, or is in one that does not exist or cannot be written to; values without a depth; out,
        or dask arrays; what `mf.propagate` refuses.

    Examples
    --------
    >>> import tempfile, meanfield as mf
    >>> path = mf.report(mf.mlp(mf.relu), tempfile.mkdtemp() + "/relu.tex", depth=10, c=0.5, sigma_w=1, sigma_b=0.1)
    >>> r"\section*{Growth with depth}" in path.read_text()
    True
    """
    checked_block(net, "net")
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path = {path!r}: expected a file name that ends in .tex")
    target = Path(path)
    if target.suffix != ".tex":
        raise ValueError(f"path = {str(path)!r}: expected a file name that ends in .tex")
    check_target(target, "path", replaced=True)
    given = values if q is None else {"q": q} | values
    if depth is None and given:
        raise ValueError(f"{', '.join(given)} given without a depth: a table of numbers is of a run, say how deep")
    if given.get("out") is not None:
        raise ValueError(f"out = {given['out']!r}: a report shows a run in memory of its own, leave out out")
    lazy = [name for name, value in unlabelled(given)[0].items() if is_lazy(value)]
    if lazy:
        raise ValueError(f"{lazy[0]} is a dask array: a report shows numbers, pass {lazy[0]}.compute()")
    seconds = arguments.number_array(patience, "patience")
    if seconds.ndim or seconds <= 0:
        raise ValueError(f"patience = {patience}: expected a number of seconds > 0")
    if depth is None:
        return write_text(target, document(sections(net, None, {}, float(seconds))))
    start = 1.0 if q is None else q
    run = propagate(net, depth, start, **values)
    numbers = {"q": start} | {name: v for name, v in values.items() if name not in _HOW and v is not None}
    return write_text(target, document(sections(net, run, numbers, float(seconds))))


def typeset(source: Path) -> Path | None:
    """The PDF of a LaTeX file, beside it; None where pdflatex is not installed. The same source gives the same bytes.

    Raises
    ------
    RuntimeError
        pdflatex is installed and fails: with its first error.
    """
    if shutil.which("pdflatex") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="meanfield-") as scratch:
        job = rf"\pdftrailerid{{}}\pdfsuppressptexinfo=-1 \input{{{source.name}}}"
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", f"-output-directory={scratch}"]
        environment = os.environ | {"SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"}
        try:
            done = subprocess.run(
                [*command, f"-jobname={source.stem}", job], cwd=source.parent, env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_PATIENCE, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"pdflatex did not finish {source} within {_PATIENCE} seconds") from None
        if done.returncode != 0:
            errors = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.startswith("!")]
            raise RuntimeError(f"pdflatex could not typeset {source}: {errors[0] if errors else 'see its log'}")
        target = source.with_suffix(".pdf")
        with whole(target) as temporary:
            shutil.copyfile(Path(scratch) / target.name, temporary)
    return target
