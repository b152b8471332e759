"""Masked softmax attention on the Gram matrix, against the law of symmetric tokens and against averages over Gaussian logits."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian import softmax_sums
from meanfield.numeric.gram_softmax import SoftmaxRows
from meanfield.numeric.gram_state import nearest

NONE = np.array([])
ALL = {"sigma_V": 1, "sigma_O": 1}


def rows_of(G, B, s, angles=NONE):
    roots = np.sqrt(np.diagonal(G, axis1=-2, axis2=-1))
    return SoftmaxRows(nearest(G, roots[..., None] * roots[..., None, :] - G), B, np.array(s), angles)


@pytest.mark.parametrize("s", [0.1, 1.0, 9.0])
def test_symmetric_tokens_have_the_quenched_law(s):
    """q exactly and J exactly, without a mask; p to what its polynomial is right to"""
    masked = mf.propagate(mf.MaskedAttention(1, 4, s**0.5, 1, 1, 1), depth=1, q=1.0, p=0.4)
    closed = mf.propagate(mf.Attention(4, s**0.5, 1, 1, 1, average=mf.Quenched()), depth=1, q=1.0, p=0.4)
    assert masked.q[-1] == pytest.approx(closed.q[-1], rel=1e-13)
    assert masked.log_apjn[0] == pytest.approx(closed.log_apjn[0], abs=1e-13)
    assert masked.p[-1] == pytest.approx(closed.p[-1], rel=0.025)


def test_a_uniform_row_is_the_limit_of_weak_logits():
    """to first order in sigma_QK^2, forward and backward; causal, unequal norms"""
    net, plain = mf.CausalAttention(sigma_Q=sp.Symbol("t"), sigma_K=1, **ALL), mf.CausalAttention(**ALL)
    before = mf.Residual(mf.CausalAttention(**ALL))
    runs = [mf.propagate(before >> net, depth=1, q=1.0, p=0.2, n=5, t=t) for t in (1e-2, 1e-4)]
    limit = mf.propagate(before >> plain, depth=1, q=1.0, p=0.2, n=5)
    off = [np.abs(run.gram[-1] - limit.gram[-1]).max() for run in runs]
    assert off[1] == pytest.approx(1e-4 * off[0], rel=1e-2)
    assert abs(runs[1].log_apjn[0] - limit.log_apjn[0]) < 1e-6


def averages(G, B, s, angles, draws=20000):
    """A G A^T over Gaussian logits with Cov(S_ij, S_kl) = s G_ik G_jl mean cos(angle (i - j - k + l))"""
    random = np.random.default_rng(5)
    n, root, phase = len(G), np.linalg.cholesky(G), np.exp(1j * np.outer(np.arange(len(G)), angles if len(angles) else [0.0]))
    total, square = np.zeros((2, n, n))
    for _ in range(draws // 2000):
        S = np.zeros((2000, n, n))
        for turn in phase.T:
            Z = random.standard_normal((2000, n, n)) + 1j * random.standard_normal((2000, n, n))
            S += (turn[:, None] * (root @ Z @ root.T) * turn.conj()).real
        A = B * np.exp((s / phase.shape[1]) ** 0.5 * S)
        A /= A.sum(-1, keepdims=True)
        each = A @ G @ A.swapaxes(-1, -2)
        total, square = total + each.sum(0), square + (each**2).sum(0)
    mean = total / draws
    return mean, np.sqrt(np.maximum(square / draws - mean**2, 0) / draws)


ROOTS = np.random.default_rng(1).standard_normal((8, 6)) / 6**0.5
GRAMS = {
    "equal norms": 0.4 + 0.6 * np.eye(8),
    "norms that differ by a factor of 2": 0.4 + np.diag(np.linspace(0.4, 0.85, 8)),
    "pairs that differ": 0.4 + 0.25 * ROOTS @ ROOTS.T + 0.3 * np.eye(8),
}
#: how far off the law may be at sigma_QK^2 = 1 and 4
ALLOWED = {"causal": (0.006, 0.015), "bias": (0.018, 0.06), "rotary": (0.006, 0.015)}
INDEX = np.arange(8)
MASKS = {
    "causal": (np.tril(np.ones((8, 8))), NONE),
    "bias": (np.exp(-0.3 * np.abs(INDEX[:, None] - INDEX)), NONE),
    "rotary": (np.tril(np.ones((8, 8))), np.array([1.0, 0.1])),
}


CASES = [*((gram, "causal") for gram in GRAMS), ("pairs that differ", "bias"), ("pairs that differ", "rotary")]


@pytest.mark.parametrize(("gram", "mask"), CASES)
def test_mixed_tokens_are_those_of_gaussian_logits(gram, mask):
    G, (B, angles) = GRAMS[gram], MASKS[mask]
    for s, allowed in zip((1.0, 4.0), ALLOWED[mask], strict=True):
        found = rows_of(G, B, s, angles).state().matrix
        expected, error = averages(G, B, s, angles)
        uniform = B / B.sum(-1, keepdims=True)
        assert (np.abs(found / expected - 1) < allowed + 3 * error / expected).all()
        assert np.abs(uniform @ G @ uniform.T / expected - 1).max() > 1.8 * allowed


def test_rows_that_see_themselves_alone():
    """the first token of a causal mask"""
    rows = rows_of(GRAMS["pairs that differ"], np.eye(8), 3.0)
    assert np.allclose(rows.state().matrix, rows.G, rtol=1e-14)
    assert np.allclose(rows.pull(rows.G), rows.G, rtol=1e-14)


def test_rows_that_see_little_but_themselves():
    """a bias that falls off at once: what the others have is of first order in it, at any size"""
    found = []
    for bias in (1e-6, 1e-9, 1e-12):
        net = mf.MaskedAttention(sp.Float(bias) ** abs(mf.i - mf.j), 6, 1, 1, 1, 1)
        run = mf.propagate(net, 1, q=1.0, p=0.4)
        found.append([(1 - run.q[1]) / bias, (0.6 - run.gap[1]) / bias])
        assert run.status == "ok"
    assert found[0] == pytest.approx(found[1], rel=3e-5)  # the second order
    assert found[2] == pytest.approx(found[1], rel=1e-3)  # roundings of q


def test_averages_of_wide_logits_are_the_same_sums(monkeypatch):
    """over where they have features, and over all logits"""
    for v, n in ((101.0, 1.0001), (150.0, 50.0)):
        pairs = []
        for wide in (100.0, 1e9):
            monkeypatch.setattr(softmax_sums, "WIDE", wide)
            pairs.append(np.empty(15))
            softmax_sums.softmax_sums(v, n, pairs[-1])
        np.testing.assert_allclose(pairs[0][:5], pairs[1][:5], rtol=1e-12)
    assert softmax_sums.softmax_response(1e20, 2.0) == pytest.approx(1 / 3, rel=1e-9)


def test_backward_is_the_transpose_of_forward():
    random = np.random.default_rng(0)
    X, g = (a + a.swapaxes(-1, -2) for a in random.standard_normal((2, 2, 8, 8)))
    B, angles = MASKS["rotary"]
    rows = rows_of(np.array([GRAMS["pairs that differ"], GRAMS["equal norms"]]), B, [1.0, 4.0], angles)
    assert (rows.push(X) * g).sum((-1, -2)) == pytest.approx((X * rows.pull(g)).sum((-1, -2)), rel=1e-12)
    alone = rows_of(GRAMS["equal norms"], B, 4.0, angles)
    assert np.array_equal(rows.state().matrix[1], alone.state().matrix)


def test_refusals():
    for block, said in (
        (mf.MaskedAttention(sp.Piecewise((1, sp.Lt(mf.j, mf.i)), (0, True)), 3, 1, 1, 1, 1), "at least one above 0 for every token"),
        (mf.MaskedAttention(-mf.i, 3, 1, 1, 1, 1), "weights >= 0"),
    ):
        with pytest.raises(ValueError, match=said):
            mf.propagate(block, depth=1, q=1.0, p=0.1)
    with pytest.raises(ValueError, match="identity = 1, uniform = 1: expected 0 and 1"):
        mf.CausalAttention(sigma_Q=1, sigma_K=1, identity=1)
    with pytest.raises(ValueError, match="not on the signal"):
        mf.MaskedAttention(mf.q)
    with pytest.raises(AttributeError, match="tangent"):
        _ = mf.propagate(mf.CausalAttention(3, 1, 1, sigma_Q=1, sigma_K=1), depth=1, q=1.0, p=0.1).ntk


def test_causal_networks_say_what_they_cost_and_look_like():
    net = mf.pre_norm(norm=mf.RMSNorm(), attention=mf.CausalAttention(sigma_Q=1, sigma_K=2, frequencies=(1, 0.1)), mlp=mf.MLP(mf.relu))
    text = mf.latex(net)
    for part in (r"\sum_{ab} Y^{ij}_{ab} G^{(1)}_{ab}", r"Z^{ij}_{ab} &=", r"\overline{\cos \vartheta"):
        assert part in text
    gained = mf.deep_norm(attention=mf.CausalAttention(4, 1, 1, sigma_Q=1, sigma_K=1), mlp=mf.MLP(mf.relu, 1, 1), alpha=1, lam=2)
    assert mf.CausalAttention(4, 2, 2, sigma_Q=1, sigma_K=1) in (gained.blocks[0].branch,)
    assert mf.budget(mf.CausalAttention(sigma_Q=1, sigma_K=1)).block == mf.budget(mf.Attention()).block
