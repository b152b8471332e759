"""The derivations, built by a second Python process while the first does the rest.

It prints the name of a page when it is done with it, and at the end what was built, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from meanfield.progress import track
from meanfield.reproduction.cells import PageFailed
from meanfield.reproduction.derivations import Derivations, build, sources

__all__ = ["building", "main"]


@contextmanager
def building(folder: Path) -> Iterator[Callable[[], Derivations]]:
    """Starts the second process; what it gives waits for the result, with a bar over the pages on a terminal. Leaving the context ends it.

    Raises
    ------
    FileNotFoundError
        There are no pages.
    RuntimeError
        On waiting: the process did not come to its end; the last line of what it said.
    """
    pages, paths = len(sources()), os.pathsep.join(filter(None, sys.path))
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", "from meanfield.reproduction.worker import main; main()", str(folder)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"},
        )
        try:
            yield lambda: _result(process, pages, errors)
        finally:
            process.kill()
            process.communicate()


def _result(process: subprocess.Popen[str], pages: int, errors: IO[str]) -> Derivations:
    assert process.stdout is not None
    lines = list(track(process.stdout, "derivations", pages + 1))
    if process.wait():
        errors.seek(0)
        said = errors.read().strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"the derivations were not built: {said[-1]}")
    built = json.loads(lines[-1])
    return Derivations(tuple(map(Path, built["files"])), tuple(PageFailed(*failed) for failed in built["failures"]), built["note"])


def main() -> None:
    """What the second process does: the folder is its argument."""
    built = build(Path(sys.argv[1]), finished=lambda name: print(name, flush=True))
    failures = [(failed.name, failed.line, failed.reason) for failed in built.failures]
    print(json.dumps({"files": [str(file) for file in built.files], "failures": failures, "note": built.note}))
