"""Long arrays of moments, which are read from tables: as good as one by one, and for a small part of the time."""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from numpy.typing import NDArray

import meanfield as mf
from meanfield.numeric import many_laws, methods
from meanfield.numeric.asked import Asked

Floats = NDArray[np.float64]

#: tailed, narrow, kinked, with a cusp, nearly even, steep, a wave; none is in the catalogue
OWN = {
    "sum": sp.tanh(mf.x) + mf.x * sp.exp(-(mf.x**2)) / 3,
    "narrow": sp.exp(-50 * mf.x**2) + sp.Max(mf.x, 0) / 20,
    "kinked": sp.Max(-1, sp.Min(3 * mf.x, 2)) + sp.Abs(mf.x - 1) / 4,
    "cusp": mf.x / (1 + sp.Abs(mf.x)) ** 2,
    "nearly even": sp.log(sp.cosh(mf.x)) + sp.tanh(mf.x) / 10**4,
    "steep": sp.tanh(200 * mf.x),
    "beats": sp.sin(3 * mf.x) * sp.tanh(mf.x),
}


def grid(seed: int, count: int, low: float, high: float) -> tuple[Floats, Floats]:
    """variances and correlations, some of which are next to 1 and -1"""
    rng = np.random.default_rng(seed)
    q, c = 10 ** rng.uniform(low, high, count), rng.uniform(-1, 1, count)
    c[::7], c[1::7] = 1 - 10 ** rng.uniform(-9, 0, c[::7].size), 10 ** rng.uniform(-6, 0, c[1::7].size) - 1
    return q, c


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """of how many points a sum was taken, each time"""
    counts: list[int] = []
    inner: Callable[..., tuple[Floats, Floats]] = methods.by_quadrature

    def sums(asked: object, table: Floats, closed: bool = False) -> tuple[Floats, Floats]:
        counts.append(table.shape[1])
        return inner(asked, table, closed)

    monkeypatch.setattr(methods, "by_quadrature", sums)
    return counts


@pytest.mark.parametrize("name", sorted(set(OWN) - {"beats"}))
def test_as_good_as_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    phi, (q, c) = mf.Activation(OWN[name]), grid(3, 2000, -1.0, 1.0)
    some = slice(0, None, 83)
    for expression, given in (
        (phi.kernel(mf.q, mf.p), {"q": q, "p": q * c}),
        (phi.gap(mf.q, mf.delta), {"q": q, "delta": q * (1 - c)}),
        (phi.second_moment(mf.q), {"q": q}),
    ):
        counts = counting(monkeypatch)
        found = mf.evaluate(expression, **given)
        monkeypatch.undo()
        assert sum(counts) < 0.15 * q.size or not expression.has(mf.p)
        value, bound = mf.evaluate(expression, error=True, **{k: v[some] for k, v in given.items()})
        assert (np.abs(found[some] - value) <= bound + 1e-11 * np.abs(value)).all()


def test_waves_as_good_as_one_by_one() -> None:
    """which tables hold up to some variance; their gaps are each summed"""
    phi, (q, c) = mf.Activation(OWN["beats"]), grid(5, 200, -1.0, 1.0)
    found = mf.evaluate(phi.kernel(mf.q, mf.p), q=q, p=q * c)
    some = slice(0, None, 20)
    value, bound = mf.evaluate(phi.kernel(mf.q, mf.p), error=True, q=q[some], p=(q * c)[some])
    assert (np.abs(found[some] - value) <= bound + 1e-10 * np.abs(value)).all()


@pytest.mark.parametrize("name", ["beats", "cusp", "steep"])
def test_many_laws_of_two_variances_and_means(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """are summed together, as good as one by one; none is taken where it differs from itself in more detail"""
    phi, (q, c) = mf.Activation(OWN[name]), grid(9, 400, -1.0, 1.0)
    rng, m, some, c = np.random.default_rng(2), sp.Symbol("m", real=True), slice(3, None, 200), 0.995 * c
    beside, v = rng.normal(size=q.size) * np.sqrt(q), q * 10 ** rng.uniform(-1, 1, q.size)
    for expression, given in (
        (phi.kernel(mf.q1, mf.p, mf.q2), {"q1": q, "p": c * np.sqrt(q * v), "q2": v}),
        (phi.kernel(mf.q, mf.p, mean=m), {"q": q, "p": q * c, "m": beside}),
        (phi.mean(mf.q, mean=m), {"q": q, "m": beside}),
    ):
        counts = counting(monkeypatch)
        found = mf.evaluate(expression, **given)
        monkeypatch.undo()
        assert sum(counts) < 0.3 * q.size
        assert np.allclose(found[some], mf.evaluate(expression, **{k: a[some] for k, a in given.items()}), rtol=1e-12, atol=0)


def test_laws_that_differ_in_more_detail_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    q = np.linspace(1.0, 2.0, 200)
    expected = mf.evaluate(mf.tanh.kernel(mf.q1, mf.p, mf.q2), q1=q[:3], p=0.9 * q[:3], q2=1.1 * q[:3])
    monkeypatch.setattr(many_laws, "NARROW", 0.5)  # for which nodes about each mean of v given u are too few
    counts = counting(monkeypatch)
    found = mf.evaluate(mf.tanh.kernel(mf.q1, mf.p, mf.q2), q1=q, p=0.9 * q, q2=1.1 * q)
    assert sum(counts) > 0.5 * q.size
    assert np.allclose(found[:3], expected, rtol=1e-14, atol=0)


def test_laws_at_the_limits_are_taken_like_others() -> None:
    """of correlation 1, -1 and 0, and narrow beside each other, without a word about what is divided by"""
    q, c = np.linspace(1.0, 2.0, 120), np.tile([1.0, -1.0, 0.0], 40)
    v = np.where(np.arange(120) % 7 == 0, 1e-250, q)
    found = mf.evaluate(mf.silu.kernel(mf.q1, mf.p, mf.q2), q1=q, p=c * np.sqrt(q) * np.sqrt(v), q2=v)
    alone = mf.evaluate(mf.silu.kernel(mf.q1, mf.p, mf.q2), q1=q[:9], p=(c * np.sqrt(q) * np.sqrt(v))[:9], q2=v[:9])
    assert np.allclose(found[:9], alone, rtol=1e-11, atol=0)


def test_tails_of_densities_are_summed() -> None:
    """of what is 0 up to 1: values from 1e-290 to 1e-3, by digits"""
    phi, q = mf.Activation(sp.tanh(sp.Max(mf.x - 1, 0))), np.geomspace(8e-4, 0.1, 400)
    found = mf.evaluate(phi.gap(mf.q, mf.delta), q=q, delta=q / 10)
    for g in range(0, 400, 40):
        true = float(mf.evaluate(phi.gap(mf.q, mf.delta), q=float(q[g]), delta=float(q[g] / 10), digits=20))
        assert abs(found[g] / true - 1) < 1e-11


def test_what_cancels_is_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cov(f(u), f(v)), where it is far below E f(u) f(v)"""
    (q, c), some = grid(8, 2000, -1.0, 1.0), slice(0, None, 250)
    c[some] = np.linspace(-1e-9, 1e-9, c[some].size)
    covariance = mf.silu.kernel(mf.q, mf.p) - mf.silu.mean(mf.q) ** 2
    counts = counting(monkeypatch)
    found = mf.evaluate(covariance, q=q, p=q * c)
    assert c[some].size <= sum(counts) < 0.1 * q.size
    value, bound = mf.evaluate(covariance, error=True, q=q[some], p=(q * c)[some])
    assert (np.abs(found[some] - value) <= bound + 1e-11 * np.abs(value)).all()


@pytest.mark.parametrize("name", ["silu", "gelu_exact", "squareplus", "selu"])
def test_opposite_inputs_of_wide_gaussians_are_known_to_their_own_size(name: str) -> None:
    """which is far below that of the second moment"""
    phi, (_, c) = getattr(mf, name), grid(4, 1500, 0.0, 1.0)
    c = -1 + np.abs(1 + c) * 1e-4
    q = np.full(c.size, 7.3e6)
    found, some = mf.evaluate(phi.kernel(mf.q, mf.p), q=q, p=q * c), slice(0, None, 100)
    value, bound = mf.evaluate(phi.kernel(mf.q, mf.p), q=q[some], p=(q * c)[some], error=True)
    assert (np.abs(found[some] - value) <= bound + 1e-11 * np.abs(value)).all()


def test_zeros_are_zeros_and_what_underflows_says_so() -> None:
    q, c = grid(5, 3000, -1.0, 1.0)
    c[::10] = 0.0
    found = mf.evaluate(mf.atan.kernel(mf.q, mf.p), q=q, p=q * c)
    assert (found[::10] == 0).all()
    assert (found[c != 0] != 0).all()
    p = q * c
    q[0], p[0] = 1e-200, 1e-315
    with pytest.warns(RuntimeWarning, match="1 of 3000"):
        assert mf.evaluate(mf.atan.kernel(mf.q, mf.p), q=q, p=p)[0] == 0


@pytest.mark.parametrize("k", [1, 2])
def test_where_a_closed_form_cancels(k: int) -> None:
    """E relu(u)^k relu(v)^k next to opposite inputs, as an integral of Phi_2(0, 0; t): no term is negative"""
    phi, c = mf.Activation(sp.Max(mf.x, 0) ** k), -np.linspace(0.6, 0.9999, 4000)
    q = np.full(c.size, 1.7)
    found = mf.evaluate(phi.kernel(mf.q, mf.p), q=q, p=q * c)
    for g in range(0, 4000, 400):
        with mp.workdps(30):
            rho = mp.mpf(float(q[g] * c[g])) / mp.mpf(1.7)
            density = lambda t, rho=rho: (rho - mp.cos(t)) ** k / (2 * mp.pi)  # noqa: E731
            true = mp.factorial(k) * mp.mpf(1.7) ** k * mp.quad(density, [mp.acos(rho), mp.pi])
        assert abs(found[g] / float(true) - 1) < 2e-11


def test_unequal_variances_and_bounds_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    q, c = grid(6, 150, -1.0, 1.0)
    counts = counting(monkeypatch)
    value, bound = mf.evaluate(mf.softsign.kernel(mf.q, mf.p), q=q, p=q * c, error=True)
    assert sum(counts) >= q.size
    assert (bound <= 1e-12 * np.abs(value) + 1e-13).all()
    unequal = mf.evaluate(mf.softsign.kernel(mf.q1, mf.p, mf.q2), q1=q[:20], p=0.5 * q[:20], q2=q[:20] * 1.5)
    assert unequal.shape == (20,)
    assert sum(counts) >= q.size + 20


@pytest.mark.parametrize("f", [sp.tanh(mf.x) + sp.sin(mf.x) / 3, sp.Max(mf.x, 0) * sp.tanh(mf.x) + 1], ids=str)
def test_gaps_under_many_laws(f: sp.Expr) -> None:
    """the difference of two moments where it keeps its digits, as wide as no table of what oscillates reaches; its bound says where not"""
    rng = np.random.default_rng(3)
    q = 10.0 ** rng.uniform(-2, 3, 200)
    d = q * np.append(10.0 ** rng.uniform(-4, 0.3, 199), 1e-12)
    node = mf.Activation(f).gap(mf.q, mf.delta)
    value, bound = many_laws.under_many_laws(Asked(node, (mf.q, mf.delta)), np.array([q, d]))
    told = bound <= 1e-11 * np.abs(value)
    assert told.mean() > 0.6
    assert not told[-1]
    for k in np.flatnonzero(told)[::11]:
        true, error = mf.evaluate(node, q=q[k], delta=d[k], error=True)
        assert abs(value[k] - true) <= bound[k] + error
    one_by_one = [mf.evaluate(node, q=a, delta=b) for a, b in zip(q[:12], d[:12], strict=True)]
    np.testing.assert_allclose(mf.evaluate(node, q=q, delta=d)[:12], one_by_one, rtol=1e-11)


@pytest.mark.parametrize(
    ("f", "q", "d"),
    [
        (sp.Heaviside(mf.x + 1) - sp.Heaviside(mf.x - 1), 20974.078670845083, 1.4045780128125802),
        (sp.sin(5 * mf.x) + sp.tanh(mf.x) / 10, 564.798, 0.0339786),
    ],
    ids=str,
)
def test_bounds_of_gaps_hold_the_rounding_of_their_covariance(f: sp.Expr, q: float, d: float) -> None:
    node = mf.Activation(f).gap(mf.q, mf.delta)
    value, bound = many_laws.under_many_laws(Asked(node, (mf.q, mf.delta)), np.array([[q], [d]]))
    true = mf.evaluate(node, q=sp.Rational(q), delta=sp.Rational(d), digits=20)
    assert abs(value[0] - float(true)) <= bound[0] <= 1e-10 * value[0]
