"""Kernels of functions with jumps and kinks at unequal variances, against one integral in mpmath over a conditional mean typed here."""

from __future__ import annotations

from functools import cache

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf

INF = mp.inf
#: name -> activation, and its pieces: ends, value at 0, slope
PIECES = {
    "hard_tanh": (mf.hard_tanh, [(-INF, -1, -1, 0), (-1, 1, 0, 1), (1, INF, 1, 0)]),
    "relu6": (mf.relu6, [(0, 6, 0, 1), (6, INF, 6, 0)]),
    "hard_shrink": (mf.hard_shrink, [(-INF, -0.5, 0, 1), (0.5, INF, 0, 1)]),
    "sign": (mf.sign, [(-INF, 0, -1, 0), (0, INF, 1, 0)]),
    "step at 1": (mf.Activation(sp.Heaviside(mf.x - 1)), [(1, INF, 1, 0)]),
}
LAWS = [(1.0, 1e-6, 0.3), (1e6, 1e12, -0.99), (2.0, 2e12, 0.999999), (0.7, 1.9, -0.9), (0.7, 1.9, -0.99), (0.7, 1.9, 0.999999)]


def given(pieces: list[tuple[mp.mpf, ...]], m: mp.mpf, s: mp.mpf) -> mp.mpf:
    """E f(v), v ~ N(m, s^2)"""
    total = mp.mpf(0)
    for low, high, level, slope in pieces:
        a, b = (mp.mpf(low) - m) / s, (mp.mpf(high) - m) / s
        between = mp.ncdf(-a) - mp.ncdf(-b) if a > 0 else mp.ncdf(b) - mp.ncdf(a)
        total += (level + slope * m) * between + slope * s * (mp.npdf(a) - mp.npdf(b))
    return total


def kernel(pieces: list[tuple[mp.mpf, ...]], q1: mp.mpf, p: mp.mpf, q2: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """E f(u) f(v) and E |f(u) f(v)|, the latter for odd or one-sided f"""
    s1, c = mp.sqrt(q1), p / q1
    s = mp.sqrt(q2 - p * c)
    kinks = sorted({mp.mpf(k) for low, high, *_ in pieces for k in (low, high) if abs(k) != INF})
    ends = {k / c + t * s / abs(c) for k in kinks for t in (-12, -6, -3, -1, 0, 1, 3, 6, 12)} | {t * s1 for t in range(-16, 17, 2)}
    value = size = mp.mpf(0)
    for low, high, level, slope in pieces:
        low, high = max(mp.mpf(low), -16 * s1), min(mp.mpf(high), 16 * s1)
        if low < high:
            inside = [low, *sorted(t for t in ends if low < t < high), high]
            # both integrals take the same nodes
            f = cache(lambda u: (level + slope * u) * mp.npdf(u / s1) / s1 * given(pieces, c * u, s))  # noqa: B023
            scale = max(abs(f(t)) for t in inside) or mp.mpf(1)  # mpmath stops at an absolute error
            value += scale * mp.quadgl(lambda u: f(u) / scale, inside)  # noqa: B023
            size += scale * mp.quadgl(lambda u: abs(f(u)) / scale, inside)  # noqa: B023
    return value, size


@pytest.mark.parametrize("name", PIECES)
def test_kernels_at_unequal_variances(name: str) -> None:
    phi, pieces = PIECES[name]
    e = phi.kernel(mf.q1, mf.p, mf.q2)
    for q1, q2, rho in LAWS:
        p = rho * q1**0.5 * q2**0.5
        with mp.workdps(25):
            truth, size = kernel(pieces, mp.mpf(q1), mp.mpf(p), mp.mpf(q2))
        if size < 1e-280:
            with pytest.raises(OverflowError, match="no normal double"):
                mf.evaluate(e, q1=q1, p=p, q2=q2)
            continue
        value, bound = mf.evaluate(e, q1=q1, p=p, q2=q2, error=True)
        assert abs(value - truth) < 1e-12 * size, (q1, p, q2)
        assert abs(value - truth) <= bound + 1e-15 * size, (q1, p, q2)
