"""The words of a diagram where the variance leaves its range: what only a logarithm tells from an exponential, and what none of them is."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf

x = mf.x


def residual(f: sp.Expr) -> mf.Block:
    return mf.Residual(mf.Activate(mf.Activation(f)) >> mf.Linear())


@pytest.mark.parametrize(
    "f", [x**2, x**3, sp.Max(0, x) ** 2, sp.Abs(x) ** sp.Rational(11, 10), x * sp.log(1 + x**2), x * sp.sqrt(sp.log(2 + x**2))], ids=str
)
def test_what_grows_faster_than_every_exponential(f: sp.Expr) -> None:
    """q'/q grows, as a power of q, of ln q or of its logarithm, and chi with it"""
    diagram = mf.phase_diagram(mf.mlp(mf.Activation(f)), sigma_w=[1.5, 10], sigma_b=[0.5, 1.0])
    assert (diagram.growth["q"] == "faster").all()
    assert (diagram.growth["apjn"] == "faster").all()
    assert (diagram.apjn_sign == 1).all()


def test_what_vanishes_faster_than_every_exponential() -> None:
    diagram = mf.phase_diagram(mf.mlp(mf.Activation(x**2)), sigma_w=[0.01, 0.03], sigma_b=[0.0, 1e-3])
    assert diagram.growth["q"].tolist() == [["faster", "bounded"]] * 2
    assert diagram.apjn_sign.tolist() == [[-1, -1]] * 2


def test_a_power_of_depth_however_high_is_no_exponential() -> None:
    """dq/dl = sigma_w^2 E|u|^1.94: q ~ l^(100/3)"""
    net = residual(sp.sign(x) * sp.Abs(x) ** sp.Rational(97, 100))
    diagram = mf.phase_diagram(net, sigma_w=[0.5, 1.0], sigma_b=[0.0, 0.1])
    assert (diagram.growth["q"] == "power").all()
    assert mf.growth(net, sigma_w=1, sigma_b=0).q.exponent == sp.Rational(100, 3)


def test_what_is_neither_a_power_nor_an_exponential_has_no_word() -> None:
    """dq/dl ~ q/ln(q)^2, so that ln q ~ l^(1/3)"""
    diagram = mf.phase_diagram(residual(x / sp.log(2 + x**2)), sigma_w=[0.5, 1.0], sigma_b=[0.0, 0.1])
    assert all((words == "unresolved").all() for words in diagram.growth.values())
    assert (diagram.phase == "divergent").all()


def test_an_infinite_gradient_neither_grows_nor_decays() -> None:
    diagram = mf.phase_diagram(mf.mlp(mf.Activation(sp.Heaviside(x - 1))), sigma_w=[1.0, 2.0], sigma_b=[0.0, 0.05])
    assert (diagram.growth["apjn"] == "infinite").all()
    assert not diagram.apjn_sign.any()


@pytest.mark.parametrize("start", [1e-4, 1.0, 1e4])
def test_a_bias_whose_share_is_below_rounding_where_the_flow_starts_drives_it_all_the_same(start: float) -> None:
    """q' = q + 1e-16, to the rounding of sigma_w^2 = 2: seen below 1 only, and the same from each start; without bias each q stays"""
    diagram = mf.phase_diagram(mf.mlp(mf.relu), q=start, sigma_w=[1.0, 2**0.5], sigma_b=[0.0, 1e-8])
    assert diagram.phase[1].tolist() == ["critical", "divergent"]
    assert diagram.q[1].tolist() == [pytest.approx(start, rel=1e-12), float("inf")]
