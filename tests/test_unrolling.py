"""Networks written out as sums: the weights of He & Hofmann, and their squares, which add up to the variance of the stream."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf

L, l = mf.L, mf.l
j = sp.Symbol("j", integer=True, nonnegative=True)
beta, c = sp.Symbol("beta", positive=True), sp.Symbol("k", positive=True)
NORM, UNIT, ONE = mf.LayerNorm(), mf.MLP(mf.relu, sp.sqrt(2), 1), mf.UniformAttention(1, 1, 1)


def zero(e: sp.Expr) -> bool:
    """for positive symbols, by numbers: powers are not brought to one form"""
    values = {beta: sp.Rational(7, 10), c: sp.Rational(13, 10), l: 5, j: 2, L: 18}
    return abs(sp.N(e.xreplace(values).doit(), 40)) < 1e-30


def test_pre_norm() -> None:
    """X_l and its branches stand with 1/sqrt((1 + b^2) l + 1) and 1/sqrt((1 + b^2) l + 2) in what follows"""
    net = mf.Residual(NORM >> ONE) >> mf.Residual(NORM >> UNIT, scale=beta)
    sum_ = mf.unrolled(net)
    assert zero(sum_.q - ((1 + beta**2) * l + 1))
    assert sum_.carried == 1
    assert all(map(zero, (sum_.branches[0] - 1, sum_.branches[1] - beta)))
    assert zero(sum_.shares[0] - 1 / sp.sqrt((1 + beta**2) * l + 1))
    assert zero(sum_.shares[1] - beta / sp.sqrt((1 + beta**2) * l + 2))


@pytest.mark.parametrize("kind", ["sas", "shaped attention", "Value-SkipInit"])
def test_skipless(kind: str) -> None:
    """X_{l+1} = X_0 (1 + b^2)^{-(l+1)/2} + b sum_j g_j (1 + b^2)^{-(l-j)/2}, for an input of variance 1 + b^2"""
    options = {"norm": NORM, "mlp": UNIT, "scale": beta}
    net = {
        "sas": mf.sas(**options, sigma_Q=0),
        "shaped attention": mf.shaped_attention(**options, sigma_Q=0, sigma_V=1, sigma_O=1),
        "Value-SkipInit": mf.value_skipinit(**options, sigma_V=1, sigma_O=1),
    }[kind]
    sum_ = mf.unrolled(net, q=1 + beta**2)
    assert zero(sum_.carried - (1 + beta**2) ** (-l / 2))
    assert len(sum_.branches) == 1
    assert zero(sum_.branches[0] - beta * (1 + beta**2) ** (-(l - 1 - j) / 2))
    # an input of variance 1 is one layer behind
    assert zero(mf.unrolled(net).carried - (1 + beta**2) ** (-(l - 1) / 2))


def test_limit_of_a_down_weighted_mlp() -> None:
    """e^{-c^2/2}; the factor of the slide, (1 + O(1/L))^{(l+1)/2}, is e^{1/2} at c = 1, and 1.0937 at beta = 0.1, L = 18"""
    net = mf.downweighted(norm=NORM, attention=mf.Linear(1, 0), mlp=UNIT, scale=c / sp.sqrt(L))
    assert mf.unrolled(net).limit == sp.exp(-(c**2) / 2)
    fixed = mf.unrolled(mf.sas(norm=NORM, mlp=UNIT, sigma_Q=0, scale=0.1), q=sp.Rational(101, 100))
    assert 1 / float(fixed.carried.subs(l, 18)) == pytest.approx(1.0937, abs=5e-5)


NETS = {
    "pre-norm": (mf.pre_norm(norm=NORM, attention=ONE, mlp=UNIT, skip=0.9, scale=beta), sp.Rational(3, 2)),
    "post-norm": (mf.post_norm(norm=NORM, attention=ONE, mlp=UNIT, skip=0.9, scale=beta), 1),
    "DeepNorm": (mf.deep_norm(attention=ONE, mlp=UNIT, alpha=2, lam=beta), 1),
    "sandwich": (mf.sandwich_norm(norm=NORM, attention=mf.Linear(3, 0), mlp=UNIT, scale=1 / sp.sqrt(L)), 2),
    "parallel": (mf.parallel_block(norm=NORM, attention=ONE, mlp=UNIT >> mf.Scale(beta)), 1),
    "skipless": (mf.sas(norm=NORM, mlp=UNIT, sigma_Q=0, skip=0.9, scale=beta), 2),
    "SAS-P": (mf.sas_p(norm=NORM, mlp=UNIT, sigma_Q=0, scale=beta), 1),
    "SAS-P, no norm": (mf.sas_p(mlp=UNIT, sigma_Q=0, scale=beta), 1),
    "residual perceptron": (mf.residual_mlp(mf.erf, 1, 0.2, norm=mf.RMSNorm(), skip=0.8), 1),
    "repeated": (mf.Repeat(mf.Residual(mf.Linear(beta, 0)), 2) >> mf.Scale(0.9), 1),
}


@pytest.mark.parametrize("name", NETS)
def test_squares_of_the_weights_add_up_to_the_variance(name: str) -> None:
    net, start = NETS[name]
    sum_ = mf.unrolled(net, q=start)
    layer = 5
    total = sum_.carried.subs(l, layer) ** 2 * start
    total += sum(w.subs({l: layer, j: k}) ** 2 for w in sum_.branches for k in range(layer))
    assert zero(total - sum_.q.subs(l, layer))
    values = {"beta": 0.7} if any(s.name == "beta" for s in mf.recursion(net).parameters) else {}
    n = {"n": 1} if any(s.name == "n" for s in mf.recursion(net).parameters) else {}
    found = mf.propagate(net, 18, float(start), **values, **n, **({"c": 0.3} if mf.recursion(net).couples() else {})).q[layer]
    assert float(sum_.q.subs({l: layer, L: 18, beta: sp.Rational(7, 10)})) == pytest.approx(found, rel=1e-12)


def test_shares_are_relative_to_what_is_kept() -> None:
    """DeepNorm adds lam^2/alpha of what it keeps (theory.md 2); a branch beside nothing is all there is"""
    lam, alpha = sp.Symbol("lam", positive=True), sp.Symbol("alpha_skip", positive=True)
    sum_ = mf.unrolled(mf.deep_norm(attention=ONE, mlp=UNIT))
    assert sum_.shares == (lam**2 / alpha, lam**2 / alpha)
    assert mf.unrolled(mf.Residual(UNIT, skip=0)).shares == (sp.oo,)


def test_latex() -> None:
    text = mf.latex(mf.unrolled(NETS["skipless"][0]))
    assert r"\sum_{j<l}" in text
    assert "q_l" in text


def test_refusals() -> None:
    for net, words in (
        (mf.mlp(mf.relu), "only branches may hold activations"),
        (mf.residual_mlp(mf.tanh), "no closed form over depth"),
        (mf.Residual(mf.Linear(1, 0), scale=1 / (1 + l)), "depends on l"),
        (mf.pre_norm(norm=NORM, attention=mf.UniformAttention(4), mlp=UNIT), "depends on p"),
        (mf.Linear(1, 0) >> mf.BatchNorm(), "depends on p"),
    ):
        with pytest.raises(ValueError, match=words):
            mf.unrolled(net)
    with pytest.raises(TypeError, match="net = None"):
        mf.unrolled(None)
    with pytest.raises(ValueError, match=r"q = -1: a variance must be positive"):
        mf.unrolled(mf.Residual(UNIT), q=-1)
