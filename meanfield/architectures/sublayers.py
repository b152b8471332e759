"""What the named networks share: a norm that may be left out, and a gain put on the weights of a branch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any

import sympy as sp

from meanfield.blocks.algebra import Block, Parallel, Serial, checked_block
from meanfield.blocks.attention import Attention, TokenMixing
from meanfield.blocks.elementary import Activate, Dropout, Identity, Linear, Scale
from meanfield.blocks.fixed import FixedAttention, MaskedAttention
from meanfield.blocks.gated import Product
from meanfield.blocks.norms import BatchNorm, LayerNorm, RMSNorm
from meanfield.blocks.stacking import Repeat, Residual

__all__ = ["checked", "in_a_row", "normed", "with_gain"]


def checked(**parts: Any) -> None:
    """Refuse a part that is no block, by its name."""
    for name, part in parts.items():
        checked_block(part, name)


def in_a_row(attention: Block | None, mlp: Block, sublayer: Callable[[Block], Block]) -> Block:
    """The sublayer of attention, unless that is None, then that of the MLP."""
    last = sublayer(checked_block(mlp, "mlp"))
    return last if attention is None else sublayer(checked_block(attention, "attention")) >> last


def normed(norm: Block | None, branch: Block) -> Block:
    """The branch behind the norm, if there is one."""
    return branch if norm is None else checked_block(norm, "norm") >> branch


@singledispatch
def with_gain(block: Block, gain: sp.Expr) -> Block:
    """The block with the gain on each of its weight matrices but query and key, biases left as they are."""
    raise TypeError(
        f"no rule puts a gain on the weights of {block!r}: register one with {__name__}.with_gain.register({type(block).__name__}), "
        "or scale its weights where it is made"
    )


@with_gain.register
def _(block: Linear, gain: sp.Expr) -> Block:
    return replace(block, sigma_w=gain * block.sigma_w)


@with_gain.register
def _(block: Attention, gain: sp.Expr) -> Block:
    return replace(block, sigma_V=gain * block.sigma_V, sigma_O=gain * block.sigma_O)


@with_gain.register(FixedAttention)
@with_gain.register(MaskedAttention)
def _(block: FixedAttention | MaskedAttention, gain: sp.Expr) -> Block:
    return replace(block, sigma_V=gain * block.sigma_V, sigma_O=gain * block.sigma_O)


@with_gain.register
def _(block: Product, gain: sp.Expr) -> Block:
    return Product(with_gain(block.first, gain), with_gain(block.second, gain))


@with_gain.register
def _(block: Serial, gain: sp.Expr) -> Block:
    return Serial(tuple(with_gain(b, gain) for b in block.blocks))


@with_gain.register
def _(block: Parallel, gain: sp.Expr) -> Block:
    return Parallel(tuple(with_gain(b, gain) for b in block.branches))


@with_gain.register
def _(block: Residual, gain: sp.Expr) -> Block:
    return replace(block, branch=with_gain(block.branch, gain))


@with_gain.register
def _(block: Repeat, gain: sp.Expr) -> Block:
    return replace(block, block=with_gain(block.block, gain))


@with_gain.register(Activate)
@with_gain.register(BatchNorm)
@with_gain.register(Dropout)
@with_gain.register(Identity)
@with_gain.register(LayerNorm)
@with_gain.register(RMSNorm)
@with_gain.register(Scale)
@with_gain.register(TokenMixing)
def _(block: Block, gain: sp.Expr) -> Block:
    return block
