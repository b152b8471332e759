"""The parts of a torch model by what they compute: activations and norms are known by their values, not by their names."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from meanfield.activation import Activation
from meanfield.blocks.algebra import Block
from meanfield.blocks.norms import LayerNorm, RMSNorm
from meanfield.catalogue import activations
from meanfield.reference.expressions import tensor_function

__all__ = ["TOLERANCE", "Layers", "NotRecognised", "activation_of", "norm_kind"]

#: relative difference from a formula that counts as rounding: norms divide by sqrt(variance + 1e-5)
TOLERANCE = 1e-4


class NotRecognised(ValueError):
    """A part of a model that has no reading, by name."""


@dataclass(frozen=True)
class Layers:
    """What was read of layers: scales by name and how many numbers each is estimated from, row by row, and the block of a row."""

    rows: list[dict[str, float]]
    counts: list[dict[str, int]]
    built: Callable[[Mapping[str, float]], Block]
    names: tuple[str, ...]
    outside: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    before: Block | None = None
    after: Block | None = None


def activation_of(function: Callable[[Tensor], Tensor], path: str) -> Activation:
    """The activation of the catalogue with the values of a function, by name of the function if there is none."""
    at = torch.linspace(-4, 4, 33, dtype=torch.float64)
    slope = getattr(function, "negative_slope", getattr(function, "alpha", None))
    with torch.no_grad():
        seen = function(at.clone())
    for phi in activations.values():
        if not isinstance(phi, Activation):
            try:
                phi = phi(slope) if isinstance(slope, float) else None
            except (TypeError, ValueError):
                continue
        if phi is None or phi.expression.free_symbols - {s for s in phi.expression.free_symbols if s.name == "x"}:
            continue
        try:
            expected = tensor_function(phi.expression)(at)
        except ValueError:
            continue
        if torch.allclose(seen, expected, rtol=1e-6, atol=1e-7):
            return phi
    kind = getattr(function, "__name__", type(function).__name__)
    raise NotRecognised(f"{path} ({kind}) has the values of no activation in mf.activations")


def norm_kind(norm: nn.Module, path: str) -> Block:
    """LayerNorm or RMSNorm, by what the module computes."""
    weight, bias = getattr(norm, "weight", None), getattr(norm, "bias", None)
    width = None if weight is None else weight.shape[-1]
    width = width or int(torch.tensor(getattr(norm, "normalized_shape", (64,))).prod())
    x = torch.linspace(-1, 2, width, dtype=torch.float64)[None] ** 3
    x = x / x.square().mean().sqrt()
    with torch.no_grad():
        seen = copy.deepcopy(norm).double().cpu()(x)
        plainly = {LayerNorm(): nn.functional.layer_norm(x, (width,)), RMSNorm(): x / x.square().mean(-1, keepdim=True).sqrt()}
        for kind, plain in plainly.items():
            expected = plain if weight is None else weight.double().cpu() * plain
            expected = expected if bias is None else expected + bias.double().cpu()
            if (seen - expected).square().mean() <= TOLERANCE**2 * expected.square().mean():
                return kind
    raise NotRecognised(f"{path} ({type(norm).__name__}) is neither a layer norm nor an RMS norm")
