"""Very deep networks that come to rest: where tables end, where a gap fades at a steady rate, where a product is marginal."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric import deep, resting, ways

SHIFTED = {
    "relu": mf.mlp(mf.Activation(sp.Max(mf.x - 1, 0))),
    "tanh": mf.mlp(mf.Activation(sp.Max(sp.tanh(mf.x) - sp.Rational(3, 4), 0))),
    "step": mf.mlp(mf.Activation(sp.Heaviside(mf.x - 1))),  # J is infinite, the gap comes to rest above 0
    "three": mf.Repeat(mf.mlp(mf.Activation(sp.Max(mf.x - 1, 0))), 3),
}


ONE, TWO = {}, {"p": 0.3}


@pytest.mark.parametrize(
    ("name", "start"),
    [*((name, TWO) for name in SHIFTED), *((name, ONE) for name in SHIFTED if name != "step")],  # whose second moment any table holds
    ids=lambda given: given if isinstance(given, str) else ("two tokens" if given else "one token"),
)
def test_what_comes_to_rest_where_its_tables_end(name: str, start: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """a threshold twenty standard deviations out, where tables of gaps end: from rest on each repeat is the one before"""
    net, values = SHIFTED[name], {"sigma_w": 1.3, "sigma_b": 0.05, **start}
    kept = [0, 1, 10, 1000, 1017, 1018, 1023, 1024, 1025, 1030, 5999]
    kinds = ("q", "log_apjn", "log_apjn_forward", "log_chi_product", "chi", *["gap"] * bool(start))
    rested: list[bool] = []
    rests_of = resting.resting

    def seen(*given: Any) -> np.ndarray:
        rested.extend(found := rests_of(*given))
        return found

    monkeypatch.setattr(resting, "resting", seen)
    for record in (kept, "last"):
        with monkeypatch.context() as patch:
            patch.setattr(ways, "SPARED", math.inf)
            steps = mf.propagate(net, 6000, 1.0, record=record, **values)
        assert not rested
        with monkeypatch.context() as patch:
            patch.setattr(ways, "DEEP", 4096)
            rests = mf.propagate(net, 6000, 1.0, record=record, **values)
        assert rested == [True]
        rested.clear()
        assert (rests.status, rests.layers.tolist()) == (steps.status, steps.layers.tolist())
        for kind in kinds:
            np.testing.assert_allclose(getattr(rests, kind), getattr(steps, kind), rtol=1e-13, err_msg=kind)
    billion = mf.propagate(net, 10**9, np.array([1.0, 2.0]), record="last", **values)
    assert list(billion.status) == [steps.status] * 2
    assert billion.q[:, -1] == pytest.approx(2 * [steps.q[-1]], rel=1e-14)
    rest = (10**9 - 6000) * math.log(steps.chi[-1])
    assert billion.log_apjn == pytest.approx(2 * [steps.log_apjn[0] + rest], rel=1e-9)


def test_points_that_die_beside_points_that_come_to_rest() -> None:
    run = mf.propagate(SHIFTED["relu"], 10**9, 1.0, p=0.3, record="last", sigma_w=np.array([1.3, 2.0]), sigma_b=np.array([0.05, 0.0]))
    assert run.status.tolist() == ["gap underflow", "underflow"]
    assert np.isnan(run.q[1, -1])


def test_what_comes_to_rest_slowly_is_not_taken_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """q' = a q + 1: after some thousand repeats both stand still, by rounding that which is pulled by 1 - a = 0.01 a little off"""
    monkeypatch.setattr(deep, "end_of", lambda *_: None)
    run = functools.partial(mf.propagate, mf.mlp(mf.relu), 10**9, 0.7, p=0.3, record="last", sigma_b=1)
    fast = run(sigma_w=math.sqrt(2 * 0.9))
    assert (fast.q[0], fast.c[0]) == pytest.approx((10, 1), rel=1e-13)
    assert fast.log_apjn[0] == pytest.approx(10**9 * math.log(0.9), rel=1e-13)
    with pytest.raises(ArithmeticError, match="neither come to rest"):
        run(sigma_w=math.sqrt(2 * 0.99))


#: a gap that falls below all numbers after 300,000 repeats; tables that end beside a fixed point; a slope that is not multiplied out
GONE = {
    "tanh": (mf.tanh, 1.3, 0.2),
    "rbf": (mf.rbf, 0.7, 0.1),
    "tanh_exp": (mf.tanh_exp, 1.3, 0.2),
}


@pytest.mark.parametrize("name", GONE)
def test_a_gap_that_is_gone_long_before_the_end(name: str) -> None:
    phi, sigma_w, sigma_b = GONE[name]
    run = functools.partial(mf.propagate, mf.mlp(phi), q=1.0, p=0.3, sigma_w=sigma_w, sigma_b=sigma_b)
    kept = [0, 100, 5000, 20_000, 100_000]
    steps, gone = run(100_000, record=kept), run(10**9, record=kept)
    (point,) = mf.fixed_points(mf.mlp(phi), sigma_w=sigma_w, sigma_b=sigma_b)
    assert gone.status == run(10**9, record="last").status == "gap underflow"
    np.testing.assert_allclose(gone.q[:-1], steps.q, rtol=1e-14)
    np.testing.assert_allclose(gone.gap[:-1], steps.gap, rtol=1e-10)  # 1e5 roundings
    np.testing.assert_allclose(gone.log_apjn_forward[:-1], steps.log_apjn_forward, rtol=1e-13)
    assert gone.log_apjn[0] == pytest.approx(steps.log_apjn[0] + (10**9 - 10**5) * math.log(point.chi), rel=1e-12)
    assert gone.log_apjn[0] == pytest.approx(gone.log_apjn_forward[-1], rel=1e-12)


def test_a_gap_that_falls_while_q_goes_round() -> None:
    """q is 0.5365 and 0.9185 in turn: a cycle is no rest"""
    two = mf.Linear(1.38**0.5, 0) >> mf.Activate(mf.Activation(mf.x**5)) >> mf.Linear((0.4 / 945) ** 0.5, 0) >> mf.Activate(mf.cos)
    run = functools.partial(mf.propagate, two, q=0.6, p=0.4)
    kept = [0, 100, 101, 200]
    steps, deep = run(201, record=kept), run(10**7, record=kept)
    np.testing.assert_allclose(deep.q[:-1], steps.q[:-1], rtol=1e-13)
    np.testing.assert_allclose(deep.gap[:-1], steps.gap[:-1], rtol=1e-11)
    rate = (deep.log_apjn_forward[3] - deep.log_apjn_forward[1]) / 100
    assert deep.log_apjn[0] == pytest.approx(1e7 * rate, rel=1e-4)
    assert run(10**7, record="last").log_apjn[0] == pytest.approx(deep.log_apjn[0], rel=1e-13)


@pytest.mark.parametrize("sigma", [0.8, 0.9, 1.2])
def test_a_gap_that_falls_where_j_is_marginal(sigma: float) -> None:
    """behind a norm each factor of J is 1, to more digits than doubles in a row that repeats keep"""
    net = mf.post_norm(norm=mf.LayerNorm(), attention=mf.Attention(64), mlp=mf.MLP(mf.relu))
    values = dict.fromkeys(("sigma_1", "sigma_2", "sigma_K", "sigma_O", "sigma_Q", "sigma_V"), sigma)
    run = functools.partial(mf.propagate, net, q=1.0, p=0.3, record="last", **values)
    assert run(10**9).log_apjn[0] == pytest.approx(run(10**4).log_apjn[0], rel=1e-11)


def test_a_function_that_is_a_line_in_disguise() -> None:
    r = sp.sqrt(1 + mf.x**2)
    run = mf.propagate(
        mf.mlp(mf.Activation((r + 1) * (r - 1) - mf.x**2 + mf.x)), 10**9, 1.0, p=0.3, record="last", sigma_w=0.8, sigma_b=0.2
    )
    assert run.log_apjn[0] == pytest.approx(1e9 * math.log(0.64), rel=1e-12)
