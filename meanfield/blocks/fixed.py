r"""Attention that tells tokens apart, as under a causal mask, with fixed or softmax weights. (q, p) does not close under it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy import S

from meanfield import arguments
from meanfield.blocks.algebra import Block
from meanfield.blocks.laws import TOKENS, Law, Mixing, Signal

__all__ = ["CausalAttention", "FixedAttention", "MaskedAttention"]


@dataclass(frozen=True)
class FixedAttention(Block):
    r"""x_a -> W_O W_V \sum_b A_ab x_b with weights A_ab that do not depend on the tokens (position-only attention).

    Tokens do not stay permutation-symmetric, so that there is no recursion in (q, p): `mf.propagate` runs their n x n Gram matrix G,

        G' = \sigma_O^2 \sigma_V^2 A G A^T,   \Gamma' = \sigma_O^2 \sigma_V^2 A^T \Gamma A   (gradients, backward),

    with every other block acting on the entries (q_i, p_ij, q_j).

    Parameters
    ----------
    weights : sympy expression
        A_ab in `mf.i` and `mf.j`, the token indices 1 ... n, in n and parameters. A token whose row is 0 gets nothing: without a skip
        beside it a run ends there as "underflow".
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
        object.__setattr__(self, "weights", _checked_weights(self.weights))
        for name in ("n", "sigma_V", "sigma_O"):
            object.__setattr__(self, name, arguments.scalar(getattr(self, name), name))

    @property
    def pattern(self) -> Mixing:
        return Mixing((self.sigma_O * self.sigma_V) ** 2, self.weights, self.n, 2)

    def law(self, signal: Signal) -> Law:
        return _unknown_moments()


@dataclass(frozen=True)
class MaskedAttention(Block):
    r"""Softmax attention with a mask or bias on its logits: A_ab = B_ab e^{S_ab}/\sum_c B_ac e^{S_ac}, B_ab >= 0 fixed, S = x^T W_Q^T W_K
    x/\sqrt{d_k}.

    Logits are Gaussian given the Gram matrix G of the tokens, Cov(S_ij, S_kl) = s G_ik G_jl R(i - j - k + l) with s = \sigma_QK^2 and
    R(m) the mean of cos(\vartheta m) over the `frequencies` \vartheta of rotary positions (1 without). Of a row a softmax sees the centred
    logits T_ij = S_ij - \sum_l w_il S_il alone, w = B with rows that sum to 1. Averages are annealed ones of \sqrt{\omega_ij} T_ij,

        E A_ij A_kl = w_ij w_kl exp(E (\sqrt{\omega_ij} T_ij + \sqrt{\omega_kl} T_kl)^2/2)/\sum_{j'l'} (the same of j', l'),

    and G'_ik = a \sum_jl E[A_ij A_kl] G_jl, a = \sigma_O^2 \sigma_V^2. They are exact to first order in s for every G; \omega_ij =
    \omega(v_ij, m_i), the factor of v = s q (q - p) in the law of `mf.Quenched`, taken at the variance of T_ij, times m_i/(m_i - 1), and at
    m_i = 1/\sum_j w_ij^2 tokens, makes those of one row exact for permutation-symmetric tokens at any s. A logit that varies more saturates
    more: one \omega_i for a row, at the mean variance, is off by up to 12 % where this is off by 1.3 %.

    Backward, with the response V^{ik} = \sqrt{\eta_i \eta_k} (D_i - \alpha_i \alpha_i^T) G (D_k - \alpha_k \alpha_k^T) of two rows, where
    \alpha_i is the mean row, D_i the diagonal matrix of it, and \eta_i makes a row exact for permutation-symmetric tokens,

        \Gamma'_jl = a \sum_ik \Gamma_ik (E[A_ij A_kl] + s G_ik R V^{ik}_jl) + a s \Gamma_jl \sum_j'l' R V^{jl}_j'l' G_j'l'

    (values, keys, queries). Against averages over Gaussian logits of 8 tokens of q = 1, p = 0.4 under a causal mask (tests/numeric), G' is
    off by at most 0.2 % at s = 1 and 1 % at s = 4 with equal norms and where they differ by a factor of 2, by 0.5 % and 1.3 % where
    covariances differ as much, and then by 1.5 % and 5.3 % under a bias that falls off with the distance. Of 6 tokens of q = 1 with
    covariances between -0.3 and 0.4, G' under a causal mask is off by at most 0.5, 2.2, 3.2 % of q at s = 1, 4, 9, that under such a bias
    by 4, 12, 15 %. A step takes n^4 operations: about 0.5 s at n = 64.

    Parameters
    ----------
    weights : sympy expression
        B_ab in `mf.i` and `mf.j`, the token indices 1 ... n, in n and parameters; e^{bias} for a bias of the logits.
    n, sigma_Q, sigma_K, sigma_V, sigma_O :
        As in `mf.Attention`.
    frequencies : sequence of numbers or expressions
        Of a rotary embedding, \theta^{-2k/d_k} for k = 0 ... d_k/2 - 1, all turned pairs of a head.

    Examples
    --------
    >>> import meanfield as mf, sympy as sp
    >>> nearest = sp.exp(-abs(mf.i - mf.j))
    >>> run = mf.propagate(mf.MaskedAttention(nearest, 3, 1, 1, 1, 1), depth=1, q=1.0, p=0.0)
    >>> run.gram[-1].diagonal().round(3)
    array([0.569, 0.511, 0.569])
    """

    weights: Any
    n: Any = None
    sigma_Q: Any = None
    sigma_K: Any = None
    sigma_V: Any = None
    sigma_O: Any = None
    frequencies: tuple[Any, ...] = ()
    closes = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _checked_weights(self.weights))
        for name in ("n", "sigma_Q", "sigma_K", "sigma_V", "sigma_O"):
            object.__setattr__(self, name, arguments.scalar(getattr(self, name), name))
        object.__setattr__(self, "frequencies", _checked_frequencies(self.frequencies))

    @property
    def pattern(self) -> Mixing:
        strength = (self.sigma_Q * self.sigma_K) ** 2
        return Mixing((self.sigma_O * self.sigma_V) ** 2, self.weights, self.n, 2, strength, self.frequencies)

    def law(self, signal: Signal) -> Law:
        return _unknown_moments()


def _checked_weights(weights: Any) -> sp.Expr:
    try:
        checked = arguments.expression(weights, "weights")
    except TypeError:
        what = "a sympy expression in mf.i and mf.j, the token indices 1 ... n, of which weights are a function"
        raise TypeError(f"weights = {weights!r}: expected {what}, got {type(weights).__name__}") from None
    if any(s.name in ("q", "p", "delta", "x", "y") for s in checked.free_symbols):
        raise ValueError(f"weights = {checked}: fixed weights depend on mf.i, mf.j, mf.n and parameters, not on the signal")
    return checked


def _checked_frequencies(frequencies: Any) -> tuple[sp.Expr, ...]:
    if isinstance(frequencies, str) or not isinstance(frequencies, Iterable):
        raise TypeError(f"frequencies = {frequencies!r}: expected a sequence of numbers or expressions")
    return tuple(arguments.expression(f, "frequencies") for f in frequencies)


def _unknown_moments() -> Law:
    """What is known without the Gram matrix: Gaussian, mixed, without a mean; moments are symbols of their own."""
    q, p, delta = sp.Dummy("q", positive=True), sp.Dummy("p", real=True), sp.Dummy("delta", nonnegative=True)
    transfer = sp.Matrix(2, 2, [sp.Dummy("T", real=True) for _ in range(4)])
    return Law(Signal(q, p, delta, S.Zero, gaussian=True, mixed=True), transfer, transfer[0, 0])


def CausalAttention(
    n: Any = None,
    sigma_V: Any = None,
    sigma_O: Any = None,
    *,
    sigma_Q: Any = 0,
    sigma_K: Any = 0,
    frequencies: tuple[Any, ...] = (),
    identity: Any = 0,
    uniform: Any = 1,
) -> FixedAttention | MaskedAttention:
    r"""Attention of a decoder, under a causal mask: `MaskedAttention` with B_ij = 1 for j <= i and 0 elsewhere.

    Without sigma_Q and sigma_K logits are equal, and it is the `FixedAttention` A = identity * 1 + uniform * C, C_ij = 1/i for j <= i:
    `identity`, `uniform` are 0 and 1 for a decoder, \alpha and \beta - \gamma for shaped attention at zero logits (He & Hofmann 2023);
    there are no `frequencies` then, which turn queries and keys.
    From q and p at all tokens, C leads to G_ij = p + (q - p)/max(i, j).

    >>> import meanfield as mf
    >>> run = mf.propagate(mf.CausalAttention(), depth=1, q=1.0, p=0.4, n=4, sigma_V=1, sigma_O=1)
    >>> run.gram[-1].round(3)
    array([[1.  , 0.7 , 0.6 , 0.55],
           [0.7 , 0.7 , 0.6 , 0.55],
           [0.6 , 0.6 , 0.6 , 0.55],
           [0.55, 0.55, 0.55, 0.55]])
    >>> run = mf.propagate(mf.CausalAttention(sigma_Q=1, sigma_K=1), depth=1, q=1.0, p=0.4, n=4, sigma_V=1, sigma_O=1)
    >>> run.gram[-1].diagonal().round(3)
    array([1.   , 0.759, 0.661, 0.607])
    """
    i, j = TOKENS
    causal = sp.Piecewise((1 / i, sp.Le(j, i)), (S.Zero, True))
    identity, uniform = arguments.scalar(identity, "identity"), arguments.scalar(uniform, "uniform")
    turned = _checked_frequencies(frequencies)
    if sigma_Q == 0 or sigma_K == 0:
        if turned:
            raise ValueError(f"frequencies = {turned}: they turn queries and keys, and need sigma_Q and sigma_K that are not zero")
        identical = sp.Piecewise((S.One, sp.Eq(i, j)), (S.Zero, True))
        return FixedAttention(identity * identical + uniform * causal, n, sigma_V, sigma_O)
    if (identity, uniform) != (0, 1):
        raise ValueError(f"identity = {identity}, uniform = {uniform}: expected 0 and 1 where sigma_Q and sigma_K are not zero")
    return MaskedAttention(causal, n, sigma_Q, sigma_K, sigma_V, sigma_O, turned)
