r"""Reference numbers, and how far a run is from them.

Sources
-------
Part 1, Part 2
    "Normalization-free transformers are subcritical" and its Part 2, labofdoubt.github.io (2025, 2026). `published_curves.csv` holds
    250 points of their theory curves: path vertices of the vector figures in data coordinates, good to about 5e-7.
recursion
    Values at the end of the same recursions, computed independently in float64 to the digits given. The chi product is the published
    figure; "J, value path" is the two-component recursion without the derivative of the softmax.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

import numpy as np

from meanfield.numeric.runs import Run
from meanfield.reproduction.systems import ALPHAS, Pair

__all__ = ["Comparison", "CurvePoint", "compare_curves", "compare_values", "published_points"]


@dataclass(frozen=True)
class Comparison:
    """A reference number, to the digits known, beside the number computed here."""

    system: str
    norm: str
    alpha: float | None
    quantity: str
    reference: str
    computed: float
    source: str

    @property
    def network(self) -> str:
        """The network in a word or two."""
        slope = "" if self.alpha is None else f" {self.alpha:g}"
        return ("toy " if self.system == "toy" else "") + self.norm + slope

    @property
    def deviation(self) -> float:
        """(computed - reference) / reference"""
        return (self.computed - float(self.reference)) / float(self.reference)

    @property
    def decimals(self) -> int:
        """How many decimals the reference has."""
        return len(self.reference.partition(".")[2])

    @property
    def rounded(self) -> str:
        """The computed number with as many decimals as the reference has."""
        return f"{self.computed:.{self.decimals}f}"

    @property
    def agrees(self) -> bool:
        """Whether the numbers differ by no more than one in the last decimal of the reference."""
        return abs(self.computed - float(self.reference)) <= 10.0**-self.decimals


@dataclass(frozen=True)
class CurvePoint:
    """A point of a published curve beside the run."""

    figure: str
    system: str
    quantity: str
    norm: str
    alpha: float | None
    layer: int
    published: float
    computed: float

    @property
    def deviation(self) -> float:
        """computed - published"""
        return self.computed - self.published


#: (system, norm, alpha): quantity -> value to the digits given
_VALUES: Final[Mapping[tuple[str, str, float | None], Mapping[str, str]]] = {
    ("transformer", "pre-LN", None): {
        "q_L": "61.26706080", "p_L": "53.57703090", "sum ln chi": "3.043429781", "prod chi": "20.977067", "J, value path": "21.155833385",
    },
    ("transformer", "Derf", 0.5): {
        "q_L": "37.02808986", "p_L": "28.43901395", "sum ln chi": "4.038141188", "prod chi": "56.720811", "J, value path": "57.045940760",
    },
    ("transformer", "Derf", 1.1): {
        "q_L": "47.02490055", "p_L": "32.99418316", "sum ln chi": "7.782396875", "prod chi": "2398.0157", "J, value path": "2409.520866832",
    },
    ("toy", "pre-LN", None): {"q_L": "28.0848", "prod chi": "28.0848"},
    ("toy", "Derf", 0.5): {"q_L": "15.003345", "prod chi": "31.0447"},
}  # fmt: skip


def _row(values: np.ndarray, alpha: float | None) -> np.ndarray:
    """the curve of one slope"""
    if alpha is None:
        return values
    return np.asarray(values[int(np.flatnonzero(alpha == ALPHAS)[0])])


def _computed(run: Run, quantity: str, alpha: float | None) -> float:
    if quantity == "q_L":
        return float(_row(run.q, alpha)[-1])
    if quantity == "p_L":
        return float(_row(run.p, alpha)[-1])
    if quantity == "J, value path":
        return math.exp(_row(run.log_apjn, alpha)[0])
    log_chi = float(_row(run.log_chi_product, alpha)[0])
    return log_chi if quantity == "sum ln chi" else math.exp(log_chi)


def compare_values(transformers: Mapping[str, Pair], toys: Mapping[str, Run]) -> tuple[Comparison, ...]:
    """The reference numbers beside the runs."""
    runs = {"transformer": {norm: pair.value_path for norm, pair in transformers.items()}, "toy": toys}
    return tuple(
        Comparison(system, norm, alpha, quantity, value, _computed(runs[system][norm], quantity, alpha), "recursion")
        for (system, norm, alpha), values in _VALUES.items()
        for quantity, value in values.items()
    )


def published_points() -> Iterable[Mapping[str, str]]:
    """The rows of published_curves.csv."""
    text = resources.files("meanfield.reproduction").joinpath("published_curves.csv").read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())


def compare_curves(transformers: Mapping[str, Pair], toys: Mapping[str, Run]) -> tuple[CurvePoint, ...]:
    """The points of the published curves beside the runs."""
    runs = {"transformer": {norm: pair.value_path for norm, pair in transformers.items()}, "toy": toys}
    points = []
    for row in published_points():
        alpha = float(row["alpha"]) if row["alpha"] else None
        curve = _row(getattr(runs[row["system"]][row["norm"]], row["quantity"]), alpha)
        layer = int(row["l"])
        points.append(
            CurvePoint(row["figure"], row["system"], row["quantity"], row["norm"], alpha, layer, float(row["value"]), float(curve[layer]))
        )
    return tuple(points)
