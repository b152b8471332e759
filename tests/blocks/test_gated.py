"""Products of branches: moments multiply, gradients take the other branch's moments; gated linear units; what is refused."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf

LINEAR = mf.Linear(1, 0)


def at(e: sp.Expr, **values: Any) -> float:
    return mf.evaluate(e, **{name: values[name] for name in {s.name for s in e.free_symbols}})


def test_product_of_linear_maps() -> None:
    """(W x)(V x): all by hand"""
    a, b, q, p = sp.Symbol("a", positive=True), sp.Symbol("b", positive=True), mf.q, mf.p
    rec = mf.recursion(mf.Product(mf.Linear(a, 0), mf.Linear(b, 0)) >> LINEAR)
    assert sp.expand(rec.q - a**2 * b**2 * q**2) == 0
    assert sp.expand(rec.p - a**2 * b**2 * p**2) == 0
    assert sp.expand(rec.transfer - 2 * a**2 * b**2 * sp.diag(q, p)) == sp.zeros(2)
    assert sp.expand(rec.chi - 2 * a**2 * b**2 * q) == 0


def test_product_is_symmetric_and_composes() -> None:
    """f g = g f; three factors in either order"""
    f, g, h = mf.Linear(0.7, 0.3) >> mf.Activate(mf.erf), mf.Linear(1.2, 0.1), mf.Linear(0.9, 0) >> mf.Activate(mf.gelu)
    pairs = [
        (mf.Product(f, g), mf.Product(g, f)),
        (mf.Product(mf.Product(f, g), h), mf.Product(f, mf.Product(g, h))),
    ]
    for one, other in pairs:
        a, b = (mf.recursion(block >> LINEAR) for block in (one, other))
        for e, s in zip((a.q, a.p, a.chi, *a.transfer), (b.q, b.p, b.chi, *b.transfer), strict=True):
            assert at(e, q=1.3, p=0.4) == pytest.approx(at(s, q=1.3, p=0.4), rel=1e-13)


def test_a_constant_branch_changes_nothing() -> None:
    """a bias of variance 1 alone is a random diagonal of unit second moment"""
    f = mf.Linear(0.8, 0.2) >> mf.Activate(mf.tanh) >> mf.Linear(1.1, 0.1)
    one, other = mf.recursion(mf.Product(f, mf.Linear(0, 1)) >> LINEAR), mf.recursion(f >> LINEAR)
    for e, s in zip((one.q, one.p, one.chi, *one.transfer), (other.q, other.p, other.chi, *other.transfer), strict=True):
        assert at(e, q=0.7, p=-0.2) == pytest.approx(at(s, q=0.7, p=-0.2), rel=1e-13)


@pytest.mark.parametrize("gap", [1e-30, 1e-8, 0.5, 1.7])
def test_gap_of_a_product_does_not_cancel(gap: float) -> None:
    """against 60 digits"""
    net = mf.GLU(mf.gelu, 1, 1, 1)
    found = mf.propagate(net, 1, 1.0, gap=gap)
    with mp.workdps(60):
        d = mp.mpf(gap)

        def kernel(c: mp.mpf) -> mp.mpf:  # gelu at q = 1 (theory.md 0.2)
            a, rest = mp.mpf(1) / 2, 4 - c * c
            return (c + 2 / mp.pi * c * mp.asin(c * a) + 2 / mp.pi * ((1 - c * c) + 1 + c * c) / (2 * mp.sqrt(rest))) / 4

        assert kernel(mp.mpf(1)) == pytest.approx(0.425221482570298674918554416386)
        truth = kernel(mp.mpf(1)) - (1 - d) * kernel(1 - d)
        assert found.q[-1] * found.gap[-1] == pytest.approx(float(truth), rel=2e-14)


@pytest.mark.parametrize(("name", "phi"), [("SwiGLU", mf.silu), ("GEGLU", mf.gelu), ("ReGLU", mf.relu)])
def test_gated_units(name: str, phi: mf.Activation) -> None:
    """K_glu = K_phi(q, rho) p; APJN factor E phi'^2 q + E phi^2 (theory.md 0.2)"""
    net = getattr(mf, name)()
    assert net == mf.GLU(phi)
    assert [s.name for s in mf.recursion(net).parameters] == ["sigma_gate", "sigma_out", "sigma_value"]
    rec, values = mf.recursion(net), {"sigma_gate": 1, "sigma_value": 1, "sigma_out": 1, "q": 1.7, "p": 0.6}
    second, slope = (at(f.second_moment(mf.q), **values) for f in (phi, phi.derivative))
    kernel, cross = (at(f.kernel(mf.q, mf.p), **values) for f in (phi, phi.derivative))
    assert at(rec.q, **values) == pytest.approx(1.7 * second, rel=1e-13)
    assert at(rec.p, **values) == pytest.approx(0.6 * kernel, rel=1e-13)
    assert at(rec.chi, **values) == pytest.approx(1.7 * slope + second, rel=1e-13)
    assert at(rec.transfer[1, 1], **values) == pytest.approx(0.6 * cross + kernel, rel=1e-13)


def test_gated_unit_in_a_transformer() -> None:
    net = mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(n=4, sigma_Q=0, sigma_K=0, sigma_V=1, sigma_O=1), mlp=mf.SwiGLU(1, 1, 1))
    run = mf.propagate(net, 3, 1.0, c=0.3)
    assert run.status == "ok"
    branch = at(mf.silu.second_moment(1))
    assert run.q[1] == pytest.approx(1 + (0.3 + 0.7 / 4) + branch, rel=1e-13)


def test_attention_as_a_factor() -> None:
    """the transfer of a branch that mixes tokens is weighted from the right: J by q_g, K by p_g"""
    attention, gate = mf.Attention(n=5, sigma_Q=1, sigma_K=1, sigma_V=1, sigma_O=1), mf.Linear(1, 0) >> mf.Activate(mf.sin)
    rec, t = mf.recursion(mf.Product(attention, gate) >> LINEAR), mf.recursion(attention).transfer
    point = {"q": 1.0, "p": 0.3}
    q, p = (at(e, **point) for e in (mf.sin.second_moment(mf.q), mf.sin.kernel(mf.q, mf.p)))
    assert at(rec.transfer[0, 1], **point) == pytest.approx(at(t[0, 1], **point) * p, rel=1e-13)
    assert at(rec.transfer[1, 0], **point) == pytest.approx(at(t[1, 0], **point) * q, rel=1e-13)


@pytest.mark.parametrize("branch", [mf.Identity(), mf.LayerNorm(), mf.Scale(2), mf.Activate(mf.tanh), mf.Residual(LINEAR)])
def test_correlated_factors_are_refused(branch: mf.Block) -> None:
    """x phi(x) is an activation of x, not a product of independent coordinates"""
    with pytest.raises(ValueError, match="has random weights"):
        mf.Product(branch, mf.Identity())
    assert mf.Product(branch, LINEAR) is not None


def test_product_is_not_gaussian_and_may_carry_a_mean() -> None:
    gate = LINEAR >> mf.Activate(mf.relu)
    with pytest.raises(ValueError, match="insert a Linear"):
        mf.Product(gate, LINEAR) >> mf.Activate(mf.relu)
    with pytest.raises(ValueError, match="non-zero mean"):
        mf.Residual(mf.Product(gate, gate))
    with pytest.raises(ValueError, match="no random weights"):
        mf.Residual(mf.Product(mf.Identity(), LINEAR))
    law = mf.Product(gate, gate).law(mf.Signal(mf.q, mf.p, mf.delta))
    assert sp.simplify(law.output.mean - mf.q / (2 * sp.pi)) == 0
    assert mf.Residual(mf.Product(gate, LINEAR)) is not None
    with pytest.raises(TypeError, match="second"):
        mf.Product(gate, mf.relu)


def test_whole_range_of_variances() -> None:
    run = mf.propagate(mf.GLU(mf.relu, 1, 1, 1), 1, np.array([1e-12, 1.0, 1e12]), c=0.5)
    assert np.allclose(run.q[:, 1], np.array([1e-24, 1.0, 1e24]) / 2, rtol=1e-14)
