"""What LayerNorm divides by behind an activation that leaves a mean keeps the digits that E phi^2 - (E phi)^2 would lose."""

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf

x = mf.x


def mean_of(f: sp.Expr, scale: float) -> mp.mpf:
    number = sp.lambdify(x, f, "mpmath")
    return mp.quad(lambda z: number(scale * z) * mp.npdf(z), [-30, -8, -4, -2, 0, 2, 4, 8, 30])


def chi(f: sp.Expr, scale: float) -> mp.mpf:
    """scale^2 E phi'^2/Var phi, to forty digits"""
    with mp.workdps(50):
        m = mean_of(f, scale)
        return scale**2 * mean_of(sp.diff(f, x) ** 2, scale) / (mean_of(f**2, scale) - m**2)


SMOOTH = {
    "gauss": sp.exp(-(x**2)),
    "cos": sp.cos(x),
    "softplus": sp.log(1 + sp.exp(x)),
    "far from 0": 1000 + sp.tanh(x),
    "rational": (2 + x) / (1 + x**2),
}


@pytest.mark.parametrize("f", SMOOTH.values(), ids=SMOOTH)
def test_small_weights_before_an_activation_with_a_mean(f: sp.Expr) -> None:
    scales = np.array([1.0, 1e-2, 1e-4, 1e-6])
    first, act, last = mf.Linear(sp.Symbol("s", positive=True), 0), mf.Activate(mf.Activation(f)), mf.Linear(1, 0)
    expected = [float(chi(f, scale)) for scale in scales]
    for norms in (mf.LayerNorm(), mf.Scale(3) >> mf.LayerNorm(), mf.RMSNorm() >> mf.LayerNorm()):
        run = mf.propagate(first >> act >> norms >> last, 1, 1.0, c=0.5, s=scales)
        assert (run.status == "ok").all()
        assert run.chi[:, 0] == pytest.approx(expected, rel=1e-12)
    pair = mf.propagate(first >> act >> mf.LayerNorm() >> last, 1, 1.0, q2=1.0, p=0.5, s=scales)
    assert pair.p[:, -1] == pytest.approx(1 - run.gap[:, -1], rel=1e-12)
    one = mf.propagate(mf.Linear(1e-4, 0) >> act >> mf.LayerNorm() >> last, 1, 1.0, c=0.5)
    assert one.chi[0] == pytest.approx(expected[2], rel=1e-12)


def test_a_stream_of_small_weights() -> None:
    """Var cos u = e^-v (cosh v - 1), Var cos u - Cov = e^-v (cosh v - cosh v c), E sin^2 u = e^-v sinh v"""
    run = mf.propagate(mf.Residual(mf.Linear(0.001, 0) >> mf.Activate(mf.cos) >> mf.LayerNorm() >> mf.Linear(0.5, 0)), 100, 1.0, c=0.5)
    with mp.workdps(50):
        q, gap, gradient, scale = mp.mpf(1), mp.mpf("0.5"), mp.mpf(0), mp.mpf(0.001) ** 2
        for _ in range(100):
            v, p = scale * q, scale * (q - gap)
            variance = mp.cosh(v) - 1
            gradient += mp.log(1 + scale * mp.sinh(v) / variance / 4)
            q, gap = q + mp.mpf(1) / 4, gap + (mp.cosh(v) - mp.cosh(p)) / variance / 4
        assert run.gap[-1] == pytest.approx(float(gap / q), rel=1e-12)
        assert run.log_chi_product[0] == pytest.approx(float(gradient), rel=1e-12)


def test_its_fixed_points() -> None:
    found = mf.fixed_points(mf.Activate(mf.cos) >> mf.LayerNorm() >> mf.Linear(0.0001, 0))
    assert [(f.c, f.stable) for f in found] == [(1, False), (0, True)]
    assert np.allclose([f.chi for f in found], [2, 0], atol=1e-7)  # E sin^2 u of its closed form, at a variance of 1e-8


def test_formulas_show_the_difference() -> None:
    net = mf.Linear(1, 0) >> mf.Activate(mf.relu) >> mf.LayerNorm() >> mf.Linear(1, 0)
    assert sp.simplify(mf.recursion(net).chi - 1 / (1 - 1 / sp.pi) / mf.q) == 0
    assert r"\tilde v" not in mf.latex(net)
