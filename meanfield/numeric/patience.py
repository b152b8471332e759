"""Runs that nobody waits for are refused before they begin."""

from __future__ import annotations

__all__ = ["DEEP", "SECONDS", "check_patience"]

#: layers from which on `deep` is faster than one by one, compiled
DEEP = 1 << 22
#: layers of a point in closed form that a very deep network may cost one by one; seconds of one of many
LONGEST, SECONDS = 1e10, 5e-9
#: the same of any number of layers that one point takes while no bar moves: five minutes
UNSEEN = 6e10


def check_patience(depth: int, layers: int, cost: float, who: str, how: str = "", unseen: float = 0.0) -> None:
    """Refuse layers one by one that take minutes or days; what they cost, and what of that no bar shows, is in layers of a point in closed
    form, done how that is said."""
    minutes = cost * SECONDS / 60
    if (layers >= DEEP and cost > LONGEST) or unseen > UNSEEN:
        raise ArithmeticError(
            f"depth = {depth}: {who}, and {layers} layers one by one{how} would take some {minutes:.3g} minutes: pass a smaller depth"
        )
