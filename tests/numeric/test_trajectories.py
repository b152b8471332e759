"""Runs over depth: the published numbers, every layer against an independent recursion, exact invariants, and what happens at the edges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import flint
import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import (
    ACTIVATIONS,
    ARB,
    FLOAT,
    MPF,
    VIT,
    Arithmetic,
    Normed,
    Trace,
    derf_norm,
    identity_norm,
    layer_norm,
    oracle_transformer,
    pair_moments,
    relative,
    trace,
    transformer,
    worst_layer,
)

import meanfield as mf
from meanfield.numeric import job, launch, store, threads, trajectory, ways, work
from meanfield.symbols import known

ALPHAS = np.linspace(0.1, 2, 20)
RELU = mf.mlp(mf.relu, sigma_b=0)


def vit(norm: str = "layer", depth: int = 128, softmax_derivative: bool = False, **changes: Any) -> mf.Run:
    start = {k: changes.pop(k) for k in ("p", "c", "gap") if k in changes} or {"p": 0.4}
    return mf.propagate(transformer(norm, softmax_derivative), depth, changes.pop("q", 1.0), **start, **{**VIT, **changes})


def oracle(
    norm: Callable[[Arithmetic, Any, Any], Normed],
    depth: int = 128,
    ar: Arithmetic = MPF,
    softmax_derivative: bool = False,
    pooled: int = 0,
    p: Any = 0.4,
    **changes: Any,
) -> Trace:
    net = oracle_transformer(ar, norm, softmax_derivative, **changes)
    q, p = ar.number(1), ar.number(p)
    return trace(net.states(depth, q, p), q, p, pooled)


# -- the numbers of the issue -----------------------------------------------------------------------------------------------------------

PUBLISHED = {
    ("layer", None): (61.26706080, 53.57703090, 3.043429781, 21.155833385),
    ("derf", 0.5): (37.02808986, 28.43901395, 4.038141188, 57.045940760),
    ("derf", 1.1): (47.02490055, 32.99418316, 7.782396875, 2409.520866832),
}


@pytest.mark.parametrize(("norm", "alpha"), PUBLISHED)
def test_published_numbers(norm: str, alpha: float | None) -> None:
    run = vit(norm, **({} if alpha is None else {"alpha": alpha}))
    q, p, chi, apjn = PUBLISHED[norm, alpha]
    assert run.status == "ok"
    assert abs(run.q[-1] - q) < 5.1e-9
    assert abs(run.p[-1] - p) < 5.1e-9
    assert abs(run.log_chi_product[0] - chi) < 5.1e-10
    assert abs(math.exp(run.log_apjn[0]) - apjn) < 5.1e-10
    assert abs(math.exp(run.log_apjn_forward[-1]) - apjn) < 5.1e-10


@pytest.mark.parametrize(
    ("norm", "q", "apjn"), [(mf.Derf(0.5), 15.003345, 31.0447), (mf.LayerNorm(), 28.0848, 28.0848)], ids=["derf", "layer"]
)
def test_published_toy_network(norm: Any, q: float, apjn: float) -> None:
    """q' = q + sigma_w^2 E phi^2, sigma_w = 0.46 (theory.md 4.3)"""
    run = mf.propagate(mf.Residual(norm >> mf.Linear(0.46, 0)), 128, 1.0)
    assert run.q[-1] == pytest.approx(q, abs=1e-6 if q < 20 else 1e-4)
    assert math.exp(run.log_apjn[0]) == pytest.approx(apjn, abs=1e-4)


def test_softmax_derivative_adds_little_at_the_published_setting() -> None:
    """theory.md 4.3, last column, leading order"""
    for (norm, alpha), about in {("layer", None): 21.18, ("derf", 0.5): 57.07, ("derf", 1.1): 2414.0}.items():
        run = vit(norm, softmax_derivative=True, **({} if alpha is None else {"alpha": alpha}))
        assert math.exp(run.log_apjn[0]) == pytest.approx(about, rel=1e-3)


# -- every layer -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("softmax_derivative", [False, True], ids=["value path", "softmax derivative"])
def test_every_layer_of_every_curve(softmax_derivative: bool) -> None:
    run = vit("derf", alpha=ALPHAS, softmax_derivative=softmax_derivative)
    assert run.q.shape == (20, 129)
    assert (run.status == "ok").all()
    with mp.workdps(40):
        for i, alpha in enumerate(ALPHAS):
            truth = oracle(derf_norm(alpha), softmax_derivative=softmax_derivative, alpha=alpha)
            assert worst_layer(run, truth, i) < 1e-12, alpha


@pytest.mark.parametrize("softmax_derivative", [False, True], ids=["value path", "softmax derivative"])
@pytest.mark.parametrize(("name", "norm"), [("layer", layer_norm), ("identity", identity_norm)], ids=["layer", "identity"])
def test_every_layer(name: str, norm: Any, softmax_derivative: bool) -> None:
    depth = 128 if name == "layer" else 8  # without a norm q doubles every other block, and the logits grow with q^2
    for n, p, s in ((197, 0.4, 0.64), (4, -0.2, 1.0), (2, 0.9, 1.0), (16, 0.0, 0.0)):
        changes = {"n": n, "sigma_Q": s, "sigma_K": 1.0, "sigma_O": 1.0}
        run = vit(name, depth, softmax_derivative, p=p, **changes)
        with mp.workdps(40):
            truth = oracle(norm, depth, softmax_derivative=softmax_derivative, p=p, **changes)
        assert run.status == "ok"
        assert worst_layer(run, truth) < 1e-12


def test_the_oracle_in_three_arithmetics() -> None:
    """float64, mpmath and arb agree to what float64 can hold"""
    with mp.workdps(40), flint.ctx.workdps(40):
        traces = [oracle(derf_norm(0.7), 32, ar) for ar in (FLOAT, MPF, ARB)]
    for a in traces:
        assert relative([float(v) for v in a.q], [float(v) for v in traces[1].q]) < 1e-13
        assert relative([float(v) for v in a.backward], [float(v) for v in traces[1].backward]) < 1e-13


def tanh_transformer(depth: int, alpha: float, q: float, p: float) -> Iterator[tuple[float, float, Any, float]]:
    """the DyT block with every expectation by panels (float64): E tanh(alpha u) tanh(alpha v) is E tanh tanh at alpha^2 q"""
    tanh = ACTIVATIONS["tanh"]
    scale = alpha * alpha

    def norm(ar: Arithmetic, q: float, p: float) -> Normed:
        f = pair_moments(tanh.f, scale * q, scale * (q - p), tanh.difference)
        g = pair_moments(tanh.df, scale * q, scale * (q - p))
        return Normed(f.product + f.gap, f.product, scale * (g.product + g.gap), scale * g.product)

    yield from oracle_transformer(FLOAT, norm).states(depth, q, p)


@pytest.mark.parametrize("alpha", [0.3, 1.4])
def test_dyt(alpha: float) -> None:
    depth = 12
    run = vit("dyt", depth, alpha=np.array([alpha]))
    truth = trace(tanh_transformer(depth, alpha, 1.0, 0.4), 1.0, 0.4)
    assert worst_layer(run, truth, 0) < 1e-12


def test_dyt_deep_is_subcritical() -> None:
    """ln J ~ sqrt(l/lambda), lambda = 9 pi B/(32 alpha^2 G^2) (theory.md 4.5): wrong quadrature at large q breaks this first"""
    B, G = 0.41312908, 0.67108864 / 2 + 0.16777216 / (1 + 196 * math.exp(-0.16777216 * (1 - 0.45943821)))
    run = vit("dyt", 4000, alpha=1.0, record=1000)
    slope = (run.log_apjn_forward[-1] - run.log_apjn_forward[1]) / (math.sqrt(4000) - math.sqrt(1000))
    assert slope == pytest.approx(1 / math.sqrt(9 * math.pi * B / (32 * G * G)), rel=0.03)


def test_multilayer_perceptrons() -> None:
    """q' = sigma_w^2 E phi^2 + sigma_b^2, c-map and chi by panels, tanh and silu"""
    for name in ("tanh", "silu"):
        phi = ACTIVATIONS[name]
        run = mf.propagate(mf.mlp(phi.activation), 6, 1.3, c=0.2, sigma_w=1.2, sigma_b=0.3)
        q, delta, log_chi = 1.3, 1.3 * 0.8, 0.0
        for layer in range(6):
            f, g = pair_moments(phi.f, q, delta, phi.difference), pair_moments(phi.df, q, delta)
            log_chi += math.log(1.44 * (g.product + g.gap))
            q, delta = 1.44 * (f.product + f.gap) + 0.09, 1.44 * f.gap
            assert run.q[layer + 1] == pytest.approx(q, rel=1e-13)
            assert run.gap[layer + 1] == pytest.approx(delta / q, rel=1e-13)
            assert run.log_apjn_forward[layer + 1] == pytest.approx(log_chi, abs=1e-13)


# -- depth -------------------------------------------------------------------------------------------------------------------------------

DEEP = [
    ("layer", layer_norm, 0.6, True),
    ("layer", layer_norm, 1e-30, False),
    ("derf", derf_norm(1.0), 0.6, False),
    ("derf", derf_norm(1.0), 1e-30, True),
]


@pytest.mark.parametrize(("name", "norm", "gap", "softmax_derivative"), DEEP, ids=["layer", "layer 1e-30", "derf", "derf 1e-30"])
def test_hundred_thousand_blocks(name: str, norm: Any, gap: float, softmax_derivative: bool) -> None:
    """1 - c to 1e-11 relative at every one of 100,000 blocks, against p itself in 150-digit balls; J, its log and chi too"""
    depth = 100_000
    alpha = {} if name == "layer" else {"alpha": 1.0}
    run = vit(name, depth, softmax_derivative, gap=gap, **alpha)
    assert run.status == "ok"
    gaps, qs, forward, chi = (np.empty(depth + 1) for _ in range(4))
    gaps[0], qs[0], forward[0] = gap, 1.0, 0.0
    with flint.ctx.workprec(512):
        net = oracle_transformer(ARB, norm, softmax_derivative)
        row: tuple[Any, Any] = (flint.arb(1), flint.arb(0))
        for l, (q, p, T, factor) in enumerate(net.states(depth, flint.arb(1), 1 - flint.arb(gap)), 1):
            row = ((row[0] * T[0][0] + row[1] * T[1][0]).mid(), (row[0] * T[0][1] + row[1] * T[1][1]).mid())
            gaps[l], qs[l], forward[l], chi[l] = float(1 - p / q), float(q), float(row[0].log()), float(factor)
    assert relative(run.gap, gaps) < 1e-11
    assert relative(run.q, qs) < 1e-11
    assert np.abs(run.log_apjn_forward - forward).max() < 1e-11 * max(1.0, forward[-1])
    assert abs(run.log_apjn[0] - forward[-1]) < 1e-11 * forward[-1]
    assert relative(run.chi, chi[1:]) < 1e-11


@pytest.mark.parametrize(("name", "norm", "gap", "softmax_derivative"), DEEP[1:3], ids=["layer 1e-30", "derf"])
def test_balls_agree_with_forty_digits(name: str, norm: Any, gap: float, softmax_derivative: bool) -> None:
    """the same oracle in mpmath with 40 digits of 1 - c, 1000 blocks"""
    with mp.workdps(40 + round(-2 * math.log10(gap))), flint.ctx.workprec(512):
        truth = oracle(norm, 1000, MPF, softmax_derivative, p=1 - mp.mpf(gap))
        balls = oracle(norm, 1000, ARB, softmax_derivative, p=1 - flint.arb(gap))
        for a, b, c, d in zip(truth.q, truth.p, balls.q, balls.p, strict=True):
            assert abs(float(1 - b / a) / float(1 - d / c) - 1) < 1e-15


def test_a_gap_below_every_double_of_p() -> None:
    """p = q (1 - 1e-30) is no double; the published law 1 - c ~ l^(-a/(a + w/2)) still shows"""
    run = vit("layer", 50_000, gap=1e-30, record=10_000)
    slope = np.diff(np.log(run.gap[1:])) / np.diff(np.log(run.layers[1:].astype(float)))
    a, w = 0.64**4, (0.64 * 1.28) ** 2
    assert slope[-1] == pytest.approx(-a / (a + w / 2), rel=1e-3)
    assert (run.c == 1.0).all()


# -- exact invariants --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("branch", [mf.MLP(mf.relu), mf.Linear(sigma_b=0) >> mf.Linear(1, 0)], ids=["relu", "identity"])
def test_apjn_of_a_homogeneous_pre_norm_net_is_a_ratio_of_variances(branch: mf.Block) -> None:
    values = {"sigma_1": 0.9, "sigma_2": 1.3} if any(s.name == "sigma_1" for s in mf.recursion(branch).parameters) else {"sigma_w": 1.2}
    run = mf.propagate(mf.Residual(mf.LayerNorm() >> branch), 500, 0.3, c=0.5, **values)
    assert relative(np.exp(run.log_apjn), run.q[-1] / run.q) < 1e-12
    assert relative(np.exp(run.log_apjn_forward), run.q / run.q[0]) < 1e-12
    assert np.abs(run.log_apjn - run.log_chi_product).max() < 1e-12


@pytest.mark.parametrize("start", ["token", "pooled"])
@pytest.mark.parametrize("norm", ["layer", "derf", "identity"])
def test_forward_and_backward_agree(norm: str, start: str) -> None:
    """J^{L,0} from both ends, over a grid that exercises n, sigma_QK and p"""
    n, s = np.meshgrid([1.0, 2.0, 5.0, 197.0], [0.0, 0.7, 1.5])
    alpha = {"alpha": 1.3} if norm == "derf" else {}
    changes = {**VIT, "n": n, "sigma_Q": s, **alpha}
    run = mf.propagate(transformer(norm, True), 40 if norm != "identity" else 4, 1.0, p=0.3, start=start, **changes)
    assert (run.status == "ok").all()
    assert np.abs(run.log_apjn[..., 0] - run.log_apjn_forward[..., -1]).max() < 1e-12


def test_one_token_attention_is_linear() -> None:
    """at n = 1 attention is W_O W_V: q and J of the net with two linear maps in its place; no p needed"""
    linear = mf.Linear(sp.Symbol("sigma_V"), 0) >> mf.Linear(sp.Symbol("sigma_O"), 0)
    plain = mf.Residual(mf.Derf() >> linear) >> mf.Residual(mf.Derf() >> mf.MLP(mf.relu))
    values = {k: v for k, v in VIT.items() if k[-1] in "VO12"}
    truth = mf.propagate(plain, 64, 1.0, alpha=0.8, **values)
    for softmax_derivative in (False, True):
        run = mf.propagate(transformer("derf", softmax_derivative), 64, 1.0, alpha=0.8, **{**VIT, "n": 1})
        assert relative(run.q, truth.q) < 1e-14
        assert np.abs(run.log_apjn - truth.log_apjn).max() < 1e-13
        assert np.abs(run.log_apjn_forward - truth.log_apjn_forward).max() < 1e-13
        with pytest.raises(AttributeError, match="single input"):
            _ = run.p


def test_pooled_start() -> None:
    """K_L = J_L: the oracle with column (1, 1); at n -> token-uniform gradients the pooled J exceeds the token one"""
    run = mf.propagate(transformer("layer", True), 32, 1.0, p=0.4, start="pooled", **VIT)
    with mp.workdps(40):
        truth = oracle(layer_norm, 32, softmax_derivative=True, pooled=1)
    assert worst_layer(run, truth) < 1e-12
    assert (run.log_apjn[:-1] > vit("layer", 32, True).log_apjn[:-1]).all()


def test_repeat_and_scale_of_depth() -> None:
    """Repeat(block, 4) at depth 32 is the block at depth 128; beta = 1/sqrt(L) gives q_L = (1 + g/L)^L"""
    four = mf.propagate(mf.Repeat(transformer("layer", True), 4), 32, 1.0, p=0.4, **VIT)
    one = vit("layer", 128, True, record=4)
    for name in ("q", "gap"):
        assert relative(getattr(four, name), getattr(one, name)) < 1e-13
    assert np.abs(four.log_apjn - one.log_apjn).max() < 1e-12
    net = mf.Residual(mf.Linear(1.5, 0), scale=1 / sp.sqrt(mf.L))
    for depth in (1, 7, 100):
        assert mf.propagate(net, depth, 1.0).q[-1] == pytest.approx((1 + 2.25 / depth) ** depth, rel=1e-13)
    run = mf.propagate(mf.Residual(mf.LayerNorm() >> mf.Linear(1, 0), scale=1 / sp.sqrt(mf.l + 1)), 50, 1.0)
    assert relative(run.q, 1 + np.concatenate([[0], np.cumsum(1 / np.arange(1.0, 51.0))])) < 1e-14


def test_a_thousand_repeats_between_two_maps() -> None:
    """first >> Repeat(block, 1000) >> last is a loop, with the numbers of the block at depth 1000 and of the maps around it"""
    block = transformer("derf", True)
    settings = {**VIT, "alpha": np.linspace(0.3, 1.2, 7)}
    run = mf.propagate(mf.Linear(1.3, 0) >> mf.Repeat(mf.Repeat(block, 250), 4) >> mf.Linear(0.7, 0), 1, 1.0, p=0.4, **settings)
    alone = mf.propagate(block, 1000, 1.69, p=0.4 * 1.69, record="last", **settings)
    assert (run.status == "ok").all()
    assert relative(run.q[:, -1], 0.49 * alone.q[:, 0]) < 1e-14
    assert relative(run.gap[:, -1], alone.gap[:, 0]) < 1e-14
    for name in ("log_apjn", "log_chi_product"):
        assert np.abs(getattr(run, name)[:, 0] - getattr(alone, name)[:, 0] - math.log(1.69 * 0.49)).max() < 1e-13
    with pytest.raises(ValueError, match="1002 layers"):
        _ = run.recursion.q
    with pytest.raises(ValueError, match="40 repeats inside"):
        mf.recursion(mf.Residual(mf.Repeat(mf.Linear(1, 0), 40)))


def test_overflow_inside_of_a_repeat() -> None:
    net = mf.Repeat(RELU, 40) >> mf.Linear(0.5, 0)
    run = mf.propagate(net, 10, 1.0, c=0.5, sigma_w=[1.0, 10.0])
    assert run.status.tolist() == ["ok", "overflow"]
    good = np.isfinite(run.q[1])
    assert good.tolist() == [True] * 5 + [False] * 6  # 50^176 < 1e300 < 50^177, a quarter lost after every 40 layers
    assert relative(run.q[1][good], (50.0**40 / 4) ** np.arange(5.0)) < 1e-12


# -- what a run returns ------------------------------------------------------------------------------------------------------------------


def columns(run: mf.Run) -> dict[str, np.ndarray]:
    names = ("q", "p", "c", "gap", "log_apjn", "log_apjn_forward", "log_chi_product")
    return {name: getattr(run, name) for name in names}


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_record_keeps_the_same_bits(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "PATIENCE", 10**9 if tier == "interpreted" else -1)
    every = columns(vit("derf", 101, True, alpha=0.7))
    for k in (1, 2, 7, 50, 101, 500):
        run = vit("derf", 101, True, alpha=0.7, record=k)
        kept = sorted({*range(0, 102, k), 101})
        assert run.layers.tolist() == kept
        assert run.chi.shape == (len(kept) - 1,)
        for name, values in columns(run).items():
            assert (values == every[name][kept]).all(), (k, name)
    last = vit("derf", 101, True, alpha=0.7, record="last")
    assert last.layers.tolist() == [101]
    for name in ("q", "p", "c", "gap", "log_apjn_forward"):
        assert (getattr(last, name) == every[name][-1:]).all(), name
    for name in ("log_apjn", "log_chi_product"):
        assert abs(getattr(last, name)[0] - every[name][0]) <= 1e-14 * abs(every[name][0]), name


def test_record_last_keeps_the_bits_of_the_product() -> None:
    """log_apjn of record="last" is the forward ln J^{L,0} of record="all", to the bit"""
    every, last = vit("derf", 101, alpha=0.7), vit("derf", 101, alpha=0.7, record="last")
    assert last.log_apjn[0] == every.log_apjn_forward[-1]
    assert last.log_chi_product[0] == pytest.approx(every.log_chi_product[0], rel=1e-14)


def test_chi_is_that_of_the_kept_layers() -> None:
    every, some = vit("layer", 20), vit("layer", 20, record=6)
    assert every.chi.shape == (20,)
    assert (some.chi == every.chi[[0, 6, 12, 18]]).all()
    assert np.abs(np.log(every.chi).sum() - every.log_chi_product[0]) < 1e-14
    sums = np.concatenate([np.cumsum(np.log(every.chi)[::-1])[::-1], [0.0]])
    assert np.abs(sums - every.log_chi_product).max() < 1e-13


def test_a_point_that_goes_bad_takes_no_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """to the end of the repeat, whose chi is one number; not on the way back either"""
    monkeypatch.setattr(work, "PATIENCE", 10**9)
    net = mf.mlp(mf.relu, sigma_b=0) >> mf.mlp(mf.relu, sigma_b=0)
    text = trajectory.kernel_of(mf.recursion(net), True).interpreted
    module, steps = store.interpreted(text), []
    step = module.step_0
    monkeypatch.setattr(module, "step_0", lambda *law: (steps.append(law[0]), step(*law))[1])
    run = mf.propagate(net, 1000, 1.0, p=0.5, sigma_w=1e20)  # q grows by 5e39 a layer
    assert run.status == "overflow"
    assert np.isfinite(run.q).sum() <= 5
    assert len(steps) <= 12


def test_tiers_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for tier, limit in (("interpreted", 10**9), ("compiled", -1)):
        monkeypatch.setattr(work, "PATIENCE", limit)
        for norm in ("layer", "derf"):
            found[tier, norm] = vit(norm, 128, True, **({"alpha": 1.1} if norm == "derf" else {}))
    for norm in ("layer", "derf"):
        a, b = columns(found["interpreted", norm]), columns(found["compiled", norm])
        for name in a:
            scale = np.maximum(np.abs(b[name]), 1.0 if name.startswith("log") else 1e-300)
            assert (np.abs(a[name] - b[name]) / scale).max() <= 1e-14, (norm, name)


def test_a_grid_point_does_not_know_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "PATIENCE", -1)
    together = columns(vit("derf", 64, True, alpha=ALPHAS, p=0.3))
    backwards = columns(vit("derf", 64, True, alpha=ALPHAS[::-1], p=0.3))
    square = columns(vit("derf", 64, True, alpha=ALPHAS.reshape(4, 5), p=0.3))
    alone = [columns(vit("derf", 64, True, alpha=a, p=0.3)) for a in ALPHAS]
    assert launch.lanes_of(trajectory.kernel_of(mf.recursion(transformer("derf")), True), 1000, 65) == launch.LONG > trajectory.BLOCK
    many = columns(vit("derf", 64, True, alpha=np.resize(ALPHAS, 1000), p=0.3))
    monkeypatch.setattr(launch, "CHUNK", 200)  # three points at a time
    chunks = columns(vit("derf", 64, True, alpha=ALPHAS, p=0.3))
    for name, values in together.items():
        assert (backwards[name][::-1] == values).all()
        assert (square[name].reshape(20, 65) == values).all()
        assert (chunks[name] == values).all()
        assert (many[name] == np.resize(values, (1000, 65))).all()
        assert (np.array([run[name] for run in alone]) == values).all()


def test_threads_share_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """the bits of one thread, whatever their number; an interrupt ends what is running"""
    monkeypatch.setattr(work, "PATIENCE", -1)
    monkeypatch.setattr(launch, "CHUNK", 64 * 64)
    settings = {"alpha": np.linspace(0.1, 2, 300), "p": 0.3}
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    alone = columns(vit("derf", 64, True, **settings))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    assert threads.processors() == 2
    monkeypatch.delenv("NUMBA_NUM_THREADS")
    assert threads.processors() == 3
    for name, values in columns(vit("derf", 64, True, **settings)).items():
        assert (values == alone[name]).all(), name
    monkeypatch.setattr(ways, "SOME", 0)
    monkeypatch.setattr(threads, "track", interrupted)
    with pytest.raises(KeyboardInterrupt):  # unless it stopped, this would take hours
        vit("derf", 10**10, True, record=10**9, **settings)


def interrupted(*_: Any) -> Iterator[Any]:
    raise KeyboardInterrupt
    yield


def test_shapes() -> None:
    alpha, n, q = np.linspace(0.2, 1, 3)[:, None, None], np.array([2.0, 9.0])[:, None], np.array([0.5, 1.0, 2.0, 4.0])
    run = mf.propagate(transformer("derf"), 5, q, c=0.25, alpha=alpha, **{**VIT, "n": n})
    assert run.q.shape == run.p.shape == run.c.shape == run.gap.shape == run.log_apjn.shape == (3, 2, 4, 6)
    assert run.log_apjn_forward.shape == run.log_chi_product.shape == (3, 2, 4, 6)
    assert run.chi.shape == (3, 2, 4, 5)
    assert run.status.shape == (3, 2, 4)
    point = mf.propagate(transformer("derf"), 5, 2.0, c=0.25, alpha=0.6, **{**VIT, "n": 9})
    assert relative(run.q[1, 1, 2], point.q) < 1e-14
    scalar = mf.propagate(transformer("derf"), 5, 2.0, c=0.25, alpha=0.6, **VIT)
    assert scalar.q.shape == (6,)
    assert scalar.status == "ok"
    assert (scalar.c == 1 - scalar.gap).all()
    assert relative(scalar.p, scalar.q * scalar.c) < 1e-15
    empty = mf.propagate(transformer("derf"), 5, np.array([]), c=0.25, alpha=0.6, **VIT)
    assert empty.q.shape == (0, 6)


def test_the_three_starts() -> None:
    by_p, by_c, by_gap = vit(p=0.25, q=0.5), vit(c=0.5, q=0.5), vit(gap=0.5, q=0.5)
    for name, values in columns(by_p).items():
        assert (values == columns(by_c)[name]).all()
        assert (values == columns(by_gap)[name]).all()


@pytest.mark.parametrize("record", ["all", "last", 3])
def test_depth_zero(record: Any) -> None:
    run = vit("layer", 0, q=2.0, record=record)
    assert run.layers.tolist() == [0]
    assert run.q.tolist() == [2.0]
    assert run.p == pytest.approx([0.4], rel=1e-15)
    assert run.log_apjn.tolist() == run.log_apjn_forward.tolist() == run.log_chi_product.tolist() == [0.0]
    assert run.chi.shape == (0,)
    assert run.status == "ok"


@pytest.mark.parametrize("depth", [65_535, 65_536, 65_537, 140_000])
def test_segments(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """beyond a segment of repeats transfers are recomputed: J^{L,l} = q_L/q_l must not see it"""
    monkeypatch.setattr(launch, "SEGMENT", 4096)
    monkeypatch.setattr(job, "AT_ONCE", 4096)
    net = mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu))
    run = mf.propagate(net, depth, 1.0, c=0.3, sigma_1=1.0, sigma_2=1.0, record=997)
    assert run.status == "ok"
    assert relative(run.q, 1 + run.layers / 2) < 1e-12
    assert np.abs(run.log_apjn - np.log(run.q[-1] / run.q)).max() < 1e-10
    assert np.abs(run.log_apjn - run.log_chi_product).max() < 1e-10
    mixed = vit("layer", depth, True, record=9973)
    assert abs(mixed.log_apjn[0] - mixed.log_apjn_forward[-1]) < 1e-10


def test_segments_keep_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "SEGMENT", 4096)
    every, some = vit("layer", 70_000, True), vit("layer", 70_000, True, record=7)
    for name, values in columns(some).items():
        assert (values == columns(every)[name][some.layers]).all(), name


# -- statuses ----------------------------------------------------------------------------------------------------------------------------


def finite_or_marked(run: mf.Run) -> None:
    """no NaN in a run that says ok; in any other run q is finite and right up to the end and NaN after it"""
    for i, word in enumerate(np.ravel(run.status)):
        q = run.q.reshape(-1, run.q.shape[-1])[i]
        if word in ("ok", "gap underflow", "negative APJN"):
            assert np.isfinite(q).all(), word
        else:
            bad = np.isnan(q)
            assert bad[-1], word
            assert (np.diff(bad.astype(int)) >= 0).all(), word


@pytest.mark.parametrize("record", ["all", "last", 100])
def test_overflow(record: Any) -> None:
    run = mf.propagate(RELU, 1000, 1.0, c=0.5, sigma_w=10, record=record)
    assert run.status == "overflow"
    finite_or_marked(run)
    if record == "all":
        good = np.flatnonzero(np.isfinite(run.q))
        assert len(good) == 177  # 50^176 < 1e300 < 50^177
        assert relative(run.q[good], 50.0**good) < 1e-12
        assert np.isfinite(run.gap[good]).all()
        assert relative(run.log_apjn_forward[good[1:]], good[1:] * math.log(50)) < 1e-12


def test_gap_beyond_the_squares_of_doubles() -> None:
    """where q^2 is no double c is what it is at smaller variances, and never cut off at -1"""
    large, small = (mf.propagate(mf.mlp(mf.gelu), 20, q, c=0.5, sigma_w=2.0, sigma_b=0.1) for q in (1e152, 1e60))
    assert large.status == "ok"
    assert relative(large.gap, small.gap) < 1e-12


@pytest.mark.parametrize("record", ["all", "last", 100])
def test_underflow(record: Any) -> None:
    run = mf.propagate(RELU, 1000, 1.0, c=0.5, sigma_w=0.1, record=record)
    assert run.status == "underflow"
    finite_or_marked(run)


def test_variances_keep_their_digits_down_to_where_eight_decades_are_left() -> None:
    """a repeat that makes 1e-6 q of q on its way is exact at 1.1e-300, and would not be at 1e-304"""
    small = mf.mlp(mf.Activation(mf.x / 1000))
    for net, weight in ((mf.mlp(mf.relu), 2**0.5), (small, 1000.0)):
        run = mf.propagate(net, 50, np.array([1.1e-300, 0.9e-300]), c=0.5, sigma_w=weight, sigma_b=0)
        assert run.status.tolist() == ["ok", "underflow"]
        assert run.q[0] == pytest.approx(np.full(51, 1.1e-300), rel=1e-14, abs=0)
        scaled = mf.propagate(net, 50, 1.1, c=0.5, sigma_w=weight, sigma_b=0)
        assert run.gap[0] == pytest.approx(scaled.gap, rel=1e-13)


@pytest.mark.parametrize("phi", [mf.erf, mf.tanh, mf.relu], ids=repr)
def test_gap_underflow(phi: mf.Activation) -> None:
    """an ordered network: 1 - c leaves the doubles, and says so, while q and J stay right"""
    run = mf.propagate(mf.mlp(phi), 3000, 1.0, c=0.5, sigma_w=0.5, sigma_b=0.3, record=500)
    assert run.status == "gap underflow"
    finite_or_marked(run)
    assert np.isfinite(run.log_apjn).all()
    assert np.isfinite(run.gap).all()
    chi = mf.evaluate(phi.derivative.second_moment(mf.q), q=run.q[-1]) / 4 if phi != mf.relu else 0.125
    assert run.log_apjn[-2] == pytest.approx(500 * math.log(chi), rel=1e-10)


def test_a_grid_of_fates() -> None:
    run = mf.propagate(RELU, 1000, 1.0, c=0.5, sigma_w=[0.1, math.sqrt(2), 10.0])
    assert run.status.tolist() == ["underflow", "ok", "overflow"]
    finite_or_marked(run)
    assert relative(run.q[1], np.ones(1001)) < 1e-12


def test_jumps_have_no_gradient() -> None:
    """E sign'^2 is infinite: the run says so"""
    for name in ("sign", "step"):
        run = mf.propagate(mf.mlp(mf.activations[name]), 3, 1.0, c=0.5, sigma_w=1.0, sigma_b=0.5)
        assert run.status == "infinite APJN"
        assert not np.isfinite(run.log_apjn[0])
        assert np.isfinite(run.q).all()
        assert np.isfinite(run.gap).all()


OPPOSITE = {
    "derf relu": mf.Residual(mf.Derf() >> mf.MLP(mf.relu, 1, 1)),
    "derf erf": mf.Residual(mf.Derf() >> mf.MLP(mf.erf, 1, 1)),
    "dyt relu": mf.Residual(mf.DyT() >> mf.MLP(mf.relu, 1, 1)),
    "dyt tanh": mf.Residual(mf.DyT() >> mf.MLP(mf.tanh, 1, 1)),
    "layer relu": mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu, 1, 1)),
}


@pytest.mark.parametrize("name", OPPOSITE)
@pytest.mark.parametrize("c", [-1.0, 0.0, 1.0])
def test_ends_of_the_range_of_c(name: str, c: float) -> None:
    """p = -q and p = q are starts like any other: rounding must not push delta beyond 2 q~"""
    draw = np.random.default_rng(1)
    alpha = {} if name.startswith("layer") else {"alpha": draw.uniform(0.1, 2, 300)}
    run = mf.propagate(OPPOSITE[name], 3, draw.uniform(0.01, 5, 300), c=c, **alpha)
    assert (run.status == "ok").all()
    assert (run.gap <= 2).all()
    if c == 1:
        assert (run.gap == 0).all()
    if c == -1 and name in ("derf erf", "dyt tanh"):
        assert (np.abs(run.gap - 2) < 1e-14).all()


def test_two_opposite_tokens() -> None:
    for norm in ("layer", "derf"):
        draw = np.random.default_rng(2)
        alpha = {} if norm == "layer" else {"alpha": draw.uniform(0.1, 2, 300)}
        run = vit(norm, 3, True, q=draw.uniform(0.01, 5, 300), c=-1.0, n=2, **alpha)
        assert (run.status == "ok").all()


@pytest.mark.parametrize(("norm", "p", "sigma"), [("derf", 0.3, 20.0), ("identity", 0.3, 3.0), ("layer", -0.9, 30.0)])
def test_sharp_softmax(norm: str, p: float, sigma: float) -> None:
    """weights so large that the softmax is one-hot: e^(s q D) is no double, the recursion's numbers are"""
    changes = {"n": 2, "sigma_Q": sigma, "sigma_K": sigma}
    run = vit(norm, 10, True, p=p, **changes, **({"alpha": 1.0} if norm == "derf" else {}))
    assert run.status in ("ok", "negative APJN")
    with mp.workdps(60):
        typed = {"derf": derf_norm(1.0), "identity": identity_norm, "layer": layer_norm}[norm]
        truth = oracle(typed, 10, softmax_derivative=True, p=p, **changes)
    assert relative(run.q, [float(v) for v in truth.q]) < 1e-12
    assert relative(run.p, [float(v) for v in truth.p]) < 1e-11


@pytest.mark.parametrize("q", [1e-120, 1e290])
def test_extreme_variances(q: float) -> None:
    for norm in ("layer", "derf"):
        run = vit(norm, 20, q=q, c=0.4, **({"alpha": 1.0} if norm == "derf" else {}))
        assert run.status == "ok"
        assert np.isfinite(run.log_apjn).all()
        assert run.gap[0] == pytest.approx(0.6, rel=1e-15)
    if q > 1:
        assert (run.q == q).all()


def test_zero_weights() -> None:
    """a dead branch changes nothing; a dead layer leaves the bias, and no gradient"""
    run = vit("layer", 10, sigma_V=0.0, sigma_2=0.0)
    assert (run.q == 1.0).all()
    assert (run.log_apjn == 0.0).all()
    run = mf.propagate(mf.mlp(mf.relu), 5, 1.0, sigma_w=0.0, sigma_b=0.5)
    assert run.q.tolist() == [1.0] + [0.25] * 5
    assert (run.log_apjn[:-1] == -math.inf).all()


@pytest.mark.parametrize("q", [1e150, 1e160, 1e200, 2e299])
@pytest.mark.parametrize("net", [mf.mlp(mf.erf), mf.residual_mlp(mf.erf)], ids=["plain", "residual"])
def test_a_product_of_radicands_does_not_overflow(net: mf.Block, q: float) -> None:
    """E erf(u) erf(v) = (2/pi) arcsin(2 p/(1 + 2 q))  (Williams 1997)"""
    run = mf.propagate(net, 1, q, c=0.5, sigma_w=1.3, sigma_b=0.1)
    skip = int(isinstance(net, mf.Residual))
    with mp.workdps(700):
        w, b, v = mp.mpf(1.3) ** 2, mp.mpf(0.1) ** 2, mp.mpf(q)
        second, product = (skip * r + w * 2 / mp.pi * mp.asin(2 * r / (1 + 2 * v)) + b for r in (v, v / 2))
        gap = float((second - product) / second)
        chi = float(skip + w * 4 / mp.pi / mp.sqrt(1 + 4 * v))
    assert run.status == "ok"
    assert run.q[1] == pytest.approx(float(second), rel=1e-14)
    assert run.gap[1] == pytest.approx(gap, rel=1e-14)
    assert run.chi[0] == pytest.approx(chi, rel=1e-14)


@pytest.mark.parametrize("free", [{}, {"sigma_b": 0.3}, {"sigma_w": 1.1, "sigma_b": 0.3}], ids=len)
def test_a_state_that_parameters_alone_decide(free: dict[str, float]) -> None:
    """behind a batch norm: q' = sigma_w^2/2 + sigma_b^2 and p' = sigma_w^2/(2 pi) + sigma_b^2 from any pair, one that is equal too"""
    bound = {"sigma_w": sp.Rational(11, 10), "sigma_b": sp.Rational(3, 10)}
    weights = {name: value for name, value in bound.items() if name not in free}
    net = mf.BatchNorm() >> mf.Activate(mf.relu) >> mf.Linear(**weights)
    for start in ({"c": 1}, {"gap": 0.4}, {"c": [1, 0.2]}):
        run = mf.propagate(net, 3, 2.0, **start, **free)
        assert run.q[..., 1:] == pytest.approx(1.21 / 2 + 0.09, rel=1e-14)
        assert run.p[..., 1:] == pytest.approx(1.21 / (2 * np.pi) + 0.09, rel=1e-13)


@pytest.mark.parametrize("phi", [mf.Activation(mf.x**2), mf.Activation(sp.Abs(mf.x)), mf.gauss], ids=str)
def test_opposite_inputs_are_one_behind_an_even_function(phi: mf.Activation) -> None:
    """q - p = 0 is exact there, and no underflow as that of inputs next to each other is"""
    net = mf.mlp(phi)
    run = mf.propagate(net, 3, 1.0, c=np.array([-1.0, -0.5]), sigma_w=1.0, sigma_b=0.1)
    assert run.status.tolist() == ["ok", "ok"]
    assert run.gap[0].tolist() == [2.0, 0.0, 0.0, 0.0]
    behind = mf.Activate(mf.tanh) >> mf.Linear() >> net
    odd = mf.propagate(behind, 1, 1.0, c=-1.0, sigma_w=1.0, sigma_b=np.array([0.0, 0.1]))
    assert odd.gap[0, -1] == 0.0 < odd.gap[1, -1]
    assert odd.status.tolist() == ["ok", "ok"]
    assert mf.propagate(mf.mlp(mf.tanh), 9, 1.0, gap=1e-299, sigma_w=0.1, sigma_b=0.1).status == "gap underflow"
    assert mf.propagate(mf.mlp(mf.tanh), 9, 5e-324, gap=0.5, sigma_w=0.1, sigma_b=0.1).status == "gap underflow"  # q (1 - c) is no double


@pytest.mark.parametrize(
    "phi",
    [sp.tanh(mf.x), mf.x - sp.tanh(mf.x), mf.x / (1 + sp.Abs(mf.x)), sp.Max(-1, sp.Min(1, mf.x)), sp.tanh(known("alpha") * mf.x)],
    ids=str,
)
def test_opposite_inputs_of_an_odd_function_stay_opposite(phi: sp.Expr) -> None:
    """to the bit, from tables and by quadrature"""
    draw = np.random.default_rng(1)
    alpha = {"alpha": draw.uniform(0.1, 2, 50)} if phi.free_symbols != {mf.x} else {}
    run = mf.propagate(mf.mlp(mf.Activation(phi), sigma_b=0), 3, draw.uniform(0.01, 5, 50), c=-1.0, sigma_w=1.3, **alpha)
    assert (run.status == "ok").all()
    assert (run.gap == 2).all()


@pytest.mark.parametrize("phi", [sp.Abs(mf.x), sp.Abs(mf.x) ** 3, mf.x * sp.erf(mf.x), mf.x * sp.tanh(mf.x)], ids=str)
def test_opposite_inputs_of_an_even_function_are_one(phi: sp.Expr) -> None:
    """to the bit, whatever the variance: closed forms left 3e-16 to 2e-15"""
    run = mf.propagate(mf.mlp(mf.Activation(phi), sigma_b=0), 1, np.random.default_rng(1).uniform(0.01, 5, 200), c=-1.0, sigma_w=1.0)
    assert (run.status == "ok").all()
    assert (run.gap[:, 1] == 0).all()


OF_ITS_OWN = mf.Activation(mf.x / (1 + sp.exp(-2 * mf.x)) + sp.atan(mf.x))


@pytest.mark.parametrize("phi", [mf.silu, mf.tanh, OF_ITS_OWN], ids=["silu", "tanh", "own"])
def test_single_runs_from_independent_tokens(phi: mf.Activation) -> None:
    """q - p = q is brought beyond q by rounding of weight scales: the gap of the next layer is asked for at its bound"""
    for q in np.linspace(0.1, 3.0, 40):
        run = mf.propagate(mf.MLP(phi), 2, q=q, p=0.0, sigma_1=0.55, sigma_2=0.45)
        assert run.status == "ok"
        of_means = 0.45**2 * mf.evaluate(phi.mean(mf.q), q=0.55**2 * q) ** 2
        assert run.p[1] == pytest.approx(of_means, rel=1e-12, abs=1e-14 * run.q[1])


def test_a_gap_of_inputs_of_little_variance_keeps_its_digits() -> None:
    """where q is next to the smallest that a run knows, q - p is below it though 1 - c is not"""
    for q in (1e-299, 1e-300):
        run = mf.propagate(mf.mlp(mf.tanh), 1, q, gap=0.5, sigma_w=1.2, sigma_b=0.0)
        assert run.status == "ok"
        assert run.gap[-1] == pytest.approx(0.5, rel=1e-14)
    lost = mf.propagate(mf.mlp(mf.tanh), 1, np.full(2, 1e-295), gap=np.array([1e-12, 1e-15]), sigma_w=1.2, sigma_b=0.0)
    assert lost.status.tolist() == ["ok", "gap underflow"]


def test_a_single_token_has_no_covariance_with_another() -> None:
    """q and J are those of a single input; where a grid has more tokens, too, p, c and 1 - c are nan of the one"""
    net, sigma = mf.Attention(), {f"sigma_{name}": 1.1 for name in "QKVO"}
    alone = mf.propagate(net, 4, 1.0, n=1, **sigma)
    for start in ({"p": 0.3}, {"c": 1.0}, {"gap": 0.5}):
        run = mf.propagate(net, 4, 1.0, n=1, **start, **sigma)
        grid = mf.propagate(net, 4, 1.0, n=np.array([1.0, 2.0]), **start, **sigma)
        assert run.status == "ok"
        assert grid.status.tolist() == ["ok", "ok"]
        for found in (run.p, run.c, run.gap, run.gradient_correlation, grid.p[0], grid.gap[0]):
            assert np.isnan(found).all()
        assert np.isfinite(grid.gap[1]).all()
        for name in ("q", "log_apjn", "log_apjn_forward", "chi"):
            np.testing.assert_allclose(getattr(run, name), getattr(alone, name), rtol=1e-14, atol=1e-14)
            np.testing.assert_allclose(getattr(grid, name)[0], getattr(alone, name), rtol=1e-14, atol=1e-14)


def test_layers_are_counted_before_they_are_an_array() -> None:
    with pytest.raises(ValueError, match=r"1000000000001 layers.*record='last'"):
        mf.propagate(mf.mlp(mf.erf), 10**12, 1.0, record=range(10**12), sigma_w=1.2, sigma_b=0.1)
