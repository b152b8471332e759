"""law.check: a law that is right agrees, also where corrections fade slowly, and one that is 3 % off does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp

import meanfield as mf

x, R = mf.x, sp.Rational


def stream(f: mf.Block, weight: sp.Expr, bias: sp.Expr) -> mf.Residual:
    return mf.Residual(f >> mf.Linear(weight, bias))


SLOW = {
    "1 - c ~ l^-0.03, a series in its root": (stream(mf.LayerNorm() >> mf.Activate(mf.relu), R(1), R(1, 8)), "gap", "exponent"),
    "1 - c ~ l^-0.2": (stream(mf.LayerNorm() >> mf.Activate(mf.sin), R(4, 5), R(2, 5)), "gap", "exponent"),
    "q ~ l beside 400 sqrt(l)": (stream(mf.Activate(mf.Activation(sp.sin(5 * x) * sp.exp(-(x**2) / 2))), R(2), R(2, 5)), "q", "rate"),
    "a logarithm beside 180 sqrt(l)": (
        stream(mf.Activate(mf.Activation(sp.cos(4 * x) * sp.exp(-(x**2) / 2))), R(2), R(2, 5)),
        "apjn",
        "log_coefficient",
    ),
    "1 - c carried by q, a series in l^(-1/4)": (stream(mf.Activate(mf.Activation(1 / (2 + x**2))), R(5, 4), R(6, 5)), "gap", "exponent"),
}


@pytest.mark.parametrize("name", SLOW)
def test_right_laws_agree_and_wrong_ones_do_not(name: str) -> None:
    net, quantity, constant = SLOW[name]
    law = mf.growth(net)
    seen = law.check()
    assert seen.agrees, seen
    own = getattr(law, quantity)
    wrong = replace(law, **{quantity: replace(own, **{constant: getattr(own, constant) * R(103, 100)})}).check()
    assert "disagrees" in {f.verdict for f in wrong.fits if (f.quantity, f.name) == (own.quantity, constant)}, wrong
