r"""How much q and ln J scatter over draws of a perceptron of finite width, to first order in depth/width.

Layer k has pre-activations that are Gaussian of variance v_k given the layers before. With m = E \phi^2, C = E \phi'^2 and
v' = \sigma_w^2 m + \sigma_b^2, the mean of \phi^2 over n units deviates from m by m \epsilon, that of \phi'^2 u^2 (u Gaussian, from the
weights behind) from C by C \epsilon_J:

    d ln v_{k+1} = s_k d ln v_k + t_k \epsilon_k,   s = d ln v'/d ln v,   t = \sigma_w^2 m/v',
    ln J^{L,l} = \sum_{k=l}^{L-1} (\psi_k d ln v_k + \epsilon_{J,k}),   \psi = d ln C/d ln v,

    n Cov(\epsilon, \epsilon) = E \phi_a^2 \phi_b^2/m^2 - 1,   n Cov(\epsilon_J, \epsilon) = E \phi_a'^2 \phi_b^2/(C m) - 1,
    n Cov(\epsilon_J, \epsilon_J) = E \phi_a'^2 \phi_b'^2/C^2 - 1  (a \neq b),   3 E \phi'^4/C^2 - 1  (the same input and gradient),

for two inputs a, b, and n Cov(ln q_a, ln q_b) has 2 c^2 more from the coordinates of the layer itself. A linear layer has 2/n, a ReLU layer
5/n in both, whence E q^2/(E q)^2 = (1 + 2/n)^L and (1 + 5/n)^L (theory of wide networks: Hanin & Nica 2020).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from meanfield.activation import Activation
from meanfield.blocks.algebra import Block, Serial
from meanfield.blocks.elementary import Activate, Linear
from meanfield.gaussian.expectation import E
from meanfield.numeric.evaluation import evaluate
from meanfield.numeric.propagation import propagate
from meanfield.symbols import known

__all__ = ["Scatter", "scatter"]

Floats = NDArray[np.float64]

x, y, q_, p_ = known("x"), known("y"), known("q"), known("p")


@dataclass(frozen=True)
class Scatter:
    """Standard deviations over draws of ln q and ln J^{L,l} at every layer."""

    log_q: Floats
    log_apjn: Floats


def scatter(
    net: Block, width: int, depth: int, *, q: float, delta: float | None, tokens: int, probes: int, parameters: Mapping[str, Any]
) -> Scatter | None:
    r"""The scatter of what `measure` averages: `probes` independent sets of `tokens` inputs with q and covariance q - delta, each input
    with one gradient of its own. None where the network is no perceptron Activate >> Linear.

    >>> import meanfield as mf
    >>> from meanfield.reference.scatter import scatter
    >>> found = scatter(mf.mlp(mf.relu), 100, 20, q=1.0, delta=None, tokens=1, probes=1, parameters={"sigma_w": 2**0.5, "sigma_b": 0})
    >>> float(found.log_apjn[0].round(6))  # sqrt(5 * 20/100)
    1.0
    """
    if not (isinstance(net, Serial) and [type(b) for b in net.blocks] == [Activate, Linear]):
        return None
    activate, linear = net.blocks
    assert isinstance(activate, Activate)
    assert isinstance(linear, Linear)
    inputs = tokens * probes
    gaps = [(None, 1), (delta, tokens - 1), (q, inputs - tokens)]  # the input itself, others of its set, those of other sets
    total = np.zeros((2, depth + 1))
    for gap, count in gaps:
        if count:
            run = propagate(net, depth, q, p=None if gap is None else q - gap, **parameters)
            total += count / inputs * _variances(activate.phi, linear, run)
    return Scatter(*np.sqrt(total / width))


def _variances(phi: Activation, linear: Linear, run: Any) -> Floats:
    """width times the covariance of ln q and of ln J between the two inputs of a run, or of its one input with itself, at every layer"""
    v, depth, same = run.q, run.depth, run._delta is None
    p = v if same else run.p
    c2 = (p / v) ** 2
    values = {name: float(value) for name, value in run.parameters.items()}
    gain, bias = (np.array([_number(e, values, depth, k) for k in range(depth)]) ** 2 for e in (linear.sigma_w, linear.sigma_b))
    if depth == 0:
        return np.zeros((2, 1))
    f, g = phi.expression**2, phi.derivative.expression**2

    def mean(e: sp.Expr) -> Floats:
        bound = e.subs({s: values[s.name] for s in e.free_symbols if s.name in values})
        return np.broadcast_to(evaluate(E(bound, q_), q=v[:-1]) if bound.has(x) else float(bound), (depth,))

    def pair(a: sp.Expr, b: sp.Expr) -> Floats:
        if same:
            return mean(a * b)
        first, second = (e.subs({s: values[s.name] for s in e.free_symbols if s.name in values}) for e in (a, b))
        if not first.has(x) or not second.has(x):
            return mean(first) * mean(second)
        return np.asarray(evaluate(E(first * second.xreplace({x: y}), q_, p_), q=v[:-1], p=p[:-1]))

    def slope(e: sp.Expr) -> Floats:
        """d E f / d ln v, by d/dv E f = E f (x^2/v - 1)/(2 v)"""
        return np.asarray((mean(e * x**2) / v[:-1] - mean(e)) / 2)

    m, big_c = mean(f), mean(g)
    ff, gf, gg = pair(f, f) / m**2 - 1, pair(g, f) / (big_c * m) - 1, pair(g, g) / big_c**2 - 1
    if same:
        gg = 3 * (gg + 1) - 1
    total = gain * m + bias
    t, s, psi = gain * m / total, gain * slope(f) / total, slope(g) / big_c
    fixed = c2[0] if not same else 1.0  # the first pre-activations are the inputs, of norm exactly q
    forward = np.zeros(depth + 1)
    for k in range(depth):
        noise = ff[k] - (2 * fixed * (slope(f)[0] / m[0]) ** 2 if k == 0 else 0.0)
        forward[k + 1] = s[k] ** 2 * forward[k] + t[k] ** 2 * noise
    backward = np.zeros(depth + 1)
    weight = 0.0
    later = 0.0
    for k in range(depth - 1, -1, -1):
        later += gg[k] + weight**2 * t[k] ** 2 * ff[k] + 2 * weight * t[k] * gf[k]
        weight = psi[k] + s[k] * weight
        backward[k] = later + weight**2 * forward[k]
    own = 2 * c2
    own[0] = 0.0
    return np.asarray([forward + own, backward])


def _number(e: sp.Expr, values: Mapping[str, float], depth: int, index: int) -> float:
    return float(e.subs({s: {**values, "L": depth, "l": index}[s.name] for s in e.free_symbols}))
