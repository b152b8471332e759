"""A progress bar or a sign of life on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["busy", "track"]

T = TypeVar("T")

#: whether there is a bar: a terminal shows one at a time
_showing = False


def track(items: Iterable[T], description: str, total: int) -> Iterator[T]:
    """Yield the items, with a bar if stderr is a terminal and rich is installed; what is counted inside goes on without one."""
    global _showing
    if total > 1 and sys.stderr.isatty() and not _showing:
        try:
            from rich.console import Console
            from rich.progress import track as bar
        except ImportError:
            pass
        else:
            _showing = True
            try:
                yield from bar(items, description, total, console=Console(stderr=True), transient=True)
            finally:
                _showing = False
            return
    yield from items


@contextmanager
def busy(description: str) -> Iterator[None]:
    """Say what is being done while it is, if stderr is a terminal and rich is installed."""
    if sys.stderr.isatty():
        try:
            from rich.console import Console
        except ImportError:
            pass
        else:
            with Console(stderr=True).status(description):
                yield
            return
    yield
