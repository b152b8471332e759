"""The torch modules that layers without attention are made of."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from meanfield.reference.draws import Draw, gaussian
from meanfield.reference.expressions import TensorFunction

__all__ = ["Multiple", "Pointwise", "RandomLinear", "Skip", "Sum"]


class RandomLinear(nn.Module):
    """W x + b with entries of variance sigma_w^2/fan_in, filled by `draw`, and b_i ~ N(0, sigma_b^2), not drawn yet; no bias at 0."""

    def __init__(self, fan_in: int, fan_out: int, sigma_w: float, sigma_b: float = 0.0, draw: Draw = gaussian) -> None:
        super().__init__()
        self.sigma_w, self.sigma_b, self.draw = sigma_w, sigma_b, draw
        self.weight = nn.Parameter(torch.empty(fan_out, fan_in))
        self.bias = nn.Parameter(torch.empty(fan_out)) if sigma_b else None

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.draw(self.weight, self.sigma_w / math.sqrt(self.weight.shape[1]))
            if self.bias is not None:
                gaussian(self.bias, self.sigma_b)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[1]} -> {self.weight.shape[0]}, sigma_w={self.sigma_w:g}, sigma_b={self.sigma_b:g}"


class Pointwise(nn.Module):
    """A function on each coordinate."""

    def __init__(self, function: TensorFunction, name: str) -> None:
        super().__init__()
        self.function, self.name = function, name

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)

    def extra_repr(self) -> str:
        return self.name


class Multiple(nn.Module):
    """factor * x."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x

    def extra_repr(self) -> str:
        return f"{self.factor:g}"


class Skip(nn.Module):
    """skip x + scale f(x)."""

    def __init__(self, branch: nn.Module, skip: float, scale: float) -> None:
        super().__init__()
        self.branch, self.skip, self.scale = branch, skip, scale

    def forward(self, x: Tensor) -> Tensor:
        f: Tensor = self.branch(x)
        return self.skip * x + self.scale * f

    def extra_repr(self) -> str:
        return f"skip={self.skip:g}, scale={self.scale:g}"


class Sum(nn.Module):
    """f_1(x) + f_2(x) + ..."""

    def __init__(self, branches: list[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([f(x) for f in self.branches]).sum(0)
