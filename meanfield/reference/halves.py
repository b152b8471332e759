r"""A network of half the width: what is as small as the width in a block of its own shrinks with it.

A gated attention unit has s features. One matrix A acts on all units, and at any width two effects of O(1/s) are not of its law: what A
scatters reaches the norms (E 1/q > 1/E q), and a norm takes from the gradient what goes along its own input, which is what a change of
the size of A does. To first order both are taken off with O(1/width), if s is halved as well. A is proportional to s; W_o twice as large
keeps what the unit adds to a skip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import sympy as sp

from meanfield.blocks.algebra import Block, made_of
from meanfield.blocks.gau import GAU

__all__ = ["halved"]


def halved(net: Block, values: Mapping[str, Any]) -> Block:
    """The network with half the features s, width d and hidden units e of every gated attention unit, or itself where it has none.

    Raises ValueError where s is odd at the values of the parameters.
    """
    if isinstance(net, GAU):
        features = net.s.subs({x: sp.sympify(values[x.name]) for x in net.s.free_symbols if x.name in values})
        if features.is_number and features % 2 != 0:
            raise ValueError(f"s = {features}: half the width is measured with half the features; expected an even number")
        return replace(net, s=net.s / 2, d=net.d / 2, e=net.e / 2, sigma_O=2 * net.sigma_O)
    parts = made_of(net)
    smaller = {name: _halved(value, values) for name, value in parts.items()}
    return cast(Block, replace(cast(Any, net), **smaller)) if smaller != parts else net


def _halved(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(_halved(v, values) for v in value)
    return halved(value, values) if isinstance(value, Block) else value
