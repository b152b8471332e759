"""c = 0 and c = -1 where functions are odd and no bias is added: by the formulas, whatever rounding makes of the numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.exact_correlations import exact_correlations
from meanfield.analysis.maps import map_of

x = mf.x
CUBE, BEND = mf.Activation(sp.tanh(x**3)), mf.Activation(sp.atan(x) - x / (1 + x**2))


@pytest.mark.parametrize(("phi", "sigma_w"), [(CUBE, 2.0), (CUBE, 3.0), (BEND, 6.0), (mf.sin, 2.0)])
def test_an_odd_function_without_bias_has_c_0_and_minus_1_at_each_variance(phi: mf.Activation, sigma_w: float) -> None:
    found = mf.fixed_points(mf.mlp(phi), sigma_w=sigma_w, sigma_b=0.0)
    assert found.status == ("c open" if phi is mf.sin else "ok")  # at q = 0, which sin leaves with every c
    for at in {f.q for f in found if f.q > 0}:
        one, independent, opposite = (f for f in found if f.q == at)
        assert (one.c, independent.c, opposite.c) == (1.0, 0.0, -1.0)
        assert opposite.chi == pytest.approx(one.chi, rel=1e-11)  # E phi'(u) phi'(-u) = E phi'^2
        assert independent.chi < 1


def test_the_unstable_end_that_rounding_lost() -> None:
    *_, opposite = mf.fixed_points(mf.mlp(CUBE), sigma_w=2.0, sigma_b=0.0)
    assert (opposite.q, opposite.chi) == pytest.approx((2.0220015402, 2.03760), rel=1e-5)
    assert (opposite.c, opposite.gap_bracket, opposite.stable) == (-1.0, (2.0, 2.0), False)


@pytest.mark.parametrize(
    ("net", "kept"),
    [
        (mf.mlp(mf.hard_shrink), (1, 2)),
        (mf.residual_mlp(mf.erf) >> mf.LayerNorm(), (1, 2)),
        (mf.Activate(mf.tanh) >> mf.Linear() >> mf.Activate(mf.erf) >> mf.Linear(), (1, 2)),
        (mf.Dropout(sp.Rational(1, 10)) >> mf.Linear() >> mf.Activate(mf.erf) >> mf.Linear(), (1,)),
        (mf.mlp(mf.relu), ()),
        (mf.mlp(mf.Activation(x**2 - 1)), ()),
    ],
    ids=["kinks", "norm", "two stages", "masks", "mean", "even"],
)
def test_what_stays_by_the_formulas(net: mf.Block, kept: tuple[int, ...]) -> None:
    step = map_of(net)
    assert exact_correlations(step, {"sigma_b": 0.0}) == kept
    assert exact_correlations(step, {"sigma_b": 0.1}) == ()
    for gap in kept:
        after = mf.propagate(net, 1, 1.3, c=1.0 - gap, sigma_w=1.2, sigma_b=0.0)
        assert float(after.c[-1]) == pytest.approx(1.0 - gap, abs=1e-13)


def test_a_small_bias_leaves_neither() -> None:
    found = mf.fixed_points(mf.mlp(CUBE), sigma_w=2.0, sigma_b=1e-6)
    points = [f for f in found if f.q > 1]
    assert [f.c > 0 for f in points] == [True, True]
    assert 1e-13 < points[1].c < 1e-11  # about sigma_b^2/(q* (1 - chi(0)))


@pytest.mark.parametrize("phi", [CUBE, mf.tanh], ids=["cube", "tanh"])
def test_pairs_of_a_diagram_come_to_exactly_0_without_bias(phi: mf.Activation) -> None:
    diagram = mf.phase_diagram(mf.mlp(phi), sigma_w=np.linspace(2.0, 6.0, 30), sigma_b=[0.0, 0.1])
    assert (diagram.phase[:, 0] == "chaotic").all()
    assert (diagram.c[:, 0] == 0).all()
    assert (diagram.c[:, 1] > 1e-6).all()


@pytest.mark.parametrize("net", [mf.MLP(mf.sign), mf.Residual(mf.MLP(mf.sign), skip=sp.Rational(1, 3))], ids=["plain", "skip"])
def test_the_slope_at_opposite_inputs_is_that_at_equal_ones(net: mf.Block) -> None:
    """c' = (2/pi) asin c beside what a skip carries: its slope is infinite at both ends, and was - oo at c = -1, 1/sqrt(-0.0)"""
    one, *_, opposite = mf.fixed_points(net, sigma_1=0.5, sigma_2=0.5)
    assert (one.c, one.chi) == (1.0, math.inf)
    assert (opposite.c, opposite.chi, opposite.stable) == (-1.0, math.inf, False)
