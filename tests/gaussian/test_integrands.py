"""How an arbitrary integrand is made fit for float64: its stable form, its shape, its deltas, its parameters, and bounds that hold."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.mending import mended, mended_function
from meanfield.gaussian.singularities import shape_of
from meanfield.gaussian.stable import side
from meanfield.gaussian.standardised import standardised
from meanfield.numeric.lowering import Lowering
from meanfield.numeric.store import interpreted

x, q, p, delta = mf.x, mf.q, mf.p, mf.delta
H, tanh, exp, log, sqrt = sp.Heaviside, sp.tanh, sp.exp, sp.log, sp.sqrt
a = sp.Symbol("a", real=True)
R = sp.Rational

# -- stable forms ---------------------------------------------------------------------------------------------------------------------

STABLE = (
    log(1 + exp(x)),
    -log(1 + exp(-x)),
    1 / (1 + exp(-x)),
    exp(x) / (1 + exp(x)) ** 2,
    x * tanh(log(1 + exp(x))),
    (1 + tanh(x)) / 2,
    1 - tanh(x) ** 2,
    (x + sqrt(x**2 + 4)) / 2,
    (1 + x / sqrt(x**2 + 4)) / 2,
    x * (1 + sp.erf(x / sqrt(2))) / 2,
    log(sp.cosh(x)) + x,
    1 / sp.cosh(x) ** 2,
    x / sp.sinh(x),
    exp(2 * x) / (1 + exp(x) + exp(2 * x)),
    sqrt(1 + exp(2 * x)),
    log(exp(x) + exp(-x)),
    (x * tanh(exp(x))).diff(x),
    x * log(1 + 1 / (1 + exp(-x))),
    exp(x) * sp.erfc(x + 1),
    (exp(2 * x) * (1 - sp.erf(x - 2)) ** 2).diff(x),
    x * (sp.atan(x) + sp.pi / 2),
    sp.pi - 2 * sp.atan(3 * x - 1),
    2 * sp.sinh(x) / sp.cosh(x) - 2 * sp.sinh(x) ** 3 / sp.cosh(x) ** 3,
    (log(sp.cosh(x)) ** 2).diff(x, 3),
    tanh(x) ** 4 - 3 * tanh(x) ** 3 + 2 * tanh(x) ** 2,
    sp.sinh(x) ** 2 * x / sp.cosh(x) - x * sp.cosh(x),
    sp.sinh(3 * x) / sp.cosh(3 * x) - sp.sinh(x) / sp.cosh(x),
)


@pytest.mark.parametrize("f", STABLE, ids=str)
def test_stable_forms_keep_their_digits_far_out(f: sp.Expr) -> None:
    """against 800 digits of the expression as it was written; an exponential passes on the rounding of its argument"""
    exact = sp.lambdify(x, f, "mpmath")
    for sign in (1, -1):
        lowering = Lowering()
        lowered = lowering.body([side(f, sign)], {x: "x"}, {}, {"x"})
        source = f"import math\n{lowering.helpers()}\ndef f(x):\n    " + "\n    ".join([*lowered.lines, f"return {lowered.results[0]}"])
        value = interpreted(source).f
        for size in (1.0, 7.0, 36.0, 300.0, 700.0, 1e4):
            with mp.workdps(800 if size < 1e3 else 9000):
                true = exact(mp.mpf(sign * size))
                if not mp.mpf("1e-300") < abs(true) < mp.mpf("1e300"):
                    continue
                steepness = size**2 if f.has(sp.erf) else size
                assert abs(value(sign * size) - true) <= 4e-16 * (8 + steepness) * abs(true), (sign * size, value(sign * size))


# -- shapes -----------------------------------------------------------------------------------------------------------------------------


def test_kinks_jumps_voids_parity_and_growth() -> None:
    shape = shape_of(sp.Piecewise((x, sp.Abs(x) > 2), (0, True)))
    assert shape.kinks == (-2.0, 2.0)
    assert [j for j in shape.jumps if j] == [2.0, 2.0]
    assert (shape.voids, shape.parity) == (((-2.0, 2.0),), -1)
    assert shape_of(sp.Min(sp.Max(x, -1), 1)).parity == -1
    assert shape_of(sp.Max(x + sp.Abs(x - 9), 0)).kinks == (9.0,)  # the maximum never changes
    (kink,) = shape_of(sp.Max(x, tanh(x - 1))).kinks
    assert abs(kink - np.tanh(kink - 1)) < 1e-14
    assert shape_of(exp(x) * tanh(x)).growth == pytest.approx(1, rel=1e-6)
    assert shape_of(tanh(x)).smooth
    assert not shape_of(tanh(10 * (x - 3))).smooth
    assert shape_of(sp.sin(x**2) ** 2).right[:5] == (0.0, 0.0, 0.0, 0.0, 1.0)


def test_poles_at_a_slant_and_tails_that_fall_fast_are_no_noise() -> None:
    """those of tanh-GELU go to infinity at 30 degrees; its left tail falls by many orders of magnitude within a panel"""
    phi = mf.activations["gelu_tanh"]
    for f in (phi.expression, phi.expression**2):
        shape = shape_of(f)
        assert (shape.smooth, shape.noisy) == (True, False)
        assert 2.3 < shape.d < 2.75
    at = [("2", "-1.9"), ("50", "20"), ("1e9", "-9.5e8")]
    law = {"q": [float(v) for v, _ in at], "p": [float(c) for _, c in at]}
    values, bounds = mf.evaluate(phi.kernel(q, p), **law, error=True)
    size = mf.evaluate(phi.second_moment(q), q=law["q"])
    assert (bounds < 1e-13 * size).all()
    for value, scale, (v, c) in zip(values, size, at, strict=True):
        assert abs(value - float(mf.evaluate(phi.kernel(sp.Rational(v), sp.Rational(c)), digits=17))) < 1e-14 * scale


@pytest.mark.parametrize("end", [1, -1])
@pytest.mark.parametrize(
    "powers", [(300 * x - 1200, 200 * x - 400), (300 * x - 1200, -200 * x - 400), (900 * x - 2000, 800 * x - 900, -700 * x)], ids=str
)
def test_a_logarithm_of_steep_exponentials_that_overtake_each_other(powers: tuple[sp.Expr, ...], end: int) -> None:
    f = sp.log(2 + sp.Add(*map(sp.exp, powers)))
    value, exact = sp.lambdify(x, side(f, end), "math"), sp.lambdify(x, f, "mpmath")
    with mp.workdps(60):
        for v in np.linspace(0.01, 13, 200):
            assert value(end * v) == pytest.approx(float(exact(mp.mpf(float(end * v)))), rel=1e-14), v


def test_a_step_beside_an_exponential_that_overflows() -> None:
    f = exp(x) * sp.Heaviside(1 - x) + x * sp.Heaviside(x + 2)
    assert side(f, 1) == sp.Piecewise((x + exp(x), x < 1), (x, True))
    assert side(f, -1) == sp.Piecewise((exp(x), x < -2), (x + exp(x), True))
    wide = mf.evaluate(mf.Activation(exp(x) * sp.Heaviside(-x, 0) + sp.Max(x, 0)).mean(q), q=1e12)
    assert wide == pytest.approx(1e6 / np.sqrt(2 * np.pi) + 1e-6 / np.sqrt(2 * np.pi), rel=1e-14)


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (sp.cos(1 / x), "oscillates or varies too fast"),
        (exp(x**2 / 2) * sp.atan(x) ** 2, "finite only for q < 1"),
        (exp(x**4) * sp.atan(x) ** 2, "finite for no variance"),
        (sp.atan(x) * sp.Max(sp.sin(x**3), 0), "many roots"),
    ],
    ids=str,
)
def test_what_quadrature_cannot_do_is_refused(f: sp.Expr, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        mf.evaluate(mf.E(f, q), q=1.0)


def test_what_float64_has_at_no_variance_digits_may_have_at_small_ones() -> None:
    """E sin(exp u) at q = 0.01 is the sum of (q/2)^k f^(2k)(0)/k! to as many terms as fall"""
    wild = mf.Activation(sp.sin(exp(x)))
    for ask in (lambda: mf.evaluate(wild.mean(q), q=0.01), lambda: mf.propagate(mf.mlp(wild), 3, 0.01, sigma_w=1, sigma_b=0)):
        with pytest.raises(ValueError, match=r"float64 at any variance: it oscillates .* mf\.evaluate with digits= may have it where the"):
            ask()
    terms = [sp.diff(sp.sin(exp(x)), x, 2 * k).subs(x, 0) * sp.Rational(1, 200) ** k / sp.factorial(k) for k in range(9)]
    assert mf.evaluate(wild.mean(q), q=sp.Rational(1, 100), digits=12) == pytest.approx(float(sp.Add(*terms)), rel=1e-10)


def test_a_variance_too_wide_for_an_oscillation_is_refused() -> None:
    """a chirp has no period at any distance"""
    chirp = mf.E(tanh(sp.sin(x**2)), q)
    assert mf.evaluate(chirp, q=1.0) == pytest.approx(float(mf.evaluate(chirp, q=1, digits=15)), rel=1e-13)
    with pytest.raises(ArithmeticError, match="cannot be resolved"):
        mf.evaluate(chirp, q=1e9)


def test_slow_times_periodic_under_wide_gaussians() -> None:
    """E x^2 g(x)^2 and the gap of x g(x), g of period 2 pi: far out q times the mean of g^2 and gaps as of g, to order delta/q"""
    g, v = sp.exp(sp.sin(x)), 1e12
    wave, alone = mf.Activation(x * g), mf.Activation(g)
    apart = np.array([1e-9, 0.3, 7.0, 200.0])
    for f, phi in ((g, wave), (sp.Abs(sp.sin(x)), mf.Activation(x * sp.Abs(sp.sin(x))))):
        assert mf.evaluate(phi.second_moment(q), q=v) == pytest.approx(v * mf.evaluate(mf.E(f**2, q), q=v), rel=1e-11)
    near = mf.evaluate(wave.gap(q, mf.delta), q=v, delta=apart)
    assert near == pytest.approx(v * mf.evaluate(alone.gap(q, mf.delta), q=v, delta=apart), rel=1e-9)


def test_an_endless_oscillation_under_any_variance() -> None:
    r"""\int tanh(x) sin(x) dx = pi/sinh(pi/2) in Abel's sense; its square is 1/2 - (1 - tanh^2 - ...)/2 far out"""
    wave = mf.Activation(sp.sin(x) * tanh(x))
    wide = np.array([1e9, 1e12])
    assert mf.evaluate(wave.mean(q), q=wide) == pytest.approx(np.sqrt(np.pi / 2 / wide) / np.sinh(np.pi / 2), rel=2e-9)
    narrow = mf.evaluate(wave.mean(q), q=[2.0, 1.4e4])
    assert narrow == pytest.approx([float(mf.evaluate(wave.mean(v), digits=18)) for v in (2, 14000)], rel=1e-12)
    # both sides of where panels for the function itself end
    assert mf.evaluate(mf.E(sp.Max(x, sp.sin(x)) ** 2, q), q=[1e6, 1e12]) == pytest.approx([5e5 + 0.25, 5e11 + 0.25], rel=1e-11)


def test_kernels_of_an_endless_oscillation() -> None:
    """E (tanh u + sin u)(tanh v + sin v): the parts are known, and the mixed one is of order e^{-delta}"""
    delta = np.array([45.0, 100.0, 1e3, 1e8, 1.9e8])
    f = mf.Activation(sp.sin(x) + tanh(x))
    v = 1e8
    expected = mf.evaluate(mf.tanh.kernel(q, p), q=v, p=v - delta) + (np.exp(-delta) - np.exp(delta - 2 * v)) / 2
    size = mf.evaluate(f.second_moment(q), q=v)
    assert mf.evaluate(f.kernel(q, p), q=v, p=v - delta) == pytest.approx(expected, abs=1e-12 * size)
    spread = size - expected[3:]
    assert mf.evaluate(f.gap(q, mf.delta), q=v, delta=delta[3:]) == pytest.approx(spread, rel=1e-11)


@pytest.mark.parametrize(("q_", "p_"), [(1.0, -0.5), (1.0, 0.3), (1.0, 0.9)])
def test_a_narrow_bump_far_out(q_: float, p_: float) -> None:
    bump = mf.Activation(exp(-100 * (x - 9) ** 2) * tanh(x))
    assert mf.evaluate(bump.kernel(q, p), q=q_, p=p_) == pytest.approx(
        float(mf.evaluate(bump.kernel(q, p), q=q_, p=p_, digits=15)), rel=1e-12, abs=0
    )
    assert mf.evaluate(bump.second_moment(q), q=q_) == pytest.approx(float(mf.evaluate(bump.second_moment(1), digits=15)), rel=1e-12, abs=0)


@pytest.mark.parametrize("step", [sp.erf(x), sp.tanh(x), sp.erf(-2 * x + 1)], ids=str)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_what_powers_of_a_step_lack_of_1_keeps_its_digits(step: sp.Expr, n: int) -> None:
    """1 - s^n beside an exponential that grows: 1 - s is below the rounding of 1 where that is large"""
    mean = mf.E((1 - step**n) * exp(step.args[0]), q)
    for v in (1e-12, 0.5, 100.0, 1e6):
        found, bound = mf.evaluate(mean, q=v, error=True)
        true = float(mf.evaluate(mean, q=v, digits=17))
        assert abs(found - true) <= 1e-13 * true
        assert bound <= 1e-12 * true


@pytest.mark.parametrize("f", [x * (sp.atan(x) + sp.pi / 2), 1 - exp(-exp(x)), exp(-exp(-x))], ids=str)
def test_what_cancels_or_is_infinite_times_0_far_out(f: sp.Expr) -> None:
    """atan(x) + pi/2 and e^x exp(-e^x), which are -1/x and 0 there: moments and gaps for all variances, beside digits and their limits"""
    phi = mf.Activation(f)
    for e, at in ((phi.second_moment(q), {}), (phi.derivative.second_moment(q), {}), (phi.gap(q, mf.delta), {"delta": 1e-20})):
        found, bounds = mf.evaluate(e, q=[1e4, 1e8], **at, error=True)
        true = [float(mf.evaluate(e, q=v, **at, digits=16)) for v in (10**4, 10**8)]
        assert found == pytest.approx(true, rel=1e-13, abs=0)
        assert (bounds <= 1e-12 * found).all()
    wide = np.array([1e5, 1e6, 1e8, 1e12])
    for ratio in (1e-5, 0.1, 1.5, 1.999):
        gaps, bounds = mf.evaluate(phi.gap(q, mf.delta), q=wide, delta=ratio * wide, error=True)
        assert (bounds <= 1e-11 * gaps).all()
        far = mf.Activation(sp.pi * mf.relu.expression) if f.has(sp.atan) else mf.step
        assert gaps[-1] == pytest.approx(mf.evaluate(far.gap(q, mf.delta), q=1e12, delta=ratio * 1e12), rel=1e-3)


def test_an_integrand_whose_terms_cancel_takes_digits() -> None:
    faint = mf.Activation(tanh(x - 8) + tanh(x + 8))
    for v in (1e-12, 0.2):
        exact = float(mf.evaluate(faint.kernel(q, p), q=v, p=v / 2, digits=15))
        assert mf.evaluate(faint.kernel(q, p), q=v, p=v / 2) == pytest.approx(exact, rel=1e-11, abs=0)


def test_what_is_too_large_for_a_double_says_so() -> None:
    with pytest.raises(OverflowError, match="no normal double"):
        mf.evaluate(mf.E(exp(x) * tanh(x), q), q=1e6)
    assert mf.evaluate(mf.E(exp(x) * tanh(x), q), q=1e6, log=True) == pytest.approx(5e5, rel=1e-12)


# -- values at single points ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "same"),
    [
        (sp.sign(x) ** 2 + sp.Abs(x - 1), 1 + sp.Abs(x - 1)),
        (sp.sign(x) ** 2 * tanh(x - 3) + sp.Max(x - 2, 0), tanh(x - 3) + sp.Max(x - 2, 0)),
        ((H(x) + H(-x)) * tanh(x + 1), tanh(x + 1)),
        (sp.Piecewise((5, sp.Eq(x, 1)), (tanh(x), True)), tanh(x)),
        (sp.Piecewise((tanh(x), sp.Ne(x, 0)), (-3, True)), tanh(x)),
        (sp.sign(tanh(x - 1) - x / 3 + 1) ** 2 * tanh(x - 3), tanh(x - 3)),  # roots without a closed form
    ],
    ids=str,
)
def test_values_at_single_points_do_not_count(f: sp.Expr, same: sp.Expr) -> None:
    """in float64 and in digits, with the mean next to the point, upon it, and far from it on the scale of the Gaussian"""
    m = sp.Symbol("m", real=True)
    for v in (1e-12, 0.01, 1.0, 1e8):
        for mean in (0.0, 1.0):
            given, meant = (mf.E(g, q, mean=m) for g in (f, same))
            true = mf.evaluate(meant, q=v, m=mean, digits=17)
            assert abs(mf.evaluate(given, q=v, m=mean, digits=17) - true) <= mp.mpf("1e-16") * abs(true)
            assert abs(mf.evaluate(given, q=v, m=mean) - true) <= 2e-13 * max(abs(true), 0.1)
    (kernel, meant) = (mf.Activation(g).kernel(q, p) for g in (f, same))
    for c in (-1.0, 0.0, 0.7, 1.0):
        assert mf.evaluate(kernel, q=1.0, p=c) == pytest.approx(mf.evaluate(meant, q=1.0, p=c), rel=1e-13)


def test_a_piece_that_is_everything_closes() -> None:
    m = sp.Symbol("m", real=True)
    assert mf.E(sp.sign(x) ** 2, q, mean=m).doit() == 1
    assert mf.E(sp.Piecewise((7, sp.Eq(x, 2)), (x**2, True)), q).doit() == q
    assert mf.E(sp.Piecewise((1, sp.Eq(sp.Max(x, 0), 0)), (0, True)), q).doit() == sp.Rational(1, 2)


def test_correlation_one_where_the_closed_form_is_a_quotient_of_zeros() -> None:
    phi = mf.Activation(sp.Piecewise((sp.Max(x, -1), x < 0), (x**2, x < 2), (4 * x - 4, True)))
    for v in (1e-12, 1.0, 1e12):
        for sign in (1, -1):
            true = mf.evaluate(phi.kernel(q, p), q=v, p=sign * v, digits=18)
            assert mf.evaluate(phi.kernel(q, p), q=v, p=sign * v) == pytest.approx(float(true), rel=1e-12)
    assert abs(phi.kernel(1, 1).evalf(20) / phi.second_moment(1).evalf(20) - 1) < 1e-18


@pytest.mark.parametrize(
    "f", [tanh(x) ** 2 / x, sp.sin(x) / x, sp.Piecewise((1, sp.Eq(x, 0)), (x / sp.sinh(x), True)), sp.sin(x) / x * tanh(x + 1)], ids=str
)
def test_quotients_of_zeros(f: sp.Expr) -> None:
    phi = mf.Activation(f)
    for e, at in (
        (phi.second_moment(q), {"q": 1e-12}),
        (phi.second_moment(q), {"q": 1.0}),
        (phi.kernel(q, p), {"q": 1.0, "p": 0.5}),
        (phi.derivative.second_moment(q), {"q": 1.0}),
    ):
        assert mf.evaluate(e, **at) == pytest.approx(float(mf.evaluate(e, **at, digits=17)), rel=1e-13), (e, at)


@pytest.mark.parametrize("f", [log(sp.cosh(x)), x - tanh(x), 1 / sp.cosh(x) - 1, sp.sin(x) / x - 1, (exp(x - 1) - 1) / (x - 1)], ids=str)
def test_digits_next_to_zeros_and_quotients_of_zeros(f: sp.Expr) -> None:
    exact, value = sp.lambdify(x, f, "mpmath"), mended_function(f)
    points = np.array([s * a for a in (1e-9, 1e-4, 0.03, 0.4, 0.9, 1.0 + 1e-9) for s in (-1.0, 1.0)])
    with mp.workdps(50):
        true = np.array([float(exact(mp.mpf(z))) for z in points.tolist()])
    assert value(points) == pytest.approx(true, rel=4e-15)


@pytest.mark.parametrize(
    ("f", "variance"),
    [
        (log(sp.cosh(x / 1000)), 1.0),
        (log(sp.cosh(x / 1000)), 1e12),
        (log(sp.cosh(10**6 * x)), 1e-12),
        (log(1 + exp(10**6 * x)) + tanh(x), 1e-12),
        (10**6 * x / (1 + exp(-(10**6) * x)) + tanh(x), 1e-11),
    ],
    ids=str,
)
def test_numbers_that_multiply_x(f: sp.Expr, variance: float) -> None:
    """digits next to 0 and the reach of Taylor series, on whatever scale of x"""
    value = sp.lambdify(x, f, "mpmath")
    with mp.workdps(50):
        s, splits = mp.sqrt(variance), [mp.mpf(c) for c in (0, 1e-5, 1e-3, 0.03, 0.3, 1, 4, 13)]
        square = mp.quad(lambda z: (value(s * z) ** 2 + value(-s * z) ** 2) * mp.npdf(z), splits)
    found = mf.evaluate(mf.Activation(f).second_moment(q), q=variance)
    assert abs(found - square) <= 1e-13 * square


@pytest.mark.parametrize("variance", [1e4, 1e12])
def test_a_growing_factor_that_a_tail_outweighs(variance: float) -> None:
    f = exp(x) * sp.erfc(x + 1)
    phi, value = mf.Activation(f), sp.lambdify(x, f, "mpmath")
    with mp.workdps(30):
        law = mp.sqrt(2 * mp.pi * variance)
        square = mp.quad(lambda z: value(z) ** 2 * mp.exp(-(z**2) / (2 * variance)) / law, [-80, -30, -10, -4, -1, 0, 1, 4, 10])
        slope = mp.quad(lambda z: mp.diff(value, z) ** 2 * mp.exp(-(z**2) / (2 * variance)) / law, [-80, -30, -10, -4, -1, 0, 1, 4, 10])
    assert mf.evaluate(phi.second_moment(q), q=variance) == pytest.approx(float(square), rel=1e-13)
    apart, near = 0.7 * variance, 1e-20 * variance
    kernel, gap = mf.evaluate(phi.kernel(q, p), q=variance, p=variance - apart), mf.evaluate(phi.gap(q, delta), q=variance, delta=apart)
    assert kernel + gap == pytest.approx(float(square), rel=1e-13)
    assert mf.evaluate(phi.gap(q, delta), q=variance, delta=near) == pytest.approx(near * float(slope), rel=1e-7)


def test_a_dead_zone_many_deviations_wide() -> None:
    """what a function does beyond is not lost beside the 0 that it is around 0"""
    square = mf.Activation(sp.Max(tanh(x - 1), 0)).second_moment(q)
    assert mf.evaluate(square, q=1e-3) == pytest.approx(float(mf.evaluate(square, q=R(1, 1000), digits=15)), rel=1e-12)


def test_poles_are_not_mended() -> None:
    for f in (1 / x, tanh(x + 1) / x, log(x**2) * tanh(x + 1)):
        assert (mended(f, 1), mended(f, -1)) == (side(f, 1), side(f, -1))


@pytest.mark.parametrize(
    ("f", "given"),
    [
        ((exp(x - 1) - 1) / (x - 1), {}),
        ((exp(x - a) - 1) / (x - a), {"a": 0.75}),
        ((x - 2) / sp.sinh(3 * (x - 2)), {}),
    ],
    ids=str,
)
def test_quotients_of_zeros_anywhere(f: sp.Expr, given: dict[str, float]) -> None:
    value = sp.lambdify(x, f.subs(a, sp.Rational(3, 4)), "mpmath")
    for s in (1e-3, 2.0):
        true = mp.quad(lambda z, s=s: value(s * z + mp.mpf("1e-12")) ** 2 * mp.npdf(z), [-12, -3, -1.01, 0.0113, 1.01, 3, 12])
        assert mf.evaluate(mf.Activation(f).second_moment(q), q=s * s, **given) == pytest.approx(float(true), rel=1e-11)


@pytest.mark.parametrize(
    ("f", "named"),
    [
        (sp.tan(x), "pole at x = 1.57"),
        (sp.gamma(x), "pole at x = 0"),
        (1 / sp.sin(x - 1), "pole at x = 1"),
        (1 / sp.sqrt(sp.Abs(x)), "not square-integrable at x = 0"),
        (sp.gamma(1 + x**2), "faster than"),
        (x * (1 - sp.exp(-sp.exp(1 / x**2))), "next to x = 0 an exponential of an exponential"),
        (sp.exp(-sp.cosh(sp.exp(sp.exp(1 / (x - 2) ** 2)))), "next to x = 2 an exponential of an exponential"),
    ],
    ids=str,
)
def test_the_reason_why_a_square_has_no_mean(f: sp.Expr, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        mf.Activation(f)


@pytest.mark.parametrize("f", [sp.log(1 + sp.sqrt(sp.Abs(x))), sp.cbrt(sp.Max(x, 0)) + x], ids=str)
def test_a_steep_root_says_that_its_slope_has_no_square(f: sp.Expr) -> None:
    with pytest.raises(ValueError, match=r"derivative is no activation: .*not square-integrable at x = 0"):
        _ = mf.Activation(f).derivative


def test_slope_of_a_root_of_a_rectifier() -> None:
    """9/16 E z^(-1/2) over z > 0, and 0 below"""
    truth = mp.mpf(9) / 32 * 2 ** mp.mpf(-0.25) * mp.gamma(0.25) / mp.sqrt(mp.pi)
    slope = mf.Activation(sp.Max(x, 0) ** sp.Rational(3, 4)).derivative
    assert slope.expression.subs(x, -1) == 0
    assert mf.evaluate(slope.second_moment(q), q=1.0) == pytest.approx(float(truth), rel=1e-12)


def test_growth_that_only_small_variances_bear_says_which() -> None:
    phi = mf.Activation(sp.exp(x**2 / 5) * sp.tanh(x))
    with pytest.raises(ValueError, match=r"finite only for q < 5/4$"):
        mf.evaluate(phi.second_moment(q), q=1.25)
    assert mf.gain(phi, sp.Rational(6, 5)).second_moment.is_finite is not False
    with pytest.raises(ValueError, match="infinite at q = 5/4"):
        mf.gain(phi, sp.Rational(5, 4))


# -- roots and logarithms ---------------------------------------------------------------------------------------------------------------


def test_roots_and_logarithms_at_a_point() -> None:
    """E |u|^a = (2 q)^(a/2) gamma((a + 1)/2)/sqrt(pi), and its derivatives in a at 0"""
    at = np.array([1e-12, 1e-4, 1.0, 1e6, 1e12])

    def power(k: float) -> Any:
        return (2 * at) ** (k / 2) * float(mp.gamma((k + 1) / 2) / mp.sqrt(mp.pi))

    log_mean = (np.log(2 * at) + float(mp.digamma(0.5))) / 2
    for f, true in (
        (sp.Max(x, 0) ** sp.Rational(5, 2), power(2.5) / 2),
        (sp.Abs(x) ** sp.Rational(1, 3), power(1 / 3)),
        (sp.Abs(x) ** sp.Rational(-1, 4), power(-1 / 4)),
        (log(sp.Abs(x)), log_mean),
        (log(x**2) ** 2 / 4, log_mean**2 + float(mp.psi(1, 0.5)) / 4),
    ):
        np.testing.assert_allclose(mf.evaluate(mf.E(f, q), q=at), true, rtol=2e-13 if f.has(log) else 2e-14)


def test_a_taylor_series_knows_where_its_terms_end() -> None:
    """erf(x)^6 is entire, and its terms of degree 22 and more count long before it varies"""
    e = mf.Activation(sp.erf(x) ** 3).second_moment(q)
    at = [1e-4, 1e-3, 1e-2, 3e-2]
    np.testing.assert_allclose(mf.evaluate(e, q=at), [float(mf.evaluate(e, q=v, digits=20)) for v in at], rtol=1e-13)


# -- functions that are faint where the density is not -----------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [1 / (1 + exp(30 - 3 * x)), tanh(x - 8), log(1 + exp(x - 20)), sp.Max(x - 7, 0) * tanh(x)], ids=str)
def test_what_counts_may_be_many_deviations_away(f: sp.Expr) -> None:
    """shifted gates: the second moment is that of their growth, far out"""
    phi = mf.Activation(f)
    for e, points in (
        (phi.mean(q), [{"q": 1.0}, {"q": 4.0}]),
        (phi.second_moment(q), [{"q": 1.0}, {"q": 25.0}]),
        (phi.kernel(q, p), [{"q": 1.0, "p": c} for c in (-0.5, 0.5, 0.99)]),
        (phi.gap(q, delta), [{"q": 1.0, "delta": 1e-8}, {"q": 1.0, "delta": 0.5}]),
    ):
        for at in points:
            assert mf.evaluate(e, **at) == pytest.approx(float(mf.evaluate(e, **at, digits=17)), rel=3e-12), (e, at)


# -- parameters -------------------------------------------------------------------------------------------------------------------------


def test_parameters_that_are_no_scale_take_arrays() -> None:
    """their kinks and strips are found for each value; the same numbers as with the value put in"""
    a, b = sp.symbols("a b", positive=True)
    slopes, places = np.array([0.3, 2.0, 0.3]), np.array([0.5, 0.5, 3.0])
    for f in (sp.Max(x - b, 0) * tanh(a * x) + b, tanh(a * (x - b)), sp.Piecewise((x, x > b), (a * (exp(x - b) - 1) + b, True))):
        phi = mf.Activation(f)
        found = mf.evaluate(phi.kernel(q, p), q=2.0, p=0.7, a=slopes, b=places)
        gaps = mf.evaluate(phi.gap(q, delta), q=2.0, delta=1e-9, a=slopes, b=places)
        for i, (s, t) in enumerate(zip(slopes, places, strict=True)):
            bound = mf.Activation(f.subs({a: sp.Rational(str(s)), b: sp.Rational(str(t))}))
            assert found[i] == pytest.approx(mf.evaluate(bound.kernel(q, p), q=2.0, p=0.7), rel=1e-13)
            assert gaps[i] == pytest.approx(mf.evaluate(bound.gap(q, delta), q=2.0, delta=1e-9), rel=1e-12)


def test_a_scale_leaves_kinks_alone() -> None:
    """f(x) = c g(a x) everywhere: max(a x + 3, 0) is not a x + 3"""
    b = sp.Symbol("b", positive=True)
    for f in (sp.Max(b * x + 3, 0), x * sp.Min(sp.Max(b * x + 3, 0), 6), sp.Abs(b * x - 5), sqrt(x**2 + b**2), log(1 + exp(b * x)) / b):
        c, g, scale = standardised(f)
        assert scale in (b, 1 / b)
        assert g.free_symbols == {x}
        rest = f - c * g.xreplace({x: scale * x})
        assert all(abs(rest.subs({b: R(7, 4), x: R(k, 3)}).evalf()) < 1e-14 for k in range(-29, 30, 2))
    second = mf.Activation(x * sp.Min(sp.Max(b * x + 3, 0), 6) / 6).second_moment(q)
    assert mf.evaluate(second, q=0.7, b=1.5) == pytest.approx(float(second.subs({q: R(7, 10), b: R(3, 2)})), rel=1e-13)


def test_a_parameter_may_bear_any_name() -> None:
    for name in ("mu", "shape", "w", "i", "total", "lambda"):
        s = sp.Symbol(name, positive=True)
        phi = mf.Activation(tanh(s * x) + s * sp.Abs(x))
        value = mf.evaluate(phi.second_moment(q), q=1.3, **{name: 0.4})
        bound = mf.Activation(phi.expression.subs(s, sp.Rational(2, 5)))
        assert value == pytest.approx(mf.evaluate(bound.second_moment(q), q=1.3), rel=1e-14)
    assert mf.evaluate(mf.Activation(sp.Abs(x) * tanh(x) + H(x - 1)).hermite(2, q), q=1.3) == pytest.approx(0.1684174365065234, rel=1e-12)


# -- bounds -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [tanh(x), sp.Max(x, 0) * tanh(x), H(x - 1) * tanh(x), x * tanh(exp(x)), log(1 + x**2)], ids=str)
def test_error_bounds_hold_and_are_small(f: sp.Expr) -> None:
    phi = mf.Activation(f)
    points = [(0.01, 0.005), (1.0, -0.75), (50.0, 49.0), (1e4, 3e3), (1.0, 1.0), (1.0, -1.0)]
    variances, covariances = np.array(points).T
    values, bounds = mf.evaluate(phi.kernel(q, p), q=variances, p=covariances, error=True)
    sizes = mf.evaluate(phi.second_moment(q), q=variances)
    for (v, c), value, bound, size in zip(points, values, bounds, sizes, strict=True):
        true = mf.evaluate(phi.kernel(q, p), q=sp.Rational(v), p=sp.Rational(c), digits=22)
        assert abs(mp.mpf(float(value)) - true) <= bound <= 2e-14 * size


@pytest.mark.parametrize(
    ("f", "loose"),
    [
        (tanh(x - 4) + tanh(x + 4), 1e-11),
        (sp.atan(x - 20) + sp.atan(x + 20), 1e-11),
        (1 / (1 + exp(-x - 6)) - 1 / (1 + exp(6 - x)) - 1 + sp.Max(x, 0) / 10**6, 1e-8),
        (sp.atan(x) ** 3 - sp.atan(x**3), 2e-12),
        (log(sp.cosh(x)) / (1 + x**2), 2e-13),
        (x * tanh(log(1 + exp(x))), 1e-13),
    ],
    ids=str,
)
def test_error_bounds_count_the_rounding_of_the_integrand(f: sp.Expr, loose: float) -> None:
    """also where its terms cancel; where they do not, the bound stays near rounding"""
    phi = mf.Activation(f)
    for e, points in (
        (phi.mean(q), [{"q": 1e-12}, {"q": 1.0}] if phi.mean(q) != 0 else []),
        (phi.second_moment(q), [{"q": 1e-6}, {"q": 1.0}, {"q": 1e6}]),
        (phi.kernel(q, p), [{"q": 1e-4, "p": -5e-5}, {"q": 1.0, "p": 0.9}]),
        (phi.gap(q, delta), [{"q": 1.0, "delta": 1e-8}, {"q": 1.0, "delta": 0.5}]),
    ):
        for at in points:
            value, bound = mf.evaluate(e, **at, error=True)
            true = mf.evaluate(e, **at, digits=22)
            assert abs(mp.mpf(value) - true) <= bound <= loose * abs(true), (e, at)


def test_error_bounds_of_opposite_inputs() -> None:
    """p = -q exactly, in every case of an endless oscillation: the sum q + p that is 0 has no relative error"""
    phi, v = mf.Activation(tanh(x) + sp.sin(3 * x) / 10), np.array([3.45e-4, 3000.0])
    value, bound = mf.evaluate(phi.kernel(q, p), q=v, p=-v, error=True)
    second = mf.evaluate(phi.second_moment(q), q=v)
    assert (bound < 1e-13 * second).all()
    assert (np.abs(value + second) <= 2 * bound).all()


def test_a_maximum_counts_by_what_it_is() -> None:
    """the root of one that is 0 on a side has a gap, and what loses, however large, no rounding"""
    root, pieces = mf.Activation(sp.sqrt(sp.Max(x, 0))), mf.Activation(sp.Piecewise((sp.sqrt(x), x > 0), (0, True)))
    values = [mf.evaluate(phi.gap(q, delta), q=25.0, delta=10.0) for phi in (root, pieces)]
    assert values[0] == pytest.approx(values[1], rel=1e-13)
    for phi in (root, mf.Activation(sp.Min(exp(x), 1))):
        value, bound = mf.evaluate(phi.kernel(q, p), q=25.0, p=10.0, error=True)
        assert bound < 1e-13 * value


def test_many_cancelled_points_go_to_quadrature() -> None:
    """the arc-cosine kernel near correlation -1, to the size it has there"""
    eps = np.geomspace(1e-12, 1e-2, 60)
    values = mf.evaluate(mf.relu.kernel(q, p), q=1.0, p=eps - 1)
    for e, value in zip(eps, values, strict=True):
        true = mf.evaluate(mf.relu.kernel(q, p), q=1, p=sp.Rational(float(e - 1)), digits=20)
        assert abs(mp.mpf(float(value)) - true) <= 1e-12 * true


# -- deltas -----------------------------------------------------------------------------------------------------------------------------


def test_derivatives_of_jumps() -> None:
    """against differences of the kernel itself"""
    for f, order, step in (
        (sp.Piecewise((x, x > 1), (tanh(x), True)), 1, 1e-4),
        (sp.sign(x - 1) * tanh(x), 2, 1e-3),
        (H(2 * x - 1) * tanh(x), 1, 1e-4),
    ):
        kernel = mf.Activation(f).kernel(q, p)
        grid = np.array([-2, -1, 0, 1, 2]) * step + 0.3
        v = mf.evaluate(kernel, q=1.0, p=grid)
        weights = {1: np.array([1, -8, 0, 8, -1]) / 12, 2: np.array([-1, 16, -30, 16, -1]) / 12}[order]
        rough = weights @ v / step**order
        assert mf.evaluate(kernel.diff(p, order), q=1.0, p=0.3) == pytest.approx(rough, rel=1e-6)


def test_expectations_of_deltas() -> None:
    root = sqrt(2 * sp.pi * q)
    assert sp.simplify(mf.E(sp.DiracDelta(x), q).doit() - 1 / root) == 0
    assert sp.simplify(mf.E(x * sp.DiracDelta(x, 1), q).doit() + 1 / root) == 0
    assert sp.simplify(mf.E(sp.DiracDelta(x, 2), q).doit() + 1 / (q * root)) == 0
    assert mf.evaluate(mf.E(tanh(x) * sp.DiracDelta(2 * x - 2), q), q=1.0) == pytest.approx(np.tanh(1) * np.exp(-0.5) / np.sqrt(8 * np.pi))
    assert mf.E(sp.DiracDelta(x - 1) ** 2 * tanh(x), q).doit() is sp.oo
    both = mf.E(sp.DiracDelta(x**2 - 1) * exp(x), q).doit()
    assert mf.evaluate(both, q=0.7) == pytest.approx(np.cosh(1) * np.exp(-1 / 1.4) / np.sqrt(1.4 * np.pi), rel=1e-14)
    with pytest.raises(ValueError, match="infinitely many"):
        mf.E(sp.DiracDelta(sp.sin(x)) * exp(x), q).doit()
    with pytest.raises(ValueError, match="both variables at once"):
        mf.E(sp.DiracDelta(x - mf.y) * tanh(x), q, p).doit()


def test_the_law_may_not_depend_on_what_it_binds() -> None:
    for call in (lambda: mf.E(x, x), lambda: mf.E(x, q, mean=x), lambda: mf.tanh.mean(q, mean=x), lambda: mf.E(x * mf.y, q, mf.y)):
        with pytest.raises(ValueError, match="are bound by the expectation"):
            call()
