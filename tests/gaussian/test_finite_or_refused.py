"""Functions without a value somewhere, expectations that are infinite, and what is large: an answer, or a refusal that says why."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf

x, q, p, delta, R = mf.x, mf.q, mf.p, mf.delta, sp.Rational


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


JUMPS = {
    "at 0": sp.Heaviside(x) - sp.cos(x),
    "of both signs": sp.Piecewise((sp.tanh(x), sp.Abs(x) < R(3, 4)), (sp.sign(x), True)),
    "closed": sp.Piecewise((x, sp.Abs(x) < 2), (0, True)),
    "at the side": sp.Heaviside(x - R(1, 3)) + sp.atan(x),
}


@pytest.mark.parametrize("name", JUMPS)
def test_the_kernel_of_the_derivative_of_a_jump_is_infinite_where_two_inputs_are_one(name: str, recwarn: pytest.WarningsRecorder) -> None:
    slope = mf.Activation(JUMPS[name]).derivative
    assert slope.kernel(1, 1) is slope.kernel(q, q) is slope.gap(1, 1) is slope.gap(q, delta) is sp.oo
    kernel, variances = slope.kernel(q, p), [0.7, 0.9, 3.0]
    for e, law in ((kernel, {"q": 1.3, "p": 1.3}), (slope.kernel(2, 2), {}), (slope.gap(2, 1), {}), (slope.gap(q, delta), {"q": 1.0})):
        assert mf.evaluate(e, **law) == mf.evaluate(e, log=True, **law) == math.inf
        assert mf.evaluate(e, error=True, **law) == (math.inf, 0.0)
        assert mp.isinf(mf.evaluate(e, digits=15, **law))
    both = mf.evaluate(kernel, q=variances, p=[0.7, 0.2, 3.0])
    one = mf.evaluate(kernel, q=0.9, p=0.2)
    assert both.tolist() == pytest.approx([math.inf, one, math.inf], rel=1e-13)
    value, bound = mf.evaluate(kernel, q=variances, p=[0.7, 0.2, 3.0], error=True)
    assert np.isinf(value).tolist() == [True, False, True]
    assert bound[0] == bound[2] == 0 < bound[1] < 1e-12 * value[1]
    assert mf.evaluate(kernel, q=variances, p=[0.7, 0.2, 3.0], log=True)[1] == pytest.approx(math.log(one), rel=1e-12)
    assert not recwarn.list


def test_the_sign_of_infinity_is_that_of_the_jumps_that_meet() -> None:
    """at v = -u the jumps of an odd function meet those of their own sign, those of an even function those of the other"""
    odd, even = sp.Piecewise((x, sp.Abs(x) < 2), (0, True)), sp.Piecewise((1, sp.Abs(x) < 2), (0, True))
    law = {"q": [1.0, 1.0], "p": [1.0, -1.0]}
    assert mf.evaluate(mf.Activation(odd).derivative.kernel(q, p), **law).tolist() == [math.inf, math.inf]
    assert mf.evaluate(mf.Activation(even).derivative.kernel(q, p), **law).tolist() == [math.inf, -math.inf]
    with pytest.raises(ValueError, match="negative"):
        mf.evaluate(mf.Activation(even).derivative.kernel(q, p), q=1.0, p=-1.0, log=True)


def test_deltas_that_do_not_meet_leave_a_finite_expectation() -> None:
    """phi = tanh + H(x - 1/3): at v = -u, and at v = 2u, E phi'(u) phi'(v) = E tanh' tanh' + 2 or more terms, density times tanh'"""
    slope = mf.Activation(sp.tanh(x) + sp.Heaviside(x - R(1, 3))).derivative
    s, a, spread = (lambda z: mp.sech(z) ** 2), mp.mpf(1) / 3, mp.sqrt(mp.mpf(3) / 4)
    smooth = mp.quad(lambda z: s(z) ** 2 * mp.npdf(z, 0, spread), [-mp.inf, 0, mp.inf])
    there = smooth + 2 * s(a) * mp.npdf(a, 0, spread)
    assert mf.evaluate(slope.kernel(q, p), q=[0.75, 0.75], p=[-0.75, -0.75]) == pytest.approx(float(there), rel=1e-13)
    assert mf.evaluate(slope.kernel(q, p), q=0.75, p=-0.75, digits=20) == pytest.approx(there, rel=1e-15)
    smooth = mp.quad(lambda z: s(z) * s(2 * z) * mp.npdf(z, 0, spread), [-mp.inf, 0, mp.inf])
    there = smooth + s(2 * a) * mp.npdf(a, 0, spread) + s(a / 2) * mp.npdf(a, 0, 2 * spread)
    assert mf.evaluate(slope.kernel(mf.q1, p, mf.q2), q1=0.75, p=1.5, q2=3.0) == pytest.approx(float(there), rel=1e-13)


@pytest.mark.parametrize("f", [sp.sqrt(sp.Abs(x)), sp.sign(x) * sp.Abs(x) ** R(1, 4)], ids=str)
def test_the_slopes_of_roots_are_not_square_integrable(f: sp.Expr) -> None:
    """quadrature at correlation 1 once gave a number for sqrt|x|, whose integral diverges as a logarithm"""
    slope = mf.Activation(f).derivative
    assert mf.evaluate(slope.kernel(q, p), q=[2.0, 2.0], p=[1.0, 2.0])[1] == math.inf
    assert slope.kernel(1, 1) is slope.gap(q, delta) is sp.oo
    side = 1 if f.has(sp.sign) else -1
    assert mf.evaluate(slope.kernel(q, p), q=2.0, p=-2.0) == side * math.inf


def test_roots_that_meet_in_a_product_that_is_no_power() -> None:
    f = mf.E(sp.cosh(x) / sp.Abs(x) ** R(2, 3) * sp.cos(mf.y) / sp.sqrt(sp.Abs(mf.y)), q, p)
    assert mf.evaluate(f, q=0.8, p=0.8) == math.inf


def test_a_symbol_out_of_range_is_told_in_words_of_the_expression() -> None:
    """alpha is the slope of Derf nowhere in an ELU; with a symbol of one's own it may be negative"""
    with pytest.raises(ValueError, match=r"alpha = -0\.7: it must be at least 0 as the library's symbol alpha .* sympy\.Symbol\('a', real"):
        mf.evaluate(mf.elu(None).second_moment(q), q=1.0, alpha=[0.5, -0.7])
    own = mf.elu(sp.Symbol("a", real=True)).second_moment(q)
    assert mf.evaluate(own, q=1.0, a=-0.7) == pytest.approx(mf.evaluate(mf.elu(-0.7).second_moment(1)), rel=1e-14)


@pytest.mark.parametrize("ask", [lambda e: mf.evaluate(e, q=2.0), lambda e: mf.evaluate(e, q=2.0, digits=15)], ids=["float", "digits"])
def test_an_expectation_of_what_is_not_real_names_a_point(ask: Callable[[sp.Expr], Any]) -> None:
    with pytest.raises(ValueError, match=r"log\(x \+ 4\) is not real at x = -41/3"):
        ask(mf.E(sp.log(4 + x), q))
