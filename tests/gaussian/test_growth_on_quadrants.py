r"""Kernels of what grows like exp(a x^2) on one side and falls or is 0 on the other: finite beyond where the square has a mean.

The oracle integrates over v in closed form, E v \Phi(v) e^{v^2/8} given u a tilted Gaussian, and over u in ball arithmetic.
"""

from __future__ import annotations

import re

import mpmath as mp
import pytest
import sympy as sp
from flint import acb, arb, ctx

import meanfield as mf
from meanfield.gaussian.growth import rates

x, q, p = mf.x, mf.q, mf.p
GELU = mf.Activation(mf.gelu.expression * sp.exp(x**2 / 8))
RELU = mf.Activation(mf.relu.expression * sp.exp(x**2 / 16))


def given(m: acb, w: arb) -> acb:
    r"""E v \Phi(v) e^{v^2/8}, v ~ N(m, w)"""
    tilt = 1 - w / 4
    mean, variance = m / tilt, w / tilt
    z = mean / (1 + variance).sqrt()
    gate = (-z / arb(2).sqrt()).erfc() / 2
    density = (-z * z / 2).exp() / (2 * arb.pi()).sqrt()
    return (mean * gate + variance / (1 + variance).sqrt() * density) * (m * m / (8 * tilt)).exp() / tilt.sqrt()


def kernel_of_gelu(v: float, c: float) -> float:
    with ctx.workdps(60):
        s, r = arb(v), arb(c)
        w = (s - r) * (s + r) / s

        def integrand(u: acb, _: bool) -> acb:
            gate = (-u / arb(2).sqrt()).erfc() / 2
            return u * gate * (u * u / 8 - u * u / (2 * s)).exp() * given(r / s * u, w)

        total = acb.integral(integrand, acb(-45), acb(45), eval_limit=10**6, depth_limit=10**4).real / (2 * arb.pi() * s).sqrt()
        assert total.rel_accuracy_bits() > 60
        return float(total)


def test_rates_see_what_a_gate_leaves_of_a_growth() -> None:
    assert dict(rates(GELU.expression)) == {1: sp.Rational(1, 8), -1: -sp.Rational(3, 8)}


def test_a_gate_that_falls_faster_than_its_factor_grows() -> None:
    """at q = 3 and p = -2.9, q + |p| > 4"""
    found = mf.evaluate(GELU.kernel(q, p), q=3.0, p=-2.9)
    assert found == pytest.approx(kernel_of_gelu(3.0, -2.9), rel=1e-13)


@pytest.mark.parametrize(("v", "c"), [(5, -4), (8.5, -7), (20, -19.5)])
def test_a_ramp_that_grows_where_its_square_has_no_mean(v: float, c: float) -> None:
    """in polar coordinates one integral is left, of a rational function of sines"""
    with mp.workdps(30):
        s, r = mp.mpf(v), mp.mpf(c)
        rest = s * s - r * r
        form = lambda t: (s - r * mp.sin(2 * t)) / rest - mp.mpf(1) / 8  # noqa: E731
        truth = mp.quad(lambda t: mp.sin(2 * t) / form(t) ** 2, mp.linspace(0, mp.pi / 2, 9)) / (2 * mp.pi * mp.sqrt(rest))
    assert mf.evaluate(RELU.kernel(q, p), q=float(v), p=float(c)) == pytest.approx(float(truth), rel=1e-14)


def test_two_ramps_on_opposite_sides_never_meet() -> None:
    assert mf.evaluate(RELU.kernel(q, p), q=20.0, p=-20.0) == 0.0


def test_a_pole_whose_square_has_no_mean_is_no_growth() -> None:
    """E |u|^{-3/5} cos v = e^{-3/8} E |u|^{-3/5} cos(u/2) at correlation 1/2"""
    node = mf.E(sp.Abs(x) ** sp.Rational(-3, 5) * sp.cos(mf.y), q, p)
    with mp.workdps(30):
        fifth = mp.mpf(1) / 5
        truth = 2 ** mp.mpf("-0.3") * mp.gamma(fifth) / mp.sqrt(mp.pi) * mp.hyp1f1(fifth, 0.5, -0.125) * mp.exp(-mp.mpf(3) / 8)
        assert abs(mf.evaluate(node, q=1, p=0.5, digits=20) - truth) < 1e-19


@pytest.mark.parametrize("digits", [None, 15])
def test_the_refusal_states_where_it_is_finite(digits: int | None) -> None:
    """in the same words with digits and without, on the edge too"""
    ramp = mf.Activation(mf.relu.expression * sp.exp(x**2 / 5) * sp.tanh(x))
    even = mf.Activation(sp.Abs(x) * sp.exp(x**2 / 16))
    for moment, at, reason in (
        (RELU.kernel(q, p), {"q": 20.0, "p": -5.0}, "(p + q < 8) & ((-p + q)*(p + q)/8 <= q)"),
        (ramp.kernel(q, p), {"q": 2.25, "p": 0.25}, "(p + q < 5/2) & (2*(-p + q)*(p + q)/5 <= q)"),
        (ramp.kernel(q, p), {"q": 2.25, "p": 2.25}, "(p + q < 5/2) & (2*(-p + q)*(p + q)/5 <= q)"),
        (even.kernel(q, p), {"q": 5.0, "p": -4.0}, "q + Abs(p) < 8"),
        (even.kernel(q, p), {"q": 5.0, "p": -3.0}, "q + Abs(p) < 8"),
        (mf.E(sp.exp(2 * x**2 / 5) * sp.tanh(x) ** 2, 3), {}, "q < 5/4"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"is infinite: it is finite only for {reason}") + "$"):
            mf.evaluate(moment, digits=digits, **at)


def test_a_ramp_that_falls_faster_than_it_grows_on_its_quadrant_has_digits() -> None:
    """E r(u) r(v) of r = relu(x) tanh(x) e^{x^2/5} at q = 2.4, p = -1.5: sines and cosines of an angle, and a radius"""
    ramp = mf.Activation(mf.relu.expression * sp.exp(x**2 / 5) * sp.tanh(x))
    v, c = sp.Rational(12, 5), -sp.Rational(3, 2)
    with mp.workdps(20):
        s, r = mp.mpf(12) / 5, -mp.mpf(3) / 2
        rest = s * s - r * r

        def along(t: mp.mpf) -> mp.mpf:
            a, b = mp.cos(t), mp.sin(t)
            form = (s - 2 * r * a * b) / (2 * rest) - mp.mpf(1) / 5
            return a * b * mp.quad(lambda k: k**3 * mp.tanh(k * a) * mp.tanh(k * b) * mp.exp(-form * k * k), [0, 1, 3, 6, 12, 40])

        truth = 2 * mp.quad(along, [0, mp.pi / 8, mp.pi / 4]) / (2 * mp.pi * mp.sqrt(rest))
        assert abs(mf.evaluate(ramp.kernel(q, p), q=v, p=c, digits=15) - truth) < mp.mpf(10) ** -12


@pytest.mark.parametrize("f", [sp.Max(0, 1 - sp.Abs(x)), sp.exp(-(x**4))], ids=str)
def test_what_falls_fast_bears_what_grows_beside_it_if_that_has_a_mean_there(f: sp.Expr) -> None:
    """E f(u) e^{v^2/2}: v given u has the variance w < 1, which leaves e^{(E v)^2/(2 (1 - w))}/sqrt(1 - w); refused from w = 1 on"""
    node, v, c = mf.E(f * sp.exp(mf.y**2 / 2), mf.q1, p, mf.q2), 4, sp.Rational(19, 10)
    with mp.workdps(25):
        w = v - mp.mpf(19) ** 2 / 100
        value = sp.lambdify(x, f, "mpmath")
        truth = mp.quad(
            lambda u: value(u) * mp.npdf(u) * mp.exp((mp.mpf(19) / 10 * u) ** 2 / (2 * (1 - w))) / mp.sqrt(1 - w),
            [-9, -3, -1, 0, 1, 3, 9] if f.has(sp.exp) else [-1, 0, 1],
        )
        assert abs(mf.evaluate(node, q1=1, p=c, q2=v, digits=18) - truth) < mp.mpf(10) ** -17
    with pytest.raises(ValueError, match="finite only for"):
        mf.evaluate(node, q1=1.0, p=1.5, q2=4.0)
