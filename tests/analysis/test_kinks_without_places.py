"""Activations whose kinks are infinitely many, or at places that are not known: what is asked of them takes no second derivative."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.landmarks import landmarks

x = mf.x
QUICK = sp.Abs(sp.sin(20 * x))
k = sp.Symbol("k_0", positive=True)
TURNED = mf.mlp(mf.Activation(sp.Abs(sp.sin(x))))


def second(q: mp.mpf, w: float, b: float) -> mp.mpf:
    """q' of |sin u|, or sin u"""
    return w**2 * (1 - mp.exp(-2 * q)) / 2 + b**2


@pytest.mark.parametrize(("low", "high"), [(100, 101), (-101, -100), (9, "9.5"), (-1, 1), (0, 1), (-300, -299)])
def test_a_range_is_scanned_as_finely_wherever_it_is(low: int, high: int | str) -> None:
    ends = mp.mpf(low), mp.mpf(high)
    found = [t for t in landmarks(QUICK, *ends).kinks if ends[0] <= t <= ends[1]]
    expected = [mp.pi * n / 20 for n in range(-2000, 2001) if ends[0] <= mp.pi * n / 20 <= ends[1]]
    assert len(found) == len(expected)
    assert all(abs(t - true) < 1e-14 * (1 + abs(true)) for t, true in zip(found, expected, strict=True))


@pytest.mark.parametrize(("w", "b"), [(1.2, 0.1), (0.8, 0.3)])
def test_a_rectified_wave_settles_as_the_wave_does(w: float, b: float) -> None:
    """E |sin u|^2 and E (|sin u|')^2 are those of sin u; pairs are not"""
    q = mp.findroot(lambda q: second(q, w, b) - q, 0.5)
    found = mf.fixed_points(TURNED, sigma_w=w, sigma_b=b)
    for point in found:
        assert point.q == pytest.approx(float(q), rel=1e-12)
        assert point.chi_parallel == pytest.approx(float(w**2 * mp.exp(-2 * q)), rel=1e-11)
    one = next(point for point in found if point.c == 1)
    assert one.chi == pytest.approx(float(w**2 * (1 + mp.exp(-2 * q)) / 2), rel=1e-12)
    stable = next(point for point in found if point.stable)
    run = mf.propagate(TURNED, 3000, float(q), c=0.3, sigma_w=w, sigma_b=b, record="last")
    assert run.c[-1] == pytest.approx(stable.c, rel=1e-9)


def test_a_rectified_wave_is_critical_where_the_wave_is() -> None:
    found = mf.critical(TURNED, sigma_b=0.1)
    q = mp.findroot(lambda q: second(q, mp.sqrt(2 / (1 + mp.exp(-2 * q))), 0.1) - q, 0.3)
    assert found["q"] == pytest.approx(float(q), rel=1e-11)
    assert found["sigma_w"] == pytest.approx(float(mp.sqrt(2 / (1 + mp.exp(-2 * q)))), rel=1e-11)


GIVEN = {"sigma_w": 1.2, "sigma_b": 0.1}
BENT = [(sp.Max(sp.tanh(x), -k), 0.5), (sp.Max(k * x, sp.tanh(x)), 0.5), (sp.Max(sp.tanh(k * x), x / 5), 2)]


def both(f: sp.Expr, bound: float) -> tuple[mf.Block, mf.Block]:
    """with the parameter as a letter, and as a number"""
    return mf.mlp(mf.Activation(f)), mf.mlp(mf.Activation(f.xreplace({k: sp.nsimplify(bound)})))


@pytest.mark.parametrize(("f", "bound"), BENT, ids=str)
def test_a_kink_at_a_parameter_is_where_its_number_puts_it(f: sp.Expr, bound: float) -> None:
    named, written = both(f, bound)
    for a, b in zip(mf.fixed_points(named, k_0=bound, **GIVEN), mf.fixed_points(written, **GIVEN), strict=True):
        assert (a.q, a.c, a.chi) == pytest.approx((b.q, b.c, b.chi), rel=1e-9)
    of_named, of_written = (mf.critical(net, sigma_b=0.1, **own) for net, own in ((named, {"k_0": bound}), (written, {})))
    assert of_named == pytest.approx(of_written, rel=1e-9)


@pytest.mark.parametrize(("f", "bound"), BENT[:2], ids=str)
def test_growth_with_a_kink_at_a_parameter_is_that_with_its_number(f: sp.Expr, bound: float) -> None:
    laws = [mf.growth(net, **own, **GIVEN) for net, own in zip(both(f, bound), ({"k_0": bound}, {}), strict=True)]
    assert float(laws[0].q.limit) == pytest.approx(float(laws[1].q.limit), rel=1e-9)
    assert float(laws[0].apjn.rate) == pytest.approx(float(laws[1].apjn.rate), rel=1e-9)


def test_growth_at_a_fixed_point_of_a_rectified_wave() -> None:
    law = mf.growth(TURNED, sigma_w=1.2, sigma_b=0.1)
    (stable,) = (point for point in mf.fixed_points(TURNED, sigma_w=1.2, sigma_b=0.1) if point.stable)
    assert float(law.q.limit) == pytest.approx(stable.q, rel=1e-10)
    assert float(law.gap.limit) == pytest.approx(1 - stable.c, rel=1e-8)
    assert float(law.apjn.rate) == pytest.approx(np.log(1.2**2 * (1 + np.exp(-2 * stable.q)) / 2), rel=1e-9)
