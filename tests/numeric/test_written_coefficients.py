"""Scales that are functions of a parameter or of the layer, far from 0: multiplied out they would be rounding."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric.expanding import cancelled, expanded

a = sp.Symbol("a")
BUMP = 1 / (1 + (a - 1000) ** 4)  # 1/2 at a = 1001


@pytest.mark.parametrize(
    ("net", "q", "p"),
    [
        (mf.Linear(BUMP, 0), 0.25, 0.1),
        (mf.Scale(BUMP), 0.25, 0.1),
        (mf.Residual(mf.RMSNorm() >> mf.Linear(1, 0), scale=BUMP), 1.25, 0.5),
        (mf.Residual(mf.Linear(1, 0), skip=1 - BUMP), 1.25, 0.5),
        (mf.Linear((1 + (a - 1000) ** 2) ** -2, 0), 0.0625, 0.025),
        (mf.Activate(mf.relu) >> mf.Linear(BUMP, 0), 0.125, None),
        (mf.Linear(1, 0) >> mf.Activate(mf.tanh) >> mf.Linear(BUMP, 0), None, None),
    ],
    ids=str,
)
def test_a_scale_that_is_a_function_of_a_parameter(net: mf.Block, q: float | None, p: float | None) -> None:
    run = mf.propagate(net, 1, 1.0, p=0.4, a=1001.0)
    rec = mf.recursion(net)
    for found, expected, exact in ((run.q, q, rec.q), (run.p, p, rec.p)):
        value = mf.evaluate(exact.subs({a: 1001, mf.q: 1, mf.p: sp.Rational(2, 5)}), digits=20)
        assert found[-1] == pytest.approx(float(value), rel=1e-15)
        assert expected is None or found[-1] == pytest.approx(expected, rel=1e-15)


def walked(scale: sp.Expr, q: float, p: float, begin: int, end: int) -> tuple[float, float]:
    """q and p of a branch relu(RMSNorm x) W from layer to layer"""
    value = sp.lambdify(mf.l, scale)
    for index in range(begin, end):
        rho, added = p / q, float(value(index)) ** 2 / 2
        p += added * (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho) / np.pi
        q += added
    return q, p


@pytest.mark.parametrize(
    ("scale", "depth"),
    [
        (10 / (1 + ((mf.l - 20) / 2) ** 8), 40),
        (10 / (1 + ((mf.l - 1000) / 10) ** 4), 2000),
        (10 * sp.exp(-(((mf.l - 100) / 2) ** 8)), 200),
    ],
    ids=str,
)
def test_a_scale_that_is_a_function_of_the_layer(scale: sp.Expr, depth: int) -> None:
    """beside the same recursion layer by layer"""
    net = mf.Residual(mf.RMSNorm() >> mf.Activate(mf.relu) >> mf.Linear(1, 0), scale=scale)
    run = mf.propagate(net, depth, 1.0, p=0.4)
    assert (run.q[-1], run.p[-1]) == pytest.approx(walked(scale, 1.0, 0.4, 0, depth), rel=1e-13)


def test_a_short_bump_at_the_end_of_a_deep_network() -> None:
    """where leaps stop"""
    scale = sp.Rational(1, 10) + 100 * sp.exp(-(((mf.l - 3_000_000) / 3) ** 2))
    net = mf.Residual(mf.RMSNorm() >> mf.Activate(mf.relu) >> mf.Linear(1, 0), scale=scale)
    before, after = 2_999_900, 3_000_100
    run = mf.propagate(net, after, 1.0, p=0.4, record=[before, after])
    assert run.status == "ok"
    assert (run.q[-1], run.p[-1]) == pytest.approx(walked(scale, run.q[0], run.p[0], before, after), rel=1e-13)


def test_a_skip_and_a_branch_that_add_up_to_one_keep_a_gap() -> None:
    """sqrt(1 - s^2) and s: what each repeat rounds would add up"""
    s = sp.Symbol("s", positive=True)
    net = mf.Residual(mf.RMSNorm() >> mf.Linear(sigma_w=1, sigma_b=0), skip=sp.sqrt(1 - s**2), scale=s)
    run = mf.propagate(net, 10**7, 1.0, gap=1e-3, record="last", s=[1e-3, 0.3])
    np.testing.assert_allclose(run.gap[:, 0], 1e-3, rtol=1e-14)


def test_coefficients_inside_what_moves_are_put_back() -> None:
    s, q = sp.Symbol("s", positive=True), mf.q
    root = sp.sqrt((1 - s) * q + 1)
    assert expanded(root * ((1 - s) ** 2 + q)) == root * (1 - s) ** 2 + q * root
    assert cancelled(q * (1 - s) / (q * (2 + s))) == (1 - s) / (2 + s)
