"""Fixed points and growth where sines stand beside error functions: limits as `propagate` reaches them."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf

x, GELU = mf.x, mf.gelu.expression


@pytest.mark.parametrize("e", [GELU + sp.sin(x), sp.erf(x) + sp.sin(x), sp.erfc(x) + sp.sin(x)], ids=["gelu", "erf", "erfc"])
def test_points_and_growth_are_where_it_goes(e: sp.Expr) -> None:
    net, values = mf.mlp(mf.Activation(e)), {"sigma_w": 1, "sigma_b": 0}
    point = next(p for p in mf.fixed_points(net, **values) if p.stable)
    run = mf.propagate(net, 300, q=1.0, c=0.3, record=[299, 300], **values)
    assert point.q == pytest.approx(float(run.q[-1]), rel=1e-12)
    assert point.c == pytest.approx(float(run.c[-1]), rel=1e-9, abs=1e-12)
    law = mf.growth(net, **values)
    assert (law.q.kind, float(law.q.limit)) == ("bounded", pytest.approx(point.q, rel=1e-12))
    limit = 0.0 if law.gap.kind == "exponential" else float(law.gap.limit)
    assert limit == pytest.approx(1 - point.c, abs=1e-9)
    assert (law.apjn.kind, float(law.apjn.rate)) == ("exponential", pytest.approx(float(run.log_apjn[0]), rel=1e-9))


def test_a_wave_that_fills_what_is_missing_of_q_far_out() -> None:
    """E f^2/q goes to 1 from below faster than rounding shows, with slopes that are rounding there"""
    net = mf.mlp(mf.Activation(GELU + x * sp.sin(x)))
    law = mf.growth(net, sigma_w=1, sigma_b=0)
    run = mf.propagate(net, 300, q=1.0, c=0.3, record="last", sigma_w=1, sigma_b=0)
    assert float(law.q.limit) == pytest.approx(float(run.q[0]), rel=1e-12)
    assert float(law.gap.limit) == pytest.approx(1 - float(run.c[0]), rel=1e-9)
