"""Parts of a long computation on the processors there are, with an end to it when the user interrupts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from meanfield.progress import track

__all__ = ["processors", "share"]

Part = TypeVar("Part")


def share(task: Callable[[Part], object], parts: Sequence[Part], name: str, halt: Callable[[], None]) -> None:
    """Do the task on every part. It must release the interpreter's lock, so that parts run side by side and Ctrl-C is heard; `halt`
    makes it return early."""
    from concurrent.futures import ThreadPoolExecutor, as_completed  # as long to import as a small job takes

    with ThreadPoolExecutor(max_workers=min(processors(), len(parts)) or 1) as pool:
        try:
            futures = [pool.submit(task, part) for part in parts]
            for future in track(as_completed(futures), name, len(parts)):
                future.result()
        except BaseException:
            halt()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def processors() -> int:
    """How many there are to use: as many as OMP_NUM_THREADS allows, else as this process may."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
