"""What `measure` was asked for: the modules of a model, how wide they are, and what goes in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from meanfield.reference.inputs import Start, start_of
from meanfield.reference.stacks import block_lists

__all__ = ["in_place_of", "input_of", "modules_of", "moved", "names_of", "width_of"]


def modules_of(model: Any) -> list[nn.Module]:
    """A sequence of modules, checked."""
    parts = list(model) if isinstance(model, Sequence) else [model]
    for part in parts:
        if not isinstance(part, nn.Module):
            raise TypeError(f"model: expected a torch.nn.Module or a sequence of them, got {type(part).__name__}")
    return parts


def names_of(model: nn.Module, modules: Sequence[str | nn.Module] | None) -> tuple[str, ...]:
    """The modules asked for by name, or the layers of the model."""
    if modules is None:
        if isinstance(model, nn.Sequential):
            if not len(model):
                raise ValueError(f"model = {model!r} has no modules to measure")
            return tuple(model._modules)  # a module that stands twice, twice
        lists = list(block_lists(model))
        if len(lists) != 1:
            raise ValueError(f"modules: which layers of {type(model).__name__} to measure is not known: give their names")
        prefix, blocks = lists[0]
        return tuple(f"{prefix}.{name}" for name, _ in blocks) if prefix else ("",)
    known = {id(m): name for name, m in model.named_modules()}
    names = [m if isinstance(m, str) else known.get(id(m), "") for m in modules]
    for name, asked in zip(names, modules, strict=True):
        if name not in known.values() or not name:
            raise ValueError(f"modules: {asked if isinstance(asked, str) else type(asked).__name__} is no module of {type(model).__name__}")
    if not names:
        raise ValueError("modules is empty: give at least one name")
    return tuple(names)


def width_of(model: nn.Module, first: nn.Module) -> int:
    """How wide the input of the first module is."""
    known = getattr(model, "width", None)
    if isinstance(known, int):
        return known
    for part in first.modules():
        if isinstance(part, nn.Linear):
            return int(part.in_features)
        if isinstance(part, nn.LayerNorm):
            return int(part.normalized_shape[-1])
    raise TypeError(f"width: {type(first).__name__} does not say how wide it is; give a number")


def moved(inputs: Any, where: torch.device) -> Any:
    """Inputs on a device."""
    if isinstance(inputs, Tensor):
        return inputs.to(where)
    if isinstance(inputs, Mapping):
        return {k: moved(v, where) for k, v in inputs.items()}
    return tuple(moved(v, where) for v in inputs) if isinstance(inputs, tuple) else inputs


def in_place_of(given: Start, x: Tensor) -> Tensor:
    """Tokens in the place of a state of the model."""
    if x.dim() != 3 or x.shape[-2] != given.n:
        raise ValueError(f"n = {given.n}: the model makes states of shape {tuple(x.shape)} of these inputs")
    return given.tokens(x.shape[0], x.shape[-1], x.dtype, x.device)


def input_of(model: nn.Module, q: Any, p: Any, c: Any, gap: Any, n: int | None) -> Start:
    """The input asked for, or the one the model was built with."""
    built: Start | None = getattr(model, "start", None)
    mixed: int | None = getattr(model, "tokens", None)
    if q is None and p is c is gap is None:
        if built is None:
            raise ValueError("no input: give q, and p, c or gap for several tokens (the model was built without)")
        return built if n is None else start_of(built.q, None, None, None if n == 1 else built.delta / built.q, n)
    if q is None:
        raise ValueError("p, c or gap is given without q")
    return start_of(q, p, c, gap, n or mixed)
