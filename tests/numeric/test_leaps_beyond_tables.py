"""Very deep recursions whose moments are in no table that reaches so far: leaps by quadrature, against a recursion of another kind."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.special import wofz

import meanfield as mf
from meanfield.numeric import ways

DEPTH, STEPPED = 10**9, 2000
WEIGHT, BIAS = 1.5, 0.3


def moments(q: float, delta: float) -> np.ndarray:
    """E phi(u)^2 and E phi(u)^2 - E phi(u) phi(v) for phi = x/(4 + x^2): given what both share the mean of phi is a Faddeeva function"""
    s, step = np.linspace(-16.0, 16.0, 6001, retstep=True)
    s, weights = np.sinh(s), np.cosh(s) * step

    def mean(f: np.ndarray, variance: float) -> float:
        return float((f * weights * np.exp(-(s**2) / (2 * variance))).sum() / math.sqrt(2 * math.pi * variance))

    single = mean((s / (4 + s**2)) ** 2, q)
    shared = math.sqrt(math.pi / (2 * delta)) * wofz((s + 2j) / math.sqrt(2 * delta)).imag
    return np.array([single, single - mean(shared**2, q - delta)])


def added(state: np.ndarray) -> np.ndarray:
    single, gap = moments(*state)
    return np.array([WEIGHT**2 * single + BIAS**2, WEIGHT**2 * gap])


def flow(_: float, logs: np.ndarray) -> np.ndarray:
    """d ln y/dn of the flow that takes y to y + F(y) in time 1, F - F' F/2 + ..."""
    y = np.exp(logs)
    F, h = added(y), 1e-4
    along = (added(y + h * F) - added(y - h * F)) / (2 * h)
    return np.asarray((F - along / 2) / y)


def test_a_network_beyond_its_tables_is_what_its_flow_comes_to() -> None:
    phi = mf.Activation(mf.x / (4 + mf.x**2))
    net = mf.Residual(mf.Activate(phi) >> mf.Linear(sp.Rational(3, 2), sp.Rational(3, 10)))
    run = mf.propagate(net, DEPTH, 1.0, gap=0.6, record=[STEPPED, DEPTH])
    state = np.array([1.0, 0.6])
    for _ in range(STEPPED):
        state = state + added(state)
    assert [run.q[0], run.q[0] * run.gap[0]] == pytest.approx(list(state), rel=1e-9)
    path = solve_ivp(
        lambda t, logs: math.exp(t) * flow(0.0, logs), (math.log(STEPPED), math.log(DEPTH)), np.log(state), rtol=1e-9, atol=1e-10
    )
    assert [run.q[-1], run.q[-1] * run.gap[-1]] == pytest.approx(list(np.exp(path.y[:, -1])), rel=1e-6)
    assert run.log_apjn[0] + run.log_apjn_forward[0] == pytest.approx(run.log_apjn_forward[-1], rel=1e-9)


def test_layers_by_quadrature_are_spared_at_moderate_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    """30,000 layers beyond what tables hold ask for none of them one by one, and are those that one by one gives"""
    phi = mf.Activation(mf.x**2 / (1 + mf.x**2))
    net = mf.Residual(mf.Activate(phi) >> mf.Linear(sigma_w=1.0, sigma_b=0.1))
    stepped = mf.propagate(net, 2500, 1.0, p=0.4, record=[3, 400])
    monkeypatch.setattr(ways, "_by_quadrature", lambda job, out: pytest.fail("layers by quadrature"))
    run = mf.propagate(net, 30_000, 1.0, p=0.4, record=[3, 400, 2500])
    assert run.status == "ok"
    for name in ("q", "gap", "log_apjn_forward"):
        assert getattr(run, name)[:3] == pytest.approx(getattr(stepped, name), rel=1e-11)
    assert run.log_apjn + run.log_apjn_forward == pytest.approx(np.full(4, run.log_apjn_forward[-1]), rel=1e-11)
