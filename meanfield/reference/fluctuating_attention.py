r"""First-order fluctuations of networks that mix tokens: softmax attention.

Logits of a head are S = \sqrt{s} L E L^T, G = L L^T the Gram matrix of the tokens, E of n x n standard normals. The mixed values of the
units of a head, m = M v, have the Gram matrix \sigma_V^2 M G M^T given the head, so that the second moments of the output fluctuate

    over the heads, by those of M G M^T,        over the width, by those of m m^T given the head,

and respond to G by the derivative of E M G M^T, taken with E held fixed. A gradient t of Gram matrix T at the output makes the gradient
\tau = L_T E' L^T of the weights, E' fresh, dS = A \odot (\tau - A \cdot \tau) of the logits, and at the tokens

    \sigma_V^2 M^T T M + s (dS G dS^T + dS^T G dS),

values, queries and keys: linear in T on average, and fluctuating as above. d_k = width/heads counts as large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from meanfield.blocks.attention import Attention, TokenMixing
from meanfield.reference.fluctuations import (
    Back,
    Gaussian,
    Gradient,
    March,
    Signal,
    Unpredicted,
    mean,
    mean_entries,
    modes,
    moments,
    through,
)

__all__ = ["carried", "heads_of", "paired", "responding", "transfer"]

#: entries of the weights of a sample of heads, and relative steps of numerical derivatives
ENTRIES, STEP = 2**19, 1e-2


def carried(M: Tensor, law: Tensor) -> Tensor:
    """q and p of M G M^T with G of the law (q, p)."""
    n = M.shape[-1]
    u, v = modes(law, n)
    rows, common = M.sum(-1), (u - v) / n
    same = v * (M**2).sum((-1, -2)) + common * (rows**2).sum(-1)
    total = v * (M.sum(-2) ** 2).sum(-1) + common * rows.sum(-1) ** 2
    return mean_entries(same / n, total, n)


def paired(noise: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """L_left noise L_right^T with L L^T of the laws (q, p): L takes means over tokens, and what differs from them, times a number each."""
    (u, v), (w, z) = (tuple(max(m, 0.0) ** 0.5 for m in modes(law, noise.shape[-1])) for law in (left, right))
    rows, columns = noise.mean(-1, keepdim=True), noise.mean(-2, keepdim=True)
    common = rows.mean(-2, keepdim=True)
    out: Tensor = (v * z * noise).add_(v * (w - z) * rows).add_((u - v) * (z * columns + (w - z) * common))
    return out


def transfer(f: Callable[[Tensor], Tensor], n: int) -> Tensor:
    """The matrix of a function of the law (q, p) of a Gram matrix, linear on average, without the noise of its cross terms."""
    common = f(torch.full((min(n, 2),), 1 / n, dtype=torch.float64))
    if n == 1:
        return common[:, None]
    apart = f(torch.tensor([1 - 1 / n, -1 / n], dtype=torch.float64))
    return torch.stack([common + apart, (n - 1) * common - apart], -1)


def responding(f: Callable[[Tensor], Tensor], law: Tensor) -> tuple[Tensor, Tensor]:
    """A function and, on the last axis, its derivatives by the law (q, p), by differences to where q - p is larger."""
    here, step = f(law), STEP * float(law[0])
    moves = [step, -step][: len(law)]
    columns = [(f(law + move * unit) - here) / move for move, unit in zip(moves, torch.eye(len(law), dtype=torch.float64), strict=True)]
    return here, torch.stack(columns, -1)


def heads_of(march: March, entries: int) -> int:
    """How many heads to sample, of so many entries each."""
    return min(march.samples, max(16, min(4096, ENTRIES // entries)))


@dataclass
class _Heads:
    """A sample of heads: weights (head, set, n, n) of tokens of a law G. Those of different sets are independent: what their logits have
    in common, shifts all of a row alike."""

    march: March
    block: TokenMixing

    def __post_init__(self) -> None:
        march, n = self.march, self.march.n
        self.alpha, self.beta, self.gamma = (march.number(w) for w in (self.block.alpha, self.block.beta, self.block.gamma))
        self.strength = march.number(self.block.sigma_Q * self.block.sigma_K) ** 2
        self.count = heads_of(march, march.sets * n * n)
        self.noise, self.back_noise = (march.normal(self.count, march.sets, n, n) for _ in range(2))

    @property
    def row(self) -> float:
        """the sum of a row of weights"""
        return self.alpha + self.beta - self.gamma

    def softmax(self, G: Tensor) -> Tensor:
        return torch.softmax(self.strength**0.5 * paired(self.noise, G, G), -1)

    def weights(self, A: Tensor) -> Tensor:
        n = self.march.n
        return self.alpha * torch.eye(n, dtype=torch.float64) + self.beta * A - self.gamma / n

    def mixed(self, G: Tensor) -> Tensor:
        return carried(self.weights(self.softmax(G)), G)

    def pulled(self, A: Tensor, G: Tensor, T: Tensor) -> Tensor:
        """J and K at the tokens, for each head"""
        through_values = carried(self.weights(A).transpose(-1, -2), T)
        if not self.block.softmax_derivative or self.beta == 0 or self.strength == 0:
            return through_values
        tau = paired(self.back_noise, T, G)
        d = self.beta * A * (tau - (A * tau).sum(-1, keepdim=True))
        return through_values + self.strength * (carried(d, G) + carried(d.transpose(-1, -2), G))

    def pulling(self, G: Tensor) -> Tensor:
        """its mean as a matrix that acts on T"""
        A = self.softmax(G)
        return transfer(lambda T: mean(self.pulled(A, G, T)), self.march.n)

    def values(self, M: Tensor, law: Tensor, across: float = 0.0) -> Tensor:
        """what each unit adds to the second moments, beyond their mean given the head"""
        v = self.march.coloured(self.march.normal(self.count, self.march.sets, self.march.n), law, across)
        return moments((M @ v[..., None])[..., 0]) - carried(M, law)


@through.register
def _(block: Attention, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    G, across, d_G = mean(moments(s.x)), march.across(s), march.realised(s)
    march.entered.append(d_G[0] / G[0])
    heads = _Heads(march, block.mixing)
    own, units = march.sources.of(march.heads), march.sources.of(before)
    A = heads.softmax(G)
    M, gain = heads.weights(A), march.number(block.sigma_V * block.sigma_O) ** 2
    mixed, by_G = responding(lambda G: mean(heads.mixed(G)), G)
    d = by_G @ d_G + march.sources.average(own, carried(M, G)) + march.sources.average(units, heads.values(M, G, across))
    out = march.made(gain * mixed, gain * heads.row**2 * across, gain * d, after)

    def pull(g: Gradient) -> Gradient:
        T, d_T = mean(moments(g.x)), march.taken(g)
        matrix, by_G = responding(heads.pulling, G)
        d = matrix @ d_T + torch.einsum("rtg,t->rg", by_G, T) @ d_G
        d = d + march.sources.average(own, heads.pulled(A, G, T)) + march.sources.average(units, heads.values(M.transpose(-1, -2), T))
        return march.pulled(gain * matrix @ T, gain * d, s)

    return out, pull


@through.register
def _(block: TokenMixing, march: March, s: Signal, before: int, after: int) -> tuple[Signal, Back]:
    if march.number(block.sigma_Q * block.sigma_K) ** 2 and march.number(block.beta):
        raise Unpredicted("the scatter of TokenMixing with logits is not known: units of a head share its weights from then on")
    alpha = march.number(block.alpha)
    row = alpha + march.number(block.beta) - march.number(block.gamma)

    def mixed(x: Tensor) -> Tensor:
        common = x.mean(-1, keepdim=True)
        return row * common + alpha * (x - common)

    def moved(d: Tensor) -> Tensor:
        n = march.n
        if n == 1:
            return row**2 * d
        u, v = row**2 * (d[0] + (n - 1) * d[1]), alpha**2 * (d[0] - d[1])
        return torch.stack([(u + (n - 1) * v) / n, (u - v) / n])

    x = mixed(s.x)
    law = Gaussian(x, moved(s.law.d))
    return Signal(x, s.units, (law,)), lambda g: Gradient(mixed(g.x), g.units, moved(g.d))
