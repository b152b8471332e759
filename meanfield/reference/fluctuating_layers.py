r"""First-order fluctuations behind the blocks that tell no tokens apart; the formulas are in `meanfield.reference.fluctuations`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from meanfield.blocks.algebra import Block, Parallel
from meanfield.blocks.elementary import Activate, Dropout, Linear, Scale
from meanfield.blocks.gated import Product
from meanfield.blocks.norms import LayerNorm, RMSNorm
from meanfield.blocks.stacking import Residual
from meanfield.reference.expressions import tensor_function
from meanfield.reference.fluctuations import Back, Gaussian, Gradient, March, Signal, Unpredicted, mean, moments, through

__all__: list[str] = []


@through.register
def _(block: Linear, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    gain, bias = march.number(block.sigma_w) ** 2, march.number(block.sigma_b) ** 2
    law = gain * mean(moments(s.x)) + bias
    out = march.made(law, gain * march.across(s) + bias, gain * march.realised(s), after)
    return out, lambda g: march.pulled(gain * mean(moments(g.x)), gain * march.taken(g), s)


@through.register
def _(block: Activate, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    value = tensor_function(march.expression(block.phi.expression))
    slope = tensor_function(march.expression(block.phi.derivative.expression))
    march.entered += [base.d[0] / base.x.square().mean() for base in s.bases]
    return replace(s, x=value(s.x)), lambda g: _times(march, g, slope(s.x), s)


@through.register
def _(block: Dropout, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    keep = 1 - march.number(block.rate)
    kept = torch.rand(s.x.shape, generator=march.random, dtype=torch.float64).lt(keep) / keep
    return replace(s, x=kept * s.x), lambda g: _times(march, g, kept, s)


@through.register
def _(block: Product, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    (f, back_f), (h, back_h) = (through(part, march, s, before, after) for part in (block.first, block.second))
    out = Signal(f.x * h.x, f.units.join(h.units), _union(f.bases, h.bases))

    def pull(g: Gradient) -> Gradient:
        return _added(back_f(_times(march, g, h.x, out)), back_h(_times(march, g, f.x, out)))

    return out, pull


def _times(march: March, g: Gradient, slope: Tensor, s: Signal) -> Gradient:
    """a gradient times a function of the units it belongs to"""
    if g.free is None:
        raise Unpredicted("the scatter of an activation of an activation of the residual stream is not known")
    factor, bases = slope if g.factor is None else g.factor * slope, _union(g.bases, s.bases)
    seen = moments(factor)
    d = march.response(bases, seen * mean(moments(g.free.x))) + mean(seen)[:, None] * g.free.d
    return Gradient(g.x * slope, g.units.join(s.units), d, g.free, factor, bases)


def _union(first: tuple[Gaussian, ...], second: tuple[Gaussian, ...]) -> tuple[Gaussian, ...]:
    return tuple(dict.fromkeys(first + second))


def _added(first: Gradient, second: Gradient, a: float = 1.0, b: float = 1.0) -> Gradient:
    """a first + b second, which have no covariance"""
    x, d = a * first.x + b * second.x, a**2 * first.d + b**2 * second.d
    free = all(g.free is not None and g.factor is None for g in (first, second))
    return Gradient(x, first.units.join(second.units), d, Gaussian(x, d) if free else None)


@through.register(LayerNorm)
@through.register(RMSNorm)
def _(block: Block, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    law, v = s.law, mean(moments(s.x))
    q, dq = v[0], march.realised(s)[0]
    march.entered.append(dq / q)
    x = s.x / q.sqrt()
    out = Signal(x, s.units, (Gaussian(x, law.d / q - torch.outer(v, dq) / q**2),))

    def pull(g: Gradient) -> Gradient:
        def d(of: Tensor, there: Tensor) -> Tensor:
            return of / q - torch.outer(mean(moments(there)), dq) / q**2

        free = None if g.free is None else Gaussian(g.free.x / q.sqrt(), d(g.free.d, g.free.x))
        return replace(g, x=g.x / q.sqrt(), d=d(g.d, g.x), free=free)

    return out, pull


@through.register
def _(block: Scale, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    factor = march.number(block.factor)
    x = factor * s.x
    gaussian = len(s.bases) == 1 and s.bases[0].x is s.x
    bases = (Gaussian(x, factor**2 * s.bases[0].d),) if gaussian else s.bases

    def pull(g: Gradient) -> Gradient:
        free = None if g.free is None else Gaussian(factor * g.free.x, factor**2 * g.free.d)
        return replace(g, x=factor * g.x, d=factor**2 * g.d, free=free)

    return Signal(x, s.units, bases), pull


@through.register
def _(block: Residual, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    skip, scale = march.number(block.skip), march.number(block.scale)
    h, inner = through(block.branch, march, s, before, after)
    return _sum(march, (s, h), (skip, scale)), lambda g: _added(g, inner(g), skip, scale)


@through.register
def _(block: Parallel, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    parts = [through(branch, march, s, before, after) for branch in block.branches]

    def pull(g: Gradient) -> Gradient:
        total, *rest = (back(g) for _, back in parts)
        for part in rest:
            total = _added(total, part)
        return total

    return _sum(march, [h for h, _ in parts], [1.0] * len(parts)), pull


def _sum(march: March, parts: Sequence[Signal], factors: Sequence[float]) -> Signal:
    """units added, whose covariances have no mean"""
    first, *rest = parts
    units, x, bases = first.units, factors[0] * first.x, first.bases
    for part, factor in zip(rest, factors[1:], strict=True):
        units, x, bases = units.join(part.units), x + factor * part.x, _union(bases, part.bases)
    if all(len(part.bases) == 1 and part.bases[0].x is part.x for part in parts) and len(bases) == len(parts):
        return Signal(x, units, (Gaussian(x, sum((a**2 * b.d for a, b in zip(factors, bases, strict=True)), march.sources.zero(1))),))
    return Signal(x, units, bases)
