"""Named networks, spelled only with blocks."""

from __future__ import annotations

from typing import Any

from meanfield.activation import Activation
from meanfield.blocks.algebra import Block, Residual, Serial, checked_block
from meanfield.blocks.elementary import Activate, Linear

__all__ = ["mlp", "pre_norm"]


def mlp(phi: Activation, sigma_w: Any = None, sigma_b: Any = None) -> Serial:
    r"""One layer of a multilayer perceptron, on pre-activations:  q' = sigma_w^2 E phi(u)^2 + sigma_b^2  (Poole et al. 2016).

    >>> import meanfield as mf
    >>> mf.recursion(mf.mlp(mf.relu)).q
    q*sigma_w**2/2 + sigma_b**2
    """
    return Activate(phi) >> Linear(sigma_w, sigma_b)


def pre_norm(*, norm: Block, attention: Block, mlp: Block, skip: Any = 1, scale: Any = 1) -> Serial:
    r"""A transformer block with the norm in front of each branch: x + attention(norm(x)), then x + mlp(norm(x)).

    >>> import meanfield as mf
    >>> net = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))
    >>> [str(s) for s in mf.recursion(net).parameters]
    ['n', 'sigma_1', 'sigma_2', 'sigma_K', 'sigma_O', 'sigma_Q', 'sigma_V']
    """
    for name, part in (("norm", norm), ("attention", attention), ("mlp", mlp)):
        checked_block(part, name)
    return Serial((Residual(norm >> attention, skip, scale), Residual(norm >> mlp, skip, scale)))
