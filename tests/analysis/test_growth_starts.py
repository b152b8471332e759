"""Laws that are not the same from every start, and what the start leaves in ln J."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

x, R = mf.x, sp.Rational
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)


def ends(f: Callable[[np.ndarray], np.ndarray], weight: float, bias: float, q: float) -> float:
    """where the recursion goes from q, by Gauss-Hermite quadrature of its own"""
    for _ in range(3000):
        q = weight**2 * float(WEIGHTS @ f(math.sqrt(q) * NODES) ** 2) / math.sqrt(2 * math.pi) + bias**2
        if not 1e-30 < q < 1e30:
            return 0.0 if q < 1 else math.inf
    return q


def gelu(u: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr

    return np.asarray(u * ndtr(u))


BISTABLE = {
    "a square that settles below": (mf.Activation(x**2 / 2), lambda u: u**2 / 2, 0.8, 0.3),
    "x^3 + x": (mf.Activation(x**3 + x), lambda u: u**3 + u, 0.4, 0.0),
    "gelu": (mf.gelu, gelu, 1.44, 0.27),
}


@pytest.mark.parametrize("name", BISTABLE)
def test_the_start_that_divides_where_q_goes(name: str) -> None:
    phi, f, weight, bias = BISTABLE[name]
    law = mf.growth(mf.mlp(phi), sigma_w=weight, sigma_b=bias)
    low, edge, high = re.search(r"to (\S+) from q < (\S+), to (\S+) from q > \2$", law.q.reason).groups()
    assert float(high.replace("infinity", "inf")) == ends(f, weight, bias, 1.0001 * float(edge)) == math.inf
    assert float(low) == pytest.approx(ends(f, weight, bias, 0.9999 * float(edge)), rel=1e-5)
    if law.q.kind == "bounded":
        assert float(law.q.limit) == pytest.approx(float(low), rel=1e-5)


def test_the_dividing_start_in_symbols() -> None:
    """q' = A q^5 with A = 9!! sigma_w^2 for x^5: q = A^(-1/4) stays"""
    law = mf.growth(mf.mlp(mf.Activation(x**5)), sigma_b=0)
    weight = sp.Symbol("sigma_w", positive=True)
    assert law.q.kind == "undetermined"
    assert sp.simplify(law.q.reason.parts[-1] - (945 * weight**2) ** -R(1, 4)) == 0


def test_growth_beyond_every_number_says_falls_only_where_q_can_fall() -> None:
    stream, plain = (mf.growth(net).q.reason for net in (mf.Residual(mf.mlp(mf.relu_squared)), mf.mlp(mf.relu_squared)))
    assert stream == "q' grows like q^2: q leaves every number behind within a few repeats"
    assert plain == "q' grows like q^2: where q grows it leaves every number behind within a few repeats"


@pytest.mark.parametrize("net", [mf.mlp(mf.tanh, R(3, 2), R(1, 5)), mf.Residual(mf.Derf(1) >> mf.Linear(1, 1))], ids=repr)
def test_nothing_is_said_where_every_start_goes_the_same_way(net: mf.Block) -> None:
    assert mf.growth(net).q.reason == ""


def test_what_the_start_leaves_in_ln_j_is_shown_where_it_outgrows_the_logarithm() -> None:
    """two starts of c: ln J differs by a power of l, the one that LaTeX leaves as O(l^...)"""
    attention = mf.Attention(12, 0, 0, 1, 1)
    net = mf.pre_norm(norm=mf.Derf(1), attention=attention, mlp=mf.MLP(mf.relu, R(11, 10), 1))
    law = mf.growth(net)
    power = float(sp.N(law.apjn.left_out.as_base_exp()[1]))
    assert power == pytest.approx(0.5 - float(sp.N(law.apjn.settling)))
    assert 0 < power < 0.5
    assert rf"+ O\left(l^{{{power:.4f}"[:-2] in mf.latex(law.apjn)
    runs = [law.check(depth=10**12, gap=gap).run for gap in (0.1, 0.9)]
    at = np.searchsorted(runs[0].layers, [10**6, 10**9, 10**12])
    layers = runs[0].layers[at].astype(float)
    assert list(runs[1].layers[at]) == list(layers)
    apart = np.diff((runs[1].log_apjn_forward - runs[0].log_apjn_forward)[at])
    assert apart[1] / apart[0] == pytest.approx(np.diff(layers**power)[1] / np.diff(layers**power)[0], rel=0.05)


def test_no_order_is_shown_that_is_not_left() -> None:
    assert "O" not in mf.latex(mf.growth(mf.Residual(mf.Derf(1) >> mf.Linear(1, 1))).apjn)
    bare = mf.growth(mf.Residual(mf.Activate(mf.Activation(x * sp.exp(-(x**2)))) >> mf.Linear(1, 0))).apjn
    assert bare.log_coefficient is None
    assert r"\sim" in mf.latex(bare)  # the leading term alone


def test_correlations_of_linear_networks_stay_where_they_start() -> None:
    """at sigma_w = 1, sigma_b = 0 each repeat is the identity, for q and for c"""
    for net in (mf.mlp(mf.identity), mf.Linear()):
        law = mf.growth(net, sigma_w=1, sigma_b=0)
        assert law.gap.kind == "bounded"
        assert law.gap.limit is None
        assert "depends on the start" in law.gap.reason
    assert mf.propagate(mf.mlp(mf.identity), 100, 1.0, c=0.5, sigma_w=1.0, sigma_b=0.0).gap[-1] == 0.5


def below_one(norm: mf.Block) -> mf.Block:
    attention = mf.Attention(n=9, softmax_derivative=False)
    return mf.pre_norm(norm=norm, attention=attention, mlp=mf.MLP(mf.relu), skip=R(3, 5))


PRE_NORM = {"sigma_Q": 0.7, "sigma_K": 0.7, "sigma_V": 0.9, "sigma_O": 1.1, "sigma_1": 1.0, "sigma_2": 0.8}


@pytest.mark.parametrize("norm", [mf.Derf(R(13, 10)), mf.DyT(R(3, 2))], ids=["derf", "dyt"])
def test_a_variance_that_correlations_hold_is_found(norm: mf.Block) -> None:
    """with skips below 1 q goes to 0 while c = 1/2: c goes to 1 sooner, where attention carries what q needs"""
    law = mf.growth(below_one(norm), **PRE_NORM)
    run = mf.propagate(below_one(norm), 400, q=1.0, gap=0.5, record=20, **PRE_NORM)
    assert (law.q.kind, law.gap.kind, law.apjn.kind) == ("bounded", "exponential", "exponential")
    assert float(law.q.limit) == pytest.approx(run.q[-1], rel=1e-10)
    assert float(law.gap.rate) == pytest.approx(np.log(run.gap[6] / run.gap[5]) / 20, rel=1e-6)
    assert float(law.apjn.rate) == pytest.approx((run.log_apjn[10] - run.log_apjn[11]) / 20, rel=1e-9)


def test_a_variance_that_correlations_do_not_hold_goes_to_0() -> None:
    law = mf.growth(below_one(mf.DyT(R(2, 5))), **PRE_NORM)
    run = mf.propagate(below_one(mf.DyT(R(2, 5))), 200, q=1.0, gap=0.5, record=20, **PRE_NORM)
    assert (law.q.kind, law.gap.kind, law.apjn.kind) == ("exponential", "exponential", "exponential")
    assert float(law.q.rate) == pytest.approx(np.log(run.q[6] / run.q[5]) / 20, rel=1e-9)
    assert float(law.apjn.rate) == pytest.approx((run.log_apjn[5] - run.log_apjn[6]) / 20, rel=1e-9)
