"""Functions that saturate faster than any exponential of a power: Gompertz' function and the complementary log-log."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.finite_parts import FinitePart, finite_part
from meanfield.gaussian.local_expansions import at_infinity
from meanfield.gaussian.series import NoExpansion

x = mf.x
GOMPERTZ, CLOGLOG = sp.exp(-sp.exp(-x)), 1 - sp.exp(-sp.exp(x))
weight, bias = sp.symbols("sigma_w sigma_b", positive=True)


@pytest.mark.parametrize("f", [GOMPERTZ, CLOGLOG], ids=["gompertz", "cloglog"])
def test_the_growth_of_a_stream_is_derived_and_seen(f: sp.Expr) -> None:
    r"""E phi^2 -> 1/2, \int phi'^2 = \int_0^oo u e^{-2u} du = 1/4: the rate is 4 (1/4)^2/(2 pi) sigma_w^4/(sigma_b^2 + sigma_w^2/2)"""
    law = mf.growth(mf.Residual(mf.Activate(mf.Activation(f)) >> mf.Linear()))
    assert sp.simplify(law.apjn.rate - weight**4 / (4 * sp.pi * (2 * bias**2 + weight**2))) == 0
    assert sp.simplify(law.q.rate - bias**2 - weight**2 / 2) == 0
    seen = law.check(sigma_w=1, sigma_b=sp.Rational(1, 2))
    assert seen.agrees, seen
    assert {"rate", "rate^stretch", "log_coefficient", "limit"} <= {fit.name for fit in seen.fits}


@pytest.mark.parametrize("q", [40.0, 400.0])
def test_moments_far_out_are_their_expansion(q: float) -> None:
    expansion = mf.E(GOMPERTZ**2, mf.q).asymptotic(2)
    with mp.workdps(30):
        exact = mp.quad(lambda z: mp.npdf(z) * mp.exp(-2 * mp.exp(-mp.sqrt(q) * z)), mp.linspace(-14, 14, 57))
        assert abs(expansion.expression.subs(mf.q, sp.Float(q, 30)) - exact) < 2 * q**-1.5


@pytest.mark.parametrize(("a", "s", "k"), [(2, -1, 1), (3, 2, 2), (1, -3, 0)])
def test_finite_parts_of_towers_are_integrals(a: int, s: int, k: int) -> None:
    """both signs of s, as the two sides of the line: less 1 on one of them where k = 0"""
    f = sum(sp.exp(k * r * x - a * sp.exp(r * x)) for r in (s, -s))
    found = finite_part(f, 0)
    assert not found.has(FinitePart)
    value = sp.lambdify(x, f - int(k == 0), "mpmath")
    assert abs(mp.mpf(sp.N(found, 20)) - mp.quad(value, [0, 1, 2, 5, 20, 60])) < 1e-13


def test_what_is_sunk_is_nothing_beside_an_exponential_and_has_no_size() -> None:
    assert at_infinity(sp.exp(-sp.exp(x)) * sp.exp(x**3) + 1 / x, 3) == {-1: 1}
    with pytest.raises(NoExpansion, match="faster"):
        at_infinity(sp.exp(sp.exp(x)), 3)
    with pytest.raises(NoExpansion):
        at_infinity(sp.exp(-sp.exp(x)) / (sp.exp(-2 * sp.exp(x)) + sp.exp(-3 * sp.exp(x))), 3)
