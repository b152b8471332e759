"""Steps of growth laws that hold only where they are proved: what adds up on the way of c, and whose errors are tried again."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.growth_place import _direction, _is_of_sympy
from meanfield.analysis.growth_rates import Undetermined, motion
from meanfield.analysis.repeats import Repeat
from meanfield.analysis.signs import GAP

x = mf.x

#: of one sign far from c = 1, of the other near it, 1 there
FACTOR = 1 + GAP * (GAP - sp.S.Half)


def repeat(power: sp.Expr) -> Repeat:
    return Repeat({(-sp.S.One, 0): FACTOR}, {(sp.S.Zero, 0): GAP - GAP**power}, ({}, {}, {}, {}))


def test_a_factor_of_q_that_adds_up_on_the_way_of_c_is_no_constant() -> None:
    """1 - c ~ 1/l with e' = e - e^2: the product of 1 - e/2 is l^(-1/2); ~ 4/l^2 with e' = e - e^(3/2): the product converges"""
    with pytest.raises(Undetermined, match="adds up"):
        motion(repeat(sp.Integer(2)), -1)
    found = motion(repeat(sp.Rational(3, 2)), -1)
    assert found is not None
    assert found.factor == 1

    def product(power: float, layers: int) -> float:
        e, q = 0.3, 1.0
        for _ in range(layers):
            e, q = e - e**power, q * (1 + e * (e - 0.5))
        return q

    assert product(2, 40000) / product(2, 10000) == pytest.approx(0.5, rel=1e-2)
    assert product(1.5, 40000) / product(1.5, 10000) == pytest.approx(1, rel=1e-3)


def test_only_what_sympy_raises_is_tried_again() -> None:
    with pytest.raises(ValueError, match="own") as own:
        raise ValueError("own")
    assert not _is_of_sympy(own.value)
    with pytest.raises(ValueError, match="mismatched dimensions") as theirs:
        sp.Matrix([[1, 2], [3]])
    assert _is_of_sympy(theirs.value)


def test_a_refusal_of_ones_own_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("a refusal of its own")

    q = sp.Dummy("q", real=True)
    monkeypatch.setattr("meanfield.analysis.growth_place.valued_parts", refuse)
    with pytest.raises(ValueError, match="a refusal of its own"):
        _direction(q**2 + q, q)


@pytest.mark.parametrize("large", [100, 1000, 20_000])
def test_a_bounded_part_however_large_does_not_hide_that_q_grows_exponentially(large: int) -> None:
    """q' = sigma_w^2 E(u + K tanh(u/9))^2 = sigma_w^2 q (1 + O(K q^(-1/2)))"""
    net = mf.mlp(mf.Activation(x + large * sp.tanh(x / 9)))
    words = mf.phase_diagram(net, sigma_w=[1.0, 1.1, 2.0], sigma_b=[0.0, 1.0]).growth
    assert words["q"][:, 0].tolist() == ["power", "exponential", "exponential"]
    assert words["apjn"][1:, 0].tolist() == ["exponential", "exponential"]
    for sigma_w, kind in ((1, "power"), (2, "exponential")):
        assert mf.growth(net, sigma_w=sigma_w, sigma_b=0).q.kind == kind
