"""Activations with parameters: what symbols say of their signs changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric import ways

x = mf.x
PLAIN, POSITIVE = sp.Symbol("b"), sp.Symbol("b", positive=True)
#: each with the sign that its values may have, 0 for any
SYMBOLS = {
    "plain": (PLAIN, 0),
    "real": (sp.Symbol("b", real=True), 0),
    "nonzero": (sp.Symbol("b", real=True, nonzero=True), 0),
    "nonnegative": (sp.Symbol("b", nonnegative=True), 1),
    "positive": (POSITIVE, 1),
    "nonpositive": (sp.Symbol("b", nonpositive=True), -1),
}

#: expressions in b, and its values, with q from moderate to where an exponential of it overflows
FUNCTIONS = {
    "power": (lambda b: sp.sign(x) * sp.Abs(x) ** b, (0.7, 1.5)),  # has a jump for b = 0 alone
    "soft ends": (lambda b: sp.Piecewise((x, sp.Abs(x) < b), (sp.sign(x) * (b + sp.log(1 + sp.Abs(x) - b)), True)), (0.9,)),
    "clipped": (lambda b: sp.Piecewise((x, sp.Abs(x) < b), (b * sp.sign(x), True)), (0.4, 1.3)),
    "windowed": (lambda b: sp.Piecewise((x, sp.Abs(x) < b), (0, True)) + sp.tanh(x), (0.4, 1.3)),  # jumps at b and -b
    "root": (lambda b: sp.sqrt(sp.Abs(x) + b), (0.0, 0.5)),  # is too steep for b = 0
    "swish": (lambda b: x / (1 + sp.exp(-b * x)), (-2.0, 0.0, 1.3)),
    "softplus": (lambda b: sp.log(1 + sp.exp(b * x)) / b, (-2.0, 1.3)),
    "sinc": (lambda b: sp.sin(b * x) / x, (-3.0, 0.4)),  # 0/0 where a node is
    "bounded": (lambda b: sp.Min(sp.exp(x) - 1, b), (0.5,)),
    "two of them": (lambda b: sp.tanh(b * x) + x / 5, (-0.7, 0.0, 1.3)),  # of no common scale
}
QS = (0.3, 3.0, 3e3, 1e5)


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        *((name, "plain") for name in FUNCTIONS),
        *(("swish", s) for s in SYMBOLS if s != "plain"),
        *(("sinc", s) for s in ("real", "positive", "nonpositive")),
    ],
)
def test_a_parameter_is_as_good_as_its_value(name: str, symbol: str) -> None:
    (make, values), (b, sign) = FUNCTIONS[name], SYMBOLS[symbol]
    values = tuple(v for v in values if sign == 0 or v * sign > 0)
    values = tuple(v for v in values if v != 0 or symbol != "nonzero")
    qs = QS[:2] if name == "sinc" else QS  # which oscillates
    setting = {"depth": 2, "q": np.array(qs), "c": 0.6, "sigma_w": 1.2, "sigma_b": 0.1}
    run = mf.propagate(mf.mlp(mf.Activation(make(b))), **setting, b=np.array(values)[:, None])
    assert run.q.shape == (len(values), len(qs), 3)
    for k, value in enumerate(values):
        own = mf.propagate(mf.mlp(mf.Activation(make(sp.Rational(value)))), **setting)
        assert (run.status[k] == own.status).all()
        assert np.isfinite(own.q).all()
        np.testing.assert_allclose(run.q[k], own.q, rtol=1e-11)
        np.testing.assert_allclose(run.gap[k], own.gap, rtol=1e-10)
        np.testing.assert_allclose(run.log_apjn[k], own.log_apjn, atol=1e-10)


def test_signs_may_be_mixed() -> None:
    """a point has the same bits whatever others are run with it"""
    net = mf.mlp(mf.Activation(x / (1 + sp.exp(-PLAIN * x))))
    setting = {"depth": 5, "q": 1.0, "c": 0.3, "sigma_w": 1.3, "sigma_b": 0.2}
    values = np.array([-1.5, 0.0, 0.5, -0.2, 2.0])
    run = mf.propagate(net, **setting, b=values)
    assert (run.status == "ok").all()
    assert run.q[1] == pytest.approx(mf.propagate(mf.mlp(mf.Activation(x / 2)), **setting).q, rel=1e-13)
    for k in range(len(values)):
        two = mf.propagate(net, **setting, b=values[[k, k]])
        assert (two.q[0] == run.q[k]).all()
        assert (two.log_apjn[0] == run.log_apjn[k]).all()


@pytest.mark.parametrize("turned", [False, True])
def test_a_moment_that_is_infinite_for_one_sign(turned: bool) -> None:
    """whichever of the two comes first in its formula"""
    inside = sp.tanh(x) if turned else x
    phi = mf.Activation(sp.Piecewise((inside, sp.Abs(x) < PLAIN), (0, True)) + sp.tanh(x) / 2)
    square = phi.derivative.second_moment(mf.q)
    below, above = mf.evaluate(square, q=1.0, b=[-0.9, 0.9])
    assert above == np.inf
    assert below == pytest.approx(mf.evaluate(mf.Activation(sp.tanh(x) / 2).derivative.second_moment(mf.q), q=1.0), rel=1e-12)
    assert mf.evaluate(3 * square, q=1.0, b=-0.9) == pytest.approx(3 * below, rel=1e-12)


def test_where_a_delta_is_hangs_on_a_sign() -> None:
    phi = mf.Activation(sp.Piecewise((x, sp.Abs(x) < PLAIN), (PLAIN * sp.sign(x), True)))
    square = phi.derivative.second_moment(mf.q)
    values = mf.evaluate(square, q=1.0, b=[-0.9, 0.9])
    assert values[0] == np.inf
    assert values[1] == pytest.approx(float(sp.erf(0.9 / sp.sqrt(2)).n()), rel=1e-14)
    assert float(mf.evaluate(square, q=1, b=sp.Rational(9, 10), digits=20)) == pytest.approx(values[1], rel=1e-15)
    net = mf.mlp(phi)
    run = mf.propagate(net, 3, 1.0, c=0.6, b=np.array([-0.9, 0.9]), sigma_w=1.5, sigma_b=0.1)
    assert run.status.tolist() == ["infinite APJN", "ok"]
    pair = mf.propagate(net, 2, 1.0, q2=0.5, c=0.6, b=np.array([-0.9, 0.9]), sigma_w=1.5, sigma_b=0.1)
    assert np.isposinf(pair.log_apjn[0, 0])
    assert np.isfinite(pair.log_apjn[1]).all()


def test_what_is_asked_of_a_network_with_a_plain_parameter() -> None:
    nets = [mf.mlp(mf.Activation(sp.Piecewise((x, sp.Abs(x) < b), (b * sp.sign(x), True)))) for b in (PLAIN, POSITIVE)]
    plain, positive = (mf.fixed_points(net, sigma_w=1.5, sigma_b=0.1, b=0.9) for net in nets)
    for first, second in zip(plain, positive, strict=True):
        assert (first.q, first.c, first.chi) == pytest.approx((second.q, second.c, second.chi), rel=1e-12)
    assert dict(mf.critical(nets[0], q=1.0, b=0.9)) == pytest.approx(dict(mf.critical(nets[1], q=1.0, b=0.9)), rel=1e-12)
    assert dict(mf.critical(nets[0], q=1.0, sigma_b=0.1)) == pytest.approx(dict(mf.critical(nets[1], q=1.0, sigma_b=0.1)), rel=1e-12)
    slopes = [mf.sensitivity(net, 2, 1.0, c=0.6, b=0.9, sigma_w=1.5, sigma_b=0.1) for net in nets]
    assert slopes[0].dlog_apjn == pytest.approx(slopes[1].dlog_apjn, rel=1e-12)
    grids = [mf.phase_diagram(net, sigma_w=np.linspace(0.5, 2, 4), b=np.linspace(0.1, 2, 3), sigma_b=0.1) for net in nets]
    assert (grids[0].phase == grids[1].phase).all()
    with pytest.raises(ValueError, match="b: whether the activation jumps hangs on its sign"):
        mf.phase_diagram(nets[0], sigma_w=np.linspace(0.5, 2, 4), b=np.linspace(0, 2, 3), sigma_b=0.1)
    law = mf.growth(nets[0])
    assert law.apjn.kind == "undetermined"
    assert mf.growth(nets[0], b=0.9, sigma_w=1.5, sigma_b=0.1).apjn.kind == "exponential"


def test_tables_are_of_each_value() -> None:
    """the bits of the network with the number written out, on a grid, and very deep"""
    a = sp.Symbol("a", positive=True)
    setting = {"depth": 60, "q": 1.0, "c": 0.6, "sigma_b": 0.1, "record": "last"}
    net, values, weights = mf.mlp(mf.Activation(sp.tanh(a * x) + x / 5)), np.array([0.75, 1.5]), np.linspace(0.8, 1.5, 40)
    run = mf.propagate(net, **setting, sigma_w=weights, a=values[:, None])
    for k, value in enumerate(values):
        own = mf.mlp(mf.Activation(sp.tanh(sp.Rational(value) * x) + x / 5))
        with_number = mf.propagate(own, **setting, sigma_w=weights)
        assert (run.q[k] == with_number.q).all()
        assert (run.log_apjn[k] == with_number.log_apjn).all()
        deep = {**setting, "depth": 10**9, "sigma_w": 1.1}
        assert mf.propagate(net, **deep, a=value).log_apjn == pytest.approx(mf.propagate(own, **deep).log_apjn, rel=1e-14)


@pytest.mark.parametrize(
    ("make", "value", "q"),
    [
        (lambda b: sp.sign(x) * sp.Abs(x) ** b, 0.3, 1.0),  # E phi'^2 is finite for b > 1/2 alone
        (lambda b: sp.sign(x) * sp.Abs(x) ** b, 0.5, 1.0),
        (lambda b: sp.exp(b * x**2), 0.125, 1.0),  # E phi^2 is finite for 4 b q < 1 alone
        (lambda b: x * sp.exp(b * x**2), 0.125, 3.0),
    ],
)
def test_what_is_infinite_beyond_a_bound_is_so_by_symbols_too(make: Any, value: float, q: float) -> None:
    setting = {"depth": 4, "q": q, "c": 0.5, "sigma_w": 1.0, "sigma_b": 0.1}
    own = mf.propagate(mf.mlp(mf.Activation(make(sp.Rational(value).limit_denominator(100)))), **setting)
    assert own.status in ("infinite APJN", "overflow")
    for symbol in (PLAIN, POSITIVE):
        run = mf.propagate(mf.mlp(mf.Activation(make(symbol))), b=value, **setting)
        assert run.status == own.status
        np.testing.assert_allclose(run.q, own.q, rtol=1e-13)
        np.testing.assert_array_equal(run.log_apjn, own.log_apjn)


def test_points_of_either_sign_are_put_together_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = {"depth": 20, "q": 1.0, "c": 0.5, "sigma_w": 1.0, "sigma_b": 0.1, "b": np.linspace(-2, 2, 81)}
    net = mf.mlp(mf.Activation(sp.Max(PLAIN * x, x)))
    whole = mf.propagate(net, **setting)
    monkeypatch.setattr(ways, "APART", 6 * 21 * 7)
    memory = np.zeros((6, 21, 81))
    parts = mf.propagate(net, out=memory, **setting)
    for name in ("q", "gap", "log_apjn", "log_chi_product"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    assert np.shares_memory(parts.q, memory)


def test_a_crossing_at_0_of_what_has_no_formula() -> None:
    """max(a x, tanh x), a >= 1: the two meet at 0 alone, which sympy does not find"""
    a = np.array([1.25, 1.0000001])
    run = mf.propagate(mf.mlp(mf.Activation(sp.Max(sp.Symbol("a") * x, sp.tanh(x)))), 3, 1.0, c=0.5, a=a, sigma_w=1.0, sigma_b=0.0)
    u = np.linspace(-12, 12, 480_001)
    for k, slope in enumerate(a):
        second = np.trapezoid(np.maximum(slope * u, np.tanh(u)) ** 2 * np.exp(-u * u / 2), u) / np.sqrt(2 * np.pi)
        assert run.q[k, 1] == pytest.approx(second, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "a"),
    [
        (lambda a: x * sp.atan(a * x + sp.Rational(1, 10)), 1.05),  # whose even part is a difference of arcs, of no digits far out
        (lambda a: sp.tanh(sp.exp(-((a + x) ** 2))), 1.05),  # of a complex x sympy asks for minutes whether it is real
        (lambda a: sp.atan(sp.atan(a + x / 2)), 0.7),
        (
            lambda a: sp.Max(-a, sp.Min(a, 2 * a + x - 1)) / sp.sqrt(1 + sp.Max(-a, sp.Min(a, 2 * a + x - 1)) ** 2),
            0.9,
        ),  # roots of long integers
    ],
)
def test_functions_that_are_looked_at_for_long_or_in_vain(make: Any, a: float) -> None:
    q, c, weights = 0.6, 0.4, np.exp(-(np.linspace(-9, 9, 3601) ** 2) / 2)
    run = mf.propagate(mf.mlp(mf.Activation(make(PLAIN))), 1, q, c=c, b=a, sigma_w=1.0, sigma_b=0.0)
    z = np.sqrt(q) * np.linspace(-9, 9, 3601)
    f = sp.lambdify(x, make(sp.Float(a, 17)).rewrite(sp.Piecewise), "numpy")
    assert run.q[1] == pytest.approx(f(z) ** 2 @ weights / weights.sum(), rel=1e-6)
    steps = z[::9, None] * c + np.sqrt(1 - c * c) * z[None, ::9]
    both = (f(z[::9]) * weights[::9]) @ (f(steps) @ weights[::9]) / weights[::9].sum() ** 2
    assert run.p[1] == pytest.approx(both, rel=1e-4)
