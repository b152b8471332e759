"""Networks without skips at criticality, q' = q - a q^2 + b q^3 - ...: leaps over what the layers are beside a line."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric import ways

PLAIN, DEPTH = 5_000_000, 10**9
#: a few units in the last place for each layer: what one by one they are good for
ROUNDED = 4 * PLAIN * 2.0**-52
CRITICAL = {
    "sin": (mf.Activation(sp.sin(mf.x)), sp.S.One),
    "erf": (mf.erf, sp.sqrt(sp.pi) / 2),
    "tanh": (mf.tanh, sp.S.One),
    "asinh": (mf.Activation(sp.asinh(mf.x)), sp.S.One),
}


@pytest.mark.parametrize("name", CRITICAL)
def test_leaps_at_criticality(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """against every layer one by one, and from there on against 1/q' = 1/q + a + (a^2 - b) q + ..."""
    phi, sigma_w = CRITICAL[name]
    net = mf.mlp(phi, sigma_w=sigma_w, sigma_b=0)
    leapt = mf.propagate(net, DEPTH, 1.0, c=0.5, record=[0, PLAIN, DEPTH])
    monkeypatch.setattr(ways, "DEEP", DEPTH)
    plain = mf.propagate(net, PLAIN, 1.0, c=0.5, record="last")
    assert abs(leapt.q[1] / plain.q[-1] - 1) < ROUNDED
    assert abs(leapt.gap[1] / plain.gap[-1] - 1) < ROUNDED
    assert abs(leapt.log_apjn_forward[1] - plain.log_apjn_forward[-1]) < ROUNDED
    square = sp.series((sigma_w * phi.expression) ** 2, mf.x, 0, 7).removeO()
    first, a, b = (sp.factorial2(2 * k - 1) * square.coeff(mf.x, 2 * k) for k in (1, 2, 3))
    assert first == 1
    a, b = float(-a), float(b)
    rise = 1 / leapt.q[2] - 1 / leapt.q[1]
    assert abs(rise - a * (DEPTH - PLAIN) - (a - b / a) * np.log(DEPTH / PLAIN)) < 1e-2


@pytest.mark.parametrize("phi", [mf.elu(1), mf.celu(2), mf.selu, mf.elu(sp.Rational(1, 2)), mf.Activation(sp.Abs(sp.tanh(mf.x)))], ids=str)
def test_leaps_of_functions_with_kinks(phi: mf.Activation, monkeypatch: pytest.MonkeyPatch) -> None:
    """against every layer one by one, where the slope at 0 is one or two"""
    right, left = (float(phi.expression.diff(mf.x).subs(mf.x, side * sp.Rational(1, 10**30))) for side in (1, -1))
    sigma_w = math.sqrt(2 / (right**2 + left**2))
    net = mf.mlp(phi, sigma_w=sigma_w, sigma_b=0)
    leapt = mf.propagate(net, DEPTH, 1.0, record=[0, PLAIN, DEPTH])
    monkeypatch.setattr(ways, "DEEP", DEPTH)
    plain = mf.propagate(net, PLAIN, 1.0, record="last")
    assert abs(leapt.q[1] / plain.q[-1] - 1) < ROUNDED
    assert abs(leapt.log_apjn_forward[1] - plain.log_apjn_forward[-1]) < ROUNDED


def test_a_billion_layers_of_elu() -> None:
    """from q' = q - 2 q^{3/2}/sqrt(2 pi) + 7/8 q^2 - ... the inverse of its root rises by 1/sqrt(2 pi) - (7/16 - 3/(4 pi)) q^{1/2}"""
    run = mf.propagate(mf.mlp(mf.elu(1), sigma_w=1, sigma_b=0), DEPTH, 1.0, c=0.5, record=[0, PLAIN, DEPTH])
    step = 1 / math.sqrt(2 * math.pi)
    rise = run.q[2] ** -0.5 - run.q[1] ** -0.5
    slower = (7 / 16 - 3 / (4 * math.pi)) / step * math.log(DEPTH / PLAIN)
    assert abs(rise - step * (DEPTH - PLAIN) + slower) < 1e-2


def test_a_leap_is_better_than_its_layers_one_by_one() -> None:
    """sin: q' - q = (1 - 2 q - e^{-2 q})/2 by its series, summed with compensation"""
    run = mf.propagate(mf.mlp(CRITICAL["sin"][0], sigma_w=1, sigma_b=0), PLAIN, 1.0, record="last")
    q, n, lost = 1.0, 0, 0.0
    while q > 2e-3:
        q, n = -math.expm1(-2 * q) / 2, n + 1
    for _ in range(PLAIN - n):
        t = 2 * q
        term = -t * t / 4 * (1 - t / 3 * (1 - t / 4 * (1 - t / 5 * (1 - t / 6)))) - lost
        total = q + term
        lost, q = (total - q) - term, total
    assert abs(run.q[-1] / q - 1) < 1e-13


def test_leaps_from_a_state_that_is_not_yet_small() -> None:
    """beside criticality too: a fixed point that is reached along a power law"""
    run = mf.propagate(mf.mlp(mf.tanh), DEPTH, 1.0, c=0.5, sigma_w=1.0001, sigma_b=0.0, record="last")
    (point,) = {f.q for f in mf.fixed_points(mf.mlp(mf.tanh), sigma_w=1.0001, sigma_b=0.0) if f.q > 0}
    assert run.q[-1] == pytest.approx(point, rel=1e-9)


def test_leaps_of_what_is_piecewise_linear() -> None:
    """leaky ReLU beside criticality: q_l = r^l q_0 to the last layer, in every layer that is kept on the way, and 1 - c ~ l^-2"""
    slope = sp.Rational(1, 10)
    line, bend = float(1 + slope**2) / 2, float(1 - slope) ** 2 / 8
    for excess in (-1e-8, 0.0, 1e-8):
        sigma_w = math.sqrt((1 + excess) / line)
        run = mf.propagate(mf.mlp(mf.leaky_relu(slope)), DEPTH, 1.0, c=0.5, sigma_w=sigma_w, sigma_b=0.0, record=[0, 10**8, DEPTH])
        with mp.workdps(50):
            rate = float(mp.log((1 + mp.mpf(slope.p) ** 2 / slope.q**2) / 2 * mp.mpf(sigma_w) ** 2))
        assert run.status == "ok"
        assert np.abs(np.log(run.q) - rate * run.layers).max() <= 1e-12 * max(1.0, abs(rate * DEPTH))
        assert abs(run.log_apjn[0] - rate * DEPTH) <= 1e-12 * max(1.0, abs(rate * DEPTH))
        a = 8 * math.sqrt(2.0) * bend / line / (3 * math.pi)  # gap' = gap - a gap^(3/2)
        assert abs(run.gap[2] * (a * DEPTH / 2) ** 2 - 1) < 1e-6


def test_leaps_of_what_is_piecewise_linear_against_its_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    net, given = mf.mlp(mf.relu), {"c": 0.5, "sigma_w": math.sqrt(2.0) * (1 - 1e-7), "sigma_b": 1e-3}
    leapt = mf.propagate(net, PLAIN, 1.0, **given, record="last")
    monkeypatch.setattr(ways, "DEEP", DEPTH)
    plain = mf.propagate(net, PLAIN, 1.0, **given, record="last")
    for name in ("q", "gap", "log_apjn"):
        assert abs(getattr(leapt, name)[-1] / getattr(plain, name)[-1] - 1) < ROUNDED, name


@pytest.mark.parametrize("record", ["last", [0], [0, 10, 2 * 10**6], 10**6], ids=str)
@pytest.mark.parametrize("start", [{}, {"gap": 0.3}], ids=str)
def test_a_leap_that_ends_with_the_doubles_is_not_yet_there(record: Any, start: dict[str, float]) -> None:
    """ReLU is linear in q: q_l = r^l; where q, or the gap, leaves the doubles on the last leap there are layers left"""
    for excess, depth in ((1e-4, 6_890_000), (1e-4, 7_200_000), (-1e-4, 6_890_000), (-1e-4, 7_200_000), (-1e-4, 10**7)):
        sigma_w = math.sqrt(2 * (1 + excess))
        run = mf.propagate(mf.mlp(mf.relu), depth, 1.0, record=record, sigma_w=sigma_w, sigma_b=0.0, **start)
        rate = math.log(float(Fraction(sigma_w) ** 2 / 2))
        if abs(rate * depth) < 300 * math.log(10):
            assert run.status in ("ok", "gap underflow")
            assert math.log(run.q[-1]) == pytest.approx(rate * depth, rel=1e-9)
            assert run.log_apjn[0] == pytest.approx(rate * depth, rel=1e-9)
        else:
            assert run.status == ("overflow" if rate > 0 else "underflow")


def test_a_gap_that_leaves_the_doubles_ends_no_gradient() -> None:
    """erf comes to rest: a layer more is one factor chi more, also where the gap has sunk below all doubles"""
    net, given = mf.mlp(mf.erf), {"gap": 0.4, "sigma_w": math.sqrt(math.pi) / 2, "sigma_b": 1e-4}
    (point,) = mf.fixed_points(net, sigma_w=given["sigma_w"], sigma_b=1e-4)
    runs = [mf.propagate(net, depth, 1.0, record="last", **given) for depth in (4_900_000, 5_500_000, 6_000_000)]
    for less, more in itertools.pairwise(runs):
        layers = more.depth - less.depth
        assert more.log_apjn[0] - less.log_apjn[0] == pytest.approx(layers * math.log(point.chi), rel=1e-9)


@pytest.mark.parametrize("phi", [mf.relu, mf.leaky_relu, mf.tanh, mf.elu(1)])
def test_a_signal_that_dies_out_is_not_followed_layer_by_layer(phi: mf.Activation, monkeypatch: pytest.MonkeyPatch) -> None:
    """the gap leaves the doubles before the variance does"""
    monkeypatch.setattr(ways, "_by_quadrature", None)
    monkeypatch.setattr(ways, "_from_tables", None)
    sigma_w = 0.9999 / math.sqrt(float(phi.derivative.second_moment(sp.Float("1e-30"))))
    net = mf.mlp(phi)
    assert mf.propagate(net, DEPTH, 1.0, c=0.5, sigma_w=sigma_w, sigma_b=0.0, record="last").status == "underflow"
    run = mf.propagate(net, DEPTH, 1.0, c=0.5, sigma_w=sigma_w, sigma_b=0.1, record="last")
    assert run.status == "gap underflow"
    assert run.gap[-1] == 0
    (point,) = {f.q for f in mf.fixed_points(net, sigma_w=sigma_w, sigma_b=0.1)}
    assert run.q[-1] == pytest.approx(point, rel=1e-12)
