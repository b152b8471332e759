r"""Functions that oscillate for ever about a constant far out: what they tend to on either side, and what is left between.

    f(x) = g(x) + Re \sum_\nu A_\nu(x) e^{i \nu x},   A_\nu(x) = a_\nu^- + (a_\nu^+ - a_\nu^-) \Phi(x/w)

With \Phi(x/w) so wide that no harmonic is left under a Gaussian as wide, the waves have no expectation, and g tends to constants. The
waves are analytic everywhere: kinks of f are kinks of g.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.gaussian.analyticity import CENTRES, analytic_radii
from meanfield.gaussian.landmarks import features
from meanfield.gaussian.mending import mended_function
from meanfield.gaussian.periods import PHASES, Wave, wave
from meanfield.gaussian.resolution import vectorised
from meanfield.gaussian.shape_rows import breaks_of, sharp_of
from meanfield.gaussian.smoothness import is_smooth
from meanfield.gaussian.stable import side
from meanfield.gaussian.wave_rules import CALM
from meanfield.numeric.integrands import shape_row
from meanfield.numeric.smooth import support_of
from meanfield.numeric.stepped import normal_cdf
from meanfield.symbols import known

__all__ = ["Waves", "waves_of"]

Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]
Real = Callable[[Floats], Floats]
Far = Callable[..., NDArray[Any]]

x = known("x")

#: points of Fourier series in one phase, and in each of two
_SERIES = (1024, 96)
#: distances at which a function is looked at, and what may be left there beside waves and constants
_BEYOND, _LEFT = 60.0 * 2.0 ** np.arange(16.0), 2e-15
#: distance within which all must happen, and where its size is looked at
_NEAR, _WITHIN = 150.0, np.linspace(-200.0, 200.0, 40001)
#: of what is far out, or of so much of the size near 0, next to which it has no more digits: a harmonic that is none
_NONE, _PEAK = 1e-15, 0.1
#: shares of a period at which the amplitude is looked at
_PHASES = (0.15, 0.55)
#: nats by which a harmonic grows beyond the largest across the strip, at most
_GROWN = 3.0
#: by how much wider steps are than a Gaussian alone that leaves no wave
_WIDER = 1.15


@dataclass(frozen=True, eq=False)
class Waves:
    """What a function is far out.

    Attributes
    ----------
    frequencies : array
        \\nu > 0
    amplitudes : arrays
        a_\\nu of Re a_\\nu e^{i \\nu x} on the left and on the right.
    constants : tuple of float
        What it oscillates about.
    d : float
        Half-width of a strip about the real axis in which it is analytic, but for kinks, and no harmonic grows much beyond the largest.
    gone : float
        The deviation of a Gaussian from which on nothing is left of a harmonic, or of two that beat.
    calm : float
        The width of a step, under a Gaussian not narrower, that leaves nothing of a harmonic, or of two that beat.
    slow : function
        It less its waves, those constants beyond `reach`.
    breaks, kinks : tuple of float
        Between which 20 nodes resolve that, and those where it is not analytic.
    waving : function
        The waves.
    """

    frequencies: Floats
    amplitudes: tuple[Complex, Complex]
    constants: tuple[float, float]
    d: float
    gone: float
    calm: float
    slow: Real
    reach: float
    breaks: tuple[float, ...]
    kinks: tuple[float, ...]
    waving: Real

    def step(self, z: Floats) -> Floats:
        """From the constant on the left to that on the right, as wide as that of amplitudes."""
        left, right = self.constants
        return np.asarray(left + (right - left) * normal_cdf(z / self.calm))


@lru_cache(maxsize=256)
def waves_of(f: sp.Expr) -> Waves | None:
    """The waves of a function of x; None where it has none, or tends too slowly to what has constant amplitudes."""
    found = wave(f)
    own, sharp = (np.empty(0), np.empty(0)) if found is None or is_smooth(f) else _places(f)
    kinks = own[sharp > 0.0]
    if found is None or not (np.abs(kinks) <= _NEAR).all():
        return None
    sides = [_side(found, sign) for sign in (-1, 1)]
    (left, before), (right, beyond) = (_series(found, far, sign) for far, sign in zip(sides, (-1.0, 1.0), strict=True))
    value = mended_function(f)
    scale = max(float(np.abs(left).sum()), float(np.abs(right).sum()), _PEAK * float(np.abs(value(_WITHIN)).max()))
    if not max(before, beyond) <= _LEFT * scale or not _is_near(found):
        return None
    some = np.maximum(np.abs(left), np.abs(right)) > _NONE * scale
    orders = np.array(np.meshgrid(*[np.fft.fftfreq(n, 1.0 / n) for n in left.shape], indexing="ij"))[:, some]
    if not some.any() or (3.0 * np.abs(orders).max(axis=1) > left.shape).any():
        return None
    nu = 2.0 * math.pi * orders.T @ np.array([1.0 / float(t) for t in found.periods])
    waving = nu > _NONE * np.abs(nu).max()
    if not waving.any():
        return None
    gone = CALM / float(np.diff(np.unique(np.append(nu[waving], 0.0))).min())
    constants = _constant(left, scale), _constant(right, scale)
    waves = _waves(sides, constants, _WIDER * gone, len(found.periods))

    def constant(z: Floats) -> Floats:
        return np.where(z > 0.0, constants[1], constants[0])

    reach = support_of(lambda z: value(z) - waves(z) - constant(z), _LEFT * scale)
    if not reach < math.inf:
        return None

    def slow(z: Floats) -> Floats:
        near = np.clip(z, -reach, reach)
        return np.where(np.abs(z) > reach, constant(z), value(near) - waves(near))

    amplitudes = 2.0 * left[some][waving], 2.0 * right[some][waving]
    d = _strip(found, nu[waving], np.maximum(*map(np.abs, amplitudes)), kinked=kinks.size > 0)
    breaks = _resolving(reach, d, own)
    return Waves(nu[waving], amplitudes, constants, d, gone, _WIDER * gone, slow, reach, breaks, tuple(kinks.tolist()), waves)


def _places(f: sp.Expr) -> tuple[Floats, Floats]:
    """breaks of a function, and which of them are kinks"""
    row = shape_row(f)
    return breaks_of(row), sharp_of(row)


def _resolving(reach: float, d: float, own: Floats) -> tuple[float, ...]:
    """Ends of panels that resolve what is left of a function, with its own: in those twice as long as the strip of a wave is wide, 20 nodes
    are off by (1 + sqrt 2)^-40 = 5e-16"""
    within = reach * np.linspace(-1.0, 1.0, 2 + math.ceil(reach / d))
    beyond = max(reach, d) * 3.0 ** np.arange(1.0, 40.0)
    ends = np.unique(np.concatenate([-beyond, within, own[np.abs(own) < reach], beyond]))
    return tuple(ends[np.diff(ends, prepend=-math.inf) > _NONE * beyond[0]].tolist())


def _side(found: Wave, sign: int) -> Far:
    """a wave on one side of 0, of a place and phases"""
    return vectorised(side(found.pattern, sign), (x, *PHASES[: len(found.periods)]))


def _series(found: Wave, far: Far, sign: float) -> tuple[Complex, float]:
    """Fourier coefficients of a wave far out on that side, and by how much it changes there"""
    count = _SERIES[len(found.periods) - 1]
    phases = np.meshgrid(*[np.arange(count) * (float(t) / count) for t in found.periods], indexing="ij")
    with np.errstate(all="ignore"):
        last, *others = (np.broadcast_to(far(np.full(1, sign * b), *phases), phases[0].shape) for b in _BEYOND[::-1])
        return np.fft.fftn(last) / last.size, float(np.max([np.abs(other - last).max() for other in others]))


def _constant(series: Complex, scale: float) -> float:
    """what a wave oscillates about"""
    mean = float(series.flat[0].real)
    return mean if abs(mean) > _NONE * scale else 0.0


def _waves(sides: list[Far], constants: tuple[float, float], calm: float, phases: int) -> Real:
    """the waves of a function, in the same sines and cosines: far out it is these and constants to the last digit"""

    def waves(z: Floats) -> Floats:
        places = np.multiply.outer([-_BEYOND[-1], _BEYOND[-1]], np.ones(z.shape))
        with np.errstate(all="ignore"):
            left, right = (far(at, *[z] * phases) - a for far, at, a in zip(sides, places, constants, strict=True))
        return np.asarray(left + normal_cdf(z / calm) * (right - left))

    return waves


def _still(found: Wave) -> list[sp.Expr]:
    """the amplitude at a few phases"""
    return [found.pattern.xreplace({s: sp.Rational(share) * t for s, t in zip(PHASES, found.periods, strict=False)}) for share in _PHASES]


def _is_near(found: Wave) -> bool:
    """whether all that the amplitude does it does where that is looked for"""
    return all(abs(centre) + width <= _NEAR for g in _still(found) for centre, width in features(g))


def _strip(found: Wave, nu: Floats, sizes: Floats, kinked: bool) -> float:
    """how far the amplitude is analytic about the line, if it is, and no harmonic grows much beyond the largest"""
    grown = (_GROWN + np.log(sizes.max() / sizes)) / nu
    return min([float(grown.min()), *(radius for g in _still(found) if not kinked for radius in analytic_radii(g, CENTRES))])
