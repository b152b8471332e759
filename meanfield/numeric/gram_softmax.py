r"""Softmax attention on the Gram matrix of tokens that are told apart: two rows at a time, by annealed averages of centred logits.

The formulas are those of `mf.MaskedAttention`. Everything that two rows i, k contribute is a matrix over the tokens j, l that they see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.softmax import SoftmaxExponent, SoftmaxResponse
from meanfield.numeric.evaluation import evaluate

__all__ = ["SoftmaxRows"]

Floats = NDArray[np.float64]

_v, _m = sp.Symbol("v", nonnegative=True), sp.Symbol("m", positive=True)


class _Pair(NamedTuple):
    r"""Rows i >= k at a grid point, over the tokens [0, last) that each of them sees: E A_ij A_kl, what moving the keys does to the pair
    of rows, s G_ik R V_jl, and what moving the queries does, s \sum_jl R V_jl G_jl."""

    here: tuple[Any, ...]
    seen: tuple[Any, ...]
    seen_back: tuple[Any, ...]
    moment: Floats
    keys: Floats
    queries: float

    @property
    def here_back(self) -> tuple[Any, ...]:
        *at, i, k = self.here
        return (*at, k, i)


@dataclass(frozen=True)
class SoftmaxRows:
    """Of tokens with the Gram matrices G (*grid, n, n), weights B (broadcasting with G), strength s (broadcasting with the grid) and
    angles per position.

    Raises ValueError for a negative weight, or a row without any.
    """

    G: Floats
    B: Floats
    strength: Floats
    angles: Floats

    def __post_init__(self) -> None:
        if not (self.B >= 0).all() or not (self.B.sum(-1) > 0).all():
            raise ValueError("weights: masked attention needs weights >= 0 with at least one above 0 for every token")

    def gram(self) -> Floats:
        """The Gram matrix of the mixed tokens."""
        after = np.empty(self._shape)
        gram = np.broadcast_to(self.G, self._shape)
        for pair in self._pairs():
            after[pair.here] = after[pair.here_back] = (pair.moment * gram[pair.seen]).sum()
        return after

    def push(self, X: Floats) -> Floats:
        """Second moments of perturbations, forward."""
        after = np.empty(self._shape)
        X = np.broadcast_to(X, self._shape)
        for pair in self._pairs():
            moved = ((pair.moment + pair.keys) * X[pair.seen]).sum() + pair.queries * X[pair.here]
            after[pair.here] = after[pair.here_back] = moved
        return after

    def pull(self, g: Floats) -> Floats:
        """Second moments of gradients, backward: the transpose of `push`."""
        before = np.zeros(self._shape)
        g = np.broadcast_to(g, self._shape)
        for pair in self._pairs():
            own = g[pair.here]
            moved = own * (pair.moment + pair.keys)
            before[pair.seen] += moved
            before[pair.here] += own * pair.queries
            if pair.here != pair.here_back:
                before[pair.seen_back] += moved.T
                before[pair.here_back] += own * pair.queries
        return before

    @property
    def _shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(self.G.shape, self.B.shape, (*np.shape(self.strength), 1, 1))

    def _pairs(self) -> Iterator[_Pair]:
        shape = self._shape
        gram, weights, strength = (np.broadcast_to(a, to) for a, to in ((self.G, shape), (self.B, shape), (self.strength, shape[:-2])))
        for at in np.ndindex(shape[:-2]):
            yield from self._pairs_at(at, gram[at], weights[at] / weights[at].sum(-1, keepdims=True), float(strength[at]))

    def _pairs_at(self, at: tuple[int, ...], G: Floats, w: Floats, s: float) -> Iterator[_Pair]:
        n = len(G)
        index = np.arange(n)
        offsets = index - index[:, None]  # l - j
        own = self._turned(offsets) * G
        variances = np.array([s * G[i, i] * np.diagonal(_centred(own, w[i], w[i])) for i in range(n)])
        damping, response = _quenched(w, variances)
        variances *= damping**2
        mean = w * np.exp((variances - np.where(w > 0, variances, -np.inf).max(-1, keepdims=True)) / 2)
        mean /= mean.sum(-1, keepdims=True)
        mixed = mean @ G
        last = [int(np.flatnonzero(row)[-1]) + 1 for row in w]
        for i in range(n):
            for k in range(i + 1):
                rows, columns = slice(last[i]), slice(last[k])
                both = (rows, columns)
                w_i, w_k, a_i, a_k, g = w[i, rows], w[k, columns], mean[i, rows], mean[k, columns], G[both]
                R = self._turned(offsets[both] + i - k)
                cross = np.outer(damping[i, rows], damping[k, columns]) * s * G[i, k] * _centred(R * g, w_i, w_k)
                exponent = (variances[i, rows, None] + variances[k, columns]) / 2 + cross
                moment = np.outer(w_i, w_k)
                moment *= np.exp(exponent - np.where(moment > 0, exponent, -np.inf).max())
                moment /= moment.sum()
                apart = g - mixed[i, columns] - mixed[k, rows, None] + a_i @ mixed[k, rows]
                moved = response[i] * response[k] * s * R * np.outer(a_i, a_k) * apart
                yield _Pair((*at, i, k), (*at, *both), (*at, columns, rows), moment, G[i, k] * moved, float((moved * g).sum()))

    def _turned(self, offsets: NDArray[np.int64]) -> Floats:
        """R at some offsets"""
        return np.cos(self.angles * offsets[..., None]).mean(-1) if len(self.angles) else np.ones(offsets.shape)


def _quenched(w: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """for each logit the factor, and for each row that of derivatives, that make the averages those of equal independent logits"""
    pairs = (w**2).sum(-1)
    several = pairs < 1
    m = 1 / pairs[several]
    v = (w * variances).sum(-1)[several] * m / (m - 1)
    each = np.maximum(variances[several], 0.0) * (m / (m - 1))[:, None]
    damping, response = np.ones(w.shape), np.ones(len(w))
    damping[several] = np.sqrt(np.asarray(evaluate(SoftmaxExponent(_v, _m), v=each, m=m[:, None])))
    omega, mu = np.asarray(evaluate(SoftmaxExponent(_v, _m), v=v, m=m)), np.asarray(evaluate(SoftmaxResponse(_v, _m), v=v, m=m))
    y = 1 / (1 + (m - 1) * np.exp(-v * omega))
    response[several] = np.sqrt(mu * y * (1 - y) * m**2 / (m - 1))
    return damping, response


def _centred(C: Floats, left: Floats, right: Floats) -> Floats:
    """covariances of two sets of logits, each less its weighted mean"""
    rows, columns = left @ C, C @ right
    return np.asarray(C - rows - columns[:, None] + left @ columns)
