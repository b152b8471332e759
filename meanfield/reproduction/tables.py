"""The runs as CSV: a header, then one row per layer; numbers to the last bit."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from meanfield.numeric.runs import Run
from meanfield.reproduction.references import Comparison, CurvePoint
from meanfield.reproduction.systems import ALPHAS, Pair

__all__ = ["FINAL", "comparison_table", "curve_table", "few_token_table", "final_table", "final_values", "toy_table", "transformer_table"]

#: columns of the table of final values
FINAL = ("norm", "alpha", "q_L", "p_L", "c_L", "sum_log_chi", "log_apjn_without_softmax_derivative", "log_apjn")


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(v) for v in row] for row in rows)
    return stream.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return repr(float(value)) if isinstance(value, (float, np.floating)) else str(value)


def _slopes(run: Run) -> list[tuple[float | None, int | tuple[()]]]:
    """the slopes of a run with the index of their row"""
    return [(None, ())] if run.q.ndim == 1 else [(float(a), i) for i, a in enumerate(ALPHAS)]


def transformer_table(pair: Pair) -> str:
    """One transformer, every layer of every slope."""
    full, value = pair.full, pair.value_path
    rows = [
        (alpha, l, *(curve[i][l] for curve in curves))
        for curves in [(full.q, full.p, full.c, full.gap, value.log_chi_product, value.log_apjn, full.log_apjn)]
        for alpha, i in _slopes(full)
        for l in full.layers
    ]
    return _csv(("alpha", "l", "q", "p", "c", "gap", "log_chi_product", "log_apjn_without_softmax_derivative", "log_apjn"), rows)


def toy_table(toys: Mapping[str, Run]) -> str:
    """The toy networks, every layer of every slope."""
    rows = [
        (norm, alpha, l, run.q[i][l], run.log_apjn[i][l]) for norm, run in toys.items() for alpha, i in _slopes(run) for l in run.layers
    ]
    return _csv(("norm", "alpha", "l", "q", "log_apjn"), rows)


def few_token_table(pairs: Mapping[tuple[str, int, float], Pair]) -> str:
    """The transformers with few tokens, every layer; the keys are norm, n and sigma_QK."""
    rows = [
        (*key, l, *(curve[l] for curve in curves))
        for key, pair in pairs.items()
        for v in [pair.value_path]
        for curves in [(v.q, v.p, v.log_chi_product, v.log_apjn, pair.full.log_apjn)]
        for l in v.layers
    ]
    return _csv(("norm", "n", "sigma_QK", "l", "q", "p", "log_chi_product", "log_apjn_without_softmax_derivative", "log_apjn"), rows)


def final_values(transformers: Mapping[str, Pair]) -> list[tuple[str, float | None, float, float, float, float, float, float]]:
    """Norm, slope, q_L, p_L, c_L, sum of ln chi, and ln J^{L,0} without and with the derivative of the softmax."""
    rows = []
    for norm, pair in transformers.items():
        full, value = pair.full, pair.value_path
        for alpha, i in _slopes(full):
            q, p, c = (float(curve[i][-1]) for curve in (full.q, full.p, full.c))
            chi, without, apjn = (float(curve[i][0]) for curve in (value.log_chi_product, value.log_apjn, full.log_apjn))
            rows.append((norm, alpha, q, p, c, chi, without, apjn))
    return rows


def final_table(transformers: Mapping[str, Pair]) -> str:
    """The end of every curve."""
    return _csv(FINAL, final_values(transformers))


def comparison_table(comparisons: Iterable[Comparison]) -> str:
    """Reference numbers beside the computed ones."""
    rows = [(c.system, c.norm, c.alpha, c.quantity, c.reference, c.computed, c.deviation, c.source) for c in comparisons]
    return _csv(("system", "norm", "alpha", "quantity", "reference", "computed", "relative_deviation", "source"), rows)


def curve_table(points: Iterable[CurvePoint]) -> str:
    """Published points beside the computed curves."""
    rows = [(p.figure, p.system, p.quantity, p.norm, p.alpha, p.layer, p.published, p.computed, p.deviation) for p in points]
    return _csv(("figure", "system", "quantity", "norm", "alpha", "l", "published", "computed", "deviation"), rows)


def largest(values: Iterable[float]) -> float:
    """The largest magnitude; NaN if one is NaN."""
    sizes = [abs(v) for v in values]
    return math.nan if any(math.isnan(v) for v in sizes) else max(sizes)
