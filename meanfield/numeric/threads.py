"""Parts of a long computation on the processors there are, with an end to it when the user interrupts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TypeVar

from meanfield.progress import track

__all__ = ["processors", "share"]

Part = TypeVar("Part")

#: seconds between two looks at how far a part is, and the marks on its bar
LOOK, MARKS = 0.1, 100


def share(
    task: Callable[[Part], object], parts: Sequence[Part], name: str, halt: Callable[[], None], reached: Callable[[], float] | None = None
) -> None:
    """Do the task on every part. It must release the interpreter's lock, so that parts run side by side and Ctrl-C is heard; `halt`
    makes it return early. `reached` says how much of a part that is all there is has been done, 1 at its end."""
    from concurrent.futures import ThreadPoolExecutor  # as long to import as a small job takes

    count = min(processors(), len(parts))
    left, taking, ended = iter(parts), Lock(), SimpleQueue[BaseException | None]()

    def work() -> None:
        while True:
            with taking:
                part = next(left, None)
            if part is None:
                return
            try:
                task(part)
            except BaseException as reason:
                ended.put(reason)
                return
            ended.put(None)

    with ThreadPoolExecutor(max_workers=count or 1) as pool:
        try:
            for _ in range(count):
                pool.submit(work)
            if len(parts) == 1 and reached is not None:
                for _ in track(_passing(ended, reached), name, MARKS):
                    pass
            else:
                for _ in track(range(len(parts)), name, len(parts)):
                    _settle(ended.get())
        except BaseException:
            with taking:
                for _ in left:
                    pass
            halt()
            raise


def _passing(ended: SimpleQueue[BaseException | None], reached: Callable[[], float]) -> Iterator[int]:
    """the marks that a part passes until it ends"""
    passed = 0
    while True:
        try:
            _settle(ended.get(timeout=LOOK))
        except Empty:
            while passed < min(MARKS, int(MARKS * reached())):
                passed += 1
                yield passed
            continue
        return


def _settle(reason: BaseException | None) -> None:
    if reason is not None:
        raise reason


def processors() -> int:
    """How many there are to use: as many as OMP_NUM_THREADS allows, else as this process may."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
