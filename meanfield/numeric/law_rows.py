"""Nodes and weights under many normal laws at once: panels between breaks, or lattices, row after row, each law's own number of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meanfield.gaussian.node_rules import NATS
from meanfield.gaussian.panels import legendre_rule
from meanfield.numeric.deviations import density

__all__ = ["REACH", "Rows", "lattice_rows", "panel_rows", "steps_within"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REACH = 10.5  # deviations kept: exp(-10.5^2/2) = 1e-24
SHARE = 0.8  # of a strip of analyticity that a lattice makes use of
WIDEST = 2.0 * math.pi / math.sqrt(2.0 * NATS)  # step of a lattice, in deviations
NODES, WEIGHTS = legendre_rule(20)


@dataclass(frozen=True)
class Rows:
    """Deviations z from the means of laws with weights of integrals over them: those of law k from starts[k] to starts[k + 1]."""

    starts: Ints
    z: Floats
    weights: Floats

    @property
    def law(self) -> Ints:
        """which law each node is of"""
        return np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))

    def under_density(self) -> Floats:
        """The weights of means."""
        return self.weights * density(self.z, 1.0)

    def where(self, kept: NDArray[np.bool_]) -> Rows:
        """Some of the nodes."""
        return Rows(np.concatenate([[0], np.cumsum(kept)])[self.starts], self.z[kept], self.weights[kept])

    def sums(self, values: Floats) -> Floats:
        """The sum of values over the nodes of each law."""
        return np.asarray(np.add.reduceat(values, self.starts[:-1]))


def panel_rows(ends: Floats, longest: Floats) -> Rows:
    """Panels of 20 nodes between the numbers in each row and -REACH and REACH, none of which is longer than that of the row."""
    edge = np.full((len(ends), 1), REACH)
    ends = np.sort(np.concatenate([-edge, np.clip(ends, -REACH, REACH), edge], axis=1), axis=1)
    row, k = np.nonzero(np.diff(ends, axis=1) > 1e-13)
    low, length = ends[row, k], ends[row, k + 1] - ends[row, k]
    parts = np.ceil(length / longest[row]).astype(np.int64)
    which = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    length = np.repeat(length / parts, parts)
    low = np.repeat(low, parts) + which * length
    counts = np.bincount(row, weights=parts, minlength=len(ends)).astype(np.int64)
    z = low[:, None] + length[:, None] * (0.5 + 0.5 * NODES)
    return Rows(_starts(NODES.size * counts), z.ravel(), (0.5 * length[:, None] * WEIGHTS).ravel())


def lattice_rows(steps: Floats) -> Rows:
    """Equidistant nodes, that far apart."""
    half = np.ceil(REACH / steps).astype(np.int64)
    starts = _starts(2 * half + 1)
    apart = np.repeat(steps, 2 * half + 1)
    return Rows(starts, apart * (np.arange(starts[-1]) - np.repeat(starts[:-1] + half, 2 * half + 1)), apart)


def steps_within(strip: Floats) -> Floats:
    """The steps of lattices for functions that are analytic in strips of these half-widths, all in deviations."""
    b = np.minimum(SHARE * strip, 1e100)
    return np.where(b > 9.0, WIDEST, np.minimum(WIDEST, 2.0 * math.pi * b / (NATS + 0.5 * b * b)))


def _starts(counts: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)])
