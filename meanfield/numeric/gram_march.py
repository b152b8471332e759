r"""Gram matrices, of tokens that are told apart or two inputs of unequal norm, marched through the layers; the neural tangent kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments
from meanfield.blocks.algebra import Block, checked_block
from meanfield.numeric.evaluation import among
from meanfield.numeric.fingerprint import fingerprint
from meanfield.numeric.gram import flow_of
from meanfield.numeric.gram_laws import check_means, described, has_softmax, has_tangent, parameters_of, tokens_of
from meanfield.numeric.gram_runs import GramRun, March, PairRun, pair_outline, token_outline
from meanfield.numeric.outlines import Outline, available_memory, axes_of, layers_of
from meanfield.numeric.runs import bound_parameters, check_gram, initial_moments
from meanfield.progress import track

__all__ = ["Gram", "ntk", "prepared_pair", "prepared_tokens"]

Floats = NDArray[np.float64]


def _status(G: Floats) -> NDArray[np.str_]:
    """a word for each grid point"""
    diagonal = np.diagonal(G, axis1=-2, axis2=-1)
    with np.errstate(invalid="ignore"):
        high, low = (diagonal >= 1e300).any(-1), (diagonal <= 1e-300).any(-1)
        words = np.where(high, "overflow", np.where(low, "underflow", "ok"))
    return np.where(np.isfinite(G).all((-1, -2)) | high, words, "invalid")


def _march(net: Block, G: Floats, depth: int, layers: NDArray[np.int64], pooled: bool, values: Mapping[str, Floats]) -> March:
    """Run a Gram matrix of shape (*grid, n, n) through `depth` repeats."""
    grid, n = G.shape[:-2], G.shape[-1]
    step = flow_of(net)
    several = layers.size > 1 or depth == 0
    kept = {int(l): k for k, l in enumerate(layers)}
    gram, backward, forward = (np.full((*grid, len(layers), *shape), np.nan) for shape in ((n, n), (n,), (n,)))
    tangent: Floats | None = np.full(gram.shape, np.nan)
    status = np.full(grid, "ok", dtype="U9")
    alike = np.full((*grid, len(layers)), np.nan)
    seed = np.ones((n, n)) if pooled else np.eye(n)
    X, scale, theta = np.broadcast_to(np.eye(n), G.shape), np.zeros(grid), G
    pulls: list[Callable[[Floats], Floats]] = []
    fine = np.eye(n)

    def keep(l: int) -> None:
        k = kept.get(l)
        if k is not None:
            good = status == "ok"
            gram[..., k, :, :] = np.where(good[..., None, None], G, np.nan)
            if tangent is not None:
                tangent[..., k, :, :] = np.where(good[..., None, None], theta, np.nan)
            ends = (X * seed).sum(-1) if not pooled else X.sum(-1)
            with np.errstate(divide="ignore"):
                forward[..., k, :] = np.where(good[..., None], np.log(ends) + scale[..., None], np.nan)

    keep(0)
    for l in track(range(depth), "propagate", depth):
        flow = step(G, {**values, "l": np.asarray(float(l)), "L": np.asarray(float(depth))})
        word = _status(flow.gram)
        status = np.where(status == "ok", word, status)
        good = (status == "ok")[..., None, None]
        X = np.where(good, flow.push(X), fine)
        size = np.abs(X).max((-1, -2))
        X, scale = X / size[..., None, None], scale + np.log(size)
        if tangent is not None:
            if flow.tangent is None:
                tangent = None
            else:
                theta = np.where(good, flow.push(theta) + flow.tangent(), fine)
        if several:
            pulls.append(flow.pull)
        G = np.where(good, flow.gram, fine)  # what went wrong stays harmless and is shown as NaN
        keep(l + 1)
    if not several:
        backward[..., 0, :] = forward[..., 0, :]
        return March(layers, gram, backward, alike, forward, tangent, status if grid else str(status))
    g, scale = np.broadcast_to(seed, G.shape), np.zeros(grid)
    whole = (status == "ok")[..., None]
    for l in range(depth, -1, -1):
        if l in kept:
            with np.errstate(divide="ignore"):
                own = np.diagonal(g, axis1=-2, axis2=-1)
                backward[..., kept[l], :] = np.where(whole, np.log(own) + scale[..., None], np.nan)
                pairs = (g.sum((-1, -2)) - own.sum(-1)) / max(n - 1, 1)
                alike[..., kept[l]] = np.where(whole[..., 0], pairs / own.sum(-1), np.nan)
        if l:
            g = np.where(whole[..., None], pulls[l - 1](g), fine)
            size = np.abs(g).max((-1, -2))
            g, scale = g / size[..., None, None], scale + np.log(size)
    return March(layers, gram, backward, alike, forward, tangent, status if grid else str(status))


def _check_size(count: int, depth: int, n: int, kept: int) -> None:
    need = 8.0 * count * n * n * (2 * kept + (3 * depth if kept > 1 else 6))
    if need > 0.8 * available_memory():
        raise ValueError(
            f"the result needs {need / 2**30:.3g} GiB ({count} settings, Gram matrices of {n} x {n}, {depth} repeats), more than the "
            f"{available_memory() / 2**30:.3g} GiB there are: pass record='last', out='sweep.zarr' to keep it on disk, or split the grid"
        )


@dataclass(frozen=True)
class Gram:
    """A run of n tokens, or of two inputs, that nothing speaks against: parameters, start and the layers to keep, over a grid."""

    net: Block
    parameters: dict[str, Floats]
    depth: int
    start: str
    layers: NDArray[np.int64]
    begin: dict[str, Floats]
    grid: tuple[int, ...]
    gram: Floats  # at the start; broadcasts with (*grid, n, n)
    pair: bool

    @property
    def outline(self) -> Outline:
        tangent = has_tangent(self.net)
        if self.pair:
            return pair_outline(self.layers, tangent)
        return token_outline(self.layers, self.depth, self.gram.shape[-1], tangent)

    @cached_property
    def source(self) -> str:
        """The fingerprint of the laws that run it."""
        return fingerprint(described(self.net))

    @property
    def cost(self) -> int:
        """Of a point over all layers, a layer of a recursion in (q, p) in closed form being 1, roughly."""
        return max(self.depth, 1) * int(self.gram.shape[-1]) ** 2 * (2000 if has_softmax(self.net) else 50)

    def run(self, points: int) -> GramRun | PairRun:
        """Do it; `points` are in the whole grid, of which this may be a chunk."""
        n = self.gram.shape[-1]
        G = np.broadcast_to(self.gram, (*self.grid, n, n))
        with among(None if points == 1 else points * max(self.depth, 1) * n * n):
            march = _march(self.net, G, self.depth, self.layers, self.start == "pooled", self.parameters)
        axes = axes_of({**self.begin, **self.parameters}, self.grid)
        if self.pair:
            return PairRun(self.net, self.parameters, self.depth, march, axes)
        return GramRun(self.net, self.parameters, self.depth, self.start, march, axes)


def prepared_tokens(
    net: Block,
    depth: int,
    q: ArrayLike,
    p: ArrayLike | None,
    c: ArrayLike | None,
    gap: ArrayLike | None,
    start: str,
    record: str | int | Sequence[int],
    parameters: Mapping[str, ArrayLike],
    points: int | None = None,
) -> Gram:
    """The Gram matrix of n tokens that start permutation-symmetric, as `propagate` describes, `points` at a time in memory, if not all."""
    check_means(net)
    values = bound_parameters(parameters_of(net), parameters)
    q0, delta0 = initial_moments(q, p, c, gap)
    n = tokens_of(net, {**values, "L": np.asarray(float(depth))})
    if n is None:
        raise ValueError(f"{net} has no recursion in (q, p) and no fixed attention that says how many tokens there are")
    if delta0 is None and n > 1:
        raise ValueError("this network mixes tokens: give the start of two tokens by exactly one of p, c and gap (or n = 1)")
    given = np.zeros(()) if delta0 is None else delta0
    begin = {"q": q0, **{name: np.asarray(v, dtype=np.float64) for name, v in (("p", p), ("c", c), ("gap", gap)) if v is not None}}
    grid = arguments.broadcast({**begin, **values})
    if delta0 is not None:
        check_gram(q0, delta0, np.asarray(float(n)))
    layers = layers_of(record, depth, lambda kept: _check_size(math.prod(grid) if points is None else points, depth, n, kept))
    G = (q0 - given)[..., None, None] * np.ones((n, n)) + given[..., None, None] * np.eye(n)
    return Gram(net, values, depth, start, layers, begin, grid, G, False)


def prepared_pair(
    net: Block,
    depth: int,
    q: ArrayLike,
    q2: ArrayLike | None,
    p: ArrayLike | None,
    c: ArrayLike | None,
    gap: ArrayLike | None,
    record: str | int | Sequence[int],
    parameters: Mapping[str, ArrayLike],
    points: int | None = None,
) -> Gram:
    """Two inputs, of unequal norm or equal, as `propagate` describes; `points` are in memory at a time, if not all."""
    if not net.tokenwise:
        raise ValueError(
            f"{net} mixes tokens or has a law for equal norms only (tokenwise = False): q2 is for networks that act on each input by itself"
        )
    check_means(net)
    values = bound_parameters(parameters_of(net), parameters)
    first = arguments.variance_array(q, "q")
    second = first if q2 is None else arguments.variance_array(q2, "q2")
    names = [name for name, v in (("p", p), ("c", c), ("gap", gap)) if v is not None]
    if len(names) != 1:
        raise ValueError(f"{' and '.join(names) or 'none of p, c and gap'} given: two inputs start with exactly one of p, c and gap")
    value = arguments.number_array({"p": p, "c": c, "gap": gap}[names[0]], names[0])
    begin = {"q": first, "q2": second, names[0]: value}
    grid = arguments.broadcast({**begin, **values})
    root = np.sqrt(first) * np.sqrt(second)
    cov = {"p": value, "c": value * root, "gap": (1.0 - value) * root}[names[0]]
    if (np.abs(cov) > root * (1 + 1e-15)).any():
        raise ValueError(f"{names[0]}: |p| must be at most sqrt(q q2), that is |c| <= 1 and 0 <= gap <= 2")
    layers = layers_of(record, depth, lambda kept: _check_size(math.prod(grid) if points is None else points, depth, 2, kept))
    G = np.empty((*arguments.broadcast(begin), 2, 2))
    G[..., 0, 0], G[..., 1, 1] = first, second
    G[..., 0, 1] = G[..., 1, 0] = cov
    return Gram(net, values, depth, "token", layers, begin, grid, G, True)


def ntk(
    net: Block,
    depth: int,
    q: ArrayLike,
    *,
    p: ArrayLike | None = None,
    c: ArrayLike | None = None,
    gap: ArrayLike | None = None,
    q2: ArrayLike | None = None,
    record: str | int | Sequence[int] = "all",
    **parameters: ArrayLike,
) -> PairRun:
    r"""The neural tangent kernel of a network that does not mix its inputs, over depth (Jacot et al. 2018, thm. 1).

    \Theta' = T \Theta + \text{own},   own = q', p' of every Linear (NTK parametrisation: W = sigma_w w/sqrt(fan-in), b = sigma_b \beta, all
    w and \beta trained at one rate), T the factor of a perturbation: \Theta' = K' + \sigma_w^2 \dot K \Theta for a layer of an MLP,
    \Theta' = skip^2 \Theta + scale^2 (...) for a residual. The input counts as the output of a trained Linear: \Theta_0 = K_0.

    Parameters
    ----------
    net, depth, q, p, c, gap, q2, record, **parameters
        As in `mf.propagate`; exactly one of p, c and gap.

    Returns
    -------
    PairRun
        With `ntk` (first input), `ntk_2`, `ntk_pair`.

    Raises
    ------
    TypeError, ValueError
        As `mf.propagate`; a network that mixes tokens.

    Examples
    --------
    >>> import meanfield as mf
    >>> run = mf.ntk(mf.mlp(mf.relu), depth=2, q=1.0, p=0.0, sigma_w=2**0.5, sigma_b=0)
    >>> run.ntk.round(12).tolist(), run.ntk_pair.round(4).tolist()
    ([1.0, 2.0, 3.0], [0.0, 0.3183, 0.6857])
    """
    checked_block(net, "net")
    prepared = prepared_pair(net, arguments.check_integer(depth, "depth", 0), q, q2, p, c, gap, record, parameters)
    run = prepared.run(math.prod(prepared.grid))
    assert isinstance(run, PairRun)
    return run
