"""Products of two inputs of little correlation: Mehler's series by integrals of 40 digits, which know nothing of the rules in float64."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.precise import law_of, product_mean_of

x, q, p = mf.x, mf.q, mf.p

#: odd, even, neither, with a kink, with a jump
FUNCTIONS = {
    "odd": sp.tanh(x),
    "even": x * sp.tanh(x),
    "neither": x * sp.tanh(x) + x,
    "nearly 0 on average": sp.erf(x + 1) - sp.erf(1),
    "kinked": sp.Max(sp.tanh(x), x / 2),
    "jumping": sp.tanh(x) + sp.Heaviside(x - sp.Rational(1, 3)),
}


def met() -> mp.mpf:
    """where tanh(x) = x/2"""
    return mp.findroot(lambda t: mp.tanh(t) - t / 2, 1.9)


KINKS = {"kinked": lambda: [mp.mpf(0), -met(), met()], "jumping": lambda: [mp.mpf(1) / 3]}
_TERMS = 6


def legendre(count: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """Gauss's nodes and weights on (-1, 1), by Newton's iteration from those of doubles"""
    rule = []
    for start in np.polynomial.legendre.leggauss(count)[0]:
        z = mp.mpf(float(start))
        for _ in range(3):
            before, now = mp.mpf(1), z
            for n in range(2, count + 1):
                before, now = now, ((2 * n - 1) * z * now - (n - 1) * before) / n
            slope = count * (z * now - before) / (z * z - 1)
            z -= now / slope
        rule.append((z, 2 / ((1 - z * z) * slope**2)))
    return rule


def coefficients(name: str, variance: float, mean: float = 0.0) -> list[mp.mpf]:
    """E f(u) He_n((u - m)/s)/sqrt(n!)"""
    f, s = sp.lambdify(x, FUNCTIONS[name], ["mpmath", {"Heaviside": lambda t, _: mp.mpf(t > 0)}]), mp.sqrt(variance)
    cuts = [(k - mean) / s for k in KINKS.get(name, list)()]
    ends = sorted([mp.mpf(k) / 2 for k in range(-28, 29)] + [c for c in cuts if abs(c) < 14])
    found, rule = [mp.mpf(0)] * _TERMS, legendre(20)
    for low, high in itertools.pairwise(ends):
        for node, weight in rule:
            z = (low + high + (high - low) * node) / 2
            value = f(mean + s * z) * mp.npdf(z) * weight * (high - low) / 2
            before, now = mp.mpf(0), mp.mpf(1)
            for n in range(_TERMS):
                found[n] += value * now
                before, now = now, (z * now - mp.sqrt(n) * before) / mp.sqrt(n + 1)
    return found


def series(a: list[mp.mpf], variance: float, covariance: float) -> tuple[mp.mpf, mp.mpf]:
    """the product, and the sum of the sizes of its terms"""
    rho = mp.mpf(covariance) / mp.mpf(variance)
    terms = [c * c * rho**n for n, c in enumerate(a)]
    return mp.fsum(terms), mp.fsum(map(abs, terms))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("variance", [1e-12, 1.0])
def test_a_product_is_good_beside_its_terms_and_its_bound_holds(name: str, variance: float) -> None:
    """a covariance of 1e-20 of the variance is no 0, and of an array each entry is as good"""
    kernel = mf.Activation(FUNCTIONS[name]).kernel(q, p)
    covariances = [s * r * variance for r in (1e-3, 1e-9, 1e-20) for s in (1, -1)]
    with mp.workdps(40):
        a = coefficients(name, variance)
        values, bounds = mf.evaluate(kernel, q=variance, p=covariances, error=True)
        for covariance, value, bound in zip(covariances, values, bounds, strict=True):
            true, size = series(a, variance, covariance)
            assert abs(value - true) <= 1e-14 * size
            assert abs(value - true) <= bound + abs(true) * mp.mpf(2) ** -53
            assert bound <= 1e-11 * size


def test_a_product_about_a_mean_is_too() -> None:
    kernel = mf.Activation(FUNCTIONS["neither"]).kernel(q, p, mean=sp.Rational(1, 2))
    with mp.workdps(40):
        a = coefficients("neither", 0.7, 0.5)
        for covariance in (1e-3, -1e-9, 1e-20):
            true, size = series(a, 0.7, covariance)
            value, bound = mf.evaluate(kernel, q=0.7, p=covariance, error=True)
            assert abs(value - true) <= min(1e-14 * size, mp.mpf(bound) + abs(true) * mp.mpf(2) ** -53)


def test_two_functions_of_two_variances_are_too() -> None:
    """E f(u) g(v) with f odd and E g(v) not 0 is a_1 b_1 rho + ..."""
    product = mf.E(FUNCTIONS["odd"] * FUNCTIONS["neither"].xreplace({x: mf.y}), mf.q1, p, mf.q2)
    with mp.workdps(40):
        a, b = coefficients("odd", 0.7), coefficients("neither", 3.0)
        for covariance in (1e-3, -1e-12, 1e-25):
            rho = mp.mpf(covariance) / mp.sqrt(mp.mpf(0.7) * 3)
            true = mp.fsum(c * d * rho**n for n, (c, d) in enumerate(zip(a, b, strict=True)))
            value, bound = mf.evaluate(product, q1=0.7, p=covariance, q2=3.0, error=True)
            assert abs(value - true) <= min(1e-14 * abs(true), mp.mpf(bound) + abs(true) * mp.mpf(2) ** -53)
            assert bound <= 1e-11 * abs(true)


@pytest.mark.parametrize("phi", [mf.tanh, mf.silu, mf.hardswish], ids=lambda phi: phi.name)
def test_a_covariance_below_the_rounding_of_the_variance_counts(phi: mf.Activation) -> None:
    """E f(u) f(v) - (E f(u))^2 is p E f'(u) E f'(v) to first order"""
    variance, covariance = 1e-12, 1e-32
    independent = mf.evaluate(phi.kernel(q, p), q=variance, p=0.0)
    value = mf.evaluate(phi.kernel(q, p), q=variance, p=covariance)
    slope = mf.evaluate(phi.derivative.mean(q), q=variance)
    assert abs(value - independent - covariance * slope**2) <= 4e-16 * value < value - independent


@pytest.mark.parametrize("power", [40, 306, 323])
def test_digits_and_doubles_next_to_the_smallest_covariance(power: int) -> None:
    """tanh: the covariance times the square of E[1 - tanh^2], the rest is beyond; what is no normal double says so"""
    little = sp.Rational(1, 10**power)
    with mp.workdps(40):
        slope = mp.quad(lambda z: mp.sech(z) ** 2 * mp.npdf(z), mp.linspace(-14, 14, 57))
        true = mp.mpf(10) ** -power * slope**2
        assert abs(mf.evaluate(mf.tanh.kernel(1, p), p=little, digits=20) - true) <= mp.mpf("1e-19") * true
    if power < 307:
        assert mf.evaluate(mf.tanh.kernel(1, p), p=float(little)) == pytest.approx(float(true), rel=1e-14)
    else:
        with pytest.raises(OverflowError, match="no normal double"):
            mf.evaluate(mf.tanh.kernel(1, p), p=float(little))


def gauss(n: int) -> mp.mpf:
    """E |u|^n"""
    return 2 ** (mp.mpf(n) / 2) * mp.gamma((n + 1) / mp.mpf(2)) / mp.sqrt(mp.pi)


#: what Hermite coefficients are 0 that no parity forbids, and the first that is not: its power and E f He_n
ORTHOGONAL = {
    "a cubic": (x**3 - 3 * x, 3, lambda: mp.mpf(6)),
    "a centred kink": (sp.Abs(x) - sp.sqrt(2 / sp.pi), 2, lambda: gauss(3) - gauss(1)),
    "a centred bell": (sp.exp(-(x**2)) - 1 / sp.sqrt(3), 2, lambda: (mp.mpf(1) / 3 - 1) / mp.sqrt(3)),
    "a centred ramp": (sp.Max(x, 0) ** 2 - sp.Rational(1, 2), 1, lambda: gauss(3) / 2),
}


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_coefficients_that_are_zero_by_no_parity(name: str) -> None:
    f, n, coefficient = ORTHOGONAL[name]
    r = sp.Rational(1, 10**60)
    with mp.workdps(40):
        truth = coefficient() ** 2 / mp.factorial(n) * mp.mpf(10) ** (-60 * n)
        found = product_mean_of(f, f, law_of(sp.S.One, r, sp.S.One, sp.S.Zero, sp.S.Zero), 100)
        assert abs(found / truth - 1) < mp.mpf("1e-29")
