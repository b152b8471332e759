"""Growth laws of streams whose branch grows like a logarithm: powers of ln l beside those of l, in closed form and beside long runs."""

from __future__ import annotations

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.growth_curves import Series
from meanfield.analysis.growth_fits import fits
from meanfield.analysis.growth_laws import GrowthLaw
from meanfield.analysis.growth_logarithms import fed
from meanfield.analysis.growth_rates import Motion, gap_slow
from meanfield.analysis.growth_records import Growth
from meanfield.analysis.repeats import Repeat
from meanfield.analysis.signs import GAP
from meanfield.gaussian.logarithmic_moments import near_one
from meanfield.numeric.long_runs import long_run

x, sigma_w = mf.x, sp.Symbol("sigma_w", positive=True)
SIGN = sp.sign(x) * sp.log(1 + sp.Abs(x))


def stream(f: sp.Expr) -> GrowthLaw:
    return mf.growth(mf.Residual(mf.Activate(mf.Activation(f)) >> mf.Linear(sigma_b=0)))


@pytest.fixture(scope="module")
def even() -> GrowthLaw:
    return stream(sp.log(1 + x**2))


def rate_by_hand(slope: sp.Expr, of_q: sp.Expr) -> sp.Expr:
    r"""of ln J ~ \frac{2 m}{\sqrt{rate}} \sqrt{l} / ln l, m = \sigma_w^2 \int \phi'^2 dx/\sqrt{2 \pi}"""
    m = sigma_w**2 * slope / sp.sqrt(2 * sp.pi)
    return 4 * m**2 / of_q


@pytest.mark.parametrize(("f", "of_q", "slope"), [(sp.asinh(x), sp.Rational(1, 4), sp.pi), (SIGN, sp.Rational(1, 4), 2)])
def test_odd_logarithms_make_q_grow_like_l_times_a_squared_logarithm(f: sp.Expr, of_q: sp.Expr, slope: sp.Expr) -> None:
    law = stream(f)
    assert (law.q.kind, law.q.exponent, law.q.log_exponent) == ("power", 1, 2)
    assert sp.simplify(law.q.rate - of_q * sigma_w**2) == 0
    assert (law.apjn.kind, law.apjn.stretch, law.apjn.log_exponent) == ("stretched", sp.Rational(1, 2), -1)
    assert sp.simplify(law.apjn.rate - rate_by_hand(slope, of_q * sigma_w**2)) == 0
    assert (law.gap.kind, law.gap.limit) == ("bounded", 1)  # signs of two tokens agree in (2/pi) asin c only


def test_an_even_logarithm_carries_c_to_one_like_a_power_of_ln_l(even: GrowthLaw) -> None:
    assert (even.q.log_exponent, even.q.rate) == (2, sigma_w**2)
    assert sp.simplify(even.apjn.rate - rate_by_hand(2 * sp.pi, sigma_w**2)) == 0
    # e ln^2 q = 2 arccos(c) (pi/2 + asin c) = 2 pi sqrt(2 e) near c = 1
    assert (even.gap.kind, even.gap.exponent, even.gap.coefficient) == ("logarithmic", -4, 8 * sp.pi**2)


def test_of_a_one_sided_logarithm_c_settles_between_0_and_1() -> None:
    law = stream(sp.log(1 + sp.exp(sp.asinh(x))))
    assert law.q.rate == sigma_w**2 / 8
    with mp.workdps(20):
        c = mp.findroot(lambda c: mp.acos(c) - mp.pi * (1 - c), (0.7, 0.85))
        assert abs(1 - c - mp.mpf(str(sp.N(law.gap.limit, 20)))) < 1e-15


def test_a_bounded_part_adds_to_what_sets_tokens_apart() -> None:
    law = stream(sp.log(1 + x**2) + sp.atan(x))
    jump = 2 * sp.pi * sp.sqrt(2) + sp.pi**2 / 4 * 2 * sp.sqrt(2) / sp.pi  # of sqrt(e), from the logarithm and from the step of atan
    assert (law.gap.exponent, sp.simplify(law.gap.coefficient - jump**2)) == (-4, 0)


def test_of_several_powers_of_the_logarithm_the_one_that_carries_1_minus_c_farthest_counts() -> None:
    """asinh(x)^2: the gap of ln^2|u| comes with ln^2 q, lower powers have logarithms of 1 - c and are less"""
    log = sp.log(sp.Abs(x))
    mixed = mf.E(log**2 * log.xreplace({x: mf.y}), 1, 1 - GAP, 1)
    cube = near_one(log**2, log, GAP).as_independent(GAP, as_Add=True)[0]  # E ln^3|u|
    gap = {
        (sp.S.Zero, 0): GAP,
        (-sp.S.One, 4): -GAP / 16,
        (-sp.S.One, 2): (sp.pi**2 / 4 - sp.asin(1 - GAP) ** 2) / 2,
        (-sp.S.One, 1): 2 * (cube - mixed),
    }
    move = Motion(1, sp.S.One, sp.S.One, sp.Rational(1, 16), 4)
    found = fed(Repeat({}, gap, ({}, {}, {}, {})), move, gap_slow(gap[-sp.S.One, 4]))
    assert found.fed == (4, 128 * sp.pi**2, 2)


def test_every_constant_agrees_with_runs_of_a_million_layers_and_more(even: GrowthLaw) -> None:
    seen = even.check(sigma_w=sp.Rational(3, 2))
    assert [f"{f.quantity} {f.name}" for f in seen.fits] == [
        "q exponent", "q log_exponent", "q rate", "1 - c coefficient", "J log_exponent", "J rate^stretch",
    ]  # fmt: skip
    assert seen.agrees
    values = {f"{f.quantity} {f.name}": f.fitted for f in seen.fits}
    assert values["q rate"] == pytest.approx(9 / 4, rel=1e-3)
    assert values["J rate^stretch"] == pytest.approx(float(sp.sqrt(8 * sp.pi)) * 1.5, rel=1e-3)


@pytest.fixture(scope="module")
def deep(even: GrowthLaw) -> Series:
    """a run to 10^13 layers, by leaps"""
    run = long_run(mf.recursion(even.block), 10**13, 1.0, 0.5, {"sigma_w": 1.0})
    return Series(run.layers, {"q": np.log(run.q), "1 - c": np.log(run.gap), "J": run.log_apjn_forward})


@pytest.mark.parametrize(("name", "constant", "off"), [("q", "rate", 20), ("gap", "coefficient", 100), ("apjn", "rate", 20)])
def test_constants_that_are_off_by_more_than_their_errors_disagree(
    even: GrowthLaw, deep: Series, name: str, constant: str, off: int
) -> None:
    """by 5 per cent; the coefficient of 1 - c, a power of ln l, by 1 per cent after 10^13 layers"""
    assert all(f.verdict == "agrees" for f in fits(even, deep, {"sigma_w": 1.0}, True))
    own: Growth = getattr(even, name)
    wrong = replace(even, **{name: replace(own, **{constant: getattr(own, constant) * (1 + sp.Rational(1, off))})})
    assert "disagrees" in {f.verdict for f in fits(wrong, deep, {"sigma_w": 1.0}, True)}


@pytest.mark.parametrize("name", ["q", "apjn"])
def test_a_wrong_power_of_the_logarithm_disagrees(even: GrowthLaw, deep: Series, name: str) -> None:
    own: Growth = getattr(even, name)
    wrong = replace(even, **{name: replace(own, log_exponent=own.log_exponent + 1)})
    assert "disagrees" in {f.verdict for f in fits(wrong, deep, {"sigma_w": 1.0}, True) if f.name == "log_exponent"}


def test_asymptotes_and_their_texts_show_the_logarithm(even: GrowthLaw) -> None:
    l = sp.Symbol("l", positive=True)
    assert even.q.asymptote == sigma_w**2 * l * sp.log(l) ** 2
    assert sp.simplify(even.apjn.asymptote - sp.sqrt(8 * sp.pi * l) * sigma_w / sp.log(l)) == 0
    assert even.gap.asymptote == 8 * sp.pi**2 / sp.log(l) ** 4
    text = even.latex()
    assert text.count(r"\left(1 + O\left(\frac{\ln \ln l}{\ln l}\right)\right)") == 2
    assert "log_exponent=-1" in repr(even)


def test_faster_than_exponential_growth_is_said_to_be_so() -> None:
    law = stream(x * sp.log(1 + x**2))
    assert law.q.kind == "undetermined"
    assert "ln q grows like 2 l ln l" in law.q.reason


def test_what_falls_like_one_over_x_leaves_tokens_independent() -> None:
    law = mf.growth(mf.Residual(mf.Activate(mf.Activation(x / (1 + x**2))) >> mf.Linear()))
    sigma_b = sp.Symbol("sigma_b", positive=True)
    # q = sigma_b^2 l, and q - p takes sigma_w^2 E phi^2 ~ sigma_w^2 (pi/2)/sqrt(2 pi q) in a repeat
    assert (law.gap.kind, law.gap.exponent) == ("power", -sp.S.Half)
    assert sp.simplify(law.gap.coefficient - sp.sqrt(sp.pi / 2) * sigma_w**2 / sigma_b**3) == 0
    assert law.check().agrees
