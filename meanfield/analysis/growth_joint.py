"""Where q and c settle together below c = 1: the stable fixed point of the joint map, and J by the transfer there."""

from __future__ import annotations

import numpy as np
import sympy as sp

from meanfield.analysis.fixed import fixed_points
from meanfield.analysis.growth_modes import steps_law
from meanfield.analysis.growth_rates import Undetermined
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.maps import map_of
from meanfield.analysis.stepping import Steps
from meanfield.blocks.algebra import Block
from meanfield.gaussian.reasons import Reason

__all__ = ["joint_laws"]


def joint_laws(net: Block, values: dict[str, sp.Expr]) -> tuple[Growth, Growth, Growth]:
    """The laws of q, 1 - c and J, in numbers; Undetermined where parameters are free, or no fixed point below c = 1 is stable."""
    step = map_of(net)
    free = sorted(s.name for s in step.recursion.parameters if s.name not in values or values[s.name].free_symbols)
    if free:
        raise Undetermined(Reason("q and c settle together at c < 1, at a point that has no closed form", bind=tuple(free)))
    given = {name: float(v) for name, v in values.items()}
    stable = [f for f in fixed_points(net, **given) if f.stable and f.gap > 0 and f.q > 0]
    if len(stable) != 1:
        raise Undetermined(f"q and c settle together, and {len(stable)} fixed points with c < 1 are stable: see fixed_points")
    (point,) = stable
    at = np.array([point.q])
    transfer = sp.Matrix(Steps(step.signed(given), given).transfer(at, point.gap * at).value[0])
    reason = f"with c, over {max(point.xi_q, point.xi_c):.3g} repeats"
    q, gap = (Growth(name, "bounded", limit=sp.Float(v), reason=reason) for name, v in (("q", point.q), ("1 - c", point.gap)))
    return q, gap, steps_law(transfer)
