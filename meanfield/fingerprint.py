"""What a kept file is named by: the content it follows from, and the sources that made it.

A process that outlives an edit of its own sources, or that began in the middle of one, has modules of the one text beside files of the
other. It would find under the name of the new sources what its old ones misread, and leave there what they made: a wrong number that
no later process could trace. So it shares nothing, and refuses to generate from source that it has not imported itself.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import sympy as sp

import meanfield

__all__ = ["as_imported", "fingerprint", "known_to_all", "makers", "source_of", "text"]

#: seconds by which the clock of a file system may be late
LATE = 0.01
_PACKAGE = Path(__file__).parent
#: whose classes are the same wherever their sources are
_MODULES = ("sympy", "meanfield")
#: what makes laws, kernels and their numbers
_MAKING = ("analysis", "architectures", "blocks", "catalogue", "gaussian", "numeric")


def fingerprint(text: str) -> str:
    """A name for a text, 24 hexadecimal digits of its SHA-256.

    >>> fingerprint("q + p")
    'aa14619be3aabf3b0d35a531'
    """
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def makers() -> str:
    """16 digits for the sources that make laws, kernels and their numbers: what they made is made anew where one of them has changed."""
    content = hashlib.sha256(b"".join([sp.__version__.encode(), *(f.read_bytes() for f in _sources())])).hexdigest()[:16]
    return content if as_imported() else os.urandom(8).hex()


def as_imported() -> bool:
    """Whether no source that makes laws, kernels and their numbers has been touched since this process imported the package."""
    return not any(_since(found.st_mtime) or _since(found.st_ctime) for found in map(os.stat, _sources()))


def _since(moment: float) -> bool:
    """the import; what lies in the future is a date that came out of an archive"""
    return meanfield.imported - LATE <= moment <= time.time() + LATE


@cache
def _sources() -> list[Path]:
    return sorted([*_PACKAGE.glob("*.py"), *(f for folder in _MAKING for f in (_PACKAGE / folder).rglob("*.py"))])


def source_of(made: ModuleType | Callable[..., Any]) -> str:
    """The source of a module or function, which for one of the package is what this process has imported."""
    file = Path(inspect.getsourcefile(made) or "")
    if file.is_relative_to(_PACKAGE) and _since(file.stat().st_mtime):
        raise RuntimeError(f"{file} was edited after this process had imported it: start the process again")
    return inspect.getsource(made)


def text(e: sp.Basic, found: dict[sp.Basic, str]) -> str:
    """What sp.srepr says, which takes ten times as long."""
    if e not in found:
        found[e] = f"{type(e).__name__}({', '.join([text(a, found) for a in e.args])})" if e.args else sp.srepr(e)
    return found[e]


def known_to_all(e: sp.Basic) -> bool:
    """Whether the text of an expression says all of it, in every process: a dummy has a number of its own in each, and what a function of
    the user's own stands for is not in its name."""
    return not any(isinstance(t, sp.Dummy) or str(type(t).__module__).partition(".")[0] not in _MODULES for t in sp.preorder_traversal(e))
