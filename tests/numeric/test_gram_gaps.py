"""What merges keeps its digits where norms differ or tokens are told apart: against recursions in covariances with 60 digits."""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf

SLOPES = {"tanh": mp.tanh, "softplus": lambda t: mp.log1p(mp.exp(t))}


def hermite() -> list[tuple[mp.mpf, mp.mpf]]:
    """nodes and weights of Gauss, exact of what is a polynomial of degree 9 on the scale of a gap"""
    root = mp.sqrt(10)
    sides = [(s * mp.sqrt(5 + t * root), (7 - 2 * t * root) / 60) for s in (1, -1) for t in (1, -1)]
    return [(mp.mpf(0), mp.mpf(8) / 15), *sides]


def integrated(f: Callable[[mp.mpf], mp.mpf]) -> Callable[[mp.mpf, mp.mpf, mp.mpf], mp.mpf]:
    """E f(u) f(v) by the trapezoidal rule along u, for correlations next to 1"""

    def kernel(a: mp.mpf, p: mp.mpf, b: mp.mpf) -> mp.mpf:
        step = mp.mpf(1) / 10
        rho, own = p / mp.sqrt(a * b), mp.sqrt(1 - p * p / (a * b))
        total, first, second = mp.mpf(0), mp.sqrt(a), mp.sqrt(b)
        for k in range(-110, 111):
            z = k * step
            beside = sum(w * f(second * (rho * z + own * t)) for t, w in hermite())
            total += mp.exp(-z * z / 2) * f(first * z) * beside
        return total * step / mp.sqrt(2 * mp.pi)

    return kernel


def arc_cosine(a: mp.mpf, p: mp.mpf, b: mp.mpf) -> mp.mpf:
    c = p / mp.sqrt(a * b)
    return mp.sqrt(a * b) * (mp.sqrt(1 - c * c) + c * (mp.pi - mp.acos(c))) / (2 * mp.pi)


def arc_sine(a: mp.mpf, p: mp.mpf, b: mp.mpf) -> mp.mpf:
    return 2 / mp.pi * mp.asin(2 * p / mp.sqrt((1 + 2 * a) * (1 + 2 * b)))


KERNELS = {"relu": arc_cosine, "erf": arc_sine, **{name: integrated(f) for name, f in SLOPES.items()}}


@pytest.mark.parametrize("name", KERNELS)
def test_two_inputs_that_are_next_to_each_other(name: str) -> None:
    """of one variance, of two that differ by rounding or little, and by much"""
    kernel, w, closed = KERNELS[name], 1.25, name not in SLOPES
    far = 1 + closed  # layers: the rule of the oracle is for what is close
    cases = [(1.0, 1e-20, 0.25, 2), (2.0, 1e-20, 0.0 if name == "relu" else 0.25, far), (1.0 + 2**-30, 1e-18, 0.0, 1)]
    for q2, gap, b, depth in cases + [(1.0 + 2**-10, 1e-18, 0.0, far)] * closed:
        run = mf.propagate(mf.mlp(getattr(mf, name)), depth, 1.0, q2=q2, gap=gap, sigma_w=w, sigma_b=b)
        with mp.workdps(60):
            one, two = mp.mpf(1), mp.mpf(q2)
            p, found = mp.sqrt(one * two) * (1 - mp.mpf(gap)), []
            for _ in range(depth):
                laws = [(one, one, one), (one, p, two), (two, two, two)]
                one, p, two = (mp.mpf(w) ** 2 * kernel(*law) + mp.mpf(b) ** 2 for law in laws)
                found.append(float(1 - p / mp.sqrt(one * two)))
        assert run.status == "ok"
        np.testing.assert_allclose(run.gap[1:], found, rtol=1e-12, err_msg=f"{q2}, {gap}")


def squares(a: mp.mpf, p: mp.mpf, b: mp.mpf) -> mp.mpf:
    return (a * b + 2 * p * p) / 16


@pytest.mark.parametrize(("phi", "kernel"), [(mf.relu, arc_cosine), (mf.Activation(mf.x**2 / 4), squares), (mf.erf, arc_sine)])
def test_two_inputs_of_norms_as_unlike_as_any(phi: mf.Activation, kernel: Callable[..., mp.mpf]) -> None:
    """a gap beyond twice the smaller variance is one too"""
    rng = np.random.default_rng(3)
    q, ratio, c = 10 ** rng.uniform(-3, 3, 60), 10 ** rng.uniform(-8, 8, 60), np.r_[rng.uniform(-1, 1, 57), 1, -1, 1 - 1e-9]
    run = mf.propagate(mf.mlp(phi), 2, q, q2=q * ratio, c=c, sigma_w=1.3, sigma_b=np.array([[0.0], [0.3]]))
    assert (run.status == "ok").all()
    for at in np.ndindex(2, 60):
        a, b, p, lack = (float(v[(*at, 1)]) for v in (run.q, run.q2, run.p, run.gap))
        with mp.workdps(40):
            exactly = mp.sqrt(mp.mpf(a) * b) * (1 - mp.mpf(lack)) if lack < 0.5 else mp.mpf(p)
            true = mp.mpf(1.3) ** 2 * kernel(mp.mpf(a), exactly, mp.mpf(b)) + mp.mpf([0.0, 0.3][at[0]]) ** 2
            bound = mp.sqrt(mp.mpf(float(run.q[(*at, 2)])) * float(run.q2[(*at, 2)]))
            assert abs(run.p[(*at, 2)] - true) <= 1e-13 * bound
            assert abs(run.gap[(*at, 2)] - (1 - true / bound)) <= 1e-13


def test_tokens_that_are_next_to_each_other() -> None:
    """behind a norm that leaves them norms of their own, and attention under a causal mask"""
    n, depth, gap, skip = 5, 3, 1e-18, sp.Rational(9, 10)
    net = mf.Residual(mf.Derf(1) >> mf.CausalAttention(n, 1, 1), skip) >> mf.Residual(mf.MLP(mf.relu, 1, 1, 0.5), skip)
    run = mf.propagate(net, depth, 1.0, gap=gap)
    with mp.workdps(60):
        tokens = range(n)
        G = [[mp.mpf(1) - (i != j) * mp.mpf(gap) for j in tokens] for i in tokens]
        share, found, least = [mp.mpf(1) / (i + 1) for i in tokens], [], []

        def each(kernel: Callable[..., mp.mpf], G: list[list[mp.mpf]]) -> list[list[mp.mpf]]:
            return [[kernel(G[i][i], G[i][j], G[j][j]) for j in tokens] for i in tokens]

        def added(G: list[list[mp.mpf]], H: list[list[mp.mpf]]) -> list[list[mp.mpf]]:
            return [[mp.mpf(81) / 100 * G[i][j] + H[i][j] for j in tokens] for i in tokens]

        for _ in range(depth):
            H = each(arc_sine, G)
            mixed = [[share[i] * share[j] * mp.fsum(H[k][l] for k in range(i + 1) for l in range(j + 1)) for j in tokens] for i in tokens]
            G = added(G, mixed)
            wider = [[a + mp.mpf(1) / 4 for a in row] for row in G]
            G = added(G, each(arc_cosine, wider))
            trace, total = mp.fsum(G[i][i] for i in tokens), mp.fsum(map(mp.fsum, G))
            found.append(float(1 - (total - trace) / (n - 1) / trace))
            least.append(G)
    np.testing.assert_allclose(run.gap[1:], found, rtol=1e-12)
    np.testing.assert_allclose(run.gram[-1], np.array(least[-1], dtype=float), rtol=1e-14)


def test_softmax_of_tokens_that_are_next_to_each_other_is_uniform() -> None:
    """their logits differ by less than their gap: to its digits a causal mask with equal logits"""
    runs = []
    for strength in (0, 1):
        attention = mf.CausalAttention(6, 1, 1, sigma_Q=strength, sigma_K=strength)
        runs.append(mf.propagate(mf.Residual(mf.Derf(1) >> attention), 3, 1.0, gap=1e-18))
    np.testing.assert_allclose(runs[1].gap, runs[0].gap, rtol=1e-12)
    np.testing.assert_allclose(runs[1].log_apjn, runs[0].log_apjn, rtol=1e-13)


def test_opposite_tokens_leave_nothing_of_their_mean() -> None:
    """p = -q/(n - 1), to rounding: as where tokens are symmetric under permutation"""
    for n in (2, 3, 4, 7):
        runs = [
            mf.propagate(net, 3, 1.0, p=-1 / (n - 1))
            for net in (mf.FixedAttention(sp.Rational(1, n), n, 1, 1), mf.UniformAttention(n, 1, 1))
        ]
        assert [run.status for run in runs] == ["underflow"] * 2
        assert np.isnan(runs[0].gram[1:]).all()


def test_what_is_centred_keeps_the_digits_of_distances() -> None:
    """rows that sum to 0, and rows of different sums that leave all tokens parallel"""
    n, gap = 4, 1e-15
    centred = mf.FixedAttention(sp.Piecewise((sp.Rational(3, 4), sp.Eq(mf.i, mf.j)), (-sp.Rational(1, 4), True)), n, 1, 1)
    run = mf.propagate(centred, 1, 1.0, gap=gap)
    np.testing.assert_allclose(run.gram[-1], gap * (np.eye(n) - 1 / n), rtol=1e-13)
    parallel = mf.propagate(mf.FixedAttention(mf.i / 4, n, 1, 1) >> mf.MLP(mf.relu, 1, 1), 1, 1.0, gap=0.5)
    rho = parallel.gram[-1] / np.sqrt(np.outer(parallel.gram[-1].diagonal(), parallel.gram[-1].diagonal()))
    np.testing.assert_allclose(rho, 1.0, rtol=1e-14)


def test_where_a_function_jumps_two_that_are_not_one_have_a_finite_product_of_slopes() -> None:
    """what p = q - delta rounds to does not decide: E step'(u) step'(v) = 1/(2 pi sqrt(delta (2 q - delta)))"""
    found = mf.evaluate(mf.step.derivative.kernel(mf.q, mf.q - mf.delta), q=1.5, delta=[1e-20, 0.0])
    np.testing.assert_allclose(found, [1 / (2 * np.pi * np.sqrt(3e-20)), np.inf], rtol=1e-13)
