"""States along a network and the gradients at them, with the activations of one module in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Step", "Walk", "evaluating", "steps_of"]

#: makes a gradient at the output from the output
Seed = Callable[[Tensor], Tensor]

#: what transformers calls the keys and values of earlier calls, before 5.24 and since
_CACHES = ("past_key_values", "cache")


@dataclass
class Step:
    """A module with what it is called with beside the state, which is its first argument or the keyword of that name."""

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    keyword: str | None = None

    def __call__(self, x: Tensor) -> Tensor:
        x = x.clone()  # the module may write on its argument
        out = self.module(x, *self.args, **self.kwargs) if self.keyword is None else self.module(**{**self.kwargs, self.keyword: x})
        return _first(out)


@dataclass
class Walk:
    """One module after another. Only the states are kept; backward, each module runs again, with the same random numbers.

    Raises ValueError where a module then gives something else: it has a state of its own.
    """

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
            out = states.pop()
            start = states[-1].requires_grad_()
            _set_random_state(numbers, x.device)
            with torch.enable_grad():
                again = step(start)
                _check_same(step.module, out.detach(), again.detach())
                (gradient,) = torch.autograd.grad(again, start, gradient)
            found.append(record(start.detach(), gradient))
        _set_random_state(after, x.device)
        return found[::-1]


def steps_of(
    model: nn.Module, modules: Sequence[nn.Module], inputs: Any, replace: Callable[[Tensor], Tensor] | None
) -> tuple[list[Step], Tensor]:
    """The modules as steps, as the model calls them on its inputs, and the state before the first.

    `replace` makes the state that the first module sees from the one the model would hand it. Models that can cache keys and values for
    later calls are called without.
    Raises ValueError where a module is not called exactly once, or not on the output of the one before it.
    """
    steps: list[Step] = []
    first: list[Tensor] = []
    last: list[Tensor] = []
    apart: list[int] = []

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        kept = next((name for name in _CACHES if kwargs.get(name) is not None), None)
        if kept:
            raise ValueError(f"inputs: the model hands its modules {kept}, which grows with every call: give inputs without")
        keyword = None if args else next((k for k, v in kwargs.items() if isinstance(v, Tensor) and v.is_floating_point()), None)
        x = args[0] if keyword is None else kwargs[keyword]
        if not steps:
            x = x if replace is None else replace(x)
            first.append(x.clone())
        elif not last or last[0].shape != x.shape or not torch.equal(last[0], x):
            apart.append(len(steps))
        steps.append(Step(module, args[1:], dict(kwargs), keyword))
        return ((x, *args[1:]), kwargs) if keyword is None else (args, {**kwargs, keyword: x})

    def after(module: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        last[:] = [_first(out)]

    handles = [h for m in modules for h in (m.register_forward_pre_hook(before, with_kwargs=True), m.register_forward_hook(after))]
    try:
        with torch.no_grad(), _uncached(model):
            _call(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    if [s.module for s in steps] != list(modules):
        raise ValueError("modules: the model does not call each of them once, in that order")
    if apart:
        raise ValueError(f"modules: number {apart[0]} is not called on the output of the one before it: name neighbours on the main path")
    return steps, first[0]


@contextmanager
def _uncached(model: nn.Module) -> Iterator[None]:
    """Within, models of transformers do not hand their blocks a cache, which would grow whenever a block runs again."""
    all_of_them: list[Any] = [getattr(m, "config", None) for m in model.modules()]
    configs = {id(config): config for config in all_of_them if getattr(config, "use_cache", None) is True}
    for config in configs.values():
        config.use_cache = False
    try:
        yield
    finally:
        for config in configs.values():
            config.use_cache = True


def _check_same(module: nn.Module, out: Tensor, again: Tensor) -> None:
    """compared by size: kernels with and without gradients round differently"""
    allowed = torch.finfo(out.dtype).eps ** 0.5
    if float((again - out).double().norm()) > allowed * float(out.double().norm()):
        raise ValueError(
            f"{type(module).__name__} gives something else when it is called again with the same arguments: it has a state of its own, "
            "and is not measured by its gradient alone"
        )


def _call(model: nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def _first(out: Any) -> Tensor:
    """the state in what a module returns"""
    if isinstance(out, Mapping):
        state = next(iter(out.values()), None)
    elif is_dataclass(out):
        state = next((getattr(out, entry.name) for entry in fields(out)), None)
    else:
        state = next(iter(out), None) if isinstance(out, (tuple, list)) else out
    if not isinstance(state, Tensor):
        raise TypeError(
            f"a measured module returned {type(out).__name__}: expected a tensor, or a tuple, mapping or dataclass that starts with one"
        )
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
