"""The torch layers of norms and dropout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from meanfield.blocks.elementary import Dropout
from meanfield.blocks.norms import BatchNorm, LayerNorm, RMSNorm
from meanfield.reference.twin import Site, layer

__all__ = ["Normalised"]


class Normalised(nn.Module):
    """x / sqrt(mean x^2), of x less its mean if `centred`; over the coordinates of a token (dim -1) or over all inputs (dim -2)."""

    def __init__(self, centred: bool, dim: int = -1) -> None:
        super().__init__()
        self.centred, self.dim = centred, dim

    def forward(self, x: Tensor) -> Tensor:
        if self.centred:
            x = x - x.mean(self.dim, keepdim=True)
        return x * torch.rsqrt((x * x).mean(self.dim, keepdim=True))

    def extra_repr(self) -> str:
        return f"centred={self.centred}, dim={self.dim}"


@layer.register
def _(block: LayerNorm, site: Site) -> nn.Module:
    return Normalised(centred=True)


@layer.register
def _(block: RMSNorm, site: Site) -> nn.Module:
    return Normalised(centred=False)


@layer.register
def _(block: BatchNorm, site: Site) -> nn.Module:
    """The batch is the n inputs of one set."""
    return Normalised(centred=True, dim=-2)


@layer.register
def _(block: Dropout, site: Site) -> nn.Module:
    return nn.Dropout(site.number(block.rate))
