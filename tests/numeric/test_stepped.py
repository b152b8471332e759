"""Panels of functions that are constant far out: a smooth step, whose means are known, and what is local, on one lattice."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.singularities import regular
from meanfield.numeric import lookup, stepped
from meanfield.numeric.deviations import Impossible
from meanfield.numeric.piecewise import Pieces
from meanfield.numeric.stepped import Stepped
from meanfield.numeric.table_panels import _Integrand
from meanfield.numeric.tables import ASKED, Table
from meanfield.numeric.tabulation import variances

x = mf.x
#: both sides, one of them negative, a bump; in a strip narrower than that of the exponential
STEPS = (mf.silu.expression, sp.exp(-(x**2)) - 2 * x / (1 + sp.exp(-3 * x)), mf.gelu_tanh.expression, x * sp.tanh(2 * x) + x / 3)


def ways(f: sp.Expr, mirrored: bool) -> tuple[Stepped, Pieces]:
    found = {type(way): way for way in _Integrand.of(f).ways(mirrored)}
    return found[Stepped], found[Pieces]


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("f", STEPS, ids=str)
def test_a_step_and_what_is_local_give_what_sums_over_panels_give(f: sp.Expr, mirrored: bool) -> None:
    """from inputs much nearer to each other than what is local is wide, to independent ones"""
    y = np.concatenate([2.0 ** -np.arange(0.0, 27.0), np.linspace(0.05, 0.95, 20)])
    for k in (3, 9, 20):
        values, others = (way.products(variances(k))(y) for way in ways(regular(f), mirrored))
        assert np.abs(values - others).max() < 1e-14 * np.abs(others).max()


def test_panels_of_large_variances_take_no_sums_over_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    f = mf.silu.expression + x / 7
    table = Table(f, regular(f))
    monkeypatch.setattr(Pieces, "products", None)
    for k in range(3, 21):
        before = table.numbers.size
        table.numbers[int(lookup.GAP) + k - lookup.FIRST] = ASKED
        assert table.extend(table.numbers)
        assert table.numbers.size > before


@pytest.mark.parametrize("mirrored", [False, True])
def test_what_is_local_is_tabulated_once(mirrored: bool) -> None:
    """for all variances and correlations: the function is asked for as many numbers for one panel as for all"""
    step, _ = ways(regular(mf.silu.expression), mirrored)
    asked = []

    def value(at: np.ndarray) -> np.ndarray:
        asked.append(at.size)
        return step.value(at)

    counted = replace(step, value=value)
    counted.products(variances(4))(np.array([0.5]))
    once = sum(asked)
    for k in range(4, 21):
        counted.products(variances(k))(np.linspace(0.01, 1.0, 24))
    assert sum(asked) == once > 0


def test_under_narrow_gaussians_the_lattice_is_no_sum() -> None:
    step, _ = ways(regular(mf.silu.expression), False)
    with pytest.raises(Impossible, match="too small"):
        step.products(variances(0))


def test_shares() -> None:
    """to the last bit of 1, and far out 0 or 1"""
    z = np.array([-300.0, -40.0, -39.0, -5.0, -0.71, -0.7, -1e-9, 0.0, 0.3, 0.70711, 3.0, 9.0, 39.5, 40.0, 1e3])
    found = stepped.normal_cdf(z)
    assert np.abs(found - [0.5 * math.erfc(-a / math.sqrt(2.0)) for a in z]).max() < 2.3e-16
    assert found[0] == 0
    assert (found[-4:] == 1).all()
