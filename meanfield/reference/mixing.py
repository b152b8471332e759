"""The torch layers of attention."""

from __future__ import annotations

import math

import sympy as sp
import torch
from torch import Tensor, nn

from meanfield.blocks.algebra import TOKENS
from meanfield.blocks.attention import Attention, TokenMixing
from meanfield.blocks.fixed import FixedAttention
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
        entry = sp.lambdify(TOKENS, site.expression(block.weights), "math")
        rows = [[float(entry(a, b)) for b in range(1, self.tokens + 1)] for a in range(1, self.tokens + 1)]
        self.register_buffer("weights", torch.tensor(rows, dtype=torch.float64))
        self.value = site.linear(site.fan_in, site.fan_in, site.number(block.sigma_V))
        self.output = site.linear(site.fan_in, site.fan_out, site.number(block.sigma_O))

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.output(self.value(self.weights @ x))
        return mixed

    def extra_repr(self) -> str:
        return f"n={self.tokens}"


@layer.register
def _(block: FixedAttention, site: Site) -> nn.Module:
    return FixedMixing(site, block)


@layer.register
def _(block: TokenMixing, site: Site) -> nn.Module:
    return TokenWeights(site, block)


@layer.register
def _(block: Attention, site: Site) -> nn.Module:
    return SoftmaxAttention(site, block)
