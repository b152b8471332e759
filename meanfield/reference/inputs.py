r"""What goes into a random network: permutation-symmetric tokens with the Gram matrix of the theory, not merely close to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meanfield import arguments
from meanfield.numeric.runs import check_gram, initial_moments

__all__ = ["Start", "start_of"]

#: how many inputs are drawn where nothing says it: their 120 pairs average well
SEVERAL = 16


@dataclass(frozen=True)
class Start:
    """n tokens with |x_a|^2/d = q and x_a . x_b/d = q - delta."""

    q: float
    delta: float
    n: int

    def tokens(self, batch: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        r"""Random tokens of shape (batch, n, width) with exactly that Gram matrix, G = delta 1 + (q - delta) 1 1^T.

        Directions uniform on the sphere, made orthonormal and mixed by sqrt(width G): a coordinate is Gaussian up to O(1/width).
        Drawn in float64 whatever the dtype. Raises ValueError for n > width, where no such tokens exist.
        """
        if self.n > width:
            raise ValueError(f"n = {self.n} tokens with an exact Gram matrix need width >= n, got width = {width}")
        gaussian = torch.randn(batch, width, self.n, dtype=torch.float64, device=device)
        basis = torch.linalg.qr(gaussian).Q.transpose(-1, -2)  # signs are free: a reflected direction is as uniform
        apart, shared = math.sqrt(self.delta), math.sqrt(max(self.n * self.q - (self.n - 1) * self.delta, 0.0))
        mixed = apart * basis + (shared - apart) * basis.mean(-2, keepdim=True)
        tokens: Tensor = (math.sqrt(width) * mixed).to(dtype)
        return tokens


def start_of(q: Any, p: Any, c: Any, gap: Any, n: int | None) -> Start:
    """The start in the terms of `mf.propagate`: at most one of p, c, gap; none of them for a single token. Where nothing says how many
    there are, several, of a negative correlation as many as can all have it.

    Raises ValueError or TypeError as `mf.propagate` does, and for arrays: networks are drawn for one setting.
    """
    if n is not None:
        arguments.check_integer(n, "n", 1)
    for name, value in (("q", q), ("p", p), ("c", c), ("gap", gap)):
        if value is not None and np.ndim(value) != 0:
            raise ValueError(f"{name} has the shape {np.shape(value)}: random networks are measured at one setting, not on a grid")
    q0, delta0 = initial_moments(q, p, c, gap)
    if delta0 is None:
        n = n or 1
        if n > 1:
            raise ValueError(f"n = {n} tokens need the covariance between two of them: give one of p, c and gap")
        delta0 = q0
    excess = max(float(delta0 / q0) - 1.0, 0.0)  # of a gap over that of independent inputs
    n = n or (SEVERAL if excess * (SEVERAL - 1) <= 1.0 else int(1.0 + 1e-9 + 1.0 / excess))
    check_gram(q0, delta0, np.asarray(float(n)))
    return Start(float(q0), float(delta0), n)
