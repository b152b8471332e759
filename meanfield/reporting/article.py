"""Complete LaTeX documents: about one network, or put together from parts; and their PDF where pdflatex is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from meanfield import symbols
from meanfield.blocks.algebra import Block
from meanfield.recurrence import Recursion, recursion
from meanfield.reporting.files import whole, write_text
from meanfield.reporting.formulas import latex
from meanfield.reporting.tabular import table

__all__ = ["PREAMBLE_TEXT", "document", "parameter_table", "report", "table", "typeset"]

#: what the letters of a printed recursion mean
PREAMBLE_TEXT = r"""One repeat of the network acts on the variance $q$ of a component of a token and its covariance $p$ between two
tokens as below; each line uses the current $(q, p)$. The second moments of the gradient, $J$ (same token) and $K$ (two tokens), go
backward through the same sublayers, last one first. $\chi$ is the factor of $J$ if gradients of different tokens are taken as
independent."""

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

#: seconds after which pdflatex is taken to hang
_PATIENCE = 120


def document(parts: Iterable[str]) -> str:
    """A LaTeX article with these parts as its body."""
    return _DOCUMENT % "\n\n".join(parts)


def parameter_table(rec: Recursion) -> str:
    """The parameters of a recursion and what they mean."""
    rows = []
    for s in rec.parameters:
        entry = symbols.TABLE.get(s.name)
        rows.append((f"${latex(s)}$", entry.meaning if entry else "parameter"))
    return table((), rows, "@{}ll")


def report(net: Block, path: str | Path) -> Path:
    """Write a LaTeX document of the network's recursion that compiles with pdflatex; return its path.

    Raises
    ------
    TypeError
        `net` is no block.
    ValueError
        The path does not end in .tex, or its folder does not exist.
    """
    rec = recursion(net)
    target = Path(path)
    if target.suffix != ".tex":
        raise ValueError(f"path = {str(path)!r}: expected a file name that ends in .tex")
    if not target.parent.is_dir():
        raise ValueError(f"path = {str(path)!r}: the folder {target.parent} does not exist")
    parts = [r"\section*{Mean-field recursion}" + "\n" + PREAMBLE_TEXT, latex(rec)]
    if rec.parameters:
        parts += [r"\section*{Parameters}", parameter_table(rec)]
    return write_text(target, document(parts))


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
