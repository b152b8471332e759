"""Rules of nodes and weights write into the arrays they are given and nowhere else, whatever the law: compiled code checks no index."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian import wave_rules
from meanfield.gaussian.node_rules import CAPACITY
from meanfield.gaussian.panels import legendre_rule
from meanfield.gaussian.periods import wave
from meanfield.gaussian.singularities import shape_of
from meanfield.gaussian.waves import wave_row
from meanfield.numeric.store import compiled

x = mf.x

RULES = """
from meanfield.gaussian.node_rules import nodes, nodes_of_two
from meanfield.gaussian.wave_rules import broad_nodes


def one(shape, other, mu, s, blur, window, y, w, count):
    count[0] = nodes(shape, mu, s, blur, window, y, w)


def two(shape, other, mu, s, blur, window, y, w, count):
    count[0] = nodes_of_two(shape, other, mu, s, blur, -mu, -0.7 * s, blur, window, y, w)


def broad(row, other, mu, s, blur, window, y, c, d, w, count):
    count[0] = broad_nodes(row, 0.0, mu, s, blur, window, y, c, d, w)
"""

SHAPES = {
    "smooth": sp.tanh(x),
    "narrow": sp.tanh(50 * x),
    "kink": sp.Max(x, 0) * sp.tanh(x),
    "root": sp.sqrt(sp.Abs(x)),
    "period": sp.sign(sp.sin(x)),
    "growth": sp.log(1 + sp.exp(x)),
}
MEANS = (0.0, -4.0, 1e6, 1e154, math.inf, math.nan)
DEVIATIONS = (0.0, 5e-324, 1e-160, 1e-9, 1.0, 1e5, 1e150, 1e308, math.inf, math.nan)
BLURS = (0.0, 1e-3, 1e200, math.nan)
WINDOWS = (8.6, 1e300, math.nan)
GUARD, UNTOUCHED = 4096, -7.25


def guarded(size: int, count: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """arrays between others that nobody may write to"""
    whole = np.full((count, size + 2 * GUARD), UNTOUCHED)
    return whole, [row[GUARD : GUARD + size] for row in whole]


def check(entry: str, rows: tuple[np.ndarray, np.ndarray], arrays: int, size: int) -> None:
    rule, number = compiled(RULES, entry), np.zeros(1)
    whole, inner = guarded(size, arrays)
    solved = 0
    for law in itertools.product(MEANS, DEVIATIONS, BLURS, WINDOWS):
        whole[:, GUARD : GUARD + size] = UNTOUCHED
        rule(*rows, *law, *inner, number)
        count = int(number[0])
        assert (whole[:, :GUARD] == UNTOUCHED).all(), law
        assert (whole[:, GUARD + size :] == UNTOUCHED).all(), law
        assert -1 <= count <= size, law
        assert (whole[:, GUARD + max(count, 0) : GUARD + size] == UNTOUCHED).all() or count == -1, law
        if count > 0:
            assert all(map(math.isfinite, law)), law
            solved += 1
    assert solved > 10 or size < CAPACITY


@pytest.mark.parametrize("size", [64, CAPACITY])
@pytest.mark.parametrize("name", SHAPES)
def test_no_law_makes_a_rule_write_beyond_its_arrays(name: str, size: int) -> None:
    shape = shape_of(SHAPES[name]).row(2.0)
    check("one", (shape, shape), 2, size)
    check("two", (shape, shape_of(sp.Abs(x - 1) * sp.tanh(x)).row(2.0)), 2, size)


def test_no_law_makes_the_rule_of_a_wave_write_beyond_its_arrays() -> None:
    g = x * sp.sign(sp.sin(x)) + sp.tanh(x)
    found = wave(g)
    assert found is not None
    row = wave_row(g, found, 2.0)
    assert row is not None
    check("broad", (row, row), 4, CAPACITY)


def test_more_harmonics_than_an_array_holds_are_refused() -> None:
    t, w = np.full(8, UNTOUCHED), np.full(8, UNTOUCHED)
    assert wave_rules.harmonic_nodes(1.0, 3.0, 1.0, 0.0, t, w) == 7
    t[:], w[:] = UNTOUCHED, UNTOUCHED
    assert wave_rules.harmonic_nodes(1.0, 4.0, 1.0, 0.0, t, w) == -1
    assert (np.array([t, w]) == UNTOUCHED).all()


@pytest.mark.parametrize("m", [2, 5, 16, 20, 24, 80])
def test_nodes_and_weights_of_gauss_and_legendre_are_the_nearest_doubles(m: int) -> None:
    """to the roots of P_m at 50 digits, all of them, and to 2 (1 - t^2)/(m P_{m-1}(t))^2 there"""
    nodes, weights = legendre_rule(m)
    assert nodes.size == weights.size == m
    assert (np.diff(nodes) > 0).all()
    with mp.workdps(50):
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
            root = mp.mpf(node)
            for _ in range(2):
                now, before = mp.legendre(m, root), mp.legendre(m - 1, root)
                root -= now * (1 - root**2) / (m * (before - root * now))
            assert node == (float(root) if abs(root) > mp.mpf("1e-40") else 0.0)
            assert weight == float(2 * (1 - root**2) / (m * mp.legendre(m - 1, root)) ** 2)
