"""What is narrow against its distance from 0: nodes are doubles, and their weights make up for that; tails are not inf/inf before it."""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from cases import panels

import meanfield as mf
from meanfield.gaussian import panel_rules

x, q, delta = mf.x, mf.q, mf.delta


def test_weights_make_up_for_nodes_that_are_rounded() -> None:
    """a panel of 2e-6 at 30, where nodes are off by 1e-9 of it; sums in more digits"""
    y, w = np.empty(64), np.empty(64)
    low, high = 30.0 - 2e-6, 30.0
    count = panel_rules.panels(low, high, 0.0, 30.0, 8.6, 3.0, y, w, 0)
    with mp.workdps(40):
        for k in range(8):
            z = [(mp.mpf(t) - 30) * 10**6 for t in y[:count]]
            value = mp.fsum(mp.mpf(a) * t**k for a, t in zip(w[:count], z, strict=True))
            true = mp.quad(lambda t, k=k: t**k * mp.npdf(30 + t * mp.mpf(10) ** -6, 0, 30), [(mp.mpf(low) - 30) * 10**6, 0])
            assert abs(value / (true * mp.mpf(10) ** -6) - 1) < 1e-14, k


@pytest.mark.parametrize(
    ("f", "place", "width", "variance"),
    [
        (sp.exp(-(10**12) * (x - 30) ** 2) + sp.tanh(x) / 10**9, 30, "1e-6", 900.0),
        (sp.exp(-(10**10) * (x - 100) ** 2) + sp.tanh(x) / 10**10, 100, "1e-5", 1e4),
        (sp.exp(-(10**8) * (x - 3) ** 2) + sp.atan(x) / 10**6, 3, "1e-4", 40.0),
        (1 / sp.cosh(1000 * (x - 3)), 3, "1e-3", 1.0),
        (10**6 / sp.cosh(1000 * (x - 3)) ** 4, 3, "1e-3", 1.0),
        (sp.exp(-((10**8 * sp.sinh(x - 1)) ** 2)), 1, "1e-8", 1.0),
        (sp.exp(-((10**8 * (sp.exp(x) - 2)) ** 2)), np.log(2.0), "1e-8", 1.0),
        (x * sp.tanh(10**6 * sp.sinh(x - 1)), 1, "1e-6", 1.0),
    ],
    ids=str,
)
def test_means_of_what_is_narrow_and_far(f: sp.Expr, place: float, width: str, variance: float) -> None:
    value, s = sp.lambdify(x, f, "mpmath"), mp.sqrt(mp.mpf(variance))
    with mp.workdps(30):
        near = [place + mp.mpf(width) * k for k in (-60, -30, -10, -4, -1, 0, 1, 4, 10, 30, 60)]
        ends = sorted({*near, mp.mpf(0), *(side * k * s for side in (-1, 1) for k in (mp.mpf("0.1"), 1, 3, 6, 12))})
        true = mp.quad(lambda t: value(t) * mp.npdf(t, 0, s), ends)
        size = mp.quad(lambda t: abs(value(t)) * mp.npdf(t, 0, s), ends)
    found, bound = mf.evaluate(mf.E(f, q), q=variance, error=True)
    assert abs(found - true) <= min(1e-13 * size, bound)


@pytest.mark.parametrize("slope", [100, 10**6])
def test_gaps_of_steep_functions_far_from_0(slope: int) -> None:
    value = mf.evaluate(mf.Activation(sp.tanh(slope * (x - 7))).gap(q, delta), q=40.0, delta=1e-3)
    assert value == pytest.approx(_gap_of_steps(slope, 7.0, 40.0, 1e-3), rel=1e-11)


def test_a_gap_beside_a_mean() -> None:
    value = mf.evaluate(mf.Activation(sp.tanh(1000 * x)).gap(q, delta, mean=-7), q=40.0, delta=1e-3)
    assert value == pytest.approx(_gap_of_steps(1000.0, 7.0, 40.0, 1e-3), rel=1e-11)


def _gap_of_steps(slope: float, place: float, variance: float, d: float) -> float:
    """half of E (f(u) - f(v))^2 over (u + v)/2 and u - v, of f = tanh(slope (x - place)): the first is next to the place where it counts"""
    s, r = np.sqrt(variance - d / 2), np.sqrt(2 * d)
    steps = np.concatenate(([0.0], np.geomspace(0.1 / slope, 9 * r, 30)))
    total = 0.0
    for b, weight in zip(*panels(steps), strict=True):
        around = np.unique(
            np.concatenate(
                [sign * b / 2 + side * np.append(0.0, np.geomspace(0.1, 40, 20)) / slope for sign in (-1, 1) for side in (-1, 1)]
            )
        )
        m, own = panels(around)
        square = (np.tanh(slope * (m + b / 2)) - np.tanh(slope * (m - b / 2))) ** 2
        inner = own @ (square * np.exp(-(((place + m) / s) ** 2) / 2))
        total += 2 * weight * np.exp(-((b / r) ** 2) / 2) * inner
    return float(total / (4 * np.pi * s * r))


@pytest.mark.parametrize(
    ("f", "value", "kink"),
    [
        (sp.tanh(sp.Max(0, x)), lambda t: mp.tanh(max(t, 0)), 0),
        (sp.atan(5 * sp.Max(x - 2, 0)), lambda t: mp.atan(5 * max(t - 2, 0)), 2),
        (sp.tanh(sp.Piecewise((x / 2, x < 1), (3 * x - 2, True))), lambda t: mp.tanh(t / 2 if t < 1 else 3 * t - 2), 1),
        (sp.erf(sp.Min(sp.Abs(x - 1), sp.Abs(x) + sp.Max(1, x))), lambda t: mp.erf(min(abs(t - 1), abs(t) + max(1, t))), 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("variance", ["1e9", "1e12"])
def test_digits_of_what_saturates_next_to_its_kink(f: sp.Expr, value: Callable[[mp.mpf], mp.mpf], kink: int, variance: str) -> None:
    """the argument of a function has the kink: where it is about 1 was no feature, and all nodes lay where the function is flat"""
    found = [mf.evaluate(mf.E(f**n, q), q=mp.mpf(variance), digits=30) for n in (1, 2)]
    with mp.workdps(45):
        s = mp.sqrt(mp.mpf(variance))
        far = [mp.mpf(2) ** k for k in range(-3, 50) if mp.mpf(2) ** k < 14 * s]
        ends = sorted({kink, 0, kink - 14 * s, kink + 14 * s, *(kink + side * a for a in far for side in (-1, 1))})
        for n, number in enumerate(found, 1):
            true = mp.quad(lambda t, n=n: value(t) ** n * mp.npdf(t, 0, s), ends)
            assert abs(number - true) < mp.mpf(10) ** -29 * abs(mp.mpf(true)), n
