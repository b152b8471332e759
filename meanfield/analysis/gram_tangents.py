r"""Forward mode through the Gram matrix of tokens that are told apart: G, the push-forward X of unit perturbations, and their tangents.

Blocks act on both at once; J^{L,0}, the mean over tokens of what reaches the input, is that of what X brings to the output, pull-back
and push-forward being transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, singledispatch

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.tangents import tangent
from meanfield.blocks.algebra import Block, Parallel, Serial, symmetric_only
from meanfield.blocks.laws import TOKENS
from meanfield.blocks.stacking import Repeat, Residual
from meanfield.numeric.gram import entry_laws, joined, number_at, one_law
from meanfield.numeric.gram_march import Gram
from meanfield.symbols import known

__all__ = ["gram_tangents"]

Floats = NDArray[np.float64]

q, p, q1, q2 = (known(name) for name in ("q", "p", "q1", "q2"))


@dataclass(frozen=True)
class State:
    """G and X of shape (*grid, n, n), and their tangents along each of some names, (names, *grid, n, n)."""

    gram: Floats
    push: Floats
    dot_gram: Floats
    dot_push: Floats


Values = Mapping[str, Floats]
Step = Callable[[State, Values, tuple[str, ...]], State]


def gram_tangents(ready: Gram, names: tuple[str, ...]) -> list[Floats]:
    """q, ln J and their derivatives by each of the names, and of more than one token the same of 1 - c; over the points of the grid."""
    n = ready.gram.shape[-1]
    G = np.broadcast_to(ready.gram, (*ready.grid, n, n))
    first = G[..., :1, :1]
    starts = {"q": G / first, "gap": first * (np.eye(n) - np.ones((n, n)))}
    dots = np.array([starts.get(name, np.zeros(G.shape)) for name in names])
    state = State(G, np.broadcast_to(np.eye(n), G.shape), dots, np.zeros(dots.shape))
    step, scale = _tangents(ready.net), np.zeros(ready.grid)
    for l in range(ready.depth):
        values = {**ready.parameters, "l": np.asarray(float(l)), "L": np.asarray(float(ready.depth))}
        state = step(state, {name: np.broadcast_to(v, ready.grid) for name, v in values.items()}, names)
        size = np.abs(state.push).max((-1, -2))
        scale = scale + np.log(size)
        size = size[..., None, None]
        state = State(state.gram, state.push / size, state.dot_gram, state.dot_push / size)

    def ends(X: Floats) -> Floats:
        return np.asarray((X.sum((-1, -2)) if ready.start == "pooled" else np.trace(X, axis1=-2, axis2=-1)) / n)

    def mean(G: Floats) -> Floats:
        return np.asarray(np.trace(G, axis1=-2, axis2=-1) / n)

    variance, dot_variance = mean(state.gram), mean(state.dot_gram)
    J = ends(state.push)
    found = [variance, np.log(J) + scale, dot_variance, ends(state.dot_push) / J]
    if n > 1:
        apart, dot_apart = (
            (v - (A.sum((-1, -2)) - n * v) / (n * (n - 1))) for v, A in ((variance, state.gram), (dot_variance, state.dot_gram))
        )
        found += [apart / variance, (dot_apart - apart / variance * dot_variance) / variance]
    if not all(np.isfinite(a).all() for a in found):
        raise ArithmeticError("the recursion or a derivative leaves the range of doubles at this depth: run propagate for its status")
    return found


@singledispatch
def _tangents(block: Block) -> Step:
    if one_law(block):
        return _entries(block)
    if block.pattern is None:
        raise symmetric_only(block)
    if block.pattern.strength != 0:
        raise ValueError(
            f"{block}: no derivatives of softmax averages over tokens that are told apart; sensitivities need its logits fixed"
        )
    return _mixed(block)


@_tangents.register
def _(block: Serial) -> Step:
    return _entries(block) if one_law(block) else _in_turn([_tangents(part) for part in joined(block)])


@_tangents.register
def _(block: Repeat) -> Step:
    return _entries(block) if one_law(block) else _in_turn([_tangents(block.block)] * block.times)


@_tangents.register
def _(block: Residual) -> Step:
    return _entries(block) if one_law(block) else _sum([(block.skip, None), (block.scale, _tangents(block.branch))])


@_tangents.register
def _(block: Parallel) -> Step:
    return _entries(block) if one_law(block) else _sum([(sp.S.One, _tangents(b)) for b in block.branches])


def _in_turn(steps: list[Step]) -> Step:
    def step(state: State, values: Values, names: tuple[str, ...]) -> State:
        for part in steps:
            state = part(state, values, names)
        return state

    return step


def _sum(terms: list[tuple[sp.Expr, Step | None]]) -> Step:
    def step(state: State, values: Values, names: tuple[str, ...]) -> State:
        total = [np.zeros(())] * 4
        for factor, part in terms:
            s = state if part is None else part(state, values, names)
            w, dw = (a[..., None, None] for a in _with_slopes(factor**2, values, names, state.gram.shape[:-2]))
            added = (w * s.gram, w * s.push, w * s.dot_gram + dw * s.gram, w * s.dot_push + dw * s.push)
            total = [a + b for a, b in zip(total, added, strict=True)]
        return State(*total)

    return step


def _with_slopes(e: sp.Expr, values: Values, names: tuple[str, ...], shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """numbers of that shape, and their derivatives by parameters"""
    symbols = {s.name: s for s in e.free_symbols}
    slopes = [number_at(_slope(e, symbols[name]), values) if name in symbols else np.zeros(()) for name in names]
    return np.broadcast_to(number_at(e, values), shape), np.array([np.broadcast_to(a, shape) for a in slopes])


def _mixed(block: Block) -> Step:
    mixing = block.pattern
    assert mixing is not None
    i, j = TOKENS

    def step(state: State, values: Values, names: tuple[str, ...]) -> State:
        n = state.gram.shape[-1]
        indices = np.arange(1, n + 1)
        inner = {name: np.asarray(v)[..., None, None] for name, v in values.items()} | {i.name: indices[:, None], j.name: indices}
        gain, dot_gain = (a[..., None, None] for a in _with_slopes(mixing.gain, values, names, state.gram.shape[:-2]))
        A, dot_A = _with_slopes(mixing.weights, inner, names, state.gram.shape)

        def mixed(X: Floats, dot: Floats) -> tuple[Floats, Floats]:
            T = np.swapaxes(A, -1, -2)
            half = dot_A @ X @ T
            return gain * (A @ X @ T), dot_gain * (A @ X @ T) + gain * (A @ dot @ T + half + np.swapaxes(half, -1, -2))

        gram, dot_gram = mixed(state.gram, state.dot_gram)
        push, dot_push = mixed(state.push, state.dot_push)
        return State(gram, push, dot_gram, dot_push)

    return step


@lru_cache(maxsize=1024)
def _slope(e: sp.Expr, s: sp.Symbol) -> sp.Expr:
    found = tangent(e, {s: sp.S.One})
    if unknown := found.atoms(sp.Derivative, sp.Subs):
        raise ValueError(f"its law holds {min(map(str, unknown))}, which has no formula: no sensitivities of this network")
    return found


def _entries(block: Block) -> Step:
    laws = entry_laws(block)

    def step(state: State, values: Values, names: tuple[str, ...]) -> State:
        n = state.gram.shape[-1]
        i, j = np.triu_indices(n, 1)
        own, dot_own = (np.diagonal(a, axis1=-2, axis2=-1) for a in (state.gram, state.dot_gram))
        limit = np.sqrt(own[..., i]) * np.sqrt(own[..., j])
        inner = {name: np.asarray(v)[..., None] for name, v in values.items()}
        one = (inner | {"q": own}, {"q": dot_own})
        pair = (
            inner | {"q1": own[..., i], "q2": own[..., j], "p": np.clip(state.gram[..., i, j], -limit, limit)},
            {"q1": dot_own[..., i], "q2": dot_own[..., j], "p": state.dot_gram[..., i, j]},
        )
        tables = []
        for same, two in zip(laws.same[:2], laws.pair[:2], strict=True):
            value, dot = np.empty(state.gram.shape), np.empty(state.dot_gram.shape)
            value[..., range(n), range(n)], dot[..., range(n), range(n)] = _moved(same, *one, names)
            if n > 1:
                value[..., i, j], dot[..., i, j] = _moved(two, *pair, names)
                value[..., j, i], dot[..., j, i] = value[..., i, j], dot[..., i, j]
            tables.append((value, dot))
        (gram, dot_gram), (factor, dot_factor) = tables
        return State(gram, factor * state.push, dot_gram, factor * state.dot_push + dot_factor * state.push)

    return step


def _moved(e: sp.Expr, values: Values, dots: Values, names: tuple[str, ...]) -> tuple[Floats, Floats]:
    """an entry, and its tangents: by what it is a function of, and by parameters"""
    value = number_at(e, values)
    total: Floats = np.zeros(next(iter(dots.values())).shape)
    for s in e.free_symbols:
        if s.name in dots:
            total = total + number_at(_slope(e, s), values) * dots[s.name]
        elif s.name in names:
            total[names.index(s.name)] += number_at(_slope(e, s), values)
    return value, total
