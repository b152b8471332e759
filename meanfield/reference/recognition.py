"""The parts of a torch model by what they compute: activations and norms are known by their values, not by their names."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from meanfield.activation import Activation
from meanfield.blocks.algebra import Block
from meanfield.blocks.norms import LayerNorm, RMSNorm
from meanfield.catalogue import activations
from meanfield.reference.expressions import tensor_function
from meanfield.symbols import known

__all__ = ["TOLERANCE", "Layers", "NotRecognised", "activation_of", "norm_of"]

x = known("x")

#: relative difference from a formula that counts as rounding: norms divide by sqrt(variance + 1e-5)
TOLERANCE = 1e-4


class NotRecognised(ValueError):
    """A part of a model that has no reading, by name: a ValueError.

    Examples
    --------
    >>> import torch, meanfield as mf
    >>> mf.reference.describe(torch.nn.Sequential(torch.nn.Conv1d(1, 1, 1)))
    Traceback (most recent call last):
        ...
    meanfield.reference.recognition.NotRecognised: 0 (Conv1d) is no Linear, activation, LayerNorm, RMSNorm, Dropout or Identity
    """


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
    """The activation of the catalogue that has the values of a function; raises NotRecognised with its name where none has."""
    at = torch.linspace(-12, 12, 193, dtype=torch.float64)
    with torch.no_grad():
        seen = function(at.clone())
    for phi in _candidates(function):
        if torch.allclose(seen, tensor_function(phi.expression)(at), rtol=1e-6, atol=1e-7):
            return phi
    kind = getattr(function, "__name__", type(function).__name__)
    raise NotRecognised(f"{path} ({kind}) has the values of no activation in mf.activations")


def _candidates(function: Callable[[Tensor], Tensor]) -> Iterator[Activation]:
    """the catalogue, and its families at the parameter that a torch module carries"""
    for attribute, families in (("negative_slope", ("leaky_relu",)), ("alpha", ("elu", "celu"))):
        value = getattr(function, attribute, None)
        if isinstance(value, float):
            yield from (activations[name](value) for name in families)
    yield from (entry for entry in activations.values() if entry.expression.free_symbols == {x})


def norm_of(norm: nn.Module, path: str) -> tuple[Block, Tensor | None]:
    """LayerNorm or RMSNorm, by what the module computes, and its gain: its weight, or 1 more."""
    weight, bias = getattr(norm, "weight", None), getattr(norm, "bias", None)
    width = None if weight is None else weight.shape[-1]
    width = width or int(torch.tensor(getattr(norm, "normalized_shape", (64,))).prod())
    at = torch.linspace(-1, 2, width, dtype=torch.float64)[None] ** 3
    at = 3 * at / at.square().mean().sqrt()  # not of norm 1, which an RMS norm would leave as it is
    with torch.no_grad():
        seen = copy.deepcopy(norm).double().cpu()(at)
        plainly = {LayerNorm(): nn.functional.layer_norm(at, (width,)), RMSNorm(): at / at.square().mean(-1, keepdim=True).sqrt()}
        gains = (None,) if weight is None else (weight.detach(), 1 + weight.detach())
        for (kind, plain), gain in itertools.product(plainly.items(), gains):
            expected = plain if gain is None else gain.double().cpu() * plain
            expected = expected if bias is None else expected + bias.double().cpu()
            if (seen - expected).square().mean() <= TOLERANCE**2 * expected.square().mean():
                return kind, gain
    raise NotRecognised(f"{path} ({type(norm).__name__}) is neither a layer norm nor an RMS norm")
