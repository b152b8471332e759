"""DeepNorm's rules against the published table and constants, and against what they are meant to balance."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.scaling import N, Optimizer, alpha, deep_norm, deepnet, gradient_check, lam
from meanfield.scaling.rules import Rule

HALF, QUARTER = sp.Rational(1, 2), sp.Rational(1, 4)


@pytest.mark.parametrize(
    ("optimizer", "post", "pre"),
    [("sgd", (QUARTER, -QUARTER), -HALF), ("adam", (HALF, -HALF), -1), ("lamb", (0, -HALF), -HALF), ("adafactor", (0, -HALF), -HALF)],
)
def test_published_exponents(optimizer: str, post: tuple[Any, Any], pre: Any) -> None:
    rule = deep_norm(optimizer, norm="post")
    assert (rule.alpha, rule.lam) == tuple((2 * N) ** e for e in post)
    before = deep_norm(optimizer, norm="pre")
    assert (before.alpha, before.lam) == (1, (2 * N) ** pre)


@pytest.mark.parametrize("closure", [sp.Eq(lam, 1 / alpha), sp.Eq(alpha, 1), sp.Eq(lam, 1), sp.Eq(lam**2 * alpha, 3)])
@pytest.mark.parametrize(("k", "j"), [(2, 0), (1, 0), (1, 1), (sp.Rational(3, 2), 2), sp.symbols("k j", positive=True)])
def test_solutions_satisfy_the_constraint_and_the_closure(k: Any, j: Any, closure: sp.Eq) -> None:
    rule = deep_norm((k, j), closure=closure)
    put = {alpha: rule.alpha, lam: rule.lam}
    logs = [sp.expand_log(sp.log(2 * N * (lam / alpha) ** k * lam**j).subs(put), force=True)]
    logs += [sp.expand_log(sp.log(closure.lhs.subs(put)) - sp.log(closure.rhs.subs(put)), force=True)]
    assert all(sp.simplify(e) == 0 for e in logs)
    assert sp.simplify(sp.expand_log(sp.log(rule.family.subs(alpha, rule.alpha) / rule.lam), force=True)) == 0


def test_a_branch_of_another_degree() -> None:
    """GAU: one branch of degree 7 a layer, so the gradient of a matrix is lam^6/alpha"""
    rule = deep_norm("adam", degree=7, sublayers=1)
    assert rule.alpha == N ** sp.Rational(1, 7)


BOTH = ("encoder_alpha", "encoder_beta", "decoder_alpha", "decoder_beta")
PUBLISHED = [
    ("encoder", {"N": 12}, {"alpha": 2.213364, "beta": 0.319472}),
    ("decoder", {"N": 100}, {"alpha": 3.760603, "beta": 0.188030}),
    ("encoder", {"N": 1000}, {"alpha": 6.687403, "beta": 0.105737}),
    ("encoder-decoder", {"N": 6, "M": 6}, dict(zip(BOTH, (1.417938, 0.496989, 2.059767, 0.343295), strict=True))),
    ("encoder-decoder", {"N": 18, "M": 18}, dict(zip(BOTH, (1.998746, 0.352571, 2.710806, 0.260847), strict=True))),
]


@pytest.mark.parametrize(("stacks", "sizes", "expected"), PUBLISHED)
def test_constants_of_the_paper(stacks: str, sizes: dict[str, int], expected: dict[str, float]) -> None:
    found = deepnet(stacks)(**sizes)
    assert {name: round(found[name], 6) for name in expected} == expected


def test_the_rounded_constants_are_those_derived() -> None:
    exact = deepnet("encoder-decoder")(N=1, M=1)
    assert (round(exact["encoder_alpha_exact"], 2), round(exact["encoder_beta_exact"], 2)) == (0.81, 0.87)
    assert math.isclose(exact["encoder_alpha_exact"] * exact["encoder_beta_exact"], math.sqrt(0.5))


def test_gradients_of_post_norm_stacks() -> None:
    plain = gradient_check(1, 1, [6, 12, 24])
    np.testing.assert_allclose(plain.apjn, [0.0507, 0.00536, 0.00457], rtol=2e-3)
    assert not plain.holds.any()
    assert round(float(plain.c[1]), 4) == 0.9996
    rule = deepnet("encoder")
    deep = gradient_check(rule.alpha, rule.beta, [12, 1000])
    assert deep.apjn.round(3).tolist() == [0.992, 0.999]
    assert round(float(deep.c[0]), 3) == 0.307
    assert deep.holds.all()


def test_a_rule_shows_itself() -> None:
    rule = deep_norm("adam")
    assert isinstance(rule, Rule)
    assert repr(rule).startswith("DeepNorm, adam, post-norm\n    alpha = sqrt(2)*sqrt(N)")
    text = mf.latex(rule)
    assert text == rule.latex() == rule._repr_latex_()
    assert r"\lambda = \frac{\sqrt{2}}{2 \sqrt{N}}" in text
    assert text.count("&") == text.count("\\\\") + 1
    with pytest.raises(AttributeError, match="gives alpha, lam"):
        _ = rule.beta
    with pytest.raises(ValueError, match="depends on N, alpha"):
        rule(M=3)


@pytest.mark.parametrize("stacks", ["encoder", "decoder", "encoder-decoder"])
def test_constants_are_what_their_statement_asks_for(stacks: str) -> None:
    """in the letters that the values are named by"""
    rule = deepnet(stacks)
    exact = {"alpha": "alpha", "beta": "beta", "alpha_d": "decoder_alpha", "beta_d": "decoder_beta"}
    exact |= {"alpha_e": "encoder_alpha_exact", "beta_e": "encoder_beta_exact"}
    for asked in rule.statement:
        put = {s: rule.values[exact[s.name]] for s in asked.free_symbols if s.name in exact}
        assert put
        assert sp.simplify(asked.lhs.xreplace(put) - asked.rhs.xreplace(put)) == 0
    assert "lam" not in repr(rule)
    assert "lambda" not in mf.latex(rule)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: deep_norm("adagrad"), "expected one of sgd, adam"),
        (lambda: deep_norm((1,)), "pair"),
        (lambda: deep_norm("adam", norm="peri"), "'post' or 'pre'"),
        (lambda: deep_norm("adam", closure=sp.Eq(lam, alpha / (2 * N))), "do not fix"),
        (lambda: deep_norm("adam", closure=sp.Eq(lam + alpha, 2)), "power law"),
        (lambda: deep_norm("adam", closure=lam - 1), "expected an equation"),
        (lambda: deep_norm("adam", norm="pre", closure=sp.Eq(lam, 1)), "the closure is alpha = 1"),
        (lambda: deep_norm("adam", sublayers=0), "sublayers = 0: expected a whole number, at least 1"),
        (lambda: deep_norm("adam", sublayers=1.5), "sublayers = 1.5"),
        (lambda: deep_norm("adam", degree=-1), "degree = -1: expected a number above 0"),
        (lambda: deep_norm("adam", degree=0), "degree = 0"),
        (lambda: Optimizer("x", "a", 2), "gradient = 'a': expected a number"),
        (lambda: Optimizer("x", 0, None), "weight = None: expected a number"),
        (lambda: Optimizer(3, 0, 0), "name = 3"),
        (lambda: deep_norm("adam")(N=-3), "N = -3: .*; it must be at least 1$"),
        (lambda: deepnet("both"), "encoder-decoder"),
        (lambda: gradient_check(1, 1, []), r"N = \[\]: expected at least one"),
        (lambda: gradient_check(1, 1, [6], factor=1), "above 1"),
        (lambda: gradient_check(1, 1, [6], factor="x"), "factor = 'x'"),
        (lambda: gradient_check(1, 1, [6], width=0), "width = 0: expected a number above 0"),
        (lambda: gradient_check(alpha, 1, [6]), "in N"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()


ANSWERS: dict[str, Callable[[], Any]] = {
    "rule": lambda: deep_norm("adam"),
    "golden rules": mf.scaling.golden_rules,
    "degree": lambda: mf.scaling.degree(mf.MLP(mf.relu)),
    "no degree": lambda: mf.scaling.degree(mf.MLP(mf.gelu)),
    "gated attention": lambda: mf.scaling.gau(phi=mf.relu),
    "conventions": lambda: mf.scaling.convention_table(64, 2, 16, vocabulary=100),
}


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))], ids=["copy", "deep", "pickle"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_copies_are_the_same(answer: str, again: Callable[[Any], Any]) -> None:
    made = ANSWERS[answer]()
    twin = again(made)
    assert twin == made
    assert hash(twin) == hash(made)
    assert repr(twin) == repr(made)
    assert twin.latex() == made.latex()
