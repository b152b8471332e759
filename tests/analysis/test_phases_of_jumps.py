"""Phase diagrams of functions that jump: what is tabulated of a gap that grows as a root, c* next to 1, and values of many decades."""

from __future__ import annotations

import math

import numpy as np
import pytest

import meanfield as mf
from meanfield.analysis import table_steps, tables
from meanfield.analysis.maps import map_of
from meanfield.analysis.stepping import Steps
from meanfield.gaussian.pair_expectation import Gap
from meanfield.symbols import known

DELTA = known("delta")


def test_a_gap_that_grows_as_a_root_takes_few_parts() -> None:
    """a function that jumps: gap/sqrt(q delta) is smooth where gap/delta has a pole; values and rates of all scales"""
    table = tables.Table(Gap(mf.hard_shrink.expression, mf.q, DELTA))
    q = np.array([0.05, 0.3, 0.8, 0.3, 0.3, 0.3])
    delta = q * np.array([0.9, 0.4, 1e-2, 1e-6, 1e-12, 1e-200])
    exact = mf.evaluate(mf.hard_shrink.gap(mf.q, DELTA), q=q, delta=delta)
    assert table(q, delta) == pytest.approx(exact, rel=1e-11)
    assert len([key for key in table.parts if key[0] == -1]) <= 6
    step = 1e-5
    across = (table(q, delta * (1 + step)) - table(q, delta * (1 - step))) / (2 * delta * step)
    assert table.by_difference(q, delta) == pytest.approx(across, rel=1e-8)
    along = (table(q * (1 + step), delta) - table(q * (1 - step), delta)) / (2 * q * step)
    assert table.by_variance(q, delta) == pytest.approx(along, rel=1e-7)


def test_variances_of_a_function_that_jumps_come_from_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """what its deltas add to dq'/dq is a density, and chi is infinite, but 0 without weights: no setting takes quadrature of its own"""
    step = map_of(mf.mlp(mf.hard_shrink))
    given = {"sigma_w": np.array([0.0, 0.7, 2.1]), "sigma_b": np.array([0.5, 0.2, 0.1])}
    at = np.array([0.25, 0.06, 3.0])
    moved, along, across = Steps(step, given).identical(at)
    monkeypatch.setattr(table_steps.TableSteps, "_plain", None)
    read, along_read, across_read = table_steps.TableSteps(step, given).identical(at)
    assert read.at == pytest.approx(moved.at, rel=1e-13)
    assert along_read.value == pytest.approx(along.value, rel=1e-12)
    assert across_read.value.tolist() == across.value.tolist() == [0, math.inf, math.inf]


@pytest.mark.parametrize("sigma_b", [0.02, 0.04, 0.05, 0.1])
def test_a_correlation_next_to_one(sigma_b: float) -> None:
    r"""delta' = sigma_w^2 sum_k J_k^2 n(k; q) sqrt(delta/pi) as delta -> 0, for jumps J at k of density n: far within the tails"""
    weights, biases = [0.1, 0.2, 0.5], [sigma_b, 0.3]
    diagram = mf.phase_diagram(mf.mlp(mf.hard_shrink), sigma_w=weights, sigma_b=biases)
    for i, w in enumerate(weights):
        q = float(diagram.q[i, 0])
        assert q == pytest.approx(sigma_b**2, rel=1e-5)
        density = math.exp(-0.125 / q) / math.sqrt(2 * math.pi * q)
        root = w**2 * 2 * 0.25 * density / math.sqrt(math.pi)
        assert diagram.gap[i, 0] == pytest.approx(root**2 / q, rel=1e-7)
        assert diagram.phase[i, 0] == "chaotic"
        at_one, below = mf.fixed_points(mf.mlp(mf.hard_shrink), sigma_w=w, sigma_b=sigma_b)
        assert (at_one.gap, at_one.stable, below.stable) == (0.0, False, True)
        assert below.gap == pytest.approx(root**2 / q, rel=1e-7)
