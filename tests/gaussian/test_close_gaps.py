r"""Gaps of inputs that are close against what f does: slow factors beside jumps and kinks without end, where the period is lost.

Under N(0, q) with q large against the period, E (u v)^k s(u) s(v) is the mean over M = (u + v)/2 and w = u - v, independent of variances
q - delta/2 and 2 delta, of (M^2 - w^2/4)^k A(w), where A is the mean over a period of s(y + w/2) s(y - w/2).
"""

from __future__ import annotations

import math

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf

x = mf.x
POINTS = ((100.0, 1e-8), (100.0, 1e-300), (1e4, 1e-6), (1e4, 1e-9), (1e4, 1e-30), (1e8, 1e-12), (1e8, 1e-60))


def square_wave(w: mp.mpf) -> mp.mpf:
    return 1 - 2 * abs(w - 2 * mp.pi * mp.floor(w / (2 * mp.pi) + mp.mpf(1) / 2)) / mp.pi


def rectified(w: mp.mpf) -> mp.mpf:
    t = abs(w - mp.pi * mp.floor(w / mp.pi + mp.mpf(1) / 2))
    return (mp.sin(t) + (mp.pi / 2 - t) * mp.cos(t)) / mp.pi


def triangle_wave(w: mp.mpf) -> mp.mpf:
    t = abs(w - 2 * mp.pi * mp.floor(w / (2 * mp.pi) + mp.mpf(1) / 2))
    return mp.pi**2 / 12 - t**2 / 2 + t**3 / (3 * mp.pi)


#: x^k times a wave: k, the wave, its autocorrelation
GROWING = {
    "x sign(sin x)": (1, sp.sign(sp.sin(x)), square_wave),
    "x^2 sign(cos x)": (2, sp.sign(sp.cos(x)), square_wave),
    "x asin(sin x)": (1, sp.asin(sp.sin(x)), triangle_wave),
    "x |sin x|": (1, sp.Abs(sp.sin(x)), rectified),
}


def lost(name: str, q: mp.mpf, delta: mp.mpf) -> mp.mpf:
    """the gap by one integral over w, over half periods"""
    k, _, correlation = GROWING[name]
    odd = [mp.fac2(2 * j - 1) if j else mp.mpf(1) for j in range(k + 1)]

    def slow(w2: list[mp.mpf]) -> mp.mpf:
        """E (M^2 - w^2/4)^k, of powers of w^2"""
        return mp.fsum(mp.binomial(k, j) * odd[j] * (q - delta / 2) ** j * (-mp.mpf(1) / 4) ** (k - j) * w2[k - j] for j in range(k + 1))

    deviation, far = mp.sqrt(2 * delta), mp.sqrt(2 * mp.mp.dps * mp.log(10))
    whole = correlation(mp.mpf(0)) * odd[k] * q**k
    turns = [j * mp.pi / deviation for j in range(1, int(deviation * far / mp.pi) + 1)]
    ends = [mp.mpf(0), *turns, far] if turns else [0, 1, 3, 6, far]

    def term(z: mp.mpf) -> mp.mpf:
        w = deviation * z
        return 2 * mp.npdf(z) * slow([w ** (2 * j) for j in range(k + 1)]) * correlation(w)

    return whole - mp.quad(term, ends)


@pytest.mark.parametrize("name", GROWING)
def test_slow_factors_beside_jumps_and_kinks_without_end(name: str) -> None:
    k, wave, *_ = GROWING[name]
    gap = mf.Activation(x**k * wave).gap(mf.q, mf.delta)
    for q, ratio in POINTS:
        with mp.workdps(30 + int(-1.02 * math.log10(ratio))):
            truth = lost(name, mp.mpf(q), mp.mpf(ratio * q))
            assert abs(mf.evaluate(gap, q=q, delta=ratio * q) - truth) <= 1e-12 * truth, (q, ratio)


@pytest.mark.parametrize("ratio", [1e-12, 1e-24, 1e-290])
def test_jumps_beside_a_slow_function_that_is_no_power(ratio: float) -> None:
    r"""tanh(x) sign(cos x): by Price's identity delta E f'^2, what jumps add to it, and a rest of order delta^{3/2}"""
    q = mp.mpf(5)
    delta = ratio * q
    gap = mf.evaluate(mf.Activation(sp.tanh(x) * sp.sign(sp.cos(x))).gap(mf.q, mf.delta), q=5.0, delta=ratio * 5.0)
    places = [(n + mp.mpf(1) / 2) * mp.pi for n in range(-12, 12)]
    with mp.workdps(40):
        density = [mp.npdf(a, 0, mp.sqrt(q)) for a in places]
        across = mp.fsum(4 * mp.tanh(a) ** 2 * p for a, p in zip(places, density, strict=True)) * mp.sqrt(delta / mp.pi)
        slope = mp.quad(lambda z: mp.sech(z) ** 4 * mp.npdf(z, 0, mp.sqrt(q)), [-30, -10, -3, 0, 3, 10, 30])
    assert abs(gap / (across + delta * slope) - 1) <= delta + 1e-13


def test_a_small_jump_on_a_large_function_is_refused_where_values_do_not_tell_it() -> None:
    """far out the height of a jump is a difference of values: 10^9 x cos x leaves no digits of a jump by 2"""
    gap = mf.Activation(10**9 * x * sp.cos(x) + sp.sign(sp.sin(x))).gap(mf.q, mf.delta)
    assert mf.evaluate(gap, q=1e8, delta=1e-8) == pytest.approx(1e-8 * 1e18 * (1e8 + 1) / 2, rel=1e-7)
    with pytest.raises(ArithmeticError, match="a jump"):
        mf.evaluate(gap, q=1e8, delta=1e-80)


def test_a_jump_beside_a_steep_rise_is_exact_or_refused() -> None:
    """as far apart as the rise at 0 is wide, doubles next to the jump at 1 do not tell how far from it they are"""
    steep, step = sp.tanh(10**9 * x), sp.Heaviside(x - 1)
    gap, parts = mf.Activation(steep * (1 + step)).gap(mf.q, mf.delta), [mf.Activation(f).gap(mf.q, mf.delta) for f in (steep, step)]
    for delta in (1e-8, 1e-24):
        assert mf.evaluate(gap, q=1, delta=delta) == pytest.approx(sum(mf.evaluate(g, q=1, delta=delta) for g in parts), rel=1e-11)
    with pytest.raises(ArithmeticError, match="a jump"):
        mf.evaluate(gap, q=1, delta=1e-18)
