"""Gated blocks against random networks: |ln theory - ln measured| <= 3 standard errors + BIAS depth/width, at two widths."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

BIAS = 2.0


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


GATED = {
    "SwiGLU, pre-LN": mf.Residual(mf.LayerNorm() >> mf.SwiGLU(1.4, 1, 1)),
    "ReGLU, post-RMS": mf.Residual(mf.ReGLU(1, 1, 1)) >> mf.RMSNorm(),
    "gate by the input": mf.Residual(mf.RMSNorm() >> mf.Product(mf.Identity(), mf.Linear(1, 0) >> mf.Activate(mf.tanh)) >> mf.Linear(1, 0)),
}


@pytest.mark.parametrize("name", GATED)
def test_gated_units(name: str) -> None:
    seen = mf.reference.compare(GATED[name], width=256, depth=3, q=1.0, c=0.4, n=8, samples=12, probes=4, dtype=torch.float32, device="cpu")
    for d in seen.differences.values():
        off = np.abs(np.log(d.measured / d.theory)) if d is not seen.log_apjn else np.abs(d.measured - d.theory)
        scale = np.abs(d.measured) if d is not seen.log_apjn else 1.0
        assert (off <= 3 * d.error / scale + BIAS * 3 / 256).all()
    assert seen.agrees, seen


def test_hidden_units_are_gated():
    """the factors have the hidden units, what follows leads back; a factor without weights keeps the width"""
    twin = mf.reference.build(mf.SwiGLU(1, 1, 1), 8, 1, hidden=2.5, q=1.0, n=2, c=0.5, dtype=torch.float64)
    assert [tuple(w.shape) for w in twin.parameters()] == [(20, 8), (20, 8), (8, 20)]
    twin = mf.reference.build(mf.Product(mf.Identity(), mf.Linear(1, 0)) >> mf.Linear(1, 0), 8, 1, hidden=2.5)
    assert [tuple(w.shape) for w in twin.parameters()] == [(8, 8), (8, 8)]
    x = torch.randn(3, 8, dtype=torch.float64)
    first, second = twin.parameters()
    assert torch.allclose(twin(x), (x * (x @ first.T)) @ second.T)


#: gated attention units: activation, correlation, gain, tokens, features
UNITS = [(mf.silu, 0.0, 1.0, 16, 32), (mf.silu, 0.4, 1.0, 16, 32), (mf.tanh, 0.8, 1.5, 8, 64)]
#: the O(1/width) part: radial directions, which all three inputs of the product share; at most (degree 7)^2/width in the gradient
RADIAL = {"q": 8.0, "p": 8.0, "J": 30.0, "J pooled": 49.0}


@pytest.mark.parametrize("width", [128, 256])
@pytest.mark.parametrize(("phi", "c", "lam", "n", "s"), UNITS)
def test_gated_attention(phi, c, lam, n, s, width):
    net = mf.GAU(phi, s=s, n=n, d=width, e=2 * width, lam=lam)
    twin = mf.reference.build(net, width, 1, q=1.0, c=c, dtype=torch.float32, seed=width)
    found, theory = {}, {}
    for start, name in (("token", "J"), ("pooled", "J pooled")):
        seen = mf.reference.measure(twin, samples=300, probes=1, start=start, device="cpu", seed=width)
        run = mf.propagate(net, 1, q=1.0, c=c, start=start)
        found |= {"q": (seen.q[-1], seen.q_error[-1]), "p": (seen.p[-1], seen.p_error[-1]), name: (seen.apjn[0], seen.apjn_error[0])}
        theory |= {"q": run.q[-1], "p": run.p[-1], name: np.exp(run.log_apjn[0])}
    for name, (value, error) in found.items():
        assert error < 0.15 * value
        assert abs(np.log(value / theory[name])) <= 3 * error / value + RADIAL[name] / width, name


def test_gated_attention_without_its_coherent_part_is_no_match():
    """the diagonal estimate is below the networks by more than anything allowed for"""
    net = mf.GAU(mf.silu, s=32, n=64, d=256)
    twin = mf.reference.build(net, 256, 1, q=1.0, c=0.0, dtype=torch.float32, seed=0)
    seen = mf.reference.measure(twin, samples=50, probes=1, device="cpu")
    diagonal = mf.propagate(net.diagonal, 1, q=1.0, c=0.0)
    assert seen.q[-1] - 3 * seen.q_error[-1] > 1.5 * diagonal.q[-1]


def test_gated_attention_at_the_size_of_its_source():
    """RMS 0.0557 +- 2 % at s = 128, n = 512, d = 768, e = 1536, on independent Gaussian tokens, whose overlaps the law counts in"""
    net = mf.GAU(mf.silu, s=128, n=512, d=768, e=1536)
    torch.manual_seed(4)
    squares = []
    with torch.no_grad():
        for _ in range(4):
            twin = mf.reference.build(net, 768, 1, dtype=torch.float32)
            squares.append(float(twin(torch.randn(512, 768)).square().mean()))
    assert np.mean(squares) ** 0.5 == pytest.approx(0.0557, rel=0.02)
    assert np.mean(squares) ** 0.5 == pytest.approx(mf.propagate(net, 1, q=1.0, c=0.0).q[-1] ** 0.5, rel=0.02)


def test_gated_attention_with_hidden_units_of_its_own():
    net = mf.GAU(mf.silu, s=4, n=2, d=8, e=24)
    twin = mf.reference.build(net, 8, 1)
    assert sorted(tuple(w.shape) for w in twin.parameters()) == [(4, 8), (8, 24), (24, 8), (24, 8)]
    assert sorted(tuple(w.shape) for w in mf.reference.build(mf.GAU(mf.silu, s=4, n=2, d=8), 8, 1, hidden=2).parameters())[1] == (8, 16)


#: d of the law is without end: what the overlaps of a finite width add, goes with the rest of O(1/width)
SIZES = {"n": 8, "d": 10**9}
G = sp.Symbol("g", positive=True)


def pre_norm(unit: mf.Block) -> mf.Block:
    return mf.Residual(mf.LayerNorm() >> unit)


def post_norm(unit: mf.Block) -> mf.Block:
    return mf.Residual(unit) >> mf.LayerNorm()


#: network, its repeats, and the scale `g`: the branch of a residual is about as large as the skip
TANH, SILU = mf.GAU(mf.tanh, s=64, lam=G, **SIZES), mf.GAU(mf.silu, s=128, sigma_O=G, **SIZES)
GATED_ATTENTION = {
    "silu": (mf.GAU(mf.silu, s=64, lam=G, **SIZES), 1, 1.0),
    "tanh, pre-norm": (pre_norm(TANH), 2, 1.2),
    "tanh, post-norm": (post_norm(TANH), 2, 1.2),
    "silu, pre-norm": (pre_norm(SILU), 2, 0.4),
    "silu, post-norm": (post_norm(SILU), 2, 0.5),
}


@pytest.mark.parametrize("name", GATED_ATTENTION)
def test_gated_attention_by_the_z_scores_of_compare(name: str) -> None:
    """widths 128 and 64, hidden units twice that; sharp enough to notice a scale that is off"""
    net, depth, g = GATED_ATTENTION[name]
    options = {"q": 1.0, "c": 0.4, "samples": 240, "probes": 1, "hidden": 2, "dtype": torch.float32, "device": "cpu", "seed": 3}
    seen = mf.reference.compare(net, width=128, depth=depth, g=g, **options)
    assert seen.agrees, seen
    d = seen.log_apjn
    spread = np.abs(d.measured - d.bias - d.theory)[0] / np.abs(d.z[0])
    wrong = mf.propagate(net, depth, q=1.0, c=0.4, g=0.8 * g)
    assert np.abs(wrong.log_apjn - d.theory)[0] > seen.limit * spread


def test_a_unit_that_scatters_too_much_is_outside_of_the_law() -> None:
    """relu^2 of few overlaps with a heavy tail in front of a norm: ln J is 0.12 below the law after one block, whatever the width"""
    net = post_norm(mf.GAU(mf.silu, s=64, lam=1.25, **SIZES))
    options = {"q": 1.0, "c": 0.4, "probes": 1, "hidden": 2, "dtype": torch.float32, "device": "cpu", "seed": 3}
    seen = mf.reference.compare(net, width=128, depth=1, samples=160, **options)
    assert not seen.agrees
    assert seen.verdict.startswith("Outside the range of the law")
    assert seen.scatter.entering.max() > 1 < seen.second_order


def test_half_the_width_has_half_the_features() -> None:
    """what a unit adds stays as large; with all features at both widths the z-scores of the stack would be above 4"""
    from meanfield.reference.halves import halved

    net = post_norm(mf.GAU(mf.tanh, s=2 * G, n=4, d=2 * 10**9, e=64)) >> mf.Repeat(pre_norm(mf.MLP(mf.relu, 1, 1)), 2)
    small = halved(net, {"g": 8})
    assert small == post_norm(mf.GAU(mf.tanh, s=G, n=4, d=10**9, e=32, sigma_O=2)) >> mf.Repeat(pre_norm(mf.MLP(mf.relu, 1, 1)), 2)
    run, other = (mf.propagate(f, 1, q=1.0, c=0.5, g=1000) for f in (net, small))
    assert np.allclose((other.p - run.p) / run.p, 0, atol=0.01)
    alone = pre_norm(mf.MLP(mf.relu, 1, 1))
    assert halved(alone, {}) is alone
    with pytest.raises(ValueError, match="s = 7"):
        halved(mf.GAU(mf.tanh, s=G, n=4), {"g": 7})
