r"""Softmax attention on the Gram matrix of tokens that are told apart: two rows at a time, by annealed averages of centred logits.

The formulas are those of `mf.MaskedAttention`. Everything that two rows i, k contribute is a matrix over the tokens j, l that they see;
as many pairs of rows as fit into a processor's cache are one array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.softmax import SoftmaxExponent, SoftmaxResponse
from meanfield.numeric.duals import Varied, linearly, plain
from meanfield.numeric.gram_state import Grams, nearest
from meanfield.numeric.pointwise import number_at

__all__ = ["SoftmaxRows"]

_v, _m = sp.Symbol("v", nonnegative=True), sp.Symbol("m", positive=True)

#: numbers in the matrices of all pairs of rows that are worked on together
TOGETHER = 2**16


class _Rows(NamedTuple):
    """Of every row: its share of the weights, the variance of damped logits and their factor, the mean row and what it mixes, and the
    factor of its derivative; R by distance."""

    weights: Varied
    variances: Varied
    damping: Varied
    mean: Varied
    mixed: Varied
    response: Varied
    turns: Varied


class _Pairs(NamedTuple):
    r"""Rows i >= k at some points, over tokens of which they see no others: E A_ij A_kl, what moving the keys does to the pair of rows,
    s G_ik R V_jl, and what moving the queries does, s \sum_jl R V_jl G_jl."""

    here: tuple[slice, NDArray[np.int64], NDArray[np.int64]]
    seen: tuple[slice, None, slice, slice]
    moment: Varied
    keys: Varied
    queries: Varied


@dataclass(frozen=True)
class SoftmaxRows:
    """Of tokens with the Gram matrices G (*grid, n, n), weights B (broadcasting with G), strength s (broadcasting with the grid) and
    angles per position (each broadcasting with the grid).

    Raises ValueError for a negative weight, or a row without any.
    """

    tokens: Grams
    B: Varied
    strength: Varied
    angles: Sequence[Varied]

    def __post_init__(self) -> None:
        B = plain(self.B)
        if not (B >= 0).all() or not (B.sum(-1) > 0).all():
            raise ValueError("weights: masked attention needs weights >= 0 with at least one above 0 for every token")

    @property
    def G(self) -> Varied:
        """The Gram matrices."""
        return self.tokens.matrix

    def state(self) -> Grams:
        """The mixed tokens. What is the same for all, as the variance of the first, goes through rows that sum to 1 unchanged: distances
        come from what is left."""
        G, rest = self._points(self.G), self._points(self._rest)
        together = self._symmetric(
            lambda pairs: (pairs.moment * G[pairs.seen]).sum((-1, -2)), lambda pairs: (pairs.moment * rest[pairs.seen]).sum((-1, -2))
        )
        matrix, apart = together
        own = np.diagonal(apart, axis1=-2, axis2=-1)
        distance = own[..., :, None] / 2 + own[..., None, :] / 2 - apart
        roots = np.sqrt(np.diagonal(matrix, axis1=-2, axis2=-1))
        turned = roots[..., :, None] - roots[..., None, :]
        return nearest(matrix, distance - turned * turned / 2)

    def push(self, X: Varied) -> Varied:
        """Second moments of perturbations, forward."""
        X = self._points(X)
        return self._symmetric(lambda pairs: ((pairs.moment + pairs.keys) * X[pairs.seen]).sum((-1, -2)) + pairs.queries * X[pairs.here])[0]

    @property
    def _rest(self) -> Varied:
        """The Gram matrices less the variance of the first token, with the digits of distances."""
        own = self.tokens.diagonal
        own = own - own[..., :1]
        return own[..., :, None] / 2 + own[..., None, :] / 2 - self.tokens.distance

    def pull(self, g: Varied) -> Varied:
        """Second moments of gradients, backward: the transpose of `push`."""
        g = self._points(g)
        before = np.zeros(g.shape)
        for pairs in self._pairs():
            points, i, k = pairs.here
            _, _, rows, columns = pairs.seen
            own, apart = g[pairs.here], i != k
            moved = own[..., None, None] * (pairs.moment + pairs.keys)
            before[points, rows, columns] += moved.sum(1)
            before[points, columns, rows] += np.swapaxes(moved[:, apart].sum(1), -1, -2)
            turned = own * pairs.queries
            before[points, i, k] += turned
            before[points, k[apart], i[apart]] += turned[:, apart]
        return before.reshape(self._shape)

    @property
    def _shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(self.G.shape, self.B.shape, (*self.strength.shape, 1, 1))

    def _points(self, a: Varied) -> Varied:
        """matrices over the grid, one after another"""
        n = self._shape[-1]
        return np.broadcast_to(a, self._shape).reshape(prod(self._shape[:-2]), n, n)

    def _scalars(self, a: Varied) -> Varied:
        """numbers over the grid, one after another"""
        return np.broadcast_to(a, self._shape[:-2]).reshape(prod(self._shape[:-2]))

    def _symmetric(self, *entries: Callable[[_Pairs], Varied]) -> list[Varied]:
        """matrices from their entries at pairs of rows"""

        def placed(*parts: NDArray[np.float64]) -> NDArray[np.float64]:
            out = np.empty((prod(self._shape[:-2]), *self._shape[-2:]))
            for pairs, part in zip(found, parts, strict=True):
                points, i, k = pairs
                out[points, i, k] = out[points, k, i] = part
            return out.reshape(self._shape)

        found, values = [], []
        for pairs in self._pairs():
            found.append(pairs.here)
            values.append([of(pairs) for of in entries])
        return [linearly(placed, *column) for column in zip(*values, strict=True)]

    @cached_property
    def _order(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """pairs of rows, those that see few tokens first"""
        i, k = np.tril_indices(self._shape[-1])
        order = np.argsort(np.maximum(self._seen[i], self._seen[k]), kind="stable")
        return i[order], k[order]

    @cached_property
    def _seen(self) -> NDArray[np.int64]:
        """for each row, how many tokens there are up to the last that it sees"""
        some = np.asarray((plain(self.B) > 0).reshape(-1, *self.B.shape[-2:]).any(0))
        return np.asarray(self._shape[-1] - some[:, ::-1].argmax(-1))

    @cached_property
    def _rows(self) -> _Rows:
        G, w, s = self._points(self.G), self._points(self.B), self._scalars(self.strength)
        w = w / w.sum(-1)[..., None]
        distances = np.arange(2 * G.shape[-1] - 1)
        turns = np.ones((len(G), len(distances)))
        if len(self.angles):
            turns = sum(np.cos(self._scalars(a)[:, None] * distances) for a in self.angles) / len(self.angles)
        index = np.arange(G.shape[-1])
        turned = turns[:, np.abs(index[:, None] - index)]
        distance = self._points(self.tokens.distance) + (1.0 - turned) * G
        crossed = w @ distance
        spread = 2 * crossed - (crossed * w).sum(-1)[..., None]
        variances = (s[:, None] * np.diagonal(G, axis1=-2, axis2=-1))[..., None] * spread
        damping, response = _quenched(w, variances)
        variances = damping * damping * variances
        shift = np.where(plain(w) > 0, plain(variances), -np.inf).max(-1, keepdims=True)
        mean = w * np.exp((variances - np.where(plain(w) > 0, shift, plain(variances))) / 2)
        mean = mean / mean.sum(-1)[..., None]
        return _Rows(w, variances, damping, mean, mean @ self._points(self._rest), response, turns)

    def _pairs(self) -> Iterator[_Pairs]:
        i, k = self._order
        size = self._shape[-1] ** 2
        together = max(1, TOGETHER // size)
        for first in range(0, len(i), together):  # which of them are together is the same for any grid
            some = slice(first, first + together)
            step = max(1, TOGETHER // (size * len(i[some])))
            for point in range(0, prod(self._shape[:-2]), step):
                yield self._at(slice(point, point + step), i[some], k[some])

    def _at(self, points: slice, i: NDArray[np.int64], k: NDArray[np.int64]) -> _Pairs:
        every = self._rows
        last, other = int(self._seen[i].max()), int(self._seen[k].max())
        seen = (points, None, slice(last), slice(other))

        def pair(a: Varied, combined: Callable[[Varied, Varied], Varied]) -> Varied:
            return combined(a[points, i, :last][..., :, None], a[points, k, :other][..., None, :])

        def times(a: Varied, b: Varied) -> Varied:
            return a * b

        G, s = self._points(self.G), self._scalars(self.strength)[points, None]
        strength, g, rest = (s * G[points, i, k])[..., None, None], G[seen], self._points(self._rest)[seen]
        apart = np.arange(other) - np.arange(last)[:, None] + (i - k)[:, None, None]
        R = every.turns[points][:, np.abs(apart)]
        w_i, w_k, a_i = every.weights[points, i, :last], every.weights[points, k, :other], every.mean[points, i, :last]
        crossed = strength * pair(every.damping, times) * _centred(R * (g if len(self.angles) else rest), w_i, w_k)
        exponent = pair(every.variances, lambda a, b: (a + b) / 2) + crossed
        weights = pair(every.weights, times)
        some = plain(weights) > 0
        highest = np.where(some, plain(exponent), -np.inf).max((-1, -2), keepdims=True)
        moment = weights * np.exp(exponent - np.where(some, highest, plain(exponent)))
        moment = moment / moment.sum((-1, -2))[..., None, None]
        mixed_i, mixed_k = every.mixed[points, i, :other], every.mixed[points, k, :last]
        both = (a_i * mixed_k).sum(-1)
        response = s * every.response[points, i] * every.response[points, k]
        moved = response[..., None, None] * R * pair(every.mean, times)
        moved = moved * (rest - mixed_i[..., None, :] - mixed_k[..., :, None] + both[..., None, None])
        return _Pairs((points, i, k), seen, moment, G[points, i, k][..., None, None] * moved, (moved * g).sum((-1, -2)))


def _quenched(w: Varied, variances: Varied) -> tuple[Varied, Varied]:
    """for each logit the factor, and for each row that of derivatives, that make the averages those of equal independent logits"""
    highest = plain(w) == plain(w).max(-1, keepdims=True)
    highest = highest & (highest.cumsum(-1) == 1)
    others = linearly(lambda a: np.where(highest, 0.0, a), w)
    rest = others.sum(-1)
    spare = rest * (2.0 - rest) - (others * others).sum(-1)  # 1 - 1/m, of a row next to one token too
    several = plain(spare) > 0
    spare = spare[several]
    m = 1 / (1 - spare)
    v = (w * variances).sum(-1)[several] / spare
    each = np.clip(variances[several], 0.0, np.inf) / spare[:, None]
    damping = np.sqrt(number_at(SoftmaxExponent(_v, _m), {"v": each, "m": m[:, None]}))
    omega, mu = (number_at(average(_v, _m), {"v": v, "m": m}) for average in (SoftmaxExponent, SoftmaxResponse))
    y = 1 / (1 + m * spare * np.exp(-v * omega))
    response = np.sqrt(mu * y * (y * spare * m * np.exp(-v * omega)) * m / spare)

    def placed(a: NDArray[np.float64]) -> NDArray[np.float64]:
        out = np.zeros((*several.shape, *a.shape[1:]))
        out[several] = a
        return out

    single = ~several * 1.0
    return linearly(placed, damping) + single[..., None], linearly(placed, response) + single


def _centred(C: Varied, left: Varied, right: Varied) -> Varied:
    """covariances of two sets of logits, each less its weighted mean"""
    rows, columns = (left[..., None, :] @ C)[..., 0, :], (C @ right[..., None])[..., 0]
    return C - rows[..., None, :] - columns[..., None] + (left * columns).sum(-1)[..., None, None]
