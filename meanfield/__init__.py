"""Signal propagation in deep networks at initialisation: derived with sympy, compiled with LLVM, checked with torch.

Describe a block once; read the formulas off it (`recursion`), run them over depth (`propagate`), print them (`latex`, `report`).

    >>> import meanfield as mf
    >>> net = mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu))
    >>> mf.recursion(net).q
    q + sigma_1**2*sigma_2**2/2
    >>> mf.growth(net).apjn.kind
    'power'

Pages of the manual (`python -m pydoc meanfield.activation`, `help(mf.propagate)`, or an editor):

    activation, catalogue     activations: Gaussian moments, kernels, derivations, expansions; those of the literature by name
    gaussian                  the calculus of Gaussian expectations that they rest on
    blocks.laws               signals, laws; blocks.algebra, stacking: how blocks compose; elementary, norms, attention, gated, gau, fixed
    architectures             named networks
    recurrence                what a network is read as: stages, transfer, parameters
    numeric.propagation       runs over depth and grids; numeric.evaluation: numbers from expressions
    analysis                  fixed points, criticality, phases, growth laws, shaping, sensitivities
    scaling                   degrees, DeepNorm, golden rules, inverse questions
    reference                 random networks in torch beside the theory
    reporting, plotting       LaTeX, articles, labelled arrays, figures
    network_files, commands   networks in TOML, and the command line
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what stands here is imported where it is first asked for
    import sympy

    from meanfield import reference, scaling
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
    from meanfield.blocks.algebra import Block, Parallel, Serial
    from meanfield.blocks.attention import Attention, ShapedAttention, TokenMixing, UniformAttention
    from meanfield.blocks.elementary import MLP, Activate, Derf, Dropout, DyT, Identity, Linear, Scale
    from meanfield.blocks.fixed import CausalAttention, FixedAttention, MaskedAttention
    from meanfield.blocks.gated import GEGLU, GLU, Product, ReGLU, SwiGLU
    from meanfield.blocks.gau import GAU
    from meanfield.blocks.laws import Law, Signal
    from meanfield.blocks.norms import BatchNorm, LayerNorm, RMSNorm
    from meanfield.blocks.softmax import Annealed, Quenched
    from meanfield.blocks.stacking import Repeat, Residual
    from meanfield.budgets import Budget, budget
    from meanfield.catalogue import activations
    from meanfield.faces import latex
    from meanfield.gains import Gain, gain
    from meanfield.gaussian.pair_expectation import E
    from meanfield.numeric.evaluation import evaluate
    from meanfield.numeric.gram_march import ntk
    from meanfield.numeric.gram_runs import GramRun, PairRun
    from meanfield.numeric.propagation import propagate
    from meanfield.numeric.runs import Run
    from meanfield.numeric.sweeps import Sweep
    from meanfield.recurrence import Recursion, recursion
    from meanfield.reporting.article import report
    from meanfield.unrolling import Unrolled, unrolled

__version__ = "0.1.0"

imported = time.time()  # before any other module of the package

# symbols, made where they are first asked for: sympy takes most of a second to import
x: sympy.Symbol
y: sympy.Symbol
q: sympy.Symbol
p: sympy.Symbol
delta: sympy.Symbol
q1: sympy.Symbol
q2: sympy.Symbol
rho: sympy.Symbol
L: sympy.Symbol
l: sympy.Symbol
n: sympy.Symbol
_SYMBOLS = ("x", "y", "q", "p", "delta", "q1", "q2", "rho", "L", "l", "n")

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
    "GAU",
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
    "MaskedAttention",
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
    "Sweep",
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


@cache
def _homes() -> dict[str, tuple[str, str]]:
    """Where the names live that this file imports for type checkers."""
    tree = ast.parse(Path(__file__).read_text())
    imports = [node for branch in tree.body if isinstance(branch, ast.If) for node in branch.body if isinstance(node, ast.ImportFrom)]
    return {a.asname or a.name: (str(node.module), a.name) for node in imports for a in node.names if node.module != __name__}


@cache
def _submodules() -> frozenset[str]:
    return frozenset(m.name for m in pkgutil.iter_modules(__path__))


def __getattr__(name: str) -> Any:
    """Public names on first use, the activations of the catalogue and the indices i, j of tokens among them."""
    if name.startswith("_"):
        raise AttributeError(f"module 'meanfield' has no attribute {name!r}")
    if name in _submodules():
        return importlib.import_module(f"{__name__}.{name}")
    if name in _homes():
        home, attribute = _homes()[name]
        value = getattr(importlib.import_module(home), attribute)
    elif name in _SYMBOLS:
        value = importlib.import_module("meanfield.symbols").known(name)
    elif name in ("i", "j"):
        value = importlib.import_module("meanfield.blocks.laws").TOKENS[name == "j"]
    elif name in importlib.import_module("meanfield.catalogue").activations:
        value = importlib.import_module("meanfield.catalogue").activations[name]
    else:
        near = importlib.import_module("meanfield.arguments").meant(name, [n for n in __dir__() if not n.startswith("_")])
        raise AttributeError(f"module 'meanfield' has no attribute {name!r}{near}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    activations = importlib.import_module("meanfield.catalogue").activations
    return sorted(
        {*(n for n in globals() if n.startswith("__")), *__all__, *_homes(), *activations, *_SYMBOLS, "i", "j", "reference", "scaling"}
    )
