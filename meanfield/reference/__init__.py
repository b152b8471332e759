"""Random networks in torch, drawn from the same description, and what is measured on them (extra `torch`).

build          the torch module that a network stands for, with random weights
compare        theory beside random networks of two widths, the part of the difference that is of order 1/width taken off; its verdict
measure        second moments of signals and gradients on random networks, or in any torch model
describe       a torch model read as a network with the scales of its weights, and what of it could not be certified
initialise_    new weights for a model by one of `rules`, with a record for every tensor
draws          how the entries of a matrix are drawn: Gaussian, orthogonal, truncated
twin.layer     register a torch layer for a block of your own
"""

from __future__ import annotations

from meanfield.extras import absent as _absent

try:
    import torch as _torch  # noqa: F401
except ImportError as missing:
    raise _absent("meanfield.reference draws random networks in", "torch") from missing

from meanfield.reference import comparison_tables as _comparison_tables  # noqa: F401  # registers how it is shown
from meanfield.reference import draws, rules
from meanfield.reference import fluctuating_attention as _fluctuating_attention  # noqa: F401  # registers its rules
from meanfield.reference import fluctuating_gau as _fluctuating_gau  # noqa: F401
from meanfield.reference import fluctuating_layers as _fluctuating_layers  # noqa: F401
from meanfield.reference import gated as _gated  # noqa: F401  # registers its layers
from meanfield.reference import mixing as _mixing  # noqa: F401  # registers its layers
from meanfield.reference import normalising as _normalising  # noqa: F401
from meanfield.reference import tables as _tables  # noqa: F401  # registers how they are shown
from meanfield.reference.comparison import Comparison, compare
from meanfield.reference.description import Description, describe
from meanfield.reference.initialisation import Initialisation, initialise_
from meanfield.reference.measurement import Measurement, measure
from meanfield.reference.recognition import NotRecognised
from meanfield.reference.twin import Twin, build

__all__ = [
    "Comparison",
    "Description",
    "Initialisation",
    "Measurement",
    "NotRecognised",
    "Twin",
    "build",
    "compare",
    "describe",
    "draws",
    "initialise_",
    "measure",
    "rules",
]
