"""What is too small for a double is established to be so: by ranges over intervals, which no value leaves."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import meanfield as mf
from meanfield.gaussian.expectation import Expectation
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.ranges import NoRange, Ranges
from meanfield.gaussian.underflows import _is_below, _Search, is_below
from meanfield.numeric.digits import too_small
from meanfield.numeric.programs import Program

x, y, q, p, delta = mf.x, mf.y, mf.q, mf.p, mf.delta
R = sp.Rational
LIMIT = math.log(2.2250738585072014e-308)
Floats = NDArray[np.float64]


def within(f: sp.Expr, low: sp.Expr | int, high: sp.Expr | int) -> sp.Expr:
    return sp.Piecewise((f, (x > low) & (x < high)), (0, True))


RANGED = (
    1 - sp.tanh(1000 * (x - 3)) ** 2,
    sp.exp(-((10**6 * (x - R(7, 2))) ** 2)) + x / (1 + x**4),
    sp.Max(0, sp.sin(5 * x) - R(9, 10)) * sp.Abs(x) ** R(1, 3),
    sp.log(1 + sp.exp(x)) - sp.Heaviside(x - 2) * sp.atan(x),
    sp.erfc(3 * x) / sp.cosh(x) + sp.Min(x, 1) ** 3,
    within(sp.sqrt(x**2 + 1), -2, 5) + sp.sign(x + 1) * sp.cos(x) * sp.asinh(x),
    sp.exp(-1 / (x - 3) ** 2) + sp.sinh(x / 9) + sp.tan(x),
)


@pytest.mark.parametrize("f", RANGED, ids=str)
@given(low=st.floats(-7, 7), width=st.floats(1e-9, 9), at=st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_no_value_leaves_the_range_of_its_interval(f: sp.Expr, low: float, width: float, at: float) -> None:
    place = min(low + at * width, low + width)
    with mp.workdps(600):  # less is lost in rounding here, and above it there
        value = abs(sp.lambdify(x, f, "mpmath")(mp.mpf(place)))
        size = float(mp.log(value)) if value > 1e-280 else -math.inf
    for bits in (64, 400):
        ranges = Ranges(f, bits)
        assert size <= ranges.log_largest(low, low + width) + 1e-9
        assert size == -math.inf or max(ranges.log_least(low, low + width), ranges.log_least(place, place)) <= size + 1e-9


def test_a_function_without_ranges_is_refused() -> None:
    with pytest.raises(NoRange, match="gamma"):
        Ranges(sp.gamma(x**2 + 1), 64)


#: ln of the mean of a function at a variance, known without quadrature
Log = Callable[[mp.mpf], mp.mpf]
KNOWN: dict[str, tuple[sp.Expr, Log]] = {
    "bump": (sp.exp(-((10**6 * (x - R(7, 2))) ** 2)), lambda v: _log_of_bump(10**6, mp.mpf(7) / 2, v)),
    "bumps": (
        sp.exp(-100 * (x - 20) ** 2) + sp.exp(-(10**10) * (x + 3) ** 2),
        lambda v: mp.log(mp.exp(_log_of_bump(10, mp.mpf(20), v)) + mp.exp(_log_of_bump(10**5, mp.mpf(3), v))),
    ),
    "step": (within(sp.S.One, 7, R(7001, 1000)), lambda v: mp.log(mp.ncdf(-7 / mp.sqrt(v)) - mp.ncdf(-mp.mpf("7.001") / mp.sqrt(v)))),
    "growing": (sp.Heaviside(x - 3) * sp.exp(50 * x), lambda v: 1250 * v + mp.log(mp.ncdf((50 * v - 3) / mp.sqrt(v)))),
    "at the mean": (sp.exp(-(x**2)), lambda v: -mp.log(1 + 2 * v) / 2),
}


def _log_of_bump(k: int, c: mp.mpf, v: mp.mpf) -> mp.mpf:
    """of exp(-k^2 (x - c)^2)"""
    wide = 1 + 2 * mp.mpf(k) ** 2 * v
    return -mp.log(wide) / 2 - (c * k) ** 2 / wide


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("v", [R(1, 10**6), R(1, 1000), R(1, 3)])
def test_means_are_below_limits_on_one_side_of_their_logarithm_alone(name: str, v: sp.Rational) -> None:
    f, log_of = KNOWN[name]
    with mp.workdps(30):
        log = float(log_of(mp.mpf(v.p) / v.q))
    e = mf.E(f, v)
    assert is_below(e, log + 9 + abs(log) / 1000)
    assert not is_below(e, log - 45 - abs(log) / 1000)


@pytest.mark.parametrize("name", KNOWN)
def test_no_number_of_halvings_makes_a_mean_smaller_than_it_is(name: str) -> None:
    f, log_of = KNOWN[name]
    with mp.workdps(30):
        log = float(log_of(mp.mpf(1) / 2))
    assert not is_below(mf.E(f, R(1, 2)), log - 1e-9)


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("v", [R(1, 1000), R(1, 3), R(4)])
def test_few_halvings_tell_that_a_mean_is_larger(name: str, v: sp.Rational) -> None:
    """and none does of one that is not"""
    f, log_of = KNOWN[name]
    with mp.workdps(30):
        log = float(log_of(mp.mpf(v.p) / v.q))
    assert _is_below(mf.E(f, v), log - 3, _Search(64, 500)) is False
    assert _is_below(mf.E(f, v), log + 1e-9, _Search(64, 500)) is not False


@pytest.mark.parametrize("rho", [R(-9, 10), R(0), R(2, 3)])
@pytest.mark.parametrize("means", [(0, 0), (R(-1, 2), 3)])
def test_few_halvings_tell_that_a_kernel_is_larger(rho: sp.Rational, means: tuple[sp.Expr, sp.Expr]) -> None:
    e = PairExpectation(sp.exp(-(x**2)) * sp.cosh(y), R(1, 2), rho, 2, *means)
    log = float(sp.log(mf.evaluate(e)))
    assert _is_below(e, log - 4, _Search(64, 500)) is False
    assert _is_below(e, log + 1e-9, _Search(64, 500)) is not False


@pytest.mark.parametrize("f", [within(sp.exp(x), 3, 4), sp.Max(0, 1 - (x - 3) ** 2)], ids=str)
def test_kernels_and_gaps_are_below_limits_on_one_side_of_their_logarithm_alone(f: sp.Expr) -> None:
    for rho in (R(-1, 2), R(1, 2), R(9, 10)):
        v = R(1, 20)
        e = PairExpectation(f * f.xreplace({x: y}), v, rho * v, v)
        log = float(mp.log(mf.evaluate(e, digits=4)))
        assert is_below(e, log + 16)
        assert not is_below(e, log - 1)
    for d in (R(1, 100), R(1, 10**40)):
        gap = Gap(f, R(1, 20), d)
        log = float(mp.log(mf.evaluate(gap, digits=4)))
        assert not is_below(gap, log - 1)
    assert is_below(Gap(f, R(1, 1000), R(1, 2000)), LIMIT)


def test_a_gap_that_is_small_since_its_inputs_are_near_is_below() -> None:
    assert is_below(Gap(sp.tanh(x), sp.Integer(1), R(1, 10**320)), LIMIT)
    assert not is_below(Gap(sp.tanh(x), sp.Integer(1), R(1, 10**300)), LIMIT)


@pytest.mark.parametrize("variance", [0.05, [0.05, 0.2]])
def test_what_quadrature_has_missed_is_no_underflow(variance: float | list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """with a quadrature that sees nothing at all"""
    f = 1 / sp.cosh(1000 * (x - 3))
    a = mf.Activation(f)
    for e in (a.mean(q), a.kernel(q, q / 2)):
        true = [float(mf.evaluate(e, q=v, digits=17)) for v in np.atleast_1d(variance)]
        with monkeypatch.context() as patched:
            patched.setattr(Program, "__call__", lambda self, table, detail=1.0: (np.zeros(table.shape[1]), np.zeros(table.shape[1])))
            found = mf.evaluate(e, q=variance)
        assert np.atleast_1d(found) == pytest.approx(true, rel=1e-15)


def test_deep_underflows_are_told_at_once_and_zeros_are_zeros() -> None:
    f = 1 / sp.cosh(10**5 * (x + R(13, 10))) ** 2
    with pytest.raises(OverflowError, match=r"smaller than 2\.2e-308"):
        mf.evaluate(mf.Activation(f).kernel(q, p), q=0.003, p=-0.0015)
    even = 1 / sp.cosh(1000 * (x - 3)) + 1 / sp.cosh(1000 * (x + 3))
    assert mf.evaluate(mf.E(sp.tanh(x) * even, q), q=0.001) == 0.0
    with pytest.raises(OverflowError, match=r"smaller than 2\.2e-308"):
        mf.evaluate(mf.E(sp.sin(x) / sp.cosh(1000 * (x - 3)), q), q=0.001)


def test_one_answer_says_nothing_of_another() -> None:
    """the mass next to 0 grows as the variance falls: a mean that is tiny at variance 1 is not so at smaller ones"""
    narrow = sp.Rational(1, 10**240) * sp.exp(-(10**200) * mf.x**2 / 2)
    assert is_below(Expectation(narrow, sp.S.One), -744.0)
    assert not is_below(Expectation(narrow, sp.Rational(1, 10**203)), -744.0)


@pytest.mark.parametrize("f", [abs(mf.x) / mf.x, mf.x / abs(mf.x), sp.atan(1 / mf.x)], ids=str)
def test_gaps_of_what_jumps_are_not_those_of_its_slope(f: sp.Expr) -> None:
    assert not is_below(Gap(f, sp.S.One, sp.Rational(1, 10**4)), -30.0)


def test_what_stands_for_an_underflow_has_its_sign() -> None:
    mean = Expectation(1 / sp.cosh(1000 * mf.x - 3000), sp.Rational(1, 1000))
    assert [too_small(sign * mean, {}) for sign in (1, -1)] == [5e-324, -5e-324]
