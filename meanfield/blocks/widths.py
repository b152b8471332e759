"""How many units stand between the blocks of a series: the one convention of the torch twin and of parameter counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from meanfield.blocks.algebra import Block, Serial
from meanfield.blocks.attention import TokenMixing
from meanfield.blocks.elementary import Activate, Dropout, Identity, Linear, Scale
from meanfield.blocks.gated import Product
from meanfield.blocks.norms import BatchNorm, LayerNorm, RMSNorm

__all__ = ["WIDTH_KEEPING", "widths"]

#: blocks that hand on as many coordinates as they get
WIDTH_KEEPING = (Activate, BatchNorm, Dropout, Identity, LayerNorm, RMSNorm, Scale, TokenMixing)

Size = TypeVar("Size")


def widths(blocks: Sequence[Block], fan_in: Size, hidden: Size, fan_out: Size) -> Iterator[tuple[Block, Size, Size]]:
    """Each block of a series with the widths before and after it.

    A Linear, or a product of such, whose next block with weights is a Linear has the hidden units; all else keeps the width.
    """
    width = fan_in
    for i, part in enumerate(blocks):
        following = next((b for b in blocks[i + 1 :] if not isinstance(b, WIDTH_KEEPING)), None)
        out = width if isinstance(part, WIDTH_KEEPING) else fan_out
        if _widens(part) and isinstance(following, Linear):
            out = hidden
        yield part, width, out
        width = out


def _widens(block: Block) -> bool:
    """whether its output may have the hidden units"""
    if isinstance(block, Product):
        return _widens(block.first) and _widens(block.second)
    return isinstance(block, Linear) or (isinstance(block, Serial) and any(_widens(b) for b in block.blocks))
