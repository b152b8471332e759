"""Exponential linear units, soft rectifiers, and activations whose constants are solved for."""

from __future__ import annotations

from functools import cache
from typing import Any

import sympy as sp

from meanfield.activation import Activation
from meanfield.catalogue.constants import Constant
from meanfield.catalogue.families import parameter
from meanfield.catalogue.rectified import relu_squared
from meanfield.symbols import known

x = known("x")


def elu(alpha: Any = 1) -> sp.Expr:
    """x for x > 0, alpha (e^x - 1) otherwise, alpha real (Clevert et al. 2016, arXiv:1511.07289; torch.nn.ELU)."""
    return sp.Piecewise((x, x > 0), (parameter(alpha, "alpha") * (sp.exp(x) - 1), True))


def celu(alpha: Any = 1) -> sp.Expr:
    """x for x > 0, alpha (e^(x/alpha) - 1) otherwise, alpha > 0 (Barron 2017, arXiv:1704.07483; torch.nn.CELU)."""
    a = parameter(alpha, "alpha", "positive")
    return sp.Piecewise((x, x > 0), (a * (sp.exp(x / a) - 1), True))


@cache
def _self_normalising() -> tuple[sp.Expr, sp.Expr]:
    """alpha and lambda such that lambda elu(alpha) has mean 0 and second moment 1 at z ~ N(0, 1)"""
    alpha = known("alpha")
    phi = Activation(elu(alpha))
    mean = phi.mean(1)
    centred = -mean.subs(alpha, 0) / mean.diff(alpha)  # it is linear in alpha
    return centred, 1 / sp.sqrt(phi.second_moment(1).subs(alpha, centred))


class _SeluAlpha(Constant):
    r"""\alpha_{01} of Klambauer et al. 2017, 1.6732..."""

    _letter, _written = "alpha_01", r"\alpha_{01}"

    def definition(self) -> sp.Expr:
        return _self_normalising()[0]


class _SeluScale(Constant):
    r"""\lambda_{01} of Klambauer et al. 2017, 1.0507..."""

    _letter, _written = "lambda_01", r"\lambda_{01}"

    def definition(self) -> sp.Expr:
        return _self_normalising()[1]


def selu() -> sp.Expr:
    r"""lambda_01 elu(alpha_01), the constants such that E phi(z) = 0 and E phi(z)^2 = 1 at z ~ N(0, 1) (torch.nn.SELU).

    Klambauer et al. 2017, arXiv:1706.02515: here solved for, from the moments of elu.

    >>> import meanfield as mf
    >>> mf.selu.expression.subs(mf.x, 1), mf.selu.expression.subs(mf.x, 1).n(25)
    (lambda_01, 1.050700987355480493419335)
    >>> mf.evaluate(mf.selu.second_moment(1), digits=25)
    mpf('1.0')
    """
    return _SeluScale() * elu(_SeluAlpha())


def star_relu() -> sp.Expr:
    """(max(x, 0)^2 - m)/s of mean 0 and variance 1 at z ~ N(0, 1): m = 1/2, s^2 = 5/4 (Yu et al. 2022, arXiv:2210.13452)."""
    phi = Activation(relu_squared())
    mean = phi.mean(1)
    return (relu_squared() - mean) / sp.sqrt(phi.second_moment(1) - mean**2)


def softplus(beta: Any = 1) -> sp.Expr:
    """log(1 + e^(beta x))/beta, beta > 0 (Dugas et al. 2001; torch.nn.Softplus, whose threshold for large beta x is left out)."""
    b = parameter(beta, "beta", "positive")
    return sp.log(1 + sp.exp(b * x)) / b


def squareplus(b: Any = 4) -> sp.Expr:
    """(x + sqrt(x^2 + b))/2, b > 0 (Barron 2021, arXiv:2112.11687)."""
    return (x + sp.sqrt(x**2 + parameter(b, "b", "positive"))) / 2
