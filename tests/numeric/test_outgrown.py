"""Gated units without norms, whose variance grows doubly exponentially: numbers up to the end of the doubles, and the word for what comes
after."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

WIDTHS = {"s": 128, "n": 512, "d": 768, "e": 1536}


def test_a_homogeneous_unit_is_homogeneous_to_the_end_of_the_doubles() -> None:
    """relu^2 of overlaps, twice, times two of its inputs: degree 6 in q, and a gradient of degree 5"""
    q = np.array([1.0, 1e10, 1e30, 1e38, 1e45, 1e49])
    run = mf.propagate(mf.GAU(mf.relu, **WIDTHS), 1, q=q, c=0.4)
    assert (run.status == "ok").all()
    assert np.abs(np.log(run.q[:, 1] / run.q[0, 1]) - 6 * np.log(q)).max() < 1e-12
    assert np.abs(run.gap[:, 1] / run.gap[0, 1] - 1).max() < 1e-12
    assert np.abs(run.log_apjn[:, 0] - run.log_apjn[0, 0] - 5 * np.log(q)).max() < 1e-12


def test_a_unit_is_the_homogeneous_one_where_its_activation_is_a_line_far_out() -> None:
    """silu(x) = relu(x) far out, and what is between is 1/sqrt(q) of it"""
    q = np.array([1e26, 1e36, 1e48])
    of, line = (mf.propagate(mf.GAU(phi, **WIDTHS), 1, q=q, c=0.4) for phi in (mf.silu, mf.relu))
    assert (of.status == "ok").all()
    assert np.abs(of.q[:, 1] / line.q[:, 1] - 1).max() < 1e-11
    assert np.abs(of.gap[:, 1] / line.gap[:, 1] - 1).max() < 1e-11


@pytest.mark.parametrize("record", ["all", "last"])
def test_beyond_the_doubles_it_is_an_overflow_where_that_is_a_number_and_else_none(record: str) -> None:
    """a repeat of which no more is known than that its terms are too large is not said to be: they may cancel"""
    net = mf.Residual(mf.GAU(mf.relu, **WIDTHS))
    run = mf.propagate(net, 6, q=[1e-3, 1.0, 1e40, 1e290], c=0.4, record=record)
    assert run.status.tolist() == ["ok", "overflow", "invalid", "invalid"]
    assert np.isnan(run.q[1:, -1]).all()
    plain = mf.propagate(mf.mlp(mf.exp), 6, q=1.0, c=0.4, sigma_w=2.0, sigma_b=0.1, record=record)
    assert plain.status == "overflow"


def test_what_has_no_number_for_other_reasons_is_invalid() -> None:
    bump = mf.mlp(mf.Activation(mf.x * sp.exp(-(mf.x**2))))
    assert mf.propagate(bump, 6, 1e200, c=0.5, sigma_w=1.3, sigma_b=0.1).status == "invalid"
    assert math.isnan(mf.propagate(bump, 6, 1e200, c=0.5, sigma_w=1.3, sigma_b=0.1).q[-1])


STEPPED = sp.Piecewise((-sp.Rational(1, 2), mf.x < -1), (mf.x, mf.x < sp.Rational(1, 2)), (mf.x**2 + 1, True))
RISING = {
    "a broken power": (sp.Abs(mf.x) ** sp.Rational(3, 2), 0.3, 2 * math.sqrt(2 / math.pi), 1.5),
    "a square beside jumps": (STEPPED, 0.1, 1.5, 2.0),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("f", "bias", "factor", "power"), RISING.values(), ids=RISING)
@pytest.mark.parametrize("gap", [None, 0.5])
def test_what_rises_as_a_power_is_right_until_it_leaves_the_doubles(f: sp.Expr, bias: float, factor: float, power: float, gap: Any) -> None:
    for q in (1.0, np.array([1.0, 1e-3])):  # in plain Python and in tables too
        run = mf.propagate(mf.mlp(mf.Activation(f)), 20, q, gap=gap, sigma_w=1.0, sigma_b=bias)
        own = np.atleast_2d(run.q)[0]
        last = int(np.isfinite(own).sum()) - 1
        assert np.ravel(run.status)[0] == "overflow"
        assert np.log10(own[last]) * power > 300
        far = own[: last + 1] > 1e20
        assert np.allclose(own[1 : last + 1][far[:-1]], factor * own[:last][far[:-1]] ** power, rtol=1e-12, atol=0)
        if gap is not None:
            assert np.isfinite(np.atleast_2d(run.gap)[0, : last + 1]).all()


@pytest.mark.filterwarnings("error")
def test_tables_of_what_is_no_double_are_not_made_and_say_nothing() -> None:
    jumping = mf.mlp(mf.Activation(mf.x + 7 * sp.Heaviside(mf.x - 90)))
    run = mf.propagate(jumping, 2, np.geomspace(1e-6, 1e6, 5), gap=0.5, sigma_w=0.5, sigma_b=0.0)
    assert np.isfinite(run.gap).all()
