r"""Blocks without a skip around attention (He & Hofmann 2024, Simplifying transformer blocks; He et al. 2023).

Attention itself passes the signal on, by a matrix of token weights near the identity; the MLP keeps its skip and is weighted down.
In the source's letters \alpha_SA = 0, \beta_SA = 1, \alpha_FF = `skip` and \beta_FF = `scale`.
"""

from __future__ import annotations

from typing import Any, Final

import sympy as sp

from meanfield import arguments
from meanfield.architectures.sublayers import checked, normed
from meanfield.blocks.algebra import Block, Serial
from meanfield.blocks.attention import ShapedAttention, TokenMixing
from meanfield.blocks.elementary import Scale
from meanfield.blocks.softmax import Annealed, SoftmaxAverage
from meanfield.blocks.stacking import Residual
from meanfield.symbols import known

__all__ = ["downweighted", "sas", "sas_p", "shaped_attention", "value_skipinit"]

#: \beta_FF = O(1/\sqrt L)
_DOWN: Final = 1 / sp.sqrt(known("L"))


def downweighted(*, norm: Block | None = None, attention: Block, mlp: Block, skip: Any = 1, scale: Any = _DOWN) -> Serial:
    r"""The skipless block with a down-weighted MLP: x <- attention(norm(x)), then x <- skip x + scale mlp(norm(x)).

    With scale = c/\sqrt{L} the weight (1 + scale^2)^{-L/2} of the input tends to e^{-c^2/2} instead of 0 (see `mf.unrolled`).

    >>> import meanfield as mf
    >>> mf.recursion(mf.downweighted(norm=mf.LayerNorm(), attention=mf.Linear(1, 0), mlp=mf.MLP(mf.relu, 2, 1))).q
    1 + 2/L
    """
    checked(attention=attention, mlp=mlp)
    return normed(norm, attention) >> Residual(normed(norm, mlp), skip, scale)


def shaped_attention(
    *,
    norm: Block | None = None,
    mlp: Block | None = None,
    n: Any = None,
    alpha: Any = 1,
    beta: Any = 1,
    gamma: Any = 1,
    sigma_Q: Any = None,
    sigma_K: Any = None,
    sigma_V: Any = None,
    sigma_O: Any = None,
    softmax_derivative: bool = True,
    average: SoftmaxAverage | None = None,
    skip: Any = 1,
    scale: Any = _DOWN,
) -> Block:
    r"""The block with Shaped Attention, A <- alpha 1 + beta A - gamma C, in the place of attention and its skip.

    Parameters
    ----------
    norm : Block, optional
        In front of attention and of the MLP.
    mlp : Block, optional
        The branch of the second sublayer, skip x + scale mlp(norm(x)). Left out, the block is attention alone.
    n, alpha, beta, gamma, sigma_Q, sigma_K, sigma_V, sigma_O, softmax_derivative, average
        As in `mf.ShapedAttention`; at sigma_Q = 0 and sigma_V sigma_O = 1 attention starts as the identity.

    >>> import meanfield as mf
    >>> mf.recursion(mf.shaped_attention(n=8, sigma_Q=0, sigma_V=1, sigma_O=1)).transfer
    Matrix([
    [1, 0],
    [0, 1]])
    """
    attention = ShapedAttention(n, alpha, beta, gamma, sigma_Q, sigma_K, sigma_V, sigma_O, softmax_derivative, average)
    return _sublayers(norm, attention, mlp, skip, scale)


def _sublayers(norm: Block | None, attention: Block, mlp: Block | None, skip: Any, scale: Any) -> Block:
    """attention alone, or with the MLP behind it"""
    return normed(norm, attention) if mlp is None else downweighted(norm=norm, attention=attention, mlp=mlp, skip=skip, scale=scale)


def value_skipinit(
    *,
    norm: Block | None = None,
    mlp: Block | None = None,
    n: Any = None,
    alpha: Any = 1,
    beta: Any = 0,
    sigma_Q: Any = None,
    sigma_K: Any = None,
    sigma_V: Any = None,
    sigma_O: Any = None,
    softmax_derivative: bool = True,
    average: SoftmaxAverage | None = None,
    skip: Any = 1,
    scale: Any = _DOWN,
) -> Block:
    r"""The block with Value-SkipInit, A <- alpha 1 + beta A with alpha = 1 and beta = 0 at initialisation (He et al. 2023).

    Parameters as in `shaped_attention`. At initialisation attention is W_O W_V, and no parameter of the softmax is left.

    >>> import meanfield as mf, sympy as sp
    >>> mf.recursion(mf.value_skipinit()).q
    q*sigma_O**2*sigma_V**2
    >>> [s.name for s in mf.recursion(mf.value_skipinit(beta=sp.Symbol("beta"), sigma_V=1, sigma_O=1)).parameters]
    ['beta', 'n', 'sigma_K', 'sigma_Q']
    """
    attention = ShapedAttention(n, alpha, beta, 0, sigma_Q, sigma_K, sigma_V, sigma_O, softmax_derivative, average)
    return _sublayers(norm, attention, mlp, skip, scale)


def sas(
    *,
    mlp: Block,
    norm: Block | None = None,
    n: Any = None,
    alpha: Any = 1,
    beta: Any = 1,
    gamma: Any = 1,
    sigma_Q: Any = None,
    sigma_K: Any = None,
    softmax_derivative: bool = True,
    average: SoftmaxAverage | None = None,
    skip: Any = 1,
    scale: Any = _DOWN,
) -> Serial:
    r"""Simplified attention sub-block (He & Hofmann 2024, sec. 4.2): shaped attention without value and output matrices, W_Q = 0 at start.

    x <- M norm(x), then x <- skip x + scale mlp(norm(x)). Bind sigma_Q = 0 for the start.

    >>> import meanfield as mf
    >>> mf.recursion(mf.sas(mlp=mf.MLP(mf.relu, 2, 1), norm=mf.LayerNorm(), sigma_Q=0)).p.subs(mf.p, mf.q)
    1 + 2/L
    """
    mixing = TokenMixing(n, alpha, beta, gamma, sigma_Q, sigma_K, softmax_derivative, Annealed() if average is None else average)
    return downweighted(norm=norm, attention=mixing, mlp=mlp, skip=skip, scale=scale)


def sas_p(
    *,
    mlp: Block,
    norm: Block | None = None,
    n: Any = None,
    alpha: Any = 1,
    beta: Any = 1,
    gamma: Any = 1,
    sigma_Q: Any = None,
    sigma_K: Any = None,
    softmax_derivative: bool = True,
    average: SoftmaxAverage | None = None,
    scale: Any = _DOWN,
) -> Block:
    r"""The parallel one (sec. 4.3), without any skip: x <- M norm(x) + scale mlp(norm(x)).

    >>> import meanfield as mf
    >>> mf.recursion(mf.sas_p(mlp=mf.MLP(mf.relu, 2, 1), sigma_Q=0, scale=0.1)).q
    51*q/50
    """
    checked(mlp=mlp)
    mixing = TokenMixing(n, alpha, beta, gamma, sigma_Q, sigma_K, softmax_derivative, Annealed() if average is None else average)
    return normed(norm, mixing + (mlp >> Scale(arguments.coefficient(scale, "scale"))))
