r"""Drawing the weights of a torch model anew, by a rule, and a record of what was done to every tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import sympy as sp
import torch
from torch import Tensor, nn

from meanfield import faces
from meanfield.reference.drawing import seeded
from meanfield.reference.draws import Draw, gaussian
from meanfield.reference.layouts import layout_of
from meanfield.reference.listing import listing
from meanfield.reference.readings import weights_of
from meanfield.reference.recognition import NotRecognised
from meanfield.reference.rules import PARTS, Rule, Slot
from meanfield.reference.stacks import block_lists

__all__ = ["Change", "Initialisation", "initialise_"]


@dataclass(frozen=True)
class Change:
    """What was done to a tensor: the standard deviation that the rule asked for (None: nothing), and those of its entries."""

    slot: Slot
    asked: float | None
    before: float
    after: float


@dataclass(frozen=True, repr=False)
class Initialisation(faces.Labelled):
    """Every tensor of a model with what `initialise_` did to it.

    Attributes
    ----------
    changes : tuple of Change
        In the order of the model, each with the tensor's `slot` (name, part, fan_in, fan_out, ...), the standard deviation that the rule
        `asked` for (None where it was left), and that of the entries `before` and `after`.

    Examples
    --------
    >>> import torch, meanfield as mf
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64))
    >>> done = mf.reference.initialise_(model, {"linear": 1.0}, seed=0)
    >>> [(change.slot.name, change.slot.part, change.asked) for change in done.changes[:2]]
    [('0.weight', 'linear', 0.125), ('0.bias', 'bias', None)]
    >>> round(done.changes[0].after, 2), done.changes[1].after == done.changes[1].before
    (0.12, True)
    """

    changes: tuple[Change, ...]

    def __repr__(self) -> str:
        columns = [
            ("tensor", [c.slot.name for c in self.changes]),
            ("part", [c.slot.part for c in self.changes]),
            ("fan in", [str(c.slot.fan_in) for c in self.changes]),
            ("fan out", [str(c.slot.fan_out) for c in self.changes]),
            ("asked", ["left" if c.asked is None else f"{c.asked:.4g}" for c in self.changes]),
            ("before", [f"{c.before:.4g}" for c in self.changes]),
            ("after", [f"{c.after:.4g}" for c in self.changes]),
        ]
        return listing(columns)


def initialise_(model: nn.Module, rule: Rule, *, draw: Draw = gaussian, seed: int | None = None) -> Initialisation:
    r"""Draw the weights of a model anew, in place, with the standard deviations that a rule gives, and say what was done.

    Parameters
    ----------
    model : torch.nn.Module
        The parts of blocks that `describe` knows have their names (query, key, value, output, up, gate, down); elsewhere a tensor is a
        "linear" or "embedding" matrix, a "bias", or "other" (norms among them).
    rule : function, mapping, or object with `std`
        A function of a slot (name, part, fan_in, fan_out, block, blocks, ends_branch, role) that returns the standard deviation of the
        entries, or None to leave them; a mapping of parts to gains, std = gain/sqrt(fan_in) for a matrix and the gain itself for a bias;
        or a convention of `mf.scaling`, by its `std(tensor, blocks)`. Rules at hand: `mf.reference.rules`.
    draw : function of a tensor and a standard deviation
        Fills the tensor, a view of (fan_out, fan_in): one of `mf.reference.draws`, or your own; independent Gaussians if left out.
    seed : whole number, optional
        Torch's random state is then left as it was.

    Raises
    ------
    ValueError, TypeError
        Before any tensor is changed: a standard deviation that is negative or not finite, with the tensor's name; a rule that is none of
        the above.

    Examples
    --------
    >>> import torch, meanfield as mf
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
    >>> done = mf.reference.initialise_(model, {"linear": 2**0.5, "bias": 0.0}, seed=0)
    >>> [(c.slot.name, c.asked) for c in done.changes][1:]
    [('0.bias', 0.0), ('2.weight', 0.1767766952966369), ('2.bias', 0.0)]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model = {model!r}: expected a torch.nn.Module")
    slots = list(_slots(model))
    asked = [_asked(rule, slot) for slot, _ in slots]
    device = next((t.device for _, t in slots), torch.device("cpu"))
    changes = []
    with torch.no_grad(), nullcontext() if seed is None else seeded(seed, device):
        for (slot, tensor), std in zip(slots, asked, strict=True):
            before = _spread(tensor)
            if std is not None:
                _fill(tensor, std, draw)
            changes.append(Change(slot, std, before, _spread(tensor)))
    return Initialisation(tuple(changes))


def _asked(rule: Rule, slot: Slot) -> float | None:
    if isinstance(rule, Mapping):
        unknown = sorted(set(rule) - set(PARTS))
        if unknown:
            raise ValueError(f"rule = {dict(rule)!r}: {', '.join(map(repr, unknown))} is no part of a model; expected {', '.join(PARTS)}")
        gain = rule.get(slot.part)
        value = gain if gain is None or slot.fan_in == 0 else float(gain) / math.sqrt(slot.fan_in)
    elif hasattr(rule, "std"):
        value = rule.std(slot, sp.Integer(slot.blocks)) if slot.fan_in else None
    elif callable(rule):
        value = rule(slot)
    else:
        raise TypeError(f"rule = {rule!r}: expected a function of a slot, a mapping of parts to gains, or std(tensor, blocks)")
    if value is None:
        return None
    std = float(value)
    if not 0 <= std < math.inf:
        raise ValueError(f"the rule asks for a standard deviation of {std} for {slot.name} ({slot.part}): expected a finite number >= 0")
    return std


def _fill(tensor: Tensor, std: float, draw: Draw) -> None:
    """a matrix that lies scattered in a packed one is drawn as a whole"""
    if std == 0:
        tensor.zero_()
    elif tensor.dim() > 2:
        whole = tensor.new_empty(tensor.shape[:-1].numel(), tensor.shape[-1])
        draw(whole, std)
        tensor.copy_(whole.view_as(tensor))
    else:
        draw(tensor, std)


def _spread(tensor: Tensor) -> float:
    """root mean square: what a zero-mean draw has for a standard deviation"""
    return float(tensor.detach().double().square().mean().sqrt())


def _slots(model: nn.Module) -> Iterator[tuple[Slot, Tensor]]:
    """every parameter once, packed matrices in their parts, as views of (fan_out, fan_in)"""
    found: dict[int, list[tuple[Slot, Tensor]]] = {}
    names = {id(w): name for name, w in model.named_parameters()}
    for prefix, blocks in block_lists(model):
        for index, (name, block) in enumerate(blocks):
            layout = layout_of(block)
            if layout is None:
                raise NotRecognised(f"{prefix}.{name} ({type(block).__name__}) has no known layout, unlike its neighbours")
            for part, matrix in weights_of(layout, block, f"{prefix}.{name}").items():
                for tensor, fan_in in ((matrix.weight, matrix.weight.shape[-1]), (matrix.bias, 0)):
                    if tensor is None:
                        continue
                    whole = tensor if tensor._base is None else tensor._base
                    kind = part if fan_in else "bias"
                    slot = Slot(
                        names[id(whole)], kind, fan_in, tensor.numel() // max(fan_in, 1), index, len(blocks), part in ("output", "down")
                    )
                    found.setdefault(id(whole), []).append((slot, tensor))
    blocks_there = max((slot.blocks for slots in found.values() for slot, _ in slots), default=0)
    kinds = {id(m.weight): "embedding" for m in model.modules() if isinstance(m, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            kinds[id(module.weight)] = "linear"
            kinds[id(module.bias)] = "bias"
    linear = sum(kind == "linear" for kind in kinds.values())
    for name, tensor in model.named_parameters():
        if id(tensor) in found:
            yield from found[id(tensor)]
            continue
        part = kinds.get(id(tensor), "other")
        # an embedding is stored as (inputs, width), and an input reads one row
        fan_in = {"linear": tensor.shape[-1], "embedding": 1}.get(part, 0)
        fan_out = {"linear": tensor.shape[0], "embedding": tensor.shape[-1]}.get(part, tensor.numel())
        yield Slot(name, part, fan_in, fan_out, None, blocks_there or linear, False), tensor
