"""What deep networks are stacked of: a branch beside its skip, and the same layer many times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from meanfield import arguments
from meanfield.blocks.algebra import Block, Composite, Serial, checked_block, law_on
from meanfield.blocks.laws import Law, Signal

__all__ = ["LONGEST", "Repeat", "Residual"]

#: layers up to which a law is written out as one formula
LONGEST = 32


@dataclass(frozen=True)
class Residual(Composite):
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
    def parts(self) -> tuple[Block, ...]:
        return (self.branch,)

    def law(self, signal: Signal) -> Law:
        f = law_on(self.branch, replace(signal, mixed=False))
        if not f.output.mixed:
            raise ValueError(f"the branch {self.branch} has no random weights and is correlated with the skip: end it with a Linear")
        if f.output.mean != 0:
            raise ValueError(f"the branch {self.branch} hands a non-zero mean to the skip: end it with a Linear")
        a, b = self.skip**2, self.scale**2
        output = replace(signal.times(self.skip).plus(f.output.times(self.scale)), mixed=signal.mixed)
        tangent = None if f.tangent is None else (b * f.tangent[0], b * f.tangent[1])
        return Law(output, a * sp.eye(2) + b * f.transfer, a + b * f.chi, f.definitions, tangent)


@dataclass(frozen=True)
class Repeat(Composite):
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
    def parts(self) -> tuple[Block, ...]:
        return (self.block,)

    def after(self, signal: Signal) -> Signal:
        return Serial((self.block,) * min(self.times, 2)).after(signal)

    def law(self, signal: Signal) -> Law:
        if self.times > LONGEST:
            raise ValueError(
                f"{self.times} repeats inside of another block make a formula too long (at most {LONGEST}): end the residual or parallel "
                "branch before the repeat, or spell the network as first >> Repeat(block, times) >> last"
            )
        return Serial((self.block,) * self.times).law(signal)
