"""The numbers that a random network is drawn with: the parameters of its law, and what its modules use beside them.

A scale on which the law does not depend, as \\sigma_K where \\sigma_Q is 0 or \\sigma_2 in front of a norm, is no parameter of the theory,
but a matrix has to be drawn with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meanfield.blocks.algebra import Block
from meanfield.blocks.letters import spare
from meanfield.numeric.propagation import parameters as network_parameters
from meanfield.numeric.runs import bound_parameters

__all__ = ["settings", "with_tokens"]


def settings(net: Block, given: Mapping[str, Any], sizes: Mapping[str, int | None]) -> dict[str, float]:
    """A value for every symbol of the description, by name. What the law does not depend on may be left out: it is one of `sizes` if it
    has their name, which has to be given where that is None, and 1 otherwise. Hidden units e of gated attention stay open.

    Raises ValueError for missing and unknown names, with both lists, and for an array.
    """
    law = network_parameters(net)
    beside = spare(net, law)
    left_out = {s.name: sizes.get(s.name, 1) for s, field in beside.items() if field != "e"}
    known = {name: value for name, value in left_out.items() if value is not None} | dict(given)
    letters = [s for s in beside if s.name in known or s.name in left_out]
    values: dict[str, float] = {}
    for name, array in bound_parameters((*law, *letters), known).items():
        if array.ndim:
            raise ValueError(f"{name} has the shape {array.shape}: a network is drawn for one setting, not for a grid")
        values[name] = float(array)
    return values


def with_tokens(net: Block, given: Mapping[str, Any], n: int | None) -> dict[str, Any]:
    """The given numbers and, where it is given and the law depends on it, n."""
    return {**given, "n": n} if n is not None and "n" in {s.name for s in network_parameters(net)} else dict(given)
