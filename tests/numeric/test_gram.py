"""Gram matrices over depth: causal attention, fixed weights, inputs of unequal norm, the neural tangent kernel."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf

N = 6
UNIFORM = mf.FixedAttention(1 / mf.n)
SETTING = {"n": N, "sigma_V": 1.0, "sigma_O": 0.7, "sigma_1": 1.0, "sigma_2": 1.2, "alpha": np.array([0.5, 1.0])}


def block(attention: mf.Block) -> mf.Block:
    return mf.pre_norm(norm=mf.Derf(), attention=attention, mlp=mf.MLP(mf.gelu), skip=sp.Rational(9, 10), scale=1 / sp.sqrt(mf.l + 1))


# -- tokens ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["token", "pooled"])
def test_where_the_moments_close_the_gram_matrix_says_the_same(start):
    """uniform attention once as fixed weights, once as softmax of equal logits: two pieces of code, one recursion"""
    seen = mf.propagate(block(UNIFORM), depth=3, q=1.3, p=0.3, start=start, **SETTING)
    symmetric = mf.propagate(block(mf.Attention(sigma_Q=0, sigma_K=0)), depth=3, q=1.3, p=0.3, start=start, **SETTING)
    assert seen.gram.shape == (2, 4, N, N)
    for name in ("q", "p", "c", "gap", "log_apjn", "log_apjn_forward", "gradient_correlation"):
        np.testing.assert_allclose(getattr(seen, name), getattr(symmetric, name), rtol=1e-13, atol=1e-14)


def test_weights_are_taken_at_each_layer_if_they_depend_on_it_and_once_if_not(monkeypatch):
    from meanfield.numeric import pointwise

    a, taken = sp.Symbol("a", positive=True), []
    asked = pointwise.number_at
    monkeypatch.setattr(pointwise, "number_at", lambda e, values: taken.append(e) or asked(e, values))
    strengths, near = np.array([0.3, 0.7]), abs(np.arange(3)[:, None] - np.arange(3))
    expected = np.tile(np.full((3, 3), 0.4) + 0.6 * np.eye(3), (2, 1, 1))
    run = mf.propagate(mf.FixedAttention(sp.exp(-a * mf.l * abs(mf.i - mf.j)), 3, 1, 1), depth=4, q=1.0, p=0.4, record="last", a=strengths)
    for l in range(4):
        A = np.exp(-strengths[:, None, None] * l * near)
        expected = A @ expected @ A.swapaxes(-1, -2)
    np.testing.assert_allclose(run.gram[:, 0], expected, rtol=1e-13)
    taken.clear()
    still = mf.FixedAttention(sp.exp(-a * abs(mf.i - mf.j)), 3, 1, 1)
    mf.propagate(still, depth=40, q=1.0, p=0.4, record="last", a=strengths)
    assert taken.count(still.weights) == 1


def test_a_causal_mask_averages_what_came_before():
    """theory of uniform causal attention: G_ij = p + (q - p)/max(i, j), |C|_F^2/n = H_n/n, column sums H_n - H_(b-1)"""
    q, p, n = 1.7, -0.02, 40
    run = mf.propagate(mf.CausalAttention(sigma_V=1, sigma_O=1), depth=1, q=q, p=p, n=n)
    i = np.arange(1, n + 1)
    np.testing.assert_allclose(run.gram[-1], p + (q - p) / np.maximum.outer(i, i), rtol=1e-14)
    harmonic = np.cumsum(1 / i)
    assert run.log_apjn[0] == pytest.approx(math.log(harmonic[-1] / n), abs=1e-14)
    pooled = mf.propagate(mf.CausalAttention(sigma_V=1, sigma_O=1), depth=1, q=q, p=p, n=n, start="pooled")
    np.testing.assert_allclose(np.exp(pooled.log_apjn_tokens[0]), (harmonic[-1] - harmonic + 1 / i) ** 2, rtol=1e-13)


def test_shaped_causal_attention_is_the_identity_at_alpha_1_beta_gamma():
    net = mf.CausalAttention(sigma_V=1, sigma_O=1, identity=sp.Symbol("a"), uniform=sp.Symbol("b") - sp.Symbol("g"))
    run = mf.propagate(net, depth=5, q=1.0, p=0.4, n=4, a=1.0, b=1.0, g=1.0)
    np.testing.assert_array_equal(run.gram[-1], run.gram[0])
    np.testing.assert_array_equal(run.log_apjn, 0.0)


def by_hand(depth: int, n: int) -> tuple[np.ndarray, float]:
    """x + C x/sqrt(mean x^2), then x + W relu(W' x / ...), on a Gram matrix, with plain numpy, and J^{L,0} by Gamma = T^T Gamma T"""
    C = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    G = 0.4 + 0.6 * np.eye(n)
    factors = []
    for _ in range(depth):
        root = np.sqrt(np.outer(np.diag(G), np.diag(G)))
        factors.append(("attention", 1 / root))
        G = G + C @ (G / root) @ C.T
        root = np.sqrt(np.outer(np.diag(G), np.diag(G)))
        rho = np.clip(G / root, -1, 1)
        factors.append(("mlp", (np.pi - np.arccos(rho)) / np.pi / root))
        G = G + (np.sqrt(1 - rho**2) + rho * (np.pi - np.arccos(rho))) / np.pi
    gradient = np.eye(n)
    for kind, factor in reversed(factors):
        gradient = gradient + factor * (C.T @ gradient @ C if kind == "attention" else gradient)
    return G, float(np.trace(gradient)) / n


def test_a_causal_transformer_is_what_plain_numpy_finds():
    net = mf.pre_norm(norm=mf.RMSNorm(), attention=mf.CausalAttention(sigma_V=1, sigma_O=1), mlp=mf.MLP(mf.relu, 1, sp.sqrt(2)))
    run = mf.propagate(net, depth=12, q=1.0, p=0.4, n=5)
    G, J = by_hand(12, 5)
    np.testing.assert_allclose(run.gram[-1], G, rtol=1e-12)
    assert run.log_apjn[0] == pytest.approx(math.log(J), abs=1e-12)
    assert run.log_apjn[0] == pytest.approx(run.log_apjn_forward[-1], abs=1e-12)
    assert run.gradient_correlation[-1] == 0.0
    assert 0.0 < run.gradient_correlation[0] < 1.0
    last = mf.propagate(net, depth=12, q=1.0, p=0.4, n=5, record="last")
    assert last.gram.shape == (1, 5, 5)
    np.testing.assert_array_equal(last.gram[-1], run.gram[-1])
    assert last.log_apjn[0] == pytest.approx(run.log_apjn[0], abs=1e-12)
    some = mf.propagate(net, depth=12, q=1.0, p=0.4, n=5, record=5)
    assert some.layers.tolist() == [0, 5, 10, 12]
    np.testing.assert_allclose(some.log_apjn, run.log_apjn[[0, 5, 10, 12]], rtol=0, atol=1e-13)


def test_grids_and_trouble():
    net = mf.CausalAttention() >> mf.Linear(sigma_b=0)
    run = mf.propagate(net, depth=400, q=1.0, c=0.5, n=3, sigma_V=1, sigma_O=1, sigma_w=np.array([1.0, 10.0, 0.1]))
    assert run.status.tolist() == ["ok", "overflow", "underflow"]
    assert np.isfinite(run.gram[0]).all()
    assert np.isnan(run.gram[1:, -1]).all()
    assert np.isnan(run.log_apjn[1:]).all()
    assert np.isfinite(run.gram[1, :100]).all()


@pytest.mark.parametrize(
    ("net", "call", "said"),
    [
        (mf.CausalAttention(), {"n": 4}, "exactly one of p, c and gap"),
        (mf.CausalAttention(), {"n": [4, 5], "p": 0.1}, "one number"),
        (mf.CausalAttention(), {"n": 4, "p": -0.5}, "cannot all have"),
        (mf.Linear(1, 0) >> mf.Activate(mf.relu) >> mf.Residual(mf.LayerNorm() >> mf.CausalAttention()), {"n": 4, "p": 0.5}, "mean"),
        (mf.CausalAttention(), {"n": 4, "p": 0.5, "sigma_x": 1}, "unknown parameters: sigma_x"),
    ],
)
def test_refusals(net, call, said):
    scales = {"sigma_V": 1, "sigma_O": 1}
    with pytest.raises(ValueError, match=said):
        mf.propagate(net, depth=2, q=1.0, **scales, **call)


def test_no_recursion_in_two_moments():
    with pytest.raises(ValueError, match="tells tokens apart"):
        mf.recursion(mf.CausalAttention() >> mf.MLP(mf.relu))


# -- two inputs -----------------------------------------------------------------------------------------------------------------------


def arc_cosine(q1, p, q2):
    c = p / mp.sqrt(q1 * q2)
    return mp.sqrt(q1 * q2) * (mp.sqrt(1 - c**2) + c * (mp.pi - mp.acos(c))) / (2 * mp.pi)


def test_inputs_of_unequal_norm_and_their_tangent_kernel():
    """against a 30-digit recursion of the ReLU network, Jacot et al. 2018, thm. 1"""
    w, b, depth = mp.mpf("1.3"), mp.mpf("0.2"), 20
    with mp.workdps(30):
        q, q2, p = mp.mpf(1), mp.mpf(4), mp.mpf("0.6")
        t, t2, tp = q, q2, p
        for _ in range(depth):
            slope = (mp.pi - mp.acos(p / mp.sqrt(q * q2))) / (2 * mp.pi)
            p_ = w**2 * arc_cosine(q, p, q2) + b**2
            q, q2 = w**2 * q / 2 + b**2, w**2 * q2 / 2 + b**2
            t, t2, tp, p = w**2 * t / 2 + q, w**2 * t2 / 2 + q2, w**2 * slope * tp + p_, p_
    run = mf.propagate(mf.mlp(mf.relu), depth=depth, q=1.0, q2=4.0, p=0.6, sigma_w=1.3, sigma_b=0.2)
    for name, value in (("q", q), ("q2", q2), ("p", p), ("ntk", t), ("ntk_2", t2), ("ntk_pair", tp)):
        assert getattr(run, name)[-1] == pytest.approx(float(value), rel=1e-13)
    assert run.c[-1] == pytest.approx(float(p / mp.sqrt(q * q2)), rel=1e-13)
    np.testing.assert_allclose(run.log_apjn, run.log_apjn_2, atol=1e-13)
    assert run.log_apjn[0] == pytest.approx(depth * math.log(1.3**2 / 2), abs=1e-12)


def test_unequal_norms_through_norms_residuals_and_means():
    """an activation leaves a mean, LayerNorm takes it off, RMSNorm does not; equal norms give what (q, p) gives"""
    net = mf.Residual(mf.RMSNorm() >> mf.mlp(mf.silu) >> mf.Activate(mf.relu) >> mf.LayerNorm() >> mf.Linear(), skip=sp.Rational(1, 2))
    values = {"sigma_w": 1.2, "sigma_b": 0.3}
    equal = mf.propagate(net, depth=4, q=1.5, q2=1.5, c=0.2, **values)
    symmetric = mf.propagate(net, depth=4, q=1.5, c=0.2, **values)
    for name in ("q", "p", "c", "log_apjn"):
        np.testing.assert_allclose(getattr(equal, name), getattr(symmetric, name), rtol=1e-12, atol=1e-13)
    there = mf.propagate(net, depth=4, q=1.5, q2=3.0, c=0.2, **values)
    back = mf.propagate(net, depth=4, q=3.0, q2=1.5, c=0.2, **values)
    np.testing.assert_allclose(there.p, back.p, rtol=1e-12)
    np.testing.assert_allclose(there.q2, back.q, rtol=1e-12)
    np.testing.assert_allclose(there.log_apjn_2, back.log_apjn, atol=1e-12)


def test_gated_units_on_inputs_of_unequal_norm():
    """a product has the products of moments; its tangent kernel and its gradients take each factor's part times the other's moment"""
    a, b, o, skip, scale, depth = 1.3, 0.8, 1.1, 0.9, 0.7, 6
    G = T = np.array([[1.0, 0.6], [0.6, 2.5]])
    for _ in range(depth):
        root = np.sqrt(np.outer(np.diag(G), np.diag(G)))
        H, own = G / root, T / root
        angle = np.arccos(np.clip(H, -1, 1))
        gate, slope = a**2 * (np.sin(angle) + (np.pi - angle) * H) / (2 * np.pi), a**2 * (np.pi - angle) / (2 * np.pi)
        after = o**2 * gate * b**2 * H
        branch = after + o**2 * (slope * (H + own) * b**2 * H + gate * b**2 * (H + own))
        G, T = skip**2 * G + scale**2 * after, skip**2 * T + scale**2 * branch
    net = mf.Residual(mf.RMSNorm() >> mf.ReGLU(a, b, o), skip, scale)
    run = mf.propagate(net, depth, q=1.0, q2=2.5, p=0.6)
    seen = [run.q, run.p, run.q2, run.ntk, run.ntk_pair, run.ntk_2]
    np.testing.assert_allclose([s[-1] for s in seen], [*G[[0, 0, 1], [0, 1, 1]], *T[[0, 0, 1], [0, 1, 1]]], rtol=1e-13)
    symmetric = mf.propagate(net, depth, q=1.0, c=0.6)
    equal = mf.ntk(net, depth, q=1.0, c=0.6)
    np.testing.assert_allclose([equal.p, equal.log_apjn], [symmetric.p, symmetric.log_apjn], rtol=1e-13, atol=1e-14)


def test_a_gated_unit_in_a_causal_transformer():
    net = mf.Residual(mf.CausalAttention(sigma_V=1, sigma_O=1)) >> mf.Residual(mf.RMSNorm() >> mf.ReGLU(1, 1, 1))
    run = mf.propagate(net, depth=1, q=1.0, p=0.4, n=4)
    C, G = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None], 0.4 + 0.6 * np.eye(4)
    G = G + C @ G @ C.T
    rho = np.clip(G / np.sqrt(np.outer(np.diag(G), np.diag(G))), -1, 1)
    gate = (np.sqrt(1 - rho**2) + rho * (np.pi - np.arccos(rho))) / (2 * np.pi)
    np.testing.assert_allclose(run.gram[-1], G + gate * rho, rtol=1e-13)
    assert run.log_apjn[0] == pytest.approx(run.log_apjn_forward[-1], abs=1e-13)
    softmax = mf.Product(mf.Attention(n=4), mf.Linear(1, 0)) >> mf.Linear(1, 0)
    with pytest.raises(ValueError, match="permutation-symmetric"):
        mf.CausalAttention(n=4) >> softmax
    with pytest.raises(ValueError, match="permutation-symmetric"):
        mf.Residual(mf.CausalAttention()) >> mf.Attention()


def test_many_repeats_between_first_and_last_layers():
    """in one call, what the repeats alone say: a block that mixes tokens, and one on inputs of unequal norm with its tangent kernel"""
    causal = mf.Residual(mf.RMSNorm() >> mf.CausalAttention(3, 1, 1)) >> mf.Residual(mf.MLP(mf.relu, 1, 1), scale=0.1)
    alone = mf.propagate(causal, 40, q=1.44, p=0.432)
    run = mf.propagate(mf.Linear(1.2, 0) >> mf.Repeat(causal, 40) >> mf.Linear(0.7, 0), 1, q=1.0, p=0.3)
    np.testing.assert_allclose(run.gram[-1], 0.49 * alone.gram[-1], rtol=1e-13)
    assert run.log_apjn[0] == pytest.approx(alone.log_apjn[0] + math.log(1.44 * 0.49), abs=1e-12)
    assert run.log_apjn_forward[-1] == pytest.approx(run.log_apjn[0], abs=1e-12)
    net = mf.mlp(mf.relu, sp.sqrt(2), 0)
    pair = mf.ntk(net, 1000, q=1.0, q2=4.0, c=0.3)
    once = mf.ntk(mf.Repeat(net, 1000), 1, q=1.0, q2=4.0, c=0.3)
    for name in ("q2", "p", "ntk", "ntk_pair", "log_apjn"):
        assert getattr(once, name)[0 if name == "log_apjn" else -1] == pytest.approx(getattr(pair, name)[0 if name == "log_apjn" else -1])
    with pytest.raises(ValueError, match="insert a Linear"):
        mf.ntk(mf.Repeat(mf.LayerNorm() >> mf.Linear(1, 0) >> mf.Activate(mf.relu), 100) >> mf.Linear(1, 0), 1, q=1.0, p=0.3)


def test_the_symbolic_tangent_kernel_is_the_numeric_one():
    net = mf.Residual(mf.LayerNorm() >> mf.mlp(mf.erf) >> mf.MLP(mf.relu, 1, 1), scale=sp.Rational(1, 2))
    theta, theta_p = mf.recursion(net).ntk
    run = mf.ntk(net, depth=1, q=1.4, p=0.3, sigma_w=1.1, sigma_b=0.2)
    given = {"q": 1.4, "sigma_w": 1.1, "sigma_b": 0.2}
    assert run.ntk[-1] == pytest.approx(mf.evaluate(theta, Theta=1.4, **given), rel=1e-13)
    assert run.ntk_pair[-1] == pytest.approx(mf.evaluate(theta_p, Theta_p=0.3, p=0.3, **given), rel=1e-13)


def test_tangent_kernel_needs_blocks_that_know_theirs():
    class Doubled(mf.Block):
        tokenwise = True

        def law(self, signal):
            return mf.Law(signal.times(sp.Integer(2)), 4 * sp.eye(2), sp.Integer(4))

    run = mf.ntk(Doubled() >> mf.Linear(1, 0), depth=1, q=1.0, p=0.5)
    assert run.p.tolist() == [0.5, 2.0]
    with pytest.raises(AttributeError, match="tangent"):
        _ = run.ntk
    with pytest.raises(ValueError, match="tangent"):
        _ = mf.recursion(Doubled() >> mf.Linear(1, 0)).ntk


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"q2": 1.0}, "exactly one of p, c and gap"),
        ({"q2": 1.0, "p": 0.1, "c": 0.1}, "p and c given"),
        ({"q2": 0.25, "p": 0.6}, "at most sqrt"),
        ({"q2": -1.0, "p": 0.1}, "q2 = -1"),
    ],
)
def test_refused_pairs(call, said):
    with pytest.raises(ValueError, match=said):
        mf.propagate(mf.mlp(mf.relu), depth=2, q=1.0, sigma_w=1, sigma_b=0, **call)


def test_attention_has_no_inputs_of_unequal_norm():
    with pytest.raises(ValueError, match="mixes tokens"):
        mf.propagate(block(mf.Attention()), depth=1, q=1.0, q2=2.0, p=0.1)


# -- how it shows itself --------------------------------------------------------------------------------------------------------------


def test_datasets_and_figures():
    import matplotlib

    matplotlib.use("Agg")
    run = mf.propagate(mf.CausalAttention(), depth=2, q=1.0, p=0.4, n=4, sigma_V=np.array([1.0, 2.0]), sigma_O=1)
    data = run.to_xarray()
    assert data["gram"].dims == ("sigma_V", "layer", "i", "j")
    assert float(data["gram"].sel(sigma_V=2.0, layer=1, i=1, j=1)) == 4.0
    single = mf.propagate(mf.CausalAttention(), depth=2, q=1.0, p=0.4, n=4, sigma_V=1, sigma_O=1)
    ax = single.plot(layer=1)
    shown = np.asarray(ax.get_images()[0].get_array())
    assert shown[0, [0, 3]] == pytest.approx([1.0, math.sqrt(0.55)])
    pair = mf.ntk(mf.mlp(mf.relu), depth=3, q=1.0, p=0.0, sigma_w=1.4, sigma_b=0)
    assert pair.plot(quantity="ntk_pair").get_ylabel() == r"$\Theta_{12,l}$"
    assert "ntk_pair" in pair.to_xarray()
    matplotlib.pyplot.close("all")


def test_latex_of_tokens_told_apart():
    net = mf.Residual(mf.RMSNorm() >> mf.CausalAttention(sigma_V=1), scale=sp.Rational(1, 2))
    text = mf.latex(net)
    for line in (
        r"G^{(1)}_{ij} &= \frac{G_{ij}}{\sqrt{G_{ii}} \sqrt{G_{jj}}}",
        r"G^{(2)} &= \sigma_O^{2}\, A G^{(1)} A^\top",
        r"G^{(3)} &= G + \frac{1}{4} G^{(2)}",
        r"\Gamma &\leftarrow \Gamma + \frac{1}{4} \dot G^{(1)} \circ \left[\sigma_O^{2}\, A^\top \Gamma A\right]",
        r"A_{ij} &= \begin{cases} \frac{1}{i} & \text{for}\: i \geq j \\0 & \text{otherwise} \end{cases}",
    ):
        assert line in text


# -- memory ---------------------------------------------------------------------------------------------------------------------------


def test_points_go_together_and_stretches_of_layers_are_run_again_with_the_same_bits(monkeypatch):
    """whatever fits into memory"""
    from meanfield.numeric import gram_passes

    settings = {"sigma_w": np.array([0.2, 1.0, 1.2]), "sigma_b": np.array([0.0, 0.1, 0.0]), "c": 0.5, "q2": 0.5}
    net, runs = mf.mlp(mf.Activation(mf.x / 2 + mf.x**2 / 5)), []
    for kept in (gram_passes.KEPT, 1500):
        monkeypatch.setattr(gram_passes, "KEPT", kept)
        runs.append(mf.propagate(net, depth=18, q=1.0, **settings))
    sizes = gram_passes.Passes(net, 18, 19, False, 2)
    assert (sizes.points, sizes.stretch) == (1, 5)
    for name in runs[0].outline.quantities:
        assert np.array_equal(*(getattr(run, name) for run in runs), equal_nan=name != "status"), name
    with pytest.raises(ValueError, match=r"GiB .* settings x 19 layers.*record='last'.*sweep.zarr"):
        mf.propagate(net, 18, np.ones((10**4, 1)), q2=np.ones(10**4), p=0.1, sigma_w=1, sigma_b=0)


def test_an_underflow_is_no_zero_and_no_number_is_invalid() -> None:
    """what is 0 where a parameter is 1 is not 0 for that; a weight 1/0 is no number"""
    s = sp.Symbol("s", real=True)
    near = sp.Piecewise((sp.Rational(1, 2), abs(mf.i - mf.j) <= 1), (0, True))
    mixed = mf.FixedAttention(near, n=3, sigma_V=1, sigma_O=1)
    assert mf.propagate(mf.Linear(1 - s, 0) >> mixed, q=1.0, p=0.0, depth=400, s=0.9).status == "underflow"
    assert mf.propagate(mf.Linear(s, 0) >> mixed, q=1.0, p=0.0, depth=400, s=0.1).status == "underflow"
    assert mf.propagate(mf.Linear(s, 0) >> mixed, q=1.0, p=0.0, depth=4, s=0.0).status == "zero signal"
    assert mf.propagate(mf.Linear(1 / s, 0) >> mixed, q=1.0, p=0.0, depth=4, s=0.0).status == "invalid"


def test_two_inputs_that_overflow_warn_of_nothing() -> None:
    """and those next to that"""
    assert mf.propagate(mf.Linear(1, 0), 2, 1e299, q2=1.05e299, c=-1.0).c[-1] == -1
    assert mf.propagate(mf.Linear(1, 0), 2, 8e307, q2=8.5e307, c=-1.0).status == "overflow"
    with pytest.raises(ValueError, match=r"q = 1.2e\+308 and q2 = 1.3e\+308 and c = -1: sqrt\(q q2\) - p must be below 1.798e\+308"):
        mf.propagate(mf.Linear(1, 0), 2, 1.2e308, q2=1.3e308, c=-1.0)
    net = mf.Residual(mf.GLU(mf.Activation(mf.x + mf.x**3 / 10), 1, 1, 1), scale=0.5)
    assert mf.propagate(net, 6, 1832.9, q2=20713.0, c=0.5).status == "overflow"


def test_tokens_that_merge_are_taken_at_one_variance() -> None:
    """where variances of tokens differ by less than rounding of p makes of an angle: the mixture of gradients
    that stays is multiplied by chi = 1"""
    net = mf.CausalAttention(n=4) >> mf.MLP(mf.relu)
    run = mf.propagate(net, 80, 1.0, c=0.3, sigma_V=1.0, sigma_O=1.0, sigma_1=1.0, sigma_2=2**0.5)
    merged = np.diff(run.log_apjn_forward[40:])
    assert np.abs(merged).max() < 1e-6
    assert run.gap[-1] < 1e-30


@pytest.mark.parametrize("gap", [1e-20, 1e-12, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("apart", [1e-13, 1e-9, 1e-6, 1e-4, 1e-2])
def test_tangent_kernels_of_pairs_next_to_each_other(apart: float, gap: float) -> None:
    """ReLU, two inputs of norms 1 and 1 + apart: \\Theta' = K' + (1 - \\theta/\\pi) \\Theta, \\theta the angle"""
    run = mf.propagate(mf.mlp(mf.relu), 2, 1.0, q2=1 + apart, gap=gap, sigma_w=2**0.5, sigma_b=0)
    tangent, root = 0.0, math.sqrt(1 + apart)
    for k in range(2):
        angle = 2 * math.asin(math.sqrt(run.gap[k] / 2))
        kernel = root * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / math.pi
        tangent = kernel + (1 - angle / math.pi) * (tangent if k else root * math.cos(angle))
    assert run.ntk_pair[-1] == pytest.approx(tangent, rel=1e-8)  # at unequal variances angles are of p, which rounding moves


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the memory that a process holds is read from /proc")
def test_an_interrupt_finds_no_gigabytes_being_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """neither for the result nor for the start: memory is written where a point is run, so that an interrupt is heard between points"""
    from meanfield.numeric import gram_passes

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def first(points: object, start: object) -> None:
        held.append(resident())
        raise KeyboardInterrupt

    monkeypatch.setattr(gram_passes._Points, "run", first)
    for settings in ({"q": 1.0, "sigma_V": np.ones(100_000)}, {"q": np.ones(100_000), "sigma_V": 1.0}):
        held = [resident()]
        with pytest.raises(KeyboardInterrupt):  # 0.8 GiB
            mf.propagate(mf.CausalAttention(), 3, p=0.4, n=16, sigma_O=1, record=[1], **settings)
        assert held[1] - held[0] < 1 << 26


def test_the_last_layer_alone_has_no_correlation_of_gradients() -> None:
    """memory that nothing is written to would hold whatever was there"""
    run = mf.propagate(mf.CausalAttention(), 3, 1.0, p=0.4, n=4, sigma_V=np.ones(40), sigma_O=1, record="last")
    assert np.isnan(run._march.alike).all()
    assert (run.status == "ok").all()


@pytest.mark.parametrize("steep", [1, 10, 50])
def test_steep_slopes_of_unequal_variances_keep_their_digits(steep: int) -> None:
    """E cos(a u) cos(a v) = (e^(-a^2 (s - t)^2/2) + e^(-a^2 (s + t)^2/2))/2 of one direction, deviations s and t"""
    run = mf.propagate(mf.mlp(mf.Activation(sp.sin(steep * mf.x) / steep)), 1, 1.0, q2=1.0002, gap=1e-17, sigma_w=1, sigma_b=0)
    s, t = 1.0, math.sqrt(1.0002)
    slope = (math.exp(-((steep * (s - t)) ** 2) / 2) + math.exp(-((steep * (s + t)) ** 2) / 2)) / 2
    kernel = (math.exp(-((steep * (s - t)) ** 2) / 2) - math.exp(-((steep * (s + t)) ** 2) / 2)) / 2 / steep**2
    assert run.ntk_pair[-1] == pytest.approx(kernel + slope * s * t, rel=1e-12)


# -- stacked layers -------------------------------------------------------------------------------------------------------------------


def stacked(phi: mf.Activation) -> mf.Block:
    return mf.mlp(phi, 1, sp.Rational(1, 10))


@pytest.mark.parametrize("phi", [mf.gelu, mf.relu], ids=str)
def test_layers_in_one_repeat_are_laws_of_their_own(phi):
    """three of them once are one of them three times; put into one another they were a formula that grows by a factor with each"""
    for given in ({"q2": 2.0}, {"q2": 1.0}):
        alone = mf.propagate(stacked(phi), 3, 1.0, p=0.5, **given)
        once = mf.propagate(stacked(phi) >> stacked(phi) >> stacked(phi), 1, 1.0, p=0.5, **given)
        repeated = mf.propagate(mf.Repeat(stacked(phi), 3), 1, 1.0, p=0.5, **given)
        for name, layer in {"q": -1, "q2": -1, "p": -1, "gap": -1, "log_apjn": 0, "ntk": -1, "ntk_pair": -1}.items():
            for run in (once, repeated):
                np.testing.assert_allclose(getattr(run, name)[layer], getattr(alone, name)[layer], rtol=1e-13, atol=1e-15, err_msg=name)


def test_layers_of_a_branch_beside_a_mask_are_laws_of_their_own():
    """each token by itself: the Gram matrix of two residual layers is that of the branch, entry by entry, and the skip"""
    branch = mf.Linear(1, sp.Rational(3, 10)) >> stacked(mf.gelu) >> stacked(mf.gelu)
    attended = mf.propagate(mf.CausalAttention(4, 1, 1), 1, 1.0, p=0.5).gram[-1]
    run = mf.propagate(mf.CausalAttention(4, 1, 1) >> mf.Residual(branch), 1, 1.0, p=0.5)
    for i, j in ((0, 0), (0, 1), (1, 2), (3, 3)):
        q, q2, p = attended[i, i], attended[j, j], attended[i, j]
        for layer in range(3):
            if layer:
                pair = mf.propagate(stacked(mf.gelu), 1, q, q2=q2, p=p)
                q, q2, p = (float(np.asarray(getattr(pair, name))[-1]) for name in ("q", "q2", "p"))
            else:
                q, q2, p = q + 0.09, q2 + 0.09, p + 0.09
        assert run.gram[-1][i, j] == pytest.approx(attended[i, j] + p, rel=1e-12)


def test_two_layers_print_as_two_steps():
    text = mf.latex(mf.CausalAttention(4, 1, 1) >> stacked(mf.relu) >> stacked(mf.relu))
    assert 1 <= text.count(r"\arccos") <= 4
    assert "G^{(3)}" in text


LINEAR, MASK = mf.Linear(1, sp.Rational(1, 10)), mf.CausalAttention(4, 1, 1)
LAYER = LINEAR >> mf.Activate(mf.relu) >> LINEAR


@pytest.mark.parametrize(
    ("behind", "repeats", "two", "kept"),
    [
        (mf.Repeat(mf.Residual(mf.LayerNorm() >> LAYER), 2) >> LINEAR, 2, False, 1),
        (mf.Residual(LAYER >> LAYER) >> mf.LayerNorm() >> LINEAR, 1, True, 1),
        (mf.Residual(LAYER >> LAYER, skip=0) >> mf.LayerNorm() >> LINEAR, 1, True, 0),
    ],
    ids=["repeat", "branch of two", "no skip"],
)
def test_what_an_activation_leaves_is_carried_into_the_layers_behind_it(behind, repeats, two, kept):
    """its mean m, m^2 = q/2 pi, stays in the stream, and a norm takes m^2 off every second moment"""

    def linear(*moments):
        return [a + 0.01 for a in moments]

    def relu(q, q2, p):
        angle = math.acos(p / math.sqrt(q * q2))
        return q / 2, q2 / 2, math.sqrt(q * q2) * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / (2 * math.pi)

    def layer(*moments):
        return linear(*relu(*linear(*moments)))

    def norm(q, q2, p):
        a, b = q - means[0] ** 2, q2 - means[1] ** 2
        return 1.0, 1.0, (p - means[0] * means[1]) / math.sqrt(a * b)

    q, q2, p = linear(0.8, 1.7, 0.3)
    means = [kept * math.sqrt(a / (2 * math.pi)) for a in (q, q2)]
    moments = relu(q, q2, p)
    for _ in range(repeats):
        branch = layer(*layer(*moments)) if two else layer(*norm(*moments))
        moments = [kept * a + b for a, b in zip(moments, branch, strict=True)]
    q, q2, p = linear(*(norm(*moments) if two else moments))
    run = mf.propagate(LINEAR >> mf.Activate(mf.relu) >> behind, 1, 0.8, p=0.3, q2=1.7)
    assert [float(a[-1]) for a in (run.q, run.q2, run.p)] == pytest.approx([q, q2, p], rel=1e-12)
    assert mf.propagate(MASK >> LINEAR >> mf.Activate(mf.relu) >> behind, 1, 0.8, p=0.3).status == "ok"


def test_repeats_of_repeats_are_laws_of_one_layer():
    layer = mf.mlp(mf.relu, 1, sp.Rational(1, 10))
    nested = mf.propagate(mf.Repeat(mf.Repeat(layer, 40), 2), 2, 0.8, p=0.3, q2=2.0)
    plain = mf.propagate(layer, 160, 0.8, p=0.3, q2=2.0)
    assert nested.p[-1] == pytest.approx(plain.p[-1], rel=1e-12)
    assert nested.q2[-1] == pytest.approx(plain.q2[-1], rel=1e-12)
