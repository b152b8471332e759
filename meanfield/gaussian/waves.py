r"""Functions that oscillate for ever, under Gaussians that are wide against a period.

Such a function is f(x) = F(x, y, z) at y = z = x, periodic in y and z and slow in x. Its harmonics are A_\nu(x) e^{i \nu x}; where
A_\nu is analytic and a smooth step \Phi((|x| - R)/w) takes it away around its features, a harmonic with \nu \neq 0 has an expectation of
order e^{-\nu^2 w^2/2}. So within |x| < R the expectation is that of f, and beyond that of the mean of F over all phases.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.codegen.cfunctions import log1p

from meanfield.gaussian.kinks import roots_of_edges
from meanfield.gaussian.periods import PHASES, Wave, period, wave
from meanfield.gaussian.pieces import NotClosed
from meanfield.gaussian.resolution import REACH, real_function, resolves, vectorised
from meanfield.gaussian.shape_rows import WINDOW
from meanfield.gaussian.singularities import Shape, shape_of, size_near
from meanfield.gaussian.stable import side
from meanfield.gaussian.wave_rules import CALM, HEAD, STEP
from meanfield.symbols import known

__all__ = ["wave_row"]

x = known("x")

Floats = NDArray[np.float64]

_SAMPLED = 5  # values of each phase at which the amplitude is looked at
_FAR = (1.0, 7.0, 1e2, 1e4, 1e8)  # distances at which the phases are, against where the amplitude is smooth
_STEPS = (0.0, 0.5, 2.0, 8.0)  # periods within which an edge that moves with the phase may come to rest
_SERIES = (1024, 96)  # points of Fourier series in one phase, and in each of two
_NONE = 1e-15  # of the largest: a harmonic that is none


def wave_row(f: sp.Expr, found: Wave, detail: float = 1.0) -> Floats | None:
    """The numbers that `wave_rules` reads of a function and how it oscillates, None where it is not known as far as that takes."""
    try:
        return _Far(f, found).row(detail)
    except (_Unknown, NotClosed, ValueError):
        return None


class _Unknown(Exception):
    """What f does far out is not resolved."""


@dataclass(frozen=True)
class _Far:
    """A wave where its amplitude is smooth."""

    f: sp.Expr
    wave: Wave

    def row(self, detail: float) -> Floats:
        far = self._amplitude
        zone = far[0] + (2 * STEP + 2 * (WINDOW + 1.5)) * self._calm
        near = shape_of(self.f) if period(self.f) is None else self._turning(zone)
        if min(-near.breaks[0], near.breaks[-1]) < zone:
            raise _Unknown
        rows = near.row(detail), self._turning((WINDOW + 1.5) * self._calm).row(detail)
        counts = [-1.0 if self._kinked else float(k) for k in self._harmonics] + [0.0] * (2 - len(self._lengths))
        lengths = [*self._lengths, *[0.0] * (2 - len(self._lengths))]
        head = (len(far), len(rows[0]), self._calm, *lengths, *counts, detail)
        assert len(head) == HEAD
        return np.concatenate((head, far, *rows))

    @cached_property
    def _lengths(self) -> tuple[float, ...]:
        return tuple(float(p) for p in self.wave.periods)

    @cached_property
    def _kinked(self) -> bool:
        """whether it has kinks without end, in one phase"""
        kinked = any(period(edge) is not None and roots for edge, roots in roots_of_edges(self.f).items())
        if kinked and len(self._lengths) > 1:
            raise _Unknown
        return kinked

    @cached_property
    def _beyond(self) -> float:
        """where kinks end that do not come again"""
        lone = {edge: roots for edge, roots in roots_of_edges(self.f).items() if period(edge) is None}
        beyond = max((abs(r) for roots in lone.values() for r in roots), default=0.0)
        for edge in lone:
            moving = wave(edge)
            if moving is not None:
                moves = (beyond + step * max(self._lengths) for step in _STEPS)
                rest = next((r for r in moves if self._rests(moving, -1, r) and self._rests(moving, 1, r)), None)
                if rest is None:
                    raise _Unknown
                beyond = rest
        return beyond

    def _rests(self, edge: Wave, sign: int, beyond: float) -> bool:
        """whether an edge has one sign at all phases, far out"""
        grid = [np.linspace(0.0, float(p), 65) for p in edge.periods]
        value = vectorised(side(edge.pattern, sign), (x, *PHASES[: len(grid)]))
        with np.errstate(all="ignore"):
            signs = {s for d in _FAR for s in np.sign(value(np.full(1, sign * (beyond + d)), *np.meshgrid(*grid))).ravel()}
        return len(signs) == 1

    def _at(self, *phases: float) -> sp.Expr:
        return self.wave.pattern.xreplace(dict(zip(PHASES, map(sp.Float, phases), strict=False)))

    @cached_property
    def _amplitude(self) -> tuple[float, ...]:
        """ends of panels, outward, which resolve the amplitude on both sides, long against a shift by nu w^2 into the complex plane"""
        offsets = [[0.137 * t + t * i / _SAMPLED for i in range(_SAMPLED)] for t in self._lengths]
        values = [real_function(self._at(*phases)) for phases in itertools.product(*offsets)]
        functions = [(value, size_near(value)) for value in values]

        def smooth(a: float, b: float) -> bool:
            return all(resolves(f, size, sign * a, sign * b) for f, size in functions for sign in (-1.0, 1.0))

        shortest = WINDOW * self._calm
        ends, length = [self._beyond], shortest
        while ends[-1] < REACH:
            length = max(min(3.0 * length, REACH - ends[-1]), shortest)
            while length > shortest and not smooth(ends[-1], ends[-1] + length):
                length = max(length / 2, shortest)
            if smooth(ends[-1], ends[-1] + length):
                ends.append(ends[-1] + length)
            elif ends[-1] > 300.0 * shortest:
                raise _Unknown
            else:
                ends, length = [ends[-1] + shortest / 4], shortest / 3
        return tuple(ends)

    def _places(self) -> list[float]:
        return [sign * (self._beyond + d * max(self._lengths)) for sign in (-1, 1) for d in _FAR]

    @cached_property
    def _series(self) -> tuple[Floats, Floats]:
        """moduli of the largest Fourier coefficients at any place, against the largest of all there, and the frequencies of them"""
        count = _SERIES[len(self._lengths) - 1]
        grid = np.meshgrid(*[np.arange(count) * (t / count) for t in self._lengths], indexing="ij")
        moduli = np.zeros(grid[0].shape)
        for place in self._places():
            value = vectorised(side(self.wave.pattern, 1 if place > 0 else -1), (x, *PHASES[: len(grid)]))
            with np.errstate(all="ignore"):
                found = np.abs(np.fft.fftn(value(np.full(1, place), *grid)))
            if not np.isfinite(found).all():
                raise _Unknown
            moduli = np.maximum(moduli, found / max(float(found.max()), 1e-300))
        axes = [np.rint(np.fft.fftfreq(count) * count) for _ in self._lengths]
        return moduli, np.array(np.meshgrid(*axes, indexing="ij"))

    @cached_property
    def _harmonics(self) -> tuple[int, ...]:
        """how many there are in each phase, of a wave without kinks"""
        if self._kinked:
            return (-1,)
        moduli, orders = self._series
        counts = tuple(int(np.abs(k[moduli > _NONE]).max()) for k in orders)
        if any(3 * k > moduli.shape[0] for k in counts):
            raise _Unknown
        return counts

    @cached_property
    def _calm(self) -> float:
        """the width of a smooth step under which every harmonic of f and of products of two such functions is lost"""
        frequencies = [2 * math.pi / t for t in self._lengths]
        if len(frequencies) == 1:
            return CALM / frequencies[0]
        moduli, orders = self._series
        nu = sum(k[moduli > _NONE] * w for k, w in zip(orders, frequencies, strict=True))
        apart = np.abs(np.subtract.outer(nu, nu))
        return CALM / float(apart[apart > 1e-9 * max(frequencies)].min())

    def _turning(self, reach: float) -> Shape:
        """what the wave is as a function of its phases, far out, as far as that from 0"""
        start, length = self._amplitude[0], self._lengths[0]
        breaks: dict[float, tuple[int, float]] = {}
        shapes = [shape_of(h) for h in self._lines(start)]
        if len(self._lengths) > 1 and shapes:
            least = [min([t, *(np.diff(s.breaks).min() for s in shapes if math.isclose(s.period, t))]) for t in self._lengths]
            count = math.ceil(length * sum(1.0 / h for h in least))
            breaks = {length * i / count: (0, 0.0) for i in range(count)}
        elif len(self._lengths) == 1:
            for b, sharp, jump in {ends for s in shapes for ends in zip(s.breaks, s.sharp, s.jumps, strict=True)}:
                if 0.0 <= b < length * (1 - 1e-12):
                    place = next((a for a in breaks if abs(a - b) < 1e-9 * length), b)
                    known_sharp, known_jump = breaks.get(place, (0, 0.0))
                    breaks[place] = (max(sharp, known_sharp), max(abs(jump), known_jump))
        one = sorted(breaks.items()) or [(length * i / 4, (0, 0.0)) for i in range(4)]
        turns = math.ceil(reach / length) + 2
        every = [(b + n * length, *kind) for n in range(-turns, turns) for b, kind in one]
        places, sharps, jumps = zip(*every, strict=True)
        still = replace(shape_of(self.f), smooth=False, period=0.0, radius=0.0, voids=())
        return replace(still, d=float(np.diff(places).min()) / 2, breaks=places, sharp=sharps, jumps=jumps)

    def _lines(self, start: float) -> list[sp.Expr]:
        """the wave as a function of each phase, at fixed other phases and distances; as a function of x"""
        found = []
        for sign, d in itertools.product((-1, 1), _FAR):
            here = _still(side(self.wave.pattern, sign), sp.Float(sign * (start + d * max(self._lengths))))
            for i, t in enumerate(self._lengths):
                for other in [0.31 * t] if len(self._lengths) == 1 else [0.31 * u for u in self._lengths]:
                    put = {s: sp.Float(other) for s in PHASES if s != PHASES[i]}
                    h = here.xreplace(put).xreplace({PHASES[i]: x})
                    if period(h) is not None:
                        found.append(h)
        return list(dict.fromkeys(found))


def _still(e: sp.Basic, at: sp.Float) -> sp.Basic:
    """a wave at one distance, its numbers as digits: those of log1p(e^-100000), to sympy the logarithm of a rational, have no end, and
    what 1 - erf(40 sqrt(2)) is to it takes thousands"""
    if not e.has(x):
        return e
    if e == x:
        return at
    parts = [_still(a, at) for a in e.args]
    still = sp.sympify(mp.log1p(sp.Float(parts[0]))) if isinstance(e, log1p) and parts[0].is_number else e.func(*parts)
    return still.evalf() if isinstance(still, sp.Expr) and not still.free_symbols else still
