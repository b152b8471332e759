"""Correlations of the gradients of two tokens where the tokens are the same, and where phi jumps."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

NETS = {
    "derf": mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(n=8), mlp=mf.MLP(mf.relu), skip=sp.Symbol("mu")),
    "dyt": mf.pre_norm(norm=mf.DyT(), attention=None, mlp=mf.MLP(mf.relu), skip=sp.Symbol("mu")),
}


@pytest.mark.parametrize("name", NETS)
def test_identical_tokens_have_the_limit_of_alike_ones(name: str) -> None:
    """at gap 0 a bound of the gap is the least of 0 and of moments: it is 0, whatever their values"""
    net = NETS[name]
    values = {s.name: 0.7 for s in mf.recursion(net).parameters}
    same, alike = (mf.propagate(net, 3, 1.0, gap=gap, start="pooled", **values) for gap in (0.0, 1e-10))
    assert same.gap.max() == 0
    assert same.gradient_correlation == pytest.approx(alike.gradient_correlation, abs=1e-4)
    assert same.gradient_correlation[-1] == 1
    assert same.gradient_correlation == pytest.approx(1.0, abs=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("phi", [mf.sign, mf.hard_shrink], ids=str)
def test_infinite_gradients_are_unlike_but_of_one_token_and_no_warning(phi: mf.Activation) -> None:
    """K is finite where the two are apart, infinite like J where they are one"""
    for c in (1.0, -1.0, 0.5):
        run = mf.propagate(mf.mlp(phi), 2, 1.0, c=c, sigma_w=0.7, sigma_b=0.0)
        assert run.status == "infinite APJN"
        assert np.array_equal(run.gradient_correlation[:-1], np.full(2, np.nan if abs(c) == 1 else 0.0), equal_nan=True)
