"""Slopes of the kernels of clipped lines, steep and flat, against the one-dimensional integral that they are."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf

x, q, p, delta = mf.x, mf.q, mf.p, mf.delta


def rise(slope: mp.mpf, v: mp.mpf, cov: mp.mpf) -> mp.mpf:
    """slope^2 P(0 < u, w < 1/slope), given u the probability of w in closed form"""
    deviation, spread, end = mp.sqrt(v), mp.sqrt(v - cov**2 / v), 1 / slope

    def given(u: mp.mpf) -> mp.mpf:
        return (mp.ncdf((end - u * cov / v) / spread) - mp.ncdf(-u * cov / v / spread)) * mp.npdf(u / deviation) / deviation

    last = min(end, 12 * deviation)
    steps = [last - spread * k for k in (0.3, 1, 3, 8)] + [spread * k for k in (0.3, 1, 3, 8)]
    return slope**2 * mp.quad(given, sorted({mp.mpf(0), last, *(t for t in steps if 0 < t < last)}))


@pytest.mark.parametrize("rho", [-0.9, 0.3, 0.99, 1 - 1e-9])
@pytest.mark.parametrize("slope", ["100000", "0.01"])
def test_slope_of_kernel_and_of_gap(slope: str, rho: float) -> None:
    ramp = mf.Activation(sp.Max(0, sp.Min(1, sp.Rational(slope) * x)))
    with mp.workdps(30):
        truth = rise(mp.mpf(slope), mp.mpf(1), mp.mpf(rho))
        assert abs(mf.evaluate(sp.diff(ramp.kernel(q, p), p), q=1.0, p=rho) - truth) <= 1e-12 * truth
        exact = rise(mp.mpf(slope), mp.mpf(1), 1 - mp.mpf(1.0 - rho))
        assert abs(mf.evaluate(sp.diff(ramp.gap(q, delta), delta), q=1.0, delta=1.0 - rho) - exact) <= 1e-12 * exact
