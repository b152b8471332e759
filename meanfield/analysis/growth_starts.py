"""From which variances q goes where: a repeat can have several fixed points, and what divides the starts are those that repel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.analysis.growth_records import Growth
from meanfield.analysis.maps import map_of
from meanfield.analysis.ranges import HIGHEST, LOWEST
from meanfield.analysis.roots import positive_roots
from meanfield.analysis.stepping import Steps
from meanfield.blocks.algebra import Block
from meanfield.recurrence import recursion

__all__ = ["from_starts"]

Floats = NDArray[np.float64]
#: how many variances are looked at before fixed points are looked for
SEEN = 49


def from_starts(law: Growth, net: Block, values: Mapping[str, sp.Expr]) -> Growth:
    """The law of q from q = 1, with the starts from which q goes elsewhere, where there are such and parameters are numbers.

    Of networks whose tokens mix nothing is said: there the start of c divides as well.
    """
    if any(v.free_symbols for v in values.values()) or {s.name for s in recursion(net).parameters} - values.keys():
        return law
    there = _basins(net, values)
    if not there:
        return law
    said = f"{'' if law.kind == 'undetermined' else 'from q = 1; '}as it starts, q goes {', '.join(map(str, there))}"
    return replace(law, reason=f"{law.reason}; {said}" if law.reason else said)


@dataclass(frozen=True)
class _Basin:
    """q goes to `to` from starts between `above` and `below`"""

    to: float
    above: float
    below: float

    def __str__(self) -> str:
        where = "infinity" if self.to == math.inf else f"{self.to:.6g}"
        if self.above == 0:
            return f"to {where} from q < {self.below:.6g}"
        return f"to {where} from {f'q > {self.above:.6g}' if self.below == math.inf else f'{self.above:.6g} < q < {self.below:.6g}'}"


def _basins(net: Block, values: Mapping[str, sp.Expr]) -> tuple[_Basin, ...]:
    """where q goes from which starts, if that depends on the start"""
    step = map_of(net)
    if step.coupled or step.unresolved:
        return ()
    given = {name: float(v) for name, v in values.items()}
    steps = Steps(step.signed(given), given)

    def growth(at: Floats) -> tuple[Floats, Floats, Floats]:
        moved, along, _ = steps.identical(at)
        return moved.growth, moved.growth_slope(along), moved.growth_error

    with np.errstate(all="ignore"):
        rise, _, error = growth(np.geomspace(LOWEST, HIGHEST, SEEN))
    side = np.sign(rise[np.isfinite(rise) & (np.abs(rise) > error)])
    if not (np.diff(side) > 0).any():
        return ()
    found = positive_roots(growth, LOWEST, HIGHEST)
    crossed = [r.at for r in found.roots if r.crossing]
    signs = [found.first * (-1) ** k for k in range(len(crossed) + 1)]  # of ln q'/q between those
    if found.unresolved or len(crossed) < len(found.roots) or signs[-1] != found.last:
        return ()
    edges = [0.0, *(at for at, before in zip(crossed, signs, strict=False) if before < 0), math.inf]
    ends = [0.0] * (signs[0] < 0) + [at for at, before in zip(crossed, signs, strict=False) if before > 0] + [math.inf] * (signs[-1] > 0)
    return tuple(_Basin(*own) for own in zip(ends, edges[:-1], edges[1:], strict=True))
