"""What one block of a transformer computes, so that a reading of its parts can be checked by evaluation.

Whether norms stand before or behind the branches, or the branches side by side, whether attention is causal and how logits are scaled is
settled by running the block beside the formula on random tokens. A block that computes anything else fits no reading.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from meanfield.reference.drawing import seeded
from meanfield.reference.layouts import LAYOUTS, Layout, find, layout_of
from meanfield.reference.recognition import TOLERANCE, NotRecognised

__all__ = ["Matrix", "Reading", "read_block", "weights_of"]


@dataclass(frozen=True)
class Matrix:
    """A weight as (..., fan_in) with its bias (...), views of parameters."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.flatten(0, -2), None if self.bias is None else self.bias.flatten())

    @property
    def fan_out(self) -> int:
        return int(self.weight.shape[:-1].numel())

    @property
    def sigma(self) -> float:
        """sqrt(fan_in mean W^2)."""
        return float(self.weight.detach().double().square().mean().mul(self.weight.shape[-1]).sqrt())

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
    form: str
    causal: bool
    angles: Tensor | None
    head_norms: tuple[nn.Module, nn.Module] | None

    @property
    def size(self) -> int:
        """Of a head."""
        return self.matrices["query"].fan_out // self.heads

    @property
    def rotary(self) -> bool:
        """Whether queries and keys are turned by an angle that grows with the position."""
        return self.angles is not None

    def branches(self, x: Tensor) -> Tensor:
        """What the block computes, in the order of its norms."""
        start = x
        for norm, branch, scale in zip(self.norms, (self._attend, self._feed), self.layer_scales, strict=True):
            out = branch(x if self.form == "post-norm" else norm(start if self.form == "parallel" else x))
            out = out if scale is None else scale * out
            x = norm(x + out) if self.form == "post-norm" else x + out
        return x

    def _attend(self, x: Tensor) -> Tensor:
        query, key, value = (
            self.matrices[role](x).reshape(*x.shape[:-1], count, -1).transpose(-2, -3)
            for role, count in (("query", self.heads), ("key", self.key_heads), ("value", self.key_heads))
        )
        if self.head_norms is not None:
            query, key = self.head_norms[0](query), self.head_norms[1](key)
        if self.angles is not None:
            query, key = self._turned(query), self._turned(key)
        key, value = (t.repeat_interleave(self.heads // self.key_heads, -3) for t in (key, value))
        logits = self.scaling * query @ key.transpose(-1, -2)
        if self.causal:
            logits = logits.masked_fill(torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        return self.matrices["output"]((torch.softmax(logits, -1) @ value).transpose(-2, -3).flatten(-2))

    def _turned(self, x: Tensor) -> Tensor:
        """coordinates k and k + size/2 of the first so many as a pair"""
        assert self.angles is not None
        size = self.angles.shape[-1]
        first, second, rest = torch.split(x, [size, size, x.shape[-1] - 2 * size], -1)
        cos, sin = self.angles.cos(), self.angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1)

    def _feed(self, x: Tensor) -> Tensor:
        units = self.matrices["up"](x)
        units = self.activation(self.matrices["gate"](x)) * units if "gate" in self.matrices else self.activation(units)
        return self.matrices["down"](units)


def _matrix(block: nn.Module, path: str) -> Matrix | None:
    """the matrix at a path: a Linear, a transposed one (Conv1D of transformers), or the packed weight of torch"""
    part = find(block, path)
    if isinstance(part, nn.Parameter):
        return Matrix(part, find(block, path.replace("weight", "bias")))
    weight = getattr(part, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        return None
    return Matrix(weight if isinstance(part, nn.Linear) else weight.T, part.bias)


def heads_of(layout: Layout, block: nn.Module, path: str) -> int:
    """How many heads the attention of a block has."""
    attention = find(block, layout.attention)
    names = ("num_heads", "num_attention_heads", "n_heads")
    for owner in (attention, getattr(attention, "config", None)):
        for name in names:
            if isinstance(count := getattr(owner, name, None), int):
                return count
    raise NotRecognised(f"{path}.{layout.attention} ({type(attention).__name__}) does not say how many heads it has")


def weights_of(layout: Layout, block: nn.Module, path: str) -> dict[str, Matrix]:
    """The matrices of a block by role; views of the parameters, so that writing to them changes the model."""
    found: dict[str, Matrix] = {}
    for role in ("query", "key", "value", "output", "up", "gate", "down"):
        part = getattr(layout, role)
        if part is None:
            continue
        matrix = _matrix(block, part)
        if matrix is None:
            raise NotRecognised(f"{part} of {type(block).__name__} is no matrix")
        found[role] = matrix
    if layout.query == layout.key:  # packed
        packed = found["query"]
        heads = heads_of(layout, block, path) if layout.by_head else 1
        weights, biases = _thirds(packed.weight, heads), [None] * 3 if packed.bias is None else _thirds(packed.bias, heads)
        found |= {role: Matrix(w, b) for role, w, b in zip(("query", "key", "value"), weights, biases, strict=True)}
    return found


def _thirds(packed: Tensor, heads: int) -> list[Tensor]:
    parts = packed.view(heads, 3, -1, *packed.shape[1:]).unbind(1)
    return list(parts) if heads > 1 else [part[0] for part in parts]


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
            f"{kind} does not compute what a {layout.name} does: the nearest reading ({best[0].form}"
            f"{', causal' * best[0].causal}) is off by {difference:.1g} of its branches"
        )
    return best[0]


def _unread(block: nn.Module, layout: Layout) -> list[str]:
    scales = () if layout.layer_scales is None else layout.layer_scales
    claimed = (*layout.required, *scales, layout.query.replace("weight", "bias"))
    return [name for name, _ in block.named_parameters() if not any(name == path or name.startswith(f"{path}.") for path in claimed)]


def _proposals(layout: Layout, block: nn.Module, path: str) -> Iterator[tuple[Reading, float]]:
    """every reading, and how far the block is from it relative to its branches"""
    matrices, attention = weights_of(layout, block, path), find(block, layout.attention)
    width, heads = matrices["query"].weight.shape[-1], heads_of(layout, block, path)
    size = matrices["query"].fan_out // heads
    scaling = next((v for name in ("scaling", "scale") if isinstance(v := getattr(attention, name, None), float)), size**-0.5)
    arguments = inspect.signature(block.forward).parameters
    rotary = "position_embeddings" in arguments
    without = {"attention_mask": None} if "attention_mask" in arguments else {}
    norms = (find(block, layout.norms[0]), find(block, layout.norms[1]))
    head_norms = None if layout.head_norms is None else (find(block, layout.head_norms[0]), find(block, layout.head_norms[1]))
    turning = getattr(attention, "rotary_ndims", size) // 2
    first, second = layout.layer_scales or ("", "")
    scales = (_layer_scale(block, first), _layer_scale(block, second))
    with seeded(0, torch.device("cpu")), torch.no_grad():
        x = torch.randn(2, 5, width, dtype=torch.float64)
        angles = torch.outer(torch.arange(5.0), torch.rand(turning)).double() if rotary else None
        turned = (
            {}
            if angles is None
            else {"position_embeddings": tuple(f(torch.cat([angles, angles], -1))[None] for f in (torch.cos, torch.sin))}
        )
        try:
            out = block(x, **without, **turned)
        except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError) as error:
            raise NotRecognised(f"{path} ({type(block).__name__}) does not run on tokens alone: {error}") from error
        out = out[0] if isinstance(out, tuple) else out
        for form, causal in itertools.product(("pre-norm", "post-norm", "parallel"), (False, True)):
            reading = Reading(
                layout, path, matrices, norms, find(block, layout.activation), scales, heads,
                matrices["key"].fan_out // size, scaling, form, causal, angles, head_norms,
            )  # fmt: skip
            expected = reading.branches(x)
            size_of = (expected - x).square().mean().sqrt() + 1e-30
            yield reading, float((out - expected).square().mean().sqrt() / size_of)


def _layer_scale(block: nn.Module, path: str) -> Tensor | None:
    """the factors on a branch, where the layout has them and the block uses them"""
    part = find(block, path) if path else None
    scale: Tensor | None = next((p for p in part.parameters()), None) if isinstance(part, nn.Module) else None
    return scale
