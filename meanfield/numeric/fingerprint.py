"""What a kept file is named by: the content it follows from, and the sources that made it."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import sympy as sp

__all__ = ["fingerprint", "makers"]


def fingerprint(text: str) -> str:
    """A name for a text, 24 hexadecimal digits of its SHA-256.

    >>> fingerprint("q + p")
    'aa14619be3aabf3b0d35a531'
    """
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def makers() -> str:
    """16 digits for the sources that make kernels and their numbers: what they made is made anew where one of them has changed."""
    package = Path(__file__).parent.parent
    sources = [f.read_bytes() for folder in ("gaussian", "numeric") for f in sorted((package / folder).rglob("*.py"))]
    return hashlib.sha256(b"".join([sp.__version__.encode(), *sources])).hexdigest()[:16]
