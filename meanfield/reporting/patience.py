"""A limit on the time of a derivation, where the system can set one."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = ["OutOfTime", "within"]

T = TypeVar("T")

#: seconds after which a limit that was caught on its way is raised again
AGAIN = 0.05
#: seconds that an interval timer takes on every system: three years
LONGEST = 1e8


class OutOfTime(BaseException):
    """Not an Exception: nothing that a derivation is caught by may swallow it."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """What `work` returns, if it does so in time, and in that of a limit around it. Without a limit outside the main thread, and on
    systems without an interval timer.

    Raises
    ------
    OutOfTime
        It did not.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return work()

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    def unheard(lost: UnraisableHookArgs) -> None:
        # where the limit strikes inside a weak reference's callback or a __del__, Python drops what is raised; it is raised again
        if not issubclass(lost.exc_type, OutOfTime):
            hear(lost)

    start = time.monotonic()
    hear, sys.unraisablehook = sys.unraisablehook, unheard
    before = signal.signal(signal.SIGALRM, stop)
    around, _ = signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, around or seconds, LONGEST), AGAIN)
    try:
        return work()
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        finally:  # also where the last signal was on its way and raises here
            signal.signal(signal.SIGALRM, before)
            sys.unraisablehook = hear
            if around:
                signal.setitimer(signal.ITIMER_REAL, max(around - (time.monotonic() - start), AGAIN), AGAIN)
