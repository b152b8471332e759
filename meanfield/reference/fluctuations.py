r"""First-order fluctuations of q and J in a network of finite width.

By symmetry of the tokens, averages over tokens respond to averages over tokens alone: of every Gram matrix to the mean q of its diagonal
and the mean p of the rest. A network is marched through with a sample of the units that it has at infinite width, (unit, set of inputs,
token). Every random matrix makes fresh Gaussian units, of a law V = (q, p) that is known given what came before. An average over N units
then has

    d mean F = \sum \beta dV + \epsilon_F,   \beta = Cov(F, x x^T) Cov(x x^T, x x^T)^{-1},

with \epsilon_F of variance Var F/N (`meanfield.reference.sources`), and \beta the derivative of E F by V: a Gaussian density responds to
its covariance by its quadratic form. So

    Linear         dV' = \sigma_w^2 d mean(x x^T),            backward the same with \sigma_w^2 and the gradients of the units,
    norm           dV' = (dV - V d mean(x^2)/q)/q,            backward d\Gamma = (d\Gamma' - \Gamma' d mean(x^2)/q)/q,
    s x + b h      dV' = s^2 dV_x + b^2 dV_h,                 backward d\Gamma = s^2 d\Gamma' + b^2 d\Gamma_h,
    elementwise    the same V,                                backward d E[f'_i f'_j] \Gamma'_ij, \epsilon of f'_i f'_j g_i g_j.

Units of a residual stream are the same at all layers, so that all their averages are correlated; the cross terms of sums have no mean, but
are in their \epsilon. An input whose Gram matrix is exact has dV = -\epsilon. Matrices used forward and backward correlate in the next
order only. Blocks that mix tokens: `meanfield.reference.fluctuating_attention`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np
import sympy as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from meanfield.blocks.algebra import Block, Parallel, Repeat, Residual, Serial, backward
from meanfield.blocks.elementary import Activate, Dropout, Identity, Linear, Scale
from meanfield.blocks.gated import Product
from meanfield.blocks.norms import LayerNorm, RMSNorm
from meanfield.blocks.widths import widths
from meanfield.reference.expressions import tensor_function
from meanfield.reference.sources import Sources, Units

__all__ = ["Back", "Gaussian", "Gradient", "March", "Signal", "Unpredicted", "moments", "through", "variances"]

Floats = NDArray[np.float64]

#: entries of a sample of units, and of all that are kept
ENTRIES, KEPT = 2**17, 2**21


class Unpredicted(ValueError):
    """A network whose fluctuations are not of this kind; says which block."""


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Sampled Gaussian units (unit, set, token) and the derivatives of their law (q, p)."""

    x: Tensor
    d: Tensor


@dataclass(frozen=True)
class Signal:
    """Sampled units somewhere, with the Gaussian ones that they are a function of."""

    x: Tensor
    units: Units
    bases: tuple[Gaussian, ...]

    @property
    def law(self) -> Gaussian:
        if len(self.bases) != 1 or self.bases[0].x is not self.x:
            raise Unpredicted("the scatter of a norm or mixing of what is not Gaussian, behind an activation, is not known")
        return self.bases[0]


@dataclass(frozen=True)
class Gradient:
    """Sampled gradients of units and derivatives of their law's (J, K). `free` of the signal there, or a free gradient times a factor of
    each unit, which is a function of `bases`."""

    x: Tensor
    units: Units
    d: Tensor
    free: Gaussian | None = None
    factor: Tensor | None = None
    bases: tuple[Gaussian, ...] = ()


Back = Callable[[Gradient], Gradient]


def moments(x: Tensor) -> Tensor:
    """What each unit adds to q and p: x_i^2 and x_i x_j, mean over tokens and pairs; q alone for one token."""
    return mean_entries((x**2).mean(-1), x.sum(-1) ** 2, x.shape[-1])


def mean_entries(same: Tensor, total: Tensor, n: int) -> Tensor:
    """(q, p) from the mean of the diagonal and the sum of all entries"""
    return same[..., None] if n == 1 else torch.stack([same, (total - n * same) / (n * (n - 1))], -1)


@dataclass
class March:
    """One pass through a network, with `sets` sets of n tokens."""

    values: Mapping[str, float]
    width: int
    hidden: int
    heads: int
    n: int
    sets: int
    samples: int
    sources: Sources
    random: torch.Generator

    def number(self, e: sp.Expr) -> float:
        return float(self.expression(e))

    def expression(self, e: sp.Expr) -> sp.Expr:
        """with the values of all parameters"""
        return e.subs({s: sp.Float(self.values[s.name]) for s in e.free_symbols if s.name in self.values})

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.random, dtype=torch.float64)

    def coloured(self, noise: Tensor, law: Tensor, across: float = 0.0) -> Tensor:
        """Independent unit normals (..., set, token) as tokens of the law (q, p), with the covariance `across` between sets."""
        n = self.n
        u, v = modes(law, n)
        common = noise.mean(-1, keepdim=True) * n**0.5
        apart = noise - noise.mean(-1, keepdim=True)
        if self.sets == 2 and u > 0:
            rho = max(-1.0, min(1.0, n * across / u))
            common = torch.stack([common[..., 0, :], rho * common[..., 0, :] + (1 - rho * rho) ** 0.5 * common[..., 1, :]], -2)
        tokens: Tensor = float((max(u, 0.0) / n) ** 0.5) * common + float(max(v, 0.0) ** 0.5) * apart
        return tokens

    def units(self, law: Tensor, across: float = 0.0) -> Tensor:
        """A sample of fresh units, with the negative of each, and second moments of the noise set to what they are on average."""
        noise = self.normal(self.samples // 2, self.sets, self.n)
        noise = torch.cat([noise, -noise])
        mean = noise.mean(-1, keepdim=True)
        apart = noise - mean
        noise = mean / (self.n * (mean**2).mean(0, keepdim=True)) ** 0.5
        if self.n > 1:
            noise = noise + apart * ((1 - 1 / self.n) / (apart**2).mean()) ** 0.5
        return self.coloured(noise, law, across)

    def made(self, law: Tensor, across: float, d: Tensor, count: int) -> Signal:
        """Fresh Gaussian units."""
        x = self.units(law, across)
        return Signal(x, self.sources.of(count), (Gaussian(x, d),))

    def response(self, bases: Sequence[Gaussian], values: Tensor) -> Tensor:
        """Derivatives of the mean of a function of Gaussian units, by their laws."""
        total = self.sources.zero(values.shape[-1])
        if not bases:
            return total
        quadratics = torch.cat([moments(base.x) for base in bases], -1).flatten(0, 1)
        centred, f = quadratics - quadratics.mean(0), (values - values.mean((0, 1))).flatten(0, 1)
        slopes = torch.linalg.pinv(centred.T @ centred, rtol=1e-10, hermitian=True) @ centred.T @ f
        total += slopes.T @ torch.cat([base.d for base in bases])
        return total

    def realised(self, s: Signal) -> Tensor:
        """Derivatives of the second moments themselves, not of their expectations."""
        f = moments(s.x)
        mean = s.bases[0].d if len(s.bases) == 1 and s.bases[0].x is s.x else self.response(s.bases, f)
        return mean + self.sources.average(s.units, f)

    def taken(self, g: Gradient) -> Tensor:
        return g.d + self.sources.average(g.units, moments(g.x))

    def pulled(self, law: Tensor, d: Tensor, s: Signal) -> Gradient:
        """A fresh Gaussian gradient at a signal."""
        x = self.units(law)
        return Gradient(x, s.units, d, Gaussian(x, d))

    def across(self, s: Signal) -> float:
        """covariance of tokens of different sets"""
        mean = s.x.mean(-1)
        return float((mean[:, 0] * mean[:, 1]).mean()) if self.sets == 2 else 0.0


def modes(law: Tensor, n: int) -> tuple[float, float]:
    """eigenvalues of a Gram matrix: of the mean of all tokens, of their differences"""
    q, p = float(law[0]), float(law[-1]) if n > 1 else 0.0
    return q + (n - 1) * p, q - p


def mean(values: Tensor) -> Tensor:
    out: Tensor = values.mean((0, 1))
    return out


@singledispatch
def through(block: Block, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    """What a block makes of a signal, and how gradients come back through it."""
    raise Unpredicted(f"the scatter of {type(block).__name__} is not known")


@through.register
def _(block: Serial, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    backs = []
    for part, inner, outer in widths(block.blocks, before, march.hidden, after):
        s, back = through(part, march, s, inner, outer)
        backs.append(back)
    return s, backward(backs)


@through.register
def _(block: Repeat, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    return through(Serial((block.block,) * block.times), march, s, before, after)


@through.register
def _(block: Identity, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    return s, lambda g: g


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


def variances(
    net: Block,
    width: int,
    hidden: int,
    heads: int,
    depth: int,
    law: Sequence[float],
    n: int,
    pooled: bool,
    sets: int,
    values: Mapping[str, float],
) -> Floats:
    """`width` times the covariances of ln q and ln J^{L,l} (first axis) at the layers (second), means over n tokens of the law (q, p), with
    those of the same set of tokens and, on the third axis, of another set. Raises Unpredicted for a network of other blocks."""
    samples = 2 * max(512, min(ENTRIES // n, KEPT // depth) // 2)
    start = torch.tensor(law[: 1 if n == 1 else 2], dtype=torch.float64)

    def run(size: int, samples: int) -> tuple[Sources, list[Tensor]]:
        march = March(values, width, hidden, heads, n, min(sets, 2), samples, Sources(size), torch.Generator().manual_seed(0))
        return march.sources, _run(march, net, depth, start, pooled)

    counted, _ = run(0, 8)
    sources, rows = run(counted.count, samples)
    return sources.covariances(torch.stack(rows), width).reshape(2, depth + 1, 2)


def _run(march: March, net: Block, depth: int, law: Tensor, pooled: bool) -> list[Tensor]:
    """derivatives of ln q and ln J at every layer"""
    values, rows, backs = march.values, [], []
    state = march.made(law, 0.0, march.sources.zero(len(law)), march.width)
    exact = Gaussian(state.x, -march.sources.average(state.units, moments(state.x)))
    state = replace(state, bases=(exact,))

    def row(d: Tensor, x: Tensor) -> Tensor:
        return d[0] / mean(moments(x))[0]

    rows.append(row(march.realised(state), state.x))
    for index in range(depth):
        march.values = {**values, "L": float(depth), "l": float(index)}
        state, back = through(net, march, state, march.width, march.width)
        rows.append(row(march.realised(state), state.x))
        backs.append(back)
    signs = march.normal(*state.x.shape[:-1], 1 if pooled else march.n).sign()
    x, d = signs.expand_as(state.x), march.sources.zero(len(law))
    g = Gradient(x, state.units, d, Gaussian(x, d))
    gradients = [row(march.taken(g), g.x)]
    for back in reversed(backs):
        g = back(g)
        gradients.append(row(march.taken(g), g.x))
    return rows + gradients[::-1]
