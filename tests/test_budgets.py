"""Parameters and operations against torch's own count, and what the simplified blocks save by their source."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf

NORM = mf.LayerNorm()
PRE = mf.pre_norm(norm=NORM, attention=mf.Attention(), mlp=mf.MLP(mf.relu))


def gpt(net: mf.Block, depth: int) -> mf.Budget:
    return mf.budget(net, width=768, depth=depth, n=128, vocabulary=50257)


def bert(net: mf.Block) -> mf.Budget:
    """the crammed BERT of the source: 16 blocks, a gated MLP of 2 x 1536 units, 32768 tokens"""
    return mf.budget(net, width=768, depth=16, hidden=1536, n=128, vocabulary=32768)


def test_thirteen_percent_of_eighteen_blocks() -> None:
    """He & Hofmann: 1e8 and more at 18 blocks, 5.5e8 at 72, 13 % less without value and projection matrices"""
    for simple in (mf.sas, mf.sas_p):
        share, _ = gpt(simple(norm=NORM, mlp=mf.MLP(mf.relu)), 18).saving(gpt(PRE, 18))
        assert round(100 * float(share)) == 13
    assert gpt(PRE, 72).parameters == pytest.approx(5.5e8, rel=5e-3)


def test_sixteen_percent_of_the_glue_table() -> None:
    """120M for pre-LN, parallel and Value-SkipInit, 101M for SAS and SAS-P"""
    parts = {"norm": NORM, "attention": mf.Attention(), "mlp": mf.GEGLU()}
    full = bert(mf.pre_norm(**parts))
    for same in (mf.parallel_block(**parts), mf.value_skipinit(norm=NORM, mlp=mf.GEGLU(), beta=sp.Symbol("beta"))):
        assert bert(same).parameters == full.parameters
    assert round(full.parameters / 1e6) in (119, 120)
    for less in (mf.sas(norm=NORM, mlp=mf.GEGLU()), mf.sas_p(norm=NORM, mlp=mf.GEGLU())):
        assert round(bert(less).parameters / 1e6) == 101
        share, work = bert(less).saving(full)
        assert round(100 * float(share)) == 16
        assert 0.1 < work < share, "the logits and the mean over tokens stay"


def test_by_hand() -> None:
    d, h, n, L = sp.Symbol("d", positive=True, integer=True), sp.Symbol("h"), mf.n, mf.L
    assert sp.expand(mf.budget(PRE, hidden=h).parameters - L * (4 * d**2 + 2 * d * h)) == 0
    assert sp.expand(mf.budget(PRE, hidden=h).flops - L * (8 * d**2 + 4 * n * d + 4 * d * h)) == 0
    assert mf.budget(mf.UniformAttention()).block.parameters == 2 * d**2
    assert sp.expand(mf.budget(mf.CausalAttention()).block.flops - 4 * d**2 - 2 * n * d) == 0
    assert mf.budget(mf.Repeat(mf.Linear(1, 0.5), 3), width=10, depth=2).parameters == 6 * 110
    untied = mf.budget(PRE, vocabulary=7, tied=False)
    assert sp.expand(untied.parameters - mf.budget(PRE).parameters - 14 * d) == 0


class Own(mf.Block):
    def law(self, signal: mf.Signal) -> mf.Law:
        return mf.Linear(1, 0).law(signal)


def test_unknown_shapes_are_refused() -> None:
    with pytest.raises(TypeError, match=r"shapes of .*Own.* are not known: register"):
        mf.budget(mf.Residual(Own()))
    with pytest.raises(TypeError, match=r"net = 3: expected a block"):
        mf.budget(3)


def test_the_tokens_of_a_budget_are_those_that_attention_was_given() -> None:
    of = {n: mf.pre_norm(norm=NORM, attention=mf.Attention(n), mlp=mf.MLP(mf.relu)) for n in (None, 197)}
    held = mf.budget(of[197], width=768, depth=12)
    assert held == mf.budget(of[None], width=768, depth=12, n=197) == mf.budget(of[197], width=768, depth=12, n=197)
    assert held.flops == 12 * (24 * 768**2 + 4 * 768 * 197)
    with pytest.raises(ValueError, match=r"n = 64: the attention of this network was given 197"):
        mf.budget(of[197], n=64)


def test_gated_attention() -> None:
    unit = mf.GAU(mf.relu, s=16, n=8, d=32, e=64)
    held = mf.budget(unit, depth=3)
    entries = 3 * 32 * 64 + 32 * 16  # U, V, output and Z
    assert (held.parameters, held.flops) == (3 * entries, 3 * (2 * entries + 2 * 8 * (16 + 64)))
    d, L, n, s = (sp.Symbol(name, positive=True, integer=True) for name in "dLns")
    assert mf.budget(mf.GAU(mf.relu)).flops == sp.expand(L * (2 * (12 * d**2 + d * s) + 2 * n * (s + 4 * d)))
    for size, message in (({"width": 31}, "width = 31: .* d = 32"), ({"n": 9}, "n = 9: .* given 8")):
        with pytest.raises(ValueError, match=message):
            mf.budget(unit, **size)


BUILT = {
    "gated attention": mf.Residual(mf.LayerNorm() >> mf.GAU(mf.relu, s=8, n=4, d=16)),
    "pre-norm": PRE,
    "gated": mf.pre_norm(norm=NORM, attention=mf.Attention(), mlp=mf.SwiGLU()),
    "parallel": mf.parallel_block(norm=NORM, attention=mf.Attention(), mlp=mf.MLP(mf.gelu, sigma_b1=0.1, sigma_b2=0.1)),
    "sas": mf.sas(norm=NORM, mlp=mf.MLP(mf.relu)),
    "batch-normed": mf.residual_mlp(mf.relu, norm=mf.BatchNorm()),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", BUILT)
def test_as_many_as_torch_draws(name: str) -> None:
    pytest.importorskip("torch")
    net = BUILT[name]
    values = {s.name: 0.5 for s in mf.recursion(net).parameters if s.name != "n"}
    n = 4 if any(s.name == "n" for s in mf.recursion(net).parameters) else None
    twin = mf.reference.build(net, 16, 3, hidden=2, n=n, **values)
    assert sum(w.numel() for w in twin.parameters()) == mf.budget(net, width=16, depth=3, hidden=32).parameters
