"""Where a function ends, and functions of the complex plane far from where they do anything."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from meanfield.numeric.primitives import faddeeva
from meanfield.numeric.smooth import support_of

POINTS = [(1e160, 1e160), (1e160, 3.0), (0.0, 1e200), (3e9, 1e9), (1e9, 3e9), (9e7, 9e7), (1.01e8, 0.0), (3.0, 1e300)]


@pytest.mark.parametrize(("x", "y"), POINTS)
def test_far_out_w_is_its_first_terms(x: float, y: float) -> None:
    """i/(sqrt(pi) z) (1 + 1/(2 z^2)), of which |z|^2 may be no double"""
    with mp.workdps(30):
        z = mp.mpc(x, y)
        exact = 1j / (mp.sqrt(mp.pi) * z) * (1 + 1 / (2 * z * z))
        assert abs(mp.mpc(*faddeeva(x, y)) - exact) <= 1e-15 * abs(exact)


def test_a_support_ends_where_the_function_does() -> None:
    assert 10.0 <= support_of(lambda v: np.where(np.abs(v) < 10.0, 1.0, 0.0), 1e-19) <= 12.0


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_far_out_has_no_end(value: float) -> None:
    assert support_of(lambda v: np.where(np.abs(v) < 10.0, 1.0, np.where(np.abs(v) > 195.0, value, 0.0)), 1e-19) == math.inf
    assert support_of(lambda v: np.exp(-(v**2)), value) == math.inf
