"""Gaps of functions that level off, or rise more slowly than |x|, under Gaussians ever so wide: they are made near 0, next to nothing of a
deviation from there."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf

LEVEL = {
    "hard tanh": mf.Activation(sp.Min(1, sp.Max(-1, mf.x))),
    "tanh": mf.tanh,
    "softsign": mf.softsign,
    "a root": mf.Activation(mf.x / sp.sqrt(1 + mf.x**2)),
}
ROOTS = {"1/2": sp.Rational(1, 4), "1/3": sp.Rational(1, 6)}
FAR = [(1e60, 1e-30), (1e90, 1e-60), (1e100, 1e-60), (1e110, 1e-80), (1e300, 1e-100), (1e300, 0.5), (1e300, 1.9)]


def gap_of(phi: mf.Activation, q: float, gap: float) -> float:
    run = mf.propagate(mf.mlp(phi), 1, q, gap=gap, sigma_w=1.0, sigma_b=0.0)
    assert run.status == "ok"
    return float(run.gap[-1] * run.q[-1])


@pytest.mark.parametrize("name", LEVEL)
@pytest.mark.parametrize(("q", "gap"), FAR)
def test_between_variables_far_apart_against_what_happens_near_0_they_are_those_of_steps(name: str, q: float, gap: float) -> None:
    """E sign(u)^2 - E sign(u) sign(v) = (4/pi) arcsin sqrt((1 - c)/2)"""
    with mp.workdps(50):
        true = float(4 / mp.pi * mp.asin(mp.sqrt(mp.mpf(gap) / 2)))
    assert gap_of(LEVEL[name], q, gap) == pytest.approx(true, rel=1e-12)


@pytest.mark.parametrize("name", LEVEL)
@pytest.mark.parametrize("delta", [1e-4, 1.0, 1e8])
def test_between_close_variables_they_fall_as_the_density_at_0(name: str, delta: float) -> None:
    near, *others = (gap_of(LEVEL[name], q, delta / q) * q**0.5 for q in (1e30, 1e50, 1e80, 1e120))
    assert others == pytest.approx([near] * 3, rel=1e-11)


@pytest.mark.parametrize("k", ROOTS)
@pytest.mark.parametrize(("q", "gap"), FAR[:-1])
def test_roots_of_the_modulus(k: str, q: float, gap: float) -> None:
    r"""E |u|^{2k} - E |u v|^k = 2^k \Gamma((k + 1)/2)^2/\pi (F(1) - F(c^2)) q^k, F = {}_2F_1(-k/2, -k/2; 1/2; .)"""
    phi = mf.Activation((1 + mf.x**2) ** ROOTS[k])
    with mp.workdps(250):
        a = -mp.mpf(ROOTS[k].p) / ROOTS[k].q
        lacking = mp.hyp2f1(a, a, 0.5, 1) - mp.hyp2f1(a, a, 0.5, (1 - mp.mpf(gap)) ** 2)
        true = float(mp.mpf(2) ** (-2 * a) * mp.gamma(0.5 - a) ** 2 / mp.pi * lacking * mp.mpf(q) ** (-2 * a))
    assert gap_of(phi, q, gap) == pytest.approx(true, rel=1e-11)


@pytest.mark.parametrize("phi", [LEVEL["hard tanh"], mf.erf], ids=["hard tanh", "erf"])
def test_gated_attention_of_functions_that_level_off(phi: mf.Activation) -> None:
    net = mf.GAU(phi, s=8, n=4, d=16, e=32)
    runs = {q: mf.propagate(net, 1, q, gap=1e10 / q) for q in (1e30, 1e40, 1e50, 1e60)}
    for name in ("gap", "chi", "log_apjn"):  # all go as 1/sqrt q
        found = [float(getattr(run, name)[-1 if name == "gap" else 0]) for run in runs.values()]
        near, *others = (v + math.log(q) / 2 if name == "log_apjn" else v * q**0.5 for v, q in zip(found, runs, strict=True))
        assert others == pytest.approx([near] * 3, rel=1e-9), name


def test_closed_gaps_of_an_error_function_beside_a_wave() -> None:
    """x erf x + sin x, whose form holds arcs and expressions under names of the library's own"""
    run = mf.propagate(mf.mlp(mf.Activation(mf.x * sp.erf(mf.x) + sp.sin(mf.x))), 1, 1.0, c=0.3, sigma_w=1.0, sigma_b=0.0)
    z, (nodes, weights) = sp.Symbol("z"), np.polynomial.hermite_e.hermegauss(120)
    f = sp.lambdify(z, z * sp.erf(z) + sp.sin(z), ["scipy", "numpy"])
    weights = weights / weights.sum()
    assert run.q[1] == pytest.approx(f(nodes) ** 2 @ weights, rel=1e-10)
    assert run.p[1] == pytest.approx((f(nodes) * weights) @ f(0.3 * nodes[:, None] + np.sqrt(0.91) * nodes) @ weights, rel=1e-10)
