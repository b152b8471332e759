"""Functions whose only feature lies far out in the Gaussian's tail: no value is called an underflow, or 0, that is a normal double."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import panels

import meanfield as mf
from meanfield.gaussian.stable import side

x, q, delta = mf.x, mf.q, mf.delta

BUMP = 1 / sp.cosh(1000 * (x - 3))
TURN = 1 / (1 + sp.exp(3000 - 1000 * x))


@pytest.mark.parametrize("f", [BUMP, TURN], ids=str)
@pytest.mark.parametrize("variance", [0.1, 0.05, 0.03, 0.01])
def test_a_feature_beyond_nine_deviations_is_no_underflow(f: sp.Expr, variance: float) -> None:
    with mp.workdps(30):
        ends = np.concatenate((np.arange(2.9, 3.1, 0.001), np.arange(3.1, 5.0, 0.02)))
        value, s = sp.lambdify(x, f, "mpmath"), mp.sqrt(mp.mpf(variance))
        true = mp.fsum(c * value(mp.mpf(y)) * mp.npdf(y, 0, s) for y, c in zip(*panels(ends), strict=True))
    found, bound = mf.evaluate(mf.E(f, q), q=variance, error=True)
    assert abs(found / true - 1) < 1e-12
    assert bound < 1e-11 * found
    digits = mf.evaluate(mf.E(f, q), q=variance, digits=20)
    assert abs(digits / true - 1) < 1e-12


def test_arrays_and_logarithms_say_the_same() -> None:
    a, variances = mf.Activation(BUMP), np.array([0.03, 0.05, 0.1, 0.5])
    for e in (a.mean(q), a.second_moment(q)):
        found = mf.evaluate(e, q=variances)
        true = [float(mf.evaluate(e, q=v, digits=17)) for v in variances]
        assert found == pytest.approx(true, rel=1e-12)
        assert mf.evaluate(e, q=variances, log=True) == pytest.approx(np.log(true), rel=1e-14)


def test_the_exact_words_of_the_issue() -> None:
    assert mf.evaluate(mf.Activation(BUMP).mean(sp.Rational(1, 10))) == pytest.approx(1.1357565765607970e-22, rel=1e-12)
    assert mf.evaluate(mf.Activation(TURN).mean(sp.Rational(1, 20))) == pytest.approx(2.44e-41, rel=2e-3)


def test_a_steep_tail_beside_its_mean() -> None:
    """sech^4 is e^{-800} at the mean and e^{-604} where it counts"""
    e = mf.Activation(sp.tanh(1000 * (x - 3)).diff(x) ** 2).mean(q, mean=sp.Rational(14, 5))
    for s in (0.0035, 0.004):
        assert mf.evaluate(e, q=s * s) == pytest.approx(float(mf.evaluate(e, q=s * s, digits=16)), rel=1e-11)


@pytest.mark.parametrize(
    "f",
    [
        sp.tanh(100 * (x - 7)) + sp.tanh(100 * (x - 3)),
        sp.tanh(100 * (x - 7)) - sp.tanh(100 * (x - 3)),
        (1 + sp.tanh(100 * (x - 3))) * (1 - sp.tanh(100 * (x - 4))),
        BUMP + 1 / sp.cosh(300 * (x - 5)),
        (200 - 100 * sp.tanh(100 * x - 700) ** 2 - 100 * sp.tanh(100 * x - 300) ** 2) ** 2,
        sp.erf(100 * (x - 3)) - sp.erf(100 * (x - 5)),
        50 * (x - 8) / (1 + sp.exp(-50 * (x - 8))),
        sp.log(1 + sp.exp(300 * (x - 4))),
    ],
    ids=str,
)
def test_several_steep_turns_keep_their_digits_between_them(f: sp.Expr) -> None:
    points = np.array(
        [0.001, 0.5, 1.2, 1.9, 2.5, 2.999, 3.001, 3.1, 3.5, 3.999, 4.001, 4.2, 4.9, 5.1, 6.0, 6.9, 7.001, 7.3, 8.1, 9.5, 50.0]
    )
    found, exact = sp.lambdify(x, side(f, 1), ["scipy", {"log1p": np.log1p, "NormalCDF": _normal_cdf}]), sp.lambdify(x, f, "mpmath")
    with np.errstate(all="ignore"):
        values = [float(found(t)) for t in points]
    with mp.workdps(400):
        true = [exact(mp.mpf(t)) for t in points]
    for t, v, w in zip(points, values, true, strict=True):
        assert abs(v - w) <= 1e-11 * abs(w) + mp.mpf("1e-300"), t


def _normal_cdf(z: float) -> float:
    from scipy.special import ndtr

    return float(ndtr(z))


@pytest.mark.parametrize(
    "f", [sp.tanh(100 * (x - 7)) + sp.tanh(100 * (x - 3)), (1 + sp.tanh(100 * (x - 3))) * (1 - sp.tanh(100 * (x - 4)))], ids=str
)
def test_moments_of_several_steep_turns(f: sp.Expr) -> None:
    a = mf.Activation(f)
    for e in (a.mean(q), a.second_moment(q), a.derivative.second_moment(q)):
        found, bound = mf.evaluate(e, q=0.5, error=True)
        true = mf.evaluate(e, q=0.5, digits=20)
        assert abs(found - true) <= min(bound, 1e-12 * abs(true))


@pytest.mark.parametrize("f", [sp.tanh(100 * (x - 7)), sp.tanh(100 * (x - 7)) + sp.tanh(100 * (x - 3))], ids=str)
def test_a_gap_of_steep_turns_is_known_or_known_to_underflow(f: sp.Expr) -> None:
    e = mf.Activation(f).gap(q, delta)
    assert mf.evaluate(e, q=0.5, delta=0.1) == pytest.approx(float(mf.evaluate(e, q=0.5, delta=0.1, digits=16)), rel=1e-11)
    with pytest.raises(OverflowError, match=r"smaller than 2\.2e-308"):
        mf.evaluate(e, q=1e-6, delta=5e-7)


@pytest.mark.parametrize("frequency", [5, 50])
def test_a_wave_is_resolved_where_it_is_as_small_as_rounding(frequency: int) -> None:
    f, far = sp.exp(-2 * sp.Abs(x)) * sp.sin(frequency * x) ** 2, -20
    for variance in (0.01, 3.0):
        with mp.workdps(30):
            still, wave = (mp.exp(far * c + mp.mpf(variance) * c * c / 2) for c in (2, 2 + 2j * frequency))
            true = (still - wave.real) / 2  # the right of 0 is 8 deviations away from all that counts
        found, bound = mf.evaluate(mf.E(f, q, mean=far), q=variance, error=True)
        assert abs(found / true - 1) < 1e-12
        assert bound < 1e-11 * found
