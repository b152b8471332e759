"""Parameters of an activation: real numbers whatever their symbols say, and only those at which it is real and its moments finite."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf

x, q, p, delta = mf.x, mf.q, mf.p, mf.delta
a = sp.Symbol("a")

UNDECLARED = {
    "exp": (sp.exp(a * x), 0.5),
    "sin": (sp.sin(a * x), 0.5),
    "snake": (x + sp.sin(a * x) ** 2 / a, 1.5),
    "exponential of a quotient": (a * sp.exp(x / a), 2.0),
    "shifted absolute value": (sp.Abs(x - a), 0.3),
    "growing wave": (x * sp.sin(a * x), 0.5),
    "damped wave": (sp.sin(a * x) * sp.exp(-(x**2)), 0.5),
    "power": (sp.Abs(x) ** a, 0.75),
}


def moments(phi: mf.Activation) -> dict[str, tuple[sp.Expr, dict[str, float]]]:
    return {
        "mean": (phi.mean(q), {"q": 1.3}),
        "second moment": (phi.second_moment(q), {"q": 1.3}),
        "kernel": (phi.kernel(q, p), {"q": 1.3, "p": 0.4}),
        "kernel of the slope": (phi.derivative.kernel(q, p), {"q": 1.3, "p": 0.4}),
        "gap": (phi.gap(q, delta), {"q": 1.3, "delta": 0.9}),
    }


@pytest.mark.parametrize("name", UNDECLARED)
def test_a_symbol_that_says_nothing_is_a_real_number(name: str) -> None:
    """the values are those at the number itself, and the result is in the user's own symbol"""
    f, value = UNDECLARED[name]
    symbolic, numeric = moments(mf.Activation(f)), moments(mf.Activation(f.subs(a, sp.Rational(str(value)))))
    for moment, (e, law) in symbolic.items():
        others = {s for s in e.free_symbols if s.name == "a"}
        assert others <= {a}, (moment, e)
        own = {"a": value} if others else {}
        assert mf.evaluate(e, **law, **own) == pytest.approx(mf.evaluate(numeric[moment][0], **law), rel=1e-11, abs=1e-15), moment


def test_a_derivation_is_in_the_symbol_that_was_given() -> None:
    d = mf.Activation(sp.sin(a * x)).derive("kernel")
    assert d.certificate.holds
    assert d.result.free_symbols == {a, q, p}
    assert all(s == a for step in d.steps for s in (step.before + step.after).free_symbols if s.name == "a")


def test_an_undeclared_symbol_in_a_derivative_and_an_expansion() -> None:
    mean = mf.E(sp.Abs(x - a) * sp.tanh(x), q)
    slope, law = mean.diff(a), {"q": 1.0}
    h = 1e-5
    difference = (mf.evaluate(mean, a=0.3 + h, **law) - mf.evaluate(mean, a=0.3 - h, **law)) / (2 * h)
    assert mf.evaluate(slope, a=0.3, **law) == pytest.approx(difference, rel=1e-8)
    assert mf.Activation(sp.tanh(a * x)).taylor("second_moment", 2).expression.subs({a: 2, q: 1}) == 4 - 2 * 16


REAL_ONLY_THERE = {
    "tanh": (sp.sqrt(a) * sp.tanh(x), (-1.0,)),
    "relu": (sp.sqrt(a) * sp.Max(x, 0), (-1.0, -1e-9)),
    "root of a square": (sp.sqrt(x**2 + a), (-1.0,)),
    "logarithm": (sp.log(a) * sp.erf(x), (-1.0, 0.0)),
}


@pytest.mark.parametrize("name", REAL_ONLY_THERE)
def test_a_parameter_at_which_the_activation_is_not_real_is_refused(name: str) -> None:
    """(sqrt(a) tanh)^2 = a tanh^2 would have a negative second moment"""
    f, refused = REAL_ONLY_THERE[name]
    second = mf.Activation(f).second_moment(q)
    for value in refused:
        with pytest.raises(ValueError, match=r"^a = -?[\d.e-]+: declared as (non-negative|positive), it must be"):
            mf.evaluate(second, q=1.0, a=value)
    expected = mf.Activation(f.subs(a, sp.Rational(1, 2))).second_moment(q)
    assert mf.evaluate(second, q=1.0, a=0.5) == pytest.approx(mf.evaluate(expected, q=1.0), rel=1e-13)


def test_a_domain_that_no_sign_tells_is_refused() -> None:
    with pytest.raises(ValueError, match=r"at a = 3 this one is not"):
        mf.Activation(sp.sqrt(1 - a) * sp.tanh(x))


@pytest.mark.parametrize("value", ["1/5", "-7/10", "6/25"])
def test_a_gaussian_of_unknown_sign_has_the_moments_of_the_number(value: str) -> None:
    rate = sp.Rational(value)
    symbolic, numeric = moments(mf.Activation(sp.exp(a * x**2))), moments(mf.Activation(sp.exp(rate * x**2)))
    for moment, (e, law) in symbolic.items():
        if moment != "kernel of the slope":
            at = law | {"q": 1.0}
            assert not e.has(mf.E(x**2 * sp.tanh(x), q).func), moment
            assert mf.evaluate(e, **at, a=float(rate)) == pytest.approx(mf.evaluate(numeric[moment][0], **at), rel=1e-11), moment


def test_a_gaussian_of_unknown_sign_states_where_it_is_finite() -> None:
    phi = mf.Activation(sp.exp(a * x**2))
    second = phi.second_moment(q)
    assert second == sp.Piecewise((1 / sp.sqrt(1 - 4 * a * q), a * q < sp.Rational(1, 4)))
    for value in (0.25, 0.3):
        with pytest.raises(ValueError, match=r"finite only for q < 1/\(4\*a\)"):
            mf.evaluate(second, q=1.0, a=value)
    with pytest.raises(ValueError, match=r"finite only for q < 1/\(2\*a\)"):  # 0 by symmetry, where there is a mean
        mf.evaluate(mf.Activation(x * sp.exp(a * x**2)).mean(q), q=1.0, a=1.0)


def test_a_gaussian_of_unknown_sign_at_unequal_variances() -> None:
    kernel = mf.Activation(sp.exp(a * x**2)).kernel(mf.q1, p, mf.q2)
    law = {"q1": 1.0, "p": -0.4, "q2": 1.5}
    s = mp.matrix([[1.0, -0.4], [-0.4, 1.5]])
    for value in (0.2, -3.0):
        assert mf.evaluate(kernel, a=value, **law) == pytest.approx(float(1 / mp.sqrt(mp.det(mp.eye(2) - 2 * value * s))), rel=1e-13)
    with pytest.raises(ValueError, match="finite only for"):
        mf.evaluate(kernel, a=0.9, **law)  # both pivots of 1 - 2 a S are negative, its determinant is positive


def test_a_gap_of_a_power_below_0_is_the_difference_of_its_moments() -> None:
    """its slope is integrable at no variance; in letters, as a number, and beside a power above 0"""
    phi = mf.Activation(sp.Abs(x) ** a)
    values = mf.evaluate(phi.gap(q, delta), q=1.7, delta=1.1, a=[-0.3, 0.75])
    for value, power in zip(values, (-0.3, 0.75), strict=True):
        with mp.workdps(30):
            k, r = mp.mpf(power), (mp.mpf(1.7) - mp.mpf(1.1)) / mp.mpf(1.7)
            second = (2 * mp.mpf(1.7)) ** k * mp.gamma(k + 0.5) / mp.sqrt(mp.pi)
            product = (2 * mp.mpf(1.7)) ** k * mp.gamma((k + 1) / 2) ** 2 / mp.pi * mp.hyp2f1(-k / 2, -k / 2, 0.5, r**2)
            assert abs(value - (second - product)) < 1e-14 * value
    number = mf.Activation(sp.Abs(x) ** sp.Rational(-3, 10)).gap(q, delta)
    assert mf.evaluate(number, q=1.7, delta=1.1) == pytest.approx(values[0], rel=1e-15)


def test_a_gap_of_a_power_that_has_no_second_moment_is_refused() -> None:
    with pytest.raises(ValueError, match=r"infinite: it is finite only for a > -1/2"):
        mf.evaluate(mf.Activation(sp.Abs(x) ** a).gap(q, delta), q=1.7, delta=1.1, a=-0.6)


@pytest.mark.parametrize(
    ("moment", "law", "bound"), [("second_moment", {}, "q < 0.833333"), ("kernel", {"p": 0.9}, r"q \+ Abs\(p\) < 1/\(2\*a\)")]
)
def test_growth_that_a_value_of_a_parameter_makes_is_refused_with_where_it_is_finite(
    moment: str, law: dict[str, float], bound: str
) -> None:
    phi = mf.Activation(sp.exp(a * x**2) * sp.tanh(x))
    expression = phi.second_moment(q) if moment == "second_moment" else phi.kernel(q, p)
    assert mf.evaluate(expression, q=0.1, a=0.3, **{name: value / 10 for name, value in law.items()}) > 0
    with pytest.raises(ValueError, match=f"is infinite: it is finite only for {bound}"):
        mf.evaluate(expression, q=1.0, a=0.3, **law)


def test_growth_beyond_the_density_has_digits_with_parameters_too() -> None:
    """E e^{2|u|} is about e^{2 q}, of inputs beyond 34 deviations"""
    b, c = sp.symbols("b c")
    phi = mf.Activation(sp.Piecewise((sp.exp(a * x) - 1, x < b), (c * x, True)))
    value = mf.evaluate(phi.second_moment(q), q=300.0, a=-1, b=0.5, c=-2)
    with mp.workdps(30):
        assert abs(value / (mp.exp(600) - 2 * mp.exp(150)) - 1) < 1e-15
