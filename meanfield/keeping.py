"""What one process leaves to those after it: named by what it follows from, whole or not at all, in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from meanfield.fingerprint import as_imported, fingerprint, makers

__all__ = ["folder", "keep", "kept", "places", "put", "remembered"]

Made = TypeVar("Made")


def folder() -> Path:
    """Where what was made is kept: $MEANFIELD_CACHE_DIR, else the user's cache folder."""
    override = os.environ.get("MEANFIELD_CACHE_DIR")
    if override:
        return Path(override).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("meanfield", appauthor=False) / "kernels"


def places() -> list[Path]:
    """Where things are kept, and where if that cannot be written to, unless there is no such place or it is another user's"""
    try:
        temporary = Path(tempfile.gettempdir())
    except FileNotFoundError:
        return [folder()]
    if not hasattr(os, "getuid"):
        return [folder(), temporary / "meanfield"]
    shared = temporary / f"meanfield-{os.getuid()}"
    with suppress(OSError):
        if shared.lstat().st_uid != os.getuid():
            return [folder()]
    return [folder(), shared]


def kept(name: str) -> bytes | None:
    """What was kept under that name, None where there is nothing, or it is damaged or was kept under another."""
    for place in places():
        try:
            content = (place / f"{name}.bin").read_bytes()
        except OSError:
            continue
        if _seal(name, content[32:]) == content[:32]:
            return content[32:]
    return None


def keep(name: str, content: bytes) -> None:
    """Keep that under a name, whole or not at all; nothing that sources have made which are not those that the name says."""
    if not as_imported():
        return
    for place in places():
        try:
            put(place / f"{name}.bin", _seal(name, content) + content)
            return
        except OSError:
            continue


def _seal(name: str, content: bytes) -> bytes:
    """32 bytes that belong to that content under that name: a file that lies under the name of another is not what the name says"""
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


def remembered(description: str, make: Callable[[], Made]) -> Made:
    """What is made of that, of an earlier process if it was kept; the sources that make it are understood."""
    name = f"made_{fingerprint(f'{makers()} {description}')}"
    if (found := kept(name)) is not None:
        earlier: Made = pickle.loads(found)
        return earlier
    made = make()
    with suppress(pickle.PicklingError, AttributeError, TypeError):
        content = pickle.dumps(made)
        if pickle.loads(content) == made:  # not every function that sympy makes up comes back as itself
            keep(name, content)
    return made


def put(path: Path, content: bytes) -> None:
    """Write that file, whole or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
