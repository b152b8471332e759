"""Bounds on the rounding of closed forms: no value is further from the truth, at exact doubles, than its bound says."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric import primitives
from meanfield.numeric.lowering import Lowering
from meanfield.numeric.programs import program_of
from meanfield.numeric.rounding import rounding_bound

x, q, p, delta = mf.x, mf.q, mf.p, mf.delta

#: what closed forms are made of, each with more roundings than terms, factors or arguments show
FORMS = {
    "a sum of three": mf.gelu.second_moment(q),
    "sums in a gap": mf.gelu.gap(q, delta),
    "a sine of a rounded number": mf.E(sp.sin(sp.sqrt(2) * x) + sp.cos(sp.sqrt(2) * x), q, mean=30),
    "a reciprocal root": mf.E(sp.exp(-(x**2)), q, mean=1),
    "a library's power": mf.E(sp.Abs(x) ** sp.Rational(2, 3), q),
    "a scaled erfc": mf.elu.mean(q),
    "a chirp": mf.E(sp.cos(x**2), q, mean=3),
}


@pytest.mark.parametrize("name", FORMS)
def test_bounds_hold_at_exact_doubles(name: str) -> None:
    e, draws = FORMS[name], np.random.default_rng(3)
    order = tuple(sorted(e.free_symbols, key=str))
    v = 10.0 ** draws.uniform(-12, 12, 400)
    table = np.array([{q: v, delta: v * 10.0 ** draws.uniform(-3, 0, v.size)}[s] for s in order])
    value, bound = program_of(e, order)(table)
    exact = sp.lambdify(order, Lowering().numeric(e).rewrite(sp.erfc), "mpmath")
    normal = np.flatnonzero(np.abs(value) > 1e-290)
    assert normal.size > 50
    with mp.workdps(400):
        off = [abs(mp.mpf(float(value[g])) - exact(*map(mp.mpf, table[:, g].tolist()))) for g in normal]
        assert all(o <= b for o, b in zip(off, bound[normal].tolist(), strict=True)), name
        assert max(o / b for o, b in zip(off, bound[normal].tolist(), strict=True)) > 0.1  # and none is far above


def test_bounds_have_the_conditions_of_their_values_alone() -> None:
    """of a moment of a variance that is one or the other, itself such a moment: sympy simplifies any other condition for minutes"""
    moment, v = sp.Function("moment"), mf.q
    for _ in range(3):
        v = moment(sp.Piecewise((v + mf.p, mf.p > 0), (v - mf.p, True)))
    bound = rounding_bound(v, size=lambda call: call)
    assert {case.cond for piecewise in bound.atoms(sp.Piecewise) for case in piecewise.args} == {mf.p > 0, sp.true}


def test_sums_are_seen_not_to_be_negative_as_they_are_written() -> None:
    """of a sum sympy seeks roots, for minutes where its numbers have many digits"""
    sizes = {q + p**2: False, q + sp.sqrt(q) * sp.exp(p): False, q * (1 + q) + sp.Rational(1, 3): False, q - 1: True, q + p: True}
    for e, unknown in sizes.items():
        assert rounding_bound(sp.sin(e)).has(sp.Abs(e, evaluate=False)) == unknown
    norm = mf.LayerNorm() >> mf.Linear(0.913, 0) >> mf.Activate(mf.sin) >> mf.Linear(0.606, 0)
    net = mf.MLP(mf.square, 0.755, 0.397, 0.315, 0.449) >> mf.Residual(norm, skip=0.55, scale=0.422)
    run = mf.propagate(net, 1, 3.0, q2=0.5, p=0.3)
    assert run.q[1] == pytest.approx(mf.propagate(net, 1, 3.0).q[1], rel=1e-14)


@pytest.mark.parametrize(
    ("f", "true", "most", "units"),
    [
        (primitives.scaled_erfc, lambda a: mp.exp(a * a) * mp.erfc(a), 100.0, 6),
        (primitives.angle_minus_sine, lambda t: t - mp.sin(t), 3.0, 6),
    ],
)
def test_primitives_are_as_good_as_their_bounds_say(f, true, most: float, units: int) -> None:  # type: ignore[no-untyped-def]
    with mp.workdps(50):
        for a in 10.0 ** np.random.default_rng(1).uniform(-6, np.log10(most), 3000):
            value, exact = mp.mpf(f(float(a))), true(mp.mpf(float(a)))
            assert abs(value - exact) <= units * mp.mpf(2) ** -53 * abs(exact), a
