"""The named architectures: what they are spelled with, their exact invariants, and the numbers of theory.md 2, 3, 4.7 and 6."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import arc_cosine, relative
from test_laws import KEYS, POINTS, Numbers, numbers, same_law

import meanfield as mf
from meanfield.reporting.article import document

HALF = sp.Rational(1, 2)
NORM = mf.LayerNorm()
RELU = mf.MLP(mf.relu)
SCALES = {"sigma_Q": 0.9, "sigma_K": 0.7}


def close(found: Any, truth: Any) -> bool:
    return bool(abs(found - truth) <= mp.mpf("1e-32") * max(1, abs(truth)))


# -- attention with another matrix of token weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3, 16])
def test_matrix_of_identity_and_mean(n: int) -> None:
    """M = a 1 + g 1 1^T/n on the Gram matrix, by its eigenvalues (theory.md 3): on 1 and on what is orthogonal to it"""
    with mp.workdps(45):
        a, g = mp.mpf("0.75"), mp.mpf("0.5")
        block = mf.TokenMixing(n, alpha=0.75, beta=0.75, gamma=0.25, sigma_Q=0, sigma_K=1)
        for q, p in POINTS:
            found = numbers(block, q, p)

            def mapped(same: mp.mpf, other: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
                uniform, rest = (a + g) ** 2 * (same + (n - 1) * other), a**2 * (same - other)
                return (uniform + (n - 1) * rest) / n, (uniform - rest) / n

            assert all(map(close, (found["q"], found["p"]), mapped(mp.mpf(q), mp.mpf(p))))
            for J, K in ((1, 0), (0, 1)):
                back = [found[row + "J"] * J + found[row + "K"] * K for row in ("J", "K")]
                assert all(map(close, back, mapped(mp.mpf(J), mp.mpf(K)))) or n == 1


@pytest.mark.parametrize("softmax_derivative", [False, True])
@pytest.mark.parametrize(("alpha", "beta", "gamma"), [(1, 1, 1), (0.9, 0.5, 0), (-0.5, 0.7, 0.3)])
def test_softmax_adds_its_fluctuations(alpha: float, beta: float, gamma: float, softmax_derivative: bool) -> None:
    """M = a 1 + (b - g) C + b (A - C): rows of A - C sum to 0 and its mean is 0, so every moment gains b^2 (A's less C's)"""
    with mp.workdps(45):
        weights = {"alpha": alpha, "beta": beta, "gamma": gamma}
        for n in (2, 16):
            for q, p in POINTS:
                whole = numbers(mf.TokenMixing(n, **weights, softmax_derivative=softmax_derivative), q, p, **SCALES)
                mean = numbers(mf.TokenMixing(n, **weights, sigma_Q=0), q, p)
                softmax = numbers(mf.Attention(n, 0.9, 0.7, 1, 1, softmax_derivative), q, p)
                uniform = numbers(mf.UniformAttention(n, 1, 1), q, p)
                for key in KEYS:
                    assert close(whole[key], mean[key] + mp.mpf(str(beta)) ** 2 * (softmax[key] - uniform[key])), key


def test_value_and_output_matrices_are_a_linear_map() -> None:
    weights = {"n": 5, "alpha": 0.8, "beta": 0.6, "gamma": 0.3, "sigma_Q": 0.9, "sigma_K": 0.7}
    same_law(mf.ShapedAttention(**weights, sigma_V=1.1, sigma_O=0.6), mf.TokenMixing(**weights) >> mf.Linear(1.1, 0) >> mf.Linear(0.6, 0))
    assert mf.UniformAttention(5, 1, 2).law(mf.Signal(mf.q, mf.p, mf.delta)).output.mixed


def test_tokens_keep_their_coordinates_without_values() -> None:
    """what is Gaussian stays so, a mean is multiplied by the row sum"""
    law = mf.TokenMixing(4, 0.9, 0.5, 0.2).law(mf.Signal(mf.q, mf.p, mf.delta, sp.Integer(2), gaussian=False))
    assert (law.output.gaussian, law.output.mixed, law.output.mean) == (False, False, sp.Rational(12, 5))


# -- exact invariants -------------------------------------------------------------------------------------------------------------------

IDENTITIES = {
    "shaped attention": mf.shaped_attention(sigma_V=1, sigma_O=1, n=7, sigma_Q=0, sigma_K=1),
    "Value-SkipInit": mf.value_skipinit(sigma_V=1, sigma_O=1),
    "mixing": mf.TokenMixing(n=7, sigma_Q=0),
    "ReZero": mf.rezero(attention=mf.Attention(), mlp=RELU),
    "SkipInit": mf.skip_init(RELU),
    "LayerScale": mf.layer_scale(norm=NORM, attention=mf.Attention(), mlp=RELU, gamma=0),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_identity_at_initialisation(name: str) -> None:
    same_law(IDENTITIES[name], mf.Identity(), n=4, sigma_V=1.1, sigma_O=0.6, sigma_1=1.2, sigma_2=0.8, **SCALES)


def test_identity_at_initialisation_by_numbers() -> None:
    """W_Q = 0 bound when it runs: the same bits come out"""
    run = mf.propagate(mf.shaped_attention(), 100, 1.3, c=0.4, n=7, sigma_Q=0, sigma_K=1, sigma_V=1, sigma_O=1)
    assert (run.q == 1.3).all()
    assert (run.gap == run.gap[0]).all()
    assert (run.log_apjn == 0).all()


def test_post_norm_relu_mlp_conserves_gradients() -> None:
    """x <- norm(x + relu-MLP(x)): J = 1 exactly, at any gain, skip and scale"""
    w = sp.Symbol("w", positive=True)
    for skip, scale in ((1, 1), (0.9, 1 / sp.sqrt(mf.L))):
        net = mf.Residual(mf.MLP(mf.relu, w, 1.2), skip, scale) >> NORM
        rec = mf.recursion(net)
        at = {mf.q: 1}
        assert sp.simplify(rec.chi.xreplace(at)) == 1
        assert sp.simplify(rec.q) == 1


def test_serial_is_associative_in_any_architecture() -> None:
    a = mf.shaped_attention(n=4, beta=0.5, sigma_V=1.1, sigma_O=0.6, **SCALES)
    b, c = mf.Residual(mf.MLP(mf.gelu, 0.8, 1.1), 0.9, 0.5), mf.BatchNorm()
    assert (a >> b) >> c == a >> (b >> c)
    same_law((a >> b) >> c, mf.Serial((a, mf.Serial((b, c)))))


def test_residual_of_a_zero_branch_is_the_identity() -> None:
    for branch in (mf.Linear(0, 0), mf.UniformAttention(4, 0, 1), mf.MLP(mf.tanh, 1, 0), mf.shaped_attention(n=4, sigma_O=0, sigma_V=1)):
        same_law(mf.Residual(branch), mf.Identity(), **SCALES)


# -- spelled with blocks ----------------------------------------------------------------------------------------------------------------


def test_spelling() -> None:
    attention, mlp = mf.Attention(4), mf.MLP(mf.relu)
    parts = {"norm": NORM, "attention": attention, "mlp": mlp}
    options = {"skip": 0.9, "scale": HALF}
    res = mf.Residual
    post = res(attention, 0.9, HALF) >> NORM >> res(mlp, 0.9, HALF) >> NORM
    sandwich = res(NORM >> attention >> NORM, 0.9, HALF) >> res(NORM >> mlp >> NORM, 0.9, HALF)
    mixing = mf.TokenMixing(4, 1, HALF, HALF, 0.9, 0.7)
    shaped = mf.ShapedAttention(4, 1, HALF, HALF, 0.9, 0.7)
    shape = {"n": 4, "beta": HALF, "gamma": HALF, **SCALES}
    lam, alpha_skip = sp.Symbol("lam", positive=True), sp.Symbol("alpha_skip", positive=True)
    gained = mf.MLP(mf.relu, lam * sp.Symbol("sigma_1", positive=True), lam * sp.Symbol("sigma_2", positive=True))
    scaled = mf.Attention(4, sigma_V=lam * sp.Symbol("sigma_V", positive=True), sigma_O=lam * sp.Symbol("sigma_O", positive=True))
    spelled = {
        mf.post_norm(**parts, **options): post,
        mf.deep_norm(attention=attention, mlp=mlp): res(scaled, alpha_skip) >> NORM >> res(gained, alpha_skip) >> NORM,
        mf.sandwich_norm(**parts, **options): sandwich,
        mf.parallel_block(**parts, **options): res(NORM >> (attention + mlp), 0.9, HALF),
        mf.layer_scale(**parts, gamma=HALF): res(NORM >> attention, 1, HALF) >> res(NORM >> mlp, 1, HALF),
        mf.rezero(attention=attention, mlp=mlp, gain=HALF): res(attention, 1, HALF) >> res(mlp, 1, HALF),
        mf.residual_mlp(mf.relu, 1, 0.5, norm=NORM, **options): res(NORM >> mf.Activate(mf.relu) >> mf.Linear(1, 0.5), 0.9, HALF),
        mf.downweighted(norm=NORM, attention=attention, mlp=mlp): NORM >> attention >> res(NORM >> mlp, 1, 1 / sp.sqrt(mf.L)),
        mf.shaped_attention(norm=NORM, mlp=mlp, **shape, **options): NORM >> shaped >> res(NORM >> mlp, 0.9, HALF),
        mf.sas(norm=NORM, mlp=mlp, **shape, **options): NORM >> mixing >> res(NORM >> mlp, 0.9, HALF),
        mf.sas_p(norm=NORM, mlp=mlp, **shape, scale=HALF): NORM >> (mixing + (mlp >> mf.Scale(HALF))),
        mf.value_skipinit(n=4, beta=HALF): mf.ShapedAttention(4, 1, HALF, 0),
    }
    for named, blocks in spelled.items():
        assert named == blocks
    assert len(spelled) == 12


def test_gain_is_not_put_on_queries_keys_and_biases() -> None:
    net = mf.deep_norm(attention=mf.Attention(4, 1, 1, 1, 1), mlp=mf.MLP(mf.relu, 1, 1, 0.3, 0.2), alpha=1, lam=HALF)
    branch = mf.MLP(mf.relu, HALF, HALF, 0.3, 0.2)
    assert net == mf.Residual(mf.Attention(4, 1, 1, HALF, HALF)) >> NORM >> mf.Residual(branch) >> NORM


def test_gain_on_gated_and_causal_branches() -> None:
    net = mf.deep_norm(attention=mf.CausalAttention(4, 1, 1), mlp=mf.SwiGLU(1, 1, 1), alpha=1, lam=HALF)
    assert net == mf.Residual(mf.CausalAttention(4, HALF, HALF)) >> NORM >> mf.Residual(mf.SwiGLU(HALF, HALF, HALF)) >> NORM


def test_options_of_the_softmax_reach_the_attention() -> None:
    options = {"softmax_derivative": False, "average": mf.Quenched()}
    for build in (mf.shaped_attention, mf.value_skipinit):
        net = build(mlp=RELU, **options)
        assert (net.blocks[0].softmax_derivative, net.blocks[0].average) == (False, mf.Quenched())
    assert mf.sas(mlp=RELU, **options).blocks[0].average == mf.Quenched()
    assert not mf.sas_p(mlp=RELU, **options).branches[0].softmax_derivative


def normalised(gram: np.ndarray) -> np.ndarray:
    root = np.sqrt(np.diag(gram))
    return gram / np.outer(root, root)


def relu_branch(gram: np.ndarray) -> np.ndarray:
    """W_2 relu(W_1 x), unit weights"""
    angle = np.arccos(np.clip(normalised(gram), -1, 1))
    root = np.sqrt(np.diag(gram))
    return np.outer(root, root) * (np.sin(angle) + np.cos(angle) * (np.pi - angle)) / (2 * np.pi)


def test_causal_attention_takes_the_place_of_attention() -> None:
    """the n x n Gram matrix through each architecture, typed; at zero logits shaped attention is the identity under a mask too"""
    n, mlp = 4, mf.MLP(mf.relu, 1, 1)
    A = np.tril(1 / np.arange(1, n + 1)[:, None] * np.ones(n))
    parts = {"norm": NORM, "attention": mf.CausalAttention(n, 1, 1), "mlp": mlp}
    typed: dict[str, tuple[Any, Any]] = {
        "pre_norm": (lambda G: G + A @ normalised(G) @ A.T, lambda G: G + relu_branch(normalised(G))),
        "post_norm": (lambda G: normalised(G + A @ G @ A.T), lambda G: normalised(G + relu_branch(G))),
        "sandwich_norm": (lambda G: G + normalised(A @ normalised(G) @ A.T), lambda G: G + normalised(relu_branch(normalised(G)))),
        "parallel_block": (lambda G: G + A @ normalised(G) @ A.T + relu_branch(normalised(G)), lambda G: G),
        "downweighted": (lambda G: A @ normalised(G) @ A.T, lambda G: G + relu_branch(normalised(G)) / 3),
    }
    for name, (first, second) in typed.items():
        G = 1.2 * (0.7 * np.eye(n) + 0.3)
        for _ in range(3):
            G = second(first(G))
        assert np.allclose(mf.propagate(getattr(mf, name)(**parts), 3, 1.2, c=0.3).gram[-1], G, rtol=1e-12), name
    shaped = mf.downweighted(norm=NORM, attention=mf.CausalAttention(n, 1, 1, identity=1, uniform=0), mlp=mlp)
    uniform = mf.propagate(mf.sas(norm=NORM, mlp=mlp, sigma_Q=0), 6, 1.2, c=0.3)
    gram = mf.propagate(shaped, 6, 1.2, c=0.3).gram[-1]
    assert relative(gram[0, 0], uniform.q[-1]) < 1e-12
    assert relative(gram[3, 1], uniform.p[-1]) < 1e-12


# -- post-norm and DeepNorm: theory.md 2 ------------------------------------------------------------------------------------------------


def post_norm_relu(n: int, a: float, w: float, alpha: float, depth: int, rho: float) -> tuple[float, float]:
    """the recursion of theory.md 2: uniform attention, ReLU MLP; the correlation after the last and J^{L,0}"""
    steps = []
    for _ in range(depth):
        top = a * (rho + (1 - rho) / n)
        total = alpha**2 + top
        steps.append(((alpha**2 + a / n) / total, a * (n - 1) / n / total, a / n / total, (alpha**2 + a * (n - 1) / n) / total))
        rho = min(1.0, (alpha**2 * rho + top) / total)
        total, angle = alpha**2 + w / 2, np.arccos(rho)
        steps.append((1.0, 0.0, 0.0, (alpha**2 + w * (np.pi - angle) / (2 * np.pi)) / total))
        rho = (alpha**2 * rho + w * (np.sin(angle) + rho * (np.pi - angle)) / (2 * np.pi)) / total
    J, K = 1.0, 0.0
    for jj, jk, kj, kk in reversed(steps):
        J, K = jj * J + jk * K, kj * J + kk * K
    return rho, J


W = sp.Symbol("w", positive=True)
PARTS = {"attention": mf.UniformAttention(512, 1, 1), "mlp": mf.MLP(mf.relu, W, 1)}


def test_post_norm_gradients_fall_to_a_plateau() -> None:
    """theory.md 2 (its MLP gain is sigma_21^2 = 0.64, Xavier on d x 4d): 0.0507, 0.00536, 0.00457 after 6, 12, 24 blocks"""
    net = mf.post_norm(norm=NORM, **PARTS)
    for depth, published in ((6, 0.0507), (12, 0.00536), (24, 0.00457)):
        run = mf.propagate(net, depth, 1.0, c=0.3, w=0.8)
        rho, J = post_norm_relu(512, 1, 0.64, 1, depth, 0.3)
        assert np.exp(run.log_apjn[0]) == pytest.approx(J, rel=1e-12)
        assert np.exp(run.log_apjn[0]) == pytest.approx(published, rel=2e-3)
        assert run.c[-1] == pytest.approx(rho, rel=1e-12)
    assert mf.propagate(net, 12, 1.0, c=0.3, w=0.8).c[-1] == pytest.approx(0.9996, abs=5e-5)


def test_deep_norm_of_a_thousand_layers() -> None:
    """theory.md 2: J = 0.992 and rho 0.300 -> 0.307 at N = 12, J = 0.9992 at N = 1000; one call each"""
    net = mf.deep_norm(**PARTS, alpha=(2 * mf.L) ** sp.Rational(1, 4), lam=(8 * mf.L) ** -sp.Rational(1, 4))
    for depth, published in ((6, 0.989), (12, 0.992), (24, 0.9946), (1000, 0.9992)):
        run = mf.propagate(net, depth, 1.0, c=0.3, w=0.8)
        lam = (8 * depth) ** -0.25
        rho, J = post_norm_relu(512, lam**4, 0.64 * lam**4, (2 * depth) ** 0.25, depth, 0.3)
        assert np.exp(run.log_apjn[0]) == pytest.approx(J, rel=1e-12)
        assert np.exp(run.log_apjn[0]) == pytest.approx(published, abs=5e-4)
        assert run.c[-1] == pytest.approx(rho, rel=1e-12)
    assert mf.propagate(net, 12, 1.0, c=0.3, w=0.8).c[-1] == pytest.approx(0.307, abs=5e-4)


def test_pre_norm_of_ten_thousand_layers() -> None:
    """q grows by a rho + w/2 per block with rho -> 1, J by its two power laws (theory.md 4.4): the token-uniform mode is J + (n-1) K"""
    net = mf.pre_norm(norm=NORM, **PARTS)
    run = mf.propagate(net, 10_000, 1.0, c=0.3, w=1.0)
    assert run.status == "ok"
    rate = np.diff(run.q)[-1]
    assert rate == pytest.approx(1.5, rel=5e-3)
    pooled = mf.propagate(net, 10_000, 1.0, c=0.3, w=1.0, start="pooled")
    slope = (pooled.log_apjn[1000] - pooled.log_apjn[5000]) / np.log(run.q[5000] / run.q[1000])
    assert slope == pytest.approx(1, abs=0.02)


# -- simplified blocks: theory.md 3 -----------------------------------------------------------------------------------------------------


def test_down_weighted_mlp_without_norm() -> None:
    """q_L/q_0 = J^{L,0} = (1 + b^2 g)^L -> e^{c^2 g}; rho 0.2 -> 0.38396 at c^2 g = 1"""
    net = mf.shaped_attention(mlp=mf.MLP(mf.relu, sp.sqrt(2), 1), n=5, sigma_Q=0, sigma_V=1, sigma_O=1)
    for depth in (18, 2000):
        run = mf.propagate(net, depth, 1.0, c=0.2)
        assert run.q[-1] == pytest.approx((1 + 1 / depth) ** depth, rel=1e-12)
        assert run.log_apjn[0] == pytest.approx(depth * np.log1p(1 / depth), rel=1e-12)
    assert run.c[-1] == pytest.approx(0.38396, abs=2e-4)


def test_attention_only_residual() -> None:
    """x + (a/sqrt L) W mean(x) over very many tokens: rho_L -> 1/(1 + e^{-a^2} (1/rho_0 - 1))"""
    net = mf.Residual(mf.UniformAttention(10**9, 1, 1), scale=1.3 / sp.sqrt(mf.L))
    run = mf.propagate(net, 5000, 1.0, c=0.3)
    assert run.c[-1] == pytest.approx(1 / (1 + np.exp(-1.69) * (1 / 0.3 - 1)), rel=1e-3)


def test_attention_alone_collapses_and_shaped_does_not() -> None:
    """one layer of the mean over tokens makes all tokens equal (alpha = 0); at alpha = 1 they stay apart"""
    assert mf.recursion(mf.UniformAttention(8, 1, 1)).p == mf.recursion(mf.UniformAttention(8, 1, 1)).q
    net = mf.sas(norm=NORM, mlp=mf.MLP(mf.relu, sp.sqrt(2), 1))
    run = mf.propagate(net, 200, 1.0, c=0.2, n=8, sigma_Q=0, sigma_K=1)
    assert run.c[-1] < 0.5
    parallel = mf.sas_p(norm=NORM, mlp=mf.MLP(mf.relu, sp.sqrt(2), 1))
    assert relative(mf.propagate(parallel, 200, 1.0, c=0.2, n=8, sigma_Q=0, sigma_K=1).q[1:], run.q[1:]) < 1e-13


# -- theory.md 4.7: residuals that keep the variance --------------------------------------------------------------------------------------


def test_exponents_of_tokens_and_gradients() -> None:
    """phi = tanh. theory.md's second row (.1985, .3179) is off by 0.004: a Gauss-Hermite rule of about 130 nodes for E sech^4(3 z)"""
    a, m, s = sp.symbols("a m s", positive=True)
    attention = mf.Residual(NORM >> mf.UniformAttention(4, 1, 1), sp.sqrt(1 - a**2), a)
    net = attention >> mf.Residual(NORM >> mf.MLP(mf.tanh, s, 1), sp.sqrt(1 - m**2), m)
    points = {(0.5, 0.5, 2.0): (-0.2357, 0.1157), (0.3, 0.6, 3.0): (0.20249, 0.32183), (0.7, 0.3, 1.0): (-0.7203, 0.0070)}
    for point, published in points.items():
        run = mf.propagate(net, 80, 1.0, gap=1e-100, start="pooled", **dict(zip("ams", point, strict=True)))
        found = np.log(run.gap[80] / run.gap[60]) / 20, (run.log_apjn[60] - run.log_apjn[80]) / 20
        A, M, S = map(mp.mpf, point)
        gain = mp.quad(lambda z, S=S: mp.tanh(S * z) ** 2 * mp.npdf(z), [-9, -1, 0, 1, 9])
        chi = S**2 * mp.quad(lambda z, S=S: mp.sech(S * z) ** 4 * mp.npdf(z), [-9, -1, 0, 1, 9])
        q = ((1 - M**2) * A**2 + M**2 * gain) / (1 - (1 - A**2) * (1 - M**2))
        second = (1 - M**2) + M**2 * chi / ((1 - A**2) * q + A**2)
        typed = float(mp.log((1 - A**2) * second)), float(mp.log((1 - A**2 + A**2 / q) * second))
        assert found == pytest.approx(typed, abs=1e-9)
        assert typed == pytest.approx(published, abs=6e-5)


# -- residual perceptrons and norms: theory.md 6 ------------------------------------------------------------------------------------------


def test_residual_perceptron_with_a_norm() -> None:
    """K* = (w^2 A + b^2)/(1 - mu^2), chi* = mu^2 + (1 - mu^2) w^2 C/(w^2 A + b^2)"""
    net = mf.residual_mlp(mf.erf, norm=NORM, skip=0.8)
    run = mf.propagate(net, 400, 1.0, c=0.3, sigma_w=1.3, sigma_b=0.4)
    A, C = (float(e.subs(mf.q, 1)) for e in (mf.erf.second_moment(mf.q), mf.erf.derivative.second_moment(mf.q)))
    branch = 1.69 * A + 0.16
    assert run.q[-1] == pytest.approx(branch / 0.36, rel=1e-12)
    assert run.chi[-1] == pytest.approx(0.64 + 0.36 * 1.69 * C / branch, rel=1e-12)


#: theory.md 0.1: E phi'^2/Var phi
BATCH_NORM = {"silu": 1.21208111475711, "gelu": 1.31884497086562, "relu": np.pi / (np.pi - 1), "tanh": 1.17780723230418}


def test_batch_norm_by_formula() -> None:
    with mp.workdps(45):
        for q, p in POINTS:
            found, v = numbers(mf.BatchNorm(), q, p), mp.mpf(q) - mp.mpf(p)
            truth: Numbers = {"q": 1, "p": 0, "delta": 1, "mean": 0, "JJ": 1 / v, "JK": -1 / v, "KJ": 0, "KK": 0, "chi": 1 / v}
            assert all(close(found[key], truth[key]) for key in KEYS)


@pytest.mark.parametrize("name", BATCH_NORM)
def test_batch_norm_multiplies_gradients(name: str) -> None:
    net = mf.Activate(mf.activations[name]) >> mf.Linear(1.3, 0.2) >> mf.BatchNorm()
    run = mf.propagate(net, 5, 1.0, c=0.0)
    assert run.log_apjn[0] == pytest.approx(5 * np.log(BATCH_NORM[name]), rel=1e-12)


def test_batch_norm_takes_the_shared_gradient_away() -> None:
    """a gradient that is the same on all inputs of a batch does not pass; the variance is that within the batch"""
    net = mf.Linear(1, 0) >> mf.BatchNorm()
    run = mf.propagate(net, 1, 2.0, c=0.4, start="pooled")
    assert run.status == "negative APJN" or run.log_apjn[0] == -np.inf
    mlp = mf.mlp(mf.relu, 1.2, 0.3) >> mf.BatchNorm()
    q, p = mp.mpf(2), mp.mpf("0.8")
    v = mp.mpf("1.44") * (q / 2 - arc_cosine(1, q, p, q))
    assert mf.propagate(mlp, 1, 2.0, c=0.4).chi[0] == pytest.approx(float(mp.mpf("0.72") / v), rel=1e-13)


def test_dropout_by_formula() -> None:
    """theory.md 7: the square of a token gains 1/(1 - rate), products of two do not"""
    with mp.workdps(45):
        for q, p in POINTS:
            found, g = numbers(mf.Dropout(), q, p, rate=0.2), mp.mpf(5) / 4
            truth: Numbers = {"q": g * q, "p": p, "delta": g * q - p, "mean": 0, "JJ": g, "JK": 0, "KJ": 0, "KK": 1, "chi": g}
            assert all(close(found[key], mp.mpf(truth[key])) for key in KEYS)
    same_law(mf.Dropout(0), mf.Identity())
    dropped = mf.pre_norm(norm=NORM, attention=mf.UniformAttention(4, 1, 1) >> mf.Dropout(0.1), mlp=RELU)
    run = mf.propagate(dropped, 3000, 1.0, c=0.3, sigma_1=1, sigma_2=1, record="last")
    assert run.gap[0] > 0.05, "dropout keeps tokens apart"


# -- refusals -----------------------------------------------------------------------------------------------------------------------------

NONSENSE = {
    "mixing beside a skip": (lambda: mf.Residual(NORM >> mf.TokenMixing(n=4)), "end it with a Linear"),
    "two mixings in parallel": (lambda: mf.TokenMixing(n=4) + mf.TokenMixing(n=4), "end them with a Linear"),
    "Derf as post-norm": (lambda: mf.post_norm(norm=mf.Derf(), attention=mf.Attention(), mlp=RELU), "insert a Linear before it"),
    "BatchNorm behind an activation": (lambda: mf.Activate(mf.tanh) >> mf.BatchNorm(), "insert a Linear before it"),
    "an activation behind dropout": (lambda: mf.Dropout(0.1) >> mf.Activate(mf.tanh), "insert a Linear before it"),
    "two numbers of tokens": (lambda: mf.Residual(mf.Attention(4)) >> mf.Residual(mf.Attention(8)), "n = 4 and n = 8 tokens: give all"),
    "tokens of unknown number": (lambda: mf.UniformAttention(4) + mf.CausalAttention(), "n = 4 and n = n tokens: give all"),
    "a mean that a skip would carry": (lambda: mf.Residual(mf.Linear(1, 0) >> mf.Activate(mf.relu)), "end it with a Linear"),
    "a norm of nothing": (lambda: mf.Scale(0) >> NORM, "q is undefined"),
    "BatchNorm of equal tokens": (lambda: mf.UniformAttention(n=4) >> mf.BatchNorm(), "q is undefined"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused_while_building(name: str) -> None:
    build, words = NONSENSE[name]
    with pytest.raises(ValueError, match=words):
        build()


def test_what_vanished_may_come_back() -> None:
    """by biases, and nothing else of it is refused"""
    assert mf.Scale(0) >> mf.Linear(1, 0.3) >> NORM >> mf.Linear(1, 0)
    assert mf.UniformAttention(4) >> mf.Dropout(0.1) >> mf.Linear(1, 0) >> mf.BatchNorm()


def test_dropout_rate_is_held_against_its_range() -> None:
    for rate in (1, 1.5):
        with pytest.raises(ValueError, match=r"rate = .*it must be below 1"):
            mf.Dropout(rate)
    with pytest.raises(ValueError, match=r"rate = -0\.1.*at least 0"):
        mf.Dropout(-0.1)
    with pytest.raises(ValueError, match=r"rate = 1.*below 1"):
        mf.propagate(mf.Linear(1, 0) >> mf.Dropout(), 2, 1.0, rate=1.0)


def test_a_gain_needs_a_rule() -> None:
    class Own(mf.Linear):
        pass

    class Other(mf.Block):
        def law(self, signal: mf.Signal) -> mf.Law:
            return mf.Linear(1, 0).law(signal)

    assert mf.deep_norm(attention=mf.Attention(), mlp=Own(1, 0))
    with pytest.raises(TypeError, match=r"no rule puts a gain.*Other"):
        mf.deep_norm(attention=mf.Attention(), mlp=Other())


PARTS_OF = {"post_norm": ("norm", "attention", "mlp"), "deep_norm": ("attention", "mlp"), "sandwich_norm": ("norm", "attention", "mlp"),
            "parallel_block": ("norm", "attention", "mlp"), "rezero": ("attention", "mlp"), "downweighted": ("norm", "attention", "mlp"),
            "sas": ("norm", "mlp"), "sas_p": ("norm", "mlp"), "shaped_attention": ("norm", "mlp")}  # fmt: skip


@pytest.mark.parametrize("name", PARTS_OF)
def test_parts_must_be_blocks(name: str) -> None:
    good = {"norm": NORM, "attention": mf.Attention(), "mlp": RELU}
    for part in PARTS_OF[name]:
        arguments = {k: good[k] for k in PARTS_OF[name]} | {part: "relu"}
        with pytest.raises(TypeError, match=rf"{part} = 'relu': expected a block"):
            getattr(mf, name)(**arguments)


def test_an_activation_is_no_block() -> None:
    """on either side of >> the message says how it goes in"""
    for build in (lambda: mf.relu >> mf.Linear(), lambda: mf.Linear() >> mf.relu):
        with pytest.raises(TypeError, match=r">> = relu: expected a block.*mf.Activate\(phi\)"):
            build()


def test_covariances_that_tokens_cannot_have_are_refused() -> None:
    """whether their number is bound when it runs or in the block"""
    for net, values in ((mf.UniformAttention(10, 1, 1), {}), (mf.UniformAttention(None, 1, 1), {"n": 10})):
        with pytest.raises(ValueError, match="n = 10 tokens cannot all have that covariance"):
            mf.propagate(net, 3, 1.0, p=-0.2, **values)


# -- LaTeX --------------------------------------------------------------------------------------------------------------------------------


@cache
def every_architecture() -> dict[str, mf.Block]:
    parts = {"norm": NORM, "attention": mf.Attention(), "mlp": RELU}
    beta = sp.Symbol("beta")
    return {
        "residual perceptron": mf.residual_mlp(mf.gelu, norm=mf.BatchNorm(), scale=1 / sp.sqrt(mf.L)),
        "batch-normed perceptron": mf.mlp(mf.relu) >> mf.BatchNorm(),
        "post-norm": mf.post_norm(**parts, skip=sp.Symbol("mu")),
        "DeepNorm": mf.deep_norm(attention=mf.Attention(), mlp=RELU),
        "sandwich": mf.sandwich_norm(**parts),
        "parallel": mf.parallel_block(**parts, scale=1 / sp.sqrt(2 * mf.L)),
        "LayerScale": mf.layer_scale(**parts),
        "ReZero": mf.rezero(attention=mf.UniformAttention(), mlp=RELU, gain=sp.Symbol("g")),
        "dropout": mf.pre_norm(norm=NORM, attention=mf.Attention() >> mf.Dropout(), mlp=RELU >> mf.Dropout()),
        "Value-SkipInit": mf.value_skipinit(norm=NORM, mlp=RELU, beta=beta),
        "shaped attention": mf.shaped_attention(norm=NORM, mlp=RELU),
        "SAS": mf.sas(norm=NORM, mlp=RELU, scale=0.1),
        "SAS-P": mf.sas_p(norm=NORM, mlp=RELU, beta=beta),
    }


@cache
def formulas(name: str) -> str:
    return mf.latex(every_architecture()[name])


def test_stages_are_called_by_their_names() -> None:
    text = formulas("post-norm")
    assert r"\textbf{Attention, LayerNorm}" in text
    assert r"\textbf{MLP, LayerNorm}" in text
    for name in every_architecture():
        text = formulas(name)
        assert "Residual" not in text, name
        assert "Dummy" not in text, name
        assert "  " not in text, name


@pytest.mark.tex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_every_recursion_compiles(tmp_path: Path) -> None:
    parts = [f"\\section*{{{name}}}\n{formulas(name)}" for name in every_architecture()]
    (tmp_path / "all.tex").write_text(document(parts))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "undefined" not in done.stdout.lower()


@pytest.mark.parametrize("build", [mf.pre_norm, mf.post_norm, mf.parallel_block])
def test_without_attention_the_mlp_sublayer_is_left(build: Any) -> None:
    """as the command line's --no-attention: by its recursion"""
    whole, alone = (mf.recursion(build(norm=NORM, attention=attention, mlp=RELU)) for attention in (mf.Attention(), None))
    off = {s: 0 for s in whole.parameters if s.name == "sigma_O"}
    assert sp.simplify(whole.q.subs(off) - alone.q) == 0
    assert [s.name for s in alone.parameters] == ["sigma_1", "sigma_2"]


def test_gains_and_scales_without_attention() -> None:
    assert mf.sandwich_norm(norm=NORM, attention=None, mlp=RELU) == mf.Residual(NORM >> RELU >> NORM)
    assert mf.layer_scale(norm=NORM, attention=None, mlp=RELU, gamma=0.1) == mf.Residual(NORM >> RELU, 1, 0.1)
    assert mf.rezero(attention=None, mlp=RELU, gain=0.1) == mf.Residual(RELU, 1, 0.1)
    assert [s.name for s in mf.recursion(mf.deep_norm(attention=None, mlp=RELU)).parameters] == ["alpha_skip", "lam", "sigma_1", "sigma_2"]
    with pytest.raises(TypeError, match="mlp = None: expected a block"):
        mf.pre_norm(norm=NORM, attention=None, mlp=None)
