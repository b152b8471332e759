r"""Kernels of what grows like exp(a x^2) on one side and falls or is 0 on the other: finite beyond where the square has a mean.

The oracle integrates over v in closed form, E v \Phi(v) e^{v^2/8} given u a tilted Gaussian, and over u in ball arithmetic.
"""

from __future__ import annotations

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


def test_the_refusal_states_where_it_is_finite() -> None:
    with pytest.raises(ValueError, match=r"finite only for \(p \+ q < 8\) & \(\(-p \+ q\)\*\(p \+ q\)/8 < q\)"):
        mf.evaluate(RELU.kernel(q, p), q=20.0, p=-5.0)
    with pytest.raises(ArithmeticError, match="the expectation diverges"):
        mf.evaluate(RELU.kernel(q, p), q=20.0, p=-5.0, digits=15)
    with pytest.raises(ValueError, match=r"finite only for q \+ Abs\(p\) < 8"):
        mf.evaluate(mf.Activation(sp.Abs(x) * sp.exp(x**2 / 16)).kernel(q, p), q=5.0, p=-4.0)
