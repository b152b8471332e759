"""Polynomials, exponentials, waves, and other analytic functions that do not saturate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from meanfield import arguments
from meanfield.catalogue.families import parameter
from meanfield.symbols import known

x = known("x")


def identity() -> sp.Expr:
    """x."""
    return x


def square() -> sp.Expr:
    """x^2 (DKS square)."""
    return x**2


def monomial(degree: int = 2) -> sp.Expr:
    """x^degree, degree = 1, 2, ... (neural-tangents Monomial)."""
    return x ** arguments.check_integer(degree, "degree", 1)


def polynomial(coefficients: Sequence[Any] = (0, 0, 1)) -> sp.Expr:
    """coefficients[0] + coefficients[1] x + coefficients[2] x^2 + ..., one beyond the first not 0 (neural-tangents Polynomial)."""
    if isinstance(coefficients, str) or not isinstance(coefficients, Sequence):
        raise TypeError(f"coefficients = {coefficients!r}: expected a sequence of numbers, from the constant upwards")
    numbers = [parameter(c, "coefficients") for c in coefficients]
    if not any(numbers[1:]):
        raise ValueError(f"coefficients = {coefficients!r}: expected one beyond the first that is not 0")
    return sp.Add(*[c * x**k for k, c in enumerate(numbers)])


def hermite(degree: int = 2) -> sp.Expr:
    """He_degree(x)/sqrt(degree!), degree = 1, 2, ...: probabilists' Hermite polynomial, E phi(z)^2 = 1 (neural-tangents Hermite)."""
    k = arguments.check_integer(degree, "degree", 1)
    return sp.expand(sp.hermite_prob(k, x) / sp.sqrt(sp.factorial(k)))


def exp(a: Any = 1, b: Any = 1) -> sp.Expr:
    """a e^(b x), a and b not 0 (neural-tangents Exp)."""
    return parameter(a, "a", "nonzero") * sp.exp(parameter(b, "b", "nonzero") * x)


def gauss(a: Any = 1, b: Any = -1) -> sp.Expr:
    """a e^(b x^2), a and b not 0, b < 1/4 (neural-tangents Gaussian; mf.gaussian is a part of this package)."""
    rate = parameter(b, "b", "nonzero")
    if (rate - sp.Rational(1, 4)).is_nonnegative:
        raise ValueError(
            f"b = {rate}: a e^(b x^2) has b < 0, as in neural-tangents, or b < 1/4, where E phi(u)^2 is finite at variance 1: "
            f"pass {-rate} for e^(-{rate} x^2)"
        )
    return parameter(a, "a", "nonzero") * sp.exp(rate * x**2)


def gabor() -> sp.Expr:
    """e^(-x^2) sin(x) (neural-tangents Gabor)."""
    return sp.exp(-(x**2)) * sp.sin(x)


def sin(a: Any = 1, b: Any = 1, c: Any = 0) -> sp.Expr:
    """a sin(b x + c), a and b not 0, c real (neural-tangents Sin; Sitzmann et al. 2020, arXiv:2006.09661)."""
    return parameter(a, "a", "nonzero") * sp.sin(parameter(b, "b", "nonzero") * x + parameter(c, "c"))


def cos(a: Any = 1, b: Any = 1, c: Any = 0) -> sp.Expr:
    """a cos(b x + c), a and b not 0, c real (neural-tangents Cos)."""
    return parameter(a, "a", "nonzero") * sp.cos(parameter(b, "b", "nonzero") * x + parameter(c, "c"))


def rbf(gamma: Any = 1) -> sp.Expr:
    """sqrt(2) sin(sqrt(2 gamma) x + pi/4), gamma > 0: its kernel is e^(-gamma (q1 + q2 - 2p)) (neural-tangents Rbf)."""
    wave = sp.sqrt(2 * parameter(gamma, "gamma", "positive")) * x
    return sp.sin(wave) + sp.cos(wave)  # the same, without a phase


def snake(a: Any = 1) -> sp.Expr:
    """x + sin(a x)^2/a, a not 0 (Ziyin, Hartwig and Ueda 2020, arXiv:2006.08195)."""
    rate = parameter(a, "a", "nonzero")
    return x + sp.sin(rate * x) ** 2 / rate


def gcu() -> sp.Expr:
    """x cos(x) (Noel et al. 2021, arXiv:2108.12943)."""
    return x * sp.cos(x)


def bentid() -> sp.Expr:
    """(sqrt(x^2 + 1) - 1)/2 + x (DKS bentid; Martens et al. 2021, arXiv:2110.01765)."""
    return (sp.sqrt(x**2 + 1) - 1) / 2 + x


def log_cosh() -> sp.Expr:
    """log(cosh(x)), whose derivative is tanh (Saleh and Saleh 2022, arXiv:2208.04564)."""
    return sp.log(sp.cosh(x))
