"""What a network costs: its parameters and its floating-point operations, by the shapes of its matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import sympy as sp
from sympy import S

from meanfield import arguments
from meanfield.blocks.algebra import Block, Parallel, Serial, checked_block
from meanfield.blocks.attention import Attention, TokenMixing
from meanfield.blocks.elementary import Linear
from meanfield.blocks.fixed import FixedAttention, MaskedAttention
from meanfield.blocks.gated import Product
from meanfield.blocks.gau import GAU
from meanfield.blocks.stacking import Repeat, Residual
from meanfield.blocks.widths import WIDTH_KEEPING, widths
from meanfield.faces import latex
from meanfield.symbols import known

__all__ = ["Budget", "budget", "cost"]


@dataclass(frozen=True)
class Budget:
    """What a network holds and does.

    Attributes
    ----------
    parameters : expression
        Entries of weight matrices and biases, embeddings included.
    flops : expression
        Floating-point operations per token of a forward pass, a multiplication and an addition counted as two.
    block : Cost
        The same of one repeat alone.

    Examples
    --------
    >>> import meanfield as mf
    >>> held = mf.budget(mf.mlp(mf.relu), width=64, depth=3)
    >>> held.parameters, held.flops, held.block.parameters  # three matrices of 64 x 64, and their biases
    (12480, 24768, 4160)
    """

    parameters: sp.Expr
    flops: sp.Expr
    block: Cost

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {latex(self)}$"

    def saving(self, other: Budget) -> tuple[sp.Expr, sp.Expr]:
        """The shares of the parameters and of the operations of `other` that this one does without."""
        return sp.cancel(1 - self.parameters / other.parameters), sp.cancel(1 - self.flops / other.flops)


@dataclass(frozen=True)
class Cost:
    """Parameters and operations per token of a block."""

    parameters: sp.Expr = S.Zero
    flops: sp.Expr = S.Zero

    def __add__(self, other: Cost) -> Cost:
        return Cost(sp.expand(self.parameters + other.parameters), sp.expand(self.flops + other.flops))

    def repeated(self, times: sp.Expr) -> Cost:
        """That often."""
        return Cost(sp.expand(times * self.parameters), sp.expand(times * self.flops))


@dataclass(frozen=True)
class Sizes:
    """The widths before and after a block, hidden width inside it, and how many tokens it sees."""

    fan_in: sp.Expr
    fan_out: sp.Expr
    hidden: sp.Expr
    n: sp.Expr


def budget(
    net: Block,
    *,
    width: Any = None,
    depth: Any = None,
    hidden: Any = None,
    n: Any = None,
    vocabulary: Any = 0,
    tied: bool = True,
) -> Budget:
    r"""Parameters and operations of a network of `depth` repeats between an embedding and its read-out.

    Every matrix counts, at whatever scale it starts (W_Q = 0 is trained); attention whose queries and keys both have scale 0 has none.
    Gains of norms and the scalars \alpha, \beta, \gamma of shaped attention are left out: they are below 0.1 % at any usual width.

    Parameters
    ----------
    net : Block
    width, depth, hidden, n : whole number >= 1 or expression
        Left out: the symbols d, L, 4 width, and the n of the attention. `hidden` are the units inside an MLP or gated MLP, and those of
        gated attention that is given no e.
    vocabulary : whole number >= 0 or expression
        Rows of the embedding.
    tied : bool
        Whether the read-out is the embedding again.

    Raises
    ------
    TypeError
        `net` is no block, or holds one whose shapes are not known; `tied` is not True or False.
    TypeError, ValueError
        A size is no whole number in its range and no expression, or another one than an attention was given.

    Examples
    --------
    What He & Hofmann's simplified block saves (arXiv:2311.01906: 13 % of 18 blocks of width 768 behind GPT-2's vocabulary):

    >>> import meanfield as mf
    >>> pre = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))
    >>> sas = mf.sas(norm=mf.LayerNorm(), mlp=mf.MLP(mf.relu))
    >>> mf.budget(pre).parameters, mf.budget(sas).parameters
    (12*L*d**2, 10*L*d**2)
    >>> full, less = (mf.budget(net, width=768, depth=18, n=128, vocabulary=50257) for net in (pre, sas))
    >>> full.parameters, [round(float(share), 3) for share in less.saving(full)]
    (165999360, [0.128, 0.125])
    """
    checked_block(net, "net")
    d = sp.Symbol("d", positive=True, integer=True) if width is None else arguments.whole(width, "width")
    depth = known("L") if depth is None else arguments.whole(depth, "depth")
    inner = 4 * d if hidden is None else arguments.whole(hidden, "hidden")
    tokens = _tokens(net, None if n is None else arguments.whole(n, "n"))
    rows = arguments.whole(vocabulary, "vocabulary", 0)
    arguments.check_flag(tied, "tied")
    block: Cost = cost(net, Sizes(d, d, inner, tokens))
    total = block.repeated(depth) + Cost(rows * d * (1 if tied else 2), 2 * rows * d)
    return Budget(total.parameters, total.flops, block)


def _tokens(net: Block, n: sp.Expr | None) -> sp.Expr:
    """how many tokens attention sees: those that it was given, or n"""
    own = known("n") if net.tokens is None else net.tokens
    if n is None:
        return own
    _check_same(n, "n", own, "the attention of this network was given")
    return n


def _check_same(size: sp.Expr, name: str, own: sp.Expr, said: str) -> None:
    if size.is_number and own.is_number and size != own:
        raise ValueError(f"{name} = {size}: {said} {own}; expected that, or nothing")


def _matrix(fan_in: sp.Expr, fan_out: sp.Expr) -> Cost:
    return Cost(fan_in * fan_out, 2 * fan_in * fan_out)


@singledispatch
def cost(block: Block, sizes: Sizes) -> Cost:
    """What a block costs at these sizes; operations of pointwise functions are left out."""
    if isinstance(block, WIDTH_KEEPING):
        return Cost()
    raise TypeError(f"the shapes of {block!r} are not known: register them with {__name__}.cost.register({type(block).__name__})")


@cost.register
def _(block: Linear, sizes: Sizes) -> Cost:
    bias = Cost() if block.sigma_b == 0 else Cost(sizes.fan_out, sizes.fan_out)
    return _matrix(sizes.fan_in, sizes.fan_out) + bias


@cost.register
def _(block: TokenMixing, sizes: Sizes) -> Cost:
    """queries, keys and logits, then the weighted sum over tokens"""
    d = sizes.fan_in
    weighted = Cost(S.Zero, 2 * sizes.n * d)
    if block.sigma_Q == 0 and block.sigma_K == 0:
        return weighted
    return _matrix(d, 2 * d) + Cost(S.Zero, 2 * sizes.n * d) + weighted


@cost.register
def _(block: Attention, sizes: Sizes) -> Cost:
    return cost(block.mixing, sizes) + _matrix(sizes.fan_in, sizes.fan_in) + _matrix(sizes.fan_in, sizes.fan_out)


@cost.register
def _(block: FixedAttention, sizes: Sizes) -> Cost:
    weighted = Cost(S.Zero, 2 * sizes.n * sizes.fan_in)
    return weighted + _matrix(sizes.fan_in, sizes.fan_in) + _matrix(sizes.fan_in, sizes.fan_out)


@cost.register
def _(block: MaskedAttention, sizes: Sizes) -> Cost:
    return (
        cost(TokenMixing(block.n, 0, 1, 0, block.sigma_Q, block.sigma_K), sizes)
        + _matrix(sizes.fan_in, sizes.fan_in)
        + _matrix(sizes.fan_in, sizes.fan_out)
    )


@cost.register
def _(block: GAU, sizes: Sizes) -> Cost:
    """U and V, Z and its overlaps, then the weighted sum over tokens and the output"""
    _check_same(sizes.fan_in, "width", block.d, "a gated attention unit was given d =")
    d = block.d if block.d.is_number else sizes.fan_in
    units = sizes.hidden if block.e == known("e") else block.e
    mixed = Cost(S.Zero, 2 * sizes.n * (block.s + units))
    return _matrix(d, 2 * units + block.s) + mixed + _matrix(units, d)


@cost.register
def _(block: Product, sizes: Sizes) -> Cost:
    return cost(block.first, sizes) + cost(block.second, sizes)


@cost.register
def _(block: Serial, sizes: Sizes) -> Cost:
    total = Cost()
    for part, before, after in widths(block.blocks, sizes.fan_in, sizes.hidden, sizes.fan_out):
        total += cost(part, Sizes(before, after, sizes.hidden, sizes.n))
    return total


@cost.register
def _(block: Residual, sizes: Sizes) -> Cost:
    return cost(block.branch, sizes)


@cost.register
def _(block: Parallel, sizes: Sizes) -> Cost:
    total = Cost()
    for branch in block.branches:
        total += cost(branch, sizes)
    return total


@cost.register
def _(block: Repeat, sizes: Sizes) -> Cost:
    once: Cost = cost(block.block, sizes)
    return once.repeated(sp.Integer(block.times))
