"""Growth laws of streams whose branch grows like a power of |x|, or comes slowly to its limit: constants by hand and beside long runs."""

from __future__ import annotations

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.growth_check import FAR
from meanfield.analysis.growth_derivation import laws
from meanfield.analysis.growth_laws import GrowthLaw
from meanfield.analysis.growth_rates import Undetermined
from meanfield.analysis.growth_uniform import check_fading
from meanfield.analysis.repeats import Repeat, small
from meanfield.analysis.signs import GAP
from meanfield.gaussian.power_moments import power_near_one
from meanfield.gaussian.series import REST
from meanfield.recurrence import recursion

x, sigma_w = mf.x, sp.Symbol("sigma_w", positive=True)
HALF, QUARTER = sp.S.Half, sp.Rational(1, 4)
ODD, EVEN = x / sp.sqrt(1 + sp.Abs(x)), (1 + x**2) ** QUARTER


def stream(f: sp.Expr) -> GrowthLaw:
    return mf.growth(mf.Residual(mf.Activate(mf.Activation(f)) >> mf.Linear(sigma_b=0)))


@pytest.fixture(scope="module")
def odd() -> GrowthLaw:
    return stream(ODD)


@pytest.fixture(scope="module")
def even() -> GrowthLaw:
    return stream(EVEN)


def moment(k: float, j: float, odd: bool, r: mp.mpf) -> mp.mpf:
    """E |u|^k |v|^j, with both signs if odd (Nabeya 1951)"""
    if odd:
        own = 2 * r * mp.gamma(1 + k / 2) * mp.gamma(1 + j / 2) * mp.hyp2f1((1 - k) / 2, (1 - j) / 2, 1.5, r * r)
    else:
        own = mp.gamma((1 + k) / 2) * mp.gamma((1 + j) / 2) * mp.hyp2f1(-k / 2, -j / 2, 0.5, r * r)
    return mp.mpf(2) ** ((k + j) / 2) / mp.pi * own


def test_a_root_makes_j_grow_beyond_every_power_and_below_every_stretched_exponential(odd: GrowthLaw) -> None:
    """dq/dl = sigma^2 sqrt(2 q/pi), E phi'^2 = ln q/(4 sqrt(2 pi q)) + ...: ln J = ln^2(q)/16 + ..., q ~ l^2"""
    assert (odd.q.exponent, odd.apjn.kind, odd.apjn.log_squared_coefficient) == (2, "quasi-polynomial", QUARTER)
    l = sp.Symbol("l", positive=True)
    assert sp.expand(odd.apjn.asymptote - sp.log(l) ** 2 / 4).coeff(sp.log(l)) == odd.apjn.log_coefficient
    assert r"\frac{\ln{\left(l \right)}^{2}}{4}" in odd.apjn.latex()


def test_both_coefficients_of_ln_j_agree_with_long_runs_and_wrong_ones_do_not(odd: GrowthLaw, even: GrowthLaw) -> None:
    for law in (odd, even):
        seen = law.check(depth=FAR, sigma_w=1.3)
        assert seen.agrees, seen
        assert {"log_squared_coefficient", "log_coefficient"} <= {f.name for f in seen.fits}
    for name in ("log_squared_coefficient", "log_coefficient"):
        wrong = replace(odd.apjn, **{name: getattr(odd.apjn, name) * sp.Rational(51, 50)})
        assert not replace(odd, apjn=wrong).check(depth=FAR, sigma_w=1.3).agrees


def test_c_goes_to_0_behind_an_odd_root_and_to_the_root_of_its_kernel_behind_an_even_one(odd: GrowthLaw, even: GrowthLaw) -> None:
    assert (odd.gap.kind, odd.gap.limit) == ("bounded", 1)
    with mp.workdps(20):
        c = mp.findroot(lambda c: moment(0.5, 0.5, False, c) / mp.sqrt(2 / mp.pi) - c, (0.9, 0.99), solver="anderson")
        assert abs(1 - c - mp.mpf(str(sp.N(even.gap.limit, 20)))) < 1e-15


def test_a_relu_layer_behind_an_even_root_has_its_c_where_the_composed_kernel_has_its_root() -> None:
    law = mf.growth(mf.Residual(mf.Activate(mf.Activation(EVEN)) >> mf.MLP(mf.relu, 1, 1)))

    def relu(r: mp.mpf) -> mp.mpf:
        return (mp.sqrt(1 - r * r) + r * (mp.pi - mp.acos(r))) / mp.pi

    with mp.workdps(20):
        c = mp.findroot(lambda c: relu(moment(0.5, 0.5, False, c) / mp.sqrt(2 / mp.pi)) - c, (0.998, 0.9995), solver="anderson")
        assert float(sp.N(law.gap.limit, 15)) == pytest.approx(float(1 - c), rel=1e-8)


@pytest.mark.parametrize(("k", "j", "odd", "rest"), [
    (HALF, HALF, False, 2), (HALF, HALF, True, 2), (3 * QUARTER, 3 * QUARTER, True, sp.Rational(5, 4)),
    (QUARTER, QUARTER, False, 1), (HALF, -QUARTER, True, 1),
])  # fmt: skip
def test_moments_of_powers_leave_correlation_one_as_the_connection_formula_says(k: sp.Expr, j: sp.Expr, odd: bool, rest: sp.Expr) -> None:
    d = sp.Symbol("d", positive=True)
    f, g = (sp.sign(x) ** int(odd) * sp.Abs(x) ** e for e in (k, j))
    near = power_near_one(f, g, d)
    assert near.coeff(REST) == d**rest
    with mp.workdps(30):
        left = [
            abs(
                moment(float(k), float(j), odd, 1 - mp.mpf(e)) - mp.mpf(str(sp.N(near.xreplace({REST: sp.S.Zero, d: sp.Float(e, 40)}), 30)))
            )
            for e in ("1e-4", "1e-6")
        ]
        assert float(mp.log(left[0] / left[1]) / mp.log(100)) == pytest.approx(float(rest), abs=0.1)


@pytest.mark.parametrize("f", [ODD, EVEN, sp.sign(x) * sp.sqrt(sp.sqrt(1 + x**2)) * sp.tanh(x) ** 2], ids=str)
def test_kernels_of_roots_far_out_leave_what_they_say_they_leave(f: sp.Expr) -> None:
    kernel = mf.E(f * f.xreplace({x: mf.y}), mf.q, mf.p, mf.q)
    expansion = kernel.asymptotic(2)
    order = float(expansion.remainder.as_base_exp()[1])
    left = []
    for q in (10**3, 10**5):
        at = {mf.q: sp.Integer(q), mf.p: sp.Rational(2, 5) * q}
        left.append(abs(float(sp.N((kernel - expansion.expression).xreplace(at), 15))))
    assert np.log(left[0] / left[1]) / np.log(100) == pytest.approx(-order, abs=0.1)


def test_a_logarithm_inside_a_root_is_followed_to_its_first_orders() -> None:
    """with M = E sqrt|u v| = sqrt(2/pi) (1 - h): sqrt(1 - h) = 1 - h/2 + O(h^2), h ~ e ln(1/e)/8"""
    kernel = mf.E(sp.sqrt(sp.Abs(x)) * sp.sqrt(sp.Abs(mf.y)), 1, 1 - GAP, 1)
    terms = small(sp.sqrt(sp.sqrt(sp.pi / 2) * kernel))
    assert sp.N(terms[sp.S.One, 1] + sp.Rational(1, 16)) == pytest.approx(0, abs=1e-15)
    assert list(terms)[:3] == [(0, 0), (1, 1), (1, 0)]


SLOW = [sp.sign(x) * ((1 + sp.Abs(x)) ** QUARTER - 1), sp.sign(x) * (1 - 1 / sp.sqrt(1 + sp.Abs(x)))]


@pytest.mark.parametrize(("f", "correction"), list(zip(SLOW, (sp.Rational(1, 6), QUARTER), strict=True)), ids=str)
def test_a_law_that_is_reached_slowly_says_how_slowly_and_agrees_at_that_rate(f: sp.Expr, correction: sp.Expr) -> None:
    law = stream(f)
    assert law.q.correction == law.apjn.correction == correction
    seen = law.check(sigma_w=1)
    assert seen.agrees, seen
    assert f"correction={correction}" in repr(law.q)
    l = sp.Symbol("l", positive=True)
    assert rf"\left(1 + O\left({mf.latex(l**-correction)}\right)\right)" in law.q.latex()
    assert rf" + O\left({mf.latex(l ** (law.apjn.stretch - correction))}\right)" in law.apjn.latex()
    wrong = replace(law.q, exponent=law.q.exponent * sp.Rational(101, 100))
    assert not replace(law, q=wrong).check(sigma_w=1).agrees


@pytest.mark.parametrize("derivative", [True, False])
def test_attention_without_a_norm_becomes_one_hot_and_doubles_what_it_sees(derivative: bool) -> None:
    """y -> 1 as q (q - p) grows: q' = (1 + a)(1 + w/2) q, q - p keeps only what the MLP adds, J' as q'"""
    attention = mf.Attention(n=4, sigma_Q=1, sigma_K=1, sigma_V=1, sigma_O=1, softmax_derivative=derivative)
    net = mf.pre_norm(norm=mf.Identity(), attention=attention, mlp=mf.MLP(mf.relu, 1, 1))
    law = mf.growth(net)
    assert [g.kind for g in (law.q, law.gap, law.apjn)] == ["exponential"] * 3
    run = mf.propagate(net, 60, 1.0, c=0.4)
    for g, series in ((law.q, np.log(run.q)), (law.gap, np.log(run.gap)), (law.apjn, run.log_apjn_forward)):
        assert np.diff(series)[-1] == pytest.approx(float(g.rate), rel=1e-9)


def test_exponents_that_stop_growing_as_c_goes_to_1_are_no_limit() -> None:
    """q e in the exponent grows while e ~ q^-1/2, and does not where e ~ 1/q"""
    repeat = Repeat({}, {}, ({}, {}, {}, {}), ((sp.S.One, -GAP),))
    check_fading(repeat, HALF)
    check_fading(repeat, None)
    with pytest.raises(Undetermined, match="stop growing"):
        check_fading(repeat, sp.S.One)


def test_attention_alone_behind_a_root_says_nothing_of_j() -> None:
    net = mf.Residual(mf.Activate(mf.Activation(EVEN)) >> mf.Attention(4, 1, 1, 1, 1))
    q, gap, apjn = laws(recursion(net).stages)
    assert (q.kind, gap.kind, apjn.kind) == ("power", "undetermined", "undetermined")
