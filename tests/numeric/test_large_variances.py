"""Gaps in generated kernels where their angles and roots are sqrt(q) times what is left of them, against closed kernels in 400 digits."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian import closed
from meanfield.gaussian.angle_sines import joined
from meanfield.gaussian.forms import paired
from meanfield.gaussian.special import AngleDifference, AngleMinusSine, written_out

x, q, p, delta = mf.x, mf.q, mf.p, mf.delta
erf = sp.erf

JOINED = (mf.gelu.expression, x * erf(x), x**2 * (1 + erf(x / sp.sqrt(2))) / 2, x / 3 + x * erf(2 * x) + erf(x))
VARIANCES = [10.0**k for k in range(-12, 13, 3)]
RATIOS = [1.5, 1.0, 0.3, 1e-2, 1e-5, 1e-10, 1e-15, 1e-20, 1e-60, 1e-200, 1e-250]


def one_layer(f: sp.Expr) -> tuple[Any, list[mp.mpf]]:
    """1 - c after a layer of every variance and ratio, and what it is"""
    points = [(v, r) for v in VARIANCES for r in RATIOS]
    net = mf.mlp(mf.Activation(f))
    run = mf.propagate(net, 1, q=[v for v, _ in points], gap=[r for _, r in points], sigma_w=1.0, sigma_b=0.0)
    second = sp.lambdify(q, closed.product_mean(f, f), "mpmath")
    kernel = sp.lambdify((q, p), closed.cross(f, f), "mpmath")
    with mp.workdps(400):
        true = [1 - kernel(mp.mpf(v), mp.mpf(v) - mp.mpf(v) * mp.mpf(r)) / second(mp.mpf(v)) for v, r in points]
    return run, true


@pytest.mark.parametrize("f", JOINED, ids=str)
def test_the_gap_of_a_layer_keeps_its_digits_at_every_variance(f: sp.Expr) -> None:
    run, true = one_layer(f)
    worst = max(abs(mp.mpf(float(g)) / t - 1) for g, t in zip(run.gap[:, 1], true, strict=True))
    assert worst <= 1e-14


@pytest.mark.parametrize("f", JOINED[:2], ids=str)
def test_products_of_large_variances_stay_doubles(f: sp.Expr) -> None:
    """from where roots do not count beside q, and 1 - c does not depend on q"""
    gaps = np.array([1e-30, 1e-10, 0.1, 1.0, 1.9])
    run = mf.propagate(mf.mlp(mf.Activation(f)), 1, q=np.array([[1e60], [1e160], [1e220], [1e295]]), gap=gaps, sigma_w=1.0, sigma_b=0.0)
    assert (run.status == "ok").all()
    assert np.allclose(run.gap[1:, :, 1], run.gap[0, :, 1], rtol=1e-14, atol=0)


PEAKS = [(1 / (1 + x**2), math.pi / 2), (1 / sp.cosh(x), 2.0), (1 / (1 + sp.Abs(x)) ** 2, 2 / 3)]


@pytest.mark.parametrize(("f", "square"), PEAKS, ids=str)
def test_peaks_far_apart_are_met_by_one_input_at_most(f: sp.Expr, square: float) -> None:
    """E f(u)^2 = n(0) times the integral of f^2, beside which E f(u) f(v) is of the order 1/sqrt(q), below all digits"""
    v = np.array([1e40, 1e60, 1e100, 1e200])
    run = mf.propagate(mf.mlp(mf.Activation(f)), 1, q=v[:, None], c=np.array([0.4, -0.4]), sigma_w=1.0, sigma_b=0.0)
    assert np.allclose(run.q[..., 1], square / np.sqrt(2 * np.pi * v[:, None]), rtol=1e-12, atol=0)
    assert np.allclose(run.gap[..., 1], 1.0, rtol=0, atol=1e-14)
    assert (run.status == "ok").all()


def test_what_is_joined_is_the_gap_by_differentiating() -> None:
    """against p it falls as the kernel rises, and it is 0 at p = q"""
    f = x * erf(x) * sp.Rational(3, 2)
    kernel = closed.cross(f, f)
    terms, others = joined(list(sp.Add.make_args(paired(kernel))))
    assert [t.angle for t in terms] == list(kernel.atoms(sp.asin))
    assert others == []
    gap = closed.gap(f)
    assert gap.has(AngleMinusSine)
    assert gap.xreplace({delta: sp.S.Zero}) == 0
    slope = written_out(gap).diff(delta) - kernel.diff(p).xreplace({p: q - delta})
    for v, d in ((sp.Rational(1, 3), sp.Rational(1, 7)), (sp.Integer(5), sp.Integer(9)), (sp.Integer(10**6), sp.Rational(1, 10))):
        assert abs(slope.xreplace({q: v, delta: d}).evalf(60)) < 1e-55


def test_angles_without_roots_beside_them_stay() -> None:
    gap = closed.gap(erf(x))
    assert gap.has(AngleDifference)
    assert not gap.has(AngleMinusSine)


@pytest.mark.parametrize("f", JOINED[:2], ids=str)
def test_the_slope_of_a_gap_keeps_its_digits(f: sp.Expr) -> None:
    r"""along delta it is E f'(u) f'(v), along q it holds the gap of f'"""
    gap = mf.Activation(f).gap(q, delta)
    for along in (q, delta):
        for v in VARIANCES[::2]:
            for r in (1.9, 0.3, 1e-3, 1e-20):
                slope = mf.Activation(f).gap(q, delta).diff(along)
                value, true = mf.evaluate(slope, q=v, delta=v * r), mf.evaluate(slope, q=v, delta=sp.Float(v * r, 17), digits=20)
                scale = mf.evaluate(gap, q=v, delta=v * r) / (v * r if along == delta else v)
                assert abs(value - true) <= 1e-13 * max(abs(true), scale), (along, v, r)


def test_what_tends_to_a_power_slowly_goes_on_as_far_as_doubles() -> None:
    """x/(1 + |x|) is sign(x) there, and E phi'(u)^2 = (2/3)/sqrt(2 pi q) with all mass next to 0"""
    variances = np.array([1e36, 1e39, 1e80, 1e140, 1e280])
    run = mf.propagate(mf.mlp(mf.softsign), 1, q=variances, c=0.5, sigma_w=1.0, sigma_b=0.0)
    assert (run.status == "ok").all()
    np.testing.assert_allclose(run.gap[:, 1], 2 / 3, rtol=1e-13)
    np.testing.assert_allclose(run.log_apjn[:, 0], np.log(2 / 3) - np.log(2 * np.pi * variances) / 2, rtol=1e-13)


def test_ordinary_answers_at_variances_near_the_largest() -> None:
    """a logarithm, and what is bounded, whose chi falls as 1/sqrt(q)"""
    far = mf.propagate(mf.mlp(mf.Activation(sp.log(1 + sp.Abs(mf.x)))), 1, np.array([1e40, 1e100]), gap=0.5, sigma_w=1.2, sigma_b=0.1)
    assert far.status.tolist() == ["ok", "ok"]
    assert np.isfinite(far.gap).all()
    q = np.array([1e296, 1e299, 1e300])
    run = mf.propagate(mf.mlp(mf.softsign), 1, q, gap=0.5, sigma_w=1.2, sigma_b=0.1)
    assert run.status.tolist() == ["ok"] * 3
    np.testing.assert_allclose(run.chi[:, 0] * np.sqrt(q), 1.44 * 2 / (3 * math.sqrt(2 * math.pi)), rtol=1e-12)


def test_what_is_not_known_is_neither_infinite_nor_too_large() -> None:
    """parts of a closed form overflow where the whole is an ordinary double: that is no number, not a large one"""
    net = mf.mlp(mf.Activation(mf.x * sp.exp(-(mf.x**2))))
    words = mf.propagate(net, 1, np.array([1e77, 1e150, 1e250]), gap=0.5, sigma_w=1.2, sigma_b=0.1).status.tolist()
    assert not {*words} & {"overflow", "infinite APJN"}
    single = mf.propagate(net, 1, 1e250, sigma_w=1.2, sigma_b=0.1)
    assert single.status != "infinite APJN"
    assert single.q[-1] == pytest.approx(0.01, rel=1e-14)
    assert mf.propagate(mf.mlp(mf.sign), 1, 1.0, gap=0.5, sigma_w=1.2, sigma_b=0.1).status == "infinite APJN"
    assert mf.propagate(mf.mlp(mf.Activation(mf.x**2)), 1, 1e200, gap=0.5, sigma_w=1.2, sigma_b=0.1).status == "overflow"
