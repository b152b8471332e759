r"""The core idea on one page: a block is a law on second moments.

A *signal* is what a block sees of its input: q, the variance of a component of a token; p, the covariance of that component between
two tokens (or two inputs); delta = q - p, kept apart because p cannot hold it once p/q is near 1. A *block* maps a signal to a
signal and contributes a 2 x 2 *transfer* matrix acting backward on the second moments of the gradient,

    J = E |g_a|^2 / d  (same token),   K = E g_a . g_b / d  (two tokens),   (J, K)_in = T(q, p) (J, K)_out.

chi is the same-token factor T[J, J] of an elementary block, multiplied along a serial composition: the recursion that treats the
gradients of different tokens as independent. Blocks compose by three laws, each one line in one place below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import sympy as sp
from sympy import S

from meanfield import arguments
from meanfield.symbols import known

__all__ = [
    "LONGEST",
    "NO_WEIGHTS",
    "TOKENS",
    "Block",
    "Definition",
    "Law",
    "Mixing",
    "Parallel",
    "Repeat",
    "Residual",
    "Serial",
    "Signal",
    "agreed_tokens",
    "backward",
    "checked_block",
    "symmetric_only",
]


@dataclass(frozen=True)
class Signal:
    """Second moments of a coordinate over tokens, its mean, and two facts on which laws depend.

    `gaussian`: an expectation over an activation is only allowed over Gaussian coordinates; a linear map makes them so, an activation
    ends it. `mixed`: whether random weights have made the coordinates independent of where the branch began, so that a skip may be
    added to them. `q2`, `mean2`: variance and mean of the second of two inputs where its norm is another; delta is then
    (q + q2)/2 - p.

    >>> import meanfield as mf
    >>> x = mf.Signal(mf.q, mf.p, mf.delta)
    >>> out = mf.Linear(2, 1).law(x).output
    >>> out.q, out.p, out.delta, out.mixed
    (4*q + 1, 4*p + 1, 4*delta, True)
    """

    q: sp.Expr
    p: sp.Expr
    delta: sp.Expr
    mean: sp.Expr = S.Zero
    gaussian: bool = True
    mixed: bool = False
    q2: sp.Expr | None = None
    mean2: sp.Expr | None = None

    @property
    def second(self) -> sp.Expr:
        """The variance of the second token or input."""
        return self.q if self.q2 is None else self.q2

    @property
    def second_mean(self) -> sp.Expr:
        """The mean of the second token or input."""
        return self.mean if self.mean2 is None else self.mean2

    def mapped(self, f: Callable[[sp.Expr], sp.Expr]) -> Signal:
        """The signal whose moments are a linear function of the ones here."""
        second = None if self.q2 is None else f(self.q2)
        return replace(self, q=f(self.q), p=f(self.p), delta=sp.expand(f(self.q) - f(self.q - self.delta)), q2=second)

    def times(self, factor: sp.Expr) -> Signal:
        """The signal of factor * x."""
        second = None if self.mean2 is None else factor * self.mean2
        return replace(self.mapped(lambda r: factor**2 * r), mean=factor * self.mean, mean2=second)

    def plus(self, other: Signal) -> Signal:
        """The signal of a sum of uncorrelated terms."""
        q2 = None if self.q2 is None else self.q2 + other.second
        mean2 = None if self.mean2 is other.mean2 is None else self.second_mean + other.second_mean
        gaussian, mixed = self.gaussian and other.gaussian, self.mixed and other.mixed
        return Signal(self.q + other.q, self.p + other.p, self.delta + other.delta, self.mean + other.mean, gaussian, mixed, q2, mean2)


@dataclass(frozen=True)
class Definition:
    """A named quantity of a law: its symbol (unique, printed as `latex`) and what it stands for.

    `kernel` is put in its place where numbers are computed, `shown` where formulas are read, if these differ.
    """

    symbol: sp.Dummy
    value: sp.Expr
    latex: str
    kernel: sp.Expr | None = None
    shown: sp.Expr | None = None


@dataclass(frozen=True)
class Law:
    """What a block does to a signal: the output, the transfer of (J, K), chi, and the named quantities these are written in.

    `tangent`: what its own weights add to the neural tangent kernel of a token and of two (NTK parametrisation); None if not known.

    >>> import meanfield as mf
    >>> law = mf.Linear(2, 1).law(mf.Signal(mf.q, mf.p, mf.delta))
    >>> law.transfer, law.chi, law.tangent
    (Matrix([
    [4, 0],
    [0, 4]]), 4, (4*q + 1, 4*p + 1))
    """

    output: Signal
    transfer: sp.Matrix
    chi: sp.Expr
    definitions: tuple[Definition, ...] = ()
    tangent: tuple[sp.Expr, sp.Expr] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "transfer", sp.ImmutableMatrix(self.transfer))

    def named(self) -> Law:
        r"""The same law with output and diagonal transfer named \tilde q, \tilde p, \hat q, \hat p, for what follows to be written in."""
        out, t, chi = self.output, self.transfer, self.chi
        new: list[Definition] = []

        def name(value: sp.Expr, label: str, **assumptions: bool) -> sp.Expr:
            if value.is_Number:
                return value
            letter, _, accent = label.partition("_")
            new.append(Definition(sp.Dummy(label, **assumptions), value, rf"\{accent} {letter}"))
            return new[-1].symbol

        q = name(out.q, "q_tilde", positive=True)
        q2 = None if out.q2 is None else name(out.q2, "q_tilde", positive=True)
        p, delta = out.p, out.delta
        if q2 is not None:
            p, delta = sp.Dummy("p_tilde", real=True), sp.Dummy("delta_tilde", nonnegative=True)
            new += (Definition(p, out.p, r"\tilde p"), Definition(delta, (q + q2) / 2 - p, r"\tilde\delta"))
        elif not (p.is_Number and delta.is_Number):
            p = sp.Dummy("p_tilde", real=True)
            delta = delta if delta.is_Number else sp.Dummy("delta_tilde", nonnegative=True)
            new.append(Definition(p, out.p, r"\tilde p", kernel=q - delta))
        if q2 is None and not delta.is_Number:
            # rounding must not carry delta past p = -q
            new.append(Definition(delta, sp.Min(out.delta, 2 * q), r"\tilde\delta", shown=q - p))
        if chi == t[0, 0] and t.is_diagonal():
            chi = name(chi, "q_hat", positive=True)
            t = sp.diag(chi, chi if t[1, 1] == t[0, 0] else name(t[1, 1], "p_hat", real=True))
        return Law(replace(out, q=q, p=p, delta=delta, q2=q2), t, chi, (*self.definitions, *new), self.tangent)


@dataclass(frozen=True)
class Mixing:
    r"""x_a -> W \sum_b A_ab x_b with fixed A: Gram matrices go to gain * A G A^T, those of gradients to gain * A^T G A.

    `weights` is A_ab, an expression in `i`, `j` (token indices 1 ... n, `TOKENS`), n and parameters; `matrices` counts the random
    matrices of which W is the product. Where `strength` = \sigma_QK^2 is not 0, they are B_ab in A_ab = B_ab e^{S_ab}/\sum_c B_ac e^{S_ac}
    with random logits S, and `frequencies` are the angles per position by which queries and keys are turned.
    """

    gain: sp.Expr
    weights: sp.Expr
    n: sp.Expr
    matrices: int
    strength: sp.Expr = S.Zero
    frequencies: tuple[sp.Expr, ...] = ()


#: layers up to which a law is written out as one formula
LONGEST = 32
#: the tangent of a block without weights
NO_WEIGHTS = (S.Zero, S.Zero)
#: the indices of two tokens, 1 ... n
TOKENS = (sp.Symbol("i", integer=True, positive=True), sp.Symbol("j", integer=True, positive=True))


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
        agreed_tokens((self,))
        if not self.closes:
            _check_told_apart(self)
        self.after(probe())

    def after(self, signal: Signal) -> Signal:
        """What the block leaves of that signal."""
        return self.law(signal).output


def symmetric_only(block: Block) -> ValueError:
    """What is wrong with a block in a network whose tokens are told apart."""
    return ValueError(
        f"{block} has a law for permutation-symmetric tokens of equal norm only, and stands where tokens are told apart: replace it "
        "by mf.CausalAttention(...) or mf.FixedAttention(...), or by a block whose law reads signal.second (tokenwise = True)"
    )


def _check_told_apart(block: Block) -> None:
    if block.tokenwise or block.pattern is not None:
        return
    kinds = {Serial: "blocks", Parallel: "branches", Residual: "branch", Repeat: "block"}
    if type(block) not in kinds:
        raise symmetric_only(block)
    parts = getattr(block, kinds[type(block)])
    for part in parts if isinstance(parts, tuple) else (parts,):
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


def _checked_parts(values: tuple[Any, ...], name: str) -> None:
    if not values:
        raise ValueError(f"{name} = (): expected at least one block")
    for value in values:
        checked_block(value, f"one of {name}")


def agreed_tokens(blocks: Iterable[Block]) -> sp.Expr | None:
    """The number of tokens that the blocks of one network mix, refused if they do not agree."""
    found = list(dict.fromkeys(b.tokens for b in blocks if b.tokens is not None))
    if len(found) > 1:
        raise ValueError(f"blocks of one network mix n = {' and n = '.join(map(str, found))} tokens: give all of them the same n")
    return found[0] if found else None


def _parts(block: Block) -> tuple[Block, ...]:
    return block.blocks if isinstance(block, Serial) else (block,)


@dataclass(frozen=True)
class Serial(Block):
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
        _checked_parts(self.blocks, "blocks")
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
    def tokens(self) -> sp.Expr | None:
        return agreed_tokens(self.blocks)

    @property
    def tokenwise(self) -> bool:  # type: ignore[override]
        return all(b.tokenwise for b in self.blocks)

    @property
    def closes(self) -> bool:  # type: ignore[override]
        return all(b.closes for b in self.blocks)

    def law(self, signal: Signal) -> Law:
        law = Law(signal, sp.eye(2), S.One, (), (S.Zero, S.Zero))
        for i, block in enumerate(self.blocks):
            step = block.law(law.output)
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
class Residual(Block):
    r"""skip x + scale f(x) with a branch f whose last weights are independent of x: second moments add.

    q <- skip^2 q + scale^2 q_f, the same for p; T <- skip^2 1 + scale^2 T_f; chi <- skip^2 + scale^2 chi_f.

    Parameters
    ----------
    branch : Block
        It must end with random zero-mean weights (Linear, Attention, MLP), which make its output uncorrelated with the skip.
    skip, scale : number or sympy expression
        Of any sign, may depend on L and l, as 1/sqrt(L).

    >>> import meanfield as mf, sympy as sp
    >>> rec = mf.recursion(mf.Residual(mf.MLP(mf.relu, 2, 1), scale=1 / sp.sqrt(mf.L)))
    >>> rec.q, rec.chi
    (q + 2*q/L, 1 + 2/L)
    """

    branch: Block
    skip: Any = 1
    scale: Any = 1

    def __post_init__(self) -> None:
        checked_block(self.branch, "branch")
        object.__setattr__(self, "skip", arguments.scalar(self.skip, "skip"))
        object.__setattr__(self, "scale", arguments.scalar(self.scale, "scale"))
        self.check()

    @property
    def tokens(self) -> sp.Expr | None:
        return agreed_tokens((self.branch,))

    @property
    def tokenwise(self) -> bool:  # type: ignore[override]
        return self.branch.tokenwise

    @property
    def closes(self) -> bool:  # type: ignore[override]
        return self.branch.closes

    def law(self, signal: Signal) -> Law:
        f = self.branch.law(replace(signal, mixed=False))
        if not f.output.mixed:
            raise ValueError(f"the branch {self.branch} has no random weights and is correlated with the skip: end it with a Linear")
        if f.output.mean != 0:
            raise ValueError(f"the branch {self.branch} hands a non-zero mean to the skip: end it with a Linear")
        a, b = self.skip**2, self.scale**2
        output = replace(signal.times(self.skip).plus(f.output.times(self.scale)), mixed=signal.mixed)
        tangent = None if f.tangent is None else (b * f.tangent[0], b * f.tangent[1])
        return Law(output, a * sp.eye(2) + b * f.transfer, a + b * f.chi, f.definitions, tangent)


@dataclass(frozen=True)
class Parallel(Block):
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
        _checked_parts(self.branches, "branches (blocks)")
        self.check()

    @property
    def tokens(self) -> sp.Expr | None:
        return agreed_tokens(self.branches)

    @property
    def tokenwise(self) -> bool:  # type: ignore[override]
        return all(b.tokenwise for b in self.branches)

    @property
    def closes(self) -> bool:  # type: ignore[override]
        return all(b.closes for b in self.branches)

    def law(self, signal: Signal) -> Law:
        laws = [b.law(replace(signal, mixed=False)) for b in self.branches]
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
        return Law(total, transfer, sp.Add(*[f.chi for f in laws]), sum((f.definitions for f in laws), ()), tangent)


@dataclass(frozen=True)
class Repeat(Block):
    """The same description `times` times with fresh weights; L and l in it count repeats of the whole network.

    Parameters
    ----------
    block : Block
        What is repeated.
    times : whole number >= 1
        At most 32 inside of a residual or parallel branch, where it is written out as one formula.

    >>> import meanfield as mf
    >>> layer = mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu, 1, 1))
    >>> mf.recursion(mf.Repeat(layer, 3)).q
    q + 3/2
    >>> mf.propagate(mf.Repeat(layer, 3) >> mf.LayerNorm(), 1, 1.0, c=0.5).q
    array([1., 1.])
    """

    block: Block
    times: int

    def __post_init__(self) -> None:
        checked_block(self.block, "block")
        arguments.check_integer(self.times, "times", 1)
        self.check()

    @property
    def tokens(self) -> sp.Expr | None:
        return agreed_tokens((self.block,))

    @property
    def tokenwise(self) -> bool:  # type: ignore[override]
        return self.block.tokenwise

    @property
    def closes(self) -> bool:  # type: ignore[override]
        return self.block.closes

    def after(self, signal: Signal) -> Signal:
        return Serial((self.block,) * min(self.times, 2)).after(signal)

    def law(self, signal: Signal) -> Law:
        if self.times > LONGEST:
            raise ValueError(
                f"{self.times} repeats inside of another block make a formula too long (at most {LONGEST}): end the residual or parallel "
                "branch before the repeat, or spell the network as first >> Repeat(block, times) >> last"
            )
        return Serial((self.block,) * self.times).law(signal)
