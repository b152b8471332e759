"""What a kept file is named by: the content it follows from, and the sources that made it."""

from __future__ import annotations

import hashlib
import inspect
from functools import cache
from types import ModuleType

__all__ = ["fingerprint", "version_of"]


def fingerprint(text: str) -> str:
    """A name for a text, 24 hexadecimal digits of its SHA-256.

    >>> fingerprint("q + p")
    'aa14619be3aabf3b0d35a531'
    """
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def version_of(*modules: ModuleType) -> str:
    """16 digits for what modules are now: what their code made is made anew where it has changed."""
    return fingerprint("".join(map(inspect.getsource, modules)))[:16]
