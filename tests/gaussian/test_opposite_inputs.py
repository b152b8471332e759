"""Gaps next to v = -u, where those of even functions vanish: of functions that are nearly even, against integrals that split nothing."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.parities import odd_part
from meanfield.gaussian.precise import gap_of_pair

x, q, delta = mf.x, mf.q, mf.delta
R = sp.Rational

#: smooth, kinked and saturated, closed and not, with the same in mpmath; of the fourth no algebra takes the odd part out
NEARLY_EVEN = {
    "smooth": (1 / sp.cosh(x) + x / 10**6, lambda t: mp.sech(t) + t / 10**6),
    "kinked": (sp.atan(sp.Abs(x)) + sp.atan(x) / 10**7, lambda t: mp.atan(abs(t)) + mp.atan(t) / 10**7),
    "saturated": (sp.tanh(5 * x) ** 2 + sp.tanh(x) / 10**8, lambda t: mp.tanh(5 * t) ** 2 + mp.tanh(t) / 10**8),
    "moved": (1 / sp.cosh(x + R(1, 10**6)), lambda t: mp.sech(t + mp.mpf(10) ** -6)),
    "closed": (sp.exp(-(x**2)) + x / 10**6, lambda t: mp.exp(-t * t) + t / 10**6),
    "closed and kinked": (sp.Max(x, -R(999999, 10**6) * x), lambda t: t if t > 0 else -mp.mpf(999999) / 10**6 * t),
}


@pytest.mark.parametrize("name", NEARLY_EVEN)
def test_the_gap_of_opposite_inputs_is_half_the_mean_square_of_their_difference(name: str) -> None:
    r"""E f(u)^2 - E f(u) f(-u) = \int_0^\infty (f(t) - f(-t))^2 of the density, by the rule of mpmath"""
    f, value = NEARLY_EVEN[name]
    gap = mf.Activation(f).gap(q, delta)
    for variance in (0.0078125, 1.0, 64.0):
        with mp.workdps(30):
            s = mp.sqrt(variance)
            steps = sorted(
                {s * mp.mpf(k) for k in (0, 0.5, 1, 2, 3, 4.5, 6, 9, 14)}
                | {mp.mpf(k) for k in (0.05, 0.1, 0.2, 0.3, 0.6, 1, 3, 8) if k < 14 * s}
            )
            truth = mp.quad(lambda t: (value(t) - value(-t)) ** 2 * mp.npdf(t, 0, s), steps)  # noqa: B023
        found, bound = mf.evaluate(gap, q=variance, delta=2 * variance, error=True)
        assert abs(found - truth) <= min(1e-12 * truth, bound + mp.mpf(2) ** -53 * truth), variance
        assert mf.evaluate(gap, q=np.array([variance] * 2), delta=2 * variance)[0] == pytest.approx(float(truth), rel=1e-12)
        assert abs(mf.evaluate(gap, q=variance, delta=2 * variance, digits=20) - truth) <= 1e-18 * truth


@pytest.mark.parametrize("name", ["smooth", "kinked", "saturated", "closed and kinked"])
def test_gaps_near_opposite_inputs(name: str) -> None:
    """across a gap of the even part that is as large as that of the odd one; to the digits that doubles have of 2q - delta"""
    f, _ = NEARLY_EVEN[name]
    gap = mf.Activation(f).gap(q, delta)
    for rest in (2.0**-46, 2.0**-20, 0.5, 0.9375):
        found, bound = mf.evaluate(gap, q=1.0, delta=2.0 - rest, error=True)
        truth = mf.evaluate(gap, q=1, delta=Fraction(2.0 - rest), digits=20)
        assert abs(found - truth) <= min(1e-12 * truth, bound + mp.mpf(2) ** -53 * truth), rest


def test_the_two_sides_of_independent_inputs_are_one_function() -> None:
    """beyond delta = q the gap is another sum: of what is neither even nor odd, against a difference of two integrals"""
    f = sp.log(1 + sp.exp(x))
    for apart in (1 - R(1, 2**30), 1 + R(1, 2**30), R(5, 4)):
        truth = gap_of_pair(f, sp.S.One, apart, 60)
        assert abs(mf.evaluate(mf.softplus.gap(q, delta), q=1.0, delta=float(apart)) - truth) <= 1e-13 * truth


def test_odd_parts() -> None:
    assert odd_part(sp.log(1 + sp.exp(x)) - x / 2) == 0
    assert odd_part(sp.Abs(x) + x / 10**6) == x / 10**6
    assert odd_part(sp.tanh(x)) == sp.tanh(x)


def test_a_kink_of_what_is_0_on_its_right() -> None:
    """whose limit there is 0, not what it is beside: 6e-13 of a gap at 15 deviations"""
    gap = mf.soft_shrink.gap(q, delta)
    for variance in (0.00107, 0.0012, 0.002):
        truth = mf.evaluate(gap, q=Fraction(variance), delta=Fraction(0.3 * variance), digits=20)
        found, bound = mf.evaluate(gap, q=variance, delta=0.3 * variance, error=True)
        assert abs(found - truth) <= min(bound, 1e-13 * truth), variance


def test_bounds_of_gaps_far_out_in_the_tail_hold() -> None:
    r"""E f(u)^2 for f = x where |x| > 1/2, in closed form, at delta = 2q: the exponent of e^{-k} is rounded"""
    gap = mf.hard_shrink.gap(q, delta)
    for variance in np.geomspace(1.3e-3, 0.02, 12):
        with mp.workdps(30):
            z = 1 / (2 * mp.sqrt(variance))
            truth = 4 * mp.mpf(variance) * (z * mp.npdf(z) + mp.erfc(z / mp.sqrt(2)) / 2)
        found, bound = mf.evaluate(gap, q=variance, delta=2 * variance, error=True)
        assert abs(found - truth) <= bound, variance
