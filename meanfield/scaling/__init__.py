"""Magnitudes read off laws: degrees, DeepNorm, golden rules, and questions solved on the recursion."""

from meanfield.scaling.deepnet import OPTIMIZERS, Optimizer, deep_norm, deepnet
from meanfield.scaling.degrees import Degree, degree, local_exponent
from meanfield.scaling.gradients import GradientCheck, gradient_check
from meanfield.scaling.rules import Rule, Step
from meanfield.symbols import known as _known

N, M, lam, alpha = _known("N"), _known("M"), _known("lam"), _known("alpha")

__all__ = [
    "Degree",
    "GradientCheck",
    "M",
    "N",
    "OPTIMIZERS",
    "Optimizer",
    "Rule",
    "Step",
    "alpha",
    "deep_norm",
    "deepnet",
    "degree",
    "gradient_check",
    "lam",
    "local_exponent",
]
