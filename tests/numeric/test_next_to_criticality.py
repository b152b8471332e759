"""A billion layers next to criticality, where q rests and c drifts by 1e-8 a layer: leaps against every layer, or many digits."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric.wide_steps import IS_WIDE

DEPTH = 10**9

#: q, 1 - c and ln J after 1e9 layers of sin from q = 1, c = 0.5: each of them in C with 64 bits, sums compensated, of
#: q' = sigma^2 (1 - e^{-2q})/2, c' = sinh(q c)/sinh(q), chi = sigma^2 (1 + e^{-2q})/2, the excess sigma^2 - 1 in 113 bits
SINES = {
    1.0: (9.9999999203352205666e-10, 0.58602225670673122211, -20.285013170575156889),
    1.00001: (1.9999966667242132013e-05, 0.6085212007215132019, -10.248131598097184064),
    1.0001: (0.00019999666711106167988, 0.99942124469326060741, 5.2544060415523000428),
    1.001: (0.0019996671108370438129, 1.0, 1327.1149619413899454),
}


@pytest.mark.parametrize("sigma_w", SINES)
def test_a_billion_layers_of_sines_are_what_one_by_one_gives(sigma_w: float) -> None:
    run = mf.propagate(mf.mlp(mf.activations["sin"]), DEPTH, 1.0, c=0.5, sigma_w=sigma_w, sigma_b=0, record="last")
    assert [run.q[0], run.gap[0], run.log_apjn[0]] == pytest.approx(SINES[sigma_w], rel=1e-12)


def test_a_billion_layers_of_tanh() -> None:
    """from tables, to 1 - c of two other ways that agree to 2e-15"""
    run = mf.propagate(mf.mlp(mf.tanh), DEPTH, 1.0, c=0.5, sigma_w=1.0001, sigma_b=0, record="last")
    assert run.gap[0] == pytest.approx(0.99937428754045, rel=1e-13)


@pytest.mark.parametrize("excess", [0.01, 0.03, 0.1])
def test_a_product_that_grows_slowly_at_rest(excess: float) -> None:
    """ln chi is 1e-4 to 1e-2: to 40 digits 6,000 layers of q' = sigma^2 (2/pi) asin(2q/(1 + 2q)), the others at its fixed point"""
    sigma = (1 + excess) * math.sqrt(math.pi) / 2
    run = mf.propagate(mf.mlp(mf.erf), DEPTH, 1.0, c=0.5, sigma_w=sigma, sigma_b=0, record="last")
    with mp.workdps(40):
        square, q, log = mp.mpf(sigma) ** 2, mp.mpf(1), mp.mpf(0)
        for _ in range(6000):
            chi = square * 4 / mp.pi / mp.sqrt(1 + 4 * q)
            log, q = log + mp.log(chi), square * 2 / mp.pi * mp.asin(2 * q / (1 + 2 * q))
        log += (DEPTH - 6000) * mp.log(square * 4 / mp.pi / mp.sqrt(1 + 4 * q))
        expected = [float(q), float(log)]
    assert [run.q[0], run.log_apjn[0]] == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("phi", "critical"), [(mf.tanh, 1.0), (mf.erf, math.sqrt(math.pi) / 2)], ids=["tanh", "erf"])
def test_a_single_input_is_one_of_two(phi: mf.Activation, critical: float) -> None:
    """q and J do not know of another token, whose gap would have leaps of its own"""
    given: dict[str, Any] = {"sigma_w": 1.0001 * critical, "sigma_b": 0}
    alone, two = (mf.propagate(mf.mlp(phi), DEPTH, 1.0, record="last", **given, **c) for c in ({}, {"c": 0.5}))
    assert [alone.q[0], alone.log_apjn[0]] == pytest.approx([two.q[0], two.log_apjn[0]], rel=1e-12)


def test_what_moves_by_less_than_rounding_is_not_at_rest() -> None:
    """q next to its fixed point 2e-9, c falling by q^2 (1 - c^2)/6 a layer: 2.5e-10 after a billion, no layer of which moves a double"""
    sigma = 1 + 1e-9
    run = mf.propagate(mf.mlp(mf.activations["sin"]), DEPTH, 2e-9, c=0.5, sigma_w=sigma, sigma_b=0, record="last")
    with mp.workdps(30):
        rate, rest = mp.mpf(sigma) ** 2 - 1, mp.mpf(sigma) ** 2 - 1  # q' = q (1 + rate - q) to 1e-18
        squares = mp.quad(lambda n: (rest / (1 + (rest / mp.mpf(2e-9) - 1) * mp.exp(-rate * n))) ** 2, [0, DEPTH])
        gap = mp.mpf(0.5) + mp.mpf(0.5) * mp.mpf(0.75) / 6 * squares
    assert run.gap[0] - 0.5 == pytest.approx(float(gap - mp.mpf(0.5)), rel=1e-5)


def test_a_skip_below_one_next_to_criticality() -> None:
    """0.8 x + tanh behind weights 0.60006: the drift of c is that of two settings of leaps, and ln J - ln q what q alone says"""
    net = mf.Residual(mf.Activate(mf.tanh) >> mf.Linear(0.60006, 0), skip=0.8)
    last = mf.propagate(net, DEPTH, 1.0, c=0.4, record="last")
    kept = mf.propagate(net, DEPTH, 1.0, c=0.4, record=[0, 10**7])
    assert last.status == "ok"
    assert [last.q[0], last.gap[0], last.log_apjn[0]] == pytest.approx([kept.q[-1], kept.gap[-1], kept.log_apjn_forward[-1]], rel=1e-12)
    assert kept.log_apjn[1] + kept.log_apjn_forward[1] == pytest.approx(kept.log_apjn[0], rel=1e-11)


def test_a_single_input_at_critical_weights_has_a_product() -> None:
    """an eigenvalue that is 1 but for rounding, twice: ln J was no number"""
    run = mf.propagate(mf.mlp(mf.gelu), DEPTH, 1.0, sigma_w=1.4811144127083482, sigma_b=0.2592135696788147, record="last")
    assert run.status == "ok"
    assert abs(run.log_apjn[0]) < 1e-6


def test_a_line_is_nothing_beside_itself() -> None:
    """q' = sigma_w^2 q: what a line is beside itself has no mean, and 10^12 repeats are one power"""
    weight = 1 + 1e-12
    run = mf.propagate(mf.mlp(mf.linear), 10**12, q=1.0, c=0.5, sigma_w=weight, sigma_b=0, record="last")
    assert run.q[-1] == pytest.approx(float(mp.mpf(weight) ** (2 * 10**12)), rel=1e-12)
    assert run.c[-1] == pytest.approx(0.5, rel=1e-15)


@pytest.mark.parametrize("norm", [mf.RMSNorm(), mf.LayerNorm()], ids=["RMSNorm", "LayerNorm"])
@pytest.mark.parametrize(("sigma_b", "depth"), [(2e-8, 10**15), (1e-8, 10**15), (1e-5, 10**10), (3e-4, 10**8)])
def test_behind_a_norm_biases_take_their_part_of_every_layer(norm: mf.Block, sigma_b: float, depth: int) -> None:
    """ln J = ln(1 - c)/(1 - c_0) = -depth ln(1 + sigma_b^2/sigma_w^2), a layer of which may be less than the rounding of 1"""
    run = mf.propagate(mf.Linear() >> norm, depth, 1.0, c=0.5, sigma_w=1.3, sigma_b=sigma_b, record="last")
    with mp.workdps(40):
        log = -depth * mp.log1p(mp.mpf(sigma_b) ** 2 / mp.mpf(1.3) ** 2)
        gap = mp.exp(log) / 2
    assert run.status == "ok"
    assert [run.log_apjn[0], run.gap[0]] == pytest.approx([float(log), float(gap)], rel=1e-12)


def test_behind_a_norm_without_biases_nothing_is_lost() -> None:
    run = mf.propagate(mf.Linear() >> mf.RMSNorm(), 10**15, 1.0, c=0.5, sigma_w=1.3, sigma_b=0, record="last")
    assert (run.log_apjn[0], run.gap[0], run.status) == (0.0, 0.5, "ok")


@pytest.mark.parametrize("sigma_w", [1e-8, 1e-3])
def test_a_factor_that_only_digits_tell_from_1_is_refused(sigma_w: float) -> None:
    """tanh is nearly a line: a layer's ln J is about sigma_w^4, what cancels in doubles counts 1e12 times"""
    net = mf.Linear() >> mf.Activate(mf.tanh) >> mf.RMSNorm()
    with pytest.raises(ArithmeticError, match="rounding shows"):
        mf.propagate(net, 10**12, 1.0, c=0.5, sigma_w=sigma_w, sigma_b=0, record="last")


#: q, 1 - c and ln J after 2e7 layers of erf from q = 1, c = 0.6 at sigma_b = 0.2, in C with 113 bits, one by one
EDGE = {
    1.152794260696683: (0.4657611701393958982, 1.1103123006442047527e-12, -15.842754809654817168),
    1.1527954250200507: (0.46576295343934920516, 3.5588334840759616949e-07, -0.35743576901374965695),
    1.15279656628751: (0.46576470142994057815, 5.0586701843976874525e-06, 14.821214908125045401),
    1.1529106930334458: (0.46593951803041007666, 0.00050570600381461251246, 1532.5444383640130097),
}


@pytest.mark.skipif(not IS_WIDE, reason="no floats here are wider than doubles")
@pytest.mark.parametrize("sigma_w", EDGE)
@pytest.mark.parametrize("record", ["last", [10, 10**6, 2 * 10**7]])
def test_next_to_the_edge_of_chaos_rounding_does_not_add_up(sigma_w: float, record: Any) -> None:
    """1 - c settles over 1e4 to 1e8 layers, of which doubles lose the digits: 7e-9 of ln J at 1e9 layers"""
    run = mf.propagate(mf.mlp(mf.erf), 2 * 10**7, 1.0, c=0.6, sigma_w=sigma_w, sigma_b=0.2, record=record)
    assert run.status == "ok"
    assert [run.q[-1], run.gap[-1], run.log_apjn_forward[-1]] == pytest.approx(EDGE[sigma_w], rel=1e-12)


@pytest.mark.skipif(not IS_WIDE, reason="no floats here are wider than doubles")
def test_a_billion_layers_next_to_the_edge_of_chaos() -> None:
    """the last 98 per cent of them at the slope of the fixed point, to 40 digits"""
    sigma_w = 1.15279656628751
    run = mf.propagate(mf.mlp(mf.erf), DEPTH, 1.0, c=0.6, sigma_w=sigma_w, sigma_b=0.2, record="last")
    with mp.workdps(40):
        w2, b2 = mp.mpf(sigma_w) ** 2, mp.mpf(0.2) ** 2
        q = mp.findroot(lambda v: b2 + w2 * 2 / mp.pi * mp.asin(2 * v / (1 + 2 * v)) - v, 0.4657)
        rate = mp.log(4 * w2 / (mp.pi * mp.sqrt(1 + 4 * q)))
        gap = mp.findroot(lambda d: (b2 + w2 * 2 / mp.pi * mp.asin(2 * q * (1 - d) / (1 + 2 * q)) - (1 - d) * q) / d, 5e-6)
        log = mp.mpf("14.821214908125045401") + rate * (DEPTH - 2 * 10**7)
    assert [run.gap[0], run.log_apjn[0]] == pytest.approx([float(gap), float(log)], rel=1e-12)


def test_a_billion_layers_that_are_neither_smooth_nor_at_rest_are_refused() -> None:
    """one by one their rounding adds up to 1e-9 of q"""
    net = mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu, 1, 1), scale=1 + (-1) ** sp.Symbol("l") / 2)
    with pytest.raises(ArithmeticError, match=r"neither come to rest nor are smooth in log depth, .* and that of .* layers .* adds up"):
        mf.propagate(net, DEPTH, 1.0, c=0.5, record="last")
    assert mf.propagate(net, 10**6, 1.0, c=0.5, record="last").q[0] == pytest.approx(1 + 625_000, rel=1e-10)


@pytest.mark.parametrize("phi", [mf.sign, mf.Activation(sp.sqrt(sp.Abs(mf.x)))], ids=["sign", "root"])
def test_an_infinite_j_is_known_layer_by_layer_and_no_reason_to_speak_of_rest(phi: mf.Activation) -> None:
    net = mf.Residual(mf.mlp(phi, 1, 0))
    run = mf.propagate(net, 10**7, 1.0, record="last")
    assert (run.status, run.log_apjn_forward[-1]) == ("infinite APJN", mp.inf)
    assert run.q[-1] > 10**6
    with pytest.raises(ArithmeticError, match=f"depth = {DEPTH}: 1 of the settings have no finite J, or"):
        mf.propagate(net, DEPTH, 1.0, record="last")


JUMP, ROOT = mf.mlp(mf.sign, 1.2, 0.1), mf.mlp(mf.Activation(sp.sqrt(sp.Abs(mf.x))), 1.2, 0.1)
PAIR = {"c": 0.5}
AT_REST = {
    "jump": (JUMP, {}), "pair": (JUMP, PAIR), "pooled": (JUMP, {**PAIR, "start": "pooled"}), "root": (ROOT, {}),
    "norm": (mf.LayerNorm() >> JUMP, PAIR),
}  # fmt: skip


@pytest.mark.parametrize(("net", "start"), AT_REST.values(), ids=AT_REST)
def test_an_infinite_j_is_known_at_once_where_the_rest_comes_to_rest(net: mf.Block, start: dict[str, Any]) -> None:
    layers = [0, 1, 2, 1500]
    few = mf.propagate(net, 2000, 1.0, record=[*layers, 2000], **start)
    deep = mf.propagate(net, DEPTH, 1.0, record=[*layers, DEPTH], **start)
    last = mf.propagate(net, DEPTH, 1.0, record="last", **start)
    assert few.status == deep.status == last.status == "infinite APJN"
    for name in ("q", "log_apjn", "log_apjn_forward", "log_chi_product", "chi", *(["gap"] if start else [])):
        np.testing.assert_array_equal(getattr(deep, name), getattr(few, name))
        if name not in ("log_apjn", "log_chi_product", "chi"):
            assert getattr(last, name)[-1] == getattr(few, name)[-1]
