"""Growth of gated attention units: the law beside runs, fixed points in doubles, and expansions beside values."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.implicit import valued
from meanfield.analysis.repeats import small
from meanfield.analysis.signs import GAP
from meanfield.gaussian.exchangeable import Exchangeable

RELU = mf.relu.expression


def unit(phi: mf.Activation, **others: object) -> mf.GAU:
    return mf.GAU(phi, s=64, n=32, d=96, e=192, **others)


def test_behind_a_norm_q_grows_like_the_depth() -> None:
    """c goes to where the unit alone leaves it: the output then adds to q what it adds in one repeat"""
    law = mf.growth(mf.Residual(mf.RMSNorm() >> unit(mf.relu)))
    assert (law.q.kind, law.q.exponent, law.gap.kind, law.apjn.kind) == ("power", 1, "bounded", "power")
    gap = float(law.gap.limit)
    one = mf.propagate(unit(mf.relu), 1, q=1.0, gap=gap)
    assert one.gap[-1] == pytest.approx(gap, rel=1e-13)
    assert float(law.q.rate) == pytest.approx(one.q[-1], rel=1e-13)
    run = mf.propagate(mf.Residual(mf.RMSNorm() >> unit(mf.relu)), 10**5, q=1e9, gap=gap, record=10**4)
    depth = (run.q - run.q[0]) / float(law.q.rate)
    np.testing.assert_allclose(depth, run.layers, rtol=1e-9, atol=1e-6)
    exponents = sorted((float(exponent), float(share)) for share, exponent in law.apjn.terms)
    before = run.q[0] / float(law.q.rate)
    truth = np.log(sum(share * (1 + run.layers / before) ** exponent for exponent, share in exponents))
    np.testing.assert_allclose(run.log_apjn_forward, truth, rtol=1e-6, atol=1e-9)


def test_before_a_norm_j_grows_by_a_factor() -> None:
    law = mf.growth(mf.Residual(unit(mf.silu)) >> mf.LayerNorm())
    run = mf.propagate(mf.Residual(unit(mf.silu)) >> mf.LayerNorm(), 20_000, q=1.0, gap=float(law.gap.limit), record=10_000)
    assert law.q.limit == 1
    assert float(law.gap.limit) == pytest.approx(run.gap[-1], rel=1e-10)
    assert law.apjn.kind == "exponential"
    assert float(law.apjn.rate) == pytest.approx((run.log_apjn_forward[-1] - run.log_apjn_forward[-2]) / 10_000, rel=1e-9)
    point = next(f for f in mf.fixed_points(mf.Residual(unit(mf.silu)) >> mf.LayerNorm()) if f.stable)
    assert float(law.gap.limit) == pytest.approx(1 - point.c, rel=1e-10)


@pytest.mark.parametrize("f", [RELU, sp.tanh(mf.x)], ids=str)
def test_moments_next_to_equal_tokens(f: sp.Expr) -> None:
    """their series against their values: what is left falls as the next power"""
    for powers, spread in (
        (((2, 0), (1, 0), (1, 0)), False),
        (((2, 0), (1, 0), (1, 0)), True),
        (((1, 0), (2, 0), (1, 0), (2, 0)), True),
        (((2, 0), (4, 0)), True),
        (((1, 1), (1, 1), (2, 0)), False),
    ):
        node = Exchangeable(f, powers, 1, GAP, spread)
        terms = {exponent: sp.N(c, 15) for (exponent, _), c in small(node).items() if not c.has(sp.Symbol("unknown"))}
        terms = {exponent: c for exponent, c in terms.items() if c.is_Float or c.is_Integer}
        assert len(terms) >= (1 if spread else 2)
        left = []
        for gap in (sp.Rational(1, 100), sp.Rational(1, 400)):
            value = valued(node.xreplace({GAP: gap}), 15)
            left.append(abs(value - sum(c * gap**exponent for exponent, c in terms.items())) / abs(value - terms.get(sp.S.Zero, 0)))
        assert left[0] < 0.3
        assert left[1] < 0.6 * left[0]


def test_a_pair_where_one_function_jumps_and_the_other_has_a_kink() -> None:
    """E theta(u) relu(v)^2: a delta sees the mean of the slopes on both sides, 0, so that the first order is d E theta' ... = 0"""
    one, other = sp.Heaviside(mf.x), sp.Max(mf.x - sp.Rational(1, 3), 0) ** 2
    node = mf.E(one * other.xreplace({mf.x: mf.y}), 1, 1 - GAP, 1)
    moved = mf.E(sp.Heaviside(mf.x - sp.Rational(1, 3)) * (mf.y**3), 1, 1 - GAP, 1)
    for e in (node, moved):
        terms = {exponent: sp.N(c, 20) for (exponent, _), c in small(e).items() if sp.N(c, 20).is_Float}
        for gap in (1e-4, 1e-6):
            value = float(mf.evaluate(e.xreplace({GAP: sp.Float(gap)})))
            expected = float(sum(c * gap ** float(exponent) for exponent, c in terms.items()))
            assert abs(value - expected) < 3 * gap**1.5


def test_why_a_unit_without_a_norm_has_no_law() -> None:
    law = mf.growth(mf.Residual(unit(mf.silu)))
    assert law.q.kind == "undetermined"
    assert "variance grows or vanishes" in str(law)


def test_a_unit_with_open_sizes_says_what_to_bind() -> None:
    net = mf.Residual(mf.RMSNorm() >> mf.GAU(mf.relu, d=96, e=192))
    assert mf.growth(net).q.reason == "moments of many tokens are followed in numbers alone: bind n, s"
