r"""First-order fluctuations of ln q and ln J in a network of finite width that treats each input by itself.

Every random matrix makes fresh Gaussian coordinates, of a variance that is known given what came before. Fluctuations come from averages
over finitely many of them (`meanfield.reference.sources`), and are carried on by linear response: d, the vector of derivatives of ln v with
respect to all sources. With v the variance of coordinates, q their second moment, m = E \phi^2, C = E \phi'^2,

    second moment  d ln q = d ln v + \epsilon_2,
    Linear         d ln v' = (\sigma_w^2 q/v') d ln q,           backward J = \sigma_w^2 J',
    Activate       d ln m = (d ln m/d ln v) d ln v + \epsilon,   backward d ln J = d ln J' + (d ln C/d ln v) d ln v + \epsilon_J,
    norm           q = 1, known,                                 backward d ln J = d ln J' - d ln q,
    s x + b h      d v' = A d ln v_x + B d ln v_h with A = s^2 v_x, B = b^2 v_h,
                   backward d J = A d ln J' + B (d ln J_h + \epsilon_2) + 2 \sqrt{A B} \xi with A = s^2 J', B = b^2 J_h.

\epsilon_2, \epsilon and \epsilon_J are averages of x^2, \phi^2 and \phi'^2 g^2. \xi, an average of the product of two gradients, and
\epsilon_2 of a gradient belong to one input alone, as long as gradients of different inputs are independent. Matrices used forward and
backward correlate in the next order only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.blocks.algebra import Block, Repeat, Residual, Serial, backward
from meanfield.blocks.elementary import Activate, Identity, Linear, Scale
from meanfield.blocks.norms import LayerNorm, RMSNorm
from meanfield.blocks.widths import widths
from meanfield.reference.averages import Averages
from meanfield.reference.sources import Place, Sources

__all__ = ["Unpredicted", "variances"]

Floats = NDArray[np.float64]


class Unpredicted(Exception):
    """A network whose fluctuations are not of this kind."""


@dataclass(frozen=True)
class _Forward:
    """The signal somewhere: Gaussian coordinates at a place, or None behind an activation; derivatives of ln of their variance."""

    p: Floats
    d: Floats
    place: Place | None

    @property
    def q(self) -> float:
        return float(self.p[0])


@dataclass(frozen=True)
class _Backward:
    """A gradient: its second moment, derivatives of its logarithm; whether its coordinates are Gaussian and an average of them has yet to
    be taken; what of it is proportional to the averages of phi'^2 at the same coordinates."""

    J: float
    d: Floats
    mix: Floats
    fresh: bool = False


Back = Callable[[_Backward], _Backward]


@dataclass
class _March:
    """One pass through a network."""

    values: Mapping[str, float]
    width: int
    hidden: int
    sources: Sources
    moments: Averages
    clock: Iterator[int] = field(default_factory=itertools.count)

    def number(self, e: sp.Expr) -> float:
        return float(e.subs({s: self.values[s.name] for s in e.free_symbols}))

    def forward(self, block: Block, s: _Forward, before: int, after: int) -> tuple[_Forward, Back]:
        if isinstance(block, Serial):
            backs = []
            for part, inner, outer in widths(block.blocks, before, self.hidden, after):
                s, back = self.forward(part, s, inner, outer)
                backs.append(back)
            return s, backward(backs)
        if isinstance(block, Repeat):
            return self.forward(Serial((block.block,) * block.times), s, before, after)
        if isinstance(block, Residual):
            return self.residual(block, s)
        if isinstance(block, Linear):
            return self.linear(block, s, after)
        if isinstance(block, Activate):
            return self.activate(block, s)
        if isinstance(block, (LayerNorm, RMSNorm)) and s.place is not None:
            return self.norm(s, s.place)
        if isinstance(block, (Scale, Identity)):
            return self.scale(s, self.number(block.factor) if isinstance(block, Scale) else 1.0)
        raise Unpredicted

    def realised(self, s: _Forward) -> Floats:
        """derivatives of ln of the second moment, not of its expectation"""
        return s.d if s.place is None else s.d + self.sources.square(s.place)

    def taken(self, g: _Backward, units: int) -> Floats:
        return g.d + self.sources.gradient(2.0, units, np.zeros_like(g.d), g.d) if g.fresh else g.d

    def begun(self, p: Floats, units: int, pinned: bool = False) -> Place:
        """a signal of its own"""
        time = next(self.clock)
        return Place(time, time, 1.0, p, units, time if pinned else -1, p if pinned else None)

    def moved(self, place: Place, p: Floats, factor: float, pinned: bool = False) -> Place:
        """the same signal later on, `factor` times what it was and more"""
        time, skip = next(self.clock), factor * place.skip
        return Place(place.stream, time, skip, p, place.units, time if pinned else place.pin, p / skip**2 if pinned else place.pinned)

    def norm(self, s: _Forward, place: Place) -> tuple[_Forward, Back]:
        d, q = self.realised(s), s.q
        after = _Forward(s.p / q, np.zeros_like(d), self.moved(place, s.p / q, q**-0.5, pinned=True))
        return after, lambda g: replace(g, J=g.J / q, d=g.d - d)

    def scale(self, s: _Forward, factor: float) -> tuple[_Forward, Back]:
        if factor == 0:
            raise Unpredicted
        p = factor**2 * s.p
        place = None if s.place is None else self.moved(s.place, p, factor)
        return _Forward(p, s.d, place), lambda g: replace(g, J=factor**2 * g.J)

    def linear(self, block: Linear, s: _Forward, after: int) -> tuple[_Forward, Back]:
        gain, bias = self.number(block.sigma_w) ** 2, self.number(block.sigma_b) ** 2
        p = gain * s.p + bias
        out = _Forward(p, gain * s.q / p[0] * self.realised(s), self.begun(p, after))
        return out, lambda g: _Backward(gain * g.J, self.taken(g, after), np.zeros_like(g.d), fresh=True)

    def activate(self, block: Activate, s: _Forward) -> tuple[_Forward, Back]:
        if s.place is None:
            raise Unpredicted
        a, site = self.moments(block.phi, s.q, s.p), next(self.clock)
        f = self.sources.average(s.place, a.f_hermite, site, (a.ff,))
        slopes = self.sources.average(s.place, a.g_hermite, site, (a.fg, a.gg))

        def back(g: _Backward) -> _Backward:
            if not g.fresh:
                raise Unpredicted
            return _Backward(a.C * g.J, g.d + a.slope_J * s.d + slopes, slopes)

        return _Forward(a.kernel, a.slope * s.d + f, None), back

    def residual(self, block: Residual, s: _Forward) -> tuple[_Forward, Back]:
        skip, scale, n = self.number(block.skip), self.number(block.scale), self.width
        h, inner = self.forward(block.branch, s, n, n)
        if s.place is None or h.place is None or skip == 0:
            raise Unpredicted
        p = skip**2 * s.p + scale**2 * h.p
        share = skip**2 * s.q / p[0]

        def back(g: _Backward) -> _Backward:
            top = replace(g, d=self.taken(g, n), fresh=False)
            r = inner(top)
            a, b = skip**2 * g.J, scale**2 * r.J
            crossed = self.sources.gradient(1.0, n, top.mix, r.mix)
            d = a * top.d + b * self.taken(r, n) + 2 * (a * b) ** 0.5 * crossed
            return _Backward(a + b, d / (a + b), (a * top.mix + b * r.mix) / (a + b))

        return _Forward(p, share * s.d + (1 - share) * h.d, self.moved(s.place, p, skip)), back


def variances(net: Block, width: int, hidden: int, depth: int, q: float, p: Sequence[float], values: Mapping[str, float]) -> Floats:
    """`width` times the covariances of ln q and ln J^{L,l} (first axis) at the layers (second) between an input and, on the third axis,
    itself and other inputs of covariances p. Raises Unpredicted for a network of other blocks."""
    moments, start = Averages(values), np.array([q, *p])
    counted, *_ = _run(net, width, hidden, depth, start, values, 0, moments)
    sources, forward, backward = _run(net, width, hidden, depth, start, values, counted.count, moments)
    return sources.covariances([*forward, *backward], len(start)).reshape(2, depth + 1, len(start))


def _run(
    net: Block, width: int, hidden: int, depth: int, start: Floats, values: Mapping[str, float], size: int, moments: Averages
) -> tuple[Sources, list[Floats], list[Floats]]:
    """the sources, and derivatives of ln q and ln J at every layer; with size 0 to count the sources"""
    march = _March({}, width, hidden, Sources(size, width), moments)
    state = _Forward(start, np.zeros(size), march.begun(start, width, pinned=True))
    states, backs = [march.realised(state)], []
    for index in range(depth):
        march.values = {**values, "L": float(depth), "l": float(index)}
        state, back = march.forward(net, state, width, width)
        states.append(march.realised(state))
        backs.append(back)
    if state.place is None:
        raise Unpredicted
    g = _Backward(1.0, np.zeros(size), np.zeros(size))
    gradients = [g.d]
    for back in reversed(backs):
        g = back(g)
        g = replace(g, d=march.taken(g, width), fresh=False)
        gradients.append(g.d)
    return march.sources, states, gradients[::-1]
