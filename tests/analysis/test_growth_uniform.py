"""mf.growth where q - p stays finite, or grows more slowly than q, while q grows: against runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.growth_rates import Undetermined
from meanfield.analysis.growth_uniform import check_uniform
from meanfield.analysis.signs import GAP

x = mf.x
sigma_w, sigma_b = sp.symbols("sigma_w sigma_b", positive=True)


@pytest.mark.parametrize("delta", [0.1, 0.7])
def test_attention_alone_leaves_j_to_the_start(delta: float) -> None:
    """uniform attention keeps q - p = delta, and d ln J/d sqrt(l) -> (4 a/pi)(1 + (n - 1)/sqrt(1 + 2 delta))/n, a = sigma_O sigma_V"""
    net, a, n = mf.Residual(mf.Derf(1) >> mf.UniformAttention(n=6)), 0.9, 6
    law = mf.growth(net, sigma_V=a, sigma_O=1)
    assert (law.q.kind, law.gap.exponent, law.apjn.kind) == ("power", -1, "undetermined")
    assert "q - p stays finite" in law.apjn.reason
    run = mf.propagate(net, 10**6, 1.0, gap=delta, record=[10**5, 10**6], sigma_V=a, sigma_O=1)
    assert run.q[-1] * run.gap[-1] == pytest.approx(delta, rel=1e-6)
    slope = np.diff(run.log_apjn_forward[-2:])[0] / (1000 - math.sqrt(10**5))
    assert slope == pytest.approx(4 * a / math.pi * (1 + (n - 1) / math.sqrt(1 + 2 * delta)) / n, rel=2e-3)


@pytest.mark.parametrize("net", [mf.Activate(mf.hard_tanh) >> mf.UniformAttention(n=6), mf.Derf(1) >> mf.Attention(6, 0.8, 0.9)], ids=repr)
def test_attention_alone_behind_other_norms_and_with_a_softmax(net: mf.Block) -> None:
    law = mf.growth(mf.Residual(net), sigma_V=0.9, sigma_O=1)
    assert (law.gap.exponent, law.apjn.kind) == (-1, "undetermined")
    assert "q - p stays finite" in law.apjn.reason


@pytest.mark.parametrize("f", [sp.sin(x), sp.exp(-(x**2))], ids=str)
def test_attention_alone_leaves_q_to_the_start(f: sp.Expr) -> None:
    """E phi(u) phi(v) depends on q - p as long as that is finite, and q' - q is a multiple of it: two starts, two rates"""
    net = mf.Residual(mf.Activate(mf.Activation(f)) >> mf.UniformAttention(n=6))
    assert mf.growth(net, sigma_V=1, sigma_O=1).q.kind == "undetermined"
    ends = [mf.propagate(net, 10**4, 1.0, gap=gap, record="last", sigma_V=1, sigma_O=1).q[-1] for gap in (0.1, 0.9)]
    assert ends[0] > 1.05 * ends[1]


VANISHING = [
    (sp.exp(-(x**2)), sp.Rational(1, 2)),
    (x * sp.exp(-(x**2) / 2), sp.sqrt(2) / 4),
    (sp.cos(3 * x) * sp.exp(-(x**2) / 2), sp.sqrt(2) / 4 * (1 + sp.exp(-9))),
    (sp.sin(x) * sp.exp(-(x**2)), (1 - sp.exp(-sp.S.Half)) / 4),
]


@pytest.mark.parametrize(("f", "mean"), VANISHING, ids=str)
def test_activations_that_vanish_far_out(f: sp.Expr, mean: sp.Expr) -> None:
    """E phi^2 ~ mean/sqrt(q) beside q ~ sigma_b^2 l adds to q - p what tokens do not share: 1 - c ~ 2 sigma_w^2 mean/(sigma_b^3 sqrt(l))"""
    net = mf.Residual(mf.Activate(mf.Activation(f)) >> mf.Linear())
    law = mf.growth(net)
    assert (law.gap.kind, law.gap.exponent) == ("power", -sp.S.Half)
    assert sp.simplify(law.gap.coefficient - 2 * sigma_w**2 * mean / sigma_b**3) == 0
    run = mf.propagate(net, 10**8, 1.0, c=0.3, record=[10**7, 10**8], sigma_w=1.3, sigma_b=0.4)
    assert np.diff(np.log(run.gap[-2:]))[0] / math.log(10) == pytest.approx(-0.5, abs=0.01)
    assert run.gap[-1] * 10**4 == pytest.approx(float(law.gap.coefficient.subs({sigma_w: 1.3, sigma_b: 0.4})), rel=0.03)
    seen = law.check(depth=10**6, sigma_w=1.3, sigma_b=0.4)
    assert seen.agrees, seen


def test_long_numbers_are_shown_in_digits() -> None:
    net = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(24), mlp=mf.MLP(mf.relu))
    law = mf.growth(net, sigma_V=0.7, sigma_O=1.1, sigma_1=0.9, sigma_2=1.2, sigma_Q=0.8, sigma_K=0.9)
    assert "crossover=546.81681927588" in repr(law)
    assert len(repr(law)) < 300


@pytest.mark.parametrize("carried", [True, False])
def test_a_check_names_what_it_shows(carried: bool) -> None:
    """the coefficient of 1 - c ~ coefficient l^exponent is predicted and fitted itself, not a root of it"""
    bump = mf.Residual(mf.Activate(mf.Activation(x**4 / (1 + x**2) ** 2)) >> mf.Linear(2, 0))
    law = mf.growth(bump) if carried else mf.growth(mf.mlp(mf.relu), sigma_w=sp.sqrt(2), sigma_b=0)
    (fit,) = (f for f in law.check(depth=10**6).fits if (f.quantity, f.name) == ("1 - c", "coefficient"))
    assert fit.predicted == pytest.approx(float(law.gap.coefficient), rel=1e-12)
    assert abs(fit.fitted - fit.predicted) < 0.02 * fit.predicted
    assert fit.verdict == "agrees"


def test_no_more_terms_are_expanded_than_up_to_one_that_is_as_large() -> None:
    """X^(-1/2)/e at e ~ 1/X grows beyond X^0: what stands below it, here without an expansion, is not asked for"""
    terms = {(-sp.S.Half, 0): 1 / GAP, (-sp.S.One, 0): sp.Function("f")(GAP)}
    with pytest.raises(Undetermined, match="q - p stays finite"):
        check_uniform(terms, sp.S.Zero, sp.S.One)
