"""Fixed points, critical points and transition depths solved again: own recursions, integrals by scipy's quad, roots by its brentq."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import dblquad, quad
from scipy.optimize import brentq
from scipy.special import expit, ndtr

import meanfield as mf

MU = sp.Symbol("mu")
Function = Callable[[float], float]


def mean(f: Function, q: float) -> float:
    """E f(u), u ~ N(0, q)"""
    root = math.sqrt(q)
    return sum(quad(lambda z: f(root * z) * math.exp(-z * z / 2), *ends, epsabs=1e-13, epsrel=1e-13)[0] for ends in ((-12, 0), (0, 12))) / (
        math.sqrt(2 * math.pi)
    )


def kernel(f: Function, q: float, c: float) -> float:
    """E f(u) f(v), both of variance q, of correlation c"""
    s, r = math.sqrt(1 - c * c), math.sqrt(q)
    total, _ = dblquad(
        lambda w, z: f(r * z) * f(r * (c * z + s * w)) * math.exp(-(z * z + w * w) / 2), -9, 9, -9, 9, epsabs=1e-9, epsrel=1e-9
    )
    return float(total) / (2 * math.pi)


def slope(f: Function, at: float, h: float = 1e-4) -> float:
    """a central difference of fourth order"""
    return (8 * (f(at + h) - f(at - h)) - f(at + 2 * h) + f(at - 2 * h)) / (12 * h)


def gelu(x: float) -> float:
    return float(x * ndtr(x))


def gelu_slope(x: float) -> float:
    return float(ndtr(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi))


def silu(x: float) -> float:
    return float(x * expit(x))


def silu_slope(x: float) -> float:
    y = float(expit(x))
    return y * (1 + x * (1 - y))


def tanh_slope(x: float) -> float:
    return 1 - math.tanh(x) ** 2


def square(f: Function) -> Function:
    return lambda x: f(x) ** 2


# -- fixed points ------------------------------------------------------------------------------------------------------------------------


def test_dropout_adds_to_the_variance_and_not_to_the_covariance() -> None:
    w, b, rate = 1.3, 0.2, 0.1
    (point,) = mf.fixed_points(mf.Activate(mf.tanh) >> mf.Dropout(rate) >> mf.Linear(), sigma_w=w, sigma_b=b)
    step = lambda q: w**2 * mean(square(math.tanh), q) / (1 - rate) + b**2  # noqa: E731
    q = brentq(lambda v: step(v) - v, 0.1, 2, xtol=1e-14)
    assert point.q == pytest.approx(q, rel=1e-11)
    assert point.chi_parallel == pytest.approx(slope(step, q), rel=1e-8)
    correlation = lambda c: (w**2 * kernel(math.tanh, q, c) + b**2) / q  # noqa: E731
    assert correlation(point.c) == pytest.approx(point.c, rel=1e-8)
    assert point.chi == pytest.approx(slope(correlation, point.c, 1e-2), rel=1e-6)


def test_dropout_beside_a_skip() -> None:
    w, b, rate, mu = 1.3, 0.2, 0.1, 0.5
    net = mf.Residual(mf.Activate(mf.erf) >> mf.Dropout(rate) >> mf.Linear(), skip=MU)
    (point,) = mf.fixed_points(net, sigma_w=w, sigma_b=b, mu=mu)
    arcs = lambda q, p: 2 / math.pi * math.asin(2 * p / (1 + 2 * q))  # noqa: E731
    q = brentq(lambda v: mu**2 * v + w**2 * arcs(v, v) / (1 - rate) + b**2 - v, 0.1, 5, xtol=1e-14)
    covariance = lambda p: mu**2 * p + w**2 * arcs(q, p) + b**2  # noqa: E731
    p = brentq(lambda v: covariance(v) - v, 0, q, xtol=1e-14)
    assert (point.q, point.c) == (pytest.approx(q, rel=1e-11), pytest.approx(p / q, rel=1e-11))
    assert point.chi == pytest.approx(slope(covariance, p), rel=1e-9)


@pytest.mark.parametrize("mu", [0.0, 0.5])
def test_batch_norm_takes_out_what_a_batch_shares(mu: float) -> None:
    """q = 1, p = 0 behind it: E relu^2 = 1/2, (E relu)^2 = 1/(2 pi)"""
    w, b = 1.3, 0.2
    (point,) = mf.fixed_points(mf.Residual(mf.BatchNorm() >> mf.Activate(mf.relu) >> mf.Linear(), skip=MU), sigma_w=w, sigma_b=b, mu=mu)
    own, shared = w**2 / 2 + b**2, w**2 / (2 * math.pi) + b**2
    assert (point.q, point.c) == (pytest.approx(own / (1 - mu**2), rel=1e-12), pytest.approx(shared / own, rel=1e-12))
    assert (point.chi, point.chi_parallel) == (pytest.approx(mu**2, abs=1e-12), pytest.approx(mu**2, abs=1e-12))


def test_a_gated_branch_behind_a_norm() -> None:
    """q_f = s_out^2 s_value^2 E silu(u)^2, p_f = s_out^2 s_value^2 c kappa(c): c kappa(c) = c kappa(1) at c = 1 and 0"""
    gate, value, out, mu = 0.7, 0.9, 1.1, 0.6
    net = mf.Residual(mf.LayerNorm() >> mf.GLU(mf.silu), skip=MU)
    alike, apart = mf.fixed_points(net, mu=mu, sigma_gate=gate, sigma_value=value, sigma_out=out)
    same, turn = mean(square(silu), gate**2), gate**2 * mean(square(silu_slope), gate**2)
    for point in (alike, apart):
        assert point.q == pytest.approx((out * value) ** 2 * same / (1 - mu**2), rel=1e-11)
        assert point.chi_parallel == pytest.approx(mu**2, rel=1e-11)
    assert (alike.c, apart.c) == (1, 0)
    assert alike.chi == pytest.approx(mu**2 + (1 - mu**2) * (same + turn) / same, rel=1e-10)
    assert apart.chi == pytest.approx(mu**2 + (1 - mu**2) * mean(silu, gate**2) ** 2 / same, rel=1e-10)
    assert (alike.stable, apart.stable) == (False, True)


# -- critical points ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phi", "f", "df", "ends"), [(mf.gelu, gelu, gelu_slope, (1, 9)), (mf.silu, silu, silu_slope, (5, 40))], ids=["gelu", "silu"]
)
def test_a_half_stable_point_has_both_slopes_one(phi: mf.Activation, f: Function, df: Function, ends: tuple[float, float]) -> None:
    """dE phi^2/dq = E u phi phi'/q = E phi'^2"""
    found = mf.critical(mf.mlp(phi))
    q = brentq(lambda v: mean(lambda u: u * f(u) * df(u), v) / v - mean(square(df), v), *ends, xtol=1e-12)
    w2 = 1 / mean(square(df), q)
    assert found["q"] == pytest.approx(q, rel=1e-9)
    assert found["sigma_w"] == pytest.approx(math.sqrt(w2), rel=1e-10)
    assert found["sigma_b"] == pytest.approx(math.sqrt(q - w2 * mean(square(f), q)), rel=1e-9)


@pytest.mark.parametrize("mu", [0.0, 0.8])
def test_the_edge_of_chaos_at_a_bias(mu: float) -> None:
    b = 0.2
    found = mf.critical(mf.Residual(mf.Activate(mf.tanh) >> mf.Linear(), skip=MU), sigma_b=b, mu=mu)

    def excess(q: float) -> float:
        w2 = (1 - mu**2) / mean(square(tanh_slope), q)
        return mu**2 * q + w2 * mean(square(math.tanh), q) + b**2 - q

    q = brentq(excess, 1e-3, 20, xtol=1e-13)
    assert found["q"] == pytest.approx(q, rel=1e-10)
    assert found["sigma_w"] == pytest.approx(math.sqrt((1 - mu**2) / mean(square(tanh_slope), q)), rel=1e-10)


def test_digits_of_both_moments_meet_at_the_point() -> None:
    """elu, whose moments are in closed form, by values to 30 digits"""
    found, b = mf.critical(mf.mlp(mf.elu(1)), sigma_b=0.5), 0.5
    second, slopes = mf.elu(1).second_moment(mf.q), mf.elu(1).derivative.second_moment(mf.q)
    at = lambda e, q: float(mf.evaluate(e.subs(mf.q, sp.Rational(q)), digits=30))  # noqa: E731
    q = brentq(lambda v: at(second, v) / at(slopes, v) + b**2 - v, 0.3, 20, xtol=1e-13)
    assert (found["q"], found["sigma_w"]) == (pytest.approx(q, rel=1e-10), pytest.approx(at(slopes, q) ** -0.5, rel=1e-10))


# -- transition depth --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "alpha", "w", "b"), [(1.0, 0.05, 1.0, 0.0), (0.3, 0.1, 0.7, 0.0), (1e-3, 0.1, 1.3, 0.4)])
def test_the_transition_depth_is_an_integral_and_where_a_run_gets_to(start: float, alpha: float, w: float, b: float) -> None:
    norm, end = mf.Residual(mf.Derf() >> mf.Linear()), alpha**-2
    added = lambda q: w**2 * 2 / math.pi * math.asin(2 * alpha**2 * q / (1 + 2 * alpha**2 * q)) + b**2  # noqa: E731
    integral, _ = quad(lambda t: math.exp(t) / added(math.exp(t)), math.log(start), math.log(end), epsrel=1e-11, limit=200)
    found = mf.growth(norm).transition_depth(start, alpha=sp.Rational(str(alpha)), sigma_w=sp.Rational(str(w)), sigma_b=sp.Rational(str(b)))
    assert found == pytest.approx(integral, rel=1e-8)
    states = [start]
    while states[-1] < end:
        states.append(states[-1] + added(states[-1]))
    crossing = len(states) - 1 - (states[-1] - end) / (states[-1] - states[-2])
    assert found == pytest.approx(crossing, rel=1e-2)  # a repeat is no differential


def test_the_transition_depth_with_attention_follows_c() -> None:
    """a run of the network itself, whose c is on its way"""
    net = mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(n=16, sigma_Q=1, sigma_K=1), mlp=mf.MLP(mf.relu, 1, 1))
    alpha, values = 0.1, {"sigma_V": 0.5, "sigma_O": 0.8}
    found = mf.growth(net).transition_depth(1.0, gap=0.5, alpha=sp.Rational("0.1"), sigma_V=sp.Rational("0.5"), sigma_O=sp.Rational("0.8"))
    run = mf.propagate(net, 2 * math.ceil(found), 1.0, gap=0.5, alpha=alpha, **values)
    crossing = float(np.interp(alpha**-2, run.q, run.layers))
    assert found == pytest.approx(crossing, rel=1e-2)
    alone = mf.growth(net).transition_depth(1.0, gap=1.0, alpha=sp.Rational("0.1"), sigma_V=sp.Rational("0.5"), sigma_O=sp.Rational("0.8"))
    assert abs(alone / found - 1) > 1e-2  # tokens that have less in common average more away
