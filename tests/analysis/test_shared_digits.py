"""Numbers of long expressions and signs of sums: as many digits as are asked for, and no more work than that takes."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis import growth_place
from meanfield.analysis.implicit import CorrelationRoot
from meanfield.analysis.shared_digits import numbered
from meanfield.analysis.signs import sign

NEAR_E = sp.Rational(str(sp.N(sp.E, 18)))


@pytest.mark.parametrize(
    "e",
    [
        sp.exp(sp.sqrt(2)) * sp.asin(sp.Rational(1, 3)) - sp.atan2(1, 3) / sp.erf(sp.Rational(2, 7)),
        sp.E - NEAR_E,  # 18 digits cancel
        sp.E - sp.Rational(str(sp.N(sp.E, 80))),  # more than are at hand: sympy's own way
        sp.Float("0.3") * sp.pi + sp.zeta(3),
        (-8) ** sp.Rational(1, 3) + sp.sqrt(3),  # not real
    ],
)
def test_numbers_are_those_of_sympy(e: sp.Expr) -> None:
    true = sp.N(e, 20)
    assert abs(sp.N(numbered(e, 20) - true, 5)) <= 1e-19 * abs(sp.N(true, 5))


def test_a_root_is_solved_for_once_in_a_long_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    s = sp.Symbol("s", positive=True)
    root, asked = CorrelationRoot(sp.cos(s) - s, s), []
    own = CorrelationRoot._eval_evalf
    monkeypatch.setattr(CorrelationRoot, "_eval_evalf", lambda self, prec: asked.append(prec) or own(self, prec))
    e = sp.Add(*[sp.exp(k * root) / (k + root**2) for k in range(1, 40)])
    asked.clear()  # sympy asks for signs as it makes the sum
    value = numbered(e, 20)
    assert 0 < len(asked) <= 4
    assert abs(value / sp.N(e, 20) - 1) < 1e-19


def test_the_direction_of_q_is_seen_in_few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """each repeat adds a positive number to q: no more than its first digits are asked for, far out too"""
    asked: list[int] = []
    right = growth_place.valued_parts

    def counted(parts: tuple[sp.Expr, ...], digits: int) -> list[sp.Expr]:
        asked.append(digits)
        return right(parts, digits)

    monkeypatch.setattr(growth_place, "valued_parts", counted)
    norm = mf.Activate(mf.Activation(mf.x / sp.sqrt(1 + mf.x**2)))
    law = mf.growth(mf.Residual(norm >> mf.Linear(sp.Rational(3, 2), sp.Rational(1, 2))))
    assert law.q.kind == "power"
    assert law.q.rate == pytest.approx(2.5, rel=1e-12)
    assert max(asked) < 10
    assert len(asked) <= 12


def test_terms_that_cancel_are_looked_at_closely() -> None:
    seen = growth_place._seen(sp.exp(1) - NEAR_E)
    assert abs(seen / sp.N(sp.E - NEAR_E, 20) - 1) < 1e-3


@pytest.mark.parametrize("power", [44, 47, 60])
def test_what_is_left_has_all_its_digits(power: int) -> None:
    left = sp.Rational(123456789, 10**power)
    assert numbered(sp.sin(2) ** 2 + sp.cos(2) ** 2 - 1 + left, 15) == sp.N(left, 15)


def test_a_sum_that_lost_its_digits_is_done_again() -> None:
    assert abs(numbered(10**80 * (sp.cosh(sp.Rational(1, 10**40)) - 1), 15) - sp.Rational(1, 2)) < 1e-14
    assert sign(sp.cosh(100) ** 2 - sp.sinh(100) ** 2 - 1) == 0


def test_nothing() -> None:
    nothing = sp.Add(sp.sqrt(2) + sp.sqrt(3), -sp.sqrt(5 + 2 * sp.sqrt(6)), evaluate=False)
    assert abs(numbered(nothing, 20)) < sp.Float(10) ** -60
    assert abs(numbered(sp.sin(2) ** 2 + sp.cos(2) ** 2 - 1, 20)) < sp.Float(10) ** -60
