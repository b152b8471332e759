"""Phase diagrams: each setting as fixed_points has it, the critical line as critical has it, what diverges, figures and labels."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.analysis import contours, table_steps, tables, tabulated
from meanfield.analysis.maps import map_of, values_of
from meanfield.gaussian.pair_expectation import Gap
from meanfield.gaussian.standardised import standardised
from meanfield.symbols import known

WEIGHTS, BIASES = np.linspace(0.6, 2.4, 37), np.linspace(0.02, 0.8, 27)


def settings_agree(net: mf.Block, names: tuple[str, str], diagram: mf.PhaseDiagram, count: int) -> None:
    """settings drawn from the grid against the certified search at one setting"""
    x, y = diagram.axes.values()
    rng = np.random.default_rng(7)
    for i, j in zip(rng.integers(0, x.size, count), rng.integers(0, y.size, count), strict=True):
        found = mf.fixed_points(net, **{names[0]: float(x[i]), names[1]: float(y[j])})
        (at_one,) = [f for f in found if f.c == 1 and f.q > 0]
        assert diagram.q[i, j] == pytest.approx(at_one.q, rel=1e-12)
        assert diagram.chi[i, j] == pytest.approx(at_one.chi, rel=1e-11)
        assert diagram.chi_parallel[i, j] == pytest.approx(at_one.chi_parallel, abs=1e-11)
        below = [f for f in found if 0 < f.gap <= 1]
        assert diagram.phase[i, j] == ("chaotic" if below else "ordered")
        if below:
            assert diagram.gap[i, j] == pytest.approx(below[0].gap, rel=1e-10 / abs(at_one.chi - 1))
        else:
            assert diagram.c[i, j] == 1


@pytest.mark.parametrize("phi", [mf.tanh, mf.sin], ids=["tanh", "sin"])
def test_each_setting(phi: mf.Activation) -> None:
    net = mf.mlp(phi)
    diagram = mf.phase_diagram(net, sigma_w=WEIGHTS, sigma_b=BIASES)
    assert diagram.q.shape == (37, 27)
    settings_agree(net, ("sigma_w", "sigma_b"), diagram, 6)


def test_a_parameter_inside_a_function() -> None:
    """of a polynomial in it the tables are without it"""
    phi = mf.Activation(sp.tanh(mf.x) + sp.Symbol("a", positive=True) * sp.sin(mf.x))
    net = mf.Activate(phi) >> mf.Linear(sigma_b=0.2)
    assert table_steps._functions(map_of(net)).identical is not None
    diagram = mf.phase_diagram(net, a=np.linspace(0.2, 1.5, 4), sigma_w=np.linspace(0.4, 0.6, 4))
    settings_agree(net, ("a", "sigma_w"), diagram, 1)


def test_a_threshold_inside_a_function() -> None:
    """softshrink with its threshold is a scale of x and of itself: one table for all of them"""
    net = mf.Activate(mf.softshrink(sp.Symbol("lambd", positive=True))) >> mf.Linear(sigma_b=0.6)
    assert table_steps._functions(map_of(net)).identical is not None
    diagram = mf.phase_diagram(net, lambd=np.linspace(0.1, 0.9, 5), sigma_w=np.linspace(0.5, 0.95, 5))
    settings_agree(net, ("lambd", "sigma_w"), diagram, 2)


@pytest.mark.parametrize("name", ["softshrink", "hardshrink", "smelu", "celu"])
def test_thresholds_are_scales(name: str) -> None:
    """f(x; s) = s f(x/s; 1), and what is taken for s f(x/s; 1) has the values of f(x; s)"""
    s = sp.Symbol("s", positive=True)
    f = mf.activations[name](s).expression
    c, g, a = standardised(f)
    assert (c, g.free_symbols, a) == (s, {mf.x}, 1 / s)
    for at in (-2, sp.Rational(-1, 3), sp.Rational(1, 5), 3):
        put = {s: sp.Rational(7, 10), mf.x: at}
        assert sp.N((c * g.xreplace({mf.x: a * mf.x})).subs(put), 20) == pytest.approx(sp.N(f.subs(put), 20), rel=1e-18)


def test_critical_line() -> None:
    net = mf.mlp(mf.tanh)
    diagram = mf.phase_diagram(net, sigma_w=WEIGHTS, sigma_b=BIASES)
    (line,) = diagram.critical_lines
    for w, b in line[::12]:
        point = mf.critical(net, sigma_b=float(b))
        assert point["sigma_w"] == pytest.approx(float(w), rel=1e-11)
    assert np.all(np.hypot(*np.diff(line, axis=0).T) < 0.08)  # a curve, one edge after another


def test_many_settings_take_seconds_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """a grid of 160 000 settings asks for the expectations no more often than one of 1 600: tables hold them"""
    net = mf.mlp(mf.tanh)
    calls: list[int] = []
    right = tables.Table._values

    def counted(self: Any, scale: float, **law: Any) -> Any:
        calls.append(law["q"].size)
        return right(self, scale, **law)

    monkeypatch.setattr(tables.Table, "_values", counted)
    monkeypatch.setattr(tables, "kept", lambda name: None)
    tables.table_of.cache_clear()
    table_steps._functions.cache_clear()
    mf.phase_diagram(net, sigma_w=np.linspace(0.5, 3, 40), sigma_b=np.linspace(0.01, 1, 40))
    assert len(calls) > 8
    calls.clear()
    big = mf.phase_diagram(net, sigma_w=np.linspace(0.5, 3, 400), sigma_b=np.linspace(0.01, 1, 400))
    assert big.q.size == 160_000
    assert not np.isnan(big.gap).any()
    assert len(calls) < 8


def test_a_table_asks_for_no_more_than_resolves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """the gap of ELU's bend between c = 0 and 1, on a panel: fewer than a grid of the most points, and the same to rounding between them"""
    bend = sp.Piecewise((0, mf.x > 0), (sp.exp(mf.x) - 1, True))
    node, asked, right = Gap(bend, mf.q, mf.delta), [], tables.Table._values

    def counted(self: Any, scale: float, **law: Any) -> Any:
        asked.append(law["q"].size)
        return right(self, scale, **law)

    monkeypatch.setattr(tables.Table, "_values", counted)
    monkeypatch.setattr(tables, "kept", lambda name: None)
    v, d = np.array([1.1, 2.3, 3.9]), np.array([0.01, 1.7, 3.0])
    found = tables.Table(node)(v, d)
    assert sum(asked) < tables.POINTS * tables.ACROSS * 0.6
    (exact,), _ = tables.values_of((node,), {"q": v, "delta": d})
    assert found == pytest.approx(exact, rel=3e-13)


def test_a_transformer_through_tables() -> None:
    """the pair (q*, 1 - c*) of nets that mix tokens, whose expectations take quadrature, is left where it is by a repeat"""
    net = mf.pre_norm(
        norm=mf.DyT(), attention=mf.Attention(n=50, sigma_Q=1, sigma_K=1, sigma_V=1, sigma_O=1), mlp=mf.MLP(mf.relu, 1), skip=0.8
    )
    diagram = mf.phase_diagram(net, alpha=np.linspace(0.4, 3, 12), sigma_2=np.linspace(0.5, 2, 12))
    assert np.isfinite(diagram.q).all()
    assert (diagram.gap > 0.01).sum() > 20
    apart = diagram.gap > 0
    alpha, sigma_2 = (a[apart] for a in np.meshgrid(*diagram.axes.values(), indexing="ij"))
    run = mf.propagate(net, 1, q=diagram.q[apart], gap=diagram.gap[apart], alpha=alpha, sigma_2=sigma_2)
    assert np.allclose(run.q[..., 1], run.q[..., 0], rtol=1e-10, atol=0)
    assert np.allclose(run.gap[..., 1], run.gap[..., 0], rtol=1e-9, atol=0)


def test_a_gap_of_a_homogeneous_function_is_tabulated_at_one_variance() -> None:
    """sqrt|x|, no closed form: at other variances and scales the value is that of the quadrature, and its rates those of differences"""
    f, found = sp.sqrt(sp.Abs(mf.x)), dict[str, tables.Table]()
    node = Gap(3 * f.xreplace({mf.x: 2 * mf.x}), mf.q, known("delta"))
    e = tabulated.tabulated(node, found)
    (table,) = found.values()
    assert table.node == Gap(f, 1, known("delta"))
    value, by_q, by_delta = (
        sp.lambdify([mf.q, known("delta")], own, [tabulated.callables(found), "numpy"])
        for own in (e, *(tabulated.along(e, s) for s in (mf.q, known("delta"))))
    )
    q, delta, h = np.array([0.3, 5.0, 70.0]), np.array([0.3, 5.0, 70.0]) * np.array([0.4, 0.9, 0.6]), 1e-5
    (true,), _ = values_of((node,), {"q": q, "delta": delta})
    assert value(q, delta) == pytest.approx(true, rel=1e-13)
    assert by_q(q, delta) == pytest.approx((value(q * (1 + h), delta) - value(q * (1 - h), delta)) / (2 * h * q), rel=1e-8)
    assert by_delta(q, delta) == pytest.approx((value(q, delta * (1 + h)) - value(q, delta * (1 - h))) / (2 * h * delta), rel=1e-8)
    assert set(table.parts) <= {(0, 0.0, 1.0), (0, 0.5, 1.0)}


def test_derivatives_of_tables() -> None:
    v = np.geomspace(0.02, 3e3, 40)
    d = v * np.linspace(0.001, 0.99, 40)
    for phi in (mf.tanh, mf.Activation(sp.Max(mf.x, -1))):
        table, step = tables.Table(Gap(phi.expression, mf.q, mf.delta)), 1e-5
        assert np.allclose(table(v, d), mf.evaluate(phi.gap(mf.q, mf.delta), q=v, delta=d), rtol=1e-11, atol=0)
        across = (table(v, d * (1 + step)) - table(v, d * (1 - step))) / (2 * d * step)
        assert np.allclose(table.by_difference(v, d), across, rtol=1e-7, atol=0)
        along = (table(v * (1 + step), d) - table(v * (1 - step), d)) / (2 * v * step)
        assert np.allclose(table.by_variance(v, d), along, rtol=1e-4, atol=1e-9)


def test_divergence_and_homogeneity() -> None:
    diagram = mf.phase_diagram(mf.mlp(mf.relu), sigma_w=WEIGHTS, sigma_b=BIASES)
    (line,) = diagram.critical_lines
    assert line[:, 0] == pytest.approx(math.sqrt(2), rel=1e-12)
    assert ((diagram.phase == "divergent") == (WEIGHTS[:, None] ** 2 > 2)).all()
    assert np.isinf(diagram.q[diagram.phase == "divergent"]).all()
    gelu = mf.phase_diagram(mf.mlp(mf.gelu), sigma_w=np.linspace(1.3, 1.6, 31), sigma_b=np.linspace(0.02, 0.9, 31))
    (line,) = gelu.critical_lines  # where q* vanishes with chi < 1 nothing is critical
    assert line[:, 1].min() > 0.41
    assert {"ordered", "chaotic", "divergent"} == set(gelu.phase.ravel().tolist())
    exp = mf.phase_diagram(mf.mlp(mf.exp), sigma_w=np.linspace(0.1, 2.5, 9), sigma_b=BIASES)  # e^{2q} leaves the doubles
    assert {"ordered", "divergent"} == set(exp.phase.ravel().tolist())
    assert exp.q[0, 0] == pytest.approx(mf.fixed_points(mf.mlp(mf.exp), sigma_w=0.1, sigma_b=0.02)[0].q, rel=1e-12)


@pytest.mark.parametrize(("phi", "edge"), [(mf.erf, math.sqrt(math.pi) / 2), (mf.tanh, 1.0)])
def test_the_critical_line_begins_exactly_where_variances_grow_out_of_0(phi: mf.Activation, edge: float) -> None:
    """sigma_w phi'(0) = 1 at sigma_b = 0, beyond which chi - 1 grows as q*^2 only; also where that is a node of the grid"""
    for weights in ([0.5, 1, 2], np.linspace(0.5, 3, 25)):
        (line,) = mf.phase_diagram(mf.mlp(phi), sigma_w=weights, sigma_b=[0, 0.5]).critical_lines
        assert line[0] == pytest.approx([edge, 0], rel=1e-14, abs=0)


def test_other_parameters() -> None:
    """a skip of a normalised residual net, the slope inside a Derf, and the weights of a transformer"""
    net = mf.Residual(mf.LayerNorm() >> mf.Activate(mf.erf) >> mf.Linear(sigma_b=sp.Rational(1, 2)), skip=sp.Symbol("mu"))
    diagram = mf.phase_diagram(net, mu=np.linspace(0.1, 0.9, 9), sigma_w=np.linspace(0.5, 3, 26))
    edge = 0.5 / math.sqrt(4 / (math.pi * math.sqrt(5)) - 2 / math.pi * math.asin(2 / 3))
    (line,) = diagram.critical_lines
    assert line[:, 1] == pytest.approx(edge, rel=1e-11)
    slope = mf.phase_diagram(mf.mlp(mf.derf(None)), alpha=np.linspace(0.2, 2, 19), sigma_w=np.linspace(0.5, 2, 16), sigma_b=0.1)
    (w,) = [c[1] for curve in slope.critical_lines for c in curve if c[0] == slope.axes["alpha"][9]]
    assert mf.critical(mf.mlp(mf.derf(None)), alpha=float(slope.axes["alpha"][9]), sigma_b=0.1)["sigma_w"] == pytest.approx(w, rel=1e-11)
    block = mf.pre_norm(norm=mf.Derf(), attention=mf.Attention(softmax_derivative=False), mlp=mf.MLP(mf.relu), skip=sp.Rational(9, 10))
    scales = {"n": 16, **dict.fromkeys(["sigma_Q", "sigma_K", "sigma_V", "sigma_O", "sigma_1"], 1.0)}
    coupled = mf.phase_diagram(block, alpha=np.linspace(0.5, 3.5, 7), sigma_2=np.linspace(0.5, 2, 7), **scales)
    i, j = 6, 5
    values = {**scales, "alpha": float(coupled.axes["alpha"][i]), "sigma_2": float(coupled.axes["sigma_2"][j])}
    (apart,) = [f for f in mf.fixed_points(block, **values) if f.stable]
    assert coupled.phase[i, j] == "chaotic"
    assert (coupled.q[i, j], coupled.gap[i, j]) == (pytest.approx(apart.q, rel=1e-11), pytest.approx(apart.gap, rel=1e-11))


def residual(*blocks: mf.Block) -> mf.Residual:
    return mf.Residual(mf.Serial(blocks))


GROWING = {
    "relu": (mf.mlp(mf.relu), {"sigma_w": [1.0, 2.0], "sigma_b": [0.1, 0.5]}),
    "tanh": (mf.mlp(mf.tanh), {"sigma_w": [0.5, 1.0, 2.0], "sigma_b": [0.0, 0.5]}),
    "gelu": (mf.mlp(mf.gelu), {"sigma_w": [1.3, 1.5], "sigma_b": [0.0, 0.5]}),
    "derf": (residual(mf.Derf(1), mf.Linear()), {"sigma_w": [1.0, 2.0], "sigma_b": [0.1, 1.0]}),
    "layer norm, erf": (residual(mf.LayerNorm(), mf.Activate(mf.erf), mf.Linear()), {"sigma_w": [1.0, 3.0], "sigma_b": [0.1, 1.0]}),
    "layer norm, relu": (residual(mf.LayerNorm(), mf.MLP(mf.relu)), {"sigma_1": [1.0, 3.0], "sigma_2": [0.1, 1.0]}),
    "sign": (mf.mlp(mf.activations["sign"]), {"sigma_w": [0.5, 2.0], "sigma_b": [0.0, 1.0]}),
    "a stream of signs": (residual(mf.Activate(mf.activations["sign"]), mf.Linear()), {"sigma_w": [0.5, 2.0], "sigma_b": [0.0, 1.0]}),
    "a softened kink": (mf.mlp(mf.softplus), {"sigma_w": [1.2, 2**0.5], "sigma_b": [0.5, 1.0]}),
    "a line and an exponential": (mf.mlp(mf.elu), {"sigma_w": [1.2, 2**0.5], "sigma_b": [0.0, 1.0]}),
    "a slight kink": (mf.mlp(mf.leaky_relu(sp.Rational(99, 100))), {"sigma_w": [0.9, 1.2, 2.0], "sigma_b": [0.1, 0.5]}),
    "a light branch": (mf.residual_mlp(mf.relu, scale=sp.Rational(1, 20)), {"sigma_w": [0.2, 1.0], "sigma_b": [0.1, 0.5]}),
    "a line and ten steps": (mf.mlp(mf.Activation(mf.x + 10 * sp.tanh(mf.x))), {"sigma_w": [1.2, 2.0], "sigma_b": [0.1, 0.5]}),
    "pre-norm": (
        mf.pre_norm(norm=mf.LayerNorm(), attention=mf.Attention(8, 1, 1, None, 1), mlp=mf.MLP(mf.relu, 1, None)),
        {"sigma_V": [0.5, 1.0], "sigma_2": [0.5, 1.0]},
    ),
}


@pytest.mark.parametrize("name", GROWING)
def test_growth_classes_are_the_kinds_of_growth(name: str) -> None:
    net, axes = GROWING[name]
    diagram = mf.phase_diagram(net, **{k: np.array(v) for k, v in axes.items()})
    (first, x), (second, y) = axes.items()
    for i, j in {(0, 0), (len(x) - 1, 0), (0, 1), (1, 1), (len(x) - 1, 1)}:
        law = mf.growth(net, **{first: x[i], second: y[j]})
        words = [str(diagram.growth[k][i, j]) for k in ("q", "gap", "apjn")]
        assert words == [law.q.kind, law.gap.kind, law.apjn.kind], (x[i], y[j])
        rate = law.apjn.sign if law.apjn.kind == "stretched" else {"exponential": law.apjn.rate}.get(law.apjn.kind)
        assert rate is None or diagram.apjn_sign[i, j] == np.sign(float(rate)), (x[i], y[j])


def test_what_a_setting_lacks_is_its_status() -> None:
    """J of a function that jumps is infinite; where q goes to 0 and c does not go to 1, c is left open; nan is never ok"""
    axes = {"sigma_w": np.array([0.3, 0.8]), "sigma_b": np.array([0.0, 0.5])}
    square, steps, relu = (mf.phase_diagram(mf.mlp(phi), **axes) for phi in (mf.relu_squared, mf.step, mf.relu))
    assert square.status.tolist() == [["c open", "ok"], ["c open", "divergent"]]
    assert (square.q[:, 0] == 0).all()
    assert (steps.status == "infinite APJN").all()
    for diagram in (square, relu):
        values = np.array(
            [getattr(diagram, name)[diagram.status == "ok"] for name in ("q", "c", "gap", "chi", "chi_parallel", "xi_c", "xi_q")]
        )
        assert values.size
        assert not np.isnan(values).any()
    ax = steps.plot(quantity="growth_apjn")
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["infinite"]


@pytest.mark.parametrize("phi", [mf.erf, mf.isru], ids=["closed", "from tables"])
def test_a_stream_that_grows_for_ever_has_no_fixed_point(phi: mf.Activation) -> None:
    """q' - q is 1e-20 q at weights of 1e-4 and q = 1e12, and no root; with a skip below 1 there is one"""
    axes = {"sigma_w": np.geomspace(1e-4, 1, 4), "sigma_b": np.array([0.0, 1e-5])}
    grows = mf.phase_diagram(residual(mf.Activate(phi), mf.Linear()), **axes)
    assert np.isinf(grows.q).all()
    assert (grows.phase == "divergent").all()
    assert not grows.critical_lines
    assert (grows.growth["q"] == "power").all()
    assert (grows.growth["apjn"] == "stretched").all()
    net = mf.Residual(mf.Activate(phi) >> mf.Linear(), skip=sp.Rational(9, 10))
    settings_agree(net, ("sigma_w", "sigma_b"), mf.phase_diagram(net, sigma_w=[0.5, 2.0], sigma_b=[0.1, 0.3]), 1)


def test_contours() -> None:
    """a circle in one piece, and no curve where the function jumps over zero"""
    x, y = np.linspace(-2, 2, 21), np.linspace(-2, 2, 19)

    def circle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(a**2 + b**2 - 1.7)

    silent = contours.Steep(np.full((21, 19), np.nan), circle)
    (curve,) = contours.zero_curves(x, y, circle(x[:, None], y[None, :]), circle, silent)
    assert np.hypot(*curve.T) == pytest.approx(math.sqrt(1.7), rel=1e-13)
    assert (curve[0] == curve[-1]).all()

    def step(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(a + b > 0.3, 1.0, -1.0)

    assert contours.zero_curves(x, y, step(x[:, None], y[None, :]), step, silent) == ()


def test_a_wrong_table_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = tables.Table.__call__

    def wrong(self: tables.Table, *args: np.ndarray) -> np.ndarray:
        return right(self, *args) * (1 + 1e-9)

    monkeypatch.setattr(tables.Table, "__call__", wrong)
    net = mf.mlp(mf.tanh)
    diagram = mf.phase_diagram(net, sigma_w=WEIGHTS, sigma_b=BIASES)
    with pytest.raises(AssertionError):
        settings_agree(net, ("sigma_w", "sigma_b"), diagram, 6)


def test_figures_and_labels() -> None:
    diagram = mf.phase_diagram(mf.mlp(mf.erf), sigma_w=np.linspace(0.5, 2, 12), sigma_b=np.linspace(0.05, 0.5, 10))
    assert repr(diagram).startswith("PhaseDiagram(sigma_w 0.5 ... 2 (12) x sigma_b 0.05 ... 0.5 (10)")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    for quantity in ("chi", "xi_c", "c"):
        ax = diagram.plot(quantity=quantity)
        assert (ax.get_xlabel(), ax.get_ylabel()) == (r"$\sigma_w$", r"$\sigma_b$")
        assert len(ax.lines) == 1
        pyplot.close(ax.figure)
    legend = diagram.plot(quantity="growth_gap").get_legend()
    assert {t.get_text() for t in legend.get_texts()} == {"bounded", "exponential", r"$\chi = 1$"}
    pyplot.close("all")
    with pytest.raises(ValueError, match="quantity = 'J'"):
        diagram.plot(quantity="J")
    if importlib.util.find_spec("xarray") is None:
        with pytest.raises(ImportError, match="xarray"):
            diagram.to_xarray()
        return
    data = diagram.to_xarray()
    assert (data["growth_gap"].values == diagram.growth["gap"]).all()
    assert data["chi"].dims == ("sigma_w", "sigma_b")
    assert data.sizes == {"sigma_w": 12, "sigma_b": 10}


def test_bad_input() -> None:
    net = mf.mlp(mf.tanh)
    with pytest.raises(ValueError, match="over two parameters"):
        mf.phase_diagram(net, sigma_w=WEIGHTS, sigma_b=0.1)
    with pytest.raises(ValueError, match="ascending"):
        mf.phase_diagram(net, sigma_w=WEIGHTS[::-1], sigma_b=BIASES)
    with pytest.raises(ValueError, match="missing parameters: sigma_b"):
        mf.phase_diagram(net, sigma_w=WEIGHTS)
    with pytest.raises(ValueError, match="q = 0"):
        mf.phase_diagram(net, sigma_w=WEIGHTS, sigma_b=BIASES, q=0)


@pytest.mark.parametrize("order", [4, 6])
def test_a_rate_that_fades_into_rounding_is_no_fixed_point(order: int) -> None:
    """phi = x/(1 + x^m)^(1/m): at sigma_w = 1, sigma_b = 0 q goes to 0 as l^(-2/m), with a bias to what it adds"""
    net = mf.mlp(mf.Activation(mf.x / (1 + mf.x**order) ** sp.Rational(1, order)))
    diagram = mf.phase_diagram(net, sigma_w=[0.9, 1.0, 1.1], sigma_b=[0.0, 1e-8])
    assert diagram.q[1, 0] == 0
    assert [str(diagram.growth[name][1, 0]) for name in ("q", "gap", "apjn")] == ["power", "bounded", "power"]
    assert 2 / order * sp.factorial2(order + 1) * diagram.q[1, 1] ** (order / 2 + 1) == pytest.approx(1e-16, rel=1e-3)


def test_growth_below_rounding_is_growth() -> None:
    """softplus at sigma_w = sqrt(2): q' - q ~ q^(-1/2) without a bias is less than a rounding of q from 1e10 on, where a table only makes
    noise of it; whichever variances a flow comes by, it has no fixed point"""
    weights = math.sqrt(2) * (1 + np.arange(12) * 2.0**-50)
    for start in (1.0, 7.0, 300.0):
        diagram = mf.phase_diagram(mf.mlp(mf.softplus), sigma_w=weights, sigma_b=[0.0, 1e-3], q=start)
        assert (diagram.phase == "divergent").all()
        assert str(diagram.growth["q"][0, 0]) == mf.growth(mf.mlp(mf.softplus), sigma_w=sp.sqrt(2), sigma_b=0).q.kind


def test_a_broken_continuum() -> None:
    """ReLU at sigma_w = sqrt(2): a bias, however small, makes q grow by its square each layer"""
    diagram = mf.phase_diagram(mf.mlp(mf.relu), sigma_w=[1.0, 2**0.5], sigma_b=[0.0, 1e-6, 1e-3, 1e-2])
    assert diagram.q[1].tolist() == [1.0, math.inf, math.inf, math.inf]
    assert diagram.q[0] == pytest.approx([0.0, 2e-12, 2e-6, 2e-4], rel=1e-12)
    assert diagram.growth["q"][1].tolist() == ["bounded", "unresolved", "power", "power"]
    assert diagram.growth["apjn"][1].tolist() == ["bounded", "unresolved", "bounded", "bounded"]


@pytest.mark.parametrize(
    ("phi", "slope", "at_0"), [(mf.tanh, 1, 0), (mf.relu, 1 / 2, 0), (mf.silu, 1 / 4, 0), (mf.sigmoid, 1 / 16, 1 / 2)], ids=repr
)
def test_a_bias_or_a_mean_however_small_keeps_a_variance_from_0(phi: mf.Activation, slope: float, at_0: float) -> None:
    """q* = (sigma_w^2 phi(0)^2 + sigma_b^2)/(1 - sigma_w^2 s) as q -> 0, s = phi'(0)^2 or the mean of both sides: below 1e-12 it was 0,
    with no c* at sigma_w = 0"""
    weights, biases = np.array([0.0, 1e-8, 0.5]), np.array([1e-70, 1e-30, 1e-8])
    diagram = mf.phase_diagram(mf.mlp(phi), sigma_w=weights, sigma_b=biases)
    inside = np.ones((3, 3), dtype=bool) if at_0 == 0 else (weights[:, None] < 0.5) & (biases > 0)
    wanted = ((weights[:, None] * at_0) ** 2 + biases**2) / (1 - weights[:, None] ** 2 * slope)
    assert diagram.q[inside] == pytest.approx(wanted[inside], rel=1e-6)
    assert (diagram.gap == 0).all()
    assert (diagram.phase == "ordered").all()
    assert (diagram.growth["q"] == "bounded").all()
    assert diagram.chi[inside] == pytest.approx((np.broadcast_to(weights[:, None] ** 2 * slope, (3, 3)))[inside], rel=1e-6)


def test_jumps_at_next_to_no_variance() -> None:
    """sign: q* = sigma_w^2, of any size, and pairs become independent"""
    diagram = mf.phase_diagram(mf.mlp(mf.sign), sigma_w=[1e-60, 1e-9, 1.0], sigma_b=[0.0, 1e-70])
    assert diagram.q[:, 0] == pytest.approx([1e-120, 1e-18, 1.0], rel=1e-12)
    assert diagram.c == pytest.approx(0.0, abs=1e-9)
    assert (diagram.phase == "chaotic").all()


def test_slopes_where_the_variance_leaves_its_range() -> None:
    """of relu^2 they grow with q; c has no depth scale there, and none to go to where each is left as it is"""
    grows = mf.phase_diagram(mf.mlp(mf.relu_squared), q=0.5, sigma_w=[0.5, 0.6], sigma_b=[0.1, 1.0])
    assert grows.q[:, 1].tolist() == [math.inf, math.inf]
    assert np.isinf(grows.chi[:, 1]).all()
    assert np.isinf(grows.chi_parallel[:, 1]).all()
    assert np.isnan([grows.xi_c[:, 1], grows.xi_q[:, 1], grows.gap[:, 1]]).all()
    assert np.isfinite([grows.chi[:, 0], grows.xi_c[:, 0], grows.xi_q[:, 0]]).all()
    shrinks = mf.phase_diagram(mf.mlp(mf.tanh), sigma_w=[0.5, 1.0], sigma_b=[0.0, 0.5])
    assert shrinks.q[:, 0].tolist() == [0, 0]
    assert (shrinks.chi[1, 0], shrinks.xi_q[1, 0]) == (1, math.inf)
    assert np.isnan([shrinks.c[:, 0], shrinks.xi_c[:, 0]]).all()
    merges = mf.phase_diagram(mf.mlp(mf.relu), sigma_w=[1.0, 2.0], sigma_b=[0.0, 0.5])
    assert (merges.c == 1).all()
    assert (merges.xi_c == math.inf).tolist() == [[True, False], [True, True]]


def test_more_settings_than_memory_are_refused_before_they_are_made() -> None:
    many = np.broadcast_to(np.linspace(0.5, 2, 400_000), (400_000,))
    with pytest.raises(ValueError, match=r"400,000 values of sigma_w x 400,000 values of sigma_b needs .* GiB.*at most about"):
        mf.phase_diagram(mf.mlp(mf.tanh), sigma_w=many, sigma_b=many)


APART: dict[str, tuple[mf.Block, dict[str, list[float]]]] = {
    "tanh": (mf.Activate(mf.tanh) >> mf.Dropout(0.2) >> mf.Linear(), {"sigma_w": [0.6, 1.1, 1.8], "sigma_b": [0.15, 0.5]}),
    "rate": (mf.Activate(mf.erf) >> mf.Dropout() >> mf.Linear(sigma_b=0.25), {"rate": [1e-12, 0.05, 0.4], "sigma_w": [0.7, 1.6]}),
    "batch norm": (mf.BatchNorm() >> mf.Activate(mf.gelu) >> mf.Linear(), {"sigma_w": [0.7, 1.6], "sigma_b": [0.1, 0.3]}),
    "residual": (
        mf.Residual(mf.LayerNorm() >> mf.Activate(mf.relu) >> mf.Dropout(0.1) >> mf.Linear(), skip=sp.Rational(1, 2)),
        {"sigma_w": [0.7, 1.6], "sigma_b": [0.1, 0.3]},
    ),
}


@pytest.mark.parametrize("name", APART)
def test_where_identical_inputs_come_apart_nothing_is_ordered(name: str) -> None:
    net, axes = APART[name]
    diagram = mf.phase_diagram(net, **axes)
    assert (diagram.phase == "apart").all()
    assert diagram.critical_lines == ()
    (first, x), (second, y) = axes.items()
    for i, j in ((0, 0), (len(x) - 1, 1), (1, 0)):
        given = {first: x[i], second: y[j]}
        (point,) = mf.fixed_points(net, **given)
        assert (diagram.q[i, j], diagram.gap[i, j]) == (pytest.approx(point.q, rel=1e-12), pytest.approx(point.gap, rel=1e-10))
        assert diagram.chi[i, j] == pytest.approx(point.chi, rel=1e-7, abs=1e-12)
        assert diagram.xi_c[i, j] == pytest.approx(point.xi_c, rel=1e-6, abs=1e-12)
        law = mf.growth(net, **given)
        assert [str(diagram.growth[k][i, j]) for k in ("q", "gap", "apjn")] == [law.q.kind, law.gap.kind, law.apjn.kind]


def test_one_diagram_with_and_without_masks() -> None:
    """at rate 0 what it is without Dropout, with its critical point on that edge; none beyond"""
    net = mf.Activate(mf.erf) >> mf.Dropout() >> mf.Linear(sigma_b=0.2)
    diagram = mf.phase_diagram(net, rate=[0.0, 0.1], sigma_w=np.linspace(0.6, 1.8, 5))
    plain = mf.phase_diagram(mf.mlp(mf.erf), sigma_w=np.linspace(0.6, 1.8, 5), sigma_b=[0.2, 0.3])
    assert (diagram.phase[0] == plain.phase[:, 0]).all()
    assert diagram.gap[0] == pytest.approx(plain.gap[:, 0], rel=1e-11)
    assert (diagram.phase[1] == "apart").all()
    assert diagram.critical_lines == ()


@pytest.mark.parametrize("w", [0.9, 2.1])
def test_growth_of_what_leaves_the_range_with_masks(w: float) -> None:
    """relu: c' = (1 - rate) kappa(c) wherever q is, and J grows with 1/(1 - rate)"""
    net = mf.Activate(mf.relu) >> mf.Dropout(0.15) >> mf.Linear()
    diagram = mf.phase_diagram(net, sigma_w=[w, w + 0.1], sigma_b=[0.0, 0.2])
    law = mf.growth(net, sigma_w=w, sigma_b=0)
    words = [str(diagram.growth[k][0, 0]) for k in ("q", "gap", "apjn")]
    assert words == [law.q.kind, law.gap.kind, law.apjn.kind] == ["exponential", "bounded", "exponential"]
    assert diagram.phase[0, 0] == ("apart" if w < 1 else "divergent")
    assert math.isnan(diagram.c[0, 0])


@pytest.mark.parametrize("phi", [mf.relu, mf.leaky_relu(0.1), mf.identity, mf.abs], ids=["relu", "leaky", "linear", "abs"])
def test_a_homogeneous_network_keeps_its_gradient_on_the_edge(phi: mf.Activation) -> None:
    """dq'/dq = 1 there since each q stays, or grows by the same amount: no approach to a fixed point as 1/l, which would carry J along"""
    edge = 1 / sp.sqrt(phi.second_moment(1))
    diagram = mf.phase_diagram(mf.mlp(phi), sigma_w=[0.5, float(edge)], sigma_b=[0.0, 0.3])
    for j, bias in enumerate((0, sp.Rational(3, 10))):
        law = mf.growth(mf.mlp(phi), sigma_w=edge, sigma_b=bias)
        assert [str(diagram.growth[k][1, j]) for k in ("q", "gap", "apjn")] == [law.q.kind, law.gap.kind, law.apjn.kind]
        assert law.apjn.kind == "bounded"


def test_where_other_variances_move_the_gradient_is_a_power() -> None:
    """q' = (3 q^2 - 2 q + 3)/4 touches q at 1, where chi = q: J is carried along as q comes as 1/l"""
    net = mf.mlp(mf.Activation(mf.x**2 - 1))
    diagram = mf.phase_diagram(net, sigma_w=[0.25, 0.5], sigma_b=[0.1, 0.5**0.5])
    assert [str(diagram.growth[k][1, 1]) for k in ("q", "apjn")] == ["bounded", "power"]
    run = mf.propagate(net, 20_000, q=0.5, sigma_w=0.5, sigma_b=0.5**0.5)
    slope = (run.log_apjn_forward[-1] - run.log_apjn_forward[10_000]) / math.log(2)
    assert slope == pytest.approx(-4 / 3, rel=1e-2)


MU = sp.Symbol("mu")


@pytest.mark.parametrize(
    "net",
    [
        mf.Residual(mf.Activate(mf.erf) >> mf.Linear(sigma_b=0), skip=MU),
        mf.Residual(mf.LayerNorm() >> mf.Activate(mf.erf) >> mf.Linear(sigma_b=0), skip=MU),
    ],
    ids=["plain", "norm"],
)
def test_the_identity_is_critical_and_leaves_each_c_as_it_is(net: mf.Block) -> None:
    diagram = mf.phase_diagram(net, mu=[0.5, 1.0], sigma_w=[0.0, 0.5])
    assert (diagram.phase[1, 0], diagram.status[1, 0], diagram.q[1, 0]) == ("critical", "c open", 1.0)
    assert np.isnan(diagram.c[1, 0])
    assert {name: str(words[1, 0]) for name, words in diagram.growth.items()} == dict.fromkeys(("q", "gap", "apjn"), "bounded")


def test_where_only_the_slope_is_one_pairs_go_to_one() -> None:
    diagram = mf.phase_diagram(
        mf.mlp(mf.leaky_relu(0.2)), sigma_w=[1.0, float(mf.critical(mf.mlp(mf.leaky_relu(0.2)), sigma_b=0)["sigma_w"])], sigma_b=[0.0, 0.5]
    )
    assert (diagram.phase[1, 0], diagram.status[1, 0], diagram.c[1, 0], diagram.growth["gap"][1, 0]) == ("critical", "ok", 1.0, "power")


@pytest.mark.parametrize(
    ("f", "kind"),
    [
        (sp.root(1 + mf.x**2, 4), "quasi-polynomial"),  # E phi'^2 ~ ln q/sqrt(q), E phi^2 ~ sqrt(q)
        (sp.root(1 + mf.x**2, 4) * sp.log(2 + mf.x**2), "quasi-polynomial"),
        (sp.root(1 + mf.x**2, 3), "power"),
        (sp.Abs(mf.x) ** sp.Rational(3, 5), "power"),
        (sp.atan(mf.x), "stretched"),
    ],
    ids=str,
)
def test_the_word_for_j_is_that_of_its_law_also_where_ln_j_is_a_square_of_ln_l(f: sp.Expr, kind: str) -> None:
    net = mf.Residual(mf.Activate(mf.Activation(f)) >> mf.Linear())
    diagram = mf.phase_diagram(net, sigma_w=[0.5, 1.0, 3.0], sigma_b=[0.0, 0.5])
    assert set(diagram.growth["apjn"].ravel()) == {kind} == {mf.growth(net, sigma_w=1, sigma_b=0).apjn.kind}


def test_ordinary_settings_have_a_fixed_point_whatever_a_table_rounds() -> None:
    """settings whose last Newton steps are those of the error of a table, and of a function that jumps"""
    net = mf.residual_mlp(mf.sin, skip=sp.Symbol("mu", positive=True))
    mu, bias = np.linspace(0.1, 1, 400)[:12], np.linspace(0.01, 1.5, 400)[:8]
    smooth = mf.phase_diagram(net, sigma_w=0.7, mu=mu, sigma_b=bias)
    assert (smooth.phase == "ordered").all()
    one = mf.fixed_points(net, sigma_w=0.7, mu=float(mu[9]), sigma_b=float(bias[0]))[0]
    assert (smooth.q[9, 0], smooth.chi[9, 0]) == pytest.approx((one.q, one.chi), rel=1e-11)
    weights, biases = np.linspace(0.3, 3, 150)[32:40], np.linspace(0.01, 1.5, 150)[20:28]
    jumps = mf.phase_diagram(mf.mlp(mf.hard_shrink), sigma_w=weights, sigma_b=biases)
    assert not np.isnan(jumps.q).any()
    first = mf.fixed_points(mf.mlp(mf.hard_shrink), sigma_w=float(weights[2]), sigma_b=float(biases[5]))[0]
    assert (jumps.q[2, 5], jumps.chi_parallel[2, 5]) == pytest.approx((first.q, first.chi_parallel), rel=1e-10)


@pytest.mark.parametrize("phi", [mf.exp, mf.Activation(sp.sinh(mf.x))], ids=["exp", "sinh"])
def test_what_grows_faster_than_doubles_keeps_pairs_apart(phi: mf.Activation) -> None:
    """E phi(u) phi(v) ~ exp(q + p): c' ~ exp(-(q - p)) goes to 0 as q does to infinity"""
    diagram = mf.phase_diagram(mf.mlp(phi), sigma_w=[1.2, 2.0], sigma_b=[0.3, 1.0])
    assert (diagram.phase == "divergent").all()
    assert {name: set(words.ravel()) for name, words in diagram.growth.items()} == {"q": {"faster"}, "gap": {"bounded"}, "apjn": {"faster"}}
    run = mf.propagate(mf.mlp(phi), 1, 20.0, gap=1e-3, sigma_w=1.2, sigma_b=0.3)
    assert run.gap[1] == pytest.approx(-math.expm1(-20e-3), rel=1e-12)


@pytest.mark.parametrize(
    ("net", "kept"),
    [
        (mf.residual_mlp(mf.tanh, norm=mf.LayerNorm(), skip=0.5), 0.25),
        (mf.residual_mlp(mf.silu, norm=mf.RMSNorm(), skip=0.9), 0.81),
        (mf.LayerNorm() >> mf.mlp(mf.tanh), 0.0),
    ],
    ids=["LayerNorm", "RMSNorm", "no skip"],
)
def test_behind_a_norm_tables_are_asked_for_one_variance(net: mf.Block, kept: float) -> None:
    """q* = (sigma_w^2 E phi(z)^2 + sigma_b^2)/(1 - kept), z of variance 1"""
    weights, biases = np.linspace(0.5, 3.0, 5), np.linspace(0.01, 1.0, 4)
    diagram = mf.phase_diagram(net, sigma_w=weights, sigma_b=biases)
    phi = mf.silu if kept == 0.81 else mf.tanh
    z, w = np.polynomial.hermite_e.hermegauss(120)
    second = float(w @ sp.lambdify(mf.x, phi.expression, "numpy")(z) ** 2 / math.sqrt(2 * math.pi))
    expected = (weights[:, None] ** 2 * second + biases**2) / (1 - kept)
    assert np.allclose(diagram.q, expected, rtol=1e-9)
    settings_agree(net, ("sigma_w", "sigma_b"), diagram, 3)
