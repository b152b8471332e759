"""Derivatives of expectations of functions that jump away from 0: a delta times a step at the same place is no product of the two."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.maps import map_of
from meanfield.analysis.stepping import Steps
from meanfield.gaussian.pair_expectation import Gap
from meanfield.gaussian.slopes import slope

x, y, q, p, delta = mf.x, mf.y, mf.q, mf.p, mf.delta
STEP = 1e-5


def _rate(value, at: float) -> float:
    """of a smooth function, to about 1e-9"""
    return float((value(at * (1 + STEP)) - value(at * (1 - STEP))) / (2 * STEP * at))


@pytest.mark.parametrize("at_zero", [0, sp.Rational(1, 2), 1])
@pytest.mark.parametrize("power", [1, 2, 3])
def test_a_power_of_a_step_rises_once(power: int, at_zero: sp.Expr) -> None:
    assert slope(sp.Heaviside(x - 1, at_zero) ** power) == sp.DiracDelta(x - 1)


@pytest.mark.parametrize(
    "f", [mf.hard_shrink.expression, sp.tanh(x) + x * sp.Heaviside(x - 1, 0), x * sp.sign(x - 2)], ids=["shrink", "step", "sign"]
)
def test_a_second_moment_moves_with_its_variance(f: sp.Expr) -> None:
    moment = mf.E(f**2, q)
    assert mf.evaluate(moment.diff(q), q=0.4) == pytest.approx(_rate(lambda v: mf.evaluate(moment, q=v), 0.4), rel=1e-8)


def test_moments_move_with_a_threshold() -> None:
    f = mf.hard_shrink(sp.Symbol("lambd", positive=True)).expression
    moments = {
        "mean": (mf.E(f, q, mean=sp.Rational(1, 3)), {}),
        "square": (mf.E(f**2, q), {}),
        "product": (mf.E(f * f.xreplace({x: y}), q, p), {"p": 0.4}),
        "gap": (Gap(f, q, delta), {"delta": 0.3}),
    }
    for name, (moment, rest) in moments.items():
        slope_there = mf.evaluate(moment.diff(sp.Symbol("lambd", positive=True)), q=0.7, lambd=0.5, **rest)
        rate = _rate(lambda v, moment=moment, rest=rest: mf.evaluate(moment, q=0.7, lambd=v, **rest), 0.5)
        assert slope_there == pytest.approx(rate, rel=1e-7), name


@pytest.mark.parametrize("phi", [mf.hard_shrink, mf.Activation(sp.tanh(x) + x * sp.Heaviside(x - 1, 0))], ids=["shrink", "step"])
def test_a_repeat_moves_with_its_state(phi: mf.Activation) -> None:
    steps = Steps(map_of(mf.mlp(phi)), {"sigma_w": 1.3, "sigma_b": 0.2})
    at, d = 0.4, 0.15
    jacobian = steps.pair(np.array([at]), np.array([d]))[2].value[:, :, 0]
    for row in (0, 1):
        by_q = _rate(lambda v, row=row: steps.pair(np.array([v]), np.array([d]))[row].at[0], at)
        by_delta = _rate(lambda v, row=row: steps.pair(np.array([at]), np.array([v]))[row].at[0], d)
        assert jacobian[row] == pytest.approx([by_q, by_delta], rel=1e-7, abs=1e-9)


def test_the_slope_at_a_fixed_point_is_that_of_the_flow() -> None:
    given = {"sigma_w": 0.9161073825503356, "sigma_b": 0.26}
    one, _ = mf.fixed_points(mf.mlp(mf.hard_shrink), **given)
    run = mf.propagate(mf.mlp(mf.hard_shrink), 40, one.q * 1.01, **given)
    away = np.asarray(run.q).ravel() - one.q
    assert one.chi_parallel == pytest.approx(away[40] / away[39], rel=1e-5)


def test_sensitivities_to_a_threshold_are_differences() -> None:
    net, given = mf.mlp(mf.hard_shrink(sp.Symbol("lambd", positive=True))), {"sigma_w": 1.3, "sigma_b": 0.2}
    found = mf.sensitivity(net, 5, 1.0, c=0.5, lambd=0.5, **given)
    rate = _rate(lambda v: mf.propagate(net, 5, 1.0, c=0.5, lambd=v, **given).q.ravel()[-1], 0.5)
    assert float(np.asarray(found.dq["lambd"]).ravel()[-1]) == pytest.approx(rate, rel=1e-7)
