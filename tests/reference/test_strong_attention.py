"""Softmax attention with logits so strong that annealed averages fail, against random networks: quenched q, p and J, softmax derivative
included."""

from __future__ import annotations

import numpy as np
import pytest

import meanfield as mf

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

NORM, FEED = mf.LayerNorm(), mf.MLP(mf.relu, 2**0.5, 1)
SOFTMAX = mf.Attention(n=4, sigma_Q=2, sigma_K=1, sigma_V=1, sigma_O=1, average=mf.Quenched())

NETS = {
    "post_norm": mf.post_norm(norm=NORM, attention=SOFTMAX, mlp=FEED),
    "parallel_block": mf.parallel_block(norm=NORM, attention=SOFTMAX, mlp=FEED),
    "shaped_attention": mf.shaped_attention(norm=NORM, mlp=FEED, n=4, sigma_Q=2, sigma_K=1, sigma_V=1, sigma_O=1, average=mf.Quenched()),
}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", NETS)
def test_architecture(name):
    """sigma_QK^2 q (q - p) = 2.4 at the start"""
    seen = mf.reference.compare(NETS[name], width=128, depth=3, q=1.0, c=0.4, n=4, samples=16, probes=16, dtype=torch.float32, device="cpu")
    assert seen.agrees, seen
    assert seen.wide.log_apjn_error[0] < 0.06, "the measurement is sharp enough to tell"


@pytest.mark.parametrize("n", [2, 4, 16, 64])
def test_strong_attention(n):
    """sigma_QK^2 q (q - p) = 9: quenched q, p and J, the softmax derivative included, where annealed ln J is off by more than 0.15"""
    values = {"n": n, "sigma_Q": 15**0.5, "sigma_K": 1, "sigma_V": 1, "sigma_O": 1, "sigma_1": 2**0.5, "sigma_2": 1}
    quenched, annealed = (
        mf.pre_norm(norm=NORM, attention=mf.Attention(average=a), mlp=mf.MLP(mf.relu)) for a in (mf.Quenched(), mf.Annealed())
    )
    twin = mf.reference.build(quenched, 256, 2, heads=4, q=1.0, c=0.4, dtype=torch.float32, **values)
    seen = mf.reference.measure(twin, samples=16, probes=max(64 // n, 2), device="cpu")
    law, other = (mf.propagate(net, 2, 1.0, c=0.4, **values) for net in (quenched, annealed))
    bias = 3 * 2 / 256
    for at in ("q", "p"):
        off, error = getattr(law, at) / getattr(seen, at) - 1, getattr(seen, f"{at}_error") / getattr(seen, at)
        assert (np.abs(off) <= 0.01 + 3 * error + bias).all(), at
    assert (np.abs(law.log_apjn - seen.log_apjn) <= 0.01 + 3 * seen.log_apjn_error + bias).all()
    assert seen.log_apjn[0] - other.log_apjn[0] > 0.15 + 3 * seen.log_apjn_error[0]
