r"""The n x n Gram matrix of n tokens or inputs over depth, where (q, p) is not enough: fixed attention weights, inputs of unequal norm.

Blocks that treat each token by itself act on entries, (q_i, p_ij, q_j) -> p'_ij; fixed mixing acts as G -> gain A G A^T; residual and
parallel branches add. What entries lack of their bound goes along, see `gram_state`. Beside these go the push-forward X of unit
perturbations at the input, the pull-back of gradients at the output, and the neural tangent kernel, all three linear in each step.
Matrices and parameters that are `Dual` carry derivatives along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce, singledispatch

import numpy as np
import sympy as sp

from meanfield.blocks.algebra import Block, Parallel, Serial, symmetric_only
from meanfield.blocks.laws import TOKENS, Mixing
from meanfield.blocks.stacking import Repeat, Residual
from meanfield.numeric.duals import Varied
from meanfield.numeric.gram_entries import entries_at
from meanfield.numeric.gram_laws import entry_laws, joined, one_law
from meanfield.numeric.gram_mixing import mixed
from meanfield.numeric.gram_softmax import SoftmaxRows
from meanfield.numeric.gram_state import Grams
from meanfield.numeric.pointwise import Lasting

__all__ = ["Flow", "Map", "Step", "flow_of"]

Map = Callable[[Varied], Varied]


@dataclass(frozen=True)
class Flow:
    """One step at a layer: the Gram matrix after it, the linear maps of perturbations and of gradients, and what it adds to the NTK."""

    state: Grams
    push: Map
    pull: Map
    tangent: Callable[[], Varied] | None


#: values of all symbols at a layer, of the shape of the grid
Values = Mapping[str, Varied]
Step = Callable[[Grams, Values], Flow]


@singledispatch
def flow_of(block: Block) -> Step:
    """How a block acts on a Gram matrix of shape (*grid, n, n).

    Raises
    ------
    ValueError
        It mixes tokens by a law that holds for permutation-symmetric tokens only, as softmax attention.
    """
    if one_law(block):
        return _entries(block)
    mixing = block.pattern
    if mixing is None:
        raise symmetric_only(block)
    return _mixed(mixing)


@flow_of.register
def _(block: Serial) -> Step:
    return _entries(block) if one_law(block) else _in_turn([flow_of(part) for part in joined(block)])


@flow_of.register
def _(block: Residual) -> Step:
    if one_law(block):
        return _entries(block)
    return _sum([(block.skip, None), (block.scale, flow_of(block.branch))])


@flow_of.register
def _(block: Parallel) -> Step:
    return _entries(block) if one_law(block) else _sum([(sp.S.One, flow_of(b)) for b in block.branches])


@flow_of.register
def _(block: Repeat) -> Step:
    return _entries(block) if one_law(block) else _in_turn([flow_of(block.block)] * block.times)


def _in_turn(steps: list[Step]) -> Step:
    """one step after another"""

    def step(G: Grams, values: Values) -> Flow:
        flows: list[Flow] = []
        for part in steps:
            flows.append(part(flows[-1].state if flows else G, values))

        def own() -> Varied:
            return reduce(lambda total, f: f.push(total) + f.tangent(), flows[1:], flows[0].tangent())  # type: ignore[misc]

        return Flow(
            flows[-1].state,
            lambda X: reduce(lambda Y, f: f.push(Y), flows, X),
            lambda g: reduce(lambda h, f: f.pull(h), reversed(flows), g),
            own if all(f.tangent for f in flows) else None,
        )

    return step


def _sum(terms: list[tuple[sp.Expr, Step | None]]) -> Step:
    """scaled branches from the same input, with independent weights; None is the input itself"""
    weights = [Lasting(factor**2) for factor, _ in terms]

    def step(G: Grams, values: Values) -> Flow:
        identity = Flow(G, lambda X: X, lambda g: g, lambda: np.zeros(()))
        parts = [(weight(values)[..., None, None], s(G, values) if s else identity) for weight, (_, s) in zip(weights, terms, strict=True)]

        def added(of: Callable[[Flow], Varied]) -> Varied:
            return sum(w * of(f) for w, f in parts)

        own = None if any(f.tangent is None for _, f in parts) else lambda: added(lambda f: f.tangent and f.tangent())
        state = reduce(Grams.plus, (f.state.times(w) for w, f in parts))
        return Flow(state, lambda X: added(lambda f: f.push(X)), lambda g: added(lambda f: f.pull(g)), own)

    return step


def _mixed(mixing: Mixing) -> Step:
    gains, weights, strengths = (Lasting(e) for e in (mixing.gain, mixing.weights, mixing.strength))
    turns = [Lasting(f) for f in mixing.frequencies]
    i, j = (symbol.name for symbol in TOKENS)

    def step(G: Grams, values: Values) -> Flow:
        indices = np.arange(1, G.shape[-1] + 1)
        gain = gains(values)[..., None, None]
        inner = {name: v[..., None, None] for name, v in values.items()}
        A = weights({**inner, i: indices[:, None], j: indices})
        A = np.broadcast_to(A, np.broadcast_shapes(G.shape, gain.shape, A.shape))
        if mixing.strength != 0:
            rows = SoftmaxRows(G, A, strengths(values), [turn(values) for turn in turns])
            return Flow(rows.state().times(gain), lambda X: gain * rows.push(X), lambda g: gain * rows.pull(g), None)
        T = np.swapaxes(A, -1, -2)
        after = mixed(G, A).times(gain)
        return Flow(after, lambda X: gain * (A @ X @ T), lambda g: gain * (T @ g @ A), lambda: mixing.matrices * after.matrix)

    return step


def _entries(block: Block) -> Step:
    """a block that acts on each token by itself"""
    laws = entry_laws(block)

    def step(G: Grams, values: Values) -> Flow:
        after, factor, tangent = entries_at(laws, G, values)
        return Flow(after, lambda X: factor * X, lambda g: factor * g, tangent)

    return step
