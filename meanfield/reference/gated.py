"""The torch layers of gated blocks."""

from __future__ import annotations

from torch import Tensor, nn

from meanfield.blocks.gated import Product
from meanfield.reference.twin import Site, layer

__all__ = ["Gated"]


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
