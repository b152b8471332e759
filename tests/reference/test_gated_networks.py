"""Gated blocks against random networks: |ln theory - ln measured| <= 3 standard errors + BIAS depth/width, at two widths."""

from __future__ import annotations

import numpy as np
import pytest

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
