"""Laws where attention without a skip makes tokens one, and q moves only as what is left of it does: slowly."""

import numpy as np
import pytest
import sympy as sp

import meanfield as mf

UNIFORM = mf.UniformAttention(4, 1, 1)
HALF = sp.sqrt(sp.Rational(1, 2))
SLOW = {
    "tanh": (UNIFORM >> mf.MLP(mf.tanh, 1, 1), -1, 2, -1),
    "sin": (UNIFORM >> mf.MLP(mf.Activation(sp.sin(mf.x)), 1, 1), -1, 1, -1),
    "erf": (UNIFORM >> mf.MLP(mf.erf, 1, sp.sqrt(sp.pi) / 2), -1, 2, -1),
    "a kink in the slope": (UNIFORM >> mf.MLP(mf.elu, 1, 1), -2, None, -2),
    "softmax": (mf.Attention(n=8, sigma_Q=1, sigma_K=1, sigma_V=1, sigma_O=1) >> mf.MLP(mf.tanh, 1, 1), -1, 2, -1),
    "a skip": (mf.Residual(UNIFORM, skip=HALF, scale=HALF) >> mf.MLP(mf.tanh, 1, 1), -1, 2, -1),
}


@pytest.mark.parametrize("name", SLOW)
def test_q_and_j_of_merged_tokens(name: str) -> None:
    net, exponent, rate, decay = SLOW[name]
    law = mf.growth(net)
    assert (law.q.kind, law.q.exponent) == ("power", exponent)
    assert (law.apjn.kind, law.apjn.exponent) == ("power", decay)
    assert law.gap.kind == "exponential"
    if rate is not None:
        assert law.q.rate == rate
    deep = [mf.propagate(net, depth, 1.0, p=0.4, record="last") for depth in (10_000, 100_000)]
    q, j = ([float(getattr(run, of)[-1]) for run in deep] for of in ("q", "log_apjn"))
    assert np.log(q[1] / q[0]) / np.log(10) == pytest.approx(exponent, abs=0.01)
    assert (j[1] - j[0]) / np.log(10) == pytest.approx(decay, abs=0.01)


@pytest.mark.parametrize("net", [UNIFORM, UNIFORM >> mf.MLP(mf.relu, 1, sp.sqrt(2))], ids=["attention", "and relu"])
def test_nothing_moves_any_more(net: mf.Block) -> None:
    law = mf.growth(net)
    assert law.q.kind == "bounded"
    assert (law.apjn.kind, law.apjn.terms) == ("bounded", ((sp.Rational(1, 4), 0),))


def test_symbols_are_told() -> None:
    """a sign of a symbol by itself is asked for on the way"""
    assert "undetermined" in repr(mf.growth(mf.UniformAttention() >> mf.MLP(mf.tanh)))


@pytest.mark.parametrize(
    ("attention", "mlp"),
    [(mf.UniformAttention(4, 0.5, 1), mf.MLP(mf.erf, 4, 2)), (mf.Attention(16, 0.5, 1.0, 0.5, 1.0), mf.MLP(mf.tanh, 4.0, 2.0))],
    ids=["roots and pi", "softmax"],
)
def test_a_correlation_that_stays_below_1(attention: mf.Block, mlp: mf.Block) -> None:
    """the eigenvalues of transfers of which no polynomial can be factored, or none before it is a page long"""
    net = mf.pre_norm(norm=mf.LayerNorm(), attention=attention, mlp=mlp)
    law = mf.growth(net)
    assert (law.q.kind, law.q.exponent, law.gap.kind) == ("power", 1, "bounded")
    runs = [mf.propagate(net, depth, 1.0, p=0.4, record="last") for depth in (10**11, 10**12)]
    slope = (float(runs[1].log_apjn[-1]) - float(runs[0].log_apjn[-1])) / np.log(10)
    assert slope == pytest.approx(float(law.apjn.exponent), abs=1e-3)
    before, last = (abs(float(run.gap[-1]) - float(law.gap.limit)) for run in runs)
    assert last < 0.75 * before < 0.005


def test_what_one_repeat_merges_grows_as_inputs_that_are_one_do() -> None:
    """half way apart q falls, and where they are one, as they are from the first repeat on, it grows by 3/2"""
    law = mf.growth(mf.UniformAttention(4, 1, 1) >> mf.Residual(mf.MLP(mf.relu, 1, 1)))
    assert (law.q.kind, law.q.rate) == ("exponential", sp.log(sp.Rational(3, 2)))
    assert law.apjn.terms == ((sp.Rational(1, 4), sp.log(sp.Rational(3, 2))),)
    assert law.gap.rate == -sp.oo
    assert law.check().agrees


@pytest.mark.parametrize(
    ("branch", "kind", "rate"),
    [
        (mf.MLP(mf.tanh, 1, 1), "stretched", 32 / (9 * sp.pi)),
        (mf.MLP(mf.erf, 1, 1), "stretched", 16 / sp.pi**2),
        (mf.LayerNorm() >> mf.MLP(mf.relu, 1, 1), "power", None),
    ],
)
def test_merged_inputs_on_a_residual_stream(branch: mf.Block, kind: str, rate: sp.Expr | None) -> None:
    """the stream of one input, q ~ l E phi(oo)^2; gradients mix first, so that J is a quarter of that of one input"""
    law, alone = mf.growth(mf.UniformAttention(4, 1, 1) >> mf.Residual(branch)), mf.growth(mf.Residual(branch))
    assert (law.q.kind, law.q.exponent, law.q.rate) == ("power", 1, alone.q.rate)
    assert (law.apjn.kind, law.apjn.rate) == (kind, rate) == (alone.apjn.kind, alone.apjn.rate)
    assert law.check().agrees


def test_merged_rectified_layers_with_biases() -> None:
    law = mf.growth(mf.UniformAttention(4, 1, 1) >> mf.MLP(mf.relu, 1, sp.sqrt(2), 0, 1))
    assert (law.q.kind, law.q.exponent, law.q.rate) == ("power", 1, 1)
    assert (law.apjn.kind, law.apjn.terms) == ("bounded", ((sp.Rational(1, 4), 0),))
    assert law.check().agrees
