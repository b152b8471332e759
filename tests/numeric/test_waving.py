"""Tables of functions that oscillate for ever beside what is constant far out, under Gaussians that are wide against the waves."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from from_tables import read
from scipy.special import erfcx, ndtr

import meanfield as mf
from meanfield.gaussian.mending import mended_function
from meanfield.gaussian.singularities import regular
from meanfield.numeric import ways
from meanfield.numeric.calming import calmed
from meanfield.numeric.deviations import Impossible
from meanfield.numeric.far_waves import waves_of
from meanfield.numeric.table_panels import _Integrand
from meanfield.numeric.tables import Table
from meanfield.numeric.tabulation import variances
from meanfield.numeric.waving import Waving

x = mf.x
SIGMOID = 1 / (1 + sp.exp(-x))
#: a wave on both sides, on one, on one without anything else, of a higher frequency beside what rises
BESIDE = {
    "beside": sp.sin(x) + sp.tanh(x),
    "one side": (x + sp.sin(x)) * SIGMOID,
    "alone": sp.sin(x) * SIGMOID,
    "faster": sp.sin(3 * x) + mf.softplus.expression,
}


#: with kinks: of unequal size on either side (LeakySineLU), of the wave alone, inside it, two of them far from 0, that of a rectifier
KINKED = {
    "leaky": sp.Piecewise((x + sp.sin(x) ** 2, x > 0), ((x + sp.sin(x) ** 2) / 10, True)),
    "both sides": sp.sin(sp.Abs(x)),
    "begins": sp.cos(sp.Max(x, 0)),
    "apart": sp.sin(3 * sp.Abs(x - 2)) / 2 + sp.Max(x + 5, 0) + sp.tanh(x),
    "rectified": sp.Max(x - sp.Rational(3, 2), 0) + sp.sin(3 * x / 2 - 3) / 4,
}


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("name", ["beside", "one side", "faster", *KINKED])
def test_a_wave_and_what_is_left_give_what_sums_over_panels_give(name: str, mirrored: bool) -> None:
    """at variances that both know, from inputs next to each other to independent ones"""
    g = _Integrand.of(regular(mf.Activation((BESIDE | KINKED)[name]).expression))
    waves = waves_of(g.g)
    assert waves is not None
    v = np.linspace(340.0, 600.0, 6) / waves.frequencies.max() ** 2
    y = np.concatenate([2.0 ** -np.arange(0.0, 14.0), np.linspace(0.05, 0.95, 20)])
    values, others = (way.products(v)(y) for way in (Waving(g.value, waves, mirrored), g.pieces(mirrored)))
    assert np.abs(values - others).max() < 1e-14 * max(np.abs(others).max(), 0.5 * g.squares(v).max())


def gap_next_to(f: sp.Expr, v: float, d: float, sides: tuple[float, float]) -> float:
    """E (f(u) - f(v))^2/2 for u and v much nearer to each other than a standard deviation: far out it is, on the mean over all phases,
    these numbers, and only what is left near 0 sees how likely (u + v)/2 is"""
    value, s = sp.lambdify(x, f), math.sqrt(d / 2)
    z, w = np.polynomial.hermite_e.hermegauss(60)
    at = np.arange(-400.0, 400.0, 0.02)
    window = ndtr((200 - np.abs(at)) / 15)
    squares = (value(at[:, None] + s * z) - value(at[:, None] - s * z)) ** 2 @ (w / w.sum()) / 2
    near = 0.02 * float((squares * window).sum()) - 200 * sum(sides)
    return sum(sides) / 2 + near / math.sqrt(2 * math.pi * v)


@pytest.mark.parametrize("name", BESIDE)
def test_under_wide_gaussians_a_gap_is_that_far_out_and_what_is_near_0(name: str) -> None:
    """where quadrature takes 0.2 s for a gap or knows it to 3e-12: to the part that the density falls by over what is near 0"""
    nu, rising, on_both = {"beside": (1, 0, True), "one side": (1, 1, False), "alone": (1, 0, False), "faster": (3, 1, True)}[name]
    f = mf.Activation(BESIDE[name]).expression
    table = Table(f, regular(f))
    for d in (0.01, 1 / 3, 1.0):
        wave = (1 - math.exp(-(nu**2) * d)) / 2
        for v in (1e10, 4e11):
            true = gap_next_to(f, v, d, (wave if on_both else 0.0, rising * d + wave))
            assert abs(read(table, "gap", v, d) - true) < 2e-13 * true + 1e2 * v**-1.5, (d, v)


@pytest.mark.parametrize("e", [0.3, 1.3])
def test_what_is_small_by_its_signs_is_as_good_as_its_size(e: float) -> None:
    """the slope of sin x/(1 + e^-x) is +-1, its kernel 1e-9"""
    phi = mf.Activation(BESIDE["alone"])
    found = read(Table(phi.derivative.expression, None), "cross", 4e3, 4e3 * e)
    assert abs(found - mf.evaluate(phi.derivative.kernel(mf.q, mf.p), q=4e3, p=4e3 * (1 - e))) < 1e-16
    assert 1e-10 < abs(found) < 1e-8


@pytest.mark.parametrize("name", KINKED)
def test_kinks_beside_waves_under_wide_gaussians(name: str) -> None:
    """to what quadrature, that knows nothing of this, leaves of a difference of kernels"""
    phi = mf.Activation(KINKED[name])
    table, kernel = Table(phi.expression, regular(phi.expression)), phi.kernel(mf.q, mf.p)
    for v, e in ((1.1e4, 0.02), (1.1e4, 1.4), (1e7, 0.6)):
        second, other = (float(mf.evaluate(kernel, q=v, p=v * (1 - t))) for t in (0.0, e))
        assert abs(read(table, "gap", v, v * e) - (second - other)) < 5e-15 * second


@pytest.mark.parametrize("name", [*BESIDE, *sorted({*KINKED} - {"rectified"})])  # that is closed
def test_networks_of_waves_run_from_tables_at_large_variances(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "_by_quadrature", None)
    net = mf.mlp(mf.Activation((BESIDE | KINKED)[name]))
    run = mf.propagate(net, 2, np.array([2e4, 1e6, 3e10]), c=np.array([[0.9], [-0.5]]), sigma_w=1.0, sigma_b=1e3)
    assert (run.status == "ok").all()
    assert np.isfinite(run.log_apjn).all()


def test_what_a_function_is_far_out() -> None:
    waves = waves_of(2 * sp.cos(3 * x + 1) * SIGMOID - sp.sin(x / 2) / 5 + sp.tanh(x))
    assert waves is not None
    order = np.argsort(waves.frequencies)
    np.testing.assert_allclose(waves.frequencies[order], [0.5, 3.0], rtol=1e-15)
    np.testing.assert_allclose(waves.amplitudes[0][order], [0.2j, 0.0], atol=1e-14)
    np.testing.assert_allclose(waves.amplitudes[1][order], [0.2j, 2 * np.exp(1j)], rtol=1e-13)
    np.testing.assert_allclose(waves.constants, [-1.0, 1.0], rtol=1e-15)
    assert waves.calm == pytest.approx(1.15 * 8.6 / 0.5)
    assert (waves.slow(np.array([-1e9, 1e9])) == waves.constants).all()


@pytest.mark.parametrize("f", [sp.sin(x) * sp.tanh(3 * x), 1 / (2 + sp.sin(x)) + sp.erf(x)], ids=str)
def test_steep_waves_and_many_harmonics(f: sp.Expr) -> None:
    g = regular(f)
    table, kernel = Table(g, None), mf.Activation(g).kernel(mf.q, mf.p)
    for v, c in ((2e4, 0.75), (2e4, -0.25)):
        true, size = mf.evaluate(kernel, q=v, p=c * v), mf.evaluate(mf.E(g**2, mf.q), q=v)
        assert abs(read(table, "cross", v, v * (1 - c)) - true) < 1e-14 * size


def test_a_small_wave_is_gone_under_a_wide_gaussian() -> None:
    tables = [Table(regular(f), None) for f in (sp.tanh(x) + sp.sin(x) / 10**6, sp.tanh(x))]
    for v, c in ((2e4, 0.8), (1e6, 0.8), (1e11, -0.6)):
        with_wave, without = (read(table, "cross", v, v * (1 - c)) for table in tables)
        assert with_wave == pytest.approx(without, rel=1e-13)


def test_waves_of_two_phases_beat() -> None:
    """as slowly as they differ"""
    waves = waves_of(sp.cos(2 * x) * sp.cos(sp.sqrt(2) * x) + sp.tanh(x) ** 3 / 3)
    assert waves is not None
    np.testing.assert_allclose(np.sort(waves.frequencies), [2 - math.sqrt(2), 2 + math.sqrt(2)], rtol=1e-14)
    for side in waves.amplitudes:
        np.testing.assert_allclose(side, [0.5, 0.5], atol=1e-14)
    assert waves.calm == pytest.approx(1.15 * 8.6 / (2 - math.sqrt(2)))
    z = np.linspace(-30.0, 30.0, 101)
    np.testing.assert_allclose(waves.slow(z), np.tanh(z) ** 3 / 3, atol=1e-15)


@pytest.mark.parametrize(
    "f",
    [
        sp.tanh(x),
        sp.Abs(sp.sin(x)) + sp.tanh(x),
        sp.sin(x) / x,
        x * sp.cos(x),
        sp.sin(x) + sp.exp(x),
        sp.sin(x) + 3 / sp.cosh(x - 300),
        sp.sin(x) + sp.Max(0, 1 - sp.Abs(x - 300)),
    ],
    ids=str,
)
def test_what_has_no_such_waves(f: sp.Expr) -> None:
    """none, kinks without end, amplitudes that fall slowly or rise, what rises beside them, or is far from 0, in kinks too"""
    assert waves_of(f) is None


def test_what_is_short_against_waves_is_left_to_other_ways() -> None:
    """variances, and all of them where a wave begins or ends so slowly that little else is left"""
    g = _Integrand.of(sp.cos(x) * SIGMOID)
    waves = waves_of(g.g)
    assert waves is not None
    with pytest.raises(Impossible, match="too small"):
        Waving(g.value, waves).products(variances(3))
    assert waves_of(sp.cos(x / 9) * SIGMOID) is None


@pytest.mark.parametrize(
    ("f", "second"),
    [
        ((x + sp.sin(x)) * SIGMOID, lambda v: v / 2 + 0.25),
        (x * sp.cos(x) + sp.tanh(x), lambda v: v / 2 + 1.0),
        (sp.sin(x) / sp.sqrt(1 + x**2), lambda v: math.sqrt(math.pi / (8 * v)) * erfcx(1 / math.sqrt(2 * v))),
        (sp.cos(x) * sp.sin(sp.sqrt(3) * x) + 2, lambda v: 4.25),
    ],
    ids=["one side", "rising", "falling", "two"],
)
def test_means_over_all_phases(f: sp.Expr, second: object) -> None:
    """E f(u)^2: powers of the variance with what is near 0 as small as 1/sqrt(v) beside; to quadrature's last digits"""
    square, v = f**2, np.array([3e4, 1e8])
    found = calmed(square)
    assert found is not None
    means = _Integrand.of(square).means(v)
    assert means == pytest.approx([float(mf.evaluate(mf.E(square, mf.q), q=a)) for a in v], rel=1e-14)
    assert (np.abs(means - [second(a) for a in v]) < 5 / np.sqrt(v)).all()


@pytest.mark.parametrize("k", [1, 2])
def test_means_where_no_amplitude_is_known(k: int) -> None:
    """of many harmonics beside steps, as trapezoidal sums; a wave at one distance is known to digits only, of which lowest terms have no
    end"""
    step = 1 / (sp.exp(sp.Rational(-7, 4) * x - sp.Rational(21, 16)) + 1)
    f = (3 * sp.cos(x) / 4 - 2 / (sp.exp(sp.Rational(-3, 2) * x - 3) + 1) + 5 * sp.tanh(sp.sin(2 * x)) * step / 4) ** k
    found = calmed(f)
    assert found is not None
    assert found.calm > 9.8  # as waves are
    h, v = 0.01, 1157.0
    z = h * np.arange(-45_000.0, 45_001.0)
    true = h * float(np.exp(-(z**2) / (2 * v)) @ mended_function(f)(z)) / math.sqrt(2 * math.pi * v)
    assert _Integrand.of(f).means(np.array([v])) == pytest.approx(true, rel=1e-14)


def test_what_has_kinks_without_end_is_not_calmed() -> None:
    assert calmed(sp.Abs(sp.sin(x)) + sp.tanh(x)) is None
    assert calmed(sp.tanh(x)) is None
