"""Means that fall below doubles as the variance falls, where a part of the way is left to follow: soft_shrink has no value within 1/2."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import meanfield as mf
from meanfield.analysis.tables import table_of
from meanfield.symbols import known

q = known("q")


def second_moment(variance: float) -> mp.mpf:
    """2 E max(0, u - 1/2)^2"""
    with mp.workdps(50):
        v, cut = mp.mpf(variance), mp.mpf(1) / 2
        z = cut / mp.sqrt(v)
        return 2 * ((v + cut**2) * mp.erfc(z / mp.sqrt(2)) / 2 - cut * mp.sqrt(v) * mp.npdf(z))


@pytest.mark.parametrize("variance", [1e-2, 1e-3, 5e-4, 2e-4, 1.9e-4])
def test_a_table_keeps_its_digits_to_the_end_of_doubles(variance: float) -> None:
    (found,) = table_of(mf.E(mf.soft_shrink(0.5).expression ** 2, q))(np.array([variance]))
    assert math.log(found) == pytest.approx(float(mp.log(second_moment(variance))), rel=1e-13)


def test_no_variance_is_left_open_on_the_way_to_0() -> None:
    found = mf.fixed_points(mf.mlp(mf.soft_shrink(0.5)), sigma_w=2.0, sigma_b=0.0)
    assert [round(f.q, 6) for f in found] == [0, 0, 0, 0.429956, 0.429956, 0.429956]
    assert "could not be resolved" not in found.status
    assert second_moment(found[3].q) * 4 == pytest.approx(found[3].q, rel=1e-12)


def test_a_diagram_from_a_small_variance() -> None:
    diagram = mf.phase_diagram(mf.mlp(mf.soft_shrink(0.5)), sigma_w=[0.9, 2.0], sigma_b=[0.0, 0.01], q=1e-3)
    assert (diagram.phase == "ordered").all()
    assert diagram.q[:, 0].tolist() == [0, 0]
    assert diagram.q[:, 1] == pytest.approx(1e-4, rel=1e-12)
