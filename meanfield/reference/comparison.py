r"""Theory beside random networks, with the part of the difference that finite width explains taken off."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from meanfield import arguments, faces
from meanfield.blocks.algebra import Block, checked_block
from meanfield.blocks.letters import heeded
from meanfield.numeric.beside import Beside
from meanfield.numeric.gram_runs import GramRun, PairRun
from meanfield.numeric.propagation import parameters as network_parameters
from meanfield.numeric.propagation import propagate
from meanfield.numeric.runs import Run, initial_moments
from meanfield.reference.drawing import place
from meanfield.reference.draws import Draw, gaussian, truncated_normal
from meanfield.reference.fluctuations import Unpredicted
from meanfield.reference.halves import halved
from meanfield.reference.listing import listing
from meanfield.reference.measurement import Measurement, measure
from meanfield.reference.scatter import Scatter, scatter
from meanfield.reference.settings import with_tokens
from meanfield.reference.twin import build

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["Comparison", "Difference", "compare"]

Floats = NDArray[np.float64]

#: standard errors, of a normal variable, above which theory and measurement disagree
SIGMAS = 3.0


@dataclass(frozen=True)
class Difference:
    r"""One quantity over the layers.

    Attributes
    ----------
    theory, measured, error : arrays
        At infinite width, and at the larger width with its standard error.
    bias : array
        What the larger width adds to its theory, as half the width adds twice that: linear in 1/width.
    z : array
        (measured - bias - theory) / error of the numerator, which is about sqrt(5) times that of `measured`.
    """

    theory: Floats
    measured: Floats
    error: Floats
    bias: Floats
    z: Floats


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(faces.Labelled):
    """Theory, the networks of two widths, and their differences: what `compare` returns.

    Attributes
    ----------
    theory : Run, GramRun or PairRun
        Infinite width.
    narrow_theory : the same of the smaller networks
        `theory` itself, but where half the width has half the features of gated attention.
    wide, narrow : Measurement
        The networks of the width that was asked for, and of half of it.
    q, p, log_apjn : Difference
        Arrays `theory`, `measured`, `error`, `bias` and `z` over the layers; p is None for a single input.
    scatter : Scatter
        The predicted standard deviation of ln q and ln J over draws, computed on first use. It raises ValueError where it is not
        known, and names the block.

    Examples
    --------
    >>> import meanfield as mf
    >>> seen = mf.reference.compare(mf.mlp(mf.erf), width=64, depth=2, q=1.0, c=0.5, sigma_w=1.5, sigma_b=0.1, device="cpu")
    >>> seen.wide.width, seen.narrow.width, list(seen.differences)
    (64, 32, ['q', 'p', 'ln J'])
    >>> seen.q.theory.round(4), seen.agrees
    (array([1.    , 1.0553, 1.0782]), True)
    """

    theory: Run | GramRun | PairRun
    narrow_theory: Run | GramRun | PairRun
    wide: Measurement
    narrow: Measurement
    q: Difference
    p: Difference | None
    log_apjn: Difference
    predicted: Callable[[], Scatter]

    @cached_property
    def scatter(self) -> Scatter:
        return self.predicted()

    @property
    def differences(self) -> dict[str, Difference]:
        """By the name that the table shows."""
        named = {"q": self.q, "p": self.p, "ln J": self.log_apjn}
        return {name: d for name, d in named.items() if d is not None}

    @property
    def limit(self) -> float:
        """|z| that chance exceeds as rarely as a normal variable exceeds 3 standard errors: errors are estimated from few networks."""
        return float(stdtrit(self.wide.samples - 1, ndtr(SIGMAS)))

    @property
    def agrees(self) -> bool:
        """Whether no |z| is above the limit."""
        return all(bool((np.abs(d.z) <= self.limit).all()) for d in self.differences.values())

    @property
    def second_order(self) -> float:
        """How far apart, relatively, theory and networks may be by terms of second order, of which two widths take off the first: a norm
        has E 1/q = e^v/E q for a variance v of ln q, and 2 v^2 is left of terms in v^2. The sum over all that q enters; NaN where the
        scatter is not known."""
        try:
            return float(2 * np.sum(self.scatter.entering**4))
        except Unpredicted:
            return math.nan

    @property
    def verdict(self) -> str:
        """The largest disagreement in a sentence, and whether the network scatters too much for a law of means to be held against it."""
        name, d = max(self.differences.items(), key=lambda item: float(np.abs(item[1].z).max()))
        i = int(np.abs(d.z).argmax())
        off = float((d.measured - d.bias - d.theory)[i])
        fact = f"the networks are {off:+.2g} off theory in {name} at layer {i}, z = {d.z[i]:+.1f}"
        if self.agrees:
            bound = f"no |z| is above {self.limit:.1f} (3 standard errors, {self.wide.samples} networks)"
            return f"Theory and networks agree: {bound}. At most, {fact}."
        if abs(off) <= self.second_order * (1.0 if d is self.log_apjn else float(self.q.theory[i])):
            return (
                f"Outside the range of the law: {fact}. It takes q as certain, but over draws ln q has a predicted standard deviation of "
                f"{self.scatter.entering.max():.2g} where it enters a norm, activation or attention. Two widths take off the first order "
                f"of that; terms of second order are about {self.second_order:.1g} here."
            )
        return f"Theory and networks disagree: {fact}, and chance stays below {self.limit:.1f}."

    def plot(self, ax: matplotlib.axes.Axes | None = None, quantity: str = "log_apjn") -> matplotlib.axes.Axes:
        """Theory, alone and with the part linear in 1/width, the larger networks with their standard errors and the verdict (extra
        `plot`): "log_apjn", "q" or "p".

        The band is the scatter of a single draw: as predicted where `scatter` is known, elsewhere and for p as seen over the draws.
        """
        found = {"log_apjn": self.log_apjn, "q": self.q, "p": self.p}.get(quantity)
        if found is None:
            raise ValueError(f"quantity = {quantity!r}: expected 'log_apjn', 'q' or, for two inputs, 'p'")
        band, name = found.error * np.sqrt(self.wide.samples), "one draw, as seen"
        if quantity != "p":
            with suppress(Unpredicted):
                band, name = self.scatter.log_apjn if quantity == "log_apjn" else found.theory * self.scatter.log_q, "one draw, predicted"
        beside = Beside(quantity, self.wide.layers, found.theory, found.measured, found.error, found.bias, band, name, self.verdict)
        axes: matplotlib.axes.Axes = faces.plot(beside, ax=ax)
        return axes

    def __repr__(self) -> str:
        head = (
            f"theory beside {self.wide.samples} random networks of width {self.wide.width} and as many of {self.narrow.width}, "
            f"n = {self.wide.n}, gradient start {self.wide.start!r}"
        )
        if self.narrow_theory is not self.theory:
            head += "; these have half the features s of gated attention, so that the column 1/width holds what is in 1/s too"
        columns = [("layer", [str(i) for i in self.wide.layers])]
        for name, d in self.differences.items():
            columns.append((name, [f"{v:.5g}" for v in d.theory]))
            columns.append(("measured", [f"{v:.5g} ± {e:.1g}" for v, e in zip(d.measured, d.error, strict=True)]))
            columns.append(("1/width", [f"{v:+.1g}" for v in d.bias]))
            columns.append(("z", [f"{v:+.1f}" for v in d.z]))
        return f"{head}\n{listing(columns)}\n{self.verdict}"


def compare(
    net: Block,
    width: int,
    depth: int,
    *,
    q: float,
    p: float | None = None,
    c: float | None = None,
    gap: float | None = None,
    n: int | None = None,
    samples: int = 8,
    probes: int = 4,
    start: str = "token",
    heads: int = 1,
    hidden: float = 1,
    draw: Draw = gaussian,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    device: str | torch.device = "auto",
    **parameters: Any,
) -> Comparison:
    r"""The theory of `mf.propagate` beside what is measured on random networks of this width and of half of it.

    Finite networks differ from the theory by O(1/width), and more as they get deeper. The two widths give that term, by
    m(width) = theory + b/width, and the z-scores compare what is left with 0. A gated attention unit has effects in 1/s beside its law at
    any width, once it stands in a stack with norms: at half the width it has half of s (and of d, e; W_o is twice as large, to keep the
    size of what it adds), beside the theory of that. `bias` then holds the terms in 1/width and 1/s.

    Where theory and networks disagree by no more than the terms of second order that the predicted scatter of q over draws makes, the
    verdict says that this is outside the range of the law: gated attention of few features with a heavy tail, in front of a norm.

    Parameters
    ----------
    net, depth, q, p, c, gap, n, start, **parameters
        As in `mf.propagate`, one number each; n also says how many inputs to draw where the network does not mix them. Scales on which
        the theory does not depend are taken as `build` takes them.
    width : whole number >= 2
        Its half must divide into `heads` and be at least n; the s of a gated attention unit must be even.
    samples, probes, seed, device
        As in `measure`, for each of the two widths.
    heads, hidden, draw, dtype
        As in `build`.

    Raises
    ------
    ValueError, TypeError
        As `mf.propagate`, `build` and `measure` do; a theory that overflows.

    Examples
    --------
    >>> import meanfield as mf
    >>> seen = mf.reference.compare(mf.mlp(mf.erf), width=64, depth=2, q=1.0, c=0.5, sigma_w=1.5, sigma_b=0.1, device="cpu")
    >>> seen.q.z.shape, seen.agrees
    ((3,), True)
    """
    arguments.check_integer(width, "width", 2)
    checked_block(net, "net")
    given = with_tokens(net, heeded(net, network_parameters(net), parameters), n)
    small = halved(net, given)

    def predict(net: Block) -> Run | GramRun | PairRun:
        run: Run | GramRun | PairRun = propagate(net, depth, q, p=p, c=c, gap=gap, start=start, **given)
        if not (np.isfinite(run.q).all() and np.isfinite(run.log_apjn).all()):
            raise ValueError(f"the theory has no finite numbers to compare with here: {run.status}; use fewer repeats or other scales")
        return run

    theory = predict(net)
    narrow_theory = theory if small is net else predict(small)
    seen, twins = [], []
    where = place(device)
    for size, drawn in ((width, net), (width // 2, small)):
        twin = build(
            drawn,
            size,
            depth,
            heads=heads,
            hidden=hidden,
            q=q,
            p=p,
            c=c,
            gap=gap,
            n=n,
            draw=draw,
            seed=seed,
            dtype=dtype,
            device=where,
            **parameters,
        )
        twins.append(twin)
        seen.append(measure(twin, samples=samples, probes=probes, start=start, seed=seed + size, device=device))
    wide, narrow = seen
    rounding = 100 * torch.finfo(dtype).eps

    def difference(name: str) -> Difference:
        expected = np.asarray(getattr(theory, name))
        at, half = getattr(wide, name), getattr(narrow, name)
        error, half_error = getattr(wide, f"{name}_error"), getattr(narrow, f"{name}_error")
        ratio = narrow.width / (wide.width - narrow.width)
        bias = ratio * (half - np.asarray(getattr(narrow_theory, name)) - (at - expected))
        spread = np.sqrt(((1 + ratio) * error) ** 2 + (ratio * half_error) ** 2 + (rounding * np.maximum(1.0, np.abs(expected))) ** 2)
        return Difference(expected, at, error, bias, (at - bias - expected) / spread)

    two = not p is c is gap is None
    q0, delta = initial_moments(q, p, c, gap)

    def predicted() -> Scatter:
        if draw not in (gaussian, truncated_normal):
            raise Unpredicted("the scatter of matrices whose entries depend on each other is not known")
        return scatter(
            net,
            width,
            depth,
            q=float(q0),
            delta=None if delta is None else float(delta),
            tokens=wide.n,
            probes=probes,
            parameters=twins[0].settings,
            hidden=hidden,
            heads=heads,
            pooled=start == "pooled",
        )

    p_difference = difference("p") if two else None
    return Comparison(theory, narrow_theory, wide, narrow, difference("q"), p_difference, difference("log_apjn"), predicted)
