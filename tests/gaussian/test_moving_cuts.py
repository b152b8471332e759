"""A jump whose place is a parameter moves with it: derivatives of moments by that parameter hold its delta."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf
from meanfield.symbols import known

x, y, q, p, q1, q2 = mf.x, mf.y, mf.q, mf.p, mf.q1, mf.q2
t = sp.Symbol("t", real=True)
c = sp.Symbol("c", positive=True)
JUMP = sp.Piecewise((0, x < t), (2 + sp.tanh(x), True))
RAMP = sp.Piecewise((-c, x < -c), (x, x < c), (c, True)) * sp.tanh(x)
AT = {t: sp.Rational(1, 3), c: sp.Rational(3, 2), q: 1, p: sp.Rational(1, 2), q1: 1, q2: 2, known("delta"): sp.Rational(1, 2)}

MOMENTS = {
    "mean": (mf.E(JUMP, q), t),
    "second moment": (mf.E(JUMP**2, q), t),
    "kernel": (mf.E(JUMP * JUMP.xreplace({x: y}), q1, p, q2), t),
    "gap": (mf.Activation(JUMP).gap(q, known("delta")), t),
    "slope": (mf.Activation(JUMP).derivative.mean(q), t),
    "slope's kernel": (mf.Activation(JUMP).derivative.kernel(q1, p, q2), t),
    "kink alone": (mf.E(RAMP**2, q), c),
    "gap of a kink alone": (mf.Activation(RAMP).gap(q, known("delta")), c),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_the_derivative_by_a_threshold_is_the_limit_of_differences(name: str) -> None:
    moment, s = MOMENTS[name]
    h = sp.Rational(1, 10**6)
    high, low = (sp.N(moment.subs({**AT, s: AT[s] + way * h}), 40) for way in (1, -1))
    assert abs(sp.N(moment.diff(s).subs(AT), 20) / ((high - low) / (2 * h)) - 1) < 1e-8


def test_the_inert_expectation_of_a_step_moves_as_its_closed_form() -> None:
    step = sp.Piecewise((0, x < t), (1, True))
    inert = mf.E(step, q)
    assert sp.simplify(inert.diff(t).doit() - inert.doit().diff(t)) == 0


def test_a_network_is_sensitive_to_a_threshold() -> None:
    net, at = mf.mlp(mf.Activation(JUMP)), {"sigma_w": 1.0, "sigma_b": 0.1}
    rate = mf.sensitivity(net, 3, q=1.0, c=0.5, t=0.333, **at)
    high, low = (mf.propagate(net, depth=3, q=1.0, c=0.5, t=0.333 + way * 1e-5, **at) for way in (1, -1))
    assert rate.dq["t"] == pytest.approx((high.q[-1] - low.q[-1]) / 2e-5, rel=1e-7)
    assert rate.dgap["t"] == pytest.approx((high.gap[-1] - low.gap[-1]) / 2e-5, rel=1e-7)


@pytest.mark.parametrize(
    "moment",
    [mf.E(sp.Piecewise((0, x + y < t), (1, True)), q, p), mf.E(sp.Piecewise((0, x * sp.tanh(x) < t), (1, True)), q)],
    ids=["of two variables", "no closed form"],
)
def test_a_cut_that_is_not_known_is_refused(moment: sp.Expr) -> None:
    with pytest.raises(ValueError, match="has no derivative in t here"):
        moment.diff(t)
