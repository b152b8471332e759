"""What a network needs to be run by Gram matrices: the laws of its parts on entries (q_i, p_ij, q_j), its parameters and tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.blocks.algebra import Block, Composite, Parallel, Serial, law_on, symmetric_only
from meanfield.blocks.laws import TOKENS, Law, Signal
from meanfield.blocks.stacking import Repeat, Residual
from meanfield.gaussian.expectation import Node
from meanfield.gaussian.lacks import Apart
from meanfield.gaussian.shared_parts import parts_of
from meanfield.numeric.pointwise import number_at
from meanfield.symbols import bindable, known, merged

__all__ = [
    "check_means",
    "described",
    "entry_laws",
    "explicit",
    "has_softmax",
    "has_tangent",
    "joined",
    "one_law",
    "parameters_of",
    "sizes_of",
    "tokens_of",
]

q, p, delta, q1, q2 = (known(name) for name in ("q", "p", "delta", "q1", "q2"))

#: repeats up to which they are one formula, which grows by a factor with each
SHORT = 4


def one_law(block: Block) -> bool:
    """whether it acts on tokens one by one, by a formula that is not too long"""
    return block.tokenwise and not _endless(block) and not _divides(block)


def _endless(block: Block) -> bool:
    """whether it repeats itself too often for one formula"""
    if isinstance(block, Serial):
        return any(map(_endless, block.blocks))
    return isinstance(block, Repeat) and (block.times > SHORT or _endless(block.block))


def _divides(block: Block) -> bool:
    """whether it has several laws, one after another"""
    if isinstance(block, Serial):
        return len(joined(block)) > 1
    if isinstance(block, Residual):
        return _divides(block.branch)
    if isinstance(block, Parallel):
        return any(map(_divides, block.branches))
    return isinstance(block, Repeat) and block.times > 1 and (_divides(block.block) or _bends(block.block))


def joined(block: Serial) -> list[Block]:
    """The parts, neighbours that act on tokens one by one joined: what an activation leaves behind, a mean or what is not Gaussian, stays
    inside one law. From where coordinates are centred Gaussians again the next activation has a law of its own: formulas put into one
    another grow by a factor with each."""
    parts: list[list[Block]] = []
    for part in block.blocks:
        if parts and all(b.tokenwise and not _endless(b) for b in (*parts[-1], part)) and not _is_cut(parts[-1], part):
            parts[-1].append(part)
        else:
            parts.append([part])
    return [group[0] if len(group) == 1 else Serial(tuple(group)) for group in parts]


def _is_cut(group: list[Block], part: Block) -> bool:
    """whether a part has a law of its own behind those of a group, which begins where coordinates are centred Gaussians"""
    after = Serial(tuple(group)).after(Signal(q, p, delta))
    if not after.gaussian or after.mean != 0:
        return False
    return any(map(_divides, (*group, part))) or (_bends(part) and any(map(_bends, group)))


def _bends(block: Block) -> bool:
    """whether the law of a part of it holds expectations"""
    if isinstance(block, Composite):
        return any(map(_bends, block.parts))
    law = law_on(block, Signal(q, p, delta))
    written = (law.output.q, law.output.delta, *law.transfer, *(d.value for d in law.definitions))
    return any(parts_of(sp.sympify(e), Node) for e in written)


@dataclass(frozen=True)
class EntryLaws:
    """Variance, covariance, factor of a perturbation and part of the NTK: of a token in mf.q, of two in mf.q1, mf.p, mf.q2. Of two by what
    their covariance lacks of its bound, `delta`: that, factor and NTK at equal variances mf.q, and that at unequal ones."""

    same: tuple[sp.Expr, ...]
    pair: tuple[sp.Expr, ...]
    equal: tuple[sp.Expr, ...]
    lack: sp.Expr


@lru_cache(maxsize=256)
def entry_laws(block: Block) -> EntryLaws:
    same = block.law(Signal(q, p, delta))
    pair = block.law(Signal(q1, p, Apart(q1, q2, delta), q2=q2))
    own_same, own_pair = same.tangent or (), pair.tangent or ()
    one = explicit(same, (same.output.q, same.transfer[0, 0], *own_same[:1]))
    two = explicit(pair, (pair.output.p, pair.transfer[1, 1], *own_pair[1:]))
    equal = explicit(same, (same.output.delta, same.transfer[1, 1], *own_same[1:]))
    (lack,) = explicit(pair, (pair.output.lack,))
    return EntryLaws(one, two, tuple(e.xreplace({p: q - delta}) for e in equal), lack)


def explicit(law: Law, wanted: Iterable[sp.Expr]) -> tuple[sp.Expr, ...]:
    """Expressions of a law with its named quantities put in, as numbers are computed, one symbol per name."""
    named = {d.symbol: d.value if d.kernel is None else d.kernel for d in law.definitions}

    def put(e: sp.Expr) -> sp.Expr:
        while not e.free_symbols.isdisjoint(named):
            e = e.xreplace(named)
        return e

    found = [put(sp.sympify(e)).replace(Apart, lambda *parts: Apart(*parts).written) for e in wanted]
    one = merged({s for e in found for s in e.free_symbols})
    return tuple(e.xreplace(one) for e in found)


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
    names = bindable({s for e in found for s in e.free_symbols} - state, block)
    one = merged(names)
    return tuple(sorted({one.get(s, s) for s in names}, key=lambda s: s.name))


def sizes_of(block: Block) -> frozenset[str]:
    """The parameters that say how large a Gram matrix is."""
    numbers = [part.pattern.n for part in _parts(block) if isinstance(part, Block) and part.pattern is not None]
    return frozenset(s.name for n in numbers for s in n.free_symbols)


def tokens_of(block: Block, values: Mapping[str, NDArray[np.float64]]) -> int | None:
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
            return carried and part.skip != 0
        if isinstance(part, Parallel):
            return any(tuple(after(branch, carried) for branch in part.branches))
        if isinstance(part, Repeat):
            for _ in range(min(part.times, 2)):
                carried = after(part.block, carried)
            return carried
        return False

    block.after(Signal(q, p, delta, gaussian=block.after(Signal(q, p, delta)).gaussian))  # what the next repeat starts from
    after(block, after(block, False))
