"""A theory's curve over depth with measurements beside it: what a figure of a comparison shows, in plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Beside"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Beside:
    """One quantity over the layers.

    Attributes
    ----------
    quantity : str
        As `Run.plot` takes it.
    layers, theory, measured, error : arrays
    bias : array
        What finite width adds to the theory, as measured.
    scatter : array
        Standard deviation of a single draw about the theory; `scatter_is` says whence it is known.
    scatter_is, title : str
    """

    quantity: str
    layers: NDArray[np.int64]
    theory: Floats
    measured: Floats
    error: Floats
    bias: Floats
    scatter: Floats
    scatter_is: str
    title: str
