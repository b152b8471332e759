"""What every activation obeys, on activations that nobody chose: sums of products of polynomials with steps, error functions, Gaussians,
sines (closed), and of tanh, softplus, arctan (by quadrature). Examples are the same on every run."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import bound
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import meanfield as mf

x = mf.x
run = settings(deadline=None, derandomize=True, database=None, max_examples=6, suppress_health_check=list(HealthCheck))
few = settings(run, max_examples=2)

# ---------------------------------------------------------------------------------------------------------------------------------
# activations and points

small = st.fractions(-2, 2, max_denominator=4)
nonzero = small.filter(bool)
rate = st.fractions(Fraction(1, 3), 3, max_denominator=3)


def number(value: Fraction) -> sp.Rational:
    return sp.Rational(value.numerator, value.denominator)


KINDS = ("step", "erf", "bell", "wave", "power")


@st.composite
def closed_terms(draw: st.DrawFn, continuous: bool = False, kinds: tuple[str, ...] = KINDS) -> sp.Expr:
    """c (x - k)^n times a step at k, an error function, a Gaussian, a wave, or nothing"""
    c, a, n = number(draw(nonzero)), number(draw(rate)), draw(st.integers(0, 1))
    kind = draw(st.sampled_from(kinds))
    if kind == "step":
        k = number(draw(small))
        return c * (x - k) ** max(n, 1) * sp.Heaviside(x - k) if continuous or n else c * sp.Heaviside(x - k)
    if kind == "power":
        return c * x ** (n + 1)
    return c * x**n * {"erf": sp.erf(a * x), "bell": sp.exp(-a * x**2), "wave": sp.sin(a * x)}[kind]


@st.composite
def sums(draw: st.DrawFn, terms: st.SearchStrategy[sp.Expr], most: int = 2) -> mf.Activation:
    """of one or two terms"""
    total = sp.Add(*draw(st.lists(terms, min_size=1, max_size=most)))
    if x not in total.free_symbols:
        total += x
    return mf.Activation(total)


@st.composite
def open_terms(draw: st.DrawFn) -> sp.Expr:
    c, a = number(draw(nonzero)), number(draw(rate))
    kind = draw(st.sampled_from(["tanh", "gated", "softplus", "atan"]))
    gated = x * (1 + sp.tanh(a * x))
    return c * {"tanh": sp.tanh(a * x), "gated": gated, "softplus": sp.log(1 + sp.exp(a * x)), "atan": sp.atan(a * x)}[kind]


closed = sums(closed_terms())
single = sums(closed_terms(), 1)  # one term: where every pair of terms costs seconds of algebra
continuous = sums(closed_terms(continuous=True))
opened = sums(open_terms())
variance = st.sampled_from([2.0**k for k in range(-20, 11, 3)])
correlation = st.sampled_from([-0.96875, -0.5, -0.0625, 0.03125, 0.25, 0.75, 0.984375])


def evaluated(e: sp.Expr, **values: float) -> float:
    try:
        return float(bound(e, **values))
    except OverflowError:  # a wave under a wide Gaussian is no normal double
        reject()


def precise(e: sp.Expr, **values: float) -> mp.mpf:
    names = {s.name for s in e.free_symbols}
    exact = {k: sp.Rational(v) for k, v in values.items() if k in names}
    return mp.mpf(sp.N(e.subs({s: exact[s.name] for s in e.free_symbols}, simultaneous=True), 30)._to_mpmath(110))


# ---------------------------------------------------------------------------------------------------------------------------------
# of closed forms, as identities: 20 digits


def price(left: sp.Expr, right: sp.Expr, **at: float) -> None:
    with mp.workdps(30):
        first, second = precise(left, **at), precise(right, **at)
        assert abs(first - second) <= mp.mpf("1e-20") * (1 + abs(first)), at


@run
@given(closed, variance, correlation)
def test_price(phi: mf.Activation, q: float, rho: float) -> None:
    """dC/dp = E phi'(u) phi'(v)"""
    price(phi.kernel(mf.q, mf.p).diff(mf.p), phi.derivative.kernel(mf.q, mf.p), q=q, p=rho * q)


@run
@given(single, variance, correlation)
def test_price_of_unequal_variances(phi: mf.Activation, q: float, rho: float) -> None:
    at = {"q1": q, "p": rho * q, "q2": 4 * q}
    price(phi.kernel(mf.q1, mf.p, mf.q2).diff(mf.p), phi.derivative.kernel(mf.q1, mf.p, mf.q2), **at)


@run
@given(sums(closed_terms(kinds=("bell", "wave", "power"))), variance)
def test_rate_of_the_second_moment(phi: mf.Activation, q: float) -> None:
    """dV/dq = E u phi(u) phi'(u) / q, for what is closed under products"""
    f = phi.expression
    price(phi.second_moment(mf.q).diff(mf.q), mf.E(sp.expand(x * f * f.diff(x)), mf.q).doit() / mf.q, q=q)


@run
@given(closed, variance)
def test_no_correlation_is_no_dependence(phi: mf.Activation, q: float) -> None:
    """C at p = 0 is M1^2"""
    with mp.workdps(30):
        first, second = precise(phi.kernel(mf.q, 0), q=q), precise(phi.mean(mf.q), q=q) ** 2
        assert abs(first - second) <= mp.mpf("1e-20") * (1 + abs(first)), phi


@run
@given(single, variance)
def test_full_correlation_is_identity(phi: mf.Activation, q: float) -> None:
    """C at p = q is V"""
    kernel, second = phi.kernel(mf.q, mf.p).subs(mf.p, mf.q), phi.second_moment(mf.q)
    with mp.workdps(30):
        assert abs(precise(kernel, q=q) - precise(second, q=q)) <= mp.mpf("1e-20") * (1 + precise(second, q=q)), phi


# ---------------------------------------------------------------------------------------------------------------------------------
# of numbers: closed or not


def obeys(phi: mf.Activation, q: float, rho: float) -> None:
    """Cauchy and Schwarz, symmetry, limits, and that C(p) has a power series of positive terms: C and Cdot grow with p >= 0"""
    q2, p = 4 * q, 2 * rho * q
    second, kernel, gap = phi.second_moment(mf.q), phi.kernel(mf.q, mf.p), phi.gap(mf.q, mf.delta)
    v, v2 = evaluated(second, q=q), evaluated(second, q=q2)
    unequal = phi.kernel(mf.q1, mf.p, mf.q2)
    c, turned = evaluated(unequal, q1=q, p=p, q2=q2), evaluated(unequal, q1=q2, p=p, q2=q)
    size = math.sqrt(v * v2)
    assert v > 0
    assert abs(c) <= size * (1 + 1e-12)
    assert abs(c - turned) <= 2e-12 * size
    ratios = np.array([1e-30, 1e-16, 1e-8, 1e-3, 0.25, 0.5, 0.75, 1.0])
    covariances = q * (1 - ratios)
    kernels, gaps = bound(kernel, q=q, p=covariances), bound(gap, q=q, delta=q * ratios)
    differences = bound(gap, q=q, delta=q - covariances)  # of what the doubles are: a jump feels the root of their rounding
    assert np.all(np.abs(kernels + differences - v) <= 3e-12 * v), phi
    assert np.all(gaps > 0)
    assert np.all(np.diff(gaps) >= -2e-11 * gaps[1:])
    assert np.all(np.diff(gaps / ratios) <= 2e-11 * (gaps / ratios)[:-1])
    mean = evaluated(phi.mean(mf.q), q=q)
    assert abs(kernels[-1] - mean * mean) <= 3e-12 * v
    assert abs(evaluated(kernel, q=q, p=q) - v) <= 2e-12 * v


@run
@given(single, variance, correlation)
def test_numbers_of_closed_forms(phi: mf.Activation, q: float, rho: float) -> None:
    obeys(phi, q, rho)


@few
@given(opened, variance, correlation)
def test_numbers_by_quadrature(phi: mf.Activation, q: float, rho: float) -> None:
    obeys(phi, q, rho)


@run
@given(continuous, variance)
def test_a_small_gap_is_the_slope(phi: mf.Activation, q: float) -> None:
    """gap/delta -> E phi'^2, up to order sqrt(delta/q)"""
    slope = evaluated(phi.derivative.second_moment(mf.q), q=q)
    assert abs(evaluated(phi.gap(mf.q, mf.delta), q=q, delta=q * 2.0**-100) / (q * 2.0**-100) - slope) <= 2e-11 * slope


@run
@given(single, rate, variance, correlation)
def test_scale(phi: mf.Activation, a: Fraction, q: float, rho: float) -> None:
    """phi(a x) at (q, p) is phi at (a^2 q, a^2 p)"""
    stretched, b = mf.Activation(phi.expression.subs(x, number(a) * x)), float(a * a)
    second = evaluated(phi.second_moment(mf.q), q=b * q)
    assert abs(evaluated(stretched.second_moment(mf.q), q=q) - second) <= 3e-12 * second
    kernels = evaluated(phi.kernel(mf.q, mf.p), q=b * q, p=b * rho * q), evaluated(stretched.kernel(mf.q, mf.p), q=q, p=rho * q)
    assert abs(kernels[0] - kernels[1]) <= 1e-11 * second


@run
@given(closed_terms(), closed_terms(), nonzero, variance)
def test_means_are_linear(f: sp.Expr, g: sp.Expr, c: Fraction, q: float) -> None:
    whole = mf.E(number(c) * f + g, mf.q).doit()
    parts = number(c) * mf.E(f, mf.q).doit(), mf.E(g, mf.q).doit()
    with mp.workdps(30):
        first, second = precise(whole, q=q), precise(parts[0], q=q) + precise(parts[1], q=q)
        assert abs(first - second) <= mp.mpf("1e-20") * (1 + abs(first))


def test_a_wrong_kernel_breaks_the_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    """the checks are checks: 1 + 1e-10 times the kernel, and a gap that is not that of the kernel"""
    phi = mf.Activation(sp.erf(x) + x)
    obeys(phi, 0.5, 0.25)
    right, factor = mf.Activation.kernel, 1 + sp.Rational(1, 10**10)
    monkeypatch.setattr(mf.Activation, "kernel", lambda self, *args: right(self, *args) * factor)
    with pytest.raises(AssertionError):
        obeys(phi, 0.5, 0.25)
