r"""What a network makes of a map of its nonlinear layers: the structure of a block, read for deep kernel shaping.

At unit variances the map of correlations of a network composes the map r of a nonlinear layer: one after another in a serial block,
(skip^2 x + scale^2 f(x))/(skip^2 + scale^2) where a branch f joins a skip. The same composition of y -> psi y gives slopes at c = 1,
of y -> y + k curvatures at c = 1 (where slopes are 1). Shaping bounds the largest value over subnetworks, which for maps with
r(x) >= x is that of the whole, or of a branch by itself (Martens et al. 2021, arXiv:2110.01765; Zhang et al. 2022, arXiv:2203.08120).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import mpmath as mp
import sympy as sp

from meanfield import arguments
from meanfield.analysis.curves import DIGITS
from meanfield.analysis.shaped import NoShape
from meanfield.blocks.algebra import Block, Parallel, Serial
from meanfield.blocks.elementary import Activate, Identity, Linear, Scale
from meanfield.blocks.norms import LayerNorm, RMSNorm
from meanfield.blocks.stacking import Repeat, Residual

__all__ = ["LayerMap", "NetworkMap", "crossing", "increasing", "largest", "network_map"]

#: digits beyond those of an answer, and steps of a search for one
SPARE, STEPS = 10, 200
#: a map of one nonlinear layer
LayerMap = Callable[[Any], Any]
#: (x, r) -> the largest value over subnetworks that start from x
NetworkMap = Callable[[Any, LayerMap], Any]


def network_map(net: Any) -> NetworkMap:
    """The map of a network: a number of nonlinear layers, a block, or a function (x, r) itself."""
    if isinstance(net, Block):
        if not _layers(net):
            raise ValueError(f"net = {net}: it has no activation to shape")
        return lambda x, r: largest(net, x, r)
    if callable(net):
        own: NetworkMap = net
        return own
    depth = arguments.check_integer(net, "net", 1)

    def repeated(x: Any, r: LayerMap) -> Any:
        for _ in range(depth):
            x = r(x)
        return x

    return repeated


def largest(net: Block, x: Any, r: LayerMap) -> Any:
    """The largest value over subnetworks: the whole, or the inside of a branch."""
    return max([_value(net, x, r), *(largest(branch, x, r) for branch in _branches(net))])


@singledispatch
def _value(block: Block, x: Any, r: LayerMap) -> Any:
    raise ValueError(f"{type(block).__name__} has no map of correlations that composes: shaping is of Activate, Linear, norms and skips")


@_value.register
def _(block: Linear, x: Any, r: LayerMap) -> Any:
    for value, name, needed in ((block.sigma_w, "sigma_w", 1), (block.sigma_b, "sigma_b", 0)):
        if value.is_number and value != needed:
            raise ValueError(
                f"{name} = {value}: an activation is shaped for q = 1, which weights keep with {name} = {needed} or a letter for it"
            )
    return x


@_value.register(Identity)
@_value.register(LayerNorm)
@_value.register(RMSNorm)
@_value.register(Scale)
def _(block: Block, x: Any, r: LayerMap) -> Any:
    return x


@_value.register
def _(block: Activate, x: Any, r: LayerMap) -> Any:
    return r(x)


@_value.register
def _(block: Serial, x: Any, r: LayerMap) -> Any:
    for part in block.blocks:
        x = _value(part, x, r)
    return x


@_value.register
def _(block: Repeat, x: Any, r: LayerMap) -> Any:
    for _ in range(block.times):
        x = _value(block.block, x, r)
    return x


@_value.register
def _(block: Residual, x: Any, r: LayerMap) -> Any:
    skip, scale = (_number(v, name) ** 2 for v, name in ((block.skip, "skip"), (block.scale, "scale")))
    return (skip * x + scale * _value(block.branch, x, r)) / (skip + scale)


@_value.register
def _(block: Parallel, x: Any, r: LayerMap) -> Any:
    values = [_value(branch, x, r) for branch in block.branches]
    return sum(values[1:], values[0]) / len(values)


def _number(value: sp.Expr, name: str) -> mp.mpf:
    if value.free_symbols:
        raise ValueError(f"{name} = {value}: shaping needs numbers for the weights of a skip")
    return sp.N(value, mp.mp.dps + 5)._to_mpmath(mp.mp.prec)


def _branches(block: Block) -> list[Block]:
    if isinstance(block, Residual):
        return [block.branch]
    if isinstance(block, Repeat):
        return _branches(block.block)
    parts = block.blocks if isinstance(block, Serial) else block.branches if isinstance(block, Parallel) else ()
    own = list(parts) if isinstance(block, Parallel) else []
    return own + [branch for part in parts for branch in _branches(part)]


def _layers(block: Block) -> int:
    """how many activations there are"""
    if isinstance(block, Activate):
        return 1
    if isinstance(block, Residual):
        return _layers(block.branch)
    if isinstance(block, Repeat):
        return block.times * _layers(block.block)
    parts = block.blocks if isinstance(block, Serial) else block.branches if isinstance(block, Parallel) else ()
    return sum(map(_layers, parts))


def increasing(f: LayerMap, value: float, start: mp.mpf, name: str) -> mp.mpf:
    """The argument beyond `start` at which a function that increases from there reaches a value."""
    with mp.workdps(DIGITS + SPARE):
        step = mp.ldexp(1, -40)
        while f(start + step) < value:
            step *= 2
            if step > 1e12:
                raise NoShape(f"{name} = {value}: no map of the layers gives this network so much")
        return crossing(lambda t: f(t) - value, start, start + step)


def crossing(f: LayerMap, low: mp.mpf, high: mp.mpf) -> mp.mpf:
    """Where a monotone function changes its sign between two points, to 25 digits (the method of Anderson and Bjorck 1973)."""
    with mp.workdps(DIGITS + SPARE):
        below, above = f(low), f(high)
        for _ in range(STEPS):
            if above == 0:
                return high
            at = high - above * (high - low) / (above - below)
            value, step = f(at), abs(at - high)
            if value * above < 0:
                low, below = high, above
            else:
                left = 1 - value / above
                below *= left if left > 0 else mp.mpf(1) / 2
            high, above = at, value
            if step <= abs(at) * mp.mpf(10) ** -DIGITS:
                return at
    raise ArithmeticError(f"no sign change was enclosed between {float(low)} and {float(high)} in {STEPS} steps")
