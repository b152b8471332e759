"""Growth laws where a repeat leaves q by something exponentially small only: q, and J with it, are powers of ln l."""

from __future__ import annotations

from itertools import accumulate, pairwise

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.growth_laws import GrowthLaw
from meanfield.gaussian.faint_means import faint_mean, faint_pair

x = mf.x
FLAT = x * (1 - sp.exp(-1 / x**2))
CLIPPED = sp.Max(-3, sp.Min(3, x))


def critical(f: sp.Expr, sigma_w: sp.Expr = sp.S.One) -> GrowthLaw:
    return mf.growth(mf.mlp(mf.Activation(f)), sigma_w=sigma_w, sigma_b=0)


def shown(law: GrowthLaw) -> tuple[object, ...]:
    return law.q.kind, law.q.exponent, law.q.coefficient, law.apjn.kind, law.apjn.exponent


@pytest.mark.parametrize(
    ("f", "sigma_w", "expected"),
    [
        (CLIPPED, 1, (-1, sp.Rational(9, 2), -sp.S.Half)),
        (sp.Min(6, sp.Max(0, x)), sp.sqrt(2), (-1, 18, -sp.S.Half)),
        (FLAT, 1, (-2, 2, -2)),
        (x * (1 - sp.exp(-1 / sp.Abs(x))), 1, (-3, sp.Rational(27, 8), -3)),
    ],
)
def test_q_and_j_are_powers_of_ln_l(f: sp.Expr, sigma_w: sp.Expr, expected: tuple[sp.Expr, ...]) -> None:
    exponent, coefficient, of_j = expected
    assert shown(critical(f, sigma_w)) == ("logarithmic", exponent, coefficient, "logarithmic", of_j)


def test_c_stops_on_its_way_or_goes_by_itself() -> None:
    assert (critical(CLIPPED).gap.kind, critical(CLIPPED).gap.limit) == ("bounded", None)
    gap = critical(sp.Min(6, sp.Max(0, x)), sp.sqrt(2)).gap
    assert (gap.kind, gap.exponent, gap.coefficient) == ("power", -2, 9 * sp.pi**2 / 2)


def test_of_a_symbol_the_rate_is_its() -> None:
    a = sp.Symbol("a", positive=True)
    law = critical(sp.Max(-a, sp.Min(a, x)))
    assert (law.q.kind, sp.simplify(law.q.coefficient - a**2 / 2), law.apjn.exponent) == ("logarithmic", 0, -sp.S.Half)


def test_clipped_layers_do_what_the_law_says() -> None:
    r"""q' = q - D, J' = J (1 - P) with D = (q - k^2) P + 2 k q n(k), P = P(|u| > k): l = \int dq/D and ln J = \int ln(1 - P)/D dq"""
    law = critical(CLIPPED)
    with mp.workdps(30):

        def both(big: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
            q, k = 1 / big, mp.mpf(3)
            beyond = mp.erfc(k / mp.sqrt(2 * q))
            lost = (q - k**2) * beyond + 2 * k * q * mp.exp(-(k**2) / (2 * q)) / mp.sqrt(2 * mp.pi * q)
            return 1 / (lost * big**2), mp.log1p(-beyond) / (lost * big**2)

        places = [mp.mpf(60), mp.mpf(80), mp.mpf(100)]
        parts = [mp.linspace(a, b, round(b - a) // 2 + 1) for a, b in pairwise([1, *places])]
        depths, logs = ([*accumulate(mp.quad(lambda t, k=k: both(t)[k], cuts) for cuts in parts)] for k in (0, 1))
        slope = (mp.log(depths[2]) - mp.log(depths[0]) + mp.log(places[2] / places[0]) / 2) / (places[2] - places[0])  # beside ln X/2
        assert abs(slope * float(law.q.coefficient) / mp.mpf(4.5) ** 2 - 1) < 1e-3
        of_j = (logs[2] - logs[0]) / mp.log(places[2] / places[0])
        assert abs(of_j - float(law.apjn.exponent)) < 2e-3


@pytest.mark.parametrize(("f", "power"), [(FLAT**2, 1 / 2), (sp.diff(FLAT, x) ** 2, 1 / 2), (CLIPPED**2, 1), (FLAT * CLIPPED, 1 / 2)])
def test_faint_means_are_those_of_quadrature(f: sp.Expr, power: float) -> None:
    (own,) = faint_mean(f)
    assert float(own.power) == power
    beside = sp.Integer(1) if f.xreplace({x: sp.Rational(1, 10)}) > sp.S.Half else x**2
    rest = sp.lambdify(x, sp.expand(f) - beside, "mpmath")
    ratios = []
    with mp.workdps(60):
        for q in (mp.mpf("1e-2"), mp.mpf("1e-3")):
            wide = q**0.25
            cuts = sorted(
                {mp.mpf("1e-4"), *(wide * k / 10 for k in range(2, 40, 2)), *(3 + q * k for k in (0, 1, 3, 9, 30, 90)), mp.mpf(5)}
            )
            mean = 2 * mp.quad(lambda u, q=q: rest(u) * mp.exp(-u * u / (2 * q)), cuts) / mp.sqrt(2 * mp.pi * q)
            c, e, b, a = (mp.mpf(sp.N(v, 50)) for v in (own.coefficient, own.exponent, own.rate, own.power))
            ratios.append(abs(mean / (c * q**e * mp.exp(-b * q**-a)) - 1))
    step = float(own.step)
    assert ratios[1] < 0.1
    assert abs(mp.log10(ratios[0] / ratios[1]) - step) < 0.25 * step


def test_of_two_inputs_what_is_faint_is_that_of_one_and_the_polynomial_of_the_other() -> None:
    """E phi(u) phi(v) = rho q (1 - 2 P(|u| > 3)) + less, by Stein's lemma"""
    rho = sp.Symbol("rho", positive=True)
    first, second = faint_pair(CLIPPED, CLIPPED, rho)
    (single,) = faint_mean(CLIPPED * x)
    assert first == second
    assert sp.simplify(first.coefficient - rho * single.coefficient) == 0
