"""How q and ln J scatter over draws of random networks, and the figure that shows it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import meanfield as mf

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

WIDTH, DEPTH, DRAWS = 128, 5, 250


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


NORM = mf.LayerNorm()
SIGMAS = {"sigma_w": 1.5, "sigma_b": 0.3}
#: network, parameters, inputs in a set, sets, hidden units in widths
NETS = {
    "relu": (mf.mlp(mf.relu, 2**0.5, 0), {}, 1, 1, 1),
    "relu, biases, pairs": (mf.mlp(mf.relu, 1.2, 0.5), {}, 4, 2, 1),
    "tanh": (mf.mlp(mf.tanh), SIGMAS, 1, 1, 1),
    "tanh, pairs": (mf.mlp(mf.tanh), SIGMAS, 4, 2, 1),
    "pre-norm, linear": (mf.Residual(NORM >> mf.Linear(1.2, 0.3)), {}, 4, 2, 1),
    "pre-norm, more hidden units": (mf.Residual(NORM >> mf.MLP(mf.relu, 2**0.5, 1), skip=0.9), {}, 4, 1, 2),
    "pre-norm, fewer hidden units": (mf.Residual(mf.RMSNorm() >> mf.MLP(mf.gelu, 1.5, 1.4, 0.2, 0.1), scale=1 / mf.L**0.5), {}, 1, 1, 0.5),
    "post-norm": (mf.Residual(mf.MLP(mf.gelu, 1.5, 1.4)) >> NORM, {}, 4, 1, 1),
    "derf": (mf.Residual(mf.Derf(1.2) >> mf.Linear(1.1, 0)), {}, 4, 1, 1),
    "dyt, more hidden units": (mf.Residual(mf.DyT(0.8) >> mf.MLP(mf.relu, 1.4, 1.2), skip=0.9), {}, 4, 2, 2),
    "relu of the sum": (mf.Residual(mf.Activate(mf.relu) >> mf.Linear(1, 0.2), skip=-1), {}, 1, 1, 1),
    "tanh of a norm": (mf.Residual(mf.Activate(mf.tanh) >> mf.Linear(1.5, 0.2)) >> NORM >> mf.Scale(1.3), {}, 2, 1, 1),
    "no norm": (mf.Residual(mf.MLP(mf.tanh, 1.2, 1.1), scale=0.7) >> mf.Scale(0.9), {}, 4, 1, 1),
}


ATTENTION = mf.Attention(4, 1.1, 1, 1.1, 0.9)
GELU = mf.MLP(mf.gelu, 1.3, 1.2, 0.2, 0.1)
SHAPED = {"n": 4, "alpha": 0.9, "beta": 0.8, "gamma": 0.6, "sigma_K": 0.7}
UNIT = mf.GAU(mf.tanh, s=48, n=8, d=WIDTH, e=2 * WIDTH, lam=1.5)
#: network, tokens, sets, heads, gradient start, hidden units in widths
MIXING = {
    "pre-norm": (mf.pre_norm(norm=NORM, attention=ATTENTION, mlp=GELU, skip=0.9, scale=0.8), 4, 2, 8, "token", 2),
    "pre-norm, one head, pooled": (mf.pre_norm(norm=NORM, attention=ATTENTION, mlp=GELU), 4, 1, 1, "pooled", 1),
    "post-norm": (mf.post_norm(norm=NORM, attention=mf.Attention(8, 1, 1, 1, 1), mlp=mf.MLP(mf.relu, 1.4, 1)), 8, 1, 4, "token", 1),
    "derf, gated": (mf.pre_norm(norm=mf.Derf(0.9), attention=ATTENTION, mlp=mf.SwiGLU(1.4, 1, 1)), 4, 2, 4, "token", 1),
    "parallel, sandwich": (
        mf.parallel_block(norm=NORM, attention=ATTENTION >> mf.RMSNorm(), mlp=GELU >> mf.RMSNorm(), skip=0.9), 4, 2, 8, "token", 1
    ),
    "shaped": (mf.shaped_attention(norm=NORM, mlp=GELU, sigma_Q=0.7, sigma_V=1.1, sigma_O=1, skip=0.9, **SHAPED), 4, 2, 8, "token", 1),
    "sas": (mf.sas_p(norm=NORM, mlp=GELU, sigma_Q=0, **SHAPED), 4, 2, 1, "token", 1),
    "dropout": (mf.Residual(NORM >> mf.Linear(1.3, 0) >> mf.Activate(mf.relu) >> mf.Dropout(0.3) >> mf.Linear(1, 0)), 4, 1, 1, "token", 1),
    "gated attention units": (mf.Residual(NORM >> UNIT), 8, 1, 1, "token", 1),
}  # fmt: skip


def _compared(net, n, probes, hidden, draws=DRAWS, depth=DEPTH, heads=1, start="token", **values):
    """predicted and seen standard deviations of q and J"""
    from meanfield.reference.scatter import scatter

    c = {} if n == 1 else {"c": 0.4}
    options = {"tokens": n, "probes": probes, "hidden": hidden, "heads": heads, "pooled": start == "pooled"}
    found = scatter(net, WIDTH, depth, q=1.0, delta=0.6 if c else None, parameters=values, **options)
    twin = mf.reference.build(net, WIDTH, depth, q=1.0, n=n, hidden=hidden, heads=heads, dtype=torch.float32, **c, **values)
    seen = mf.reference.measure(twin, samples=draws, probes=probes, start=start, device="cpu")
    assert max(found.log_q[0], found.log_apjn[-1]) < 1e-7
    return found, *(e / m * math.sqrt(draws) for e, m in ((seen.q_error, seen.q), (seen.apjn_error, seen.apjn)))


@pytest.mark.parametrize("name", NETS)
def test_scatter_of_draws(name):
    """standard deviations of 250 draws are known to 4.5 %; 14 % are 3 of them, the rest is for the next order in depth/width"""
    net, values, n, probes, hidden = NETS[name]
    found, spread_q, spread_j = _compared(net, n, probes, hidden, **values)
    if name in ("post-norm", "tanh of a norm"):
        assert np.abs(found.log_q).max() < 1e-7
    else:
        assert found.log_q[1:] == pytest.approx(spread_q[1:], rel=0.22)
    assert found.log_apjn[:-1] == pytest.approx(spread_j[:-1], rel=0.22)


@pytest.mark.parametrize("name", MIXING)
def test_scatter_of_networks_that_mix_tokens(name):
    """the same; heads add as much as the width where they are few"""
    net, n, probes, heads, start, hidden = MIXING[name]
    found, spread_q, spread_j = _compared(net, n, probes, hidden, depth=2, heads=heads, start=start)
    if name == "post-norm":
        assert np.abs(found.log_q).max() < 1e-7
    else:
        assert found.log_q[1:] == pytest.approx(spread_q[1:], rel=0.22)
    assert found.log_apjn[:-1] == pytest.approx(spread_j[:-1], rel=0.22)


@pytest.mark.parametrize(("phi", "sigma_w", "factor"), [(mf.identity, 1.0, 2), (mf.relu, 2**0.5, 5)])
def test_homogeneous_layers(phi, sigma_w, factor):
    """2/n of a linear layer, 5/n of a ReLU layer in the gradient, so that ln J has the variance 2 L/n and 5 L/n (theory.md 6)"""
    from meanfield.reference.scatter import scatter

    values = {"sigma_w": sigma_w, "sigma_b": 0}
    found = scatter(mf.mlp(phi), 50, 8, q=1.0, delta=None, tokens=1, probes=1, parameters=values)
    assert found.log_apjn**2 == pytest.approx(factor * np.arange(8, -1, -1) / 50, rel=0.06)
    assert found.log_q**2 == pytest.approx(factor * np.arange(9) / 50, rel=0.06)


def test_what_is_not_predicted_is_named():
    from meanfield.reference.scatter import scatter

    for net, name in (
        (mf.Residual(mf.CausalAttention(2, 1, 1)), "FixedAttention"),
        (mf.Residual(mf.CausalAttention(2, 1, 1, sigma_Q=1, sigma_K=1)), "MaskedAttention"),
        (mf.sas(norm=NORM, mlp=GELU, sigma_Q=1, **{**SHAPED, "n": 2}), "TokenMixing with logits"),
        (mf.Linear(1, 0) >> mf.BatchNorm(), "BatchNorm"),
        (mf.Activate(mf.relu) >> mf.LayerNorm() >> mf.Linear(1, 0), "a norm"),
    ):
        with pytest.raises(ValueError, match=f"the scatter of {name}.* is not known"):
            scatter(net, 8, 2, q=1.0, delta=0.5, tokens=2, probes=1, parameters={})
    keep = {"width": 32, "depth": 2, "q": 1.0, "c": 0.5, "n": 2, "samples": 2, "device": "cpu"}
    other = mf.reference.compare(mf.mlp(mf.relu, 1, 0), draw=mf.reference.draws.orthogonal, **keep)
    with pytest.raises(ValueError, match="entries depend on each other"):
        other.scatter  # noqa: B018


def test_figure():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    values = {"sigma_w": 1.5, "sigma_b": 0.1}
    seen = mf.reference.compare(mf.mlp(mf.erf), 64, 3, q=1.0, c=0.5, n=4, samples=4, device="cpu", **values)
    for quantity, band in (("log_apjn", seen.scatter.log_apjn), ("q", seen.q.theory * seen.scatter.log_q), ("p", 2 * seen.p.error)):
        _, ax = pyplot.subplots()
        assert seen.plot(ax, quantity) is ax
        line, points = ax.lines[0], ax.containers[0].lines[0]
        theory = seen.differences["ln J" if quantity == "log_apjn" else quantity]
        assert np.array_equal(line.get_ydata(), theory.theory)
        assert np.array_equal(points.get_ydata(), theory.measured)
        edge = ax.collections[0].get_paths()[0].vertices[:, 1]
        assert edge.max() == pytest.approx((theory.theory + band).max())
        assert ax.get_title().replace("\n", " ") == seen.verdict
        pyplot.close(ax.figure)
    with pytest.raises(ValueError, match="quantity = 'chi'"):
        seen.plot(quantity="chi")
    net = mf.Residual(mf.CausalAttention(2, 1, 1))
    other = mf.reference.compare(net, 32, 2, q=1.0, c=0.5, samples=3, device="cpu")
    ax = other.plot(quantity="q")
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["one draw, as seen", "theory", "theory + 1/width", "measured"]
    pyplot.close(ax.figure)
