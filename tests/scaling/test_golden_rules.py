"""Golden rules against random and orthogonal matrices, sums and products; the modular norm against the paper's laws and small networks."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.scaling import (
    CONVENTIONS,
    Atom,
    Bond,
    Composition,
    Scaled,
    Tensor,
    Tuple,
    convention_table,
    depth_rule,
    golden_rules,
    key_query_rule,
    modular_transformer,
    width_rule,
    with_key_query_rule,
)

PUBLISHED = [(10, 768, 0.003696), (768, 768, 0.018042), (3072, 768, 0.024056), (768, 3072, 0.006014)]


@pytest.mark.parametrize(("fan_out", "fan_in", "sigma"), PUBLISHED)
def test_published_standard_deviations(fan_out: int, fan_in: int, sigma: float) -> None:
    rule = width_rule(fan_in, fan_out)
    assert round(rule()["sigma"], 6) == sigma
    assert rule.norm == sp.sqrt(fan_out) / sp.sqrt(fan_in)
    assert sp.simplify(rule.lecun_norm - 1 - rule.norm) == 0
    assert sp.simplify(rule.lecun_aligned_gain - 1 - 1 / rule.norm) == 0


@pytest.mark.parametrize(("fan_out", "fan_in"), [(60, 600), (500, 500), (900, 300)])
def test_gains_of_random_and_orthogonal_matrices(fan_out: int, fan_in: int) -> None:
    draw = np.random.default_rng(1)
    rule = width_rule(fan_in, fan_out)()
    w = rule["sigma"] * draw.standard_normal((fan_out, fan_in))
    _, singular, right = np.linalg.svd(w, full_matrices=False)
    assert abs(singular[0] / rule["norm"] - 1) < 0.03
    x = draw.standard_normal(fan_in)

    def gain(matrix: Any, vector: Any) -> float:
        return float(np.linalg.norm(matrix @ vector) / np.linalg.norm(vector) * np.sqrt(fan_in / fan_out))

    assert abs(gain(w, right[0]) - 1) < 0.03  # aligned
    assert abs(gain(w, x) / rule["random_gain"] - 1) < 0.1
    orthogonal = np.linalg.qr(draw.standard_normal((max(fan_out, fan_in), min(fan_out, fan_in))))[0]
    orthogonal = rule["orthogonal_scale"] * (orthogonal if fan_out >= fan_in else orthogonal.T)
    assert abs(gain(orthogonal, x) / rule["orthogonal_random_gain"] - 1) < 0.1
    lecun = w / rule["sigma"] / np.sqrt(fan_in)
    assert abs(np.linalg.norm(lecun, 2) / rule["lecun_norm"] - 1) < 0.03
    assert abs(gain(lecun, right[0]) / rule["lecun_aligned_gain"] - 1) < 0.03


def test_depth_by_alignment() -> None:
    L, a = mf.L, sp.Symbol("a", positive=True)
    assert depth_rule(alignment=a).multiplier == L ** (-(1 + a) / 2)
    assert (depth_rule().multiplier, depth_rule(alignment=0).multiplier) == (1 / L, 1 / sp.sqrt(L))
    assert sp.limit(depth_rule().coherent_growth, L, sp.oo) == sp.E
    assert sp.limit(depth_rule(alignment=0).random_growth, L, sp.oo) == sp.E
    assert sp.limit(depth_rule().random_growth.doit(), L, sp.oo) == 1
    # what the recursion makes of the multiplier: a branch of gain 1 with fresh weights adds at random
    net = mf.Residual(mf.Linear(1, 0), scale=depth_rule(30).multiplier)
    assert abs(mf.propagate(net, 30, 1.0).q[-1] - depth_rule(30)()["random_growth"]) < 1e-13


@pytest.mark.parametrize("blocks", [24, 10**6, 10**7])
def test_growth_through_many_branches(blocks: int) -> None:
    """the powers (1 + 1/L)^L and (1 + 1/L^2)^L have more digits than can be written out"""
    found = golden_rules(fan_in=768, fan_out=10, blocks=blocks, d_key=64)()
    with mp.workdps(40):
        for name, power in (("coherent_growth", 1), ("random_growth", 2)):
            expected = float((1 + mp.mpf(blocks) ** -power) ** blocks)
            assert found[name] == expected
            assert depth_rule()(L=blocks)[name] == pytest.approx(expected, rel=1e-14)


def test_keys_and_queries() -> None:
    rule = key_query_rule(64)
    assert (rule.logit_scale, rule.random_logit_variance, rule.usual_aligned_logit) == (sp.Rational(1, 64), sp.Rational(1, 64), 8)
    block = mf.Attention(n=16, sigma_Q=3, sigma_K=1, sigma_V=1, sigma_O=1)
    weaker = mf.Attention(n=16, sigma_Q=sp.Rational(3, 8), sigma_K=1, sigma_V=1, sigma_O=1)
    assert with_key_query_rule(block, 64) == weaker
    with pytest.raises(TypeError, match=r"mf\.Attention"):
        with_key_query_rule(mf.MLP(mf.relu), 64)  # type: ignore[arg-type]


def test_all_rules_in_one() -> None:
    rules = golden_rules(fan_in=768, fan_out=3072, blocks=24, d_key=64)
    assert (rules.norm, rules.multiplier, rules.logit_scale) == (2, sp.Rational(1, 24), sp.Rational(1, 64))
    assert len(rules.statement) == 3
    symbolic = golden_rules()
    assert {s.name for s in sp.Tuple(*symbolic.values.values()).free_symbols} == {"fan_in", "fan_out", "L", "d_key"}
    numbers = symbolic(fan_in=768, fan_out=3072, L=24, d_key=64)
    assert all(abs(numbers[name] - value) < 1e-14 for name, value in rules().items())


def test_modular_laws() -> None:
    """Definitions 3 and 4 of Large et al. 2024, and the transformer of their library"""
    m1, m2, mu = sp.symbols("m1 m2 mu", positive=True)
    t = sp.Symbol("t", positive=True)
    composed = Bond(mu) @ Atom("second", m2) @ Atom("first", m1)
    assert (composed.mass, composed.sensitivity) == (m1 + m2, mu)
    shares = composed.budgets(t)
    assert sp.simplify(shares["first"] - t * m1 / ((m1 + m2) * mu)) == 0
    assert sp.simplify(shares["second"] - t * m2 / ((m1 + m2) * mu)) == 0
    side = Tuple((Atom("a", m1), 3 * Atom("b", m2)))
    assert side.sensitivity == 4
    assert sp.simplify(side.budgets(t)["b"] - t * m2 / (3 * (m1 + m2))) == 0
    rule = modular_transformer(12).rule()
    assert (rule.W_Q, rule()["W_O"]) == (sp.Rational(5, 7), 5 / 21)
    assert r"\frac{m_{1} t}{\mu_{1} \mu_{2} \left(m_{1} + m_{2}\right)}" in rule.latex()
    left = (Atom("c") @ (2 * Atom("b"))) @ (3 * Atom("a"))
    right = Atom("c") @ ((2 * Atom("b")) @ (3 * Atom("a")))
    assert left.budgets() == right.budgets()
    for blocks in (1, 2, 7, 48):
        net = modular_transformer(blocks)
        assert (net.sensitivity, net.mass) == (1, 7)
        assert net.budgets()["W_Q"] == sp.Rational(5, 7)  # whatever the depth


def test_budgets_bound_the_change_of_the_output() -> None:
    """linear layers of unit sensitivity: updates within their budgets move the output of a unit input by at most the target"""
    draw = np.random.default_rng(2)
    net = (0.5 * Bond() + 0.5 * (Atom("c") @ Atom("b", 2))) @ Atom("a", 3)
    budget = {name: float(v) for name, v in net.budgets(0.1).items()}
    for _ in range(50):
        w, moved = {}, {}
        for name in "abc":
            q1, q2 = (np.linalg.qr(draw.standard_normal((6, 6)))[0] for _ in range(2))
            w[name], moved[name] = q1, q1 + budget[name] * q2
        x = draw.standard_normal(6)
        x /= np.linalg.norm(x)
        before, after = (0.5 * m["a"] @ x + 0.5 * m["c"] @ m["b"] @ m["a"] @ x for m in (w, moved))
        assert np.linalg.norm(after - before) < 0.1 * 1.05  # first order


def test_the_width_of_an_mlp_is_whole() -> None:
    """as that of SwiGLU, 8/3 of the model's, in a double and in a fraction"""
    for expansion, width in ((8 / 3, 512), (sp.Rational(8, 3), 100)):
        table = convention_table(width, 12, 50, vocabulary=10, expansion=expansion)
        assert (
            table.std["muP"]["W_2"]
            == convention_table(width, 12, 50, vocabulary=10, expansion=round(8 / 3 * width) / width).std["muP"]["W_2"]
        )


def test_conventions_side_by_side() -> None:
    table = convention_table(768, 24, 64, vocabulary=50257)
    assert table.std["GPT-2"]["W_2"] == sp.Rational(1, 50) / sp.sqrt(48)
    assert table.std["GPT-2"]["W_1"] == sp.Rational(1, 50)
    assert table.std["He"]["W_2"] == sp.sqrt(sp.Rational(2, 3072))
    assert table.std["Xavier"]["W_1"] == sp.sqrt(sp.Rational(2, 3840))
    assert table.std["muP"]["readout"] == sp.Rational(1, 768)
    assert table.update["depth-muP"]["W_Q"] == 1 / (768 * sp.sqrt(24))
    assert (table.multiplier["depth-muP"], table.multiplier["CompleteP"]) == (1 / sp.sqrt(24), sp.Rational(1, 24))
    assert (table.logit_scale["muP"], table.logit_scale["He"]) == (sp.Rational(1, 64), sp.Rational(1, 8))
    golden = table.spectral_norm["golden"]
    assert all(sp.simplify(golden[t.name] - sp.sqrt(t.fan_out / t.fan_in)) == 0 for t in table.tensors if t.role != "input")
    assert set(table.std) == set(CONVENTIONS)
    assert mf.latex(table).count(r"\\") == len(repr(table).splitlines()) - len(CONVENTIONS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: golden_rules(fan_in=0), "fan_in = 0"),
        (lambda: golden_rules(blocks=2.5), "blocks = 2.5"),
        (lambda: depth_rule(alignment=2), "between 0 and 1"),
        (lambda: Atom("a", -1), "mass = -1"),
        (lambda: 0 * Atom("a"), "no update"),
        (lambda: Bond().of_mass(1), "without tensors"),
        (lambda: Atom(3), "name = 3"),
        (lambda: Scaled(3, 2), "module = 3: expected a module"),
        (lambda: Composition(3, Atom("a")), "first = 3: expected a module"),
        (lambda: Atom("a") @ 3, "first = 3: expected a module"),
        (lambda: Composition(Atom("a"), 3), "second = 3: expected a module"),
        (lambda: Tuple(3), "parts = 3: expected a tuple of modules"),
        (lambda: Tuple(Atom("a")), "parts = Atom.*: expected a tuple of modules"),
        (lambda: Tuple(()), "parts = .*at least one"),
        (lambda: Tuple((Atom("a"), 3)), "one of parts = 3: expected a module"),
        (lambda: modular_transformer(0), "blocks = 0"),
        (lambda: modular_transformer(3, attention=0), "attention = 0"),
        (lambda: modular_transformer(3, attention="a"), "attention = 'a'"),
        (lambda: modular_transformer(3, skip=1), "skip = 1: .* below 1"),
        (lambda: modular_transformer(3, skip=-0.5), "skip = -0.5"),
        (lambda: Tensor(3, 1, 1), "name = 3"),
        (lambda: Tensor("W", -1, 3), "fan_in = -1"),
        (lambda: Tensor("W", 1, 2.5), "fan_out = 2.5"),
        (lambda: Tensor("W", 1, 1, role="foo"), "role = 'foo': expected 'hidden', 'input' or 'output'"),
        (lambda: Tensor("W", 1, 1, ends_branch=1), "ends_branch = 1: expected True or False"),
        (lambda: convention_table(100, 24, 64, vocabulary=5, expansion=-2), "expansion = -2"),
        (lambda: convention_table(768, 24, 64, vocabulary=0), "vocabulary = 0"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()
