"""Parts of a long computation on the processors there are, with an end to it when the user interrupts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from meanfield.progress import track

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["aside", "processors", "renewed_by_forks", "share"]

Part = TypeVar("Part")
Made = TypeVar("Made")

#: seconds between two looks at how far a part is, and the marks on its bar
LOOK, MARKS = 0.1, 100
#: seconds that an interrupt waits for threads that end early; one that compiles hears nothing
PATIENCE = 0.3


def share(
    task: Callable[[Part], object], parts: Sequence[Part], name: str, halt: Callable[[], None], reached: Callable[[], float] | None = None
) -> None:
    """Do the task on every part. It must release the interpreter's lock, so that parts run side by side and Ctrl-C is heard; `halt`
    makes it return early. `reached` says how much of a part that is all there is has been done, 1 at its end."""
    from concurrent.futures import ThreadPoolExecutor, wait  # as long to import as a small job takes

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

    pool, awaited = ThreadPoolExecutor(max_workers=count or 1), True
    working = [pool.submit(work) for _ in range(count)]
    try:
        if len(parts) == 1 and reached is not None:
            for _ in track(_passing(ended, reached), name, MARKS):
                pass
        else:
            for _ in track(range(len(parts)), name, len(parts)):
                _settle(ended.get())
    except BaseException as reason:
        with taking:
            for _ in left:
                pass
        halt()
        if isinstance(reason, KeyboardInterrupt):
            wait(working, PATIENCE)
            awaited = False
        raise
    finally:
        pool.shutdown(wait=awaited)


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


@contextmanager
def aside(task: Callable[[], Made]) -> Iterator[Future[Made]]:
    """A task done meanwhile on a thread of its own, which lasts no longer; but an interrupt does not wait for it."""
    from concurrent.futures import ThreadPoolExecutor

    pool, awaited = ThreadPoolExecutor(max_workers=1), True
    try:
        yield pool.submit(task)
    except KeyboardInterrupt:
        awaited = False
        raise
    finally:
        pool.shutdown(wait=awaited)


def renewed_by_forks(renew: Callable[[], object]) -> None:
    """Call this in every process that forks off: a lock that another thread holds at that moment is not released there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)


def _settle(reason: BaseException | None) -> None:
    if reason is not None:
        raise reason


def processors() -> int:
    """How many there are to use: as many as OMP_NUM_THREADS and NUMBA_NUM_THREADS allow, else as this process may."""
    limits = [os.environ.get(f"{name}_NUM_THREADS", "") for name in ("OMP", "NUMBA")]
    if allowed := [int(limit) for limit in limits if limit.isdigit() and int(limit) > 0]:
        return min(allowed)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
