"""Coefficients that are expressions: laws know their squares, so what is no real number, or negative where it must not be, is refused."""

import dataclasses
import re

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

A = sp.Symbol("a", real=True)
LATER = mf.Residual(mf.MLP(mf.tanh, 1, 1), scale=sp.sqrt(mf.l - 1))
ROTATED = mf.Residual(mf.MLP(mf.tanh, 1, 1), skip=sp.sqrt(1 - A**2), scale=A)


def test_a_scale_that_is_imaginary_in_the_first_repeat_is_refused():
    with pytest.raises(ValueError, match=r"scale = sqrt\(l - 1\): expected a real number, got none at l = 0$"):
        mf.propagate(LATER, depth=5, q=1.0)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: mf.propagate(ROTATED, depth=5, q=1.0, a=np.array([0.5, 1.5])),
        lambda: mf.propagate(ROTATED, depth=5, q=1.0, q2=2.0, c=0.5, a=1.5),
        lambda: mf.sensitivity(ROTATED, 5, q=1.0, a=1.5),
        lambda: mf.fixed_points(ROTATED, a=1.5),
    ],
)
def test_a_skip_that_is_imaginary_at_a_setting_is_refused_everywhere(ask):
    with pytest.raises(ValueError, match=r"skip = sqrt\(1 - a\*\*2\): expected a real number, got none at a = 1.5$"):
        ask()


def test_settings_that_are_infinite_hide_none_that_is_imaginary():
    a = sp.Symbol("a", real=True)
    net = mf.Residual(mf.mlp(mf.relu), scale=sp.exp(a) + sp.sqrt(a + 1))
    with pytest.raises(ValueError, match=r"expected a real number, got none at a = -2$"):
        mf.propagate(net, 3, q=1.0, sigma_w=1, sigma_b=0, a=np.array([1000.0] * 60 + [-2.0]))


def test_a_real_skip_of_a_setting_is_taken():
    run = mf.propagate(ROTATED, depth=1, q=1.0, a=0.6)
    assert run.q[1] == pytest.approx(0.64 + 0.36 * mf.evaluate(mf.tanh.second_moment(1)), rel=1e-14)


@pytest.mark.parametrize(("sigma", "where"), [(A - 1, "at a = 0.5"), (mf.l - A, "at l = 0, a = 0.5")])
def test_a_weight_scale_that_comes_out_negative_is_refused(sigma, where):
    with pytest.raises(ValueError, match=r"sigma_w = -0.5: weight scale of a linear map; it must be at least 0: sigma_w = .* " + where):
        mf.propagate(mf.MLP(mf.erf, sigma, 1), depth=3, q=1.0, a=0.5)


def test_a_skip_that_falls_to_0_over_depth_is_taken():
    run = mf.propagate(mf.Residual(mf.MLP(mf.relu, 1, 1), skip=sp.sqrt(1 - mf.l / mf.L)), depth=4, q=1.0)
    assert run.q == pytest.approx(np.cumprod([1, 1.5, 1.25, 1, 0.75]), rel=1e-14)


def test_letters_of_a_users_own_block_mean_what_they_mean_there():
    @dataclasses.dataclass(frozen=True)
    class Gained(mf.Block):
        alpha: sp.Expr

        def law(self, x):
            return mf.Law(x.times(self.alpha), transfer=self.alpha**2 * sp.eye(2), chi=self.alpha**2)

    assert mf.propagate(Gained(-A), 1, 1.0, a=2.0).q[-1] == 4
    with pytest.raises(ValueError, match=r"Gained.alpha = sqrt\(a\): expected a real number"):
        mf.propagate(Gained(sp.sqrt(A)), 1, 1.0, a=-2.0)


@pytest.mark.parametrize(
    ("scale", "where"),
    [
        (1 / mf.l, "l = 0 "),
        (sp.log(mf.l), "l = 0 "),
        (1 / (mf.l - 2), "l = 2 "),
        (1 / (mf.l - A), "l = 3, a = 3 "),
    ],
)
@pytest.mark.parametrize("second", [{}, {"q2": 2.0, "c": 0.5}])
def test_a_scale_that_is_infinite_in_a_repeat_is_refused_where_it_is(scale, where, second):
    net, given = mf.Residual(mf.MLP(mf.relu, 1, 1), scale=scale), {"a": np.array([2.5, 3.0])} if scale.has(A) else {}
    with pytest.raises(ValueError, match=rf"scale = {re.escape(str(scale))}: expected a finite number, got none at {where}"):
        mf.propagate(net, 5, 1.0, **second, **given)


def test_a_setting_at_which_a_scale_is_infinite_says_so_beside_the_others():
    run = mf.propagate(mf.Residual(mf.Linear(1, 0), scale=1 / A), 3, 1.0, a=np.array([0.0, 1.0]))
    assert run.status.tolist() == ["overflow", "ok"]
    assert run.q[1, -1] == 8


def test_a_scale_whose_pole_is_not_reached_is_taken():
    net = mf.Residual(mf.Linear(1, 0), scale=1 / (mf.l - 20))
    assert mf.propagate(net, 20, 1.0).q[-1] == pytest.approx(np.prod(1 + 1 / (np.arange(20.0) - 20) ** 2), rel=1e-14)
    with pytest.raises(ValueError, match=r"at l = 20 "):
        mf.propagate(net, 21, 1.0)


@pytest.mark.parametrize("place", [3_000_000, 10**9 - 1])
def test_a_pole_far_down_is_found_before_any_work(place):
    with pytest.raises(ValueError, match=rf"at l = {place} "):
        mf.propagate(mf.Residual(mf.Linear(1, 0), scale=1 / (mf.l - place)), 10**9, 1.0, record="last")


@pytest.mark.parametrize(
    "scale",
    [
        1 / sp.factorial(mf.l),
        sp.factorial(mf.l) / sp.factorial(mf.l + 1),
        sp.gamma(mf.l + sp.S.Half) / sp.gamma(mf.l + 1),
        sp.binomial(mf.L - 1, mf.l) / 2**mf.L,
        1 / sp.binomial(mf.l + 2, 2),
    ],
)
@pytest.mark.parametrize("second", [{}, {"q2": 1.0, "c": 0.5}])
def test_factorials_and_binomials_of_the_repeat_are_right_to_double_precision(scale, second):
    depth = 60
    exact = sp.prod([1 + scale.subs({mf.L: depth, mf.l: i}) ** 2 for i in range(depth)])
    run = mf.propagate(mf.Residual(mf.Linear(1, 0), scale=scale), depth, 1.0, **second)
    assert np.ravel(run.q)[-1] == pytest.approx(float(exact.n(25)), rel=1e-13)


def test_a_factorial_beyond_all_doubles_leaves_a_scale_of_0():
    run = mf.propagate(mf.Residual(mf.Linear(1, 0), scale=1 / sp.factorial(mf.l)), 300, 1.0)
    assert run.status == "ok"
    assert run.q[-1] == run.q[100]


@pytest.mark.parametrize(
    ("scale", "why"),
    [
        (sp.harmonic(mf.l), "harmonic has no numeric form"),
        (sp.zeta(mf.l + 2), "zeta has no numeric form"),
        (sp.gamma(mf.l + 1) / sp.gamma(mf.l + 2), "parts of it are no doubles at l = 171, where it is 0.00581395: write it without them"),
    ],
)
def test_a_scale_that_doubles_do_not_hold_is_refused_by_name(scale, why):
    with pytest.raises(ValueError, match=re.escape(f"scale = {scale}: {why}")):
        mf.propagate(mf.Residual(mf.MLP(mf.relu, 1, 1), scale=scale), 300, 1.0)


def test_a_scale_that_outgrows_doubles_ends_in_its_status():
    assert mf.propagate(mf.Residual(mf.Linear(1, 0), scale=sp.exp(mf.l**3)), 30, 1.0).status == "overflow"
