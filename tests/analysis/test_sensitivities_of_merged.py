"""mf.sensitivity of Gram matrices where inputs or tokens merge, where nothing is left of a point, and on grids of no points."""

from __future__ import annotations

import numpy as np
import pytest

import meanfield as mf


def test_settings_do_not_take_each_other_s_derivatives() -> None:
    """at sigma_w = sigma_b = 0 nothing moves; of ReLU q_4 = q (w^2/2)^4 and J_4 = (w^2/2)^4"""
    widths = np.array([0.0, 1.0, 1.3])
    found = mf.sensitivity(mf.mlp(mf.relu), 4, 1.0, q2=2.0, c=0.3, sigma_w=widths, sigma_b=0.0, with_respect_to="sigma_w")
    assert found.status.tolist() == ["zero signal", "ok", "ok"]
    assert found.dq["sigma_w"] == pytest.approx(8 * widths**7 / 16, rel=1e-13)
    assert found.dlog_apjn["sigma_w"][1:] == pytest.approx(8 / widths[1:], rel=1e-13)
