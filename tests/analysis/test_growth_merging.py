"""Networks at the edge of a line seen from afar: J a stretched exponential that decays or grows, and 1 - c with it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp

import meanfield as mf

ROOT = sp.sqrt(2)


def test_what_lacks_of_a_kink_decays_with_the_root_of_depth() -> None:
    r"""squareplus is (x + sqrt(x^2 + 4))/2: 2 E phi^2 = q + 2 and 2 E phi'^2 = 1 - 2 E 1/(u^2 + 4) = 1 - sqrt(pi/(2 q)) + 2/q ..., so
    q = 2 l and ln J = - sum of sqrt(pi/(4 l)) = - sqrt(pi l), beside which ln l has the factor 1 - pi/8, and -1 more in ln (1 - c)"""
    law = mf.growth(mf.mlp(mf.squareplus), sigma_w=ROOT, sigma_b=0)
    assert (law.q.kind, law.q.rate) == ("power", 2)
    for g, beside in ((law.apjn, 1 - sp.pi / 8), (law.gap, -sp.pi / 8)):
        assert (g.kind, g.sign, g.stretch, g.rate) == ("stretched", -1, sp.S.Half, sp.pi)
        assert sp.simplify(g.log_coefficient - beside) == 0
    check = law.check(depth=10**4)
    assert check.agrees
    assert not check.not_compared
    assert not replace(law, apjn=replace(law.apjn, sign=1)).check(depth=10**4).agrees


def test_a_softened_kink_decays_with_two_thirds_of_depth() -> None:
    """softplus: 2 E phi'^2 = 1 - sqrt(2/(pi q)), and q = (3 b l/2)^(2/3), b from the rise of q: ln J = ln (1 - c) = -0.84147 l^(2/3)"""
    law = mf.growth(mf.mlp(mf.softplus), sigma_w=ROOT, sigma_b=0)
    for g in (law.apjn, law.gap):
        assert (g.kind, g.sign, g.stretch) == ("stretched", -1, sp.Rational(2, 3))
        assert float(g.rate**g.stretch) == pytest.approx(0.84147, abs=1e-5)
        assert "sign=-1, stretch=2/3" in repr(g)
    assert r"\ln \left(1 - c_l\right) &\sim -" in law.latex()
    check = law.check(depth=10**4)
    assert check.agrees
    assert not check.not_compared


@pytest.mark.parametrize(("phi", "bias"), [(mf.elu, 0), (mf.silu, 1)], ids=["elu", "silu"])
def test_where_j_grows_beside_a_kink_two_inputs_stay_a_distance_apart(phi: mf.Activation, bias: int) -> None:
    """q - p settles while q grows: 1 - c ~ C/l"""
    law = mf.growth(mf.mlp(phi), sigma_w=ROOT, sigma_b=bias)
    assert (law.apjn.kind, law.apjn.sign) == ("stretched", 1)
    assert (law.gap.kind, law.gap.exponent) == ("power", -1)
    depths = [10**5, 2 * 10**5, 4 * 10**5]
    last = [mf.propagate(mf.mlp(phi), d, 1.0, c=0.5, record="last", sigma_w=2**0.5, sigma_b=bias) for d in depths]
    apart = [float(run.q[-1] * run.gap[-1]) for run in last]
    assert apart == pytest.approx([apart[-1]] * 3, rel=0.02)
    assert abs(apart[2] - apart[1]) < abs(apart[1] - apart[0])


def test_a_critical_weight_that_is_a_double_is_one() -> None:
    """2**0.5 squared is 2 + 4e-16: J of elu was called bounded"""
    exact, double = (mf.growth(mf.mlp(mf.elu), sigma_w=w, sigma_b=0) for w in (ROOT, 2**0.5))
    assert [g.kind for g in (double.q, double.gap, double.apjn)] == [g.kind for g in (exact.q, exact.gap, exact.apjn)]
    assert float(double.apjn.rate) == pytest.approx(float(exact.apjn.rate), rel=1e-12)


def test_a_line_with_a_bias_keeps_its_gradient_as_one_mode() -> None:
    law = mf.growth(mf.mlp(mf.relu), sigma_w=ROOT, sigma_b=sp.sqrt(sp.Rational(1, 10)))
    assert (law.apjn.kind, law.apjn.terms) == ("bounded", ((1, 0),))


def test_numbers_that_close_are_evaluated() -> None:
    law = mf.growth(mf.Activate(mf.relu) >> mf.Linear() >> mf.BatchNorm())
    assert sp.simplify(law.apjn.rate - sp.log(sp.pi / (sp.pi - 1))) == 0
    assert "AngleMinusSine" not in repr(law)


def test_a_fixed_point_that_is_a_whole_number_is_one() -> None:
    assert mf.growth(mf.mlp(mf.selu), sigma_w=1, sigma_b=0).q.limit == sp.S.One
    assert mf.growth(mf.mlp(mf.erf), sigma_w=2, sigma_b=1).q.limit.is_Float
