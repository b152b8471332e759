r"""Runs of the n x n Gram matrix over depth: tokens that are told apart, two inputs of unequal norm, and the neural tangent kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments, faces
from meanfield.blocks.algebra import Block, checked_block
from meanfield.numeric.gram import check_means, flow_of, parameters_of, tokens_of
from meanfield.numeric.runs import available_memory, bound_parameters, check_gram, initial_moments, layers_of
from meanfield.progress import track

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["GramRun", "PairRun", "ntk", "run_pair", "run_tokens"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _March:
    """Arrays over (*grid, layers, ...): Gram matrices, ln of the gradient's diagonal backward and forward, NTK, status over the grid."""

    layers: NDArray[np.int64]
    gram: Floats
    backward: Floats
    alike: Floats
    forward: Floats
    tangent: Floats | None
    status: Any


@dataclass(frozen=True, repr=False)
class GramRun(faces.Labelled):
    r"""n tokens that are told apart (a causal mask, fixed attention weights), over depth.

    Attributes
    ----------
    layers : whole numbers
        The repeats that were kept.
    gram : array, shape (*grid, len(layers), n, n)
        G_ij = h_i . h_j / d.
    q, p : arrays, shape (*grid, len(layers))
        Mean of the diagonal of G and of its off-diagonal entries; c = p/q, gap = 1 - c.
    log_apjn, log_apjn_forward : arrays
        ln J^{L,l}, averaged over tokens at layer l, and ln J^{l,0}.
    log_apjn_tokens : array, shape (*grid, len(layers), n)
        ln |g_i|^2/d of each token's gradient at layer l: under a causal mask the first tokens collect the most.
    gradient_correlation : array, shape (*grid, len(layers))
        Mean covariance of the gradients of two tokens over their mean square.
    ntk : array, shape (*grid, len(layers), n, n)
        The neural tangent kernel, as far as every block says what its weights add.
    status : str or array of str
        "ok", or "overflow", "underflow", "invalid": values are NaN from there on.
    """

    net: Block
    parameters: Mapping[str, Floats]
    depth: int
    start: str
    _march: _March

    @property
    def layers(self) -> NDArray[np.int64]:
        return self._march.layers

    @property
    def gram(self) -> Floats:
        return self._march.gram

    @property
    def status(self) -> Any:
        return self._march.status

    @property
    def q(self) -> Floats:
        return np.asarray(np.diagonal(self.gram, axis1=-2, axis2=-1).mean(-1))

    @property
    def p(self) -> Floats:
        n = self.gram.shape[-1]
        if n == 1:
            raise AttributeError("p: a single token has no covariance with another")
        return np.asarray((self.gram.sum((-1, -2)) - n * self.q) / (n * (n - 1)))

    @property
    def c(self) -> Floats:
        return np.asarray(self.p / self.q)

    @property
    def gap(self) -> Floats:
        return np.asarray(1.0 - self.c)

    @property
    def log_apjn_tokens(self) -> Floats:
        return self._march.backward

    @property
    def log_apjn(self) -> Floats:
        return _log_mean(self._march.backward)

    @property
    def log_apjn_forward(self) -> Floats:
        return _log_mean(self._march.forward)

    @property
    def gradient_correlation(self) -> Floats:
        if len(self.layers) == 1 and self.depth:
            raise AttributeError("gradient_correlation: this run kept its last layer alone; give propagate record='all' or a number")
        return self._march.alike

    @property
    def ntk(self) -> Floats:
        return _known(self._march.tangent)

    def __repr__(self) -> str:
        n, kept = self.gram.shape[-1], f"{len(self.layers)} layers kept"
        return f"GramRun({self.depth} repeats, {n} tokens, {_grid(self.gram.shape[:-3])}, {kept}{_bad(self.status)})"

    def plot(self, ax: matplotlib.axes.Axes | None = None, layer: int = -1) -> matplotlib.axes.Axes:
        """The correlations G_ij / sqrt(G_ii G_jj) at a kept layer as a picture (extra `plot`)."""
        axes: matplotlib.axes.Axes = faces.plot(self, ax=ax, layer=layer)
        return axes


@dataclass(frozen=True, repr=False)
class PairRun(faces.Labelled):
    r"""Two inputs, of unequal norm or equal, through a network that does not mix them, over depth.

    Attributes
    ----------
    layers : whole numbers
        The repeats that were kept.
    q, q2, p : arrays, shape (*grid, len(layers))
        Variances of the two inputs and their covariance; c = p/sqrt(q q2), gap = 1 - c.
    log_apjn, log_apjn_2, log_apjn_forward : arrays
        ln J^{L,l} of each input, and ln J^{l,0} of the first.
    ntk, ntk_2, ntk_pair : arrays
        The neural tangent kernel of the first input, of the second, and between them (NTK parametrisation).
    status : str or array of str
        "ok", or "overflow", "underflow", "invalid": values are NaN from there on.
    """

    net: Block
    parameters: Mapping[str, Floats]
    depth: int
    _march: _March

    @property
    def layers(self) -> NDArray[np.int64]:
        return self._march.layers

    @property
    def status(self) -> Any:
        return self._march.status

    @property
    def q(self) -> Floats:
        return self._march.gram[..., 0, 0]

    @property
    def q2(self) -> Floats:
        return self._march.gram[..., 1, 1]

    @property
    def p(self) -> Floats:
        return self._march.gram[..., 0, 1]

    @property
    def c(self) -> Floats:
        return np.asarray(self.p / (np.sqrt(self.q) * np.sqrt(self.q2)))

    @property
    def gap(self) -> Floats:
        return np.asarray(1.0 - self.c)

    @property
    def log_apjn(self) -> Floats:
        return self._march.backward[..., 0]

    @property
    def log_apjn_2(self) -> Floats:
        return self._march.backward[..., 1]

    @property
    def log_apjn_forward(self) -> Floats:
        return self._march.forward[..., 0]

    @property
    def ntk(self) -> Floats:
        return _known(self._march.tangent)[..., 0, 0]

    @property
    def ntk_2(self) -> Floats:
        return _known(self._march.tangent)[..., 1, 1]

    @property
    def ntk_pair(self) -> Floats:
        return _known(self._march.tangent)[..., 0, 1]

    def __repr__(self) -> str:
        return f"PairRun({self.depth} repeats, {_grid(self.q.shape[:-1])}, {len(self.layers)} layers kept{_bad(self.status)})"

    def plot(self, ax: matplotlib.axes.Axes | None = None, quantity: str = "c") -> matplotlib.axes.Axes:
        """One quantity over depth (extra `plot`): "q", "q2", "p", "c", "gap", "log_apjn", "ntk" or "ntk_pair"."""
        axes: matplotlib.axes.Axes = faces.plot(self, ax=ax, quantity=quantity)
        return axes


def _log_mean(logs: Floats) -> Floats:
    top = logs.max(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(np.exp(logs - np.where(np.isfinite(top), top, 0.0)).mean(-1)) + top[..., 0])


def _known(tangent: Floats | None) -> Floats:
    if tangent is None:
        raise AttributeError("ntk: a block of this network does not say what its weights add to the tangent kernel (Law.tangent)")
    return tangent


def _grid(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "one setting"


def _bad(status: Any) -> str:
    words = sorted(set(np.ravel(status).tolist()) - {"ok"})
    return f", status {words}" if words else ""


# -- the march ------------------------------------------------------------------------------------------------------------------------


def _status(G: Floats) -> NDArray[np.str_]:
    """a word for each grid point"""
    diagonal = np.diagonal(G, axis1=-2, axis2=-1)
    with np.errstate(invalid="ignore"):
        high, low = (diagonal >= 1e300).any(-1), (diagonal <= 1e-300).any(-1)
        words = np.where(high, "overflow", np.where(low, "underflow", "ok"))
    return np.where(np.isfinite(G).all((-1, -2)) | high, words, "invalid")


def _march(net: Block, G: Floats, depth: int, layers: NDArray[np.int64], pooled: bool, values: Mapping[str, Floats]) -> _March:
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
                theta = np.where(good, flow.push(theta) + flow.tangent, fine)
        if several:
            pulls.append(flow.pull)
        G = np.where(good, flow.gram, fine)  # what went wrong stays harmless and is shown as NaN
        keep(l + 1)
    if not several:
        backward[..., 0, :] = forward[..., 0, :]
        return _March(layers, gram, backward, alike, forward, tangent, status if grid else str(status))
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
    return _March(layers, gram, backward, alike, forward, tangent, status if grid else str(status))


def _check_size(count: int, depth: int, n: int, kept: int) -> None:
    need = 8.0 * count * n * n * (2 * kept + (3 * depth if kept > 1 else 6))
    if need > 0.8 * available_memory():
        raise ValueError(
            f"the result needs {need / 2**30:.3g} GiB ({count} settings, Gram matrices of {n} x {n}, {depth} repeats), more than the "
            f"{available_memory() / 2**30:.3g} GiB there are: pass record='last', or split the grid"
        )


def run_tokens(
    net: Block,
    depth: int,
    q: ArrayLike,
    p: ArrayLike | None,
    c: ArrayLike | None,
    gap: ArrayLike | None,
    start: str,
    record: str | int | Sequence[int],
    parameters: Mapping[str, ArrayLike],
) -> GramRun:
    """The Gram matrix of n tokens that start permutation-symmetric, as `propagate` describes."""
    check_means(net)
    values = bound_parameters(parameters_of(net), parameters)
    q0, delta0 = initial_moments(q, p, c, gap)
    n = tokens_of(net, {**values, "L": np.asarray(float(depth))})
    if n is None:
        raise ValueError(f"{net} has no recursion in (q, p) and no fixed attention that says how many tokens there are")
    if delta0 is None and n > 1:
        raise ValueError("this network mixes tokens: give the start of two tokens by exactly one of p, c and gap (or n = 1)")
    given = np.zeros(()) if delta0 is None else delta0
    grid = arguments.broadcast({"q": q0, "p": given, **values})
    if delta0 is not None:
        check_gram(q0, delta0, np.asarray(float(n)))
    layers = layers_of(record, depth, lambda kept: _check_size(math.prod(grid), depth, n, kept))
    one = np.ones((n, n))
    G = np.broadcast_to((q0 - given)[..., None, None] * one + given[..., None, None] * np.eye(n), (*grid, n, n))
    return GramRun(net, values, depth, start, _march(net, G, depth, layers, start == "pooled", values))


def run_pair(
    net: Block,
    depth: int,
    q: ArrayLike,
    q2: ArrayLike | None,
    p: ArrayLike | None,
    c: ArrayLike | None,
    gap: ArrayLike | None,
    record: str | int | Sequence[int],
    parameters: Mapping[str, ArrayLike],
) -> PairRun:
    """Two inputs, of unequal norm or equal, as `propagate` describes."""
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
    grid = arguments.broadcast({"q": first, "q2": second, names[0]: value, **values})
    root = np.sqrt(first) * np.sqrt(second)
    cov = {"p": value, "c": value * root, "gap": (1.0 - value) * root}[names[0]]
    if (np.abs(cov) > root * (1 + 1e-15)).any():
        raise ValueError(f"{names[0]}: |p| must be at most sqrt(q q2), that is |c| <= 1 and 0 <= gap <= 2")
    layers = layers_of(record, depth, lambda kept: _check_size(math.prod(grid), depth, 2, kept))
    G = np.empty((*grid, 2, 2))
    G[..., 0, 0], G[..., 1, 1] = first, second
    G[..., 0, 1] = G[..., 1, 0] = cov
    return PairRun(net, values, depth, _march(net, G, depth, layers, False, values))


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
    return run_pair(net, arguments.check_integer(depth, "depth", 0), q, q2, p, c, gap, record, parameters)
