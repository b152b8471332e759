"""Transformer blocks: where the norms, the skips and their weights stand. attention=None leaves that sublayer out."""

from __future__ import annotations

from typing import Any

from meanfield import arguments
from meanfield.architectures.sublayers import checked, in_a_row, with_gain
from meanfield.blocks.algebra import Block
from meanfield.blocks.norms import LayerNorm
from meanfield.blocks.stacking import Residual
from meanfield.symbols import known

__all__ = ["deep_norm", "layer_scale", "parallel_block", "post_norm", "pre_norm", "rezero", "sandwich_norm"]


def pre_norm(*, norm: Block, attention: Block | None, mlp: Block, skip: Any = 1, scale: Any = 1) -> Block:
    r"""A transformer block with the norm in front of each branch: x + attention(norm(x)), then x + mlp(norm(x)).

    >>> import meanfield as mf
    >>> net = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))
    >>> [str(s) for s in mf.recursion(net).parameters]
    ['n', 'sigma_1', 'sigma_2', 'sigma_K', 'sigma_O', 'sigma_Q', 'sigma_V']
    >>> mf.recursion(mf.pre_norm(norm=mf.LayerNorm(), attention=None, mlp=mf.MLP(mf.relu))).q
    q + sigma_1**2*sigma_2**2/2
    """
    checked(norm=norm)
    return in_a_row(attention, mlp, lambda branch: Residual(norm >> branch, skip, scale))


def post_norm(*, norm: Block, attention: Block | None, mlp: Block, skip: Any = 1, scale: Any = 1) -> Block:
    r"""The first transformer (Vaswani et al. 2017): x <- norm(skip x + scale attention(x)), then x <- norm(skip x + scale mlp(x)).

    The norm must leave Gaussian coordinates Gaussian: with Derf or DyT in its place the next one is refused.

    >>> import meanfield as mf
    >>> net = mf.post_norm(norm=mf.LayerNorm(), attention=mf.UniformAttention(n=4), mlp=mf.MLP(mf.relu))
    >>> mf.recursion(net).q
    1
    """
    checked(norm=norm)
    return in_a_row(attention, mlp, lambda branch: Residual(branch, skip, scale) >> norm)


def deep_norm(*, attention: Block | None, mlp: Block, alpha: Any = None, lam: Any = None, norm: Block | None = None) -> Block:
    r"""DeepNorm (Wang et al. 2022, DeepNet): x <- norm(alpha x + F(x)), gain lam on value, output and MLP matrices.

    Query and key matrices keep their scale. For N encoder blocks the paper takes alpha = (2N)^(1/4), lam = (8N)^(-1/4).

    Parameters
    ----------
    attention, mlp : Block
        attention=None leaves that sublayer out. Their weight scales are multiplied by lam.
    alpha, lam : number or expression
        Left out, the symbols alpha_skip and lam; may depend on L.
    norm : Block
        LayerNorm if left out.

    Raises
    ------
    TypeError
        A part is no block, or one on whose weights no gain can be put.

    >>> import meanfield as mf
    >>> net = mf.deep_norm(attention=mf.UniformAttention(n=4), mlp=mf.MLP(mf.relu), alpha=(2 * mf.L) ** 0.25, lam=(8 * mf.L) ** -0.25)
    >>> run = mf.propagate(net, 1000, 1.0, c=0.3, sigma_V=1, sigma_O=1, sigma_1=2**0.5, sigma_2=1)
    >>> float(run.c[-1].round(3)), float(run.log_apjn[0].round(4))
    (0.301, -0.0006)
    """
    gain = known("lam") if lam is None else arguments.scalar(lam, "lam")
    skip = known("alpha_skip") if alpha is None else arguments.coefficient(alpha, "alpha")
    norm = LayerNorm() if norm is None else norm
    checked(norm=norm)
    return in_a_row(attention, mlp, lambda branch: Residual(with_gain(branch, gain), skip) >> norm)


def sandwich_norm(*, norm: Block, attention: Block | None, mlp: Block, skip: Any = 1, scale: Any = 1) -> Block:
    r"""A norm before and behind each branch, x + norm(F(norm(x))): Sandwich-LN (Ding et al. 2021), Peri-LN (Kim et al. 2025).

    The branch adds the same variance whatever its weights are.

    >>> import meanfield as mf
    >>> mf.recursion(mf.sandwich_norm(norm=mf.RMSNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))).q
    q + 2
    """
    checked(norm=norm)
    return in_a_row(attention, mlp, lambda branch: Residual(norm >> branch >> norm, skip, scale))


def parallel_block(*, norm: Block, attention: Block | None, mlp: Block, skip: Any = 1, scale: Any = 1) -> Block:
    r"""Both branches from the same normed signal (GPT-J, PaLM): skip x + scale [attention(norm(x)) + mlp(norm(x))].

    Weights of the branches of their own are spelled attention >> mf.Scale(beta).

    >>> import meanfield as mf
    >>> mf.recursion(mf.parallel_block(norm=mf.LayerNorm(), attention=mf.UniformAttention(n=1), mlp=mf.MLP(mf.relu))).q
    q + sigma_1**2*sigma_2**2/2 + sigma_O**2*sigma_V**2
    """
    checked(norm=norm, mlp=mlp, **({} if attention is None else {"attention": attention}))
    return Residual(norm >> (mlp if attention is None else attention + mlp), skip, scale)


def layer_scale(*, norm: Block, attention: Block | None, mlp: Block, gamma: Any = None) -> Block:
    r"""LayerScale (Touvron et al. 2021): x + diag(gamma) F(norm(x)), all entries of gamma equal at initialisation, 0.1 to 1e-6.

    >>> import meanfield as mf
    >>> mf.recursion(mf.layer_scale(norm=mf.LayerNorm(), attention=mf.UniformAttention(n=1), mlp=mf.MLP(mf.relu), gamma=0.1)).q
    q + sigma_1**2*sigma_2**2/200 + sigma_O**2*sigma_V**2/100
    """
    return pre_norm(norm=norm, attention=attention, mlp=mlp, scale=arguments.scalar(gamma, "gamma"))


def rezero(*, attention: Block | None, mlp: Block, gain: Any = 0) -> Block:
    r"""ReZero (Bachlechner et al. 2020): x + gain F(x) without norms, gain trained from 0, where the block is the identity.

    >>> import meanfield as mf
    >>> mf.recursion(mf.rezero(attention=mf.Attention(), mlp=mf.MLP(mf.relu))).transfer
    Matrix([
    [1, 0],
    [0, 1]])
    """
    scale = arguments.scalar(gain, "gain")
    return in_a_row(attention, mlp, lambda branch: Residual(branch, 1, scale))
