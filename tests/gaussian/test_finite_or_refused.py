"""Functions without a value somewhere, expectations that are infinite, and what is large: an answer, or a refusal that says why."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf

x, q, p, delta = mf.x, mf.q, mf.p, mf.delta


@pytest.mark.parametrize(
    ("f", "where"),
    [
        (sp.Piecewise((x, x > 0)), "-1"),
        (sp.Piecewise((sp.tanh(x), x < 1), (sp.sin(x), x > 2)), "3/2"),
        (x + sp.Piecewise((x, sp.sin(x) > 0)), "-41/3"),
        (sp.Piecewise((x, x > sp.Symbol("a"))), "a - 1"),
    ],
    ids=["half line", "hole", "stripes", "parameter"],
)
def test_a_piecewise_with_a_hole_is_refused_when_built(f: sp.Expr, where: str) -> None:
    with pytest.raises(ValueError, match=f"expression = .* has no value at x = {where}: end it with"):
        mf.Activation(f)


def test_a_piecewise_may_leave_out_a_point() -> None:
    phi = mf.Activation(sp.Piecewise((x, x > 0), (-x, x < 0)))
    assert phi.kernel(q, p) == mf.abs.kernel(q, p)


STEEP = mf.Activation(sp.exp(x**2 / 5))


@pytest.mark.parametrize(
    ("ask", "bound"),
    [
        (lambda: STEEP.second_moment(2), "q < 5/4"),
        (lambda: STEEP.mean(sp.Rational(5, 2)), "q < 5/2"),
        (lambda: STEEP.kernel(2, -1), r"q \+ Abs\(p\) < 5/2"),
        (lambda: STEEP.gap(2, 0.1), "q < 5/4"),
        (lambda: mf.Activation(sp.tanh(x) * sp.exp(x**2 / 5)).second_moment(2), "q < 5/4"),
    ],
    ids=["second moment", "mean", "kernel", "gap", "without a closed form"],
)
def test_a_moment_at_a_number_where_it_is_infinite_is_refused(ask: Callable[[], Any], bound: str) -> None:
    with pytest.raises(ValueError, match=f"is infinite: it is finite only for {bound}$"):
        ask()


@pytest.mark.parametrize("f", [1 / x, 1 / x**2, 1 / sp.Abs(x), 1 / (x - 3) ** 2], ids=str)
def test_an_expectation_next_to_a_pole_diverges(f: sp.Expr) -> None:
    with pytest.raises(ValueError, match="diverges"):
        mf.evaluate(mf.E(f, 1))


def test_a_power_that_takes_a_thousand_steps() -> None:
    """E u^2000 = 1999!!"""
    second = mf.Activation(x**1000).second_moment(q)
    assert mf.evaluate(second, q=1.0, log=True) == pytest.approx(float(mp.log(mp.fac2(1999))), rel=1e-14)
    with pytest.raises(OverflowError, match="log=True"):
        mf.evaluate(second, q=1.0)


@pytest.mark.parametrize("k", [1, 2])
def test_a_product_that_vanishes_where_its_factor_overflows(k: int) -> None:
    """E e^(-u) max(u, 0)^k = q^k R_k(sqrt q) by parts, as its spelling in pieces has it, however large q is"""
    product = mf.Activation(sp.exp(-x) * sp.Max(x, 0) ** k)
    pieces = mf.Activation(sp.Piecewise((x**k * sp.exp(-x), x > 0), (0, True)))
    for variance in (1.0, 1e4, 1e12):
        got = [mf.evaluate(phi.mean(q), q=variance) for phi in (product, pieces)]
        seconds = [mf.evaluate(phi.second_moment(q), q=variance) for phi in (product, pieces)]
        assert got[0] == pytest.approx(got[1], rel=1e-14)
        assert seconds[0] == pytest.approx(seconds[1], rel=1e-14)
    # int_0^oo u^k e^(-u) e^(-u^2/(2q)) du -> k! as q -> oo
    assert got[0] == pytest.approx(math.factorial(k) / math.sqrt(2 * math.pi * 1e12), rel=1e-10)
    assert seconds[0] == pytest.approx(math.factorial(2 * k) / 2 ** (2 * k + 1) / math.sqrt(2 * math.pi * 1e12), rel=1e-10)


@pytest.mark.parametrize("f", [sp.exp(-(x**4)), x * sp.exp(-(x**4)), sp.exp(-sp.cosh(x))], ids=str)
def test_identities_of_a_function_that_vanishes_fast(f: sp.Expr) -> None:
    found = mf.Activation(f).identities()
    assert "heat" in {i.rule for i in found}
    assert all(i.holds for i in found if i.rule != "heat")


def test_units_with_an_alpha_of_any_sign() -> None:
    """torch.nn.ELU takes every real alpha, and the kernel is linear in its branches"""
    low = lambda z: -mp.expm1(z) if z < 0 else z  # noqa: E731
    second = mp.quad(lambda z: low(z) ** 2 * mp.npdf(z), [-20, 0, 20])
    assert mf.evaluate(mf.elu(-1).second_moment(q), q=1.0) == pytest.approx(float(second), rel=1e-13)
    for refused in (lambda: mf.celu(-1), lambda: mf.celu(0)):
        with pytest.raises(ValueError, match=r"alpha = -?\d: expected a positive number"):
            refused()


def test_a_gaussian_activation_that_grows() -> None:
    with pytest.raises(ValueError, match=r"b = 2: .*pass -2"):
        mf.gauss(1, 2)
    assert mf.gauss(1, sp.Rational(1, 5)) == STEEP


def test_digits_without_end_name_what_there_is() -> None:
    with pytest.raises(ValueError, match="digits = 1000000000: expected at most 1000000"):
        mf.evaluate(mf.tanh.second_moment(1), digits=10**9)
    with pytest.raises(ArithmeticError, match=r"at most \d{4} digits"):
        mf.evaluate(mf.tanh.second_moment(1), digits=10**5)


def test_a_covariance_just_beyond_the_variance_is_shown_in_full() -> None:
    with pytest.raises(ValueError, match=r"p = 1\.0000001: \|p\| must be at most sqrt\(q1 q2\) = 1"):
        mf.evaluate(mf.tanh.kernel(q, p), q=1.0, p=1.0000001)
