"""Functions with a period, against their Fourier series: E e^{i w (j u + k v)} is known for every law."""

import math

import numpy as np
import pytest
import sympy as sp
from cases import panels

import meanfield as mf
from meanfield.gaussian.pair_expectation import PairExpectation
from meanfield.gaussian.periods import period
from meanfield.gaussian.singularities import shape_of
from meanfield.symbols import known

x, y = mf.x, known("y")
K = np.arange(1, 200_001, dtype=float)

#: function -> squared moduli of its Fourier coefficients for k = 1, 2, ..., of e^{i k x}, and its mean square
KINKED = {
    "square wave": (sp.sign(sp.sin(x)), np.where(K % 2 == 1, 2 / (math.pi * K), 0.0) ** 2, 1.0),
    "rectified": (sp.Abs(sp.sin(x)), np.where(K % 2 == 0, 2 / (math.pi * np.maximum(K**2 - 1, 1)), 0.0) ** 2, 0.5),
    "triangle wave": (sp.acos(sp.cos(x)), np.where(K % 2 == 1, 2 / (math.pi * K**2), 0.0) ** 2, math.pi**2 / 3),
}
#: whose coefficients are those of a discrete Fourier transform
SMOOTH = (sp.exp(sp.cos(x - 1)), sp.sin(x + sp.sin(3 * x)))


@pytest.mark.parametrize("name", KINKED)
def test_kinks_without_end(name: str) -> None:
    f, squares, square = KINKED[name]
    phi = mf.Activation(f)
    q = np.array([400.0, 1e4, 1e12, 1e12, 1e12])
    delta = np.array([1e-6, 1e-3, 0.1, 5.0, 1e12])
    true = [2 * float(squares @ -np.expm1(-(K**2) * d)) for d in delta]
    power, last = (2, K[-2]) if f.has(sp.sign) else (4, K[-1])
    tail = squares[-2:].sum() * last**power / K[-1] ** (power - 1) / (power - 1)  # of coefficients c/k^power beyond the last one
    np.testing.assert_allclose(mf.evaluate(phi.gap(mf.q, mf.delta), q=q, delta=delta), true + tail, rtol=1e-11)
    assert mf.evaluate(phi.second_moment(mf.q), q=1e12) == pytest.approx(square, rel=1e-13)
    # a jump crosses with probability proportional to sqrt(delta), a kink leaves the variance delta E f'^2
    tiny = mf.evaluate(phi.gap(mf.q, mf.delta), q=1e12, delta=1e-40)
    slope = 0.5 if f.has(sp.Abs) else 1.0
    assert tiny == pytest.approx(4e-20 / math.pi**1.5 if f.has(sp.sign) else slope * 1e-40, rel=1e-11)


def test_kinks_of_growing_size_without_end() -> None:
    """delta E f'^2 for tiny delta"""
    f, delta = x * sp.Max(sp.sin(20 * x), 0), np.array([1e-299, 1e-99, 1e-28])
    starts = np.arange(-40, 41)[:, None] * math.pi / 10
    u, w = panels(starts + np.array([0.0, math.pi / 20]))  # where the sine is positive
    slopes = np.sin(20 * u) + 20 * u * np.cos(20 * u)
    mean = float(np.sum(w * slopes**2 * np.exp(-(u**2) / 2))) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(mf.evaluate(mf.Activation(f).gap(mf.q, mf.delta), q=1, delta=delta), delta * mean, rtol=1e-11)


def test_jumps_of_growing_size_without_end() -> None:
    gap = mf.Activation(x * sp.sign(sp.sin(x))).gap(mf.q, mf.delta)
    q, n = 1e8, K[::2]
    delta = np.array([1e-5, 3.0, 0.3 * q])
    damped = [np.exp(-(n**2) * d) for d in delta]  # E u v cos(n (u - v)) = (p + n^2 delta^2) e^{-n^2 delta}
    lost = [-q * np.expm1(-(n**2) * d) + (d - (n * d) ** 2) * e for d, e in zip(delta, damped, strict=True)]
    true = [8 / math.pi**2 * float((v / n**2).sum()) + 4 * q / math.pi**2 / K[-1] for v in lost]
    np.testing.assert_allclose(mf.evaluate(gap, q=q, delta=delta), true, rtol=1e-11)
    assert mf.evaluate(gap, q=q, delta=2 * q) == 0
    assert mf.evaluate(gap, q=q, delta=1e-20) == pytest.approx(4 * q * 1e-10 / math.pi**1.5, rel=1e-12)  # jumps of height 2 |u|


@pytest.mark.parametrize(
    "f",
    [
        (sp.log(1 + sp.exp(x)) - x / 2) * sp.cos(60 * x),
        sp.log(1 + sp.exp(x)) * (1 + sp.cos(x)),
        sp.log(1 + sp.log(1 + sp.exp(x))) * sp.sin(3 * x),
    ],
    ids=str,
)
def test_the_size_of_a_wave_may_be_a_logarithm_next_to_one(f: sp.Expr) -> None:
    """far out its argument is exp(-100000) from 1"""
    value, h = sp.lambdify(x, f, "numpy"), 0.01
    for variance in (1.0, 30.0):
        t = h * np.arange(-8000, 8001)
        true = h * float(value(t) ** 2 @ np.exp(-(t**2) / (2 * variance))) / math.sqrt(2 * math.pi * variance)
        assert mf.evaluate(mf.Activation(f).second_moment(mf.q), q=variance) == pytest.approx(true, rel=1e-12)


def test_two_variances_that_leave_no_phase() -> None:
    phi, (v, p, w), h = mf.Activation(sp.sin(x) * sp.tanh(x)), (2e3, 3.1e3, 5e3), 0.27
    one, two = (np.arange(-int(9 * s / h), int(9 * s / h) + 1) * h for s in (math.sqrt(v), math.sqrt(w)))
    first, second = (np.sin(t) * np.tanh(t) for t in (one, two))
    rest = w - p**2 / v
    density = np.exp(-((two - p / v * one[:, None]) ** 2) / (2 * rest) - one[:, None] ** 2 / (2 * v))
    true = float(first @ density @ second) * h**2 / (2 * math.pi * math.sqrt(v * rest))
    assert mf.evaluate(phi.kernel(mf.q1, mf.p, mf.q2), q1=v, p=p, q2=w) == pytest.approx(true, abs=5e-13)
    assert mf.evaluate(phi.kernel(mf.q1, mf.p, mf.q2), q1=1e12, p=0.5e12, q2=3e12) == pytest.approx(0, abs=1e-11)


def _series(f: sp.Expr) -> np.ndarray:
    count = 256
    values = sp.lambdify(x, f, "numpy")(2 * np.pi * np.arange(count) / count)
    return np.fft.fft(values) / count


@pytest.mark.parametrize("f", SMOOTH, ids=str)
def test_smooth_ones_under_any_variance(f: sp.Expr) -> None:
    c, k = np.roll(_series(f), 127), np.arange(-127, 129)
    phi = mf.Activation(f)
    q = np.array([3.0, 3.0, 3.0, 40.0, 900.0, 1e12, 1e12, 1e12, 1e12])
    delta = np.array([0.7, 5.9, 1e-9, 79.0, 0.3, 1e-3, 2.0, 2e12 - 1.0, 1e-30])
    gap, cross = [], []
    for v, d in zip(q, delta, strict=True):
        total = 2 * v - d
        j, m = k[:, None], k[None, :]
        weight = np.exp(-((j + m) ** 2) * total / 4 - (j - m) ** 2 * d / 4)
        same = np.exp(-((j + m) ** 2) * v / 2)
        lost = np.where(np.abs(j * m * d) < 0.5, -np.expm1(np.clip(j * m * d, -0.5, 0.5)) * same, same - weight)
        product = (c[:, None] * c[None, :]).real
        gap.append(float((product * lost).sum()))
        cross.append(float((product * weight).sum()))
    np.testing.assert_allclose(mf.evaluate(phi.gap(mf.q, mf.delta), q=q, delta=delta), gap, rtol=1e-11)
    second = mf.evaluate(phi.second_moment(mf.q), q=1e12)
    found = mf.evaluate(phi.kernel(mf.q, mf.p), q=q[:5], p=(q - delta)[:5])
    np.testing.assert_allclose(found, cross[:5], atol=1e-12 * second, rtol=0)
    assert mf.evaluate(mf.E(1 + f, mf.q), q=1e12) == pytest.approx(1 + c[127].real, abs=1e-12)


@pytest.mark.parametrize(("f", "mean"), [*((f, 0) for f in (*SMOOTH, sp.tanh(2 * sp.sin(x)))), (SMOOTH[0], 0.4)], ids=str)
def test_smooth_ones_under_two_variances(f: sp.Expr, mean: float) -> None:
    c, k = np.roll(_series(f), 127), np.arange(-127, 129)
    laws = [
        (v, rho, r * v) for v in (0.3, 1.0, 6.0, 300.0) for r in (1.01, 7.0, 30.0) for rho in (-1.0, -0.9999, -0.3, 1e-3, 0.6, 0.999999)
    ]
    q1, rho, q2 = np.array(laws).T
    p = rho * np.sqrt(q1) * np.sqrt(q2) * (1 - 1e-15)
    j, m = k[:, None], k[None, :]
    turned = c[:, None] * c[None, :] * np.exp(1j * mean * (j + m))
    true = []
    for v, cov, w in zip(q1, p, q2, strict=True):
        spread = (j * math.sqrt(v) + m * math.copysign(math.sqrt(w), cov)) ** 2
        spread = spread - 2 * j * m * math.copysign(math.sqrt(v * w) - abs(cov), cov)  # where u is a multiple of v nothing cancels
        true.append(float((turned * np.exp(-spread / 2)).real.sum()))
    kernel = mf.Activation(f).kernel(mf.q1, mf.p, mf.q2, mean=mean)
    found, bound = mf.evaluate(kernel, q1=q1, p=p, q2=q2, error=True)
    np.testing.assert_allclose(found, true, rtol=0, atol=2e-13 * float((abs(c) ** 2).sum()))
    assert (bound < 1e-12 * float((abs(c) ** 2).sum())).all()
    single = mf.evaluate(mf.E(f, mf.q, mean), q=1e12)
    assert mf.evaluate(kernel, q1=1e12, p=1e11, q2=3e12) == pytest.approx(single**2, abs=1e-12)


def test_a_narrow_input_beside_a_wide_one() -> None:
    """E f(u) f(v) = p f'(0) E f'(v) to first order: nothing of order 1 may cancel in it, whichever is the narrow one"""
    f = sp.sin(x + sp.sin(3 * x))
    kernel, slope = mf.Activation(f).kernel(mf.q1, mf.p, mf.q2), mf.evaluate(mf.E(f.diff(x), mf.q), q=[1.0, 900.0])
    for v, mean in zip((1.0, 900.0), slope, strict=True):
        p = 0.9 * math.sqrt(v * 1e-20)
        found, bound = mf.evaluate(kernel, q1=1e-20, p=p, q2=v, error=True)
        assert found == pytest.approx(4 * p * mean, rel=1e-12, abs=4e-22)
        assert bound < 1e-12 * math.sqrt(16e-20)
        assert mf.evaluate(kernel, q1=v, p=p, q2=1e-20) == pytest.approx(found, rel=1e-12, abs=4e-22)


@pytest.mark.parametrize("q", [3.0, 1e20, 1e30])
def test_two_periods_of_which_one_is_a_multiple_of_the_other(q: float) -> None:
    """E e^{sin 3u} e^{cos u}, of a uniform phase where u is wide; no multiple of pi is a double"""
    kernel = PairExpectation(sp.exp(sp.sin(3 * x)) * sp.exp(sp.cos(y)), mf.q1, mf.p, mf.q2)
    t = 2 * math.pi * np.arange(4096) / 4096
    f, k = np.fft.fft(np.exp(np.sin(3 * t) + np.cos(t))).real / 4096, np.minimum(np.arange(4096), 4096 - np.arange(4096))
    true = float((f * np.exp(-(k.astype(float) ** 2) * q / 2)).sum())
    assert mf.evaluate(kernel, q1=q, p=q, q2=q) == pytest.approx(true, rel=1e-13)


def test_what_is_as_far_as_the_panels_that_are_kept() -> None:
    """a kink that is not at 0: panels of a row go less far on one side"""
    kernel = mf.Activation(sp.Abs(sp.cos(x) + sp.Rational(3, 10))).kernel(mf.q1, mf.p, mf.q2)
    q = np.array([7.0, 7.6, 8.0, 8.5, 12.0])
    t = 2 * math.pi * np.arange(2**20) / 2**20
    c = np.fft.fft(np.abs(np.cos(t) + 0.3)).real[: 2**12] / 2**20
    m = np.arange(1, 2**11)
    same = [c[0] ** 2 + 2 * c[0] * float((c[1:40] * (np.exp(-(m[:39] ** 2) * v / 2) + np.exp(-2 * m[:39] ** 2 * v))).sum()) for v in q]
    resonant = 2 * float((c[2 * m] * c[m]).sum())  # n u + m v with v = 2 u: n = -2 m alone stays
    found = mf.evaluate(kernel, q1=q, p=2 * q, q2=4 * q)
    others = [
        2
        * sum(
            c[abs(n)] * c[abs(j)] * math.exp(-((n + 2 * j) ** 2) * v / 2)
            for n in range(1, 400)
            for j in range(-220, 220)
            if j and 0 < abs(n + 2 * j) < 8
        )
        for v in q
    ]
    np.testing.assert_allclose(found, np.array(same) + resonant + others, rtol=1e-9)


def test_variances_far_apart() -> None:
    kernel = mf.Activation(SMOOTH[0]).kernel(mf.q1, mf.p, mf.q2)
    found = mf.evaluate(kernel, q1=np.full(400, 2.0**134), p=np.full(400, -(2.0**67)), q2=np.ones(400))
    single = mf.evaluate(mf.E(SMOOTH[0], mf.q), q=[1.0, 1e12])
    np.testing.assert_allclose(found, single.prod(), rtol=1e-12)


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("ratio", [1.1, -3.0, 10.0])
def test_kinks_without_end_where_one_input_is_a_multiple_of_the_other(name: str, ratio: float) -> None:
    f, v = KINKED[name][0], 4.0
    value = sp.lambdify(x, f, "numpy")
    far = 9 * math.sqrt(v)
    every = np.arange(-2000, 2001) * (math.pi / 2)
    ends = np.unique(np.concatenate((every, every / ratio)))
    u, w = panels(ends[abs(ends) <= far])
    terms = w * value(u) * value(ratio * u) * np.exp(-(u**2) / (2 * v)) / math.sqrt(2 * math.pi * v)
    found = mf.evaluate(mf.Activation(f).kernel(mf.q1, mf.p, mf.q2), q1=v, p=ratio * v, q2=ratio**2 * v)
    assert found == pytest.approx(float(terms.sum()), abs=1e-13)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (sp.sin(x) ** 2 + sp.tanh(sp.cos(2 * x)), sp.pi),
        (sp.Abs(sp.sin(3 * x)), sp.pi / 3),
        (sp.acos(sp.sin(3 * x)), 2 * sp.pi / 3),
        (sp.exp(sp.sin(x / 2) * sp.cos(x / 3)), 12 * sp.pi),
        (sp.sin(sp.sqrt(2) * x) + sp.tanh(sp.sin(x)), None),
        (x + sp.sin(x), None),
        (sp.sin(x**2), None),
    ],
    ids=str,
)
def test_periods(f: sp.Expr, expected: sp.Expr | None) -> None:
    assert period(f) == expected


@pytest.mark.parametrize("size", [1e-11, 5.4e-12, 1e-14])
def test_the_period_of_what_varies_by_no_more_than_rounding(size: float) -> None:
    assert period(1 + sp.Float(size) * sp.sin(x)) == 2 * sp.pi
    assert mf.evaluate(mf.Activation(sp.exp(sp.sin(x) * size)).second_moment(mf.q), q=1.0) == pytest.approx(1, rel=1e-14)


def test_the_mean_does_not_tell_periods_apart() -> None:
    phi = mf.Activation(sp.tanh(sp.sin(x) + sp.Rational(1, 3)))
    near, far = (mf.evaluate(mf.E(phi.expression, mf.q, mean=1 + 2 * sp.pi * n), q=0.3) for n in (0, 1000))
    assert far == pytest.approx(near, rel=1e-12)
    assert shape_of(phi.expression).period == pytest.approx(2 * math.pi, rel=1e-15)
