r"""The one table of activations, blocks, architectures and points that feeds the tests, and the oracles they are held against.

Nothing here uses the library's own mathematics: an activation is typed again as two analytic pieces, its kernel as the formula of the
literature, and everything else comes from quadrature (flint balls to 30 digits, Gauss-Legendre panels in float64) of these pieces.

Rotated coordinates, m = (u + v)/2 and w = (u - v)/2 independent of variances (q + p)/2 and (q - p)/2, give

    E f(u) f(v) = E f(m + w) f(m - w),    E f(u)^2 - E f(u) f(v) = E (f(m + w) - f(m - w))^2 / 2,

a sum of non-negative terms; panels are split where u or v is 0, which holds every kink and every singularity near the real line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import flint
import mpmath as mp
import numpy as np
import sympy as sp
from numpy.polynomial.legendre import leggauss
from scipy import special

import meanfield as mf

Piece = Callable[[Any, Any], Any]

# ---------------------------------------------------------------------------------------------------------------------------------
# functions the pieces are written in, for numpy arrays and for flint balls


class Real:
    """numpy, float64"""

    tanh, exp, sin, cos, erf = np.tanh, np.exp, np.sin, np.cos, special.erf

    @staticmethod
    def sqrt(value: float) -> float:
        return math.sqrt(value)

    pi = math.pi

    @staticmethod
    def const(numerator: int, denominator: int = 1) -> float:
        return numerator / denominator


class Ball:
    """flint, complex balls of the current precision"""

    tanh = staticmethod(lambda z: z.tanh())
    exp = staticmethod(lambda z: z.exp())
    sin = staticmethod(lambda z: z.sin())
    cos = staticmethod(lambda z: z.cos())
    erf = staticmethod(lambda z: z.erf())

    @staticmethod
    def sqrt(value: Any) -> flint.acb:
        return flint.acb(value).sqrt()

    @property
    def pi(self) -> flint.acb:
        return flint.acb.pi()

    @staticmethod
    def const(numerator: int, denominator: int = 1) -> flint.acb:
        return flint.acb(numerator) / denominator


BALL = Ball()

# ---------------------------------------------------------------------------------------------------------------------------------
# activations


@dataclass(frozen=True)
class Phi:
    """An activation of the library beside its own definition: f and f' as (piece for x > 0, piece for x < 0)."""

    name: str
    activation: Any
    f: tuple[Piece, Piece]
    df: tuple[Piece, Piece] | None
    values: dict[str, Any] = field(default_factory=dict)
    #: the literature's formulas, mpmath: mean(q), kernel(q1, p, q2), slope kernel(q1, p, q2)
    mean: Callable[[mp.mpf], mp.mpf] | None = None
    kernel: Callable[[mp.mpf, mp.mpf, mp.mpf], mp.mpf] | None = None
    slope: Callable[[mp.mpf, mp.mpf, mp.mpf], mp.mpf] | None = None
    #: f(u) - f(v) without cancellation from u >= v and h = u - v, numpy
    difference: Callable[[Any, Any, Any], Any] | None = None

    def __repr__(self) -> str:
        return self.name


def both(piece: Piece) -> tuple[Piece, Piece]:
    return piece, piece


def zero(m: Any, x: Any) -> Any:
    return 0 * x


def one(m: Any, x: Any) -> Any:
    return 1 + 0 * x


def line(m: Any, x: Any) -> Any:
    return x


def _theta(q1: mp.mpf, p: mp.mpf, q2: mp.mpf) -> mp.mpf:
    return mp.atan2(mp.sqrt(q1 * q2 - p * p), p)


def arc_cosine(order: int, q1: mp.mpf, p: mp.mpf, q2: mp.mpf) -> mp.mpf:
    """E max(u,0)^k max(v,0)^k (Cho & Saul 2009, eqs. 3-6 and their recursion at k = 3), 1/2 of their normalisation"""
    t = _theta(q1, p, q2)
    c, s = mp.cos(t), mp.sin(t)
    angular = (
        mp.pi - t,
        s + (mp.pi - t) * c,
        3 * s * c + (mp.pi - t) * (1 + 2 * c * c),
        s * (4 + 11 * c * c) + (mp.pi - t) * (9 * c + 6 * c**3),
    )[order]
    return (q1 * q2) ** (mp.mpf(order) / 2) * angular / (2 * mp.pi)


def erf_kernel(a: mp.mpf, q1: mp.mpf, p: mp.mpf, q2: mp.mpf) -> mp.mpf:
    """Williams 1997"""
    return 2 / mp.pi * mp.asin(2 * a * a * p / mp.sqrt((1 + 2 * a * a * q1) * (1 + 2 * a * a * q2)))


def erf_slope(a: mp.mpf, q1: mp.mpf, p: mp.mpf, q2: mp.mpf) -> mp.mpf:
    return 4 * a * a / mp.pi / mp.sqrt((1 + 2 * a * a * q1) * (1 + 2 * a * a * q2) - 4 * a**4 * p * p)


def _erf_slope_mean(a: mp.mpf, q: mp.mpf) -> mp.mpf:
    return 2 * a / mp.sqrt(mp.pi * (1 + 2 * a * a * q))


def gelu_kernel(q1: mp.mpf, p: mp.mpf, q2: mp.mpf) -> mp.mpf:
    """Stein's identity twice; Tsuchida et al. 2021 for q1 = q2"""
    r2 = (1 + q1) * (1 + q2) - p * p
    arc = mp.mpf(1) / 4 + mp.asin(p / mp.sqrt((1 + q1) * (1 + q2))) / (2 * mp.pi)
    first = q1 * (q2 * (1 + q1) - p * p) / (1 + q1)
    return p * arc + (first + p * p / (1 + q2)) / (2 * mp.pi * mp.sqrt(r2))


def gelu_slope(q1: mp.mpf, p: mp.mpf, q2: mp.mpf) -> mp.mpf:
    r2 = (1 + q1) * (1 + q2) - p * p
    arc = mp.mpf(1) / 4 + mp.asin(p / mp.sqrt((1 + q1) * (1 + q2))) / (2 * mp.pi)
    return arc + p / (2 * mp.pi * mp.sqrt(r2)) * (1 / (1 + q1) + 1 / (1 + q2) + 1 / r2)


def leaky_kernel(q1: mp.mpf, p: mp.mpf, q2: mp.mpf) -> mp.mpf:
    s = mp.mpf(1) / 10
    return (1 - s) ** 2 * arc_cosine(1, q1, p, q2) + s * p


def leaky_slope(q1: mp.mpf, p: mp.mpf, q2: mp.mpf) -> mp.mpf:
    s = mp.mpf(1) / 10
    return (1 - s) ** 2 * arc_cosine(0, q1, p, q2) + s


def _flat(q: mp.mpf) -> mp.mpf:
    return mp.mpf(0)


A = mp.mpf(3) / 2  # slope of erf(a x) in the table; exact in binary


def _sigmoid(m: Any, x: Any) -> Any:
    return (1 + m.tanh(x / 2)) / 2


def _gauss(m: Any, x: Any) -> Any:
    return m.exp(-x * x / 2) / m.sqrt(2 * m.pi)


def _normal(m: Any, x: Any) -> Any:
    return (1 + m.erf(x / m.sqrt(2))) / 2


def _bump(m: Any, x: Any) -> Any:
    return 2 * m.const(3, 2) / m.sqrt(m.pi) * m.exp(-m.const(9, 4) * x * x)


_alpha = sp.Symbol("alpha", positive=True)

#: activations whose moments have closed forms
CLOSED = (
    Phi("erf(ax)", mf.Activation(sp.erf(_alpha * mf.x)), both(lambda m, x: m.erf(m.const(3, 2) * x)), both(_bump), {"alpha": 1.5},
        _flat, lambda a, b, c: erf_kernel(A, a, b, c), lambda a, b, c: erf_slope(A, a, b, c)),
    Phi("relu", mf.relu, (line, zero), (one, zero), {},
        lambda q: mp.sqrt(q / (2 * mp.pi)), lambda a, b, c: arc_cosine(1, a, b, c), lambda a, b, c: arc_cosine(0, a, b, c)),
    Phi("identity", mf.activations["identity"], both(line), both(one), {},
        _flat, lambda a, b, c: b, lambda a, b, c: mp.mpf(1)),
    Phi("abs", mf.activations["abs"], (line, lambda m, x: -x), (one, lambda m, x: -1 + 0 * x), {},
        lambda q: mp.sqrt(2 * q / mp.pi), lambda a, b, c: 2 * arc_cosine(1, a, b, c) + 2 * arc_cosine(1, a, -b, c),
        lambda a, b, c: 2 / mp.pi * mp.asin(b / mp.sqrt(a * c))),
    Phi("relu^2", mf.activations["relu_squared"], (lambda m, x: x * x, zero), (lambda m, x: 2 * x, zero), {},
        lambda q: q / 2, lambda a, b, c: arc_cosine(2, a, b, c), lambda a, b, c: 4 * arc_cosine(1, a, b, c)),
    Phi("relu^3", mf.Activation(sp.Max(mf.x, 0) ** 3), (lambda m, x: x * x * x, zero), (lambda m, x: 3 * x * x, zero), {},
        lambda q: mp.sqrt(2 / mp.pi) * q ** mp.mpf(1.5), lambda a, b, c: arc_cosine(3, a, b, c),
        lambda a, b, c: 9 * arc_cosine(2, a, b, c)),
    Phi("erf(ax)+x", mf.Activation(sp.erf(_alpha * mf.x) + mf.x), both(lambda m, x: m.erf(m.const(3, 2) * x) + x),
        both(lambda m, x: _bump(m, x) + 1), {"alpha": 1.5}, _flat,
        lambda a, b, c: erf_kernel(A, a, b, c) + b * (1 + _erf_slope_mean(A, a) + _erf_slope_mean(A, c)),
        lambda a, b, c: erf_slope(A, a, b, c) + 1 + _erf_slope_mean(A, a) + _erf_slope_mean(A, c)),
    Phi("leaky_relu", mf.leaky_relu(0.1), (line, lambda m, x: m.const(1, 10) * x), (one, lambda m, x: m.const(1, 10) + 0 * x), {},
        lambda q: mp.mpf(9) / 10 * mp.sqrt(q / (2 * mp.pi)), leaky_kernel, leaky_slope),
    Phi("gelu", mf.gelu, both(lambda m, x: x * _normal(m, x)), both(lambda m, x: _normal(m, x) + x * _gauss(m, x)), {},
        lambda q: q / mp.sqrt(2 * mp.pi * (1 + q)), gelu_kernel, gelu_slope),
    Phi("sin", mf.activations["sin"], both(lambda m, x: m.sin(x)), both(lambda m, x: m.cos(x)), {},
        _flat, lambda a, b, c: mp.exp(-(a + c) / 2) * mp.sinh(b), lambda a, b, c: mp.exp(-(a + c) / 2) * mp.cosh(b)),
    Phi("cos", mf.activations["cos"], both(lambda m, x: m.cos(x)), both(lambda m, x: -m.sin(x)), {},
        lambda q: mp.exp(-q / 2), lambda a, b, c: mp.exp(-(a + c) / 2) * mp.cosh(b), lambda a, b, c: mp.exp(-(a + c) / 2) * mp.sinh(b)),
    Phi("step", mf.activations["step"], (one, zero), None, {},
        lambda q: mp.mpf(1) / 2, lambda a, b, c: arc_cosine(0, a, b, c), lambda a, b, c: 1 / (2 * mp.pi * mp.sqrt(a * c - b * b))),
    Phi("sign", mf.activations["sign"], (one, lambda m, x: -1 + 0 * x), None, {},
        _flat, lambda a, b, c: 2 / mp.pi * mp.asin(b / mp.sqrt(a * c)), lambda a, b, c: 2 / (mp.pi * mp.sqrt(a * c - b * b))),
)  # fmt: skip


def _tanh_difference(u: Any, v: Any, h: Any) -> Any:
    """tanh u - tanh v = sinh(u - v)/(cosh u cosh v), free of overflow"""
    nearer = np.where(np.sign(u) * np.sign(v) > 0, np.minimum(np.abs(u), np.abs(v)), 0.0)
    top = -2 * np.expm1(-2 * h) * np.exp(-2 * nearer)
    return top / ((1 + np.exp(-2 * np.abs(u))) * (1 + np.exp(-2 * np.abs(v))))


def _real_sigmoid(x: Any) -> Any:
    """without cancellation on the negative side"""
    e = np.exp(-np.abs(x))
    return np.where(x > 0, 1.0, e) / (1 + e)


def _silu_difference(u: Any, v: Any, h: Any) -> Any:
    return h / 2 * (_real_sigmoid(u) + _real_sigmoid(v)) + (u + v) / 4 * _tanh_difference(u / 2, v / 2, h / 2)


def _softsign_difference(u: Any, v: Any, h: Any) -> Any:
    same = np.sign(u) * np.sign(v) > 0
    return np.where(same, h, u * (1 + np.abs(v)) - v * (1 + np.abs(u))) / ((1 + np.abs(u)) * (1 + np.abs(v)))


def _half_tanh_difference(u: Any, v: Any, h: Any) -> Any:
    both_on = h * np.tanh(u) + v * _tanh_difference(u, v, h)
    return np.where(v > 0, both_on, np.where(u > 0, u * np.tanh(u), 0.0))


def _silu(m: Any, x: Any) -> Any:
    return x * _sigmoid(m, x)


#: activations without closed forms, smooth and kinked
QUADRATURE = (
    Phi("tanh", mf.tanh, both(lambda m, x: m.tanh(x)), both(lambda m, x: 1 - m.tanh(x) ** 2), difference=_tanh_difference),
    Phi("sigmoid", mf.activations["sigmoid"], both(_sigmoid), both(lambda m, x: _sigmoid(m, x) * _sigmoid(m, -x)),
        difference=lambda u, v, h: _tanh_difference(u / 2, v / 2, h / 2) / 2),
    Phi("silu", mf.silu, both(_silu), both(lambda m, x: _sigmoid(m, x) * (1 + x * _sigmoid(m, -x))), difference=_silu_difference),
    Phi("tanh*relu", mf.Activation(sp.tanh(mf.x) * sp.Max(mf.x, 0)), (lambda m, x: x * m.tanh(x), zero),
        (lambda m, x: m.tanh(x) + x * (1 - m.tanh(x) ** 2), zero), difference=_half_tanh_difference),
    Phi("softsign", mf.Activation(mf.x / (1 + sp.Abs(mf.x))), (lambda m, x: x / (1 + x), lambda m, x: x / (1 - x)),
        (lambda m, x: 1 / (1 + x) ** 2, lambda m, x: 1 / (1 - x) ** 2), difference=_softsign_difference),
)  # fmt: skip

ACTIVATIONS = {phi.name: phi for phi in (*CLOSED, *QUADRATURE)}

# ---------------------------------------------------------------------------------------------------------------------------------
# points

#: (q1, p, q2) of equal variances
EQUAL = ((1.0, 0.3, 1.0), (0.7, -0.65, 0.7), (2.5, 2.0, 2.5), (1e-3, 5e-4, 1e-3), (40.0, -30.0, 40.0), (3.0, 0.0, 3.0))
#: and of unequal ones
UNEQUAL = ((0.7, 0.6, 1.9), (0.01, -0.05, 3.0), (5.0, 1.0, 0.4), (2.0, 0.0, 0.5))
#: delta/q for gaps
DELTAS = (2.0, 1.9, 1.0, 0.5, 1e-3, 1e-8, 1e-16, 1e-30, 1e-100)
#: variances for gaps of closed forms, and for quadrature
GAP_VARIANCES = (1e-6, 1e-3, 0.3, 1.0, 40.0, 1e4, 1e6)
VARIANCES = (1e-12, 1e-3, 0.3, 3.7, 40.0, 1e6, 1e12)
CORRELATIONS = (-1.0, -0.9, 0.0, 0.3, 0.9, 1 - 1e-8, 1.0)

# ---------------------------------------------------------------------------------------------------------------------------------
# one variable: certified integration in flint


def ball(value: float | str) -> flint.arb:
    """the exact value of a double, or of a decimal string at the current precision"""
    return flint.arb(value)


def certified_mean(f: tuple[Piece, Piece], power: int, q: float | str, digits: int = 40) -> flint.arb:
    """E f(u)^power, u ~ N(0, q): a rigorous enclosure; what is left out beyond 17 standard deviations is below 1e-60"""
    with flint.ctx.workdps(digits + 15):
        variance = ball(q)
        end = flint.acb(17 * variance.sqrt())
        norm = 1 / (2 * flint.arb.pi() * variance).sqrt()
        total = flint.arb(0)
        for piece, side in zip(f, (1, -1), strict=True):

            def integrand(z: flint.acb, _: bool, piece: Piece = piece, side: int = side) -> flint.acb:
                return piece(BALL, side * z) ** power * (-(z * z) / (2 * variance)).exp() * norm

            total += flint.acb.integral(integrand, 0, end, eval_limit=10**7, depth_limit=10**4).real
        return total


def as_mpf(value: flint.arb, digits: int = 40) -> mp.mpf:
    """the midpoint; the radius must not reach `digits` significant digits"""
    assert value.rel_accuracy_bits() > 3.33 * digits or value.abs_upper() < flint.arb(10) ** (-digits), value
    with mp.workdps(digits + 10):
        return mp.mpf(value.mid().str(digits + 8, radius=False))


# ---------------------------------------------------------------------------------------------------------------------------------
# two variables: Gauss-Legendre panels, float64

NODES, WEIGHTS = leggauss(20)
REACH = 10.0
PROBE = np.array([0.1, 0.7, 2.3])


def evaluated(f: tuple[Piece, Piece], x: np.ndarray) -> np.ndarray:
    """f on an array that may straddle 0"""
    with np.errstate(all="ignore"):
        return np.where(x > 0, f[0](Real, x), f[1](Real, x))


def _ladder(first: float, last: float) -> np.ndarray:
    """0 and a ladder of ratio 2.5 from `first` beyond `last`"""
    steps = max(0, math.ceil(math.log(max(last / first, 1.0)) / math.log(2.5))) + 1
    return np.concatenate([[0.0], first * 2.5 ** np.arange(steps + 1)])


def panels(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """nodes and weights of the panels between sorted edges along the last axis"""
    real = np.flatnonzero(np.diff(edges, axis=-1).reshape(-1, edges.shape[-1] - 1).max(axis=0) > 0)
    a, b = edges[..., real, None], edges[..., real + 1, None]
    nodes = (a + b) / 2 + (b - a) / 2 * NODES
    weights = (b - a) / 2 * WEIGHTS * np.ones_like(nodes)
    shape = (*edges.shape[:-1], -1)
    return nodes.reshape(shape), weights.reshape(shape)


def _density(x: np.ndarray, s: float) -> np.ndarray:
    return np.exp(-0.5 * (x / s) ** 2) / (s * math.sqrt(2 * math.pi))


@dataclass(frozen=True)
class Pair:
    """E f(u) f(v), E |f(u) f(v)| and E (f(u) - f(v))^2 / 2"""

    product: float
    size: float
    gap: float


def pair_moments(
    f: tuple[Piece, Piece], q: float, delta: float, difference: Callable[[Any, Any, Any], Any] | None = None, fine: float = 0.5
) -> Pair:
    """Equal variances q, covariance q - delta; `fine` is the scale on which f varies near 0."""
    sm, sw = math.sqrt(q - delta / 2), math.sqrt(delta / 2)
    subtract = difference or (lambda u, v, h: evaluated(f, u) - evaluated(f, v))
    if sm == 0.0:
        m, weight = np.zeros(1), np.ones(1)
    else:
        grades = _ladder(min(fine, max(sw, 1e-9 * sm)), REACH * sm)
        half = np.sort(np.minimum(np.concatenate([grades, np.arange(1, 2 * REACH + 1) * sm / 2]), REACH * sm))
        m, weight = panels(np.concatenate([-half[::-1], half]))
        weight = weight * _density(m, sm)
        m, weight = m[weight > 0], weight[weight > 0]
    if sw == 0.0:
        value = evaluated(f, m)
        second = float(np.sum(weight * value * value))
        return Pair(second, second, 0.0)
    end = REACH * sw
    odd = bool(np.all(evaluated(f, -PROBE) == -evaluated(f, PROBE)))
    ladder = _ladder(min(fine, sw), end)
    ladder = np.concatenate([ladder, -ladder])
    ticks = np.arange(0, 2 * REACH + 1) * sw / 2
    total = np.zeros(3)

    def add(low: np.ndarray, high: np.ndarray, marks: np.ndarray, origin: np.ndarray, centre: np.ndarray, outer: np.ndarray) -> None:
        """w = origin + t for t between low and high; t is what is exact, so that neither w near 0 nor v near 0 is rounded"""
        t, inner = panels(np.sort(np.clip(marks, low, high), axis=1))
        w = origin + t
        inner = 2 * inner * _density(w, sw) * outer  # 2: the integrand is even in w
        small = np.where(origin > 0, -t, centre - w)
        large = np.where(origin > 0, 2 * centre + t, centre + w)
        with np.errstate(all="ignore"):
            values = evaluated(f, large) * evaluated(f, small)
            change = subtract(large, small, 2 * w)
            if odd:
                inner *= 2
            else:
                values = np.concatenate([values, evaluated(f, -large) * evaluated(f, -small)])
                change = np.concatenate([change, subtract(-small, -large, 2 * w)])
                inner = np.concatenate([inner, inner])
        values[inner == 0] = change[inner == 0] = 0.0  # a product with an overflow, beyond the window
        total[:] += np.sum(inner * values), np.sum(inner * np.abs(values)), np.sum(inner * change * change) / 2

    alone = sm == 0.0
    m, weight = (m, weight / 2) if alone else (m[m > 0], weight[m > 0])
    for part in np.array_split(np.arange(m.size), max(1, m.size // 16)):
        c, outer = m[part][:, None], weight[part][:, None]
        shape = (part.size, 1)
        middle = np.minimum(c / 2, end)
        grid = np.concatenate([np.broadcast_to(ticks, (part.size, ticks.size)), c / 2 + 0 * c, 0 * c], axis=1)
        if not alone:
            add(np.zeros(shape), middle, grid, np.zeros(shape), c, outer)
        marks = np.concatenate([np.broadcast_to(ladder, (part.size, ladder.size)), ticks - c, -c / 2], axis=1)
        add(np.minimum(-c / 2, end - c), end - c, marks, c, c, outer)
    return Pair(*total)


def product_grid(f: tuple[Piece, Piece], q1: float, p: float, q2: float) -> tuple[float, float]:
    """E f(u) f(v) and E |f(u) f(v)| on a product of two panel rules with the joint density: variances may differ, |rho| < 0.98"""
    determinant = q1 * q2 - p * p
    grids = []
    for own, other in ((q1, q2), (q2, q1)):
        spread = math.sqrt(determinant / other)  # of this variable given the other
        grades = np.concatenate([_ladder(0.3, REACH * math.sqrt(own)), np.arange(0, REACH * math.sqrt(own) / spread + 1) * spread])
        half = np.sort(np.minimum(grades, REACH * math.sqrt(own)))
        grids.append(panels(np.concatenate([-half[::-1], half])))
    (u, wu), (v, wv) = grids
    form = (q2 * u[:, None] ** 2 - 2 * p * u[:, None] * v + q1 * v**2) / determinant
    joint = np.exp(-form / 2) / (2 * math.pi * math.sqrt(determinant))
    fu, fv = wu * evaluated(f, u), wv * evaluated(f, v)
    return float(fu @ joint @ fv), float(np.abs(fu) @ joint @ np.abs(fv))


# ---------------------------------------------------------------------------------------------------------------------------------
# the transformer recursion of theory.md 4.1 and 4.2, typed again in any arithmetic


@dataclass(frozen=True)
class Arithmetic:
    """sqrt, asin, acos, exp, pi and exact constants of one number type"""

    number: Callable[[Any], Any]
    sqrt: Callable[[Any], Any]
    asin: Callable[[Any], Any]
    acos: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    pi: Callable[[], Any]
    #: drops the radius of a ball, whose naive propagation over many steps says nothing of the error
    settle: Callable[[Any], Any] = lambda x: x


FLOAT = Arithmetic(float, math.sqrt, math.asin, math.acos, math.exp, lambda: math.pi)
MPF = Arithmetic(mp.mpf, mp.sqrt, mp.asin, mp.acos, mp.exp, lambda: +mp.pi)
ARB = Arithmetic(
    lambda x: x if isinstance(x, flint.arb) else flint.arb(x),
    lambda x: x.sqrt(), lambda x: x.asin(), lambda x: x.acos(), lambda x: x.exp(), lambda: flint.arb.pi(),
    lambda x: x.mid(),
)  # fmt: skip

Matrix = tuple[tuple[Any, Any], tuple[Any, Any]]


def times(a: Matrix, b: Matrix) -> Matrix:
    return (
        (a[0][0] * b[0][0] + a[0][1] * b[1][0], a[0][0] * b[0][1] + a[0][1] * b[1][1]),
        (a[1][0] * b[0][0] + a[1][1] * b[1][0], a[1][0] * b[0][1] + a[1][1] * b[1][1]),
    )


@dataclass(frozen=True)
class Normed:
    """what a norm hands on: q~, p~, and the mean squares q^, p^ of its derivative"""

    q: Any
    p: Any
    slope_q: Any
    slope_p: Any


def layer_norm(ar: Arithmetic, q: Any, p: Any) -> Normed:
    return Normed(ar.number(1), p / q, 1 / q, 1 / q)


def derf_norm(alpha: Any) -> Callable[[Arithmetic, Any, Any], Normed]:
    def norm(ar: Arithmetic, q: Any, p: Any) -> Normed:
        b = 2 * ar.number(alpha) ** 2
        top = 1 + b * q
        front = 2 * b / ar.pi()
        return Normed(
            2 / ar.pi() * ar.asin(b * q / top),
            2 / ar.pi() * ar.asin(b * p / top),
            front / ar.sqrt(1 + 2 * b * q),
            front / ar.sqrt(top * top - b * b * p * p),
        )

    return norm


def identity_norm(ar: Arithmetic, q: Any, p: Any) -> Normed:
    return Normed(q, p, ar.number(1), ar.number(1))


@dataclass(frozen=True)
class Transformer:
    """One pre-norm block with softmax attention and a ReLU MLP: x + attention(norm(x)), then x + mlp(norm(x))."""

    ar: Arithmetic
    norm: Callable[[Arithmetic, Any, Any], Normed]
    n: int
    a: Any  # sigma_O^2 sigma_V^2
    s: Any  # sigma_Q^2 sigma_K^2
    w: Any  # sigma_2^2 sigma_1^2
    softmax_derivative: bool = False

    def attention(self, q: Any, p: Any) -> tuple[Any, Any, Matrix, Any]:
        ar, a, s, others = self.ar, self.a, self.s, self.n - 1
        t = self.norm(ar, q, p)
        D = t.q - t.p
        yq = 1 / (1 + others * ar.exp(-s * t.q * D))
        yp = 1 / (1 + others * ar.exp(-s * t.p * D))
        jj, jk = yq, others * yp
        kj, kk = (1 - yq) / others, 1 - yp
        chi = 1 + a * t.slope_q * jj
        if self.softmax_derivative:
            eta = 1 / (1 + 2 * s * t.q * D * yq)
            psi_q, psi_p = yq * (1 - yq) * eta, yp * (1 - yp) * eta
            jj, jk = jj + s * D * (D + t.q) * psi_q, jk + s * D * others * t.p * psi_p
            kj, kk = kj - s * D * t.q * psi_q / others, kk + s * D * (D - t.p) * psi_p
            chi = 1 + a * t.slope_q * jj
        T = ((1 + a * t.slope_q * jj, a * t.slope_q * jk), (a * t.slope_p * kj, 1 + a * t.slope_p * kk))
        return q + a * (t.p + D * yq), p + a * (t.p + D * yp), T, chi

    def mlp(self, q: Any, p: Any) -> tuple[Any, Any, Matrix, Any]:
        ar, w = self.ar, self.w
        t = self.norm(ar, q, p)
        rho = t.p / t.q
        angle = ar.acos(rho)
        kappa = (ar.sqrt(1 - rho * rho) + rho * (ar.pi() - angle)) / (2 * ar.pi())
        slope = (ar.pi() - angle) / (2 * ar.pi())
        chi = 1 + w * t.slope_q / 2
        return q + w * t.q / 2, p + w * t.q * kappa, ((chi, 0), (0, 1 + w * slope * t.slope_p)), chi

    def block(self, q: Any, p: Any) -> tuple[Any, Any, Matrix, Any]:
        q1, p1, first, chi1 = self.attention(q, p)
        q2, p2, second, chi2 = self.mlp(q1, p1)
        return q2, p2, times(first, second), chi1 * chi2

    def states(self, depth: int, q: Any, p: Any) -> Iterator[tuple[Any, Any, Matrix, Any]]:
        """after each block: q, p, and the transfer and chi of that block"""
        for _ in range(depth):
            q, p, T, chi = self.block(q, p)
            q, p = self.ar.settle(q), self.ar.settle(p)
            yield q, p, T, chi


@dataclass(frozen=True)
class Trace:
    """every layer of one setting: q, p of layers 0 ... L, J^{L,l}, J^{l,0} and the chi products from l to L"""

    q: list[Any]
    p: list[Any]
    backward: list[Any]
    forward: list[Any]
    chi: list[Any]


def trace(steps: Iterator[tuple[Any, Any, Matrix, Any]], q: Any, p: Any, pooled: int = 0) -> Trace:
    qs, ps, Ts, chis = [q], [p], [], []
    row, forward = (1, 0), [1]
    for q_next, p_next, T, chi in steps:
        qs.append(q_next)
        ps.append(p_next)
        Ts.append(T)
        chis.append(chi)
        row = (row[0] * T[0][0] + row[1] * T[1][0], row[0] * T[0][1] + row[1] * T[1][1])
        forward.append(row[0] + pooled * row[1])
    column, backward = (1, pooled), [1]
    for T in reversed(Ts):
        column = (T[0][0] * column[0] + T[0][1] * column[1], T[1][0] * column[0] + T[1][1] * column[1])
        backward.append(column[0])
    return Trace(qs, ps, backward[::-1], forward, chis)


# ---------------------------------------------------------------------------------------------------------------------------------
# architectures and the published setting

#: ViT-L: theory.md 4.3
VIT: dict[str, Any] = {
    "n": 197, "sigma_Q": 0.64, "sigma_K": 0.64, "sigma_V": 0.64, "sigma_O": 0.64, "sigma_1": 0.64, "sigma_2": 1.28,
}  # fmt: skip


@cache
def transformer(norm: str = "layer", softmax_derivative: bool = False) -> Any:
    """the library's pre-norm block"""
    block = {"layer": mf.LayerNorm(), "derf": mf.Derf(), "dyt": mf.DyT(), "identity": mf.Identity()}[norm]
    return mf.pre_norm(norm=block, attention=mf.Attention(softmax_derivative=softmax_derivative), mlp=mf.MLP(mf.relu))


def oracle_transformer(
    ar: Arithmetic, norm: Callable[[Arithmetic, Any, Any], Normed], softmax_derivative: bool = False, **p: Any
) -> Transformer:
    """the same block by the formulas above, for the parameters `propagate` takes"""
    number = {k: v if k == "n" else ar.number(v) for k, v in {**VIT, **p}.items() if k != "alpha"}
    a = (number["sigma_O"] * number["sigma_V"]) ** 2
    s = (number["sigma_Q"] * number["sigma_K"]) ** 2
    w = (number["sigma_1"] * number["sigma_2"]) ** 2
    return Transformer(ar, norm, number["n"], a, s, w, softmax_derivative)


def exact(expression: sp.Expr, digits: int = 40, **values: Any) -> mp.mpf:
    """a closed form of the library at rational arguments, 30 digits more than asked, by sympy alone: its functions are not under test"""
    names = {t.name: t for t in expression.free_symbols}
    put = {names[k]: sp.Float(sp.Rational(v), digits + 30) for k, v in values.items() if k in names}
    real, imaginary = sp.N(expression.xreplace(put), digits).as_real_imag()
    with mp.workdps(digits):
        assert abs(imaginary) < mp.mpf(10) ** (3 - digits), imaginary  # complex exponents of sin and cos leave rounding
        return mp.mpf(real._to_mpmath(mp.mp.prec))


def bound(expression: sp.Expr, **values: Any) -> Any:
    """mf.evaluate with those of the values that the expression has symbols for; a number where it has none"""
    names = {t.name for t in expression.free_symbols}
    shape = np.broadcast_shapes(*(np.shape(v) for v in values.values()))
    used = {k: v for k, v in values.items() if k in names}
    return np.broadcast_to(mf.evaluate(expression, **used), shape) if used else np.full(shape, float(expression))


def relative(value: Any, truth: Any) -> float:
    """the largest relative difference of arrays or numbers"""
    value, truth = np.asarray(value, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    assert value.shape == truth.shape, (value.shape, truth.shape)
    return float(np.max(np.abs(value - truth) / np.abs(truth)))


def worst_layer(run: Any, truth: Trace, point: int | None = None) -> float:
    """the largest error of any layer: q, p and gap relative, J relative (so ln J absolute), chi relative"""
    at = (lambda a: a) if point is None else (lambda a: a[point])
    q, p = ([float(v) for v in values] for values in (truth.q, truth.p))
    gaps = [float(1 - b / a) for a, b in zip(truth.q, truth.p, strict=True)]
    errors = [relative(at(run.q), q), relative(at(run.gap), gaps), relative(at(run.chi), [float(v) for v in truth.chi])]
    errors.append(float(np.max(np.abs(at(run.p) - np.array(p)) / np.array(q))))
    for found, values in ((at(run.log_apjn), truth.backward), (at(run.log_apjn_forward), truth.forward)):
        errors.append(float(np.max(np.abs(found - [float(mp.log(float(v))) for v in values]))))
    sums = np.concatenate([np.cumsum(np.log([float(v) for v in truth.chi])[::-1])[::-1], [0.0]])
    errors.append(float(np.max(np.abs(at(run.log_chi_product) - sums))))
    return max(errors)
