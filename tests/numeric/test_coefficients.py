"""Coefficients that are expressions: laws know their squares, so what is no real number, or negative where it must not be, is refused."""

import dataclasses

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

A = sp.Symbol("a", real=True)
LATER = mf.Residual(mf.MLP(mf.tanh, 1, 1), scale=sp.sqrt(mf.l - 1))
ROTATED = mf.Residual(mf.MLP(mf.tanh, 1, 1), skip=sp.sqrt(1 - A**2), scale=A)


def test_a_scale_that_is_imaginary_in_the_first_repeat_is_refused():
    with pytest.raises(ValueError, match=r"scale = sqrt\(l - 1\): expected a real number, got none in one of the repeats l = 0, 1, 4"):
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
    with pytest.raises(ValueError, match=r"skip = sqrt\(1 - a\*\*2\): expected a real number, got none at these parameters"):
        ask()


def test_a_real_skip_of_a_setting_is_taken():
    run = mf.propagate(ROTATED, depth=1, q=1.0, a=0.6)
    assert run.q[1] == pytest.approx(0.64 + 0.36 * mf.evaluate(mf.tanh.second_moment(1)), rel=1e-14)


@pytest.mark.parametrize(("sigma", "where"), [(A - 1, "at these parameters"), (mf.l - A, "in one of the repeats l = 0, 1, 2")])
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
