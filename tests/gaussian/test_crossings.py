"""Closed forms where a parameter decides in which order pieces stand: slopes that may cross, thresholds of either order."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from cases import panels
from scipy import optimize

import meanfield as mf

x, q, p = mf.x, mf.q, mf.p
a, c = sp.symbols("a c", positive=True)
b, r = sp.symbols("b r", real=True)

#: functions with the values of their parameters on either side of where their order turns, and there
FUNCTIONS = {
    sp.Max(x, a * x): ({a: "5/2"}, {a: "1/3"}, {a: 1}),
    sp.Max(x, r * x): ({r: "5/2"}, {r: "-2/3"}, {r: 1}, {r: 0}),
    sp.Max(a * x, c * x): ({a: 2, c: "1/2"}, {a: "1/2", c: 3}, {a: 2, c: 2}),
    sp.Max(0, r * x + b): ({r: 2, b: "1/2"}, {r: "-3/2", b: "-1/2"}, {r: 0, b: "1/3"}, {r: 0, b: -1}),
    sp.Abs(r * x + b): ({r: 2, b: "1/2"}, {r: "-3/2", b: 1}, {r: 0, b: "-2/3"}),
    sp.Min(sp.Max(x, b), r): ({b: -1, r: "1/2"}, {b: "1/2", r: -1}, {b: "1/3", r: "1/3"}),
    sp.Min(sp.Max(x, -a), a) + sp.Max(x, a * x): ({a: 2}, {a: "1/2"}),
    sp.Max(x**2 - r, 0): ({r: 2}, {r: "-1/2"}, {r: 0}),
    sp.erf((a - 1) * x) * x: ({a: 3}, {a: "1/4"}, {a: 1}),
    # one expression in r, by cases in b
    sp.Abs(r * x) * sp.Heaviside(x**2 - b): ({r: -1, b: 1}, {r: 2, b: "1/3"}, {r: "-1/2", b: -1}, {r: 0, b: 1}, {r: 0, b: -1}),
    sp.Abs(r * x) + sp.Min(sp.Max(b * x, -sp.Rational(1, 2)), 1): ({r: -1, b: 1}, {r: 2, b: -1}, {r: 0, b: 1}, {r: -1, b: 0}),
}


def _cases() -> list[tuple[sp.Expr, dict[sp.Symbol, sp.Rational]]]:
    return [(f, {s: sp.Rational(v) for s, v in at.items()}) for f, points in FUNCTIONS.items() for at in points]


@pytest.mark.parametrize(("f", "at"), _cases())
def test_the_closed_form_has_the_numbers_of_every_order(f: sp.Expr, at: dict[sp.Symbol, sp.Rational]) -> None:
    phi, v, cov, m = mf.Activation(f), sp.Rational(13, 10), sp.Rational(-4, 10), sp.Rational(1, 2)
    assert all(phi.is_closed(moment) for moment in ("mean", "second_moment", "kernel"))
    g = f.subs(at)
    kernel = phi.kernel(v, cov), mf.E(g * g.subs(x, mf.y), v, cov)
    moments = [(phi.mean(v, mean=m), mf.E(g, v, mean=m)), (phi.second_moment(v), mf.E(g**2, v)), kernel]
    for form, asked in moments:
        true = sp.N(asked, 25)
        assert abs(sp.N(form.subs(at), 25) - true) <= sp.Float("1e-22") * (1 + abs(true))


@pytest.mark.parametrize("f", FUNCTIONS)
def test_a_derivation_has_steps_and_a_certificate_for_every_order(f: sp.Expr) -> None:
    slow = (
        f.has(sp.Min, sp.erf) or b in f.free_symbols
    )  # kernels with bivariate normals, or of a polynomial times erf: 3 to 15 s a certificate
    for moment in ("mean", "second_moment") if slow else ("mean", "second_moment", "kernel"):
        d = mf.Activation(f).derive(moment)
        assert d.certificate.holds, d.certificate
        assert d.steps[0].rule == d.steps[-1].rule == "signs"
        assert d.steps[-1].after == d.result
        assert r"\begin" in d.latex()


@pytest.mark.parametrize("wrong", [sp.Abs(a - 1) + 1, a - 1, 2 * sp.Abs(a - 1)])
def test_a_mean_that_is_wrong_for_one_order_is_refuted(wrong: sp.Expr) -> None:
    d = mf.Activation(sp.Max(x, a * x)).derive("mean")
    assert d.result == sp.Abs(a - 1) * mf.relu.mean(q)
    assert not mf.gaussian.certificates.certify(d.function, "mean", wrong * mf.relu.mean(q)).holds


def test_the_larger_of_two_slopes_is_a_line_and_an_absolute_value() -> None:
    kernel = mf.Activation(sp.Max(x, a * x)).kernel(q, p)
    assert kernel.equals(a * p + (a - 1) ** 2 * mf.relu.kernel(q, p))
    assert mf.Activation(sp.Max(x, a * x)).second_moment(q) == q * (1 + a**2) / 2
    assert mf.Activation(sp.Max(x, a * x)).is_closed("gap")


def test_beyond_the_order_of_its_bounds_a_clip_is_the_outer_one() -> None:
    kernel = mf.Activation(sp.Min(sp.Max(x, b), r)).kernel(q, p)
    assert kernel.subs({b: 2, r: 1}) == 1
    inside = kernel.subs({b: -1, r: 1})
    v, cov = sp.Rational(2), sp.Rational(1)
    assert float(inside.subs({q: v, p: cov})) == pytest.approx(mf.evaluate(mf.hard_tanh.kernel(v, cov)), rel=1e-13)


def test_numbers_hold_at_small_and_at_large_variances() -> None:
    second = mf.Activation(sp.Max(0, r * x + b)).second_moment(q)
    for size in (1e-12, 1.0, 1e12):
        for value in (-1.5, 0.0, 0.75):
            true = float(mf.evaluate(second.subs({r: sp.Rational(value), b: sp.Rational(1, 4), q: sp.Rational(size)}), digits=20))
            assert mf.evaluate(second, q=size, r=value, b=0.25) == pytest.approx(true, rel=1e-13)


softsign = x / (1 + sp.Abs(x))
POLES = (sp.Max(0, softsign), sp.Max(softsign, -sp.Rational(1, 2)), sp.Min(softsign, sp.tanh(x)), sp.Max(x / 10, softsign))


@pytest.mark.parametrize("f", POLES, ids=str)
def test_a_pole_of_a_branch_outside_it_is_no_crossing(f: sp.Expr) -> None:
    """x/(1 - x) is the branch of x < 0, and changes its sign at 1"""
    nodes, weights = panels(np.unique([*np.linspace(-12, 12, 49), *crossings_of(f)]))
    value = sp.lambdify(x, f, "numpy")(nodes)
    for e, power in ((mf.Activation(f).mean(q), 1), (mf.Activation(f).second_moment(q), 2)):
        truth = (value**power * weights * np.exp(-(nodes**2) / 2)).sum() / math.sqrt(2 * math.pi)
        assert mf.evaluate(e, q=1.0) == pytest.approx(truth, rel=1e-13, abs=1e-15)


def crossings_of(f: sp.Expr) -> list[float]:
    """where the arguments of a maximum or a minimum meet, but for 0"""
    difference = sp.lambdify(x, f.args[0] - f.args[1], "numpy")
    grid = np.linspace(-12.0, 12.0, 4802)
    at = np.flatnonzero(np.diff(np.sign(difference(grid))))
    return [optimize.brentq(difference, grid[i], grid[i + 1], xtol=1e-15) for i in at]
