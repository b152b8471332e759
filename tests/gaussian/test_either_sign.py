"""Closed forms hold for parameters of either sign, and at 0: the moments, their numbers, derivations and certificates."""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf

x, q, p, delta = mf.x, mf.q, mf.p, mf.delta
a, b = sp.Symbol("a", real=True), sp.Symbol("b", real=True)
RELU = sp.Max(x, 0)

#: functions of a x
FUNCTIONS = (
    sp.erf(a * x),
    x * sp.erf(a * x),
    a * x * (1 + sp.erf(a * x / sp.sqrt(2))) / 2,
    sp.Max(0, a * x),
    sp.Max(0, a * x) ** 3,
    sp.Abs(a * x),
    sp.sign(a * x),
    RELU + sp.erf(a * x),  # which -a takes to no multiple of itself
    sp.Heaviside(a * x),  # which is 1/2 at a = 0
)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_the_closed_form_has_the_numbers_of_either_sign_and_of_zero(f: sp.Expr) -> None:
    phi, v, c = mf.Activation(f), sp.Rational(13, 10), sp.Rational(-2, 5)
    assert all(phi.is_closed(moment) for moment in ("mean", "second_moment", "kernel", "gap"))
    for value in (-1.7, 0.0, 0.6):
        g = f.xreplace({a: sp.Rational(value)})
        for e, of in (
            (phi.kernel(v, c), mf.E(g * g.xreplace({x: mf.y}), v, c)),
            (phi.second_moment(v), mf.E(g**2, v)),
            (phi.mean(v, mean=sp.S.Half), mf.E(g, v, mean=sp.S.Half)),
        ):
            true = mf.evaluate(of, digits=20)
            given = {"a": value} if a in e.free_symbols else {}
            assert abs(mf.evaluate(e, **given) - float(true)) <= 1e-13 * (1 + abs(float(true)))


@pytest.mark.parametrize("f", FUNCTIONS)
def test_a_derivation_has_a_certificate_for_either_sign_and_zero(f: sp.Expr) -> None:
    for moment in ("mean", "second_moment", "kernel"):
        d = mf.Activation(f).derive(moment)
        assert d.certificate.holds, d.certificate
        assert {c.statement.partition(":")[0] for c in d.certificate.claims} == {"a > 0", "a < 0", "a = 0"}
    assert d.steps[-1].rule == "signs"
    assert d.steps[-1].after == d.result
    assert "|a|" in d.steps[0].reason


@pytest.mark.parametrize("wrong", [sp.Abs(a), a**2 + 1, 2 * a**2])
def test_a_formula_that_is_wrong_for_a_sign_or_at_zero_is_refuted(wrong: sp.Expr) -> None:
    d = mf.Activation(sp.Max(0, a * x)).derive("kernel")
    kernel = mf.relu.kernel(q, p)
    assert d.result.equals(a**2 * kernel)
    assert not mf.gaussian.certificates.certify(d.function, "kernel", wrong * kernel).holds


def test_symbols_that_say_nothing_are_real_parameters() -> None:
    c = sp.Symbol("c0")
    assert mf.Activation(sp.erf(c * x)).kernel(q, p) == mf.erf.kernel(c**2 * q, c**2 * p)
    assert mf.Activation(sp.Max(0, c * x)).second_moment(q) == c**2 * q / 2
    assert not mf.derf(sp.Symbol("z")).kernel(q, p).atoms(mf.gaussian.expectation.Node)


def test_several_parameters_have_signs_of_their_own() -> None:
    phi = mf.Activation(sp.Max(0, a * b * x) + sp.erf(b * x))
    assert phi.is_closed("kernel")
    for first, second in ((-1.5, 0.5), (0.7, -2.0), (-1.0, -1.0), (0.0, 1.0)):
        f = phi.expression.xreplace({a: sp.Rational(first), b: sp.Rational(second)})
        true = mf.evaluate(mf.Activation(f).kernel(q, p), q=2.0, p=0.7)
        assert mf.evaluate(phi.kernel(q, p), q=2.0, p=0.7, a=first, b=second) == pytest.approx(true, rel=1e-14)


def test_the_sign_of_a_sum_of_parameters_need_not_be_known() -> None:
    phi = mf.Activation(sp.Max(0, (a - b) * x))
    assert phi.second_moment(q) == (a - b) ** 2 * q / 2
    assert mf.Activation(sp.Max(0, a * x - b * x)).kernel(q, p).equals((a - b) ** 2 * mf.relu.kernel(q, p))
    d = phi.derive("kernel")
    assert d.certificate.holds
    assert {c.statement.partition(":")[0] for c in d.certificate.claims} == {"a - b > 0", "a - b < 0", "a - b = 0"}
    asked = phi.kernel(q, p, mean=sp.Rational(1, 3))
    for first, second in ((1.5, 0.25), (-0.5, 1.5), (0.75, 0.75)):
        f = sp.Max(0, sp.Rational(first - second) * x)
        true = sp.N(mf.E(f * f.xreplace({x: mf.y}), 2, sp.Rational(7, 10), mean=sp.Rational(1, 3)), 20)
        assert mf.evaluate(asked, q=2.0, p=0.7, a=first, b=second) == pytest.approx(float(true), rel=1e-14)


def test_an_error_function_of_any_line_is_one_formula() -> None:
    phi = mf.Activation(sp.erf(a * x + b))
    assert phi.kernel(q, p) == mf.Activation(sp.erf(sp.Symbol("a", positive=True) * x + b)).kernel(q, p).xreplace(
        {sp.Symbol("a", positive=True): a}
    )
    assert all(phi.derive(moment).certificate.holds for moment in ("mean", "second_moment", "kernel"))


def test_beside_a_gaussian_that_grows_the_variance_is_bounded_for_either_sign() -> None:
    phi = mf.Activation(sp.erf(a * x) * sp.exp(x**2 / 8))
    assert all(phi.is_closed(moment) for moment in ("mean", "second_moment", "kernel"))
    for value in (0.7, -1.2, 0.0):
        f = phi.expression.xreplace({a: sp.Rational(value)})
        true = mf.evaluate(mf.E(f * f.xreplace({x: mf.y}), sp.Rational(3, 2), sp.Rational(-1, 3)), digits=20)
        assert mf.evaluate(phi.kernel(q, p), q=1.5, p=sp.Rational(-1, 3), a=value) == pytest.approx(float(true), rel=1e-12)
    with pytest.raises(ValueError, match="is infinite"):
        mf.evaluate(phi.second_moment(q), q=2.5, a=1.0)


def test_what_jumps_at_zero_says_so_and_not_where_the_parameter_is_never_zero() -> None:
    assert mf.Activation(sp.sign(a * x)).second_moment(q) == sp.sign(a) ** 2
    assert mf.Activation(sp.sign(sp.Symbol("k", real=True, nonzero=True) * x)).second_moment(q) == 1


def test_means_change_their_sign_with_an_odd_parameter() -> None:
    assert mf.Activation(x * sp.erf(a * x)).mean(q).xreplace({a: -a}) == -mf.Activation(x * sp.erf(a * x)).mean(q)
    assert mf.Activation(sp.Max(0, a * x)).mean(q) == sp.Abs(a) * mf.relu.mean(q)
