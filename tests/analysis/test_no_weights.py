"""Networks whose weights are exactly 0: each answer says q* = sigma_b^2, c* = 1, chi = 0 and J = 0, also of what jumps."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

JUMPS = [mf.sign, mf.relu]
AT = {"sigma_w": 0.0, "sigma_b": 0.5}


@pytest.mark.parametrize("phi", JUMPS, ids=str)
def test_a_run_has_no_gradient_and_says_so(phi: mf.Activation) -> None:
    run = mf.propagate(mf.mlp(phi), 3, 1.0, p=0.4, sigma_w=np.array([0.0, 1.0]), sigma_b=0.5)
    assert (run.status[0], run.q[0, -1], run.c[0, -1], run.chi[0].max()) == ("zero APJN", 0.25, 1.0, 0.0)
    assert run.log_apjn[0].tolist() == [-np.inf] * 3 + [0.0]
    assert run.status[1] == ("infinite APJN" if phi is mf.sign else "ok")


def test_a_single_input_without_gradient_has_no_negative_one() -> None:
    assert mf.propagate(mf.mlp(mf.tanh), 3, 1.0, **AT).status == "zero APJN"


@pytest.mark.parametrize("phi", JUMPS, ids=str)
def test_the_only_fixed_point_is_that_of_the_bias_and_attracts(phi: mf.Activation) -> None:
    (point,) = mf.fixed_points(mf.mlp(phi), **AT)
    assert (point.q, point.c, point.chi, point.stable) == (pytest.approx(0.25, rel=1e-15), 1.0, 0.0, True)


@pytest.mark.parametrize("phi", JUMPS, ids=str)
def test_no_bias_makes_it_critical(phi: mf.Activation) -> None:
    found = mf.critical(mf.mlp(phi), sigma_w=0)
    assert (dict(found), found.status) == ({}, "none")
    assert found.reason.startswith("chi = 0 for any parameters")


@pytest.mark.parametrize("phi", JUMPS, ids=str)
def test_gap_and_gradient_vanish_faster_than_any_exponential(phi: mf.Activation) -> None:
    law = mf.growth(mf.mlp(phi), sigma_w=0)
    assert law.q.limit == sp.Symbol("sigma_b", positive=True) ** 2
    assert [(g.kind, g.rate) for g in (law.gap, law.apjn)] == [("exponential", -sp.oo)] * 2


def test_without_bias_nothing_is_left() -> None:
    law = mf.growth(mf.mlp(mf.tanh), sigma_w=0, sigma_b=0)
    assert [(g.kind, g.rate) for g in (law.q, law.apjn)] == [("exponential", -sp.oo)] * 2
    assert law.gap.kind == "undetermined"
    assert "q is 0 from the first repeat on" in law.gap.reason


@pytest.mark.parametrize("phi", JUMPS, ids=str)
def test_a_phase_diagram_begins_in_order(phi: mf.Activation) -> None:
    diagram = mf.phase_diagram(mf.mlp(phi), sigma_w=[0.0, 0.5], sigma_b=[0.0, 0.5])
    assert (diagram.phase[0].tolist(), diagram.chi[0].tolist(), diagram.q[0].tolist()) == (["ordered"] * 2, [0.0] * 2, [0.0, 0.25])
    assert (diagram.status[0].tolist(), diagram.c[0, 1], diagram.critical_lines) == (["c open", "ok"], 1.0, ())
    assert diagram.growth["apjn"][0].tolist() == ["exponential"] * 2
    assert (diagram.growth["q"][0].tolist(), diagram.growth["gap"][0, 1]) == (["exponential", "bounded"], "exponential")


def test_a_weight_that_is_a_number_keeps_its_infinity() -> None:
    assert (
        mf.phase_diagram(mf.Residual(mf.Activate(mf.sign) >> mf.Linear(1), skip=sp.Symbol("s")), s=[0.1, 0.5], sigma_b=[0.1, 1.0])
    ).status[0, 0] == "infinite APJN"
    assert mf.propagate(mf.mlp(mf.sign, sigma_w=1, sigma_b=0), 3, 1.0).status == "infinite APJN"
