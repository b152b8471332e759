"""Signal propagation in deep networks at initialisation: derived with sympy, compiled with numba, checked with torch.

Describe a block once; read the formulas off it (`recursion`), run them over depth (`propagate`), print them (`latex`, `report`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meanfield import catalogue as _catalogue
from meanfield import plotting as _plotting  # registers its figures
from meanfield import scaling
from meanfield import symbols as _symbols
from meanfield.activation import Activation
from meanfield.analysis.critical_points import Critical
from meanfield.analysis.criticality import critical
from meanfield.analysis.fixed import fixed_points
from meanfield.analysis.growth_laws import GrowthLaw, growth
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.phases import PhaseDiagram, phase_diagram
from meanfield.analysis.points import FixedPoint, FixedPoints
from meanfield.analysis.sensitivities import Sensitivity, sensitivity
from meanfield.analysis.shaped import Shaped
from meanfield.analysis.shaping import deep_kernel_shaping, tailored, tailored_leaky_relu
from meanfield.architectures.perceptrons import mlp, residual_mlp, skip_init
from meanfield.architectures.simplified import downweighted, sas, sas_p, shaped_attention, value_skipinit
from meanfield.architectures.transformers import deep_norm, layer_scale, parallel_block, post_norm, pre_norm, rezero, sandwich_norm
from meanfield.blocks.algebra import TOKENS as _TOKENS
from meanfield.blocks.algebra import Block, Law, Parallel, Repeat, Residual, Serial, Signal
from meanfield.blocks.attention import Attention, ShapedAttention, TokenMixing, UniformAttention
from meanfield.blocks.elementary import MLP, Activate, Derf, Dropout, DyT, Identity, Linear, Scale
from meanfield.blocks.fixed import CausalAttention, FixedAttention
from meanfield.blocks.gated import GEGLU, GLU, Product, ReGLU, SwiGLU
from meanfield.blocks.gau import GAU
from meanfield.blocks.norms import BatchNorm, LayerNorm, RMSNorm
from meanfield.blocks.softmax import Annealed, Quenched
from meanfield.budgets import Budget, budget
from meanfield.catalogue import activations
from meanfield.faces import latex
from meanfield.gains import Gain, gain
from meanfield.gaussian.expectation import E
from meanfield.numeric.evaluation import evaluate
from meanfield.numeric.gram_runs import GramRun, PairRun, ntk
from meanfield.numeric.propagation import propagate
from meanfield.numeric.runs import Run
from meanfield.recurrence import Recursion, recursion
from meanfield.reporting import tables as _tables  # registers its datasets
from meanfield.reporting.article import report
from meanfield.unrolling import Unrolled, unrolled

if TYPE_CHECKING:
    from meanfield import reference

__version__ = "0.1.0"

# symbols
x, y = _symbols.known("x"), _symbols.known("y")
q, p, delta = _symbols.known("q"), _symbols.known("p"), _symbols.known("delta")
q1, q2, rho = _symbols.known("q1"), _symbols.known("q2"), _symbols.known("rho")
i, j = _TOKENS
L, l, n = _symbols.known("L"), _symbols.known("l"), _symbols.known("n")

__all__ = [
    "Activate",
    "Activation",
    "Annealed",
    "Attention",
    "BatchNorm",
    "Block",
    "Budget",
    "CausalAttention",
    "Critical",
    "Derf",
    "Dropout",
    "DyT",
    "E",
    "FixedAttention",
    "FixedPoint",
    "FixedPoints",
    "GEGLU",
    "GLU",
    "Gain",
    "GramRun",
    "Growth",
    "GrowthLaw",
    "Identity",
    "Law",
    "LayerNorm",
    "Linear",
    "MLP",
    "PairRun",
    "Parallel",
    "PhaseDiagram",
    "Product",
    "Quenched",
    "RMSNorm",
    "ReGLU",
    "Recursion",
    "Repeat",
    "Residual",
    "Run",
    "Scale",
    "Sensitivity",
    "Serial",
    "Shaped",
    "ShapedAttention",
    "Signal",
    "SwiGLU",
    "TokenMixing",
    "UniformAttention",
    "Unrolled",
    "activations",
    "budget",
    "critical",
    "deep_kernel_shaping",
    "deep_norm",
    "downweighted",
    "evaluate",
    "fixed_points",
    "gain",
    "growth",
    "latex",
    "layer_scale",
    "mlp",
    "ntk",
    "parallel_block",
    "phase_diagram",
    "post_norm",
    "pre_norm",
    "propagate",
    "recursion",
    "report",
    "residual_mlp",
    "rezero",
    "sandwich_norm",
    "sas",
    "sas_p",
    "scaling",
    "sensitivity",
    "shaped_attention",
    "skip_init",
    "tailored",
    "tailored_leaky_relu",
    "unrolled",
    "value_skipinit",
]


def __getattr__(name: str) -> Any:
    """The activations of the catalogue by name, and the torch twin on first use."""
    if name == "reference":
        import importlib

        return importlib.import_module("meanfield.reference")
    if name in _catalogue.activations:
        return _catalogue.activations[name]
    raise AttributeError(f"module 'meanfield' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_catalogue.activations, "reference"})
