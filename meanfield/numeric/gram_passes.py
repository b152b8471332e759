r"""Gram matrices over depth: forward through the layers with perturbations and the tangent kernel, and gradients back from the end.

The way back needs what each layer was on the way forth. Of a grid as many points go together as keep that within bounds; of a point that
is too large for it only the Gram matrices at some layers are kept, and the stretches between them are gone through again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from meanfield.blocks.algebra import Block, Parallel, Serial
from meanfield.blocks.stacking import Repeat, Residual
from meanfield.numeric.gram import Map, Step, flow_of
from meanfield.numeric.gram_laws import has_tangent, joined, one_law, sizes_of
from meanfield.numeric.gram_runs import March
from meanfield.numeric.gram_state import Grams, Start
from meanfield.numeric.zero_parameters import silent_points
from meanfield.progress import track
from meanfield.recurrence import recursion

__all__ = ["Passes"]

Floats = NDArray[np.float64]

#: bytes that are kept for the way back, entries of Gram matrices that go together, at most
KEPT, TOGETHER = 1 << 27, 1 << 18
#: matrices that one part of a network keeps at a layer, at most: masked softmax its weights and their variances
MATRICES = 8
#: what parameters that are not 0 are raised over, one after the other, to tell what is 0 whatever they are
_WHATEVER = (0.7320508, 0.6180339)
#: what points are whose Gram matrices are known so far, and to the end with gradients
_LIVE = ("ok", "infinite APJN")
_WHOLE = (*_LIVE, "zero APJN")


@dataclass(frozen=True)
class Passes:
    """Gram matrices of n tokens or inputs through the layers of a network, so many of which are kept."""

    net: Block
    depth: int
    kept: int
    pooled: bool
    n: int
    pair: bool = False

    @property
    def several(self) -> bool:
        """Whether gradients are wanted anywhere but at the input, where perturbations say the same."""
        return self.kept > 1 or self.depth == 0

    @cached_property
    def stretch(self) -> int:
        """How many layers are kept for the way back."""
        layer = self.n**2 * 8 * _matrices(self.net)
        return max(1, self.depth if layer * self.depth <= KEPT else max(math.isqrt(self.depth), KEPT // layer))

    @property
    def points(self) -> int:
        """How many points of a grid go together."""
        layers = self.stretch if self.several else 1
        return max(1, min(KEPT // (self.n**2 * 8 * _matrices(self.net) * layers), TOGETHER // self.n**2))

    def bytes(self, count: int) -> float:
        """What so many points take, and what is kept meanwhile."""
        result = count * self.kept * (self.n * self.n * (1 + has_tangent(self.net)) + 2 * self.n + 2)
        layers = 2 * self.stretch if self.several else 1
        return 8.0 * (result + count * self.n**2 + min(count, self.points) * self.n**2 * layers * _matrices(self.net))

    def march(self, layers: NDArray[np.int64], begin: Start, values: Mapping[str, Floats], grid: tuple[int, ...]) -> March:
        """Every point of a grid, from a start and values that broadcast with it."""
        count = math.prod(grid)
        given = {name: v.reshape(()) if v.size == 1 else np.broadcast_to(v, grid).reshape(count) for name, v in values.items()}
        out = March.empty(layers, count, self.n, has_tangent(self.net))
        step = flow_of(self.net)
        parts = [slice(first, min(first + self.points, count)) for first in range(0, count, self.points)]
        for part in track(parts, "propagate", len(parts)):
            own = {name: v[part] if v.ndim else v for name, v in given.items()}
            _Points(self, step, own, out.of(part)).run(begin.of(part, grid).grams)
        bad = np.flatnonzero(~np.isin(out.status, _WHOLE))
        if bad.size:
            own = {name: np.broadcast_to(v, count)[bad] for name, v in given.items()}
            out.silence(bad[self._silent(own, bad.size)])
        return out.shaped(grid)

    def _silent(self, values: Mapping[str, Floats], count: int) -> NDArray[np.bool_]:
        """Which of so many points take every signal to 0, as parameters are 0: so do they whatever the others are"""
        if self.net.closes:
            rec = recursion(self.net)
            return silent_points(rec, np.array([values[s.name] for s in rec.parameters]).reshape(-1, count))
        kept = sizes_of(self.net)
        matrix, silent = np.broadcast_to(np.eye(self.n), (count, self.n, self.n)), np.ones(count, dtype=bool)
        for whatever in _WHATEVER:
            plain = {name: v if name in kept else (v != 0) * whatever**k for k, (name, v) in enumerate(values.items(), 1)}
            start = Grams(matrix, 1.0 - matrix)
            after = flow_of(self.net)(start, {**plain, "l": np.zeros(()), "L": np.asarray(float(self.depth))}).state
            silent &= (after.matrix == 0).all((-1, -2))
        return silent


def _matrices(block: Block) -> int:
    if one_law(block) or block.pattern is not None:
        return MATRICES
    if isinstance(block, Serial):
        return sum(map(_matrices, joined(block)))
    if isinstance(block, Parallel):
        return MATRICES + sum(map(_matrices, block.branches))
    if isinstance(block, Residual):
        return MATRICES + _matrices(block.branch)
    return block.times * _matrices(block.block) if isinstance(block, Repeat) else MATRICES


@dataclass(frozen=True)
class _Points:
    """Points that go together, and where their results belong."""

    passes: Passes
    step: Step
    values: Mapping[str, Floats]
    out: March

    def run(self, G: Grams) -> None:
        """Write each of their numbers, into memory that may hold anything."""
        self.out.status[:] = "ok"
        starts, pulls = self._forth(G)
        if self.passes.several:
            self._back(starts, pulls)
        else:
            self.out.backward[:, 0], self.out.alike[:, 0] = self.out.forward[:, 0], np.nan

    @cached_property
    def _places(self) -> dict[int, int]:
        return {int(l): k for k, l in enumerate(self.out.layers)}

    @cached_property
    def _harmless(self) -> Floats:
        """what takes the place of a matrix that went wrong, which is shown as NaN"""
        return np.eye(self.passes.n)

    @property
    def _seed(self) -> Floats:
        """gradients at the output"""
        return np.ones((self.passes.n, self.passes.n)) if self.passes.pooled else self._harmless

    def _at(self, l: int) -> dict[str, Floats]:
        return {**self.values, "l": np.asarray(float(l)), "L": np.asarray(float(self.passes.depth))}

    def _forth(self, G: Grams) -> tuple[list[Grams], list[Map]]:
        """Gram matrices at the start of stretches, and the way back through the last of these"""
        status, depth, stretch = self.out.status, self.passes.depth, self.passes.stretch
        X, scale, theta = np.broadcast_to(self._harmless, G.shape), np.zeros(G.shape[0]), G.matrix
        starts: list[Grams] = []
        pulls: list[Map] = []
        self._keep(0, G, X, scale, theta)
        for l in track(range(depth), "propagate", depth):
            if self.passes.several and l % stretch == 0:
                starts.append(G)
                pulls.clear()
            flow = self.step(G, self._at(l))
            words = _words(flow.state.matrix)
            status[:] = np.where((status == "ok") | (words != "ok") & np.isin(status, _LIVE), words, status)
            with np.errstate(over="ignore", invalid="ignore"):
                X = flow.push(X)
                status[(status == "ok") & np.isposinf(np.diagonal(X, axis1=-2, axis2=-1)).any(-1)] = "infinite APJN"
                if self.out.tangent is not None and flow.tangent is not None:
                    theta = flow.push(theta) + flow.tangent()
                    status[(status == "ok") & ~np.isfinite(theta).all((-1, -2))] = "overflow"
            good = np.isin(status, _LIVE)[:, None, None]
            theta = np.where(good, theta, self._harmless)
            X, scale = _scaled(np.where(good, X, self._harmless), scale)
            if self.passes.several:
                pulls.append(flow.pull)
            G = flow.state.where(good, self._harmless)
            self._keep(l + 1, G, X, scale, theta)
        status[(status == "ok") & ~X.any((-1, -2))] = "zero APJN"
        return starts, pulls

    def _keep(self, l: int, G: Grams, X: Floats, scale: Floats, theta: Floats) -> None:
        k = self._places.get(l)
        if k is None:
            return
        good = np.isin(self.out.status, _LIVE)
        self.out.gram[:, k] = np.where(good[:, None, None], G.matrix, np.nan)
        self.out.gap[:, k] = np.where(good, G.gap(self.passes.pair), np.nan)
        if self.out.tangent is not None:
            self.out.tangent[:, k] = np.where(good[:, None, None], theta, np.nan)
        with np.errstate(divide="ignore"):
            self.out.forward[:, k] = np.where(good[:, None], np.log((X * self._seed).sum(-1)) + scale[:, None], np.nan)

    def _back(self, starts: list[Grams], pulls: list[Map]) -> None:
        depth, stretch, n = self.passes.depth, self.passes.stretch, self.passes.n
        whole = np.isin(self.out.status, _WHOLE)
        g, scale = np.broadcast_to(self._seed, (len(whole), n, n)), np.zeros(len(whole))
        for l in range(depth, -1, -1):
            k = self._places.get(l)
            if k is not None:
                own = np.diagonal(g, axis1=-2, axis2=-1)
                with np.errstate(divide="ignore"):
                    self.out.backward[:, k] = np.where(whole[:, None], np.log(own) + scale[:, None], np.nan)
                pairs = (g.sum((-1, -2)) - own.sum(-1)) / max(n - 1, 1)
                with np.errstate(invalid="ignore"):
                    self.out.alike[:, k] = np.where(whole, pairs / own.sum(-1), np.nan)
            if l == 0:
                return
            if not pulls:
                pulls = self._again(starts[(l - 1) // stretch], l - stretch, l, whole)
            with np.errstate(invalid="ignore"):
                g = np.where(whole[:, None, None], pulls.pop()(g), self._harmless)
            g, scale = _scaled(g, scale)

    def _again(self, G: Grams, start: int, stop: int, whole: NDArray[np.bool_]) -> list[Map]:
        """the way back through a stretch of layers, run once more"""
        pulls = []
        for l in range(start, stop):
            flow = self.step(G.where(whole[:, None, None], self._harmless), self._at(l))
            pulls.append(flow.pull)
            G = flow.state
        return pulls


def _scaled(X: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """matrices and the logarithms of factors taken out of them, which keeps the largest entries of those that are not 0 at 1; of those
    that are infinite all of it"""
    infinite = np.asarray(np.isposinf(np.diagonal(X, axis1=-2, axis2=-1)).any(-1))
    X, scale = np.where(infinite[:, None, None], np.eye(X.shape[-1]), X), np.where(infinite, np.inf, scale)
    size = np.abs(X).max((-1, -2))
    size = np.where(size == 0, 1.0, size)
    return X / size[:, None, None], scale + np.log(size)


def _words(G: Floats) -> NDArray[np.str_]:
    """what became of each point"""
    diagonal = np.diagonal(G, axis1=-2, axis2=-1)
    with np.errstate(invalid="ignore"):
        high, low = (diagonal >= 1e300).any(-1), (diagonal <= 1e-300).any(-1)
        words = np.where(high, "overflow", np.where(low, "underflow", "ok"))
    return np.where(np.isfinite(G).all((-1, -2)) | high, words, "invalid")
