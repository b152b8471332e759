r"""Where transformer libraries keep the parts of a block, and what one block computes, so that a reading can be checked by evaluation.

A layout only proposes: whether norms stand before or behind the branches, whether attention is causal and how logits are scaled is settled
by running the block beside the formula on random tokens. A block that computes anything else fits no reading.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from meanfield.reference.drawing import seeded
from meanfield.reference.recognition import TOLERANCE, NotRecognised

__all__ = ["LAYOUTS", "Layout", "Matrix", "Reading", "find", "layout_of", "read_block", "weights_of"]


@dataclass(frozen=True)
class Layout:
    """Dotted paths of the parts inside a block; `query`, `key` and `value` may be one packed matrix."""

    name: str
    norms: tuple[str, str]
    attention: str
    query: str
    key: str
    value: str
    output: str
    up: str
    down: str
    activation: str
    gate: str | None = None
    layer_scales: tuple[str, str] | None = None

    @property
    def required(self) -> tuple[str, ...]:
        gate = () if self.gate is None else (self.gate,)
        return (*self.norms, self.query, self.key, self.value, self.output, self.up, self.down, self.activation, *gate)


LAYOUTS = (
    Layout(
        "torch.nn.TransformerEncoderLayer", ("norm1", "norm2"), "self_attn", "self_attn.in_proj_weight", "self_attn.in_proj_weight",
        "self_attn.in_proj_weight", "self_attn.out_proj", "linear1", "linear2", "activation",
    ),
    Layout(
        "timm Block", ("norm1", "norm2"), "attn", "attn.qkv", "attn.qkv", "attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2", "mlp.act",
        layer_scales=("ls1", "ls2"),
    ),
    Layout(
        "transformers ViTLayer", ("layernorm_before", "layernorm_after"), "attention", "attention.q_proj", "attention.k_proj",
        "attention.v_proj", "attention.o_proj", "mlp.fc1", "mlp.fc2", "mlp.activation_fn",
    ),
    Layout(
        "transformers BertLayer", ("attention.output.LayerNorm", "output.LayerNorm"), "attention.self", "attention.self.query",
        "attention.self.key", "attention.self.value", "attention.output.dense", "intermediate.dense", "output.dense",
        "intermediate.intermediate_act_fn",
    ),
    Layout(
        "transformers GPT2Block", ("ln_1", "ln_2"), "attn", "attn.c_attn", "attn.c_attn", "attn.c_attn", "attn.c_proj", "mlp.c_fc",
        "mlp.c_proj", "mlp.act",
    ),
    Layout(
        "transformers LlamaDecoderLayer", ("input_layernorm", "post_attention_layernorm"), "self_attn", "self_attn.q_proj",
        "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj", "mlp.act_fn", gate="mlp.gate_proj",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Matrix:
    """A weight as (fan_out, fan_in) with its bias, and the slices of parameters they are."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight, self.bias)

    @property
    def sigma(self) -> float:
        """sqrt(fan_in mean W^2)."""
        return float(self.weight.detach().double().square().mean().mul(self.weight.shape[1]).sqrt())

    @property
    def sigma_b(self) -> float:
        return 0.0 if self.bias is None else float(self.bias.detach().double().square().mean().sqrt())


@dataclass(frozen=True)
class Reading:
    """One block: its matrices by role, norms, activation, and the facts that evaluation has settled."""

    layout: Layout
    path: str
    matrices: dict[str, Matrix]
    norms: tuple[nn.Module, nn.Module]
    activation: Callable[[Tensor], Tensor]
    layer_scales: tuple[Tensor | None, Tensor | None]
    heads: int
    key_heads: int
    scaling: float
    post: bool
    causal: bool
    angles: Tensor | None

    @property
    def rotary(self) -> bool:
        """Whether queries and keys are turned by an angle that grows with the position."""
        return self.angles is not None

    def branches(self, x: Tensor) -> Tensor:
        """What the block computes, in the order of its norms."""
        for norm, branch, scale in zip(self.norms, (self._attend, self._feed), self.layer_scales, strict=True):
            out = branch(x if self.post else norm(x))
            out = out if scale is None else scale * out
            x = norm(x + out) if self.post else x + out
        return x

    def _attend(self, x: Tensor) -> Tensor:
        query, key, value = (
            self.matrices[role](x).reshape(*x.shape[:-1], count, -1).transpose(-2, -3)
            for role, count in (("query", self.heads), ("key", self.key_heads), ("value", self.key_heads))
        )
        if self.angles is not None:
            query, key = self._turned(query), self._turned(key)
        key, value = (t.repeat_interleave(self.heads // self.key_heads, -3) for t in (key, value))
        logits = self.scaling * query @ key.transpose(-1, -2)
        if self.causal:
            logits = logits.masked_fill(torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        return self.matrices["output"]((torch.softmax(logits, -1) @ value).transpose(-2, -3).flatten(-2))

    def _turned(self, x: Tensor) -> Tensor:
        """coordinates k and k + size/2 as a pair"""
        assert self.angles is not None
        first, second = x.chunk(2, -1)
        cos, sin = self.angles.cos(), self.angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def _feed(self, x: Tensor) -> Tensor:
        units = self.matrices["up"](x)
        units = self.activation(self.matrices["gate"](x)) * units if "gate" in self.matrices else self.activation(units)
        return self.matrices["down"](units)


def find(module: nn.Module, path: str) -> Any:
    """The part at a dotted path, None if there is none."""
    part: Any = module
    for name in path.split("."):
        part = getattr(part, name, None)
        if part is None:
            return None
    return part


def _matrix(block: nn.Module, path: str) -> Matrix | None:
    """the matrix at a path: a Linear, a transposed one (Conv1D of transformers), or the packed weight of torch"""
    part = find(block, path)
    if isinstance(part, nn.Parameter):
        return Matrix(part, find(block, path.replace("weight", "bias")))
    weight = getattr(part, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        return None
    return Matrix(weight if isinstance(part, nn.Linear) else weight.T, part.bias)


def weights_of(layout: Layout, block: nn.Module) -> dict[str, Matrix]:
    """The matrices of a block by role; views of the parameters, so that writing to them changes the model."""
    found: dict[str, Matrix] = {}
    for role in ("query", "key", "value", "output", "up", "gate", "down"):
        path = getattr(layout, role)
        if path is None:
            continue
        matrix = _matrix(block, path)
        if matrix is None:
            raise NotRecognised(f"{path} of {type(block).__name__} is no matrix")
        found[role] = matrix
    if layout.query == layout.key:  # packed
        packed = found["query"]
        weights = packed.weight.chunk(3)
        biases = (None, None, None) if packed.bias is None else packed.bias.chunk(3)
        found |= {role: Matrix(w, b) for role, w, b in zip(("query", "key", "value"), weights, biases, strict=True)}
    return found


def layout_of(block: nn.Module) -> Layout | None:
    """The first layout whose parts the block has."""
    return next((layout for layout in LAYOUTS if all(find(block, path) is not None for path in layout.required)), None)


def read_block(block: nn.Module, path: str) -> Reading:
    """The reading of a block that agrees with what it computes.

    Raises NotRecognised where no layout fits, a parameter has no part in it, or the block computes something else.
    """
    kind = f"{path} ({type(block).__name__})"
    layout = layout_of(block)
    if layout is None:
        known = ", ".join(entry.name for entry in LAYOUTS)
        raise NotRecognised(f"{kind} has no known layout: known are {known}, and the layers of torch.nn.Sequential")
    left = _unread(block, layout)
    if left:
        raise NotRecognised(f"{kind}: {', '.join(left)} has no place in a {layout.name}")
    readings = list(_proposals(layout, copy.deepcopy(block).double().cpu().eval(), path))
    best, difference = readings[0], math.inf
    for reading, off in readings:
        if off < difference:
            best, difference = (reading, off), off
    if difference > TOLERANCE:
        raise NotRecognised(
            f"{kind} does not compute what a {layout.name} does: the nearest reading ({'post' if best[0].post else 'pre'}-norm"
            f"{', causal' * best[0].causal}) is off by {difference:.1g} of its branches"
        )
    return best[0]


def _unread(block: nn.Module, layout: Layout) -> list[str]:
    scales = () if layout.layer_scales is None else layout.layer_scales
    claimed = (*layout.required, *scales, layout.query.replace("weight", "bias"))
    return [name for name, _ in block.named_parameters() if not any(name == path or name.startswith(f"{path}.") for path in claimed)]


def _proposals(layout: Layout, block: nn.Module, path: str) -> Iterator[tuple[Reading, float]]:
    """every reading, and how far the block is from it relative to its branches"""
    matrices, attention = weights_of(layout, block), find(block, layout.attention)
    width = matrices["query"].weight.shape[1]
    heads = next((v for name in ("num_heads", "num_attention_heads") if isinstance(v := getattr(attention, name, None), int)), None)
    if heads is None:
        config = getattr(attention, "config", None)
        heads = getattr(config, "num_attention_heads", None)
    if heads is None:
        raise NotRecognised(f"{path}.{layout.attention} ({type(attention).__name__}) does not say how many heads it has")
    size = matrices["query"].weight.shape[0] // heads
    scaling = next((v for name in ("scaling", "scale") if isinstance(v := getattr(attention, name, None), float)), size**-0.5)
    rotary = "position_embeddings" in inspect.signature(block.forward).parameters
    norms = (find(block, layout.norms[0]), find(block, layout.norms[1]))
    first, second = layout.layer_scales or ("", "")
    scales = (_layer_scale(block, first), _layer_scale(block, second))
    with seeded(0, torch.device("cpu")), torch.no_grad():
        x = torch.randn(2, 5, width, dtype=torch.float64)
        angles = torch.outer(torch.arange(5.0), torch.rand(size // 2)).double() if rotary else None
        turned = (
            {}
            if angles is None
            else {"position_embeddings": tuple(f(torch.cat([angles, angles], -1))[None] for f in (torch.cos, torch.sin))}
        )
        try:
            out = block(x, **turned)
        except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError) as error:
            raise NotRecognised(f"{path} ({type(block).__name__}) does not run on tokens alone: {error}") from error
        out = out[0] if isinstance(out, tuple) else out
        for post, causal in itertools.product((False, True), (False, True)):
            reading = Reading(
                layout, path, matrices, norms, find(block, layout.activation), scales, heads,
                matrices["key"].weight.shape[0] // size, scaling, post, causal, angles,
            )  # fmt: skip
            expected = reading.branches(x)
            size_of = (expected - x).square().mean().sqrt() + 1e-30
            yield reading, float((out - expected).square().mean().sqrt() / size_of)


def _layer_scale(block: nn.Module, path: str) -> Tensor | None:
    """the factors on a branch, where the layout has them and the block uses them"""
    part = find(block, path) if path else None
    scale: Tensor | None = next((p for p in part.parameters()), None) if isinstance(part, nn.Module) else None
    return scale
