r"""How the entries of a matrix are drawn: functions that fill a tensor of shape (fan_out, fan_in) with entries of a standard deviation.

For `build` and `initialise_`. To the laws of (q, p) and (J, K) only the variance matters, in the limit of infinite width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn

__all__ = ["Draw", "gaussian", "orthogonal", "truncated_normal"]

Draw = Callable[[Tensor, float], object]

#: standard deviations at which `truncated_normal` is cut
CUT: Final = 2.0
#: variance of N(0, 1) between -CUT and CUT: 1 - 2 c \phi(c)/(2 \Phi(c) - 1)
_KEPT: Final = 1 - 2 * CUT * math.exp(-(CUT**2) / 2) / math.sqrt(2 * math.pi) / math.erf(CUT / math.sqrt(2))


def gaussian(tensor: Tensor, std: float) -> None:
    """Independent N(0, std^2)."""
    tensor.normal_(0.0, std)


def truncated_normal(tensor: Tensor, std: float) -> None:
    r"""Independent normal variables, those beyond 2 of their standard deviations drawn again; std^2 is the variance of what is left,
    so that entries reach up to 2.27 std.

    >>> import torch
    >>> from meanfield.reference import draws
    >>> w = torch.empty(400, 400)
    >>> draws.truncated_normal(w, 3.0)
    >>> bool((w.std() - 3).abs() < 0.03), bool(w.abs().max() < 6.83)
    (True, True)
    """
    whole = std / math.sqrt(_KEPT)
    nn.init.trunc_normal_(tensor, 0.0, whole, -CUT * whole, CUT * whole)


def orthogonal(tensor: Tensor, std: float) -> None:
    r"""std \sqrt{max(fan_in, fan_out)} Q with Q uniform among the matrices whose rows, or columns where they are fewer, are orthonormal:
    entries have the variance std^2. At std = \sigma/\sqrt{fan_in} a square matrix is \sigma times a rotation. A vector is drawn Gaussian.

    >>> import torch
    >>> from meanfield.reference import draws
    >>> w = torch.empty(3, 5, dtype=torch.float64)
    >>> draws.orthogonal(w, 5**-0.5)
    >>> bool(torch.allclose(w @ w.T, torch.eye(3, dtype=torch.float64)))
    True
    """
    if tensor.dim() < 2:
        return gaussian(tensor, std)
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    rows, columns = sorted(tensor.shape, reverse=True)
    basis, upper = torch.linalg.qr(torch.randn(rows, columns, dtype=dtype, device=tensor.device))
    basis = basis * upper.diagonal().sign()  # uniform: without it the signs of the columns follow from them
    tensor.copy_(std * math.sqrt(rows) * (basis if tensor.shape[0] == rows else basis.T))
    return None
