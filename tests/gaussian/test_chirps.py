r"""What oscillates ever faster, x^k cos(b x^2 + c) e^{-a x^2}: closed forms in real terms, against integrals in ball arithmetic.

Given what u and v share, E (m + s \xi)^k e^{-A (m + s \xi)^2/2} is elementary for complex A, k = 0 or 1; over the rest ball arithmetic
integrates, and so it does E \phi^2, for variances up to 40.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import pytest
import sympy as sp
from flint import acb, arb, ctx
from oracle import certified
from oracle.functions import Smoothed

import meanfield as mf
from meanfield.gaussian.certificates import certify

x, q, p, q1, q2, delta = mf.x, mf.q, mf.p, mf.q1, mf.q2, mf.delta

#: name: the power of x, e^{-a x^2} in hundredths, and (b, phase in quarter turns) of each cosine
CHIRPS = {
    "cos": (0, 0, ((1, 0),)),
    "sin": (0, 0, ((1, -1),)),
    "x sin": (1, 0, ((1, -1),)),
    "falling cos": (0, 12, ((1, 0),)),
    "two": (0, 0, ((1, 0), (3, -1))),
}


def activation(name: str) -> mf.Activation:
    k, a, waves = CHIRPS[name]
    total = sp.Add(*[sp.cos(b * x**2) if turn == 0 else sp.sin(b * x**2) for b, turn in waves])
    return mf.Activation(x**k * total * sp.exp(-sp.Rational(a, 100) * x**2))


def oracle(name: str) -> Smoothed:
    """the function and its mean over a Gaussian of deviation s, in balls"""
    k, a, waves = CHIRPS[name]

    def one(m: Any, s: Any, b: int, sign: int) -> Any:
        rate = acb(arb(2 * a) / 100, -2 * b * sign)
        wide = 1 + rate * s * s
        value = (-rate * m * m / (2 * wide)).exp() / wide.sqrt()
        return value * m / wide if k else value

    def smooth(m: Any, s: Any) -> Any:
        total = acb(0)
        for b, turn in waves:
            above, below = one(m, s, b, 1), one(m, s, b, -1)
            total += (above + below) / 2 if turn == 0 else (above - below) / acb(0, 2)
        return total

    def value(z: Any, _: bool) -> Any:
        return smooth(z, arb(0))

    return Smoothed(name=name, value=value, slope=value, smooth=smooth, parity=-1 if k else 1, growth=(len(waves), k))


def nearly(found: float, truth: arb, within: float) -> bool:
    with mp.workdps(40):
        exact = mp.mpf(truth.mid().str(35, radius=False))
        return bool(abs(mp.mpf(found) - exact) <= within * abs(exact))


@pytest.mark.parametrize("name", CHIRPS)
def test_kernels_for_every_variance(name: str) -> None:
    kernel, f = activation(name).kernel(q, p), oracle(name)
    for v in (1e-12, 1e-3, 0.7, 40.0, 1e6, 1e12):
        for r in (-0.9, 0.3, 0.99):
            assert nearly(mf.evaluate(kernel, q=v, p=r * v), certified.kernel(f, v, r * v, v, 0.0, False), 1e-13)


@pytest.mark.parametrize("name", CHIRPS)
def test_kernels_for_two_variances(name: str) -> None:
    kernel, f = activation(name).kernel(q1, p, q2), oracle(name)
    for v, w in ((1e-6, 1e-3), (0.7, 5.0), (1e5, 1e4), (1e12, 1e11)):
        for r in (-0.6, 0.5):
            c = r * (v * w) ** 0.5
            assert nearly(mf.evaluate(kernel, q1=v, p=c, q2=w), certified.kernel(f, v, c, w, 0.0, False), 1e-13)


@pytest.mark.parametrize("name", CHIRPS)
def test_second_moments_and_gaps(name: str) -> None:
    phi, f = activation(name), oracle(name)
    for v in (1e-12, 1e-3, 0.7, 40.0):
        second = certified.settled(lambda n, v=v: certified.second(f, v, 0.0, n))
        assert nearly(mf.evaluate(phi.second_moment(q), q=v), second, 1e-13)
    for v in (1e-4, 0.7, 6.0):
        for r in (1e-30, 0.5, 1.9):
            assert nearly(mf.evaluate(phi.gap(q, delta), q=v, delta=r * v), certified.gap(f, v, r * v), 1e-12)


@pytest.mark.parametrize("name", CHIRPS)
def test_at_the_ends_of_the_line_of_correlations(name: str) -> None:
    phi = activation(name)
    odd = CHIRPS[name][0] == 1
    for v in (1e-9, 3.0, 1e9):
        second = mf.evaluate(phi.second_moment(q), q=v)
        assert mf.evaluate(phi.kernel(q, p), q=v, p=v) == pytest.approx(second, rel=1e-14)
        assert mf.evaluate(phi.kernel(q, p), q=v, p=-v) == pytest.approx(-second if odd else second, rel=1e-14)
        assert mf.evaluate(phi.gap(q, delta), q=v, delta=2 * v) == pytest.approx(2 * second if odd else 0.0, rel=1e-14)


def test_gaps_reach_where_no_phase_is_left() -> None:
    """E cos(u^2)^2 - E cos(u^2) cos(v^2) is 4 q delta/2 for 1/q << q delta << 1, half the mean square of (u^2 - v^2) sin(2 u^2)"""
    found = mf.evaluate(activation("cos").gap(q, delta), q=1e12, delta=1e-24)
    assert found == pytest.approx(2e-12, rel=1e-11)


@pytest.mark.parametrize("name", ["cos", "x sin", "falling cos"])
@pytest.mark.parametrize(("moment", "law"), [("mean", (q,)), ("second_moment", (q,)), ("kernel", (q, p))])
def test_each_form_is_real_and_has_its_certificate(name: str, moment: str, law: tuple[sp.Expr, ...]) -> None:
    d = activation(name).derive(moment, *law)
    assert not d.result.has(sp.I)
    assert d.certificate.holds


def test_the_other_branch_of_a_root_has_none() -> None:
    f = sp.cos(x**2)
    form = mf.Activation(f).kernel(q, p)
    wrong = form - 2 * next(t for t in form.args if t.has(sp.sqrt(4 * (p + q) ** 2 + 1)))
    assert not certify(f, "kernel", wrong).holds


def test_means_as_the_literature_writes_fresnel_integrals() -> None:
    """E cos(u^2), E sin(u^2) are the real and the imaginary part of (1 - 2 i q)^(-1/2)"""
    root = sp.sqrt(4 * q**2 + 1)
    assert sp.simplify(mf.E(sp.cos(x**2), q).doit() - sp.sqrt((root + 1) / 2) / root) == 0
    assert sp.simplify(mf.E(sp.sin(x**2), q).doit() - q / (root * sp.sqrt((root + 1) / 2))) == 0


#: a function, what it is where it is not 0, and from where on that is
BESIDE: dict[str, tuple[sp.Expr, Callable[[Any], Any], int]] = {
    "cos(x^2 + x)": (sp.cos(x**2 + x), lambda z: (z * z + z).cos(), -90),
    "relu(x) cos(x^2)": (sp.Max(x, 0) * sp.cos(x**2), lambda z: z * (z * z).cos(), 0),
    "e^(x^2/16) cos(x^2)": (sp.exp(x**2 / 16) * sp.cos(x**2), lambda z: (z * z / 16).exp() * (z * z).cos(), -90),
}


@pytest.mark.parametrize("name", BESIDE)
def test_means_beside_lines_gates_and_growth(name: str) -> None:
    f, value, start = BESIDE[name]
    form = mf.E(f, q).doit()
    assert not form.has(sp.I, type(mf.E(sp.tanh(x) ** 2, q)))
    for v in (0.01, 1.0, 5.0):
        with ctx.workdps(40):
            total = acb.integral(
                lambda z, _, v=v: value(z) * (-z * z / (2 * arb(v))).exp(), acb(start), acb(90), eval_limit=10**6, depth_limit=10**4
            )
            truth = total.real / (2 * arb.pi() * arb(v)).sqrt()
        assert nearly(mf.evaluate(form, q=v), truth, 1e-13)


def test_growth_has_its_bound() -> None:
    phi = mf.Activation(sp.exp(x**2 / 16) * sp.cos(x**2))
    with pytest.raises(ValueError, match="finite only for q < 4"):
        mf.evaluate(phi.second_moment(q), q=5.0)
    assert mf.evaluate(phi.mean(q), q=7.0) > 0


def test_the_gap_of_a_wave_beside_a_chirp() -> None:
    """cos(x^2 + x), whose forms hold sines and cosines of the variances: at large ones there is no quadrature"""
    gap = mf.Activation(sp.cos(x**2 + x)).gap(q, delta)

    def pair(v: acb, cov: acb, sign: int) -> acb:
        """E e^{i (u^2 + u)} e^{i sign (v^2 + v)}"""
        a, b = acb(0, -2), acb(0, -2 * sign)
        rest = (v - cov) * (v + cov)
        det = 1 + (a + b) * v + a * b * rest
        along = v + b * rest, v + a * rest
        return ((-along[0] - along[1] - 2 * sign * cov) / (2 * det)).exp() / det.sqrt()

    for v in (0.1, 40.0, 1e9):
        for r in (1e-100, 1e-9, 1.7):
            with ctx.workdps(400):
                same, other = arb(v), arb(v) - arb(r * v)
                both = [sum((pair(acb(same), acb(c), s).real for s in (1, -1)), arb(0)) / 2 for c in (same, other)]
                truth = both[0] - both[1]
            assert nearly(mf.evaluate(gap, q=v, delta=r * v), truth, 1e-12)
