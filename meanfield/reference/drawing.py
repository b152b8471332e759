"""Where random weights come from: the random state of torch, the device, and a fresh draw of a whole module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from meanfield import arguments

__all__ = ["place", "redraw", "seeded"]


def place(device: str | torch.device) -> torch.device:
    """The torch device; "auto" is CUDA where there is one, else the CPU. Raises ValueError for one that is not here."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        here = ["'auto'", "'cpu'", *(f"'cuda:{i}'" for i in range(torch.cuda.device_count()))]
        reason = str(error).splitlines()[0]
        raise ValueError(f"device = {device!r} is not to be had here ({reason}): expected {', '.join(here)}") from error


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Within, random numbers follow from the seed; after, torch's random state is what it was before."""
    arguments.check_integer(seed, "seed", 0, 2**64 - 1)  # as torch takes them
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def redraw(model: nn.Module) -> None:
    """Draw all weights anew, by `reset_parameters()` of every module that has weights of its own.

    Raises TypeError where a module has weights and no such method.
    """
    for module in model.modules():
        if next(module.parameters(recurse=False), None) is None:
            continue
        reset = getattr(module, "reset_parameters", None)
        if reset is None:
            raise TypeError(f"{type(module).__name__} has weights and no reset_parameters(): a fresh network cannot be drawn")
        reset()
