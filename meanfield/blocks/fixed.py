r"""Attention with fixed weights: every token its own mixture of the others, as under a causal mask. (q, p) does not close under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy import S

from meanfield import arguments
from meanfield.blocks.algebra import TOKENS, Block, Law, Mixing, Signal

__all__ = ["CausalAttention", "FixedAttention"]


@dataclass(frozen=True)
class FixedAttention(Block):
    r"""x_a -> W_O W_V \sum_b A_ab x_b with weights A_ab that do not depend on the tokens (position-only attention).

    Tokens do not stay permutation-symmetric, so that there is no recursion in (q, p): `mf.propagate` runs their n x n Gram matrix G,

        G' = \sigma_O^2 \sigma_V^2 A G A^T,   \Gamma' = \sigma_O^2 \sigma_V^2 A^T \Gamma A   (gradients, backward),

    with every other block acting on the entries (q_i, p_ij, q_j).

    Parameters
    ----------
    weights : sympy expression
        A_ab in `mf.i` and `mf.j`, the token indices 1 ... n, in n and parameters.
    n, sigma_V, sigma_O :
        As in `mf.Attention`.

    Examples
    --------
    >>> import meanfield as mf, sympy as sp
    >>> window = mf.FixedAttention(sp.Piecewise((sp.Rational(1, 2), abs(mf.i - mf.j) <= 1), (0, True)), n=3, sigma_V=1, sigma_O=1)
    >>> mf.propagate(window, depth=1, q=1.0, p=0.0).gram[-1]
    array([[0.5 , 0.5 , 0.25],
           [0.5 , 0.75, 0.5 ],
           [0.25, 0.5 , 0.5 ]])
    """

    weights: Any
    n: Any = None
    sigma_V: Any = None
    sigma_O: Any = None
    closes = False

    def __post_init__(self) -> None:
        weights = arguments.expression(self.weights, "weights")
        if any(s.name in ("q", "p", "delta", "x", "y") for s in weights.free_symbols):
            raise ValueError(f"weights = {weights}: fixed weights depend on mf.i, mf.j, mf.n and parameters, not on the signal")
        object.__setattr__(self, "weights", weights)
        for name in ("n", "sigma_V", "sigma_O"):
            object.__setattr__(self, name, arguments.scalar(getattr(self, name), name))

    @property
    def pattern(self) -> Mixing:
        return Mixing((self.sigma_O * self.sigma_V) ** 2, self.weights, self.n, 2)

    def law(self, signal: Signal) -> Law:
        """What is known without the Gram matrix: Gaussian, mixed, without a mean; moments are symbols of their own."""
        q, p, delta = sp.Dummy("q", positive=True), sp.Dummy("p", real=True), sp.Dummy("delta", nonnegative=True)
        transfer = sp.Matrix(2, 2, [sp.Dummy("T", real=True) for _ in range(4)])
        return Law(Signal(q, p, delta, S.Zero, gaussian=True, mixed=True), transfer, transfer[0, 0])


def CausalAttention(n: Any = None, sigma_V: Any = None, sigma_O: Any = None, *, identity: Any = 0, uniform: Any = 1) -> FixedAttention:
    r"""Uniform attention under a causal mask: A = identity * 1 + uniform * C, C_ij = 1/i for j <= i  (softmax of equal logits).

    `identity`, `uniform` are 0 and 1 for the attention of a decoder; \alpha and \beta - \gamma for shaped attention at zero logits (He &
    Hofmann 2023). From q and p at all tokens, C leads to G_ij = p + (q - p)/max(i, j).

    >>> import meanfield as mf
    >>> run = mf.propagate(mf.CausalAttention(), depth=1, q=1.0, p=0.4, n=4, sigma_V=1, sigma_O=1)
    >>> run.gram[-1].round(3)
    array([[1.  , 0.7 , 0.6 , 0.55],
           [0.7 , 0.7 , 0.6 , 0.55],
           [0.6 , 0.6 , 0.6 , 0.55],
           [0.55, 0.55, 0.55, 0.55]])
    """
    i, j = TOKENS
    causal = sp.Piecewise((1 / i, sp.Le(j, i)), (S.Zero, True))
    identical = sp.Piecewise((S.One, sp.Eq(i, j)), (S.Zero, True))
    return FixedAttention(
        arguments.scalar(identity, "identity") * identical + arguments.scalar(uniform, "uniform") * causal, n, sigma_V, sigma_O
    )
