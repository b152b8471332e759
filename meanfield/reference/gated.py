"""The torch layers of gated blocks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from meanfield.blocks.gated import Product
from meanfield.blocks.gau import GAU
from meanfield.reference.expressions import tensor_function
from meanfield.reference.twin import Site, layer

__all__ = ["Gated", "GatedAttention"]


class Gated(nn.Module):
    """f(x) * g(x), coordinate by coordinate."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor) -> Tensor:
        product: Tensor = self.first(x) * self.second(x)
        return product


@layer.register
def _(block: Product, site: Site) -> nn.Module:
    return Gated(layer(block.first, site), layer(block.second, site))


class GatedAttention(nn.Module):
    """(U * A V) W_o with A = relu(Z Z^T)^2/(n s); of e hidden units, those of the site where the block names none."""

    def __init__(self, site: Site, block: GAU) -> None:
        super().__init__()
        width, gain = site.fan_in, site.number(block.lam)
        features, self.tokens = round(site.number(block.s)), round(site.number(block.n))
        hidden = site.expression(block.e)
        units = round(float(hidden)) if hidden.is_number else site.hidden
        self.phi = tensor_function(site.expression(block.phi.expression))
        self.gate = site.linear(width, units, gain * site.number(block.sigma_U))
        self.value = site.linear(width, units, gain * site.number(block.sigma_V))
        self.shared = site.linear(width, features, gain * site.number(block.sigma_Z))
        self.output = site.linear(units, site.fan_out, gain * site.number(block.sigma_O))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-2] != self.tokens:
            raise ValueError(f"attention over n = {self.tokens} tokens got an input of shape {tuple(x.shape)}: expected (..., n, width)")
        u, v, z = (self.phi(f(x)) for f in (self.gate, self.value, self.shared))
        weights = torch.relu(z @ z.transpose(-1, -2)) ** 2 / (z.shape[-1] * self.tokens)
        mixed: Tensor = self.output(u * (weights @ v))
        return mixed


@layer.register
def _(block: GAU, site: Site) -> nn.Module:
    """The overlaps of the tokens are those that the network of this width has, whatever width d the law was asked for."""
    return GatedAttention(site, block)
