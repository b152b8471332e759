r"""Theory beside random networks, with the part of the difference that finite width explains taken off."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from meanfield import arguments, faces
from meanfield.blocks.algebra import Block
from meanfield.numeric.beside import Beside
from meanfield.numeric.gram_runs import GramRun, PairRun
from meanfield.numeric.propagation import parameters as network_parameters
from meanfield.numeric.propagation import propagate
from meanfield.numeric.runs import Run, initial_moments
from meanfield.reference.drawing import place
from meanfield.reference.draws import Draw, gaussian, truncated_normal
from meanfield.reference.fluctuations import Unpredicted
from meanfield.reference.listing import listing
from meanfield.reference.measurement import Measurement, measure
from meanfield.reference.scatter import Scatter, scatter
from meanfield.reference.twin import build
from meanfield.reporting.quantities import RUNS
from meanfield.reporting.tables import labelled
from meanfield.reporting.tabular import Table, number, picked

if TYPE_CHECKING:
    import matplotlib.axes
    import xarray

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
        What the larger width adds: half the difference that half the width makes, both taken linear in 1/width.
    z : array
        (measured - bias - theory) / error of the numerator, which is about sqrt(5) times that of `measured`.
    """

    theory: Floats
    measured: Floats
    error: Floats
    bias: Floats
    z: Floats


@dataclass(frozen=True, repr=False)
class Comparison(faces.Labelled):
    """Theory, the networks of two widths, and their differences: `q`, `p` (None for a single input) and `log_apjn`.

    `scatter` is the predicted standard deviation of ln q and ln J over draws, computed on first use. It raises ValueError where it is not
    known, and names the block.
    """

    theory: Run | GramRun | PairRun
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
    def verdict(self) -> str:
        """The largest disagreement in a sentence."""
        name, d = max(self.differences.items(), key=lambda item: float(np.abs(item[1].z).max()))
        i = int(np.abs(d.z).argmax())
        off = float((d.measured - d.bias - d.theory)[i])
        fact = f"the networks are {off:+.2g} off theory in {name} at layer {i}, z = {d.z[i]:+.1f}"
        if self.agrees:
            bound = f"no |z| is above {self.limit:.1f} (3 standard errors, {self.wide.samples} networks)"
            return f"Theory and networks agree: {bound}. At most, {fact}."
        return f"Theory and networks disagree: {fact}, and chance stays below {self.limit:.1f}."

    def plot(self, ax: matplotlib.axes.Axes | None = None, quantity: str = "log_apjn") -> matplotlib.axes.Axes:
        """Theory, the larger networks with their standard errors and the verdict (extra `plot`): "log_apjn", "q" or "p".

        The band is the scatter of a single draw: as predicted where `scatter` is known, elsewhere and for p as seen over the draws.
        """
        found = {"log_apjn": self.log_apjn, "q": self.q, "p": self.p}.get(quantity)
        if found is None:
            raise ValueError(f"quantity = {quantity!r}: expected 'log_apjn', 'q' or, for two inputs, 'p'")
        band, name = found.error * np.sqrt(self.wide.samples), "one draw, as seen"
        if quantity != "p":
            with suppress(Unpredicted):
                band, name = self.scatter.log_apjn if quantity == "log_apjn" else found.theory * self.scatter.log_q, "one draw, predicted"
        axes: matplotlib.axes.Axes = faces.plot(
            Beside(quantity, self.wide.layers, found.theory, found.measured, found.error, band, name, self.verdict), ax=ax
        )
        return axes

    def __repr__(self) -> str:
        head = (
            f"theory beside {self.wide.samples} random networks of width {self.wide.width} and as many of {self.narrow.width}, "
            f"n = {self.wide.n}, gradient start {self.wide.start!r}"
        )
        columns = [("layer", [str(i) for i in self.wide.layers])]
        for name, d in self.differences.items():
            columns.append((name, [f"{v:.5g}" for v in d.theory]))
            columns.append(("measured", [f"{v:.5g} ± {e:.1g}" for v, e in zip(d.measured, d.error, strict=True)]))
            columns.append(("1/width", [f"{v:+.1g}" for v in d.bias]))
            columns.append(("z", [f"{v:+.1f}" for v in d.z]))
        return f"{head}\n{listing(columns)}\n{self.verdict}"


@faces.latex.register(Comparison)
def _(found: Comparison) -> str:
    return _table(found).latex


@faces.html.register(Comparison)
def _(found: Comparison) -> str:
    return f"<p>{escape(found.verdict)}</p>\n{_table(found).html}"


def _table(found: Comparison) -> Table:
    """theory, measurement with its standard error, and z, over some of the layers"""
    letters = {"q": "$q_l$", "p": "$p_l$", "ln J": f"${RUNS['log_apjn'].latex}$"}
    rows = []
    for i in picked(len(found.wide.layers), 9):
        row = [str(found.wide.layers[i])]
        for d in found.differences.values():
            row += [
                number(float(d.theory[i]), 5),
                rf"{number(float(d.measured[i]), 5)} $\pm$ {number(float(d.error[i]), 1)}",
                f"${d.z[i]:+.1f}$",
            ]
        rows.append(row)
    heads = [cell for name in found.differences for cell in (letters[name], "measured", "$z$")]
    return Table(["$l$", *heads], rows, "r" * (1 + len(heads)))


_PARTS = {
    "theory": "at infinite width",
    "measured": "mean over the networks",
    "error": "its standard error",
    "bias": "what the finite width adds",
    "z": "(measured - bias - theory) in standard errors",
}


@faces.dataset.register(Comparison)
def _(found: Comparison) -> xarray.Dataset:
    """over (quantity, layer)"""
    differences = {"q": found.q, "p": found.p, "log_apjn": found.log_apjn}
    kept = {name: d for name, d in differences.items() if d is not None}
    data = {
        part: (("quantity", "layer"), np.array([getattr(d, part) for d in kept.values()]), {"long_name": meaning, "units": "1"})
        for part, meaning in _PARTS.items()
    }
    coords = {"quantity": list(kept), "layer": found.wide.layers}
    latex = ", ".join(RUNS[name].latex for name in kept)
    about = {"width": found.wide.width, "samples": found.wide.samples, "start": found.wide.start, "verdict": found.verdict}
    return labelled(data, coords, {**about, "latex": latex})


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
    m(width) = m(infinity) + b/width, and the z-scores compare the theory with m(infinity).

    Parameters
    ----------
    net, depth, q, p, c, gap, n, start, **parameters
        As in `mf.propagate`, one number each; n also says how many inputs to draw where the network does not mix them.
    width : whole number >= 2
        Its half must divide into `heads` and be at least n.
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
    named = {s.name for s in network_parameters(net)}
    given = {**parameters, "n": n} if n is not None and "n" in named else parameters
    theory = propagate(net, depth, q, p=p, c=c, gap=gap, start=start, **given)
    if not (np.isfinite(theory.q).all() and np.isfinite(theory.log_apjn).all()):
        raise ValueError(f"the theory has no finite numbers to compare with here: {theory.status}; use fewer repeats or other scales")
    seen = []
    where = place(device)
    for size in (width, width // 2):
        twin = build(
            net,
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
        seen.append(measure(twin, samples=samples, probes=probes, start=start, seed=seed + size, device=device))
    wide, narrow = seen
    rounding = 100 * torch.finfo(dtype).eps

    def difference(name: str) -> Difference:
        expected = np.asarray(getattr(theory, name))
        at, half = getattr(wide, name), getattr(narrow, name)
        error, half_error = getattr(wide, f"{name}_error"), getattr(narrow, f"{name}_error")
        ratio = narrow.width / (wide.width - narrow.width)
        bias = ratio * (half - at)
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
            parameters=given,
            hidden=hidden,
            heads=heads,
            pooled=start == "pooled",
        )

    return Comparison(theory, wide, narrow, difference("q"), difference("p") if two else None, difference("log_apjn"), predicted)
