"""Gains and slopes against quadrature of functions typed here, against networks over depth, and against torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp
from cases import panels
from numpy.typing import NDArray
from scipy import special

import meanfield as mf

Array = NDArray[np.float64]

#: activation -> the function and its derivative, kinks at multiples of 1/8
TYPED: dict[str, tuple[mf.Activation, Callable[[Array], Array], Callable[[Array], Array]]] = {
    "relu": (mf.relu, lambda x: np.maximum(x, 0), lambda x: 1.0 * (x > 0)),
    "leaky_relu": (mf.leaky_relu(0.25), lambda x: np.where(x > 0, x, x / 4), lambda x: np.where(x > 0, 1, 0.25)),
    "abs": (mf.abs, np.abs, np.sign),
    "elu": (mf.elu(0.5), lambda x: np.where(x > 0, x, np.expm1(x) / 2), lambda x: np.where(x > 0, 1, np.exp(x) / 2)),
    "hard_tanh": (mf.hard_tanh, lambda x: np.clip(x, -1, 1), lambda x: 1.0 * (np.abs(x) < 1)),
    "soft_shrink": (mf.soft_shrink, lambda x: x - np.clip(x, -0.5, 0.5), lambda x: 1.0 * (np.abs(x) > 0.5)),
    "hard_swish": (mf.hard_swish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
                   lambda x: np.where(np.abs(x) < 3, x / 3 + 0.5, 1.0 * (x > 0))),
    "gelu": (mf.gelu, lambda x: x * special.ndtr(x), lambda x: special.ndtr(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)),
    "erf": (mf.erf, special.erf, lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x)),
    "square": (mf.square, np.square, lambda x: 2 * x),
    "snake": (mf.snake, lambda x: x + np.sin(x) ** 2, lambda x: 1 + np.sin(2 * x)),
    "tanh": (mf.tanh, np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    "sigmoid": (mf.sigmoid, special.expit, lambda x: special.expit(x) * special.expit(-x)),
    "silu": (mf.silu, lambda x: x * special.expit(x), lambda x: special.expit(x) * (1 + x * special.expit(-x))),
    "softplus": (mf.softplus, lambda x: np.logaddexp(0, x), special.expit),
    "softsign": (mf.softsign, lambda x: x / (1 + np.abs(x)), lambda x: 1 / (1 + np.abs(x)) ** 2),
    "tanh*relu": (mf.Activation(sp.tanh(mf.x) * sp.Max(mf.x, 0)), lambda x: np.tanh(x) * np.maximum(x, 0),
                  lambda x: np.where(x > 0, np.tanh(x) + x / np.cosh(x) ** 2, 0)),
}  # fmt: skip

FIELDS = (
    "second_moment", "second_moment_slope", "second_moment_chi", "variance", "variance_slope", "variance_chi", "growth", "mean",
)  # fmt: skip


def expected(f: Callable[[Array], Array], df: Callable[[Array], Array], q: float) -> dict[str, float]:
    """the fields by quadrature; d/dq falls on the density of u ~ N(0, q), so that no derivative of f is in a slope"""
    end = math.ceil(13 * math.sqrt(q))
    u, w = panels(np.linspace(-end, end, 16 * end + 1))
    w *= np.exp(-(u**2) / (2 * q)) / math.sqrt(2 * math.pi * q)
    rate = w * (u**2 - q) / (2 * q**2)
    mean, second, gradient = (float(np.sum(w * t)) for t in (f(u), f(u) ** 2, df(u) ** 2))
    mean_rate, second_rate = (float(np.sum(rate * t)) for t in (f(u), f(u) ** 2))
    variance = second - mean**2
    return {
        "second_moment": math.sqrt(q / second),
        "second_moment_slope": q / second * second_rate,
        "second_moment_chi": q / second * gradient,
        "variance": math.sqrt(q / variance),
        "variance_slope": q / variance * (second_rate - 2 * mean * mean_rate),
        "variance_chi": q / variance * gradient,
        "growth": second / variance,
        "mean": mean,
    }


@pytest.mark.parametrize("name", TYPED)
def test_fields(name: str) -> None:
    phi, f, df = TYPED[name]
    for q in (1, 2.5):
        found, truth = mf.gain(phi, q), expected(f, df, q)
        for field in FIELDS:
            value = getattr(found, field)
            assert not value.free_symbols
            assert abs(float(value) - truth[field]) <= 2e-12 * (1 + abs(truth[field])), (q, field)


@pytest.mark.parametrize("name", ["relu", "elu", "gelu", "tanh", "silu"])
def test_symbolic_variance(name: str) -> None:
    phi, f, df = TYPED[name]
    found, truth = mf.gain(phi, mf.q), expected(f, df, 1.7)
    for field in FIELDS:
        value = getattr(found, field)
        values = {"q": 1.7} if value.free_symbols else {}
        assert abs(mf.evaluate(value, **values) - truth[field]) <= 2e-12 * (1 + abs(truth[field])), field


def test_symbolic_parameters() -> None:
    a = sp.Symbol("a", positive=True)
    found, truth = (
        mf.gain(mf.erf(1, a)),
        expected(lambda x: special.erf(0.7 * x), lambda x: 1.4 / math.sqrt(math.pi) * np.exp(-0.49 * x * x), 1),
    )
    for field in FIELDS:
        assert float(getattr(found, field).subs(a, sp.Rational("0.7"))) == pytest.approx(truth[field], rel=1e-12, abs=1e-15)
    assert sp.simplify(mf.gain(mf.leaky_relu(a)).second_moment - sp.sqrt(2 / (1 + a**2))) == 0
    assert mf.gain(mf.leaky_relu(a)).second_moment_slope == 1
    # tanh(alpha x) has no closed moments: nodes in alpha
    truth = expected(lambda x: np.tanh(0.7 * x), lambda x: 0.7 / np.cosh(0.7 * x) ** 2, 1)
    for field in FIELDS[:7]:
        value = getattr(mf.gain(mf.dyt()), field)
        assert mf.evaluate(value, **({"alpha": 0.7} if value.free_symbols else {})) == pytest.approx(truth[field], rel=1e-11)


def test_exact_values() -> None:
    """He et al. 2015; Var relu = (1 - 1/pi)/2; the identity; a homogeneous activation is marginal"""
    relu = mf.gain(mf.relu)
    assert relu.second_moment == sp.sqrt(2)
    assert sp.simplify(relu.variance**2 - 2 * sp.pi / (sp.pi - 1)) == 0
    assert (relu.second_moment_slope, relu.second_moment_chi, relu.variance_slope) == (1, 1, 1)
    assert sp.simplify(relu.growth - sp.pi / (sp.pi - 1)) == 0
    for field in FIELDS[:7]:
        assert getattr(mf.gain(mf.identity, mf.q), field) == 1
    for name in ("second_moment", "variance"):
        assert abs(float(getattr(mf.gain(mf.selu), name)) - 1) < 1e-15


def test_a_jump_has_infinite_gradients() -> None:
    for phi in (mf.sign, mf.step, mf.hard_shrink):
        g = mf.gain(phi)
        assert g.second_moment_chi == sp.oo
        assert float(g.second_moment) > 0
    assert mf.gain(mf.sign).second_moment_slope == 0


@pytest.mark.parametrize("phi", [mf.gelu, mf.silu, mf.tanh, mf.elu], ids=repr)
def test_slopes_are_those_of_a_network(phi: mf.Activation) -> None:
    """a deviation of q from 1 changes by Q'(1) in each layer, gradients by chi: q grows away for gelu and comes back for tanh"""
    g = mf.gain(phi)
    gain, slope, chi = (float(v) for v in (g.second_moment, g.second_moment_slope, g.second_moment_chi))
    depth, step = 12, 1e-6
    run = mf.propagate(mf.mlp(phi), depth, [1 + step, 1 - step], sigma_w=gain, sigma_b=0.0)
    deviations = (run.q[0] - run.q[1]) / (2 * step)
    assert deviations == pytest.approx(slope ** np.arange(depth + 1), rel=1e-5)
    assert (deviations[-1] > 1) == (slope > 1) == (phi in (mf.gelu, mf.silu))
    still = mf.propagate(mf.mlp(phi), depth, 1.0, sigma_w=gain, sigma_b=0.0)
    assert still.q == pytest.approx(np.ones(depth + 1), rel=1e-12)
    assert still.log_apjn[0] == pytest.approx(depth * math.log(chi), abs=1e-10)


@pytest.mark.parametrize("phi", [mf.relu, mf.gelu, mf.sigmoid], ids=repr)
def test_preserving_a_variance_alone_does_not_stabilise(phi: mf.Activation) -> None:
    """with the mean left in, q does not stay: the first layer multiplies it by `growth`; with the mean taken off it stays"""
    g = mf.gain(phi)
    run = mf.propagate(mf.mlp(phi), 1, 1.0, sigma_w=float(g.variance), sigma_b=0.0)
    assert run.q[1] == pytest.approx(float(g.growth), rel=1e-12)
    assert float(g.growth) > 1.04
    c = mf.gain(mf.Activation(phi.expression - sp.Rational(float(g.mean))))
    assert float(c.growth) == pytest.approx(1, rel=1e-12)
    for field in ("variance", "variance_slope", "variance_chi"):
        assert float(getattr(c, field)) == pytest.approx(float(getattr(g, field)), rel=1e-12)
    assert float(c.second_moment_slope) == pytest.approx(float(g.variance_slope), rel=1e-12)


def test_shown() -> None:
    text = repr(mf.gain(mf.relu))
    assert text.splitlines()[0] == "Gain of relu at q = 1"
    assert "second_moment = 1.41421" in text
    assert "mean = 0.398942" in text
    assert "mean = 0" in repr(mf.gain(mf.selu)).splitlines()[-1]
    assert "alpha" in repr(mf.gain(mf.derf))
    assert r"g_m &= \sqrt{2}" in mf.gain(mf.relu)._repr_latex_()
    assert mf.gain(mf.relu) == mf.gain(mf.relu, 1.0)


@pytest.mark.parametrize("q", [0, -1, math.nan, math.inf, "a", None, True, 1j, [1.0]], ids=str)
def test_bad_variance(q: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="q = "):
        mf.gain(mf.relu, q)


@pytest.mark.parametrize("phi", [mf.x, "relu", None, np.tanh, mf.Activate(mf.relu)], ids=str)
def test_no_activation(phi: Any) -> None:
    with pytest.raises(TypeError, match="phi = "):
        mf.gain(phi)


def test_infinite_second_moment() -> None:
    with pytest.raises(ValueError, match="infinite at q = 3"):
        mf.gain(mf.Activation(sp.exp(mf.x**2 / 8)), 3)
    assert float(mf.gain(mf.Activation(sp.exp(mf.x**2 / 8))).second_moment) == pytest.approx(2**-0.25, rel=1e-14)


@pytest.mark.torch
def test_beside_the_table_of_torch() -> None:
    calculate_gain = pytest.importorskip("torch").nn.init.calculate_gain
    assert float(mf.gain(mf.relu).second_moment) == pytest.approx(calculate_gain("relu"), rel=1e-15)
    for slope in (0.01, 0.3, 2.0):
        assert float(mf.gain(mf.leaky_relu(slope)).second_moment) == pytest.approx(calculate_gain("leaky_relu", slope), rel=1e-14)
    assert float(mf.gain(mf.identity).second_moment) == calculate_gain("linear")
    for name in ("tanh", "selu", "sigmoid"):  # rules of thumb
        assert abs(float(mf.gain(mf.activations[name]).second_moment) - calculate_gain(name)) > 0.05
