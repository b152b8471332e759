r"""How much q and ln J scatter over draws of a network of finite width, to first order in depth/width.

A linear layer has 2/n, a ReLU layer 5/n in both, whence E q^2/(E q)^2 = (1 + 2/n)^L and (1 + 5/n)^L (theory of wide networks: Hanin & Nica
2020). The derivation, for perceptrons and residual networks, is in `meanfield.reference.fluctuations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.blocks.algebra import Block
from meanfield.reference.fluctuations import Unpredicted, variances

__all__ = ["Scatter", "scatter"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scatter:
    """Standard deviations over draws of ln q and ln J^{L,l} at every layer."""

    log_q: Floats
    log_apjn: Floats


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
) -> Scatter | None:
    r"""The scatter of what `measure` averages: `probes` independent sets of `tokens` inputs with q and covariance q - delta, each input
    with one gradient of its own.

    None where it is not known: tokens are mixed, branches are products, a norm or a residual follows an activation, a skip is 0.

    >>> import meanfield as mf
    >>> from meanfield.reference.scatter import scatter
    >>> found = scatter(mf.mlp(mf.relu), 100, 20, q=1.0, delta=None, tokens=1, probes=1, parameters={"sigma_w": 2**0.5, "sigma_b": 0})
    >>> float(found.log_apjn[0].round(6))  # sqrt(5 * 20/100)
    1.0
    """
    inputs = tokens * probes
    weights, covariances = [1.0], []  # how many of the inputs are the input itself, others of its set, those of other sets
    for covariance, count in ((q - (delta or 0.0), tokens - 1), (0.0, inputs - tokens)):
        if count:
            weights.append(float(count))
            covariances.append(covariance)
    values = {name: float(value) for name, value in parameters.items()}
    try:
        found = variances(net, width, round(hidden * width), depth, q, covariances, values)
    except Unpredicted:
        return None
    return Scatter(*np.sqrt(np.maximum(found @ np.array(weights), 0.0) / (inputs * width)))  # rounding, where nothing scatters
