"""law.check: a law that is right agrees, also where corrections fade slowly, and one that is 3 % off does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.growth_curves import Curve

x, R = mf.x, sp.Rational


def stream(f: mf.Block, weight: sp.Expr, bias: sp.Expr) -> mf.Residual:
    return mf.Residual(f >> mf.Linear(weight, bias))


SLOW = {
    "1 - c ~ l^-0.03, a series in its root": (stream(mf.LayerNorm() >> mf.Activate(mf.relu), R(1), R(1, 8)), "gap", "exponent"),
    "1 - c ~ l^-0.2": (stream(mf.LayerNorm() >> mf.Activate(mf.sin), R(4, 5), R(2, 5)), "gap", "exponent"),
    "q ~ l beside 400 sqrt(l)": (stream(mf.Activate(mf.Activation(sp.sin(5 * x) * sp.exp(-(x**2) / 2))), R(2), R(2, 5)), "q", "rate"),
    "a logarithm beside 180 sqrt(l)": (
        stream(mf.Activate(mf.Activation(sp.cos(4 * x) * sp.exp(-(x**2) / 2))), R(2), R(2, 5)),
        "apjn",
        "log_coefficient",
    ),
    "c comes to its limit as l^-0.075, a series in that": (
        stream(mf.LayerNorm() >> mf.MLP(mf.gelu, R(1), R(1)), R(1), R(0)),
        "gap",
        "limit",
    ),
    "1 - c carried by q, a series in l^(-1/4)": (stream(mf.Activate(mf.Activation(1 / (2 + x**2))), R(5, 4), R(6, 5)), "gap", "exponent"),
}


@pytest.mark.parametrize("name", SLOW)
def test_right_laws_agree_and_wrong_ones_do_not(name: str) -> None:
    net, quantity, constant = SLOW[name]
    law = mf.growth(net)
    seen = law.check()
    assert seen.agrees, seen
    own = getattr(law, quantity)
    wrong = replace(law, **{quantity: replace(own, **{constant: getattr(own, constant) * R(103, 100)})}).check()
    assert "disagrees" in {f.verdict for f in wrong.fits if (f.quantity, f.name) == (own.quantity, constant)}, wrong


@pytest.mark.parametrize("quantity", ["q", "gap"])
def test_a_bounded_limit_is_compared_with_the_run(quantity: str) -> None:
    law = mf.growth(mf.mlp(mf.erf), sigma_w=2, sigma_b=R(1, 5))
    own = getattr(law, quantity)
    assert [(f.name, f.verdict) for f in law.check().fits] == [("limit", "agrees"), ("limit", "agrees"), ("rate", "agrees")]
    wrong = replace(law, **{quantity: replace(own, limit=own.limit * R(102, 100))}).check()
    assert [f.verdict for f in wrong.fits if f.quantity == own.quantity] == ["disagrees"]


@pytest.mark.parametrize("net", [mf.Residual(mf.Derf() >> mf.Linear()), mf.residual_mlp(mf.elu(1), 1, 0, norm=mf.LayerNorm())])
def test_a_limit_that_is_approached_slowly_is_compared_with_its_series(net: mf.Block) -> None:
    """the second as l^-0.03: a fit that hardly moves tells its error by the last order of the series"""
    law = mf.growth(net)
    (limit,) = (f for f in law.check().fits if f.quantity == "1 - c")
    assert (limit.name, limit.verdict) == ("limit", "agrees")
    wrong = replace(law, gap=replace(law.gap, limit=law.gap.limit * R(103, 100))).check()
    assert "disagrees" in {f.verdict for f in wrong.fits if f.quantity == "1 - c"}


def test_what_stays_where_it_starts_is_no_power_of_the_depth() -> None:
    law = mf.growth(mf.mlp(mf.relu), sigma_w=sp.sqrt(2), sigma_b=0)
    assert [(f.quantity, f.verdict) for f in law.check().fits if f.name == "exponent" and f.predicted == 0] == [
        ("q", "agrees"),
        ("J", "agrees"),
    ]
    grows = replace(mf.growth(mf.mlp(mf.relu), sigma_w=sp.sqrt(2), sigma_b=1), q=law.q).check()
    assert [f.verdict for f in grows.fits if f.quantity == "q"] == ["disagrees"]


def test_what_is_not_compared_is_said_and_is_no_agreement() -> None:
    jumps = mf.growth(mf.mlp(mf.sign)).check(depth=1000)
    assert (jumps.not_compared, jumps.agrees) == (("J",), True)
    assert repr(jumps).endswith("J: not compared")
    nothing = replace(jumps, fits=())
    assert (nothing.not_compared, nothing.agrees) == (("q", "1 - c", "J"), False)


BESIDE, SETTLED = {"alpha": R(7, 10), "sigma_w": R(9, 10), "sigma_b": R(3, 10)}, {"sigma_w": R(4, 5), "sigma_b": R(3, 10)}
THOUSANDTH = {
    "of the slope of q": (mf.Residual(mf.Derf() >> mf.Linear()), BESIDE, "q", "rate"),
    "of the exponent of q": (mf.Residual(mf.Derf() >> mf.Linear()), BESIDE, "q", "exponent"),
    "of J": (mf.Residual(mf.Derf() >> mf.Linear()), BESIDE, "apjn", "rate"),
    "of c*": (mf.Residual(mf.Derf() >> mf.Linear()), BESIDE, "gap", "limit"),
    "of q*": (mf.mlp(mf.erf), SETTLED, "q", "limit"),
    "of what merges": (mf.mlp(mf.erf), SETTLED, "gap", "rate"),
    "of what vanishes": (mf.mlp(mf.erf), SETTLED, "apjn", "rate"),
    "of a power": (mf.pre_norm(norm=mf.LayerNorm(), attention=mf.UniformAttention(16), mlp=mf.MLP(mf.relu)), {}, "q", "exponent"),
}


@pytest.mark.parametrize("name", THOUSANDTH)
def test_a_law_is_judged_by_the_error_of_its_fit(name: str) -> None:
    """a thousandth off, where that is many times the error: the right constant agrees and the wrong one does not"""
    net, at, quantity, constant = THOUSANDTH[name]
    law = mf.growth(net, **at)
    assert law.check().agrees, law.check()
    own = getattr(law, quantity)
    wrong = replace(law, **{quantity: replace(own, **{constant: getattr(own, constant) * R(1001, 1000)})}).check()
    shown = "rate^stretch" if own.kind == "stretched" else constant
    (fit,) = (f for f in wrong.fits if (f.quantity, f.name) == (own.quantity, shown))
    assert fit.verdict == "disagrees", wrong
    assert abs(fit.fitted - fit.predicted) > 3 * fit.error


@pytest.mark.parametrize("lam", [0.6, 0.3])
def test_what_settles_exponentially_is_fitted_where_it_has_settled(lam: float) -> None:
    """J of relu and attention comes to 1/n as the root of 1 - c ~ e^(-0.0019 l), and the rate of that is known to its digits"""
    scales = {"sigma_Q": 0.5, "sigma_K": 0.5, "sigma_V": 0.8, "sigma_O": 0.9, "sigma_1": 0.7, "sigma_2": 1.1}
    law = mf.growth(mf.deep_norm(attention=mf.Attention(), mlp=mf.MLP(mf.relu)))
    seen = law.check(alpha_skip=1.5, lam=lam, n=16, **scales)
    assert seen.agrees, seen
    (exponent,) = (f for f in seen.fits if f.quantity == "J")
    assert (exponent.name, exponent.predicted) == ("exponent", 0)
    assert abs(exponent.fitted) < 1e-9
    (rate,) = (f for f in seen.fits if f.name == "rate")
    assert rate.fitted == pytest.approx(rate.predicted, rel=1e-10)


def test_an_agreement_says_that_the_constant_is_known() -> None:
    """a logarithm beside the power is left out: the fit still moves by half a percent, and what it comes near to does not agree yet"""
    l = np.geomspace(1, 1e6, 2000)
    columns = [np.log(l), np.ones_like(l)]
    for part, verdict in ((1.0, "not settled at this depth"), (0.05, "agrees")):
        curve = Curve("q", l, np.log(l) + part * np.log(1 + np.log(l)), [], [])
        now = curve.fit("exponent", 1.0, curve.y, columns).fitted
        fit = curve.fit("exponent", now, curve.y, columns)
        assert (fit.verdict, fit.error < 0.02 / 3) == (verdict, verdict == "agrees")
        assert abs(fit.fitted - 1) < 10 * fit.error


@pytest.mark.parametrize(("curve", "fallen"), [({"omitted": 1.5}, 8e-3 / 8), ({"steep": True}, 8e-3**2), ({}, 8e-3)])
def test_a_move_that_is_small_by_chance_counts_as_what_the_one_before_falls_to(curve: dict[str, float], fallen: float) -> None:
    l = np.geomspace(1, 1e4, 400)
    steps = iter([1.0, 1.0 + 1e-12, 1.008])
    fit = Curve("q", l, np.log(l), [], [], **curve).fit("exponent", 1.0, np.log(l), [np.log(l)], constant=lambda _: next(steps))
    assert fit.error == pytest.approx(fallen, rel=1e-3)


SMALL = 1 / sp.sqrt(mf.L)


@pytest.mark.parametrize(
    ("net", "ends"),
    [
        (mf.Residual(mf.MLP(mf.relu, 1, 1), scale=SMALL), lambda depth: (1 + 0.5 / depth) ** depth),
        (mf.sas(norm=mf.LayerNorm(), mlp=mf.MLP(mf.relu, 1, 1), n=9, sigma_Q=0), None),
        (mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(9, 1, 1, 1, 1), mlp=mf.MLP(mf.gelu, 1, 1), scale=SMALL), None),
    ],
    ids=["residual", "sas", "pre-LN"],
)
def test_where_a_repeat_depends_on_the_depth_networks_of_all_depths_are_compared(net: mf.Block, ends: Any) -> None:
    seen = mf.growth(net).check(depth=10_000)
    assert seen.agrees, seen
    assert seen.run.layers[-1] == seen.run.depth == 10_000
    if ends is not None:
        assert seen.run.q[-1] == pytest.approx(ends(10_000), rel=1e-11)


def test_networks_of_a_unit_that_is_scaled_by_how_many_there_are() -> None:
    """each of its own depth, by quadrature"""
    unit = mf.GAU(mf.silu, s=8, n=4, d=16, e=16)
    law = mf.growth(mf.Residual(mf.RMSNorm() >> unit, scale=SMALL))
    seen = law.check(depth=2000)
    assert seen.run.depth == 2000
    assert {fit.quantity for fit in seen.fits} == {"q", "1 - c", "J"}
    assert seen.agrees, seen


def test_networks_too_deep_for_one_by_one_are_leapt() -> None:
    law = mf.growth(mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu, 1, 1), scale=SMALL))
    assert law.check(depth=10**8).run.depth == 10**8
