r"""How much q and ln J scatter over draws of a network of finite width, to first order in depth/width and 1/heads.

A linear layer has 2/n, a ReLU layer 5/n in both, whence E q^2/(E q)^2 = (1 + 2/n)^L and (1 + 5/n)^L (theory of wide networks: Hanin & Nica
2020). The derivation is in `meanfield.reference.fluctuations`, that of attention in `.fluctuating_attention` and `.fluctuating_gau`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.blocks.algebra import Block
from meanfield.reference.fluctuations import variances

__all__ = ["Scatter", "scatter"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scatter:
    """Standard deviations over draws of q and J^{L,l} at every layer, over their means: those of ln q and ln J where they are small.

    `entering` are those of ln q, for one set of inputs, wherever it enters an activation, a norm or attention: these see the q of their
    draw, of which a law of means knows the mean.
    """

    log_q: Floats
    log_apjn: Floats
    entering: Floats


def scatter(
    net: Block,
    width: int,
    depth: int,
    *,
    q: float,
    delta: float | None,
    tokens: int,
    probes: int,
    parameters: Mapping[str, Any],
    hidden: float = 1,
    heads: int = 1,
    pooled: bool = False,
) -> Scatter:
    r"""The scatter of what `measure` averages: `probes` independent sets of `tokens` inputs with q and covariance q - delta, each with
    one gradient, independent between tokens or, `pooled`, the same at all.

    A head counts as a draw of its own, as it does where width/heads is large; the averages are those of a fixed sample of units, which
    leaves 1 or 2 % of chance in the result.

    Raises `Unpredicted` (a ValueError), which names the block: attention that tells tokens apart, TokenMixing with logits, BatchNorm, a
    norm or mixing of what is not Gaussian.

    >>> import meanfield as mf
    >>> from meanfield.reference.scatter import scatter
    >>> found = scatter(mf.mlp(mf.relu), 100, 20, q=1.0, delta=None, tokens=1, probes=1, parameters={"sigma_w": 2**0.5, "sigma_b": 0})
    >>> print(f"{found.log_apjn[0]:.1f}")  # sqrt(5 * 20/100)
    1.0
    """
    values = {name: float(value) for name, value in parameters.items()}
    law = (q, q - (delta or 0.0))
    found, entering = variances(net, width, round(hidden * width), heads, depth, law, tokens, pooled, probes, values)
    log_q, log_apjn = np.sqrt(np.maximum(found @ np.array([1 / probes, 1 - 1 / probes]), 0.0) / width)
    return Scatter(log_q, log_apjn, np.sqrt(entering / width))
