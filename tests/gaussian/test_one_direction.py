"""Functions of two Gaussians along one direction or two: the larger of two, of a difference, and what else is a mean of one Gaussian or
of the two that the directions make."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield import p, q, x, y
from meanfield.numeric.printing import Unsupported


def test_the_larger_of_two_has_a_closed_form_and_numbers() -> None:
    larger = mf.E(sp.Max(x, y), q, p)
    assert larger.doit() == sp.sqrt(q - p) / sp.sqrt(sp.pi)
    assert mf.evaluate(larger, q=1, p=0.5) == pytest.approx(0.3989422804014327, rel=1e-15)
    assert mf.evaluate(larger, q=1, p=1) == 0
    precise = mf.evaluate(larger, q=1, p=sp.Rational(1, 2), digits=30)
    with mp.workdps(40):
        assert abs(precise * mp.sqrt(2 * mp.pi) - 1) < 1e-30


def test_unequal_variances_means_and_signs() -> None:
    """E min(u, 2 v) is minus half the mean of |u - 2 v|"""
    form = mf.E(sp.Min(x, 2 * y), q, p).doit()
    assert sp.simplify(form + sp.sqrt(5 * q - 4 * p) / sp.sqrt(2 * sp.pi)) == 0
    assert mf.E(sp.Max(0, x - y) ** 2, q, p).doit().equals(q - p)


def test_a_function_of_a_difference_is_a_mean_of_one_variable() -> None:
    spread = mf.E(sp.tanh(x - y) ** 2, q, p)
    assert mf.evaluate(spread, q=1.0, p=0.25) == pytest.approx(mf.evaluate(mf.tanh.second_moment(q), q=1.5), rel=1e-14)
    assert mf.evaluate(spread, q=1, p=sp.Rational(1, 4), digits=20) == pytest.approx(mf.evaluate(mf.tanh.second_moment(1.5)), rel=1e-14)
    assert mf.evaluate(spread, q=1.0, p=1.0) == 0


def test_the_hint_of_what_is_refused_holds() -> None:
    product = mf.E(sp.tanh(x * y), q, p)
    with pytest.raises(Unsupported, match="evaluate it with digits="):
        mf.evaluate(product, q=1, p=0.5)
    assert abs(mf.evaluate(product, q=1, p=0.5, digits=12) - 0.24009574591529) < 1e-12
    with pytest.raises(Unsupported, match="write it as a sum"):
        mf.evaluate(mf.E(sp.tanh(x) * sp.tanh(y) * sp.Max(x, y), q, p), q=1, p=0.5)


def test_powers_of_the_larger_of_two() -> None:
    r"""max^2 + min^2 = u^2 + v^2; max = s + |t| with s and t independent, E max^3 = E |t|^3 + 3 E s^2 E|t|"""
    assert mf.E(sp.Max(x, y) ** 2, q, p).doit() == q
    assert mf.E(sp.Max(x, y) * sp.Min(x, y), q, p).doit() == p
    s, t = (q + p) / 2, (q - p) / 2
    cube = sp.sqrt(2 / sp.pi) * (2 * t ** sp.Rational(3, 2) + 3 * s * sp.sqrt(t))
    assert sp.simplify(mf.E(sp.Max(x, y) ** 3, q, p).doit() - cube) == 0
    assert mf.evaluate(mf.E(sp.Max(x, y) ** 3, q, p), q=1.0, p=0.5) == pytest.approx(float(cube.subs({q: 1, p: 0.5})), rel=1e-14)


def test_a_merged_modulus() -> None:
    known = 2 * (p * sp.asin(p / q) + sp.sqrt(q**2 - p**2)) / sp.pi
    assert sp.expand(mf.E(sp.Abs(x * y), q, p).doit() - known) == 0


@pytest.mark.parametrize(
    ("f", "given"),
    [
        (sp.tanh(x) * sp.Heaviside(x + y - 1), lambda u, m, r: mp.ncdf((u + m - 1) / r)),
        (sp.tanh(x) * sp.Max(x, y), lambda u, m, r: u * mp.ncdf((u - m) / r) + m * mp.ncdf((m - u) / r) + r * mp.npdf((u - m) / r)),
        (sp.tanh(x) * x * sp.Abs(x - y), lambda u, m, r: u * ((u - m) * (2 * mp.ncdf((u - m) / r) - 1) + 2 * r * mp.npdf((u - m) / r))),
    ],
    ids=["a step across", "the larger", "a distance"],
)
@pytest.mark.parametrize(("first", "cov", "second"), [(1.0, 0.3, 1.0), (1.0, -0.4, 2.0), (0.2, 0.5, 3.0)])
def test_products_of_two_directions(f: sp.Expr, given: object, first: float, cov: float, second: float) -> None:
    """by the mean of the other factor where u is given"""
    r = mp.sqrt(second - cov**2 / first)

    def inner(u: mp.mpf) -> mp.mpf:
        return mp.tanh(u) * given(u, cov / first * u, r) * mp.npdf(u, 0, mp.sqrt(first))  # type: ignore[operator]

    true = mp.quad(inner, [mp.sqrt(first) * k for k in (-12, -6, -3, -1, 0, 1, 3, 6, 12)])
    found = mf.evaluate(mf.E(f, mf.q1, p, mf.q2), q1=first, p=cov, q2=second)
    assert found == pytest.approx(float(true), rel=1e-12)
