"""Magnitudes read off laws: degrees, DeepNorm, golden rules, and questions solved on the recursion.

degree, local_exponent      how the output of a block answers when its weights are multiplied by a gain
deep_norm, deepnet          alpha and lambda of DeepNorm for an optimiser, derived and as published; gradient_check: do gradients agree?
gau                         the size of a gated attention unit: the published estimate beside the whole law
width_rule, depth_rule, key_query_rule, golden_rules    initial scales and updates that keep features of size 1
Atom, Scaled, Composition, Tuple, modular_transformer   the modular norm: sensitivity of a network, and the update each tensor may take
convention_table            what the conventions in use make of the tensors of a transformer, side by side
reparametrised              training Delta W in W = alpha W_init + beta Delta W as a learning rate
largest_depth, parameter_where, parameter_for_...       inverse questions: how deep, and which value of a parameter

A rule is a `Rule`: its statement, what it assumes, the steps, its source and its values (`rule.alpha`, `rule(N=100)`, `rule.latex()`).
"""

from meanfield.scaling import tokens as _tokens  # noqa: F401  # registers its degrees
from meanfield.scaling.conventions import CONVENTIONS, Convention, ConventionTable, Tensor, convention_table
from meanfield.scaling.deepnet import OPTIMIZERS, Optimizer, deep_norm, deepnet
from meanfield.scaling.degrees import Degree, degree
from meanfield.scaling.depths import largest_depth
from meanfield.scaling.exponents import local_exponent
from meanfield.scaling.gated_attention import GAUCurve, GAUMagnitudes, GAUReport, gau
from meanfield.scaling.gradients import GradientCheck, gradient_check
from meanfield.scaling.modular import Atom, Bond, Composition, Module, Scaled, Tuple, modular_transformer
from meanfield.scaling.questions import (
    OBSERVABLES,
    Answer,
    parameter_for_correlation,
    parameter_for_gradients,
    parameter_for_growth,
    parameter_where,
)
from meanfield.scaling.reparametrisation import reparametrised
from meanfield.scaling.rules import Rule, Step
from meanfield.scaling.width import depth_rule, golden_rules, key_query_rule, width_rule, with_key_query_rule
from meanfield.symbols import known as _known

N, M, lam, alpha = _known("N"), _known("M"), _known("lam"), _known("alpha")

__all__ = [
    # rules
    "M", "N", "Rule", "Step", "alpha", "lam",
    # degrees
    "Degree", "degree", "local_exponent",
    # DeepNorm
    "GradientCheck", "OPTIMIZERS", "Optimizer", "deep_norm", "deepnet", "gradient_check",
    # gated attention
    "GAUCurve", "GAUMagnitudes", "GAUReport", "gau",
    # simplified blocks
    "reparametrised",
    # questions
    "Answer", "OBSERVABLES", "largest_depth", "parameter_for_correlation", "parameter_for_gradients", "parameter_for_growth",
    "parameter_where",
    # golden rules
    "Atom", "Bond", "CONVENTIONS", "Composition", "Convention", "ConventionTable", "Module", "Scaled", "Tensor", "Tuple",
    "convention_table", "depth_rule", "golden_rules", "key_query_rule", "modular_transformer", "width_rule", "with_key_query_rule",
]  # fmt: skip
