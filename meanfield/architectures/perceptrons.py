"""Multilayer perceptrons, with and without a skip."""

from __future__ import annotations

from typing import Any

from meanfield import arguments
from meanfield.activation import Activation
from meanfield.architectures.sublayers import normed
from meanfield.blocks.algebra import Block, Serial, checked_block
from meanfield.blocks.elementary import Activate, Linear
from meanfield.blocks.stacking import Residual

__all__ = ["mlp", "residual_mlp", "skip_init"]


def mlp(phi: Activation, sigma_w: Any = None, sigma_b: Any = None) -> Serial:
    r"""One layer of a multilayer perceptron, on pre-activations:  q' = sigma_w^2 E phi(u)^2 + sigma_b^2  (Poole et al. 2016).

    >>> import meanfield as mf
    >>> mf.recursion(mf.mlp(mf.relu)).q
    q*sigma_w**2/2 + sigma_b**2
    """
    return Activate(phi) >> Linear(sigma_w, sigma_b)


def residual_mlp(
    phi: Activation, sigma_w: Any = None, sigma_b: Any = None, *, norm: Block | None = None, skip: Any = 1, scale: Any = 1
) -> Residual:
    r"""skip x + scale [W phi(norm(x)) + b], a perceptron with a skip around each layer (Yang & Schoenholz 2017, Doshi et al. 2023).

    skip and scale may depend on L and l: scale = c/sqrt(L) keeps q_L finite at every depth.

    >>> import meanfield as mf, sympy as sp
    >>> mf.recursion(mf.residual_mlp(mf.relu, norm=mf.LayerNorm(), skip=sp.Symbol("mu"))).q
    mu**2*q + sigma_b**2 + sigma_w**2/2
    """
    return Residual(normed(norm, Activate(phi) >> Linear(sigma_w, sigma_b)), skip, scale)


def skip_init(branch: Block, gain: Any = 0) -> Residual:
    r"""x + gain branch(x) with a trained scalar that starts at 0 in the place of BatchNorm (De & Smith 2020).

    >>> import meanfield as mf
    >>> mf.recursion(mf.skip_init(mf.MLP(mf.relu))).q
    q
    """
    return Residual(checked_block(branch, "branch"), 1, arguments.scalar(gain, "gain"))
