"""Where q = 0 is left because dq'/dq is infinite there, and where chi is infinite whatever the parameters are."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf

x = mf.x


@pytest.mark.parametrize("power", [sp.Rational(1, 2), sp.Rational(3, 4)], ids=str)
def test_a_variance_that_grows_as_a_root_leaves_0(power: sp.Rational) -> None:
    """q' = sigma_w^2 E|u|^(2a) is proportional to q^a"""
    net = mf.mlp(mf.Activation(sp.sign(x) * sp.Abs(x) ** power))
    at_0 = [f for f in mf.fixed_points(net, sigma_w=1, sigma_b=0) if f.q == 0]
    assert at_0
    assert not any(f.stable for f in at_0)
    assert all(f.chi_parallel == float("inf") for f in at_0)
    run = mf.propagate(net, 3, 1e-10, sigma_w=1, sigma_b=0)
    assert run.q[3] > 1e4 * run.q[0]


def test_no_parameters_make_an_infinite_chi_critical() -> None:
    found = mf.critical(mf.mlp(mf.Activation(sp.sqrt(sp.Abs(x)))), q=1)
    assert found.status == "none"
    assert found.reason == "the square of the slope is not integrable: chi is infinite for any parameters"
    assert mf.critical(mf.mlp(mf.step), q=1).reason == "the activation jumps: chi is infinite for any parameters"


def test_the_line_of_a_shifted_leaky_relu_begins_where_the_bias_is_real() -> None:
    """phi phi'' = 0 but for phi(1) = 0: each q that is fixed and critical has dq'/dq = 1"""
    net = mf.mlp(mf.Activation(sp.Piecewise((x - 1, x > 1), ((x - 1) / 2, True))))
    line = mf.critical(net)
    assert line.status == "line"
    assert "where the squares are not negative, as at q = 10.0 but not at q = 1" in line.reason
    for q in (4, 10):
        point = mf.critical(net, q=q)
        assert {name: float(value.subs(mf.q, q)) for name, value in line.items()} == pytest.approx(dict(point), rel=1e-12)
        (found,) = [f for f in mf.fixed_points(net, **point) if f.c == 1 and abs(f.q - q) < 1e-6 * q]
        assert (found.chi, found.chi_parallel) == pytest.approx((1, 1), abs=1e-7)  # a double root of q' - q: q is known to a root of 1e-16
    assert mf.critical(net, q=1).status == "none"
