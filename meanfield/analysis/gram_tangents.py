r"""Forward mode through the Gram matrix of tokens that are told apart, or of two inputs: the same steps on `Dual` arrays.

J^{L,0}, the mean over tokens of what reaches the input, is that of what the push-forward X of unit perturbations brings to the output,
pull-back and push-forward being transposes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.numeric.duals import Dual, Varied, plain
from meanfield.numeric.gram import flow_of
from meanfield.numeric.gram_march import Gram
from meanfield.numeric.gram_state import Grams

__all__ = ["gram_tangents", "starts"]

Floats = NDArray[np.float64]


def starts(ready: Gram) -> dict[str, tuple[Floats, Floats]]:
    """What the Gram matrix at the start may be differentiated by, and the derivatives of it and of what it lacks: variances at fixed
    correlation, the others at fixed variance."""
    n, begun = ready.begun.n, ready.gram
    G, lack = (np.broadcast_to(a, (*ready.grid, n, n)) for a in (begun.matrix, begun.lack))
    roots = np.sqrt(np.diagonal(G, axis1=-2, axis2=-1))
    apart = 1.0 - np.eye(n)
    found = {}
    if ready.pair:
        for k, name in enumerate(("q", "q2")):
            own = np.eye(2)[k]
            part = (own[:, None] + own) / (2 * roots[..., k, None, None] ** 2)
            found[name] = (G * part, lack * part)
    else:
        found["q"] = (G / roots[..., :1, None] ** 2, lack / roots[..., :1, None] ** 2)
    if n > 1:
        together = roots[..., None] * roots[..., None, :] * apart
        found |= {"c": (together, -together), "gap": (-together, together)}
        found["p"] = (np.broadcast_to(apart, G.shape), np.broadcast_to(-apart, G.shape))
    return found


def gram_tangents(ready: Gram, names: tuple[str, ...]) -> list[Floats]:
    """q, ln J and their derivatives by each of the names, and of more than one token the same of 1 - c; over the points of the grid, each
    for itself: what is not finite at one is so there.

    Of tokens that are told apart, means over tokens; of two inputs q and ln J are those of the first.
    """
    with np.errstate(all="ignore"):
        return _marched(ready, names)


def _marched(ready: Gram, names: tuple[str, ...]) -> list[Floats]:
    n, unit, slopes = ready.begun.n, np.eye(len(names)), starts(ready)
    begun, whole = ready.gram, (*ready.grid, n, n)
    still = (np.zeros(whole), np.zeros(whole))
    dots = [np.array(parts) for parts in zip(*(slopes.get(name, still) for name in names), strict=True)]
    G = Grams(*(Dual(np.broadcast_to(a, whole), dot) for a, dot in zip((begun.matrix, begun.lack), dots, strict=True)))
    X: Varied = np.broadcast_to(np.eye(n), whole)
    scale = np.zeros(ready.grid)
    values: dict[str, Varied] = {name: np.broadcast_to(v, ready.grid) for name, v in ready.parameters.items()}
    for k, name in enumerate(names):
        if name in values:
            values[name] = Dual(values[name], np.array([np.full(ready.grid, one) for one in unit[k]]))
    step = flow_of(ready.net)
    for l in range(ready.depth):
        flow = step(G, {**values, "l": np.full(ready.grid, float(l)), "L": np.full(ready.grid, float(ready.depth))})
        G, X = flow.state, flow.push(X)
        # as behind a jump: what follows is infinite as well
        infinite = np.asarray(np.isposinf(np.diagonal(plain(X), axis1=-2, axis2=-1)).any(-1))
        X, scale = _beside(infinite, X), np.where(infinite, np.inf, scale)
        size = np.abs(plain(X)).max((-1, -2))
        size = np.where((size > 0) & np.isfinite(size), size, 1.0)  # where J is 0 ln J is infinite
        X, scale = X / size[..., None, None], scale + np.log(size)
    own, gaps = G.diagonal, G.gap(ready.pair)
    if ready.pair:
        variance, J = own[..., 0], X[..., 0, 0]
    else:
        variance, J = own.sum(-1) / n, (X.sum((-1, -2)) if ready.start == "pooled" else np.trace(X, axis1=-2, axis2=-1)) / n
    found: list[Floats] = []
    for some in ((variance, np.log(J) + scale), (gaps,) * (n > 1)):
        found += [plain(a) for a in some]
        found += [a.dots if isinstance(a, Dual) else np.zeros((len(names), *a.shape)) for a in some]
    return found


def _beside(infinite: NDArray[np.bool_], X: Varied) -> Varied:
    """unit perturbations in the place of those that are infinite, whose derivatives are no numbers"""
    if not infinite.any():
        return X
    where, unit = infinite[..., None, None], np.eye(X.shape[-1])
    value = np.where(where, unit, plain(X))
    return Dual(value, np.where(where, np.nan, X.dots)) if isinstance(X, Dual) else value
