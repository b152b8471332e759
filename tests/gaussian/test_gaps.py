"""Gaps E f(u)^2 - E f(u) f(v), closed and not, against integrals that know neither the closed form nor the rules in float64."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian import closed
from meanfield.gaussian.forms import gap_of, shifted
from meanfield.gaussian.pair_expectation import Gap
from meanfield.gaussian.precise import gap_of_pair
from meanfield.gaussian.smoothness import steps_only

x, q, p, delta = mf.x, mf.q, mf.p, mf.delta
R, exp, erf, tanh, relu = sp.Rational, sp.exp, sp.erf, sp.tanh, sp.Max(mf.x, 0)


def integral(f: sp.Expr, variance: float, gap: float) -> mp.mpf:
    return gap_of_pair(f, R(variance), R(gap), 60)


#: kernels with angles of triangles whose hypotenuse depends on p: the angle is not that between u and v
TRIANGLES = (x * erf(x) * exp(-(x**2)), erf(x) * exp(-(x**2)), (erf(2 * x) + x) * exp(-(x**2) / 3), x * relu * exp(-(x**2)))


@pytest.mark.parametrize("f", TRIANGLES, ids=str)
def test_closed_gaps_are_their_integral(f: sp.Expr) -> None:
    gap = mf.Activation(f).gap(q, delta)
    for variance, apart in ((0.7, 0.7e-30), (1e-8, 1e-12), (3.0, 5.0)):
        truth = integral(f, variance, apart)
        assert abs(mf.evaluate(gap, q=variance, delta=apart) - truth) <= 1e-13 * truth


def test_a_step_times_a_gaussian_has_no_closed_gap() -> None:
    """its angle and a root of delta leave a difference of order delta"""
    assert closed.cross(TRIANGLES[-1], TRIANGLES[-1]) is not None
    assert closed.gap(TRIANGLES[-1]) is None


#: kinks, jumps and roots: f, variances and gaps
ROUGH = (
    (tanh(relu), ((1e5, 1e-3), (1e5, 1e-25))),  # u and v as far apart as f varies
    (1 / (1 + exp(-sp.Abs(x))), ((1e-12, 3e-13), (1.0, 0.9))),  # far below its constant
    (sp.Heaviside(x - R(1, 2)) * tanh(x), ((1.0, 1e-22), (50.0, 0.04))),
    (sp.atan(sp.Abs(x - 3)), ((1.0, 1e-3), (7.0, 13.0))),
)


@pytest.mark.parametrize(("f", "points"), ROUGH, ids=str)
def test_gaps_of_functions_with_kinks(f: sp.Expr, points: tuple[tuple[float, float], ...]) -> None:
    gap = mf.Activation(f).gap(q, delta)
    for variance, apart in points:
        truth = integral(f, variance, apart)
        assert abs(mf.evaluate(gap, q=variance, delta=apart) - truth) <= 1e-12 * truth, (variance, apart)


#: a root of |x| beside a constant: f, the square of c in f(x) = f(0) + c sqrt|x| + ..., variances and gaps over them
ROOTS = (
    (exp(-sp.sqrt(sp.Abs(x))), 1.0, ((1e-12, 1e-10), (1.0, 1e-28), (1e12, 1e-20))),
    (1 / (3 + sp.sqrt(sp.Abs(x))), 1 / 81, ((1.0, 1e-15),)),
)


@pytest.mark.parametrize(("f", "leading", "points"), ROOTS, ids=str)
def test_gaps_next_to_a_root_of_a_function_that_is_not_0_there(f: sp.Expr, leading: float, points: tuple[tuple[float, float], ...]) -> None:
    r"""against an integral, and to 1e-290: gap/delta, as E f'^2 diverges, is c^2/(4 \sqrt{2 \pi q}) ln(1/delta) and a constant"""
    gap = mf.Activation(f).gap(q, delta)
    for variance, ratio in points:
        truth = integral(f, variance, ratio * variance)
        assert abs(mf.evaluate(gap, q=variance, delta=ratio * variance) - truth) <= 1e-12 * truth, (variance, ratio)
    near, far = (mf.evaluate(gap, q=1.0, delta=apart) / apart for apart in (1e-290, 1e-60))
    assert near - far == pytest.approx(leading / (4 * math.sqrt(2 * math.pi)) * 230 * math.log(10), rel=1e-9)


STEPS = {
    2 - 3 * sp.Heaviside(x - 1) + sp.sign(x): True,
    sp.Piecewise((0, x < -1), (1, x < 2), (3, True)): True,
    sp.Piecewise((3 * x**2, x > 0), (-3 * x**2, True)): False,
    (1 - sp.Heaviside(x)) * exp(x) + sp.Heaviside(x): False,
    sp.Abs(x): False,
    sp.S(2): True,
}


@pytest.mark.parametrize(("f", "known"), STEPS.items(), ids=map(str, STEPS))
def test_steps(f: sp.Expr, known: bool) -> None:
    assert steps_only(f) == known


@pytest.mark.parametrize(
    "f", [x * sp.Heaviside(x) + (exp(x) - 1) * (1 - sp.Heaviside(x)), sp.Piecewise((tanh(x) ** 2, x > 0), (-(tanh(x) ** 2), True))]
)
def test_slopes_that_cancel_over_their_pieces(f: sp.Expr) -> None:
    for variance, apart in ((0.3, 0.03), (0.01, 0.001), (0.3, 0.3)):
        value, bound = mf.evaluate(Gap(f, q, delta), q=variance, delta=apart, error=True)
        truth = integral(f, variance, apart)
        assert abs(value - truth) <= bound <= 1e-12 * truth


def test_gaps_of_an_endless_oscillation() -> None:
    r"""delta E f'(u)^2 - delta^2/2 E f''(u)^2, across the rules for what is near and what is not; f is even; E f'^2, E f''^2 \simeq 1/2"""
    f, variance = sp.sin(x) * tanh(x), 1e6
    apart = np.array([1e-24, 1e-6, 8e-3, 1.2e-2, 1.0, 2 * variance - 1.0])
    found = mf.evaluate(mf.Activation(f).gap(q, delta), q=variance, delta=apart)
    first = mf.evaluate(mf.E(f.diff(x) ** 2, q), q=variance)
    assert (abs(found / (apart * first) - 1 + apart / 2)[:4] <= 1e-12 + 4e-3 * apart[:4] + apart[:4] ** 2 / 5).all()
    assert abs(found[5] - found[4]) <= 1e-11 * found[4]


def test_kinks_without_end() -> None:
    r"""|sin x| = \sum_n a_n cos 2nx, a_0 = 2/\pi, a_n = -4/(\pi (4n^2 - 1))"""
    phi, variance, covariance = mf.Activation(sp.Abs(sp.sin(x))), 1.3, 0.4
    a = [2 / mp.pi] + [-4 / mp.pi / (4 * n * n - 1) for n in range(1, 12)]
    damped = [[mp.exp(-2 * (m * m + n * n) * variance) for n in range(12)] for m in range(12)]
    kernel = mp.fsum(a[m] * a[n] * damped[m][n] * mp.cosh(4 * m * n * covariance) for m in range(12) for n in range(12))
    mean = mp.fsum(c * d for c, d in zip(a, damped[0], strict=True))
    assert abs(mf.evaluate(phi.mean(q), q=variance) - mean) <= 1e-13
    assert abs(mf.evaluate(phi.kernel(q, p), q=variance, p=covariance) - kernel) <= 1e-13
    slope = (1 + mp.exp(-2 * variance)) / 2  # E f'^2; what the kinks add is of order sqrt(delta)
    assert abs(mf.evaluate(phi.gap(q, delta), q=variance, delta=1e-22) / 1e-22 - slope) <= 1e-10
    assert abs(mf.evaluate(phi.mean(q), q=1e3) - 2 / mp.pi) <= 1e-13


def test_powers_of_any_degree() -> None:
    k = sp.Symbol("k", integer=True, positive=True)
    phi, cubic = mf.Activation(relu**k), mf.Activation(relu**3)
    for moment in ("mean", "second_moment", "kernel"):
        assert phi.is_closed(moment)
        assert phi.derivative.is_closed(moment)
        assert phi.derive(moment).certificate
    point = {q: R(7, 5), p: R(-2, 5)}
    pairs = ((phi.kernel(q, p), cubic.kernel(q, p)), (phi.derivative.kernel(q, p), cubic.derivative.kernel(q, p)))
    for general, special in ((phi.mean(q), cubic.mean(q)), *pairs):
        assert abs(sp.N((general.subs(k, 3) - special).subs(point), 25)) < 1e-20
    root = mf.Activation(relu ** R(3, 2))
    assert abs(mf.evaluate(root.gap(q, delta), q=1.0, delta=1e-20) / (9 / mp.sqrt(32 * mp.pi) * 1e-20) - 1) < 1e-12  # delta E f'^2
    unequal = root.kernel(mf.q1, p, mf.q2)
    values = {"q1": 0.5, "p": 0.3, "q2": 2.0}
    assert abs(mf.evaluate(unequal, **values) - mf.evaluate(unequal, digits=20, **values)) < 1e-14


@pytest.mark.parametrize("n", [5, 8, 61])
def test_powers_lose_no_digits_of_little_correlation(n: int) -> None:
    """in powers of q - delta, not in those of delta, which alternate: at c = 0 the kernel of x^60 is 1e-18 of what it is at c = 1"""
    phi = mf.Activation(x**n)
    for f in (phi, phi.derivative):
        kernel = f.kernel(q, p)
        numbers = sp.lambdify((q, delta), [shifted(kernel), gap_of(kernel)], "math")
        for c in (R(0), R(1, 4), R(-1, 2), 1 - R(1, 2**40)):
            exact, most = f.kernel(1, c), f.kernel(1, 1)
            value, gap = numbers(1.0, float(1 - c))
            assert abs(value - exact) <= 1e-13 * abs(exact)
            assert abs(gap - (most - exact)) <= 1e-13 * (most - exact)


def test_waves_lose_no_digits_of_small_variances() -> None:
    """e^-q (cosh q - cosh p) = 2 e^-q sinh(q - delta/2) sinh(delta/2)"""
    numbers = sp.lambdify((q, delta), Gap(2 + sp.cos(3 * x), q, delta).doit(), "numpy")
    for v, share in ((1e-12, 1.0), (1e-6, 0.3), (1.0, 1e-9), (60.0, 1.9)):
        with mp.workdps(50):
            exact = 2 * mp.exp(-9 * mp.mpf(v)) * mp.sinh(9 * (mp.mpf(v) - mp.mpf(v * share) / 2)) * mp.sinh(9 * mp.mpf(v * share) / 2)
        assert numbers(v, v * share) == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("f", [x - sp.floor(x), sp.Mod(x, 2) * x], ids=str)
def test_steps_without_end_have_no_slope(f: sp.Expr) -> None:
    with pytest.raises(ValueError, match="varies too fast"):
        mf.evaluate(Gap(f, q, delta), q=1.0, delta=0.1)


def test_logarithms_and_roots_have_no_scale() -> None:
    r"""Cov(log|u|, log|v|) = asin(\rho)^2/2, so that the gap is \theta (\pi - \theta)/2; sgn(u) sqrt|u| is homogeneous"""
    variance = np.array([1e-12, 1.0, 1.0, 1.0, 1e12, 1e12, 1.0])
    apart = variance * np.array([1e-3, 1e-8, 1e-30, 1e-300, 1e-60, 0.5, 1.5])
    theta = 2 * np.arcsin(np.sqrt(apart / variance / 2))
    gap = mf.evaluate(mf.Activation(sp.log(sp.Abs(x))).gap(q, delta), q=variance, delta=apart)
    assert np.abs(gap / (theta * (np.pi - theta) / 2) - 1).max() <= 1e-13
    root = mf.Activation(sp.sign(x) * sp.sqrt(sp.Abs(x)))
    near, far = mf.evaluate(root.gap(q, delta), q=np.array([1.0, 1e-12]), delta=np.array([1e-8, 1e-208]))
    exact = (root.second_moment(1) - root.kernel(1, 1 - R(1e-8))).evalf(20)  # a hypergeometric function
    assert abs(near / exact - 1) <= 1e-12
    assert mf.evaluate(root.gap(q, delta), q=1.0, delta=1e-196) == pytest.approx(1e6 * far, rel=1e-12)
    with pytest.raises(ArithmeticError, match="a root, a logarithm or a jump"):  # values around 0 are not told from f(0) = 1
        mf.evaluate(mf.Activation(1 / (1 + sp.Abs(x) ** (1 / sp.pi))).gap(q, delta), q=1.0, delta=1e-60)


#: closed forms whose terms cancel for small variances, or for large ones beside an oscillation; the largest variance
CANCELLING = ((sp.cosh(x / 2), 30.0), (x**2 * sp.sin(x), 1e6), (1 - sp.cos(x) * exp(-(x**2) / 2), 1e6), (2 * sp.sinh(x) - 2 * x, 3.0))


@pytest.mark.parametrize(("f", "largest"), CANCELLING, ids=lambda a: str(a))
def test_layers_lose_no_digits_of_closed_gaps(f: sp.Expr, largest: float) -> None:
    """a sample with a seed, in one layer; against as many digits of the closed form as it takes"""
    rng = np.random.default_rng(int(largest))
    variance = np.exp(rng.uniform(math.log(1e-12), math.log(largest), 8))
    apart = variance * np.array([1.3, 0.6, *np.exp(rng.uniform(math.log(1e-40), 0.0, 6))])
    run = mf.propagate(mf.mlp(mf.Activation(f)), 1, variance, gap=apart / variance, sigma_w=1, sigma_b=0)
    found, gap = run.gap[:, 1] * run.q[:, 1], mf.Activation(f).gap(q, delta)
    for v, d, value in zip(run.q[:, 0], run.gap[:, 0] * run.q[:, 0], found, strict=True):
        truth = mf.evaluate(gap, q=R(v), delta=R(d), digits=20)
        assert abs(value - truth) <= 1e-12 * truth, (v, d)


# what a bound was once too small for, infinite or never found
ODD_POINTS = {
    "a narrow variable beside a wide one": (
        (sp.log(1 + sp.exp(mf.x)) * sp.tanh(mf.x), lambda phi: phi.kernel(mf.q1, mf.p, mf.q2, mean=-2)),
        {"q1": 1e-6, "p": -1e-3, "q2": 9.0},
    ),
    "nearly the complement of a square of tanh": (
        (sp.tanh(10**4 * mf.x) + mf.x / 10**5, lambda phi: phi.gap(mf.q, mf.delta)),
        {"q": 1e9, "delta": 1e8},
    ),
    "roots over 1": ((mf.activations["squareplus"](0.7).expression, lambda phi: phi.gap(mf.q, mf.delta)), {"q": 2.0, "delta": 1e-9}),
    "slanted poles": ((mf.gelu_tanh.expression, lambda phi: phi.second_moment(mf.q, mean=-5)), {"q": 0.003}),
    "mish far out": ((mf.mish.expression, lambda phi: phi.gap(mf.q, mf.delta)), {"q": 2.094e8, "delta": 6e-4}),
}


@pytest.mark.parametrize("case", ODD_POINTS)
def test_bounds_at_odd_points(case: str) -> None:
    (f, moment), at = ODD_POINTS[case]
    e = moment(mf.Activation(f))
    value, bound = mf.evaluate(e, error=True, **at)
    truth = mf.evaluate(e, digits=20, **at)
    assert abs(value - truth) <= bound <= 1e-12 * abs(truth)


def test_a_faint_gap_needs_no_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """of a dead zone that no input leaves: known to be no 0, its square is a mean of squares"""
    from meanfield.numeric import summation

    monkeypatch.setattr(summation, "digits_of", lambda *_: pytest.fail("digits were asked for"))
    gap = mf.Activation(sp.Max(0, mf.x - sp.Rational(1, 2)) ** 2 / (1 + mf.x**2)).gap(mf.q, mf.delta)
    with pytest.raises(OverflowError, match="2 of 2 values"):
        mf.evaluate(gap, q=1e-7, delta=[1e-8, 1.9e-7])


@pytest.mark.parametrize("ratio", [0.3, 2e-4, 3e-6, 1e-11, 1e-40])
def test_jumps_farther_out_than_the_density_reaches(ratio: float) -> None:
    """x^2 sign(cos x) at moderate variance is the polynomial pieces of the first few jumps, whose gap is closed"""
    x, q = mf.x, 0.6
    pieces = [((-1) ** k * x**2, x < (2 * k + 1) * sp.pi / 2) for k in range(-4, 4)]
    near = mf.Activation(sp.Piecewise(*pieces, (x**2, True)))
    wave = mf.Activation(x**2 * sp.sign(sp.cos(x)))
    exact = float(mf.evaluate(near.gap(mf.q, mf.delta), q=q, delta=ratio * q, digits=20))
    assert mf.evaluate(wave.gap(mf.q, mf.delta), q=q, delta=ratio * q) == pytest.approx(exact, rel=1e-11)


def test_a_gap_that_is_its_variance_by_algebra_only() -> None:
    """whether delta > q is no question to sympy where the two are equal but spelled differently"""
    variance, spelled = R(1, 50) + sp.pi**2 / 4, sp.Mul(R(1, 100), 2 + 25 * sp.pi**2, evaluate=False)
    assert (variance / spelled > 1) not in (sp.true, sp.false)
    assert gap_of_pair(tanh(x), spelled, variance, 60) == pytest.approx(float(mf.evaluate(mf.tanh.second_moment(q), q=float(variance))))


@pytest.mark.parametrize("variance", [1.0, 1e-3])
def test_sides_of_a_jump_that_rounding_hides(variance: float) -> None:
    """next to 0 what is compared has lost digits: 1/(1 + e^-x) where it is about 0.52, 1 - a - x where a is about 1"""
    a, setting = sp.Symbol("a", positive=True), {"q": variance, "delta": 0.4 * variance}
    slow = sp.tanh(x + 2)
    for jumping in (sp.sign(1 / (1 + sp.exp(-x)) - sp.Rational(52, 100)), sp.Heaviside(1 - a - x), sp.Heaviside(1 - sp.Max(0, a + x))):
        gap = Gap(slow * jumping, q, delta)
        for value in (0.9, 0.95, 1.05) if a in gap.free_symbols else (None,):
            exact = mf.evaluate(gap.xreplace({a: sp.Rational(value or 0)}), digits=18, **setting)
            found = mf.evaluate(gap, **setting, **({} if value is None else {"a": value}))
            assert found == pytest.approx(float(exact), rel=1e-12)
