"""Growth where E phi'^2 is infinite, and just before."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

x = mf.x


def toy(phi: sp.Expr, **given: float) -> mf.GrowthLaw:
    return mf.growth(mf.Residual(mf.Activate(mf.Activation(phi)) >> mf.Linear()), **given)


#: powers whose slopes have no square: less than what has, and just so
STEEP = [(sp.Rational(1, 3), True), (sp.Rational(2, 5), False), (sp.S.Half, True), (sp.S.Half, False)]


@pytest.mark.parametrize(("power", "odd"), STEEP)
def test_a_slope_that_is_not_square_integrable(power: sp.Expr, odd: bool) -> None:
    """E phi'^2 of |x|^s is infinite for s <= 1/2, and J of the recursion with it; q has its law all the same"""
    law = toy(sp.Abs(x) ** power * (sp.sign(x) if odd else 1), sigma_w=2, sigma_b=0)
    assert law.apjn.kind == "infinite"
    assert "not integrable" in law.apjn.reason
    assert r"\ln \mathcal{J}^{\,l,0} &= \infty" in law.apjn.latex()
    assert "not integrable" in law.latex()
    assert law.check(depth=1000).fits[0].quantity == "q"
    assert mf.propagate(law.block, 3, 1.0, sigma_w=2, sigma_b=0).log_apjn[0] == math.inf
    assert law.q.exponent == 1 / (1 - power)


def test_a_slope_that_is_just_square_integrable() -> None:
    """above s = 1/2 J is a power: of E phi'^2 = s^2 E|u|^(2s - 2) over 2 ln q'/q"""
    s = sp.Rational(11, 20)
    law = toy(sp.Abs(x) ** s, sigma_w=1, sigma_b=0)
    second, slope = (sp.integrate(2 * x**k * sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi), (x, 0, sp.oo)) for k in (2 * s, 2 * s - 2))
    assert law.apjn.kind == "power"
    assert float(law.apjn.exponent) == pytest.approx(float(s**2 * slope / second / (1 - s)), rel=1e-12)


@pytest.mark.parametrize(("power", "odd"), [*STEEP, (sp.Rational(3, 5), True)])
def test_a_fixed_point_of_a_function_with_a_steep_place(power: sp.Expr, odd: bool) -> None:
    """q* solves q = sigma_w^2 E|u|^2s + sigma_b^2; pairs settle apart where a run does, if their kernel there has a value in doubles"""
    phi = mf.Activation(sp.Abs(x) ** power * (sp.sign(x) if odd else 1))
    law = mf.growth(mf.mlp(phi), sigma_w=1.2, sigma_b=0.3)
    assert law.q.kind == "bounded"
    q = float(law.q.limit)
    assert 1.2**2 * mf.evaluate(phi.second_moment(mf.q), q=q) + 0.3**2 == pytest.approx(q, rel=1e-12)
    assert law.apjn.kind == ("infinite" if power <= sp.S.Half else "exponential")
    assert law.gap.kind == ("undetermined" if power < sp.S.Half else "bounded")
    if law.gap.kind == "bounded":
        run = mf.propagate(mf.mlp(phi), 500, 1.0, gap=1e-3, sigma_w=1.2, sigma_b=0.3, record="last")
        assert run.gap[-1] == pytest.approx(float(law.gap.limit), rel=1e-11)


def test_a_norm_that_jumps_before_attention() -> None:
    """J is infinite from the first repeat on; q and c have their laws, in numbers and in symbols"""
    vit = {"n": 16, "sigma_Q": 0.6, "sigma_K": 0.6, "sigma_V": 0.6, "sigma_O": 0.6, "sigma_1": 0.6, "sigma_2": 1.2}
    norm = mf.Activate(mf.Activation(sp.tanh(x) + sp.sign(x) / 2))
    law = mf.growth(mf.pre_norm(norm=norm, attention=mf.Attention(), mlp=mf.MLP(mf.relu)), **vit)
    assert (law.q.kind, law.q.exponent, law.gap.kind, law.apjn.kind) == ("power", 1, "bounded", "infinite")
    found = law.check(depth=20000)
    assert found.not_compared == ("J",)
    assert all(fit.verdict == "agrees" for fit in found.fits if fit.quantity == "q")
    (gap,) = [fit for fit in found.fits if fit.quantity == "1 - c"]
    assert gap.fitted == pytest.approx(gap.predicted, rel=0.03)  # 1 - c settles as 1/sqrt(l)


@pytest.mark.parametrize("softmax", [True, False])
def test_an_infinite_gradient_through_attention_is_no_nan(softmax: bool) -> None:
    """J is infinite behind the first repeat, whatever K is, and no entry of the transfer is 0 times infinity"""
    vit = {"n": 16, "sigma_Q": 0.6, "sigma_K": 0.6, "sigma_V": 0.6, "sigma_O": 0.6, "sigma_1": 0.6, "sigma_2": 1.2}
    net = mf.pre_norm(norm=mf.Activate(mf.sign), attention=mf.Attention(softmax_derivative=softmax), mlp=mf.MLP(mf.relu))
    assert not mf.recursion(net).transfer.has(sp.nan)
    assert mf.recursion(mf.mlp(mf.sign)).transfer[1, 0] == 0
    run = mf.propagate(net, 3, 1.0, p=0.5, **vit)
    assert run.status == "infinite APJN"
    assert run.log_apjn.tolist() == [math.inf, math.inf, math.inf, 0.0]
    assert run.log_apjn_forward.tolist() == [0.0, math.inf, math.inf, math.inf]
    many = mf.propagate(net, 3, 1.0, c=np.array([0.1, 0.9]), record="last", **vit)
    assert np.isposinf(many.log_apjn).all()
    assert np.isfinite(many.gap).all()


@pytest.mark.parametrize("phi", [sp.cos(x**2), sp.sin(x**2), x * sp.sin(x)], ids=str)
def test_slopes_that_grow_with_the_variance(phi: sp.Expr) -> None:
    """E phi'^2 = 2 q - ... of cos x^2, beside q ~ l/2: ln J is l ln l, and no power of l"""
    law = toy(phi, sigma_w=1, sigma_b=0)
    assert (law.apjn.kind, law.apjn.reason) == ("undetermined", "the transfer grows without bound: J grows faster than exponentially")
    assert law.q.kind == ("exponential" if phi.has(x * sp.sin(x)) else "power")


def test_a_parameter_is_real_whatever_its_symbol_says() -> None:
    """whether c = 1 attracts depends on the sign of e^(-b^2/2), which is below every number far out"""
    laws = []
    for b in (sp.Symbol("b"), sp.Symbol("b", real=True)):
        step = mf.Activate(mf.Activation(sp.sign(x - b)))
        laws.append(mf.growth(mf.Residual(mf.LayerNorm() >> step >> mf.Linear(1, 0))))
    assert str(laws[0]) == str(laws[1])
    assert laws[0].gap.kind == "bounded"
    assert r"\left(\delta\left(u - b\right)\right)^{2}" in mf.latex(laws[0])
    assert "DiracDelta" not in mf.latex(laws[0])
