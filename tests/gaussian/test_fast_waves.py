"""Digits of kernels whose waves no panel follows, held against integrals of half waves by balls, and along turned contours by mpmath."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp
from flint import acb, arb, ctx

import meanfield as mf

x, y, q, p, delta, R = mf.x, mf.y, mf.q, mf.p, mf.delta, sp.Rational

HARD = mf.hard_tanh.expression * sp.cos(x)
ELU = mf.elu.expression * sp.sin(x)
#: low and high end, and the function between them as coefficient, power and rate
PIECES = {
    HARD: [
        (end, high, c / 2, n, rate) for rate in (1j, -1j) for end, high, c, n in ((-mp.inf, -1, -1, 0), (-1, 1, 1, 1), (1, mp.inf, 1, 0))
    ],
    ELU: [
        (low, high, c * turn / 2j, n, turn * 1j + tilt)
        for turn in (1, -1)
        for low, high, c, n, tilt in ((0, mp.inf, 1, 1, 0), (-mp.inf, 0, 1, 0, 1), (-mp.inf, 0, -1, 0, 0))
    ],
}


def given(f: sp.Expr, mean: acb, deviation: arb) -> acb:
    """E f(mean + deviation Z), by error functions"""
    total, root = acb(0), arb(2).sqrt()
    for low, high, c, n, rate in PIECES[f]:
        b = acb(complex(rate))
        tilted, below, density = mean + b * deviation**2, [], []
        for end in (low, high):
            z = (end - tilted) / deviation if abs(end) < mp.inf else None
            below.append((-z / root).erfc() / 2 if z is not None else acb(int(end > 0)))
            density.append((-z * z / 2).exp() / (2 * arb.pi()).sqrt() if z is not None else acb(0))
        part = below[1] - below[0]
        moment = tilted * part + deviation * (density[0] - density[1]) if n else part
        total += acb(complex(c)) * (b * mean + b * b * deviation**2 / 2).exp() * moment
    return total


@pytest.mark.parametrize("rho", ["1/2", "-99/100"])
@pytest.mark.parametrize("f", PIECES, ids=["hard", "elu"])
def test_kernels_are_integrals_of_conditional_means(f: sp.Expr, rho: str) -> None:
    v, r = 900, R(rho)
    value = mf.evaluate(mf.Activation(f).kernel(q, p), q=v, p=v * r, digits=25)
    with ctx.workdps(60), mp.workdps(45):
        slope = arb(int(r.p)) / int(r.q)
        s, rest = arb(v).sqrt(), (arb(v) * (1 - slope * slope)).sqrt()
        true = acb(0)
        for low, high, c, n, rate in PIECES[f]:

            def integrand(u: acb, _: bool, c: complex = c, n: int = n, rate: complex = rate) -> acb:
                wave = acb(complex(c)) * u**n * (acb(complex(rate)) * u - u * u / (2 * v)).exp()
                return wave * given(f, slope * u, rest)

            true += acb.integral(integrand, max(low, -360), min(high, 360), rel_tol=arb(10) ** -40, abs_tol=arb(10) ** -40)
        true = true.real / (s * (2 * arb.pi()).sqrt())
        assert abs(mp.mpf(true.mid().str(40, radius=False)) - value) <= mp.mpf("1e-22") * abs(value)
        assert true.rad() < arb(10) ** -28


def turned(sign: int, r: mp.mpf, v: mp.mpf) -> mp.mpf:
    """E a b e^{i (a + sign b)} where a and b are positive, a = i t and b = sign i w: of t w e^{-t - w} times a density that hardly falls,
    by powers of its exponent (t^2 - 2 r sign t w + w^2) / (2 v (1 - r^2))"""
    total, square = mp.mpf(0), 1 - r * r
    for k in range(9):
        for i in range(k + 1):
            for j in range(k + 1 - i):
                ways = mp.factorial(k) / (mp.factorial(i) * mp.factorial(j) * mp.factorial(k - i - j))
                left, right = 2 * i + j + 1, 2 * (k - i - j) + j + 1
                total += ways * (-2 * r * sign) ** j * mp.factorial(left) * mp.factorial(right) / (mp.factorial(k) * (2 * v * square) ** k)
    return total / (2 * mp.pi * v * mp.sqrt(square))


@pytest.mark.parametrize("rho", ["0.5", "-0.99"])
@pytest.mark.parametrize("v", ["1e8", "1e12"])
def test_a_million_waves_in_a_deviation(v: str, rho: str) -> None:
    value = mf.evaluate(mf.E(sp.Max(x, 0) * sp.cos(x) * sp.Max(y, 0) * sp.cos(y), q, p), q=R(v), p=R(v) * R(rho), digits=20)
    with mp.workdps(30):
        true = (turned(1, mp.mpf(rho), mp.mpf(v)) + turned(-1, mp.mpf(rho), mp.mpf(v))) / 2
        assert abs(value - true) <= mp.mpf("1e-18") * abs(true)


@pytest.mark.parametrize("f", PIECES, ids=["hard", "elu"])
def test_gaps_and_kernels_make_up_second_moments(f: sp.Expr) -> None:
    phi, v = mf.Activation(f), R(10) ** 10
    for rho in (R(1, 3), 1 - R(10) ** -8):
        kernel = mf.evaluate(phi.kernel(q, p), q=v, p=v * rho, digits=30)
        gap = mf.evaluate(phi.gap(q, delta), q=v, delta=v * (1 - rho), digits=20)
        second = mf.evaluate(phi.second_moment(q), q=v, digits=30)
        with mp.workdps(40):
            assert abs(second - kernel - gap) <= mp.mpf("1e-19") * gap


def test_growing_pieces_within_an_interval_keep_their_digits() -> None:
    """e^x on [0, 1] beside a wave, at a deviation of 1e5: E over both variables nearly uniform"""
    f = sp.Piecewise((sp.exp(x) * sp.cos(1000 * x), (x >= 0) & (x <= 1)), (0, True))
    value = mf.evaluate(mf.E(f * f.xreplace({x: y}), q, p), q=R(10) ** 10, p=R(10) ** 10 / 2, digits=20)
    with mp.workdps(40):
        rest = 10**20 * mp.mpf(3) / 4

        b = mp.mpc(1, 1000)
        moments = [(mp.exp(b) - 1) / b]  # of t^n e^{b t}, by parts
        for n in range(1, 5):
            moments.append((mp.exp(b) - n * moments[-1]) / b)
        m = [moment.real for moment in moments]
        # e^{-(u^2 - u v + v^2) / (2 q 3/4)}, expanded: its third order is beside 1e-30
        c = mp.mpf(10) ** 10 * 3 / 2
        first = -(2 * m[2] * m[0] - m[1] ** 2) / c
        second = (2 * m[4] * m[0] + 3 * m[2] ** 2 - 4 * m[3] * m[1]) / (2 * c * c)
        true = (m[0] ** 2 + first + second) / (2 * mp.pi * mp.sqrt(rest))
        assert abs(value - true) <= mp.mpf("1e-18") * abs(true)
