"""Functions that are 0 far around 0: their moments are tails of the normal density, known by logarithm and by digits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import panels

import meanfield as mf

x, q, p, delta, R = mf.x, mf.q, mf.p, mf.delta, sp.Rational

ZONES = {
    "soft": sp.Max(x - 1, 0) + sp.Min(x + 1, 0),
    "hard": mf.hard_shrink(R(3, 10)).expression,
    "smooth": sp.Max(sp.tanh(x - R(1, 10)), 0),
    "one-sided": sp.Heaviside(x - 1) * sp.atan(x),
    "uneven": sp.Max(x - 1, 0) + sp.Max(-x - 2, 0),
    "exponential": sp.Max(sp.exp(x) - 2, 0),
}
#: where each begins
EDGES = {"soft": 1, "hard": R(3, 10), "smooth": R(1, 10), "one-sided": 1, "uneven": 1, "exponential": sp.log(2)}
DOUBLED = {"soft", "hard"}


def tail(name: str, v: str, power: int) -> mp.mpf:
    """E f(u)^power from the edge on, in units of e^(-edge^2/2v), and that exponent"""
    f, edge = sp.lambdify(x, ZONES[name], "mpmath"), mp.mpf(sp.N(EDGES[name], 60))
    v_ = mp.mpf(v)
    step = v_ / edge  # over which the density falls by e

    def weighted(t: mp.mpf) -> mp.mpf:
        return f(edge + t) ** power * mp.exp(-(edge * t + t * t / 2) / v_)

    points = [0, *(step * k for k in (mp.mpf("0.1"), 1, 4, 12, 30, 60, 110))]
    value = mp.quad(weighted, points) / mp.sqrt(2 * mp.pi * v_)
    return mp.log(value * (2 if name in DOUBLED else 1)) - edge**2 / (2 * v_)


@pytest.mark.parametrize("v", ["1e-3", "1e-7", "1e-12"])
@pytest.mark.parametrize("name", ZONES)
def test_one_variable(name: str, v: str) -> None:
    phi = mf.Activation(ZONES[name])
    moments = [(phi.second_moment(q), 2)] + ([] if name in DOUBLED else [(phi.mean(q), 1)])
    for e, power in moments:
        with mp.workdps(40):
            truth = tail(name, v, power)
            assert abs(mp.log(mf.evaluate(e, q=R(v), digits=25)) - truth) <= mp.mpf("1e-20") * abs(truth)
        assert mf.evaluate(e, q=float(v), log=True) == pytest.approx(float(truth), rel=1e-12)


def kernel_of_ramp(v: str, rho: mp.mpf) -> mp.mpf:
    """ln E max(u - 1, 0) max(w - 1, 0): the inner mean in closed form, the outer one by mpmath"""
    v_ = mp.mpf(v)
    s = mp.sqrt(v_)
    spread = s * mp.sqrt(1 - rho**2)

    def inner(u: mp.mpf) -> mp.mpf:
        z = (rho * u - 1) / spread
        return spread * (mp.npdf(z) + z * mp.erfc(-z / mp.sqrt(2)) / 2)

    exponent = 1 / (v_ * (1 + rho))

    def weighted(t: mp.mpf) -> mp.mpf:
        return t * mp.exp(exponent - (1 + t) ** 2 / (2 * v_)) * inner(1 + t) / (s * mp.sqrt(2 * mp.pi))

    step = v_ * (1 + rho)
    return mp.log(mp.quad(weighted, [0, *(step * k for k in (mp.mpf("0.1"), 1, 4, 12, 30, 60, 110))])) - exponent


@pytest.mark.parametrize("rho", ["0.9", "0.25", "-0.5"])
def test_two_variables(rho: str) -> None:
    ramp = mf.Activation(sp.Max(x - 1, 0))
    for v in ("1e-3", "1e-7"):
        with mp.workdps(40):
            truth = kernel_of_ramp(v, mp.mpf(rho))
            value = mf.evaluate(ramp.kernel(q, p), q=R(v), p=R(v) * R(rho), digits=25)
            assert abs(mp.log(value) - truth) <= mp.mpf("1e-20") * abs(truth), v


@pytest.mark.parametrize("ratio", ["1.5", "0.3", "1e-6", "1e-9", "1e-30"])
@pytest.mark.parametrize("name", ["soft", "hard", "smooth", "uneven"])
def test_gaps(name: str, ratio: str) -> None:
    """what a gap takes from the second moment is the kernel, or next to correlation 1 delta times E f'(u)^2"""
    phi, v = mf.Activation(ZONES[name]), R("1e-7")
    d = v * R(ratio)
    gap = mf.evaluate(phi.gap(q, delta), q=v, delta=d, digits=25)
    with mp.workdps(60):
        if d / v < R("1e-20") and name != "hard":
            slope = mf.evaluate(phi.derivative.second_moment(q), q=v, digits=25)
            assert abs(gap / (mp.mpf(d.p) / d.q * slope) - 1) <= 4000 * mp.sqrt(mp.mpf(R(ratio).p) / R(ratio).q)  # edge/sqrt(v) < 4000
        elif d / v > R("1e-4"):
            product = mf.evaluate(phi.kernel(q, p), q=v, p=v - d, digits=40)
            assert abs(gap + product - mf.evaluate(phi.second_moment(q), q=v, digits=40)) <= mp.mpf("1e-24") * gap
        else:
            wider = mf.evaluate(phi.gap(q, delta), q=v, delta=d * (1 + R("1e-9")), digits=25)
            assert 0 < wider - gap < gap * mp.mpf("1e-8")


#: without a Taylor series where they begin, 0 times infinity there in their slopes, and huge beyond where they are used
FLAT = {
    "bump": (sp.Piecewise((0, sp.Abs(x) < R(3, 2)), (sp.exp(-2 / (x**2 - R(9, 4))), True)), (-1.5, 1.5)),
    "on a smooth function": (sp.Piecewise((sp.atan(x), x < R(5, 2)), (sp.atan(R(5, 2)) + sp.exp(-2 / (x - R(5, 2))), True)), (2.5,)),
}


@pytest.mark.parametrize("name", FLAT)
def test_what_begins_flatter_than_any_power(name: str) -> None:
    """by Gauss-Legendre panels that are short next to where it begins, in one variable and in the plane"""
    f, edges = FLAT[name]
    phi, variance, gap = mf.Activation(f), 1.2, 0.35
    ends = sorted({e + s * t for e in edges for s in (-1, 1) for t in (0, 0.04, 0.1, 0.25, 0.6)} | {*np.arange(-12, 12.1, 0.5).tolist()})
    u, w = panels(np.array(ends))
    w *= np.exp(-(u**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    value, rate = (np.array(list(map(sp.lambdify(x, g, "math"), u.tolist()))) for g in (f, f.diff(x)))
    second, slope = (float(w @ v**2) for v in (value, rate))
    assert mf.evaluate(phi.second_moment(q), q=variance) == pytest.approx(second, rel=2e-14)
    assert mf.evaluate(phi.derivative.second_moment(q), q=variance) == pytest.approx(slope, rel=2e-14)
    rho = 1 - gap / variance
    apart = np.exp(-(rho**2 * (u[:, None] ** 2 + u**2) - 2 * rho * u[:, None] * u) / (2 * variance * (1 - rho**2))) / np.sqrt(1 - rho**2)
    product = float((w * value) @ apart @ (w * value))
    assert mf.evaluate(phi.gap(q, delta), q=variance, delta=gap) == pytest.approx(second - product, rel=1e-12)
    assert mf.evaluate(phi.gap(q, delta), q=variance, delta=1e-14) == pytest.approx(slope * 1e-14, rel=1e-11)
