r"""Functions that oscillate for ever with what has the same means in their place, under Gaussians that are wide against the waves.

Near 0 that is the function itself, far out its mean over all phases, with a smooth step between, see `gaussian.waves`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian import wave_rules
from meanfield.gaussian.mending import mended, mended_function
from meanfield.gaussian.periods import PHASES, Wave, wave
from meanfield.gaussian.resolution import vectorised
from meanfield.gaussian.shape_rows import breaks_of
from meanfield.numeric.far_waves import waves_of
from meanfield.numeric.integrands import waving_row
from meanfield.numeric.stepped import normal_cdf
from meanfield.symbols import known

__all__ = ["Calmed", "calmed"]

Floats = NDArray[np.float64]
Real = Callable[[Floats], Floats]

x = known("x")

#: points of a mean over phases at a time
BATCH = 1 << 20


@dataclass(frozen=True, eq=False)
class Calmed:
    """What has the means of a function under Gaussians of deviations from `calm` on, resolved by 20 nodes between breaks."""

    value: Real
    breaks: tuple[float, ...]
    calm: float


@lru_cache(maxsize=256)
def calmed(f: sp.Expr) -> Calmed | None:
    """The same of a function of x; None where it does not oscillate for ever, or has kinks without end."""
    found = wave(f)
    if found is None:
        return None
    row = waving_row(f, found)
    return _without_waves(f) if row is None or row[wave_rules.ONE] < 0.0 else _far_without_phases(f, found, row)


def _without_waves(f: sp.Expr) -> Calmed | None:
    """where these have constant amplitudes far out, but no more is known of it"""
    waves = waves_of(f)
    return None if waves is None else Calmed(waves.slow, waves.breaks, waves.calm)


def _far_without_phases(f: sp.Expr, found: Wave, row: Floats) -> Calmed:
    """itself near 0, and its mean over all phases far out"""
    calm, far = float(row[wave_rules.WIDTH]), wave_rules.far_of(row)
    step = 2.0 * wave_rules.STEP * calm
    begin, end = float(far[0]), float(far[0]) + step
    near, steps = breaks_of(wave_rules.near_of(row)), begin + step * np.arange(9.0) / 8.0
    ends = np.unique(np.concatenate([near[np.abs(near) < end], steps, -steps, far[far > end], -far[far > end]]))
    value, mean = mended_function(f), _mean(f, found, row)

    def calm_value(z: Floats) -> Floats:
        out, inside = np.zeros(z.shape), normal_cdf((begin + 0.5 * step - np.abs(z)) / calm)
        here, there = inside > 0.0, inside < 1.0
        out[here] = inside[here] * value(z[here])
        out[there] += (1.0 - inside[there]) * mean(z[there])
        return out

    return Calmed(calm_value, tuple(ends.tolist()), calm)


def _mean(f: sp.Expr, found: Wave, row: Floats) -> Real:
    """the mean over all phases"""
    counts = [int(2.0 * row[k] + 1.0) for k in (wave_rules.ONE, wave_rules.TWO)][: len(found.periods)]
    turns = [float(t) / n * (np.arange(n) + 0.382) for t, n in zip(found.periods, counts, strict=True)]  # on no break
    phases = np.array(list(itertools.product(*turns))).T
    right, left = (vectorised(mended(f, sign, found.pattern), (x, *PHASES[: len(turns)])) for sign in (1, -1))

    def mean(z: Floats) -> Floats:
        out = np.empty(z.size)
        for value, here in ((right, np.flatnonzero(z > 0.0)), (left, np.flatnonzero(z <= 0.0))):
            for some in np.array_split(here, 1 + here.size * phases.shape[1] // BATCH):
                with np.errstate(all="ignore"):
                    out[some] = value(z[some, None], *phases[:, None, :]).mean(axis=1)
        return out

    return mean
