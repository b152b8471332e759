"""Published critical points and rates beside the library's: to the digits that were printed, those that miss by more than that named."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf


@pytest.mark.parametrize(
    ("phi", "q", "weight", "bias"),
    [(mf.gelu, (3 + math.sqrt(17)) / 2, 1.98305826, 0.17292239), (mf.silu, 14.32017362, 1.98800468, 0.55514317)],
    ids=["gelu", "swish"],
)
def test_half_stable_points_of_the_principles(phi: mf.Activation, q: float, weight: float, bias: float) -> None:
    """Roberts, Yaida and Hanin 2022 (arXiv:2106.10165), sec. 5.3.4: (K*, C_W, C_b), beside the critical point at 0 that q leaves"""
    point = mf.critical(mf.mlp(phi))
    assert point["q"] == pytest.approx(q, abs=5e-9)
    assert point["sigma_w"] ** 2 == pytest.approx(weight, abs=5e-9)
    assert point["sigma_b"] ** 2 == pytest.approx(bias, abs=5e-9)
    (origin,) = (other for other in point.others if other["q"] == 0)
    assert (origin["sigma_w"] ** 2, origin["sigma_b"], origin.status) == (4, 0, "unstable")


@pytest.mark.parametrize(("phi", "weight", "rate"), [(mf.tanh, 1, 2), (mf.sin, 1, 1), (mf.erf, sp.pi / 4, 2)], ids=repr)
def test_the_class_of_points_at_the_origin(phi: mf.Activation, weight: sp.Expr, rate: int) -> None:
    """sec. 5.3.3 there: K = 1/(-a_1 l), a_1 = -2 for tanh and -1 for sin, C_W = 1; Doshi, He and Gromov 2023 (arXiv:2111.12143): pi/4 and
    J ~ 1/l for erf"""
    law = mf.growth(mf.mlp(phi), sigma_w=sp.sqrt(weight), sigma_b=0)
    assert (law.q.kind, law.q.exponent, sp.simplify(law.q.rate - rate)) == ("power", -1, 0)
    assert (law.apjn.kind, law.apjn.exponent) == ("power", -1)
    point = mf.critical(mf.mlp(phi))
    assert (point["q"], point["sigma_b"]) == (0, 0)
    assert point["sigma_w"] ** 2 == pytest.approx(float(weight), rel=1e-15)


@pytest.mark.parametrize(("bias", "weight", "within"), [(0.05, 1.76, 5e-3), (2.01e-5, 1.05, 5e-5)], ids=["2017", "2018"])
def test_points_of_the_edge_of_tanh(bias: float, weight: float, within: float) -> None:
    """Schoenholz et al. 2017 (arXiv:1611.01232) and Xiao et al. 2018 (arXiv:1806.05393): critical sigma_w^2 at a sigma_b^2"""
    assert mf.critical(mf.mlp(mf.tanh), sigma_b=math.sqrt(bias))["sigma_w"] ** 2 == pytest.approx(weight, abs=within)


def test_the_rate_of_correlations_on_the_edge() -> None:
    """Hayou, Doucet and Rousseau 2019 (arXiv:1902.06853): 1 - c ~ 2 E phi'^2/(q E phi''^2)/l where phi is smooth; at q = 1 of sin"""
    slope = (1 + sp.exp(-2)) / 2
    law = mf.growth(mf.mlp(mf.sin), sigma_w=1 / sp.sqrt(slope), sigma_b=sp.sqrt(1 - (1 - slope) / slope))
    assert (law.gap.kind, law.gap.exponent) == ("power", -1)
    assert float(law.gap.coefficient) == pytest.approx(float(2 * slope / (1 - slope)), rel=1e-12)


@pytest.mark.parametrize(("phi", "published"), [(mf.tanh, 1.722), (mf.silu, 2.952)], ids=["tanh", "swish"])
def test_printed_points_that_are_beside_the_edge(phi: mf.Activation, published: float) -> None:
    """sigma_w^2 at sigma_b^2 = 0.04 as github.com/bionicles/neuromax has them after Hayou et al. 2018 (arXiv:1805.08266): 1 and 5 % off.
    chi = 1 and q = sigma_w^2 E phi^2 + 0.04 by quadrature of 20 digits bear out the library's"""
    f, slope = (sp.lambdify(mf.x, e, "mpmath") for e in (phi.expression, phi.expression.diff(mf.x)))

    def mean(g: object, q: mp.mpf) -> mp.mpf:
        return mp.quad(lambda z: g(mp.sqrt(q) * z) ** 2 * mp.npdf(z), [-12, -6, -3, 0, 3, 6, 12])  # type: ignore[operator]

    point = mf.critical(mf.mlp(phi), sigma_b=0.2)
    with mp.workdps(20):
        q = mp.findroot(lambda q: q - mean(f, q) / mean(slope, q) - mp.mpf("0.04"), 0.6)
        assert point["q"] == pytest.approx(float(q), rel=1e-12)
        assert point["sigma_w"] ** 2 == pytest.approx(float(1 / mean(slope, q)), rel=1e-12)
    assert abs(published - point["sigma_w"] ** 2) > 0.02
