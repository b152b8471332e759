"""Degrees and local exponents: against counting by hand, against differences of propagated moments, and published values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import VIT

import meanfield as mf
from meanfield.gaussian.exchangeable import Exchangeable
from meanfield.gaussian.expectation import Expectation
from meanfield.scaling import Degree, degree, local_exponent
from meanfield.scaling.limits import Undetermined, leading

sigma = {name: sp.Symbol(f"sigma_{name}", positive=True) for name in "UVZO"}
s, n = sp.symbols("s n", positive=True)


@dataclass(frozen=True)
class Gated(mf.Block):
    """a user's own block: the same-token part of (U . A V) W_o with A = relu(Z Z^T)^2/(n s), or of (A V) W_o"""

    phi: mf.Activation
    gate: bool = True

    def law(self, signal: mf.Signal) -> mf.Law:
        nu = {name: self.phi.second_moment(scale**2 * mf.q) for name, scale in sigma.items()}
        a = (s * nu["Z"]) ** 2 / (n * s)
        q = sigma["O"] ** 2 * a**2 * nu["V"] * (nu["U"] if self.gate else 1)
        return mf.Law(mf.Signal(q, mf.p, mf.q - mf.p, mixed=True), sp.eye(2), sp.S.One)


class Mixed(Gated):
    """the same with a same-token part of its own"""

    @property
    def diagonal(self) -> mf.Block:
        return mf.MLP(self.phi)


def test_a_gated_unit_counts_to_seven_and_without_its_gate_to_six() -> None:
    seven = degree(Gated(mf.relu))
    assert seven == 7
    assert dict(seven.by_matrix) == {"sigma_O": 1, "sigma_U": 1, "sigma_V": 1, "sigma_Z": 4}
    assert degree(Gated(mf.relu, gate=False)) == 6
    assert (int(seven), float(seven), sp.sympify(7) == seven, seven == 6, hash(seven)) == (7, 7.0, True, False, hash(sp.Integer(7)))


def test_swish_is_seven_in_both_limits_and_more_between() -> None:
    found = degree(Gated(mf.silu))
    assert (found.value, found.at_zero, found.at_infinity) == (None, 7, 7)
    at = local_exponent(Gated(mf.silu), [0.5, 1.0, 0.02 * 768**0.5, 2.0], s=128, n=512)
    np.testing.assert_allclose(at[:3], [7.67682369463168, 8.03556432459253, 7.75540494], rtol=1e-9)
    np.testing.assert_allclose(at[:2], [7.67682369463168, 8.03556432459253], rtol=1e-14)
    assert round(at[3], 3) == 7.692
    assert local_exponent(Gated(mf.silu), 1.0) == pytest.approx(at[1], rel=1e-14)  # s and n only multiply
    small = 1e-3
    assert abs(local_exponent(Gated(mf.silu), small, s=128, n=512) - (7 + 4.5 * small**2)) < 1e-10
    with pytest.raises(ValueError, match="not homogeneous"):
        int(found)


HAND: list[tuple[mf.Block, Any]] = [
    (mf.MLP(mf.relu), 2),
    (mf.MLP(mf.leaky_relu(0.1), sigma_1=0.3, sigma_2=2), 2),
    (mf.MLP(mf.Activation(sp.Abs(mf.x) ** sp.Rational(3, 2))), sp.Rational(5, 2)),
    (mf.MLP(mf.relu) >> mf.LayerNorm() >> mf.MLP(mf.relu), 2),
    (mf.MLP(mf.Activation(sp.Max(mf.x, 0) ** 2)) >> mf.MLP(mf.relu), 5),
    (mf.MLP(mf.relu) + mf.MLP(mf.Activation(sp.Abs(mf.x))), 2),
    (mf.Repeat(mf.mlp(mf.relu, sigma_b=0), 5), 5),
    (mf.LayerNorm() >> mf.Attention(sigma_Q=0, sigma_K=0) >> mf.MLP(mf.relu), 4),
    (mf.Activate(mf.step) >> mf.Linear(sigma_b=0), 1),
]


@pytest.mark.parametrize(("block", "expected"), HAND)
def test_degrees_counted_by_hand(block: mf.Block, expected: Any) -> None:
    found = degree(block)
    assert found == expected
    assert found.steps


LIMITS = [
    (mf.MLP(mf.silu), 2, 2),
    (mf.MLP(mf.tanh), 2, 1),
    (mf.MLP(mf.sigmoid), 1, 1),
    (mf.Attention(), 2, 2),
    (mf.LayerNorm() >> mf.Attention(), 2, 2),
    (mf.Residual(mf.MLP(mf.relu)), 0, 2),
    (mf.mlp(mf.relu), 0, 1),
]


@pytest.mark.parametrize(("block", "zero", "infinity"), LIMITS)
def test_limits_of_what_is_not_homogeneous(block: mf.Block, zero: int, infinity: int) -> None:
    found = degree(block)
    assert (found.value, found.at_zero, found.at_infinity) == (None, zero, infinity)
    assert found.reason
    assert not found.latex().count("None")
    values = {k: v for k, v in {**VIT, "sigma_b": 0.3}.items() if k in {x.name for x in mf.recursion(block).parameters}}
    large = 8.0 if "sigma_Q" in values else 1e4  # beyond, e^{-sigma_QK^2 q (q - p)} is no double
    for lam, limit in ((1e-4, zero), (large, infinity)):
        assert abs(local_exponent(block, lam, p=0.4, **values) - limit) < 2e-3


def test_limits_of_the_whole_gated_attention_unit() -> None:
    for phi, zero, infinity in ((mf.silu, 7, 7), (mf.tanh, 7, 1), (mf.activations["softsign"], 7, 1)):
        found = degree(mf.GAU(phi))
        assert (found.at_zero, found.at_infinity) == (zero, infinity)
    assert degree(mf.GAU(mf.sigmoid)).at_infinity == 1


def test_features_that_do_not_vanish_leave_the_gain_of_the_output() -> None:
    """phi(0) != 0: overlaps concentrate at s phi(0)^2 faster than their variance, whose leading terms cancel, is known"""
    for phi in (mf.sigmoid, mf.activations["softplus"], mf.Activation(sp.exp(-(mf.x**2)))):
        assert degree(mf.GAU(phi)).at_zero == 1
    unit = mf.GAU(mf.sigmoid, s=128, n=512, d=768, e=1536)
    found = local_exponent(unit, [0.1, 1e-3, 1e-8])  # e^{-m^2/2v} underflows at all but the first
    assert found[0] == pytest.approx(1.00264886196, rel=1e-7)  # ln RMS of `mf.propagate` at lam = 0.1 e^{+-0.001}
    assert found[1] - 1 == pytest.approx(1e-4 * (found[0] - 1), rel=0.02)
    assert found[2] == pytest.approx(1, abs=1e-11)


def test_mean_and_deviation_of_unlike_size() -> None:
    m, v, ramp = sp.Symbol("m", real=True), sp.Symbol("v", positive=True), sp.Max(mf.x, 0) ** 2
    narrow = {v: (math.nan, sp.S.Zero), m: (3.0, sp.S.Zero)}  # v = o(1)
    assert leading(Expectation(ramp, v, m), narrow, sp.S.Zero) == (9, 0)
    assert math.isnan(leading(Expectation(sp.DiracDelta(mf.x), v, m), narrow, sp.S.Zero)[0])
    assert leading(Expectation(ramp, v, m), {v: (2.0, sp.S(6)), m: (3.0, sp.S(2))}, sp.S.Zero) == (9, 4)
    assert leading(Expectation(ramp, v, m), {v: (2.0, sp.S(2)), m: (3.0, sp.S(2))}, sp.S.Zero) == (pytest.approx(1), 2)
    with pytest.raises(Undetermined, match="kink at the mean"):
        leading(Expectation(sp.sign(mf.x - 3), v, m), narrow, sp.S.Zero)


def test_what_underflows_and_counts_is_refused() -> None:
    with pytest.raises(ValueError, match="lam = 0: a gain must be positive"):
        local_exponent(mf.MLP(mf.silu), lam=np.array([1.0, 0.0]))
    with pytest.raises(OverflowError, match="lam = 1e-80: moments that the exponent depends on"):
        local_exponent(mf.MLP(mf.Activation(mf.x * sp.tanh(mf.x))), 1e-80, weights=("sigma_1",), sigma_2=1e20)


@dataclass(frozen=True)
class Tokens(mf.Block):
    """a user's own block: a moment of several tokens"""

    phi: sp.Expr
    powers: Any
    spread: bool = False

    def law(self, signal: mf.Signal) -> mf.Law:
        gain = sigma["U"] ** 2
        q = Exchangeable(self.phi, self.powers, gain * signal.q, gain * signal.delta, self.spread)
        return mf.Law(mf.Signal(q, mf.p, mf.q - mf.p, mixed=True), sp.eye(2), sp.S.One)


SLOWLY = mf.x / sp.sqrt(1 + sp.Abs(mf.x))
SATURATING = [
    (sp.tanh(mf.x), [(3, 0), (2, 0), (1, 0)], True, 6, -1),
    (sp.tanh(mf.x), [(1, 1), (1, 1)], False, 2, -4),  # odd weights: the order after the first
    (sp.tanh(mf.x - 1), [(2, 0), (2, 0)], True, 2, -1),
    (mf.x / sp.sqrt(1 + mf.x**2), [(1, 1), (0, 1), (1, 0)], False, 2, -3),
    (sp.Max(-1, sp.Min(mf.x, 1)), [(0, 1), (0, 1), (2, 0)], False, 2, -2),
    (sp.erf(mf.x), [(0, 2)], False, 0, -1),
    (sp.sign(mf.x) * (1 - 1 / sp.sqrt(1 + sp.Abs(mf.x))), [(1, 1), (1, 1)], False, 2, -3),  # |u| phi phi' is not integrable
    (SLOWLY, [(1, 1), (1, 0)], False, 2, sp.S.Half),
    (mf.x / (1 + sp.Abs(mf.x)), [(1, 1), (1, 0)], False, 2, None),  # q^-1 log q
]


@pytest.mark.parametrize(("phi", "powers", "spread", "zero", "infinity"), SATURATING)
def test_limits_of_moments_of_several_tokens(phi: sp.Expr, powers: Any, spread: bool, zero: int, infinity: Any) -> None:
    found = degree(Tokens(phi, powers, spread))
    assert [None if k is None else 2 * k for k in (found.at_zero, found.at_infinity)] == [zero, infinity]


@pytest.mark.parametrize(("powers", "spread"), [([(2, 0), (1, 0), (1, 0)], True), ([(3, 0), (1, 0)], False), ([(2, 0), (2, 0)], True)])
def test_the_local_exponent_of_correlated_tokens(powers: Any, spread: bool) -> None:
    block, h = mf.LayerNorm() >> mf.Linear(sigma_b=0.5) >> Tokens(sp.tanh(mf.x), powers, spread), 2e-3
    lam = 1.2 * np.exp(h * np.array([-2, -1, 0, 1, 2]))
    variance = lam**2 + 0.25  # of the linear map, whose bias no gain multiplies: variance and gap scale apart
    moment = Exchangeable(sp.tanh(mf.x), powers, mf.q, mf.delta, spread)
    logs = np.log([mf.evaluate(moment, q=v * g**2, delta=0.7 * g**4) for v, g in zip(variance, lam, strict=True)])
    slope = (8 * (logs[3] - logs[1]) - (logs[4] - logs[0])) / (12 * h) / 2
    assert abs(local_exponent(block, 1.2, p=0.3) - slope) < 1e-9
    with pytest.raises(ValueError, match="p < 0"):
        local_exponent(block, 1.2, p=-0.3)


def test_limits_behind_another_matrix() -> None:
    found = degree(mf.Linear(sigma_b=0) >> mf.Attention())
    assert (found.value, found.at_zero, found.at_infinity) == (None, 3, 3)


@pytest.mark.parametrize("bias", ["sigma_b1", "sigma_w", 0.5])
def test_a_bias_is_no_weight_whatever_its_name(bias: Any) -> None:
    net = mf.MLP(mf.relu, sigma_b1=sp.Symbol(bias) if isinstance(bias, str) else bias)
    found = degree(net)
    assert (found.value, dict(found.by_matrix)) == (None, {"sigma_1": None, "sigma_2": 1})
    given = {bias: 0.5} if isinstance(bias, str) else {}
    assert local_exponent(net, 1.0, **given) == pytest.approx(1.8, rel=1e-14)  # q = lam^2 (lam^2 + 1/4)/2


def test_a_local_exponent_is_the_slope_of_propagated_moments() -> None:
    net, step = mf.LayerNorm() >> mf.Attention() >> mf.MLP(mf.relu), 1e-4

    def log_q(lam: float) -> float:
        scaled = {k: v * lam if k.startswith("sigma") else v for k, v in VIT.items()}
        return float(np.log(mf.propagate(net, 1, 2.0, p=0.7, **scaled).q[-1]))

    slope = (log_q(1.3 * np.exp(step)) - log_q(1.3 * np.exp(-step))) / (2 * 2 * step)
    assert abs(local_exponent(net, 1.3, q=2.0, p=0.7, **VIT) - slope) < 1e-7


def test_the_diagonal_part_is_the_law_a_block_states_for_it() -> None:
    net = mf.LayerNorm() >> Mixed(mf.relu)
    assert (degree(net), degree(net, part="diagonal")) == (7, 2)
    assert local_exponent(net, part="diagonal") == 2
    with pytest.raises(ValueError, match="no part with a"):
        degree(mf.MLP(mf.relu), part="diagonal")
    with pytest.raises(ValueError, match="'full' or 'diagonal'"):
        degree(net, part="off")


def test_only_the_weights_named() -> None:
    names = degree(mf.deep_norm(attention=mf.Attention(), mlp=mf.MLP(mf.relu))).by_matrix
    assert list(names) == ["sigma_Q", "sigma_K", "sigma_V", "sigma_O", "sigma_1", "sigma_2"]
    found = degree(mf.Attention(), weights=("sigma_V", "sigma_O"))
    assert found == 2
    assert degree(mf.Attention()).by_matrix["sigma_Q"] is None


def test_a_sum_whose_leading_terms_cancel_is_left_undetermined() -> None:
    lam = mf.scaling.lam
    law = {lam: (1.0, sp.S.One)}
    small, power = leading(sp.exp(lam) - 1, law, sp.S.Zero)
    assert (np.isnan(small), power) == (True, 0)  # o(1): enough beside a constant
    assert leading(sp.exp(lam) - 1 + 3 * sp.exp(2 * lam), law, sp.S.Zero) == (3, 0)
    with pytest.raises(Undetermined, match="the power"):
        leading(1 / (sp.exp(lam) - 1), law, sp.S.Zero)


def test_a_degree_shows_its_steps() -> None:
    found = degree(mf.MLP(mf.relu))
    assert isinstance(found, Degree)
    assert mf.latex(found) == found._repr_latex_()
    assert r"\mathbb{E}" in found.latex()
    assert repr(found) == "2 = sigma_1: 1 + sigma_2: 1"
    assert r"k = k_{1} + k_{2}" in found.latex()
    assert found.rule.degree == 2
    assert found.rule.assumptions
    assert str(found.rule.statement[0].rhs) == "lam**2*RMS(1)"
    assert "Derivative" in str(degree(mf.MLP(mf.silu)).rule.statement)
    twice = degree(mf.GAU(mf.relu) >> mf.GAU(mf.relu)).latex()  # letters of the law; what comes a second time is told apart
    assert r"\dot p_{Z} =" in twice
    assert r"\dot p_Z^{(2)} =" in twice


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: degree(mf.relu), "expected a block"),
        (lambda: degree(mf.LayerNorm()), "no weight scales named sigma"),
        (lambda: degree(mf.LayerNorm() >> mf.CausalAttention()), "tells tokens apart"),
        (lambda: degree(mf.MLP(mf.relu), weights=("sigma_9",)), "of the names sigma_9"),
        (lambda: degree(mf.GAU(mf.silu), weights=3), "weights = 3: expected names of weight scales"),
        (lambda: degree(mf.GAU(mf.silu), weights="sigma_U"), "weights = 'sigma_U': expected names of weight scales"),
        (lambda: degree(mf.GAU(mf.silu), weights=(3,)), "weights = .3,.: expected names of weight scales"),
        (lambda: local_exponent(mf.MLP(mf.relu), 0), "positive"),
        (lambda: local_exponent(mf.Attention(), 1), "missing parameters: n"),
        (lambda: local_exponent(mf.MLP(mf.relu, sigma_b1=sp.Symbol("sigma_b1"))), "missing parameters: sigma_b1"),
        (lambda: local_exponent(mf.MLP(mf.relu), 1, sigma_3=1), "unknown parameters: sigma_3"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_the_ratio_over_a_halved_gain() -> None:
    """O(1/2)/O(1) of the Swish unit: the integral of the local exponent"""
    with mp.workdps(20):
        ratio = sp.Integer(1)
        for lam, power in ((sp.S.Half, 1), (sp.S.One, -1)):
            ratio *= (lam * mf.evaluate(mf.silu.second_moment(lam**2), digits=20) ** 3) ** power
    assert abs(ratio - mp.mpf("0.00418735305516487")) < 1e-16
