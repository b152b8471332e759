"""Moments and runs from tables alone, for tests to compare."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meanfield as mf
from meanfield.numeric import lookup, ways
from meanfield.numeric.tables import Table


def read(table: Table, kind: str, v: float, d: float) -> float:
    """a moment from the table, which grows for it"""
    place = lookup.SCRATCH
    for _ in range(4):  # mirrored, found to be even or to jump, not mirrored, far out
        scratch = np.full(lookup.SCRATCH + lookup.KEPT, -1.0)
        if kind == "mean":
            found = lookup.mean_in(table.numbers, v, scratch, place)
        elif kind == "cross":
            found = lookup.cross_in(table.numbers, v, d, 2 * v - d, scratch, place)
        else:
            found = lookup.gap_in(table.numbers, v, d, scratch, place)
        table.extend(table.numbers)
    return found


def both_ways(net: mf.Block, depth: int, patch: pytest.MonkeyPatch, **values: float) -> list[Any]:
    """runs of a few points by quadrature alone, and from tables alone"""
    runs = []
    for way, none in (("_from_tables", lambda job, out: np.arange(job.q0.shape[0])), ("_by_quadrature", None)):
        with patch.context() as only:
            only.setattr(ways, way, none)
            runs.append(mf.propagate(net, depth, np.linspace(0.5, 2.0, 3), p=0.2, **values))
    return runs
