r"""What comes out of Gram matrices over depth: of tokens that are told apart, of two inputs of unequal norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from meanfield import faces
from meanfield.blocks.algebra import Block
from meanfield.numeric.outlines import WORDS, Axes, Outline

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["GramRun", "March", "PairRun", "pair_outline", "token_outline"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class March:
    """Arrays over (*grid, layers, ...): Gram matrices, 1 - c, ln of the gradient's diagonal backward and forward, NTK, status over the
    grid."""

    layers: NDArray[np.int64]
    gram: Floats
    gap: Floats
    backward: Floats
    alike: Floats
    forward: Floats
    tangent: Floats | None
    status: Any

    @classmethod
    def empty(cls, layers: NDArray[np.int64], count: int, n: int, tangent: bool) -> March:
        """Room for so many points, which a run fills piece by piece: gigabytes at once take seconds in which no interrupt is heard."""
        gram, gap, backward, alike, forward = (np.empty((count, layers.size, *shape)) for shape in ((n, n), (), (n,), (), (n,)))
        theta = np.empty_like(gram) if tangent else None
        return cls(layers, gram, gap, backward, alike, forward, theta, np.empty(count, dtype=WORDS))

    def of(self, points: slice) -> March:
        """Some of its points: views."""
        return self._each(lambda a: a[points])

    def silence(self, points: NDArray[np.int64]) -> None:
        """Those points as they are where a repeat takes everything to 0: nothing is left of them, and no gradient goes through it."""
        later, before = self.layers > 0, self.layers < self.layers[-1]
        for rows, value, where in (
            (self.gram, 0.0, later),
            (self.gap, np.nan, later),
            (self.forward, -np.inf, later),
            (self.tangent, 0.0, later),
        ):
            if rows is not None:
                rows[np.ix_(points, np.flatnonzero(where))] = value
        self.backward[points] = np.where(before | (len(before) == 1), -np.inf, 0.0)[:, None]
        self.status[points] = "zero signal"

    def shaped(self, grid: tuple[int, ...]) -> March:
        """Its points as a grid; the status of a single one is a word."""
        whole = self._each(lambda a: a.reshape((*grid, *a.shape[1:])))
        return whole if grid else replace(whole, status=str(whole.status))

    def _each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> March:
        arrays = {name: a for name, a in vars(self).items() if name != "layers" and a is not None}
        return replace(self, **{name: change(a) for name, a in arrays.items()})


@dataclass(frozen=True, repr=False, eq=False)
class GramRun(faces.Labelled):
    r"""n tokens that are told apart (a causal mask, fixed attention weights), over depth.

    Attributes
    ----------
    layers : whole numbers
        The repeats that were kept.
    gram : array, shape (*grid, len(layers), n, n)
        G_ij = h_i . h_j / d.
    q, p : arrays, shape (*grid, len(layers))
        Mean of the diagonal of G and of its off-diagonal entries; c = p/q, gap = 1 - c, with its own digits however small it is.
    log_apjn, log_apjn_forward : arrays
        ln J^{L,l}, averaged over tokens at layer l, and ln J^{l,0}.
    log_apjn_tokens : array, shape (*grid, len(layers), n)
        ln |g_i|^2/d of each token's gradient at layer l: under a causal mask the first tokens collect the most.
    gradient_correlation : array, shape (*grid, len(layers))
        Mean covariance of the gradients of two tokens over their mean square.
    ntk : array, shape (*grid, len(layers), n, n)
        The neural tangent kernel, as far as every block says what its weights add.
    status : str or array of str
        "ok"; "overflow", "underflow", "invalid": values are NaN from there on; "zero APJN": weights are 0; "infinite APJN": an
        activation jumps; or "zero signal": weights, biases and skips are 0, and so is all from the first repeat on.

    Examples
    --------
    >>> import meanfield as mf
    >>> run = mf.propagate(mf.CausalAttention(), depth=3, q=1.0, p=0.4, n=4, sigma_V=1, sigma_O=1)
    >>> run
    GramRun(3 repeats, 4 tokens, one setting, 4 layers kept)
    >>> run.gram.shape, run.q.round(3)
    ((4, 4, 4), array([1.   , 0.712, 0.769, 0.849]))
    >>> run.log_apjn_tokens[0].round(2)  # the first token collects the most
    array([ 1.07, -2.45, -5.2 , -8.32])
    """

    net: Block
    parameters: Mapping[str, Floats]
    depth: int
    start: str
    _march: March
    axes: Axes = field(default_factory=Axes)

    @property
    def outline(self) -> Outline:
        return token_outline(self.layers, self.depth, self.gram.shape[-1], self._march.tangent is not None)

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
        if self.gram.shape[-1] == 1:
            raise AttributeError("gap: a single token has no covariance with another")
        return self._march.gap

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


@dataclass(frozen=True, repr=False, eq=False)
class PairRun(faces.Labelled):
    r"""Two inputs, of unequal norm or equal, through a network that does not mix them, over depth.

    Attributes
    ----------
    layers : whole numbers
        The repeats that were kept.
    q, q2, p : arrays, shape (*grid, len(layers))
        Variances of the two inputs and their covariance; c = p/sqrt(q q2), gap = 1 - c, with its own digits: where q and q2 differ by a
        small part h, to 2^-53/h of what is left of h^2.
    log_apjn, log_apjn_2, log_apjn_forward : arrays
        ln J^{L,l} of each input, and ln J^{l,0} of the first.
    ntk, ntk_2, ntk_pair : arrays
        The neural tangent kernel of the first input, of the second, and between them (NTK parametrisation).
    status : str or array of str
        "ok"; "overflow", "underflow", "invalid": values are NaN from there on; "zero APJN": weights are 0; "infinite APJN": an
        activation jumps; or "zero signal": weights, biases and skips are 0, and so are q, p, J and the tangent kernel from the first
        repeat on; c = 0/0 is nan.

    Examples
    --------
    >>> import meanfield as mf
    >>> run = mf.propagate(mf.mlp(mf.relu), depth=3, q=1.0, q2=4.0, p=0.5, sigma_w=2**0.5, sigma_b=0)
    >>> run
    PairRun(3 repeats, one setting, 4 layers kept)
    >>> run.c.round(4), run.ntk_pair.round(4)
    (array([0.25  , 0.4533, 0.5783, 0.6623]), array([0.5   , 1.1968, 1.9342, 2.6714]))
    """

    net: Block
    parameters: Mapping[str, Floats]
    depth: int
    _march: March
    axes: Axes = field(default_factory=Axes)

    @property
    def outline(self) -> Outline:
        return pair_outline(self.layers, self._march.tangent is not None)

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
        with np.errstate(invalid="ignore"):
            return np.asarray(self.p / (np.sqrt(self.q) * np.sqrt(self.q2)))

    @property
    def gap(self) -> Floats:
        return self._march.gap

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


def token_outline(layers: NDArray[np.int64], depth: int, n: int, tangent: bool) -> Outline:
    """What a run of n tokens holds, the tangent kernel among it or not."""
    quantities: dict[str, tuple[str, ...]] = {"gram": ("layer", "i", "j"), "log_apjn_tokens": ("layer", "i")}
    names = (
        "q",
        *(("p", "c", "gap") * (n > 1)),
        "log_apjn",
        "log_apjn_forward",
        *(["gradient_correlation"] * (layers.size > 1 or not depth)),
    )
    quantities |= dict.fromkeys(names, ("layer",)) | ({"ntk": ("layer", "i", "j")} if tangent else {})
    tokens = np.arange(1, n + 1)
    return Outline({**quantities, "status": ()}, {"layer": layers, "i": tokens, "j": tokens})


def pair_outline(layers: NDArray[np.int64], tangent: bool) -> Outline:
    """What a run of two inputs holds, the tangent kernel among it or not."""
    names = ("q", "q2", "p", "c", "gap", "log_apjn", "log_apjn_2", "log_apjn_forward", *(("ntk", "ntk_2", "ntk_pair") * tangent))
    return Outline({**dict.fromkeys(names, ("layer",)), "status": ()}, {"layer": layers})
