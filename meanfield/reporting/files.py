"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["check_target", "whole", "write_text"]


def check_target(path: Path, name: str, *, replaced: bool = False) -> None:
    """Refuse, before any work, a file that cannot be written: opened in place, or made beside what is there and put there if `replaced`.

    Raises ValueError where it is a folder, is in none, or may not be written.
    """
    if not path.parent.is_dir():
        raise ValueError(f"{name} = {str(path)!r}: the folder {path.parent} does not exist")
    if path.is_dir():
        raise ValueError(f"{name} = {str(path)!r}: is a folder, expected the name of a file")
    try:
        if path.exists() and not replaced:
            path.open("ab").close()
        else:
            tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise ValueError(f"{name} = {str(path)!r}: cannot be written ({error.strerror})") from None


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
