"""Functions of two Gaussians along one direction: the larger of two, of a difference, and what else is a mean of one Gaussian."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield import p, q, x, y
from meanfield.numeric.printing import Unsupported


def test_the_larger_of_two_has_a_closed_form_and_numbers() -> None:
    larger = mf.E(sp.Max(x, y), q, p)
    assert larger.doit() == sp.sqrt(q - p) / sp.sqrt(sp.pi)
    assert mf.evaluate(larger, q=1, p=0.5) == pytest.approx(0.3989422804014327, rel=1e-15)
    assert mf.evaluate(larger, q=1, p=1) == 0
    precise = mf.evaluate(larger, q=1, p=sp.Rational(1, 2), digits=30)
    with mp.workdps(40):
        assert abs(precise * mp.sqrt(2 * mp.pi) - 1) < 1e-30


def test_unequal_variances_means_and_signs() -> None:
    """E min(u, 2 v) is minus half the mean of |u - 2 v|"""
    form = mf.E(sp.Min(x, 2 * y), q, p).doit()
    assert sp.simplify(form + sp.sqrt(5 * q - 4 * p) / sp.sqrt(2 * sp.pi)) == 0
    assert mf.E(sp.Max(0, x - y) ** 2, q, p).doit().equals(q - p)


def test_a_function_of_a_difference_is_a_mean_of_one_variable() -> None:
    spread = mf.E(sp.tanh(x - y) ** 2, q, p)
    assert mf.evaluate(spread, q=1.0, p=0.25) == pytest.approx(mf.evaluate(mf.tanh.second_moment(q), q=1.5), rel=1e-14)
    assert mf.evaluate(spread, q=1, p=sp.Rational(1, 4), digits=20) == pytest.approx(mf.evaluate(mf.tanh.second_moment(1.5)), rel=1e-14)
    assert mf.evaluate(spread, q=1.0, p=1.0) == 0


def test_the_hint_of_what_is_refused_holds() -> None:
    product = mf.E(sp.tanh(x * y), q, p)
    with pytest.raises(Unsupported, match="evaluate it with digits="):
        mf.evaluate(product, q=1, p=0.5)
    assert abs(mf.evaluate(product, q=1, p=0.5, digits=12) - 0.24009574591529) < 1e-12
    with pytest.raises(Unsupported, match="write it as a sum"):
        mf.evaluate(mf.E(sp.tanh(x) * sp.Max(x, y), q, p), q=1, p=0.5)
