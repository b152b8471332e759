"""The gated attention unit: published numbers, exact limits of its law, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric import trajectory
from meanfield.numeric.members import Members

SOURCE = {"s": 128, "n": 512, "d": 768, "e": 1536}


def test_numbers_of_the_source_and_of_the_full_law() -> None:
    """theory.md 1.1, 1.2: the source's 0.0113; random networks give 0.0557 +- 0.0003 and a token cosine of 0.099"""
    block = mf.GAU(mf.silu, **SOURCE)
    diagonal, full = (mf.propagate(b, 1, q=1.0, c=0.0) for b in (block.diagonal, block))
    assert diagonal.q[-1] ** 0.5 == pytest.approx(0.0112581801613421, rel=1e-13)
    assert full.q[-1] ** 0.5 == pytest.approx(0.0557, rel=0.02)
    assert full.c[-1] == pytest.approx(0.099, abs=0.002)
    assert np.exp(full.log_apjn[0]) == pytest.approx(0.00425, rel=0.04)  # 0.00321 + 0.00026 + 0.00071 by Monte Carlo


def test_equal_tokens_stay_equal() -> None:
    """as the gap closes it is multiplied by a number, to the last digit; a gradient that tokens share stays shared"""
    block = mf.GAU(mf.silu, s=64, n=8, d=256)
    gaps = [1e-6, 1e-12, 1e-30]
    runs = [mf.propagate(block, 1, q=1.0, gap=gap) for gap in gaps]
    factors = [float(run.gap[-1]) / gap for run, gap in zip(runs, gaps, strict=True)]
    assert factors[1] == pytest.approx(factors[2], rel=1e-10)
    assert factors[0] == pytest.approx(factors[2], rel=1e-4)
    t = _entries(block, q=1.0, gap=1e-12)
    assert t[0, 0] + t[0, 1] == pytest.approx(t[1, 0] + t[1, 1], rel=1e-3)  # up to the truncation of overlaps at 0


@pytest.mark.parametrize("phi", [mf.silu, mf.relu], ids=str)
def test_moments_of_a_law_in_one_pass(phi: mf.Activation, monkeypatch: pytest.MonkeyPatch) -> None:
    """what a run takes all together is what quadrature of one moment after the other says, from near tokens to opposite ones"""
    block, start = mf.GAU(phi, s=16, n=4, d=64), {"q": 1.0, "gap": np.array([1e-9, 0.3, 1.1])}
    together = mf.propagate(block, 2, **start)
    assert trajectory.kernel_of(mf.recursion(block), True).text.count("def family_") == 1
    monkeypatch.setattr(Members, "answers", lambda node: False)
    monkeypatch.setattr(trajectory, "remembered", lambda name, make: make())
    trajectory.kernel_of.cache_clear()
    alone = mf.propagate(block, 2, **start)
    assert "def family_" not in trajectory.kernel_of(mf.recursion(block), True).text
    trajectory.kernel_of.cache_clear()
    for name in ("q", "gap"):
        np.testing.assert_allclose(getattr(together, name), getattr(alone, name), rtol=1e-13)
    np.testing.assert_allclose(together.log_apjn, alone.log_apjn, atol=1e-13)


@pytest.mark.parametrize("phi", [mf.silu, mf.relu, mf.tanh], ids=str)
def test_tokens_of_negative_correlation(phi: mf.Activation) -> None:
    """what a run takes is what its formula says, down to tokens that add up to nothing"""
    block = mf.GAU(phi, s=16, n=4, d=64)
    rec = mf.recursion(block)
    for c in (-0.2, -0.33):
        run = mf.propagate(block, 1, q=1.0, c=c)
        assert run.status == "ok"
        assert run.q[-1] == pytest.approx(mf.evaluate(rec.q, q=1.0, p=c), rel=1e-12)
        assert run.p[-1] == pytest.approx(mf.evaluate(rec.p, q=1.0, p=c), rel=1e-10)


@pytest.mark.parametrize("phi", [mf.silu, mf.relu, mf.Activation(sp.tanh(5 * mf.x))], ids=str)
def test_points_of_one_variance(phi: mf.Activation) -> None:
    """take their moments from panels that they share, the steep tanh its own at small gaps: the same numbers as from passes of their own,
    each as it is alone"""
    unit, gaps = mf.GAU(phi, s=16, n=8, d=64), np.array([0.7, 1e-12, 1.1, 0.001, 0.55, 0.45])
    by_panels, by_passes = (mf.propagate(net, 1, 1.0, gap=gaps) for net in (mf.LayerNorm() >> unit, unit))
    np.testing.assert_allclose(by_panels.q, by_passes.q, rtol=1e-12)
    np.testing.assert_allclose(by_panels.gap, by_passes.gap, rtol=1e-11)
    np.testing.assert_allclose(by_panels.log_apjn, by_passes.log_apjn, atol=1e-11)
    net = mf.Residual(mf.LayerNorm() >> unit)
    grid, alone = (mf.propagate(net, 160, q, c=0.3) for q in (np.linspace(0.5, 2.0, 11), float(np.linspace(0.5, 2.0, 11)[9])))
    assert (grid.q[9] == alone.q).all()
    assert (grid.gap[9] == alone.gap).all()


def test_laws_beside_each_other_keep_their_moments() -> None:
    """two units of different activations in one repeat, and two of one: each law its own pass, whichever came before"""
    one, other = (mf.Residual(mf.LayerNorm() >> mf.GAU(phi, s=16, n=4, d=64)) for phi in (mf.silu, mf.gelu))
    for net in (one >> other, one >> one):
        whole = mf.propagate(net, 1, q=1.0, c=0.2)
        first = mf.propagate(net.blocks[0], 1, q=1.0, c=0.2)
        second = mf.propagate(net.blocks[1], 1, q=first.q[-1], gap=first.gap[-1])
        assert (whole.q[-1], whole.gap[-1]) == (second.q[-1], pytest.approx(second.gap[-1], rel=1e-14))


def _entries(block: mf.Block, q: float, gap: float) -> np.ndarray:
    law = block.law(mf.Signal(mf.q, mf.p, mf.delta))
    values: dict[sp.Expr, sp.Expr] = {mf.p: sp.Float(q * (1 - gap), 30), mf.q: sp.Float(q, 30), mf.delta: sp.Float(q * gap, 30)}
    for d in law.definitions:
        value = d.value.xreplace(values) if d.kernel is None else d.kernel.xreplace(values)
        values[d.symbol] = sp.Float(mf.evaluate(value), 30)
    return np.array([[mf.evaluate(e.xreplace(values)) for e in law.transfer.row(i)] for i in (0, 1)])


def test_one_token() -> None:
    """a gate times relu(|z|^2)^2: E O^2 = q_U q_V E |z|^8/s^2, for linear phi a moment of chi^2"""
    block = mf.GAU(mf.Activation(mf.x, name="identity"), s=64, n=1, d=256)
    run = mf.propagate(block, 1, q=1.0)
    chi8 = 64 * 66 * 68 * 70
    assert run.q[-1] == pytest.approx(chi8 / 64**2, rel=1e-3)  # the fourth cumulant is left out: 48/s^3 of it


def test_homogeneous_units() -> None:
    """phi = x^2: the output has degree 2 + 2 + 8 + 1 in a gain of the weights and 12 in the input, at any correlation"""
    square = mf.Activation(mf.x**2)
    base = mf.propagate(mf.GAU(square, s=16, n=4, d=64), 1, q=1.0, c=0.3)
    gained = mf.propagate(mf.GAU(square, s=16, n=4, d=64, lam=0.5), 1, q=1.0, c=0.3)
    scaled = mf.propagate(mf.GAU(square, s=16, n=4, d=64, sigma_O=2), 1, q=0.25, c=0.3)
    assert gained.q[-1] / base.q[-1] == pytest.approx(0.5**26, rel=1e-10)
    assert scaled.q[-1] / base.q[-1] == pytest.approx(4 * 0.5**24, rel=1e-10)
    assert gained.gap[-1] == pytest.approx(base.gap[-1], rel=1e-10)
    assert np.exp(gained.log_apjn[0] - base.log_apjn[0]) == pytest.approx(0.5**26, rel=1e-9)


def test_composes() -> None:
    """alone, and as the branch of pre-norm and post-norm residuals"""
    unit = mf.GAU(mf.silu, s=16, n=4, d=64)
    alone = mf.propagate(unit, 1, q=1.0, c=0.5)
    pre = mf.propagate(mf.Residual(mf.LayerNorm() >> unit), 1, q=1.0, c=0.5)
    post = mf.propagate(mf.Residual(unit) >> mf.LayerNorm(), 1, q=1.0, c=0.5)
    assert pre.q[-1] == pytest.approx(1 + alone.q[-1], rel=1e-12)
    assert (post.q[-1], post.c[-1]) == (pytest.approx(1), pytest.approx(pre.c[-1], rel=1e-12))
    assert np.exp(post.log_apjn[0]) == pytest.approx((1 + np.exp(alone.log_apjn[0])) / pre.q[-1], rel=1e-10)
    assert [s.name for s in mf.recursion(mf.GAU(mf.silu)).parameters] == ["d", "n", "s"]


def test_refusals() -> None:
    with pytest.raises(TypeError, match="phi"):
        mf.GAU(mf.x)
    with pytest.raises(ValueError, match="it jumps"):
        mf.GAU(mf.step)
    with pytest.raises(ValueError, match="s = 0"):
        mf.GAU(mf.silu, s=0)
    with pytest.raises(ValueError, match="sigma_U = -1"):
        mf.GAU(mf.silu, sigma_U=-1)
