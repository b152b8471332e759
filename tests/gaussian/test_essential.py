"""Functions of what is infinite at a point, as tanh(1/x), are singular there however flat they look; a series is what it was found for."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import panels

import meanfield as mf
from meanfield.gaussian.analyticity import reproduces, taylor
from meanfield.gaussian.essential import essential_places
from meanfield.gaussian.singularities import shape_of

x, q, p, delta = mf.x, mf.q, mf.p, mf.delta
tanh, atan, exp = sp.tanh, sp.atan, sp.exp


def mean_of(f: sp.Expr, variance: float, places: tuple[float, ...]) -> mp.mpf:
    """E f(u) by mpmath, split at places, at deviations and at distances from either on every scale"""
    value, s = sp.lambdify(x, f, "mpmath"), mp.sqrt(mp.mpf(variance))
    with mp.workdps(30):
        steps = [mp.mpf(2) ** k for k in range(-6, 6)]
        around = [mp.mpf(k) + side * t * scale for k in (0.0, *places) for t in steps for side in (1, -1) for scale in (s, 1)]
        ends = sorted({t for t in (*around, *map(mp.mpf, (0.0, *places))) if abs(t) < 40 * s} | {-40 * s, 40 * s})
        size = s
        for _ in range(2):  # its tolerance is absolute
            size *= mp.quad(lambda t, size=size: value(t) * mp.exp(-t * t / (2 * s * s)) / size, ends)
        return size / (s * mp.sqrt(2 * mp.pi))


SECOND = (
    (tanh(1 / x), 0.0),
    (x * tanh(1 / x), 0.0),
    (tanh(x + 1 / x), 0.0),
    (tanh(1 / x**3), 0.0),
    (x**2 * tanh(1 / x**2), 0.0),
    (atan(1 / (x - 2)), 2.0),
    (exp(-1 / sp.Abs(x)), 0.0),
    (1 / (1 + exp(1 / x)), 0.0),
    (tanh(1 / (x**2 + sp.Rational(1, 10**8))), 0.0),
    (x * sp.sqrt(1 + 1 / x**2), 0.0),
)


@pytest.mark.parametrize(("f", "place"), SECOND, ids=str)
def test_second_moments_from_tiny_variances_on(f: sp.Expr, place: float) -> None:
    for variance in (1e-12, 1e-6, 1.0):
        true = mean_of(f**2, variance, (place,))
        if true < 1e-300:
            continue
        value, bound = mf.evaluate(mf.Activation(f).second_moment(q), q=variance, error=True)
        assert abs(value - true) <= min(1e-12 * true, bound + 1e-16 * true), (variance, value)


def _gap(f: sp.Expr, variance: float, d: float) -> float:
    """half the mean of (f(u) - f(v))^2 by Gauss's rule on panels that end where either jumps, at 0"""
    value = sp.lambdify(x, f, "numpy")
    s, r = np.sqrt(variance), np.sqrt(d * (2 - d / variance))  # of u, and of v - (1 - d/q) u
    scales = np.geomspace(1e-3, 1, 10) * 9
    u, a = panels(np.unique(np.concatenate([side * scale * scales for side in (-1, 1) for scale in (s, min(s, 2 * r))] + [[0.0]])))
    total = 0.0
    for point, weight in zip(u, a, strict=True):
        mu = (1 - d / variance) * point
        ends = np.concatenate([mu + r * np.linspace(-9, 9, 13), [0.0] if abs(mu) < 9 * r else []])
        v, b = panels(np.unique(ends))
        with np.errstate(over="ignore"):  # 1/inf is the value
            inner = b @ ((value(point) - value(v)) ** 2 * np.exp(-(((v - mu) / r) ** 2) / 2))
        total += weight * np.exp(-((point / s) ** 2) / 2) * inner
    return total / (4 * np.pi * s * r)


@pytest.mark.parametrize("f", [atan(1 / x), tanh(1 / x), 1 / (1 + exp(1 / x))], ids=str)
def test_gaps_of_what_jumps_there(f: sp.Expr) -> None:
    for variance, d in ((1.0, 1e-3), (1e-12, 1e-13)):
        value, bound = mf.evaluate(mf.Activation(f).gap(q, delta), q=variance, delta=d, error=True)
        true = _gap(f, variance, d)
        assert abs(value - true) <= 1e-11 * true + bound, (variance, d, value, true)
        assert bound <= 1e-11 * true


def test_kernels_next_to_the_jump() -> None:
    """tanh(1/u) is the sign of u: its kernel is the arcsine"""
    value = mf.evaluate(mf.Activation(tanh(1 / x)).kernel(q, p), q=1e-12, p=0.5e-12)
    assert value == pytest.approx(1 / 3, rel=1e-13)


def test_the_derivative_holds_the_delta_of_the_jump() -> None:
    phi = mf.Activation(tanh(1 / x))
    assert phi.derivative.second_moment(q) == sp.oo
    assert mf.evaluate(phi.derivative.mean(q), q=1e-4) == pytest.approx(2 / np.sqrt(2 * np.pi * 1e-4), rel=1e-12)
    flat = mf.Activation(exp(-1 / sp.Abs(x)))
    true = mean_of((exp(-1 / x) / x**2) ** 2 * sp.Heaviside(x), 1.0, ())
    assert mf.evaluate(flat.derivative.second_moment(q), q=1.0) == pytest.approx(float(2 * true), rel=1e-12)


def test_where_a_function_is_taken_of_what_is_infinite() -> None:
    a = sp.Symbol("a", positive=True)
    assert essential_places(tanh(1 / (x - 2)) + exp(-1 / x**2)) == (0, 2)
    assert essential_places(tanh(a / x)) == (0,)
    assert essential_places(sp.log((exp(x) - 1) / x) + x / sp.tanh(x) + exp(x) / (x - 1)) == ()
    assert shape_of(tanh(1 / x)).jumps[shape_of(tanh(1 / x)).breaks.index(0.0)] == 2.0


def test_a_series_that_is_not_what_it_was_found_for_is_told() -> None:
    """the poles of tanh(1/z^2) are on diagonals, where some points of the circle lie; on the real line it is 1 near 0"""
    f = tanh(1 / (x**2 + sp.Rational(1, 10**8)))
    assert not reproduces(taylor(f, 0.01), f, 0.01, 1)
    assert shape_of(f).radius == 0.0
    assert reproduces(taylor(tanh(x), 0.5), tanh(x), 1.0, -1)
