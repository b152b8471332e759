"""Critical initialisation: published points, 30-digit solutions, lines and points in symbols, general networks, no answer."""

from __future__ import annotations

import math
import re

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from analysis.oracle_points import CASES, DIGITS, critical_variance

import meanfield as mf
from meanfield.analysis import elimination
from meanfield.analysis.curves import Curve
from meanfield.analysis.maps import map_of
from meanfield.symbols import known

x = mf.x
mu = sp.Symbol("mu", real=True)


def test_published_points_at_a_variance() -> None:
    """theory.md section 6"""
    for phi, q, w2, b2 in (
        (mf.tanh, 0.5, 1.68797512057754, 0.0380412011112685),
        (mf.tanh, 1, 2.15330264890279, 0.150964629378553),
        (mf.erf, 1, 1.75620368276018, 0.184139677807453),
    ):
        point = mf.critical(mf.mlp(phi), q=q)
        assert list(point) == ["sigma_w", "sigma_b"]
        assert point.status == "ok"
        assert point["sigma_w"] ** 2 == pytest.approx(w2, rel=5e-15)
        assert point["sigma_b"] ** 2 == pytest.approx(b2, rel=5e-15)
        assert max(point.residuals.values()) < 1e-20


def test_half_stable_points() -> None:
    gelu = mf.critical(mf.mlp(mf.gelu))
    assert gelu["q"] == pytest.approx((3 + math.sqrt(17)) / 2, rel=4e-16)
    assert gelu.exact == (3 + sp.sqrt(17)) / 2
    assert gelu["sigma_w"] == pytest.approx(1.40821101311, rel=1e-11)
    assert gelu["sigma_b"] == pytest.approx(0.415839380959, rel=1e-11)
    assert gelu.chi_parallel == pytest.approx(1, abs=1e-14)
    assert gelu.bracket is not None
    assert gelu.bracket[0] < gelu["q"] < gelu.bracket[1]
    silu = mf.critical(mf.mlp(mf.silu))
    assert silu["q"] == pytest.approx(14.3201736180258, rel=4e-15)
    assert silu["sigma_w"] ** 2 == pytest.approx(1.98800467826949, rel=3e-15)
    assert silu["sigma_b"] ** 2 == pytest.approx(0.55514317072153, rel=1e-14)
    for phi, w in ((mf.tanh, 1.0), (mf.erf, math.sqrt(math.pi / 4)), (mf.elu, 1.0)):
        origin = mf.critical(mf.mlp(phi))
        assert (origin["q"], origin["sigma_b"]) == (0.0, 0.0)
        assert origin["sigma_w"] == pytest.approx(w, rel=1e-15)


@pytest.mark.parametrize("power", [3, 5, 7, 9])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_critical_origin_is_left_by_the_first_power_that_there_is(power: int, sign: int) -> None:
    """q' = q + 2 m!! c q^((m + 1)/2) + ... for phi = x + c x^m: whichever order of the expansion shows it"""
    point = mf.critical(mf.mlp(mf.Activation(mf.x + sign * mf.x**power / 100)), sigma_b=0)
    assert point.status == ("unstable" if sign > 0 else "ok")


@pytest.mark.parametrize(("phi", "status"), [(mf.gelu, "unstable"), (mf.hard_swish, "unstable"), (mf.tanh, "ok"), (mf.elu, "ok")])
def test_a_critical_origin_is_one_that_q_comes_to_or_leaves(phi: mf.Activation, status: str) -> None:
    """dq'/dq = 1 there, and q' - q = (6/pi) q^2 + ... > 0 for gelu, -2 q^2 + ... < 0 for tanh: as the fixed point at q = 0 has it"""
    point = mf.critical(mf.mlp(phi), sigma_b=0)
    assert (point["q"], point.status) == (0, status)
    leaves = "q leaves this fixed point: dq'/dq = 1 and q' > q beside it"
    assert (leaves in repr(point), "leaves this fixed point" in point.latex()) == (status == "unstable",) * 2
    origin = mf.fixed_points(mf.mlp(phi), sigma_w=point["sigma_w"], sigma_b=0)[0]
    assert (origin.q, origin.stable) == (0, status == "ok")
    assert [other.status for other in (mf.critical(mf.mlp(phi)), *mf.critical(mf.mlp(phi)).others) if other["q"] == 0] == [status]


@pytest.mark.parametrize("name", ["sin", "erf(3x/4)", "x/sqrt(1+x^2)"])
def test_on_the_line_against_thirty_digits(name: str) -> None:
    case = CASES[name]
    point = mf.critical(mf.mlp(case.activation), sigma_b=0.15)
    with mp.workdps(DIGITS):
        q = critical_variance(case, mp.mpf("0.15"), point["q"])
        assert abs(point["q"] - q) <= 2.3e-16 * q
        assert abs(point["sigma_w"] * mp.sqrt(case.slope(q)) - 1) < 3e-16
        assert point.bracket is not None
        assert point.bracket[0] <= q <= point.bracket[1]
    other_way = mf.critical(mf.mlp(case.activation), sigma_w=point["sigma_w"])
    assert other_way["sigma_b"] == pytest.approx(0.15, rel=1e-13)


def test_the_line_in_symbols() -> None:
    line = mf.critical(mf.mlp(mf.sin), q=mf.q)
    second, slope = (1 - sp.exp(-2 * mf.q)) / 2, (1 + sp.exp(-2 * mf.q)) / 2
    assert sp.simplify(line["sigma_w"] ** 2 - 1 / slope) == 0
    assert sp.simplify(line["sigma_b"] ** 2 - (mf.q - second / slope)) == 0
    assert r"\sigma_w^{2} &=" in line.latex()
    relu = mf.critical(mf.Residual(mf.Activate(mf.relu) >> mf.Linear(), skip=mu), mu=mu, q=mf.q)
    assert sp.simplify(relu["sigma_w"] ** 2 - 2 * (1 - mu**2)) == 0
    assert relu["sigma_b"] == 0


def test_scale_invariant_nets_are_critical_at_every_variance() -> None:
    for net, w in (
        (mf.mlp(mf.relu), math.sqrt(2)),
        (mf.mlp(mf.leaky_relu(sp.Rational(1, 10))), math.sqrt(2 / 1.01)),
        (mf.mlp(mf.abs), 1.0),
        (mf.Residual(mf.Activate(mf.relu) >> mf.Linear(), skip=sp.Rational(3, 5)), math.sqrt(1.28)),
    ):
        point = mf.critical(net)
        assert point.status == "every q"
        assert dict(point) == {"sigma_w": pytest.approx(w, rel=1e-15), "sigma_b": 0.0}
        assert mf.critical(net, sigma_b=0).status == "every q"


def test_a_skip_left_open() -> None:
    """theory.md section 6: the line, not the corner of an identity map, where both conditions are one; the skip stays a letter"""
    skip = sp.Symbol("mu", positive=True)

    def residual(phi: mf.Activation, **bias: int) -> mf.Block:
        return mf.Residual(mf.Activate(phi) >> mf.Linear(**bias), skip=skip)

    for phi, w2 in ((mf.relu, 2), (mf.leaky_relu(sp.Rational(1, 2)), sp.Rational(8, 5)), (mf.abs, 1)):
        for given in ({}, {"q": 1}, {"q": mf.q}):
            line = mf.critical(residual(phi, sigma_b=0), **given)
            assert line.status == "line"
            assert sp.expand(line["sigma_w"] ** 2 - w2 * (1 - skip**2)) == 0
            both = mf.critical(residual(phi), **given)
            assert sp.expand(both["sigma_w"] ** 2 - w2 * (1 - skip**2)) == 0
            assert both["sigma_b"] == 0
        for given in ({}, {"q": 1}):
            assert mf.critical(residual(phi, sigma_b=sp.Rational(1, 10)), **given).status == "none"  # a bias adds to each q
    assert mf.critical(residual(mf.relu), mu=skip).status == "line"
    origin = mf.critical(residual(mf.sin, sigma_b=0))
    assert (origin.status, origin["q"], sp.expand(origin["sigma_w"] ** 2)) == ("line", 0, 1 - skip**2)
    assert mf.critical(residual(mf.sin, sigma_b=0), q=1).status == "none"
    bias = mf.critical(residual(mf.sin), q=mf.q)["sigma_b"]
    alone = mf.critical(residual(mf.sin), mu=sp.Rational(1, 2), q=mf.q)["sigma_b"]
    assert sp.simplify(bias**2 - (1 - skip**2) * alone**2 * sp.Rational(4, 3)) == 0
    norm = mf.critical(mf.Residual(mf.LayerNorm() >> mf.Activate(mf.erf) >> mf.Linear(), skip=skip))
    assert norm["sigma_b"].free_symbols == {known("sigma_w")}
    assert "for any mu" in norm.reason
    origin = mf.critical(residual(mf.sin))
    assert (origin["q"], origin["sigma_b"], sp.expand(origin["sigma_w"] ** 2)) == (0, 0, 1 - skip**2)


@pytest.mark.parametrize("phi", [mf.gelu, mf.silu], ids=["gelu", "silu"])
def test_a_half_stable_point_is_where_it_is_beside_any_skip(phi: mf.Activation) -> None:
    """dq'/dq - chi does not hold the skip: q* is that of the net without one, and both squares have the factor 1 - mu^2"""
    line, alone = mf.critical(mf.Residual(mf.Activate(phi) >> mf.Linear(), skip=mu)), mf.critical(mf.mlp(phi))
    assert (line.status, line["q"]) == ("line", pytest.approx(alone["q"], rel=1e-12))
    for name in ("sigma_w", "sigma_b"):
        assert float(sp.N(line[name].subs(mu, 0.6))) == pytest.approx(0.8 * alone[name], rel=1e-11)


def test_a_point_that_moves_with_what_is_open_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"3 parameters are open \(mu, sigma_1, sigma_2\). sigma_2: q\* depends on what is open"):
        mf.critical(mf.Residual(mf.MLP(mf.gelu), skip=mu))


def test_a_limit_is_no_family_of_solutions() -> None:
    """DyT(alpha x) with alpha -> 0 and alpha sigma_2 held is linear, and critical at each q: a solution to doubles far out alone"""
    net = mf.pre_norm(norm=mf.DyT(), attention=mf.Attention(8, 0.64, 0.64, 0.64, 0.64), mlp=mf.MLP(mf.relu, sigma_1=0.64), skip=0.9)
    assert mf.critical(net).status == "none"
    weightless = mf.pre_norm(norm=mf.DyT(), attention=mf.Attention(8, 0.64, 0.64, 0.64, 0.64), mlp=mf.MLP(mf.relu, sigma_1=0.64))
    assert mf.critical(weightless).status == "none"  # alpha = 0 leaves no branch


def test_norms() -> None:
    """chi = 1 is the line sigma_b^2 = sigma_w^2 (C - A), the same for each skip below 1; with skip 1 everything is critical"""
    net = mf.Residual(mf.LayerNorm() >> mf.Activate(mf.erf) >> mf.Linear(), skip=mu)
    expected = math.sqrt(4 / (math.pi * math.sqrt(5)) - 2 / math.pi * math.asin(2 / 3))
    for m in (0.3, 0.9):
        line = mf.critical(net, mu=m)
        assert line.status == "line"
        assert float(line["sigma_b"] / known("sigma_w")) == pytest.approx(expected, rel=1e-14)
    assert mf.critical(net, mu=1).status == "everywhere"
    point = mf.critical(net, mu=0.3, sigma_w=1.7)
    assert point["sigma_b"] == pytest.approx(1.7 * expected, rel=1e-14)
    (fixed,) = [f for f in mf.fixed_points(net, mu=0.3, sigma_w=1.7, sigma_b=point["sigma_b"]) if f.c == 1]
    assert fixed.chi == pytest.approx(1, abs=1e-14)
    assert fixed.q == pytest.approx(point["q"], rel=1e-14)
    gelu = mf.critical(mf.RMSNorm() >> mf.Activate(mf.gelu) >> mf.Linear())
    assert sp.simplify(gelu["sigma_b"] ** 2 / known("sigma_w") ** 2 - sp.sqrt(3) / (18 * sp.pi)) == 0  # E phi'^2 - E phi^2 at q = 1
    open_skip = mf.critical(mf.Residual(mf.LayerNorm() >> mf.Activate(mf.gelu) >> mf.Linear(), skip=mu), sigma_b=0.2)
    at_bias = 0.2 * math.sqrt(18 * math.pi / math.sqrt(3))  # not skip 1, where q grows
    assert float(open_skip["sigma_w"]) == pytest.approx(at_bias, rel=1e-14)
    post = mf.critical(mf.Activate(mf.softplus) >> mf.Linear() >> mf.LayerNorm())
    assert (post.status, post.reason[:9]) == ("none", "sigma_b^2")  # E phi'^2 < E phi^2: a bias would have to be imaginary


def test_parameters_inside_expectations() -> None:
    """activations with a scale of their own, and a transformer: chi and q' as fixed_points has them"""
    swish = mf.critical(mf.mlp(mf.activations["silu"](sp.Symbol("beta", positive=True))), sigma_b=0.3)
    assert swish["sigma_w"] == pytest.approx(1.40996619756273, rel=1e-10)  # of each swish; sigma_b goes with 1/beta, q with its square
    assert swish["beta"] == pytest.approx(0.745079304988087 / 0.3, rel=1e-9)
    assert swish["q"] == pytest.approx(14.3201736180258 / swish["beta"] ** 2, rel=1e-9)
    net = mf.Activate(mf.derf(None)) >> mf.Linear()
    for given in ({"q": 1.0, "sigma_b": 0.3}, {"sigma_w": 1.5, "sigma_b": 0.3}):
        point = mf.critical(net, **given)
        settings = {**given, **point}
        at_one = mf.fixed_points(net, **{k: settings[k] for k in ("sigma_w", "sigma_b", "alpha")})[0]
        assert at_one.q == pytest.approx(settings["q"], rel=1e-10)
        assert at_one.chi == pytest.approx(1, abs=1e-10)
    values = {"n": 16, **dict.fromkeys(["sigma_Q", "sigma_K", "sigma_V", "sigma_O", "sigma_1"], 1.0), "alpha": 2.0}
    block = mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(softmax_derivative=False), mlp=mf.MLP(mf.relu), skip=sp.Rational(9, 10))
    point = mf.critical(block, **values)
    at_one = max((f for f in mf.fixed_points(block, **values, sigma_2=point["sigma_2"]) if f.c == 1), key=lambda f: f.q)
    assert at_one.q == pytest.approx(point["q"], rel=1e-11)
    assert at_one.chi == pytest.approx(1, abs=1e-11)
    family = mf.critical(mf.Residual(mf.MLP(mf.relu), skip=sp.Rational(1, 2)), q=1)
    assert family.status == "line"
    assert sp.simplify(family["sigma_1"] * known("sigma_2")) == sp.sqrt(sp.Rational(3, 2))


def test_a_threshold() -> None:
    theta = sp.Symbol("theta", real=True)
    point = mf.critical(mf.mlp(mf.Activation(sp.tanh(mf.x - theta))), sigma_w=1.6, sigma_b=0.3)
    z = np.linspace(-12, 12, 2001)
    weight, u = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum(), np.sqrt(point["q"]) * z - point["theta"]
    assert 1.6**2 * (weight * np.cosh(u) ** -4).sum() == pytest.approx(1, rel=1e-11)
    assert 1.6**2 * (weight * np.tanh(u) ** 2).sum() + 0.09 == pytest.approx(point["q"], rel=1e-11)


def test_a_limit_is_no_point() -> None:
    """chi = 1 as the skip grows without bound, and nowhere else"""
    block = mf.post_norm(
        norm=mf.RMSNorm(), attention=mf.Attention(8, 1, 1, 1, 1), mlp=mf.MLP(mf.relu, 1, 1), skip=sp.Symbol("mu", positive=True)
    )
    assert mf.critical(block).status == "none"


def test_no_answer() -> None:
    relu = mf.critical(mf.mlp(mf.relu), sigma_b=0.2)
    assert (dict(relu), relu.status) == ({}, "none")
    with pytest.raises(KeyError, match="there is no sigma_w"):
        relu["sigma_w"]
    exp = mf.critical(mf.mlp(mf.exp))
    assert exp.status == "none"
    assert "dq'/dq > 1" in exp.reason
    runaway = mf.critical(mf.mlp(mf.exp), q=2)
    assert (runaway.status, runaway.chi_parallel) == ("unstable", pytest.approx(2))
    assert (runaway["sigma_w"], runaway["sigma_b"]) == (pytest.approx(math.exp(-2)), pytest.approx(1))
    softplus = mf.critical(mf.mlp(mf.softplus), q=1)
    assert softplus.status == "none"
    assert "sigma_b^2 = -" in softplus.reason
    assert mf.critical(mf.mlp(mf.step), q=1).status == "none"
    values = {"n": 16, **dict.fromkeys(["sigma_Q", "sigma_K", "sigma_V", "sigma_O", "sigma_1"], 1.0)}
    post = mf.post_norm(norm=mf.LayerNorm(), attention=mf.Attention(softmax_derivative=False), mlp=mf.MLP(mf.relu))
    assert "sigma_2^2 = -2" in mf.critical(post, **values).reason


def test_derivatives_that_cancel_far_out() -> None:
    """the slope of sigma(u)^2 is a difference of quotients in e^u, both 1 to rounding where u is large"""
    assert mf.critical(mf.mlp(mf.softplus), sigma_b=0.2).status == "none"
    assert "> 1 at each point" in mf.critical(mf.mlp(mf.softplus)).reason


def test_a_wrong_equation_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """residuals are of the network, not of what was solved: squares off by 1e-12 are refused"""
    right = elimination.linear_solution

    def wrong(system: object, unknown: object) -> object:
        found = right(system, unknown)  # type: ignore[arg-type]
        return None if found is None else {s: v * (1 + sp.Rational(1, 10**12)) for s, v in found.items()}

    monkeypatch.setattr("meanfield.analysis.critical_problem.linear_solution", wrong)
    assert mf.critical(mf.mlp(mf.erf), q=1).status == "none"


def test_bad_input() -> None:
    net = mf.mlp(mf.tanh)
    with pytest.raises(ValueError, match=r"0 parameters are open.*sigma_b, sigma_w"):
        mf.critical(net, sigma_w=1, sigma_b=0)
    with pytest.raises(ValueError, match="unknown parameters: sigma_x"):
        mf.critical(net, sigma_x=1)
    with pytest.raises(ValueError, match="q = -1"):
        mf.critical(net, q=-1)
    with pytest.raises(ValueError, match="8 parameters are open"):
        mf.critical(mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)), q=1)
    with pytest.raises(ValueError, match="sigma_b = -1"):
        mf.critical(net, sigma_b=-1)


@pytest.mark.parametrize(
    "net",
    [
        mf.Activate(mf.tanh) >> mf.Dropout(0.3) >> mf.Linear(),
        mf.BatchNorm() >> mf.Activate(mf.erf) >> mf.Linear(),
        mf.Residual(mf.RMSNorm() >> mf.Activate(mf.gelu) >> mf.Dropout(0.2) >> mf.Linear(), skip=0.6),
    ],
    ids=["dropout", "batch norm", "residual"],
)
def test_nothing_is_critical_where_identical_inputs_come_apart(net: mf.Block) -> None:
    for found in (mf.critical(net), mf.critical(net, q=1), mf.critical(net, sigma_b=0.2)):
        assert (dict(found), found.status) == ({}, "none")
        assert "c = 1 is no fixed point" in found.reason


def test_a_mask_that_drops_nothing_leaves_the_critical_point() -> None:
    net = mf.Activate(mf.erf) >> mf.Dropout() >> mf.Linear()
    assert mf.critical(net, q=1, rate=0) == pytest.approx(mf.critical(mf.mlp(mf.erf), q=1), rel=1e-14)
    assert mf.critical(net, rate=0.1).status == "none"


def test_a_bias_of_a_line_that_is_a_number_is_named() -> None:
    """a norm behind relu: chi = 1 only without bias, for any weights beside a skip"""
    net = mf.Residual(mf.LayerNorm() >> mf.Activate(mf.relu) >> mf.Linear(), skip=sp.Symbol("mu", positive=True))
    line = mf.critical(net)
    assert line["sigma_b"] == 0
    assert line.reason.startswith("chi = 1 is a line: sigma_b = 0, for any ")


def test_the_point_at_the_origin_may_be_a_line_in_what_is_left() -> None:
    """dc'/dc = mu^2 + sigma_1^2 gelu'(0)^2 = 1 at q = 0, beside which solutions in numbers are looked at"""
    found = mf.critical(mf.Residual(mf.MLP(mf.gelu), skip=sp.Symbol("mu", positive=True)), sigma_2=1.0)
    assert found.status == "line"
    assert found["q"] == 0
    (free,) = found["mu"].free_symbols
    assert free.name == "sigma_1"
    assert sp.simplify(found["mu"] ** 2 - (1 - free**2 / 4)) == 0


@pytest.mark.parametrize(
    ("phi", "sigma_w"),
    [(x**2 * sp.exp(-(x**2) / 4), 2), (sp.tanh(x**3), 3), (sp.atan(x) - x / (1 + x**2), 3)],
    ids=["bump", "cube", "bend"],
)
def test_every_critical_point_on_a_line_is_given(phi: sp.Expr, sigma_w: int) -> None:
    """as many as chi = 1 is crossed over variances with sigma_b^2 >= 0, each a fixed point of its own, the one that attracts first"""
    act = mf.Activation(phi)
    found = mf.critical(mf.mlp(act), sigma_w=sigma_w)
    points = [found, *found.others]
    at = np.geomspace(1e-6, 1e4, 600)
    excess = sigma_w**2 * mf.evaluate(act.derivative.second_moment(mf.q), q=at) - 1
    bias = at - sigma_w**2 * mf.evaluate(act.second_moment(mf.q), q=at)
    crossed = np.flatnonzero((np.sign(excess[:-1]) != np.sign(excess[1:])) & (bias[:-1] > 0))
    assert len(crossed) == len(points) == 2
    assert all(any(at[i] <= point.q <= at[i + 1] for i in crossed) for point in points)
    assert [point.status for point in points] == ["ok", "unstable"]
    assert points[0].chi_parallel < 1 < points[1].chi_parallel
    for point in points:
        ones = [f for f in mf.fixed_points(mf.mlp(act), sigma_w=sigma_w, sigma_b=point["sigma_b"]) if f.gap == 0]
        nearest = min(ones, key=lambda f, q=point.q: abs(f.q - q))
        assert (nearest.q, nearest.chi) == pytest.approx((point.q, 1.0), rel=1e-9)
    assert "1 more in others" in repr(found)
    shown = [float(value) for value in re.findall(r"\nq &= ([\d.]+)", found.latex())]
    assert shown == pytest.approx([point.q for point in points], rel=1e-6)


def test_the_bound_along_a_critical_line_holds_what_its_solved_equations_lose() -> None:
    """beside q = 0 of erf and a skip chi = 1 and q' = q are one equation up to q^2: rounding is no root there"""
    equations = elimination.equations(map_of(mf.residual_mlp(mf.erf, skip=mu)), ())
    sigma_w = known("sigma_w")
    curve = Curve((equations.chi, equations.fixed), equations.marginal, (sigma_w, mu), {"sigma_b": 0.1})
    at = np.geomspace(1e-8, 1e4, 37)
    value, _, bound = curve(at)
    with mp.workdps(60):

        def exact(variance: mp.mpf) -> mp.mpf:
            chi = 4 / mp.pi / mp.sqrt(1 + 4 * variance)
            second = 2 / mp.pi * mp.asin(2 * variance / (1 + 2 * variance))
            rate = 4 / mp.pi / ((1 + 2 * variance) * mp.sqrt(1 + 4 * variance))
            return mp.mpf("0.1") ** 2 / (chi * variance - second) * (rate - chi)

        off = np.array([float(abs(exact(mp.mpf(float(v))) - mp.mpf(float(now)))) for v, now in zip(at, value, strict=True)])
    assert (off <= bound).all()
    assert (bound[at > 1e-4] < 1e-4 * np.abs(value[at > 1e-4])).all()


def test_the_line_of_a_norm_in_a_letter() -> None:
    """which parameter is given as a letter, the other is in terms of; behind a norm q is 1, and nothing else"""
    sigma_w, sigma_b = known("sigma_w"), known("sigma_b")
    expected = math.sqrt(4 / (math.pi * math.sqrt(5)) - 2 / math.pi * math.asin(2 / 3))
    before, after = (mf.LayerNorm() >> mf.Activate(mf.erf) >> mf.Linear(), mf.Activate(mf.erf) >> mf.Linear() >> mf.LayerNorm())
    for net in (before, after):
        bias, scale = mf.critical(net, sigma_w=sigma_w), mf.critical(net, sigma_b=sigma_b)
        assert float(bias["sigma_b"] / sigma_w) == pytest.approx(expected, rel=1e-14)
        assert float(scale["sigma_w"] / sigma_b) == pytest.approx(1 / expected, rel=1e-14)
        assert float(sp.simplify(scale["q"] / bias["q"]).subs({sigma_w: 1, sigma_b: expected})) == pytest.approx(1.0, rel=1e-13)
    assert float(mf.critical(after, q=1)["sigma_b"] / sigma_w) == pytest.approx(expected, rel=1e-14)
    for other in (2, mf.q):
        assert mf.critical(after, q=other).reason == f"q' = 1 whatever q is, not {other}"


@pytest.mark.parametrize("bounds", [(-1, 1), (-2, 3)])
def test_a_linear_function_that_is_cut_off_is_critical_where_it_is_linear(bounds: tuple[int, int]) -> None:
    """q' - q is less than every power of q: q ~ 1/(2 ln l) where it is cut at 1"""
    low, high = bounds
    found = mf.critical(mf.mlp(mf.Activation(sp.Max(low, sp.Min(mf.x, high)))))
    assert (found["sigma_w"], found["sigma_b"], found["q"], found.status) == (1, 0, 0, "ok")
    steeper = mf.critical(mf.mlp(mf.Activation(mf.x + sp.Max(0, mf.x - 1))))
    assert (steeper["sigma_w"], steeper.status) == (1, "unstable")
