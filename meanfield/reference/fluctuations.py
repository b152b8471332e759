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
order only. The rules of the blocks are in `fluctuating_layers`, `fluctuating_attention` and `fluctuating_gau`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch

import numpy as np
import sympy as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from meanfield.blocks.algebra import Block, Serial, backward
from meanfield.blocks.elementary import Identity
from meanfield.blocks.stacking import Repeat
from meanfield.blocks.widths import widths
from meanfield.progress import track
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
    #: derivatives of ln q of what enters blocks whose law is not linear in it
    entered: list[Tensor] = field(default_factory=list)

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
) -> tuple[Floats, Floats]:
    """`width` times the covariances of ln q and ln J^{L,l} (first axis) at the layers (second), means over n tokens of the law (q, p), with
    those of the same set of tokens and, on the third axis, of another set; and the variances of every ln q that enters an activation, a
    norm or attention. Raises Unpredicted for a network of other blocks."""
    samples = 2 * max(512, min(ENTRIES // n, KEPT // depth) // 2)
    start = torch.tensor(law[: 1 if n == 1 else 2], dtype=torch.float64)

    def run(size: int, samples: int) -> tuple[March, list[Tensor]]:
        march = March(values, width, hidden, heads, n, min(sets, 2), samples, Sources(size), torch.Generator().manual_seed(0))
        return march, _run(march, net, depth, start, pooled)

    counted, _ = run(0, 8)
    march, rows = run(counted.sources.count, samples)
    found = march.sources.covariances(torch.stack(rows + march.entered), width)
    return found[: len(rows)].reshape(2, depth + 1, 2), found[len(rows) :, 0]


def _run(march: March, net: Block, depth: int, law: Tensor, pooled: bool) -> list[Tensor]:
    """derivatives of ln q and ln J at every layer"""
    values, rows, backs = march.values, [], []
    state = march.made(law, 0.0, march.sources.zero(len(law)), march.width)
    exact = Gaussian(state.x, -march.sources.average(state.units, moments(state.x)))
    state = replace(state, bases=(exact,))

    def row(d: Tensor, x: Tensor) -> Tensor:
        return d[0] / mean(moments(x))[0]

    rows.append(row(march.realised(state), state.x))
    for index in track(range(depth), "scatter of signals", depth):
        march.values = {**values, "L": float(depth), "l": float(index)}
        state, back = through(net, march, state, march.width, march.width)
        rows.append(row(march.realised(state), state.x))
        backs.append(back)
    signs = march.normal(*state.x.shape[:-1], 1 if pooled else march.n).sign()
    x, d = signs.expand_as(state.x), march.sources.zero(len(law))
    g = Gradient(x, state.units, d, Gaussian(x, d))
    gradients = [row(march.taken(g), g.x)]
    for back in track(reversed(backs), "scatter of gradients", depth):
        g = back(g)
        gradients.append(row(march.taken(g), g.x))
    return rows + gradients[::-1]
