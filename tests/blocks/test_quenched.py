"""Averages over softmax weights: one-dimensional integrals against the two-dimensional one, Gaussian logits drawn at random, and attention.

The integral that `overlap` does for two rows is exact (trapezoidal rule on an analytic integrand): the accuracy that the docstring of
`mf.Quenched` states is measured against it.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from scipy import special

import meanfield as mf
from meanfield.gaussian.softmax import SoftmaxExponent, SoftmaxResponse, SoftmaxSlope, SoftmaxTriple
from meanfield.gaussian.softmax_sums import SERIES, softmax_exponent, softmax_response, softmax_slope, softmax_triple

HEADS = {SoftmaxExponent: softmax_exponent, SoftmaxResponse: softmax_response, SoftmaxTriple: softmax_triple}


def smoothed(f, at, sigma, spacing=0.3):
    """E f(at - sigma z)"""
    if sigma == 0:
        return f(at)
    step = min(spacing, 0.6 * sigma) / sigma
    z = np.arange(-7.0, 7.0 + step, step)
    weights = np.exp(-z * z / 2)
    return f(at[..., None] - sigma * z) @ (weights / weights.sum())


def overlap(v: float, c: float, n: int) -> float:
    """E sum_b A_b B_b for two rows of logits with variance v and covariance c >= 0, as an integral over t and u of e^{-t Z - u Z'}"""
    step, own, shared = 0.4, math.sqrt(v - c), math.sqrt(c)
    tau = np.arange(-7 * math.sqrt(v) - 3, v + math.log(n) + 13 + 2 * math.sqrt(v), step)
    spacing = min(0.4, 0.6 * shared) / shared if c else 1.0
    z = np.arange(-7.0, 7.0 + spacing, spacing) if c else np.zeros(1)
    weights = np.exp(-z * z / 2)
    at = tau[:, None] - shared * z
    kept = smoothed(lambda t: np.exp(-np.exp(-t)), at, own)
    once = smoothed(lambda t: np.exp(-t - np.exp(-t)), at, own)
    weights /= weights.sum()
    return float(n * step**2 * (((once * weights) @ once.T) * ((kept * weights) @ kept.T) ** (n - 1)).sum())


def numeric(e: sp.Expr) -> float:
    """an expression without symbols, its averages in float64"""
    return float(e.replace(lambda f: type(f) in HEADS, lambda f: sp.Float(HEADS[type(f)](*map(float, f.args)))))


def law(n: int, v: float, ratio: float, **options) -> dict[str, float]:
    """the named quantities of attention at q = 1, p = ratio and sigma_QK^2 (1 - ratio) = v"""
    sigma = math.sqrt(v / (1 - ratio))
    block = mf.Attention(n=n, sigma_Q=sigma, sigma_K=1, sigma_V=1, sigma_O=1, **options)
    law = block.law(mf.Signal(mf.q, mf.p, mf.delta))
    numbers: dict[sp.Expr, sp.Expr] = {mf.q: sp.Float(1), mf.p: sp.Float(ratio), mf.delta: sp.Float(1 - ratio)}
    for d in law.definitions:
        numbers[d.symbol] = sp.Float(numeric(d.value.xreplace(numbers)))
    return {d.symbol.name: float(numbers[d.symbol]) for d in law.definitions}


QUENCHED = {"average": mf.Quenched()}


@pytest.mark.parametrize(
    ("n", "v", "ratio", "allowed"),
    [
        (2, 1, 0.5, 2e-4),
        (16, 1, 0.5, 2e-4),
        (2, 3, 0.7, 2e-3),
        (64, 3, 0.4, 2e-3),
        (128, 3, 0.7, 2e-3),
        (4, 9, 0.6, 0.025),
        (16, 9, 0.6, 0.025),
        (64, 9, 0.7, 0.025),
        (512, 9, 0.7, 0.025),
        (2, 60, 0.9, 0.01),
        (16, 60, 0.5, 0.01),
        (128, 60, 0.9, 0.02),
        (512, 60, 0.7, 0.02),
        (32, 120, 0.8, 0.03),
    ],
)
def test_overlap_of_two_rows(n, v, ratio, allowed):
    assert law(n, v, ratio, **QUENCHED)["y_p"] == pytest.approx(overlap(v, ratio * v, n), rel=allowed)


def agreement(rho: float, n: int) -> float:
    """the probability that two rows of normal variables of that correlation have their largest at the same place"""
    x = np.arange(-8.5, 8.5, 0.02)
    shared = np.arange(-8.5, 8.5, min(0.05, 0.3 * math.sqrt(1 / rho - 1)))
    weights = np.exp(-(shared**2) / 2)
    below = special.ndtr((x[:, None] - math.sqrt(rho) * shared) / math.sqrt(1 - rho))
    both = (below * (weights / weights.sum())) @ below.T
    density = np.exp(-(x[:, None] ** 2 - 2 * rho * x[:, None] * x + x**2) / (2 * (1 - rho**2))) / (2 * math.pi * math.sqrt(1 - rho**2))
    return float(n * 0.02**2 * (density * both ** (n - 1)).sum())


def test_agreement_of_two_tokens():
    """1/2 + asin(rho)/pi"""
    assert agreement(0.5, 2) == pytest.approx(2 / 3, rel=1e-12)


@pytest.mark.parametrize(("n", "allowed"), [(2, 0.01), (3, 0.01), (16, 0.02), (128, 0.04), (512, 0.04), (4096, 0.06)])
def test_hard_attention(n, allowed):
    """logits without end: each row is its largest one"""
    for rho in (0.2, 0.5, 0.8, 0.9, 0.97):
        found = law(n, 1e10, rho, **QUENCHED)
        assert found["y_p"] == pytest.approx(agreement(rho, n), rel=allowed)
        response = (agreement(rho + 1e-3, n) - agreement(rho - 1e-3, n)) / 2e-3
        assert found["Psi_p"] * 1e10 == pytest.approx(response, rel=0.09 if n < 4096 else 0.11)


@pytest.mark.parametrize(("v", "ratio", "allowed"), [(3.0, -0.6, 0.01), (60.0, -0.6, 0.035), (3.0, -0.9, 0.04)])
def test_two_tokens_against_each_other(v, ratio, allowed):
    """p < 0: by the symmetry of two tokens y_p(-c) = 1 - y_p(c)"""
    assert law(2, v, ratio, **QUENCHED)["y_p"] == pytest.approx(1 - overlap(v, -ratio * v, 2), rel=allowed)


@pytest.mark.parametrize(("v", "ratio"), [(9.0, 0.5), (9.0, 0.9), (60.0, 0.5), (60.0, 0.9)])
@pytest.mark.parametrize("n", [2, 16])
def test_response_of_two_rows(n, v, ratio):
    h = 0.02
    response = (overlap(v, ratio * v + h, n) - overlap(v, ratio * v - h, n)) / (2 * h)
    assert law(n, v, ratio, **QUENCHED)["Psi_p"] == pytest.approx(response, rel=0.04)


@pytest.mark.parametrize("n", [2, 16])
def test_derivatives_on_both_sides_of_the_limit(n):
    """1 - c moves with the logits as 1/sqrt(v), before and after the slope at p = q is taken for its limit (v = 1e14)"""
    net = mf.Residual(mf.Attention(n, sigma_K=1, sigma_V=1, sigma_O=1, average=mf.Quenched()))
    moved = [
        mf.sensitivity(net, 1, 1.0, c=0.3, with_respect_to="sigma_Q", sigma_Q=sigma).dgap["sigma_Q"] * sigma**2 for sigma in (1e5, 2e6, 5e7)
    ]
    assert moved == pytest.approx([moved[0]] * 3, rel=0.01)


def test_two_rows_at_any_size_of_logits():
    """the overlap of hard attention does not depend on their size but for 1/sqrt(v); where no number is, a status says so"""
    block = mf.Residual(mf.Attention(16, 1, 1, 1, 1, average=mf.Quenched()))
    limit = mf.propagate(block, 1, 1e90, c=0.3).gap[1]
    for q in (1e4, 1e6, 1.19e7, 1.2e7, 1e12, 1e40, 1e99):  # v = 0.7 q^2; its slope at p = q is that of the limit from v = 1e14 on
        run = mf.propagate(block, 1, q * np.ones(2), c=0.3)
        assert run.gap[:, 1] == pytest.approx(limit, rel=1 / q + 1e-7)
    assert mf.propagate(block, 1, 1e110, c=0.3).status == "invalid"


def test_two_rows_at_the_ends():
    """equal rows, and rows without covariance: slope and curvature of the overlap"""
    n, v = 5, 2.0
    found, edge = law(n, v, 0.0, **QUENCHED), law(n, v, 1 - 1e-9, **QUENCHED)
    assert found["y_p"] == pytest.approx(1 / n, rel=1e-12)
    assert edge["y_p"] == pytest.approx(edge["y_q"], rel=1e-8)
    assert edge["Psi_p"] == pytest.approx(edge["Psi_q"], rel=1e-8)
    assert overlap(v, 0.0, n) == pytest.approx(1 / n, rel=1e-6)
    y, h = [overlap(v, k * 0.1, n) for k in range(4)], 0.1
    assert found["Psi_p"] == pytest.approx((-11 * y[0] + 18 * y[1] - 9 * y[2] + 2 * y[3]) / (6 * h), rel=2e-4)
    curvature = softmax_triple(2.0, 5.0) ** 2 * (n - 1) * (n - 2) / n**3
    assert curvature == pytest.approx((2 * y[0] - 5 * y[1] + 4 * y[2] - y[3]) / h**2, rel=2e-2)


@pytest.mark.parametrize(("n", "v", "ratio"), [(2, 4.0, 0.5), (16, 9.0, 0.6), (64, 3.0, 0.4)])
def test_averages_over_logits_drawn_at_random(n, v, ratio):
    rng = np.random.default_rng(n)
    first, second = rng.standard_normal((2, 40_000, n))
    second = ratio * first + math.sqrt(1 - ratio**2) * second
    a, b = (np.exp(math.sqrt(v) * x) for x in (first, second))
    a, b = a / a.sum(1, keepdims=True), b / b.sum(1, keepdims=True)
    ab, aab, abb = (a * b).sum(1), (a * a * b).sum(1), (a * b * b).sum(1)
    y, cube = (a * a).sum(1), (a**3).sum(1)
    seen = {"y_q": y, "Psi_q": y + y * y - 2 * cube, "y_p": ab, "Psi_p": ab + ab**2 - aab - abb}
    found = law(n, v, ratio, **QUENCHED)
    for name, values in seen.items():
        spread = 4 * values.std() / len(values) ** 0.5
        closure = {"y_p": 0.025, "Psi_p": 0.06}.get(name, 0) * values.mean()
        assert abs(found[name] - values.mean()) <= spread + closure, name


@pytest.mark.parametrize("n", [16, 64])
def test_strong_attention(n):
    """q and p after attention with random queries and keys at sigma_QK^2 q (q - p) = 9: 3 %, the annealed q is off by over 10 %"""
    width, p, s, heads, draws = 128, 0.4, 15.0, 8, 12
    rng = np.random.default_rng(1)
    q_seen, p_seen = [], []
    for _ in range(draws):
        basis = np.linalg.qr(rng.standard_normal((width, n)))[0].T * math.sqrt(width)
        mean = basis.mean(0)
        x = math.sqrt(1 - p) * (basis - mean) + math.sqrt(1 - p + n * p) * mean
        gram = x @ x.T / width
        assert np.allclose(gram, p + (1 - p) * np.eye(n))
        for _ in range(heads):
            logits = (x @ rng.standard_normal((width, width))) @ (x @ rng.standard_normal((width, width))).T
            logits *= math.sqrt(s) / width**1.5
            weights = np.exp(logits - logits.max(1, keepdims=True))
            weights /= weights.sum(1, keepdims=True)
            out = weights @ gram @ weights.T
            q_seen.append(np.trace(out) / n)
            p_seen.append((out.sum() - np.trace(out)) / (n * (n - 1)))
    noise = 3 * np.std(q_seen) / len(q_seen) ** 0.5
    values = {"n": n, "sigma_Q": math.sqrt(s), "sigma_K": 1, "sigma_V": 1, "sigma_O": 1}
    quenched, annealed = (
        mf.propagate(mf.Residual(mf.Attention(average=a), skip=0), 1, 1.0, p=p, **values) for a in (mf.Quenched(), mf.Annealed())
    )
    assert quenched.q[1] == pytest.approx(np.mean(q_seen), rel=0.03)
    assert quenched.p[1] == pytest.approx(np.mean(p_seen), rel=0.03)
    assert annealed.q[1] - np.mean(q_seen) > 0.1 * np.mean(q_seen) + noise


def test_large_n():
    """theory.md: Y = (e^v/n) [1 - (2 e^v - 1)(e^v - 1)/n], Psi = (e^v/n) [1 - (2 e^v - 1)^2/n], each up to 1/n^2"""
    v = 0.7
    e = math.exp(v)
    for n in (1e4, 1e5):
        y = 1 / (1 + (n - 1) * math.exp(-v * softmax_exponent(v, n)))
        assert abs(n * y / e - 1 + (2 * e - 1) * (e - 1) / n) < 100 / n**2
        assert abs(n * softmax_response(v, n) * y * (1 - y) / e - 1 + (2 * e - 1) ** 2 / n) < 200 / n**2


@pytest.mark.parametrize(("n", "v"), [(1, 0.4), (2, 2.0), (197, 1.0)])
def test_float64_against_more_digits(n, v):
    for head, f in HEADS.items():
        assert f(v, n) == pytest.approx(float(sp.N(head(sp.Rational(v), n), 17)), rel=1e-12)


@pytest.mark.parametrize("n", [1.0, 3.0, 500.0])
def test_series_meets_the_integral(n):
    for f in HEADS.values():
        assert f(SERIES * 0.999, n) == pytest.approx(f(SERIES * 1.001, n), abs=1e-7)
    assert softmax_exponent(1e-3, n) == pytest.approx(1 - 2e-3 / n, abs=1e-5)


def test_derivative_of_the_exponent():
    v = sp.Symbol("v", positive=True)
    for n in (2, 7):
        w = [x * softmax_exponent(x, n) for x in (1.5 - 1e-4, 1.5 + 1e-4)]
        assert numeric(sp.diff(v * SoftmaxExponent(v, n), v).subs(v, 1.5)) == pytest.approx((w[1] - w[0]) / 2e-4, rel=1e-6)


def test_limits_that_are_known():
    """no logits: the annealed law; one token: no attention; nearly equal tokens: the gap keeps its digits"""
    annealed, quenched = mf.Residual(mf.Attention()), mf.Residual(mf.Attention(**QUENCHED))
    weak = {"n": 8, "sigma_Q": 0, "sigma_K": 1, "sigma_V": 1, "sigma_O": 1}
    one = {**weak, "n": 1, "sigma_Q": 3}
    close = {**weak, "sigma_Q": 2}
    for start, values in (({"c": 0.4}, weak), ({}, one), ({"gap": 1e-30}, close)):
        a, b = (mf.propagate(net, 6, 1.0, **start, **values) for net in (annealed, quenched))
        assert np.allclose(a.q, b.q, rtol=1e-14)
        assert np.allclose(a.log_apjn, b.log_apjn, rtol=1e-13)
        if start:
            assert np.allclose(a.gap, b.gap, rtol=1e-12)
    interpreted = mf.propagate(quenched, 6, 1.0, c=0.4, **close)
    compiled = mf.propagate(quenched, 6, np.ones(2), c=0.4, **close)
    assert np.allclose(compiled.log_apjn, interpreted.log_apjn, rtol=1e-13)
    with pytest.raises(TypeError, match="average = 'quenched'"):
        mf.Attention(average="quenched")


def test_derivatives_of_averages():
    """in v and in n, in double against more digits and against differences"""
    v, n = sp.symbols("v n", positive=True)
    for k, (head, value) in enumerate(HEADS.items()):
        for place, s in enumerate((v, n)):
            slope = head(v, n).diff(s)
            assert slope == SoftmaxSlope(v, n, 2 * k + place)
            found = softmax_slope(1.5, 6.0, 2 * k + place)
            assert found == pytest.approx(float(slope.subs({v: sp.Rational(3, 2), n: 6}).evalf(15)), rel=1e-12)
            ends = [value(1.5 + (1 - place) * h, 6.0 + place * h) for h in (1e-4, -1e-4)]
            assert found == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-5)
        for v_ in (150.0, 1e4, 1e6):  # wide logits: by differences of fourth order
            near, far = (value(v_ + h, 6.0) - value(v_ - h, 6.0) for h in (0.02 * v_, 0.04 * v_))
            assert softmax_slope(v_, 6.0, 2 * k) == pytest.approx((8 * near - far) / (0.24 * v_), rel=1e-5)


def test_averages_of_next_to_no_logits():
    """at v = 0, exact or as a double: 1, and slopes that those of small v go to"""
    for k, head in enumerate(HEADS):
        for zero in (sp.S.Zero, sp.Float(0)):
            assert head(zero, 5) == 1
        for place in (0, 1):
            at_0 = SoftmaxSlope(sp.Float(0), 5, 2 * k + place)
            assert float(at_0) == pytest.approx(float(SoftmaxSlope(sp.Rational(1, 10**6), 5, 2 * k + place).evalf(15)), abs=1e-6)


def test_arguments_that_are_expressions_have_digits():
    v = 4 * sp.asin(sp.Rational(2, 3)) / sp.pi**2 + mf.E(mf.tanh.expression**2, 1)
    found = SoftmaxExponent(v, 16).evalf(25)
    assert float(found) == pytest.approx(float(SoftmaxExponent(sp.Rational(float(v.evalf(20))), 16).evalf(20)), rel=1e-14)
    law = mf.growth(mf.Residual(mf.Derf(1) >> mf.Attention(16, 1, 1, 1, 1, average=mf.Quenched())))
    assert law.q.kind == "undetermined"
    assert "SoftmaxExponent" in str(law)


def test_phases_of_a_stream_that_grows():
    """singular equations between q and c of some settings say nothing of the others"""
    attention = mf.Attention(16, sigma_K=1, sigma_O=1, average=mf.Quenched())
    found = mf.phase_diagram(mf.Residual(attention) >> mf.Residual(mf.MLP(mf.relu, 1, 1)), sigma_Q=[0.5, 1.0], sigma_V=[0.1, 1.0])
    assert (found.phase == "divergent").all()


@pytest.mark.parametrize("average", [0, False, "", []], ids=repr)
def test_nothing_else_is_an_average(average):
    with pytest.raises(TypeError, match="average = "):
        mf.shaped_attention(average=average)
    with pytest.raises(TypeError, match="average = "):
        mf.value_skipinit(average=average)


def test_what_would_take_an_hour_is_refused_before_it_begins() -> None:
    """the response of a softmax takes 0.1 ms a moment, three of which are in a repeat"""
    net = mf.Residual(mf.LayerNorm() >> mf.Attention(8, 1, sp.Rational(1, 2), sp.Rational(1, 2), 1, average=mf.Quenched()))
    with pytest.raises(ArithmeticError, match=r"10000000 layers one by one would take some 50 minutes"):
        mf.propagate(net, 10**7, 1.0, c=0.5, record="last")
