r"""Reading a torch model: the library's network with the scales that its weights have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import nn

from meanfield.blocks.algebra import Block, Serial
from meanfield.reference.layouts import layout_of
from meanfield.reference.listing import listing
from meanfield.reference.recognition import Layers
from meanfield.reference.series import read_series
from meanfield.reference.stacks import read_stack

__all__ = ["Description", "describe"]

Floats = NDArray[np.float64]

#: standard errors of a scale, estimated from its weights, up to which scales of different layers count as one
SAMPLING = 4.0


@dataclass(frozen=True, repr=False)
class Description:
    r"""A model as a network of the library.

    Attributes
    ----------
    net, depth : Block and whole number
        `mf.propagate(net, depth, q, p=..., n=...)` predicts the model: one repeat and how many there are where no scale depends on the
        layer, else all layers in series and 1.
    blocks : tuple of Block
        The layers one by one, with the scales of each.
    before, after : Block or None
        What a torch.nn.Sequential does before the first repeat and after the last.
    scales : mapping of names to arrays over the layers
        sigma = sqrt(fan_in mean W^2) of every matrix, root mean squares of biases, norm gains and layer scales.
    alike : bool
        Whether the layers are one: their scales agree within 4 standard errors of the estimates from so many weights.
    modules : tuple of str
        The names of the layers in the model, as `measure` takes them.
    outside : tuple of str
        Parts of the model with weights that are not described: embeddings, heads, final norms.
    caveats : tuple of str
        Where the law is not that of the model, by name.

    Examples
    --------
    >>> import torch, meanfield as mf
    >>> layers = [torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64)]
    >>> model = torch.nn.Sequential(*layers)
    >>> done = mf.reference.initialise_(model, {"linear": 1.5, "bias": 0.0}, seed=0)
    >>> seen = mf.reference.describe(model)
    >>> seen.alike, seen.depth, seen.modules, {name: values.round(1).tolist() for name, values in seen.scales.items()}
    (True, 2, ('2', '4'), {'sigma_w': [1.5, 1.5], 'sigma_b': [0.0, 0.0]})
    """

    layers: Layers
    scales: Mapping[str, Floats]
    alike: bool

    @property
    def depth(self) -> int:
        return len(self.layers.rows) if self.alike else 1

    @cached_property
    def net(self) -> Block:
        if not self.alike:
            return Serial(self.blocks)
        counts = {name: np.array([count[name] for count in self.layers.counts]) for name in self.scales}
        return self.layers.built({name: _pooled(values, counts[name]) for name, values in self.scales.items()})

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(self.layers.built(row) for row in self.layers.rows)

    @property
    def before(self) -> Block | None:
        return self.layers.before

    @property
    def after(self) -> Block | None:
        return self.layers.after

    @property
    def modules(self) -> tuple[str, ...]:
        return self.layers.names

    @property
    def outside(self) -> tuple[str, ...]:
        return self.layers.outside

    @property
    def caveats(self) -> tuple[str, ...]:
        return self.layers.caveats

    def __repr__(self) -> str:
        layers = len(self.modules)
        head = f"{layers} layer{'s' * (layers > 1)}" + (", all alike" if self.alike else ", scales differ between layers")
        rows = [("layer", [str(i) for i in range(layers)])]
        neutral = {name: 1.0 if name.startswith(("gain", "layer_scale")) else 0.0 for name in self.scales}
        rows += [(name, [f"{v:.4g}" for v in values]) for name, values in self.scales.items() if (values != neutral[name]).any()]
        lines = [head, listing(rows)]
        lines += [f"{name} = {part}" for name, part in (("before", self.before), ("after", self.after)) if part is not None]
        lines += [f"not described: {', '.join(self.outside)}"] * bool(self.outside)
        return "\n".join([*lines, *(f"caveat: {text}" for text in self.caveats)])


def describe(model: nn.Module) -> Description:
    r"""The network of the library that a torch model is, with the scales read off its weights, as it is in eval mode.

    Recognised are torch.nn.Sequential of Linear, activations, norms, Dropout, Identity and further Sequentials;
    torch.nn.TransformerEncoder and its layers; blocks laid out as those of timm and of Hugging Face ViT, DINOv2, CLIP, BERT, DistilBERT,
    GPT-2, OPT, GPT-NeoX, Phi, Phi-3, StarCoder2, Qwen3, Gemma 2 and 3, OLMo 2, Cohere, GLM, Nemotron, Falcon and Llama (also Mistral,
    Qwen2, Gemma, OLMo, Granite, Helium), with norms before or behind the branches or the sums, or with branches in parallel. A block is
    accepted only if it computes what the description says, on random tokens; activations are known by their values.

    Scales of different layers that agree within 4 standard errors of their estimates are one number; otherwise every layer has its own.

    Attention under a causal mask is described by `mf.CausalAttention`, with the frequencies of a rotary embedding where the model has one;
    the caveats say how far its law holds. Queries and keys with norms of their own have the size of the gains, gain_Q and gain_K, which
    is exact for wide heads. The epsilon of a norm is not described.

    Parameters
    ----------
    model : torch.nn.Module

    Raises
    ------
    NotRecognised
        A ValueError that names the module, parameter or activation that is not recognised, and what is.
    TypeError
        `model` is no torch module.

    Examples
    --------
    >>> import torch, meanfield as mf
    >>> layers = [torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64)]
    >>> seen = mf.reference.describe(torch.nn.Sequential(*layers))
    >>> seen.depth, seen.modules
    (2, ('2', '4'))
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model = {model!r}: expected a torch.nn.Module")
    if isinstance(model, nn.Sequential) and not any(layout_of(part) for part in model.modules()):
        return _assembled(read_series(model))
    return _assembled(read_stack(model))


def _assembled(layers: Layers) -> Description:
    scales = {name: np.array([row[name] for row in layers.rows]) for name in layers.rows[0]}
    alike = True
    for name, values in scales.items():
        counts = np.array([count[name] for count in layers.counts])
        pooled = _pooled(values, counts)
        alike &= bool((np.abs(values - pooled) <= SAMPLING / np.sqrt(2 * counts) * pooled).all())
    return Description(layers, scales, alike)


def _pooled(values: Floats, counts: NDArray[np.int64]) -> float:
    """the root mean square over all weights"""
    return float(np.sqrt(np.average(values**2, weights=counts)))
