"""Values with error bounds: no law brings the process down, bounds hold, none is infinite or far above rounding."""

from __future__ import annotations

import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf

x, q, p, delta = mf.x, mf.q, mf.p, mf.delta

KINKED = """
import sympy as sp
import meanfield as mf
x = mf.x
for f in (x / (1 + sp.Abs(x)), x * sp.tanh(sp.Max(x, 0)), sp.Max(x, 0) * sp.tanh(x), sp.Max(sp.tanh(x), x / 3), sp.tanh(sp.Abs(x)),
          sp.Abs(sp.tanh(x - 1)), sp.log(1 + sp.Abs(x))):
    value, bound = mf.evaluate(mf.Activation(f).kernel(mf.q, mf.p), q=[40.0, 100.0, 1e4], p=0.0, error=True)
    assert (bound <= 1e-13 * abs(value)).all(), (f, value, bound)
print("alive")
"""


def test_bounds_of_uncorrelated_inputs_of_kinked_functions_leave_the_process_alive() -> None:
    done = subprocess.run([sys.executable, "-c", KINKED], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


@pytest.mark.parametrize("name", ["silu", "softplus", "elu"])
def test_uncorrelated_inputs_have_bounds_that_hold_and_are_small(name: str) -> None:
    phi = mf.activations[name]
    for v in (1e-3, 1.0, 40.0, 1e6):
        value, bound = mf.evaluate(phi.kernel(q, p), q=v, p=0.0, error=True)
        true = mf.evaluate(phi.mean(q), q=v, digits=25) ** 2
        size = mf.evaluate(mf.Activation(sp.Abs(phi.expression)).mean(q), q=v) ** 2
        assert abs(mp.mpf(value) - true) <= bound <= 5e-14 * size


def test_a_product_of_means_has_the_bounds_of_both() -> None:
    phi = mf.Activation(sp.sqrt(1 + x**2))
    value, bound = mf.evaluate(phi.kernel(q, p), q=40.0, p=0.0, error=True)
    true = mf.evaluate(phi.mean(q), q=40, digits=25) ** 2
    assert abs(mp.mpf(value) - true) <= bound <= 2e-14 * true


def test_a_mean_that_is_0_is_known_exactly() -> None:
    assert mf.evaluate(mf.tanh.kernel(q, p), q=[1e-6, 3.0], p=0.0, error=True)[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("f", [sp.exp(-(x**4)), x / (1 + x**2), 1 / sp.cosh(x)], ids=str)
def test_bounds_of_what_is_narrow_against_the_gaussian_are_on_its_own_scale(f: sp.Expr) -> None:
    """E f of a narrow f is sqrt(q) times smaller than the root of E f^2"""
    phi = mf.Activation(f)
    for e in (phi.second_moment(q), *([] if phi.mean(q) == 0 else [phi.mean(q)])):
        value, bound = mf.evaluate(e, q=1e12, error=True)
        true = mf.evaluate(e, q=10**12, digits=25)
        assert abs(mp.mpf(value) - true) <= bound <= 1e-12 * true


def test_the_rounding_of_a_function_that_is_summed_by_its_taylor_series_does_not_count() -> None:
    """sqrt(1 + x^2) - 1 loses all digits next to 0, its series none"""
    phi = mf.bentid
    value, bound = mf.evaluate(phi.kernel(q, p), q=1e-12, p=np.array([0.0, 1.0, -1.0, 0.5]) * 1e-12, error=True)
    assert (bound <= 1e-13 * np.abs(value)).all()


def test_an_overflow_in_the_rounding_of_a_function_is_no_infinite_bound() -> None:
    """x tanh(e^x) is x to 60 digits beyond 5, and 0 to 20 below -50"""
    slope = mf.tanh_exp.derivative
    value, bound = mf.evaluate(slope.second_moment(q), q=[1e4, 1e12], error=True)
    with mp.workdps(25):
        f = sp.lambdify(x, slope.expression, "mpmath")
        for v, b, s in zip(value, bound, (100, 10**6), strict=True):
            near = mp.quad(lambda t, s=s: f(t) ** 2 * mp.npdf(t, 0, s), [-50, -20, -8, -4, -2, -1, 0, 0.5, 1, 2, 3, 5])
            true = near + mp.ncdf(-mp.mpf(5) / s)
            assert abs(mp.mpf(float(v)) - true) <= b <= 1e-13 * true


def test_bounds_over_the_catalogue() -> None:
    """none is infinite or above 1e-12 E |phi phi| at any size of the variance, for one smooth entry, one kinked and one of one side"""
    v, ratio = (a.ravel() for a in np.meshgrid([1e-12, 1e-3, 1.0, 100.0, 1e4, 1e12], [0.0, 1.0, -1.0, 0.5]))
    for phi in (mf.mish, mf.softsign, mf.log_sigmoid):
        size = mf.evaluate(mf.Activation(sp.Abs(phi.expression)).kernel(q, p), q=v, p=v * ratio)
        value, bound = mf.evaluate(phi.kernel(q, p), q=v, p=v * ratio, error=True)
        assert np.isfinite(value).all()
        assert (bound <= 1e-12 * size).all(), phi


STEP = sp.Heaviside(x)
RELU = sp.Max(x, 0)
ONE_SIDED = (RELU**2, RELU**3, RELU**4, STEP * sp.exp(-(x**2)), RELU * sp.exp(-(x**2)), RELU**2 * sp.exp(-(x**2) / 2), x * sp.Abs(x))


@pytest.mark.parametrize("f", ONE_SIDED)
def test_exact_zeros_are_exact_at_the_ends_of_the_correlation(f: sp.Expr) -> None:
    """u = v has no gap, and u = -v no product of one side"""
    phi = mf.Activation(f)
    v = np.array([1e-12, 1e-3, 1.0, 7.0, 1e12])
    value, bound = mf.evaluate(phi.gap(q, delta), q=v, delta=0.0, error=True)
    assert (value == 0).all()
    assert (bound == 0).all()
    if f != x * sp.Abs(x):
        value, bound = mf.evaluate(phi.kernel(q, p), q=v, p=-v, error=True)
        assert (value == 0).all()
        assert (bound == 0).all()


@pytest.mark.parametrize("f", ONE_SIDED)
def test_the_gap_of_opposite_inputs_of_one_side_has_a_bound_as_small_as_rounding(f: sp.Expr) -> None:
    phi = mf.Activation(f)
    v = np.array([1e-12, 1e-3, 1.0, 7.0, 1e12])
    value, bound = mf.evaluate(phi.gap(q, delta), q=v, delta=2 * v, error=True)
    for true, got, b in zip((mf.evaluate(phi.gap(q, delta), q=a, delta=2 * a, digits=25) for a in v), value, bound, strict=True):
        assert abs(mp.mpf(float(got)) - true) <= b <= 1e-12 * abs(true)


def test_bounds_of_the_gap_of_a_root_hold_and_are_near_rounding() -> None:
    """whose slope has no second moment"""
    e = mf.Activation(sp.Abs(x) ** sp.Rational(1, 10)).gap(q, delta)
    value, bound = mf.evaluate(e, q=1e4, delta=1e-4, error=True)
    true = mf.evaluate(e, q=10**4, delta=sp.Rational(1, 10**4), digits=20)
    assert abs(mp.mpf(value) - true) <= bound <= 3e-12 * value


def test_bounds_see_laws_whose_inputs_doubles_do_not_tell_apart() -> None:
    """the gap of |x|^{3/2} is delta E f'(u)^2 there, whatever the detail of the rule"""
    value, bound = mf.evaluate(mf.Activation(sp.Abs(x) ** sp.Rational(3, 2)).gap(q, delta), q=1.0, delta=1e-290, error=True)
    assert abs(value - 2.25 * np.sqrt(2 / np.pi) * 1e-290) <= bound <= 1e-12 * value
