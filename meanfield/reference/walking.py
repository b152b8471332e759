"""States along a network and the gradients at them, with the activations of one module in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Step", "Walk", "evaluating", "steps_of"]

#: makes a gradient at the output from the output
Seed = Callable[[Tensor], Tensor]


@dataclass
class Step:
    """A module with what it is called with beside the state, which is its first argument or the keyword of that name."""

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    keyword: str | None = None

    def __call__(self, x: Tensor) -> Tensor:
        out = self.module(x, *self.args, **self.kwargs) if self.keyword is None else self.module(**{**self.kwargs, self.keyword: x})
        return _first(out)


@dataclass
class Walk:
    """One module after another. Only the states are kept; backward, each module runs again, with the same random numbers."""

    steps: Sequence[Step]

    def moments(self, x: Tensor, seed: Seed, record: Callable[[Tensor, Tensor], Any]) -> list[Any]:
        """`record(state, gradient)` at every state, the input first."""
        states, random = [x.detach()], []
        with torch.no_grad():
            for step in self.steps:
                random.append(_random_state(x.device))
                states.append(step(states[-1]).detach())
        gradient = seed(states[-1])
        after = _random_state(x.device)
        found = [record(states[-1], gradient)]
        for step, numbers in zip(reversed(self.steps), reversed(random), strict=True):
            states.pop()
            start = states[-1].requires_grad_()
            _set_random_state(numbers, x.device)
            with torch.enable_grad():
                (gradient,) = torch.autograd.grad(step(start), start, gradient)
            found.append(record(start.detach(), gradient))
        _set_random_state(after, x.device)
        return found[::-1]


def steps_of(
    model: nn.Module, modules: Sequence[nn.Module], inputs: Any, replace: Callable[[Tensor], Tensor] | None
) -> tuple[list[Step], list[Tensor]]:
    """The modules as steps, as the model calls them on its inputs, and the states between them.

    `replace` makes the state that the first module sees from the one the model would hand it.
    Raises ValueError where a module is not called exactly once, or not on the output of the one before it.
    """
    steps: list[Step] = []
    states: list[Tensor] = []
    outputs: list[Tensor] = []

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        keyword = None if args else next((k for k, v in kwargs.items() if isinstance(v, Tensor) and v.is_floating_point()), None)
        x = args[0] if keyword is None else kwargs[keyword]
        if not steps and replace is not None:
            x = replace(x)
        steps.append(Step(module, args[1:], dict(kwargs), keyword))
        states.append(x)
        return ((x, *args[1:]), kwargs) if keyword is None else (args, {**kwargs, keyword: x})

    def after(module: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        outputs.append(_first(out))

    handles = [h for m in modules for h in (m.register_forward_pre_hook(before, with_kwargs=True), m.register_forward_hook(after))]
    try:
        with torch.no_grad():
            _call(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    if [s.module for s in steps] != list(modules):
        raise ValueError("modules: the model does not call each of them once, in that order")
    for i, (out, x) in enumerate(zip(outputs, states[1:], strict=False), 1):
        if out.shape != x.shape or not torch.equal(out, x):
            raise ValueError(f"modules: number {i} is not called on the output of the one before it: name neighbours on the main path")
    return steps, [*states, outputs[-1]]


def _call(model: nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def _first(out: Any) -> Tensor:
    """the state in what a module returns"""
    state = out[0] if isinstance(out, (tuple, list)) else out
    if not isinstance(state, Tensor):
        raise TypeError(f"a measured module returned {type(state).__name__}: expected a tensor, or a tuple that starts with one")
    return state


@contextmanager
def evaluating(model: nn.Module, as_it_is: bool) -> Iterator[None]:
    """Within, every module is in eval mode unless `as_it_is`; after, each in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    if not as_it_is:
        model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(state: Tensor, device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
