"""Growth where the leading term is not all: q that a fixed point only touches, several of them, the logarithm with attention."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric.long_runs import long_run

HALF = sp.Rational(1, 2)
x = mf.x


def test_a_touched_fixed_point() -> None:
    """SiLU where chi = chi_parallel = 1: q comes nearer as 1/(A l), and J and 1 - c are powers of l, as a run beside q* has them"""
    net, point = mf.mlp(mf.silu), mf.critical(mf.mlp(mf.silu))
    values = {name: point[name] for name in ("sigma_w", "sigma_b")}
    law = mf.growth(net, **values)
    assert float(law.q.limit) == pytest.approx(point["q"], rel=1e-11)  # dq'/dq = 1 is known to the digits of sigma_w
    assert (law.q.kind, law.gap.kind, law.apjn.kind) == ("bounded", "power", "power")
    assert float(law.gap.exponent) == pytest.approx(float(law.apjn.exponent), rel=1e-9)
    ends = np.array([-0.005, 0.005])  # the next order of q' - q is odd: both sides together do without it
    run = mf.propagate(net, 1000, point["q"] + ends, gap=1e-9, record="last", **values)
    nearer = np.log((run.q[:, -1] - point["q"]) / ends)  # -d ln l
    assert float((run.log_apjn[:, -1] / nearer).mean()) == pytest.approx(-float(law.apjn.exponent), rel=0.005)
    assert float((np.log(run.gap[:, -1] / 1e-9) / nearer).mean()) == pytest.approx(-float(law.gap.exponent), rel=0.005)


def test_the_first_of_several_fixed_points() -> None:
    """GELU: from q = 1 the recursion comes to the smaller of two variances, also where the larger is only touched"""
    net = mf.mlp(mf.gelu)
    point = mf.critical(net)
    for values in ({"sigma_w": 1.45, "sigma_b": 0.25}, {name: point[name] for name in ("sigma_w", "sigma_b")}):
        law = mf.growth(net, **values)
        variances = sorted({f.q for f in mf.fixed_points(net, **values)})
        assert len(variances) == 2
        assert float(law.q.limit) == pytest.approx(variances[0], rel=1e-9)


def test_the_logarithm_with_attention() -> None:
    """c settles more slowly than the logarithm grows: a deeper run tells the two apart, and a coefficient that is 2 % off is noticed"""
    attention = mf.Attention(n=8, sigma_Q=1, sigma_K=HALF, sigma_V=HALF, sigma_O=1)
    law = mf.growth(mf.pre_norm(norm=mf.Derf(1), attention=attention, mlp=mf.MLP(mf.identity, 1, 1)))
    assert 0.2 < float(sp.N(law.apjn.settling)) < 0.3
    wrong = replace(law, apjn=replace(law.apjn, log_coefficient=law.apjn.log_coefficient * sp.Rational(51, 50)))
    for own, verdict in ((law, "agrees"), (wrong, "disagrees")):
        seen = own.check(depth=10**6)
        fit = next(f for f in seen.fits if f.name == "log_coefficient")
        assert (fit.verdict, seen.run.depth) == (verdict, 10**6)
        assert "(depth 1e+13)" in repr(seen)
        assert fit.fitted == pytest.approx(float(sp.N(law.apjn.log_coefficient)), rel=0.005)


@pytest.mark.parametrize("f", [sp.exp(-(x**2)), x**2 * sp.exp(-(x**2))], ids=str)
def test_powers_between_a_stretched_exponential_and_the_logarithm(f: sp.Expr) -> None:
    """q ~ l^(2/3), ln J ~ l^(2/3): ln(1 + m q^(-1/2)) brings l^(1/3)"""
    law = mf.growth(mf.Residual(mf.Activate(mf.Activation(f)) >> mf.Linear(1, 0)))
    assert (law.q.exponent, law.apjn.stretch) == (sp.Rational(2, 3), sp.Rational(2, 3))
    seen = law.check(depth=10**6)
    assert seen.agrees
    fit = next(f for f in seen.fits if f.name == "rate^stretch")
    assert fit.fitted == pytest.approx(fit.predicted, rel=2e-5)


def test_sines_on_a_stream() -> None:
    """E phi(u)^2 goes to the mean over a period, two tokens become independent, and J gains the same factor in each repeat"""
    f = sp.sin(2 * x) + sp.cos(x) ** 2
    law = mf.growth(mf.Residual(mf.Activate(mf.Activation(f)) >> mf.Linear(1, HALF)))
    A = HALF + sp.Rational(3, 8)
    C = 2 + HALF
    assert law.q.rate == A + sp.Rational(1, 4)
    assert law.gap.limit == (A - sp.Rational(1, 4)) / law.q.rate  # the mean of phi is 1/2
    assert sp.exp(law.apjn.rate) == 1 + C
    run = mf.propagate(law.block, 20_000, 1.0, gap=1e-3, record="last")
    assert run.q[-1] / 20_000 == pytest.approx(float(law.q.rate), rel=1e-3)
    assert run.gap[-1] == pytest.approx(float(law.gap.limit), rel=2e-3)
    assert law.check(depth=2000).agrees


def test_an_activation_that_jumps() -> None:
    """J is infinite after one repeat; q and c have their laws all the same"""
    law = mf.growth(mf.mlp(mf.Activation(sp.sign(x))))
    weight, bias = sp.symbols("sigma_w sigma_b", positive=True)
    assert law.q.limit == weight**2 + bias**2
    assert law.apjn.kind == "infinite"
    assert "jumps" in law.apjn.reason
    run = mf.propagate(law.block, 200, 1.0, gap=0.5, record="last", sigma_w=1, sigma_b=2)
    limit = law.gap.limit.subs({weight: 1, bias: 2}) if law.gap.limit.free_symbols else law.gap.limit
    assert float(sp.N(limit)) == pytest.approx(run.gap[-1], rel=1e-9)
    assert law.check(depth=1000).not_compared == ("J",)
    assert mf.growth(mf.Residual(mf.Activate(mf.Activation(sp.sign(x))) >> mf.Linear(1, 1))).q.rate == 2


def test_figures_of_fixed_points_and_shapes() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = mf.fixed_points(mf.mlp(mf.sin), sigma_w=2, sigma_b=0)
    ax = found.plot()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("$c_l$", "$c_{l+1}$")
    stable = next(line for line in ax.lines if line.get_label() == "stable")
    assert list(stable.get_xdata()) == pytest.approx([0.0])
    assert found.plot(quantity="q").get_xscale() == "log"
    with pytest.raises(ValueError, match="quantity = 'p'"):
        found.plot(quantity="p")
    mf.tailored_leaky_relu(20).plot()
    pyplot.close("all")


def test_latex_of_what_has_no_answer_and_of_what_was_solved_for() -> None:
    assert r"there is no $\sigma_{w}$ with" in mf.critical(mf.mlp(mf.relu), sigma_b=0.2).latex()
    assert r"\frac" not in mf.tailored_leaky_relu(20).latex()
    found = mf.sensitivity(mf.mlp(mf.erf), 3, 1.0, sigma_w=1, sigma_b=0.1)
    assert found.latex() == mf.latex(found)


def test_long_runs_by_quadrature_agree() -> None:
    """a norm without closed kernel or tables, with attention: 10^6 repeats in leaps"""
    f = sp.Max(-1, sp.Min(1, x))
    law = mf.growth(mf.pre_norm(norm=mf.Activate(mf.Activation(f)), attention=mf.Attention(5, 0, 0, 1, 1), mlp=mf.MLP(mf.relu, 1, 1)))
    seen = law.check(depth=10**6)
    assert seen.run.depth == 10**6
    assert {fit.name for fit in seen.fits} >= {"exponent", "rate", "rate^stretch"}
    assert seen.agrees, seen


def test_a_long_run_ends_where_it_was_asked_to() -> None:
    """a leap to there may end before it by rounding"""
    rec = mf.recursion(mf.Residual(mf.Activate(mf.erf) >> mf.Linear(1, 0)))
    ends = [600, 1000, 3 * 10**4, 10**5, 10**6, 7 * 10**6, 10**9, 10**13]
    runs = [long_run(rec, depth, 1.0, 0.5, {}) for depth in ends]
    assert [run.layers[-1] for run in runs] == ends
    assert all((np.diff(run.layers) > 0).all() for run in runs)


def test_leaps_are_what_layers_one_by_one_come_to() -> None:
    net = mf.Residual(mf.Activate(mf.tanh) >> mf.Linear())
    seen = mf.growth(net).check(depth=20_000, sigma_w=1.3, sigma_b=0.4).run
    run = mf.propagate(net, 20_000, 1.0, record=[20_000], sigma_w=1.3, sigma_b=0.4)
    assert seen.layers[-1] == 20_000
    assert seen.q[-1] == pytest.approx(run.q[-1], rel=1e-10)
    assert seen.log_apjn_forward[-1] == pytest.approx(run.log_apjn_forward[-1], rel=1e-10)


def test_numbers_that_decide_and_what_cannot_be_asked() -> None:
    """no polynomial in a parameter: the numbers of the check decide; expectations without an expansion are refused at once"""
    law = mf.growth(mf.Residual(mf.MLP(mf.cos)) >> mf.LayerNorm())  # sigma_1^2 tanh(sigma_1^2) - 1
    assert law.gap.kind == "undetermined"
    assert law.cases == ()
    seen = law.check(depth=1000, sigma_1=1.2, sigma_2=0.9)
    assert seen.law.gap.kind == "bounded"
    assert seen.agrees
    assert seen.fits
    assert "no expansion" in mf.growth(mf.Residual(mf.GAU(mf.silu, n=8, s=16, d=64, e=128))).q.reason
    hard = mf.growth(mf.mlp(mf.Activation(sp.Max(-1, sp.Min(1, x))), 1, 0))  # what it cuts off is exponentially rare
    assert (hard.q.kind, hard.q.exponent, hard.q.coefficient) == ("logarithmic", -1, sp.Rational(1, 2))
    root = mf.growth(mf.Residual(mf.Activate(mf.Activation(sp.root(1 + x**2, 4) * sp.log(2 + x**2))) >> mf.Linear(1, 0)))
    # E phi^2 ~ sqrt(2 q/pi) ln^2 q, E phi'^2 ~ ln^3 q/(12 sqrt(2 pi q)): ln J ~ ln^2(q)/48, q ~ l^2
    assert (root.apjn.kind, root.apjn.log_squared_coefficient) == ("quasi-polynomial", sp.Rational(1, 12))
    assert "ln ln l" in root.apjn.reason
    assert "which is no power" in root.gap.reason  # two tokens have a reason of their own


def test_doubles_of_a_slope_that_keeps_every_variance() -> None:
    net = mf.mlp(mf.leaky_relu(0.2))
    law = mf.growth(net, sigma_w=mf.critical(net, sigma_b=0)["sigma_w"], sigma_b=0)
    assert (law.q.kind, law.q.limit, law.apjn.kind, law.gap.exponent) == ("bounded", None, "bounded", -2)


def test_a_skip_below_one_settles_where_a_run_does() -> None:
    """q* of 0.81 q + E phi(u)^2/2: an expectation of q is no coefficient of a polynomial in q"""
    net = mf.Residual(mf.DyT(1) >> mf.MLP(mf.relu, 1, 1), skip=sp.Rational(9, 10))
    law = mf.growth(net)
    run = mf.propagate(net, 3000, 1.0, gap=0.5, record="last")
    assert float(law.q.limit) == pytest.approx(run.q[-1], rel=1e-12)
    assert float(sp.N(law.gap.limit)) == pytest.approx(run.gap[-1], rel=1e-9)
    assert law.check(depth=1000).agrees


def test_attention_alone_keeps_what_all_tokens_share() -> None:
    """without a skip c = 1 after one repeat, where q = sigma_V^2 sigma_O^2, and only the mode of all tokens lasts"""
    law = mf.growth(mf.LayerNorm() >> mf.Attention(6, 1, HALF, sp.Rational(4, 5), 1))
    assert law.q.limit == sp.Rational(16, 25)
    assert (law.apjn.kind, law.apjn.terms) == ("bounded", ((sp.Rational(1, 6), 0),))


SINES = {
    "beside tanh": (sp.sin(x) + sp.tanh(x), 1 + HALF, HALF, 1, "agrees"),
    "times tanh": (sp.sin(x) * sp.tanh(x), HALF, HALF, 1, "not settled at this depth"),  # which it comes to as l^(-1/2)
}


@pytest.mark.parametrize("name", SINES)
def test_sines_beside_other_functions(name: str) -> None:
    """far out E phi^2 and E phi'^2 are means over a period, and what oscillates is independent of all else"""
    f, A, C, limit, verdict = SINES[name]
    law = mf.growth(mf.Residual(mf.Activate(mf.Activation(f)) >> mf.Linear(1, 0)))
    assert (law.q.rate, sp.exp(law.apjn.rate), law.gap.limit) == (A, 1 + C, limit)
    verdicts = {(fit.quantity, fit.name): fit.verdict for fit in law.check(depth=1300).fits}
    assert verdicts.pop(("1 - c", "limit")) == verdict
    assert set(verdicts.values()) == {"agrees"}


def test_snake_on_a_stream_with_an_open_frequency() -> None:
    """x + sin(a x)^2: q doubles, E phi'^2 -> 1 + a^2/2; two tokens keep the correlation that the first repeats leave"""
    a, weight = sp.Symbol("a", positive=True), sp.Symbol("sigma_w", positive=True)
    law = mf.growth(mf.Residual(mf.Activate(mf.Activation(x + sp.sin(a * x) ** 2)) >> mf.Linear()))
    assert sp.expand(sp.exp(law.q.rate) - 1 - weight**2) == 0
    assert sp.expand(sp.exp(law.apjn.rate) - 1 - weight**2 * (1 + a**2 / 2)) == 0
    assert (law.gap.kind, law.gap.limit) == ("bounded", None)


def test_a_remainder_that_is_a_logarithm() -> None:
    """sqrt(1 + x^2) = |x| + 1/(2 |x|) + ...: the kernel of |x| up to O(log q)"""
    law = mf.growth(mf.Residual(mf.Activate(mf.Activation(sp.sqrt(1 + x**2))) >> mf.Linear(1, 0)))
    assert (law.gap.kind, law.gap.exponent, law.gap.coefficient) == ("power", -2, 9 * sp.pi**2 / 2)


def test_gated_unit_behind_a_saturating_norm_with_open_gate() -> None:
    """an expectation in sigma_gate is no polynomial in it"""
    law = mf.growth(mf.Residual(mf.Derf(1) >> mf.GLU(mf.silu)))
    gate = sp.Symbol("sigma_gate", positive=True)
    assert (law.q.kind, law.apjn.kind) == ("power", "stretched")
    assert law.apjn.log_coefficient is not None
    assert not mf.E(sp.tanh(x) ** 2, gate**2).is_polynomial(gate)
    branch, slope = (float(sp.N(mf.E(f**2, 1))) for f in (mf.silu.expression, mf.silu.expression.diff(x)))
    put = dict.fromkeys(law.apjn.rate.free_symbols, 1)
    assert float(sp.N(law.apjn.rate.xreplace(put))) == pytest.approx(16 / np.pi**2 * (branch + slope) ** 2 / branch, rel=1e-9)


@pytest.mark.parametrize("order", [2, 12])
def test_variances_that_fade_more_slowly_than_as_one_over_the_depth(order: int) -> None:
    """phi = x/(1 + x^m)^(1/m): q' = q - (2/m) E u^(m + 2) + ..., so that 1/q^(m/2) grows by (m + 1)!! a repeat"""
    law = mf.growth(mf.mlp(mf.Activation(x / (1 + x**order) ** sp.Rational(1, order)), 1, 0))
    assert (law.q.kind, law.q.exponent, law.q.rate) == ("power", sp.Rational(-2, order), sp.factorial2(order + 1))
    assert (law.apjn.exponent, law.gap.kind) == (law.q.exponent, "bounded")
    assert law.check(depth=10**5).agrees


def test_variances_that_fade_beyond_what_is_expanded() -> None:
    law = mf.growth(mf.mlp(mf.Activation(x / (1 + x**30) ** sp.Rational(1, 30)), 1, 0))
    assert (law.q.kind, law.q.reason) == ("undetermined", "the slow drift of q is beyond the terms that the expansions give")


NEVER_SEEN = {
    "odd": (sp.erf(x) + x / 10 * sp.exp(-(x**2)), mf.Linear(1, HALF)),
    "asymmetric before ELU": (sp.tanh(x) + sp.exp(-((x - 1) ** 2)) / 4, mf.MLP(mf.elu, sp.Rational(4, 5), 1)),
}


@pytest.mark.parametrize("name", NEVER_SEEN)
def test_saturating_functions_that_are_in_no_catalogue(name: str) -> None:
    f, after = NEVER_SEEN[name]
    law = mf.growth(mf.Residual(mf.Activate(mf.Activation(f)) >> after))
    assert (law.q.kind, law.gap.kind, law.apjn.kind) == ("power", "bounded", "stretched")
    seen = law.check(depth=10**6)
    assert seen.agrees
    assert {fit.name for fit in seen.fits if fit.quantity == "J"} == {"rate^stretch", "log_coefficient"}
