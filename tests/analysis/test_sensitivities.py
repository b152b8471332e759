"""mf.sensitivity against central differences of the recursion iterated with 60 digits."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis.repeats import stepped
from meanfield.analysis.signs import closed
from meanfield.gaussian.pair_expectation import Gap, PairExpectation
from meanfield.gaussian.slopes import derivative_in
from meanfield.gaussian.standardised import standardised
from meanfield.gaussian.tangents import gap_by_gap, gap_by_variance
from meanfield.numeric import pointwise
from meanfield.numeric.duals import Dual

STEP = sp.Rational(1, 10**20)

NETS: dict[str, tuple[mf.Block, int, dict[str, Any]]] = {
    "erf": (mf.mlp(mf.erf), 6, {"sigma_w": 1.3, "sigma_b": 0.2}),
    "repeats inside": (
        mf.Repeat(mf.mlp(mf.relu), 3) >> mf.Residual(mf.LayerNorm() >> mf.MLP(mf.relu)),
        2,
        {"sigma_w": 1.3, "sigma_b": 0.2, "sigma_1": 0.8, "sigma_2": 1.2},
    ),
    "relu": (mf.mlp(mf.relu), 6, {"sigma_w": 1.3, "sigma_b": 0.2}),
    "derf": (
        mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(), mlp=mf.MLP(mf.relu)),
        3,
        {"alpha": 0.7, "n": 5, "sigma_Q": 0.9, "sigma_K": 1.1, "sigma_V": 0.8, "sigma_O": 1, "sigma_1": 0.8, "sigma_2": 1.2},
    ),
}


@cache
def step_of(net: mf.Block) -> Any:
    """q', delta' and the transfer as a function of q, delta and the parameters, for mpmath"""
    v, d = sp.Symbol("v", positive=True), sp.Symbol("d", positive=True)
    rec = mf.recursion(net)
    after_q, after_gap, transfer = stepped(rec.unrolled, v, d)
    return sp.lambdify((v, d, *rec.parameters), [plain(e) for e in (after_q, after_gap, *transfer)], "mpmath", cse=True)


def final(net: mf.Block, depth: int, values: dict[str, Any]) -> list[mp.mpf]:
    """q_L, 1 - c_L and ln J in the working precision of mpmath"""
    step, parameters = step_of(net), [number(values[s.name]) for s in mf.recursion(net).parameters]
    q, delta, row = number(values["q"]), number(values["q"] * values["gap"]), mp.matrix([[1, 0]])
    for _ in range(depth):
        q, delta, *t = (mp.re(value) for value in step(q, delta, *parameters))
        row = row * mp.matrix([t[:2], t[2:]])
    return [q, delta / q, mp.log(row[0])]


def plain(e: sp.Expr) -> sp.Expr:
    """closed forms in functions that mpmath has"""
    return closed(e).replace(lambda t: isinstance(t, sp.Function) and hasattr(t, "definition"), lambda t: t.definition())


def number(value: Any) -> mp.mpf:
    return sp.N(value, 70)._to_mpmath(240)


@pytest.mark.parametrize("name", NETS)
def test_against_differences_of_sixty_digits(name: str) -> None:
    net, depth, values = NETS[name]
    names = [s for s in ("sigma_w", "sigma_b", "alpha", "sigma_O", "sigma_K") if s in values] + ["q", "gap"]
    found = mf.sensitivity(net, depth, 1.5, gap=0.4, with_respect_to=tuple(names), **values)
    exact = {k: sp.Rational(str(v)) for k, v in values.items()}
    for wrt in names:
        ends = []
        for side in (1, -1):
            moved = {**exact, "q": sp.Rational(3, 2), "gap": sp.Rational(2, 5)}
            moved[wrt] += side * STEP
            with mp.workdps(60):
                ends.append(final(net, depth, moved))
        with mp.workdps(60):
            truth = [float((up - down) / number(2 * STEP)) for up, down in zip(*ends, strict=True)]
        assert found.dgap is not None
        for mine, true in zip((found.dq[wrt], found.dgap[wrt], found.dlog_apjn[wrt]), truth, strict=True):
            assert abs(mine - true) <= 1e-11 * (1 + abs(true)), (wrt, mine, true)


def test_open_expectations() -> None:
    """tanh, by quadrature: one layer against Price's theorem in 25 digits, many against differences of propagate"""
    net, values = mf.mlp(mf.tanh), {"sigma_w": 1.3, "sigma_b": 0.2}
    one = mf.sensitivity(net, 1, 1.5, with_respect_to="q", **values)
    second = sp.Rational(169, 100) * mf.tanh.second_moment(mf.q).diff(mf.q).subs(mf.q, sp.Rational(3, 2))
    square = mf.E(mf.tanh.derivative.expression**2, mf.q)
    log = (square.diff(mf.q) / square).subs(mf.q, sp.Rational(3, 2))
    assert abs(one.dq["q"] - float(sp.N(second, 25))) < 1e-12
    assert abs(one.dlog_apjn["q"] - float(sp.N(log, 25))) < 1e-12
    h, many = 1e-5, mf.sensitivity(net, 8, 1.5, with_respect_to="sigma_w", **values)
    ends = [mf.propagate(net, 8, 1.5, record="last", sigma_w=1.3 + s * h, sigma_b=0.2) for s in (1, -1)]
    assert abs(many.dq["sigma_w"] - (ends[0].q[-1] - ends[1].q[-1]) / (2 * h)) < 1e-8
    assert abs(many.dlog_apjn["sigma_w"] - (ends[0].log_apjn[-1] - ends[1].log_apjn[-1]) / (2 * h)) < 1e-8


def test_grids_and_deep_runs() -> None:
    """a grid is its points; thousands of layers; the fixed point moves as the implicit function theorem says"""
    widths = np.array([0.8, 1.0, 1.2])
    found = mf.sensitivity(mf.mlp(mf.erf), 3000, 1.0, sigma_w=widths, sigma_b=0.3, with_respect_to=("sigma_w", "q"))
    for i, width in enumerate(widths):
        q = sp.Float(found.q[i])
        moment = mf.erf.second_moment(mf.q)
        slope = width**2 * moment.diff(mf.q).subs(mf.q, q)
        assert abs(found.dq["sigma_w"][i] - float(2 * width * moment.subs(mf.q, q) / (1 - slope))) < 1e-10
        assert abs(found.dq["q"][i]) < 1e-300 + 1e-15
    assert found.gap is None


def test_slopes_in_a_parameter_of_the_activation_are_of_products() -> None:
    s = sp.Symbol("s", positive=True)
    swish = mf.x / (1 + sp.exp(-s * mf.x))
    slope = mf.E(swish * swish.xreplace({mf.x: mf.y}), mf.q, mf.p).diff(s)
    assert slope.atoms(PairExpectation)
    assert all(e.separated() is not None for e in slope.atoms(PairExpectation))
    assert standardised(swish) == (1 / s, mf.x / (1 + sp.exp(-mf.x)), s)  # what phase diagrams read from tables


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="with_respect_to = alpha: expected some of q, sigma_b, sigma_w"):
        mf.sensitivity(mf.mlp(mf.erf), 3, 1.0, sigma_w=1, sigma_b=1, with_respect_to="alpha")
    for wrong in (5, ("sigma_w", 5), [["sigma_w"]]):
        with pytest.raises(TypeError, match=r"with_respect_to = .*: expected a name or names, some of q, sigma_b, sigma_w"):
            mf.sensitivity(mf.mlp(mf.erf), 3, 1.0, sigma_w=1, sigma_b=1, with_respect_to=wrong)  # type: ignore[arg-type]
    some = mf.sensitivity(mf.mlp(mf.relu), 3000, 1.0, sigma_w=np.array([1.0, 3.0]), sigma_b=0.1)
    assert some.status.tolist() == ["ok", "out of range"]
    with pytest.raises(ValueError, match="mixes tokens"):
        mf.sensitivity(mf.Residual(mf.Attention(4, 1, 1, 1, 1)), 3, 1.0)
    with pytest.raises(ArithmeticError, match=r"J is infinite from this start, where statistics of a batch .* identical \(c = 1\)"):
        mf.sensitivity(mf.BatchNorm() >> mf.mlp(mf.relu), 3, 1.0, c=1.0, sigma_w=1.0, sigma_b=0.1)


@pytest.mark.parametrize("phi", [mf.relu, mf.step, mf.tanh], ids=str)
def test_without_weights_q_has_its_slopes_and_j_a_status(phi: mf.Activation) -> None:
    found = mf.sensitivity(mf.mlp(phi), 3, 1.0, sigma_w=0.0, sigma_b=0.5)
    assert (found.status, found.q, found.dq) == ("zero APJN", 0.25, {"sigma_b": 1.0, "sigma_w": 0.0})
    assert found.log_apjn == -math.inf
    assert math.isnan(found.dlog_apjn["sigma_w"])


def test_what_jumps_has_slopes_of_q_and_c_beside_an_infinite_j() -> None:
    at = {"q": 1.0, "c": 0.4, "sigma_w": 1.2, "sigma_b": 0.3}
    found = mf.sensitivity(mf.mlp(mf.step), 3, **at, with_respect_to="sigma_w")
    up, down = (mf.propagate(mf.mlp(mf.step), 3, **{**at, "sigma_w": 1.2 + h}) for h in (1e-6, -1e-6))
    assert found.status == "infinite APJN"
    assert found.dq["sigma_w"] == pytest.approx((up.q[-1] - down.q[-1]) / 2e-6, rel=1e-8)
    assert found.dgap["sigma_w"] == pytest.approx((up.gap[-1] - down.gap[-1]) / 2e-6, rel=1e-7)


def test_the_gap_behind_a_norm_moves_with_its_variance() -> None:
    net = mf.Residual(mf.LayerNorm() >> mf.MLP(mf.gelu))
    up, down = (mf.propagate(net, 3, q=1.1, gap=0.4, sigma_1=0.477 + h, sigma_2=0.613).gap[-1] for h in (1e-4, -1e-4))
    slope = mf.sensitivity(net, 3, q=1.1, gap=0.4, sigma_1=0.477, sigma_2=0.613).dgap["sigma_1"]
    assert abs(slope - (up - down) / 2e-4) < 1e-8


tokens, features, width, gain = sp.symbols("tokens features width gain", positive=True)  # that need not be whole
MATRICES = {f"sigma_{name}": value for name, value in zip("QKVO", (0.9, 1.2, 0.8, 1.1), strict=True)}
OPEN: dict[str, tuple[mf.Block, int, dict[str, float]]] = {
    "softmax averages": (
        mf.Residual(mf.LayerNorm() >> mf.Attention(tokens, average=mf.Quenched())),
        3,
        {"tokens": 7.0, **MATRICES, "q": 1.2, "gap": 0.4},
    ),
    "gated attention": (
        mf.GAU(mf.silu, features, tokens, width, 64, lam=gain),
        1,
        {"tokens": 5.0, "features": 24.0, "width": 96.0, "gain": 1.3, "q": 1.2, "gap": 0.6},
    ),
}


@pytest.mark.parametrize("name", OPEN)
def test_laws_by_quadrature_against_extrapolated_differences(name: str) -> None:
    net, depth, values = OPEN[name]
    wanted = tuple(s for s in values if s not in ("sigma_Q", "sigma_V"))
    found = mf.sensitivity(net, depth, with_respect_to=wanted, **values)
    assert found.dgap is not None
    steps = np.array([-4, -2, -1, 1, 2, 4]) / 4
    weights = np.array([-1, 40, -256, 256, -40, 1]) / 90  # three central differences, extrapolated
    for wrt in wanted:
        h = 0.003 * values[wrt]
        moved = mf.propagate(net, depth, record="last", **{**values, wrt: values[wrt] + h * steps})
        for mine, end in ((found.dq, moved.q), (found.dgap, moved.gap), (found.dlog_apjn, moved.log_apjn)):
            true = float(weights @ end[..., -1] / h)
            assert abs(mine[wrt] - true) <= 1e-9 * (1 + abs(true)), (wrt, mine[wrt], true)


def test_tokens_that_are_told_apart() -> None:
    """Gram matrices over a grid, gradients of a token and pooled, against extrapolated differences; weights that depend on a parameter"""
    skip = sp.Symbol("skip", positive=True)
    weights = sp.Piecewise((mf.i ** (-skip), mf.i >= mf.j), (0, True))
    net = mf.Residual(mf.FixedAttention(weights, 4), skip=skip) >> mf.Residual(mf.LayerNorm() >> mf.MLP(mf.erf))
    values: dict[str, Any] = {
        "skip": 0.9,
        "sigma_V": np.array([0.7, 0.9]),
        "sigma_O": 1.1,
        "sigma_1": 0.8,
        "sigma_2": 1.2,
        "q": 1.2,
        "gap": 0.4,
    }
    wanted = ("skip", "sigma_V", "sigma_1", "q", "gap")
    steps, weighted = np.array([[-4], [-2], [-1], [1], [2], [4]]) / 4, np.array([-1, 40, -256, 256, -40, 1]) / 90
    for start in ("token", "pooled"):
        found = mf.sensitivity(net, 3, start=start, with_respect_to=wanted, **values)
        assert found.dgap is not None
        for wrt in wanted:
            h = 0.005 * values[wrt]
            moved = mf.propagate(net, 3, start=start, **{**values, wrt: values[wrt] + h * steps})
            for mine, end in ((found.dq, moved.q[..., -1]), (found.dgap, moved.gap[..., -1]), (found.dlog_apjn, moved.log_apjn[..., 0])):
                assert mine[wrt] == pytest.approx(weighted @ end / h, rel=1e-9, abs=1e-10), wrt


angle, slope = sp.symbols("angle slope", positive=True)
LEAKY = mf.Activation(sp.Max(mf.x, 0) - slope * sp.Max(-mf.x, 0))
MATRIX: dict[str, tuple[mf.Block, dict[str, float]]] = {
    "masked softmax with rotary positions": (
        mf.Residual(mf.CausalAttention(4, sigma_Q=sp.Symbol("sigma_Q"), sigma_K=2, frequencies=(1, angle)))
        >> mf.Residual(mf.RMSNorm() >> mf.MLP(LEAKY)),
        {"sigma_Q": 0.7, "sigma_V": 0.9, "sigma_O": 1.1, "angle": 0.3, "slope": 0.2, "sigma_1": 0.8, "sigma_2": 1.2, "q": 1.2, "gap": 0.4},
    ),
    "inputs of unequal norm": (mf.mlp(LEAKY), {"slope": 0.3, "sigma_w": 1.2, "sigma_b": 0.4, "q": 1.0, "q2": 2.3, "c": 0.3}),
    "gated units of unequal norm": (
        mf.Repeat(mf.Residual(mf.GLU(mf.erf), scale=angle), 6),
        {"angle": 0.4, "sigma_gate": 1.1, "sigma_value": 0.9, "sigma_out": 1.2, "q": 1.0, "q2": 0.3, "p": -0.2},
    ),
}


@pytest.mark.parametrize("name", MATRIX)
def test_every_parameter_of_a_gram_matrix(name: str) -> None:
    net, values = MATRIX[name]
    wanted = tuple(w for w in values if not ("p" in values and w.startswith("q")))  # q is moved at fixed c
    found = mf.sensitivity(net, 2, with_respect_to=wanted, **values)
    assert found.dgap is not None
    steps, weighted = np.array([-4, -2, -1, 1, 2, 4]) / 4, np.array([-1, 40, -256, 256, -40, 1]) / 90
    for wrt in wanted:
        h = 0.005 * abs(values[wrt])
        moved = mf.propagate(net, 2, **{**values, wrt: values[wrt] + h * steps})
        for mine, end in ((found.dq, moved.q[..., -1]), (found.dgap, moved.gap[..., -1]), (found.dlog_apjn, moved.log_apjn[..., 0])):
            assert mine[wrt] == pytest.approx(weighted @ end / h, rel=1e-9, abs=1e-10), wrt


def trapezoid(f: Any, deviation: mp.mpf, mean: Any = 0, spacing: float = 0.07, window: int = 17) -> mp.mpf:
    """E f(tanh(mean + deviation z)), analytic about the real line"""
    step, count = mp.mpf(spacing), int(window / spacing)
    return step * mp.fsum(f(mp.tanh(mean + deviation * k * step)) * mp.npdf(k * step) for k in range(-count, count + 1))


def test_quadrature_against_differences_of_fifty_digits() -> None:
    """tanh: q and ln J of two layers, in every parameter, and c of one"""
    values = {"q": "1.5", "sigma_w": "1.3", "sigma_b": "0.2"}
    found = mf.sensitivity(mf.mlp(mf.tanh), 2, 1.5, sigma_w=1.3, sigma_b=0.2, with_respect_to=tuple(values))
    pair = mf.sensitivity(mf.mlp(mf.tanh), 1, 1.5, gap=0.4, sigma_w=1.3, sigma_b=0.2, with_respect_to=("q", "gap"))
    assert pair.dgap is not None

    def ends(q: mp.mpf, sigma_w: mp.mpf, sigma_b: mp.mpf) -> list[mp.mpf]:
        log = mp.mpf(0)
        for _ in range(2):
            slope = trapezoid(lambda z: (1 - z**2) ** 2, mp.sqrt(q))
            q, log = sigma_w**2 * trapezoid(lambda z: z**2, mp.sqrt(q)) + sigma_b**2, log + mp.log(sigma_w**2 * slope)
        return [q, log]

    def gap(q: mp.mpf, apart: mp.mpf) -> mp.mpf:
        s, t = mp.sqrt(q * (1 - apart)), mp.sqrt(q * apart)
        step = mp.mpf("0.2")
        both = step * mp.fsum(trapezoid(lambda z: z, t, s * k * step, 0.2, 10) ** 2 * mp.npdf(k * step) for k in range(-50, 51))
        second = trapezoid(lambda z: z**2, mp.sqrt(q))
        return mp.mpf("1.69") * (second - both) / (mp.mpf("1.69") * second + mp.mpf("0.04"))

    with mp.workdps(55):
        h = mp.mpf(10) ** -25
        for wrt in values:
            up, down = (ends(**{k: mp.mpf(v) + side * h * (k == wrt) for k, v in values.items()}) for side in (1, -1))
            for mine, a, b in zip((found.dq, found.dlog_apjn), up, down, strict=True):
                assert abs(mine[wrt] - float((a - b) / (2 * h))) < 1e-12 * (1 + abs(mine[wrt])), wrt
    with mp.workdps(24):
        h = mp.mpf(10) ** -10
        for wrt, start in (("q", (h, 0)), ("gap", (0, h))):
            up, down = (gap(mp.mpf("1.5") + side * start[0], mp.mpf("0.4") + side * start[1]) for side in (1, -1))
            assert abs(pair.dgap[wrt] - float((up - down) / (2 * h))) < 1e-12, wrt


def _hard_tanh(q: mp.mpf, gap: mp.mpf, w: mp.mpf, b: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """q' and 1 - c' by Price's theorem: d^2/dc^2 E phi(u) phi(v)/q is the density of two kinks at 1/sqrt(q) less that of opposite ones"""
    a = 1 / mp.sqrt(q)
    inside = mp.erf(a / mp.sqrt(2))

    def kinks(s: mp.mpf) -> mp.mpf:  # 1 - c = s^2
        return (gap - s * s) * 2 * (mp.exp(-a * a / (2 - s * s)) - mp.exp(-((a / s) ** 2))) / (mp.pi * mp.sqrt(2 - s * s))

    lost = 2 * mp.quad(kinks, [0, mp.sqrt(gap) / 4, mp.sqrt(gap) / 2, mp.sqrt(gap)])
    new = w**2 * (q * (inside - 2 * a * mp.npdf(a)) + 1 - inside) + b**2
    return new, w**2 * q * (gap * inside - lost / 2) / new


@pytest.mark.parametrize("gap", ["1e-2", "1e-6", "1e-12"])
def test_the_gap_of_a_kinked_activation_moves_with_its_variance_next_to_c_of_one(gap: str) -> None:
    net, values = mf.mlp(mf.hard_tanh), {"sigma_w": 1.5, "sigma_b": 0.5}
    found = mf.sensitivity(net, 2, 1.25, gap=float(gap), **values)
    with mp.workdps(30):
        h, g = mp.mpf("1e-9"), mp.mpf(float(gap))

        def last(w: mp.mpf, b: mp.mpf) -> mp.mpf:
            return _hard_tanh(*_hard_tanh(mp.mpf("1.25"), g, w, b), w, b)[1]

        assert found.gap == pytest.approx(float(last(mp.mpf("1.5"), mp.mpf("0.5"))), rel=1e-13)
        by_w = (last(1.5 + h, mp.mpf("0.5")) - last(1.5 - h, mp.mpf("0.5"))) / (2 * h)
        by_b = (last(mp.mpf("1.5"), 0.5 + h) - last(mp.mpf("1.5"), 0.5 - h)) / (2 * h)
    assert found.dgap is not None
    assert [found.dgap[name] for name in ("sigma_w", "sigma_b")] == pytest.approx([float(by_w), float(by_b)], rel=1e-11)


def test_mish_against_differences_of_thirty_digits() -> None:
    """q' and E phi'^2 by the trapezoidal rule, geometric for a function analytic about the real axis"""

    def mean(g: Any, q: mp.mpf) -> mp.mpf:
        h, s = mp.mpf("0.06"), mp.sqrt(q)
        return sum(g(s * h * k) ** 2 * mp.exp(-((h * k) ** 2) / 2) for k in range(-200, 201)) * h / mp.sqrt(2 * mp.pi)

    def mish(t: mp.mpf) -> mp.mpf:
        return t * mp.tanh(mp.log1p(mp.exp(t)))

    def slope(t: mp.mpf) -> mp.mpf:
        gate = mp.tanh(mp.log1p(mp.exp(t)))
        return gate + t * (1 - gate**2) / (1 + mp.exp(-t))

    def last(w: mp.mpf, b: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
        q, log_apjn = mp.mpf("0.9375"), mp.mpf(0)
        for _ in range(2):
            log_apjn += mp.log(w**2 * mean(slope, q))
            q = w**2 * mean(mish, q) + b**2
        return q, log_apjn

    found = mf.sensitivity(mf.mlp(mf.mish), 2, 0.9375, sigma_w=1.125, sigma_b=0.625)
    with mp.workdps(30):
        h, at = mp.mpf("1e-9"), (mp.mpf("1.125"), mp.mpf("0.625"))
        for name, side in (("sigma_w", (h, 0)), ("sigma_b", (0, h))):
            up, down = (last(at[0] + sign * side[0], at[1] + sign * side[1]) for sign in (1, -1))
            wanted = [float((a - b) / (2 * h)) for a, b in zip(up, down, strict=True)]
            assert [found.dq[name], found.dlog_apjn[name]] == pytest.approx(wanted, rel=1e-13)


def test_two_inputs_have_a_word_for_each_setting() -> None:
    """one setting without derivatives took those of all others along; at sigma_w = 0, q = sigma_b^2 and c = 1"""
    given = {"q2": 2.0, "c": 0.3, "sigma_w": np.array([0.0, 0.0, 1.1]), "sigma_b": np.array([0.4, 0.0, 0.2])}
    slopes = mf.sensitivity(mf.mlp(mf.erf), 3, 1.0, **given)
    assert slopes.status.tolist() == ["zero APJN", "zero signal", "ok"]
    assert (slopes.q[0], slopes.dq["sigma_b"][0], slopes.log_apjn[0]) == pytest.approx((0.16, 0.8, -math.inf))
    assert slopes.dgap["sigma_w"][0] == 0
    alone = mf.sensitivity(mf.mlp(mf.erf), 3, 1.0, q2=2.0, c=0.3, sigma_w=1.1, sigma_b=0.2)
    for name in ("sigma_w", "sigma_b"):
        assert [d[name][2] for d in (slopes.dq, slopes.dgap, slopes.dlog_apjn)] == [
            d[name] for d in (alone.dq, alone.dgap, alone.dlog_apjn)
        ]


def test_what_is_infinite_is_not_differentiated(monkeypatch: pytest.MonkeyPatch) -> None:
    """E phi'^2 of what jumps: its derivative holds delta(x) delta'(x), at which sympy failed in some processes"""
    law = sp.Symbol("sigma_w", positive=True) ** 2 * mf.E(sp.DiracDelta(mf.x) ** 2, mf.q)
    monkeypatch.setattr(pointwise, "_slope", lambda e, name: pytest.fail("there is nothing to differentiate"))
    found = pointwise.number_at(law, {"sigma_w": Dual(np.ones(2), np.ones((3, 2))), "q": np.array([0.5, 1.0])})
    assert found.value.tolist() == [math.inf, math.inf]
    assert found.dots.shape == (3, 2)
    assert np.isnan(found.dots).all()


def test_two_inputs_where_a_function_jumps() -> None:
    """J is infinite, and c' = [(2/pi) asin c + b]/(1 + b), b = sigma_b^2, has its derivatives all the same"""

    def last(b: mp.mpf) -> mp.mpf:
        c = mp.mpf("0.3")
        for _ in range(3):
            c = (2 / mp.pi * mp.asin(c) + b**2) / (1 + b**2)
        return c

    slopes = mf.sensitivity(mf.mlp(mf.sign), 3, 1.0, q2=2.0, c=0.3, sigma_w=1.0, sigma_b=0.1)
    with mp.workdps(30):
        assert slopes.c == pytest.approx(float(last(mp.mpf("0.1"))), rel=1e-13)
        assert slopes.dc["sigma_b"] == pytest.approx(float(mp.diff(last, mp.mpf("0.1"))), rel=1e-12)
    assert (slopes.status, slopes.log_apjn, slopes.dq["sigma_b"]) == ("infinite APJN", math.inf, pytest.approx(0.2))


def test_what_is_not_finite_is_named() -> None:
    with pytest.raises(ArithmeticError, match=r"with_respect_to = sigma_1: the derivative of 1 - c at depth = 2 is not finite"):
        mf.sensitivity(mf.MLP(mf.step), 2, 1.0, c=0.4, sigma_1=0.0, sigma_2=0.5, with_respect_to="sigma_1")
    with pytest.raises(ArithmeticError, match="q is not finite at depth = 40: run propagate"):
        mf.sensitivity(mf.mlp(mf.relu_squared), 40, 9.0, sigma_w=3.0, sigma_b=0.0)


def test_a_slope_beyond_doubles_of_what_stays_as_it_is_takes_nothing_from_the_others() -> None:
    """dG/dq at q = 1e120 is a product of numbers beyond doubles; no parameter moves the q of the start"""
    far, near = (mf.sensitivity(mf.mlp(mf.erf), 2, q, c=0.5, sigma_w=1.3, sigma_b=0.2) for q in (1e120, 1e40))
    assert far.status == "ok"
    for name, slope in near.dgap.items():
        assert far.dgap[name] == pytest.approx(slope, rel=1e-13)


def test_no_gap_is_asked_for_in_either_sign() -> None:
    """G[f] = G[-f]: each integrand costs the finding of its panels, and that of its slope"""
    by_q, by_delta = (by(sp.atan(sp.tanh(mf.x / 2)), mf.q, mf.delta) for by in (gap_by_variance, gap_by_gap))
    functions = [node.integrand for node in sp.Tuple(by_q, by_delta).atoms(Gap)]
    assert len(functions) == 5  # f', f + f'', f - f'', x f' + f and x f' - f
    values = [complex(f.xreplace({mf.x: sp.Rational(1, 3)}).evalf()) for f in functions]
    assert min(abs(a + b) for a, b in itertools.combinations(values, 2)) > 1e-3
    assert len(sp.Tuple(by_q, by_delta).atoms(PairExpectation)) == 1


def test_a_gap_moves_with_its_variance_where_the_slope_is_infinite_beside_the_mean() -> None:
    """u f'(u) is infinite at 1: its gap is none, f'^2 and f'(u) f(v) have means"""
    root, h = sp.Max(mf.x - 1, 0) ** sp.Rational(4, 5), sp.Rational(1, 10**4)
    by_q = gap_by_variance(root, mf.q, mf.delta).subs({mf.q: sp.Rational(13, 10), mf.delta: sp.Rational(1, 2)})
    low, below, above, high = (Gap(root, sp.Rational(13, 10) + k * h, sp.Rational(1, 2)).evalf(16) for k in (-2, -1, 1, 2))
    assert float(by_q.evalf(12)) == pytest.approx(float((8 * (above - below) - (high - low)) / (12 * h)), rel=1e-9)


@pytest.mark.parametrize("p", [0.1, -0.1])
def test_of_logits_however_large(p: float) -> None:
    """where the softmax picks one token its scales no longer matter: what those of values do is still there"""
    net, given = mf.Residual(mf.Attention()), {"n": 8, "sigma_K": 1.1, "sigma_V": 0.8, "sigma_O": 0.7}
    slopes = [mf.sensitivity(net, 4, 1.3, p=p, sigma_Q=s, **given) for s in (16.0, 17.0, 30.0, 300.0)]
    for found in slopes:
        assert found.status == "ok"
        up, down = (mf.propagate(net, 4, 1.3, p=p, sigma_Q=40.0, **{**given, "sigma_V": v}) for v in (0.80001, 0.79999))
        assert found.dq["sigma_V"] == pytest.approx((up.q[-1] - down.q[-1]) / 2e-5, rel=1e-7)
        assert found.dgap["sigma_V"] == pytest.approx((up.gap[-1] - down.gap[-1]) / 2e-5, rel=1e-6, abs=1e-9)
        assert found.dq["sigma_Q"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("average", [mf.Annealed(), mf.Quenched()], ids=["annealed", "quenched"])
def test_of_uncorrelated_tokens(average: mf.Annealed | mf.Quenched) -> None:
    """at p = 0 overlaps are worked out from one side or the other, and have no kink"""
    net, given = mf.Attention(average=average), {"n": 8, "sigma_Q": 1.0, "sigma_K": 1.0, "sigma_V": 1.0, "sigma_O": 1.0}
    found = mf.sensitivity(net, 2, 1.0, p=0.0, with_respect_to=("p", "sigma_Q"), **given)
    for name, v in (("p", 0.0), ("sigma_Q", 1.0)):
        up, down = (mf.propagate(net, 2, 1.0, **{"p": 0.0, **given, name: v + h}) for h in (1e-5, -1e-5))
        for slopes, quantity in ((found.dq, "q"), (found.dgap, "gap")):
            assert slopes[name] == pytest.approx((getattr(up, quantity)[-1] - getattr(down, quantity)[-1]) / 2e-5, rel=1e-7, abs=1e-9)
        assert found.dlog_apjn[name] == pytest.approx((up.log_apjn[0] - down.log_apjn[0]) / 2e-5, rel=1e-7)


def test_of_a_network_without_parameters() -> None:
    with pytest.raises(ValueError, match="no free parameters: name what to differentiate by, with_respect_to = q"):
        mf.sensitivity(mf.Linear(1, 0), 3, 1.0)
    assert mf.sensitivity(mf.Linear(1, 0), 3, 1.0, with_respect_to="q").dq["q"] == 1.0


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        (lambda a: sp.Max(-a, sp.Min(a, mf.x)), (0.5, 1.1)),  # a hard tanh as wide as a
        (lambda a: sp.Max(-1, sp.Min(1, a * mf.x)), (-0.7, 1.3)),
        (lambda a: mf.x * sp.Min(sp.Max(mf.x + a, 0), 1), (0.5, 1.1)),
        # cuts that come in one order for some values of a, in another for others
        (lambda a: sp.Min(1, sp.Max(0, a + 2 * mf.x)) + sp.Min(1, sp.Max(0, mf.x / 2 + sp.Rational(1, 10))), (0.3, 2.9)),
    ],
)
def test_kinks_of_what_is_nested_move(shape: Any, values: tuple[float, ...]) -> None:
    a, h, setting = sp.Symbol("a"), 1e-4, {"q": 1.0, "c": 0.5, "sigma_w": 1.0, "sigma_b": 0.1}
    net = mf.mlp(mf.Activation(shape(a)))
    found = mf.sensitivity(net, 4, with_respect_to="a", a=np.array(values), **setting)
    runs = mf.propagate(net, 4, record="last", a=np.array(values)[:, None] + h * np.array([-2, -1, 1, 2]), **setting)
    weights = np.array([1, -8, 8, -1]) / (12 * h)
    for slopes, rows in ((found.dq, runs.q[..., -1]), (found.dc, runs.c[..., -1]), (found.dlog_apjn, runs.log_apjn[..., 0])):
        np.testing.assert_allclose(slopes["a"], rows @ weights, rtol=1e-8, atol=1e-9)


def test_a_kink_without_a_place_that_moves_is_named() -> None:
    a = sp.Symbol("a", positive=True)
    with pytest.raises(ValueError, match="has no derivative in a here, where it jumps is not known"):
        mf.sensitivity(
            mf.mlp(mf.Activation(sp.Max(sp.tanh(a * mf.x), mf.x / 5))), 3, with_respect_to="a", q=1.0, c=0.5, a=0.7, sigma_w=1, sigma_b=0
        )


def _against_differences(net: mf.Block, depth: int, names: tuple[str, ...], rtol: float, **setting: Any) -> mf.Sensitivity:
    found, h, weights = mf.sensitivity(net, depth, with_respect_to=names, **setting), 1e-3, np.array([1, -8, 8, -1]) / 12
    for name in names:
        steps = setting[name] + h * np.array([-2, -1, 1, 2])
        runs = mf.propagate(net, depth, record="last", **{**setting, name: steps})
        rows = [found.dq, found.dgap, found.dlog_apjn], [runs.q[..., -1], runs.gap[..., -1], runs.log_apjn[..., 0]]
        for slopes, values in zip(*rows, strict=True):
            assert slopes[name] == pytest.approx(values @ weights / h, rel=rtol, abs=rtol), name
    return found


def test_conditions_on_waves_are_no_cases_of_cases() -> None:
    """dG/dq is the one of two sums of gaps whose terms are smaller, and a gap of waves has cases of its own"""
    net = mf.mlp(mf.Activation(sp.erf(mf.x) + sp.sin(mf.x)))
    found = _against_differences(net, 3, ("sigma_w", "sigma_b"), 1e-8, q=1.0, c=0.3, sigma_w=1.0, sigma_b=0.1)
    assert [found.dq["sigma_w"], found.dc["sigma_w"], found.dlog_apjn["sigma_w"]] == pytest.approx([4.56993, -0.267193, 4.57229], rel=2e-6)


_ROOT = sp.Abs(mf.x) ** sp.Rational(4, 5)


@pytest.mark.parametrize(
    "phi",
    [sp.sign(mf.x) * _ROOT, _ROOT + sp.tanh(mf.x), sp.Max(mf.x, 0) ** sp.Rational(2, 3), sp.Max(mf.x, 0) ** sp.Rational(4, 5) + mf.x],
    ids=str,
)
def test_of_roots_whose_slope_is_square_integrable(phi: sp.Expr) -> None:
    """f'^2 has a mean and its derivative has none: the mean moves with the density"""
    net = mf.mlp(mf.Activation(phi))
    _against_differences(net, 3, ("sigma_w", "sigma_b", "q", "c"), 2e-8, q=1.0, c=0.3, sigma_w=1.0, sigma_b=0.2)


def test_of_a_root_whose_slope_is_not() -> None:
    found = mf.sensitivity(mf.mlp(mf.Activation(sp.sqrt(sp.Abs(mf.x)))), 3, 1.0, c=0.3, sigma_w=1.0, sigma_b=0.2, with_respect_to="sigma_w")
    assert (found.status, found.log_apjn) == ("infinite APJN", math.inf)
    assert [found.dq["sigma_w"], found.dc["sigma_w"]] == pytest.approx([2.38066095, -0.00950962], abs=1e-8)  # differences


def test_the_gradient_of_two_tokens_moves_with_a_root() -> None:
    """J of attention takes E f'(u) f'(v), whose derivative by Price's theorem is that of two functions without a mean"""
    net = mf.Residual(mf.Attention()) >> mf.Residual(mf.MLP(mf.Activation(sp.sign(mf.x) * _ROOT)))
    given = {"n": 5, "sigma_Q": 0.9, "sigma_K": 1.1, "sigma_V": 0.8, "sigma_O": 1.0, "sigma_1": 0.8, "sigma_2": 1.2}
    _against_differences(net, 2, ("sigma_V", "sigma_1", "q", "c"), 2e-8, q=1.0, c=0.3, **given)
    merged = mf.sensitivity(net, 2, with_respect_to="sigma_1", q=1.0, gap=1e-8, **given)
    assert (merged.status, math.isnan(merged.dlog_apjn["sigma_1"])) == ("out of range", True)  # only rounding would be left of it


def test_a_jump_that_moves_with_an_exponent_is_not_left_out() -> None:
    b = sp.Symbol("b", positive=True)
    assert derivative_in(sp.Max(mf.x, 0) ** b + sp.Heaviside(mf.x - b), b).has(sp.DiracDelta)


@pytest.mark.parametrize(
    "f", [lambda b: sp.sign(mf.x) * sp.Abs(mf.x) ** b, lambda b: sp.Max(mf.x, 0) ** b + mf.x], ids=["odd", "rectified"]
)
def test_of_powers_whose_exponent_is_given_with_the_call(f: Any) -> None:
    """as those of the number that it is; below 0 the rate of max(x, 0)^b in b is 0, not 0 log 0"""
    setting = {"q": 1.0, "c": 0.3, "sigma_w": 1.0, "sigma_b": 0.2}
    net = mf.mlp(mf.Activation(f(sp.Symbol("b", positive=True))))
    found = _against_differences(net, 3, ("sigma_w", "b"), 2e-8, b=0.8, **setting)
    of_number = mf.sensitivity(mf.mlp(mf.Activation(f(sp.Rational(4, 5)))), 3, with_respect_to="sigma_w", **setting)
    for mine, other in ((found.dq, of_number.dq), (found.dc, of_number.dc), (found.dlog_apjn, of_number.dlog_apjn)):
        assert mine["sigma_w"] == pytest.approx(other["sigma_w"], rel=1e-12)
    with pytest.raises(ValueError, match="not integrable next to x = 0"):
        mf.sensitivity(net, 3, b=0.4, **setting)
