r"""The torch twin of a network: the module that the same description stands for, with random weights.

One rule per block, found by `singledispatch`. A new block registers its own:

    @layer.register
    def _(block: MyBlock, site: Site) -> nn.Module: ...

A module with weights draws them in `reset_parameters`, one that mixes tokens says for how many in its attribute `tokens`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, cast

import sympy as sp
import torch
from torch import nn

from meanfield import arguments
from meanfield.blocks.algebra import Block, Parallel, Serial, checked_block
from meanfield.blocks.elementary import Activate, Identity, Linear, Scale
from meanfield.blocks.stacking import Repeat, Residual
from meanfield.blocks.widths import widths
from meanfield.budgets import Sizes, cost
from meanfield.memory import check_memory
from meanfield.reference.drawing import place, redraw, seeded
from meanfield.reference.draws import Draw, gaussian
from meanfield.reference.expressions import tensor_function
from meanfield.reference.inputs import Start, start_of
from meanfield.reference.modules import Multiple, Pointwise, RandomLinear, Skip, Sum
from meanfield.reference.settings import settings, with_tokens

__all__ = ["Site", "Twin", "build", "layer"]

#: bytes of a module without weights, about
MODULE = 2000


@dataclass(frozen=True)
class Site:
    """Where a block stands: the widths before and after it, hidden width and heads inside it, how its matrices are drawn, and the values
    of all symbols by name."""

    fan_in: int
    fan_out: int
    hidden: int
    heads: int
    values: Mapping[str, float]
    draw: Draw = gaussian

    def linear(self, fan_in: int, fan_out: int, sigma_w: float, sigma_b: float = 0.0) -> RandomLinear:
        """A matrix with entries of variance sigma_w^2/fan_in, and a Gaussian bias of variance sigma_b^2."""
        return RandomLinear(fan_in, fan_out, sigma_w, sigma_b, self.draw)

    def number(self, e: sp.Expr) -> float:
        """The value of a parameter here; L and l are bound."""
        value = self.expression(e)
        if not value.is_number or not value.is_real or not value.is_finite:
            raise ValueError(f"{e} is {value} at l = {self.values['l']:g}: expected a finite real number")
        return float(value)

    def expression(self, e: sp.Expr) -> sp.Expr:
        """The expression with the value of every parameter put in."""
        return e.subs({s: sp.Float(self.values[s.name]) for s in e.free_symbols if s.name in self.values})


class Twin(nn.Sequential):
    """A random network: one child per repeat, (..., n, width) to (..., n, width).

    Attributes
    ----------
    net : Block
        What it was drawn from.
    width : int
    settings : mapping of names to numbers
        The value of every symbol of `net`.
    start : Start or None
        The input it was built for, if one was given; `measure` takes it unless told otherwise.
    tokens : int or None
        How many tokens its layers mix; None if none does.

    Examples
    --------
    >>> import torch, meanfield as mf
    >>> twin = mf.reference.build(mf.mlp(mf.erf), width=32, depth=2, device="cpu", sigma_w=1.5, sigma_b=0.1)
    >>> len(twin), twin.tokens, twin(torch.ones(3, 32, dtype=torch.float64)).shape
    (2, None, torch.Size([3, 32]))
    """

    start: Start | None = None

    def __init__(self, net: Block, width: int, settings: Mapping[str, float], repeats: list[nn.Module]) -> None:
        super().__init__(*repeats)
        self.net, self.width, self.settings = net, width, settings

    @property
    def tokens(self) -> int | None:
        """How many tokens its layers mix; None if none does."""
        for module in self.modules():
            if module is not self and hasattr(module, "tokens"):
                return cast(int, module.tokens)
        return None


# -- one rule per block -----------------------------------------------------------------------------------------------


@singledispatch
def layer(block: Block, site: Site) -> nn.Module:
    """The torch module of a block at a site, its weights not drawn yet."""
    raise TypeError(f"no torch layer is known for the block {block!r}: register one with {__name__}.layer.register({type(block).__name__})")


@layer.register
def _(block: Linear, site: Site) -> nn.Module:
    return site.linear(site.fan_in, site.fan_out, site.number(block.sigma_w), site.number(block.sigma_b))


@layer.register
def _(block: Scale, site: Site) -> nn.Module:
    return Multiple(site.number(block.factor))


@layer.register
def _(block: Identity, site: Site) -> nn.Module:
    return nn.Identity()


@layer.register
def _(block: Activate, site: Site) -> nn.Module:
    return Pointwise(tensor_function(site.expression(block.phi.expression)), repr(block.phi))


@layer.register
def _(block: Serial, site: Site) -> nn.Module:
    parts = widths(block.blocks, site.fan_in, site.hidden, site.fan_out)
    return nn.Sequential(*(layer(part, replace(site, fan_in=before, fan_out=after)) for part, before, after in parts))


@layer.register
def _(block: Residual, site: Site) -> nn.Module:
    return Skip(layer(block.branch, site), site.number(block.skip), site.number(block.scale))


@layer.register
def _(block: Parallel, site: Site) -> nn.Module:
    return Sum([layer(branch, site) for branch in block.branches])


@layer.register
def _(block: Repeat, site: Site) -> nn.Module:
    return nn.Sequential(*(layer(block.block, site) for _ in range(block.times)))


# -- the whole network ------------------------------------------------------------------------------------------------


def build(
    net: Block,
    width: int,
    depth: int,
    *,
    heads: int = 1,
    hidden: float = 1,
    q: float | None = None,
    p: float | None = None,
    c: float | None = None,
    gap: float | None = None,
    n: int | None = None,
    draw: Draw = gaussian,
    seed: int | None = None,
    dtype: torch.dtype = torch.float64,
    device: str | torch.device = "cpu",
    **parameters: Any,
) -> Twin:
    r"""A random network drawn from a description, `depth` repeats with fresh weights each.

    Weights have the variance sigma^2/fan_in, biases are Gaussian. The parameters are those of `mf.propagate(net, depth, ...)`, one number
    each. A scale on which the law does not depend, as sigma_K where sigma_Q is 0 or sigma_2 in front of a norm, is 1 where it is left out.

    Parameters
    ----------
    net : Block
        One repeat of the network.
    width, depth : whole numbers >= 1
    heads : whole number >= 1
        Of every attention, d_k = width/heads. The theory does not depend on it.
    hidden : number > 0
        Units between two Linear maps of a series (an MLP branch), in widths.
    q, p, c, gap : number, optional
        The input that `measure` will use, as in `mf.propagate`.
    n : whole number, optional
        Tokens: a parameter where the network has attention, otherwise the number of inputs `measure` will use. Where the law of attention
        does not depend on it and it is left out, the number of inputs.
    draw : function of a tensor and a standard deviation
        How matrices are drawn: `mf.reference.draws.gaussian`, `.orthogonal`, `.truncated_normal`, or your own.
    seed : whole number, optional
        Of the weights, torch's random state is left as it was; without it they come from that state, as any torch module's.
    device : str or torch.device
        "auto" is CUDA where there is one.

    Raises
    ------
    ValueError, TypeError
        A block with no torch layer; missing or unknown parameters (with both lists); an array of parameters; a width that does not
        divide into heads; weights that would not fit in memory.

    Examples
    --------
    >>> import meanfield as mf
    >>> twin = mf.reference.build(mf.mlp(mf.tanh), width=64, depth=3, sigma_w=1.5, sigma_b=0.1, seed=0)
    >>> len(twin), twin.width
    (3, 64)
    """
    checked_block(net, "net")
    for name, value in (("width", width), ("depth", depth), ("heads", heads)):
        arguments.check_integer(value, name, 1)
    if not callable(draw):
        raise TypeError(f"draw = {draw!r}: expected a function of (tensor, std), as mf.reference.draws.gaussian or .orthogonal")
    units = round(float(arguments.number_array(hidden, "hidden")) * width)
    if units < 1:
        raise ValueError(f"hidden = {hidden}: leaves {units} units at width {width}; expected at least one")
    tokens = start_of(q, p, c, gap, n).n if n is None and q is not None else n
    values = settings(net, with_tokens(net, parameters, n), {"n": tokens, "s": units, "d": width})
    _check_room(net, values, width, units, depth, dtype)
    sites = (Site(width, width, units, heads, {**values, "L": float(depth), "l": float(index)}, draw) for index in range(depth))
    twin = Twin(net, width, values, [layer(net, site) for site in sites])
    if q is not None:
        twin.start = start_of(q, p, c, gap, twin.tokens or n)
    elif not p is c is gap is None:
        raise ValueError("p, c or gap is given without q")
    device = place(device)
    twin.to(device, dtype)
    with nullcontext() if seed is None else seeded(seed, device):
        redraw(twin)
    return twin


def _check_room(net: Block, values: Mapping[str, float], width: int, units: int, depth: int, dtype: torch.dtype) -> None:
    """refuse weights that would not fit in memory; those of a user's own block, or of one described at another width, are not known"""
    try:
        entries = cost(net, Sizes(*map(sp.Integer, (width, width, units, 1)))).parameters
    except (TypeError, ValueError):
        return
    entries = entries.subs({s: values.get(s.name, 1.0) for s in entries.free_symbols})
    details = f" (width = {width}, depth = {depth}, {units} hidden units)"
    check_memory("the network", float(depth * (MODULE + dtype.itemsize * entries)), details, "a smaller width or depth")
