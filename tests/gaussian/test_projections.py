"""Hermite coefficients of high order that have no closed form: numbers, bounds, zeros, derivatives and what is printed of them."""

from __future__ import annotations

from functools import cache

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import q, x
from meanfield.gaussian.hermite_means import hermite_mean
from meanfield.gaussian.precise import mean_of
from meanfield.gaussian.projections import Projection

kinked = mf.Activation((sp.Abs(x) + sp.Max(x, 1)) * sp.tanh(x))


@cache
def weights(n: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """points of a step of 1/32, and h_n times the normal density there"""
    with mp.workdps(60):
        he, scale = sp.lambdify(x, sp.horner(sp.hermite_prob(n, x)), "mpmath"), 32 * mp.sqrt(mp.factorial(n))
        return [(z, he(z) * mp.npdf(z) / scale) for z in (mp.mpf(k) / 32 for k in range(-640, 641))]


def truth(phi: mf.Activation, n: int, v: float) -> tuple[float, float]:
    """E f h_n by the trapezoidal rule in mpmath, and the scale E |f h_n|; for poles at d its error is e^(-2 pi d 32/sqrt(v))"""
    with mp.workdps(60):
        f, s = sp.lambdify(x, phi.expression, "mpmath"), mp.sqrt(v)
        terms = [f(s * z) * w for z, w in weights(n)]
        return float(mp.fsum(terms)), float(mp.fsum(map(abs, terms)))


@pytest.mark.parametrize(
    ("phi", "n"),
    [(mf.tanh, 19), (mf.silu, 20), (mf.mish, 31), (mf.tanh, 63), (mf.Activation(sp.tanh(x + sp.Rational(1, 2))), 64)],
    ids=["tanh 19", "silu 20", "mish 31", "tanh 63", "moved 64"],
)
def test_high_orders_are_right_on_the_scale_of_their_terms(phi: mf.Activation, n: int) -> None:
    for v in (0.3, 1.0, 40.0):
        (value, bound), (exact, scale) = mf.evaluate(phi.hermite(n, q), q=np.full(30, v), error=True), truth(phi, n, v)
        assert abs(value - exact).max() <= 1e-13 * scale
        assert (abs(value - exact) <= bound + 1e-15 * abs(exact)).all()
        assert bound.max() <= 1e-12 * scale


@pytest.mark.parametrize(("phi", "n", "v", "exact"), [(mf.tanh, 19, 1, "-1.83363002862577e-3"), (mf.tanh, 21, 2, "5.70946010507364e-3")])
def test_digits_agree_with_doubles(phi: mf.Activation, n: int, v: int, exact: str) -> None:
    precise = mf.evaluate(phi.hermite(n, q), q=v, digits=15)
    assert abs(precise - mp.mpf(exact)) < 3e-15 * abs(precise)
    assert mf.evaluate(phi.hermite(n, q), q=float(v)) == pytest.approx(float(precise), rel=1e-11)


@pytest.mark.parametrize("error", [True, False])
def test_a_value_and_its_bound_are_the_same_whichever_they_are_asked_with(error: bool) -> None:
    """where some of its digits are lost, and are sought at each"""
    e, v = mf.tanh.hermite(21, q), np.geomspace(0.5, 4, 30)
    together = np.array(mf.evaluate(e, q=v, error=error))
    apart = [mf.evaluate(e, q=v[k : k + 10], error=error) for k in (0, 10, 20)]
    assert (together == np.concatenate(apart, axis=-1)).all()


@pytest.mark.parametrize(("phi", "n"), [(mf.softplus, 14), (mf.silu, 16), (mf.Activation(sp.tanh(x + sp.Rational(1, 2))), 9)], ids=str)
def test_many_are_right_relative_to_themselves(phi: mf.Activation, n: int) -> None:
    """where f h_n cancels to 1e-25 of its terms as where it does not"""
    v = np.geomspace(1e-3, 4, 41)
    values, bounds = (found[::5] for found in mf.evaluate(phi.hermite(n, q), q=v, error=True))
    exact = np.array([truth(phi, n, at)[0] for at in v[::5]])
    assert (abs(values - exact) <= 1e-11 * abs(exact)).all()
    assert (abs(values - exact) <= bounds + 1e-15 * abs(exact)).all()


SHAPES = {
    "moved": sp.tanh(x + sp.Rational(1, 2)),
    "poles askew": sp.tanh(x + x**3),
    "growing": sp.log(1 + sp.exp(x)) ** 2,
}


@pytest.mark.parametrize("name", SHAPES)
def test_digits_are_those_of_panels(name: str) -> None:
    """from narrow Gaussians, under which terms cancel, to ones that are wide against the strip of the trapezoidal rule"""
    f, n = SHAPES[name], 7
    for v in (sp.Rational(1, 10**6), sp.Rational(1, 2), sp.Integer(30), sp.Integer(10**4)):
        panels = mean_of(f * sp.expand(sp.hermite_prob(n, x / sp.sqrt(v))), sp.S.Zero, v, 100)
        assert abs(hermite_mean(f, n, v, 100) - panels) <= mp.ldexp(abs(panels), -98)


@pytest.mark.parametrize(("phi", "n"), [(mf.tanh, 19), (mf.silu, 24), (mf.mish, 15)], ids=["tanh", "silu", "mish"])
def test_small_variances_are_right_relative_to_themselves(phi: mf.Activation, n: int) -> None:
    for v in (1e-9, 1e-5):
        exact = float(mf.evaluate(phi.hermite(n, q), q=sp.Rational(str(v)), digits=18))
        assert mf.evaluate(phi.hermite(n, q), q=v) == pytest.approx(exact, rel=1e-12)


def test_at_large_variances_a_step_is_left() -> None:
    """the coefficients of sign, which are closed, beside what tanh bends within 1e-6 of the deviation"""
    far = mf.evaluate(mf.tanh.hermite(33, q), q=1e12)
    assert far == pytest.approx(mf.evaluate(mf.sign.hermite(33, q), q=1.0), rel=1e-8)


def test_orders_of_the_other_parity_are_zero() -> None:
    assert mf.tanh.hermite(20, q) == 0
    assert mf.softsign.hermite(32, q) == 0


def test_the_derivative_in_the_variance_is_two_coefficients() -> None:
    for phi in (mf.silu, kinked):
        rate, h = phi.hermite(6, q).diff(q), 1e-4
        low, high = (mf.evaluate(phi.hermite(6, q), q=2 + s * h) for s in (-1, 1))
        assert mf.evaluate(rate, q=2.0) == pytest.approx((high - low) / (2 * h), rel=1e-6)


def test_a_scale_is_taken_out_of_a_parameter() -> None:
    alpha = sp.Symbol("alpha", positive=True)
    value = mf.evaluate(mf.dyt(alpha).hermite(19, q), q=0.25, alpha=np.array([2.0]))[0]
    assert value == pytest.approx(mf.evaluate(mf.tanh.hermite(19, q), q=1.0), rel=1e-12)


def test_what_is_printed_is_short() -> None:
    node = Projection(sp.tanh(x), q, 19)
    assert str(node) == "E(He_19(x/sqrt(q))*tanh(x), q)"
    assert r"\operatorname{He}_{19}" in sp.latex(node)


@pytest.mark.parametrize(("f", "n", "v"), [(x / (1 + x**4), 5, 0.5), (x / (1 + x**4), 5, 1e-3), (x**3 / (1 + x**40), 3, 0.9)], ids=str)
def test_series_of_which_terms_are_missing(f: sp.Expr, n: int, v: float) -> None:
    with mp.workdps(25):
        own = sp.lambdify(x, f, "mpmath")
        hermite = sp.lambdify(x, sp.hermite_prob(n, x) / sp.sqrt(sp.factorial(n)), "mpmath")
        s, ends = mp.sqrt(v), [-14, *(k / mp.sqrt(v) for k in (-1.2, -1, -0.8)), 0, *(k / mp.sqrt(v) for k in (0.8, 1, 1.2)), 14]
        ends = sorted(e for e in ends if -14 <= e <= 14)
        truth = mp.quad(lambda z: own(s * z) * hermite(z) * mp.npdf(z), ends)
        size = mp.quad(lambda z: abs(own(s * z) * hermite(z)) * mp.npdf(z), ends)
    assert abs(mf.evaluate(mf.Activation(f).hermite(n, q), q=v) - truth) < 1e-12 * size


@pytest.mark.parametrize("n", [2, 3, 32])
def test_what_parity_forbids_is_zero_of_a_function_with_kinks_too(n: int) -> None:
    """1/2 and an odd function, x/2 and an even one, neither of which closes"""
    jump = mf.Activation(sp.Heaviside(x) + sp.tanh(x) / 3)
    corner = mf.Activation(sp.Abs(x) + sp.log(1 + sp.exp(x)))
    assert (jump.hermite(n, mf.q) == 0) is (n % 2 == 0)
    assert (corner.hermite(n, mf.q) == 0) is (n % 2 == 1)
    assert jump.hermite(0, mf.q) == sp.Rational(1, 2)
    assert corner.hermite(1, mf.q) == sp.sqrt(mf.q) / 2


@pytest.mark.parametrize("n", [12, 27, 35])
def test_digits_of_what_is_far_below_its_terms(n: int) -> None:
    """sigma(10 (x - 2)) = sum_k (-1)^(k + 1) exp(10 k (x - 2)) left of 2, beyond which there is e^(-2e12) of the law"""
    phi, v = mf.Activation(1 / (1 + sp.exp(-10 * (x - 2)))), sp.Rational(1, 10**12)
    with mp.workdps(40):
        slope = mp.fsum((-1) ** (k + 1) * (10 * mp.mpf(k)) ** n * mp.exp(-20 * k + 50 * k * k * mp.mpf(10) ** -12) for k in range(1, 80))
        true = mp.mpf(10) ** (-6 * n) * slope / mp.sqrt(mp.factorial(n))
        found = mf.evaluate(phi.hermite(n, q), q=v, digits=25)
        assert abs(found - true) <= mp.mpf(10) ** -25 * abs(true)


def test_digits_of_high_orders_of_what_grows() -> None:
    """(e^x tanh x)^(60) v^30/sqrt(60!) at tiny v, by the numbers of Bernoulli: in the disc in which f is analytic its growth is none"""
    n, v = 60, sp.Rational(1, 10**30)
    rise = [2 ** (k + 1) * (2 ** (k + 1) - 1) * sp.bernoulli(k + 1) / (k + 1) if k % 2 else sp.S.Zero for k in range(n + 1)]
    exact = sp.Add(*[sp.binomial(n, k) * rise[k] for k in range(n + 1)]) * v**30 / sp.sqrt(sp.factorial(n))
    found = mf.evaluate(mf.Activation(sp.exp(mf.x) * sp.tanh(mf.x)).hermite(n, v), digits=20)
    with mp.workdps(30):
        assert abs(found / mp.mpf(sp.N(exact, 30)) - 1) < mp.mpf("1e-19")
