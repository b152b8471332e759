"""mf.sensitivity of Gram matrices where inputs or tokens merge, where nothing is left of a point, and on grids of no points."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf

FIRST = sp.Piecewise((1, sp.Eq(mf.j, 1)), (0, True))


def test_settings_do_not_take_each_other_s_derivatives() -> None:
    """at sigma_w = sigma_b = 0 nothing moves; of ReLU q_4 = q (w^2/2)^4 and J_4 = (w^2/2)^4"""
    widths = np.array([0.0, 1.0, 1.3])
    found = mf.sensitivity(mf.mlp(mf.relu), 4, 1.0, q2=2.0, c=0.3, sigma_w=widths, sigma_b=0.0, with_respect_to="sigma_w")
    assert found.status.tolist() == ["zero signal", "ok", "ok"]
    assert found.dq["sigma_w"] == pytest.approx(8 * widths**7 / 16, rel=1e-13)
    assert found.dlog_apjn["sigma_w"][1:] == pytest.approx(8 / widths[1:], rel=1e-13)


def test_two_inputs_that_merge() -> None:
    """of ReLU q' = a q + b^2 and ln J = L ln a with a = w^2/2; 1 - c is 0 long before the end"""
    w, b, depth = 0.7, 0.5, 60
    found = mf.sensitivity(mf.mlp(mf.relu), depth, 1.0, q2=2.0, c=0.2, sigma_w=w, sigma_b=b)
    a = w * w / 2
    powers = a ** np.arange(depth)
    by_a = depth * a ** (depth - 1) + b * b * (powers[:-1] * np.arange(1, depth)).sum()
    assert found.status == "ok"
    assert found.dq["sigma_w"] == pytest.approx(w * by_a, rel=1e-12)
    assert found.dq["sigma_b"] == pytest.approx(2 * b * powers.sum(), rel=1e-12)
    assert [found.dlog_apjn[name] for name in ("sigma_w", "sigma_b")] == pytest.approx([2 * depth / w, 0.0], rel=1e-12)
    assert [found.dgap[name] for name in ("sigma_w", "sigma_b")] == pytest.approx([0.0, 0.0], abs=1e-13)


@pytest.mark.parametrize("gap", [0.0, 1e-20])
@pytest.mark.parametrize("phi", [mf.relu, mf.abs], ids=str)
def test_the_gap_of_equal_inputs_grows_by_the_ratio_of_slope_and_variance(phi: mf.Activation, gap: float) -> None:
    """for small 1 - c and phi(x) = s |x| + t x: delta' = w^2 m delta and q' = w^2 m q + b^2, m = s^2 + t^2"""
    w, b, q, slope = 0.7, 0.5, 1.5, 1.0
    m = {mf.relu: 0.5, mf.abs: 1.0}[phi]
    for _ in range(3):
        new = w * w * m * q + b * b
        slope, q = slope * w * w * m * q / new, new
    found = mf.sensitivity(mf.mlp(phi), 3, 1.5, q2=1.5, gap=gap, sigma_w=w, sigma_b=b, with_respect_to=("c", "sigma_w", "q"))
    assert found.status == "ok"
    assert found.dgap["c"] == pytest.approx(-slope, rel=1e-7)  # a rounding of c moves its slope by the root of it
    assert found.dgap["sigma_w"] == pytest.approx(0.0, abs=1e-13)
    assert found.dlog_apjn["sigma_w"] == pytest.approx(6 / w, rel=1e-12)


def test_tokens_that_all_see_the_first() -> None:
    """all are what it is from the first layer on: q_2 = (o^2/2)^2 q, and J_2 grows as o^4"""
    net = mf.FixedAttention(FIRST, 3, 1) >> mf.MLP(mf.relu, 1, 1)
    found = mf.sensitivity(net, 2, 1.0, gap=0.2, sigma_O=1.0)
    assert found.status == "ok"
    assert found.dq["sigma_O"] == pytest.approx(4 * found.q, rel=1e-12)
    assert found.dlog_apjn["sigma_O"] == pytest.approx(4.0, rel=1e-12)


def _last(sigma_O: mp.mpf, sigma_w: mp.mpf, sigma_b: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """q and ln J of three tokens after forty layers of uniform causal attention and ReLU, each behind a skip of 1/2"""
    G = np.array([[mp.mpf(1 if i == j else "0.8") for j in range(3)] for i in range(3)])
    X = np.array([[mp.mpf(i == j) for j in range(3)] for i in range(3)])
    A = np.array([[mp.mpf(j <= i) / (i + 1) for j in range(3)] for i in range(3)])
    arccos, sin, root = (np.frompyfunc(f, 1, 1) for f in (mp.acos, mp.sin, mp.sqrt))

    def sizes(G: Any) -> Any:
        return np.outer(root(G.diagonal()), root(G.diagonal()))

    for _ in range(40):
        own = sizes(G)
        G, X = (M / 4 + sigma_O**2 * A @ (M / own) @ A.T for M in (G, X))
        own = sizes(G)
        c = G / own
        np.fill_diagonal(c, mp.mpf(1))
        angle = arccos(c)
        X = X / 4 + sigma_w**2 * (mp.pi - angle) / (2 * mp.pi) * X
        G = G / 4 + sigma_w**2 * own * (sin(angle) + (mp.pi - angle) * c) / (2 * mp.pi) + sigma_b**2
    return G.trace() / 3, mp.log(X.trace() / 3)


def test_tokens_that_merge_behind_skips() -> None:
    branches = (mf.LayerNorm() >> mf.CausalAttention(3, 1), mf.MLP(mf.relu, 1, 1) >> mf.Linear())
    first, second = (mf.Residual(branch, skip=0.5) for branch in branches)
    found = mf.sensitivity(first >> second, 40, 1.0, gap=0.2, sigma_O=1.0, sigma_w=0.7, sigma_b=0.1)
    assert found.status == "ok"
    with mp.workdps(60):
        at, h = [mp.mpf(1), mp.mpf(0.7), mp.mpf(0.1)], mp.mpf(10) ** -25
        for k, name in enumerate(("sigma_O", "sigma_w", "sigma_b")):
            up, down = (_last(*[v + side * h * (i == k) for i, v in enumerate(at)]) for side in (1, -1))
            by_q, by_log = (float((a - b) / (2 * h)) for a, b in zip(up, down, strict=True))
            assert found.dq[name] == pytest.approx(by_q, rel=1e-9)
            assert found.dlog_apjn[name] == pytest.approx(by_log, rel=1e-6)  # roundings of 1 - c, by the root of which J moves


def test_an_infinite_derivative_leaves_the_others() -> None:
    """J of tokens that are one grows at once by sqrt(1 - c), q and c do not"""
    net = mf.CausalAttention(3, 1) >> mf.MLP(mf.relu, 1, 1)
    found = mf.sensitivity(net, 2, 1.0, gap=0.0, sigma_O=1.1, with_respect_to=("c", "sigma_O"))
    assert found.status == "out of range"
    assert math.isfinite(found.log_apjn)
    assert not math.isfinite(found.dlog_apjn["c"])
    assert found.dlog_apjn["sigma_O"] == pytest.approx(4 / 1.1, rel=1e-7)
    up, down = (mf.propagate(net, 2, 1.0, gap=1e-6 * k, sigma_O=1.1) for k in (1, 2))
    assert found.dq["c"] == pytest.approx((up.q[-1] - down.q[-1]) / 1e-6, rel=1e-2)
    assert found.dq["sigma_O"] == pytest.approx(4 / 1.1 * found.q, rel=1e-12)


def test_tokens_behind_a_jump_have_an_infinite_gradient_and_derivatives_of_all_else() -> None:
    """also where more layers mix what is infinite: q_l = q + l w^2/2 of a step behind a norm"""
    step = mf.LayerNorm() >> mf.CausalAttention(3, 1, 1) >> mf.Activate(mf.step) >> mf.Linear(sigma_b=0)
    found = mf.sensitivity(mf.Residual(step), 3, 1.0, c=0.3, sigma_w=1.0)
    assert (found.status, found.log_apjn) == ("infinite APJN", math.inf)
    assert found.dq["sigma_w"] == pytest.approx(3.0, rel=1e-13)
    up, down = (mf.propagate(mf.Residual(step), 3, 1.0, c=0.3, sigma_w=1 + h).gap[-1] for h in (1e-6, -1e-6))
    assert found.dgap["sigma_w"] == pytest.approx((up - down) / 2e-6, rel=1e-8)


def test_a_grid_of_no_points_has_no_derivatives() -> None:
    none = np.ones((2, 0))
    erf, given = mf.mlp(mf.erf), {"sigma_w": 1.2, "sigma_b": 0.3}
    for found in (
        mf.sensitivity(erf, 2, none, c=0.3, **given),
        mf.sensitivity(erf, 2, none, q2=2.0, c=0.3, **given),
        mf.sensitivity(erf, 2, 1.0, sigma_w=none, sigma_b=0.0),
        mf.sensitivity(mf.mlp(mf.erf) >> mf.LayerNorm(), 2, none, c=0.3, sigma_w=0.0, sigma_b=0.0),
        mf.sensitivity(mf.CausalAttention(3, 1), 2, none, c=0.3, sigma_O=1.0),
    ):
        assert all(np.shape(a) == (2, 0) for a in (found.q, found.log_apjn, *found.dq.values(), *found.dlog_apjn.values()))
