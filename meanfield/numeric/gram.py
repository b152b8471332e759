r"""The n x n Gram matrix of n tokens or inputs over depth, where (q, p) is not enough: fixed attention weights, inputs of unequal norm.

Blocks that treat each token by itself act on entries, (q_i, p_ij, q_j) -> p'_ij; fixed mixing acts as G -> gain A G A^T; residual and
parallel branches add. Beside G go the push-forward X of unit perturbations at the input, the pull-back of gradients at the output, and
the neural tangent kernel, all three linear in each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, reduce, singledispatch
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.blocks.algebra import Block, Parallel, Serial, symmetric_only
from meanfield.blocks.laws import TOKENS, Law, Mixing, Signal
from meanfield.blocks.stacking import Repeat, Residual
from meanfield.numeric.evaluation import evaluate
from meanfield.numeric.gram_softmax import SoftmaxRows
from meanfield.symbols import known, merged, reserved

__all__ = [
    "Flow",
    "check_means",
    "described",
    "entry_laws",
    "explicit",
    "flow_of",
    "has_softmax",
    "has_tangent",
    "joined",
    "number_at",
    "one_law",
    "parameters_of",
    "tokens_of",
]

Floats = NDArray[np.float64]
Map = Callable[[Floats], Floats]

q, p, delta, q1, q2 = (known(name) for name in ("q", "p", "delta", "q1", "q2"))


@dataclass(frozen=True)
class Flow:
    """One step at a layer: the Gram matrix after it, the linear maps of perturbations and of gradients, and what it adds to the NTK."""

    gram: Floats
    push: Map
    pull: Map
    tangent: Floats | None


#: repeats up to which they are one formula, which grows by a factor with each
SHORT = 4
#: values of all symbols at a layer, of the shape of the grid
Values = Mapping[str, Floats]
Step = Callable[[Floats, Values], Flow]


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


def one_law(block: Block) -> bool:
    """whether it acts on tokens one by one, by a formula that is not too long"""
    return block.tokenwise and not _long(block)


def _long(block: Block) -> bool:
    if isinstance(block, Serial):
        return any(_long(part) for part in block.blocks)
    return isinstance(block, Repeat) and (block.times > SHORT or _long(block.block))


def _in_turn(steps: list[Step]) -> Step:
    """one step after another"""

    def step(G: Floats, values: Values) -> Flow:
        flows: list[Flow] = []
        own: Floats | None = np.zeros(())
        for part in steps:
            flow = part(G, values)
            own = None if own is None or flow.tangent is None else (flow.push(own) if flows else own) + flow.tangent
            flows.append(flow)
            G = flow.gram
        return Flow(
            G, lambda X: reduce(lambda Y, f: f.push(Y), flows, X), lambda g: reduce(lambda h, f: f.pull(h), reversed(flows), g), own
        )

    return step


def joined(block: Serial) -> list[Block]:
    """the parts, neighbours that act on tokens one by one joined: what an activation leaves behind stays inside one law"""
    parts: list[list[Block]] = []
    for part in block.blocks:
        if parts and one_law(part) and one_law(parts[-1][-1]):
            parts[-1].append(part)
        else:
            parts.append([part])
    return [group[0] if len(group) == 1 else Serial(tuple(group)) for group in parts]


def _sum(terms: list[tuple[sp.Expr, Step | None]]) -> Step:
    """scaled branches from the same input, with independent weights; None is the input itself"""
    identity = Flow(np.empty(0), lambda X: X, lambda g: g, np.zeros(()))
    weights = [_Lasting(factor**2) for factor, _ in terms]

    def step(G: Floats, values: Values) -> Flow:
        flows = [(weight(values)[..., None, None], s and s(G, values)) for weight, (_, s) in zip(weights, terms, strict=True)]
        parts = [(w, replace(identity, gram=G) if f is None else f) for w, f in flows]

        def added(which: str, X: Floats) -> Floats:
            return np.asarray(sum(w * getattr(f, which)(X) for w, f in parts))

        own = [w * f.tangent for w, f in parts if f.tangent is not None]
        tangent = np.asarray(sum(own)) if len(own) == len(parts) else None
        return Flow(np.asarray(sum(w * f.gram for w, f in parts)), lambda X: added("push", X), lambda g: added("pull", g), tangent)

    return step


def _mixed(mixing: Mixing) -> Step:
    gains, weights = _Lasting(mixing.gain), _Lasting(mixing.weights)
    i, j = (symbol.name for symbol in TOKENS)

    def step(G: Floats, values: Values) -> Flow:
        indices = np.arange(1, G.shape[-1] + 1)
        gain = gains(values)[..., None, None]
        inner = {name: np.asarray(v)[..., None, None] for name, v in values.items()}
        A = np.broadcast_to(weights({**inner, i: indices[:, None], j: indices}), np.broadcast_shapes(G.shape, gain.shape))
        if mixing.strength != 0:
            angles = np.array([float(number_at(f, values)) for f in mixing.frequencies])
            rows = SoftmaxRows(G, A, number_at(mixing.strength, values), angles)
            gain = np.broadcast_to(gain, (*G.shape[:-2], 1, 1))
            return Flow(gain * rows.gram(), lambda X: gain * rows.push(X), lambda g: gain * rows.pull(g), None)
        T = np.swapaxes(A, -1, -2)
        after = gain * (A @ G @ T)
        return Flow(after, lambda X: gain * (A @ X @ T), lambda g: gain * (T @ g @ A), mixing.matrices * after)

    return step


# -- blocks that act on each token by itself ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entrywise:
    """Variance, covariance, factor of a perturbation and part of the NTK: of a token in mf.q, of two in mf.q1, mf.p, mf.q2."""

    same: tuple[sp.Expr, ...]
    pair: tuple[sp.Expr, ...]


@lru_cache(maxsize=256)
def entry_laws(block: Block) -> _Entrywise:
    same = block.law(Signal(q, p, delta))
    pair = block.law(Signal(q1, p, (q1 + q2) / 2 - p, q2=q2))
    own_same, own_pair = same.tangent or (), pair.tangent or ()
    one = explicit(same, (same.output.q, same.transfer[0, 0], *own_same[:1]))
    two = explicit(pair, (pair.output.p, pair.transfer[1, 1], *own_pair[1:]))
    return _Entrywise(one, two)


def explicit(law: Law, wanted: Iterable[sp.Expr]) -> tuple[sp.Expr, ...]:
    """Expressions of a law with its named quantities put in, as numbers are computed, one symbol per name."""
    named = {d.symbol: d.value if d.kernel is None else d.kernel for d in law.definitions}

    def put(e: sp.Expr) -> sp.Expr:
        while not e.free_symbols.isdisjoint(named):
            e = e.xreplace(named)
        return e

    found = [put(sp.sympify(e)) for e in wanted]
    one = merged({s for e in found for s in e.free_symbols})
    return tuple(e.xreplace(one) for e in found)


def _entries(block: Block) -> Step:
    laws = entry_laws(block)

    def step(G: Floats, values: Values) -> Flow:
        n = G.shape[-1]
        i, j = np.triu_indices(n, 1)
        diagonal = np.diagonal(G, axis1=-2, axis2=-1)
        variances = (diagonal[..., i], diagonal[..., j])
        limit = np.sqrt(variances[0]) * np.sqrt(variances[1])
        inner = {name: np.asarray(v)[..., None] for name, v in values.items()}
        own = {**inner, "q": diagonal}
        pairs = {**inner, "q1": variances[0], "q2": variances[1], "p": np.clip(G[..., i, j], -limit, limit)}
        tables = []
        for one, two in zip(laws.same, laws.pair, strict=True):
            shape = np.broadcast_shapes(G.shape, *((*v.shape, 1) for v in inner.values()))
            out = np.empty(shape)
            out[..., range(n), range(n)] = number_at(one, own)
            if n > 1:
                out[..., i, j] = out[..., j, i] = number_at(two, pairs)
            tables.append(out)
        after, factor = tables[:2]
        return Flow(after, lambda X: factor * X, lambda g: factor * g, tables[2] if len(tables) > 2 else None)

    return step


class _Lasting:
    """An expression at the values of parameters, kept from layer to layer while those that it has stay the same."""

    def __init__(self, e: sp.Expr) -> None:
        self._expression = e
        self._names = {s.name for s in e.free_symbols}
        self._at: dict[str, Floats] | None = None
        self._value: Floats = np.empty(0)

    def __call__(self, values: Values) -> Floats:
        at = {name: np.asarray(v) for name, v in values.items() if name in self._names}
        before = self._at
        if before is None or any(v.shape != before[name].shape or (v != before[name]).any() for name, v in at.items()):
            self._at, self._value = at, number_at(self._expression, values)
        return self._value


def number_at(e: sp.Expr, values: Mapping[str, Any]) -> Floats:
    """The expression at arrays of values; where it is no normal double, inf, 0 or NaN."""
    names, jumps = _letters(e)
    given: dict[str, Any] = {name: np.asarray(v, dtype=np.float64) for name, v in values.items() if name in names}
    if not names:
        return np.asarray(float(e))
    if jumps:
        return np.full(np.broadcast_shapes(*(v.shape for v in given.values())), np.inf)
    try:
        return np.asarray(evaluate(e, **given))
    except ArithmeticError:
        shape = np.broadcast_shapes(*(v.shape for v in given.values()))
        full = {name: np.broadcast_to(v, shape).ravel() for name, v in given.items()}
        if not shape:
            return np.asarray(_beyond(e, given))
        points = [number_at(e, {name: v[k] for name, v in full.items()}) for k in range(int(np.prod(shape)))]
        return np.array(points).reshape(shape)


@lru_cache(maxsize=512)
def _letters(e: sp.Expr) -> tuple[frozenset[str], bool]:
    """the symbols of an expression by name, and whether it is infinite: an activation that jumps has no finite slope"""
    return frozenset(s.name for s in e.free_symbols), bool(e.has(sp.oo))


def _beyond(e: sp.Expr, given: Mapping[str, Any]) -> float:
    """inf or 0 for a positive value that is no normal double, NaN for one that is not to be had"""
    try:
        return math.inf if evaluate(e, log=True, **given) > 0 else 0.0
    except (ArithmeticError, ValueError):
        return math.nan


# -- what a network needs -----------------------------------------------------------------------------------------------------------


def _parts(block: Block) -> Iterator[Block | sp.Expr]:
    """the tokenwise and mixing parts of a network, and the scales of its residuals"""
    if one_law(block) or block.pattern is not None:
        yield block
    elif isinstance(block, Serial):
        for part in joined(block):
            yield from _parts(part)
    elif isinstance(block, Parallel):
        for part in block.branches:
            yield from _parts(part)
    elif isinstance(block, Residual):
        yield from (block.skip, block.scale)
        yield from _parts(block.branch)
    elif isinstance(block, Repeat):
        yield from _parts(block.block)
    else:
        raise symmetric_only(block)


@lru_cache(maxsize=256)
def parameters_of(block: Block) -> tuple[sp.Symbol, ...]:
    """What has to be bound before numbers come out."""
    found: list[sp.Expr] = []
    for part in _parts(block):
        if not isinstance(part, Block):
            found.append(part)
        elif part.pattern is not None:
            found += (part.pattern.gain, part.pattern.weights, part.pattern.n, part.pattern.strength, *part.pattern.frequencies)
        else:
            found += (*entry_laws(part).same, *entry_laws(part).pair)
    state = {*TOKENS, q1, q2}
    names = {s for e in found for s in e.free_symbols if s.name not in reserved} - state
    one = merged(names)
    return tuple(sorted({one.get(s, s) for s in names}, key=lambda s: s.name))


def tokens_of(block: Block, values: Values) -> int | None:
    """How many tokens its fixed attentions mix, None if there is none; they must agree."""
    counts = set()
    for part in _parts(block):
        if isinstance(part, Block) and part.pattern is not None:
            number = number_at(part.pattern.n, values)
            if np.ndim(number):
                raise ValueError(f"n = an array of shape {np.shape(number)}: the size of a Gram matrix is one number")
            counts.add(int(number))
    if len(counts) > 1:
        raise ValueError(f"the attentions of this network mix {sorted(counts)} tokens: expected one number n for all")
    return next(iter(counts), None)


def has_tangent(block: Block) -> bool:
    """Whether every part says what its weights add to the neural tangent kernel."""
    parts = [part for part in _parts(block) if isinstance(part, Block)]
    return not has_softmax(block) and all(part.pattern is not None or len(entry_laws(part).same) > 2 for part in parts)


def has_softmax(block: Block) -> bool:
    """Whether tokens are mixed by weights that depend on them."""
    patterns = [part.pattern for part in _parts(block) if isinstance(part, Block) and not one_law(part)]
    return any(pattern is not None and pattern.strength != 0 for pattern in patterns)


@lru_cache(maxsize=256)
def described(block: Block) -> str:
    """A network by its structure and the laws of its parts, the same in every process."""
    laws = [repr(entry_laws(part)) if part.pattern is None else repr(part.pattern) for part in _parts(block) if isinstance(part, Block)]
    return "\n".join([repr(block), *laws])


@lru_cache(maxsize=256)
def check_means(block: Block) -> None:
    """Refuse a network in which a norm or activation would see a mean that the Gram matrix does not tell."""
    mean = sp.Dummy("mean", real=True)

    def after(part: Block, carried: bool) -> bool:
        """whether coordinates have a mean after a part"""
        if one_law(part):
            law = part.law(Signal(q, p, delta, mean if carried else sp.S.Zero))
            if any(mean in e.free_symbols for e in explicit(law, (law.output.q, law.output.p, *law.transfer))):
                raise ValueError(f"{part} would see tokens with a non-zero mean: insert a Linear before it")
            return bool(law.output.mean != 0)
        if isinstance(part, Serial):
            for inner in joined(part):
                carried = after(inner, carried)
            return carried
        if isinstance(part, Residual):
            after(part.branch, carried)
            return carried
        if isinstance(part, Parallel):
            return any(tuple(after(branch, carried) for branch in part.branches))
        if isinstance(part, Repeat):
            for _ in range(min(part.times, 2)):
                carried = after(part.block, carried)
            return carried
        return False

    block.after(Signal(q, p, delta, gaussian=block.after(Signal(q, p, delta)).gaussian))  # what the next repeat starts from
    after(block, after(block, False))
