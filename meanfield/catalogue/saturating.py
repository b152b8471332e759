"""Sigmoids, and what is made of them without a product by x."""

from __future__ import annotations

from typing import Any

import sympy as sp

from meanfield.catalogue.constants import Constant
from meanfield.catalogue.families import parameter
from meanfield.symbols import known

x = known("x")


class _SigmoidWidth(Constant):
    r"""w_\sigma, for which sum_i ((1 + erf(x_i/w))/2 - sigmoid(x_i))^2 over 1000 equidistant points x_i of [-5, 5] is least.

    neural-tangents defines its Sigmoid_like by the decimal 2.4020563531719796 of it, and so it is that here.
    """

    _letter, _written, _floor = "w_sigma", r"w_\sigma", 2

    def definition(self) -> sp.Expr:
        return sp.Rational("2.4020563531719796")


def sigmoid() -> sp.Expr:
    """1/(1 + e^(-x)) (torch.nn.Sigmoid)."""
    return 1 / (1 + sp.exp(-x))


def log_sigmoid() -> sp.Expr:
    """-log(1 + e^(-x)) (torch.nn.LogSigmoid)."""
    return -sp.log(1 + sp.exp(-x))


def sigmoid_like() -> sp.Expr:
    """(1 + erf(x/w_sigma))/2, w_sigma = 2.4020563531719796, close to the sigmoid (neural-tangents Sigmoid_like).

    >>> import meanfield as mf
    >>> mf.sigmoid_like.kernel(mf.q, mf.p)
    (pi - acos(2*p/(2*q + w_sigma**2)))/(2*pi)
    """
    return (1 + sp.erf(x / _SigmoidWidth())) / 2


def tanh() -> sp.Expr:
    """tanh(x) (torch.nn.Tanh)."""
    return sp.tanh(x)


def lecun_tanh() -> sp.Expr:
    """1.7159 tanh(2x/3) (LeCun et al. 1998, Efficient BackProp, section 4.4)."""
    return sp.Rational("1.7159") * sp.tanh(2 * x / 3)


def tanh_shrink() -> sp.Expr:
    """x - tanh(x) (torch.nn.Tanhshrink)."""
    return x - sp.tanh(x)


def softsign() -> sp.Expr:
    """x/(1 + |x|) (Glorot and Bengio 2010; torch.nn.Softsign)."""
    return x / (1 + sp.Abs(x))


def isru(alpha: Any = 1) -> sp.Expr:
    """x/sqrt(1 + alpha x^2), alpha > 0 (Carlile et al. 2017, arXiv:1710.09967)."""
    return x / sp.sqrt(1 + parameter(alpha, "alpha", "positive") * x**2)


def atan() -> sp.Expr:
    """The inverse tangent of x (DKS atan; Martens et al. 2021, arXiv:2110.01765)."""
    return sp.atan(x)


def asinh() -> sp.Expr:
    """The inverse hyperbolic sine of x (DKS asinh; Martens et al. 2021, arXiv:2110.01765)."""
    return sp.asinh(x)


def erf(a: Any = 1, b: Any = 1, c: Any = 0) -> sp.Expr:
    """a erf(b x) + c, a and b not 0, c real (Williams 1997; neural-tangents Erf)."""
    return parameter(a, "a", "nonzero") * sp.erf(parameter(b, "b", "nonzero") * x) + parameter(c, "c")


def probit() -> sp.Expr:
    """The normal distribution function, (1 + erf(x/sqrt(2)))/2 (Bliss 1934)."""
    return (1 + sp.erf(x / sp.sqrt(2))) / 2


def derf(alpha: Any = None) -> sp.Expr:
    r"""erf(alpha x), alpha > 0; the symbol alpha if left out (Chen et al. 2025, arXiv:2512.10938).

    >>> import meanfield as mf
    >>> mf.derf(0.5).second_moment(2)
    1/3
    """
    return sp.erf(parameter(alpha, "alpha", "positive") * x)


def dyt(alpha: Any = None) -> sp.Expr:
    r"""tanh(alpha x), alpha > 0; the symbol alpha if left out (Zhu et al. 2025, arXiv:2503.10622)."""
    return sp.tanh(parameter(alpha, "alpha", "positive") * x)
