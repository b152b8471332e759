"""The activations by name: one declaration each, an expression and nothing else. What follows from it is derived.

A new one is a function in one of these files: its parameters are those of the activation, by torch's names where torch has it, what it
returns is an expression in mf.x, its docstring says the formula, the ranges and the source.
"""

from __future__ import annotations

from meanfield.catalogue import analytic, exponential, gated, rectified, saturating
from meanfield.catalogue.families import Catalogue, Family

__all__ = ["Family", "activations"]

#: other usual names of the same activation
_ALIASES = {
    "linear": "identity",
    "heaviside": "step",
    "normal_cdf": "probit",
    "swish": "silu",
    "gelu_exact": "gelu",
    "logistic": "sigmoid",
    "logsigmoid": "log_sigmoid",
    "hardsigmoid": "hard_sigmoid",
    "hardtanh": "hard_tanh",
    "hardswish": "hard_swish",
    "hardshrink": "hard_shrink",
    "softshrink": "soft_shrink",
    "tanhshrink": "tanh_shrink",
    "abrelu": "ab_relu",
    "bent_identity": "bentid",
    "arctan": "atan",
    "arcsinh": "asinh",
    "relu2": "relu_squared",
    "Gaussian": "gauss",  # without the capital it is a package
}

#: name -> activation; one that has parameters is the member with default parameters, and is called for another
activations = Catalogue((analytic, rectified, exponential, saturating, gated), _ALIASES)
