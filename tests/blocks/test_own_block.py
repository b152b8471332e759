"""A block and an architecture from outside the library, subclassing nothing but Block: what the README shows, held against a network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import sympy as sp

import meanfield as mf

SIGMA = sp.Symbol("sigma_e")


@dataclass(frozen=True)
class Positions(mf.Block):
    """x_a + e_a with a random embedding of variance sigma_e^2 for each position"""

    sigma_e: Any = SIGMA

    def law(self, x: mf.Signal) -> mf.Law:
        s = self.sigma_e**2
        return mf.Law(replace(x, q=x.q + s, delta=x.delta + s), sp.eye(2), sp.S.One)


def every_layer_knows_where(norm: mf.Block, attention: mf.Block, mlp: mf.Block) -> mf.Block:
    return mf.Residual(norm >> Positions() >> attention) >> mf.Residual(norm >> mlp)


def test_it_is_a_block_like_any_other() -> None:
    net = every_layer_knows_where(mf.RMSNorm(), mf.UniformAttention(8), mf.MLP(mf.relu))
    assert [s.name for s in mf.recursion(net).parameters] == ["sigma_1", "sigma_2", "sigma_O", "sigma_V", "sigma_e"]
    values = {"sigma_V": 1, "sigma_O": 1, "sigma_1": 1, "sigma_2": 1}
    plain = mf.pre_norm(norm=mf.RMSNorm(), attention=mf.UniformAttention(8), mlp=mf.MLP(mf.relu))
    with_, without = mf.propagate(net, 50, 1.0, c=0.3, sigma_e=0, **values), mf.propagate(plain, 50, 1.0, c=0.3, **values)
    assert (with_.q == without.q).all()
    assert r"\tilde" in mf.latex(net)
    # q <- q + p~ + (1 + s - p~)/n
    one = mf.propagate(mf.Residual(mf.RMSNorm() >> Positions() >> mf.UniformAttention(8, 1, 1)), 1, 2.0, c=0.3, sigma_e=0.5)
    assert one.q[1] == pytest.approx(2 + 0.3 + (1.25 - 0.3) / 8, rel=1e-14)


@pytest.mark.torch
def test_with_a_torch_rule_it_has_a_twin() -> None:
    torch = pytest.importorskip("torch")
    from meanfield.reference.twin import layer

    class Embeddings(torch.nn.Module):
        def __init__(self, width: int, tokens: int, sigma: float) -> None:
            super().__init__()
            self.table, self.sigma = torch.nn.Parameter(torch.empty(tokens, width)), sigma

        def reset_parameters(self) -> None:
            torch.nn.init.normal_(self.table, std=self.sigma)

        def forward(self, x: Any) -> Any:
            return x + self.table

    layer.register(Positions, lambda block, site: Embeddings(site.fan_in, 8, site.number(block.sigma_e)))

    net = every_layer_knows_where(mf.RMSNorm(), mf.UniformAttention(8), mf.MLP(mf.relu))
    values = {"sigma_V": 1.1, "sigma_O": 1, "sigma_1": 1.3, "sigma_2": 1, "sigma_e": 0.6}
    seen = mf.reference.compare(net, width=64, depth=3, q=1.3, c=0.4, n=8, samples=32, probes=8, device="cpu", **values)
    assert seen.agrees, seen
