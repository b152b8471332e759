"""Growth laws of repeats of several critical layers: drifts add, and expansions go through what lies between."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.implicit import valued

x = mf.x
TANH = mf.mlp(mf.tanh, 1, 0)
RELU = mf.mlp(mf.relu, sp.sqrt(2), 0)
ERF = mf.mlp(mf.erf, sp.sqrt(sp.pi) / 2, 0)
SINE = mf.mlp(mf.sin, 1, 0)

#: a repeat, and beta of q' = q - beta q^2: 2 b of a layer u - b u^3/3 + ..., 0 of ReLU
ODD = {
    "tanh, tanh": (TANH >> TANH, sp.Integer(4)),
    "tanh, erf": (TANH >> ERF, sp.Integer(4)),
    "tanh, steeper erf": (TANH >> mf.mlp(mf.Activation(sp.erf(sp.sqrt(sp.pi) * x / 2)), 1, 0), 2 + sp.pi / 2),
    "sin, tanh, sin": (SINE >> TANH >> SINE, sp.Integer(4)),
}


@pytest.mark.parametrize("name", ODD)
def test_drifts_of_odd_layers_add(name: str) -> None:
    """c stays where it starts, as for each of them; J' = J (1 - 2 beta q) and q ~ 1/(beta l) would be l^-2, but chi is 1 - beta q"""
    net, beta = ODD[name]
    law = mf.growth(net)
    assert (law.q.kind, law.q.exponent, sp.simplify(law.q.rate - beta)) == ("power", -1, 0)
    assert (law.gap.kind, law.gap.limit) == ("bounded", None)
    assert (law.apjn.kind, law.apjn.exponent) == ("power", -1)
    assert law.check().agrees


@pytest.mark.parametrize("net", [TANH >> RELU, RELU >> TANH], ids=["tanh, relu", "relu, tanh"])
def test_a_rectified_layer_merges_inputs_beside_one_that_drifts(net: mf.Block) -> None:
    """c comes to 1 as for the rectified layer alone, 1 - c ~ 9 pi^2/(2 l^2) (Hayou et al. 2019)"""
    law = mf.growth(net)
    assert (law.q.exponent, law.q.rate) == (-1, 2)
    assert (law.gap.exponent, law.gap.coefficient) == (-2, 9 * sp.pi**2 / 2)
    assert law.check().agrees


def test_expectations_of_few_digits_do_not_lose_those_of_what_cancels_beside_them() -> None:
    """(1 - e^(-2 m))/2 at m = E tanh(u)^2 of 1e-12"""
    m = mf.E(sp.tanh(x) ** 2, sp.Rational(1, 10**12))
    e = (1 - sp.exp(-2 * m)) / 2
    assert abs(valued(e, 7) / sp.N(e, 30) - 1) < 1e-6
