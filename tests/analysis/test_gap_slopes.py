"""One repeat in numbers with its derivatives: what a pair moves by where q does, against forms that do not cancel and against 40 digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.maps import map_of
from meanfield.analysis.stepping import Steps

VARIANCES, GAPS = np.array([3e-11, 2e-5, 0.6, 2.4]), np.array([2e-13, 3e-7, 0.15, 0.8, 1.6])


def _moved_by_variance(phi: Any, q: np.ndarray, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """delta' and d delta'/dq at fixed delta = gap q"""
    moved = Steps(map_of(mf.mlp(phi)), {"sigma_w": 1.0, "sigma_b": 0.0}).pair(q, gap * q)
    return moved[1].at, moved[2].value[1, 0]


def _of_sin(q: mp.mpf, delta: mp.mpf) -> mp.mpf:
    return -mp.exp(-2 * q) * mp.expm1(delta)


def _of_cos(q: mp.mpf, delta: mp.mpf) -> mp.mpf:
    return mp.exp(-2 * q) * mp.expm1(delta)


def _of_squared_relu(q: mp.mpf, delta: mp.mpf) -> mp.mpf:
    """E u^2 v^2 over u, v > 0 is q^2 (3 sin t cos t + (pi - t)(1 + 2 cos^2 t))/(2 pi) at cos t = 1 - delta/q (Cho & Saul 2009)"""

    def gap(v: mp.mpf) -> mp.mpf:
        t = mp.acos(1 - delta / v)
        return v**2 * (3 * mp.pi - 3 * mp.sin(t) * mp.cos(t) - (mp.pi - t) * (1 + 2 * mp.cos(t) ** 2)) / (2 * mp.pi)

    return mp.diff(gap, q, h=q * mp.mpf(10) ** -25)


@pytest.mark.parametrize(
    ("phi", "exact"), [(mf.sin, _of_sin), (mf.cos, _of_cos), (mf.relu_squared, _of_squared_relu)], ids=["sin", "cos", "relu²"]
)
def test_a_gap_moves_with_its_variance_to_the_last_digits(phi: mf.Activation, exact: Callable[[mp.mpf, mp.mpf], mp.mpf]) -> None:
    q, gap = (m.ravel() for m in np.meshgrid(VARIANCES, GAPS))
    found = _moved_by_variance(phi, q, gap)[1]
    with mp.workdps(80):
        wanted = np.array([float(exact(mp.mpf(v), mp.mpf(g * v))) for v, g in zip(q, gap, strict=True)])
    assert found == pytest.approx(wanted, rel=3e-11, abs=0)


@pytest.mark.parametrize(
    ("phi", "q", "gap"),
    [
        (mf.elu, 7.0, 4e-10),
        (mf.elu, 5e-7, 1.2),
        (mf.erf, 0.9, 6e-11),
        (mf.erf, 3e10, 2e-7),
        (mf.gelu, 1.3e4, 2e-9),
        (mf.gelu, 1e8, 0.6),
        (mf.silu, 2e8, 1.4),
        (mf.Activation(sp.erf(300 * mf.x)), 0.8, 0.02),
    ],
)
def test_a_gap_moves_with_its_variance_on_the_scale_of_its_size(phi: mf.Activation, q: float, gap: float) -> None:
    """by the scale of u: dG/dq = (E u f f' - E u f'(u) f(v) - delta E f'(u) f'(v))/q, which cancels, with 40 digits"""
    f, g, v, d = phi.expression, phi.derivative.expression, sp.Rational(q), sp.Rational(gap * q)
    parts = mf.E(mf.x * f * g, v), mf.E(mf.x * g * f.xreplace({mf.x: mf.y}), v, v - d), mf.E(g * g.xreplace({mf.x: mf.y}), v, v - d)
    alike, apart, slope = (sp.N(part, 40) for part in parts)
    size, found = (float(row[0]) for row in _moved_by_variance(phi, np.array([q]), np.array([gap])))
    assert abs(found - float((alike - apart - d * slope) / v)) < 1e-13 * size / q
