r"""First-order fluctuations of ln q and ln J in a network of finite width that treats each input by itself.

Every random matrix makes fresh Gaussian coordinates, of a variance that is known given what came before. Fluctuations come from averages
over finitely many of them, each a source of its own, and are carried on by linear response: d, the vector of derivatives of ln v or ln q
with respect to all sources. With m = E \phi^2, C = E \phi'^2 at the variance v, over n units,

    Linear      d ln v' = (\sigma_w^2 q/v') d ln q,           backward J = \sigma_w^2 J',
    Activate    d ln m = (d ln m/d ln v) d ln v + \epsilon,   backward d ln J = d ln J' + (d ln C/d ln v) d ln v + \epsilon_J,
    norm        q = 1,                                        backward d ln J = d ln J' - d ln q,
    s x + b h   d q' = A d ln q + B (d ln v + \epsilon_2) + 2 \sqrt{A B} \xi with A = s^2 q, B = b^2 v, backward the same in J.

For two inputs a, b of correlation c, with gradients of their own, n times the covariances are

    \epsilon_2: 2 c^2,   \xi: c_x c_h,   \epsilon: E \phi_a^2 \phi_b^2/m^2 - 1,   \epsilon, \epsilon_J: E \phi_a'^2 \phi_b^2/(C m) - 1,
    \epsilon_J: E \phi_a'^2 \phi_b'^2/C^2 - 1  (a \neq b),   3 E \phi'^4/C^2 - 1  (the same input and gradient),

and in the gradient 2 for \epsilon_2 and 1 for \xi, of the same input alone. At an input of exactly given norm, 2 c^2 times the slopes in
ln v of the two averages is taken off. Matrices used forward and backward correlate in the next order only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.blocks.algebra import Block, Repeat, Residual, Serial
from meanfield.blocks.elementary import Activate, Identity, Linear, Scale
from meanfield.blocks.norms import LayerNorm, RMSNorm
from meanfield.blocks.widths import widths
from meanfield.reference.averages import Averages

__all__ = ["Unpredicted", "variances"]

Floats = NDArray[np.float64]


class Unpredicted(Exception):
    """A network whose fluctuations are not of this kind."""


@dataclass(frozen=True)
class _Forward:
    """The signal somewhere: its variance; covariances with itself and with the other inputs; derivatives of ln of the variance."""

    q: float
    p: Floats
    d: Floats
    #: Gaussian coordinates of that variance, of which averages have yet to be taken
    fresh: bool = False
    #: of exactly that norm
    exact: bool = False
    #: behind an activation
    bent: bool = False


@dataclass(frozen=True)
class _Backward:
    J: float
    d: Floats
    fresh: bool = False


Back = Callable[[_Backward], _Backward]


@dataclass
class _Sources:
    """Covariances of the sources, row by row for the other inputs (the input itself first), times the width."""

    size: int
    rows: list[Floats] = field(default_factory=list)
    crossed: list[tuple[int, int, Floats]] = field(default_factory=list)

    def new(self, covariance: Floats) -> Floats:
        """The derivative of a new source with respect to all."""
        self.rows.append(covariance)
        unit = np.zeros(self.size)
        unit[len(self.rows) - 1 : len(self.rows)] = 1.0
        return unit

    def covariance(self, d: Floats) -> Floats:
        """Of a quantity with these derivatives at the input with itself and at two inputs."""
        total = (d**2) @ np.array(self.rows)
        for first, second, value in self.crossed:
            total = total + 2 * d[first] * d[second] * value
        return np.asarray(total)


@dataclass
class _March:
    """One pass through a network. `moments` gives those of an activation at a variance and covariances."""

    values: Mapping[str, float]
    width: int
    hidden: int
    sources: _Sources
    moments: Averages
    others: int

    def number(self, e: sp.Expr) -> float:
        return float(e.subs({s: self.values[s.name] for s in e.free_symbols}))

    def forward(self, block: Block, s: _Forward, before: int, after: int) -> tuple[_Forward, Back]:
        if isinstance(block, Serial):
            backs = []
            for part, inner, outer in widths(block.blocks, before, self.hidden, after):
                s, back = self.forward(part, s, inner, outer)
                backs.append(back)
            return s, _chained(backs)
        if isinstance(block, Repeat):
            return self.forward(Serial((block.block,) * block.times), s, before, after)
        if isinstance(block, Residual):
            return self.residual(block, s)
        if isinstance(block, Linear):
            return self.linear(block, s, before, after)
        if isinstance(block, Activate):
            return self.activate(block, s, before)
        if isinstance(block, (LayerNorm, RMSNorm)) and not s.bent:
            d, q = self.realised(s, before), s.q
            return _Forward(1.0, s.p / q, np.zeros_like(d), exact=True), lambda g: replace(g, J=g.J / q, d=g.d - d)
        if isinstance(block, (Scale, Identity)):
            factor = self.number(block.factor) ** 2 if isinstance(block, Scale) else 1.0
            return replace(s, q=factor * s.q, p=factor * s.p), lambda g: replace(g, J=factor * g.J)
        raise Unpredicted

    def realised(self, s: _Forward, units: int) -> Floats:
        """derivatives of ln of the average over the units, not of its mean"""
        if not s.fresh or s.exact:
            return s.d
        return s.d + self.sources.new(2 * (s.p / s.q) ** 2 * self.width / units)

    def gradient(self, g: _Backward, units: int) -> Floats:
        return g.d + self.sources.new(self.alone(2.0, units)) if g.fresh else g.d

    def alone(self, variance: float, units: int) -> Floats:
        """of the input and its own gradient; those of other inputs are independent"""
        return np.array([variance * self.width / units, *np.zeros(self.others)])

    def linear(self, block: Linear, s: _Forward, before: int, after: int) -> tuple[_Forward, Back]:
        gain, bias = self.number(block.sigma_w) ** 2, self.number(block.sigma_b) ** 2
        v = gain * s.q + bias
        out = _Forward(v, gain * s.p + bias, gain * s.q / v * self.realised(s, before), fresh=True)

        def back(g: _Backward) -> _Backward:
            return _Backward(gain * g.J, self.gradient(g, after), fresh=True)

        return out, back

    def activate(self, block: Activate, s: _Forward, units: int) -> tuple[_Forward, Back]:
        if not s.fresh:
            raise Unpredicted
        a = self.moments(block.phi, s.q, s.p)
        shared = 2 * (s.p / s.q) ** 2 if s.exact else np.zeros_like(s.p)
        share = self.width / units
        f = self.sources.new((a.ff - shared * a.slope**2) * share)
        g_ = self.sources.new((a.gg - shared * a.slope_J**2) * share)
        count = len(self.sources.rows)
        self.sources.crossed.append((count - 2, count - 1, (a.fg - shared * a.slope * a.slope_J) * share))

        def back(g: _Backward) -> _Backward:
            if not g.fresh:
                raise Unpredicted
            return _Backward(a.C * g.J, g.d + a.slope_J * s.d + g_)

        return _Forward(a.m, a.kernel, a.slope * s.d + f, bent=True), back

    def residual(self, block: Residual, s: _Forward) -> tuple[_Forward, Back]:
        if s.bent:
            raise Unpredicted
        skip, scale, n = self.number(block.skip) ** 2, self.number(block.scale) ** 2, self.width
        d = self.realised(s, n)
        h, inner = self.forward(block.branch, replace(s, d=d, fresh=False), n, n)
        if not h.fresh:
            raise Unpredicted
        crossed = self.sources.new(s.p / s.q * h.p / h.q)
        total = _combined((skip * s.q, d), (scale * h.q, self.realised(h, n)), crossed)

        def back(g: _Backward) -> _Backward:
            top = self.gradient(g, n)
            r = inner(_Backward(g.J, top))
            return _Backward(*_combined((skip * g.J, top), (scale * r.J, self.gradient(r, n)), self.sources.new(self.alone(1.0, n))))

        return _Forward(total[0], skip * s.p + scale * h.p, total[1]), back


def _combined(first: tuple[float, Floats], second: tuple[float, Floats], crossed: Floats) -> tuple[float, Floats]:
    """the second moment of a sum and the derivatives of its logarithm"""
    (a, d_a), (b, d_b) = first, second
    return a + b, (a * d_a + b * d_b + 2 * (a * b) ** 0.5 * crossed) / (a + b)


def _chained(backs: Sequence[Back]) -> Back:
    def back(g: _Backward) -> _Backward:
        for step in reversed(backs):
            g = step(g)
        return g

    return back


def variances(net: Block, width: int, hidden: int, depth: int, q: float, p: Sequence[float], values: Mapping[str, float]) -> Floats:
    """`width` times the covariances of ln q and ln J^{L,l} (first axis) at the layers (second) between an input and, on the third axis,
    itself and other inputs of covariances p. Raises Unpredicted for a network of other blocks, or where an activation sees a sum."""
    moments = Averages(values)
    count = len(_run(net, width, hidden, depth, q, p, values, 0, moments)[0].rows)
    sources, forward, backward = _run(net, width, hidden, depth, q, p, values, count, moments)
    rows = []
    for s in forward:
        own = 2 * (s.p / s.q) ** 2 if s.fresh and not s.exact else 0.0
        rows.append(sources.covariance(s.d) + own)
    return np.array([rows, [sources.covariance(d) for d in backward]])


def _run(
    net: Block, width: int, hidden: int, depth: int, q: float, p: Sequence[float], values: Mapping[str, float], size: int, moments: Averages
) -> tuple[_Sources, list[_Forward], list[Floats]]:
    sources = _Sources(size)
    state = _Forward(q, np.array([q, *p]), np.zeros(size), fresh=True, exact=True)
    states, backs = [state], []
    march = _March({}, width, hidden, sources, moments, len(p))
    for index in range(depth):
        march.values = {**values, "L": float(depth), "l": float(index)}
        state, back = march.forward(net, state, width, width)
        states.append(state)
        backs.append(back)
    if state.bent:
        raise Unpredicted
    g = _Backward(1.0, np.zeros(size))
    gradients = [g.d]
    for back in reversed(backs):
        g = back(g)
        g = _Backward(g.J, march.gradient(g, width))
        gradients.append(g.d)
    return sources, states, gradients[::-1]
