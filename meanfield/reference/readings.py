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
from typing import Any

import torch
from torch import Tensor, nn

from meanfield.reference.drawing import seeded
from meanfield.reference.layouts import LAYOUTS, Layout, find, layout_of, missing
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
    norms: tuple[nn.Module, ...]
    branch_norms: tuple[nn.Module, ...]
    activation: Callable[[Tensor], Tensor]
    layer_scales: tuple[Tensor | None, Tensor | None]
    heads: int
    key_heads: int
    scaling: float
    form: str
    causal: bool
    angles: Tensor | None
    neighbours: bool
    head_norms: tuple[nn.Module, nn.Module] | None
    cap: float | None

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
        plain = (nn.Identity(), nn.Identity())
        parts = (self.norms or plain, (self._attend, self._feed), self.branch_norms or plain, self.layer_scales)
        for norm, branch, branch_norm, scale in zip(*parts, strict=True):
            out = branch_norm(branch(x if self.form == "post-norm" else norm(start if self.form == "parallel" else x)))
            out = out if scale is None else scale * out
            x = norm(x + out) if self.form == "post-norm" else x + out
        return x

    def _attend(self, x: Tensor) -> Tensor:
        query, key, value = (
            self._normed(role, self.matrices[role](x)).reshape(*x.shape[:-1], count, -1).transpose(-2, -3)
            for role, count in (("query", self.heads), ("key", self.key_heads), ("value", self.key_heads))
        )
        if self.angles is not None:
            query, key = self._turned(query), self._turned(key)
        key, value = (t.repeat_interleave(self.heads // self.key_heads, -3) for t in (key, value))
        logits = self.scaling * query @ key.transpose(-1, -2)
        if self.cap is not None:
            logits = self.cap * torch.tanh(logits / self.cap)
        if self.causal:
            logits = logits.masked_fill(torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        return self.matrices["output"]((torch.softmax(logits, -1) @ value).transpose(-2, -3).flatten(-2))

    def _normed(self, role: str, x: Tensor) -> Tensor:
        """queries and keys under norms of their own: of each head, or of all"""
        if self.head_norms is None or role == "value":
            return x
        norm = self.head_norms[0 if role == "query" else 1]
        weight = getattr(norm, "weight", None)
        whole = weight is not None and weight.shape[-1] == x.shape[-1]
        normed: Tensor = norm(x) if whole else norm(x.reshape(*x.shape[:-1], -1, self.size)).flatten(-2)
        return normed

    def _turned(self, x: Tensor) -> Tensor:
        """coordinates k and k + size/2 of the first so many as a pair, or neighbours"""
        assert self.angles is not None
        size = self.angles.shape[-1]
        pairs, rest = x[..., : 2 * size], x[..., 2 * size :]
        first, second = (pairs[..., ::2], pairs[..., 1::2]) if self.neighbours else pairs.chunk(2, -1)
        cos, sin = self.angles.cos(), self.angles.sin()
        turned = [first * cos - second * sin, second * cos + first * sin]
        return torch.cat([torch.stack(turned, -1).flatten(-2) if self.neighbours else torch.cat(turned, -1), rest], -1)

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
    if layout.query == layout.key:
        heads, (rows, width) = heads_of(layout, block, path), found["query"].weight.shape
        said: int | None = getattr(find(block, layout.attention), "head_dim", None)
        size = said or width // heads
        shared, left = divmod(rows - heads * size, 2 * size)  # heads of keys and values, as many as there are rows for
        if left or not 0 < shared <= heads:
            raise NotRecognised(f"{path}.{layout.query}: {rows} rows are not those of {heads} heads of {size} with keys and values")
        found |= _unpacked(found["query"], ("query", "key", "value"), [heads * size, shared * size, shared * size], layout.by_head * heads)
    if layout.gate == layout.up:
        half, _ = divmod(found["up"].fan_out, 2)
        found |= _unpacked(found["up"], ("gate", "up"), [half, half])
    return found


def _unpacked(packed: Matrix, roles: tuple[str, ...], sizes: list[int], heads: int = 0) -> dict[str, Matrix]:
    """parts of a matrix, one behind the other, or where all are as large and `heads` is given, of each head together"""

    def parts(whole: Tensor) -> tuple[Tensor, ...]:
        together = heads and len(set(sizes)) == 1
        return tuple(whole.view(heads, len(sizes), -1, *whole.shape[1:]).unbind(1) if together else torch.split(whole, sizes))

    biases = [None] * len(sizes) if packed.bias is None else parts(packed.bias)
    return {role: Matrix(w, b) for role, w, b in zip(roles, parts(packed.weight), biases, strict=True)}


def read_block(block: nn.Module, path: str) -> Reading:
    """The reading of a block that agrees with what it computes.

    Raises NotRecognised where no layout fits, a parameter has no part in it, or the block computes something else.
    """
    kind = f"{path} ({type(block).__name__})"
    layout = layout_of(block)
    if layout is None:
        raise NotRecognised(f"{kind} has no known layout: {_nearest(block)}")
    left = _unread(block, layout)
    if left:
        raise NotRecognised(f"{kind}: {', '.join(left)} {'have' if len(left) > 1 else 'has'} no place in a {layout.name}")
    nearest: list[tuple[float, Reading]] = []
    for readings in _proposals(layout, copy.deepcopy(block).double().cpu().eval(), path):
        nearest.append(min(readings, key=lambda found: found[0]))
        if nearest[-1][0] <= TOLERANCE:
            return nearest[-1][1]
    difference, best = min(nearest, key=lambda found: found[0])
    raise NotRecognised(
        f"{kind} does not compute what a {layout.name} does: the nearest reading ({best.form}"
        f"{', causal' * best.causal}) is off by {difference:.1g} of its branches"
    )


def _nearest(block: nn.Module) -> str:
    """what keeps a block from the layout it has most parts of, relative to what that one needs"""
    lacks, layout = min(((missing(entry, block), entry) for entry in LAYOUTS), key=lambda found: len(found[0]) / len(found[1].required))
    if 2 * len(lacks) <= len(set(layout.required)):
        return f"the nearest is a {layout.name}, and it has no {', '.join(lacks)}"
    known = ", ".join(entry.name.removeprefix("transformers ") for entry in LAYOUTS)
    return f"known are the layers of torch.nn.Sequential, and of transformer libraries {known}"


def _unread(block: nn.Module, layout: Layout) -> list[str]:
    scales = () if layout.layer_scales is None else layout.layer_scales
    claimed = (*layout.required, *scales, layout.query.replace("weight", "bias"))
    return [name for name, _ in block.named_parameters() if not any(name == path or name.startswith(f"{path}.") for path in claimed)]


def _proposals(layout: Layout, block: nn.Module, path: str) -> Iterator[list[tuple[float, Reading]]]:
    """how far the block is from every reading, relative to its branches; one list for each way to turn queries and keys by positions"""
    matrices, attention = weights_of(layout, block, path), find(block, layout.attention)
    width, heads = matrices["query"].weight.shape[-1], heads_of(layout, block, path)
    size = matrices["query"].fan_out // heads
    scaling = next((v for name in ("scaling", "scale") if isinstance(v := getattr(attention, name, None), float)), size**-0.5)
    norms, branch_norms = (tuple(find(block, path) for path in paths) for paths in (layout.norms, layout.branch_norms))
    head_norms = None if layout.head_norms is None else (find(block, layout.head_norms[0]), find(block, layout.head_norms[1]))
    first, second = layout.layer_scales or ("", "")
    scales = (_layer_scale(block, first), _layer_scale(block, second))
    with seeded(0, torch.device("cpu")), torch.no_grad():
        x = torch.randn(2, 5, width, dtype=torch.float64)
        positions = torch.outer(torch.arange(5.0), torch.rand(getattr(attention, "rotary_ndims", size) // 2)).double()
        for angles, neighbours, handed in _turnings(positions, block):
            out = _run(block, x, path, handed)
            found = []
            for form, causal in itertools.product(("pre-norm", "post-norm", "parallel"), (False, True)):
                reading = Reading(
                    layout, path, matrices, norms, branch_norms, find(block, layout.activation), scales, heads,
                    matrices["key"].fan_out // size, scaling, form, causal, angles, neighbours, head_norms,
                    getattr(attention, "attn_logit_softcapping", None),
                )  # fmt: skip
                expected = reading.branches(x)
                size_of = (expected - x).square().mean().sqrt() + 1e-30
                found.append((float((out - expected).square().mean().sqrt() / size_of), reading))
            yield found


def _turnings(positions: Tensor, block: nn.Module) -> Iterator[tuple[Tensor | None, bool, Tensor]]:
    """angles, whether neighbours are pairs, and how the block is handed the angles"""
    halves, apart = torch.cat([positions, positions], -1), positions.repeat_interleave(2, -1)
    if "position_embeddings" in inspect.signature(block.forward).parameters:
        yield positions, False, halves
        yield positions, True, apart
        yield positions, True, halves
    yield None, False, halves


def _run(block: nn.Module, x: Tensor, path: str, angles: Tensor) -> Tensor:
    known: dict[str, Any] = {"attention_mask": None, "position_embeddings": (angles.cos()[None], angles.sin()[None])}
    if not getattr(getattr(block, "config", None), "alibi", True):
        known["alibi"] = None
    asked = inspect.signature(block.forward).parameters
    try:
        out = block(x, **{name: value for name, value in known.items() if name in asked})
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError) as error:
        raise NotRecognised(f"{path} ({type(block).__name__}) does not run on tokens alone: {error}") from error
    first: Tensor = out[0] if isinstance(out, tuple) else out
    return first


def _layer_scale(block: nn.Module, path: str) -> Tensor | None:
    """the factors on a branch, where the layout has them and the block uses them"""
    part = find(block, path) if path else None
    scale: Tensor | None = next((p for p in part.parameters()), None) if isinstance(part, nn.Module) else None
    return scale
