"""The torch layers of attention."""

from __future__ import annotations

import math

import sympy as sp
import torch
from torch import Tensor, nn

from meanfield.blocks.attention import Attention, TokenMixing
from meanfield.blocks.fixed import FixedAttention, MaskedAttention
from meanfield.blocks.laws import TOKENS
from meanfield.reference.twin import Site, layer

__all__ = ["SoftmaxAttention", "TokenWeights"]


class TokenWeights(nn.Module):
    r"""\sum_b M_ab x_b, M = alpha 1 + beta softmax(Q K^T / sqrt(d_k)) - gamma/n in each head, d_k = width/heads.

    With `detached` the softmax is a constant to the backward pass: the network whose law has softmax_derivative=False.
    """

    def __init__(self, site: Site, block: TokenMixing) -> None:
        super().__init__()
        width = site.fan_in
        if width % site.heads:
            raise ValueError(f"heads = {site.heads}: must divide the width {width}")
        self.tokens, self.heads, self.detached = round(site.number(block.n)), site.heads, not block.softmax_derivative
        self.alpha, self.beta, self.gamma = (site.number(weight) for weight in (block.alpha, block.beta, block.gamma))
        self.query, self.key = (site.linear(width, width, site.number(sigma)) for sigma in (block.sigma_Q, block.sigma_K))

    def forward(self, x: Tensor) -> Tensor:
        return self.mixed(x, x)

    def mixed(self, x: Tensor, values: Tensor) -> Tensor:
        """The weights of the tokens x on values"""
        if x.shape[-2] != self.tokens:
            raise ValueError(f"attention over n = {self.tokens} tokens got an input of shape {tuple(x.shape)}: expected (..., n, width)")
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for part in (self.query(x), self.key(x), values))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)
        if self.detached:
            weights = weights.detach()
        mixed: Tensor = self.alpha * v + self.beta * (weights @ v) - self.gamma * v.mean(-2, keepdim=True)
        return mixed.transpose(-2, -3).flatten(-2)

    def extra_repr(self) -> str:
        weights = f", alpha={self.alpha:g}, beta={self.beta:g}, gamma={self.gamma:g}"
        return f"n={self.tokens}, heads={self.heads}" + weights + ", softmax detached" * self.detached


class SoftmaxAttention(TokenWeights):
    r"""W_O \sum_b M_ab W_V x_b."""

    def __init__(self, site: Site, block: Attention) -> None:
        super().__init__(site, block.mixing)
        self.value = site.linear(site.fan_in, site.fan_in, site.number(block.sigma_V))
        self.output = site.linear(site.fan_in, site.fan_out, site.number(block.sigma_O))

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.output(self.mixed(x, self.value(x)))
        return mixed


class FixedMixing(nn.Module):
    """W_O W_V \\sum_b A_ab x_b with the same A for every input."""

    weights: Tensor

    def __init__(self, site: Site, block: FixedAttention) -> None:
        super().__init__()
        self.tokens = round(site.number(block.n))
        self.register_buffer("weights", _weights(block.weights, self.tokens, site))
        self.value = site.linear(site.fan_in, site.fan_in, site.number(block.sigma_V))
        self.output = site.linear(site.fan_in, site.fan_out, site.number(block.sigma_O))

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.output(self.value(self.weights @ x))
        return mixed

    def extra_repr(self) -> str:
        return f"n={self.tokens}"


def _weights(weights: sp.Expr, tokens: int, site: Site) -> Tensor:
    """an expression in the token indices as a matrix"""
    entry = sp.lambdify(TOKENS, site.expression(weights), "math")
    rows = [[float(entry(a, b)) for b in range(1, tokens + 1)] for a in range(1, tokens + 1)]
    return torch.tensor(rows, dtype=torch.float64)


class MaskedSoftmax(nn.Module):
    """W_O W_V \\sum_b A_ab x_b, A = softmax of logits with ln B added, B fixed; queries and keys turned by the angles of their position."""

    bias: Tensor
    angles: Tensor

    def __init__(self, site: Site, block: MaskedAttention) -> None:
        super().__init__()
        width = site.fan_in
        if width % site.heads:
            raise ValueError(f"heads = {site.heads}: must divide the width {width}")
        self.tokens, self.heads = round(site.number(block.n)), site.heads
        self.register_buffer("bias", _weights(block.weights, self.tokens, site).log())
        turns = torch.tensor([site.number(f) for f in block.frequencies], dtype=torch.float64)
        if len(turns):
            times, left = divmod(width, 2 * site.heads * len(turns))
            if left:
                raise ValueError(
                    f"frequencies: {len(turns)} of them turn heads whose width is a multiple of {2 * len(turns)}, here it is "
                    f"{width}/{site.heads}"
                )
            turns = turns.repeat(times)
        self.register_buffer("angles", torch.outer(torch.arange(self.tokens, dtype=torch.float64), turns))
        self.query, self.key = (site.linear(width, width, site.number(sigma)) for sigma in (block.sigma_Q, block.sigma_K))
        self.value = site.linear(width, width, site.number(block.sigma_V))
        self.output = site.linear(width, site.fan_out, site.number(block.sigma_O))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(-2, -3) for f in (self.query, self.key, self.value))
        logits = self.turned(q) @ self.turned(k).transpose(-1, -2) / math.sqrt(q.shape[-1])
        mixed: Tensor = self.output((torch.softmax(logits + self.bias, -1) @ v).transpose(-2, -3).flatten(-2))
        return mixed

    def turned(self, x: Tensor) -> Tensor:
        """Coordinates k and k + d_k/2 as a pair, turned by the angle of the position"""
        if not self.angles.shape[1]:
            return x
        first, second = x.chunk(2, -1)
        cos, sin = self.angles.cos(), self.angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def extra_repr(self) -> str:
        return f"n={self.tokens}, heads={self.heads}" + ", rotary" * bool(self.angles.shape[1])


@layer.register
def _(block: FixedAttention, site: Site) -> nn.Module:
    return FixedMixing(site, block)


@layer.register
def _(block: TokenMixing, site: Site) -> nn.Module:
    return TokenWeights(site, block)


@layer.register
def _(block: Attention, site: Site) -> nn.Module:
    return SoftmaxAttention(site, block)


@layer.register
def _(block: MaskedAttention, site: Site) -> nn.Module:
    return MaskedSoftmax(site, block)
