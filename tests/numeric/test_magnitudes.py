"""Numbers of a layer at variances so large, or so small, that powers of them are no doubles, or that terms of a closed form cancel."""

import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian import closed
from meanfield.numeric.far_powers import far_power
from meanfield.numeric.magnitudes import chained
from meanfield.numeric.printing import KernelPrinter

x, q, delta = mf.x, mf.q, mf.delta


def test_gelu_is_relu_as_long_as_variances_are_doubles():
    given = {"q": 3e152, "gap": 0.37, "record": 40, "sigma_w": np.array([0.7, 0.9]), "sigma_b": 0.0}
    run, other = (mf.propagate(mf.residual_mlp(phi, norm=None), 900, **given) for phi in (mf.gelu, mf.relu))
    assert (run.status == "ok").all()
    assert other.q.max() > 1e280
    for name in ("q", "gap", "log_apjn"):
        np.testing.assert_allclose(getattr(run, name), getattr(other, name), rtol=1e-11, atol=1e-11)


def test_derf_saturates_as_long_as_variances_are_doubles():
    far, near = (mf.propagate(mf.mlp(mf.derf), 1, v, gap=0.7, record="last", alpha=1.3, sigma_w=1.0, sigma_b=0.0) for v in (3e260, 3e40))
    assert far.status == "ok"
    np.testing.assert_allclose([far.q, far.gap], [near.q, near.gap], rtol=1e-15)


@pytest.mark.parametrize("f", [x * sp.cos(3 * x / 2), x * sp.sin(2 * x) + x / 2])
@pytest.mark.parametrize("v", [7.0, 3e3, 2e7, 7e13, 1e200])
@pytest.mark.parametrize("gap", [1.5, 0.3, 1e-6])
def test_gap_of_oscillation_that_grows(f, v, gap):
    run = mf.propagate(mf.mlp(mf.Activation(f)), 1, v, gap=gap, record="last", sigma_w=1.0, sigma_b=0.0)
    second, kernel = sp.lambdify(q, closed.product_mean(f, f), "mpmath"), sp.lambdify((q, mf.p), closed.cross(f, f), "mpmath")
    with mp.workdps(500):
        true = second(mp.mpf(v)) - kernel(mp.mpf(v), mp.mpf(v) - mp.mpf(v * gap))
        assert run.status == "ok"
        assert float(run.gap[-1] * run.q[-1]) == pytest.approx(float(true), rel=1e-12)


def test_product_that_leaves_the_doubles_on_the_way_does_not():
    (e,) = chained([q**3 * delta / (1 + q) ** 3 * sp.exp(-2 / (1 + q))], {})
    text = KernelPrinter({q: "q", delta: "delta"}).doprint(e)
    assert eval(text, {"math": math, "q": 1e200, "delta": 3e199}) == pytest.approx(3e199)


@pytest.mark.parametrize("v", [5e108, 4e150, 7e296])
def test_quadrature_goes_on_as_long_as_variances_are_doubles(v):
    bent = mf.Activation(2 * x * (1 + sp.tanh(x)) / 3 + x / 5 + sp.atan(x))
    given = {"depth": 2, "q": v, "gap": 0.8, "record": "last", "sigma_w": 1.1, "sigma_b": 0.4}
    run, other = (mf.propagate(mf.residual_mlp(f, norm=None), **given) for f in (bent, mf.Activation(4 * sp.Max(x, 0) / 3 + x / 5)))
    assert run.status == other.status == "ok"
    np.testing.assert_allclose([run.q, run.gap], [other.q, other.gap], rtol=3e-14)
    np.testing.assert_allclose(run.log_apjn, other.log_apjn, atol=3e-14)


@pytest.mark.parametrize(
    ("f", "power"),
    [
        (x / (1 + sp.exp(-x)), 1),
        (sp.tanh(x) ** 2, 0),
        (x**2 + sp.atan(x), 2),
        (sp.sin(x) + x, 1),
        (sp.sin(x), None),
        (x * sp.log(2 + x**2), None),
        (x**3, 3),
        (x**5, None),
        (sp.exp(-(x**2)), None),
        (sp.sqrt(sp.Abs(x)), sp.Rational(1, 2)),
    ],
)
def test_powers_far_out(f, power):
    assert far_power(f) == power


@pytest.mark.parametrize(("width", "place"), [(100, 2), (100, -2), (10, 6), (1, 20)])
def test_a_bump_far_out_keeps_its_constant_in_its_exponent(width: int, place: int) -> None:
    """exp(-k (x - c)^2) as exp(-k c^2) exp(2 k c x - k x^2) is 0 times infinity"""
    bump = mf.Activation(sp.exp(-width * (x - place) ** 2))
    run = mf.propagate(mf.mlp(bump), 2, 13.0, c=np.array([-0.5, 0.4]), sigma_w=3.0, sigma_b=0.8)
    kernel = mf.evaluate(bump.kernel(mf.q, mf.p), q=13.0, p=13.0 * np.array([-0.5, 0.4]))
    assert run.status.tolist() == ["ok", "ok"]
    np.testing.assert_allclose(run.p[:, 1], 9 * kernel + 0.8**2, rtol=1e-14)


def test_a_run_without_numbers_says_so() -> None:
    run = mf.propagate(mf.mlp(mf.relu), 2000, 1.0, c=np.array([0.1, 0.2]), sigma_w=3.0, sigma_b=0.0)
    assert "overflow" in repr(run)
    assert "no q_L" in repr(run)


@pytest.mark.parametrize("n", [17, 41, 61])
def test_a_power_below_the_doubles_with_a_large_number_before_it_keeps_its_digits(n: int) -> None:
    """81!! q^41 is 1e-262 where q^41 is 1e-323, of which a double has a digit or none"""
    power, ways = mf.Activation(x**n), sp.factorial2(2 * n - 1)
    v = float((sp.Float("1e-285", 30) / ways) ** sp.Rational(1, n))
    true = float(ways * sp.Rational(v) ** n)
    assert mf.evaluate(power.second_moment(q), q=v) == pytest.approx(true, rel=1e-13)
    assert mf.evaluate(power.gap(q, delta), q=v, delta=v) == pytest.approx(true, rel=1e-12)
    assert mf.propagate(mf.mlp(power), 1, v, sigma_w=1, sigma_b=0).q[1] == pytest.approx(true, rel=1e-13)
