"""Networks whose weights are exactly 0: each answer says q* = sigma_b^2, c* = 1, chi = 0 and J = 0, also of what jumps; without a bias
that q is 0 and there is no correlation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.gaussian.no_variance import valued

JUMPS = [mf.sign, mf.relu]
AT = {"sigma_w": 0.0, "sigma_b": 0.5}


@pytest.mark.parametrize("phi", JUMPS, ids=str)
def test_a_run_has_no_gradient_and_says_so(phi: mf.Activation) -> None:
    run = mf.propagate(mf.mlp(phi), 3, 1.0, p=0.4, sigma_w=np.array([0.0, 1.0]), sigma_b=0.5)
    assert (run.status[0], run.q[0, -1], run.c[0, -1], run.chi[0].max()) == ("zero APJN", 0.25, 1.0, 0.0)
    assert run.log_apjn[0].tolist() == [-np.inf] * 3 + [0.0]
    assert run.status[1] == ("infinite APJN" if phi is mf.sign else "ok")


def test_a_single_input_without_gradient_has_no_negative_one() -> None:
    assert mf.propagate(mf.mlp(mf.tanh), 3, 1.0, **AT).status == "zero APJN"


@pytest.mark.parametrize("phi", JUMPS, ids=str)
def test_the_only_fixed_point_is_that_of_the_bias_and_attracts(phi: mf.Activation) -> None:
    (point,) = mf.fixed_points(mf.mlp(phi), **AT)
    assert (point.q, point.c, point.chi, point.stable) == (pytest.approx(0.25, rel=1e-15), 1.0, 0.0, True)


@pytest.mark.parametrize("phi", JUMPS, ids=str)
def test_no_bias_makes_it_critical(phi: mf.Activation) -> None:
    found = mf.critical(mf.mlp(phi), sigma_w=0)
    assert (dict(found), found.status) == ({}, "none")
    assert found.reason.startswith("chi = 0 for any parameters")


@pytest.mark.parametrize("phi", JUMPS, ids=str)
def test_gap_and_gradient_vanish_faster_than_any_exponential(phi: mf.Activation) -> None:
    law = mf.growth(mf.mlp(phi), sigma_w=0)
    assert law.q.limit == sp.Symbol("sigma_b", positive=True) ** 2
    assert [(g.kind, g.rate) for g in (law.gap, law.apjn)] == [("exponential", -sp.oo)] * 2


def test_without_bias_nothing_is_left() -> None:
    law = mf.growth(mf.mlp(mf.tanh), sigma_w=0, sigma_b=0)
    assert [(g.kind, g.rate) for g in (law.q, law.apjn)] == [("exponential", -sp.oo)] * 2
    assert law.gap.kind == "undetermined"
    assert "q is 0 from the first repeat on" in law.gap.reason


def test_without_bias_the_fixed_point_has_no_correlation() -> None:
    """as the phase diagram says it: q* = 0, chi = 0, no c"""
    found = mf.fixed_points(mf.mlp(mf.tanh), sigma_w=0, sigma_b=0)
    ((point,), diagram) = found, mf.phase_diagram(mf.mlp(mf.tanh), sigma_w=[0.0, 0.5], sigma_b=[0.0, 0.5])
    assert (point.q, point.chi, point.chi_parallel, point.stable, point.xi_q) == (0.0, 0.0, 0.0, True, 0.0)
    assert np.isnan([point.c, point.gap, point.xi_c]).all()
    assert (point.status, found.status, diagram.status[0, 0]) == ("no correlation", "c open", "c open")
    assert (diagram.chi[0, 0], diagram.chi_parallel[0, 0], diagram.xi_q[0, 0]) == (point.chi, point.chi_parallel, point.xi_q)
    assert "there is no correlation" in found.reason
    assert r"\chi = 0" in point.latex()
    assert "c^*" not in point.latex()


@pytest.mark.parametrize("phi", JUMPS, ids=str)
def test_a_phase_diagram_begins_in_order(phi: mf.Activation) -> None:
    diagram = mf.phase_diagram(mf.mlp(phi), sigma_w=[0.0, 0.5], sigma_b=[0.0, 0.5])
    assert (diagram.phase[0].tolist(), diagram.chi[0].tolist(), diagram.q[0].tolist()) == (["ordered"] * 2, [0.0] * 2, [0.0, 0.25])
    assert (diagram.status[0].tolist(), diagram.c[0, 1], diagram.critical_lines) == (["c open", "ok"], 1.0, ())
    assert diagram.growth["apjn"][0].tolist() == ["exponential"] * 2
    assert (diagram.growth["q"][0].tolist(), diagram.growth["gap"][0, 1]) == (["exponential", "bounded"], "exponential")


def test_a_weight_that_is_a_number_keeps_its_infinity() -> None:
    assert (
        mf.phase_diagram(mf.Residual(mf.Activate(mf.sign) >> mf.Linear(1), skip=sp.Symbol("s")), s=[0.1, 0.5], sigma_b=[0.1, 1.0])
    ).status[0, 0] == "infinite APJN"
    assert mf.propagate(mf.mlp(mf.sign, sigma_w=1, sigma_b=0), 3, 1.0).status == "infinite APJN"


MU = sp.Symbol("mu")
NOTHING = {
    "relu": (mf.mlp(mf.relu), {"sigma_w": 0.0, "sigma_b": 0.0}),
    "tanh": (mf.mlp(mf.tanh), {"sigma_w": 0.0, "sigma_b": 0.0}),
    "sigmoid": (mf.mlp(mf.sigmoid), {"sigma_w": 0.0, "sigma_b": 0.0}),
    "sign": (mf.mlp(mf.sign), {"sigma_w": 0.0, "sigma_b": 0.0}),
    "numbers": (mf.mlp(mf.gelu, sigma_w=0, sigma_b=0), {}),
    "residual": (mf.Residual(mf.Activate(mf.relu) >> mf.Linear(sigma_b=0), skip=MU), {"mu": 0.0, "sigma_w": 0.0}),
    "norm": (mf.Residual(mf.LayerNorm() >> mf.Linear(sigma_b=0), skip=MU), {"mu": 0.0, "sigma_w": 0.0}),
    "attention": (
        mf.pre_norm(norm=mf.Derf(1), attention=mf.Attention(n=8, sigma_Q=1, sigma_K=1, sigma_O=1), mlp=mf.MLP(mf.relu, sigma_2=1), skip=MU),
        {"mu": 0.0, "sigma_V": 0.0, "sigma_1": 1.0},
    ),
}


@pytest.mark.parametrize("name", NOTHING)
@pytest.mark.parametrize("record", ["all", "last"])
def test_without_bias_a_run_is_zero_has_no_correlation_and_says_so(name: str, record: str) -> None:
    net, values = NOTHING[name]
    run = mf.propagate(net, 3, 1.0, c=0.4, record=record, **values)
    assert run.status == "zero signal"
    later = run.layers > 0
    assert (run.q[later] == 0).all()
    assert (run.p[later] == 0).all()
    assert np.isnan(run.c[later]).all()
    assert (run.log_apjn_forward[later] == -np.inf).all()
    assert (run.log_apjn[run.layers < 3] == -np.inf).all()
    assert (run.chi == 0).all()
    assert run.log_chi_product[0] == -np.inf
    if record == "all":
        assert (run.q[0], run.c[0], run.log_apjn[3], run.log_chi_product[3]) == (1, 0.4, 0, 0)
        assert np.isnan(run.gradient_correlation).all()


def test_a_variance_that_is_too_small_is_an_underflow_beside_one_that_is_zero() -> None:
    run = mf.propagate(mf.mlp(mf.relu), 4, 1.0, sigma_w=np.array([0.0, 1e-160, 1.0]), sigma_b=0.0)
    assert run.status.tolist() == ["zero signal", "underflow", "ok"]
    assert (run.q[0, 1:] == 0).all()
    assert np.isnan(run.q[1, 1:]).all()


SECOND = [{}, {"c": 0.3}, {"c": 0.3, "q2": 2.0}]


@pytest.mark.parametrize(
    ("phi", "second"), [*itertools.product([mf.elu, mf.softplus], SECOND), *itertools.product([mf.sign], SECOND[:2])], ids=str
)
def test_a_sublayer_without_weights_before_one_with_a_bias_leaves_no_gradient(phi: mf.Activation, second: dict[str, float]) -> None:
    """q' = E phi(0)^2 + 1/4, J = 0"""
    net = mf.Activate(phi) >> mf.Linear(MU, 0) >> mf.Activate(phi) >> mf.Linear(1, 0.5)
    run = mf.propagate(net, 3, 1.0, mu=0.0, **second)
    at_rest = {mf.softplus: np.log(2) ** 2, mf.sign: 1.0}.get(phi, 0.0)
    assert run.status == "zero APJN"
    assert run.q[1:] == pytest.approx([at_rest + 0.25] * 3, rel=1e-15)
    assert run.log_apjn.tolist() == [-np.inf] * 3 + [0.0]
    assert run.log_apjn_forward.tolist() == [0.0] + [-np.inf] * 3


def test_two_unequal_inputs_of_what_jumps_have_an_infinite_gradient_or_none() -> None:
    run = mf.propagate(mf.mlp(mf.sign), 2, 1.0, q2=2.0, c=0.3, sigma_w=np.array([0.0, 1.0]), sigma_b=0.1)
    assert run.status.tolist() == ["zero APJN", "infinite APJN"]
    assert run.log_apjn.tolist() == [[-np.inf] * 2 + [0.0], [np.inf] * 2 + [0.0]]
    assert run.log_apjn_forward.tolist() == [[0.0] + [-np.inf] * 2, [0.0] + [np.inf] * 2]
    assert run.ntk_pair[0, 1:] == pytest.approx([0.01, 0.01])
    equal = mf.propagate(mf.mlp(mf.sign), 2, 1.0, c=0.3, sigma_w=1.0, sigma_b=0.1)
    assert run.gap[1] == pytest.approx(equal.gap, rel=1e-13)


def test_batch_statistics_of_equal_inputs_without_a_weight_behind_them_are_no_infinity() -> None:
    net = mf.Activate(mf.relu) >> mf.Linear() >> mf.BatchNorm() >> mf.Linear(MU, 0.5)
    run = mf.propagate(net, 2, 1.0, c=0.3, mu=0.0)
    assert (run.status, run.log_apjn.tolist()) == ("zero APJN", [-np.inf, -np.inf, 0.0])


def test_tokens_told_apart_are_zero_without_weights_and_tell_it_from_an_underflow() -> None:
    net = mf.CausalAttention(3, MU, 1) >> mf.Activate(mf.relu) >> mf.Linear(1)
    run = mf.propagate(net, 2, 1.0, c=0.3, mu=np.array([0.0, 1.0, 1e-170, 0.0]), sigma_b=np.array([0.0, 0.0, 0.0, 0.5]))
    assert run.status.tolist() == ["zero signal", "ok", "underflow", "zero APJN"]
    assert (run.gram[0, 1:] == 0).all()
    assert run.log_apjn[0].tolist() == [-np.inf, -np.inf, 0.0]


def test_a_very_deep_run_is_zero_as_well() -> None:
    run = mf.propagate(mf.mlp(mf.tanh), 10**7, 1.0, c=0.4, record=5 * 10**6, sigma_w=0.0, sigma_b=0.0)
    assert (run.status, run.q.tolist(), run.log_apjn.tolist()) == ("zero signal", [1, 0, 0], [-np.inf, -np.inf, 0])


def test_two_inputs_of_unequal_norm_and_their_tangent_kernel_vanish() -> None:
    run = mf.propagate(mf.mlp(mf.tanh), 2, 1.0, q2=2.0, c=0.5, sigma_w=[0.0, 0.0, 1.0], sigma_b=[0.0, 0.5, 0.0])
    assert run.status.tolist() == ["zero signal", "zero APJN", "ok"]
    assert run.q2[:, -1].tolist()[:2] == [0, 0.25]
    assert run.ntk[:, -1].tolist()[:2] == [0, 0.25]
    assert np.isnan(run.c[0, 1:]).all()
    assert run.c[1, 1:].tolist() == [1, 1]
    assert run.log_apjn[:2].tolist() == [[-np.inf, -np.inf, 0]] * 2


@pytest.mark.parametrize("name", [name for name in NOTHING if name != "attention"])
def test_without_bias_sensitivities_of_the_variance_are_zero_and_there_are_none_of_c(name: str) -> None:
    net, values = NOTHING[name]
    if not values:
        net, values = mf.mlp(mf.gelu, sigma_b=0), {"sigma_w": 0.0}
    found = mf.sensitivity(net, 3, 1.0, c=0.4, **values)
    assert (found.status, found.q, set(found.dq.values()), found.log_apjn) == ("zero signal", 0, {0.0}, -np.inf)
    assert np.isnan([found.gap, *found.dgap.values(), *found.dlog_apjn.values()]).all()


def test_a_weight_that_enters_by_its_square_has_a_slope_where_it_is_zero() -> None:
    net = mf.mlp(mf.sigmoid, sigma_w=sp.sqrt(sp.Symbol("v", nonnegative=True)), sigma_b=0)
    deep, shallow = (mf.sensitivity(net, depth, 1.0, v=0.0) for depth in (5, 1))
    assert deep.dq["v"] == pytest.approx(0.25, rel=1e-14)  # E sigmoid(u)^2 of what is 0 already
    assert shallow.dq["v"] == pytest.approx(mf.evaluate(mf.sigmoid.second_moment(1)), rel=1e-12)
    small = mf.propagate(net, 5, 1.0, v=1e-9).q[-1]
    assert deep.dq["v"] == pytest.approx(small / 1e-9, rel=1e-8)


@pytest.mark.parametrize("phi", [mf.step, mf.sign, mf.relu], ids=str)
@pytest.mark.parametrize("given", [{"c": 0.5}, {}], ids=["two", "one"])
def test_sensitivities_of_what_jumps_are_those_of_the_bias(phi: mf.Activation, given: dict[str, float]) -> None:
    found = mf.sensitivity(mf.mlp(phi), 3, 1.0, **given, **AT)
    assert (found.status, found.dq) == ("zero APJN", {"sigma_b": 1.0, "sigma_w": 0.0})
    assert found.dgap == ({"sigma_b": 0.0, "sigma_w": 0.0} if given else None)


def test_a_grid_of_sensitivities_with_weights_and_without_is_that_of_its_points() -> None:
    weights, biases = np.array([0.0, 0.0, 0.7, 1.3]), np.array([0.0, 0.5, 0.0, 0.2])
    grid = mf.sensitivity(mf.mlp(mf.tanh), 4, 1.0, c=0.3, sigma_w=weights, sigma_b=biases)
    assert grid.status.tolist() == ["zero signal", "zero APJN", "ok", "ok"]
    for k in (2, 3):
        one = mf.sensitivity(mf.mlp(mf.tanh), 4, 1.0, c=0.3, sigma_w=weights[k], sigma_b=biases[k])
        assert [grid.dgap[n][k] for n in grid.dgap] == pytest.approx(list(one.dgap.values()), rel=1e-12)


@pytest.mark.parametrize(("bias", "compared"), [(0.0, {"q", "J"}), (0.5, {"q", "1 - c", "J"})])
def test_a_check_sees_what_vanishes_at_once(bias: float, compared: set[str]) -> None:
    check = mf.growth(mf.mlp(mf.tanh), sigma_w=0, sigma_b=sp.nsimplify(bias)).check(depth=1000)
    assert check.agrees
    assert {f.quantity for f in check.fits} == compared
    assert {f.fitted for f in check.fits if f.name == "rate"} == {-np.inf}


def test_figures_of_what_is_zero_are_empty_or_refused_in_words() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    net = mf.mlp(mf.tanh, sigma_w=0, sigma_b=0)
    run = mf.propagate(net, 5, 1.0, c=0.5)
    for quantity in ("q", "c", "log_apjn"):
        assert run.plot(quantity=quantity).lines
    assert mf.growth(net).check(depth=1000).plot().get_legend() is not None
    for quantity in ("c", "q"):
        with pytest.raises(ValueError, match="there is no map to draw"):
            mf.fixed_points(net).plot(quantity=quantity)


BEHIND = {
    "a weight": (mf.Derf() >> mf.MLP(mf.relu), {"alpha": 1.0, "sigma_1": 0.0, "sigma_2": 1.0}),
    "a norm of nothing": (
        mf.Linear() >> mf.Derf() >> mf.MLP(mf.relu),
        {"sigma_w": 0.0, "sigma_b": 0.0, "alpha": 1.0, "sigma_1": 1.0, "sigma_2": 1.0},
    ),
}


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("name", BEHIND)
def test_means_over_no_variance_behind_a_norm_have_slopes(name: str, depth: int) -> None:
    """q is the product of squares: 0 to first order; of one input and of two"""
    net, values = BEHIND[name]
    for start in ({}, {"c": 0.5}):
        slopes = mf.sensitivity(net, depth, q=1.0, **start, **values)
        assert (slopes.status, slopes.q, set(slopes.dq.values())) == ("zero signal", 0.0, {0.0})


def test_slopes_of_a_gap_at_variances_whose_square_underflows() -> None:
    """x -> ReLU is homogeneous, so that they are those of any variance"""
    net = mf.mlp(mf.relu)
    tiny, one = (mf.sensitivity(net, 3, q=q, c=0.5, sigma_w=1.2, sigma_b=0.0, with_respect_to=("sigma_w", "c")) for q in (1e-250, 1.0))
    assert tiny.dgap["c"] == pytest.approx(one.dgap["c"], rel=1e-12)
    assert tiny.dgap["sigma_w"] == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("start", [{}, {"c": 0.3}], ids=["one", "two"])
@pytest.mark.parametrize("norm", [mf.RMSNorm(), mf.LayerNorm()], ids=str)
def test_behind_a_norm_of_nothing_nothing_is_defined(norm: mf.Block, start: dict[str, float]) -> None:
    """0/0: it was an infinite J of q = 1; a bias before the norm, or a weight, defines it"""
    net, given = mf.Linear() >> norm, {"sigma_w": np.array([0.0, 0.0, 0.5]), "sigma_b": np.array([0.0, 1.0, 0.0])}
    run = mf.propagate(net, 3, 1.5, **start, **given)
    assert run.status.tolist() == ["invalid", "zero APJN", "ok"]
    assert np.isnan([*run.q[0, 1:], *run.log_apjn[0]]).all()
    assert run.q[1:, 1:].tolist() == [[1.0] * 3] * 2
    slopes = mf.sensitivity(net, 3, 1.5, **start, **given)
    assert slopes.status.tolist() == run.status.tolist()
    assert np.isnan([slopes.q[0], slopes.log_apjn[0], slopes.dq["sigma_b"][0]]).all()
    with pytest.raises(ArithmeticError, match=r"^sigma_b = 0 and sigma_w = 0: a norm divides by a variance that is 0 there"):
        mf.sensitivity(net, 3, 1.5, **start, sigma_w=0.0, sigma_b=0.0)


def test_what_compares_0_with_0_is_no_number() -> None:
    """sympy refuses to; where weights are 0 a formula has such parts, and no other error is taken for one"""
    a, b = sp.symbols("a b", positive=True)
    nothing = {a: sp.S.Zero, b: sp.S.Zero}
    for e in (sp.Min(a / b, 1), sp.Max(1 / b, a), sp.Piecewise((a, a / b > 1), (b, True)), sp.Min(a / b, 1) + a):
        assert valued(e, nothing) is sp.nan
    assert valued(sp.Min(a, b + 1) + sp.exp(a), nothing) == 1


@pytest.mark.parametrize("norm", [None, mf.LayerNorm(), mf.RMSNorm()], ids=str)
def test_opposite_inputs_of_an_even_function_become_one_behind_a_norm_too(norm: mf.Block | None) -> None:
    """|u| = |-u|: their gap is 0 and nothing has underflowed"""
    even = mf.Activate(mf.Activation(sp.Abs(mf.x)))
    run = mf.propagate((even if norm is None else even >> norm) >> mf.Linear(1, 0), 2, 1.0, gap=2.0)
    assert run.status == "ok"
    assert run.gap.tolist() == [2.0, 0.0, 0.0]


@pytest.mark.parametrize("f", [sp.Min(0, mf.x), sp.Min(0, sp.tanh(mf.x))], ids=str)
def test_a_minimum_inside_an_activation_is_no_bound_of_a_gap(f: sp.Expr) -> None:
    from meanfield.numeric.silence import joins

    for block in (mf.Activate(mf.Activation(f)), mf.Activate(mf.Activation(f)) >> mf.RMSNorm()):
        assert not joins(mf.recursion(block >> mf.Linear(sp.Symbol("w", positive=True), 1)), frozenset())


def test_what_joins_opposite_inputs_is_not_asked_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from meanfield.numeric import silence

    monkeypatch.setattr(silence, "joins", lambda *_: pytest.fail("asked"))
    run = mf.propagate(mf.mlp(mf.tanh), 60, 1.0, gap=1e-200, sigma_w=0.1, sigma_b=1.0)
    assert run.status == "gap underflow"
