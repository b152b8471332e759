"""Blocks, and how they compose: f >> g one after the other, f + g side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import sympy as sp
from sympy import S

from meanfield.blocks.descriptions import found_once
from meanfield.blocks.laws import Law, Mixing, Signal
from meanfield.symbols import known

__all__ = [
    "Block",
    "Composite",
    "Parallel",
    "Serial",
    "agreed_tokens",
    "backward",
    "checked_block",
    "made_of",
    "law_on",
    "probe",
    "symmetric_only",
]


class Block(ABC):
    """A part of a network. The one thing a block says of itself is its law.

    A law maps a `Signal` to a `Law`; a subclass need state no more. f >> g is one after the other (`Serial`), f + g their sum (`Parallel`).

    >>> import meanfield as mf, sympy as sp
    >>> class Flip(mf.Block):
    ...     def law(self, x):
    ...         return mf.Law(x.times(-sp.S.One), transfer=sp.eye(2), chi=sp.S.One)
    >>> mf.recursion(mf.Linear(2, 1) >> Flip()).q
    4*q + 1
    """

    #: whether the law is linear in (q, p): nothing after such a block needs a name of its own
    affine: bool = False
    #: whether it acts on each token by itself and its law reads `second`, `second_mean`: it holds for two inputs of unequal norm
    tokenwise: bool = False
    #: whether (q, p) of permutation-symmetric tokens is all that its law needs
    closes: bool = True

    @property
    def tokens(self) -> sp.Expr | None:
        """How many tokens it mixes: its `n`, if it has one; None if it acts on each token by itself."""
        return getattr(self, "n", None)

    @property
    def pattern(self) -> Mixing | None:
        """How it mixes tokens, if its weights for that are fixed: what the n x n Gram recursion needs of a block that is not tokenwise."""
        return None

    @abstractmethod
    def law(self, signal: Signal) -> Law:
        """The law on that signal. Raises ValueError where the block makes no sense on it, with what to insert."""

    def __rshift__(self, other: Block) -> Serial:
        return Serial((*_parts(self), *_parts(checked_block(other, "the block after >>"))))

    def __rrshift__(self, other: Any) -> Serial:
        return checked_block(other, "the block before >>") >> self

    def __add__(self, other: Block) -> Parallel:
        return Parallel((self, checked_block(other, "the block after +")))

    def check(self) -> None:
        """Build the law on a Gaussian signal, so that nonsense is refused while the network is described."""
        found_once("sound", self, self._check)

    def _check(self) -> None:
        agreed_tokens((self,))
        if not self.closes:
            _check_told_apart(self)
        self.after(probe())

    def after(self, signal: Signal) -> Signal:
        """What the block leaves of that signal."""
        return law_on(self, signal).output


def law_on(block: Block, signal: Signal) -> Law:
    """The law of a block on a signal, made once: every network that it becomes a part of asks for it again.

    Raises TypeError where a user's own block returns anything else.
    """
    try:
        hash(block)
    except TypeError:  # a user's own, with a list in it
        return _checked_law(block, signal)
    return _made(block, signal)


@lru_cache(maxsize=1024)
def _made(block: Block, signal: Signal) -> Law:
    return _checked_law(block, signal)


def _checked_law(block: Block, signal: Signal) -> Law:
    law: Any = block.law(signal)
    if not isinstance(law, Law):
        raise TypeError(f"{type(block).__name__}.law returned {law!r}: expected an mf.Law, as mf.Law(signal, transfer=sp.eye(2), chi=1)")
    return law


def symmetric_only(block: Block) -> ValueError:
    """What is wrong with a block in a network whose tokens are told apart."""
    return ValueError(
        f"{block} has a law for permutation-symmetric tokens of equal norm only, and stands where tokens are told apart: replace it "
        "by mf.CausalAttention(...) or mf.FixedAttention(...), or by a block whose law reads signal.second (tokenwise = True)"
    )


def _check_told_apart(block: Block) -> None:
    if block.tokenwise or block.pattern is not None:
        return
    if not isinstance(block, Composite):
        raise symmetric_only(block)
    for part in block.parts:
        _check_told_apart(part)


def probe(*, gaussian: bool = True) -> Signal:
    """A signal of the plain symbols q, p and delta."""
    return Signal(known("q"), known("p"), known("delta"), gaussian=gaussian)


_Gradient = TypeVar("_Gradient")


def backward(steps: Sequence[Callable[[_Gradient], _Gradient]]) -> Callable[[_Gradient], _Gradient]:
    """The way of a gradient through parts in series: last one first."""

    def through(g: _Gradient) -> _Gradient:
        for step in reversed(steps):
            g = step(g)
        return g

    return through


def checked_block(value: Any, name: str) -> Block:
    """The value, if it is a block."""
    if not isinstance(value, Block):
        raise TypeError(f"{name} = {value!r}: expected a block, as mf.LayerNorm(), mf.Linear() or mf.Activate(phi)")
    return value


def made_of(block: Block) -> dict[str, Any]:
    """What the block was made of by name, if it is a dataclass."""
    return {f.name: getattr(block, f.name) for f in getattr(type(block), "__dataclass_fields__", {}).values() if f.init}


def _checked_parts(values: Any, name: str) -> tuple[Block, ...]:
    if not isinstance(values, Iterable):
        raise TypeError(f"{name} = {values!r}: expected a tuple of blocks")
    parts = tuple(checked_block(value, f"one of {name}") for value in values)
    if not parts:
        raise ValueError(f"{name} = (): expected at least one block")
    return parts


def agreed_tokens(blocks: Iterable[Block]) -> sp.Expr | None:
    """The number of tokens that the blocks of one network mix, refused if they do not agree."""
    found = list(dict.fromkeys(b.tokens for b in blocks if b.tokens is not None))
    if len(found) > 1:
        raise ValueError(f"blocks of one network mix n = {' and n = '.join(map(str, found))} tokens: give all of them the same n")
    return found[0] if found else None


def _parts(block: Block) -> tuple[Block, ...]:
    return block.blocks if isinstance(block, Serial) else (block,)


class Composite(Block):
    """A block made of blocks, which has of each property what all of them have."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Block, ...]:
        """What it is made of."""

    @property
    def tokens(self) -> sp.Expr | None:
        return agreed_tokens(self.parts)

    @property
    def tokenwise(self) -> bool:  # type: ignore[override]
        return all(b.tokenwise for b in self.parts)

    @property
    def closes(self) -> bool:  # type: ignore[override]
        return all(b.closes for b in self.parts)


@dataclass(frozen=True)
class Serial(Composite):
    """One block after another, written f >> g >> ...: signal maps compose, transfers multiply, chi's multiply.

    Nonsense, as an activation of what is not Gaussian, is refused where the sequence is built.

    Parameters
    ----------
    blocks : tuple of Block
        At least one, in the order in which the signal meets them.

    >>> import meanfield as mf
    >>> net = mf.Serial((mf.Linear(2, 0), mf.Activate(mf.relu), mf.Linear(3, 1)))
    >>> mf.recursion(net).q, mf.recursion(net).chi
    (18*q + 1, 18)
    >>> net == mf.Linear(2, 0) >> mf.Activate(mf.relu) >> mf.Linear(3, 1)
    True
    """

    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", _checked_parts(self.blocks, "blocks"))
        self.check()

    def after(self, signal: Signal) -> Signal:
        """Its moments stay symbols but where they vanish: a formula of every part is not needed to refuse nonsense."""
        for block in self.blocks:
            out = block.after(signal)
            pairs = ((signal.q, out.q), (signal.p, out.p), (signal.delta, out.delta))
            q, p, delta = (new if 0 in (old, new) else old for old, new in pairs)
            signal = replace(out, q=q, p=p, delta=delta)
        return signal

    @property
    def affine(self) -> bool:  # type: ignore[override]
        return all(b.affine for b in self.blocks)

    @property
    def parts(self) -> tuple[Block, ...]:
        return self.blocks

    def law(self, signal: Signal) -> Law:
        law = Law(signal, sp.eye(2), S.One, (), (S.Zero, S.Zero))
        for i, block in enumerate(self.blocks):
            step = law_on(block, law.output)
            if not block.affine and not all(b.affine for b in self.blocks[i + 1 :]):
                step = step.named()
            tangent = _carried(law.tangent, step)
            law = Law(step.output, law.transfer * step.transfer, law.chi * step.chi, law.definitions + step.definitions, tangent)
        return law


def _carried(tangent: tuple[sp.Expr, sp.Expr] | None, step: Law) -> tuple[sp.Expr, sp.Expr] | None:
    """the tangent kernel of what stands before a step, after it: carried by its transfer, and its own weights' part added"""
    if tangent is None or step.tangent is None:
        return None
    t = step.transfer
    if not t.is_diagonal():
        return None
    return t[0, 0] * tangent[0] + step.tangent[0], t[1, 1] * tangent[1] + step.tangent[1]


@dataclass(frozen=True)
class Parallel(Composite):
    """f_1(x) + f_2(x) + ... with independent weights, written f_1 + f_2: moments, transfers and chi's of the branches add.

    Parameters
    ----------
    branches : tuple of Block
        At least one; all but one must end with random zero-mean weights (Linear, Attention, MLP), which make them uncorrelated.

    >>> import meanfield as mf
    >>> rec = mf.recursion(mf.Residual(mf.UniformAttention(2, 1, 1) + mf.MLP(mf.relu, 1, 1)))
    >>> rec.q, rec.chi
    (p/2 + 2*q, 2)
    """

    branches: tuple[Block, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "branches", _checked_parts(self.branches, "branches (blocks)"))
        self.check()

    @property
    def parts(self) -> tuple[Block, ...]:
        return self.branches

    def law(self, signal: Signal) -> Law:
        laws = [law_on(b, replace(signal, mixed=False)) for b in self.branches]
        out = [f.output for f in laws]
        if sum(not o.mixed for o in out) > 1:
            raise ValueError("two parallel branches have no random weights and are correlated: end them with a Linear")
        if sum(o.mean != 0 for o in out) > 1:
            raise ValueError("two parallel branches end with a non-zero mean: end them with a Linear")
        total = out[0]
        for o in out[1:]:
            total = total.plus(o)
        total = replace(total, mixed=signal.mixed or total.mixed)
        own = [f.tangent for f in laws if f.tangent is not None]
        tangent = (sp.Add(*[t[0] for t in own]), sp.Add(*[t[1] for t in own])) if len(own) == len(laws) else None
        transfer = laws[0].transfer
        for f in laws[1:]:
            transfer += f.transfer
        definitions = dict.fromkeys(d for f in laws for d in f.definitions)  # branches that are alike share theirs
        return Law(total, transfer, sp.Add(*[f.chi for f in laws]), tuple(definitions), tangent)
