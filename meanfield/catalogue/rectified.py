"""Piecewise polynomials: rectifiers, clipped lines, shrinkages."""

from __future__ import annotations

from typing import Any

import sympy as sp

from meanfield import arguments
from meanfield.catalogue.families import parameter
from meanfield.symbols import known

x = known("x")

_EIGHTH, _THIRD = sp.Rational(1, 8), sp.Rational(1, 3)


def _above(z: sp.Expr) -> sp.Expr:
    """1 for z > 0, 0 otherwise: a step, because the derivative of a Piecewise would lose the delta at a jump"""
    return sp.Heaviside(z, 0)


def relu() -> sp.Expr:
    """max(x, 0) (Nair and Hinton 2010)."""
    return sp.Max(x, 0)


def relu6() -> sp.Expr:
    """min(max(x, 0), 6) (Krizhevsky 2010; torch.nn.ReLU6)."""
    return sp.Min(sp.Max(x, 0), 6)


def leaky_relu(negative_slope: Any = 0.01) -> sp.Expr:
    """x for x > 0, negative_slope * x otherwise, negative_slope real (Maas, Hannun and Ng 2013; torch.nn.LeakyReLU).

    >>> import meanfield as mf
    >>> mf.leaky_relu(0.1).second_moment(2)
    101/100
    """
    return sp.Max(x, 0) - parameter(negative_slope, "negative_slope") * sp.Max(-x, 0)


def prelu(weight: Any = 0.25) -> sp.Expr:
    """x for x > 0, weight * x otherwise, weight real: learned, 1/4 its initial value (He et al. 2015, arXiv:1502.01852; torch.nn.PReLU)."""
    return leaky_relu(parameter(weight, "weight"))


def rrelu(lower: Any = _EIGHTH, upper: Any = _THIRD) -> sp.Expr:
    """x for x > 0, (lower + upper)/2 * x otherwise, lower <= upper: as torch.nn.RReLU evaluates.

    In training the slope is drawn uniformly between the two (Xu et al. 2015, arXiv:1505.00853).
    """
    low, high = parameter(lower, "lower"), parameter(upper, "upper")
    if (high - low).is_negative:
        raise ValueError(f"lower = {low}: expected at most upper = {high}")
    return leaky_relu((low + high) / 2)


def ab_relu(a: Any = None, b: Any = None) -> sp.Expr:
    """a min(x, 0) + b max(x, 0), a and b real; left out the symbols a and b (neural-tangents ABRelu)."""
    return parameter(a, "a") * sp.Min(x, 0) + parameter(b, "b") * sp.Max(x, 0)


def relu_squared() -> sp.Expr:
    """max(x, 0)^2 (So et al. 2021, arXiv:2109.08668)."""
    return sp.Max(x, 0) ** 2


def rectified_monomial(degree: int = 2) -> sp.Expr:
    """max(x, 0)^degree, degree = 1, 2, ... (Cho and Saul 2009; neural-tangents RectifiedMonomial, where degree 0 is mf.step)."""
    return sp.Max(x, 0) ** arguments.check_integer(degree, "degree", 1)


def smelu(beta: Any = 1) -> sp.Expr:
    """0 for x < -beta, (x + beta)^2/(4 beta) between, x for x > beta, beta > 0 (Shamir, Lin and Coviello 2020, arXiv:2010.09931)."""
    b = parameter(beta, "beta", "positive")
    return sp.Piecewise((0, x < -b), ((x + b) ** 2 / (4 * b), x < b), (x, True))


def abs() -> sp.Expr:
    """|x| (neural-tangents Abs)."""
    return sp.Abs(x)


def sign() -> sp.Expr:
    """-1 for x < 0, 1 for x > 0 (neural-tangents Sign)."""
    return sp.sign(x)


def step() -> sp.Expr:
    """0 for x < 0, 1 for x > 0 (McCulloch and Pitts 1943)."""
    return sp.Heaviside(x)


def threshold(threshold: Any = None, value: Any = None) -> sp.Expr:
    """x for x > threshold, value otherwise, both real; left out the symbols of these names (torch.nn.Threshold)."""
    low = parameter(value, "value")
    return low + (x - low) * _above(x - parameter(threshold, "threshold"))


def hard_tanh(min_val: Any = -1, max_val: Any = 1) -> sp.Expr:
    """min(max(x, min_val), max_val), min_val < max_val (Collobert 2004; torch.nn.Hardtanh)."""
    low, high = parameter(min_val, "min_val"), parameter(max_val, "max_val")
    if (high - low).is_positive is False:
        raise ValueError(f"min_val = {low}: expected less than max_val = {high}")
    return sp.Min(sp.Max(x, low), high)


def hard_sigmoid() -> sp.Expr:
    """min(max(x + 3, 0), 6)/6 (Courbariaux et al. 2015, with the slope of torch.nn.Hardsigmoid)."""
    return sp.Min(sp.Max(x + 3, 0), 6) / 6


def hard_swish() -> sp.Expr:
    """x min(max(x + 3, 0), 6)/6 (Howard et al. 2019, arXiv:1905.02244; torch.nn.Hardswish)."""
    return x * hard_sigmoid()


def hard_shrink(lambd: Any = 0.5) -> sp.Expr:
    """x for |x| > lambd, 0 otherwise, lambd >= 0 (Donoho and Johnstone 1994; torch.nn.Hardshrink)."""
    edge = parameter(lambd, "lambd", "nonnegative")
    return x * (_above(x - edge) + _above(-x - edge))


def soft_shrink(lambd: Any = 0.5) -> sp.Expr:
    """sign(x) max(|x| - lambd, 0), lambd >= 0 (Donoho 1995; torch.nn.Softshrink)."""
    edge = parameter(lambd, "lambd", "nonnegative")
    return sp.Max(x - edge, 0) - sp.Max(-x - edge, 0)
