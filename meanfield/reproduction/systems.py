r"""The systems that are reproduced, and their runs.

* The transformer: blocks of softmax attention and a ReLU MLP, each behind a norm and beside a skip, at the setting of ViT-L. The norm
  is LayerNorm, Derf = erf(\alpha x) or DyT = tanh(\alpha x).
* The toy network: x + W norm(x), one matrix in the branch.
* The transformer with few tokens, where the gradients of different tokens are far from independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
import sympy as sp

import meanfield as mf
from meanfield.blocks.laws import Signal
from meanfield.blocks.softmax import Annealed, Exponents, SoftmaxAverage

__all__ = [
    "ALPHAS", "DEPTH", "FEW_ALPHA", "FEW_DEPTH", "FEW_SIGMA_QK", "FEW_TOKENS", "NORMS", "TOY", "VIT",
    "Pair", "few_tokens", "network", "toy", "toy_network", "transformer",
]  # fmt: skip

#: name of the norm -> its block; pre-LN is the baseline and has no slope
NORMS: Final[dict[str, mf.Block]] = {"pre-LN": mf.LayerNorm(), "Derf": mf.Derf(), "DyT": mf.DyT()}

#: slopes of Derf and DyT, as in the published figure
ALPHAS: Final = np.arange(1, 21) / 10

#: blocks, each an attention and an MLP sublayer
DEPTH: Final = 128

#: ViT-L: component variance and covariance of the tokens at the input, tokens, weight scales
VIT: Final[dict[str, Any]] = {
    "q": 1.0, "p": 0.4, "n": 197, "sigma_Q": 0.64, "sigma_K": 0.64, "sigma_V": 0.64, "sigma_O": 0.64, "sigma_1": 0.64, "sigma_2": 1.28,
}  # fmt: skip

#: the toy network: variance at the input and weight scale
TOY: Final[dict[str, Any]] = {"q": 1.0, "sigma_w": 0.46}

#: few tokens: n, sigma_QK, blocks and slope of Derf and DyT; sigma_OV = 1 and He initialisation in the MLP
FEW_TOKENS: Final = (4, 16)
FEW_SIGMA_QK: Final = (0.0, 1.0)
FEW_DEPTH: Final = 16
FEW_ALPHA: Final = 1.0


@dataclass(frozen=True)
class Pair:
    """One network run twice: with the derivative of the softmax, and without it as the published chi product is."""

    full: mf.Run
    value_path: mf.Run


#: the share of the softmax derivative in the gradient, 1 or 0
SHARE: Final = sp.Symbol("share", nonnegative=True)


@dataclass(frozen=True)
class _Shared(SoftmaxAverage):
    """Annealed averages, the derivative of the softmax times a parameter: one compiled kernel runs with it and without."""

    def exponents(self, signal: Signal, n: sp.Expr, s: sp.Expr) -> Exponents:
        annealed = Annealed().exponents(signal, n, s)

        def slopes(y_q: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
            same, cross = annealed.slopes(y_q)
            return SHARE * same, SHARE * cross

        return replace(annealed, slopes=slopes)


def network(norm: str, average: SoftmaxAverage | None = None) -> mf.Block:
    """One block of the transformer with that norm."""
    return mf.pre_norm(norm=NORMS[norm], attention=mf.Attention(average=average or Annealed()), mlp=mf.MLP(mf.relu))


def _sloped(norm: str, slope: Any, setting: dict[str, Any]) -> dict[str, Any]:
    return setting if norm == "pre-LN" else {**setting, "alpha": slope}


def _pair(norm: str, depth: int, setting: dict[str, Any]) -> Pair:
    net = network(norm, _Shared())
    full, value_path = (cast(mf.Run, mf.propagate(net, depth, **setting, share=share)) for share in (1.0, 0.0))
    return Pair(full, value_path)


def transformer(norm: str) -> Pair:
    """The transformer with that norm at the setting of ViT-L, over all slopes in one call."""
    return _pair(norm, DEPTH, _sloped(norm, ALPHAS, VIT))


def toy_network(norm: str) -> mf.Block:
    r"""One layer of the toy network: q' = q + \sigma_w^2 E \phi^2."""
    return mf.Residual(NORMS[norm] >> mf.Linear(sigma_b=0))


def toy(norm: str) -> mf.Run:
    """The toy network with that norm, over all slopes in one call."""
    return cast(mf.Run, mf.propagate(toy_network(norm), DEPTH, **_sloped(norm, ALPHAS, TOY)))


def few_tokens(norm: str, n: int, sigma_qk: float) -> Pair:
    """The transformer with n tokens; one setting at a time, which needs no compiler."""
    scale = math.sqrt(sigma_qk)
    setting = {"q": 1.0, "p": 0.4, "n": n, "sigma_Q": scale, "sigma_K": scale, "sigma_V": 1.0, "sigma_O": 1.0}
    return _pair(norm, FEW_DEPTH, _sloped(norm, FEW_ALPHA, {**setting, "sigma_1": 1.0, "sigma_2": math.sqrt(2)}))
