"""mf.recursion: the symbolic q, p, transfer and chi of a repeat against the formulas of theory.md 4.1 and 4.2 typed in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import (
    ACTIVATIONS,
    FLOAT,
    MPF,
    VIT,
    Arithmetic,
    Normed,
    bound,
    derf_norm,
    exact,
    identity_norm,
    layer_norm,
    oracle_transformer,
    pair_moments,
    transformer,
)

import meanfield as mf

NORMS: dict[str, Callable[[Arithmetic, Any, Any], Normed]] = {"layer": layer_norm, "derf": derf_norm("0.7"), "identity": identity_norm}
POINTS = ((1.0, 0.4), (0.25, -0.05), (3.0, 2.75))
SETTINGS = ({}, {"n": 4, "sigma_Q": 1.5, "sigma_O": 2.0})


def parts(rec: mf.Recursion) -> dict[str, sp.Expr]:
    t = rec.transfer
    return {"q": rec.q, "p": rec.p, "JJ": t[0, 0], "JK": t[0, 1], "KJ": t[1, 0], "KK": t[1, 1], "chi": rec.chi}


def decimal(value: float) -> sp.Rational:
    return sp.Rational(str(value))


@pytest.mark.parametrize("softmax_derivative", [False, True], ids=["value path", "softmax derivative"])
@pytest.mark.parametrize("name", NORMS)
def test_one_block_to_thirty_digits(name: str, softmax_derivative: bool) -> None:
    found = parts(mf.recursion(transformer(name, softmax_derivative)))
    alpha = {"alpha": 0.7} if name == "derf" else {}
    with mp.workdps(50):
        for changes in SETTINGS:
            values = {**VIT, **changes}
            typed = {k: v if k == "n" else mp.mpf(str(v)) for k, v in values.items()}
            net = oracle_transformer(MPF, NORMS[name], softmax_derivative, **typed)
            for q, p in POINTS:
                q1, p1, T, chi = net.block(mp.mpf(q), mp.mpf(p))
                truth = dict(zip(("q", "p", "JJ", "JK", "KJ", "KK", "chi"), (q1, p1, *T[0], *T[1], chi), strict=True))
                point = {k: decimal(v) for k, v in {**values, **alpha}.items()} | {"q": q, "p": p}
                for key, expression in found.items():
                    value = exact(expression, 40, **point)
                    assert abs(value - truth[key]) <= mp.mpf("1e-30") * max(1, abs(truth[key])), (key, q, p, changes)


@pytest.mark.parametrize("name", NORMS)
def test_one_block_in_floats(name: str) -> None:
    """the expressions of the recursion through mf.evaluate, a grid in one call"""
    found = parts(mf.recursion(transformer(name, True)))
    q, p = np.array(POINTS).T
    values = {**VIT, "n": 7, **({"alpha": 0.7} if name == "derf" else {})}
    numbers = {key: bound(e, q=q, p=p, **values) for key, e in found.items()}
    norm = derf_norm(0.7) if name == "derf" else NORMS[name]
    net = oracle_transformer(FLOAT, norm, True, n=7)
    for i in range(len(q)):
        q1, p1, T, chi = net.block(float(q[i]), float(p[i]))
        truth = dict(zip(("q", "p", "JJ", "JK", "KJ", "KK", "chi"), (q1, p1, *T[0], *T[1], chi), strict=True))
        for key, value in numbers.items():
            assert abs(value[i] - truth[key]) <= 1e-12 * max(1.0, abs(truth[key])), (key, i)


@pytest.mark.parametrize("alpha", [0.7, 30.0])
def test_composed_angles_next_to_correlation_one(alpha: float) -> None:
    """KK and p of two sublayers, an arcsine of a law that itself holds arcsines and exponentials: within the bound that is stated"""
    found = parts(mf.recursion(transformer("derf", True)))
    points = [(q, rho * q) for q in (1e-8, 1.0, 1e8) for rho in (1, 1 - 1e-15, 1 - 1e-8, 0, -0.1)]
    q, p = np.array(points).T
    with mp.workdps(50):
        net = oracle_transformer(MPF, derf_norm(mp.mpf(alpha)), True, **{k: mp.mpf(v) for k, v in VIT.items() if k != "n"}, n=7)
        blocks = [net.block(mp.mpf(a), mp.mpf(b)) for a, b in points]
        for key, truth in {"KK": [T[1][1] for _, _, T, _ in blocks], "p": [p1 for _, p1, _, _ in blocks]}.items():
            values, bounds = mf.evaluate(found[key], q=q, p=p, alpha=alpha, error=True, **{**VIT, "n": 7})
            assert (bounds < 1e-12 * np.abs(values)).all(), key
            for value, limit, exactly, point in zip(values, bounds, truth, points, strict=True):
                assert abs(mp.mpf(float(value)) - exactly) <= float(limit), (key, point)
                assert abs(mp.mpf(float(value)) - exactly) <= 4e-15 * abs(exactly), (key, point)


def test_dyt_block() -> None:
    """every expectation of tanh by panels"""
    tanh = ACTIVATIONS["tanh"]

    def norm(ar: Arithmetic, q: float, p: float) -> Normed:
        f = pair_moments(tanh.f, 0.49 * q, 0.49 * (q - p), tanh.difference)
        g = pair_moments(tanh.df, 0.49 * q, 0.49 * (q - p))
        return Normed(f.product + f.gap, f.product, 0.49 * (g.product + g.gap), 0.49 * g.product)

    run = mf.propagate(transformer("dyt", True), 1, [q for q, _ in POINTS], p=[p for _, p in POINTS], alpha=0.7, **{**VIT, "n": 4})
    net = oracle_transformer(FLOAT, norm, True, n=4)
    for i, (q, p) in enumerate(POINTS):
        q1, p1, T, chi = net.block(q, p)
        assert run.q[i, 1] == pytest.approx(q1, rel=1e-13)
        assert run.p[i, 1] == pytest.approx(p1, rel=1e-12)
        assert run.chi[i, 0] == pytest.approx(chi, rel=1e-13)
        assert np.exp(run.log_apjn[i, 0]) == pytest.approx(T[0][0], rel=1e-13)


def test_transfer_acts_backward_in_order() -> None:
    """rec.transfer of a >> b is T_a(input) T_b(output of a): its product over repeats is the run's J, forward and backward"""
    net = transformer("derf", True)
    rec = mf.recursion(net)
    values = {**VIT, "n": 3, "alpha": 1.2, "sigma_Q": 1.0, "sigma_O": 1.3}
    run = mf.propagate(net, 4, 1.0, p=0.2, **values)
    product = np.eye(2)
    for layer in range(4):
        at = {"q": run.q[layer], "p": run.p[layer], **values}
        product = product @ np.array([[float(bound(rec.transfer[i, j], **at)) for j in (0, 1)] for i in (0, 1)])
        assert np.log(product[0, 0]) == pytest.approx(run.log_apjn_forward[layer + 1], abs=1e-12)
    assert np.log(product[0, 0]) == pytest.approx(run.log_apjn[0], abs=1e-12)
    pooled = mf.propagate(net, 4, 1.0, p=0.2, start="pooled", **values)
    assert np.log(product[0].sum()) == pytest.approx(pooled.log_apjn[0], abs=1e-12)


def test_chi_is_not_the_entry_of_the_product() -> None:
    """two attention sublayers: the product of the chi's leaves out what goes through K"""
    net = mf.Residual(mf.LayerNorm() >> mf.Attention(4, 0, 0, 1, 1)) >> mf.Residual(mf.LayerNorm() >> mf.Attention(4, 0, 0, 1, 1))
    rec = mf.recursion(net)
    chi, entry = exact(rec.chi, 30, q=1, p=sp.Rational(2, 5)), exact(rec.transfer[0, 0], 30, q=1, p=sp.Rational(2, 5))
    with mp.workdps(30):
        # uniform attention at sigma_QK = 0: q1 = q + p + (q - p)/4, hat q = 1/q
        first, second = mp.mpf(1) + mp.mpf(1) / 4, 1 + 1 / mp.mpf("1.55") / 4
        assert abs(chi - first * second) < mp.mpf("1e-27")
        assert abs(entry - (first * second + mp.mpf(3) / 4 / mp.mpf("1.55") / 4)) < mp.mpf("1e-27")


def test_single_input_networks_have_no_covariance_in_q() -> None:
    rec = mf.recursion(mf.mlp(mf.gelu))
    assert mf.p not in rec.q.free_symbols
    assert mf.p in rec.p.free_symbols
    assert rec.transfer[0, 1] == rec.transfer[1, 0] == 0
    assert mf.p in mf.recursion(transformer()).q.free_symbols


def test_recursion_of_an_mlp() -> None:
    rec = mf.recursion(mf.mlp(mf.erf))
    w, b = sp.Symbol("sigma_w", positive=True), sp.Symbol("sigma_b", positive=True)
    q, p = mf.q, mf.p
    assert sp.simplify(rec.q - (2 * w**2 / sp.pi * sp.asin(2 * q / (1 + 2 * q)) + b**2)) == 0
    assert sp.simplify(rec.p - (2 * w**2 / sp.pi * sp.asin(2 * p / (1 + 2 * q)) + b**2)) == 0
    assert sp.simplify(rec.chi - 4 * w**2 / sp.pi / sp.sqrt(1 + 4 * q)) == 0
    assert rec.chi == rec.transfer[0, 0]
    assert sp.simplify(rec.transfer[1, 1] - rec.p.diff(p)) == 0  # Price, through the whole layer


def test_symbols_of_the_recursion_are_plain() -> None:
    """q, p and the parameters, no named quantity left over, nothing unevaluated where the algebra reaches"""
    for name in NORMS:
        rec = mf.recursion(transformer(name, True))
        allowed = {mf.q, mf.p, *rec.parameters}
        for key, e in parts(rec).items():
            assert e.free_symbols <= allowed, (name, key)
            assert not [f for f in e.atoms(sp.Function) if type(f).__name__ in ("AngleDifference", "AngleMinusSine", "Gap")], (name, key)


def test_parameters() -> None:
    names = [s.name for s in mf.recursion(transformer("derf")).parameters]
    assert names == ["alpha", "n", "sigma_1", "sigma_2", "sigma_K", "sigma_O", "sigma_Q", "sigma_V"]
    bound_net = mf.pre_norm(norm=mf.Derf(1), attention=mf.Attention(4, 1, 1, 1, 1), mlp=mf.MLP(mf.relu, 1, 1))
    assert mf.recursion(bound_net).parameters == ()


def test_recursion_is_frozen_and_remembered() -> None:
    net = transformer()
    rec = mf.recursion(net)
    assert mf.recursion(net) is rec
    with pytest.raises((AttributeError, TypeError)):
        rec.block = mf.Linear()  # type: ignore[misc]
    assert "Recursion" in repr(rec)
    assert rec.latex()


def test_what_nothing_is_made_of_is_no_part_of_the_recursion() -> None:
    """branches of scale 0, whose attention and MLP have named quantities"""
    rec = mf.recursion(mf.rezero(attention=mf.Attention(), mlp=mf.MLP(mf.relu)))
    assert rec.parameters == ()
    assert all(stage.law.definitions == () for stage in rec.stages)
    assert "where" not in rec.latex()
    assert (mf.propagate(rec.block, 3, 2.0, p=0.5).q == 2.0).all()
