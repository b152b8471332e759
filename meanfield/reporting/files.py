"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["whole", "write_text"]


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` to write to; it becomes `path` if the block ends well, and is removed if not.

    Raises OSError where the folder cannot be written to.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> Path:
    """Write a text file whole or not at all, with the same bytes on every system."""
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
    return path
