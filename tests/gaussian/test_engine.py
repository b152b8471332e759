"""The derivation engine against the literature's formulas, quadrature, and certified integration."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import random
import re

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import (
    ACTIVATIONS,
    CLOSED,
    DELTAS,
    EQUAL,
    GAP_VARIANCES,
    UNEQUAL,
    VARIANCES,
    Phi,
    as_mpf,
    bound,
    certified_mean,
    exact,
    pair_moments,
    product_grid,
)

import meanfield as mf
from meanfield.gaussian.precise import law_of, mean_of, product_mean_of
from meanfield.gaussian.slopes import deltas, slope

POINTS = (*EQUAL, *UNEQUAL)
every = pytest.mark.parametrize("phi", CLOSED, ids=repr)
with_slope = pytest.mark.parametrize("phi", [phi for phi in CLOSED if phi.df], ids=repr)


def rational(values: dict[str, float]) -> dict[str, sp.Rational]:
    return {k: sp.Rational(v) for k, v in values.items()}


def close(value: mp.mpf, truth: mp.mpf, digits: int) -> bool:
    return bool(abs(value - truth) <= mp.mpf(10) ** -digits * max(abs(truth), mp.mpf(10) ** -digits))


# -- the oracles themselves -----------------------------------------------------------------------------------------------------------


@every
def test_typed_formulas_are_the_integrals(phi: Phi) -> None:
    with mp.workdps(30):
        for q1, p, q2 in POINTS:
            value, size = product_grid(phi.f, q1, p, q2)
            assert abs(value - phi.kernel(mp.mpf(q1), mp.mpf(p), mp.mpf(q2))) <= 1e-13 * size
            if phi.df:
                value, size = product_grid(phi.df, q1, p, q2)
                assert abs(value - phi.slope(mp.mpf(q1), mp.mpf(p), mp.mpf(q2))) <= 1e-13 * size


@pytest.mark.parametrize("name", ["step", "sign"])
def test_typed_slope_of_a_jump_is_the_rate_of_its_kernel(name: str) -> None:
    phi = ACTIVATIONS[name]
    with mp.workdps(40):
        for q1, p, q2 in POINTS:
            rate = mp.diff(lambda c, a=q1, b=q2: phi.kernel(mp.mpf(a), c, mp.mpf(b)), mp.mpf(p))
            assert close(rate, phi.slope(mp.mpf(q1), mp.mpf(p), mp.mpf(q2)), 12)


# -- closed forms, to 30 digits ---------------------------------------------------------------------------------------------------------


@every
def test_every_moment_closes(phi: Phi) -> None:
    for moment in ("mean", "second_moment", "kernel", "gap"):
        assert phi.activation.is_closed(moment), moment
    assert phi.activation.derivative.is_closed("kernel")
    assert phi.activation.derivative.is_closed("second_moment")


@every
def test_one_variable_moments(phi: Phi) -> None:
    act, slope = phi.activation, phi.activation.derivative
    values = rational(phi.values)
    with mp.workdps(45):
        for q in (0.7, 2.5, 40.0):
            mean, second = as_mpf(certified_mean(phi.f, 1, q)), as_mpf(certified_mean(phi.f, 2, q))
            assert close(phi.mean(mp.mpf(q)), mean, 35)  # the typed mean, used elsewhere
            assert close(exact(act.mean(mf.q), q=q, **values), mean, 30)
            assert close(exact(act.second_moment(mf.q), q=q, **values), second, 30)
            assert close(phi.kernel(mp.mpf(q), mp.mpf(q), mp.mpf(q)), second, 35)
            if phi.df:
                assert close(exact(slope.second_moment(mf.q), q=q, **values), as_mpf(certified_mean(phi.df, 2, q)), 30)


@pytest.mark.parametrize("name", ["step", "sign"])
def test_slope_of_a_jump_has_no_second_moment(name: str) -> None:
    assert ACTIVATIONS[name].activation.derivative.second_moment(mf.q) is sp.oo


@every
def test_kernels(phi: Phi) -> None:
    act, slope = phi.activation, phi.activation.derivative
    unequal, equal = act.kernel(mf.q1, mf.p, mf.q2), act.kernel(mf.q, mf.p)
    slope_unequal, slope_equal = slope.kernel(mf.q1, mf.p, mf.q2), slope.kernel(mf.q, mf.p)
    with mp.workdps(45):
        for q1, p, q2 in POINTS:
            point = {"q1": q1, "p": p, "q2": q2, **phi.values}
            truth = phi.kernel(mp.mpf(q1), mp.mpf(p), mp.mpf(q2))
            truth_slope = phi.slope(mp.mpf(q1), mp.mpf(p), mp.mpf(q2))
            assert close(exact(unequal, **point), truth, 30)
            assert close(exact(slope_unequal, **point), truth_slope, 30)
            if q1 == q2:
                assert close(exact(equal, q=q1, **point), truth, 30)
                assert close(exact(slope_equal, q=q1, **point), truth_slope, 30)


@every
def test_price(phi: Phi) -> None:
    """dC/dp is the kernel of the derivative, for variances that differ and for equal ones, to 30 digits at random points."""
    draw = random.Random(phi.name)
    act, slope = phi.activation, phi.activation.derivative
    difference = act.kernel(mf.q1, mf.p, mf.q2).diff(mf.p) - slope.kernel(mf.q1, mf.p, mf.q2)
    difference_equal = act.kernel(mf.q, mf.p).diff(mf.p) - slope.kernel(mf.q, mf.p)
    for _ in range(4):
        q1, q2 = (sp.Rational(draw.randint(1, 400), 100) for _ in range(2))
        p = sp.Rational(draw.randint(-95, 95), 100) * sp.Rational(math.isqrt(int(q1 * q2 * 10000)), 100)
        assert abs(exact(difference, 60, q1=q1, p=p, q2=q2, **rational(phi.values))) < mp.mpf(10) ** -30
        p = sp.Rational(draw.randint(-95, 95), 100) * q1
        assert abs(exact(difference_equal, 60, q=q1, p=p, **rational(phi.values))) < mp.mpf(10) ** -30


@every
def test_kernel_at_equal_arguments_is_the_second_moment(phi: Phi) -> None:
    kernel, second = phi.activation.kernel(mf.q, mf.p), phi.activation.second_moment(mf.q)
    for q in (sp.Rational(1, 3), sp.Integer(2), sp.Integer(50)):
        values = rational(phi.values)
        assert close(exact(kernel, 40, q=q, p=q, **values), exact(second, 40, q=q, **values), 30)


def test_means_that_are_not_zero() -> None:
    with mp.workdps(40):
        m, q = mp.mpf(3) / 4, mp.mpf(2)
        z = m / mp.sqrt(q)
        truth = {
            "relu": m * mp.ncdf(z) + mp.sqrt(q) * mp.npdf(z),
            "erf(ax)": mp.erf(mp.mpf(3) / 2 * m / mp.sqrt(1 + 2 * mp.mpf(9) / 4 * q)),
            "sin": mp.exp(-q / 2) * mp.sin(m),
            "step": mp.ncdf(z),
            "relu^2": (m * m + q) * mp.ncdf(z) + m * mp.sqrt(q) * mp.npdf(z),
        }
        for name, value in truth.items():
            phi = ACTIVATIONS[name]
            found = exact(phi.activation.mean(mf.q, mean=sp.Rational(3, 4)), q=2, **rational(phi.values))
            assert close(found, value, 30), name


# -- the same in float64 -----------------------------------------------------------------------------------------------------------------


def rounded(phi: Phi, q: float) -> bool:
    """sin and cos at these variances have values below the least double"""
    return phi.name in ("sin", "cos") and q > 300


@every
def test_one_variable_moments_in_floats(phi: Phi) -> None:
    act, slope = phi.activation, phi.activation.derivative
    q = np.array([v for v in VARIANCES if not rounded(phi, v)])
    mean, second = bound(act.mean(mf.q), q=q, **phi.values), bound(act.second_moment(mf.q), q=q, **phi.values)
    slope_second = bound(slope.second_moment(mf.q), q=q, **phi.values) if phi.df else None
    with mp.workdps(60):
        for i, v in enumerate(q):
            exact_q = mp.mpf(float(v))
            truth = phi.kernel(exact_q, exact_q, exact_q)
            assert abs(mean[i] - phi.mean(exact_q)) <= 1e-12 * mp.sqrt(truth), (v, "mean")
            assert abs(second[i] - truth) <= 1e-12 * truth, (v, "second moment")
            if slope_second is not None:
                truth = phi.slope(exact_q, exact_q, exact_q)
                assert abs(slope_second[i] - truth) <= 1e-12 * truth, (v, "slope")


@every
def test_kernels_in_floats(phi: Phi) -> None:
    """error <= 1e-12 E|phi(u) phi(v)|"""
    act, slope = phi.activation, phi.activation.derivative
    q = [1e-3, 0.7, 40.0]
    rho = [-0.9, 0.0, 0.3, 1 - 2.0**-20]
    points = [(v, r * v) for v in q for r in rho]
    table = {"q": np.array([v for v, _ in points]), "p": np.array([p for _, p in points])}
    found = bound(act.kernel(mf.q, mf.p), **table, **phi.values)
    found_slope = bound(slope.kernel(mf.q, mf.p), **table, **phi.values)
    with mp.workdps(60):
        for i, (v, p) in enumerate(points):
            args = (mp.mpf(v), mp.mpf(p), mp.mpf(v))
            delta = float(args[0] - args[1])
            size = pair_moments(phi.f, v, delta).size
            assert abs(found[i] - phi.kernel(*args)) <= 1e-12 * size, (v, p / v)
            truth = phi.slope(*args)
            size = pair_moments(phi.df, v, delta).size if phi.df else truth
            assert abs(found_slope[i] - truth) <= 1e-12 * size, (v, p / v, "slope")


@every
def test_kernels_of_unequal_variances_in_floats(phi: Phi) -> None:
    act, slope = phi.activation, phi.activation.derivative
    table = dict(zip(("q1", "p", "q2"), np.array(UNEQUAL).T, strict=True))
    found = bound(act.kernel(mf.q1, mf.p, mf.q2), **table, **phi.values)
    found_slope = bound(slope.kernel(mf.q1, mf.p, mf.q2), **table, **phi.values)
    for i, (q1, p, q2) in enumerate(UNEQUAL):  # the oracle itself is right to 1e-13
        value, size = product_grid(phi.f, q1, p, q2)
        assert abs(found[i] - value) <= 1e-12 * size
        if phi.df:
            value, size = product_grid(phi.df, q1, p, q2)
            assert abs(found_slope[i] - value) <= 1e-12 * size


@every
def test_gap_keeps_every_digit(phi: Phi) -> None:
    """relative 1e-12 against V - C of the typed formulas with 400 digits, delta/q from 2 to 1e-100, q from 1e-6 to 1e6"""
    gap = phi.activation.gap(mf.q, mf.delta)
    q, ratio = (a.ravel() for a in np.meshgrid([v for v in GAP_VARIANCES if not rounded(phi, v)], DELTAS))
    found = bound(gap, q=q, delta=q * ratio, **phi.values)
    wrong = []
    for v, d, value in zip(q, q * ratio, found, strict=True):
        with mp.workdps(400):
            exact_q, exact_d = mp.mpf(float(v)), mp.mpf(float(d))
            second = phi.kernel(exact_q, exact_q, exact_q)
            truth = second - phi.kernel(exact_q, exact_q - exact_d, exact_q)
        with mp.workdps(60):
            if not abs(value - truth) <= 1e-12 * abs(+truth) + (1e-15 * second if d == 2 * v else 0):
                wrong.append((float(v), float(d / v), float(value), mp.nstr(truth, 17)))
    assert not wrong


# -- how results are found ---------------------------------------------------------------------------------------------------------------


def test_nothing_is_integrated(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    """Every closed form is derived anew with sympy's integrators broken."""

    def broken(*args: object, **kwargs: object) -> None:
        raise AssertionError("sympy.integrate was called")

    for name in ("integrate", "line_integrate"):
        monkeypatch.setattr(sp, name, broken)
    monkeypatch.setattr(sp.Integral, "__new__", broken)
    monkeypatch.setattr(sp.Integral, "doit", broken)
    integrals = importlib.import_module("sympy.integrals")
    monkeypatch.setattr(importlib.import_module("sympy.integrals.integrals"), "integrate", broken)
    monkeypatch.setattr(integrals, "integrate", broken)
    with pytest.raises(AssertionError, match="integrate was called"):
        sp.Integral(mf.x, mf.x)
    with pytest.raises(AssertionError, match="integrate was called"):
        (mf.x**2).integrate(mf.x)
    for phi in CLOSED:
        act = phi.activation
        act.mean(mf.q)
        act.second_moment(mf.q)
        act.kernel(mf.q1, mf.p, mf.q2)
        act.kernel(mf.q, mf.p)
        act.gap(mf.q, mf.delta)
        act.derivative.kernel(mf.q, mf.p)
        act.derivative.second_moment(mf.q)


def test_no_kernel_is_typed() -> None:
    """The catalogue and the activation hold expressions: no arcsine, no pi, no integral anywhere near a moment."""
    catalogue = importlib.import_module("meanfield.catalogue")
    # atan is itself an activation, and pi is in the argument of gelu_tanh
    names = [("meanfield.activation", "asin acos atan pi erfc exp")]
    names += [(f"meanfield.catalogue.{m.name}", "asin acos") for m in pkgutil.iter_modules(catalogue.__path__)]
    for name, words in names:
        code = "".join(inspect.getsource(importlib.import_module(name)).split('"""')[::2])
        for word in (*words.split(), "integrate"):
            assert not re.search(rf"\b(sp\.)?{word}\b", code), (name, word)
    package = importlib.import_module("meanfield.gaussian")
    for module in pkgutil.iter_modules(package.__path__):
        source = inspect.getsource(importlib.import_module(f"meanfield.gaussian.{module.name}"))
        assert not re.search(r"(?<![_\w`])integrate\([^)]", source), module.name


# -- expectations as expressions ---------------------------------------------------------------------------------------------------------


def test_expectation_binds_its_variable() -> None:
    node = mf.E(mf.x**2 * sp.tanh(mf.x), mf.q)
    assert node.free_symbols == {mf.q}
    assert node.subs(mf.x, 3) == node
    pair = mf.E(sp.tanh(mf.x) * sp.tanh(mf.y), mf.q, mf.p)
    assert pair.free_symbols == {mf.q, mf.p}
    assert pair.doit() == pair


def test_expectation_digits() -> None:
    for q in ("0.5", "2", "40"):
        truth = as_mpf(certified_mean(((lambda m, x: x * m.tanh(x)),) * 2, 2, q))
        found = sp.N(mf.E(mf.x**2 * sp.tanh(mf.x) ** 2, sp.Rational(q)), 40)
        with mp.workdps(45):
            assert close(mp.mpf(found._to_mpmath(mp.mp.prec)), truth, 38)


def test_expectation_differentiates() -> None:
    """d/dq E tanh(u)^2 = E[(tanh^2)'']/2, typed here as a second derivative the library does not form"""
    truth = as_mpf(certified_mean(((lambda m, x: (1 - m.tanh(x) ** 2) * (1 - 3 * m.tanh(x) ** 2)),) * 2, 1, "2"))
    rate = mf.E(sp.tanh(mf.x) ** 2, mf.q).diff(mf.q)
    with mp.workdps(40):
        assert close(exact(rate, 35, q=2), truth, 30)
    assert abs(mf.evaluate(rate, q=2.0) - float(truth)) < 1e-14


def test_expectation_of_two_variables() -> None:
    assert mf.E(mf.x * mf.y, mf.q, mf.p).doit() == mf.p
    assert sp.simplify(mf.E(mf.x**2 * mf.y**2, mf.q1, mf.p, mf.q2).doit() - (mf.q1 * mf.q2 + 2 * mf.p**2)) == 0
    found = mf.E((mf.x + mf.y) ** 4, mf.q, mf.p).doit()
    assert sp.expand(found - 3 * (2 * mf.q + 2 * mf.p) ** 2) == 0
    assert mf.E(sp.Integer(3), mf.q) == 3


@pytest.mark.parametrize("name", ["silu", "tanh", "softsign"])
def test_open_expectation_says_so(name: str) -> None:
    act = ACTIVATIONS[name].activation
    assert not act.is_closed("second_moment")
    assert not act.is_closed("kernel")
    if name != "softsign":
        assert act.is_closed("mean") == (name == "tanh")


def test_high_powers_with_a_mean() -> None:
    """the closed kernel and second moment against the integral, to digits"""
    m = sp.Symbol("m", real=True)
    for f in (mf.x**50, sp.Max(mf.x, 0) ** 20):
        phi, law = mf.Activation(f), {mf.q: sp.Rational(3, 2), mf.p: sp.Rational(-1, 3), m: sp.Rational(2, 5)}
        v, c, mean = law[mf.q], law[mf.p], law[m]
        product = product_mean_of(f, f, law_of(v, c, v, mean, mean), 70)
        assert abs(sp.N(phi.kernel(mf.q, mf.p, mean=m).xreplace(law), 40) / sp.Float(product, 30) - 1) < 1e-18
        square = mean_of(f**2, mean, v, 70)
        assert abs(sp.N(phi.second_moment(mf.q, mean=m).xreplace(law), 40) / sp.Float(square, 30) - 1) < 1e-18


@pytest.mark.parametrize(
    ("phi", "places"), [(sp.Max(sp.tanh(mf.x), 0), 1), (sp.Max(sp.tanh(mf.x), mf.x / 2), 3), (sp.Max(sp.log(1 + mf.x**2), 1), 2)]
)
def test_deltas_of_a_function_are_at_its_roots(phi: sp.Expr, places: int) -> None:
    bent = slope(slope(phi))
    assert len({d.place for d in deltas(bent)[1]}) == places
    # E phi''(u) = E phi(u) (u^2 - 1) at q = 1
    assert abs(sp.N(mf.E(bent, mf.q).doit().subs(mf.q, 1), 20) - sp.N(mf.E(phi * (mf.x**2 - 1), mf.q).subs(mf.q, 1), 20)) < 1e-15


def test_a_delta_at_each_of_infinitely_many_roots_is_refused() -> None:
    with pytest.raises(ValueError, match="infinitely many"):
        deltas(slope(slope(sp.Max(sp.sin(mf.x), 0))))
    with pytest.raises(ValueError, match="infinitely many"):
        slope(slope(sp.sign(sp.sin(mf.x))))
