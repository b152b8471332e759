"""Fixed points of functions with kinks against their definitions in 25 digits: E phi of a Gaussian by hand, pairs by what they share."""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import pytest

import meanfield as mf

B = 0.2
LAMBDA, ALPHA = (mp.mpf(s) for s in ("1.0507009873554804934193349852946", "1.6732632423543772848170429916717"))


def excess(m: mp.mpf, s: mp.mpf, k: int) -> mp.mpf:
    """E max(m + s z - k, 0)"""
    t = (k - m) / s
    return s * (mp.npdf(t) - t * mp.ncdf(-t))


def clipped(low: int, high: int) -> Callable[[mp.mpf, mp.mpf], mp.mpf]:
    """E min(max(m + s z, low), high)"""
    return lambda m, s: low + excess(m, s, low) - excess(m, s, high)


def scaled_exponential(m: mp.mpf, s: mp.mpf) -> mp.mpf:
    """E selu(m + s z)"""
    below = mp.exp(m + s**2 / 2) * mp.ncdf(-m / s - s) - mp.ncdf(-m / s)
    return LAMBDA * (excess(m, s, 0) + ALPHA * below)


def selu(x: mp.mpf) -> mp.mpf:
    return LAMBDA * (x if x > 0 else ALPHA * mp.expm1(x))


#: what is asked, E phi(m + s z), phi, phi', kinks, weight
CASES = {
    "relu6": (mf.relu6, clipped(0, 6), lambda x: min(max(x, 0), 6), lambda x: int(0 < x < 6), (0, 6), 1.6),
    "hard_tanh": (mf.hard_tanh, clipped(-1, 1), lambda x: min(max(x, -1), 1), lambda x: int(-1 < x < 1), (-1, 1), 1.6),
    "selu": (mf.selu, scaled_exponential, selu, lambda x: LAMBDA * (1 if x > 0 else ALPHA * mp.exp(x)), (0,), 1.05),
}


def mean(f: Callable[[mp.mpf], mp.mpf], s: mp.mpf, kinks: tuple[int, ...]) -> mp.mpf:
    """E f(s z)"""
    edges = sorted({mp.mpf(-14), mp.mpf(14), mp.mpf(0), mp.mpf(-5), mp.mpf(5), *(mp.mpf(k) / s for k in kinks if abs(k / s) < 14)})
    return mp.quad(lambda z: f(s * z) * mp.npdf(z), edges)


@pytest.mark.parametrize("name", CASES)
def test_each_point_is_left_where_it_is(name: str) -> None:
    phi, blurred, value, slope, kinks, weight = CASES[name]
    found = mf.fixed_points(mf.mlp(phi), sigma_w=weight, sigma_b=B)
    at_one, *below = [point for point in found if point.q > 0]
    with mp.workdps(25):
        w2, b2 = mp.mpf(weight) ** 2, mp.mpf(B) ** 2
        deviation = mp.sqrt(mp.mpf(at_one.q))
        second = mean(lambda x: value(x) ** 2, deviation, kinks)
        assert float(w2 * second + b2) == pytest.approx(at_one.q, rel=1e-13)
        assert at_one.chi == pytest.approx(float(w2 * mean(lambda x: slope(x) ** 2, deviation, kinks)), rel=1e-12)
        along = w2 * mean(lambda x: x * value(x) * slope(x), deviation, kinks) / deviation**2
        assert at_one.chi_parallel == pytest.approx(float(along), rel=1e-11)
        for point in below:
            shared, own = mp.sqrt(mp.mpf(point.q) * (1 - mp.mpf(point.gap))), mp.sqrt(mp.mpf(point.q) * mp.mpf(point.gap))
            pair = w2 * mean(lambda x, own=own: blurred(x, own) ** 2, shared, ()) + b2
            assert float((at_one.q - pair) / at_one.q) == pytest.approx(point.gap, rel=1e-11)
    assert len(below) == (at_one.chi > 1)


def test_the_fixed_point_of_self_normalising_networks() -> None:
    """Klambauer et al. 2017, arXiv:1706.02515: mean 0 and variance 1 are kept at sigma_w = 1, with J = ((0, .088834), (0, .782648))"""
    (point, *_) = [p for p in mf.fixed_points(mf.mlp(mf.selu), sigma_w=1, sigma_b=0) if p.q > 0]
    assert point.q == pytest.approx(1, rel=1e-13)
    assert point.chi_parallel == pytest.approx(0.782648, abs=5e-7)
    assert mf.selu.mean(1).evalf(20) == pytest.approx(0, abs=1e-18)
