"""Steps of recursions: what of them is worked out beforehand, and how few operations they take."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric.arcs import Guarded, RootAngle, arcs
from meanfield.numeric.steps import hoisted
from meanfield.numeric.trajectory import kernel_of


def test_parts_that_need_parameters_alone() -> None:
    lines = [
        "t0 = w*w",
        "t1 = q*math.sqrt(1.0 + t0) + math.sqrt(1.0 + t0)/delta",
        "t2 = t1 + 2.0*w + (1.0/3.0)*b",
        "q, delta = (t2 if q < 1.0 else flat_angle(b, w)), root(w, q)",
        "t3 = q + w*w*b",
    ]
    before, others = hoisted(lines, {"w", "b", "flat_angle", "root"}, {"q", "delta", "w", "b", "held", "held_1"})
    assert before == ["t0 = w*w", "held_2 = math.sqrt(1.0 + t0)", "held_3 = flat_angle(b, w)", "held_4 = w * w * b"]
    assert others == [
        "t1 = q * held_2 + held_2 / delta",
        "t2 = t1 + 2.0*w + (1.0/3.0)*b",
        "q, delta = (t2 if q < 1.0 else held_3, root(w, q))",
        "t3 = q + held_4",
    ]


def test_what_a_bound_keeps_from_going_below_zero_is_not_guarded() -> None:
    d, t = sp.Symbol("d", nonnegative=True), sp.Symbol("t", positive=True)
    angle = sp.atan2(sp.sqrt(d * t), sp.sqrt(2 * t - d * t))
    assert arcs(angle, {2 - d}) == RootAngle(d * t, t * (2 - d))
    assert arcs(angle, set()) == RootAngle(d * t, Guarded(2 * t - d * t, 2 * t))


@pytest.mark.parametrize("weights", [{"sigma_1": 0.0, "sigma_2": 0.7}, {"sigma_1": 0.7, "sigma_2": 0.0}])
def test_a_jump_of_nothing(weights: dict[str, float]) -> None:
    """weights of size 0 before a sign: the same numbers where they are symbols and where they are not"""
    phi = mf.Activation(sp.sign(mf.x))
    symbolic, literal = (mf.Residual(mf.LayerNorm() >> mf.MLP(phi, **given)) for given in ({}, weights))
    run = mf.propagate(symbolic, 3, 1.3, c=0.3, **weights)
    assert run.gap == pytest.approx(mf.propagate(literal, 3, 1.3, c=0.3).gap, rel=1e-14)
    assert run.q == pytest.approx(mf.propagate(literal, 3, 1.3, c=0.3).q, rel=1e-14)


def test_two_overlaps_between_rows_take_one_exponential() -> None:
    net = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(), mlp=mf.MLP(mf.relu))
    step = kernel_of(mf.recursion(net), True).text.partition("def step_0")[2].partition("\ndef ")[0]
    assert step.count("math.exp(") == 2
    assert step.count("math.expm1(") == 1
    assert "guarded" not in step


@pytest.mark.parametrize("sigma", [0.5, 8.0, 50.0, 1e3])
@pytest.mark.parametrize("c", [0.999, 0.5, 1e-9, 0.0, -0.2, -0.33])
def test_attention_at_any_size_of_logits(sigma: float, c: float) -> None:
    """q', the gap and J of a token after one block, where exponentials are far beyond doubles"""
    given = {"sigma_Q": sigma, "sigma_K": 1.0, "sigma_V": 1.0, "sigma_O": 1.0}
    with mp.workdps(60):
        q, s, others = mp.mpf(1.3), mp.mpf(sigma) ** 2, 3
        p = q * mp.mpf(c)
        d = q - p
        e_q, e_p = mp.exp(-s * q * d), mp.exp(-s * p * d)
        y_q, y_p = 1 / (1 + others * e_q), 1 / (1 + others * e_p)
        end = p + d * y_q
        gap = d * y_q * others * e_p * y_p * -mp.expm1(-s * d * d) / end
        psi = others * e_q * y_q**2 / (1 + 2 * s * q * d * y_q)
        log = mp.log(y_q + s * d * (d + q) * psi)
        conditioned = 1e-14 + 1e-15 * float(s * q * d)  # p = q - delta is in an exponent
    for run in (mf.propagate(mf.Attention(n=4), 1, 1.3, c=c, **given), mf.propagate(mf.Attention(n=4), 1, np.full(70, 1.3), c=c, **given)):
        assert np.ravel(run.q)[-1] == pytest.approx(float(end), rel=1e-14)
        assert np.ravel(run.gap)[-1] == pytest.approx(float(gap), rel=conditioned, abs=1e-300)
        assert np.ravel(run.log_apjn)[0] == pytest.approx(float(log), rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("q", [1.0, 43.0, 60.0, 1e3])
def test_a_token_alone_is_its_own_average(q: float) -> None:
    """with its covariance to itself, however small exp of a logit to another one would be; to another there is none"""
    given = {"n": 1.0, "sigma_Q": 1.0, "sigma_K": 1.0, "sigma_V": 1.0, "sigma_O": 1.0}
    block = mf.Residual(mf.Attention())
    for run in (mf.propagate(block, 1, q, c=-0.3, **given), mf.propagate(block, 1, np.full(70, q), c=-0.3, **given)):
        assert np.ravel(run.q)[-1] == pytest.approx(2 * q, rel=1e-14)
        assert np.isnan(np.ravel(run.c)).all()
        assert np.ravel(run.log_apjn)[0] == pytest.approx(np.log(2), rel=1e-14)
