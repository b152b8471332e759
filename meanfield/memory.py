"""What fits into memory, and the sentence that refuses what does not, before any work starts."""

from __future__ import annotations

import math
import os
from pathlib import Path

__all__ = ["MOST_MEMORY", "available_memory", "check_memory"]

#: part of the memory there is that one answer may take
MOST_MEMORY = 0.8
#: bytes that are always there: asking the system takes as long as a small run
LITTLE = 1 << 24


def available_memory() -> float:
    """bytes that can be had"""
    info = Path("/proc/meminfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("MemAvailable"):
                return float(line.split()[1]) * 1024
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return math.inf


def check_memory(what: str, need: float, details: str, instead: str) -> None:
    """Refuse what takes more bytes than four fifths of those that can be had, before any work starts; what is little is let through."""
    if need <= LITTLE:
        return
    room = available_memory()
    if need > MOST_MEMORY * room:
        raise ValueError(f"{what} needs {need / 2**30:.3g} GiB{details}, more than the {room / 2**30:.3g} GiB there are: pass {instead}")
