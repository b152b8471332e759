r"""Gram matrices, of tokens that are told apart or two inputs of unequal norm, marched through the layers; the neural tangent kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield import arguments
from meanfield.blocks.algebra import Block, checked_block
from meanfield.fingerprint import fingerprint
from meanfield.memory import check_memory
from meanfield.numeric.coefficients import check_coefficients
from meanfield.numeric.gram_laws import check_means, described, has_softmax, has_tangent, parameters_of, tokens_of
from meanfield.numeric.gram_passes import Passes
from meanfield.numeric.gram_runs import GramRun, PairRun, pair_outline, token_outline
from meanfield.numeric.gram_state import Grams, Start
from meanfield.numeric.outlines import Outline, axes_of, layers_of
from meanfield.numeric.patience import check_patience
from meanfield.numeric.programs import among
from meanfield.numeric.runs import ALONE, FEWER, bound_parameters, check_angle, check_gap, check_gram, initial_moments

__all__ = ["Gram", "ntk", "prepared_pair", "prepared_tokens"]

Floats = NDArray[np.float64]

#: what a layer costs at least, of however few points, a layer of a point in closed form being 1
LAYER = 1e6


def _layers(record: str | int | Sequence[int], passes: Passes, count: int) -> NDArray[np.int64]:
    """The layers that `record` keeps, if so many points of them fit into memory."""

    def check_size(kept: int) -> None:
        need, n = replace(passes, kept=kept).bytes(count), passes.n
        details = f" ({count} settings x {kept} layers, Gram matrices of {n} x {n})"
        instead = "out='sweep.zarr' to keep it on disk, or split the grid"
        check_memory("the result", need, details, FEWER * (kept > 1) + instead)

    return layers_of(record, passes.depth, check_size)


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
    begun: Start
    pair: bool

    @property
    def gram(self) -> Grams:
        """At the start; broadcasts with (*grid, n, n)."""
        return self.begun.grams

    @property
    def outline(self) -> Outline:
        tangent = has_tangent(self.net)
        if self.pair:
            return pair_outline(self.layers, tangent)
        return token_outline(self.layers, self.depth, self.begun.n, tangent)

    @cached_property
    def source(self) -> str:
        """The fingerprint of the laws that run it."""
        return fingerprint(described(self.net))

    @property
    def cost(self) -> int:
        """Of a point over all layers, a layer of a recursion in (q, p) in closed form being 1, roughly."""
        return max(self.depth, 1) * self.begun.n**2 * (2000 if has_softmax(self.net) else 50)

    def check_patience(self) -> None:
        """Refuse more layers than anybody waits for."""
        cost = max(self.cost * math.prod(self.grid), self.depth * LAYER)
        check_patience(self.depth, self.depth, cost, "Gram matrices go layer by layer")

    def run(self, points: int) -> GramRun | PairRun:
        """Do it; `points` are in the whole grid, of which this may be a chunk."""
        self.check_patience()
        n = self.begun.n
        passes = Passes(self.net, self.depth, self.layers.size, self.start == "pooled", n, self.pair)
        with among(None if points == 1 else points * max(self.depth, 1) * n * n):
            march = passes.march(self.layers, self.begun, self.parameters, self.grid)
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
    check_coefficients(net, values, depth)
    q0, delta0 = initial_moments(q, p, c, gap)
    n = tokens_of(net, {**values, "L": np.asarray(float(depth))})
    if n is None:
        raise ValueError(f"{net} has no recursion in (q, p) and no fixed attention that says how many tokens there are")
    if delta0 is None and n > 1:
        raise ValueError(ALONE)
    given = np.zeros(()) if delta0 is None else delta0
    begin = {"q": q0, **{name: np.asarray(v, dtype=np.float64) for name, v in (("p", p), ("c", c), ("gap", gap)) if v is not None}}
    grid = arguments.broadcast({**begin, **values})
    layers = _layers(record, Passes(net, depth, 1, start == "pooled", n), math.prod(grid) if points is None else points)
    if delta0 is not None:
        check_gram(q0, delta0, np.asarray(float(n)))
    return Gram(net, values, depth, start, layers, begin, grid, Start(n, q0, q0, q0 - given, given), False)


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
    check_coefficients(net, values, depth)
    first = arguments.variance_array(q, "q")
    second = first if q2 is None else arguments.variance_array(q2, "q2")
    names = [name for name, v in (("p", p), ("c", c), ("gap", gap)) if v is not None]
    if len(names) != 1:
        raise ValueError(f"{' and '.join(names) or 'none of p, c and gap'} given: two inputs start with exactly one of p, c and gap")
    value = arguments.number_array({"p": p, "c": c, "gap": gap}[names[0]], names[0])
    begin = {"q": first, "q2": second, names[0]: value}
    grid = arguments.broadcast({**begin, **values})
    layers = _layers(record, Passes(net, depth, 1, False, 2), math.prod(grid) if points is None else points)
    root = arguments.geometric_mean(first, second)
    with np.errstate(over="ignore"):
        if names[0] == "p":
            cov = arguments.within(value, root, "p = {value}: |p| must be at most sqrt(q q2) = {limit}")
            lack = root - cov
        else:
            check_angle(value, names[0])
            apart = 1.0 - value if names[0] == "c" else value
            cov, lack = (value if names[0] == "c" else 1.0 - value) * root, apart * root
    check_gap(lack, begin, " and ", "sqrt(q q2) - p")
    return Gram(net, values, depth, "token", layers, begin, grid, Start(2, first, second, cov, lack), True)


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
