"""Expansions of invented functions err by as much as they say: the exponent of their remainder, against integrals by mpmath."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf

x, q = mf.x, mf.q

#: kinked and saturating, odd, a bump on one side, a difference of soft and hard
INVENTED = {
    "clipped": sp.Max(x, 0) / sp.sqrt(1 + x**2),
    "flat": sp.atan(x**3),
    "gated": x / (1 + sp.exp(-x)) ** 2,
    "left over": sp.log(1 + sp.exp(2 * x)) - sp.Max(2 * x, 0),
    "mixed": sp.tanh(x) + sp.sech(x) / 3,
}
ENDS = {"taylor": ("1e-4", "1e-6"), "asymptotic": ("1e4", "1e6")}


def square(f: sp.Expr, v: mp.mpf) -> mp.mpf:
    """E f(u)^2 by mpmath's own rule, in pieces"""
    g, s = sp.lambdify(x, f, "mpmath"), mp.sqrt(v)
    ends = {mp.mpf(k) for k in (-14, -6, -2, 0, 2, 6, 14)} | {side * k / s for k in (0.3, 1, 3, 9) for side in (-1, 1) if k < 14 * s}
    return mp.quad(lambda z: g(s * z) ** 2 * mp.npdf(z), sorted(ends))


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("name", INVENTED)
def test_remainder_falls_as_declared(name: str, how: str) -> None:
    f = INVENTED[name]
    series = getattr(mf.E(f**2, q), how)(3)
    order = series.remainder.as_coeff_exponent(q)[1]
    with mp.workdps(30):
        errors = []
        for v in ENDS[how]:
            value = sp.N(series.expression.subs(q, sp.Rational(v)), 30)
            errors.append(abs(value._to_mpmath(110) - square(f, mp.mpf(v))))
        rate = mp.log(errors[1] / errors[0]) / mp.log(mp.mpf(ENDS[how][1]) / mp.mpf(ENDS[how][0]))
    assert abs(rate - float(order)) < 0.05


@pytest.mark.parametrize("name", INVENTED)
def test_hermite_coefficients_and_gain(name: str) -> None:
    phi = mf.Activation(INVENTED[name])
    g = sp.lambdify(x, INVENTED[name], "mpmath")
    ends = [-14, -6, -2, 0, 2, 6, 14]
    with mp.workdps(30):
        for n in (0, 1, 2, 3):
            polynomial = sp.lambdify(x, sp.hermite_prob(n, x), "mpmath")
            truth = mp.quad(lambda z, h=polynomial: g(z) * h(z) * mp.npdf(z), ends) / mp.sqrt(mp.factorial(n))
            value = phi.hermite(n, 1)
            assert abs((mf.evaluate(value, digits=20) if value != 0 else 0) - truth) <= 1e-18, n
        second, first = square(INVENTED[name], mp.mpf(1)), mp.quad(lambda z: g(z) * mp.npdf(z), ends)
        found = mf.gain(phi)
        assert abs(float(found.second_moment) - 1 / mp.sqrt(second)) <= 1e-13 / mp.sqrt(second)
        assert abs(float(found.variance) - 1 / mp.sqrt(second - first**2)) <= 1e-12 / mp.sqrt(second - first**2)
