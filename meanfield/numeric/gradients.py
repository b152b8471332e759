"""The covariance K of gradients between two tokens, beside J, at every layer of a run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.gram_laws import explicit
from meanfield.numeric.pointwise import number_at
from meanfield.recurrence import Recursion
from meanfield.symbols import known

__all__ = ["gradient_correlations"]

Floats = NDArray[np.float64]

q, p, delta = known("q"), known("p"), known("delta")


def gradient_correlations(rec: Recursion, values: Mapping[str, Floats], q_at: Floats, delta_at: Floats, pooled: bool) -> Floats:
    """K^{L,l}/J^{L,l} for l = 0 ... L, of shape (*grid, L + 1); NaN where a state is or both are 0.

    `q_at` and `delta_at` are the states at all layers, `values` the parameters over the grid.
    """
    depth, grid = q_at.shape[-1] - 1, q_at.shape[:-1]
    fine = np.asarray(((q_at > 0) & np.isfinite(q_at) & np.isfinite(delta_at)).all(-1))
    if not fine.any():
        return np.full(q_at.shape, np.nan)
    state = [a[fine][:, :-1] for a in (q_at, np.minimum(delta_at, 2 * q_at))]
    fixed = {name: np.broadcast_to(v, grid)[fine][:, None] for name, v in values.items()}
    fixed |= {"l": np.arange(float(depth)), "L": np.asarray(float(depth))}
    transfers: list[Floats] = []
    for stage in rec.stages:
        out = stage.law.output
        formulas = [e.xreplace({p: q - delta}) for e in explicit(stage.law, (out.q, out.delta, *stage.law.transfer))]
        for _ in range(stage.times):
            given = {**fixed, "q": state[0], "delta": state[1]}
            found = [np.broadcast_to(number_at(e, given), state[0].shape) for e in formulas]
            transfers.append(np.stack(found[2:], -1))
            state = [found[0], np.minimum(found[1], 2 * found[0])]
    J, K = np.ones(len(state[0])), np.full(len(state[0]), float(pooled))
    ratio = np.empty((len(J), depth + 1))
    ratio[:, depth] = K
    for l in range(depth - 1, -1, -1):
        for T in reversed(transfers):
            t = T[:, l]
            with np.errstate(invalid="ignore"):  # an infinite transfer of no gradient
                J, K = t[:, 0] * J + t[:, 1] * K, t[:, 2] * J + t[:, 3] * K
        with np.errstate(invalid="ignore"):
            J, K = np.ones_like(J), K / J
        ratio[:, l] = K
    whole = np.full(q_at.shape, np.nan)
    whole[fine] = ratio
    return whole
