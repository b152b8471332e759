"""Expectations and named functions as sympy sees them: what is free in them, integrals over their laws, series, comparisons."""

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.special import NormalCDF, NormalDensity, ScaledErfc

x, y, q, p, delta = mf.x, mf.y, mf.q, mf.p, mf.delta
a = sp.Symbol("a", positive=True)
HALF = sp.Rational(1, 2)


def mean_of(f, variance):
    """E f(u) by mpmath"""
    s = mp.sqrt(variance)
    return mp.quad(lambda z: f(s * z) * mp.npdf(z), [-12, -4, -1, 0, 1, 4, 12])


@pytest.mark.parametrize(
    ("e", "free"),
    [
        (mf.E(sp.tanh(x) ** 2, q), {q}),
        (mf.E(sp.tanh(a * x) ** 2, 1), {a}),
        (mf.E(sp.tanh(x) * sp.tanh(a * y), q, p), {a, q, p}),
        (mf.tanh.gap(q, delta), {q, delta}),
    ],
    ids=["mean", "mean with a parameter", "pair", "gap"],
)
def test_what_is_free(e: sp.Expr, free: set[sp.Symbol]) -> None:
    assert e.free_symbols == free
    assert {s for s in (a, q, p, delta, x, y) if e.has_free(s)} == free
    assert {s for s in (a, q, p, delta, x, y) if e.has_xfree({s})} == free
    assert e.as_dummy() == e


def test_integrals_over_a_law() -> None:
    e = mf.E(sp.tanh(x) ** 2, q)
    assert sp.integrate(e, q) == sp.Integral(e, q)
    assert sp.integrate(q * e, q) == sp.Integral(q * e, q)
    true = mp.quad(lambda v: mean_of(lambda u: mp.tanh(u) ** 2, v), [0, 0.25, 1])
    assert sp.N(sp.integrate(e, (q, 0, 1)), 12) == pytest.approx(float(true), rel=1e-10)
    gap = sp.integrate(mf.tanh.gap(1, delta), (delta, 0, HALF))
    assert isinstance(gap, sp.Integral)


def test_integrals_over_a_covariance_and_a_parameter() -> None:
    """by Price's theorem, and by Fubini's"""
    rate = mf.tanh.derivative.kernel(1, p)
    price = sp.N(sp.integrate(rate, (p, 0, HALF)), 12)
    assert price == pytest.approx(float(mf.evaluate(mf.tanh.kernel(1, HALF), digits=15)), rel=1e-10)
    e = mf.E(sp.tanh(a * x) ** 2, 1)
    found = sp.integrate(e, (a, 1, 2))
    assert isinstance(found, sp.Integral)
    assert not found.free_symbols
    true = mean_of(lambda u: 1 - (mp.tanh(2 * u) - mp.tanh(u)) / u if u else mp.mpf(0), 1)
    assert sp.N(found, 12) == pytest.approx(float(true), rel=1e-10)


@pytest.mark.parametrize("phi", [mf.elu, mf.celu(2), mf.selu, mf.elu(0.3)], ids=repr)
def test_series_of_closed_forms(phi: mf.Activation) -> None:
    """The first terms beside their sum: what is left is of the order that the series says."""
    for e in (phi.mean(q), phi.second_moment(q)):
        series = sp.series(e, q, 0, 3)
        for small in (sp.Rational(1, 10**8), sp.Rational(1, 10**10)):
            rest = sp.N((e - series.removeO()).subs(q, small), 15, maxn=400)
            assert abs(rest) < 10 * small**3
        assert sp.simplify(sp.limit(e / series.removeO().as_leading_term(q), q, 0)) == 1
        far, large = sp.series(e, q, sp.oo, 3), sp.Integer(10) ** 8
        assert abs(sp.N((e - far.removeO()).subs(q, large), 15, maxn=400)) < large**-3  # the next term is of the power -7/2


def test_series_of_named_functions() -> None:
    z = sp.Symbol("z", real=True)
    for f in (NormalCDF(-2 * z), NormalDensity(3 * z), ScaledErfc(z / 2), NormalCDF(z + z**2), NormalCDF(1 + z)):
        series, place = sp.series(f, z, 0, 5).removeO(), sp.Rational(1, 1000)
        assert abs(sp.N((f - series).subs(z, place), 20, maxn=200)) < 100 * place**5
    assert sp.limit(NormalCDF(-1 / z), z, 0, "+") == 0


def test_series_of_expectations_that_do_not_close() -> None:
    """in the variances, as `taylor` and `asymptotic` say, and elsewhere by derivatives"""
    e, root = mf.tanh.second_moment(q), sp.sqrt(2 / sp.pi)
    assert sp.series(e, q, 0, 4) == q - 2 * q**2 + 17 * q**3 / 3 + sp.O(q**4)
    assert sp.series((e + q) / q**2, q, 0, 1) == 2 / q - 2 + sp.O(q)
    assert sp.series(mf.E(sp.tanh(x) ** 2, q**2), q, 0, 5) == q**2 - 2 * q**4 + sp.O(q**5)
    assert sp.series(mf.E(sp.tanh(a * x) ** 2, q), a, 0, 3) == a**2 * q + sp.O(a**3)
    assert sp.simplify(sp.series(e, q, sp.oo, 2).removeO() - (1 - root / sp.sqrt(q) + root * sp.pi**2 / 24 / q**1.5)) == 0
    assert sp.series(e, q, 1, 2).removeO().subs(q, 1) == mf.tanh.second_moment(1)
    assert sp.series(mf.tanh.kernel(q, p), p, 0, 2) == p * mf.tanh.derivative.mean(q) ** 2 + sp.O(p**2)
    with pytest.raises(NotImplementedError, match=r"no Taylor expansion at 0: it contains sqrt\(x\)"):
        sp.series(mf.E(sp.sqrt(sp.Abs(sp.tanh(x))), q), q, 0, 2)
    with pytest.raises(NotImplementedError, match="kinks move or open"):
        sp.series(mf.E(sp.Abs(sp.tanh(a * x)) * sp.exp(sp.tanh(x)), q), a, 0, 2)


LIMITS = [
    (mf.tanh.second_moment(q), 0, 0),
    (mf.tanh.second_moment(q) / q, 0, 1),
    (mf.tanh.second_moment(q), sp.oo, 1),
    (sp.sqrt(q) * (1 - mf.tanh.second_moment(q)), sp.oo, sp.sqrt(2) / sp.sqrt(sp.pi)),
    (mf.silu.second_moment(q), sp.oo, sp.oo),
    (mf.silu.second_moment(q) / q, sp.oo, HALF),
    (mf.silu.derivative.second_moment(q), 0, HALF**2),
    (mf.tanh.second_moment(q).diff(q), 0, 1),
    (mf.tanh.kernel(q, q / 2), sp.oo, sp.Rational(1, 3)),
    (mf.tanh.second_moment(q), 2, mf.tanh.second_moment(2)),
]


@pytest.mark.parametrize(("e", "place", "limit"), LIMITS, ids=str)
def test_limits_of_expectations_that_do_not_close(e: sp.Expr, place: sp.Expr, limit: sp.Expr) -> None:
    assert sp.limit(e, q, place) == limit


def test_limits_beside_a_correlation() -> None:
    assert sp.limit(mf.tanh.kernel(q, p) / p, p, 0) == mf.tanh.derivative.mean(q) ** 2
    assert sp.limit(mf.tanh.gap(q, delta) / delta, delta, 0) == mf.tanh.derivative.second_moment(q)
    with pytest.raises(NotImplementedError, match="at a fixed correlation, and this one goes to 1"):
        sp.limit(mf.tanh.kernel(q, q - 1), q, sp.oo)
    with pytest.raises(NotImplementedError, match="goes like 1 as q -> oo"):
        sp.limit(sp.exp(q) * mf.tanh.second_moment(q), q, sp.oo)
    with pytest.raises(NotImplementedError, match="oscillates"):
        sp.limit(mf.E(sp.tanh(sp.sin(x)) ** 2, q), q, sp.oo)


def test_comparisons() -> None:
    e = mf.E(sp.tanh(x) ** 2, q)
    assert e.is_constant() is False
    assert e.is_constant(q) is False
    assert e.equals(q) is False
    assert mf.E(sp.Abs(x), q).doit().equals(sp.sqrt(2 * q / sp.pi))


def test_laws_that_do_not_vary_or_are_none() -> None:
    assert mf.E(sp.cos(x), q).subs(q, 0).evalf() == sp.Float(1)
    assert mf.E(sp.tanh(x + 1) * sp.cos(y), q, p).subs({q: 0, p: 0}).evalf() == pytest.approx(float(mp.tanh(1)))
    assert mf.E(sp.tanh(x + 1) * sp.cos(y), mf.q1, p, mf.q2).subs({mf.q1: 0, p: 0, mf.q2: 2}).evalf() == pytest.approx(
        float(mp.tanh(1) * mp.exp(-1))
    )
    for e, values in (
        (mf.E(sp.tanh(x) ** 2, q), {q: -1}),
        (mf.E(sp.tanh(x) ** 2, q), {q: 1 + sp.I}),
        (mf.E(sp.tanh(x) * sp.tanh(y), q, p), {q: 1, p: 2}),
        (mf.tanh.gap(q, delta), {q: 1, delta: 3}),
    ):
        with pytest.raises(ValueError, match="expected"):
            e.subs(values).evalf()


def test_the_bound_variable_is_not_put_in() -> None:
    for e, old, new in (
        (mf.E(sp.tanh(a * x) ** 2, q), a, x),
        (mf.E(sp.tanh(x) ** 2, q), q, x**2 + 1),
        (mf.E(sp.tanh(x) * sp.tanh(y), q, p), p, y),
    ):
        with pytest.raises(ValueError, match="bound by the expectation"):
            e.subs(old, new)
    e = mf.E(sp.tanh(x) ** 2, q)
    assert e.subs(a, x) == e
    assert e.subs(sp.tanh(x), a) == e  # the x in it is another


@pytest.mark.parametrize("phi", [mf.hard_tanh, mf.relu6, mf.hard_swish, mf.elu, mf.hard_tanh.derivative], ids=repr)
def test_kernels_where_both_inputs_are_one(phi: mf.Activation) -> None:
    assert mf.evaluate(phi.kernel(q, q) - phi.second_moment(q), q=0.7) == pytest.approx(0, abs=1e-15)
    assert phi.kernel(q, q).has(NormalCDF)
    opposite = phi.kernel(1, -1)
    assert not opposite.has(type(mf.E(sp.tanh(x), q)))
    f = sp.lambdify(x, phi.expression, "mpmath")
    true = mp.quad(lambda z: f(z) * f(-z) * mp.npdf(z), [-12, -6, -3, -1, 0, 1, 3, 6, 12])
    assert float(opposite) == pytest.approx(float(true), abs=1e-13)
