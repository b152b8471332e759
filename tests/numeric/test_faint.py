"""Tables of functions that are small far out, under wide Gaussians: gaps as differences, products that are small by their signs."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from from_tables import read

import meanfield as mf
from meanfield.gaussian.pair_expectation import Gap
from meanfield.gaussian.singularities import regular
from meanfield.numeric import ways
from meanfield.numeric.deviations import Impossible
from meanfield.numeric.stepped import Stepped
from meanfield.numeric.table_panels import _Integrand
from meanfield.numeric.tables import Table
from meanfield.numeric.tabulation import apart_panel

x = mf.x
#: even, with tails, with a kink, on one side of 0, of two steps
LOCAL = {
    "even": 1 / sp.cosh(x),
    "tails": 1 / (1 + x**2),
    "kinked": sp.exp(-sp.Abs(x)),
    "aside": sp.tanh(x) / sp.cosh(x - 2),
    "steps": sp.tanh(x) - sp.tanh(x - 3),
}
WIDE = (2e5, 4e11)


@pytest.mark.parametrize("name", LOCAL)
def test_gaps(name: str) -> None:
    """of variables next to each other, as far from each other as the function is wide, independent, nearly opposite"""
    f = LOCAL[name]
    table, node = Table(f, regular(f)), Gap(f, mf.q, mf.delta)
    for v in WIDE:
        for d in (v * 1e-200, 1 / 3, 3.0, 100.0, 0.04 * v, v, 1.3 * v, 1.9999 * v):
            true, bound = mf.evaluate(node, q=v, delta=d, error=True)
            assert abs(read(table, "gap", v, d) - true) <= bound + 1e-13 * true, (v, d)


@pytest.mark.parametrize("name", ["even", "aside"])
def test_products_of_slopes(name: str) -> None:
    """as good as E |f'(u) f'(v)|, of which signs leave v^-1"""
    g = regular(LOCAL[name])
    table, kernel = Table(g, None), mf.Activation(g).kernel(mf.q, mf.p)
    for v in WIDE:
        for c in (0.5, -0.25):
            size = mf.evaluate(mf.Activation(g**2).kernel(mf.q, mf.p), q=v, p=c * v)
            assert abs(read(table, "cross", v, v * (1 - c)) - mf.evaluate(kernel, q=v, p=c * v)) < 1e-12 * size, (v, c)


def test_networks_run_from_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "_by_quadrature", None)
    for name in ("kinked", "steps"):
        net = mf.mlp(mf.Activation(LOCAL[name]))
        run = mf.propagate(net, 2, np.array([1e5, 1e11]), c=np.array([[0.9], [-0.5]]), sigma_w=1.0, sigma_b=1e3)
        assert (run.status == "ok").all()


def test_what_is_not_small_far_out_is_no_difference() -> None:
    """at c = 1/2 most of E f(u)^2 is left in E f(u) f(v)"""
    f = _Integrand.of(sp.tanh(x) + 3)
    of_f, of_slope = (list(g.ways(False)) for g in (f, _Integrand.of(regular(f.g))))
    assert isinstance(of_f[1], Stepped)
    with pytest.raises(Impossible, match="nowhere apart"):
        apart_panel(of_f[1], f.squares, of_slope[0], 9)
