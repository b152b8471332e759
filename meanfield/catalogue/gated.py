"""x times a sigmoid of x."""

from __future__ import annotations

from typing import Any

import sympy as sp

from meanfield.catalogue.families import parameter
from meanfield.symbols import known

x = known("x")


def gelu() -> sp.Expr:
    r"""x (1 + erf(x/sqrt(2)))/2 (Hendrycks and Gimpel 2016, arXiv:1606.08415; torch.nn.GELU)."""
    return x * (1 + sp.erf(x / sp.sqrt(2))) / 2


def gelu_tanh() -> sp.Expr:
    """x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))/2 (Hendrycks and Gimpel 2016; torch.nn.GELU("tanh"), DKS gelu)."""
    return x * (1 + sp.tanh(sp.sqrt(2 / sp.pi) * (x + sp.Rational("0.044715") * x**3))) / 2


def quick_gelu() -> sp.Expr:
    """x/(1 + e^(-1.702 x)) (Hendrycks and Gimpel 2016, section 2)."""
    return silu(sp.Rational("1.702"))


def silu(beta: Any = 1) -> sp.Expr:
    """x/(1 + e^(-beta x)), beta not 0 (Elfwing et al. 2017, arXiv:1702.03118; Swish: Ramachandran et al. 2017, arXiv:1710.05941)."""
    return x / (1 + sp.exp(-parameter(beta, "beta", "nonzero") * x))


def mish() -> sp.Expr:
    """x tanh(log(1 + e^x)) (Misra 2019, arXiv:1908.08681; torch.nn.Mish)."""
    return x * sp.tanh(sp.log(1 + sp.exp(x)))


def tanh_exp() -> sp.Expr:
    """x tanh(e^x) (Liu and Di 2020, arXiv:2003.09855)."""
    return x * sp.tanh(sp.exp(x))


def serf() -> sp.Expr:
    """x erf(log(1 + e^x)) (Nag et al. 2021, arXiv:2108.09598)."""
    return x * sp.erf(sp.log(1 + sp.exp(x)))


def lisht() -> sp.Expr:
    """x tanh(x) (Roy et al. 2019, arXiv:1901.05894)."""
    return x * sp.tanh(x)
